"""uftrace itself reads what fxtio writes, and fxtio reads what uftrace records here and now.

Defects of uftrace that a test works around are named there.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from fxtio import synth
from fxtio.errors import EncodeError
from fxtio.formats import by_name
from fxtio.uftrace import payloads
from fxtio.uftrace.argspec import ValueSpecs
from fxtio.uftrace.declarations import NewFunction
from fxtio.uftrace.layout import Feature, InfoBit
from fxtio.uftrace.perf import PerfEvent
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import FunctionEntry, FunctionExit
from fxtio.uftrace.writer import UftraceWriter
from support import uftrace_dump
from support.uftrace_judge import VIEWS, compile_c, needs_compiler, needs_uftrace, record, run, views
from support.uftrace_samples import SAMPLES, UFTRACE, flame, from_calls, minimal, opened, plain, reference_flame

NEWER = 1001
"""The task of `everything` with what the installed version of uftrace cannot read."""

pytestmark = [pytest.mark.full, pytest.mark.once]

# The commands of Debian's uftrace 0.13 that fail for a directory, and why.
WITHOUT = {
    "args-all-v013": {"dump": "aborts on an 80-bit float"},
    "broken-trigger-retval-v013": {"replay": "it cannot decode the payloads of the trigger"},
    "callsite-v019": dict.fromkeys(VIEWS, "an event that it does not know has data"),
    "old-v05-fork": dict.fromkeys(VIEWS, "it finds no task in version 3"),
    "old-v014-args": dict.fromkeys(VIEWS, "symbols with sizes are too new for it, and so it finds no specification"),
}
JUDGED = [name for name in SAMPLES if set(WITHOUT.get(name, ())) != set(VIEWS)]


def judged(name: str) -> tuple[str, ...]:
    return tuple(view for view in VIEWS if view not in WITHOUT.get(name, {}))


@needs_uftrace
@pytest.mark.parametrize("name", JUDGED)
def test_copies_look_the_same(name: str, tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "copy") as writer:
        writer.copy(opened(name))
    original = UFTRACE / name
    for view, theirs in views(original, judged(name)).items():
        actual = views(tmp_path / "copy", (view,))[view]
        assert actual.replace(bytes(tmp_path / "copy"), bytes(original)) == theirs, view


@needs_uftrace
@pytest.mark.parametrize("name", ["args-all-v013", "auto-args-cpp-v013", "synth-args", "synth-class32"])
def test_rewritten_values_look_the_same(name: str, tmp_path: Path) -> None:
    """Payloads from decoded values, their padding zero."""
    trace = opened(name)
    with UftraceWriter(tmp_path / "copy") as writer:
        writer.copy(trace)
        for tid in trace.tids:
            writer._trace.buffers[tid].clear()
        for entry in trace.entries():
            second = entry.record
            if entry.tid is None or isinstance(second, PerfEvent):
                continue
            if isinstance(second, FunctionEntry | FunctionExit) and entry.values is not None:
                values = values_of(trace, entry.record)
                second = second.replace(payload=payloads.encode(values, list(entry.values.values())))
            writer.put(second, tid=entry.tid)
    assert views(tmp_path / "copy", judged(name)) == views(UFTRACE / name, judged(name))


def values_of(trace: UftraceTrace, record: FunctionEntry | FunctionExit) -> ValueSpecs:
    sessions = trace.begin().sessions
    functions = sessions.address_space(sessions.epochs(trace.tids[0])[-1])
    return functions.specs_at(record.address, is_exit=isinstance(record, FunctionExit))


def without_task(directory: Path, tid: int) -> None:
    """Remove the records of a task, which the installed version of uftrace cannot read."""
    (directory / f"{tid}.dat").unlink()
    info = UftraceTrace(directory).info_file
    others = [other for other in info.tids if other != tid]
    lines = {"nr_tid": str(len(others)), "tids": ",".join(map(str, others))}
    for key, value in lines.items():
        info.lines = [re.sub(f"^taskinfo:{key}=.*", f"taskinfo:{key}={value}", line) for line in info.lines]
    (directory / "info").write_bytes(info.to_bytes())


def without_kernel(text: bytes) -> bytes:
    """Remove the lines about the kernel, which are compared in `test_uftrace_kernel`."""
    places = (b"(ffff81", b"(c1000", b"[event] sched:")
    return b"\n".join(line for line in text.split(b"\n") if not any(place in line for place in places))


@needs_uftrace
@pytest.mark.parametrize("shape", sorted(synth.shapes_of(by_name("uftrace"))))
def test_uftrace_reads_synthetic_traces(shape: str, tmp_path: Path) -> None:
    synth.write(tmp_path / "t", shape, format="uftrace", events=6000, threads=3, seed=1)
    if shape == "everything":
        without_task(tmp_path / "t", NEWER)
    trace = UftraceTrace(tmp_path / "t")
    assert without_kernel(uftrace_dump.reference(run("dump", tmp_path / "t"))) == uftrace_dump.of_trace(trace)
    if shape in ("calls", "spans"):  # its stacks forget open calls after losses
        assert stacks(tmp_path / "t") == reference_stacks(tmp_path / "t")
    assert len(trace.findings) == 0
    for view in ("replay", "report", "graph"):
        assert len(run(view, tmp_path / "t")) > 100


def stacks(directory: Path) -> dict[str, int]:
    return {path: time for path, time in flame(UftraceTrace(directory)).items() if time}


def reference_stacks(directory: Path) -> dict[str, int]:
    return dict(reference_flame(run("dump", directory, *VIEWS["flame"])))


@needs_uftrace
def test_the_flame_graph_of_a_program_is_that_of_uftrace(tmp_path: Path) -> None:
    """Of stacks of several functions: uftrace leaves out the last digits of the time of the first stacks of one."""
    target = tmp_path / "t"
    synth.write(target, "program", format="uftrace", events=3000, threads=3, seed=1)
    ours, theirs = stacks(target), reference_stacks(target)
    assert ours.keys() == theirs.keys()
    nested = {path for path in ours if ";" in path}
    assert {path: ours[path] for path in nested} == {path: theirs[path] for path in nested}
    assert len(nested) > 20


@needs_uftrace
def test_uftrace_reads_the_calls_of_the_friendly_writer(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t", program="/usr/bin/game", command='game "-x"') as writer:
        load = writer.function("load", arguments="arg1/s,arg2/i32,arg3/c", returns="retval/f64")
        puts = writer.function("puts", library=True)
        task = writer.task(100)
        task.enter("main", 1_000_000_000)
        task.enter(load, 1_000_001_000, "héllo", -5, "q")
        task.event("game:tick", 1_000_001_500)
        task.leave(1_000_002_000, 2.5)
        task.enter(puts, 1_000_003_000)
        task.leave(1_000_004_000)
        task.leave(1_000_009_000)
        thread = writer.task(101, 100)
        thread.enter("A.method<x>", 1_000_001_500)
        thread.leave(1_000_002_000)
    output = run("replay", tmp_path / "t", "-f", "duration,tid").decode()
    lines = [line.strip() for line in output.splitlines() if line and not line.startswith("#")]
    assert lines == [
        "[   100] | main() {",
        "[   100] |   load(\"héllo\", -5, 'q') {",
        "[   100] |     /* game:tick */",
        "[   101] | A.method<x>() {",
        "1.000 us [   100] |   } = 2.500000; /* load */",
        "0.500 us [   101] | } /* A.method<x> */",
        "1.000 us [   100] |   puts();",
        "9.000 us [   100] | } /* main */",
    ]
    assert "puts" not in run("replay", tmp_path / "t", "--no-libcall").decode()
    assert 'cmdline             : game "-x"' in run("info", tmp_path / "t").decode()


@needs_uftrace
def test_processes_that_begin_as_copies(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        parent = writer.task(10)
        parent.enter("main", 100)
        parent.enter("fork", 200)
        child = parent.fork(11, 250)
        parent.leave(300)
        child.leave(310)
        child.enter("work", 320)
        child.leave(350)
        thread = writer.task(12, 11)
        thread.enter("thread", 330)
        thread.leave(340)
        parent.leave(400)
        with pytest.raises(EncodeError, match="exists already"):
            parent.fork(12, 500)
        with pytest.raises(EncodeError, match="time goes back"):
            parent.fork(13, 300)
    trace = UftraceTrace(tmp_path / "t")
    assert uftrace_dump.reference(run("dump", tmp_path / "t")) == uftrace_dump.of_trace(trace)
    assert "FORK timestamp=0.000000250 pid=11 ppid=10" in (tmp_path / "t" / "task.txt").read_text()
    names = [(entry.tid, entry.name) for entry in trace.entries()]
    assert names[4:] == [(11, "fork"), (11, "work"), (11, "work"), (12, "thread"), (12, "thread")]
    assert not trace.findings


@needs_uftrace
@pytest.mark.parametrize("calls", ["01.2..", "0111...12.3...", "0102.3.1.2..1.1..."])
def test_exits_numbered_from_0_and_entries_from_1(calls: str, tmp_path: Path) -> None:
    """uftrace pairs them, too, and shows a function of its own at depth 0."""
    trace = UftraceTrace(plain(tmp_path / "t", from_calls(calls, entries=1)))
    stacks = dict(reference_flame(run("dump", tmp_path / "t", *VIEWS["flame"])))
    assert {path.removeprefix("<0>;"): n for path, n in stacks.items()} == {p: n for p, n in flame(trace).items() if n}


@needs_uftrace
def test_every_format_of_a_value(tmp_path: Path) -> None:
    """All formats except `o`, which is new in 0.16, and 80-bit floats, on which 0.13 aborts."""
    specs = "arg1/i8,arg2/u16,arg3/x32,arg4/d64,arg5/c,arg6/s,arg7/p,fparg1/32,fparg2/64,arg8/S,arg9/i16,arg10/t12:P"
    with UftraceWriter(tmp_path / "t") as writer:
        function = writer.function("f", arguments=specs, returns="retval/s")
        task = writer.task(1)
        for number in range(3):
            task.enter(function, 10 * number + 1, -3, 65535, 0xDEADBEEF, -(2**63), "c", "", 0, 1.5, -0.25, "ä" * number,
                       -1, b"abcdefghijkl")  # fmt: skip
            task.leave(10 * number + 5, None if number else "NULL")
    actual = uftrace_dump.of_trace(UftraceTrace(tmp_path / "t"))
    assert uftrace_dump.reference(run("dump", tmp_path / "t")) == actual
    assert actual.count(b"x32: 0xdeadbeef") == 3 and actual.count(b"retval str: NULL") == 3


@needs_uftrace
def test_sized_symbols_need_a_newer_uftrace(tmp_path: Path) -> None:
    for sized in (False, True):
        with UftraceWriter(tmp_path / str(sized), sized_symbols=sized) as writer:
            task = writer.task(1)
            task.enter("main", 1)
            task.leave(2)
        assert [entry.name for entry in UftraceTrace(tmp_path / str(sized)).entries()] == ["main", "main"]
    assert b"main" in run("replay", tmp_path / "False")


@needs_uftrace
def test_bulk_and_single_records_are_the_same_file(tmp_path: Path) -> None:
    kinds, depths = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0])
    for bulk in (True, False):
        with UftraceWriter(tmp_path / str(bulk)) as writer:
            targets: list[NewFunction] = [writer.function("main"), writer.function("foo", arguments="arg1/i64")]
            payload = payloads.encode(targets[1].arguments, [7])
            task = writer.task(1)
            if bulk:
                task.write_records(
                    type=kinds, time=np.arange(5, 9), depth=depths, function=(targets, np.array([0, 1, 1, 0])),
                    payload=[None, payload, None, None],
                )  # fmt: skip
            else:
                task.enter(targets[0], 5)
                task.enter(targets[1], 6, 7)
                task.leave(7)
                task.leave(8)
    new, single = ({each.name: each.read_bytes() for each in (tmp_path / name).iterdir()} for name in ("True", "False"))
    assert new == single
    assert b"foo(7)" in run("replay", tmp_path / "True")


PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <setjmp.h>
#include <pthread.h>
#include <sys/wait.h>
static jmp_buf env;
int add(int a, long b) { return a + b; }
double scale(double x, float y) { return x * y; }
const char *greet(const char *who, char sign) { return who; }
void deep(int n) { if (n == 0) longjmp(env, 1); deep(n - 1); }
void *worker(void *arg) { add(1, 2); return NULL; }
int main(void) {
    pthread_t thread;
    for (int i = 0; i < 50; i++) { add(i, -i); scale(i, 0.5f); greet(i % 2 ? "odd" : "even, \\xc3\\xa9", 'c'); }
    if (setjmp(env) == 0) deep(5);
    add(3, 4);
    pthread_create(&thread, NULL, worker, NULL);
    pthread_join(thread, NULL);
    if (fork() == 0) { add(5, 6); exit(0); }
    wait(NULL);
    return 0;
}
"""
CXX_PROGRAM = """
#include <stdexcept>
#include <vector>
namespace shapes {
struct Shape { virtual ~Shape() {} virtual int area(int f) const { return f; } };
struct Square : Shape {
    int side; Square(int s) : side(s) {} int area(int f) const override { return side * side * f; }
};
template <typename T> T twice(T value) { return value + value; }
int operator+(const Square &a, const Square &b) { return a.side + b.side; }
}
int risky(int n) { if (n > 2) throw std::runtime_error("no"); return n; }
int main() {
    shapes::Square square(3);
    int sum = square.area(2) + shapes::twice(4) + (square + square);
    sum += (int)shapes::twice(1.5);
    for (int i = 0; i < 5; i++) try { sum += risky(i); } catch (const std::exception &) { sum--; }
    return sum == 0;
}
"""
SPECS = (
    "-A", "add@arg1/i32,arg2/i64", "-R", "add@retval/i32", "-A", "scale@fparg1/64,fparg2/32", "-R", "scale@retval/f64",
    "-A", "greet@arg1/s,arg2/c", "-R", "greet@retval/s", "-A", "deep@arg1/i32",
)  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("flags", [("-pg",), ("-finstrument-functions",), ("-pg", "-no-pie")], ids=" ".join)
@pytest.mark.parametrize(
    "specs", [(), SPECS, ("-D", "2"), ("-W", "cpu"), ("-a",)], ids=["plain", "values", "depth", "watch", "auto"]
)
def test_recordings_of_uftrace_are_read(flags: tuple[str, ...], specs: tuple[str, ...], tmp_path: Path) -> None:
    program = compile_c(PROGRAM, tmp_path / "program", *flags, "-pthread")
    directory = record(tmp_path / "t", program, *specs)
    program.rename(tmp_path / "moved")  # uftrace would look into it
    trace = UftraceTrace(directory)
    actual = uftrace_dump.of_trace(trace)
    assert actual == uftrace_dump.reference(run("dump", directory))
    assert trace.findings.counts.total() == 0
    assert actual.count(b"[entry] add(") >= (53 if "-D" not in specs else 1)
    assert (actual.count(b"str: even, \xc3\xa9") == 50) == (specs is SPECS and "-finstrument-functions" not in flags)


@needs_compiler
def test_recordings_of_cxx_programs_are_read(tmp_path: Path) -> None:
    pytest.importorskip("pydemumble")
    program = compile_c(CXX_PROGRAM, tmp_path / "program", "-pg", compiler="g++")
    directory = record(tmp_path / "t", program, "-A", "shapes::Square::area@arg2/i32", "-R", "risky@retval/i32")
    program.rename(tmp_path / "moved")
    trace = UftraceTrace(directory)
    assert uftrace_dump.of_trace(trace) == uftrace_dump.reference(run("dump", directory))
    values = [(entry.name, entry.values) for entry in trace.entries() if entry.values]
    assert ("shapes::Square::area", {"arg2": 2}) in values
    assert [output for name, output in values if name == "risky"][:3] == [{"retval": 0}, {"retval": 1}, {"retval": 2}]


@needs_compiler
def test_a_rewritten_recording_looks_the_same(tmp_path: Path) -> None:
    """Every record and every fact, by the exact writer; and without the symbols of libraries."""
    program = compile_c(PROGRAM, tmp_path / "program", "-pg", "-pthread")
    directory = record(tmp_path / "t", program, *SPECS)
    program.rename(tmp_path / "moved")
    with UftraceWriter(tmp_path / "copy") as writer:
        writer.copy(UftraceTrace(directory))
    for view, theirs in views(directory).items():
        assert views(tmp_path / "copy", (view,))[view] == theirs, view


@needs_uftrace
def test_the_smallest_directory(tmp_path: Path) -> None:
    minimal(tmp_path / "t")
    header = UftraceTrace(tmp_path / "t").info_file
    assert header.features & Feature.TASK_SESSION and header.blocks & InfoBit.TASKINFO
    assert b"main" in run("report", tmp_path / "t")
    assert b"work" in run("graph", tmp_path / "t")
