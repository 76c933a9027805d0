"""Measure how fast fxtio reads and writes data directories of uftrace, compared with uftrace in the same run.

    python benchmarks/bench_uftrace.py                 # about a minute
    python benchmarks/bench_uftrace.py --markdown      # as the table in docs/explanation/speed.md

Two programs are compiled with gcc and recorded: a recursive program with about 10 million records, and a program with
1.8 million records whose calls have an integer, a string and a double as arguments and return a double.  Every figure
is the best of several rounds on one core; uftrace writes to the null device.  Needs uftrace and gcc.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
from harness import best, peak_memory, show, without_kernels

import fxtio
from fxtio import _native
from fxtio.table import Categories
from fxtio.uftrace import rules

RECURSIVE = r"""
#include <stdio.h>
long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(void) { printf("%ld\n", fib(31)); return 0; }
"""
WITH_VALUES = r"""
#include <stdio.h>
static const char *names[] = {"alpha", "beta", "gamma delta", "epsilon the long one", "z"};
__attribute__((noinline)) double work(int number, const char *name, double x) { return x + number + name[0]; }
int main(void) {
    double total = 0;
    for (int i = 0; i < 900000; i++) total += work(i, names[i % 5], i * 0.5);
    printf("%f\n", total);
    return 0;
}
"""
SPECS = ("-A", "work@arg1/i32,arg2/s,fparg1/64", "-R", "work@retval/f64")
WRITTEN = 20_000_000
SCHEDULED = 500_000


def record(folder: Path, name: str, source: str, *options: str) -> Path:
    """Compile and record a program."""
    program, directory = folder / name, folder / f"{name}.data"
    (folder / f"{name}.c").write_text(source)
    subprocess.run(["gcc", "-O0", "-pg", str(folder / f"{name}.c"), "-o", str(program)], check=True)
    command = ["uftrace", "record", "--no-event", *options, "-d", str(directory), str(program)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return directory


def tool(command: str, directory: Path) -> float:
    """Return the seconds that a command of uftrace takes."""
    line = ["uftrace", command, "--no-pager", "-d", str(directory)]
    return best(lambda: subprocess.run(line, check=True, stdout=subprocess.DEVNULL), 3)


def tables(directory: Path, *names: str) -> object:
    """Read whole tables, of the timeline if it has them."""
    trace = fxtio.open(directory)
    return (trace.timeline() if "slices" in names else trace).tables(*names)


def batches(directory: Path, *names: str) -> int:
    """Read tables in bounded memory; return the number of rows."""
    return sum(table.num_rows for batch in fxtio.open(directory).batches(*names) for table in batch.values())


def checked(directory: Path) -> int:
    """Check a trace against all rules; return the number of findings."""
    with fxtio.open(directory) as trace:
        rules.check(trace)
    return len(trace.findings)


def twins(directory: Path, *names: str) -> float:
    """Return the seconds that reading tables takes without the C kernels."""
    with without_kernels("distinct", "gather", "match", "walk_payloads"):
        return best(lambda: tables(directory, *names), 1)


MEMORY = """
import sys, fxtio
rows = sum(batch["slices"].num_rows for batch in fxtio.open(sys.argv[1]).batches("records"))
"""


def bulk(folder: Path) -> float:
    """Return the seconds that encoding and writing records takes, without making their columns."""
    kinds = np.tile(np.array([0, 0, 1, 1], np.uint8), WRITTEN // 4)
    depth = np.tile(np.array([0, 1, 1, 0], np.uint16), WRITTEN // 4)
    codes = np.tile(np.array([0, 1, 1, 0], np.int64), WRITTEN // 4)
    times = np.arange(WRITTEN, dtype=np.int64) * 10

    def work() -> None:
        shutil.rmtree(folder / "bulk", ignore_errors=True)
        with fxtio.create(folder / "bulk", format="uftrace") as writer:
            functions = [writer.function("main"), writer.function("work")]
            task = writer.task(1)
            for begin in range(0, WRITTEN, 1 << 18):
                rows = slice(begin, begin + (1 << 18))
                task.write_records(
                    type=kinds[rows], time=times[rows], depth=depth[rows], function=(functions, codes[rows])
                )

    return best(work, 3)


def scheduler(folder: Path) -> float:
    """Return the seconds that reading a table of scheduler events takes."""
    rows = np.arange(SCHEDULED)
    with fxtio.create(folder / "sched", format="uftrace") as writer:
        kinds = Categories((rows % 2).astype(np.int32), ["sched-out", "sched-in"])
        writer.write_table("sched", {"time": rows * 1000, "cpu": 0, "pid": 1, "tid": rows % 8 + 1, "kind": kinds})
    return best(lambda: tables(folder / "sched", "sched"), 3)


def run(folder: Path) -> list[tuple[str, str, str]]:
    """Measure everything; return subjects, figures and comparisons."""
    rows: list[tuple[str, str, str]] = []
    for name, source, options, names in (
        ("plain", RECURSIVE, (), ("slices",)),
        ("values", WITH_VALUES, SPECS, ("slices", "args")),
    ):
        directory = record(folder, name, source, *options)
        count = fxtio.open(directory).info.records.total()
        tables(directory, *names)  # the machine's memory, once touched
        seconds = best(lambda d=directory, n=names: tables(d, *n), 7)  # type: ignore[misc]
        of_records = ["records" if each == "slices" else each for each in names]
        by_batch = best(lambda d=directory, n=of_records: batches(d, *n), 5)  # type: ignore[misc]
        report, dump = tool("report", directory), tool("dump", directory)
        what = f"{name}, {count / 1e6:.1f} M records"
        rows.append((f"{what}: to tables", rate(count, seconds), f"kernels: {_native.IMPLEMENTATION}"))
        rows.append((f"{what}: records by batches", rate(count, by_batch), ""))
        rows.append((f"{what}: `uftrace report`", rate(count, report), f"{report / seconds:.1f} times slower"))
        rows.append((f"{what}: `uftrace dump`", rate(count, dump), f"{dump / seconds:.1f} times slower"))
        rows.append((f"{what}: checked against all rules", rate(count, best(lambda d=directory: checked(d), 3)), ""))
        rows.append((f"{what}: to tables, without C", rate(count, twins(directory, *names)), ""))
    peak = peak_memory(MEMORY, str(folder / "plain.data"))
    rows.append(("peak memory, plain records by batches", f"{peak / 1e6:.0f} MB", ""))
    rows.append(("bulk encode and write", rate(WRITTEN, bulk(folder)), ""))
    rows.append(("scheduler events to a table", rate(SCHEDULED, scheduler(folder)), ""))
    return rows


def rate(count: int, seconds: float) -> str:
    """Return a text of records per second."""
    return f"{count / seconds / 1e6:.1f} M records/s"


def main() -> None:
    """Measure and print."""
    for program in ("uftrace", "gcc"):
        if not shutil.which(program):
            raise SystemExit(f"{program} is not installed")
    version = subprocess.run(["uftrace", "--version"], capture_output=True, text=True, check=True).stdout.split(" (")[0]
    show("data directories of uftrace", run, "beside fxtio to tables", tools=f", {version.strip()}")


if __name__ == "__main__":
    main()
