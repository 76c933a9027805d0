"""Parts that are cut out of data directories, and what uftrace says about them."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import fxtio
from fxtio import synth
from fxtio.cli import main
from fxtio.errors import FxtioError
from fxtio.selection import Selection, SelectionError
from fxtio.uftrace import UftraceTrace, rules
from fxtio.uftrace.cut import cut
from fxtio.uftrace.records import FunctionEntry, FunctionExit
from support import uftrace_judge as judge
from support.checkout import CORPUS

SHAPES = ("calls", "spans", "program", "everything")
SAMPLES = sorted(path.parent for path in (CORPUS / "uftrace").rglob("info"))
Call = tuple[int, str, int, int, int]


def make(path: Path, shape: str, events: int = 3_000) -> Path:
    """Write a synthetic trace."""
    synth.write(path, shape, format="uftrace", events=events, seed=3)
    return path


def calls(path: Path) -> tuple[list[Call], list[tuple[int, str, int, int]]]:
    """Return the calls with an exit (task, name, begin, end, depth), and those without one."""
    with UftraceTrace(path) as trace:
        table = trace.table("slices")
    rows = zip(*(list(table[name]) for name in ("tid", "name", "start", "duration", "depth", "state")), strict=True)
    whole, still_open = list[Call](), []
    for tid, name, start, duration, depth, state in rows:
        if state == "whole":
            whole.append((int(tid), name, int(start), int(start + duration), int(depth)))
        elif state in ("open", "no_exit"):
            still_open.append((int(tid), name, int(start), int(depth)))
    return whole, still_open


def ranges(path: Path, count: int = 3) -> list[tuple[int, int]]:
    """Return random ranges of a trace, some of which begin and end at records."""
    with UftraceTrace(path) as trace:
        info = trace.info
    assert info.start is not None and info.end is not None
    numbers = random.Random(5)
    whole, _ = calls(path)
    times = sorted({*(one[2] for one in whole), *(one[3] for one in whole)}) or [info.start, info.end]
    chosen = [sorted((numbers.randrange(info.start, info.end + 2), numbers.choice(times))) for _ in range(count)]
    return [(start, max(end, start + 1)) for start, end in chosen]


@pytest.mark.full
@pytest.mark.parametrize("source", [*SHAPES, *SAMPLES], ids=lambda source: getattr(source, "name", source))
def test_a_cut_has_the_calls_of_the_range(source: Any, tmp_path: Path) -> None:
    path = source if isinstance(source, Path) else make(tmp_path / "whole", source)
    whole, still_open = calls(path)
    for number, (start, end) in enumerate(ranges(path)):
        target = tmp_path / f"part{number}"
        with UftraceTrace(path) as trace:
            cut(trace, Selection(start, end), target)
        expected = Counter(
            (tid, name, max(begin, start), min(last, end), depth)
            for tid, name, begin, last, depth in whole
            if start <= begin < end or (begin < start < last)
        )
        assert Counter(calls(target)[0]) == expected
        opened = Counter((tid, name, max(begin, start), depth) for tid, name, begin, depth in still_open if begin < end)
        assert Counter(calls(target)[1]) <= opened  # some end before the range, without an exit
        faults = [UftraceTrace(each) for each in (path, target)]
        for each in faults:
            rules.check(each)
        # The exits in a new process, of calls that began before the fork, have no entries in the whole either.
        known = {*faults[0].findings.counts, "uftrace.record.depth-jump"}
        assert faults[1].findings.counts.keys() <= known


@pytest.mark.full
@judge.needs_uftrace
@pytest.mark.parametrize("shape", ["calls", "recursion", "args", "program"])
def test_uftrace_reports_the_calls_of_the_range(shape: str, tmp_path: Path) -> None:
    path = make(tmp_path / "whole", shape)
    for number, (start, end) in enumerate(ranges(path)):
        target = tmp_path / f"part{number}"
        with UftraceTrace(path) as trace:
            cut(trace, Selection(start, end), target)
        report = judge.run("report", target, "-f", "call").decode()
        counted = {match[2]: int(match[1]) for match in re.finditer(r"^\s+(\d+)  (\S.*)$", report, re.MULTILINE)}
        with UftraceTrace(target) as trace:
            names = Counter(trace.table("slices")["name"])
        assert {name: counted.get(name) for name in names} == dict(names)
        judge.run("replay", target)


def test_arguments_and_results_stay(tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "whole", format="uftrace") as writer:
        function = writer.function("work", arguments="arg1/i32", returns="retval/i32")
        task = writer.task(10)
        task.enter(function, 100, 7)
        task.enter("inner", 120)
        task.leave(150)
        task.leave(400, 8)
        task.enter("later", 500)
        task.leave(600)
    with UftraceTrace(tmp_path / "whole") as trace:
        assert cut(trace, Selection(200, 300), tmp_path / "part").text == "2 records of 1 task"
    with UftraceTrace(tmp_path / "part") as trace:
        entry, leave = trace.entries()
    assert (type(entry.record), entry.time, entry.values) == (FunctionEntry, 200, {"arg1": 7})
    assert (type(leave.record), leave.time, leave.values) == (FunctionExit, 300, {"retval": 8})


def test_tasks(tmp_path: Path) -> None:
    path = make(tmp_path / "whole", "mixed")
    with UftraceTrace(path) as trace:
        tids = trace.tids
        cut(trace, Selection(threads=(str(tids[1]), str(tids[2]))), tmp_path / "part")
    with UftraceTrace(tmp_path / "part") as trace:
        assert trace.tids == tids[1:3]
        assert trace.info_file.tids == tids[1:3]
        assert trace.info_file.get("taskinfo", "nr_tid") == "2"
        assert "directory.no-task-file" not in {rule.partition(".")[2] for rule in trace.findings.counts}
    assert sorted(calls(tmp_path / "part")[0]) == sorted(one for one in calls(path)[0] if one[0] in tids[1:3])


def test_messages_and_other_events_are_cut(tmp_path: Path) -> None:
    path = make(tmp_path / "whole", "program")
    start, end = ranges(path, 1)[0]
    with UftraceTrace(path) as trace:
        cut(trace, Selection(start, end), tmp_path / "part")
    with UftraceTrace(path) as trace, UftraceTrace(tmp_path / "part") as part:
        whole = [(entry.file, entry.time, entry.tid, entry.name) for entry in trace.entries()]
        rest = [(entry.file, entry.time, entry.tid, entry.name) for entry in part.entries()]
    for prefix in ("extern", "perf-cpu", "kernel-cpu"):
        expected = [one for one in whole if one[0].startswith(prefix) and start <= (one[1] or 0) < end]
        got = [one for one in rest if one[0].startswith(prefix)]
        assert got
        assert Counter(got) <= Counter(expected)
        missing = Counter(expected) - Counter(got)  # halves of pairs
        assert len(missing) < len(expected) / 4
    switches = Counter(
        (tid, name) for file, _, tid, name in rest if file.startswith("perf") and "sched" in (name or "")
    )
    tids = {tid for tid, _ in switches}
    for tid in tids:
        out = switches[tid, "linux:sched-out"] + switches[tid, "linux:sched-out (pre-empted)"]
        assert out == switches[tid, "linux:sched-in"]


def test_functions_cannot_be_selected(tmp_path: Path) -> None:
    path = make(tmp_path / "whole", "calls", 100)
    for selection in (Selection(names=("main",)), Selection(categories=("a",))):
        with UftraceTrace(path) as trace, pytest.raises(SelectionError, match="cannot be selected"):
            cut(trace, selection, tmp_path / "part")
    assert not (tmp_path / "part").exists()


@pytest.mark.parametrize(("start", "end"), [(-5, None), (-5, 1 << 70), (None, 1 << 64), (0, (1 << 63) + 5)])
def test_bounds_beyond_all_times(start: int | None, end: int | None, tmp_path: Path) -> None:
    path = make(tmp_path / "t", "mixed", 200)
    with UftraceTrace(path) as trace:
        cut(trace, Selection(start=start, end=end), tmp_path / "part")
    for file in path.glob("*.dat"):
        assert (tmp_path / "part" / file.name).read_bytes() == file.read_bytes(), file.name


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, target = make(tmp_path / "whole", "calls", 1_000), tmp_path / "part"
    assert main(["slice", str(path), "-o", str(target), "--from", "10%", "--to", "50%"]) == 0
    assert "records of 8 tasks" in capsys.readouterr().err
    assert main(["slice", str(path), "-o", str(target), "--from", "10%"]) == 2
    assert "is not an empty directory" in capsys.readouterr().err
    assert main(["slice", str(path), "-o", "-", "--from", "10%"]) == 2
    assert "is a directory; it cannot be written to standard output" in capsys.readouterr().err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["part", "whole"]


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    path = make(tmp_path / "whole", "mixed", 100)
    with UftraceTrace(path, strict=True) as trace:
        tid = trace.tids[0]
        with (path / f"{tid}.dat").open("ab") as file:
            file.write(b"x" * 24)
        with pytest.raises(FxtioError):
            cut(trace, Selection(5), tmp_path / "part")
    assert [each.name for each in tmp_path.iterdir()] == ["whole"]
