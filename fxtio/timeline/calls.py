"""Slices of threads as entries and exits of functions, for formats of function tracers, which have nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.table import Table
from fxtio.timeline import replay
from fxtio.timeline.losses import count_lost
from fxtio.timeline.parts import Registry
from fxtio.timeline.replay import Replay
from fxtio.timeline.schema import TrackKind

TABLES = (*replay.TABLES, "counters", "scheduling", "wakeups")
"""The tables that calls are made of, and those of which they have nothing."""

_LOST = ("instants", "flow_points", "counters", "scheduling", "wakeups")
_CATEGORIES = "categories of slices"
_OTHERS = "slices on tracks that are not those of threads"


class ThreadCalls(NamedTuple):
    """Entries and exits of a thread in the order of time: arrays of one length.

    Attributes:
        track: the track of the thread.
        time: the time (int64 ns).
        is_exit: whether it is an exit (bool).
        depth: the number of calls around it (int64).
        name: the code of the name of the function (int32).
        category: the code of the category, -1 for none (int32).
        event: the number of the event that has the arguments, -1 for none (int64).
        state: how the slice ended, see `SliceState`; of an exit (int8).
    """

    track: int
    time: Array
    is_exit: Array
    depth: Array
    name: Array
    category: Array
    event: Array
    state: Array

    def part(self, rows: slice) -> ThreadCalls:
        """Return some of the rows."""
        return ThreadCalls(self.track, *(column[rows] for column in self[1:]))


class Calls:
    """Turns the batches of `Timeline.fold` into calls.

    Args:
        registry: the tracks.
        losses: counts what no call shows.
        deepest: the greatest depth of a call; deeper ones are left out.
        shown: the categories that the format shows.
    """

    def __init__(self, registry: Registry, losses: Counter[str], deepest: int, *, shown: Collection[str] = ()) -> None:
        self._registry = registry
        self._losses = losses
        self._deepest = deepest
        self._shown = [-1, *map(registry.names.code, shown)]
        self._replay = Replay(registry, pairs=True)
        self._depth: dict[int, int] = {}  # of each track
        self._latest: dict[int, int] = {}

    def enter(self, tables: Mapping[str, Table]) -> Iterator[ThreadCalls]:
        """Yield the calls of a batch, thread by thread."""
        count_lost(self._losses, tables, _LOST)
        events = self._replay.enter(tables)
        if events is None:
            return
        is_span = (events.step == SpanStep.BEGIN) | (events.step == SpanStep.END)
        is_thread = self._registry.track_kinds(events.track) == TrackKind.THREAD
        begins = is_span & (events.step == SpanStep.BEGIN)
        self._losses[_OTHERS] += int((begins & ~is_thread).sum())
        self._losses[_CATEGORIES] += int((begins & is_thread & ~np.isin(events.category, self._shown)).sum())
        events = events.take(is_span & is_thread)
        # The order within a track stays that of time.
        order = np.argsort(events.track, kind="stable")
        bounds = np.flatnonzero(np.diff(events.track[order])) + 1
        for rows in np.split(order, bounds):
            if len(rows):
                yield self._thread(events.take(rows))

    def _thread(self, events: replay.Events) -> ThreadCalls:
        track = int(events.track[0])
        is_exit = events.step == SpanStep.END
        change = np.where(is_exit, -1, 1)
        around = self._depth.get(track, 0) + np.cumsum(change)
        self._depth[track] = int(around[-1])
        depth = np.where(is_exit, around, around - 1)
        time = np.maximum.accumulate(np.maximum(events.time, self._latest.get(track, 0)))
        self._latest[track] = int(time[-1])
        fits = depth <= self._deepest
        if not fits.all():
            self._losses[f"calls that are more than {self._deepest:,} deep"] += int((~fits & ~is_exit).sum())
        columns = (time, is_exit, depth, events.name, events.category, events.event, events.detail)
        return ThreadCalls(track, *(column[fits] for column in columns))

    def finish(self) -> None:
        """Count what the last batch has left."""
        self._replay.note_losses(self._losses)
