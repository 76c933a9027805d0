"""Paths in the checkout, and a function that runs the installed package from outside of it."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from support.limits import PATIENCE

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = CHECKOUT / "fxtio"
CORPUS = CHECKOUT / "tests" / "corpus"


def import_path() -> list[str]:
    """Return the folders from which an interpreter without `site` imports what this one does, such as fxtio."""
    found = find_spec(PACKAGE.name)
    assert found is not None and found.origin is not None
    return [str(Path(found.origin).parents[1]), *sys.path]


def hidden_package(folders: list[str]) -> Path | None:
    """Return the installed package that the checkout hides, as its folder is before it; None if it hides none."""
    absolute = [str(Path(folder).resolve()) for folder in folders]
    hides = PACKAGE.is_dir() and str(CHECKOUT) in absolute
    behind = absolute[absolute.index(str(CHECKOUT)) + 1 :] if hides else []
    found = PathFinder.find_spec(PACKAGE.name, behind)
    origin = None if found is None or found.origin is None else Path(found.origin).resolve().parent
    return None if origin == PACKAGE else origin


FEW_PLUGINS = [word for name in ("anyio", "cacheprovider", "cov", "hypothesispytest") for word in ("-p", f"no:{name}")]
"""Options for a run of pytest: without plug-ins that it does not need, whose import takes longer than all the rest."""


def run_python(*arguments: str, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """Run this interpreter with `arguments`; it imports the installed fxtio, whatever the working directory is.

    Raises:
        AssertionError: the child process failed; the message has its standard error.
    """
    child = subprocess.run(
        [sys.executable, "-P", *arguments], capture_output=True, text=True, timeout=timeout, check=False
    )
    assert child.returncode == 0, f"exit status {child.returncode}: {arguments}\n{child.stderr}"
    return child
