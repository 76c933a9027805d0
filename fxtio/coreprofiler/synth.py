"""Synthetic traces, written by the simulator."""

from __future__ import annotations

from typing import Any

from fxtio.coreprofiler.layout import Style
from fxtio.coreprofiler.simulator import SHAPES, Simulator
from fxtio.coreprofiler.writer import CoreProfilerWriter
from fxtio.io.reading import Progress

__all__ = ["DEFAULT_EVENTS", "SHAPES", "synth"]

DEFAULT_EVENTS = 100_000

_DEFAULT_THREADS = 8


def synth(
    target: Any,
    shape: str,
    *,
    events: int | None = None,
    size: int | None = None,
    threads: int | None = None,
    seed: int = 0,
    style: str | Style = "D2",
    progress: Progress | None = None,
) -> tuple[int, int]:
    """Write a synthetic trace.

    Args:
        target: what to write to, see `fxtio.create`.
        shape: one of `SHAPES`.
        events: about how many records; 100,000 by default.
        size: about how many bytes before compression, in place of `events`.
        threads: the number of threads; 8 by default.
        seed: the seed of the random numbers; the same seed gives the same bytes on every machine.
        style: the style, see `CoreProfilerWriter`.
        progress: called now and then with the records or bytes so far, and all of them.

    Returns:
        The number of records and the number of bytes.

    Raises:
        OSError: the target cannot be created.
    """
    goal = next((number for number in (events, size) if number is not None), DEFAULT_EVENTS)
    with CoreProfilerWriter(target, style=style) as writer:
        simulator = Simulator(writer.put, shape=shape, seed=seed, threads=threads or _DEFAULT_THREADS)
        while (done := simulator.records if size is None else writer.position) < goal:
            for _ in range(100):
                simulator.step()
            if progress is not None:
                progress(min(done, goal), goal)
        simulator.finish()
    return simulator.records, writer.position
