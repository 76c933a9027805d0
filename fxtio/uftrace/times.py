"""Findings about times that do not fit in the columns of tables, which hold nanoseconds as int64."""

from __future__ import annotations

import numpy as np

from fxtio.arrays import Array
from fxtio.finding import Findings
from fxtio.table import MAX_TIME


def report_overflow(findings: Findings, file: str, times: Array, offsets: Array) -> None:
    """Add a finding if some times do not fit.

    Args:
        findings: receives the finding.
        file: the name of the file.
        times: nanoseconds (uint64).
        offsets: the byte offsets of their records (int64).
    """
    over = np.flatnonzero(times > np.uint64(MAX_TIME))
    if len(over):
        add_overflow(findings, file, int(offsets[over[0]]), len(over))


def add_overflow(findings: Findings, file: str, offset: int, times: int = 1) -> None:
    """Add a finding about times that do not fit.

    Args:
        findings: receives the finding.
        file: the name of the file.
        offset: the byte offset of the first of them.
        times: how many there are.
    """
    message = "the time does not fit in 64-bit nanoseconds; it is taken for 2**63 - 1"
    findings.add("time.overflow", offset, message, times=times, file=file)
