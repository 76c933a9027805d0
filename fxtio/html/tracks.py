"""Threads and tasks: how long each is busy, what a task runs and waits for, and when a thread had a processor."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fxtio.arrays import Array
from fxtio.html import contents
from fxtio.html.contents import Cell, DurationGroups, Grid, Groups
from fxtio.table import Table
from fxtio.timeline.answers.answer import UNNAMED, Labels, text_of
from fxtio.timeline.answers.rows import SlicesById
from fxtio.timeline.answers.totals import Totals
from fxtio.timeline.arguments import Arguments
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import FLOW_TYPES, ArgumentKind, TrackKind

MAX_ROWS = 300
"""The most threads that are shown, those that are busy longest, and the most tasks, those that last longest."""

COROUTINE = "coroutine"
"""The argument of the event at the start of the track of an asyncio task, an operation or an instant: the function that
the task runs."""

_CATEGORY = "asyncio"
"""The category of this event."""


class Tracks:
    """Adds up the slices of each track: their number, the time of the outermost ones, the first and the last time."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._totals = Totals()
        self._arguments = Arguments(registry, accepts=self._is_coroutine)
        self._coroutines: dict[int, int] = {}  # the code of the name, by track

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the slices of a batch, and the arguments of what is at the starts of tracks."""
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
        busy, calls = np.where(slices["depth"] == 0, duration, 0), np.ones(len(track), np.int64)
        self._totals.add(track, {"calls": calls, "total": busy, "min": start, "max": start + duration})

    def _tracks(self, *, tasks: bool) -> Array:
        """Return the tracks of tasks, or all others, that have slices."""
        tracks: Array = np.flatnonzero(self._totals["calls"])
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
        order = tracks[np.argsort(-self._totals["total"][tracks], kind="stable")[:MAX_ROWS]]
        columns = (order, *(self._totals[name][order] for name in ("total", "calls", "min", "max")))
        rows: list[list[str | Cell]] = [
            [
                labels.track(track),
                contents.duration(busy),
                contents.share(busy / max(length, 1)),
                contents.count(calls),
                contents.moment(start, origin),
                contents.moment(end, origin),
            ]
            for track, busy, calls, start, end in zip(*(column.tolist() for column in columns), strict=True)
        ]
        headers = ["Thread", "In slices", "Share of the time", "Slices", "First slice at", "Last one ends at"]
        return contents.grid(headers, rows, more=len(tracks) - len(rows), title="Threads")

    def tasks(self, labels: Labels, origin: int) -> list[Grid]:
        """Return the tasks by their coroutines, and the tracks of tasks that last longest, as far as there are any.

        Args:
            labels: the texts for tracks.
            origin: the time that is shown as 0, in nanoseconds.
        """
        tracks = self._tracks(tasks=True)
        if not len(tracks):
            return []
        lasts = self._totals["max"] - self._totals["min"]
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
                contents.moment(int(self._totals["min"][track]), origin),
                contents.duration(int(lasts[track])),
                contents.duration(int(self._totals["total"][track])),
                contents.count(int(self._totals["calls"][track])),
            ]
            for track in order.tolist()
        ]
        headers = ["Task", *(["Coroutine"] if coroutines else []), "Begins at", "Lasts", "In slices", "Slices"]
        return contents.grid(headers, rows, more=len(tracks) - len(rows), title="Tasks and other async operations")


MAX_THREADS = 300
"""The most threads that are shown."""

MAX_ARROWS = 300
"""The most groups of arrows that are shown."""

MAX_WAITING = 200_000
"""The most flows whose next point is waited for, those with the latest points."""

_BEGIN = FLOW_TYPES.index("begin")
_END = FLOW_TYPES.index("end")


class Arrows:
    """Adds up arrows, from each point of a flow to the next one, by the names of the flow and of the slices."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._groups = DurationGroups()
        self._waiting = {name: np.empty(0, dtype) for name, dtype in _POINT.items()}
        self._lost = 0

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the points of a batch, and the slices around them."""
        if "flow_points" not in tables:
            return
        points = tables["flow_points"]
        new = {
            "id": points["id"],
            "time": points["time"],
            "type": points["type"].codes.astype(np.int64),
            "name": points["name"].codes.astype(np.int64),
            "within": SlicesById(self._registry, tables).name_codes(points["slice"]),
        }
        # The points of a flow are together and in the order of time, first the one that waits from earlier batches.
        rows = {name: np.concatenate([self._waiting[name], new[name]]) for name in _POINT}
        order = np.lexsort((rows["time"], rows["id"]))
        rows = {name: column[order] for name, column in rows.items()}
        # In the order of flows and times, an arrow leads from each point to the next one of its flow.
        is_same = rows["id"][1:] == rows["id"][:-1]
        first = np.flatnonzero(is_same & (rows["type"][1:] != _BEGIN) & (rows["type"][:-1] != _END))
        keys = [rows["name"][first], rows["within"][first], rows["within"][first + 1]]
        self._groups.enter(keys, rows["time"][first + 1] - rows["time"][first])
        last = np.flatnonzero(np.append(~is_same, True) & (rows["type"] != _END))
        if len(last) > MAX_WAITING:
            self._lost += len(last) - MAX_WAITING
            last = last[np.argsort(-rows["time"][last], kind="stable")[:MAX_WAITING]]
        self._waiting = {name: column[last] for name, column in rows.items()}

    def grid(self) -> Grid | None:
        """Return the arrows by their names, None if there are none."""
        names = self._registry.names.values

        def label(key: tuple[int, ...]) -> list[str | Cell]:
            return [text_of(names, key[1]), text_of(names, key[2]), text_of(names, key[0])]

        title = "Arrows from one slice to the next"
        return self._groups.grid(["From", "To", "Flow"], label, most=MAX_ARROWS, title=title, by="calls")

    def notes(self) -> list[str]:
        """Return sentences about what is not shown."""
        missing = self._lost + self._groups.missed
        return [f"{missing:,} arrows with many ids or names are not counted."] if missing else []


_POINT = {"id": np.uint64, "time": np.int64, "type": np.int64, "name": np.int64, "within": np.int64}
"""The columns of points that wait for the next one with their id."""


class Processors:
    """Adds up the times for which threads ran, and for which they waited until they ran again; and who woke them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._runs = DurationGroups()
        self._pauses = DurationGroups()
        self._wakeups = Groups()
        self._last = {name: np.empty(0, np.int64) for name in ("thread", "start", "end", "state")}

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the runs and wakeups of a batch."""
        if "scheduling" in tables:
            self._enter(tables["scheduling"])
        if "wakeups" in tables:
            self._wakeups.add([tables["wakeups"][name] for name in ("waker", "thread")], {})

    def _enter(self, table: Table) -> None:
        self._runs.enter([table["thread"]], table["duration"])
        end, state = table["start"] + table["duration"], table["state"].codes
        new = {"thread": table["thread"], "start": table["start"], "end": end, "state": state}
        rows = {name: np.concatenate([last, new[name]]) for name, last in self._last.items()}
        # The last run of each thread in earlier batches is before those that follow it here.
        order = np.lexsort((rows["start"], rows["thread"]))
        thread, start, end, state = (column[order] for column in rows.values())
        is_same = thread[1:] == thread[:-1]
        before = np.flatnonzero(is_same)
        self._pauses.enter([thread[before], state[before]], np.maximum(start[before + 1] - end[before], 0))
        last = order[np.append(~is_same, True)]
        self._last = {name: column[last] for name, column in rows.items()}

    def grids(self, labels: Labels) -> list[Grid]:
        """Return the grids about runs, pauses and wakeups, as far as there are any."""
        names = self._registry.names.values
        runs = self._runs.grid(
            ["Thread"], lambda key: [labels.thread(key[0])], most=MAX_THREADS, title="Threads on processors"
        )

        def state(key: tuple[int, ...]) -> list[str | Cell]:
            return [labels.thread(key[0]), "unknown" if key[1] < 0 else text_of(names, key[1])]

        pauses = self._pauses.grid(["Thread", "State"], state, most=MAX_THREADS, title="Threads that wait")
        pairs, counts = self._wakeups.largest("calls"), self._wakeups.totals["calls"]
        rows: list[list[str | Cell]] = [
            [UNNAMED if waker < 0 else labels.thread(waker), labels.thread(thread), contents.count(int(counts[number]))]
            for (waker, thread), number in pairs[:MAX_ARROWS]
        ]
        more = len(pairs) - len(rows)
        headers = ["Woken by", "Thread", "Count"]
        wakeups = contents.grid(headers, rows, more=more, title="Who wakes whom") if rows else None
        return [grid for grid in (runs, pauses, wakeups) if grid is not None]

    def notes(self) -> list[str]:
        """Return sentences about what is not shown."""
        missed = self._wakeups.missed
        return [f"{missed:,} wakeups between further threads are not counted."] if missed else []
