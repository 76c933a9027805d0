"""What Perfetto and fxtio see in a trace, as values that can be compared between formats."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from judges import perfetto


class View(NamedTuple):
    """A trace as Perfetto shows it.

    Attributes:
        slices: spans and instants: start, duration, depth, name, category, arguments, pid, tid.
        asyncs: those on tracks of no thread.
        counters: time, value and pid of each sample.
        flows: the names and times of both ends of each arrow.
        threads: pid, tid and name of threads with a name.
        processes: pid and name of processes with a name.
    """

    slices: Counter[Any]
    asyncs: Counter[Any]
    counters: Counter[Any]
    flows: Counter[Any]
    threads: set[Any]
    processes: set[Any]


def perfetto_view(trace: Path | bytes) -> View:
    """Return what Perfetto shows of a trace; it must not report errors."""
    with perfetto.load(trace) as p:
        assert p.errors() == {}
        slices, asyncs = Counter[Any](), Counter[Any]()
        for each in p.slices():
            args = {key.removeprefix("args.").removeprefix("debug."): value for key, value in each.args.items()}
            hidden = ("legacy_event.", "slice.")
            shown = tuple(sorted((key, str(value)) for key, value in args.items() if not key.startswith(hidden)))
            row = (each.ts, each.dur, each.depth, each.name, each.category or "", shown)
            if each.tid is None:
                asyncs[row] += 1
            else:
                slices[(*row, each.pid, each.tid)] += 1
        counters = Counter((each.ts, each.value, each.pid) for each in p.counters())
        flows = Counter((each.name_out, each.name_in, each.ts_out, each.ts_in) for each in p.flows())
        threads = {(each.pid, each.tid, each.name) for each in p.threads() if each.name}
        processes = {(each.pid, each.name) for each in p.processes() if each.name}
    return View(slices, asyncs, counters, flows, threads, processes)
