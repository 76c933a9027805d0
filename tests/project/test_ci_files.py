"""The files with which other projects validate traces in their CI: the GitHub Action and the hook of pre-commit."""

from __future__ import annotations

import os
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
from support.broken import write_broken
from support.checkout import CHECKOUT
from support.limits import PATIENCE

pytestmark = pytest.mark.once

ACTION = CHECKOUT / "conformance" / "action" / "action.yml"
HOOKS = CHECKOUT / ".pre-commit-hooks.yaml"
ACTION_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "author": {"type": "string"},
        "description": {"type": "string"},
        "inputs": {
            "type": "object",
            "patternProperties": {
                "^[_a-z][a-z0-9_-]*$": {
                    "type": "object",
                    "properties": {
                        "description": {"type": "string"},
                        "required": {"type": "boolean"},
                        "default": {"type": "string"},
                    },
                    "required": ["description"],
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
        },
        "runs": {
            "type": "object",
            "properties": {
                "using": {"const": "composite"},
                "steps": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            **{
                                key: {"type": "string"}
                                for key in ("name", "id", "if", "shell", "run", "working-directory")
                            },
                            "env": {"type": "object", "additionalProperties": {"type": "string"}},
                        },
                        "required": ["run", "shell"],
                        "additionalProperties": False,
                    },
                },
            },
            "required": ["using", "steps"],
            "additionalProperties": False,
        },
        "branding": {"type": "object"},
    },
    "required": ["name", "description", "runs"],
    "additionalProperties": False,
}
"""GitHub's documented rules for the metadata of a composite action whose steps are scripts."""

SCRIPTS = Path(sysconfig.get_path("scripts"))
RULE = "fxt.bits.padding"


def clean(path: Path) -> Path:
    synth.write(path, "spans", format="fxt", events=20, threads=2)
    return path


def steps() -> list[dict[str, Any]]:
    runs = yaml.safe_load(ACTION.read_text("utf-8"))["runs"]
    assert runs["using"] == "composite"
    found: list[dict[str, Any]] = runs["steps"]
    return found


def run_step(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the second step as GitHub does, with the installed fxtio where the first step would have installed it."""
    (folder / "fxtio").mkdir(exist_ok=True)
    if not (folder / "fxtio" / "bin").exists():
        (folder / "fxtio" / "bin").symlink_to(SCRIPTS)
    declared = yaml.safe_load(ACTION.read_text("utf-8"))["inputs"]
    values = {name: inputs.get(name.replace("-", "_"), entry.get("default", "")) for name, entry in declared.items()}
    step = steps()[1]
    expression = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")
    environment = {name: expression.sub(lambda match: values[match[1]], text) for name, text in step["env"].items()}
    script = folder / "script.sh"
    script.write_text(step["run"])
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
    variables = {**os.environ, **environment, "RUNNER_TEMP": str(folder)}
    return subprocess.run(
        command, env=variables, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_the_metadata_of_the_action() -> None:
    action = yaml.safe_load(ACTION.read_text("utf-8"))
    jsonschema.validate(action, ACTION_SCHEMA)
    jsonschema.Draft202012Validator.check_schema(ACTION_SCHEMA)
    no_shell = {**action["runs"], "steps": [{"run": "true"}]}
    for wrong in ({**action, "runs": no_shell}, {**action, "inputs": {"a b": {}}}, {**action, "steps": []}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, ACTION_SCHEMA)


def test_inputs_reach_scripts_only_as_variables() -> None:
    """A text in a workflow cannot become a command: no expression is within a script."""
    declared = yaml.safe_load(ACTION.read_text("utf-8"))["inputs"]
    assert all(entry["description"] for entry in declared.values())
    assert all("${{" not in step["run"] and step["shell"] == "bash" for step in steps())
    used = " ".join(steps()[1]["env"].values())
    assert all(f"inputs.{name} " in used for name in declared)


def test_the_action_installs_its_own_checkout() -> None:
    install = steps()[0]["run"]
    assert '"$GITHUB_ACTION_PATH/../.."' in install
    assert (ACTION.parent / ".." / ".." / "pyproject.toml").resolve() == (CHECKOUT / "pyproject.toml").resolve()
    assert subprocess.run(["bash", "-n", "-c", install], check=False).returncode == 0


@pytest.mark.full
def test_the_action_validates(tmp_path: Path) -> None:
    (tmp_path / "out put").mkdir()
    (tmp_path / "deep").mkdir()
    write_broken(RULE, tmp_path / "deep" / "b.fxt")
    clean(tmp_path / "a.ftf")
    sound = run_step(tmp_path, files="a.ftf")
    assert (sound.returncode, sound.stderr) == (0, "")
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
