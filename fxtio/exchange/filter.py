"""The part of a timeline that is converted: what a selection has of it, without short slices, deep slices or arguments.

A consumer is between the fold of a timeline and an exporter or a page, so every format is cut in one way.  Slices
that the range of times divides are cut to it; what is left out by its time, track, category or name leaves those
within it where they are, and what is too short or too deep takes those within it along.  Counters have their last
values from before the range at its start.  Of a flow that is divided, the points that are left become a flow of their
own; a single point is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from fxtio.arrays import Array
from fxtio.report import short_duration
from fxtio.selection import EVERYTHING, Selection
from fxtio.table import MAX_TIME, Categories, Column, Table, joined
from fxtio.timeline.answers.rows import Chosen, Inner, Rows, Texts, chosen, cut_to
from fxtio.timeline.parts import OPEN_COLUMNS, Registry
from fxtio.timeline.schema import FLOW_TYPES, empty_columns
from fxtio.timeline.timeline import Consumer, ConsumerT, Timeline

WatcherT = TypeVar("WatcherT", bound=Consumer)

_SLICES = ("slices", "opened")
_INTERVALS = ("scheduling", "collections")
_POINTS = ("instants", "flow_points")
_TIMED = (*_POINTS, "samples", "allocations", "logs", "wakeups", "counters")
_OWNERS = (*_SLICES, *_POINTS, "counters")
"""The tables whose rows have arguments."""

_EVENTS = ("event", "end_event")
_ARGS = "arguments of slices that are left out"
_NONE = np.empty(0, np.int64)
_BEGIN, _END = FLOW_TYPES.index("begin"), FLOW_TYPES.index("end")
_LEFT_OUT = -1
"""In place of the type of a point of a flow: it is left out."""


@dataclass(frozen=True, slots=True)
class Simplification:
    """The content that a conversion or a page leaves out.

    Attributes:
        min_duration: slices shorter than this are left out (ns).
        max_depth: slices with this number of slices around them, or more, are left out; None for no limit.
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


@dataclass(frozen=True, slots=True)
class _Known:
    """Keeps what a reading found out when its filter had passed it; the next reading knows it at its start.

    Attributes:
        outside: the ids of slices outside of the range that were passed on nevertheless.
        short: those of slices that are too short, and were passed on.
        flows: by the event of a point of a flow that is divided, its new type, or `_LEFT_OUT`.
    """

    outside: frozenset[int] = frozenset()
    short: frozenset[int] = frozenset()
    flows: Mapping[int, int] = field(default_factory=dict)


class Plan:
    """Says which part of a timeline is passed on.

    Args:
        selection: the part; everything by default.
        simplification: what is left out of it; nothing by default.
    """

    def __init__(self, selection: Selection | None = None, simplification: Simplification | None = None) -> None:
        selection = selection or EVERYTHING
        start, end = selection.start, selection.end
        self.selection = replace(
            selection,
            start=None if start is None else min(max(start, -MAX_TIME), MAX_TIME - 1),
            end=None if end is None else min(max(end, 1 - MAX_TIME), MAX_TIME),
        )
        self.simplification = simplification or Simplification()

    @property
    def is_everything(self) -> bool:
        """Whether everything is passed on."""
        return self.selection.is_everything and self.simplification.is_nothing

    @property
    def has_slices(self) -> bool:
        """Whether slices are left out or cut."""
        what = self.simplification
        return not self.selection.is_everything or what.min_duration > 0 or what.max_depth is not None

    def fold(
        self,
        timeline: Timeline,
        names: tuple[str, ...],
        make: Callable[[Registry], ConsumerT],
        watch: Callable[[Registry], WatcherT],
    ) -> tuple[Filter[ConsumerT, WatcherT], Registry]:
        """Pass the part on to a target, see `Timeline.fold`.

        A timeline is read once, and again only if it turned out too late that something had to be left out, or where
        a flow is divided; and once before that for threads and processes, whose names may come after their events.

        Args:
            timeline: the timeline.
            names: the tables that the target takes.
            make: makes the target; called again for each reading.
            watch: likewise what takes all rows, also those that are left out.

        Returns:
            The filter, which has the target and is finished before it, and the registry.
        """
        needed = [name for name in names if name != "args" or not self.simplification.without_args]
        needed += ["stacks", "frames"] if self.selection.names and "samples" in names else []
        needed += [*_SLICES, "unended"] if self.has_slices else []
        of_threads, known = chosen(timeline, self.selection, *needed), _Known()
        while True:
            passed, registry = timeline.fold(partial(Filter, self, make, watch, names, of_threads, known), *needed)
            if (learned := passed.learned()) == known:
                return passed, registry
            known = learned

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


class _Flows:
    """Follows flows, and decides on the points that are left of those that are divided."""

    def __init__(self) -> None:
        self._flows: dict[int, list[int]] = {}  # by id: kept points, first and last of them, whether some are left out
        self._types: dict[int, int] = {}

    def enter(self, points: Table, left: Array) -> None:
        """Take all points of a batch, and the events of those that are left."""
        order = np.argsort(points["time"], kind="stable")
        ids, types, events = (column[order] for column in (points["id"], points["type"].codes, points["event"]))
        rows = zip(ids.tolist(), types.tolist(), events.tolist(), np.isin(events, left).tolist(), strict=True)
        for number, type_, event, is_left in rows:
            if type_ == _BEGIN:
                self._settle(number)
            flow = self._flows.setdefault(number, [0, -1, -1, 0])
            if is_left:
                flow[:3] = flow[0] + 1, event if flow[0] == 0 else flow[1], event
            else:
                flow[3] = 1
            if type_ == _END:
                self._settle(number)

    def types(self) -> dict[int, int]:
        """Return the new types of points, see `_Known`."""
        for number in [*self._flows]:
            self._settle(number)
        return self._types

    def _settle(self, number: int) -> None:
        """Decide on the points of a flow that has ended."""
        count, first, last, is_divided = self._flows.pop(number, (0, -1, -1, 0))
        if is_divided and count == 1:
            self._types[first] = _LEFT_OUT
        elif is_divided and count:
            self._types |= {first: _BEGIN, last: _END}


class _Slices:
    """The slices of a batch and the open ones before it, with what becomes of them: arrays of one length.

    Args:
        columns: the first five attributes.
        limit: the number of slices around a slice that is too deep, None for no limit.

    Attributes:
        id: the id (int64).
        parent: the id of the slice around it, -1 for none (int64).
        is_lost: whether the selection leaves it out, but not those within it (bool).
        is_short: whether it is too short, and left out with those within it (bool).
        is_passed: whether the target has it already (bool).
        is_left: whether it is left (bool).
        outer: its own id if it is left, or else `above` (int64).
        above: the id of the innermost slice around it that is left, -1 for none (int64).
        depth: the number of slices around it that are left (int64).
    """

    def __init__(self, columns: Sequence[Array], limit: int | None) -> None:
        self.columns = columns
        self.id, self.parent, self.is_lost, self.is_short, self.is_passed = columns
        _, _, is_lost, is_short, _ = columns
        count = len(self.id)
        # Each row looks up the rows around it; a last row, which is left, is around the outermost ones.
        around = np.append(_places(self.id, self.parent), count)
        depth = _upward(np.append(~is_lost, False).astype(np.int64), around, np.add)[:count] - ~is_lost
        is_gone = (is_short if limit is None else is_short | (depth >= limit)) & ~is_lost
        is_gone = _upward(np.append(is_gone, False), around, np.logical_or)[:count]
        is_left = np.append(~is_lost & ~is_gone, True)
        nearest = np.where(is_left, np.arange(count + 1), around)
        while not is_left[nearest].all():
            nearest = nearest[nearest]
        ids = np.append(self.id, -1)
        self.is_left, self.depth = is_left[:count], depth
        self.outer, self.above = ids[nearest[:count]], ids[nearest[around[:count]]]

    def places(self, ids: Array) -> Array:
        """Return the place of each id, or the number of slices if it is not there."""
        return _places(self.id, ids)

    def outer_of(self, ids: Array) -> Array:
        """Return the innermost slice that is left, from each id on outwards, -1 for none."""
        return np.append(self.outer, -1)[self.places(ids)]


class Filter(Generic[ConsumerT, WatcherT]):
    """Passes the rows that are left to a target; a consumer of `Timeline.fold`.

    A slice of which it is not known yet whether it is outside of the range or too short is *held*: it is passed on with
    the first row within it that is passed on, which shows that it is neither, or when its end is known.

    Args:
        plan: what is passed on.
        make: makes the target.
        watch: makes the watcher.
        names: the tables that the target takes.
        of_threads: the tracks and threads that are selected, None for all.
        known: what earlier readings showed.
        registry: the registry of the reading; it tells of the open slices that were passed on, as they were.

    Attributes:
        target: takes the rows.
        watcher: takes all rows, also those that are left out.
        is_empty: whether nothing was passed on that has a time, but values of counters from before the range.
        left_out: what was left out by the simplification, as phrases, and how often it occurred.
    """

    def __init__(
        self,
        plan: Plan,
        make: Callable[[Registry], ConsumerT],
        watch: Callable[[Registry], WatcherT],
        names: tuple[str, ...],
        of_threads: Chosen | None,
        known: _Known,
        registry: Registry,
    ) -> None:
        self.target = make(registry)
        self.watcher = watch(registry)
        self.is_empty = True
        self.left_out = Counter({_ARGS: 0})
        self._plan, self._names, self._registry, self._known = plan, names, registry, known
        self._outside, self._short = (np.array([*ids], np.int64) for ids in (known.outside, known.short))
        self._mistaken = known.outside, known.short
        self._rows = Rows(registry, plan.selection, of_threads)
        nothing = np.empty(0, bool)
        self._slices = _Slices((_NONE, _NONE, nothing, nothing, nothing), None)
        self._held: dict[str, Table] = {}  # the slices that are held, as rows of `opened`, and their arguments
        self._flows = _Flows()
        self._open_slices = registry.open_slices
        if plan.has_slices:
            registry.open_slices = self._passed_of_open
            self._inner = Inner(registry)
        self._values: dict[int, tuple[int, float]] = {}  # by track of counters: the last time up to the start, value
        self._waiting: set[int] = set()  # tracks whose values from before the range are not passed on yet
        self._series = _Series(registry, plan.selection)
        self._innermost = _Innermost(registry, plan.selection)

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Pass on the rows of a batch that are left."""
        self.watcher.enter(tables)
        result = dict(tables)
        if self._plan.has_slices:
            open_slices = self._open_slices()
            self._decide(tables, open_slices["id"])
            self._leave_out_others(result)
            self._leave_out_slices(result)
            if "args" in result or "args" in self._held:
                self._leave_out_args(result, tables, open_slices)
        self._pass_on(result)

    def _pass_on(self, tables: Mapping[str, Table]) -> None:
        result = {name: table for name, table in tables.items() if name in self._names and table.num_rows}
        if result:
            self.is_empty &= result.keys().isdisjoint((*_SLICES, *_INTERVALS, *_TIMED))
            self.target.enter(result)

    def finish(self) -> None:
        """Pass on the values of counters that have none in the range."""
        if self._waiting and "counters" in self._names:
            self.target.enter({"counters": self._earlier()})

    def learned(self) -> _Known:
        """Return what was known before this reading, and what it has shown."""
        return _Known(*self._mistaken, self._flows.types())

    # Slices.

    def _decide(self, tables: Mapping[str, Table], open_ids: Array) -> None:
        """Decide what becomes of the slices of a batch and of the open ones before it."""
        present = [tables[name] for name in _SLICES if name in tables]
        ids, parents = (np.concatenate([_NONE, *(table[name] for table in present)]) for name in ("id", "parent"))
        unended = tables["unended"]["id"] if "unended" in tables else _NONE
        lost, short = np.empty(0, bool), np.empty(0, bool)
        for table in present:
            is_lost = self._plan.is_outside(table, unended) | np.isin(table["id"], self._outside)
            matches = self._rows.matches(table)
            lost = np.append(lost, is_lost if matches is None else is_lost | ~matches)
            short = np.append(short, self._plan.is_short(table) | np.isin(table["id"], self._short))
        before = self._slices
        stays = np.isin(before.id, open_ids) | np.isin(before.id, ids)
        columns = [column[stays] for column in before.columns]
        place = _places(columns[0], ids)
        # Rows that were open before keep their places and what is known of them; the others are appended.
        is_new = place == len(columns[0])
        columns[2][place[~is_new]], columns[3][place[~is_new]] = lost[~is_new], short[~is_new]
        new = (ids, parents, lost, short, np.zeros(len(ids), bool))
        columns = [np.append(old, column[is_new]) for old, column in zip(columns, new, strict=True)]
        self._slices = slices = _Slices(columns, self._plan.simplification.max_depth)
        mistaken = slices.is_passed & ~slices.is_left
        if mistaken.any():
            outside, too_short = mistaken & slices.is_lost, mistaken & slices.is_short & ~slices.is_lost
            found = ({*slices.id[each].tolist()} for each in (outside, too_short))
            self._mistaken = self._mistaken[0] | next(found), self._mistaken[1] | next(found)

    def _leave_out_slices(self, tables: dict[str, Table]) -> None:
        """Remove slices from the tables of a batch, and cut those that are left."""
        slices, left = self._slices, self._slices.is_left
        ended = tables["slices"] if "slices" in tables else Table(empty_columns("slices"))
        place = slices.places(ended["id"])
        self._count(place)
        is_left = left[place]
        needed = [slices.above[place[is_left]]]
        needed += [tables[name]["slice"] for name in _POINTS if name in tables]
        opened = self._with_held("opened", tables)
        opened = opened.take(left[slices.places(opened["id"])] & np.isin(opened["id"], ended["id"], invert=True))
        is_passed = self._is_needed(opened, np.concatenate(needed))
        self._held["opened"] = opened.take(~is_passed)
        slices.is_passed[slices.places(opened["id"][is_passed])] = True
        tables["opened"] = self._left(opened.take(is_passed))
        if "slices" in tables:
            ended = self._left(ended.take(is_left))
            tables["slices"] = _with(ended, self_time=self._inner.rests(ended))  # in which nothing that is left runs

    def _with_held(self, name: str, tables: Mapping[str, Table]) -> Table:
        """Return the rows of a table that are held, and after them those of a batch."""
        parts = [each[name] for each in (self._held, tables) if name in each and each[name].num_rows]
        if len(parts) < 2:
            return parts[0] if parts else Table(empty_columns(name))
        return Table({column: joined([part[column] for part in parts]) for column in parts[0].column_names})

    def _is_needed(self, opened: Table, needed: Array) -> Array:
        """Return which open slices are passed on (bool): those that are decided on, and those around passed rows.

        Args:
            opened: the open slices that are left, in the order of their ids.
            needed: the ids of slices around rows that are passed on.
        """
        may_be_short = self._plan.simplification.min_duration > 0
        is_unknown = (opened["duration"] < 0) & ((opened["start"] < self._rows.start) | may_be_short)
        passed: Array = ~is_unknown | np.isin(opened["id"], needed)
        if passed.any() and not passed.all():
            above = _places(opened["id"], self._slices.above[self._slices.places(opened["id"])]).tolist()
            passed = np.append(passed, False)
            for row in reversed(range(len(above))):  # from the innermost on
                passed[above[row]] |= passed[row]
            passed = passed[:-1]
        return passed

    def _count(self, place: Array) -> None:
        """Count the slices at some places that are left out because they are too short or too deep."""
        slices, limit = self._slices, self._plan.simplification.max_depth
        dropped = place[~slices.is_left[place] & ~slices.is_lost[place]]
        deep = 0 if limit is None else int((slices.depth[dropped] >= limit).sum())
        self.left_out[f"slices with {limit or 0:,} or more around them"] += deep
        shorter = short_duration(self._plan.simplification.min_duration)
        self.left_out[f"slices shorter than {shorter}, and those within them"] += len(dropped) - deep

    def _left(self, table: Table) -> Table:
        """Return slices as they are passed on: cut to the range, and within those that are left."""
        place = self._slices.places(table["id"])
        duration = table["duration"] if "duration" in table else np.full(len(place), -1)
        start, duration = self._plan.cut(table["start"], duration)
        depth = self._slices.depth[place].astype(np.int32)
        return _with(table, start=start, duration=duration, parent=self._slices.above[place], depth=depth)

    def _passed_of_open(self) -> Table:
        """Return the open slices that were passed on, as they were, see `Registry.open_slices`."""
        table = self._open_slices()
        place = self._slices.places(table["id"])
        is_passed = np.append(self._slices.is_passed & self._slices.is_left, False)[place]
        left = self._left(table.take(is_passed))
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
                table = _with(table, slice=self._slices.outer_of(table["slice"]))
            if name in _INTERVALS:
                table = table if not self._plan.selection.has_range else cut_to(table, self._rows.start, self._rows.end)
            table = table.take(self._has(name, table))
            if name == "counters":
                table = self._counters(table)
            elif self._plan.selection.has_range and name not in _INTERVALS:
                table = table.take((table["time"] >= self._rows.start) & (table["time"] < self._rows.end))
            if name == "flow_points":
                self._flows.enter(tables[name], table["event"])
                table = self._flow(table)
            tables[name] = table

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

    def _leave_out_args(self, tables: dict[str, Table], whole: Mapping[str, Table], waiting: Table) -> None:
        """Remove the arguments of rows that are left out, and hold those of slices that are held.

        Args:
            tables: the rows that are left.
            whole: all rows of the batch.
            waiting: the slices that are open; some may have their ends already.
        """
        args = self._with_held("args", tables)
        is_held = np.append(self._slices.is_left & ~self._slices.is_passed, False)
        held = waiting.take(is_held[self._slices.places(waiting["id"])])
        of_held = np.isin(args["event"], _events({}, held))
        is_needed = np.isin(args["event"], _events(tables, self._passed_of_open()))
        is_dropped = np.isin(args["event"], _events(whole, waiting)) & ~is_needed & ~of_held
        if self._plan.selection.is_everything:
            self.left_out[_ARGS] += int(is_dropped.sum())
        self._held["args"] = args.take(of_held & ~is_needed)
        tables["args"] = args.take(is_needed | ~(is_dropped | of_held))


class _Series:
    """Tells which counters have selected names."""

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
    """Tells which stacks have an innermost function with a selected name."""

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


def _events(tables: Mapping[str, Table], opened: Table) -> Array:
    """Return the events to which the arguments of rows and of open slices refer (int64)."""
    owners = [opened, *(tables[name] for name in _OWNERS if name in tables)]
    return np.concatenate([table[name] for table in owners for name in _EVENTS if name in table])


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
    """Return a table in which columns are replaced by others of the same names."""
    return Table({**dict(table.items()), **columns})
