"""The corpus of data directories, small ones made for a test, and what uftrace says about calls, made of our slices."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from pathlib import Path

from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import FunctionEntry, FunctionExit, encode
from fxtio.uftrace.writer import UftraceWriter
from support.checkout import CORPUS

UFTRACE = CORPUS / "uftrace"
EXPECTED = UFTRACE / "expected"
SAMPLES = sorted(path.name for path in UFTRACE.iterdir() if (path / "info").is_file()) if UFTRACE.exists() else []

# Why the newest uftrace does not say what is in the directory.
NOT_ITS_OWN_WORDS = {
    "broken-trigger-retval-v013": "it loses its way in data that it wrote: the format of a trigger is not saved",
    "read-args-v013": "likewise; here the sizes are the same by chance",
    "old-v05-fork": "it says that it reads version 3, but finds no task in it",
    "synth-deep-wrap": "it leaves out what is deeper than 1024",
}


def expected(name: str, kind: str) -> bytes | None:
    """What the newest uftrace says about a sample: `dump.txt`, `report.csv` or `flame.txt`."""
    path = EXPECTED / f"{name}.{kind}"
    return path.read_bytes() if path.exists() else None


def opened(name: str) -> UftraceTrace:
    return UftraceTrace(UFTRACE / name)


def copied(name: str, target: Path) -> Path:
    """A sample that a test may damage."""
    shutil.copytree(UFTRACE / name, target)
    return target


def flame(trace: UftraceTrace) -> Counter[str]:
    """Nanoseconds that each stack of functions ran itself, from the slices."""
    rows = list(trace.table("slices").rows())
    children: dict[int, int] = defaultdict(int)
    paths: dict[int, str] = {}
    for tid in {row["tid"] for row in rows}:
        stack: list[tuple[int, int, str]] = []  # depth, number, path
        mine = [(number, row) for number, row in enumerate(rows) if row["tid"] == tid]
        for number, row in sorted(mine, key=lambda one: one[1]["entry"]):
            while stack and stack[-1][0] >= row["depth"]:
                stack.pop()
            path = f"{stack[-1][2]};{row['name']}" if stack else row["name"]
            if stack:
                children[stack[-1][1]] += row["duration"]
            paths[number] = path
            stack.append((row["depth"], number, path))
    found: Counter[str] = Counter()
    for number, path in paths.items():
        found[path] += rows[number]["duration"] - children[number]
    return found


def reference_flame(text: bytes) -> Counter[str]:
    """The tool's flame graph."""
    found: Counter[str] = Counter()
    for line in text.decode().splitlines():
        path, _, amount = line.rpartition(" ")
        if "linux:schedule" in path:  # time without the CPU, as a call; for us it belongs to the function
            path = path.rpartition(";")[0]
        if path:
            found[path] += int(amount)
    return found


def minimal(target: Path, *, records: int = 40) -> Path:
    """A small directory: two functions, one of them with arguments."""
    with UftraceWriter(target, program="/x/prog") as writer:
        work = writer.function("work", arguments="arg1/i32,arg2/s", returns="retval/x64")
        task = writer.task(1)
        task.enter("main", 1_000)
        for number in range(records):
            task.enter(work, 2_000 + 20 * number, number, f"text {number}")
            task.leave(2_010 + 20 * number, number * 3)
        task.leave(9_000_000)
    return target


def plain(target: Path, records: list[FunctionEntry | FunctionExit]) -> Path:
    """A directory with one task of just these records."""
    with UftraceWriter(target, program="/x/prog") as writer:
        for name in ("zero", "one", "two", "three"):
            writer.function(name)
        writer.task(1).enter("zero", 0)
    (target / "1.dat").write_bytes(b"".join(encode(record) for record in records))
    return target
