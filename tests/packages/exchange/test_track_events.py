"""Exporters of events on tracks work on some rows at a time, so that long names cannot fill the memory."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.exchange import formatting
from fxtio.exchange.convert import exporters
from fxtio.exchange.formatting import row_ranges
from fxtio.io.sink import Sink
from fxtio.table import Table
from fxtio.timeline import replay
from fxtio.timeline.parts import Registry
from fxtio.timeline.replay import Replay
from support.costs import operations


@given(st.lists(st.integers(0, 40)), st.integers(1, 5), st.integers(1, 50))
def test_ranges_of_rows(sizes: list[int], most_rows: int, most_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formatting, "MAX_ROWS", most_rows)
        patch.setattr(formatting, "MAX_BYTES", most_bytes)
        ranges = list(row_ranges(len(sizes), np.array(sizes, np.float64)))
    rows = [row for each in ranges for row in range(each.start, each.stop)]
    assert rows == [*range(len(sizes))]
    for each in ranges:
        assert 0 < each.stop - each.start <= most_rows
        assert sum(sizes[each]) <= most_bytes or each.stop - each.start == 1


class Largest(io.BytesIO):
    """Takes bytes, and notes the most that came at once."""

    most = 0

    def write(self, data: Any) -> int:
        self.most = max(self.most, len(data))
        return len(data)


@pytest.mark.parametrize("format", ["chrome", "perfetto"])
def test_flows_that_do_not_end_are_forgotten(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are remembered give their names to their ends."""
    monkeypatch.setattr("fxtio.timeline.event_export.MAX_FLOWS", 3)
    trace = io.BytesIO()
    with fxtio.create(trace, format="fxt") as writer:
        thread = writer.thread(1, 2, "main")
        for number in range(10):
            thread.flow_begin("begin", number, number)
        for number in range(10):
            thread.flow_end("end", 100 + number, number)
    with fxtio.open_timeline(trace.getvalue()) as timeline:
        cls = exporters()[format]
        sink = Sink(io.BytesIO(), owned=False)
        exporter, _ = timeline.fold(lambda registry: cls(sink, registry), *cls.TABLES)
        exporter.finish()
    assert exporter.losses["names of points of flows, which have that of the first point now"] == 3


@pytest.mark.parametrize("format", ["chrome", "otlp"])
def test_long_names_and_texts_are_written_in_portions(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formatting, "MAX_BYTES", 1 << 18)
    trace, out = io.BytesIO(), Largest()
    with fxtio.create(trace, format="fxt") as writer:
        thread = writer.thread(1, 2, "main")
        for number in range(100):
            thread.complete("n" * 10_000, 10 * number, 10 * number + 5, args={"key": "v" * 10_000})
    with fxtio.open_timeline(trace.getvalue()) as timeline:
        cls = exporters()[format]
        exporter, _ = timeline.fold(lambda registry: cls(Sink(out, owned=False), registry), *cls.TABLES)
        exporter.finish()
    assert 1 << 17 < out.most < 1 << 19


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9))),
    st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 10))),
)
def test_places_of_points_among_slices(rows: list[tuple[int, int]], points: list[tuple[int, int]]) -> None:
    rows.sort()
    tracks, starts = np.array(rows, np.int64).reshape(-1, 2).T
    track, time = np.array(points, np.int64).reshape(-1, 2).T
    places = replay.places_among(tracks, starts, track, time)
    assert places.tolist() == [sum(row < point for row in rows) for point in points]


def test_points_on_many_tracks_are_not_placed_track_by_track() -> None:
    """A search for each track would take the square of the time, since each one looks at all points."""

    class Counting:
        def __init__(self, registry: Registry) -> None:
            self.replay, self.lines = Replay(registry), 0

        def enter(self, tables: Mapping[str, Table]) -> None:
            self.lines += operations(lambda: self.replay.enter(tables))

    lines = []
    for tracks in (100, 500):
        trace = io.BytesIO()
        with fxtio.create(trace, format="fxt") as writer:
            for number in range(tracks):
                thread = writer.thread(1, 2 + number)
                thread.complete("span", 10, 20)
                thread.instant("point", 15)
        with fxtio.open_timeline(trace.getvalue()) as timeline:
            lines.append(timeline.fold(Counting, *replay.TABLES)[0].lines)
    assert lines[1] - lines[0] < 6 * (500 - 100)  # a few lines look up the kind of each track
