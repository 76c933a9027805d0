"""What fills a trace: functions by ticks and bytes, classes by what was allocated, intervals, CPU time.

A function counts once for each stack that it is on, however often it calls itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.reader import CoreProfilerTrace
from fxtio.coreprofiler.stacks import Sample
from fxtio.present import Report, ReportTable, human_size, json_text

MOST = 1 << 18
"""So many names, functions and classes are kept at most."""


@dataclass(slots=True)
class _Tally:
    names: dict[int | None, str] = field(default_factory=dict)
    classes: dict[int | None, str] = field(default_factory=dict)
    alone: Counter[int | None] = field(default_factory=Counter)
    within: Counter[int | None] = field(default_factory=Counter)
    size: Counter[int | None] = field(default_factory=Counter)
    allocated: Counter[int | None] = field(default_factory=Counter)
    objects: Counter[int | None] = field(default_factory=Counter)
    ticks: int = 0
    samples: int = 0

    def name(self, record: Any) -> None:
        """Take in a record that may tell a name."""
        if isinstance(record, r.FunctionName | r.FunctionNameOld) and len(self.names) < MOST:
            self.names[record.function] = record.name
        elif isinstance(record, r.ClassName) and len(self.classes) < MOST:
            self.classes[record.class_iid] = record.name

    def add(self, sample: Sample) -> None:
        """Take in a sample; what happens while profiling is paused does not count."""
        self.samples += 1
        top = sample.stack[-1].function if sample.stack else None
        if sample.ticks and not sample.paused:
            self.ticks += sample.ticks
            _add(self.alone, top, sample.ticks)
            for function in {frame.function for frame in sample.stack}:
                _add(self.within, function, sample.ticks)
        for item in sample.allocated:
            _add(self.size, top, item.size)
            _add(self.allocated, item.class_iid, item.size)
            _add(self.objects, item.class_iid, item.count)

    def function(self, iid: int | None) -> str:
        """A function's name."""
        return self.names.get(iid, "(no stack)" if iid is None else f"function {iid:#x}")

    def of_class(self, iid: int | None) -> str:
        """A class's name."""
        return self.classes.get(iid, "(unknown)" if iid is None else f"class {iid:#x}")


def _add(counts: Counter[int | None], key: int | None, amount: int) -> None:
    """Count; what there is too much of is counted together."""
    counts[key if key in counts or len(counts) < MOST else None] += amount


def stats(trace: CoreProfilerTrace, top: int) -> Report:
    """What fills a trace.

    Args:
        trace: the trace; all of it is read.
        top: tell only of so many functions and classes: the largest.
    """
    tally = _Tally()
    told = trace.watch(tally)
    title = f"{told.name}: {told.records.total():,} records, {tally.ticks:,} ticks, {human_size(told.size)}"
    notes = [f"{told.timeline.process_cpu / 1e6:,.3f} s of CPU time"] if told.timeline.process_cpu else []
    return Report(title, tables=[*_tables(tally, trace, top)], notes=notes, json=_json(tally, trace, top))


def _largest(counts: Counter[int | None], top: int) -> list[tuple[int | None, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0] is None, item[0] or 0))[:top]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "-"


def _tables(tally: _Tally, trace: CoreProfilerTrace, top: int) -> Iterator[ReportTable]:
    if tally.alone:
        rows = [
            (tally.alone[iid], _share(tally.alone[iid], tally.ticks), ticks, _share(ticks, tally.ticks),
             tally.function(iid))
            for iid, ticks in _largest(tally.within, top)
        ]  # fmt: skip
        headers = [">ticks", ">share", ">with callees", ">share", "function"]
        yield ReportTable(headers, rows, len(tally.within) - len(rows))
    if tally.allocated:
        sizes = [(size, tally.objects[iid], tally.of_class(iid)) for iid, size in _largest(tally.allocated, top)]
        yield ReportTable([">bytes", ">objects", "class"], sizes, len(tally.allocated) - len(sizes))
        sites = [(size, tally.function(iid)) for iid, size in _largest(tally.size, top)]
        yield ReportTable([">bytes", "allocated in"], sites, len(tally.size) - len(sites))
    line = trace.info.timeline
    if line.counts:
        yield ReportTable([">count", ">ms", "interval"], [(line.counts[k], line.durations[k], k) for k in line.counts])


def _json(tally: _Tally, trace: CoreProfilerTrace, top: int) -> dict[str, Any]:
    told = trace.info
    return {
        "records": told.records.total(),
        "bytes": told.size,
        "samples": tally.samples,
        "ticks": tally.ticks,
        "functions": [
            {"function": iid, "name": json_text(tally.function(iid)), "ticks": tally.alone[iid], "with_callees": ticks}
            for iid, ticks in _largest(tally.within, top)
        ],
        "classes": [
            {"class": iid, "name": json_text(tally.of_class(iid)), "bytes": size, "objects": tally.objects[iid]}
            for iid, size in _largest(tally.allocated, top)
        ],
        "intervals": {name: {"count": told.timeline.counts[name], "ms": told.timeline.durations[name]}
                      for name in told.timeline.counts},
        "process_cpu_us": told.timeline.process_cpu,
    }  # fmt: skip
