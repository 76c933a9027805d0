"""The writer of a trace, in the style of a dialect or of a trace that was read.

The rows of a table become records, and each record is encoded as any other, so what the format cannot express is
refused in the same way.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import numpy as np

from fxtio.codec.integers import checked_integer
from fxtio.codec.record import Opaque
from fxtio.codec.text.items import Flags, ItemField, Number, layout_of
from fxtio.coreprofiler.layout import (
    BYTE_ORDER_MARK,
    MAX_63,
    MIN_63,
    NS_PER_MS,
    UNDEFINED,
    LocalTime,
    OsThread,
    Pointer,
    Style,
    ThreadNumber,
    dialect,
    undefined_column,
)
from fxtio.coreprofiler.records import TIME_FIELD, Record, encode
from fxtio.coreprofiler.tables import RECORD_TABLES, WRITABLE, WRITABLE_ITEMS, os_column
from fxtio.errors import EncodeError
from fxtio.io.writing import FileWriter
from fxtio.report import counted
from fxtio.table import Lists, WritableTable, checked_columns

_BUFFER = 1 << 18


class CoreProfilerWriter(FileWriter):
    """A writer of CoreProfiler traces.

    `copy` takes over the style of the trace.  `write_table` takes every table of records; columns of lists are
    `fxtio.table.Lists`, or a list of dictionaries for each row.

    Args:
        target: what to write to, see `fxtio.create`.
        style: the name of a dialect, by default that of the given specification, or the style of a trace that was read.

    Attributes:
        style: the style.

    Raises:
        EncodeError: there is no such dialect, or it is neither a name nor a style.
        OSError: the target cannot be created.
    """

    format: ClassVar[str] = "coreprofiler"
    writable_tables: ClassVar[dict[str, WritableTable]] = WRITABLE

    def __init__(self, target: Any, *, style: str | Style = "D2") -> None:
        if not isinstance(style, str | Style):
            raise EncodeError(f"{style!r} is neither the name of a dialect nor a style", "style")
        try:
            self.style = dialect(style) if isinstance(style, str) else style
        except KeyError as error:
            raise EncodeError(str(error.args[0]), "style") from None
        self._is_fresh = True
        super().__init__(target, bytearray(BYTE_ORDER_MARK if self.style.mark else b""))

    def put(self, record: Record | Opaque) -> None:
        """Append a record in the writer's style.

        Raises:
            EncodeError: it is not a record, or the format cannot express it; nothing was written.
            ValueError: the writer is closed.
        """
        if self._closed:  # not a call, since there may be millions of records
            self._check_open()
        self._append(encode(record, self.style))

    def flush(self) -> None:
        """Hand what was gathered to the file."""
        super().flush()
        self._is_fresh = False

    def _copy(self, trace: Any) -> None:
        if not self._is_fresh:
            raise EncodeError("a copy must be the first thing that is written", "trace")
        self.style = trace.style
        self._out[:] = BYTE_ORDER_MARK if self.style.mark else b""
        self._is_fresh = False
        for raw in trace.raw_blocks():
            self._append(raw)

    def _write_rows(self, name: str, columns: dict[str, Any], rows: int) -> None:
        records = _records(RECORD_TABLES[name], columns, rows)
        self._append(b"".join(encode(record, self.style) for record in records))

    def _append(self, data: bytes) -> None:
        self._is_fresh = False
        self._out += data
        if len(self._out) > _BUFFER:
            self.flush()


def _records(cls: type[Any], columns: dict[str, Any], rows: int) -> list[Any]:
    """Make a record, or a compound item, of each row."""
    layout = layout_of(cls)
    values = {
        field.name: _times(columns["time"]) if field.name == TIME_FIELD else _field_values(field, columns, rows)
        for field in layout.fields
        if field.name in columns or field.name == TIME_FIELD or isinstance(field.item, Pointer)
    }
    for name in layout.tail_fields:
        if name not in columns:
            continue
        if name in layout.members:
            values[name] = _item_lists(layout.members[name], columns[name], f"{cls.__name__}.{name}")
        elif isinstance(layout.tail, Flags):
            values[name] = [_flags(text, f"{cls.__name__}.{name}") for text in columns[name].tolist()]
        else:
            values[name] = columns[name].tolist()
    defaults = dict(zip(reversed(cls.__struct_fields__), reversed(cls.__struct_defaults__), strict=False))
    fields = [values[name] if name in values else [defaults[name]] * rows for name in cls.__struct_fields__]
    return [cls(*row) for row in zip(*fields, strict=True)]


def _field_values(field: ItemField, columns: dict[str, Any], rows: int) -> list[Any]:
    """Return the values of a field, as records have them."""
    name, item = field.name, field.item
    values = columns[name].tolist() if name in columns else [None] * rows
    if isinstance(item, ThreadNumber):
        is_os = _marks(os_column(name), columns, rows)
        return [OsThread(value) if os else _known(value) for value, os in zip(values, is_os, strict=True)]
    if isinstance(item, Pointer):
        undefined = _marks(undefined_column(name), columns, rows)
        return [_pointer(value, missing, name) for value, missing in zip(values, undefined, strict=True)]
    if isinstance(item, LocalTime):
        return [_local_time(value, name) for value in values]
    return [_known(value) for value in values] if isinstance(item, Number) and item.unknown else values


def _marks(name: str, columns: dict[str, Any], rows: int) -> list[bool]:
    """Return a column of True and False; False if there is none."""
    values = columns[name].tolist() if name in columns else [False] * rows
    for value in values:
        if type(value) is not bool:
            raise EncodeError(f"{value!r} is neither True nor False", name)
    return values


def _pointer(value: Any, is_undefined: bool, name: str) -> Any:
    """Return an instruction pointer as records have it."""
    if not is_undefined:
        if value == UNDEFINED:
            raise EncodeError(f"{value!r} is not an address; `{undefined_column(name)}` marks undefined ones", name)
        return value
    if value is not None:
        raise EncodeError(f"{value!r} is an address, but is marked as undefined", name)
    return UNDEFINED


def _known(value: Any) -> Any:
    """Return the value, or None for -1, which stands for an unknown number in tables."""
    return None if value == -1 else value


def _times(column: Any) -> list[int]:
    """Convert nanoseconds to milliseconds."""
    times = []
    for time in column.tolist():
        milliseconds, rest = divmod(checked_integer(time, "time", MIN_63 * NS_PER_MS, MAX_63 * NS_PER_MS), NS_PER_MS)
        if rest:
            raise EncodeError(f"{time:,} ns is not a whole number of milliseconds", "time")
        times.append(milliseconds)
    return times


def _local_time(value: Any, where: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise EncodeError(f"{value!r} is not a date and time in ISO format", where) from None


def _flags(value: Any, where: str) -> tuple[bool, ...]:
    if not isinstance(value, str) or not set(value) <= {"t", "f"}:
        raise EncodeError(f"{value!r} is not a text of t and f", where)
    return tuple(letter == "t" for letter in value)


def _item_lists(member: type[Any], column: Any, where: str) -> list[tuple[Any, ...]]:
    """Convert a column of lists to tuples of compound items."""
    if not isinstance(column, Lists):
        raise EncodeError("a column of lists is needed", where)
    if column.counts.dtype.kind not in "iu":
        raise EncodeError(f"counts of type {column.counts.dtype} are not integers", where)
    if (column.counts < 0).any() or int(column.counts.sum()) != column.items.num_rows:
        items_there = counted(column.items.num_rows, "item")
        message = f"the counts add up to {int(column.counts.sum()):,}, but the column has {items_there}"
        raise EncodeError(message, where)
    items: list[Any] = []
    if column.items.num_rows:
        items = _records(member, *checked_columns(column.items, WRITABLE_ITEMS[member]))
    ends = np.cumsum(column.counts).tolist()
    return [tuple(items[end - count : end]) for count, end in zip(column.counts.tolist(), ends, strict=True)]
