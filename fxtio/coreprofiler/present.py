"""What the commands tell about CoreProfiler traces, see `fxtio.formats.Presenter`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from fxtio.codec.record import Opaque
from fxtio.coreprofiler.describe import explain
from fxtio.coreprofiler.layout import Item, OsThread
from fxtio.coreprofiler.lines import form_of
from fxtio.coreprofiler.parts import Compound
from fxtio.coreprofiler.present_stats import stats
from fxtio.coreprofiler.reader import CoreProfilerTrace, Entry, Info
from fxtio.coreprofiler.records import RECORDS
from fxtio.coreprofiler.simulator import SHAPES
from fxtio.coreprofiler.simulator import write as synth
from fxtio.errors import FxtioError
from fxtio.present import Report, ReportTable, human_duration, human_size, json_text, quoted, seconds

__all__ = ["SHAPES", "explain", "info", "json_objects", "kinds_of", "stats", "synth", "text_lines"]

_SHOWN_BYTES = 60
_SHOWN_ITEMS = 12


def info(trace: CoreProfilerTrace) -> Report:
    """What is inside a trace."""
    told = trace.info
    return Report(told.name, [*_facts(told)], [*_tables(told)], json=_info_json(told))


def _facts(told: Info) -> Iterator[tuple[str, str]]:
    packed = f", {told.compression}" if told.compression else ""
    yield "format", f"{told.format}{packed}"
    yield "size", f"{human_size(told.size)}{' decompressed' if packed else ''}"
    yield "records", f"{told.records.total():,}"
    if told.start is not None and told.end is not None:
        times = f"from {seconds(told.start)} s to {seconds(told.end)} s"
        yield "duration", f"{human_duration(told.end - told.start)}, {times}"
    if told.started_at is not None:
        yield "started", f"{told.started_at.isoformat(sep=' ', timespec='milliseconds')} local time"
    forms = ", ".join(f"{name} {form}" for name, form in told.style.forms.items())
    ends = "CRLF" if told.style.newline == "\r\n" else "LF"
    yield "style", f"{forms}; lines end with {ends}{', byte-order mark' if told.style.mark else ''}"


def _tables(told: Info) -> Iterator[ReportTable]:
    yield ReportTable([">records", "class"], [(number, name) for name, number in told.records.most_common()])
    if told.config:
        yield ReportTable(["parameter", "value"], [*told.config.items()])
    if told.threads:
        shown = [(_iid(iid), "-" if os is None else str(os)) for iid, os in [*told.threads.items()][:20]]
        yield ReportTable([">thread", ">system"], shown, len(told.threads) - len(shown))


def _iid(value: int | None) -> str:
    return "?" if value is None else f"{value:#x}"


def _info_json(told: Info) -> dict[str, Any]:
    line = told.timeline
    return {
        "name": json_text(told.name),
        "format": told.format,
        "compression": told.compression,
        "size": told.size,
        "start": told.start,
        "end": told.end,
        "started_at": told.started_at and told.started_at.isoformat(),
        "style": {"forms": told.style.forms, "newline": told.style.newline, "mark": told.style.mark},
        "records": dict(told.records),
        "config": {name: json_text(value) for name, value in told.config.items()},
        "threads": [{"thread": iid, "system": os} for iid, os in told.threads.items()],
        "intervals": {name: {"count": line.counts[name], "ms": line.durations[name]} for name in line.counts},
        "process_cpu_us": line.process_cpu,
    }


def text_lines(entries: Sequence[Entry]) -> Iterator[str]:
    """Records as lines of text: byte offset, time in seconds, class, then what is in it."""
    for entry in entries:
        when = "" if entry.time is None else seconds(entry.time)
        name = type(entry.record).__name__
        yield f"{entry.offset:>10}  {when:>14}  {name:<18}  {_shown(entry.record)}".rstrip()


def _shown(record: Any) -> str:
    if isinstance(record, Opaque):
        more = "..." if len(record.raw) > _SHOWN_BYTES else ""
        return f"{quoted(record.raw[:_SHOWN_BYTES].decode('utf-8', 'surrogateescape'))}{more}"
    items = _items_of(type(record))
    fields = [(name, getattr(record, name)) for name in record.__struct_fields__ if name != "timestamp"]
    return " ".join(f"{name}={_value(value, items.get(name))}" for name, value in fields if value not in (None, ()))


def _items_of(cls: type[Any]) -> dict[str, Item]:
    return {part.name: part.item for part in form_of(cls).parts}


def _value(value: Any, item: Item | None) -> str:
    if item is not None and not isinstance(value, str | datetime):
        return item.told(value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, tuple):
        more = f", ... {len(value):,} in all" if len(value) > _SHOWN_ITEMS else ""
        return f"[{', '.join(_member(one) for one in value[:_SHOWN_ITEMS])}{more}]"
    return str(value)


def _member(one: Any) -> str:
    if not isinstance(one, Compound):
        return "t" if one else "f"
    items = _items_of(type(one))
    values = [(name, getattr(one, name)) for name in one.__struct_fields__]
    # Of optional parts, only the last one of a compound can be missing.
    return ":".join(
        quoted(v) if isinstance(v, str) else items[n].told(v) for n, v in values if v is not None or n != "ip"
    )


def json_objects(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Records as JSON objects: `offset`, `type` (the class), `time` (nanoseconds or null), then the fields."""
    made = []
    for entry in entries:
        fields = msgspec.structs.asdict(entry.record)
        if "raw" in fields:
            fields["raw"] = fields["raw"].hex()
        moment = fields.pop("time", None)  # the field of one class; the others have a time only as `time`
        if moment is not None:
            fields["started_at"] = moment.isoformat()
        if isinstance(fields.get("thread"), OsThread):
            fields["thread"] = {"system": fields["thread"].number}
        plain = {name: _plain(value) for name, value in fields.items()}
        made.append({"offset": entry.offset, "type": type(entry.record).__name__, "time": entry.time, **plain})
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [msgspec.structs.asdict(one) if isinstance(one, Compound) else one for one in value]
    return value


def kinds_of(name: str) -> frozenset[type[Any]]:
    """The classes of records that a name, or a type and subtype, stands for.

    Raises:
        FxtioError: it stands for none.
    """
    wanted = name.lower().replace("_", "").replace("-", "")
    if wanted in ("unknown", "opaque"):
        return frozenset({Opaque})
    classes: tuple[type[Any], ...] = RECORDS
    found = frozenset(cls for cls in classes if wanted in (cls.__name__.lower(), cls.tag, cls.tag.replace(" ", "")))
    if not found:
        raise FxtioError(f"no record type {name!r}; there are {', '.join(cls.__name__ for cls in classes)}, Unknown")
    return found
