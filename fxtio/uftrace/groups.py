"""The rows of a column, grouped by value."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fxtio.arrays import Array


def rows_by_value(values: Array) -> Iterator[tuple[int, Array]]:
    """Yield each distinct value of integers and its rows (int64), both in ascending order."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    for begin, end in zip(begins.tolist(), np.append(begins[1:], len(order)).tolist(), strict=False):
        yield int(ordered[begin]), order[begin:end]
