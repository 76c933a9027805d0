"""The sums of a lake of many traces are those of `top` on each of them, and of Perfetto on some.

The environment variable FXTIO_SUMS says how many there are; the default is 150.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import fxtio
import judges
from fxtio import synth
from fxtio.lake import ADDED, Lake
from fxtio.timeline.answers import top
from judges import perfetto

TRACES = int(os.environ.get("FXTIO_SUMS", "150"))
JUDGED = TRACES // 5
EVENTS = 150

Sums = Counter[tuple[str, str]]

SUMS_OF_LAKE = """
select s.name, count(*), sum(s.duration)::bigint, sum(s.self_time)::bigint
from slices s join traces t on s.trace = t.id where {} group by s.name
"""
SUMS_OF_PERFETTO = """
with inner as (select parent_id as id, sum(dur) as time from slice group by parent_id)
select s.name as name, count(*) as calls, sum(s.dur) as total, sum(s.dur - ifnull(i.time, 0)) as self
from slice s left join inner i using (id) where s.dur > 0 group by s.name
"""


def sums_of(rows: Iterable[tuple[Any, ...]]) -> Sums:
    """Return the numbers of all rows, added by names."""
    sums: Sums = Counter()
    for name, *numbers in rows:
        for what, number in zip(("calls", "total", "self"), numbers, strict=True):
            sums[name, what] += number
    return sums


def of_top(path: Path) -> Sums:
    with fxtio.open_timeline(path) as timeline:
        rows = [*top(timeline, limit=None, waiting=True).table.rows()]
    return sums_of((row["name"], row["calls"], row["total"], row["self"]) for row in rows)


def of_perfetto(path: Path) -> Sums:
    with perfetto.load(path) as judge:
        assert judge.errors() == {}
        rows = judge.query(SUMS_OF_PERFETTO)
    return sums_of((row["name"], row["calls"], row["total"], row["self"]) for row in rows)


@pytest.mark.full
@pytest.mark.once
def test_sums_are_those_of_each_trace(lake: Lake, tmp_path: Path) -> None:
    paths = [tmp_path / f"{seed:04}.fxt" for seed in range(TRACES)]
    for seed, path in enumerate(paths):
        synth.write(path, "program", events=EVENTS, seed=seed)
    assert {outcome.kind for outcome in lake.add(paths)} == {ADDED}
    expected: Sums = Counter()
    for path in paths:
        expected.update(of_top(path))
    assert sums_of(lake.sql(SUMS_OF_LAKE.format("true")).fetchall()) == expected
    judges.require(perfetto.available())
    judged: Sums = Counter()
    for path in paths[:JUDGED]:
        judged.update(of_perfetto(path))
    some = f"t.url < '{paths[JUDGED]}'"
    assert sums_of(lake.sql(SUMS_OF_LAKE.format(some)).fetchall()) == judged
