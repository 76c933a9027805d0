"""Slices as pairs of begins and ends, strictly nested and in order, for formats that know only such pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.pairing import pair
from fxtio.table import Table


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
    # Before a begin there are the begins of all earlier slices, and the ends of those that are not around it.
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
