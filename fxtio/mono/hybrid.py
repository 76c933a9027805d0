"""Recognizes recordings of Mono 5.10.0, whose headers say data version 15 although the events are those of `HYBRID`."""

from __future__ import annotations

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.stream.kernels import kernels
from fxtio.codec.stream.steps import steps_of
from fxtio.mono.headers import BUFFER_HEADER_SIZE, buffer_dtype
from fxtio.mono.layout import BUFFER_MARK, HYBRID
from fxtio.mono.records import dialect_of

CLAIMED = 15
"""The data version in the headers of these recordings."""


def is_hybrid(data: bytes, pointer_size: int) -> bool:
    """Return whether buffers have events that `HYBRID` has and version 15 does not have.

    Only then their version is sure: most events are the same in both.

    Args:
        data: bytes from the first buffer of a recording on.
        pointer_size: of its header.
    """
    raw, begin, end = np.frombuffer(data, np.uint8), [], []
    place = BUFFER_HEADER_SIZE
    while data.startswith(BUFFER_MARK, place - BUFFER_HEADER_SIZE) and place <= len(data):
        size = int(np.frombuffer(data, buffer_dtype(), 1, place - BUFFER_HEADER_SIZE)["size"][0])
        if place + size > len(data):
            break
        begin.append(place)
        end.append(place + size)
        place += size + BUFFER_HEADER_SIZE
    if not begin:
        return False
    first, last = np.array(begin, np.int64), np.array(end, np.int64)
    faults = [_faults(raw, first, last, version, pointer_size) for version in (CLAIMED, HYBRID)]
    return bool(faults[0].any()) and not faults[1].any()


def _faults(data: Array, begin: Array, end: Array, version: float, pointer_size: int) -> Array:
    """Return the faults of buffers, read as those of a data version."""
    steps = steps_of(dialect_of(version, pointer_size))
    raw = data[(begin - BUFFER_HEADER_SIZE)[:, None] + np.arange(BUFFER_HEADER_SIZE)]
    headers = np.ascontiguousarray(raw).view(buffer_dtype())[:, 0]
    registers = np.stack([headers[name].astype(np.uint64) for name in steps.registers], axis=1)
    counts, stop = np.empty((len(begin), steps.owners), np.int64), np.empty(len(begin), np.int64)
    fault, late = np.empty(len(begin), np.uint8), np.empty(len(begin), np.uint8)
    kernels().scan(steps, data, begin, end, registers, counts, stop, fault, late)
    return fault
