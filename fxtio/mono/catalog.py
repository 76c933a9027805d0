"""The tables that a recording has: one for every kind of event, and one for every list within events.

Both follow from the declarations.  A table has the same columns for all data versions; what a version does not have is
null there.  What the file tells by addresses, `names` tells by name.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import Any

import msgspec
import numpy as np

from fxtio.codec.stream import Byte, Choice, Clock, Item, Many, Part, Sleb, Text, parts_of
from fxtio.mono import enums
from fxtio.mono import records as r
from fxtio.mono.batch import Batch
from fxtio.table import Categories, Column, Optional

Array = np.ndarray[Any, Any]

TABLES: dict[str, type[r.Event]] = {
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
"""The table of each kind of event."""

LISTS: dict[str, tuple[str, str, str]] = {
    "allocation_frames": ("allocations", "backtrace", "method"),
    "moved_objects": ("gc_moves", "objects", "object"),
    "handle_created_frames": ("handles_created", "backtrace", "method"),
    "handle_destroyed_frames": ("handles_destroyed", "backtrace", "method"),
    "throw_frames": ("throws", "backtrace", "method"),
    "monitor_frames": ("monitors", "backtrace", "method"),
    "heap_references": ("heap_objects", "references", ""),
    "roots": ("heap_roots", "roots", ""),
    "sample_addresses": ("samples", "addresses", "address"),
    "sample_frames": ("samples", "frames", "method"),
    "sample_located_frames": ("samples", "located_frames", ""),
    "counters": ("counter_descriptions", "counters", ""),
    "counter_values": ("counter_readings", "values", ""),
}
"""The table of each list: the table of its events, the list's field, and what its plain values are called."""

NAMED: dict[tuple[type[Item], str], type[IntEnum]] = {
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
    (r.SyncPoint, "type"): enums.SyncPointType,
    (r.CounterValue, "type"): enums.CounterType,
    (r.CounterDescription, "type"): enums.CounterType,
}
"""Fields whose numbers have names; a number without one is told as a number."""

_BYTES = 256


class Texts:
    """Numbers for texts, for all batches of a reading.

    Attributes:
        values: the texts, by number.
    """

    def __init__(self) -> None:
        self.values: list[str] = []
        self._known: dict[bytes, int] = {}

    def codes(self, data: Array, begin: Array, length: Array) -> Array:
        """The numbers of texts in `data` (int32); -1 where `begin` is."""
        view, known = data.data, self._known
        found = np.empty(len(begin), np.int32)
        for row, (at, size) in enumerate(zip(begin.tolist(), length.tolist(), strict=True)):
            if at < 0:
                found[row] = -1
                continue
            raw = bytes(view[at : at + size])
            code = known.get(raw)
            if code is None:
                code = known[raw] = len(self.values)
                self.values.append(raw.decode("utf-8", "surrogateescape"))
            found[row] = code
        return found


_LEFT_OUT = frozenset({"backtrace_flags", "flags"})
"""Fields of old versions without a meaning."""


def columns_of(batch: Batch, name: str, texts: Texts) -> dict[str, Column]:
    """What a batch contributes to a table.

    Args:
        batch: the batch, with the rows of the table filled (see `owners_of`).
        name: the table.
        texts: the numbers of all texts.

    Returns:
        Columns; of each buffer the thread in `writers` and the number of its rows in `rows`; of a list, how many items
        each event has in `counts`.
    """
    if name in LISTS:
        return _list(batch, name, texts)
    cls = TABLES[name]
    kind = r.EVENTS.index(cls)
    made: dict[str, Column] = {"offset": _values(batch, kind, "", "offset", np.int64)}
    made["time"] = _values(batch, kind, "time", "value", np.int64)
    writers = {"writers": batch.frame.headers["thread"].astype(np.uint64), "rows": batch.counts[:, kind]}
    return writers | made | _fields(batch, cls, kind, texts)


def owners_of(batch: Batch, names: list[str]) -> set[int]:
    """The kinds and lists whose columns tables need."""
    owners = set()
    for name in names:
        table, field, _ = LISTS.get(name, (name, "", ""))
        kind = r.EVENTS.index(TABLES[table])
        owners.add(kind)
        if field and (number := _list_owner(batch, kind, field)) is not None:
            owners.add(number)
    return owners


def _list(batch: Batch, name: str, texts: Texts) -> dict[str, Column]:
    table, field, plain = LISTS[name]
    kind = r.EVENTS.index(TABLES[table])
    counts = _values(batch, kind, field, "count", np.int64)
    made: dict[str, Column] = {"counts": np.maximum(counts, 0)}
    many = next(part for part in parts_of(TABLES[table])[field] if isinstance(part, Many))
    owner = _list_owner(batch, kind, field)
    if isinstance(many.of, Part):
        return made | {plain: _values(batch, owner, "", "value", np.uint64)}
    return made | _fields(batch, many.of, owner, texts)


def _list_owner(batch: Batch, kind: int, field: str) -> int | None:
    """The owner of a list's rows; None if the version does not have it."""
    number = batch.program.list_of(kind, field)
    return None if number is None else len(r.EVENTS) + number


@cache
def _required(cls: type[Item]) -> dict[str, bool]:
    """Which fields every item of a class has."""
    return {field.name: field.required for field in msgspec.structs.fields(cls)}


def _fields(batch: Batch, cls: type[Item], owner: int | None, texts: Texts) -> dict[str, Column]:
    required = _required(cls)
    made: dict[str, Column] = {}
    for name, parts in parts_of(cls).items():
        if name in _LEFT_OUT or any(isinstance(part, Clock) for part in parts):
            continue
        part = parts[0] if parts else Byte()
        match part:
            case Choice():
                made["bits"] = _values(batch, owner, name, "bits", np.uint64)
                made["text"] = _texts(batch, owner, name, texts)
            case Text():
                made[name] = _texts(batch, owner, name, texts)
            case Many():
                counts = _values(batch, owner, name, "count", np.int64)
                made[name] = counts if required[name] else Optional(np.maximum(counts, 0), counts >= 0)
            case _:
                values = _values(batch, owner, name, "value", _dtype(parts))
                if (cls, name) in NAMED:
                    made[name] = _named(values, NAMED[cls, name])
                elif required[name]:
                    made[name] = values
                else:
                    known = owner is not None and batch.column(owner, name) is not None
                    made[name] = Optional(values, np.full(len(values), known))
    return made


def _values(batch: Batch, owner: int | None, field: str, role: str, dtype: type[Any]) -> Array:
    """A column; what the version does not have is 0, or -1 for a count."""
    values = None if owner is None else batch.column(owner, field, role)
    if values is None:
        rows = 0 if owner is None else batch.totals[owner]
        return np.full(rows, -1 if role == "count" else 0, dtype)
    return values.view(dtype) if values.dtype.itemsize == np.dtype(dtype).itemsize else values.astype(dtype)


def _texts(batch: Batch, owner: int | None, field: str, texts: Texts) -> Categories:
    found = None if owner is None else batch.texts(owner, field)
    if found is None:
        rows = 0 if owner is None else batch.totals[owner]
        return Categories(np.full(rows, -1, np.int32), texts.values)
    return Categories(texts.codes(batch.frame.data, *found), texts.values)


def _dtype(parts: tuple[Part, ...]) -> type[Any]:
    """The type of a field, such that all versions fit."""
    if all(isinstance(part, Byte) for part in parts):
        return np.uint8
    return np.int64 if all(isinstance(part, Sleb) and not part.pointer for part in parts) else np.uint64


def _named(values: Array, names: type[IntEnum]) -> Categories:
    """Numbers as the names that an enumeration has for them."""
    distinct, codes = np.unique(values, return_inverse=True) if values.dtype.itemsize > 1 else (None, values)
    known = {member.value: member.name.lower() for member in names}
    labels = [known.get(number, str(number)) for number in range(_BYTES)]
    if distinct is not None:  # beyond a byte there is no name
        places = np.minimum(distinct, _BYTES).astype(np.int32)
        return Categories(places[codes], [*labels, "unknown"])
    return Categories(codes.astype(np.int32), [*labels, "unknown"])
