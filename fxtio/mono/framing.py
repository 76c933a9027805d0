"""Where buffers begin and end: bytes in, frames of whole buffers out, whatever the bytes are.

A buffer's header tells its size, so the walk is a chain; where the chain breaks, it goes on at the next place from
which it holds.  A size is believed when what is behind the buffer does not speak against it, or nothing is there; so it
does not matter how the bytes arrive.  Memory is taken only as bytes are there, at most for two of the largest buffers
that are allowed.  What was found is delivered before a fault is noted: findings come in the order of the file.
Recordings may stand one behind the other, as serial lines deliver them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.codec.stream import Dialect
from fxtio.errors import DecodeError
from fxtio.finding import Findings, Level
from fxtio.io.source import Source
from fxtio.mono.header import (
    BUFFER_SIZE,
    BufferHeader,
    StreamHeader,
    buffer_dtype,
    decode_header,
)
from fxtio.mono.magic import BUFFER_MARK, HEADER_MARK
from fxtio.mono.records import VERSIONS, dialect_of

Array = np.ndarray[Any, Any]

BLOCK = 1 << 23
"""Bytes that are read at once."""

MAX_BUFFER = 1 << 26
"""The largest buffer that is believed, in bytes; Mono's have some 64 KiB."""

MAX_HEADER = 1 << 20
"""The largest header of a recording that is believed, in bytes."""

_SIZE = slice(buffer_dtype().fields["size"][1], buffer_dtype().fields["size"][1] + 4)  # type: ignore[index]

_MARKS = re.compile(b"|".join(map(re.escape, (BUFFER_MARK, HEADER_MARK))))


@dataclass(frozen=True, slots=True)
class Recording:
    """What all buffers of a recording have in common.

    Attributes:
        header: its header.
        raw: the header's bytes.
        dialect: the events of its data version.
        offset: where it begins, in bytes.
    """

    header: StreamHeader
    raw: bytes
    dialect: Dialect
    offset: int


@dataclass(frozen=True, slots=True)
class Frame:
    """Some buffers of a recording, which has at least one frame, if only one without buffers.

    Frames share their memory: each is valid until the next one is asked for.

    Attributes:
        recording: the recording.
        data: bytes that hold the buffers (uint8).
        base: where `data` begins in the trace.
        begin: where the events of each buffer begin in `data` (int64).
        end: where they end (int64).
        headers: the buffers' headers, see `buffer_dtype`.
        cut: the last buffer is not whole.
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
        """The header of a buffer."""
        row = self.headers[number]
        return BufferHeader(**{name: int(row[name]) for name in BufferHeader.__struct_fields__})

    def select(self, numbers: Array) -> Frame:
        """Only some of the buffers (indices or a mask)."""
        cut = self.cut and len(self) - 1 in np.arange(len(self))[numbers]
        headers = self.headers[numbers]
        return Frame(self.recording, self.data, self.base, self.begin[numbers], self.end[numbers], headers, cut)


class Framer:
    """Finds the buffers of a trace.

    Args:
        source: where the bytes come from.
        findings: where faults are noted.
        data_version: read all events as those of this data version, whatever the header says.

    Attributes:
        first: the first recording, as soon as its header is read.
    """

    def __init__(self, source: Source, findings: Findings, data_version: float | None = None) -> None:
        self._data_version = data_version
        self._source = source
        self._findings = findings
        self._data: Array = np.empty(BLOCK, np.uint8)
        self._view = self._data.data
        self._at = 0  # where the next header is expected
        self._filled = 0
        self._ended = False  # nothing more comes
        self._base = 0
        self._recording: Recording | None = None
        self._bare = False  # there was no frame of the recording yet
        self.first: Recording | None = None
        self._found: list[tuple[int, int]] = []  # begin and end of the buffers of the frame in the making

    def __iter__(self) -> Iterator[Frame]:
        while True:
            if not self._fits(BUFFER_SIZE):
                yield from self._frame()  # makes room
            if not self._have(1):
                break
            if self._have(len(HEADER_MARK)) and self._peek(len(HEADER_MARK)) == HEADER_MARK:
                yield from self._frame()
                if not self._begin():
                    return
            elif self._recording is None:
                self._findings.add("bad-header", 0, "the trace does not begin with a header")
                return
            elif not self._have(BUFFER_SIZE):
                yield from self._frame()
                self._note_cut(f"the last {self._filled - self._at} bytes are no whole buffer header")
                self._at = self._filled
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
        return bytes(self._view[self._at : self._at + count])

    def _size(self, place: int) -> int:
        """What the buffer header that begins so many bytes from here, and is there, tells of its events."""
        return int.from_bytes(self._view[self._at + place :][_SIZE], "little")

    def _fits(self, count: int) -> bool:
        """Whether the frame in the making can wait until so many bytes are looked at from here on."""
        return not self._found or self._ended or self._at + count <= len(self._data)

    def _have(self, count: int) -> bool:
        """Try to have so many bytes from here on."""
        while self._at + count > self._filled and not self._ended:
            if self._at + count > len(self._data):
                assert not self._found, "the frame in the making needs the memory"
                self._make_room(count)
            got = self._source.readinto(self._view[self._filled :])
            self._filled += got
            self._ended = not got
        return self._at + count <= self._filled

    def _make_room(self, count: int) -> None:
        """Move what is left to the front; a bigger block is taken only in steps, as the bytes really come."""
        left = self._filled - self._at
        fresh = self._data
        if left * 2 > len(fresh):
            fresh = np.empty(min(max(2 * len(fresh), BLOCK), count + BLOCK), np.uint8)
        fresh[:left] = self._data[self._at : self._filled]
        self._data, self._view = fresh, fresh.data
        self._base += self._at
        self._at, self._filled = 0, left

    def _frame(self, *, cut: bool = False) -> Iterator[Frame]:
        """The buffers found so far, if there are any or the recording had no frame yet."""
        if not (self._found or self._bare):
            return
        begin, end = np.array(self._found, np.int64).reshape(-1, 2).T.copy()
        dtype = buffer_dtype()
        raw = self._data[(begin - BUFFER_SIZE)[:, None] + np.arange(BUFFER_SIZE)]
        headers = np.ascontiguousarray(raw).view(dtype)[:, 0]
        assert self._recording is not None
        self._bare = False
        yield Frame(self._recording, self._data[: self._filled], self._base, begin, end, headers, cut)
        self._found = []

    def _begin(self) -> bool:
        """Read the header of a recording; False if nothing can be read behind it."""
        offset = self._base + self._at
        self._have(MAX_HEADER)
        try:
            head = self._peek(min(MAX_HEADER, self._filled - self._at))
            header, size = decode_header(head)
            if header.data_version not in VERSIONS:
                raise DecodeError("unknown-version", f"nobody knows data version {header.data_version}")
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
        self._bare = True
        self._at += size
        return True

    def _buffer(self, size: int) -> Iterator[Frame]:
        """Take in the buffer that begins here, of this size or only up to the next one."""
        if not self._fits(BUFFER_SIZE + size + len(BUFFER_MARK)):
            yield from self._frame()  # makes room
        whole = self._have(BUFFER_SIZE + size)
        if whole and self._chains(BUFFER_SIZE + size):
            self._take(size)
            return
        yield from self._frame()  # makes room for what has to be looked at
        inner = self._next(BUFFER_SIZE, BUFFER_SIZE + size)
        if inner is not None:
            told = f"a buffer of {size:,} bytes, but the next one begins after {inner - BUFFER_SIZE:,}"
            self._findings.add("buffer-overlap", self._base + self._at, told)
            self._take(inner - BUFFER_SIZE)
        elif whole:
            self._take(size)
        else:
            there = self._filled - self._at - BUFFER_SIZE
            self._note_cut(f"a buffer of {size:,} bytes has only {there:,}")
            self._take(there)
            yield from self._frame(cut=True)

    def _take(self, size: int) -> None:
        """Put the buffer that begins here into the frame, with so many bytes of events."""
        begin = self._at + BUFFER_SIZE
        self._at = begin + size
        self._found.append((begin, self._at))

    def _note_cut(self, message: str) -> None:
        """The end came too early; where the source tells why, that is enough."""
        if self._source.fault is None:
            self._findings.add("truncated", self._base + self._at, message)

    def _chains(self, place: int) -> bool:
        """Whether a buffer may end so many bytes from here: a header follows, or as much of one as there is."""
        self._have(place + len(BUFFER_MARK))
        mark = bytes(self._view[self._at + place : min(self._at + place + len(BUFFER_MARK), self._filled)])
        return BUFFER_MARK.startswith(mark) or HEADER_MARK.startswith(mark)

    def _holds(self, place: int) -> bool:
        """Whether a buffer may begin so many bytes from here, where its mark is."""
        if not self._have(place + BUFFER_SIZE):
            return True
        size = self._size(place)
        return size <= MAX_BUFFER and self._chains(place + BUFFER_SIZE + size)

    def _next(self, start: int, stop: int) -> int | None:
        """How many bytes from here (`start` to before `stop`) the next header begins from which the chain holds."""
        while True:
            end = min(self._at + stop + len(BUFFER_MARK) - 1, self._filled)
            found = _MARKS.search(self._view, self._at + start, end)
            if found is None:
                return None
            place = found.start() - self._at
            if found[0] == HEADER_MARK or self._holds(place):
                return place
            start = place + 1

    def _skip(self, rule: str, message: str) -> None:
        """Go on at the next header."""
        offset = self._base + self._at
        self._at += 1
        while self._have(len(BUFFER_MARK)):
            known = self._filled - self._at - len(BUFFER_MARK) + 1  # so many places have a whole mark behind them
            place = self._next(0, known)
            self._at += known if place is None else place
            if place is not None:
                break
        else:
            self._at = self._filled
        skipped = self._base + self._at - offset
        self._findings.add(rule, offset, f"{message}; {skipped:,} bytes are skipped")
