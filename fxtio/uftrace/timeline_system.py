"""The part of a timeline that comes from the files of a data directory which do not belong to one task.

These are the scheduler (`perf-cpu<N>.dat`), the kernel, the beginnings of tasks and sessions, and messages.  The calls
of the kernel are merged into those of the task in which they run.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from fxtio._native.constants import SliceState, SpanStep
from fxtio.arrays import Array
from fxtio.codec.distinct import rows_of_each
from fxtio.codec.integers import MAX_UINT64
from fxtio.table import MAX_TIME, Column, Table
from fxtio.timeline.parts import Registry, Steps, TimelinePart
from fxtio.timeline.scheduling import IDLE, Processors
from fxtio.timeline.schema import SCOPES, ArgumentKind, TrackKind
from fxtio.uftrace.perf import EXEC, KINDS, PREEMPTED, SCHED_IN, SCHED_OUT, TASK_EXIT, TASK_NAME, TASK_NEW
from fxtio.uftrace.small_files import SmallFiles
from fxtio.uftrace.tasks import Dlopen, Fork, Session

KERNEL = "kernel"
"""The category of calls and other events of the kernel."""


class SystemFiles:
    """The content of the files that do not belong to one task, read at once.

    Args:
        reading: has the files.
        registry: numbers names, threads and tracks.
        tables: the tables of the timeline that are needed.

    Attributes:
        event_count: the number of events of these files, which are numbered from 0.
    """

    def __init__(self, reading: SmallFiles, registry: Registry, tables: Set[str]) -> None:
        self._reading = reading
        self._registry = registry
        self._names = registry.names
        self._tables = tables
        self._has_steps = bool(tables & {"slices", "instants", "flow_points"})
        self._args: list[tuple[int, int, int, int, int]] = []
        self._of_task: dict[int, Steps] = {}
        self._merged: dict[int, int] = {}  # how many of these rows were returned, by task
        self.event_count = 0

    def track(self, tid: int) -> int:
        """Return the track of a task."""
        return self._registry.thread_track(self._reading.sessions.process_of(tid), tid)

    def part(self) -> TimelinePart:
        """Return everything except the steps that are merged into those of tasks."""
        part, sched = TimelinePart(), self._reading.table("sched")
        self._name(sched)
        if self._has_steps or "args" in self._tables:
            part.steps = self._process_instants(sched)
            self._kernel_steps()
        if "args" in self._tables:
            part.tables["args"] = self._args_table()
        if "logs" in self._tables:
            messages = self._reading.table("messages")
            logs = {"time": messages["time"], "message": self._names.codes(messages["text"]), "thread": -1, "level": -1}
            part.tables["logs"] = self._registry.columns("logs", logs)
        if "scheduling" in self._tables:
            part.tables["scheduling"] = self._scheduling(sched)
        return part

    def rows_until(self, tid: int, times: Array | None) -> tuple[Array, Steps]:
        """Return the steps of the kernel that belong among the next records of a task, each step once.

        Args:
            tid: the task.
            times: the times of these records (int64 ns), or None after the last one.

        Returns:
            For each step the row of the record before which it belongs (int64), and the steps.
        """
        steps = self._of_task.get(tid)
        if steps is None:
            return np.empty(0, np.int64), Steps.blank(0)
        begin = self._merged.get(tid, 0)
        if times is None:
            self._merged[tid] = len(steps)
            return np.empty(0, np.int64), steps.take(np.arange(begin, len(steps)))
        ordered = np.maximum.accumulate(times)
        self._merged[tid] = end = max(int(np.searchsorted(steps.time, ordered[-1], "right")), begin)
        chosen = steps.take(np.arange(begin, end))
        return np.searchsorted(ordered, chosen.time, "right"), chosen

    def rest(self) -> Steps | None:
        """Return the steps of the kernel in tasks without records, or None."""
        parts = [self.rows_until(tid, None)[1] for tid in self._of_task]
        return Steps.joined(parts) if parts else None

    def _name(self, sched: Table) -> None:
        """Name processes after their programs, and threads as the scheduler does."""
        for tid, pid, program in self._reading.tasks():
            self._registry.process(pid, program.rpartition("/")[2] or None)
            self._registry.thread(pid, tid)
        named = np.flatnonzero(np.isin(sched["kind"].codes, (TASK_NAME, EXEC)))
        for tid, name in zip(sched["tid"][named].tolist(), sched["name"].take(named), strict=True):
            self._registry.thread(self._reading.sessions.process_of(tid), tid, name)

    # ---- instants of processes

    def _process_instants(self, sched: Table) -> Steps:
        """Return instants for the beginnings and ends of programs and tasks, in the order of time."""
        process_of = self._reading.sessions.process_of
        rows: list[tuple[int, int, str, dict[str, Any]]] = []
        for event in self._reading.sessions.file.events:
            if isinstance(event, Session):
                rows.append((event.time, event.pid, "program", {"path": event.exename}))
            elif isinstance(event, Fork):
                rows.append((event.time, event.pid, "fork", {"parent": event.ppid}))
            elif isinstance(event, Dlopen):
                rows.append((event.time, process_of(event.tid), "library", {"path": event.libname}))
        changes = np.flatnonzero(np.isin(sched["kind"].codes, (TASK_NEW, TASK_EXIT, TASK_NAME, EXEC)))
        for row in sched.take(changes).rows():
            args = {"task": row["tid"], "name": row["name"] or None, "parent": row["parent"]}
            args = {name: value for name, value in args.items() if value is not None}
            rows.append((row["time"], process_of(row["tid"]), row["kind"], args))
        rows.sort(key=lambda item: item[0])
        first = self.event_count
        for number, (_, _, _, args) in enumerate(rows):
            self._add_args(first + number, args)
        self.event_count += len(rows)
        steps = Steps.blank(len(rows), first)
        steps.step[:], steps.detail[:] = SpanStep.INSTANT, SCOPES.index("process")
        steps.time[:] = [min(time, MAX_TIME) for time, _, _, _ in rows]
        steps.ticks[:] = [min(time, MAX_UINT64) for time, _, _, _ in rows]
        track, process = self._registry.track, self._registry.process
        steps.track[:] = [track(TrackKind.PROCESS, pid, process=process(pid)) for _, pid, _, _ in rows]
        steps.name[:] = [self._names.code(name) for _, _, name, _ in rows]
        return steps

    def _add_args(self, event: int, values: Mapping[str, int | str]) -> None:
        """Add the arguments of an event."""
        for name, value in values.items():
            if isinstance(value, str):
                row = (ArgumentKind.TEXT, 0, self._names.code(value))
            else:
                row = (ArgumentKind.INTEGER if value < 2**63 else ArgumentKind.UNSIGNED, value % 2**64, -1)
            self._args.append((event, self._names.code(name), *row))

    def _args_table(self) -> dict[str, Column]:
        event, name, kind, bits, text = zip(*self._args, strict=True) if self._args else ((),) * 5
        columns = {"event": event, "name": name, "type": kind, "bits": np.array(bits, np.uint64), "text": text}
        return self._registry.columns("args", columns)

    # ---- the kernel

    def _kernel_steps(self) -> None:
        """Make the steps of the calls and the other events of the kernel, task by task."""
        events = self._reading.kernel_events_by_time
        if not events:
            return
        first, category = self.event_count, self._names.code(KERNEL)
        self.event_count += len(events)
        calls = self._reading.table("kernel_slices")
        steps = Steps.blank(calls.num_rows)
        is_whole = calls["state"].is_in("whole")
        steps.step[:], steps.time[:], steps.ticks[:] = SpanStep.COMPLETE, calls["start"], calls["start"]
        steps.end[:], steps.category[:] = calls["start"] + calls["duration"], category
        steps.detail[:] = np.where(is_whole, np.int8(SliceState.CLOSED), np.int8(SliceState.OPEN))
        steps.name[:] = self._names.codes(calls["name"])
        unnamed = np.flatnonzero(steps.name < 0)
        steps.name[unnamed] = [self._names.code(f"<{address:x}>") for address in calls["address"][unnamed].tolist()]
        steps.event[:] = np.where(calls["entry"] >= 0, calls["entry"] + first, -1)
        numbers = [number for number, event in enumerate(events) if not event.is_call]
        instants = Steps.blank(len(numbers))
        others = [events[number] for number in numbers]
        instants.step[:], instants.category[:], instants.event[:] = SpanStep.INSTANT, category, numbers
        instants.event += first
        instants.time[:] = instants.ticks[:] = [min(event.time, MAX_TIME) for event in others]
        instants.name[:] = [self._names.code(event.label or f"kernel_event:{event.id}") for event in others]
        for number, event in zip(instants.event.tolist(), others, strict=True):
            self._add_args(number, event.values)
        # The steps of a track are in the order of time; of calls that begin together, the longer one is the outer one.
        rows = Steps.joined([steps, instants])
        tids = np.append(calls["tid"], np.array([event.tid for event in others], np.int64))
        for tid, of_task in rows_of_each(tids):
            mine = rows.take(of_task)
            mine.track[:] = self.track(tid)
            order = np.lexsort((-mine.end, mine.time))
            self._of_task[tid] = mine.take(order)

    # ---- the scheduler

    def _scheduling(self, sched: Table) -> dict[str, Column]:
        """Return when the tasks ran."""
        switches = sched.take(np.flatnonzero(np.isin(sched["kind"].codes, (SCHED_IN, SCHED_OUT, PREEMPTED))))
        kinds, tids = switches["kind"].codes, switches["tid"]
        distinct, place = np.unique(tids, return_inverse=True)
        threads = [self._registry.thread(self._reading.sessions.process_of(tid), tid) for tid in distinct.tolist()]
        states = np.full(len(KINDS), -1, np.int32)
        states[[SCHED_OUT, PREEMPTED]] = self._names.code("blocked"), self._names.code("runnable")
        cpus = np.unique(switches["cpu"]).astype(np.int32)
        end = int(switches["time"].max(initial=0))
        return Processors(self._registry).enter(  # the processors stop at the end of the trace
            time=np.append(switches["time"], np.full(len(cpus), end)),
            cpu=np.append(switches["cpu"].astype(np.int32), cpus),
            thread=np.append(
                np.where(kinds == SCHED_IN, np.array([*threads, IDLE], np.int32)[place], np.int32(IDLE)),
                np.full(len(cpus), IDLE, np.int32),
            ),
            priority=np.zeros(len(kinds) + len(cpus), np.int64),
            state=np.append(states[kinds], np.full(len(cpus), -1, np.int32)),
        )
