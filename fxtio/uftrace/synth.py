"""Synthetic traces of any size: the calls of a task are drawn once at random, then repeated with numpy."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.io.reading import Progress
from fxtio.uftrace import payloads
from fxtio.uftrace.declarations import NewFunction
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.everything import Everything
from fxtio.uftrace.perf import Kind, PerfEvent
from fxtio.uftrace.program import PATH, Program
from fxtio.uftrace.task_writer import TaskWriter
from fxtio.uftrace.writer import UftraceWriter

SHAPES = {
    "calls": "calls of many functions that nest, on several threads",
    "recursion": "one function that calls itself, some hundred deep",
    "args": "calls with an integer, a string and a double, and what they return",
    "mixed": "calls with and without arguments, events, lost records, scheduler events, messages; in several processes",
    "program": "a web server with requests, a database, garbage collections, logs, kernel calls, child processes",
    "everything": "records, values, events, sessions, kernel and scheduler events of all kinds",
    "everything-32": "the same of a program with pointers of 32 bits",
    "everything-big": "the same with the byte order of big-endian machines, which uftrace cannot read",
}
"""Name and description of each shape."""

EVENTS, THREADS = 100_000, 8
_START = 1_000_000_000_000
_PATTERN = 4096
_RECORD = 16
_ARGUMENTS = "arg1/i32,arg2/s,fparg1/64"
_WORDS = ["", "alpha", "a longer string with spaces", 'quoted "text"', "naïve Ünïcödé"]


@dataclass(slots=True)
class _Pattern:
    """Records of calls that begin and end at depth 0: types, depths, functions, and times since the previous record."""

    kind: Array
    depth: Array
    function: Array
    pause: Array

    def __len__(self) -> int:
        return len(self.kind)


def _pattern(rng: random.Random, functions: int, deepest: int, records: int = _PATTERN) -> _Pattern:
    """Draw calls with about so many records."""
    rows: list[tuple[int, int, int, int]] = []
    stack: list[int] = []
    while len(rows) + len(stack) < records:
        if not stack or (len(stack) < deepest and rng.random() < 0.55):
            function = rng.randrange(functions)
            rows.append((RecordType.ENTRY, len(stack), function, rng.randrange(1, 400)))
            stack.append(function)
        else:
            function = stack.pop()
            rows.append((RecordType.EXIT, len(stack), function, rng.randrange(1, 900)))
    while stack:
        function = stack.pop()
        rows.append((RecordType.EXIT, len(stack), function, rng.randrange(1, 900)))
    return _Pattern(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


def _recursion(deepest: int) -> _Pattern:
    depth = np.concatenate([np.arange(deepest), np.arange(deepest)[::-1]])
    kind = np.repeat(np.array([RecordType.ENTRY, RecordType.EXIT], np.int64), deepest)
    return _Pattern(kind, depth, np.zeros(2 * deepest, np.int64), np.full(2 * deepest, 25, np.int64))


def _repeat(
    task: TaskWriter, pattern: _Pattern, functions: list[NewFunction], records: int, payload: Any = None
) -> int:
    """Write whole patterns until there are at least so many records; return the number of records."""
    written = 0
    times = np.cumsum(pattern.pause)
    while written < max(records, 1):
        begin = max(task.last, _START)
        values = None if payload is None else payload(pattern)
        task.write_records(
            type=pattern.kind, time=begin + times, depth=pattern.depth, function=(functions, pattern.function),
            payload=values,
        )  # fmt: skip
        written += len(pattern)
    return written


def _with_values(rng: random.Random, functions: list[NewFunction]) -> Callable[[_Pattern], list[bytes | None]]:
    """Return a function that draws the payloads of a pattern from a hundred different ones."""

    def draw(specs: Any, values: Callable[[], list[Any]]) -> list[bytes]:
        return [payloads.encode(specs, values()) for _ in range(50)]

    first = functions[0]
    entries = draw(first.arguments, lambda: [rng.randrange(-1000, 1000), rng.choice(_WORDS), rng.random() * 100])
    exits = draw(first.returns, lambda: [rng.random()])

    def make(pattern: _Pattern) -> list[bytes | None]:
        return [rng.choice(exits if kind else entries) for kind in pattern.kind.tolist()]

    return make


def synth(
    target: Any,
    shape: str,
    *,
    events: int | None,
    size: int | None,
    threads: int | None,
    seed: int,
    progress: Progress,
) -> tuple[int, int]:
    """Write a synthetic trace, see `fxtio.formats.SynthRoom.synth`; events are records."""
    rng = random.Random(seed)
    tasks = threads or THREADS
    if shape in _ROUNDS:
        return _rounds(target, shape, rng, tasks, events, size, progress)
    total = events if events is not None else EVENTS if size is None else size // _RECORD
    written = 0
    with UftraceWriter(target, program="/usr/bin/synthetic", command=f"synthetic {shape}") as writer:
        for number in range(tasks):
            part = total * (number + 1) // tasks - total * number // tasks
            pid = 1000 if shape != "mixed" else 1000 + number // 2 * 2
            task = writer.task(1000 + number, pid)
            with_values = shape == "args" or (shape == "mixed" and number % 2 == 1)
            if shape == "mixed":
                task.event("synthetic:begin", _START + number)
            written += _fill(writer, task, shape, rng, part, with_values=with_values)
            if shape == "mixed":
                task.lost(rng.randrange(1, 100))
                task.event("synthetic:end", task.last + 1)
                written += 3
            progress(written, total)
        if shape == "mixed":
            _add_small_files(writer, rng, tasks)
    return written, writer.position


_ROUNDS: dict[str, tuple[type[Everything | Program], dict[str, Any]]] = {
    "program": (Program, {"program": PATH}),
    "everything": (Everything, {}),
    "everything-32": (Everything, {"word_class": 32}),
    "everything-big": (Everything, {"order": "big"}),
}
"""The shapes that are written by rounds: what writes them, and the options of the writer."""


def _rounds(
    target: Any, shape: str, rng: random.Random, tasks: int, events: int | None, size: int | None, progress: Progress
) -> tuple[int, int]:
    """Write whole rounds until there are enough records or bytes; return the numbers of both."""
    make, options = _ROUNDS[shape]
    options = {"program": "/usr/bin/synthetic", "command": f"synthetic {shape}", **options}
    total = EVENTS if events is None and size is None else events
    with UftraceWriter(target, **options) as writer:
        rounds = make(writer, rng, tasks, _START)
        while True:
            rounds.write_round()
            progress(writer.records, total if total is not None else (size or 0) // _RECORD)
            if writer.records >= total if total is not None else writer.position >= (size or 0):
                break
        rounds.end()
        return writer.records, writer.position


def _add_small_files(writer: UftraceWriter, rng: random.Random, tasks: int) -> None:
    """Write some scheduler events on two CPUs, and messages."""
    for number in range(tasks):
        task, begin = writer.task(1000 + number), _START + 1000 * number
        delays: list[tuple[int, Kind]] = [(100, "sched-out"), (200 + rng.randrange(500), "sched-in")]
        for delay, kind in delays:
            writer.sched(number % 2, PerfEvent(begin + delay, task.pid, task.tid, kind))
        writer.message(begin, f"synthetic message {number}")


def _fill(
    writer: UftraceWriter, task: TaskWriter, shape: str, rng: random.Random, records: int, *, with_values: bool
) -> int:
    """Write the calls of one task; return the number of records."""
    length = max(min(_PATTERN, records), 2)
    if shape == "recursion":
        return _repeat(task, _recursion(min(500, (length + 1) // 2)), [writer.function("recurse")], records)
    if with_values:
        names = [f"work_{number}" for number in range(10)]
        functions = [writer.function(name, arguments=_ARGUMENTS, returns="retval/f64") for name in names]
        pattern = _pattern(rng, len(functions), 12, length)
        return _repeat(task, pattern, functions, records, _with_values(rng, functions))
    functions = [writer.function(f"function_{number}") for number in range(300)]
    return _repeat(task, _pattern(rng, len(functions), 30, length), functions, records)
