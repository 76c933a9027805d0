"""Steps that hold event loops: the answer compared with what made the trace, in batches of any size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio._native.constants import SpanStep
from fxtio.selection import Selection
from fxtio.timeline import Timeline
from fxtio.timeline.answers import Block, Blocks, QuestionError, blocking
from support.timelines import Step, timeline_of

RUN, RUN_ONCE = "asyncio.events.Handle._run", "asyncio.base_events.BaseEventLoop._run_once"
LONGER = 10
LOOPS = st.sampled_from(["functions", "viztracer", "stretches"])


@dataclass
class Call:
    """A call, with the time before each call within it and the time after the last one."""

    name: str
    pauses: list[int]
    calls: list[Call] = field(default_factory=list)

    @property
    def duration(self) -> int:
        return sum(self.pauses) + sum(call.duration for call in self.calls)

    def steps(self, track: int, time: int) -> Iterator[Step]:
        yield Step(SpanStep.BEGIN, track, time, 0, self.name)
        for pause, call in zip(self.pauses, self.calls, strict=False):
            yield from call.steps(track, time + pause)
            time += pause + call.duration
        yield Step(SpanStep.END, track, time + self.pauses[-1], 0, "")

    def way(self) -> list[Call]:
        """Return the calls from this one to the innermost one with at least half of its time."""
        way: list[Call] = [self]
        while way[-1].calls:
            longest = max(way[-1].calls, key=lambda call: call.duration)
            if 2 * longest.duration < self.duration:
                break
            way.append(longest)
        return way


@st.composite
def calls(draw: st.DrawFn, names: st.SearchStrategy[str], depth: int = 3) -> Call:
    inner = [draw(calls(names, depth - 1)) for _ in range(draw(st.integers(0, 2)) if depth else 0)]
    pauses = draw(st.lists(st.integers(0, 6), min_size=len(inner) + 1, max_size=len(inner) + 1))
    return Call(draw(names), pauses, inner)


ITERATIONS = st.lists(st.lists(calls(st.sampled_from("abc")), max_size=3), max_size=4)


def traced(
    loops: dict[int, list[list[Call]]], kind: str, batch: int
) -> tuple[Timeline, list[Block], dict[int, list[int]]]:
    """Return a timeline of loops on tracks, the steps that are long, and the times of iterations of each track."""
    run, run_once = (RUN, RUN_ONCE) if kind == "functions" else (
        "Handle._run (/usr/lib/python3.12/asyncio/events.py:78)",
        "BaseEventLoop._run_once (/usr/lib/python3.12/asyncio/base_events.py:1910)",
    )  # fmt: skip
    made = [Step(SpanStep.COMPLETE, 9, 0, 0, f"await {name}") for name in "abc" if kind == "stretches"]
    found, times = [], {}
    for track, iterations in loops.items():
        time, times[track] = 5, list[int]()
        for called in iterations:
            begin = time
            own = [call if kind == "stretches" else Call(run, [1, 1], [call]) for call in called]
            if kind == "stretches":
                times[track] += [call.duration for call in called]
                time = begin
                for call in own:
                    made += call.steps(track, time)
                    time += call.duration
            else:
                around = Call(run_once, [3, *[0] * len(own)], own)
                made += around.steps(track, time)
                time += 3
                times[track] += [sum(call.duration for call in own)] if own else []
            at = begin + (0 if kind == "stretches" else 3)
            for call in own:
                if call.duration >= LONGER:
                    way = call.way()
                    way = way[1:] if kind != "stretches" and len(way) > 1 else way
                    found.append(
                        Block(
                            at, call.duration, way[-1].name, way[0].name, way[-1].name if kind == "stretches" else None,
                            [(each.name, each.duration) for each in way], f"thread {track} ({track})", None,
                        )
                    )  # fmt: skip
                at += call.duration
            time = begin + (around.duration if kind != "stretches" else sum(call.duration for call in own)) + 2
    made.sort(key=lambda step: step.time)
    return timeline_of(made, batch), found, times


@given(first=ITERATIONS, second=ITERATIONS, kind=LOOPS, batch=st.integers(1, 12) | st.just(1000))
def test_blocks_and_loops(first: list[list[Call]], second: list[list[Call]], kind: str, batch: int) -> None:
    timeline, expected, times = traced({1: first, 2: second}, kind, batch)
    answer = blocking(timeline, longer=LONGER)
    key = lambda block: (-block.duration, block.time, block.thread)  # noqa: E731
    assert sorted(answer.rows, key=key) == sorted(expected, key=key)
    assert [block.duration for block in answer.rows] == sorted((block.duration for block in expected), reverse=True)
    assert answer.count == len(expected)
    loops = {loop.thread: loop for loop in answer.loops}
    assert set(loops) == {f"thread {track} ({track})" for track, own in times.items() if own}
    for track, own in times.items():
        if not own:
            continue
        loop = loops[f"thread {track} ({track})"]
        blocks = [block.duration for block in expected if block.thread == loop.thread]
        assert (loop.blocks, loop.blocked, loop.worst) == (len(blocks), sum(blocks), max(own))
        assert loop.late == sum(time for time in own if time >= LONGER)
    few = blocking(timeline, longer=LONGER, limit=2)
    assert (few.rows, few.count) == (answer.rows[:2], answer.count)


def two_blocks() -> Timeline:
    steps = [
        Call(RUN, [1, 1], [Call("handle", [2, 3], [Call("query", [60])])]),
        Call(RUN, [0, 0], [Call("draw", [20])]),
    ]
    around = Call(RUN_ONCE, [4, 0, 0], steps)
    return timeline_of([*around.steps(1, 100)])


def names(answer: Blocks) -> list[tuple[int, int, str]]:
    return [(block.time, block.duration, block.name) for block in answer.rows]


def test_selections() -> None:
    timeline = two_blocks()
    assert names(blocking(timeline, longer=20)) == [(104, 67, "query"), (171, 20, "draw")]
    assert names(blocking(timeline, longer=65)) == [(104, 67, "query")]  # which itself is shorter
    assert names(blocking(timeline, longer=20, selection=Selection(120, 180))) == [(120, 51, "query")]
    assert names(blocking(timeline, longer=5, selection=Selection(names=("dr*",)))) == [(171, 20, "draw")]
    assert names(blocking(timeline, longer=5, selection=Selection(categories=("disk",)))) == []
    assert names(blocking(timeline, longer=5, selection=Selection(threads=("!1",)))) == []
    assert blocking(timeline, longer=5, selection=Selection(threads=("!1",))).loops == []
    (loop,) = blocking(timeline, longer=20).loops
    assert (loop.steps, loop.time, loop.late, loop.worst, loop.share) == (2, 87, 87, 87, 1.0)
    (loop,) = blocking(timeline, longer=1000).loops
    assert (loop.blocks, loop.blocked, loop.late, loop.worst, loop.share) == (0, 0, 0, 87, 0.0)


def test_nothing() -> None:
    for timeline in (timeline_of([]), timeline_of([Step(SpanStep.COMPLETE, 0, 5, 900, "f")])):
        answer = blocking(timeline, longer=1)
        assert (answer.rows, answer.count, answer.loops) == ([], 0, [])


def test_a_step_that_never_ends() -> None:
    begins = [Step(SpanStep.BEGIN, 1, 10, 0, RUN), Step(SpanStep.BEGIN, 1, 12, 0, "stuck")]
    answer = blocking(timeline_of([*begins, Step(SpanStep.INSTANT, 2, 500, 0, "later")]), longer=100)
    assert names(answer) == [(10, 490, "stuck")]


@pytest.mark.parametrize("longer", [0, -5, None])
def test_a_time_that_is_none(longer: int | None) -> None:
    with pytest.raises(QuestionError, match="greater than 0"):
        blocking(two_blocks(), longer=longer)  # type: ignore[arg-type]  # wrong on purpose
