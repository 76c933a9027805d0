"""The clock of a recording: the processor's tick counter if the kernel trusts it, else CLOCK_MONOTONIC."""

from __future__ import annotations

import time

from fxtio.tracer.backend import recorder

NS_PER_SECOND = 1_000_000_000
_KERNEL_CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
_FIRST_MEASUREMENT_NS = 2_000_000
_NEAR_NS = 1_000_000  # two clocks that are read one after the other may seem to differ by so much


def kernel_uses_counter() -> bool:
    """Return whether the kernel keeps time by the tick counter: then it is invariant and the same on all cores."""
    if not recorder.TICK_COUNTER:
        return False
    try:
        with open(_KERNEL_CLOCK) as file:
            return file.read().strip() == recorder.TICK_COUNTER
    except OSError:
        return False


class RecordingClock:
    """The clock of one recording.

    Attributes:
        has_counter: whether it is the tick counter.
        base: what it showed at tick 0.
        base_ns: CLOCK_MONOTONIC at tick 0.
        wall_ns: nanoseconds since the Unix epoch at tick 0.
        rate: ticks per second, as far as measured, unless the processor knows them.
        slept_ns: how much CLOCK_BOOTTIME was ahead of CLOCK_MONOTONIC at the start.
    """

    __slots__ = ("base", "base_ns", "has_counter", "rate", "slept_ns", "wall_ns")

    def __init__(self, has_counter: int, base: int, base_ns: int, wall_ns: int, rate: int, slept_ns: int) -> None:
        self.has_counter = bool(has_counter)
        self.base = base
        self.base_ns = base_ns
        self.wall_ns = wall_ns
        self.rate = rate
        self.slept_ns = slept_ns

    def facts(self) -> tuple[int, ...]:
        """Return the arguments with which another process makes the same clock."""
        return int(self.has_counter), self.base, self.base_ns, self.wall_ns, self.rate, self.slept_ns

    @classmethod
    def start(cls) -> RecordingClock:
        """Return a clock whose tick 0 is now."""
        has_counter = kernel_uses_counter()
        base, base_ns = recorder.clocks(has_counter)
        known_rate = recorder.TICK_RATE if has_counter else NS_PER_SECOND
        clock = cls(has_counter, base, base_ns, time.time_ns(), known_rate, _slept_ns())
        if not known_rate:
            while recorder.clocks(True)[1] - base_ns < _FIRST_MEASUREMENT_NS:  # not time's: programs patch that
                time.sleep(_FIRST_MEASUREMENT_NS / 2 / NS_PER_SECOND)
            clock.measure()
        return clock

    def zeros(self) -> dict[str, int]:
        """Return when other clocks of the system showed 0, in nanoseconds since the Unix epoch, by their names.

        By these, this recording and traces that have another clock can be laid beside each other.
        """
        monotonic = self.wall_ns - self.base_ns
        return {"monotonic_zero_ns": monotonic, "boottime_zero_ns": monotonic - self.slept_ns}

    def measure(self) -> None:
        """Set the rate from the time since the start; the longer that is, the more exact."""
        if self.has_counter:
            raw, now = recorder.clocks(True)
            if now - self.base_ns >= _FIRST_MEASUREMENT_NS:
                self.rate = round((raw - self.base) * NS_PER_SECOND / (now - self.base_ns))

    @property
    def step(self) -> int:
        """Ticks that last at least a nanosecond, so that no two events of a thread have the same nanosecond."""
        return -(-self.rate // NS_PER_SECOND)


def _slept_ns() -> int:
    """Return how much CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC: the time that the system slept; 0 without it."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0
    before = recorder.clocks(False)[1]
    boottime = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    ahead = boottime - (before + recorder.clocks(False)[1]) // 2
    return ahead if ahead > _NEAR_NS else 0
