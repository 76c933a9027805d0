"""Run uftrace itself, to compare its output.

Debian has version 0.13.  If `FXTIO_REQUIRE_UFTRACE` is set, as in the CI, tests fail without uftrace; else they are
skipped.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.limits import PATIENCE

PROGRAM = shutil.which("uftrace")
REQUIRED = bool(os.environ.get("FXTIO_REQUIRE_UFTRACE"))
COMPILER = shutil.which("gcc") if PROGRAM else None

_installed = pytest.mark.skipif(not PROGRAM and not REQUIRED, reason="uftrace is not installed")
needs_compiler = pytest.mark.skipif(not COMPILER and not REQUIRED, reason="uftrace or gcc is not installed")


def needs_uftrace(test: Callable[..., None]) -> Callable[..., None]:
    """Give a test the mark `uftrace`, by which CI selects it; without uftrace the test is skipped."""
    marked: Callable[..., None] = pytest.mark.uftrace(_installed(test))
    return marked


_RECORDED = re.compile(rb'"recorded_time":"[^"]*"')


def run(command: str, directory: Path, *options: str, cwd: Path | None = None) -> bytes:
    """Return the output of a command of uftrace for a directory.

    The working directory has no programs in it, because uftrace would read their symbols.
    """
    assert PROGRAM, "uftrace is required, but not installed"
    done = subprocess.run(
        [PROGRAM, command, "--no-pager", "--color=no", *options, "-d", str(directory)],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        cwd=cwd or directory,
        env={"PATH": os.environ["PATH"], "TERM": "dumb", "TZ": "UTC", "HOME": str(directory), "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, f"uftrace {command} {directory}: {done.returncode}\n{done.stderr.decode()}"
    return done.stdout


VIEWS: dict[str, tuple[str, ...]] = {
    "replay": ("-f", "time,delta,elapsed,duration,tid,addr,task,module"),
    "dump": (),
    "report": ("-f", "total,self,call"),
    "graph": (),
    "flame": ("--flame-graph", "--sample-time", "1ns"),
}
"""The commands whose outputs are compared, and their options."""


def views(directory: Path, names: tuple[str, ...] = tuple(VIEWS)) -> dict[str, bytes]:
    """Return the outputs of several commands."""
    return {name: run("dump" if name == "flame" else name, directory, *VIEWS[name]) for name in names}


def record(directory: Path, program: Path, *options: str) -> Path:
    """Record a program."""
    assert PROGRAM, "uftrace is required, but not installed"
    done = subprocess.run(
        [PROGRAM, "record", "--no-event", *options, "-d", str(directory), str(program)],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (directory / "info").is_file(), done.stderr.decode()
    return directory


def compile_c(source: str, target: Path, *flags: str, compiler: str = "gcc") -> Path:
    """Compile a program."""
    path = target.with_suffix(".cpp" if compiler == "g++" else ".c")
    path.write_text(source)
    subprocess.run([compiler, "-O0", "-g0", *flags, str(path), "-o", str(target)], check=True, timeout=PATIENCE)
    return target
