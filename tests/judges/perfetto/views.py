"""Views of a loaded trace: SQL queries whose rows are small frozen objects that a test can compare.

The views undo what the importer adds or bends, where that can be told apart:

- The idle process and thread (`upid` 0, `utid` 0), which every trace has, are left out.
- For each process Perfetto makes up a main thread (tid == pid). It is left out unless something refers to it or it
  has a name.
- Pointer arguments are unsigned again; Perfetto keeps all 64-bit values in signed columns.

What cannot be undone, and has to be expected by a test:

- Process and thread koids are cut to 32 bits.
- uint64 and koid arguments of 2^63 and more come back negative, NaN as None, a null argument as the text "null", a
  blob or unknown argument as the text "unknown". Of arguments with the same name the last one stays.
- Text ends at its first NUL character. Bytes that are not UTF-8 come back as surrogate escapes.
- Counter values are doubles. The category of a counter is lost.
- Log, userspace object, profiler, provider event and most blob records leave no trace at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .engine import Row

ArgValue: TypeAlias = int | float | str | bool | None
Query: TypeAlias = Callable[[str], list[Row]]


@dataclass(frozen=True, slots=True)
class Slice:
    """A duration (`dur` in ns, -1 while open), an instant (`dur` 0) or a span of an async track.

    `pid` and `tid` are None on an async track, which belongs to no thread; `track` is its name, else None.
    `ts` is in ns. `parent_id` is the id of the enclosing slice of the same track, at `depth` - 1.
    """

    id: int
    ts: int
    dur: int
    name: str | None
    category: str | None
    depth: int
    parent_id: int | None
    pid: int | None
    tid: int | None
    track: str | None
    args: dict[str, ArgValue] = field(default_factory=dict)

    @property
    def end(self) -> int | None:
        """The end in ns, or None if the slice was never closed."""
        return None if self.dur < 0 else self.ts + self.dur


@dataclass(frozen=True, slots=True)
class CounterSample:
    """A sample of a counter series. The importer names a series "<event name>:<argument name>:<counter id>"."""

    ts: int
    value: float | None
    track: str
    pid: int | None

    @property
    def series(self) -> str:
        """The event's and the argument's name, with a colon between them (names may hold colons too)."""
        return self.track.rpartition(":")[0]

    @property
    def counter_id(self) -> int:
        """The counter id of the FXT record."""
        return int(self.track.rpartition(":")[2])


@dataclass(frozen=True, slots=True)
class Flow:
    """An arrow from one slice to another. FXT's correlation id, name, category and arguments are not kept."""

    slice_out: int
    slice_in: int
    name_out: str | None
    name_in: str | None
    ts_out: int
    ts_in: int


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread; `name` is None unless a kernel object record named it."""

    utid: int
    tid: int
    pid: int | None
    name: str | None


@dataclass(frozen=True, slots=True)
class Process:
    """A process; `name` is None unless a kernel object record named it."""

    upid: int
    pid: int
    name: str | None


@dataclass(frozen=True, slots=True)
class SchedSlice:
    """A thread on a CPU. `dur` is -1 for the last one. `priority` holds the weight of newer FXT records.

    `end_state` is Perfetto's letter: R runnable, S blocked, T suspended, Z dying, X dead; None while running.
    """

    ts: int
    dur: int
    cpu: int
    tid: int | None
    pid: int | None
    end_state: str | None
    priority: int


@dataclass(frozen=True, slots=True)
class ThreadState:
    """The state of a thread: "Running", a letter as in `SchedSlice.end_state`, or W from a wakeup record on."""

    ts: int
    dur: int
    cpu: int | None
    tid: int | None
    pid: int | None
    state: str | None
    waker_tid: int | None


_SLICES = """
    select s.id, s.ts, s.dur, s.name, s.category, s.depth, s.parent_id, s.arg_set_id, process.pid, thread.tid,
        iif(thread_track.id is null, track.name, null) as track
    from slice s
    left join track on track.id = s.track_id
    left join thread_track on thread_track.id = s.track_id
    left join thread on thread.utid = thread_track.utid
    left join process on process.upid = thread.upid
    order by s.id
"""
_ARGS = "select arg_set_id, key, int_value, string_value, real_value, value_type from args"
_COUNTERS = """
    select c.ts, c.value, t.name as track, process.pid
    from counter c
    join counter_track t on t.id = c.track_id
    left join process_counter_track pt on pt.id = c.track_id
    left join process on process.upid = pt.upid
    order by c.id
"""
_FLOWS = """
    select f.slice_out, f.slice_in, o.name as name_out, i.name as name_in, o.ts as ts_out, i.ts as ts_in
    from flow f join slice o on o.id = f.slice_out join slice i on i.id = f.slice_in
    order by f.id
"""
_THREADS = """
    select t.utid, t.tid, process.pid, t.name
    from thread t left join process on process.upid = t.upid
    where t.utid != 0 and (
        t.name is not null or process.pid is null or t.tid != process.pid
        or t.utid in (select utid from thread_track)
        or t.utid in (select utid from thread_state union select waker_utid from thread_state)
    )
    order by t.utid
"""
_PROCESSES = "select upid, pid, name from process where upid != 0 order by upid"
_SCHED = """
    select s.ts, s.dur, s.cpu, iif(t.is_idle, null, t.tid) as tid, iif(t.is_idle, null, process.pid) as pid,
        s.end_state, s.priority
    from sched s join thread t on t.utid = s.utid left join process on process.upid = t.upid
    order by s.ts, s.id
"""
_STATES = """
    select s.ts, s.dur, s.cpu, iif(t.is_idle, null, t.tid) as tid, iif(t.is_idle, null, process.pid) as pid,
        s.state, waker.tid as waker_tid
    from thread_state s join thread t on t.utid = s.utid left join process on process.upid = t.upid
    left join thread waker on waker.utid = s.waker_utid
    order by s.ts, s.id
"""
_ERRORS = """
    select name, sum(value) as value from stats
    where severity in ('error', 'data_loss') and value != 0
    group by name order by name
"""


def slices(query: Query) -> list[Slice]:
    """Return all slices in the order of their start; equal starts keep file order."""
    args = arg_sets(query)
    rows: list[dict[str, Any]] = list(query(_SLICES))
    return [Slice(args=args.get(row.pop("arg_set_id"), {}), **row) for row in rows]


def arg_sets(query: Query) -> dict[int, dict[str, ArgValue]]:
    """Return all arguments by `arg_set_id`. Perfetto keeps its own track attributes in the same table."""
    sets: dict[int, dict[str, ArgValue]] = {}
    for row in query(_ARGS):
        arg_set, key = row["arg_set_id"], row["key"]
        assert isinstance(arg_set, int)
        assert isinstance(key, str)
        sets.setdefault(arg_set, {})[key] = _arg_value(row)
    return sets


def _arg_value(row: Row) -> ArgValue:
    value: Any
    kind = row["value_type"]
    if kind in ("string", "json"):
        value = row["string_value"]
    elif kind == "real":
        value = row["real_value"]
    else:
        value = row["int_value"]
        if value is not None and kind in ("pointer", "uint"):
            value %= 1 << 64
        elif value is not None and kind == "bool":
            value = bool(value)
    result: ArgValue = value
    return result


def counters(query: Query) -> list[CounterSample]:
    """Return all counter samples in time order."""
    rows: list[dict[str, Any]] = list(query(_COUNTERS))
    return [CounterSample(**row) for row in rows]


def flows(query: Query) -> list[Flow]:
    """Return all arrows between slices. A begin-step-end chain gives two."""
    rows: list[dict[str, Any]] = list(query(_FLOWS))
    return [Flow(**row) for row in rows]


def threads(query: Query) -> list[Thread]:
    """Return all threads of the trace, without those that Perfetto made up."""
    rows: list[dict[str, Any]] = list(query(_THREADS))
    return [Thread(**row) for row in rows]


def processes(query: Query) -> list[Process]:
    """Return all processes of the trace, without the idle process that Perfetto made up."""
    rows: list[dict[str, Any]] = list(query(_PROCESSES))
    return [Process(**row) for row in rows]


def sched(query: Query) -> list[SchedSlice]:
    """Return the threads that ran on each CPU, in time order. `tid` and `pid` are None for the idle thread."""
    rows: list[dict[str, Any]] = list(query(_SCHED))
    return [SchedSlice(**row) for row in rows]


def thread_states(query: Query) -> list[ThreadState]:
    """Return the states that threads went through, in time order; wakeups are here."""
    rows: list[dict[str, Any]] = list(query(_STATES))
    return [ThreadState(**row) for row in rows]


def errors(query: Query) -> dict[str, int]:
    """Return statistics that say something was rejected or lost, by name. Empty for a trace without fault."""
    rows: list[dict[str, Any]] = list(query(_ERRORS))
    return {row["name"]: row["value"] for row in rows}
