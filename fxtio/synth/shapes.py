"""The shapes: each makes the columns of about a number of events on a group of threads, whole operations.

Every begin and every end of a thread has a tick of its own, and the spans of a thread nest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
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


# ---- program: a server, whose main thread accepts requests, whose workers handle them, and what follows

ROUTES = (
    ("GET /", 30, ("parse", "load template", "render", "compress", "send"), (5, 20, 5, 60, 5, 80, 10, 90, 5, 30, 5)),
    ("GET /item", 40, ("parse", "query", "render", "cache", "send"), (5, 10, 5, 900, 5, 120, 10, 20, 5, 30, 5)),
    ("GET /search", 18, ("parse", "query", "rank", "render", "send"), (5, 10, 5, 4000, 5, 700, 10, 200, 5, 60, 5)),
    ("POST /order", 10, ("parse", "check", "query", "notify", "send"), (5, 40, 5, 90, 5, 2500, 10, 150, 5, 20, 5)),
    ("POST /login", 2, ("parse", "query", "hash", "store", "send"), (5, 20, 5, 400, 5, 60000, 10, 90, 5, 20, 5)),
)
"""For each kind of request its name, its share in percent, the names of the spans within, and the usual microseconds
between each two of the begins and ends of spans."""

_QUERY = "query"
_ROUTE_OF = np.repeat(np.arange(len(ROUTES)), [share for _, share, _, _ in ROUTES])
_STEPS = np.array([gaps for *_, gaps in ROUTES])
_TAIL = np.array([round(1000 * math.exp(0.8 * NormalDist().inv_cdf((rank + 0.5) / 256))) for rank in range(256)])
"""Durations in thousandths of their median: most are near it, few are many times as long."""

_EVENTS_PER_REQUEST = 16
_ACCEPT, _HEAP, _GC_EVERY, _FLUSH_EVERY = "accept", 64 * 2**20, 40, 25


def server_names(process: int, rank: int, threads: int) -> tuple[str, str]:
    """Return the names of a process and of a thread in it, see `fxtio.synth.columns.plain_names`."""
    roles = ("main", "gc", "disk") if threads > 3 else ("main",)
    return f"server {process + 1}", roles[rank] if rank < len(roles) else f"worker {rank - len(roles) + 1}"


def _tail(state: Draw, micros: Any, *shape: int) -> Array:
    """Return durations in nanoseconds whose medians are these microseconds; none is shorter than 10 ns."""
    durations: Array = 10 + np.asarray(micros) * _TAIL[state.below(len(_TAIL), *shape)]
    return durations


def _queued(arrival: Array, work: Array, lanes: int) -> Array:
    """Return when each work begins, on some lanes in turn: when it has arrived and the lane is done with the last."""
    rounds = -(-len(arrival) // lanes)
    arrivals, works = (np.resize(values, rounds * lanes).reshape(rounds, lanes) for values in (arrival, work))
    before = works.cumsum(axis=0) - works
    begin: Array = (before + np.maximum.accumulate(arrivals - before, axis=0)).ravel()[: len(arrival)]
    return begin


def program(state: Draw, group: Group, count: int) -> list[Events | Rows]:
    """Generate requests: the main thread accepts them, workers handle them in turn, other threads do what follows.

    Where there is one thread, it handles requests that nobody accepts.
    """
    requests, width = -(-count // _EVENTS_PER_REQUEST), group.width
    first_worker = 3 if width > 3 else min(width - 1, 1)
    workers = width - first_worker
    route = _ROUTE_OF[state.below(len(_ROUTE_OF), requests)]
    gaps = _tail(state, _STEPS[route], requests, _STEPS.shape[1])
    accept = _tail(state, 8, requests)
    arrival = group.now + (accept + _tail(state, 2_500 // workers, requests)).cumsum() - accept
    begin = _queued(arrival + accept, gaps.sum(axis=1) + 10, workers)
    ticks = begin[:, None] + np.concatenate([np.zeros((requests, 1), np.int64), gaps.cumsum(axis=1)], axis=1)
    worker = first_worker + np.arange(requests) % workers
    request = state.ids(requests)
    parts = _handled(route, ticks, worker, request)
    if first_worker:
        parts += _accepted(arrival, accept, begin, worker, request)
    last = ticks[:, -1].max()
    if first_worker == 3:
        housekeeping = _collected(state, ticks[:, -1]), _flushed(state, ticks[:, -1])
        parts += [part for part, _ in housekeeping]
        last = max(last, *(end for _, end in housekeeping))
    flight = np.arange(1, requests + 1) - np.searchsorted(np.sort(ticks[:, -1]), arrival)
    heap = state.below(_HEAP // _GC_EVERY, requests).cumsum() % _HEAP + _HEAP
    for name, when, value in (("requests in flight", arrival, flight), ("heap", ticks[:, -1], heap)):
        thread = np.zeros(requests, np.int64)
        parts.append(
            Events("counter", when, thread, name, {"category": "server", "id": group.first, "args": {"value": value}})
        )
    group.now = int(last) + 1_000
    return [*parts, _logged(state, route, ticks[:, -1], worker)]


def _handled(route: Array, ticks: Array, worker: Array, request: Array) -> list[Events]:
    """Return the spans of requests on the workers: a pair of events around complete ones, and queries within some."""
    names = (tuple(name for name, *_ in ROUTES), route)
    pair = {"category": "http"}
    parts = [
        Events("duration_begin", ticks[:, 0], worker, names, {**pair, "args": {"request": request}}),
        Events("duration_end", ticks[:, -1], worker, names, pair),
    ]
    inner = sorted({name for *_, names, _ in ROUTES for name in names})
    for step in range(5):
        label = np.array([inner.index(names[step]) for *_, names, _ in ROUTES])[route]
        start, end = ticks[:, 1 + 2 * step], ticks[:, 2 + 2 * step]
        columns = {"end": end, "category": "work"}
        parts.append(Events("duration_complete", start, worker, (inner, label), columns))
        asks = label == inner.index(_QUERY)
        for kind, when in (("async_begin", start + 1), ("async_instant", (start + end) // 2), ("async_end", end - 1)):
            columns = {"category": "database", "id": request[asks]}
            parts.append(Events(kind, when[asks], worker[asks], "SELECT", columns))
    failed = np.flatnonzero(request % 50 == 7)
    error = {"category": "http", "args": {"status": 500, "message": "the connection was closed"}}
    return [*parts, Events("instant", ticks[failed, -1] - 1, worker[failed], "exception", error)]


def _accepted(arrival: Array, accept: Array, begin: Array, worker: Array, request: Array) -> list[Events]:
    """Return the spans of the main thread, with arrows to the workers."""
    main = np.zeros(len(arrival), np.int64)
    columns = {"category": "http"}
    return [
        Events("duration_complete", arrival + 1, main, _ACCEPT, {**columns, "end": arrival + accept}),
        Events("flow_begin", arrival + accept // 2, main, "request", {**columns, "id": request}),
        Events("flow_end", begin + 1, worker, "request", {**columns, "id": request}),
    ]


def _collected(state: Draw, done: Array) -> tuple[Events, int]:
    """Return garbage collections, after a number of requests each, and the end of the last one."""
    arrival = np.sort(done)[::_GC_EVERY]
    is_major = np.arange(len(arrival)) % 8 == 7
    work = _tail(state, np.where(is_major, 9_000, 600), len(arrival))
    begin = _queued(arrival, work + 10, 1)
    columns = {"end": begin + work, "category": "gc", "args": {"freed": state.below(_HEAP, len(arrival))}}
    thread = np.ones(len(arrival), np.int64)
    names = (("minor collection", "major collection"), is_major.astype(np.int64))
    return Events("duration_complete", begin, thread, names, columns), int((begin + work).max())


def _flushed(state: Draw, done: Array) -> tuple[Events, int]:
    """Return writes to the disk, after a number of requests each, and the end of the last one."""
    arrival = np.sort(done)[::_FLUSH_EVERY]
    work = _tail(state, 1_500, len(arrival))
    begin = _queued(arrival, work + 10, 1)
    columns = {"end": begin + work, "category": "io", "args": {"bytes": 512 * (1 + state.below(4_096, len(arrival)))}}
    return Events("duration_complete", begin, np.full(len(arrival), 2), "write", columns), int((begin + work).max())


def _logged(state: Draw, route: Array, done: Array, worker: Array) -> Rows:
    """Return a line in the log for every fourth request."""
    thread = worker[::4]
    messages = [f"{name} {status}" for name, *_ in ROUTES for status in (200, 304, 404, 500)]
    message = Categories((route[::4] * 4 + state.below(64, len(thread)) // 21).astype(np.int32), messages)
    return Rows("logs", {"ticks": done[::4], "thread": thread, "message": message})
