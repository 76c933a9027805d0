"""What programs may rely on stays: `docs/reference/stable.txt` has it, and `tests/project/stable.py` derives it."""

from __future__ import annotations

import argparse
import runpy
from collections.abc import Iterator
from typing import Any

import pytest

from fxtio.cli.parser import COMMANDS, parser_of
from support.checkout import CHECKOUT

pytestmark = pytest.mark.once

STABLE: dict[str, Any] = runpy.run_path(str(CHECKOUT / "tests" / "project" / "stable.py"))


def advice(now: list[str], listed: list[str]) -> str:
    """Return what to do if what is there is not what is listed, or an empty text."""
    gone, new = sorted({*listed} - {*now}), sorted({*now} - {*listed})
    parts = []
    if gone:
        parts += ["programs rely on this, and it is gone or has another type:", *gone]
        parts += ["Keep it; or see docs/reference/stability.md for what a change of it takes.", ""]
    if new:
        parts += ["this is new, and would be there to stay:", *new, ""]
    if parts or now != listed:
        parts.append("If that is meant, run `python tests/project/stable.py`, and commit docs/reference/stable.txt.")
    return "\n".join(parts)


@pytest.mark.full
def test_what_programs_rely_on_is_there() -> None:
    differences = advice(STABLE["lines"](), STABLE["LIST"].read_text("utf-8").splitlines())
    assert not differences, differences


def test_advice() -> None:
    assert advice(["a", "b"], ["a", "b"]) == ""
    gone, new, order = advice(["a"], ["a", "b"]), advice(["a", "b"], ["a"]), advice(["a", "b"], ["b", "a"])
    assert gone.startswith("programs rely on this, and it is gone or has another type:\nb\n")
    assert new.startswith("this is new, and would be there to stay:\nb\n")
    assert all(text.endswith("commit docs/reference/stable.txt.") for text in (gone, new, order))


def parsers(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Return a parser with its name, and those of its actions."""
    yield name, parser
    for group in parser._actions:
        if isinstance(group, argparse._SubParsersAction):
            for action, inner in group.choices.items():
                yield from parsers(f"{name} {action}", inner)


def prints_json(parser: argparse.ArgumentParser) -> bool:
    return any(
        "--json" in each.option_strings or ("--report" in each.option_strings and "json" in (each.choices or ()))
        for each in parser._actions
    )


def test_every_command_that_prints_json_is_listed() -> None:
    every = [pair for name in COMMANDS for pair in parsers(name, parser_of(name))]
    names = {name for name, parser in every if prints_json(parser)}
    assert len(names) > 15
    listed = {name.partition(" --")[0] for name in STABLE["COMMANDS"]}
    listed = {" ".join(word for word in name.split() if word not in STABLE["TRACES"]) for name in listed}
    assert names == listed | STABLE["LEFT_OUT"]


def test_values_have_paths() -> None:
    value = {"a": [{"b": 1, "labels": {"x": "y"}}], "fxt.bits.padding": None, "empty": []}
    assert sorted(STABLE["_values"](value)) == [
        ("", "object"), (".*", "null"), (".a", "list"), (".a[]", "object"), (".a[].b", "number"),
        (".a[].labels", "object"), (".a[].labels.*", "text"), (".empty", "list"),
    ]  # fmt: skip
