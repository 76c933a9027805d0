"""Rules about the files of CPUs: scheduler events (`perf-cpu<N>.dat`) and kernel events (`kernel-cpu<N>.dat`)."""

from __future__ import annotations

import numpy as np

from fxtio.finding import Findings
from fxtio.uftrace import kernel, perf
from fxtio.uftrace.reading import Reading

MAX_DESCRIPTION = 4095
"""The largest number of bytes of a description of a kernel event that uftrace reads."""


def check_cpus(reading: Reading) -> None:
    """Check the events of all CPUs; the findings of the reading get the faults."""
    last: dict[str, int] = {}
    for name, block in reading.perf_blocks():
        last[name] = _check_perf(block, name, last.get(name, 0), reading.findings)
    _check_kernel(reading)


def _check_perf(block: perf.PerfBlock, name: str, last: int, findings: Findings) -> int:
    """Check a block of scheduler events; return the time of the last one."""
    used = block.kind != perf.OTHER
    wrong = np.flatnonzero(block.has_odd_size())
    if len(wrong):
        row = int(wrong[0])
        message = f"a record of the type {int(block.type[row])} has {int(block.size[row])} bytes"
        findings.add("perf.size", block.base + int(block.at[row]), message, times=len(wrong), file=name)
        used[wrong] = False
    rows = np.flatnonzero(used)
    if not len(rows):
        return last
    times = np.append(np.uint64(last), block.time[rows])
    back = rows[np.flatnonzero(times[1:] < times[:-1])]
    if len(back):
        offset = block.base + int(block.at[back[0]])
        findings.add("perf.time-backwards", offset, times=len(back), file=name)
    return int(times[-1])


def _check_kernel(reading: Reading) -> None:
    """Check the kernel events, and their descriptions."""
    findings = reading.findings
    names = [name for name in reading.directory.names if kernel.is_name(name)]
    if names and kernel.HEADER_FILE not in reading.directory:
        message = "there are kernel events, but no file that describes them"
        findings.add("kernel.no-header", 0, message, file=names[0])
    for offset, path, size in reading.kernel_header.placed_blocks():
        if size > MAX_DESCRIPTION:
            message = f"the description {path[:60]!r} has {size:,} bytes, more than {MAX_DESCRIPTION:,}"
            findings.add("kernel.long-description", offset, message, file=kernel.HEADER_FILE)
    last: dict[str, int] = {}
    _ = reading.kernel_functions  # parsed for its findings
    has_symbols = kernel.SYMBOLS_FILE in reading.directory
    for name, event in reading.kernel_events():
        if not event.name and kernel.HEADER_FILE in reading.directory:
            message = f"the event {event.id} is not described"
            findings.add("kernel.undescribed-event", event.offset, message, file=name)
        if event.time < last.get(name, 0):
            findings.add("kernel.time-backwards", event.offset, file=name)
        if event.is_call and not has_symbols:
            has_symbols = True  # reported once
            findings.add("kernel.no-symbols", event.offset, file=name)
        last[name] = event.time
