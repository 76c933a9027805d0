"""The tables of a trace: one for the records of each class, one for each kind of compound items; made without loops.

Every record table begins with `offset`.  Texts are dictionary-encoded, pointers and times are integers; Internal IDs
are -1 where the file has `?`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np

from fxtio.coreprofiler.framing import Block
from fxtio.coreprofiler.layout import Flags, utc
from fxtio.coreprofiler.lines import form_of
from fxtio.coreprofiler.parts import AllocItem, AltItem, CodeInfo, Frame, HeapItem, IlMap
from fxtio.coreprofiler.records import RECORDS
from fxtio.coreprofiler.values import TOLD, IpColumn, ListColumn, ThreadColumn, columns_from
from fxtio.table import Array, Categories, Column, Growing, Optional, Table

_ITEM_TABLES: dict[type[Any], str] = {
    Frame: "frames",
    AllocItem: "allocations",
    AltItem: "survivors",
    HeapItem: "generations",
    CodeInfo: "code",
    IlMap: "il_map",
}


def _item_table(cls: type[Any], member: type[Any]) -> str:
    """The name of the table of a class's compound items; where several classes have such items, each has its own."""
    owners = [one for one in RECORDS if member in getattr(form_of(one).tail, "members", ())]
    return _ITEM_TABLES[member] if cls is owners[0] else f"{cls.table}_{_ITEM_TABLES[member]}"


_OF_CLASS = {cls.table: cls for cls in RECORDS}
_OF_ITEMS = {
    _item_table(cls, member): (cls, name)
    for cls in RECORDS
    for name, member in zip(form_of(cls).filled, getattr(form_of(cls).tail, "members", ()), strict=False)
}

TABLES: tuple[str, ...] = (*_OF_CLASS, *_OF_ITEMS)
"""The tables that a trace has."""


class Collector:
    """Puts the tables of many blocks together.

    Args:
        names: which tables.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        unknown = [name for name in names if name not in TABLES]
        if unknown:
            raise KeyError(f"no table {unknown[0]!r}; there are {', '.join(TABLES)}")
        self._names = names
        self._classes = {_OF_CLASS[name] if name in _OF_CLASS else _OF_ITEMS[name][0] for name in names}
        self._texts: dict[str, int] = {}
        self._values: list[str] = []
        self._columns: dict[str, dict[str, Growing]] = {name: {} for name in names}
        self._rows = dict.fromkeys(self._classes, 0)
        for cls in self._classes:
            self._add(cls, np.empty(0, np.int64), columns_from(cls, []), 0.0)

    def add(self, block: Block, share: float) -> None:
        """Take in the next block.

        Args:
            block: the block.
            share: how much of the whole is there with it (0 to 1), or 0 where nobody knows.
        """
        offsets = block.offsets()
        for cls in self._classes:
            rows, columns = block.columns(cls)
            if len(rows):
                self._add(cls, offsets[rows], columns, share)

    def tables(self) -> dict[str, Table]:
        """The tables."""
        return {
            name: Table({column: growing.column() for column, growing in columns.items()})
            for name, columns in self._columns.items()
        }

    def _add(self, cls: type[Any], offsets: Array, columns: dict[str, Any], share: float) -> None:
        if cls.table in self._columns:
            made: dict[str, Column] = {"offset": offsets}
            for name, column in columns.items():
                made |= self._made(cls, name, column)
            self._append(cls.table, made, share)
        for table, (owner, name) in _OF_ITEMS.items():
            if owner is cls and table in self._columns:
                items: ListColumn = columns[name]
                begin = self._rows[cls]
                made = {cls.table: np.repeat(np.arange(begin, begin + len(offsets)), items.counts)}
                for part, column in items.columns.items():
                    made |= self._made(items.cls, part, column)
                self._append(table, made, share)
        self._rows[cls] += len(offsets)

    def _append(self, table: str, made: dict[str, Column], share: float) -> None:
        for name, column in made.items():
            self._columns[table].setdefault(name, Growing()).append(column, share)

    def _made(self, cls: type[Any], name: str, column: Any) -> dict[str, Column]:
        """The columns of a table that a column of records becomes."""
        if isinstance(column, ListColumn):
            return {name: column.counts}
        if isinstance(column, IpColumn):
            return {name: Optional(column.values, column.state == TOLD)}
        if isinstance(column, ThreadColumn):
            return {name: column.values, f"{name}_of_system": column.os}
        if column.dtype != object:
            return {name: column}
        values: list[Any] = column.tolist()
        form = form_of(cls)
        if isinstance(form.tail, Flags) and name in form.filled:
            return {name: self._categories("".join("t" if flag else "f" for flag in value) for value in values)}
        if name == "time":
            return _times(values)
        return {name: self._categories(values)}

    def _categories(self, values: Any) -> Categories:
        codes = []
        for value in values:
            code = self._texts.get(value)
            if code is None:
                code = self._texts[value] = len(self._values)
                self._values.append(value)
            codes.append(code)
        return Categories(np.array(codes, np.int32), self._values)


def _times(values: list[datetime]) -> dict[str, Column]:
    """Local times: milliseconds since 1970 as the clock showed them, and minutes from UTC where they are told."""
    begin = datetime(1970, 1, 1)  # noqa: DTZ001
    shown = [round((value.replace(tzinfo=None) - begin).total_seconds() * 1000) for value in values]
    away = [round((utc(value).utcoffset() or value.max - value.max).total_seconds() / 60) for value in values]
    told = [value.tzinfo is not None for value in values]
    return {"time": np.array(shown, np.int64), "utc_offset": Optional(np.array(away, np.int64), np.array(told, bool))}
