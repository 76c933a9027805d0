"""Timelines for the tests of exchange formats: made of plain values, exported, imported, and summed up again."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import fxtio
from fxtio import _native
from fxtio._native.constants import SpanStep
from fxtio.exchange import exchanges
from fxtio.formats import Exporter
from fxtio.io.sink import Sink
from fxtio.table import Table
from fxtio.timeline import Timeline
from fxtio.timeline.parts import Registry, Steps, TimelinePart
from fxtio.timeline.stacks import Stacks

Stack = tuple[str, ...]


@dataclass
class Content:
    """What a timeline of the tests has.

    Attributes:
        spans: complete spans: thread, start, duration, name.
        samples: thread (or -1), time, frames (the outermost first), weight, unit.
        allocations: thread (or -1), frames, number, bytes, type.
        size: the number of rows in a batch.
    """

    spans: Sequence[tuple[int, int, int, str]] = ()
    samples: Sequence[tuple[int, int, Stack, int, str]] = ()
    allocations: Sequence[tuple[int, Stack, int, int, str]] = ()
    size: int = 5
    threads: Sequence[str] = field(default_factory=lambda: ["main", "worker"])

    def timeline(self) -> Timeline:
        """Return the content as a timeline."""
        return Timeline("test", "test", self.parts)

    def parts(self, registry: Registry, _: Set[str]) -> Iterator[TimelinePart]:
        """Yield the content as the parts of a timeline."""
        stacks = Stacks(registry)
        threads = [registry.thread(1, 10 + number, name) for number, name in enumerate(self.threads)]
        threads.append(-1)
        spans = sorted(self.spans, key=lambda span: span[1])
        for first in range(0, len(spans), self.size):
            rows = spans[first : first + self.size]
            steps = Steps.blank(len(rows), first)
            steps.step[:] = SpanStep.COMPLETE
            for row, (thread, start, duration, name) in enumerate(rows):
                steps.track[row] = registry.thread_track(1, 10 + thread)
                steps.time[row], steps.end[row], steps.name[row] = start, start + duration, registry.names.code(name)
            yield TimelinePart(steps)
        for thread, time, frames, weight, unit in self.samples:
            stack = stacks.stack([stacks.frame(*_frame(text)) for text in frames])
            values = {"time": time, "thread": threads[thread], "cpu": -1, "stack": stack, "count": weight}
            yield self._part(registry, stacks, "samples", {**values, "unit": registry.names.code(unit)})
        for thread, frames, number, size, cls in self.allocations:
            stack = stacks.stack([stacks.frame(*_frame(text)) for text in frames])
            values = {"time": 0, "thread": threads[thread], "stack": stack, "count": number, "size": size}
            yield self._part(registry, stacks, "allocations", {**values, "type": registry.names.code(cls)})

    def _part(self, registry: Registry, stacks: Stacks, table: str, values: dict[str, Any]) -> TimelinePart:
        row = registry.columns(table, {name: np.array([value]) for name, value in values.items()})
        return TimelinePart(tables={**stacks.new_tables(), table: row})


def _frame(text: str) -> tuple[str, None, str | None, int]:
    """Return the frame of `name` or `name@file:line`."""
    name, at, place = text.partition("@")
    file, _, line = place.rpartition(":")
    return (name, None, file, int(line)) if at else (name, None, None, -1)


def exported(timeline: Timeline, name: str) -> tuple[bytes, Counter[str]]:
    """Return a timeline in an exchange format, and what got lost."""
    exporter = exchanges()[name].exporter
    streams = []

    def begun(registry: Registry) -> Exporter:  # again, if the timeline turns out not to be in order
        streams.append(io.BytesIO())
        return exporter(Sink(streams[-1], owned=False), registry)

    consumer, _ = timeline.fold(begun, *exporter.TABLES)
    consumer.finish()
    return streams[-1].getvalue(), +consumer.losses


def imported(data: bytes, name: str | None = None) -> Timeline:
    """Return the timeline of a file."""
    return fxtio.open_timeline(data, format=name)


def stacks_of(timeline: Timeline) -> list[Stack]:
    """Return the names of the frames of each stack."""
    tables = timeline.tables("stacks", "frames", "samples", "allocations")
    names = [row["name"] or "" for row in tables["frames"].rows()]
    stacks: list[Stack] = []
    for row in tables["stacks"].rows():
        stacks.append((*(stacks[row["parent"]] if row["parent"] >= 0 else ()), names[row["frame"]]))
    return [*stacks, ()]


def weights(timeline: Timeline) -> Counter[tuple[Stack, str]]:
    """Return the sum of the samples of each stack and unit."""
    stacks = stacks_of(timeline)
    sums: Counter[tuple[Stack, str]] = Counter()
    for row in timeline.table("samples").rows():
        sums[stacks[row["stack"]], row["unit"]] += row["count"]
    return sums


def spans(timeline: Timeline) -> list[tuple[int, int, int, str, int]]:
    """Return track, start, duration, name and depth of all slices, in order of tracks and begins."""
    slices: Table = timeline.table("slices")
    rows = sorted(slices.rows(), key=lambda row: (row["track"], row["id"]))
    return [(row["track"], row["start"], row["duration"], row["name"], row["depth"]) for row in rows]


frames = st.text(st.characters(exclude_characters="@\0", exclude_categories=["Cs"]), min_size=1, max_size=6)
"""Names of frames; an `@` would begin a file name."""

stacks = st.lists(st.one_of(st.sampled_from("abc"), frames), max_size=5).map(tuple)
"""Stacks of frames."""

samples = st.lists(
    st.tuples(
        st.integers(-1, 1), st.integers(0, 10**12), stacks, st.integers(0, 10**9), st.sampled_from(["samples", "ns"])
    ),
    max_size=20,
)
"""Samples of `Content`."""

complete_spans = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 60), st.integers(0, 30), st.sampled_from("abc")), max_size=30
)
"""Spans of `Content`; some overlap."""


def read_slowly(patch: pytest.MonkeyPatch) -> None:
    """Leave all objects and numbers to the slow way of reading."""
    walk = _native.walk_objects

    def nothing(data: Any, names: Any, ends: Any, places: Any) -> tuple[int, int]:
        return (0, 0) if len(ends) else walk(data, names, ends, places)

    def no_numbers(*arguments: Any) -> int:
        arguments[-1][:] = -1
        return 0

    patch.setattr(_native, "walk_objects", nothing)
    patch.setattr(_native, "walk_arrays", lambda *arguments: (0, 0))
    patch.setattr(_native, "read_decimals", no_numbers)
