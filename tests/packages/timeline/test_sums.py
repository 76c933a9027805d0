"""Sums by group, and over traces whose durations and weights are so large that a sum in 64 bits would wrap around."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.exchange.convert import convert
from fxtio.table import MAX_TIME
from fxtio.timeline.answers import lanes, top, tree
from fxtio.timeline.sums import Sums, add_by_group, add_to_parents
from support.exchange import Content

INT64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)


def bounded(number: int) -> int:
    return min(max(number, -(2**63)), 2**63 - 1)


@given(st.lists(st.tuples(st.integers(0, 3), INT64), max_size=9), st.lists(INT64, min_size=4, max_size=4))
def test_sums_by_group_stop_at_the_limits(rows: list[tuple[int, int]], before: list[int]) -> None:
    sums = np.array(before, np.int64)
    group, values = (np.array(column, np.int64) for column in (zip(*rows, strict=True) if rows else ((), ())))
    add_by_group(sums, group, values)
    expected = before.copy()
    for each, value in rows:
        expected[each] = bounded(expected[each] + value)
    assert sums.tolist() == expected


KEYS = st.sampled_from([-1, 0, 1, 7, 2**31, 2**32 - 2])
ROWS = st.lists(st.tuples(KEYS, KEYS, KEYS, st.integers(0, 2**40), st.sampled_from([0, 1, 2**62])), max_size=40)


@given(batches=st.lists(ROWS, max_size=6), waiting=st.sampled_from([1, 3, 1 << 18]))
def test_sums_are_those_of_a_dictionary(batches: list[list[tuple[int, ...]]], waiting: int) -> None:
    whole = Sums(("a", "b", "c"), ("x", "y"))
    expected: dict[tuple[int, ...], list[int]] = defaultdict(lambda: [0, 0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fxtio.timeline.sums._MAX_WAITING", waiting)
        for rows in batches:
            columns = np.array(rows, np.int64).reshape(-1, 5).T
            whole.add(dict(zip("abcxy", columns, strict=True)), len(rows))
            for *key, x, y in rows:
                total = expected[tuple(key)]
                total[:] = bounded(total[0] + x), bounded(total[1] + y)
        table = whole.table()
    found = [table[name].tolist() for name in "abcxy"]
    assert [*zip(*found, strict=True)] == [(*key, *values) for key, values in expected.items()]


def test_sums_until_now_are_not_added_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise they would be too large for the fast way of adding."""

    def checked(sums: object, group: object, values: np.ndarray[Any, Any]) -> None:
        assert (values == 2**50).all()
        add_by_group(sums, group, values)  # type: ignore[arg-type]

    monkeypatch.setattr("fxtio.timeline.sums._MAX_WAITING", 2)
    monkeypatch.setattr("fxtio.timeline.sums.add_by_group", checked)
    whole = Sums(("key",), ("value",))
    for _ in range(8):
        whole.add({"key": np.array([3, 4]), "value": 2**50}, 2)
    assert whole.table()["value"].tolist() == [2**53, 2**53]


def test_one_number_stands_for_all_rows() -> None:
    whole = Sums(("a",), ("count",))
    whole.add({"a": np.array([5, 6, 5], np.int32), "count": 1}, 3)
    assert {name: whole.table()[name].tolist() for name in ("a", "count")} == {"a": [5, 6], "count": [2, 1]}
    assert Sums(("a",), ("count",)).table().num_rows == 0


@given(st.lists(st.tuples(INT64, st.integers(-1, 8)), max_size=9))
def test_sums_of_trees(nodes: list[tuple[int, int]]) -> None:
    parent = [min(each, row - 1) for row, (_, each) in enumerate(nodes)]
    exact = [value for value, _ in nodes]
    for row in reversed(range(len(nodes))):
        if parent[row] >= 0:
            exact[parent[row]] += exact[row]
    sums = np.array([value for value, _ in nodes], np.int64)
    assert add_to_parents(sums, np.array(parent, np.int64)).tolist() == [*map(bounded, exact)]


def test_the_tree_of_slices_that_last_for_ages(tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "x.fxt") as writer:
        for thread in range(3):
            track = writer.thread(1, thread + 1)
            track.complete("around", 0, MAX_TIME)
            track.complete("within", 10, MAX_TIME - 10)
    with fxtio.open_timeline(tmp_path / "x.fxt") as timeline:
        rows = [(row["name"], row["calls"], row["total"]) for row in tree(timeline).table.rows()]
    assert rows == [("around", 3, MAX_TIME), ("within", 3, MAX_TIME)]


WEIGHTY = Content(samples=[(0, time, ("a", frame), MAX_TIME - 1, "samples") for time in (1, 2) for frame in "bc"])


def test_heavy_samples(tmp_path: Path) -> None:
    timeline = WEIGHTY.timeline()
    assert {row["name"]: row["total"] for row in top(timeline).table.rows()} == dict.fromkeys("abc", MAX_TIME)
    assert {row["name"]: row["total"] for row in tree(timeline).table.rows()} == dict.fromkeys("abc", MAX_TIME)
    drawn = lanes(timeline, 0, 9, 3)
    assert drawn.most == MAX_TIME
    assert [(lane.busy, lane.fill) for lane in drawn.samples] == [(MAX_TIME, [1.0, 0.0, 0.0])]
    convert(timeline, tmp_path / "x.collapsed")
    assert (tmp_path / "x.collapsed").read_text() == f"a;b {MAX_TIME}\na;c {MAX_TIME}\n"


@pytest.mark.parametrize("target", ["x.pb.gz", "x.speedscope.json"])
def test_profiles_of_heavy_samples(target: str, tmp_path: Path) -> None:
    convert(WEIGHTY.timeline(), tmp_path / target)
    with fxtio.open_timeline(tmp_path / target) as timeline:
        assert (timeline.table("samples")["count"] > 0).all()
