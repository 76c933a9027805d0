"""Rows of tables to buffers, the inverse of `tables`.

Rows are written by a kernel, without Python for each row.  All buffers are made before the first one is written, so
nothing is written if a value does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fxtio.arrays import Array, ranges
from fxtio.codec.stream.declare import (
    Clock,
    Dialect,
    FirstByteField,
    Relative,
    Repeated,
    Running,
    StreamPart,
    Text,
    enumeration_of,
    layout_of,
)
from fxtio.codec.stream.kernels import kernels
from fxtio.codec.stream.steps import Steps, steps_of
from fxtio.codec.stream.values import aligned, misfit, put_text, whole
from fxtio.errors import EncodeError
from fxtio.mono.buffers import MAX_EVENT_BYTES
from fxtio.mono.headers import BufferHeader, encode_buffer_header
from fxtio.mono.records import EVENTS, Event
from fxtio.mono.tables import EVENT_TABLES, IGNORED, LIST_TABLES, event_table
from fxtio.schema import fitting, numbers_of
from fxtio.table import MAX_TIME, Categories, Column, Optional, Table, WritableTable, checked_columns

Columns = Table | Mapping[str, Any]

FLAGS = frozenset({"backtrace_flags", "flags"})
"""Fields of versions before 13 without a meaning; their columns may be missing, and Mono always wrote 0."""

_FIRST_ROWS = 1 << 10
"""The bases of buffers are searched among this many values of a column."""


def encode_tables(dialect: Dialect, tables: Mapping[str, Columns]) -> tuple[list[bytes], int]:
    """Return the buffers of the rows of tables, and the number of events.

    The rows of a single table stay in order; those of several tables are sorted by thread and time.

    Args:
        dialect: the data version.
        tables: columns of tables of events and of lists, by name of the table.

    Raises:
        EncodeError: a table or column is unknown or missing, or a value does not fit.
    """
    steps = steps_of(dialect)
    lists = {name: _checked_list(name, columns, tables) for name, columns in tables.items() if name not in EVENT_TABLES}
    events = []
    for name, columns in tables.items():
        if name in EVENT_TABLES:
            checked, rows = checked_columns(columns, event_table(name))
            values = {LIST_TABLES[key].field: lists[key] for key in lists if LIST_TABLES[key].table == name}
            table = _EventRows(steps, EVENT_TABLES[name], checked, rows, values)
            if rows:
                events.append(table)
    return list(_encode(steps, events)), sum(table.rows for table in events)


def encode_columns(dialect: Dialect, name: str, columns: dict[str, Column], rows: int) -> list[bytes]:
    """Return the buffers of the rows of one of `WRITABLE_TABLES`, whose columns are checked already."""
    steps = steps_of(dialect)
    return list(_encode(steps, [_EventRows(steps, EVENT_TABLES[name], columns, rows, {})]))


def _checked_list(name: str, columns: Columns, tables: Mapping[str, Columns]) -> tuple[Array, Array]:
    """Return the rows of events and the values of a table of a list."""
    table = LIST_TABLES.get(name)
    if table is None or not table.value:
        raise EncodeError("cannot be written from columns", f"table {name}")
    if table.table not in tables:
        raise EncodeError(f"is written only together with {table.table}", f"table {name}")
    checked, _ = checked_columns(columns, WritableTable((table.row, table.value), (), IGNORED))
    row, value = (_numbers(checked[column], f"{name}.{column}") for column in (table.row, table.value))
    return row.astype(np.int64), fitting(value, np.uint64, f"{name}.{table.value}")


class _EventRows:
    """The rows of a table of events.

    Args:
        steps: the steps of the data version.
        cls: the kind of event.
        columns: the checked columns.
        rows: the number of rows.
        lists: for fields of lists, the row of each value and the values; other lists are empty.

    Attributes:
        time: the times (uint64).
        thread: the threads (uint64).
    """

    def __init__(
        self, steps: Steps, cls: type[Event], columns: dict[str, Column], rows: int,
        lists: dict[str, tuple[Array, Array]],
    ) -> None:  # fmt: skip
        dialect = steps.dialect
        layout = layout_of(cls, dialect.version)
        if layout is None:
            raise EncodeError(f"data version {dialect.version} does not have it", cls.__name__)
        self.steps, self.cls, self.layout, self.rows = steps, cls, layout, rows
        self.kind = EVENTS.index(cls)
        self.time = self._numbers("time", columns, np.uint64)
        if rows and int(self.time.max()) > MAX_TIME:
            raise EncodeError(f"values are not all from 0 to {MAX_TIME}", f"{cls.__name__}.time")
        self.thread = self._numbers("thread", columns, np.uint64) if "thread" in columns else np.zeros(rows, np.uint64)
        self.numbers: dict[str, Array] = {}
        flags: dict[str, Array] = {}  # which rows have a value of a field of `FLAGS`
        self.texts: dict[str, tuple[Array, list[bytes]]] = {}  # for each row the number of its text, -1 without one
        self.lists: dict[str, tuple[Array, Array, Array]] = {}  # counts, whether there is a list, values
        for name, part in layout.parts:
            column = columns.get(name)
            if isinstance(part, Repeated):
                self.lists[name] = self._list(name, part, column, lists.get(name))
            elif isinstance(part, Text):
                self.texts[name] = self._text(name, part, column)
            elif not isinstance(part, Clock):
                self.numbers[name], given = self._integers(name, column)
                if name in FLAGS:
                    flags[name] = given
                elif not given.all():
                    raise EncodeError("a row has no value", f"{cls.__name__}.{name}")
        for name in layout.absent:
            if name in columns and name != "time" and not _all_null(columns[name]):
                raise EncodeError(f"data version {dialect.version} does not have it", f"{cls.__name__}.{name}")
        for name, given in flags.items():
            self._check_flags(name, given)
        if unknown := lists.keys() - self.lists.keys():
            raise EncodeError(f"data version {dialect.version} does not have it", f"{cls.__name__}.{min(unknown)}")

    def _numbers(self, name: str, columns: dict[str, Column], dtype: type[Any]) -> Array:
        where = f"{self.cls.__name__}.{name}"
        return fitting(_numbers(columns[name], where), dtype, where)

    def _integers(self, name: str, column: Column | None) -> tuple[Array, Array]:
        """Return integers, 0 where there is none, and which rows have one (bool)."""
        if column is None:
            return np.zeros(self.rows, np.uint64), np.zeros(self.rows, bool)
        enumeration = enumeration_of(self.cls, name)
        numbers = None if enumeration is None else {member.name.lower(): int(member) for member in enumeration}
        values, present = _integers(column, f"{self.cls.__name__}.{name}", numbers)
        return (values, np.ones(self.rows, bool)) if present is None else (np.where(present, values, 0), present)

    def _check_flags(self, name: str, given: Array) -> None:
        """Check that rows with flags have the list with which the field comes."""
        when = dict(self.layout.parts)[name].when
        for field, part in self.layout.parts:
            is_owner = when is not None and isinstance(part, Repeated) and part.flag == when[0]
            if is_owner and (given & ~self.lists[field][1]).any():
                raise EncodeError("a row has flags, but no backtrace", f"{self.cls.__name__}.{name}")

    def _text(self, name: str, part: Text, column: Column | None) -> tuple[Array, list[bytes]]:
        where = f"{self.cls.__name__}.{name}"
        if column is None or _all_null(column):
            column = Categories(np.full(self.rows, -1, np.int32), [])
        if not isinstance(column, Categories):
            raise EncodeError("texts are needed", where)
        needed: Array = np.ones(self.rows, bool)
        if part.when is not None:
            needed = np.isin(self.numbers[part.when[0]], part.when[1])
        given = column.codes >= 0
        if (given != needed).any():
            row = int((given != needed).argmax())
            fault = "has a text, but none belongs there" if given[row] else "has no text, but one belongs there"
            raise EncodeError(f"row {row} {fault}", where)
        distinct, numbers = np.unique(column.codes, return_inverse=True)
        texts = [put_text(column.values[code], where)[:-1] for code in distinct.tolist() if code >= 0]
        return numbers - (len(distinct) - len(texts)), texts

    def _list(
        self, name: str, part: Repeated, column: Column | None, given: tuple[Array, Array] | None
    ) -> tuple[Array, Array, Array]:
        """Return the counts of a list, whether each row has the list, and the values."""
        where = f"{self.cls.__name__}.{name}"
        row, values = (np.empty(0, np.int64), np.empty(0, np.uint64)) if given is None else given
        if len(row) and (int(row.min()) < 0 or int(row.max()) >= self.rows or (np.diff(row) < 0).any()):
            raise EncodeError("the rows of a list are not in the order of the rows of its events", where)
        counts = np.bincount(row, minlength=self.rows).astype(np.int64)
        present = counts > 0 if part.flag else np.ones(self.rows, bool)
        if column is not None:
            sizes, mask = _integers(column, where)
            present = np.ones(self.rows, bool) if mask is None else mask
            if not np.array_equal(np.where(present, sizes, 0).astype(np.int64), counts):
                missing = "the values are missing; write the table of the list, too"
                other = "the counts are not those of the rows in the table of the list"
                raise EncodeError(missing if given is None else other, where)
        if not part.flag and not bool(present.all()):
            raise EncodeError("a row has no list", where)
        return counts, present, values

    def sort(self) -> None:
        """Sort the rows by thread and time."""
        if (self.thread == self.thread[:1]).all() and (self.time[1:] >= self.time[:-1]).all():
            return
        order = np.lexsort((self.time, self.thread))
        self.time, self.thread = self.time[order], self.thread[order]
        self.numbers = {name: values[order] for name, values in self.numbers.items()}
        self.texts = {name: (codes[order], texts) for name, (codes, texts) in self.texts.items()}
        for name, (counts, present, values) in self.lists.items():
            first, sizes = (np.cumsum(counts) - counts)[order], counts[order]
            self.lists[name] = sizes, present[order], values[ranges(first, sizes)]

    def lines(self) -> Array:
        """Return the number of each row's line in the steps (uint8)."""
        assert self.layout.word is not None
        name = self.cls.__name__
        first_byte: Any = np.uint64(self.layout.word.pattern("tag", "const")[1])
        for field, part in self.layout.parts:
            if isinstance(part, FirstByteField):
                values = fitting(self.numbers[field], np.uint64, f"{name}.{field}")
                first_byte = first_byte | part.field.put(values, name)
            elif isinstance(part, Repeated) and part.flag:
                present = self.lists[field][1].astype(np.uint64)
                first_byte = first_byte | self.layout.fields[part.flag].put(present, name)
        count = len(self.steps.lines)
        line_of = np.full(256, count, np.intp)
        for number, line in enumerate(self.steps.lines):
            if line.kind == self.kind:
                line_of[line.first_byte] = number
        lines = line_of.astype(np.uint8)[np.broadcast_to(first_byte, self.rows).astype(np.uint8)]
        if int(lines.max()) == count:
            row = int(lines.argmax())
            raise next(
                misfit(f"{name}.{field}", int(self.numbers[field][row]))
                for field, part in self.layout.parts
                if isinstance(part, FirstByteField)
                and part.field.meaning
                and int(self.numbers[field][row]) not in {*map(int, part.field.meaning)}
            )
        return lines

    def check_addresses(self) -> None:
        """Check that addresses have the size of those of the recording, and are multiples of their units.

        Raises:
            EncodeError: one does not, or is not.
        """
        for name, part in self.layout.parts:
            address, values = part, self.numbers.get(name)
            if isinstance(part, Repeated) and isinstance(part.of, StreamPart):
                address, values = part.of, self.lists[name][2]
            if isinstance(address, Relative | Running) and values is not None and len(values):
                where, shift = f"{self.cls.__name__}.{name}", address.shift if isinstance(address, Relative) else 0
                whole(int(values.max()), self.steps.dialect.mask, where)
                aligned(int(values[(values % (1 << shift)).argmax()]), shift, where)

    def fill(self, columns: list[Array | None], bases: dict[str, int], texts: bytearray) -> None:
        """Set the columns from which a kernel writes the rows, and the bases that are not set yet; add the texts."""
        for name, part in self.layout.parts:
            where = f"{self.cls.__name__}.{name}"
            if isinstance(part, Repeated):
                counts, _, values = self.lists[name]
                owner = self.steps.list_owner(self.kind, name)
                assert owner is not None
                self._set(columns, self.kind, name, "count", counts)
                if isinstance(part.of, StreamPart):
                    self._set(columns, owner, "", "value", values)
                    _add_base(part.of, values, bases)
            elif isinstance(part, Text):
                codes, raws = self.texts[name]
                size = np.array([*map(len, raws), 0], np.int64)  # the last one is that of the number -1
                begin = np.append(len(texts) + np.cumsum(size)[:-1] - size[:-1], -1)
                self._set(columns, self.kind, name, "text", begin[codes])
                self._set(columns, self.kind, name, "length", size[codes])
                texts += b"".join(raws)
            elif not isinstance(part, FirstByteField):
                values = self.time if isinstance(part, Clock) else self.numbers[name]
                number = self.steps.column_of(self.kind, name, "value")
                assert number is not None
                values = columns[number] = fitting(values, self.steps.columns[number].dtype, where)
                _add_base(part, values, bases)

    def _set(self, columns: list[Array | None], owner: int, field: str, role: str, values: Array) -> None:
        number = self.steps.column_of(owner, field, role)
        assert number is not None
        columns[number] = np.ascontiguousarray(values, self.steps.columns[number].dtype)


def _encode(steps: Steps, tables: list[_EventRows]) -> Iterator[bytes]:
    """Yield the buffers of the rows of tables."""
    if not tables:
        return
    if len(tables) > 1:
        for table in tables:
            table.sort()
    order: Array | slice = slice(None)
    if len(tables) > 1:
        times, threads = [table.time for table in tables], [table.thread for table in tables]
        order = np.lexsort((np.concatenate(times), np.concatenate(threads)))

    def merged(parts: list[Array]) -> Array:
        return np.concatenate(parts)[order] if len(parts) > 1 else parts[0]

    time, thread = merged([table.time for table in tables]), merged([table.thread for table in tables])
    changes = thread[1:] != thread[:-1]
    if any("time" in table.layout.absent for table in tables):  # only the header of a buffer has the time
        changes |= time[1:] != time[:-1]
    ends = [*(np.flatnonzero(changes) + 1).tolist(), len(time)]
    lines = merged([table.lines() for table in tables])
    columns: list[Array | None] = [None] * len(steps.columns)
    bases, texts = {"pointer": 0, "object": 0, "method": 0}, bytearray()
    for table in tables:
        table.fill(columns, bases, texts)
    rows, number, room = np.zeros(steps.owners, np.int64), 0, MAX_EVENT_BYTES
    kernel, fixed, all_texts = kernels(), tuple(columns), np.frombuffer(texts, np.uint8)
    for end in ends:
        while number < end:
            header = BufferHeader(time=int(time[number]), thread=int(thread[number]), **bases)
            registers = np.array([getattr(header, name) for name in steps.registers], np.uint64)
            out = np.empty(room, np.uint8)
            try:
                after, used = kernel.encode(steps, lines[:end], number, registers, fixed, all_texts, rows, out)
            except EncodeError:
                raise
            except ValueError as error:
                for table in tables:
                    table.check_addresses()
                raise EncodeError(str(error), "column") from None
            if after == number:  # an event that is larger than a buffer
                room *= 2
                continue
            yield encode_buffer_header(header, used) + out[:used].tobytes()
            number, room = after, MAX_EVENT_BYTES


def _add_base(part: StreamPart, values: Array, bases: dict[str, int]) -> None:
    """Set a base to the first value that is not null, if it is not set yet."""
    if isinstance(part, Relative | Running):
        base, shift = (part.base, part.shift) if isinstance(part, Relative) else (part.of, 0)
        first = values[:_FIRST_ROWS]
        first = first[first > 0]
        if len(first) and not bases[base]:
            bases[base] = int(first[0]) >> shift


def _all_null(column: Column) -> bool:
    if isinstance(column, Categories):
        return bool((column.codes < 0).all())
    return isinstance(column, Optional) and not column.present.any()


def _numbers(column: Column, where: str) -> Array:
    """Return a column as integers.

    Raises:
        EncodeError: a row has no value, or the column has something else than integers.
    """
    values, present = _integers(column, where)
    if present is not None:
        raise EncodeError("a row has no value", where)
    return values


def _integers(column: Column, where: str, numbers: dict[str, int] | None = None) -> tuple[Array, Array | None]:
    """Return a column as integers, and which rows have a value (None for all); names become their numbers."""
    if isinstance(column, Categories):
        used = set(np.unique(column.codes).tolist())
        values = [_number(text, numbers, where) if code in used else 0 for code, text in enumerate(column.values)]
        given, present = np.array([*values, 0], np.int64)[column.codes], column.codes >= 0
    else:
        given, present = numbers_of(column, where)
    return given, None if bool(present.all()) else present


def _number(text: str, numbers: dict[str, int] | None, where: str) -> int:
    if numbers is not None and text in numbers:
        return numbers[text]
    if numbers is None or not (text.isascii() and text.isdecimal()) or len(text) > 3:
        raise EncodeError(f"{text!r} is not the name of a number", where)
    return int(text)
