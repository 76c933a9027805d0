"""The timeline: pairing batch by batch, sorting, and what it does with traces that are not in order."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio._native.constants import SpanStep
from fxtio.exchange.convert import convert, exporters
from fxtio.table import Categories, Column, GrowingTable, Table
from fxtio.timeline import Timeline, arguments, nesting, sorting
from fxtio.timeline.arguments import Arguments
from fxtio.timeline.parts import MAX_NAMES, OPEN_COLUMNS, Registry, Steps, TimelinePart
from fxtio.timeline.schema import TABLES, ArgumentKind, TrackKind
from support.checkout import CORPUS

pytestmark = pytest.mark.native

ROW = st.tuples(
    st.sampled_from([SpanStep.BEGIN, SpanStep.END, SpanStep.COMPLETE, SpanStep.INSTANT, SpanStep.FLOW]),
    st.integers(0, 2),
    st.integers(0, 30),
    st.integers(0, 9),
    st.integers(0, 2),
    st.sampled_from([-1, -1, -1, 0, 1, 2]),
)


def steps_of(rows: list[tuple[int, ...]], registry: Registry) -> Steps:
    for thread in range(3):
        registry.thread_track(1, thread)
    steps = Steps.blank(len(rows))
    for place, name in enumerate(("step", "track", "time", "end", "key", "level")):
        getattr(steps, name)[:] = [row[place] for row in rows]
    steps.end[:] += steps.time
    steps.name[:] = registry.names.code("name")
    return steps


def test_processes_and_threads_beyond_the_limits_are_the_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.timeline.parts.MAX_PROCESSES", 2)
    monkeypatch.setattr("fxtio.timeline.parts.MAX_THREADS", 3)
    registry = Registry()
    tracks = [registry.thread_track(pid, tid) for pid, tid in ((1, 1), (2, 1), (3, 1), (3, 2), (1, 5), (2, 1))]
    assert tracks == [0, 1, 1, 2, 2, 1]
    assert registry.process(4, "no name for another one") == 1
    assert registry.thread(9, 9, "nor for a thread") == 2
    tables = registry.tables()
    assert [*tables["processes"].rows()] == [{"pid": 1, "name": None}, {"pid": 2, "name": None}]
    assert [(row["tid"], row["process"], row["name"]) for row in tables["threads"].rows()] == [
        (1, 0, None),
        (1, 1, None),
        (2, 1, None),
    ]
    assert registry.losses == {
        "more than 2 processes; all further ones are shown as one": 4,
        "more than 3 threads; all further ones are shown as one": 2,
    }


def test_of_several_arguments_of_a_name_the_last_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those without a name, and those of a name beyond the limit, belong to their own rows only."""
    codes = [-1, 0, 3, 4]  # 4 stands for the names beyond the limit
    monkeypatch.setattr("fxtio.timeline.arguments._NAME_CODES", arguments._NAME_CODES - MAX_NAMES + 4)
    rows = [(event, code, value) for event in (10, 20, 30) for value in (1, 2) for code in codes]
    taken = Arguments()
    event, name, bits = (np.array(column) for column in zip(*rows, strict=True))
    kind = np.full(len(rows), ArgumentKind.INTEGER)
    names = [str(number) for number in range(5)]
    columns: dict[str, Column] = {
        "event": event,
        "name": Categories(name, names),
        "type": Categories(kind, []),
        "bits": bits,
    }
    taken.enter({"args": Table({**columns, "text": Categories(np.full(len(rows), -1), names)})})
    found = taken.of(np.array([10, 20, 30]))
    assert sorted(zip(found.row.tolist(), found.name.tolist(), found.bits.tolist(), strict=True)) == [
        (row, code, 2) for row in range(3) for code in codes
    ]


def timeline_of(rows: list[tuple[int, ...]], cuts: list[int]) -> Timeline:
    """Return a timeline whose steps come in several parts."""

    def parts(registry: Registry, _: Any) -> Any:
        steps = steps_of(rows, registry)
        steps.event[:] = 0  # their numbers follow the order of the parts
        bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
        for first, end in itertools.pairwise(bounds):
            yield TimelinePart(steps.take(slice(first, end)))

    return Timeline("test", "test", parts)


def rows_of(timeline: Timeline) -> dict[str, list[list[Any]]]:
    """Return the rows of each table, sorted, with starts of slices instead of their ids."""
    tables = timeline.tables("slices", "instants", "flow_points")
    starts = [*tables["slices"]["start"].tolist(), None]
    result = {}
    for name, table in tables.items():
        rows = list(table.rows())
        for row in rows:
            row.pop("id" if name == "slices" else "event")
            for reference in {"parent", "slice"} & row.keys():
                row[reference] = starts[row[reference]]
        result[name] = sorted([[*row.values()] for row in rows], key=repr)
    return result


@given(rows=st.lists(ROW, max_size=40), cuts=st.lists(st.integers(0, 40), max_size=5))
def test_parts_give_what_the_whole_gives(rows: list[tuple[int, ...]], cuts: list[int]) -> None:
    rows.sort(key=lambda row: row[2])
    assert rows_of(timeline_of(rows, cuts)) == rows_of(timeline_of(rows, []))


@given(rows=st.lists(ROW, max_size=40), cuts=st.lists(st.integers(0, 40), max_size=5), most=st.integers(1, 30))
def test_disorder_is_sorted(rows: list[tuple[int, ...]], cuts: list[int], most: int) -> None:
    """Steps with the same time keep their order, also where the sorter writes runs to its file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "MAX_ROWS", most)
        unsorted = rows_of(timeline_of(rows, cuts))
    expected = rows_of(timeline_of(sorted(rows, key=lambda row: row[2]), []))
    assert unsorted == expected


@given(rows=st.lists(ROW, max_size=40))
def test_slices_are_sound(rows: list[tuple[int, ...]]) -> None:
    """Parents enclose their children unless these say otherwise, and come before them; times are not negative."""
    slices = list(timeline_of(sorted(rows, key=lambda row: row[2]), []).table("slices").rows())
    assert [row["id"] for row in slices] == [*range(len(slices))]
    for row in slices:
        assert 0 <= row["self_time"] <= row["duration"]
        outer = slices[row["parent"]] if row["parent"] >= 0 else None
        assert row["depth"] == (0 if outer is None else outer["depth"] + 1)
        if outer is not None:
            assert outer["id"] < row["id"]
            assert outer["track"] == row["track"]
            assert outer["start"] <= row["start"]


class EachPart:
    """Notes the slices of each part, and those that are open then with their self times."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.parts: list[tuple[Table, Table, list[int]]] = []

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Note a part."""
        own = self.registry.open_self_times(0)[1].tolist()
        self.parts.append((tables["slices"], self.registry.open_slices(), own))


@given(rows=st.lists(ROW, max_size=40), most=st.integers(1, 5))
def test_slices_that_are_left_in_the_end_are_open_until_they_come(rows: list[tuple[int, ...]], most: int) -> None:
    """They come in parts, inner ones first; meanwhile all others are known, with their times."""
    steps = [(SpanStep.BEGIN, *row[1:5], -1) for row in rows]  # none of them ends
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "_AT_ONCE", most)
        parts = timeline_of(sorted(steps, key=lambda row: row[2]), []).fold(EachPart, "slices")[0].parts
    assert len(parts) == -(-len(rows) // most)
    for place, (slices, unfinished, own) in enumerate(parts):
        later = [row for part, *_ in parts[place + 1 :] for row in part.rows()]
        later.sort(key=lambda row: row["id"])
        assert set(slices["parent"].tolist()) <= {-1, *slices["id"].tolist(), *unfinished["id"].tolist()}
        assert [*unfinished.rows()] == [{name: row[name] for name in OPEN_COLUMNS} for row in later]
        assert own == [row["self_time"] for row in later]


def test_tables_have_their_declared_columns() -> None:
    timeline = timeline_of([(SpanStep.BEGIN, 0, 5, 0, 0, -1)], [])
    for name in timeline.table_names:
        assert timeline.table(name).column_names == [*TABLES[name]]
    with pytest.raises(KeyError, match="there is no table 'nothing'"):
        timeline.table("nothing")


def test_findings_are_those_of_the_trace() -> None:
    cut = (CORPUS / "fxt" / "ftr-demo.fxt").read_bytes()[:1000]
    with fxtio.open_timeline(cut) as timeline:
        assert [finding.rule for finding in timeline.findings] == ["fxt.framing.truncated"]
        assert timeline.findings is timeline.trace.findings
    with fxtio.open_timeline(b"a;b 1\n") as timeline:
        assert (timeline.format, len(timeline.findings)) == ("collapsed", 0)


def test_an_end_without_a_begin_is_a_loss() -> None:
    timeline = timeline_of([(SpanStep.END, 0, 5, 0, 0, -1), (SpanStep.END, 0, 6, 0, 0, -1)], [])
    assert timeline.table("slices").num_rows == 0
    assert timeline.losses == {"ends of spans that have not begun": 2}


@pytest.mark.parametrize("to", [*exporters()])
def test_names_that_are_no_text_reach_every_format(to: str, tmp_path: Path) -> None:
    """JSON may have half of a surrogate pair, which is neither text nor a byte."""
    name, target = r"a\ud800b\udc80", tmp_path / "out"
    event = f'{{"ph": "X", "ts": 1, "dur": 5, "pid": 1, "tid": 2, "name": "{name}", "args": {{"{name}": "{name}"}}}}'
    with fxtio.open_timeline(f"[{event}]".encode()) as timeline:
        assert timeline.table("slices")["name"].tolist() == ["a\ufffdb\udc80"]
        convert(timeline, target, to=to)
    assert target.exists()


@given(
    ids=st.lists(st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1]), max_size=12),
    together=st.booleans(),
    most=st.integers(0, 5),
)
def test_tracks_are_told_apart_by_ids_of_64_bits_up_to_a_limit(ids: list[int], together: bool, most: int) -> None:
    registry, distinct = Registry(), [*dict.fromkeys(ids)]
    name, process = registry.names.code("name"), registry.process(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fxtio.timeline.parts.MAX_TRACKS", most)
        if together:
            parts = sorted(distinct[:2]), sorted(distinct[2:])
            tracks, ids = [], [*parts[0], *parts[1]]
            distinct = ids
            for part in parts:
                same = np.zeros(len(part), np.int32)
                tracks += registry.async_tracks(np.array(part, np.uint64), same + name, same + process).tolist()
        else:
            tracks = [registry.track(TrackKind.ASYNC, each, name=name, process=process, id=each) for each in ids]
    kept = distinct[:most]
    assert tracks == [kept.index(each) if each in kept else most for each in ids]
    rows = [*registry.tables()["tracks"].rows()]
    assert [row["id"] for row in rows] == [*kept, *[0] * (len(distinct) > most)]
    assert [registry.track_info(track).id for track in range(registry.track_count)] == [row["id"] for row in rows]
    assert sum(registry.losses.values()) == sum(each not in kept for each in ids)
    processes = registry.track_processes(np.array([*tracks, -1])).tolist()
    assert processes == [*(process if each in kept else -1 for each in ids), -1]


def test_names_of_a_growing_list_are_looked_up_once() -> None:
    from fxtio.table import Categories

    registry, values = Registry(), ["a", "b"]
    assert registry.names.codes(Categories(np.array([1, -1, 0], np.int32), values)).tolist() == [1, -1, 0]
    registry.names.code("other")
    values += ["c", "a"]
    assert registry.names.codes(Categories(np.array([2, 3, -1], np.int32), values)).tolist() == [3, 0, -1]
    assert registry.names.values == ["a", "b", "other", "c"]
    again = registry.track(TrackKind.COUNTER, "x", name=1)
    assert registry.track(TrackKind.COUNTER, "x") == again


@given(gaps=st.lists(st.integers(1, 4), min_size=1, max_size=400), few=st.booleans())
def test_rows_go_to_their_places(gaps: list[int], few: bool) -> None:
    """Few gaps are copied run by run, many row by row."""
    gaps = [gap if number % 90 == 0 or not few else 1 for number, gap in enumerate(gaps)]
    places = np.cumsum(gaps)
    others = np.setdiff1d(np.arange(places[-1]), places)
    growing = GrowingTable()
    for rows in (places, others):
        if len(rows):
            growing.append({"number": rows * 10}, 0.0, rows)
    numbers: Any = growing.columns()["number"]
    assert np.array_equal(numbers, np.arange(places[-1] + 1) * 10)


class Waiting:
    """Keeps the arguments of open slices, as consumers do; counts those of slices that have come."""

    def __init__(self, registry: Registry) -> None:
        self.arguments = Arguments(registry)
        self.count = 0

    def enter(self, tables: Mapping[str, Table]) -> None:
        self.arguments.enter(tables)
        if "slices" in tables:
            self.count += len(self.arguments.of(tables["slices"]["event"], tables["slices"]["end_event"]))
        self.arguments.leave(tables)


@pytest.mark.full
def test_memory_is_bounded_where_a_trace_is_sorted() -> None:
    """The last of many parts is earlier than all others; each has slices with two arguments at both ends."""
    count, parts_count = 500, 50

    def parts(registry: Registry, _: Any) -> Any:
        track, name = registry.thread_track(1, 1), registry.names.code("name")
        for number in range(parts_count):
            steps = Steps.blank(2 * count, number * 2 * count)
            steps.step[0::2], steps.step[1::2] = SpanStep.BEGIN, SpanStep.END
            steps.track[:], steps.name[:] = track, name
            steps.time[:] = np.arange(2 * count) + (number + 1) % parts_count * 2 * count
            columns = {"event": np.repeat(steps.event, 2), "name": np.tile([name, -1], 2 * count)}
            args = registry.columns("args", {**columns, "type": ArgumentKind.INTEGER, "bits": 5, "text": -1})
            yield TimelinePart(steps, {"args": args})

    timeline = Timeline("test", "test", parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "MAX_ROWS", 20 * count)
        tracemalloc.start()
        try:
            waiting, _ = timeline.fold(Waiting, "slices", "args")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert waiting.count == 2 * count * parts_count
    assert peak < 4_000_000  # all arguments need 3 MB, twice that to join them


@given(
    parts=st.lists(st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(0, 3)), max_size=8), max_size=6),
    most=st.integers(1, 30),
)
def test_arguments_come_with_their_steps(parts: list[list[tuple[int, bool, int]]], most: int) -> None:
    """Each part has steps with a time, an effect or none, and a number of arguments."""
    first, expected, left = 0, [], []
    with pytest.MonkeyPatch.context() as patch, sorting.Sorter() as sorter:
        patch.setattr(sorting, "MAX_ROWS", most)
        for rows in parts:
            steps = Steps.blank(len(rows), first)
            steps.time[:], steps.step[:] = [row[0] for row in rows], [row[1] for row in rows]
            events = np.repeat(steps.event, [row[2] for row in rows])
            bits = np.arange(len(events)).astype(np.uint64)
            codes = np.zeros(len(events), np.int32)
            is_taken = sorter.add(steps, {"event": events, "name": codes, "type": codes, "bits": bits, "text": codes})
            left += events[~is_taken].tolist()
            for number, (time, has_effect, count) in enumerate(rows):
                expected += [(time, first + number)] * count if has_effect else []
            first += len(rows)
        windows = list(sorter.windows())
    args = [event for window in windows for event in window.args["event"].tolist()]
    assert args == [event for _, event in sorted(expected, key=lambda row: row[0])]
    assert not {event for _, event in expected} & {*left}
    assert len(args) + len(left) == sum(count for rows in parts for _, _, count in rows)
    for window in windows:
        assert {*window.args["event"].tolist()} <= {*window.steps.event.tolist()}
        assert (np.diff(window.steps.time) >= 0).all()
