"""Calls, times and percentiles by group, from rows that come in batches.

A group may be anything that rows have a number for: a name, a thread, the value of an argument.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fxtio.table import MAX_TIME, Table

Array = np.ndarray[Any, Any]

EXACT_PAIRS = 4_000_000
"""The most pairs of a group and a duration that are counted one by one; of more, durations are rounded."""

_FLUSH_ROWS = 1_000_000
_MANTISSA_BITS = 23  # of a float32
_STEPS = 64  # of rounded durations, from a power of two to the next: at first


class Durations:
    """How often each duration occurs in each group, for percentiles.

    With more than `EXACT_PAIRS` different pairs of a group and a duration, durations are rounded to steps, 64 from each
    power of two to the next one; with too many pairs even so, to fewer.
    """

    def __init__(self) -> None:
        self._group, self._value, self._count = (np.empty(0, np.int64) for _ in range(3))
        self._waiting: list[tuple[Array, Array]] = []
        self._rows = 0
        self._steps = 0  # none: durations are exact

    def enter(self, group: Array, duration: Array) -> None:
        """Take rows: their groups and durations, which are not negative (int64)."""
        self._waiting.append((group.astype(np.int64), duration))
        self._rows += len(group)
        if self._rows >= _FLUSH_ROWS:
            self._flush()

    @property
    def error(self) -> float:
        """The greatest relative error of a percentile; 0 if all are exact."""
        return 0.5 / self._steps if self._steps else 0.0

    def percentiles(self, groups: int, percents: tuple[int, ...]) -> list[Array]:
        """Return for each percentage the smallest duration (int64) that at least so many percent do not exceed.

        Args:
            groups: the number of groups; one without rows has 0.
            percents: the percentages, for example 50 for the median.
        """
        self._flush()
        below = np.cumsum(self._count)
        ends = np.searchsorted(self._group, np.arange(groups), side="right")
        above = np.concatenate([[0], below])[ends]
        calls = np.diff(above, prepend=0)
        values = self._values()
        results = []
        for percent in percents:
            rank = np.maximum(-(-calls * percent // 100), 1)
            place = np.searchsorted(below, above - calls + rank)
            results.append(np.where(calls > 0, np.append(values, 0)[np.minimum(place, len(values))], 0))
        return results

    def _flush(self) -> None:
        """Count the rows that wait."""
        if not self._waiting:
            return
        group, value = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
        self._waiting, self._rows = [], 0
        if self._steps:
            value = _rounded(value, self._steps)
        self._add(group, value, np.ones(len(group), np.int64))
        while len(self._group) > EXACT_PAIRS and self._steps != 1:
            if self._steps:
                self._steps //= 2
                self._value //= 2
            else:
                self._steps = _STEPS
                self._value = _rounded(self._value, self._steps)
            group, value, count = self._group, self._value, self._count
            self._group, self._value, self._count = group[:0], value[:0], count[:0]
            self._add(group, value, count)

    def _add(self, group: Array, value: Array, count: Array) -> None:
        group, value, count = (
            np.concatenate(pair)
            for pair in ((self._group, group), (self._value, value), (self._count, count))
        )  # fmt: skip
        order = sorted_by(group, value)
        group, value, count = group[order], value[order], count[order]
        is_new = np.ones(len(group), bool)
        is_new[1:] = (group[1:] != group[:-1]) | (value[1:] != value[:-1])
        first = np.flatnonzero(is_new)
        self._group, self._value, self._count = group[first], value[first], np.add.reduceat(count, first)

    def _values(self) -> Array:
        """Return the durations; the middle of a step if they are rounded."""
        if not self._steps:
            return self._value
        width = (1 << _MANTISSA_BITS) // self._steps
        low, high = (((self._value + add) * width).astype(np.int32).view(np.float32) for add in (0, 1))
        middle = (low.astype(np.float64) + high) / 2
        return np.where(self._value == 0, 0, np.minimum(middle, float(2**62))).astype(np.int64)


def _rounded(value: Array, steps: int) -> Array:
    """Return the number of the step of each duration: the leading bits of its float32."""
    return value.astype(np.float32).view(np.int32).astype(np.int64) // ((1 << _MANTISSA_BITS) // steps)


def sorted_by(major: Array, minor: Array) -> Array:
    """Return the order of rows by two columns of numbers that are not negative."""
    count = len(major)
    if not count:
        return np.empty(0, np.int64)
    width, height = int(minor.max()) + 1, int(major.max()) + 1
    if height * width * count <= MAX_TIME:
        # Much faster than an indirect sort.
        keys = np.sort((major * width + minor) * count + np.arange(count))
        return keys - keys // count * count
    if height * width <= MAX_TIME:
        return np.argsort(major * width + minor, kind="stable")
    return np.lexsort((minor, major))


class Totals:
    """Calls, total and self time, shortest and longest duration of each group of slices.

    The total time of a group counts a slice only if it is not within another slice of the group: a function that calls
    itself is counted once.
    """

    def __init__(self) -> None:
        self._sums = {name: np.full(0, initial, np.int64) for name, initial in _INITIAL.items()}

    def __len__(self) -> int:
        return len(self._sums["calls"])

    def __getitem__(self, name: str) -> Array:
        """Return `calls`, `total`, `self`, `min` or `max` of each group (int64)."""
        return self._sums[name]

    def enter(self, slices: Table, group: Array, open_slices: Table, open_group: Array) -> None:
        """Take slices.

        Args:
            slices: columns `id`, `start`, `duration`, `self_time` and `track` of slices, in the order of their ids.
            group: the group of each slice, not negative (int64).
            open_slices: columns `id` and `track` of slices that last until later batches.
            open_group: the group of each of them, not negative.
        """
        count = slices.num_rows
        if not count:
            return
        track, start, duration = slices["track"].astype(np.int64), slices["start"], slices["duration"]
        place = slices["id"]
        own = np.ones(count, bool)
        if open_slices.num_rows:
            nothing = np.zeros(open_slices.num_rows, np.int64)
            track = np.concatenate([open_slices["track"], track])
            group = np.concatenate([open_group, group])
            start = np.concatenate([nothing, start])
            duration = np.concatenate([nothing, duration])
            place = np.argsort(np.concatenate([open_slices["id"], place]), kind="stable")
            track, group, start, duration = (column[place] for column in (track, group, start, duration))
            own = place >= len(nothing)
            place = place - len(nothing)
        else:
            place = np.arange(count)
        order = sorted_by(track, group)
        start, duration, own, place = start[order], duration[order], own[order], place[order]
        is_new = np.ones(len(order), bool)
        is_new[1:] = (np.diff(track[order]) != 0) | (np.diff(group[order]) != 0)
        covered = _covered(start, duration, own, is_new)
        first = np.flatnonzero(is_new)
        values = {
            "calls": own.astype(np.int64),
            "total": np.where(covered, 0, duration),
            "self": np.where(own, slices["self_time"][place], 0),
            "min": np.where(own, duration, MAX_TIME),
            "max": duration,
        }
        self._merge(group[order][first], {name: _reduce(name, column, first) for name, column in values.items()})

    def add(self, group: Array, **values: Array) -> None:
        """Take rows that do not nest.

        Args:
            group: the group of each row, not negative (int64).
            values: for each of `calls`, `total`, `self`, `min`, `max` the values of the rows (int64).
        """
        if not len(group):
            return
        order = np.argsort(group, kind="stable")
        group = group[order]
        first = np.flatnonzero(np.concatenate([[True], np.diff(group) != 0]))
        self._merge(group[first], {name: _reduce(name, column[order], first) for name, column in values.items()})

    def _merge(self, group: Array, values: dict[str, Array]) -> None:
        """Add the values of groups, which may occur several times."""
        missing = int(group.max()) + 1 - len(self)
        if missing > 0:
            grow = max(missing, len(self))
            self._sums = {
                name: np.append(column, np.full(grow, _INITIAL[name], np.int64))
                for name, column in self._sums.items()
            }  # fmt: skip
        for name, column in values.items():
            if name in ("min", "max"):
                (np.minimum if name == "min" else np.maximum).at(self._sums[name], group, column)
                continue
            before = self._sums[name][group]
            np.add.at(self._sums[name], group, column)
            over = group[self._sums[name][group] < before]
            self._sums[name][over] = MAX_TIME


_INITIAL = {"calls": 0, "total": 0, "self": 0, "min": MAX_TIME, "max": 0}
"""The values of a group without rows."""


def _reduce(name: str, column: Array, first: Array) -> Array:
    """Return the value of each segment of a column; sums end at `MAX_TIME`."""
    if name in ("min", "max"):
        return (np.minimum if name == "min" else np.maximum).reduceat(column, first)
    if float(column.max()) * len(column) < MAX_TIME:
        return np.add.reduceat(column, first)
    sums = np.add.reduceat(column.astype(np.float64), first)
    return np.where(sums < MAX_TIME / 2, np.add.reduceat(column, first), np.minimum(sums, 2.0**62).astype(np.int64))


def _covered(start: Array, duration: Array, own: Array, is_new: Array) -> Array:
    """Return whether each slice is within an earlier one of its segment, in which they are in the order of begins.

    Rows that are not `own` last beyond all others.
    """
    begin = int(start[own].min())
    start = np.where(own, start - begin, 0)
    end = start + duration
    beyond = int(end.max()) + 1
    end[~own] = beyond
    segment = np.cumsum(is_new) - 1
    count = int(segment[-1]) + 1
    if count * (beyond + 1) <= MAX_TIME:
        latest = np.maximum.accumulate(segment * (beyond + 1) + end) - segment * (beyond + 1)
    else:
        bounds = np.append(np.flatnonzero(is_new), len(end))
        latest = np.empty(len(end), np.int64)
        for at, to in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            np.maximum.accumulate(end[at:to], out=latest[at:to])
    before = np.zeros(len(end), np.int64)
    before[1:] = np.where(is_new[1:], 0, latest[:-1])
    return (start < before) | ~own
