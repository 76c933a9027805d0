"""Records from before the range that are written again at its start, with the definitions that they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.columns import tick_places
from fxtio.codec.generate import decode, encode
from fxtio.codec.parts import Many
from fxtio.codec.record import Record, layout_of
from fxtio.errors import DecodeError
from fxtio.fxt.cut.marks import Limits
from fxtio.fxt.layout import MAX_TEXT_BYTES
from fxtio.fxt.records import RECORDS, Initialization, String, StringReference, Thread, ThreadRecord, ThreadReference
from fxtio.fxt.rewrite import little_endian
from fxtio.fxt.rules.view import MAX_KEPT
from fxtio.fxt.state import Batch, Clock

MAX_BYTES = 1 << 28
"""The bytes of records from before the range that are remembered, at most."""

Definition = tuple[type[Record], int]
"""A slot: the class of the records that define it, and its number."""

Value = str | Thread
"""The meaning of a slot."""


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


def early_records(batch: Batch, cls: type[Record], rows: Array) -> list[EarlyRecord | None]:
    """Return records of a class with what they refer to; None for one that cannot be written again.

    Args:
        batch: the batch.
        cls: the class.
        rows: the numbers of the records in the batch (ascending).
    """
    result: list[EarlyRecord | None] = [None] * len(rows)
    early: list[EarlyRecord] = []
    uses: list[tuple[int, int, Definition]] = []
    if not len(rows):
        return result
    frame = batch.frame
    fields = [*tick_places(cls, frame.block, frame.at[rows], frame.size[rows]).values()]
    for number, row in enumerate(rows.tolist()):
        at, size = int(batch.frame.at[row]), int(batch.frame.size[row])
        words = batch.frame.block.words[at : at + size]
        try:
            record = decode(RECORDS, words.tolist(), batch.frame.raw(row), 0, size, [])
        except DecodeError:
            continue
        raw = bytes(little_endian(batch, row, row))
        if not raw:
            continue
        provider = batch.provider if isinstance(batch.provider, int) else int(batch.provider[row])
        uses += [(len(early), row, definition) for definition in _slots(record)]
        places = tuple((int(places[number]) - at) * 8 for places in fields)
        early.append(EarlyRecord(provider, batch.clock_at(provider, row), raw, record.timestamp, places, {}))
        result[number] = early[-1]
    _resolve(batch, early, uses)
    return result


def _resolve(batch: Batch, early: list[EarlyRecord], uses: list[tuple[int, int, Definition]]) -> None:
    """Look up what slots mean; one that is not defined stays out."""
    values: tuple[tuple[type[Record], Any, list[Any]], ...] = (
        (String, batch.string_slots, batch.strings.values),
        (ThreadRecord, batch.thread_slots, batch.threads.values),
    )
    for cls, lookup, meanings in values:
        mine = [(number, row, definition) for number, row, definition in uses if definition[0] is cls]
        if mine:
            providers = np.array([early[number].provider for number, _, _ in mine], np.int32)
            slots = np.array([slot for _, _, (_, slot) in mine], np.int64)
            codes = lookup.codes(providers, slots, np.array([row for _, row, _ in mine])).tolist()
            for (number, _, definition), code in zip(mine, codes, strict=True):
                if code >= 0:
                    early[number].uses[definition] = meanings[code]


@cache
def _references(cls: type[Record]) -> list[tuple[str, type[Record] | None]]:
    """Return the fields of a class that refer to slots, with the class that defines these; None for members."""
    kinds: list[tuple[str, type[Record] | None]] = []
    for name, part in layout_of(cls).parts:
        if isinstance(part, StringReference):
            kinds.append((name, String))
        elif isinstance(part, ThreadReference):
            kinds.append((name, ThreadRecord))
        elif isinstance(part, Many):
            kinds.append((name, None))
    return kinds


def _slots(record: Record) -> Iterator[Definition]:
    """Yield the slots that a record refers to."""
    for name, definer in _references(type(record)):
        value = getattr(record, name)
        if definer is None:
            for member in value:
                if isinstance(member, Record):
                    yield from _slots(member)
        elif type(value) is int and value:
            yield definer, value


class Head:
    """The begin of the new trace: providers, and the records that are written again at the start of the range.

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

    def write(self, limits: Limits, provider: int, tables: Tables) -> Iterator[bytes]:
        """Yield the records of a provider, each behind the definitions that it needs."""
        for early in sorted(self.records.get(provider, ()), key=EarlyRecord.order):
            yield from tables.set_clock(early.clock)
            for definition, value in early.uses.items():
                yield from tables.define(definition, value)
            yield early.at_start(limits)


class Tables:
    """The tables and the clock of a provider at some place of the new trace.

    Args:
        is_timed: the old trace describes the provider's clock; otherwise it is the one that readers assume.
    """

    def __init__(self, *, is_timed: bool) -> None:
        self.values: dict[Definition, Value] = {}
        self.clock = None if is_timed else Clock()

    def define(self, definition: Definition, value: Value) -> Iterator[bytes]:
        """Yield the record that defines a slot, unless it has this value."""
        if self.values.get(definition) != value:
            self.values[definition] = value
            cls, slot = definition
            if isinstance(value, Thread):
                yield encode(ThreadRecord(slot, value.process, value.thread or 0))
            else:
                assert cls is String
                yield encode(String(slot, fitting(value)))

    def set_clock(self, clock: Clock) -> Iterator[bytes]:
        """Yield the record that describes a clock, unless it is the present one."""
        if self.clock != clock:
            self.clock = clock
            yield encode(Initialization(clock.ticks_per_second, clock.base_ticks, clock.wall_clock))


def fitting(text: str) -> str:
    """Return a text, cut at the greatest length that the specification allows; readers deliver longer ones."""
    raw = text.encode("utf-8", "surrogateescape")
    return text if len(raw) <= MAX_TEXT_BYTES else raw[:MAX_TEXT_BYTES].decode("utf-8", "surrogateescape")
