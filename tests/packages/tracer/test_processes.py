"""Python processes that a recorded program starts: each becomes a part of the trace, with the same clock."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fxtio
import judges
from judges import perfetto
from support.checkout import PACKAGE
from support.limits import PATIENCE
from support.tracer_check import Seen, check_trace
from support.tracer_run import of_program, search_path

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
    others = {name: value for name, value in os.environ.items() if name not in ignored}
    return others | {"PYTHONPATH": search_path(folder)}


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
    """Check that at least this many processes recorded squares within the span of the first one, by the same clock."""
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


@pytest.mark.parametrize("helper", ["multiprocessing.resource_tracker", "billiard.semaphore_tracker"])
def test_processes_that_help_to_start_others_are_no_part(
    helper: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    """They outlive the program, so that its recording would lack a part when it ends."""
    source = f"""
if __name__ == "__main__":
    read, write = os.pipe()
    with fxtio.tracing("out.fxt"):
        command = [sys.executable, "-c", f"from {helper} import main; main({{read}})"]
        helper = subprocess.Popen(command, pass_fds=[read])
        subprocess.run([sys.executable, "-c", "pass"])
    print(helper.poll(), [name for name in os.listdir() if name.endswith(".part")])
    os.close(write)
    helper.wait()
"""
    assert run(tmp_path, environment, source) == "None []\n"
    names = check_trace(tmp_path / "out.fxt").names_of("process").values()
    assert len(names) == 2


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


def names_in_perfetto(path: Path) -> dict[str, set[str]]:
    """Return the names of processes, with those of their threads, as Perfetto shows them."""
    judges.require(perfetto.available())
    with perfetto.load(path) as p:
        assert p.errors() == {}
        rows = p.query("select p.name as process, t.name as thread from thread t join process p using (upid)")
    names: dict[str, set[str]] = {}
    for row in rows:
        if row["process"] is not None:
            names.setdefault(str(row["process"]), set()).add(str(row["thread"]))
    return names


NAMED = """
if __name__ == "__main__":
    multiprocessing.set_start_method(METHOD)
    with fxtio.tracing("out.fxt"):
        with multiprocessing.Pool(2) as pool:
            pool.map(square, range(20), chunksize=1)
            pool.close()
            pool.join()
        process = multiprocessing.Process(target=square, args=(3,), name="my worker")
        process.start()
        process.join()
"""


@pytest.mark.full
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_the_names_of_multiprocessing(method: str, tmp_path: Path, environment: dict[str, str]) -> None:
    run(tmp_path, environment, NAMED.replace("METHOD", repr(method)))
    kind = {"fork": "Fork", "forkserver": "ForkServer", "spawn": "Spawn"}[method]
    names = names_in_perfetto(tmp_path / "out.fxt")
    assert set(names) == {"app.py", f"{kind}PoolWorker-1", f"{kind}PoolWorker-2", "my worker"}
    assert all("MainThread" in threads for threads in names.values())


@pytest.mark.full
def test_a_process_that_is_killed_has_its_name(tmp_path: Path, environment: dict[str, str]) -> None:
    source = """
def ends():
    square(1)
    os.kill(os.getpid(), 9)

if __name__ == "__main__":
    with fxtio.tracing("out.fxt"):
        process = multiprocessing.get_context("fork").Process(target=ends, name="short")
        process.start()
        process.join()
"""
    run(tmp_path, environment, source)
    assert set(names_in_perfetto(tmp_path / "out.fxt")) == {"app.py", "short"}


@pytest.mark.full
def test_names_of_other_processes(tmp_path: Path, environment: dict[str, str]) -> None:
    """A process has the name of its program; the first thread of a fork has that of the thread that forked."""
    source = """
def fork():
    if not os.fork():
        square(1)
        os._exit(0)
    os.wait()

if __name__ == "__main__":
    import threading
    with fxtio.tracing("out.fxt"):
        fork()
        thread = threading.Thread(target=fork, name="forks")
        thread.start()
        thread.join()
        for words in (["-m", "worker.jobs", "x"], ["-m", "worker"], ["-c", "import worker.__main__"], ["../app2.py"]):
            subprocess.run([sys.executable, *words], cwd="sub", check=True)
"""
    (tmp_path / "sub" / "worker").mkdir(parents=True)
    work = "import fxtio\nfxtio.instant('works')\n"
    for path in ("sub/worker/jobs.py", "sub/worker/__main__.py", "app2.py"):
        (tmp_path / path).write_text(work)
    (tmp_path / "sub" / "worker" / "__init__.py").touch()
    environment |= {"PYTHONWARNINGS": "ignore", "PYTHONSAFEPATH": ""}  # for a fork with several threads, and for -m
    run(tmp_path, environment, source)
    names = names_in_perfetto(tmp_path / "out.fxt")
    assert set(names) == {"app.py", "worker.jobs", "worker", "python -c", "app2.py"}
    assert names["app.py"] == {"MainThread", "forks"}
    with fxtio.open(tmp_path / "out.fxt") as trace:
        args = trace.table("args")
    commands = args.take(args["name"].is_in("command"))["text"].tolist()
    assert f"{sys.executable} -m worker.jobs x" in commands
    assert f"{sys.executable} -c 'import worker.__main__'" in commands


@pytest.mark.full
@pytest.mark.parametrize(
    ("program", "name"),
    [
        (["-m", "package"], "package"),
        (["-m", "package.part"], "package.part"),
        (["package"], "package"),
        (["-c", "1"], "python -c"),
    ],
    ids=str,
)
def test_the_name_of_a_program_that_is_run(program: list[str], name: str, tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    for file in ("__init__", "__main__", "part"):
        (tmp_path / "package" / f"{file}.py").touch()
    command = [sys.executable, "-m", "fxtio", "run", "-q", "-o", "out.fxt", *program]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60, env=os.environ | {"PYTHONSAFEPATH": ""})
    assert set(names_in_perfetto(tmp_path / "out.fxt")) == {name}
