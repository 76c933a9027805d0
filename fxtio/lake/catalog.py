"""The rows of `traces`, and which files of a trace are whole.

The rows that were read or added are kept in one file, so that a question does not open thousands of files of one row.
It may be removed at any time: a row in it counts only while the file in `traces` that has it is there, unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from fxtio.lake.layout import LATER, SUFFIX, TRACES, file_of, identity_in, name_of, schema_of
from fxtio.lake.store import Entry, Store, StoreError
from fxtio.timeline.sql import QueryError, query_errors

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyarrow import MapArray, Schema, Table

NAME = f"_catalog/{TRACES}{SUFFIX}"
"""The file of all rows; engines that read a lake leave out names that begin with `_`."""

_WORTH = 100
"""With this many new rows the file is written again."""

_AT_ONCE = 8
"""How many rows are read at once: those of an object store take long to arrive."""

_STATE = ("stored", "changed")
"""Further columns of the file: size of the file in `traces` that has a row, and the time when it was written."""


def catalog_of(store: Store, connection: DuckDBPyConnection) -> tuple[Table, list[str]]:
    """Return the rows of all traces of a lake, and the names of files in `traces` that cannot be read.

    Args:
        store: the files of the lake.
        connection: a database, which reads many files at once.

    Raises:
        OSError, StoreError: the lake cannot be read.
    """
    import pyarrow as pa

    files = _files(store)
    known = _known(store, files)
    new = sorted(files.keys() - {*known["id"].to_pylist()})
    fresh = _read_together(store, connection, new)
    if fresh is None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            rows = [*pool.map(lambda identity: row_of(store, identity), new)]
        fresh = pa.concat_tables([schema_of(TRACES).empty_table(), *(row for row in rows if row is not None)])
    ids = fresh["id"].to_pylist()
    table = _with_new(store, known, fresh, [files[each] for each in ids])
    return table.select(schema_of(TRACES).names), [files[each].name for each in sorted({*new} - {*ids})]


def keep_added(store: Store, added: Mapping[Entry, Mapping[str, Any]]) -> None:
    """Keep rows that were just written, if they are many, so that the first question need not read them.

    Args:
        store: the files of the lake.
        added: the rows by the files that have them.
    """
    if len(added) < _WORTH:
        return
    with suppress(OSError, StoreError):
        files = _files(store)
        for row in added.values():
            files.pop(row["id"], None)  # a question may have kept it meanwhile
        _with_new(store, _known(store, files), table_of([*added.values()]), [*added])


def _files(store: Store) -> dict[str, Entry]:
    """Return the files in `traces` by the ids of their traces."""
    return {identity: entry for entry in store.entries(TRACES) if (identity := identity_in(entry.name)) is not None}


def _with_new(store: Store, known: Table, fresh: Table, entries: Sequence[Entry]) -> Table:
    """Return kept rows and those of files that are new, with `_STATE`; if the latter are many, keep them as well."""
    import pyarrow as pa

    for name, state in zip(_STATE, ("size", "changed"), strict=True):
        fresh = fresh.append_column(name, pa.array([getattr(each, state) for each in entries], pa.int64()))
    table = pa.concat_tables([known, fresh])
    if len(fresh) >= _WORTH:
        with suppress(OSError, StoreError):  # who may only read a lake does without
            _keep(store, table)
    return table


def table_of(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows of `traces` as an Arrow table."""
    import pyarrow as pa

    values = [
        {name: [*value.items()] if isinstance(value, dict) else value for name, value in row.items()} for row in rows
    ]
    return pa.Table.from_struct_array(pa.array(values, pa.struct(schema_of(TRACES))))


def _read_together(store: Store, connection: DuckDBPyConnection, ids: Sequence[str]) -> Table | None:
    """Return the rows of some traces; None if that of one cannot be read, or they are few."""
    import pyarrow as pa

    if len(ids) < _WORTH:
        return None
    schema = schema_of(TRACES)
    with suppress(QueryError, StoreError, OSError, ValueError, pa.ArrowException), query_errors():
        store.make_view(connection, "new_traces", [name_of(TRACES, each) for each in ids])
        found = connection.table("new_traces").columns
        columns = [f"null as {name}" if name in {*LATER} - {*found} else name for name in schema.names]
        table = connection.sql(f"select {', '.join(columns)} from new_traces").to_arrow_table()
        table = _checked(table, schema)
        return table if table is not None and sorted(table["id"].to_pylist()) == ids else None
    return None


def _schema() -> Schema:
    import pyarrow as pa

    schema = schema_of(TRACES)
    for name in _STATE:
        schema = schema.append(pa.field(name, pa.int64()))
    return schema


def _known(store: Store, files: Mapping[str, Entry]) -> Table:
    """Return the kept rows, with `_STATE`, whose files are there and unchanged."""
    import pyarrow as pa

    with suppress(OSError, StoreError):
        table = _read(store.read(NAME) or b"", _schema())
        if table is not None:
            columns = zip(*(table[name].to_pylist() for name in ("id", *_STATE)), strict=True)
            valid = {
                identity: row
                for row, (identity, *state) in enumerate(columns)
                if identity in files and tuple(state) == files[identity][1:]
            }
            return table.take(pa.array(valid.values(), pa.int64()))
    return _schema().empty_table()


def _keep(store: Store, table: Table) -> None:
    import pyarrow.parquet as pq

    with store.workspace() as folder:
        pq.write_table(table, folder / "catalog", compression="zstd", store_schema=False)
        store.replace(NAME, folder / "catalog")


def row_of(store: Store, identity: str) -> Table | None:
    """Return the row of a trace, None if there is none or it cannot be read."""
    table = _read(store.read(name_of(TRACES, identity)) or b"", schema_of(TRACES))
    return table if table is not None and table["id"].to_pylist() == [identity] else None


def _read(content: bytes, schema: Schema) -> Table | None:
    """Return the columns of a schema from a file of rows, None if it is damaged or has not all that a row needs."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(pa.BufferReader(content)).read(schema.names, use_threads=False)
        for name in {*LATER} - {*table.column_names}:
            table = table.append_column(name, pa.nulls(len(table), schema.field(name).type))
        return _checked(table.select(schema.names), schema)
    except (pa.ArrowException, OSError, KeyError, ValueError):
        return None


def _checked(table: Table, schema: Schema) -> Table | None:
    """Return rows with the types of a schema; None if they lack what all rows have, or have a key of a map twice.

    Raises:
        pyarrow.ArrowException: they have other types, or are damaged.
    """
    import pyarrow as pa

    table = table.cast(schema)
    table.validate(full=True)  # or else a damaged text ends every question
    if table["files"].null_count or table["program"].null_count:
        return None
    maps = (chunk for column in table.columns if pa.types.is_map(column.type) for chunk in column.chunks)
    return None if any(map(_has_key_twice, maps)) else table  # or else DuckDB refuses every question


def _has_key_twice(maps: MapArray) -> bool:
    """Return whether one of some maps has a key twice."""
    borders = maps.offsets.to_numpy()
    row = np.repeat(np.arange(len(maps)), np.diff(borders))
    keys = maps.keys.dictionary_encode()
    code = keys.indices.to_numpy()[borders[0] : borders[-1]]
    return len(np.unique(row * len(keys.dictionary) + code)) < len(row)


def is_whole(store: Store, identity: str) -> bool:
    """Return whether a lake has a trace; what is left of a damaged one is removed, so that it can be added again."""
    if store.entry(name_of(TRACES, identity)) is None:
        return False
    table = row_of(store, identity)
    if table is not None:
        (row,) = table.to_pylist()
        files = {name: store.entry(file_of(name, row)) for name, _ in row["files"]}
        if all((entry := files[name]) and entry.size == size for name, size in row["files"]):
            return True
    store.delete(name_of(TRACES, identity))
    return False


def is_sound(content: bytes, count: int) -> bool:
    """Return whether the content of a file is that of a file of events with this many rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return bool(pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False).num_rows == count)
    except (pa.ArrowException, OSError, ValueError):
        return False
