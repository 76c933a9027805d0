"""The body of the new trace: the records that are taken over, with the definitions that they use, as few as possible.

A definition in the old trace stays in its place if a record of the same batch uses it there.  All others wait until a
batch uses them, and stand before its first record.  What the first records of a provider use goes to the head of the
new trace, which is written last; until then, the body is in a temporary file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from typing import Any, BinaryIO

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.generate import encode
from fxtio.codec.record import Record
from fxtio.fxt.cut.early import Definition, Tables, Value
from fxtio.fxt.cut.splices import Splices
from fxtio.fxt.cut.uses import DEFINERS, Uses
from fxtio.fxt.records import KINDS, Initialization, ProviderInfo, ProviderSection, String
from fxtio.fxt.reference_columns import Definitions
from fxtio.fxt.rewrite import little_endian, output
from fxtio.fxt.rules.view import MAX_KEPT
from fxtio.fxt.state import Batch


class Places:
    """The places of the records of a batch in the body.

    Args:
        begin: the byte offset of the first one in the body.
        batch: the batch.
        written: the records that were written as they are (bool).
        replaced: by row, the bytes that replaced a record.
    """

    def __init__(self, begin: int, batch: Batch, written: Array, replaced: dict[int, bytes]) -> None:
        self._begin, self._batch, self._written, self._replaced = begin, batch, written, replaced

    def of(self, rows: Array) -> Array:
        """Return the byte offsets of some records (int64).

        Args:
            rows: the numbers of the records (ascending, none twice).
        """
        if not len(rows):
            return np.empty(0, np.int64)
        from_each = np.add.reduceat(self.sizes, rows)  # the bytes from each of these records to the next of them
        first = self._begin + int(self.sizes[: rows[0]].sum())
        at: Array = first + np.append(0, np.cumsum(from_each[:-1]))
        return at

    @cached_property
    def sizes(self) -> Array:
        """The size in bytes of each record of the batch in the body, 0 for one that is not there (int64)."""
        sizes = np.where(self._written, self._batch.frame.size, 0)
        sizes *= 8
        for row, data in self._replaced.items():
            sizes[row] = len(data)
        return sizes


class Body:
    """Writes batches to a temporary file.

    Args:
        file: takes the bytes.

    Attributes:
        size: the number of bytes written.
        records: the number of records that were taken over.
        initial: by the index of each provider that has records here, what the head defines for it.
        first: the index of the provider with which the body begins; None if it has no records.
        ids: by id, the index of the provider that the id means at the begin of the body.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._uses = Uses()
        self.size = 0
        self.records = 0
        self.initial: dict[int, Tables] = {}
        self.first: int | None = None
        self.ids: dict[int, int] = {}
        self._now: dict[int, int] = {}  # by id, the index of the provider that it means here
        self._waiting: dict[int, dict[Definition, Value]] = {}  # by provider, what no record has used yet
        self._tables: dict[int, Tables] = {}
        self._firsts: dict[int, dict[Definition, tuple[Value, tuple[int, int]]]] = {}  # by provider
        self._first_count = 0
        self._reset: set[int] = set()  # providers that must be introduced anew
        self._provider: int | None = None

    def write(self, batch: Batch, taken: Array) -> Places:
        """Write the records of a batch that are taken over (bool), and return where they are in the body."""
        self.records += int(np.count_nonzero(taken))
        if not taken.any():
            for cls in DEFINERS:
                self._wait(batch, cls, _definitions(batch, cls))
            self._note_resets(batch, len(batch))
            return Places(self.size, batch, taken, {})
        fronts: dict[int, list[tuple[Definition, Value]]] = {}
        first, written = int(np.argmax(taken)), taken.copy()
        placed = self._place_definitions(batch, first, taken, fronts)
        firsts = _firsts(batch, taken)
        front = self._front(batch, first, firsts, fronts)
        written |= self._clock_rows(batch, firsts)
        for number, cls in enumerate(DEFINERS):
            placed[number] = self._without_repeated(batch, cls, placed[number])
            written[placed[number].row] = True
        replaced = self._switches(batch, written, first)
        if batch.frame.big_endian:
            rows = np.flatnonzero(written).tolist()
            replaced |= {row: bytes(little_endian(batch, row, row)) for row in rows}
            written = np.zeros(len(batch), bool)
        places = Places(self.size + len(front), batch, written, replaced)
        for definer, definitions in zip(DEFINERS, placed, strict=True):
            if len(definitions.row):
                at, size = places.of(definitions.row), places.sizes[definitions.row]
                self._note_firsts(batch, definer, definitions, at, size)
        for part in chain([front], output(batch, written, replaced)):
            self._file.write(part)
            self.size += len(part)
        return places

    # ---- definitions

    def _place_definitions(
        self, batch: Batch, first: int, taken: Array, fronts: dict[int, list[tuple[Definition, Value]]]
    ) -> list[Definitions]:
        """Find the definitions that a batch uses.

        Args:
            batch: the batch.
            first: the first record that is taken over.
            taken: the records that are taken over (bool).
            fronts: takes by provider the definitions that are written before the first record.

        Returns:
            For each of `DEFINERS`, the definitions that are written in their places.
        """
        own = []
        for cls in DEFINERS:
            definitions = _definitions(batch, cls)
            is_early = definitions.row < first
            self._wait(batch, cls, _some_of(definitions, is_early))
            own.append(_some_of(definitions, ~is_early))
        waiting = {cls for waiting in self._waiting.values() for cls, _ in waiting}
        if not waiting and not any(len(definitions.row) for definitions in own):
            return own
        for number, (cls, (used, earlier)) in enumerate(zip(DEFINERS, self._uses.find(batch, taken, own), strict=True)):
            for provider, slot in earlier:
                key = cls, slot
                values = self._waiting.get(provider, {})
                if key in values:
                    fronts.setdefault(provider, []).append((key, values.pop(key)))
            definitions = own[number]
            is_placed = np.zeros(len(definitions.row), bool)
            is_placed[used] = batch.frame.kind[definitions.row[used]] == KINDS[cls]
            self._wait(batch, cls, definitions, ~is_placed)
            own[number] = _some_of(definitions, is_placed)
        return own

    def _wait(self, batch: Batch, cls: type[Record], definitions: Definitions, waits: Array | None = None) -> None:
        """Let definitions wait, all or some of them; each replaces an earlier one of its slot."""
        values: Any = batch.strings.values if cls is String else batch.threads.values
        does_wait = np.ones(len(definitions.row), bool) if waits is None else waits
        columns = (definitions.provider, definitions.slot, definitions.code, does_wait)
        for provider, slot, code, is_waiting in zip(*(column.tolist() for column in columns), strict=True):
            waiting = self._waiting.setdefault(provider, {})
            if is_waiting and code >= 0 and slot:
                waiting[cls, slot] = values[code]
            else:
                waiting.pop((cls, slot), None)

    def _without_repeated(self, batch: Batch, cls: type[Record], definitions: Definitions) -> Definitions:
        """Return the definitions without those that say what was written already; the others will be."""
        if batch.resets:
            return definitions
        values: Any = batch.strings.values if cls is String else batch.threads.values
        is_new = np.ones(len(definitions.row), bool)
        columns = (definitions.provider, definitions.slot, definitions.code)
        for number, (provider, slot, code) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            written = self._tables_of(batch, provider).values
            is_new[number] = written.get((cls, slot)) != values[code]
            written[cls, slot] = values[code]
        return _some_of(definitions, is_new)

    def _note_firsts(self, batch: Batch, cls: type[Record], definitions: Definitions, at: Array, size: Array) -> None:
        """Note the first definition of each slot that is written in its place."""
        values: Any = batch.strings.values if cls is String else batch.threads.values
        columns = (definitions.provider, definitions.slot, definitions.code, at, size)
        for provider, slot, code, place, length in zip(*(column.tolist() for column in columns), strict=True):
            self._note_first(provider, (cls, slot), values[code], (place, length))

    def _note_first(self, provider: int, definition: Definition, value: Value, place: tuple[int, int]) -> None:
        """Note the first definition of a slot, unless there was one before."""
        firsts = self._firsts.setdefault(provider, {})
        if definition not in firsts and self._first_count < MAX_KEPT:
            firsts[definition] = value, place
            self._first_count += 1

    def drop_repeated(self, provider: int, tables: Tables, splices: Splices) -> None:
        """Leave out the definitions that the head of the new trace has already."""
        places = [
            place
            for definition, (value, place) in self._firsts.get(provider, {}).items()
            if tables.values.get(definition) == value
        ]
        if places:
            at, size = np.array(places, np.int64).T
            splices.drop(at, size)

    def _clock_rows(self, batch: Batch, firsts: dict[int, int]) -> Array:
        """Return which records that describe clocks are written in place (bool): those behind a provider's first one.

        Args:
            batch: the batch.
            firsts: by provider, the first record that is taken over.
        """
        result = np.zeros(len(batch), bool)
        rows, _ = batch.columns(Initialization)
        if len(rows):
            providers = np.broadcast_to(batch.provider, len(batch))[rows].tolist()
            for row, provider in zip(rows.tolist(), providers, strict=True):
                if row > firsts.get(provider, len(batch)):
                    result[row] = True
                    self._tables_of(batch, provider).clock = batch.clock_at(provider, row)
        return result

    # ---- providers

    def _note_resets(self, batch: Batch, stop: int) -> None:
        """Note the providers that the batch introduces again before a record."""
        self._reset.update(provider for row, provider in batch.resets.items() if row < stop)

    def _front(
        self, batch: Batch, first: int, firsts: dict[int, int], fronts: dict[int, list[tuple[Definition, Value]]]
    ) -> bytes:
        """Return what stands before the first record of a batch: definitions, and the switch to its provider."""
        self._note_resets(batch, first + 1)
        provider_of_first = batch.provider if isinstance(batch.provider, int) else int(batch.provider[first])
        if self.first is None:
            self.first = self._provider = provider_of_first
        front = bytearray()
        for provider, row in firsts.items():
            clock = batch.clock_at(provider, row)
            number = batch.reading.providers[provider].id
            if provider not in self.initial and self.ids.setdefault(number, provider) == provider:
                self._reset.discard(provider)
                self._now.setdefault(number, provider)
                for tables in (self._tables_of(batch, provider), Tables(is_timed=True)):
                    tables.clock = clock
                    tables.values.update(fronts.get(provider, ()))
                self.initial[provider] = tables
                continue
            if self._tables_of(batch, provider).clock != clock or provider in fronts or provider in self._reset:
                front += b"".join(self._enter(batch, provider))
                front += b"".join(self._tables_of(batch, provider).set_clock(clock))
                for definition, value in fronts.get(provider, ()):
                    data = b"".join(self._tables_of(batch, provider).define(definition, value))
                    self._note_first(provider, definition, value, (self.size + len(front), len(data)))
                    front += data
        return bytes(front) + b"".join(self._enter(batch, provider_of_first))

    def _tables_of(self, batch: Batch, provider: int) -> Tables:
        return self._tables.setdefault(provider, Tables(is_timed=provider in batch.reading.clock_of))

    def _enter(self, batch: Batch, provider: int) -> Iterator[bytes]:
        """Yield the record that makes the following ones those of a provider, if there must be one."""
        name = batch.reading.providers[provider]
        if provider in self._reset or self._now.get(name.id, provider) != provider:
            self._reset.discard(provider)
            self._tables.pop(provider, None)
            yield encode(ProviderInfo(name.id, name.name))
        elif self._provider != provider:
            yield encode(ProviderSection(name.id))
        self._now[name.id] = self._provider = provider

    def _switches(self, batch: Batch, written: Array, first: int) -> dict[int, bytes]:
        """Return what replaces each record that switches to a provider: a switch, if records of it are written."""
        replaced: dict[int, bytes] = {}
        if isinstance(batch.provider, int) and not batch.resets:
            return replaced
        switches = np.sort(np.concatenate([batch.rows(ProviderInfo), batch.rows(ProviderSection)]))
        switches = switches[switches > first]
        total = np.append(0, np.cumsum(written))
        stops = np.append(switches, len(batch))[1:]
        for row, stop in zip(switches.tolist(), stops.tolist(), strict=True):
            if row in batch.resets:
                self._reset.add(batch.resets[row])
            if total[stop] > total[row]:
                provider = batch.provider if isinstance(batch.provider, int) else int(batch.provider[row])
                replaced[row] = b"".join(self._enter(batch, provider))
        return replaced


def _firsts(batch: Batch, taken: Array) -> dict[int, int]:
    """Return for each provider with records that are taken over the first of them."""
    if isinstance(batch.provider, int):
        return {batch.provider: int(np.argmax(taken))}
    rows = np.flatnonzero(taken)
    providers, first = np.unique(batch.provider[rows], return_index=True)
    return dict(zip(providers.tolist(), rows[first].tolist(), strict=True))


def _some_of(definitions: Definitions, which: Array) -> Definitions:
    """Return some definitions."""
    return Definitions(
        definitions.provider[which], definitions.slot[which], definitions.row[which], definitions.code[which]
    )


def _definitions(batch: Batch, cls: type[Record]) -> Definitions:
    """Return the definitions of slots in a batch; those at the introduction of a provider clear slots."""
    return (batch.string_slots if cls is String else batch.thread_slots).definitions
