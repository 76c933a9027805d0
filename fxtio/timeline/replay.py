"""Slices, instants and points of flows as events in the order of time: the inverse of `fxtio.timeline.nesting`.

A slice that ends in the batch in which it begins becomes one complete event, or a pair of a begin and an end.  Any
other becomes a begin in one batch and an end in a later one, so memory is bounded however long it lasts.  The events of
each track are in an order in which they nest as the slices do, also where times are equal.  Formats that know only
pairs of begins and ends get them of whole slices (`nested_events`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array, ArrayRows
from fxtio.pairing import pair
from fxtio.table import MAX_TIME, Categories, Table
from fxtio.timeline.parts import MAX_TRACKS, Registry
from fxtio.timeline.schema import TrackKind

TABLES = ("slices", "opened", "unended", "instants", "flow_points")
"""The tables that a replay needs."""

_CUT = "slices that end after the slice around them, which end together with it now"

_MAX_ID = (1 << 63) // MAX_TRACKS - 1
"""The ids of slices are below this, as a trace with more of them would be larger than any disk."""


@dataclass(slots=True)
class Events(ArrayRows):
    """Events in the order of time: arrays of one length.

    Attributes:
        step: `BEGIN`, `END` or `COMPLETE` for slices, `INSTANT`, or `FLOW`, see `SpanStep` (int8).
        track: the track (int32).
        time: the time, for `COMPLETE` that of the start (int64 ns).
        end: the end of a `COMPLETE` (int64 ns).
        name: the code of the name (int32).
        category: the code of the category, -1 for none (int32).
        event: the number of the event that has the arguments (int64).
        end_event: the number of another event that has arguments of it, or -1 (int64).
        id: the id of a point of a flow (uint64).
        detail: of a point of a flow its type, index into `FLOW_TYPES`; of an instant its scope, index into `SCOPES`;
            of a slice how it ends, see `SliceState` (int8).
        slice: the id of the slice; of a point that of the slice around it, or -1 (int64).
    """

    step: Array
    track: Array
    time: Array
    end: Array
    name: Array
    category: Array
    event: Array
    end_event: Array
    id: Array
    detail: Array
    slice: Array


class Replay:
    """Turns the batches of `Timeline.fold` into events.

    Args:
        registry: the tracks.
        pairs: make all slices pairs of begins and ends.  Otherwise slices of threads are complete events, except empty
            ones, and those of a batch with instants or flows, because viewers may attach these to complete events that
            have ended.
    """

    def __init__(self, registry: Registry, *, pairs: bool = False) -> None:
        self._registry = registry
        self._pairs = pairs
        self._open: dict[int, int] = {}  # the depth of each slice whose begin was returned and whose end was not
        self._whole: dict[int, int] = {}  # the depth of each that was returned with its end before it came in `slices`
        self._cut = 0

    def enter(self, tables: Mapping[str, Table]) -> Events | None:
        """Return the events of a batch, None if it has none."""
        nodes = self._nodes(tables)
        points = [_points(tables[name]) for name in ("instants", "flow_points") if name in tables]
        if nodes is None and not points:
            return None
        nodes = nodes or _Nodes.none()
        present = np.bincount(np.concatenate([nodes.track, *(each.track for each in points)]))
        tracks = np.flatnonzero(present)
        nodes = nodes.take(np.argsort(nodes.track.astype(np.int64) * (_MAX_ID + 1) + nodes.id, kind="stable"))
        place = np.arange(len(nodes)) + 2 * np.searchsorted(tracks, nodes.track)
        widest = 1 + max([int(nodes.depth.max(initial=0)), *self._open.values(), *self._whole.values()])
        scale = 2 * (widest + 2) + 2
        parts, keys = self._spans(nodes, place, bool(points), widest, scale)
        for each in points:
            places, among = self._point_places(each, nodes, tracks, widest)
            parts.append(each)
            keys.append(places * scale + among)
        self._remember(nodes)
        return _in_order(parts, keys)

    def note_losses(self, losses: Counter[str]) -> None:
        """Add what the events do not show."""
        losses[_CUT] += self._cut

    def _nodes(self, tables: Mapping[str, Table]) -> _Nodes | None:
        parts = []
        if "slices" in tables:
            table = tables["slices"]
            carried = self._is_in(table["id"], self._open)
            has_come = self._is_in(table["id"], self._whole)
            ends = np.ones(table.num_rows, bool)
            if "unended" in tables:
                ends = ~np.isin(table["id"], tables["unended"]["id"])
            nodes = _Nodes.of(table, ends, carried, is_opened=False)
            for number in nodes.id[has_come].tolist():
                del self._whole[number]
            parts.append(nodes.take(~has_come) if has_come.any() else nodes)
        if "opened" in tables:
            table = tables["opened"]
            parts.append(_Nodes.of(table, table["duration"] >= 0, np.zeros(table.num_rows, bool), is_opened=True))
        return _Nodes.joined(parts) if parts else None

    @staticmethod
    def _is_in(ids: Array, depths: dict[int, int]) -> Array:
        return np.isin(ids, np.fromiter(depths, np.int64, len(depths))) if depths else np.zeros(len(ids), bool)

    def _spans(
        self, nodes: _Nodes, place: Array, has_points: bool, widest: int, scale: int
    ) -> tuple[list[Events], list[Array]]:
        """Return the events of slices, and the key of each by which those of a track are in order."""
        can_be_whole = ~nodes.carried & nodes.ends
        if self._pairs:
            can_be_whole[:] = False
        elif can_be_whole.any():
            can_be_whole &= self._registry.track_kinds(nodes.track) == TrackKind.THREAD
        whole = can_be_whole & (not has_points)
        empty = whole & (nodes.end <= nodes.start)
        if whole.all() and not empty.any():
            return [_events(nodes, np.arange(len(nodes)), SpanStep.COMPLETE)], [place * scale + scale - 1]
        tree = _Tree(nodes)
        if empty.any():  # viewers put what follows at the same time into a complete event that is empty
            whole &= ~(empty | tree.with_last_moment())
        outlived = tree.outlived()
        if outlived is not None:  # complete events can overlap, if the source has them as such
            whole |= (outlived | tree.late(outlived)) & can_be_whole & (nodes.end_event < 0)
            self._cut += tree.cut(outlived & ~whole, whole)
        begins = np.flatnonzero(~nodes.carried)
        ends = np.flatnonzero(nodes.ends & ~whole)
        first = _events(nodes, begins, SpanStep.BEGIN)
        first.step[whole[begins]] = SpanStep.COMPLETE
        first.end_event[~whole[begins]] = -1
        last = _events(nodes, ends, SpanStep.END)
        last.time = nodes.end[ends]
        last.event, last.end_event = nodes.end_event[ends], np.full(len(ends), -1)
        return [first, last], [
            place[begins] * scale + scale - 1,
            (place[tree.last()[ends]] + 1) * scale + 2 * (widest - nodes.depth[ends]),
        ]

    def _point_places(self, points: Events, nodes: _Nodes, tracks: Array, widest: int) -> tuple[Array, Array]:
        """Return the place of each point among the nodes, and its order among the ends at this place."""
        rank = np.searchsorted(tracks, points.track)
        if not len(nodes):
            return 2 * rank, np.zeros(len(points), np.int64)
        # A point comes after all that starts before it, and after the begin of the slice around it, if that is here.
        place = places_among(nodes.track, nodes.start, points.track, points.time)
        order = np.argsort(nodes.id)
        around = order[np.minimum(np.searchsorted(nodes.id[order], points.slice), len(order) - 1)]
        is_here = nodes.id[around] == points.slice
        place = np.where(is_here, np.maximum(place, around + 1), place)
        depth = np.where(is_here, nodes.depth[around], -1)
        for row in np.flatnonzero(~is_here & (points.slice >= 0)).tolist():
            number = int(points.slice[row])
            depth[row] = self._open.get(number, self._whole.get(number, -1))
        return place + 2 * rank, 2 * (widest - depth) - 1

    def _remember(self, nodes: _Nodes) -> None:
        """Note which slices are open at the end of the batch, and which come again in a later one."""
        for number in nodes.id[nodes.carried].tolist():
            del self._open[number]
        for rows, depths in ((nodes.opened & ~nodes.ends, self._open), (nodes.opened & nodes.ends, self._whole)):
            depths.update(zip(nodes.id[rows].tolist(), nodes.depth[rows].tolist(), strict=True))


@dataclass(slots=True)
class _Nodes(ArrayRows):
    """Slices that begin or end in a batch: arrays of one length.

    Attributes:
        ends: whether its end is known.
        carried: whether it began in an earlier batch.
        opened: whether it comes again in a later batch.
    """

    id: Array
    track: Array
    depth: Array
    parent: Array
    start: Array
    end: Array
    name: Array
    category: Array
    event: Array
    end_event: Array
    state: Array
    ends: Array
    carried: Array
    opened: Array

    @classmethod
    def of(cls, table: Table, ends: Array, carried: Array, *, is_opened: bool) -> _Nodes:
        """Return the rows of the tables `slices` or `opened`."""
        columns = [table[key] for key in ("id", "track", "depth", "parent", "start")]
        names = [table[key].codes for key in ("name", "category")]
        opened = np.full(table.num_rows, is_opened)
        end, state = table["start"] + table["duration"], table["state"].codes
        return cls(*[*columns, end, *names, table["event"], table["end_event"], state, ends, carried, opened])

    @classmethod
    def none(cls) -> _Nodes:
        """Return no rows."""
        return cls(
            *(np.empty(0, bool if name in ("ends", "carried", "opened") else np.int64) for name in cls.__slots__)
        )


class _Tree:
    """The nesting of slices.

    Args:
        nodes: the slices, those of each track together, in the order of their ids.
    """

    def __init__(self, nodes: _Nodes) -> None:
        self._nodes = nodes
        order = np.argsort(nodes.id)
        nearest = order[np.minimum(np.searchsorted(nodes.id[order], nodes.parent), len(nodes) - 1)]
        self._parent = np.where((nodes.parent >= 0) & (nodes.id[nearest] == nodes.parent), nearest, -1)
        inner = np.flatnonzero(self._parent >= 0)
        inner = inner[np.argsort(nodes.depth[inner], kind="stable")]
        bounds = [0, *(np.flatnonzero(np.diff(nodes.depth[inner])) + 1).tolist(), len(inner)]
        self._levels = [inner[low:high] for low, high in pairwise(bounds)]  # the outer ones first

    def last(self) -> Array:
        """Return for each slice the last one within it, itself if there is none."""
        last = np.arange(len(self._nodes))
        for level in reversed(self._levels):
            np.maximum.at(last, self._parent[level], last[level])
        return last

    def with_last_moment(self) -> Array:
        """Return which slices have one within them that begins when they end (bool)."""
        inner = np.flatnonzero(self._parent >= 0)
        around = self._parent[inner]
        result = np.zeros(len(self._nodes), bool)
        result[around[self._nodes.start[inner] >= self._nodes.end[around]]] = True
        return result

    def outlived(self) -> Array | None:
        """Return which slices end before one that is within them (bool), None if there are none."""
        nodes = self._nodes
        reach = np.where(nodes.ends, nodes.end, MAX_TIME)
        inner = self._parent >= 0
        if not (reach[inner] > reach[self._parent[inner]]).any():
            return None
        for level in reversed(self._levels):
            np.maximum.at(reach, self._parent[level], reach[level])
        result: Array = nodes.ends & (reach > nodes.end)
        return result

    def late(self, outlived: Array) -> Array:
        """Return which slices end after one around them, one of `outlived` (bool)."""
        nodes = self._nodes
        end = np.where(nodes.ends, nodes.end, MAX_TIME)
        limit = np.where(outlived, nodes.end, MAX_TIME)
        for level in self._levels:
            limit[level] = np.minimum(limit[level], limit[self._parent[level]])
        late: Array = np.zeros(len(nodes), bool)
        inner = self._parent >= 0
        late[inner] = end[inner] > limit[self._parent[inner]]
        return late

    def cut(self, outer: Array, spared: Array) -> int:
        """Let all that is within some slices (bool) end with them at the latest; return how many end earlier now.

        Args:
            outer: these slices.
            spared: slices that may end later (bool).
        """
        nodes, count = self._nodes, 0
        limit = np.where(outer, nodes.end, MAX_TIME)
        for level in self._levels:
            around = limit[self._parent[level]]
            late = level[~spared[level] & (np.where(nodes.ends[level], nodes.end[level], MAX_TIME) > around)]
            nodes.end[late], nodes.ends[late] = limit[self._parent[late]], True
            limit[level] = np.minimum(limit[level], around)
            count += len(late)
        return count


def _events(nodes: _Nodes, rows: Array, step: SpanStep) -> Events:
    """Return an event for each of some nodes."""
    count = len(rows)
    return Events(
        np.full(count, step, np.int8), nodes.track[rows], nodes.start[rows], nodes.end[rows], nodes.name[rows],
        nodes.category[rows], nodes.event[rows], nodes.end_event[rows], np.zeros(count, np.uint64),
        nodes.state[rows].astype(np.int8), nodes.id[rows],
    )  # fmt: skip


def _points(table: Table) -> Events:
    """Return instants or points of flows as events."""
    count = table.num_rows
    is_flow = "type" in table
    detail: Categories = table["type" if is_flow else "scope"]
    return Events(
        np.full(count, SpanStep.FLOW if is_flow else SpanStep.INSTANT, np.int8), table["track"], table["time"],
        table["time"], table["name"].codes, table["category"].codes, table["event"], np.full(count, -1),
        table["id"] if is_flow else np.zeros(count, np.uint64), detail.codes.astype(np.int8), table["slice"],
    )  # fmt: skip


def places_among(tracks: Array, starts: Array, track: Array, time: Array) -> Array:
    """Return for each point how many rows are before it: those of lower tracks, and those that start before its time.

    Args:
        tracks: the tracks of the rows, ascending.
        starts: when they start (int64 ns), ascending in each track.
        track: the track of each point.
        time: its time (int64 ns).
    """
    is_row = np.repeat([False, True], [len(track), len(tracks)])
    order = np.lexsort((is_row, np.concatenate([time, starts]), np.concatenate([track, tracks])))
    before = np.empty(len(order), np.int64)
    before[order] = np.cumsum(is_row[order])
    return before[: len(track)]


def _in_order(parts: list[Events], keys: list[Array]) -> Events:
    """Join events in the order of time; those of a track are in the order of their keys, then of their numbers."""
    joined, key = Events.joined(parts), np.concatenate(keys)
    if (joined.step > SpanStep.COMPLETE).any():  # several points may have one key
        order = np.lexsort((joined.event, joined.time, key))
    else:
        order = np.argsort(key, kind="stable")
    time, track = joined.time[order], joined.track[order]
    late = np.flatnonzero((np.diff(time) < 0) & (track[1:] == track[:-1]))
    for number in np.unique(track[late]).tolist():
        rows = slice(*np.searchsorted(track, [number, number + 1]))  # the keys have the tracks in their order
        time[rows] = np.maximum.accumulate(time[rows])
    return joined.take(order[np.argsort(time, kind="stable")])


class NestedEvents(NamedTuple):
    """The begins and ends of slices, track by track, those of a track in order.

    Attributes:
        row: the row of the slice (int64).
        is_end: whether it ends (bool).
        time: the time (int64 ns).
        cut: the number of slices that were cut where a slice around them ends.
    """

    row: Array
    is_end: Array
    time: Array
    cut: int


def nested_events(slices: Table) -> NestedEvents:
    """Return the begins and ends of slices.

    Args:
        slices: whole slices in any order, with the columns `id`, `start`, `duration`, `depth` and `track`.  They are
            nested as their depths say; if slices are missing among them, by their times.
    """
    count = slices.num_rows
    order = np.lexsort((slices["id"], slices["track"]))
    start = slices["start"][order]
    end = start + slices["duration"][order]
    _, track = np.unique(slices["track"][order], return_inverse=True)
    parent, depth = _nesting(track.astype(np.int32), start, end, slices["depth"][order])
    # Level by level from the outermost on: a slice ends with the one around it at the latest, which was cut before.
    by_depth = np.argsort(depth, kind="stable")
    levels = np.split(by_depth, np.flatnonzero(np.diff(depth[by_depth])) + 1)[:count]
    is_cut = np.zeros(count, bool)
    for level in levels[1:]:
        is_cut[level] = end[level] > end[parent[level]]
        end[level] = np.minimum(end[level], end[parent[level]])
    start = np.minimum(start, end)
    last = np.arange(count)  # the last slice within each, or the slice itself
    for level in levels[:0:-1]:
        np.maximum.at(last, parent[level], last[level])
    # Before a begin there are the starts of all earlier slices, and the ends of those that are not around it.
    begins, ends = 2 * np.arange(count) - depth, 2 * last + 1 - depth
    row, time = np.empty(2 * count, np.int64), np.empty(2 * count, np.int64)
    is_end = np.zeros(2 * count, bool)
    row[begins], time[begins] = order, start
    row[ends], time[ends], is_end[ends] = order, end, True
    return NestedEvents(row, is_end, time, int(is_cut.sum()))


def _nesting(track: Array, start: Array, end: Array, depth: Array) -> tuple[Array, Array]:
    """Return the row of the slice around each slice, -1 for none, and its depth (int64)."""
    step, tracks = np.full(len(start), SpanStep.COMPLETE, np.int8), int(track.max(initial=-1)) + 1
    pairs = pair(step, track, start, tracks=tracks, end=end.copy(), level=depth, with_depth=True)
    if not np.array_equal(pairs.depth, depth):
        pairs = pair(step, track, start, tracks=tracks, end=end.copy(), with_depth=True)
    return pairs.parent, pairs.depth.astype(np.int64)
