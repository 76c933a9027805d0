"""Rules about several records: definitions and their uses, stacks, and pairs of a beginning and an end.

These are the rules that `info` checks, too.  Faults of a single line are found where lines are read (`frames`), and
`rules` has the rules that only a validation checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import itemgetter
from typing import Any, Protocol

import numpy as np

from fxtio.arrays import Array
from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.frames import Block
from fxtio.coreprofiler.layout import NS_PER_MS, OsThread, Style
from fxtio.coreprofiler.records import TIME_FIELD
from fxtio.coreprofiler.sampling import Samples, iid_of
from fxtio.coreprofiler.state import MAX_OPEN, Stacks, ThreadStack, Timeline
from fxtio.finding import Findings

_TRACKING = "StackTrackingEnabled"

_NO_PLACE = "no stack sample of the thread comes before the allocation"

_TRUE = frozenset({"T", "t", "true", "1"})

MAX_IDS = 1 << 18
"""The most Internal IDs of a kind that are followed."""

MAX_PARAMETERS = 1 << 10
"""The most parameters of the profiler that are stored."""

MAX_PARAMETER_SIZE = 1 << 12
"""The most characters of the name and the value of a parameter that is stored."""

NEGATIVE = 2**63
"""CPU times from here on come from an underflow."""

_BEGINS: dict[type[Any], str] = {r.JitStarted: "jit", r.JitSearchStarted: "search", r.GcStarted: "gc"}
_ENDS: dict[type[Any], str] = {r.JitFinished: "jit", r.JitSearchFinished: "search", r.GcFinished: "gc"}
_LOADS: set[type[Any]] = {r.ModuleLoaded, r.AssemblyLoaded, r.AppDomainCreated, r.ClassLoaded, r.ClassLoadedOld}


def can_store(parameters: Mapping[str, Any], record: r.ProfilerConfig) -> bool:
    """Return whether a parameter can be stored with those that are stored already."""
    is_short = len(record.name) + len(record.value) <= MAX_PARAMETER_SIZE
    return is_short and (record.name in parameters or len(parameters) < MAX_PARAMETERS)


class TimelineRules:
    """Fills a timeline, and checks pairs and CPU times.

    Args:
        findings: receives what is inconsistent.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._thread_kinds: set[bool] = set()
        self._paused = False

    def add(self, offset: int, record: Any, timeline: Timeline) -> None:
        """Take in the next record that is not a sample."""
        cls = type(record)
        if cls in _BEGINS or cls in _ENDS:
            self._add_interval(offset, record, timeline)
        elif cls is r.ProcessCpu or cls is r.ThreadCpu:
            self._add_cpu(offset, record, timeline)
        elif cls is r.ProfilerPaused or cls is r.ProfilerResumed:
            self._add_pause(offset, record, timeline)
        elif cls is r.AllocationTable:
            timeline.survivors = {item.class_iid: (item.count, item.size) for item in record.items}
        elif cls in _LOADS:
            timeline.loaded[cls.__name__] += 1

    def _add_interval(self, offset: int, record: Any, timeline: Timeline) -> None:
        is_os = isinstance(record.thread, OsThread)
        if record.thread is not None and is_os not in self._thread_kinds:
            self._thread_kinds.add(is_os)
            if len(self._thread_kinds) > 1:
                self._findings.add("thread.style", offset)
        cls = type(record)
        function = getattr(record, "function_id", None)
        if cls in _BEGINS:
            reason = getattr(record, "reason", None)
            alone = timeline.begin(_BEGINS[cls], record.thread, record.timestamp, function=function, reason=reason)
            if cls is r.GcStarted:
                if not alone:
                    message = "a collection begins within another one"
                    self._findings.add("gc.pairs", offset, message)
                if len(record.generations) != 4:
                    message = f"the collection lists {len(record.generations)} generations instead of four"
                    self._findings.add("gc.generations", offset, message)
            return
        length = timeline.end(_ENDS[cls], record.thread, record.timestamp, function=function)
        if length is None and cls is r.GcFinished:
            self._findings.add("gc.pairs", offset, "a collection ends without a beginning")
        elif length is None:
            message = f"function {function:#x} ends on a thread where it did not begin"
            self._findings.add("jit.pairs", offset, message)
        else:
            self._check_length(offset, length)

    def _add_cpu(self, offset: int, record: Any, timeline: Timeline) -> None:
        if record.usage >= NEGATIVE:
            message = f"a CPU time of {record.usage - 2 * NEGATIVE:,} microseconds"
            self._findings.add("thread.usage-negative", offset, message)
        elif type(record) is r.ProcessCpu:
            timeline.process_cpu += record.usage
        elif record.thread in timeline.thread_cpu or len(timeline.thread_cpu) < MAX_OPEN:
            timeline.thread_cpu[record.thread] += record.usage

    def _add_pause(self, offset: int, record: Any, timeline: Timeline) -> None:
        pauses = type(record) is r.ProfilerPaused
        if pauses == self._paused:
            message = f"profiling is {'paused' if pauses else 'resumed'} twice"
            self._findings.add("profiling.pause-pairs", offset, message)
        elif pauses:
            timeline.begin("pause", None, record.timestamp)
        else:
            self._check_length(offset, timeline.end("pause", None, record.timestamp) or 0)
        self._paused = pauses

    def _check_length(self, offset: int, length: int) -> None:
        if length < 0:
            message = f"the end is {-length // NS_PER_MS:,} ms before the beginning"
            self._findings.add("time.interval-negative", offset, message)


class Watcher(Protocol):
    """Receives the contents of a trace while its rules are checked."""

    def name(self, record: Any) -> None:
        """Take in a record that is not a sample."""

    def sample(self, record: r.StackSample, thread: ThreadStack, paused: bool) -> None:
        """Take in a stack sample, with the stack as it is after the sample."""

    def allocation(self, record: r.MemorySample, thread: ThreadStack) -> None:
        """Take in a memory sample, with the current stack."""


class Rules:
    """Checks a trace from its beginning.

    Args:
        findings: receives what is inconsistent.
        watcher: receives all records and samples, or None.

    Attributes:
        config: the profiler's parameters.
        threads: Internal IDs of threads, with the newest thread of the operating system.
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
        self._created: set[int | None] = set()
        # With the offsets of their first definitions and first stack samples.
        self._defined: dict[str, dict[int | None, int]] = {kind: {None: -1} for kind in ("thread", "function", "class")}
        self._sampled: dict[int | None, int] = {}
        self._named: dict[str, set[int | None]] = {kind: {None} for kind in ("function", "class")}
        self._used: dict[str, set[int | None]] = {kind: set() for kind in self._defined}
        self._tracking: list[tuple[int, bool]] = []  # where stack tracking is turned on or off, as far as it matters

    def add_block(self, block: Block, timeline: Timeline) -> None:
        """Take in the records of the next block, all samples together; there is no watcher."""
        samples = Samples(block)
        destroyed = {*block.columns(r.ThreadDestroyed)[1]["thread"].tolist()}
        odd = samples.follow(self._stacks, destroyed)
        others = block.placed(*(block.classes() - {r.StackSample, r.MemorySample}))
        if len(odd):
            others = sorted(others + block.placed(r.StackSample, r.MemorySample, among=odd), key=itemgetter(0))
        for offset, record in others:
            cls = type(record)
            if cls is r.StackSample:
                self._stacks.change(offset, record)
            elif cls is r.MemorySample:
                self._stacks.current(offset, record)
            else:
                if (timestamp := getattr(record, TIME_FIELD, None)) is not None:
                    self._add_time(offset, timestamp)
                self._stacks.observe(record)
                self._add_other(offset, record)
                self._timeline.add(offset, record, timeline)
        if len(samples.rows):
            self._add_samples(block.offsets(), samples)
        del self._tracking[:-1]

    def _add_samples(self, offsets: Array, samples: Samples) -> None:
        """Check the times and the Internal IDs of samples, and memory samples."""
        places, times = offsets[samples.rows], samples.time
        for offset, time in zip(places[times < 0].tolist(), times[times < 0].tolist(), strict=True):
            self._add_time(offset, time)
        for row in (int(times.argmin()), int(times.argmax())):
            if times[row] >= 0:
                self._add_time(int(places[row]), int(times[row]))
        self._use_all("thread", samples.thread, places)
        frames, items = samples.stack["frames"], samples.memory["items"]
        stacked, allocated = offsets[samples.stack_rows], offsets[samples.memory_rows]
        self._use_all("function", frames.columns["function_iid"], np.repeat(stacked, frames.counts))
        item_places = np.repeat(allocated, items.counts)
        self._use_all("class", items.columns["class_iid"], item_places)
        threads, first = np.unique(samples.stack["thread"], return_index=True)
        for thread, offset in zip(threads.tolist(), stacked[first].tolist(), strict=True):
            if len(self._sampled) < MAX_IDS:
                self._sampled.setdefault(iid_of(thread), offset)
        if any(is_on for _, is_on in self._tracking):
            self._check_places(samples.memory["thread"], allocated)
        for offset in item_places[items.columns["count"] == 0].tolist():
            self._findings.add("allocation.empty", offset)

    def _check_places(self, thread: Array, offsets: Array) -> None:
        """Check that a stack sample comes before each memory sample where stacks are tracked."""
        begins, is_on = zip(*self._tracking, strict=True)
        at = np.searchsorted(begins, offsets) - 1
        tracked = np.array(is_on)[at] & (at >= 0)
        threads, which = np.unique(thread, return_inverse=True)
        none = int(offsets[-1]) + 1 if len(offsets) else 0
        first = np.array([self._sampled.get(iid_of(number), none) for number in threads.tolist()], np.int64)
        for offset in offsets[tracked & (first[which] > offsets)].tolist():
            self._findings.add("allocation.place", offset, _NO_PLACE)

    def _use_all(self, kind: str, numbers: Array, offsets: Array) -> None:
        """Take in uses of Internal IDs in the order of the file."""
        values, first = np.unique(numbers, return_index=True)
        for value, offset in zip(values.tolist(), offsets[first].tolist(), strict=True):
            self._use(kind, iid_of(value), offset)

    def add(self, offsets: Iterable[int], records: Iterable[Any], timeline: Timeline) -> None:
        """Take in the next records."""
        for offset, record in zip(offsets, records, strict=True):
            if (timestamp := getattr(record, TIME_FIELD, None)) is not None:
                self._add_time(offset, timestamp)
            cls = type(record)
            if cls is r.StackSample:
                self._add_sample(offset, record)
            elif cls is r.MemorySample:
                self._add_allocation(offset, record)
            else:
                self._stacks.observe(record)
                if self._watcher is not None:
                    self._watcher.name(record)
                self._add_other(offset, record)
                self._timeline.add(offset, record, timeline)
        del self._tracking[:-1]

    def finish(self, end: int, style: Style, timeline: Timeline) -> None:
        """Check what is known only at the end of the trace: missing names and ends, and the style of the lines.

        Args:
            end: the byte offset of the end.
            style: the style of the file.
            timeline: the intervals of the trace.
        """
        if count := timeline.open_count(*_BEGINS.values()):
            self._findings.add("time.interval-open", end, times=count)
        if style.mark or style.newline != "\n":
            message = "CRLF line ends or a byte-order mark: the development tools wrote the file anew"
            self._findings.add("source.windows-lines", 0, message)
        for kind, named in self._named.items():
            if len(named) >= MAX_IDS:  # not all names are known
                continue
            if missing := sorted(iid for iid in self._used[kind] - named if iid is not None):
                few = ", ".join(f"{iid:#x}" for iid in missing[:5])
                message = f"no {kind} name for {few}{', ...' if len(missing) > 5 else ''}"
                self._findings.add("id.name-missing", end, message, times=len(missing))

    def _add_time(self, offset: int, timestamp: int) -> None:
        if timestamp < 0:
            self._findings.add("time.negative", offset, f"a time of {timestamp:,} ms")
        self.first = timestamp if self.first is None else min(self.first, timestamp)
        self.last = timestamp if self.last is None else max(self.last, timestamp)

    def _add_sample(self, offset: int, record: r.StackSample) -> None:
        thread = self._stacks.change(offset, record)
        if self._watcher is not None:
            self._watcher.sample(record, thread, self._stacks.paused)
        self._use("thread", record.thread, offset)
        for frame in record.frames:
            self._use("function", frame.function_iid, offset)
        if len(self._sampled) < MAX_IDS:
            self._sampled.setdefault(record.thread, offset)

    def _add_allocation(self, offset: int, record: r.MemorySample) -> None:
        thread = self._stacks.current(offset, record)
        if self._watcher is not None:
            self._watcher.allocation(record, thread)
        self._use("thread", record.thread, offset)
        if self._tracking and self._tracking[-1][1] and record.thread not in self._sampled:
            self._findings.add("allocation.place", offset, _NO_PLACE)
        for item in record.items:
            self._use("class", item.class_iid, offset)
            if item.count == 0:
                self._findings.add("allocation.empty", offset)

    def _add_other(self, offset: int, record: Any) -> None:
        cls = type(record)
        if cls is r.ProfilerStart:
            if self.started_at is not None:
                self._findings.add("profiling.start-again", offset)
            self.started_at = self.started_at or record.started_at
        elif cls is r.ProfilerConfig:
            if record.name == _TRACKING:
                self._tracking.append((offset, record.value in _TRUE))
            if can_store(self.config, record):
                self.config[record.name] = record.value
        elif cls is r.ThreadCreated:
            if record.thread is not None and record.thread in self._created:
                self._findings.add("thread.again", offset, f"thread {record.thread:#x} is created a second time")
            if len(self._created) < MAX_IDS:
                self._created.add(record.thread)
            self._define("thread", record.thread, offset)
            self._assign(record.thread, self.threads.get(record.thread))
        elif cls is r.ThreadAssigned:
            self._define("thread", record.thread, offset)
            self._assign(record.thread, record.os_thread)
        elif cls is r.ThreadCpu:  # it may come before the thread's creation
            self._define("thread", record.thread, offset)
        elif cls in (r.FunctionInfo, r.FunctionCompiled, r.FunctionFound):
            self._define("function", record.function_iid, offset)
        elif cls in (r.FunctionName, r.FunctionNameOld):
            self._define("function", record.function_iid, offset)
            self._name("function", record.function_iid)
        elif cls is r.ClassLoaded:
            self._define("class", record.class_iid, offset)
        elif cls is r.ClassName:
            self._define("class", record.class_iid, offset)
            self._name("class", record.class_iid)

    def _assign(self, thread: int | None, os_thread: int | None) -> None:
        if thread in self.threads or len(self.threads) < MAX_IDS:
            self.threads[thread] = os_thread

    def _define(self, kind: str, iid: int | None, offset: int) -> None:
        if len(self._defined[kind]) < MAX_IDS:
            self._defined[kind].setdefault(iid, offset)

    def _name(self, kind: str, iid: int | None) -> None:
        if len(self._named[kind]) < MAX_IDS:
            self._named[kind].add(iid)

    def _use(self, kind: str, iid: int | None, offset: int) -> None:
        used = self._used[kind]
        if iid in used or len(used) >= MAX_IDS:
            return
        used.add(iid)
        defined = self._defined[kind]
        if len(defined) < MAX_IDS and defined.get(iid, offset) >= offset:
            message = f"{kind} {iid:#x} is used before it is defined"
            self._findings.add("id.undefined", offset, message)
