"""Calls of the uftrace writer."""

from __future__ import annotations

from typing import Any

import numpy as np

from contract.calls.case import Call, Opened
from fxtio.uftrace.kernel_writer import DESCRIPTIONS
from fxtio.uftrace.perf import PerfEvent
from fxtio.uftrace.records import FunctionEntry
from fxtio.uftrace.task_writer import TaskWriter
from fxtio.uftrace.writer import UftraceWriter

OPTIONS: list[dict[str, Any]] = [
    {
        "program": "/x/prog", "command": "prog -x", "order": "little", "word_class": 64, "sized_symbols": True,
        "recorded_at": "Thu Jan  1 00:00:00 1970",
    }
]  # fmt: skip
WRITERS: list[dict[str, Any]] = [{}]
FINDINGS = frozenset({"uftrace.time.overflow"})
WRITES_NOTHING = frozenset[str]()
UNCHECKED = frozenset({"UftraceWriter.put", "UftraceWriter.file", "TaskWriter.write_records"})
IGNORED = frozenset(
    {
        # It is where a reader gives the event; the CPU of a new one is an argument.
        "UftraceWriter.sched(event.cpu)",
        # Only events of other kinds have it.
        "UftraceWriter.sched(event.comm)",
        # A reader says where the event stood, and what its bytes were.
        "UftraceWriter.sched(event.offset)",
        "UftraceWriter.sched(event.raw)",
        # It stands for no payload of any record.
        "TaskWriter.write_records(payload)",
    }
)

FORMAT = DESCRIPTIONS["sched:sched_wakeup"].replace("sched_wakeup", "sched_nap").replace("318", "400")


def begin(writer: UftraceWriter) -> Opened:
    """Declare an enumeration, a function and a variable, and begin two calls of a task."""
    writer.enum("color", {"RED": 0, "BLUE": 1})
    writer.function("f", arguments="arg1/i32,arg2/s,arg3/e:color", returns="retval/f64")
    writer.function("h")
    writer.variable("v", 4)
    task = writer.task(10)
    task.enter("main", 1000)
    task.enter(_function(writer), 1010, 1, "two", "RED")
    writer.kernel_enter(0, 1000, 10, "read")
    writer.message(1000, "begin")
    writer.sched(0, PerfEvent(1000, 10, 10, "sched-out"))
    return Opened(writer, (task,))


def end(opened: Opened) -> None:
    """End the outer call, and write events."""
    writer, (task,) = opened.writer, opened.objects
    while task.open:
        task.leave(2**63 - 1)
    writer.message(2**63 - 1, "end")


def use(opened: Opened, call: Call, result: Any) -> None:
    """Use the task or function that a call returned."""
    if isinstance(result, TaskWriter):
        result.lost(3)


def _function(writer: UftraceWriter) -> Any:
    return writer.function("f", arguments="arg1/i32,arg2/s,arg3/e:color", returns="retval/f64")


def calls(opened: Opened) -> list[Call]:
    """Return at least one valid call of each public method."""
    writer, (task,) = opened.writer, opened.objects
    function = _function(writer)
    return [
        Call(writer, "put", FunctionEntry(2000, 2, 0x400000), tid=10),
        Call(writer, "file", "note.txt", b"text"),
        Call(writer, "function", "g", arguments="arg1/s", returns="retval/i32", library=True, module="/lib/l.so",
             source="l.c", line=3),
        Call(writer, "specify", writer.function("h"), arguments="arg1/i32", returns="retval/s"),
        Call(writer, "variable", "w", 8, module="/lib/l.so"),
        Call(writer, "enum", "shape", {"ROUND": 1}),
        Call(writer, "task", 11, 10),
        Call(writer, "event_id", "a:b"),
        Call(writer, "message", 2000, "hello"),
        Call(writer, "sched", 1, PerfEvent(2000, 10, 10, "sched-in")),
        Call(writer, "kernel_format", "sched", FORMAT),
        Call(writer, "kernel_event", 1, 2000, 10, "sched:sched_wakeup", comm="game", pid=10),
        Call(writer, "kernel_enter", 1, 2000, 10, "write"),
        Call(writer, "kernel_leave", 1, 2000, 10),
        Call(writer, "write_table", "messages", {"time": [2000], "text": ["x"]}),
        Call(task, "enter", function, 2000, 1, "text", 1),
        Call(task, "enter", "g", 2000),
        Call(task, "leave", 2000, 0.5),
        Call(task, "fork", 12, 2000),
        Call(task, "exec", "/x/other", 2000),
        Call(task, "dlopen", "/lib/plugin.so", 2000),
        Call(task, "event", "a:b", 2000, b"data"),
        Call(task, "event", "watch:var", 2000, address=0x400000, value=5, size=4),
        Call(task, "lost", 5),
        Call(
            task, "write_records", type=[0, 1], time=np.array([2000, 2001]), depth=np.array([2, 2]),
            function=([function], np.array([0, 0])), payload=[None, None],
        ),
    ]  # fmt: skip
