"""Calls, times and percentiles by group, from rows that come in batches.

A group may be anything that rows have a number for: a name, a thread, the value of an argument.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fxtio import _native
from fxtio.arrays import Array
from fxtio.table import MAX_TIME, Table
from fxtio.timeline.sums import add_by_group

EXACT_ROWS = 2_000_000
"""The most rows whose percentiles are exact; of more, durations are rounded to steps."""

MAX_PAIRS = 16_000_000
"""The most pairs of a group and a step that are counted; with more, the steps get wider."""

_MANTISSA_BITS = 23  # of a float32
_STEPS = 64  # of rounded durations, from a power of two to the next: at first
_EXPONENT = 127  # of 1.0
_OCTAVES = 65  # from 1 to 2**63, and 0


class Durations:
    """The number of times that each duration occurs in each group, for percentiles.

    All durations are kept at first.  When there are more than `EXACT_ROWS`, they are rounded: there are 64 steps from
    each power of two to the next one, and with very many groups fewer.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Array, Array]] = []
        self._rows = 0
        self._steps = 0  # none: durations are exact
        self._counts = np.zeros((0, 0), np.int64)  # by group and step

    def enter(self, group: Array, duration: Array) -> None:
        """Take rows: their groups and durations, which are not negative (int64)."""
        if self._steps:
            self._count(group, duration)
            return
        self._waiting.append((group, duration))
        self._rows += len(group)
        if self._rows > EXACT_ROWS:
            self._steps = _STEPS
            for pair in self._waiting:
                self._count(*pair)
            self._waiting = []

    @property
    def error(self) -> float:
        """The greatest relative error of a percentile; 0 if all are exact."""
        return 0.5 / self._steps if self._steps else 0.0

    def percentiles(self, groups: int, percents: tuple[int, ...]) -> list[Array]:
        """Return for each percentage the smallest duration (int64) that at least this many percent do not exceed.

        Args:
            groups: the number of groups; one without rows has 0.
            percents: the percentages, for example 50 for the median.
        """
        group, value, count = self._sorted()
        below = np.cumsum(count)
        above = np.concatenate([[0], below])[np.searchsorted(group, np.arange(groups), side="right")]
        calls = np.diff(above, prepend=0)
        results = []
        for percent in percents:
            rank = np.maximum(-(-calls * percent // 100), 1)
            place = np.searchsorted(below, above - calls + rank)
            results.append(np.where(calls > 0, np.append(value, 0)[np.minimum(place, len(value))], 0))
        return results

    def _sorted(self) -> tuple[Array, Array, Array]:
        """Return groups, durations and counts, in the order of groups and durations."""
        if self._steps:
            group, step = np.nonzero(self._counts)
            return group, self._middle(step), self._counts[group, step]
        if not self._waiting:
            return (np.empty(0, np.int64),) * 3
        group, value = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
        self._waiting = [(group, value)]
        order = sorted_by(group, value)
        return group[order], value[order], np.ones(len(group), np.int64)

    def _count(self, group: Array, duration: Array) -> None:
        """Count rounded durations."""
        if not len(group):
            return
        step = self._step(duration)
        groups, steps = self._counts.shape
        if int(group.max()) >= groups:
            groups = max(int(group.max()) + 1, 2 * groups)
            while groups * _OCTAVES * self._steps > MAX_PAIRS and self._steps > 1:
                self._steps //= 2
                step //= 2
                if steps:
                    self._counts = self._counts.reshape(self._counts.shape[0], -1, 2).sum(axis=2)
            counts = np.zeros((groups, _OCTAVES * self._steps), np.int64)
            counts[: self._counts.shape[0], : self._counts.shape[1]] = self._counts
            self._counts = counts
        np.add.at(self._counts.reshape(-1), group * self._counts.shape[1] + step, 1)

    def _step(self, duration: Array) -> Array:
        """Return the number of the step of each duration: the leading bits of its float32."""
        leading = duration.astype(np.float32).view(np.int32) // ((1 << _MANTISSA_BITS) // self._steps)
        return np.maximum(leading.astype(np.int64) - (_EXPONENT - 1) * self._steps, 0)

    def _middle(self, step: Array) -> Array:
        """Return the durations in the middle of steps (int64)."""
        width = (1 << _MANTISSA_BITS) // self._steps
        first = (step + (_EXPONENT - 1) * self._steps) * width
        low, high = ((first + add).astype(np.int32).view(np.float32).astype(np.float64) for add in (0, width))
        exact = np.where(step < self._steps, 0, (low + high) / 2)
        return np.minimum(exact, float(2**62)).astype(np.int64)


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


_TALLIED = {"calls": 0, "total": 0, "self": 0, "min": MAX_TIME, "max": 0}
_COLUMNS = _TALLIED | {"waiting": 0, "open": 0}
"""The columns of `Totals`, and the value of a group without rows."""


class Totals:
    """Calls, total and self time, shortest and longest duration of each group of slices, and how much of it waits.

    The total time of a group counts a slice only if it is not within another slice of the group: a function that calls
    itself is counted once.
    """

    def __init__(self) -> None:
        self._sums = {name: np.empty(0, np.int64) for name in _COLUMNS}

    def __len__(self) -> int:
        return len(self._sums["calls"])

    def __getitem__(self, name: str) -> Array:
        """Return `calls`, `total`, `self`, `min`, `max`, `waiting` or `open` of each group (int64)."""
        return self._sums[name]

    def enter(self, slices: Table, group: Array, open_slices: Table, open_group: Array) -> None:
        """Take slices.

        Args:
            slices: columns `id`, `start`, `duration`, `self_time`, `waiting`, `track` and `state` of slices, in the
                order of their ids.
            group: the group of each slice (int64), -1 for none.
            open_slices: columns `id` and `track` of slices that last until later batches, in the order of their ids.
            open_group: the group of each of them, -1 for none.
        """
        columns = [slices["track"], group, slices["start"], slices["duration"], slices["self_time"]]
        if open_slices.num_rows:
            at = np.searchsorted(slices["id"], open_slices["id"])
            waiting = [open_slices["track"], open_group, open_slices["start"], -1, 0]
            columns = [np.insert(column, at, value) for column, value in zip(columns, waiting, strict=True)]
        self.make_room(group)
        _native.tally(*columns, *(self._sums[name] for name in _TALLIED))
        is_open = slices["state"].is_in("open")
        for name, values in (("waiting", slices["waiting"]), ("open", is_open.astype(np.int64))):
            rows = np.flatnonzero((values != 0) & (group >= 0))
            add_by_group(self._sums[name], group[rows], values[rows])

    def add(self, group: Array, values: Mapping[str, Array]) -> None:
        """Take rows that do not nest.

        Args:
            group: the group of each row, not negative (int64).
            values: for some columns the values of the rows (int64), not negative.
        """
        if not len(group):
            return
        self.make_room(group)
        for name, column in values.items():
            if name in ("min", "max"):
                (np.minimum if name == "min" else np.maximum).at(self._sums[name], group, column)
                continue
            add_by_group(self._sums[name], group, column)

    def make_room(self, group: Array) -> None:
        """Give each of these groups (int64) a row; -1 is none."""
        missing = int(group.max(initial=-1)) + 1 - len(self)
        if missing > 0:
            count = max(missing, len(self))
            for name, column in self._sums.items():
                self._sums[name] = np.append(column, np.full(count, _COLUMNS[name], np.int64))
