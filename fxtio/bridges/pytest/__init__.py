"""The plug-in of pytest, which pytest loads by itself: spans for tests, options, and the fixture `validate_trace`.

While the test run is recorded, by `pytest --fxtio` or by `fxtio run -m pytest`, each test is a span whose name is the
id of the test, with its parameters and its outcome; within it are spans for its set-up, its call and its tear-down.
The workers of pytest-xdist are processes with their names, such as `gw0`.

This module is loaded by every test run, so it is light: what else is recorded is in the other modules of this package,
which only a recorded run loads.  The readers are loaded only when a test uses the fixture or has a limit for spans.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from fxtio.validate import Validation


CATEGORY = "pytest"
"""The category of tests and their phases, and the beginning of that of all else that this plug-in records."""

COLLECTION = f"{CATEGORY}.collection"
"""The category of what is done to find the tests."""

_outcomes: list[str] = []
"""The outcomes of the test that runs, by phase."""

FIXTURE_TIMES = "fxtio_fixtures"
"""The attribute of a report that has the times of fixtures, as lists, which pytest-xdist sends to its main process."""

fixture_times: list[list[Any]] = []
"""The times of fixtures since the last report, where `fixtures` records them."""

_PLAIN = frozenset({str, int, float, bool, type(None)})
"""The types of parameters that are recorded as they are; to describe others could run code of the tests."""

_F = TypeVar("_F", bound=Callable[..., Any])


def around(function: _F) -> _F:
    """Have a generator run around what other plug-ins do for a hook."""
    if pytest.version_tuple >= (8,):
        return pytest.hookimpl(tryfirst=True, wrapper=True)(function)
    return pytest.hookimpl(tryfirst=True, hookwrapper=True)(function)


def _span(name: str, category: str = CATEGORY, /, **args: object) -> Any:
    """Return a span, or one that does nothing if nothing can be recording, since the tracer is not loaded."""
    tracer: Any = sys.modules.get("fxtio.tracer")
    return nullcontext() if tracer is None else tracer.span(name, category, **args)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("fxtio", "trace of the test run (fxtio)")
    trace_help = "record the test run as a trace (pytest.fxt); .fxt.zst compresses it"
    group.addoption("--fxtio", nargs="?", const=DEFAULT_OUTPUT, type=_trace_name, metavar="FILE", help=trace_help)
    functions_help = "record the calls of the functions of this module, file or folder as well; may be repeated"
    group.addoption("--fxtio-functions", action="append", default=[], metavar="WHERE", help=functions_help)
    failure_help = "keep only the last moments of the run, and a trace of those of each test that fails"
    group.addoption("--fxtio-on-failure", action="store_true", help=failure_help)


_RUN = f"{__name__}.run"
"""The module that records a run; pytest loads it by its name, since it needs what is here."""

DEFAULT_OUTPUT = "pytest.fxt"
_SUFFIXES = tuple(f".fxt{compression}" for compression in ("", ".zst", ".gz", ".xz"))


def _trace_name(text: str) -> str:
    """Return the name of a trace; refuse what is probably a folder of tests, which follows the option by mistake."""
    if text.endswith(_SUFFIXES):
        return text
    from argparse import ArgumentTypeError

    raise ArgumentTypeError(f"{text!r} is no name of a trace: write --fxtio=out.fxt, or --fxtio at the end")


@around
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[Any, Any, Any]:
    """Begin to record if an option asks for it, before the tests and their `conftest.py` files are imported."""
    options = early_config.known_args_namespace
    session: Any = sys.modules.get("fxtio.tracer.session")
    is_asked_for = options.fxtio or options.fxtio_functions or options.fxtio_on_failure
    is_recorded = session is not None and session.current() is not None
    if (is_asked_for or is_recorded) and not (options.help or options.version):
        early_config.pluginmanager.import_plugin(_RUN)
        early_config.pluginmanager.get_plugin(_RUN).begin(early_config, options)  # type: ignore[union-attr]
    return (yield from _in_span("conftest", COLLECTION))


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, and name the process of a worker of pytest-xdist in traces as pytest does: `gw0`."""
    mark = "fxtio(limit, span=None): with --fxtio, fail if the test, or a span with this name, takes longer than this"
    config.addinivalue_line("markers", mark)
    session: Any = sys.modules.get("fxtio.tracer.session")
    worker = getattr(config, "workerinput", None)
    if session is not None and worker is not None:
        session.name_process(worker["workerid"])


def _in_span(name: str, category: str = CATEGORY) -> Generator[Any, Any, Any]:
    with _span(name, category):
        return (yield)


@around
def pytest_runtest_protocol(item: pytest.Item) -> Generator[Any, Any, Any]:
    """Record a test, with its parameters and its outcome."""
    callspec = getattr(item, "callspec", None)
    with _span(item.nodeid, **({} if callspec is None else _described(callspec.params))) as span:
        result = yield
        if span is not None:
            span.set(outcome=next((outcome for outcome in _outcomes if outcome != "passed"), "passed"))
        return result


def _described(parameters: dict[str, object]) -> dict[str, object]:
    """Return parameters as they are recorded: those that are no plain values by their class."""
    return {name: value if type(value) in _PLAIN else f"<{type(value).__name__}>" for name, value in parameters.items()}


@around
def pytest_runtest_setup() -> Generator[Any, Any, Any]:
    """Record the set-up of a test."""
    return (yield from _in_span("setup"))


@around
def pytest_runtest_call() -> Generator[Any, Any, Any]:
    """Record the call of a test."""
    return (yield from _in_span("call"))


@around
def pytest_runtest_teardown() -> Generator[Any, Any, Any]:
    """Record the tear-down of a test."""
    return (yield from _in_span("teardown"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the outcome of a phase of the test that runs; another attempt begins with another set-up.

    The report gets the times of fixtures; one of a worker has them already.
    """
    if report.when == "setup":
        _outcomes.clear()
    _outcomes.append(report.outcome)
    if fixture_times:
        setattr(report, FIXTURE_TIMES, fixture_times.copy())
        fixture_times.clear()


@pytest.fixture(scope="session")
def validate_trace() -> Callable[..., Validation]:
    """Return the function `fxtio.testing.asserts.assert_valid`, which checks a trace against the rules of its format.

    A call `validate_trace(trace)` fails the test if the trace breaks a rule.  It is bytes, or the path of a file or
    directory.  The keyword argument `profile` says which rules count, `ignore` has patterns of rules that do not, and
    `expected` is another trace that must mean the same.
    """
    from fxtio.testing.asserts import assert_valid

    return assert_valid
