"""Sums that stop at the largest number of 64 bits: hostile durations and weights would exceed it, and wrap around."""

from __future__ import annotations

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import MAX_INT64, MIN_INT64


def add_by_group(sums: Array, group: Array, values: Array) -> None:
    """Add values to the sums of their groups, in place; a sum that would not fit stops at the nearest number that does.

    Args:
        sums: the sum of each group (int64).
        group: the group of each value (integers from 0 on).
        values: the values (int64).
    """
    if not len(values):
        return
    before = sums if len(sums) < len(group) else sums[group]  # so that few values take little time
    if _magnitude(values) * len(values) + _magnitude(before) <= MAX_INT64:
        np.add.at(sums, group, values)
        return
    for each, value in zip(group.tolist(), values.tolist(), strict=True):
        sums[each] = min(max(int(sums[each]) + value, MIN_INT64), MAX_INT64)


def sums_of_runs(values: Array, first: Array) -> Array:
    """Return the sum of each run of values (int64), which stops as the sums of `add_by_group` do.

    Args:
        values: the values (int64).
        first: the index of the first value of each run, ascending, beginning with 0.
    """
    if not len(values) or _magnitude(values) * len(values) <= MAX_INT64:
        plain: Array = np.add.reduceat(values, first) if len(first) else values[:0]
        return plain
    sums = np.zeros(len(first), np.int64)
    add_by_group(sums, np.repeat(np.arange(len(first)), np.diff(first, append=len(values))), values)
    return sums


def add_to_parents(sums: Array, parent: Array) -> Array:
    """Return for each node of a tree the sum of its value and those of all nodes below it (int64).

    Args:
        sums: the value of each node (int64).
        parent: the number of the parent of each node, which is lower than its own; -1 for a root.
    """
    exact, above = sums.tolist(), parent.tolist()
    for node in range(len(exact) - 1, -1, -1):
        if above[node] >= 0:
            exact[above[node]] += exact[node]
    return np.array([min(max(each, MIN_INT64), MAX_INT64) for each in exact], np.int64)


def _magnitude(values: Array) -> int:
    """Return the greatest distance of a value from 0."""
    return max(int(values.max()), -int(values.min()))
