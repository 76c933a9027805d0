"""A `<tid>.dat` file, block by block: where its records are, and in which address space.

The file has no frame of its own: a record's size follows from what its function's payloads hold.  Where that is not
known, or the bytes are no record, the next place from which several records follow each other is looked for.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fxtio import _native
from fxtio._native.constants import PayloadWalkEnd
from fxtio.codec.columns import Block
from fxtio.finding import Findings, Level
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.layout import RecordWord
from fxtio.uftrace.sessions import FOREVER, Epoch, Sessions
from fxtio.uftrace.space import Space

Array = np.ndarray[Any, Any]
Order = Literal["little", "big"]

BLOCK = 1 << 20
"""Bytes of a file that are read at once."""

END, BAD, PARTIAL, FULL, LATER, UNKNOWN = PayloadWalkEnd
_LARGEST = BLOCK // 2
"""A record that is larger than this many bytes is none."""

_CHAIN = 3
_LONGEST_PAUSE = 1 << 47  # ns, 39 hours: a record as long after the one before it is not plausible
_FIELDS = RecordWord.fields
_HEADER = 2


def _begin(epoch: Epoch) -> int:
    return epoch.begin


def _head(order: Order) -> Array:
    mask, value = RecordWord.pattern("const")
    kind = _FIELDS["type"]
    names = (RecordType.ENTRY, RecordType.EXIT, RecordType.EVENT)
    return np.array(
        [mask, value, kind.lo, kind.mask, _FIELDS["more"].lo, _FIELDS["address"].lo, *names, order == "big"], np.uint64
    )


_HEADS: dict[str, Array] = {"little": _head("little"), "big": _head("big")}


@dataclass(slots=True)
class Chunk:
    """Some records of a task that follow each other; valid until the next chunk is asked for.

    Attributes:
        tid: the task.
        file: the file's name.
        base: the byte offset of the block's first word.
        block: the words.
        at: where each record begins in the block (int64, words).
        size: their sizes (int64, words).
        space: what addresses mean.
        order: the byte order.
        gap: bytes that are no record, instead of records.
        told: whether what the payloads hold is known.
    """

    tid: int
    file: str
    base: int
    block: Block
    at: Array
    size: Array
    space: Space
    order: Order
    gap: bytes | None = None
    told: bool = True
    _words: Array | None = field(default=None, init=False, repr=False)
    _times: Array | None = field(default=None, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.at)

    @property
    def times(self) -> Array:
        """The records' first words (uint64)."""
        if self._times is None:
            self._times = self._taken(0)
        return self._times

    @property
    def words(self) -> Array:
        """The records' second words (uint64)."""
        if self._words is None:
            self._words = self._taken(1)
        return self._words

    def _taken(self, delta: int) -> Array:
        count = len(self.at)
        if count and int(self.at[-1]) - int(self.at[0]) == _HEADER * (count - 1):  # no payloads: no need to gather
            first = int(self.at[0]) + delta
            return self.block.words[first : first + _HEADER * count : _HEADER]
        out = np.empty(count, np.uint64)
        if count:
            _native.gather(self.block.words, self.at, delta, out)
        return out

    def offsets(self) -> Array:
        """The byte offsets of the records in the file (int64)."""
        return self.at * 8 + self.base


class TaskReader:
    """Reads one `.dat` file.

    Args:
        tid: the task.
        name: the file.
        descriptor: of the open file; closed in the end.
        sessions: what its addresses mean.
        order: the byte order.
        findings: where faults go.
        progress: called with the number of bytes of each block.
        most: read no more than so many bytes.
    """

    def __init__(
        self,
        tid: int,
        name: str,
        descriptor: int,
        sessions: Sessions,
        order: Order,
        findings: Findings,
        progress: Callable[[int], None],
        most: int | None = None,
    ) -> None:
        self.tid = tid
        self.name = name
        self._descriptor = descriptor
        self._sessions = sessions
        self._order = order
        self._findings = findings
        self._progress = progress
        self._left = most
        self._epochs = sessions.epochs(tid)
        self._epoch = 0
        self._space = sessions.space(self._epochs[0])
        self._limit = self._epochs[1].begin if len(self._epochs) > 1 else FOREVER
        self._last = 0  # the time of the last record with one
        self._raw = np.empty(BLOCK // 8, np.uint64)
        self._at = np.empty(BLOCK // 16, np.int64)
        self._size = np.empty(BLOCK // 16, np.int64)

    @staticmethod
    def nothing(sessions: Sessions) -> Chunk:
        """A chunk without records."""
        words, none = np.empty(0, np.uint64), np.empty(0, np.int64)
        return Chunk(0, "", 0, Block(words, words), none, none, sessions.empty, "little")

    def __iter__(self) -> Iterator[Chunk]:
        held = base = 0
        with os.fdopen(self._descriptor, "rb", buffering=0) as file:
            while True:
                buffer = self._raw.view(np.uint8)
                count = self._fill(file, memoryview(buffer[held:]))  # type: ignore[arg-type,unused-ignore]
                end = held + count
                last = end < BLOCK
                words = self._native(end // 8)
                used = yield from self._walk(words, base, last=last)
                base += used * 8
                if last:
                    yield from self._tail(buffer[: end % 8 + (end // 8 - used) * 8], buffer, used, end, base, words)
                    return
                held = end - used * 8
                buffer[:held] = buffer[used * 8 : end].copy()

    def _fill(self, file: Any, target: memoryview) -> int:
        filled = 0
        if self._left is not None:
            target = target[: self._left]
        while filled < len(target) and (count := file.readinto(target[filled:])):
            filled += count
        if self._left is not None:
            self._left -= filled
        self._progress(filled)
        return filled

    def _native(self, count: int) -> Array:
        raw = self._raw[:count]
        return raw if self._order == "little" else raw.byteswap()

    def _tail(self, rest: Array, buffer: Array, used: int, end: int, base: int, words: Array) -> Iterator[Chunk]:
        """What is left at the end of the file and is no whole record."""
        if not len(rest):
            return
        told = f"the file ends in the middle of a record: {len(rest)} bytes are left"
        self._findings.add("truncated", base, told, file=self.name)
        yield self._gap(buffer[used * 8 : end].tobytes(), base, words)

    def _walk(self, words: Array, base: int, *, last: bool) -> Generator[Chunk, None, int]:
        """The records of a block; how many words they take."""
        block = Block(words, self._raw[: len(words)])
        here = 0
        while True:
            space = self._space
            count, after, why = _native.walk_payloads(
                words, block.raw.view(np.uint8), _HEADS[self._order], space.begin, space.end, space.programs,
                space.code, self._at, self._size, here, self._limit,
            )  # fmt: skip
            if count:
                chunk = self._chunk(block, base, self._at[:count], self._size[:count])
                self._look_at_times(chunk)
                yield chunk
            here = after
            if why == END or (why == PARTIAL and not last and (len(words) - here) * 8 < _LARGEST):
                return here
            if why == FULL:
                continue
            if why == LATER:
                self._next_epoch(int(words[here]))
            elif why != UNKNOWN or not self._learn(int(words[here + 1])):
                if why == PARTIAL and (after := self._next_record(words, here + 1)) < 0:
                    return here
                after = yield from self._skip(block, base, here, why, last=last)
                if after < 0:
                    return here
                here = after

    def _learn(self, word: int) -> bool:
        leave = _FIELDS["type"].get(word) == RecordType.EXIT
        return self._space.learn(_FIELDS["address"].get(word), leave=leave)

    def _next_epoch(self, time: int) -> None:
        later = bisect_right(self._epochs, time, lo=self._epoch + 1, key=_begin)
        self._epoch = later - 1
        self._space = self._sessions.space(self._epochs[self._epoch])
        self._limit = self._epochs[later].begin if later < len(self._epochs) else FOREVER

    def _skip(self, block: Block, base: int, here: int, why: int, *, last: bool) -> Generator[Chunk, None, int]:
        """Go on behind something that cannot be read; the place, or -1 if more bytes are needed."""
        words, offset = block.words, base + here * 8
        header = why != BAD and here + _HEADER <= len(words)
        after = self._next_record(words, here + (_HEADER if header else 1))
        if after < 0:
            if not last and (len(words) - here) * 8 < _LARGEST:
                return -1
            after = len(words) if last else max(len(words) - _HEADER, here + 1)
        if why == BAD:
            told = f"the magic bits are not there; {(after - here) * 8:,} bytes are skipped"
            self._findings.add("record-magic", offset, told, file=self.name)
        else:
            address = _FIELDS["address"].get(int(words[here + 1]))
            told = f"nothing tells what the payload of {self._space.name(address)} holds; it is kept as it is"
            self._findings.add("payload-unknown", offset, told, level=Level.WARNING, file=self.name)
        if header:
            chunk = self._chunk(block, base, np.array([here]), np.array([after - here]))
            chunk.told = False
            self._last = max(self._last, int(words[here]))
            yield chunk
        else:
            yield self._gap(block.raw[here:after].tobytes(), offset, words)
        return after

    def _next_record(self, words: Array, begin: int) -> int:
        """The next word from which records follow each other, or -1."""
        mask, value = RecordWord.pattern("const")
        heads = np.flatnonzero(words[begin + 1 :] & np.uint64(mask) == value) + begin
        return next((here for here in heads.tolist() if self._is_chain(words, here)), -1)

    def _is_chain(self, words: Array, here: int) -> bool:
        mask, value = RecordWord.pattern("const")
        time = self._last
        for _ in range(_CHAIN):
            if here + _HEADER > len(words):
                return True
            when, word = int(words[here]), int(words[here + 1])
            kind, more = _FIELDS["type"].get(word), _FIELDS["more"].get(word)
            if word & mask != value or (kind == RecordType.LOST and more):
                return False
            if kind != RecordType.LOST:
                if not time <= when <= (time or when) + _LONGEST_PAUSE:
                    return False
                time = when
                address = _FIELDS["address"].get(word)
                if kind != RecordType.EVENT and len(self._space) and self._space.index(address) < 0:
                    return False
            if more:
                return True  # how far it goes is not known here
            here += _HEADER
        return True

    def _look_at_times(self, chunk: Chunk) -> None:
        times = chunk.times
        if bool((times[1:] >= times[:-1]).all()) and int(times[0]) >= self._last:
            self._last = int(times[-1])
            return
        real = np.flatnonzero(_FIELDS["type"].get(chunk.words) != RecordType.LOST)
        if not len(real):
            return
        mine = np.concatenate([np.array([self._last], np.uint64), times[real]])
        back = np.flatnonzero(mine[1:] < mine[:-1])
        self._last = int(mine[-1])
        if len(back):
            offset = int(chunk.at[real[back[0]]]) * 8 + chunk.base
            told = "a record is earlier than the one before it"
            self._findings.add("time-backwards", offset, told, level=Level.WARNING, times=len(back), file=self.name)

    def _chunk(self, block: Block, base: int, at: Array, size: Array) -> Chunk:
        return Chunk(self.tid, self.name, base, block, at, size, self._space, self._order)

    def _gap(self, raw: bytes, offset: int, words: Array) -> Chunk:
        none = np.empty(0, np.int64)
        block = Block(words[:0], words[:0])
        return Chunk(self.tid, self.name, offset, block, none, none, self._space, self._order, raw)
