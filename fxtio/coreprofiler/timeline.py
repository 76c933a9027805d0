"""The room `timeline`: a trace as steps on tracks and rows of tables, see `fxtio.timeline.parts`.

A sample of a thread says how many frames were not left since the last one.  The activations above them end with the
sample, and those of the new stack begin, so that the slices of a sampled program are split at its samples.  The number
of an event is the offset of its line.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.codec.integers import MAX_INT64
from fxtio.coreprofiler.layout import NS_PER_MS
from fxtio.io.reading import since_epoch
from fxtio.references import Lookup
from fxtio.table import Column, Table
from fxtio.timeline.arguments import NewArguments
from fxtio.timeline.parts import Registry, Steps, TimelinePart
from fxtio.timeline.schema import ArgumentKind, TrackKind
from fxtio.timeline.stacks import Stacks

if TYPE_CHECKING:
    from fxtio.coreprofiler.reader import CoreProfilerTrace

NOT_CARRIED = (
    "the instruction pointers of frames and allocations",
    "the source lines that rewritten traces have in place of instruction pointers",
    "loads of modules, assemblies, application domains and classes, and the code of functions",
    "the objects that remain in the heap by class",
    "the parameters of the profiler",
    "the return types and parameters of functions",
)
"""The content of a trace that its timeline does not have."""

_SAMPLED = ("sample_stacks", "stacks")
_COUNTED = ("process_cpu", "thread_cpu", "heap_generations", "generations")
_SPANS = {
    "jit_starts": (SpanStep.BEGIN, "JIT"),
    "jit_ends": (SpanStep.END, "JIT"),
    "jit_search_starts": (SpanStep.BEGIN, "JIT search"),
    "jit_search_ends": (SpanStep.END, "JIT search"),
    "gc_starts": (SpanStep.BEGIN, "GC"),
    "gc_ends": (SpanStep.END, "GC"),
}
_PAUSES = {"pauses": SpanStep.BEGIN, "resumptions": SpanStep.END}
_PAUSED = "profiler paused"
_MAX_USAGE = 2**63  # a larger one is a difference below 0


def parts(trace: CoreProfilerTrace, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    """Read a trace, and yield what each batch adds to its timeline.

    Args:
        trace: the trace.
        registry: numbers names, threads and tracks.
        tables: the tables of the timeline that are needed.
    """
    names = WholeNames(registry, trace.tables(*TABLES))
    registry.note_wall_clock(names.wall_clock)
    mapping = _Mapping(registry, tables, names)
    for batch in trace.batches(*mapping.sources):
        yield mapping.part(batch)
    yield mapping.finish()


TABLES = (
    "function_names", "function_names_old", "class_names", "functions", "compiled_functions", "cached_functions",
    "thread_assignments", "app_domains", "config", "starts",
)  # fmt: skip
"""The tables from which names are taken."""

CLASS_END = "::"
"""The text between the class and the method in the name of a function."""

_MAX_PID = 2**31


class WholeNames:
    """The names of a trace.

    Args:
        registry: has the names and threads.
        tables: the tables `TABLES`.

    Attributes:
        pid: the process, 0 if it is not known.
        wall_clock: the nanoseconds since the Unix epoch at the start of profiling; None if only local time is known.
        tick: the nanoseconds of a sampling tick, None if they are not known.
    """

    def __init__(self, registry: Registry, tables: dict[str, Table]) -> None:
        self._registry = registry
        self._function: dict[int, str] = {}
        for table in ("function_names_old", "function_names"):
            self._function |= zip(tables[table]["function_iid"].tolist(), tables[table]["name"], strict=True)
        names = tables["class_names"]
        self._class: dict[int, str] = dict(zip(names["class_iid"].tolist(), names["name"], strict=True))
        functions = [tables[name] for name in ("functions", "compiled_functions", "cached_functions")]
        ids, offsets, self._iids = (
            np.concatenate([table[name] for table in functions]) for name in ("function_id", "offset", "function_iid")
        )
        self._rows_of_ids = Lookup(ids, -offsets, np.arange(len(ids)))  # a function is usually defined after its use
        assignments = tables["thread_assignments"]
        os_threads, self._assigned = assignments["os_thread"].astype(np.uint64), assignments["thread"]
        self._rows_of_os_threads = Lookup(os_threads, assignments["offset"], np.arange(len(os_threads)))
        self._os_thread = dict(zip(assignments["thread"].tolist(), assignments["os_thread"].tolist(), strict=True))
        processes = [pid for pid in tables["app_domains"]["process_id"].tolist() if 0 < pid < _MAX_PID]
        self.pid = processes[0] if processes else 0
        self.wall_clock = _wall_clock(tables["starts"]["started_at"].tolist())
        self.tick = _tick(dict(zip(tables["config"]["name"], tables["config"]["value"], strict=True)))

    def function(self, iid: int) -> str:
        """Return the name of a function."""
        return self._function.get(iid, f"<function {iid}>" if iid >= 0 else "<unknown>")

    def class_codes(self, iids: Array) -> Array:
        """Return the codes of the names of classes (int32), -1 for those without one."""
        distinct, place = np.unique(iids, return_inverse=True)
        codes = [self._registry.names.code(self._class.get(iid)) for iid in distinct.tolist()]
        return np.array(codes, np.int32)[place]

    def codes_of_ids(self, ids: Array, offsets: Array) -> list[int]:
        """Return the codes of the names of the functions that have these identifiers at places of the file."""
        rows = self._rows_of_ids.codes(ids, -offsets)
        iids = np.append(self._iids, -1)[rows].tolist()
        functions = zip(rows.tolist(), iids, ids.tolist(), strict=True)
        names = (self.function(iid) if row >= 0 else f"<{identifier:x}>" for row, iid, identifier in functions)
        return [*map(self._registry.names.code, names)]

    def threads_of(self, table: Table) -> list[int]:
        """Return the rows of the threads of compilations or collections, which may have numbers of the system."""
        rows, is_os = (
            self._rows_of_os_threads.codes(table["thread"].astype(np.uint64), table["offset"]),
            table["thread_is_os"],
        )
        iids = np.where(is_os & (rows >= 0), np.append(self._assigned, -1)[rows], table["thread"])
        unknown = is_os & (rows < 0)
        return [self.thread(*each) for each in zip(iids.tolist(), unknown.tolist(), strict=True)]

    def thread(self, number: int, is_os: bool = False) -> int:
        """Return the row of a thread, given by its Internal ID, or by its number in the operating system."""
        os_number = number if is_os else self._os_thread.get(number)
        return self._registry.thread(self.pid, number, None if os_number is None else f"OS thread {os_number}")


def _wall_clock(starts: list[str | None]) -> int | None:
    """Return the wall-clock time of the first start of profiling, see `WholeNames.wall_clock`."""
    return since_epoch(datetime.fromisoformat(starts[0])) if starts and starts[0] is not None else None


def _tick(config: dict[str, str]) -> int | None:
    """Return the nanoseconds of a sampling tick."""
    text = config.get("SamplingTimeoutMs", "")
    is_sampled = config.get("CollectionMethod") == "Sampling" and text.isascii() and text.isdigit() and len(text) < 7
    return int(text) * NS_PER_MS or None if is_sampled else None


@dataclass(slots=True)
class _Activations:
    """The functions of a thread that are shown as slices.

    Attributes:
        track: the track of the thread.
        depth: their number.
        time: the time of the thread's last sample in nanoseconds.
    """

    track: int
    depth: int = 0
    time: int = 0


class _Mapping:
    """The state of a reading, from batch to batch.

    Attributes:
        sources: the tables of the trace that are needed.
    """

    def __init__(self, registry: Registry, tables: Set[str], names: WholeNames) -> None:
        self._registry = registry
        self._names = registry.names
        self._tables = tables
        self._whole = names
        self._stacks = Stacks(registry)
        self._threads: dict[int, _Activations] = {}
        self._collections: dict[int, tuple[int, int, int]] = {}
        self._codes: dict[int, tuple[int, int]] = {}  # the codes of the name and of the class of a function
        has_stacks = bool(tables & {"samples", "allocations", "stacks", "frames"})
        self._has_steps = bool(tables & {"slices", "instants", "flow_points"})
        self._has_samples = bool(tables & {"samples", "stacks", "frames"})
        self._has_allocations = bool(tables & {"allocations", "stacks", "frames"})
        sources = [*(_SAMPLED if has_stacks or self._has_steps else ())]
        sources += ["allocations"] if self._has_allocations else []
        sources += [*_SPANS, *_PAUSES] if self._has_steps or "args" in tables else []
        sources += ["gc_starts", "gc_ends"] if "collections" in tables else []
        sources += _COUNTED if "counters" in tables else ()
        self.sources = tuple(dict.fromkeys(sources or ["starts"]))

    def part(self, batch: dict[str, Table]) -> TimelinePart:
        """Convert a batch."""
        part, tables = TimelinePart(), self._tables
        if self._has_steps:
            part.steps = self._steps(batch)
        if "args" in tables:
            part.tables["args"] = self._args(batch)
        if self._has_samples or self._has_allocations:
            numbers = self._stack_numbers(batch["stacks"])
            if self._has_samples:
                part.tables["samples"] = self._samples(batch["sample_stacks"], numbers)
            if self._has_allocations:
                part.tables["allocations"] = self._allocations(batch, numbers)
            part.tables |= self._stacks.new_tables()
        if "collections" in tables:
            part.tables["collections"] = self._collections_of(batch["gc_starts"], batch["gc_ends"])
        if "counters" in tables:
            part.tables["counters"] = self._counters(batch)
        return part

    def finish(self) -> TimelinePart:
        """Return what ends the activations of each thread after its last sample."""
        threads = [thread for thread in self._threads.values() if thread.depth]
        steps = Steps.blank(len(threads))
        steps.step[:], steps.level[:], steps.event[:] = SpanStep.RESET, 0, -1
        steps.track[:], steps.time[:] = [each.track for each in threads], [each.time for each in threads]
        return TimelinePart(steps if self._has_steps and threads else None)

    # ---- steps

    def _steps(self, batch: dict[str, Table]) -> Steps:
        steps_by_kind = [self._activations(batch["sample_stacks"], batch["stacks"])]
        steps_by_kind += [self._spans(batch[name], *values) for name, values in _SPANS.items()]
        steps_by_kind += [self._pauses(batch[name], step) for name, step in _PAUSES.items()]
        rows = Steps.joined(steps_by_kind)
        rows = rows.take(np.argsort(rows.event, kind="stable"))
        rows.ticks[:] = rows.time // NS_PER_MS
        return rows

    def _activations(self, samples: Table, stacks: Table) -> Steps:
        """Return the ends and begins of the activations between samples."""
        parents, functions = stacks["parent"].tolist(), stacks["function_iid"].tolist()
        depths = [*(stacks["depth"] + 1).tolist(), 0]
        rows: list[tuple[int, int, int, int, int]] = []  # event, time, track, step, function
        columns = ("offset", "time", "thread", "stack", "matched")
        for event, moment, number, stack, matched in zip(*(samples[name].tolist() for name in columns), strict=True):
            thread = self._threads.get(number)
            if thread is None:
                track = self._track(TrackKind.THREAD, self._whole.thread(number))
                thread = self._threads[number] = _Activations(track)
            time = self._checked(thread, moment)
            common = min(matched, thread.depth, depths[stack])
            rows += [(event, time, thread.track, SpanStep.END, -1)] * (thread.depth - common)
            new = []
            for _ in range(depths[stack] - common):
                new.append((event, time, thread.track, SpanStep.BEGIN, functions[stack]))
                stack = parents[stack]
            rows += reversed(new)
            thread.depth = common + len(new)
        steps = Steps.blank(len(rows))
        if rows:
            values = np.array(rows, np.int64)
            steps.event[:], steps.time[:], steps.track[:], steps.step[:] = values[:, :4].T
            steps.name[:], steps.category[:] = self._functions(values[:, 4])
        return steps

    def _checked(self, thread: _Activations, time: int) -> int:
        """Return the time of a sample, not before that of the thread's last one."""
        if time < thread.time:
            self._registry.losses["samples earlier than the one before, which are moved to it"] += 1
        thread.time = max(time, thread.time)
        return thread.time

    def _functions(self, iids: Array) -> Array:
        """Return the codes of the names and of the classes of functions (int32, two rows)."""
        distinct, place = np.unique(iids, return_inverse=True)
        for iid in distinct.tolist():
            if iid not in self._codes:
                name = self._whole.function(iid)
                class_name, separator, _ = name.rpartition(CLASS_END)
                self._codes[iid] = self._names.code(name), self._names.code(class_name if separator else None)
        return np.array([self._codes[iid] for iid in distinct.tolist()], np.int32).reshape(-1, 2)[place].T

    def _track(self, kind: TrackKind, thread: int, label: str = "") -> int:
        """Return a track of a thread; one that is not its own has a label."""
        name, process = self._names.code(label or None), self._registry.process(self._whole.pid)
        return self._registry.track(
            kind, (label, thread) if label else thread, name=name, process=process, thread=thread
        )

    def _spans(self, table: Table, step: SpanStep, label: str) -> Steps:
        """Return the begins or ends of compilations or collections, on a track of their own for each thread."""
        steps = self._blank(table)
        steps.step[:], steps.category[:] = step, self._names.code(label.split(maxsplit=1)[0].lower())
        steps.track[:] = [self._track(TrackKind.ASYNC, thread, label) for thread in self._whole.threads_of(table)]
        steps.name[:] = self._names.code(label)
        if "function_id" in table:
            steps.key[:] = np.maximum(table["function_id"], 1)
            steps.name[:] = self._whole.codes_of_ids(table["function_id"], table["offset"])
        return steps

    def _pauses(self, table: Table, step: SpanStep) -> Steps:
        steps = self._blank(table)
        process = self._registry.process(self._whole.pid)
        if not len(steps):
            return steps
        steps.track[:] = self._registry.track(TrackKind.PROCESS, process, process=process)
        steps.step[:], steps.name[:] = step, self._names.code(_PAUSED)
        return steps

    def _blank(self, table: Table) -> Steps:
        """Return steps with the times of records; those before the start of profiling are moved to it."""
        steps = Steps.blank(table.num_rows)
        steps.event[:], steps.time[:] = table["offset"], self._times(table)
        return steps

    def _times(self, table: Table) -> Array:
        times: Array = table["time"]
        early = int((times < 0).sum())
        if early:
            self._registry.losses["times before the start of profiling, which are moved to it"] += early
        return np.maximum(times, 0)

    def _args(self, batch: dict[str, Table]) -> dict[str, Column]:
        """Return the reason and the generations of each collection."""
        table, args = batch["gc_starts"], NewArguments(self._registry)
        for name in ("reason", "generations"):
            args.add(table["offset"], name, ArgumentKind.TEXT, self._names.codes(table[name]))
        return args.table()

    # ---- tables

    def _stack_numbers(self, stacks: Table) -> Array:
        """Return the number of each stack of a batch, then -1 for the empty one."""
        frames = self._stacks.frames_of_slices(*self._functions(stacks["function_iid"])).tolist()
        numbers: list[int] = []
        for parent, frame in zip(stacks["parent"].tolist(), frames, strict=True):
            numbers.append(self._stacks.on(numbers[parent] if parent >= 0 else -1, frame))
        return np.array([*numbers, -1], np.int64)

    def _sample_threads(self, table: Table) -> Array:
        """Return the rows of the threads of samples."""
        distinct, place = np.unique(table["thread"], return_inverse=True)
        return np.array([self._whole.thread(number) for number in distinct.tolist()], np.int32)[place]

    def _samples(self, table: Table, numbers: Array) -> dict[str, Column]:
        """Return the samples that have ticks."""
        table = table.take(np.flatnonzero(table["count"] > 0))
        paused = int(table["paused"].sum())
        self._registry.losses["samples while the profiler was paused"] += paused
        if paused:
            table = table.take(np.flatnonzero(~table["paused"]))
        tick, ticks = self._whole.tick, table["count"]
        limit = MAX_INT64 // (tick or 1)
        return self._registry.columns(
            "samples",
            {
                "time": self._times(table),
                "thread": self._sample_threads(table),
                "cpu": -1,
                "stack": numbers[table["stack"]],
                "count": np.minimum(ticks, limit) * (tick or 1),
                "unit": self._names.code("samples" if tick is None else "ns"),
            },
        )

    def _allocations(self, batch: dict[str, Table], numbers: Array) -> dict[str, Column]:
        table = batch["sample_stacks"]
        table = table.take(np.flatnonzero(table["memory_sample"] >= 0))
        items = batch["allocations"]
        row = items["memory_sample"]
        return self._registry.columns(
            "allocations",
            {
                "time": self._times(table)[row],
                "thread": self._sample_threads(table)[row],
                "stack": numbers[table["stack"]][row],
                "type": self._whole.class_codes(items["class_iid"]),
                "count": np.maximum(items["count"], 0),
                "size": np.maximum(items["size"], 0),
            },
        )

    def _collections_of(self, starts: Table, ends: Table) -> dict[str, Column]:
        """Return the garbage collections that end in a batch."""
        events = [
            (offset, thread, max(time, 0), flags)
            for table, column in ((starts, starts["generations"]), (ends, [None] * ends.num_rows))
            for offset, thread, time, flags in zip(
                table["offset"].tolist(), self._whole.threads_of(table), table["time"].tolist(), column, strict=True
            )
        ]
        rows = []
        for offset, thread, time, flags in sorted(events, key=lambda event: event[0]):
            if flags is not None:
                self._collections[thread] = (time, flags[:3].rfind("t"), offset)
            elif thread in self._collections:
                start, generation, event = self._collections.pop(thread)
                rows.append((start, max(time - start, 0), thread, generation, event))
        names = ("start", "duration", "thread", "generation", "event")
        columns = zip(*rows, strict=True) if rows else ((),) * len(names)
        return self._registry.columns("collections", dict(zip(names, map(list, columns), strict=True)))

    def _counters(self, batch: dict[str, Table]) -> dict[str, Column]:
        """Return the time of the processor and the sizes of the heap."""
        parts = []
        for name in ("process_cpu", "thread_cpu"):
            table = batch[name]
            below = table["usage"] >= np.uint64(_MAX_USAGE)
            self._registry.losses["times of the processor below 0"] += int(below.sum())
            table = table.take(np.flatnonzero(~below))
            threads = table["thread"].tolist() if name == "thread_cpu" else [None] * table.num_rows
            tracks = [self._cpu_track(thread) for thread in threads]
            parts.append((self._times(table), tracks, table["usage"].astype(np.float64), table["offset"]))
        heap, items = batch["heap_generations"], batch["generations"]
        row = items["heap_generation"]
        for name in ("allocated", "reserved"):
            tracks = [self._counter_track(f"heap {part} {name}") for part in items["name"]]
            parts.append((self._times(heap)[row], tracks, items[name].astype(np.float64), heap["offset"][row]))
        names = ("time", "track", "value", "event")
        columns = {
            name: np.concatenate([np.asarray(part[place]) for part in parts]) for place, name in enumerate(names)
        }
        columns["track"] = columns["track"].astype(np.int32)
        return self._registry.columns("counters", columns)

    def _cpu_track(self, thread: int | None) -> int:
        if thread is None:
            return self._counter_track("process CPU (us)")
        row = self._whole.thread(thread)
        return self._counter_track(f"CPU of thread {thread} (us)", row)

    def _counter_track(self, label: str, thread: int = -1) -> int:
        process = self._registry.process(self._whole.pid)
        name = self._names.code(label)
        return self._registry.track(TrackKind.COUNTER, label, name=name, process=process, thread=thread)
