"""The timeline of Mono recordings: what the tables of the format say, and the sums that mprof-report prints."""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fxtio
from fxtio import synth
from fxtio.formats import by_name
from fxtio.mono import records as r
from fxtio.mono.enums import GcEventType, MethodAction
from fxtio.mono.writer import MonoWriter
from fxtio.table import Table
from fxtio.timeline import Timeline
from fxtio.timeline.answers import top
from judges import mono
from support.mono_samples import FILES, HAS_MONO, compiled, recorded

_OTHERS = ("gc", "monitor")

needs_mono = pytest.mark.skipif(not HAS_MONO and not mono.REQUIRED, reason="needs Debian's mono packages")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mono")


@functools.cache
def program(folder: Path) -> Path:
    return compiled(folder)


def rows_of(table: Any, *columns: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[column] for column in columns) for row in table.rows())


def calls_one_by_one(calls: Table) -> Counter[tuple[Any, ...]]:
    """Return start, duration, depth, state and name of calls; without the duration of those without an exit."""
    result = Counter[tuple[Any, ...]]()
    stacks = defaultdict[int, list[tuple[int, int, str]]](list)

    def add(stack: list[tuple[int, int, str]], end: int | None, state: str) -> None:
        start, _, name = stack.pop()
        result[start, None if end is None else end - start, len(stack), state, name] += 1

    columns = ("thread", "time", "action", "method", "method_name")
    for thread, time, action, method, name in zip(*(calls[each].tolist() for each in columns), strict=True):
        stack = stacks[thread]
        if action == "enter":
            stack.append((time, method, f"<{method:x}>" if name is None else name))
        elif any(method == entered for _, entered, _ in stack):
            while stack[-1][1] != method:
                add(stack, None, "open")
            add(stack, time, "closed" if action == "leave" else "thrown")
    for stack in stacks.values():
        while stack:
            add(stack, None, "open")
    return result


def check_tables(path: Path) -> None:
    """Check that slices, collections, allocations and samples are those of the tables of the format."""
    with fxtio.open(path, format="mono") as trace, fxtio.open_timeline(path, format="mono") as timeline:
        tables = timeline.tables("slices", "collections", "allocations", "samples", "stacks", "frames", "counters")
        slices = tables["slices"]
        calls = Counter(
            (start, None if state == "open" else duration, depth, state, name)
            for start, duration, depth, state, name in rows_of(
                slices.take(~slices["category"].is_in(*_OTHERS)), "start", "duration", "depth", "state", "name"
            ).elements()
        )
        depths = any(count for count in calls.values() if slices["category"].is_in(*_OTHERS).any())
        expected = calls_one_by_one(trace.table("calls"))
        if depths:  # calls within a finalizer or a pause are deeper by it
            calls, expected = (Counter((*row[:2], *row[3:]) for row in each.elements()) for each in (calls, expected))
        assert calls == expected
        for name, table in (("GC pause", "gc_pauses"), ("monitor wait", "contentions")):
            actual = slices.take(slices["name"].is_in(name) & ~slices["state"].is_in("open"))
            assert rows_of(actual, "start", "duration") == rows_of(trace.table(table), "start", "duration")
        allocations = trace.table("allocations")
        assert Counter(tables["allocations"]["size"].tolist()) == Counter(allocations["size"].tolist())
        assert Counter(tables["allocations"]["type"]) == Counter(allocations["class_name"])
        assert tables["samples"].num_rows == trace.table("samples").num_rows
        numbers = trace.table("counter_series")["number"]
        heap_sizes = trace.table("gc_resizes").num_rows
        assert tables["counters"].num_rows == int(numbers.present.sum()) + heap_sizes


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_recordings_of_the_corpus(path: Path) -> None:
    check_tables(path)


@pytest.mark.parametrize("shape", synth.shapes_of(by_name("mono")))
def test_synthetic_recordings(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "t.mlpd"
    synth.write(path, shape, events=5000, threads=3, seed=2)
    check_tables(path)


@pytest.mark.full
@needs_mono
@pytest.mark.once
@pytest.mark.parametrize("options", ["calls", "alloc", "gc,gcalloc,finalization", "monitor", "exception"])
def test_new_recordings(options: str, folder: Path) -> None:
    check_tables(recorded(program(folder), f"nodefaults,{options}", folder / "new.mlpd", "0"))


@pytest.mark.full
@needs_mono
@pytest.mark.once
def test_calls_are_counted_as_by_mprof_report(folder: Path) -> None:
    path = recorded(program(folder), "nodefaults,calls", folder / "calls.mlpd", "0")
    text = mono.report(path, "--reports=call")
    rows = re.findall(r"^ +(\d+) +\d+ +(\d+) (.+)$", text, re.MULTILINE)
    theirs = {name: (int(ms), int(calls)) for ms, calls, name in rows if name.startswith("Program:")}
    with fxtio.open_timeline(path) as timeline:
        slices = timeline.table("slices")
    ours = Counter(slices["name"])
    assert {name: ours[name] for name in theirs} == {name: calls for name, (_, calls) in theirs.items()}
    assert f"Total calls: {slices.num_rows}\n" in text
    main = "Program:Main (string[])"
    assert int(slices["duration"][slices["name"].is_in(main)].sum()) // 1_000_000 == theirs[main][0]


@pytest.mark.full
@needs_mono
@pytest.mark.once
def test_allocations_and_collections_are_counted_as_by_mprof_report(folder: Path) -> None:
    path = recorded(program(folder), "nodefaults,gc,gcalloc", folder / "alloc.mlpd", "0")
    text = mono.report(path, "--reports=alloc,gc")
    rows = re.findall(r"^ +(\d+) +(\d+) +\d+ (.+)$", text, re.MULTILINE)
    theirs = {name: (int(size), int(count)) for size, count, name in rows if not name.startswith("unresolved")}
    with fxtio.open_timeline(path) as timeline:
        tables = timeline.tables("allocations", "collections", "counters")
    sizes: Counter[str | None] = Counter()
    for name, size in zip(tables["allocations"]["type"], tables["allocations"]["size"].tolist(), strict=True):
        sizes[name] += size
    counts = Counter(tables["allocations"]["type"])
    assert len(theirs) > 10
    assert {name: (sizes[name], counts[name]) for name in theirs} == theirs
    collections = re.findall(r"Gen(\d) collections: (\d+), max time: (\d+)us", text)
    assert collections
    for generation, count, longest in collections:
        of_generation = tables["collections"]["generation"] == int(generation)
        assert int(of_generation.sum()) == int(count)
        assert tables["collections"]["duration"][of_generation].max() // 1000 == int(longest)
    assert f"Max heap size: {int(tables['counters']['value'].max())}\n" in text


@pytest.mark.full
@needs_mono
@pytest.mark.once
def test_samples_are_counted_as_by_mprof_report(folder: Path) -> None:
    path = recorded(program(folder), "nodefaults,sample=1000", folder / "sample.mlpd", "150")
    text = mono.report(path, "--reports=sample")
    with fxtio.open_timeline(path) as timeline:
        tables = timeline.tables("samples", "stacks", "frames")
    frames = tables["frames"].take(tables["stacks"]["frame"][tables["samples"]["stack"]])
    is_managed = frames["module"].codes >= 0
    managed, unmanaged = (re.search(rf"\b{kind} hits: +(\d+)", text) for kind in ("Managed", "Unmanaged"))
    assert managed
    assert unmanaged
    assert (int(is_managed.sum()), int((~is_managed).sum())) == (int(managed[1]), int(unmanaged[1]))
    hits = {name: int(count) for count, name in re.findall(r"^\s+(\d+) +[\d.]+ (.+)$", text, re.MULTILINE)}
    ours = Counter(name for name in frames["name"].take(is_managed) if name and name.startswith("Program:"))
    assert ours["Program:Fib (int)"] > 0
    assert ours == {name: count for name, count in hits.items() if name.startswith("Program:")}


# ---- by hand


def written(path: Path, events: Sequence[tuple[int, Sequence[r.Event]]]) -> Timeline:
    """Write buffers of threads and open the timeline."""
    with MonoWriter(path) as writer:
        for thread, records in events:
            for record in records:
                writer.put(record, thread=thread)
    return fxtio.open_timeline(path)


def call(time: int, action: MethodAction, method: int) -> r.Call:
    return r.Call(time=time, action=action, method=method)


ENTER, LEAVE, THROWN = MethodAction.ENTER, MethodAction.LEAVE, MethodAction.EXCEPTIONAL_LEAVE


def test_an_exit_ends_the_calls_within_its_own(tmp_path: Path) -> None:
    calls = [
        call(10, ENTER, 1), call(20, ENTER, 2), call(30, ENTER, 3), call(40, LEAVE, 1), call(50, ENTER, 2),
        call(60, THROWN, 2), call(70, LEAVE, 9), call(80, ENTER, 4), call(95, ENTER, 5),
    ]  # fmt: skip
    with written(tmp_path / "t.mlpd", [(1, calls), (2, [call(990, ENTER, 7), call(1000, LEAVE, 7)])]) as timeline:
        rows = [(row["name"], row["start"], row["duration"], row["depth"], row["state"])
                for row in timeline.table("slices").rows()]  # fmt: skip
        assert timeline.losses == {"ends of spans that have not begun": 1}
    assert rows == [
        ("<1>", 10, 30, 0, "closed"), ("<2>", 20, 20, 1, "open"), ("<3>", 30, 10, 2, "open"),
        ("<2>", 50, 10, 0, "thrown"), ("<4>", 80, 15, 0, "open"), ("<5>", 95, 0, 1, "open"),
        ("<7>", 990, 10, 0, "closed"),
    ]  # fmt: skip


def test_a_pause_is_within_the_call_that_it_stops(tmp_path: Path) -> None:
    stops = (GcEventType.PRE_STOP_WORLD, GcEventType.START, GcEventType.END, GcEventType.POST_START_WORLD)
    pause = [r.GcEvent(time=20 + 10 * place, event=event, generation=1) for place, event in enumerate(stops)]
    with written(tmp_path / "t.mlpd", [(1, [call(10, ENTER, 1), *pause, call(90, LEAVE, 1)])]) as timeline:
        tables = timeline.tables("slices", "collections", "threads")
    slices = tables["slices"]
    assert slices["name"].tolist() == ["<1>", "GC pause", "garbage collection"]
    assert slices["depth"].tolist() == [0, 1, 2]
    assert slices["self_time"].tolist() == [50, 20, 10]
    collection = {"start": 30, "duration": 10, "thread": 0, "generation": 1, "event": slices["event"][2]}
    assert [*tables["collections"].rows()] == [collection]


def test_names_and_classes_may_come_behind_their_use(tmp_path: Path) -> None:
    records = [
        call(10, ENTER, 64),
        r.JitMethod(time=15, method=64, code=4096, size=16, name="Some.Class:Run (int)"),
        r.Thread(time=16, action=0, id=1, name="worker"),
        call(20, LEAVE, 64),
    ]
    with written(tmp_path / "t.mlpd", [(1, records)]) as timeline:
        tables = timeline.tables("slices", "threads", "instants", "args")
    assert [(row["name"], row["category"]) for row in tables["slices"].rows()] == [
        ("Some.Class:Run (int)", "Some.Class")
    ]
    assert tables["threads"]["name"].tolist() == ["worker"]
    [jit] = tables["instants"].rows()
    args = {row["name"]: row["text"] or row["bits"] for row in tables["args"].rows() if row["event"] == jit["event"]}
    assert args == {"method": "Some.Class:Run (int)", "code": 4096, "size": 16}


def test_native_code_that_a_sample_interrupts_is_the_innermost_frame(tmp_path: Path) -> None:
    records = [
        r.JitMethod(time=1, method=64, code=4096, size=16, name="C:Run ()"),
        r.NativeSymbol(time=2, address=9000, size=0, name="memcpy"),
        r.SampleHit(time=10, interrupted=5, addresses=(9004,), frames=(64,)),
        r.SampleHit(time=20, interrupted=5, addresses=(4100,), frames=(64,)),
        r.SampleHit(time=30, interrupted=5, addresses=(9010,), frames=()),
        r.SampleHit(time=40, interrupted=6, addresses=(77,), frames=()),
    ]
    with written(tmp_path / "t.mlpd", [(1, records)]) as timeline:
        tables = timeline.tables("samples", "stacks", "frames", "threads")
    names, parents = tables["frames"]["name"].take(tables["stacks"]["frame"]), tables["stacks"]["parent"].tolist()
    texts = [name if parents[row] < 0 else f"{names[parents[row]]};{name}" for row, name in enumerate(names)]
    assert [texts[stack] for stack in tables["samples"]["stack"]] == ["C:Run ();memcpy", "C:Run ()", "memcpy", "<4d>"]
    assert tables["threads"]["tid"][tables["samples"]["thread"]].tolist() == [5, 5, 5, 6]


def _named_by_symbols(path: Path) -> dict[str, int]:
    """Return how many of some samples have the name of each symbol; the others have none."""
    symbols = [(0x10000, 0, "low"), (0x20000, 0, "mid"), (0x20800, 0, "next"), (0x30000, 16, "sized")]
    addresses = [0xFFFF, 0x10000, 0x10FFF, 0x11000, 0x1FFFF, 0x207FF, 0x20800, 0x217FF, 0x21800, 0x3000F, 2**64 - 1]
    records: list[r.Event] = [r.NativeSymbol(time=2, address=at, size=size, name=name) for at, size, name in symbols]
    records += [r.SampleHit(time=10, interrupted=5, addresses=(at,), frames=()) for at in addresses]
    with written(path, [(1, records)]) as timeline:
        names = [row["name"] for row in top(timeline).table.rows() for _ in range(row["self"])]
    return Counter(name for name in names if not name.startswith("<"))


def test_a_native_symbol_does_not_reach_far(tmp_path: Path) -> None:
    """An address beyond the next symbol, or 4,096 bytes after one without a size, has no name."""
    assert _named_by_symbols(tmp_path / "t.mlpd") == {"low": 2, "mid": 1, "next": 2, "sized": 1}


@pytest.mark.skipif(mono.PROGRAM is None and not mono.REQUIRED, reason="needs mprof-report")
@pytest.mark.full
def test_mprof_report_names_the_same_samples(tmp_path: Path) -> None:
    counts = _named_by_symbols(tmp_path / "t.mlpd")
    text = mono.report(tmp_path / "t.mlpd", "--reports=sample")
    assert {name: int(hits) for hits, name in re.findall(r"^\s+(\d+) +[\d.]+ (\w+)$", text, re.MULTILINE)} == counts


def test_each_of_joined_recordings_is_a_process(tmp_path: Path) -> None:
    from fxtio.mono.headers import StreamHeader

    raws = []
    for pid in (7, 8):
        with MonoWriter(tmp_path / f"{pid}.mlpd", header=StreamHeader(pid=pid)) as writer:
            for record in (call(10, ENTER, 1), call(20 + pid, LEAVE, 1)):
                writer.put(record, thread=3)
        raws.append((tmp_path / f"{pid}.mlpd").read_bytes())
    (tmp_path / "both.mlpd").write_bytes(b"".join(raws))
    with fxtio.open_timeline(tmp_path / "both.mlpd") as timeline:
        tables = timeline.tables("processes", "threads", "slices")
    assert tables["processes"]["pid"].tolist() == [7, 8]
    assert tables["threads"]["tid"].tolist() == [3, 3]
    assert tables["slices"]["duration"].tolist() == [17, 18]
    assert len(np.unique(tables["slices"]["track"])) == 2
