"""What it costs to record a call in this process, as it is measured when a recording starts."""

from __future__ import annotations

import os
from itertools import repeat
from time import perf_counter_ns  # as it is now: programs patch it
from typing import Any

from fxtio.tracer import functions, monitor
from fxtio.tracer.backend import recorder
from fxtio.tracer.clock import RecordingClock
from fxtio.tracer.interrupts import interrupts

_CALLS, _ROUNDS = 200, 5
_MAX_COST = (1 << 32) - 1


def call_cost(clock: RecordingClock) -> int:
    """Return how many nanoseconds it takes to record a call of a function; 0 where that cannot be measured.

    Calls of an empty function are recorded, and thrown away, before the recording begins.  Nothing else is monitored
    meanwhile, and it takes less than a millisecond.

    Args:
        clock: the clock of the recording.
    """
    if not (monitor.AVAILABLE and hasattr(os, "memfd_create")):
        return 0
    plain = _shortest()
    try:
        fd = os.memfd_create("fxtio")
    except OSError:
        return 0
    try:
        return min(max(_shortest_recorded(clock, fd) - plain, 0) // _CALLS, _MAX_COST)
    except (OSError, RuntimeError, MemoryError):  # the recording that follows says what is wrong
        return 0
    finally:
        os.close(fd)


def _shortest_recorded(clock: RecordingClock, fd: int) -> int:
    """Return what `_shortest` does while the calls are recorded to a file."""
    end = recorder.PAGE_BYTES
    os.ftruncate(fd, end)
    hooks = dict.fromkeys(("thread_hook", "value_hook", "task_hook", "slow_hook"))
    recorder.start(
        owner=None, fd=fd, definitions=0, end=end, limit=0, ring=0, has_counter=clock.has_counter, base=clock.base,
        step=clock.step, only=None, without=None, slow=0, interrupt_hook=interrupts, **hooks,
    )  # fmt: skip
    try:
        functions.start(None, c_functions=False, max_depth=0, min_ticks=0)
        recorder.functions(_site, None, 0, 0)
        monitor.watch(_empty.__code__)
        return _shortest()
    finally:
        functions.stop()
        recorder.stop()


def _empty() -> None:
    pass


def _site(_: Any) -> Any:
    return recorder.Site(functions.CATEGORY, _empty.__name__)


def _shortest() -> int:
    """Return the shortest of several times that calls of the empty function take, in nanoseconds."""
    times = []
    for _ in range(_ROUNDS):
        begin = perf_counter_ns()
        for _ in repeat(None, _CALLS):
            _empty()
        times.append(perf_counter_ns() - begin)
    return min(times)
