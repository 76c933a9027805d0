"""The mark `@pytest.mark.fxtio(limit="50ms", span="db.*")`: a test fails if it, or one of its spans, takes too long."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from fxtio.bridges.pytest import CATEGORY, MARK
from fxtio.errors import described, shown
from fxtio.report import printable, short_duration
from fxtio.tracer import session as tracing
from fxtio.tracer.backend import recorder
from fxtio.tracer.clock import NS_PER_SECOND
from fxtio.tracer.file import high_descriptor
from fxtio.tracer.options import time_in_ns

if TYPE_CHECKING:
    from fxtio.tracer.recording import Recording

_SHOWN = 3
_READ = 20
"""The longest spans that are looked at; one that was noted late may have begun before the test."""


class Limits:
    """The plug-in that checks the limits of a test when its call has ended, before it is reported."""

    def __init__(self) -> None:
        self._begin = 0
        self._reader: _Reader | None = None

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
            spans = recorder.unrecorded(partial(self._spans, pattern))
        except Exception as error:  # noqa: BLE001  # whatever it is, nobody knows whether the limit is kept
            yield f"the spans {pattern!r} cannot be looked at: {described(error)}"
            return
        if not spans:
            yield f"no span has the name {pattern!r}, so its limit means nothing"
        for name, duration in spans[:_SHOWN]:
            if duration > limit:
                yield f"{printable(name)} took {short_duration(duration)}, {allowed}"

    def _spans(self, pattern: str) -> list[tuple[str, int]]:
        """Return names and nanoseconds of the spans that have begun since the call did, the longest first."""
        recording = tracing.current()
        if recording is None:
            raise RuntimeError("nothing is recorded any more")
        if self._reader is None or self._reader.recording is not recording:
            self._close_reader()
            self._reader = _Reader(recording)
        return self._reader.spans(pattern, self._begin)

    def pytest_unconfigure(self) -> None:
        """Read no more."""
        self._close_reader()

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


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


class _Reader:
    """Reads the spans of a recording of this process while it goes on; each part of its file is read once.

    Args:
        recording: the recording.

    Attributes:
        recording: the recording.
    """

    def __init__(self, recording: Recording) -> None:
        from fxtio.fxt.tail import LatestEvents

        self.recording = recording
        self._fd = high_descriptor(os.open(recording.live, os.O_RDONLY | os.O_CLOEXEC))
        try:
            self._events = LatestEvents(str(recording.live), self._fd)
        except BaseException:
            self.close()
            raise

    def spans(self, pattern: str, begin: int) -> list[tuple[str, int]]:
        """Return names and nanoseconds of the spans that have begun since a tick, the longest first.

        What the plug-in records itself does not count.
        """
        from fxtio.fxt import timeline as room
        from fxtio.selection import Selection
        from fxtio.timeline import Timeline
        from fxtio.timeline.answers import find

        self._events.read(begin, recorder.now())
        start = begin * NS_PER_SECOND // self.recording.clock.rate
        selection = Selection(start=start, categories=(f"!{CATEGORY}", f"!{CATEGORY}.*"))
        with Timeline(self._events.name, "fxt", partial(room.parts, self._events)) as timeline:
            hits = find(timeline, pattern, longer=0, limit=_READ, selection=selection)
        return [(hit.name or "", hit.duration or 0) for hit in hits.rows if hit.time >= start]

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)
