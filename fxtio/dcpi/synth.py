"""Synthetic profiles of any size: samples of an image with functions, some of them hot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.dcpi import everything
from fxtio.dcpi.encode import Value
from fxtio.dcpi.layout import MAX_COUNT, STEP
from fxtio.dcpi.records import MAX_COUNTS
from fxtio.dcpi.writer import DcpiWriter
from fxtio.errors import FxtioError
from fxtio.io.reading import Progress

DEFAULT_EVENTS = 100_000

SHAPES = {
    "profile": "an image with hot functions and cold ones, in runs of about 20 instructions with samples",
    "sparse": "few samples, far from each other",
    "dense": "every instruction has samples",
    "program": "functions of which few are hot, with loops, and with instructions that wait for memory",
    "everything": "all lines of the header, chunks of all kinds, in small rounds",
}
"""The shapes of synthetic profiles, with their contents."""

_BATCH = 1 << 17
_RUN = {"profile": 20, "sparse": 1, "dense": 0}  # addresses with samples in a row on average; 0 all of them
_WIDEST = 60  # instructions without samples between two runs, at most
_BYTES = {  # of the file for each address with samples
    "profile": 4.4,
    "sparse": 11.2,
    "dense": 4.0,
    "program": 5.5,
    "everything": 9.3,
}

HEADER: dict[str, Value] = {
    "version": "pdb-0.07",
    "image": "199706011200000a1b2c",
    "epoch": "9706011230",
    "platform": "synthetic.example",
    "event": "cycles",
    "period": 62000,
    "tstart": 0x120000000,
    "cpuspeed": 333,
    "path": "/synthetic/image",
    "label": "written by fxtio synth, never measured",
}


def synth(
    target: Any,
    shape: str,
    *,
    events: int | None = None,
    size: int | None = None,
    threads: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[int, int]:
    """Write a synthetic profile, see `fxtio.formats.SynthRoom.synth`.

    Events are addresses with samples; `everything` completes the last round.  A profile has no threads.
    """
    if threads is not None:
        raise FxtioError("a DCPI profile has no threads")
    fixed = STEP * MAX_COUNTS if shape == "everything" else 0  # bytes of its last chunk
    goal = events or (max(int((size - fixed) / _BYTES[shape]), 1) if size else DEFAULT_EVENTS)
    report = progress or (lambda *_: None)
    if shape == "everything":
        return _write_everything(target, goal, seed, report)
    end = 0
    for offset, _ in _samples(shape, goal, seed):
        end = _checked_end(int(offset[-1]) + STEP, goal)
    with DcpiWriter(target, header={**HEADER, "tsize": end}) as writer:
        done = 0
        for offset, count in _samples(shape, goal, seed):
            done += writer.write_table("samples", {"text_offset": offset, "count": count})
            report(done, goal)
    return done, writer.position


def _checked_end(end: int, goal: int) -> int:
    """Return the end of the samples, or raise FxtioError if no profile reaches as far."""
    if end > MAX_COUNT:
        raise FxtioError(f"{goal:,} addresses of this shape are farther apart than a profile can express")
    return end


def _write_everything(target: Any, goal: int, seed: int, report: Progress) -> tuple[int, int]:
    end = 0
    for offset, counts in everything.chunks(goal, seed):
        end = _checked_end(offset + STEP * len(counts), goal)
    with DcpiWriter(target, header=everything.header(seed, end)) as writer:
        done = 0
        for offset, counts in everything.chunks(goal, seed):
            writer.chunk(offset, counts)
            done += sum(count > 0 for count in counts)
            report(min(done, goal), goal)
    return done, writer.position


def _samples(shape: str, goal: int, seed: int) -> Iterator[tuple[Array, Array]]:
    """Yield offsets and counts in batches."""
    if shape == "program":
        yield from _program(goal, seed)
        return
    bits, run, at = np.random.PCG64(seed), _RUN[shape], 0
    for begin in range(0, goal, _BATCH):
        number = min(_BATCH, goal - begin)
        gap = np.ones(number, np.int64)
        if run:
            ends = _below(bits, run, number) == 0
            gap[ends] += 3 + _below(bits, _WIDEST, number)[ends]
        offset = at + np.cumsum(gap) * STEP
        at = int(offset[-1])
        count = 1 + _below(bits, 1 << 6, number) // (1 + _below(bits, 1 << 5, number))
        yield offset - STEP, count


_FUNCTIONS_AT_ONCE = 64


def _program(goal: int, seed: int) -> Iterator[tuple[Array, Array]]:
    """Yield the samples of functions, of which few are hot: those of rank N have an Nth of the samples."""
    bits, at, done = np.random.PCG64(seed), 0, 0
    while done < goal:
        sizes = 8 + _below(bits, 48, _FUNCTIONS_AT_ONCE) * (1 + _below(bits, 9, _FUNCTIONS_AT_ONCE))
        heats = _HOTTEST // (1 + _below(bits, _RANKS, _FUNCTIONS_AT_ONCE))
        counts = np.concatenate([_function(bits, size, heat) for size, heat in zip(sizes, heats, strict=True)])
        rows = np.flatnonzero(counts)[: goal - done]
        if len(rows):
            yield at + rows * STEP, counts[rows]
        done += len(rows)
        at += len(counts) * STEP


_HOTTEST, _RANKS = 3_000, 400


def _function(bits: np.random.PCG64, size: Any, heat: Any) -> Array:
    """Return the samples at the instructions of a function: most are in a loop, and where it waits for a load.

    Two instructions that are issued together get the samples of the first, so every other one often has none.
    """
    counts: Array = _below(bits, 64, int(size)) * heat // 2_000
    begin = int(_below(bits, int(size), 1)[0])
    loop = slice(begin, begin + int(size) // 3)
    counts[loop] += heat // 8
    counts[loop] *= 1 + (_below(bits, 7, int(size))[loop] == 0) * 5
    paired = (_below(bits, 3, int(size)) == 0) & (np.arange(int(size)) % 2 == 1)
    counts[paired] = 0
    return counts


def _below(bits: np.random.PCG64, bound: int, number: int) -> Array:
    """Return random numbers from 0 to `bound` - 1."""
    raw: Array = bits.random_raw(number)
    return (raw % np.uint64(bound)).astype(np.int64)
