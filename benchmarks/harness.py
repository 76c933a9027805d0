"""Helpers for the benchmarks of the formats: shortest time, memory of a child, kernels in Python, result table."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fxtio import _native

PEAK = r"""
import re
print(int(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1]) * 1024)
"""


def best(work: Callable[[], object], rounds: int = 5) -> float:
    """Return the time of the shortest run, in seconds."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - begin)
        del result
    return min(times)


def in_child(code: str, *arguments: str) -> float:
    """Run code in a fresh interpreter and return the number that it prints."""
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return float(result.stdout)


def peak_memory(code: str, *arguments: str) -> float:
    """Run code in a fresh interpreter and return its peak memory, in bytes."""
    return in_child(code + PEAK, *arguments)


@contextlib.contextmanager
def without_kernels(*names: str) -> Iterator[None]:
    """Replace kernels by their Python implementations."""
    from fxtio._native import python

    kernels = {name: getattr(_native, name) for name in names}
    try:
        for name in kernels:
            setattr(_native, name, getattr(python, name))
        yield
    finally:
        for name, function in kernels.items():
            setattr(_native, name, function)


def show(what: str, run: Callable[..., Sequence[Sequence[str]]], *more: str, tools: str = "", file: str = "") -> None:
    """Measure and print the results as the command line options ask.

    Args:
        what: the subject of the benchmark, for the help text.
        run: takes a folder for its files and returns rows: what, the figure, and a text for each of `more`.
        more: titles of further columns.
        tools: further tools of the measurement, after the version of Python.
        file: the help text of an optional argument FILE, a path that `run` takes after the folder, or None.
    """
    parser = argparse.ArgumentParser(description=f"Benchmark of reading and writing {what}.")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    if file:
        parser.add_argument("file", metavar="FILE", type=Path, nargs="?", help=file)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = run(Path(folder), *([options.file] if file else []))
    machine = f"on {os.cpu_count()} cores ({platform.machine()}), kernels: {_native.IMPLEMENTATION}"
    print(f"Measured with CPython {platform.python_version()}{tools} {machine}.\n")
    if options.markdown:
        titles = ("what", "figure", *more)
        print(f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|")
        for row in rows:
            print(f"| {' | '.join(row)} |")
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
