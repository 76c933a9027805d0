"""Paths in the checkout, and a function that runs the installed package from outside of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.limits import PATIENCE

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = CHECKOUT / "fxtio"
CORPUS = CHECKOUT / "tests" / "corpus"


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
