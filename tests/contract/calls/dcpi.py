"""Calls of the DCPI writer."""

from __future__ import annotations

from typing import Any

from contract.calls.case import Call, Opened
from fxtio.dcpi import records as r
from fxtio.dcpi.writer import DcpiWriter
from fxtio.synth.dcpi import HEADER

OPTIONS: list[dict[str, Any]] = [{"header": dict(HEADER)}]
WRITERS: list[dict[str, Any]] = [{}]
FINDINGS = frozenset({"dcpi.footer.overflow"})  # a sum that the format cannot express is written modulo 2**32
WRITES_NOTHING = frozenset({"DcpiWriter.flush"})
UNCHECKED = frozenset({"DcpiWriter.put"})
IGNORED = frozenset[str]()


def begin(writer: DcpiWriter) -> Opened:
    """Write a chunk."""
    writer.chunk(8, [5, 6])
    return Opened(writer)


def end(opened: Opened) -> None:
    """Write a chunk far after the others."""
    opened.writer.chunk(2**32 - 64, [7])


def use(opened: Opened, call: Call, result: Any) -> None:
    """Do nothing: methods return numbers."""


def calls(opened: Opened) -> list[Call]:
    """Return at least one valid call of each public method."""
    writer = opened.writer
    return [
        Call(writer, "flush"),
        Call(writer, "put", r.Chunk(64, (2, 3))),
        Call(writer, "chunk", 64, [2, 3]),
        Call(writer, "write_table", "samples", {"text_offset": [64, 128], "count": [2, 3]}),
    ]
