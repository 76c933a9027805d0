"""What the commands tell about FXT traces, see `fxtio.formats.Presenter`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from fxtio.codec.record import Record
from fxtio.errors import FxtioError
from fxtio.fxt.describe import explain
from fxtio.fxt.present_lines import json_objects, text_lines
from fxtio.fxt.present_shapes import SHAPES
from fxtio.fxt.present_stats import stats
from fxtio.fxt.reader import FxtTrace, Info
from fxtio.fxt.records import RECORDS
from fxtio.present import Report, ReportTable, human_duration, human_size, json_text, seconds

__all__ = ["SHAPES", "explain", "info", "json_objects", "kinds_of", "stats", "synth", "text_lines"]

SHOWN_NAMES = 20
"""How many processes, and how many threads, are listed; the JSON has all."""


def info(trace: FxtTrace) -> Report:
    """What is inside a trace."""
    info = trace.info
    return Report(info.name, [*_facts(info)], [*_tables(info)], json=_json(info))


def _facts(info: Info) -> Iterator[tuple[str, str]]:
    packed = f", {info.compression}" if info.compression else ""
    yield "format", f"{info.format}, {info.byte_order}-endian{packed}"
    yield "size", f"{human_size(info.size)}{' decompressed' if packed else ''}"
    yield "records", f"{info.records.total():,}"
    if info.start is not None and info.end is not None:
        times = f"from {seconds(info.start)} s to {seconds(info.end)} s"
        yield "duration", f"{human_duration(info.end - info.start)}, {times}"
    if info.started_at is not None:
        yield "started", f"{info.started_at:%Y-%m-%d %H:%M:%S.%f} UTC"


def _tables(info: Info) -> Iterator[ReportTable]:
    yield ReportTable([">records", "class"], [(number, name) for name, number in info.records.most_common()])
    rows = [(str(one.id), one.records, one.clock.ticks_per_second, one.name) for one in info.providers]
    yield ReportTable([">provider", ">records", ">ticks/s", "name"], rows)
    for title, names in (("process", info.processes), ("thread", info.threads)):
        if names:
            shown = [(str(koid), name) for koid, name in islice(names.items(), SHOWN_NAMES)]
            yield ReportTable([f">{title}", "name"], shown, len(names) - len(shown))


def _json(info: Info) -> dict[str, Any]:
    providers = [
        {
            "id": one.id,
            "name": json_text(one.name),
            "records": one.records,
            "ticks_per_second": one.clock.ticks_per_second,
            "base_ticks": one.clock.base_ticks,
            "wall_clock": one.clock.wall_clock,
        }
        for one in info.providers
    ]
    return {
        "name": json_text(info.name),
        "format": info.format,
        "byte_order": info.byte_order,
        "compression": info.compression,
        "size": info.size,
        "start": info.start,
        "end": info.end,
        "started_at": info.started_at and info.started_at.isoformat(),
        "records": dict(info.records),
        "providers": providers,
        "processes": [{"koid": koid, "name": json_text(name)} for koid, name in info.processes.items()],
        "threads": [{"koid": koid, "name": json_text(name)} for koid, name in info.threads.items()],
    }


def kinds_of(name: str) -> frozenset[int]:
    """The kinds of records that a name stands for: a class's own, or that of a family such as `Event`.

    Raises:
        FxtioError: it stands for none.
    """
    wanted = _folded(name)
    if wanted in ("unknown", "opaque"):
        return frozenset({-1})
    names = [{_folded(base.__name__) for base in cls.__mro__ if issubclass(base, Record)} for cls in RECORDS.classes]
    found = frozenset(kind for kind, known in enumerate(names) if wanted in known)
    if not found or len(found) == len(names):
        raise FxtioError(f"no record type {name!r}; there are {', '.join(cls.__name__ for cls in RECORDS.classes)}")
    return found


def _folded(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def synth(
    target: Any,
    shape: str,
    *,
    events: int | None,
    size: int | None,
    threads: int | None,
    seed: int,
    progress: Callable[[int, int | None], None],
) -> tuple[int, int]:
    """Write a synthetic trace.

    Args:
        target: where to, see `fxtio.create`.
        shape: one of `SHAPES`.
        events: about how many events; or
        size: about how many bytes, before compression.
        threads: on how many threads; None for what is usual for the shape.
        seed: another seed, another trace.
        progress: called now and then with the events or bytes so far, and all of them.

    Returns:
        How many events, and how many bytes.
    """
    from fxtio.fxt.writer import FxtWriter
    from fxtio.testing import synth as shapes

    amount: shapes.Amount = {"events": events, "size": size, "seed": seed, "progress": progress}
    if threads is not None:
        amount["threads"] = threads
    with FxtWriter(target, provider="fxtio synth") as writer:
        written = shapes.SHAPES[shape](writer, **amount)
    return written, writer.position
