"""Completion with the tab key in real shells: bash, zsh and fish, with the scripts that `fxtio completion` prints."""

from __future__ import annotations

import os
import pty
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from fxtio.cli.completion_model import Argument, Command, Kind, fxtio_command
from fxtio.cli.completion_scripts import SCRIPTS
from fxtio.cli.parser import COMMANDS
from support.in_process import run_fxtio
from support.limits import PATIENCE

REQUIRED = bool(os.environ.get("FXTIO_REQUIRE_SHELLS"))
"""Tests fail without zsh and fish, as they do in the CI; else they are skipped."""

CASES: dict[str, set[str]] = {
    "fxtio ": {*COMMANDS},
    "fxtio t": {"timeline", "top", "tree"},
    "fxtio top --so": {"--sort"},
    "fxtio top --sort ": {"self", "total", "calls", "median", "waiting", "p99", "max"},
    "fxtio top --sort m": {"median", "max"},
    "fxtio top one.fxt --sort=m": {"median", "max"},
    "fxtio top --what s": {"slices", "samples", "sched"},
    "fxtio info o": {"one.fxt", "other dir"},
    "fxtio top -n 3 one.f": {"one.fxt"},
    "fxtio slice one.fxt -o two.": {"two.fxt"},
    "fxtio conformance ": {"run", "list", "copy", "lint", "new-harness", "scoreboard"},
    "fxtio conformance run --mode ": {"exec", "serve"},
    "fxtio conformance list --op": {"--operation"},
    "fxtio conformance run --kit o": {"other dir"},
    "fxtio convert one.fxt x --to sp": {"speedscope"},
    "fxtio completion ": {"bash", "zsh", "fish"},
    "fxtio help ti": {"timeline"},
    "fxtio run --spans": {"--spans-only"},
    "fxtio run --spans-only pro": {"prog.py"},
    "fxtio run -o a.fxt --inc": {"--include"},
    "fxtio run prog.py --spans": set(),
    "fxtio run -o prog.py --spans": {"--spans-only"},
    "fxtio run -m module --spans": set(),
    "fxtio top --nosuch": set(),
    "fxtio top --unit o": set(),
}
"""What can follow: the words that complete the last one."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with files and the three scripts, in which the shells start."""
    for name in ("one.fxt", "two.fxt", "prog.py"):
        (tmp_path / name).touch()
    (tmp_path / "other dir").mkdir()
    (tmp_path / "scripts").mkdir()
    for shell in SCRIPTS:
        done = run_fxtio("completion", shell)
        assert (done.returncode, done.stderr) == (0, "")
        (tmp_path / "scripts" / shell).write_text(done.stdout)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "scripts"))
    return tmp_path


def run_shell(*command: str, script: str) -> str:
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stderr == "", done.stderr
    assert done.returncode == 0
    return done.stdout


def needs(shell: str) -> None:
    if shutil.which(shell) is None:
        (pytest.fail if REQUIRED else pytest.skip)(f"{shell} is missing (Debian: apt-get install {shell})")


# ---- what the scripts are made of


def walk(command: Command) -> list[Argument]:
    return [argument for each in command.all() for argument in (*each.options, *each.arguments)]


def test_everything_that_is_declared_is_in_the_model() -> None:
    root = fxtio_command()
    assert [command.path for command in root.commands] == [(name,) for name in COMMANDS]
    for command in root.all():
        usage = run_fxtio(*command.path, "--help").stdout
        declared = {name for option in command.options for name in option.names}
        in_help = set(re.findall(r"^  (?:-\w(?: [^ ]+)?, )?(--?[a-z][\w-]*)", usage, re.MULTILINE))
        assert {"-h", "--help"} <= declared
        assert in_help <= declared
    words = [argument for argument in walk(root) if argument.kind is Kind.WORDS]
    assert all(argument.words for argument in words)
    assert any(argument.kind is Kind.FOLDER for argument in walk(root))


@pytest.mark.parametrize("shell", SCRIPTS)
def test_scripts_have_every_option(shell: str) -> None:
    script = run_fxtio("completion", shell).stdout
    for argument in walk(fxtio_command()):
        for name in argument.names:
            bare = name.lstrip("-") if shell == "fish" else name
            assert re.search(rf"(?<![\w-]){re.escape(bare)}(?![\w-])", script), name


def test_help_texts_are_no_code() -> None:
    """A text with characters that shells take for theirs stays a text."""
    text = "it's [a] 'b': $(touch pwned) `touch pwned` \\ \"x\" %s"
    option = Argument(("--odd",), text, "V:[x]'", Kind.TEXT, (), repeats=False)
    root = Command((), "", (), (), (Command(("odd",), text, (option,), (), ()),))
    for shell, make in SCRIPTS.items():
        if shutil.which(shell) is not None and shell == "bash":
            subprocess.run([shell, "-n"], input=make(root), text=True, check=True, timeout=PATIENCE)
        assert "$(touch pwned)" not in re.sub(r"'[^']*'", "", make(root).replace("\\'", "").replace("'\"'\"'", ""))


# ---- the shells

INSERT_ALL, SHOW = b"\x07", b"\x14"  # Ctrl-G and Ctrl-T

BASH = r"""
source scripts/bash
bind '"\C-g": insert-completions'
bind -x '"\C-t": printf "<%s>\n" "$READLINE_LINE"'
echo re''ady
"""

ZSH = r"""
PS1='> '; fpath=($PWD/scripts $fpath)
autoload -Uz compinit && compinit -u -d scripts/dump
zstyle ':completion:*' completer _all_matches _complete
zstyle ':completion:*' insert yes
bindkey '^g' complete-word
show() { print -r -- "<$BUFFER>" }
zle -N show; bindkey '^t' show
echo re''ady
"""


def bare(word: str) -> str:
    """Return a word without what shells add: the end of a folder, the option before its value."""
    return word.rstrip("/=").rpartition("=")[2]


class Terminal:
    """A shell in a terminal."""

    def __init__(self, command: list[str], setup: str) -> None:
        self._leader, follower = pty.openpty()
        environment = {**os.environ, "PS1": "> ", "TERM": "dumb", "INPUTRC": "/dev/null", "COLUMNS": "2000"}
        environment.pop("PROMPT_COMMAND", None)
        self._child = subprocess.Popen(
            command, stdin=follower, stdout=follower, stderr=follower, env=environment, start_new_session=True
        )
        os.close(follower)
        for line in setup.strip().splitlines():
            os.write(self._leader, f"{line}\n".encode())
        self._read_until(r"\nready\r?\n")

    def _read_until(self, pattern: str) -> str:
        text = ""
        while not re.search(pattern, text):
            text += os.read(self._leader, 1 << 16).decode(errors="replace")
        return text

    def completed(self, line: str) -> set[str]:
        """Return the words that complete the last word of a line."""
        os.write(self._leader, line.encode() + INSERT_ALL + SHOW)
        shown = re.findall(r"<(fxtio[^>]*)>", self._read_until(r"<fxtio[^>]*>"))[-1]
        os.write(self._leader, b"\x15")  # Ctrl-U: an empty line again
        stem = re.sub(r"[^ =]*$", "", line)
        assert shown.startswith(stem)
        words = set() if shown.rstrip() == line.rstrip() else {*shlex.split(shown[len(stem) :])}
        return {bare(word) for word in words}

    def close(self) -> None:
        """End the shell."""
        os.write(self._leader, b"exit\n")
        self._child.wait(PATIENCE)
        os.close(self._leader)


def test_bash(folder: Path) -> None:
    terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], BASH)
    found = {line: terminal.completed(line) for line in CASES}
    terminal.close()
    assert found == CASES


@pytest.mark.full
@pytest.mark.once
def test_zsh(folder: Path) -> None:
    needs("zsh")
    (folder / "scripts" / "zsh").rename(folder / "scripts" / "_fxtio")
    terminal = Terminal(["zsh", "-f", "-i"], ZSH)
    found = {line: terminal.completed(line) for line in CASES}
    terminal.close()
    assert found == CASES


@pytest.mark.full
@pytest.mark.once
def test_zsh_takes_the_script_when_it_starts(folder: Path) -> None:
    needs("zsh")
    script = "autoload -Uz compinit; compinit -u -d scripts/dump; source scripts/zsh; print $_comps[fxtio]\n"
    assert run_shell("zsh", "-f", script=script) == "_fxtio\n"


@pytest.mark.full
@pytest.mark.once
def test_fish(folder: Path) -> None:
    needs("fish")
    lines = "".join(f"echo = {shlex.quote(line)}; complete -C {shlex.quote(line)}\n" for line in CASES)
    printed = run_shell("fish", "--no-config", script=f"source scripts/fish\n{lines}")
    found: dict[str, set[str]] = {}
    for part in printed.split("= fxtio")[1:]:
        line, *matches = part.splitlines()
        found[f"fxtio{line}"] = {bare(match.partition("\t")[0]) for match in matches}
    assert found == CASES
