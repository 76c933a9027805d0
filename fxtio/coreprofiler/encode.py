"""Tables to lines: the inverse of `tables`.

The rows of a table become records, and each record is encoded as any other, so what the format cannot express is
refused in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import numpy as np

from fxtio.coreprofiler.columns import may_be_unknown
from fxtio.coreprofiler.layout import (
    NS_PER_MS,
    UNDEFINED,
    Flags,
    Item,
    LocalTime,
    OsThread,
    Pointer,
    Style,
    ThreadNumber,
)
from fxtio.coreprofiler.lines import Layout, encode, layout_of
from fxtio.coreprofiler.records import Compound
from fxtio.coreprofiler.tables import (
    ITEM_TABLES,
    RECORD_TABLES,
    TIME_FIELD,
    Items,
    os_column,
    row_column,
    undefined_column,
)
from fxtio.errors import EncodeError
from fxtio.table import Categories, Optional, Table

Columns = Table | Mapping[str, Any]

_IGNORED_ITEM_COLUMNS = frozenset(row_column(cls) for cls, _ in ITEM_TABLES.values())


def lines_of(name: str, columns: Columns, style: Style) -> list[bytes]:
    """Encode the rows of a record table.

    Args:
        name: the table.
        columns: the columns that `CoreProfilerTrace.table` gives: arrays, `Categories`, `Optional`, `Items`, lists, or
            scalars for all rows.  Columns of optional fields may be missing, and `offset` is ignored.
        style: the style of the lines.

    Returns:
        A line with its end for each row.

    Raises:
        EncodeError: there is no such table, a column is unknown or missing, or a value does not fit.
    """
    if name not in RECORD_TABLES:
        raise EncodeError(f"no table {name!r} can be written; the tables are {', '.join(RECORD_TABLES)}", "table")
    cls = RECORD_TABLES[name]
    return [encode(record, style) for record in _records(cls, dict(columns.items()), name)]


def _records(cls: type[Any], columns: dict[str, Any], table: str) -> list[Any]:
    """Make a record, or a compound item, of each row."""
    for name in _IGNORED_ITEM_COLUMNS if issubclass(cls, Compound) else ("offset",):
        columns.pop(name, None)
    rows = _row_count(columns, table)
    layout = layout_of(cls)
    lists = {name: columns.pop(name) for name in layout.members if name in columns}
    remaining = {name: _to_list(column, rows) for name, column in columns.items()}
    values = {field.name: _field_values(field.name, field.item, remaining, rows, table) for field in layout.fields}
    for name in layout.tail_fields:
        if (member := layout.members.get(name)) is not None:
            values[name] = _item_lists(member, lists[name], f"{table}.{name}") if name in lists else None
            continue
        texts = remaining.pop(name, None)
        if texts is not None and isinstance(layout.tail, Flags):
            texts = [_flags(text, f"{table}.{name}") for text in texts]
        values[name] = texts
    if remaining:
        where = f"{table}.{next(iter(remaining))}"
        raise EncodeError(f"there is no such column; the columns are {_column_names(layout)}", where)
    required = len(cls.__struct_fields__) - len(cls.__struct_defaults__)
    for number, name in enumerate(cls.__struct_fields__):
        if values[name] is None:
            if number < required:
                raise EncodeError("the column is missing", f"{table}.{'time' if name == TIME_FIELD else name}")
            values[name] = [cls.__struct_defaults__[number - required]] * rows
    return [cls(*row) for row in zip(*(values[name] for name in cls.__struct_fields__), strict=True)]


def _column_names(layout: Layout) -> str:
    names = ["time" if field.name == TIME_FIELD else field.name for field in layout.fields]
    return ", ".join([*names, *layout.tail_fields])


def _is_scalar(column: Any) -> bool:
    return column is None or isinstance(column, str | bytes | int | float | np.generic | datetime)


def _row_count(columns: dict[str, Any], table: str) -> int:
    """Return the number of rows; scalars alone are one row."""
    rows: int | None = None
    for name, column in columns.items():
        if _is_scalar(column):
            continue
        if isinstance(column, np.ndarray) and column.ndim != 1:
            raise EncodeError(f"the array has {column.ndim} dimensions instead of one", f"{table}.{name}")
        try:
            size = len(column)
        except TypeError:
            raise EncodeError(f"a {type(column).__name__} is not a column", f"{table}.{name}") from None
        if rows is not None and size != rows:
            raise EncodeError(f"the column has {size:,} rows, others have {rows:,}", f"{table}.{name}")
        rows = size
    return 1 if rows is None else rows


def _to_list(column: Any, rows: int) -> list[Any]:
    if isinstance(column, np.generic):
        column = column.item()
    if _is_scalar(column):
        return [column] * rows
    if isinstance(column, np.ndarray):
        values: list[Any] = column.tolist()
        return values
    if isinstance(column, Categories | Optional | Items):
        return column.to_list()
    return [value.item() if isinstance(value, np.generic) else value for value in column]


def _field_values(name: str, item: Item, columns: dict[str, list[Any]], rows: int, table: str) -> list[Any] | None:
    """Take the columns of a field out of `columns` and return its values; None where the column is missing."""
    if name == TIME_FIELD:
        times = columns.pop("time", None)
        return None if times is None else [_milliseconds(time, table) for time in times]
    values = columns.pop(name, None)
    if isinstance(item, ThreadNumber):
        is_os = columns.pop(os_column(name), [False] * rows)
        if values is None:
            return None
        return [OsThread(value) if os else _known(value) for value, os in zip(values, is_os, strict=True)]
    if isinstance(item, Pointer):
        undefined = columns.pop(undefined_column(name), [False] * rows)
        values = [None] * rows if values is None else values
        return [UNDEFINED if missing else value for value, missing in zip(values, undefined, strict=True)]
    if values is None:
        return None
    if isinstance(item, LocalTime):
        return [_local_time(value, f"{table}.{name}") for value in values]
    return [_known(value) for value in values] if may_be_unknown(item) else values


def _known(value: Any) -> Any:
    """Return the value, or None for -1, which stands for an unknown number in tables."""
    return None if value == -1 else value


def _milliseconds(time: Any, table: str) -> int:
    if type(time) is not int:
        raise EncodeError(f"{time!r} is not an integer", f"{table}.time")
    milliseconds, rest = divmod(time, NS_PER_MS)
    if rest:
        raise EncodeError(f"{time:,} ns is not a whole number of milliseconds", f"{table}.time")
    return milliseconds


def _local_time(value: Any, where: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError as error:
        raise EncodeError(str(error), where) from None


def _flags(value: Any, where: str) -> Any:
    if not isinstance(value, str):
        if not isinstance(value, Iterable):
            raise EncodeError(f"{value!r} is neither a text of t and f nor a list of bools", where)
        return tuple(value)
    if not set(value) <= {"t", "f"}:
        raise EncodeError(f"{value!r} has other letters than t and f", where)
    return tuple(letter == "t" for letter in value)


def _item_lists(member: type[Any], column: Any, where: str) -> list[tuple[Any, ...]]:
    """Convert a column of lists to tuples of compound items."""
    if isinstance(column, Items):
        items = _records(member, dict(column.table.items()), where) if column.table.num_rows else []
        ends = np.cumsum(column.counts).tolist()
        return [tuple(items[end - count : end]) for count, end in zip(column.counts.tolist(), ends, strict=True)]
    lists = []
    for value in column:
        if not isinstance(value, Iterable) or isinstance(value, str | bytes):
            raise EncodeError(f"{value!r} is not a list of items", where)
        lists.append(tuple(_item(member, item, where) for item in value))
    return lists


def _item(member: type[Any], value: Any, where: str) -> Any:
    """Convert an item, given as a compound or as a dictionary of its columns."""
    return _records(member, dict(value), where)[0] if isinstance(value, Mapping) else value
