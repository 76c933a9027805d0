"""Writes rows of tables to a new trace: the inverse of the tables of the reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.codec.distinct import rows_of_each
from fxtio.errors import EncodeError
from fxtio.pairing import pair
from fxtio.schema import BYTES, ColumnSpec
from fxtio.table import MAX_TIME, Bytes, Categories, Optional
from fxtio.uftrace import perf
from fxtio.uftrace.declarations import FUNCTION_SIZE
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.events import EVENT_IDS, payload_of
from fxtio.uftrace.kernel import KernelEvent
from fxtio.uftrace.layout import DEPTHS
from fxtio.uftrace.new_trace import NewTrace
from fxtio.uftrace.pairing import NO_ENTRY, WHOLE
from fxtio.uftrace.records import record_bytes
from fxtio.uftrace.tables import SPECS

Columns = dict[str, Any]


def _in_order(start: Array, end: Array, depth: Array, state: Array) -> tuple[Array, Array, Array]:
    """Return the entry and exit records of the calls of one task in their order.

    Calls come in the order in which they end; else they are sorted.  With the depths, this
    order determines the order of all entries, also of those with the same time.

    Args:
        start: nanoseconds (int64).
        end: nanoseconds (int64).
        depth: the number of calls around each call (int64).
        state: codes in `STATES`.

    Returns:
        For each record the row of its call, its type (uint8) and its time (int64).

    Raises:
        EncodeError: calls overlap without being nested.
    """
    order = np.arange(len(start))
    if (end[1:] < end[:-1]).any():
        order = np.lexsort((start, -depth, end))
    first = _first_inside(start[order], end[order], depth[order], state[order])
    ranks = np.arange(len(order))
    has_entry, has_exit = state[order] != NO_ENTRY, np.isin(state[order], (WHOLE, NO_ENTRY))
    # An entry precedes all records of the first call inside of it, entries of outer calls come first.
    keys = np.concatenate([first[has_entry], ranks[has_exit]])
    inner = np.concatenate([depth[order][has_entry], np.full(int(has_exit.sum()), np.iinfo(np.int64).max)])
    rows = np.concatenate([order[has_entry], order[has_exit]])
    kinds = np.repeat(np.array([RecordType.ENTRY, RecordType.EXIT], np.uint8), [has_entry.sum(), has_exit.sum()])
    sequence = np.lexsort((inner, keys))
    row, kind = rows[sequence], kinds[sequence]
    time = np.where(kind == RecordType.ENTRY, start[row], end[row])
    if (time[1:] < time[:-1]).any():
        raise EncodeError("calls of a task overlap without being nested", "start")
    return row, kind, time


def _first_inside(start: Array, end: Array, depth: Array, state: Array) -> Array:
    """Return, for calls in the order of their ends, the row of the first call inside of each call, or its own row."""
    rows = np.arange(len(start))
    first = np.maximum(_first_deeper(depth), np.searchsorted(end, start, "left"))
    # Deeper calls that ended before are not inside; at equal times, those are that took no time.
    begin = np.where(state == NO_ENTRY, end, start)
    while (outside := (first < rows) & (end[first] == start) & (begin[first] < start)).any():
        first = first + outside
    return np.minimum(first, rows)


def _first_deeper(depth: Array) -> Array:
    """Return, for each call, the first row of the uninterrupted rows before it that are deeper, or its own row."""
    count = len(depth)
    # Backwards, each call is like an entry: it ends at the next entry that is not deeper.
    pairs = pair(np.full(count, SpanStep.BEGIN, np.int8), level=depth[::-1])
    return np.where(pairs.on_stack, 0, count - pairs.end)[::-1]


def _wrapped(depth: Array, address: Array) -> tuple[Array, Array]:
    """Return depths and addresses as records hold them: a depth beyond 1023 wraps around and carries into the address.

    Args:
        depth: the depths (int64).
        address: the first addresses of the functions (uint64).
    """
    return depth % DEPTHS, address + (depth // DEPTHS).astype(np.uint64)


# ---- records


def _records(trace: NewTrace, columns: Columns) -> None:
    """Append records as they are, and declare their tasks.

    Payloads are not in the table of the reader, and can be read only if the info file has their specifications.
    """
    fields = {name: columns[name] for name in ("time", "depth", "address")}
    _append(trace, columns["tid"], columns["type"].astype(np.uint8), fields, columns["payload"])


def _events(trace: NewTrace, columns: Columns) -> None:
    """Append events."""
    names = columns["name"].tolist()
    payload = Bytes(payload_of(raw or None, trace.order) or b"" for raw in columns["data"])
    numbers = _event_numbers(trace, names)
    fields = {
        "time": columns["time"],
        "depth": np.zeros(len(names), np.int64),
        "address": np.array([numbers[name] for name in names], np.int64),
    }
    for tid, chosen in _rows_of("tid", columns["tid"]):
        trace.processes.check_new_times(tid, fields["time"][chosen])
    _append(trace, columns["tid"], np.full(len(names), RecordType.EVENT, np.uint8), fields, payload)
    for name in numbers:
        trace.event_id(name)


def _event_numbers(trace: NewTrace, names: list[Any]) -> dict[Any, int]:
    """Return the numbers of events by name, as they will be when the names are declared in this order."""
    numbers: dict[Any, int] = {}
    new = 0
    for name in dict.fromkeys(names):
        is_new = name not in EVENT_IDS and name not in trace.events
        numbers[name] = trace.event_number(name) + new * is_new
        new += is_new
    return numbers


def _lost(trace: NewTrace, columns: Columns) -> None:
    """Append records that tell how many others are missing."""
    rows = len(columns["tid"])
    zeros = np.zeros(rows, np.int64)
    fields = {"time": zeros, "depth": zeros, "address": columns["count"]}
    _append(trace, columns["tid"], np.full(rows, RecordType.LOST, np.uint8), fields, Bytes())


def _append(trace: NewTrace, tids: Array, kind: Array, fields: dict[str, Array], payload: Bytes) -> None:
    """Append records, and declare their tasks."""
    encoded = []
    has_payloads = any(payload)
    if has_payloads:
        trace.check_version("payloads")
    for tid, chosen in _rows_of("tid", tids):
        raws = [payload[row] or None for row in chosen.tolist()] if has_payloads else None
        own = {name: column[chosen] for name, column in fields.items()}
        raw = record_bytes(kind[chosen], **own, payload=raws, order=trace.order)
        times = own["time"][kind[chosen] != RecordType.LOST]
        trace.processes.checked_pid(tid, None)
        encoded.append((tid, times, raw, len(chosen)))
    for tid, times, raw, count in encoded:
        trace.append(trace.processes.task(tid), times, raw, count)


# ---- calls


def _slices(trace: NewTrace, columns: Columns) -> None:
    """Write all calls of some tasks; functions that are new are declared.

    A task whose calls without an entry begin before its first record becomes a copy of another process.
    """
    names = columns["name"]
    start, duration, depth, state = _calls(columns)
    used = _used_names(names)
    for name in used.values():
        trace.declarations.check_function(name)
    orders, forks = [], {}
    for tid, chosen in _rows_of("tid", columns["tid"]):
        own = start[chosen], (start + duration)[chosen], depth[chosen], state[chosen]
        row, kind, time = _in_order(*own)
        _check_whole_calls(trace, tid, time)
        orders.append((tid, chosen[row], kind, time))
        without_entry = start[chosen][state[chosen] == NO_ENTRY]
        if len(without_entry) and _is_copied(trace, tid, without_entry, int(time[0])):
            forks[tid] = int(without_entry[0])
    parents = [tid for tid in [*trace.processes.tasks, *(tid for tid, *_ in orders)] if tid not in forks]
    if forks and not parents:
        raise EncodeError("there is no other process, of which the task could be a copy", f"task {min(forks)}")
    for tid, begin in forks.items():
        trace.processes.fork(tid, trace.processes.task(parents[0]), begin)
    address = np.zeros(len(names.values), np.uint64)
    address[[*used]] = [trace.declarations.function(name).address for name in used.values()]
    for tid, calls, kind, time in orders:
        wrapped_depth, wrapped_address = _wrapped(depth[calls], address[names.codes[calls]])
        raw = record_bytes(kind, time, wrapped_depth, wrapped_address, None, trace.order)
        trace.append(trace.processes.task(tid), time, raw, len(time))


def _is_copied(trace: NewTrace, tid: int, starts: Array, first: int) -> bool:
    """Return whether a task must be a copy of a process so that its calls without an entry begin at some times."""
    task = trace.processes.tasks.get(tid)
    begin = first if task is None or task.first is None else task.first
    if int(starts.min()) < int(starts.max()) or int(starts[0]) > begin:
        raise EncodeError("calls without an entry begin at one time, at or before the first record", f"task {tid}")
    if int(starts[0]) < begin and task is not None:
        raise EncodeError("a call without an entry begins before the task", f"task {tid}")
    return int(starts[0]) < begin


def _check_whole_calls(trace: NewTrace, tid: int, times: Array) -> None:
    """Raise `EncodeError` if a task takes no calls of functions of the first program at some times."""
    processes = trace.processes
    processes.checked_pid(tid, None)
    task = processes.tasks.get(tid)
    if int(times[0]) < 0:
        raise EncodeError("a time is negative", "start")
    if task is None:
        return
    if task.open:
        raise EncodeError("calls that `enter` began are open", f"task {tid}")
    if (program := processes.session_of(task).program) != trace.declarations.path:
        raise EncodeError(f"the task runs another program, {program}", f"task {tid}")
    processes.check_times(task, times)


def _calls(columns: Columns) -> tuple[Array, Array, Array, Array]:
    """Return the starts, durations, depths and states of calls.

    Depths are limited by the carry into the address of a function, see `_wrapped`.
    """
    start, duration, depth, state = (columns[name] for name in ("start", "duration", "depth", "state"))
    limit = FUNCTION_SIZE * DEPTHS - 1
    if not 0 <= int(depth.min()) <= int(depth.max()) <= limit:
        raise EncodeError(f"a depth is not from 0 to {limit:,}", "depth")
    if int(duration.min()) < 0:
        raise EncodeError("a duration is negative", "duration")
    if max(int(start.max()), int(duration.max()), int(start.max()) + int(duration.max())) > MAX_TIME:
        raise EncodeError("the end of a call does not fit in 63 bits", "duration")
    return start, duration, depth.astype(np.int64), state


def _used_names(names: Categories) -> dict[int, str]:
    """Return the names of calls that occur, by code."""
    return {code: names.values[code] for code in np.unique(names.codes).tolist()}


def _rows_of(name: str, column: Array) -> list[tuple[int, Array]]:
    """Return the distinct values of a column of non-negative integers, and the rows of each."""
    groups = rows_of_each(column)
    if groups and groups[0][0] < 0:
        raise EncodeError("a number is negative", name)
    return groups


# ---- the other files


def _sched(trace: NewTrace, columns: Columns) -> None:
    """Append scheduler events to the files of CPUs."""
    kinds, names = columns["kind"].tolist(), columns["name"].tolist()
    encoded = []
    for cpu, chosen in _rows_of("cpu", columns["cpu"]):
        fields = {name: columns[name][chosen] for name in ("time", "pid", "tid", "parent", "parent_pid")}
        own = [(kinds[row], names[row]) for row in chosen.tolist()]
        texts = {"kind": [kind for kind, _ in own], "comm": [name for _, name in own]}
        raw = perf.encode(**fields, **texts, order=trace.order)
        trace.sched.check_times(cpu, fields["time"])
        encoded.append((cpu, int(fields["time"][-1]), raw))
    for cpu, last, raw in encoded:
        trace.sched.append(cpu, last, raw)


def _messages(trace: NewTrace, columns: Columns) -> None:
    """Append messages."""
    last, checked = None, []
    for time, text in zip(columns["time"].tolist(), columns["text"].tolist(), strict=True):
        checked.append(trace.check_message(time, text, last))
        last = time
    trace.messages += checked


def _enums(trace: NewTrace, columns: Columns) -> None:
    """Declare enumerations."""
    enums: dict[Any, dict[Any, int]] = {}
    for name, label, value in zip(*(columns[each].tolist() for each in ("name", "label", "value")), strict=True):
        if enums.setdefault(name, {}).setdefault(label, value) != value:
            raise EncodeError(f"{label!r} has two values", f"{name}")
    for name, labels in enums.items():
        trace.check_enum(name, labels)
    for name, labels in enums.items():
        trace.declarations.enum(name, labels)


def _kernel(trace: NewTrace, columns: Columns) -> None:
    """Append kernel events with their data as they are."""
    rows = [*zip(*(columns[each].tolist() for each in ("time", "tid", "name", "data", "missed")), strict=True)]
    with trace.kernel.all_or_none():
        for cpu, chosen in _rows_of("cpu", columns["cpu"]):
            for row in chosen.tolist():
                time, tid, label, data, missed = rows[row]
                system, _, name = (label or "").rpartition(":")
                trace.kernel.put(KernelEvent(time, tid, 0, name, {}, data, missed, system, cpu))


def _kernel_slices(trace: NewTrace, columns: Columns) -> None:
    """Append the calls of functions of the kernel, with all events of a call on one CPU."""
    start, duration, depth, state = _calls(columns)
    used = _used_names(columns["name"])
    cpu, tids, end = columns["cpu"], columns["tid"], start + duration
    call, kind, time = [], [], []
    for tid, chosen in _rows_of("tid", tids):
        trace.kernel.check_no_open_call(tid)
        row, kinds_of_task, times_of_task = _in_order(start[chosen], end[chosen], depth[chosen], state[chosen])
        call.append(chosen[row])
        kind.append(kinds_of_task)
        time.append(times_of_task)
    calls, kinds, times = (np.concatenate(parts) for parts in (call, kind, time))
    sequence = np.argsort(times, kind="stable")
    calls, kinds, times = calls[sequence], kinds[sequence], times[sequence]
    codes = columns["name"].codes[calls].tolist()
    starts, ends, depths = (column[calls].tolist() for column in (start, end, depth))
    with trace.kernel.all_or_none():
        for number, (code, is_exit) in enumerate(zip(codes, (kinds == RecordType.EXIT).tolist(), strict=True)):
            at, place = int(calls[number]), (starts[number], ends[number]) if is_exit else None
            now, tid = int(times[number]), int(tids[at])
            trace.kernel.add_call(int(cpu[at]), now, tid, used[code], depths[number], place)


_WRITE: Mapping[str, Callable[[NewTrace, Columns], None]] = {
    "records": _records,
    "events": _events,
    "lost": _lost,
    "slices": _slices,
    "sched": _sched,
    "messages": _messages,
    "enums": _enums,
    "kernel": _kernel,
    "kernel_slices": _kernel_slices,
}


def write(trace: NewTrace, name: str, columns: Mapping[str, Any], rows: int) -> None:
    """Write rows of a table; everything is checked before anything is written.

    Args:
        trace: the new trace.
        name: one of `WRITABLE`.
        columns: the columns by name; optional ones may be missing.
        rows: the number of rows.

    Raises:
        EncodeError: a value does not fit.
    """
    trace.check_declarable()
    specs = {column: spec for column, spec in SPECS[name].columns.items() if spec.written}
    _WRITE[name](trace, {column: _whole(column, spec, columns.get(column), rows) for column, spec in specs.items()})


def _whole(name: str, spec: ColumnSpec, column: Any, rows: int) -> Any:
    """Return a column with zeros in place of nulls.  A missing one has only nulls; one of bytes has no rows then.

    Raises:
        EncodeError: it has a null where the declaration knows none.
    """
    if column is None:
        missing = Bytes() if spec.dtype == BYTES else spec.nulls(rows)
        return np.zeros(rows, np.int64) if spec.labels is not None else _whole(name, spec, missing, rows)
    if not isinstance(column, Optional):
        return column
    if not spec.dtype.endswith("?"):
        raise EncodeError("has a null", name)
    return np.where(column.present, column.values, 0)
