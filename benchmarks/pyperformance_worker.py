"""One of pyperformance's benchmarks under a tracer: a child process of bench_pyperformance.py.

    python benchmarks/pyperformance_worker.py TOOL SCRIPT RESULTS LOOPS [OPTION...]

The script runs unmodified, in the folder of RESULTS.  All clocks for durations show the processor time of the process,
and `pyperf.Runner` measures here instead of in processes of its own: it runs a benchmark a few times.  LOOPS is JSON:
how often each benchmark repeats its work in a run; one that is missing is repeated until it takes a while.

Writes JSON: for each benchmark the number of loops and the seconds of the best run; and how many events were lost, if
the tool says so.
"""

from __future__ import annotations

import json
import runpy
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

RUNS = 4
SHORTEST, LONGEST = 0.04, 0.4
"""Seconds that the loops of a benchmark take at least, where their number is not given, and after which there is no
further run."""

Stop = Callable[[], int | None]


def untraced(_: Path) -> Stop:
    """Record nothing."""
    return lambda: None


def fxtio(folder: Path) -> Stop:
    """Record Python functions; the result of the end is the number of events that were lost."""
    import fxtio

    fxtio.start(folder / "out.fxt", functions=True)

    def stop() -> int | None:
        summary = fxtio.stop()
        return None if summary is None else summary.lost

    return stop


def trace0(folder: Path) -> Stop:
    """Record Python functions."""
    tracer = import_module("trace0").Tracer(str(folder / "out.pftrace"))
    tracer.__enter__()
    return lambda: tracer.__exit__(None, None, None) and None


def viztracer(folder: Path) -> Stop:
    """Record Python functions into a buffer of the usual size, which is not saved."""
    from viztracer import VizTracer

    tracer = VizTracer(verbose=0, output_file=str(folder / "out.json"), ignore_c_function=True)
    tracer.start()
    stop: Stop = tracer.stop
    return stop


def cprofile(_: Path) -> Stop:
    """Profile Python functions: a sum for each, no events."""
    import cProfile

    profile = cProfile.Profile(builtins=False)
    profile.enable()
    return profile.disable


TOOLS: dict[str, Callable[[Path], Stop]] = {
    "untraced": untraced,
    "fxtio": fxtio,
    "trace0": trace0,
    "viztracer": viztracer,
    "cprofile": cprofile,
}


def measure(run: Callable[[int], float], loops: int | None) -> tuple[int, float]:
    """Return the number of loops and the seconds of the best run."""
    count = loops or 1
    seconds = [run(count)]
    while loops is None and seconds[0] < SHORTEST:
        count = max(2 * count, int(count * SHORTEST / max(seconds[0], 1e-6)))
        seconds = [run(count)]
    while len(seconds) < RUNS and sum(seconds) < LONGEST:
        seconds.append(run(count))
    return count, min(seconds)


def main() -> None:
    """Run what the command line asks for."""
    tool, script, target, known, *options = sys.argv[1:]
    time.perf_counter = time.process_time
    pyperf: Any = import_module("pyperf")
    in_process: Any = import_module("pyperf._worker").WorkerProcessTask

    loops = json.loads(known)
    results: dict[str, tuple[int, float]] = {}

    def run_task(runner: Any, task: Any) -> None:
        if not isinstance(task, in_process):
            raise SystemExit("it only starts other programs")
        results[task.name] = measure(lambda count: task.task_func(task, count), loops.get(task.name))

    pyperf.Runner._main = run_task
    sys.argv = [script, "--worker", "--loops=1", *options]
    sys.path[0] = str(Path(script).parent)
    stop = TOOLS[tool](Path(target).parent)
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        lost = stop()
    Path(target).write_text(json.dumps([results, lost]), "utf-8")


if __name__ == "__main__":
    main()
