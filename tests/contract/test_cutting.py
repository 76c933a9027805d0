"""What parts and merges of traces promise, of every format: whole traces, or a refusal with a reason."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contract.damage import DAMAGE
from contract.samples import SAMPLES, SYNTHETIC, Sample, open_sample
from fxtio.errors import FormatError, FxtioError
from fxtio.exchange.convert import convert
from fxtio.selection import Selection

LARGEST_UNIT = 10**6
"""The largest unit of time of a format in nanoseconds."""

MIN_REASON = 40
"""The fewest characters of a reason why something is refused."""


def outcome(work: Callable[[], str]) -> str:
    """Return what was written, or why it is refused."""
    try:
        return work()
    except FxtioError as error:
        return str(error)


def cut(trace: Any, selection: Selection, target: Path) -> str:
    """Write a part of a trace in its own format, and return its name."""
    convert(trace.timeline(), target, to=trace.format, selection=selection)
    return target.name


def rules_broken(sample: Sample, path: Path) -> set[str]:
    """Return the rules that a trace breaks."""
    with sample.format.open(path) as trace:
        sample.format.rules.check(trace)
        return {*trace.findings.counts}


def middle(trace: Any) -> Selection | None:
    """Return the middle third of a trace, or None if it has no times."""
    start, end = trace.info.start, trace.info.end
    if start is None or end is None or end - start < 3:
        return None
    third = (end - start) // 3
    return Selection(start + third, start + 2 * third)


@pytest.mark.full
@pytest.mark.parametrize("sample", SYNTHETIC, ids=str)
def test_a_part_is_a_trace_of_the_format(sample: Sample, tmp_path: Path) -> None:
    path, target = sample.make(tmp_path), tmp_path / f"part{sample.format.suffixes[0]}"
    with sample.format.open(path) as trace:
        selection = middle(trace) or Selection(threads=("1",))
        text = outcome(lambda: cut(trace, selection, target))
    if not target.exists():
        assert len(text) > MIN_REASON
        return
    assert text
    with sample.format.open(target) as part:
        # Definitions, and states that a part takes over, may be older.  Nothing is later, but for the format's unit.
        assert part.info.end is None or selection.end is None or part.info.end <= selection.end + LARGEST_UNIT
    assert rules_broken(sample, target) <= rules_broken(sample, path) | {"uftrace.record.depth-jump"}
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([path.name, target.name])


@pytest.mark.full
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_whatever_can_be_read_can_be_cut(sample: Sample, tmp_path: Path) -> None:
    with open_sample(sample, tmp_path) as trace:
        selection = middle(trace)
        if selection is None:
            return
        try:
            cut(trace, selection, tmp_path / "part")
        except FormatError:
            return
    with sample.format.open(tmp_path / "part") as part:
        assert part.info.format == sample.format.name


@pytest.mark.parametrize("sample", SYNTHETIC, ids=str)
def test_an_error_of_a_cut_touches_nothing(sample: Sample, tmp_path: Path) -> None:
    path, target = sample.make(tmp_path), tmp_path / "no such folder" / "part"
    with sample.format.open(path) as trace, pytest.raises((FxtioError, OSError)):
        cut(trace, middle(trace) or Selection(names=("a",)), target)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("sample", SYNTHETIC, ids=str)
def test_a_merged_trace_is_one_of_the_format(sample: Sample, tmp_path: Path) -> None:
    path, target = sample.make(tmp_path), tmp_path / f"all{sample.format.suffixes[0]}"
    with sample.format.open(path) as one, sample.format.open(path) as other:
        text = outcome(lambda: sample.format.merge.merge([one, other], target))
    if not target.exists():
        assert len(text) > MIN_REASON
        return
    assert text
    with sample.format.open(target) as trace:
        assert trace.info.records.total() > 0


@pytest.mark.full
@pytest.mark.parametrize("sample", SYNTHETIC, ids=str)
def test_damaged_traces_are_cut_or_refused(sample: Sample, tmp_path: Path) -> None:
    path = sample.make(tmp_path)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    target = tmp_path / "part"
    for seed in range(len(DAMAGE)):
        kind, damage = list(DAMAGE.items())[seed]
        draw = random.Random(f"{sample} {kind}")
        victim = draw.choice(files)
        whole = victim.read_bytes()
        victim.write_bytes(damage(whole or b"\0", draw))
        with contextlib.suppress(FxtioError), sample.format.open(path) as trace:
            selection = draw.choice([middle(trace), Selection(threads=("1*", "!12")), Selection(names=("a*",))])
            if selection is not None:
                cut(trace, selection, target)
                with sample.format.open(target) as part:
                    assert part.info.format == sample.format.name
        victim.write_bytes(whole)
        if target.is_dir():
            shutil.rmtree(target)
        target.unlink(missing_ok=True)
