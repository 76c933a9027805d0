"""Reports and lines that the commands print about DCPI profiles."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import numpy as np

from fxtio.codec import show
from fxtio.dcpi.frames import Segments
from fxtio.dcpi.reader import DcpiTrace
from fxtio.readers import Entry
from fxtio.report import Report, ReportTable, counted, human_size, summary_of

info = summary_of


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
    """Return records as lines of text, see `fxtio.codec.show`."""
    return show.text_lines(entries)
