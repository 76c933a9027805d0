"""The command `fxtio merge`, with what a recording leaves, and judged by Perfetto."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

import fxtio
import judges
from fxtio.cli import main
from judges import perfetto
from support.checkout import run_python
from support.fxt_merge import SECOND, START_TIME, joined, readable_records, records_of, written
from support.in_process import run_piped
from support.tracer_check import check_trace
from support.tracer_run import fine

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def two(tmp_path: Path) -> tuple[str, str]:
    """Write two traces and return their paths."""
    for number in range(2):
        clock = {"ticks_per_second": SECOND, "wall_clock": START_TIME + number}
        (tmp_path / f"{number}.fxt").write_bytes(written(clock, [10, 20], 1))
    return str(tmp_path / "0.fxt"), str(tmp_path / "1.fxt")


def test_the_command(two: tuple[str, str], tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out.fxt"
    assert main(["merge", "-o", str(out), *two]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    data, _, merged = joined(*(Path(path).read_bytes() for path in two))
    assert out.read_bytes() == data
    assert len(records_of(data)) == 1 + merged.records
    assert captured.err == f"fxtio: wrote {merged.records} records of 2 providers ({len(data):,} bytes) to {out}\n"


def test_the_output_may_be_an_input(two: tuple[str, str], tmp_path: Path) -> None:
    expected, _, _ = joined(*(Path(path).read_bytes() for path in two))
    assert main(["merge", "-o", two[0], *two]) == 0
    assert Path(two[0]).read_bytes() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.fxt", "1.fxt"]


def test_pipes_and_compression(two: tuple[str, str]) -> None:
    first, second = (Path(path).read_bytes() for path in two)
    done = run_piped(gzip.compress(first), "merge", "-o", "-", "-", two[1])
    assert done.returncode == 0
    assert done.stdout == joined(first, second)[0]
    assert done.stderr.endswith(b" to standard output\n")


def test_findings_are_printed_for_each_trace(two: tuple[str, str], tmp_path: Path, capsys: Capture) -> None:
    cut = tmp_path / "cut.fxt"
    cut.write_bytes(Path(two[0]).read_bytes()[:-8])
    out = tmp_path / "out.fxt"
    assert main(["merge", "-o", str(out), str(cut), two[1]]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"fxtio: {cut}: 1 finding"
    assert "[fxt.framing.truncated]" in lines[1]
    assert len(lines) == 3
    first, second = (readable_records(path.read_bytes()) for path in (cut, Path(two[1])))
    assert readable_records(out.read_bytes()) == first + second


@pytest.mark.parametrize("bad", ["missing.fxt", "text.fxt", "empty.fxt"])
def test_an_error_changes_nothing(bad: str, two: tuple[str, str], tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "text.fxt").write_text("no trace")
    (tmp_path / "empty.fxt").touch()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(["merge", "-o", two[0], *two, str(tmp_path / bad)]) == 2
    assert main(["merge", "-o", str(tmp_path / "new.fxt"), *two, str(tmp_path / bad)]) == 2
    assert capsys.readouterr().err.count(bad) == 2
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_error_while_it_writes(two: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*ignored: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fxtio.io.sink.Sink.write", fail)
    assert main(["merge", "-o", str(tmp_path / "new.fxt"), *two]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.fxt", "1.fxt"]


def test_where_nothing_can_be_written(two: tuple[str, str], tmp_path: Path, capsys: Capture) -> None:
    nowhere = tmp_path / "no folder" / "out.fxt"
    assert main(["merge", "-o", str(nowhere), *two]) == 2
    assert main(["merge", "-o", str(tmp_path), *two]) == 2
    assert capsys.readouterr().err == (
        f"fxtio: {nowhere}: No such file or directory\nfxtio: {tmp_path}: Is a directory\n"
    )


def test_more_traces_than_open_files(two: tuple[str, str], tmp_path: Path) -> None:
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)); from fxtio.cli import main; "
        f"sys.exit(main(['merge', '-o', {str(tmp_path / 'out.fxt')!r}, *[{two[0]!r}] * 100]))"
    )
    run_python("-c", code)
    with fxtio.open(tmp_path / "out.fxt") as trace:
        assert len({provider.id for provider in trace.info.providers}) == 100


@pytest.mark.recorder
def test_the_parts_of_a_recording(tmp_path: Path) -> None:
    """Merging the parts gives the same trace as recording them together."""
    source = """
    import shutil
    fxtio.start(OUT)
    with fxtio.span("parent"):
        child = os.fork()
        if not child:
            with fxtio.span("child"):
                pass
            fxtio.stop()
            os._exit(0)
        os.waitpid(child, 0)
    shutil.copy(OUT, OUT + ".raw")
    shutil.copy(f"{OUT}.{child}.part", OUT + ".part")
    """
    out = tmp_path / "out.fxt"
    fine(source, out)
    merged = tmp_path / "merged.fxt"
    assert main(["merge", "-o", str(merged), f"{out}.raw", f"{out}.part"]) == 0
    seen, expected = check_trace(merged), check_trace(out)
    assert [span.name for span in seen.spans()] == [span.name for span in expected.spans()]
    assert seen.names_of("process") == expected.names_of("process")
    assert merged.stat().st_size < 8192


@pytest.mark.recorder
def test_two_recordings_of_two_programs(tmp_path: Path) -> None:
    """Events of the two programs keep their distance in time."""
    paths = [str(tmp_path / name) for name in ("second.fxt", "first.fxt.zst")]
    for path in reversed(paths):
        fine("time.sleep(0.05); fxtio.instant('moment', wall=time.time_ns())", path, start=True)
    assert main(["merge", "-o", str(tmp_path / "both.fxt"), *paths]) == 0
    with fxtio.open(tmp_path / "both.fxt") as trace:
        moments = [entry for entry in trace.entries() if getattr(entry.record, "name", "") == "moment"]
    later, sooner = ((entry.time, entry.record.args[0].value) for entry in moments)
    assert later[0] is not None
    assert sooner[0] is not None
    distance = later[1] - sooner[1]
    assert distance > 0
    assert abs(later[0] - sooner[0] - distance) < distance / 4


# ------------------------------------------------------------------------------------------------------------- Perfetto


@pytest.mark.full
def test_perfetto_sees_both() -> None:
    judges.require(perfetto.available())
    traces = []
    for number, rate, start in (
        (1, SECOND, START_TIME + 3000),
        (2, 25_000_000, START_TIME),
        (3, 2_000_000_000, START_TIME + 500),
    ):
        out = io.BytesIO()
        with fxtio.create(out, format="fxt", ticks_per_second=rate, wall_clock=start) as writer:
            track = writer.thread(number, number * 10, f"thread {number}", f"process {number}")
            track.begin("outer", 100, args={"number": number})
            track.complete("inner", 125, 150, category="c")
            track.end("outer", 200)
            track.counter("count", 200, {"value": number})
        traces.append(out.getvalue())
    data, _, _ = joined(*traces)
    with perfetto.load(data) as p:
        assert p.errors() == {}
        assert [(span.pid, span.tid, span.name, span.ts, span.dur, span.depth) for span in p.slices()] == [
            (3, 30, "outer", 550, 50, 0),
            (3, 30, "inner", 562, 13, 1),
            (1, 10, "outer", 3100, 100, 0),
            (1, 10, "inner", 3125, 25, 1),
            (2, 20, "outer", 4000, 4000, 0),
            (2, 20, "inner", 5000, 1000, 1),
        ]
        assert [span.args for span in p.slices()] == [{"number": 3}, {}, {"number": 1}, {}, {"number": 2}, {}]
        assert {(process.pid, process.name) for process in p.processes()} == {(n, f"process {n}") for n in (1, 2, 3)}
        assert {(thread.tid, thread.name) for thread in p.threads()} == {(n * 10, f"thread {n}") for n in (1, 2, 3)}
        assert [(counter.ts, counter.value) for counter in p.counters()] == [(600, 3.0), (3200, 1.0), (8000, 2.0)]
