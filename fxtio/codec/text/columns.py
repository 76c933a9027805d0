"""Columns of the fields of many records, and their conversion from and to records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.text.declare import layout_of
from fxtio.codec.text.items import MarkedColumn, object_array

Columns = dict[str, Any]
"""For every field of a record its column."""


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
    columns: Columns

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


def lists_of(cls: type[Any], columns: Columns) -> list[list[Any]]:
    """Convert the columns of a class to lists of values, in the order of its fields."""
    layout = layout_of(cls)
    lists = [field.item.values(columns[field.name]) for field in layout.fields]
    return lists + [columns[name].tolist() for name in layout.tail_fields]


def columns_from(cls: type[Any], records: list[Any]) -> Columns:
    """Convert records (or compounds) of a class to columns."""
    layout = layout_of(cls)
    columns = {
        field.name: field.item.column([getattr(record, field.name) for record in records]) for field in layout.fields
    }
    for name in layout.tail_fields:
        values = [getattr(record, name) for record in records]
        if (member := layout.members.get(name)) is not None:
            counts = np.array([len(value) for value in values], np.int64)
            items = columns_from(member, [item for value in values for item in value])
            columns[name] = ListColumn(member, counts, items)
        else:
            columns[name] = object_array(values)
    return columns


def joined(first: Any, second: Any) -> Any:
    """Concatenate two columns of the same type."""
    if isinstance(first, MarkedColumn):
        return MarkedColumn(joined(first.values, second.values), joined(first.marks, second.marks))
    if isinstance(first, ListColumn):
        columns = {name: joined(column, second.columns[name]) for name, column in first.columns.items()}
        return ListColumn(first.cls, joined(first.counts, second.counts), columns)
    return np.concatenate([first, second])
