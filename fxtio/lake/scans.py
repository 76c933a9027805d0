"""The rows of traces as batches of Arrow, without a lake: what engines call on each of their workers."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fxtio.errors import FxtioError, shown
from fxtio.lake.catalog import table_of
from fxtio.lake.ingest import Outcome, Source, refusal
from fxtio.lake.layout import SUFFIX, TABLES, TRACES, day_of, schema_of

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Schema

MAX_ROWS = 1 << 16
"""The most rows of a batch."""

MAX_TEXT = 1 << 26
"""The most bytes of a column of text of a batch that has more than one row."""


class ScanError(FxtioError):
    """An error: there is no such table."""


def scan(
    paths: str | os.PathLike[str] | Iterable[Any],
    table: str = "slices",
    *,
    refused: Callable[[Outcome], object] | None = None,
) -> Iterator[RecordBatch]:
    """Read traces of any format, and yield the rows that a table of a lake would have of them.

    It needs no lake and writes only temporary files.  The memory that it takes does not depend on the sizes of the
    traces.  A trace that cannot be read has no rows, and the others have theirs.

    The function can be sent to other processes, and takes what engines give to functions: paths, or batches and tables
    of Arrow whose first column has paths.  So `functools.partial(scan, table="slices")` is what `mapInArrow` of Spark
    calls.

    Args:
        paths: a path; or a batch or table of Arrow, whose first column has paths; or several of all these.
        table: the table: `traces`, `slices`, `instants`, `counters`, `args`, `logs` or `samples`.
        refused: is called with the path and the reason for each trace that cannot be read, in the process that reads
            it; without it, a warning is logged.

    Yields:
        Batches of at most `MAX_ROWS` rows of one trace, with the columns of `fxtio.lake.layout.schema_of`.

    Raises:
        ScanError: there is no such table.
    """
    if table not in (TRACES, *TABLES):
        raise ScanError(f"there is no table {shown(table)}, only {', '.join((TRACES, *TABLES))}")
    return _batches(_paths(paths), table, refused or _warn)


def _batches(paths: Iterable[str], table: str, refused: Callable[[Outcome], object]) -> Iterator[RecordBatch]:
    for path in paths:
        with tempfile.TemporaryDirectory(prefix="fxtio-") as folder:
            try:
                exporter, row = Source(path).write(Path(folder), {})
            except Exception as error:  # noqa: BLE001  # no trace, and no fault of a reader, ends the others
                refused(refusal(path, error))
                continue
            if table == TRACES:
                yield from table_of([row]).to_batches()
            elif exporter.counts[table]:
                yield from _read(exporter.folder / f"{table}{SUFFIX}", row, schema_of(table))


def _warn(outcome: Outcome) -> None:
    logging.getLogger("fxtio.lake").warning("%s is left out: %s", outcome.path, outcome.reason)


def _paths(source: Any) -> Iterator[str]:
    """Yield all paths in what an engine gives."""
    if isinstance(source, str | os.PathLike):
        yield os.fspath(source)
    elif hasattr(source, "schema"):
        yield from source.column(0).to_pylist()
    else:
        for each in source:
            yield from _paths(each)


def _read(path: Path, row: dict[str, Any], schema: Schema) -> Iterator[RecordBatch]:
    """Yield the rows of a file, with the columns that a lake has in the names of its folders."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    places = {"day": date.fromisoformat(day_of(row["start"])), "program": row["program"]}
    texts = [field.name for field in schema if field.type == pa.string() and field.name not in places]
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        for batch in file.iter_batches(MAX_ROWS):
            for part in _parts(batch):
                constants = [pa.repeat(pa.scalar(places[name], schema.field(name).type), len(part)) for name in places]
                columns = [
                    column.cast(field.type) for column, field in zip([*part.columns, *constants], schema, strict=True)
                ]
                yield pa.record_batch(columns, schema=schema)


def _parts(batch: RecordBatch) -> Iterator[RecordBatch]:
    """Yield a batch in parts such that none of its texts, which are numbers of values, become too many bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # sizes: for each row the bytes of its longest text; ends of parts are where their sum goes over a multiple.
    sizes = np.zeros(len(batch), np.int64)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            of_rows = pc.take(pc.binary_length(column.dictionary), column.indices)
            np.maximum(sizes, pc.fill_null(of_rows, 0).to_numpy(zero_copy_only=False), out=sizes)
    number = np.cumsum(sizes) // MAX_TEXT
    edges = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(batch)]
    yield from (batch.slice(start, end - start) for start, end in pairwise(edges))
