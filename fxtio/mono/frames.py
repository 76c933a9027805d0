"""The recordings and buffers of a file: bytes in, frames of whole buffers out, whatever the bytes are.

The header of a buffer gives its size, so the buffers are a chain.  Where the chain breaks, reading goes on at the next
header from which it holds.  A size is accepted unless the bytes after the buffer contradict it, so the result does not
depend on how the bytes arrive.  Memory grows with the bytes that really come, up to two of the largest allowed buffers.
Buffers are delivered before a fault after them is reported: findings are in the order of the file.  A file may hold
several recordings in a row, as they come from serial lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.stream.declare import Dialect
from fxtio.errors import DecodeError
from fxtio.finding import Findings
from fxtio.io.source import Source
from fxtio.mono.headers import (
    BUFFER_HEADER_SIZE,
    CLAIMED,
    WINDOW,
    BufferHeader,
    OpaqueBufferHeader,
    StreamHeader,
    begins_damaged,
    buffer_dtype,
    buffer_record,
    buffer_size,
    decode_header,
    is_hybrid,
    outline_header,
    text_mode_fault,
)
from fxtio.mono.layout import BUFFER_MARK, HEADER_MARK, HYBRID, POINTER_SIZES
from fxtio.mono.records import VERSIONS, dialect_of
from fxtio.report import counted

BLOCK = 1 << 23
"""The number of bytes that are read at once."""

MAX_BUFFER = 1 << 26
"""The largest size of a buffer that is accepted, in bytes; those of Mono have about 64 KiB."""

MAX_HEADER = 1 << 20
"""The largest header of a recording that is accepted, in bytes."""

MAX_GAP = 1 << 20
"""The most bytes of a `Gap`; more bytes that belong to no buffer are several gaps."""

_MARKS = re.compile(b"|".join(map(re.escape, (BUFFER_MARK, HEADER_MARK))))
_HEADER_MARKS = re.compile(re.escape(HEADER_MARK))

_FEWEST_RIGHT_BYTES = 2
"""A magic number with fewer right bytes than this is none that was damaged."""

_TRANSFER_CHECKS = 16
"""The number of faults at which a transfer in text mode is looked for, so that garbage takes no time."""


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
    """Some buffers of one recording, or of several whose events are of the same dialect.

    Frames share their memory: a frame is valid until the next one is requested.

    Attributes:
        dialect: the events of all buffers.
        recordings: the recordings that begin in the frame, each with the number of the buffer before which it begins.
        data: bytes that hold the buffers (uint8).
        base: the offset of `data` in the trace.
        begin: where the events of each buffer begin in `data` (int64).
        end: where they end (int64).
        headers: the headers of the buffers, see `buffer_dtype`.
        cut: whether the last buffer is cut off by the end of the trace.
    """

    dialect: Dialect
    recordings: tuple[tuple[int, Recording], ...]
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

    def header_record(self, number: int) -> BufferHeader | OpaqueBufferHeader:
        """Return the header of a buffer, or its bytes if they are not those of a header of this buffer."""
        size = int(self.end[number] - self.begin[number])
        return buffer_record(self.header(number), self.headers[number].tobytes(), size)

    def select(self, numbers: Array) -> Frame:
        """Return a frame of some of the buffers, given by indices or a mask, without the recordings."""
        cut = self.cut and len(self) - 1 in np.arange(len(self))[numbers]
        headers = self.headers[numbers]
        return Frame(self.dialect, (), self.data, self.base, self.begin[numbers], self.end[numbers], headers, cut)

    def in_order(self) -> Iterator[Recording | int]:
        """Yield the recordings and the numbers of the buffers in the order of the file."""
        first = 0
        for number, recording in self.recordings:
            yield from range(first, number)
            yield recording
            first = number
        yield from range(first, len(self))


class Gap(NamedTuple):
    """Bytes that belong neither to a header nor to a buffer; valid until the next frame or gap is requested.

    Attributes:
        offset: where they begin in the trace.
        data: the bytes, at most `MAX_GAP`.
    """

    offset: int
    data: memoryview


class Framer:
    """Finds the buffers of a trace.

    Args:
        source: gives the bytes.
        findings: takes the faults.
        data_version: the data version of all events, in place of that in the header.
        recognizes_hybrid: read a recording of Mono 5.10.0 as what it is, not as the version that its header gives.

    Attributes:
        first: the first recording, as soon as its header is read.
        last: the last recording whose header was read.
    """

    def __init__(
        self, source: Source, findings: Findings, data_version: float | None = None, *, recognizes_hybrid: bool = False
    ) -> None:
        self._recognizes_hybrid = recognizes_hybrid and data_version is None
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
        self._new_recordings: list[tuple[int, Recording]] = []  # the recordings of the next frame
        self.first: Recording | None = None
        self.last: Recording | None = None
        self._buffers: list[tuple[int, int]] = []  # begin and end of the buffers of the next frame
        self._checks_left = _TRANSFER_CHECKS
        self._text_mode = False  # a transfer changed the file, and a finding says so

    def __iter__(self) -> Iterator[Frame]:
        return (part for part in self.parts() if isinstance(part, Frame))

    def parts(self) -> Iterator[Frame | Gap]:
        """Yield the whole trace: headers of recordings and buffers in frames, everything else in gaps."""
        while True:
            if not self._fits(BUFFER_HEADER_SIZE):
                yield from self._frame()  # makes room
            if not self._load(1):
                break
            if self._load(len(HEADER_MARK)) and self._peek(len(HEADER_MARK)) == HEADER_MARK:
                if not self._fits(MAX_HEADER) or not self._continues():
                    yield from self._frame()
                if (fault := self._read_header()) is not None:
                    self._recording = None  # the version of the next buffers is not known
                    yield from self._skip(*fault)
            elif self._recording is None:
                yield from self._begin()
            elif not self._load(BUFFER_HEADER_SIZE):
                yield from self._frame()
                rest = self._filled - self._cursor
                self._add_cut(f"the last {rest} bytes are no whole buffer header")
                yield self._gap(rest)
            elif self._peek(len(BUFFER_MARK)) != BUFFER_MARK:
                yield from self._frame()
                if not self._take_damaged():
                    yield from self._skip("buffer.id", "no buffer begins here")
            elif (size := self._size(0)) > MAX_BUFFER:
                yield from self._frame()
                yield from self._skip("buffer.too-large", f"a buffer of {size:,} bytes")
            else:
                yield from self._buffer(size)
        yield from self._frame()

    def _begin(self) -> Iterator[Gap]:
        """Read what has no header of a recording before it: a header with a damaged magic number, or anything else."""
        mark = self._peek(len(HEADER_MARK))
        self._load(MAX_HEADER + len(BUFFER_MARK))
        is_damaged = self.first is None and begins_damaged(self._view[self._cursor : self._filled])
        if is_damaged and self._read_header(any_mark=True) is None:
            message = f"a recording begins with {mark.hex(' ')} in place of {HEADER_MARK.hex(' ')}; the rest is right"
            self._findings.add("header.damaged-id", 0, message)
        else:
            yield from self._skip("header.bad", "no header of a recording begins here")

    def _gap(self, size: int) -> Gap:
        """Return this many bytes at the cursor as a gap, and move the cursor after them."""
        begin = self._cursor
        self._cursor += size
        return Gap(self._base + begin, self._view[begin : self._cursor])

    def _peek(self, count: int) -> bytes:
        return bytes(self._view[self._cursor : self._cursor + count])

    def _size(self, distance: int) -> int:
        """Return the size in the buffer header at a distance from the cursor, which must be in memory."""
        return buffer_size(self._view[self._cursor + distance :])

    def _fits(self, count: int) -> bool:
        """Return whether this many bytes from the cursor on fit in memory beside the buffers of the next frame."""
        return not self._buffers or self._at_end or self._cursor + count <= len(self._data)

    def _load(self, count: int) -> bool:
        """Read until this many bytes from the cursor on are in memory; return whether they are."""
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
        """Yield a frame of the buffers and recordings so far, if there are any."""
        if not (self._buffers or self._new_recordings):
            return
        begin, end = np.array(self._buffers, np.int64).reshape(-1, 2).T.copy()
        dtype = buffer_dtype()
        raw = self._data[(begin - BUFFER_HEADER_SIZE)[:, None] + np.arange(BUFFER_HEADER_SIZE)]
        headers = np.ascontiguousarray(raw).view(dtype)[:, 0]
        assert self._recording is not None
        recordings, self._new_recordings = tuple(self._new_recordings), []
        data = self._data[: self._filled]
        yield Frame(self._recording.dialect, recordings, data, self._base, begin, end, headers, cut)
        self._buffers = []

    def _continues(self) -> bool:
        """Return whether the header at the cursor can be read, and its events are of the dialect of the last one."""
        self._load(MAX_HEADER)
        try:
            header, _ = outline_header(self._view[self._cursor : min(self._cursor + MAX_HEADER, self._filled)])
        except DecodeError:
            return False
        if self._recognizes_hybrid and header.data_version == CLAIMED:
            return False  # its dialect is not known yet
        return self._recording is not None and self._dialect_of(header) is self._recording.dialect

    def _dialect_of(self, header: StreamHeader) -> Dialect | None:
        """Return the dialect of a recording, or None if it is not known."""
        if header.data_version not in VERSIONS or header.pointer_size not in POINTER_SIZES:
            return None
        return dialect_of(self._data_version or header.data_version, header.pointer_size)

    def _read_header(self, *, any_mark: bool = False) -> tuple[str, str] | None:
        """Read the header of a recording; return the rule and the message of its fault, if it cannot be read.

        Args:
            any_mark: accept other bytes in place of the magic number.
        """
        offset = self._base + self._cursor
        self._load(MAX_HEADER)
        head = self._view[self._cursor : min(self._cursor + MAX_HEADER, self._filled)]
        try:
            header, _ = outline_header(head, any_mark=any_mark)
            if header.data_version not in VERSIONS:
                raise DecodeError("header.unknown-version", f"data version {header.data_version} is not known")
            if header.pointer_size not in POINTER_SIZES:
                raise DecodeError("header.pointer-size", f"pointers of {counted(header.pointer_size, 'byte')}")
            header, size = decode_header(head, any_mark=any_mark)
        except DecodeError as error:
            return error.rule, error.message
        if header.flags:
            self._findings.add("header.flags", offset, f"unknown flags {header.flags:#x}")
        dialect = dialect_of(self._data_version or header.data_version, header.pointer_size)
        may_be_hybrid = self._recognizes_hybrid and header.data_version == CLAIMED
        if may_be_hybrid and is_hybrid(bytes(head[size:]), header.pointer_size):
            self._findings.add("header.hybrid-version", offset)
            dialect = dialect_of(HYBRID, header.pointer_size)
        self._recording = Recording(header, bytes(head[:size]), dialect, offset)
        self.first, self.last = self.first or self._recording, self._recording
        self._new_recordings.append((len(self._buffers), self._recording))
        self._cursor += size
        return None

    def _buffer(self, size: int) -> Iterator[Frame | Gap]:
        """Add the buffer at the cursor, of this size or only up to the next buffer."""
        if not self._fits(BUFFER_HEADER_SIZE + size + len(BUFFER_MARK)):
            yield from self._frame()  # makes room
        whole = self._load(BUFFER_HEADER_SIZE + size)
        if whole and self._may_end(BUFFER_HEADER_SIZE + size):
            self._take(size)
            return
        yield from self._frame()  # makes room for the search
        inner = self._find_header(BUFFER_HEADER_SIZE, BUFFER_HEADER_SIZE + size)
        message = (
            f"a buffer of {counted(size, 'byte')}, but the next one begins after {(inner or 0) - BUFFER_HEADER_SIZE:,}"
        )
        if self._is_text_mode():
            yield from self._skip("buffer.overlap", message)
        elif inner is not None:
            self._findings.add("buffer.overlap", self._base + self._cursor, message)
            self._take(inner - BUFFER_HEADER_SIZE)
        elif whole:
            self._take(size)
        else:
            present = self._filled - self._cursor - BUFFER_HEADER_SIZE
            self._add_cut(f"a buffer of {counted(size, 'byte')} has only {present:,}")
            self._take(present)
            yield from self._frame(cut=True)

    def _take_damaged(self) -> bool:
        """Add the buffer at the cursor if only its magic number is damaged; return whether this is so."""
        mark, size = self._peek(len(BUFFER_MARK)), self._size(0)
        right = sum(byte == expected for byte, expected in zip(mark, BUFFER_MARK, strict=True))
        if right < _FEWEST_RIGHT_BYTES or size > MAX_BUFFER or not self._load(BUFFER_HEADER_SIZE + size):
            return False
        if not self._may_end(BUFFER_HEADER_SIZE + size):
            return False
        message = f"a buffer begins with {mark.hex(' ')} in place of {BUFFER_MARK.hex(' ')}; the rest is right"
        self._findings.add("header.damaged-id", self._base + self._cursor, message)
        self._take(size)
        return True

    def _is_text_mode(self) -> bool:
        """Return whether a transfer in text mode made the fault at the cursor; add the finding at the first one."""
        if not self._text_mode and self._checks_left:
            self._checks_left -= 1
            self._load(WINDOW)
            message = text_mode_fault(self._peek(min(WINDOW, self._filled - self._cursor)))
            if message:
                self._findings.add("source.text-mode", self._base + self._cursor, message)
                self._text_mode = True
        return self._text_mode

    def _take(self, size: int) -> None:
        """Add the buffer at the cursor, with this many bytes of events, to the next frame."""
        begin = self._cursor + BUFFER_HEADER_SIZE
        self._cursor = begin + size
        self._buffers.append((begin, self._cursor))

    def _add_cut(self, message: str) -> None:
        """Report that the trace is cut, unless the source reports the reason."""
        if self._source.fault is None:
            self._findings.add("buffer.truncated", self._base + self._cursor, message)

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
        marks = _HEADER_MARKS if self._recording is None else _MARKS
        while True:
            end = min(self._cursor + stop + len(BUFFER_MARK) - 1, self._filled)
            match = marks.search(self._view, self._cursor + start, end)
            if match is None:
                return None
            distance = match.start() - self._cursor
            if match[0] == HEADER_MARK or self._may_begin(distance):
                return distance
            start = distance + 1

    def _skip(self, rule: str, message: str) -> Iterator[Gap]:
        """Continue at the next header; yield the bytes up to it."""
        silent = self._is_text_mode()  # a finding says it already
        offset, start, distance = self._base + self._cursor, 1, None
        while distance is None and self._load(1):
            self._load(MAX_GAP + len(BUFFER_MARK) - 1)
            searched = min(MAX_GAP, self._filled - self._cursor)
            distance = self._find_header(start, searched)
            yield self._gap(searched if distance is None else distance)
            start = 0
        skipped = self._base + self._cursor - offset
        if not silent:
            self._findings.add(rule, offset, f"{message}; {counted(skipped, 'byte')} skipped")
