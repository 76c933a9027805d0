"""Rules about several records: definitions and their uses, stacks, and pairs of a beginning and an end.

These are the rules that `info` checks, too.  Faults of a single line are found where lines are read (`frames`), and
`rules` has the rules that only a validation checks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.frames import Block
from fxtio.coreprofiler.layout import NS_PER_MS, OsThread, nanoseconds
from fxtio.coreprofiler.records import TIME_FIELD
from fxtio.coreprofiler.state import Samples, Stacks, iid_of
from fxtio.finding import Findings
from fxtio.references import Kind, Placed, References

_TRACKING = "StackTrackingEnabled"

_TRUE = frozenset({"T", "t", "true", "1"})

MAX_IDS = 1 << 18
"""The most Internal IDs of a kind that are followed."""

MAX_PARAMETERS = 1 << 10
"""The most parameters of the profiler that are stored."""

MAX_PARAMETER_SIZE = 1 << 12
"""The most characters of the name and the value of a parameter that is stored."""

MAX_OPEN = 1 << 16
"""The most intervals that may be open; further ones are not followed."""

NEGATIVE = 2**63
"""CPU times from here on come from an underflow."""

_INTERVALS: dict[type[Any], tuple[str, bool]] = {
    r.JitStarted: ("jit", True), r.JitFinished: ("jit", False),
    r.JitSearchStarted: ("search", True), r.JitSearchFinished: ("search", False),
    r.GcStarted: ("gc", True), r.GcFinished: ("gc", False),
    r.ProfilerPaused: ("pause", True), r.ProfilerResumed: ("pause", False),
}  # fmt: skip
"""The kinds of intervals that records are about, and whether they begin them."""

_PAIR_RULES = {"jit": "jit.pairs", "search": "jit.pairs", "gc": "gc.pairs", "pause": "profiling.pause-pairs"}
_NESTING = ("jit", "search")

_FOLLOWED = tuple(
    cls
    for cls in r.RECORDS
    if (TIME_FIELD in cls.__struct_fields__ and cls not in (r.StackSample, r.MemorySample))
    or cls in (r.ProfilerStart, r.ProfilerConfig, r.ThreadCreated, r.ThreadAssigned, r.ThreadDestroyed)
)
"""The classes of records that are looked at one by one."""


_NAMED_FUNCTIONS = ((r.FunctionName, "function_iid"), (r.FunctionNameOld, "function_iid"))
_NAMED_CLASSES = ((r.ClassName, "class_iid"),)
_FUNCTIONS = ((r.StackSample, "frames.function_iid"),)
_CLASSES = ((r.MemorySample, "items.class_iid"),)
_RULES = "id.undefined", "id.undefined"  # whether the definition comes later or not

KINDS = (
    Kind(
        "thread",
        ((r.ThreadCreated, "thread"), (r.ThreadAssigned, "thread"), (r.ThreadCpu, "thread")),  # in any order
        ((r.StackSample, "thread"), (r.MemorySample, "thread")),
        *_RULES,
    ),
    Kind(
        "function",
        (*((cls, "function_iid") for cls in (r.FunctionInfo, r.FunctionCompiled, r.FunctionFound)), *_NAMED_FUNCTIONS),
        _FUNCTIONS,
        *_RULES,
    ),
    Kind("class", ((r.ClassLoaded, "class_iid"), *_NAMED_CLASSES), _CLASSES, *_RULES),
    Kind("the name of function", _NAMED_FUNCTIONS, _FUNCTIONS, "id.name-missing"),
    Kind("the name of class", _NAMED_CLASSES, _CLASSES, "id.name-missing"),
)
"""The Internal IDs that samples use."""


def numbers_of(block: Block, place: tuple[type[Any], str]) -> Placed | None:
    """Return the numbers of a field that are known, and the byte offsets of their lines; None if there are none.

    Args:
        block: the block.
        place: a class of records and a field; with a point before it, a field of the items of a list.
    """
    cls, path = place
    rows, columns = block.columns(cls)
    if not len(rows):
        return None
    name, _, item = path.partition(".")
    values, offsets = columns[name], block.offsets()[rows]
    if item:
        values, offsets = values.columns[item], np.repeat(offsets, values.counts)
    is_known = values >= 0  # `?` is -1
    return values[is_known].astype(np.uint64), offsets[is_known]


def can_store(parameters: Mapping[str, Any], record: r.ProfilerConfig) -> bool:
    """Return whether a parameter can be stored with those that are stored already."""
    is_short = len(record.name) + len(record.value) <= MAX_PARAMETER_SIZE
    return is_short and (record.name in parameters or len(parameters) < MAX_PARAMETERS)


@dataclass(slots=True)
class Timeline:
    """The intervals of a trace, of the kinds `gc`, `jit`, `search` and `pause`, and CPU time.

    Attributes:
        counts: number of intervals of each kind.
        durations: nanoseconds of each kind in all.
        process_cpu: microseconds of the process; underflows are left out.
    """

    counts: Counter[str] = field(default_factory=Counter)
    durations: Counter[str] = field(default_factory=Counter)
    process_cpu: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the number of intervals of each kind, and their nanoseconds."""
        return {kind: {"count": count, "duration": self.durations[kind]} for kind, count in self.counts.items()}


class _TimelineRules:
    """Fills a timeline, and checks pairs and CPU times.

    An end belongs to the newest open interval of its kind, thread and function.

    Args:
        findings: receives what is inconsistent.
        timeline: receives intervals and CPU time.
    """

    def __init__(self, findings: Findings, timeline: Timeline) -> None:
        self._findings = findings
        self._timeline = timeline
        self._thread_kinds: set[bool] = set()
        self._open: dict[tuple[str, Any, int | None], list[int]] = {}  # the times at which intervals began
        self._open_count = 0

    def open_count(self) -> int:
        """Return how many compilations, searches and collections have no end so far."""
        return sum(len(opened) for (kind, *_), opened in self._open.items() if kind != "pause")

    def add(self, offset: int, record: Any) -> None:
        """Take in the next record that is not a sample."""
        cls = type(record)
        if cls in _INTERVALS:
            self._add_interval(offset, record, *_INTERVALS[cls])
        elif cls is r.ProcessCpu or cls is r.ThreadCpu:
            if record.usage >= NEGATIVE:
                message = f"a CPU time of {record.usage - 2 * NEGATIVE:,} microseconds"
                self._findings.add("thread.usage-negative", offset, message)
            elif cls is r.ProcessCpu:
                self._timeline.process_cpu += record.usage

    def _add_interval(self, offset: int, record: Any, kind: str, begins: bool) -> None:
        thread, function = getattr(record, "thread", None), getattr(record, "function_id", None)
        is_os, place = isinstance(thread, OsThread), (kind, thread, function)
        if thread is not None and is_os not in self._thread_kinds:
            self._thread_kinds.add(is_os)
            if len(self._thread_kinds) > 1:
                self._findings.add("thread.style", offset)
        if not begins:
            is_paired = self._end(offset, place, record.timestamp)
        elif kind == "pause" and place in self._open:
            is_paired = False
        else:
            is_paired = self._begin(place, record.timestamp) or kind in _NESTING
        if not is_paired:
            message = "" if function is None else f"function {function:#x} ends on a thread where it did not begin"
            self._findings.add(_PAIR_RULES[kind], offset, message)
        if type(record) is r.GcStarted and len(record.generations) != 4:
            message = f"the collection lists {len(record.generations)} generations instead of four"
            self._findings.add("gc.generations", offset, message)

    def _begin(self, place: tuple[str, Any, int | None], timestamp: int) -> bool:
        """Begin an interval; return whether no such interval was open."""
        alone = place not in self._open
        if self._open_count < MAX_OPEN or place[0] == "pause":  # there is one pause at most
            self._open.setdefault(place, []).append(timestamp)
            self._open_count += 1
        return alone

    def _end(self, offset: int, place: tuple[str, Any, int | None], timestamp: int) -> bool:
        """End the newest open interval of a kind, thread and function; return whether there was one."""
        opened = self._open.get(place)
        if opened is None:
            return False
        length = nanoseconds(timestamp) - nanoseconds(opened.pop())
        self._open_count -= 1
        if not opened:
            del self._open[place]
        kind = place[0]
        self._timeline.counts[kind] += 1
        self._timeline.durations[kind] += max(length, 0)
        if length < 0:
            message = f"the end is {-length // NS_PER_MS:,} ms before the beginning"
            self._findings.add("time.interval-negative", offset, message)
        return True


class BlockRules(ABC):
    """The base of rules that are checked block by block.

    Args:
        findings: receives the faults.
    """

    def __init__(self, findings: Findings) -> None:
        self.findings = findings

    @abstractmethod
    def add(self, block: Block) -> None:
        """Take in the next block."""

    def report(self, name: str, block: Block, rows: Array, message: str = "") -> None:
        """Add findings about some lines (rows of the block)."""
        if len(rows):
            self.findings.add_each(name, block.offsets()[np.unique(rows)].tolist(), message)

    def finish(self, end: int) -> None:  # noqa: B027  # most groups have nothing to check at the end
        """Check what is known only at the end of the trace, which is at a byte offset."""


class Rules(BlockRules):
    """Checks a trace from its beginning.

    Args:
        findings: receives what is inconsistent.
        timeline: receives intervals and CPU time.

    Attributes:
        config: the profiler's parameters.
        threads: Internal IDs of threads, with the newest thread of the operating system.
        started_at: when profiling began, or None.
        first: the earliest time in milliseconds, or None.
        last: the latest, or None.
    """

    def __init__(self, findings: Findings, timeline: Timeline) -> None:
        super().__init__(findings)
        self._stacks = Stacks(findings)
        self._timeline = _TimelineRules(findings, timeline)
        self.config: dict[str, str] = {}
        self.threads: dict[int | None, int | None] = {}
        self.started_at: datetime | None = None
        self.first: int | None = None
        self.last: int | None = None
        self._created: set[int | None] = set()
        self._references = References(KINDS, findings, MAX_IDS, MAX_IDS)
        self._sampled: dict[int | None, int] = {}  # the offset of the first stack sample of each thread
        self._tracking: list[tuple[int, bool]] = []  # where stack tracking is turned on or off, as far as it matters

    def add(self, block: Block) -> None:
        """Take in the records of the next block, all samples together."""
        samples = Samples(block)
        destroyed = {*block.columns(r.ThreadDestroyed)[1]["thread"].tolist()}
        odd = samples.follow(self._stacks, destroyed)
        others = block.placed(*_FOLLOWED)
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
                self._timeline.add(offset, record)
        if len(samples.rows):
            self._add_samples(block.offsets(), samples)
        self._references.add(partial(numbers_of, block))
        del self._tracking[:-1]

    def _add_samples(self, offsets: Array, samples: Samples) -> None:
        """Check the times of samples, and memory samples."""
        places, times = offsets[samples.rows], samples.time
        for offset, time in zip(places[times < 0].tolist(), times[times < 0].tolist(), strict=True):
            self._add_time(offset, time)
        for row in (int(times.argmin()), int(times.argmax())):
            if times[row] >= 0:
                self._add_time(int(places[row]), int(times[row]))
        items, stacked, allocated = samples.memory["items"], offsets[samples.stack_rows], offsets[samples.memory_rows]
        threads, first = np.unique(samples.stack["thread"], return_index=True)
        for thread, offset in zip(threads.tolist(), stacked[first].tolist(), strict=True):
            if len(self._sampled) < MAX_IDS:
                self._sampled.setdefault(iid_of(thread), offset)
        if any(is_on for _, is_on in self._tracking):
            self._check_places(samples.memory["thread"], allocated)
        for offset in np.repeat(allocated, items.counts)[items.columns["count"] == 0].tolist():
            self.findings.add("allocation.empty", offset)

    def _check_places(self, thread: Array, offsets: Array) -> None:
        """Check that a stack sample comes before each memory sample where stacks are tracked."""
        begins, is_on = zip(*self._tracking, strict=True)
        at = np.searchsorted(begins, offsets) - 1
        tracked = np.array(is_on)[at] & (at >= 0)
        threads, which = np.unique(thread, return_inverse=True)
        none = int(offsets[-1]) + 1 if len(offsets) else 0
        first = np.array([self._sampled.get(iid_of(number), none) for number in threads.tolist()], np.int64)
        for offset in offsets[tracked & (first[which] > offsets)].tolist():
            self.findings.add("allocation.place", offset)

    def finish(self, end: int) -> None:
        """Check what is known only at the end of the trace, which is at a byte offset: definitions and ends."""
        if count := self._timeline.open_count():
            self.findings.add("time.interval-open", end, times=count)
        self._references.finish()

    def _add_time(self, offset: int, timestamp: int) -> None:
        if timestamp < 0:
            self.findings.add("time.negative", offset, f"a time of {timestamp:,} ms")
        self.first = timestamp if self.first is None else min(self.first, timestamp)
        self.last = timestamp if self.last is None else max(self.last, timestamp)

    def _add_other(self, offset: int, record: Any) -> None:
        cls = type(record)
        if cls is r.ProfilerStart:
            if self.started_at is not None:
                self.findings.add("profiling.start-again", offset)
            self.started_at = self.started_at or record.started_at
        elif cls is r.ProfilerConfig:
            if record.name == _TRACKING:
                self._tracking.append((offset, record.value in _TRUE))
            if can_store(self.config, record):
                self.config[record.name] = record.value
        elif cls is r.ThreadCreated:
            if record.thread is not None and record.thread in self._created:
                self.findings.add("thread.again", offset, f"thread {record.thread:#x} is created a second time")
            if len(self._created) < MAX_IDS:
                self._created.add(record.thread)
            self._assign(record.thread, self.threads.get(record.thread))
        elif cls is r.ThreadAssigned:
            self._assign(record.thread, record.os_thread)

    def _assign(self, thread: int | None, os_thread: int | None) -> None:
        if thread in self.threads or len(self.threads) < MAX_IDS:
            self.threads[thread] = os_thread
