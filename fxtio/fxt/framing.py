"""Where records begin and end: a source to frames, with bounded memory, whatever the bytes are.

A frame is a run of whole records.  A header that cannot be right (size 0, more than is left) is a finding; reading goes
on at the next place from which several records chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio import _native
from fxtio.codec.columns import Block, tables_of
from fxtio.codec.generate import Order, decode, encode
from fxtio.codec.record import Opaque, Record
from fxtio.errors import DecodeError, EncodeError
from fxtio.finding import Findings, Level
from fxtio.fxt.records import RECORDS, Magic
from fxtio.io.source import Source

Array = np.ndarray[Any, Any]

MAGIC = encode(Magic())
"""The first eight bytes of a little-endian trace; a big-endian one has them reversed."""

BATCH_WORDS = 1 << 18
"""How many words are read at once (2 MiB)."""

BATCH_RECORDS = 1 << 16
"""How many records a frame has at the most."""

LARGEST = 1 << 28
"""The largest record in bytes that is taken in; more is not believed."""

_CHAIN = 4
_ORDINARY = 4096  # words; no record with the 12-bit size is larger
_AHEAD = 2 * _CHAIN * _ORDINARY  # words to have at least when looking for the next good record
_WINDOW = 1024  # words that are looked through first


@dataclass(frozen=True, slots=True)
class Frame:
    """A run of whole records.

    Attributes:
        block: the words that hold them.
        base: the byte offset of the first word in the trace.
        at: the word where each record begins (int64).
        size: its size in words (int64).
        kind: its index in `RECORDS.classes` (int8), -1 unknown.
        big_endian: the trace's byte order.
    """

    block: Block
    base: int
    at: Array
    size: Array
    kind: Array
    big_endian: bool

    @property
    def order(self) -> Order:
        """The byte order as Python names it."""
        return "big" if self.big_endian else "little"

    def offset(self, row: int) -> int:
        """The byte offset of a record in the trace."""
        return self.base + int(self.at[row]) * 8

    def raw(self, row: int) -> bytes:
        """The bytes of a record."""
        begin = int(self.at[row]) * 8
        return bytes(self.block.data[begin : begin + int(self.size[row]) * 8])


@dataclass(slots=True)
class _Lost:
    """A header that cannot be right, and behind which the next good record has not been found yet."""

    offset: int
    size: int
    have: int | None
    "How many words are left in all, for a record that claims more; None for other faults, told already."


class Framer:
    """Cuts a source into frames.

    The frames share their memory: each is valid until the next one is asked for.

    Args:
        source: where the bytes come from.
        findings: where faults go.
    """

    def __init__(self, source: Source, findings: Findings) -> None:
        self.source = source
        self.findings = findings
        self.big_endian = source.head[:8] == MAGIC[::-1]
        self._base = 0  # byte offset of the first word in the buffer
        self._store = np.empty(0, np.uint64)
        self._buffer = self._store  # the part of the store that is still to be walked
        self._words = self._store  # the same as native integers
        self._found_at = np.empty(BATCH_RECORDS, np.int64)
        self._found_size = np.empty(BATCH_RECORDS, np.int64)
        self._found_kind = np.empty(BATCH_RECORDS, np.int8)
        self._ended = False
        self._odd = 0  # bytes at the end that are no whole word
        self._cut = False  # the end was told to be missing
        self._lost: _Lost | None = None

    def __iter__(self) -> Iterator[Frame]:
        wanted = BATCH_WORDS
        while self._fill(wanted):
            wanted = BATCH_WORDS
            block = Block(self._words, self._buffer)
            start = self._recover(block) if self._lost else 0
            if start is None:
                wanted = max(BATCH_WORDS, _AHEAD)
                continue
            frame, used, why = self._walk(block, start)
            if len(frame.at):
                yield frame
            if why == _native.ZERO and self._lost is None:
                used = self._zero(block, used)
            if self._lost:
                wanted = _AHEAD
            elif why == _native.PARTIAL:
                wanted = self._partial(block.words, used)
            self._drop(used)
        self._tell_end()

    def _fill(self, wanted: int) -> bool:
        """Read until `wanted` words are there or the source ends; whether there is anything to walk."""
        have = len(self._buffer)
        if have < wanted and not self._ended:
            if len(self._store) < wanted:
                self._store = np.empty(wanted, np.uint64)
            self._store[:have] = self._buffer
            got = self.source.readinto(self._store[:wanted].data.cast("B")[have * 8 :])
            self._ended = got < (wanted - have) * 8
            self._odd = got % 8
            self._buffer = self._store[: have + got // 8]
            self._words = self._buffer.byteswap() if self.big_endian else self._buffer
        return len(self._buffer) > 0

    def _drop(self, used: int) -> None:
        self._buffer, self._words = self._buffer[used:], self._words[used:]
        self._base += used * 8

    def _walk(self, block: Block, start: int) -> tuple[Frame, int, int]:
        """Walk the buffer.  Records of size 0 end the frame only if no good record is found behind them."""
        rules, table = tables_of(RECORDS)
        at, size, kind = self._found_at, self._found_size, self._found_kind
        count, used, why = 0, start, _native.ZERO
        while why == _native.ZERO and self._lost is None:
            more, used, why = _native.walk(block.words, used, rules, table, at[count:], size[count:], kind[count:])
            count += more
            if why == _native.ZERO:
                if self.findings.strict:  # what comes before the fault comes first
                    break
                used = self._zero(block, used)
        return Frame(block, self._base, at[:count], size[:count], kind[:count], self.big_endian), used, why

    def _zero(self, block: Block, used: int) -> int:
        """A record of size 0.  Where to go on."""
        offset = self._base + used * 8
        header = int(block.words[used])
        if header == 0:
            count = _zeros(block.words[used:])
            self.findings.add("zero-words", offset, f"{count:,} zero words between records", level=Level.WARNING)
            return used + count
        self.findings.add("zero-size", offset, f"a record of size 0, its header is {header:#018x}")
        place = self._resync(block, used + 1, short=self._ended)
        if place is None:
            self._lost = _Lost(offset, 0, None)
            return used + 1
        return place

    def _partial(self, words: Array, used: int) -> int:
        """A record beyond the buffer: read on, or do not believe it.  How many words the buffer should have."""
        size = RECORDS.size_of(int(words[used]))
        offset = self._base + used * 8
        if size * 8 > LARGEST:
            self.findings.add("record-too-large", offset, f"a record of {size * 8:,} bytes; {LARGEST:,} are the limit")
            self._lost = _Lost(offset, size, None)
            return _AHEAD
        have = len(words) - used
        remaining = 0 if self._ended else self.source.remaining
        left = None if remaining is None else have + remaining // 8
        if left is not None and size > left:
            self._lost = _Lost(offset, size, left)
            return _AHEAD
        # What arrives bounds what is allocated: the buffer doubles, it does not jump to the size that a header claims.
        return max(BATCH_WORDS, min(size, 2 * have))

    def _recover(self, block: Block) -> int | None:
        """Look for the next good record behind a lost one; without one, drop what was looked through.

        What claims more than is left is the last record, cut off, unless several good records follow: the arguments of
        a record can look like records.
        """
        lost = self._lost
        assert lost is not None
        start = 1 if lost.offset == self._base and lost.size else 0
        place = self._resync(block, start, short=self._ended and lost.have is None)
        if place is None:
            self._drop(len(self._buffer) if self._ended else max(len(self._buffer) - _CHAIN * _ORDINARY, start))
            if not self._ended:
                return None
        if lost.have is not None:
            self._cut = place is None
            rule, told = ("truncated", "the last record") if self._cut else ("size-beyond-end", "a record")
            self.findings.add(rule, lost.offset, f"{told} should have {lost.size:,} words, {lost.have:,} are left")
        self._lost = None
        return place

    def _resync(self, block: Block, start: int, *, short: bool) -> int | None:
        """The next word from which good records follow each other, several of them; None without one.

        Args:
            block: the words.
            start: the first word to consider.
            short: fewer records will do where they reach the end.
        """
        width, total = _WINDOW, len(block.words)
        while True:
            stop = min(start + width, total)
            places, undecided = _chains(block.words[start:stop], short=short and stop == total)
            place = next((start + one for one in places if self._good(block, start + one)), None)
            if place is not None and place < start + undecided:
                return place
            if stop == total:  # with too few words to decide, more are read first
                return place if self._ended or total - start >= _AHEAD - 1 else None
            width *= 8

    def _good(self, block: Block, at: int) -> bool:
        """Whether the records from here on are what their sizes promise: they would be written back the same."""
        for _ in range(_CHAIN):
            if at == len(block.words):
                return True
            stop = at + RECORDS.size_of(int(block.words[at]))
            if not isinstance(exact(block, at, stop, self.big_endian), Record):
                return False
            at = stop
        return True

    def _tell_end(self) -> None:
        if self._odd and not self._cut:
            self.findings.add("truncated", self._base, f"{self._odd} bytes at the end are no whole word")


def _zeros(words: Array) -> int:
    """How many zero words come first."""
    begin, width = 0, 64
    while begin < len(words):
        nonzero = np.flatnonzero(words[begin : begin + width])
        if len(nonzero):
            return begin + int(nonzero[0])
        begin, width = begin + width, width * 2
    return len(words)


def _chains(words: Array, *, short: bool) -> tuple[list[int], int]:
    """The places from which headers lead to each other `_CHAIN` times, and the first place that leads out before.

    Args:
        words: the words to look through.
        short: fewer times will do where they lead to the end.
    """
    rules, table = tables_of(RECORDS)
    total = len(words)
    rule = rules[(words & np.uint64(len(rules) - 1)).astype(np.intp)]
    size = (words >> rule[:, 0] & rule[:, 1]).astype(np.int64)
    known = table[(rule[:, 4] + (words >> rule[:, 2] & rule[:, 3])).astype(np.intp)] >= 0
    after = np.where(known & (size > 0), np.arange(total) + size, -1)
    ends = after
    for _ in range(_CHAIN - 1):
        inside = (ends >= 0) & (ends < total)
        ends = np.where(inside, after[np.where(inside, ends, 0)], ends if short else np.where(ends < 0, -1, total + 1))
    undecided = np.flatnonzero(ends > total)
    return np.flatnonzero((ends >= 0) & (ends <= total)).tolist(), int(undecided[0]) if len(undecided) else total


def exact(block: Block, at: int, stop: int, big_endian: bool) -> Record | Opaque:
    """The record at the words `at` to `stop`, references as they are; `Opaque` unless it encodes to its bytes."""
    raw = bytes(block.data[at * 8 : stop * 8])
    words = block.words[at:stop].tolist()
    try:
        record: Record | Opaque = decode(RECORDS, words, raw, 0, stop - at, [])
        if encode(record, "big" if big_endian else "little") == raw:
            return record
    except (DecodeError, EncodeError):
        pass
    return Opaque(raw)
