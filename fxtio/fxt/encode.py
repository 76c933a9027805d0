"""Encode tables to the bytes of many records, the inverse of `tables`.

The table of events is checked, and divided into columns of events, see `events`.  Tables that usually have few
rows are converted to typed records, row by row, with inline references.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.columns import OptionalColumn
from fxtio.codec.generate import Order, encode_buffers
from fxtio.codec.integers import MAX_UINT64, text_bytes
from fxtio.codec.record import Record
from fxtio.errors import EncodeError, shown
from fxtio.fxt import records as r
from fxtio.fxt.enums import BlobType, ObjectType, SchedulingType, Scope, ThreadState
from fxtio.fxt.events import ENDS_EARLY, MAX_COLUMN_TEXT, EventColumns, Indexed, check_count, texts
from fxtio.fxt.layout import MAX_STRING_SLOT, MAX_TEXT_BYTES, MAX_THREAD_SLOT
from fxtio.fxt.records import Thread
from fxtio.fxt.state import NS_PER_SECOND, Clock
from fxtio.fxt.tables import OBJECT_KINDS
from fxtio.table import MAX_TIME, Categories, Optional, WritableTable

MAX_ROWS = 1 << 18
"""The most rows of a table that are encoded at once."""

DEFAULT_MMAP_FLAGS = 5
"""Mapped to be read and executed."""


WRITABLE_TABLES: dict[str, WritableTable] = {
    "events": WritableTable(
        ("type", "process", "thread", "name"),
        ("provider", "ticks", "time", "category", "end_ticks", "duration", "id", "scope", "args"),
        ("offset",),
    ),
    "objects": WritableTable(("kind", "id", "name"), ("provider", "type", "process"), ("offset",)),
    "logs": WritableTable(("process", "thread", "message"), ("provider", "ticks", "time"), ("offset",)),
    "blobs": WritableTable(
        ("name", "payload"), ("provider", "ticks", "process", "thread", "category", "type"), ("offset", "time", "size")
    ),
    "scheduling": WritableTable(
        ("type", "cpu", "incoming_thread"),
        (
            "provider", "ticks", "time", "outgoing_process", "outgoing_thread", "incoming_process", "outgoing_state",
            "outgoing_priority", "incoming_priority", "waker",
        ),
        ("offset",),
    ),
    "modules": WritableTable(
        ("process", "module", "name", "build_id"), ("provider", "ticks", "time", "thread"), ("offset",)
    ),
    "mmaps": WritableTable(
        ("process", "module", "address", "size", "vaddr"), ("provider", "ticks", "time", "thread", "flags"), ("offset",)
    ),
}  # fmt: skip
"""The tables that `FxtWriter.write_table` takes.  The others refer to slots or to rows of other tables."""


def providers_of(columns: Mapping[str, Any], rows: int) -> Iterator[tuple[int | None, slice]]:
    """Yield the runs of rows with the same provider: its id (None without such a column), and the rows.

    Raises:
        EncodeError: an id is not an integer or is null.
    """
    if "provider" not in columns:
        yield None, slice(0, rows)
        return
    ids = unsigned(columns["provider"], "provider")
    starts = [0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), rows]
    for begin, end in pairwise(starts):
        yield int(ids[begin]), slice(begin, end)


def ticks_of(columns: Mapping[str, Any], rows: slice, clock: Clock) -> Array:
    """Return the ticks of the rows of a table (uint64), from its columns `ticks` or `time`.

    Raises:
        EncodeError: both columns are missing, they do not agree, or a time is not a whole number of ticks.
    """
    if "ticks" in columns:
        ticks = unsigned(columns["ticks"], "ticks")[rows]
        if "time" in columns:
            times, present = optional_integers(columns["time"], "time")
            if not present.all():
                raise EncodeError("has a null", "time")
            _check_same(clock.to_ns(ticks), times[rows], clock, "time")
        return ticks
    if "time" not in columns:
        raise EncodeError("the table needs the column ticks or the column time", "columns")
    return _to_ticks(unsigned(columns["time"], "time")[rows], clock, "time")


def _to_ticks(times: Array, clock: Clock, where: str) -> Array:
    """Convert nanoseconds to ticks (uint64).

    Raises:
        EncodeError: no tick has one of these times, or it does not fit in 64 bits.
    """
    rate = clock.ticks_per_second
    if rate == NS_PER_SECOND:
        return times.astype(np.uint64)
    ticks = [-(-time * rate // NS_PER_SECOND) for time in times.tolist()]
    for tick, time in zip(ticks, times.tolist(), strict=True):
        if clock.ns(tick) != time:
            raise EncodeError(f"{time} ns is not the time of a tick, at {rate:,} ticks per second", where)
        if tick > MAX_UINT64:
            raise EncodeError(f"{time} ns does not fit in 64 bits, at {rate:,} ticks per second", where)
    return np.array(ticks, np.uint64)


def _check_same(expected: Array, given: Array, clock: Clock, where: str) -> None:
    """Check integers, a column of nanoseconds, that follow from ticks."""
    wrong = expected != given
    if given.dtype.kind == "u":  # numpy compares such numbers as floats
        wrong = (expected < 0) | (expected.view(np.uint64) != given.astype(np.uint64))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        rate = f"{clock.ticks_per_second:,} ticks per second"
        raise EncodeError(f"{given[row]} ns does not agree with the ticks: at {rate} it is {expected[row]} ns", where)


def unsigned(column: Any, where: str) -> Array:
    """Return a column of integers as uint64.

    Raises:
        EncodeError: it has other values, a negative value or a null.
    """
    values, present = optional_unsigned(column, where)
    if not present.all():
        raise EncodeError("has a null", where)
    return values


def optional_unsigned(column: Any, where: str) -> tuple[Array, Array]:
    """Return a column of integers as uint64, 0 for null, and the rows that are not null (bool).

    Raises:
        EncodeError: it has other values, or a negative value.
    """
    values, present = optional_integers(column, where)
    if values.dtype.kind == "i" and len(values) and int(values.min()) < 0:
        raise EncodeError(f"{int(values.min())} is negative", where)
    return values.astype(np.uint64), present


def optional_integers(column: Any, where: str) -> tuple[Array, Array]:
    """Return a column of integers of any type, 0 for null, and the rows that are not null (bool).

    Raises:
        EncodeError: it has other values.
    """
    values, present = column, np.ones(len(column), bool)
    if isinstance(column, Optional):
        values, present = np.where(column.present, column.values, column.values.dtype.type(0)), column.present
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu":
        name = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise EncodeError(f"a column of {name} is not a column of integers", where)
    return values, present


@dataclass(frozen=True, slots=True)
class EventTable:
    """The checked columns of a table of events.

    Attributes:
        kind: the index of the event type in `EVENT_CLASSES` (int64).
        ticks: the times in ticks (uint64).
        thread: the threads, `Thread` values.
        name: the names.
        category: the categories.
        tail: the `end` or the `id` of the events that have one (uint64).
        scope: the scope of the instants that have one.
        args: the arguments by name.
        present: for arguments that not all rows have, by name, the rows that have it (bool).
    """

    kind: Array
    ticks: Array
    thread: Indexed
    name: Indexed
    category: Indexed
    tail: Array
    scope: OptionalColumn
    args: dict[str, Indexed | Array]
    present: dict[str, Array]

    def groups(self, rows: Array) -> list[EventColumns]:
        """Return some rows (indices) by event type."""
        return [self._group(kind, rows[self.kind[rows] == kind]) for kind in np.unique(self.kind[rows]).tolist()]

    def _group(self, kind: int, rows: Array) -> EventColumns:
        cls = list(r.EVENT_CLASSES.values())[kind]
        present = {key: mask[rows] for key, mask in self.present.items()}
        keys = [key for key in self.args if key not in present or present[key].any()]
        return EventColumns(
            cls,
            rows,
            self.ticks[rows],
            self.thread.take(rows),
            self.name.take(rows),
            self.category.take(rows),
            {key: value.take(rows) if isinstance(value := self.args[key], Indexed) else value[rows] for key in keys},
            self._tail(cls, rows),
            {key: mask for key, mask in present.items() if key in keys},
        )

    def _tail(self, cls: type[r.Event], rows: Array) -> dict[str, Array | OptionalColumn]:
        if cls is r.Instant:
            return {"scope": OptionalColumn(self.scope.values[rows], self.scope.present[rows])}
        return {name: self.tail[rows] for name in ("end", "id") if name in cls.__struct_fields__}

    def chunks(self, rows: slice) -> Iterator[list[EventColumns]]:
        """Yield rows in parts whose strings and threads fit in the tables of a provider, each part by event type."""
        pending = [
            np.arange(begin, min(begin + MAX_ROWS, rows.stop)) for begin in range(rows.start, rows.stop, MAX_ROWS)
        ]
        pending.reverse()
        while pending:
            part = pending.pop()
            groups = self.groups(part)
            threads = {thread for group in groups for thread in group.thread.values}
            if len(part) > 1 and (
                sum(group.strings for group in groups) > MAX_STRING_SLOT or len(threads) > MAX_THREAD_SLOT
            ):
                half = len(part) // 2
                pending += [part[half:], part[:half]]
            else:
                yield groups


def event_table(
    columns: Mapping[str, Any], args: Mapping[str, Any], rows: int, clock_of: Callable[[int | None], Clock]
) -> EventTable:
    """Return a table of events, checked.

    Args:
        columns: the columns.
        args: the columns of arguments by name.
        rows: the number of rows.
        clock_of: returns the clock of a provider id, or of the main provider for None.

    Raises:
        EncodeError: the format cannot represent something.
    """
    kinds = {kind: index for index, kind in enumerate(r.EVENT_CLASSES)}
    types = _strings(columns["type"], "type")
    if unknown := set(types.values) - set(kinds):
        raise EncodeError(f"{min(unknown)!r} is not an event type; the types are {', '.join(kinds)}", "type")
    kind = np.array([kinds[label] for label in types.values], np.int64)[types.codes]
    has_end = np.isin(kind, [kinds[name] for name, cls in r.EVENT_CLASSES.items() if "end" in cls.__struct_fields__])
    has_id = np.isin(kind, [kinds[name] for name, cls in r.EVENT_CLASSES.items() if "id" in cls.__struct_fields__])
    ticks, tail = np.empty(rows, np.uint64), np.zeros(rows, np.uint64)
    for provider, run in providers_of(columns, rows):
        clock = clock_of(provider)
        ticks[run] = ticks_of(columns, run, clock)
        if has_end[run].any():
            tail[run] = np.where(has_end[run], _end_ticks(columns, run, clock, ticks[run], has_end[run]), np.uint64(0))
    for name, has_value in (("id", has_id), ("end_ticks", has_end), ("duration", has_end)):
        if name in columns:
            _check_others_null(columns[name], has_value, types, name)
    if has_id.any():
        tail[has_id] = _present_only(_column(columns, "id", "counters, async events and flow events"), has_id, "id")
    check_count(args)
    arguments = {key: _argument_values(value, f"args[{key!r}]") for key, value in args.items()}
    for key in args:
        _check_text(key, "args")
    return EventTable(
        kind,
        ticks,
        _thread_column(columns),
        _strings(columns["name"], "name"),
        _strings(columns["category"], "category") if "category" in columns else Indexed([""], None),
        tail,
        _scopes(columns, kind == kinds["instant"]),
        {key: values for key, (values, _) in arguments.items()},
        {key: present for key, (_, present) in arguments.items() if not present.all()},
    )


def _column(columns: Mapping[str, Any], name: str, owners: str) -> Any:
    if name not in columns:
        raise EncodeError(f"the column is missing; {owners} need it", name)
    return columns[name]


def _present_only(column: Any, rows: Array, where: str) -> Array:
    """Return the values of some rows (bool) as uint64.

    Raises:
        EncodeError: one of them is null, negative or not an integer.
    """
    values, present = optional_unsigned(column, where)
    if not present[rows].all():
        raise EncodeError("is null for an event that needs it", where)
    return values[rows]


def _check_others_null(column: Any, rows: Array, types: Indexed, where: str) -> None:
    """Refuse values in rows (bool) of event types that have no such value."""
    _, present = optional_integers(column, where)
    others = np.flatnonzero(present & ~rows)
    if len(others):
        assert types.codes is not None
        label = types.values[int(types.codes[others[0]])]
        raise EncodeError(f"must be null for {label} events, as of row {int(others[0]):,}", where)


def _end_ticks(columns: Mapping[str, Any], run: slice, clock: Clock, ticks: Array, has_end: Array) -> Array:
    """Return the ends of complete events in ticks (uint64), from the columns `end_ticks` or `duration`.

    Args:
        columns: all columns.
        run: the rows.
        clock: the clock of these rows.
        ticks: their times in ticks.
        has_end: which of them are complete events (bool).
    """
    begin = clock.to_ns(ticks)[has_end]
    ends = np.zeros(len(ticks), np.uint64)
    durations = None
    if columns.get("duration") is not None:
        values, present = optional_integers(columns["duration"], "duration")
        if not present[run][has_end].all():
            raise EncodeError("is null for a complete event", "duration")
        durations = values[run][has_end]
    if "end_ticks" in columns:
        values, present = optional_unsigned(columns["end_ticks"], "end_ticks")
        if not present[run][has_end].all():
            raise EncodeError("is null for a complete event", "end_ticks")
        ends[has_end] = values[run][has_end]
        if durations is not None:
            _check_same(clock.to_ns(ends[has_end]) - begin, durations, clock, "duration")
        if (ends < ticks)[has_end].any():
            raise EncodeError(ENDS_EARLY, "end_ticks")
        return ends
    if durations is None:
        raise EncodeError("complete events need the column end_ticks or the column duration", "events")
    if len(durations) and int(durations.max()) > MAX_TIME:
        raise EncodeError(f"{int(durations.max())} ns does not fit in 63 bits", "duration")
    if len(durations) and int(durations.min()) < 0:
        raise EncodeError(ENDS_EARLY, "duration")
    end = begin + durations.astype(np.int64)
    if len(end) and int(end.min()) < 0:
        row = int(np.argmin(end))
        raise EncodeError(f"an event at {begin[row]} ns cannot last {durations[row]} ns", "duration")
    ends[has_end] = _to_ticks(end.astype(np.uint64), clock, "duration")
    return ends


def _scopes(columns: Mapping[str, Any], is_instant: Array) -> OptionalColumn:
    """Return the scopes of instants; all other events (not `is_instant`, bool) have none.

    Raises:
        EncodeError: a scope is neither a name nor a number, or an event of another type has one.
    """
    column = columns.get("scope", Categories(np.full(len(is_instant), -1, np.int32), []))
    if isinstance(column, Optional) and not column.present.any():
        column = Categories(np.full(len(is_instant), -1, np.int32), [])
    if not isinstance(column, Categories):
        raise EncodeError("is not a column of text", "scope")
    present = column.codes >= 0
    if (present & ~is_instant).any():
        raise EncodeError("must be null for events that are no instants", "scope")
    values = np.array([_number(text, "scope", Scope) for text in column.values] or [0], np.uint64)
    return OptionalColumn(values[column.codes], present)


def _strings(column: Any, where: str) -> Indexed:
    """Return a column of text without nulls; a reader has the null string for a slot that is not defined."""
    if not isinstance(column, Categories):
        raise EncodeError("is not a column of text", where)
    if len(column.codes) and int(column.codes.min()) < 0:
        raise EncodeError("has a null", where)
    strings = texts(column, len(column.codes), where)
    for text in strings.values:
        _check_text(text, where)
    return strings


def _check_text(text: str, where: str, limit: int = MAX_TEXT_BYTES) -> None:
    if (length := len(text_bytes(text, where))) > limit:
        raise EncodeError(f"{length:,} bytes of text are over the limit of {limit:,}", where)


def _argument_values(column: Any, where: str) -> tuple[Indexed | Array, Array]:
    """Return the values of an argument, and the rows that have it (bool)."""
    if isinstance(column, Categories):
        present = column.codes >= 0
        strings = texts((column.values or [""], np.maximum(column.codes, 0)), len(present), where)
        for text in strings.values:
            _check_text(text, where, MAX_COLUMN_TEXT)
        return strings, present
    values, present = column, np.ones(len(column), bool)
    if isinstance(column, Optional):
        values, present = column.values, column.present
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
        raise EncodeError("no argument type holds such a column", where)
    return values, present


def _thread_column(columns: Mapping[str, Any]) -> Indexed:
    """Return the threads of the columns `process` and `thread`."""
    processes, process = np.unique(unsigned(columns["process"], "process"), return_inverse=True)
    threads, thread = np.unique(unsigned(columns["thread"], "thread"), return_inverse=True)
    pairs, codes = np.unique(process.astype(np.int64) * len(threads) + thread, return_inverse=True)
    koids = zip(processes[pairs // len(threads)].tolist(), threads[pairs % len(threads)].tolist(), strict=True)
    return Indexed([Thread(*pair) for pair in koids], codes.astype(np.int64))


# ---- tables with few rows, as typed records


def table_records(
    name: str, columns: Mapping[str, Any], rows: int, clock_of: Callable[[int | None], Clock], order: Order
) -> list[tuple[int | None, list[bytes | memoryview]]]:
    """Encode the rows of a table as records with inline references.

    Args:
        name: the table, one of `WRITABLE_TABLES` but not `events`.
        columns: the columns.
        rows: the number of rows.
        clock_of: returns the clock of a provider id, or of the main provider for None.
        order: the byte order.

    Returns:
        For each run of rows with the same provider its id (None without such a column), and the records as buffers.

    Raises:
        EncodeError: the format cannot represent something.
    """
    lists = {key: value.tolist() for key, value in columns.items()}
    lists |= {key: [None] * rows for key in WRITABLE_TABLES[name].optional if key not in lists}
    runs = []
    for provider, run in providers_of(columns, rows):
        if "time" in WRITABLE_TABLES[name].optional:
            lists["ticks"][run] = ticks_of(columns, run, clock_of(provider)).tolist()
        record_of = _RECORD_OF[name]
        records = [record_of({key: values[row] for key, values in lists.items()}) for row in range(run.start, run.stop)]
        runs.append((provider, [buffer for record in records for buffer in encode_buffers(record, order)]))
    return runs


Row = dict[str, Any]


def _log(row: Row) -> Record:
    return r.Log(row["ticks"], Thread(row["process"], row["thread"]), _text_of(row, "message"))


def _object(row: Row) -> Record:
    name, process = _text_of(row, "name"), row["process"]
    if row["kind"] == OBJECT_KINDS[0]:
        args = () if process is None else (r.KoidArgument("process", process),)
        return r.KernelObject(_number_of(row, "type", ObjectType), row["id"], name, args)
    if row["kind"] != OBJECT_KINDS[1]:
        raise EncodeError(f"{row['kind']!r} is not one of {', '.join(OBJECT_KINDS)}", "kind")
    _check_null(row, "userspace objects", "type")
    return r.UserspaceObject(row["id"], Thread(process, None), name, ())


def _blob(row: Row) -> Record:
    name, payload = _text_of(row, "name"), row["payload"]
    if not isinstance(payload, bytes):
        raise EncodeError(f"{payload!r} is not bytes", "payload")
    if row["category"] is None:
        _check_null(row, "blobs without a category", "ticks", "process", "thread")
        return r.Blob(name, BlobType.DATA if row["type"] is None else _number_of(row, "type", BlobType), payload)
    _check_null(row, "blobs with a category", "type")
    if row["ticks"] is None:
        _check_null(row, "blobs without ticks", "process", "thread")
        return r.LargeBlobNoMetadata(row["category"], name, payload)
    return r.LargeBlob(row["category"], name, row["ticks"], Thread(row["process"], row["thread"]), (), payload)


def _scheduling(row: Row) -> Record:
    kind, cpu, ticks, incoming = row["type"], row["cpu"], row["ticks"], row["incoming_thread"]
    if kind == SchedulingType.LEGACY_CONTEXT_SWITCH.name.lower():
        _check_null(row, kind, "waker")
        outgoing = Thread(row["outgoing_process"], row["outgoing_thread"])
        state, priorities = (
            _number_of(row, "outgoing_state", ThreadState),
            (row["outgoing_priority"], row["incoming_priority"]),
        )
        return r.LegacyContextSwitch(
            cpu, state, *priorities, ticks, outgoing, Thread(row["incoming_process"], incoming)
        )
    if kind == SchedulingType.CONTEXT_SWITCH.name.lower():
        _check_null(row, kind, "outgoing_process", "incoming_process", "waker")
        weights = {"outgoing_weight": row["outgoing_priority"], "incoming_weight": row["incoming_priority"]}
        args = tuple(r.Int32Argument(name, weight) for name, weight in weights.items() if weight is not None)
        state = _number_of(row, "outgoing_state", ThreadState)
        return r.ContextSwitch(cpu, state, ticks, row["outgoing_thread"], incoming, args)
    if kind != SchedulingType.THREAD_WAKEUP.name.lower():
        raise EncodeError(f"{kind!r} is not one of {', '.join(one.name.lower() for one in SchedulingType)}", "type")
    others = ("outgoing_process", "outgoing_thread", "outgoing_state", "outgoing_priority", "incoming_process")
    _check_null(row, kind, *others)
    weight = () if row["incoming_priority"] is None else (r.Int32Argument("weight", row["incoming_priority"]),)
    waker = () if row["waker"] is None else (r.KoidArgument("waker", row["waker"]),)
    return r.ThreadWakeup(cpu, ticks, incoming, (*weight, *waker))


def _module(row: Row) -> Record:
    thread, build_id = Thread(row["process"], row["thread"] or 0), row["build_id"]
    if not isinstance(build_id, bytes):
        raise EncodeError(f"{build_id!r} is not bytes", "build_id")
    return r.ProfilerModule(row["module"], row["ticks"], thread, _text_of(row, "name"), build_id)


def _mmap(row: Row) -> Record:
    thread = Thread(row["process"], row["thread"] or 0)
    flags = DEFAULT_MMAP_FLAGS if row["flags"] is None else row["flags"]
    return r.ProfilerMmap(row["module"], flags, row["ticks"], thread, row["address"], row["size"], row["vaddr"])


_RECORD_OF: dict[str, Callable[[Row], Record]] = {
    "objects": _object,
    "logs": _log,
    "blobs": _blob,
    "scheduling": _scheduling,
    "modules": _module,
    "mmaps": _mmap,
}


def _text_of(row: Row, name: str) -> str:
    text = row[name]
    if not isinstance(text, str):
        raise EncodeError(f"{text!r} is not text", name)
    return text


def _number_of(row: Row, name: str, enumeration: type[IntEnum]) -> int:
    return _number(row[name], name, enumeration)


def _number(label: Any, name: str, enumeration: type[IntEnum]) -> int:
    """Return the number that a label stands for, see `fxtio.fxt.tables.labels`.

    Raises:
        EncodeError: it is not a name of the enumeration.
    """
    numbers = {member.name.lower(): member.value for member in enumeration}
    if not isinstance(label, str) or label not in numbers:
        raise EncodeError(f"{shown(label)} is not one of {', '.join(numbers)}", name)
    return numbers[label]


def check_defined(value: Any, enumeration: type[IntEnum], where: str) -> None:
    """Check a number whose values have names; what is no integer is left to the encoder of the record.

    Raises:
        EncodeError: the value has no name.
    """
    try:
        number = operator.index(value)
    except TypeError:
        return
    if number not in {member.value for member in enumeration}:
        known = ", ".join(f"{member.value} {member.name.lower()}" for member in enumeration)
        raise EncodeError(f"{shown(value)} is not one of {known}; `put` writes records with other values", where)


def _check_null(row: Row, owners: str, *names: str) -> None:
    """Refuse values that the rows of a kind do not have."""
    for name in names:
        if row[name] is not None:
            raise EncodeError(f"must be null for {owners}", name)
