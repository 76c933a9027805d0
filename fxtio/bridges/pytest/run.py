"""The recording of a test run, from the options to what is said at the end."""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator
from itertools import chain
from typing import Any

import pytest

from fxtio.bridges.pytest import CATEGORY, DEFAULT_OUTPUT, around
from fxtio.bridges.pytest.fixtures import Fixtures
from fxtio.bridges.pytest.tests import Tests
from fxtio.errors import FxtioError, described
from fxtio.tracer import session as tracing
from fxtio.tracer import startup
from fxtio.tracer.backend import recorder, report
from fxtio.tracer.options import PARENT
from fxtio.tracer.recording import Recording

_RING = "8MiB"
"""How much is kept of a run of which only the last moments are."""

_COLLECTION = f"{CATEGORY}.collection"
"""The category of what is done to find the tests."""


def begin(config: pytest.Config) -> None:
    """Begin to record as the options say, unless this process is recorded already; register what records tests.

    Raises:
        pytest.UsageError: nothing can be recorded, or an option makes no sense.
    """
    options = config.known_args_namespace
    is_asked_for = bool(options.fxtio or options.fxtio_functions or options.fxtio_on_failure)
    try:
        recording = _begin(options)
    except (FxtioError, OSError, RuntimeError, ValueError) as error:
        raise pytest.UsageError(f"--fxtio: {described(error)}") from None
    fixtures = Fixtures()
    plugins: list[Any] = [Run(recording, is_asked_for=is_asked_for), Tests(fixtures.times), fixtures]
    if is_asked_for:
        from fxtio.bridges.pytest.marks import Limits

        plugins.append(Limits())
    running = tracing.current()
    if options.fxtio_on_failure or (running and running.options.dump_on):
        from fxtio.bridges.pytest.failures import LastMoments, SlowMoments

        plugins += [SlowMoments(), *([LastMoments()] if options.fxtio_on_failure else [])]
    for plugin in plugins:
        config.pluginmanager.register(plugin)


def conftest() -> Any:
    """Return a span for the first `conftest.py` files."""
    return recorder.span("conftest", _COLLECTION)


def _begin(options: Any) -> Recording | None:
    """Begin to record; return None if this is a part of another recording, as that of a worker of pytest-xdist is."""
    if PARENT in os.environ:
        startup.start_from_environment()  # an editable install has no file that has done so
    if tracing.current() is not None:
        return None
    return tracing.start(
        options.fxtio or DEFAULT_OUTPUT,
        functions=bool(options.fxtio_functions),
        include=options.fxtio_functions,
        sources=["logging"],
        ring=_RING if options.fxtio_on_failure else None,
    )


class Run:
    """The plug-in that records the collection, ends the recording, and says what became of it.

    Args:
        recording: the recording that ends with the run; None if it is not the run's own.
        is_asked_for: whether the options ask for a recording: then the end is told.
    """

    def __init__(self, recording: Recording | None, *, is_asked_for: bool) -> None:
        self._recording = recording
        self._is_asked_for = is_asked_for

    @around
    def pytest_collection(self) -> Generator[Any, Any, Any]:
        """Record the collection of the tests."""
        with recorder.span("collection", _COLLECTION):
            return (yield)

    @around
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[Any, Any, Any]:
        """Record the collection of a folder, a file or a class."""
        with recorder.span(collector.nodeid or type(collector).__name__, _COLLECTION):
            return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """End the recording, and print the slowest tests and where the trace is."""
        if not self._is_asked_for:
            return
        from fxtio.bridges.pytest.slowest import slowest

        terminalreporter.section("fxtio")
        terminalreporter.write_line(slowest(chain.from_iterable(terminalreporter.stats.values())))
        terminalreporter.write_line("")
        for line in self._end():
            terminalreporter.write_line(line)

    def pytest_unconfigure(self) -> None:
        """End the recording where there was no summary."""
        for line in self._end() if self._recording is not None else ():
            report(line)

    def _end(self) -> list[str]:
        """End the recording, and return what is to be said of it, as lines."""
        recording, self._recording = self._recording, None
        running = tracing.current()
        if recording is None or running is not recording:
            where = "to no trace any more" if running is None else f"to {running.trace}, by another recording"
            return [f"this was recorded {where}"]
        lines: list[str] = []
        with warnings.catch_warnings(record=True) as caught:  # the run may turn warnings into errors
            warnings.simplefilter("always")
            try:
                summary = tracing.stop()
                lines += () if summary is None else tracing.summary_lines(summary)
            except OSError as error:
                lines.append(described(error))
        return [*(str(warning.message) for warning in caught), *lines]
