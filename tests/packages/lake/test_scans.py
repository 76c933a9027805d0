"""Scans of traces: engines get from files what a lake would have of them."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fxtio
from contract.samples import SYNTHETIC, Sample
from fxtio import synth
from fxtio.lake import Lake, Outcome, ScanError, scan, schema_of
from fxtio.lake.layout import TABLES, TRACES
from fxtio.lake.scans import MAX_ROWS


def rows_of(table: Any) -> list[str]:
    """Return the rows in an order of their own; as texts, in which a NaN is equal to another one."""
    return sorted(map(repr, table.to_pylist()))


def scanned(paths: Any, table: str, **options: Any) -> pa.Table:
    return pa.Table.from_batches(scan(paths, table, **options), schema_of(table))


@pytest.mark.full
@pytest.mark.once
@pytest.mark.parametrize("sample", [each for each in SYNTHETIC if "everything" in str(each)], ids=str)
def test_a_scan_has_what_a_lake_has(sample: Sample, tmp_path: Path) -> None:
    path = sample.make(tmp_path)
    lake = Lake(tmp_path / "lake", create=True)
    assert [each.reason for each in lake.add(path)] == [""]
    for table in (TRACES, *TABLES):
        columns = [name for name in schema_of(table).names if name != "files"]  # of which a scan has none
        scan = scanned(path, table).select(columns)
        expected = lake.sql(f"select {', '.join(columns)} from {table}").to_arrow_table().cast(scan.schema)
        assert rows_of(scan) == rows_of(expected), table


def test_batches_are_small(tmp_path: Path) -> None:
    synth.write(tmp_path / "large.fxt", "spans", events=600_000)
    batches = [*scan(tmp_path / "large.fxt")]
    assert len(batches) > 300_000 // MAX_ROWS
    assert max(map(len, batches)) <= MAX_ROWS
    with fxtio.open_timeline(tmp_path / "large.fxt") as timeline:
        slices = timeline.table("slices")
    assert sum(map(len, batches)) == slices.num_rows
    assert sum(sum(batch["duration"].to_pylist()) for batch in batches) == int(slices["duration"].sum())


def test_long_texts_make_smaller_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that is stored once is in each row of a batch."""
    monkeypatch.setattr("fxtio.lake.scans.MAX_TEXT", 100_000)
    with fxtio.create(tmp_path / "x.fxt", format="fxt") as writer:
        track = writer.thread(7, 8, "main", "app")
        for number in range(1_000):
            track.complete("x" * 1_000 if number % 2 else "y", number, number + 1)
    batches = [*scan(tmp_path / "x.fxt")]
    assert len(batches) >= 5
    assert max(batch["name"].nbytes for batch in batches) < 120_000
    assert [start for batch in batches for start in batch["start"].to_pylist()] == [*range(1_000)]


def test_what_cannot_be_read_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a.fxt", "b.fxt"):
        synth.write(tmp_path / name, "spans", events=100)
    (tmp_path / "bad.json").write_text("no trace")
    paths = [tmp_path / name for name in ("a.fxt", "bad.json", "missing.fxt", "b.fxt")]
    refused: list[Outcome] = []
    assert len({row["url"] for row in scanned(paths, TRACES, refused=refused.append).to_pylist()}) == 2
    assert [(Path(each.path).name, bool(each.reason)) for each in refused] == [
        ("bad.json", True),
        ("missing.fxt", True),
    ]
    assert not caplog.records
    assert scanned(paths, "slices").num_rows == 2 * scanned(paths[0], "slices").num_rows
    assert [Path(str(record.args[0])).name for record in caplog.records if isinstance(record.args, tuple)] == [
        "bad.json",
        "missing.fxt",
    ]


def test_engines_send_it_and_give_it_what_they_have(tmp_path: Path) -> None:
    synth.write(tmp_path / "a.fxt", "spans", events=100)
    function = pickle.loads(pickle.dumps(partial(scan, table="slices")))
    batch = pa.record_batch({"path": [str(tmp_path / "a.fxt")]})
    expected = rows_of(scanned(tmp_path / "a.fxt", "slices"))
    assert expected
    for given in (batch, pa.Table.from_batches([batch]), iter([batch]), [str(tmp_path / "a.fxt")]):
        assert rows_of(pa.Table.from_batches(function(given))) == expected


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ScanError, match="there is no table 'frames', only traces, slices"):
        scan(tmp_path / "a.fxt", "frames")
