"""The tables of a trace as declarations: their columns, and the fields of records that these come from.

Times are raw ticks (uint64) and nanoseconds (int64); names are dictionary-encoded; a reference to a slot that is not
defined is null (strings) or 0 (koids).  `batch_tables` makes columns of batches, and `encode` is the inverse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fxtio.arrays import Array, ranges
from fxtio.codec.columns import StreamColumn
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.batch_tables import (
    ARGUMENT_LABELS,
    EVENT_LABELS,
    BatchTables,
    Finish,
    TableColumns,
    finish_args,
    finish_events,
    in_order,
)
from fxtio.fxt.enums import (
    BlobType,
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
from fxtio.fxt.reference_columns import ThreadColumn
from fxtio.fxt.state import Batch
from fxtio.schema import (
    ADDED,
    BYTES,
    OPTIONAL,
    REQUIRED,
    TEXT,
    ColumnSpec,
    TableSpec,
    writable_tables,
)
from fxtio.table import Bytes, Column, Derived, GrowingTable, Table

OBJECT_KINDS = ["kernel", "userspace"]
"""The values of `objects.kind`."""

DEFAULT_MMAP_FLAGS = 5
"""Mapped to be read and executed."""


class Same(NamedTuple):
    """A value that all records of a class have in a column: a number, or the index of a label."""

    value: int


class Member(NamedTuple):
    """An argument of a record that is a column.

    Attributes:
        name: its name.
        cls: its class; an argument of another type stays out of the column.
    """

    name: str
    cls: type[Any]


class Source(NamedTuple):
    """A class whose records are rows of a table.

    Attributes:
        cls: the class.
        origins: for each column the field of the record, where the name is another one; `field.part` for a part of a
            reference to a thread, or an attribute of the field's column.  A column without a field is null.
        title: the records as messages call them.
        given: the columns that a row to be written must have to be of this class, among several that it might be.
        defaults: values of optional columns.
    """

    cls: type[Record]
    origins: Mapping[str, str | Same | Member] = MappingProxyType({})
    title: str = ""
    given: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = MappingProxyType({})

    def origin(self, column: str) -> str | Same | Member | None:
        """Return where a column comes from, None if the records do not have it."""
        return self.origins.get(column, column if column in self.cls.__struct_fields__ else None)


class FxtTable(NamedTuple):
    """A table.

    Attributes:
        spec: its columns.
        sources: the classes of its rows; empty for tables with functions of their own.
        contribute: returns what a batch contributes.
        finish: makes the columns of that, None if it is the columns.
    """

    spec: TableSpec
    sources: tuple[Source, ...]
    contribute: Callable[[BatchTables], TableColumns]
    finish: Finish | None = None


def _of_records(meaning: str, columns: Mapping[str, ColumnSpec], *sources: Source) -> FxtTable:
    """Declare a table whose rows are the records of some classes."""
    spec = TableSpec(meaning, columns)
    return FxtTable(spec, sources, lambda tables: in_order([_source_columns(tables, spec, one) for one in sources]))


def _source_columns(tables: BatchTables, spec: TableSpec, source: Source) -> tuple[Array, TableColumns]:
    """Return the numbers of the records of a class, and their columns."""
    rows, columns = tables.batch.columns(source.cls)
    koids: dict[str, tuple[Array, Array]] = {}

    def values_of(name: str) -> Any:
        origin = source.origin("ticks" if name == "time" else name)
        if isinstance(origin, Same):
            return np.full(len(rows), origin.value)
        if not isinstance(origin, str):
            return None
        field, _, part = origin.partition(".")
        values = columns[field]
        if isinstance(values, ThreadColumn):
            if field not in koids:
                koids[field] = tables.koids(values, rows)
            return koids[field][part == "thread"]
        values = getattr(values, part) if part else values
        return tables.batch.times(values, rows) if name == "time" else values

    result: TableColumns = {}
    for name, column in spec.read.items():
        origin = source.origin(name)
        if name == "offset":
            result[name] = tables.batch.frame.offsets[rows]
        elif name == "provider" and origin is None:
            result[name] = tables.batch.provider_ids(rows)
        elif isinstance(origin, Member):
            kind = origin.cls.words[0].fields["type"].value
            result[name] = tables.argument(source.cls, origin.name, kind, column.numbers)
        else:
            result[name] = tables.typed(values_of(name), column, rows)
    return rows, result


# ---- the tables

_COMMON = {
    "offset": ColumnSpec("int64", "the place of the record in the file, in bytes"),
    "provider": ColumnSpec("uint32", "the id of the provider", OPTIONAL),
}
_TIMED = {
    "ticks": ColumnSpec("uint64", "the time in ticks, as in the file", OPTIONAL),
    "time": ColumnSpec("int64", "the time in nanoseconds, by the clock that the provider had there", OPTIONAL),
}
_THREAD = {
    "process": ColumnSpec("uint64", "the koid of the process", REQUIRED),
    "thread": ColumnSpec("uint64", "the koid of the thread", REQUIRED),
}
_PROFILER = {**_COMMON, **_TIMED, **_THREAD, "thread": _THREAD["thread"]._replace(written=OPTIONAL)}
_MODULE = {"module": ColumnSpec("uint16", "the number of the module", REQUIRED)}

_TIME = {"ticks": "timestamp"}
_ON_THREAD = {**_TIME, "process": "thread.process", "thread": "thread.thread"}

_EVENTS = TableSpec(
    "Events, in the order of the file",
    {
        **_COMMON,
        "type": ColumnSpec(TEXT, "the type of event", REQUIRED, EVENT_LABELS),
        **_TIMED,
        **_THREAD,
        "category": ColumnSpec(TEXT, "the category", OPTIONAL),
        "name": ColumnSpec(TEXT, "the name", REQUIRED),
        "end_ticks": ColumnSpec("uint64?", "the end of a complete event, in ticks", OPTIONAL),
        "duration": ColumnSpec("int64?", "the length of a complete event, in nanoseconds", OPTIONAL),
        "id": ColumnSpec("uint64?", "the id of a counter, an async event or a flow", OPTIONAL),
        "scope": ColumnSpec(TEXT, "the scope of an instant of an older producer", OPTIONAL, Scope),
        "args": ColumnSpec("columns", "the arguments: a mapping from their names to columns", ADDED),
    },
)


def _args_of(owner: str, table: str, classes: Callable[[BatchTables], Sequence[type[Record]]]) -> FxtTable:
    """Declare the table of the arguments of some classes."""
    columns = {
        owner: ColumnSpec("int64", f"the row in `{table}`"),
        "name": ColumnSpec(TEXT, "the name; null for an argument of unknown type"),
        "type": ColumnSpec(TEXT, "the type, which determines where the value is", labels=ARGUMENT_LABELS),
        "bits": ColumnSpec("uint64", "the 64 bits of a value that is neither text nor bytes"),
        "text": ColumnSpec(TEXT, "the value of a `string`"),
        "object_name": ColumnSpec(TEXT, "the name of the object that a `koid` or a `pointer` refers to"),
        "payload": ColumnSpec(BYTES, "the content of a `blob`; all bytes of an argument of unknown type"),
    }
    spec = TableSpec(f"Arguments of the rows of `{table}`", columns)
    return FxtTable(spec, (), lambda tables: tables.args(classes(tables)), finish_args(owner))


def _unknown_records(tables: BatchTables) -> TableColumns:
    frame = tables.batch.frame
    rows = np.flatnonzero(frame.kind == UNKNOWN)
    payload = StreamColumn(frame.block.raw, frame.at[rows], frame.size[rows] * 8)
    return {
        **tables.common(rows),
        "type": RecordWord.fields["type"].get(frame.block.words[frame.at[rows]]).astype(np.uint8),
        "payload": Bytes(payload.to_bytes()),
    }


def _frames(tables: BatchTables) -> TableColumns:
    frames = tables.batch.columns(r.ProfilerBacktrace)[1]["frames"]
    return {
        "counts": frames.count,
        "depth": ranges(np.zeros_like(frames.count), frames.count),
        "address": frames.words[ranges(frames.at, frames.count)],
    }


def _finish_frames(columns: TableColumns, batch: Batch) -> dict[str, Column | Derived]:
    counts = columns.pop("counts")
    return {"backtrace": Derived(lambda: np.repeat(np.arange(len(counts)), counts)), **columns}


TABLES: dict[str, FxtTable] = {
    "trace_infos": _of_records(
        "What is said of the whole trace",
        {
            "offset": _COMMON["offset"],
            "type": ColumnSpec(TEXT, "the type, a number if it has no name", labels=TraceInfoType),
            "data": ColumnSpec("uint64", "the content"),
        },
        Source(r.Magic, {"type": Same(TraceInfoType.MAGIC_NUMBER), "data": Same(MagicWord.fields["magic"].value)}),
        Source(r.TraceInfo, {"type": "info_type"}),
    ),
    "providers": _of_records(
        "Where a provider begins to write",
        {
            "offset": _COMMON["offset"],
            "provider": ColumnSpec("uint32", "the id of the provider that follows"),
            "type": ColumnSpec(TEXT, "the type of the record", labels=MetadataType),
            "name": ColumnSpec(TEXT, "the name in a `provider_info`"),
        },
        Source(r.ProviderInfo, {"provider": "provider_id", "type": Same(MetadataType.PROVIDER_INFO)}),
        Source(r.ProviderSection, {"provider": "provider_id", "type": Same(MetadataType.PROVIDER_SECTION)}),
    ),
    "provider_events": _of_records(
        "What happened to a provider",
        {
            "offset": _COMMON["offset"],
            "provider": ColumnSpec("uint32", "the id in the record"),
            "type": ColumnSpec(TEXT, "what happened, a number if it has no name", labels=ProviderEventId),
        },
        Source(r.ProviderEvent, {"provider": "provider_id", "type": "event"}),
    ),
    "initializations": _of_records(
        "Clocks of providers",
        {
            **_COMMON,
            "ticks_per_second": ColumnSpec("uint64", "the rate of the clock"),
            "base_ticks": ColumnSpec("uint64?", "a time in ticks"),
            "wall_clock": ColumnSpec("uint64?", "the same time in nanoseconds since the Unix epoch"),
        },
        Source(r.Initialization),
    ),
    "events": FxtTable(_EVENTS, (), BatchTables.events, finish_events),
    "args": _args_of("event", "events", lambda tables: tables.event_classes),
    "strings": _of_records(
        "Definitions of strings",
        {**_COMMON, "index": ColumnSpec("uint16", "the slot"), "text": ColumnSpec(TEXT, "the string")},
        Source(r.String),
    ),
    "threads": _of_records(
        "Definitions of threads",
        {
            **_COMMON,
            "index": ColumnSpec("uint8", "the slot"),
            "process": ColumnSpec("uint64", "the koid of the process"),
            "thread": ColumnSpec("uint64", "the koid of the thread"),
        },
        Source(r.ThreadRecord),
    ),
    "objects": _of_records(
        "Names of objects",
        {
            **_COMMON,
            "kind": ColumnSpec(TEXT, "who has the object", REQUIRED, OBJECT_KINDS),
            "type": ColumnSpec(TEXT, "the type of a kernel object", OPTIONAL, ObjectType),
            "id": ColumnSpec("uint64", "the koid of a kernel object, the pointer of another", REQUIRED),
            "name": ColumnSpec(TEXT, "the name", REQUIRED),
            "process": ColumnSpec("uint64?", "the koid of the process that it belongs to", OPTIONAL),
        },
        Source(
            r.KernelObject,
            {"kind": Same(0), "type": "object_type", "id": "koid", "process": Member("process", r.KoidArgument)},
        ),
        Source(
            r.UserspaceObject, {"kind": Same(1), "id": "pointer", "process": "process.process"}, "userspace objects"
        ),
    ),
    "object_args": _args_of("object", "objects", lambda _: (r.KernelObject, r.UserspaceObject)),
    "logs": _of_records(
        "Messages of a log",
        {**_COMMON, **_TIMED, **_THREAD, "message": ColumnSpec(TEXT, "the text", REQUIRED)},
        Source(r.Log, _ON_THREAD),
    ),
    "blobs": _of_records(
        "Bytes, with a category if the record is a large blob",
        {
            **_COMMON,
            "ticks": ColumnSpec("uint64?", "the time in ticks, of a large blob with metadata", OPTIONAL),
            "time": ColumnSpec("int64?", "the same time in nanoseconds"),
            "process": ColumnSpec("uint64?", "the koid of the process, if there is a time", OPTIONAL),
            "thread": ColumnSpec("uint64?", "the koid of the thread, if there is a time", OPTIONAL),
            "category": ColumnSpec(TEXT, "the category of a large blob", OPTIONAL),
            "name": ColumnSpec(TEXT, "the name", REQUIRED),
            "type": ColumnSpec(TEXT, "the type of a blob that is not large", OPTIONAL, BlobType),
            "size": ColumnSpec("int64", "the number of bytes"),
            "payload": ColumnSpec(BYTES, "the bytes", REQUIRED),
        },
        Source(
            r.Blob,
            {"type": "blob_type", "size": "payload.length"},
            "blobs without a category",
            defaults={"type": BlobType.DATA},
        ),
        Source(
            r.LargeBlob, {**_ON_THREAD, "size": "payload.length"}, "blobs with a category", given=("category", "ticks")
        ),
        Source(r.LargeBlobNoMetadata, {"size": "payload.length"}, "blobs without ticks", given=("category",)),
    ),
    "blob_args": _args_of("blob", "blobs", lambda _: (r.Blob, r.LargeBlob, r.LargeBlobNoMetadata)),
    "scheduling": _of_records(
        "What processors do: switches to another thread, and threads that become ready",
        {
            **_COMMON,
            "type": ColumnSpec(TEXT, "the type of the record", REQUIRED, SchedulingType),
            **_TIMED,
            "cpu": ColumnSpec("uint16", "the number of the processor", REQUIRED),
            "outgoing_process": ColumnSpec("uint64?", "the koid of the process that stops", OPTIONAL),
            "outgoing_thread": ColumnSpec("uint64?", "the koid of the thread that stops", OPTIONAL),
            "incoming_process": ColumnSpec("uint64?", "the koid of the process that runs", OPTIONAL),
            "incoming_thread": ColumnSpec("uint64", "the koid of the thread that runs, or wakes up", REQUIRED),
            "outgoing_state": ColumnSpec(TEXT, "the state of the thread that stops", OPTIONAL, ThreadState),
            "outgoing_priority": ColumnSpec("int32?", "the priority, or weight, of the thread that stops", OPTIONAL),
            "incoming_priority": ColumnSpec("int32?", "that of the thread that runs, or wakes up", OPTIONAL),
            "waker": ColumnSpec("uint64?", "the koid of the thread that wakes it", OPTIONAL),
        },
        Source(
            r.LegacyContextSwitch,
            {
                **_TIME,
                "type": Same(SchedulingType.LEGACY_CONTEXT_SWITCH),
                "outgoing_process": "outgoing.process",
                "outgoing_thread": "outgoing.thread",
                "incoming_process": "incoming.process",
                "incoming_thread": "incoming.thread",
            },
            "legacy_context_switch",
        ),
        Source(
            r.ContextSwitch,
            {
                **_TIME,
                "type": Same(SchedulingType.CONTEXT_SWITCH),
                "outgoing_thread": "outgoing",
                "incoming_thread": "incoming",
                "outgoing_priority": Member("outgoing_weight", r.Int32Argument),
                "incoming_priority": Member("incoming_weight", r.Int32Argument),
            },
            "context_switch",
        ),
        Source(
            r.ThreadWakeup,
            {
                **_TIME,
                "type": Same(SchedulingType.THREAD_WAKEUP),
                "incoming_thread": "waking",
                "incoming_priority": Member("weight", r.Int32Argument),
                "waker": Member("waker", r.KoidArgument),
            },
            "thread_wakeup",
        ),
    ),
    "scheduling_args": _args_of(
        "scheduling", "scheduling", lambda _: (r.LegacyContextSwitch, r.ContextSwitch, r.ThreadWakeup)
    ),
    "modules": _of_records(
        "Programs and libraries in the memory of a process",
        {
            **_PROFILER,
            **_MODULE,
            "name": ColumnSpec(TEXT, "the name", REQUIRED),
            "build_id": ColumnSpec(BYTES, "the build id", REQUIRED),
        },
        Source(r.ProfilerModule, _ON_THREAD, defaults={"thread": 0}),
    ),
    "mmaps": _of_records(
        "Parts of modules that are mapped into the memory of a process",
        {
            **_PROFILER,
            **_MODULE,
            "flags": ColumnSpec("uint8", "what may be done there: 1 read, 2 write, 4 execute", OPTIONAL),
            "address": ColumnSpec("uint64", "the address of the first byte", REQUIRED),
            "size": ColumnSpec("uint64", "the number of bytes", REQUIRED),
            "vaddr": ColumnSpec("uint64", "the address of the first byte in the module", REQUIRED),
        },
        Source(
            r.ProfilerMmap,
            {**_ON_THREAD, "address": "start", "size": "range"},
            defaults={"thread": 0, "flags": DEFAULT_MMAP_FLAGS},
        ),
    ),
    "backtraces": _of_records(
        "Samples of call stacks",
        {
            **{name: column._replace(written="") for name, column in _PROFILER.items()},
            "flags": ColumnSpec("uint32", "flags without a published meaning"),
            "frames": ColumnSpec("int64", "the number of frames"),
        },
        Source(r.ProfilerBacktrace, {**_ON_THREAD, "frames": "frames.count"}),
    ),
    "frames": FxtTable(
        TableSpec(
            "Frames of call stacks",
            {
                "backtrace": ColumnSpec("int64", "the row in `backtraces`"),
                "depth": ColumnSpec("int64", "the number of frames within it: 0 is the innermost"),
                "address": ColumnSpec("uint64", "the address of the code"),
            },
        ),
        (),
        _frames,
        _finish_frames,
    ),
    "unknown_records": FxtTable(
        TableSpec(
            "Records of types that the specification does not define",
            {
                **_COMMON,
                "type": ColumnSpec("uint8", "the number of the type"),
                "payload": ColumnSpec(BYTES, "all bytes of the record"),
            },
        ),
        (),
        _unknown_records,
    ),
}
"""All tables."""

SPECS: dict[str, TableSpec] = {name: table.spec for name, table in TABLES.items()}
"""The columns of all tables."""


def specs() -> dict[str, TableSpec]:
    """Return the columns of all tables."""
    return SPECS


WRITABLE_TABLES = writable_tables(SPECS)
"""The tables that `FxtWriter.write_table` takes.  The others refer to slots or to rows of other tables."""

WITH_ARGUMENTS = frozenset(name for name in TABLES if name.endswith("args"))
"""The tables of arguments, which need the names of objects."""


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
            table.append(TABLES[name].contribute(tables), share)

    def tables(self, last: Batch) -> dict[str, Table]:
        """Return the tables.

        Args:
            last: the batch that was added last; all codes refer to its strings and threads.
        """
        tables = {}
        for name, table in self._tables.items():
            finish = TABLES[name].finish
            whole = table.columns()
            tables[name] = Table(finish(whole, last) if finish else whole)
        return tables
