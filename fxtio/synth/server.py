"""The shape `program`: a server, whose main thread accepts requests, whose workers handle them, and what follows."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.synth.columns import Draw, Events, Group, Rows
from fxtio.table import Categories

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


def thread_names(process: int, rank: int, threads: int) -> tuple[str, str]:
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
