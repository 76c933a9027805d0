"""Runs test suites of others with and without the tracer, and compares the outcome of each of their tests.

    python tests/outside/compare.py                    # all of the modules below; some minutes
    python tests/outside/compare.py test_json test_re  # these
    python tests/outside/compare.py --small            # those that CI runs

The suites are modules of CPython's own tests, which come with most builds of it.  A test whose outcome differs is run
twice more each way; it is reported if it never has the same outcome.  The exit status is 1 if there is such a test.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

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

Outcomes = dict[str, str]


def outcomes(module: str, trace: Path | None) -> Outcomes:
    """Return the outcome of each test of a module of CPython's tests, recorded to a trace if one is given."""
    tracer = [] if trace is None else ["-m", "fxtio", "run", "-q", "-o", str(trace)]
    command = [sys.executable, *tracer, "-m", "unittest", "-v", f"test.{module}"]
    environment = {name: value for name, value in os.environ.items() if name not in ("FXTIO", "PYTHONSAFEPATH")}
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


def differences(module: str, trace: Path, attempts: int = 3) -> tuple[int, list[str]]:
    """Return how many tests a module has, and those whose outcome always differs when it is recorded."""
    left: dict[str, str] = {}
    plain: Outcomes = {}
    for attempt in range(attempts):
        plain, traced = outcomes(module, None), outcomes(module, trace)
        seen = {
            name: f"{name}: {plain.get(name, 'missing')}, recorded {traced.get(name, 'missing')}"
            for name in plain.keys() | traced.keys()
            if plain.get(name) != traced.get(name) and not any(part in name for part in EXCUSED)
        }
        left = seen if attempt == 0 else {name: text for name, text in seen.items() if name in left}
        if not left:
            break
    return len(plain), sorted(left.values())


def compare(modules: tuple[str, ...]) -> int:
    """Compare modules; print what differs, and return how many tests do."""
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for module in modules:
            if find_spec(f"test.{module}") is None:
                print(f"{module}: not in this build of Python")
                continue
            tests, found = differences(module, Path(folder, "outside.fxt"))
            print(f"{module}: {tests} tests, {len(found)} differ", flush=True)
            for text in found:
                print(f"  {text}")
            count += len(found)
    return count


def main() -> int:
    """Compare the modules that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help="modules of CPython's tests (all of the list above)")
    parser.add_argument("--small", action="store_true", help="only those that CI runs")
    options = parser.parse_args()
    return int(compare(tuple(options.modules) or (SMALL if options.small else ALL)) > 0)


if __name__ == "__main__":
    sys.exit(main())
