"""The mark `@pytest.mark.fxtio(limit="50ms", span="db.*")`: a test fails if it, or one of its spans, takes too long."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from fxtio.bridges.pytest import CATEGORY, MARK
from fxtio.errors import described, shown
from fxtio.report import printable, short_duration
from fxtio.tracer import session as tracing
from fxtio.tracer.backend import recorder
from fxtio.tracer.clock import NS_PER_SECOND
from fxtio.tracer.options import time_in_ns

_SHOWN = 3
_READ = 1000
"""The longest spans that are looked at; some of them may have begun before the test."""


class Limits:
    """The plug-in that checks the limits of a test when its call has ended, before it is reported."""

    def __init__(self) -> None:
        self._begin = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self) -> None:
        """Note when the call begins."""
        self._begin = recorder.now()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> None:
        """Let a test that has passed fail if it breaks a limit."""
        if call.when != "call" or call.excinfo is not None:
            return
        faults = [fault for mark in item.iter_markers(MARK) for fault in self._faults(mark, call.duration)]
        if faults:
            try:
                pytest.fail("\n".join(faults), pytrace=False)
            except pytest.fail.Exception:
                call.excinfo = pytest.ExceptionInfo.from_current()

    def _faults(self, mark: pytest.Mark, seconds: float) -> Iterator[str]:
        """Yield why a test fails, as lines."""
        try:
            limit, pattern = _limit_of(*mark.args, **mark.kwargs)
        except (TypeError, ValueError) as error:
            yield f"@pytest.mark.fxtio: {error}"
            return
        allowed = f"more than {short_duration(limit)}"
        if pattern is None:
            if seconds * NS_PER_SECOND > limit:
                yield f"the test took {short_duration(round(seconds * NS_PER_SECOND))}, {allowed}"
            return
        try:
            spans = recorder.unrecorded(partial(_spans, pattern, self._begin))
        except Exception as error:  # noqa: BLE001  # whatever it is, nobody knows whether the limit is kept
            yield f"the spans {pattern!r} cannot be looked at: {described(error)}"
            return
        if not spans:
            yield f"no span has the name {pattern!r}, so its limit means nothing"
        for name, duration in spans[:_SHOWN]:
            if duration > limit:
                yield f"{printable(name)} took {short_duration(duration)}, {allowed}"


def _limit_of(limit: object = None, span: object = None, **others: object) -> tuple[int, str | None]:
    """Return the arguments of a mark, the limit in nanoseconds.

    Raises:
        TypeError, ValueError: they make no sense.
    """
    if others:
        raise TypeError(f"there is no argument {next(iter(others))}; there are limit and span")
    if not isinstance(limit, str):  # nobody knows whether a number is milliseconds, seconds or nanoseconds
        fault = "the limit is missing" if limit is None else f"the limit {shown(limit)} is no time with its unit"
        raise TypeError(f"{fault}, as in limit='50ms'")
    if span is not None and not isinstance(span, str):
        raise TypeError(f"span is a pattern of names, not {shown(span)}")
    return time_in_ns(limit), span


def _spans(pattern: str, begin: int) -> list[tuple[str, int]]:
    """Return names and nanoseconds of the spans that have begun since a tick, the longest first.

    What the plug-in records itself does not count.
    """
    from fxtio.exchange.opening import open_timeline
    from fxtio.selection import Selection
    from fxtio.timeline.answers import find

    recording = tracing.current()
    if recording is None:
        raise RuntimeError("nothing is recorded any more")
    start = begin * NS_PER_SECOND // recording.clock.rate
    selection = Selection(start=start, categories=(f"!{CATEGORY}", f"!{CATEGORY}.*"))
    with open_timeline(recording.live) as timeline:
        hits = find(timeline, pattern, longer=0, limit=_READ, selection=selection)
    return [(hit.name or "", hit.duration or 0) for hit in hits.rows if hit.time >= start]
