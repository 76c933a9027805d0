"""Slow moments: the longest slices, calls that were much slower than usual, collections, and times without slices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fxtio.arrays import Array
from fxtio.html import contents
from fxtio.html.contents import Cell, DurationGroups, Grid, Section
from fxtio.html.flames import LongestSlices
from fxtio.report import short_duration
from fxtio.table import Table
from fxtio.timeline.answers.answer import Labels, text_of
from fxtio.timeline.answers.overview import Gaps
from fxtio.timeline.parts import Registry

MAX_ROWS = 50
"""The most rows of each grid."""

SLOW = 3.0
"""A call that lasts this number of times the median of its name is much slower than usual."""

LEAST_CALLS = 10
"""A name needs this number of calls for its median to say what is usual."""

LEAST_EXCESS = 100_000
"""The smallest difference from the median that is shown, in nanoseconds."""

PAUSES = {
    "gc": "Garbage collections",
    "monitor": "Waits for locks",
    "jit": "Compilations",
    "jit search": "Searches for compiled code",
}
"""The categories of slices in which a program does not go on with its own work, and titles for them."""


class Moments:
    """Collects pauses, collections by generation, and times in which no slice runs."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._gaps = Gaps()
        self._pauses = DurationGroups()
        self._generations = DurationGroups()
        self._longest: list[tuple[int, int, int, int]] = []  # of the pauses: negative duration, begin, name, track

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the slices and collections of a batch."""
        if "collections" in tables:
            table = tables["collections"]
            self._generations.enter([table["generation"]], table["duration"])
        if "slices" not in tables:
            return
        slices = tables["slices"]
        start, duration = slices["start"], slices["duration"]
        outermost = np.flatnonzero(slices["depth"] == 0)
        self._gaps.enter(start[outermost], start[outermost] + duration[outermost])
        codes = [self._registry.names.code(category) for category in PAUSES]
        category, name = slices["category"].codes, slices["name"].codes
        rows = np.flatnonzero(np.isin(category, codes))
        if len(rows):
            self._pauses.enter([category[rows], name[rows]], duration[rows])
            rows = rows[np.argsort(-duration[rows], kind="stable")[:MAX_ROWS]]
            columns = (-duration[rows], start[rows], name[rows], slices["track"][rows])
            self._longest += zip(*(column.tolist() for column in columns), strict=True)
            self._longest = sorted(self._longest)[:MAX_ROWS]

    def pauses(self, labels: Labels, origin: int) -> Section | None:
        """Return the section about collections and other pauses, None if there are none."""
        names = self._registry.names.values
        parts = [
            self._pauses.grid(
                ["Name"],
                lambda key: [text_of(names, key[1])],
                most=MAX_ROWS,
                title=title,
                accepts=lambda key, category=category: text_of(names, key[0]) == category,  # type: ignore[misc]
            )
            for category, title in PAUSES.items()
        ]
        generations = self._generations.grid(
            ["Generation"],
            lambda key: [str(key[0]) if key[0] >= 0 else "unknown"],
            most=MAX_ROWS,
            title="By generation",
        )
        grids = [grid for grid in (*parts, generations) if grid is not None]
        if not grids:
            return None
        rows: list[list[str | Cell]] = [
            [text_of(names, name), contents.duration(-duration), contents.moment(start, origin), labels.track(track)]
            for duration, start, name, track in self._longest
        ]
        longest = contents.grid(["Name", "Duration", "At", "Thread"], rows, title="The longest ones")
        return Section("Pauses", [*grids, longest] if rows else grids)

    def slow(self, longest: LongestSlices, ranking: Table, labels: Labels, origin: int) -> Section | None:
        """Return the section about slow moments, None without slices.

        Args:
            longest: the longest slices.
            ranking: the columns `name`, `calls` and `median` of all slices.
            labels: the texts for tracks.
            origin: the time that is shown as 0, in nanoseconds.
        """
        columns = longest.columns()
        if not len(columns["id"]):
            return None
        rows = self._rows(columns, np.arange(min(len(columns["id"]), MAX_ROWS)), labels, origin)
        grids = [contents.grid(["Name", "Duration", "At", "Thread"], rows, title="The longest slices")]
        unusual = self._unusual(columns, ranking, labels, origin)
        grids += [unusual] if unusual is not None else []
        gaps = self._gaps.longest(MAX_ROWS)
        if gaps:
            times = [[contents.duration(duration), contents.moment(begin, origin)] for begin, duration in gaps]
            grids.append(contents.grid(["Duration", "At"], times, title="Times without any slice"))
        return Section("Slow moments", grids, _unexamined(longest.count - len(columns["id"]), columns["duration"]))

    def _rows(self, columns: dict[str, Array], at: Array, labels: Labels, origin: int) -> list[list[str | Cell]]:
        names = self._registry.names.values
        values = zip(*(columns[name][at].tolist() for name in ("name", "duration", "start", "track")), strict=True)
        return [
            [text_of(names, name), contents.duration(duration), contents.moment(start, origin), labels.track(track)]
            for name, duration, start, track in values
        ]

    def _unusual(self, columns: dict[str, Array], ranking: Table, labels: Labels, origin: int) -> Grid | None:
        """Return the calls that are much slower than the median of their name, None if there are none."""
        names = self._registry.names.values
        usual = {
            name: median
            for name, calls, median in zip(ranking["name"], ranking["calls"], ranking["median"].tolist(), strict=True)
            if calls >= LEAST_CALLS
        }
        # The median of a name with few calls counts as the greatest number, so that none of them is slow.
        codes, place = np.unique(columns["name"], return_inverse=True)
        never = np.iinfo(np.int64).max
        median = np.array([usual.get(text_of(names, code), never) for code in codes.tolist()], np.int64)[place]
        excess = columns["duration"] - median
        is_slow = (excess >= LEAST_EXCESS) & (columns["duration"] >= SLOW * median)
        at = np.flatnonzero(is_slow)
        at = at[np.argsort(-excess[at], kind="stable")[:MAX_ROWS]]
        if not len(at):
            return None
        places = self._rows(columns, at, labels, origin)
        numbers = zip(median[at].tolist(), (columns["duration"][at] / np.maximum(median[at], 1)).tolist(), strict=True)
        rows = [
            [*place, contents.duration(each), Cell(f"{times:,.1f}", times)]
            for place, (each, times) in zip(places, numbers, strict=True)
        ]
        headers = ["Name", "Duration", "At", "Thread", "Median of the name", "Times the median"]
        return contents.grid(headers, rows, title="Calls much slower than usual")


def _unexamined(missing: int, durations: Array) -> list[str]:
    """Return what to say of slices that are not kept, and may be much slower than usual.

    Args:
        missing: how many are not kept.
        durations: the durations of those that are, the longest first (int64); none of the others is longer than any.
    """
    if not missing or int(durations[-1]) < LEAST_EXCESS:
        return []
    least = short_duration(int(durations[-1]))
    where = f"Calls much slower than usual are looked for among the {len(durations):,} longest slices"
    return [
        f"{where}. The other {missing:,} last at most {least} each; --from and --to show a part of the trace in full."
    ]
