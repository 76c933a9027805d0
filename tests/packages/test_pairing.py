"""Pairs of begins and ends: every row is used once, batches make no difference, and what is left out or unwound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio import _native
from fxtio._native import python as stand_in
from fxtio._native.constants import FITTING, UNWIND, SpanStep
from fxtio.pairing import ended, pair, signed
from fxtio.uftrace.pairing import NO_ENTRY, NO_EXIT, pair_calls

kernels = pytest.importorskip("fxtio._native._kernels", reason="the C kernels are not built")

RECORDS = st.lists(st.tuples(st.sampled_from([-1, 0, 1, 1]), st.integers(0, 5), st.integers(0, 2)), max_size=60)


def columns(records: list[tuple[int, int, int]]) -> tuple[Any, Any, Any]:
    step, depth, address = (np.array([record[place] for record in records], np.int64) for place in range(3))
    return step.astype(np.int8), depth, address.astype(np.uint64)


@given(RECORDS)
def test_every_entry_and_every_exit_is_used_once(records: list[tuple[int, int, int]]) -> None:
    step, depth, address = columns(records)
    begin, by, state, still = pair_calls(step, depth, address)
    assert sorted([*begin[begin >= 0], *still]) == np.flatnonzero(step > 0).tolist()
    assert sorted(by[state != NO_EXIT]) == np.flatnonzero(step < 0).tolist()
    assert ((begin < 0) == (state == NO_ENTRY)).all()
    assert (np.diff(by) >= 0).all()
    assert (np.diff(depth[still]) > 0).all()


@given(RECORDS, st.integers(0, 60))
def test_calls_that_are_carried_over_end_as_in_one_batch(records: list[tuple[int, int, int]], place: int) -> None:
    step, depth, address = columns(records)
    whole = pair_calls(step, depth, address)
    first = pair_calls(step[:place], depth[:place], address[:place])
    rows = np.append(first[3], np.arange(min(place, len(step)), len(step)))
    second = pair_calls(step[rows], depth[rows], address[rows], len(first[3]))
    begin = np.append(first[0], np.where(second[0] >= 0, rows[second[0]] if len(rows) else -1, -1))
    by = np.append(first[1], rows[second[1]] if len(rows) else second[1])
    assert (begin.tolist(), by.tolist()) == (whole[0].tolist(), whole[1].tolist())
    assert np.append(first[2], second[2]).tolist() == whole[2].tolist()


def test_a_complete_span_that_does_not_fit_is_left_out() -> None:
    step = np.array([SpanStep.COMPLETE, SpanStep.COMPLETE, SpanStep.COMPLETE, SpanStep.FLOW], np.int8)
    time, end = np.array([0, 5, 6, 7]), np.array([10, 15, 12, 0])
    fitting, usual = pair(step, time=time, end=end, level=FITTING), pair(step, time=time, end=end)
    assert fitting.parent.tolist() == [-1, 0, 0, 0]
    assert usual.parent.tolist() == [-1, 0, 1, 2]
    assert (fitting.open.tolist(), usual.open.tolist()) == ([0], [0, 1, 2])


def test_an_end_unwinds_what_is_within_its_span() -> None:
    step = np.array([SpanStep.BEGIN, SpanStep.BEGIN, SpanStep.BEGIN, SpanStep.END, SpanStep.END], np.int8)
    key = np.array([1, 2, 3, 1, 2], np.uint64)
    unwound, usual = pair(step, key=key, level=UNWIND), pair(step, key=key)
    assert [column.tolist() for column in ended(unwound, step)] == [[2, 1, 0, -1], [3, 3, 3, 4]]
    assert usual.closer[:3].tolist() == [3, 4, -1]
    assert (unwound.unmatched, usual.unmatched, usual.open.tolist()) == (1, 0, [0, 1, 2])


@pytest.mark.parametrize("match", [kernels.match, stand_in.match])
@given(rows=st.lists(st.tuples(st.sampled_from(SpanStep), st.integers(-1, 3), st.integers(0, 9)), max_size=30))
def test_columns_that_are_not_asked_for_change_no_others(match: Any, rows: list[tuple[SpanStep, int, int]]) -> None:
    step, level, length = (np.array(column, np.int64) for column in zip(*rows, strict=True)) if rows else ([],) * 3
    step, level, end = np.array(step, np.int8), np.array(level, np.int32), np.arange(len(rows)) + np.array(length, int)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_native, "match", match)
        few = pair(step, end=end.copy(), level=level)
        given: Any = {"inner": np.zeros(len(rows), np.int64), "state": np.zeros(len(rows), np.int8)}
        many = pair(step, end=end.copy(), level=level, key=np.zeros(len(rows), np.uint64), with_depth=True, **given)
    assert [*map(len, (few.depth, few.inner, few.state, many.depth))] == [0, 0, 0, len(rows)]
    for name in ("end", "parent", "closer", "level", "on_stack", "unmatched", "child_first"):
        assert np.array_equal(getattr(few, name), getattr(many, name))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=9))
def test_signed_numbers_keep_their_order(values: list[int]) -> None:
    numbers = np.array(values, np.uint64)
    assert np.argsort(signed(numbers), kind="stable").tolist() == np.argsort(numbers, kind="stable").tolist()
