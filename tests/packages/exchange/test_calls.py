"""Timelines as calls: uftrace directories and Mono recordings, read again and judged by their own programs."""

from __future__ import annotations

import io
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio import open_timeline, synth
from fxtio.formats import by_name
from fxtio.timeline import Timeline
from support.conversion import export

FORMATS = ("uftrace", "mono")


def calls_of(timeline: Timeline) -> Counter[Any]:
    """Return the slices of threads: thread, start, duration unless it is open, depth, name."""
    tables = timeline.tables("slices", "tracks", "threads")
    thread_of = tables["tracks"]["thread"].tolist()
    tids = tables["threads"]["tid"].tolist()
    return Counter(
        (tids[thread_of[row["track"]]], row["start"], row["duration"] if row["state"] == "closed" else None,
         row["depth"], row["name"])
        for row in tables["slices"].rows()
        if thread_of[row["track"]] >= 0
    )  # fmt: skip


def exported(data: bytes | Path, to: str, target: Path) -> tuple[Counter[Any], Counter[Any], Counter[str]]:
    """Return the calls before and after an export, and what was lost; the new trace breaks no rule."""
    with open_timeline(data) as timeline:
        losses = export(timeline, to, target)
        before = calls_of(timeline)
    with fxtio.open(target) as trace:
        by_name(to).rules.check(trace)
        assert [str(finding) for finding in trace.findings] == []
    with open_timeline(target) as timeline:
        return before, calls_of(timeline), losses


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("shape", ["spans", "program", "mixed"])
def test_calls_stay_the_same(shape: str, to: str, tmp_path: Path) -> None:
    synth.write(tmp_path / "in.fxt", shape, events=10_000)
    before, after, losses = exported(tmp_path / "in.fxt", to, tmp_path / "out")
    assert after == before
    assert losses["arguments"] > 0 or to == "uftrace"
    if shape == "mixed":
        assert losses["points of flows"] > 0
        assert losses["slices on tracks that are not those of threads"] > 0


SPANS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=9
)


@pytest.mark.parametrize("to", FORMATS)
@given(spans=SPANS)
def test_any_spans(to: str, tmp_path_factory: pytest.TempPathFactory, spans: list[tuple[int, str, int, int]]) -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        tracks = [writer.thread(1, 10 + number) for number in range(2)]
        for number, name, time, length in sorted(spans, key=lambda span: span[2]):
            tracks[number].complete(name, 10 + time, 10 + time + length)
    before, after, losses = exported(out.getvalue(), to, tmp_path_factory.mktemp("calls") / "out")
    if losses.total() == 0:
        assert sorted(row[:4] for row in after) == sorted(row[:4] for row in before)


HOSTILE_NAMES = ["", "line\nend", "nul\0", " spaces ", "a\ttab", "é", "\udcff", "x" * 5000]


@pytest.mark.parametrize("to", FORMATS)
def test_names_and_numbers_that_do_not_fit(to: str, tmp_path: Path) -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        for pid, tid in ((1, 2), (3, 2), (1 << 40, 1 << 40), (0, 0)):
            track = writer.thread(pid, tid, f"thread {tid}")
            for number, name in enumerate(HOSTILE_NAMES):
                track.complete(name, 100 * number + 1, 100 * number + 50)
            track.complete("deep", 5000, 9000)
            for depth in range(1100):
                track.complete("deep", 5001 + depth, 9000 - depth)
    before, after, losses = exported(out.getvalue(), to, tmp_path / "out")
    assert before.total() - after.total() == losses[f"calls that are more than {1023:,} deep"]
    assert any(loss.startswith("numbers of threads") for loss in losses)


@pytest.mark.full
@pytest.mark.once
@pytest.mark.parametrize(("to", "command"), [("uftrace", ["uftrace", "report", "-d"]), ("mono", ["mprof-report"])])
def test_their_own_programs_count_the_same(to: str, command: list[str], tmp_path: Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    synth.write(tmp_path / "in.fxt", "program", events=5_000)
    before, _, _ = exported(tmp_path / "in.fxt", to, tmp_path / "out")
    report = subprocess.run([*command, str(tmp_path / "out")], check=True, capture_output=True, text=True).stdout
    expected = Counter(row[4] for row in before.elements())
    for name, count in expected.items():
        assert any(
            line.rstrip().endswith(f" {count} {name}")
            or line.split()[-2 - name.count(" ") :] == [str(count), *name.split(" ")]
            for line in report.splitlines()
        ), (name, count)
