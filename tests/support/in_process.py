"""Functions that run the command line, or a script, in the process of the tests: no interpreter has to start.

A test whose point is the process (pipes, signals, the end of the interpreter, recording) starts one instead.
"""

from __future__ import annotations

import io
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import TextIO

import pytest

from fxtio.cli import main


def run_fxtio(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `fxtio` with arguments; return the exit code and what it printed, as a process would give them."""
    return _as_text(_captured(["fxtio", *arguments], lambda: main(arguments)))


def run_script(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python script with arguments; return the exit code and what it printed.

    Raises:
        Exception: the script raised it.
    """
    return _as_text(_captured([str(path), *arguments], lambda: runpy.run_path(str(path), run_name="__main__")))


def run_piped(data: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run `fxtio` with data in a pipe as standard input; return the exit code and the bytes that it printed."""
    with piped(data) as stdin, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", stdin)
        return _captured(["fxtio", *arguments], lambda: main(arguments))


@contextmanager
def piped(data: bytes) -> Iterator[TextIO]:
    """Open a pipe that data come from, to be the standard input."""

    def feed() -> None:
        with suppress(BrokenPipeError), open(write_end, "wb") as pipe:
            pipe.write(data)

    read_end, write_end = os.pipe()
    with ThreadPoolExecutor(1) as pool, open(read_end, encoding="utf-8") as stdin:
        pool.submit(feed)
        yield stdin


def _captured(command: list[str], work: Callable[[], object]) -> subprocess.CompletedProcess[bytes]:
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
    return subprocess.CompletedProcess(command, status, *(stream.buffer.getvalue() for stream in (out, err)))


def _as_text(done: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
