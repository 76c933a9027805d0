"""Columns of the fields of many records: the types that numpy does not have, and conversion from and to records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import MAX_UINT64
from fxtio.coreprofiler.layout import (
    UNDEFINED,
    Count,
    Decimal,
    FixedItem,
    Hexadecimal,
    OsThread,
    Pointer,
    ThreadNumber,
)
from fxtio.coreprofiler.lines import layout_of
from fxtio.table import Optional

ABSENT, UNDEFINED_IP, PRESENT = range(3)
"""The states of an optional number: not in the file; given as `?`; given."""


@dataclass(slots=True)
class PointerColumn:
    """Optional numbers, such as instruction pointers.

    Attributes:
        values: the numbers (uint64).
        state: `ABSENT`, `UNDEFINED_IP` or `PRESENT` (int8).
    """

    values: Array
    state: Array

    def __getitem__(self, rows: Array) -> PointerColumn:
        return PointerColumn(self.values[rows], self.state[rows])

    def tolist(self) -> list[int | None]:
        """Return the values as records have them."""
        values: list[int | None] = self.values.tolist()
        for row in np.flatnonzero(self.state != PRESENT).tolist():
            values[row] = None if self.state[row] == ABSENT else UNDEFINED
        return values


@dataclass(slots=True)
class ThreadColumn:
    """Threads by Internal ID or by the number of the operating system.

    Attributes:
        values: the numbers (int64), -1 for `?`.
        os: whether each is a number of the operating system (bool).
    """

    values: Array
    os: Array

    def __getitem__(self, rows: Array) -> ThreadColumn:
        return ThreadColumn(self.values[rows], self.os[rows])

    def tolist(self) -> list[int | OsThread | None]:
        """Return the values as records have them."""
        values: list[Any] = none_if_negative(self.values)
        for row in np.flatnonzero(self.os).tolist():
            values[row] = OsThread(values[row])
        return values


@dataclass(slots=True)
class ListColumn:
    """Lists of compound items.

    Attributes:
        cls: the class of the items.
        counts: number of items of each record (int64).
        columns: the fields of all items.
    """

    cls: type[Any]
    counts: Array
    columns: dict[str, Any]

    def __getitem__(self, rows: Array) -> ListColumn:
        counts = self.counts[rows]
        begins = np.cumsum(self.counts) - self.counts
        items = np.arange(int(counts.sum())) + np.repeat(begins[rows] - (np.cumsum(counts) - counts), counts)
        return ListColumn(self.cls, counts, {name: column[items] for name, column in self.columns.items()})

    def tolist(self) -> list[tuple[Any, ...]]:
        """Return the lists as records have them."""
        items = list(map(self.cls, *lists_of(self.cls, self.columns)))
        ends = np.cumsum(self.counts)
        return [tuple(items[a:b]) for a, b in zip((ends - self.counts).tolist(), ends.tolist(), strict=True)]


def lists_of(cls: type[Any], columns: dict[str, Any]) -> list[list[Any]]:
    """Convert the columns of a class to lists of values, in the order of its fields."""
    items = {field.name: field.item for field in layout_of(cls).fields}
    return [_values(columns[name], items.get(name)) for name in cls.__struct_fields__]


def _values(column: Any, item: FixedItem | None) -> list[Any]:
    if isinstance(column, np.ndarray) and may_be_unknown(item):
        return none_if_negative(column)
    values: list[Any] = column.tolist()
    return values


def may_be_unknown(item: FixedItem | None) -> bool:
    """Return whether the item may be `?`, for which columns of numbers have -1 and records None."""
    return isinstance(item, Count) or getattr(item, "unknown", False)


def none_if_negative(column: Array) -> list[Any]:
    """Convert numbers to a list, with None in place of -1."""
    values: list[Any] = column.tolist()
    return [None if value < 0 else value for value in values] if len(column) and column.min() < 0 else values


def columns_from(cls: type[Any], records: list[Any]) -> dict[str, Any]:
    """Convert records (or compounds) of a class to columns."""
    layout = layout_of(cls)
    columns = {
        field.name: _column_from(field.item, [getattr(record, field.name) for record in records])
        for field in layout.fields
    }
    for name in layout.tail_fields:
        values = [getattr(record, name) for record in records]
        if (member := layout.members.get(name)) is not None:
            counts = np.array([len(value) for value in values], np.int64)
            columns[name] = ListColumn(
                member, counts, columns_from(member, [item for value in values for item in value])
            )
        else:
            columns[name] = object_array(values)
    return columns


def _column_from(item: FixedItem, values: list[Any]) -> Any:
    if isinstance(item, Pointer) or item.optional:
        return pointer_column(values)
    if isinstance(item, ThreadNumber):
        os = [isinstance(value, OsThread) for value in values]
        numbers = [value.number if isinstance(value, OsThread) else -1 if value is None else value for value in values]
        return ThreadColumn(np.array(numbers, np.int64), np.array(os, bool))
    if isinstance(item, Decimal | Hexadecimal):
        dtype = np.uint64 if item.high == MAX_UINT64 else np.int64
        return np.array([-1 if value is None else value for value in values], dtype)
    return object_array(values)


def pointer_column(values: Sequence[int | None]) -> PointerColumn:
    """Convert pointers as records have them to a column."""
    state = [ABSENT if value is None else UNDEFINED_IP if value == UNDEFINED else PRESENT for value in values]
    return PointerColumn(np.array([max(value or 0, 0) for value in values], np.uint64), np.array(state, np.int8))


def undefined_column(name: str) -> str:
    """Return the name of the table's column that marks the instruction pointers which the file gives as `?`."""
    return f"{name}_undefined"


def pointer_columns(name: str, column: PointerColumn) -> dict[str, Any]:
    """Return the columns of a table for instruction pointers: the numbers, and which of them are `?`."""
    return {
        name: Optional(column.values, column.state == PRESENT),
        undefined_column(name): column.state == UNDEFINED_IP,
    }


def joined(first: Any, second: Any) -> Any:
    """Concatenate two columns of the same type."""
    if isinstance(first, PointerColumn):
        return PointerColumn(joined(first.values, second.values), joined(first.state, second.state))
    if isinstance(first, ThreadColumn):
        return ThreadColumn(joined(first.values, second.values), joined(first.os, second.os))
    if isinstance(first, ListColumn):
        columns = {name: joined(column, second.columns[name]) for name, column in first.columns.items()}
        return ListColumn(first.cls, joined(first.counts, second.counts), columns)
    return np.concatenate([first, second])


def object_array(values: list[Any]) -> Array:
    """Convert values of any type to a column; tuples stay tuples."""
    return np.fromiter(values, object, len(values))
