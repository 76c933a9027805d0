"""Checks of readers that several targets share."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import msgspec

from fuzz.engine import require
from fxtio.errors import DecodeError
from fxtio.finding import Findings
from fxtio.formats import by_name

FEW = 20
"""If a rule has more findings, it depends on the size of blocks which of them are kept."""


def counts_and_places(findings: Findings) -> tuple[dict[str, int], list[tuple[str, str, int]]]:
    """Return the count of each rule, and rule, level and offset of the findings that do not depend on block sizes."""
    counts = dict(findings.counts)
    return counts, [
        (finding.rule, finding.severity.value, finding.offset) for finding in findings if counts[finding.rule] <= FEW
    ]


def check_strict(read: Callable[[], object], findings: Findings) -> None:
    """Check that strict reading raises one of the findings, and nothing if there are none."""
    raised = None
    try:
        read()
    except DecodeError as error:
        raised = (error.rule, error.offset)
    require((raised is not None) == bool(findings), "strict reading raises where there are findings")
    reported = {(finding.rule, finding.offset) for finding in findings}
    require(raised is None or raised in reported, "what strict reading raises is a finding")


def check_presented(trace: Any) -> bytes:
    """Check that everything that the commands print of a trace can be made.

    Returns:
        The bytes that `explain` annotates.
    """
    rooms = by_name(trace.format)
    for report in (rooms.report.info(trace), rooms.report.stats(trace, 3)):
        json.dumps(report.json, allow_nan=False)
    for raw in (False, True):
        entries = list(trace.entries(resolve=not raw))
        require(len(list(rooms.report.text_lines(entries))) == len(entries), "a line for each entry")
        for obj in rooms.canonical.json_objects(entries):
            with contextlib.suppress(UnicodeEncodeError):  # the command replaces what is no UTF-8
                msgspec.json.encode(obj)
    pieces = rooms.explain.explain(trace, record=None, offset=0, kinds=None)
    return b"".join(byte_range.raw for record in pieces for byte_range in record.ranges)
