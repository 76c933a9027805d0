"""Programs for the tracer, run in a process of their own."""

from __future__ import annotations

import os
import subprocess
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

from support.forks import COMMAND, PRELUDE, TRACER, forker
from support.limits import PATIENCE

SETTINGS = "OUT, OPTIONS = sys.argv[1], eval(sys.argv[2])\n"

START = """\
if OUT:
    fxtio.start(OUT, **OPTIONS)
"""

Done = subprocess.CompletedProcess[str]


def run(
    source: str, output: str | Path = "", *, start: bool = False, timeout: float = PATIENCE, **options: Any
) -> Done:
    """Run a program that knows OUT and OPTIONS; with `start` it is recorded from its first line on, if OUT is given."""
    program = SETTINGS + (START if start else "") + textwrap.dedent(source)
    arguments = str(output), repr(options)
    forks = forker(TRACER if start and str(output) else PRELUDE)
    return Done([program, *arguments], *forks.run(program, *arguments, timeout=timeout))


def recorded(source: str, output: str | Path, *, timeout: float = PATIENCE, **options: Any) -> Done:
    """Run a program unrecorded and recorded: it must print the same and exit the same.

    On standard error the recorded one may say more, about the recording.
    """
    bare = _unrecorded(source, timeout)
    done = run(source, output, start=True, timeout=timeout, **options)
    assert (done.returncode, done.stdout) == (bare.returncode, bare.stdout), f"{bare.stderr}\n{done.stderr}"
    assert of_program(done.stderr) == of_program(bare.stderr)
    return done


@cache
def _unrecorded(source: str, timeout: float) -> Done:
    """Run a program that is not recorded, once for all tests that record it with different options."""
    return run(source, start=True, timeout=timeout)


def fine(source: str, output: str | Path = "", **options: Any) -> str:
    """Run a program that has to succeed; return what it prints."""
    done = run(source, output, **options)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_command(folder: Path, *arguments: str) -> Done:
    """Run `fxtio` with arguments, in a folder and in a process of its own."""
    program = "from fxtio.cli import main; sys.exit(main(sys.argv[1:]))"
    return Done(["fxtio", *arguments], *forker(COMMAND).run(program, *arguments, timeout=PATIENCE, folder=folder))


def search_path(folder: Path) -> str:
    """Return a value of PYTHONPATH: modules are found in a folder first, and then where they are found here."""
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))


def of_program(text: str) -> list[str]:
    """Return the lines on standard error that the program itself wrote, without messages of the recording.

    CPython warns of forks in programs with threads, by the number of threads that the system counts. A thread that was
    just joined may still be one of them, so the warning comes by chance and is left out.
    """
    own, after_warning = [], False
    for line in text.splitlines():
        is_source = after_warning and line.startswith("  ")  # the line of source that a warning shows
        after_warning = "RecordingWarning" in line or "multi-threaded, use of fork()" in line
        if not (is_source or after_warning or line.startswith("fxtio: ")):
            own.append(line)
    return own
