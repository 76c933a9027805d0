"""The kernels that copy many ranges at once in numpy, see `fxtio._native.python`."""

from __future__ import annotations

import numpy as np

from fxtio.arrays import Array


def copy_rows(words: Array, at: Array, size: Array, chosen: Array, out: Array) -> int:
    """Copy the runs of words that are chosen (bool), one behind the other, to `out`; return how many words they have.

    A run has `size` words from index `at` on (int64).  ValueError: one is not within the words, or there is no room.
    """
    at, size = at[chosen], size[chosen]
    ends = np.cumsum(size)
    total = int(size.sum())
    if (at < 0).any() or (size < 0).any() or (at + size > len(words)).any() or total > len(out):
        raise ValueError("a run is not within the words, or there is no room")
    out[:total] = words[np.repeat(at - ends + size, size) + np.arange(total)]
    return total


def interleave(out: Array, ends: Array, /, *columns: Array) -> int:
    """Put rows together from columns of byte strings: the string of each column, in the order of the columns.

    Args:
        out: filled with the bytes of all rows (uint8).
        ends: filled with the end of each row in `out` (int64).
        columns: three arrays for each column: bytes (uint8), where the string of each row begins, and its size
            (int64); one string stands for all rows.

    Returns:
        The number of bytes.

    Raises:
        ValueError: lengths differ, a string is not within its bytes, or `out` has no room for all.
    """
    rows, count = len(ends), len(columns) // 3
    start, size = np.zeros((2, rows, count), np.int64)
    for place in range(count):
        data, first, length = columns[3 * place : 3 * place + 3]
        if len(first) != len(length) or len(first) not in (1, rows):
            raise ValueError("lengths differ")
        start[:, place], size[:, place] = first, length
        is_within = (start[:, place] >= 0) & (size[:, place] >= 0) & (size[:, place] <= len(data) - start[:, place])
        if not (is_within | (size[:, place] == 0)).all():
            raise ValueError("a string is not within its buffer, or there is no room for it")
    stop = np.cumsum(size.ravel()).reshape(size.shape)
    if size.size and int(stop[-1, -1]) > len(out):
        raise ValueError("a string is not within its buffer, or there is no room for it")
    for begin in range(0, rows, _ROWS):
        block = slice(begin, begin + _ROWS)
        for place in range(count):
            length = size[block, place]
            within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
            source = np.repeat(start[block, place], length) + within
            out[np.repeat(stop[block, place] - length, length) + within] = np.asarray(columns[3 * place])[source]
    ends[:] = stop[:, -1] if count else 0
    return int(ends[-1]) if rows else 0


_ROWS = 1024
"""So many rows are put together at once, since indices of all their bytes are needed."""
