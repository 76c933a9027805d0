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
    program, kernel, events = calls.program, calls.kernel, Counter[str]()
    lost = messages = 0
    for batch in trace.batches("events", "kernel", "sched", "lost", "messages"):
        events += _counts(batch["events"]["name"])
        events += _counts(batch["kernel"].take(batch["kernel"]["function"].is_in(""))["name"])
        events += Counter({f"linux:{kind}": number for kind, number in _counts(batch["sched"]["kind"]).items()})
        lost += sum(batch["lost"]["count"].tolist())
        messages += batch["messages"].num_rows
    trace.findings.hints |= hints
    tables = [
        ReportTable([">calls", "state"], [(count, state) for state, count in program.states.items()]),
        program.table("function", top),
    ]
    tables += [kernel.table("function of the kernel", top)] if kernel.totals else []
    tables += [ReportTable([">events", "event"], [(n, name) for name, n in events.most_common()])] if events else []
    facts = [("lost records", f"{lost:,}")] if lost else []
    facts += [("messages", f"{messages:,}")] if messages else []
    json = {
        "calls": dict(program.states),
        "functions": program.json(top),
        "kernel_functions": kernel.json(top),
        "events": [{"name": name, "count": number} for name, number in events.most_common()],
        "lost": lost,
        "messages": messages,
    }
    title = f"{trace.name}: {counted(program.states.total(), 'call')} of {counted(len(program.totals), 'function')}"
    return Report(title, facts, tables, json=json)


def _counts(column: Categories) -> Counter[str]:
    """Count the texts of a column without nulls."""
    codes, numbers = np.unique(column.codes, return_counts=True)
    pairs = zip(codes.tolist(), numbers.tolist(), strict=True)
    return Counter({column.values[code]: number for code, number in pairs})


class _Calls:
    """Counts the slices of a timeline, which are calls: those of the program, and those of the kernel."""

    def __init__(self, registry: Registry) -> None:
        self.program, self.kernel = _Functions(), _Functions()

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Count the calls of a batch."""
        if "slices" in tables:
            slices = tables["slices"]
            in_kernel = slices["category"].is_in(KERNEL)
            self.program.add(slices.take(np.flatnonzero(~in_kernel)))
            self.kernel.add(slices.take(np.flatnonzero(in_kernel)))


class _Functions:
    """The number of calls and the total time of functions.

    Attributes:
        totals: the number of calls and the nanoseconds of each function.
        states: the number of calls in each state.
    """

    def __init__(self) -> None:
        self.totals: dict[str, list[int]] = {}
        self.states: Counter[str] = Counter()

    def add(self, table: Table) -> None:
        """Add calls, rows of the table `slices`."""
        names = table["name"]
        distinct, place, calls = np.unique(names.codes, return_inverse=True, return_counts=True)
        high, low = (np.zeros(len(distinct), np.int64) for _ in range(2))
        for sums, part in zip((high, low), np.divmod(table["duration"], 2**32), strict=True):
            np.add.at(sums, place, part)  # in halves, as exact sums need more than 64 bits
        columns = (column.tolist() for column in (distinct, calls, high, low))
        for code, count, upper, lower in zip(*columns, strict=True):
            total = self.totals.setdefault(names.values[code], [0, 0])
            total[0] += count
            total[1] += upper * 2**32 + lower
        self.states += _counts(table["state"])

    def _largest(self, top: int) -> list[tuple[str, list[int]]]:
        return sorted(self.totals.items(), key=lambda item: (-item[1][1], item[0]))[:top]

    def table(self, title: str, top: int) -> ReportTable:
        """Return the functions with the longest total time."""
        rows = [(calls, human_duration(time), name) for name, (calls, time) in self._largest(top)]
        return ReportTable([">calls", ">total time", title], rows, len(self.totals) - len(rows))

    def json(self, top: int) -> list[dict[str, Any]]:
        """Return the same for programs."""
        return [{"name": name, "calls": n, "total": time} for name, (n, time) in self._largest(top)]


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
        return f"cpu {entry.cpu}: {entry.name or f'event {_number(record)}'}{values and ' '}{values}"
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


def _number(record: PerfEvent | KernelEvent) -> int | str:
    return record.kind if isinstance(record, PerfEvent) else record.id
