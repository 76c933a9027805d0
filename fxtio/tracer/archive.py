"""The parts of a trace: each process records to a file of its own, and its records follow those of the first one."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import stat
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fxtio.fxt.constants import MAX_RECORD_WORDS
from fxtio.fxt.live_file import HEAD_BYTES, Chunk, Chunks, filler_header, in_order, size_of
from fxtio.shared_folders import open_regular
from fxtio.tracer import encode
from fxtio.tracer.backend import recorder

RUNNING, FOREIGN = "its process still runs", "it belongs to another user"
_SUFFIX = ".part"
_BLOCK_BYTES = 256 * 1024
_LARGE_WORDS = 512  # of fillers: smaller ones are read sooner than they are looked at one by one
_CHUNKS_AT_ONCE = 8
_MAX_LOADED_BYTES = 256 * 1024 * 1024
_LATEST_TICK = 2**64 - 1
_PAGES_IN_SAMPLE = 512
_LABEL = r"(?P<pid>[0-9]+)(-[0-9]+)?"


class Front(NamedTuple):
    """The records with which the file of a recording begins: magic number, provider, clock.

    Attributes:
        pid: the process, which is the provider.
        name: its name.
        rate: the rate of the clock in ticks per second.
        wall_ns: nanoseconds since the Unix epoch at tick 0.
    """

    pid: int
    name: str
    rate: int
    wall_ns: int

    @classmethod
    def read(cls, path: Path, owner: int) -> Front | None:
        """Return the front of a file, or None if the file is not a recording of this user, or cannot be read."""
        return cls.parse(_head_of(path, owner))

    @classmethod
    def parse(cls, data: bytes) -> Front | None:
        """Return the front with which these bytes begin, or None if they are not a recording's."""
        values = encode.front_of(data)
        front = None if values is None else cls(*values)
        return front if front is not None and data.startswith(front.encode()) else None

    def encode(self) -> bytes:
        """Return the bytes of the records."""
        return encode.MAGIC + encode.provider(self.pid, self.name) + encode.clock(self.rate, self.wall_ns)

    @property
    def clock_offset(self) -> int:
        """The offset of the clock's record in bytes."""
        return len(encode.MAGIC) + len(encode.provider(self.pid, self.name))

    def encode_clock(self, rate: int) -> bytes:
        """Return the bytes of the clock's record with another rate, in ticks per second."""
        return encode.clock(rate, self.wall_ns)


def _head_of(path: Path, owner: int) -> bytes:
    """Return the first bytes of a file, none if it is another user's, or cannot be read."""
    with contextlib.suppress(OSError), open(open_regular(path, owner), "rb") as file:
        return file.read(HEAD_BYTES)
    return b""


def part_of(path: Path, pid: int, wall_ns: int) -> Path:
    """Return where a child process records its part of a trace whose tick 0 is at a time since the epoch.

    A process that becomes another program (`exec`) keeps its id and its earlier part: then the name gets a number.  So
    it does if somebody else has put something there.  The time tells parts of this recording from earlier ones.
    """
    for ending in itertools.chain([""], (f"-{number}" for number in itertools.count(1))):
        part = path.with_name(f"{path.name}.{pid}{ending}{_SUFFIX}")
        if not os.path.lexists(part):
            return part
        front = Front.read(part, os.geteuid())
        if front is not None and front.wall_ns != wall_ns:
            return part
    raise AssertionError


def pid_of(label: str) -> int | None:
    """Return the process id in the label of a part, which is between the name of the trace and the suffix, or None."""
    match = re.fullmatch(_LABEL, label)
    return int(match["pid"]) if match else None


def pid_of_part(path: Path, part: Path) -> int | None:
    """Return the process that recorded a part of a trace, None if the file is not named like one."""
    is_named_so = part.name.startswith(f"{path.name}.") and part.name.endswith(_SUFFIX)
    return pid_of(part.name[len(path.name) + 1 : -len(_SUFFIX)]) if is_named_so else None


def parts_and_faults(path: Path, wall_ns: int, owner: int) -> Iterator[tuple[Path, str]]:
    """Yield all files that look like parts of a trace, and why each is not one, or an empty text.

    Args:
        path: the trace.
        wall_ns: the time of tick 0; parts of an earlier recording with the same name have another.
        owner: the user of the trace; others may have put files there.
    """
    for part in sorted(_files_beside(path, f"{path.name}.")):
        pid = pid_of_part(path, part)
        if pid is not None:
            head = _head_of(part, owner)
            front = Front.parse(head)
            if front is None or front.wall_ns != wall_ns:
                yield part, "it is not a part of this recording" if owner_of(part) in (owner, None) else FOREIGN
            else:
                yield part, RUNNING if Chunks.of(head) and is_alive(pid) else ""


class DamagedError(OSError):
    """A file has something else than records before its end."""


class Tally:
    """The number of events that were copied to a finished recording.

    Attributes:
        events: the number of events; those in files that had ended before are not counted.
        is_estimate: a large file was not read as a whole; its events were counted in a sample of its pages.
    """

    def __init__(self) -> None:
        self.events = 0
        self.is_estimate = False

    def add_sample(self, fd: int, chunks: Chunks) -> None:
        """Add about as many events as a recording has in its chunks."""
        pages = max((os.fstat(fd).st_size - chunks.begin) // chunks.page, 0)
        sample = sorted({number * pages // _PAGES_IN_SAMPLE for number in range(_PAGES_IN_SAMPLE)} if pages else ())
        output = bytearray(MAX_RECORD_WORDS * 8)
        in_sample = 0
        for page in sample:
            place = chunks.records_of(chunks.begin + page * chunks.page)
            records = os.pread(fd, len(place), place.start)
            in_sample += recorder.merge((records,), array("Q", [0]), _LATEST_TICK, output)[1]
        self.events += in_sample * pages // max(len(sample), 1)
        self.is_estimate = True


def squeezed(fd: int, *, name: str = "", tally: Tally | None = None) -> Iterator[memoryview]:
    """Read the records of a file without the fillers, block by block, and events in the order of time.

    An incomplete last record is left out.  The records of a file that had ended before stay in their order.

    Args:
        fd: the file.
        name: the name of the file for the message when it is damaged; without it, damaged parts are left out.
        tally: counts what is read.

    Yields:
        Blocks of whole records; each is valid until the next one.

    Raises:
        DamagedError: something else than a record follows.
        OSError: the file cannot be read.
    """
    chunks = Chunks.of(os.pread(fd, HEAD_BYTES, 0))
    yield from _in_file_order(fd, name, chunks.begin if chunks else None)
    if chunks is not None:
        yield from _in_time_order(fd, name, chunks, tally or Tally())


def _in_file_order(fd: int, name: str, end: int | None) -> Iterator[memoryview]:
    """Read the records of a file without the fillers, up to an offset in bytes, see `squeezed`."""
    buffer = bytearray(min(_BLOCK_BYTES, max(end or os.fstat(fd).st_size, MAX_RECORD_WORDS * 8)))
    offset = 0
    while size := os.preadv(fd, [memoryview(buffer)[: end and end - offset]], offset):
        with memoryview(buffer) as view, view[:size] as block:
            examined, left = recorder.squeeze(block)
            yield block[: left * 8]
        if not examined:
            if name and _is_damage(buffer[:size]):
                raise _damaged(name, offset)
            return
        offset += examined * 8
        if end is not None:
            offset = _after_fillers(fd, offset, end)


def _after_fillers(fd: int, offset: int, end: int) -> int:
    """Return the offset of the first record from this one on that is no large filler, or is not whole before the end.

    Of the room for definitions most has never been written, and to read it would take longer than all else.
    """
    while True:
        header = int.from_bytes(os.pread(fd, 8, offset), sys.byteorder)
        size = size_of(header)
        if size < _LARGE_WORDS or header != filler_header(size) or offset + size * 8 > end:
            return offset
        offset += size * 8


def _in_time_order(fd: int, name: str, chunks: Chunks, tally: Tally) -> Iterator[memoryview]:
    """Read the events in the chunks of a recording, see `squeezed`.

    Chunks are loaded in the order of their first events.  What is loaded is merged up to the first event of the next
    chunk.
    """
    waiting = in_order(chunks, lambda offset, target: os.preadv(fd, [target], offset))
    following = next(waiting, None)
    loaded: list[_Loaded] = []
    room = os.fstat(fd).st_size - chunks.begin
    output = bytearray(min(_BLOCK_BYTES, max(room, MAX_RECORD_WORDS * 8)))
    while loaded or following:
        for _ in range(_CHUNKS_AT_ONCE):
            if following is not None:
                loaded.append(_Loaded.read(fd, following))
                following = next(waiting, None)
        limit = _LATEST_TICK if following is None else max(following.tick - 1, 0)
        if sum(len(chunk.data) for chunk in loaded) > _MAX_LOADED_BYTES:  # only where times are wrong
            limit = _LATEST_TICK
        yield from _merged(loaded, limit, output, tally)
        for chunk in loaded:
            if name and chunk.is_damaged(os.fstat(fd).st_size):
                raise _damaged(name, chunk.offset + chunk.position * 8)
        loaded = [chunk for chunk in loaded if chunk.has_records]


class _Loaded:
    """A chunk in memory.

    Attributes:
        offset: its byte offset in the file.
        data: its bytes.
        position: the index of the word where its next record begins.
    """

    def __init__(self, offset: int, data: bytearray) -> None:
        self.offset = offset
        self.data = data
        self.position = 0

    @classmethod
    def read(cls, fd: int, chunk: Chunk) -> _Loaded:
        """Read a chunk; it has fewer bytes if the file became shorter."""
        data = bytearray(chunk.size)
        del data[os.preadv(fd, [data], chunk.offset) :]
        return cls(chunk.offset, data)

    @property
    def _next_size(self) -> int:
        """Return the bytes of the next record."""
        begin = self.position * 8
        return size_of(int.from_bytes(self.data[begin : begin + 8], sys.byteorder)) * 8

    @property
    def has_records(self) -> bool:
        """Whether a whole record follows."""
        return 0 < self._next_size <= len(self.data) - self.position * 8

    def is_damaged(self, file_size: int) -> bool:
        """Return whether something else than a record follows, in a file of this size in bytes."""
        left = len(self.data) - self.position * 8
        is_cut = self._next_size > 0 and self.offset + len(self.data) == file_size
        return left >= 8 and not self.has_records and not is_cut


def _merged(loaded: list[_Loaded], limit: int, output: bytearray, tally: Tally) -> Iterator[memoryview]:
    """Merge the records of chunks up to a tick, block by block."""
    buffers, positions = tuple(chunk.data for chunk in loaded), array("Q", [chunk.position for chunk in loaded])
    words = 1
    while words:
        words, events = recorder.merge(buffers, positions, limit, output)
        tally.events += events
        with memoryview(output) as view:
            yield view[: words * 8]
    for chunk, position in zip(loaded, positions, strict=True):
        chunk.position = position


def _is_damage(rest: bytes | bytearray) -> bool:
    """Return whether what is left of a file is not even the start of a record."""
    return len(rest) >= 8 and not size_of(int.from_bytes(rest[:8], sys.byteorder))


def _damaged(name: str, offset: int) -> DamagedError:
    return DamagedError(errno.EILSEQ, f"damaged at byte {offset:,}", name)


def part_records(
    path: Path, rate: int, owner: int, *, checked: bool = False, tally: Tally | None = None
) -> Iterator[memoryview]:
    """Read the records of a child process, which shares the clock of its parent, see `squeezed`.

    Args:
        path: the part.
        rate: the rate of the clock in ticks per second that was measured since.
        owner: the user of the trace.
        checked: refuse a part that is damaged.
        tally: counts what is read.

    Raises:
        DamagedError: the part is damaged.
        OSError: the part cannot be read, or belongs to another user.
    """
    fd = open_regular(path, owner)
    try:
        for number, block in enumerate(squeezed(fd, name=str(path) if checked else "", tally=tally)):
            if number == 0 and (front := Front.parse(bytes(block[:HEAD_BYTES]))) is not None:
                clock = front.encode_clock(rate)
                block[front.clock_offset : front.clock_offset + len(clock)] = clock
            yield block
    finally:
        os.close(fd)


def abandoned(trace: Path, owner: int) -> list[Path]:
    """Return the files that killed processes of a user had begun to write for a trace, its parts or its dumps.

    Everything in them is in the recording as well.  Their names are those of `fxtio.shared_folders`.
    """
    stem = trace.name.partition(".")[0]
    pattern = re.compile(rf"\.{re.escape(stem)}(-\d+)*(\.[^.]+)*\.(?P<pid>\d+)-[\da-f]+(\.\w+)?")
    candidates = [(path, pattern.fullmatch(path.name)) for path in _files_beside(trace, f".{stem}")]
    own = [(path, match) for path, match in candidates if match and owner_of(path) == owner]
    return sorted(path for path, match in own if not is_alive(int(match["pid"])))


def owner_of(path: Path) -> int | None:
    """Return the user to whom a regular file belongs; None if it is none, or is not there."""
    with contextlib.suppress(OSError):
        status = os.lstat(path)
        return status.st_uid if stat.S_ISREG(status.st_mode) else None
    return None


def remove(paths: list[Path]) -> None:
    """Remove files, as far as possible."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()


def is_alive(pid: int) -> bool:
    """Return whether a process runs."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # a number may come from the name of a file
        return False
    except PermissionError:
        return True
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # its name may be any bytes
        return file.read().rpartition(b")")[2].split()[0] not in b"ZX"  # it has ended, but nobody has waited for it
    return True


def _files_beside(path: Path, beginning: str) -> list[Path]:
    """Return the files of the folder of a file whose names begin so; none if the folder cannot be read.

    `Path.glob` would import modules when it is called first, and a recording may end where nothing can be imported.
    """
    with contextlib.suppress(OSError):
        return [file for file in path.parent.iterdir() if file.name.startswith(beginning)]
    return []
