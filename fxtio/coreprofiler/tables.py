"""The tables of a trace: one for the records of each class, one for each kind of compound items, and whole stacks.

A record table begins with `offset`, and with `time` (nanoseconds from the start of profiling) if the records have one.
Texts are dictionary-encoded, numbers and pointers are integers; an unknown number (`?`) is -1.  A list of compound
items is a `Lists` column of the record table, and the same items are the rows of a table of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.pages import doc_of
from fxtio.codec.text.items import Flags, layout_of
from fxtio.codec.text.lines import Columns, ListColumn, columns_from
from fxtio.coreprofiler.calltree import STACK_TABLES, StackTables, pointer_columns
from fxtio.coreprofiler.frames import Block
from fxtio.coreprofiler.layout import LocalTime, Pointer, ThreadNumber, nanoseconds_of, undefined_column
from fxtio.coreprofiler.records import RECORDS, TIME_FIELD
from fxtio.coreprofiler.state import Stacks
from fxtio.finding import Findings
from fxtio.schema import TableSpec, spec_of
from fxtio.table import Categories, Column, Derived, Growing, GrowingTable, Lists, Optional, Table, WritableTable

RECORD_TABLES: dict[str, type[Any]] = {cls.table: cls for cls in RECORDS}
"""The tables of records, with the classes of their rows."""


def row_column(cls: type[Any]) -> str:
    """Return the name of the column that refers to rows of the class's table: the singular of the table's name."""
    name: str = cls.table.removesuffix("s")
    return name


def _item_tables() -> dict[str, tuple[type[Any], str]]:
    """Return the tables of items, each with the record class and its field.

    The first class that has a kind of items has the plain name; in the names of the others, the class comes first.
    """
    tables: dict[str, tuple[type[Any], str]] = {}
    for cls in RECORDS:
        for name, member in layout_of(cls).members.items():
            table = member.table if member.table not in tables else f"{row_column(cls)}_{member.table}"
            tables[table] = cls, name
    return tables


ITEM_TABLES = _item_tables()
"""The tables of compound items, with the record class and its field that holds them."""

TABLES: tuple[str, ...] = (*RECORD_TABLES, *ITEM_TABLES, *STACK_TABLES)
"""The names of all tables."""


def os_column(name: str) -> str:
    """Return the name of the column that marks the threads which are numbers of the operating system."""
    return f"{name}_is_os"


def _writable(cls: type[Any], *ignored: str) -> WritableTable:
    """Return the columns of a record or compound class that can be written."""
    required = len(cls.__struct_fields__) - len(cls.__struct_defaults__)
    names = ["time" if name == TIME_FIELD else name for name in cls.__struct_fields__]
    marks = [undefined_column(field.name) for field in layout_of(cls).fields if isinstance(field.item, Pointer)]
    marks += [os_column(field.name) for field in layout_of(cls).fields if isinstance(field.item, ThreadNumber)]
    return WritableTable(tuple(names[:required]), (*names[required:], *marks), ignored)


WRITABLE = {cls.table: _writable(cls, "offset") for cls in RECORDS}
"""The columns of each record table that can be written."""

WRITABLE_ITEMS = {
    member: _writable(member, *(row_column(cls) for cls in RECORDS))
    for cls in RECORDS
    for member in layout_of(cls).members.values()
}
"""The columns of the items of lists that can be written, by their classes."""


class RecordCollector:
    """Builds the tables of many blocks.

    Args:
        names: the tables, of `TABLES`.
        stacks: the stacks as they are before the first block.
    """

    def __init__(self, names: tuple[str, ...], stacks: Stacks) -> None:
        self._names = names
        self._stacks = StackTables(stacks) if any(name in STACK_TABLES for name in names) else None
        self._records = [RECORD_TABLES[name] for name in names if name in RECORD_TABLES]
        lists = [ITEM_TABLES[name] for name in names if name in ITEM_TABLES]
        self._lists = dict.fromkeys(
            [*lists, *((cls, name) for cls in self._records for name in layout_of(cls).members)]
        )
        self._classes = dict.fromkeys([*self._records, *(cls for cls, _ in lists)])
        self._texts: dict[str, int] = {}
        self._values: list[str] = []
        self._tables: dict[Any, GrowingTable] = {key: GrowingTable() for key in (*self._records, *self._lists)}
        self._counts = {key: Growing() for key in self._lists}
        for cls in self._classes:
            self._add(cls, np.empty(0, np.int64), columns_from(cls, []), 0.0)

    def add(self, block: Block, share: float) -> None:
        """Take in the next block.

        Args:
            block: the block.
            share: the part of the whole that has been read with it (0 to 1), or 0 where it is unknown.
        """
        offsets = block.offsets()
        for cls in self._classes:
            rows, columns = block.columns(cls)
            if len(rows):
                self._add(cls, offsets[rows], columns, share)
        if self._stacks is not None:
            self._stacks.add(block, share)

    def tables(self) -> dict[str, Table]:
        """Return the tables."""
        columns = {key: table.columns() for key, table in self._tables.items()}
        counts: dict[Any, Any] = {key: growing.column() for key, growing in self._counts.items()}
        stacks = {} if self._stacks is None else self._stacks.tables()
        tables = {}
        for name in self._names:
            if name in stacks:
                tables[name] = stacks[name]
            elif name in RECORD_TABLES:
                cls = RECORD_TABLES[name]
                lists = {key: Lists(counts[key], Table(columns[key])) for key in counts if key[0] is cls}
                items: dict[str, Any] = {field: lists[cls, field] for field in layout_of(cls).members}
                tables[name] = Table(columns[cls] | items)
            else:
                key = ITEM_TABLES[name]
                tables[name] = Table({row_column(key[0]): Derived(_row_numbers(counts[key])), **columns[key]})
        return tables

    def _add(self, cls: type[Any], offsets: Array, columns: Columns, share: float) -> None:
        if cls in self._tables:
            result: dict[str, Column] = {"offset": offsets}
            if TIME_FIELD in columns:
                result["time"] = nanoseconds_of(columns[TIME_FIELD])
            self._tables[cls].append(result | self._table_columns(cls, columns), share)
        for key in self._lists:
            if key[0] is cls:
                column: ListColumn = columns[key[1]]
                self._counts[key].append(column.counts, share)
                self._tables[key].append(self._table_columns(column.cls, column.columns), share)

    def _table_columns(self, cls: type[Any], columns: Columns) -> dict[str, Column]:
        """Convert columns of records or items to columns of a table, without times and lists."""
        layout = layout_of(cls)
        result: dict[str, Column] = {}
        for field in layout.fields:
            column = columns[field.name]
            if isinstance(field.item, Pointer):
                result |= pointer_columns(field.name, column)
            elif isinstance(field.item, ThreadNumber):
                result[field.name] = column.values
                result[os_column(field.name)] = column.marks
            elif field.item.optional:
                result[field.name] = Optional(column.values, column.marks)
            elif column.dtype != object:
                if field.name != TIME_FIELD:
                    result[field.name] = column
            elif isinstance(field.item, LocalTime):
                result[field.name] = self._categories([field.item.describe(value) for value in column.tolist()])
            else:
                result[field.name] = self._categories(column.tolist())
        if not layout.members:
            for name in layout.tail_fields:
                texts = columns[name].tolist()
                if isinstance(layout.tail, Flags):
                    texts = [layout.tail.describe(flags) for flags in texts]
                result[name] = self._categories(texts)
        return result

    def _categories(self, texts: list[str]) -> Categories:
        codes = []
        for text in texts:
            code = self._texts.get(text)
            if code is None:
                code = self._texts[text] = len(self._values)
                self._values.append(text)
            codes.append(code)
        return Categories(np.array(codes, np.int32), self._values)


def specs() -> dict[str, TableSpec]:
    """Return the columns of all tables: those of records and items have the meanings of their fields."""
    empty = RecordCollector(TABLES, Stacks(Findings("coreprofiler"))).tables()
    result = {}
    for name, cls in RECORD_TABLES.items():
        result[name] = spec_of(doc_of(cls).text.rstrip("."), empty[name], _meanings(cls), WRITABLE[name])
    for name, (cls, field) in ITEM_TABLES.items():
        item = layout_of(cls).members[field]
        owner = {row_column(cls): f"the row in `{cls.table}`"}
        meaning = f"{doc_of(item).text.rstrip('.')}: an item of `{field}` of `{cls.table}`"
        result[name] = spec_of(meaning, empty[name], owner | _meanings(item))
    for name, cls in STACK_TABLES.items():
        doc = doc_of(cls)
        result[name] = spec_of(doc.text.rstrip("."), empty[name], _meanings(cls))
    return result


_COMMON = {
    "offset": "the place of the line in the file, in bytes",
    "time": "nanoseconds from the start of profiling",
    "thread": "the Internal ID of the thread, -1 for `?`",
    "function_iid": "the Internal ID of the function, -1 for `?`",
    "class_iid": "the Internal ID of the class, -1 for `?`",
    "status": "the result as the profiling interface told it (HRESULT)",
    "token": "the token in the metadata of the module",
    "items": "the items, which have a table of their own",
}


def _meanings(cls: type[Any]) -> dict[str, str]:
    """Return the meanings of the columns of a class of records or items."""
    result = _COMMON | doc_of(cls).attributes
    for name in cls.__struct_fields__:
        result[os_column(name)] = "whether it is a number of the operating system"
        result[undefined_column(name)] = "whether the file has `?`"
    return result


def _row_numbers(counts: Array) -> Any:
    """Return a function that makes the row number of each item."""
    return lambda: np.repeat(np.arange(len(counts)), counts)
