"""Entries and exits to calls: one row for each call of a function, in the order in which they end.

A record says how deep it is, and that is what counts: it closes whatever is open deeper.  So a call whose exit is
missing (`longjmp`, `exec`, lost records) ends where the next record shows that it is over, and an exit without an entry
(in a child after `fork`) is a call that began before the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio import _native
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.layout import DEPTHS, RecordWord
from fxtio.uftrace.stream import Chunk

Array = np.ndarray[Any, Any]

WHOLE, NO_EXIT, NO_ENTRY, OPEN = range(4)
STATES = ("whole", "no_exit", "no_entry", "open")
"""What is known of a call: both ends; it was over at some later record; it began before the file; it goes on."""

_FIELDS = RecordWord.fields
_STEPS = np.array([{RecordType.ENTRY: 1, RecordType.EXIT: -1}.get(kind, 0) for kind in RecordType], np.int8)
_LAST = DEPTHS - 1


@dataclass(slots=True)
class Open:
    """Calls that are not over yet, outermost first.

    Attributes:
        depth: their depths (int64).
        address: inside of their functions (uint64).
        start: when they were entered, in nanoseconds (int64).
        name: code of the function's name (int32).
        entry: the record that entered (int64).
    """

    depth: Array
    address: Array
    start: Array
    name: Array
    entry: Array

    @classmethod
    def none(cls) -> Open:
        """None at all."""
        wide, word = np.empty(0, np.int64), np.empty(0, np.uint64)
        return cls(wide, word, wide, np.empty(0, np.int32), wide)


@dataclass(slots=True)
class Calls:
    """Calls that are over.

    Attributes:
        name: code of the function's name (int32).
        start: nanoseconds (int64).
        end: nanoseconds (int64).
        depth: how many calls are around it (int64).
        address: inside of the function (uint64).
        state: code in `STATES` (int8).
        entry: the record that entered, -1 where there is none (int64).
        exit: the record that left, -1 where there is none (int64).
    """

    name: Array
    start: Array
    end: Array
    depth: Array
    address: Array
    state: Array
    entry: Array
    exit: Array


class Pairing:
    """Pairs the records of one task."""

    def __init__(self) -> None:
        self.open = Open.none()
        self._laps = 0  # how often the depth has wrapped around
        self._before: tuple[int, int] = (0, 0)  # step and depth of the last record
        self._first: int | None = None
        self._last = 0

    def take(self, chunk: Chunk, record: int, codes: Any) -> Calls:
        """The calls that end in a chunk.

        Args:
            chunk: the records.
            record: the number of the first one.
            codes: gives the codes of the names of many addresses of the chunk.
        """
        words = chunk.words
        step = _STEPS[_FIELDS["type"].get(words).view(np.int64)]
        depth = _FIELDS["depth"].get(words).view(np.int64)
        address = _FIELDS["address"].get(words)
        times = chunk.times.view(np.int64)
        if self._laps or _LAST in (self._before[1], int(depth.max(initial=0))):
            depth, address = self._unwrapped(step, depth, address)
        moved = np.flatnonzero(step) if not step.all() else None
        if len(step) and (moved is None or len(moved)):
            last = -1 if moved is None else int(moved[-1])
            self._before = int(step[last]), int(depth[last]) % DEPTHS
            self._last = int(times[last])
            if self._first is None:
                self._first = int(times[0 if moved is None else int(moved[0])])
        was, height = self.open, len(self.open.depth)
        room = height + len(step)
        deep, place, first = np.empty(room, np.int64), np.empty(room, np.uint64), np.empty(room, np.int64)
        deep[:height], place[:height], first[:height] = was.depth, was.address, np.arange(-1, -height - 1, -1)
        begin, end, how = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.uint8)
        count, height = _native.pair(step, depth, address, deep, place, first, begin, end, how, height)
        calls = self._calls(
            was, begin[:count], end[:count], how[:count].view(np.int8), depth, address, times, record, codes
        )
        first = first[:height]
        self.open = Open(
            deep[:height].copy(), place[:height].copy(), _mixed(first, times, was.start),
            _mixed_codes(first, address, was.name, codes), _mixed(first, None, was.entry, record),
        )  # fmt: skip
        return calls

    def _calls(
        self, was: Open, begin: Array, end: Array, how: Array, depth: Array, address: Array, times: Array,
        record: int, codes: Any,
    ) -> Calls:  # fmt: skip
        start, entry = _mixed(begin, times, was.start), _mixed(begin, None, was.entry, record)
        exits = end + record
        odd = how != WHOLE
        if odd.any():
            without_entry = how == NO_ENTRY
            start[without_entry] = self._first
            entry[without_entry] = -1
            exits[how == NO_EXIT] = -1
        return Calls(
            _mixed_codes(begin, address, was.name, codes), start, times[end], _mixed(begin, depth, was.depth),
            _mixed(begin, address, was.address), how, entry, exits,
        )  # fmt: skip

    def finish(self) -> Calls:
        """The calls that are still open at the end; they end with the task's last record."""
        rest, self.open = self.open, Open.none()
        order = np.arange(len(rest.depth) - 1, -1, -1)
        none = np.full(len(order), -1, np.int64)
        return Calls(
            rest.name[order], rest.start[order], np.full(len(order), self._last, np.int64), rest.depth[order],
            rest.address[order], np.full(len(order), OPEN, np.int8), rest.entry[order], none,
        )  # fmt: skip

    def _unwrapped(self, step: Array, depth: Array, address: Array) -> tuple[Array, Array]:
        """Depths beyond what a record can say: they wrap around, and carry into the address."""
        rows = np.flatnonzero(step)
        steps = np.concatenate([[self._before[0]], step[rows]])
        depths = np.concatenate([[self._before[1]], depth[rows]])
        up = (steps[:-1] > 0) & (steps[1:] > 0) & (depths[:-1] == _LAST) & (depths[1:] == 0)
        down = (steps[:-1] < 0) & (steps[1:] < 0) & (depths[:-1] == 0) & (depths[1:] == _LAST)
        laps = self._laps + np.cumsum(up.astype(np.int64) - down)
        laps -= np.minimum(np.minimum.accumulate(np.minimum(laps, 0)), 0)  # a lap that nobody began cannot end
        self._laps = int(laps[-1]) if len(laps) else self._laps
        deep, place = depth.copy(), address.copy()
        deep[rows] += laps * DEPTHS
        place[rows] -= laps.view(np.uint64)
        return deep, place


def _mixed(begin: Array, here: Array | None, before: Array, plus: int = 0) -> Array:
    """Take values of this chunk (rows from 0 on; without `here`, the row itself) or of calls open before it."""
    if not len(begin) or int(begin.min()) >= 0:
        return begin + plus if here is None else here[begin]
    old = np.flatnonzero(begin < 0)
    inside = np.maximum(begin, 0)
    made = inside + plus if here is None else here[inside] if len(here) else np.zeros(len(begin), before.dtype)
    made[old] = before[-1 - begin[old]]
    return made


def _mixed_codes(begin: Array, address: Array, before: Array, codes: Any) -> Array:
    if not len(begin) or int(begin.min()) >= 0:
        found: Array = codes(address[begin])
        return found
    made = np.empty(len(begin), np.int32)
    new = begin >= 0
    made[new] = codes(address[begin[new]])
    made[~new] = before[-1 - begin[~new]]
    return made
