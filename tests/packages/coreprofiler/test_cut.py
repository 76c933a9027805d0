"""Parts that are cut out of CoreProfiler traces."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from fxtio import synth
from fxtio.coreprofiler import CoreProfilerTrace, rules
from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.cut import cut
from fxtio.formats import by_name
from fxtio.selection import Selection, SelectionError
from support import coreprofiler as support


@pytest.mark.full
@pytest.mark.parametrize("shape", sorted(synth.shapes_of(by_name("coreprofiler"))))
def test_a_cut_has_the_stacks_of_the_range(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "whole.log"
    synth.write(path, shape, format="coreprofiler", events=2_000, seed=2)
    with CoreProfilerTrace(path) as trace:
        info = trace.info
        whole = [(sample.thread, sample.time, sample.stack, sample.paused) for sample in trace.samples()]
        rules.check(trace)
        known = set(trace.findings.counts)
    assert info.start is not None and info.end is not None
    numbers = random.Random(1)
    for number in range(4):
        start, end = sorted((numbers.randrange(info.start, info.end), numbers.randrange(info.start, info.end)))
        target = tmp_path / f"part{number}.log"
        with CoreProfilerTrace(path) as trace:
            cut(trace, Selection(start, end + 1), target)
        with CoreProfilerTrace(target) as trace:
            part = [(sample.thread, sample.time, sample.stack, sample.paused) for sample in trace.samples()]
            rules.check(trace)
            assert set(trace.findings.counts) <= known
        expected = [one for one in whole if start <= one[1] <= end]
        # Before the first allocation of a thread there may be one more sample, with its stack.
        assert [one for number, one in enumerate(part) if part[number : number + 2] != [one, one]] == [
            one for number, one in enumerate(expected) if expected[number : number + 2] != [one, one]
        ]


@pytest.mark.parametrize("resumed", [[r.ProfilerResumed(8)], [r.ProfilerResumed(20)], []])
def test_a_pause_in_which_the_range_begins(resumed: list[Any], tmp_path: Path) -> None:
    records = [*(r.StackSample(0, time, 1, 0, 0) for time in (1, 7, 9)), r.ProfilerPaused(2), *resumed]
    path = tmp_path / "part.log"
    with CoreProfilerTrace(support.written(sorted(records, key=lambda record: record.timestamp))) as trace:
        cut(trace, Selection(5_000_000, 10_000_000), path)
    with CoreProfilerTrace(path) as trace:
        assert [(sample.time, sample.paused) for sample in trace.samples()] == [
            (7_000_000, True), (9_000_000, resumed != [r.ProfilerResumed(8)]),
        ]  # fmt: skip
        pauses = [record.timestamp for record in trace if isinstance(record, r.ProfilerPaused | r.ProfilerResumed)]
    assert pauses == [5, *(min(record.timestamp, 10) for record in resumed)]


def test_threads(tmp_path: Path) -> None:
    path = tmp_path / "whole.log"
    synth.write(path, "sampling", format="coreprofiler", events=1_000, seed=2)
    with CoreProfilerTrace(path) as trace:
        whole = [(sample.thread, sample.time, sample.stack) for sample in trace.samples()]
        thread = whole[0][0]
        cut(trace, Selection(threads=(str(thread),)), tmp_path / "part.log")
    with CoreProfilerTrace(tmp_path / "part.log") as trace:
        part = [(sample.thread, sample.time, sample.stack) for sample in trace.samples()]
    assert part == [one for one in whole if one[0] == thread]


def test_functions_cannot_be_selected(tmp_path: Path) -> None:
    path = tmp_path / "whole.log"
    synth.write(path, "sampling", format="coreprofiler", events=100, seed=2)
    with CoreProfilerTrace(path) as trace, pytest.raises(SelectionError, match="neither functions nor processes"):
        cut(trace, Selection(names=("main",)), tmp_path / "part.log")
    assert not (tmp_path / "part.log").exists()
