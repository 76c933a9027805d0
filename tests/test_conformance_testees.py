"""The programs that the conformance kit judges here: fxtio itself, two programs of the kit, and those of others.

A program that is not installed is skipped, and on CI it is a failure, as for all judges.
"""

from __future__ import annotations

import json
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import judges
from fxtio.cli import main
from judges import perfetto, pypi_fxt
from support.checkout import CHECKOUT

pytestmark = pytest.mark.once

HARNESSES = CHECKOUT / "conformance" / "harness"
RUN_TESTEES = runpy.run_path(str(HARNESSES / "run_testees.py"))
TESTEES: list[dict[str, Any]] = RUN_TESTEES["testees"]()


def needs(program: str) -> Callable[[], str | None]:
    return lambda: None if shutil.which(program) else f"there is no {program}"


AVAILABLE: dict[str, Callable[[], str | None]] = {
    "fxtio": lambda: None,
    "C producer of the kit": needs("cc"),
    "JavaScript reader of the kit": needs("node"),
    "PyPI fxt": pypi_fxt.available,
    "Perfetto trace processor": perfetto.available,
    "mprof-report of Mono 6.8": needs("mprof-report"),
}


def run(testee: dict[str, Any], folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Run a testee; return the exit code and the JSON report."""
    judges.require(AVAILABLE[testee["name"]]())
    report = folder / "report.json"
    action, *words = RUN_TESTEES["arguments"](testee, folder)
    code = main(["conformance", action, "--report", "json", "-o", str(report), *options, *words])
    content: dict[str, Any] = json.loads(report.read_text("utf-8"))
    return code, content


def test_every_testee_is_here() -> None:
    assert {testee["name"] for testee in TESTEES} == {*AVAILABLE}


@pytest.mark.parametrize("testee", TESTEES, ids=lambda testee: testee["name"])
def test_testee(testee: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = run(testee, tmp_path)
    assert code == 0, capsys.readouterr().out
    assert report["counts"]["pass"] > 20


def test_fxtio_in_the_other_mode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In exec mode each case starts an interpreter, so a part of the cases has to do."""
    testee = TESTEES[0] | {"mode": "exec"}
    code, report = run(testee, tmp_path, "--case", "fxt/stories/*", "--case", "fxt/exact-*")
    assert code == 0, capsys.readouterr().out
    assert report["counts"]["pass"] > 20


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("JavaScript reader of the kit", ["fxt/valid/argument-*", "fxt/invalid/arg.beyond-record"]),
        ("mprof-report of Mono 6.8", ["mono/valid/a*", "mono/valid/c*"]),
    ],
)
def test_readers_in_exec_mode(name: str, cases: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The list of testees has them in serve mode, in which one process reads all cases."""
    testee = next(testee for testee in TESTEES if testee["name"] == name)
    assert testee["mode"] == "serve"
    code, report = run(testee | {"mode": "exec"}, tmp_path, *(word for case in cases for word in ("--case", case)))
    assert code == 0, capsys.readouterr().out
    assert report["counts"]["pass"] > 5


def test_the_testees_of_the_kit_are_short() -> None:
    for name in ("fxt_reader.mjs", "fxt_writer.c"):
        assert (HARNESSES / name).read_text("utf-8").count("\n") < 170


def test_a_testee_that_fails_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The positive control: the same reader with one defect."""
    judges.require(needs("node")())
    source = (HARNESSES / "fxt_reader.mjs").read_text("utf-8")
    assert source.count("BigInt.asIntN(64,") == 1
    broken = tmp_path / "broken.mjs"
    broken.write_text(source.replace("BigInt.asIntN(64,", "BigInt.asUintN(64,"), "utf-8")
    words = ["--kit", str(CHECKOUT / "conformance"), "--case", "fxt/valid/argument-int*", "--", "node", str(broken)]
    assert main(["conformance", "run", *words]) == 1
    out = capsys.readouterr().out
    assert "FAIL  read fxt/valid/argument-int64\n" in out
    assert "fxt/valid/argument-int32" not in out


def test_the_scoreboard_names_every_testee() -> None:
    text = (CHECKOUT / "docs" / "reference" / "scoreboard.md").read_text("utf-8")
    assert [testee["name"] for testee in TESTEES if f"| {testee['name']} " not in text] == []
