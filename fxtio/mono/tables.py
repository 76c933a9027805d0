"""The tables of a recording: of every kind of event, of every list within events; tables joined from many batches.

Tables of both kinds follow from the declarations and have the same columns for all data versions; what a version does
not have is null.  A table of a list has a column that refers to the rows of its event's table.  Names for addresses
come from `state`.  Events of a thread are in order, so tables that follow from events read each thread from front to
back.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

import msgspec
import numpy as np

from fxtio.arrays import Array
from fxtio.codec.docstrings import doc_of
from fxtio.codec.stream.declare import (
    Byte,
    Choice,
    Clock,
    Item,
    Repeated,
    SizedText,
    Sleb,
    StreamPart,
    Text,
    enumeration_of,
    layout_of,
    parts_of,
)
from fxtio.finding import Findings
from fxtio.mono import records as r
from fxtio.mono.columns import Batch, empty_batch
from fxtio.mono.frames import Frame, Recording
from fxtio.mono.headers import BUFFER_HEADER_SIZE, BufferHeader, StreamHeader
from fxtio.mono.state import NAME_TABLES, AddressNames
from fxtio.mono.summary_tables import DERIVED_MEANINGS, DERIVED_TABLES
from fxtio.references import Lookup
from fxtio.report import counted
from fxtio.schema import TableSpec, spec_of
from fxtio.table import Categories, Column, Derived, GrowingTable, Optional, Table, WritableTable, joined, saturated

Names = Callable[[], AddressNames]
"""Returns the names of the recording's addresses; called only when they are needed."""

EVENT_TABLES: dict[str, type[r.Event]] = {
    "allocations": r.Allocation,
    "gc_events": r.GcEvent,
    "gc_resizes": r.GcResize,
    "gc_moves": r.GcMove,
    "handles_created": r.HandleCreated,
    "handles_destroyed": r.HandleDestroyed,
    "finalize_starts": r.FinalizeStart,
    "finalize_ends": r.FinalizeEnd,
    "finalize_object_starts": r.FinalizeObjectStart,
    "finalize_object_ends": r.FinalizeObjectEnd,
    "classes": r.ClassLoad,
    "images": r.Image,
    "assemblies": r.Assembly,
    "domains": r.Domain,
    "threads": r.Thread,
    "contexts": r.Context,
    "vtables": r.VtableLoad,
    "calls": r.Call,
    "methods": r.JitMethod,
    "throws": r.Throw,
    "clauses": r.Clause,
    "monitors": r.Monitor,
    "heap_starts": r.HeapStart,
    "heap_ends": r.HeapEnd,
    "heap_objects": r.HeapObject,
    "heap_roots": r.HeapRoots,
    "root_registers": r.RootRegister,
    "root_unregisters": r.RootUnregister,
    "samples": r.SampleHit,
    "native_symbols": r.NativeSymbol,
    "native_binaries": r.NativeBinary,
    "counter_descriptions": r.CounterDescriptions,
    "counter_readings": r.CounterValues,
    "jit_helpers": r.JitHelper,
    "coverage_assemblies": r.CoverageAssembly,
    "coverage_methods": r.CoverageMethod,
    "coverage_statements": r.CoverageStatement,
    "coverage_classes": r.CoverageClass,
    "sync_points": r.SyncPoint,
    "aot_ids": r.AotId,
}
"""The kind of event of each table."""


class ListTable(NamedTuple):
    """The table of a list within events.

    Attributes:
        table: the table of the events.
        field: the field of the list.
        row: the column that refers to the row of the event.
        value: the column of plain values; empty for a list of items, whose fields are columns.
    """

    table: str
    field: str
    row: str
    value: str = ""


LIST_TABLES: dict[str, ListTable] = {
    "allocation_frames": ListTable("allocations", "backtrace", "allocation", "method"),
    "moved_objects": ListTable("gc_moves", "objects", "gc_move", "object"),
    "handle_created_frames": ListTable("handles_created", "backtrace", "handle_created", "method"),
    "handle_destroyed_frames": ListTable("handles_destroyed", "backtrace", "handle_destroyed", "method"),
    "throw_frames": ListTable("throws", "backtrace", "throw", "method"),
    "monitor_frames": ListTable("monitors", "backtrace", "monitor", "method"),
    "heap_references": ListTable("heap_objects", "references", "heap_object"),
    "roots": ListTable("heap_roots", "roots", "heap_root"),
    "sample_addresses": ListTable("samples", "addresses", "sample", "address"),
    "sample_frames": ListTable("samples", "frames", "sample", "method"),
    "sample_located_frames": ListTable("samples", "located_frames", "sample"),
    "counters": ListTable("counter_descriptions", "counters", "counter_description"),
    "counter_values": ListTable("counter_readings", "values", "counter_reading"),
}
"""The tables of lists."""

_BYTES = 256


class TextCodes:
    """Codes for texts, for all batches of a reading.

    Attributes:
        values: the texts, by code.
    """

    def __init__(self) -> None:
        self.values: list[str] = []
        self._codes: dict[bytes, int] = {}

    def codes(self, data: Array, begin: Array, length: Array) -> Array:
        """Return the codes of texts in `data` (int32); -1 where `begin` is -1."""
        view, code_of = data.data, self._codes
        codes = np.empty(len(begin), np.int32)
        for row, (offset, size) in enumerate(zip(begin.tolist(), length.tolist(), strict=True)):
            if offset < 0:
                codes[row] = -1
                continue
            raw = bytes(view[offset : offset + size])
            code = code_of.get(raw)
            if code is None:
                code = code_of[raw] = len(self.values)
                self.values.append(raw.decode("utf-8", "surrogateescape"))
            codes[row] = code
        return codes


def columns_of(batch: Batch, name: str, texts: TextCodes) -> dict[str, Column]:
    """Return the columns that a batch contributes to a table.

    Args:
        batch: the batch, with the columns of the table filled (see `owners_of`).
        name: the table, of events or of a list.
        texts: the codes of all texts.

    Returns:
        The columns.  In place of `thread`, a table of events has the thread of each buffer (`threads`) and the number
        of its rows (`rows`).  In place of the row of the event, a table of a list has the number of items of each event
        (`counts`).
    """
    if name in LIST_TABLES:
        return _list_columns(batch, name, texts)
    cls = EVENT_TABLES[name]
    kind = r.EVENTS.index(cls)
    columns: dict[str, Column] = {
        "threads": batch.frame.headers["thread"].astype(np.uint64),
        "rows": batch.counts[:, kind],
        "offset": _values(batch, kind, "", "offset", np.int64),
        "time": batch.times(kind),
    }
    return columns | _field_columns(batch, cls, kind, texts)


def owners_of(batch: Batch, names: list[str]) -> set[int]:
    """Return the kinds and lists whose columns tables need."""
    owners = set()
    for name in names:
        table, field = LIST_TABLES[name][:2] if name in LIST_TABLES else (name, "")
        kind = r.EVENTS.index(EVENT_TABLES[table])
        owners.add(kind)
        if field and (owner := batch.steps.list_owner(kind, field)) is not None:
            owners.add(owner)
    return owners


def _has_rows(batch: Batch, name: str) -> bool:
    """Return whether a batch has rows of a table, or events that may have the list of the table."""
    table = LIST_TABLES[name].table if name in LIST_TABLES else name
    return batch.totals[r.EVENTS.index(EVENT_TABLES[table])] > 0


def _list_columns(batch: Batch, name: str, texts: TextCodes) -> dict[str, Column]:
    table, field, _, value = LIST_TABLES[name]
    cls = EVENT_TABLES[table]
    kind = r.EVENTS.index(cls)
    counts = _values(batch, kind, field, "count", np.int64)
    columns: dict[str, Column] = {"counts": np.maximum(counts, 0)}
    repeated = next(part for part in parts_of(cls)[field] if isinstance(part, Repeated))
    owner = batch.steps.list_owner(kind, field)
    if isinstance(repeated.of, StreamPart):
        return columns | {value: _values(batch, owner, "", "value", np.uint64)}
    return columns | _field_columns(batch, repeated.of, owner, texts)


@cache
def required_fields(cls: type[Item]) -> frozenset[str]:
    """Return the fields that every record or item of a class has, in all versions."""
    return frozenset(field.name for field in msgspec.structs.fields(cls) if field.required)


def _field_columns(batch: Batch, cls: type[Item], owner: int | None, texts: TextCodes) -> dict[str, Column]:
    required = required_fields(cls)
    columns: dict[str, Column] = {}
    for name, parts in parts_of(cls).items():
        if any(isinstance(part, Clock) for part in parts):
            continue
        part = parts[0] if parts else Byte()
        match part:
            case Choice():
                columns["bits"] = _values(batch, owner, name, "bits", np.uint64)
                columns["text"] = _texts(batch, owner, name, texts)
            case Text():
                columns[name] = _texts(batch, owner, name, texts)
            case Repeated():
                counts = _values(batch, owner, name, "count", np.int64)
                columns[name] = counts if name in required else Optional(np.maximum(counts, 0), counts >= 0)
            case _:
                values = _values(batch, owner, name, "value", dtype_of(parts))
                if enumeration := enumeration_of(cls, name):
                    columns[name] = _enumerated(values, enumeration)
                elif name in required:
                    columns[name] = values
                else:
                    columns[name] = Optional(values, _present(batch, cls, owner, name, len(values)))
    return columns


def _present(batch: Batch, cls: type[Item], owner: int | None, name: str, rows: int) -> Array:
    """Return which rows have a field that not all versions have, or that comes only with a list."""
    if owner is None or batch.column(owner, name) is None:
        return np.zeros(rows, bool)
    for field, parts in parts_of(cls).items():
        flags = {part.flag for part in parts if isinstance(part, Repeated) and part.flag}
        if any(part.when is not None and part.when[0] in flags for part in parts_of(cls)[name]):
            return np.asarray(_values(batch, owner, field, "count", np.int64) >= 0)
    return np.ones(rows, bool)


def _values(batch: Batch, owner: int | None, field: str, role: str, dtype: type[Any]) -> Array:
    """Return a column; what the version does not have is 0, or -1 for a count."""
    values = None if owner is None else batch.column(owner, field, role)
    if values is None:
        rows = 0 if owner is None else batch.totals[owner]
        return np.full(rows, -1 if role == "count" else 0, dtype)
    return values.view(dtype) if values.dtype.itemsize == np.dtype(dtype).itemsize else values.astype(dtype)


def _texts(batch: Batch, owner: int | None, field: str, texts: TextCodes) -> Categories:
    places = None if owner is None else batch.texts(owner, field)
    if places is None:
        rows = 0 if owner is None else batch.totals[owner]
        return Categories(np.full(rows, -1, np.int32), texts.values)
    return Categories(texts.codes(batch.frame.data, *places), texts.values)


def dtype_of(parts: tuple[StreamPart, ...]) -> type[Any]:
    """Return the type of a field's column, such that the values of all versions fit."""
    if all(isinstance(part, Byte) for part in parts):
        return np.uint8
    return np.int64 if all(isinstance(part, Sleb) and not part.pointer for part in parts) else np.uint64


def _enumerated(values: Array, names: type[IntEnum]) -> Categories:
    """Return the names of numbers; numbers beyond a byte are `unknown`."""
    distinct, codes = np.unique(values, return_inverse=True) if values.dtype.itemsize > 1 else (None, values)
    if distinct is not None:
        codes = np.minimum(distinct, _BYTES).astype(np.int32)[codes]
    return Categories(codes.astype(np.int32), list(_labels(names)))


@cache
def _labels(names: type[IntEnum]) -> tuple[str, ...]:
    """Return the label of each number that fits in a byte, and of larger ones."""
    name_of = {member.value: member.name.lower() for member in names}
    return (*(name_of.get(number, str(number)) for number in range(_BYTES)), "unknown")


# ---- headers

OUTLINE_TABLES = ("recordings", "buffers")
"""The tables of headers."""

OUTLINE_MEANINGS = {
    "recordings": (
        "Headers; a file has several if recordings were joined",
        {"offset": "the place of the header in the file, in bytes"} | doc_of(StreamHeader).attributes,
    ),
    "buffers": (
        "Headers of buffers",
        {"offset": "the place of the header in the file, in bytes", "size": "the bytes of events"}
        | doc_of(BufferHeader).attributes
        | {"time": "the time in nanoseconds"},
    ),
}
"""What the rows of each table are, and the values of its columns."""


class Outline:
    """Collects the headers of frames."""

    def __init__(self) -> None:
        self._recordings: list[Recording] = []
        self._buffers: list[dict[str, Array]] = []

    def add(self, frame: Frame) -> None:
        """Add the headers of the next frame."""
        self._recordings += [recording for _, recording in frame.recordings]
        self._buffers.append(buffer_columns(frame))

    def tables(self) -> dict[str, Table]:
        """Return the tables of headers; there must have been a frame."""
        headers = [recording.header for recording in self._recordings]
        columns: dict[str, Column] = {
            "offset": np.array([recording.offset for recording in self._recordings], np.int64)
        }
        for name, parts in parts_of(StreamHeader).items():
            values = [getattr(header, name) for header in headers]
            if isinstance(parts[0], SizedText):
                columns[name] = Categories.of(values)
            else:
                present = np.array([value is not None for value in values], bool)
                columns[name] = Optional(np.array([value or 0 for value in values], np.uint64), present)
        buffers = {name: joined([part[name] for part in self._buffers]) for name in self._buffers[0]}
        return {"recordings": Table(columns), "buffers": Table(buffers)}


def buffer_columns(frame: Frame) -> dict[str, Array]:
    """Return the columns of the table `buffers` for the buffers of a frame."""
    columns = {name: frame.headers[name].astype(np.uint64) for name in BufferHeader.__struct_fields__}
    columns["time"] = saturated(columns["time"])
    return {"offset": frame.base + frame.begin - BUFFER_HEADER_SIZE, "size": frame.end - frame.begin, **columns}


TABLE_NAMES = (*EVENT_TABLES, *LIST_TABLES, *DERIVED_TABLES, *OUTLINE_TABLES)
"""All tables."""


# ---- whole tables


_WITH_METHOD = frozenset(
    {"calls", "clauses", *(name for name, table in LIST_TABLES.items() if table.value == "method")}
)
_WITH_TYPE = frozenset({"allocations", "heap_objects"})

NAME_COLUMNS = ("thread_name", "method_name", "class_name")
"""The columns that follow from addresses."""

IGNORED = ("offset", *NAME_COLUMNS)
"""The columns of tables of events that follow from others, and are not written."""


@cache
def event_table(name: str) -> WritableTable:
    """Return the columns that rows of a table of events are written from."""
    cls = EVENT_TABLES[name]
    fields = [field for field in parts_of(cls) if field != "time"]
    lists = [field for field in fields if any(isinstance(part, Repeated) for part in parts_of(cls)[field])]
    required = [field for field in fields if field in required_fields(cls) and field not in lists]
    optional = [field for field in fields if field not in required]
    return WritableTable(("time", *required), ("thread", *optional), IGNORED)


def _has_list(cls: type[r.Event]) -> bool:
    return any(isinstance(part, Repeated) for parts in parts_of(cls).values() for part in parts)


WRITABLE_TABLES = {
    name: event_table(name)
    for name, cls in EVENT_TABLES.items()
    if layout_of(cls, r.VERSIONS[-1]) is not None and not _has_list(cls)
}
"""The tables that one call of `write_table` can write: those of today's events without lists."""


def specs() -> dict[str, TableSpec]:
    """Return the columns of all tables: those of events and lists have the meanings of their fields."""
    collector = EventCollector(tuple(dict.fromkeys((*TABLE_NAMES, *NAME_TABLES))))

    def names() -> AddressNames:
        return AddressNames(collector.tables(NAME_TABLES, names, Findings("mono")))

    empty = collector.tables(TABLE_NAMES, names, Findings("mono"))
    result = {}
    for name, cls in EVENT_TABLES.items():
        doc = doc_of(cls)
        result[name] = spec_of(doc.text.rstrip("."), empty[name], _COMMON | doc.attributes, WRITABLE_TABLES.get(name))
    for name, table in LIST_TABLES.items():
        repeated = next(part for part in parts_of(EVENT_TABLES[table.table])[table.field] if isinstance(part, Repeated))
        meanings = {table.row: f"the row in `{table.table}`", table.value: "the item"}
        meanings |= {} if isinstance(repeated.of, StreamPart) else doc_of(repeated.of).attributes
        result[name] = spec_of(f"The items of `{table.field}` of `{table.table}`", empty[name], _COMMON | meanings)
    for name, (meaning, meanings) in {**DERIVED_MEANINGS, **OUTLINE_MEANINGS}.items():
        result[name] = spec_of(meaning, empty[name], meanings)
    return result


_COMMON = {
    "offset": "the place of the event in the file, in bytes",
    "time": "the time in nanoseconds",
    "thread": "the thread that wrote the event",
    "thread_name": "the name of the thread",
    "method_name": "the name of the method, as of the time of the event",
    "class_name": "the name of the class of the object, as of the time of the event",
}


class EventCollector:
    """Joins the tables of many batches.

    Args:
        names: the tables, from `TABLE_NAMES`.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        needed = [
            source for name in names for source in (DERIVED_TABLES[name][0] if name in DERIVED_TABLES else (name,))
        ]
        needed += [LIST_TABLES[name].table for name in needed if name in LIST_TABLES]  # a list has its events' times
        self._needed = [name for name in dict.fromkeys(needed) if name not in OUTLINE_TABLES]
        self._outline = Outline() if any(name in OUTLINE_TABLES for name in names) else None
        self._tables = {name: GrowingTable() for name in self._needed}
        self._texts = TextCodes()
        self._first: dict[str, dict[str, Column]] | None = None  # a single batch needs no copy
        self._batches = 0

    def add(self, batch: Batch, share: float = 0.0) -> None:
        """Add the next batch.

        Args:
            batch: the batch.
            share: the part of the whole that the batches so far are (0 to 1, 0 if unknown), to guess the final size.
        """
        if self._outline is not None:
            self._outline.add(batch.frame)
        names = [name for name in self._needed if self._batches == 0 or _has_rows(batch, name)]
        batch.fill(owners_of(batch, names))
        columns = {name: columns_of(batch, name, self._texts) for name in names}
        if self._batches == 0:
            self._first = columns
        else:
            if self._first is not None:
                self._grow(self._first, 0.0)
                self._first = None
            self._grow(columns, share)
        self._batches += 1

    def _grow(self, tables: dict[str, dict[str, Column]], share: float) -> None:
        for name, columns in tables.items():
            self._tables[name].append(columns, share)

    def tables(self, requested: tuple[str, ...], names: Names, findings: Findings) -> dict[str, Table]:
        """Return some of the tables.

        Args:
            requested: their names.
            names: returns the names of the recording's addresses.
            findings: where stacks that are left out are added.
        """
        if self._batches == 0:  # tables without rows have columns, too
            self.add(empty_batch())
        whole = self._first
        if whole is None:
            whole = {name: table.columns() for name, table in self._tables.items()}
        stored = {name: _finish(name, columns, whole, names) for name, columns in whole.items()}
        stored |= {} if self._outline is None else self._outline.tables()
        return {
            name: _derived(name, stored, findings) if name in DERIVED_TABLES else stored[name]
            for name in dict.fromkeys(requested)
        }


def _finish(name: str, stored: dict[str, Column], whole: dict[str, dict[str, Column]], names: Names) -> Table:
    """Return a table with the columns that are computed on first use."""
    rest: dict[str, Column | Derived] = dict(stored)
    columns: dict[str, Column | Derived]
    times: Any = whole[LIST_TABLES[name].table if name in LIST_TABLES else name]["time"]
    counts: Any = rest.pop("counts", None)

    def time() -> Array:
        return times if counts is None else np.repeat(times, counts)

    if counts is not None:
        columns = {LIST_TABLES[name].row: Derived(lambda: np.repeat(np.arange(len(counts)), counts)), **rest}
    else:
        threads: Any = rest.pop("threads")
        rows: Any = rest.pop("rows")

        def thread() -> Array:
            return np.repeat(threads, rows)

        columns = {"offset": rest.pop("offset"), "time": rest.pop("time"), "thread": Derived(thread), **rest}
        columns["thread_name"] = Derived(lambda: _names(names, "threads", thread(), time()))
    if name in _WITH_METHOD:
        method: Any = stored["method"]
        columns["method_name"] = Derived(lambda: _names(names, "methods", method, time()))
    if name in _WITH_TYPE:
        vtable: Any = stored["vtable"]
        pointer: Any = stored["class_pointer"]
        columns["class_name"] = Derived(lambda: _class_names(names, vtable, pointer, time()))
    return Table(columns)


def _derived(name: str, stored: dict[str, Table], findings: Findings) -> Table:
    """Return a table that follows from others."""
    table = DERIVED_TABLES[name][1](stored)
    if "stack" in table.column_names and (left_out := int((table["stack"].codes < 0).sum())):
        message = f"the texts of the stacks are too long, and missing in {counted(left_out, 'row')} of {name}"
        findings.add("stack.text", 0, message)
    return table


def _names(names: Names, lookup: str, address: Array, time: Array) -> Categories:
    address_names = names()
    table: Lookup = getattr(address_names, lookup)
    return address_names.column(table, address, time)


def _class_names(names: Names, vtable: Optional, pointer: Optional, time: Array) -> Categories:
    """Return the class of objects by vtable or, before data version 15, by class pointer.

    Mono 5.10.0 wrote version 15 with class pointers, so what is no vtable may be a class.
    """
    address_names = names()
    codes = address_names.vtables.codes(vtable.values, time)
    old = np.flatnonzero(pointer.present)
    codes[old] = address_names.classes.codes(pointer.values[old], time[old])
    unknown = np.flatnonzero(vtable.present & (codes < 0))
    codes[unknown] = address_names.classes.codes(vtable.values[unknown], time[unknown])
    return Categories(codes, address_names.values)
