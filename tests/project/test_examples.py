"""Tests that run the examples as their documentation says, and check what they print and write."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import fxtio
import judges
from judges import perfetto
from support.broken import write_broken
from support.checkout import CHECKOUT, CORPUS, run_python
from support.in_process import run_script

EXAMPLES = CHECKOUT / "examples"
FXT = CORPUS / "fxt"


def run(name: str, *arguments: str | Path) -> str:
    """Run an example in this process."""
    done = run_script(EXAMPLES / name, *map(str, arguments))
    assert done.returncode == 0, done.stderr
    return done.stdout


def record(name: str, *arguments: str | Path) -> str:
    """Run an example that records itself, in a process of its own."""
    return run_python(str(EXAMPLES / name), *map(str, arguments)).stdout


@pytest.mark.once
def test_every_example_is_tested_and_small() -> None:
    tested = {"write_a_trace.py", "read_a_trace.py", "copy_exactly.py", "make_a_big_trace.py"}
    tested |= {"write_a_uftrace_directory.py", "read_a_mono_profile.py"}
    tested |= {"read_a_coreprofiler_trace.py", "write_a_dcpi_profile.py", "validate_a_trace.py"}
    tested |= {"dump_over_http.py", "watch_a_program.py", "count_words.py"}
    tested |= {"trace_asyncio_service.py", "trace_thread_pool.py", "trace_recursion.py", "trace_a_crash.py"}
    tested |= {"find_what_blocks.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested
    for name in tested:
        assert (EXAMPLES / name).read_text(encoding="utf-8").count("\n") < 60


@pytest.mark.once
def test_write_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "to example.fxt" in run("write_a_trace.py")
    trace = fxtio.open("example.fxt", strict=True)
    assert trace.info.records["FlowBegin"] == trace.info.records["FlowEnd"] == 5
    assert set(trace.info.threads.values()) == {"game", "audio"}
    assert trace.info.started_at is not None


@pytest.mark.full
@pytest.mark.once
def test_perfetto_shows_what_was_written(tmp_path: Path) -> None:
    judges.require(perfetto.available())
    run("write_a_trace.py", tmp_path / "t.fxt")
    with perfetto.load((tmp_path / "t.fxt").read_bytes()) as judge:
        assert judge.errors() == {}
        assert {(flow.name_out, flow.name_in) for flow in judge.flows()} == {("frame", "mix")}
        assert {item.depth for item in judge.slices() if item.name == "draw"} == {1}


@pytest.mark.once
@pytest.mark.parametrize(
    "name", ["magic-trace.fxt", "ftr-demo.fxt", "ocaml-trace-first.fxt", "ftr-counter-malformed.fxt"]
)
def test_read_a_trace(name: str) -> None:
    out = run("read_a_trace.py", FXT / name)
    assert "records by" in out
    assert ("longest complete event: 'outer', 4,258,436 ticks" in out) == (name == "ftr-demo.fxt")
    assert ("fxt.arg.counter-id-first" in out) == (name == "ftr-counter-malformed.fxt")


@pytest.mark.once
def test_read_a_trace_without_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in ("polars", "pyarrow"):
        monkeypatch.setitem(sys.modules, missing, None)
    out = run("read_a_trace.py", FXT / "magic-trace.fxt")
    assert "rcu_read_unlock_strict" in out
    assert "pip install 'fxtio[arrow]' polars" in out


@pytest.mark.once
@pytest.mark.parametrize("path", sorted(FXT.glob("*.fxt")), ids=lambda path: path.stem)
def test_copy_exactly(path: Path, tmp_path: Path) -> None:
    assert f"copied {path.stat().st_size:,} bytes" in run("copy_exactly.py", path, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == path.read_bytes()


@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("alloc-zip.mlpd", "100,032 bytes of System.Byte[] in"),
        ("exc.mlpd.gz", "26 exceptions were thrown"),
        ("minimal-v17.mlpd", "5.000 ms in My:Main ()"),
    ],
)
def test_read_a_mono_profile(name: str, message: str) -> None:
    assert message in run("read_a_mono_profile.py", CORPUS / "mono" / name)


@pytest.mark.recorder
@pytest.mark.once
def test_find_what_blocks(tmp_path: Path) -> None:
    out = run("find_what_blocks.py", tmp_path / "blocks.fxt")
    assert out.count("find_what_blocks.read_file held the loop in ") == 2
    assert "of the time of MainThread (" in out


@pytest.mark.once
def test_make_a_big_trace(tmp_path: Path) -> None:
    assert "100,000 events" in run("make_a_big_trace.py", tmp_path / "big.fxt", "100000")
    trace = fxtio.open(tmp_path / "big.fxt", strict=True)
    assert trace.info.records["DurationComplete"] == 100_000
    last = list(trace)[-1]
    assert [(arg.name, arg.value) for arg in last.args][0::2] == [("row", 99_999), ("source", "example")]
    assert sys.maxsize > last.end > last.timestamp


@pytest.mark.once
def test_read_a_coreprofiler_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    out = run("read_a_coreprofiler_trace.py")
    assert "bytes allocated" in out
    assert "profiling began 2018-04-10" in out
    path = CORPUS / "coreprofiler" / "given-specification.log"
    assert "5 ticks on 4 stacks, 72 bytes allocated" in run("read_a_coreprofiler_trace.py", path)


@pytest.mark.once
def test_write_a_dcpi_profile(tmp_path: Path) -> None:
    out = run("write_a_dcpi_profile.py", tmp_path / "t.dcpi")
    assert "addresses with samples" in out
    first, copy = (fxtio.open(tmp_path / name, format="dcpi") for name in ("t.dcpi", "t.dcpi.copy"))
    assert first.info.samples == copy.info.samples
    assert copy.header.get("note") == "a copy"
    assert not copy.findings


@pytest.mark.once
def test_count_words(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.md").write_text("Apples and apples\n\nand pears, apples\n")
    (tmp_path / "deep" / "b.txt").write_text("Pears: apples!")
    (tmp_path / "c.py").write_text("oranges")
    assert run("count_words.py", tmp_path) == "6 words in 2 files\n     4  apples\n     2  pears\n"


@pytest.mark.recorder
def test_trace_asyncio_service(tmp_path: Path) -> None:
    assert "20 requests on 20 tracks" in record("trace_asyncio_service.py", tmp_path / "t.fxt")
    trace = fxtio.open(tmp_path / "t.fxt", strict=True)
    assert trace.info.records["FlowBegin"] == trace.info.records["FlowEnd"] == 20
    assert trace.info.records["AsyncBegin"] == trace.info.records["AsyncEnd"] >= 20


@pytest.mark.recorder
def test_trace_thread_pool(tmp_path: Path) -> None:
    assert "40 jobs in" in record("trace_thread_pool.py", tmp_path / "t.fxt")
    trace = fxtio.open(tmp_path / "t.fxt", strict=True)
    assert trace.info.records["DurationBegin"] == trace.info.records["DurationEnd"] == 120
    assert trace.info.records["Counter"] == 80
    names = set(trace.info.threads.values())
    assert "MainThread" in names
    assert names - {"MainThread"} <= {f"worker_{number}" for number in range(4)}


@pytest.mark.recorder
def test_trace_recursion(tmp_path: Path) -> None:
    first, second = record("trace_recursion.py", tmp_path / "t.fxt").splitlines()
    assert first.startswith("40 solutions")
    assert second.startswith("40 solutions")
    all_calls, some_calls = (fxtio.open(tmp_path / name).info.records for name in ("t.fxt", "t.fxt.gz"))
    assert all_calls["DurationBegin"] == all_calls["DurationEnd"] > 10_000
    assert 0 < some_calls["DurationBegin"] == some_calls["DurationEnd"] < 1_000


@pytest.mark.full
@pytest.mark.recorder
def test_trace_a_crash(tmp_path: Path) -> None:
    out = record("trace_a_crash.py", tmp_path / "t.fxt")
    assert "exit status -9; 20,000 spans had ended" in out
    assert "it was in import_rows > row; its last message was 'this row is too much'" in out
    assert fxtio.open(tmp_path / "t.fxt", strict=True).info.records["Log"] == 1


@pytest.mark.full
@pytest.mark.recorder
@pytest.mark.parametrize("name", ["trace_asyncio_service.py", "trace_thread_pool.py"])
def test_perfetto_shows_what_was_traced(name: str, tmp_path: Path) -> None:
    judges.require(perfetto.available())
    record(name, tmp_path / "t.fxt")
    ends = {"trace_asyncio_service.py": ("serve", "look_up"), "trace_thread_pool.py": ("submit", "job")}
    with perfetto.load((tmp_path / "t.fxt").read_bytes()) as judge:
        assert judge.errors() == {}
        assert {(flow.name_out, flow.name_in) for flow in judge.flows()} == {ends[name]}


@pytest.mark.full
@pytest.mark.once
def test_write_a_uftrace_directory(tmp_path: Path) -> None:
    assert "7 calls of 3 functions" in run("write_a_uftrace_directory.py", tmp_path / "t")
    with fxtio.open(str(tmp_path / "t"), format="uftrace", strict=True) as trace:
        values = [item.values for item in trace.entries() if item.name == "handle"]
    assert values[0] == {"arg1": "/", "arg2": 0} and values[-1] == {"retval": 404}


@pytest.mark.once
def test_validate_a_trace(tmp_path: Path) -> None:
    write_broken("fxt.bits.padding", broken := tmp_path / "broken.fxt")
    child = subprocess.run(
        [sys.executable, EXAMPLES / "validate_a_trace.py", broken], capture_output=True, text=True, check=False
    )
    assert (child.returncode, child.stderr) == (1, "")
    title, rule, _, record = child.stdout.splitlines()
    assert title == f"{broken}: 1 findings"
    assert rule.startswith("  fxt.bits.padding (required), 1 times: ")
    assert "first in String at byte 112: " in record
    assert run("validate_a_trace.py", FXT / "janestreet-demo.fxt").endswith(": 0 findings\n")


@pytest.mark.recorder
def test_a_dump_comes_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert record("dump_over_http.py", tmp_path / "last.fxt") == "/page/0 /page/1 /page/2\n"
    begun = [entry.name for entry in fxtio.open(tmp_path / "last.fxt") if type(entry).__name__ == "DurationBegin"]
    assert begun.count("request") == 3


@pytest.mark.recorder
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="attaching needs Linux")
def test_a_program_is_watched(tmp_path: Path) -> None:
    output = record("watch_a_program.py", tmp_path / "service.fxt")
    assert re.fullmatch(r"(.*work: [\d,]+ calls so far\n)+.*work: [\d,]+ calls in all\n", output), output
