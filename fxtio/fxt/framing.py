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
        self._found_at = np.empty(BATCH_RECORDS, np.int64)
        self._found_size = np.empty(BATCH_RECORDS, np.int64)
        self._found_kind = np.empty(BATCH_RECORDS, np.int8)
        self._ended = False
        self._odd = 0  # bytes at the end that are no whole word
        self._lost: _Lost | None = None

    def __iter__(self) -> Iterator[Frame]:
        wanted = BATCH_WORDS
        while self._fill(wanted):
            wanted = BATCH_WORDS
            words = self._buffer.byteswap() if self.big_endian else self._buffer
            block = Block(words, self._buffer)
            if self._lost and not self._recover(block):
                continue
            frame, used, why = self._walk(block)
            if len(frame.at):
                yield frame
            if why == _native.ZERO:
                used = self._zero(words, used)
            elif why == _native.PARTIAL:
                wanted = self._partial(words, used)
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
        return len(self._buffer) > 0

    def _drop(self, used: int) -> None:
        self._buffer = self._buffer[used:]
        self._base += used * 8

    def _walk(self, block: Block) -> tuple[Frame, int, int]:
        rules, table = tables_of(RECORDS)
        at, size, kind = self._found_at, self._found_size, self._found_kind
        count, used, why = _native.walk(block.words, 0, rules, table, at, size, kind)
        return Frame(block, self._base, at[:count], size[:count], kind[:count], self.big_endian), used, why

    def _zero(self, words: Array, used: int) -> int:
        """A record of size 0.  Where to go on."""
        offset = self._base + used * 8
        if words[used] == 0:
            nonzero = words[used:] != 0
            count = int(nonzero.argmax()) if nonzero.any() else len(nonzero)
            message = f"{count:,} zero words between records"
            self.findings.add("zero-words", offset, message, level=Level.WARNING)
            return used + count
        self.findings.add("zero-size", offset, f"a record of size 0, its header is {int(words[used]):#018x}")
        self._lost = _Lost(offset, 0, None)
        return used + 1

    def _partial(self, words: Array, used: int) -> int:
        """A record beyond the buffer: read on, or do not believe it.  How many words the buffer should have."""
        size = RECORDS.size_of(int(words[used]))
        offset = self._base + used * 8
        have = len(words) - used
        remaining = 0 if self._ended else self.source.remaining
        left = None if remaining is None else have + remaining // 8
        if left is not None and size > left:
            self._lost = _Lost(offset, size, left)
            return min(left, 2 * BATCH_WORDS)
        if size * 8 > LARGEST:
            self.findings.add("record-too-large", offset, f"a record of {size * 8:,} bytes; {LARGEST:,} are the limit")
            self._lost = _Lost(offset, size, None)
            return BATCH_WORDS
        # What arrives bounds what is allocated: the buffer doubles, it does not jump to the size that a header claims.
        return max(BATCH_WORDS, min(size, 2 * have))

    def _recover(self, block: Block) -> bool:
        """Look for the next good record behind a lost one, and drop what lies before it."""
        lost = self._lost
        assert lost is not None
        start = 1 if lost.offset == self._base and lost.size else 0
        place = self._resync(block, start)
        if place is None:
            self._drop(len(self._buffer) if self._ended else max(len(self._buffer) - _CHAIN * _ORDINARY, start))
        if place is None and not self._ended:
            return False
        if lost.have is not None:
            rule, told = ("truncated", "the last record") if place is None else ("size-beyond-end", "a record")
            self.findings.add(rule, lost.offset, f"{told} should have {lost.size:,} words, {lost.have:,} are left")
        self._lost = None
        if place:
            self._drop(place)
            return False
        return place is not None

    def _resync(self, block: Block, start: int) -> int | None:
        """The next word from which good records chain to the end of the buffer, or several times; None without one."""
        words, total = block.words[start:], len(block.words)
        rules, table = tables_of(RECORDS)
        rule = rules[(words & np.uint64(len(rules) - 1)).astype(np.intp)]
        size = (words >> rule[:, 0] & rule[:, 1]).astype(np.int64)
        known = table[(rule[:, 4] + (words >> rule[:, 2] & rule[:, 3])).astype(np.intp)] >= 0
        after = np.where(known & (size > 0), np.arange(start, total) + size, total + 1)
        ends = after
        for _ in range(_CHAIN - 1):
            ends = np.where(ends < total, after[np.where(ends < total, ends - start, 0)], ends)
        for place in (np.flatnonzero(ends <= total) + start).tolist():
            if self._good(block, place):
                return int(place)
        return None

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
        if self._odd:
            self.findings.add("truncated", self._base, f"{self._odd} bytes at the end are no whole word")
        if self.source.fault:
            self.findings.add("source", self.source.position, self.source.fault)


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
