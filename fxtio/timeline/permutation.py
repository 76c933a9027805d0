"""Permutation tests of many rows of values at once: how likely is a difference if it does not matter which is where?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, combinations

import numpy as np

from fxtio.arrays import Array

MOST_EXACT = 20_000
"""If there are no more ways than this to divide the values into two groups, all of them are looked at."""

DIVISIONS = 9_999
"""The number of random divisions that are looked at otherwise."""

_BLOCK = 1 << 20  # numbers at once


def permutation_test(rows: Array, size: int) -> Array:
    """Return for each row the two-sided p-value of the difference of the means of two groups, corrected for all rows.

    The same divisions of the columns are looked at for all rows.  A p-value is twice the share of divisions in which
    *any* row differs as much, in this direction (Westfall and Young), so that the smallest of all p-values is below a
    limit by chance no more often than the limit says, however the rows depend on each other.

    Args:
        rows: the values (rows x columns).
        size: how many of the columns are the first group.

    Returns:
        The p-values (float64, one for each row); they are the same each time.
    """
    columns = rows.shape[1]
    centered = rows - rows.mean(axis=1, keepdims=True)
    lengths = np.sqrt((centered**2).sum(axis=1, keepdims=True))
    scaled = np.divide(centered, lengths, out=np.zeros_like(centered), where=lengths > 1e-9)
    observed = scaled[:, :size].sum(axis=1)
    exact = math.comb(columns, size) <= MOST_EXACT
    least, greatest = [], []
    for chosen in (_all_divisions if exact else _random_divisions)(columns, size, _BLOCK // max(rows.shape)):
        inside = np.zeros((len(chosen), columns))
        np.put_along_axis(inside, chosen, 1, axis=1)
        sums = inside @ scaled.T
        least.append(sums.min(axis=1))
        greatest.append(sums.max(axis=1))
    low, high = np.sort(np.concatenate(least)), np.sort(np.concatenate(greatest))
    below = np.searchsorted(low, observed + 1e-9, side="right")
    above = len(high) - np.searchsorted(high, observed - 1e-9, side="left")
    more = 0 if exact else 1  # the division that was observed
    result: Array = np.minimum(2 * (np.minimum(below, above) + more) / (len(low) + more), 1.0)
    return result


def _all_divisions(columns: int, size: int, most: int) -> Iterator[Array]:
    """Yield all choices of columns, as many at once as may be."""
    every = np.fromiter(chain.from_iterable(combinations(range(columns), size)), np.int64).reshape(-1, size)
    yield from np.array_split(every, -(-len(every) // max(most, 1)))


def _random_divisions(columns: int, size: int, most: int) -> Iterator[Array]:
    random = np.random.default_rng(0)
    for count in (len(each) for each in np.array_split(np.empty(DIVISIONS), -(-DIVISIONS // max(most, 1)))):
        keys = random.random((count, columns), np.float32)
        yield keys.argpartition(size - 1, axis=1)[:, :size]
