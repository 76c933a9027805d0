"""Tests of tables as Parquet, Arrow and CSV files: all values, groups of rows, one table, and failures."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

import pytest

import fxtio
from fxtio import synth
from fxtio.cli import main
from fxtio.exchange import table_files
from fxtio.exchange.convert import convert
from fxtio.timeline import Timeline
from fxtio.timeline.schema import TABLES
from support.checkout import CORPUS
from support.exchange import Content
from support.in_process import run_piped

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
csv = pytest.importorskip("pyarrow.csv")

FORMATS = ("parquet", "arrow", "csv")
CONTENT = Content(
    spans=[(number % 2, 10 * number, 7, f"name {number % 40}") for number in range(300)],
    samples=[(0, 1, ("a", "b"), 3, "samples"), (-1, 2, (), 1, "ns")],
    allocations=[(0, ("a",), 1, 2, "str")],
    size=60,
)


def read(path: Path, table: str) -> Any:
    """Return the file of a table as a `pyarrow.Table`."""
    if path.suffix == ".parquet":
        return pq.read_table(path)
    if path.suffix == ".arrow":
        return pa.ipc.open_file(path).read_all()
    types = {name: "string" if spec.dtype == "text" else spec.dtype for name, spec in TABLES[table].items()}
    options = csv.ConvertOptions(column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False)
    parsing = csv.ParseOptions(newlines_in_values=True)
    return csv.read_csv(path, parse_options=parsing, convert_options=options)


def plain(table: Any) -> dict[str, list[Any]]:
    return {name: column.to_pylist() for name, column in zip(table.column_names, table.columns, strict=True)}


def expected(timeline: Timeline, name: str) -> dict[str, list[Any]]:
    table = timeline.table(name)
    return {column: values.tolist() for column, values in table.items()}


def check(timeline: Timeline, directory: Path, format: str) -> None:
    """Compare the files of a directory with a timeline."""
    assert sorted(path.name for path in directory.iterdir()) == sorted(f"{name}.{format}" for name in TABLES)
    timeline.tables(*TABLES)
    for name in TABLES:
        assert plain(read(directory / f"{name}.{format}", name)) == expected(timeline, name), name


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("group", [7, 100, 1 << 18])
def test_all_values(format: str, group: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "GROUP", group)
    if group == 100:
        monkeypatch.setattr(table_files, "_MAX_VALUES", 5)
    timeline = CONTENT.timeline()
    assert not convert(timeline, tmp_path / f"x.{format}")
    check(timeline, tmp_path / f"x.{format}", format)
    if format == "parquet":
        groups = pq.ParquetFile(tmp_path / "x.parquet" / "slices.parquet").num_row_groups
        assert (groups > 1) == (group < 300)


@pytest.mark.parametrize("format", FORMATS)
def test_an_empty_timeline(format: str, tmp_path: Path) -> None:
    timeline = Content(threads=[]).timeline()
    convert(timeline, tmp_path / f"x.{format}")
    check(timeline, tmp_path / f"x.{format}", format)


def test_types(tmp_path: Path) -> None:
    """Texts are no dictionaries in the schema, which Spark and others refuse, but stored as such."""
    convert(CONTENT.timeline(), tmp_path / "x.parquet")
    for name, columns in TABLES.items():
        file = pq.ParquetFile(tmp_path / "x.parquet" / f"{name}.parquet")
        names = {"float64": "double", "text": "string"}
        types = [str(each.type) for each in file.schema_arrow]
        assert types == [names.get(spec.dtype, spec.dtype) for spec in columns.values()]
        for number, (column, spec) in enumerate(columns.items()):
            for group in range(file.num_row_groups if file.metadata.num_rows else 0):
                stored = file.metadata.row_group(group).column(number)
                assert stored.compression == "ZSTD"
                is_repeating = spec.dtype == "text" or column in table_files._REPEATING
                assert ("RLE_DICTIONARY" in stored.encodings) == is_repeating, column
                assert ("DELTA_BINARY_PACKED" in stored.encodings) == (column in table_files._DIFFERENCES)


@pytest.mark.full
def test_slices_are_small(tmp_path: Path) -> None:
    """A slice whose times are random takes some 10 bytes; with dictionaries of numbers it was 30."""
    synth.write(tmp_path / "x.fxt", "spans", events=100_000)
    convert(fxtio.open_timeline(tmp_path / "x.fxt"), tmp_path / "x.parquet")
    path = tmp_path / "x.parquet" / "slices.parquet"
    assert path.stat().st_size / pq.ParquetFile(path).metadata.num_rows < 12


@pytest.mark.parametrize("format", FORMATS)
def test_the_corpus(format: str, tmp_path: Path) -> None:
    timeline = fxtio.open_timeline(CORPUS / "fxt" / "magic-trace.fxt")
    convert(timeline, tmp_path / f"x.{format}")
    assert plain(read(tmp_path / f"x.{format}" / f"slices.{format}", "slices")) == expected(timeline, "slices")


@pytest.mark.parametrize("reader", ["polars", "duckdb"])
def test_other_readers(reader: str, tmp_path: Path) -> None:
    module = pytest.importorskip(reader)
    timeline = CONTENT.timeline()
    convert(timeline, tmp_path / "x.parquet")
    path = str(tmp_path / "x.parquet" / "slices.parquet")
    if reader == "polars":
        total = module.read_parquet(path)["duration"].sum()
    else:
        total = module.sql(f"select sum(duration) from '{path}'").fetchall()[0][0]
    assert total == timeline.table("slices")["duration"].sum()


# ------------------------------------------------------------------------------------------------------------ one table


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    with fxtio.create(tmp_path / "in.fxt") as writer:
        track = writer.thread(1, 2, "main", "app")
        for number in range(100):
            track.complete(f'a,"{number % 3}"\n', 10 * number, 10 * number + 5, args={"i": -number})
    return tmp_path / "in.fxt"


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("table", ["slices", "args", "threads"])
def test_one_table(format: str, table: str, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / f"out.{format}"
    assert main(["convert", "--table", table, str(trace), str(out)]) == 0
    timeline = fxtio.open_timeline(trace)
    timeline.tables("slices", "args", "threads")
    assert plain(read(out, table)) == expected(timeline, table)


def test_one_table_to_a_pipe(trace: Path) -> None:
    done = run_piped(b"", "convert", "--table", "slices", "--to", "csv", str(trace), "-")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].startswith(b'"id","start","duration"')
    assert done.stderr == b""


@pytest.mark.full
def test_one_table_of_a_trace_that_is_not_in_order(tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "in.fxt") as writer:
        track = writer.thread(1, 2)
        for start in range(200_000, 0, -1):
            track.complete("a", start, start + 1)
    for format in FORMATS:  # noqa: A001
        assert main(["convert", "--table", "slices", str(tmp_path / "in.fxt"), str(tmp_path / f"x.{format}")]) == 0
        assert read(tmp_path / f"x.{format}", "slices").num_rows == 200_000
        assert main(["convert", str(tmp_path / "in.fxt"), str(tmp_path / f"y.{format}")]) == 0
        assert read(tmp_path / f"y.{format}" / f"slices.{format}", "slices").num_rows == 200_000


def test_what_cannot_be(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in [
        (["--table", "nothing", str(trace), str(tmp_path / "x.csv")], "no table 'nothing'"),
        (["--table", "slices", str(trace), str(tmp_path / "x.folded")], "does not have one table"),
        ([str(trace), "-", "--to", "csv"], "cannot be written to standard output"),
    ]:
        assert main(["convert", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.fxt"]


def test_without_pyarrow(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(fxtio.FormatError, match=r"fxtio\[arrow\]"):
        convert(fxtio.open_timeline(trace), tmp_path / "x.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["in.fxt"]


@pytest.mark.parametrize("format", FORMATS)
def test_names_that_are_not_utf8(format: str, tmp_path: Path) -> None:
    timeline = Content(spans=[(0, 0, 1, "a\udcff"), (0, 5, 1, "a\ufffd")]).timeline()
    losses = convert(timeline, tmp_path / f"x.{format}")
    assert losses == {"names and texts with bytes that are not UTF-8, which are replaced": 1}
    assert plain(read(tmp_path / f"x.{format}" / f"slices.{format}", "slices"))["name"] == ["a\ufffd", "a\ufffd"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("format", FORMATS)
def test_a_full_disk(format: str, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "--table", "slices", "--to", format, str(trace), "/dev/full"]) == 2
    assert "No space left" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of processes")
@pytest.mark.parametrize("options", [[], ["--table", "slices"]], ids=["all tables", "one table"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_disk_without_room_is_said_in_one_line(
    format: str,
    options: list[str],
    trace: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """pyarrow, too, says nothing more when the files are given up."""
    import resource

    monkeypatch.setattr(table_files, "_CHUNK", 64)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        assert main(["convert", *options, "--to", format, str(trace), str(tmp_path / "full")]) == 2
        gc.collect()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].endswith("File too large")
    assert not (tmp_path / "full").exists()
