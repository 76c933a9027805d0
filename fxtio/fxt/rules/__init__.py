"""The rules that take more than one record to check; `conformance/rules/fxt.toml` describes them.

What one record shows, readers report whenever they read it.  `check` adds the rest: it reads the trace once, batch by
batch.  Each rule first asks of all records of a batch together whether anything is odd, and only then looks for the
places.  What is remembered between batches is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fxtio.fxt.rules.archive import Archive
from fxtio.fxt.rules.arguments import Arguments
from fxtio.fxt.rules.contents import Contents
from fxtio.fxt.rules.operations import Operations
from fxtio.fxt.rules.slots import Strings
from fxtio.fxt.rules.spans import Spans
from fxtio.fxt.rules.view import Keys, View

if TYPE_CHECKING:
    from fxtio.fxt.reader import FxtTrace


def check(trace: FxtTrace) -> None:
    """Read a trace once, and add all faults to `trace.findings`.

    Args:
        trace: the trace.

    Raises:
        DecodeError: in strict mode, at the first fault.
        OSError: the trace cannot be read.
    """
    archive, strings, spans, operations = Archive(), Strings(), Spans(), Operations()
    arguments, contents = Arguments(), Contents()
    keys = Keys()
    for batch in trace.record_batches(forget=True):
        view = View(batch, keys)
        for rules in (archive, strings, arguments, spans, operations, contents):
            rules.enter(view)
    findings = trace.findings
    for ending in (archive, strings, spans, operations, contents):
        ending.finish(findings)
