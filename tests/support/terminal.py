"""The command line with a terminal as standard output, in the process of the tests."""

from __future__ import annotations

import io
import pty
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout

import pytest

from fxtio.cli import main


def in_terminal(arguments: Sequence[str], encoding: str = "utf-8", **variables: str) -> str:
    """Run `fxtio` with a terminal of 80 columns as standard output, and return what it printed.

    Args:
        arguments: those of the command line.
        encoding: that of standard output.
        variables: those of the environment; the ones that are empty are removed from it.
    """
    leader, follower = pty.openpty()
    with (
        ThreadPoolExecutor(1) as pool,
        open(leader, "rb", buffering=0) as screen,
        pytest.MonkeyPatch.context() as patch,
        open(follower, "w", encoding=encoding) as stdout,
        redirect_stdout(stdout),
    ):
        for name, value in ({"TERM": "xterm-256color", "COLUMNS": "80"} | variables).items():
            patch.setenv(name, value) if value else patch.delenv(name, raising=False)
        shown = pool.submit(_shown_on, screen)
        try:
            main(arguments)
        finally:
            stdout.close()  # which ends what is shown
        return shown.result().decode()


def _shown_on(screen: io.RawIOBase) -> bytes:
    """Read the output of a terminal until its other end is closed."""
    parts = []
    while True:
        try:
            part = screen.read(1 << 16)
        except OSError:  # Linux gives an error in place of an end
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)
