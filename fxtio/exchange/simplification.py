"""Simpler timelines for converting: without short slices, deep slices, or arguments.

A consumer stands between the fold of a timeline and an exporter.  A slice that is left out takes those within it along,
so the depth and the parent of all others stay as they are; the slice around it gets its time as time of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fxtio.arrays import Array
from fxtio.formats import Exporter
from fxtio.report import short_duration
from fxtio.table import Column, Table
from fxtio.timeline.parts import Registry
from fxtio.timeline.timeline import Timeline

_NEEDED = ("slices", "opened")
_POINTS = ("instants", "flow_points")


@dataclass(frozen=True, slots=True)
class Simplification:
    """The content that a conversion leaves out.

    Attributes:
        min_duration: slices shorter than this are left out (ns).
        max_depth: slices with so many slices around them, or more, are left out; None for no limit.
        without_args: all arguments are left out.

    Raises:
        ValueError: a number is negative.
    """

    min_duration: int = 0
    max_depth: int | None = None
    without_args: bool = False

    def __post_init__(self) -> None:
        if self.min_duration < 0 or (self.max_depth or 0) < 0:
            raise ValueError("a duration and a depth cannot be negative")

    @property
    def has_slices(self) -> bool:
        """Whether slices are left out."""
        return self.min_duration > 0 or self.max_depth is not None

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is left out."""
        return self == Simplification()

    def tables(self, names: tuple[str, ...]) -> set[str]:
        """Return the tables of a timeline that are needed for an exporter of some tables."""
        needed = set(names) - ({"args"} if self.without_args else set())
        return needed | set(_NEEDED) if self.has_slices else needed

    def short_opened(self, timeline: Timeline) -> Array:
        """Return the ids of the slices that are too short although they end in another batch than they begin (int64).

        The trace is read once, if slices can be too short.
        """
        if not self.min_duration:
            return np.empty(0, np.int64)
        opened, _ = timeline.fold(lambda _: _ShortOpened(self.min_duration), *_NEEDED)
        return np.array(sorted(opened.ids), np.int64)


class _ShortOpened:
    """Collects the ids of short slices that end in another batch than they begin; a consumer of `Timeline.fold`."""

    def __init__(self, min_duration: int) -> None:
        self.ids: set[int] = set()
        self._min_duration = min_duration
        self._open = np.empty(0, np.int64)

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the slices of a batch."""
        if "slices" in tables and len(self._open):
            slices = tables["slices"]
            is_open = np.isin(slices["id"], self._open)
            self.ids.update(slices["id"][is_open & (slices["duration"] < self._min_duration)].tolist())
            self._open = np.setdiff1d(self._open, slices["id"][is_open], assume_unique=True)
        if "opened" in tables:
            self._open = np.concatenate([self._open, tables["opened"]["id"]])


class Simplified:
    """Passes the rows that are left to an exporter; a consumer of `Timeline.fold`.

    Args:
        exporter: takes the rows.
        registry: the registry of the reading.
        simplification: what is left out.
        short_opened: see `Simplification.short_opened`.

    Attributes:
        exporter: takes the rows.
        left_out: what was left out, as phrases, and how often it occurred.
    """

    def __init__(
        self, exporter: Exporter, registry: Registry, simplification: Simplification, short_opened: Array
    ) -> None:
        self.exporter = exporter
        self.left_out: Counter[str] = Counter()
        self._registry = registry
        self._what = simplification
        self._short_opened = short_opened
        self._left_out_open = _NONE, _NONE  # the ids of open slices that are left out, and of the slices around them
        self._time_within: dict[int, int] = {}  # for open slices, the time of those left out directly within them

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Pass on the rows of a batch that are left."""
        result = dict(tables)
        if self._what.has_slices:
            self._leave_out_slices(result)
        result = {name: table for name, table in result.items() if name in self.exporter.TABLES and table.num_rows}
        if result:
            self.exporter.enter(result)

    def _leave_out_slices(self, tables: dict[str, Table]) -> None:
        """Remove slices, and what belongs to them, from the tables of a batch."""
        present = [name for name in _NEEDED if name in tables]
        ids, parents = (np.concatenate([_NONE, *(tables[each][key] for each in present)]) for key in ("id", "parent"))
        dropped = np.concatenate([np.empty(0, bool), *(self._is_unwanted(tables[name]) for name in present)])
        dropped |= np.isin(ids, self._left_out_open[0]) | np.isin(parents, self._left_out_open[0])
        dropped = _with_those_within(ids, parents, dropped)
        around = (
            np.concatenate([self._left_out_open[0], ids[dropped]]),
            np.concatenate([self._left_out_open[1], parents[dropped]]),
        )
        if "args" in tables:
            self._leave_out_args(tables, present, dropped, around[0])
        start = 0
        for name in present:
            rows = dropped[start : start + tables[name].num_rows]
            start += len(rows)
            tables[name] = self._left(name, tables[name], rows)
        for name in _POINTS:
            if name in tables:
                tables[name] = _with(tables[name], "slice", _outer(tables[name]["slice"], around))
        self._remember(around)

    def _is_unwanted(self, table: Table) -> Array:
        """Return which slices are left out on their own account (bool)."""
        duration = table["duration"]
        unwanted: Array = (duration >= 0) & (duration < self._what.min_duration)
        unwanted |= np.isin(table["id"], self._short_opened)
        if self._what.max_depth is not None:
            unwanted |= table["depth"] >= self._what.max_depth
        return unwanted

    def _left(self, name: str, table: Table, dropped: Array) -> Table:
        """Return the slices that are left, with the time of those left out within them, which are counted."""
        left = table.take(np.flatnonzero(~dropped))
        if name != "slices":
            return left
        depth, limit = table["depth"][dropped], self._what.max_depth
        deep = 0 if limit is None else int((depth >= limit).sum())
        self.left_out[f"slices with {limit or 0:,} or more around them"] += deep
        shorter = short_duration(self._what.min_duration)
        self.left_out[f"slices shorter than {shorter}, and those within them"] += len(depth) - deep
        within = self._time_within
        parents, place = np.unique(table["parent"][dropped], return_inverse=True)
        time = np.zeros(len(parents), np.int64)
        np.add.at(time, place, table["duration"][dropped])
        for parent, duration in zip(parents.tolist(), time.tolist(), strict=True):
            within[parent] = within.get(parent, 0) + duration
        rows = np.flatnonzero(np.isin(left["id"], np.fromiter(within, np.int64, len(within))))
        own = left["self_time"].copy()
        own[rows] += np.array([within[number] for number in left["id"][rows].tolist()], np.int64)
        return _with(left, "self_time", np.minimum(own, left["duration"]))

    def _leave_out_args(self, tables: dict[str, Table], present: list[str], dropped: Array, left_out: Array) -> None:
        """Remove the arguments of slices that are left out; an event may begin several slices."""
        args, waiting = tables["args"], self._registry.open_slices()  # some of these may have their ends already
        masks = (dropped, np.isin(waiting["id"], left_out))
        owners = [np.concatenate([_NONE, *(tables[name][each] for name in present)]) for each in _EVENTS]
        pairs = [(masks[0], owners[0]), (masks[0], owners[1]), *((masks[1], waiting[each]) for each in _EVENTS)]
        lost = np.concatenate([events[mask] for mask, events in pairs])
        needed = np.concatenate([events[~mask] for mask, events in pairs])
        rows = np.isin(args["event"], np.setdiff1d(lost[lost >= 0], needed))
        self.left_out["arguments of slices that are left out"] += int(rows.sum())
        tables["args"] = args.take(np.flatnonzero(~rows))

    def _remember(self, around: tuple[Array, Array]) -> None:
        """Note what later batches need: about slices that are still open."""
        still_open = self._registry.open_slices()["id"]
        rows = np.flatnonzero(np.isin(around[0], still_open))
        ids, places = np.unique(around[0][rows], return_index=True)
        self._left_out_open = ids, _outer(around[1][rows][places], around)
        is_open = set(still_open.tolist())
        self._time_within = {number: time for number, time in self._time_within.items() if number in is_open}

    def finish(self) -> None:
        """Finish the exporter."""
        self.exporter.finish()


_NONE = np.empty(0, np.int64)
_EVENTS = ("event", "end_event")


def _with_those_within(ids: Array, parents: Array, chosen: Array) -> Array:
    """Return which slices are chosen, or lie within a chosen one at any depth (bool).

    Each round looks twice as far up as the one before it, so a deep stack needs few.
    """
    count = len(ids)
    order = np.argsort(ids)
    above = np.append(order, count)[_places(ids[order], parents)]  # the row of the parent, `count` for none
    above, result = np.append(above, count), np.append(chosen, False)
    while (above < count).any():
        result |= result[above]
        above = above[above]
    return result[:count]


def _outer(ids: Array, around: tuple[Array, Array]) -> Array:
    """Return ids of slices, with the nearest one around it that is left in place of each that is left out.

    Args:
        ids: the ids.
        around: the ids of the slices that are left out, and of the slices around them.
    """
    order = np.argsort(around[0], kind="stable")
    numbers, outer = around[0][order], np.append(around[1][order], -1)
    while ((places := _places(numbers, outer)) < len(numbers)).any():  # each round looks twice as far out
        outer = np.where(places < len(numbers), outer[places], outer)
    places = _places(numbers, ids)
    return np.where(places < len(numbers), outer[places], ids)


def _places(numbers: Array, values: Array) -> Array:
    """Return the place of each value in sorted numbers; the count of the numbers for a value that is not there."""
    places = np.searchsorted(numbers, values)
    is_there = np.append(numbers, 0)[places] == values
    return np.where(is_there & (places < len(numbers)), places, len(numbers))


def _with(table: Table, name: str, column: Column) -> Table:
    """Return a table with another column of this name."""
    return Table({**dict(table.items()), name: column})
