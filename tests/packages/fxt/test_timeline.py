"""The timeline of FXT traces, judged by Perfetto: the same slices, depths, parents, self times, arguments and flows.

What Perfetto bends or drops is named where a test steps around it ("deviation").
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
import judges
from fxtio import synth
from fxtio.formats import by_name
from fxtio.timeline import Timeline
from judges import perfetto
from judges.perfetto import Perfetto
from support.fxt_nested import STEPS, write

pytestmark = [pytest.mark.full, pytest.mark.once]

CORPUS = Path(__file__).parents[2] / "corpus" / "fxt"


@pytest.fixture(autouse=True, scope="module")
def _judge() -> None:
    judges.require(perfetto.available())


Row = tuple[Any, ...]


def ours(timeline: Timeline) -> list[Row]:
    """Return time, depth, duration (-1 if open), name, category, parent's start, self time, arguments of slices."""
    tables = timeline.tables("slices", "args")
    slices = list(tables["slices"].rows())
    around_open = {row["parent"] for row in slices if row["state"] == "open"}
    values: dict[int, dict[str, Any]] = {}
    for argument in tables["args"].rows():
        values.setdefault(argument["event"], {})[argument["name"]] = value_of(argument)
    rows = []
    for row in slices:
        if row["duration"] == 0 and row["state"] != "open":
            continue  # cannot be told from an instant in Perfetto
        is_open = row["state"] == "open"
        outer = slices[row["parent"]]["start"] if row["parent"] >= 0 else None
        args = values.get(row["event"], {}) | values.get(row["end_event"], {})
        self_time = None if is_open or row["id"] in around_open else row["self_time"]
        duration = -1 if is_open else row["duration"]
        rows.append((row["start"], row["depth"], duration, row["name"], row["category"], outer, self_time, args))
    return sorted(rows, key=repr)


def value_of(argument: dict[str, Any]) -> Any:
    """Return the value of an argument as Perfetto has it."""
    bits = argument["bits"]
    match argument["type"]:
        case "text":
            return argument["text"]
        case "null":
            return "null"
        case "number":
            return np.uint64(bits).view(np.float64).item()
        case "boolean":
            return bool(bits)
    return bits if argument["type"] == "pointer" or bits < 2**63 else bits - 2**64


def theirs(p: Perfetto) -> list[Row]:
    """Return the same of Perfetto's slices; instants are slices without a duration there."""
    slices = {item.id: item for item in p.slices() if item.dur}
    inner: dict[int | None, int] = {}
    around_open = {item.parent_id for item in slices.values() if item.dur < 0}
    for item in slices.values():
        inner[item.parent_id] = inner.get(item.parent_id, 0) + item.dur
    rows = []
    for item in slices.values():
        outer = slices[item.parent_id].ts if item.parent_id is not None else None
        self_time = None if item.dur < 0 or item.id in around_open else item.dur - inner.get(item.id, 0)
        rows.append((item.ts, item.depth, item.dur, item.name, item.category, outer, self_time, item.args))
    return sorted(rows, key=repr)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.fxt")), ids=lambda path: path.stem)
def test_corpus(path: Path) -> None:
    """Deviation: Perfetto's conversion of ticks of odd rates is not exact."""
    with fxtio.open_timeline(path) as timeline:
        mine = ours(timeline)
    if path.stem == "ffx-perfetto-blobs":  # of which it does not take the content
        assert mine == []
        return
    with perfetto.load(path) as p:
        other = theirs(p)
    if path.stem == "ftr-demo":  # 2.596 ticks a nanosecond
        assert len(mine) == len(other)
        for one, two in zip(mine, other, strict=True):
            assert one[3:5] == two[3:5]
            assert abs(one[0] - two[0]) < 2000
            assert abs(one[2] - two[2]) <= 1
    else:
        assert mine == other


READ_BY_PERFETTO = sorted({*synth.shapes_of(by_name("fxt"))} - {"everything"})  # which has what it refuses


@pytest.mark.parametrize("shape", READ_BY_PERFETTO)
def test_shapes(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.fxt"
    synth.write(path, shape, events=3000, threads=3, seed=7)
    with fxtio.open_timeline(path) as timeline, perfetto.load(path) as p:
        assert ours(timeline) == theirs(p)


@given(steps=st.lists(STEPS, max_size=40))
def test_generated(steps: list[tuple[str, int, int, int, str]]) -> None:
    data = write(steps)
    with fxtio.open_timeline(data) as timeline, perfetto.load(data) as p:
        assert ours(timeline) == theirs(p)
