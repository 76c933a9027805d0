"""What `fxtio.formats.Writer` promises, of every format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fxtio
from contract.samples import SAMPLES, SYNTHETIC, Sample, files_of, open_sample, recordings, same_style
from fxtio.errors import EncodeError
from fxtio.formats import formats
from fxtio.io.writing import TraceWriter
from fxtio.table import Categories, Optional, Table, WritableTable

every_format = pytest.mark.parametrize("name", formats())


def sample_of(name: str) -> Sample:
    return next(sample for sample in SYNTHETIC if sample.format.name == name)


def create(name: str, folder: Path) -> Any:
    return fxtio.create(folder / f"made{formats()[name].suffixes[0]}", format=name)


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_a_copy_has_the_same_bytes(sample: Sample, tmp_path: Path) -> None:
    path = sample.make(tmp_path)
    made = tmp_path / f"copy{sample.format.suffixes[0]}"
    with open_sample(sample, tmp_path) as trace, fxtio.create(made, format=sample.format.name) as writer:
        writer.copy(trace)
    if trace.compression:  # the copy is not compressed
        with fxtio.open(made) as copy, fxtio.open(path) as original:
            assert list(copy.entries(resolve=False)) == list(original.entries(resolve=False))
    else:
        assert files_of(made) == files_of(path)


@pytest.mark.full
@every_format
def test_records_of_a_default_reading_can_be_put(name: str, tmp_path: Path) -> None:
    """All records of a trace without findings, with names and threads in place of references, are accepted."""
    number, wrong = 0, list[str]()
    for sample in (sample for sample in SAMPLES if sample.format.name == name):
        (below := tmp_path / str(sample)).mkdir()
        with open_sample(sample, below) as trace:
            if trace.findings:
                continue
            with fxtio.create(below / "made", format=name, **same_style(trace, resolve=True)) as writer:
                for record in trace.records():
                    number += 1
                    try:
                        writer.put(record)
                    except EncodeError as error:
                        wrong.append(f"{sample}: {error} in {record}")
    assert not wrong, f"{len(wrong)} of {number} are refused:\n" + "\n".join(wrong[:8])
    assert number > 0


@every_format
def test_a_writer_to_which_nothing_was_written_leaves_a_trace_without_content(name: str, tmp_path: Path) -> None:
    create(name, tmp_path).close()
    with fxtio.open(tmp_path / f"made{formats()[name].suffixes[0]}", format=name) as trace:
        assert not any(entry.time for entry in trace.entries())
        assert {*trace.findings.counts} <= {f"{name}.source.empty", "uftrace.task.none"}


@every_format
def test_attributes(name: str, tmp_path: Path) -> None:
    with create(name, tmp_path) as writer:
        assert isinstance(writer, TraceWriter)
        assert writer.format == name
        assert type(writer.position) is int


@every_format
def test_only_a_trace_of_the_same_format_is_copied(name: str, tmp_path: Path) -> None:
    other = sample_of(next(each for each in formats() if each != name))
    (tmp_path / "other").mkdir()
    message = f"{other.format.name} trace cannot be copied to a {name} trace"
    with (
        open_sample(other, tmp_path / "other") as trace,
        create(name, tmp_path) as writer,
        pytest.raises(EncodeError, match=message),
    ):
        writer.copy(trace)


@every_format
def test_nothing_is_copied_behind_something(name: str, tmp_path: Path) -> None:
    with open_sample(sample_of(name), tmp_path) as trace, create(name, tmp_path) as writer:
        writer.copy(trace)
        position = writer.position
        with pytest.raises(EncodeError):
            writer.copy(trace)
        assert writer.position == position


@every_format
def test_a_closed_writer_takes_nothing(name: str, tmp_path: Path) -> None:
    sample = sample_of(name)
    with open_sample(sample, tmp_path) as trace:
        record = next(iter(trace.records(resolve=False)))
        writer = create(name, tmp_path)
        writer.copy(trace)
        writer.close()
        writer.close()  # once more changes nothing
        before = files_of(tmp_path / f"made{sample.format.suffixes[0]}")
        writes: list[Callable[[], object]] = [partial(writer.put, record), partial(writer.copy, trace)]
        writes += [partial(writer.write_table, table, {}) for table in ["no table", *writer.writable_tables]]
        for write in writes:
            with pytest.raises(ValueError, match="the writer is closed") as raised:
                write()
            assert type(raised.value) is ValueError
    assert files_of(tmp_path / f"made{sample.format.suffixes[0]}") == before


@every_format
def test_something_else_than_a_record_is_refused(name: str, tmp_path: Path) -> None:
    with create(name, tmp_path) as writer:
        for nothing in (None, "text", 7, object()):
            with pytest.raises(EncodeError):
                writer.put(nothing)


@every_format
def test_tables_are_checked_before_anything_is_written(name: str, tmp_path: Path) -> None:
    with create(name, tmp_path) as writer:
        position = writer.position
        with pytest.raises(EncodeError, match="no such table"):
            writer.write_table("no such table", {})
        for table, spec in writer.writable_tables.items():
            with pytest.raises(EncodeError, match=spec.required[0]):
                writer.write_table(table, {})
            with pytest.raises(EncodeError, match="no_such_column"):
                writer.write_table(table, {"no_such_column": [1]})
        assert writer.position == position


@pytest.mark.full
@pytest.mark.parametrize("sample", SYNTHETIC, ids=str)
def test_rows_that_are_written_are_read_again(sample: Sample, tmp_path: Path) -> None:
    for number, path in enumerate(recordings(sample, tmp_path)):
        (below := tmp_path / str(number)).mkdir()
        with fxtio.open(path, format=sample.format.name) as trace:
            check_rows(sample, trace, below)


def check_rows(sample: Sample, trace: Any, folder: Path) -> None:
    """Check that the rows of all tables of a trace can be written, and are read again."""
    options = same_style(trace, resolve=True) if sample.format.name in ("mono", "uftrace") else {}
    for table, spec in writable_tables(sample).items():
        rows = trace.table(table)
        assert {*rows.column_names} <= {*spec.required, *spec.optional, *spec.ignored}
        if not rows.num_rows and trace.format == "mono" and trace.recording.header.data_version < 17:
            continue  # the version does not have these events
        path = folder / f"{table}{sample.format.suffixes[0]}"
        with fxtio.create(path, format=sample.format.name, **options) as writer:
            add_clocks(writer, trace)
            assert writer.write_table(table, rows) == rows.num_rows
        if rows.num_rows:
            names = [name for name in rows.column_names if name not in spec.ignored]
            with fxtio.open(path) as made:
                assert plain(made.table(table), names) == plain(rows, names)
                assert [str(finding) for finding in made.findings] == []


def add_clocks(writer: Any, trace: Any) -> None:
    """Add the providers of an FXT trace with their clocks; the main one has the number 1."""
    for provider in getattr(trace.info, "providers", ()):
        if provider.id != 1:
            writer.provider(provider.name, provider.id, ticks_per_second=provider.clock.ticks_per_second)


def writable_tables(sample: Sample) -> Mapping[str, WritableTable]:
    """Return the tables that are written and read; calls of uftrace are read as slices of the timeline."""
    writer: type[TraceWriter] = getattr(sample.format.room("writer"), sample.format.writer)
    specs = sample.format.room("tables").specs()
    return {name: table for name, table in writer.writable_tables.items() if not specs[name].only_written}


def plain(table: Table, names: list[str]) -> dict[str, list[Any]]:
    """Return columns as lists; calls without an exit have no duration, as an event of another table may end them."""
    columns = {name: [*table[name]] for name in names}
    if {"duration", "state"} <= columns.keys():
        ended = [state not in ("open", "no_exit") for state in columns["state"]]
        columns["duration"] = [each if known else None for each, known in zip(columns["duration"], ended, strict=True)]
    return columns


@pytest.mark.full
@every_format
def test_every_writable_table_has_rows_in_some_sample(name: str, tmp_path: Path) -> None:
    """So that the test above proves something for each."""
    samples = [sample for sample in SYNTHETIC if sample.format.name == name]
    missing = {*writable_tables(samples[0])}
    assert missing
    for sample in samples:
        (below := tmp_path / str(sample)).mkdir()
        with open_sample(sample, below) as trace:
            missing -= {table for table in missing if trace.table(table).num_rows}
    assert missing == set()


BAD_COLUMNS: dict[str, Any] = {
    "codes beyond the values": Categories(np.array([5], np.int32), ["a"]),
    "codes below -1": Categories(np.array([-2], np.int32), ["a"]),
    "codes that are a list": Categories([0], ["a"]),  # type: ignore[arg-type]
    "a mark too few": Optional(np.zeros(1, np.int64), np.zeros(0, np.bool_)),
    "dates": np.zeros(1, "M8[ns]"),
    "complex numbers": [1j],
    "something": object(),
    "two dimensions": np.zeros((1, 1)),
    "a number that is too large": [2**64],
}


@every_format
@pytest.mark.parametrize("bad", BAD_COLUMNS)
def test_columns_that_are_none_are_refused(name: str, bad: str, tmp_path: Path) -> None:
    with create(name, tmp_path) as writer:
        position = writer.position
        for table, spec in writer.writable_tables.items():
            for column in spec.required:
                columns = dict.fromkeys(spec.required, np.zeros(1, np.int64)) | {column: BAD_COLUMNS[bad]}
                with pytest.raises(EncodeError):
                    writer.write_table(table, columns)
        assert writer.position == position


@every_format
@pytest.mark.parametrize("columns", [None, 7, [], "text"], ids=repr)
def test_something_else_than_columns_is_refused(name: str, columns: Any, tmp_path: Path) -> None:
    with create(name, tmp_path) as writer:
        for table in writer.writable_tables:
            with pytest.raises(EncodeError, match="neither a table nor a mapping"):
                writer.write_table(table, columns)


@every_format
def test_something_else_than_a_trace_is_not_copied(name: str, tmp_path: Path) -> None:
    with create(name, tmp_path) as writer, pytest.raises(EncodeError, match="NoneType cannot be copied"):
        writer.copy(None)
