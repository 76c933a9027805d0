"""The kinds of content that a page has, and cells and grids of bounded size.

A page has sections, and a section has parts: facts, grids, charts and flame graphs.  Who makes the content knows
traces and no HTML; who shows it knows these classes and no traces.  All text may come from a trace, so it is untrusted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fxtio.arrays import Array
from fxtio.report import human_value, printable, short_duration, short_seconds
from fxtio.timeline.answers.totals import Durations, Totals
from fxtio.timeline.sums import number_groups


@dataclass(frozen=True, slots=True)
class Facts:
    """Labels with texts.

    Attributes:
        rows: the pairs of a label and a text.
    """

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a grid that is sorted by a number.

    Attributes:
        text: its text.
        value: the number.
    """

    text: str
    value: int | float


@dataclass(frozen=True, slots=True)
class Grid:
    """A table that can be sorted and searched.

    Attributes:
        headers: the titles of the columns.
        rows: the rows, each with as many cells as there are headers; a `str` is sorted as text.
        more: the number of rows that were left out.
        title: the title, if its section has several parts.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    more: int = 0
    title: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Numbers over time.

    Attributes:
        title: the name of the counter.
        times: nanoseconds since the start of the trace, ascending.
        series: the names of the lines, and for each time its value, None where it has none.
        unit: the unit of the values, if there is one.
    """

    title: str
    times: Sequence[int]
    series: Sequence[tuple[str, Sequence[int | float | None]]]
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Flame:
    """A flame graph, which can also be seen in the order of time.

    Attributes:
        title: its name.
        speedscope: the profile as speedscope JSON.
        is_in_order: whether the order of time is what is seen first.
    """

    title: str
    speedscope: bytes
    is_in_order: bool = False


Part = Facts | Grid | Chart | Flame


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page.

    Attributes:
        title: its heading.
        parts: the content, from top to bottom.
        notes: the sentences at the end, such as what was left out.
    """

    title: str
    parts: Sequence[Part]
    notes: Sequence[str] = field(default=())


@dataclass(frozen=True, slots=True)
class Page:
    """A page about a trace, or about two.

    Attributes:
        title: its heading.
        sections: the content, from top to bottom.
    """

    title: str
    sections: Sequence[Section]


MAX_TEXT = 400
"""The most characters of a text on a page; names in traces may have a million."""

GRID_SIZE = 60_000
"""The bytes of JSON that a grid may have, if nothing else is given."""

_ESCAPED = "<>&"
_ESCAPE_SIZE = 6
_CELL_SIZE = 40
"""The most bytes of JSON of a cell with a number, besides its text."""


def short(text: str) -> str:
    """Return a text for a page: control characters are escaped, and of a long one only the start is left."""
    shown = printable(text[: MAX_TEXT + 1])
    return shown if len(shown) <= MAX_TEXT else f"{shown[: MAX_TEXT - 3]}..."


def count(number: int) -> Cell:
    """Return a number of something."""
    return Cell(f"{number:,}", number)


def duration(ns: int) -> Cell:
    """Return a duration in nanoseconds."""
    return Cell(short_duration(ns), ns)


def value(number: int, unit: str) -> Cell:
    """Return a number in a unit: `ns`, `bytes`, or anything else."""
    return Cell(human_value(number, unit), number)


def share(part: float) -> Cell:
    """Return a share (0 to 1) in percent."""
    return Cell(f"{part:.1%}", part)


def moment(time: int, origin: int) -> Cell:
    """Return a time in seconds since the start of a trace; both are in nanoseconds."""
    return Cell(f"{short_seconds(time - origin)} s", time - origin)


def grid(
    headers: Sequence[str],
    rows: Iterable[Sequence[str | Cell]],
    *,
    more: int = 0,
    title: str = "",
    size: int = GRID_SIZE,
) -> Grid:
    """Return a grid with as many rows as its size allows; the others count among those that were left out.

    Args:
        headers: the titles of the columns.
        rows: the rows; their texts are shortened.
        more: the number of rows that are left out already.
        title: the title.
        size: the most bytes of JSON.
    """
    kept: list[Sequence[str | Cell]] = []
    is_full = False
    for row in rows:
        cells = row if is_full else [short(cell) if isinstance(cell, str) else cell for cell in row]
        size -= 0 if is_full else sum(map(_size, cells))
        is_full = is_full or size < 0
        if is_full:
            more += 1
        else:
            kept.append(cells)
    return Grid(tuple(headers), kept, more, title)


def _size(cell: str | Cell) -> int:
    """Return the most bytes that a cell takes in a page."""
    if isinstance(cell, Cell):
        return _CELL_SIZE + len(cell.text)
    return len(json.dumps(cell)) + 1 + (_ESCAPE_SIZE - 1) * sum(map(cell.count, _ESCAPED))


Key = tuple[int, ...]
"""The numbers that tell a group from others."""

MAX_GROUPS = 50_000
"""The most groups; rows of further ones are only counted."""

_HEADERS = ("Count", "Total", "Median", "p99", "Longest")


class Groups:
    """Counts rows by keys of several numbers.

    Attributes:
        missed: the number of rows in groups for which there was no room.
        totals: the sums of the groups, by their numbers.
    """

    def __init__(self) -> None:
        self.missed = 0
        self.totals = Totals()
        self._number_of: dict[Key, int] = {}

    def add(self, keys: Sequence[Array], values: Mapping[str, Array]) -> tuple[Array, Array]:
        """Take rows, at least one.

        Args:
            keys: the numbers of the keys, each from -1 to 2^31 - 2, as columns.
            values: for some columns of the totals the values of the rows (int64), not negative.

        Returns:
            The group of each row for which there is room, and these rows (int64).
        """
        place, first = number_groups(keys)
        numbers = [self._number(key) for key in zip(*(key[first].tolist() for key in keys), strict=True)]
        group = np.array(numbers, np.int64)[place]
        rows = np.flatnonzero(group >= 0)
        self.missed += len(group) - len(rows)
        columns = {name: value[rows] for name, value in values.items()}
        self.totals.add(group[rows], {**columns, "calls": np.ones(len(rows), np.int64)})
        return group[rows], rows

    def largest(self, by: str, accepts: Callable[[Key], bool] | None = None) -> list[tuple[Key, int]]:
        """Return the keys and numbers of the groups, those with the greatest values of a column of the totals first.

        Args:
            by: the column.
            accepts: returns whether a group is returned, None for all.
        """
        groups = [each for each in self._number_of.items() if accepts is None or accepts(each[0])]
        return sorted(groups, key=lambda each: -int(self.totals[by][each[1]]))

    def _number(self, key: Key) -> int:
        """Return the number of a group, -1 if there is no room for a new one."""
        number = self._number_of.get(key)
        if number is None:
            number = len(self._number_of)
            if number >= MAX_GROUPS:
                return -1
            self._number_of[key] = number
        return number


class DurationGroups(Groups):
    """Adds up rows with durations by keys of several numbers."""

    def __init__(self) -> None:
        super().__init__()
        self._durations = Durations()

    def enter(self, keys: Sequence[Array], duration: Array) -> None:
        """Take rows with durations, not negative (int64), see `add`."""
        if len(duration):
            group, rows = self.add(keys, dict.fromkeys(("total", "self", "min", "max"), duration))
            self._durations.enter(group, duration[rows])

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
        median, p99 = self._durations.percentiles(len(self.totals), (50, 99))
        shown = self.largest(by, accepts)
        if not shown:
            return None

        def row_of(key: Key, number: int) -> list[str | Cell]:
            longest, shortest = (int(self.totals[name][number]) for name in ("max", "min"))
            middle, late = (min(max(int(column[number]), shortest), longest) for column in (median, p99))
            times = (int(self.totals["total"][number]), middle, late, longest)
            return [*label(key), count(int(self.totals["calls"][number])), *map(duration, times)]

        rows = (row_of(*each) for each in shown[:most])
        return grid([*headers, *_HEADERS], rows, more=max(len(shown) - most, 0), title=title)
