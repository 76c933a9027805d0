"""Reports and lines that the commands print about CoreProfiler traces.

In `stats`, a function counts once for each stack that it is on, however often it calls itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fxtio.codec import show
from fxtio.codec.record import Opaque
from fxtio.codec.show import Show
from fxtio.codec.text.items import FixedItem
from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.reader import CoreProfilerTrace, Entry, Info
from fxtio.coreprofiler.state import ThreadStack, Timeline
from fxtio.report import Report, ReportTable, counted, human_duration, human_size, quoted, summary_of

MAX_NAMES = 1 << 18
"""The most names, functions and classes that are counted one by one."""

MAX_TEXT = 1 << 26
"""The most characters of all names that are stored."""

_SHOWN_BYTES = 60


info = summary_of


@dataclass(slots=True)
class _OnStack:
    """The functions on the stack of a thread.  Each counts once, so its ticks are those from its entry to its end.

    A sample costs no more than what it changes, however deep the stack is.

    Attributes:
        ticks: the ticks of the thread so far.
    """

    ticks: int = 0
    _functions: list[int | None] = field(default_factory=list)
    _since: dict[int | None, tuple[int, int]] = field(default_factory=dict)  # the depth and the ticks at the entry

    def enter(self, function: int | None) -> None:
        """Put a function on the stack."""
        self._since.setdefault(function, (len(self._functions), self.ticks))
        self._functions.append(function)

    def leave(self, depth: int) -> Iterator[tuple[int | None, int]]:
        """Take functions off until there are so many; yield those that are not there any more, with their ticks."""
        while len(self._functions) > depth:
            function = self._functions.pop()
            first, ticks = self._since[function]
            if first == len(self._functions):
                del self._since[function]
                if self.ticks > ticks:
                    yield function, self.ticks - ticks


@dataclass(slots=True)
class _Totals:
    """Counts by function and class; takes in the trace as `rules.Watcher`."""

    functions: dict[int | None, str] = field(default_factory=dict)
    classes: dict[int | None, str] = field(default_factory=dict)
    own_ticks: Counter[int | None] = field(default_factory=Counter)
    ticks_with_callees: Counter[int | None] = field(default_factory=Counter)
    bytes_by_function: Counter[int | None] = field(default_factory=Counter)
    bytes_by_class: Counter[int | None] = field(default_factory=Counter)
    objects_by_class: Counter[int | None] = field(default_factory=Counter)
    ticks: int = 0
    samples: int = 0
    _threads: dict[int | None, _OnStack] = field(default_factory=dict)
    _room: int = field(default_factory=lambda: MAX_TEXT)  # characters of further names

    def name(self, record: Any) -> None:
        """Take in a record that may give a name."""
        if isinstance(record, r.FunctionName | r.FunctionNameOld):
            self._store(self.functions, record.function_iid, record.name)
        elif isinstance(record, r.ClassName):
            self._store(self.classes, record.class_iid, record.name)

    def _store(self, names: dict[int | None, str], iid: int | None, name: str) -> None:
        if len(names) < MAX_NAMES and len(name) <= self._room:
            self._room -= len(name)
            names[iid] = name

    def sample(self, record: r.StackSample, thread: ThreadStack, paused: bool) -> None:
        """Take in a sample; ticks while profiling is paused do not count."""
        self.samples += 1
        followed = self._threads.get(record.thread)
        functions = followed or _OnStack()
        if followed is None and thread.followed:
            self._threads[record.thread] = functions
        self._leave(functions, thread.unchanged)
        for frame in thread.frames[thread.unchanged :]:
            functions.enter(frame.function_iid)
        if record.count and not paused:
            self.ticks += record.count
            functions.ticks += record.count
            _count(self.own_ticks, _top_of(thread), record.count)
        if not thread.followed:
            self._leave(functions, 0)

    def finish(self) -> None:
        """Take in the end of the trace."""
        for functions in self._threads.values():
            self._leave(functions, 0)

    def _leave(self, functions: _OnStack, depth: int) -> None:
        """Take functions off a thread's stack until it has so many, and count the ticks that they were on it."""
        for function, ticks in functions.leave(depth):
            _count(self.ticks_with_callees, function, ticks)

    def allocation(self, record: r.MemorySample, thread: ThreadStack) -> None:
        """Take in the allocations of a thread."""
        self.samples += 1
        top = _top_of(thread)
        for item in record.items:
            _count(self.bytes_by_function, top, item.size)
            _count(self.bytes_by_class, item.class_iid, item.size)
            _count(self.objects_by_class, item.class_iid, item.count)

    def function_name(self, iid: int | None) -> str:
        """Return a function's name, or its Internal ID."""
        return self.functions.get(iid, "(no stack)" if iid is None else f"function {iid:#x}")

    def class_name(self, iid: int | None) -> str:
        """Return a class's name, or its Internal ID."""
        return self.classes.get(iid, "(unknown)" if iid is None else f"class {iid:#x}")


def _top_of(thread: ThreadStack) -> int | None:
    return thread.frames[-1].function_iid if thread.frames else None


def _count(counts: Counter[int | None], key: int | None, amount: int) -> None:
    """Add to a count; keys beyond `MAX_NAMES` are counted together."""
    counts[key if key in counts or len(counts) < MAX_NAMES else None] += amount


def stats(trace: CoreProfilerTrace, top: int) -> Report:
    """Return functions by ticks and bytes, classes by allocations, intervals and CPU time.

    Args:
        trace: the trace; all of it is read.
        top: how many functions and classes are listed, the largest ones.
    """
    totals = _Totals()
    summary = trace.watch(totals)
    totals.finish()
    records, ticks = counted(summary.records.total(), "record"), counted(totals.ticks, "tick")
    title = f"{summary.name}: {records}, {ticks}, {human_size(summary.size)}"
    cpu = summary.timeline.process_cpu
    notes = [f"{cpu / 1e6:,.3f} s of CPU time"] if cpu else []
    tables = [*_stats_tables(totals, summary.timeline, top)]
    return Report(title, tables=tables, notes=notes, json=_stats_json(totals, summary, top))


def _largest(counts: Counter[int | None], top: int) -> list[tuple[int | None, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0] is None, item[0] or 0))[:top]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "-"


def _stats_tables(totals: _Totals, timeline: Timeline, top: int) -> Iterator[ReportTable]:
    if totals.own_ticks:
        rows = [
            (totals.own_ticks[iid], _share(totals.own_ticks[iid], totals.ticks), ticks, _share(ticks, totals.ticks),
             totals.function_name(iid))
            for iid, ticks in _largest(totals.ticks_with_callees, top)
        ]  # fmt: skip
        headers = [">ticks", ">share", ">with callees", ">share", "function"]
        yield ReportTable(headers, rows, len(totals.ticks_with_callees) - len(rows))
    if totals.bytes_by_class:
        classes = [
            (size, totals.objects_by_class[iid], totals.class_name(iid))
            for iid, size in _largest(totals.bytes_by_class, top)
        ]
        yield ReportTable([">bytes", ">objects", "class"], classes, len(totals.bytes_by_class) - len(classes))
        functions = [(size, totals.function_name(iid)) for iid, size in _largest(totals.bytes_by_function, top)]
        yield ReportTable([">bytes", "allocated in"], functions, len(totals.bytes_by_function) - len(functions))
    if timeline.counts:
        spans = [(count, human_duration(timeline.durations[kind]), kind) for kind, count in timeline.counts.items()]
        yield ReportTable([">count", ">duration", "interval"], spans)


def _stats_json(totals: _Totals, summary: Info, top: int) -> dict[str, Any]:
    return {
        "records": summary.records.total(),
        "bytes": summary.size,
        "samples": totals.samples,
        "ticks": totals.ticks,
        "functions": [
            {
                "function_iid": iid,
                "name": totals.function_name(iid),
                "ticks": totals.own_ticks[iid],
                "with_callees": ticks,
            }
            for iid, ticks in _largest(totals.ticks_with_callees, top)
        ],
        "classes": [
            {
                "class_iid": iid,
                "name": totals.class_name(iid),
                "bytes": size,
                "objects": totals.objects_by_class[iid],
            }
            for iid, size in _largest(totals.bytes_by_class, top)
        ],
        "intervals": summary.timeline.as_json(),
        "process_cpu_us": summary.timeline.process_cpu,
    }


def text_lines(entries: Sequence[Entry]) -> Iterator[str]:
    """Return records as lines of text, see `fxtio.codec.show`; a line that is no record is shown as it is."""
    return show.text_lines(entries, _content)


def _content(entry: Entry) -> str:
    record = entry.record
    if not isinstance(record, Opaque):
        return show.content_of(entry)
    more = "..." if len(record.raw) > _SHOWN_BYTES else ""
    return f"{quoted(record.raw[:_SHOWN_BYTES].decode('utf-8', 'surrogateescape'))}{more}"


@show.show_of.register
def _(mark: FixedItem) -> Show:
    return lambda value: quoted(value) if type(value) is str else mark.describe(value)
