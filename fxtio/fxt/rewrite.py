"""Write the records of a batch again: those that are chosen as they are, others replaced or left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

import numpy as np

from fxtio import _native
from fxtio.arrays import Array
from fxtio.codec.generate import encode
from fxtio.codec.record import Record
from fxtio.errors import EncodeError
from fxtio.fxt.frames import decode_exactly
from fxtio.fxt.state import Batch


def broken(batch: Batch) -> Array:
    """Return which records of a batch are too short for their content (bool): no reader could decode them."""
    result = np.zeros(len(batch), bool)
    for cls in batch.classes():
        rows, _ = batch.columns(cls)
        of_class = batch.rows(cls)
        if len(rows) < len(of_class):
            result[of_class] = True
            result[rows] = False
    return result


def output(batch: Batch, written: Array, replaced: Mapping[int, bytes]) -> Iterator[bytes | memoryview]:
    """Yield the bytes of the records that are written and of those that replace others, in order, little-endian.

    Args:
        batch: the batch.
        written: the records that are written as they are (bool).
        replaced: by row, the bytes that replace a record.
    """
    begin = 0
    for row in sorted(row for row, data in replaced.items() if data):
        yield from _records(batch, written, begin, row)
        yield replaced[row]
        begin = row
    yield from _records(batch, written, begin, len(written))


def _records(batch: Batch, written: Array, begin: int, end: int) -> Iterator[bytes | memoryview]:
    """Yield the bytes of the records that are written among those from row `begin` to row `end`."""
    frame, written = batch.frame, written[begin:end]
    at, size = frame.at[begin:end], frame.size[begin:end]
    if frame.big_endian:
        for row in np.flatnonzero(written).tolist():
            yield little_endian(batch, begin + row, begin + row)
    elif len(at) and written.all() and at[-1] + size[-1] - at[0] == size.sum():
        yield little_endian(batch, begin, end - 1)
    elif len(at):
        out = np.empty(int(at[-1] + size[-1] - at[0]), np.uint64)
        count = _native.copy_rows(frame.block.raw, at, size, written, out)
        yield out[:count].data.cast("B")


def little_endian(batch: Batch, first: int, last: int) -> bytes | memoryview:
    """Return the bytes of the records from row `first` to row `last`, little-endian.

    A record with unknown content in a big-endian trace cannot be converted; it is reported and left out.
    """
    frame = batch.frame
    if not frame.big_endian:
        return frame.block.data[int(frame.at[first]) * 8 : int(frame.at[last] + frame.size[last]) * 8]
    encoded = []
    for row in range(first, last + 1):
        at, size = int(frame.at[row]), int(frame.size[row])
        record = decode_exactly(frame.block, at, at + size, True)
        with suppress(EncodeError):  # an argument of an unknown type has bytes of which no order is known
            if isinstance(record, Record):
                encoded.append(encode(record))
                continue
        message = "a record with unknown content cannot be converted from big-endian to little-endian"
        batch.report("merge.byte-order", np.array([row]), message)
    return b"".join(encoded)


def set_ticks(batch: Batch, at: Array, ticks: Array) -> None:
    """Replace words of a batch, in the memory of its frame.

    Args:
        batch: the batch.
        at: the indices of the words in the block (int64).
        ticks: the new values (uint64).
    """
    block = batch.frame.block
    block.words[at] = ticks
    if batch.frame.big_endian:
        block.raw[at] = ticks.byteswap()
