"""The folder beneath which agents may read: names are resolved by descriptors, so no link leads out of it."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import NamedTuple

from fxtio.cli.inputs import UsageError

_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)

_MOST_FILES = 100_000  # in a trace that is a folder


class Opened(NamedTuple):
    """An open file or folder: its name from the root, its descriptor, its size in bytes, None for a folder.

    `path` is what opens it where the descriptor is known: on Linux that file, whatever has become of its name.
    """

    name: PurePath
    fd: int
    size: int | None
    path: str


class Root:
    """A folder beneath which files are opened, and nothing else.

    Raises:
        UsageError: the system cannot open files by the descriptor of their folder.
        OSError: it is no folder, or cannot be opened.
    """

    def __init__(self, folder: str) -> None:
        if os.open not in os.supports_dir_fd:
            raise UsageError("this system cannot open files by the descriptor of their folder, as `fxtio mcp` has to")
        self._path = Path(folder).resolve(strict=True)
        self._fd = os.open(self._path, _OPEN | os.O_DIRECTORY)

    @contextmanager
    def open(self, name: str) -> Iterator[Opened]:
        """Open a file or folder beneath the root; the end of the `with` block closes it.

        Links are followed first, as far as they stay beneath the root.  What is opened then is reached without links,
        so that whoever changes names meanwhile gets an error, and nothing from elsewhere.

        Raises:
            UsageError: it is outside of the root, or is neither a file nor a folder.
            OSError: it cannot be opened.
        """
        try:
            inner = Path(os.path.realpath(self._path / name)).relative_to(self._path)
        except ValueError:  # also for names with a null character
            raise UsageError(f"{name!r} is not beneath the folder that this server may read") from None
        fd = os.dup(self._fd)
        try:
            for part in inner.parts:
                outer, fd = fd, os.open(part, _OPEN, dir_fd=fd)
                os.close(outer)
            status = os.fstat(fd)
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                raise UsageError(f"{name} is neither a file nor a folder")
            size = status.st_size if stat.S_ISREG(status.st_mode) else None
            yield Opened(inner, fd, size, f"/proc/self/fd/{fd}" if sys.platform == "linux" else str(self._path / inner))
        except OSError as error:
            raise OSError(error.errno, error.strerror, name) from None
        finally:
            os.close(fd)


def refuse_links(folder: Opened) -> None:
    """Make sure that a trace that is a folder has no links in it, which readers would follow.

    Raises:
        UsageError: it has one, or too many files to look at.
    """
    left = _MOST_FILES
    for _, folders, files, fd in os.fwalk(".", dir_fd=folder.fd):
        left -= len(folders) + len(files)
        if left < 0:
            raise UsageError(f"{folder.name} has more than {_MOST_FILES:,} files in it")
        for each in (*folders, *files):
            if stat.S_ISLNK(os.stat(each, dir_fd=fd, follow_symlinks=False).st_mode):
                raise UsageError(f"{folder.name} has a link in it, {each}, which is not followed")
