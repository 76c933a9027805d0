"""Synthetic traces of any size: seeded, the same bytes everywhere, and clean in Perfetto.

    with fxtio.create("big.fxt") as writer:
        synth.spans(writer, events=10_000_000, seed=1)

Events are made as columns, a chunk at a time, so memory stays bounded.  A chunk is a window of time on a group of
threads, as many as the thread table holds; each event of a thread comes behind the one before it, in the file as in
time.  Random numbers are the raw output of PCG64, which numpy promises not to change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

import numpy as np

from fxtio.fxt.pack import THREAD_SLOTS
from fxtio.fxt.writer import FxtWriter, Provider, Track
from fxtio.io.reading import Progress

Array = np.ndarray[Any, Any]

DEFAULT_EVENTS = 100_000
MANY_THREADS = 1_000

THREADS_PER_PROCESS = 16
FIRST_PROCESS, FIRST_THREAD = 100, 10_000

_CHUNK = 1 << 16
_EACH = 32
"""How many events each thread has in a chunk, when there are more threads than fit in one group."""
_BYTES = 64
"""How large an event is, as a first guess that is rather too high."""

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
"""How spans nest: the shapes that a tree of spans may have, each bracket a span."""

_SPANS = len(TREES[0]) // 2


def _positions(tree: str) -> tuple[list[int], list[int]]:
    """Where each span of a tree begins and ends, in the order of their begins."""
    begins: list[int] = []
    ends: dict[int, int] = {}
    open_: list[int] = []
    for position, bracket in enumerate(tree):
        if bracket == "(":
            begins.append(position)
            open_.append(position)
        else:
            ends[open_.pop()] = position
    return begins, [ends[begin] for begin in begins]


_BEGINS, _ENDS = (np.array(places) for places in zip(*map(_positions, TREES), strict=True))


@dataclass(slots=True)
class _Group:
    """Threads whose events are made together.

    Attributes:
        tracks: the threads.
        first: the number of the first one.
        now: the first tick that none of them has used.
    """

    tracks: list[Track]
    first: int
    now: int = 1_000


@dataclass(slots=True)
class _Stage:
    """What a trace plays on: random numbers, groups of threads, ids that were never used."""

    bits: np.random.PCG64
    groups: list[_Group]
    used_ids: int = 0

    def below(self, limit: int | Array, *shape: int) -> Array:
        """Random numbers from 0 to `limit` - 1 (int64)."""
        raw = self.bits.random_raw(int(np.prod(shape))).reshape(shape)
        return (raw % np.asarray(limit).astype(np.uint64)).astype(np.int64)

    def ids(self, number: int) -> Array:
        """Ids that are unique in the trace (int64)."""
        self.used_ids += number
        return np.arange(self.used_ids - number + 1, self.used_ids + 1)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Many events of one kind, in the order of their times.

    Attributes:
        kind: as in `Provider.write_events`.
        timestamp: ticks (int64).
        thread: indices into the group's tracks.
        name: as in `Provider.write_events`.
        columns: likewise.
    """

    kind: str
    timestamp: Array
    thread: Array
    name: Any
    columns: dict[str, Any] = field(default_factory=dict)


_Make = Callable[[_Stage, _Group, int], list[_Piece]]
"""Makes at least so many events on a group of threads: whole operations."""


class Amount(TypedDict, total=False):
    """How much is to be written; everything has a default.

    Attributes:
        events: how many events, rounded up to whole operations; 100,000 if no size is given either.
        size: how many bytes before compression, rounded up to whole operations.
        seed: the same seed gives the same trace; 0 unless given.
        threads: on how many threads, 16 to a process; 8 unless given.
        progress: called with how many events (or bytes, with a size) were written so far, and how many are to be.
    """

    events: int | None
    size: int | None
    seed: int
    threads: int
    progress: Progress | None


def spans(writer: FxtWriter, **amount: Unpack[Amount]) -> int:
    """Write complete events that nest up to ten deep, each with two arguments, an integer and a text.

    Args:
        writer: where to.
        amount: see `Amount`.

    Returns:
        The number of events.

    Raises:
        ValueError: both events and a size are given, or a number is not positive.
        OSError: the trace cannot be written.
    """
    return _play(writer, (_spans,), **amount)


def threads(writer: FxtWriter, **amount: Unpack[Amount]) -> int:
    """Write `spans` on 1,000 threads unless told otherwise: more than a thread table has slots."""
    amount.setdefault("threads", MANY_THREADS)
    return _play(writer, (_spans,), **amount)


def counters(writer: FxtWriter, **amount: Unpack[Amount]) -> int:
    """Write samples of three counters for each thread, see `spans`; one argument to an event, hence one series."""
    return _play(writer, (_counters,), **amount)


def flows(writer: FxtWriter, **amount: Unpack[Amount]) -> int:
    """Write requests that go from thread to thread, see `spans`: three spans each, with three flow events inside."""
    return _play(writer, (_flows,), **amount)


def async_(writer: FxtWriter, **amount: Unpack[Amount]) -> int:
    """Write operations that overlap and move between threads, see `spans`: each a begin, an instant and an end."""
    return _play(writer, (_async,), **amount)


def mixed(writer: FxtWriter, **amount: Unpack[Amount]) -> int:
    """Write all of it in turn, and instants too, see `spans`."""
    return _play(writer, (_spans, _counters, _flows, _async, _instants), **amount)


SHAPES = {"spans": spans, "counters": counters, "flows": flows, "async": async_, "threads": threads, "mixed": mixed}
"""All of them, by name."""


def _play(
    writer: FxtWriter,
    makers: Sequence[_Make],
    *,
    events: int | None = None,
    size: int | None = None,
    seed: int = 0,
    threads: int = 8,
    progress: Progress | None = None,
) -> int:
    """Write chunks, in turn by every maker on every group of threads, until there is enough."""
    if events is not None and size is not None:
        raise ValueError("either a number of events or a size")
    wanted = next((one for one in (events, size) if one is not None), DEFAULT_EVENTS)
    if wanted < 1 or threads < 1:
        raise ValueError("events, size and threads must be positive")
    stage = _Stage(np.random.PCG64(seed), _groups(writer, threads))
    turns = len(makers) * len(stage.groups)
    most = _CHUNK // len(makers) if len(stage.groups) == 1 else THREAD_SLOTS * _EACH
    most = min(most, -(-(wanted if size is None else size // _BYTES) // turns) or 1)  # all have a turn
    done = turn = 0
    each: float = _BYTES
    while (left := wanted - (done if size is None else writer.position)) > 0:
        if progress is not None:
            progress(wanted - left, wanted)
        if size is not None:
            left = max(int(left / each), 1)
        group = stage.groups[turn // len(makers) % len(stage.groups)]
        pieces = makers[turn % len(makers)](stage, group, min(left, most))
        before = writer.position
        written = _write(writer.main, group.tracks, pieces)
        each = (writer.position - before) / written
        done += written
        turn += 1
    return done


def _groups(writer: FxtWriter, threads: int) -> list[_Group]:
    """Introduce the threads with their names, and their processes."""
    tracks = []
    for number in range(threads):
        process, rank = divmod(number, THREADS_PER_PROCESS)
        process_name = f"process {process + 1}" if rank == 0 else None
        name = f"worker {rank}" if rank else "main"
        tracks.append(writer.thread(FIRST_PROCESS + process, FIRST_THREAD + number, name, process_name))
    starts = range(0, threads, THREAD_SLOTS)
    return [_Group(tracks[start : start + THREAD_SLOTS], start) for start in starts]


def _write(provider: Provider, tracks: list[Track], pieces: list[_Piece]) -> int:
    if len(pieces) == 1:
        one = pieces[0]
        return provider.write_events(
            one.kind, timestamp=one.timestamp, thread=(tracks, one.thread), name=one.name, **one.columns
        )
    return _write_in_time_order(provider, tracks, pieces)


def _write_in_time_order(provider: Provider, tracks: list[Track], pieces: list[_Piece]) -> int:
    """Write events of several kinds in the order of their times."""
    return provider.write_mixed(
        *[
            {
                "kind": one.kind,
                "timestamp": one.timestamp,
                "thread": (tracks, one.thread),
                "name": one.name,
                **one.columns,
            }
            for one in pieces
        ]
    )


def _spans(stage: _Stage, group: _Group, count: int) -> list[_Piece]:
    """Trees of spans, one behind the other on each thread.

    Every begin and every end is at least a tick behind the one before it, so no two are equal.
    """
    width = len(group.tracks)
    rounds = -(-count // (width * _SPANS))
    ticks = (stage.below(2_000, rounds, width, 2 * _SPANS + 1) + 1).cumsum(axis=2)
    length = ticks[:, :, -1]
    ticks += group.now + (length.cumsum(axis=0) - length)[:, :, None]
    group.now = int(ticks.max()) + 1
    tree = stage.below(len(TREES), rounds, width)
    start = np.take_along_axis(ticks, _BEGINS[tree], axis=2)
    thread = np.broadcast_to(np.arange(width)[:, None], start.shape)
    name, category = _names(stage, count)
    columns = {
        "end": np.take_along_axis(ticks, _ENDS[tree], axis=2).ravel()[:count],
        "category": category,
        "args": {"items": stage.below(100_000, count), "phase": (PHASES, stage.below(len(PHASES), count))},
    }
    return [_Piece("duration_complete", start.ravel()[:count], thread.ravel()[:count], name, columns)]


def _counters(stage: _Stage, group: _Group, count: int) -> list[_Piece]:
    """Samples of every series of every thread in turn: each rises and falls, with some noise."""
    ticks = group.now + stage.below(500, count).cumsum() + np.arange(count)
    group.now = int(ticks[-1]) + 1
    series, thread = np.divmod(np.arange(count), len(group.tracks))
    series %= len(SERIES)
    number = group.first + thread
    period = 200_000 * (1 + number % 5) * (1 + series)
    value = np.abs(ticks % period - period // 2) // 100 + stage.below(50, count)
    columns = {"category": "app", "id": number, "args": {"value": value}}
    return [_Piece("counter", ticks, thread, (SERIES, series), columns)]


def _flows(stage: _Stage, group: _Group, count: int) -> list[_Piece]:
    """Requests in three steps, each in a span on the next thread, and in the next window of time.

    The arrow leaves or arrives strictly inside of its span.
    """
    width, window = len(group.tracks), 1_000
    chains = -(-count // 6)
    turn, lane = np.divmod(np.arange(chains), width)
    steps = np.arange(3)
    thread = (lane[:, None] + steps) % width
    start = group.now + (turn[:, None] * 3 + steps) * window + stage.below(200, chains, 3)
    length = stage.below(700, chains, 3) + 10
    arrow = start + 1 + stage.below(length - 1, chains, 3)
    group.now = int(start.max()) + window
    ids = stage.ids(chains)
    names = (("request", "work", "reply"), np.tile(steps, chains))
    columns = {"end": (start + length).ravel(), "category": "app", "args": {"request": np.repeat(ids, 3)}}
    pieces = [_Piece("duration_complete", start.ravel(), thread.ravel(), names, columns)]
    for step, kind in enumerate(("flow_begin", "flow_step", "flow_end")):
        pieces.append(_Piece(kind, arrow[:, step], thread[:, step], "request", {"category": "app", "id": ids}))
    return pieces


def _async(stage: _Stage, group: _Group, count: int) -> list[_Piece]:
    """Operations with a begin, an instant and an end, at three different ticks."""
    width = len(group.tracks)
    operations = -(-count // 3)
    begin = group.now + stage.below(200, operations).cumsum() + np.arange(operations)
    length = stage.below(20_000, operations) + 2
    ticks = (begin, begin + 1 + stage.below(length - 1, operations), begin + length)
    group.now = int(ticks[2].max()) + 1
    name, category = _names(stage, operations)
    columns = {"category": category, "id": stage.ids(operations)}
    kinds = ("async_begin", "async_instant", "async_end")
    return [
        _Piece(kind, when, stage.below(width, operations), name, columns)
        for kind, when in zip(kinds, ticks, strict=True)
    ]


def _instants(stage: _Stage, group: _Group, count: int) -> list[_Piece]:
    ticks = group.now + stage.below(1_000, count).cumsum() + np.arange(count)
    group.now = int(ticks[-1]) + 1
    name, category = _names(stage, count)
    columns = {"category": category, "args": {"ready": stage.below(2, count) == 1}}
    return [_Piece("instant", ticks, stage.below(len(group.tracks), count), name, columns)]


def _names(stage: _Stage, count: int) -> tuple[Any, Any]:
    """Random names; a name always has the same category."""
    chosen = stage.below(len(NAMES), count)
    return (NAMES, chosen), (CATEGORIES, chosen % len(CATEGORIES))
