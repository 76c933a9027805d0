"""Permutation tests: how likely a difference of two means is if it does not matter which values are in which group."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MOST_EXACT = 20_000
"""If there are at most so many ways to divide the values into two groups, all of them are looked at."""

RESAMPLES, MOST_RESAMPLES = 9_999, 99_999
"""So many random divisions are looked at otherwise: by default, and if small p-values are to be told apart."""

CLEARLY_EQUAL = 2.0
"""A difference of fewer standard deviations is judged by the normal distribution, without divisions."""

_BLOCK = 1 << 20  # random numbers at once


def permutation_test(first: Array, second: Array, resamples: int = RESAMPLES, *, seed: int = 0) -> float:
    """Return the two-sided p-value of the difference of two means, as `scipy.stats.permutation_test` does.

    Args:
        first: the values of a group (float64, at least one).
        second: the values of the other group.
        resamples: the number of random divisions; with 0 the normal distribution judges.
        seed: of the random divisions, so that the result is the same each time.
    """
    values = np.concatenate([first, second]).astype(np.float64)
    values -= values.mean()
    count, size = len(values), len(first)
    if size in (0, count) or not values.any():
        return 1.0
    observed = float(values[:size].sum())
    tolerance = 1e-12 * float(np.abs(values).sum())
    if math.comb(count, size) <= MOST_EXACT:
        sums = values[np.array([*combinations(range(count), size)])].sum(axis=1)
        return _two_sided(
            int((sums <= observed + tolerance).sum()), int((sums >= observed - tolerance).sum()), len(sums)
        )
    variance = size * (count - size) / (count * (count - 1)) * float(values @ values)
    distance = abs(observed) / math.sqrt(variance)
    if not resamples or (distance < CLEARLY_EQUAL and min(size, count - size) >= 10):
        return math.erfc(distance / math.sqrt(2))
    random = np.random.default_rng(seed)
    low, high = _extremes(values, size, observed, tolerance, resamples, random)
    return _two_sided(low + 1, high + 1, resamples + 1)


def _extremes(
    values: Array, size: int, observed: float, tolerance: float, resamples: int, random: np.random.Generator
) -> tuple[int, int]:
    """Return how many random divisions have a sum that is not above the observed one, and not below."""
    low = high = 0
    rows = max(_BLOCK // len(values), 1)
    for done in range(0, resamples, rows):
        keys = random.random((min(rows, resamples - done), len(values)), np.float32)
        chosen = keys.argpartition(size - 1, axis=1)[:, :size]
        sums = values[chosen].sum(axis=1)
        low += int((sums <= observed + tolerance).sum())
        high += int((sums >= observed - tolerance).sum())
    return low, high


def _two_sided(low: int, high: int, count: int) -> float:
    return min(2 * min(low, high) / count, 1.0)
