"""Limits of the time that a test waits or works, and the numbers at which formats reach their limits."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

EXTREME_NUMBERS = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
"""Numbers that readers and writers easily get wrong: the ends of integer types, and their neighbors."""

PATIENCE = 300.0
"""Seconds that a test waits for another process or thread to do what takes a moment; a busy machine takes longer."""

GRACE = 10
"""Seconds of processor time after which the process is killed if C code does not let the exception be raised."""


class TooSlowError(AssertionError):
    """A part of a test took more processor time than it may."""


@contextmanager
def processor_seconds(limit: float) -> Iterator[None]:
    """Raise `TooSlowError` in a `with` block that takes more seconds of processor time.

    Time of other processes does not count.  If the block does not return from C code, the system ends the process some
    seconds later.  Where the system has no such timers, the time is only measured.
    """
    start = time.process_time()
    if hasattr(signal, "setitimer"):
        with _interrupted(limit), _killed(limit + GRACE):
            yield
    else:
        yield
    if time.process_time() - start > limit:
        raise _too_slow(limit)


def _too_slow(limit: float) -> TooSlowError:
    return TooSlowError(f"it takes more than {limit:.1f} seconds of processor time")


@contextmanager
def _interrupted(limit: float) -> Iterator[None]:
    """Raise the exception in the block when the time is over, as soon as the interpreter runs Python code."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _too_slow(limit)

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        # A signal that was sent a moment ago may still come, to any thread: the default action would end the process.
        signal.signal(signal.SIGPROF, signal.SIG_IGN if before == signal.SIG_DFL else before)


@contextmanager
def _killed(limit: float) -> Iterator[None]:
    """Let the system end the process when it has worked for this many seconds in the block.

    The timer starts here.  `RLIMIT_CPU` limits all that a process takes, by whole ticks, which count a tenth more than
    other clocks on a busy machine: a process that has run many tests would be over it at once.
    """
    before = signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


LOWER = {
    "fxt.rules.view": {"MAX_KEPT": 1_000},
    "fxt.state": {"MAX_CLOCKS": 1_000, "MAX_OBJECTS": 1_000},
    "uftrace.state": {"MAX_MODULES": 100, "MAX_SYMBOLS": 1 << 15},
    "uftrace.values": {"MAX_COMBINED": 1_000},
}
"""Limits by module, in place of those of which a trace that exceeds them takes long to read."""


def lower_limits(patch: pytest.MonkeyPatch) -> None:
    """Lower limits, also for the broken traces that exceed them; the contract of rules tests the real ones."""
    for module, limits in LOWER.items():
        for name, value in limits.items():
            patch.setattr(f"fxtio.{module}.{name}", value)
            patch.setattr(f"support.broken.{module.partition('.')[0]}.{name}", value)
