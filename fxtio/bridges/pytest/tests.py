"""Tests: a span for each, whose name is the id of the test, with its parameters and its outcome, and for its phases."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from fxtio.bridges.pytest import CATEGORY, around
from fxtio.tracer.backend import recorder

FIXTURE_TIMES = "fxtio_fixtures"
"""The attribute of a report that has the times of fixtures, as lists, which pytest-xdist sends to its main process."""

_PLAIN = frozenset({str, int, float, bool, type(None)})
"""The types of parameters that are recorded as they are; to describe others could run code of the tests."""

_MARKED = {"skipped": "xfailed", "passed": "xpassed", "failed": "failed"}
"""The outcomes of a test that is expected to fail."""


def is_subtest(report: Any) -> bool:
    """Return whether a report is about a part of the call of a test, which another report is about."""
    return hasattr(report, "context")


class Tests:
    """The plug-in that records tests.

    Args:
        fixture_times: the times of fixtures since the last report, to be emptied.
    """

    def __init__(self, fixture_times: list[list[Any]]) -> None:
        self._fixture_times = fixture_times
        self._outcome = "unknown"

    @around
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[Any, Any, Any]:
        """Record a test, with its parameters and its outcome."""
        callspec = getattr(item, "callspec", None)
        parameters: dict[str, object] = {} if callspec is None else callspec.params
        site = recorder.Site(CATEGORY, item.nodeid, (*parameters,), once=True)
        began, self._outcome = recorder.active(), "unknown"
        recorder.begin(site, *map(_described, parameters.values()))
        try:
            result = yield
            end = "outcome", self._outcome
        except BaseException as error:
            end = "exception", type(error).__name__
            raise
        finally:
            if recorder.active() == began:  # a test may end the recording, or begin another one
                recorder.end(site, *end)
        return result

    @around
    def pytest_runtest_setup(self) -> Generator[Any, Any, Any]:
        """Record the set-up of a test."""
        with recorder.span("setup", CATEGORY):
            return (yield)

    @around
    def pytest_runtest_call(self) -> Generator[Any, Any, Any]:
        """Record the call of a test."""
        with recorder.span("call", CATEGORY):
            return (yield)

    @around
    def pytest_runtest_teardown(self) -> Generator[Any, Any, Any]:
        """Record the tear-down of a test."""
        with recorder.span("teardown", CATEGORY):
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of a phase of the test that runs; another attempt begins with another set-up.

        The report gets the times of fixtures; one of a worker has them already.
        """
        if report.when == "setup" or self._outcome == "passed" or report.failed:
            self._outcome = _outcome_of(report)
        if self._fixture_times and not is_subtest(report):
            setattr(report, FIXTURE_TIMES, self._fixture_times.copy())
            self._fixture_times.clear()


def _outcome_of(report: pytest.TestReport) -> str:
    """Return the outcome of a phase as pytest counts it: it reports an expected failure as a skip, or as a success."""
    outcome: str = report.outcome  # which may be another one, of a plug-in
    return _MARKED.get(outcome, outcome) if hasattr(report, "wasxfail") else outcome


def _described(value: object) -> object:
    """Return a parameter as it is recorded, by its class if it is no plain value."""
    return value if type(value) in _PLAIN else f"<{type(value).__name__}>"
