"""The part of a timeline that is converted: what a selection has of it, without short slices, deep slices or arguments.

A consumer stands between the fold of a timeline and an exporter, so every format is cut in one way.  Slices that the
range of times divides are cut to it; what is left out by its time, track, category or name leaves those within it
where they are, and what is too short or too deep takes those within it along.  Counters have their last values from
before the range at its start.  Of a flow that is divided, the points that are left become a flow of their own; a single
point is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np

from fxtio.arrays import Array
from fxtio.report import short_duration
from fxtio.selection import Selection
from fxtio.table import MAX_TIME, Categories, Column, Table
from fxtio.timeline.answers.rows import Chosen, Inner, Rows, Texts, chosen, cut_to
from fxtio.timeline.parts import OPEN_COLUMNS, Registry
from fxtio.timeline.schema import FLOW_TYPES
from fxtio.timeline.timeline import Consumer, Timeline

_SLICES = ("slices", "opened")
_INTERVALS = ("scheduling", "collections")
_POINTS = ("instants", "flow_points")
_TIMED = (*_POINTS, "samples", "allocations", "logs", "wakeups", "counters")
_OWNERS = (*_SLICES, *_POINTS, "counters")
"""The tables whose rows have arguments."""

_SURVEYED = (*_SLICES, "unended", "flow_points")
_EVENTS = ("event", "end_event")
_ARGS = "arguments of slices that are left out"
_NONE = np.empty(0, np.int64)
_BEGIN, _END = FLOW_TYPES.index("begin"), FLOW_TYPES.index("end")
_LEFT_OUT = -1
"""In place of the type of a point of a flow: it is left out."""


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
    def is_nothing(self) -> bool:
        """Whether nothing is left out."""
        return self == Simplification()


class Target(Consumer, Protocol):
    """Takes what is left: an exporter, or any other consumer that knows which tables it needs."""

    @property
    def TABLES(self) -> tuple[str, ...]:  # noqa: N802  # as exporters have it
        """The tables that it takes."""


@dataclass(slots=True)
class _Known:
    """What a filter has to know before a reading.

    Attributes:
        chosen: the tracks and threads that are selected, None for all.
        outside: the ids of the slices outside of the range whose ends are in later batches than their begins (int64).
        short: those of the slices that are too short.
        flows: by the event of a point of a flow that is divided, its new type, or `_LEFT_OUT`.
    """

    chosen: Chosen | None = None
    outside: Array = field(default_factory=lambda: _NONE)
    short: Array = field(default_factory=lambda: _NONE)
    flows: dict[int, int] = field(default_factory=dict)


class Plan:
    """Says which part of a timeline is passed on, and makes the filters that do so.

    Args:
        selection: the part.
        simplification: what is left out of it.
    """

    def __init__(self, selection: Selection, simplification: Simplification) -> None:
        start, end = selection.start, selection.end
        self.selection = replace(
            selection,
            start=None if start is None else min(max(start, -MAX_TIME), MAX_TIME - 1),
            end=None if end is None else min(max(end, 1 - MAX_TIME), MAX_TIME),
        )
        self.simplification = simplification
        self._known = _Known()

    @property
    def is_everything(self) -> bool:
        """Whether everything is passed on."""
        return self.selection.is_everything and self.simplification.is_nothing

    @property
    def has_slices(self) -> bool:
        """Whether slices are left out or cut."""
        what = self.simplification
        return not self.selection.is_everything or what.min_duration > 0 or what.max_depth is not None

    def tables(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the tables of a timeline that are needed for a target of some tables."""
        needed = [name for name in names if name != "args" or not self.simplification.without_args]
        needed += ["stacks", "frames"] if self.selection.names and "samples" in names else []
        return tuple(dict.fromkeys([*needed, *((*_SLICES, "unended") if self.has_slices else ())]))

    def prepare(self, timeline: Timeline, names: tuple[str, ...]) -> None:
        """Read a timeline once or twice, if it must be known beforehand what is left out.

        Args:
            timeline: the timeline.
            names: the tables of the target.
        """
        tables = self.tables(names)
        self._known = _Known(chosen(timeline, self.selection, *tables))
        divides_flows = "flow_points" in tables and not self.selection.is_everything
        if self.selection.start is not None or self.simplification.min_duration or divides_flows:
            if self._known.chosen is None:  # tracks need not have the numbers that they have in the next reading
                tables = tuple(name for name in tables if name in _SURVEYED)
            survey, _ = timeline.fold(lambda registry: _Survey(self, registry, self._known), *tables)
            self._known = survey.known()

    def filter(self, target: Target, registry: Registry) -> Filter:
        """Return a filter for a reading of the timeline that was prepared."""
        return Filter(self, target, registry, self._known)

    def cut(self, start: Array, duration: Array) -> tuple[Array, Array]:
        """Return the starts and durations of slices, cut to the range; a negative duration is not known yet."""
        begin, end = self.selection.start, self.selection.end
        until = start + duration
        if begin is not None:
            start = np.maximum(start, begin)
        if end is not None:
            until = np.minimum(until, end)
        return start, np.where(duration < 0, -1, np.maximum(until - start, 0))

    def is_outside(self, slices: Table, unended: Array) -> Array:
        """Return which slices are not in the range (bool), as far as their ends are known.

        Args:
            slices: the slices.
            unended: the ids of those that have no end.
        """
        start, duration = slices["start"], slices["duration"]
        result = np.zeros(len(start), bool)
        if self.selection.end is not None:
            result |= start >= self.selection.end
        if self.selection.start is not None:
            ends = (duration >= 0) & ~np.isin(slices["id"], unended)
            result |= (start < self.selection.start) & ends & (start + duration <= self.selection.start)
        return result

    def is_short(self, slices: Table) -> Array:
        """Return which slices are too short in the range (bool), as far as their durations are known."""
        _, duration = self.cut(slices["start"], slices["duration"])
        short: Array = (duration >= 0) & (duration < self.simplification.min_duration)
        return short


class _Survey:
    """Finds out what a filter has to know; a consumer of `Timeline.fold`."""

    TABLES = ("flow_points",)

    def __init__(self, plan: Plan, registry: Registry, known: _Known) -> None:
        self._plan, self._known = plan, known
        self._open = _NONE
        self._outside: set[int] = set()
        self._short: set[int] = set()
        self._filter = Filter(plan, self, registry, known) if not plan.selection.is_everything else None
        self._kept = _NONE
        self._flows: dict[int, list[int]] = {}  # by id: kept points, first and last of them, whether some are left out
        self._types: dict[int, int] = {}

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the rows of a batch."""
        if "slices" in tables and len(self._open):
            slices = tables["slices"].take(np.isin(tables["slices"]["id"], self._open))
            self._outside.update(slices["id"][self._plan.is_outside(slices, _unended(tables))].tolist())
            self._short.update(slices["id"][self._plan.is_short(slices)].tolist())
            self._open = np.setdiff1d(self._open, slices["id"], assume_unique=True)
        if "opened" in tables:
            self._open = np.concatenate([self._open, tables["opened"]["id"]])
        if self._filter is not None:
            noted = _Noted()
            self._filter.target = noted
            self._filter.enter(tables)
            if "flow_points" in tables:
                self._follow(tables["flow_points"], noted.events)

    def _follow(self, points: Table, kept: Array) -> None:
        """Follow the flows of a batch."""
        order = np.argsort(points["time"], kind="stable")
        ids, types, events = (column[order] for column in (points["id"], points["type"].codes, points["event"]))
        rows = zip(ids.tolist(), types.tolist(), events.tolist(), np.isin(events, kept).tolist(), strict=True)
        for number, type_, event, is_kept in rows:
            if type_ == _BEGIN:
                self._settle(number)
            flow = self._flows.setdefault(number, [0, -1, -1, 0])
            if is_kept:
                flow[:3] = flow[0] + 1, event if flow[0] == 0 else flow[1], event
            else:
                flow[3] = 1
            if type_ == _END:
                self._settle(number)

    def _settle(self, number: int) -> None:
        """Decide on the points of a flow that has ended."""
        count, first, last, is_divided = self._flows.pop(number, (0, -1, -1, 0))
        if is_divided and count == 1:
            self._types[first] = _LEFT_OUT
        elif is_divided and count:
            self._types |= {first: _BEGIN, last: _END}

    def known(self) -> _Known:
        """Return what was found out."""
        for number in [*self._flows]:
            self._settle(number)
        outside, short = (np.array([*ids], np.int64) for ids in (self._outside, self._short))
        return _Known(self._known.chosen, outside, short, self._types)


class _Noted:
    """Notes which points of flows are passed on in a batch."""

    TABLES = ("flow_points",)

    def __init__(self) -> None:
        self.events = _NONE

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the points of flows."""
        self.events = tables["flow_points"]["event"]


@dataclass(slots=True)
class _Slices:
    """Slices, and what became of them: arrays of one length.

    Attributes:
        id: the id (int64).
        parent: the id of the innermost slice around it that is left, -1 for none (int64).
        outer: its own id if it is left, or else `parent` (int64).
        depth: the number of slices around it that are left (int64).
        gone: whether those within it are left out, too (bool).
    """

    id: Array
    parent: Array
    outer: Array
    depth: Array
    gone: Array

    @property
    def is_left(self) -> Array:
        """Whether each is left (bool)."""
        left: Array = self.id == self.outer
        return left

    def take(self, rows: Array) -> _Slices:
        """Return some of them."""
        return _Slices(*(getattr(self, each.name)[rows] for each in fields(self)))

    def then(self, others: _Slices) -> _Slices:
        """Return these and others."""
        names = [each.name for each in fields(self)]
        return _Slices(*(np.concatenate([getattr(self, name), getattr(others, name)]) for name in names))

    def places(self, ids: Array) -> Array:
        """Return the place of each id, or the number of slices if it is not there."""
        return _places(self.id, ids)


class Filter:
    """Passes the rows that are left to a target; a consumer of `Timeline.fold`.

    Args:
        plan: what is passed on.
        target: takes the rows.
        registry: the registry of the reading; it tells of the open slices that are left, as they are passed on.
        known: what was found out before this reading.

    Attributes:
        target: takes the rows.
        is_empty: whether nothing was passed on that has a time, but values of counters from before the range.
        left_out: what was left out by the simplification, as phrases, and how often it occurred.
    """

    def __init__(self, plan: Plan, target: Target, registry: Registry, known: _Known) -> None:
        self.target = target
        self.is_empty = True
        self.left_out = Counter({_ARGS: 0})
        self._plan, self._registry, self._known = plan, registry, known
        self._rows = Rows(registry, plan.selection, known.chosen)
        self._open = _Slices(_NONE, _NONE, _NONE, _NONE, np.empty(0, bool))  # those of earlier batches
        self._lookup = self._open  # these, and those of this batch
        self._open_slices = registry.open_slices
        if plan.has_slices:
            registry.open_slices = self._left_of_open
            self._inner = Inner(registry)
        self._values: dict[int, tuple[int, float]] = {}  # by track of counters: the last time up to the start, value
        self._waiting: set[int] = set()  # tracks whose values from before the range are not passed on yet
        self._series = _Series(registry, plan.selection)
        self._innermost = _Innermost(registry, plan.selection)

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Pass on the rows of a batch that are left."""
        result = dict(tables)
        if self._plan.has_slices:
            self._leave_out_slices(result)
            self._leave_out_others(result)
            if "args" in result:
                self._leave_out_args(result, tables)
        self._pass_on(result)

    def _pass_on(self, tables: Mapping[str, Table]) -> None:
        result = {name: table for name, table in tables.items() if name in self.target.TABLES and table.num_rows}
        if result:
            self.is_empty &= result.keys().isdisjoint((*_SLICES, *_INTERVALS, *_TIMED))
            self.target.enter(result)

    def finish(self) -> None:
        """Pass on the values of counters that have none in the range."""
        if self._waiting and "counters" in self.target.TABLES:
            self.target.enter({"counters": self._earlier()})

    # Slices.

    def _leave_out_slices(self, tables: dict[str, Table]) -> None:
        """Remove slices from the tables of a batch, and cut those that are left."""
        present = [name for name in _SLICES if name in tables]
        ids = np.concatenate([_NONE, *(tables[name]["id"] for name in present)])
        is_new = self._open.places(ids) == len(self._open.id)
        lost = np.concatenate([np.empty(0, bool), *(self._is_lost(tables[name], _unended(tables)) for name in present)])
        short = np.concatenate([np.empty(0, bool), *(self._is_short(tables[name]) for name in present)])
        parent = np.concatenate([_NONE, *(tables[name]["parent"] for name in present)])
        new = self._decided(ids[is_new], parent[is_new], lost[is_new], short[is_new])
        self._lookup = self._open.then(new)
        own = self._lookup.take(self._lookup.places(ids))
        start = 0
        for name in present:
            table, rows = tables[name], own.take(np.arange(start, start + tables[name].num_rows))
            start += table.num_rows
            if name == "slices":
                self._count(rows, lost[start - table.num_rows : start])
            tables[name] = self._left(table, rows)
        still_open = self._open_slices()["id"]
        self._open = self._lookup.take(np.flatnonzero(np.isin(self._lookup.id, still_open)))
        if "slices" in tables:  # when it is known which slices are open after this batch
            tables["slices"] = self._with_self_times(tables["slices"])

    def _is_lost(self, table: Table, unended: Array) -> Array:
        """Return which slices are left out by the selection (bool)."""
        lost = self._plan.is_outside(table, unended) | np.isin(table["id"], self._known.outside)
        left = self._rows.matches(table)
        return lost if left is None else lost | ~left

    def _is_short(self, table: Table) -> Array:
        """Return which slices are too short (bool)."""
        return self._plan.is_short(table) | np.isin(table["id"], self._known.short)

    def _decided(self, ids: Array, parents: Array, lost: Array, short: Array) -> _Slices:
        """Return what becomes of slices that begin in this batch.

        Each round of the loops looks twice as far up as the one before it, so a deep stack needs few.
        """
        count, limit = len(ids), self._plan.simplification.max_depth
        here = _places(ids, parents)
        earlier = self._open.places(parents)
        # The slices of earlier batches around these; the last one stands for none.
        known = self._open.then(_Slices(*(np.array([each]) for each in (-1, -1, -1, 0, False))))
        around = known.take(np.minimum(earlier, len(self._open.id)))
        level = around.depth + (around.is_left & (around.id >= 0))
        above = np.append(here, count)
        own_depth = _upward(np.append(~lost, False).astype(np.int64), above, np.add)
        base = _upward(np.append(np.where(here == count, level, 0), 0), above, np.add)
        new_depth = (own_depth + base)[:count] - ~lost
        gone = short & ~lost if limit is None else (short | (new_depth >= limit)) & ~lost
        gone = _upward(np.append(gone | ((here == count) & around.gone), False), above, np.logical_or)[:count]
        left = np.append(~lost & ~gone, True)
        nearest = np.where(left, np.arange(count + 1), above)
        while not left[nearest].all():
            nearest = nearest[nearest]
        top = _upward(np.append(np.where(here == count, np.arange(count), -1), -1), above, np.maximum)[:count]
        names = np.append(ids, -1)
        outer = np.where(nearest[:count] < count, names[nearest[:count]], around.outer[top] if count else _NONE)
        next_up = nearest[above[:count]]
        parent = np.where(next_up < count, names[next_up], around.outer[top] if count else _NONE)
        return _Slices(ids, parent, outer, new_depth, gone)

    def _count(self, rows: _Slices, lost: Array) -> None:
        """Count the slices that are left out because they are too short or too deep."""
        limit = self._plan.simplification.max_depth
        dropped = ~rows.is_left & ~lost
        deep = 0 if limit is None else int((rows.depth[dropped] >= limit).sum())
        self.left_out[f"slices with {limit or 0:,} or more around them"] += deep
        shorter = short_duration(self._plan.simplification.min_duration)
        self.left_out[f"slices shorter than {shorter}, and those within them"] += int(dropped.sum()) - deep

    def _left(self, table: Table, rows: _Slices) -> Table:
        """Return the slices that are left, cut to the range."""
        left = np.flatnonzero(rows.is_left)
        table, rows = table.take(left), rows.take(left)
        start, duration = self._plan.cut(table["start"], table["duration"])
        return _with(table, start=start, duration=duration, parent=rows.parent, depth=rows.depth.astype(np.int32))

    def _with_self_times(self, slices: Table) -> Table:
        """Return slices with the times in which no slice that is left runs within them."""
        rest = slices["duration"] - self._inner.sums(slices, slices["duration"])
        return _with(slices, self_time=np.maximum(rest, 0))

    def _left_of_open(self) -> Table:
        """Return the open slices that are left, as they are passed on, see `Registry.open_slices`."""
        table = self._open_slices()
        known = self._open.places(table["id"])
        rows = np.flatnonzero(known < len(self._open.id))
        states = self._open.take(known[rows])
        rows, states = rows[states.is_left], states.take(states.is_left)
        start, _ = self._plan.cut(table["start"][rows], np.full(len(rows), -1))
        left = _with(table.take(rows), start=start, parent=states.parent, depth=states.depth.astype(np.int32))
        return Table({name: left[name] for name in OPEN_COLUMNS})

    # All other rows.

    def _leave_out_others(self, tables: dict[str, Table]) -> None:
        """Remove the rows of other tables that are left out."""
        self._innermost.enter(tables)
        for name in (*_TIMED, *_INTERVALS):
            if name not in tables:
                continue
            table = tables[name]
            if name in _POINTS:
                table = self._with_slices_around(table)
            if name in _INTERVALS:
                table = table if not self._plan.selection.has_range else cut_to(table, self._rows.start, self._rows.end)
            table = table.take(self._has(name, table))
            if name == "counters":
                table = self._counters(table)
            elif self._plan.selection.has_range and name not in _INTERVALS:
                table = table.take((table["time"] >= self._rows.start) & (table["time"] < self._rows.end))
            tables[name] = self._flow(table) if name == "flow_points" else table

    def _with_slices_around(self, points: Table) -> Table:
        """Return points with the innermost slices around them that are left."""
        place = self._lookup.places(points["slice"])
        return _with(points, slice=np.append(self._lookup.outer, -1)[place])

    def _has(self, name: str, table: Table) -> Array:
        """Return which rows of a table are of threads, categories and names that are selected (bool)."""
        selection, left = self._plan.selection, self._rows.places(table)
        if not selection.names and not selection.categories:
            return left
        named: Array | None
        if name == "instants":
            named = self._rows.matches(table)
        elif name == "flow_points":
            named = (table["slice"] >= 0) | _is_nameless(selection)
        elif name == "counters":
            named = self._series.has(table["track"])
        elif name in ("samples", "allocations"):
            named = self._innermost.has(table["stack"])
        else:
            named = np.full(table.num_rows, _is_nameless(selection))
        return left if named is None else np.logical_and(left, named)

    def _counters(self, counters: Table) -> Table:
        """Return the values in the range, with the last ones from before it at its start."""
        if not self._plan.selection.has_range:
            return counters
        start = self._rows.start
        order = np.argsort(counters["time"], kind="stable")
        early = counters.take(order[counters["time"][order] <= start])
        for track, time, value in zip(*(early[name].tolist() for name in ("track", "time", "value")), strict=True):
            if time >= self._values.get(track, (time, 0))[0]:
                self._values[track] = time, value
                (self._waiting.add if time < start else self._waiting.discard)(track)
        counters = counters.take((counters["time"] >= start) & (counters["time"] < self._rows.end))
        if not counters.num_rows or not self._waiting:
            return counters
        earlier = self._earlier()
        return Table({name: np.concatenate([earlier[name], column]) for name, column in counters.items()})

    def _earlier(self) -> Table:
        """Return the last values of counters from before the range as rows at its start; they wait no longer."""
        tracks = sorted(self._waiting)
        self._waiting.clear()
        values = [self._values[track][1] for track in tracks]
        columns = {"time": self._rows.start, "track": np.array(tracks, np.int32), "value": values, "event": -1}
        return Table(self._registry.columns("counters", columns))

    def _flow(self, points: Table) -> Table:
        """Return the points of flows, those of divided ones with the types that they have in the part."""
        if not self._known.flows or not points.num_rows:
            return points
        old = zip(points["event"].tolist(), points["type"].codes.tolist(), strict=True)
        types = np.array([self._known.flows.get(event, type_) for event, type_ in old], np.int32)
        return _with(points, type=Categories(types, FLOW_TYPES)).take(types != _LEFT_OUT)

    def _leave_out_args(self, tables: dict[str, Table], whole: Mapping[str, Table]) -> None:
        """Remove the arguments of rows that are left out; an event may begin several slices.

        Args:
            tables: the rows that are left.
            whole: all rows of the batch.
        """
        args = tables["args"]
        waiting, left = self._open_slices(), self._left_of_open()  # some of these may have their ends already
        events = np.concatenate([*_events(whole), waiting["event"], waiting["end_event"]])
        needed = np.concatenate([*_events(tables), left["event"], left["end_event"]])
        dropped = np.isin(args["event"], events) & ~np.isin(args["event"], needed)
        if self._plan.selection.is_everything:
            self.left_out[_ARGS] += int(dropped.sum())
        tables["args"] = args.take(~dropped)


class _Series:
    """Which counters have names that are selected."""

    def __init__(self, registry: Registry, selection: Selection) -> None:
        self._registry, self._selection = registry, selection
        self._selected: dict[int, bool] = {}

    def has(self, tracks: Array) -> Array:
        """Return for each track whether its name is selected (bool): `a` of the value `b` of a counter, `a:b`."""
        distinct, place = np.unique(tracks, return_inverse=True)
        for track in distinct.tolist():
            if track not in self._selected:
                name = self._registry.track_info(track).name or ""
                is_named = self._selection.has_name(name.rpartition(":")[0] or name)
                self._selected[track] = is_named and self._selection.has_category("")
        return np.array([self._selected[track] for track in distinct.tolist()], bool)[place]


class _Innermost:
    """Which stacks have an innermost function whose name is selected."""

    def __init__(self, registry: Registry, selection: Selection) -> None:
        self._texts = Texts(registry.names.values, selection.has_name, null=selection.has_name(""))
        self._is_categorized = bool(selection.categories) and not selection.has_category("")
        self._names, self._frames = np.empty(0, np.int32), np.empty(0, np.int32)

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the frames and stacks of a batch."""
        if "frames" in tables:
            self._names = np.concatenate([self._names, tables["frames"]["name"].codes])
        if "stacks" in tables:
            self._frames = np.concatenate([self._frames, tables["stacks"]["frame"]])

    def has(self, stacks: Array) -> Array:
        """Return for each stack whether the name of its innermost function is selected (bool)."""
        codes = np.append(self._names, np.int32(-1))[np.append(self._frames, np.int32(-1))[stacks]]
        result: Array = self._texts.has(codes) & (not self._is_categorized)
        return result


def _events(tables: Mapping[str, Table]) -> list[Array]:
    """Return the events to which the arguments of rows refer."""
    owners = [tables[name] for name in _OWNERS if name in tables]
    return [table[name] for table in owners for name in _EVENTS if name in table]


def _unended(tables: Mapping[str, Table]) -> Array:
    """Return the ids of the slices without an end."""
    return tables["unended"]["id"] if "unended" in tables else _NONE


def _is_nameless(selection: Selection) -> bool:
    """Return whether rows without a name and without a category are selected."""
    return selection.has_name("") and selection.has_category("")


def _places(numbers: Array, values: Array) -> Array:
    """Return the place of each value among distinct numbers, or their count for one that is not among them."""
    if not len(numbers):
        return np.zeros(len(values), np.int64)
    if (np.diff(numbers) > 0).all():
        place = np.minimum(np.searchsorted(numbers, values), len(numbers) - 1)
    else:
        order = np.argsort(numbers, kind="stable")
        place = order[np.minimum(np.searchsorted(numbers, values, sorter=order), len(numbers) - 1)]
    return np.where(numbers[place] == values, place, len(numbers))


def _upward(values: Array, above: Array, combine: Callable[[Array, Array], Array]) -> Array:
    """Return the values of rows, combined with those of all rows above them.

    Args:
        values: the values; the last row is above the outermost ones, and has a value without an effect.
        above: the row above each row, the last one for itself.
        combine: combines two values.
    """
    last = len(above) - 1
    while (above < last).any():
        values = combine(values, values[above])
        above = above[above]
    return values


def _with(table: Table, **columns: Column | Any) -> Table:
    """Return a table with other columns in place of those of the same names."""
    return Table({**dict(table.items()), **columns})
