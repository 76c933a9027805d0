"""The command `fxtio lake`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

import fxtio
from fxtio import synth
from fxtio.cli import main
from fxtio.lake import Lake


@pytest.fixture(autouse=True)
def _traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, events in (("a", 500), ("b", 900)):
        synth.write(f"{name}.fxt", "program", events=events)


def run(*arguments: str) -> int:
    try:
        return main(["lake", *arguments])
    except SystemExit as error:
        return int(str(error.code))


def test_from_adding_to_removing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("add", "x.lake", "a.fxt", "b.fxt", "--label", "build=1", "-j", "1") == 0
    assert capsys.readouterr().err == "fxtio: added 2 traces to x.lake\n"
    assert run("add", "x.lake", "a.fxt", "missing", "-j", "1") == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("fxtio: missing is left out: ")
    assert said[1] == "fxtio: added 0 traces to x.lake, 1 there already, 1 left out"
    assert run("ls", "x.lake") == 0
    listed = capsys.readouterr().out.splitlines()
    assert listed[0].split() == ["id", "start", "(UTC)", "duration", "slices", "program", "labels"]
    assert len(listed) == 3
    assert all(line.endswith("build=1") for line in listed[1:])
    assert run("ls", "x.lake", "-n", "1", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (len(found["traces"]), found["more"]) == (1, 1)
    assert run("drop", "x.lake", found["traces"][0]["id"]) == 0
    assert capsys.readouterr().err == "fxtio: removed 1 trace from x.lake\n"
    assert len(Lake("x.lake").ids()) == 1
    assert run("drop", "x.lake", "--older", "1d", "--where", "program=nothing") == 0
    assert capsys.readouterr().err == "fxtio: removed 0 traces from x.lake\n"


def test_damaged_files_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    run("add", "x.lake", "a.fxt", "b.fxt", "-j", "1")
    path = next(Path("x.lake/slices").rglob("*.parquet"))
    path.write_bytes(b"")
    capsys.readouterr()
    assert run("top", "x.lake") == 0
    assert f"1 file damaged or missing, and left out: slices of {path.stem}; " in capsys.readouterr().err
    assert run("add", "x.lake", "a.fxt", "b.fxt", "-j", "1") == 0
    assert capsys.readouterr().err == "fxtio: added 1 trace to x.lake, 1 there already\n"


def test_questions(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SHA", "1a2b")
    assert run("add", "x.lake", ".", "--label-ci", "-j", "1") == 0  # all but the lake itself
    capsys.readouterr()
    assert run("top", "x.lake", "-n", "2", "--where", "label:commit=1a2b") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["calls", "self", "total", "median", "p99", "max", "name"]
    assert lines[3].startswith("and ")
    assert run("top", "x.lake", "--by", "label:commit", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["key"] for row in found["rows"]] == ["1a2b"]
    assert run("top", "x.lake", "--by", "label:other") == 0
    assert capsys.readouterr().out.rstrip().endswith("(none)")
    assert run("top", "x.lake", "--where", "name=nothing") == 0
    assert capsys.readouterr().err == "fxtio: x.lake has no such slices\n"
    assert run("sql", "x.lake", "select count(*) as traces from traces", "--csv") == 0
    assert capsys.readouterr().out == "traces\n2\n"
    assert run("sql", "x.lake", "select 1 as x", "-o", "x.json") == 0
    assert json.loads(Path("x.json").read_text()) == [{"x": 1}]


@pytest.mark.parametrize(
    "arguments",
    ["x.lake a.fxt b.fxt -j 1", "x.lake a.fxt -j 1 b.fxt", "x.lake -j 1 a.fxt b.fxt", "-j 1 x.lake a.fxt b.fxt"],
)
def test_options_may_be_between_other_arguments(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("add", *arguments.split()) == 0
    assert capsys.readouterr().err == "fxtio: added 2 traces to x.lake\n"
    for words in ("find x.lake --longer 1us query", "worst x.lake --sort p99 query", "sql x.lake --csv SQL"):
        assert run(*(word.replace("SQL", "select 1") for word in words.split())) == 0, words
        assert capsys.readouterr().err == "", words
    assert run("export", "x.lake", "--to", "hudi", "tables") == 2
    assert "argument --to: invalid choice" in capsys.readouterr().err
    assert run("find", "x.lake", "--longre", "1us", "query") == 2
    said = capsys.readouterr().err
    assert "unrecognized arguments: --longre " in said  # then what argparse takes for its value, by version
    assert said.endswith("; did you mean --longer?\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: ACTION"),
        (["ls", "missing.lake"], "missing.lake is not a lake"),
        (["add", "x.lake", "a.fxt", "--label", "x"], "the label 'x' is not of the form NAME=VALUE"),
        (["add", "x.lake", "a.fxt", "-j", "0"], "argument -j/--jobs"),
        (["drop", "y.lake", "123"], "y.lake has no trace 123"),
        (["drop", "y.lake"], "name the traces to remove, or say --older"),
        (["drop", "y.lake", "123", "--where", "program=x"], "name the traces to remove, or say --older"),
        (["drop", "y.lake", "--older", "1"], "'1' is not a time such as 7d"),
        (["top", "y.lake", "--by", "color"], "'color' is not a key"),
        (["diff", "y.lake", "--by", "name", "a", "b"], "'name' is a key of slices, not of traces"),
        (["find", "y.lake", "--arg", "n"], "'n' is not a condition"),
        (["top", "y.lake", "--sort", "color"], "'color' is not a column"),
        (["top", "y.lake", "--since", "1"], "'1' is not a time such as 7d"),
        (["export", "y.lake", "--to", "delta", "tables"], "delta takes no target"),
        (["sql", "y.lake", "select * from nothing"], "Table with name nothing does not exist!"),
        (["sql", "y.lake", "select 1", "-o", "x.txt"], "x.txt: the ending must be .parquet, .csv or .json"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Lake("y.lake", create=True)
    assert run(*arguments) == 2
    assert message in capsys.readouterr().err


# ---- What the answers print.

MS = 10**6


def write(name: str, slices: Sequence[tuple[str, int]], *, thread: str = "main", day: int = 0, **labels: str) -> str:
    with fxtio.create(name, format="fxt", wall_clock=(1_790_000_000 + 86_400 * day) * 10**9) as writer:
        track = writer.thread(7, 8, thread, "app")
        if labels:
            writer.main.kernel_object(17, 2**64 - 1, "labels", labels)
        other, now = writer.thread(7, 9, "other", "app"), 1_000
        for text, duration in slices:
            track.complete(text, now, now + duration)
            other.complete(text, now + 500, now + 500 + duration * 2)
            now += duration * 2 + 1_000
    return name


@pytest.fixture
def runs() -> str:
    """Return a lake of eighteen runs of two builds, of which the second is slower."""
    for build, factor in (("1", 10), ("2", 15)):
        for number in range(9):
            slices = [("it's\x1b[1m", factor * MS + number), ("draw", 3 * MS + number)]
            write(f"{build}{number}.fxt", slices, day=number, build=build)
    assert run("add", "x.lake", *(f"{build}{number}.fxt" for build in "12" for number in range(9)), "-j", "1") == 0
    return "x.lake"


def suggested(capsys: pytest.CaptureFixture[str]) -> list[str]:
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "to see it: " in line)
    return shlex.split(line.partition("to see it: ")[2])


def test_found_slices(runs: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run("find", runs, "it's*", "--longer", "25ms", "--where", "thread=other", "-n", "2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["time", "(UTC)", "duration", "thread", "process", "name", "trace"]
    assert lines[1].startswith("2026-09-29 14:13:20.000001   30.0 ms  other   app      it's\\x1b[1m  ")
    assert lines[3:] == ["and 7 more (-n all)"]
    assert run("find", runs, "--shorter", "5ms", "--sort", "time", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["order"], found["more"], len(found["rows"])) == ("time", 0, 18)
    assert found["rows"][0]["url"] in {str(Path(f"{build}0.fxt").absolute()) for build in "12"}
    assert run("find", runs, "nothing") == 0
    assert capsys.readouterr().err == "fxtio: x.lake has no such slices\n"


def test_the_worst(runs: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run("worst", runs, "draw", "-n", "1") == 0
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(lines[0].split()) == "longest p99 total of trace calls trace start (UTC) program labels"
    assert lines[1].startswith("6.00 ms  6.00 ms  9.00 ms   ")
    assert lines[1].split()[-2:] in (["app", "build=1"], ["app", "build=2"])
    assert lines[2] == "and 17 more (-n all)"
    assert run("worst", runs, "--sort", "duration", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"][0]["labels"] == {"build": "2"}


def test_suggestions(runs: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The command shows the slowest one, in the trace as it was added."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    worst = str(Path("28.fxt").absolute())
    assert run("find", runs, "draw", "--where", "label:build=2") == 0
    assert suggested(capsys) == ["fxtio", "open", worst, "--select=draw"]
    assert run("worst", runs, "draw", "--where", "label:build=2", "--where", "thread=main") == 0
    at = 1_000 + (15 * MS + 8) * 2 + 1_000  # when the first event is at 1 us
    assert suggested(capsys) == ["fxtio", "open", worst, "--select=draw", f"--at={(at - 1_000) / 1e9}s"]
    assert run("top", runs, "--where", "name=draw", "--by", "label:build", "--sort", "max", "-n", "1") == 0
    assert suggested(capsys)[1:3] == ["open", str(Path("18.fxt").absolute())]  # the first of two that are as slow
    Path("28.fxt").write_bytes(b"something else")
    assert run("find", runs, "draw", "--where", "label:build=2") == 0
    said = capsys.readouterr().err
    assert said == f"fxtio: the trace with the slowest one is no longer {worst}\n"


@pytest.mark.parametrize("command", ["top", "validate"])
def test_a_lake_is_no_trace(command: str, runs: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main([command, runs]) == 2
    assert capsys.readouterr().err == f"fxtio: {runs} is a lake of traces; `fxtio lake top`, `find` and so on ask it\n"


def test_differences(runs: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run("diff", runs, "1", "2", "--by", "label:build", "--last", "8") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "label:build: 1 (8 runs of 9) against 2 (8 runs of 9)"
    assert lines[3].startswith("it's\\x1b[1m  slower")
    assert run("diff", runs, "1", "2", "--by", "label:build", "--json", "--all", "--self") == 1
    found = json.loads(capsys.readouterr().out)
    assert {row["name"]: row["change"] for row in found["differences"]} == {"it's\x1b[1m": "slower", "draw": "same"}
    assert (found["runs"], len(found["before"]["traces"]), found["after"]["more"]) == ([9, 9], 9, 0)
    assert run("diff", runs, "1", "2", "--by", "label:build", "--where", "name=draw") == 0
    assert run("diff", runs, "2026-09-2[1]", "2026-09-2?", "--by", "day") == 2
    assert "has no trace with day=2026-09-2[1] to compare with" in capsys.readouterr().err
    assert run("diff", runs, "main", "other", "--by", "thread") == 2
    assert "'thread' is a key of slices, not of traces" in capsys.readouterr().err


def test_checks(runs: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`fxtio check` takes the latest runs of the same program as its baseline."""
    capsys.readouterr()
    first, second = ([f"{build}{number}.fxt" for number in range(9)] for build in "12")
    options = ["--baseline", runs, "--last", "9", "--where", "label:build=1"]
    assert main(["check", *second, *options]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith("FAILED it's\\x1b[1m (+5%,1ms): +50.0% for the mean call, ")
    assert lines[-1] == "2 checked, 1 failed"
    new = [write(f"new{number}.fxt", [("it's\x1b[1m", 10 * MS + number), ("draw", 3 * MS)]) for number in range(9)]
    assert main(["check", *new, *options]) == 0
    assert capsys.readouterr().out == "2 checked, 0 failed\n"
    assert main(["check", *new, *options, "--report", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found["baseline"]] == [str(Path(each).absolute()) for each in first[::-1]]
    assert main(["check", *first, *options]) == 2  # nothing is left to compare with
    assert "has no trace with program=app and label:build=1 to compare with" in capsys.readouterr().err
    assert main(["check", "a.fxt", "--baseline", "b.fxt", "--where", "host=x"]) == 2
    assert "--where chooses runs of a lake" in capsys.readouterr().err
    assert main(["check", "a.fxt", "--baseline", runs, "b.fxt"]) == 2
    assert "a lake is the whole baseline" in capsys.readouterr().err


def test_what_is_in_it(runs: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run("info", runs) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    rows = dict(line.split(None, 1) for line in lines)
    assert first.strip() == "x.lake"
    assert rows["traces"].startswith("18, ")
    assert rows["programs"] == "app (18)"
    assert rows["label"].split(None, 1) == ["build", "1 (9), 2 (9)"]
    assert rows["began"].endswith("to 2026-09-29 14:13:20.000000 (UTC), on 9 days")
    assert run("info", runs, "--where", "label:build=1", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["traces"], found["labels"]) == (9, {"build": {"count": 1, "traces": {"1": 9}}})
