"""A simulator of a program and its profiler: threads that call, return, allocate and compile.

It also reports the true stack at each sample, so that a reader can be compared with it.  The same seed gives the same
trace on every machine.  Like the real profiler, it writes of a stack only what changed since the thread's last sample:
the number of frames that match is the lowest depth since then, not what the two stacks have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any

from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.layout import NS_PER_MS, OsThread
from support.simulated_thread import SimulatedThread

SHAPES = {
    "sampling": "stack samples of threads that call and return",
    "instrumentation": "a sample without ticks at every call and return",
    "memory": "allocations with their stacks, garbage collections, what remains in the heap",
    "mixed": "samples, allocations, collections, compilations, pauses, CPU time",
    "dialects": "the same with the records that only older or newer dialects have",
}
"""The shapes of synthetic traces, with their contents."""

_WEIGHTS = {  # of the actions of a thread: call, return, go on, be sampled, allocate, collect, pause, report CPU time
    "sampling": (30, 26, 10, 30, 0, 0, 0, 0),
    "instrumentation": (30, 28, 10, 0, 0, 0, 0, 0),
    "memory": (25, 22, 5, 5, 40, 1, 0, 0),
    "mixed": (30, 26, 8, 25, 8, 1, 1, 2),
    "dialects": (25, 20, 8, 20, 12, 5, 5, 5),
}

FUNCTIONS, CLASSES, DEEPEST = 400, 60, 40
_CODE = 0x40000000
_START = datetime(2018, 4, 10, 12, 0, 0, 123000)  # noqa: DTZ001  # local time, as the writer has it


_FIRST_OS_THREAD = 1000


def _os_number(thread: SimulatedThread) -> int:
    """Return the number of the thread in the operating system."""
    return _FIRST_OS_THREAD + (thread.iid or 0)


@dataclass(slots=True)
class Truth:
    """The true state of a thread at a sample.

    Attributes:
        time: nanoseconds from the start of profiling.
        thread: the thread's Internal ID.
        ticks: sampling ticks.
        stack: functions and instruction pointers, the bottom one first.
        matched: number of frames, from the bottom, that were not left since the last sample.
        allocated: the allocated objects.
    """

    time: int
    thread: int | None
    ticks: int
    stack: tuple[r.Frame, ...]
    matched: int
    allocated: tuple[r.AllocItem, ...] = ()


class Simulator:
    """Simulates a program and its profiler.

    Args:
        put: receives the records.
        shape: one of `SHAPES`.
        seed: the seed of the random numbers.
        threads: number of threads.
        lines: give instruction pointers, as with line tracing.
        os_threads: give the threads of compilations and collections by numbers of the operating system, as newer
            writers do.
        truth: receives the true state of a thread at each sample.

    Attributes:
        records: number of records so far.
        timestamp: milliseconds from the start of profiling so far.
    """

    def __init__(
        self,
        put: Callable[[Any], None],
        *,
        shape: str = "mixed",
        seed: int = 0,
        threads: int = 4,
        lines: bool = False,
        os_threads: bool = False,
        truth: Callable[[Truth], None] = lambda _: None,
    ) -> None:
        self.records = 0
        self.timestamp = 0
        self._put_record = put
        self._shape = shape
        self._random = Random(seed)
        self._lines = lines
        self._os_threads = os_threads
        self._truth = truth
        self._threads = [SimulatedThread(iid) for iid in range(threads)]
        self._functions: set[int] = set()
        self._classes: set[int] = set()
        self._live: dict[int, list[int]] = {}
        self._paused = False
        self._begin()

    def step(self) -> None:
        """Let a random thread perform a random action."""
        thread = self._random.choice(self._threads)
        if self._random.random() < 0.2:
            self.timestamp += self._random.randrange(12)
        actions = (
            self._call, self._return, self._move, self._sample, self._allocate, self._collect, self._pause, self._cpu,
        )  # fmt: skip
        self._random.choices(actions, _WEIGHTS[self._shape])[0](thread)

    def finish(self) -> None:
        """End all threads."""
        for thread in self._threads:
            self._put(r.ThreadDestroyed(thread.iid))

    def _put(self, record: Any) -> None:
        self.records += 1
        self._put_record(record)

    def _begin(self) -> None:
        self._put(r.ProfilerStart(_START))
        for iid, name in ((0, "<UNMANAGED>"), (1, "<JIT>")):
            self._functions.add(iid)
            self._put(r.FunctionName(iid, name, "", ""))
        sampling = self._shape != "instrumentation"
        config = {
            "CollectionMethod": "Sampling" if sampling else "Instrumentation",
            "SamplingTimeoutMs": "10",
            "HighGranularityEnabled": "F" if self._shape in ("mixed", "dialects") else "T",
            "TracingSuspendedOnStart": "F",
            "LineTraceEnabled": "T" if self._lines else "F",
            "CpuTraceTimeoutMs": "10",
            "MemoryTraceEnabled": "T" if sampling else "F",
            "StackTrackingEnabled": "T",
            "Synthetic": "written by fxtio synth, never measured",
        }
        for name, value in config.items():
            self._put(r.ProfilerConfig(name, value))
        self._put(r.AppDomainCreated(0x1000, 0x77, 0, "synthetic.dll"))
        self._put(r.AssemblyLoaded(0x2000, 0x1000, 0x3000, 0, "synthetic"))
        self._put(r.ModuleLoaded(0x3000, 0x10000000, 0x2000, 0, "/synthetic/synthetic.dll"))
        self._put(r.ModuleAttached(0x3000, 0x2000))
        if self._shape == "dialects":
            self._put(r.SourceFile(0, "/synthetic/synthetic.cs"))
            self._put(r.SourceLine(1, 0, 1, 10, 4, 10, 30))
        for thread in self._threads:
            number = _os_number(thread)
            self._put(r.ThreadCreated(0x5000 + 0x100 * (number - _FIRST_OS_THREAD), thread.iid))
            self._put(r.ThreadAssigned(thread.iid, number))

    def _thread_number(self, thread: SimulatedThread) -> Any:
        return OsThread(_os_number(thread)) if self._os_threads else thread.iid

    def _define_function(self, thread: SimulatedThread, iid: int) -> None:
        """Compile a function, at its first call."""
        self._functions.add(iid)
        address, size = _CODE + iid * 0x1000, 0x100 + iid
        number, name = self._thread_number(thread), f"Synthetic.Class{iid % CLASSES}<T, U>::Method{iid}"
        where = (0x4000 + iid % CLASSES, 0x3000, 0x06000000 + iid)  # class, module, token
        il_map = tuple(r.IlMap(at, at * 4, at * 4 + 4) for at in range(iid % 4))
        code = (r.CodeInfo(address, size),)
        kind = iid % 3 if self._shape == "dialects" else 0
        if kind == 1:
            self._put(r.JitSearchStarted(number, self.timestamp, address))
            self._put(r.JitSearchFinished(number, self.timestamp, address))
            self._put(r.FunctionFound(address, iid, *where, code, il_map))
            self._put(r.FunctionNameOld(iid, name))
            return
        self._put(r.JitStarted(number, self.timestamp, address))
        self._put(r.JitFinished(number, self.timestamp + 1, address, 0))
        if kind == 2:
            self._put(r.FunctionCompiled(address, iid, *where, 0, code, il_map))
        else:
            self._put(r.FunctionInfo(iid, address, *where, code, il_map))
        self._put(r.FunctionName(iid, name, "int", f"(ref int, T[] x{iid})"))

    def _define_class(self, iid: int) -> None:
        self._classes.add(iid)
        if self._shape == "dialects" and iid % 2:
            self._put(r.ClassLoadedOld(0x4000 + iid, 0x3000, 0x02000000 + iid, 0))
        else:
            self._put(r.ClassLoaded(0x4000 + iid, iid, 0x3000, 0x02000000 + iid, 0))
        self._put(r.ClassName(iid, f"Synthetic.Class{iid}<T, U>"))

    def _ip(self, function: int) -> int | None:
        return _CODE + function * 0x1000 + self._random.randrange(64) * 4 if self._lines else None

    def _call(self, thread: SimulatedThread) -> None:
        if len(thread.stack) >= DEEPEST:
            return
        self._move(thread)
        function = min(int(self._random.expovariate(0.03)), FUNCTIONS)
        if function not in self._functions:
            self._define_function(thread, function)
        thread.enter(r.Frame(function, self._ip(function)))
        self._report_step(thread)

    def _return(self, thread: SimulatedThread) -> None:
        for _ in range(1 + (self._random.random() < 0.1) * self._random.randrange(6)):
            thread.leave()
        self._report_step(thread)

    def _move(self, thread: SimulatedThread) -> None:
        """Move on in the top function, so that its instruction pointer changes."""
        if thread.stack and self._lines:
            function = thread.stack[-1].function_iid or 0
            thread.move(self._ip(function))

    def _report_step(self, thread: SimulatedThread) -> None:
        if self._shape == "instrumentation":
            self._report(thread, 0)

    def _sample(self, thread: SimulatedThread) -> None:
        low_granularity = self._shape in ("mixed", "dialects")
        self._report(thread, 1 + self._random.randrange(9) * low_granularity)

    def _report(self, thread: SimulatedThread, ticks: int) -> None:
        """Write what changed since the thread's last sample."""
        record = thread.sample(self.timestamp, ticks)
        if record is not None:
            self._put(record)
            self._truth(Truth(self.timestamp * NS_PER_MS, thread.iid, ticks, tuple(thread.stack), record.match))

    def _allocate(self, thread: SimulatedThread) -> None:
        if not thread.stack:
            return
        items = []
        for iid in sorted({int(self._random.expovariate(0.1)) % CLASSES for _ in range(1 + self._random.randrange(3))}):
            if iid not in self._classes:
                self._define_class(iid)
            count = 1 + self._random.randrange(5)
            items.append(r.AllocItem(iid, count, count * (24 + 8 * (iid % 5)), self._ip(iid)))
            live = self._live.setdefault(iid, [0, 0])
            live[0] += count
            live[1] += items[-1].size
        self._report(thread, 0)
        self._put(r.MemorySample(thread.iid, self.timestamp, tuple(items)))
        stack = tuple(thread.stack)
        self._truth(Truth(self.timestamp * NS_PER_MS, thread.iid, 0, stack, len(stack), tuple(items)))

    def _collect(self, thread: SimulatedThread) -> None:
        number = self._thread_number(thread)
        oldest = self._random.randrange(3)
        flags = tuple(generation <= oldest for generation in range(3))
        induced = "induced" if self._random.random() < 0.2 else "?"
        self._put(r.GcStarted(number, self.timestamp, induced, (*flags, oldest == 2)))
        self.timestamp += 1 + self._random.randrange(4)
        self._put(r.GcFinished(number, self.timestamp))
        for live in self._live.values():
            live[:] = live[0] // 2, live[0] // 2 * (live[1] // max(live[0], 1))
        items = tuple(r.AltItem(iid, count, size) for iid, (count, size) in sorted(self._live.items()) if count)
        self._put(r.AllocationTable(self.timestamp, items))
        if self._shape == "dialects":
            sizes = [("loh", 4096), ("gen2", 2048), ("gen1", 1024), ("gen0", 512)]
            self._put(r.HeapGenerations(self.timestamp, tuple(r.HeapItem(name, size, size) for name, size in sizes)))

    def _pause(self, thread: SimulatedThread) -> None:
        self._put((r.ProfilerResumed if self._paused else r.ProfilerPaused)(self.timestamp))
        self._paused = not self._paused

    def _cpu(self, thread: SimulatedThread) -> None:
        used = self._random.randrange(10_000)
        self._put(r.ProcessCpu(self.timestamp, used + self._random.randrange(3_000)))
        self._put(r.ThreadCpu(thread.iid, self.timestamp, used))
