"""The answer to what held an event loop of asyncio: steps that took long, the calls in them, and how late loops were.

A loop runs steps, one after another: callbacks, and tasks from one `await` to the next.  In a trace, a step is a slice
on the track of the loop's thread: what the source `asyncio` of a recording writes, or the call of asyncio's function
that runs it, or else the outermost stretch of a coroutine.  While a step runs, nothing else of the loop does.

Before each iteration a loop looks for what has become ready; then it runs the steps of all of that.  So what happens
meanwhile is late by up to the time from the first of these steps to the end of the last one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fxtio.arrays import Array
from fxtio.selection import EVERYTHING, Selection
from fxtio.table import MAX_TIME, Table, numbers_of
from fxtio.timeline.answers.answer import Labels, QuestionError, text_of
from fxtio.timeline.answers.places import AWAITED, NAMES, Places, place_of
from fxtio.timeline.answers.rows import Chosen, Rows, Texts, chosen
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import TrackKind
from fxtio.timeline.typecheck import check_types

if TYPE_CHECKING:
    from fxtio.timeline.timeline import Timeline

LONGER = 50_000_000
"""How long a step holds its loop at least, unless asked otherwise (ns)."""

CATEGORY = "asyncio"
"""The category of the slices that the source `asyncio` of a recording writes."""

STEP, ITERATION = "step ", "iteration"
"""How the names of its steps begin, and the name of its iterations."""

_RUN = re.compile(r"asyncio\.events\.Handle\._run$|(Handle\.)?_run\b.*\basyncio[/\\]events\.py")
_RUN_ONCE = re.compile(
    r"asyncio\.base_events\.BaseEventLoop\._run_once$|(BaseEventLoop\.)?_run_once\b.*\basyncio[/\\]base_events\.py"
)
"""The functions of asyncio that run a step and an iteration, as recordings of fxtio and as other tools name them."""


@dataclass(frozen=True, slots=True)
class Block:
    """A step that held its loop.

    Attributes:
        time: its begin, in nanoseconds.
        duration: its length, in nanoseconds.
        name: the function that held the loop: the innermost one that has at least half of the time.
        step: what the loop ran: the coroutine of a task, or a callback.
        awaiting: the innermost coroutine around the function, which went on after its `await`; None without one.
        calls: the calls from the step to the function, with the nanoseconds of each.
        thread: the thread of the loop.
        defined_in: the file and line of the function, None if the trace does not say.
    """

    time: int
    duration: int
    name: str
    step: str
    awaiting: str | None
    calls: list[tuple[str, int]]
    thread: str
    defined_in: str | None


@dataclass(frozen=True, slots=True)
class Loop:
    """The loop of a thread.

    Attributes:
        thread: the thread.
        steps: the number of steps that it ran.
        time: from the first of them to the end of the last one, in nanoseconds.
        blocks: the number of those that held it.
        blocked: the time of these, in nanoseconds.
        late: the time of all iterations that took that long, in nanoseconds.
        worst: the longest time of an iteration, in nanoseconds: how late the loop was at worst.
    """

    thread: str
    steps: int
    time: int
    blocks: int
    blocked: int
    late: int
    worst: int

    @property
    def share(self) -> float:
        """The part of the time in which it was held (0 to 1)."""
        return self.blocked / self.time if self.time else 0.0


@dataclass(slots=True)
class Blocks:
    """What held event loops.

    Attributes:
        longer: how long a step holds its loop at least (ns).
        rows: the worst ones, the longest first.
        count: the number of all.
        loops: the loops, that which was blocked longest first.
    """

    longer: int
    rows: list[Block] = field(default_factory=list)
    count: int = 0
    loops: list[Loop] = field(default_factory=list)


def blocking(
    timeline: Timeline, *, longer: int = LONGER, limit: int | None = None, selection: Selection | None = None
) -> Blocks:
    """Find what held the event loops of asyncio, in one reading whose memory is bounded by the limit.

    There is another reading if threads or processes are selected.

    Args:
        timeline: the timeline.
        longer: the least duration of a step that held its loop, in nanoseconds.
        limit: the most rows, None for all.
        selection: the part of the trace; steps are cut to its range, and names and categories are those of the function
            that held the loop.

    Raises:
        QuestionError: the duration is not greater than 0.
        TypeError: an argument is of a wrong type.
    """
    check_types(timeline=timeline, longer=longer, limit=limit, selection=selection)
    if not longer or longer < 0:
        raise QuestionError("a loop is held for a time greater than 0")
    selection = selection or EVERYTHING
    subset = chosen(timeline, selection, "slices", "args")
    make = partial(_Search, longer=longer, limit=limit, selection=selection, subset=subset)
    search, registry = timeline.fold(make, "slices", "args")
    return search.finish(registry)


class _Kinds:
    """Tells which slices are steps and iterations, by their names and categories."""

    def __init__(self, registry: Registry) -> None:
        self._names = registry.names
        values = registry.names.values
        self._run = Texts(values, lambda name: _RUN.match(name) is not None, null=False)
        self._run_once = Texts(values, lambda name: _RUN_ONCE.match(name) is not None, null=False)
        self._step = Texts(values, lambda name: name.startswith(STEP), null=False)
        self._iteration = Texts(values, ITERATION.__eq__, null=False)
        self._category = Texts(values, CATEGORY.__eq__, null=False)
        self._seen = 0
        self._coroutines = np.empty(0, np.int64)

    def coroutines(self) -> Array:
        """Return the codes of the names of coroutines that tasks have run (int64): those that have an `await`."""
        new = [name for name in self._names.values[self._seen :] if name.startswith(AWAITED)]
        self._seen = len(self._names.values)
        if new:
            codes = [self._names.code(name.removeprefix(AWAITED)) for name in new]
            self._coroutines = np.union1d(self._coroutines, np.array(codes, np.int64))
        return self._coroutines

    def steps(self, slices: Table) -> Array:
        """Return which slices are steps, or stretches of coroutines (bool)."""
        name = slices["name"].codes
        own = self._step.has(name) & self._category.has(slices["category"].codes)
        result: Array = own | self._run.has(name) | np.isin(name, self.coroutines())
        return result

    def iterations(self, slices: Table) -> Array:
        """Return which slices are iterations (bool)."""
        name = slices["name"].codes
        own = self._iteration.has(name) & self._category.has(slices["category"].codes)
        result: Array = own | self._run_once.has(name)
        return result

    def is_plumbing(self, code: int) -> bool:
        """Return whether a name is that of asyncio's function that runs a step."""
        return bool(self._run.has(np.array([code]))[0])


_COLUMNS = ("id", "parent", "start", "duration", "track", "name", "category")


def _numbers(slices: Table) -> Array:
    """Return the columns of slices as rows of one array (int64)."""
    return np.stack([numbers_of(slices[name]).astype(np.int64) for name in _COLUMNS])


class _Search:
    """Finds the steps that hold loops, and the way from each to the function that has most of its time."""

    def __init__(
        self, registry: Registry, *, longer: int, limit: int | None, selection: Selection, subset: Chosen | None
    ) -> None:
        registry.asked_arguments = NAMES
        self._registry = registry
        self._longer, self._limit, self._selection = longer, limit, selection
        self._rows = Rows(registry, Selection(selection.start, selection.end), subset)
        self._kinds = _Kinds(registry)
        self._places = Places(registry)
        self._loops = _Loops(registry, longer)
        self._long = np.empty((len(_COLUMNS), 0), np.int64)
        self._found: list[tuple[int, int, int, list[tuple[int, int]]]] = []
        self._count = 0

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the slices of a batch, and their arguments."""
        self._places.enter(tables)
        if "slices" in tables:
            self._places.note(tables["slices"])
            self._enter(self._rows.slices(tables["slices"]), tables["slices"])
        self._places.leave(tables)

    def _enter(self, slices: Table, whole: Table) -> None:
        unfinished = self._registry.open_slices()
        slices = slices.take(self._on_thread(slices))
        steps = slices.take(np.isin(slices["id"], self._outermost(whole, unfinished)))
        iterations = [table["id"][self._kinds.iterations(table)] for table in (whole, unfinished)]
        self._loops.enter(steps, np.isin(steps["parent"], np.concatenate(iterations)))
        # A function with half of the time of a step that is found lasts half of the limit at least.
        is_long = slices["duration"] >= self._longer - self._longer // 2
        self._long = np.concatenate([self._long, _numbers(slices.take(is_long))], axis=1)
        self._find(_numbers(steps.take(steps["duration"] >= self._longer)))
        self._forget(unfinished)

    def _outermost(self, *tables: Table) -> Array:
        """Return the ids of the steps that are in no other one, of a batch and of what is open (int64)."""
        steps = [table.take(self._kinds.steps(table) & self._on_thread(table)) for table in tables]
        track, start, duration, depth, number = (
            np.concatenate([table[name].astype(np.int64) for table in steps])
            for name in ("track", "start", "duration", "depth", "id")
        )
        order = np.lexsort((depth, start, track))
        end = np.where(duration < 0, MAX_TIME, start + duration)[order]
        track, start = track[order], start[order]
        is_outer = np.ones(len(order), bool)
        # The steps of a track are in the order of their begins: one that begins before the latest end is in another.
        for own in np.split(np.arange(len(order)), np.flatnonzero(np.diff(track)) + 1):
            is_outer[own[1:]] = start[own[1:]] >= np.maximum.accumulate(end[own])[:-1]
        result: Array = number[order][is_outer]
        return result

    def _on_thread(self, slices: Table) -> Array:
        result: Array = self._registry.track_kinds(slices["track"]) == TrackKind.THREAD
        return result

    def _forget(self, unfinished: Table) -> None:
        """Forget what is in no open step: the slices of a track from the begin of its first open step on stay."""
        steps = unfinished.take(self._kinds.steps(unfinished) & self._on_thread(unfinished))
        first = np.full(self._registry.track_count, MAX_TIME)
        np.minimum.at(first, steps["track"], steps["start"])
        start, track = (self._long[_COLUMNS.index(name)] for name in ("start", "track"))
        self._long = self._long[:, start >= np.maximum(first[track], self._rows.start)]

    def _find(self, steps: Array) -> None:
        """Take the steps that hold a loop; all that happened in them is known."""
        within: dict[int, list[list[int]]] = {}
        if steps.size:
            for row in self._long.T.tolist():
                within.setdefault(row[1], []).append(row)
        for step in steps.T.tolist():
            path = [step]
            while calls := within.get(path[-1][0]):
                call = max(calls, key=lambda row: row[3])
                if call[3] < step[3] - step[3] // 2:
                    break
                path.append(call)
            names = self._registry.names.values
            name, category = (text_of(names, code) if code >= 0 else "" for code in path[-1][5:])
            if self._selection.has_name(_function(name)) and self._selection.has_category(category):
                self._count += 1
                self._loops.add_block(step[4], step[3])
                self._found.append((step[3], step[2], step[4], [(row[5], row[3]) for row in path]))
        if self._limit is not None and len(self._found) > 2 * self._limit:
            self._found = self._first()

    def _first(self) -> list[tuple[int, int, int, list[tuple[int, int]]]]:
        return sorted(self._found, key=lambda each: (-each[0], each[1]))[: self._limit]

    def finish(self, registry: Registry) -> Blocks:
        """Return what was found."""
        labels, places = Labels(registry.tables()), self._places.by_name()
        rows = [self._block(*each, labels, places) for each in self._first()]
        return Blocks(self._longer, rows, self._count, self._loops.finish(labels))

    def _block(
        self,
        duration: int,
        time: int,
        track: int,
        path: list[tuple[int, int]],
        labels: Labels,
        places: Mapping[str, str],
    ) -> Block:
        names = self._registry.names.values
        inner = [each for each in path if not self._kinds.is_plumbing(each[0])] or path
        if len(inner) > 1 and text_of(names, inner[0][0]).startswith(STEP):
            del inner[0]  # the slice of what it runs says the same
        coroutines = {*self._kinds.coroutines().tolist()}
        calls = [(_function(text_of(names, code)), lasts) for code, lasts in inner]
        awaiting = [text_of(names, code) for code, _ in inner if code in coroutines]
        place = place_of(text_of(names, inner[-1][0]), places)
        return Block(
            time,
            duration,
            calls[-1][0],
            calls[0][0],
            awaiting[-1] if awaiting else None,
            calls,
            labels.track(track),
            place,
        )


def _function(name: str) -> str:
    """Return the name of what a slice runs."""
    return name.removeprefix(STEP)


class _Loops:
    """Sums up the steps and iterations of each loop."""

    def __init__(self, registry: Registry, longer: int) -> None:
        self._registry = registry
        self._longer = longer
        self._sums: dict[int, dict[str, int]] = {}
        # Iterations that are not over: the id, the track, the begin of the first step, the end of the last one.
        self._iterations = np.empty((4, 0), np.int64)

    def enter(self, steps: Table, in_iteration: Array) -> None:
        """Take the steps of a batch, and which of them are in an iteration; each of the others is one of its own."""
        key = np.where(in_iteration, steps["parent"], steps["id"])
        end = steps["start"] + steps["duration"]
        columns = np.stack([key, steps["track"].astype(np.int64), steps["start"], end])
        for track in np.unique(columns[1]).tolist():
            own = columns[:, columns[1] == track]
            sums = self._sums_of(track)
            sums["steps"] += own.shape[1]
            sums["start"] = min(sums["start"], int(own[2].min()))
            sums["end"] = max(sums["end"], int(own[3].max()))
        self._iterations = np.concatenate([self._iterations, columns], axis=1)
        self._add_iterations(self._registry.open_slices()["id"])

    def _add_iterations(self, unfinished: Array) -> None:
        """Add the iterations that are over, and keep the others."""
        keys, at, row = np.unique(self._iterations[0], return_index=True, return_inverse=True)
        track = self._iterations[1, at]
        start, end = np.full(len(keys), MAX_TIME), np.full(len(keys), -MAX_TIME)
        np.minimum.at(start, row, self._iterations[2])
        np.maximum.at(end, row, self._iterations[3])
        is_open = np.isin(keys, unfinished)
        self._iterations = np.stack([keys, track, start, end])[:, is_open]
        late = end - start
        for each in np.unique(track[~is_open]).tolist():
            own, sums = late[~is_open & (track == each)], self._sums_of(each)
            sums["late"] += sum(own[own >= self._longer].tolist())
            sums["worst"] = max(sums["worst"], int(own.max()))

    def add_block(self, track: int, duration: int) -> None:
        """Add a step that has held the loop of a track."""
        sums = self._sums_of(track)
        sums["blocks"] += 1
        sums["blocked"] += duration

    def _sums_of(self, track: int) -> dict[str, int]:
        blank = {
            **dict.fromkeys(("steps", "blocks", "blocked", "late", "worst"), 0),
            "start": MAX_TIME,
            "end": -MAX_TIME,
        }
        return self._sums.setdefault(track, blank)

    def finish(self, labels: Labels) -> list[Loop]:
        """Return the loops, that which was blocked longest first."""
        self._add_iterations(np.empty(0, np.int64))
        loops = []
        for track, sums in self._sums.items():
            time = sums.pop("end") - sums.pop("start")
            loops.append(Loop(labels.track(track), time=time, **sums))
        return sorted(loops, key=lambda loop: (-loop.blocked, -loop.worst))
