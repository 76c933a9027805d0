"""Runs test suites of others with and without the tracer, and compares the outcome of each of their tests.

    python tests/outside/compare.py                        # all that are listed here; half an hour
    python tests/outside/compare.py test_json attrs click  # these
    python tests/outside/compare.py --small                # those that CI runs

The suites are modules of CPython's own tests, which come with most builds of it, and those of packages, which pip
downloads.  A test whose outcome differs is run twice more each way; it is reported if it never has the same outcome.
The exit status is 1 if there is such a test.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

if __package__:
    from outside.suites import PACKAGES, Outcomes, Suite
else:
    from suites import PACKAGES, Outcomes, Suite  # type: ignore[import-not-found,no-redef]

SMALL = ("test_generators", "test_coroutines", "test_contextlib", "test_code", "test_opcodes")
ALL = (
    *SMALL,
    *("test_asyncgen", "test_bool", "test_bytes", "test_class", "test_collections", "test_contextlib_async"),
    *("test_copy", "test_csv", "test_dataclasses", "test_decorators", "test_descr", "test_dict", "test_enum"),
    *("test_exceptions", "test_fractions", "test_functools", "test_genericalias", "test_grammar", "test_heapq"),
    *("test_inspect", "test_io", "test_iter", "test_itertools", "test_json", "test_list", "test_logging"),
    *("test_metaclass", "test_pickle", "test_queue", "test_re", "test_sched", "test_set", "test_signal"),
    *("test_statistics", "test_string", "test_struct", "test_subprocess", "test_super", "test_textwrap"),
    *("test_thread", "test_threading", "test_traceback", "test_tuple", "test_types", "test_typing"),
    *("test_unpack", "test_weakref", "test_with", "test_zipfile"),
)

# Tests that ask for what the tracer has to change, by a part of their name.
EXCUSED = (
    "test_setprofile",  # before CPython 3.12 the tracer is the profile function
    "test_getprofile",
    "test_threading.ThreadTests.test_main_thread_after_fork",  # its child prints all that is on standard error
)

_OUTCOME = re.compile(
    r"^(\w+ \([\w.]+\)).*?\.\.\. (ok|FAIL|ERROR|skipped|expected failure|unexpected success)", re.MULTILINE | re.DOTALL
)

Run = Callable[[dict[str, str], list[str]], Outcomes]
"""Runs a suite with these variables of the environment, and these arguments of Python before its own."""


def outcomes_of_module(module: str, environment: dict[str, str], tracer: list[str]) -> Outcomes:
    """Return the outcome of each test of a module of CPython's tests."""
    command = [sys.executable, *tracer, "-m", "unittest", "-v", f"test.{module}"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
        )
    found = dict(_OUTCOME.findall(done.stderr))
    if not found:
        raise RuntimeError(f"no test of {module} was seen to run:\n{done.stderr[-1000:]}")
    if done.returncode < 0:
        found[f"{module} as a whole"] = f"exit status {done.returncode}"
    return found


def differences(run: Run, trace: Path, attempts: int = 3) -> tuple[int, list[str]]:
    """Return how many tests a suite has, and those whose outcome always differs when it is recorded to a trace."""
    environment = {name: value for name, value in os.environ.items() if name not in ("FXTIO", "PYTHONSAFEPATH")}
    tracer = ["-m", "fxtio", "run", "-q", "-o", str(trace)]
    left: dict[str, str] = {}
    plain: Outcomes = {}
    for attempt in range(attempts):
        plain, traced = run(environment, []), run(environment, tracer)
        seen = {
            name: f"{name}: {plain.get(name, 'missing')}, recorded {traced.get(name, 'missing')}"
            for name in plain.keys() | traced.keys()
            if plain.get(name) != traced.get(name) and not any(part in name for part in EXCUSED)
        }
        left = seen if attempt == 0 else {name: text for name, text in seen.items() if name in left}
        if not left:
            break
    return len(plain), sorted(left.values())


def suite(name: str, folder: Path) -> Run | None:
    """Return what runs the tests of a package, or of a module of CPython's tests, None if that is missing here."""
    if name in PACKAGES:
        return Suite(name, folder).outcomes
    return partial(outcomes_of_module, name) if find_spec(f"test.{name}") else None


def compare(names: tuple[str, ...]) -> int:
    """Compare suites; print what differs, and return how many tests do."""
    count = 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            run = suite(name, Path(folder))
            if run is None:
                print(f"{name}: not in this build of Python")
                continue
            tests, found = differences(run, Path(folder, "outside.fxt"))
        print(f"{name}: {tests} tests, {len(found)} differ", flush=True)
        for text in found:
            print(f"  {text}")
        count += len(found)
    return count


def main() -> int:
    """Compare the suites that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="modules of CPython's tests, and packages (all that are listed)")
    parser.add_argument("--small", action="store_true", help="only those that CI runs")
    options = parser.parse_args()
    return int(compare(tuple(options.names) or (SMALL if options.small else (*ALL, *PACKAGES))) > 0)


if __name__ == "__main__":
    sys.exit(main())
