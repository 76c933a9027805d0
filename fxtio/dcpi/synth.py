"""Synthetic profiles of any size: what a sampler would find in an image of functions, some of them hot.

The same seed gives the same bytes on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fxtio.dcpi.layout import MAX_COUNT, STEP
from fxtio.dcpi.writer import DcpiWriter, Value
from fxtio.errors import FxtioError
from fxtio.io.reading import Progress

Array = np.ndarray[Any, Any]

DEFAULT_EVENTS = 100_000

SHAPES = {
    "profile": "an image with hot functions and cold ones, in runs of about 20 instructions with samples",
    "sparse": "few samples, far from each other",
    "dense": "every instruction has samples",
}
"""Which profiles there are."""

_CHUNK = 1 << 17
_RUN = {"profile": 20, "sparse": 1, "dense": 0}  # addresses with samples in a row on average; 0 all of them
_WIDEST = 60  # instructions without samples between two runs, at most
_BYTES = {"profile": 4.4, "sparse": 11.2, "dense": 4.0}  # of the file for each address with samples

HEADER: dict[str, Value] = {
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


def write(
    target: Any,
    shape: str,
    *,
    events: int | None = None,
    size: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[int, int]:
    """Write a profile.

    Args:
        target: where to, see `fxtio.create`.
        shape: one of `SHAPES`.
        events: how many addresses with samples; or
        size: about how many bytes, before compression.
        seed: another seed, another profile.
        progress: called now and then with the addresses so far, and all of them.

    Returns:
        How many addresses with samples, and how many bytes.

    Raises:
        FxtioError: the format cannot say so much.
    """
    wanted = events or (max(int(size / _BYTES[shape]), 1) if size else DEFAULT_EVENTS)
    end = 0
    for offset, _ in _pieces(shape, wanted, seed):
        end = int(offset[-1]) + STEP
        if end > MAX_COUNT:
            raise FxtioError(f"{wanted:,} addresses of this shape lie farther apart than a profile can say")
    with DcpiWriter(target, header={**HEADER, "tsize": end}) as writer:
        done = 0
        for offset, count in _pieces(shape, wanted, seed):
            done += writer.write(offset, count)
            if progress is not None:
                progress(done, wanted)
    return done, writer.position


def _pieces(shape: str, wanted: int, seed: int) -> Iterator[tuple[Array, Array]]:
    """Offsets and counts, piece by piece."""
    bits, run, at = np.random.PCG64(seed), _RUN[shape], 0
    for begin in range(0, wanted, _CHUNK):
        number = min(_CHUNK, wanted - begin)
        gap = np.ones(number, np.int64)
        if run:
            ends = _below(bits, run, number) == 0
            gap[ends] += 3 + _below(bits, _WIDEST, number)[ends]
        offset = at + np.cumsum(gap) * STEP
        at = int(offset[-1])
        heat = 1 + _below(bits, 1 << 6, number) // (1 + _below(bits, 1 << 5, number))
        yield offset - STEP, heat


def _below(bits: np.random.PCG64, bound: int, number: int) -> Array:
    """Random numbers from 0 to `bound` - 1."""
    raw: Array = bits.random_raw(number)
    return (raw % np.uint64(bound)).astype(np.int64)
