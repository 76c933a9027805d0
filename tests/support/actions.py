"""GitHub Actions whose steps are scripts: their metadata, and their steps run as a runner would run them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from support.limits import PATIENCE

_TEXT = {"type": "string"}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "author": _TEXT,
        "description": _TEXT,
        "inputs": {
            "type": "object",
            "patternProperties": {
                "^[_a-z][a-z0-9_-]*$": {
                    "type": "object",
                    "properties": {
                        "description": _TEXT,
                        "required": {"type": "boolean"},
                        "default": _TEXT,
                    },
                    "required": ["description"],
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
        },
        "outputs": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"description": _TEXT, "value": _TEXT},
                "required": ["description", "value"],
                "additionalProperties": False,
            },
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
                            **dict.fromkeys(("name", "id", "if", "shell", "run", "working-directory", "uses"), _TEXT),
                            "env": {"type": "object", "additionalProperties": _TEXT},
                            "with": {"type": "object", "additionalProperties": _TEXT},
                        },
                        "oneOf": [{"required": ["run", "shell"]}, {"required": ["uses"]}],
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
"""GitHub's documented rules for the metadata of a composite action."""

_EXPRESSION = re.compile(r"\$\{\{ ([\w.-]+) \}\}")


@dataclass
class Job:
    """A job that uses an action.

    Attributes:
        action: the file of the action.
        folder: the folder for temporary files.
        workspace: the folder in which steps run.
        inputs: what the workflow gives the action.
        context: what expressions such as `github.token` are worth; outputs of steps are added.
        variables: of the environment of steps.
        used: the inputs of each step that uses another action, by its name.
    """

    action: Path
    folder: Path
    workspace: Path
    inputs: Mapping[str, str]
    context: dict[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    used: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Give inputs their defaults."""
        self.metadata: dict[str, Any] = yaml.safe_load(self.action.read_text("utf-8"))
        assert self.inputs.keys() <= self.metadata["inputs"].keys()
        for name, entry in self.metadata["inputs"].items():
            self.context[f"inputs.{name}"] = self.inputs.get(name, entry.get("default", ""))

    def run(self, *, after: str) -> subprocess.CompletedProcess[str]:
        """Run the steps after the one with this name until one fails; return its exit code, and the output of all."""
        steps = self.metadata["runs"]["steps"]
        first = 1 + next(place for place, step in enumerate(steps) if step["name"] == after)
        done, output = subprocess.CompletedProcess[str]([], 0, "", ""), ""
        for step in steps[first:]:
            if not self._holds(step.get("if")):
                continue
            if "uses" in step:
                self.used[step["name"]] = {name: self._value(text) for name, text in step["with"].items()}
                continue
            done = self._script(step)
            output += done.stdout + done.stderr
            if done.returncode:
                break
        return subprocess.CompletedProcess(done.args, done.returncode, output, "")

    def _value(self, text: str) -> str:
        return _EXPRESSION.sub(lambda match: self.context.get(match[1], ""), text)

    def _holds(self, condition: str | None) -> bool:
        """Return whether a step runs; conditions are comparisons with texts."""
        pairs = (each.split(" == ") for each in condition.split(" && ")) if condition else ()
        return all(self.context.get(name, "") == expected.strip("'") for name, expected in pairs)

    def _script(self, step: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
        assert step["shell"] == "bash"
        (script := self.folder / "script.sh").write_text(step["run"])
        (outputs := self.folder / "outputs").write_text("")
        variables = {
            **os.environ,
            "RUNNER_TEMP": str(self.folder),
            "GITHUB_ACTION_PATH": str(self.action.parent),
            "GITHUB_OUTPUT": str(outputs),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
            **self.variables,
            **{name: self._value(text) for name, text in step.get("env", {}).items()},
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        done = subprocess.run(
            command, env=variables, cwd=self.workspace, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        for line in outputs.read_text().splitlines():
            name, _, value = line.partition("=")
            self.context[f"steps.{step['id']}.outputs.{name}"] = value
        return done
