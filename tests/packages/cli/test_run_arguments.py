"""The arguments of `fxtio run` in their usual form are parsed as `argparse` parses them."""

from __future__ import annotations

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio.cli.parser import parse
from fxtio.cli.run import ARGUMENTS, parse_usual

NAMES = sorted(name for names, _ in ARGUMENTS for name in names)
VALUES = ("app.py", "x", "7", "-7", "1e3", "my file.py", "", "-", "--", "-x", "--nosuch", "--category=-gc")
WORDS = st.sampled_from([*NAMES, *(f"{name}={value}" for name in NAMES for value in ("", "a=b", "3")), *VALUES])


def by_argparse(arguments: list[str]) -> dict[str, object] | None:
    """Return what `argparse` makes of the arguments; None if it refuses them."""
    with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
        options = vars(parse(["run", *arguments]))
        return {name: value for name, value in options.items() if name not in ("run", "parser", "version")}
    return None


@given(st.lists(WORDS, max_size=6))
def test_what_is_parsed_is_what_argparse_makes_of_it(arguments: list[str]) -> None:
    options = parse_usual(arguments)
    assert options is None or vars(options) == by_argparse(arguments)


@pytest.mark.parametrize(
    "line",
    [
        "app.py --its-own -o option",
        "-o app.fxt.zst -m package.module arguments",
        "--include myapp --include other --min-duration 10us app.py",
        "--output=app.fxt --category=-gc --max-depth 3 -q -c print(1)",
        "--spans-only -",
    ],
)
def test_usual_forms_are_parsed(line: str) -> None:
    options = parse_usual(line.split())
    assert options is not None
    assert vars(options) == by_argparse(line.split())


@pytest.mark.parametrize(
    "line", ["", "--help", "-oapp.fxt app.py", "--max-depth x app.py", "-m", "-m module -- x", "-q"]
)
def test_other_forms_are_left_to_argparse(line: str) -> None:
    assert parse_usual(line.split()) is None
