"""Helpers that write, merge and compare traces."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

import fxtio
from fxtio.codec.generate import encode
from fxtio.codec.parts import Number
from fxtio.codec.record import Opaque, Record, layout_of
from fxtio.fxt import records as r
from fxtio.fxt.layout import MAGIC
from fxtio.fxt.merge import Merged, merge_to
from fxtio.fxt.reader import FxtTrace
from fxtio.io.sink import open_sink

SECOND = 10**9
START_TIME = 1_700_000_000 * SECOND
FRAME = (r.Magic, r.ProviderInfo, r.ProviderSection, r.ProviderEvent)


def joined(*traces: bytes) -> tuple[bytes, list[FxtTrace], Merged]:
    """Merge traces; return the merged trace, the opened traces with their findings, and the counts."""
    out = io.BytesIO()
    opened = [fxtio.open(trace, format="fxt") for trace in traces]
    merged = merge_to(opened, open_sink(out))
    return out.getvalue(), opened, merged


def trace_of(*records: Any) -> bytes:
    return MAGIC + b"".join(map(encode, records))


def records_of(data: bytes) -> list[Any]:
    with fxtio.open(data, format="fxt") as trace:
        return list(trace)


def rules(trace: FxtTrace) -> dict[str, int]:
    return dict(trace.findings.counts)


def ticks_of(record: Any) -> list[str]:
    """Return the fields of a record that are ticks, as the declaration says."""
    if not isinstance(record, Record):
        return []
    parts = layout_of(type(record)).parts
    return [name for name, part in parts if isinstance(part, Number) and part.tick]


def without_times(records: Iterable[Any]) -> list[str]:
    """Return the records without times; leave out frame records and strings of slot 0.

    Records are returned as text, in which NaN equals NaN.
    """
    return [
        repr(record if isinstance(record, Opaque) else record.replace(**dict.fromkeys(ticks_of(record), 0)))
        for record in records
        if not isinstance(record, FRAME) and not (isinstance(record, r.String) and record.index == 0)
    ]


def written(clock: dict[str, int], ticks: Sequence[int], provider_id: int) -> bytes:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt", provider_id=provider_id, **clock) as writer:
        track = writer.thread(provider_id, 7)
        for number, tick in enumerate(ticks):
            track.complete(f"span {number % 3}", tick, tick + number, category="c", args={"n": number, "text": "x" * 9})
            track.counter("count", tick, {"value": number})
            track.instant("moment", tick)
            track.log("message", tick)
    return out.getvalue()


def readable_records(data: bytes) -> list[str]:
    """Return the readable records that a merge must not change."""
    return without_times(record for record in records_of(data) if isinstance(record, Record))
