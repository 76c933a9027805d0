"""Python processes that a recorded program starts: each becomes a part of the trace, with the same clock."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import PACKAGE
from support.limits import PATIENCE
from support.tracer_check import Seen, check_trace
from support.tracer_run import of_program

pytestmark = pytest.mark.recorder

(START,) = [
    ast.literal_eval(node.value)
    for node in ast.parse((PACKAGE / "_build.py").read_text("utf-8")).body  # importing it takes setuptools
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LINE"
]

FRONT = """\
import multiprocessing, os, subprocess, sys
from concurrent.futures import ProcessPoolExecutor
import fxtio

@fxtio.trace(name="square")
def square(number):
    return number * number
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which Python starts as with an ordinary installation of fxtio."""
    folder = tmp_path / "start"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(START)  # an editable install has no fxtio.pth
    ignored = ("FXTIO", "FXTIO_OPTIONS", "FXTIO_PARENT")
    return {name: value for name, value in os.environ.items() if name not in ignored} | {"PYTHONPATH": str(folder)}


def run(tmp_path: Path, environment: dict[str, str], source: str, *arguments: str) -> str:
    script = tmp_path / "app.py"
    script.write_text(FRONT + source)
    command = [sys.executable, *(arguments or [str(script)])]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert of_program(done.stderr) == []
    return done.stdout


def check_processes(seen: Seen, least: int) -> None:
    """Check that at least so many processes recorded squares within the span of the first one, by the same clock."""
    (whole,) = seen.spans("all")
    squares = seen.spans("square")
    assert len(squares) == 20
    assert all(whole.start < square.start < square.end < whole.end for square in squares)
    processes = {int(seen.tables["events"]["process"][square.row]) for square in squares}
    assert len(processes) >= least
    assert processes < set(seen.names_of("process"))


POOL = """
if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1] if len(sys.argv) > 1 else METHOD)
    with fxtio.tracing(OUT), fxtio.span("all"):
        with POOL as pool:
            print(list(pool.map(square, range(20))))
            CLOSE
"""


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("pool", ["multiprocessing.Pool(2)", "ProcessPoolExecutor(2)"], ids=["Pool", "Executor"])
def test_pools(method: str, pool: str, tmp_path: Path, environment: dict[str, str]) -> None:
    close = "pool.close(); pool.join()" if "Pool(" in pool else "pool.shutdown()"
    source = POOL.replace("METHOD", repr(method)).replace("OUT", repr("out.fxt")).replace("POOL", pool)
    assert run(tmp_path, environment, source.replace("CLOSE", close)) == f"{[n * n for n in range(20)]}\n"
    check_processes(check_trace(tmp_path / "out.fxt"), 1)
    assert not list(tmp_path.glob("*.part"))


def test_programs_that_a_program_starts(tmp_path: Path, environment: dict[str, str]) -> None:
    source = """
if __name__ == "__main__":
    if len(sys.argv) > 1:
        for number in range(5):
            square(number)
    else:
        with fxtio.tracing("out.fxt"), fxtio.span("all"):
            started = [subprocess.Popen([sys.executable, __file__, "inner"]) for _ in range(4)]
            for one in started:
                one.wait()
        print("FXTIO" in os.environ)
"""
    assert run(tmp_path, environment, source) == "False\n"
    check_processes(check_trace(tmp_path / "out.fxt"), 4)


def test_without_children(tmp_path: Path, environment: dict[str, str]) -> None:
    source = """
if __name__ == "__main__":
    with fxtio.tracing("out.fxt", children=False):
        subprocess.run([sys.executable, "-c", "import os; print('FXTIO' in os.environ)"])
"""
    assert run(tmp_path, environment, source) == "False\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app.py", "out.fxt", "start"]


def test_an_environment_records_any_program(tmp_path: Path, environment: dict[str, str]) -> None:
    environment |= {"FXTIO": "out.fxt", "FXTIO_OPTIONS": json.dumps({"functions": True, "include": ["app"]})}
    assert run(tmp_path, environment, "print(square(3))\n") == "9\n"
    assert {"square"} <= {span.name for span in check_trace(tmp_path / "out.fxt").spans()}


def test_a_variable_of_1_records_to_the_default_file(tmp_path: Path, environment: dict[str, str]) -> None:
    assert run(tmp_path, environment | {"FXTIO": "1"}, "print(square(3))\n") == "9\n"
    check_trace(tmp_path / "trace.fxt")
    assert not (tmp_path / "1").exists()


def test_invalid_environment_variables(tmp_path: Path, environment: dict[str, str]) -> None:
    for value, options in (("/nowhere/out.fxt", "{}"), ("out.fxt", "no JSON"), ("out.fxt", '{"ring": "much"}')):
        assert run(tmp_path, environment | {"FXTIO": value, "FXTIO_OPTIONS": options}, "print(square(3))\n") == "9\n"
    assert not (tmp_path / "out.fxt").exists()


def test_a_child_that_becomes_another_program(tmp_path: Path, environment: dict[str, str]) -> None:
    """Its records from before become a part of the trace as well."""
    source = """
if __name__ == "__main__":
    if len(sys.argv) > 1:
        square(2)
    else:
        with fxtio.tracing("out.fxt"), fxtio.span("all"):
            if not os.fork():
                square(1)
                os.execv(sys.executable, [sys.executable, __file__, "again"])
            os.wait()
"""
    run(tmp_path, environment, source)
    assert len(check_trace(tmp_path / "out.fxt").spans("square")) == 2
    assert not list(tmp_path.glob("*.part"))
