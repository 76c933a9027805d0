"""Write synthetic traces of any size: the same seed gives the same bytes everywhere, and Perfetto reports no fault.

    with fxtio.create("big.fxt") as writer:
        synth.spans(writer, events=10_000_000, seed=1)

Events are generated as columns, a chunk at a time, so memory stays bounded.  A chunk is a window of time on a group of
threads, as many as the thread table holds; the events of a thread are in the order of time.  Random numbers are the
raw output of PCG64, which numpy promises not to change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

import numpy as np

from fxtio.fxt.layout import MAX_THREAD_SLOT
from fxtio.fxt.writer import FxtWriter, Track
from fxtio.io.reading import Progress
from fxtio.table import Categories, Optional

Array = np.ndarray[Any, Any]

DEFAULT_EVENTS = 100_000
MANY_THREADS = 1_000

THREADS_PER_PROCESS = 16
FIRST_PROCESS, FIRST_THREAD = 100, 10_000

SHAPES = {
    "spans": "spans that nest, with two arguments each",
    "counters": "samples of counters",
    "flows": "spans on several threads with arrows between them",
    "async": "operations that overlap and move between threads",
    "threads": "spans on very many threads",
    "mixed": "all of these, and instants",
    "system": "context switches, wakeups, logs, blobs and modules",
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
    """

    bits: np.random.PCG64
    groups: list[_Group]
    used_ids: int = 0

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


_FUNCTIONS: dict[str, Callable[..., int]] = {
    "spans": spans,
    "counters": counters,
    "flows": flows,
    "async": async_,
    "threads": threads,
    "mixed": mixed,
    "system": system,
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
    """Write a synthetic trace.

    Args:
        target: where to write, see `fxtio.create`.
        shape: one of `SHAPES`.
        events: about how many events to write; or
        size: about how many bytes to write, before compression.
        threads: the number of threads; None for the default of the shape.
        seed: the seed of the random numbers.
        progress: called now and then with the number of events or bytes so far, and the number in all.

    Returns:
        The number of events, and the number of bytes.
    """
    amount: Amount = {"events": events, "size": size, "seed": seed, "progress": progress}
    if threads is not None:
        amount["threads"] = threads
    with FxtWriter(target, provider="fxtio synth") as writer:
        written = _FUNCTIONS[shape](writer, **amount)
    return written, writer.position


def _write(
    writer: FxtWriter,
    generators: Sequence[_Generate],
    *,
    events: int | None = None,
    size: int | None = None,
    seed: int = 0,
    threads: int = 8,
    progress: Progress | None = None,
) -> int:
    """Write chunks, each by the next generator or on the next group of threads, until the amount is reached."""
    if events is not None and size is not None:
        raise ValueError("events and size cannot both be given")
    amount = next((number for number in (events, size) if number is not None), DEFAULT_EVENTS)
    if amount < 1 or threads < 1:
        raise ValueError("events, size and threads must be positive")
    state = _Generator(np.random.PCG64(seed), _groups(writer, threads))
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


def _groups(writer: FxtWriter, threads: int) -> list[_Group]:
    """Write the names of the threads and their processes, and return the threads in groups."""
    tracks = []
    for number in range(threads):
        process, rank = divmod(number, THREADS_PER_PROCESS)
        process_name = f"process {process + 1}" if rank == 0 else None
        name = f"worker {rank}" if rank else "main"
        tracks.append(writer.thread(FIRST_PROCESS + process, FIRST_THREAD + number, name, process_name))
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
        _Rows("scheduling", _switches(switches["ticks"], switches["thread"])),
    ]


def _switches(ticks: Array, thread: Array) -> dict[str, Any]:
    """Return the columns for a cpu on which threads are woken up and run in turn."""
    count = len(ticks)
    is_switch = np.arange(count) % 2 == 1
    incoming = np.repeat(thread[::2], 2)[:count]  # a thread is woken up, then it runs
    outgoing = np.concatenate([incoming[:2], incoming[:-2]])[:count]
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
