"""Threads and tasks: how long each is busy, and which coroutine a task runs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fxtio.arrays import Array
from fxtio.html import cells
from fxtio.html.contents import Cell, Grid
from fxtio.html.groups import DurationGroups
from fxtio.table import MAX_TIME, Table
from fxtio.timeline.answers.labels import Labels
from fxtio.timeline.arguments import Arguments
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import ArgumentKind, TrackKind

MAX_ROWS = 300
"""The most threads that are shown, those that are busy longest, and the most tasks, those that last longest."""

COROUTINE = "coroutine"
"""The argument of the event at the begin of the track of an asyncio task, an operation or an instant: the function that
the task runs."""

_CATEGORY = "asyncio"
"""The category of this event."""

_SUMS: dict[str, int | float] = {"calls": 0, "busy": 0.0, "start": MAX_TIME, "end": 0}
"""The sums of a track, and the values of one without slices.  The sum of times is a float, which cannot overflow."""


class Tracks:
    """Adds up the slices of each track.

    Args:
        registry: the registry of the reading.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._sums = {name: np.array([value])[:0] for name, value in _SUMS.items()}
        self._arguments = Arguments(registry, accepts=self._is_coroutine)
        self._coroutines: dict[int, int] = {}  # the code of the name, by track

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the slices of a batch, and the arguments of what stands at the begins of tracks."""
        self._arguments.enter(tables)
        for name in ("instants", "slices"):
            if name in tables:
                self._note_coroutines(tables[name])
        self._arguments.leave(tables)
        if "slices" in tables:
            self._enter(tables["slices"])

    def _is_coroutine(self, args: Table) -> Array:
        is_coroutine: Array = args["name"].codes == self._registry.names.code(COROUTINE)
        is_coroutine &= args["type"].codes == ArgumentKind.TEXT
        return is_coroutine

    def _note_coroutines(self, events: Table) -> None:
        events = events.take(events["category"].codes == self._registry.names.code(_CATEGORY))
        found = self._arguments.of(events["event"])
        for track, code in zip(events["track"][found.row].tolist(), found.text.tolist(), strict=True):
            self._coroutines.setdefault(track, code)

    def _enter(self, slices: Table) -> None:
        track, start, duration = (slices[name] for name in ("track", "start", "duration"))
        missing = int(track.max()) + 1 - len(self._sums["calls"])
        if missing > 0:
            for name, sums in self._sums.items():
                self._sums[name] = np.append(sums, np.full(max(missing, len(sums)), _SUMS[name]))
        outermost = np.flatnonzero(slices["depth"] == 0)
        np.add.at(self._sums["calls"], track, 1)
        np.add.at(self._sums["busy"], track[outermost], duration[outermost])
        np.minimum.at(self._sums["start"], track, start)
        np.maximum.at(self._sums["end"], track, start + duration)

    def _tracks(self, *, tasks: bool) -> Array:
        """Return the tracks of tasks, or all others, that have slices."""
        tracks: Array = np.flatnonzero(self._sums["calls"])
        is_wanted = (self._registry.track_kinds(tracks) == TrackKind.ASYNC) == tasks
        result: Array = tracks[is_wanted]
        return result

    def threads(self, labels: Labels, origin: int, length: int) -> Grid | None:
        """Return the threads and other tracks that are no tasks, None if there are none.

        Args:
            labels: the texts for tracks.
            origin: the time that is shown as 0, in nanoseconds.
            length: the length of the trace, in nanoseconds.
        """
        tracks = self._tracks(tasks=False)
        if not len(tracks):
            return None
        sums = {name: column[tracks].tolist() for name, column in self._sums.items()}
        order = sorted(range(len(tracks)), key=lambda row: -sums["busy"][row])[:MAX_ROWS]
        rows: list[list[str | Cell]] = [
            [
                labels.track(int(tracks[row])),
                cells.duration(int(sums["busy"][row])),
                cells.share(sums["busy"][row] / max(length, 1)),
                cells.count(sums["calls"][row]),
                cells.moment(sums["start"][row], origin),
                cells.moment(sums["end"][row], origin),
            ]
            for row in order
        ]
        headers = ["Thread", "In slices", "Share of the time", "Slices", "First slice at", "Last one ends at"]
        return cells.grid(headers, rows, more=len(tracks) - len(rows), title="Threads")

    def tasks(self, labels: Labels, origin: int) -> list[Grid]:
        """Return the tasks by their coroutines, and the tracks of tasks that last longest, as far as there are any.

        Args:
            labels: the texts for tracks.
            origin: the time that is shown as 0, in nanoseconds.
        """
        tracks = self._tracks(tasks=True)
        if not len(tracks):
            return []
        lasts = self._sums["end"] - self._sums["start"]
        names, coroutines = self._registry.names.values, DurationGroups()
        codes = np.array([self._coroutines.get(track, -1) for track in tracks.tolist()], np.int64)
        is_task = codes >= 0
        coroutines.enter([codes[is_task]], lasts[tracks[is_task]])
        by_coroutine = coroutines.grid(
            ["Coroutine"], lambda key: [names[key[0]]], most=MAX_ROWS, title="Tasks by the coroutine that they run"
        )
        return [*([by_coroutine] if by_coroutine is not None else []), self._longest(tracks, lasts, labels, origin)]

    def _longest(self, tracks: Array, lasts: Array, labels: Labels, origin: int) -> Grid:
        """Return the tracks that last longest."""
        order = tracks[np.argsort(-lasts[tracks], kind="stable")[:MAX_ROWS]]
        names, coroutines = self._registry.names.values, self._coroutines
        rows: list[list[str | Cell]] = [
            [
                labels.track(track),
                *([names[coroutines[track]] if track in coroutines else ""] if coroutines else []),
                cells.moment(int(self._sums["start"][track]), origin),
                cells.duration(int(lasts[track])),
                cells.duration(int(self._sums["busy"][track])),
                cells.count(int(self._sums["calls"][track])),
            ]
            for track in order.tolist()
        ]
        headers = ["Task", *(["Coroutine"] if coroutines else []), "Begins at", "Lasts", "In slices", "Slices"]
        return cells.grid(headers, rows, more=len(tracks) - len(rows), title="Tasks and other async operations")
