"""The synthetic shape with every record and every form of its items: small rounds that define, use and end things.

Nothing in it is a fault.  Records that only some dialects have stand beside each other, which no real profiler does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any

from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.layout import MAX_32, UNDEFINED, OsThread
from fxtio.coreprofiler.simulated import SimulatedThread

_START = datetime(2019, 3, 1, 9, 30, 15, 250000, timezone(timedelta(hours=9)))
_FAILURE = 0x80004005  # E_FAIL

_FUNCTIONS = 4  # new ones in a round
_CLASSES = 3
_NO_MAPPING, _PROLOG, _EPILOG = MAX_32, MAX_32 - 1, MAX_32 - 2

_NAMES = (
    "Synthetic.Plain::Method",
    "Synthetic.Generic<T, U>::Méthode<V>",
    'Synthetic.Quoted::"x" "y"',
    "<UNKNOWN>",
)


def _status(number: int) -> int:
    """Return the result of something, which sometimes failed."""
    return _FAILURE if number % 3 == 1 else 0


class Everything:
    """Writes rounds of all records.

    Args:
        put: receives the records.
        seed: the seed of the random numbers.
        os_threads: give the threads of compilations and collections by numbers of the operating system.

    Attributes:
        records: number of records so far.
        timestamp: milliseconds from the start of profiling so far.
    """

    def __init__(self, put: Callable[[Any], None], *, seed: int, os_threads: bool) -> None:
        self.records = 0
        self.timestamp = 0
        self._put_record = put
        self._random = Random(seed)
        self._os_threads = os_threads
        self._rounds = 0
        self._unknown = SimulatedThread(None)  # the thread that the file gives as `?`
        self._begin()

    def _put(self, *records: Any) -> None:
        for record in records:
            self.records += 1
            self._put_record(record)

    def _begin(self) -> None:
        self._put(r.ProfilerStart(_START))
        config = {"CollectionMethod": "Sampling", "SamplingTimeoutMs": "10", "StackTrackingEnabled": "T", "Empty": ""}
        config["Synthetic"] = "written by fxtio synth, never measured"
        self._put(*(r.ProfilerConfig(name, value) for name, value in config.items()))

    def step(self) -> None:
        """Write a round."""
        number = self._rounds
        self._rounds += 1
        self.timestamp += 1 + self._random.randrange(50)
        thread = SimulatedThread(number)
        functions = [number * _FUNCTIONS + at for at in range(_FUNCTIONS)]
        classes = [number * _CLASSES + at for at in range(_CLASSES)]
        self._put(r.ThreadCpu(number, self.timestamp, 0), r.ThreadCreated(0x5000 + number, number))
        self._put(r.ThreadAssigned(number, 1000 + number), r.ThreadAssigned(number, 1001 + number))
        self._load(number)
        self._define_classes(number, classes)
        for who in (number, None):
            self._compile(OsThread(1001 + number) if self._os_threads and who is not None else who, number, functions)
        self._put(r.SourceFile(number, f"/synthetic/file {number}.cs"))
        self._put(r.SourceLine(number + 1, number, functions[0], 1 + number, 2 + number, 3 + number, 4 + number))
        for sampled in (thread, self._unknown):
            self._sample(sampled, functions, classes)
        self._put(r.ProfilerPaused(self.timestamp), r.ProfilerResumed(self.timestamp + 1))
        self._collect(OsThread(1001 + number) if self._os_threads else number, classes)
        self._collect(None, classes)
        self._put(r.ProcessCpu(self.timestamp, self._random.randrange(10_000)))
        self._put(r.ThreadCpu(None, self.timestamp, 2**63 - 1), r.ThreadCpu(number, self.timestamp, 250))
        self._put(r.ThreadDestroyed(number, number if number % 2 else None))

    def finish(self) -> None:
        """End the trace; rounds end by themselves."""

    def _load(self, number: int) -> None:
        status = _status(number)
        self._put(r.AppDomainCreated(0x100 + number, 77 + number, status, f"domain {number}"))
        self._put(r.AssemblyLoaded(0x200 + number, 0x100 + number, 0x300 + number, status, f"assembly {number}"))
        self._put(r.ModuleLoaded(0x300 + number, 0x10000000 + number, 0x200 + number, status, "/proc/self/fd/3/a.dll"))
        self._put(r.ModuleAttached(0x300 + number, 0x200 + number))

    def _define_classes(self, number: int, classes: list[int]) -> None:
        for at, iid in enumerate(classes):
            if at == 1:
                self._put(r.ClassLoadedOld(0x4000 + iid, 0x300 + number, 0x02000000 + iid, _status(number)))
            else:
                self._put(r.ClassLoaded(0x4000 + iid, iid, 0x300 + number, 0x02000000 + iid, _status(number)))
            self._put(r.ClassName(iid, _NAMES[at]))
        self._put(r.ClassLoaded(0x4000, None, 0x300, 0x02000000, 0), r.ClassName(None, ""))

    def _compile(self, thread: Any, number: int, functions: list[int]) -> None:
        """Write each way in which a function gets its code and its name."""
        blocks = (r.CodeInfo(0x40000000, 0x80), r.CodeInfo(0x50000000, 0x10))
        offsets = (_PROLOG, 0, 7, _NO_MAPPING, _EPILOG)
        il_map = tuple(r.IlMap(offset, at * 8, at * 8 + 8) for at, offset in enumerate(offsets))
        for at, iid in enumerate(functions):
            place = 0x40000000 + 0x1000 * iid
            where = (0x4000 + iid, 0x300 + number, 0x06000000 + iid)  # class, module, token
            started, finished = self.timestamp, self.timestamp + self._random.randrange(20)
            if at < 2:
                self._put(r.JitStarted(thread, started, place))
                self._put(r.JitFinished(thread, finished, place, _status(iid)))
            else:
                self._put(r.JitSearchStarted(thread, started, place), r.JitSearchFinished(thread, finished, place))
            code, lines = (blocks[: at + 1], il_map[at:]) if at < 3 else ((), ())
            if at % 3 == 0:
                self._put(r.FunctionInfo(iid, place, *where, code, lines))
            elif at % 3 == 1:
                self._put(r.FunctionCompiled(place, iid, *where, _status(iid), code, lines))
            else:
                self._put(r.FunctionFound(place, iid, *where, code, lines))
            self._put(r.FunctionName(iid, _NAMES[at], "ref int", "(T[] a, string b)"))
        self._put(r.FunctionNameOld(functions[-1], _NAMES[-1]))
        self._put(r.FunctionInfo(None, 0x40, 0x4000, 0x300, 0x06000000), r.FunctionName(None, "", "", ""))

    def _sample(self, thread: SimulatedThread, functions: list[int], classes: list[int]) -> None:
        """Write samples with every form of a frame, an allocation, a count and a changed pointer."""
        for ticks in self._moves(thread, functions):
            sample = thread.sample(self.timestamp, ticks)
            if sample is not None:
                self._put(sample)
            self.timestamp += self._random.randrange(12)
        pointers = (None, UNDEFINED, 0x40000010)
        items = [
            r.AllocItem(iid, 1 + at, 24 * (1 + at), pointers[at])
            for at, iid in enumerate([*classes[: _CLASSES - 1], None])
        ]
        self._put(r.MemorySample(thread.iid, self.timestamp, tuple(items)), r.MemorySample(thread.iid, self.timestamp))

    def _moves(self, thread: SimulatedThread, functions: list[int]) -> Iterator[int | None]:
        """Change a thread's stack; yield the ticks of the sample at each place."""
        thread.leave(len(thread.stack))
        yield 1
        for function, ip in ((functions[0], None), (functions[1], UNDEFINED), (functions[2], 0x40000020), (None, None)):
            thread.enter(r.Frame(function, ip))
        yield 1
        yield 250
        thread.leave(2)
        thread.move(0x40000030 + self._random.randrange(64))
        thread.enter(r.Frame(functions[3], 0x40000040))
        yield 0
        thread.leave()
        thread.move(UNDEFINED)
        yield None

    def _collect(self, thread: Any, classes: list[int]) -> None:
        oldest = self._random.randrange(3)
        flags = (*(generation <= oldest for generation in range(3)), oldest == 2)
        self._put(r.GcStarted(thread, self.timestamp, "induced" if oldest == 2 else "?", flags))
        self.timestamp += self._random.randrange(20)
        self._put(r.GcFinished(thread, self.timestamp))
        below = self._random.randrange
        items = tuple(r.AltItem(iid, 1 + below(100), below(1_000_000)) for iid in (*classes[:1], None))
        self._put(r.AllocationTable(self.timestamp, items), r.AllocationTable(self.timestamp))
        sizes = tuple(r.HeapItem(name, below(1_000_000), below(1_000_000)) for name in ("LOH", "gen2", "gen1", "gen0"))
        self._put(r.HeapGenerations(self.timestamp, sizes))
