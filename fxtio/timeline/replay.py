"""Slices, instants and points of flows as events in the order of time: the inverse of `fxtio.timeline.nesting`.

A slice that ends in the batch in which it begins becomes one complete event, or a pair of a begin and an end.  Any
other becomes a begin in one batch and an end in a later one, so memory is bounded however long it lasts.  The events of
each track are in an order in which they nest as the slices do, also where times are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np

from fxtio._native.constants import SliceState, SpanStep
from fxtio.table import Categories, Table
from fxtio.timeline.parts import MAX_TRACKS, Registry
from fxtio.timeline.schema import LABELS, TrackKind

Array = np.ndarray[Any, Any]

TABLES = ("slices", "opened", "unended", "instants", "flow_points")
"""The tables that a replay needs."""

_CUT = "slices that end behind the slice around them, which end together with it now"

_MAX_ID = (1 << 63) // MAX_TRACKS - 1
"""The ids of slices are below this, as a trace with more of them would be larger than any disk."""

_OVERLAPPING = LABELS["slices", "state"].index(SliceState.OVERLAPPING.name.lower())


@dataclass(slots=True)
class Events:
    """Events in the order of time: arrays of one length.

    Attributes:
        step: `BEGIN`, `END` or `COMPLETE` for slices, `INSTANT`, or `FLOW`, see `SpanStep` (int8).
        track: the track (int32).
        time: the time, for `COMPLETE` that of the begin (int64 ns).
        end: the end of a `COMPLETE` (int64 ns).
        name: the code of the name (int32).
        category: the code of the category, -1 for none (int32).
        event: the number of the event that has the arguments (int64).
        end_event: the number of another event that has arguments of it, or -1 (int64).
        id: the id of a point of a flow (uint64).
        detail: of a point of a flow its type, index into `FLOW_TYPES`; of an instant its scope, index into `SCOPES`
            (int8).
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

    def take(self, rows: Array) -> Events:
        """Return the events with these indices, or those where a mask is true."""
        return Events(*(getattr(self, each.name)[rows] for each in fields(self)))

    def __len__(self) -> int:
        return len(self.step)


class Replay:
    """Turns the batches of `Timeline.fold` into events.

    Args:
        registry: the tracks.
        pairs: make all slices pairs of begins and ends.  Otherwise slices of threads are complete events, except those
            of a batch with instants or flows, because viewers may attach these to complete events that have ended.
    """

    def __init__(self, registry: Registry, *, pairs: bool = False) -> None:
        self._registry = registry
        self._pairs = pairs
        self._open: dict[int, int] = {}  # the depth of each slice whose begin was returned and whose end was not
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
        widest = int(nodes.depth.max(initial=0)) + 1
        if points or self._open:
            widest = max([widest, *(depth + 1 for depth in self._open.values())])
        scale = 2 * (widest + 2) + 2
        is_whole = not self._pairs and not points and (self._registry.track_kinds(nodes.track) == TrackKind.THREAD)
        has_end = nodes.ends & (nodes.carried | ~np.asarray(is_whole))
        parts, keys = self._spans(nodes, place, has_end, widest, scale)
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
        unended = tables["unended"]["id"] if "unended" in tables else np.empty(0, np.int64)
        for name in ("slices", "opened"):
            if name not in tables:
                continue
            table = tables[name]
            count = table.num_rows
            ends = np.full(count, name == "slices")
            end, end_event, state = table["start"], np.full(count, -1), np.zeros(count, np.int32)
            carried = np.zeros(count, bool)
            if name == "slices":
                end, end_event, state = end + table["duration"], table["end_event"], table["state"].codes
                if len(unended):
                    ends = ~np.isin(table["id"], unended)
                if self._open:
                    carried = np.isin(table["id"], np.fromiter(self._open, np.int64, len(self._open)))
            columns = [table[key] for key in ("id", "track", "depth", "parent", "start")]
            names = [table[key].codes for key in ("name", "category")]
            parts.append(_Nodes(*[*columns, end, *names, table["event"], end_event, state, ends, carried]))
        return _Nodes.joined(parts) if parts else None

    def _spans(
        self, nodes: _Nodes, place: Array, has_end: Array, widest: int, scale: int
    ) -> tuple[list[Events], list[Array]]:
        """Return the events of slices, and the key of each by which those of a track are in order."""
        begins = np.flatnonzero(~nodes.carried)
        ends = np.flatnonzero(has_end)
        first = _events(nodes, begins, SpanStep.BEGIN)
        whole = nodes.ends[begins] & ~has_end[begins]
        first.step[whole] = SpanStep.COMPLETE
        first.end_event[~whole] = -1
        parts, keys = [first], [place[begins] * scale + scale - 1]
        if len(ends):
            behind, limit = _subtrees(nodes)
            cut = nodes.end[ends] > limit[ends]
            self._cut += int(cut.sum())
            last = _events(nodes, ends, SpanStep.END)
            last.time = np.minimum(nodes.end[ends], limit[ends])
            last.event, last.end_event = nodes.end_event[ends], np.full(len(ends), -1)
            parts.append(last)
            keys.append((place[behind[ends]] + 1) * scale + 2 * (widest - nodes.depth[ends]))
        return parts, keys

    def _point_places(self, points: Events, nodes: _Nodes, tracks: Array, widest: int) -> tuple[Array, Array]:
        """Return the place of each point among the nodes, and its order among the ends at this place."""
        rank = np.searchsorted(tracks, points.track)
        if not len(nodes):
            return 2 * rank, np.zeros(len(points), np.int64)
        bounds = np.searchsorted(nodes.track, np.append(tracks, np.iinfo(np.int64).max))
        place = np.empty(len(points), np.int64)
        for number in np.unique(rank).tolist():
            low, high = bounds[number], bounds[number + 1]
            here = rank == number
            place[here] = low + np.searchsorted(nodes.start[low:high], points.time[here])
        order = np.argsort(nodes.id)
        around = order[np.minimum(np.searchsorted(nodes.id[order], points.slice), len(order) - 1)]
        is_here = nodes.id[around] == points.slice
        place = np.where(is_here, np.maximum(place, around + 1), place)
        depth = np.where(is_here, nodes.depth[around], -1)
        for row in np.flatnonzero(~is_here & (points.slice >= 0)).tolist():
            depth[row] = self._open.get(int(points.slice[row]), -1)
        return place + 2 * rank, 2 * (widest - depth) - 1

    def _remember(self, nodes: _Nodes) -> None:
        """Note which slices are open at the end of the batch."""
        for number in nodes.id[nodes.carried].tolist():
            self._open.pop(number, None)
        opened = ~nodes.finished
        self._open.update(zip(nodes.id[opened].tolist(), nodes.depth[opened].tolist(), strict=True))


@dataclass(slots=True)
class _Nodes:
    """Slices that begin or end in a batch: arrays of one length.

    Attributes:
        ends: whether it ends, here or later; false for those in `opened`, and for those that never end.
        carried: whether it began in an earlier batch.
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

    @classmethod
    def none(cls) -> _Nodes:
        """Return no rows."""
        return cls(*(np.empty(0, bool if each.name in ("ends", "carried") else np.int64) for each in fields(cls)))

    @classmethod
    def joined(cls, parts: list[_Nodes]) -> _Nodes:
        """Concatenate rows."""
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))

    @property
    def finished(self) -> Array:
        """Whether no later batch has its end (bool)."""
        result: Array = self.ends | (self.state == SliceState.OPEN)
        return result

    def take(self, rows: Array) -> _Nodes:
        """Return the rows with these indices."""
        return _Nodes(*(getattr(self, each.name)[rows] for each in fields(self)))

    def __len__(self) -> int:
        return len(self.id)


def _subtrees(nodes: _Nodes) -> tuple[Array, Array]:
    """Return for each node the last one within it, itself if there is none, and the latest time at which it may end.

    Args:
        nodes: the nodes, those of each track together, in the order of their ids.
    """
    count = len(nodes)
    order = np.argsort(nodes.id)
    found = order[np.minimum(np.searchsorted(nodes.id[order], nodes.parent), count - 1)]
    parent = np.where((nodes.parent >= 0) & (nodes.id[found] == nodes.parent), found, -1)
    last, limit = np.arange(count), np.full(count, np.iinfo(np.int64).max)
    inner = np.flatnonzero(parent >= 0)
    inner = inner[np.argsort(nodes.depth[inner], kind="stable")]
    depths = nodes.depth[inner]
    bounds = [0, *(np.flatnonzero(np.diff(depths)) + 1).tolist(), len(inner)]
    levels = [inner[low:high] for low, high in pairwise(bounds)]
    for level in reversed(levels):
        np.maximum.at(last, parent[level], last[level])
    if (nodes.state == _OVERLAPPING).any():
        for level in levels:
            around = parent[level]
            own = np.where(nodes.ends[around], nodes.end[around], np.iinfo(np.int64).max)
            limit[level] = np.minimum(limit[around], own)
    return last, limit


def _events(nodes: _Nodes, rows: Array, step: SpanStep) -> Events:
    """Return an event for each of some nodes."""
    count = len(rows)
    return Events(
        np.full(count, step, np.int8), nodes.track[rows], nodes.start[rows], nodes.end[rows], nodes.name[rows],
        nodes.category[rows], nodes.event[rows], nodes.end_event[rows], np.zeros(count, np.uint64),
        np.zeros(count, np.int8), nodes.id[rows],
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


def _in_order(parts: list[Events], keys: list[Array]) -> Events:
    """Join events in the order of time; those of a track are in the order of their keys, then of their numbers."""
    joined = {each.name: np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Events)}
    key = np.concatenate(keys)
    if (joined["step"] > SpanStep.COMPLETE).any():  # several points may have one key
        order = np.lexsort((joined["event"], joined["time"], key))
    else:
        order = np.argsort(key, kind="stable")
    time, track = joined["time"][order], joined["track"][order]
    late = np.flatnonzero((np.diff(time) < 0) & (track[1:] == track[:-1]))
    for number in np.unique(track[late]).tolist():
        rows = np.flatnonzero(track == number)
        time[rows] = np.maximum.accumulate(time[rows])
    order = order[np.argsort(time, kind="stable")]
    return Events(*(joined[each.name][order] for each in fields(Events)))
