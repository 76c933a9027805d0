"""The command `fxtio lake`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
        (["top", "y.lake", "--sort", "color"], "'color' is not a column"),
        (["top", "y.lake", "--since", "1"], "'1' is not a time such as 7d"),
        (["sql", "y.lake", "select * from nothing"], "Table with name nothing does not exist!"),
        (["sql", "y.lake", "select 1", "-o", "x.txt"], "x.txt: the ending must be .parquet, .csv or .json"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Lake("y.lake", create=True)
    assert run(*arguments) == 2
    assert message in capsys.readouterr().err
