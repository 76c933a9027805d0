"""Shapes as CoreProfiler traces: samples and allocations with stacks, and calls as samples when stacks change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.layout import NS_PER_MS
from fxtio.coreprofiler.writer import CoreProfilerWriter
from fxtio.synth import stacks
from fxtio.synth.columns import Amount, Events, Part, Shape

_START = datetime(2018, 4, 10, 12, 0, 0, 123000)  # noqa: DTZ001  # local time, as the profiler has it
_CONFIG = {
    "CollectionMethod": "Sampling",
    "SamplingTimeoutMs": "10",
    "HighGranularityEnabled": "T",
    "TracingSuspendedOnStart": "F",
    "LineTraceEnabled": "F",
    "CpuTraceTimeoutMs": "10",
    "MemoryTraceEnabled": "T",
    "StackTrackingEnabled": "T",
    "Synthetic": "written by fxtio synth, never measured",
}
_TICK = 10 * NS_PER_MS
_MODULE, _ASSEMBLY, _DOMAIN = 0x3000, 0x2000, 0x1000

Stack = tuple[str, ...]
"""The names of functions, the outermost first."""


def write(target: Any, shapes: Sequence[Shape], amount: Amount, options: dict[str, Any]) -> tuple[int, int]:
    """Write shapes as a CoreProfiler trace.

    Args:
        target: see `fxtio.create`.
        shapes: the shapes, which are written in turn.
        amount: the amount.
        options: those of `CoreProfilerWriter`.

    Returns:
        The number of events of the shapes, and of bytes.

    Raises:
        OSError: the target cannot be written.
    """
    written, groups = 0, amount.groups()
    with CoreProfilerWriter(target, **options) as writer:
        profiler = _Profiler(writer.put, amount.threads)
        for number, parts in amount.chunks(shapes, groups, lambda: writer.position):
            profiler.write(groups[number].first, parts)
            written += sum(map(len, parts))
        profiler.end()
    return written, writer.position


class _Profiler:
    """Writes what a profiler sees.

    Args:
        put: takes the records.
        threads: the number of threads.
    """

    def __init__(self, put: Callable[[Any], None], threads: int) -> None:
        self._put = put
        self._threads = threads
        self._functions: dict[str, int] = {}
        self._classes: dict[str, int] = {}
        self._live: Counter[str] = Counter()
        self._sizes: dict[str, int] = {}
        self._sampled: list[Stack] = [()] * threads
        self._calls: list[list[str]] = [[] for _ in range(threads)]
        self._ticks = [0] * threads  # of the last sample of calls
        put(r.ProfilerStart(_START))
        for name, value in _CONFIG.items():
            put(r.ProfilerConfig(name, value))
        put(r.AppDomainCreated(_DOMAIN, 77, 0, "synthetic.dll"))
        put(r.AssemblyLoaded(_ASSEMBLY, _DOMAIN, _MODULE, 0, "synthetic"))
        put(r.ModuleLoaded(_MODULE, 0x10000000, 0x2000, 0, "/synthetic/synthetic.dll"))
        put(r.ModuleAttached(_MODULE, _ASSEMBLY))
        for thread in range(threads):
            put(r.ThreadCreated(0x5000 + 0x100 * thread, thread))
            put(r.ThreadAssigned(thread, 1000 + thread))

    def end(self) -> None:
        """End all threads."""
        for thread in range(self._threads):
            self._put(r.ThreadDestroyed(thread))

    def write(self, first: int, parts: Sequence[Part]) -> None:
        """Write the parts of a chunk in the order of time; their threads are counted from the first one on."""
        steps = [step for part in parts for step in self._steps(part)]
        for time, thread, write, values in sorted(steps, key=lambda step: step[0]):
            write(time // NS_PER_MS, first + thread, *values)

    def _steps(self, part: Part) -> Iterator[tuple[int, int, Callable[..., None], tuple[Any, ...]]]:
        """Yield what happens: its time (ns), its thread, what writes it, and with which values."""
        if isinstance(part, Events):
            yield from self._call_steps(part)
            return
        writers: dict[str, tuple[Callable[..., None], tuple[str, ...]]] = {
            "samples": (self._sample, ("stack",)),
            "allocations": (self._allocate, ("stack", "type", "count", "size")),
            "collections": (self._collect, ("generation",)),
        }
        if part.table in writers:
            write, names = writers[part.table]
            columns = [part.columns[name].tolist() for name in ("ticks", "thread", *names)]
            for time, thread, *values in zip(*columns, strict=True):
                yield time, thread, write, tuple(values)

    def _call_steps(self, events: Events) -> Iterator[tuple[int, int, Callable[..., None], tuple[Any, ...]]]:
        if not events.kind.startswith("duration"):
            return
        values, places = ((events.name,), [0] * len(events)) if isinstance(events.name, str) else events.name
        names = [values[place] for place in places]
        starts, threads = events.timestamp.tolist(), events.thread.tolist()
        if events.kind == "duration_end":
            yield from ((time, thread, self._leave, (time,)) for time, thread in zip(starts, threads, strict=True))
            return
        for time, thread, name in zip(starts, threads, names, strict=True):
            yield time, thread, self._enter, (time, name)
        if "end" in events.columns:
            for time, thread in zip(events.columns["end"].tolist(), threads, strict=True):
                yield time, thread, self._leave, (time,)

    def _enter(self, timestamp: int, thread: int, time: int, name: str) -> None:
        self._tick(timestamp, thread, time)
        self._calls[thread].append(name)
        self._stack(timestamp, thread, tuple(self._calls[thread]), 0)

    def _leave(self, timestamp: int, thread: int, time: int) -> None:
        self._tick(timestamp, thread, time)
        self._calls[thread].pop()
        self._stack(timestamp, thread, tuple(self._calls[thread]), 0)

    def _tick(self, timestamp: int, thread: int, time: int) -> None:
        """Sample the calls of a thread if it was time to since they changed."""
        ticks = time // _TICK - self._ticks[thread]
        if ticks and self._calls[thread]:
            self._stack(timestamp, thread, tuple(self._calls[thread]), ticks)
        self._ticks[thread] += ticks

    def _sample(self, timestamp: int, thread: int, stack: int) -> None:
        self._stack(timestamp, thread, _STACKS[stack], 1)

    def _allocate(self, timestamp: int, thread: int, stack: int, type_: int, count: int, size: int) -> None:
        name = stacks.TYPES[type_]
        if name not in self._classes:
            number = self._classes[name] = len(self._classes)
            self._put(r.ClassLoaded(0x4000 + number, number, _MODULE, 0x02000000 + number, 0))
            self._put(r.ClassName(number, name))
        self._live[name] += count
        self._sizes[name] = size // count
        self._stack(timestamp, thread, _STACKS[stack], 0)
        self._put(r.MemorySample(thread, timestamp, (r.AllocItem(self._classes[name], count, size),)))

    def _collect(self, timestamp: int, thread: int, generation: int) -> None:
        flags = tuple(number <= generation for number in range(3))
        self._put(r.GcStarted(thread, timestamp, "?", (*flags, generation == 2)))
        self._put(r.GcFinished(thread, timestamp))
        for name in self._live:
            self._live[name] //= 2
        items = [r.AltItem(self._classes[name], n, n * self._sizes[name]) for name, n in self._live.items() if n]
        self._put(r.AllocationTable(timestamp, tuple(items)))

    def _stack(self, timestamp: int, thread: int, stack: Stack, ticks: int) -> None:
        """Write what changed of a stack since the last sample."""
        sampled = self._sampled[thread]
        same = (one == other for one, other in zip(sampled, stack, strict=False))
        match = next((depth for depth, is_same in enumerate(same) if not is_same), min(len(sampled), len(stack)))
        if ticks or match < max(len(sampled), len(stack)):
            frames = tuple(r.Frame(self._function(thread, timestamp, name)) for name in stack[match:])
            self._put(r.StackSample(thread, timestamp, ticks, match, len(sampled), None, frames))
            self._sampled[thread] = stack

    def _function(self, thread: int, timestamp: int, name: str) -> int:
        """Return the Internal ID of a function, which is compiled when it is first called."""
        number = self._functions.get(name)
        if number is None:
            number = self._functions[name] = len(self._functions)
            address = 0x40000000 + number * 0x1000
            self._put(r.JitStarted(thread, timestamp, address))
            self._put(r.JitFinished(thread, timestamp, address, 0))
            code = (r.CodeInfo(address, 0x100),)
            self._put(r.FunctionInfo(number, address, 0x4000, _MODULE, 0x06000000 + number, code))
            self._put(r.FunctionName(number, name.replace(":", "::"), "void", "()"))
        return number


def _all_stacks() -> list[Stack]:
    """Return the functions of each stack."""
    result: list[Stack] = []
    for parent, frame in zip(stacks.PARENT.tolist(), stacks.FRAME.tolist(), strict=True):
        result.append((*(result[parent] if parent >= 0 else ()), stacks.FUNCTIONS[frame]))
    return result


_STACKS = _all_stacks()
