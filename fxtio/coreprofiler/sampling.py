"""The samples of a block as columns, and the test whether they are without a fault, for all samples together.

What is odd is left to `state.Stacks`, record by record; both give the same findings.
"""

from __future__ import annotations

import numpy as np

from fxtio.arrays import Array
from fxtio.coreprofiler import records as r
from fxtio.coreprofiler import state
from fxtio.coreprofiler.frames import Block
from fxtio.coreprofiler.layout import ABSENT
from fxtio.coreprofiler.state import Stacks, ThreadStack

_NO_TIME = np.iinfo(np.int64).min


def iid_of(number: int) -> int | None:
    """Return the Internal ID that a number of a column stands for; -1 stands for an unknown one."""
    return None if number < 0 else number


class Samples:
    """The stack samples and memory samples of a block.

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
        self.stack_rows, self.stack = block.columns(r.StackSample)
        self.memory_rows, self.memory = block.columns(r.MemorySample)
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
        before = [stacks.get(iid_of(number)) for number in threads]
        previous = np.concatenate([time[:1], time[:-1]])
        previous[begins] = [
            _NO_TIME if stack is None or stack.timestamp is None else stack.timestamp for stack in before
        ]
        is_sound = np.logical_and.reduceat(time >= previous, begins)
        depths = self._check_stacks(threads, before, is_sound)
        is_sound &= [_is_usual(stack) for stack in before]
        is_sound &= ~np.isin(threads, list(destroyed))
        if depths is None or stacks.thread_count + len(threads) > state.MAX_THREADS:
            return self.rows
        if float(np.sum(depths[1])) + stacks.frame_count > state.MAX_FRAMES:
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
        if int(match.max()) > state.MAX_DEPTH:
            return None
        has_ip = columns["ip"].marks[order] != ABSENT
        after = match + columns["frames"].counts[order]
        begins = np.flatnonzero(np.concatenate([[True], thread[1:] != thread[:-1]]))
        at = np.searchsorted(threads, thread[begins])
        expected = np.concatenate([after[:1], after[:-1]])
        expected[begins] = depth[at]
        fits = (match <= size) & (size == expected) & (~has_ip | (match > 0)) & (after <= state.MAX_DEPTH)
        is_sound[at] &= np.logical_and.reduceat(fits, begins)
        deepest = depth.copy()
        deepest[at] = np.maximum(deepest[at], np.maximum.reduceat(after, begins))
        depth[at] = after[np.append(begins[1:], len(after)) - 1]
        return depth, deepest


def _is_usual(stack: ThreadStack | None) -> bool:
    """Return whether nothing of a thread's stack was lost, and the thread was not destroyed."""
    return stack is None or (stack.complete and stack.followed and not stack.destroyed)
