"""Several traces as one timeline, on one clock.

Two traces are laid beside each other by a clock of the system that both know, see `fxtio.timeline.parts.Registry`; or
by what the user says.  A process that several traces have is one process.  A thread that several have has a track for
each of them, as what one tool saw need not nest with what another one saw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.codec.distinct import GOLDEN_RATIO
from fxtio.errors import FxtioError
from fxtio.report import short_duration
from fxtio.table import MAX_TIME, Categories, Column, numbers_of
from fxtio.timeline.parts import BOOTTIME, MONOTONIC, REALTIME, Registry, Steps, TimelinePart
from fxtio.timeline.schema import LABELS, TrackKind
from fxtio.timeline.timeline import Timeline

_CLOCKS = (MONOTONIC, BOOTTIME, REALTIME)
"""The clocks that relate traces, the most exact one first."""

_NAMES = {MONOTONIC: "CLOCK_MONOTONIC", BOOTTIME: "CLOCK_BOOTTIME", REALTIME: "the wall clock"}
_SECOND = 1_000_000_000
_SAME_BOOT_NS = 2 * _SECOND
"""If the clocks of two traces count from one start of a system, wall clocks agree with that up to this (ns).

Some wall clocks, such as those of uftrace, are whole seconds.
"""

_FIRST_TID = 1_600_000_000
"""The first number for threads whose own number a thread of another trace has."""

_EVENTS = ("event", "end_event")
_ROWS = {"frames": "frame", "stacks": "stack"}
"""The tables to whose rows other tables refer, and the names of the columns that do so."""


class AlignmentError(FxtioError):
    """An error: traces cannot be laid beside each other."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A trace that has its place beside others.

    Attributes:
        timeline: its timeline.
        shift: what is added to its times (ns, not negative).
        how: how its place was found, as a phrase.
    """

    timeline: Timeline
    shift: int
    how: str

    def __str__(self) -> str:
        return f"{self.timeline.name}: its times plus {short_duration(self.shift)}, {self.how}"


def placed(timelines: Sequence[Timeline], offsets: Mapping[int, int] | None = None) -> list[Placed]:
    """Lay traces beside each other.

    Args:
        timelines: the timelines, at least one.
        offsets: for the number of a timeline, not the first: what to add to its times, such that they are times of the
            first one (ns).  Clocks place the others.

    Returns:
        The timelines with their places, in their order.

    Raises:
        AlignmentError: one has no clock in common with any other that has a place, or they are too far from each other.
        DecodeError: a trace was opened with `strict`, and has a fault.
    """
    places = {0: (0, "as it is the first")}
    for number, offset in (offsets or {}).items():
        places[number] = offset, "as given"
    while missing := [number for number in range(len(timelines)) if number not in places]:
        found = min((way for number in missing for way in _ways(timelines, number, places)), default=None)
        if found is None:
            raise AlignmentError(
                f"{timelines[missing[0]].name} has no clock in common with {timelines[0].name}; "
                "it needs an offset: what to add to its times"
            )
        _, number, other, clock, offset = found
        beside = "" if other == 0 else f" of {timelines[other].name}"
        places[number] = offset, f"by {_NAMES[clock]}{beside}"
    least = min(offset for offset, _ in places.values())
    for number, (offset, _) in places.items():
        if offset - least > MAX_TIME:
            raise AlignmentError(f"{timelines[number].name} would be more than 292 years after another trace")
    return [Placed(each, places[number][0] - least, places[number][1]) for number, each in enumerate(timelines)]


def _ways(
    timelines: Sequence[Timeline], number: int, places: Mapping[int, tuple[int, str]]
) -> Iterator[tuple[int, int, int, str, int]]:
    """Yield the ways to place a timeline: beside each that has a place, by the most exact clock that both know.

    Each is how rough it is, the number of the timeline, that of the other one, the clock, and what to add to the times.
    """
    own = timelines[number].clocks
    for other, (offset, _) in places.items():
        known = timelines[other].clocks
        differences = {clock: own[clock] - known[clock] for clock in _CLOCKS if clock in own and clock in known}
        wall = differences.get(REALTIME)
        for clock, difference in differences.items():
            if wall is None or abs(difference - wall) < _SAME_BOOT_NS:
                has_seconds_only = clock == REALTIME and not (own[clock] % _SECOND and known[clock] % _SECOND)
                yield _CLOCKS.index(clock) + has_seconds_only, number, other, clock, offset + difference
                break


class Together(Timeline):
    """The timeline of several traces.

    Args:
        traces: the traces with their places.
    """

    def __init__(self, traces: Sequence[Placed]) -> None:
        self.traces = traces
        names = [each.timeline.name for each in traces]
        super().__init__(" + ".join(names), "several", self._all_parts)

    def close(self) -> None:
        """Close all traces."""
        for each in self.traces:
            each.timeline.close()

    def _all_parts(self, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
        first = dict.fromkeys((*_EVENTS, "frame", "stack"), 0)
        taken: set[tuple[int, int]] = set()
        for number, each in enumerate(self.traces):
            own = Registry()
            own.losses, own.asked_arguments = registry.losses, registry.asked_arguments
            mapping = _Mapping(each, own, registry, dict(first), taken, flows=_salt(number, each.timeline))
            for part in each.timeline.parts(own, tables):
                converted = mapping.part(part)
                converted.share = (number + part.share) / len(self.traces)
                yield converted
            mapping.grow()
            first, taken = mapping.next, taken | mapping.threads


def _salt(number: int, timeline: Timeline) -> int:
    """Return the number that the ids of a trace's flows are combined with, so that no other trace has them by chance.

    It is 0 for FXT: programs give one id to the points of a flow that goes from one trace to another.
    """
    return 0 if timeline.format == "fxt" else (number + 1) * GOLDEN_RATIO % 2**64


class _Mapping:
    """Turns the numbers of a trace into those of the timeline of all.

    Args:
        trace: the trace with its place.
        own: the registry of the trace.
        registry: that of all.
        first: the numbers of its first event, frame and stack.
        taken: the threads of other traces, by the numbers of process and thread.
        flows: what the ids of flows are combined with.

    Attributes:
        next: the numbers of the next event, frame and stack.
        threads: its threads, as `taken`.
    """

    def __init__(
        self, trace: Placed, own: Registry, registry: Registry, first: dict[str, int], taken: Set[tuple[int, int]],
        *, flows: int,
    ) -> None:  # fmt: skip
        self.next = dict(first)
        self.threads: set[tuple[int, int]] = set()
        self._trace = trace
        self._own = own
        self._registry = registry
        self._first = first
        self._taken = taken
        self._flows = np.uint64(flows)
        self._free = count(_FIRST_TID + registry.thread_count)
        self._process_names: list[int] = []
        self._thread_names: list[int] = []
        self._processes: list[int] = []
        self._threads: list[int] = []
        self._is_named: list[bool] = []  # for each process, whether another trace has named it
        self._aliases: dict[int, int] = {}  # the numbers of threads that other traces have as well
        self._tracks = np.array([-1], np.int32)  # the last one is that of none

    def part(self, part: TimelinePart) -> TimelinePart:
        """Convert a batch."""
        self.grow()
        steps = None if part.steps is None else self._steps(part.steps)
        return TimelinePart(steps, {name: self._columns(name, columns) for name, columns in part.tables.items()})

    def grow(self) -> None:
        """Take over what the registry of the trace has learned."""
        own, registry = self._own, self._registry
        for clock, value in own.clocks.items():
            registry.note_clock(clock, value - self._trace.shift)
        for name, text in own.labels.items():
            registry.note_label(name, text)
        registry.shown_unit = registry.shown_unit or own.shown_unit
        registry.call_cost = registry.call_cost or own.call_cost
        for row in range(len(self._processes), len(own.process_names())):
            process = registry.process(own.process_id(row))
            self._processes.append(process)
            self._is_named.append(registry.process_names()[process] >= 0)
        for row in range(len(self._threads), len(own.thread_names())):
            self._threads.append(self._thread(row))
        for row in _changed(self._process_names, own.process_names()):
            if not self._is_named[row]:
                registry.process(own.process_id(row), own.names.values[own.process_names()[row]])
        for row in _changed(self._thread_names, own.thread_names()):
            self._name_thread(row)
        new = [self._track(track) for track in range(len(self._tracks) - 1, own.track_count)]
        if new:
            self._tracks = np.concatenate([self._tracks[:-1], np.array([*new, -1], np.int32)])

    def _thread(self, row: int) -> int:
        """Return the row of a thread, which is a new one if another trace has a thread with its numbers."""
        info = self._own.thread_info(row)
        tid = info.tid
        if self._has(info.pid, tid):
            tid = next(tid for tid in self._free if not self._has(info.pid, tid))
            self._aliases[row] = tid
            self._name_thread(row)
        self.threads.add((info.pid, tid))
        return self._registry.thread(info.pid, tid)

    def _has(self, pid: int, tid: int) -> bool:
        """Return whether there is a thread with these numbers, also one that stands for another."""
        return (pid, tid) in self._taken or (pid, tid) in self.threads

    def _name_thread(self, row: int) -> None:
        """Name a thread as its trace does; one that another trace has, too, with the name of the trace."""
        info, alias = self._own.thread_info(row), self._aliases.get(row)
        if alias is None:
            self._registry.thread(info.pid, info.tid, info.name)
        else:
            self._registry.thread(info.pid, alias, f"{info.name or info.tid} ({self._trace.timeline.name})")

    def _track(self, track: int) -> int:
        info, registry = self._own.track_info(track), self._registry
        process = self._processes[info.process] if info.process >= 0 else -1
        thread = self._threads[info.thread] if info.thread >= 0 else -1
        key = thread if info.kind == TrackKind.THREAD else (self, track)
        name = registry.names.code(info.name)
        return registry.track(info.kind, key, name=name, process=process, thread=thread, id=info.id)

    def _steps(self, steps: Steps) -> Steps:
        shift = np.int64(self._trace.shift)
        is_flow = steps.step == SpanStep.FLOW
        return replace(
            steps,
            track=self._tracks[steps.track],
            time=_shifted(steps.time, shift),
            end=_shifted(steps.end, shift),
            name=self._codes(steps.name),
            category=self._codes(steps.category),
            event=self._moved("event", steps.event),
            id=np.where(is_flow, steps.id ^ self._flows, steps.id),
        )

    def _columns(self, table: str, columns: Mapping[str, Column]) -> dict[str, Column]:
        """Convert rows of a table."""
        result = {name: self._column(table, name, column) for name, column in columns.items()}
        if table in _ROWS:  # others refer to their rows
            self.next[_ROWS[table]] += len(next(iter(columns.values())))
        return result

    def _column(self, table: str, name: str, column: Column) -> Column:
        if isinstance(column, Categories):
            is_label = (table, name) in LABELS
            return column if is_label else self._registry.names.column(self._codes(column.codes))
        numbers = numbers_of(column)
        if name in ("time", "start"):
            return _shifted(numbers, np.int64(self._trace.shift))
        if name in ("thread", "waker"):
            return np.array([*self._threads, -1], np.int32)[numbers]
        if name == "track":
            result: Array = self._tracks[numbers]
            return result
        reference = "stack" if (table, name) == ("stacks", "parent") else name
        return self._moved(reference, numbers) if reference in self._first else numbers

    def _codes(self, codes: Array) -> Array:
        return self._registry.names.codes(Categories(codes, self._own.names.values))

    def _moved(self, reference: str, numbers: Array) -> Array:
        """Return references to events, frames or stacks; -1 is none."""
        if reference in _EVENTS and len(numbers):
            last = self._first[reference] + int(numbers.max()) + 1
            self.next.update({name: max(last, self.next[name]) for name in _EVENTS})
        moved: Array = np.where(numbers >= 0, numbers + self._first[reference], numbers).astype(numbers.dtype)
        return moved


def _shifted(times: Array, shift: np.int64) -> Array:
    return np.minimum(times, MAX_TIME - shift) + shift


def _changed(known: list[int], names: list[int]) -> list[int]:
    """Return the rows whose names are not those that are known, and make them known."""
    if known == names:  # as after most batches
        return []
    rows = [row for row, name in enumerate(names) if name >= 0 and (row >= len(known) or known[row] != name)]
    known[:] = names
    return rows
