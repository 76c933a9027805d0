"""Calls of the writer: each writes all of its records or nothing, and what it accepts is read without a finding."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fxtio.errors import EncodeError
from fxtio.io.writing import TraceWriter
from fxtio.uftrace.perf import PerfEvent
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import FunctionEntry
from fxtio.uftrace.task_writer import TaskWriter
from fxtio.uftrace.tracefs import DESCRIPTIONS
from fxtio.uftrace.writer import UftraceWriter

ABSURD: list[Any] = [
    -1, 0, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**70, float("nan"), float("inf"), 1.5, True, None,
    "\ud800", "\udcc3\udca9", "", "x", "x" * 100_000, "a\nb", "a\0b", " ", b"", b"x", object(), [], {}, (), ...,
]  # fmt: skip

FORMAT = DESCRIPTIONS["sched:sched_wakeup"].replace("sched_wakeup", "sched_nap").replace("318", "400")


class Prepared:
    """A writer with a task in a call, and what has been declared."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer = UftraceWriter(path, program="/x/prog", command="x")
        self.writer.enum("color", {"RED": 0, "BLUE": 1})
        self.function = self.writer.function("f", arguments="arg1/i32,arg2/s,arg3/e:color", returns="retval/f64")
        self.variable = self.writer.variable("v", 4)
        self.task = self.writer.task(10)
        self.task.enter("main", 1000)
        self.task.enter(self.function, 1010, 1, "two", "RED")
        self.writer.kernel_enter(0, 1000, 10, "read")
        self.writer.message(1000, "begin")
        self.writer.sched(0, PerfEvent(1000, 10, 10, "sched-out"))


CALLS: dict[str, tuple[Callable[[Prepared], Callable[..., Any]], dict[str, Any]]] = {
    "UftraceWriter.put": (lambda p: p.writer.put, {"record": FunctionEntry(2000, 2, 0x400000), "tid": 10}),
    "UftraceWriter.file": (lambda p: p.writer.file, {"name": "note.txt", "content": b"text"}),
    "UftraceWriter.function": (
        lambda p: p.writer.function,
        {
            "name": "g", "arguments": "arg1/s", "returns": "retval/i32", "library": True, "module": "/lib/l.so",
            "source": "l.c", "line": 3,
        },
    ),
    "UftraceWriter.variable": (lambda p: p.writer.variable, {"name": "w", "size": 8, "module": "/lib/l.so"}),
    "UftraceWriter.enum": (lambda p: p.writer.enum, {"name": "shape", "values": {"ROUND": 1}}),
    "UftraceWriter.task": (lambda p: p.writer.task, {"tid": 11, "pid": 10}),
    "UftraceWriter.event_id": (lambda p: p.writer.event_id, {"name": "a:b"}),
    "UftraceWriter.message": (lambda p: p.writer.message, {"time": 2000, "text": "hello"}),
    "UftraceWriter.sched": (lambda p: p.writer.sched, {"cpu": 1, "event": PerfEvent(2000, 10, 10, "sched-in")}),
    "UftraceWriter.kernel_format": (lambda p: p.writer.kernel_format, {"system": "sched", "description": FORMAT}),
    "UftraceWriter.kernel_event": (
        lambda p: p.writer.kernel_event,
        {"cpu": 1, "time": 2000, "tid": 10, "event": "sched:sched_wakeup", "comm": "game", "pid": 10},
    ),
    "UftraceWriter.kernel_enter": (
        lambda p: p.writer.kernel_enter,
        {"cpu": 1, "time": 2000, "tid": 10, "function": "write"},
    ),
    "UftraceWriter.kernel_leave": (lambda p: p.writer.kernel_leave, {"cpu": 1, "time": 2000, "tid": 10}),
    "UftraceWriter.write_table": (
        lambda p: p.writer.write_table,
        {"name": "messages", "columns": {"time": [2000], "text": ["x"]}},
    ),
    "TaskWriter.enter": (
        lambda p: lambda **given: p.task.enter(p.function if given["function"] == "f" else given["function"],
                                               given["time"], given["one"], given["two"], given["three"]),
        {"function": "f", "time": 2000, "one": 1, "two": "text", "three": 1},
    ),
    "TaskWriter.leave": (lambda p: p.task.leave, {"time": 2000, "value": 0.5}),
    "TaskWriter.fork": (lambda p: p.task.fork, {"tid": 12, "time": 2000}),
    "TaskWriter.exec": (lambda p: p.task.exec, {"program": "/x/other", "time": 2000}),
    "TaskWriter.dlopen": (lambda p: p.task.dlopen, {"library": "/lib/plugin.so", "time": 2000}),
    "TaskWriter.event": (
        lambda p: p.task.event,
        {"event": "watch:var", "time": 2000, "address": 0x400000, "value": 5, "size": 4},
    ),
    "TaskWriter.lost": (lambda p: p.task.lost, {"count": 5}),
    "TaskWriter.write_records": (
        lambda p: lambda **given: p.task.write_records(**{**given, "function": ([p.function], given["function"])}),
        {"type": [0, 1], "time": [2000, 2001], "depth": [2, 2], "function": [0, 0], "payload": [None, None]},
    ),
}  # fmt: skip
"""A valid call of each public method."""

UNREADABLE = {"UftraceWriter.put"}
"""Methods that write records as they are, which need not fit together."""


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_every_public_method_has_a_call() -> None:
    inherited = {"close", "copy"}
    methods = {
        f"{cls.__name__}.{name}"
        for cls in (UftraceWriter, TaskWriter)
        for name, _ in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_") and name not in inherited
    }
    assert methods == CALLS.keys()
    assert all(hasattr(TraceWriter, name) for name in inherited)


def cases() -> Iterator[Any]:
    for name, (_, given) in CALLS.items():
        for parameter in given:
            yield pytest.param(name, parameter, id=f"{name}-{parameter}")


@pytest.mark.parametrize("name", CALLS)
def test_valid_calls_are_read_without_findings(name: str, tmp_path: Path) -> None:
    method, given = CALLS[name]
    prepared = Prepared(tmp_path / "t")
    method(prepared)(**given)
    prepared.writer.close()
    trace = UftraceTrace(prepared.path, strict=True)
    trace.tables(*trace.table_names)
    assert contents(prepared.path) != contents_without(tmp_path)


def contents_without(folder: Path) -> dict[str, bytes]:
    prepared = Prepared(folder / "without")
    prepared.writer.close()
    return contents(prepared.path)


@pytest.mark.parametrize(("name", "parameter"), [*cases()])
def test_absurd_values_are_refused_as_a_whole_or_read_again(name: str, parameter: str, tmp_path: Path) -> None:
    expected = contents_without(tmp_path)
    method, given = CALLS[name]
    for number, value in enumerate(ABSURD):
        prepared = Prepared(tmp_path / str(number))
        try:
            method(prepared)(**{**given, parameter: value})
        except EncodeError:
            prepared.writer.close()
            assert contents(prepared.path) == expected, (parameter, value)
            continue
        prepared.writer.close()
        trace = UftraceTrace(prepared.path)
        trace.tables(*trace.table_names)
        list(trace.entries())
        assert name in UNREADABLE or not trace.findings, (parameter, value, list(trace.findings))
