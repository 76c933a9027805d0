"""Calls as slices: the entry into a method paired with its exit.

Most threads are paired at once by depth.  Where that pairs different methods (the recording began or ended inside of
calls, or an exit is missing) the thread is read event by event, and an exit also ends the calls inside its own.
"""

from __future__ import annotations

import numpy as np

from fxtio import _native
from fxtio.arrays import Array

Pairs = tuple[Array, Array, Array, Array]
"""The row of the entry, the row of the end, the depth, and the state of each slice."""

RETURNED, UNWOUND, OPEN = range(3)
"""The states of slices: ended by an exit; by the end of an outer call; not ended."""


def pair_by_depth(entry: Array, method: Array) -> Pairs | None:
    """Pair entries and exits of the same depth; return None if a pair is of different methods."""
    step = np.where(entry, 1, -1).astype(np.int8)
    level = np.cumsum(step, dtype=np.int64)
    level -= np.minimum(np.minimum.accumulate(level), 0) if len(level) else level  # exits from calls without an entry
    depth = np.where(entry, level - 1, level)
    size = len(step) + 1
    open_depth, open_method, open_first = np.empty(size, np.int64), np.empty(size, np.uint64), np.empty(size, np.int64)
    first, last, fault = np.empty(2 * size, np.int64), np.empty(2 * size, np.int64), np.empty(2 * size, np.uint8)
    step[~entry & (np.diff(level, prepend=0) == 0)] = 0  # an exit at the bottom pairs with nothing
    count, height = _native.pair(step, depth, method, open_depth, open_method, open_first, first, last, fault, 0)
    if fault[:count].any():
        return None
    still_open = open_first[:height]
    entries = np.concatenate([first[:count], still_open])
    ends = np.concatenate([last[:count], np.full(height, len(step) - 1, np.int64)])
    state = np.concatenate([np.full(count, RETURNED), np.full(height, OPEN)])
    return entries, ends, depth[entries], state


def pair_in_order(entry: Array, method: Array) -> Pairs:
    """Pair the entries and exits of a thread event by event."""
    stack: list[tuple[int, int]] = []
    open_calls: dict[int, int] = {}  # by method
    pairs: list[tuple[int, int, int, int]] = []
    for row, (is_entry, called) in enumerate(zip(entry.tolist(), method.tolist(), strict=True)):
        if is_entry:
            stack.append((row, called))
            open_calls[called] = open_calls.get(called, 0) + 1
        elif open_calls.get(called):
            while True:
                first, top = stack.pop()
                open_calls[top] -= 1
                pairs.append((first, row, len(stack), RETURNED if top == called else UNWOUND))
                if top == called:
                    break
    pairs += [(first, len(entry) - 1, depth, OPEN) for depth, (first, _) in enumerate(stack)]
    columns = np.array(pairs, np.int64).reshape(-1, 4).T
    return columns[0], columns[1], columns[2], columns[3].copy()
