"""Measure how fast fxtio makes timelines and answers of FXT traces, beside Perfetto, all in one run.

    python benchmarks/bench_timeline.py                 # about three minutes
    python benchmarks/bench_timeline.py --markdown      # as the table that is in docs/explanation/speed.md

The workload is begins and ends of calls that nest three deep, on 8 threads, with 64 names.  One file has 2,000,000
events, and two arguments (a 32-bit integer, a string) with every begin; the other one 10,000,000 events without.
Every figure is the best of several rounds on one core; Perfetto needs the `test` extra and Node.js.  Perfetto answers
the question of `fxtio top` without percentiles, which its SQL does not have.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from harness import best, peak_memory, show

import fxtio
from fxtio import _native
from fxtio.timeline.answers import find, lanes, overview, top, tree

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

EVENTS = 2_000_000
MANY_EVENTS = 10_000_000
THREADS = 8
NAMES = [f"name {number}" for number in range(64)]
CALLS = np.array([1, 1, 1, -1, 1, -1, -1, -1])
"""Begins and ends: a call with one call within it, which has two."""

TOP = """
    with inner as (select parent_id as id, sum(dur) as inner_dur from slice group by parent_id)
    select name, count(*), sum(dur), sum(dur - ifnull(inner_dur, 0)) as self, min(dur), max(dur)
    from slice left join inner using (id) group by name order by self desc limit 20
"""
MEMORY = """
import sys, fxtio
from fxtio.timeline.answers import top
top(fxtio.open_timeline(sys.argv[1]))
"""


def write(path: Path, events: int, *, with_arguments: bool) -> None:
    """Write the workload's file with the bulk writer."""
    random = np.random.default_rng(1)
    with fxtio.create(path) as writer:
        tracks = [writer.thread(1, 100 + number, f"thread {number}", "benchmark") for number in range(THREADS)]
        time = 0
        for first in range(0, events, 1_000_000):
            count = min(1_000_000, events - first)
            times = time + np.cumsum(random.integers(1, 2000, count))
            time = int(times[-1])
            number = np.arange(count)
            step = CALLS[number // THREADS % len(CALLS)]
            begins, ends = np.flatnonzero(step > 0), np.flatnonzero(step < 0)
            names = random.integers(0, len(NAMES), count)
            groups = [
                {
                    "kind": kind,
                    "timestamp": times[rows],
                    "thread": (tracks, number[rows] % THREADS),
                    "name": (NAMES, names[rows]),
                    "category": "benchmark",
                }
                for kind, rows in (("duration_begin", begins), ("duration_end", ends))
            ]
            if with_arguments:
                label = (NAMES, names[begins])
                groups[0]["args"] = {"count": (number[begins] % 1000).astype(np.int32), "label": label}
            writer.main.write_mixed(*groups)


def slices(path: Path) -> None:
    """Make slices with depth, parent, self time, and arguments."""
    with fxtio.open_timeline(path) as timeline:
        timeline.tables("slices", "args")


def answers(path: Path) -> list[tuple[str, str, str]]:
    """Measure the other answers on a file."""
    with fxtio.open_timeline(path) as timeline:
        info = timeline.trace.info
        questions = {
            "fxtio tree": lambda: tree(timeline, share=0.01),
            "fxtio find, the 20 longest": lambda: find(timeline, limit=20),
            "fxtio timeline, 80 columns": lambda: lanes(timeline, info.start, info.end, 80),
            "what fxtio info adds": lambda: overview(timeline),
        }
        return [(f"{what}, 2 M events", rate(EVENTS, best(work, 3)), "") for what, work in questions.items()]


def perfetto_times(path: Path, sql: str | None) -> tuple[float, float] | None:
    """Return the seconds of Perfetto's import of a file and of a query."""
    from judges import perfetto

    if reason := perfetto.available():
        print(f"Perfetto is left out: {reason}", file=sys.stderr)
        return None
    return min(perfetto.timed_query(path, sql) for _ in range(2))


def run(folder: Path) -> list[tuple[str, str, str]]:
    """Measure everything: what, how much, beside Perfetto."""
    path, large = folder / "slices.fxt", folder / "large.fxt"
    write(path, EVENTS, with_arguments=True)
    write(large, MANY_EVENTS, with_arguments=False)
    slices(path)  # the machine's memory, once touched
    seconds = best(lambda: slices(path), 5)
    rows = [("slices with depth, parent, arguments", rate(EVENTS, seconds), f"kernels: {_native.IMPLEMENTATION}")]
    peer = perfetto_times(path, None)
    if peer is not None:
        rows.append(("Perfetto, import", rate(EVENTS, peer[0]), f"{peer[0] / seconds:.1f} times slower"))
    seconds = best(lambda: top(fxtio.open_timeline(large)), 3)
    rows.append(("fxtio top, 10 M events", f"{seconds:.2f} s", ""))
    peer = perfetto_times(large, TOP)
    if peer is not None:
        times = f"{peer[0]:.2f} s + {peer[1]:.2f} s"
        rows.append(("Perfetto, import and query, 10 M events", times, f"{sum(peer) / seconds:.1f} times slower"))
    rows.append(("peak memory of fxtio top, 10 M events", f"{peak_memory(MEMORY, str(large)) / 1e6:.0f} MB", ""))
    return rows + answers(path)


def rate(count: int, seconds: float) -> str:
    """Return the number of events per second."""
    return f"{count / seconds / 1e6:.2f} M events/s"


if __name__ == "__main__":
    show("timelines", run, "beside fxtio")
