"""Traces that break one rule each: the case of the conformance kit, or one that is made here.

Made are those of which the kit has none, since they are about limits or circumstances, and those that the programs of
others have to be led astray by: the case of the kit may have more than such a program reads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

from fxtio.conformance.files import copy
from fxtio.conformance.kit import broken_traces


@cache
def made(name: str) -> dict[str, Callable[[Path], None]]:
    """Return what writes a broken trace at a path, for the rules of a format of which they are made here, by id."""
    writers: dict[str, Callable[[Path], None]] = import_module(f"support.broken.{name}").BREAKS
    return writers


def broken_rules(name: str) -> list[str]:
    """Return the ids of the rules of a format for which there is a broken trace."""
    return sorted({*broken_traces(name), *made(name)})


def write_broken(rule: str, path: Path) -> None:
    """Write at a path, which does not exist, the file or directory that breaks a rule."""
    name = rule.partition(".")[0]
    if rule in made(name):
        made(name)[rule](path)
    else:
        copy(broken_traces(name)[rule], path)
