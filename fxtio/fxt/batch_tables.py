"""What a batch of records contributes to the columns of tables: names, times, threads, events and arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.columns import Columns, Members, OptionalColumn, StreamColumn
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.enums import (
    ArgumentType,
    EventType,
    Scope,
)
from fxtio.fxt.reference_columns import StringColumn, ThreadColumn
from fxtio.fxt.slots import times_of
from fxtio.fxt.state import KERNEL, Batch
from fxtio.schema import (
    BYTES,
    TEXT,
    ColumnSpec,
    labeled,
)
from fxtio.table import Bytes, Categories, Column, Derived, Optional, joined

TableColumns = dict[str, Any]
"""Columns by name."""

Finish = Callable[[TableColumns, Batch], dict[str, Column | Derived]]
"""Makes the columns of a table of what its batches contributed; the batch is the last one."""

_EVENT_TYPES: dict[type[Record], EventType] = {
    cls: EventType(cls.words[0].fields["event_type"].value) for cls in r.EVENT_CLASSES.values()
}
EVENT_LABELS = [kind.name.lower() for kind in EventType]
_WITH_ID = tuple(number for cls, number in _EVENT_TYPES.items() if "id" in cls.__struct_fields__)
ARGUMENT_LABELS = [kind.name.lower() for kind in ArgumentType]

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

    def typed(self, values: Any, column: ColumnSpec, rows: Array) -> Column:
        """Return values of records as a column of a declared type; None is null for all of them."""
        if values is None:
            return column.nulls(len(rows), self.batch.strings.values)
        if column.labels is not None:
            return labeled(values, column.labels)
        if column.dtype == TEXT:
            return self.texts(values) if isinstance(values, StreamColumn) else self.names(values, rows)
        if column.dtype == BYTES:
            return Bytes(values.to_bytes())
        is_optional = isinstance(values, OptionalColumn)
        numbers: Array = (values.values if is_optional else values).astype(column.numbers, copy=False)
        if not column.dtype.endswith("?"):
            return numbers
        return Optional(numbers, values.present if is_optional else np.ones(len(rows), bool))

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
            "type": Categories(np.broadcast_to(np.int8(_EVENT_TYPES[cls]), len(rows)), EVENT_LABELS),
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
                        "type": Categories(members.many.kind, ARGUMENT_LABELS),
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
