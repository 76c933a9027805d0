"""Rows with durations in groups, as a grid: how many there are, how long they last in all, and the longest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fxtio.arrays import Array
from fxtio.html import contents
from fxtio.html.contents import Cell, Grid
from fxtio.timeline.answers.totals import Durations, Totals
from fxtio.timeline.parts import PAIR

Key = tuple[int, ...]
"""The numbers that tell a group from others."""

MAX_GROUPS = 50_000
"""The most groups; rows of further ones are only counted."""

_HEADERS = ("Count", "Total", "Median", "p99", "Longest")


class DurationGroups:
    """Adds up rows with durations by keys of several numbers.

    Attributes:
        missed: the number of rows in groups for which there was no room.
    """

    def __init__(self) -> None:
        self.missed = 0
        self._number_of: dict[Key, int] = {}
        self._totals = Totals()
        self._durations = Durations()

    def enter(self, keys: Sequence[Array], duration: Array) -> None:
        """Take rows.

        Args:
            keys: the numbers of the keys, each from -1 to 2^31 - 2, as columns.
            duration: the durations, not negative (int64).
        """
        if not len(duration):
            return
        place = np.zeros(len(duration), np.int64)
        for key in keys:
            _, place = np.unique(place * PAIR + key + 1, return_inverse=True)
        _, first = np.unique(place, return_index=True)
        numbers = [self._number(key) for key in zip(*(key[first].tolist() for key in keys), strict=True)]
        group = np.array(numbers, np.int64)[place]
        self.missed += int((group < 0).sum())
        group, duration = group[group >= 0], duration[group >= 0]
        values = dict.fromkeys(("total", "self", "min", "max"), duration)
        self._totals.add(group, {**values, "calls": np.ones(len(group), np.int64)})
        self._durations.enter(group, duration)

    def _number(self, key: Key) -> int:
        """Return the number of a group, -1 if there is no room for a new one."""
        number = self._number_of.get(key)
        if number is None:
            number = len(self._number_of)
            if number >= MAX_GROUPS:
                return -1
            self._number_of[key] = number
        return number

    def grid(
        self,
        headers: Sequence[str],
        label: Callable[[Key], Sequence[str | Cell]],
        *,
        most: int,
        title: str = "",
        by: str = "total",
        accepts: Callable[[Key], bool] | None = None,
    ) -> Grid | None:
        """Return the groups as a grid, None if there are none.

        Args:
            headers: the titles of the columns of the keys.
            label: returns the cells of a key.
            most: the most rows.
            title: the title.
            by: `total` or `calls`: the groups with the greatest values come first.
            accepts: returns whether a group is shown, None for all.
        """
        median, p99 = self._durations.percentiles(len(self._totals), (50, 99))
        shown = [(key, number) for key, number in self._number_of.items() if accepts is None or accepts(key)]
        shown.sort(key=lambda each: -int(self._totals[by][each[1]]))
        if not shown:
            return None

        def row_of(key: Key, number: int) -> list[str | Cell]:
            longest, shortest = (int(self._totals[name][number]) for name in ("max", "min"))
            middle, late = (min(max(int(column[number]), shortest), longest) for column in (median, p99))
            times = (int(self._totals["total"][number]), middle, late, longest)
            return [*label(key), contents.count(int(self._totals["calls"][number])), *map(contents.duration, times)]

        rows = (row_of(*each) for each in shown[:most])
        return contents.grid([*headers, *_HEADERS], rows, more=max(len(shown) - most, 0), title=title)
