"""Comparisons of recordings of a real program: runs of the same work raise no alarm, a slower function is found.

The recordings of the corpus differ as runs on a busy machine do; those that are made here differ much more than a busy
machine could explain.
"""

from __future__ import annotations

import functools
import itertools
import json
import random
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import fxtio
from fxtio.cli import main
from fxtio.timeline.comparison import Change, Times, compare, run_of
from support.checkout import CORPUS, run_python

pytestmark = pytest.mark.once

RUNS = CORPUS / "runs"
SAME, SLOW = ([*map(str, sorted(RUNS.glob(pattern)))] for pattern in ("same-*", "slow-*"))
AROUND = {"program.answer", "program.<module>"}
"""The functions that call the one that is slower."""


@functools.cache
def times_of(path: str) -> dict[str, Times]:
    with fxtio.open_timeline(path) as timeline:
        return run_of(timeline)


def changes(before: list[str], after: list[str]) -> dict[str, Change]:
    differences = compare([*map(times_of, before)], [*map(times_of, after)]).differences
    return {each.name: each.change for each in differences if each.change.is_sure}


def test_a_program_against_itself_raises_no_alarm() -> None:
    """However 20 runs of the same work are divided into two sides, disturbed ones among them."""
    assert (len(SAME), len(SLOW)) == (20, 10)
    shuffle = random.Random(1)
    for _ in range(20):
        runs = shuffle.sample(SAME, 20)
        assert changes(runs[:10], runs[10:]) == {}


def test_a_program_against_itself_raises_no_alarm_with_one_run_of_each_side() -> None:
    assert [changes([one], [other]) for one, other in itertools.combinations(SAME, 2)] == [{}] * 190


def test_a_slower_function_is_found() -> None:
    shuffle = random.Random(2)
    for _ in range(10):
        found = changes(shuffle.sample(SAME, 10), SLOW)
        assert found.pop("program.search") is Change.SLOWER
        assert {*found} <= AROUND


def test_the_commands_find_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *SAME[:10], "--", *SAME[10:]]) == 0
    assert "1 too short" in capsys.readouterr().out.splitlines()[-1]
    assert main(["diff", "--self", "--json", *SAME[10:], "--", *SLOW]) == 1
    rows = json.loads(capsys.readouterr().out)["differences"]
    (row,) = (row for row in rows if row["change"] != "unclear")
    assert (row["name"], row["change"]) == ("program.search", "slower")
    assert 1.05 < row[row["by"]][1] / row[row["by"]][0] < 1.2
    assert main(["check", *SAME[:10], "--baseline", *SAME[10:]]) == 0
    assert " checked, 0 failed" in capsys.readouterr().out
    assert main(["check", "--self", *SLOW, "--baseline", *SAME[:10], "--report", "junit"]) == 1
    cases = ET.fromstring(capsys.readouterr().out).iter("testcase")
    assert [case.get("name") for case in cases if case.find("failure") is not None] == ["program.search"]
    assert main(["check", *SLOW, "--baseline", *SAME[:10], "--limit", "program.search=+30%"]) == 0


@pytest.mark.full
@pytest.mark.recorder
def test_new_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A function that does twenty times its work is found in recordings of now, whatever else the machine does."""
    sides: tuple[list[str], list[str]] = ([], [])
    for number in range(3):
        for side, more in zip(sides, ("0", "1900"), strict=True):
            side.append(str(tmp_path / f"{more}-{number}.fxt"))
            run_python("-m", "fxtio", "run", "-q", "-o", side[-1], str(RUNS / "program.py"), more)
    before, after = sides
    assert main(["diff", "--json", *before, "--", *after]) == 1
    report = json.loads(capsys.readouterr().out)
    found = {row["name"]: row["change"] for row in report["differences"]}
    assert found["program.search"] == "slower"
    assert [trace["findings"]["counts"] for trace in (*report["before"], *report["after"])] == [{}] * 6
    assert main(["check", *after, "--baseline", *before, "--limit", "program.search=+100%"]) == 1
    assert "FAILED program.search" in capsys.readouterr().out
