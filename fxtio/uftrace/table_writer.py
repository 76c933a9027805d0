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
from fxtio.table import MAX_TIME, Bytes, Categories, Optional
from fxtio.uftrace import perf
from fxtio.uftrace.declarations import FUNCTION_SIZE
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.events import payload_of
from fxtio.uftrace.kernel import KernelEvent
from fxtio.uftrace.layout import DEPTHS
from fxtio.uftrace.new_trace import NewTrace
from fxtio.uftrace.pairing import NO_ENTRY, WHOLE
from fxtio.uftrace.records import record_bytes
from fxtio.uftrace.tables import WRITABLE

Columns = dict[str, Any]


class CallOrder:
    """The order of the entry and exit records of the calls of one task.

    Calls come in the order in which they end; else they are sorted.  With the depths, this
    order determines the order of all entries, also of those with the same time.

    Args:
        start: nanoseconds (int64).
        end: nanoseconds (int64).
        depth: the number of calls around each call (int64).
        state: codes in `STATES`.

    Attributes:
        row: the row of the call of each record.
        kind: the type of each record (uint8).
        time: the time of each record (int64).
    """

    def __init__(self, start: Array, end: Array, depth: Array, state: Array) -> None:
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
        self.row, self.kind = rows[sequence], kinds[sequence]
        self.time = np.where(self.kind == RecordType.ENTRY, start[self.row], end[self.row])
        if (self.time[1:] < self.time[:-1]).any():
            raise EncodeError("calls of a task overlap without being nested", "start")


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


class TableWriter:
    """Writes rows; everything is checked before anything is written, and `EncodeError` raised for what does not fit.

    Args:
        trace: the new trace.
    """

    def __init__(self, trace: NewTrace) -> None:
        self._trace = trace

    def write(self, name: str, columns: Columns, rows: int) -> None:
        """Write rows of a table.

        Args:
            name: one of `WRITABLE`.
            columns: the columns by name.
            rows: the number of rows.
        """
        self._trace.check_declarable()
        _WRITE[name](self, columns, rows)

    # ---- records

    def records(self, columns: Columns, rows: int) -> None:
        """Append records as they are, and declare their tasks.

        Payloads are in the optional column `payload`: they are not in the table of the reader, and can be read only if
        the info file has their specifications.
        """
        fields = {name: columns[name] for name in ("time", "depth", "address")}
        self._append(columns["tid"], columns["type"].astype(np.uint8), fields, columns.get("payload"))

    def events(self, columns: Columns, rows: int) -> None:
        """Append events; their data are in the optional column `data`."""
        data = columns.get("data")
        order = self._trace.order
        payload = None if data is None else Bytes(payload_of(raw or None, order) or b"" for raw in data)
        names = columns["name"].tolist()
        numbers = self._event_numbers(names)
        fields = {
            "time": columns["time"],
            "depth": np.zeros(rows, np.int64),
            "address": np.array([numbers[name] for name in names], np.int64),
        }
        for tid, chosen in _rows_of("tid", columns["tid"]):
            self._trace.processes.check_new_times(tid, fields["time"][chosen])
        self._append(columns["tid"], np.full(rows, RecordType.EVENT, np.uint8), fields, payload)
        for name in numbers:
            self._trace.event_id(name)

    def _event_numbers(self, names: list[str | None]) -> dict[Any, int]:
        """Return the numbers of events by name, as they will be when the names are declared in this order."""
        numbers: dict[Any, int] = {}
        new = 0
        for name in names:
            if name in numbers:
                continue
            text: Any = name
            is_new = self._trace.is_new_event(text)
            numbers[name] = self._trace.event_number(text) + new * is_new
            new += is_new
        return numbers

    def lost(self, columns: Columns, rows: int) -> None:
        """Append records that tell how many others are missing."""
        zeros = np.zeros(rows, np.int64)
        fields = {"time": zeros, "depth": zeros, "address": columns["count"]}
        self._append(columns["tid"], np.full(rows, RecordType.LOST, np.uint8), fields, None)

    def _append(self, tids: Any, kind: Array, fields: dict[str, Array], payload: Bytes | None) -> None:
        """Append records, and declare their tasks."""
        trace, encoded = self._trace, []
        if payload is not None and any(payload):
            trace.check_version("payloads")
        for tid, chosen in _rows_of("tid", tids):
            raws = None if payload is None else [payload[row] or None for row in chosen.tolist()]
            own = {name: column[chosen] for name, column in fields.items()}
            raw = record_bytes(kind[chosen], **own, payload=raws, order=trace.order)
            times = own["time"][kind[chosen] != RecordType.LOST]
            trace.processes.checked_pid(tid, None)
            encoded.append((tid, times, raw, len(chosen)))
        for tid, times, raw, count in encoded:
            trace.append(trace.processes.task(tid), times, raw, count)

    # ---- calls

    def slices(self, columns: Columns, rows: int) -> None:
        """Write all calls of some tasks; functions that are new are declared.

        A task whose calls without an entry begin before its first record becomes a copy of another process.
        """
        trace, names = self._trace, columns["name"]
        start, duration, depth, state = _calls(columns, rows)
        used = _used_names(names)
        for name in used.values():
            trace.declarations.check_function(name)
        orders, forks = [], {}
        for tid, chosen in _rows_of("tid", columns["tid"]):
            order = CallOrder(start[chosen], (start + duration)[chosen], depth[chosen], state[chosen])
            self._check_whole_calls(tid, order.time)
            orders.append((tid, order, chosen[order.row]))
            without_entry = start[chosen][state[chosen] == NO_ENTRY]
            if len(without_entry) and self._is_copied(tid, without_entry, int(order.time[0])):
                forks[tid] = int(without_entry[0])
        parents = [tid for tid in [*trace.processes.tasks, *(tid for tid, _, _ in orders)] if tid not in forks]
        if forks and not parents:
            raise EncodeError("there is no other process, of which the task could be a copy", f"task {min(forks)}")
        for tid, time in forks.items():
            trace.processes.fork(tid, trace.processes.task(parents[0]), time)
        address = np.zeros(len(names.values), np.uint64)
        address[[*used]] = [trace.declarations.function(name).address for name in used.values()]
        for tid, order, calls in orders:
            wrapped_depth, wrapped_address = _wrapped(depth[calls], address[names.codes[calls]])
            raw = record_bytes(order.kind, order.time, wrapped_depth, wrapped_address, None, trace.order)
            trace.append(trace.processes.task(tid), order.time, raw, len(order.time))

    def _is_copied(self, tid: int, starts: Array, first: int) -> bool:
        """Return whether a task must be a copy of a process so that its calls without an entry begin at some times."""
        task = self._trace.processes.tasks.get(tid)
        begin = first if task is None or task.first is None else task.first
        if int(starts.min()) < int(starts.max()) or int(starts[0]) > begin:
            raise EncodeError("calls without an entry begin at one time, at or before the first record", f"task {tid}")
        if int(starts[0]) < begin and task is not None:
            raise EncodeError("a call without an entry begins before the task", f"task {tid}")
        return int(starts[0]) < begin

    def _check_whole_calls(self, tid: int, times: Array) -> None:
        """Raise `EncodeError` if a task takes no calls of functions of the first program at some times."""
        processes = self._trace.processes
        processes.checked_pid(tid, None)
        task = processes.tasks.get(tid)
        if int(times[0]) < 0:
            raise EncodeError("a time is negative", "start")
        if task is None:
            return
        if task.open:
            raise EncodeError("calls that `enter` began are open", f"task {tid}")
        if (program := processes.session_of(task).program) != self._trace.declarations.path:
            raise EncodeError(f"the task runs another program, {program}", f"task {tid}")
        processes.check_times(task, times)

    # ---- the other files

    def sched(self, columns: Columns, rows: int) -> None:
        """Append scheduler events to the files of CPUs."""
        kinds = columns["kind"].tolist()
        names = columns["name"].tolist() if "name" in columns else [None] * rows
        parents = {name: columns.get(name, np.zeros(rows, np.int64)) for name in ("parent", "parent_pid")}
        encoded = []
        for cpu, chosen in _rows_of("cpu", columns["cpu"]):
            fields = {name: columns[name][chosen] for name in ("time", "pid", "tid")}
            indices = chosen.tolist()
            raw = perf.encode(
                **fields, kind=[kinds[row] for row in indices], comm=[names[row] for row in indices],
                **{name: getattr(column, "values", column)[chosen] for name, column in parents.items()},
                order=self._trace.order,
            )  # fmt: skip
            self._trace.sched.check_times(cpu, fields["time"])
            encoded.append((cpu, int(fields["time"][-1]), raw))
        for cpu, last, raw in encoded:
            self._trace.sched.append(cpu, last, raw)

    def messages(self, columns: Columns, rows: int) -> None:
        """Append messages."""
        times, texts = columns["time"].tolist(), columns["text"].tolist()
        last, checked = None, []
        for time, text in zip(times, texts, strict=True):
            checked.append(self._trace.check_message(time, text, last))
            last = time
        self._trace.messages += checked

    def enums(self, columns: Columns, rows: int) -> None:
        """Declare enumerations."""
        enums: dict[Any, dict[Any, int]] = {}
        for name, label, value in zip(*(columns[each].tolist() for each in ("name", "label", "value")), strict=True):
            if enums.setdefault(name, {}).setdefault(label, value) != value:
                raise EncodeError(f"{label!r} has two values", f"{name}")
        for name, labels in enums.items():
            self._trace.check_enum(name, labels)
        for name, labels in enums.items():
            self._trace.declarations.enum(name, labels)

    def kernel(self, columns: Columns, rows: int) -> None:
        """Append kernel events with their data as they are."""
        data, names = columns["data"], columns["name"].tolist()
        missed = columns.get("missed", np.zeros(rows, np.bool_))
        if isinstance(missed, Optional):
            raise EncodeError("has a null", "missed")
        times, tids = columns["time"].tolist(), columns["tid"].tolist()
        with self._trace.kernel.all_or_none():
            for cpu, chosen in _rows_of("cpu", columns["cpu"]):
                for row in chosen.tolist():
                    system, _, name = names[row].rpartition(":")
                    event = KernelEvent(
                        times[row], tids[row], 0, name, {}, data[row], bool(missed[row]), system, cpu
                    )  # fmt: skip
                    self._trace.kernel.put(event)

    def kernel_slices(self, columns: Columns, rows: int) -> None:
        """Append the calls of functions of the kernel, with all events of a call on one CPU."""
        kernel = self._trace.kernel
        start, duration, depth, state = _calls(columns, rows)
        used = _used_names(columns["name"])
        cpu, tids = columns["cpu"], columns["tid"]
        call, kind, time = [], [], []
        for tid, chosen in _rows_of("tid", tids):
            kernel.check_no_open_call(tid)
            order = CallOrder(start[chosen], (start + duration)[chosen], depth[chosen], state[chosen])
            call.append(chosen[order.row])
            kind.append(order.kind)
            time.append(order.time)
        calls, kinds, times = (np.concatenate(parts) for parts in (call, kind, time))
        sequence = np.argsort(times, kind="stable")
        calls, kinds, times = calls[sequence], kinds[sequence], times[sequence]
        codes = columns["name"].codes[calls].tolist()
        starts, ends, depths = (column[calls].tolist() for column in (start, start + duration, depth))
        with kernel.all_or_none():
            for row, (code, is_exit) in enumerate(zip(codes, (kinds == RecordType.EXIT).tolist(), strict=True)):
                at, place = int(calls[row]), (starts[row], ends[row]) if is_exit else None
                kernel.add_call(int(cpu[at]), int(times[row]), int(tids[at]), used[code], depths[row], place)


_WRITE: Mapping[str, Callable[[TableWriter, Columns, int], None]] = {
    name: getattr(TableWriter, name) for name in WRITABLE
}


def _calls(columns: Columns, rows: int) -> tuple[Array, Array, Array, Array]:
    """Return the starts, durations, depths and states of calls.

    Depths are limited by the carry into the address of a function, see `_wrapped`.
    """
    start, duration, depth = (columns[name] for name in ("start", "duration", "depth"))
    limit = FUNCTION_SIZE * DEPTHS - 1
    if not 0 <= int(depth.min()) <= int(depth.max()) <= limit:
        raise EncodeError(f"a depth is not from 0 to {limit:,}", "depth")
    if int(duration.min()) < 0:
        raise EncodeError("a duration is negative", "duration")
    if max(int(start.max()), int(duration.max()), int(start.max()) + int(duration.max())) > MAX_TIME:
        raise EncodeError("the end of a call does not fit in 63 bits", "duration")
    states = columns.get("state", np.full(rows, WHOLE, np.int64))
    if isinstance(states, Optional):
        raise EncodeError("has a null", "state")
    return start, duration, depth, states


def _used_names(names: Categories) -> dict[int, str]:
    """Return the names of calls that occur, by code."""
    return {code: names.values[code] for code in np.unique(names.codes).tolist()}


def _rows_of(name: str, column: Array) -> list[tuple[int, Array]]:
    """Return the distinct values of a column of integers (int64) that are not negative, and the rows of each."""
    groups = rows_of_each(column)
    if groups and groups[0][0] < 0:
        raise EncodeError("a number is negative", name)
    return groups
