"""The tables that a reader keeps: threads, and what each provider's slots mean at each position.

Distinct strings and threads get codes for the whole reading.  A provider's slots map to codes; a slot may be redefined
at any record, so a reference is resolved as of its position (`Lookup`), for a whole batch at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.codec.parts import Thread

Array = np.ndarray[Any, Any]

UNBOUND = -1
"""The code of a slot that nobody has defined."""

_POSITIONS = 1 << 40  # more than a batch can have


class Threads:
    """All distinct pairs of process and thread koids of a reading.

    Attributes:
        values: the pairs by code.
    """

    def __init__(self) -> None:
        self.values: list[Thread] = []
        self._codes: dict[Thread, int] = {}
        self._objects: Array = np.empty(0, object)
        self._koids: Array = np.empty((0, 2), np.uint64)

    def code(self, thread: Thread) -> int:
        """The code of a thread, new or known."""
        code = self._codes.setdefault(thread, len(self.values))
        if code == len(self.values):
            self.values.append(thread)
        return code

    def only(self, codes: Array) -> Threads:
        """New threads with just these, in the order of their codes."""
        kept = Threads()
        for code in codes.tolist():
            kept.code(self.values[code])
        return kept

    def codes(self, process: Array, thread: Array, has_thread: Array) -> Array:
        """The codes of many pairs (int32)."""
        if not len(process):
            return np.empty(0, np.int32)
        pairs = np.stack([process, thread, has_thread.astype(np.uint64)], axis=1)
        change = np.flatnonzero((pairs[1:] != pairs[:-1]).any(axis=1)) + 1  # inline threads come in runs
        starts = np.concatenate([[0], change])
        found = [self.code(Thread(p, t if has else None)) for p, t, has in pairs[starts].tolist()]
        return np.repeat(np.array(found, np.int32), np.diff(np.append(starts, len(pairs))))

    def objects(self) -> Array:
        """The threads as an array of objects; one more at the end stands for -1."""
        if len(self._objects) != len(self.values) + 1:
            self._objects = np.empty(len(self.values) + 1, object)
            self._objects[:-1] = self.values
        return self._objects

    def koids(self) -> Array:
        """Process and thread koids by code (uint64, shape (threads + 1, 2)); the last row, of zeros, stands for -1."""
        if len(self._koids) != len(self.values) + 1:
            self._koids = np.zeros((len(self.values) + 1, 2), np.uint64)
            for code in range(len(self.values)):
                self._koids[code] = self.values[code].process, self.values[code].thread or 0
        return self._koids


@dataclass(frozen=True, slots=True)
class Definitions:
    """Slots that a batch defines, in the order of the file.

    Attributes:
        state: the provider state that each belongs to (int32).
        slot: the slot (int64).
        position: the record's number in the batch (int64).
        code: what the slot means from there on (int32).
    """

    state: Array
    slot: Array
    position: Array
    code: Array


class Slots:
    """What the slots of every provider state mean at the end of the last batch.

    Every table has one unbound slot more than was ever used, so that taking with clipping is right for any slot.  The
    arrays are never changed, only replaced: a `Lookup` made earlier stays right.
    """

    def __init__(self, *initial: int) -> None:
        self._initial = np.array([*initial, UNBOUND], np.int32)
        self._tables: dict[int, Array] = {}

    def used(self) -> Array:
        """All codes that some slot has (ascending)."""
        tables = [self._initial, *self._tables.values()]
        codes = np.unique(np.concatenate(tables))
        return codes[codes >= 0]

    def renumber(self, old: Array) -> None:
        """Give the codes `old` (ascending, as from `used`) the numbers 0, 1, 2, ..."""
        for state, table in self._tables.items():
            self._tables[state] = np.where(table < 0, UNBOUND, np.searchsorted(old, table)).astype(np.int32)

    def enter(self, defined: Definitions) -> Lookup:
        """Take in what a batch defines."""
        before = dict(self._tables)
        last: dict[int, Array] = {}
        for state, rows in _groups(defined.state):
            slot = defined.slot[rows]
            old = before.get(state, self._initial)
            room = max(len(old), (1 << int(slot.max()).bit_length()) + 1)
            table = np.full(room, UNBOUND, np.int32)
            table[: len(old)] = old
            table[slot] = defined.code[rows]
            last[state] = np.full(room, -1, np.int64)
            last[state][slot] = defined.position[rows]
            self._tables[state] = table
        return Lookup(self._initial, before, dict(self._tables), last, defined)


@dataclass(frozen=True, slots=True)
class Lookup:
    """Resolves the references of one batch.

    Attributes:
        initial: what slots mean to a provider that has defined none.
        before: the tables by state in front of the batch.
        after: the tables behind it.
        last: the position of the last definition of every slot in the batch, -1 for none, by state.
        defined: all definitions of the batch.
    """

    initial: Array
    before: dict[int, Array]
    after: dict[int, Array]
    last: dict[int, Array]
    defined: Definitions

    def only(self, state: int | Array) -> int | None:
        """What slot 0 means to all records of the batch, if it is the same for all of them."""
        if not isinstance(state, int) or state in self.last:
            return None
        return int(self.after.get(state, self.initial)[0])

    def codes(self, state: int | Array, slot: Array, position: Array) -> Array:
        """What each reference means (int32), `UNBOUND` where its slot was not defined before it.

        Args:
            state: the provider state of each reference, or of all.
            slot: the slots.
            position: the numbers of the records in the batch, ascending (int64).
        """
        if isinstance(state, int):
            return self._codes(state, slot, position)
        codes = np.empty(len(slot), np.int32)
        for one, rows in _groups(state):
            codes[rows] = self._codes(one, slot[rows], position[rows])
        return codes

    def _codes(self, state: int, slot: Array, position: Array) -> Array:
        codes = self.after.get(state, self.initial).take(slot, mode="clip")
        last = self.last.get(state)
        if last is None or not len(position) or int(last.max()) < int(position[0]):
            return codes
        late = np.flatnonzero(last.take(slot, mode="clip") > position)
        if len(late):
            codes[late] = self._as_of(state, slot[late].astype(np.int64), position[late])
        return codes

    def _as_of(self, state: int, slot: Array, position: Array) -> Array:
        """The slow way: the last definition of the slot before the position, or else what it meant before the batch."""
        mine = self.defined.state == state
        order = np.lexsort((self.defined.position[mine], self.defined.slot[mine]))
        slots = self.defined.slot[mine][order]
        keys = slots * _POSITIONS + self.defined.position[mine][order]
        found = np.searchsorted(keys, slot * _POSITIONS + position) - 1
        known = (found >= 0) & (slots[found] == slot)
        old = self.before.get(state, self.initial).take(slot, mode="clip")
        return np.where(known, self.defined.code[mine][order][found], old)


def _groups(values: Array) -> list[tuple[int, Array]]:
    """Every distinct value with the rows that hold it, in order."""
    if not len(values):
        return []
    if int(values.min()) == int(values.max()):
        return [(int(values[0]), np.arange(len(values)))]
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=values[order[0]] - 1))
    return [(int(values[rows[0]]), rows) for rows in np.split(order, starts[1:])]
