"""Whole stacks out of samples that tell only what changed, and what belongs to which stack.

Each thread has a stack, at first an empty one.  A sample says how many frames from the bottom were never left since the
last sample; frames above that are new activations, even of the same functions, so the number is less than what the
stacks have in common now and then.  The ticks of a sample belong to the stack that it leaves.

spec: Stack Trace Sample
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from fxtio.coreprofiler.layout import UNDEFINED
from fxtio.coreprofiler.loading import ProfilerPaused, ProfilerResumed, ThreadDestroyed
from fxtio.coreprofiler.parts import AllocItem, Frame
from fxtio.coreprofiler.records import MemorySample, StackSample
from fxtio.finding import Findings

UNKNOWN_FRAME = Frame(None, UNDEFINED)
"""Stands for frames that were lost."""

DEEPEST = 1 << 16
"""The deepest stack that is followed, in frames."""

MOST_LOST = 1 << 20
"""So many unknown frames are put in at most, in all; what asks for more is hostile."""

MOST_THREADS = 1 << 16
"""So many threads are followed; the samples of further ones stand alone."""


class Sample(NamedTuple):
    """A thread's stack at a time.

    Attributes:
        offset: the byte offset of the sample's line.
        thread: the thread's Internal ID, or None.
        timestamp: milliseconds from the start.
        ticks: sampling ticks; 0 where the record only tells of a change, and in memory samples.
        stack: the frames, the bottom one first.
        kept: how many of them, from the bottom, were not left since the thread's last sample.
        paused: the profiler was paused; the ticks count for nothing.
        certain: no part of the stack was lost.
        allocated: what was allocated there, of a memory sample.
    """

    offset: int
    thread: int | None
    timestamp: int
    ticks: int
    stack: tuple[Frame, ...]
    kept: int
    paused: bool
    certain: bool
    allocated: tuple[AllocItem, ...] = ()


@dataclass(slots=True)
class _Thread:
    stack: list[Frame]
    certain: bool = True
    timestamp: int | None = None
    destroyed: bool = False


class Stacks:
    """Follows the stacks of all threads.

    Args:
        findings: takes what does not fit together.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._threads: dict[int | None, _Thread] = {}
        self.paused = False
        self._lost = MOST_LOST

    def samples(self, entries: Iterable[tuple[int, Any]]) -> Iterator[Sample]:
        """The samples of all threads, one for each stack or memory sample.

        Args:
            entries: byte offsets and records, in the order of the file; others than samples are needed too.
        """
        for offset, record in entries:
            if type(record) is StackSample:
                yield self.apply(offset, record)
            elif type(record) is MemorySample:
                yield self.allocation(offset, record)
            else:
                self.note(record)

    def note(self, record: Any) -> None:
        """Take in a record that is no sample."""
        if type(record) is ProfilerPaused:
            self.paused = True
        elif type(record) is ProfilerResumed:
            self.paused = False
        elif type(record) is ThreadDestroyed and record.thread in self._threads:
            self._threads[record.thread] = _Thread([], destroyed=True)

    def apply(self, offset: int, record: StackSample) -> Sample:
        """Change a thread's stack as a sample tells, and give the whole of it."""
        thread = self.change(offset, record)
        return self._sample(offset, record, thread, record.count or 0, len(thread.stack) - len(record.frames))

    def change(self, offset: int, record: StackSample) -> _Thread:
        """Change a thread's stack as a sample tells."""
        thread = self._thread_of(offset, record)
        stack, match = thread.stack, record.match
        if match > record.size:
            told = f"{match:,} frames of {record.size:,} match"
            self._findings.add("match-beyond-size", offset, told)
        elif record.size != len(stack) and thread.certain:
            told = f"the sample changes a stack of {record.size:,} frames, there is one of {len(stack):,}"
            self._findings.add("stack-size", offset, told)
        thread.certain = match == 0 or (thread.certain and record.size == len(stack) and match <= record.size)
        if match > len(stack):
            lost = min(match - len(stack), DEEPEST, self._lost)
            self._lost -= lost
            stack += [UNKNOWN_FRAME] * lost
        del stack[match:]
        if record.ip is not None:
            if match == 0:
                self._findings.add("ip-without-frame", offset, "an instruction pointer changes, but no frame matches")
            elif stack:
                stack[-1] = Frame(stack[-1].function, record.ip)
        stack += record.frames
        if len(stack) > DEEPEST:
            self._findings.add(
                "stack-too-deep", offset, f"a stack of {len(stack):,} frames; it is not followed further"
            )
            thread.certain = False
            stack.clear()
        return thread

    def allocation(self, offset: int, record: MemorySample) -> Sample:
        """What was allocated on a thread's stack as it is."""
        thread = self._thread_of(offset, record)
        return self._sample(offset, record, thread, 0, len(thread.stack))._replace(allocated=record.items)

    def _sample(self, offset: int, record: Any, thread: _Thread, ticks: int, kept: int) -> Sample:
        stack, when = tuple(thread.stack), record.timestamp
        return Sample(offset, record.thread, when, ticks, stack, max(kept, 0), self.paused, thread.certain)

    def _thread_of(self, offset: int, record: Any) -> _Thread:
        thread = self._threads.get(record.thread)
        if thread is None:
            thread = _Thread([])
            if len(self._threads) < MOST_THREADS:
                self._threads[record.thread] = thread
        if thread.destroyed:
            self._findings.add("thread-gone", offset, f"a sample of thread {record.thread}, which was destroyed")
            thread.destroyed = False
        if thread.timestamp is not None and record.timestamp < thread.timestamp:
            told = f"{record.timestamp} ms, after {thread.timestamp} ms on the same thread"
            self._findings.add("time-backwards", offset, told)
        thread.timestamp = record.timestamp
        return thread
