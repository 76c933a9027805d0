"""The tables that come from the small files of a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fxtio.codec.names import Names
from fxtio.finding import Findings
from fxtio.table import Categories, Table
from fxtio.uftrace import kernel
from fxtio.uftrace.events import EXTERN_FILE, ExternFile
from fxtio.uftrace.symbols import SymbolFile

if TYPE_CHECKING:
    from fxtio.uftrace.reader import UftraceTrace


_FUNCTIONS = (kernel.FUNCTION_ENTRY, kernel.FUNCTION_EXIT)


def _texts(texts: list[str]) -> Categories:
    names = Names()
    return Categories(np.array([names.code(text) for text in texts], np.int32), names.values)


def _integers(values: list[int]) -> Any:
    return np.array([min(value, 2**63 - 1) for value in values], np.int64)


def tasks(trace: UftraceTrace) -> Table:
    """The tasks that have a file: their processes, and the last program of these."""
    sessions = trace.sessions(Findings())
    tids = trace.tids
    pids = [sessions.process_of(tid) for tid in tids]
    return Table(
        {
            "tid": _integers(tids),
            "pid": _integers(pids),
            "program": _texts([sessions.names.get(pid, "") for pid in pids]),
        }
    )


def sched(trace: UftraceTrace) -> Table:
    """What the scheduler did, in the order of time."""
    found = sorted(trace.perf_events(trace.findings), key=lambda one: one[1].time)
    return Table(
        {
            "time": _integers([event.time for _, event in found]),
            "cpu": _integers([cpu for cpu, _ in found]),
            "pid": _integers([event.pid for _, event in found]),
            "tid": _integers([event.tid for _, event in found]),
            "kind": _texts([event.kind for _, event in found]),
            "name": _texts([event.comm for _, event in found]),
        }
    )


def messages(trace: UftraceTrace) -> Table:
    """The messages of `extern.dat`."""
    file = ExternFile.parse(trace.directory.read(EXTERN_FILE), trace.findings)
    return Table(
        {"time": _integers([time for time, _ in file.messages]), "text": _texts([text for _, text in file.messages])}
    )


def kernel_table(trace: UftraceTrace) -> Table:
    """What the kernel traced, in the order of time."""
    found = sorted(trace.kernel_events(trace.findings), key=lambda one: one[1].time)
    symbols = SymbolFile.parse(trace.directory.read(kernel.SYMBOLS_FILE), kernel.SYMBOLS_FILE, Findings())
    begin, end, names = symbols.ranges()
    functions = [int(event.values.get("func", 0)) if event.name in _FUNCTIONS else 0 for _, event in found]
    address = np.array(functions, np.uint64)
    rows = np.searchsorted(begin, address, "right") - 1 if len(begin) else np.full(len(address), -1)
    known = (rows >= 0) & (address < end[np.maximum(rows, 0)]) if len(begin) else rows >= 0
    named = [names[row].name if good else "" for row, good in zip(rows.tolist(), known.tolist(), strict=True)]
    return Table(
        {
            "time": _integers([event.time for _, event in found]),
            "cpu": _integers([cpu for cpu, _ in found]),
            "tid": _integers([event.tid for _, event in found]),
            "id": _integers([event.id for _, event in found]),
            "name": _texts([event.name for _, event in found]),
            "address": address,
            "function": _texts(named),
            "depth": _integers([int(event.values.get("depth", 0)) for _, event in found]),
        }
    )


STATIC: dict[str, Callable[[UftraceTrace], Table]] = {
    "tasks": tasks,
    "sched": sched,
    "kernel": kernel_table,
    "messages": messages,
}
"""The tables by name."""
