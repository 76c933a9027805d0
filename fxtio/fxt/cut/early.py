"""Records from before the range that are written again at its start, and the definitions to which records refer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.columns import ManyColumn, members_of, tick_places
from fxtio.codec.record import Record
from fxtio.fxt.cut.marks import Limits
from fxtio.fxt.records import ARGUMENTS, Initialization, String, Thread, ThreadRecord
from fxtio.fxt.reference_columns import SlotLookup, StringColumn, ThreadColumn
from fxtio.fxt.rewrite import little_endian
from fxtio.fxt.rules.view import MAX_KEPT
from fxtio.fxt.state import Batch, Clock

MAX_BYTES = 1 << 28
"""The bytes of records from before the range that are remembered, at most."""

Definition = tuple[type[Record], int]
"""A slot: the class of the records that define it, and its number."""

Value = str | Thread | Clock
"""The meaning of a slot; a clock is in slot 0."""


def slots_of(batch: Batch) -> dict[type[Record], tuple[SlotLookup, list[Any]]]:
    """Return by the class of definitions what resolves slots, and the values that the codes mean."""
    return {
        String: (batch.string_slots, batch.strings.values),
        ThreadRecord: (batch.thread_slots, batch.threads.values),
        Initialization: (batch.clock_slots, batch.reading.clocks),
    }


def references(batch: Batch, taken: Array, *, with_rows: bool = True) -> Iterator[tuple[type[Record], Array, Array]]:
    """Yield what records refer to.

    Args:
        batch: the batch.
        taken: the records (bool).
        with_rows: tell which record each reference is of.

    Yields:
        The class of definitions, slots (0 is not a reference), and the numbers of the records that refer to them.
    """
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
                owner = np.repeat(owners, members.many.count) if with_rows else owners[:0]
                for _, indices, fields in members.groups:
                    for field in fields.values():
                        if isinstance(field, StringColumn):
                            yield String, field.slot, owner[indices] if with_rows else owner


def _some_of(many: ManyColumn, is_taken: Array) -> ManyColumn:
    """Return the arguments of some records (bool)."""
    if is_taken.all():
        return many
    which = np.flatnonzero(np.repeat(is_taken, many.count))
    return ManyColumn(many.count[is_taken], many.at[which], many.size[which], many.kind[which], many.at[:0])


@dataclass(slots=True)
class EarlyRecord:
    """A record from before the range.

    Attributes:
        provider: the index of its provider.
        clock: the clock of its ticks.
        raw: its bytes, little-endian.
        tick: its tick.
        places: the byte offsets of its ticks in `raw`.
        uses: the slots that it refers to, and what they mean.
        end: the tick at which a complete event ends, otherwise None.
        until: the time in nanoseconds at which what it begins ends; None if it does not.
    """

    provider: int
    clock: Clock
    raw: bytes
    tick: int
    places: tuple[int, ...]
    uses: dict[Definition, Value]
    end: int | None = None
    until: int | None = None

    def order(self) -> tuple[int, float]:
        """Return a key that sorts outer spans of a provider before inner ones."""
        return self.clock.ns(self.tick), float("-inf") if self.until is None else -self.until

    def at_start(self, limits: Limits) -> bytes:
        """Return the record with its times as they are within the range."""
        first, last = limits.of_clock(self.clock)
        raw = bytearray(self.raw)
        times = [first, self.tick if self.end is None else min(self.end, last + 1)]
        for place, time in zip(self.places, times, strict=False):
            raw[place : place + 8] = time.to_bytes(8, "little")
        return bytes(raw)


def early_records(batch: Batch, cls: type[Record], rows: Array) -> dict[int, EarlyRecord]:
    """Return records of a class by their numbers, with what they refer to; without those that cannot be written again.

    Args:
        batch: the batch.
        cls: the class.
        rows: the numbers of the records in the batch.
    """
    result: dict[int, EarlyRecord] = {}
    if not len(rows):
        return result
    frame, taken = batch.frame, np.zeros(len(batch), bool)
    taken[rows] = True
    at = frame.at[rows]
    places = (np.stack([*tick_places(cls, frame.block, at, frame.size[rows]).values()], axis=1) - at[:, None]) * 8
    ticks = frame.block.words[at + places[:, 0] // 8].tolist()
    providers = np.broadcast_to(batch.provider_of(rows), len(rows)).tolist()
    for row, provider, tick, own in zip(rows.tolist(), providers, ticks, places.tolist(), strict=True):
        raw = bytes(little_endian(batch, row, row))
        if raw:
            result[row] = EarlyRecord(provider, batch.clock_at(provider, row), raw, tick, tuple(own), {})
    lookups = slots_of(batch)
    for definer, slots, owners in references(batch, taken):
        lookup, values = lookups[definer]
        codes = lookup.codes(batch.provider_of(owners), slots, owners)
        for row, slot, code in zip(owners.tolist(), slots.tolist(), codes.tolist(), strict=True):
            if code >= 0 and slot and row in result:
                result[row].uses[definer, slot] = values[code]
    return result


class Head:
    """The records that are written again at the start of the range.

    Attributes:
        records: the records by the index of their provider; not many more bytes than `MAX_BYTES`.
        count: how many they are, at most `MAX_KEPT`.
        left_out: how many there are besides.
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
            self._size += len(early.raw)
