"""The files with which other projects validate traces in their CI: the GitHub Action and the hook of pre-commit.

The rules that all actions keep are here, too; `test_gate` has what the gate does.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from fxtio import synth
from fxtio.cli import console
from fxtio.formats import formats
from support.actions import SCHEMA, Job
from support.broken import write_broken
from support.checkout import CHECKOUT
from support.limits import PATIENCE

pytestmark = pytest.mark.once

VALIDATE, GATE = (CHECKOUT / "conformance" / folder / "action.yml" for folder in ("action", "gate"))
ACTIONS = pytest.mark.parametrize("action", [VALIDATE, GATE], ids=["validate", "gate"])
HOOKS = CHECKOUT / ".pre-commit-hooks.yaml"
SCRIPTS = Path(sysconfig.get_path("scripts"))
RULE = "fxt.bits.padding"


def clean(path: Path) -> Path:
    synth.write(path, "spans", format="fxt", events=20, threads=2)
    return path


def run_step(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the second step as GitHub does, with the installed fxtio where the first step would have installed it."""
    (folder / "fxtio").mkdir(exist_ok=True)
    if not (folder / "fxtio" / "bin").exists():
        (folder / "fxtio" / "bin").symlink_to(SCRIPTS)
    given = {name.replace("_", "-"): value for name, value in inputs.items()}
    return Job(VALIDATE, folder, folder, given).run(after="Install fxtio")


def metadata(action: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(action.read_text("utf-8"))
    return content


@ACTIONS
def test_the_metadata_of_an_action(action: Path) -> None:
    content = metadata(action)
    jsonschema.validate(content, SCHEMA)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    no_shell = {**content["runs"], "steps": [{"run": "true"}]}
    for wrong in ({**content, "runs": no_shell}, {**content, "inputs": {"a b": {}}}, {**content, "steps": []}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)


@ACTIONS
def test_inputs_reach_scripts_only_as_variables(action: Path) -> None:
    """A text in a workflow cannot become a command: no expression is within a script."""
    content = metadata(action)
    steps = content["runs"]["steps"]
    scripts = [step for step in steps if "run" in step]
    assert all(entry["description"] for entry in content["inputs"].values())
    assert all("${{" not in step["run"] and step["shell"] == "bash" for step in scripts)
    for step in scripts:
        assert subprocess.run(["bash", "-n", "-c", step["run"]], check=False).returncode == 0
    used = " ".join(text for step in steps for text in (*step.get("env", {}).values(), step.get("if", "")))
    assert all(f"inputs.{name} " in used for name in content["inputs"])


@ACTIONS
def test_other_actions_are_those_of_github_and_pinned(action: Path) -> None:
    others = [step["uses"] for step in metadata(action)["runs"]["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", other) for other in others)


@ACTIONS
def test_an_action_installs_its_own_checkout(action: Path) -> None:
    install = metadata(action)["runs"]["steps"][0]["run"]
    assert '"$GITHUB_ACTION_PATH/../.."' in install
    assert (action.parent / ".." / ".." / "pyproject.toml").resolve() == (CHECKOUT / "pyproject.toml").resolve()


@pytest.mark.full
def test_the_action_validates(tmp_path: Path) -> None:
    (tmp_path / "out put").mkdir()
    (tmp_path / "deep").mkdir()
    write_broken(RULE, tmp_path / "deep" / "b.fxt")
    clean(tmp_path / "a.ftf")
    sound = run_step(tmp_path, files="a.ftf")
    assert sound.returncode == 0, sound.stdout
    broken = run_step(tmp_path, files="a.ftf\n**/*.fxt", sarif="report.sarif", fail_on="required")
    assert broken.returncode == 1
    assert "deep/b.fxt: " in broken.stdout
    assert RULE in (tmp_path / "report.sarif").read_text()
    assert run_step(tmp_path, files="deep/b.fxt", ignore="dcpi.* fxt.bits.*").returncode == 0
    assert run_step(tmp_path, files="deep/b.fxt", fail_on="never").returncode == 0
    assert run_step(tmp_path, files="none.fxt").returncode == console.REFUSED


@pytest.mark.full
def test_the_hook_of_pre_commit(tmp_path: Path) -> None:
    (hook,) = yaml.safe_load(HOOKS.read_text("utf-8"))
    assert hook.keys() >= {"id", "name", "entry", "language", "files"}
    pattern = re.compile(hook["files"])
    suffixes = [suffix for each in formats().values() if not each.directory for suffix in each.suffixes]
    for suffix in suffixes:
        assert all(pattern.search(f"out/a{suffix}{packed}") for packed in ("", ".gz", ".zst", ".xz"))
    assert not pattern.search("a.py")
    assert not pattern.search("fxt")
    command = shlex.split(hook["entry"])
    command[0] = str(SCRIPTS / command[0])
    write_broken(RULE, broken := tmp_path / "b")
    traces = (clean(tmp_path / "a"), broken)
    children = [subprocess.run([*command, str(path)], capture_output=True, check=False) for path in traces]
    assert [child.returncode for child in children] == [0, 1]


def test_what_the_sanitizers_leave_out_exists() -> None:
    """Each name is that of a test or a module: CI runs these tests plainly, and a wrong name would leave out none."""
    script = CHECKOUT / "tests" / "sanitize.sh"

    def printed(what: str) -> list[str]:
        return subprocess.run(["bash", str(script), what], check=True, capture_output=True, text=True).stdout.split()

    modules, left_out = printed("modules"), printed("left-out")
    assert len(modules) > 30
    assert all((CHECKOUT / module).is_file() for module in modules)
    assert {name.partition("::")[0] for name in left_out} <= set(modules)
    collect = [sys.executable, "-P", "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *left_out]
    done = subprocess.run(collect, check=False, cwd=CHECKOUT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
