"""Records as JSON: for people, and in the canonical form, from which profiles are written as well."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fxtio.codec.canonical import (
    Json,
    described_entries,
    parsed_record,
    parsed_text,
    shown,
    shown_record,
    shown_text,
    type_of,
)
from fxtio.codec.record import Opaque
from fxtio.dcpi.reader import DcpiTrace
from fxtio.dcpi.records import Chunk, Footer, Line, MoreCounts, Terminator
from fxtio.dcpi.writer import DcpiWriter
from fxtio.errors import EncodeError

_CLASSES: dict[str, type[Any]] = {type_of(cls): cls for cls in (Chunk, Footer)}


json_objects = described_entries


def records(trace: DcpiTrace) -> list[Json]:
    """Return the canonical records of a profile.

    Raises:
        OSError: the profile cannot be read.
    """
    result: list[Json] = []
    for record in trace.records():
        if isinstance(record, MoreCounts):
            result[-1]["counts"] += shown(record.counts)
        elif isinstance(record, Line):
            value = record.value.encode("ascii", "surrogateescape").decode("utf-8", "surrogateescape")
            result.append({"type": type_of(Line), "word": record.word, "value": shown_text(value)})
        elif not isinstance(record, Terminator | Opaque):
            result.append(shown_record(record))
    return result


def write(records: Sequence[Json], path: Path) -> None:
    """Write a profile that contains these canonical records.

    Raises:
        EncodeError: the format cannot express a record.
        OSError: the profile cannot be written.
    """
    with DcpiWriter(path) as writer:
        in_header = True
        for form in records:
            is_line = form["type"] == type_of(Line)
            if in_header and not is_line:
                in_header = False
                writer.put(Terminator())
            if is_line:
                value = parsed_text(form["value"]).encode("utf-8", "surrogateescape")
                writer.put(Line(form["word"], value.decode("ascii", "surrogateescape")))
            elif form["type"] in _CLASSES:
                writer.put(parsed_record(_CLASSES[form["type"]], form))
            else:
                raise EncodeError(f"there is no record {form['type']!r}", "type")
        if in_header:
            writer.put(Terminator())
