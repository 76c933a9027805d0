"""Calls as slices: where a method was entered, where it was left.

Most threads pair at once by depth.  Where that leads to pairs of different methods (recording began or ended inside of
calls, or an exit is missing) the thread is read event by event, and an exit closes what was entered behind its own
entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fxtio import _native
from fxtio.mono.enums import MethodAction
from fxtio.mono.names import Names
from fxtio.table import Categories, Derived, Table

Array = np.ndarray[Any, Any]
Pairs = tuple[Array, Array, Array, Array]
"""Row of the entry, row of the end, depth, and how it ended, of each slice."""

HOW = ["returned", "thrown", "unwound", "open"]
"""How a call ended: with an exit; by an exception; without a word, when an outer one ended; not at all."""

RETURNED, THROWN, UNWOUND, OPEN = range(4)


def slices(stored: dict[str, Table], known: Callable[[], Names]) -> Table:
    """The calls of methods.

    Columns: `begin`, `duration` in nanoseconds, `thread`, `method`, `depth`, `how` (see `HOW`), `method_name`.  A call
    that is open in the end lasts up to the last event of its thread; an exit without an entry gives none.
    """
    calls = stored["calls"]
    threads, method, time = calls["thread"], calls["method"], calls["time"]
    labels = calls["action"].values
    entry = calls["action"].codes == labels.index(MethodAction.ENTER.name.lower())
    thrown = calls["action"].codes == labels.index(MethodAction.EXCEPTION_LEAVE.name.lower())
    order = np.argsort(threads, kind="stable")
    bounds = np.flatnonzero(np.diff(threads[order])) + 1
    pieces = []
    for rows in np.split(order, bounds):
        begin, end, depth, how = _pairs(entry[rows], method[rows])
        how[(how == RETURNED) & thrown[rows[end]]] = THROWN
        pieces.append((rows[begin], rows[end], depth, how))
    begin, end, depth, how = (np.concatenate([piece[part] for piece in pieces]) for part in range(4))
    place = np.argsort(begin, kind="stable")
    begin, end = begin[place], end[place]
    started, called = time[begin], method[begin]
    return Table(
        {
            "begin": started,
            "duration": time[end] - started,
            "thread": threads[begin],
            "method": called,
            "depth": depth[place],
            "how": Categories(how[place].astype(np.int32), HOW),
            "method_name": Derived(lambda: known().column(known().methods, called, started)),
        }
    )


def _pairs(entry: Array, method: Array) -> Pairs:
    """The slices of one thread."""
    found = _by_depth(entry, method)
    return _one_by_one(entry, method) if found is None else found


def _by_depth(entry: Array, method: Array) -> Pairs | None:
    """Entries and exits of the same depth, or None if some of them are of different methods."""
    step = np.where(entry, 1, -1).astype(np.int8)
    level = np.cumsum(step, dtype=np.int64)
    level -= np.minimum(np.minimum.accumulate(level), 0) if len(level) else level  # exits of what nobody saw begin
    depth = np.where(entry, level - 1, level)
    room = len(step) + 1
    open_depth, open_method, open_begin = np.empty(room, np.int64), np.empty(room, np.uint64), np.empty(room, np.int64)
    begin, end, how = np.empty(2 * room, np.int64), np.empty(2 * room, np.int64), np.empty(2 * room, np.uint8)
    lonely = ~entry & (np.diff(level, prepend=0) == 0)  # an exit at the bottom
    step[lonely] = 0
    count, height = _native.pair(step, depth, method, open_depth, open_method, open_begin, begin, end, how, 0)
    if how[:count].any():
        return None
    still = open_begin[:height]
    begins = np.concatenate([begin[:count], still])
    ends = np.concatenate([end[:count], np.full(height, len(step) - 1, np.int64)])
    ended = np.concatenate([np.full(count, RETURNED), np.full(height, OPEN)])
    return begins, ends, depth[begins], ended


def _one_by_one(entry: Array, method: Array) -> Pairs:
    """The slices of a thread whose exits do not all fit."""
    stack: list[tuple[int, int]] = []
    inside: dict[int, int] = {}  # how often each method is open
    found: list[tuple[int, int, int, int]] = []
    for row, (enters, which) in enumerate(zip(entry.tolist(), method.tolist(), strict=True)):
        if enters:
            stack.append((row, which))
            inside[which] = inside.get(which, 0) + 1
        elif inside.get(which):
            while True:
                begin, top = stack.pop()
                inside[top] -= 1
                found.append((begin, row, len(stack), RETURNED if top == which else UNWOUND))
                if top == which:
                    break
    found += [(begin, len(entry) - 1, depth, OPEN) for depth, (begin, _) in enumerate(stack)]
    columns = np.array(found, np.int64).reshape(-1, 4).T
    return columns[0], columns[1], columns[2], columns[3].copy()
