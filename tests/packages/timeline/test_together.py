"""Traces that are laid beside each other: by which clock, and that each is then as it is alone."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import pytest

import fxtio
from contract.samples import SYNTHETIC, Sample
from contract.test_timeline import opened
from fxtio import open_timeline
from fxtio.cli import main
from fxtio.exchange.convert import convert, exporters
from fxtio.fxt import FxtWriter
from fxtio.fxt.enums import ObjectType
from fxtio.fxt.records import KernelObject, Uint64Argument
from fxtio.table import Table
from fxtio.timeline import Timeline
from fxtio.timeline.parts import BOOTTIME, MONOTONIC, REALTIME, Registry, TimelinePart
from fxtio.timeline.schema import TABLES
from fxtio.timeline.together import AlignmentError, Placed, Together, placed
from support import uftrace_judge

SECOND = 10**9
NOW = 1_790_000_000 * SECOND


def with_clocks(name: str, **clocks: int) -> Timeline:
    """Return an empty timeline that knows what clocks show at its time 0."""

    def parts(registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
        for clock, value in clocks.items():
            registry.note_clock(clock, value)
        yield TimelinePart()

    return Timeline(name, "fxt", parts)


def shifts(*timelines: Timeline, **offsets: int) -> list[tuple[int, str]]:
    """Return how traces are placed; offsets have names like `_1`."""
    by_number = {int(name[1:]): offset for name, offset in offsets.items()}
    return [(each.shift, each.how) for each in placed(timelines, by_number)]


def test_the_most_exact_clock_relates_traces() -> None:
    first = with_clocks("a", monotonic=100, realtime=NOW)
    assert shifts(first, with_clocks("b", monotonic=150, realtime=NOW + SECOND)) == [
        (0, "as it is the first"), (50, "by CLOCK_MONOTONIC"),
    ]  # fmt: skip
    assert shifts(first, with_clocks("b", monotonic=40)) == [
        (60, "as it is the first"), (0, "by CLOCK_MONOTONIC"),
    ]  # fmt: skip
    assert shifts(first, with_clocks("b", boottime=5, realtime=NOW + 7))[1] == (7, "by the wall clock")


def test_clocks_of_another_start_of_a_system_relate_nothing() -> None:
    first = with_clocks("a", monotonic=100, realtime=NOW)
    other = with_clocks("b", monotonic=150, realtime=NOW + 3600 * SECOND)
    assert shifts(first, other)[1] == (3600 * SECOND, "by the wall clock")


def test_a_trace_may_be_placed_by_one_that_is_not_the_first() -> None:
    traces = [with_clocks("a", realtime=NOW), with_clocks("b", boottime=7), with_clocks("c", realtime=NOW, boottime=2)]
    assert shifts(*traces) == [
        (0, "as it is the first"), (5, "by CLOCK_BOOTTIME of c"), (0, "by the wall clock"),
    ]  # fmt: skip


def test_the_most_exact_clock_decides_beside_which_trace_one_is() -> None:
    page, program = with_clocks("page", realtime=NOW + 5), with_clocks("program", realtime=NOW + 600, monotonic=1000)
    functions = with_clocks("functions", realtime=NOW - SECOND, monotonic=0)  # its wall clock has whole seconds
    for traces in ([page, program, functions], [page, functions, program]):
        assert {each.timeline.name: (each.shift, each.how) for each in placed(traces)} == {
            "page": (405, "as it is the first"),
            "program": (1000, "by the wall clock"),
            "functions": (0, "by CLOCK_MONOTONIC of program"),
        }


def test_what_the_user_says_goes_before_clocks() -> None:
    traces = [with_clocks("a", realtime=NOW), with_clocks("b", realtime=NOW + 5)]
    assert shifts(*traces, _1=-3) == [(3, "as it is the first"), (0, "as given")]


def test_traces_without_a_clock_in_common_are_refused() -> None:
    with pytest.raises(AlignmentError, match=r"^b has no clock in common with a; it needs an offset"):
        placed([with_clocks("a", realtime=NOW), with_clocks("b", monotonic=1)])


def test_traces_that_are_too_far_from_each_other_are_refused() -> None:
    with pytest.raises(AlignmentError, match=r"^b would be more than 292 years after another trace"):
        placed([with_clocks("a", realtime=1 - 2**63), with_clocks("b", realtime=2**63 - 1)])


def described(tables: dict[str, Table], shift: int = 0) -> Counter[str]:
    """Return the rows of all tables, with what they refer to in place of numbers."""
    rows = {name: list(table.rows()) for name, table in tables.items()}
    processes = [row["pid"] for row in rows["processes"]]
    threads = [(processes[row["process"]], row["tid"], row["name"]) for row in rows["threads"]] + [None]
    tracks = [(row["kind"], row["name"], row["id"], threads[row["thread"]]) for row in rows["tracks"]]
    stacks: list[Any] = [None]
    for row in rows["stacks"]:
        stacks.append((stacks[row["parent"] + 1], str(rows["frames"][row["frame"]])))
    slices = {row["id"]: (row["start"] + shift, row["name"]) for row in rows["slices"]}
    owners = {row["event"]: (name, row["name"]) for name in ("slices", "instants") for row in rows[name]}
    result = Counter[str]()
    for name in ("slices", "instants", "counters", "samples", "allocations", "logs", "scheduling", "wakeups", "args"):
        for row in rows[name]:
            for column in row.keys() & {"time", "start"}:
                row[column] += shift
            if name == "args":
                row["event"] = owners.get(row["event"])
            for column, values in (("track", tracks), ("thread", threads), ("waker", threads)):
                if column in row:
                    row[column] = values[row[column]]
            if "stack" in row:
                row["stack"] = stacks[row["stack"] + 1]
            for column in ("parent", "slice"):
                if column in row:
                    row[column] = slices.get(row[column])
            result[
                str((name, {key: value for key, value in row.items() if key not in ("id", "event", "end_event")}))
            ] += 1
    return result


def small() -> bytes:
    """Return a trace whose numbers of events, tracks, threads and names are not those that others begin with."""
    out = io.BytesIO()
    with FxtWriter(out) as writer:
        for number in range(3):
            track = writer.thread(777_777, 888_880 + number, f"thread {number}")
            track.complete(f"own {number}", 10 * number, 10 * number + 5, args={"a": f"b {number}"})
    return out.getvalue()


@pytest.mark.parametrize("sample", SYNTHETIC, ids=str)
def test_each_trace_is_as_it_is_alone(sample: Sample, tmp_path: Path) -> None:
    with opened(sample, tmp_path) as timeline, open_timeline(small()) as first:
        for traces in (
            [Placed(first, 0, ""), Placed(timeline, 1000, "")],
            [Placed(timeline, 1000, ""), Placed(first, 0, "")],
        ):
            both = described(Together(traces).tables(*TABLES))
            assert both == described(first.tables(*TABLES)) + described(timeline.tables(*TABLES), 1000)


def test_one_thread_in_two_traces_has_two_tracks() -> None:
    traces = [Placed(open_timeline(small()), shift, "") for shift in (0, 3)]
    tables = Together(traces).tables("threads", "processes", "slices")
    names = tables["threads"]["name"].tolist()
    assert names[:3] == ["thread 0", "thread 1", "thread 2"]
    assert [name.partition(" (")[0] for name in names[3:]] == names[:3]
    assert tables["processes"].num_rows == 1
    assert set(tables["slices"]["depth"].tolist()) == {0}
    assert len(set(tables["slices"]["track"].tolist())) == 6


def test_a_thread_that_stands_for_another_is_no_thread_of_a_trace() -> None:
    """The second trace is one that was made of several: it has a number that would be free else."""

    def threads(*numbers: int) -> Placed:
        events = [{"ph": "X", "name": str(each), "ts": 0, "dur": 5, "pid": 1, "tid": each} for each in numbers]
        return Placed(open_timeline(json.dumps(events).encode()), 0, "")

    for numbers in ((5, (3 << 29) + 1), ((3 << 29) + 1, 5)):
        traces = [threads(5), threads(*numbers), threads(5, (3 << 29) + 1, (3 << 29) + 2)]
        tables = Together(traces).tables("threads", "slices")
        assert len({*tables["threads"]["tid"].tolist()}) == len({*tables["slices"]["track"].tolist()}) == 6


def test_arrows_are_apart_unless_both_are_fxt() -> None:
    events = [
        {"ph": "X", "name": "a", "ts": 0, "dur": 9, "pid": 1, "tid": 1},
        {"ph": "s", "name": "f", "id": 5, "ts": 1, "pid": 1, "tid": 1},
        {"ph": "f", "name": "f", "id": 5, "bp": "e", "ts": 2, "pid": 1, "tid": 1},
    ]
    fxt = io.BytesIO()
    with FxtWriter(fxt) as writer:
        writer.thread(1, 1, "main").flow_begin("f", 1, 5)
    files = [json.dumps(events).encode(), json.dumps(events).encode(), fxt.getvalue(), fxt.getvalue()]
    traces = [Placed(open_timeline(file), 0, "") for file in files]
    assert len({*Together(traces).table("flow_points")["id"].tolist()}) == 3


@pytest.mark.parametrize("to", ["chrome", "fxt", "perfetto"])
def test_operations_of_two_traces_with_one_id_stay_apart(to: str, tmp_path: Path) -> None:
    def operation(begin: int, end: int) -> Placed:
        events = [
            {"ph": ph, "id": 1, "cat": "c", "name": "x", "ts": ts, "pid": 1} for ph, ts in (("b", begin), ("e", end))
        ]
        return Placed(open_timeline(json.dumps(events).encode()), 0, "")

    convert(Together([operation(1, 100), operation(50, 70), operation(50, 170)]), tmp_path / "out", to=to)
    with open_timeline(tmp_path / "out") as timeline:
        slices = timeline.table("slices")
        assert slices["duration"].tolist() == [99_000, 20_000, 120_000]
        assert len({*slices["track"].tolist()}) == 3


def recording(**zeros: int) -> bytes:
    """Return a trace with what a recording says of clocks."""
    out = io.BytesIO()
    with FxtWriter(out, base_ticks=50, wall_clock=NOW) as writer:
        writer.main.kernel_object(ObjectType.PROCESS, 2, "another")
        arguments = tuple(Uint64Argument(name, value) for name, value in zeros.items())
        writer.put(KernelObject(ObjectType.PROCESS, 1, "app", arguments))
    return out.getvalue()


def test_recordings_say_when_clocks_showed_zero() -> None:
    data = recording(monotonic_zero_ns=NOW - 500, boottime_zero_ns=NOW - 700)
    with open_timeline(data) as timeline:
        assert timeline.clocks == {REALTIME: NOW - 50, MONOTONIC: 450, BOOTTIME: 650}
    with open_timeline(recording()) as timeline:
        assert timeline.clocks == {REALTIME: NOW - 50}


@pytest.mark.parametrize(("command", "clock"), [("", MONOTONIC), ("record --clock=boot x", BOOTTIME)])
def test_uftrace_has_its_own_clock(command: str, clock: str, tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "d", format="uftrace", program="/x") as writer:
        writer.task(1).enter("main", 5)
    info = tmp_path / "d/info"
    info.write_bytes(info.read_bytes().replace(b"cmdline:/x", b"cmdline:uftrace %b" % command.encode()))
    with open_timeline(tmp_path / "d") as timeline:
        assert timeline.clocks[clock] == 0


PROGRAM = """
#include <unistd.h>
int work(void) { usleep(20000); return 0; }
int main(void) { return work(); }
"""

PARENT = """
import subprocess, sys, time
import fxtio
time.sleep(0.05)
with fxtio.span("child"):
    subprocess.run([*sys.argv[1:]], check=True)
"""


@pytest.mark.full
@pytest.mark.recorder
@uftrace_judge.needs_uftrace
def test_a_program_within_another(tmp_path: Path) -> None:
    """uftrace counts from the start of the system; its wall clock has only seconds."""
    program = uftrace_judge.compile_c(PROGRAM, tmp_path / "program", "-pg")
    (tmp_path / "parent.py").write_text(PARENT)
    arguments = ["uftrace", "record", "--no-pager", "-d", "child.data", str(program)]
    command = [sys.executable, "-m", "fxtio", "run", "-o", "parent.fxt", "parent.py", *arguments]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    with open_timeline(tmp_path / "parent.fxt") as first, open_timeline(tmp_path / "child.data") as second:
        traces = placed([first, second])
        assert [each.how for each in traces] == ["as it is the first", "by CLOCK_MONOTONIC"]
        rows = {row["name"]: row for row in Together(traces).table("slices").rows()}
    span, work = rows["child"], rows["work"]
    assert span["start"] < work["start"] < work["start"] + work["duration"] < span["start"] + span["duration"]


# --- The commands -----------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write two traces to the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("a.fxt").write_bytes(recording())
    event = {"ph": "X", "name": "x", "ts": 10, "dur": 5, "pid": 5, "tid": 6}
    Path("b.json").write_text(json.dumps({"baseTimeNanoseconds": NOW, "traceEvents": [event]}))
    Path("c.json").write_text(json.dumps({"traceEvents": [event]}))


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    "to", [name for name in exporters() if name not in ("dcpi", "coreprofiler", "mono", "uftrace")]
)
def test_merge_writes_any_format(to: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", "-o", "out", "--to", to, "a.fxt", "b.json"]) == 0
    said = capsys.readouterr().err
    assert "b.json: its times plus 50 ns, by the wall clock" in said
    assert f"wrote 2 traces as {to} to out" in said
    assert Path("out").exists()


@pytest.mark.usefixtures("files")
def test_merge_with_an_offset(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", "-o", "out.fxt", "a.fxt", "c.json", "--offset", "c.json=+1.5ms"]) == 0
    assert "c.json: its times plus 1.50 ms, as given" in capsys.readouterr().err
    with open_timeline("out.fxt") as timeline:
        assert timeline.table("slices")["start"].tolist() == [1_510_000]
        assert timeline.wall_clock == NOW - 50


@pytest.mark.usefixtures("files")
def test_an_offset_is_for_each_file_of_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", "-o", "out.fxt", "c.json", "c.json", "c.json", "--offset", "c.json=1ms"]) == 0
    assert capsys.readouterr().err.count("c.json: its times plus 1.00 ms, as given") == 2


@pytest.mark.usefixtures("files")
def test_one_trace_may_change_its_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", "-o", "out.json", "a.fxt"]) == 0
    assert "wrote 1 trace as chrome to out.json" in capsys.readouterr().err


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["-o", "out.fxt", "a.fxt", "c.json"],
            r"c.json has no clock in common with a.fxt; it needs an offset.*--offset",
        ),
        (
            ["-o", "out.fxt", "a.fxt", "b.json", "--offset", "c.json=1ms"],
            "--offset c.json: this is for the traces after",
        ),
        (["-o", "out.fxt", "a.fxt", "b.json", "--offset", "a.fxt=1ms"], "--offset a.fxt: this is for"),
        (["-o", "out.fxt", "a.fxt", "b.json", "--offset", "1ms"], "is not FILE=TIME"),
        (["-o", "out", "a.fxt", "b.json"], r"out: say the format \(--to\)"),
        (["-o", "out.fxt", "a.fxt", "missing"], "missing"),
        (["-o", "out.fxt", "-", "-"], "only one of the traces"),
    ],
)
def test_merge_refuses(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["merge", *arguments])
    except SystemExit as error:
        code = int(str(error.code))
    assert code == 2
    assert re.search(message, capsys.readouterr().err)
    assert not Path("out.fxt").exists()
