"""Canonical JSON of DCPI profiles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fxtio.conformance.canonical.values import parsed_text, shown_text
from fxtio.dcpi.reader import DcpiTrace
from fxtio.dcpi.records import Chunk, Footer, Line, MoreCounts, Record, Terminator
from fxtio.dcpi.writer import DcpiWriter
from fxtio.errors import EncodeError

Json = dict[str, Any]


def records(trace: DcpiTrace) -> list[Json]:
    """Return the canonical records of a profile.

    Raises:
        OSError: the profile cannot be read.
    """
    result: list[Json] = []
    for record in trace.records():
        if isinstance(record, MoreCounts):
            result[-1]["counts"] += map(str, record.counts)
        elif not isinstance(record, Terminator):
            shown = _shown(record)
            result += [] if shown is None else [shown]
    return result


def _shown(record: Any) -> Json | None:
    """Return the canonical form of a record, or None for what has none."""
    if isinstance(record, Line):
        value = record.value.encode("ascii", "surrogateescape").decode("utf-8", "surrogateescape")
        return {"type": "line", "word": record.word, "value": shown_text(value)}
    if isinstance(record, Chunk):
        return {"type": "chunk", "offset": str(record.text_offset), "counts": list(map(str, record.counts))}
    if isinstance(record, Footer):
        totals = {"total_offsets": str(record.total_offsets), "total_samples": str(record.total_samples)}
        return {"type": "footer", **totals}
    return None


def write(records: Sequence[Json], path: Path) -> None:
    """Write a profile that contains these canonical records.

    Raises:
        EncodeError: the format cannot express a record.
        OSError: the profile cannot be written.
    """
    with DcpiWriter(path) as writer:
        in_header = True
        for record in records:
            if in_header and record["type"] != "line":
                in_header = False
                writer.put(Terminator())
            writer.put(_parsed(record))
        if in_header:
            writer.put(Terminator())


def _parsed(record: Json) -> Record:
    """Return the record of a canonical form."""
    if record["type"] == "line":
        value = parsed_text(record["value"]).encode("utf-8", "surrogateescape")
        return Line(record["word"], value.decode("ascii", "surrogateescape"))
    if record["type"] == "chunk":
        return Chunk(int(record["offset"]), tuple(map(int, record["counts"])))
    if record["type"] == "footer":
        return Footer(int(record["total_offsets"]), int(record["total_samples"]))
    raise EncodeError(f"there is no record {record['type']!r}", "type")
