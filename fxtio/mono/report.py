"""Recordings as values that the commands print, see `fxtio.formats.ReportRoom`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from fxtio.codec.record import Opaque
from fxtio.codec.stream.declare import Fixed, Item, Relative, Repeated, Running, Sleb, parts_of
from fxtio.mono.derived import totals
from fxtio.mono.headers import BufferHeader, StreamHeader
from fxtio.mono.reader import Entry, Info, MonoTrace
from fxtio.mono.tables import ENUMERATIONS
from fxtio.report import Report, ReportTable, counted, human_size, quoted, seconds
from fxtio.table import Categories

_SHOWN_ITEMS = 8


def info(trace: MonoTrace) -> Report:
    """Describe what is inside a recording."""
    return replace(trace.info.report(), json=_info_json(trace.info))


def _info_json(summary: Info) -> dict[str, Any]:
    header = None if summary.header is None else msgspec.structs.asdict(summary.header)
    return summary.as_json() | {
        "recordings": summary.recordings,
        "header": header,
        "buffers": summary.buffers,
        "threads": [{"id": thread, "name": name} for thread, name in summary.threads.items()],
    }


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
    """Format records as lines of text: byte offset, time in seconds, thread, class, then the fields."""
    for entry in entries:
        name = type(entry.record).__name__
        time = "" if entry.time is None else seconds(entry.time)
        thread = "-" if entry.thread is None else f"{entry.thread:#x}"
        yield f"{entry.offset:>10}  {time:>20}  {thread}  {name:<16}  {_fields(entry.record)}".rstrip()


def _fields(record: Any) -> str:
    if isinstance(record, Opaque):
        return f"{counted(len(record.raw), 'byte')}: {record.raw[:_SHOWN_ITEMS].hex(' ')}"
    cls, is_header = type(record), isinstance(record, BufferHeader | StreamHeader)
    shown = []
    for name in cls.__struct_fields__:
        value = getattr(record, name)
        if value is not None and (name != "time" or is_header):
            shown.append(f"{name}={_shown(cls, name, value)}")
    return " ".join(shown)


def _shown(cls: type[Item], name: str, value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Item):
        return f"({_fields(value)})"
    if isinstance(value, tuple):
        more = ", ..." if len(value) > _SHOWN_ITEMS else ""
        return f"({len(value):,}) [{', '.join(_shown(cls, name, item) for item in value[:_SHOWN_ITEMS])}{more}]"
    names = ENUMERATIONS.get((cls, name))
    if names is not None:
        return next((member.name.lower() for member in names if member.value == value), str(value))
    return f"{value:#x}" if _is_address(cls, name) and isinstance(value, int) else str(value)


def _is_address(cls: type[Item], name: str) -> bool:
    """Return whether a field, or the items of its list, are addresses, by its declaration."""
    parts = parts_of(cls)[name]
    return any(
        isinstance(part, Relative | Running) or (isinstance(part, Sleb) and part.pointer)
        for part in (part.of if isinstance(part, Repeated) else part for part in parts)
    ) or (cls is BufferHeader and name != "time" and isinstance(parts[0], Fixed))
