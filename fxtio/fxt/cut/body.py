"""The new trace: records from before the range at its start, then those that are taken over.

The records that are taken over keep their slots.  Before the first of a provider in a batch, the definitions that they
use are written, unless they are in force already; later ones stay in their places.  Records from before the range have
their texts and threads inline, so they define nothing.  What is taken over goes to a temporary file, because it is
known at the end what comes before it, and which points of flows are left out or become begins and ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.columns import ManyColumn, members_of
from fxtio.codec.generate import encode
from fxtio.codec.record import Record
from fxtio.errors import EncodeError
from fxtio.fxt.cut.marks import Limits
from fxtio.fxt.layout import MAX_STRING_SLOT, MAX_TEXT_BYTES, MAX_THREAD_SLOT
from fxtio.fxt.reader import records_at
from fxtio.fxt.records import (
    ARGUMENTS,
    KINDS,
    Initialization,
    ProviderInfo,
    ProviderSection,
    String,
    Thread,
    ThreadRecord,
)
from fxtio.fxt.reference_columns import StringColumn, ThreadColumn
from fxtio.fxt.rewrite import little_endian, output
from fxtio.fxt.rules.view import MAX_KEPT
from fxtio.fxt.slots import Clock
from fxtio.fxt.state import Batch, Reading
from fxtio.io.sink import Sink

MAX_BYTES = 1 << 28
"""The bytes of records from before the range that are remembered, at most."""

_CHUNK = 1 << 20  # bytes that are copied at once

_SLOTS: dict[type[Record], int] = {Initialization: 1, String: MAX_STRING_SLOT + 1, ThreadRecord: MAX_THREAD_SLOT + 1}
"""How many slots a provider has, by the class of the records that define them; its clock is in slot 0."""

Definition = tuple[type[Record], int]
"""A slot: the class of the records that define it, and its number."""

Tables = dict[Definition, str | Thread | Clock]
"""The meanings of a provider's slots at some place of the new trace."""


def _tables_of(reading: Reading, provider: int) -> Tables:
    """Return the tables of a provider after its introduction: readers assume a clock that no record describes."""
    return {} if provider in reading.clock_of else {(Initialization, 0): Clock()}


def _definition(slot: int, value: str | Thread | Clock) -> bytes:
    """Return the record that gives a slot a value."""
    if isinstance(value, Clock):
        return encode(Initialization(value.ticks_per_second, value.base_ticks, value.wall_clock))
    if isinstance(value, Thread):
        return encode(ThreadRecord(slot, value.process, value.thread or 0))
    return encode(String(slot, fitting(value)))


def fitting(text: str) -> str:
    """Return a text, cut at the greatest length that the specification allows; readers deliver longer ones."""
    raw = text.encode("utf-8", "surrogateescape")
    return text if len(raw) <= MAX_TEXT_BYTES else raw[:MAX_TEXT_BYTES].decode("utf-8", "surrogateescape")


# ---- records from before the range


@dataclass(slots=True)
class EarlyRecord:
    """A record from before the range.

    Attributes:
        provider: the index of its provider.
        clock: the clock of its ticks.
        record: the record, with texts and threads in place of slots.
        size: its size in the whole trace in bytes.
        until: the time in nanoseconds at which what it begins ends; None if it does not.
    """

    provider: int
    clock: Clock
    record: Any
    size: int
    until: int | None = None

    @property
    def time(self) -> int:
        """The time of the record in nanoseconds."""
        return self.clock.ns(self.record.timestamp)

    def at_start(self, limits: Limits) -> bytes:
        """Return the record with its times as they are within the range.

        Raises:
            EncodeError: its texts do not fit in it.
        """
        first, last = limits.of_clock(self.clock)
        end = {"end": min(self.record.end, last + 1)} if hasattr(self.record, "end") else {}
        return encode(self.record.replace(timestamp=first, **end))


def early_records(batch: Batch, cls: type[Record], rows: Array) -> list[EarlyRecord]:
    """Return the records of a class with these numbers (ascending)."""
    if not len(rows):
        return []
    providers = np.broadcast_to(batch.provider_of(rows), len(rows)).tolist()
    clocks = [batch.clock_at(provider, row) for provider, row in zip(providers, rows.tolist(), strict=True)]
    return [*map(EarlyRecord, providers, clocks, records_at(batch, cls, rows), (batch.frame.size[rows] * 8).tolist())]


class Head:
    """The records that are written again at the start of the range.

    Attributes:
        records: the records by the index of their provider; not many more bytes than `MAX_BYTES`.
        count: the number of records, at most `MAX_KEPT`.
        left_out: the number of further ones, and of those whose texts do not fit in them.
    """

    def __init__(self) -> None:
        self.records: dict[int, list[EarlyRecord]] = {}
        self.count = 0
        self.left_out = 0
        self._size = 0

    def add(self, early: EarlyRecord) -> None:
        """Add a record, unless there are too many."""
        if self.count >= MAX_KEPT or self._size > MAX_BYTES:
            self.left_out += 1
        else:
            self.records.setdefault(early.provider, []).append(early)
            self.count += 1
            self._size += early.size

    def write(self, sink: Sink, provider: int, tables: Tables, limits: Limits) -> None:
        """Write the records of a provider with their clocks, outer spans before inner ones."""
        clock = tables.get((Initialization, 0))
        for early in sorted(self.records.get(provider, ()), key=_outer_first):
            data = b""
            with suppress(EncodeError):
                data = early.at_start(limits)
            if not data:
                self.count -= 1
                self.left_out += 1
                continue
            if early.clock != clock:
                clock = early.clock
                sink.write(_definition(0, clock))
            sink.write(data)


def _outer_first(early: EarlyRecord) -> tuple[int, float]:
    return early.time, float("-inf") if early.until is None else -early.until


# ---- records that are taken over


def references(batch: Batch, taken: Array) -> Iterator[tuple[type[Record], Array, Array]]:
    """Yield the slots (0 is none) to which records (bool) refer, with the class that defines them and the records."""
    for cls in batch.classes():
        rows, columns = batch.columns(cls)
        is_taken = taken[rows]
        which = slice(None) if is_taken.all() else np.flatnonzero(is_taken)
        owners = rows[which]
        for column in columns.values() if len(owners) else ():
            if isinstance(column, StringColumn):
                yield String, column.slot[which], owners
            elif isinstance(column, ThreadColumn):
                yield ThreadRecord, column.slot[which], owners
            elif isinstance(column, ManyColumn) and len(column.at):
                members = members_of(ARGUMENTS, batch.frame.block, _some_of(column, is_taken))
                owner = np.repeat(owners, members.many.count)
                for _, indices, fields in members.groups:
                    for field in fields.values():
                        if isinstance(field, StringColumn):
                            yield String, field.slot, owner[indices]


def _some_of(many: ManyColumn, is_taken: Array) -> ManyColumn:
    """Return the arguments of some records (bool)."""
    if is_taken.all():
        return many
    which = np.flatnonzero(np.repeat(is_taken, many.count))
    return ManyColumn(many.count[is_taken], many.at[which], many.size[which], many.kind[which], many.at[:0])


class Body:
    """Writes batches to a temporary file.

    Args:
        file: takes the bytes.

    Attributes:
        records: the number of records that were taken over.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = 0
        self.records = 0
        self._first: int | None = None  # the index of the provider with which the body begins
        self._claimed: dict[int, int] = {}  # by id, the index of the provider that it means at the start of the body
        self._now: dict[int, int] = {}  # by id, the index of the provider that it means here
        self._provider: int | None = None
        self._tables: dict[int, Tables] = {}
        self._dropped: list[tuple[Array, Array]] = []
        self._replaced: list[tuple[Array, Array]] = []

    def write(self, batch: Batch, taken: Array) -> Array:
        """Write the records of a batch that are taken over (bool), and return their places in the body (int64)."""
        if not taken.any():
            for provider in batch.resets.values():
                self._reset(batch.reading, provider)
            return np.zeros(len(batch), np.int64)
        self.records += int(np.count_nonzero(taken))
        written, inserted = self._with_definitions(batch, taken)
        own, before = np.where(written, batch.frame.size, 0) * 8, np.zeros(len(batch), np.int64)
        before[list(inserted)] = [len(data) for data in inserted.values()]
        if batch.frame.big_endian:
            for row in np.flatnonzero(written).tolist():
                data = bytes(little_endian(batch, row, row))
                inserted[row], own[row] = inserted.get(row, b"") + data, len(data)
            written = np.zeros(len(batch), bool)
        ends = self._size + np.cumsum(own + before)
        for part in output(batch, written, inserted):
            self._file.write(part)
        self._size = int(ends[-1])
        places: Array = ends - own
        return places

    def _with_definitions(self, batch: Batch, taken: Array) -> tuple[Array, dict[int, bytes]]:
        """Return which records are written as they are (bool), and by row what is inserted before some of them."""
        written, definitions = taken.copy(), self._definitions(batch, taken)
        for row, is_inserted, *_ in definitions:
            written[row] |= not is_inserted
        inserted: dict[int, bytes] = {}
        switches = np.sort(np.concatenate([batch.rows(ProviderInfo), batch.rows(ProviderSection)]))
        runs = [0, *switches[switches > 0].tolist(), len(batch)]
        providers = np.broadcast_to(batch.provider_of(np.array(runs[:-1])), len(runs) - 1).tolist()
        for (run, stop), provider in zip(pairwise(runs), providers, strict=True):
            if run in batch.resets:
                self._reset(batch.reading, provider)
            if not written[run:stop].any():
                continue
            inserted[run] = self._enter(batch.reading, provider)
            tables = self._tables[provider]
            while definitions and definitions[-1][0] < stop:
                row, is_inserted, definition, value = definitions.pop()
                is_new = tables.get(definition) != value
                tables[definition] = value
                if not is_inserted:
                    written[row] = is_new
                elif is_new:
                    inserted[row] = inserted.get(row, b"") + _definition(definition[1], value)
        return written, inserted

    def _definitions(self, batch: Batch, taken: Array) -> list[tuple[int, bool, Definition, Any]]:
        """Return the definitions that records (bool) use, the last one first.

        Returns:
            For each definition its row, whether it is inserted there or is the record itself, its slot, and its value.
        """
        rows = np.flatnonzero(taken)
        providers, first = np.unique(np.broadcast_to(batch.provider_of(rows), len(rows)), return_index=True)
        firsts = rows[first]
        used = {definer: np.zeros((len(providers), slots), bool) for definer, slots in _SLOTS.items()}
        for definer, slots, owners in references(batch, taken):
            used[definer][np.searchsorted(providers, batch.provider_of(owners)), slots] = True
        lookups: dict[type[Record], Any] = {
            Initialization: (batch.clock_slots, batch.reading.clocks),
            String: (batch.string_slots, batch.strings.values),
            ThreadRecord: (batch.thread_slots, batch.threads.values),
        }
        result: list[tuple[int, bool, Definition, Any]] = []
        for definer, (lookup, values) in lookups.items():
            used[definer][:, 0] = definer is Initialization
            for number, (provider, row) in enumerate(zip(providers.tolist(), firsts.tolist(), strict=True)):
                slots = np.flatnonzero(used[definer][number])
                codes = lookup.codes(provider, slots, np.full(len(slots), row))
                pairs = zip(slots.tolist(), codes.tolist(), strict=True)
                result += ((row, True, (definer, slot), values[code]) for slot, code in pairs if code >= 0)
            made = lookup.definitions
            number = np.minimum(np.searchsorted(providers, made.provider), len(providers) - 1)
            stays = (
                (providers[number] == made.provider) & used[definer][number, made.slot] & (made.row > firsts[number])
            )
            stays &= batch.frame.kind[made.row] == KINDS[definer]  # others are those of a reset
            columns = (column[stays].tolist() for column in (made.row, made.slot, made.code))
            result += ((row, False, (definer, slot), values[code]) for row, slot, code in zip(*columns, strict=True))
        return sorted(result, key=lambda each: -each[0])

    def _reset(self, reading: Reading, provider: int) -> None:
        """Note that the whole trace introduces a provider once more, so that this one does, too."""
        if provider in self._tables:
            self._now[reading.providers[provider].id] = -1

    def _enter(self, reading: Reading, provider: int) -> bytes:
        """Return the record that makes the following ones those of a provider, if there must be one."""
        number, name = reading.providers[provider].id, reading.providers[provider].name
        if self._first is None:
            self._first = self._provider = provider
        self._claimed.setdefault(number, provider)
        data = b"" if self._provider == provider else encode(ProviderSection(number))
        if self._now.setdefault(number, provider) != provider:
            self._tables[provider] = _tables_of(reading, provider)
            data = encode(ProviderInfo(number, name))
        self._tables.setdefault(provider, _tables_of(reading, provider))
        self._now[number] = self._provider = provider
        return data

    # ---- the end

    def drop(self, at: Array, size: Array) -> None:
        """Leave out records at some places (int64) with these sizes in bytes (int64)."""
        self._dropped.append((at // 8, size // 8))

    def replace(self, at: Array, words: Array) -> None:
        """Replace the words at some places (int64)."""
        self._replaced.append((at // 8, words))

    def write_to(self, sink: Sink, reading: Reading, head: Head, limits: Limits) -> None:
        """Write all providers with the records from before the range, and the body; it begins with the last of them."""
        claimed = {*self._claimed.values()}
        numbers = sorted(range(len(reading.providers)), key=lambda index: (index in claimed, index == self._first))
        for index in numbers:
            is_anonymous = index == 0 and reading.is_anonymous
            if is_anonymous and index not in self._tables and index not in head.records:
                continue
            if not is_anonymous or len(numbers) > 1:
                sink.write(encode(ProviderInfo(reading.providers[index].id, reading.providers[index].name)))
            head.write(sink, index, _tables_of(reading, index), limits)
        for part in self._parts():
            sink.write(part)

    def _parts(self) -> Iterator[bytes]:
        """Yield the body, without the records that are left out, and with the words that are replaced."""
        drops, sizes = _sorted(self._dropped)
        places, words = _sorted(self._replaced)
        self._file.seek(0)
        for begin in range(0, self._size // 8, _CHUNK // 8):
            chunk = np.frombuffer(self._file.read(min(_CHUNK, self._size - begin * 8)), "<u8").copy()
            end = begin + len(chunk)
            low, high = np.searchsorted(places, (begin, end)).tolist()
            chunk[places[low:high] - begin] = words[low:high]
            # Records that are left out may begin in the chunk before, and end in the next: edges where bytes are
            # kept and left out in turns, of which those outside of the chunk are moved to its ends.
            low, high = int(np.searchsorted(drops + sizes, begin, "right")), int(np.searchsorted(drops, end))
            if low < high:
                edges = np.stack([drops[low:high], drops[low:high] + sizes[low:high]], axis=1).ravel() - begin
                lengths = np.diff(np.clip(edges, 0, len(chunk)), prepend=0, append=len(chunk))
                chunk = chunk[np.repeat(np.arange(len(lengths)) % 2 == 0, lengths)]
            yield chunk.tobytes()


def _sorted(pairs: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return pairs of columns as one pair, in the order of the first column."""
    if not pairs:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    first, second = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
    order = np.argsort(first)
    return first[order], second[order]
