"""What `fxtio.formats.Trace` promises, of every format: a new one is tested as soon as it is registered."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fxtio
from contract.samples import RECORDED, SAMPLES, SYNTHETIC, Sample, open_sample
from fxtio.formats import formats
from fxtio.io.reading import TraceInfo
from fxtio.readers import TraceReader
from fxtio.table import Bytes, Categories, Lists, Optional, Table

MOMENTS = ("time", "start", "end")
AVOIDED = {"begin", "stop", "at", "when", "timestamp", "writer", "how", "outcome"}
"""Column names for which the contract has a word of its own."""

every_sample = pytest.mark.parametrize("sample", SAMPLES, ids=str)
every_shape = pytest.mark.parametrize("sample", SYNTHETIC, ids=str)
every_format = pytest.mark.parametrize("name", formats())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("contract")


@pytest.fixture
def trace(sample: Sample, folder: Path) -> Any:
    below = folder / str(sample)
    below.mkdir(exist_ok=True)
    with open_sample(sample, below) as trace:
        yield trace


@cache
def all_tables(sample: Sample, folder: Path) -> dict[str, Table]:
    """Return all tables of a sample; they are read once for all tests that only look at them."""
    below = folder / str(sample)
    below.mkdir(exist_ok=True)
    with open_sample(sample, below) as trace:
        return dict(trace.tables(*trace.table_names))


@pytest.fixture
def tables(sample: Sample, folder: Path) -> dict[str, Table]:
    return all_tables(sample, folder)


def test_every_format_has_samples_of_both_kinds() -> None:
    assert {sample.format.name for sample in SYNTHETIC} == {sample.format.name for sample in RECORDED} == {*formats()}


@every_shape
def test_synthetic_traces_are_without_fault(trace: Any) -> None:
    assert [str(finding) for finding in trace.findings] == []


@every_sample
def test_attributes(trace: Any, sample: Sample) -> None:
    assert isinstance(trace, TraceReader)
    assert trace.format == sample.format.name
    assert trace.name
    assert trace.compression in (None, "gzip", "zstd", "xz")
    assert trace.__enter__() is trace


@every_sample
def test_info_is_the_sum_of_the_records(trace: Any) -> None:
    info = trace.info
    assert isinstance(info, TraceInfo)
    assert (info.name, info.format, info.compression) == (trace.name, trace.format, trace.compression)
    assert info.size > 0 or not sum(info.records.values())
    entries = list(trace.entries())
    assert info.records == Counter(type(entry.record).__name__ for entry in entries)
    times = [entry.time for entry in entries if entry.time is not None]
    if times:
        assert info.start is not None and info.start <= min(times)
        assert info.end is not None and info.end >= max(times)


@every_sample
@pytest.mark.parametrize("resolve", [True, False])
def test_entries_are_records_with_place_and_time(trace: Any, resolve: bool) -> None:
    entries = list(trace.entries(resolve=resolve))
    assert [entry.record for entry in entries] == list(trace.records(resolve=resolve))
    last: dict[Any, int] = {}
    for entry in entries:
        assert entry._fields[:3] == ("offset", "time", "record")
        assert type(entry.offset) is int
        assert entry.time is None or type(entry.time) is int
        file = getattr(entry, "file", None)  # a directory has several files
        assert entry.offset >= last.get(file, 0)
        last[file] = entry.offset


@every_shape
def test_iterating_gives_the_resolved_records(trace: Any) -> None:
    assert list(islice(trace, 50)) == list(islice(trace.records(), 50)) == list(islice(trace.records(resolve=True), 50))


@every_sample
def test_all_tables_have_their_columns_and_rows(trace: Any) -> None:
    tables = trace.tables(*trace.table_names)
    assert [*tables] == [*trace.table_names]
    for table in tables.values():
        assert isinstance(table, Table)
        assert {len(table[name]) for name in table.column_names} == {table.num_rows} == {len(table)}


@every_sample
def test_moments_are_nanoseconds_in_columns_of_the_same_name(tables: dict[str, Table]) -> None:
    for table_name, table in tables.items():
        assert not AVOIDED & {*table.column_names}, table_name
        for name in {*MOMENTS, "duration", "offset"} & {*table.column_names}:
            column = table[name]
            assert isinstance(column, np.ndarray | Optional), (table_name, name)
            values = column.values if isinstance(column, Optional) else column
            if name == "end" and values.dtype.kind != "i":
                raise AssertionError((table_name, name))
            assert values.dtype == np.int64, (table_name, name)


@every_sample
def test_a_span_has_a_start_and_a_duration_or_an_end(tables: dict[str, Table]) -> None:
    for name, table in tables.items():
        if "start" in table and table["start"].dtype == np.int64:
            assert {"duration", "end"} & {*table.column_names}, name


@every_format
def test_an_unknown_table_is_refused_at_the_call(name: str, folder: Path) -> None:
    sample = next(sample for sample in SYNTHETIC if sample.format.name == name)
    with open_sample(sample, folder) as trace:
        for ask in (trace.table, trace.tables, trace.batches):
            with pytest.raises(KeyError, match=trace.table_names[0]):
                ask("no such table")


@every_sample
def test_batches_have_all_tables_and_together_all_rows(trace: Any) -> None:
    rows: Counter[str] = Counter()
    for batch in trace.batches(*trace.table_names):
        assert [*batch] == [*trace.table_names]
        rows.update({name: table.num_rows for name, table in batch.items()})
    for name, table in trace.tables(*trace.table_names).items():
        # A span may end in a later batch; a stack that samples of several batches have is a row of each of them.
        spans_batches = "start" in table or "stack" in table or name == "stacks" or name not in rows
        assert spans_batches or rows[name] == table.num_rows, name


@every_sample
def test_json_objects_begin_with_offset_type_and_time(trace: Any, sample: Sample) -> None:
    report = sample.format.report
    for resolve in (True, False):
        entries = list(islice(trace.entries(resolve=resolve), 2000))
        objects = sample.format.canonical.json_objects(entries)
        assert len(objects) == len(entries)
        for entry, value in zip(entries, objects, strict=True):
            assert [*value][:3] == ["offset", "type", "time"]
            assert (value["offset"], value["time"]) == (entry.offset, entry.time)
            assert re.fullmatch("[a-z]+(-[a-z]+)*", value["type"])
        assert len(list(report.text_lines(entries))) == len(entries)


@every_sample
def test_info_as_json_has_the_summary(trace: Any, sample: Sample) -> None:
    json = sample.format.report.info(trace).json
    info = trace.info
    assert json["format"] == sample.format.name
    assert {name: json[name] for name in ("compression", "size", "start", "end")} == {
        name: getattr(info, name) for name in ("compression", "size", "start", "end")
    }
    assert json["started_at"] == (info.started_at and info.started_at.isoformat())
    assert json["records"] == dict(info.records)


@every_sample
def test_columns_have_known_kinds(tables: dict[str, Table]) -> None:
    for table in tables.values():
        for column in table.values():
            assert isinstance(column, np.ndarray | Categories | Optional | Bytes | Lists)


@every_shape
def test_strict_reading_of_a_sound_trace_raises_nothing(sample: Sample, folder: Path) -> None:
    below = folder / str(sample)
    below.mkdir(exist_ok=True)
    with open_sample(sample, below, strict=True) as trace:
        assert sum(1 for _ in trace) == sum(trace.info.records.values())


@every_format
def test_an_option_that_the_format_has_not_is_refused(name: str, folder: Path) -> None:
    sample = next(sample for sample in SYNTHETIC if sample.format.name == name)
    with pytest.raises(TypeError, match="no_such_option"):
        fxtio.open(sample.make(folder), no_such_option=1)


@every_format
def test_progress_is_reported_to_the_end(name: str, folder: Path) -> None:
    sample = next(sample for sample in SYNTHETIC if sample.format.name == name)
    seen = list[tuple[int, int | None]]()
    with open_sample(sample, folder, progress=lambda done, total: seen.append((done, total))) as trace:
        assert sum(1 for _ in trace) > 0
    assert seen == sorted(seen)
    done, total = seen[-1]
    assert total is None or done == total


@every_format
def test_a_negative_limit_is_refused(name: str, folder: Path) -> None:
    sample = next(sample for sample in SYNTHETIC if sample.format.name == name)
    with pytest.raises(ValueError, match="max_bytes is -1"):
        fxtio.open(sample.make(folder), max_bytes=-1)


@every_format
def test_a_trace_shows_its_class_and_name(name: str, folder: Path) -> None:
    sample = next(sample for sample in SYNTHETIC if sample.format.name == name)
    with open_sample(sample, folder) as trace:
        assert repr(trace) == f"{sample.format.trace}({trace.name!r})"
