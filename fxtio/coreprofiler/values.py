"""Columns of a class's records as they come from lines: what numpy alone does not have, and the way to records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.coreprofiler.layout import (
    MAX_64,
    UNDEFINED,
    Count,
    Decimal,
    Hexadecimal,
    Item,
    OsThread,
    Pointer,
    Several,
    ThreadNumber,
)
from fxtio.coreprofiler.lines import form_of

Array = np.ndarray[Any, Any]

ABSENT, TOLD_UNDEFINED, TOLD = range(3)
"""What is known of an instruction pointer."""


@dataclass(slots=True)
class IpColumn:
    """Instruction pointers.

    Attributes:
        values: the addresses (uint64).
        state: `ABSENT`, `TOLD_UNDEFINED` or `TOLD` (int8).
    """

    values: Array
    state: Array

    def __getitem__(self, rows: Array) -> IpColumn:
        return IpColumn(self.values[rows], self.state[rows])

    def to_list(self) -> list[int | None]:
        """As records have them."""
        values: list[int | None] = self.values.tolist()
        for row in np.flatnonzero(self.state != TOLD).tolist():
            values[row] = None if self.state[row] == ABSENT else UNDEFINED
        return values


@dataclass(slots=True)
class ThreadColumn:
    """Threads by Internal ID or by the number of the operating system.

    Attributes:
        values: the numbers (int64), -1 unknown.
        os: which are of the operating system (bool).
    """

    values: Array
    os: Array

    def __getitem__(self, rows: Array) -> ThreadColumn:
        return ThreadColumn(self.values[rows], self.os[rows])

    def to_list(self) -> list[int | OsThread | None]:
        """As records have them."""
        values: list[Any] = _or_none(self.values)
        for row in np.flatnonzero(self.os).tolist():
            values[row] = OsThread(values[row])
        return values


@dataclass(slots=True)
class ListColumn:
    """Compound items.

    Attributes:
        cls: their class.
        counts: how many each record has.
        columns: the parts of all of them.
    """

    cls: type[Any]
    counts: Array
    columns: dict[str, Any]

    def __getitem__(self, rows: Array) -> ListColumn:
        counts = self.counts[rows]
        begins = np.cumsum(self.counts) - self.counts
        places = np.arange(int(counts.sum())) + np.repeat(begins[rows] - (np.cumsum(counts) - counts), counts)
        return ListColumn(self.cls, counts, {name: column[places] for name, column in self.columns.items()})

    def to_list(self) -> list[tuple[Any, ...]]:
        """As records have them."""
        flat = list(map(self.cls, *lists_of(self.cls, self.columns)))
        ends = np.cumsum(self.counts)
        return [tuple(flat[a:b]) for a, b in zip((ends - self.counts).tolist(), ends.tolist(), strict=True)]


def lists_of(cls: type[Any], columns: dict[str, Any]) -> list[list[Any]]:
    """The columns of a class as lists of values, in the order of its fields."""
    items = {part.name: part.item for part in form_of(cls).parts}
    return [_to_list(columns[name], items.get(name)) for name in cls.__struct_fields__]


def _to_list(column: Any, item: Item | None) -> list[Any]:
    if not isinstance(column, np.ndarray):
        found: list[Any] = column.to_list()
        return found
    return _or_none(column) if isinstance(item, Count) or getattr(item, "unknown", False) else column.tolist()


def _or_none(column: Array) -> list[Any]:
    """Numbers, with None in place of -1."""
    values: list[Any] = column.tolist()
    return [None if value < 0 else value for value in values] if len(column) and column.min() < 0 else values


def columns_from(cls: type[Any], records: list[Any]) -> dict[str, Any]:
    """Columns of records that were read one by one."""
    form = form_of(cls)
    made = {part.name: _column_from(part.item, [getattr(one, part.name) for one in records]) for part in form.parts}
    for number, name in enumerate(form.filled):
        values = [getattr(one, name) for one in records]
        if isinstance(form.tail, Several):
            member, counts = form.tail.members[number], np.array([len(value) for value in values], np.int64)
            made[name] = ListColumn(member, counts, columns_from(member, [one for value in values for one in value]))
        else:
            made[name] = object_array(values)
    return made


def _column_from(item: Item, values: list[Any]) -> Any:
    if isinstance(item, Pointer) or item.optional:
        state = [ABSENT if value is None else TOLD_UNDEFINED if value == UNDEFINED else TOLD for value in values]
        return IpColumn(np.array([max(value or 0, 0) for value in values], np.uint64), np.array(state, np.int8))
    if isinstance(item, ThreadNumber):
        os = [isinstance(value, OsThread) for value in values]
        numbers = [value.number if isinstance(value, OsThread) else -1 if value is None else value for value in values]
        return ThreadColumn(np.array(numbers, np.int64), np.array(os, bool))
    if isinstance(item, Decimal | Hexadecimal):
        dtype = np.uint64 if item.high == MAX_64 else np.int64
        return np.array([-1 if value is None else value for value in values], dtype)
    return object_array(values)


def joined(first: Any, second: Any) -> Any:
    """Two columns of a kind, one behind the other."""
    if isinstance(first, IpColumn):
        return IpColumn(joined(first.values, second.values), joined(first.state, second.state))
    if isinstance(first, ThreadColumn):
        return ThreadColumn(joined(first.values, second.values), joined(first.os, second.os))
    if isinstance(first, ListColumn):
        columns = {name: joined(column, second.columns[name]) for name, column in first.columns.items()}
        return ListColumn(first.cls, joined(first.counts, second.counts), columns)
    return np.concatenate([first, second])


def object_array(values: list[Any]) -> Array:
    """Values of any kind as a column; tuples stay tuples."""
    return np.fromiter(values, object, len(values))
