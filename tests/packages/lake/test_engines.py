"""Other engines find in a lake, in tables over its files, and in scanned traces what fxtio finds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import judges
from fxtio import synth
from fxtio.lake import Lake, LakeError, export
from fxtio.lake.store import ObjectStore
from judges import engines
from support.checkout import CHECKOUT

PAGE = CHECKOUT / "docs" / "how-to" / "from-one-file-to-a-cluster.md"

pytestmark = [pytest.mark.full, pytest.mark.once]


EXPORT_TWICE = """
import sys
from fxtio.lake import Lake, LakeError, export
url, kind, *target = sys.argv[1:]
tables, change = export.KINDS[kind], export.KINDS[kind].change
def after_another(self, *arguments):
    tables.change = change
    Lake(url).export(kind, *target)
    change(self, *arguments)
tables.change = after_another
try:
    Lake(url).export(kind, *target)
except LakeError as error:
    print(error)
"""
"""An export, in which another one is made when it has seen what the first table lacks."""


@pytest.fixture
def _engines() -> None:
    judges.require(engines.available())


needs_engines = pytest.mark.usefixtures("_engines")


@pytest.fixture
def traces(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{number}.fxt" for number in range(3)]
    for number, path in enumerate(paths):
        synth.write(path, "program", events=500 + 400 * number)
    return paths


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake 1", create=True)


def sums(lake: Lake) -> list[Any]:
    return sorted(lake.sql(engines.SUMS).fetchall())


@needs_engines
@pytest.mark.parametrize("kind", ["delta", "iceberg", "ducklake"])
def test_tables_of_other_systems(kind: str, lake: Lake, traces: list[Path], tmp_path: Path) -> None:
    target = [] if kind == "delta" else [str(tmp_path / f"tables.{kind}")]
    place = target[0] if target else lake.url

    def export_again() -> None:
        engines.run("-m", "fxtio", "lake", "export", lake.url, "--to", kind, *target)
        assert engines.sums(kind, place) == sums(Lake(lake.url))

    assert not [each for each in lake.add(traces[:2]) if each.reason]
    if kind != "ducklake":  # whose database is locked
        refusal = engines.run("-c", EXPORT_TWICE, lake.url, kind, *target)
        assert bool(refusal) == (kind == "iceberg")
    export_again()
    files = {path.stem for path in tmp_path.rglob("*.parquet")}
    assert files == lake.ids()  # nothing was copied
    first, second = sorted(lake.ids())
    lake.drop(first)
    lake.drop(second)
    [*lake.add(traces, labels={"again": "x" * 100})]  # the files about the first two are others
    lake.drop(first)
    export_again()
    assert len(lake.ids()) == 2  # logs of tables are not taken for traces


@needs_engines
@pytest.mark.parametrize("engine", ["Dask", "Spark"])
def test_the_examples_of_the_documents(
    engine: str, lake: Lake, traces: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They print the three largest sums twice: those of a lake, and of scanned traces."""
    monkeypatch.chdir(lake.url.rpartition("/")[0])
    for path, name in zip(traces, ("a.fxt", "b.fxt"), strict=False):
        path.rename(name)
    [*Lake("runs.lake", create=True).add(["a.fxt", "b.fxt"])]
    section = PAGE.read_text("utf-8").partition(f"\n## {engine}\n")[2]
    Path("example.py").write_text(section.partition("```python\n")[2].partition("```\n")[0], "utf-8")
    if engine == "Dask":
        output = engines.run("example.py")
    else:
        with engines.sail() as url:
            output = engines.run("example.py", SPARK_REMOTE=url)
    largest = [(row["key"], str(row["self"])) for row in Lake("runs.lake").top(limit=3).rows]
    assert re.findall(r"^\W*(\S.*?)[\s|]+(\d+)\W*$", output, re.MULTILINE) == largest * 2


@needs_engines
@pytest.mark.parametrize("engine", ["dask", "sail"])
def test_engines(engine: str, lake: Lake, traces: list[Path]) -> None:
    """Scanned traces are in the examples of the documents."""
    assert not [each for each in lake.add(traces) if each.reason]
    assert len(sums(lake)) > 3
    assert engines.sums(engine, lake.url) == sums(lake)


@needs_engines
def test_tables_over_an_object_store(bucket: str, traces: list[Path], tmp_path: Path) -> None:
    lake = Lake(f"{bucket}/some/lake", create=True)
    assert not [each for each in lake.add(traces) if each.reason]
    for kind, target in (("delta", []), ("iceberg", [str(tmp_path / "tables")])):
        engines.run("-m", "fxtio", "lake", "export", lake.url, "--to", kind, *target)
        assert engines.sums(kind, *(target or [lake.url])) == sums(lake)


def test_a_path_that_delta_would_read_as_another_one(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    lake = Lake(tmp_path / "a%20b", create=True)
    with pytest.raises(LakeError, match=r"delta cannot have tables in .*a%20b: it takes % with two digits"):
        lake.export("delta")
    assert [each.name for each in tmp_path.iterdir()] == ["a%20b"]


def test_targets_that_make_no_sense(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="'hudi' is not a kind of tables; one of delta, iceberg, ducklake"):
        lake.export("hudi")
    with pytest.raises(LakeError, match="iceberg needs a target"):
        lake.export("iceberg")
    with pytest.raises(LakeError, match="delta takes no target"):
        lake.export("delta", tmp_path)
    with pytest.raises(LakeError, match="ducklake has tables over folders only"):
        export.export(ObjectStore("s3://runs"), {}, "ducklake", "runs.ducklake")
