"""The package `fxtio` as people meet it in an interpreter: `dir`, `import *`, completion with the tab key."""

from __future__ import annotations

import rlcompleter
from types import ModuleType

import fxtio
from support.checkout import run_python

HEAVY = ("numpy", "msgspec", "construct", "argparse", "zstandard", "asyncio", "multiprocessing")


def test_dir_shows_what_it_offers() -> None:
    names = dir(fxtio)
    assert [name for name in names if not name.startswith("__")] == sorted(fxtio.__all__)
    assert {"__version__", "__all__", "__doc__", "__path__"} <= set(names)
    assert all(getattr(fxtio, name) is not None or name.startswith("__") for name in names)


def test_everything_can_be_imported_at_once() -> None:
    names: dict[str, object] = {}
    exec("from fxtio import *", names)
    del names["__builtins__"]
    assert sorted(names) == sorted(fxtio.__all__)
    assert not any(isinstance(value, ModuleType) for value in names.values())


def test_completion_in_an_interpreter() -> None:
    completer = rlcompleter.Completer({"fxtio": fxtio})
    matches = {match.rstrip("()") for match in completer.attr_matches("fxtio.op")}
    assert matches == {"fxtio.open", "fxtio.open_timeline", "fxtio.operation"}


def test_completion_imports_nothing_heavy() -> None:
    """The completer takes the value of each name that begins with what was typed."""
    code = (
        "import sys, rlcompleter, fxtio\n"
        "before = {*sys.modules}\n"
        "print(len(rlcompleter.Completer({'fxtio': fxtio}).attr_matches('fxtio.')))\n"
        f"print(sorted(({{*sys.modules}} - before) & {{*{HEAVY!r}}}))"
    )
    count, heavy = run_python("-c", code).stdout.splitlines()
    assert int(count) == len(fxtio.__all__)
    assert heavy == "[]"
