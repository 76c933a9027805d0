"""The cost of the tracer and of its peers, measured in one run on one core.

    python benchmarks/bench_tracer.py                 # about three minutes
    python benchmarks/bench_tracer.py --markdown      # as a Markdown table
    python benchmarks/bench_tracer.py --check         # exit status 1 where a limit is missed

Every set-up runs in a child process of its own, in several rounds and a shuffled order.  Costs of events are
nanoseconds over the untraced statement, the best round and in brackets the median round; costs of programs are
processor time as a multiple of the untraced program's.  After a peer's figure stands how many times ours it is.
*least* is no peer but what the interpreter, the clock and the stores alone cost on this machine (tracer_floor.py).
Peers: viztracer, trace0, opentelemetry-sdk and functiontrace, whichever are there; one that is missing is left out,
visibly.
"""

from __future__ import annotations

import argparse
import array
import importlib.util
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COLUMNS = ("fxtio", "least", "VizTracer", "trace0", "OpenTelemetry", "cProfile", "functiontrace")
CALLS = 2_000_000
MILLION = 1_000_000
LOSS_FIB = 29
LOSS_CALLS = 1_664_078
"""Calls that `fib(29)` makes, without the first one."""
MONITORING = sys.version_info >= (3, 12)


@dataclass(frozen=True)
class Limit:
    """A target.

    Attributes:
        most: our figure is at most this.
        times: VizTracer's figure is at least this many times ours.
    """

    most: float | None = None
    times: float = 0

    def __str__(self) -> str:
        """Return what our figure is at most, or an empty text."""
        return number(self.most) if self.most is not None else ""


@dataclass
class Row:
    """A line of the table: figures by column, and how each is written."""

    what: str
    unit: str
    limit: Limit = field(default_factory=Limit)
    figures: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def cell(self, column: str) -> str:
        """Return a figure as text."""
        if column not in self.figures:
            return "-"
        figure, own = self.figures[column], self.figures.get("fxtio", 0)
        text = number(figure) + (f" ({self.notes[column]})" if column in self.notes else "")
        if column != "fxtio" and own >= 0.5:
            text += f", {number(figure / own)}x"
        return text

    def missed(self) -> str:
        """Return how the target is missed, or an empty text."""
        own, peer = self.figures.get("fxtio"), self.figures.get("VizTracer")
        if own is None:
            return "was not measured" if self.limit.most is not None else ""
        rounding = 0.5 * (self.unit in ("ns", "bytes per call"))
        if self.limit.most is not None and own > self.limit.most + rounding:
            return f"{number(own)} {self.unit}, the target is at most {number(self.limit.most)}"
        if self.limit.times and peer is not None and own > 0 and peer / own < self.limit.times:
            return f"{peer / own:.1f} times under VizTracer, the target is {self.limit.times:g}"
        return ""


def number(figure: float) -> str:
    """Return a figure with about three digits, and without a minus before 0."""
    if abs(figure) >= 100:
        return f"{figure:,.0f}"
    if abs(figure) >= 10:
        return f"{figure:.1f}".removesuffix(".0")
    return f"{figure:.2f}".rstrip("0").rstrip(".") if abs(figure) >= 0.005 else "0"


class Children:
    """Runs measurements in child processes; one that fails is reported, and not run again."""

    def __init__(self) -> None:
        self._failed: set[tuple[str, ...]] = set()

    def ask(self, script: str, *arguments: str) -> Any:
        """Return the result that a child prints as JSON, or None if it fails."""
        key = (script, *arguments)
        if key in self._failed:
            return None
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(HERE / script), *arguments, folder]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return json.loads(done.stdout.splitlines()[-1])
        self._failed.add(key)
        reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        print(f"left out: {' '.join(arguments)}: {reason}", file=sys.stderr)
        return None


# --- events ---------------------------------------------------------------------------------------------------------

EVENTS = {
    "decorated function": Limit(28, 20),
    "span": Limit(50),
    "span, two arguments": Limit(65),
    "instant": Limit(20),
    "counter": Limit(25),
    "await of a decorated coroutine": Limit(100),
    "item of a decorated generator": Limit(),
}
OFF = Limit(0 if MONITORING else 15)
# The set-ups of tracer_cases.py, by part of the table and column.
EVENT_SETUPS = {
    ("", "fxtio"): ["fxtio"],
    ("", "least"): ["floor"],
    ("", "VizTracer"): ["viztracer", "viztracer_points"],
    ("", "OpenTelemetry"): ["opentelemetry"],
    ("off: ", "fxtio"): ["fxtio_off"],
    ("off: ", "VizTracer"): ["viztracer_off"],
    ("off: ", "OpenTelemetry"): ["opentelemetry_off"],
}


def event_limit(part: str, case: str) -> Limit:
    """Return the target of a case."""
    if part == "off: ":
        return OFF if case == "decorated function" else Limit()
    return EVENTS[case]


def event_jobs(rounds: int) -> list[tuple[tuple[str, str], str]]:
    """Return the set-ups of all rounds, shuffled."""
    jobs = [(key, setup) for key, setups in EVENT_SETUPS.items() for setup in setups] * rounds
    random.Random(0).shuffle(jobs)
    return jobs


def events(children: Children, rounds: int) -> Iterator[Row]:
    """Measure the cost of one event."""
    costs_by_case: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for (part, column), setup in event_jobs(rounds):
        for case, cost in (children.ask("tracer_cases.py", setup) or {}).items():
            costs_by_case[part, case, column].append(cost)
    for part in ("", "off: "):
        for case in EVENTS:
            row = Row(f"{part}{case}", "ns", event_limit(part, case))
            for column in COLUMNS:
                if costs := costs_by_case.get((part, case, column)):
                    row.figures[column] = min(costs)
                    row.notes[column] = number(statistics.median(costs))
            yield row


# --- programs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """A program under tools that record the same of it."""

    what: str
    program: str
    tools: dict[str, str]
    limit: Limit


PYTHON = {
    "fxtio": "fxtio",
    "least": "floor",
    "VizTracer": "viztracer_python",
    "trace0": "trace0",
    "cProfile": "cprofile_python",
}
WITH_C = {
    "fxtio": "fxtio_c",
    "least": "floor_c",
    "VizTracer": "viztracer",
    "cProfile": "cprofile",
    "functiontrace": "functiontrace",
}
PROGRAMS = (
    Program("fib", "fib", PYTHON, Limit(2.6 if MONITORING else 4.2, 1)),
    Program("realistic", "real", PYTHON, Limit(1.35 if MONITORING else 1.9, 1)),
    Program("fib, C functions too", "fib", WITH_C, Limit(None, 1)),
    Program("realistic, C functions too", "real", WITH_C, Limit(1.6 if MONITORING else None, 1)),
)
THREADED = {"fxtio": "fxtio", "VizTracer": "viztracer_python"}


def programs(children: Children, rounds: int) -> Iterator[Row]:
    """Measure the cost of whole programs, and whether threads slow each other down."""
    jobs = {(tool, program.program) for program in PROGRAMS for tool in ("untraced", *program.tools.values())}
    jobs |= {(tool, program) for tool in ("untraced", *THREADED.values()) for program in ("twice", "together")}
    order = sorted(jobs) * rounds
    random.Random(1).shuffle(order)
    runs_by_job: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for job in order:
        if seconds := children.ask("tracer_programs.py", *job):
            runs_by_job[job].append(seconds)
    best = {job: min(map(min, runs)) for job, runs in runs_by_job.items()}
    first = {job: min(run[0] for run in runs) for job, runs in runs_by_job.items()}
    for program in PROGRAMS:
        untraced = ("untraced", program.program)
        row = Row(f"{program.what} ({number(best[untraced] * 1000)} ms untraced)", "times untraced", program.limit)
        for column, tool in program.tools.items():
            if (job := (tool, program.program)) in best:
                row.figures[column] = best[job] / best[untraced]
                row.notes[column] = f"first run {number(first[job] / first[untraced])}"
        yield row
    alone = best["untraced", "together"] / best["untraced", "twice"]
    row = Row("two threads at once", "times one after the other", Limit(1.1 * max(alone, 1)))
    for column, tool in THREADED.items():
        if (tool, "together") in best and (tool, "twice") in best:
            row.figures[column] = best[tool, "together"] / best[tool, "twice"]
    row.notes["fxtio"] = f"untraced {number(alone)}"
    yield row


# --- the command ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Whole:
    """The resources that a command used: seconds, peak memory and bytes written."""

    seconds: float
    peak: int
    size: int


def run_whole(command: list[str], out: Path | None) -> Whole:
    """Run a command to its end."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Whole(seconds, usage.ru_maxrss * 1024, out.stat().st_size if out is not None else 0)


@dataclass(frozen=True)
class Command:
    """A tool's command that records a program, up to the name of the trace, and what the trace's name ends with."""

    words: list[str]
    suffix: str
    rounds: int


def commands(rounds: int) -> dict[str, Command]:
    """Return the commands of the tools that are there."""
    python = [sys.executable, "-m"]
    entries = ["--tracer_entries", str(3 * CALLS)]  # its usual buffer keeps the last million calls
    found = {"fxtio": Command([*python, "fxtio", "run", "-o"], ".fxt", rounds)}
    if importlib.util.find_spec("viztracer") is not None:
        viztracer = [*python, "viztracer", "--quiet", *entries, "--ignore_c_function", "-o"]
        found["VizTracer"] = Command(viztracer, ".json", 2)
    if importlib.util.find_spec("trace0") is not None:
        found["trace0"] = Command([*python, "trace0", "run", "-o"], ".pftrace", rounds)
    return found


def run_command(command: Command, arguments: list[str], count: bool = False) -> tuple[Whole, int]:
    """Return the fastest of some runs of the workload under a command; and how many calls its trace holds, the fewest
    of all runs, if they are to be counted."""
    results, counts = [], []
    for _ in range(command.rounds):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, f"out{command.suffix}") if command.suffix else None
            names = [str(out)] if out is not None else []
            results.append(run_whole([*command.words, *names, str(HERE / "tracer_workload.py"), *arguments], out))
            if out is not None and count:
                counts.append(calls_in(out))
    return min(results, key=lambda result: result.seconds), min(counts, default=0)


def command(children: Children, rounds: int) -> Iterator[Row]:
    """Measure the whole command on a program of two million calls: time, memory, size."""
    calls = children.ask("tracer_programs.py", "untraced", "count")
    times = -(-CALLS // calls)
    tools = commands(rounds)
    plain = run_command(Command([sys.executable], "", rounds), [str(times)])[0].seconds
    whole = {column: run_command(tool, [str(times)])[0] for column, tool in tools.items()}
    tenth = run_command(replace(tools["fxtio"], rounds=1), [str(times // 10)])[0]
    rows = [
        Row("whole command, 2 million calls", "s", Limit(None, 5)),
        Row("peak memory of it", "MB", Limit(1.2 * tenth.peak / MILLION)),
        Row("size of its trace", "bytes per call", Limit(32, 5)),
    ]
    for column, result in whole.items():
        for row, figure in zip(rows, (result.seconds, result.peak / MILLION, result.size / times / calls), strict=True):
            row.figures[column] = figure
        rows[0].notes[column] = f"{number(result.seconds / plain)} x untraced"
    if "VizTracer" in tools:
        words = [word for word in tools["VizTracer"].words if word != "--ignore_c_function"]
        result, _ = run_command(Command(words, ".json", 1), [str(times)])
        rows[0].notes["VizTracer"] += f", with C functions {number(result.seconds)} s"
    rows[1].notes["fxtio"] = f"{number(tenth.peak / MILLION)} at a tenth of the calls"
    more = (whole["fxtio"].size - tenth.size) / (times - times // 10) / calls  # names and the like come once
    rows[2].figures["fxtio"] = round(more, 2)
    yield from rows


# --- losses ---------------------------------------------------------------------------------------------------------


def calls_in(trace: Path) -> int:
    """Return how many calls a trace holds."""
    if trace.suffix == ".json":
        return trace.read_bytes().count(b'"ph": "X"')
    return calls_in_fxt(trace) if trace.suffix == ".fxt" else calls_in_protobuf(trace.read_bytes())


def calls_in_fxt(trace: Path) -> int:
    """Return how many calls a trace of ours holds, by a walk over its records."""
    data = array.array("Q", trace.read_bytes())
    position = calls = 0
    while position < len(data):
        word = data[position]
        calls += word & 0xF000F == 0x20004  # an event that begins a slice
        position += word >> 4 & 0xFFF
    return calls


def calls_in_protobuf(data: bytes) -> int:
    """Return how many slices begin in a trace of Perfetto: packets with a track event (field 11) of type (9) 1."""

    def fields(position: int, end: int) -> Iterator[tuple[int, int, int]]:
        while position < end:
            key, position = varint(position)
            if key & 7 == 1:
                yield key >> 3, position, position + 8
                position += 8
                continue
            value, position = varint(position)
            size = value if key & 7 == 2 else 0
            yield key >> 3, position if size else value, position + size
            position += size

    def varint(position: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value, position
            shift += 7

    return sum(
        kind == 9 and value == 1
        for _, packet, packet_end in fields(0, len(data))
        for field_, event, event_end in fields(packet, packet_end)
        if field_ == 11
        for kind, value, _ in fields(event, event_end)
    )


def losses(rounds: int) -> Row:
    """Measure how many calls of a program that does nothing but call are missing in the trace."""
    row = Row("calls lost, of fib(29)", "%", Limit(0))
    for column, tool in commands(rounds).items():
        (_, none), (_, all_) = (run_command(tool, ["fib", str(argument)], count=True) for argument in (0, LOSS_FIB))
        row.figures[column] = 100 * (1 - (all_ - none) / LOSS_CALLS)
    return row


def saving(children: Children, rounds: int) -> Row:
    """Measure how long it takes to stop and save."""
    row = Row("stop and save, 10 million events", "s", Limit(0.5))
    for column, tool in (("fxtio", "fxtio"), ("VizTracer", "viztracer")):
        if times := [
            seconds for _ in range(rounds) if (seconds := children.ask("tracer_programs.py", tool, "save")) is not None
        ]:
            row.figures[column] = min(times)
    if "VizTracer" in row.figures:
        row.notes["VizTracer"] = "ten times one million"
    return row


# --- the table ------------------------------------------------------------------------------------------------------


def measure(rounds: int) -> list[Row]:
    """Measure everything."""
    children = Children()
    rows = [*events(children, rounds), *programs(children, rounds), *command(children, min(rounds, 3))]
    return [*rows, losses(min(rounds, 2)), saving(children, min(rounds, 2))]


def table(rows: list[Row], markdown: bool) -> str:
    """Return the table as text, without columns in which nothing was measured."""
    columns = [column for column in COLUMNS if any(column in row.figures for row in rows)]
    lines = [["what", "unit", "at most", *columns]]
    lines += [[row.what, row.unit, str(row.limit), *(row.cell(column) for column in columns)] for row in rows]
    if markdown:
        lines.insert(1, ["---"] * len(lines[0]))
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in lines)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Benchmark of the tracer.")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a limit is missed")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each measurement (5)")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="the core (the last one)")
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.core})
    rows = measure(options.rounds)
    print(f"CPython {platform.python_version()} ({platform.machine()}), one core.\n")
    print(table(rows, options.markdown))
    missed = [f"{row.what}: {reason}" for row in rows if (reason := row.missed())]
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
