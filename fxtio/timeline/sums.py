"""Sums by group that stop at the largest number of 64 bits: hostile durations would exceed it, and wrap around."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import MAX_INT64, MIN_INT64
from fxtio.table import Column, Table
from fxtio.timeline.parts import PAIR


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


class Numbering:
    """Numbers whole numbers in the order in which they are first seen."""

    def __init__(self) -> None:
        self._number_of: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._number_of)

    def numbers(self, keys: Array) -> Array:
        """Return the number of each key (int64 to int64)."""
        distinct, place = np.unique(keys, return_inverse=True)
        number_of = self._number_of
        return np.array([number_of.setdefault(key, len(number_of)) for key in distinct.tolist()], np.int64)[place]

    def keys(self) -> Array:
        """Return all keys in the order of their numbers (int64)."""
        return np.fromiter(self._number_of, np.int64, len(self._number_of))


class Sums:
    """Sums of values by groups of rows that have the same keys; a group is made when its keys are first seen.

    Args:
        keys: the names of the columns of keys: numbers from -1 to 2^32 - 2.
        values: the names of the columns of values.
    """

    def __init__(self, keys: Sequence[str], values: Sequence[str]) -> None:
        self._keys = keys
        self._values = values
        self._numberings = [Numbering() for _ in keys]
        self._sums = np.zeros((len(values), 0), np.int64)

    def add(self, columns: Mapping[str, Any], count: int) -> None:
        """Add rows.

        Args:
            columns: the keys and values; one number stands for all rows.
            count: the number of rows.
        """
        group = np.zeros(count, np.int64)
        for name, numbering in zip(self._keys, self._numberings, strict=True):
            group = numbering.numbers(group * PAIR + np.asarray(columns[name], np.int64) + 1)
        missing = len(self._numberings[-1]) - self._sums.shape[1]
        self._sums = np.concatenate([self._sums, np.zeros((len(self._sums), missing), np.int64)], axis=1)
        for sums, name in zip(self._sums, self._values, strict=True):
            add_by_group(sums, group, np.broadcast_to(np.asarray(columns[name], np.int64), group.shape))

    def table(self) -> Table:
        """Return the keys and sums of all groups, all as int64."""
        columns: dict[str, Column] = {}
        group = np.arange(len(self._numberings[-1]))
        for name, numbering in zip(reversed(self._keys), reversed(self._numberings), strict=True):
            group, key = np.divmod(numbering.keys()[group], PAIR)
            columns[name] = key - 1
        columns = {name: columns[name] for name in self._keys}
        return Table(columns | dict(zip(self._values, self._sums, strict=True)))


def _magnitude(values: Array) -> int:
    """Return the greatest distance of a value from 0."""
    return max(int(values.max()), -int(values.min()))
