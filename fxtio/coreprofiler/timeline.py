"""What happened besides samples: collections, compilations, pauses, CPU time, what was loaded and what remains.

Times are milliseconds from the start of profiling; `CoreProfilerTrace.absolute` makes dates of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fxtio.coreprofiler import records as r
from fxtio.finding import Findings, Level

MOST_INTERVALS = 100_000
"""So many intervals are kept one by one; further ones are counted."""

MOST_OPEN = 1 << 16
"""So many intervals may be open; further ones are not followed."""

NEGATIVE = 2**63
"""CPU times from here on come from an underflow."""


class Interval(NamedTuple):
    """Something with a beginning and an end.

    Attributes:
        kind: `gc`, `jit`, `search` or `pause`.
        thread: the thread's Internal ID, or an `OsThread`; None where nobody knows.
        start: when it began.
        end: when it ended.
        what: the function's identifier, the reason of a collection, or None.
    """

    kind: str
    thread: Any
    start: int
    end: int
    what: int | str | None


@dataclass(slots=True)
class Timeline:
    """The intervals of a trace, and CPU time.

    Attributes:
        intervals: in the order of their ends, `MOST_INTERVALS` at most.
        counts: how many of each kind there were.
        durations: milliseconds of each kind in all.
        process_cpu: microseconds of the process; underflows are left out.
        thread_cpu: the same by thread.
        survivors: the last allocation table: number and bytes of objects by class.
        loaded: how many modules, assemblies and so on were loaded.
    """

    intervals: list[Interval] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    durations: Counter[str] = field(default_factory=Counter)
    process_cpu: int = 0
    thread_cpu: Counter[int | None] = field(default_factory=Counter)
    survivors: dict[int | None, tuple[int, int]] = field(default_factory=dict)
    loaded: Counter[str] = field(default_factory=Counter)
    _open: dict[Any, list[tuple[int, int | str | None]]] = field(default_factory=dict)
    _opened: int = 0

    def begin(self, kind: str, thread: Any, start: int, what: int | str | None) -> bool:
        """Begin an interval; whether none was open on the thread."""
        alone = not self._open.get((kind, thread))
        if self._opened < MOST_OPEN:
            self._open.setdefault((kind, thread), []).append((start, what))
            self._opened += 1
        return alone

    def end(self, kind: str, thread: Any, end: int, what: int | None = None) -> bool:
        """End the newest interval that was begun, of `what` if that is given; whether there was one."""
        opened = self._open.get((kind, thread), [])
        for place in reversed(range(len(opened))):
            if what is None or opened[place][1] == what:
                start, about = opened.pop(place)
                self._opened -= 1
                if not opened:
                    del self._open[kind, thread]
                self.counts[kind] += 1
                self.durations[kind] += max(end - start, 0)
                if len(self.intervals) < MOST_INTERVALS:
                    self.intervals.append(Interval(kind, thread, start, end, about))
                return True
        return False


_BEGINS: dict[type[Any], str] = {r.JitStarted: "jit", r.JitSearchStarted: "search", r.GcStarted: "gc"}
_ENDS: dict[type[Any], str] = {r.JitFinished: "jit", r.JitSearchFinished: "search", r.GcFinished: "gc"}
_LOADS: set[type[Any]] = {r.ModuleLoaded, r.AssemblyLoaded, r.AppDomainCreated, r.ClassLoaded, r.ClassLoadedOld}


class TimelineRules:
    """Puts a timeline together, and finds what does not fit.

    Args:
        findings: takes it.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._thread_kinds: set[bool] = set()
        self._paused = False

    def add(self, offset: int, record: Any, timeline: Timeline) -> None:
        """Take in the next record that is no sample."""
        cls = type(record)
        if cls in _BEGINS or cls in _ENDS:
            self._interval(offset, record, timeline)
        elif cls is r.ProcessCpu or cls is r.ThreadCpu:
            self._cpu(offset, record, timeline)
        elif cls is r.ProfilerPaused or cls is r.ProfilerResumed:
            self._pause(offset, record, timeline)
        elif cls is r.AllocationTable:
            timeline.survivors = {item.class_iid: (item.count, item.size) for item in record.items}
        elif cls in _LOADS:
            timeline.loaded[cls.__name__] += 1

    def _interval(self, offset: int, record: Any, timeline: Timeline) -> None:
        os = isinstance(record.thread, r.OsThread)
        if not self._thread_kinds or os in self._thread_kinds:
            self._thread_kinds.add(os)
        elif len(self._thread_kinds) == 1:
            self._thread_kinds.add(os)
            told = "threads are told by Internal IDs and by numbers of the system in one file"
            self._findings.add("thread-style", offset, told, level=Level.WARNING)
        cls = type(record)
        what = getattr(record, "function_id", None)
        if cls in _BEGINS:
            alone = timeline.begin(_BEGINS[cls], record.thread, record.timestamp, getattr(record, "reason", what))
            if cls is r.GcStarted:
                if not alone:
                    self._findings.add("gc-pairs", offset, "a collection begins within another", level=Level.WARNING)
                if len(record.generations) != 4:
                    told = f"{len(record.generations)} generations are told of, not four"
                    self._findings.add("gc-generations", offset, told)
        elif not timeline.end(_ENDS[cls], record.thread, record.timestamp, what):
            if cls is r.GcFinished:
                self._findings.add("gc-pairs", offset, "a collection ends that did not begin", level=Level.WARNING)
            else:
                told = f"function {what:#x} is finished on a thread where it was not begun"
                self._findings.add("jit-pairs", offset, told, level=Level.WARNING)

    def _cpu(self, offset: int, record: Any, timeline: Timeline) -> None:
        if record.usage >= NEGATIVE:
            told = f"a CPU time of {record.usage - 2 * NEGATIVE:,} microseconds"
            self._findings.add("usage-negative", offset, told, level=Level.WARNING)
        elif type(record) is r.ProcessCpu:
            timeline.process_cpu += record.usage
        elif record.thread in timeline.thread_cpu or len(timeline.thread_cpu) < MOST_OPEN:
            timeline.thread_cpu[record.thread] += record.usage

    def _pause(self, offset: int, record: Any, timeline: Timeline) -> None:
        pauses = type(record) is r.ProfilerPaused
        if pauses == self._paused:
            told = f"profiling is {'paused' if pauses else 'resumed'} twice"
            self._findings.add("pause-pairs", offset, told, level=Level.WARNING)
        elif pauses:
            timeline.begin("pause", None, record.timestamp, None)
        else:
            timeline.end("pause", None, record.timestamp)
        self._paused = pauses
