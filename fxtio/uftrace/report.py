"""Traces as values that the commands print: summaries, statistics, lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fxtio.codec import show
from fxtio.codec.record import Opaque
from fxtio.report import Report, ReportTable, counted, human_duration, summary_of
from fxtio.table import Categories, Table
from fxtio.timeline.parts import Registry
from fxtio.timeline.sums import Sums
from fxtio.uftrace.canonical import bytes_of
from fxtio.uftrace.events import Message
from fxtio.uftrace.kernel import KernelEvent
from fxtio.uftrace.perf import PerfEvent
from fxtio.uftrace.reader import Entry, UftraceTrace
from fxtio.uftrace.records import Event, FunctionEntry, Lost
from fxtio.uftrace.timeline_system import KERNEL

_OF_CPU = (PerfEvent, KernelEvent)
_MAX_INDENT = 32


info = summary_of


def stats(trace: UftraceTrace, top: int) -> Report:
    """Count the calls of each function and their total time, the calls of the kernel, and the events of each kind.

    Args:
        trace: the trace, which is read completely.
        top: the largest number of functions to list, those with the longest total time.
    """
    calls, _ = trace.timeline().fold(_Calls, "slices")
    hints = trace.findings.hints  # the next reading begins anew
    program, kernel, events = calls.functions(in_kernel=False), calls.functions(in_kernel=True), Counter[str]()
    lost = messages = 0
    for batch in trace.batches("events", "kernel", "sched", "lost", "messages"):
        events += _counts(batch["events"]["name"])
        events += _counts(batch["kernel"].take(batch["kernel"]["function"].is_in(""))["name"])
        events += Counter({f"linux:{kind}": number for kind, number in _counts(batch["sched"]["kind"]).items()})
        lost += sum(batch["lost"]["count"].tolist())
        messages += batch["messages"].num_rows
    trace.findings.hints |= hints
    tables = [
        ReportTable([">calls", "state"], [(count, state) for state, count in calls.states.items()]),
        _ranking("function", program, top),
    ]
    tables += [_ranking("function of the kernel", kernel, top)] if kernel else []
    tables += [ReportTable([">events", "event"], [(n, name) for name, n in events.most_common()])] if events else []
    facts = [("lost records", f"{lost:,}")] if lost else []
    facts += [("messages", f"{messages:,}")] if messages else []
    json = {
        "calls": dict(calls.states),
        "functions": program[:top],
        "kernel_functions": kernel[:top],
        "events": [{"name": name, "count": number} for name, number in events.most_common()],
        "lost": lost,
        "messages": messages,
    }
    title = f"{trace.name}: {counted(calls.states.total(), 'call')} of {counted(len(program), 'function')}"
    return Report(title, facts, tables, json=json)


def _counts(column: Categories) -> Counter[str]:
    """Count the texts of a column without nulls."""
    codes, numbers = np.unique(column.codes, return_counts=True)
    pairs = zip(codes.tolist(), numbers.tolist(), strict=True)
    return Counter({column.values[code]: number for code, number in pairs})


class _Calls:
    """The slices of a timeline, which are calls: those of the program, and those of the kernel.

    Attributes:
        states: the number of calls of the program in each state.
    """

    def __init__(self, registry: Registry) -> None:
        self.states: Counter[str] = Counter()
        self._names = registry.names
        self._sums = Sums(("function",), ("calls", "total"))  # of a name, times two, plus one in the kernel

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Count the calls of a batch."""
        if "slices" in tables:
            slices = tables["slices"]
            in_kernel, names = slices["category"].is_in(KERNEL), slices["name"].codes.astype(np.int64)
            columns = {"function": names * 2 + in_kernel, "calls": 1, "total": slices["duration"]}
            self._sums.add(columns, slices.num_rows)
            self.states += _counts(slices["state"].take(~in_kernel))

    def functions(self, *, in_kernel: bool) -> list[dict[str, Any]]:
        """Return the functions with their calls and their time in nanoseconds, those with the longest time first."""
        functions = [
            {"name": self._names.values[row["function"] // 2], "calls": row["calls"], "total": row["total"]}
            for row in self._sums.table().rows()
            if row["function"] % 2 == in_kernel
        ]
        return sorted(functions, key=lambda row: (-row["total"], row["name"]))


def _ranking(title: str, functions: list[dict[str, Any]], top: int) -> ReportTable:
    """Return the first functions as a table."""
    rows = [(row["calls"], human_duration(row["total"]), row["name"]) for row in functions[:top]]
    return ReportTable([">calls", ">total time", title], rows, len(functions) - len(rows))


def text_lines(entries: Sequence[Entry]) -> Iterable[str]:
    """Return entries as lines of text with the task, see `fxtio.codec.show`."""
    return show.text_lines(entries, _content, owner=lambda entry: f"{'' if entry.tid is None else entry.tid:>8}")


def _content(entry: Entry) -> str:
    record = entry.record
    if isinstance(record, Opaque):
        return show.content_of(entry)
    if isinstance(record, Lost):
        return f"count={record.count}"
    if isinstance(record, Message):
        return record.text
    values = _values(entry)
    if isinstance(record, _OF_CPU):
        number = record.kind if isinstance(record, PerfEvent) else record.id
        return f"cpu {entry.cpu}: {entry.name or f'event {number}'}{values and ' '}{values}"
    if isinstance(record, Event):
        return f"{entry.name or f'event {record.event}'}{values and ' '}{values}"
    indent = "  " * record.depth if record.depth < _MAX_INDENT else f"{'  ' * _MAX_INDENT}({record.depth}) "
    name = entry.name or f"{record.address:#x}"
    if isinstance(record, FunctionEntry):
        return f"{indent}{name}{f'({values})' if values else ''}"
    return f"{indent}{name}{values and ' '}{values}"


def _values(entry: Entry) -> str:
    if entry.values is None:
        name, raw = bytes_of(entry.record)
        return "" if raw is None else f"{name}={raw.hex()}"
    shown = {name: show.show_value(value) for name, value in entry.values.items()}
    shown = {name: f"{value} ({entry.meanings[name]})" if name in entry.meanings else value
             for name, value in shown.items()}  # fmt: skip
    return ", ".join(f"{name}={value}" for name, value in shown.items())
