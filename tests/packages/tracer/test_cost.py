"""What it takes to record a call is measured when a recording starts, and told below the ranking."""

import re
from pathlib import Path
from typing import Any

import pytest

import fxtio
from fxtio.fxt.records import KernelObject
from fxtio.timeline.answers import top
from fxtio.tracer import functions, monitor
from fxtio.tracer.clock import RecordingClock
from support.tracer_run import fine

pytestmark = pytest.mark.recorder

NOTE = re.compile(r"recording took about (\d+) ns for each call, .* in all")
PROGRAM = """
def f():
    pass

for _ in range(9):
    f()
"""
FORK = """
import os

def f():
    pass

if child := os.fork():
    os.waitpid(child, 0)
f()
"""


def told(path: Path) -> list[int]:
    """Return the costs that are told below the ranking of a trace."""
    with fxtio.open_timeline(path) as timeline:
        return [int(found[1]) for note in top(timeline).notes if (found := NOTE.fullmatch(note))]


@pytest.mark.skipif(not monitor.AVAILABLE, reason="calls are not monitored before CPython 3.12")
def test_what_a_call_costs_is_measured(tmp_path: Path) -> None:
    assert functions.call_cost(RecordingClock.start()) > 0
    fine(PROGRAM, tmp_path / "out.fxt", start=True, functions=True)
    assert len(told(tmp_path / "out.fxt")) == 1
    with fxtio.open(tmp_path / "out.fxt") as trace:
        assert "_empty" not in "".join(map(str, trace.records()))  # the calls that were measured are not in the trace


@pytest.mark.parametrize(
    "options", [{}, {"functions": True, "args": ["f"]}, {"functions": True, "results": ["f"]}], ids=str
)
def test_what_is_not_measured_is_not_told(tmp_path: Path, options: dict[str, Any]) -> None:
    fine(f"import fxtio\nwith fxtio.span('s'): pass\n{PROGRAM}", tmp_path / "out.fxt", start=True, **options)
    assert told(tmp_path / "out.fxt") == []


def test_where_it_cannot_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OSError

    monkeypatch.setattr("os.memfd_create", fails)
    assert functions.call_cost(RecordingClock.start()) == 0
    monkeypatch.delattr("os.memfd_create")
    assert functions.call_cost(RecordingClock.start()) == 0


def test_no_descriptor_is_left_where_the_recorder_runs(tmp_path: Path) -> None:
    before = {*Path("/proc/self/fd").iterdir()}
    with fxtio.tracing(tmp_path / "out.fxt", functions=False):
        assert functions.call_cost(RecordingClock.start()) == 0
        with fxtio.span("s"):
            pass
    assert {*Path("/proc/self/fd").iterdir()} == before
    with fxtio.open_timeline(tmp_path / "out.fxt") as timeline:
        assert timeline.table("slices")["name"].tolist() == ["s"]


@pytest.mark.skipif(not monitor.AVAILABLE, reason="calls are not monitored before CPython 3.12")
def test_forked_processes_have_the_cost_of_their_parent(tmp_path: Path) -> None:
    fine(FORK, tmp_path / "out.fxt", start=True, functions=True, children=True)
    with fxtio.open(tmp_path / "out.fxt") as trace:
        processes = [each for each in trace.records() if isinstance(each, KernelObject) and "call_ns" in str(each.args)]
    assert len({each.koid for each in processes}) == 2
    assert len({each.args for each in processes}) == 1
