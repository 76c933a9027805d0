"""What a release needs: workflows that can be trusted, wheels for all interpreters, links that hold everywhere.

`.ci/run` builds the sdist and a wheel, checks what PyPI would show, and tries the wheel in an empty environment.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.checkout import CHECKOUT
from support.limits import PATIENCE

pytestmark = pytest.mark.once

WORKFLOWS = {path.stem: path for path in (CHECKOUT / ".github" / "workflows").glob("*.yml")}
PROJECT: dict[str, Any] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))
SOURCE = PROJECT["project"]["urls"]["Source"]
PLACES = (f"{SOURCE}/blob/main/", f"{SOURCE.replace('github.com', 'raw.githubusercontent.com')}/main/")
"""With what the address of a file of the repository begins: of a page, and of a picture."""

VERSIONS = [
    match[1]
    for each in PROJECT["project"]["classifiers"]
    if (match := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", each))
]
LINK = re.compile(r"(!?)\[(?:[^\[\]]|\[[^\]]*\])+?\]\(([^)\s]+)\)")


def workflow(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(WORKFLOWS[name].read_text("utf-8"))
    return content


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in workflow(name)["jobs"].values() for step in job["steps"]]


def problems(text: str) -> list[str]:
    """Return the links of a page that do not hold where the page is far from its repository."""
    found = []
    for is_picture, link in LINK.findall(text):
        place = PLACES[bool(is_picture)]
        is_ours = any(link.startswith(each.removesuffix("main/")) for each in PLACES)
        path, _, heading = link.removeprefix(place).partition("#")
        if re.match("https?://", link) is None:
            found.append(f"{link}: is not absolute")
        elif is_ours and not (link.startswith(place) and (CHECKOUT / path).is_file()):
            found.append(f"{link}: is no file of the repository")
        elif is_ours and heading and heading not in headings(CHECKOUT / path):
            found.append(f"{link}: has no such heading")
    return found


def headings(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", ["README.md", ".github/SECURITY.md"])
def test_links_are_absolute(page: str) -> None:
    text = (CHECKOUT / page).read_text("utf-8")
    assert len(LINK.findall(text)) > 2
    assert problems(text) == []


def test_links_that_do_not_hold() -> None:
    blob, raw = PLACES
    for link in ("docs/index.md", f"{blob}no.md", f"{raw}README.md", f"{blob}README.md#no-such"):
        assert len(problems(f"see [a page]({link})")) == 1, link
    assert problems(f"![x]({raw}docs/pictures/open.png) [y]({blob}README.md#quick-start) [z](https://a.example)") == []


def test_pages_open_with_a_picture() -> None:
    for page in ("README.md", "docs/index.md"):
        lines = (CHECKOUT / page).read_text("utf-8").splitlines()
        assert lines[2].startswith("!["), page


@pytest.mark.parametrize("name", sorted(WORKFLOWS))
def test_workflows_can_be_trusted(name: str) -> None:
    """Actions are those that were looked at; a job can only read; texts from outside do not become commands."""
    content = workflow(name)
    assert content["permissions"] == {"contents": "read"}
    for job in content["jobs"].values():
        assert job["timeout-minutes"] <= 180
        assert job.get("permissions", {}) in ({}, {"id-token": "write"})
    for step in steps(name):
        if "uses" in step:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"]), step
        else:
            assert "${{" not in step["run"]
            assert subprocess.run(["bash", "-n", "-c", step["run"]], check=False).returncode == 0, step
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}
    files = re.findall(r"(?<![\w/])(\.ci/[\w.]+)", WORKFLOWS[name].read_text("utf-8"))
    assert [file for file in files if not (CHECKOUT / file).is_file()] == []


def test_only_tags_are_published_after_all_was_tried() -> None:
    jobs = workflow("release")["jobs"]
    publish = jobs["publish"]
    assert publish["if"] == "github.ref_type == 'tag'"
    assert {*publish["needs"]} == jobs.keys() - {"publish"}
    trusted = [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})]
    assert trusted == ["publish"]
    assert all(".ci/try.py" in str(jobs[name]) or "cibuildwheel" in str(jobs[name]) for name in publish["needs"])


@pytest.mark.parametrize(
    ("readme", "changes", "tag", "is_fit"),
    [
        ("pip install fxtio", "## 1.2.0 - 2030-01-02", "v1.2.0", True),
        ("There is no release on PyPI yet.", "## 1.2.0 - 2030-01-02", "v1.2.0", False),
        ("pip install fxtio", "## 1.2.0 - unreleased", "v1.2.0", False),
        ("pip install fxtio", "## 1.2.1 - 2030-01-02", "v1.2.1", False),
    ],
)
def test_what_says_that_there_is_no_release_is_not_released(
    readme: str, changes: str, tag: str, is_fit: bool, tmp_path: Path
) -> None:
    (tmp_path / "README.md").write_text(f"{readme}\n")
    (tmp_path / "CHANGELOG.md").write_text(f"{changes}\n")
    (tmp_path / "pyproject.toml").write_text('version = "1.2.0"\n')
    (step,) = (step for step in steps("release") if step.get("if") == "github.ref_type == 'tag'")
    shell = ["bash", "-e", "-c", step["run"]]  # as the runner of Actions does
    done = subprocess.run(shell, cwd=tmp_path, env=os.environ | {"GITHUB_REF_NAME": tag}, check=False)
    assert (done.returncode == 0) == is_fit


def test_every_version_has_wheels_and_is_tested() -> None:
    wheels = PROJECT["tool"]["cibuildwheel"]
    assert wheels["test-command"] == "python {project}/.ci/try.py"
    built = {re.fullmatch(r"cp3(\d+)t?-\*", each)[1] for each in wheels["build"]}  # type: ignore[index]
    assert {f"3.{minor}" for minor in built} == {*VERSIONS}
    (setup,) = (step for step in steps("ci") if step.get("uses", "").startswith("actions/setup-python@"))
    assert setup["with"]["python-version"].split() == VERSIONS


def test_documents_are_built_with_what_they_need() -> None:
    content = yaml.safe_load((CHECKOUT / ".readthedocs.yaml").read_text("utf-8"))
    assert content["version"] == 2
    assert content["sphinx"] == {"configuration": "docs/conf.py", "fail_on_warning": True}
    assert content["build"]["tools"]["python"] in VERSIONS
    (install,) = content["python"]["install"]
    assert {*install["extra_requirements"]} <= PROJECT["project"]["optional-dependencies"].keys()


@pytest.mark.full
@pytest.mark.recorder
def test_what_is_installed_can_be_tried() -> None:
    done = subprocess.run(
        [sys.executable, str(CHECKOUT / ".ci" / "try.py")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "$ fxtio top program.fxt" in done.stdout  # the last command
