"""The command `fxtio query`: SQL over the timeline of a trace, see `fxtio.timeline.sql`."""

from __future__ import annotations

import itertools
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from fxtio.cli import console, inputs
from fxtio.report import distinct_names, json_lines, json_value

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation
    from pyarrow import DataType, RecordBatchReader

    from fxtio.io.sink import Sink

HELP = "Run SQL over the slices, threads, counters and arguments of a trace"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", nargs="?", metavar="FILE", help="the trace, may be compressed; - for standard input")
    inputs.add_format(parser)
    parser.add_argument("sql", nargs="?", metavar="SQL", help="the query; - reads it from standard input")
    add_shape(parser)
    parser.add_argument("--list", action="store_true", help="list the tables, views and functions, and end")
    confined_help = "let the query reach the trace only: no files, network or settings"
    parser.add_argument("--confined", action="store_true", help=confined_help)
    inputs.add_examples(
        parser,
        "fxtio query app.fxt 'select name, count(*), sum(dur) from slice group by name order by 3 desc limit 10'",
        "fxtio query app.fxt 'select * from thread_slice where dur > 1e6' -o slow.parquet",
        "fxtio query app.fxt 'select name from ancestor_slice(42)'",
        "fxtio query --list",
    )


def add_shape(parser: ArgumentParser) -> None:
    """Declare how rows are printed."""
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print one JSON array with an object for each row")
    shape.add_argument("--csv", action="store_true", help="print comma-separated values")
    output_help = "write all rows to a file instead: .parquet, .csv or .json"
    shape.add_argument("-o", "--output", metavar="OUT", help=output_help)
    rows_help = "print at most N rows as a table, `all` prints all (default: 100); --json, --csv and -o have all rows"
    parser.add_argument("-n", "--limit", type=inputs.limit, default=100, metavar="N", help=rows_help)


def run(options: Namespace) -> int:
    """Run the query, print its rows, and return the exit code."""
    if options.list:
        return _list()
    if options.file is None or options.sql is None:
        raise inputs.UsageError("give a trace and a query, or --list")
    if options.file == options.sql == "-":
        raise inputs.UsageError("the trace and the query cannot both come from standard input")
    check_ending(options)
    sql = query_of(options.sql)
    with inputs.opened_timeline(options.file, options.format) as timeline:
        print_relation(timeline.sql(sql, confined=options.confined), options)
        return console.print_findings(timeline)


def query_of(argument: str) -> str:
    """Return the query of an argument; `-` stands for standard input."""
    return sys.stdin.read() if argument == "-" else argument


def check_ending(options: Namespace) -> None:
    """Make sure that the file for the rows, if there is one, has an ending that says what to write.

    Raises:
        UsageError: it has another one.
    """
    if options.output is not None and Path(options.output).suffix not in _WRITERS:
        *first, last = _WRITERS
        raise inputs.UsageError(f"{options.output}: the ending must be {', '.join(first)} or {last}")


def print_relation(relation: DuckDBPyRelation, options: Namespace) -> None:
    """Print the rows of a result, or write them to a file, as the options of `add_shape` say.

    Raises:
        QueryError: DuckDB refuses the query while it computes the rows.
        OSError: the file cannot be written.
    """
    import pyarrow as pa

    from fxtio.io.sink import whole_file
    from fxtio.timeline.sql import query_errors

    with query_errors():
        batches = pa.RecordBatchReader.from_stream(relation)
        if options.output is not None:
            with whole_file(options.output) as sink:
                _WRITERS[Path(options.output).suffix](batches, sink)
        elif options.json:
            _print_json(batches, sys.stdout.write)
        elif options.csv:
            console.print_csv(batches.schema.names, _flat_rows(batches))
        else:
            _print_text(batches, options.limit)


def _list() -> int:
    from fxtio.timeline.schema import TABLES
    from fxtio.timeline.sql import MACROS, RAW, VIEWS

    rows = [("view", name, view.meaning) for name, view in VIEWS.items()]
    rows += [("function", name, macro.meaning) for name, macro in MACROS.items()]
    rows += [("table", RAW.get(name, name), ", ".join(columns)) for name, columns in TABLES.items()]
    console.print_table(["kind", "name", "meaning, or columns"], rows)
    return console.FINE


def _rows(batches: RecordBatchReader) -> Iterator[list[Any]]:
    """Yield rows; a value of a nested type consists of lists, and of dictionaries for structures and maps."""
    plain = [_plain_of(kind) for kind in batches.schema.types]
    for batch in batches:
        columns = [list(map(each, column.to_pylist())) for each, column in zip(plain, batch.columns, strict=True)]
        yield from map(list, zip(*columns, strict=True))


def _flat_rows(batches: RecordBatchReader) -> Iterator[list[Any]]:
    """Yield rows, in which lists and dictionaries are JSON."""
    return ([_flat(value) for value in row] for row in _rows(batches))


def _flat(value: Any) -> Any:
    return json_lines([_json_value(value)]).rstrip("\n") if isinstance(value, list | dict) else value


def _plain_of(kind: DataType) -> Callable[[Any], Any]:
    """Return the function that makes values of Arrow's type plain."""
    from pyarrow import types

    if types.is_map(kind):
        of_key, of_item = _plain_of(kind.key_type), _plain_of(kind.item_type)
        return lambda value: value if value is None else {_key(of_key(key)): of_item(each) for key, each in value}
    if types.is_struct(kind):
        of_field = {field.name: _plain_of(field.type) for field in kind}
        return lambda value: value if value is None else {key: of_field[key](each) for key, each in value.items()}
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        of_each = _plain_of(kind.value_type)
        return lambda value: value if value is None else [of_each(each) for each in value]
    return _plain


def _key(value: Any) -> str:
    """Return a key of a map as one of JSON, which is a text."""
    key = _json_value(value)
    return key if isinstance(key, str) else json_lines([key]).rstrip("\n")


def _plain(value: Any) -> Any:
    """Return a value; sums of integers, which have 128 bits in DuckDB, come as decimals."""
    return int(value) if isinstance(value, Decimal) and value == int(value) else value


def _print_text(batches: RecordBatchReader, most: int | None) -> None:
    import pyarrow as pa

    rows = list(itertools.islice(_flat_rows(batches), None if most is None else most + 1))
    is_number = [
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        for kind in batches.schema.types
    ]
    headers = [">" * right + name for name, right in zip(batches.schema.names, is_number, strict=True)]
    console.print_table(headers, [[_cell(value) for value in row] for row in rows[:most]])
    if most is not None and len(rows) > most:
        print("and more (-n all)")


def _cell(value: Any) -> int | str:
    if value is None:
        return "NULL"
    return value if type(value) is int else str(value)  # which an integer gets separators for


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _json_value(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_json_value(each) for each in value]
    return json_value(value) if value is None or isinstance(value, str | int | float) else str(value)


def _print_json(batches: RecordBatchReader, write: Callable[[str], object]) -> None:
    separator = "[\n"
    names = distinct_names(batches.schema.names)
    for row in _rows(batches):
        values = {name: _json_value(value) for name, value in zip(names, row, strict=True)}
        write(separator + json_lines([values]).rstrip("\n"))
        separator = ",\n"
    write("[]\n" if separator == "[\n" else "\n]\n")


def _write_json(batches: RecordBatchReader, sink: Sink) -> None:
    _print_json(batches, lambda text: sink.write(text.encode()))


def _write_csv(batches: RecordBatchReader, sink: Sink) -> None:
    import csv

    rows = csv.writer(SimpleNamespace(write=lambda text: sink.write(text.encode())), lineterminator="\n")
    rows.writerow(batches.schema.names)
    rows.writerows(_flat_rows(batches))


def _write_parquet(batches: RecordBatchReader, sink: Sink) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetWriter(pa.PythonFile(sink, mode="w"), batches.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


_WRITERS: dict[str, Callable[[RecordBatchReader, Sink], None]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".json": _write_json,
}
"""Functions that write rows to a file, by its ending."""
