"""Where things lie in the checkout, and how to run the installed package from outside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = CHECKOUT / "fxtio"
CORPUS = CHECKOUT / "tests" / "corpus"


def run_python(*arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run this interpreter with `arguments`; it sees the installed fxtio, whatever the working directory.

    Fails the test, with the child's standard error, where the child fails.
    """
    done = subprocess.run(
        [sys.executable, "-P", *arguments], capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, f"exit status {done.returncode}: {arguments}\n{done.stderr}"
    return done
