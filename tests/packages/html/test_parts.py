"""The parts of pages compared with plain loops over the tables: flame graphs, charts, arrows, processors, moments."""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fxtio
from fxtio.fxt import Koid
from fxtio.html import charts, contents, flames
from fxtio.html.charts import CounterPoints, reduced
from fxtio.html.contents import Chart, DurationGroups, Grid, Section
from fxtio.html.flames import LongestSlices, MergedCalls, MergedStacks
from fxtio.html.messages import Instants, Messages, Notices
from fxtio.html.moments import Moments
from fxtio.html.tracks import Arrows, Processors, Tracks
from fxtio.table import Table
from fxtio.timeline import Timeline
from fxtio.timeline.answers import top
from fxtio.timeline.answers.answer import Labels
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import TrackKind
from fxtio.timeline.sql import arrows
from support.exchange import Content, imported, weights
from support.timelines import Step, step_lists, timeline_of

PLENTY = 10_000_000
BATCHES = st.integers(1, 12) | st.just(1000)


def rows_of(grid: Grid | None) -> list[list[Any]]:
    """Return the rows of a grid, numbers as they are."""
    return [] if grid is None else [[getattr(cell, "value", cell) for cell in row] for row in grid.rows]


def collected(timeline: Timeline, make: Callable[[Registry], Any], *tables: str) -> tuple[Any, Labels]:
    """Return a collector that has read a timeline, and the labels."""
    collector, registry = timeline.fold(make, *tables)
    return collector, Labels(registry.tables())


def nests(rows: list[dict[str, Any]]) -> bool:
    """Return whether every slice is within the one around it."""
    ends = {row["id"]: row["start"] + row["duration"] for row in rows}
    return all(row["parent"] < 0 or ends[row["id"]] <= ends[row["parent"]] for row in rows)


# ---- flame graphs


def shown_slices(data: bytes) -> Counter[tuple[str, int]]:
    """Return the names and durations of the slices of a flame graph."""
    slices = imported(data, "speedscope").table("slices")
    return Counter((row["name"], row["duration"]) for row in slices.rows())


@pytest.mark.full
@given(steps=step_lists(), batch=BATCHES)
def test_a_flame_graph_has_all_slices(steps: list[Step], batch: int) -> None:
    timeline = timeline_of(steps, batch)
    rows = [*timeline.table("slices").rows()]
    assume(rows and nests(rows))
    longest, _ = collected(timeline, LongestSlices, "slices")
    flame = longest.flame("Slices", 0, PLENTY)
    assert (flame.count, flame.notes) == (len(rows), [])
    assert flame.total == sum(row["duration"] for row in rows if not row["depth"])
    assert shown_slices(flame.flame.speedscope) == Counter((row["name"], row["duration"]) for row in rows)


@pytest.mark.full
@given(steps=step_lists(), batch=BATCHES, most=st.integers(1, 8))
def test_the_longest_slices_are_kept(steps: list[Step], batch: int, most: int) -> None:
    timeline = timeline_of(steps, batch)
    rows = [*timeline.table("slices").rows()]
    assume(rows and nests(rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flames, "MAX_SLICES", most)
        longest, _ = collected(timeline, LongestSlices, "slices")
        flame = longest.flame("Slices", 0, PLENTY)
    expected = sorted(rows, key=lambda row: (-row["duration"], row["id"]))
    assert longest.columns()["id"].tolist() == [row["id"] for row in expected[:most]]
    missing = expected[most:]
    assert shown_slices(flame.flame.speedscope) == Counter((row["name"], row["duration"]) for row in expected[:most])
    assert bool(flame.notes) == bool(missing)
    if missing:
        own, all_own = (sum(row["self_time"] for row in part) for part in (missing, rows))
        of_time = own / all_own if all_own else 0
        of_all = len(missing) / len(rows)
        figures = f"{len(missing):,} of {len(rows):,} ({of_all:.1%}), {of_time:.1%} of the time"
        assert flame.notes == [f"The shortest slices, of at most {missing[0]['duration']} ns, are left out: {figures}."]


@pytest.mark.full
@given(steps=step_lists(), batch=BATCHES, size=st.integers(2_000, 4_000))
def test_a_flame_graph_fits(steps: list[Step], batch: int, size: int) -> None:
    timeline = timeline_of(steps, batch)
    rows = [*timeline.table("slices").rows()]
    assume(rows and nests(rows))
    longest, _ = collected(timeline, LongestSlices, "slices")
    flame = longest.flame("Slices", 0, size)
    assert len(flame.flame.speedscope) <= size
    assert bool(flame.notes) == (flame.count < len(rows))


def test_a_flame_graph_of_many_tracks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flames, "MAX_TRACKS", 2)
    content = Content(spans=[(0, 0, 5, "a"), (1, 0, 9, "b"), (2, 0, 7, "c"), (2, 10, 1, "d")], threads=["x", "y", "z"])
    longest, _ = collected(content.timeline(), LongestSlices, "slices")
    flame = longest.flame("Slices", 0, PLENTY)
    assert shown_slices(flame.flame.speedscope) == {("b", 9): 1, ("c", 7): 1, ("d", 1): 1}
    assert flame.notes == ["The tracks on which the least runs are left out: 1 with 1 slice."]
    titles = [row["name"] for row in imported(flame.flame.speedscope).table("threads").rows()]
    assert titles == ["y (11)", "z (12)"]


def widths(data: bytes) -> Counter[tuple[str, ...]]:
    """Return the time of each path in a flame graph of merged calls, that of the paths below it included."""
    result: Counter[tuple[str, ...]] = Counter()
    for (path, _), weight in weights(imported(data, "speedscope")).items():
        for depth in range(1, len(path) + 1):
            result[path[:depth]] += weight
    return result


def paths_of(rows: list[dict[str, Any]]) -> Counter[tuple[str, ...]]:
    """Return the time of each path of names."""
    paths: dict[int, tuple[str, ...]] = {}
    result: Counter[tuple[str, ...]] = Counter()
    for row in sorted(rows, key=lambda row: row["id"]):
        paths[row["id"]] = (*paths.get(row["parent"], ()), row["name"])
        result[paths[row["id"]]] += row["duration"]
    return +result


def merged(registry: Registry) -> MergedCalls:
    return MergedCalls(registry)


@pytest.mark.full
@given(steps=step_lists(), batch=BATCHES)
def test_calls_are_merged_by_their_callers(steps: list[Step], batch: int) -> None:
    timeline = timeline_of(steps, batch)
    rows = [*timeline.table("slices").rows()]
    assume(nests(rows))
    calls, _ = collected(timeline, merged, "slices")
    flame = calls.flame("Calls", PLENTY)
    assert (flame is None) == (not rows)
    if flame is not None:
        assert widths(flame.flame.speedscope) == paths_of(rows)
        assert flame.total == sum(row["duration"] for row in rows if not row["depth"])
        assert flame.notes == []


@pytest.mark.full
@given(steps=step_lists(), batch=BATCHES, size=st.integers(1_500, 2_500), most=st.integers(1, 6))
def test_merged_calls_fit_and_keep_their_widths(steps: list[Step], batch: int, size: int, most: int) -> None:
    timeline = timeline_of(steps, batch)
    rows = [*timeline.table("slices").rows()]
    assume(rows and nests(rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flames, "MAX_PATHS", most)
        calls, _ = collected(timeline, merged, "slices")
    flame = calls.flame("Calls", size)
    if flame is None:
        return
    assert len(flame.flame.speedscope) <= size
    expected = paths_of(rows)
    shown = widths(flame.flame.speedscope)
    assert all(expected[path] == width for path, width in shown.items())
    assert bool(flame.notes) == (flame.count < len(rows))


STACKS = st.lists(st.sampled_from(["main", "f@a.py:3", "g", "h"]), max_size=4).map(tuple)
SAMPLES = st.lists(
    st.tuples(
        st.integers(-1, 1), st.integers(0, 50), STACKS, st.integers(0, 9), st.sampled_from(["samples", "cycles"])
    ),
    min_size=1,
    max_size=12,
)


def samples_of(registry: Registry) -> MergedStacks:
    return MergedStacks("samples", registry)


TABLES_OF_SAMPLES = ("samples", "stacks", "frames")


@given(samples=SAMPLES, most=st.sampled_from([0, 3, 1000]))
def test_a_flame_graph_of_samples(samples: list[Any], most: int) -> None:
    timeline = Content(samples=samples).timeline()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flames, "MAX_SAMPLES", most)
        stacks, _ = collected(timeline, samples_of, *TABLES_OF_SAMPLES)
    flame = stacks.flame("Samples", PLENTY)
    again = imported(flame.flame.speedscope, "speedscope")
    if len(samples) <= most:
        assert again.table("samples").num_rows == len(samples)
        assert flame.notes == []
    else:
        assert flame.notes == ["The order of time is not shown."]
    # Events other than samples have no name in the file, except as a part of a title.
    sums: Counter[Any] = Counter()
    for (stack, _), weight in weights(timeline).items():
        sums[stack] += weight
    found: Counter[Any] = Counter()
    for (stack, _), weight in weights(again).items():
        found[stack] += weight
    assert +found == +sums
    assert flame.total == sum(sums.values())


@given(samples=SAMPLES, size=st.integers(1_800, 2_400))
def test_a_flame_graph_of_samples_fits(samples: list[Any], size: int) -> None:
    timeline = Content(samples=samples).timeline()
    stacks, _ = collected(timeline, samples_of, *TABLES_OF_SAMPLES)
    flame = stacks.flame("Samples", size)
    assert len(flame.flame.speedscope) <= size
    total = sum(row["count"] for row in timeline.table("samples").rows())
    assert flame.total <= total
    left_out = [note for note in flame.notes if "weight" in note]
    assert bool(left_out) or flame.total == total
    for note in left_out:
        assert f"{(total - flame.total) / (total or 1):.1%} of the weight" in note


def test_a_flame_graph_of_allocations() -> None:
    content = Content(allocations=[(0, ("main", "f"), 3, 120, "A"), (1, ("main",), 1, 16, "B"), (-1, (), 1, 8, "B")])
    timeline = content.timeline()
    stacks, _ = collected(
        timeline, lambda registry: MergedStacks("allocations", registry), "allocations", "stacks", "frames"
    )
    flame = stacks.flame("Bytes", PLENTY)
    again = imported(flame.flame.speedscope)
    assert weights(again) == {(("main", "f"), "bytes"): 120, (("main",), "bytes"): 16, ((), "bytes"): 8}
    assert flame.total == 144 and flame.notes == []


# ---- charts


@st.composite
def value_lists(draw: st.DrawFn) -> list[tuple[int, float]]:
    """Generate times, in order, and values; many of them."""
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    count = draw(st.integers(1, 400))
    times = np.sort(random.integers(0, draw(st.sampled_from([50, 1_000, 1 << 40])), count))
    return [*zip(times.tolist(), random.integers(-50, 50, count).astype(float).tolist(), strict=True)]


@given(points=value_lists(), most=st.integers(4, 40))
def test_the_extremes_of_each_interval_are_kept(points: list[tuple[int, float]], most: int) -> None:
    time, value = (np.array(column) for column in zip(*points, strict=True))
    kept_time, kept_value = reduced(time.astype(np.int64), value, most)
    assert len(kept_time) <= most
    assert set(zip(kept_time.tolist(), kept_value.tolist(), strict=True)) <= set(points)
    assert (kept_time == np.sort(kept_time)).all()
    if len(points) > most:
        shift = next(s for s in range(64) if (points[-1][0] >> s) - (points[0][0] >> s) < most // 2)
        before: dict[int, list[float]] = defaultdict(list)
        after: dict[int, list[float]] = defaultdict(list)
        for times, values, intervals in ((time, value, before), (kept_time, kept_value, after)):
            for at, number in zip(times.tolist(), values.tolist(), strict=True):
                intervals[at >> shift].append(number)
        assert {key: (min(each), max(each)) for key, each in before.items()} == {
            key: (min(each), max(each)) for key, each in after.items()
        }


def counters(registry: Registry, rows: list[tuple[int, int, float]], size: int) -> Iterator[dict[str, Table]]:
    """Yield tables of the values of counters, in batches: track, time, value of each."""
    for first in range(0, len(rows), size):
        track, time, value = (list(column) for column in zip(*rows[first : first + size], strict=True))
        values = {"track": np.array(track, np.int32), "time": np.array(time, np.int64), "value": np.array(value)}
        yield {"counters": Table(registry.columns("counters", {**values, "event": -1}))}


def charted(rows: list[tuple[int, int, float]], batch: int, size: int = PLENTY) -> Section | None:
    """Return the section of values of counters."""
    registry = Registry()
    process = registry.process(1, "program")
    for track in range(30):
        registry.track(TrackKind.COUNTER, track, name=registry.names.code(f"c{track}"), process=process)
    points = CounterPoints(registry)
    for tables in counters(registry, rows, batch):
        points.enter(tables)
    return points.section(Labels(registry.tables()), 0, size)


@given(points=value_lists(), batch=st.integers(20, 300), kept=st.integers(50, 200))
def test_reducing_in_between_changes_no_chart(points: list[tuple[int, float]], batch: int, kept: int) -> None:
    rows = [(number % 3, time, value) for number, (time, value) in enumerate(points)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(charts, "MAX_POINTS", 16)
        patch.setattr(charts, "MAX_VALUES", kept)
        found = charted(rows, batch)
        patch.setattr(charts, "MAX_VALUES", 10_000)
        expected = charted(rows, len(rows))
    assert found is not None and expected is not None
    drawn: dict[str, list[float]] = {}
    drawn_at_once: dict[str, list[float]] = {}
    for section, extremes in ((found, drawn), (expected, drawn_at_once)):
        for chart in section.parts:
            assert isinstance(chart, Chart) and len(chart.times) <= 16
            numbers = [number for number in chart.series[0][1] if number is not None]
            extremes[chart.title] = [min(numbers), max(numbers)]
    assert drawn == drawn_at_once
    for track in range(3):
        own = [value for each, _, value in rows if each == track]
        if own:
            assert drawn[f"c{track}"] == [min(own), max(own)]


def test_charts_fit_and_the_busiest_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "MAX_CHARTS", 3)
    rows = [(track, time, float(time * track) / 3) for track in range(8) for time in range(10 * track + 10)]
    section = charted(rows, 1000, size=900)
    assert section is not None
    titles = [chart.title for chart in section.parts if isinstance(chart, Chart)]
    assert titles == ["c7", "c6", "c5"]
    for chart in section.parts:
        assert isinstance(chart, Chart)
        assert sum(len(str(number)) + 1 for number in (*chart.times, *chart.series[0][1])) <= 300
    assert section.notes == [
        "Counters with fewer values are not drawn: c4, c3, c2, c1, c0.",
        "Of counters with many values, the lowest and the highest of each interval are drawn.",
    ]


def test_numbers_that_are_not_finite_are_not_drawn() -> None:
    section = charted([(0, 1, float("nan")), (0, 2, float("inf")), (0, 3, 2.5), (0, 4, 1e300)], 2)
    assert section is not None
    (chart,) = section.parts
    assert isinstance(chart, Chart)
    assert (chart.times, chart.series[0][1]) == ([3, 4], [2.5, 1e300])


# ---- groups, arrows, processors, tasks


@given(
    rows=st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 2), st.integers(0, 50)), max_size=30),
    batch=st.integers(1, 30),
    most=st.sampled_from([2, 100]),
)
def test_groups_of_durations(rows: list[tuple[int, int, int]], batch: int, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contents, "MAX_GROUPS", most)
        sums = DurationGroups()
        for first in range(0, len(rows), batch):
            keys = [np.array(column, np.int64) for column in zip(*rows[first : first + batch], strict=True)]
            sums.enter(keys[:2], keys[2])
    found = rows_of(sums.grid(["a", "b"], lambda key: [str(key[0]), str(key[1])], most=100))
    expected = defaultdict(list)
    for a, b, duration in rows:
        expected[str(a), str(b)].append(duration)
    for a, b, count, total, median, p99, longest in found:
        own = sorted(expected[a, b])
        assert (count, total, longest) == (len(own), sum(own), own[-1])
        assert (median, p99) == (own[(len(own) - 1) // 2], own[-(-99 * len(own) // 100) - 1])
    assert len(found) == min(len(expected), most)
    assert sums.missed == len(rows) - sum(row[2] for row in found)


EVENTS = st.lists(
    st.tuples(st.sampled_from(["flow_begin", "flow_step", "flow_end"]), st.integers(0, 3), st.integers(0, 9)),
    max_size=30,
)


def with_flows(events: list[tuple[str, int, int]]) -> Timeline:
    """Return a timeline with points of flows, some of them in slices."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as trace:
        for tid in (1, 2):
            trace.thread(1, tid, f"thread {tid}", "process")
        for number, (kind, flow, _) in enumerate(events):
            thread = trace.thread(1, 1 + number % 2)
            if number % 3:
                thread.complete(f"s{number % 4}", 10 * number, 10 * number + 5)
            getattr(thread, kind)(f"flow {flow % 2}", 10 * number + 1, flow)
    return fxtio.open_timeline(out.getvalue())


@pytest.mark.full
@given(events=EVENTS, batch=st.integers(1, 30))
def test_arrows(events: list[tuple[str, int, int]], batch: int) -> None:
    timeline = with_flows(events)
    tables = timeline.tables("flow_points", "slices")
    points, slices = tables["flow_points"], tables["slices"]
    whole = arrows(points)
    names = dict(zip(slices["id"].tolist(), slices["name"], strict=True))
    expected: dict[Any, list[int]] = defaultdict(list)
    for row in whole.rows():
        ends = [names.get(row[column], "(no name)") for column in ("from_slice", "to_slice")]
        if points["type"][row["from_point"]] != "end":
            expected[(*ends, row["name"])].append(row["end"] - row["start"])
    registry = Registry()
    registry.names.codes(points["name"])
    registry.names.values[:] = points["name"].values
    collector = Arrows(registry)
    for first in range(0, points.num_rows, batch):
        rows = np.arange(first, min(first + batch, points.num_rows))
        collector.enter({"flow_points": points.take(rows), "slices": slices})
    found = {tuple(row[:3]): row[3:5] for row in rows_of(collector.grid())}
    assert found == {key: [len(each), sum(each)] for key, each in expected.items()}
    assert collector.notes() == []


def test_flows_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.html.tracks.MAX_WAITING", 2)
    timeline = with_flows([("flow_begin", flow, 0) for flow in range(5)])
    collector, _ = collected(timeline, Arrows, "flow_points", "slices")
    assert collector.notes() == ["3 arrows with many ids or names are not counted."]


SWITCHES = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 4)), max_size=20)


def scheduled(switches: list[tuple[int, int, int]]) -> Timeline:
    """Return a timeline with switches: the processor, the next thread or 0, and the state of the one before."""
    out = io.BytesIO()
    running = {0: 0, 1: 0}
    with fxtio.create(out, format="fxt") as trace:
        for tid in (1, 2, 3):
            trace.thread(1, tid, f"thread {tid}", "process")
        for number, (cpu, tid, state) in enumerate(switches):
            if running[1 - cpu] == tid or running[cpu] == tid:
                continue
            trace.main.context_switch(10 * number, cpu, running[cpu], tid, state)
            trace.main.thread_wakeup(10 * number + 5, cpu, 1 + number % 3, {"waker": Koid(2)})
            running[cpu] = tid
    return fxtio.open_timeline(out.getvalue())


def test_wakeups_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MAX_GROUPS", 1)
    timeline = scheduled([(0, number, 0) for number in range(3)])
    wakeups = len({row["thread"] for row in timeline.table("wakeups").rows()})
    collector, _ = collected(timeline, Processors, "scheduling", "wakeups")
    assert wakeups > 1
    assert collector.notes() == [
        f"{timeline.table('wakeups').num_rows - 1:,} wakeups between further threads are not counted."
    ]


@pytest.mark.full
@given(switches=SWITCHES, batch=st.integers(1, 20))
def test_processors(switches: list[tuple[int, int, int]], batch: int) -> None:
    timeline = scheduled(switches)
    tables = timeline.tables("scheduling", "wakeups", "threads")
    runs = sorted(tables["scheduling"].rows(), key=lambda row: row["start"] + row["duration"])
    labels = Labels(tables | timeline.tables("processes", "tracks"))
    times: dict[str, int] = Counter()
    waits: dict[tuple[str, str], list[int]] = defaultdict(list)
    latest: dict[str, Any] = {}
    for row in sorted(runs, key=lambda row: row["start"]):
        thread = labels.thread(row["thread"])
        times[thread] += row["duration"]
        if thread in latest:
            before = latest[thread]
            waits[thread, before["state"] or "unknown"].append(row["start"] - before["start"] - before["duration"])
        latest[thread] = row
    collector, registry = timeline.fold(_batched(Processors, batch), "scheduling", "wakeups")
    grids = {grid.title: rows_of(grid) for grid in collector.inner.grids(Labels(registry.tables()))}
    found = {row[0]: row[2] for row in grids.get("Threads on processors", [])}
    assert found == times
    assert {(row[0], row[1]): [row[2], row[3]] for row in grids.get("Threads that wait", [])} == {
        key: [len(each), sum(each)] for key, each in waits.items()
    }
    wakeups = Counter((labels.thread(row["waker"]), labels.thread(row["thread"])) for row in tables["wakeups"].rows())
    assert {(row[0], row[1]): row[2] for row in grids.get("Who wakes whom", [])} == wakeups
    assert collector.inner.notes() == []


def _batched(make: Callable[[Registry], Any], size: int) -> Callable[[Registry], Any]:
    """Return what makes a consumer that passes on this many rows at once to another one, its `inner`."""

    class Batched:
        def __init__(self, registry: Registry) -> None:
            self.inner = make(registry)

        def enter(self, tables: Mapping[str, Table]) -> None:
            for name, table in tables.items():
                order = np.argsort(table["start"] + table["duration"]) if "duration" in table else None
                table = table if order is None else table.take(order)
                for first in range(0, table.num_rows, size):
                    self.inner.enter({name: table.take(np.arange(first, min(first + size, table.num_rows)))})

    return Batched


def written(write: Callable[[Any, Any], None]) -> Timeline:
    """Return the timeline of a trace that a function writes, given the writer and the main thread."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as trace:
        write(trace, trace.thread(1, 2, "main", "app.py"))
    return fxtio.open_timeline(out.getvalue())


def test_tasks() -> None:
    def write(_: Any, main: Any) -> None:
        for task, start in ((1, 100), (2, 150)):
            main.async_begin(f"Task-{task}", start, task)
            main.async_begin("inner", start + 10, task)
            main.async_end("inner", start + 20, task)
            main.async_end(f"Task-{task}", start + 30 * task, task)
        main.async_begin("again", 400, 1)
        main.async_end("again", 410, 1)
        main.complete("no task", 0, 1000)

    tasks, labels = collected(written(write), Tracks, "slices", "instants", "args")
    (grid,) = tasks.tasks(labels, 50)
    assert rows_of(grid) == [["Task-1 (1)", 50, 310, 40, 3], ["Task-2 (2)", 100, 60, 60, 2]]
    assert rows_of(tasks.threads(labels, 50, 2000)) == [["main (2)", 1000, 0.5, 1, -50, 950]]


def test_tasks_by_coroutine() -> None:
    def write(_: Any, main: Any) -> None:
        for task in range(6):
            main.async_instant(f"Task-{task}", 10, task, category="asyncio", args={"coroutine": f"run_{task % 2}"})
            main.async_begin("work", 20, task)
            main.async_end("work", 30 + task, task)
        main.async_begin("no task", 20, 77)
        main.async_end("no task", 21, 77)

    tasks, labels = collected(written(write), Tracks, "slices", "instants", "args")
    by_coroutine, longest = tasks.tasks(labels, 0)
    assert rows_of(by_coroutine) == [["run_1", 3, 39, 13, 15, 15], ["run_0", 3, 36, 12, 14, 14]]
    assert rows_of(longest)[0][:2] == ["Task-5 (5)", "run_1"] and rows_of(longest)[-1][1] == ""


# ---- moments, messages, notices


def test_pauses() -> None:
    def write(_: Any, main: Any) -> None:
        for start, lasts in ((0, 10), (20, 40), (100, 30)):
            main.complete("collection", start, start + lasts, category="gc")
        main.complete("lock", 200, 205, category="monitor")
        main.complete("lock", 300, 309, category="other")

    moments, labels = collected(written(write), Moments, "slices", "collections")
    section = moments.pauses(labels, 0)
    grids = {grid.title: rows_of(grid) for grid in section.parts}
    assert grids["Garbage collections"] == [["collection", 3, 80, 30, 40, 40]]
    assert grids["Waits for locks"] == [["lock", 1, 5, 5, 5, 5]]
    assert grids["The longest ones"][:2] == [["collection", 40, 20, "main (2)"], ["collection", 30, 100, "main (2)"]]
    assert len(grids["The longest ones"]) == 4 and len(grids) == 3


def test_calls_that_are_slower_than_usual() -> None:
    def write(_: Any, main: Any) -> None:
        for number in range(20):
            start = number * 1_000_000
            main.complete("steady", start, start + (900_000 if number == 13 else 1_000))
            main.complete("rare", start + 910_000, start + 910_000 + 20 * number)
        for number in range(20):
            start = 100_000_000 + number * 1_000_000
            main.complete("varies", start, start + (900_000 if number == 7 else 400_000))

    timeline = written(write)
    slices, _ = collected(timeline, LongestSlices, "slices")
    moments, labels = collected(timeline, Moments, "slices", "collections")
    section = moments.slow(slices, top(timeline).table, labels, 0)
    grids = {grid.title: rows_of(grid) for grid in section.parts}
    assert grids["Calls much slower than usual"] == [["steady", 900_000, 13_000_000, "main (2)", 1_000, 900.0]]
    assert grids["The longest slices"][0] == ["steady", 900_000, 13_000_000, "main (2)"]
    assert grids["Times without any slice"][0] == [80_089_620, 19_910_380]


def test_the_page_says_which_calls_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the longest slices are; of shorter ones, none can be slow enough if they last less than that."""

    def notes(rest: int) -> list[str]:
        def write(_: Any, main: Any) -> None:
            for number in range(20):
                main.complete("long", number * 10_000_000, number * 10_000_000 + 5_000_000)
                main.complete("short", number * 10_000_000 + 6_000_000, number * 10_000_000 + 6_000_000 + rest)

        timeline = written(write)
        slices, _ = collected(timeline, LongestSlices, "slices")
        moments, labels = collected(timeline, Moments, "slices", "collections")
        section = moments.slow(slices, top(timeline).table, labels, 0)
        assert section is not None
        return [*section.notes]

    assert notes(200_000) == []
    monkeypatch.setattr(flames, "MAX_SLICES", 30)
    assert notes(99_000) == []
    (note,) = notes(200_000)
    assert "among the 30 longest slices. The other 10 last at most 200 us each" in note.replace("µ", "u")


def test_messages_and_instants() -> None:
    def write(_: Any, main: Any) -> None:
        for number in range(700):
            main.log(f"{'ERROR' if number % 100 == 99 else 'INFO'}:app:{number}", number)
            main.instant("tick", number, category="clock")
        main.instant("done", 5, category="clock")

    timeline = written(write)
    messages, labels = collected(timeline, Messages, "logs")
    section = messages.section(labels, 0)
    (grid,) = section.parts
    assert [row[1] for row in rows_of(grid)[:9]] == [
        *(f"ERROR:app:{number}" for number in range(99, 700, 100)), "INFO:app:0", "INFO:app:1",
    ]  # fmt: skip
    assert len(grid.rows) + grid.more == 700 and len(grid.rows) == 500
    assert section.notes == ["Errors and warnings come first."]
    instants, _ = collected(timeline, Instants, "instants")
    (grid,) = instants.section(0).parts
    assert rows_of(grid) == [["tick", "clock", 700, 0, 699], ["done", "clock", 1, 5, 5]]


def test_notices() -> None:
    def write(_: Any, main: Any) -> None:
        main.instant("recording", 1, category="fxtio", args={"command": "python app.py", "python": "3.13.0"})
        main.complete("drop_stats", 5, 9, category="kernel:meta", args={"num_records": 12, "num_bytes": 480})
        main.complete("drop_stats", 15, 19, category="fxtio", args={"records": 3})
        main.complete("drop_stats", 25, 29, category="fxtio", args={"records": "many"})
        main.complete("drop_stats", 35, 39, category="fxtio", args={"records": 4})

    notices, _ = collected(written(write), Notices, "slices", "instants", "args")
    assert dict(notices.facts()) == {"Command": "python app.py", "Python": "3.13.0"}
    assert notices.losses() == "12 records, 7 events"
