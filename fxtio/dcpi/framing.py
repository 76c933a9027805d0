"""Where things are in a profile: the header's lines, then the body in blocks of bounded size.

The body's chunks have no end mark and no number: a chunk tells how many counts it has, and the footer is what is left
when eight bytes are.  `Segments` are the chunks of a block as arrays; a chunk that goes beyond its block goes on in the
first segment of the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
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
    """The chunks of a block, or the parts of chunks that lie in it.

    Attributes:
        words: the block's numbers (uint32).
        base: the byte offset of the block in the file.
        at: where the counts of each segment begin, in words of the block.
        count: how many counts a segment has.
        offset: bytes from the beginning of the text to its first address.
        behind: how many counts of the chunk lie in later blocks.
        first: whether the segment begins its chunk.
    """

    words: Array
    base: int
    at: Array
    count: Array
    offset: Array
    behind: Array
    first: Array

    def bounds(self) -> tuple[int, int]:
        """Where the segments begin and end, in words of the block; they lie one behind the other."""
        if not len(self.at):
            return 0, 0
        return int(self.at[0]) - HEAD_WORDS * int(self.first[0]), int(self.at[-1] + self.count[-1])

    def head_words(self, rows: Array) -> list[Array]:
        """Where in the block the words of some chunks' heads are: an array for each word of a head."""
        return [self.at[rows] - back for back in range(1, HEAD_WORDS + 1)]

    def samples(self) -> tuple[Array, Array]:
        """The addresses with samples: their offsets (int64), and the counts (uint32)."""
        begin, end = self.bounds()
        counted = np.ones(end - begin, bool)
        for places in self.head_words(np.flatnonzero(self.first)):
            counted[places - begin] = False
        counts = self.words[begin:end][counted]
        offsets = np.repeat(self.offset - STEP * (np.cumsum(self.count) - self.count), self.count)
        offsets += _ramp(max(BLOCK, len(counts) * STEP))[: len(counts)]
        if np.count_nonzero(counts) == len(counts):
            return offsets, counts
        hit = counts != 0
        return offsets[hit], counts[hit]

    def place(self, row: int) -> int:
        """The byte offset of a segment in the file, that of the chunk's head where it has one."""
        head = HEAD_WORDS if self.first[row] else 0
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
        left = offset = 0  # counts of the chunk that is not yet complete, and the offset of their address
        begin = self._at  # the byte offset of its head
        while True:
            self._fill(BLOCK)
            whole = len(self._data) // _WORD
            if not left and len(self._data) < HEAD_TYPE.itemsize + _WORD:
                yield from self._end()
                return
            if left and not whole:
                self._findings.add("chunk-over-end", begin, f"{left:,} counts of the chunk are beyond the end")
                yield from self._rest()
                return
            base = self._at
            words = np.frombuffer(self._take(whole * _WORD), WORD_TYPE)
            made, used = self._walk(words, base, left, offset)
            self._put_back(words, used)
            if len(made.at):
                left = int(made.behind[-1])
                offset = int(made.offset[-1]) + int(made.count[-1]) * STEP
                if made.first[-1]:
                    begin = made.place(-1)
                yield made

    def _walk(self, words: Array, base: int, left: int, offset: int) -> tuple[Segments, int]:
        """The segments of a block, and how many words belong to them."""
        taken = min(left, len(words))
        # Only at the end of the file may fewer words be left than a head and a count.
        out = np.empty((len(words) - taken) // HEAD_WORDS + 1, np.int64)
        found, at = _native.heads(words.astype(np.uint32, copy=False), taken, HEAD_WORDS, NUMBER, out)
        starts = out[:found]
        number = words[starts + NUMBER].astype(np.int64)
        begins = starts + HEAD_WORDS
        there = np.minimum(number, len(words) - begins)
        made = Segments(
            words, base, begins, there, words[starts + OFFSET].astype(np.int64), number - there,
            np.ones(len(starts), bool),
        )  # fmt: skip
        if taken:
            made = _with_rest(made, taken, left - taken, offset)
        return made, min(at, len(words))

    def _put_back(self, words: Array, used: int) -> None:
        rest = words[used:].tobytes()
        self._data[:0] = rest
        self._at -= len(rest)

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


@lru_cache(1)
def _ramp(size: int) -> Array:
    """The offsets of as many addresses as a block of this size can count."""
    return np.arange(0, size, STEP)


def _with_rest(made: Segments, taken: int, behind: int, offset: int) -> Segments:
    """The segments, and before them the rest of a chunk that an earlier block began."""

    def before(value: int, array: Array) -> Array:
        return np.concatenate([np.array([value], array.dtype), array])

    return Segments(
        made.words, made.base, before(0, made.at), before(taken, made.count), before(offset, made.offset),
        before(behind, made.behind), before(0, made.first),
    )  # fmt: skip


def _shown(raw: bytes) -> str:
    return repr(raw[:40])[1:]
