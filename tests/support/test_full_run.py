"""`pytest` alone leaves out the tests marked `full`, and a test that runs a program of another project has the mark."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.full_run import EVENT, is_foreign

pytestmark = [pytest.mark.full, pytest.mark.once]

SUITE = """
import subprocess
import sys

import pytest

@pytest.fixture
def judge():
    subprocess.run(["{program}"], check=True)

@pytest.mark.full
def test_marked(judge):
    sys.audit("{event}", "the judge")

def test_own():
    subprocess.run([sys.executable, "-c", ""], check=True)
    subprocess.run(["sh", "-c", "true"], check=True)

def test_starts():
    subprocess.run(["{program}"], check=True)

def test_asks():
    sys.audit("{event}", "the judge")

def test_fixture(judge):
    pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Return a suite of tests, of which one is marked and three others should be."""
    program = pytester.mkdir("bin") / "judge"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    pytester.makeini("[pytest]\nmarkers = full\n")
    pytester.mkdir("tests").joinpath("test_suite.py").write_text(SUITE.format(program="judge", event=EVENT))
    return pytester


def run(suite: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest as a child, because hooks that watch a process cannot be removed."""
    suite.makeconftest(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[1])!r})\npytest_plugins = ['support.full_run']\n"
    )
    return suite.runpytest_subprocess("-p", "no:cacheprovider", *arguments)


def test_a_judge_that_is_used_without_the_mark_is_an_error(suite: pytest.Pytester) -> None:
    result = run(suite, "--full")
    result.assert_outcomes(passed=5, errors=3)
    result.stdout.fnmatch_lines(["*test_starts uses judge, so it needs the mark `full`*"])
    result.stdout.fnmatch_lines(["*test_asks uses the judge, so it needs the mark `full`*"])
    result.stdout.fnmatch_lines(["*test_fixture uses judge, so it needs the mark `full`*"])


@pytest.mark.parametrize(
    ("arguments", "deselected"),
    [
        ((), 1),
        (("tests",), 1),
        (("--full",), 0),
        (("tests/test_suite.py",), 0),
        (("tests/test_suite.py::test_own",), 0),
    ],
)
def test_marked_tests_are_left_out_unless_they_are_asked_for(
    suite: pytest.Pytester, arguments: tuple[str, ...], deselected: int
) -> None:
    run(suite, "--collect-only", "-q", *arguments).assert_outcomes(deselected=deselected)


def test_programs_of_the_interpreter_and_of_every_system_are_not_foreign(
    suite: pytest.Pytester, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    beside = str(Path(sys.executable).with_name("fxtio"))
    assert [is_foreign(program) for program in (sys.executable, "python3", "sh", "cat", beside, str(own))] == [
        False
    ] * 6
    assert is_foreign("judge")
