"""Traces that are kept in a lake, beside the rows that are made of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import fxtio
from fxtio import synth
from fxtio.lake import ADDED, KNOWN, Lake
from fxtio.lake.layout import MARKER


def test_traces_are_kept(lake: Lake, tmp_path: Path) -> None:
    """They can be opened when their own files are gone, and go with their rows."""
    file, directory = tmp_path / "an app.fxt", tmp_path / "uftrace.data"
    synth.write(file, "program", events=100)
    synth.write(directory, "calls", events=100, format="uftrace")
    (tmp_path / "other.fxt").write_bytes(file.read_bytes())
    outcomes = [*lake.add([file, directory], keep=True), *lake.add(tmp_path / "other.fxt")]
    assert [outcome.kind for outcome in outcomes] == [ADDED, ADDED, KNOWN]
    expected = [fxtio.open_timeline(path).table("slices").num_rows for path in (file, directory)]
    file.unlink()
    shutil.rmtree(directory)
    urls = [outcome.row["url"] for outcome in outcomes[:2]]
    assert all(url.startswith(f"{lake.url}/kept/") for url in urls)
    assert [fxtio.open_timeline(url).table("slices").num_rows for url in urls] == expected
    assert lake.info().others == lake.info().orphans == 0
    assert [hit.kind for hit in lake.add(urls)] == [KNOWN, KNOWN]
    lake.drop(*lake.ids())
    assert not [path for path in Path(lake.url).rglob("*") if path.is_file() and path.name != MARKER]


def test_what_killed_writers_kept_is_left_over(lake: Lake, tmp_path: Path) -> None:
    synth.write(tmp_path / "a.fxt", "program", events=100)
    [*lake.add(tmp_path / "a.fxt", keep=True)]
    (identity,) = lake.ids()
    (Path(lake.url) / "traces" / f"{identity}.parquet").unlink()
    assert lake.info().orphans > 1
    lake.drop_older("1d")
    (kept,) = (Path(lake.url) / "kept" / identity).iterdir()
    for path in Path(lake.url).rglob("*"):
        os.utime(path, (0, 0))
    assert kept.exists()
    lake.drop_older("1d")
    assert not kept.exists() and lake.info().orphans == 0
