"""Measure how fast FXT is converted to the formats of other tools, and how fast these are read.

    python benchmarks/bench_exchange.py                 # about two minutes
    python benchmarks/bench_exchange.py --markdown

The workload is that of `bench_fxt.py`: 2,000,000 spans with two arguments on 8 threads.  OTLP, which is far slower to
read, has a tenth of it.  A span in a Perfetto trace is two events, which are counted as one here.  Perfetto itself
needs the `test` extra and Node.js.  Every figure is the best of several rounds.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from bench_fxt import EVENTS, perfetto_import, write
from harness import best, show

import fxtio
from fxtio.exchange import exchanges
from fxtio.exchange.convert import convert
from fxtio.timeline.answers import top
from fxtio.timeline.stacks import SliceStacks

SOME = EVENTS // 10
FORMATS = {
    "parquet": EVENTS,
    "arrow": EVENTS,
    "csv": EVENTS,
    "collapsed": EVENTS,
    "pprof": EVENTS,
    "speedscope": EVENTS,
    "cpuprofile": EVENTS,
    "chrome": EVENTS,
    "perfetto": EVENTS,
    "otlp": SOME,
}
PERFETTO_READS = ("chrome", "perfetto")
RANKED = (*PERFETTO_READS, "speedscope", "otlp")
ROUNDS = 3


class Slices:
    """Takes all slices and does nothing with them."""

    TABLES = ("slices", "args")

    def __init__(self, registry: object) -> None:
        pass

    def enter(self, tables: object) -> None:
        pass


def exported(source: Path, target: Path, name: str) -> None:
    """Convert a trace; what an earlier round wrote is replaced."""
    shutil.rmtree(target, ignore_errors=True)
    convert(fxtio.open_timeline(source), target, to=name)


def imported(path: Path) -> object:
    """Read a file."""
    return fxtio.open_timeline(path).tables("slices", "args")


def ranked(path: Path) -> object:
    """Rank the functions of a file, for which its arguments are not needed."""
    return top(fxtio.open_timeline(path))


def run(folder: Path) -> list[tuple[str, str, str]]:
    """Return the rows of the result: what, events per second, and a remark."""
    sources = {}
    for events in (EVENTS, SOME):
        sources[events] = folder / f"{events}.fxt"
        write(sources[events], events)
    rows = []

    def measured(what: str, events: int, seconds: float, remark: str = "") -> None:
        rows.append((what, f"{events / seconds / 1e6:.2f} M events/s", remark))

    for make, what in ((Slices, "read slices and arguments"), (SliceStacks, "sum up slices by stack")):
        seconds = best(partial(fxtio.open_timeline(sources[EVENTS]).fold, make, *make.TABLES), ROUNDS)
        measured(what, EVENTS, seconds)
    for name, events in FORMATS.items():
        target = folder / f"out.{name}"
        seconds = best(partial(exported, sources[events], target, name), ROUNDS)
        files = target.iterdir() if target.is_dir() else [target]
        size = sum(path.stat().st_size for path in files)
        measured(f"FXT to {name}", events, seconds, f"{size / 1e6:,.0f} MB")
        if exchanges()[name].imports and name not in ("collapsed", "pprof"):  # these have only a few stacks
            seconds = best(partial(imported, target), ROUNDS)
            measured(f"read {name}", events, seconds)
        if name in RANKED:
            seconds = best(partial(ranked, target), ROUNDS)
            measured(f"top of {name}", events, seconds)
        if name in PERFETTO_READS and (peer := perfetto_import(target)) is not None:  # as ready to be asked
            measured("Perfetto, import of the same file", events, peer, f"{peer / seconds:.1f} times slower")
    return rows


if __name__ == "__main__":
    show("formats of other tools", run, "remark")
