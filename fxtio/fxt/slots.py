"""What earlier records define for later ones: clocks, threads, and the values of slots.

A value of a slot has a code.  Since any record may define a slot anew, a reference is resolved as of its position in
the file: `SlotTables` has the codes at the end of a batch, and a `SlotLookup` those at every record of the batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from fxtio.arrays import Array, ArrayRows
from fxtio.codec.distinct import GOLDEN_RATIO, number_distinct, rows_of_each
from fxtio.codec.integers import MAX_UINT64
from fxtio.fxt.records import Thread
from fxtio.table import MAX_TIME

NS_PER_SECOND = 1_000_000_000

_MULTIPLIER = np.uint64(GOLDEN_RATIO)

# ---- clocks


@dataclass(frozen=True, slots=True)
class Clock:
    """A provider's clock.  spec: Initialization record

    Attributes:
        ticks_per_second: the tick rate; 1 tick is 1 ns unless an initialization record has another rate.
        base_ticks: the tick at which `wall_clock` was read, or None.
        wall_clock: nanoseconds since the Unix epoch at `base_ticks`, or None.
    """

    ticks_per_second: int = NS_PER_SECOND
    base_ticks: int | None = None
    wall_clock: int | None = None

    def ns(self, ticks: int) -> int:
        """Return a tick in nanoseconds, rounded down; without a limit."""
        return ticks * NS_PER_SECOND // self.ticks_per_second

    @property
    def wall_clock_at_zero(self) -> int | None:
        """Nanoseconds since the Unix epoch at tick 0, or None."""
        if self.base_ticks is None or self.wall_clock is None:
            return None
        return self.wall_clock - self.ns(self.base_ticks)

    @property
    def latest(self) -> int:
        """The last tick whose time fits in int64 nanoseconds."""
        return min((MAX_TIME * self.ticks_per_second + self.ticks_per_second - 1) // NS_PER_SECOND, MAX_UINT64)

    def to_ns(self, ticks: Array) -> Array:
        """Convert ticks (uint64) to nanoseconds (int64), rounded down, at most `MAX_TIME`."""
        common = math.gcd(NS_PER_SECOND, self.ticks_per_second)
        numerator, denominator = NS_PER_SECOND // common, self.ticks_per_second // common
        over = int(ticks.max(initial=0)) > self.latest
        if numerator == denominator == 1 and not over:
            return ticks.view(np.int64)
        if (denominator - 1) * numerator > MAX_UINT64:  # the remainders below would not fit in 64 bits
            return np.array([min(self.ns(tick), MAX_TIME) for tick in ticks.tolist()], np.int64)
        bounded = np.minimum(ticks, np.uint64(self.latest))
        whole, rest = np.divmod(bounded, np.uint64(denominator)) if denominator > 1 else (bounded, np.uint64(0))
        times = (whole * np.uint64(numerator) + rest * np.uint64(numerator) // np.uint64(denominator)).view(np.int64)
        if over:
            times[ticks > np.uint64(self.latest)] = MAX_TIME
        return times


def first_wall_clock(clocks: Iterable[Clock]) -> int | None:
    """Return the nanoseconds since the Unix epoch at tick 0 of the first clock that has them, or None."""
    return next((clock.wall_clock_at_zero for clock in clocks if clock.wall_clock_at_zero is not None), None)


def times_of(clocks: Sequence[Clock], codes: Array, ticks: Array) -> Array:
    """Convert ticks (uint64) to nanoseconds (int64), each by the clock with the given code (index into `clocks`)."""
    if len(codes) and int(codes.min()) == int(codes.max()):
        return clocks[int(codes[0])].to_ns(ticks)
    times = np.empty(len(ticks), np.int64)
    for code, rows in rows_of_each(codes):
        times[rows] = clocks[code].to_ns(ticks[rows])
    return times


# ---- threads


class Threads:
    """The distinct threads of a reading, pairs of process and thread koids.

    Attributes:
        values: the threads by code.
    """

    def __init__(self) -> None:
        self.values: list[Thread] = []
        self._codes: dict[Thread, int] = {}
        self._objects: Array = np.empty(0, object)
        self._koids: Array = np.zeros((1, 2), np.uint64)

    def code(self, thread: Thread) -> int:
        """Return the code of a thread, a new one if the thread is new."""
        code = self._codes.setdefault(thread, len(self.values))
        if code == len(self.values):
            self.values.append(thread)
        return code

    def only(self, codes: Array) -> Threads:
        """Return a new object with only these threads, in the order of their codes."""
        subset = Threads()
        for code in codes.tolist():
            subset.code(self.values[code])
        return subset

    def codes(self, process: Array, thread: Array, has_thread: Array) -> Array:
        """Return the codes of many pairs of koids (int32)."""
        if not len(process):
            return np.empty(0, np.int32)
        digest = (process * _MULTIPLIER ^ thread) * _MULTIPLIER ^ has_thread
        number, first = number_distinct(digest)
        like = first[number]
        other = (process != process[like]) | (thread != thread[like]) | (has_thread != has_thread[like])
        distinct = zip(process[first].tolist(), thread[first].tolist(), has_thread[first].tolist(), strict=True)
        codes = np.array([self.code(Thread(p, t if has else None)) for p, t, has in distinct], np.int32)[number]
        for row in np.flatnonzero(other).tolist():  # another thread with the same digest
            codes[row] = self.code(Thread(int(process[row]), int(thread[row]) if has_thread[row] else None))
        return codes

    def objects(self) -> Array:
        """Return the threads as an array of objects; one more at the end stands for the code -1."""
        if len(self._objects) != len(self.values) + 1:
            self._objects = np.empty(len(self.values) + 1, object)
            self._objects[:-1] = self.values
        return self._objects

    def koids(self) -> Array:
        """Return process and thread koids by code (uint64, shape (threads + 1, 2)); the last row, zeros, is for -1."""
        have = len(self._koids) - 1
        if have < len(self.values):
            new = [(thread.process, thread.thread or 0) for thread in self.values[have:]]
            self._koids = np.concatenate([self._koids[:have], np.array([*new, (0, 0)], np.uint64)])
        return self._koids


# ---- the values of slots

UNDEFINED = -1
"""The code of a slot that is not defined."""

_MAX_ROWS = 1 << 40  # more records than a batch can have

_SMALL = 256  # a table with this many slots has an array entry for each of them
_MOST_EMPTY = 8  # a larger one has, if the slots with a value are at least one in this many


@dataclass(frozen=True, slots=True)
class Definitions(ArrayRows):
    """The slots that a batch defines, in the order of the file.

    Attributes:
        provider: the index of the provider that each belongs to (int32).
        slot: the slot (int64).
        row: the number of the record in the batch (int64).
        code: the code of the slot's value from there on (int32).
    """

    provider: Array
    slot: Array
    row: Array
    code: Array


_NONE = np.empty(0, np.int64)

NO_DEFINITIONS = Definitions(_NONE.astype(np.int32), _NONE, _NONE, _NONE.astype(np.int32))
"""The definitions of a batch that has none."""


@dataclass(frozen=True, slots=True)
class SlotValues:
    """A value for each slot, -1 for most of them; the memory is proportional to the number of the others.

    Attributes:
        slots: the slots that have a value (ascending), or None if `values` has an entry for every slot.
        values: the values of `slots`, or of the slots from 0 on; after the last is one -1, for all further slots.
    """

    slots: Array | None
    values: Array

    @classmethod
    def of(cls, slots: Array, values: Array) -> SlotValues:
        """Return an object with the given values.

        Args:
            slots: the slots (int64); of several entries for a slot, the last is its value.
            values: their values.
        """
        length = int(slots.max()) + 1
        if length <= max(_SMALL, _MOST_EMPTY * len(slots)):
            dense = np.full(length + 1, -1, values.dtype)
            dense[slots] = values
            return cls(None, dense)
        distinct, last = np.unique(slots[::-1], return_index=True)
        return cls(distinct, np.append(values[::-1][last], values.dtype.type(-1)))

    def take(self, slot: Array) -> Array:
        """Return the values of many slots."""
        if self.slots is None:
            return self.values.take(slot, mode="clip")
        index = np.searchsorted(self.slots, slot)
        return np.where(self.slots.take(index, mode="clip") == slot, self.values.take(index), self.values[-1])

    def items(self) -> tuple[Array, Array]:
        """Return the slots whose value is not -1 (int64, ascending), and their values."""
        slots = np.flatnonzero(self.values >= 0)
        values = self.values[slots]
        return (slots if self.slots is None else self.slots[slots]), values

    def changed(self, slots: Array, values: Array) -> SlotValues:
        """Return a new object in which some slots have other values; the arguments are those of `of`."""
        old_slots, old_values = self.items()
        return SlotValues.of(np.concatenate([old_slots, slots]), np.concatenate([old_values, values]))


class SlotTables:
    """The codes of the slots of every provider at the end of the last batch.

    The tables are never changed, only replaced: a `SlotLookup` that refers to one stays right.
    """

    def __init__(self, *initial: int) -> None:
        self._initial = SlotValues(None, np.array([*initial, UNDEFINED], np.int32))
        self._tables: dict[int, SlotValues] = {}

    def used(self) -> Array:
        """Return all codes that some slot has (ascending)."""
        tables = [self._initial, *self._tables.values()]
        codes = np.unique(np.concatenate([table.values for table in tables]))
        return codes[codes >= 0]

    def renumber(self, old: Array) -> None:
        """Replace the codes `old` (ascending, as from `used`) by the numbers 0, 1, 2, ..."""
        for provider, table in self._tables.items():
            codes = np.where(table.values < 0, UNDEFINED, np.searchsorted(old, table.values)).astype(np.int32)
            self._tables[provider] = SlotValues(table.slots, codes)

    def enter(self, definitions: Definitions, resets: Mapping[int, int] = MappingProxyType({})) -> SlotLookup:
        """Apply the definitions of a batch, and return what resolves the batch's references.

        Args:
            definitions: the definitions.
            resets: the rows at which all slots of a provider become as they were at first, with the provider's index.
        """
        before = dict(self._tables)
        if resets:
            definitions = self._with_resets(definitions, resets)
        last_row: dict[int, SlotValues] = {}
        for provider, rows in rows_of_each(definitions.provider):
            slot = definitions.slot[rows]
            self._tables[provider] = before.get(provider, self._initial).changed(slot, definitions.code[rows])
            last_row[provider] = SlotValues.of(slot, definitions.row[rows])
        return SlotLookup(self._initial, before, dict(self._tables), last_row, definitions)

    def _with_resets(self, definitions: Definitions, resets: Mapping[int, int]) -> Definitions:
        """Return the definitions of a batch and, for every slot that a reset changes, one more at the reset."""
        rows_of = dict(rows_of_each(definitions.provider))
        none, at_rows = np.empty(0, np.int64), np.fromiter(resets, np.int64)
        parts = [definitions]
        for provider, numbers in rows_of_each(np.fromiter(resets.values(), np.int64)):
            at = np.sort(at_rows[numbers])
            table = self._tables.get(provider, self._initial)
            # A reset changes slots that had another value before the batch, or were defined in it before the reset.
            old, code = table.items()
            old = old[code != self._initial.take(old)]
            own = rows_of.get(provider, none)
            slot = np.append(old, definitions.slot[own])
            after = np.searchsorted(at, np.append(np.full(len(old), -1), definitions.row[own]))
            slot, after = slot[after < len(at)], after[after < len(at)]
            code = self._initial.take(slot)
            parts.append(Definitions(np.full(len(slot), provider, np.int32), slot, at[after], code))
        joined = Definitions.joined(parts)
        return joined.take(np.argsort(joined.row, kind="stable"))


@dataclass(frozen=True, slots=True)
class SlotLookup:
    """Resolves the references of one batch.

    Attributes:
        initial: the codes of the slots of a provider that has defined none.
        before: the tables of the providers before the batch.
        after: the tables of the providers after the batch.
        last_row: for every provider and slot, the row of the last definition in the batch, -1 for none.
        definitions: all definitions of the batch.
    """

    initial: SlotValues
    before: dict[int, SlotValues]
    after: dict[int, SlotValues]
    last_row: dict[int, SlotValues]
    definitions: Definitions

    def only(self, provider: int | Array) -> int | None:
        """Return the code of slot 0 if it is the same for all records of the batch, else None."""
        if not isinstance(provider, int) or provider in self.last_row:
            return None
        return int(self.after.get(provider, self.initial).take(np.zeros(1, np.int64))[0])

    def defined(self, provider: int | Array) -> int:
        """Return a number below which all slots are defined, in a batch that has no definitions itself."""
        if not isinstance(provider, int):
            return 0
        table = self.after.get(provider, self.initial)
        if table.slots is not None:
            return 0
        return int(np.argmax(table.values < 0))

    def table(self, provider: int) -> tuple[Array, Array]:
        """Return the last code of each slot of a provider in the batch, and the row from which it is valid.

        Returns:
            Arrays by slot: the codes (int32), `UNDEFINED` for a slot that is not defined; and the rows (int64).
        """
        after, last = self.after.get(provider, self.initial), self.last_row.get(provider)
        slots = np.arange(len(after.values) - 1 if after.slots is None else int(after.slots[-1]) + 1)
        return after.take(slots), np.full(len(slots), -1) if last is None else last.take(slots)

    def codes(self, provider: int | Array, slot: Array, row: Array) -> Array:
        """Return the code of each reference (int32), `UNDEFINED` if its slot is not defined before it.

        Args:
            provider: the index of the provider of each reference, or of all.
            slot: the slots.
            row: the numbers of the records in the batch, ascending (int64).
        """
        if isinstance(provider, int):
            return self._codes(provider, slot, row)
        codes = np.empty(len(slot), np.int32)
        for index, rows in rows_of_each(provider):
            codes[rows] = self._codes(index, slot[rows], row[rows])
        return codes

    def _codes(self, provider: int, slot: Array, row: Array) -> Array:
        codes = self.after.get(provider, self.initial).take(slot)
        last = self.last_row.get(provider)
        if last is None or not len(row) or int(last.values.max()) < int(row[0]):
            return codes
        redefined = np.flatnonzero(last.take(slot) > row)
        if len(redefined):
            codes[redefined] = self._codes_at(provider, slot[redefined].astype(np.int64), row[redefined])
        return codes

    def _codes_at(self, provider: int, slot: Array, row: Array) -> Array:
        """Return the codes of slots that are defined again after the reference: by the last definition before it."""
        own = self.definitions.take(self.definitions.provider == provider)
        own = own.take(np.lexsort((own.row, own.slot)))
        index = np.searchsorted(own.slot * _MAX_ROWS + own.row, slot * _MAX_ROWS + row, "right") - 1
        in_batch = (index >= 0) & (own.slot[index] == slot)
        old = self.before.get(provider, self.initial).take(slot)
        return np.where(in_batch, own.code[index], old)
