"""The tables of a trace: for each a function from a batch to columns.

Times are raw ticks (uint64) and nanoseconds (int64); names are dictionary-encoded; a reference to a slot that is not
defined is null (strings) or 0 (koids).  `encode` has the inverse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.columns import Columns, Members, StreamColumn
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.enums import (
    ArgumentType,
    BlobType,
    EventType,
    MetadataType,
    ObjectType,
    ProviderEventId,
    SchedulingType,
    Scope,
    ThreadState,
    TraceInfoType,
)
from fxtio.fxt.frames import UNKNOWN
from fxtio.fxt.layout import MagicWord, RecordWord
from fxtio.fxt.reference_columns import StringColumn, ThreadColumn
from fxtio.fxt.state import KERNEL, Batch, times_of
from fxtio.table import Bytes, Categories, Column, Derived, GrowingTable, Optional, Table, joined

TableColumns = dict[str, Any]
"""Columns by name."""

Finish = Callable[[TableColumns, Batch], dict[str, Column | Derived]]
"""Makes the columns of a table of what its batches contributed; the batch is the last one."""

OBJECT_KINDS = ["kernel", "userspace"]
"""The values of `objects.kind`."""

_EVENT_TYPES: dict[type[Record], EventType] = {
    cls: EventType(cls.words[0].fields["event_type"].value) for cls in r.EVENT_CLASSES.values()
}
_EVENT_LABELS = [kind.name.lower() for kind in EventType]
_WITH_ID = tuple(number for cls, number in _EVENT_TYPES.items() if "id" in cls.__struct_fields__)
_ARGUMENT_LABELS = [kind.name.lower() for kind in ArgumentType]

_OBJECT_ARGUMENTS = (ArgumentType.POINTER, ArgumentType.KOID)
_UNKNOWN_ARGUMENT = -1
_BYTES_ARGUMENTS = (ArgumentType.BLOB, _UNKNOWN_ARGUMENT)


class _ClassArguments(NamedTuple):
    """The arguments of the records of a class in a batch: for each argument the number of its record, and columns.

    Attributes:
        all: all arguments.
        objects: pointers and koids.
        payloads: blobs, and arguments of unknown types.
    """

    all: tuple[Array, TableColumns]
    objects: tuple[Array, TableColumns]
    payloads: tuple[Array, TableColumns]


class BatchTables:
    """Makes the columns that one batch contributes to the tables.

    Args:
        batch: the batch.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self._args: dict[type[Record], _ClassArguments] = {}

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
    def event_classes(self) -> list[type[Record]]:
        """The classes of the events of the batch; without events, one of them."""
        return [cls for cls in self.batch.classes() if cls in _EVENT_TYPES] or [r.Instant]

    def events(self) -> TableColumns:
        """Return all events in the order of the file, for `finish_events`.

        Returns:
            Columns with a row for each event, and the column `has_scope` with a row for each instant.
        """
        parts = []
        for cls in self.event_classes:
            rows, columns = self.batch.columns(cls)
            parts.append((rows, self._event(cls, rows, columns)))
        has_scope = np.empty(0, bool)
        if r.Instant in self.event_classes:
            has_scope = self.batch.columns(r.Instant)[1]["scope"].present
        return {**in_order(parts), "has_scope": has_scope}

    def _event(self, cls: type[Record], rows: Array, columns: Columns) -> TableColumns:
        tail = columns.get("end", columns.get("id"))
        if cls is r.Instant:
            tail = columns["scope"].values
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

    def args(self, classes: Sequence[type[Record]]) -> TableColumns:
        """Return a row for each argument of the records of some classes, in the order of the file, for `finish_args`.

        Returns:
            Columns with a row for each argument; the column `counts` with a row for each record; `object` (codes of
            names) with a row for each pointer or koid; `payload` with a row for each blob or argument of unknown type.
        """
        parts = [(self.batch.arguments(cls), self._class_arguments(cls)) for cls in classes]
        counts = [(rows, {"counts": members.many.count.astype(np.uint8)}) for (rows, members), _ in parts]
        return in_order(counts) | in_order([part.all for _, part in parts]) | in_order(
            [part.objects for _, part in parts]
        ) | in_order([part.payloads for _, part in parts])  # fmt: skip

    def arguments_of(self, cls: type[Record]) -> tuple[Array, TableColumns]:
        """Return the arguments of the records of a class: the number of each one's record, and columns.

        The columns are `name`, `type` and `bits`; the bits of a text are its code in the strings of the batch.
        """
        return self._class_arguments(cls).all

    def _class_arguments(self, cls: type[Record]) -> _ClassArguments:
        """Return the columns that `args` joins, for the arguments of the records of one class."""
        if cls not in self._args:
            rows, members = self.batch.arguments(cls)
            owners = np.repeat(rows, members.many.count)
            name = np.full(len(owners), -1, np.int32)
            bits = np.zeros(len(owners), np.uint64)  # for a text, its code
            for kind, indices, columns in members.groups:
                if columns:
                    name[indices] = self.batch.string_codes(columns["name"], owners[indices])
                if kind == ArgumentType.STRING:
                    bits[indices] = self.batch.string_codes(columns["value"], owners[indices])
                elif "value" in columns and kind != ArgumentType.BLOB:
                    bits[indices] = _as_bits(columns["value"])
            self._args[cls] = _ClassArguments(
                (
                    owners,
                    {
                        "name": Categories(name, self.batch.strings.values),
                        "type": Categories(members.many.kind, _ARGUMENT_LABELS),
                        "bits": bits,
                    },
                ),
                self._objects(cls, owners, members),
                self._payloads(owners, members),
            )
        return self._args[cls]

    def _objects(self, cls: type[Record], owners: Array, members: Members) -> tuple[Array, TableColumns]:
        """Return the owners of pointer and koid arguments, and the codes of the names of the objects."""
        where: list[Array] = []
        names = [np.empty(0, np.int32)]
        for kind, indices, columns in members.groups:
            if kind in _OBJECT_ARGUMENTS:
                where.append(np.arange(len(owners))[indices])
                processes = self._processes(cls, members)[indices] if kind == ArgumentType.POINTER else repeat(KERNEL)
                keys = zip(processes, columns["value"].tolist(), strict=False)
                names.append(self.batch.object_names(keys, owners[indices]))
        order = np.argsort(np.concatenate([*where, np.empty(0, np.int64)]), kind="stable")
        indices = np.concatenate([*where, np.empty(0, np.int64)])[order]
        return owners[indices], {"object": np.concatenate(names)[order]}

    def _processes(self, cls: type[Record], members: Members) -> Array:
        """Return the process koid (int or None) of the record of each argument."""
        processes = np.full(len(members.many.count), None)
        if any(isinstance(column, ThreadColumn) for column in self.batch.columns(cls)[1].values()):
            processes[:] = self.batch.processes(cls)
        return np.repeat(processes, members.many.count)

    def _payloads(self, owners: Array, members: Members) -> tuple[Array, TableColumns]:
        """Return the owners and the contents of blob arguments, and of arguments of unknown type (all their bytes)."""
        contents: dict[int, bytes] = {}
        many = members.many
        for kind, indices, columns in members.groups:
            if kind in _BYTES_ARGUMENTS:
                whole = StreamColumn(self.batch.frame.block.raw, many.at[indices], many.size[indices] * 8)
                stream: StreamColumn = columns.get("value", whole)
                contents |= zip(np.arange(len(owners))[indices].tolist(), stream.to_bytes(), strict=True)
        numbers = sorted(contents)
        return owners[numbers], {"payload": Bytes(contents[number] for number in numbers)}

    def argument(self, cls: type[Record], name: str, kind: ArgumentType, dtype: Any) -> Optional:
        """Return the value of the argument with this name and type, for the records of a class that have it."""
        rows, members = self.batch.arguments(cls)
        args = self.arguments_of(cls)[1]
        values, present = np.zeros(len(rows), dtype), np.zeros(len(rows), bool)
        matches = args["name"].is_in(name) & (args["type"].codes == kind)
        owners = np.repeat(np.arange(len(rows)), members.many.count)[matches]
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

    def time(ticks: Array, at: Any) -> Array:
        return times_of(clocks, columns["clock"][at], ticks[at])

    def optional(values: Array, at: Any, *types_with_value: EventType) -> Optional:
        return Optional(values, np.isin(types[at], types_with_value))

    def scope() -> Categories:
        codes = np.full(len(types), -1, np.int32)
        rows = np.empty(0, np.int64)
        if columns["has_scope"].any():
            rows = np.flatnonzero(types == EventType.INSTANT)[columns["has_scope"]]
        values, codes[rows] = np.unique(tail[rows], return_inverse=True)
        names = {one.value: one.name.lower() for one in Scope}
        return Categories(codes, [names.get(value, str(value)) for value in values.tolist()])

    return {
        "offset": columns["offset"],
        "provider": columns["provider"],
        "type": columns["type"],
        "ticks": ticks,
        "time": Derived.by_row(lambda at: time(ticks, at)),
        "process": Derived.by_row(lambda at: koids[:, 0].take(columns["thread"][at])),
        "thread": Derived.by_row(lambda at: koids[:, 1].take(columns["thread"][at])),
        "category": columns["category"],
        "name": columns["name"],
        "end_ticks": Derived.by_row(lambda at: optional(tail[at], at, EventType.DURATION_COMPLETE)),
        "duration": Derived.by_row(
            lambda at: optional(time(tail, at) - time(ticks, at), at, EventType.DURATION_COMPLETE)
        ),
        "id": Derived.by_row(lambda at: optional(tail[at], at, *_WITH_ID)),
        "scope": Derived(scope),
    }


def finish_args(owner: str) -> Finish:
    """Return the function that makes a table of arguments of what `BatchTables.args` returns.

    Args:
        owner: the name of the column with the row of the record that has the argument.
    """

    def finish(columns: TableColumns, batch: Batch) -> dict[str, Column | Derived]:
        counts, bits, types = columns["counts"], columns["bits"], columns["type"].codes

        def text(at: Any) -> Column:
            codes = np.where(types[at] == ArgumentType.STRING, bits[at].view(np.int64), -1).astype(np.int32)
            return Categories(codes, batch.strings.values)

        def object_name() -> Column:
            codes = np.full(len(types), -1, np.int32)
            if len(columns["object"]):
                codes[np.isin(types, _OBJECT_ARGUMENTS)] = columns["object"]
            return Categories(codes, batch.strings.values)

        def payload() -> Column:
            payloads = Bytes([b""]) * len(types)
            if columns["payload"]:
                rows = np.flatnonzero(np.isin(types, _BYTES_ARGUMENTS))
                for row, content in zip(rows.tolist(), columns["payload"], strict=True):
                    payloads[row] = content
            return Bytes(payloads)

        return {
            owner: Derived(lambda: np.repeat(np.arange(len(counts)), counts)),
            "name": columns["name"],
            "type": columns["type"],
            "bits": Derived.by_row(lambda at: np.where(types[at] == ArgumentType.STRING, np.uint64(0), bits[at])),
            "text": Derived.by_row(text),
            "object_name": Derived(object_name),
            "payload": Derived(payload),
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


def _providers(tables: BatchTables) -> TableColumns:
    infos, info = tables.batch.columns(r.ProviderInfo)
    sections, section = tables.batch.columns(r.ProviderSection)
    names = tables.texts(info["name"])
    parts = (
        (infos, info, MetadataType.PROVIDER_INFO, names),
        (
            sections,
            section,
            MetadataType.PROVIDER_SECTION,
            Categories(np.full(len(sections), -1, np.int32), names.values),
        ),
    )
    return in_order([
        (
            rows,
            {
                "offset": tables.batch.frame.offsets[rows],
                "provider": columns["provider_id"],
                "type": labels(np.full(len(rows), kind), MetadataType),
                "name": name,
            },
        )
        for rows, columns, kind, name in parts
    ])  # fmt: skip


def _provider_events(tables: BatchTables) -> TableColumns:
    rows, columns = tables.batch.columns(r.ProviderEvent)
    return {
        "offset": tables.batch.frame.offsets[rows],
        "provider": columns["provider_id"],
        "type": labels(columns["event"], ProviderEventId),
    }


def _trace_infos(tables: BatchTables) -> TableColumns:
    magic, _ = tables.batch.columns(r.Magic)
    others, columns = tables.batch.columns(r.TraceInfo)
    number = np.full(len(magic), MagicWord.fields["magic"].value, np.uint64)
    parts = (
        (magic, np.full(len(magic), TraceInfoType.MAGIC_NUMBER), number),
        (others, columns["info_type"], columns["data"].astype(np.uint64)),
    )
    offsets = tables.batch.frame.offsets
    return in_order(
        [
            (rows, {"offset": offsets[rows], "type": labels(kind, TraceInfoType), "data": data})
            for rows, kind, data in parts
        ]
    )


def _initializations(tables: BatchTables) -> TableColumns:
    rows, columns = tables.batch.columns(r.Initialization)
    optional = {name: Optional(columns[name].values, columns[name].present) for name in ("base_ticks", "wall_clock")}
    return {**tables.common(rows), "ticks_per_second": columns["ticks_per_second"], **optional}


def _unknown_records(tables: BatchTables) -> TableColumns:
    frame = tables.batch.frame
    rows = np.flatnonzero(frame.kind == UNKNOWN)
    payload = StreamColumn(frame.block.raw, frame.at[rows], frame.size[rows] * 8)
    return {
        **tables.common(rows),
        "type": RecordWord.fields["type"].get(frame.block.words[frame.at[rows]]).astype(np.uint8),
        "payload": Bytes(payload.to_bytes()),
    }


def _events(tables: BatchTables) -> TableColumns:
    return tables.events()


def _args(tables: BatchTables) -> TableColumns:
    return tables.args(tables.event_classes)


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
    kernel["process"] = tables.argument(r.KernelObject, "process", ArgumentType.KOID, np.uint64)
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
    return tables.args((r.KernelObject, r.UserspaceObject))


_BLOBS = (r.Blob, r.LargeBlob, r.LargeBlobNoMetadata)


def _blobs(tables: BatchTables) -> TableColumns:
    parts = []
    for cls in _BLOBS:
        rows, columns = tables.batch.columns(cls)
        table = tables.common(rows) | _blob_place(tables, rows, columns)
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


def _blob_place(tables: BatchTables, rows: Array, columns: Columns) -> TableColumns:
    """Return the columns for the time and the thread of blobs, which only large blobs with metadata have."""
    none = np.zeros(len(rows), np.uint64)
    place: TableColumns = {"ticks": none, "time": none.view(np.int64), "process": none, "thread": none}
    present = np.full(len(rows), "timestamp" in columns)
    if "timestamp" in columns:
        place |= tables.timed(columns["timestamp"], rows)
        place["process"], place["thread"] = tables.koids(columns["thread"], rows)
    return {name: Optional(values, present) for name, values in place.items()}


def _blob_args(tables: BatchTables) -> TableColumns:
    return tables.args(_BLOBS)


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
        tables.argument(r.ContextSwitch, name, ArgumentType.INT32, np.int32)
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
        "incoming_priority": tables.argument(r.ThreadWakeup, "weight", ArgumentType.INT32, np.int32),
        "waker": tables.argument(r.ThreadWakeup, "waker", ArgumentType.KOID, np.uint64),
    }


def _scheduling_args(tables: BatchTables) -> TableColumns:
    return tables.args((r.LegacyContextSwitch, r.ContextSwitch, r.ThreadWakeup))


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
    return _profiler(tables, rows, columns) | {"flags": columns["flags"], "frames": columns["frames"].count}


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


OWNERS = {"args": "event", "object_args": "object", "blob_args": "blob", "scheduling_args": "scheduling"}
"""The tables of arguments, which need the names of objects; and the column with the row of an argument's record."""

TABLES: dict[str, tuple[Callable[[BatchTables], TableColumns], Finish | None]] = {
    "trace_infos": (_trace_infos, None),
    "providers": (_providers, None),
    "provider_events": (_provider_events, None),
    "initializations": (_initializations, None),
    "events": (_events, finish_events),
    "args": (_args, finish_args(OWNERS["args"])),
    "strings": (_strings, None),
    "threads": (_threads, None),
    "objects": (_objects, None),
    "object_args": (_object_args, finish_args(OWNERS["object_args"])),
    "logs": (_logs, None),
    "blobs": (_blobs, None),
    "blob_args": (_blob_args, finish_args(OWNERS["blob_args"])),
    "scheduling": (_scheduling, None),
    "scheduling_args": (_scheduling_args, finish_args(OWNERS["scheduling_args"])),
    "modules": (_modules, None),
    "mmaps": (_mmaps, None),
    "backtraces": (_backtraces, None),
    "frames": (_frames, _finish_frames),
    "unknown_records": (_unknown_records, None),
}
"""All tables: what a batch contributes, and the function that makes the columns of it (None if they are that)."""


class BatchCollector:
    """Joins what many batches contribute to tables.

    Args:
        names: the names of the tables.
        progress: returns the part of the trace that was read (0 to 1, 0 unknown); the final size is estimated from it,
            so that columns need not be copied as they grow.
    """

    def __init__(self, names: tuple[str, ...], progress: Callable[[], float] = lambda: 0.0) -> None:
        self._tables = {name: GrowingTable() for name in names}
        self._progress = progress

    def add(self, tables: BatchTables) -> None:
        """Append the next batch."""
        share = self._progress()
        for name, table in self._tables.items():
            table.append(TABLES[name][0](tables), share)

    def tables(self, last: Batch) -> dict[str, Table]:
        """Return the tables.

        Args:
            last: the batch that was added last; all codes refer to its strings and threads.
        """
        tables = {}
        for name, table in self._tables.items():
            finish = TABLES[name][1]
            whole = table.columns()
            tables[name] = Table(finish(whole, last) if finish else whole)
        return tables
