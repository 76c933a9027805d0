"""The check of all rules of CoreProfiler traces; `consistency` has those that readers report."""

from __future__ import annotations

from fxtio.coreprofiler.reader import CoreProfilerTrace


def check(trace: CoreProfilerTrace) -> None:
    """Read a trace once, in bounded memory, and add a finding for each fault to `trace.findings`.

    Raises:
        DecodeError: in strict mode, at the first fault.
    """
    trace.watch(None)
