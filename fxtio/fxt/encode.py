"""Encode tables to the bytes of many records, the inverse of `tables`.

The table of events is checked, and divided into columns of events, see `events`.  Tables that usually have few
rows are converted to typed records, row by row, with inline references.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
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
from fxtio.fxt.batch_tables import EVENT_LABELS
from fxtio.fxt.event_columns import EVENT_TYPES, EventTable, Indexed, argument_column, texts
from fxtio.fxt.events import ENDS_EARLY, check_count
from fxtio.fxt.layout import MAX_TEXT_BYTES
from fxtio.fxt.records import Thread
from fxtio.fxt.slots import NS_PER_SECOND, Clock
from fxtio.fxt.tables import TABLES, WRITABLE_TABLES, FxtTable, Member, Same, Source
from fxtio.table import Categories, Optional

NOT_IN_RECORDS = frozenset({"provider", "time"})
"""Columns that are written as other records, or follow from ticks."""


def providers_of(columns: Mapping[str, Any], rows: int) -> Iterator[tuple[int | None, slice]]:
    """Yield the runs of rows with the same provider: its id (None without such a column), and the rows.

    Raises:
        EncodeError: an id is null.
    """
    if "provider" not in columns:
        yield None, slice(0, rows)
        return
    ids = _without_null(columns, "provider")
    starts = [0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), rows]
    for begin, end in pairwise(starts):
        yield int(ids[begin]), slice(begin, end)


def ticks_of(columns: Mapping[str, Any], rows: slice, clock: Clock) -> Array:
    """Return the ticks of the rows of a table (uint64), from its columns `ticks` or `time`.

    Raises:
        EncodeError: both columns are missing, they do not agree, or a time is not a whole number of ticks.
    """
    given = {name: _without_null(columns, name)[rows] for name in ("ticks", "time") if name in columns}
    if not given:
        raise EncodeError("the table needs the column ticks or the column time", "columns")
    if "ticks" not in given:
        return _to_ticks(given["time"], clock, "time")
    if "time" in given:
        _check_same(clock.to_ns(given["ticks"]), given["time"], clock, "time")
    return given["ticks"]


def _without_null(columns: Mapping[str, Any], name: str) -> Array:
    """Return an optional column of numbers that has no null if it is given."""
    column: Array | Optional = columns[name]
    if isinstance(column, Optional):
        raise EncodeError("has a null", name)
    return column


def _to_ticks(times: Array, clock: Clock, where: str) -> Array:
    """Convert nanoseconds (int64) to ticks (uint64).

    Raises:
        EncodeError: no tick has one of these times, or it does not fit in 64 bits.
    """
    if len(times) and int(times.min()) < 0:
        raise EncodeError(f"{int(times.min())} is negative", where)
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
    """Check a column of nanoseconds (int64) that follow from ticks."""
    if (expected != given).any():
        row = int(np.argmax(expected != given))
        rate = f"{clock.ticks_per_second:,} ticks per second"
        raise EncodeError(f"{given[row]} ns does not agree with the ticks: at {rate} it is {expected[row]} ns", where)


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
    kind = columns["type"]
    has = {name: _has_field(name)[kind] for name in ("end", "id", "scope")}
    for name, field in (("end_ticks", "end"), ("duration", "end"), ("id", "id"), ("scope", "scope")):
        if name in columns:
            _check_owners(columns[name], has[field], kind, name, is_needed=name != "scope")
    ticks, tail = np.empty(rows, np.uint64), np.zeros(rows, np.uint64)
    for provider, run in providers_of(columns, rows):
        clock = clock_of(provider)
        ticks[run] = ticks_of(columns, run, clock)
        complete = np.flatnonzero(has["end"][run]) + run.start
        if len(complete):
            tail[complete] = _ends(columns, complete, clock, ticks[complete])
    if has["id"].any():
        if "id" not in columns:
            raise EncodeError("the column is missing; counters, async events and flow events need it", "id")
        tail[has["id"]] = _values(columns["id"])[has["id"]]
    check_count(args)
    arguments = {key: _argument_values(value, f"args[{key!r}]") for key, value in args.items()}
    for key in args:
        _check_text(key, "args")
    scope = columns.get("scope", Optional(np.zeros(rows, np.int64), np.zeros(rows, bool)))
    return EventTable(
        kind,
        ticks,
        _thread_column(columns),
        _strings(columns["name"], "name"),
        _strings(columns["category"], "category") if "category" in columns else Indexed([""], None),
        tail,
        OptionalColumn(_values(scope).astype(np.uint64), _present(scope)),
        {key: values for key, (values, _) in arguments.items()},
        {key: present for key, (_, present) in arguments.items() if not present.all()},
    )


def _has_field(name: str) -> Array:
    """Return for each event type whether its events have a field (bool)."""
    return np.array([name in cls.__struct_fields__ for cls in EVENT_TYPES])


def _values(column: Array | Optional) -> Array:
    return column.values if isinstance(column, Optional) else column


def _present(column: Array | Optional) -> Array:
    return column.present if isinstance(column, Optional) else np.ones(len(column), bool)


def _check_owners(column: Array | Optional, owners: Array, kind: Array, where: str, *, is_needed: bool) -> None:
    """Refuse values in rows of event types (`kind`) that have none, those not in `owners` (bool), and missing ones."""
    present = _present(column)
    for wrong, message in ((present & ~owners, "must be null for"), (owners & ~present & is_needed, "is null for")):
        if wrong.any():
            row = int(np.argmax(wrong))
            raise EncodeError(f"{message} {EVENT_LABELS[kind[row]]} events, as of row {row:,}", where)


def _ends(columns: Mapping[str, Any], rows: Array, clock: Clock, ticks: Array) -> Array:
    """Return the ends of complete events in ticks (uint64), from the columns `end_ticks` or `duration`.

    Args:
        columns: all columns.
        rows: the rows of the events.
        clock: their clock.
        ticks: their times in ticks.
    """
    begin = clock.to_ns(ticks)
    durations = _values(columns["duration"])[rows] if "duration" in columns else None
    if "end_ticks" in columns:
        ends: Array = _values(columns["end_ticks"])[rows]
        if durations is not None:
            _check_same(clock.to_ns(ends) - begin, durations, clock, "duration")
        if (ends < ticks).any():
            raise EncodeError(ENDS_EARLY, "end_ticks")
        return ends
    if durations is None:
        raise EncodeError("complete events need the column end_ticks or the column duration", "events")
    if int(durations.min()) < 0:
        raise EncodeError(ENDS_EARLY, "duration")
    end = begin + durations
    if int(end.min()) < 0:
        row = int(np.argmin(end))
        raise EncodeError(f"an event at {begin[row]} ns cannot last {durations[row]} ns", "duration")
    return _to_ticks(end, clock, "duration")


def _strings(column: Categories, where: str) -> Indexed:
    """Return a column of text without nulls; a reader has the null string for a slot that is not defined."""
    if int(column.codes.min()) < 0:
        raise EncodeError("has a null", where)
    strings = texts(column, len(column.codes), where)
    for text in strings.values:
        _check_text(text, where)
    return strings


def _check_text(text: str, where: str) -> None:
    if (length := len(text_bytes(text, where))) > MAX_TEXT_BYTES:
        raise EncodeError(f"{length:,} bytes of text are over the limit of {MAX_TEXT_BYTES:,}", where)


def _argument_values(column: Any, where: str) -> tuple[Indexed | Array, Array]:
    """Return the values of an argument, and the rows that have it (bool)."""
    values, present = column, np.ones(len(column), bool)
    if isinstance(column, Categories):
        values, present = (column.values or [""], np.maximum(column.codes, 0)), column.codes >= 0
    elif isinstance(column, Optional):
        values, present = column.values, column.present
    return argument_column(values, len(present), where), present


def _thread_column(columns: Mapping[str, Any]) -> Indexed:
    """Return the threads of the columns `process` and `thread`."""
    processes, process = np.unique(columns["process"], return_inverse=True)
    threads, thread = np.unique(columns["thread"], return_inverse=True)
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
    marks = [
        name
        for name, column in table.spec.columns.items()
        if column.written and any(isinstance(source.origin(name), Same) for source in table.sources)
    ]
    given = sorted({name for source in table.sources for name in source.given})
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        key = (*(lists[name][row] for name in marks), *(lists[name][row] is not None for name in given))
        groups.setdefault(key, []).append(row)
    for at in groups.values():
        able = [
            source
            for source in table.sources
            if all(lists[name][at[0]] is not None for name in source.given)
            and all(source.origin(name) == Same(lists[name][at[0]]) for name in marks)
        ]
        yield max(able, key=lambda source: len(source.given)), at


def _records_of_class(table: FxtTable, source: Source, values: dict[str, list[Any]], count: int) -> list[Record]:
    """Return rows as records of a class; what is wrong with numbers, the encoder of the records tells."""
    origins = {name: source.origin(name) for name in values if name not in NOT_IN_RECORDS}
    for name, origin in origins.items():
        if origin is None and any(value is not None for value in values[name]):
            raise EncodeError(f"must be null for {source.title}", name)
    fields: dict[str, list[Any]] = {}
    koids: dict[str, dict[str, list[Any]]] = {}
    args: list[tuple[Record, ...]] = [()] * count
    for name, origin in origins.items():
        column = values[name]
        if name in source.defaults:
            column = [source.defaults[name] if value is None else value for value in column]
        if origin is not None and table.spec.columns[name].labels is not None and None in column:
            raise EncodeError(f"must not be null for {source.title}", name)
        if isinstance(origin, Member):
            members = [() if value is None else (origin.cls(origin.name, value),) for value in column]
            args = [(*before, *member) for before, member in zip(args, members, strict=True)]
        elif isinstance(origin, str):
            field, _, part = origin.partition(".")
            if part:
                koids.setdefault(field, {})[part] = column
            else:
                fields[field] = column
    for field, parts in koids.items():
        fields[field] = [*map(Thread, parts["process"], parts.get("thread", [None] * count))]
    fields["args"] = [*args]
    return [*map(source.cls, *(fields[field] for field in source.cls.__struct_fields__))]


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
