"""Tests of `fxtio run`: a script has the same environment as under `python`, and filters match files by any path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

import fxtio
from support.limits import PATIENCE

pytestmark = pytest.mark.recorder

PRINT = "import sys; print(__file__, sys._getframe().f_code.co_filename, sys.argv, sys.path[0], __name__)\n"
PROGRAM = "import sub.inner\ndef outer(): return sub.inner.inner()\nfor _ in range(3): outer()\n"
RUN = [sys.executable, "-m", "fxtio", "run", "-q", "-o", "out.fxt"]


def printed(folder: Path, *command: str) -> str:
    main = folder / "main.py"
    standard_input = main.read_text("utf-8") if main.exists() else ""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    child = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=environment,
        input=standard_input,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "inner.py").write_text("def inner(): pass\n", encoding="utf-8")
    (tmp_path / "sub" / "real.py").write_text(PRINT, encoding="utf-8")
    (tmp_path / "link.py").symlink_to(Path("sub", "real.py"))
    (tmp_path / "app.py").write_text(PROGRAM, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("script", ["sub/real.py", "./sub/real.py", "link.py", "sub/../link.py"])
def test_script_has_the_environment_of_python(script: str, folder: Path) -> None:
    assert printed(folder, *RUN, script, "--its", "own") == printed(folder, sys.executable, script, "--its", "own")


@pytest.mark.parametrize("program", [["main.py"], ["-"], ["-c", "import main"], ["-m", "main"]])
def test_the_main_module_is_that_of_python(program: list[str], folder: Path) -> None:
    """`__loader__`, by which `inspect` and `linecache` find the source, is one of its attributes."""
    source = (
        "import __main__ as main, sys\n"
        "loader = main.__loader__\n"
        "print(loader if isinstance(loader, type) else (type(loader), loader.name, loader.path))\n"
        "print(sorted(set(vars(main)) - {'main', 'loader', 'sys'}), getattr(main, '__file__', None))\n"
    )
    (folder / "main.py").write_text(source, encoding="utf-8")
    assert printed(folder, *RUN, *program) == printed(folder, sys.executable, *program)


@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
@pytest.mark.parametrize("program", [["main.py"], ["-"], ["-m", "main"]])
def test_the_annotations_of_the_main_module_are_those_of_python(program: list[str], future: str, folder: Path) -> None:
    source = f"{future}import __main__ as main\nsize: int = 1\nif size:\n    name: str\nprint(main.__annotations__)\n"
    (folder / "main.py").write_text(source, encoding="utf-8")
    expected = printed(folder, sys.executable, *program)
    assert "size" in expected and "name" in expected
    assert printed(folder, *RUN, *program) == expected


@pytest.mark.parametrize("script", ["app.py", "./app.py", "sub/../app.py"])
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("app.py", {"app.<module>", "app.outer"}),
        ("./app.py", {"app.<module>", "app.outer"}),
        ("app", {"app.<module>", "app.outer"}),
        ("sub/", {"sub.inner.<module>", "sub.inner.inner"}),
        ("sub.*", {"sub.inner.<module>", "sub.inner.inner"}),
    ],
)
def test_filter_matches_files_and_modules(script: str, pattern: str, expected: set[str], folder: Path) -> None:
    printed(folder, *RUN, "--include", pattern, script)
    events = fxtio.open(folder / "out.fxt", strict=True).table("events")
    assert set(events.take(events["type"].is_in("duration_begin"))["name"].tolist()) == expected


def test_calls_of_the_tracer_are_not_recorded(folder: Path) -> None:
    (folder / "one.py").write_text("pass\n", encoding="utf-8")
    printed(folder, *RUN, "one.py")
    events = fxtio.open(folder / "out.fxt", strict=True).table("events")
    assert events["name"].tolist() == ["recording", "one.<module>", "one.<module>"]


@pytest.mark.parametrize("options", [[], ["-P"]], ids=["usual", "safe path"])
@pytest.mark.parametrize("name", ["sub", "sub/", "./sub", "app.zip"])
def test_a_folder_or_archive_has_the_environment_of_python(name: str, options: list[str], folder: Path) -> None:
    """Its path is absolute, since the program may change its directory; `-P` leaves it in the path of imports."""
    source = f"{PRINT}import os; os.chdir('/'); import inner; print(len(sys.path), sys.path[1])\n"
    (folder / "sub" / "__main__.py").write_text(source, encoding="utf-8")
    with ZipFile(folder / "app.zip", "w") as archive:
        archive.writestr("__main__.py", source)
        archive.writestr("inner.py", "")
    python = [sys.executable, *options]
    assert printed(folder, *python, *RUN[1:], name, "own") == printed(folder, *python, name, "own")


def test_a_safe_path_has_no_module_of_the_current_folder(folder: Path) -> None:
    command = [sys.executable, "-P", *RUN[1:], "-m", "app"]
    child = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (child.returncode, child.stderr) == (2, "fxtio: No module named app\n")
