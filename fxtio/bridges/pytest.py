"""The plug-in of pytest, which pytest loads by itself: spans for tests, and the fixture `validate_trace`.

While the test run is recorded, as by `fxtio run -m pytest`, each test is a span whose name is the id of the test, with
its parameters; within it are spans for its set-up, its call and its tear-down.  The workers of pytest-xdist
are processes with their names, such as `gw0`.

The plug-in loads the tracer for no run, and the readers only when a test uses the fixture.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from fxtio.validate import Validation


_CATEGORY = "pytest"
_outcomes: list[str] = []
"""The outcomes of the test that runs, by phase."""

_F = TypeVar("_F", bound=Callable[..., Any])


def _around(function: _F) -> _F:
    """Have a generator run around what other plug-ins do for a hook."""
    if pytest.version_tuple >= (8,):
        return pytest.hookimpl(tryfirst=True, wrapper=True)(function)
    return pytest.hookimpl(tryfirst=True, hookwrapper=True)(function)


def _span(name: str) -> Any:
    """Return a span, or one that does nothing if nothing can be recording, since the tracer is not loaded."""
    tracer: Any = sys.modules.get("fxtio.tracer")
    return nullcontext() if tracer is None else tracer.span(name, _CATEGORY)


def pytest_configure(config: pytest.Config) -> None:
    """Name the process of a worker of pytest-xdist in traces as pytest does: `gw0`."""
    session: Any = sys.modules.get("fxtio.tracer.session")
    worker = getattr(config, "workerinput", None)
    if session is not None and worker is not None:
        session.name_process(worker["workerid"])


def _in_span(name: str) -> Generator[Any, Any, Any]:
    with _span(name):
        return (yield)


@_around
def pytest_runtest_protocol(item: pytest.Item) -> Generator[Any, Any, Any]:
    """Record a test, with its outcome."""
    with _span(item.nodeid) as span:
        _outcomes.clear()
        result = yield
        if span is not None:
            span.set(outcome=next((outcome for outcome in _outcomes if outcome != "passed"), "passed"))
        return result


@_around
def pytest_runtest_setup() -> Generator[Any, Any, Any]:
    """Record the set-up of a test."""
    return (yield from _in_span("setup"))


@_around
def pytest_runtest_call() -> Generator[Any, Any, Any]:
    """Record the call of a test."""
    return (yield from _in_span("call"))


@_around
def pytest_runtest_teardown() -> Generator[Any, Any, Any]:
    """Record the tear-down of a test."""
    return (yield from _in_span("teardown"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the outcome of a phase of the test that runs."""
    _outcomes.append(report.outcome)


@pytest.fixture(scope="session")
def validate_trace() -> Callable[..., Validation]:
    """Return the function `fxtio.testing.asserts.assert_valid`, which checks a trace against the rules of its format.

    A call `validate_trace(trace)` fails the test if the trace breaks a rule.  It is bytes, or the path of a file or
    directory.  The keyword argument `profile` says which rules count, `ignore` has patterns of rules that do not, and
    `expected` is another trace that must mean the same.
    """
    from fxtio.testing.asserts import assert_valid

    return assert_valid
