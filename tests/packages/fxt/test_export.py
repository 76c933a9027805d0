"""FXT written from timelines: the round trip gives the same timeline; tables that overflow; text; the scheduler."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fxtio
import judges
from fxtio import open_timeline
from fxtio.cli import main
from fxtio.fxt import FxtTrace, Koid, Pointer
from fxtio.fxt.export import OTHER_ARGUMENTS
from fxtio.fxt.records import DurationComplete
from judges import perfetto
from support.conversion import TrackEvents, export, perfetto_view, track_events

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 64) - 1), st.floats(allow_nan=False), st.text(max_size=5),
    st.builds(Koid, st.integers(0, 100)), st.builds(Pointer, st.integers(0, 1 << 40)),
)  # fmt: skip
NAMES = st.sampled_from(["a", "b", "c", "é", ""])
ARGS = st.dictionaries(NAMES, VALUES, max_size=3)
TIMES = st.integers(0, 12)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["complete", "begin", "end", "instant", "flow_begin", "flow_step", "flow_end", "async_begin",
                         "async_instant", "async_end", "counter"]),
        st.integers(0, 2), NAMES, TIMES, TIMES, st.sampled_from(["", "x"]), ARGS,
    ),
    max_size=25,
)  # fmt: skip


def written(events: list[tuple[Any, ...]]) -> bytes:
    """Return an FXT trace of events in the order of time."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        tracks = [writer.thread(1 + number // 2, 10 + number, f"thread {number}", "process") for number in range(3)]
        for kind, number, name, time, length, category, args in sorted(events, key=lambda event: event[3]):
            track = tracks[number]
            if kind == "complete":
                track.complete(name, time, time + length, category=category, args=args)
            elif kind == "counter":
                track.counter(name, time, {"value": length}, id=number, category=category)
            elif kind.startswith(("async", "flow")):
                getattr(track, kind)(name, time, 1 + length % 3, category=category, args=args)
            else:
                getattr(track, kind)(name, time, category=category, args=args)
        writer.thread(1, 10).instant("the end", 100)  # slices that are open last up to here
    return out.getvalue()


def round_trip(data: bytes, path: Path) -> tuple[TrackEvents, TrackEvents, Counter[str]]:
    """Return what is on the tracks of a trace, of the trace that is exported from its timeline, and what was lost."""
    with open_timeline(data) as timeline:
        losses = export(timeline, "fxt", path)
        before = track_events(timeline)
    with open_timeline(path) as timeline:
        return before, track_events(timeline), losses


@pytest.mark.full
@given(events=EVENTS)
def test_the_round_trip(tmp_path_factory: pytest.TempPathFactory, events: list[tuple[Any, ...]]) -> None:
    before, after, losses = round_trip(written(events), tmp_path_factory.mktemp("trip") / "out.fxt")
    assume(not any("end together" in loss or "not begun" in loss for loss in losses))  # these change the slices
    assert after == before


SERIES = st.dictionaries(
    st.sampled_from(["", "a", "b", "c:d"]),
    st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False),
    max_size=3,
)
COUNTERS = st.lists(st.tuples(st.integers(0, 2), NAMES | st.just("e:f"), TIMES, st.integers(0, 2), SERIES), max_size=12)
LOGS = st.lists(st.tuples(st.integers(0, 2), TIMES, st.text(st.characters(exclude_categories=["Cs"]))), max_size=6)


@given(counters=COUNTERS, logs=LOGS, wall_clock=st.none() | st.integers(0, 2**63 - 1))
def test_the_round_trip_of_counters_and_logs(
    tmp_path_factory: pytest.TempPathFactory,
    counters: list[tuple[int, str, int, int, dict[str, float]]],
    logs: list[tuple[int, int, str]],
    wall_clock: int | None,
) -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt", wall_clock=wall_clock) as writer:
        tracks = [writer.thread(1 + number // 2, 10 + number, f"thread {number}", "process") for number in range(3)]
        for number, name, time, counter_id, values in counters:
            tracks[number].counter(name, time, values, id=counter_id)
        for number, time, message in logs:
            tracks[number].log(message, time)
    path = tmp_path_factory.mktemp("trip") / "out.fxt"
    before, after, losses = round_trip(out.getvalue(), path)
    assert after == before
    assert not losses
    assert before.counters.total() == sum(len(values) for *_, values in counters)
    seen = []
    for trace in (out.getvalue(), path):
        with open_timeline(trace) as timeline:
            tables = timeline.tables("logs", "threads")
            tids = tables["threads"]["tid"]
            rows = [(row["time"], int(tids[row["thread"]]), row["message"]) for row in tables["logs"].rows()]
            seen.append((Counter(rows), timeline.wall_clock))
    assert seen[0] == seen[1] == (Counter((time, 10 + number, text) for number, time, text in logs), wall_clock)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["names", "texts", "threads", "async"])
def test_more_than_the_tables_hold(kind: str, tmp_path: Path) -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        for number in range(40_000 if kind != "threads" else 2_000):
            track = writer.thread(1, 100 + number if kind == "threads" else 2)
            name = f"name {number}" if kind == "names" else "name"
            if kind == "async":
                track.async_begin(name, 10 * number, number + 1)
                track.async_end(name, 10 * number + 5, number + 1)
            else:
                args = {"text": f"text {number}"} if kind == "texts" else {}
                track.complete(name, 10 * number, 10 * number + 5, args=args)
    before, after, losses = round_trip(out.getvalue(), tmp_path / "out.fxt")
    assert after == before
    assert not losses


def imported(events: list[dict[str, Any]], path: Path) -> Counter[str]:
    """Export events of trace event JSON as FXT; return what was lost."""
    with open_timeline(json.dumps(events).encode(), format="chrome") as timeline:
        return export(timeline, "fxt", path)


def test_what_fxt_cannot_express(tmp_path: Path) -> None:
    args = {f"key {number}": number for number in range(20)}
    events: list[dict[str, Any]] = [
        {"ph": "X", "name": "x" * 40_000, "ts": 1, "dur": 1, "pid": -5, "tid": 1, "args": args},
        {"ph": "X", "name": "\ud800 lone", "ts": 2, "dur": 1, "pid": 5, "tid": 1},
    ]
    assert imported(events, tmp_path / "out.fxt") == {
        "names and texts over 32,000 bytes, which are cut": 1,
        "arguments beyond 14 of events that have more, which are JSON in one argument now": 6,
        "negative numbers of processes and threads, which FXT takes for large ones": 1,
    }
    with FxtTrace(tmp_path / "out.fxt") as trace:
        table = trace.table("events")
        assert not trace.findings
    assert sorted(len(name) for name in table["name"].tolist()) == [6, 32_000]
    assert max(table["process"].tolist()) == 2**64 - 5


def test_arguments_that_have_no_room_are_json(tmp_path: Path) -> None:
    numbers: dict[str, Any] = {f"key {number}": number for number in range(15)}
    many = numbers | {"é": "é\udc80", "nan": float("nan"), "long": "x" * 40_000, "list": [1, {"a": None}]}
    events = [
        {"ph": "X", "name": name, "ts": at, "dur": 1, "pid": 5, "tid": 1, "args": args}
        for at, (name, args) in enumerate([("few", numbers), ("many", many), ("none", {}), ("more", many)])
    ]
    assert imported(events, tmp_path / "out.fxt") == {
        "arguments beyond 14 of events that have more, which are JSON in one argument now": 10,
        "arguments of such events that make this JSON longer than 32,000 bytes": 2,
    }
    with FxtTrace(tmp_path / "out.fxt") as trace:
        slices: list[Any] = [record for record in trace if isinstance(record, DurationComplete)]
        assert not trace.findings
    arguments = {each.name: {argument.name: argument.value for argument in each.args} for each in slices}
    assert arguments["few"] == numbers
    assert arguments["none"] == {}
    assert [*arguments["many"]] == [*arguments["more"]] == [*[*numbers][:14], OTHER_ARGUMENTS]
    rest = {"key 14": 14, "é": "é\udc80", "nan": "nan", "list.0": 1, "list.1.a": None}
    assert json.loads(arguments["many"][OTHER_ARGUMENTS]) == rest


@pytest.mark.full
@pytest.mark.once
def test_operations_with_one_id_stay_apart(tmp_path: Path) -> None:
    judges.require(perfetto.available())
    events = [
        {"ph": phase, "name": name, "cat": name, "id": 7, "ts": time, "pid": 1, "tid": 1}
        for name in ("net", "disk")
        for phase, time in (("b", 1), ("e", 5))
    ]
    assert imported(events, tmp_path / "out.fxt") == {}
    view = perfetto_view(tmp_path / "out.fxt")
    assert sorted(row[:4] for row in view.asyncs) == [(1000, 4000, 0, "disk"), (1000, 4000, 0, "net")]


@pytest.mark.full
@pytest.mark.once
def test_the_scheduler_in_perfetto(tmp_path: Path) -> None:
    judges.require(perfetto.available())
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        provider = writer.main
        for tid in (10, 11, 12):
            writer.thread(1, tid, f"thread {tid}", "process")
        provider.context_switch(100, 0, 10, 11, 3, {"incoming_weight": 7})
        provider.thread_wakeup(120, 0, 12, {"waker": Koid(11)})
        provider.context_switch(150, 0, 11, 0, 2, {"outgoing_weight": 7, "incoming_weight": -(1 << 31)})
        provider.context_switch(170, 0, 0, 12, 1, {"outgoing_weight": -(1 << 31), "incoming_weight": 5})
        provider.context_switch(110, 1, 10, 10, 0, {"incoming_weight": 3})
        provider.context_switch(180, 0, 12, 10, 5, {"outgoing_weight": 5, "incoming_weight": 3})
        writer.thread(1, 10).log("a message", 130)
    with open_timeline(out.getvalue()) as timeline:
        assert export(timeline, "fxt", tmp_path / "out.fxt") == {}
    seen = []
    for trace in (out.getvalue(), tmp_path / "out.fxt"):
        with perfetto.load(trace) as p:
            assert p.errors() == {}
            rows = [(s.ts, s.dur, s.cpu, s.tid, s.pid, s.end_state, s.priority) for s in p.sched()]
            wakes = [(each.ts, each.tid, each.waker_tid) for each in p.thread_states() if each.state == "W"]
            seen.append((rows, wakes))
    assert seen[0] == seen[1]
    with FxtTrace(tmp_path / "out.fxt") as trace:
        assert trace.table("logs")["message"].tolist() == ["a message"]


@pytest.mark.full
@pytest.mark.once
@pytest.mark.parametrize(
    ("format", "shape"),
    [
        ("uftrace", "calls"),
        ("uftrace", "spans"),
        ("uftrace", "program"),
        ("mono", "program"),
        ("coreprofiler", "memory"),
    ],
)
def test_other_formats_in_perfetto(format: str, shape: str, tmp_path: Path) -> None:
    judges.require(perfetto.available())
    source = tmp_path / "source"
    assert main(["synth", shape, "--format", format, "-o", str(source), "--events", "5k"]) == 0
    with open_timeline(source) as timeline:
        losses = export(timeline, "fxt", tmp_path / "out.fxt")
        assert all(
            any(word in loss for word in ("allocations", "weights", "end after", "not begun")) for loss in losses
        )
        tables = timeline.tables("slices", "instants", "tracks", "threads", "counters", "collections", "samples")
        names = set(tables["threads"]["name"].tolist())
    view = perfetto_view(tmp_path / "out.fxt")
    slices, tracks, threads = tables["slices"], tables["tracks"], tables["threads"]
    expected = Counter(
        (row["start"], row["duration"] if row["state"] == "closed" else None, row["depth"], row["name"],
         int(threads["tid"][tracks["thread"][row["track"]]]))
        for row in slices.rows()
        if tracks["kind"][int(row["track"])] == "thread"
    )  # fmt: skip
    found = Counter[Any]()
    for row, number in view.slices.items():
        found[(*row[:4], row[7])] += number
        found[(row[0], None, *row[2:4], row[7])] += number  # of an open slice, Perfetto has no duration
    assert expected - found == Counter()
    assert {name for _, _, name in view.threads} >= {name for name in names if name}
    assert view.counters.total() == tables["counters"].num_rows
    seen = Counter((row[0], row[1]) for row in view.asyncs.elements() if row[3] in ("GC", "garbage collection"))
    seen.update((row[0], row[1]) for row in view.slices.elements() if row[3] in ("GC", "garbage collection"))
    assert format != "coreprofiler" or tables["collections"].num_rows
    assert seen >= Counter((row["start"], row["duration"]) for row in tables["collections"].rows())  # each once
    assert len(seen) == seen.total()
    assert tables["samples"].num_rows == 0 or view.asyncs.total() > 0
