"""Options that make no sense, or that name nothing in the program: they are refused, or reported at the end."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path
from typing import Any

import pytest

import fxtio
from fxtio.cli.parser import parse
from fxtio.tracer.options import Options, size_in_bytes, time_in_ns
from support.tracer_run import fine, run_command
from support.tracer_run import run as run_program

pytestmark = pytest.mark.recorder

PROGRAM = """
import os.path
namespace = {}
exec("def made(): pass", namespace)
def own(): pass
own(); namespace["made"](); os.path.join("a", "b"); os.fsencode("a")
"""


def run(folder: Path, *arguments: str, source: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    (folder / "app.py").write_text(source, encoding="utf-8")
    return run_command(folder, "run", *arguments, "app.py")


def functions_of(path: Path) -> set[str]:
    events = fxtio.open(path, strict=True).table("events")
    return set(events.take(events["type"].is_in("duration_begin"))["name"].tolist())


@pytest.mark.parametrize(
    "options",
    [
        ("--include", "nosuch"),
        ("--include", "app", "--include", "no such.*"),
        ("--include", "./nosuch.py"),
        ("--category", "nosuch"),
        ("--category", "function", "--category", "nosuch"),
    ],
    ids=" ".join,
)
def test_an_option_that_matches_nothing_is_reported(options: tuple[str, ...], tmp_path: Path) -> None:
    done = run(tmp_path, "-q", *options)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    name = options[-1] if "./" not in options[-1] else str(tmp_path / "nosuch.py")
    assert line.startswith(f"fxtio: nothing in the program matches {options[-2]} ")
    assert line.rstrip("'").endswith(name)


@pytest.mark.parametrize(
    "options",
    [
        ("--include", "app", "--include", "app.py", "--include", "ap*", "--exclude", "nosuch"),
        ("--category", "function"),
        ("--category=-nosuch",),
    ],
    ids=" ".join,
)
def test_an_option_that_matches_something_is_not_reported(options: tuple[str, ...], tmp_path: Path) -> None:
    """Nor one that leaves out what is not there: it does no harm."""
    done = run(tmp_path, "-q", *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert "app.own" in functions_of(tmp_path / "trace.fxt")


def test_the_summary_has_what_matched_nothing(out: Path) -> None:
    printed = fine(
        """
        fxtio.start(OUT, functions=True, include=["nosuch", "json"], categories=["function", "none"])
        import json
        json.dumps(1)
        print(fxtio.stop().unmatched)
        """,
        out,
    )
    assert printed == "(('include', 'nosuch'), ('category', 'none'))\n"


def test_a_child_may_match_what_its_parent_does_not(tmp_path: Path) -> None:
    source = "import os\nif not os.fork():\n    import json\n    json.dumps(1)\n    os._exit(0)\nos.wait()\n"
    done = run(tmp_path, "-q", "--include", "json", source=source)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--max-depth", "-1"), "the greatest depth is -1"),
        (
            ("--max-depth", str(2**32)),
            "the greatest depth is 4294967296; it is from 1 to 4,294,967,295, or 0",
        ),
        (("--min-duration", "1"), "'1' is not a time such as 10us: its unit is missing, one of ns, us, "),
        (("--dump-on", "slow:100"), "'100' is not a time such as 10us: its unit is missing, one of ns, us, "),
        (("--source", "process:50"), "'50' is not a time such as 10us: its unit is missing, one of ns, us, "),
        (("-o", "s3://bucket/x.fxt"), "s3://bucket/x.fxt: a recording cannot be written to a URL"),
        (("-o", "x.json"), "x.json is named like a trace in the format chrome"),
        (("-o", "x.json.gz"), "x.json.gz is named like a trace in the format chrome"),
        (("-o", "x.mlpd"), "x.mlpd is named like a trace in the format mono"),
    ],
    ids=str,
)
def test_an_option_that_makes_no_sense_is_refused(options: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    done = run(tmp_path, *options, source="print('runs')")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"fxtio: {reason}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app.py"]


WRONG: dict[str, list[Any]] = {
    "output": [True, None, 3, 2.5, b"x", [], object()],
    **{name: [None, 1, "yes", [], object()] for name in ("functions", "c_functions", "children")},
    "max_depth": [True, None, 2.5, "1", math.nan, []],
    "min_duration": [True, None, 2.5, b"1us", []],
    "max_size": [True, None, 2.5, b"1GB", []],
    "ring": [True, 2.5, b"1MB", [], {}],
}


@pytest.mark.parametrize("name", Options._fields)
def test_an_option_of_a_wrong_type_is_refused(name: str, out: Path) -> None:
    """Before anything is written, with its name and what it should be; a `with` block refuses it as well."""
    for value in WRONG.get(name, [True, None, 3, 2.5, b"x", [1], [None], ["x", b"y"], object()]):
        options = {"output": out, name: value}
        for begin in (fxtio.start, fxtio.tracing):
            with pytest.raises(TypeError, match=rf"^(each of )?{name} is an? \w+|{name} is True or False, not \w+"):
                begin(**options)
        with pytest.raises(TypeError, match=name), fxtio.tracing(**options):
            pytest.fail("it runs")
    assert fxtio.stop() is None
    assert not list(out.parent.iterdir())


@pytest.mark.parametrize("name", ["x", "x.fxt", "x.fxt.gz", "x.trace", "x.fxt.part"])
def test_other_names_of_traces_are_accepted(name: str, tmp_path: Path) -> None:
    assert run(tmp_path, "-q", "-o", name).returncode == 0
    assert "app.own" in functions_of(tmp_path / name)


@pytest.mark.parametrize("command", ["run --min-duration", "convert --min-duration", "find f --longer"])
def test_a_time_without_a_unit_is_refused_by_all_commands(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["app.py"] if "run" in command else [] if "find" in command else ["x.fxt", "y.fxt"]
    for text, ns in (("10us", 10_000), ("1.5ms", 1_500_000), ("2 s", 2_000_000_000), ("0", 0)):
        words = [*command.split(), text, *files]
        options = parse(words)
        value = getattr(options, "longer" if "longer" in command else "min_duration")
        assert (time_in_ns(value) if "run" in command else value) == ns
    if "run" in command:
        with pytest.raises(ValueError, match="its unit is missing"):
            time_in_ns("1")
    else:
        with pytest.raises(SystemExit):
            parse([*command.split(), "1", *files])
        assert "'1' has no unit; write" in capsys.readouterr().err


def test_a_folder_has_no_functions_without_a_file(tmp_path: Path) -> None:
    """Frozen modules of the standard library have files elsewhere, and code from `exec` has none."""
    for where in ("./", "."):
        assert run(tmp_path, "-q", "--include", where if "/" in where else str(tmp_path)).returncode == 0
        assert functions_of(tmp_path / "trace.fxt") == {"app.<module>", "app.own"}


def test_frozen_modules_are_files_of_the_standard_library(tmp_path: Path) -> None:
    library = str(Path(subprocess.__file__).parent)
    assert run(tmp_path, "-q", "--exclude", f"{library}/").returncode == 0
    assert functions_of(tmp_path / "trace.fxt") == {"app.<module>", "app.own", "<string>.made", "<string>.<module>"}
    assert run(tmp_path, "-q", "--include", f"{library}/os.py").returncode == 0
    assert functions_of(tmp_path / "trace.fxt") == {"os._fscodec.<locals>.fsencode"}


def test_a_recording_within_another_one_says_so_once(tmp_path: Path) -> None:
    source = """
import fxtio
for name in ("inner.fxt", "inner.fxt", "other.fxt"):
    with fxtio.tracing(name):
        fxtio.instant("here")
"""
    done = run(tmp_path, "-q", "--spans-only", source=source)
    assert done.stderr.splitlines() == [
        f"fxtio: tracing('{name}'): a recording runs already; events go to trace.fxt, and {name} is not written"
        for name in ("inner.fxt", "other.fxt")
    ]
    events = fxtio.open(tmp_path / "trace.fxt", strict=True).table("events")
    assert events["name"].tolist().count("here") == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app.py", "trace.fxt"]


def test_a_recording_that_is_named_like_another_format_is_refused_everywhere(tmp_path: Path) -> None:
    """Not only by `fxtio run`; a suffix that means nothing is a name like any other."""
    for name, other in (("x.json", "chrome"), ("x.mlpd.gz", "mono")):
        refused = f"{name} is named like a trace in the format {other}"
        with pytest.raises(ValueError, match=refused):
            fxtio.start(tmp_path / name)
        with pytest.raises(ValueError, match=refused), fxtio.tracing(tmp_path / name):
            pass
        done = run_command(tmp_path, "attach", "-o", name, "1")
        assert refused in done.stderr
        assert done.returncode == 2
    assert not list(tmp_path.iterdir())
    with fxtio.tracing(tmp_path / "x.trace"):
        pass
    assert fxtio.open(tmp_path / "x.trace", strict=True).info.records


@pytest.mark.parametrize("children", [True, False])
def test_a_program_goes_on_to_wait(children: bool, out: Path) -> None:
    """What it starts after a recording can be attached to as well."""
    source = f"""
    import os
    os.environ["FXTIO"] = "wait"
    with fxtio.tracing(OUT, children={children}):
        print(os.environ["FXTIO"] == OUT)
    print(os.environ["FXTIO"], "FXTIO_PARENT" in os.environ, "FXTIO_OPTIONS" in os.environ)
    with fxtio.tracing(OUT, children={children}):
        del os.environ["FXTIO"]
    print("FXTIO" in os.environ)
    """
    assert fine(source, out) == f"{children}\nwait False False\nFalse\n"


@pytest.mark.parametrize("text", ["9" * 400 + "s", "99999999999999999 s", "9" * 30, 1 << 60])
def test_a_time_or_size_that_is_too_large_is_refused(text: str | int) -> None:
    time = f"{text}ns" if str(text).isdigit() and isinstance(text, str) else text
    with pytest.raises(ValueError, match="is too large for a time such as 10us"):
        time_in_ns(time)
    if not str(text).endswith("s"):
        with pytest.raises(ValueError, match="is too large for a size such as 64MiB"):
            size_in_bytes(text)


def test_a_time_is_no_float(out: Path) -> None:
    with pytest.raises(TypeError, match=r"^min_duration is a text with a unit, or an integer, not float$"):
        fxtio.start(out, min_duration=0.001)
    assert not out.exists()


@pytest.mark.recorder
def test_a_recording_for_which_there_is_no_memory_keeps_no_file_open(out: Path) -> None:
    source = """
    import os
    def count(): return len(os.listdir("/dev/fd"))
    before = count()
    for _ in range(3):
        try:
            fxtio.start(OUT, ring=1 << 59)
        except OSError:
            pass
    print(count() - before)
    with fxtio.tracing(OUT):
        fxtio.instant("recorded")
    """
    assert fine(source, out) == "0\n"
    assert "recorded" in fxtio.open(out, strict=True).table("events")["name"].tolist()


@pytest.mark.recorder
def test_a_block_during_the_start_of_a_recording_says_that_it_is_not_recorded(out: Path) -> None:
    source = """
    from fxtio.tracer import session
    session._process.starting.acquire()
    with fxtio.tracing("block.fxt"):
        fxtio.instant("here")
    session._process.starting.release()
    """
    done = run_program(source, out)
    assert done.returncode == 0
    assert done.stderr == "fxtio: tracing('block.fxt'): nothing is recorded: a recording is being started\n"
