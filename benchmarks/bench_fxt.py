"""Measure how fast fxtio and its peers read and write FXT, all in one run.

    python benchmarks/bench_fxt.py                 # about two minutes
    python benchmarks/bench_fxt.py --markdown      # as the table that is in docs/explanation/speed.md

The workload is 2,000,000 duration-complete events with two arguments (a 32-bit integer, a string) on 8 threads.  Every
figure is the best of several rounds on one core; peers read the same file (PyPI fxt, which is far slower, a shorter
one of the same kind).  Peers need the `test` extra, Perfetto also Node.js; one that is missing is left out, visibly.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
from harness import best, in_child, peak_memory, show, without_kernels

import fxtio
from fxtio import _native, synth
from fxtio.fxt import rules

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

EVENTS = 2_000_000
PEER_EVENTS = 100_000
CHECKED_BYTES = 64_000_000
NAMES = [f"name {number}" for number in range(64)]


def write(path: Path, events: int) -> None:
    """Write the workload's file with the bulk writer."""
    with fxtio.create(path) as writer:
        tracks = [writer.thread(1, 100 + number, f"thread {number}", "benchmark") for number in range(8)]
        columns = make_columns(events)
        writer.main.write_events("duration_complete", thread=(tracks, np.arange(events) % 8), **columns)


def make_columns(events: int) -> dict[str, object]:
    """Return the workload as columns."""
    number = np.arange(events)
    names = (NAMES, number % 64)
    return {
        "timestamp": number * 100,
        "end": number * 100 + 50,
        "name": names,
        "category": "benchmark",
        "args": {"count": (number % 1000).astype(np.int32), "label": names},
    }


def columns(path: Path) -> object:
    """Read events and arguments, names resolved; columns derived from others are not computed."""
    return fxtio.open(path).tables("events", "args")


def every_column(path: Path) -> object:
    """Measure reading with every column computed: nanoseconds, durations, koids, owners of arguments, texts."""
    tables = fxtio.open(path).tables("events", "args")
    for table in tables.values():
        for _ in table.values():
            pass
    return tables


def objects(path: Path) -> None:
    """Read every record as an object."""
    for _ in fxtio.open(path):
        pass


CHECKED = ("spans", "mixed", "program")
"""The synthetic shapes that are checked."""


def checks(folder: Path) -> list[tuple[str, str, str]]:
    """Measure the rules on clean traces: megabytes per second, and the time as a multiple of reading alone."""
    rows = []
    for shape in CHECKED:
        path = folder / f"{shape}.fxt"
        synth.write(path, shape, size=CHECKED_BYTES)
        seconds = best(lambda path=path: rules.check(fxtio.open(path)), 5)
        reading = best(lambda path=path: read_batches(path), 5)
        speed = f"{path.stat().st_size / seconds / 1e6:.0f} MB/s"
        rows.append((f"all rules, shape {shape}", speed, f"{seconds / reading:.1f} times reading"))
    return rows


def read_batches(path: Path) -> None:
    """Read a trace, with what readers report, and without the rules."""
    for batch in fxtio.open(path).record_batches(forget=True):
        batch.check()


def bulk(folder: Path) -> float:
    """Return the seconds to encode and write the workload, without making its columns."""
    columns = make_columns(EVENTS)
    which = np.arange(EVENTS) % 8

    def work() -> None:
        with fxtio.create(folder / "bulk.fxt") as writer:
            tracks = [writer.thread(1, 100 + number) for number in range(8)]
            writer.main.write_events("duration_complete", thread=(tracks, which), **columns)

    return best(work)


def encode_only() -> float:
    """Return the seconds to encode the workload, written to the null device."""
    columns = make_columns(EVENTS)
    which = np.arange(EVENTS) % 8
    with fxtio.create(os.devnull, format="fxt") as writer:
        tracks = [writer.thread(1, 100 + number) for number in range(8)]
        return best(lambda: writer.main.write_events("duration_complete", thread=(tracks, which), **columns))


def friendly(events: int = 200_000) -> float:
    """Return the seconds per event through the friendly writer."""

    def work() -> None:
        with fxtio.create(os.devnull, format="fxt") as writer:
            track = writer.thread(1, 100)
            for number in range(events):
                args = {"count": number, "label": "high"}
                track.complete("render", number, number + 5, category="benchmark", args=args)

    return best(work) / events


IMPORT = "import time; begin = time.perf_counter(); import fxtio; print(time.perf_counter() - begin)"
MEMORY = """
import sys, fxtio
rows = sum(tables["events"].num_rows for tables in fxtio.open(sys.argv[1]).batches("events", "args"))
"""


def twins(path: Path) -> float:
    """Return the seconds to read columns with the Python kernels."""
    with without_kernels("walk", "gather", "walk_many"):
        return best(lambda: columns(path), 3)


def perfetto_import(path: Path) -> float | None:
    """Return the seconds that Perfetto needs to import the file."""
    from judges import perfetto

    if reason := perfetto.available():
        print(f"Perfetto is left out: {reason}", file=sys.stderr)
        return None
    return min(perfetto.timed_import(path) for _ in range(3))


def pypi_fxt(path: Path) -> float | None:
    """Return the seconds that PyPI fxt needs to read the shorter file."""
    from judges import pypi_fxt

    if reason := pypi_fxt.available():
        print(f"PyPI fxt is left out: {reason}", file=sys.stderr)
        return None
    return min(pypi_fxt.timed_read(path) for _ in range(2))


def run(folder: Path) -> list[tuple[str, str, str]]:
    """Measure everything: what, how much, beside a peer."""
    path, short, giga = folder / "big.fxt", folder / "short.fxt", folder / "giga.fxt"
    write(path, EVENTS)
    write(short, PEER_EVENTS)
    every_column(path)  # the machine's memory, once touched
    seconds = best(lambda: columns(path), 7)
    rows = [("to columns, names resolved", rate(EVENTS, seconds), f"kernels: {_native.IMPLEMENTATION}")]
    rows.append(("with every derived column", rate(EVENTS, best(lambda: every_column(path), 7)), ""))
    rows.append(("to columns, without C", rate(EVENTS, twins(path)), ""))
    peer = pypi_fxt(short)
    if peer is not None:
        per_event = peer / PEER_EVENTS
        rows.append(("PyPI fxt, reading", rate(1, per_event), f"{per_event * EVENTS / seconds:.0f} times slower"))
    peer = perfetto_import(path)
    if peer is not None:
        rows.append(("Perfetto, import", rate(EVENTS, peer), f"{peer / seconds:.1f} times slower"))
    rows.append(("to typed record objects", rate(EVENTS, best(lambda: objects(path), 3)), ""))
    rows.append(("bulk encode", rate(EVENTS, encode_only()), ""))
    rows.append(("bulk encode and write", rate(EVENTS, bulk(folder)), ""))
    rows.append(("friendly writer", f"{friendly() * 1e9:.0f} ns/event", ""))
    rows += checks(folder)
    size = 1_000_000_000
    while not giga.exists() or giga.stat().st_size < size:
        with path.open("rb") as source, giga.open("ab") as target:
            target.write(source.read())
    peak = peak_memory(MEMORY, str(giga))
    rows.append(("peak memory, 1 GB by batches", f"{peak / 1e6:.0f} MB", ""))
    rows.append(("import fxtio", f"{min(in_child(IMPORT) for _ in range(5)) * 1e3:.0f} ms", ""))
    return rows


def rate(count: int, seconds: float) -> str:
    """Return the number of events per second."""
    return f"{count / seconds / 1e6:.2f} M events/s"


if __name__ == "__main__":
    show("FXT", run, "beside fxtio to columns")
