"""Reports and lines that the commands print about DCPI profiles."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from fxtio.codec.record import Opaque
from fxtio.dcpi.frames import Segments
from fxtio.dcpi.reader import DcpiTrace, Entry, Info
from fxtio.dcpi.records import Chunk, Line, MoreCounts, Record, Terminator
from fxtio.report import Report, ReportTable, counted, human_size, quoted

_SHOWN_COUNTS = 16
_SHOWN_BYTES = 32


def info(trace: DcpiTrace) -> Report:
    """Return the summary of a profile."""
    return replace(trace.info.report(), json=_info_json(trace.info))


def _info_json(summary: Info) -> dict[str, Any]:
    sums = ("chunks", "counts", "addresses", "samples", "mergeable", "padded")
    return summary.as_json() | {
        "header": [{"word": line.word, "value": summary.header.value_of(line)} for line in summary.header.lines],
        "is_opaque": summary.is_opaque,
        **{name: getattr(summary, name) for name in sums},
    }


def stats(trace: DcpiTrace, top: int) -> Report:
    """Return the addresses with the most samples.

    Args:
        trace: the profile; all of it is read.
        top: how many addresses are listed.
    """
    largest: list[tuple[int, int]] = []  # samples, and the negative offset, so that the first of equal ones wins

    def add(block: Segments) -> None:
        offsets, counts = block.samples()
        if len(counts) > top:
            rows = np.argsort(-counts.astype(np.int64), kind="stable")[:top]
            offsets, counts = offsets[rows], counts[rows]
        pairs = zip(counts.tolist(), (-offsets).tolist(), strict=True)
        largest[:] = heapq.nlargest(top, [*largest, *pairs])

    summary = trace.watch(add)
    start = summary.header.text_start
    headers = [">samples", ">share", ">offset", ">address"]
    rows = [
        (count, f"{100 * count / summary.samples:.1f}%", f"{-negative:#x}",
         "-" if start is None else f"{start - negative:#x}")
        for count, negative in largest
    ]  # fmt: skip
    samples, chunks = counted(summary.samples, "sample"), counted(summary.chunks, "chunk")
    title = f"{summary.name}: {samples}, {chunks}, {human_size(summary.size)}"
    addresses = [
        {"text_offset": -negative, "address": None if start is None else start - negative, "count": count}
        for count, negative in largest
    ]
    json = {
        "samples": summary.samples,
        "addresses": summary.addresses,
        "chunks": summary.chunks,
        "bytes": summary.size,
        "largest": addresses,
    }
    table = ReportTable(headers, rows, summary.addresses - len(rows))
    return Report(title, tables=[table] if rows else [], notes=summary.report().notes, json=json)


def text_lines(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield a line of text for each record: byte offset, class, then the fields."""
    for entry in entries:
        name = type(entry.record).__name__
        yield f"{entry.offset:>10}  {name:<10}  {_fields_text(entry.record)}".rstrip()


def _fields_text(record: Record) -> str:
    if isinstance(record, Line):
        return f"{quoted(record.word)[1:-1]} {quoted(record.value)}"
    if isinstance(record, Terminator):
        return f"padding={len(record.padding)}"
    if isinstance(record, Opaque):
        more = "..." if len(record.raw) > _SHOWN_BYTES else ""
        return f"({counted(len(record.raw), 'byte')}) {record.raw[:_SHOWN_BYTES].hex(' ', 8)}{more}"
    if isinstance(record, Chunk | MoreCounts):
        more = ", ..." if len(record.counts) > _SHOWN_COUNTS else ""
        counts = f"({len(record.counts):,}) [{', '.join(map(str, record.counts[:_SHOWN_COUNTS]))}{more}]"
        return f"text_offset={record.text_offset:#x} {counts}" if isinstance(record, Chunk) else counts
    return " ".join(f"{name}={value}" for name, value in msgspec.structs.asdict(record).items())
