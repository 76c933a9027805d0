"""What records say together: definitions and their uses, stacks, pairs.

Each rule stands in docs/reference/findings.md.  A single line that is wrong is found where lines are read (`framing`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Protocol

from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.stacks import Sample, Stacks
from fxtio.coreprofiler.style import Style
from fxtio.coreprofiler.timeline import Timeline, TimelineRules
from fxtio.finding import Findings, Level

_TRUE = frozenset({"T", "t", "true", "1"})

MOST_IDS = 1 << 18
"""Internal IDs beyond so many of a kind are not followed."""

MOST_PARAMETERS = 1 << 10
"""So many parameters of the profiler are kept."""


class Watcher(Protocol):
    """Is told of a trace while its rules are checked."""

    def name(self, record: Any) -> None:
        """A record that is no sample."""

    def add(self, sample: Sample) -> None:
        """A sample with its whole stack."""


class Rules:
    """Follows a trace from its beginning.

    Args:
        findings: takes what is wrong.
        watcher: is told of everything, or None.

    Attributes:
        config: the profiler's parameters.
        threads: Internal IDs of threads, with the newest thread of the system.
        started_at: when profiling began, or None.
        first: the earliest time in milliseconds, or None.
        last: the latest, or None.
    """

    def __init__(self, findings: Findings, watcher: Watcher | None = None) -> None:
        self._findings = findings
        self._watcher = watcher
        self._stacks = Stacks(findings)
        self._timeline = TimelineRules(findings)
        self.config: dict[str, str] = {}
        self.threads: dict[int | None, int | None] = {}
        self.started_at: datetime | None = None
        self.first: int | None = None
        self.last: int | None = None
        self._defined: dict[str, set[int | None]] = {kind: {None} for kind in ("thread", "function", "class")}
        self._named: dict[str, set[int | None]] = {kind: {None} for kind in ("function", "class")}
        self._used: dict[str, set[int | None]] = {kind: set() for kind in self._defined}
        self._sampled: set[int | None] = set()  # threads that have had a stack sample

    def add(self, offsets: Iterable[int], records: Iterable[Any], timeline: Timeline) -> None:
        """Take in the next records."""
        for offset, record in zip(offsets, records, strict=True):
            stamp = getattr(record, "timestamp", None)
            if stamp is not None:
                self._time(offset, stamp)
            cls = type(record)
            if cls is r.StackSample:
                self._sample(offset, record)
            elif cls is r.MemorySample:
                self._allocation(offset, record)
            else:
                self._stacks.note(record)
                if self._watcher is not None:
                    self._watcher.name(record)
                self._other(offset, record)
                self._timeline.add(offset, record, timeline)

    def finish(self, end: int, style: Style) -> None:
        """The trace has ended: whatever never got a name; and lines as only the development tools write them."""
        if style.mark or style.newline != "\n":
            told = "lines end as on Windows, or a byte-order mark begins them: the development tools wrote this anew"
            self._findings.add("windows-lines", 0, told, level=Level.WARNING)
        for kind, named in self._named.items():
            if missing := sorted(one for one in self._used[kind] - named if one is not None):
                few = ", ".join(f"{one:#x}" for one in missing[:5])
                told = f"no {kind} name for {few}{', ...' if len(missing) > 5 else ''}"
                self._findings.add("name-missing", end, told, level=Level.WARNING, times=len(missing))

    def _time(self, offset: int, stamp: int) -> None:
        if stamp < 0:
            self._findings.add("time-negative", offset, f"a time of {stamp:,} ms", level=Level.WARNING)
        self.first = stamp if self.first is None else min(self.first, stamp)
        self.last = stamp if self.last is None else max(self.last, stamp)

    def _sample(self, offset: int, record: r.StackSample) -> None:
        if self._watcher is None:
            self._stacks.change(offset, record)
        else:
            self._watcher.add(self._stacks.apply(offset, record))
        self._use("thread", record.thread, offset)
        for frame in record.frames:
            self._use("function", frame.function, offset)
        if len(self._sampled) < MOST_IDS:
            self._sampled.add(record.thread)

    def _allocation(self, offset: int, record: r.MemorySample) -> None:
        sample = self._stacks.allocation(offset, record)
        if self._watcher is not None:
            self._watcher.add(sample)
        self._use("thread", record.thread, offset)
        if self.config.get("StackTrackingEnabled") in _TRUE and record.thread not in self._sampled:
            told = "no stack sample of the thread stands before it"
            self._findings.add("allocation-place", offset, told, level=Level.WARNING)
        for item in record.items:
            self._use("class", item.class_iid, offset)
            if item.count == 0:
                self._findings.add("allocation-empty", offset, "an allocation of no objects", level=Level.WARNING)

    def _other(self, offset: int, record: Any) -> None:
        cls = type(record)
        if cls is r.ProfilerStart:
            if self.started_at is not None:
                self._findings.add("start-again", offset, "another start of profiling")
            self.started_at = self.started_at or record.time
        elif cls is r.ProfilerConfig:
            if len(self.config) < MOST_PARAMETERS:
                self.config[record.name] = record.value
        elif cls is r.ThreadCreated:
            if record.thread in self.threads and record.thread is not None:
                self._findings.add("thread-again", offset, f"thread {record.thread:#x} is created again")
            self._define("thread", record.thread)
            self._assign(record.thread, self.threads.get(record.thread))
        elif cls is r.ThreadAssigned:
            self._define("thread", record.thread)
            self._assign(record.thread, record.os_thread)
        elif cls is r.ThreadCpu:  # it may come before the thread's creation
            self._define("thread", record.thread)
        elif cls in (r.FunctionInfo, r.FunctionCompiled, r.FunctionFound):
            self._define("function", record.function)
        elif cls in (r.FunctionName, r.FunctionNameOld):
            self._define("function", record.function)
            self._name("function", record.function)
        elif cls is r.ClassLoaded:
            self._define("class", record.class_iid)
        elif cls is r.ClassName:
            self._define("class", record.class_iid)
            self._name("class", record.class_iid)

    def _assign(self, thread: int | None, os: int | None) -> None:
        if thread in self.threads or len(self.threads) < MOST_IDS:
            self.threads[thread] = os

    def _define(self, kind: str, iid: int | None) -> None:
        if len(self._defined[kind]) < MOST_IDS:
            self._defined[kind].add(iid)

    def _name(self, kind: str, iid: int | None) -> None:
        if len(self._named[kind]) < MOST_IDS:
            self._named[kind].add(iid)

    def _use(self, kind: str, iid: int | None, offset: int) -> None:
        used = self._used[kind]
        if iid in used or len(used) >= MOST_IDS:
            return
        used.add(iid)
        if iid not in self._defined[kind] and len(self._defined[kind]) < MOST_IDS:
            told = f"{kind} {iid:#x} is used before it is defined"
            self._findings.add("undefined-iid", offset, told, level=Level.WARNING)
