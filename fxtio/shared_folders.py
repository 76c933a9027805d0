"""Files in folders where other users may write: whose links are followed, how files are created, replaced and read.

Another user may have put a link, a pipe or a file where one of ours is expected, or does so at the worst moment.  So
what is believed of a file is asked of its descriptor, and a temporary file has a name that nobody can guess.
`docs/explanation/shared-folders.md` has the whole picture.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

_MAX_LINKS = 40  # as Linux
_MAX_STEM = 200  # bytes of a name, which may have 255 in all
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
_user = getattr(os, "geteuid", int)  # where there are no users, all files belong to 0


# ---- Names.


def resolved(path: str | os.PathLike[str]) -> Path:
    """Return the name of the file for which a name stands, after the links to which it leads.

    Raises:
        PermissionError: one of these links belongs to another user, who could choose what is overwritten.
        OSError: they have no end.
    """
    name = Path(path)
    for _ in range(_MAX_LINKS):
        if name.name in ("", os.pardir):
            return Path(os.path.realpath(name))
        name = Path(os.path.realpath(name.parent), name.name)
        try:
            status = name.lstat()
        except OSError:
            return name
        if not stat.S_ISLNK(status.st_mode):
            return name
        if status.st_uid not in (0, _user()):
            reason = f"is a link of user {status.st_uid}, who could choose what is overwritten"
            raise PermissionError(errno.EACCES, reason, os.fspath(path))
        name = name.parent / name.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))


def temporary_name(path: Path) -> Path:
    """Return a name beside that of a file which nobody can guess, with the process and the ending of the file."""
    stem = os.fsdecode(os.fsencode(path.stem)[:_MAX_STEM])
    return path.with_name(f".{stem}.{os.getpid()}-{os.urandom(8).hex()}{path.suffix}")


# ---- Writing.


def opener(path: str, flags: int) -> int:
    """Open a file for `open(..., opener=opener)`, without the links of other users.

    Raises:
        OSError: it cannot be opened.
    """
    direct = flags | getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.open(path, direct, 0o666)
    except OSError:
        if not Path(path).is_symlink():
            raise
    target = resolved(path)
    if target.is_file() or not Path(path).exists():
        return os.open(target, direct, 0o666)
    fd = os.open(path, flags & ~(os.O_CREAT | os.O_TRUNC))  # a device or a pipe, to which /dev/stdout leads
    if stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "is a file without a name, or has taken the place of a pipe", path)
    return fd


@contextlib.contextmanager
def replacing(path: Path, name: str | os.PathLike[str] | None = None) -> Iterator[int]:
    """Create a file that takes the place of another one when the `with` block has ended without an error.

    Args:
        path: the name that it gets, which is no link.
        name: what errors call it, if not so.

    Yields:
        Its descriptor, which the block closes.

    Raises:
        OSError: it cannot be created, or cannot take the place; then nothing has changed.
    """
    temporary = temporary_name(path)
    with naming(name or path):
        fd = os.open(temporary, _NEW, 0o666)
    try:
        yield fd
        with naming(name or path):
            temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let errors of the system name a file in place of the temporary one, whose name nobody knows."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def unnamed_file(folder: Path) -> int:
    """Create a file in a folder that has no name, and vanishes when it is closed; return its descriptor.

    Raises:
        OSError: it cannot be created.
    """
    with contextlib.suppress(AttributeError, OSError):  # not Linux, or a file system that has no such files
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    path = temporary_name(folder / "fxtio")
    fd = os.open(path, _NEW, 0o600)
    path.unlink()
    return fd


# ---- Reading.


def open_regular(path: str | os.PathLike[str], owner: int | None = None, *, dir_fd: int | None = None) -> int:
    """Open a regular file for reading, which never waits as a pipe would.

    Args:
        path: the file.
        owner: follow no link, and refuse the file of another user than this one; None for any.
        dir_fd: the descriptor of the folder from which the path goes on.

    Returns:
        Its descriptor.

    Raises:
        PermissionError: it belongs to another user.
        OSError: it is no regular file, or cannot be opened.
    """
    follow = 0 if owner is None else getattr(os, "O_NOFOLLOW", 0)
    fd = os.open(path, _READ | follow, dir_fd=dir_fd)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", os.fspath(path))
        if owner not in (None, status.st_uid):
            raise PermissionError(errno.EACCES, f"belongs to user {status.st_uid}", os.fspath(path))
    except BaseException:
        os.close(fd)
        raise
    return fd
