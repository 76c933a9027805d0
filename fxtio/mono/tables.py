"""The tables of a recording: of every kind of event, of every list within events, and those that follow from others.

The first two kinds follow from the declarations and have the same columns for all data versions; what a version does
not have is null.  A table of a list has a column that refers to the rows of its event's table.  Names for addresses
come from `state`.  Events of a thread are in order, so tables that follow from events read each thread from front to
back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

import msgspec
import numpy as np

from fxtio.mono import enums
from fxtio.mono import records as r
from fxtio.mono.columns import Batch, empty_batch
from fxtio.mono.enums import (
    NARROW_COUNTERS,
    UNSIGNED_COUNTERS,
    CounterSection,
    CounterType,
    GcEventType,
    MonitorEvent,
)
from fxtio.mono.slices import slices
from fxtio.mono.state import AddressNames, Lookup, last_until
from fxtio.mono.stream.declare import Byte, Choice, Clock, Item, Part, Repeated, Sleb, Text, parts_of
from fxtio.table import Categories, Column, Derived, Growing, Optional, Table

Array = np.ndarray[Any, Any]
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

ENUMERATIONS: dict[tuple[type[Item], str], type[IntEnum]] = {
    (r.GcEvent, "event"): enums.GcEventType,
    (r.HandleCreated, "handle_type"): enums.HandleType,
    (r.HandleDestroyed, "handle_type"): enums.HandleType,
    (r.Image, "action"): enums.LoadAction,
    (r.Assembly, "action"): enums.LoadAction,
    (r.Context, "action"): enums.LoadAction,
    (r.Domain, "action"): enums.NameAction,
    (r.Thread, "action"): enums.NameAction,
    (r.Call, "action"): enums.MethodAction,
    (r.Clause, "kind"): enums.ClauseKind,
    (r.Monitor, "event"): enums.MonitorEvent,
    (r.RootRegister, "source"): enums.RootSource,
    (r.SyncPoint, "sync_type"): enums.SyncPointType,
    (r.CounterValue, "type"): enums.CounterType,
    (r.CounterDescription, "type"): enums.CounterType,
}
"""The enumerations of fields; their columns have names in lower case, and decimal numbers where there is no name."""

_BYTES = 256
_MAX_INT64 = (1 << 63) - 1
_MAX_UINT64 = (1 << 64) - 1

UNNAMED_FIELDS = frozenset({"backtrace_flags", "flags"})
"""Fields of old versions without a meaning, which tables do not have."""


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
        if field and (owner := batch.program.list_owner(kind, field)) is not None:
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
    owner = batch.program.list_owner(kind, field)
    if isinstance(repeated.of, Part):
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
        if name in UNNAMED_FIELDS or any(isinstance(part, Clock) for part in parts):
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
                if (cls, name) in ENUMERATIONS:
                    columns[name] = _enumerated(values, ENUMERATIONS[cls, name])
                elif name in required:
                    columns[name] = values
                else:
                    present = owner is not None and batch.column(owner, name) is not None
                    columns[name] = Optional(values, np.full(len(values), present))
    return columns


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


def dtype_of(parts: tuple[Part, ...]) -> type[Any]:
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


# ---- tables that follow from others


STACK_SEPARATOR = ";"
"""The text between the methods of a stack, the outermost first."""


def _gc_pauses(tables: dict[str, Table]) -> Table:
    """Return the times during which all threads were stopped for the garbage collector.

    Columns: `start`, `duration`, `collecting` (the time spent collecting) in nanoseconds, `generation`, `thread`.
    """
    events = tables["gc_events"]
    codes = [events["event"].values.index(member.name.lower()) for member in GcEventType]
    rows: list[tuple[int, int, int, int, int]] = []
    stops: dict[int, list[int]] = {}  # by thread: the start of the stop, of the collection, and the time spent in it
    for code, time, generation, thread in zip(
        events["event"].codes.tolist(), events["time"].tolist(), events["generation"].tolist(),
        events["thread"].tolist(), strict=True,
    ):  # fmt: skip
        if code == codes[GcEventType.PRE_STOP_WORLD]:
            stops[thread] = [time, time, 0]
        elif thread not in stops:
            continue
        elif code == codes[GcEventType.START]:
            stops[thread][1] = time
        elif code == codes[GcEventType.END]:
            stops[thread][2] += time - stops[thread][1]
        elif code == codes[GcEventType.POST_START_WORLD]:
            start, _, collecting = stops.pop(thread)
            rows.append((start, time - start, max(min(collecting, _MAX_INT64), -_MAX_INT64), generation, thread))
    return _table(rows, start=np.int64, duration=np.int64, collecting=np.int64, generation=np.uint64, thread=np.uint64)


def _contentions(tables: dict[str, Table]) -> Table:
    """Return the times during which a thread waited for a monitor.

    Columns: `start`, `duration` in nanoseconds, `thread`, `object`, `state` (`acquired` or `failed`).
    """
    events = tables["monitors"]
    labels = events["event"].values
    contention = labels.index(MonitorEvent.CONTENTION.name.lower())
    waiting: dict[tuple[int, int], int] = {}
    rows: list[tuple[int, int, int, int]] = []
    states: list[int] = []
    for code, time, thread, monitor in zip(
        events["event"].codes.tolist(), events["time"].tolist(), events["thread"].tolist(), events["object"].tolist(),
        strict=True,
    ):  # fmt: skip
        if code == contention:
            waiting[thread, monitor] = time
        elif (start := waiting.pop((thread, monitor), None)) is not None:
            rows.append((start, time - start, thread, monitor))
            states.append(code)
    columns = dict(_table(rows, start=np.int64, duration=np.int64, thread=np.uint64, object=np.uint64).items())
    return Table({**columns, "state": Categories(np.array(states, np.int32), labels)})


def _counter_series(tables: dict[str, Table]) -> Table:
    """Return the absolute values of counters, most of which the file stores as changes.

    Columns: `time`, `index`, `name`, `section`, `type`, `integer` (exact; null from 2**63 on), `number` (as a double),
    `text`.  A description that comes again, as in the next recording of a file, begins a counter anew.
    """
    described, readings, values = tables["counters"], tables["counter_readings"], tables["counter_values"]
    description = _last_description(tables)
    types = [member.name.lower() for member in CounterType]
    type_of = {values["type"].values.index(name): number for number, name in enumerate(types)}
    sections = np.array([*described["section"].tolist(), 0], np.uint64)[description]  # -1: no description
    indices, codes, bits = values["index"].tolist(), values["type"].codes.tolist(), values["bits"].tolist()
    last: dict[tuple[int, int], int] = {}
    integers = np.zeros(len(indices), np.int64)
    numbers = values["bits"].view(np.float64).copy()
    is_integer = np.zeros(len(indices), bool)
    for row, (index, code, change, section, begun) in enumerate(
        zip(indices, codes, bits, sections.tolist(), description.tolist(), strict=True)
    ):
        counter_type = type_of.get(code)
        if counter_type is None or counter_type in (CounterType.DOUBLE, CounterType.STRING):
            continue
        before = 0 if section == CounterSection.PERFCOUNTERS else last.get((index, begun), 0)
        width, signed = 32 if counter_type in NARROW_COUNTERS else 64, counter_type not in UNSIGNED_COUNTERS
        last[index, begun] = value = _wrapped(before + change, width, signed=signed)
        numbers[row] = value
        if value <= _MAX_INT64:
            integers[row], is_integer[row] = value, True
    return Table(
        {
            "time": readings["time"][values["counter_reading"]],
            "index": values["index"],
            "name": Categories(
                np.array([*described["name"].codes, -1], np.int32)[description], described["name"].values
            ),
            "section": sections,
            "type": values["type"],
            "integer": Optional(integers, is_integer),
            "number": Optional(numbers, values["text"].codes < 0),
            "text": values["text"],
        }
    )


def _last_description(tables: dict[str, Table]) -> Array:
    """Return for each value of a counter the row of its last description before it in the file.

    It is that of the first description if all come later, and -1 where there is none.
    """
    described, values = tables["counters"], tables["counter_values"]
    at = tables["counter_descriptions"]["offset"][described["counter_description"]]
    order = np.lexsort((at, described["index"]))
    index, place = described["index"][order], at[order]
    offset = tables["counter_readings"]["offset"][values["counter_reading"]]
    first = np.searchsorted(index, values["index"], "left")
    end = np.searchsorted(index, values["index"], "right")
    rows: Array = np.full(len(offset), -1, np.int64)
    known = end > first
    rows[known] = order[last_until(place, first[known], end[known], offset[known])]
    return rows


def _wrapped(value: int, width: int, *, signed: bool) -> int:
    """Return a number wrapped to so many bits."""
    value %= 1 << width
    return value - (1 << width) if signed and value >= 1 << width - 1 else value


def _stacks(frames: Table, counts: Array, *, innermost_first: bool) -> Categories:
    """Return the stack of each event as text, from the table of its frames."""
    names, addresses = frames["method_name"].to_list(), frames["method"].tolist()
    labels = [f"{address:#x}" if name is None else name for name, address in zip(names, addresses, strict=True)]
    code_of: dict[str, int] = {}
    codes = []
    begin = 0
    for end in np.cumsum(counts).tolist():
        frame = labels[begin:end]
        text = STACK_SEPARATOR.join(reversed(frame) if innermost_first else frame)
        codes.append(code_of.setdefault(text, len(code_of)))
        begin = end
    return Categories(np.array(codes, np.int32), list(code_of))


def _sample_stacks(tables: dict[str, Table]) -> Table:
    """Return the stack of each sample.

    Columns: `time`, `thread` (the sampled one), `stack`: the methods, the outermost first, with `;` between them.
    """
    samples, frames = tables["samples"], tables["sample_frames"]
    stack = _stacks(frames, _counts(samples["frames"]), innermost_first=True)
    return Table({"time": samples["time"], "thread": samples["interrupted"], "stack": stack})


def _counts(column: Array | Optional) -> Array:
    return column.values if isinstance(column, Optional) else column


def _allocation_sites(tables: dict[str, Table]) -> Table:
    """Return the classes and stacks of all allocations with count and bytes, the most bytes first.

    Columns: `class_name`, `stack` (empty without a backtrace), `count`, `bytes`.
    """
    allocations = tables["allocations"]
    stack = _stacks(tables["allocation_frames"], _counts(allocations["backtrace"]), innermost_first=False)
    classes = allocations["class_name"]
    count: Counter[tuple[int, int]] = Counter()
    size_of: Counter[tuple[int, int]] = Counter()
    sizes = allocations["size"].tolist()
    for key, size in zip(zip(classes.codes.tolist(), stack.codes.tolist(), strict=True), sizes, strict=True):
        count[key] += 1
        size_of[key] += size
    keys = [key for key, _ in size_of.most_common()]
    pairs = np.array(keys, np.int32).reshape(-1, 2)
    return Table(
        {
            "class_name": Categories(pairs[:, 0].copy(), classes.values),
            "stack": Categories(pairs[:, 1].copy(), stack.values),
            "count": np.array([count[key] for key in keys], np.int64),
            "bytes": np.array([min(size_of[key], _MAX_INT64) for key in keys], np.int64),
        }
    )


def _shots(tables: dict[str, Table]) -> Iterator[tuple[int, int | None, Array]]:
    """Yield the start and the end of every heap shot, and the rows of its objects."""
    ends, objects = tables["heap_ends"], tables["heap_objects"]
    offsets = ends["offset"]
    starts = tables["heap_starts"]
    for start, offset in zip(starts["time"].tolist(), starts["offset"].tolist(), strict=True):
        place = int(np.searchsorted(offsets, offset))
        end = int(ends["time"][place]) if place < len(offsets) else None
        last = int(offsets[place]) if place < len(offsets) else np.iinfo(np.int64).max
        yield start, end, np.flatnonzero((objects["offset"] > offset) & (objects["offset"] < last))


def total(sizes: Array) -> int:
    """Return the sum of sizes (uint64), at most 2**64 - 1."""
    return int(totals(1, np.zeros(len(sizes), np.intp), sizes)[0])


def totals(groups: int, group: Array, sizes: Array) -> Array:
    """Return the sums of sizes (uint64) by the number of their group, each at most 2**64 - 1."""
    sums = np.zeros(groups, np.uint64)
    np.add.at(sums, group, sizes)
    about = np.bincount(group, sizes.astype(np.float64), groups)
    for wrapped in np.flatnonzero(about > _MAX_INT64).tolist():
        sums[wrapped] = min(sum(sizes[group == wrapped].tolist()), _MAX_UINT64)
    return sums


def _heap_shots(tables: dict[str, Table]) -> Table:
    """Return the heap shots.

    Columns: `start`, `end` (null where it is missing) in nanoseconds, `objects`, `bytes`, `references`.
    """
    objects = tables["heap_objects"]
    rows, ends = [], []
    for start, end, members in _shots(tables):
        sizes, references = objects["size"][members], objects["references"][members]
        rows.append((start, int((sizes > 0).sum()), total(sizes), int(references.sum())))
        ends.append(end)
    columns = dict(_table(rows, start=np.int64, objects=np.int64, bytes=np.uint64, references=np.int64).items())
    present = np.array([end is not None for end in ends], bool)
    end_times = Optional(np.array([end or 0 for end in ends], np.int64), present)
    return Table({"start": columns.pop("start"), "end": end_times, **columns})


def _heap_classes(tables: dict[str, Table]) -> Table:
    """Return the objects of each heap shot by class, the most bytes first.

    Columns: `heap_shot`, `class_name`, `count`, `bytes`.
    """
    objects = tables["heap_objects"]
    classes = objects["class_name"]
    rows, codes = [], []
    for shot, (_, _, members) in enumerate(_shots(tables)):
        first = members[objects["size"][members] > 0]  # the others only add references
        distinct, inverse, count = np.unique(classes.codes[first], return_inverse=True, return_counts=True)
        sums = totals(len(distinct), inverse, objects["size"][first])
        for place in np.argsort(-sums.astype(np.float64), kind="stable").tolist():
            rows.append((shot, int(count[place]), int(sums[place])))
            codes.append(int(distinct[place]))
    columns = dict(_table(rows, heap_shot=np.int64, count=np.int64, bytes=np.uint64).items())
    class_names = Categories(np.array(codes, np.int32), classes.values)
    return Table({"heap_shot": columns.pop("heap_shot"), "class_name": class_names, **columns})


def _table(rows: list[Any], **types: type[Any]) -> Table:
    """Return a table of rows with these columns."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in types)
    return Table({name: np.array(list(values), types[name]) for name, values in zip(types, columns, strict=True)})


DERIVED_TABLES: dict[str, tuple[tuple[str, ...], Callable[[dict[str, Table]], Table]]] = {
    "slices": (("calls",), slices),
    "gc_pauses": (("gc_events",), _gc_pauses),
    "contentions": (("monitors",), _contentions),
    "counter_series": (("counters", "counter_descriptions", "counter_readings", "counter_values"), _counter_series),
    "sample_stacks": (("samples", "sample_frames"), _sample_stacks),
    "allocation_sites": (("allocations", "allocation_frames"), _allocation_sites),
    "heap_shots": (("heap_starts", "heap_ends", "heap_objects"), _heap_shots),
    "heap_classes": (("heap_starts", "heap_ends", "heap_objects"), _heap_classes),
}
"""The tables that follow from others: from which, and the function that makes them."""

TABLE_NAMES = (*EVENT_TABLES, *LIST_TABLES, *DERIVED_TABLES)
"""All tables."""


# ---- whole tables


_WITH_METHOD = frozenset(
    {"calls", "clauses", *(name for name, table in LIST_TABLES.items() if table.value == "method")}
)
_WITH_TYPE = frozenset({"allocations", "heap_objects"})

NAME_COLUMNS = ("thread_name", "method_name", "class_name")
"""The columns that follow from addresses."""


class Collector:
    """Joins the tables of many batches.

    Args:
        names: the tables, from `TABLE_NAMES`.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        needed = [
            source for name in names for source in (DERIVED_TABLES[name][0] if name in DERIVED_TABLES else (name,))
        ]
        needed += [LIST_TABLES[name].table for name in needed if name in LIST_TABLES]  # a list has its events' times
        self._needed = list(dict.fromkeys(needed))
        self._columns: dict[str, dict[str, Growing]] = {name: {} for name in self._needed}
        self._texts = TextCodes()
        self._first: dict[str, dict[str, Column]] | None = None  # a single batch needs no copy
        self._batches = 0

    def add(self, batch: Batch, share: float = 0.0) -> None:
        """Add the next batch.

        Args:
            batch: the batch.
            share: the part of the whole that the batches so far are (0 to 1, 0 if unknown), to guess the final size.
        """
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
            for column, values in columns.items():
                self._columns[name].setdefault(column, Growing()).append(values, share)

    def tables(self, requested: tuple[str, ...], names: Names) -> dict[str, Table]:
        """Return some of the tables.

        Args:
            requested: their names.
            names: returns the names of the recording's addresses.
        """
        if self._batches == 0:  # tables without rows have columns, too
            self.add(empty_batch())
        whole = self._first or {
            name: {column: growing.column() for column, growing in columns.items()}
            for name, columns in self._columns.items()
        }
        stored = {name: _finish(name, columns, whole, names) for name, columns in whole.items()}
        return {
            name: _derived(name, stored, names) if name in DERIVED_TABLES else stored[name]
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


def _derived(name: str, stored: dict[str, Table], names: Names) -> Table:
    """Return a table that follows from others."""
    table = DERIVED_TABLES[name][1](stored)
    if name != "slices":
        return table
    return Table(
        {**dict(table.items()), "name": Derived(lambda: _names(names, "methods", table["method"], table["start"]))}
    )


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
