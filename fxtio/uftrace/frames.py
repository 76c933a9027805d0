"""From the bytes of a `<tid>.dat` file to chunks of whole records, block by block.

The file has no frames: the size of a record follows from the argument specifications of its function.  After a payload
that is not specified, and after bytes that are not a record, reading goes on at the next place where several plausible
records follow each other.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from fxtio import _native
from fxtio._native.constants import PayloadWalkEnd
from fxtio.arrays import Array
from fxtio.codec.columns import Block
from fxtio.codec.generate import Order
from fxtio.finding import Findings
from fxtio.report import counted
from fxtio.table import MAX_TIME, saturated
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.layout import RecordWord, TimeWord
from fxtio.uftrace.state import AddressSpace, Sessions

BLOCK = 1 << 20
"""The size of a block in bytes."""

END, BAD, PARTIAL, FULL, LATER, UNKNOWN = PayloadWalkEnd
_MAX_RECORD = BLOCK // 2  # bytes; a larger size is taken for a fault

_CHAIN = 3
_WINDOW = 256  # words; the first stretch in which the next record is searched
_MAX_PAUSE = 1 << 47  # ns, 39 hours: a longer time between two records is not plausible
_FIELDS = RecordWord.fields
_HEADER = 2


def _head(order: Order) -> Array:
    mask, value = RecordWord.pattern("const")
    kind = _FIELDS["type"]
    names = (RecordType.ENTRY, RecordType.EXIT, RecordType.EVENT)
    return np.array(
        [mask, value, kind.lo, kind.mask, _FIELDS["more"].lo, _FIELDS["address"].lo, *names, order == "big"], np.uint64
    )


_HEADS: dict[str, Array] = {"little": _head("little"), "big": _head("big")}


@dataclass
class Chunk:
    """Consecutive records of a task, or bytes that are not a record; valid until the next chunk is requested.

    Attributes:
        tid: the task.
        file: the name of the file.
        base: the byte offset of the first word of the block.
        block: the block that contains the records.
        at: the index of each record in the block (int64, words).
        size: the size of each record (int64, words).
        functions: the functions by address.
        order: the byte order.
        forked: the time in nanoseconds at which the task began as a copy of another process, or None.
        program: the number of programs that the task ran before, each up to an exec.
        gap: bytes that are not a record, instead of records; else None.
        has_specs: whether the payloads can be decoded by the argument specifications.
        has_late_times: whether there may be times over `MAX_TIME`.
    """

    tid: int
    file: str
    base: int
    block: Block
    at: Array
    size: Array
    functions: AddressSpace
    order: Order
    forked: int | None = None
    program: int = 0
    gap: bytes | None = None
    has_specs: bool = True
    has_late_times: bool = False

    def __len__(self) -> int:
        return len(self.at)

    @cached_property
    def times(self) -> Array:
        """Return the first words of the records (uint64)."""
        return self._gather(0)

    @property
    def nanoseconds(self) -> Array:
        """Return the times of the records (int64); `MAX_TIME` replaces those that do not fit."""
        return saturated(self.times) if self.has_late_times else self.times.view(np.int64)

    @cached_property
    def words(self) -> Array:
        """Return the second words of the records (uint64)."""
        return self._gather(1)

    def _gather(self, delta: int) -> Array:
        count = len(self.at)
        if count and int(self.at[-1]) - int(self.at[0]) == _HEADER * (
            count - 1
        ):  # no payloads: the words are equally spaced
            first = int(self.at[0]) + delta
            return self.block.words[first : first + _HEADER * count : _HEADER]
        out = np.empty(count, np.uint64)
        if count:
            _native.gather(self.block.words, self.at, delta, out)
        return out

    @property
    def raw(self) -> bytes:
        """Return the bytes of the records, or those that are not a record."""
        if self.gap is not None:
            return self.gap
        return bytes(self.block.data[int(self.at[0]) * 8 : int(self.at[-1] + self.size[-1]) * 8])

    def payloads(self, rows: Array) -> list[bytes]:
        """Return the payloads of some records, empty for records without one."""
        data = self.block.data
        begins = (self.at[rows] + _HEADER) * 8
        ends = (self.at[rows] + self.size[rows]) * 8
        return [bytes(data[begin:end]) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]

    def offsets(self) -> Array:
        """Return the byte offsets of the records in the file (int64)."""
        return self.at * 8 + self.base


def empty_chunk(functions: AddressSpace) -> Chunk:
    """Return a chunk without records."""
    words, empty = np.empty(0, np.uint64), np.empty(0, np.int64)
    return Chunk(0, "", 0, Block(words, words), empty, empty, functions, "little")


class TaskReader:
    """Reads one `<tid>.dat` file; iterating gives its chunks.

    Args:
        tid: the task.
        name: the name of the file.
        descriptor: a descriptor of the open file, which is closed at the end.
        sessions: the sessions of the trace.
        order: the byte order.
        findings: receives faults.
        progress: called with the number of bytes of each block.
        max_bytes: the largest number of bytes to read.
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
        max_bytes: int,
    ) -> None:
        self.tid = tid
        self.name = name
        self._descriptor = descriptor
        self._sessions = sessions
        self._order = order
        self._findings = findings
        self._progress = progress
        self._left = max_bytes
        self._epochs = sessions.epochs(tid)
        self._forked = sessions.forked(tid)
        self._changes = sessions.session_changes(tid)
        self._enter_epoch(0)
        self._last = 0  # the time of the last record with a time
        self._since = 0  # a time that is not after the next record, even if the time of the last record is damaged
        self._raw = np.empty(BLOCK // 8, np.uint64)
        self._at = np.empty(BLOCK // 16, np.int64)
        self._size = np.empty(BLOCK // 16, np.int64)

    def __iter__(self) -> Iterator[Chunk]:
        rest = base = 0
        with os.fdopen(self._descriptor, "rb", buffering=0) as file:
            while True:
                buffer = self._raw.view(np.uint8)
                count = self._fill(file, memoryview(buffer[rest:]))  # type: ignore[arg-type,unused-ignore]
                end = rest + count
                last = end < BLOCK
                words = self._native(end // 8)
                used = yield from self._walk(words, base, last=last)
                base += used * 8
                if last:
                    if left := end - used * 8:
                        message = f"the file ends in the middle of a record, with {counted(left, 'byte')} of it"
                        self._findings.add("record.truncated", base, message, file=self.name)
                        yield self._gap(buffer[used * 8 : end].tobytes(), base, words)
                    return
                rest = end - used * 8
                buffer[:rest] = buffer[used * 8 : end].copy()

    def _fill(self, file: Any, target: memoryview) -> int:
        filled, target = 0, target[: self._left]
        while filled < len(target) and (count := file.readinto(target[filled:])):
            filled += count
        self._left -= filled
        self._sessions.bytes_read += filled
        self._progress(filled)
        return filled

    def _native(self, count: int) -> Array:
        raw = self._raw[:count]
        return raw if self._order == "little" else raw.byteswap()

    def _walk(self, words: Array, base: int, *, last: bool) -> Generator[Chunk, None, int]:
        """Yield the records of a block, and return the number of words that were read."""
        block = Block(words, self._raw[: len(words)])
        index = count = 0  # the next word, and how many records before it are not yielded yet
        while True:
            functions, head = self._functions, _HEADS[self._order]
            walked, index, reason = _native.walk_payloads(
                words, block.raw.view(np.uint8), head, functions.begin, functions.end, functions.programs,
                functions.code, self._at[count:], self._size[count:], index, self._latest,
            )  # fmt: skip
            count += walked
            if reason == UNKNOWN:
                word = int(words[index + 1])
                is_exit = _FIELDS["type"].get(word) == RecordType.EXIT
                if functions.add_program(_FIELDS["address"].get(word), is_exit=is_exit):
                    continue
                after = self._after_unknown(words, base, index, count, last=last)
                if after >= 0:
                    self._at[count], self._size[count] = index, after - index
                    index, count = after, count + 1
                    continue
            if count:
                chunk, count = self._chunk(block, base, self._at[:count], self._size[:count]), 0
                self._check_times(chunk)
                yield chunk
            if reason in (END, UNKNOWN) or (reason == PARTIAL and not last and (len(words) - index) * 8 < _MAX_RECORD):
                return index
            if reason == LATER:
                later = bisect_right(self._epochs, int(words[index]), lo=self._epoch + 1, key=attrgetter("begin"))
                self._enter_epoch(later - 1)
            elif reason != FULL:
                if reason == PARTIAL and last and self._next_record(words, index + 1) < 0:
                    return index
                after = yield from self._skip(block, base, index, reason, last=last)
                if after < 0:
                    return index
                index = after

    def _enter_epoch(self, number: int) -> None:
        """Go on with the functions of an epoch, and note the latest time that a record in it has."""
        self._epoch, epoch = number, self._epochs[number]
        self._program = bisect_right(self._changes, epoch.begin)
        self._functions = self._sessions.address_space(epoch)
        self._latest = TimeWord.fields["time"].mask
        if number + 1 < len(self._epochs):
            self._latest = min(self._epochs[number + 1].begin - 1, self._latest)

    def _after_unknown(self, words: Array, base: int, index: int, count: int, *, last: bool) -> int:
        """Report a payload without specification; return the index after it, or -1 if more bytes are needed.

        Args:
            words: the words of the block.
            base: the byte offset of the block.
            index: the index of the record.
            count: the number of records before it that `_check_times` has not seen yet.
            last: whether the file ends with the block.
        """
        if count > 1:
            times = words[self._at[count - 2 : count]]
            self._since = int(times.min()) or self._since  # a lost record has the time 0
        after = self._resumed(words, index, index + _HEADER, last=last)
        if after < 0:
            return -1
        address = _FIELDS["address"].get(int(words[index + 1]))
        message = f"the payload of {self._functions.name_at(address)} has no specification; it is kept as bytes"
        self._findings.add("record.payload-unknown", base + index * 8, message, file=self.name)
        return after

    def _skip(self, block: Block, base: int, index: int, reason: int, *, last: bool) -> Generator[Chunk, None, int]:
        """Skip words that cannot be decoded; return the index after them, or -1 if more bytes are needed."""
        words, offset = block.words, base + index * 8
        header = reason != BAD and index + _HEADER <= len(words)
        after = self._resumed(words, index, index + (_HEADER if header else 1), last=last)
        if after < 0:
            return -1
        if reason == BAD:
            message = f"a record without the magic bits; {(after - index) * 8:,} bytes are skipped"
            self._findings.add("record.magic", offset, message, file=self.name)
        else:
            name = self._functions.name_at(_FIELDS["address"].get(int(words[index + 1])))
            message = f"the payload of {name} is longer than a record can be; it is kept as bytes"
            self._findings.add("record.payload-unknown", offset, message, file=self.name)
        if header:
            chunk = self._chunk(block, base, np.array([index]), np.array([after - index]))
            chunk.has_specs = False
            self._check_times(chunk)
            yield chunk
        else:
            yield self._gap(block.raw[index:after].tobytes(), offset, words)
        return after

    def _resumed(self, words: Array, index: int, begin: int, *, last: bool) -> int:
        """Return up to which index the words from `index` on are skipped, or -1 if more bytes are needed.

        This is the next record from `begin` on, or the end of the words.
        """
        after = self._next_record(words, begin)
        if after < 0:
            size = len(words)
            after = size if last else -1 if (size - index) * 8 < _MAX_RECORD else max(size - _HEADER, index + 1)
        return after

    def _next_record(self, words: Array, begin: int) -> int:
        """Return the next index at which plausible records follow each other, or -1."""
        mask, value = RecordWord.pattern("const")
        size = _WINDOW
        while begin + 1 < len(words):  # the record is likely to be near
            heads = np.flatnonzero(words[begin + 1 : begin + 1 + size] & np.uint64(mask) == value) + begin
            for index in heads.tolist():
                if self._is_chain(words, index):
                    return index
            begin, size = begin + size, size * 2
        return -1

    def _is_chain(self, words: Array, index: int) -> bool:
        """Return whether some plausible records follow each other, as far as the block goes."""
        mask, value = RecordWord.pattern("const")
        time = self._since
        for _ in range(_CHAIN):
            if index + _HEADER > len(words):
                return True
            moment, word = int(words[index]), int(words[index + 1])
            kind, more = _FIELDS["type"].get(word), _FIELDS["more"].get(word)
            if word & mask != value or (kind == RecordType.LOST and more):
                return False
            if kind != RecordType.LOST:
                if not time <= moment <= (time or moment) + _MAX_PAUSE:
                    return False
                time = moment
                address = _FIELDS["address"].get(word)
                if kind != RecordType.EVENT and len(self._functions) and self._functions.index(address) < 0:
                    return False
            if more:
                return True  # the size of the payload is not known yet
            index += _HEADER
        return True

    def _check_times(self, chunk: Chunk) -> None:
        """Report records that are earlier than the previous one, and times that do not fit in 63 bits."""
        times, rows = chunk.times, None
        chunk.has_late_times = int(times[-1]) > MAX_TIME
        if not bool((times[1:] >= times[:-1]).all()) or int(times[0]) < self._last:
            chunk.has_late_times = True
            rows = np.flatnonzero(_FIELDS["type"].get(chunk.words) != RecordType.LOST)
            if not len(rows):
                return
            times = np.concatenate([np.array([self._last], np.uint64), times[rows]])
            back = rows[np.flatnonzero(times[1:] < times[:-1])]
            if len(back):
                offset = int(chunk.offsets()[back[0]])
                self._findings.add("time.backwards", offset, times=len(back), file=self.name)
            times = times[1:]
        if int(times[-1] if rows is None else times.max()) > MAX_TIME:
            over = np.flatnonzero(times > np.uint64(MAX_TIME))
            first = int(over[0] if rows is None else rows[over[0]])
            self._findings.add("time.overflow", int(chunk.offsets()[first]), times=len(over), file=self.name)
        self._since = int(times[-2:].min()) if len(times) > 1 else min(self._last, int(times[-1]))
        self._last = int(times[-1])

    def _chunk(self, block: Block, base: int, at: Array, size: Array) -> Chunk:
        return Chunk(
            self.tid, self.name, base, block, at, size, self._functions, self._order, self._forked, self._program
        )

    def _gap(self, raw: bytes, offset: int, words: Array) -> Chunk:
        empty = np.empty(0, np.int64)
        block = Block(words[:0], words[:0])
        chunk = self._chunk(block, offset, empty, empty)
        chunk.gap = raw
        return chunk
