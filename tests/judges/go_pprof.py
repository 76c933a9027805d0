"""Go's pprof as a judge: `go tool pprof -raw` prints all that a profile has.

Debian's package golang-go has it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from support.limits import PATIENCE

_LOCATION = re.compile(r"\s*(\d+): 0x([0-9a-f]+) (?:M=\d+ )?(?:(.*) \S*:\d+(?::\d+)? s=\d+\(.*\))?")
_SAMPLE = re.compile(r"\s*([-\d ]+): ([\d ]*)")


class PprofError(Exception):
    """An error: pprof refuses the file."""


@dataclass
class Profile:
    """A profile as pprof has read it.

    Attributes:
        types: the types of values, as `samples/count`.
        values: the sums of the values of each stack, whose functions begin with the outermost one.
        labels: how often a line of labels occurs.
    """

    types: list[str]
    values: dict[tuple[str, ...], tuple[int, ...]] = field(default_factory=dict)
    labels: Counter[str] = field(default_factory=Counter)


def available() -> str | None:
    """Return None if pprof can be used here, otherwise the reason why not, in one sentence."""
    if shutil.which("go") is None:
        return "pprof cannot run: there is no Go (no `go` on PATH; Debian's package golang-go has it)"
    return None


def run(path: Path, *options: str) -> str:
    """Return what pprof prints.

    Raises:
        PprofError: it refuses the file.
    """
    command = ["go", "tool", "pprof", "-symbolize=none", *options, str(path)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if child.returncode:
        raise PprofError(child.stderr[-2000:])
    return child.stdout


def load(path: Path) -> Profile:
    """Return a profile whose names have no line breaks, and whose files have no spaces."""
    lines = run(path, "-raw").splitlines()
    head, locations = lines.index("Samples:"), lines.index("Locations")
    mappings = lines.index("Mappings")
    names: dict[str, str] = {}
    for line in lines[locations + 1 : mappings]:
        match = _LOCATION.fullmatch(line)
        if match:
            names[match[1]] = match[3] or f"0x{match[2]}"
    profile = Profile(lines[head + 1].replace("[dflt]", "").split())
    for line in lines[head + 2 : locations]:
        match = _SAMPLE.fullmatch(line)
        if match is None:
            profile.labels[line.strip()] += 1
            continue
        values = tuple(map(int, match[1].split()))
        stack = tuple(names[each] for each in reversed(match[2].split()))
        before = profile.values.get(stack, (0,) * len(values))
        profile.values[stack] = tuple(map(sum, zip(before, values, strict=True)))
    return profile
