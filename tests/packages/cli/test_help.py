"""The help of the command line: what it lists, how it wraps, what it says about words that it does not know."""

from __future__ import annotations

import importlib
import pkgutil
import re
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from fxtio.cli import main
from fxtio.cli.parser import ALIASES, COMMANDS, GROUPS
from fxtio.exchange import exchanges
from fxtio.formats import formats
from support.in_process import run_fxtio

WIDTHS = (60, 80, 120)
ACTIONS = [["conformance", name] for name in ("run", "list", "copy", "lint", "new-harness", "scoreboard")]


def rows(text: str, title: str) -> dict[str, str]:
    """Return the words and descriptions of a list of a help text."""
    section = text.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
    joined = re.sub(r"\n {4,}", " ", section)
    return dict(re.findall(r"^ {2}(\S+) +(.+)$", joined, re.MULTILINE))


def test_without_arguments_the_help_is_printed() -> None:
    bare = run_fxtio()
    assert (bare.returncode, bare.stderr) == (0, "")
    assert bare.stdout == run_fxtio("--help").stdout == run_fxtio("help").stdout
    assert bare.stdout.startswith("usage: fxtio COMMAND [ARGUMENT ...]\n")


def test_commands_are_listed_by_what_they_are_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = run_fxtio().stdout
    for title, names in GROUPS.items():
        helps = {name: importlib.import_module(f"fxtio.cli.{name}").HELP for name in names}
        assert rows(text, title) == helps
    assert sorted(COMMANDS) == sorted({*chain(*GROUPS.values())})
    modules = {module.name for module in pkgutil.iter_modules(importlib.import_module("fxtio.cli").__path__)}
    commands = {name for name in modules if hasattr(importlib.import_module(f"fxtio.cli.{name}"), "HELP")}
    assert commands == {*COMMANDS}


def test_formats_that_are_read_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    text = run_fxtio().stdout
    listed = rows(text, "formats that are read, compressed or not")
    readable: list[Any] = [*formats().values(), *(each for each in exchanges().values() if each.imports)]
    assert listed.keys() == {each.name for each in readable}
    for each in readable:
        assert each.title in listed[each.name]
        assert all(suffix in listed[each.name] for suffix in each.suffixes)


def test_the_help_says_where_to_go_next() -> None:
    text = run_fxtio().stdout
    _, _, end = text.partition("where to go next:\n")
    for command in re.findall(r"^  fxtio (\w+)", end, re.MULTILINE):
        assert command in COMMANDS
    assert re.search(r"^  https://\S+/docs$", end, re.MULTILINE)


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("words", [[], *([name] for name in COMMANDS), *ACTIONS], ids=" ".join)
def test_help_wraps(words: list[str], columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    text = run_fxtio("help", *words).stdout
    wrapped, _, examples = text.partition("\nexamples:\n")
    assert words == [] or wrapped.startswith(f"usage: fxtio {' '.join(words)} ")
    lines = wrapped.splitlines()
    samples = [line for line in lines if line.startswith("  fxtio ")]
    assert [line for line in lines if len(line) > columns and line not in samples] == []
    assert all(line.startswith("  ") or not line or line.endswith(":") for line in examples.splitlines())


def test_lines_of_a_wide_terminal_are_not_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert max(map(len, run_fxtio("help", "top").stdout.splitlines())) <= 120


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tpo"], "fxtio: error: there is no command 'tpo'; did you mean top?\n"),
        (["timelin", "x.fxt"], "fxtio: error: there is no command 'timelin'; did you mean timeline?\n"),
        (["help", "fnid"], "fxtio: error: there is no command 'fnid'; did you mean find?\n"),
        (["quux"], "fxtio: error: there is no command 'quux'; `fxtio help` lists the commands\n"),
        (["--verison"], "fxtio: error: unrecognized arguments: --verison; did you mean --version?\n"),
        (["top", "--sotr", "x.fxt"], "fxtio top: error: unrecognized arguments: --sotr; did you mean --sort?\n"),
        (["top", "--quux=5", "x.fxt"], "fxtio top: error: unrecognized arguments: --quux=5\n"),
    ],
)
def test_mistyped_words(words: list[str], message: str) -> None:
    done = run_fxtio(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(message)


def test_a_trace_in_the_place_of_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my app.fxt").touch()
    done = run_fxtio("my app.fxt")
    assert done.returncode == 2
    assert done.stderr.endswith("there is no command 'my app.fxt'; to look at the trace my app.fxt: "
                                "fxtio info 'my app.fxt'\n")  # fmt: skip


def test_an_alias_is_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    for alias, name in ALIASES.items():
        helps = []
        for word in alias, name:
            with pytest.raises(SystemExit) as ended:
                main([word, "--help"])
            assert ended.value.code == 0
            helps.append(capsys.readouterr().out)
        assert helps[0] == helps[1]
