"""Tests of the judges themselves, on the corpus: a judge that overlooks errors would prove nothing.

What each judge makes of each trace is written down here as it was observed, quirks included. When a new version of a
judge changes its mind, one of these tests says so first.
"""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import judges
from judges import go_pprof, perfetto, pypi_fxt, speedscope

pytestmark = [pytest.mark.full, pytest.mark.once]

CORPUS = Path(__file__).parents[1] / "corpus" / "fxt"
TRACES = sorted(path.name for path in CORPUS.glob("*.fxt"))
VECTORS: dict[str, bytes] = {
    vector["name"]: bytes.fromhex(vector["hex"]) for vector in json.loads((CORPUS / "vectors.json").read_text("utf-8"))
}
MAGIC = VECTORS["libfxt/magic"]


@pytest.fixture
def _perfetto() -> None:
    judges.require(perfetto.available())


@pytest.fixture
def _pypi_fxt() -> None:
    judges.require(pypi_fxt.available())


needs_perfetto = pytest.mark.usefixtures("_perfetto")
needs_pypi_fxt = pytest.mark.usefixtures("_pypi_fxt")


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def string_record(index: int, text: str) -> bytes:
    data = text.encode()
    size = 1 + -(-len(data) // 8)
    return words(2 | size << 4 | index << 16 | len(data) << 32) + data.ljust(8 * (size - 1), b"\0")


# ------------------------------------------------------------------------------------------------------- the corpus


def test_expectations_match_the_corpus() -> None:
    run = subprocess.run([sys.executable, str(CORPUS / "derive.py"), "--check"], check=False, capture_output=True)
    assert run.returncode == 0, run.stderr.decode()


def test_readme_lists_every_trace_with_its_checksum() -> None:
    readme = (CORPUS / "README.md").read_text("utf-8")
    for name in TRACES:
        assert f"| `{name}` |" in readme
        assert f"{hashlib.sha256((CORPUS / name).read_bytes()).hexdigest()}  {name}\n" in readme


# ---------------------------------------------------------------------------------------------------- missing judges


def test_a_missing_judge_skips_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no such judge"):
        judges.require("no such judge")
    judges.require(None)


def test_a_missing_judge_fails_on_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no such judge"):
        judges.require("no such judge")


def test_perfetto_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FXTIO_PERFETTO_DIST", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda _: "node")
    assert "FXTIO_PERFETTO_DIST has no engine_bundle.js" in str(perfetto.available())
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert "no Node.js" in str(perfetto.available())
    monkeypatch.setattr("judges.perfetto._idle", [])
    with pytest.raises(perfetto.PerfettoError, match=r"no Node\.js"):
        perfetto.load(MAGIC)


# ---------------------------------------------------------------------------------------------------------- Perfetto

# slices, threads, processes, counter samples, flows; None where the import fails
SEEN_BY_PERFETTO = {
    "ffx-perfetto-blobs.fxt": None,  # its blobs are filler, not protobuf
    "ffx-symbolize-profiler.fxt": (0, 0, 0, 0, 0),
    "ftr-counter-malformed.fxt": (0, 0, 1, 3, 0),  # garbled counters, and no error statistic
    "ftr-demo.fxt": (143, 2, 1, 0, 50),
    "janestreet-demo.fxt": (4, 1, 1, 2, 2),
    "magic-trace.fxt": (17296, 1, 1, 0, 0),
    "nixpkgs-tracy.fxt": (1, 1, 1, 0, 0),
    "ocaml-trace-first.fxt": (1, 1, 1, 0, 0),
    "ocaml-trace-second.fxt": (3, 1, 1, 0, 0),
}


@needs_perfetto
@pytest.mark.parametrize("name", TRACES)
def test_perfetto_on_the_corpus(name: str) -> None:
    seen = SEEN_BY_PERFETTO[name]
    if seen is None:
        with pytest.raises(perfetto.PerfettoImportError, match="Unknown field type"):
            perfetto.load(CORPUS / name)
        return
    with perfetto.load(CORPUS / name) as p:
        assert p.errors() == {}
        counts = (len(p.slices()), len(p.threads()), len(p.processes()), len(p.counters()), len(p.flows()))
        assert counts == seen


@needs_perfetto
def test_perfetto_on_magic_trace() -> None:
    with perfetto.load(CORPUS / "magic-trace.fxt") as p:
        slices = p.slices()
        assert [(t.pid, t.tid, t.name) for t in p.threads()] == [(1, 2, "main")]
        assert [(process.pid, process.name) for process in p.processes()] == [(1, "2248878/2248878")]
    assert (slices[0].name, slices[0].ts, slices[0].dur) == ("_start", 0, 240591)
    assert slices[0].args["symbol"] == "_start"
    assert max(item.depth for item in slices) == 25
    assert all(item.end is not None for item in slices)


@needs_perfetto
def test_perfetto_views_on_the_jane_street_demo() -> None:
    with perfetto.load(CORPUS / "janestreet-demo.fxt") as p:
        slices = p.slices()
        assert [(item.ts, item.end) for item in slices] == [
            (10_000, 5_000_000),
            (7_000_000, 15_000_000),
            (17_000_000, 17_000_000),
            (20_000_000, 40_000_000),
        ]
        assert {(item.name, item.category, item.pid, item.tid) for item in slices} == {("my_funct", "stuff", 1, 2)}
        assert slices[3].args == {"my_funct": -(1 << 62), "stuff": -1, "myproc": -1.0} == p.args(3)
        assert p.args(2) == {}
        assert [(c.series, c.counter_id, c.value) for c in p.counters()] == [
            ("my_funct:stuff", 1, 1.0),
            ("my_funct:stuff", 1, 2.5),
        ]
        assert [(flow.slice_out, flow.slice_in) for flow in p.flows()] == [(0, 1), (1, 3)]


@needs_perfetto
def test_perfetto_keeps_arguments_as_its_module_says() -> None:
    strings = string_record(7, "seven") + string_record(8, "eight") + string_record(9, "nine")
    with perfetto.load(MAGIC + strings + VECTORS["spec/instant_all_argument_types"]) as p:
        assert p.errors() == {}
        (instant,) = p.slices()
    assert (instant.name, instant.category, instant.dur, instant.pid, instant.tid) == ("all", "cat", 0, 100, 101)
    assert instant.args == {
        "n": "null",
        "i32": -(1 << 31),
        "u32": (1 << 32) - 1,
        "i64": -(1 << 63),
        "u64": -1,
        "double": -0.15625,
        "inline": "some text",
        "indexed": "seven",
        "eight": "",
        "pointer": 0xDEADBEEF00C0FFEE,
        "koid": -(1 << 63),
        "true": True,
        "nine": False,
        "blob": "unknown",
    }


@needs_perfetto
def test_perfetto_scheduling() -> None:
    with perfetto.load(MAGIC + VECTORS["perfetto/switch_then_wakeup_with_waker"]) as p:
        assert p.errors() == {}
        (running,) = p.sched()
        states = p.thread_states()
    assert (running.cpu, running.ts, running.dur, running.tid) == (1, 1, -1, 0xCCCCCCCC)
    (woken,) = [state for state in states if state.ts == 2]
    assert (woken.tid, woken.state) == (0xAAAAAAAA, "W")
    assert woken.waker_tid in (None, 0xCCCCCCCC)  # only builds since 2026 read the `waker` argument


@needs_perfetto
def test_perfetto_query_returns_exact_values() -> None:
    with perfetto.load(MAGIC) as p:
        sql = "select 9223372036854775807 a, -1 b, 0.1 c, 1e999 d, null e, x'00ff' f, 'caf\u00e9 \U0001f389' g, '' h"
        row = {"a": 2**63 - 1, "b": -1, "c": 0.1, "d": float("inf"), "e": None, "f": b"\0\xff", "g": "café 🎉", "h": ""}
        assert p.query(sql) == [row]
        assert p.query("select 1 where false") == []
        numbers = p.query("with recursive n(x) as (select 0 union all select x + 1 from n limit 50000) select x from n")
        assert [number["x"] for number in numbers] == list(range(50_000))
        with pytest.raises(perfetto.PerfettoQueryError, match="no such table: nowhere"):
            p.query("select * from nowhere")
        assert p.query("select count(*) as n from slice") == [{"n": 0}]
        assert not (p.slices() or p.threads() or p.processes())
    with pytest.raises(perfetto.PerfettoError, match="closed"):
        p.query("select 1")


@needs_perfetto
def test_perfetto_text_that_is_not_utf8() -> None:
    with perfetto.load(MAGIC + VECTORS["perfetto/inline_instant"]) as p:
        (instant,) = p.slices()
    assert (instant.category, instant.name) == ("\udcdd" * 8, "\udcee" * 8)


@needs_perfetto
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"no trace at all", "Unknown trace type"),
        (MAGIC + bytes(8), "size 0"),
        (MAGIC + VECTORS["spec/context_switch_highest_cpu"], "kMaxCpusPerMachine"),  # the engine aborts
    ],
)
def test_perfetto_refuses(data: bytes, message: str) -> None:
    with pytest.raises(perfetto.PerfettoImportError, match=message):
        perfetto.load(data)
    with perfetto.load(MAGIC) as p:  # and the next trace is none the worse for it
        assert p.errors() == {}
        assert p.slices() == []


@needs_perfetto
def test_perfetto_reports_dropped_records() -> None:
    unbound = words(4 | 2 << 4 | 1 << 24 | 99 << 48, 10)  # an instant whose name is string 99, never registered
    with perfetto.load(MAGIC + unbound) as p:
        assert p.errors() == {"fuchsia_invalid_string_ref": 1}


@needs_perfetto
def test_perfetto_two_traces_at_once() -> None:
    with perfetto.load(MAGIC) as empty, perfetto.load(CORPUS / "ocaml-trace-first.fxt") as full:
        assert [item.name for item in full.slices()] == ["hello"]
        assert empty.slices() == []


@needs_perfetto
def test_perfetto_keeps_time() -> None:
    endless = "with recursive n(x) as (select 0 union all select x + 1 from n) select count(*) from n"
    with perfetto.load(MAGIC) as p:
        with pytest.raises(perfetto.PerfettoTimeoutError):
            p.query(endless, timeout=0.3)
        with pytest.raises(perfetto.PerfettoQueryError, match="no longer running"):
            p.query("select 1")
    with pytest.raises(perfetto.PerfettoTimeoutError):
        perfetto.load(CORPUS / "magic-trace.fxt", timeout=0.0)
    with pytest.raises(FileNotFoundError):
        perfetto.load(CORPUS / "nowhere.fxt")
    assert 0 < perfetto.timed_import(CORPUS / "magic-trace.fxt") < 60


# ---------------------------------------------------------------------------------------------------------- PyPI fxt

# (opens the file as it is, opens it repaired)
OPENED_BY_PYPI_FXT = {
    "ffx-perfetto-blobs.fxt": (True, True),
    "ffx-symbolize-profiler.fxt": (False, True),
    "ftr-counter-malformed.fxt": (False, False),
    "ftr-demo.fxt": (False, True),
    "janestreet-demo.fxt": (True, True),
    "magic-trace.fxt": (True, True),
    "nixpkgs-tracy.fxt": (False, True),
    "ocaml-trace-first.fxt": (False, True),
    "ocaml-trace-second.fxt": (False, False),  # its provider info unbinds the thread that later events use
}


@needs_pypi_fxt
@pytest.mark.parametrize("repaired", [False, True])
@pytest.mark.parametrize("name", TRACES)
def test_pypi_fxt_on_the_corpus(name: str, repaired: bool) -> None:
    if not OPENED_BY_PYPI_FXT[name][repaired]:
        with pytest.raises(pypi_fxt.PypiFxtError):
            pypi_fxt.read(CORPUS / name, repaired=repaired)
        return
    trace = pypi_fxt.read(CORPUS / name, repaired=repaired)
    assert not trace.truncated
    counts = json.loads((CORPUS / "files.json").read_text("utf-8"))[name]["counts"]
    seen = Counter(record["kind"] for record in trace.records)
    assert all(counts[kind] == number for kind, number in seen.items())
    assert sum(seen.values()) + sum(trace.left_out.values()) == sum(
        number
        for kind, number in counts.items()
        if kind not in ("magic", "provider_info", "provider_section", "initialization", "string", "thread")
    )


@needs_pypi_fxt
def test_pypi_fxt_on_magic_trace() -> None:
    trace = pypi_fxt.read(CORPUS / "magic-trace.fxt", repaired=False)
    (provider,) = trace.providers.values()
    assert (list(trace.providers), provider.name, len(provider.records)) == ([0], "jane_tracing", 34594)
    assert len(trace.texts) == 864
    assert trace.threads == {(1, 2)}
    assert 0 < pypi_fxt.timed_read(CORPUS / "magic-trace.fxt") < 60


@needs_pypi_fxt
def test_pypi_fxt_truncated_trace() -> None:
    trace = pypi_fxt.read((CORPUS / "janestreet-demo.fxt").read_bytes()[:-8])
    assert trace.truncated
    assert len(trace.records) == 11


@needs_perfetto
@needs_pypi_fxt
def test_the_judges_agree_on_magic_trace() -> None:
    records = pypi_fxt.read(CORPUS / "magic-trace.fxt").records
    begins = Counter((r["name"], r["timestamp_ns"]) for r in records if r["kind"] == "duration_begin")
    ends = Counter(r["timestamp_ns"] for r in records if r["kind"] == "duration_end")
    with perfetto.load(CORPUS / "magic-trace.fxt") as p:
        slices = p.slices()
    assert Counter((item.name, item.ts) for item in slices) == begins
    assert Counter(item.end for item in slices) == ends


# ---------------------------------------------------------------------------------------------- speedscope and pprof


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.speedscope.json", b'{"$schema":"https://www.speedscope.app/file-format-schema.json","profiles":[]'),
        ("x.speedscope.json", b"{}"),
        ("x.pprof", b"\x0a\x04\x08\x01\x10"),
        ("x.collapsed", b"no weight\n"),
    ],
)
def test_speedscope_refuses_other_files(name: str, data: bytes, tmp_path: Path) -> None:
    judges.require(speedscope.available())
    (tmp_path / name).write_bytes(data)
    with pytest.raises(speedscope.SpeedscopeError):
        speedscope.load(tmp_path / name)


@pytest.mark.parametrize("data", [b"", b"\x0a\x04\x08\x01\x10", b"text"])
def test_pprof_refuses_other_files(data: bytes, tmp_path: Path) -> None:
    judges.require(go_pprof.available())
    (tmp_path / "x.pprof").write_bytes(data)
    with pytest.raises(go_pprof.PprofError):
        go_pprof.load(tmp_path / "x.pprof")
