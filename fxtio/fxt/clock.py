"""Ticks to nanoseconds, exactly.  spec: Initialization record"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

NS_PER_SECOND = 1_000_000_000
MAX_NS = (1 << 63) - 1
"""Where a time that int64 nanoseconds cannot hold is cut off."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A provider's clock.

    Attributes:
        ticks_per_second: the tick rate; 1 tick is 1 ns unless an initialization record says otherwise.
        base_ticks: the tick at which `wall_clock` was read, where the trace tells.
        wall_clock: nanoseconds since the Unix epoch at `base_ticks`, where the trace tells.
    """

    ticks_per_second: int = NS_PER_SECOND
    base_ticks: int | None = None
    wall_clock: int | None = None

    def ns(self, ticks: int) -> int:
        """The tick in nanoseconds, rounded down; of any size."""
        return ticks * NS_PER_SECOND // self.ticks_per_second

    def to_ns(self, ticks: Array) -> tuple[Array, int]:
        """Many ticks (uint64) in nanoseconds (int64), rounded down, and how many were cut off at `MAX_NS`."""
        common = math.gcd(NS_PER_SECOND, self.ticks_per_second)
        numerator, denominator = NS_PER_SECOND // common, self.ticks_per_second // common
        latest = min(((MAX_NS + 1) * denominator - 1) // numerator, (1 << 64) - 1)  # the last tick that fits
        over = 0
        if len(ticks) and int(ticks.max()) > latest:
            over = int((ticks > np.uint64(latest)).sum())
        if numerator == denominator == 1 and not over:
            return ticks.view(np.int64), 0
        if (denominator - 1) * numerator >= 1 << 64:
            exact = [min(self.ns(tick), MAX_NS) for tick in ticks.tolist()]
            return np.array(exact, np.int64), over
        if denominator == 1:
            times = np.minimum(ticks, np.uint64(latest)) * np.uint64(numerator)
        else:
            whole, rest = np.divmod(np.minimum(ticks, np.uint64(latest)), np.uint64(denominator))
            times = whole * np.uint64(numerator) + rest * np.uint64(numerator) // np.uint64(denominator)
        if over:
            times[ticks > np.uint64(latest)] = MAX_NS
        return times.astype(np.int64), over
