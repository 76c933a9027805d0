"""Rankings and trees of FXT traces, judged by Perfetto's SQL over the same file.

What Perfetto bends or drops is named where a test steps around it ("deviation").  Everywhere: instants are slices
without a duration there, so that slices without a duration are left out of both.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import fxtio
import judges
from fxtio import synth
from fxtio.timeline import Timeline
from fxtio.timeline.answers import find, top, tree
from judges import perfetto
from judges.perfetto import Perfetto
from support.checkout import CORPUS
from support.fxt_nested import STEPS, write
from support.recorded_programs import PROGRAMS, recorded

pytestmark = [pytest.mark.full, pytest.mark.once]


@pytest.fixture(autouse=True, scope="module")
def _judge() -> None:
    judges.require(perfetto.available())


Sums = tuple[int, int, int]
"""Calls, total and self time."""

_SPANS = """
    with span as (
        select id, parent_id, ifnull(name, '') as name, ts, iif(dur < 0, {end} - ts, dur) as dur
        from slice where dur != 0 and (dur > 0 or ts < {end})
    ),
    within as (
        select around.id, sum(min(span.ts + span.dur, around.ts + around.dur) - span.ts) as inner_dur
        from span join span as around on span.parent_id = around.id group by around.id
    )
"""
_TOP = """
    select name, count(*) as calls, sum(dur - ifnull(inner_dur, 0)) as self,
        sum(iif(exists(select 1 from ancestor_slice(span.id) as outer where ifnull(outer.name, '') = span.name), 0,
            span.dur)) as total
    from span left join within using (id) group by name
"""
_TREE = """,
    path as (
        select id, name as path from span where parent_id is null
        union all
        select span.id, path.path || char(9) || span.name from span join path on span.parent_id = path.id
    )
    select path, count(*) as calls, sum(span.dur) as total, sum(span.dur - ifnull(inner_dur, 0)) as self
    from path join span using (id) left join within using (id) group by path
"""


def short(timeline: Timeline) -> tuple[Counter[str], Counter[str]]:
    """Return how many slices have no duration, by name and by path of names."""
    names, paths = Counter[str](), Counter[str]()
    for hit in find(timeline, shorter=0).rows:
        names[hit.name or ""] += 1
        paths["\t".join([*hit.ancestors, hit.name or ""])] += 1
    return names, paths


def without(calls: dict[str, Sums], left_out: Counter[str]) -> dict[str, Sums]:
    """Return the sums without the calls that are left out."""
    rest = {name: (calls - left_out[name], total, own) for name, (calls, total, own) in calls.items()}
    return {name: sums for name, sums in rest.items() if sums[0]}


def ours(timeline: Timeline) -> tuple[dict[str, Sums], dict[str, Sums]]:
    """Return the sums by name and by path of names."""
    names, left_out = short(timeline)
    ranked = top(timeline, what="slices").table.rows()
    by_name = {row["name"]: (row["calls"], row["total"], row["self"]) for row in ranked}
    paths: list[str] = []
    by_path: dict[str, Sums] = {}
    for row in tree(timeline, what="slices").table.rows():
        paths.append("\t".join([*([paths[row["parent"]]] if row["parent"] >= 0 else []), row["name"]]))
        by_path[paths[-1]] = row["calls"], row["total"], row["self"]
    return without(by_name, names), without(by_path, left_out)


def end_of(timeline: Timeline) -> int:
    """Return the time at which slices without an end end, 0 without any."""
    slices = timeline.table("slices")
    ends = (slices["start"] + slices["duration"])[slices["state"].is_in("open")]
    assert len(set(ends.tolist())) <= 1
    return int(ends.max(initial=0))


def theirs(p: Perfetto, end: int) -> tuple[dict[str, Sums], dict[str, Sums]]:
    """Return the same of Perfetto.

    Deviation: slices without an end have no duration there; they get that of a slice that lasts until `end`.  Such a
    slice may last longer than the complete one around it, whose self time loses only what both have in common.
    """

    def sums(sql: str, key: str) -> dict[str, Sums]:
        rows: list[dict[str, Any]] = list(p.query(_SPANS.format(end=end) + sql))
        return {row[key]: (row["calls"], row["total"], row["self"]) for row in rows}

    return sums(_TOP, "name"), sums(_TREE, "path")


def test_corpus() -> None:
    """Deviation: ticks of odd rates are not converted exactly, so `ftr-demo` is left out."""
    for path in sorted((CORPUS / "fxt").glob("*.fxt")):
        if path.stem in ("ftr-demo", "ffx-perfetto-blobs"):  # of the latter it does not take the content
            continue
        with fxtio.open_timeline(path) as timeline, perfetto.load(path) as p:
            assert ours(timeline) == theirs(p, end_of(timeline)), path.stem


@pytest.mark.parametrize("shape", ["spans", "async", "threads", "mixed", "program"])
def test_shapes(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.fxt"
    synth.write(path, shape, events=3000, threads=3, seed=5)
    with fxtio.open_timeline(path) as timeline, perfetto.load(path) as p:
        assert ours(timeline) == theirs(p, end_of(timeline))


@given(steps=st.lists(STEPS, max_size=40))
@example(steps=[("complete", 2, 0, 1, "one"), ("begin", 2, 0, 1, "one"), ("begin", 1, 2, 1, "one")])
def test_generated(steps: list[tuple[str, int, int, int, str]]) -> None:
    data = write(steps)
    with fxtio.open_timeline(data) as timeline, perfetto.load(data) as p:
        assert ours(timeline) == theirs(p, end_of(timeline))


@pytest.mark.recorder
@pytest.mark.parametrize("program", PROGRAMS)
def test_recordings(program: str, tmp_path: Path) -> None:
    path = recorded(program, tmp_path)
    with fxtio.open_timeline(path) as timeline, perfetto.load(path) as p:
        mine, other = ours(timeline), theirs(p, end_of(timeline))
    assert mine == other
    assert sum(calls for calls, _, _ in mine[0].values()) > 20
