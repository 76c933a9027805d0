"""What the commands tell about data directories, see `fxtio.formats.Presenter`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from fxtio.codec.record import Opaque
from fxtio.errors import FxtioError
from fxtio.present import Report, ReportTable, human_duration, human_size, json_text, quoted, seconds
from fxtio.uftrace.describe import Kinds, explain
from fxtio.uftrace.items import Info, Item
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import CLASSES, Entry, Event, Exit, Lost
from fxtio.uftrace.synth import SHAPES, synth

__all__ = ["SHAPES", "explain", "info", "json_objects", "kinds_of", "stats", "synth", "text_lines"]

SHOWN_TASKS = 20
"""How many tasks are listed; the JSON has all."""


def info(trace: UftraceTrace) -> Report:
    """What is inside a trace."""
    info = trace.info
    return Report(info.name, [*_facts(info)], [*_tables(info)], json=_json(info))


def _facts(info: Info) -> Iterator[tuple[str, str]]:
    yield "format", f"{info.format} {info.version}, {info.byte_order}-endian"
    if info.recorded_by:
        yield "recorded by", f"uftrace {info.recorded_by}"
    if info.command:
        yield "command", info.command
    if info.recorded_at:
        yield "recorded at", info.recorded_at
    yield "size", human_size(info.size)
    yield "records", f"{info.records.total():,}"
    if info.start is not None and info.end is not None:
        times = f"from {seconds(info.start)} s to {seconds(info.end)} s"
        yield "duration", f"{human_duration(info.end - info.start)}, {times}"


def _tables(info: Info) -> Iterator[ReportTable]:
    yield ReportTable([">records", "class"], [(number, name) for name, number in info.records.most_common()])
    shown = [(str(tid), name) for tid, name in islice(info.tasks.items(), SHOWN_TASKS)]
    yield ReportTable([">task", "program"], shown, len(info.tasks) - len(shown))


def _json(info: Info) -> dict[str, Any]:
    return {
        "name": json_text(info.name),
        "format": info.format,
        "byte_order": info.byte_order,
        "version": info.version,
        "recorded_by": info.recorded_by and json_text(info.recorded_by),
        "command": info.command and json_text(info.command),
        "recorded_at": json_text(info.recorded_at),
        "size": info.size,
        "start": info.start,
        "end": info.end,
        "records": dict(info.records),
        "tasks": [{"tid": tid, "program": json_text(name)} for tid, name in info.tasks.items()],
    }


def stats(trace: UftraceTrace, top: int) -> Report:
    """Which functions are called, how often, and how long they take.

    Args:
        trace: the trace; all of it is read.
        top: tell only of so many functions, those that take longest.
    """
    totals: dict[str, list[int]] = {}
    states: dict[str, int] = {}
    for batch in trace.batches("slices"):
        if "slices" not in batch:
            continue
        table = batch["slices"]
        names, state = table["name"], table["state"]
        for code in np.unique(names.codes).tolist():
            mine = names.codes == code
            one = totals.setdefault(names.values[code], [0, 0])
            one[0] += int(mine.sum())
            one[1] += int(table["duration"][mine].sum())
        for code, count in zip(*np.unique(state.codes, return_counts=True), strict=True):
            states[state.values[int(code)]] = states.get(state.values[int(code)], 0) + int(count)
    largest = sorted(totals.items(), key=lambda item: (-item[1][1], item[0]))[:top]
    rows = [(calls, human_duration(total), name) for name, (calls, total) in largest]
    calls = sum(states.values())
    tables = [
        ReportTable([">calls", "ends"], [(count, state) for state, count in states.items()]),
        ReportTable([">calls", ">total time", "function"], rows, len(totals) - len(rows)),
    ]
    json = {
        "calls": states,
        "functions": [{"name": json_text(name), "calls": n, "total": total} for name, (n, total) in largest],
    }
    return Report(f"{trace.name}: {calls:,} calls of {len(totals):,} functions", tables=tables, json=json)


def text_lines(entries: Sequence[Item]) -> Iterable[str]:
    """Records as lines of text: task, offset in its file, time in seconds, class, then what is in it."""
    return map(_line, entries)


def _line(item: Item) -> str:
    record = item.record
    when = "" if item.time is None else seconds(item.time)
    return f"{item.tid:>8} {item.offset:>10}  {when:>16}  {type(record).__name__:<6}  {_content(item)}".rstrip()


def _content(item: Item) -> str:
    record = item.record
    if isinstance(record, Opaque):
        return f"{len(record.raw):,} bytes: {record.raw[:32].hex(' ')}{' ...' if len(record.raw) > 32 else ''}"
    if isinstance(record, Lost):
        return f"count={record.count}"
    values = _values(item)
    if isinstance(record, Event):
        return f"{item.name or f'event {record.event}'}{values and ' '}{values}"
    indent = "  " * record.depth if record.depth < 32 else f"{'  ' * 32}({record.depth}) "
    name = item.name or f"{record.address:#x}"
    return f"{indent}{name}{f'({values})' if isinstance(record, Entry) and values else f' {values}' if values else ''}"


def _values(item: Item) -> str:
    if item.values is None:
        payload = item.record.payload
        return "" if payload is None else f"payload={payload.hex()}"
    shown = {
        name: quoted(value) if isinstance(value, str) else value.hex() if isinstance(value, bytes) else str(value)
        for name, value in item.values.items()
    }
    return ", ".join(f"{name}={value}" for name, value in shown.items())


def json_objects(entries: Sequence[Item]) -> list[dict[str, Any]]:
    """Records as JSON objects; bytes as hexadecimal text."""
    return [*map(_object, entries)]


def _object(item: Item) -> dict[str, Any]:
    record = item.record
    made: dict[str, Any] = {"type": type(record).__name__, "tid": item.tid, "offset": item.offset}
    if isinstance(record, Opaque):
        return made | {"raw": record.raw.hex()}
    made["time"] = record.time
    if isinstance(record, Lost):
        return made | {"count": record.count}
    if isinstance(record, Event):
        made["event"] = record.event
    elif isinstance(record, Entry | Exit):
        made |= {"depth": record.depth, "address": record.address}
        if item.function is not None:
            made["module"] = item.function.module
    if item.name is not None:
        made["name"] = item.name
    if item.values is not None:
        made["values"] = {name: _plain(value) for name, value in item.values.items()}
    elif record.payload is not None:
        made["payload"] = record.payload.hex()
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value


def kinds_of(name: str) -> Kinds:
    """The record classes that a name stands for.

    Raises:
        FxtioError: it stands for none.
    """
    wanted = name.lower()
    if wanted in ("unknown", "opaque"):
        return frozenset({Opaque})
    known = {cls.__name__.lower(): cls for cls in CLASSES.values()}
    if wanted not in known:
        raise FxtioError(f"no record type {name!r}; there are {', '.join(cls.__name__ for cls in CLASSES.values())}")
    return frozenset({known[wanted]})
