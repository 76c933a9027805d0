"""Functions that run the command line, or a script, in the process of the tests: no interpreter has to start.

A test whose point is the process (pipes, signals, the end of the interpreter, recording) starts one instead.
"""

from __future__ import annotations

import io
import runpy
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from fxtio.cli import main


def run_fxtio(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `fxtio` with arguments; return the exit code and what it printed, as a process would give them."""
    return _captured(["fxtio", *arguments], lambda: main(arguments))


def run_script(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python script with arguments; return the exit code and what it printed.

    Raises:
        Exception: the script raised it.
    """
    return _captured([str(path), *arguments], lambda: runpy.run_path(str(path), run_name="__main__"))


def _captured(command: list[str], work: Callable[[], object]) -> subprocess.CompletedProcess[str]:
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", command)
        try:
            code = work()
        except SystemExit as end:
            code = end.code
    if isinstance(code, str):
        err.write(code)
    status = code if isinstance(code, int) else int(isinstance(code, str))
    printed = [stream.buffer.getvalue().decode("utf-8") for stream in (out, err)]
    return subprocess.CompletedProcess(command, status, *printed)
