"""Distinct values of a column: a number for each, by a hash that nobody outside can foresee, and the rows of each."""

from __future__ import annotations

import secrets

import numpy as np

from fxtio import _native
from fxtio.arrays import Array

_SEED = secrets.randbits(63)  # a file cannot be made whose values collide


def number_distinct(values: Array) -> tuple[Array, Array]:
    """Number the distinct values in the order in which they come.

    Args:
        values: integers.

    Returns:
        The number of the value of each row (int32), and the first row of each distinct value (int64).
    """
    codes, first = np.empty(len(values), np.int32), np.empty(len(values), np.int64)
    count = _native.distinct(np.ascontiguousarray(values, np.uint64), codes, first, _SEED)
    return codes, first[:count]


def rows_of_each(values: Array) -> list[tuple[int, Array]]:
    """Return the distinct values (ascending integers), each with the rows that hold it (int64, ascending).

    The cost does not depend on how many distinct values there are.
    """
    if not len(values):
        return []
    if int(values.min()) == int(values.max()):
        return [(int(values[0]), np.arange(len(values)))]
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    distinct = [int(values[order[0]]), *ordered[starts].tolist()]
    return list(zip(distinct, np.split(order, starts), strict=True))
