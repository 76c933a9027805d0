"""Number distinct values, in a table whose hash nobody outside can foresee."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from fxtio import _native

Array = np.ndarray[Any, Any]

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
