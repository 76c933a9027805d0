"""What the commands tell about DCPI profiles, see `fxtio.formats.Presenter`."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from fxtio.codec.record import Opaque
from fxtio.dcpi import synth as shapes
from fxtio.dcpi.describe import explain
from fxtio.dcpi.framing import Segments
from fxtio.dcpi.reader import DcpiTrace, Entry, Info
from fxtio.dcpi.records import RECORDS, Chunk, Line, More, Record, Terminator
from fxtio.dcpi.synth import SHAPES
from fxtio.errors import FxtioError
from fxtio.present import Report, ReportTable, human_size, json_text, quoted

__all__ = ["SHAPES", "explain", "info", "json_objects", "kinds_of", "stats", "synth", "text_lines"]

_SHOWN_COUNTS = 16
_SHOWN_BYTES = 32


def info(trace: DcpiTrace) -> Report:
    """What is inside a profile."""
    told = trace.info
    rows = [(line.word, line.value) for line in told.header.lines]
    table = ReportTable(["word", "value"], rows)
    return Report(told.name, [*_facts(told)], [table], [*_notes(told)], _info_json(told))


def _facts(told: Info) -> Iterator[tuple[str, str]]:
    packed = f", {told.compression}" if told.compression else ""
    yield "format", f"{told.format}{packed}"
    yield "size", f"{human_size(told.size)}{' decompressed' if packed else ''}"
    if told.epoch is not None:
        yield "epoch", f"{told.epoch:%Y-%m-%d %H:%M:%S} UTC"
    if not told.opaque:
        yield "samples", f"{told.samples:,} at {told.addresses:,} addresses"
        yield "chunks", f"{told.chunks:,} with {told.counts:,} counts"
        if told.header.period:
            yield "events", f"about {told.samples * told.header.period:,} (samples times period)"


def _notes(told: Info) -> Iterator[str]:
    if told.mergeable:
        yield f"{told.mergeable:,} chunks begin where the one before them ends"
    if told.padded:
        yield f"{told.padded:,} chunks begin or end with an address without samples"


def _info_json(told: Info) -> dict[str, Any]:
    return {
        "name": json_text(told.name),
        "format": told.format,
        "compression": told.compression,
        "size": told.size,
        "records": dict(told.records),
        "epoch": told.epoch and told.epoch.isoformat(),
        "header": [{"word": json_text(line.word), "value": json_text(line.value)} for line in told.header.lines],
        "opaque": told.opaque,
        **{name: getattr(told, name) for name in ("chunks", "counts", "addresses", "samples", "mergeable", "padded")},
    }


def stats(trace: DcpiTrace, top: int) -> Report:
    """Where the samples are: the addresses with most of them."""
    largest: list[tuple[int, int]] = []  # samples, and the offset below zero, so that the first of equal ones wins

    def look(block: Segments) -> None:
        offsets, counts = block.samples()
        if len(counts) > top:
            rows = np.argsort(-counts.astype(np.int64), kind="stable")[:top]
            offsets, counts = offsets[rows], counts[rows]
        pairs = zip(counts.tolist(), (-offsets).tolist(), strict=True)
        largest[:] = heapq.nlargest(top, [*largest, *pairs])

    told = trace.watch(look)
    start = told.header.text_start
    headers = [">samples", ">share", ">offset", ">address"]
    rows = [
        (count, f"{100 * count / told.samples:.1f}%", f"{-below:#x}", "-" if start is None else f"{start - below:#x}")
        for count, below in largest
    ]
    title = f"{told.name}: {told.samples:,} samples, {told.chunks:,} chunks, {human_size(told.size)}"
    listed = [
        {"offset": -below, "address": None if start is None else start - below, "count": count}
        for count, below in largest
    ]
    json = {"samples": told.samples, "addresses": told.addresses, "chunks": told.chunks, "bytes": told.size}
    table = ReportTable(headers, rows, told.addresses - len(rows))
    return Report(title, tables=[table] if rows else [], notes=[*_notes(told)], json=json | {"largest": listed})


def text_lines(entries: Sequence[Entry]) -> Iterator[str]:
    """Records as lines of text: byte offset, class, then what is in it."""
    for entry in entries:
        name = type(entry.record).__name__
        yield f"{entry.offset:>10}  {name:<10}  {_shown(entry.record)}".rstrip()


def _shown(record: Record) -> str:
    if isinstance(record, Line):
        return f"{quoted(record.word)[1:-1]} {quoted(record.value)}"
    if isinstance(record, Terminator):
        return f"padding={len(record.padding)}"
    if isinstance(record, Opaque):
        more = "..." if len(record.raw) > _SHOWN_BYTES else ""
        return f"({len(record.raw):,} bytes) {record.raw[:_SHOWN_BYTES].hex(' ', 8)}{more}"
    if isinstance(record, Chunk | More):
        more = ", ..." if len(record.counts) > _SHOWN_COUNTS else ""
        counts = f"({len(record.counts):,}) [{', '.join(map(str, record.counts[:_SHOWN_COUNTS]))}{more}]"
        return f"offset={record.offset:#x} {counts}" if isinstance(record, Chunk) else counts
    return " ".join(f"{name}={value}" for name, value in msgspec.structs.asdict(record).items())


def json_objects(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Records as JSON objects: `offset` (of the record in the file), `type`, the fields; that of a chunk is `from`."""
    made = []
    for entry in entries:
        fields = msgspec.structs.asdict(entry.record)
        if "offset" in fields:
            fields = {"from": fields.pop("offset"), **fields}
        if "raw" in fields:
            fields["raw"] = fields["raw"].hex()
        made.append({"offset": entry.offset, "type": type(entry.record).__name__, **fields})
    return made


def kinds_of(name: str) -> frozenset[type[Any]]:
    """The classes of records that a name stands for.

    Raises:
        FxtioError: it stands for none.
    """
    classes: tuple[type[Any], ...] = (*RECORDS, Opaque)
    known = {"unknown": Opaque} | {cls.__name__.lower(): cls for cls in classes}
    if name.lower() not in known:
        raise FxtioError(f"no record type {name!r}; there are {', '.join(cls.__name__ for cls in RECORDS)}, Unknown")
    return frozenset({known[name.lower()]})


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
    """Write a synthetic profile, see `fxtio.dcpi.synth.write`.

    Raises:
        FxtioError: threads are asked for, of which a profile has none.
    """
    if threads is not None:
        raise FxtioError("a DCPI profile has no threads")
    return shapes.write(target, shape, events=events, size=size, seed=seed, progress=progress)
