"""The slowdown of pyperformance's benchmarks, unmodified, under the tracer and its peers, measured in one run.

    pip install pyperformance                          # and what single benchmarks need, see below
    python benchmarks/bench_pyperformance.py           # at most 15 minutes
    python benchmarks/bench_pyperformance.py --markdown
    python benchmarks/bench_pyperformance.py --only deltablue,richards

All tools record each call of a Python function; cProfile only sums them up.  Each run is a child process
(pyperformance_worker.py) of a few runs; the tools take turns.  The clock is the processor time of the process with
all its threads, without start-up and without saving.  A slowdown is the best run of a tool over the best untraced one.
Left out are benchmarks that only start other programs, those whose packages are missing (`requirements.txt` in the
folders of pyperformance's benchmarks), and tools that are missing.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WORKER = Path(__file__).with_name("pyperformance_worker.py")
TOOLS = {"fxtio": "fxtio", "trace0": "trace0", "VizTracer": "viztracer", "cProfile": "cProfile"}
"""The columns and the modules that they need.  The worker knows tools by their names in small letters."""
TIMEOUT = 40
ONLY_COMMANDS = {"2to3", "hg_startup", "python_startup", "python_startup_no_site"}
"""Benchmarks that only start other programs."""

Loops = dict[str, int]
Seconds = dict[str, float]


@dataclass(frozen=True)
class Script:
    """A benchmark of pyperformance: a script and its options."""

    name: str
    path: Path
    options: tuple[str, ...]


def scripts() -> list[Script]:
    """Return the benchmarks of pyperformance.

    Raises:
        SystemExit: pyperformance is not installed.
    """
    package = importlib.util.find_spec("pyperformance")
    if package is None or package.origin is None:
        raise SystemExit("pyperformance is not installed")
    found = []
    for path in sorted(Path(package.origin).parent.glob("data-files/benchmarks/bm_*/*.toml")):
        options = tomllib.loads(path.read_text("utf-8"))["tool"]["pyperformance"]
        script = path.with_name("run_benchmark.py")
        if options["name"] not in ONLY_COMMANDS:
            found.append(Script(options["name"], script, tuple(options.get("extra_opts", ()))))
    return found


class BenchmarkError(Exception):
    """A benchmark does not run here."""


def run(tool: str, script: Script, loops: Loops) -> tuple[Loops, Seconds, int]:
    """Run a benchmark under a tool.

    Returns:
        By the names of its parts the numbers of loops and the seconds, and how many events were lost.

    Raises:
        BenchmarkError: it fails, or takes too long.
    """
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.json")
        command = [sys.executable, str(WORKER), tool.lower(), str(script.path), str(results), json.dumps(loops)]
        process = subprocess.Popen(
            [*command, *script.options],
            cwd=folder,
            env=os.environ | {"PYTHONHASHSEED": "0"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            _, errors = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            raise BenchmarkError(f"it takes more than {TIMEOUT} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):  # its own children as well, which may hang
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        if process.returncode or not results.exists():
            lines = errors.decode(errors="replace").strip().splitlines()
            raise BenchmarkError(lines[-1] if lines else f"exit status {process.returncode}")
        parts, lost = json.loads(results.read_text("utf-8"))
    counts = {name: count for name, (count, _) in parts.items()}
    return counts, {name: seconds for name, (_, seconds) in parts.items()}, lost or 0


@dataclass
class Slowdowns:
    """What was measured of a part of a benchmark: the untraced seconds, and by tool how many times as long it takes."""

    name: str
    untraced: float
    by_tool: dict[str, float]


class Measurement:
    """Measures benchmarks.

    Attributes:
        lost: events of ours that were lost.
    """

    def __init__(self, tools: list[str], rounds: int) -> None:
        self._tools = ["untraced", *tools]
        self._rounds = rounds
        self.lost = 0

    def measure(self, script: Script) -> Iterator[Slowdowns]:
        """Measure a benchmark, all tools in turn; one under which it fails is left out, visibly.

        Raises:
            BenchmarkError: it does not run untraced.
        """
        best: dict[str, Seconds] = defaultdict(dict)
        loops, _, _ = run("untraced", script, {})
        failed: set[str] = set()
        for _ in range(self._rounds):
            for tool in self._tools:
                if tool in failed:
                    continue
                try:
                    _, seconds, lost = run(tool, script, loops)
                except BenchmarkError as error:
                    if tool == "untraced":
                        raise
                    failed.add(tool)
                    print(f"left out: {script.name} with {tool}: {error}", file=sys.stderr)
                    continue
                self.lost += lost if tool == "fxtio" else 0
                for part, figure in seconds.items():
                    best[part][tool] = min(figure, best[part].get(tool, figure))
        for part, figures in best.items():
            untraced = figures.pop("untraced")
            name = script.name if len(best) == 1 else part
            yield Slowdowns(name, untraced / loops[part], {tool: figures[tool] / untraced for tool in figures})


def measure_all(measurement: Measurement, names: set[str], minutes: float) -> list[Slowdowns]:
    """Measure all benchmarks, or those with such names, until the time is over."""
    end = time.monotonic() + 60 * minutes
    results: list[Slowdowns] = []
    for script in scripts():
        if names and script.name not in names:
            continue
        if time.monotonic() > end:
            print(f"left out: {script.name}: the time is over", file=sys.stderr)
            continue
        try:
            results.extend(measurement.measure(script))
        except BenchmarkError as error:
            print(f"left out: {script.name}: {error}", file=sys.stderr)
    return results


def summary(results: list[Slowdowns], tools: list[str]) -> list[list[str]]:
    """Return a table: for each tool the median and the worst slowdown, and where it is the lowest of all."""
    lines = [["tool", "median", "worst", "nine of ten at most", "lowest of all", "measured"]]
    for tool in tools:
        figures = {result.name: result.by_tool[tool] for result in results if tool in result.by_tool}
        if not figures:
            continue
        worst = max(figures, key=figures.__getitem__)
        tenth = sorted(figures.values())[max(0, -(-len(figures) * 9 // 10) - 1)]
        lowest = sum(result.by_tool.get(tool) == min(result.by_tool.values()) for result in results if result.by_tool)
        median = statistics.median(figures.values())
        worst_text = f"{figures[worst]:.2f} ({worst})"
        lines.append([tool, f"{median:.2f}", worst_text, f"{tenth:.2f}", str(lowest), str(len(figures))])
    return lines


def details(results: list[Slowdowns], tools: list[str]) -> list[list[str]]:
    """Return a table of all benchmarks."""
    lines = [["benchmark", "untraced, ms", *tools]]
    for result in results:
        cells = [f"{result.by_tool[tool]:.2f}" if tool in result.by_tool else "-" for tool in tools]
        lines.append([result.name, f"{1000 * result.untraced:.3g}", *cells])
    return lines


def text(lines: list[list[str]], markdown: bool) -> str:
    """Return a table as text."""
    if markdown:
        return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], ["---"] * len(lines[0]), *lines[1:]])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(row.rstrip() for row in rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Slowdown of pyperformance's benchmarks under tracers.")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    parser.add_argument("--rounds", type=int, default=1, help="rounds of each benchmark (1)")
    parser.add_argument("--minutes", type=float, default=14, help="no benchmark begins after this many minutes (14)")
    parser.add_argument("--only", default="", help="benchmarks to measure, with commas between them (all)")
    parser.add_argument("--core", type=int, help="keep to this core (any)")
    options = parser.parse_args()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    tools = [tool for tool, module in TOOLS.items() if importlib.util.find_spec(module) is not None]
    for tool in TOOLS.keys() - set(tools):
        print(f"left out: {tool}: it is not installed", file=sys.stderr)
    measurement = Measurement(tools, options.rounds)
    results = measure_all(measurement, set(filter(None, options.only.split(","))), options.minutes)
    print(f"CPython {platform.python_version()} ({platform.machine()}), {os.cpu_count()} cores.\n")
    print(text(summary(results, tools), options.markdown))
    print(f"\nEvents of fxtio that were lost: {measurement.lost}\n")
    print(text(details(results, tools), options.markdown))


if __name__ == "__main__":
    main()
