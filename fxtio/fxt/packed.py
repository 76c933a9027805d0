"""Packed traces: FXT in independent zstd frames, with an index by which a part is read without all before it.

The file is one for any program that reads zstd.  Its frames are, in this order:

- the trace, cut into frames at records; each is independent of the others;
- a skippable frame with the index: for each of these frames its first and last time, and its outline, see
  `fxtio.fxt.outline`;
- a skippable frame with the seek table, as zstd's `contrib/seekable_format` has it.

An index is used only if everything in it and in the seek table agrees with the size of the file; any other file, such
as several packed ones in a row, is read as an ordinary zstd file.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np

from fxtio.arrays import Array
from fxtio.io.source import Source, decompressed
from fxtio.table import MAX_TIME

SKIPPABLE = struct.Struct("<2I")
"""The header of a skippable frame: its magic number, and the bytes after the header."""

SEEK_TABLE_MAGIC = 0x184D2A5E
"""The magic number of the skippable frame with the seek table."""

SEEK_ENTRY = np.dtype([("compressed", "<u4"), ("decompressed", "<u4")])
"""An entry of the seek table: the bytes of a frame, compressed and decompressed."""

SEEK_FOOTER = struct.Struct("<IBI")
"""The end of the seek table: the number of entries, the descriptor, which is 0 without checksums, and the number."""

SEEKABLE_MAGIC = 0x8F92EAB1
"""The last number of the file."""

INDEX_MAGIC = 0x184D2A5A
"""The magic number of the skippable frame with the index."""

INDEX_HEADER = struct.Struct("<8s2Iq")
"""The start of the index: its name, its version, the number of its entries, and the wall clock.

That is nanoseconds since the Unix epoch at the time 0, or `UNKNOWN_CLOCK`.
"""

INDEX_NAME = b"FXTINDEX"
INDEX_VERSION = 1
UNKNOWN_CLOCK = -(1 << 63)

INDEX_ENTRY = np.dtype([("first", "<i8"), ("last", "<i8"), ("outline", "<u4")])
"""An entry of the index: the first and the last time of a frame in nanoseconds, and the bytes of its outline."""

WHOLE = 0xFFFFFFFF
"""Instead of the bytes of an outline: the frame has none, and is read for any range."""


@dataclass(frozen=True, slots=True)
class Index:
    """The index of a packed trace.

    Attributes:
        entries: an entry for each frame, see `INDEX_ENTRY`.
        sizes: the sizes of the frames, see `SEEK_ENTRY`.
        wall_clock: the nanoseconds since the Unix epoch at the time 0, or None.
        outlines: the byte offset of the outlines in the file, compressed.
        end: the byte offset after them.
    """

    entries: Array
    sizes: Array
    wall_clock: int | None
    outlines: int
    end: int

    @property
    def extent(self) -> tuple[int, int] | None:
        """The first and the last time of the trace in nanoseconds, None if nothing has a time."""
        timed = self.entries[self.entries["first"] <= self.entries["last"]]
        return (int(timed["first"].min()), int(timed["last"].max())) if len(timed) else None

    def portion(self, size: int) -> tuple[int, int] | None:
        """Return a range of times around the middle for which frames of at most this many bytes are read, if it can be.

        It is the whole time, halved as often as need be; None if that is not necessary.
        """
        begin, end = self.extent or (0, 0)
        middle, lasts = (begin + end) // 2, end - begin
        while lasts > 1 and self._bytes(middle - lasts // 2, middle + lasts // 2 + 1) > size:
            lasts //= 2
        return None if lasts == end - begin else (middle - lasts // 2, middle + lasts // 2 + 1)

    def _bytes(self, start: int, end: int) -> int:
        return int(self.sizes["decompressed"][self.needed(start, end)].sum(dtype=np.int64))

    def needed(self, start: int | None, end: int | None) -> Array:
        """Return which frames overlap a range of times (bool); of the others, the outlines do."""
        first, last = self.entries["first"], self.entries["last"]
        overlaps = (first <= last) & (last >= (-MAX_TIME if start is None else start))
        result: Array = overlaps & (first < (MAX_TIME if end is None else end)) | (self.entries["outline"] == WHOLE)
        return result


def index_of(source: Source) -> Index | None:
    """Return the index of a packed trace; None if it is not one, or the index does not fit the file.

    Raises:
        OSError: the file cannot be read.
    """
    stream = source.seekable
    if source.compression != "zstd" or stream is None:
        return None
    place = stream.tell()
    try:
        return _read_index(stream)
    finally:
        stream.seek(place)


def _read_index(stream: BinaryIO) -> Index | None:
    """Return the index of a file."""
    stream.seek(0, io.SEEK_END)
    size = stream.tell()
    sizes = _seek_table(stream, size)
    if sizes is None or len(sizes) < 2 or sizes["decompressed"][-1]:
        return None
    end = size - _table_bytes(len(sizes))
    begin = end - int(sizes["compressed"][-1])
    head = _read(stream, begin, SKIPPABLE.size + INDEX_HEADER.size)
    if len(head) < SKIPPABLE.size + INDEX_HEADER.size:
        return None
    magic, length = SKIPPABLE.unpack_from(head)
    count = len(sizes) - 1
    at = begin + len(head)
    outlines = at + count * INDEX_ENTRY.itemsize
    *names, clock = INDEX_HEADER.unpack_from(head, SKIPPABLE.size)
    is_index = names == [INDEX_NAME, INDEX_VERSION, count] and magic == INDEX_MAGIC
    if not is_index or begin + SKIPPABLE.size + length != end or outlines > end:
        return None
    entries = np.frombuffer(_read(stream, at, outlines - at), INDEX_ENTRY)
    wall_clock = None if clock == UNKNOWN_CLOCK else clock
    return Index(entries, sizes[:-1], wall_clock, outlines, end) if len(entries) == count else None


def _seek_table(stream: BinaryIO, size: int) -> Array | None:
    """Return the seek table of a file of this size, None if it has none that describes all of it."""
    footer = _read(stream, max(size - SEEK_FOOTER.size, 0), SEEK_FOOTER.size)
    if len(footer) < SEEK_FOOTER.size:
        return None
    count, descriptor, magic = SEEK_FOOTER.unpack(footer)
    table = _table_bytes(count)
    if magic != SEEKABLE_MAGIC or descriptor or table > size:
        return None
    data = _read(stream, size - table, table - SEEK_FOOTER.size)
    if data[: SKIPPABLE.size] != SKIPPABLE.pack(SEEK_TABLE_MAGIC, table - SKIPPABLE.size):
        return None
    sizes = np.frombuffer(data, SEEK_ENTRY, count, SKIPPABLE.size)
    return sizes if int(sizes["compressed"].sum(dtype=np.int64)) + table == size else None


def _table_bytes(count: int) -> int:
    """Return the bytes of a seek table of this number of entries."""
    return SKIPPABLE.size + count * SEEK_ENTRY.itemsize + SEEK_FOOTER.size


def _read(stream: BinaryIO, offset: int, count: int) -> bytes:
    """Read bytes at an offset, or fewer at the end of the file."""
    stream.seek(offset)
    data = b""
    while len(data) < count and (more := stream.read(count - len(data))):
        data += more
    return data


class PackedSource(Source):
    """A source with what a range of times needs of a packed trace.

    Args:
        source: the trace, which this one replaces.
        index: its index.
        start: the start of the range in nanoseconds, or None.
        end: the end, which is not part of it, or None.
    """

    def __init__(self, source: Source, index: Index, start: int | None, end: int | None) -> None:
        stream = source.seekable
        assert stream is not None
        self._begin(source.name, stream, limit=source.limit, owned=source.owned)
        self.compression = "zstd"
        self.size = None
        self._stream = _Selected(stream, index, index.needed(start, end))
        self._fill_head()


class _Selected:
    """Whole frames where they are selected, and outlines instead of others.

    Args:
        stream: the file.
        index: its index.
        selected: the frames that are selected (bool).
    """

    def __init__(self, stream: BinaryIO, index: Index, selected: Array) -> None:
        self._stream, self._outlines = stream, _part(stream, index.outlines, index.end)
        offsets = np.append(0, np.cumsum(index.sizes["compressed"], dtype=np.int64))
        lengths = np.where(index.entries["outline"] == WHOLE, np.uint32(0), index.entries["outline"])
        bounds = [0, *(np.flatnonzero(np.diff(selected)) + 1).tolist(), len(selected)]
        self._runs: list[tuple[Any, int, bool]] = []  # what it is read from, its bytes, and whether they are left out
        for begin, stop in pairwise(bounds):
            outline = int(lengths[begin:stop].sum(dtype=np.int64))
            self._runs.append((self._outlines, outline, bool(selected[begin])))
            if selected[begin]:
                frames = _part(stream, int(offsets[begin]), int(offsets[stop]))
                size = int(index.sizes["decompressed"][begin:stop].sum(dtype=np.int64))
                self._runs.append((frames, size, False))
        self._runs.reverse()

    def readinto(self, target: memoryview) -> int:
        """Fill the beginning of `target` and return the number of bytes, 0 at the end.

        Raises:
            EOFError: there are fewer bytes than the index says.
            OSError: the file cannot be read, or is damaged.
        """
        while self._runs:
            stream, size, is_left_out = self._runs[-1]
            if not size:
                self._runs.pop()
                continue
            view = memoryview(bytearray(min(size, _BLOCK))) if is_left_out else target[:size]
            count: int = stream.readinto(view)
            if not count:
                raise EOFError("it has fewer bytes than its index says")
            self._runs[-1] = stream, size - count, is_left_out
            if not is_left_out:
                return count
        return 0


_BLOCK = 1 << 18  # the bytes that are read, or skipped, at once


def _part(stream: BinaryIO, begin: int, end: int) -> Any:
    """Return a part of a file, decompressed."""
    return decompressed("zstd", io.BufferedReader(_Range(stream, begin, end), _BLOCK))


class _Range(io.RawIOBase):
    """A part of a file, which others may read at other places in between.

    Args:
        stream: the file.
        begin: its first byte.
        end: the byte after it.
    """

    def __init__(self, stream: BinaryIO, begin: int, end: int) -> None:
        self._source, self._at, self._end = stream, begin, end

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")[: self._end - self._at]
        self._source.seek(self._at)
        data = self._source.read(len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
