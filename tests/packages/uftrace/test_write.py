"""The writer: its directories are read back as they were written, and what the format cannot hold is refused."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fxtio
from fxtio.errors import EncodeError
from fxtio.finding import Findings
from fxtio.table import Bytes
from fxtio.uftrace.events import payload_of
from fxtio.uftrace.kernel_writer import DESCRIPTIONS
from fxtio.uftrace.layout import DEPTHS
from fxtio.uftrace.merge import merge
from fxtio.uftrace.perf import PerfEvent
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import Event, FunctionEntry, FunctionExit, Lost
from fxtio.uftrace.tasks import BINARY, BinaryTaskFile, Fork, Session, Task
from fxtio.uftrace.writer import UftraceWriter
from support.uftrace_samples import SAMPLES, opened, pairs_of, slices_of


def test_through_the_front_door(tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "t", format="uftrace") as writer:
        task = writer.task(1)
        task.enter("main", 5)
        task.leave(9)
    with fxtio.open(tmp_path / "t", format="uftrace") as trace:
        assert [(record_entry.name, record_entry.time) for record_entry in trace.entries()] == [
            ("main", 5),
            ("main", 9),
        ]


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("word_class", [32, 64])
def test_every_kind_of_machine(order: Any, word_class: Any, tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t", order=order, word_class=word_class) as writer:
        function = writer.function("f", arguments="arg1,arg2/s,arg3/p,fparg1/32,arg4/u16", returns="retval")
        task = writer.task(3)
        task.enter(function, 10, -2, "text", 4096, 0.5, 65535)
        task.event(100_001, 11, b"".join(n.to_bytes(8, order) for n in (1, 2, 3)))
        task.leave(12, 7)
    trace = UftraceTrace(tmp_path / "t", strict=True)
    all_entries = list(trace.entries())
    assert all_entries[0].values == {"arg1": -2, "arg2": "text", "arg3": 4096, "fparg1": 0.5, "arg4": 65535}
    assert all_entries[1].values == {"vmsize": 1, "vmrss": 2, "shared": 3}
    assert all_entries[2].values == {"retval": 7}
    assert trace.info_file.pointer_size == word_class // 8
    args = trace.table("args")
    assert args["text"].tolist()[1] == "text" and args["bits"].tolist()[2] == 4096
    assert args["bits"].view(np.float64).tolist()[3] == 0.5 and args["bits"].tolist()[4] == 65535


NAMES = st.sampled_from(["a", "b", "c d", "operator()"])
CALLS: st.SearchStrategy[Any] = st.recursive(
    st.just([]),
    lambda inner: st.lists(st.tuples(NAMES, inner), max_size=4),
    max_leaves=30,
)


@given(calls=CALLS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_calls_come_back(calls: Any, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "t", ignore_errors=True)
    expected: Counter[tuple[str, int, int, int]] = Counter()
    with UftraceWriter(tmp_path / "t") as writer:
        declared = writer.function("with values", arguments="arg1/i16")
        task = writer.task(1)
        clock = iter(range(1, 10**6))
        task.enter(declared, 0, 0)

        def call(name: str, inner: Any, depth: int) -> None:
            start = next(clock)
            task.enter(name, start)
            for each in inner:
                call(each[0], each[1], depth + 1)
            end = next(clock)
            task.leave(end)
            expected[name, depth, start, end - start] += 1

        for each in calls:
            call(each[0], each[1], 1)
        end = next(clock)
        task.leave(end)
        expected["with values", 0, 0, end] += 1
    table = UftraceTrace(tmp_path / "t", strict=True).timeline().table("slices")
    assert Counter((row["name"], row["depth"], row["start"], row["duration"]) for row in table.rows()) == expected


def refused(writer: UftraceWriter, match: str, work: Any) -> None:
    size = writer.position
    with pytest.raises(EncodeError, match=match):
        work()
    assert writer.position == size  # nothing was written


def test_invalid_calls_are_refused(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t", program="/x/prog") as writer:
        function = writer.function("f", arguments="arg1/i32", returns="retval/i32")
        task = writer.task(1)
        task.enter(function, 100, 1)
        refused(writer, "time goes back", lambda: task.enter("g", 99))
        refused(writer, "2 values given, 1 specified", lambda: task.enter(function, 100, 1, 2))
        refused(writer, "is not from -2,147,483,648 to", lambda: task.enter(function, 100, 2**40))
        refused(writer, "1 value given, 0 specified", lambda: task.enter("g", 100, 1))
        refused(writer, "belongs to process 1", lambda: writer.task(1, 2))
        refused(writer, "0 is not from 1 to", lambda: writer.task(0))
        refused(writer, "declared with other arguments", lambda: writer.function("f", arguments="arg1/i8"))
        refused(writer, "is not a specification", lambda: writer.function("h", arguments="arg1/z"))
        refused(writer, "specified by arg1", lambda: writer.function("h", arguments="retval"))
        refused(writer, "specified twice", lambda: writer.function("h", arguments="arg1/i8,arg1/i16"))
        refused(writer, "must be unique", lambda: writer.function("h;i", arguments="arg1"))
        refused(writer, "contains a line end", lambda: writer.function("a\nb"))
        refused(writer, "must not be empty", lambda: writer.function(""))
        refused(writer, "cannot be the path", lambda: writer.function("x", module="/my lib/x.so"))
        refused(writer, "another module has", lambda: writer.function("x", module="/y/prog"))
        refused(writer, "over the limit", lambda: task.event(1_000_000, 100, bytes(70_000)))
        refused(writer, "a line end", lambda: writer.event_id("a\nb"))
        refused(writer, "a line end", lambda: writer.message(5, "a\nb"))
        task.leave(101, 5)
        refused(writer, "no call is open", lambda: task.leave(102))
        deep = writer.task(2)
        for number in range(DEPTHS):
            deep.enter("d", number)
        refused(writer, "nested deeper than 1024", lambda: deep.enter("d", 5000))
    assert UftraceTrace(tmp_path / "t", strict=True).timeline().table("slices").num_rows == 1 + DEPTHS


def test_invalid_columns_are_refused(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        task, target = writer.task(1), writer.function("f")
        zeros = np.array([0, 0])
        two: dict[str, Any] = {"type": np.array([0, 1]), "depth": zeros, "function": ([target], zeros)}

        def write(**changes: Any) -> Any:
            return lambda: task.write_records(**{**two, "time": np.array([5, 6]), **changes})

        refused(writer, "time goes back", write(time=np.array([6, 5])))
        refused(writer, "differ in length", write(depth=np.array([0, 0, 0])))
        refused(writer, "does not fit", write(depth=np.array([0, 1024])))
        refused(writer, "does not fit", write(type=np.array([0, 4])))
        refused(writer, "not a multiple of 8", write(payload=[b"123", None]))
        refused(writer, "differ in length", write(payload=[None]))
        write()()
        refused(writer, "time goes back", write(time=np.array([1, 2])))
        task.write_records(
            type=two["type"][:0], time=np.array([]), depth=np.array([]), function=([target], np.array([]))
        )
    assert UftraceTrace(tmp_path / "t", strict=True).timeline().table("slices").num_rows == 1


def test_a_closed_writer_takes_nothing(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        task, function = writer.task(1), writer.function("f")
    calls: list[Callable[[], object]] = [
        lambda: task.enter("g", 1),
        lambda: task.leave(1),
        lambda: task.event(100_001, 1),
        lambda: task.lost(1),
        lambda: task.fork(2, 1),
        lambda: task.write_records(type=0, time=np.array([]), depth=np.array([]), function=([function], np.array([]))),
        lambda: writer.put(FunctionEntry(1, 0, 1)),
        lambda: writer.file("note.txt", b""),
        lambda: writer.function("g"),
        lambda: writer.task(1),
        lambda: writer.event_id("a:b"),
        lambda: writer.message(1, "text"),
        lambda: writer.sched(0, PerfEvent(1, 1, 1, "sched-in")),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="the writer is closed") as caught:
            call()
        assert caught.type is ValueError


def calls_of(path: Path) -> Counter[tuple[Any, ...]]:
    names = ("tid", "name", "start", "duration", "depth")
    return Counter(tuple(row[name] for name in names) for row in slices_of(UftraceTrace(path, strict=True)))


def columns_of(rows: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return dict(zip(("tid", "name", "start", "duration", "depth"), map(list, zip(*rows, strict=True)), strict=True))


@given(calls=CALLS, ticks=st.lists(st.integers(0, 1), min_size=1, max_size=100))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_slices_come_back(calls: Any, ticks: list[int], tmp_path: Path) -> None:
    """Also where many records have the same time, in which case the order of the rows and the depths decide."""
    rows: list[tuple[Any, ...]] = []
    steps = cycle(ticks)
    now = 0

    def call(name: str, inner: Any, depth: int) -> None:
        nonlocal now
        now += next(steps)
        start = now
        for each in inner:
            call(each[0], each[1], depth + 1)
        now += next(steps)
        rows.append((7, name, start, now - start, depth))

    call("outer", calls, 0)
    shutil.rmtree(tmp_path, ignore_errors=True)
    with UftraceWriter(tmp_path / "t") as writer:
        assert writer.write_table("slices", columns_of(rows)) == len(rows)
    assert calls_of(tmp_path / "t") == Counter(rows)


def test_slices_in_any_order_without_equal_times(tmp_path: Path) -> None:
    rows = [(1, "main", 0, 100, 0), (1, "a", 10, 20, 1), (1, "b", 40, 50, 1), (1, "c", 50, 10, 2)]
    with UftraceWriter(tmp_path / "t") as writer:
        writer.write_table("slices", columns_of(rows))
    assert calls_of(tmp_path / "t") == Counter(rows)


@pytest.mark.parametrize("name", SAMPLES)
def test_recorded_slices_come_back(name: str, tmp_path: Path) -> None:
    """Also those deeper than a record can hold.  Calls within one that is not whole are not as deep without it."""
    rows = [row for row in slices_of(opened(name)) if row["category"] != "kernel"]
    partial = {row["id"] for row in rows if row["state"] != "closed"}
    for row in rows:
        if row["parent"] in partial:
            partial.add(row["id"])
    rows = [row for row in rows if row["id"] not in partial]
    columns = {key: [row[key] for row in rows] for key in ("tid", "name", "start", "duration", "depth")}
    with UftraceWriter(tmp_path / "t") as writer:
        if rows:
            writer.write_table("slices", columns)
    if rows:
        assert calls_of(tmp_path / "t") == Counter(zip(*columns.values(), strict=True))


def test_calls_of_all_states_come_back(tmp_path: Path) -> None:
    calls: dict[str, Any] = {
        "tid": 1, "name": ["d", "b", "a", "e"], "start": [10, 10, 40, 60], "duration": [5, 25, 20, 10],
        "depth": [1, 0, 0, 0], "state": ["whole", "no_entry", "no_exit", "open"],
    }  # fmt: skip
    with UftraceWriter(tmp_path / "t") as writer:
        writer.write_table("slices", calls)
    assert [state for state, _, _ in pairs_of(UftraceTrace(tmp_path / "t"))] == calls["state"]


def test_states_that_are_all_null_are_refused(tmp_path: Path) -> None:
    calls: dict[str, Any] = {"tid": 1, "name": "d", "start": [10, 20], "duration": 5, "depth": 0, "state": [None, None]}
    with UftraceWriter(tmp_path / "t") as writer, pytest.raises(EncodeError, match="state: has a null"):
        writer.write_table("slices", calls)


def test_invalid_slices_are_refused(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        each = {"tid": 1, "name": "f", "start": [10, 15], "duration": [10, 10], "depth": [0, 1]}

        def write(**changes: Any) -> Any:
            return lambda: writer.write_table("slices", each | changes)

        refused(writer, "start: calls of a task overlap", write())
        refused(writer, "duration: a duration is negative", write(duration=[-1, 5]))
        refused(writer, "depth: a depth is not from 0", write(depth=[0, -1], start=[10, 30]))
        refused(writer, "name: has a null", write(name=["f", None]))
        refused(writer, "state: 'finished' is not one of whole", write(state="finished"))
        refused(writer, "tid: a number is negative", write(tid=-1))
        refused(writer, "start: a column of float64 is not a column of integers", write(start=[1.5, 2.5]))
        exits = {"state": "no_entry", "depth": 0, "name": "f", "tid": 1}
        refused(
            writer, "no other process", lambda: writer.write_table("slices", exits | {"start": 1, "duration": [2, 3]})
        )
        refused(
            writer, "at one time", lambda: writer.write_table("slices", exits | {"start": [1, 2], "duration": [8, 9]})
        )
        writer.task(1).enter("g", 5)
        refused(writer, "calls that `enter` began are open", write(start=[10, 30]))
        writer.task(1).leave(50)
        refused(writer, "time goes back", write(start=[10, 30]))


def test_records_as_columns(tmp_path: Path) -> None:
    types = ["entry", "event", "lost", "exit"]
    columns = {"tid": 5, "type": types, "time": [1, 2, 0, 4], "depth": 0, "address": [64, 1_000_000, 9, 64]}
    payload = payload_of(b"data")
    assert payload is not None
    with UftraceWriter(tmp_path / "t") as writer:
        writer.write_table("records", columns)
        writer.write_table("records", {**columns, "time": [5, 6, 0, 7], "payload": Bytes([b"", payload, b"", b""])})
        refused(
            writer,
            "type: 'call' is not one of entry",
            lambda: writer.write_table("records", columns | {"type": "call"}),
        )
        refused(writer, "does not fit", lambda: writer.write_table("records", columns | {"depth": 1024}))
        refused(writer, "payload: is not a column of bytes",
                lambda: writer.write_table("records", columns | {"payload": 5}))  # fmt: skip
    trace = UftraceTrace(tmp_path / "t", strict=True)
    assert list(trace) == [
        FunctionEntry(1, 0, 64), Event(2, 0, 1_000_000), Lost(0, 0, 9), FunctionExit(4, 0, 64),
        FunctionEntry(5, 0, 64), Event(6, 0, 1_000_000, payload), Lost(0, 0, 9), FunctionExit(7, 0, 64),
    ]  # fmt: skip
    assert [entry.time for entry in trace.entries()] == [1, 2, None, 4, 5, 6, None, 7]


def test_small_files_as_columns(tmp_path: Path) -> None:
    sched = {
        "time": [30, 10, 20], "cpu": [1, 0, 0], "pid": 5, "tid": [6, 5, 7], "kind": ["task-name", "exec", "task-new"],
        "name": ["worker", "program", None], "parent": [None, 0, 5], "parent_pid": [None, 0, 4],
    }  # fmt: skip
    with UftraceWriter(tmp_path / "t") as writer:
        writer.write_table("sched", sched)
        writer.write_table("sched", {"time": 40, "cpu": 1, "pid": 5, "tid": 5, "kind": "task-exit", "parent": 1})
        writer.write_table("messages", {"time": [1, 2_000_000_000], "text": ["one", "two"]})
        refused(writer, "kind: 'other'", lambda: writer.write_table("sched", sched | {"kind": "other"}))
        refused(writer, "cpu: a number", lambda: writer.write_table("sched", sched | {"cpu": -1}))
        switch = {"time": 1, "cpu": 1, "pid": 1, "tid": 1, "kind": "sched-in"}
        refused(writer, "have a name", lambda: writer.write_table("sched", switch | {"name": "x"}))
        refused(writer, "have a parent", lambda: writer.write_table("sched", switch | {"parent": 7}))
        refused(writer, "None is not text", lambda: writer.write_table("sched", sched | {"name": [None] * 3}))
        refused(writer, "more than 15 bytes", lambda: writer.write_table("sched", sched | {"name": "n" * 16}))
        refused(writer, "lone surrogate", lambda: writer.write_table("sched", sched | {"name": "\ud800"}))
        refused(writer, "a line end", lambda: writer.write_table("messages", {"time": 1, "text": "a\nb"}))
        refused(writer, "-1 is not from 0", lambda: writer.write_table("messages", {"time": -1, "text": "a"}))
        refused(writer, "is not a column of text", lambda: writer.write_table("messages", {"time": 1, "text": 5}))
    trace = UftraceTrace(tmp_path / "t")
    assert [(row["time"], row["cpu"], row["tid"], row["kind"], row["name"], row["parent"], row["parent_pid"])
            for row in trace.table("sched").rows()] == [
        (10, 0, 5, "exec", "program", None, None), (20, 0, 7, "task-new", None, 5, 4),
        (30, 1, 6, "task-name", "worker", None, None), (40, 1, 5, "task-exit", None, 1, 0),
    ]  # fmt: skip
    assert [*trace.table("messages").rows()] == [{"time": 1, "text": "one"}, {"time": 2_000_000_000, "text": "two"}]


def test_a_directory_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(FileExistsError, match="is not empty"):
        UftraceWriter(tmp_path)


def test_modules_and_files_given_by_the_caller(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t", program="/usr/bin/prog") as writer:
        other = writer.function("shared", module="/lib/libx.so")
        register = writer.function("g", arguments="arg1/i32%rdi")
        task = writer.task(1)
        task.enter(other, 1)
        task.enter(register, 2, 5)
        writer.file("note.txt", b"a note\n")
        writer.put(Event(3, 0, 1_000_000, payload_of(None)))
        writer.close()
        writer.close()
    trace = UftraceTrace(tmp_path / "t", strict=True)
    all_entries = list(trace.entries())
    assert [record_entry.function.module for record_entry in all_entries if record_entry.function] == [
        "/lib/libx.so",
        "/usr/bin/prog",
    ]
    assert all_entries[1].values == {"arg1": 5}
    assert trace.info_file.get("cpuinfo", "nr_cpus") == "1 / 1 (online/possible)"
    assert (tmp_path / "t" / "note.txt").read_bytes() == b"a note\n"
    assert pairs_of(trace) == [("open", 1, -1), ("open", 0, -1)]


@pytest.mark.full
def test_many_tasks_need_few_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.uftrace.new_trace._BUFFERED", 8)
    with UftraceWriter(tmp_path / "t") as writer:
        for tid in range(1, 1500):
            writer.task(tid).enter("f", tid)
    assert UftraceTrace(tmp_path / "t", strict=True).info.records == {"FunctionEntry": 1499}


def test_records_as_they_are(tmp_path: Path) -> None:
    records = [FunctionEntry(5, 1000, 2**48 - 1, b"whatever"), FunctionEntry(1, 3, 7)]
    with UftraceWriter(tmp_path / "t") as writer:
        for record in records:
            writer.put(record, tid=7)
    trace = UftraceTrace(tmp_path / "t")
    assert trace.info_file.tids == [7]
    assert list(trace.records(tid=7)) == records


@pytest.mark.parametrize("tid", ["../x", -1, 0, True, 2**31, None])
def test_a_task_is_a_number_that_names_a_file(tid: Any, tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "made.data") as writer:
        with pytest.raises(EncodeError, match=r"is not (from 1|an integer)"):
            writer.put(Lost(0, 0, 1), tid=tid)
        writer.put(Lost(0, 0, 1))
    assert [path.name for path in tmp_path.iterdir()] == ["made.data"]


def test_nothing_is_declared_after_a_copy(tmp_path: Path) -> None:
    """The small files are those of the copied trace: what is declared would have wrong names, or none."""
    with UftraceWriter(tmp_path / "first.data") as writer:
        task = writer.task(7)
        task.enter("original", 10)
        task.leave(20)
    rows = {"tid": 7, "name": "new", "start": [30], "duration": [1], "depth": [0]}
    with (
        fxtio.open(tmp_path / "first.data", format="uftrace") as trace,
        UftraceWriter(tmp_path / "second.data") as copy,
    ):
        copy.copy(trace)
        for declare in (
            lambda: copy.task(8),
            lambda: copy.function("new"),
            lambda: copy.message(1, "text"),
            lambda: copy.event_id("a:b"),
            lambda: copy.write_table("slices", rows),
            lambda: copy.write_table("messages", {"time": [1], "text": ["text"]}),
        ):
            with pytest.raises(EncodeError, match="a copy takes no further"):
                declare()
    assert fxtio.open(tmp_path / "second.data").timeline().table("slices")["name"].tolist() == ["original"]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int64, np.uint64])
def test_times_of_slices_are_added_exactly(dtype: Any, tmp_path: Path) -> None:
    start, duration = np.array([100], dtype), np.array([100], dtype)
    with UftraceWriter(tmp_path / "made.data") as writer:
        writer.write_table("slices", {"tid": 1, "name": "f", "start": start, "duration": duration, "depth": 0})
        with pytest.raises(EncodeError, match="does not fit"):
            writer.write_table("slices", {"tid": 2, "name": "f", "start": 2**63 - 1, "duration": 1, "depth": 0})
    slices = fxtio.open(tmp_path / "made.data").timeline().table("slices")
    assert (slices["start"].tolist(), slices["duration"].tolist()) == ([100], [100])


@pytest.mark.parametrize("order", ["little", "big"])
def test_a_trace_in_version_3(order: str, tmp_path: Path) -> None:
    """Its task file is binary, and it has neither payloads nor libraries that are loaded."""
    with fxtio.create(tmp_path / order, format="uftrace", version=3, order=order, program="/x/prögram") as writer:
        task = writer.task(10)
        task.enter("main", 100)
        child = task.fork(11, 150)
        child.exec("/x/other", 160)
        child.enter("other_main", 170)
        thread = writer.task(12, 10)
        thread.enter("work", 180)
        thread.leave(190)
        values: dict[str, Any] = {"type": [0], "time": [200], "depth": [0]}
        rows = {"tid": 10, "address": 0x400000, **values, "payload": b"x" * 8}
        target = writer.function("work")
        for feature, call in {
            "values of arguments": lambda: writer.function("f", arguments="arg1/i32"),
            "enumerations": lambda: writer.enum("color", {"RED": 1}),
            "libraries that are loaded": lambda: task.dlopen("/lib/l.so", 200),
            "data of events": lambda: task.event("a:b", 200, b"data"),
            "payloads": lambda: writer.write_table("records", rows),
        }.items():
            refused(writer, f"version 3 of the format has no {feature}", call)
        refused(writer, "has no payloads", lambda: task.write_records(
            **values, function=([target], [0]), payload=[b"x" * 8]))  # fmt: skip
        task.event("a:b", 300)
    trace = UftraceTrace(tmp_path / order, strict=True)
    assert "task" in trace.directory.names and "task.txt" not in trace.directory.names
    assert (trace.info.version, trace.info.byte_order) == (3, order)
    assert [(entry.tid, entry.name) for entry in trace.entries()] == [
        (10, "main"), (10, "a:b"), (11, "other_main"), (12, "work"), (12, "work"),
    ]  # fmt: skip
    kinds = [(row["time"], row["kind"], row["tid"], row["parent"]) for row in trace.table("task_events").rows()]
    assert kinds == [
        (100, "session", 10, None), (100, "task", 10, None), (180, "task", 12, None), (150, "fork", 11, 10),
        (160, "session", 11, None), (160, "task", 11, None),
    ]  # fmt: skip
    assert trace.info.tasks == {10: "/x/prögram", 11: "/x/other", 12: "/x/prögram"}
    with pytest.raises(EncodeError, match="2 is neither 3 nor 4"):
        UftraceWriter(tmp_path / "t", version=2)


def test_a_binary_task_file_is_written_as_old_versions_did() -> None:
    trace = opened("old-v05-fork")
    raw = trace.directory.read(BINARY, Findings("uftrace"))
    assert BinaryTaskFile.parse(raw, "little", Findings("uftrace")).to_bytes() == raw


def test_kernel_events_and_calls_as_columns(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "first") as writer:
        for number, name in enumerate(("sched:sched_wakeup", "sched:sched_switch")):
            writer.kernel_event(number, 100 + number, 7, name)
        writer.kernel_enter(1, 200, 7, "outer")
        writer.kernel_enter(1, 210, 7, "inner")
        writer.kernel_enter(1, 215, 8, "other")
        writer.kernel_leave(1, 220, 7)
        writer.kernel_leave(1, 230, 7)
        writer.kernel_leave(1, 240, 8)
        writer.task(7).enter("main", 1)
    first = UftraceTrace(tmp_path / "first", strict=True)
    tables = first.tables("kernel", "kernel_slices")
    events, calls = ({name: table[name] for name in table.column_names} for table in tables.values())
    with UftraceWriter(tmp_path / "second") as writer:
        writer.task(7).enter("main", 1)
        writer.write_table("kernel", {**events, "missed": [False, False, True, *[False] * 5]})
        data = Bytes([b"x", *list(events["data"])[1:]])
        refused(writer, "the data are not those of", lambda: writer.write_table("kernel", events | {"data": data}))
        refused(writer, "is not described", lambda: writer.write_table("kernel", events | {"name": "a:b"}))
        refused(writer, "time goes back", lambda: writer.write_table("kernel", events))
        refused(writer, "not a column of booleans", lambda: writer.write_table("kernel", events | {"missed": 1}))
    second = UftraceTrace(tmp_path / "second")
    table = second.table("kernel")
    assert table["missed"].tolist() == [False, False, True, *[False] * 5]
    assert second.findings.counts == {"uftrace.kernel.missed": 1}
    for name in ("time", "cpu", "tid", "id"):
        assert [*table[name]] == [*events[name]]
    assert table["data"] == events["data"]
    with UftraceWriter(tmp_path / "third") as writer:
        writer.task(7).enter("main", 1)
        writer.kernel_enter(0, 5, 7, "outer")
        refused(writer, "`kernel_enter` began are open", lambda: writer.write_table("kernel_slices", calls))
        writer.kernel_leave(0, 6, 7)
        writer.write_table("kernel_slices", calls)
        refused(writer, "time goes back", lambda: writer.write_table("kernel_slices", calls))
    rows = [*UftraceTrace(tmp_path / "third", strict=True).table("kernel_slices").rows()]
    names = ("tid", "cpu", "name", "start", "duration", "depth", "state")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (7, 0, "outer", 5, 1, 0, "whole"), (7, 1, "inner", 210, 10, 1, "whole"), (7, 1, "outer", 200, 30, 0, "whole"),
        (8, 1, "other", 215, 25, 0, "whole"),
    ]  # fmt: skip


@pytest.mark.parametrize("number", [10, 318])
def test_an_event_with_the_id_of_a_common_one(number: int, tmp_path: Path) -> None:
    """Rows of events are refused as a whole, also if only the last of them cannot be described."""
    description = DESCRIPTIONS["sched:sched_switch"].replace("316", str(number)).replace("sched_switch", "odd")
    with UftraceWriter(tmp_path / "rows") as writer:
        writer.task(7).enter("main", 1)
        for name in ("sched:sched_switch", "sched:sched_wakeup", "ftrace:funcgraph_exit"):
            writer.kernel_event(0, 100, 7, name)
    table = UftraceTrace(tmp_path / "rows").table("kernel")
    with UftraceWriter(tmp_path / "t") as writer:
        writer.task(7).enter("main", 1)
        writer.kernel_format("x", description)
        match = f"the id {number} belongs to another event"
        refused(writer, match, lambda: writer.write_table("kernel", table))
        if number == 10:
            calls = {"tid": 7, "cpu": 0, "name": "f", "start": 1, "duration": 1, "depth": 0}
            refused(writer, match, lambda: writer.write_table("kernel_slices", calls))
    assert not UftraceTrace(tmp_path / "t", strict=True).table("kernel").num_rows


def test_events_losses_and_enumerations_as_columns(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        names = ["a:b", "read:page-fault", "a:c", "a:b"]
        data = Bytes([b"", bytes(16), b"", b"text"])
        writer.write_table("events", {"tid": 5, "time": [1, 2, 3, 4], "name": names, "data": data})
        writer.write_table("lost", {"tid": [5, 6], "count": [7, 8]})
        refused(writer, "time goes back", lambda: writer.write_table("events", {"tid": 5, "time": 3, "name": "new:x"}))
        refused(writer, "does not fit", lambda: writer.write_table("lost", {"tid": 5, "count": -1}))
        writer.write_table("enums", {"name": ["a", "b", "a"], "label": ["X", "X", "Y"], "value": [1, 2, 3]})
        twice = {"name": "c", "label": ["X", "X"], "value": [1, 2]}
        refused(writer, "'X' has two values", lambda: writer.write_table("enums", twice))
        other = {"name": ["d", "a"], "label": "Z", "value": 1}
        refused(writer, "other values", lambda: writer.write_table("enums", other))
        writer.write_table("events", {"tid": 5, "time": 9, "name": "a:d"})
    trace = UftraceTrace(tmp_path / "t", strict=True)
    assert [(row["name"], row["time"], row["id"]) for row in trace.table("events").rows()] == [
        ("a:b", 1, 1_000_000), ("read:page-fault", 2, 100_002), ("a:c", 3, 1_000_001), ("a:b", 4, 1_000_000),
        ("a:d", 9, 1_000_002),
    ]  # fmt: skip
    assert [(row["tid"], row["count"]) for row in trace.table("lost").rows()] == [(5, 7), (6, 8)]
    assert [(row["name"], row["bits"]) for row in trace.table("event_values").rows()] == [("major", 0), ("minor", 0)]
    enums = [(row["name"], row["label"], row["value"]) for row in trace.table("enums").rows()]
    assert enums == [("a", "X", 1), ("a", "Y", 3), ("b", "X", 2)]


def test_session_ids_of_old_directories_may_be_short(tmp_path: Path) -> None:
    for tid, name in enumerate(("a", "b"), 1):
        with UftraceWriter(tmp_path / name, version=3) as writer:
            task = writer.task(tid)
            task.enter("main", 1_000)
            task.leave(2_000)
        raw = (tmp_path / name / BINARY).read_bytes()
        (tmp_path / name / BINARY).write_bytes(raw.replace(b"0" * 15 + b"1", b"abc" + bytes(13)))
        (tmp_path / name / f"sid-{1:016x}.map").rename(tmp_path / name / "sid-abc.map")
    merge([UftraceTrace(tmp_path / name) for name in ("a", "b")], tmp_path / "both")
    both = UftraceTrace(tmp_path / "both")
    assert both.timeline().table("slices")["name"].tolist() == ["main", "main"]
    assert not both.findings
    (tmp_path / "a" / "sid-abc.map").unlink()
    alone = UftraceTrace(tmp_path / "a")
    alone.table("records")
    assert {(each.rule, each.file) for each in alone.findings} == {("uftrace.session.no-map", BINARY)}


@pytest.mark.parametrize(
    "event", [Session(1, 1, "x" * 17, "/x"), Session(1, 1, "é" * 9, "/x"), Task(1 << 64, 1, 1), Fork(1, 1 << 31, 1)]
)
def test_what_does_not_fit_in_an_old_task_file_is_refused(event: Session | Task | Fork) -> None:
    with pytest.raises(EncodeError):
        BinaryTaskFile("little", [event]).to_bytes()
