"""What `pytest --fxtio` costs: the processor time of 1,000 tests of 1 ms, with and without it."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from harness import show

ROUNDS = 7

# Each test takes 1 ms of processor time, so that what else the machine does is not measured.
PLAIN = """
import time
import pytest

@pytest.mark.parametrize("number", range(1000))
def test_one(number):
    end = time.thread_time_ns() + 1_000_000
    while time.thread_time_ns() < end:
        pass
"""

FIXTURES = """
import time
import pytest

@pytest.fixture(scope="module")
def shared():
    yield 1

@pytest.fixture
def own(shared):
    yield 2

@pytest.mark.parametrize("number", range(1000))
def test_one(own, tmp_path, number):
    end = time.thread_time_ns() + 1_000_000
    while time.thread_time_ns() < end:
        pass
"""


def seconds(folder: Path, *options: str) -> float:
    """Return the processor time of a run of pytest."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *options]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def row(folder: Path, what: str, text: str, *options: str) -> Sequence[str]:
    """Compare runs with and without the options, each pair one after the other."""
    (folder / "test_it.py").write_text(text)
    seconds(folder), seconds(folder, *options)  # compiles what is imported
    pairs = [(seconds(folder), seconds(folder, *options)) for _ in range(ROUNDS)]
    without, with_it = (min(times) for times in zip(*pairs, strict=True))
    typical = median(after / before for before, after in pairs)
    return what, f"{with_it / without - 1:+.1%}", f"{typical - 1:+.1%}", f"{without:.2f} s", f"{with_it:.2f} s"


def run(folder: Path) -> Sequence[Sequence[str]]:
    return [
        row(folder, "1,000 tests", PLAIN, "--fxtio=out.fxt"),
        row(folder, "1,000 tests, three fixtures each", FIXTURES, "--fxtio=out.fxt"),
        row(folder, "1,000 tests, their functions", PLAIN, "--fxtio=out.fxt", "--fxtio-functions=test_it"),
    ]


if __name__ == "__main__":
    show("test runs with pytest", run, "median", "without", "with", tools=", pytest")
