"""What a recording costs a program at its start: the modules that are imported for it."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

import fxtio
from fxtio.fxt.records import Initialization

pytestmark = pytest.mark.recorder

ROOT = Path(fxtio.__file__).parents[1]

MAX_MODULES = 99
"""Modules that a recorded program has, and that plain Python has not, a third of them of fxtio."""

HEAVY = frozenset(
    {
        "argparse",
        "ast",
        "asyncio",
        "dataclasses",
        "decimal",
        "inspect",
        "json",
        "logging",
        "msgspec",
        "numpy",
        "shutil",
        "signal",
        "subprocess",
        "tempfile",
        "unittest",
        "fxtio.cli.console",
        "fxtio.cli.inputs",
        "fxtio.codec",
        "fxtio.formats",
        "fxtio.fxt.layout",
        "fxtio.fxt.records",
        "fxtio.io",
        "fxtio.tracer.recovery",
    }
)

SHOW = "import sys; print(*sys.modules)"

BASE = "import annotationlib; " if sys.version_info >= (3, 14) else ""
"""What every named tuple with types imports from CPython 3.14 on, in 2 ms."""


def modules_of(*arguments: str) -> set[str]:
    """Return the modules that a program has which prints them, in a Python without the packages of its environment."""
    child = subprocess.run([sys.executable, "-I", "-S", *arguments], capture_output=True, text=True, check=True)
    return set(child.stdout.split())


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules that a recording adds."""
    output = tmp_path_factory.mktemp("start") / "app.fxt"
    run = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from fxtio.cli import main; "
    command = ["run", "-q", "-o", str(output), "-c", SHOW]
    modules = modules_of("-c", f"{run}main({command!r})") - modules_of("-c", BASE + SHOW)
    assert output.exists()
    return modules


def test_nothing_heavy_is_imported_for_a_recording(added: set[str]) -> None:
    assert "fxtio.tracer.recording" in added
    assert added & HEAVY == set()


def test_few_modules_are_imported_for_a_recording(added: set[str]) -> None:
    assert len(added) <= MAX_MODULES, sorted(added)


def test_the_end_of_a_recording_imports_nothing(tmp_path: Path) -> None:
    """When the interpreter ends, the program may have changed its user or root folder, and could import nothing."""
    output = tmp_path / "app.fxt"
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import fxtio.tracer; "
        f"recording = fxtio.start({str(output)!r}); before = set(sys.modules); "
        "fxtio.stop(); print(*sys.modules.keys() - before)"
    )
    assert modules_of("-c", program) == set()


@pytest.mark.parametrize("suffix", ["gz", "xz", "zst"])
def test_the_end_of_a_compressed_recording_imports_nothing(suffix: str, tmp_path: Path) -> None:
    program = (
        f"import sys, fxtio; fxtio.start({str(tmp_path / 'app.fxt')!r} + '.{suffix}'); before = set(sys.modules); "
        "fxtio.stop(); print(*sys.modules.keys() - before)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_decorating_is_not_recorded(tmp_path: Path) -> None:
    """What is imported for it is not, nor what is called."""
    output = tmp_path / "app.fxt"
    script = "import fxtio\n@fxtio.trace\ndef work(): ...\nwork()\n"
    subprocess.run(
        [sys.executable, "-m", "fxtio", "run", "-q", "-o", str(output), "-c", script], check=True, cwd=tmp_path
    )
    events = fxtio.open(output).table("events")
    names = {str(name) for name in events["name"]}
    assert "work" in names
    assert not {name for name in names if name.startswith(("inspect.", "dis.", "ast.", "collections."))}


def test_flags_of_code_are_those_of_inspect() -> None:
    """They are known to the tracer, since importing `inspect` takes long."""
    from fxtio.tracer import decorate, interrupts

    assert (decorate._NESTED, interrupts._VARARGS) == (inspect.CO_NESTED, inspect.CO_VARARGS)


@pytest.mark.parametrize("now", [0, 10**19])
def test_the_program_has_another_clock(now: int, tmp_path: Path) -> None:
    """As in a test of its own, where time stands still."""
    with patch("time.monotonic_ns", return_value=now), patch("time.sleep"), fxtio.tracing(tmp_path / "app.fxt"):
        fxtio.instant("here")
    rates = [
        record.ticks_per_second for record in fxtio.open(tmp_path / "app.fxt") if isinstance(record, Initialization)
    ]
    assert rates[0] >= 1_000_000
