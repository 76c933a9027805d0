"""Parts of recordings of Mono, which are written by way of the timeline, and what Mono's own program counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import fxtio
from fxtio import synth
from fxtio.cli import main
from fxtio.exchange.convert import convert
from fxtio.mono import rules
from fxtio.mono.reader import MonoTrace
from fxtio.selection import Selection
from judges import mono
from support.mono_samples import FILES, HAS_MONO

needs_mono = pytest.mark.skipif(not HAS_MONO and not mono.REQUIRED, reason="needs Debian's mono packages")


def make(path: Path, shape: str, events: int = 1_500) -> Path:
    synth.write(path, shape, format="mono", events=events, seed=3)
    return path


def part_of(path: Path, selection: Selection, target: Path) -> Path:
    with fxtio.open_timeline(path, format="mono") as timeline:
        convert(timeline, target, to="mono", selection=selection)
    return target


def middle_of(path: Path) -> Selection | None:
    """Return the middle third of a recording, None if it has none."""
    with MonoTrace(path) as trace:
        info = trace.info
    if info.start is None or info.end is None or info.end - info.start < 3:
        return None
    third = (info.end - info.start) // 3
    return Selection(info.start + third, info.end - third)


def test_samples_and_allocations_of_the_range(tmp_path: Path) -> None:
    for shape in ("program", "memory"):
        path = make(tmp_path / f"{shape}.mlpd", shape)
        selection = middle_of(path)
        assert selection is not None and selection.start is not None and selection.end is not None
        part = part_of(path, selection, tmp_path / f"{shape}-part.mlpd")
        with fxtio.open_timeline(path) as whole, fxtio.open_timeline(part) as timeline:
            for table, columns in (("samples", ("time", "count")), ("allocations", ("time", "type", "size"))):
                rows = [tuple(row[name] for name in columns) for row in whole.table(table).rows()]
                expected = Counter(row for row in rows if selection.start <= row[0] < selection.end)
                assert Counter(tuple(row[name] for name in columns) for row in timeline.table(table).rows()) == expected


def test_threads_and_methods(tmp_path: Path) -> None:
    path = make(tmp_path / "whole.mlpd", "mixed")
    with MonoTrace(path) as trace:
        calls = Counter((row["thread"], row["method_name"]) for row in trace.table("calls").rows())
    thread, name = min(thread for thread, _ in calls), min(name for _, name in calls)
    with MonoTrace(part_of(path, Selection(threads=(str(thread),)), tmp_path / "thread.mlpd")) as trace:
        rows = Counter((row["thread"], row["method_name"]) for row in trace.table("calls").rows())
    assert {key for key in rows if key[0] == thread} >= {key for key in calls if key[0] == thread}
    assert not {key for key in rows if key[0] != thread} & {*calls}
    with MonoTrace(part_of(path, Selection(names=(name,)), tmp_path / "method.mlpd")) as trace:
        assert {row["method_name"] for row in trace.table("calls").rows()} == {name}
        assert trace.table("calls").num_rows == sum(count for key, count in calls.items() if key[1] == name)
        assert not trace.table("allocations").num_rows
    with MonoTrace(part_of(path, Selection(names=(f"!{name}",)), tmp_path / "others.mlpd")) as trace:
        assert name not in {row["method_name"] for row in trace.table("calls").rows()}
        assert trace.table("allocations").num_rows


@pytest.mark.full
@needs_mono
@pytest.mark.once
def test_mono_reads_parts(tmp_path: Path) -> None:
    path = make(tmp_path / "whole.mlpd", "mixed")
    selection = middle_of(path)
    assert selection is not None
    part = part_of(path, selection, tmp_path / "part.mlpd")
    text = mono.report(part, "--debug", "--reports=stats")
    with MonoTrace(part) as trace:
        assert mono.stats_of(text) == mono.our_stats(trace)
        assert mono.debug_of(text) == list(mono.Lines(trace).all())
    assert "unmatched leave" not in text


@pytest.mark.parametrize("sample", [path for path in FILES if "cov" not in path.name], ids=lambda path: path.name)
def test_recordings_of_mono(sample: Path, tmp_path: Path) -> None:
    selection = middle_of(sample)
    if selection is None:
        return
    faults = [MonoTrace(each) for each in (sample, part_of(sample, selection, tmp_path / "part.mlpd"))]
    for each in faults:
        rules.check(each)
    assert faults[1].findings.counts.keys() <= faults[0].findings.counts.keys()


def test_the_command_says_what_a_part_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make(tmp_path / "whole.mlpd", "mixed")
    assert main(["cut", str(path), "-o", str(tmp_path / "part.mlpd"), "--from", "10%", "--to", "90%"]) == 0
    assert "mono cannot express everything in" in capsys.readouterr().err
