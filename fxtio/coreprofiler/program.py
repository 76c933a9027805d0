"""The synthetic shape that looks like a program: a shop's server on a device, sampled every ten milliseconds.

Workers handle requests, each a tree of calls with durations that vary as those of real programs do (log-normal).  A
request compiles what it calls first, allocates, waits for the database and for sockets, and logs; a collection stops
all threads when enough was allocated.  A finalizer and a logger are mostly idle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any, NamedTuple

from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.layout import OsThread
from fxtio.coreprofiler.simulated import SimulatedThread

TICK_MS = 10

_START = datetime(2019, 6, 3, 8, 15, 0, 125000, timezone(timedelta(hours=9)))

_CPU_EVERY = 10  # ticks from one report of CPU time to the next
_REPORTED = 8_000  # bytes that a thread allocates from one memory sample to the next
_BUDGET = 4_000_000  # bytes that are allocated from one collection to the next


class _Call(NamedTuple):
    """A function with what it does: its own time in milliseconds, what it allocates, and what it calls how often.

    A function without own CPU time waits for something outside.
    """

    name: str
    own_ms: float = 0.0
    wait_ms: float = 0.0
    allocates: tuple[tuple[str, float, int], ...] = ()  # class, objects on average, bytes of each
    calls: tuple[tuple[str, float], ...] = ()


_TEXT, _BYTES, _LIST = "System.String", "System.Byte[]", "System.Collections.Generic.List<T>"

_CALLS: dict[str, _Call] = {
    call.name: call
    for call in (
        _Call("Shop.Server::Run", 0.2, calls=(("Shop.Server::Accept", 1), ("Shop.Server::Handle", 1))),
        _Call("Shop.Server::Accept", 0.1, calls=(("System.Net.Sockets.Socket::Receive", 1),)),
        _Call("System.Net.Sockets.Socket::Receive", 0.2, 6, ((_BYTES, 1, 4096),)),
        _Call("System.Net.Sockets.Socket::Send", 0.3, 3),
        _Call(
            "Shop.Server::Handle", 0.5, 0, (("Shop.Request", 1, 120), (_TEXT, 12, 48)),
            (("Shop.Routing.Router::Match", 1), ("Shop.Products::List", 0.5), ("Shop.Products::Search", 0.25),
             ("Shop.Cart::Add", 0.15), ("Shop.Orders::Checkout", 0.1), ("Shop.Json.Writer::Write", 1),
             ("System.Net.Sockets.Socket::Send", 1), ("Shop.Logging.Log::Write", 1)),
        ),
        _Call("Shop.Routing.Router::Match", 0.6, 0, ((_TEXT, 3, 40),)),
        _Call("Shop.Products::List", 1, 0, ((_LIST, 2, 88),),
              (("Shop.Data.Cache::Get", 1), ("Shop.Data.Database::Query", 0.4), ("Shop.Products::Map", 20))),
        _Call("Shop.Products::Search", 2, 0, ((_LIST, 4, 88),),
              (("Shop.Search.Index::Find", 3), ("Shop.Data.Database::Query", 1), ("Shop.Products::Map", 8))),
        _Call("Shop.Products::Map", 0.08, 0, (("Shop.Product", 1, 96), (_TEXT, 2, 56))),
        _Call("Shop.Search.Index::Find", 4, 0, (("System.Int32[]", 2, 2048),), (("Shop.Search.Tokens::Split", 1),)),
        _Call("Shop.Search.Tokens::Split", 0.7, 0, ((_TEXT, 6, 36),)),
        _Call("Shop.Cart::Add", 1, calls=(("Shop.Data.Cache::Get", 1), ("Shop.Data.Database::Execute", 1))),
        _Call("Shop.Orders::Checkout", 3, 0, (("Shop.Order", 1, 240),),
              (("Shop.Orders::Validate", 1), ("Shop.Data.Database::Execute", 4), ("Shop.Payment.Client::Charge", 1))),
        _Call("Shop.Orders::Validate", 2, calls=(("Shop.Orders::Validate", 0.4),)),
        _Call("Shop.Payment.Client::Charge", 1, 60, ((_BYTES, 2, 8192),),
              (("System.Net.Sockets.Socket::Send", 1), ("System.Net.Sockets.Socket::Receive", 2))),
        _Call("Shop.Data.Cache::Get", 0.3),
        _Call("Shop.Data.Database::Query", 1.5, 12, ((_BYTES, 3, 2048), (_LIST, 1, 88)),
              (("Shop.Data.Row::Parse", 15),)),
        _Call("Shop.Data.Database::Execute", 1, 8, ((_BYTES, 1, 1024),)),
        _Call("Shop.Data.Row::Parse", 0.15, 0, (("Shop.Data.Row", 1, 64), (_TEXT, 4, 40))),
        _Call("Shop.Json.Writer::Write", 1.2, 0, (("System.Char[]", 3, 1024),), (("Shop.Json.Writer::Object", 6),)),
        _Call("Shop.Json.Writer::Object", 0.3, 0, ((_TEXT, 2, 64),), (("Shop.Json.Writer::Object", 0.3),)),
        _Call("Shop.Logging.Log::Write", 0.2, 0, (("Shop.Logging.Entry", 1, 80), (_TEXT, 1, 120))),
        _Call("Shop.Logging.Logger::Loop", 0.2, calls=(("Shop.Logging.Logger::Flush", 1),)),
        _Call("Shop.Logging.Logger::Flush", 1, 15, ((_BYTES, 1, 4096),), (("System.IO.FileStream::Write", 2),)),
        _Call("System.IO.FileStream::Write", 0.4, 4),
        _Call("System.GC::RunFinalizers", 0.5, calls=(("Shop.Data.Connection::Finalize", 2),)),
        _Call("Shop.Data.Connection::Finalize", 0.4),
    )
}  # fmt: skip
"""What the program does, by the names of its functions."""

_SERVER = "Shop.Server::Run"

_ROOTS = {_SERVER: 12, "Shop.Logging.Logger::Loop": 60, "System.GC::RunFinalizers": 250}
"""What the first threads run, with the most ticks from one run to the next; further threads run the server."""

_ASSEMBLIES = ("System.Private.CoreLib", "System.Net.Sockets", "Shop")


class _Segment(NamedTuple):
    """A part of a run: a stack on which nothing changes for some time.

    Attributes:
        depth: number of frames that stay from the segment before.
        entered: the functions that are entered above them.
        wait: whether the thread waits.
        duration: milliseconds.
        allocated: number and bytes of objects, by class.
    """

    depth: int
    entered: tuple[str, ...]
    wait: bool
    duration: float
    allocated: dict[str, tuple[int, int]]


@dataclass(slots=True)
class _Worker:
    """A thread with what it has still to do."""

    thread: SimulatedThread
    root: str
    work: Iterator[_Segment] | None = None
    rest: float = 0.0  # milliseconds of the current segment
    idle: int = 0  # ticks until the next run
    cpu_us: int = 0  # since the last report
    waits: bool = False
    allocated: dict[int, list[int]] = field(default_factory=dict)  # number and bytes by class, not yet reported


@dataclass(slots=True)
class _Heap:
    live: dict[int, list[int]] = field(default_factory=dict)  # number and bytes of objects, by class
    allocated: int = 0  # bytes since the last collection


class Program:
    """Runs the program; every step is a sampling tick.

    Args:
        put: receives the records.
        seed: the seed of the random numbers.
        threads: number of threads.
        os_threads: give the threads of compilations and collections by numbers of the operating system.

    Attributes:
        records: number of records so far.
        timestamp: milliseconds from the start of profiling so far.
    """

    def __init__(self, put: Callable[[Any], None], *, seed: int, threads: int, os_threads: bool) -> None:
        self.records = 0
        self.timestamp = 0
        self._put_record = put
        self._random = Random(seed)
        self._os_threads = os_threads
        roots = [*_ROOTS, *[_SERVER] * threads][:threads]
        self._workers = [_Worker(SimulatedThread(iid), root) for iid, root in enumerate(roots)]
        self._iids: dict[str, int] = {}  # of functions
        self._classes: dict[str, int] = {}
        self._heap = _Heap()
        self._ticks = 0
        self._begin()

    def _put(self, *records: Any) -> None:
        for record in records:
            self.records += 1
            self._put_record(record)

    def _begin(self) -> None:
        self._put(r.ProfilerStart(_START))
        for iid, name in enumerate(("<UNMANAGED>", "<JIT>")):
            self._iids[name] = iid
            self._put(r.FunctionName(iid, name, "", ""))
        config = {
            "CollectionMethod": "Sampling",
            "SamplingTimeoutMs": str(TICK_MS),
            "HighGranularityEnabled": "T",
            "TracingSuspendedOnStart": "F",
            "LineTraceEnabled": "F",
            "CpuTraceProcessEnabled": "T",
            "CpuTraceThreadEnabled": "T",
            "CpuTraceTimeoutMs": str(_CPU_EVERY * TICK_MS),
            "ExecutionTraceEnabled": "T",
            "MemoryTraceEnabled": "T",
            "StackTrackingEnabled": "T",
            "Synthetic": "written by fxtio synth, never measured",
        }
        self._put(*(r.ProfilerConfig(name, value) for name, value in config.items()))
        self._put(r.AppDomainCreated(0x1000, 4711, 0, "Shop.dll"))
        for at, name in enumerate(_ASSEMBLIES):
            path = f"/opt/usr/apps/org.example.shop/bin/{name}.dll"
            self._put(r.AssemblyLoaded(0x2000 + at, 0x1000, 0x3000 + at, 0, name))
            self._put(r.ModuleLoaded(0x3000 + at, 0x10000000 * (at + 1), 0x2000 + at, 0, path))
            self._put(r.ModuleAttached(0x3000 + at, 0x2000 + at))
        for worker in self._workers:
            iid = worker.thread.iid or 0
            self._put(r.ThreadCreated(0x5000 + 0x100 * iid, iid), r.ThreadAssigned(iid, 4711 + iid))

    def step(self) -> None:
        """Let ten milliseconds pass on all threads, and sample them."""
        self.timestamp += TICK_MS
        self._ticks += 1
        for worker in self._workers:
            self._run(worker, float(TICK_MS))
            if worker.thread.stack:
                self._sample(worker, 1)
        if self._heap.allocated > _BUDGET:
            self._collect()
        if self._ticks % _CPU_EVERY == 0:
            used = [(worker.thread.iid, worker.cpu_us) for worker in self._workers]
            self._put(r.ProcessCpu(self.timestamp, sum(usage for _, usage in used) + self._random.randrange(500)))
            self._put(*(r.ThreadCpu(iid, self.timestamp, usage) for iid, usage in used if usage))
            for worker in self._workers:
                worker.cpu_us = 0

    def finish(self) -> None:
        """End all threads."""
        self._put(*(r.ThreadDestroyed(worker.thread.iid) for worker in self._workers))

    def _run(self, worker: _Worker, milliseconds: float) -> None:
        """Let a thread do what it does in so much time."""
        if worker.idle:
            worker.idle -= 1
            return
        while milliseconds > 0:
            if worker.rest <= 0 and not self._begin_segment(worker):
                worker.idle = self._random.randrange(_ROOTS[worker.root])
                return
            passed = min(worker.rest, milliseconds)
            worker.rest -= passed
            milliseconds -= passed
            worker.cpu_us += 0 if worker.waits else round(passed * 1000)

    def _begin_segment(self, worker: _Worker) -> bool:
        """Enter the next part of a thread's work; return whether there is one."""
        worker.work = worker.work or self._segments(worker.root, 0)
        segment = next(worker.work, None)
        thread = worker.thread
        depth = 0 if segment is None else segment.depth
        thread.leave(len(thread.stack) - depth)
        if segment is None:
            worker.work = None
            return False
        for name in segment.entered:
            if name not in self._iids:
                self._compile(thread, name)
            thread.enter(r.Frame(self._iids[name]))
        worker.rest, worker.waits = segment.duration, segment.wait
        if segment.allocated:
            self._allocate(worker, segment.allocated)
        return True

    def _segments(self, name: str, depth: int) -> Iterator[_Segment]:
        """Yield the parts of a call of a function, whose frame is above `depth` others."""
        call = _CALLS[name]
        allocated = {cls: (self._about(mean), size) for cls, mean, size in call.allocates}
        yield _Segment(depth, (name,), False, self._varied(call.own_ms / 2), allocated)
        if call.wait_ms:
            yield _Segment(depth + 1, ("<UNMANAGED>",), True, self._varied(call.wait_ms), {})
        for callee, times in call.calls:
            for _ in range(self._about(times) if times > 1 else int(self._random.random() < times)):
                yield from self._segments(callee, depth + 1)
        yield _Segment(depth + 1, (), False, self._varied(call.own_ms / 2), {})

    def _varied(self, mean: float) -> float:
        """Return a duration with a log-normal distribution of this mean."""
        return self._random.lognormvariate(math.log(max(mean, 0.01)) - 0.32, 0.8)

    def _about(self, mean: float) -> int:
        """Return a number of at least one, of about this mean."""
        return max(round(self._random.gauss(mean, mean / 4)), 1)

    def _sample(self, worker: _Worker, ticks: int) -> None:
        sample = worker.thread.sample(self.timestamp, ticks)
        if sample is not None:
            self._put(sample)

    def _number(self, thread: SimulatedThread) -> Any:
        return OsThread(4711 + (thread.iid or 0)) if self._os_threads else thread.iid

    def _compile(self, thread: SimulatedThread, name: str) -> None:
        """Define a function at its first call: those of the libraries were compiled before."""
        iid = self._iids[name] = len(self._iids)
        module = next(at for at, prefix in enumerate(("System.GC", "System.", "Shop.")) if name.startswith(prefix))
        address, size = 0x40000000 + 0x1000 * iid, 64 + self._random.randrange(2_000)
        number, token = self._number(thread), 0x06000000 + iid
        if module < 2:
            self._put(r.JitSearchStarted(number, self.timestamp, address))
            self._put(r.JitSearchFinished(number, self.timestamp, address))
        else:
            self._put(r.JitStarted(number, self.timestamp, address))
            self._put(r.JitFinished(number, self.timestamp + round(self._varied(3)), address, 0))
        il_map = tuple(r.IlMap(at * 5, at * 16, at * 16 + 16) for at in range(size // 256))
        code = (r.CodeInfo(address, size),)
        self._put(r.FunctionInfo(iid, address, 0x4000 + iid, 0x3000 + module, token, code, il_map))
        self._put(r.FunctionName(iid, name, "void", "()"))

    def _allocate(self, worker: _Worker, allocated: dict[str, tuple[int, int]]) -> None:
        for name, (count, size) in allocated.items():
            iid = self._classes.get(name)
            if iid is None:
                iid = self._classes[name] = len(self._classes)
                self._put(r.ClassLoaded(0x8000 + iid, iid, 0x3002, 0x02000000 + iid, 0), r.ClassName(iid, name))
            for totals in (worker.allocated, self._heap.live):
                objects = totals.setdefault(iid, [0, 0])
                objects[0] += count
                objects[1] += count * size
            self._heap.allocated += count * size
        if sum(size for _, size in worker.allocated.values()) >= _REPORTED:
            self._report_allocations(worker)

    def _report_allocations(self, worker: _Worker) -> None:
        """Write what a thread has allocated since its last memory sample."""
        items = tuple(r.AllocItem(iid, count, size) for iid, (count, size) in sorted(worker.allocated.items()))
        worker.allocated.clear()
        self._sample(worker, 0)
        self._put(r.MemorySample(worker.thread.iid, self.timestamp, items))

    def _collect(self) -> None:
        """Collect garbage: most collections are of the youngest generation, and take little time."""
        self._heap.allocated = 0
        oldest = self._random.choices(range(3), (80, 15, 5))[0]
        number = self._number(self._random.choice(self._workers).thread)
        flags = (*(generation <= oldest for generation in range(3)), oldest == 2)
        self._put(r.GcStarted(number, self.timestamp, "?", flags))
        self.timestamp += round(self._varied((3, 9, 35)[oldest]))
        self._put(r.GcFinished(number, self.timestamp))
        for live in self._heap.live.values():
            count = round(live[0] * (0.3, 0.15, 0.05)[oldest])
            live[:] = count, count * (live[1] // max(live[0], 1))
        rows = sorted(self._heap.live.items())
        items = tuple(r.AltItem(iid, count, size) for iid, (count, size) in rows if count)
        self._put(r.AllocationTable(self.timestamp, items))
        total = sum(item.size for item in items)
        sizes = (("LOH", total // 8), ("gen2", total // 2), ("gen1", total // 4), ("gen0", total // 8))
        self._put(r.HeapGenerations(self.timestamp, tuple(r.HeapItem(name, size, 1_000_000) for name, size in sizes)))
