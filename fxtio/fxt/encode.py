"""Encode tables to the bytes of many records, the inverse of `tables`.

The table of events is checked, and divided into columns of events, see `events`.  Tables that usually have few
rows are converted to typed records, row by row, with inline references.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.columns import OptionalColumn
from fxtio.codec.generate import Order, encode_buffers
from fxtio.codec.integers import MAX_UINT64, text_bytes
from fxtio.codec.record import Record
from fxtio.errors import EncodeError, shown
from fxtio.fxt import records as r
from fxtio.fxt.enums import Scope
from fxtio.fxt.event_columns import MAX_COLUMN_TEXT, EventColumns, Indexed, texts
from fxtio.fxt.events import ENDS_EARLY, check_count
from fxtio.fxt.layout import MAX_STRING_SLOT, MAX_TEXT_BYTES, MAX_THREAD_SLOT
from fxtio.fxt.records import Thread
from fxtio.fxt.slots import NS_PER_SECOND, Clock
from fxtio.fxt.tables import TABLES, WRITABLE_TABLES, FxtTable, Member, Same, Source
from fxtio.schema import BYTES, TEXT, ColumnSpec, Labels, numbers_of_labels
from fxtio.table import MAX_TIME, Categories, Optional

MAX_ROWS = 1 << 18
"""The most rows of a table that are encoded at once."""

NOT_IN_RECORDS = frozenset({"provider", "time"})
"""Columns that are written as other records, or follow from ticks."""


def providers_of(columns: Mapping[str, Any], rows: int) -> Iterator[tuple[int | None, slice]]:
    """Yield the runs of rows with the same provider: its id (None without such a column), and the rows.

    Raises:
        EncodeError: an id is not an integer or is null.
    """
    if "provider" not in columns:
        yield None, slice(0, rows)
        return
    ids = unsigned(columns["provider"], "provider")
    starts = [0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), rows]
    for begin, end in pairwise(starts):
        yield int(ids[begin]), slice(begin, end)


def ticks_of(columns: Mapping[str, Any], rows: slice, clock: Clock) -> Array:
    """Return the ticks of the rows of a table (uint64), from its columns `ticks` or `time`.

    Raises:
        EncodeError: both columns are missing, they do not agree, or a time is not a whole number of ticks.
    """
    if "ticks" in columns:
        ticks = unsigned(columns["ticks"], "ticks")[rows]
        if "time" in columns:
            times, present = optional_integers(columns["time"], "time")
            if not present.all():
                raise EncodeError("has a null", "time")
            _check_same(clock.to_ns(ticks), times[rows], clock, "time")
        return ticks
    if "time" not in columns:
        raise EncodeError("the table needs the column ticks or the column time", "columns")
    return _to_ticks(unsigned(columns["time"], "time")[rows], clock, "time")


def _to_ticks(times: Array, clock: Clock, where: str) -> Array:
    """Convert nanoseconds to ticks (uint64).

    Raises:
        EncodeError: no tick has one of these times, or it does not fit in 64 bits.
    """
    rate = clock.ticks_per_second
    if rate == NS_PER_SECOND:
        return times.astype(np.uint64)
    ticks = [-(-time * rate // NS_PER_SECOND) for time in times.tolist()]
    for tick, time in zip(ticks, times.tolist(), strict=True):
        if clock.ns(tick) != time:
            raise EncodeError(f"{time} ns is not the time of a tick, at {rate:,} ticks per second", where)
        if tick > MAX_UINT64:
            raise EncodeError(f"{time} ns does not fit in 64 bits, at {rate:,} ticks per second", where)
    return np.array(ticks, np.uint64)


def _check_same(expected: Array, given: Array, clock: Clock, where: str) -> None:
    """Check integers, a column of nanoseconds, that follow from ticks."""
    wrong = expected != given
    if given.dtype.kind == "u":  # numpy compares such numbers as floats
        wrong = (expected < 0) | (expected.view(np.uint64) != given.astype(np.uint64))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        rate = f"{clock.ticks_per_second:,} ticks per second"
        raise EncodeError(f"{given[row]} ns does not agree with the ticks: at {rate} it is {expected[row]} ns", where)


def unsigned(column: Any, where: str) -> Array:
    """Return a column of integers as uint64.

    Raises:
        EncodeError: it has other values, a negative value or a null.
    """
    values, present = optional_unsigned(column, where)
    if not present.all():
        raise EncodeError("has a null", where)
    return values


def optional_unsigned(column: Any, where: str) -> tuple[Array, Array]:
    """Return a column of integers as uint64, 0 for null, and the rows that are not null (bool).

    Raises:
        EncodeError: it has other values, or a negative value.
    """
    values, present = optional_integers(column, where)
    if values.dtype.kind == "i" and len(values) and int(values.min()) < 0:
        raise EncodeError(f"{int(values.min())} is negative", where)
    return values.astype(np.uint64), present


def optional_integers(column: Any, where: str) -> tuple[Array, Array]:
    """Return a column of integers of any type, 0 for null, and the rows that are not null (bool).

    Raises:
        EncodeError: it has other values.
    """
    values, present = column, np.ones(len(column), bool)
    if isinstance(column, Optional):
        values, present = np.where(column.present, column.values, column.values.dtype.type(0)), column.present
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu":
        name = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise EncodeError(f"a column of {name} is not a column of integers", where)
    return values, present


@dataclass(frozen=True, slots=True)
class EventTable:
    """The checked columns of a table of events.

    Attributes:
        kind: the index of the event type in `EVENT_CLASSES` (int64).
        ticks: the times in ticks (uint64).
        thread: the threads, `Thread` values.
        name: the names.
        category: the categories.
        tail: the `end` or the `id` of the events that have one (uint64).
        scope: the scope of the instants that have one.
        args: the arguments by name.
        present: for arguments that not all rows have, by name, the rows that have it (bool).
    """

    kind: Array
    ticks: Array
    thread: Indexed
    name: Indexed
    category: Indexed
    tail: Array
    scope: OptionalColumn
    args: dict[str, Indexed | Array]
    present: dict[str, Array]

    def groups(self, rows: Array) -> list[EventColumns]:
        """Return some rows (indices) by event type."""
        return [self._group(kind, rows[self.kind[rows] == kind]) for kind in np.unique(self.kind[rows]).tolist()]

    def _group(self, kind: int, rows: Array) -> EventColumns:
        cls = list(r.EVENT_CLASSES.values())[kind]
        present = {key: mask[rows] for key, mask in self.present.items()}
        keys = [key for key in self.args if key not in present or present[key].any()]
        return EventColumns(
            cls,
            rows,
            self.ticks[rows],
            self.thread.take(rows),
            self.name.take(rows),
            self.category.take(rows),
            {key: value.take(rows) if isinstance(value := self.args[key], Indexed) else value[rows] for key in keys},
            self._tail(cls, rows),
            {key: mask for key, mask in present.items() if key in keys},
        )

    def _tail(self, cls: type[r.Event], rows: Array) -> dict[str, Array | OptionalColumn]:
        if cls is r.Instant:
            return {"scope": OptionalColumn(self.scope.values[rows], self.scope.present[rows])}
        return {name: self.tail[rows] for name in ("end", "id") if name in cls.__struct_fields__}

    def chunks(self, rows: slice) -> Iterator[list[EventColumns]]:
        """Yield rows in parts whose strings and threads fit in the tables of a provider, each part by event type."""
        pending = [
            np.arange(begin, min(begin + MAX_ROWS, rows.stop)) for begin in range(rows.start, rows.stop, MAX_ROWS)
        ]
        pending.reverse()
        while pending:
            part = pending.pop()
            groups = self.groups(part)
            threads = {thread for group in groups for thread in group.thread.values}
            if len(part) > 1 and (
                sum(group.strings for group in groups) > MAX_STRING_SLOT or len(threads) > MAX_THREAD_SLOT
            ):
                half = len(part) // 2
                pending += [part[half:], part[:half]]
            else:
                yield groups


def event_table(
    columns: Mapping[str, Any], args: Mapping[str, Any], rows: int, clock_of: Callable[[int | None], Clock]
) -> EventTable:
    """Return a table of events, checked.

    Args:
        columns: the columns.
        args: the columns of arguments by name.
        rows: the number of rows.
        clock_of: returns the clock of a provider id, or of the main provider for None.

    Raises:
        EncodeError: the format cannot represent something.
    """
    kinds = {kind: index for index, kind in enumerate(r.EVENT_CLASSES)}
    types = _strings(columns["type"], "type")
    if unknown := set(types.values) - set(kinds):
        raise EncodeError(f"{min(unknown)!r} is not an event type; the types are {', '.join(kinds)}", "type")
    kind = np.array([kinds[label] for label in types.values], np.int64)[types.codes]
    has_end = np.isin(kind, [kinds[name] for name, cls in r.EVENT_CLASSES.items() if "end" in cls.__struct_fields__])
    has_id = np.isin(kind, [kinds[name] for name, cls in r.EVENT_CLASSES.items() if "id" in cls.__struct_fields__])
    ticks, tail = np.empty(rows, np.uint64), np.zeros(rows, np.uint64)
    for provider, run in providers_of(columns, rows):
        clock = clock_of(provider)
        ticks[run] = ticks_of(columns, run, clock)
        if has_end[run].any():
            tail[run] = np.where(has_end[run], _end_ticks(columns, run, clock, ticks[run], has_end[run]), np.uint64(0))
    for name, has_value in (("id", has_id), ("end_ticks", has_end), ("duration", has_end)):
        if name in columns:
            _check_others_null(columns[name], has_value, types, name)
    if has_id.any():
        tail[has_id] = _present_only(_column(columns, "id", "counters, async events and flow events"), has_id, "id")
    check_count(args)
    arguments = {key: _argument_values(value, f"args[{key!r}]") for key, value in args.items()}
    for key in args:
        _check_text(key, "args")
    return EventTable(
        kind,
        ticks,
        _thread_column(columns),
        _strings(columns["name"], "name"),
        _strings(columns["category"], "category") if "category" in columns else Indexed([""], None),
        tail,
        _scopes(columns, kind == kinds["instant"]),
        {key: values for key, (values, _) in arguments.items()},
        {key: present for key, (_, present) in arguments.items() if not present.all()},
    )


def _column(columns: Mapping[str, Any], name: str, owners: str) -> Any:
    if name not in columns:
        raise EncodeError(f"the column is missing; {owners} need it", name)
    return columns[name]


def _present_only(column: Any, rows: Array, where: str) -> Array:
    """Return the values of some rows (bool) as uint64.

    Raises:
        EncodeError: one of them is null, negative or not an integer.
    """
    values, present = optional_unsigned(column, where)
    if not present[rows].all():
        raise EncodeError("is null for an event that needs it", where)
    return values[rows]


def _check_others_null(column: Any, rows: Array, types: Indexed, where: str) -> None:
    """Refuse values in rows (bool) of event types that have no such value."""
    _, present = optional_integers(column, where)
    others = np.flatnonzero(present & ~rows)
    if len(others):
        assert types.codes is not None
        label = types.values[int(types.codes[others[0]])]
        raise EncodeError(f"must be null for {label} events, as of row {int(others[0]):,}", where)


def _end_ticks(columns: Mapping[str, Any], run: slice, clock: Clock, ticks: Array, has_end: Array) -> Array:
    """Return the ends of complete events in ticks (uint64), from the columns `end_ticks` or `duration`.

    Args:
        columns: all columns.
        run: the rows.
        clock: the clock of these rows.
        ticks: their times in ticks.
        has_end: which of them are complete events (bool).
    """
    begin = clock.to_ns(ticks)[has_end]
    ends = np.zeros(len(ticks), np.uint64)
    durations = None
    if columns.get("duration") is not None:
        values, present = optional_integers(columns["duration"], "duration")
        if not present[run][has_end].all():
            raise EncodeError("is null for a complete event", "duration")
        durations = values[run][has_end]
    if "end_ticks" in columns:
        values, present = optional_unsigned(columns["end_ticks"], "end_ticks")
        if not present[run][has_end].all():
            raise EncodeError("is null for a complete event", "end_ticks")
        ends[has_end] = values[run][has_end]
        if durations is not None:
            _check_same(clock.to_ns(ends[has_end]) - begin, durations, clock, "duration")
        if (ends < ticks)[has_end].any():
            raise EncodeError(ENDS_EARLY, "end_ticks")
        return ends
    if durations is None:
        raise EncodeError("complete events need the column end_ticks or the column duration", "events")
    if len(durations) and int(durations.max()) > MAX_TIME:
        raise EncodeError(f"{int(durations.max())} ns does not fit in 63 bits", "duration")
    if len(durations) and int(durations.min()) < 0:
        raise EncodeError(ENDS_EARLY, "duration")
    end = begin + durations.astype(np.int64)
    if len(end) and int(end.min()) < 0:
        row = int(np.argmin(end))
        raise EncodeError(f"an event at {begin[row]} ns cannot last {durations[row]} ns", "duration")
    ends[has_end] = _to_ticks(end.astype(np.uint64), clock, "duration")
    return ends


def _scopes(columns: Mapping[str, Any], is_instant: Array) -> OptionalColumn:
    """Return the scopes of instants; all other events (not `is_instant`, bool) have none.

    Raises:
        EncodeError: a scope is neither a name nor a number, or an event of another type has one.
    """
    column = columns.get("scope", Categories(np.full(len(is_instant), -1, np.int32), []))
    if isinstance(column, Optional) and not column.present.any():
        column = Categories(np.full(len(is_instant), -1, np.int32), [])
    if not isinstance(column, Categories):
        raise EncodeError("is not a column of text", "scope")
    present = column.codes >= 0
    if (present & ~is_instant).any():
        raise EncodeError("must be null for events that are no instants", "scope")
    values = np.array(_numbers(column.values, Scope, "scope") or [0], np.uint64)
    return OptionalColumn(values[column.codes], present)


def _strings(column: Any, where: str) -> Indexed:
    """Return a column of text without nulls; a reader has the null string for a slot that is not defined."""
    if not isinstance(column, Categories):
        raise EncodeError("is not a column of text", where)
    if len(column.codes) and int(column.codes.min()) < 0:
        raise EncodeError("has a null", where)
    strings = texts(column, len(column.codes), where)
    for text in strings.values:
        _check_text(text, where)
    return strings


def _check_text(text: str, where: str, limit: int = MAX_TEXT_BYTES) -> None:
    if (length := len(text_bytes(text, where))) > limit:
        raise EncodeError(f"{length:,} bytes of text are over the limit of {limit:,}", where)


def _argument_values(column: Any, where: str) -> tuple[Indexed | Array, Array]:
    """Return the values of an argument, and the rows that have it (bool)."""
    if isinstance(column, Categories):
        present = column.codes >= 0
        strings = texts((column.values or [""], np.maximum(column.codes, 0)), len(present), where)
        for text in strings.values:
            _check_text(text, where, MAX_COLUMN_TEXT)
        return strings, present
    values, present = column, np.ones(len(column), bool)
    if isinstance(column, Optional):
        values, present = column.values, column.present
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
        raise EncodeError("no argument type holds such a column", where)
    return values, present


def _thread_column(columns: Mapping[str, Any]) -> Indexed:
    """Return the threads of the columns `process` and `thread`."""
    processes, process = np.unique(unsigned(columns["process"], "process"), return_inverse=True)
    threads, thread = np.unique(unsigned(columns["thread"], "thread"), return_inverse=True)
    pairs, codes = np.unique(process.astype(np.int64) * len(threads) + thread, return_inverse=True)
    koids = zip(processes[pairs // len(threads)].tolist(), threads[pairs % len(threads)].tolist(), strict=True)
    return Indexed([Thread(*pair) for pair in koids], codes.astype(np.int64))


# ---- tables with few rows, as typed records


def table_records(
    name: str, columns: Mapping[str, Any], rows: int, clock_of: Callable[[int | None], Clock], order: Order
) -> list[tuple[int | None, list[bytes | memoryview]]]:
    """Encode the rows of a table as records with inline references.

    Args:
        name: the table, one of `WRITABLE_TABLES` but not `events`.
        columns: the columns.
        rows: the number of rows.
        clock_of: returns the clock of a provider id, or of the main provider for None.
        order: the byte order.

    Returns:
        For each run of rows with the same provider its id (None without such a column), and the records as buffers.

    Raises:
        EncodeError: the format cannot represent something.
    """
    lists = {key: value.tolist() for key, value in columns.items()}
    lists |= {key: [None] * rows for key in WRITABLE_TABLES[name].optional if key not in lists}
    runs = []
    for provider, run in providers_of(columns, rows):
        if "time" in WRITABLE_TABLES[name].optional:
            lists["ticks"][run] = ticks_of(columns, run, clock_of(provider)).tolist()
        records = _records(TABLES[name], lists, range(run.start, run.stop))
        runs.append((provider, [buffer for record in records for buffer in encode_buffers(record, order)]))
    return runs


def _records(table: FxtTable, lists: dict[str, list[Any]], rows: range) -> list[Record]:
    """Return rows as records, the inverse of what `fxtio.fxt.tables` makes of them."""
    records: list[Any] = [None] * len(rows)
    for source, at in _sources(table, lists, rows):
        values = {name: [lists[name][row] for row in at] for name in lists}
        for row, record in zip(at, _records_of_class(table, source, values, len(at)), strict=True):
            records[row - rows.start] = record
    return records


def _sources(table: FxtTable, lists: dict[str, list[Any]], rows: range) -> Iterator[tuple[Source, list[int]]]:
    """Yield the classes of records that rows are written as, each with its rows."""
    if len(table.sources) == 1:
        yield table.sources[0], [*rows]
        return
    marks = {
        name: dict(zip(rows, _field_values(lists[name][rows.start : rows.stop], column, name), strict=True))
        for name, column in table.spec.columns.items()
        if column.written and any(isinstance(source.origin(name), Same) for source in table.sources)
    }
    given = sorted({name for source in table.sources for name in source.given})
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        key = (*(marks[name][row] for name in marks), *(lists[name][row] is not None for name in given))
        groups.setdefault(key, []).append(row)
    for at in groups.values():
        able = [
            source
            for source in table.sources
            if all(lists[name][at[0]] is not None for name in source.given)
            and all(source.origin(name) == Same(numbers[at[0]]) for name, numbers in marks.items())
        ]
        yield max(able, key=lambda source: len(source.given)), at


def _records_of_class(table: FxtTable, source: Source, values: dict[str, list[Any]], count: int) -> list[Record]:
    """Return rows as records of a class; what is wrong with numbers, the encoder of the records tells."""
    origins = {name: source.origin(name) for name in values if name not in NOT_IN_RECORDS}
    for name, origin in origins.items():
        if origin is None and any(value is not None for value in values[name]):
            raise EncodeError(f"must be null for {source.title or values['type'][0]}", name)
    fields: dict[str, list[Any]] = {}
    koids: dict[str, dict[str, list[Any]]] = {}
    args: list[tuple[Record, ...]] = [()] * count
    for name, origin in origins.items():
        column = values[name]
        if name in source.defaults:
            column = [source.defaults[name] if value is None else value for value in column]
        if isinstance(origin, Member):
            members = [() if value is None else (origin.cls(origin.name, value),) for value in column]
            args = [(*before, *member) for before, member in zip(args, members, strict=True)]
        elif isinstance(origin, str):
            field, _, part = origin.partition(".")
            if part:
                koids.setdefault(field, {})[part] = column
            else:
                fields[field] = _field_values(column, table.spec.columns[name], name)
    for field, parts in koids.items():
        fields[field] = [*map(Thread, parts["process"], parts.get("thread", [None] * count))]
    fields["args"] = [*args]
    return [*map(source.cls, *(fields[field] for field in source.cls.__struct_fields__))]


def _field_values(column: list[Any], spec: ColumnSpec, name: str) -> list[Any]:
    """Return the values of a column as a field of records has them."""
    if spec.labels is not None:
        return _numbers(column, spec.labels, name)
    kind, title = {TEXT: (str, "text"), BYTES: (bytes, "bytes")}.get(spec.dtype, (object, ""))
    for value in column:
        if not isinstance(value, kind):
            raise EncodeError(f"{value!r} is not {title}", name)
    return column


def _numbers(column: Sequence[Any], labels: Labels, name: str) -> list[int]:
    """Return the numbers that labels stand for, see `fxtio.schema.labeled`.

    Raises:
        EncodeError: a value is not one of the labels.
    """
    numbers = numbers_of_labels(labels)
    for label in column:
        if not isinstance(label, str) or label not in numbers:
            raise EncodeError(f"{shown(label)} is not one of {', '.join(numbers)}", name)
    return [numbers[label] for label in column]


def check_defined(value: Any, enumeration: type[IntEnum], where: str) -> None:
    """Check a number whose values have names; what is no integer is left to the encoder of the record.

    Raises:
        EncodeError: the value has no name.
    """
    try:
        number = operator.index(value)
    except TypeError:
        return
    if number not in {member.value for member in enumeration}:
        known = ", ".join(f"{member.value} {member.name.lower()}" for member in enumeration)
        raise EncodeError(f"{shown(value)} is not one of {known}; `put` writes records with other values", where)
