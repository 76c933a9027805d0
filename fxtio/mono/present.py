"""What the commands tell about recordings of the Mono log profiler, see `fxtio.formats.Presenter`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from fxtio.codec.stream import Item
from fxtio.errors import FxtioError
from fxtio.mono import records as r
from fxtio.mono.catalog import NAMED
from fxtio.mono.describe import explain
from fxtio.mono.reader import Entry, Info, MonoTrace
from fxtio.mono.synth import SHAPES
from fxtio.mono.synth import write as synth
from fxtio.present import Report, ReportTable, human_duration, human_size, json_text, quoted, seconds
from fxtio.table import Categories

__all__ = ["SHAPES", "explain", "info", "json_objects", "kinds_of", "stats", "synth", "text_lines"]

_SHOWN_ITEMS = 8
_NUMBERS = frozenset(
    {"time", "size", "generation", "index", "offset", "counter", "line", "column", "counters", "collections",
     "sample_type", "il_offset", "native_offset", "type", "section", "unit", "variance", "handle", "token", "method_id",
     "methods", "fully_covered", "partially_covered", "statements", "milliseconds", "extra_info", "root_type", "domain"}
)  # fmt: skip
"""Fields that are told as decimal numbers; all others are addresses."""


def info(trace: MonoTrace) -> Report:
    """What is inside a recording."""
    told = trace.info
    kinds = ReportTable(["event", ">count"], told.events.most_common())
    threads = ReportTable(["thread", "name"], [(f"{one:#x}", quoted(name)) for one, name in told.threads.items()])
    return Report(told.name, [*_facts(told)], [one for one in (kinds, threads) if one.rows], json=_info_json(told))


def _facts(told: Info) -> Iterator[tuple[str, str]]:
    packed = f", {told.compression}" if told.compression else ""
    yield "format", f"{told.format}{packed}"
    yield "size", f"{human_size(told.size)}{' decompressed' if packed else ''}"
    if told.recordings > 1:
        yield "recordings", f"{told.recordings:,}; the header is that of the first"
    header = told.header
    if header is not None:
        yield "version", f"profiler {header.major}.{header.minor}, data version {header.data_version}"
        yield "pointers", f"{header.pointer_size} bytes"
        yield "program", f"process {header.pid}, {quoted(header.args or '')}, {quoted(header.arch or '')}"
    if told.started_at is not None:
        yield "started", f"{told.started_at:%Y-%m-%d %H:%M:%S} UTC"
    if told.start is not None and told.end is not None:
        yield "lasts", human_duration(told.end - told.start)
    yield "events", f"{told.events.total():,} in {told.buffers:,} buffers"


def _info_json(told: Info) -> dict[str, Any]:
    header = None if told.header is None else msgspec.structs.asdict(told.header)
    return {
        "name": json_text(told.name),
        "format": told.format,
        "compression": told.compression,
        "size": told.size,
        "recordings": told.recordings,
        "header": header and {name: json_text(v) if isinstance(v, str) else v for name, v in header.items()},
        "buffers": told.buffers,
        "events": dict(told.events),
        "threads": [{"id": one, "name": json_text(name)} for one, name in told.threads.items()],
        "start": told.start,
        "end": told.end,
        "started_at": told.started_at and told.started_at.isoformat(),
    }


def stats(trace: MonoTrace, top: int) -> Report:
    """What fills a recording: methods by calls, classes by bytes allocated, events by kind."""
    calls, allocated, sizes = Counter[str](), Counter[str](), Counter[str]()
    for tables in trace.batches("calls", "allocations"):
        entered = tables["calls"]["action"].is_in("enter")
        _add(calls, tables["calls"]["method_name"].take(entered), tables["calls"]["method"][entered])
        types = tables["allocations"]["class_name"]
        vtables, pointers = tables["allocations"]["vtable"], tables["allocations"]["class_pointer"]
        pointers = np.where(vtables.present, vtables.values, pointers.values)
        _add(allocated, types, pointers)
        _add(sizes, types, pointers, tables["allocations"]["size"])
    told = trace.info
    named = [(quoted(name), count) for name, count in calls.most_common(top)]
    methods = ReportTable(["method", ">calls"], named, len(calls) - len(named))
    typed = [(quoted(name), allocated[name], count) for name, count in sizes.most_common(top)]
    classes = ReportTable(["class", ">objects", ">bytes"], typed, len(sizes) - len(typed))
    kinds = ReportTable(["event", ">count"], told.events.most_common())
    json = {
        "events": dict(told.events),
        "buffers": told.buffers,
        "bytes": told.size,
        "methods": [{"name": json_text(name), "calls": count} for name, count in calls.most_common(top)],
        "classes": [
            {"name": json_text(name), "objects": allocated[name], "bytes": count}
            for name, count in sizes.most_common(top)
        ],
    }
    title = f"{told.name}: {told.events.total():,} events, {told.buffers:,} buffers, {human_size(told.size)}"
    return Report(title, tables=[one for one in (kinds, methods, classes) if one.rows], json=json)


def _add(counter: Counter[str], names: Categories, addresses: Any, weights: Any = None) -> None:
    """Count rows (or add up weights) by name, or by address where there is no name."""
    weights = np.ones(len(addresses), np.uint64) if weights is None else weights
    named = names.codes >= 0
    for keys, some, told in (
        (names.codes[named], weights[named], names.values.__getitem__),
        (addresses[~named], weights[~named], hex),
    ):
        distinct, inverse = np.unique(keys, return_inverse=True)
        total = np.zeros(len(distinct), np.uint64)
        np.add.at(total, inverse, some)
        for key, count in zip(distinct.tolist(), total.tolist(), strict=True):
            counter[told(key)] += count


def text_lines(entries: Sequence[Entry]) -> Iterator[str]:
    """Events as lines of text: byte offset, time in seconds, thread, class, then what is in it."""
    for entry in entries:
        name = type(entry.record).__name__
        where = f"{entry.offset:>10}  {seconds(entry.time):>20}  {entry.thread:#x}"
        yield f"{where}  {name:<16}  {_fields(entry.record)}".rstrip()


def _fields(record: Item) -> str:
    cls = type(record)
    shown = []
    for name in cls.__struct_fields__:
        value = getattr(record, name)
        if value is not None and name != "time":
            shown.append(f"{name}={_shown(cls, name, value)}")
    return " ".join(shown)


def _shown(cls: type[Item], name: str, value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Item):
        return f"({_fields(value)})"
    if isinstance(value, tuple):
        more = ", ..." if len(value) > _SHOWN_ITEMS else ""
        return f"({len(value):,}) [{', '.join(_shown(cls, name, one) for one in value[:_SHOWN_ITEMS])}{more}]"
    names = NAMED.get((cls, name))
    if names is not None:
        return next((member.name.lower() for member in names if member.value == value), str(value))
    return str(value) if name in _NUMBERS or isinstance(value, float) else f"{value:#x}"


def json_objects(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Events as JSON objects: `at` (byte offset), `writer` (the thread), `event`, then the fields."""
    made = []
    for entry in entries:
        fields = msgspec.to_builtins(entry.record)
        fields = {name: value for name, value in fields.items() if value is not None}
        made.append({"at": entry.offset, "writer": entry.thread, "event": type(entry.record).__name__, **fields})
    return made


def kinds_of(name: str) -> frozenset[type[Any]]:
    """The classes of events that a name stands for.

    Raises:
        FxtioError: it stands for none.
    """
    known: dict[str, type[Any]] = {cls.__name__.lower(): cls for cls in r.EVENTS}
    if name.lower() not in known:
        raise FxtioError(f"no event {name!r}; there are {', '.join(cls.__name__ for cls in r.EVENTS)}")
    return frozenset({known[name.lower()]})
