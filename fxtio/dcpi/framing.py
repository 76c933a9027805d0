"""Where things are in a profile: the header's lines, then the body in blocks of bounded size.

The body's chunks have no end mark and no number: a chunk tells how many counts it has, and the footer is what is left
when eight bytes are.  `Segments` are the chunks of a block as arrays; a chunk that goes beyond its block goes on in the
first segment of the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fxtio import _native
from fxtio.codec.record import Opaque
from fxtio.dcpi.layout import FOOTER_TYPE, HEAD_TYPE, HEAD_WORDS, KEYWORDS, NUMBER, OFFSET, STEP, WORD_TYPE
from fxtio.dcpi.records import Footer, Line, Terminator, decode_footer, decode_line
from fxtio.finding import Findings
from fxtio.io.source import Source

Array = np.ndarray[Any, Any]

MAX_HEADER = 1 << 20
"""The longest header in bytes; real ones have some hundred."""

BLOCK = 1 << 20
"""Bytes of the body that are looked at together."""

_PLAUSIBLE = 3
_WORD = WORD_TYPE.itemsize


def looks_like_header(head: bytes) -> bool:
    """Whether a file that begins like this is a profile: its first lines are those of a header, with known words."""
    known = 0
    for raw in head.splitlines(keepends=True):
        if not raw.endswith(b"\n"):
            break
        line = decode_line(raw)
        if isinstance(line, Terminator):
            return known > 0
        if isinstance(line, Opaque):
            return False
        keyword = KEYWORDS.get(line.word)
        if keyword is not None:
            if not keyword.form.pattern.fullmatch(line.value.rstrip("\r")):
                return False
            known += _PLAUSIBLE if line.word == "version" else 1
    return known >= _PLAUSIBLE


@dataclass(slots=True)
class Segments:
    """The chunks of a block, or the parts of chunks that lie in it.  The arrays are valid until the next block comes.

    Attributes:
        words: the block's numbers (uint32).
        base: the byte offset of the block in the file.
        at: where the counts of each segment begin, in words of the block (int64).
        count: how many counts a segment has (int64).
        offset: bytes from the beginning of the text to its first address (int64).
        begun: whether the first segment goes on with a chunk of an earlier block.
        behind: how many counts of the last chunk lie in later blocks.
        total: the sum of all counts.
        addresses: how many counts are not zero.
        padded: how many of the chunks that lie here as a whole begin or end with a zero.
    """

    words: Array
    base: int
    at: Array
    count: Array
    offset: Array
    begun: bool
    behind: int
    total: int = field(init=False)
    addresses: int = field(init=False)
    padded: int = field(init=False)

    def __post_init__(self) -> None:
        self.total, self.addresses, self.padded = _native.sum_rows(self.words, self.at, self.count)
        cut = {0} if self.begun else set()
        if self.behind:
            cut.add(len(self.at) - 1)
        for row in cut:
            self.padded -= _native.sum_rows(self.words, self.at[row : row + 1], self.count[row : row + 1])[2]

    def chunks(self) -> tuple[Array, Array]:
        """The chunks that begin here: their offsets, and how many counts each has (int64); nobody else has them."""
        offset, number = self.offset[self.begun :].copy(), self.count[self.begun :].copy()
        number[-1:] += self.behind
        return offset, number

    def samples(self) -> tuple[Array, Array]:
        """The addresses with samples: their offsets (int64), and the counts (uint32); nobody else has them."""
        offset, count = np.empty(self.addresses, np.int64), np.empty(self.addresses, np.uint32)
        _native.unroll(self.words, self.at, self.count, self.offset, STEP, offset, count)
        return offset, count

    def place(self, row: int) -> int:
        """The byte offset of a segment in the file, that of the chunk's head where it has one."""
        head = 0 if self.begun and row == 0 else HEAD_WORDS
        return self.base + (int(self.at[row]) - head) * _WORD

    def end(self) -> int:
        """The byte offset behind the last segment."""
        return self.base + (int(self.at[-1]) + int(self.count[-1])) * _WORD


@dataclass(slots=True)
class Placed:
    """A record that is not made of segments.

    Attributes:
        offset: its byte offset in the file.
        record: the record.
        size: its bytes.
    """

    offset: int
    record: Line | Terminator | Footer | Opaque
    size: int


Item = Placed | Segments


class Framer:
    """Walks a profile.

    Args:
        source: where it comes from.
        findings: takes what is wrong with the framing.
    """

    def __init__(self, source: Source, findings: Findings) -> None:
        self._source = source
        self._findings = findings
        self._data = bytearray()  # read, and not yet delivered
        self._at = 0  # the byte offset of the first of them
        self._ended = False

    def _fill(self, size: int) -> None:
        """Have at least so many bytes, if there are."""
        while len(self._data) < size and not self._ended:
            piece = bytearray(max(size - len(self._data), 1))
            count = self._source.readinto(memoryview(piece))
            self._data += piece[:count]
            self._ended = count < len(piece)

    def _take(self, size: int) -> bytes:
        raw = bytes(self._data[:size])
        del self._data[:size]
        self._at += len(raw)
        return raw

    def header(self) -> Iterator[Placed]:
        """The lines of the header, the last included; whatever has not the form of a line is `Opaque`."""
        held = 4096
        while True:
            self._fill(held)
            while (end := self._data.find(b"\n") + 1) > 0:
                begin = self._at
                line = decode_line(self._take(end))
                if isinstance(line, Opaque):
                    self._findings.add("header-line", begin, f"no word, blanks and value: {_shown(line.raw)}")
                yield Placed(begin, line, end)
                if isinstance(line, Terminator):
                    return
            if self._ended or self._at + len(self._data) > MAX_HEADER:
                break
            held = len(self._data) + 4096
        self._findings.add("header-end", self._at, "the header has no line `samples` at its end")
        yield from self.opaque()

    def opaque(self) -> Iterator[Placed]:
        """All that is left as bytes that nobody explains."""
        while True:
            self._fill(BLOCK)
            if not self._data:
                return
            begin = self._at
            raw = self._take(BLOCK)
            yield Placed(begin, Opaque(raw), len(raw))

    def body(self) -> Iterator[Item]:
        """Chunks, the footer, and what is left."""
        block = _Block(BLOCK)
        left = offset = 0  # counts of the chunk that is not yet complete, and the offset of their address
        begin = self._at  # the byte offset of its head
        while True:
            block.fill(self._read)
            if block.held < (_WORD if left else HEAD_TYPE.itemsize + _WORD):
                break
            made, used = block.segments(self._at, left, offset)
            self._at += used
            left = made.behind
            offset = int(made.offset[-1]) + int(made.count[-1]) * STEP
            if len(made.at) > made.begun:
                begin = made.place(len(made.at) - 1)
            yield made
            block.drop(used)
        self._data = block.rest()
        if left:
            self._findings.add("chunk-over-end", begin, f"{left:,} counts of the chunk are beyond the end")
            yield from self._rest()
        else:
            yield from self._end()

    def _read(self, target: memoryview) -> int:
        """Fill it from what was read with the header, then from the source; less only at the end."""
        ready = min(len(self._data), len(target))
        target[:ready] = self._data[:ready]
        del self._data[:ready]
        if not self._ended:
            count = self._source.readinto(target[ready:])
            self._ended = count < len(target) - ready
            ready += count
        return ready

    def _end(self) -> Iterator[Placed]:
        """The footer, and bytes behind it that are no number."""
        if len(self._data) < FOOTER_TYPE.itemsize:
            self._findings.add("no-footer", self._at, f"{len(self._data)} bytes are left for the footer's 8")
        else:
            begin = self._at
            yield Placed(begin, decode_footer(self._take(FOOTER_TYPE.itemsize)), FOOTER_TYPE.itemsize)
            if self._data:
                self._findings.add("body-length", self._at, f"{len(self._data)} bytes behind the footer")
        yield from self._rest()

    def _rest(self) -> Iterator[Placed]:
        if self._data:
            begin = self._at
            raw = self._take(len(self._data))
            yield Placed(begin, Opaque(raw), len(raw))


class _Block:
    """The memory of one block and its segments, which every block uses again: fresh memory costs more than the work.

    Args:
        size: bytes of the body that are looked at together.

    Attributes:
        held: how many bytes of the body it has.
    """

    def __init__(self, size: int) -> None:
        self._raw = np.empty(size, np.uint8)
        self.held = 0
        # Only at the end of the file may fewer words be left than a head and a count; a rest may come before them.
        room = size // HEAD_TYPE.itemsize + 2
        self._at, self._count, self._offset = (np.empty(room, np.int64) for _ in range(3))

    def fill(self, read: Callable[[memoryview], int]) -> None:
        """Read as much as there is room for."""
        self.held += read(self._raw.data[self.held :])

    def segments(self, base: int, left: int, offset: int) -> tuple[Segments, int]:
        """The segments of the block, and how many bytes belong to them.

        Args:
            base: the byte offset of the block.
            left: so many counts belong to a chunk that an earlier block began.
            offset: the offset of the first of them.
        """
        words = self._raw[: self.held // _WORD * _WORD].view(WORD_TYPE).astype(np.uint32, copy=False)
        rest = 1 if left else 0
        self._at[:rest], self._count[:rest], self._offset[:rest] = 0, left, offset
        columns = self._at, self._count, self._offset
        found, end = _native.walk_chunks(
            words, min(left, len(words)), HEAD_WORDS, NUMBER, OFFSET, *(column[rest:] for column in columns)
        )
        at, count, offsets = (column[: rest + found] for column in columns)
        behind = max(int(at[-1]) + int(count[-1]) - len(words), 0)
        count[-1] -= behind
        made = Segments(words, base, at, count, offsets, bool(rest), behind)
        return made, min(end, len(words)) * _WORD

    def drop(self, used: int) -> None:
        """Keep only what is behind so many bytes: less than a chunk's head and a count."""
        kept = self._raw[used : self.held].copy()
        self.held = len(kept)
        self._raw[: self.held] = kept

    def rest(self) -> bytearray:
        """What it has."""
        return bytearray(self._raw[: self.held])


def _shown(raw: bytes) -> str:
    return repr(raw[:40])[1:]
