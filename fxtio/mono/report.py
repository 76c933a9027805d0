"""Recordings as values that the commands print, see `fxtio.formats.ReportRoom`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fxtio.codec import show
from fxtio.mono.reader import Entry, MonoTrace
from fxtio.mono.summary_tables import totals
from fxtio.report import Report, ReportTable, counted, human_size, quoted, summary_of
from fxtio.table import Categories

info = summary_of


def stats(trace: MonoTrace, top: int) -> Report:
    """Count what fills a recording: events by kind, methods by calls, classes by bytes allocated."""
    calls, allocated, sizes = Counter[str](), Counter[str](), Counter[str]()
    for tables in trace.batches("calls", "allocations"):
        entered = tables["calls"]["action"].is_in("enter")
        _add(calls, tables["calls"]["method_name"].take(entered), tables["calls"]["method"][entered])
        types = tables["allocations"]["class_name"]
        vtables, pointers = tables["allocations"]["vtable"], tables["allocations"]["class_pointer"]
        pointers = np.where(vtables.present, vtables.values, pointers.values)
        _add(allocated, types, pointers)
        _add(sizes, types, pointers, tables["allocations"]["size"])
    summary = trace.info
    by_calls = [(quoted(name), count) for name, count in calls.most_common(top)]
    methods = ReportTable(["method", ">calls"], by_calls, len(calls) - len(by_calls))
    by_size = [(quoted(name), allocated[name], count) for name, count in sizes.most_common(top)]
    classes = ReportTable(["class", ">objects", ">bytes"], by_size, len(sizes) - len(by_size))
    kinds = ReportTable(["event", ">count"], summary.records.most_common())
    json = {
        "records": dict(summary.records),
        "buffers": summary.buffers,
        "bytes": summary.size,
        "methods": [{"name": name, "calls": count} for name, count in calls.most_common(top)],
        "classes": [
            {"name": name, "objects": allocated[name], "bytes": count} for name, count in sizes.most_common(top)
        ],
    }
    events = counted(summary.events, "event")
    title = f"{summary.name}: {events}, {counted(summary.buffers, 'buffer')}, {human_size(summary.size)}"
    return Report(title, tables=[table for table in (kinds, methods, classes) if table.rows], json=json)


def _add(counter: Counter[str], names: Categories, addresses: Any, weights: Any = None) -> None:
    """Count rows, or add up weights, by name, or by address where there is no name."""
    weights = np.ones(len(addresses), np.uint64) if weights is None else weights
    has_name = names.codes >= 0
    for keys, weights_of_keys, label_of in (
        (names.codes[has_name], weights[has_name], names.values.__getitem__),
        (addresses[~has_name], weights[~has_name], hex),
    ):
        distinct, inverse = np.unique(keys, return_inverse=True)
        sums = totals(len(distinct), inverse, weights_of_keys)
        for key, count in zip(distinct.tolist(), sums.tolist(), strict=True):
            counter[label_of(key)] += count


def text_lines(entries: Sequence[Entry]) -> Iterator[str]:
    """Return records as lines of text with the thread, see `fxtio.codec.show`."""
    return show.text_lines(entries, owner=lambda entry: "-" if entry.thread is None else f"{entry.thread:#x}")
