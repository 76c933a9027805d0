"""The option `--full`, and the rule that only tests with the mark `full` run programs of other projects.

`pytest` alone leaves out the tests with the mark, unless a file or a test is named.  If a test without the mark starts
such a program, or asks a judge that another test has started, an error is reported.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

MARK = "full"

EVENT = "judges.ask"
"""The audit event that a judge raises, with its name, when it hands work to a process that it has already started."""

_COMMON = frozenset({"bash", "cat", "false", "sh"})
"""Programs that every POSIX system has."""

_unmarked: list[str] = []
"""The test that runs, if it does not have the mark."""

_used: list[str] = []
"""The programs of other projects that this test has used."""


def is_foreign(program: str) -> bool:
    """Return whether a program is on the PATH and belongs neither to this interpreter nor to every system."""
    path = Path(shutil.which(program) or program)
    if path.name in _COMMON or path.name.startswith("python") or path.parent == Path(sys.executable).parent:
        return False
    return str(path.parent) in os.environ.get("PATH", "").split(os.pathsep)


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    """Note what a test without the mark uses; it fails later, for an exception here would leave pipes open."""
    if _unmarked and event in ("subprocess.Popen", EVENT):
        program = os.fsdecode(arguments[0])  # type: ignore[arg-type]
        if event == EVENT or is_foreign(program):
            _used.append(program)


sys.addaudithook(_watch)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--full`."""
    parser.addoption("--full", action="store_true", help=f"run also the tests with the mark `{MARK}`, as CI does")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests with the mark, unless `--full`, a file or a test is on the command line."""
    if config.getoption("full") or any("::" in word or Path(word).is_file() for word in config.args):
        return
    left_out = [item for item in items if item.get_closest_marker(MARK)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker(MARK)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note the test if it does not have the mark."""
    before = [*_unmarked], [*_used]
    _unmarked[:], _used[:] = [] if item.get_closest_marker(MARK) else [item.nodeid], []
    try:
        return (yield)
    finally:
        _unmarked[:], _used[:] = before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """Report an error if the test, or a fixture of it, has used a program of another project without the mark."""
    result = yield
    if _used:
        pytest.fail(f"{_unmarked[0]} uses {', '.join(_used)}, so it needs the mark `{MARK}`", pytrace=False)
    return result
