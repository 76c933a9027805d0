"""The clock of a recording: the processor's tick counter where the kernel trusts it, else CLOCK_MONOTONIC."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

NS_PER_SECOND = 1_000_000_000
_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
_SHORT_NS = 2_000_000


def trusted_tsc() -> bool:
    """Whether the kernel itself keeps time by the tick counter: then it is invariant and the same on all cores."""
    try:
        with open(_SOURCE) as file:
            return file.read().strip() == "tsc"
    except OSError:
        return False


@dataclass(slots=True)
class RecordingClock:
    """The clock of one recording.

    Attributes:
        tsc: whether it is the tick counter.
        base: what it showed at tick 0.
        base_ns: CLOCK_MONOTONIC at tick 0.
        wall_ns: nanoseconds since the Unix epoch at tick 0.
        rate: ticks per second, as well as is known by now.
    """

    tsc: bool
    base: int
    base_ns: int
    wall_ns: int
    rate: int

    @classmethod
    def start(cls, recorder: Any) -> RecordingClock:
        """A clock that starts at 0 now."""
        tsc = bool(recorder.TSC) and trusted_tsc()
        base, base_ns = recorder.clocks(tsc)
        clock = cls(tsc, base, base_ns, time.time_ns(), NS_PER_SECOND)
        if tsc:
            while time.monotonic_ns() - base_ns < _SHORT_NS:
                time.sleep(_SHORT_NS / 2 / NS_PER_SECOND)
            clock.measure(recorder)
        return clock

    def measure(self, recorder: Any) -> None:
        """Find the rate from the time since the start; the longer that is, the better."""
        if self.tsc:
            raw, now = recorder.clocks(True)
            if now > self.base_ns:
                self.rate = round((raw - self.base) * NS_PER_SECOND / (now - self.base_ns))

    @property
    def step(self) -> int:
        """Ticks that are at least a nanosecond, so that no two moments of a thread are the same nanosecond."""
        return -(-self.rate // NS_PER_SECOND)
