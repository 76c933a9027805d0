"""Timelines of made-up steps, in batches of any size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from fxtio._native.constants import SpanStep
from fxtio.table import Categories
from fxtio.timeline import Timeline
from fxtio.timeline.parts import Registry, Steps, TimelinePart
from fxtio.timeline.schema import ArgumentKind

NAMES = ("f", "g", "h")
CATEGORIES = ("net", "disk")


class Step(NamedTuple):
    """A begin, an end, a complete span or an instant.

    Attributes:
        kind: what it does.
        track: the number of its thread.
        time: its time.
        end: the end of a complete span.
        name: its name; its category follows from it.
        argument: the number of its argument `n`, None for none.
    """

    kind: SpanStep
    track: int
    time: int
    end: int
    name: str
    argument: int | None = None


KINDS = st.sampled_from([SpanStep.BEGIN, SpanStep.END, SpanStep.COMPLETE, SpanStep.INSTANT])


@st.composite
def step_lists(draw: st.DrawFn) -> list[Step]:
    """Generate steps in the order of time, whose complete spans nest."""
    steps, time = [], 0
    for _ in range(draw(st.integers(0, 40))):
        time += draw(st.integers(0, 3))
        kind, track = draw(KINDS), draw(st.integers(0, 2))
        end = time + draw(st.integers(0, 6))
        steps.append(Step(kind, track, time, end, draw(st.sampled_from(NAMES)), draw(st.none() | st.integers(0, 2))))
    return steps


def timeline_of(steps: Sequence[Step], batch: int = 1_000_000, *, named: bool = True) -> Timeline:
    """Return a timeline of steps, read in batches of this many; threads get their names at the end, or never."""

    def parts(registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
        for first in range(0, max(len(steps), 1), batch):
            yield _part(registry, steps[first : first + batch], first)
        for tid in {step.track for step in steps} if named else ():
            registry.thread(1, tid, f"thread {tid}")
            registry.process(1, "program")

    return Timeline("made up", "made up", parts)


def _part(registry: Registry, steps: Sequence[Step], first: int) -> TimelinePart:
    rows = Steps.blank(len(steps), first)
    names = registry.names
    for row, step in enumerate(steps):
        rows.step[row], rows.track[row] = step.kind, registry.thread_track(1, step.track)
        rows.time[row], rows.end[row], rows.ticks[row] = step.time, step.end, step.time
        rows.name[row] = names.code(step.name)
        rows.category[row] = names.code(CATEGORIES[step.name == "f"])
    owners = [row for row, step in enumerate(steps) if step.argument is not None]
    values = np.array([steps[row].argument for row in owners], np.uint64)
    columns = {
        "event": np.array(owners, np.int64) + first,
        "name": np.full(len(owners), names.code("n"), np.int32),
        "type": np.full(len(owners), ArgumentKind.INTEGER, np.int32),
        "bits": values,
        "text": Categories(np.full(len(owners), -1, np.int32), names.values),
    }
    return TimelinePart(rows, {"args": registry.columns("args", columns)})
