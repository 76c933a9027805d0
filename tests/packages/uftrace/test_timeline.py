"""The timeline of data directories: the calls of the records, and the totals that uftrace prints.

`expected/*.report.csv` in the corpus is the output of the newest uftrace, to the nanosecond.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio import synth
from fxtio.formats import by_name
from fxtio.timeline import Timeline
from fxtio.timeline.answers import top
from fxtio.uftrace import pairing
from fxtio.uftrace.demangle import available
from fxtio.uftrace.pairing import NO_EXIT
from fxtio.uftrace.perf import PerfEvent
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import FunctionExit
from fxtio.uftrace.task_writer import TaskWriter
from fxtio.uftrace.writer import UftraceWriter
from support.limits import processor_seconds
from support.uftrace_judge import VIEWS, needs_uftrace, run
from support.uftrace_samples import SAMPLES, UFTRACE, NumberedCalls, expected, from_calls, plain, reference_flame

AS_UFTRACE = (
    "args-all-v013", "auto-args-cpp-v013", "callsite-v019", "cpp-v019", "dlopen-v013", "old-v014-args",
    "old-v08-dlopen", "synth-args", "synth-big-endian", "synth-events", "synth-extern",
)  # fmt: skip
WITH_SWITCHES = ("read-args-v013", "synth-perf", "thread-v019", "watch-cpu-v013")
"""The samples in which uftrace takes the time without a CPU from the functions' own time."""


def opened(name: str) -> Timeline:
    if name in ("auto-args-cpp-v013", "cpp-v019") and not available():
        pytest.skip("pydemumble is not installed")
    return fxtio.open_timeline(UFTRACE / name)


def calls(timeline: Timeline) -> Counter[tuple[Any, ...]]:
    """Return name, start, duration and state of the calls of programs; calls without an entry only by their ends."""
    tables = timeline.tables("slices", "tracks", "threads")
    tids = tables["threads"]["tid"][tables["tracks"]["thread"][tables["slices"]["track"]]].tolist()
    rows = Counter[tuple[Any, ...]]()
    for tid, row in zip(tids, tables["slices"].rows(), strict=True):
        if row["category"] != "kernel":
            start = row["start"] if row["event"] >= 0 else None
            rows[tid, row["name"], start, row["start"] + row["duration"], row["state"]] += 1
    return rows


def calls_of_records(path: Path) -> Counter[tuple[Any, ...]]:
    """Return the same of the records, paired without a timeline; open calls without their ends."""
    rows = Counter[tuple[Any, ...]]()
    with UftraceTrace(path) as trace:
        records, first = trace.table("records"), 0
        names, times = records["name"].tolist(), records["time"].tolist()
        for tid, chunks in groupby(trace.chunks_of(trace.begin()), key=lambda chunk: chunk.tid):
            numbered, left = NumberedCalls(first), list[int]()
            for chunk in chunks:
                if chunk.gap is not None:
                    numbered.skip()
                    continue
                before, ended = numbered.open, numbered.ended(chunk)
                closed = {*(entry for _, entry, _ in ended), *numbered.open}
                left += [entry for entry in [*before, *numbered.entered] if entry not in closed]  # at an exec
                for state, entry, by in ended:
                    of, start = (by, None) if entry < 0 else (entry, times[entry])
                    rows[tid, names[of], start, times[by], "open" if state == NO_EXIT else "closed"] += 1
                first += len(chunk)
            for entry in [*left, *numbered.open]:
                rows[tid, names[entry], times[entry], None, "open"] += 1
    return rows


def agree(ours: Counter[tuple[Any, ...]], records: Counter[tuple[Any, ...]]) -> bool:
    """Return whether calls are the same, but for the ends of those that are open at the end."""
    rest, missing = ours - records, records - ours
    return (
        all(row[4] == "open" for row in rest)
        and Counter({(*row[:3], None, row[4]): 0 for row in rest}).keys() == missing.keys()
        and rest.total() == missing.total()
    )


@pytest.mark.parametrize("name", SAMPLES)
def test_calls_are_those_of_the_records(name: str) -> None:
    assert agree(calls(opened(name)), calls_of_records(UFTRACE / name))


@pytest.mark.parametrize("shape", synth.shapes_of(by_name("uftrace")))
def test_calls_of_shapes_are_those_of_the_records(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "t.data"
    synth.write(path, shape, events=9000, threads=3, seed=3)
    actual = calls(fxtio.open_timeline(path))
    assert agree(actual, calls_of_records(path))
    assert actual.total() > 1000


def totals(timeline: Timeline) -> dict[str, tuple[int, int, int]]:
    """Return the number of calls, total time and self time of each function."""
    sums: dict[str, list[int]] = {}
    for row in timeline.table("slices").rows():
        values = sums.setdefault(row["name"], [0, 0, 0])
        for place, value in enumerate((1, row["duration"], row["self_time"])):
            values[place] += value
    return {name: (count, total, self_time) for name, (count, total, self_time) in sums.items()}


def totals_of_uftrace(name: str) -> dict[str, tuple[int, int, int]]:
    text = expected(name, "report.csv")
    assert text is not None
    rows = csv.DictReader(io.StringIO(text.decode().removeprefix("#")))
    columns = ("Calls", "Total time", "Self time")
    sums = {row["Function"]: tuple(int(row[column]) for column in columns) for row in rows}
    return {name: (a, b, c) for name, (a, b, c) in sums.items() if not name.startswith("linux:")}


@pytest.mark.parametrize("name", AS_UFTRACE)
def test_totals_are_those_of_uftrace(name: str) -> None:
    assert totals(opened(name)) == totals_of_uftrace(name)
    ranking = {row["name"]: (row["calls"], row["total"], row["self"]) for row in top(opened(name)).table.rows()}
    assert ranking == totals_of_uftrace(name)


@pytest.mark.parametrize("name", WITH_SWITCHES)
def test_totals_of_programs_that_wait_are_those_of_uftrace(name: str) -> None:
    ours, theirs = totals(opened(name)), totals_of_uftrace(name)
    assert {name: values[:2] for name, values in ours.items()} == {name: values[:2] for name, values in theirs.items()}
    waits = opened(name).table("scheduling")
    assert waits.num_rows
    if name == "synth-perf":
        return  # it does not say since when the thread ran that stops first
    text = expected(name, "report.csv")
    assert text is not None
    preempted = sum(map(int, re.findall(rb"^(\d+),.*pre-empted", text, re.MULTILINE)))
    busy = {row["name"]: row["self"] for row in top(opened(name)).table.rows()}
    assert sum(busy.values()) - preempted == sum(values[2] for values in theirs.values())
    assert sum(busy[name] != values[2] for name, values in theirs.items()) <= bool(preempted)
    assert {name for name, values in ours.items() if values[2] != theirs[name][2]} <= {
        "c", "main", "usleep", "pthread_join", "pthread_create",
    }  # fmt: skip


@pytest.mark.full
@needs_uftrace
@pytest.mark.parametrize("shape", ["calls", "spans"])
def test_totals_of_synthetic_traces_are_those_of_the_installed_uftrace(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "t.data"
    synth.write(path, shape, events=6000, threads=3, seed=1)
    report = run("report", path, "-f", "call").decode().splitlines()
    rows = [line.split(maxsplit=1) for line in report]
    counts = {row[1]: int(row[0]) for row in rows if len(row) == 2 and row[0].isdigit()}
    assert counts == {name: values[0] for name, values in totals(fxtio.open_timeline(path)).items()}


def paths(timeline: Timeline) -> Counter[str]:
    """Return the self time of each stack of functions."""
    result, names = Counter[str](), list[str]()
    for row in timeline.table("slices").rows():  # an outer slice comes first
        names.append(f"{names[row['parent']]};{row['name']}" if row["parent"] >= 0 else row["name"])
        result[names[-1]] += row["self_time"]
    return +result


@pytest.mark.parametrize("name", ["cpp-v019", "dlopen-v013", "old-v08-dlopen", "read-args-v013", "synth-args"])
def test_stacks_are_those_of_the_flame_graph_of_uftrace(name: str) -> None:
    text = expected(name, "flame.txt")
    assert text is not None
    assert paths(opened(name)) == +reference_flame(text)


@pytest.mark.full
@needs_uftrace
@pytest.mark.parametrize("shape", ["calls", "spans"])
def test_stacks_of_synthetic_traces_are_those_of_the_installed_uftrace(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "t.data"
    synth.write(path, shape, events=6000, threads=3, seed=1)
    theirs = +reference_flame(run("dump", path, *VIEWS["flame"]))
    assert paths(fxtio.open_timeline(path)) == theirs
    graph = run("graph", path).decode()
    assert all(name.rpartition(";")[2] in graph for name in theirs)


def test_an_exit_after_longjmp_is_a_call_since_the_last_record_of_its_depth() -> None:
    """As uftrace has it: the second exit of `_setjmp`, whose entry ended long ago."""
    ours, theirs = totals(opened("signal-longjmp-v013")), totals_of_uftrace("signal-longjmp-v013")
    assert ours["_setjmp"][:2] == theirs["_setjmp"][:2] == (2, 3195)
    assert {name: ours[name] for name in ("main", "tryjmp", "raise")} == {
        name: theirs[name] for name in ("main", "tryjmp", "raise")
    }


def test_a_forked_process_is_still_in_the_calls_that_it_began_in(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        parent = writer.task(10)
        parent.enter("main", 100)
        parent.enter("fork", 200)
        child = parent.fork(11, 250)
        parent.leave(300)
        child.leave(310)
        child.enter("work", 320)
        child.leave(350)
        child.leave(360)
        parent.leave(400)
    with fxtio.open_timeline(tmp_path / "t") as timeline:
        tables = timeline.tables("slices", "tracks", "threads", "processes", "instants")
    of_child = [row for row in tables["slices"].rows() if row["track"] != tables["slices"]["track"][0]]
    actual = [(row["name"], row["start"], row["duration"], row["depth"], row["event"] >= 0) for row in of_child]
    assert actual == [("main", 250, 110, 0, False), ("fork", 250, 60, 1, False), ("work", 320, 30, 1, True)]
    assert tables["processes"]["pid"].tolist() == [10, 11]
    kinds = tables["tracks"]["kind"].tolist()
    on_process = [row["name"] for row in tables["instants"].rows() if kinds[row["track"]] == "process"]
    assert sorted(on_process) == ["fork", "program"]


def open_calls(path: Path) -> list[tuple[str, int, int]]:
    """Return name, start and end of the calls without an exit, of the timeline and of the records alike."""
    timeline = fxtio.open_timeline(path)
    assert agree(calls(timeline), calls_of_records(path))
    rows = (row for row in timeline.table("slices").rows() if row["state"] == "open")
    return [(row["name"], row["start"], row["start"] + row["duration"]) for row in rows]


LAST_EVENTS: dict[str, Callable[[UftraceWriter, TaskWriter], None]] = {
    "sched": lambda writer, _: writer.sched(1, PerfEvent(1_076_900_000, 7, 7, "sched-in")),
    "exit": lambda writer, _: writer.sched(0, PerfEvent(1_076_900_000, 7, 7, "task-exit", parent=7, parent_pid=7)),
    "name": lambda writer, _: writer.sched(0, PerfEvent(1_076_900_000, 7, 7, "task-name", comm="worker")),
    "event": lambda _, task: task.event("game:tick", 1_076_900_000),
    "message": lambda writer, _: writer.message(1_076_900_000, "a message"),
}


@pytest.mark.full
@needs_uftrace
@pytest.mark.parametrize("kind", LAST_EVENTS)
def test_open_calls_last_until_the_last_event_of_their_task_as_in_uftrace(kind: str, tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        task = writer.task(7)
        task.enter("main", 1_000_000_000)
        task.enter("work", 1_000_100_000)
        task.leave(1_000_200_000)
        task.enter("wait", 1_001_000_000)
        writer.sched(0, PerfEvent(1_002_000_000, 7, 7, "sched-out"))
        LAST_EVENTS[kind](writer, task)
    end = 1_076_900_000
    assert open_calls(tmp_path / "t") == [("main", 1_000_000_000, end), ("wait", 1_001_000_000, end)]
    report = run("report", tmp_path / "t", "-f", "total").decode()
    assert re.findall(r"([0-9.]+ .s)  (main|wait)", report) == [("76.900 ms", "main"), ("75.900 ms", "wait")]


def test_events_of_other_tasks_do_not_lengthen_open_calls(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        for number in (1, 2):
            task = writer.task(number, 1)
            task.enter("main", 100 * number)
        writer.sched(0, PerfEvent(900, 1, 2, "sched-out"))
        writer.message(950, "of neither task")
    assert open_calls(tmp_path / "t") == [("main", 100, 100), ("main", 200, 900)]


@pytest.mark.parametrize("traced", [True, False])
def test_calls_end_at_exec(traced: bool, tmp_path: Path) -> None:
    """With scheduler events the time of exec is known, else the program that it runs begins a session."""
    for name, is_known in (("known", True), ("unknown", False)):
        with UftraceWriter(tmp_path / name) as writer:
            task = writer.task(7)
            task.enter("main", 100)
            task.enter("execv", 200)
            if is_known:
                writer.sched(0, PerfEvent(300, 7, 7, "exec", comm="other"))
            writer.sched(0, PerfEvent(350, 7, 7, "sched-out"))
            if traced:
                task.exec("/x/other", 400)
                task.enter("main", 500)
                task.enter("work", 600)
                task.leave(700)
                task.leave(800)
            writer.sched(0, PerfEvent(900, 7, 7, "task-exit", parent=7, parent_pid=7))
        end = 300 if is_known else 400 if traced else 900
        assert open_calls(tmp_path / name) == [("main", 100, end), ("execv", 200, end)]


@pytest.mark.parametrize("block", [1, 1 << 10])
def test_missing_entries_and_exits_over_several_blocks(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first entries and the last exits are not in the file; blocks have few records."""
    from fxtio.uftrace import frames

    records = from_calls("0123..12.." + "112..1.." * 40 + "..0123")[2:]
    path = plain(tmp_path / "t", records)
    monkeypatch.setattr(frames, "BLOCK", max(block, 1 << 10))
    monkeypatch.setattr(frames, "_MAX_RECORD", 512)
    with fxtio.open_timeline(path) as timeline:
        slices = timeline.table("slices")
        assert agree(calls(timeline), calls_of_records(path))
    assert timeline.losses.total() == 0
    without_entry = slices.take(slices["event"] < 0)
    assert without_entry["name"].tolist() == ["zero", "one"]
    assert without_entry["depth"].tolist() == [0, 1]
    assert set(slices["state"].tolist()) == {"closed", "open"}


DEPTHS = st.lists(st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=12), max_size=4)


@given(chunks=DEPTHS)
def test_the_last_record_up_to_a_depth(chunks: list[list[tuple[int, bool]]]) -> None:
    """Each record may be an exit that asks for it; the others are taken together."""
    records, depths = pairing._OuterRecords(), list[int]()
    for chunk in chunks:
        first, depth = len(depths), np.array([level for level, _ in chunk], np.int64)
        numbers = np.arange(first, first + len(chunk))
        asked = np.flatnonzero([asks for _, asks in chunk])
        depths += depth.tolist()
        if not len(asked):
            records.enter(numbers, depth, numbers * 10)
            continue
        last = [
            max((other for other in range(first + row) if depths[other] <= depths[first + row]), default=-1)
            for row in asked.tolist()
        ]
        places = [(number, 10 * number if number >= 0 else 0) for number in last]
        assert records.before(numbers, depth, numbers * 10, asked) == places


def test_many_missing_entries_take_no_long_time(tmp_path: Path) -> None:
    exits = [FunctionExit(10 * row, row % 1024, 0x400000) for row in range(70_000)]
    path = plain(tmp_path / "t", exits)
    with processor_seconds(10), fxtio.open_timeline(path) as timeline:
        assert timeline.table("slices").num_rows == pairing.MAX_MISSING
        assert timeline.losses.total() == 70_000 - pairing.MAX_MISSING


def test_too_many_missing_entries_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = plain(tmp_path / "t", from_calls("0123" * 3 + "." * 12)[12:])
    monkeypatch.setattr(pairing, "MAX_MISSING", 5)
    with fxtio.open_timeline(path) as timeline:
        assert timeline.table("slices").num_rows == 5
        assert timeline.losses.total() == 7


def arguments(timeline: Timeline, name: str) -> list[dict[str, Any]]:
    """Return the arguments of the slices or instants of this name, text as text and numbers as bits."""
    tables = timeline.tables("slices", "instants", "args")
    values: dict[int, dict[str, Any]] = {}
    for row in tables["args"].rows():
        value = row["text"] if row["type"] == "text" else None if row["type"] == "null" else row["bits"]
        values.setdefault(row["event"], {})[row["name"]] = value
    rows = [row for table in ("slices", "instants") for row in tables[table].rows() if row["name"] == name]
    return [values.get(row["event"], {}) | values.get(row.get("end_event", -1), {}) for row in rows]


def test_arguments_and_return_values(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        specs = "arg1/i32,arg2/s,arg3/c,arg4/p,fparg1/64,arg5/u16,arg6/s"
        function = writer.function("f", arguments=specs, returns="retval/f64")
        task = writer.task(1)
        task.enter(function, 1, -3, "text", "q", 5, 1.5, 65535, None)
        task.event("game:tick", 2)
        task.leave(5, 2.5)
    with fxtio.open_timeline(tmp_path / "t") as timeline:
        [values] = arguments(timeline, "f")
        assert [*map(np.uint64, (values.pop("fparg1"), values.pop("retval")))] == [
            *np.array([1.5, 2.5]).view(np.uint64)
        ]
        assert values == {"arg1": 2**64 - 3, "arg2": "text", "arg3": "q", "arg4": 5, "arg5": 65535, "arg6": None}
        assert [row["time"] for row in timeline.table("instants").rows() if row["name"] == "game:tick"] == [2]


def counters_of(timeline: Timeline) -> dict[tuple[str, bool], list[tuple[int, float]]]:
    """Return the values of each counter, by its name and whether it is one of a thread."""
    tables = timeline.tables("counters", "tracks")
    tracks = [*tables["tracks"].rows()]
    result: dict[tuple[str, bool], list[tuple[int, float]]] = {}
    for row in tables["counters"].rows():
        track = tracks[row["track"]]
        assert track["kind"] == "counter"
        result.setdefault((track["name"], track["thread"] >= 0), []).append((row["time"], row["value"]))
    return result


def test_values_that_are_read_are_counters(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        for tid in (10, 11):
            task = writer.task(tid, 10)
            task.enter("f", 1)
            task.event("read:proc/statm", 2 + tid, vmsize=15452, vmrss=7856, shared=tid)
            task.event("diff:proc/statm", 3 + tid, vmsize=-1, vmrss=0, shared=0)
            task.event("read:pmu-cycle", 4 + tid, cycles=2**63, instructions=7)
            task.event("read:page-fault", 5 + tid, data=b"cut")
            task.leave(30)
    with fxtio.open_timeline(tmp_path / "t") as timeline:
        assert counters_of(timeline) == {
            ("read:proc/statm:vmsize", False): [(12, 15452), (13, 15452)],
            ("read:proc/statm:vmrss", False): [(12, 7856), (13, 7856)],
            ("read:proc/statm:shared", False): [(12, 10), (13, 11)],
            ("read:pmu-cycle:cycles", True): [(14, 2.0**63), (15, 2.0**63)],
            ("read:pmu-cycle:instructions", True): [(14, 7), (15, 7)],
        }
        tables = timeline.tables("counters", "instants", "tracks")
    kinds = Counter(tables["tracks"]["kind"].tolist())
    assert kinds["counter"] == 3 + 2 * 2  # of the process, and of two threads
    assert set(tables["counters"]["event"].tolist()) <= set(tables["instants"]["event"].tolist())


@pytest.mark.full
@pytest.mark.once
@needs_uftrace
def test_counters_are_what_replay_prints() -> None:
    text = run("replay", UFTRACE / "read-args-v013").decode()
    shown = [dict(each.split("=") for each in line.split()) for line in re.findall(r"read:proc/statm \((.*?)\)", text)]
    with opened("read-args-v013") as timeline:
        counters = counters_of(timeline)
    assert shown
    for name in ("vmsize", "vmrss", "shared"):
        values = [value for _, value in counters[f"read:proc/statm:{name}", False]]
        assert values == [float(row[name].removesuffix("KB")) for row in shown]


def test_values_of_events_and_names_of_enumerations_and_addresses() -> None:
    with opened("synth-events") as timeline:
        instants = timeline.table("instants")
        assert arguments(timeline, "read:proc/statm")[0].keys() == {"vmsize", "vmrss", "shared"}
        assert instants["slice"][instants["name"].is_in("read:proc/statm")].min() >= 0
    with opened("synth-lost") as timeline:
        assert all(values["count"] > 0 for values in arguments(timeline, "lost records"))
        assert arguments(timeline, "lost records")
    with opened("auto-args-cpp-v013") as timeline:
        assert timeline.table("args").num_rows > 12
        assert timeline.losses == {"structures among arguments": 12}


def test_the_kernel_runs_within_the_calls_of_tasks(tmp_path: Path) -> None:
    path = tmp_path / "t.data"
    synth.write(path, "everything", events=6000, threads=3, seed=1)
    with fxtio.open(path) as trace, fxtio.open_timeline(path) as timeline:
        kernel, slices = trace.table("kernel_slices"), timeline.table("slices")
        of_kernel = slices.take(slices["category"].is_in("kernel"))
        expected_rows = Counter(zip(kernel["name"], kernel["start"].tolist(), kernel["duration"].tolist(), strict=True))
        rows = zip(of_kernel["name"], of_kernel["start"].tolist(), of_kernel["duration"].tolist(), strict=True)
        assert Counter(rows) == expected_rows
        assert expected_rows.total() > 20
        assert (of_kernel["parent"] >= 0).mean() > 0.9
        assert timeline.table("logs").num_rows == trace.table("messages").num_rows > 0


def test_the_scheduler(tmp_path: Path) -> None:
    path = tmp_path / "t.data"
    synth.write(path, "everything", events=6000, threads=3, seed=1)
    with fxtio.open(path) as trace, fxtio.open_timeline(path) as timeline:
        sched, tables = trace.table("sched"), timeline.tables("scheduling", "threads")
        begins = sched.take(sched["kind"].is_in("sched-in"))
        runs = tables["scheduling"]
        assert Counter(begins["time"].tolist()) == Counter(runs["start"].tolist())
        assert (runs["duration"] >= 0).all()
        assert set(runs["state"].tolist()) <= {"blocked", "runnable", None}
        assert runs["duration"].sum() > 0


def test_only_as_many_bytes_are_read_as_allowed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    shutil.copytree(UFTRACE / "fork-v013", path)
    with fxtio.open_timeline(path) as timeline:
        whole = timeline.table("slices").num_rows
    with fxtio.open_timeline(path, max_bytes=160) as timeline:
        assert 0 < timeline.table("slices").num_rows < whole
        assert [*timeline.trace.findings.counts] == ["uftrace.source.cut"]
