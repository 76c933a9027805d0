"""Synthetic traces of any size: the same seed gives the same bytes on every machine, and validators report no fault.

    synth.write("big.fxt", "spans", events=10_000_000, seed=1)

A shape is said once, as columns of events and rows that come a chunk at a time, so memory stays bounded.  FXT takes the
columns as they are; other formats have what their exporters write of them.  A chunk is a window of time on a group of
threads; the events of a thread are in the order of time.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Final

from fxtio.errors import FxtioError
from fxtio.formats import Format, by_name, by_suffix
from fxtio.io.reading import Progress
from fxtio.synth.columns import Amount, Shape, plain_names

SHAPES: Final = {
    "spans": "spans that nest, with two arguments each",
    "calls": "spans that nest, without arguments",
    "counters": "samples of counters",
    "flows": "spans on several threads with arrows between them",
    "async": "operations that overlap and move between threads",
    "threads": "spans on very many threads",
    "system": "context switches, wakeups, logs, blobs and modules",
    "sampling": "samples of the stacks of threads",
    "memory": "allocations with their stacks, and garbage collections",
    "mixed": "several of these in turn",
    "profile": "an image with functions, of which few are hot, with loops, and instructions that wait for memory",
    "program": "a server: requests on several threads, database, disk, garbage collections, logs",
    "everything": "each record, argument and option of the format",
}
"""Name and description of each shape."""

MANY_THREADS = 1_000

_OF_FORMATS: Final = {
    "fxt": ("spans", "counters", "flows", "async", "threads", "mixed", "system", "program", "everything"),
    "dcpi": ("profile", "everything"),
    "uftrace": ("calls", "spans", "program", "everything"),
    "mono": ("calls", "sampling", "memory", "mixed", "program", "everything"),
    "coreprofiler": ("sampling", "memory", "mixed", "program", "everything"),
}
_OF_EXPORTERS: Final = ("calls", "spans", "program")


def shapes_of(format: Format) -> dict[str, str]:
    """Return name and description of the shapes that a format has; those of spans if it has an exporter."""
    names = _OF_FORMATS.get(format.name, _OF_EXPORTERS if format.exporter is not None else ())
    return {name: SHAPES[name] for name in names}


def write(
    target: Any,
    shape: str,
    *,
    format: str | None = None,
    events: int | None = None,
    size: int | None = None,
    threads: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> tuple[int, int]:
    """Write a synthetic trace.

    Args:
        target: anything that `fxtio.create` takes.
        shape: one of the shapes of the format, see `shapes_of`.
        format: the name of the format; by default it is that of the suffix, else `fxt`.
        events: the number of events, rounded up to whole operations; by default 100,000 unless there is a size.
        size: the number of bytes before compression, rounded up to whole operations.
        threads: the number of threads, 16 to a process; by default 8, and 1,000 in the shape `threads`.
        seed: the seed of the random numbers; the same seed gives the same bytes on every machine.
        progress: called with the number of events (or bytes, with a size) so far, and the number in all.
        options: those of the format's writer, where the trace is not written by an exporter.

    Returns:
        The number of events, and the number of bytes before compression.

    Raises:
        FormatError: there is no such format.
        FxtioError: the format has no such shape, or the shape cannot be so.
        ValueError: both events and a size are given, or a number is not positive.
        OSError: the target cannot be written.
    """
    by_ending = by_suffix(os.fspath(target)) if isinstance(target, str | os.PathLike) and format is None else None
    chosen = by_ending or by_name(format or "fxt")
    if shape not in (known := shapes_of(chosen)):
        raise FxtioError(f"the format {chosen.name} has no shape {shape!r}, only {', '.join(known) or 'none at all'}")
    if threads is not None and chosen.name == "dcpi":
        raise FxtioError("a DCPI profile has no threads")
    threads = threads if threads is not None else MANY_THREADS if shape == "threads" else 8
    amount = Amount(events, size, threads, seed, progress or (lambda done, total: None))
    if shape == "everything":
        written: tuple[int, int] = import_module(f"fxtio.synth.{chosen.name}").everything(target, amount, options)
        return written
    return _write(target, chosen, shape, amount, options)


def _write(target: Any, format: Format, shape: str, amount: Amount, options: dict[str, Any]) -> tuple[int, int]:
    from fxtio.synth import coreprofiler, dcpi, export, fxt, shapes

    if format.name == "dcpi":
        return dcpi.write(target, amount)
    generators = _generators(format.name, shape)
    names = shapes.server_names if shape == "program" else plain_names
    if format.name == "fxt":
        return fxt.write(target, generators, names, amount, {"provider": "fxtio synth"} | options)
    if format.name == "coreprofiler":
        return coreprofiler.write(target, generators, amount, options)
    if options:
        raise TypeError(f"a trace of the format {format.name} takes no options, but {', '.join(options)}")
    return export.export(target, format, generators, names, amount)


def _generators(format: str, shape: str) -> list[Shape]:
    """Return what generates a shape: one function, or several whose chunks come in turn."""
    from fxtio.synth import shapes

    if shape == "mixed" and format == "fxt":
        return [shapes.spans, shapes.counters, shapes.flows, shapes.async_, shapes.instants]
    generators: dict[str, list[Shape]] = {
        "spans": [shapes.spans],
        "calls": [shapes.calls],
        "counters": [shapes.counters],
        "flows": [shapes.flows],
        "async": [shapes.async_],
        "threads": [shapes.spans],
        "system": [shapes.system],
        "sampling": [shapes.sampling],
        "memory": [shapes.memory],
        "mixed": [shapes.calls, shapes.sampling, shapes.memory],
        "program": [shapes.program],
    }
    return generators[shape]
