"""`fxtio run --open`: record a program in a child process, and show the trace when it has ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from fxtio.cli import open as open_command
from fxtio.io.source import COMPRESSION_SUFFIXES
from fxtio.view import ui

_SWITCH = "--open"
_KILLED = 128
"""The exit code of a shell for a program that a signal ended, without the number of the signal."""


def run_and_open(arguments: Sequence[str], options: Any) -> int:
    """Record a program and show its trace, if it has written one.

    Args:
        arguments: those of the command line, `run` and the following.
        options: the same, parsed.

    Returns:
        The exit code of the program.

    Raises:
        FxtioError: the files of the UI are missing, or the trace cannot be read.
        OSError: the trace cannot be read.
    """
    from fxtio.cli.parser import parse_command

    ui.files()  # so that a missing one is reported before a long run
    words = len(options.module or options.code or options.program)
    own, program = arguments[: len(arguments) - words], arguments[len(arguments) - words :]
    before = _written(options.output)
    child = subprocess.Popen([*_interpreter(arguments), *(word for word in own if word != _SWITCH), *program])
    with _passing_on(child):
        code = child.wait()
    if _written(options.output) not in (None, before):
        open_command.run(parse_command(["open", options.output]))
    return code if code >= 0 else _KILLED - code


def _interpreter(arguments: Sequence[str]) -> list[str]:
    """Return the words of a command line that stand before the arguments: the interpreter, its options, and fxtio."""
    words = len(sys.orig_argv) - len(arguments)
    if words > 0 and sys.orig_argv[words:] == list(arguments):
        return [sys.executable, *sys.orig_argv[1:words]]
    return [sys.executable, "-m", "fxtio"]


def _written(output: str) -> tuple[int, int] | None:
    """Return what tells a trace from one that replaces it; None if there is none."""
    compressed = output.endswith(COMPRESSION_SUFFIXES)
    for path in (Path(output), *([Path(f"{output}.part")] if compressed else [])):
        if path.is_file():
            return path.stat().st_ino, path.stat().st_mtime_ns
    return None


@contextmanager
def _passing_on(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Let a child process alone decide what signals mean; those that a terminal does not send to it are passed on."""

    def pass_on(number: int, _: FrameType | None) -> None:
        if number in open_command.ENDING:
            child.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, *open_command.ENDING)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
