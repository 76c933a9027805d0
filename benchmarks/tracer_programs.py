"""The cost of a whole program: a child process of bench_tracer.py, which runs a program under a tracer.

    python benchmarks/tracer_programs.py fxtio fib FOLDER

Prints JSON: for `fib` and the like the processor seconds of each run, for `save` what stopping and saving take, for
`count` how many calls `real` makes.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from tracer_workload import fib, real

RUNS = 5
FIB = 22
EVENTS = 10_000_000
VIZTRACER_PART = 10
"""VizTracer saves this part of the events: all of them would need ten gigabytes."""


def untraced(_: Path) -> None:
    """Record nothing."""


def fxtio(folder: Path) -> None:
    """Record Python functions."""
    import fxtio

    fxtio.start(folder / "out.fxt", functions=True)


def fxtio_c(folder: Path) -> None:
    """Record C functions as well."""
    import fxtio

    fxtio.start(folder / "out.fxt", functions=True, c_functions=True)


def floor(folder: Path, *, calls: bool = False) -> None:
    """Set up the least that recording Python functions can cost."""
    import tracer_floor

    tracer_floor.watch_all(tracer_floor.built(folder), calls=calls)


def floor_c(folder: Path) -> None:
    """Record C functions as well."""
    floor(folder, calls=True)


def viztracer(folder: Path, **options: Any) -> Callable[[], object]:
    """Record all functions; return what empties the buffer, which then stays in the cache."""
    from viztracer import VizTracer

    tracer = VizTracer(verbose=0, output_file=str(folder / "out.json"), **options)
    tracer.start()

    def clear() -> None:
        tracer.clear()

    return clear


def viztracer_python(folder: Path) -> Callable[[], object]:
    """Record Python functions."""
    return viztracer(folder, ignore_c_function=True)


def trace0(folder: Path) -> None:
    """Record Python functions; the work of the thread that writes them counts."""
    import_module("trace0").Tracer(str(folder / "out.pftrace")).__enter__()


def cprofile(_: Path) -> None:
    """Profile all functions: a sum for each, no events."""
    import cProfile

    cProfile.Profile().enable()


def cprofile_python(_: Path) -> None:
    """Record Python functions."""
    import cProfile

    cProfile.Profile(builtins=False).enable()


def functiontrace(folder: Path) -> None:
    """Record all functions and send them to the server, whose time does not count."""
    import shutil

    if shutil.which("functiontrace-server") is None:
        raise SystemExit("functiontrace-server is not installed")
    import _functiontrace_rs

    _functiontrace_rs.begin_tracing(str(folder))


TOOLS: dict[str, Callable[[Path], Callable[[], object] | None]] = {
    "untraced": untraced,
    "fxtio": fxtio,
    "fxtio_c": fxtio_c,
    "floor": floor,
    "floor_c": floor_c,
    "viztracer": viztracer,
    "viztracer_python": viztracer_python,
    "trace0": trace0,
    "cprofile": cprofile,
    "cprofile_python": cprofile_python,
    "functiontrace": functiontrace,
}


def twice() -> None:
    """Run two threads, one after the other."""
    for _ in range(2):
        thread = threading.Thread(target=fib, args=(FIB,))
        thread.start()
        thread.join()


def together() -> None:
    """Run two threads at once."""
    threads = [threading.Thread(target=fib, args=(FIB,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


PROGRAMS: dict[str, Callable[[], object]] = {
    "fib": lambda: fib(FIB),
    "real": real,
    "twice": twice,
    "together": together,
}


def timed(work: Callable[[], object], clock: Callable[[], float] = process_time) -> float:
    """Return the seconds that a call takes."""
    begin = clock()
    work()
    return clock() - begin


def run(tool: str, program: str, folder: Path) -> list[float]:
    """Return the seconds of each run."""
    work = PROGRAMS[program]
    work()
    clear = TOOLS[tool](folder)
    seconds = []
    for _ in range(RUNS):
        if clear is not None:
            clear()
        seconds.append(timed(work))
    return seconds


def save(tool: str, folder: Path) -> float:
    """Return the seconds to stop and save ten million instants."""
    if tool == "fxtio":
        import fxtio

        fxtio.start(folder / "out.fxt")
        instant = fxtio.instant
        for _ in range(EVENTS):
            instant("tick")
        return timed(fxtio.stop, perf_counter)
    from viztracer import VizTracer

    tracer = VizTracer(verbose=0, ignore_c_function=True, tracer_entries=EVENTS // VIZTRACER_PART + 1000)
    tracer.start()
    add_instant = tracer.add_instant
    for _ in range(EVENTS // VIZTRACER_PART):
        add_instant("tick")

    def stop() -> None:
        tracer.stop()
        tracer.save(str(folder / "out.json"))

    return timed(stop, perf_counter) * VIZTRACER_PART


def count() -> int:
    """Return how many Python functions `real` calls."""
    real()
    events: Counter[str] = Counter()
    sys.setprofile(lambda frame, event, argument: events.update((event,)))
    real()
    sys.setprofile(None)
    return events["call"]


def main() -> None:
    """Run what the command line asks for."""
    tool, program, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    if program == "count":
        print(json.dumps(count()))
    elif program == "save":
        print(json.dumps(save(tool, folder)))
    else:
        print(json.dumps(run(tool, program, folder)))


if __name__ == "__main__":
    main()
