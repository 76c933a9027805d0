"""Write synthetic traces of any size: the same seed gives the same bytes everywhere, and Perfetto reports no fault.

    with fxtio.create("big.fxt") as writer:
        synth.spans(writer, events=10_000_000, seed=1)

Events are generated as columns, a chunk at a time, so memory stays bounded.  A chunk is a window of time on a group of
threads, as many as the thread table holds; the events of a thread are in the order of time.  Random numbers are the
raw output of PCG64, which numpy promises not to change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, Literal, TypedDict, Unpack

import numpy as np

from fxtio.arrays import Array
from fxtio.fxt.everything import FIRST_PROCESS, FIRST_THREAD, rounds
from fxtio.fxt.layout import MAX_THREAD_SLOT
from fxtio.fxt.writer import FxtWriter, Track
from fxtio.io.reading import Progress
from fxtio.table import Categories, Optional

DEFAULT_EVENTS = 100_000
MANY_THREADS = 1_000

THREADS_PER_PROCESS = 16
SHAPES = {
    "spans": "spans that nest, with two arguments each",
    "counters": "samples of counters",
    "flows": "spans on several threads with arrows between them",
    "async": "operations that overlap and move between threads",
    "threads": "spans on very many threads",
    "mixed": "all of these, and instants",
    "system": "context switches, wakeups, logs, blobs and modules",
    "program": "a server: requests on several threads, database, disk, garbage collections, logs",
    "everything": "records, arguments, providers, clocks and references of all kinds",
}
"""Name and description of each shape; each is a function of this module, `async` is `async_`."""

_CHUNK_EVENTS = 1 << 16
_EVENTS_PER_THREAD = 32  # in a chunk, when there are more threads than fit in one group
_EVENT_BYTES = 64  # a first estimate, rather too high

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


@dataclass(slots=True)
class _Group:
    """Threads whose events are generated together.

    Attributes:
        tracks: the threads.
        first: the number of the first thread.
        now: the first tick that none of their events has.
    """

    tracks: list[Track]
    first: int
    now: int = 1_000


@dataclass(slots=True)
class _Generator:
    """The state of a synthetic trace.

    Attributes:
        bits: the random numbers.
        groups: the groups of threads.
        used_ids: the last id that was used.
        running: the thread koid that runs on the cpu of `system`, 0 before the first one.
    """

    bits: np.random.PCG64
    groups: list[_Group]
    used_ids: int = 0
    running: int = 0

    def below(self, limit: int | Array, *shape: int) -> Array:
        """Return random numbers from 0 to `limit` - 1 (int64)."""
        raw = self.bits.random_raw(int(np.prod(shape))).reshape(shape)
        return (raw % np.asarray(limit).astype(np.uint64)).astype(np.int64)

    def ids(self, number: int) -> Array:
        """Return ids that are unique in the trace (int64)."""
        self.used_ids += number
        return np.arange(self.used_ids - number + 1, self.used_ids + 1)


@dataclass(frozen=True, slots=True)
class _Events:
    """Events of one kind, in the order of their times.

    Attributes:
        kind: the event type.
        timestamp: ticks (int64).
        thread: indices into the group's tracks.
        name: the names, as `Provider.write_events` takes them.
        columns: the other columns, as `Provider.write_events` takes them.
    """

    kind: str
    timestamp: Array
    thread: Array
    name: Any
    columns: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a table.

    Attributes:
        table: the name of the table.
        columns: its columns, as `FxtWriter.write_table` takes them.
    """

    table: str
    columns: dict[str, Any]


_Generate = Callable[[_Generator, _Group, int], Sequence[_Events | _Rows]]
"""Generates about so many events on a group of threads: whole operations."""


class Amount(TypedDict, total=False):
    """The amount that is written; all of it is optional.

    Attributes:
        events: the number of events, rounded up to whole operations; by default 100,000 unless there is a size.
        size: the number of bytes before compression, rounded up to whole operations.
        seed: the same seed gives the same trace; by default 0.
        threads: the number of threads, 16 to a process; by default 8.
        progress: called with the number of events (or bytes, with a size) so far, and the number in all.
    """

    events: int | None
    size: int | None
    seed: int
    threads: int
    progress: Progress | None


def spans(writer: FxtWriter, **amount: Unpack[Amount]) -> int:
    """Write complete events that nest up to ten deep, each with two arguments, an integer and a text.

    Args:
        writer: the writer of the trace.
        amount: see `Amount`.

    Returns:
        The number of events.

    Raises:
        ValueError: both events and a size are given, or a number is not positive.
        OSError: the trace cannot be written.
    """
    return _write(writer, (_spans,), **amount)


def threads(writer: FxtWriter, **amount: Unpack[Amount]) -> int:
    """Write `spans` on 1,000 threads by default, more than a thread table has slots."""
    amount.setdefault("threads", MANY_THREADS)
    return _write(writer, (_spans,), **amount)


def counters(writer: FxtWriter, **amount: Unpack[Amount]) -> int:
    """Write samples of three counters for each thread, see `spans`; each has one argument, hence one series."""
    return _write(writer, (_counters,), **amount)


def flows(writer: FxtWriter, **amount: Unpack[Amount]) -> int:
    """Write requests that go from thread to thread, see `spans`: each has three spans, with a flow event in each."""
    return _write(writer, (_flows,), **amount)


def async_(writer: FxtWriter, **amount: Unpack[Amount]) -> int:
    """Write operations that overlap and move between threads, see `spans`: each has a begin, an instant and an end."""
    return _write(writer, (_async,), **amount)


def mixed(writer: FxtWriter, **amount: Unpack[Amount]) -> int:
    """Write all other shapes in turn, and instants, see `spans`."""
    return _write(writer, (_spans, _counters, _flows, _async, _instants), **amount)


def system(writer: FxtWriter, **amount: Unpack[Amount]) -> int:
    """Write what a system records beside events, see `spans`: context switches, wakeups, logs, blobs and modules."""
    return _write(writer, (_system,), **amount)


def program(writer: FxtWriter, **amount: Unpack[Amount]) -> int:
    """Write what a server does, see `spans`: requests with their work, queries, logs and collections."""
    return _write(writer, (_program,), _server_names, **amount)


def everything(writer: FxtWriter, **amount: Unpack[Amount]) -> int:
    """Write rounds of records of all kinds, see `fxtio.fxt.everything`; `events` is the number of records.

    The writer must be new: the trace has a preamble and providers of its own.  The other arguments, the result and the
    errors are those of `spans`.
    """
    number, goal = _goal(**amount)
    bits = np.random.PCG64(amount.get("seed", 0))
    total = 0
    for records in rounds(lambda limit: int(bits.random_raw()) % limit, amount.get("threads", 8)):
        for record in records:
            writer.put(record)
        total += len(records)
        done = total if goal == "events" else writer.position
        if done >= number:
            break
        if (progress := amount.get("progress")) is not None:
            progress(done, number)
    return total


_FUNCTIONS: dict[str, Callable[..., int]] = {
    "spans": spans,
    "counters": counters,
    "flows": flows,
    "async": async_,
    "threads": threads,
    "mixed": mixed,
    "system": system,
    "program": program,
    "everything": everything,
}


def synth(
    target: Any,
    shape: str,
    *,
    events: int | None,
    size: int | None,
    threads: int | None,
    seed: int,
    progress: Progress,
) -> tuple[int, int]:
    """Write a synthetic trace, see `fxtio.formats.SynthRoom.synth`."""
    amount: Amount = {"events": events, "size": size, "seed": seed, "progress": progress}
    if threads is not None:
        amount["threads"] = threads
    with FxtWriter(target, provider="fxtio synth") as writer:
        written = _FUNCTIONS[shape](writer, **amount)
    return written, writer.position


def _write(
    writer: FxtWriter,
    generators: Sequence[_Generate],
    names: _Names | None = None,
    *,
    events: int | None = None,
    size: int | None = None,
    seed: int = 0,
    threads: int = 8,
    progress: Progress | None = None,
) -> int:
    """Write chunks, each by the next generator or on the next group of threads, until the amount is reached."""
    amount, _ = _goal(events=events, size=size, threads=threads)
    state = _Generator(np.random.PCG64(seed), _groups(writer, threads, names or _plain_names))
    chunks = len(generators) * len(state.groups)
    limit = _CHUNK_EVENTS // len(generators) if len(state.groups) == 1 else MAX_THREAD_SLOT * _EVENTS_PER_THREAD
    # every generator writes a chunk on every group
    limit = min(limit, -(-(amount if size is None else size // _EVENT_BYTES) // chunks) or 1)
    total = chunk = 0
    event_bytes: float = _EVENT_BYTES
    while (left := amount - (total if size is None else writer.position)) > 0:
        if progress is not None:
            progress(amount - left, amount)
        if size is not None:
            left = max(int(left / event_bytes), 1)
        group = state.groups[chunk // len(generators) % len(state.groups)]
        parts = generators[chunk % len(generators)](state, group, min(left, limit))
        before = writer.position
        count = _write_parts(writer, group.tracks, parts)
        event_bytes = (writer.position - before) / count
        total += count
        chunk += 1
    return total


def _goal(
    *, events: int | None = None, size: int | None = None, threads: int = 8, **others: object
) -> tuple[int, Literal["events", "size"]]:
    """Return the amount to write, and its unit.

    Raises:
        ValueError: both events and a size are given, or a number is not positive.
    """
    if events is not None and size is not None:
        raise ValueError("events and size cannot both be given")
    amount = next((number for number in (events, size) if number is not None), DEFAULT_EVENTS)
    if amount < 1 or threads < 1:
        raise ValueError("events, size and threads must be positive")
    return amount, "events" if size is None else "size"


_Names = Callable[[int, int, int], tuple[str, str]]
"""Returns the names of a process and of a thread: by the number of the process, of the thread in it, of its threads."""


def _plain_names(process: int, rank: int, threads: int) -> tuple[str, str]:
    return f"process {process + 1}", f"worker {rank}" if rank else "main"


def _groups(writer: FxtWriter, threads: int, names: _Names) -> list[_Group]:
    """Write the names of the threads and their processes, and return the threads in groups."""
    tracks = []
    for number in range(threads):
        process, rank = divmod(number, THREADS_PER_PROCESS)
        process_name, name = names(process, rank, min(threads - process * THREADS_PER_PROCESS, THREADS_PER_PROCESS))
        ids = FIRST_PROCESS + process, FIRST_THREAD + number
        tracks.append(writer.thread(*ids, name, process_name if rank == 0 else None))
    starts = range(0, threads, MAX_THREAD_SLOT)
    return [_Group(tracks[start : start + MAX_THREAD_SLOT], start) for start in starts]


def _write_parts(writer: FxtWriter, tracks: list[Track], parts: Sequence[_Events | _Rows]) -> int:
    """Write events in the order of their times, then rows of tables; return the number of both."""
    events = [
        {
            "kind": part.kind,
            "timestamp": part.timestamp,
            "thread": (tracks, part.thread),
            "name": part.name,
            **part.columns,
        }
        for part in parts
        if isinstance(part, _Events)
    ]
    count = writer.main.write_mixed(*events) if events else 0
    return count + sum(writer.write_table(part.table, part.columns) for part in parts if isinstance(part, _Rows))


def _spans(state: _Generator, group: _Group, count: int) -> list[_Events]:
    """Generate trees of spans, one behind the other on each thread.

    Every begin and every end is at least a tick behind the previous one, so no two are equal.
    """
    width = len(group.tracks)
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
        "args": {"items": state.below(100_000, count), "phase": (PHASES, state.below(len(PHASES), count))},
    }
    return [_Events("duration_complete", start.ravel()[:count], thread.ravel()[:count], name, columns)]


def _counters(state: _Generator, group: _Group, count: int) -> list[_Events]:
    """Generate samples of every series of every thread in turn: each rises and falls, with some noise."""
    ticks = group.now + state.below(500, count).cumsum() + np.arange(count)
    group.now = int(ticks[-1]) + 1
    series, thread = np.divmod(np.arange(count), len(group.tracks))
    series %= len(SERIES)
    number = group.first + thread
    period = 200_000 * (1 + number % 5) * (1 + series)
    value = np.abs(ticks % period - period // 2) // 100 + state.below(50, count)
    columns = {"category": "app", "id": number, "args": {"value": value}}
    return [_Events("counter", ticks, thread, (SERIES, series), columns)]


def _flows(state: _Generator, group: _Group, count: int) -> list[_Events]:
    """Generate requests in three steps, each in a span on the next thread, and in the next window of time.

    The flow events are strictly inside of their spans.
    """
    width, window = len(group.tracks), 1_000
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
    parts = [_Events("duration_complete", start.ravel(), thread.ravel(), names, columns)]
    for step, kind in enumerate(("flow_begin", "flow_step", "flow_end")):
        parts.append(_Events(kind, arrow[:, step], thread[:, step], "request", {"category": "app", "id": ids}))
    return parts


def _async(state: _Generator, group: _Group, count: int) -> list[_Events]:
    """Generate operations with a begin, an instant and an end, at three different ticks."""
    width = len(group.tracks)
    operations = -(-count // 3)
    begin = group.now + state.below(200, operations).cumsum() + np.arange(operations)
    length = state.below(20_000, operations) + 2
    ticks = (begin, begin + 1 + state.below(length - 1, operations), begin + length)
    group.now = int(ticks[2].max()) + 1
    name, category = _names(state, operations)
    columns = {"category": category, "id": state.ids(operations)}
    kinds = ("async_begin", "async_instant", "async_end")
    return [
        _Events(kind, when, state.below(width, operations), name, columns)
        for kind, when in zip(kinds, ticks, strict=True)
    ]


def _instants(state: _Generator, group: _Group, count: int) -> list[_Events]:
    """Generate instants."""
    ticks = group.now + state.below(1_000, count).cumsum() + np.arange(count)
    group.now = int(ticks[-1]) + 1
    name, category = _names(state, count)
    columns = {"category": category, "args": {"ready": state.below(2, count) == 1}}
    return [_Events("instant", ticks, state.below(len(group.tracks), count), name, columns)]


def _system(state: _Generator, group: _Group, count: int) -> list[_Rows]:
    """Generate rows of several tables: of 16 rows, 8 are context switches and wakeups in turn, and 4 are logs."""
    ticks = group.now + state.below(1_000, count).cumsum() + np.arange(count)
    group.now = int(ticks[-1]) + 1
    thread = FIRST_THREAD + group.first + state.below(len(group.tracks), count)
    columns = {
        "ticks": ticks,
        "process": FIRST_PROCESS + (thread - FIRST_THREAD) // THREADS_PER_PROCESS,
        "thread": thread,
    }
    place = np.arange(count) % 16
    switches, logs, blobs, modules, mmaps = (
        {name: column[np.isin(place, places)] for name, column in columns.items()}
        for places in (range(1, 16, 2), (0, 4, 8, 12), (6, 14), (2,), (10,))
    )
    return [
        _Rows("modules", {**modules, "module": 1, "name": "libsample.so", "build_id": bytes(range(16))}),
        _Rows("mmaps", {**mmaps, "module": 1, "flags": 5, "address": 1 << 30, "size": 1 << 16, "vaddr": 0}),
        _Rows("logs", {**logs, "message": _take(NAMES, logs["thread"])}),
        _Rows("blobs", {"name": "samples", "type": "data", "payload": [bytes(24)] * len(blobs["ticks"])}),
        _Rows("scheduling", _switches(state, switches["ticks"], switches["thread"])),
    ]


def _switches(state: _Generator, ticks: Array, thread: Array) -> dict[str, Any]:
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


def _names(state: _Generator, count: int) -> tuple[Any, Any]:
    """Return random names and their categories; a name always has the same category."""
    chosen = state.below(len(NAMES), count)
    return (NAMES, chosen), (CATEGORIES, chosen % len(CATEGORIES))


# ---- a program


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


def _server_names(process: int, rank: int, threads: int) -> tuple[str, str]:
    roles = ("main", "gc", "disk") if threads > 3 else ("main",)
    return f"server {process + 1}", roles[rank] if rank < len(roles) else f"worker {rank - len(roles) + 1}"


def _tail(state: _Generator, micros: Any, *shape: int) -> Array:
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


def _program(state: _Generator, group: _Group, count: int) -> list[_Events | _Rows]:
    """Generate requests: the main thread accepts them, workers handle them in turn, other threads do what follows.

    Where there is one thread, it handles requests that nobody accepts.
    """
    requests, width = -(-count // _EVENTS_PER_REQUEST), len(group.tracks)
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
            _Events("counter", when, thread, name, {"category": "server", "id": group.first, "args": {"value": value}})
        )
    group.now = int(last) + 1_000
    return [*parts, _logged(state, group, route, ticks[:, -1], worker)]


def _handled(route: Array, ticks: Array, worker: Array, request: Array) -> list[_Events]:
    """Return the spans of requests on the workers: a pair of events around complete ones, and queries within some."""
    names = (tuple(name for name, *_ in ROUTES), route)
    pair = {"category": "http"}
    parts = [
        _Events("duration_begin", ticks[:, 0], worker, names, {**pair, "args": {"request": request}}),
        _Events("duration_end", ticks[:, -1], worker, names, pair),
    ]
    inner = sorted({name for *_, names, _ in ROUTES for name in names})
    for step in range(5):
        label = np.array([inner.index(names[step]) for *_, names, _ in ROUTES])[route]
        start, end = ticks[:, 1 + 2 * step], ticks[:, 2 + 2 * step]
        columns = {"end": end, "category": "work"}
        parts.append(_Events("duration_complete", start, worker, (inner, label), columns))
        asks = label == inner.index(_QUERY)
        for kind, when in (("async_begin", start + 1), ("async_instant", (start + end) // 2), ("async_end", end - 1)):
            columns = {"category": "database", "id": request[asks]}
            parts.append(_Events(kind, when[asks], worker[asks], "SELECT", columns))
    failed = np.flatnonzero(request % 50 == 7)
    error = {"category": "http", "args": {"status": 500, "message": "the connection was closed"}}
    return [*parts, _Events("instant", ticks[failed, -1] - 1, worker[failed], "exception", error)]


def _accepted(arrival: Array, accept: Array, begin: Array, worker: Array, request: Array) -> list[_Events]:
    """Return the spans of the main thread, with arrows to the workers."""
    main = np.zeros(len(arrival), np.int64)
    columns = {"category": "http"}
    return [
        _Events("duration_complete", arrival + 1, main, _ACCEPT, {**columns, "end": arrival + accept}),
        _Events("flow_begin", arrival + accept // 2, main, "request", {**columns, "id": request}),
        _Events("flow_end", begin + 1, worker, "request", {**columns, "id": request}),
    ]


def _collected(state: _Generator, done: Array) -> tuple[_Events, int]:
    """Return garbage collections, after a number of requests each, and the end of the last one."""
    arrival = np.sort(done)[::_GC_EVERY]
    is_major = np.arange(len(arrival)) % 8 == 7
    work = _tail(state, np.where(is_major, 9_000, 600), len(arrival))
    begin = _queued(arrival, work + 10, 1)
    columns = {"end": begin + work, "category": "gc", "args": {"freed": state.below(_HEAP, len(arrival))}}
    thread = np.ones(len(arrival), np.int64)
    names = (("minor collection", "major collection"), is_major.astype(np.int64))
    return _Events("duration_complete", begin, thread, names, columns), int((begin + work).max())


def _flushed(state: _Generator, done: Array) -> tuple[_Events, int]:
    """Return writes to the disk, after a number of requests each, and the end of the last one."""
    arrival = np.sort(done)[::_FLUSH_EVERY]
    work = _tail(state, 1_500, len(arrival))
    begin = _queued(arrival, work + 10, 1)
    columns = {"end": begin + work, "category": "io", "args": {"bytes": 512 * (1 + state.below(4_096, len(arrival)))}}
    return _Events("duration_complete", begin, np.full(len(arrival), 2), "write", columns), int((begin + work).max())


def _logged(state: _Generator, group: _Group, route: Array, done: Array, worker: Array) -> _Rows:
    """Return a line in the log for every fourth request."""
    some = slice(None, None, 4)
    thread = FIRST_THREAD + group.first + worker[some]
    messages = [f"{name} {status}" for name, *_ in ROUTES for status in (200, 304, 404, 500)]
    message = Categories((route[some] * 4 + state.below(64, len(thread)) // 21).astype(np.int32), messages)
    process = FIRST_PROCESS + (thread - FIRST_THREAD) // THREADS_PER_PROCESS
    return _Rows("logs", {"ticks": done[some], "process": process, "thread": thread, "message": message})
