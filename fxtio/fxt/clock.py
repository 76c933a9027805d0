"""Ticks to nanoseconds, exactly.  spec: Initialization record"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

NS_PER_SECOND = 1_000_000_000
_MAX_WORD = (1 << 64) - 1
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

    @property
    def latest(self) -> int:
        """The last tick whose time int64 nanoseconds hold."""
        return min((MAX_NS * self.ticks_per_second + self.ticks_per_second - 1) // NS_PER_SECOND, _MAX_WORD)

    def to_ns(self, ticks: Array) -> Array:
        """Many ticks (uint64) in nanoseconds (int64), rounded down, cut off at `MAX_NS`."""
        common = math.gcd(NS_PER_SECOND, self.ticks_per_second)
        numerator, denominator = NS_PER_SECOND // common, self.ticks_per_second // common
        over = int(ticks.max(initial=0)) > self.latest
        if numerator == denominator == 1 and not over:
            return ticks.view(np.int64)
        if (denominator - 1) * numerator > _MAX_WORD:  # the remainders below would not fit: one by one
            return np.array([min(self.ns(tick), MAX_NS) for tick in ticks.tolist()], np.int64)
        kept = np.minimum(ticks, np.uint64(self.latest))
        whole, rest = np.divmod(kept, np.uint64(denominator)) if denominator > 1 else (kept, np.uint64(0))
        times = (whole * np.uint64(numerator) + rest * np.uint64(numerator) // np.uint64(denominator)).view(np.int64)
        if over:
            times[ticks > np.uint64(self.latest)] = MAX_NS
        return times


def times_of(clocks: Sequence[Clock], codes: Array, ticks: Array) -> Array:
    """Ticks in nanoseconds (int64), each by the clock that its code says."""
    if not len(codes):
        return np.empty(0, np.int64)
    if int(codes.min()) == int(codes.max()):
        return clocks[int(codes[0])].to_ns(ticks)
    times = np.empty(len(ticks), np.int64)
    for code in np.unique(codes).tolist():
        mine = codes == code
        times[mine] = clocks[code].to_ns(ticks[mine])
    return times
