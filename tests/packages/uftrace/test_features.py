"""What the writer declares, as uftrace itself and the reader show it: enumerations, sessions, events, the kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fxtio.errors import EncodeError
from fxtio.uftrace.argspec import parse_enums
from fxtio.uftrace.events import NAMES, encode_values, values_of
from fxtio.uftrace.perf import PerfEvent
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.writer import UftraceWriter
from support.uftrace_judge import needs_uftrace, run
from support.uftrace_samples import slices_of

SECOND = 1_000_000_000
COLORS = {"NONE": 0, "RED": 1, "GREEN": 2, "BLUE": 4, "LOW": -5}


def replayed(path: Path, *options: str) -> list[str]:
    lines = run("replay", path, "-f", "tid", *options).decode().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def slices(path: Path) -> list[tuple[int, str, str]]:
    rows = slices_of(UftraceTrace(path, strict=True))
    return [(row["tid"], row["name"], row["state"]) for row in sorted(rows, key=lambda row: row["tid"])]


@pytest.mark.full
@needs_uftrace
def test_names_of_values_pointers_and_structures(tmp_path: Path) -> None:
    values: list[Any] = ["RED", 3, 7, 12, -5, -1, 0, 4]
    with UftraceWriter(tmp_path / "t") as writer:
        writer.enum("color", COLORS)
        paint = writer.function("paint", arguments="arg1/e:color,arg2/p,arg3/t8:Point", returns="retval/e:color")
        task = writer.task(100)
        for number, value in enumerate(values):
            task.enter(paint, SECOND + 10 * number, value, paint.address, b"abcdefgh")
            task.leave(SECOND + 10 * number + 5, value)
    args = list(UftraceTrace(tmp_path / "t", strict=True).table("args").rows())
    names = [row["meaning"] for row in args if row["name"] == "arg1"]
    assert names[:3] == ["RED", "GREEN|RED", "BLUE|GREEN|RED"]
    assert [row["meaning"] for row in args if row["name"] == "retval"] == names
    assert {row["meaning"] for row in args if row["name"] == "arg2"} == {"paint"}
    assert {row["type"] for row in args} == {"color", None, "Point"}
    assert replayed(tmp_path / "t") == [f"[   100] | paint({name}, &paint, Point{{...}}) = {name};" for name in names]


@pytest.mark.full
@needs_uftrace
def test_of_several_definitions_uftrace_shows_the_same(tmp_path: Path) -> None:
    text = "enum color {NONE=0,RED=1,ROT=1,GREEN=2};enum color {OTHER=1};enum next {A=5,B,C=B}"
    with UftraceWriter(tmp_path / "t") as writer:
        writer.enum("color", {"RED": 1})
        paint, task = writer.function("paint", arguments="arg1/e:color"), writer.task(1)
        task.enter(paint, 1, 1)
        task.leave(2)
    info = tmp_path / "t" / "info"
    info.write_bytes(info.read_bytes().replace(b"enum color {RED=1}", text.encode()))
    assert replayed(tmp_path / "t") == ["[     1] | paint(ROT);"]
    assert UftraceTrace(tmp_path / "t").table("args")["meaning"].tolist() == ["ROT"]
    assert parse_enums([text])["color"] == {0: "NONE", 1: "ROT", 2: "GREEN"}


def test_values_by_name_must_exist(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        writer.enum("color", COLORS)
        paint, task = writer.function("paint", arguments="arg1/e:color"), writer.task(1)
        with pytest.raises(EncodeError, match="'PINK' is not a name"):
            task.enter(paint, 1, "PINK")
        with pytest.raises(EncodeError, match="other values"):
            writer.enum("color", {"RED": 2})
        with pytest.raises(EncodeError, match="the same value"):
            writer.enum("other", {"A": 2, "B": 2})
        with pytest.raises(EncodeError, match="letters, digits"):
            writer.enum("other", {"A,B": 2})
        writer.enum("color", COLORS)


@pytest.mark.full
@needs_uftrace
def test_places_in_source_files(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        start = writer.function("start", arguments="arg1/i32", source="/src/game.c", line=42)
        shared = writer.function("shared", module="/lib/l.so", source="/src/l.c", line=7)
        assert writer.function("start", source="/src/game.c", line=42) is start is writer.function("start")
        task = writer.task(1)
        task.enter(start, 1, 5)
        task.enter(shared, 2)
        task.leave(3)
        task.leave(4)
        for given, match in (
            ({"source": "/src/game.c", "line": 43}, r"declared at /src/game\.c:42"),
            ({"line": 42}, "a line needs a source file"),
            ({"source": "/src/game.c"}, "0 is not from 1"),
        ):
            with pytest.raises(EncodeError, match=match):
                writer.function("start", **given)
    trace = UftraceTrace(tmp_path / "t", strict=True)
    assert [(entry.function.source, entry.function.line) for entry in trace.entries() if entry.function] == [
        ("/src/game.c", 42), ("/src/l.c", 7), ("/src/l.c", 7), ("/src/game.c", 42),
    ]  # fmt: skip
    assert [(row["name"], row["line"]) for row in trace.table("debug_functions").rows()] == [
        ("shared", 7), ("start", 42),
    ]  # fmt: skip
    assert replayed(tmp_path / "t", "--srcline") == [
        "[     1] | start(5) { /* /src/game.c:42 */", "[     1] |   shared(); /* /src/l.c:7 */",
        "[     1] | } /* start */",
    ]  # fmt: skip


@pytest.mark.full
@needs_uftrace
def test_a_library_that_is_loaded(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t", program="/usr/bin/game") as writer:
        task = writer.task(100)
        task.enter("main", SECOND)
        task.dlopen("/lib/plugin.so", SECOND + 10)
        plug = writer.function("plug", module="/lib/plugin.so")
        task.enter(plug, SECOND + 20)
        task.leave(SECOND + 30)
        other = writer.task(200)
        with pytest.raises(EncodeError, match=r"'/lib/plugin\.so' is not in memory"):
            other.enter(plug, SECOND + 40)
        thread = writer.task(101, 100)
        with pytest.raises(EncodeError, match="is not in memory at the time"):
            thread.enter(plug, SECOND + 5)
        thread.enter(plug, SECOND + 35)
        thread.leave(SECOND + 40)
        task.dlopen("/lib/plugin.so", SECOND + 50)
        writer.function("mapped", module="/lib/libc.so")
        with pytest.raises(EncodeError, match="is used as library before"):
            task.dlopen("/lib/libc.so", SECOND + 60)
        with pytest.raises(EncodeError, match="is used as program before"):
            task.dlopen("/usr/bin/game", SECOND + 60)
        task.leave(SECOND + 60)
    assert slices(tmp_path / "t") == [(100, "main", "closed"), (100, "plug", "closed"), (101, "plug", "closed")]
    assert replayed(tmp_path / "t") == [
        "[   100] | main() {", "[   100] |   plug();", "[   101] | plug();", "[   100] | } /* main */",
    ]  # fmt: skip
    libraries = [row for row in UftraceTrace(tmp_path / "t").table("task_events").rows() if row["kind"] == "library"]
    assert [(row["time"] - SECOND, row["path"]) for row in libraries] == [
        (10, "/lib/plugin.so"),
        (50, "/lib/plugin.so"),
    ]


@pytest.mark.full
@needs_uftrace
def test_a_child_that_runs_another_program(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t", program="/usr/bin/game") as writer:
        shared = writer.function("shared", module="/lib/libc.so")
        task = writer.task(100)
        task.enter("main", SECOND)
        child = task.fork(200, SECOND + 10)
        child.enter("execv", SECOND + 20)
        child.exec("/usr/bin/other", SECOND + 30)
        child.enter("main", SECOND + 40)
        child.enter(shared, SECOND + 50)
        child.leave(SECOND + 52)
        with pytest.raises(EncodeError, match=r"'/usr/bin/game' is not in memory"):
            child.enter(writer.function("main"), SECOND + 70)
        thread = writer.task(201, 200)
        with pytest.raises(EncodeError, match="the process began its program at"):
            thread.enter("early", SECOND + 20)
        thread.enter("work", SECOND + 55)
        thread.leave(SECOND + 56)
        with pytest.raises(EncodeError, match="only the first task of a process calls exec"):
            thread.exec("/usr/bin/third", SECOND + 80)
        child.leave(SECOND + 80)
        task.leave(SECOND + 90)
        with pytest.raises(EncodeError, match="time goes back"):
            task.exec("/usr/bin/third", SECOND)
        task.exec("/usr/bin/third", SECOND + 100)
        task.enter("main", SECOND + 110)
        task.leave(SECOND + 120)
        calls = {"tid": [100], "name": ["f"], "start": [SECOND + 200], "duration": [1], "depth": [0]}
        with pytest.raises(EncodeError, match="the task runs another program"):
            writer.write_table("slices", calls)
    assert slices(tmp_path / "t") == [
        (100, "main", "closed"), (100, "main", "closed"),
        (200, "execv", "open"), (200, "main", "closed"), (200, "shared", "closed"), (201, "work", "closed"),
    ]  # fmt: skip
    modules = [entry.function.module for entry in UftraceTrace(tmp_path / "t").entries() if entry.function]
    assert modules == [
        *["/usr/bin/game"] * 2, *["/usr/bin/third"] * 2, "/usr/bin/game", "/usr/bin/other", *["/lib/libc.so"] * 2,
        *["/usr/bin/other"] * 3,
    ]  # fmt: skip
    assert sorted(replayed(tmp_path / "t")) == sorted([
        "[   100] | main() {", "[   200] | execv() {", "[   200] | main() {", "[   200] |   shared();",
        "[   201] | work();", "[   200] | } /* main */", "[   100] | } /* main */", "[   100] | main();",
    ])  # fmt: skip
    lines = (tmp_path / "t" / "task.txt").read_text().splitlines()
    assert len(lines) == len(set(lines)) == 8


@pytest.mark.full
@needs_uftrace
def test_events_by_the_names_of_their_values(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        task = writer.task(1)
        task.enter("main", SECOND)
        task.event("read:proc/statm", SECOND + 1, vmsize=5, vmrss=6, shared=7)
        task.event("diff:page-fault", SECOND + 2, major=1, minor=3)
        task.event("watch:cpu", SECOND + 3, cpu=3)
        task.event("game:level", SECOND + 4)
        task.leave(SECOND + 5)
        for event, values, match in (
            ("read:proc/statm", {"vmsize": 5}, "has the values vmsize, vmrss, shared; given are vmsize"),
            ("game:level", {"x": 5}, "has no values that are known"),
            ("watch:cpu", {"cpu": 2**31}, "is not from -2,147,483,648 to 2,147,483,647"),
            ("watch:var", {"address": 1, "value": 256, "size": 1}, "256 is not from 0 to 255"),
            ("watch:var", {"address": 1, "value": 256, "size": 9}, "9 is not from 1 to 8"),
        ):
            with pytest.raises(EncodeError, match=match):
                task.event(event, SECOND + 6, None, **values)
        with pytest.raises(EncodeError, match="as bytes or by the names"):
            task.event("watch:cpu", SECOND + 6, b"1234", cpu=3)
    assert replayed(tmp_path / "t") == [
        "[     1] | main() {", "[     1] |   /* read:proc/statm (vmsize=5KB vmrss=6KB shared=7KB) */",
        "[     1] |   /* diff:page-fault (major=+1 minor=+3) */", "[     1] |   /* watch:cpu (cpu=3) */",
        "[     1] |   /* game:level */", "[     1] | } /* main */",
    ]  # fmt: skip
    rows = list(UftraceTrace(tmp_path / "t", strict=True).table("event_values").rows())
    assert {row["name"]: row["bits"] for row in rows} == {
        "vmsize": 5, "vmrss": 6, "shared": 7, "major": 1, "minor": 3, "cpu": 3,
    }  # fmt: skip


@pytest.mark.parametrize("word_class", [32, 64])
def test_variables_and_callers_have_names(word_class: Any, tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t", word_class=word_class) as writer:
        task, score, caller = writer.task(1), writer.variable("score", 4), writer.function("caller")
        task.event("watch:var", 1, address=score, value=99)
        task.event("callsite", 2, caller=caller)
        task.event("watch:var", 3, address=5, value=1, size=2)
        with pytest.raises(EncodeError, match="declared with the size 4"):
            writer.variable("score", 8)
    trace = UftraceTrace(tmp_path / "t", strict=True)
    assert [(row["name"], row["bits"], row["meaning"]) for row in trace.table("event_values").rows()] == [
        ("address", score.address, "score"), ("value", 99, None), ("size", 4, None),
        ("caller", caller.address, "caller"), ("address", 5, None), ("value", 1, None), ("size", 2, None),
    ]  # fmt: skip
    assert [entry.meanings for entry in trace.entries()] == [{"address": "score"}, {"caller": "caller"}, {}]


@pytest.mark.parametrize("event", sorted(NAMES))
@pytest.mark.parametrize("order", ["little", "big"])
def test_the_values_of_each_event_come_back(event: int, order: Any) -> None:
    for size in (8, 4):
        for length in range(64):
            values = values_of(event, bytes(range(length)), order, size)
            if values:
                assert encode_values(event, values, order, size) == bytes(range(length))


@pytest.mark.full
@needs_uftrace
def test_the_kernel(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        task = writer.task(100)
        task.enter("main", SECOND)
        writer.kernel_enter(0, SECOND + 10, 100, "do_syscall_64")
        writer.kernel_enter(0, SECOND + 11, 100, "ksys_read")
        writer.kernel_event(0, SECOND + 12, 100, "sched:sched_process_exec", filename="/bin/x", pid=100, old_pid=99)
        writer.kernel_leave(1, SECOND + 13, 100)
        writer.kernel_leave(0, SECOND + 14, 100)
        writer.kernel_event(1, SECOND + 20, 100, "sched:sched_switch", prev_comm="game", prev_pid=100, next_comm="idle")
        writer.sched(0, PerfEvent(SECOND + 30, 100, 100, "task-name", comm="gamer"))
        task.leave(SECOND + 50)
        refusals: list[tuple[Callable[[], object], str]] = [
            (lambda: writer.kernel_leave(0, SECOND + 60, 100), "no call of a kernel function is open"),
            (lambda: writer.kernel_event(0, SECOND + 60, 100, "sched:x"), "the event is not described"),
            (lambda: writer.kernel_event(0, SECOND + 60, 100, "sched:sched_switch", x=1), "no such field"),
            (lambda: writer.kernel_enter(0, SECOND, 100, "f"), "CPU 0: time goes back"),
            (lambda: writer.sched(0, PerfEvent(SECOND, 1, 1, "sched-in")), "CPU 0: time goes back"),
        ]
        for call, match in refusals:
            with pytest.raises(EncodeError, match=match):
                call()
    trace = UftraceTrace(tmp_path / "t", strict=True)
    calls = [(row["name"], row["duration"], row["depth"], row["cpu"]) for row in trace.table("kernel_slices").rows()]
    assert calls == [("ksys_read", 2, 1, 0), ("do_syscall_64", 4, 0, 0)]
    assert replayed(tmp_path / "t") == [
        "[   100] | main() {", "[   100] |   do_syscall_64() {", "[   100] |     ksys_read() {",
        "[   100] |       /* sched:sched_process_exec (filename=/bin/x pid=100 old_pid=99) */",
        "[   100] |     } /* ksys_read */", "[   100] |   } /* do_syscall_64 */",
        "[   100] |   /* sched:sched_switch (prev_comm=game prev_pid=100 ==> next_comm=idle) */",
        '[   100] |   /* linux:task-name (comm="gamer") */', "[   100] | } /* main */",
    ]  # fmt: skip


def test_records_that_were_put_have_a_session(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "source") as writer:
        task = writer.task(7)
        task.enter("main", 5)
        task.leave(9)
    source = UftraceTrace(tmp_path / "source")
    with UftraceWriter(tmp_path / "t") as writer:
        for record in source.records():
            writer.put(record)
    trace = UftraceTrace(tmp_path / "t", strict=True)
    assert list(trace) == list(source) and trace.tids == [1]


def test_a_task_without_records_has_no_file(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        writer.task(5)
        writer.task(6).enter("main", 1)
    trace = UftraceTrace(tmp_path / "t", strict=True)
    assert trace.tids == [6] and [entry.name for entry in trace.entries()] == ["main"]


def test_files_of_tasks_are_not_given_as_a_whole(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        writer.task(5).enter("main", 1)
        for name, content in (("5.dat", b""), ("x" * 300, b""), ("../x", b""), (5, b""), ("x", 5), ("x", object)):
            with pytest.raises(EncodeError):
                writer.file(name, content)  # type: ignore[arg-type]
        writer.file("05.dat", b"not a task")
    assert len(list(UftraceTrace(tmp_path / "t", strict=True))) == 1


@pytest.mark.parametrize("changes", [{"order": "middle"}, {"word_class": 33}, {"program": "/a b"}, {"command": "a\nb"}])
def test_a_refused_writer_makes_no_directory(changes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(EncodeError):
        UftraceWriter(tmp_path / "t", **changes)
    assert not (tmp_path / "t").exists()
