"""Measure how fast fxtio reads and writes CoreProfiler traces.

    python benchmarks/bench_coreprofiler.py                 # about a minute
    python benchmarks/bench_coreprofiler.py --markdown

The traces are simulated, with 200,000 records each: stack samples with and without instruction pointers, and a mixture
of all records.  Every figure is the best of several rounds on one core.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from harness import best, peak_memory, show

from fxtio.coreprofiler import CoreProfilerTrace, CoreProfilerWriter, rules
from fxtio.coreprofiler.tables import TABLES

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.simulator import Simulator  # of the tests

RECORDS = 200_000

MEMORY = """
import sys
from fxtio.coreprofiler import CoreProfilerTrace
sum(tables["frames"].num_rows for tables in CoreProfilerTrace(sys.argv[1]).batches("samples", "frames"))
"""


def simulate(path: Path, shape: str, *, lines: bool) -> int:
    """Write a trace and return the number of its records."""
    with CoreProfilerWriter(path) as writer:
        simulator = Simulator(writer.put, shape=shape, threads=8, lines=lines)
        while simulator.records < RECORDS:
            simulator.step()
    return simulator.records


def drain(values: Iterable[object]) -> None:
    """Consume an iterator and drop the values."""
    deque(values, maxlen=0)


def rewrite(path: Path) -> Callable[[], None]:
    """Return a function that writes the records of a trace."""
    records = list(CoreProfilerTrace(path))

    def work() -> None:
        with CoreProfilerWriter(os.devnull) as writer:
            for record in records:
                writer.put(record)

    return work


def write_tables(path: Path) -> Callable[[], None]:
    """Return a function that writes the tables of a trace."""
    tables = CoreProfilerTrace(path).tables(*CoreProfilerWriter.writable_tables)

    def work() -> None:
        with CoreProfilerWriter(os.devnull) as writer:
            for name, table in tables.items():
                writer.write_table(name, table)

    return work


def run(folder: Path) -> list[tuple[str, str]]:
    """Measure everything, and return the titles and figures."""
    rows = []
    for title, shape, lines in (
        ("samples", "sampling", False),
        ("samples with pointers", "sampling", True),
        ("mixed", "mixed", False),
    ):
        path = folder / f"{title}.cpl"
        records = simulate(path, shape, lines=lines)
        for what, work in (
            ("to columns, samples and frames", lambda path=path: CoreProfilerTrace(path).tables("samples", "frames")),
            ("to columns, every table", lambda path=path: CoreProfilerTrace(path).tables(*TABLES)),
            ("typed records", lambda path=path: drain(CoreProfilerTrace(path))),
            ("whole stacks", lambda path=path: drain(CoreProfilerTrace(path).samples())),
            ("rules of readers", lambda path=path: CoreProfilerTrace(path).info),
            ("all rules", lambda path=path: rules.check(CoreProfilerTrace(path))),
            ("written", rewrite(path)),
            ("written from tables", write_tables(path)),
        ):
            rows.append((f"{title}: {what}", f"{records / best(work, 3) / 1e6:.2f} M lines/s"))
    big = folder / "big.cpl"
    with big.open("wb") as target:
        for _ in range(40):
            target.write((folder / "samples with pointers.cpl").read_bytes())
    size = big.stat().st_size / 1e6
    rows.append((f"peak memory, {size:.0f} MB by batches", f"{peak_memory(MEMORY, str(big)) / 1e6:.0f} MB"))
    return rows


if __name__ == "__main__":
    show("CoreProfiler traces", run)
