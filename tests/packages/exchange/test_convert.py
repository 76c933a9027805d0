"""`fxtio convert` and all exporters: whole files or none, copies, losses; what Perfetto sees of the new files."""

from __future__ import annotations

import io
import json
from importlib import import_module
from pathlib import Path

import pytest

import fxtio
import judges
from fxtio import open_timeline, synth
from fxtio.cli import main
from fxtio.exchange import exchanges
from fxtio.exchange.convert import LossError, convert, exporters
from judges import perfetto
from support.conversion import View, export, perfetto_view
from support.in_process import run_piped

Capture = pytest.CaptureFixture[str]

SEEN_BY_PERFETTO = ("chrome", "fxt", "perfetto")
"""The formats to which traces are converted, and that Perfetto reads."""

SUFFIXES = {"chrome": ".json"}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Write a trace of two threads with a span and an argument each."""
    path = tmp_path / "in.fxt"
    with fxtio.create(path) as writer:
        for number in (1, 2):
            track = writer.thread(10, number, f"thread {number}", "program")
            track.complete("work", 100 * number, 100 * number + 50, args={"items": number})
    return path


def synthetic(shape: str, path: Path) -> Path:
    """Write a synthetic trace, larger than a batch."""
    synth.write(path, shape, events=20_000)
    return path


OTHERS = {"collapsed", "pprof", "cpuprofile", "parquet", "arrow", "csv"}
"""The formats that have no slices, or are not read; their own tests convert to them."""


@pytest.mark.parametrize("to", [name for name in exporters() if name not in OTHERS])
def test_the_command_writes_every_format(trace: Path, tmp_path: Path, capsys: Capture, to: str) -> None:
    out = tmp_path / f"out{SUFFIXES.get(to, '')}"
    assert main(["convert", str(trace), str(out), "--to", to]) == 0
    assert out.exists()
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(["in.fxt", out.name])
    captured = capsys.readouterr()
    assert captured.out == ""
    if to in exchanges() and not exchanges()[to].imports:
        return
    with open_timeline(out) as timeline:
        slices = timeline.table("slices")
        assert sorted(zip(slices["name"].tolist(), slices["duration"].tolist(), strict=True)) == [("work", 50)] * 2
        assert timeline.format == to


def test_the_same_format_is_copied(trace: Path, tmp_path: Path) -> None:
    damaged = trace.read_bytes()[:-5]
    trace.write_bytes(damaged)
    assert main(["convert", str(trace), str(tmp_path / "out.fxt")]) == 1  # the cut is a finding
    assert (tmp_path / "out.fxt").read_bytes() == damaged


def test_pipes(trace: Path) -> None:
    done = run_piped(trace.read_bytes(), "convert", "-", "-", "--to", "chrome")
    assert done.returncode == 0
    events = json.loads(done.stdout)["traceEvents"]
    assert sum(each["name"] == "work" and each["ph"] in "BX" for each in events) == 2
    assert done.stderr == b""


def with_a_log(path: Path) -> Path:
    with fxtio.create(path) as writer:
        writer.main.context_switch(5, 0, 1, 2, 0)
        writer.main.context_switch(8, 0, 2, 3, 0)
    return path


def test_losses_are_listed(tmp_path: Path, capsys: Capture) -> None:
    source, out = with_a_log(tmp_path / "in.fxt"), tmp_path / "out.json"
    assert main(["convert", str(source), str(out)]) == 0
    assert capsys.readouterr().err == (
        f"fxtio: chrome cannot express everything in {source}:\n  2: intervals in which a thread ran on a processor\n"
    )
    assert main(["convert", "--json", str(source), str(out)]) == 0
    losses = {"intervals in which a thread ran on a processor": 2}
    assert json.loads(capsys.readouterr().out) == {"from": "fxt", "to": "chrome", "losses": losses}


def test_strict_leaves_what_was_there(tmp_path: Path, capsys: Capture) -> None:
    source, out = with_a_log(tmp_path / "in.fxt"), tmp_path / "out.json"
    out.write_text("before")
    assert main(["convert", "--strict", str(source), str(out)]) == 2
    assert out.read_text() == "before"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in.fxt", "out.json"]
    assert "it would lose something: intervals in which a thread ran on a processor: 2" in capsys.readouterr().err
    with open_timeline(source) as timeline, pytest.raises(LossError) as caught:
        convert(timeline, out, strict=True)
    assert caught.value.losses.total() == 2


def test_usage(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    for arguments, message in (
        ([str(trace), str(tmp_path / "out.unknown")], "is not that of a format"),
        ([str(trace), str(tmp_path / "out"), "--to", "nothing"], "nothing can be converted to 'nothing'"),
        ([str(trace), "-"], "--to is needed for standard output"),
        ([str(trace), "-", "--to", "chrome", "--json"], "cannot both go to standard output"),
    ):
        assert main(["convert", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["in.fxt"]
    with pytest.raises(SystemExit):
        main(["convert", str(trace)])


@pytest.mark.parametrize("source", ["fxt", "chrome", "uftrace"])
def test_a_part(trace: Path, tmp_path: Path, source: str) -> None:
    path = trace
    if source != "fxt":
        path = tmp_path / source
        assert main(["convert", str(trace), str(path), "--to", source]) == 0
    out = tmp_path / "part.json"
    assert main(["convert", str(path), str(out), "--from", "80ns", "--until", "1h", "--thread", "2"]) == 0
    with open_timeline(out) as timeline:
        slices = timeline.table("slices")
        assert [*zip(slices["start"].tolist(), slices["duration"].tolist(), strict=True)] == [(200, 50)]
    assert main(["convert", str(path), str(out), "--until", "80ns"]) == 0
    with open_timeline(out) as timeline:
        slices = timeline.table("slices")
        assert [*zip(slices["start"].tolist(), slices["duration"].tolist(), strict=True)] == [(100, 50)]


def test_the_list(capsys: Capture) -> None:
    assert main(["convert", "--list", "--json"]) == 0
    listed = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert {name for name, each in listed.items() if each["written"]} == set(exporters())
    assert listed["chrome"]["suffixes"] == [".json"]
    assert main(["convert", "--list"]) == 0
    assert "Chrome trace event JSON" in capsys.readouterr().out


@pytest.mark.parametrize("to", exporters())
def test_every_exporter_tells_what_it_does_not_carry(to: str) -> None:
    assert all(import_module(exporters()[to].__module__).NOT_CARRIED)


def test_a_trace_out_of_order_is_written_again(tmp_path: Path) -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2)
        for number in range(100_000):
            track.complete("later", 1_000_000 + 2 * number, 1_000_001 + 2 * number)
        track.complete("earlier", 5, 7)
    with open_timeline(out.getvalue()) as timeline:
        convert(timeline, tmp_path / "out.json")
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    assert sum(each["ph"] in "BX" for each in events) == 100_001
    assert events[0]["name"] == "earlier"


@pytest.mark.full
@pytest.mark.once
@pytest.mark.parametrize("to", SEEN_BY_PERFETTO)
@pytest.mark.parametrize("shape", ["spans", "mixed", "flows", "async", "program"])
def test_perfetto_sees_the_same(shape: str, to: str, tmp_path: Path) -> None:
    judges.require(perfetto.available())
    source = synthetic(shape, tmp_path / "in.fxt")
    with open_timeline(source) as timeline:
        export(timeline, to, tmp_path / "out")
    before, after = perfetto_view(source), perfetto_view(tmp_path / "out")
    assert without_logs(after) == before


def without_logs(view: View) -> View:
    """Return a view without log messages, which FXT has too, but Perfetto does not show."""
    kept = {row: number for row, number in view.slices.items() if row[4] != "log"}
    return view._replace(slices=type(view.slices)(kept))
