"""The rows of `traces`, and which files of a trace are whole.

The rows that were read are kept in one file, so that a question does not open thousands of files of one row.  It may be
removed at any time: a row in it counts only while the file in `traces` that it was read from is there, unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from fxtio.lake.layout import SUFFIX, TRACES, file_of, identity_in, name_of, schema_of
from fxtio.lake.store import Entry, Store, StoreError

if TYPE_CHECKING:
    from pyarrow import Schema, Table

NAME = f"_catalog/{TRACES}{SUFFIX}"
"""The file of all rows; engines that read a lake leave out names that begin with `_`."""

_WORTH = 100
"""With this many new rows the file is written again."""

_AT_ONCE = 8
"""How many rows are read at once: those of an object store take long to arrive."""

_STATE = ("stored", "changed")
"""Further columns of the file: size of the file in `traces` that has a row, and the time when it was written."""


def catalog_of(store: Store) -> tuple[Table, list[str]]:
    """Return the rows of all traces of a lake, and the names of files in `traces` that cannot be read."""
    import pyarrow as pa

    files = {identity: entry for entry in store.entries(TRACES) if (identity := identity_in(entry.name)) is not None}
    known = _known(store, files)
    new = sorted(files.keys() - {*known["id"].to_pylist()})
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        read = [*pool.map(lambda identity: row_of(store, identity), new)]
    rows = {identity: row for identity, row in zip(new, read, strict=True) if row is not None}
    states = [[getattr(files[identity], name) for identity in rows] for name in ("size", "changed")]
    fresh = pa.concat_tables([schema_of(TRACES).empty_table(), *rows.values()])
    for name, values in zip(_STATE, states, strict=True):
        fresh = fresh.append_column(name, pa.array(values, pa.int64()))
    table = pa.concat_tables([known, fresh])
    if len(rows) >= _WORTH:
        with suppress(OSError, StoreError):  # who may only read a lake does without
            _keep(store, table)
    return table.select(schema_of(TRACES).names), [files[each].name for each in new if each not in rows]


def _schema() -> Schema:
    import pyarrow as pa

    schema = schema_of(TRACES)
    for name in _STATE:
        schema = schema.append(pa.field(name, pa.int64()))
    return schema


def _known(store: Store, files: Mapping[str, Entry]) -> Table:
    """Return the rows that are kept, with `_STATE`, as far as their files are there and unchanged."""
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
        file = pq.ParquetFile(pa.BufferReader(content))
        table = file.read(schema.names, use_threads=False).select(schema.names).cast(schema)
        table.validate(full=True)  # or else a damaged text ends every question
    except (pa.ArrowException, OSError, KeyError, ValueError):
        return None
    return None if table["files"].null_count or table["program"].null_count else table


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
