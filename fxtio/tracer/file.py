"""The file of a recording: made valid before the first event, squeezed when the last one is there."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from fxtio.codec.generate import encode
from fxtio.fxt.records import Initialization, Magic, ProviderInfo
from fxtio.tracer.archive import part_records, remove, squeezed
from fxtio.tracer.clock import RecordingClock
from fxtio.tracer.layout import LAYOUT

_MIB = 1024 * 1024
DEFINITIONS = 2 * _MIB
"""Bytes for definitions in front of the file; they are taken from the disk as they are used."""

PAGE = 64 * 1024
"""Bytes of which the events begin at a multiple: no machine has larger pages, which is what is mapped."""

_LARGEST_FILLER = 4095 * 8
_ALWAYS_SQUEEZED = 128 * _MIB
_FAR = 900
COMPRESSED = (".zst", ".gz", ".xz")
"""What a name ends in that asks for compression."""


class RecordingFile:
    """The file while it is recorded.

    It appears under its name when it is valid, and is valid from then on.  A name that asks for compression is for the
    end: until then the records are in a file beside it, `.part` behind its name.

    Args:
        path: the name.
        provider: who records: id and name.
        clock: the clock of the recording.
        limit: the most bytes that it may have, 0 for any number.
        keep: leave the file as it is at the end, for the parent process to take what is in it.

    Attributes:
        path: the name of the finished trace.
        live: the name of the file that is recorded to.
        fd: its descriptor.
        definitions: where the definitions begin (bytes).
        end: where they end, and the events begin.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        provider: tuple[int, str],
        clock: RecordingClock,
        *,
        limit: int = 0,
        keep: bool = False,
    ) -> None:
        self._keep = keep
        self.path = Path(path).resolve()  # the program may change its directory
        refuse_unwritable(self.path)
        self.live = live_of(self.path)
        self._open = opener(self.path)  # now: at the end there may be nothing left to import it with
        front = encode(Magic()) + encode(ProviderInfo(*provider))
        self._clock_at = len(front) + 8
        front += encode(Initialization(clock.rate, 0, clock.wall_ns))
        self.definitions = len(front)
        room = min(DEFINITIONS, limit // 4) if limit else DEFINITIONS
        self.end = -(-(len(front) + room) // PAGE) * PAGE
        begun = self.live.with_name(f".{self.live.name}.{os.getpid()}")
        self.fd = far(os.open(begun, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666))
        status = os.fstat(self.fd)
        self._identity = status.st_dev, status.st_ino
        try:
            os.ftruncate(self.fd, self.end)
            os.pwrite(self.fd, front, 0)
            for at in range(len(front), self.end, _LARGEST_FILLER):
                os.pwrite(self.fd, _filler(min(_LARGEST_FILLER, self.end - at)), at)
            begun.replace(self.live)
        except BaseException:
            os.close(self.fd)
            begun.unlink(missing_ok=True)
            raise

    def set_rate(self, rate: int, copy: int | None = None) -> None:
        """Correct the clock's rate, or the one in a copy of the file."""
        if copy is not None or self._is_ours():
            os.pwrite(self.fd if copy is None else copy, rate.to_bytes(8, "little"), self._clock_at)

    def _is_ours(self) -> bool:
        """Whether the descriptor still is of our file: a program may close what it did not open."""
        with contextlib.suppress(OSError):
            status = os.fstat(self.fd)
            return (status.st_dev, status.st_ino) == self._identity
        return False

    def leave(self) -> None:
        """Close it as it is."""
        if self._is_ours():
            os.close(self.fd)

    def finish(self, recorder: Any, rate: int, parts: list[Path]) -> None:
        """Take the fillers out, put the parts of child processes behind, compress if the name asks for it, and close.

        Raises:
            OSError: the disk is full, or the like; then the files stay as they are, which are complete and valid.
        """
        if not self._is_ours():
            raise OSError(errno.EBADF, "the program has closed the recording; it stays as it was", str(self.live))
        try:
            if not self._keep:
                self._join(
                    itertools.chain.from_iterable(part_records(part, rate, recorder) for part in parts), recorder
                )
                remove(parts)
        finally:
            os.close(self.fd)

    def _join(self, parts: Iterable[memoryview], recorder: Any) -> None:
        if self.live != self.path or os.fstat(self.fd).st_size <= _ALWAYS_SQUEEZED:
            replace(self.path, itertools.chain(squeezed(self.fd, recorder), parts), self._open)
            if self.live != self.path:
                self.live.unlink(missing_ok=True)
            return
        with open(os.dup(self.fd), "r+b") as file:
            file.seek(0, os.SEEK_END)
            file.writelines(parts)


def live_of(path: Path) -> Path:
    """Where the trace is recorded to: the file itself, or for one that will be compressed another beside it."""
    return path.with_name(f"{path.name}.part") if path.suffix in COMPRESSED else path


def opener(path: Path) -> Callable[[Path], Any]:
    """What opens a file to write the final trace to."""
    if path.suffix not in COMPRESSED:
        return partial(open, mode="wb")
    from fxtio.io.sink import open_sink

    return open_sink


def replace(path: Path, pieces: Iterable[memoryview], opened: Callable[[Path], Any]) -> None:
    """Write a file that appears under its name when it is whole.

    Raises:
        OSError: it cannot be written; then nothing has changed.
    """
    done = path.with_name(f".{path.stem}.{threading.get_native_id()}{path.suffix}")
    try:
        with contextlib.closing(opened(done)) as sink:
            for piece in pieces:
                sink.write(piece)
        done.replace(path)
    except BaseException:
        done.unlink(missing_ok=True)
        raise


def refuse_unwritable(path: Path) -> None:
    """What is there is replaced only if it is a file that could have been written over."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is no regular file", str(path))
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def far(fd: int) -> int:
    """The same file under a high number, which programs do not come upon by chance."""
    try:
        far = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FAR)
    except OSError:
        return fd
    os.close(fd)
    return far


def _filler(size: int) -> bytes:
    """The header of a record of so many bytes that every reader skips.  spec: String record"""
    return (LAYOUT["filler"] + size // 8 * LAYOUT["size"]).to_bytes(8, "little")
