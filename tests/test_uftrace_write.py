"""The writer: what it makes is read back as it was told, and what the format cannot say is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fxtio
from fxtio.errors import EncodeError
from fxtio.uftrace.events import payload_of
from fxtio.uftrace.layout import DEPTHS
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import Event, FunctionEntry
from fxtio.uftrace.writer import UftraceWriter


def test_through_the_front_door(tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "t", format="uftrace") as writer:
        task = writer.task(1)
        task.enter("main", 5)
        task.leave(9)
    with fxtio.open(tmp_path / "t", format="uftrace") as trace:
        assert [(item.name, item.time) for item in trace.entries()] == [("main", 5), ("main", 9)]


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
    items = list(trace.entries())
    assert items[0].values == {"arg1": -2, "arg2": "text", "arg3": 4096, "fparg1": 0.5, "arg4": 65535}
    assert items[1].values == {"vmsize": 1, "vmrss": 2, "shared": 3}
    assert items[2].values == {"retval": 7}
    assert trace.info_file.pointer_size == word_class // 8
    args = trace.table("args")
    assert args["text"].to_list()[1] == "text" and args["bits"].tolist()[2] == 4096
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
    import shutil

    shutil.rmtree(tmp_path / "t", ignore_errors=True)
    wanted: list[tuple[str, int, int, int]] = []
    with UftraceWriter(tmp_path / "t") as writer:
        known = writer.function("with values", arguments="arg1/i16")
        task = writer.task(1)
        clock = iter(range(1, 10**6))
        task.enter(known, 0, 0)

        def call(name: str, inner: Any, depth: int) -> None:
            start = next(clock)
            task.enter(name, start)
            for one in inner:
                call(one[0], one[1], depth + 1)
            end = next(clock)
            task.leave(end)
            wanted.append((name, depth, start, end - start))

        for one in calls:
            call(one[0], one[1], 1)
        end = next(clock)
        task.leave(end)
        wanted.append(("with values", 0, 0, end))
    table = UftraceTrace(tmp_path / "t", strict=True).table("slices")
    found = [(row["name"], row["depth"], row["start"], row["duration"]) for row in table.rows()]
    assert found == wanted


def refused(writer: UftraceWriter, match: str, work: Any) -> None:
    size = writer.position
    with pytest.raises(EncodeError, match=match):
        work()
    assert writer.position == size  # nothing was written


def test_what_is_refused(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t", program="/x/prog") as writer:
        function = writer.function("f", arguments="arg1/i32", returns="retval/i32")
        task = writer.task(1)
        task.enter(function, 100, 1)
        refused(writer, "time goes back", lambda: task.enter("g", 99))
        refused(writer, "2 values are given, 1 are specified", lambda: task.enter(function, 100, 1, 2))
        refused(writer, "does not fit", lambda: task.enter(function, 100, 2**40))
        refused(writer, "1 values are given, 0 are specified", lambda: task.enter("g", 100, 1))
        refused(writer, "belongs to process 1", lambda: writer.task(1, 2))
        refused(writer, "begin at 1", lambda: writer.task(0))
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
    assert UftraceTrace(tmp_path / "t", strict=True).table("slices").num_rows == 1 + DEPTHS


def test_what_columns_are_refused(tmp_path: Path) -> None:
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
    assert UftraceTrace(tmp_path / "t", strict=True).table("slices").num_rows == 1


def test_a_directory_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(FileExistsError, match="is not empty"):
        UftraceWriter(tmp_path)


def test_modules_and_files_of_ones_own(tmp_path: Path) -> None:
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
    items = list(trace.entries())
    assert [item.function.module for item in items if item.function] == ["/lib/libx.so", "/usr/bin/prog"]
    assert items[1].values == {"arg1": 5}
    assert trace.info_file.get("cpuinfo", "nr_cpus") == "1 / 1 (online/possible)"
    assert (tmp_path / "t" / "note.txt").read_bytes() == b"a note\n"
    assert trace.table("slices")["state"].to_list() == ["open", "open"]


def test_many_tasks_need_few_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.uftrace.writer._BUFFERED", 8)
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
