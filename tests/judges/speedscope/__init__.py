"""Speedscope as a judge: its own importer, from the npm package `speedscope`, under Node.js.

It reads speedscope JSON, collapsed stacks and pprof. The environment variable FXTIO_SPEEDSCOPE_DIST names the folder
`dist/release` of the package::

    npm pack speedscope@1.25.0 && tar -xzf speedscope-1.25.0.tgz
    export FXTIO_SPEEDSCOPE_DIST=$PWD/package/dist/release
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.limits import PATIENCE

_DRIVER = Path(__file__).with_name("driver.js")

Stack = tuple[str, ...]


class SpeedscopeError(Exception):
    """An error: speedscope refused the file."""


@dataclass(frozen=True)
class Profile:
    """A profile as speedscope has read it.

    Attributes:
        name: its title.
        unit: the unit of weights and times.
        weight: the sum of all weights.
        calls: begins and ends of frames: `O` or `C`, the name, and the time, which begins with 0.
        frames: the file and line of each name.
        stacks: the sum of the weights of each stack.
    """

    name: str
    unit: str
    weight: float
    calls: list[tuple[str, str, float]]
    frames: dict[str, tuple[str | None, int | None]]
    stacks: dict[Stack, float]


def _release() -> Path | None:
    chosen = os.environ.get("FXTIO_SPEEDSCOPE_DIST")
    return Path(chosen) if chosen and any(Path(chosen).glob("speedscope-*.js")) else None


def available() -> str | None:
    """Return None if speedscope can be used here, otherwise the reason why not, in one sentence."""
    if shutil.which("node") is None:
        return "speedscope cannot run: there is no Node.js (no `node` on PATH)"
    if _release() is None:
        return "speedscope cannot run: FXTIO_SPEEDSCOPE_DIST does not name the folder dist/release of its npm package"
    return None


def load(path: Path) -> list[Profile]:
    """Return the profiles of a file.

    Raises:
        SpeedscopeError: speedscope refuses the file.
    """
    child = subprocess.run(
        ["node", str(_DRIVER), str(_release()), str(path)], capture_output=True, timeout=PATIENCE, check=False
    )
    if child.returncode or not child.stdout:
        raise SpeedscopeError(child.stderr.decode(errors="replace")[-2000:])
    answer: dict[str, Any] = json.loads(child.stdout)
    if not answer.get("profiles"):
        raise SpeedscopeError(str(answer.get("error", answer["said"])))
    return [
        Profile(
            name=each["name"],
            unit=each["unit"],
            weight=each["weight"],
            calls=[(kind, name, at) for kind, name, at in each["calls"]],
            frames={name: (file, line) for name, (file, line) in each["frames"].items()},
            stacks={tuple(stack): weight for stack, weight in each["stacks"]},
        )
        for each in answer["profiles"]
    ]
