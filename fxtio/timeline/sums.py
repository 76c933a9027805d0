"""Sums by group that stop at the largest number of 64 bits: hostile durations would exceed it, and wrap around."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import number_distinct
from fxtio.codec.integers import MAX_INT64, MIN_INT64
from fxtio.table import Table


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


_MAX_WAITING = 1 << 18
"""Rows are summed up when this many wait, or as many as there are groups if that is more."""


def number_groups(keys: Sequence[Array]) -> tuple[Array, Array]:
    """Number the distinct combinations of keys in the order in which they come.

    Args:
        keys: at least one column of numbers from -1 to 2^32 - 2.

    Returns:
        The number of the combination of each row (int32), and the first row of each combination (int64).
    """
    combined, count = np.zeros(len(keys[0]), np.int64), 1  # the numbers are less than the count
    for key in keys:
        width = int(key.max(initial=0)) + 2
        if count * width > MAX_INT64:
            combined, count = number_distinct(combined)[0].astype(np.int64), len(combined)
        combined, count = combined * width + key + 1, count * width
    return number_distinct(combined)


class Sums:
    """Sums of values by groups of rows that have the same keys, in the order in which groups are first seen.

    Rows wait until there are many, and are summed up together: this costs less than to look up the group of each.

    Args:
        keys: the names of the columns of keys: numbers from -1 to 2^32 - 2.
        values: the names of the columns of values.
    """

    def __init__(self, keys: Sequence[str], values: Sequence[str]) -> None:
        self._keys = keys
        self._names = (*keys, *values)
        self._waiting = [np.empty((len(self._names), 0), np.int64)]  # the first one has the sums until now
        self._count = 0

    def add(self, columns: Mapping[str, Any], count: int) -> None:
        """Add rows.

        Args:
            columns: the keys and values; one number stands for all rows.
            count: the number of rows.
        """
        whole = [np.broadcast_to(columns[name], count) for name in self._names]
        for begin in range(0, count, _MAX_WAITING):
            rows = np.array([column[begin : begin + _MAX_WAITING] for column in whole], np.int64)
            self._waiting.append(rows)
            self._count += rows.shape[1]
            if self._count >= max(_MAX_WAITING, self._waiting[0].shape[1]):
                self._sum_up()

    def table(self) -> Table:
        """Return the keys and sums of all groups, all as int64."""
        self._sum_up()
        return Table(dict(zip(self._names, self._waiting[0], strict=True)))

    def _sum_up(self) -> None:
        """Make the sums of what waits."""
        rows = np.concatenate(self._waiting, axis=1)
        group, first = number_groups([*rows[: len(self._keys)]])
        sums, before = rows[:, first], self._waiting[0].shape[1]
        # The sums until now are rows of different keys, so they are the first groups in their order.
        for total, values in zip(sums[len(self._keys) :], rows[len(self._keys) :], strict=True):
            total[before:] = 0
            add_by_group(total, group[before:], values[before:])
        self._waiting, self._count = [sums], 0


def _magnitude(values: Array) -> int:
    """Return the greatest distance of a value from 0."""
    return max(int(values.max()), -int(values.min()))
