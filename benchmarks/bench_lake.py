"""Measure how fast traces come into a lake, and how fast it answers.

    python benchmarks/bench_lake.py                # about ten minutes, 5 GB in the folder of temporary files
    python benchmarks/bench_lake.py --markdown

The lake has 10,000 traces of about 4,300 slices: 500 synthetic ones, each 20 times with another last record, so that no
two are the same.  They are added by two processes, with labels of four builds.  The first question reads the rows of
all traces, which later ones find in one file.  The memory is that of one process that adds a trace of five million
slices.
"""

from __future__ import annotations

import shutil
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from harness import best, in_child, peak_memory, show

from fxtio import synth
from fxtio.lake import ADDED, Lake
from fxtio.lake.questions import Part

DISTINCT, COPIES, BUILDS = 500, 20, 4
EVENTS = 8_000
LARGE = 5_000_000
JOBS = 2
ROUNDS = 3

ADD = """
import sys, time
from fxtio.lake import Lake
lake = Lake(sys.argv[1], create=True)
begin = time.perf_counter()
(outcome,) = lake.add(sys.argv[2])
assert outcome.kind == "added", outcome.reason
"""
SECONDS = ADD + "print(time.perf_counter() - begin)"


def traces(folder: Path) -> Iterator[Path]:
    """Write the traces and yield their paths."""
    folder.mkdir()
    for seed in range(DISTINCT):
        path = folder / f"{seed}.fxt"
        synth.write(path, "program", events=EVENTS, seed=seed)
        content = path.read_bytes()
        path.unlink()
        for copy in range(COPIES):
            place = folder / f"{seed}-{copy}.fxt"
            place.write_bytes(content + struct.pack("<Q", 1 << 4 | 1 << 16 | copy << 20))  # a provider without a name
            yield place


def adding(lake: Lake, paths: list[Path]) -> float:
    """Add traces, a part for each build, and return the seconds."""
    begin = time.perf_counter()
    for build in range(BUILDS):
        for outcome in lake.add(paths[build::BUILDS], labels={"build": str(build)}, jobs=JOBS):
            assert outcome.kind == ADDED, outcome.reason
    return time.perf_counter() - begin


def asking(url: str, ask: Callable[[Lake], object], rounds: int = ROUNDS) -> str:
    """Return the shortest time of an answer of a lake that was opened for it."""
    return f"{best(lambda: ask(Lake(url)), rounds):.2f} s"


def run(folder: Path) -> list[tuple[str, str]]:
    """Measure everything and return the rows of the table."""
    url = str(folder / "lake")
    lake, paths = Lake(url, create=True), [*traces(folder / "traces")]
    seconds = adding(lake, paths)
    shutil.rmtree(folder / "traces")
    first = asking(url, lambda lake: lake.traces(), rounds=1)
    ((slices,),) = lake.sql("select sum(slices)::bigint from traces").fetchall()
    name = Part(["name=query"])
    rows = [
        (f"add {len(paths):,} traces of {slices // len(paths):,} slices", f"{len(paths) / seconds:.0f} traces/s"),
        ("list the traces for the first time", first),
        ("list the traces", asking(url, lambda lake: lake.traces())),
        (f"`top` of {slices / 1e6:.0f} million slices", asking(url, lambda lake: lake.top())),
        ("p99 of a name by label", asking(url, lambda lake: lake.top("label:build", part=name, sort="p99"))),
        ("calls of a name that is not there", asking(url, lambda lake: lake.top(part=Part(["name=nothing"])))),
    ]
    shutil.rmtree(url)
    large = folder / "large.fxt"
    synth.write(large, "spans", events=LARGE)
    speed = LARGE / in_child(SECONDS, url, str(large)) / 1e6
    shutil.rmtree(url)
    memory = peak_memory(ADD, url, str(large)) / 1e6
    rows.append((f"add a trace of {LARGE / 1e6:.0f} million slices, one process", f"{speed:.2f} M slices/s"))
    rows.append(("memory of that process, at most", f"{memory:.0f} MB"))
    return rows


if __name__ == "__main__":
    show("lakes", run)
