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

from fxtio.coreprofiler.layout import UNDEFINED, OsThread, nanoseconds
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

MAX_FRAMES = 1 << 20
"""The most frames on the stacks of all threads together; a deeper stack is not followed."""

MAX_LOST = 1 << 20
"""The most unknown frames that are added in all; a trace that asks for more is hostile."""

MAX_THREADS = 1 << 16
"""The most threads that are followed; the samples of further ones stand alone."""

MAX_INTERVALS = 100_000
"""The most intervals that are stored; further ones are only counted."""

MAX_OPEN = 1 << 16
"""The most intervals that may be open; further ones are not followed."""

MAX_REASON = 40
"""The most characters of the reason of a collection that are stored."""

STACK_RECORDS = (StackSample, MemorySample, ProfilerPaused, ProfilerResumed, ThreadDestroyed)
"""The classes of records on which stacks depend."""


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
class ThreadStack:
    """The stack of a thread, which samples change.

    Attributes:
        frames: the frames, the bottom one first.
        unchanged: number of frames, from the bottom, whose functions the last sample left as they were.
        complete: whether no part of the stack was lost.
        timestamp: the time of the last sample in milliseconds, or None.
        destroyed: whether the thread was destroyed.
        followed: whether the next sample of the thread has the same stack; false if there are too many threads.
        cached: all frames as a tuple, if one was made since they changed; so one is made for many samples of a stack.
    """

    frames: list[Frame] = field(default_factory=list)
    unchanged: int = 0
    complete: bool = True
    timestamp: int | None = None
    destroyed: bool = False
    followed: bool = True
    cached: tuple[Frame, ...] | None = ()

    def clear(self) -> None:
        """Remove all frames."""
        self.frames.clear()
        self.unchanged, self.cached = 0, ()


class Stacks:
    """Follows the stacks of all threads.

    Args:
        findings: receives what is inconsistent.

    Attributes:
        paused: whether the profiler is paused.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._threads: dict[int | None, ThreadStack] = {}
        self.paused = False
        self._frames = 0  # on the stacks of all followed threads
        self._lost = MAX_LOST

    def samples(self, entries: Iterable[tuple[int, Any]]) -> Iterator[Sample]:
        """Yield the stack of each stack sample and each memory sample.

        Args:
            entries: byte offsets and records in the order of the file, at least all of `STACK_RECORDS`.
        """
        for offset, record in entries:
            if type(record) is StackSample:
                thread = self.change(offset, record)
                matched = max(len(thread.frames) - len(record.frames), 0)
                yield self._sample(offset, record, thread, record.count or 0, matched)
            elif type(record) is MemorySample:
                thread = self.current(offset, record)
                yield self._sample(offset, record, thread, 0, len(thread.frames), record.items)
            else:
                self.observe(record)

    def observe(self, record: Any) -> None:
        """Take in a record that is not a sample."""
        if type(record) is ProfilerPaused:
            self.paused = True
        elif type(record) is ProfilerResumed:
            self.paused = False
        elif type(record) is ThreadDestroyed and record.thread in self._threads:
            self._frames -= len(self._threads[record.thread].frames)
            self._threads[record.thread] = ThreadStack(destroyed=True)

    def change(self, offset: int, record: StackSample) -> ThreadStack:
        """Change a thread's stack by a sample, and return it."""
        thread = self.current(offset, record)
        stack, match = thread.frames, record.match
        depth = len(stack)
        if match > record.size:
            message = f"{match:,} frames match, but the last stack had {record.size:,}"
            self._findings.add("stack.match-beyond-size", offset, message)
        elif record.size != depth and thread.complete:
            message = f"the sample changes a stack of {record.size:,} frames, but the thread's stack has {depth:,}"
            self._findings.add("stack.size", offset, message)
        thread.complete = match == 0 or (thread.complete and record.size == depth and match <= record.size)
        frames, ip = record.frames, record.ip
        if frames or match != depth or ip is not None:
            thread.cached = None
        if match > depth:
            lost = min(match - depth, MAX_DEPTH, self._lost)
            self._lost -= lost
            stack += [UNKNOWN_FRAME] * lost
            thread.unchanged = depth
        else:
            thread.unchanged = match
            del stack[match:]
        if ip is not None:
            if match == 0:
                self._findings.add("stack.ip-without-frame", offset)
            elif stack:
                stack[-1] = Frame(stack[-1].function_iid, ip)
        stack += frames
        size = len(stack)
        if size > depth:
            self._frames += (size - depth) * thread.followed
            if size > MAX_DEPTH or self._frames > MAX_FRAMES:
                self._give_up(offset, thread)
        elif thread.followed:
            self._frames -= depth - size
        return thread

    @property
    def frame_count(self) -> int:
        """The number of frames of all threads together."""
        return self._frames

    @property
    def thread_count(self) -> int:
        """The number of threads that have a stack."""
        return len(self._threads)

    def get(self, iid: int | None) -> ThreadStack | None:
        """Return the stack of a thread, or None if it has none so far."""
        return self._threads.get(iid)

    def skip(self, iid: int | None, depth: int, timestamp: int) -> None:
        """Take in that samples without a fault led to a stack of so many frames; the frames become unknown ones.

        Args:
            iid: the thread; it is one of `MAX_THREADS`.
            depth: the number of frames; all stacks together have `MAX_FRAMES` at most.
            timestamp: the time of the last sample in milliseconds.
        """
        thread = self._threads.setdefault(iid, ThreadStack())
        self._frames += depth - len(thread.frames)
        thread.frames[:] = [UNKNOWN_FRAME] * depth
        thread.cached, thread.timestamp = None, timestamp

    def _give_up(self, offset: int, thread: ThreadStack) -> None:
        """Clear a stack that is too deep, or with which there are too many frames."""
        size = len(thread.frames)
        message = f"a stack of {size:,} frames is too deep to be followed, with {self._frames:,} frames of all threads"
        self._findings.add("stack.too-deep", offset, message)
        thread.complete = False
        thread.clear()
        if thread.followed:
            self._frames -= size

    def current(self, offset: int, record: StackSample | MemorySample) -> ThreadStack:
        """Return the stack of a sample's thread as it is before the sample."""
        thread = self._threads.get(record.thread)
        if thread is None:
            thread = ThreadStack(followed=len(self._threads) < MAX_THREADS)
            if thread.followed:
                self._threads[record.thread] = thread
        if thread.destroyed:
            self._findings.add("thread.gone", offset, f"a sample of thread {record.thread}, which was destroyed")
            thread.destroyed = False
        if thread.timestamp is not None and record.timestamp < thread.timestamp:
            message = f"{record.timestamp} ms follows {thread.timestamp} ms on the same thread"
            self._findings.add("time.backwards", offset, message)
        thread.timestamp = record.timestamp
        return thread

    def _sample(
        self, offset: int, record: Any, thread: ThreadStack, ticks: int, matched: int, items: tuple[AllocItem, ...] = ()
    ) -> Sample:
        time, stack = nanoseconds(record.timestamp), thread.cached
        if stack is None:
            stack = thread.cached = tuple(thread.frames)
        return Sample(offset, time, record.thread, ticks, stack, matched, self.paused, thread.complete, items)


class Interval(NamedTuple):
    """A span of time with a beginning and an end.

    Attributes:
        kind: `gc`, `jit`, `search` or `pause`.
        thread: the thread's Internal ID or an `OsThread`; None where it is unknown.
        start: nanoseconds from the start of profiling.
        end: likewise.
        detail: the function's identifier, the reason of a collection (`MAX_REASON` characters at most), or None.
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

    def as_json(self) -> dict[str, Any]:
        """Return the number of intervals of each kind, and their nanoseconds."""
        return {kind: {"count": count, "duration": self.durations[kind]} for kind, count in self.counts.items()}

    def begin(
        self, kind: str, thread: Any, timestamp: int, *, function: int | None = None, reason: str | None = None
    ) -> bool:
        """Begin an interval.

        Args:
            kind: the kind.
            thread: the thread.
            timestamp: the beginning in milliseconds.
            function: the function's identifier, of kinds that have one; only its end ends the interval.
            reason: the reason of a collection.

        Returns:
            Whether no such interval was open.
        """
        place = kind, thread, function
        alone = place not in self._open
        if self._open_count < MAX_OPEN:
            detail = (reason and reason[:MAX_REASON]) if function is None else function
            self._open.setdefault(place, []).append((timestamp, detail))
            self._open_count += 1
        return alone

    def end(self, kind: str, thread: Any, timestamp: int, *, function: int | None = None) -> int | None:
        """End the newest open interval of this kind, thread and function.

        Args:
            kind: the kind.
            thread: the thread.
            timestamp: the end in milliseconds.
            function: as for `begin`.

        Returns:
            Its length in nanoseconds, which is negative if it ends before it begins; None if there is no such interval.
        """
        place = kind, thread, function
        if (opened := self._open.get(place)) is None:
            return None
        begin, detail = opened.pop()
        self._open_count -= 1
        if not opened:
            del self._open[place]
        start, end = nanoseconds(begin), nanoseconds(timestamp)
        self.counts[kind] += 1
        self.durations[kind] += max(end - start, 0)
        if len(self.intervals) < MAX_INTERVALS:
            self.intervals.append(Interval(kind, thread, start, end, detail))
        return end - start

    def open_count(self, *kinds: str) -> int:
        """Return how many intervals of these kinds have no end so far."""
        return sum(len(opened) for (kind, _, _), opened in self._open.items() if kind in kinds)
