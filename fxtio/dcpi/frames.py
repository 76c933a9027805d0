"""The lines of the header, and the body in blocks of bounded size.

The chunks of the body have no end mark and are not counted: a chunk says how many counts it has, and the footer is what
remains when eight bytes are left.  `Segments` are the chunks of a block as arrays; a chunk that ends beyond its block
continues in the first segment of the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from fxtio import _native
from fxtio.arrays import Array
from fxtio.codec.record import Opaque
from fxtio.dcpi.layout import FOOTER_TYPE, HEAD_TYPE, HEAD_WORDS, KEYWORDS, NUMBER, OFFSET, STEP, WORD_TYPE
from fxtio.dcpi.records import Footer, Line, Terminator, decode_footer, decode_line
from fxtio.finding import Findings
from fxtio.io.source import Source
from fxtio.report import counted

MAX_HEADER = 1 << 20
"""The longest header in bytes; real ones have some hundred."""

BLOCK = 1 << 20
"""Bytes of the body that are read together."""

_PLAUSIBLE = 3  # this many valid lines of known words make a header
_WORD = WORD_TYPE.itemsize


def looks_like_header(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is a profile: its first lines are header lines."""
    score = 0
    for raw in head.split(b"\n")[:-1]:
        line = decode_line(raw.removesuffix(b"\r") + b"\n")
        if isinstance(line, Terminator):
            return score > 0
        if isinstance(line, Opaque):
            return False
        keyword = KEYWORDS.get(line.word)
        if keyword is not None:
            if not keyword.syntax.pattern.fullmatch(line.value):
                return False
            score += _PLAUSIBLE if line.word == "version" else 1
    return score >= _PLAUSIBLE


@dataclass(slots=True)
class Segments:
    """The chunks of a block, or the parts of chunks in it.  The arrays are valid until the next block is read.

    Attributes:
        words: the block's numbers (uint32).
        base: the byte offset of the block in the file.
        begin: index in `words` of each segment's first count (int64).
        count: number of counts of each segment (int64).
        text_offset: bytes from the beginning of the text to each segment's first address (int64).
        continues: whether the first segment continues a chunk of an earlier block.
        remaining: number of counts of the last chunk that are in later blocks.
        total: the sum of all counts.
        addresses: number of counts that are not zero.
        padded: number of the chunks that are whole in the block and begin or end with a zero.
    """

    words: Array
    base: int
    begin: Array
    count: Array
    text_offset: Array
    continues: bool
    remaining: int
    total: int = field(init=False)
    addresses: int = field(init=False)
    padded: int = field(init=False)

    def __post_init__(self) -> None:
        self.total, self.addresses, self.padded = _native.sum_rows(self.words, self.begin, self.count)
        partial = {0} if self.continues else set()
        if self.remaining:
            partial.add(len(self.begin) - 1)
        for row in partial:
            self.padded -= _native.sum_rows(self.words, self.begin[row : row + 1], self.count[row : row + 1])[2]

    def chunks(self) -> tuple[Array, Array, Array]:
        """Return the chunks that begin here, as arrays (int64) that own their memory.

        Returns:
            Byte offsets in the file, offsets in the text, and numbers of counts.
        """
        rows = slice(int(self.continues), None)
        number = self.count[rows].copy()
        number[-1:] += self.remaining
        return self.base + (self.begin[rows] - HEAD_WORDS) * _WORD, self.text_offset[rows].copy(), number

    def samples(self) -> tuple[Array, Array]:
        """Return the addresses with samples, as arrays that own their memory.

        Returns:
            Offsets in the text (int64), and counts (uint32).
        """
        offset, count = np.empty(self.addresses, np.int64), np.empty(self.addresses, np.uint32)
        _native.unroll(self.words, self.begin, self.count, self.text_offset, STEP, offset, count)
        return offset, count

    def offset_of(self, row: int) -> int:
        """Return the byte offset of a segment in the file, including the head of a chunk that begins with it."""
        head = 0 if self.continues and row == 0 else HEAD_WORDS
        return self.base + (int(self.begin[row]) - head) * _WORD

    def end(self) -> int:
        """Return the byte offset of the end of the last segment."""
        return self.base + (int(self.begin[-1]) + int(self.count[-1])) * _WORD


@dataclass(slots=True)
class PlacedRecord:
    """A record that is not part of `Segments`.

    Attributes:
        offset: its byte offset in the file.
        record: the record.
        size: its bytes.
    """

    offset: int
    record: Line | Terminator | Footer | Opaque
    size: int


Frame = PlacedRecord | Segments


class Framer:
    """Reads the frames of a profile.

    Args:
        source: the file.
        findings: receives the faults of framing.

    Attributes:
        has_returns: whether every line of the header, the last one included, ends with CRLF.
    """

    def __init__(self, source: Source, findings: Findings) -> None:
        self.has_returns = False
        self._source = source
        self._findings = findings
        self._data = bytearray()  # bytes that were read and are not yet delivered
        self._at = 0  # the byte offset of the first of them
        self._ended = False

    def _fill(self, size: int) -> None:
        """Read on until there are at least this many bytes, or the file ends."""
        if (missing := size - len(self._data)) > 0 and not self._ended:
            buffer = bytearray(missing)
            count = self._source.readinto(memoryview(buffer))
            self._data += buffer[:count]
            self._ended = count < missing

    def _take(self, size: int) -> bytes:
        raw = bytes(self._data[:size])
        del self._data[:size]
        self._at += len(raw)
        return raw

    def header(self) -> Iterator[PlacedRecord]:
        """Yield the lines of the header, the last one included; what does not have the form of a line is `Opaque`."""
        all_return = True
        self._fill(MAX_HEADER)
        while (end := self._data.find(b"\n") + 1) > 0:
            begin = self._at
            raw = self._take(end)
            line = decode_line(raw)
            all_return = all_return and raw.endswith(b"\r\n")
            if all_return and isinstance(decode_line(raw[:-2] + b"\n"), Terminator):
                self.has_returns = True
                self._findings.add("header.text-transfer", begin)
                yield PlacedRecord(begin, Opaque(raw), end)
                return
            if isinstance(line, Opaque):
                self._findings.add("header.line", begin, f"not a word, blanks and a value: {_excerpt(line.raw)}")
            yield PlacedRecord(begin, line, end)
            if isinstance(line, Terminator):
                return
        self._findings.add("header.end", self._at)
        yield from self.opaque()

    def opaque(self) -> Iterator[PlacedRecord]:
        """Yield the rest of the file as opaque bytes."""
        while True:
            self._fill(BLOCK)
            if not self._data:
                return
            begin = self._at
            raw = self._take(BLOCK)
            yield PlacedRecord(begin, Opaque(raw), len(raw))

    def body(self) -> Iterator[Frame]:
        """Yield chunks, the footer, and what is left."""
        block = _Block(BLOCK)
        remaining = text_offset = 0  # counts of a chunk that is not yet complete, and the offset of their address
        begin = self._at  # the byte offset of its head
        while True:
            block.fill(self._read)
            if block.size < (_WORD if remaining else HEAD_TYPE.itemsize + _WORD):
                break
            segments, used = block.segments(self._at, remaining, text_offset)
            self._at += used
            remaining = segments.remaining
            text_offset = int(segments.text_offset[-1]) + int(segments.count[-1]) * STEP
            if len(segments.begin) > segments.continues:
                begin = segments.offset_of(len(segments.begin) - 1)
            yield segments
            block.drop(used)
        self._data = block.rest()
        if remaining:
            self._findings.add("chunk.over-end", begin, f"{remaining:,} counts of the chunk are beyond the end")
            yield from self._rest()
        else:
            yield from self._end()

    def _read(self, target: memoryview) -> int:
        """Fill a buffer with what was read along with the header, then from the source; less only at the end."""
        ready = min(len(self._data), len(target))
        target[:ready] = self._data[:ready]
        del self._data[:ready]
        if not self._ended:
            count = self._source.readinto(target[ready:])
            self._ended = count < len(target) - ready
            ready += count
        return ready

    def _end(self) -> Iterator[PlacedRecord]:
        """Yield the footer, and bytes after it that are not a whole number."""
        if len(self._data) < FOOTER_TYPE.itemsize:
            message = f"the end has {counted(len(self._data), 'byte')}, a footer {FOOTER_TYPE.itemsize}"
            self._findings.add("footer.missing", self._at, message)
        else:
            begin = self._at
            yield PlacedRecord(begin, decode_footer(self._take(FOOTER_TYPE.itemsize)), FOOTER_TYPE.itemsize)
            if self._data:
                self._findings.add(
                    "footer.trailing", self._at, f"the footer is followed by {counted(len(self._data), 'byte')}"
                )
        yield from self._rest()

    def _rest(self) -> Iterator[PlacedRecord]:
        if self._data:
            begin = self._at
            raw = self._take(len(self._data))
            yield PlacedRecord(begin, Opaque(raw), len(raw))


class _Block:
    """The memory of a block and its segments, which all blocks share: fresh memory costs more than the work in it.

    Args:
        capacity: bytes of the body that are read together.

    Attributes:
        size: number of bytes of the body that it has.
    """

    def __init__(self, capacity: int) -> None:
        self._raw = np.empty(capacity, np.uint8)
        self.size = 0
        # Only at the end of the file may fewer words be left than a head and a count; a rest may precede them.
        rows = capacity // HEAD_TYPE.itemsize + 2
        self._begin, self._count, self._text_offset = (np.empty(rows, np.int64) for _ in range(3))

    def fill(self, read: Callable[[memoryview], int]) -> None:
        """Read as many bytes as fit."""
        self.size += read(self._raw.data[self.size :])

    def segments(self, base: int, remaining: int, text_offset: int) -> tuple[Segments, int]:
        """Return the segments of the block, and how many bytes belong to them.

        Args:
            base: the byte offset of the block.
            remaining: number of counts of a chunk that began in an earlier block.
            text_offset: the offset of the first of these in the text.
        """
        words = self._raw[: self.size // _WORD * _WORD].view(WORD_TYPE).astype(np.uint32, copy=False)
        rest = 1 if remaining else 0
        self._begin[:rest], self._count[:rest], self._text_offset[:rest] = 0, remaining, text_offset
        columns = self._begin, self._count, self._text_offset
        number, end = _native.walk_chunks(
            words, min(remaining, len(words)), HEAD_WORDS, NUMBER, OFFSET, *(column[rest:] for column in columns)
        )
        begin, count, offsets = (column[: rest + number] for column in columns)
        beyond = max(int(begin[-1]) + int(count[-1]) - len(words), 0)
        count[-1] -= beyond
        return Segments(words, base, begin, count, offsets, bool(rest), beyond), min(end, len(words)) * _WORD

    def drop(self, used: int) -> None:
        """Drop this many bytes; what is left is less than a chunk's head and a count."""
        rest = self._raw[used : self.size].copy()
        self.size = len(rest)
        self._raw[: self.size] = rest

    def rest(self) -> bytearray:
        """Return the bytes that it has."""
        return bytearray(self._raw[: self.size])


def _excerpt(raw: bytes) -> str:
    return repr(raw[:40])[1:]
