"""The plug-in of pytest, which pytest loads by itself: spans for tests, options, and the fixture `validate_trace`.

While the test run is recorded, by `pytest --fxtio`, by `fxtio run -m pytest` or by a `conftest.py`, what happens in it
is recorded by the plug-ins of the other modules of this package.  The workers of pytest-xdist are processes with their
names, such as `gw0`.

This module is loaded by every test run, so it is light, and does nothing for a test: only a recorded run loads the
other modules.  The readers are loaded only when a test uses the fixture or has a limit for spans.
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

MARK = "fxtio"
"""The mark of tests that have limits."""

_F = TypeVar("_F", bound=Callable[..., Any])


def around(function: _F) -> _F:
    """Have a generator run around what other plug-ins do for a hook."""
    if pytest.version_tuple >= (8,):
        return pytest.hookimpl(tryfirst=True, wrapper=True)(function)
    return pytest.hookimpl(tryfirst=True, hookwrapper=True)(function)


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


def _trace_name(text: str) -> str:
    """Return the name of a trace; refuse what is probably a folder of tests, which follows the option by mistake."""
    from argparse import ArgumentTypeError

    from fxtio.tracer.options import COMPRESSED  # only with the option: the tracer is not loaded without

    if text.endswith((".fxt", *(f".fxt{each}" for each in COMPRESSED))):
        return text
    raise ArgumentTypeError(f"{text!r} is no name of a trace: write --fxtio=out.fxt, or --fxtio at the end")


@around
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[Any, Any, Any]:
    """Begin to record if an option asks for it, before the tests and their `conftest.py` files are imported."""
    options = early_config.known_args_namespace
    run = None
    is_asked_for = options.fxtio or options.fxtio_functions or options.fxtio_on_failure
    if (is_asked_for or _is_recorded()) and not (options.help or options.version):
        run = _begin(early_config)
    with nullcontext() if run is None else run.conftest():
        return (yield)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Record the run also if only a `conftest.py` file has begun a recording."""
    if _is_recorded() and not session.config.pluginmanager.has_plugin(_RUN):
        _begin(session.config)


def _is_recorded() -> bool:
    """Return whether this process is recorded; nothing is while the tracer is not loaded."""
    session: Any = sys.modules.get("fxtio.tracer.session")
    return session is not None and session.current() is not None


def _begin(config: pytest.Config) -> Any:
    """Load what records a run, let it begin, and return it."""
    config.pluginmanager.import_plugin(_RUN)
    run: Any = config.pluginmanager.get_plugin(_RUN)
    run.begin(config)
    return run


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, and name the process of a worker of pytest-xdist in traces as pytest does: `gw0`."""
    mark = f"{MARK}(limit, span=None): with --fxtio, fail if the test, or a span with this name, takes longer than this"
    config.addinivalue_line("markers", mark)
    session: Any = sys.modules.get("fxtio.tracer.session")
    worker = getattr(config, "workerinput", None)
    if session is not None and worker is not None:
        session.name_process(worker["workerid"])


@pytest.fixture(scope="session")
def validate_trace() -> Callable[..., Validation]:
    """Return the function `fxtio.testing.asserts.assert_valid`, which checks a trace against the rules of its format.

    A call `validate_trace(trace)` fails the test if the trace breaks a rule.  It is bytes, or the path of a file or
    directory.  The keyword argument `profile` says which rules count, `ignore` has patterns of rules that do not, and
    `expected` is another trace that must mean the same.
    """
    from fxtio.testing.asserts import assert_valid

    return assert_valid
