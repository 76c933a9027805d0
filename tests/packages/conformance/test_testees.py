"""The programs that the conformance kit judges here: fxtio itself, two programs of the kit, and those of others.

A program that is not installed is skipped, and on CI it is a failure, as for all judges.
"""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import judges
from fxtio.cli import main
from fxtio.conformance import canonical, timeline
from fxtio.conformance.kit import READ, WRITE, read_kit
from fxtio.formats import BUILT_IN
from judges import mono, perfetto, pypi_fxt
from support import uftrace_judge
from support.checkout import CHECKOUT

pytestmark = [pytest.mark.full, pytest.mark.once]

HARNESSES = CHECKOUT / "conformance" / "harness"
RUN_TESTEES = runpy.run_path(str(HARNESSES / "run_testees.py"))
TESTEES: list[dict[str, Any]] = RUN_TESTEES["testees"]()


REQUIRED = {"uftrace": uftrace_judge.REQUIRED, "mprof-report": mono.REQUIRED}
"""Programs that variables of the environment require, besides the CI."""


def needs(program: str) -> Callable[[], str | None]:
    def reason() -> str | None:
        missing = None if shutil.which(program) else f"there is no {program}"
        assert missing is None or not REQUIRED.get(program), missing
        return missing

    return reason


AVAILABLE: dict[str, Callable[[], str | None]] = {
    "fxtio": lambda: None,
    "fxtio, interning": lambda: None,
    "C header of fxtio": needs("cc"),
    "JavaScript reader of the kit": needs("node"),
    "PyPI fxt": pypi_fxt.available,
    "Perfetto trace processor": perfetto.available,
    "mprof-report of Mono 6.8": needs("mprof-report"),
    "uftrace 0.13": needs("uftrace"),
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
    """In exec mode each case starts an interpreter: a valid, a refused and a written trace of each format must do."""
    chosen = {
        (case.format, case.operation, case.is_valid): case.id for case in read_kit(CHECKOUT / "conformance").cases
    }
    assert {key[:2] for key in chosen} == {(name, operation) for name in BUILT_IN for operation in (READ, WRITE)}
    code, report = run(
        TESTEES[0] | {"mode": "exec"}, tmp_path, *(word for case in chosen.values() for word in ("--case", case))
    )
    assert code == 0, capsys.readouterr().out
    assert report["counts"]["pass"] == len(chosen)


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("JavaScript reader of the kit", ["fxt/valid/argument-*", "fxt/invalid/arg.beyond-record"]),
        ("mprof-report of Mono 6.8", ["mono/valid/a*", "mono/valid/c*"]),
        ("uftrace 0.13", ["uftrace/valid/a*", "uftrace/valid/c*"]),
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
    for name, most in {"fxt_reader.mjs": 170, "fxt_harness.c": 310}.items():
        assert (HARNESSES / name).read_text("utf-8").count("\n") < most


@pytest.mark.parametrize(
    ("program", "name", "right", "wrong", "cases", "failing"),
    [
        ("node", "fxt_reader.mjs", "BigInt.asIntN(64,", "BigInt.asUintN(64,", "fxt/valid/argument-int[36]?", "int64"),
        ("uftrace", "uftrace_reader.py", '"idc"', '"dc"', "uftrace/valid/argument-[iu]8", "i8"),
    ],
)
def test_a_testee_that_fails_is_noticed(
    program: str,
    name: str,
    right: str,
    wrong: str,
    cases: str,
    failing: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The positive control: a reader with one defect, which fails the case of this defect and no other."""
    judges.require(needs(program)())
    folder = tmp_path / "harness"
    shutil.copytree(HARNESSES, folder)
    source = (folder / name).read_text("utf-8")
    assert source.count(right) == 1
    (folder / name).write_text(source.replace(right, wrong), "utf-8")
    harness = ["node" if name.endswith(".mjs") else sys.executable, str(folder / name)]
    assert main(["conformance", "run", "--kit", str(CHECKOUT / "conformance"), "--case", cases, "--", *harness]) == 1
    out = capsys.readouterr().out
    assert [line.rpartition("-")[2] for line in out.splitlines() if line.startswith("FAIL ")] == [failing]
    assert " 1 fail" in out
    assert " pass, " in out


NOT_SHOWN = {
    "kernel-cpus": "it shows the number of the file in place of that of the CPU",
    "perf-tasks": "it shows no events of tasks that have no records of their own",
}
"""Scenarios of which uftrace does not show everything, and why."""


@pytest.mark.parametrize(
    "path", sorted((CHECKOUT / "conformance/scenarios/uftrace").glob("*.json")), ids=attrgetter("stem")
)
def test_uftrace_reads_what_scenarios_ask_for(path: Path, tmp_path: Path) -> None:
    judges.require(needs("uftrace")())
    scenario = json.loads(path.read_text("utf-8"))
    directory = tmp_path / "written.data"
    canonical.write(scenario, directory)
    shown = runpy.run_path(str(HARNESSES / "uftrace_reader.py"))["read"](directory)
    for call in shown["calls"]:
        del call["address"]  # the producer chooses it
    differences = timeline.differences("uftrace", scenario["expect"]["records"], shown)
    assert (differences != []) == (path.stem in NOT_SHOWN), differences


def test_the_scoreboard_names_every_testee() -> None:
    text = (CHECKOUT / "docs" / "reference" / "scoreboard.md").read_text("utf-8")
    assert [testee["name"] for testee in TESTEES if f"| {testee['name']} " not in text] == []
