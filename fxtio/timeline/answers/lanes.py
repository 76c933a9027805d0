"""Lanes: a range of times divided into cells, and for each track the slice that fills each cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fxtio.selection import Selection
from fxtio.table import MAX_TIME, Table
from fxtio.timeline.answers.labels import Labels
from fxtio.timeline.answers.rows import Chosen, Rows, chosen, cut_to
from fxtio.timeline.parts import Registry

if TYPE_CHECKING:
    from fxtio.timeline.timeline import Timeline

Array = np.ndarray[Any, Any]

_MAX_WAITING = 1_000_000


@dataclass(slots=True)
class Lane:
    """The slices of one depth of a track.

    Attributes:
        label: the text for the track.
        depth: the depth of the slices.
        names: for each cell the name of the slices that fill most of it, None if nothing ran.
        fill: for each cell the share of it in which a slice of this depth ran (0 to 1).
        calls: the number of slices.
        busy: the time in which a slice ran, in nanoseconds.
    """

    label: str
    depth: int
    names: list[str | None]
    fill: list[float]
    calls: int
    busy: int


@dataclass(slots=True)
class Lanes:
    """A range of times divided into cells, and the slices that fill them.

    Attributes:
        start: the begin of the first cell, in nanoseconds.
        end: the end of the last cell.
        rows: the lanes of each track, the outermost depth first.
        more: the number of tracks that were left out; those that are shown are the busiest.
    """

    start: int
    end: int
    rows: list[Lane]
    more: int


def lanes(
    timeline: Timeline,
    start: int,
    end: int,
    cells: int,
    *,
    depth: int = 1,
    limit: int | None = None,
    selection: Selection | None = None,
) -> Lanes:
    """Return what ran in a range of times, in one reading of bounded memory.

    Args:
        timeline: the timeline.
        start: the begin of the range, in nanoseconds.
        end: the end of the range, later than the begin.
        cells: into how many equal cells the range is divided.
        depth: so many levels of slices are shown, from the outermost one on.
        limit: the most tracks, None for all.
        selection: the threads, processes, categories and names; its range of times is not used.
    """
    start, end = min(start, MAX_TIME - 1), min(end, MAX_TIME)
    selection = selection or Selection()
    selection = Selection(
        threads=selection.threads, processes=selection.processes, categories=selection.categories, names=selection.names
    )
    subset = chosen(timeline, selection, "slices")
    make = partial(_Cells, start=start, end=end, cells=cells, depth=depth, selection=selection, subset=subset)
    filled, registry = timeline.fold(make, "slices")
    return filled.finish(registry, limit)


class _Cells:
    """The time that slices of each name fill of each cell."""

    def __init__(
        self,
        registry: Registry,
        *,
        start: int,
        end: int,
        cells: int,
        depth: int,
        selection: Selection,
        subset: Chosen | None,
    ) -> None:
        self._registry = registry
        self._start, self._end, self._depth = start, end, depth
        self._bounds = start + (np.arange(cells + 1) * (end - start) / cells).astype(np.int64)
        self._bounds[-1] = end
        self._rows = Rows(registry, selection, subset)
        self._waiting: list[Array] = []
        self._count = 0
        self._calls = np.zeros(0, np.int64)  # by lane

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the slices of a batch."""
        slices = tables["slices"]
        slices = cut_to(self._rows.slices(slices.take(slices["depth"] < self._depth)), self._start, self._end)
        if not slices.num_rows:
            return
        lane = slices["track"].astype(np.int64) * self._depth + slices["depth"]
        missing = int(lane.max()) + 1 - len(self._calls)
        if missing > 0:
            self._calls = np.append(self._calls, np.zeros(max(missing, len(self._calls)), np.int64))
        np.add.at(self._calls, lane, 1)
        self._fill(lane, slices["name"].codes.astype(np.int64), slices["start"], slices["start"] + slices["duration"])

    def _fill(self, lane: Array, name: Array, start: Array, end: Array) -> None:
        """Add the part of each slice in each cell."""
        last = len(self._bounds) - 2
        first = np.minimum(np.searchsorted(self._bounds, start, side="right") - 1, last)
        final = np.clip(np.searchsorted(self._bounds, end, side="left") - 1, first, last)
        counts = final - first + 1
        row = np.repeat(np.arange(len(lane)), counts)
        cell = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        part = np.minimum(end[row], self._bounds[cell + 1]) - np.maximum(start[row], self._bounds[cell])
        self._waiting.append(np.stack([lane[row], cell, name[row], part]))
        self._count += len(row)
        if self._count > _MAX_WAITING:
            self._combine()

    def _combine(self) -> Array:
        """Sum up the parts of the same lane, cell and name."""
        rows = np.concatenate(self._waiting, axis=1) if self._waiting else np.empty((4, 0), np.int64)
        order = np.lexsort((rows[2], rows[1], rows[0]))
        rows = rows[:, order]
        is_new = np.ones(rows.shape[1], bool)
        is_new[1:] = (np.diff(rows[:3], axis=1) != 0).any(axis=0)
        first = np.flatnonzero(is_new)
        if len(first):
            rows = np.concatenate([rows[:3, first], np.add.reduceat(rows[3], first)[None]])
        self._waiting, self._count = [rows], 0  # what is left is bounded by lanes, cells and names
        return rows

    def finish(self, registry: Registry, limit: int | None) -> Lanes:
        """Return the lanes."""
        lane, cell, name, part = self._combine()
        calls = np.append(self._calls, np.zeros(-len(self._calls) % self._depth, np.int64)).reshape(-1, self._depth)
        busy = np.zeros(len(calls), np.int64)
        outermost = lane % self._depth == 0
        np.add.at(busy, lane[outermost] // self._depth, part[outermost])
        tracks = np.flatnonzero(calls.any(axis=1))
        tracks = tracks[np.argsort(-busy[tracks], kind="stable")]
        shown = np.sort(tracks[:limit])
        labels = Labels(registry.tables())
        rows = []
        for track in shown.tolist():
            for depth in np.flatnonzero(calls[track]).tolist():
                own = slice(*np.searchsorted(lane, [track * self._depth + depth, track * self._depth + depth + 1]))
                columns = cell[own], name[own], part[own]
                rows.append(self._lane(labels.track(track), depth, int(calls[track, depth]), *columns))
        return Lanes(self._start, self._end, rows, len(tracks) - len(shown))

    def _lane(self, label: str, depth: int, calls: int, cell: Array, name: Array, part: Array) -> Lane:
        widths = np.maximum(np.diff(self._bounds), 1)
        filled = np.zeros(len(widths), np.int64)
        np.add.at(filled, cell, part)
        names: list[str | None] = [None] * len(widths)
        values = self._registry.names.values
        order = np.lexsort((part, cell))  # the largest part of a cell comes last, and stays
        for at, code in zip(cell[order].tolist(), name[order].tolist(), strict=True):
            names[at] = values[code] if code >= 0 else ""
        fill = np.minimum(filled / widths, 1.0).tolist()
        return Lane(label, depth, names, fill, calls, int(filled.sum()))
