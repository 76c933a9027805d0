"""CoreProfiler: samples and allocations with stacks, calls as samples when stacks change, and rounds of all records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from itertools import chain, count, starmap
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.layout import MAX_32, NS_PER_MS, UNDEFINED, OsThread
from fxtio.coreprofiler.writer import CoreProfilerWriter
from fxtio.synth.columns import Amount, Draw, Events, Known, Maker, Part, Shape, put_rounds
from fxtio.synth.shapes import FRAME, FUNCTIONS, PARENT, TYPES

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
    """Write shapes in turn, see `fxtio.synth.write`."""
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
        name = TYPES[type_]
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
    for parent, frame in zip(PARENT.tolist(), FRAME.tolist(), strict=True):
        result.append((*(result[parent] if parent >= 0 else ()), FUNCTIONS[frame]))
    return result


_STACKS = _all_stacks()


# ---- everything

_ONCE = (r.ProfilerStart, r.ProfilerConfig)
_FIRST = (
    r.ThreadCreated, r.ThreadAssigned, r.AppDomainCreated, r.AssemblyLoaded, r.ModuleLoaded, r.ModuleAttached,
    r.ClassLoaded, r.ClassLoadedOld, r.ClassName, r.JitStarted, r.JitFinished, r.JitSearchStarted, r.JitSearchFinished,
)  # fmt: skip
_LAST = (r.ThreadDestroyed,)
_CLASSES: list[type[Any]] = [*_FIRST, *(cls for cls in r.RECORDS if cls not in (*_ONCE, *_FIRST, *_LAST)), *_LAST]
"""The classes of the records of a round, in their order: others refer to what the first ones define."""

_EVERY_START = datetime(2019, 3, 1, 9, 30, 15, 250000, timezone(timedelta(hours=9)))
_EVERY_CONFIG = {"CollectionMethod": "Sampling", "SamplingTimeoutMs": "10", "StackTrackingEnabled": "T", "Empty": ""}
_EVERY_CONFIG["Synthetic"] = "written by fxtio synth, never measured"

_FAILURE = 0x80004005  # E_FAIL
_NO_MAPPING, _PROLOG, _EPILOG = MAX_32, MAX_32 - 1, MAX_32 - 2
_NAMES = ("Synthetic.Plain::Method", "Synthetic.Generic<T, U>::Méthode<V>", 'Synthetic.Quoted::"x" "y"', "<UNKNOWN>")


def everything(target: Any, amount: Amount, options: dict[str, Any]) -> tuple[int, int]:
    """Write all records and all forms of their items, in rounds that define, use and end things, each on its thread.

    Records that only some dialects have are beside each other, which no real profiler does.  The style is `D3` by
    default, which has all forms.
    """
    options = {"style": "D3"} | options
    with CoreProfilerWriter(target, **options) as writer:
        rounds = _rounds(Draw(np.random.PCG64(amount.seed)), has_os_threads=options["style"] in ("D3", "D4"))
        written = put_rounds(writer, amount, rounds)
    return written, writer.position


def _rounds(draw: Draw, *, has_os_threads: bool) -> Iterator[Iterable[Any]]:
    timestamp = 0
    for number in count():
        one = _Round(number, timestamp, draw, has_os_threads=has_os_threads)
        beginning = () if number else (r.ProfilerStart(_EVERY_START), *starmap(r.ProfilerConfig, _EVERY_CONFIG.items()))
        yield chain(beginning, *map(one.records_of, _CLASSES))
        timestamp = one.now


class _Round(Maker):
    """Makes the records of a round.

    Args:
        number: the number of the round, which is that of its thread and of what it defines.
        now: the first millisecond that no earlier round has.
        draw: the random numbers.
        has_os_threads: the threads of compilations and collections have numbers of the operating system.
    """

    STEPS = range(12)

    def __init__(self, number: int, now: int, draw: Draw, *, has_os_threads: bool) -> None:
        super().__init__(now, draw)
        self.number = number
        self.thread = OsThread(1000 + number) if has_os_threads else number
        self.known = self._known_values()

    def _known_values(self) -> Known:
        number = self.number
        functions = [4 * number + place for place in range(4)]
        classes = [3 * number + place for place in range(3)]
        frames = [
            r.Frame(*frame) for frame in zip((*functions[:3], None), (None, UNDEFINED, 0x40000020, None), strict=True)
        ]
        # A stack grows, stays, changes in the middle and below its top, and ends.
        samples = [
            (1, 0, 0, None, ()),
            (1, 0, 0, None, tuple(frames)),
            (250, 4, 4, None, ()),
            (0, 2, 4, 0x40000030, (r.Frame(functions[3], 0x40000040),)),
            (None, 2, 3, UNDEFINED, ()),
            (1, 0, 2, None, ()),
        ]
        columns = zip(("count", "match", "size", "ip", "frames"), map(list, zip(*samples, strict=True)), strict=True)
        oldest = number % 3
        return {
            **{(r.StackSample, name): column for name, column in columns},
            (r.StackSample, "thread"): [number] * len(samples) + [None] * len(samples),
            (None, "timestamp"): [self.tick],
            (None, "status"): [_FAILURE if number % 3 == 1 else 0],
            (None, "function_iid"): [*functions, None],
            (None, "function_id"): [*(0x40000000 + 0x1000 * function for function in functions), 0x40],
            (None, "class_iid"): [*classes, None],
            (None, "class_id"): [0x4000 + classes[0]],
            (None, "token"): [0x06000001 + number],
            (None, "module_id"): [0x300 + number],
            (None, "assembly_id"): [0x200 + number],
            (None, "app_domain_id"): [0x100 + number],
            (None, "thread_id"): [0x5000 + number],
            (None, "file_iid"): [number],
            (None, "ip"): [None, UNDEFINED, 0x40000010],
            (None, "il_offset"): [_PROLOG, 0, 7, _NO_MAPPING, _EPILOG],
            (r.ClassLoaded, "class_id"): [*(0x4000 + cls for cls in classes), 0x4000],
            (r.CodeInfo, "size"): [0x80 + 8 * number],
            (r.IlMap, "native_start"): [0, 8, 16, 24, 32],
            (r.IlMap, "native_end"): [8, 16, 24, 32, 40],
            (r.HeapGenerations, "items"): [lambda: tuple(self.records_of(r.HeapItem))],
            (r.SourceLine, "end_line"): [200 + number],
            (r.ThreadCpu, "thread"): [number, None],
            (r.MemorySample, "thread"): [number, None],
            (r.ThreadCreated, "thread"): [number],
            (r.ThreadAssigned, "thread"): [number],
            (r.ThreadAssigned, "os_thread"): [1001 + number, 1000 + number],
            (r.ThreadDestroyed, "thread"): [number],
            (r.ThreadDestroyed, "extra"): [number if number % 2 else None],
            (r.SourceLine, "line_iid"): [number + 1],
            (r.FunctionName, "return_type"): ["ref int"],
            (r.FunctionName, "signature"): ["(T[] a, string b)"],
            (r.GcStarted, "reason"): ["induced" if oldest == 2 else "?"],
            (r.GcStarted, "generations"): [(*(generation <= oldest for generation in range(3)), oldest == 2)],
            (r.HeapItem, "name"): ["LOH", "gen2", "gen1", "gen0"],
        }

    def declared(self, cls: type[Any]) -> Iterable[tuple[str, Any]]:
        """Return the types of the fields of a class."""
        hints = get_type_hints(cls)
        return [(name, hints[name]) for name in cls.__struct_fields__]

    def values(self, cls: type[Any], name: str, hint: Any) -> list[Any]:
        """Return the values of a type."""
        members, number = get_args(hint), 1 + self.below(100)
        if get_origin(hint) is tuple:
            return [tuple(self.records_of(members[0])), ()]
        if hint is str:
            return [*_NAMES]
        return [self.thread if OsThread in members else number, *([None] if NoneType in members else [])]
