"""Calls of the CoreProfiler writer."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

from contract.calls.case import Call, Opened
from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.writer import CoreProfilerWriter
from support.coreprofiler import simulated

OPTIONS: list[dict[str, Any]] = [{"style": "D2"}]
WRITERS: list[dict[str, Any]] = [{}]
# Whatever a reader makes a table of can be written, so the stacks of samples are not checked.
FINDINGS = frozenset(
    f"coreprofiler.{name}"
    for name in (
        "time.overflow", "time.backwards", "stack.size", "stack.match-beyond-size", "stack.too-deep",
        "stack.ip-without-frame",
    )
)  # fmt: skip
WRITES_NOTHING = frozenset({"CoreProfilerWriter.flush"})
UNCHECKED = frozenset({"CoreProfilerWriter.put"})
IGNORED = frozenset({"CoreProfilerWriter.write_table(columns.ip_undefined)"})  # null is False


def begin(writer: CoreProfilerWriter) -> Opened:
    """Write the start of a trace."""
    writer.put(r.ProfilerStart(datetime(2020, 1, 2, 3, 4, 5)))  # noqa: DTZ001  # the format has local time
    writer.put(r.ThreadCreated(0x10, 1))
    return Opened(writer)


def end(opened: Opened) -> None:
    """Write another record."""
    opened.writer.put(r.ProfilerPaused(10_000))


def use(opened: Opened, call: Call, result: Any) -> None:
    """Do nothing: methods return numbers."""


@cache
def _records() -> list[Any]:
    """Return the first record of each class that a simulated program has, and the first one with a list of items."""
    chosen: dict[Any, Any] = {}
    for record in simulated(1, lines=True)[1]:
        values = [getattr(record, name) for name in record.__struct_fields__]
        chosen.setdefault((type(record), any(isinstance(value, tuple) and value for value in values)), record)
    return list(chosen.values())


def calls(opened: Opened) -> list[Call]:
    """Return at least one valid call of each public method."""
    writer = opened.writer
    return [
        Call(writer, "flush"),
        *[Call(writer, "put", record) for record in _records()],
        Call(writer, "write_table", "process_cpu", {"time": [5_000_000], "usage": [7]}),
        Call(
            writer, "write_table", "samples",
            {
                "time": [5_000_000, 6_000_000], "thread": [1, 1], "count": [1, 2], "match": [0, 1], "size": [0, 1],
                "ip": [None, 5], "ip_undefined": [False, False],
                "frames": [[{"function_iid": 1, "ip": 6, "ip_undefined": False}], []],
            },
        ),
    ]  # fmt: skip
