"""How fast fxtio reads and writes CoreProfiler traces.

    python benchmarks/bench_coreprofiler.py                 # about a minute
    python benchmarks/bench_coreprofiler.py --markdown

The traces are simulated, 200,000 records each: stack samples with and without instruction pointers, and a mixture of
all records.  Every figure is the best of several rounds on one core.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from fxtio.coreprofiler import CoreProfilerTrace, CoreProfilerWriter
from fxtio.coreprofiler.catalog import TABLES
from fxtio.coreprofiler.simulator import Simulator

RECORDS = 200_000

MEMORY = r"""
import re, sys
from fxtio.coreprofiler import CoreProfilerTrace
sum(tables["frames"].num_rows for tables in CoreProfilerTrace(sys.argv[1]).batches("samples", "frames"))
print(int(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1]) * 1024)
"""


def best(work: Callable[[], object], rounds: int = 3) -> float:
    """The shortest of some runs, in seconds."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - begin)
        del result
    return min(times)


def simulate(path: Path, shape: str, *, lines: bool) -> int:
    """Write a trace; gives the number of its records."""
    with CoreProfilerWriter(path) as writer:
        simulator = Simulator(writer.put, shape=shape, threads=8, lines=lines)
        while simulator.records < RECORDS:
            simulator.step()
    return simulator.records


def drain(what: Iterable[object]) -> None:
    """Take everything and keep nothing."""
    deque(what, maxlen=0)


def rewrite(path: Path) -> Callable[[], None]:
    """Records that are there, to lines."""
    records = list(CoreProfilerTrace(path))

    def work() -> None:
        with CoreProfilerWriter(os.devnull) as writer:
            writer.put_all(records)

    return work


def run(folder: Path) -> list[tuple[str, str]]:
    """Measure everything: what, and how much."""
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
            ("all rules", lambda path=path: CoreProfilerTrace(path).info),
            ("written", rewrite(path)),
        ):
            rows.append((f"{title}: {what}", f"{records / best(work) / 1e6:.2f} M lines/s"))
    big = folder / "big.cpl"
    with big.open("wb") as target:
        for _ in range(40):
            target.write((folder / "samples with pointers.cpl").read_bytes())
    done = subprocess.run([sys.executable, "-c", MEMORY, str(big)], capture_output=True, text=True, check=True)
    size = big.stat().st_size / 1e6
    rows.append((f"peak memory, {size:.0f} MB by batches", f"{int(re.findall('[0-9]+', done.stdout)[0]) / 1e6:.0f} MB"))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Benchmark of reading and writing CoreProfiler traces.")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = run(Path(folder))
    print(f"CPython {platform.python_version()} on {os.cpu_count()} cores ({platform.machine()})")
    if options.markdown:
        print("\n| what | figure |\n|---|---|")
    for what, figure in rows:
        print(f"| {what} | {figure} |" if options.markdown else f"{what:48} {figure}")


if __name__ == "__main__":
    main()
