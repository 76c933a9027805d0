"""The corpus of data directories, small directories for tests, and flame graphs of slices."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fxtio.uftrace.frames import Chunk
from fxtio.uftrace.pairing import NO_EXIT, STATES, CallSteps, pair_calls
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import FunctionEntry, FunctionExit, encode
from fxtio.uftrace.writer import UftraceWriter
from support.checkout import CORPUS

UFTRACE = CORPUS / "uftrace"
EXPECTED = UFTRACE / "expected"
SAMPLES = sorted(path.name for path in UFTRACE.iterdir() if (path / "info").is_file()) if UFTRACE.exists() else []

EXTREMES = (0, 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)

# The samples that the newest uftrace prints wrongly, and why.
MISREAD_BY_UFTRACE = {
    "broken-trigger-retval-v013": "it cannot decode the payloads, as it does not save the format of a trigger",
    "read-args-v013": "likewise; the sizes are the same by chance",
    "old-v05-fork": "it accepts version 3, but finds no task",
    "synth-deep-wrap": "it omits calls deeper than 1024",
}


def expected(name: str, kind: str) -> bytes | None:
    """Return the output of the newest uftrace for a sample (`dump.txt`, `report.csv`, `flame.txt`), or None."""
    path = EXPECTED / f"{name}.{kind}"
    return path.read_bytes() if path.exists() else None


def opened(name: str) -> UftraceTrace:
    return UftraceTrace(UFTRACE / name)


def copied(name: str, target: Path) -> Path:
    """Copy a sample, so that a test may damage it."""
    shutil.copytree(UFTRACE / name, target)
    return target


def slices_of(trace: UftraceTrace) -> list[dict[str, Any]]:
    """Return the slices of the timeline, with the column `tid`."""
    tables = trace.timeline().tables("slices", "tracks", "threads")
    threads, tracks = tables["threads"]["tid"].tolist(), tables["tracks"]["thread"].tolist()
    return [{"tid": threads[tracks[row["track"]]], **row} for row in tables["slices"].rows()]


def pairs_of(trace: UftraceTrace) -> list[tuple[str, int, int]]:
    """Return the state, and the numbers of the entry and the exit record, of each call of the only task."""
    calls = NumberedCalls()
    result: list[tuple[str, int, int]] = []
    for chunk in trace.chunks_of(trace.begin()):
        result += [(STATES[state], entry, -1 if state == NO_EXIT else by) for state, entry, by in calls.ended(chunk)]
    return result + [("open", entry, -1) for entry in reversed(calls.open)]


class NumberedCalls:
    """The calls of one task by the numbers of their records.

    Attributes:
        open: the entries of the calls that have not ended, outermost first.
        entered: the entries in the last chunk.
    """

    def __init__(self, first: int = 0) -> None:
        self.open: list[int] = []
        self.entered: list[int] = []
        self._steps, self._next = CallSteps(), first
        self._calls: dict[int, tuple[int, int]] = {}  # the depth and the address of each open call

    def skip(self) -> None:
        """Go on after bytes that are not a record."""
        self._steps.skip()

    def ended(self, chunk: Chunk) -> list[tuple[int, int, int]]:
        """Return the state, the entry or -1, and the record that ended it, of each call that ends in a chunk."""
        steps = self._steps
        if steps.leave_program(chunk):
            self.open = []
        steps.enter(chunk)
        self.entered = (np.flatnonzero(steps.step > 0) + self._next).tolist()
        numbers = [*self.open, *range(self._next, self._next + len(chunk))]
        rows = zip(numbers[len(self.open) :], steps.depth.tolist(), steps.address.tolist(), strict=True)
        self._calls |= {number: (depth, address) for number, depth, address in rows}
        depths, addresses = zip(*(self._calls[number] for number in numbers), strict=True)
        step = np.append(np.ones(len(self.open), np.int8), steps.step)
        begin, by, state, still = pair_calls(
            step, np.array(depths, np.int64), np.array(addresses, np.uint64), len(self.open)
        )
        self._next += len(chunk)
        self.open = [numbers[row] for row in still.tolist()]
        return [
            (code, numbers[entry] if entry >= 0 else -1, numbers[end])
            for code, entry, end in zip(state.tolist(), begin.tolist(), by.tolist(), strict=True)
        ]


def flame(trace: UftraceTrace) -> Counter[str]:
    """Return the nanoseconds that each stack of functions ran itself, computed from slices."""
    paths: dict[int, str] = {}
    result: Counter[str] = Counter()
    for row in slices_of(trace):
        path = f"{paths[row['parent']]};{row['name']}" if row["parent"] >= 0 else row["name"]
        paths[row["id"]] = path
        result[path] += row["self_time"]
    return result


def reference_flame(text: bytes) -> Counter[str]:
    """Return the flame graph that uftrace printed."""
    result: Counter[str] = Counter()
    for line in text.decode().splitlines():
        path, _, amount = line.rpartition(" ")
        if "linux:schedule" in path:  # uftrace shows time without the CPU as a call; slices count it for the function
            path = path.rpartition(";")[0]
        if path:
            result[path] += int(amount)
    return result


def minimal(target: Path, *, records: int = 40) -> Path:
    """Write a small directory with two functions, one of them with arguments."""
    with UftraceWriter(target, program="/x/prog") as writer:
        work = writer.function("work", arguments="arg1/i32,arg2/s", returns="retval/x64")
        task = writer.task(1)
        task.enter("main", 1_000)
        for number in range(records):
            task.enter(work, 2_000 + 20 * number, number, f"text {number}")
            task.leave(2_010 + 20 * number, number * 3)
        task.leave(9_000_000)
    return target


def plain(target: Path, records: Sequence[FunctionEntry | FunctionExit]) -> Path:
    """Write a directory with one task of only these records."""
    with UftraceWriter(target, program="/x/prog") as writer:
        for name in ("zero", "one", "two", "three"):
            writer.function(name)
        writer.task(1).enter("zero", 0)
    (target / "1.dat").write_bytes(b"".join(encode(record) for record in records))
    return target


def from_calls(text: str, *, entries: int = 0, exits: int = 0) -> list[FunctionEntry | FunctionExit]:
    """Return records of calls: a digit is the entry of a function, a dot the exit of the innermost call."""
    stack: list[int] = []
    records: list[FunctionEntry | FunctionExit] = []
    for number, character in enumerate(text):
        time = 10 * number
        if character == ".":
            function = stack.pop()
            records.append(FunctionExit(time, len(stack) + exits, 0x400000 + 16 * function))
        else:
            records.append(FunctionEntry(time, len(stack) + entries, 0x400000 + 16 * int(character)))
            stack.append(int(character))
    return records
