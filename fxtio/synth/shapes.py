"""The shapes: each makes the columns of about a number of events on a group of threads, whole operations.

Every begin and every end of a thread has a tick of its own, and the spans of a thread nest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.synth.columns import Draw, Events, Group, Rows
from fxtio.table import Categories, Optional

CATEGORIES = ("app", "gfx", "io", "net")
NAMES = tuple(
    f"{verb} {noun}"
    for verb in ("load", "parse", "update", "draw", "send", "wait for", "store", "check")
    for noun in ("mesh", "frame", "file", "packet", "queue", "index")
)
PHASES = ("cold", "warm", "hot", "retry")
SERIES = ("queue depth", "open files", "free memory")

TREES = (
    "((()())(()())(()()))",
    "(((((((((())))))))))",
    "(()()()()()()()()())",
    "((())(()(()(())))())",
    "(()((()()())(())()))",
)
"""The shapes that a tree of nested spans may have; each pair of brackets is a span."""

_SPANS_PER_TREE = len(TREES[0]) // 2


def _positions(tree: str) -> tuple[list[int], list[int]]:
    """Return the positions where each span of a tree begins and ends, in the order of their begins."""
    begins: list[int] = []
    ends: dict[int, int] = {}
    stack: list[int] = []
    for position, bracket in enumerate(tree):
        if bracket == "(":
            begins.append(position)
            stack.append(position)
        else:
            ends[stack.pop()] = position
    return begins, [ends[begin] for begin in begins]


_BEGINS, _ENDS = (np.array(places) for places in zip(*map(_positions, TREES), strict=True))


def spans(state: Draw, group: Group, count: int) -> list[Events]:
    """Generate trees of spans, one after the other on each thread; each has an integer and a text as arguments."""
    (calls_only,) = calls(state, group, count)
    args = {"items": state.below(100_000, count), "phase": (PHASES, state.below(len(PHASES), count))}
    return [replace(calls_only, columns={**calls_only.columns, "args": args})]


def calls(state: Draw, group: Group, count: int) -> list[Events]:
    """Generate trees of spans without arguments.

    Every begin and every end is at least a tick after the previous one, so no two are equal.
    """
    width = group.width
    rounds = -(-count // (width * _SPANS_PER_TREE))
    ticks = (state.below(2_000, rounds, width, 2 * _SPANS_PER_TREE + 1) + 1).cumsum(axis=2)
    length = ticks[:, :, -1]
    ticks += group.now + (length.cumsum(axis=0) - length)[:, :, None]
    group.now = int(ticks.max()) + 1
    tree = state.below(len(TREES), rounds, width)
    start = np.take_along_axis(ticks, _BEGINS[tree], axis=2)
    thread = np.broadcast_to(np.arange(width)[:, None], start.shape)
    name, category = _names(state, count)
    columns = {
        "end": np.take_along_axis(ticks, _ENDS[tree], axis=2).ravel()[:count],
        "category": category,
    }
    return [Events("duration_complete", start.ravel()[:count], thread.ravel()[:count], name, columns)]


def counters(state: Draw, group: Group, count: int) -> list[Events]:
    """Generate samples of every series of every thread in turn: each rises and falls, with some noise."""
    ticks = group.now + state.below(500, count).cumsum() + np.arange(count)
    group.now = int(ticks[-1]) + 1
    series, thread = np.divmod(np.arange(count), group.width)
    series %= len(SERIES)
    number = group.first + thread
    period = 200_000 * (1 + number % 5) * (1 + series)
    value = np.abs(ticks % period - period // 2) // 100 + state.below(50, count)
    columns = {"category": "app", "id": number, "args": {"value": value}}
    return [Events("counter", ticks, thread, (SERIES, series), columns)]


def flows(state: Draw, group: Group, count: int) -> list[Events]:
    """Generate requests in three steps, each in a span on the next thread, and in the next window of time.

    The flow events are strictly inside of their spans.
    """
    width, window = group.width, 1_000
    chains = -(-count // 6)
    window_number, lane = np.divmod(np.arange(chains), width)
    steps = np.arange(3)
    thread = (lane[:, None] + steps) % width
    start = group.now + (window_number[:, None] * 3 + steps) * window + state.below(200, chains, 3)
    length = state.below(700, chains, 3) + 10
    arrow = start + 1 + state.below(length - 1, chains, 3)
    group.now = int(start.max()) + window
    ids = state.ids(chains)
    names = (("request", "work", "reply"), np.tile(steps, chains))
    columns = {"end": (start + length).ravel(), "category": "app", "args": {"request": np.repeat(ids, 3)}}
    parts = [Events("duration_complete", start.ravel(), thread.ravel(), names, columns)]
    for step, kind in enumerate(("flow_begin", "flow_step", "flow_end")):
        parts.append(Events(kind, arrow[:, step], thread[:, step], "request", {"category": "app", "id": ids}))
    return parts


def async_(state: Draw, group: Group, count: int) -> list[Events]:
    """Generate operations with a begin, an instant and an end, at three different ticks."""
    width = group.width
    operations = -(-count // 3)
    begin = group.now + state.below(200, operations).cumsum() + np.arange(operations)
    length = state.below(20_000, operations) + 2
    ticks = (begin, begin + 1 + state.below(length - 1, operations), begin + length)
    group.now = int(ticks[2].max()) + 1
    name, category = _names(state, operations)
    columns = {"category": category, "id": state.ids(operations)}
    kinds = ("async_begin", "async_instant", "async_end")
    return [
        Events(kind, when, state.below(width, operations), name, columns)
        for kind, when in zip(kinds, ticks, strict=True)
    ]


def instants(state: Draw, group: Group, count: int) -> list[Events]:
    """Generate instants."""
    ticks = group.now + state.below(1_000, count).cumsum() + np.arange(count)
    group.now = int(ticks[-1]) + 1
    name, category = _names(state, count)
    columns = {"category": category, "args": {"ready": state.below(2, count) == 1}}
    return [Events("instant", ticks, state.below(group.width, count), name, columns)]


def system(state: Draw, group: Group, count: int) -> list[Rows]:
    """Generate rows of several tables: of 16 rows, 8 are context switches and wakeups in turn, and 4 are logs."""
    ticks = group.now + state.below(1_000, count).cumsum() + np.arange(count)
    group.now = int(ticks[-1]) + 1
    columns = {"ticks": ticks, "thread": state.below(group.width, count)}
    place = np.arange(count) % 16
    switches, logs, blobs, modules, mmaps = (
        {name: column[np.isin(place, places)] for name, column in columns.items()}
        for places in (range(1, 16, 2), (0, 4, 8, 12), (6, 14), (2,), (10,))
    )
    return [
        Rows("modules", {**modules, "module": 1, "name": "libsample.so", "build_id": bytes(range(16))}),
        Rows("mmaps", {**mmaps, "module": 1, "flags": 5, "address": 1 << 30, "size": 1 << 16, "vaddr": 0}),
        Rows("logs", {**logs, "message": _take(NAMES, logs["thread"])}),
        Rows("blobs", {"name": "samples", "type": "data", "payload": [bytes(24)] * len(blobs["ticks"])}),
        Rows("scheduling", _switches(state, switches["ticks"], group.thread_ids(switches["thread"]))),
    ]


def _switches(state: Draw, ticks: Array, thread: Array) -> dict[str, Any]:
    """Return the columns for a cpu on which threads are woken up and run in turn."""
    count = len(ticks)
    is_switch = np.arange(count) % 2 == 1
    incoming = np.repeat(thread[::2], 2)[:count]  # a thread is woken up, then it runs
    before = incoming[:1] if not state.running else np.array([state.running])
    outgoing = np.concatenate([before, before, incoming[:-2]])[:count]
    state.running = int(incoming[is_switch][-1]) if is_switch.any() else state.running
    kinds = ["thread_wakeup", "context_switch"]
    return {
        "type": Categories(is_switch.astype(np.int32), kinds),
        "ticks": ticks,
        "cpu": 0,
        "incoming_thread": incoming,
        "outgoing_thread": Optional(outgoing, is_switch),
        "outgoing_state": Categories(is_switch.astype(np.int32) - 1, ["blocked"]),
    }


def _take(values: Sequence[str], numbers: Array) -> Categories:
    """Return a text for each number, always the same for the same number."""
    return Categories((numbers % len(values)).astype(np.int32), values)


def _names(state: Draw, count: int) -> tuple[Any, Any]:
    """Return random names and their categories; a name always has the same category."""
    chosen = state.below(len(NAMES), count)
    return (NAMES, chosen), (CATEGORIES, chosen % len(CATEGORIES))


# ---- those of profilers: samples of stacks, and allocations with the stacks that made them

_CLASSES_OF_CODE = ("Server", "Session", "Router", "Query", "Cache", "Json.Writer", "Log", "Socket")
_VERBS = ("Run", "Handle", "Read", "Parse", "Find", "Write", "Flush", "Wait")

FUNCTIONS = tuple(f"Shop.{cls}:{verb}" for cls in _CLASSES_OF_CODE for verb in _VERBS)
TYPES = ("System.String", "System.Byte[]", "Shop.Request", "Shop.Row", "System.Collections.Generic.List<T>")

_STACKS = 512
_COLLECT_EVERY = 1_000


def _tree() -> tuple[Array, Array]:
    """Return the stacks of the program, each as another one (before it, -1 for none) and a function on top of that."""
    draw, numbers = Draw(np.random.PCG64(0)), np.arange(_STACKS)
    parent = draw.below(np.maximum(numbers, 1), _STACKS)
    parent[0] = -1
    return parent, np.where(numbers == 0, 0, draw.below(len(FUNCTIONS), _STACKS))


PARENT, FRAME = _tree()


def _stacks(state: Draw, count: int) -> Array:
    """Return stacks, some of them much more often than others."""
    return state.below(_STACKS, count) * state.below(_STACKS, count) // _STACKS


def sampling(state: Draw, group: Group, count: int) -> list[Rows]:
    """Generate samples of stacks, of each thread about every 10 ms."""
    ticks = group.now + (1 + state.below(20_000_000 // group.width, count)).cumsum()
    group.now = int(ticks[-1]) + 1
    return [
        Rows("samples", {"ticks": ticks, "thread": state.below(group.width, count), "stack": _stacks(state, count)})
    ]


def memory(state: Draw, group: Group, count: int) -> list[Rows]:
    """Generate allocations, and a garbage collection after every thousand of them."""
    ticks = group.now + (10_000 + state.below(40_000, count)).cumsum()
    group.now = int(ticks[-1]) + 10_000
    number, type_ = 1 + state.below(4, count), state.below(len(TYPES), count)
    allocations = {
        "ticks": ticks,
        "thread": state.below(group.width, count),
        "stack": _stacks(state, count),
        "type": type_,
        "count": number,
        "size": number * 8 * (2 + 3 * type_),
    }
    start = ticks[_COLLECT_EVERY - 1 :: _COLLECT_EVERY] + 1
    collections = {
        "ticks": start,
        "thread": state.below(group.width, len(start)),
        "duration": 1_000 + state.below(8_000, len(start)),
        "generation": (state.below(8, len(start)) == 0).astype(np.int64),
    }
    return [Rows("allocations", allocations), *([Rows("collections", collections)] if len(start) else [])]
