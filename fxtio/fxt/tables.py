"""The tables of a trace: for each a function from a batch to columns.

Times are raw ticks (uint64) and nanoseconds (int64); names are dictionary-encoded; a reference to a slot that is not
defined is null (strings) or 0 (koids).  `encode` has the inverse.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from fxtio.codec.columns import Columns, ManyColumn, Members, StreamColumn
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.enums import ArgumentType, BlobType, EventType, ObjectType, SchedulingType, ThreadState
from fxtio.fxt.reference_columns import StringColumn, ThreadColumn
from fxtio.fxt.state import Batch, times_of
from fxtio.table import Bytes, Categories, Column, Derived, Growing, Optional, Table, joined

Array = np.ndarray[Any, Any]
TableColumns = dict[str, Any]
"""Columns by name."""

Finish = Callable[[TableColumns, Batch], dict[str, Column | Derived]]
"""Makes the columns of a table of what its batches contributed; the batch is the last one."""

Arguments = list[tuple[Array, ManyColumn]]
"""The numbers of records in a batch and their arguments, a pair for each record class."""

OBJECT_KINDS = ["kernel", "userspace"]
"""The values of `objects.kind`."""

_EVENT_TYPES: dict[type[Record], EventType] = {
    cls: EventType(cls.words[0].fields["event_type"].value) for cls in r.EVENT_CLASSES.values()
}
_EVENT_LABELS = [kind.name.lower() for kind in EventType]
_WITH_ID = tuple(number for cls, number in _EVENT_TYPES.items() if "id" in cls.__struct_fields__)
_ARGUMENT_LABELS = [kind.name.lower() for kind in ArgumentType]


class BatchTables:
    """Makes the columns that one batch contributes to the tables.

    Args:
        batch: the batch.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def common(self, rows: Array) -> TableColumns:
        """Return the columns that all tables of records have."""
        return {"offset": self.batch.frame.offsets[rows], "provider": self.batch.provider_ids(rows)}

    def timed(self, ticks: Array, rows: Array) -> TableColumns:
        """Return the columns for a time."""
        return {"ticks": ticks, "time": self.batch.times(ticks, rows)}

    def names(self, column: StringColumn, rows: Array) -> Categories:
        """Return a column of string references as text."""
        return Categories(self.batch.string_codes(column, rows), self.batch.strings.values)

    def koids(self, column: ThreadColumn, rows: Array) -> tuple[Array, Array]:
        """Return the process and thread koids of a column of thread references."""
        codes = self.batch.thread_codes(column, rows)
        koids = self.batch.threads.koids()
        return koids[:, 0].take(codes), koids[:, 1].take(codes)

    def texts(self, stream: StreamColumn) -> Categories:
        """Return a column of byte streams as text."""
        return Categories(self.batch.strings.codes(stream), self.batch.strings.values)

    @cached_property
    def events(self) -> tuple[TableColumns, Arguments]:
        """All events in the order of the file, for `finish_events`, and their arguments."""
        parts: list[tuple[Array, TableColumns]] = []
        arguments: Arguments = []
        present = [cls for cls in self.batch.classes() if cls in _EVENT_TYPES]
        for cls in present or [r.Instant]:  # without events, the columns are those of no instants
            rows, columns = self.batch.columns(cls)
            parts.append((rows, self._event(cls, rows, columns)))
            arguments.append((rows, columns["args"]))
        return in_order(parts), arguments

    def _event(self, cls: type[Record], rows: Array, columns: Columns) -> TableColumns:
        tail = columns.get("end", columns.get("id"))
        return {
            **self.common(rows),
            "type": Categories(np.broadcast_to(np.int8(_EVENT_TYPES[cls]), len(rows)), _EVENT_LABELS),
            "ticks": columns["timestamp"],
            "clock": self.batch.clock_codes(columns["timestamp"], rows),
            "thread": self.batch.thread_codes(columns["thread"], rows),
            "category": self.names(columns["category"], rows),
            "name": self.names(columns["name"], rows),
            "tail": np.broadcast_to(np.uint64(0), len(rows)) if tail is None else tail,
        }

    def args(self, arguments: Arguments) -> TableColumns:
        """Return a row for each argument, in the order of the file, for `finish_args`.

        Args:
            arguments: the numbers of the records in the batch, and their arguments.

        Returns:
            Columns with a row for each argument, and the column `counts` with a row for each record.
        """
        counts, parts = [], []
        for rows, column in arguments:
            members = self.batch.arguments(rows, column)
            counts.append((rows, {"counts": members.many.count.astype(np.uint8)}))
            owners = np.repeat(rows, members.many.count)
            parts.append((owners, self._args(owners, members)))
        return in_order(counts) | in_order(parts)

    def _args(self, owners: Array, members: Members) -> TableColumns:
        name = np.full(len(owners), -1, np.int32)
        bits = np.zeros(len(owners), np.uint64)  # for a text, its code
        for kind, indices, columns in members.groups:
            if columns:
                name[indices] = self.batch.string_codes(columns["name"], owners[indices])
            if kind == ArgumentType.STRING:
                bits[indices] = self.batch.string_codes(columns["value"], owners[indices])
            elif "value" in columns and kind != ArgumentType.BLOB:
                bits[indices] = _as_bits(columns["value"])
        return {
            "name": Categories(name, self.batch.strings.values),
            "type": Categories(members.many.kind, _ARGUMENT_LABELS),
            "bits": bits,
        }

    def argument(self, rows: Array, column: ManyColumn, name: str, kind: ArgumentType, dtype: Any) -> Optional:
        """Return the value of the argument with this name and type, for the rows that have it."""
        args = self.args([(rows, column)])
        values, present = np.zeros(len(rows), dtype), np.zeros(len(rows), bool)
        matches = args["name"].is_in(name) & (args["type"].codes == kind)
        owners = np.repeat(np.arange(len(rows)), args["counts"])[matches]
        values[owners] = args["bits"][matches].astype(dtype)
        present[owners] = True
        return Optional(values, present)


def _as_bits(values: Array) -> Array:
    """Return numbers as the 64 bits that hold them."""
    if values.dtype == np.float64:
        return values.view(np.uint64)
    return values.astype(np.int64).view(np.uint64) if values.dtype.kind == "i" else values.astype(np.uint64)


def finish_events(columns: TableColumns, batch: Batch) -> dict[str, Column | Derived]:
    """Make the table of events of what `BatchTables.events` returns; columns that follow from others are derived."""
    types, ticks, tail = columns["type"].codes, columns["ticks"], columns["tail"]
    clocks, koids = batch.reading.clocks, batch.threads.koids()

    def time(ticks: Array) -> Array:
        return times_of(clocks, columns["clock"], ticks)

    def has_type(*types_with_tail: EventType) -> Array:
        return np.isin(types, types_with_tail)

    return {
        "offset": columns["offset"],
        "provider": columns["provider"],
        "type": columns["type"],
        "ticks": ticks,
        "time": Derived(lambda: time(ticks)),
        "process": Derived(lambda: koids[:, 0].take(columns["thread"])),
        "thread": Derived(lambda: koids[:, 1].take(columns["thread"])),
        "category": columns["category"],
        "name": columns["name"],
        "end_ticks": Derived(lambda: Optional(tail, has_type(EventType.DURATION_COMPLETE))),
        "duration": Derived(lambda: Optional(time(tail) - time(ticks), has_type(EventType.DURATION_COMPLETE))),
        "id": Derived(lambda: Optional(tail, has_type(*_WITH_ID))),
    }


def finish_args(owner: str) -> Finish:
    """Return the function that makes a table of arguments of what `BatchTables.args` returns.

    Args:
        owner: the name of the column with the row of the record that has the argument.
    """

    def finish(columns: TableColumns, batch: Batch) -> dict[str, Column | Derived]:
        counts, bits, types = columns["counts"], columns["bits"], columns["type"].codes

        def text() -> Column:
            codes = np.where(types == ArgumentType.STRING, bits.view(np.int64), -1).astype(np.int32)
            return Categories(codes, batch.strings.values)

        return {
            owner: Derived(lambda: np.repeat(np.arange(len(counts)), counts)),
            "name": columns["name"],
            "type": columns["type"],
            "bits": Derived(lambda: np.where(types == ArgumentType.STRING, np.uint64(0), bits)),
            "text": Derived(text),
        }

    return finish


def in_order(parts: list[tuple[Array, TableColumns]]) -> TableColumns:
    """Join the parts of a table in the order of the records' numbers."""
    if len(parts) <= 1:
        return parts[0][1] if parts else {}
    order = np.argsort(np.concatenate([rows for rows, _ in parts]), kind="stable")
    return {name: _take(joined([columns[name] for _, columns in parts]), order) for name in parts[0][1]}


def _take(column: Column, rows: Array) -> Column:
    return column[rows] if isinstance(column, np.ndarray) else column.take(rows)


# ---- the tables


def _events(tables: BatchTables) -> TableColumns:
    return tables.events[0]


def _args(tables: BatchTables) -> TableColumns:
    return tables.args(tables.events[1])


def _strings(tables: BatchTables) -> TableColumns:
    rows, columns = tables.batch.columns(r.String)
    text = tables.texts(columns["text"])
    return {**tables.common(rows), "index": columns["index"], "text": text}


def _threads(tables: BatchTables) -> TableColumns:
    rows, columns = tables.batch.columns(r.ThreadRecord)
    return {**tables.common(rows), **columns}


def _logs(tables: BatchTables) -> TableColumns:
    rows, columns = tables.batch.columns(r.Log)
    table = tables.common(rows) | tables.timed(columns["timestamp"], rows)
    table["process"], table["thread"] = tables.koids(columns["thread"], rows)
    table["message"] = tables.texts(columns["message"])
    return table


def _objects(tables: BatchTables) -> TableColumns:
    rows, columns = tables.batch.columns(r.KernelObject)
    kernel = tables.common(rows)
    kernel["kind"] = Categories(np.zeros(len(rows), np.int32), OBJECT_KINDS)
    kernel["type"] = labels(columns["object_type"], ObjectType)
    kernel["id"] = columns["koid"]
    kernel["name"] = tables.names(columns["name"], rows)
    kernel["process"] = tables.argument(rows, columns["args"], "process", ArgumentType.KOID, np.uint64)
    users, columns = tables.batch.columns(r.UserspaceObject)
    user = tables.common(users)
    user["kind"] = Categories(np.ones(len(users), np.int32), OBJECT_KINDS)
    user["type"] = Categories(np.full(len(users), -1, np.int32), kernel["type"].values)
    user["id"] = columns["pointer"]
    user["name"] = tables.names(columns["name"], users)
    process = tables.koids(columns["process"], users)[0]
    user["process"] = Optional(process, np.ones(len(users), bool))
    return in_order([(rows, kernel), (users, user)])


def _object_args(tables: BatchTables) -> TableColumns:
    owners = [tables.batch.columns(cls) for cls in (r.KernelObject, r.UserspaceObject)]
    return tables.args([(rows, columns["args"]) for rows, columns in owners])


def _blobs(tables: BatchTables) -> TableColumns:
    parts = []
    for cls in (r.Blob, r.LargeBlob, r.LargeBlobNoMetadata):
        rows, columns = tables.batch.columns(cls)
        table = tables.common(rows)
        null = np.full(len(rows), -1, np.int32)
        strings = tables.batch.strings.values
        has_category = "category" in columns
        table["category"] = tables.names(columns["category"], rows) if has_category else Categories(null, strings)
        table["name"] = tables.names(columns["name"], rows)
        table["type"] = labels(columns.get("blob_type", null), BlobType)
        table["size"] = columns["payload"].length
        table["payload"] = Bytes(columns["payload"].to_bytes())
        parts.append((rows, table))
    return in_order(parts)


def _scheduling(tables: BatchTables) -> TableColumns:
    functions: dict[type[Record], Callable[[BatchTables, Array, Any], TableColumns]] = {
        r.LegacyContextSwitch: _legacy_switch,
        r.ContextSwitch: _switch,
        r.ThreadWakeup: _wakeup,
    }
    parts = []
    for cls, columns_of_class in functions.items():
        rows, columns = tables.batch.columns(cls)
        table = tables.common(rows)
        code = cls.words[0].fields["scheduling_type"].value
        table["type"] = labels(np.full(len(rows), code), SchedulingType)
        table |= tables.timed(columns["timestamp"], rows)
        table["cpu"] = columns["cpu"].astype(np.uint16)
        parts.append((rows, table | columns_of_class(tables, rows, columns)))
    return in_order(parts)


def _legacy_switch(tables: BatchTables, rows: Array, columns: Any) -> TableColumns:
    present = np.ones(len(rows), bool)
    out_process, out_thread = tables.koids(columns["outgoing"], rows)
    in_process, in_thread = tables.koids(columns["incoming"], rows)
    return {
        "outgoing_process": Optional(out_process, present),
        "outgoing_thread": Optional(out_thread, present),
        "incoming_process": Optional(in_process, present),
        "incoming_thread": in_thread,
        "outgoing_state": labels(columns["outgoing_state"], ThreadState),
        "outgoing_priority": Optional(columns["outgoing_priority"].astype(np.int32), present),
        "incoming_priority": Optional(columns["incoming_priority"].astype(np.int32), present),
        "waker": Optional(np.zeros(len(rows), np.uint64), ~present),
    }


def _switch(tables: BatchTables, rows: Array, columns: Any) -> TableColumns:
    absent = np.zeros(len(rows), bool)
    null = Optional(np.zeros(len(rows), np.uint64), absent)
    weights = [
        tables.argument(rows, columns["args"], name, ArgumentType.INT32, np.int32)
        for name in ("outgoing_weight", "incoming_weight")
    ]
    return {
        "outgoing_process": null,
        "outgoing_thread": Optional(columns["outgoing"], ~absent),
        "incoming_process": null,
        "incoming_thread": columns["incoming"],
        "outgoing_state": labels(columns["outgoing_state"], ThreadState),
        "outgoing_priority": weights[0],
        "incoming_priority": weights[1],
        "waker": null,
    }


def _wakeup(tables: BatchTables, rows: Array, columns: Any) -> TableColumns:
    null = Optional(np.zeros(len(rows), np.uint64), np.zeros(len(rows), bool))
    return {
        "outgoing_process": null,
        "outgoing_thread": null,
        "incoming_process": null,
        "incoming_thread": columns["waking"],
        "outgoing_state": labels(np.full(len(rows), -1), ThreadState),
        "outgoing_priority": Optional(null.values.astype(np.int32), null.present),
        "incoming_priority": tables.argument(rows, columns["args"], "weight", ArgumentType.INT32, np.int32),
        "waker": tables.argument(rows, columns["args"], "waker", ArgumentType.KOID, np.uint64),
    }


def _scheduling_args(tables: BatchTables) -> TableColumns:
    with_args = [tables.batch.columns(cls) for cls in (r.ContextSwitch, r.ThreadWakeup)]
    legacy, _ = tables.batch.columns(r.LegacyContextSwitch)
    empty = np.empty(0, np.int64)
    none = ManyColumn(np.zeros(len(legacy), np.int64), empty, empty, empty.astype(np.int8), empty)
    owners = [(rows, columns["args"]) for rows, columns in with_args]
    return tables.args([*owners, (legacy, none)])


def _modules(tables: BatchTables) -> TableColumns:
    rows, columns = tables.batch.columns(r.ProfilerModule)
    table = _profiler(tables, rows, columns)
    table["name"] = tables.texts(columns["name"])
    table["build_id"] = Bytes(columns["build_id"].to_bytes())
    return table


def _mmaps(tables: BatchTables) -> TableColumns:
    rows, columns = tables.batch.columns(r.ProfilerMmap)
    table = _profiler(tables, rows, columns)
    return table | {
        "flags": columns["flags"],
        "address": columns["start"],
        "size": columns["range"],
        "vaddr": columns["vaddr"],
    }


def _backtraces(tables: BatchTables) -> TableColumns:
    rows, columns = tables.batch.columns(r.ProfilerBacktrace)
    return _profiler(tables, rows, columns) | {"frames": columns["frames"].count}


def _frames(tables: BatchTables) -> TableColumns:
    frames = tables.batch.columns(r.ProfilerBacktrace)[1]["frames"]
    begins = np.cumsum(frames.count) - frames.count
    depth = np.arange(int(frames.count.sum())) - np.repeat(begins, frames.count)
    return {
        "counts": frames.count,
        "depth": depth,
        "address": frames.words[np.repeat(frames.at, frames.count) + depth],
    }


def _finish_frames(columns: TableColumns, batch: Batch) -> dict[str, Column | Derived]:
    counts = columns.pop("counts")
    return {"backtrace": Derived(lambda: np.repeat(np.arange(len(counts)), counts)), **columns}


def _profiler(tables: BatchTables, rows: Array, columns: Any) -> TableColumns:
    table = tables.common(rows) | tables.timed(columns["timestamp"], rows)
    table["process"], table["thread"] = tables.koids(columns["thread"], rows)
    if "module" in columns:
        table["module"] = columns["module"]
    return table


def labels(values: Array, enumeration: Any) -> Categories:
    """Return numbers as the names of an enumeration; one without a name is shown as a number, -1 is null."""
    names = {member.value: member.name.lower() for member in enumeration}
    return Categories(values.astype(np.int32), [names.get(value, str(value)) for value in range(256)])


TABLES: dict[str, tuple[Callable[[BatchTables], TableColumns], Finish | None]] = {
    "events": (_events, finish_events),
    "args": (_args, finish_args("event")),
    "strings": (_strings, None),
    "threads": (_threads, None),
    "objects": (_objects, None),
    "object_args": (_object_args, finish_args("object")),
    "logs": (_logs, None),
    "blobs": (_blobs, None),
    "scheduling": (_scheduling, None),
    "scheduling_args": (_scheduling_args, finish_args("scheduling")),
    "modules": (_modules, None),
    "mmaps": (_mmaps, None),
    "backtraces": (_backtraces, None),
    "frames": (_frames, _finish_frames),
}
"""All tables: what a batch contributes, and the function that makes the columns of it (None if they are that)."""


class TableBuilder:
    """Joins what many batches contribute to tables.

    Args:
        names: the names of the tables.
        progress: returns the part of the trace that was read (0 to 1, 0 unknown); the final size is estimated from it,
            so that columns need not be copied as they grow.
    """

    def __init__(self, names: tuple[str, ...], progress: Callable[[], float] = lambda: 0.0) -> None:
        self._columns: dict[str, dict[str, Growing]] = {name: {} for name in names}
        self._progress = progress

    def add(self, tables: BatchTables) -> None:
        """Append the next batch."""
        share = self._progress()
        for name, columns in self._columns.items():
            for column, values in TABLES[name][0](tables).items():
                columns.setdefault(column, Growing()).append(values, share)

    def tables(self, last: Batch) -> dict[str, Table]:
        """Return the tables.

        Args:
            last: the batch that was added last; all codes refer to its strings and threads.
        """
        tables = {}
        for name, columns in self._columns.items():
            finish = TABLES[name][1]
            whole = {column: growing.column() for column, growing in columns.items()}
            tables[name] = Table(finish(whole, last) if finish else whole)
        return tables
