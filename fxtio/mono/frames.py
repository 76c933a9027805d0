"""The recordings and buffers of a file: bytes in, frames of whole buffers out, whatever the bytes are.

The header of a buffer gives its size, so the buffers are a chain.  Where the chain breaks, reading goes on at the next
header from which it holds.  A size is accepted unless the bytes behind the buffer contradict it, so the result does not
depend on how the bytes arrive.  Memory grows with the bytes that really come, up to two of the largest allowed buffers.
Buffers are delivered before a fault behind them is reported: findings are in the order of the file.  A file may hold
several recordings in a row, as they come from serial lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.errors import DecodeError
from fxtio.finding import Findings, Level
from fxtio.io.source import Source
from fxtio.mono.headers import BUFFER_HEADER_SIZE, BufferHeader, StreamHeader, buffer_dtype, decode_header
from fxtio.mono.layout import BUFFER_MARK, HEADER_MARK
from fxtio.mono.records import VERSIONS, dialect_of
from fxtio.mono.stream.declare import Dialect

Array = np.ndarray[Any, Any]

BLOCK = 1 << 23
"""The number of bytes that are read at once."""

MAX_BUFFER = 1 << 26
"""The largest size of a buffer that is accepted, in bytes; those of Mono have about 64 KiB."""

MAX_HEADER = 1 << 20
"""The largest header of a recording that is accepted, in bytes."""

_SIZE = slice(buffer_dtype().fields["size"][1], buffer_dtype().fields["size"][1] + 4)  # type: ignore[index]

_MARKS = re.compile(b"|".join(map(re.escape, (BUFFER_MARK, HEADER_MARK))))


@dataclass(frozen=True, slots=True)
class Recording:
    """The part of a file that one header describes.

    Attributes:
        header: its header.
        raw: the bytes of the header.
        dialect: the events of its data version.
        offset: where the header begins, in bytes.
    """

    header: StreamHeader
    raw: bytes
    dialect: Dialect
    offset: int


@dataclass(frozen=True, slots=True)
class Frame:
    """Some buffers of a recording.

    A recording has at least one frame, if only one without buffers.  Frames share their memory: a frame is valid until
    the next one is requested.

    Attributes:
        recording: the recording.
        data: bytes that hold the buffers (uint8).
        base: the offset of `data` in the trace.
        begin: where the events of each buffer begin in `data` (int64).
        end: where they end (int64).
        headers: the headers of the buffers, see `buffer_dtype`.
        cut: whether the last buffer is cut off by the end of the trace.
    """

    recording: Recording
    data: Array
    base: int
    begin: Array
    end: Array
    headers: Array
    cut: bool

    def __len__(self) -> int:
        return len(self.begin)

    def header(self, number: int) -> BufferHeader:
        """Return the header of a buffer."""
        row = self.headers[number]
        return BufferHeader(**{name: int(row[name]) for name in BufferHeader.__struct_fields__})

    def select(self, numbers: Array) -> Frame:
        """Return a frame of some of the buffers, given by indices or a mask."""
        cut = self.cut and len(self) - 1 in np.arange(len(self))[numbers]
        headers = self.headers[numbers]
        return Frame(self.recording, self.data, self.base, self.begin[numbers], self.end[numbers], headers, cut)


class Framer:
    """Finds the buffers of a trace.

    Args:
        source: gives the bytes.
        findings: takes the faults.
        data_version: the data version of all events, in place of that in the header.

    Attributes:
        first: the first recording, as soon as its header is read.
    """

    def __init__(self, source: Source, findings: Findings, data_version: float | None = None) -> None:
        self._data_version = data_version
        self._source = source
        self._findings = findings
        self._data: Array = np.empty(BLOCK, np.uint8)
        self._view = self._data.data
        self._cursor = 0  # where the next header is expected
        self._filled = 0
        self._at_end = False  # the source has no more bytes
        self._base = 0
        self._recording: Recording | None = None
        self._without_frame = False  # the recording had no frame yet
        self.first: Recording | None = None
        self._buffers: list[tuple[int, int]] = []  # begin and end of the buffers of the next frame

    def __iter__(self) -> Iterator[Frame]:
        while True:
            if not self._fits(BUFFER_HEADER_SIZE):
                yield from self._frame()  # makes room
            if not self._load(1):
                break
            if self._load(len(HEADER_MARK)) and self._peek(len(HEADER_MARK)) == HEADER_MARK:
                yield from self._frame()
                if not self._read_header():
                    return
            elif self._recording is None:
                self._findings.add("bad-header", 0, "the trace does not begin with a header")
                return
            elif not self._load(BUFFER_HEADER_SIZE):
                yield from self._frame()
                self._add_cut(f"the last {self._filled - self._cursor} bytes are no whole buffer header")
                self._cursor = self._filled
            elif self._peek(len(BUFFER_MARK)) != BUFFER_MARK:
                yield from self._frame()
                self._skip("buffer-id", "no buffer begins here")
            elif (size := self._size(0)) > MAX_BUFFER:
                yield from self._frame()
                self._skip("buffer-too-large", f"a buffer of {size:,} bytes")
            else:
                yield from self._buffer(size)
        yield from self._frame()

    def _peek(self, count: int) -> bytes:
        return bytes(self._view[self._cursor : self._cursor + count])

    def _size(self, distance: int) -> int:
        """Return the size in the buffer header at a distance from the cursor, which must be in memory."""
        return int.from_bytes(self._view[self._cursor + distance :][_SIZE], "little")

    def _fits(self, count: int) -> bool:
        """Return whether so many bytes from the cursor on fit in memory beside the buffers of the next frame."""
        return not self._buffers or self._at_end or self._cursor + count <= len(self._data)

    def _load(self, count: int) -> bool:
        """Read until so many bytes from the cursor on are in memory; return whether they are."""
        while self._cursor + count > self._filled and not self._at_end:
            if self._cursor + count > len(self._data):
                assert not self._buffers, "the buffers of the next frame need the memory"
                self._make_room(count)
            count_read = self._source.readinto(self._view[self._filled :])
            self._filled += count_read
            self._at_end = not count_read
        return self._cursor + count <= self._filled

    def _make_room(self, count: int) -> None:
        """Move the rest to the front; a larger block is allocated only in steps, as the bytes really come."""
        left = self._filled - self._cursor
        moved = self._data
        if left * 2 > len(moved):
            moved = np.empty(min(max(2 * len(moved), BLOCK), count + BLOCK), np.uint8)
        moved[:left] = self._data[self._cursor : self._filled]
        self._data, self._view = moved, moved.data
        self._base += self._cursor
        self._cursor, self._filled = 0, left

    def _frame(self, *, cut: bool = False) -> Iterator[Frame]:
        """Yield a frame of the buffers so far, if there are any or the recording had no frame yet."""
        if not (self._buffers or self._without_frame):
            return
        begin, end = np.array(self._buffers, np.int64).reshape(-1, 2).T.copy()
        dtype = buffer_dtype()
        raw = self._data[(begin - BUFFER_HEADER_SIZE)[:, None] + np.arange(BUFFER_HEADER_SIZE)]
        headers = np.ascontiguousarray(raw).view(dtype)[:, 0]
        assert self._recording is not None
        self._without_frame = False
        yield Frame(self._recording, self._data[: self._filled], self._base, begin, end, headers, cut)
        self._buffers = []

    def _read_header(self) -> bool:
        """Read the header of a recording; return whether the bytes behind it can be read."""
        offset = self._base + self._cursor
        self._load(MAX_HEADER)
        try:
            head = self._peek(min(MAX_HEADER, self._filled - self._cursor))
            header, size = decode_header(head)
            if header.data_version not in VERSIONS:
                raise DecodeError("unknown-version", f"data version {header.data_version} is not known")
            if header.pointer_size not in (4, 8):
                raise DecodeError("pointer-size", f"pointers of {header.pointer_size} bytes")
        except DecodeError as error:
            self._findings.add(error.rule, offset, error.message)
            return False
        if header.flags:
            self._findings.add("header-flags", offset, f"unknown flags {header.flags:#x}", level=Level.WARNING)
        if self._recording is not None:
            self._findings.add("another-recording", offset, "another recording begins here", level=Level.WARNING)
        dialect = dialect_of(self._data_version or header.data_version, header.pointer_size)
        self._recording = Recording(header, head[:size], dialect, offset)
        self.first = self.first or self._recording
        self._without_frame = True
        self._cursor += size
        return True

    def _buffer(self, size: int) -> Iterator[Frame]:
        """Add the buffer at the cursor, of this size or only up to the next buffer."""
        if not self._fits(BUFFER_HEADER_SIZE + size + len(BUFFER_MARK)):
            yield from self._frame()  # makes room
        whole = self._load(BUFFER_HEADER_SIZE + size)
        if whole and self._may_end(BUFFER_HEADER_SIZE + size):
            self._take(size)
            return
        yield from self._frame()  # makes room for the search
        inner = self._find_header(BUFFER_HEADER_SIZE, BUFFER_HEADER_SIZE + size)
        if inner is not None:
            message = f"a buffer of {size:,} bytes, but the next one begins after {inner - BUFFER_HEADER_SIZE:,}"
            self._findings.add("buffer-overlap", self._base + self._cursor, message)
            self._take(inner - BUFFER_HEADER_SIZE)
        elif whole:
            self._take(size)
        else:
            present = self._filled - self._cursor - BUFFER_HEADER_SIZE
            self._add_cut(f"a buffer of {size:,} bytes has only {present:,}")
            self._take(present)
            yield from self._frame(cut=True)

    def _take(self, size: int) -> None:
        """Add the buffer at the cursor, with so many bytes of events, to the next frame."""
        begin = self._cursor + BUFFER_HEADER_SIZE
        self._cursor = begin + size
        self._buffers.append((begin, self._cursor))

    def _add_cut(self, message: str) -> None:
        """Report that the trace is cut, unless the source reports the reason."""
        if self._source.fault is None:
            self._findings.add("truncated", self._base + self._cursor, message)

    def _may_end(self, distance: int) -> bool:
        """Return whether a buffer may end at a distance from the cursor: a header follows, or what there is of one."""
        self._load(distance + len(BUFFER_MARK))
        mark = bytes(
            self._view[self._cursor + distance : min(self._cursor + distance + len(BUFFER_MARK), self._filled)]
        )
        return BUFFER_MARK.startswith(mark) or HEADER_MARK.startswith(mark)

    def _may_begin(self, distance: int) -> bool:
        """Return whether the mark at a distance from the cursor may begin a buffer."""
        if not self._load(distance + BUFFER_HEADER_SIZE):
            return True
        size = self._size(distance)
        return size <= MAX_BUFFER and self._may_end(distance + BUFFER_HEADER_SIZE + size)

    def _find_header(self, start: int, stop: int) -> int | None:
        """Return the distance (`start` to before `stop`) of the next header from which the chain holds, or None."""
        while True:
            end = min(self._cursor + stop + len(BUFFER_MARK) - 1, self._filled)
            match = _MARKS.search(self._view, self._cursor + start, end)
            if match is None:
                return None
            distance = match.start() - self._cursor
            if match[0] == HEADER_MARK or self._may_begin(distance):
                return distance
            start = distance + 1

    def _skip(self, rule: str, message: str) -> None:
        """Continue at the next header."""
        offset = self._base + self._cursor
        self._cursor += 1
        while self._load(len(BUFFER_MARK)):
            searched = self._filled - self._cursor - len(BUFFER_MARK) + 1  # so many places have as many bytes as a mark
            distance = self._find_header(0, searched)
            self._cursor += searched if distance is None else distance
            if distance is not None:
                break
        else:
            self._cursor = self._filled
        skipped = self._base + self._cursor - offset
        self._findings.add(rule, offset, f"{message}; {skipped:,} bytes are skipped")
