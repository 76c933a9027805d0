"""A limit of the processor time that a part of a test may take."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TooSlowError(AssertionError):
    """A part of a test took more processor time than it may."""


@contextmanager
def processor_seconds(limit: float) -> Iterator[None]:
    """Raise `TooSlowError` in a `with` block that takes more seconds of processor time.

    Time of other processes does not count.  Where the system has no such timer, there is no limit.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlowError(f"it takes more than {limit} seconds of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
