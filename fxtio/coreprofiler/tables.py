"""The tables of a trace: one for the records of each class, one for each kind of compound items, and whole stacks.

A record table begins with `offset`, and with `time` (nanoseconds from the start of profiling) if the records have one.
Texts are dictionary-encoded, numbers and pointers are integers; an unknown number (`?`) is -1.  A list of compound
items is a `Lists` column of the record table, and the same items are the rows of a table of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import DistinctStrings
from fxtio.codec.docstrings import doc_of
from fxtio.codec.text.items import Flags, MarkedColumn, layout_of
from fxtio.codec.text.lines import Columns, ListColumn, columns_from
from fxtio.coreprofiler.frames import Block
from fxtio.coreprofiler.layout import (
    PRESENT,
    UNDEFINED_IP,
    LocalTime,
    Pointer,
    ThreadNumber,
    nanoseconds,
    nanoseconds_of,
    undefined_column,
)
from fxtio.coreprofiler.records import RECORDS, TIME_FIELD, MemorySample
from fxtio.coreprofiler.state import STACK_RECORDS, Stacks, ThreadStack
from fxtio.finding import Findings
from fxtio.schema import ColumnSpec, TableSpec, spec_of
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

NO_ROW = -1

_PLACE = "the place of the line in the file, in bytes"

STACK_SPECS = {
    "sample_stacks": TableSpec(
        "The whole stacks of samples",
        {
            "offset": ColumnSpec("int64", _PLACE),
            "time": ColumnSpec("int64", "nanoseconds from the start of profiling"),
            "thread": ColumnSpec("int64", "the Internal ID of the thread, -1 for `?`"),
            "count": ColumnSpec("int64", "sampling ticks; 0 in memory samples and for `?`"),
            "stack": ColumnSpec("int64", "the row in `stacks`, or -1 for an empty stack"),
            "matched": ColumnSpec("int64", "frames that were not left since the last sample"),
            "paused": ColumnSpec("bool", "whether profiling was paused"),
            "complete": ColumnSpec("bool", "false if lines were lost"),
            "sample": ColumnSpec("int64", "the row in `samples`, or -1"),
            "memory_sample": ColumnSpec("int64", "the row in `memory_samples`, or -1"),
        },
    ),
    "stacks": TableSpec(
        "Stacks: a top frame, and the stack below it",
        {
            "parent": ColumnSpec("int64", "the row of the stack below the top frame, or -1"),
            "depth": ColumnSpec("int64", "the number of frames below the top frame"),
            "function_iid": ColumnSpec("int64", "the Internal ID of the function of the top frame"),
            "ip": ColumnSpec("uint64?", "the instruction pointer of the top frame, null where there is none"),
            "ip_undefined": ColumnSpec("bool", "whether the file has `?`"),
        },
    ),
}
"""The tables of whole stacks.

A file gives only what changes on a stack, and whole stacks would be far longer than the file: a recursion that is
sampled at every call would need the square of its depth.  So a row of `stacks` has its top frame, and the row of the
stack below it.  A stack that several samples have is one row.
"""

TABLES: tuple[str, ...] = (*RECORD_TABLES, *ITEM_TABLES, *STACK_SPECS)
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


class _StackTables:
    """Builds the tables of whole stacks, block by block.

    Args:
        stacks: the stacks as they are before the first block.
    """

    def __init__(self, stacks: Stacks) -> None:
        self._stacks = stacks
        self._row_of: dict[tuple[int, int | None, int | None], int] = {}  # by the row below, function and pointer
        self._rows: dict[int | None, list[int]] = {}  # for each thread, the rows of its stack from the bottom up
        self._counts = [0, 0]  # samples and memory samples
        self._tables = {name: GrowingTable() for name in STACK_SPECS}
        self._append([], [], 0.0)

    def add(self, block: Block, share: float) -> None:
        """Take in the next block; `share` is as for `RecordCollector.add`."""
        samples: list[tuple[Any, ...]] = []
        frames: list[tuple[Any, ...]] = []
        for offset, record, thread, matched in self._stacks.follow(block.placed(*STACK_RECORDS)):
            is_memory = type(record) is MemorySample
            row = self._row(record.thread, thread, frames)
            number = self._counts[is_memory]
            self._counts[is_memory] += 1
            samples.append(
                (
                    offset,
                    nanoseconds(record.timestamp),
                    NO_ROW if record.thread is None else record.thread,
                    0 if is_memory else record.count or 0,
                    row,
                    matched,
                    self._stacks.paused,
                    thread.complete,
                    NO_ROW if is_memory else number,
                    number if is_memory else NO_ROW,
                )
            )
        self._append(samples, frames, share)

    def _row(self, iid: int | None, thread: ThreadStack, frames: list[tuple[Any, ...]]) -> int:
        """Return the row of a thread's stack, and add the rows that are new.

        Args:
            iid: the thread's Internal ID.
            thread: its stack.
            frames: receives the new rows.
        """
        rows = self._rows.setdefault(iid, []) if thread.followed else []
        begin = max(min(thread.unchanged - 1, len(rows)), 0)  # the pointer of the last unchanged frame may be new
        del rows[begin:]
        below = rows[-1] if rows else NO_ROW
        for depth, frame in enumerate(thread.frames[begin:], begin):
            key = below, frame.function_iid, frame.ip
            row = self._row_of.get(key)
            if row is None:
                row = self._row_of[key] = len(self._row_of)
                function = NO_ROW if frame.function_iid is None else frame.function_iid
                frames.append((below, depth, function, frame.ip))
            rows.append(row)
            below = row
        return below

    def _append(self, samples: list[tuple[Any, ...]], frames: list[tuple[Any, ...]], share: float) -> None:
        for name, rows in zip(STACK_SPECS, (samples, frames), strict=True):
            self._tables[name].append(_columns(name, rows), share)

    def tables(self) -> dict[str, Table]:
        """Return both tables."""
        return {name: Table(table.columns()) for name, table in self._tables.items()}


def _columns(table: str, rows: list[Any]) -> dict[str, Column]:
    """Convert rows of a table of whole stacks to columns; `ip` becomes two of them."""
    types = {name: column.numbers for name, column in STACK_SPECS[table].columns.items() if name != "ip_undefined"}
    values = zip(*rows, strict=True) if rows else ((),) * len(types)
    columns = dict(zip(types, values, strict=True))
    pointers = pointer_columns("ip", Pointer("ip").column([*columns.pop("ip")])) if "ip" in columns else {}
    return {name: np.array(column, types[name]) for name, column in columns.items()} | pointers


def pointer_columns(name: str, column: MarkedColumn) -> dict[str, Column]:
    """Return the columns of a table for instruction pointers: the numbers, and which of them are `?`."""
    return {
        name: Optional(column.values, column.marks == PRESENT),
        undefined_column(name): column.marks == UNDEFINED_IP,
    }


class RecordCollector:
    """Builds the tables of many blocks.

    Args:
        names: the tables, of `TABLES`.
        stacks: the stacks as they are before the first block, None if there is no block.
    """

    def __init__(self, names: tuple[str, ...], stacks: Stacks | None = None) -> None:
        stacks = stacks or Stacks(Findings("coreprofiler"))
        self._names = names
        self._stacks = _StackTables(stacks) if any(name in STACK_SPECS for name in names) else None
        self._records = [RECORD_TABLES[name] for name in names if name in RECORD_TABLES]
        lists = [ITEM_TABLES[name] for name in names if name in ITEM_TABLES]
        self._lists = dict.fromkeys(
            [*lists, *((cls, name) for cls in self._records for name in layout_of(cls).members)]
        )
        self._classes = dict.fromkeys([*self._records, *(cls for cls, _ in lists)])
        self._texts = DistinctStrings()
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
        return Categories(np.array([*map(self._texts.code, texts)], np.int32), self._texts.values)


def specs() -> dict[str, TableSpec]:
    """Return the columns of all tables: those of records and items have the meanings of their fields."""
    empty = RecordCollector(TABLES).tables()
    result = {}
    for name, cls in RECORD_TABLES.items():
        result[name] = spec_of(doc_of(cls).text.rstrip("."), empty[name], _meanings(cls), WRITABLE[name])
    for name, (cls, field) in ITEM_TABLES.items():
        item = layout_of(cls).members[field]
        owner = {row_column(cls): f"the row in `{cls.table}`"}
        meaning = f"{doc_of(item).text.rstrip('.')}: an item of `{field}` of `{cls.table}`"
        result[name] = spec_of(meaning, empty[name], owner | _meanings(item))
    return result | STACK_SPECS


_COMMON = {
    "offset": _PLACE,
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
