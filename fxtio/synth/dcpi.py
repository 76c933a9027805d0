"""DCPI profiles: the samples of an image with functions, some of them hot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.dcpi.encode import Value
from fxtio.dcpi.layout import MAX_COUNT, STEP
from fxtio.dcpi.writer import DcpiWriter
from fxtio.errors import FxtioError
from fxtio.synth.columns import Amount, Draw

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
"""The lines of the header, without the size of the text."""

_FUNCTIONS_AT_ONCE = 64
_HOTTEST, _RANKS = 3_000, 400
_BYTES = 5.5  # of the file for each address with samples


def write(target: Any, amount: Amount) -> tuple[int, int]:
    """Write the samples of functions, of which few are hot: those of rank N have an Nth of the samples.

    The profile is generated twice, since its header has its end.

    Args:
        target: see `fxtio.create`.
        amount: the amount; events are addresses with samples.

    Returns:
        The number of addresses and of bytes.

    Raises:
        FxtioError: no profile reaches as far.
        OSError: the target cannot be written.
    """
    goal = amount.goal if amount.size is None else max(int(amount.size / _BYTES), 1)
    end = 0
    for offset, _ in _samples(goal, amount.seed):
        if (end := int(offset[-1]) + STEP) > MAX_COUNT:
            raise FxtioError(f"{goal:,} addresses are farther apart than a profile can express")
    done = 0
    with DcpiWriter(target, header={**HEADER, "tsize": end}) as writer:
        for offset, count in _samples(goal, amount.seed):
            done += writer.write_table("samples", {"text_offset": offset, "count": count})
            amount.left(done, writer.position)
    return done, writer.position


def _samples(goal: int, seed: int) -> Iterator[tuple[Array, Array]]:
    """Yield offsets and counts in batches."""
    draw, at, done = Draw(np.random.PCG64(seed)), 0, 0
    while done < goal:
        sizes = 8 + draw.below(48, _FUNCTIONS_AT_ONCE) * (1 + draw.below(9, _FUNCTIONS_AT_ONCE))
        heats = _HOTTEST // (1 + draw.below(_RANKS, _FUNCTIONS_AT_ONCE))
        functions = zip(sizes.tolist(), heats.tolist(), strict=True)
        counts = np.concatenate([_function(draw, size, heat) for size, heat in functions])
        rows = np.flatnonzero(counts)[: goal - done]
        if len(rows):
            yield at + rows * STEP, counts[rows]
        done += len(rows)
        at += len(counts) * STEP


def _function(draw: Draw, size: int, heat: int) -> Array:
    """Return the samples at the instructions of a function: most are in a loop, and where it waits for a load.

    Two instructions that are issued together get the samples of the first, so every other one often has none.
    """
    counts: Array = draw.below(64, size) * heat // 2_000
    begin = int(draw.below(size, 1)[0])
    loop = slice(begin, begin + size // 3)
    counts[loop] += heat // 8
    counts[loop] *= 1 + (draw.below(7, size)[loop] == 0) * 5
    paired = (draw.below(3, size) == 0) & (np.arange(size) % 2 == 1)
    counts[paired] = 0
    return counts
