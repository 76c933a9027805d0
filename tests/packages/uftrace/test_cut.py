"""Parts of data directories, which are written by way of the timeline, and what uftrace says about them."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest

import fxtio
from fxtio import synth
from fxtio.cli import main
from fxtio.errors import FxtioError
from fxtio.exchange.convert import convert
from fxtio.selection import Selection
from fxtio.uftrace import UftraceTrace, rules
from fxtio.uftrace.records import FunctionEntry, FunctionExit
from support import uftrace_judge as judge
from support.checkout import CORPUS

SAMPLES = sorted(path.parent for path in (CORPUS / "uftrace").rglob("info"))


def make(path: Path, shape: str, events: int = 3_000) -> Path:
    """Write a synthetic trace."""
    synth.write(path, shape, format="uftrace", events=events, seed=3)
    return path


def cut(path: Path, selection: Selection, target: Path) -> Path:
    """Write a part of a trace, and return where it is."""
    with fxtio.open_timeline(path, format="uftrace") as timeline:
        convert(timeline, target, to="uftrace", selection=selection)
    return target


def ranges(path: Path, count: int = 3) -> list[tuple[int, int]]:
    """Return random ranges of a trace."""
    with UftraceTrace(path) as trace:
        info = trace.info
    assert info.start is not None and info.end is not None
    numbers = random.Random(5)
    return [
        (first, first + numbers.randrange(1, info.end + 2 - first))
        for first in (numbers.randrange(info.start, info.end + 1) for _ in range(count))
    ]


@pytest.mark.full
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_parts_of_traces_of_uftrace_break_no_other_rules(path: Path, tmp_path: Path) -> None:
    for number, (start, end) in enumerate(ranges(path)):
        faults = [UftraceTrace(each) for each in (path, cut(path, Selection(start, end), tmp_path / f"part{number}"))]
        for each in faults:
            rules.check(each)
        known = {*faults[0].findings.counts, "uftrace.task.none"}  # a range without calls has no task
        assert faults[1].findings.counts.keys() <= known


@pytest.mark.full
@judge.needs_uftrace
@pytest.mark.parametrize("shape", ["calls", "spans", "program"])
def test_uftrace_reports_the_calls_of_the_range(shape: str, tmp_path: Path) -> None:
    path = make(tmp_path / "whole", shape)
    for number, (start, end) in enumerate(ranges(path)):
        target = cut(path, Selection(start, end), tmp_path / f"part{number}")
        report = judge.run("report", target, "-f", "call").decode()
        counted = {match[2]: int(match[1]) for match in re.finditer(r"^\s+(\d+)  (\S.*)$", report, re.MULTILINE)}
        with UftraceTrace(target) as trace:
            names = Counter(trace.timeline().table("slices")["name"])
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
    with UftraceTrace(cut(tmp_path / "whole", Selection(200, 300), tmp_path / "part")) as trace:
        entry, leave = trace.entries()
    assert (type(entry.record), entry.time, entry.values) == (FunctionEntry, 200, {"arg1": 7})
    assert (type(leave.record), leave.time, leave.values) == (FunctionExit, 300, {"retval": 8})


def test_tasks(tmp_path: Path) -> None:
    path = make(tmp_path / "whole", "spans")
    with UftraceTrace(path) as trace:
        tids = trace.tids[1:3]
    with UftraceTrace(cut(path, Selection(threads=tuple(map(str, tids))), tmp_path / "part")) as trace:
        assert trace.tids == tids


def test_functions_are_selected_without_those_around_them(tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "whole", format="uftrace") as writer:
        task = writer.task(10)
        for name, time in (("main", 100), ("parse", 110), ("read", 120)):
            task.enter(name, time)
        for time in (130, 140, 150):
            task.leave(time)
    with fxtio.open_timeline(cut(tmp_path / "whole", Selection(names=("!parse",)), tmp_path / "part")) as timeline:
        rows = timeline.table("slices").rows()
        assert [(row["name"], row["depth"], row["start"]) for row in rows] == [("main", 0, 100), ("read", 1, 120)]


@pytest.mark.parametrize(("start", "end"), [(-5, None), (-5, 1 << 70), (None, 1 << 64), (0, (1 << 63) + 5)])
def test_bounds_beyond_all_times(start: int | None, end: int | None, tmp_path: Path) -> None:
    path = make(tmp_path / "t", "spans", 200)
    part = cut(path, Selection(start=start, end=end), tmp_path / "part")
    with fxtio.open_timeline(path) as whole, fxtio.open_timeline(part) as timeline:
        assert timeline.table("slices")["start"].tolist() == whole.table("slices")["start"].tolist()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, target = make(tmp_path / "whole", "program", 1_000), tmp_path / "part"
    assert main(["cut", str(path), "-o", str(target), "--from", "10%", "--to", "50%"]) == 0
    assert "uftrace cannot express everything in" in capsys.readouterr().err
    assert main(["cut", str(path), "-o", str(target), "--from", "10%"]) == 2
    assert "is not an empty directory" in capsys.readouterr().err
    assert main(["cut", str(path), "-o", "-", "--from", "10%"]) == 2
    assert "is a directory; it cannot be written to standard output" in capsys.readouterr().err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["part", "whole"]


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    path = make(tmp_path / "whole", "spans", 100)
    with UftraceTrace(path, strict=True) as trace:
        with (path / f"{trace.tids[0]}.dat").open("ab") as file:
            file.write(b"x" * 24)
        with pytest.raises(FxtioError):
            convert(trace.timeline(), tmp_path / "part", to="uftrace", selection=Selection(5))
    assert [each.name for each in tmp_path.iterdir()] == ["whole"]
