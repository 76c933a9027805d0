"""The timeline of CoreProfiler traces: slices are the stacks of samples, and the tables are those of the format."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import fxtio
from fxtio import synth
from fxtio.formats import by_name
from fxtio.timeline import Timeline
from support.checkout import CORPUS

FILES = sorted((CORPUS / "coreprofiler").glob("*.log"))
GIVEN = CORPUS / "coreprofiler" / "given-specification.log"


@pytest.fixture(
    params=[*(shape for shape in synth.shapes_of(by_name("coreprofiler")) if shape != "everything"), *FILES],
    ids=lambda item: item if isinstance(item, str) else item.name,
)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if isinstance(request.param, Path):
        return request.param
    target = tmp_path / "t.log"
    synth.write(target, request.param, format="coreprofiler", events=3000, threads=3, seed=5)
    return target


def stack_names(tables: dict[str, Any], stack: int) -> list[str]:
    """Return the names of the functions of a stack, the outermost first."""
    names: list[str] = []
    while stack >= 0:
        names.insert(0, tables["frames"]["name"][int(tables["stacks"]["frame"][stack])])
        stack = int(tables["stacks"]["parent"][stack])
    return names


def names_of(trace: Any) -> dict[int | None, str]:
    names: dict[int | None, str] = {}
    for table in ("function_names_old", "function_names"):
        rows = trace.table(table)
        names |= dict(zip(rows["function_iid"].tolist(), rows["name"], strict=True))
    return names


def named(names: dict[int | None, str], iid: int | None) -> str:
    return "<unknown>" if iid is None else names.get(iid, f"<function {iid}>")


@pytest.mark.full
def test_slices_at_a_sample_are_its_stack(path: Path) -> None:
    """The last sample of several at the same time is what remains."""
    with fxtio.open(path, format="coreprofiler") as trace:
        names, expected = names_of(trace), {}
        for sample in trace.samples():
            thread = -1 if sample.thread is None else sample.thread
            expected[thread, sample.time] = [named(names, frame.function_iid) for frame in sample.stack]
    with fxtio.open_timeline(path, format="coreprofiler") as timeline:
        tables = timeline.tables("slices", "tracks", "threads")
    kinds = tables["tracks"]["kind"].tolist()
    slices = [row for row in tables["slices"].rows() if kinds[row["track"]] == "thread"]
    last = {thread: max(time for other, time in expected if other == thread) for thread, _ in expected}
    threads = tables["threads"]["tid"][tables["tracks"]["thread"]].tolist()
    actual: dict[Any, list[str]] = {place: [] for place in expected}
    for row in sorted(slices, key=lambda row: row["depth"]):
        thread = threads[row["track"]]
        for place, names_at in actual.items():
            end = row["start"] + row["duration"]
            is_open = row["state"] == "open" and place[1] == last[thread] == end
            if place[0] == thread and (row["start"] <= place[1] < end or is_open):
                names_at.append(row["name"])
    assert actual == expected
    assert len(expected) > 100 or path in FILES


def test_samples_and_allocations_have_their_stacks(path: Path) -> None:
    with fxtio.open(path, format="coreprofiler") as trace:
        names = names_of(trace)
        samples = [*trace.samples()]
        classes = {row["class_iid"]: row["name"] for row in trace.table("class_names").rows()}
        config = {row["name"]: row["value"] for row in trace.table("config").rows()}
    tick = int(config["SamplingTimeoutMs"]) * 1_000_000 if config.get("CollectionMethod") == "Sampling" and (
        "SamplingTimeoutMs" in config
    ) else 1  # fmt: skip
    with fxtio.open_timeline(path, format="coreprofiler") as timeline:
        tables = timeline.tables("samples", "allocations", "stacks", "frames")
        losses = timeline.losses
    expected = Counter[Any]()
    paused = 0
    for sample in samples:
        stack = tuple(named(names, frame.function_iid) for frame in sample.stack)
        if sample.ticks:
            paused += sample.paused
            expected["sample", sample.time, stack, sample.ticks * tick] += not sample.paused
        for item in sample.allocated:
            expected[sample.time, stack, classes.get(item.class_iid or 0), item.count, item.size] += 1
    actual = Counter[Any]()
    for row in tables["samples"].rows():
        assert row["unit"] == ("samples" if tick == 1 else "ns")
        actual["sample", row["time"], tuple(stack_names(tables, row["stack"])), row["count"]] += 1
    for row in tables["allocations"].rows():
        actual[row["time"], tuple(stack_names(tables, row["stack"])), row["type"], row["count"], row["size"]] += 1
    assert actual == +expected
    assert losses["samples while the profiler was paused"] == paused


def test_spans_are_those_of_the_summary(path: Path) -> None:
    with fxtio.open(path, format="coreprofiler") as trace:
        intervals = trace.info.timeline.as_json()
    with fxtio.open_timeline(path, format="coreprofiler") as timeline:
        tables = timeline.tables("slices", "tracks", "collections")
    slices, kinds = tables["slices"], {"GC": "gc", "JIT": "jit", "JIT search": "search", None: "pause"}
    tracks = [*tables["tracks"].rows()]
    actual: dict[str, dict[str, int]] = {}
    for row in slices.rows():
        track = tracks[row["track"]]
        if track["kind"] in ("async", "process") and row["state"] != "open":
            sums = actual.setdefault(kinds[track["name"]], {"count": 0, "duration": 0})
            sums["count"] += 1
            sums["duration"] += row["duration"]
    assert actual == intervals
    durations = tables["collections"]["duration"].tolist()
    assert {"count": len(durations), "duration": sum(durations)} == intervals.get("gc", {"count": 0, "duration": 0})


def test_the_example_of_the_specification() -> None:
    with fxtio.open_timeline(GIVEN) as timeline:
        tables = timeline.tables("slices", "threads", "processes", "collections", "counters", "tracks", "args")
        assert timeline.losses.total() == 0
    rows = [
        (row["start"] // 10**6, row["duration"] // 10**6, row["depth"], row["name"]) for row in tables["slices"].rows()
    ]
    method, other = "Synthetic.Class<T, U>::Method<V>", "Synthetic.Class<T, U>::Other"
    assert rows == [
        (5, 1, 0, method), (6, 1, 0, other),  # compiled, and found in the cache
        (10, 30, 0, method), (10, 20, 1, other), (30, 10, 1, other), (30, 10, 2, "<JIT>"), (50, 0, 0, method),
        (55, 5, 0, "profiler paused"), (61, 2, 0, "GC"),
    ]  # fmt: skip
    assert tables["slices"]["category"][2] == "Synthetic.Class<T, U>"
    assert [*tables["threads"].rows()] == [{"tid": 0, "process": 0, "name": "OS thread 1000"}]
    assert tables["processes"]["pid"].tolist() == [0x77]
    assert tables["collections"]["generation"].tolist() == [0]
    assert tables["counters"]["value"].tolist() == [9000.0, 8000.0]
    assert dict(zip(tables["args"]["name"], tables["args"]["text"], strict=True)) == {
        "reason": "induced", "generations": "tfff",
    }  # fmt: skip


def timeline_of(text: str) -> Timeline:
    return fxtio.open_timeline(text.encode(), format="coreprofiler")


def test_threads_of_the_operating_system_are_managed_threads() -> None:
    text = "thr aos 0x00000000 1000\njit cms 1000 5 0x1000\njit cmf 1000 7 0x1000 0x00000000\njit cms 2000 8 0x1000\n"
    with timeline_of(f"prf stm 2018-04-10 12:00:00.123\n{text}") as timeline:
        tables = timeline.tables("threads", "slices", "tracks")
    assert [(row["tid"], row["name"]) for row in tables["threads"].rows()] == [
        (0, "OS thread 1000"), (2000, "OS thread 2000"),
    ]  # fmt: skip
    assert [(row["duration"], row["state"]) for row in tables["slices"].rows()] == [(2_000_000, "closed"), (0, "open")]


def test_samples_that_go_back_are_moved() -> None:
    text = "sam str 0x00000000 10 1 0:0 0x2\nsam str 0x00000000 5 1 1:1 0x3\nsam str 0x00000000 20 1 0:2\n"
    with timeline_of(f"prf stm 2018-04-10 12:00:00.123\n{text}") as timeline:
        slices = timeline.table("slices")
        assert timeline.losses == {"samples earlier than the one before, which are moved to it": 1}
    assert slices["start"].tolist() == [10_000_000, 10_000_000]
    assert slices["duration"].tolist() == [10_000_000, 10_000_000]
    assert slices["depth"].tolist() == [0, 1]


@pytest.mark.full
def test_the_whole_trace_and_its_batches_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fxtio.coreprofiler import frames

    path = tmp_path / "t.log"
    synth.write(path, "mixed", format="coreprofiler", events=3000, threads=3, seed=5)
    results = []
    for block in (frames.BLOCK, 4096):
        monkeypatch.setattr(frames, "BLOCK", block)
        with fxtio.open_timeline(path) as timeline:
            tables = timeline.tables("slices", "samples", "stacks", "frames", "collections", "counters", "tracks")
        stacks = [stack_names(tables, stack) for stack in tables["samples"]["stack"].tolist()]
        samples = Counter((row["time"], *stack) for row, stack in zip(tables["samples"].rows(), stacks, strict=True))
        labels = tables["tracks"]["name"].tolist()
        counters = Counter((row["time"], row["value"], labels[row["track"]]) for row in tables["counters"].rows())
        columns = ("start", "duration", "self_time", "depth", "name", "state", "event", "end_event")
        slices = Counter(tuple(row[column] for column in columns) for row in tables["slices"].rows())
        results.append((samples, counters, slices, [*tables["collections"].rows()]))
    assert results[0] == results[1]
