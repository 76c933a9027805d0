"""The time for which slices wait: of functions that do nothing else, and of threads that the scheduler has blocked.

Waiting is for another thread, task or process to do something, for the first of several events, or for a time to pass.
A function that reads from one file or one connection does its own work, however long that takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from fxtio.arrays import Array
from fxtio.table import MAX_TIME, Table
from fxtio.timeline.answers.places import AWAITED
from fxtio.timeline.answers.rows import Inner, Texts
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import TrackKind

FUNCTIONS = frozenset(
    {
        "time.sleep",
        # another thread
        "_queue.SimpleQueue.get", "_thread._ThreadHandle.join", "_thread.RLock.__enter__", "_thread.RLock.acquire",
        "_thread.lock.__enter__", "_thread.lock.acquire", "queue.Queue.get", "queue.Queue.join", "queue.Queue.put",
        "queue._PySimpleQueue.get", "threading.Barrier.wait", "threading.Condition.wait",
        "threading.Condition.wait_for", "threading.Event.wait", "threading.Semaphore.acquire", "threading.Thread.join",
        "threading.Thread._wait_for_tstate_lock", "threading._RLock.acquire",
        "concurrent.futures._base.Future.exception", "concurrent.futures._base.Future.result",
        "concurrent.futures._base.as_completed", "concurrent.futures._base.wait", "concurrent.futures.thread._worker",
        "concurrent.futures.thread.ThreadPoolExecutor.shutdown",
        # another process
        "_multiprocessing.SemLock.__enter__", "_multiprocessing.SemLock.acquire", "multiprocessing.connection.wait",
        "multiprocessing.connection.Connection._recv",
        "multiprocessing.pool.ApplyResult.get", "multiprocessing.pool.ApplyResult.wait",
        "multiprocessing.pool.IMapIterator.next", "multiprocessing.popen_fork.Popen.poll",
        "multiprocessing.popen_fork.Popen.wait", "multiprocessing.process.BaseProcess.join",
        "multiprocessing.queues.Queue._feed", "multiprocessing.queues.Queue.get", "posix.wait", "posix.wait3",
        "posix.wait4", "posix.waitid", "posix.waitpid", "subprocess.Popen._try_wait", "subprocess.Popen._wait",
        "subprocess.Popen.wait",
        # the first of several events: event loops and servers
        "select.epoll.poll", "select.poll.poll", "select.select", "selectors.DevpollSelector.select",
        "selectors.EpollSelector.select", "selectors.KqueueSelector.select", "selectors.SelectSelector._select",
        "selectors.SelectSelector.select", "selectors._PollLikeSelector.select", "signal.sigwait",
        "socket.socket.accept",
    }
)  # fmt: skip
"""The functions of Python that wait, as recordings of fxtio name them: module and qualified name.

Their self time is waiting.  So is that of the whole calls of coroutines, whose names begin with `await` on the tracks
of tasks: while a coroutine runs, it has a slice on the track of its thread.
"""

LOCKS = "locks"
"""The category of waits for locks, and of times for which locks are held: what a thread does then is on its track."""

BLOCKED = "blocked"
"""The state of a thread without a processor in which it waits.  One that is only preempted does not wait."""

MAX_RUNS = 4_000_000
"""The most times on a processor of which the pauses between them are known."""


class Waiting:
    """Finds for how long slices wait.

    Args:
        registry: the registry of the reading.
        pauses: the times for which the scheduler has blocked threads, None if that is not known.
    """

    def __init__(self, registry: Registry, pauses: Pauses | None = None) -> None:
        self._registry = registry
        values = registry.names.values
        self._functions = Texts(values, FUNCTIONS.__contains__, null=False)
        self._calls = Texts(values, lambda name: name.startswith(AWAITED), null=False)
        self._locks = Texts(values, LOCKS.__eq__, null=False)
        self._pauses = pauses
        self._inner = Inner(registry)

    def of(self, slices: Table) -> Array:
        """Return the part of the self time of each slice in which it waits (int64 ns)."""
        own: Array = slices["self_time"]
        waiting = np.where(self.is_function(slices), own, 0)
        if self._pauses is not None:
            start, thread = slices["start"], self._registry.track_threads(slices["track"])
            end = start + slices["duration"]
            blocked = self._pauses.until(thread, end) - self._pauses.until(thread, start)
            blocked[self._registry.track_kinds(slices["track"]) != TrackKind.THREAD] = 0
            blocked -= self._inner.sums(slices, blocked)
            waiting = np.maximum(waiting, np.clip(blocked, 0, own))
        return waiting

    def is_function(self, slices: Table) -> Array:
        """Return whether each slice is one that only waits (bool)."""
        codes = slices["name"].codes
        result: Array = self._functions.has(codes)
        calls = np.flatnonzero(self._calls.has(codes))
        result[calls] |= self._registry.track_kinds(slices["track"][calls]) == TrackKind.ASYNC
        result |= self._locks.has(slices["category"].codes)
        return result


class Runs:
    """Collects the times for which threads ran on processors.

    Attributes:
        missed: the number of them for which there was no room.
    """

    def __init__(self, registry: Registry) -> None:
        self.missed = 0
        self._states = Texts(registry.names.values, BLOCKED.__eq__, null=False)
        self._parts: list[tuple[Array, Array, Array, Array]] = []
        self._count = 0

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the runs of a batch."""
        if "scheduling" not in tables:
            return
        table = tables["scheduling"]
        if self._count + table.num_rows > MAX_RUNS:
            self.missed += table.num_rows
            return
        self._count += table.num_rows
        end, blocks = table["start"] + table["duration"], self._states.has(table["state"].codes)
        self._parts.append((table["thread"], table["start"], end, blocks))

    def pauses(self) -> Pauses | None:
        """Return the times in which threads were blocked, None if there are no runs, or more than there is room for."""
        if not self._parts or self.missed:
            return None
        thread, start, end, blocks = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        order = np.lexsort((start, thread))
        thread, start, end, blocks = (column[order] for column in (thread, start, end, blocks))
        is_last = np.append(thread[1:] != thread[:-1], True)
        until = np.where(is_last, MAX_TIME, np.append(start[1:], MAX_TIME))
        rows = np.flatnonzero(blocks & (until > end))
        return Pauses(thread[rows], end[rows], until[rows])


class Pauses:
    """The times in which threads were blocked, in the order of threads and times; those of a thread do not overlap.

    Args:
        thread: the thread of each (int32).
        start: their begins (int64 ns).
        end: their ends (int64 ns).
    """

    def __init__(self, thread: Array, start: Array, end: Array) -> None:
        self._start, self._end = start, end
        threads, first = np.unique(thread, return_index=True)
        bounds = pairwise([*first.tolist(), len(thread)])
        self._rows = dict(zip(threads.tolist(), bounds, strict=True))
        self._before = np.append(0, np.cumsum(end - start))  # may overflow; differences within a thread do not

    def until(self, thread: Array, time: Array) -> Array:
        """Return for how long threads were blocked, from the start of the trace up to times (int64 ns).

        Args:
            thread: the threads.
            time: the times (int64 ns).
        """
        result = np.zeros(len(thread), np.int64)
        order = np.argsort(thread, kind="stable")
        ordered = thread[order]
        for number, (first, last) in self._rows.items():
            own = order[slice(*np.searchsorted(ordered, [number, number + 1]))]
            at = np.searchsorted(self._start[first:last], time[own], "left") + first
            whole = self._before[at] - self._before[first]
            after = np.where(at > first, self._end[at - 1] - time[own], 0)
            result[own] = whole - np.maximum(after, 0)
        return result
