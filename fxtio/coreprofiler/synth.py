"""Synthetic traces: those of the simulator, one of a program, and one of all records."""

from __future__ import annotations

from typing import Any

from fxtio.coreprofiler import simulator
from fxtio.coreprofiler.everything import Everything
from fxtio.coreprofiler.layout import Style
from fxtio.coreprofiler.program import Program
from fxtio.coreprofiler.writer import CoreProfilerWriter
from fxtio.errors import FxtioError
from fxtio.io.reading import Progress

__all__ = ["DEFAULT_EVENTS", "SHAPES", "synth"]

SHAPES = {
    **simulator.SHAPES,
    "program": "a server: requests, database and sockets, compilations, allocations, collections, a log",
    "everything": "all records and all forms of their items, in small rounds",
}
"""The shapes of synthetic traces, with their contents."""

DEFAULT_EVENTS = 100_000

_DEFAULT_THREADS = 8

_STYLES = {"program": "D3", "everything": "D3"}
"""The styles of shapes that another than that of the given specification can express better."""

_WITH_OS_THREADS = ("D3", "D4")


def synth(
    target: Any,
    shape: str,
    *,
    events: int | None = None,
    size: int | None = None,
    threads: int | None = None,
    seed: int = 0,
    style: str | Style | None = None,
    progress: Progress | None = None,
) -> tuple[int, int]:
    """Write a synthetic trace, see `fxtio.formats.SynthRoom.synth`; events are records.

    The style is that of `CoreProfilerWriter`: by default `D3` for `program` and `everything`, else `D2`.  In
    `everything` every round has one thread.
    """
    goal = next((number for number in (events, size) if number is not None), DEFAULT_EVENTS)
    if shape == "everything" and threads is not None:
        raise FxtioError("each round of the shape everything has a thread of its own")
    chosen = style or _STYLES.get(shape, "D2")
    with CoreProfilerWriter(target, style=chosen) as writer:
        source = _source(shape, writer, seed, threads or _DEFAULT_THREADS, os_threads=chosen in _WITH_OS_THREADS)
        at_once = 100 if shape in simulator.SHAPES else 1
        while (done := source.records if size is None else writer.position) < goal:
            for _ in range(at_once):
                source.step()
            if progress is not None:
                progress(min(done, goal), goal)
        source.finish()
    return source.records, writer.position


def _source(
    shape: str, writer: CoreProfilerWriter, seed: int, threads: int, *, os_threads: bool
) -> simulator.Simulator | Program | Everything:
    """Return what makes the records of a shape."""
    if shape == "program":
        return Program(writer.put, seed=seed, threads=threads, os_threads=os_threads)
    if shape == "everything":
        return Everything(writer.put, seed=seed, os_threads=os_threads)
    return simulator.Simulator(writer.put, shape=shape, seed=seed, threads=threads, os_threads=os_threads)
