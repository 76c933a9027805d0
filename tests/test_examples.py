"""The examples run, each as its documentation says, with only what it must have."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import fxtio
import judges
from judges import perfetto
from support.checkout import CHECKOUT, CORPUS, run_python

EXAMPLES = CHECKOUT / "examples"
FXT = CORPUS / "fxt"


def run(name: str, *arguments: str | Path) -> str:
    return run_python(str(EXAMPLES / name), *map(str, arguments)).stdout


def test_every_example_is_tested_and_small() -> None:
    tested = {"write_a_trace.py", "read_a_trace.py", "copy_exactly.py", "make_a_big_trace.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested
    for name in tested:
        assert (EXAMPLES / name).read_text(encoding="utf-8").count("\n") < 60


def test_write_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "to example.fxt" in run("write_a_trace.py")
    trace = fxtio.open("example.fxt", strict=True)
    assert trace.info.records["FlowBegin"] == trace.info.records["FlowEnd"] == 5
    assert set(trace.info.threads.values()) == {"game", "audio"}
    assert trace.info.started_at is not None


def test_perfetto_shows_what_was_written(tmp_path: Path) -> None:
    judges.require(perfetto.available())
    run("write_a_trace.py", tmp_path / "t.fxt")
    with perfetto.load((tmp_path / "t.fxt").read_bytes()) as judge:
        assert judge.errors() == {}
        assert {(flow.name_out, flow.name_in) for flow in judge.flows()} == {("frame", "mix")}
        assert {one.depth for one in judge.slices() if one.name == "draw"} == {1}


@pytest.mark.parametrize(
    "name", ["magic-trace.fxt", "ftr-demo.fxt", "ocaml-trace-first.fxt", "ftr-counter-malformed.fxt"]
)
def test_read_a_trace(name: str) -> None:
    out = run("read_a_trace.py", FXT / name)
    assert "records by" in out
    assert ("longest complete event: 'outer', 4,258,436 ticks" in out) == (name == "ftr-demo.fxt")
    assert ("argument-size" in out) == (name == "ftr-counter-malformed.fxt")


def test_read_a_trace_without_a_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in ("polars", "pyarrow"):
        (tmp_path / f"{missing}.py").write_text(f"raise ImportError('no {missing} here')\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))
    out = run("read_a_trace.py", FXT / "magic-trace.fxt")
    assert "rcu_read_unlock_strict" in out
    assert "pip install 'fxtio[arrow]' polars" in out


@pytest.mark.parametrize("path", sorted(FXT.glob("*.fxt")), ids=lambda path: path.stem)
def test_copy_exactly(path: Path, tmp_path: Path) -> None:
    assert f"copied {path.stat().st_size:,} bytes" in run("copy_exactly.py", path, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == path.read_bytes()


def test_make_a_big_trace(tmp_path: Path) -> None:
    assert "100,000 events" in run("make_a_big_trace.py", tmp_path / "big.fxt", "100000")
    trace = fxtio.open(tmp_path / "big.fxt", strict=True)
    assert trace.info.records["DurationComplete"] == 100_000
    last = list(trace)[-1]
    assert [(arg.name, arg.value) for arg in last.args][0::2] == [("row", 99_999), ("source", "example")]
    assert sys.maxsize > last.end > last.timestamp
