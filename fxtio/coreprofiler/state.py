"""State that records change: the stack of each thread, and the intervals between a beginning and an end.

A stack sample gives only what changed.  Each thread has a stack, at first an empty one.  A sample says how many frames
from the bottom were never left since the last sample; frames above those are new activations, even of the same
functions, so the number may be less than what the two stacks have in common.  The ticks of a sample belong to the stack
that it completes.

spec: Stack Trace Sample
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fxtio.coreprofiler.layout import NS_PER_MS, UNDEFINED, OsThread
from fxtio.coreprofiler.records import (
    AllocItem,
    Frame,
    MemorySample,
    ProfilerPaused,
    ProfilerResumed,
    StackSample,
    ThreadDestroyed,
)
from fxtio.finding import Findings

UNKNOWN_FRAME = Frame(None, UNDEFINED)
"""Stands for a frame that was lost."""

MAX_DEPTH = 1 << 16
"""The deepest stack that is followed, in frames."""

MAX_LOST = 1 << 20
"""The most unknown frames that are added in all; a trace that asks for more is hostile."""

MAX_THREADS = 1 << 16
"""The most threads that are followed; the samples of further ones stand alone."""

MAX_INTERVALS = 100_000
"""The most intervals that are stored; further ones are only counted."""

MAX_OPEN = 1 << 16
"""The most intervals that may be open; further ones are not followed."""


class Sample(NamedTuple):
    """A thread's stack at a time.

    Attributes:
        offset: the byte offset of the sample's line.
        time: nanoseconds from the start of profiling.
        thread: the thread's Internal ID, or None.
        ticks: sampling ticks; 0 where the record only reports a change, and in memory samples.
        stack: the frames, the bottom one first.
        matched: number of frames, from the bottom, that were not left since the thread's last sample.
        paused: whether the profiler was paused, so that the ticks do not count.
        complete: whether no part of the stack was lost.
        allocated: the allocated objects, of a memory sample.
    """

    offset: int
    time: int
    thread: int | None
    ticks: int
    stack: tuple[Frame, ...]
    matched: int
    paused: bool
    complete: bool
    allocated: tuple[AllocItem, ...] = ()


@dataclass(slots=True)
class _Thread:
    stack: list[Frame]
    complete: bool = True
    timestamp: int | None = None
    destroyed: bool = False


class Stacks:
    """Follows the stacks of all threads.

    Args:
        findings: receives what is inconsistent.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._threads: dict[int | None, _Thread] = {}
        self.paused = False
        self._lost = MAX_LOST

    def samples(self, entries: Iterable[tuple[int, Any]]) -> Iterator[Sample]:
        """Yield the stack of each stack sample and each memory sample.

        Args:
            entries: byte offsets and records, in the order of the file; records of other classes are needed too.
        """
        for offset, record in entries:
            if type(record) is StackSample:
                yield self.apply(offset, record)
            elif type(record) is MemorySample:
                yield self.allocation(offset, record)
            else:
                self.observe(record)

    def observe(self, record: Any) -> None:
        """Take in a record that is not a sample."""
        if type(record) is ProfilerPaused:
            self.paused = True
        elif type(record) is ProfilerResumed:
            self.paused = False
        elif type(record) is ThreadDestroyed and record.thread in self._threads:
            self._threads[record.thread] = _Thread([], destroyed=True)

    def apply(self, offset: int, record: StackSample) -> Sample:
        """Change a thread's stack by a sample, and return the whole stack."""
        thread = self.change(offset, record)
        return self._sample(offset, record, thread, record.count or 0, len(thread.stack) - len(record.frames))

    def change(self, offset: int, record: StackSample) -> _Thread:
        """Change a thread's stack by a sample."""
        thread = self._thread_of(offset, record)
        stack, match = thread.stack, record.match
        if match > record.size:
            message = f"{match:,} frames match, but the last stack had {record.size:,}"
            self._findings.add("match-beyond-size", offset, message)
        elif record.size != len(stack) and thread.complete:
            message = f"the sample changes a stack of {record.size:,} frames, but the thread's stack has {len(stack):,}"
            self._findings.add("stack-size", offset, message)
        thread.complete = match == 0 or (thread.complete and record.size == len(stack) and match <= record.size)
        if match > len(stack):
            lost = min(match - len(stack), MAX_DEPTH, self._lost)
            self._lost -= lost
            stack += [UNKNOWN_FRAME] * lost
        del stack[match:]
        if record.ip is not None:
            if match == 0:
                self._findings.add("ip-without-frame", offset, "an instruction pointer changes, but no frame matches")
            elif stack:
                stack[-1] = Frame(stack[-1].function_iid, record.ip)
        stack += record.frames
        if len(stack) > MAX_DEPTH:
            message = f"a stack of {len(stack):,} frames is too deep to be followed"
            self._findings.add("stack-too-deep", offset, message)
            thread.complete = False
            stack.clear()
        return thread

    def allocation(self, offset: int, record: MemorySample) -> Sample:
        """Return the thread's current stack with the objects that were allocated on it."""
        thread = self._thread_of(offset, record)
        return self._sample(offset, record, thread, 0, len(thread.stack))._replace(allocated=record.items)

    def _sample(self, offset: int, record: Any, thread: _Thread, ticks: int, matched: int) -> Sample:
        stack, time = tuple(thread.stack), record.timestamp * NS_PER_MS
        return Sample(offset, time, record.thread, ticks, stack, max(matched, 0), self.paused, thread.complete)

    def _thread_of(self, offset: int, record: Any) -> _Thread:
        thread = self._threads.get(record.thread)
        if thread is None:
            thread = _Thread([])
            if len(self._threads) < MAX_THREADS:
                self._threads[record.thread] = thread
        if thread.destroyed:
            self._findings.add("thread-gone", offset, f"a sample of thread {record.thread}, which was destroyed")
            thread.destroyed = False
        if thread.timestamp is not None and record.timestamp < thread.timestamp:
            message = f"{record.timestamp} ms follows {thread.timestamp} ms on the same thread"
            self._findings.add("time-backwards", offset, message)
        thread.timestamp = record.timestamp
        return thread


class Interval(NamedTuple):
    """A span of time with a beginning and an end.

    Attributes:
        kind: `gc`, `jit`, `search` or `pause`.
        thread: the thread's Internal ID or an `OsThread`; None where it is unknown.
        start: nanoseconds from the start of profiling.
        end: likewise.
        detail: the function's identifier, the reason of a collection, or None.
    """

    kind: str
    thread: int | OsThread | None
    start: int
    end: int
    detail: int | str | None


@dataclass(slots=True)
class Timeline:
    """The intervals of a trace, CPU time, the last state of the heap, and what was loaded.

    Attributes:
        intervals: in the order of their ends, `MAX_INTERVALS` at most.
        counts: number of intervals of each kind.
        durations: nanoseconds of each kind in all.
        process_cpu: microseconds of the process; underflows are left out.
        thread_cpu: microseconds by thread; underflows are left out.
        survivors: number and bytes of objects by class, of the last allocation table.
        loaded: number of records of each class that reports something loaded or created.
    """

    intervals: list[Interval] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    durations: Counter[str] = field(default_factory=Counter)
    process_cpu: int = 0
    thread_cpu: Counter[int | None] = field(default_factory=Counter)
    survivors: dict[int | None, tuple[int, int]] = field(default_factory=dict)
    loaded: Counter[str] = field(default_factory=Counter)
    _open: dict[Any, list[tuple[int, int | str | None]]] = field(default_factory=dict)
    _open_count: int = 0

    def begin(self, kind: str, thread: Any, timestamp: int, detail: int | str | None) -> bool:
        """Begin an interval at a time in milliseconds; return whether none was open on the thread."""
        alone = not self._open.get((kind, thread))
        if self._open_count < MAX_OPEN:
            self._open.setdefault((kind, thread), []).append((timestamp, detail))
            self._open_count += 1
        return alone

    def end(self, kind: str, thread: Any, timestamp: int, detail: int | None = None) -> bool:
        """End the newest open interval at a time in milliseconds; return whether there was one.

        Args:
            kind: the kind.
            thread: the thread.
            timestamp: the end.
            detail: only intervals that began with this detail are looked at, unless it is None.
        """
        opened = self._open.get((kind, thread), [])
        for index in reversed(range(len(opened))):
            if detail is None or opened[index][1] == detail:
                begin, first_detail = opened.pop(index)
                self._open_count -= 1
                if not opened:
                    del self._open[kind, thread]
                start, end = begin * NS_PER_MS, timestamp * NS_PER_MS
                self.counts[kind] += 1
                self.durations[kind] += max(end - start, 0)
                if len(self.intervals) < MAX_INTERVALS:
                    self.intervals.append(Interval(kind, thread, start, end, first_detail))
                return True
        return False
