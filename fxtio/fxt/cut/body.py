"""The body of the new trace: the records that are taken over, with the definitions that they use.

All slots keep their numbers.  Where the records of a provider begin in a batch, the definitions that they use are
written that are not in force yet; those behind that stay in their places.  The body is in a temporary file, because it
is known at the end what stands before it, and which points of flows are left out or become begins and ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.generate import encode
from fxtio.codec.record import Record
from fxtio.fxt.cut.early import Definition, EarlyRecord, Head, Value, references, slots_of
from fxtio.fxt.cut.marks import Limits
from fxtio.fxt.layout import MAX_STRING_SLOT, MAX_TEXT_BYTES, MAX_THREAD_SLOT
from fxtio.fxt.records import KINDS, Initialization, ProviderInfo, ProviderSection, String, Thread, ThreadRecord
from fxtio.fxt.rewrite import little_endian, output
from fxtio.fxt.state import Batch, Clock, Reading
from fxtio.io.sink import Sink

_SLOTS: dict[type[Record], int] = {Initialization: 1, String: MAX_STRING_SLOT + 1, ThreadRecord: MAX_THREAD_SLOT + 1}
"""How many slots a provider has, by the class of the records that define them."""

_CHUNK = 1 << 20  # bytes that are copied at once

Tables = dict[Definition, Value]
"""The meanings of a provider's slots at some place of the new trace."""


def _tables_of(reading: Reading, provider: int) -> Tables:
    """Return the tables of a provider behind its introduction: readers assume a clock that no record describes."""
    return {} if provider in reading.clock_of else {(Initialization, 0): Clock()}


def _define(tables: Tables, definition: Definition, value: Value) -> bytes:
    """Return the record that gives a slot a value, and note it; nothing if the slot has the value already."""
    if tables.get(definition) == value:
        return b""
    tables[definition] = value
    if isinstance(value, Clock):
        return encode(Initialization(value.ticks_per_second, value.base_ticks, value.wall_clock))
    if isinstance(value, Thread):
        return encode(ThreadRecord(definition[1], value.process, value.thread or 0))
    return encode(String(definition[1], fitting(value)))


def fitting(text: str) -> str:
    """Return a text, cut at the greatest length that the specification allows; readers deliver longer ones."""
    raw = text.encode("utf-8", "surrogateescape")
    return text if len(raw) <= MAX_TEXT_BYTES else raw[:MAX_TEXT_BYTES].decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class _Uses:
    """The slots that the records of a batch use that are taken over.

    Attributes:
        providers: the indices of their providers (ascending).
        firsts: the first of these records of each provider; definitions behind it stay in their places.
        tables: by the class of definitions, for each provider and slot whether it is used (bool).
    """

    providers: Array
    firsts: Array
    tables: dict[type[Record], Array]

    @classmethod
    def of(cls, batch: Batch, taken: Array) -> _Uses:
        """Return the slots that records (bool) use."""
        rows = np.flatnonzero(taken)
        providers, first = np.unique(np.broadcast_to(batch.provider_of(rows), len(rows)), return_index=True)
        tables = {definer: np.zeros((len(providers), slots), bool) for definer, slots in _SLOTS.items()}
        for definer, slots, owners in references(batch, taken, with_rows=len(providers) > 1):
            number = np.searchsorted(providers, batch.provider_of(owners)) if len(providers) > 1 else 0
            tables[definer][number, slots] = True
        for definer, table in tables.items():
            table[:, 0] = definer is Initialization
        return cls(providers, rows[first], tables)

    def begin(self, batch: Batch, provider: int, run: int, stop: int) -> Iterator[tuple[Definition, Value]]:
        """Yield the slots with their meanings if the first record of a provider is in this run of rows."""
        number = int(np.searchsorted(self.providers, provider))
        first = int(self.firsts[number])
        for definer, (lookup, values) in slots_of(batch).items() if run <= first < stop else ():
            slots = np.flatnonzero(self.tables[definer][number])
            codes = lookup.codes(provider, slots, np.full(len(slots), first))
            for slot, code in zip(slots.tolist(), codes.tolist(), strict=True):
                if code >= 0:
                    yield (definer, slot), values[code]

    def definitions(self, batch: Batch) -> list[tuple[int, Definition, Value]]:
        """Return the definitions that stay in their places, the last one first: row, slot, meaning."""
        result: list[tuple[int, Definition, Value]] = []
        for definer, (lookup, values) in slots_of(batch).items():
            made = lookup.definitions
            number = np.minimum(np.searchsorted(self.providers, made.provider), len(self.providers) - 1)
            stays = (self.providers[number] == made.provider) & self.tables[definer][number, made.slot]
            stays &= (made.row > self.firsts[number]) & (batch.frame.kind[made.row] == KINDS[definer])
            columns = (column[stays].tolist() for column in (made.row, made.slot, made.code))
            result += ((row, (definer, slot), values[code]) for row, slot, code in zip(*columns, strict=True))
        return sorted(result, key=lambda each: -each[0])


@dataclass(frozen=True, slots=True)
class _Made:
    """A definition in the body.

    Attributes:
        provider: the index of its provider.
        definition: the slot.
        value: its meaning.
        row: the record at which it stands.
        offset: its place in the bytes that are inserted there.
        size: its size in bytes; 0 for the record itself.
    """

    provider: int
    definition: Definition
    value: Value
    row: int
    offset: int = 0
    size: int = 0


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
        self._claimed: dict[int, int] = {}  # by id, the index of the provider that it means at the begin of the body
        self._now: dict[int, int] = {}  # by id, the index of the provider that it means here
        self._provider: int | None = None
        self._tables: dict[int, Tables] = {}
        self._reset: set[int] = set()  # providers that must be introduced anew
        self._firsts: dict[tuple[int, Definition], tuple[Value, int, int]] = {}  # of slots: value, place, size
        self._dropped: list[tuple[Array, Array]] = []
        self._replaced: list[tuple[Array, Array]] = []

    def write(self, batch: Batch, taken: Array) -> Array:
        """Write the records of a batch that are taken over (bool), and return their places in the body (int64)."""
        if not taken.any():
            self._note_resets(batch.resets.values())
            return np.zeros(len(batch), np.int64)
        self.records += int(np.count_nonzero(taken))
        written, inserted, made = self._arrange(batch, taken)
        own, before = np.where(written, batch.frame.size, 0) * 8, np.zeros(len(batch), np.int64)
        before[list(inserted)] = [len(data) for data in inserted.values()]
        if batch.frame.big_endian:
            for row in np.flatnonzero(written).tolist():
                data = bytes(little_endian(batch, row, row))
                inserted[row], own[row] = inserted.get(row, b"") + data, len(data)
            written = np.zeros(len(batch), bool)
        ends = self._size + np.cumsum(own + before)
        places: Array = ends - own
        for each in made:
            at = int(places[each.row] - before[each.row]) + each.offset
            entry = each.value, at, each.size or int(own[each.row])
            self._firsts.setdefault((each.provider, each.definition), entry)
        for part in output(batch, written, inserted):
            self._file.write(part)
        self._size = int(ends[-1])
        return places

    def _arrange(self, batch: Batch, taken: Array) -> tuple[Array, dict[int, bytes], list[_Made]]:
        """Return what is written of a batch.

        Returns:
            The records that are written as they are (bool); by row, what is written before it, or in its place; and the
            definitions among all of that.
        """
        switches = np.sort(np.concatenate([batch.rows(ProviderInfo), batch.rows(ProviderSection)]))
        first = int(np.argmax(taken))
        runs = np.append(first, switches[switches > first])
        self._note_resets(provider for row, provider in batch.resets.items() if row < first)
        uses, written = _Uses.of(batch, taken), taken.copy()
        definitions = uses.definitions(batch)
        written[[row for row, *_ in definitions]] = True
        total = np.append(0, np.cumsum(written))
        inserted: dict[int, bytes] = {}
        made: list[_Made] = []
        owners = np.broadcast_to(batch.provider_of(runs), len(runs)).tolist()
        for (run, stop), provider in zip(pairwise([*runs.tolist(), len(batch)]), owners, strict=True):
            self._note_resets([batch.resets[run]] if run in batch.resets else [])
            if total[stop] == total[run]:
                continue
            data = self._enter(batch.reading, provider)
            tables = self._tables[provider]
            for definition, value in uses.begin(batch, provider, run, stop):
                record = _define(tables, definition, value)
                if record:
                    made.append(_Made(provider, definition, value, run, len(data), len(record)))
                    data += record
            inserted[run] = data
            while definitions and definitions[-1][0] < stop:
                row, definition, value = definitions.pop()
                written[row] = bool(_define(tables, definition, value))
                if written[row]:
                    made.append(_Made(provider, definition, value, row))
        return written, inserted, made

    # ---- providers

    def _note_resets(self, providers: Iterable[int]) -> None:
        """Note that the old trace introduces some providers once more."""
        self._reset.update(provider for provider in providers if provider in self._tables)

    def _enter(self, reading: Reading, provider: int) -> bytes:
        """Return the record that makes the following ones those of a provider, if there must be one."""
        number, name = reading.providers[provider].id, reading.providers[provider].name
        if self._first is None:
            self._first = self._provider = provider
        self._claimed.setdefault(number, provider)
        if provider in self._reset or self._now.setdefault(number, provider) != provider:
            self._reset.discard(provider)
            self._tables[provider] = _tables_of(reading, provider)
            data = encode(ProviderInfo(number, name))
        else:
            data = b"" if self._provider == provider else encode(ProviderSection(number))
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
        """Write all providers with the records from before the range, and the body without what they define already."""
        claimed, tables = {*self._claimed.values()}, dict[int, Tables]()
        numbers = sorted(range(len(reading.providers)), key=lambda index: (index in claimed, index == self._first))
        for index in numbers:
            is_anonymous = index == 0 and reading.is_anonymous
            if is_anonymous and index not in self._tables and index not in head.records:
                continue
            if not is_anonymous or len(numbers) > 1:
                sink.write(encode(ProviderInfo(reading.providers[index].id, reading.providers[index].name)))
            own = tables[index] = _tables_of(reading, index)
            for early in sorted(head.records.get(index, ()), key=EarlyRecord.order):
                sink.write(_define(own, (Initialization, 0), early.clock))
                for definition, value in early.uses.items():
                    sink.write(_define(own, definition, value))
                sink.write(early.at_start(limits))
        for (index, definition), (value, at, size) in self._firsts.items():
            if tables[index].get(definition) == value:
                self.drop(np.array([at]), np.array([size]))
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
