"""State that records change: the stack of each thread.

A stack sample gives only what changed.  Each thread has a stack, at first an empty one.  A sample says how many frames
from the bottom were never left since the last sample; frames above those are new activations, even of the same
functions, so the number may be less than what the two stacks have in common.  The ticks of a sample belong to the stack
that it completes.

spec: Stack Trace Sample
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fxtio.arrays import Array
from fxtio.coreprofiler.frames import Block
from fxtio.coreprofiler.layout import ABSENT, UNDEFINED, nanoseconds
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
        threads: the stack of each thread that is followed and has one.
        frame_count: the number of frames of all of them together.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self.threads: dict[int | None, ThreadStack] = {}
        self.paused = False
        self.frame_count = 0
        self._lost = MAX_LOST

    def samples(self, entries: Iterable[tuple[int, Any]]) -> Iterator[Sample]:
        """Yield the stack of each stack sample and each memory sample.

        Args:
            entries: byte offsets and records in the order of the file, at least all of `STACK_RECORDS`.
        """
        for offset, record, thread, matched in self.follow(entries):
            ticks, items = (record.count or 0, ()) if type(record) is StackSample else (0, record.items)
            if thread.cached is None:
                thread.cached = tuple(thread.frames)
            time, stack = nanoseconds(record.timestamp), thread.cached
            yield Sample(offset, time, record.thread, ticks, stack, matched, self.paused, thread.complete, items)

    def follow(self, entries: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any, ThreadStack, int]]:
        """Take in records as `samples` does; yield each sample with its offset, its thread's stack, and `matched`."""
        for offset, record in entries:
            if type(record) is StackSample:
                thread = self.change(offset, record)
                yield offset, record, thread, max(len(thread.frames) - len(record.frames), 0)
            elif type(record) is MemorySample:
                thread = self.current(offset, record)
                thread.unchanged = len(thread.frames)
                yield offset, record, thread, thread.unchanged
            else:
                self.observe(record)

    def observe(self, record: Any) -> None:
        """Take in a record that is not a sample."""
        if type(record) is ProfilerPaused:
            self.paused = True
        elif type(record) is ProfilerResumed:
            self.paused = False
        elif type(record) is ThreadDestroyed and record.thread in self.threads:
            self.frame_count -= len(self.threads[record.thread].frames)
            self.threads[record.thread] = ThreadStack(destroyed=True)

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
            self.frame_count += (size - depth) * thread.followed
            if size > MAX_DEPTH or self.frame_count > MAX_FRAMES:
                self._give_up(offset, thread)
        elif thread.followed:
            self.frame_count -= depth - size
        return thread

    def skip(self, iid: int | None, depth: int, timestamp: int) -> None:
        """Take in that samples without a fault led to a stack of this many frames; the frames become unknown ones.

        Args:
            iid: the thread; it is one of `MAX_THREADS`.
            depth: the number of frames; all stacks together have `MAX_FRAMES` at most.
            timestamp: the time of the last sample in milliseconds.
        """
        thread = self.threads.setdefault(iid, ThreadStack())
        self.frame_count += depth - len(thread.frames)
        thread.frames[:] = [UNKNOWN_FRAME] * depth
        thread.cached, thread.timestamp = None, timestamp

    def _give_up(self, offset: int, thread: ThreadStack) -> None:
        """Clear a stack that is too deep, or with which there are too many frames."""
        size = len(thread.frames)
        message = f"a stack of {size:,} frames is too deep, with {self.frame_count:,} frames of all threads"
        self._findings.add("stack.too-deep", offset, message)
        thread.complete = False
        thread.clear()
        if thread.followed:
            self.frame_count -= size

    def current(self, offset: int, record: StackSample | MemorySample) -> ThreadStack:
        """Return the stack of a sample's thread as it is before the sample."""
        thread = self.threads.get(record.thread)
        if thread is None:
            thread = ThreadStack(followed=len(self.threads) < MAX_THREADS)
            if thread.followed:
                self.threads[record.thread] = thread
        if thread.destroyed:
            self._findings.add("thread.gone", offset, f"a sample of thread {record.thread}, which was destroyed")
            thread.destroyed = False
        if thread.timestamp is not None and record.timestamp < thread.timestamp:
            message = f"{record.timestamp} ms follows {thread.timestamp} ms on the same thread"
            self._findings.add("time.backwards", offset, message)
        thread.timestamp = record.timestamp
        return thread


_NO_TIME = np.iinfo(np.int64).min


def iid_of(number: int) -> int | None:
    """Return the Internal ID that a number of a column stands for; -1 stands for an unknown one."""
    return None if number < 0 else number


class Samples:
    """The stack samples and memory samples of a block as columns, and a test of all of them together.

    Samples that are unusual are left to `Stacks`, record by record; both give the same findings.

    Args:
        block: the block.

    Attributes:
        rows: the rows of all samples, rising.
        thread: their threads (int64), -1 unknown.
        time: their times in milliseconds (int64).
        stack_rows: the rows of stack samples.
        stack: the columns of stack samples.
        memory_rows: the rows of memory samples.
        memory: the columns of memory samples.
    """

    def __init__(self, block: Block) -> None:
        self.stack_rows, self.stack = block.columns(StackSample)
        self.memory_rows, self.memory = block.columns(MemorySample)
        rows = np.concatenate([self.stack_rows, self.memory_rows])
        order = np.argsort(rows, kind="stable")
        self.rows = rows[order]
        self.thread, self.time = (
            np.concatenate([self.stack[name], self.memory[name]])[order] for name in ("thread", "timestamp")
        )

    def follow(self, stacks: Stacks, destroyed: set[int]) -> Array:
        """Change the stacks of all threads whose samples are without a fault.

        Args:
            stacks: the stacks as they are before the block.
            destroyed: the threads that are destroyed in the block.

        Returns:
            The rows of the other samples, for which `stacks` are unchanged.
        """
        if not len(self.rows):
            return self.rows
        order = np.argsort(self.thread, kind="stable")
        thread, time = self.thread[order], self.time[order]
        begins = np.flatnonzero(np.concatenate([[True], thread[1:] != thread[:-1]]))
        ends = np.append(begins[1:], len(thread)) - 1
        threads = thread[begins].tolist()
        before = [stacks.threads.get(iid_of(number)) for number in threads]
        # In the order of threads, each thread is a run of rows; before the first row of a run comes what the state has.
        previous = np.concatenate([time[:1], time[:-1]])
        previous[begins] = [
            _NO_TIME if stack is None or stack.timestamp is None else stack.timestamp for stack in before
        ]
        is_sound = np.logical_and.reduceat(time >= previous, begins)
        depths = self._check_stacks(threads, before, is_sound)
        is_sound &= [_is_usual(stack) for stack in before]
        is_sound &= ~np.isin(threads, list(destroyed))
        if depths is None or len(stacks.threads) + len(threads) > MAX_THREADS:
            return self.rows
        if float(np.sum(depths[1])) + stacks.frame_count > MAX_FRAMES:
            return self.rows
        last = time[ends].tolist()
        for at in np.flatnonzero(is_sound).tolist():
            stacks.skip(iid_of(threads[at]), int(depths[0][at]), last[at])
        return self.rows[np.isin(self.thread, np.array(threads)[~is_sound])]

    def _check_stacks(
        self, threads: list[int], before: list[ThreadStack | None], is_sound: Array
    ) -> tuple[Array, Array] | None:
        """Check the stack samples of each thread against each other.

        Args:
            threads: all threads, rising.
            before: their stacks before the block.
            is_sound: whether each thread is without a fault; set to false where one has a fault.

        Returns:
            The number of frames of each thread after the block, and the greatest one in it; None if a number of frames
            is absurd.
        """
        depth = np.array([0 if stack is None else len(stack.frames) for stack in before], np.int64)
        if not len(self.stack_rows):
            return depth, depth
        columns = self.stack
        order = np.argsort(columns["thread"], kind="stable")
        thread, match, size = (columns[name][order] for name in ("thread", "match", "size"))
        if int(match.max()) > MAX_DEPTH:
            return None
        has_ip = columns["ip"].marks[order] != ABSENT
        after = match + columns["frames"].counts[order]
        begins = np.flatnonzero(np.concatenate([[True], thread[1:] != thread[:-1]]))
        at = np.searchsorted(threads, thread[begins])
        # A sample must begin with as many frames as the one before it on its thread has left.
        expected = np.concatenate([after[:1], after[:-1]])
        expected[begins] = depth[at]
        fits = (match <= size) & (size == expected) & (~has_ip | (match > 0)) & (after <= MAX_DEPTH)
        is_sound[at] &= np.logical_and.reduceat(fits, begins)
        deepest = depth.copy()
        deepest[at] = np.maximum(deepest[at], np.maximum.reduceat(after, begins))
        depth[at] = after[np.append(begins[1:], len(after)) - 1]
        return depth, deepest


def _is_usual(stack: ThreadStack | None) -> bool:
    """Return whether nothing of a thread's stack was lost, and the thread was not destroyed."""
    return stack is None or (stack.complete and stack.followed and not stack.destroyed)
