"""Tests of the begins and ends of slices: a stack machine accepts them, and gives the slices back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fxtio._native.constants import SpanStep
from fxtio.table import Table
from fxtio.timeline.parts import Registry, Steps, TimelinePart
from fxtio.timeline.replay import nested_events
from fxtio.timeline.schema import TrackKind
from fxtio.timeline.timeline import Timeline

complete = st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 30))


def slices_of(spans: list[tuple[int, int, int]]) -> Table:
    """Return the slices of complete spans (track, start, duration)."""
    spans = sorted(spans, key=lambda span: span[1])

    def parts(registry: Registry, _: object) -> object:
        steps = Steps.blank(len(spans))
        steps.step[:] = SpanStep.COMPLETE
        for row, (track, start, duration) in enumerate(spans):
            steps.track[row] = registry.track(TrackKind.THREAD, track)
            steps.time[row], steps.end[row] = start, start + duration
        yield TimelinePart(steps)

    return Timeline("test", "test", parts).table("slices")  # type: ignore[arg-type]


def replayed(slices: Table) -> tuple[list[tuple[int, int, int, int]], int]:
    """Return row, start, duration and depth of each slice as the events give them, and how many were cut."""
    events = nested_events(slices)
    rows = []
    stack: list[tuple[int, int]] = []
    track, latest = -1, 0
    for row, is_end, time in zip(events.row.tolist(), events.is_end.tolist(), events.time.tolist(), strict=True):
        if not stack and slices["track"][row] != track:
            assert slices["track"][row] > track
            track, latest = int(slices["track"][row]), 0
        assert slices["track"][row] == track and time >= latest
        latest = time
        if not is_end:
            stack.append((row, time))
            continue
        begun, start = stack.pop()
        assert begun == row
        rows.append((row, start, time - start, len(stack)))
    assert not stack
    return rows, events.cut


@given(st.lists(complete, max_size=40))
def test_events_are_nested_and_in_order(spans: list[tuple[int, int, int]]) -> None:
    slices = slices_of(spans)
    rows, cut = replayed(slices)
    assert sorted(row for row, *_ in rows) == list(range(slices.num_rows))
    changed = 0
    for row, start, duration, depth in rows:
        assert depth == slices["depth"][row]
        assert start + duration <= slices["start"][row] + slices["duration"][row]
        changed += (start, duration) != (slices["start"][row], slices["duration"][row])
        assert duration == slices["duration"][row] or slices["depth"][row]
    assert changed == cut


@given(st.lists(complete, max_size=40), st.integers(0, 2**40))
def test_slices_that_are_missing_do_no_harm(spans: list[tuple[int, int, int]], mask: int) -> None:
    slices = slices_of(spans)
    some = slices.take(np.array([bool(mask >> row & 1) for row in range(slices.num_rows)], bool))
    rows, _ = replayed(some)
    assert sorted(row for row, *_ in rows) == list(range(some.num_rows))


def test_slices_of_no_duration_stay_within_each_other() -> None:
    slices = Table(
        {
            "id": np.arange(3),
            "start": np.array([5, 5, 5]),
            "duration": np.array([0, 0, 0]),
            "depth": np.array([0, 1, 1], np.int32),
            "track": np.zeros(3, np.int32),
        }
    )
    assert [(row, depth) for row, _, _, depth in replayed(slices)[0]] == [(1, 1), (2, 1), (0, 0)]


def test_without_slices() -> None:
    assert [len(part) for part in nested_events(slices_of([]))[:3]] == [0, 0, 0]
