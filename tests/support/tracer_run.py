"""Programs for the tracer, run in a process of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from support.limits import PATIENCE

PRELUDE = """\
import os, sys, threading, time
import fxtio
OUT, OPTIONS = sys.argv[1], eval(sys.argv[2])
"""

START = """\
if OUT:
    fxtio.start(OUT, **OPTIONS)
"""

INTERPRETER = os.environ.get("FXTIO_TEST_INTERPRETER", sys.executable)
"""What runs the programs: another build of the interpreter of the tests, such as a free-threaded one."""

Done = subprocess.CompletedProcess[str]


def run(
    source: str, output: str | Path = "", *, start: bool = False, timeout: float = PATIENCE, **options: Any
) -> Done:
    """Run a program that knows OUT and OPTIONS; with `start` it is recorded from its first line on, if OUT is given."""
    program = PRELUDE + (START if start else "") + textwrap.dedent(source)
    command = [INTERPRETER, "-P", "-c", program, str(output), repr(options)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # its children too, which would keep the pipes open
            raise
    return Done(command, process.returncode, stdout, stderr)


def recorded(source: str, output: str | Path, *, timeout: float = PATIENCE, **options: Any) -> Done:
    """Run a program unrecorded and recorded: it must print the same and exit the same.

    On standard error the recorded one may say more, about the recording.
    """
    bare = run(source, start=True, timeout=timeout)
    done = run(source, output, start=True, timeout=timeout, **options)
    assert (done.returncode, done.stdout) == (bare.returncode, bare.stdout), f"{bare.stderr}\n{done.stderr}"
    assert of_program(done.stderr) == of_program(bare.stderr)
    return done


def fine(source: str, output: str | Path = "", **options: Any) -> str:
    """Run a program that has to succeed; return what it prints."""
    done = run(source, output, **options)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def of_program(text: str) -> list[str]:
    """Return the lines on standard error that the program itself wrote, without messages of the recording."""
    lines, own = text.splitlines(), []
    for number, line in enumerate(lines):
        before = lines[number - 1] if number else ""
        if "RecordingWarning" in line or line.startswith("fxtio: "):
            continue
        if line.startswith("  ") and "RecordingWarning" in before:  # the line of source that a warning shows
            continue
        own.append(line)
    return own
