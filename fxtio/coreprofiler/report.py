"""Reports and lines that the commands print about CoreProfiler traces.

In `stats`, a function counts once for each stack that it is on, however often it calls itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fxtio.codec import show
from fxtio.codec.record import Opaque
from fxtio.codec.show import Show
from fxtio.codec.text.items import FixedItem
from fxtio.coreprofiler.reader import CoreProfilerTrace
from fxtio.readers import Entry
from fxtio.report import Report, ReportTable, counted, human_duration, human_size, quoted, summary_of
from fxtio.table import Table

_TABLES = ("sample_stacks", "stacks", "allocations", "function_names_old", "function_names", "class_names")

MAX_NAMES = 1 << 18
"""The most names, functions and classes that are counted one by one."""

MAX_TEXT = 1 << 26
"""The most characters of all names that are stored."""

_SHOWN_BYTES = 60


info = summary_of


class _Totals:
    """Counts by function and class, each by its Internal ID; -1 is an unknown one, no stack, or all beyond `MAX_NAMES`.

    Args:
        trace: the trace, of which all is read, batch by batch.
    """

    def __init__(self, trace: CoreProfilerTrace) -> None:
        self.functions: dict[int, str] = {}
        self.classes: dict[int, str] = {}
        self.samples = 0
        self.own_ticks, self.ticks_with_callees, self.bytes_by_function = Counter[int](), Counter[int](), Counter[int]()
        self.bytes_by_class, self.objects_by_class = Counter[int](), Counter[int]()
        self._text = MAX_TEXT  # the characters that further names may have
        for tables in trace.batches(*_TABLES):
            self._add_names(self.functions, tables["function_names_old"], "function_iid")
            self._add_names(self.functions, tables["function_names"], "function_iid")
            self._add_names(self.classes, tables["class_names"], "class_iid")
            self._add_samples(tables)
        self.ticks = self.own_ticks.total()

    def _add_samples(self, tables: dict[str, Table]) -> None:
        """Add the samples of a batch, whose rows of `stacks` are its own."""
        samples, stacks, items = (tables[name] for name in ("sample_stacks", "stacks", "allocations"))
        self.samples += samples.num_rows
        top = np.append(stacks["function_iid"], -1)[samples["stack"]]
        ticks = np.where(samples["paused"], 0, samples["count"])
        _add(self.own_ticks, _sums(top, ticks))
        _add(self.ticks_with_callees, _with_callees(stacks, _sums(samples["stack"], ticks)))
        allocating = top[samples["memory_sample"] >= 0]
        _add(self.bytes_by_function, _sums(allocating[items["memory_sample"]], items["size"]))
        _add(self.bytes_by_class, _sums(items["class_iid"], items["size"]))
        _add(self.objects_by_class, _sums(items["class_iid"], items["count"]))

    def _add_names(self, names: dict[int, str], table: Table, key: str) -> None:
        for iid, name in zip(table[key].tolist(), table["name"], strict=True):
            if len(names) < MAX_NAMES and len(name) <= self._text:
                names[iid] = name
                self._text -= len(name)

    def function_name(self, iid: int) -> str:
        """Return a function's name, or its Internal ID."""
        return self.functions.get(iid, "(no stack)" if iid < 0 else f"function {iid:#x}")

    def class_name(self, iid: int) -> str:
        """Return a class's name, or its Internal ID."""
        return self.classes.get(iid, "(unknown)" if iid < 0 else f"class {iid:#x}")


def _add(counts: Counter[int], more: Counter[int]) -> None:
    """Add counts that are not 0; keys beyond `MAX_NAMES` are counted together."""
    for key, amount in more.items():
        if amount:
            counts[key if key in counts or len(counts) < MAX_NAMES else -1] += amount


def _sums(keys: Any, amounts: Any) -> Counter[int]:
    """Add up amounts by key; the sums of hostile traces may exceed 64 bits."""
    sums: Counter[int] = Counter()
    for key, amount in zip(keys.tolist(), amounts.tolist(), strict=True):
        sums[key] += amount
    return sums


def _with_callees(stacks: Table, ticks: Counter[int]) -> Counter[int]:
    """Return the ticks of each function with those of what it calls.

    Args:
        stacks: the table `stacks`, a tree, in which a parent comes before what is on it.
        ticks: the ticks of each row.
    """
    parents, functions = stacks["parent"].tolist(), stacks["function_iid"].tolist()
    below: defaultdict[int, list[int]] = defaultdict(list)
    for row in range(len(parents) - 1, -1, -1):
        below[parents[row]].append(row)
        ticks[parents[row]] += ticks[row]
    sums: Counter[int] = Counter()
    path: Counter[int] = Counter()  # how often each function is on the stack that is visited
    todo = below[-1]
    while todo:
        row = todo.pop()
        if row < 0:
            path[functions[~row]] -= 1
            continue
        if not path[functions[row]]:
            sums[functions[row]] += ticks[row]
        path[functions[row]] += 1
        todo += [~row, *below[row]]
    return sums


def stats(trace: CoreProfilerTrace, top: int) -> Report:
    """Return functions by ticks and bytes, classes by allocations, intervals and CPU time.

    Args:
        trace: the trace; all of it is read.
        top: how many functions and classes are listed, the largest ones.
    """
    trace.reads_again = True
    totals = _Totals(trace)
    summary = trace.watch()  # comes last, since the findings are those of the last reading
    timeline = summary.timeline
    functions, classes = _largest(totals.ticks_with_callees, top), _largest(totals.bytes_by_class, top)
    tables = []
    if totals.own_ticks:
        own, ticks = totals.own_ticks, totals.ticks
        rows = [
            (own[iid], _share(own[iid], ticks), count, _share(count, ticks), totals.function_name(iid))
            for iid, count in functions
        ]
        headers = [">ticks", ">share", ">with callees", ">share", "function"]
        tables.append(ReportTable(headers, rows, len(totals.ticks_with_callees) - len(rows)))
    if totals.bytes_by_class:
        by_class = [(size, totals.objects_by_class[iid], totals.class_name(iid)) for iid, size in classes]
        tables.append(ReportTable([">bytes", ">objects", "class"], by_class, len(totals.bytes_by_class) - len(classes)))
        places = [(size, totals.function_name(iid)) for iid, size in _largest(totals.bytes_by_function, top)]
        tables.append(ReportTable([">bytes", "allocated in"], places, len(totals.bytes_by_function) - len(places)))
    if timeline.counts:
        spans = [(count, human_duration(timeline.durations[kind]), kind) for kind, count in timeline.counts.items()]
        tables.append(ReportTable([">count", ">duration", "interval"], spans))
    json = {
        "records": summary.records.total(),
        "bytes": summary.size,
        "samples": totals.samples,
        "ticks": totals.ticks,
        "functions": [
            {
                "function_iid": None if iid < 0 else iid,
                "name": totals.function_name(iid),
                "ticks": totals.own_ticks[iid],
                "with_callees": ticks,
            }
            for iid, ticks in functions
        ],
        "classes": [
            {
                "class_iid": None if iid < 0 else iid,
                "name": totals.class_name(iid),
                "bytes": size,
                "objects": totals.objects_by_class[iid],
            }
            for iid, size in classes
        ],
        "intervals": timeline.as_json(),
        "process_cpu_us": timeline.process_cpu,
    }
    notes = [f"{timeline.process_cpu / 1e6:,.3f} s of CPU time"] if timeline.process_cpu else []
    contents = f"{counted(summary.records.total(), 'record')}, {counted(totals.ticks, 'tick')}"
    return Report(f"{summary.name}: {contents}, {human_size(summary.size)}", tables=tables, notes=notes, json=json)


def _largest(counts: Counter[int], top: int) -> list[tuple[int, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0] < 0, item[0]))[:top]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "-"


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
