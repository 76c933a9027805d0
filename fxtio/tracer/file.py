"""The file of a recording: a valid trace before the first event, without fillers after the last one."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from fxtio.fxt.constants import MAX_RECORD_WORDS
from fxtio.fxt.live_file import Chunks, filler
from fxtio.shared_folders import naming, replacing, resolved
from fxtio.tracer.archive import Front, Tally, part_records, remove, squeezed
from fxtio.tracer.backend import NOT_FINISHED, recorder
from fxtio.tracer.clock import RecordingClock
from fxtio.tracer.elsewhere import run_elsewhere
from fxtio.tracer.options import COMPRESSED

_MIB = 1024 * 1024
DEFINITION_BYTES = 2 * _MIB
"""Bytes for definitions at the front of the file; the disk provides them as they are used."""

PAGE_BYTES = 64 * 1024
"""The events begin at a multiple of this, because whole pages are mapped; no machine has larger pages."""

_MAX_FILLER_BYTES = MAX_RECORD_WORDS * 8
_SQUEEZED_UP_TO = 128 * _MIB
"""A larger file keeps its fillers, since rewriting it would take long."""

_PACKED_FROM = 64 * _MIB
"""A smaller file is read as a whole in no time."""

_HIGH_DESCRIPTOR = 900


class RecordingFile:
    """The file while it is recorded.

    It appears under its name when it is valid, and is valid from then on.  If the name asks for compression, the events
    are recorded to a file with `.part` after that name, which is compressed at the end.

    Args:
        path: the name.
        provider: the process that records: its id and name.
        clock: the clock of the recording.
        limit: the largest size in bytes, 0 for no limit.
        keep: leave the file as it is at the end, because the parent process joins it with its own.

    Attributes:
        path: the name of the finished trace.
        live: the name of the file that is recorded to.
        fd: its descriptor.
        definitions: the offset in bytes where the definitions begin.
        end: the offset in bytes where they end and the events begin.
        chunks: where the events are.
        owner: the user to whom it belongs.
        front: the records with which it begins.

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
        self.path = resolved(path)  # the program may change its directory
        refuse_unwritable(self.path)
        self.live = live_path(self.path)
        self._open = opener(self.path)  # imports what it needs: when the interpreter ends, imports may fail
        self.front = Front(*provider, clock.rate, clock.wall_ns)
        front = self.front.encode()
        capacity = min(DEFINITION_BYTES, limit // 4) if limit else DEFINITION_BYTES
        self.end = -(-(len(front) + capacity) // PAGE_BYTES) * PAGE_BYTES
        self.chunks = Chunks(self.end, recorder.PAGE_BYTES)
        mark = self.chunks.mark()
        self.definitions = len(front) + len(mark)
        self.fd = -1
        try:
            with replacing(self.live, self.path) as fd, naming(self.path):
                self.fd = high_descriptor(fd)
                os.ftruncate(self.fd, self.end)
                os.pwrite(self.fd, front + mark, 0)
                for offset in range(self.definitions, self.end, _MAX_FILLER_BYTES):
                    os.pwrite(self.fd, filler(min(_MAX_FILLER_BYTES, self.end - offset) // 8), offset)
        except BaseException:
            if self.fd >= 0:
                os.close(self.fd)
            raise
        status = os.fstat(self.fd)
        self._identity = status.st_dev, status.st_ino
        self.owner = status.st_uid

    def set_rate(self, rate: int, copy_fd: int | None = None) -> None:
        """Correct the clock's rate in the file, or in a copy of it, to a number of ticks per second."""
        if copy_fd is not None or self._is_ours():
            fd = self.fd if copy_fd is None else copy_fd
            os.pwrite(fd, self.front.encode_clock(rate), self.front.clock_offset)

    def _is_ours(self) -> bool:
        """Return whether the descriptor still belongs to this file: a program may close any descriptor."""
        with contextlib.suppress(OSError):
            status = os.fstat(self.fd)
            return (status.st_dev, status.st_ino) == self._identity
        return False

    def leave(self) -> None:
        """Close the file as it is."""
        if self._is_ours():
            os.close(self.fd)

    @property
    def is_large(self) -> bool:
        """Whether the finished file keeps its fillers, since rewriting it would take long."""
        is_plain = self.live == self.path and not self._keep
        return is_plain and self._is_ours() and os.fstat(self.fd).st_size > _SQUEEZED_UP_TO

    def finish(self, rate: int, parts: list[Path], *, in_order: bool = False) -> Tally:
        """Make the file a finished trace, close it, and return what it has.

        Events are put in order, fillers are removed, parts of child processes are appended, and the file is compressed
        if its name asks for it; a large one is then packed, see `pack_large`.

        Args:
            rate: ticks per second, as measured in the end.
            parts: the parts of child processes; they are removed.
            in_order: each thread's events are in order already, so the file can stay as it is.

        Raises:
            OSError: the file cannot be written; then all files stay as they are, which are valid.
        """
        if not self._is_ours():
            raise OSError(errno.EBADF, "the program has closed the recording; it stays as it was", str(self.live))
        tally, size = Tally(), os.fstat(self.fd).st_size
        try:
            if not self._keep:
                part_blocks = itertools.chain.from_iterable(
                    part_records(part, rate, self.owner, tally=tally) for part in parts
                )
                if in_order:
                    self._append(part_blocks, tally)
                else:
                    self._rewrite(part_blocks, tally)
                remove(parts)
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror or error}; it {NOT_FINISHED}", str(self.live)) from error
        finally:
            os.close(self.fd)
        if not self._keep:
            pack_large(self.path, size)
        return tally

    def _rewrite(self, part_blocks: Iterable[memoryview], tally: Tally) -> None:
        """Replace the file by one without fillers, in the order of time."""
        replace(self.path, itertools.chain(squeezed(self.fd, tally=tally), part_blocks), self._open)
        if self.live != self.path:
            self.live.unlink(missing_ok=True)

    def _append(self, part_blocks: Iterable[memoryview], tally: Tally) -> None:
        """Keep the file, in which the events are in order, and write the records of child processes after it."""
        tally.add_sample(self.fd, self.chunks)
        size = len(self.chunks.mark())
        unmarked = filler(size // 8).ljust(size, b"\0")
        os.pwrite(self.fd, unmarked, self.definitions - size)  # readers need not put it in order any more
        with open(os.dup(self.fd), "r+b") as file:
            file.seek(0, os.SEEK_END)
            file.writelines(part_blocks)


def live_path(path: Path) -> Path:
    """Return where a trace is recorded to: the file itself, or another one beside it if it will be compressed."""
    return path.with_name(f"{path.name}.part") if path.suffix in COMPRESSED else path


def opener(path: Path) -> Callable[[int], Any]:
    """Return what writes a trace with this name to a descriptor, compressed if the suffix asks for it."""
    if path.suffix not in COMPRESSED:
        return partial(open, mode="wb")
    from fxtio.io.sink import sink_of

    if path.suffix == ".zst":
        import zstandard  # noqa: F401  # now: at the end nothing may be importable

    return lambda fd: sink_of(open(fd, "wb", buffering=0), str(path))


def replace(path: Path, blocks: Iterable[memoryview], open_file: Callable[[int], Any]) -> None:
    """Write a file that appears under its name when it is complete.

    Raises:
        OSError: it cannot be written; then nothing has changed.
    """
    with replacing(path) as fd, contextlib.closing(open_file(fd)) as sink:
        for block in blocks:
            sink.write(block)


def pack_large(path: Path, size: int) -> None:
    """Pack a finished trace that ends in `.zst`, see `fxtio.fxt.pack`, if it is large; it stays as it is if that fails.

    Args:
        path: the trace.
        size: the bytes that were recorded.
    """
    if path.suffix == ".zst" and size >= _PACKED_FROM:
        with contextlib.suppress(OSError, RuntimeError):
            run_elsewhere("fxtio.fxt.pack", path)


def refuse_unwritable(path: Path) -> None:
    """Make sure that a file can be created or replaced here.

    Raises:
        OSError: the folder does not exist, or the path is not a regular file, or is not writable.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def high_descriptor(fd: int) -> int:
    """Move a file to a high descriptor, which programs that close low ones do not reach; return it, or the old one."""
    try:
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH_DESCRIPTOR)
    except OSError:
        return fd
    os.close(fd)
    return moved
