"""Labels of recordings: where they come from, and that they are in every file of a recording."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fxtio
from fxtio import labels
from fxtio.cli.parser import parse
from fxtio.record_arguments import options_of
from support.tracer_run import fine, search_path

pytestmark = pytest.mark.recorder


def labels_of(path: Path) -> dict[str, str]:
    return dict(fxtio.open_timeline(path).labels)


@pytest.mark.parametrize(
    "given",
    [{"build": "1a2b", "host": "wéb"}, ["build=1a2b", "host=wéb"], ("build=x", "build=1a2b", "host=wéb"), "one=text"],
    ids=repr,
)
def test_what_a_program_gives(given: object, out: Path) -> None:
    fine("fxtio.start(OUT, **OPTIONS)\nfxtio.instant('x')\nfxtio.stop()\n", out, labels=given)
    expected = {"one": "text"} if isinstance(given, str) else {"build": "1a2b", "host": "wéb"}
    assert labels_of(out) == expected


def test_as_many_as_there_may_be(out: Path) -> None:
    given = {f"{number:0100}": chr(0x100 + number) * 1_000 for number in range(labels.MAX_LABELS)}
    fine("fxtio.start(OUT, **OPTIONS)\nfxtio.instant('x')\nfxtio.stop()\n", out, labels=given)
    assert labels_of(out) == given


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (["build"], "the label 'build' is not of the form NAME=VALUE"),
        (["=x"], "'' cannot be the name of a label"),
        ({"a=b": "x"}, "'a=b' cannot be the name of a label"),
        ({"a" * 101: "x"}, "is too long: there are at most 100 characters of a name"),
        ({"a": "x" * 1_001}, "is too long"),
        ({str(number): "" for number in range(65)}, "65 labels are too many: a recording has at most 64"),
        ({"a": 1}, "each of labels is a text, not int"),
        ({1: "a"}, "each of labels is a text, not int"),
        (["x", 1], "each of labels is a text, not int"),
        (1, "labels is a text or several texts"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_refused(given: object, error: str, out: Path) -> None:
    source = """
try:
    fxtio.start(OUT, **OPTIONS)
except (TypeError, ValueError) as error:
    print(error)
print(os.path.exists(OUT))
"""
    printed = fine(source, out, labels=given).splitlines()
    assert error in printed[0]
    assert printed[1] == "False"


PROGRAM = """
import os, fxtio
fxtio.start("out.fxt", labels={"build": "mine"}, ring="1MiB")
if not (child := os.fork()):
    fxtio.instant("child")
    fxtio.stop()
    os._exit(0)
os.waitpid(child, 0)
fxtio.dump("dump.fxt")
fxtio.stop()
"""


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python with variables of the environment, and no other labels."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("FXTIO", "GITHUB_", "CI_"))}
    clean |= {"PYTHONPATH": search_path(folder)} | environment
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, timeout=60, check=False)


def test_the_environment_and_every_file_of_a_recording(tmp_path: Path) -> None:
    done = run(tmp_path, "-c", PROGRAM, FXTIO_LABELS="host=web1, build=other,,zone=b")
    assert (done.returncode, done.stderr) == (0, "")
    expected = {"host": "web1", "build": "mine", "zone": "b"}
    assert labels_of(tmp_path / "out.fxt") == labels_of(tmp_path / "dump.fxt") == expected
    with fxtio.open(tmp_path / "out.fxt") as trace:
        objects = trace.table("objects")
        assert objects["name"].tolist().count("labels") == 2  # of each process


def test_an_environment_that_makes_no_sense(tmp_path: Path) -> None:
    """It is no error of the program."""
    done = run(tmp_path, "-m", "fxtio", "run", "-q", "--label", "a=b", "-c", "print(1)", FXTIO_LABELS="host")
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "no labels of the environment: FXTIO_LABELS: the label 'host' is not of the form NAME=VALUE" in done.stderr
    assert labels_of(tmp_path / "trace.fxt") == {"a": "b"}


def test_too_many_labels_of_the_environment(tmp_path: Path) -> None:
    given = ",".join(f"e{number}=x" for number in range(60))
    arguments = [word for number in range(60) for word in ("--label", f"c{number}=y")]
    done = run(tmp_path, "-m", "fxtio", "run", "-q", *arguments, "-c", "pass", FXTIO_LABELS=given)
    assert done.returncode == 0
    assert "120 labels are too many: a recording has at most 64" in done.stderr
    assert labels_of(tmp_path / "trace.fxt") == {f"c{number}": "y" for number in range(60)}


def test_the_command(tmp_path: Path) -> None:
    variables = {"GITHUB_SHA": "1a2b", "GITHUB_HEAD_REF": "", "GITHUB_REF_NAME": "main", "GITHUB_RUN_ID": "7"}
    arguments = ["-m", "fxtio", "run", "-q", "--label-ci", "--label", "build=mine", "--label=x=y=z", "-c", "pass"]
    assert run(tmp_path, *arguments, **variables).returncode == 0
    expected = {"commit": "1a2b", "branch": "main", "build": "mine", "x": "y=z"}
    assert labels_of(tmp_path / "trace.fxt") == expected
    done = run(tmp_path, "-m", "fxtio", "info", "--json", "trace.fxt")
    assert json.loads(done.stdout)["labels"] == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, {}),
        ({"CI_COMMIT_SHA": "1", "CI_PIPELINE_ID": "2", "CI_JOB_NAME": "t"}, {"commit": "1", "build": "2", "job": "t"}),
        ({"GIT_BRANCH": "x" * 2_000}, {"branch": "x" * 1_000}),
        ({"GITHUB_HEAD_REF": "topic", "GITHUB_REF_NAME": "5/merge"}, {"branch": "topic"}),
        ({"GIT_URL": "https://bob:s3cret@host/x/y@2.git"}, {"repository": "https://host/x/y@2.git"}),
    ],
    ids=str,
)
def test_what_a_ci_service_says(variables: dict[str, str], expected: dict[str, str]) -> None:
    found = labels.of_ci(variables)
    assert found == expected
    assert labels.checked(found) == found


def test_the_arguments_stand_for_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLE_SHA1", "5")
    monkeypatch.delenv("GITHUB_SHA", raising=False)
    monkeypatch.delenv("CI_COMMIT_SHA", raising=False)
    options = parse(["run", "--label-ci", "--label", "a=b", "app.py"])
    assert {"commit": "5", "a": "b"}.items() <= options_of(options)["labels"].items()
