"""Completion with the tab key in real shells: bash, zsh and fish, with the scripts that `fxtio completion` prints."""

from __future__ import annotations

import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fxtio.cli.completion import SCRIPTS
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
    "fxtio cut one.fxt -o two.": {"two.fxt"},
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
    """Return a folder with files, the three scripts and the program that they ask, in which the shells start."""
    for name in ("one.fxt", "two.fxt", "prog.py"):
        (tmp_path / name).touch()
    (tmp_path / "other dir").mkdir()
    (tmp_path / "scripts").mkdir()
    for shell in SCRIPTS:
        done = run_fxtio("completion", shell)
        assert (done.returncode, done.stderr) == (0, "")
        (tmp_path / "scripts" / shell).write_text(done.stdout)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "fxtio"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m fxtio "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
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


# ---- what the scripts ask for


def asked(monkeypatch: pytest.MonkeyPatch, *arguments: str, shell: str = "fish") -> tuple[str, dict[str, str]]:
    """Return what completes the last argument: the kind, and the words with their descriptions."""
    monkeypatch.setenv("_FXTIO_COMPLETE", shell)
    done = run_fxtio(*arguments)
    monkeypatch.delenv("_FXTIO_COMPLETE")
    assert (done.returncode, done.stderr) == (0, "")
    kind, *lines = done.stdout.splitlines()
    return kind, {word: text for word, _, text in (line.partition("\t") for line in lines)}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_offered(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, children = asked(monkeypatch, command, "") if command == "conformance" else ("", {})
    for path in ((command,), *((command, child) for child in children)):
        usage = run_fxtio(*path, "--help").stdout
        in_help = set(re.findall(r"^  (?:-\w(?: [^ ]+)?, )?(--?[a-z][\w-]*)", usage, re.MULTILINE))
        kind, options = asked(monkeypatch, *path, "-")
        assert kind == "words"
        assert in_help | {"-h", "--help"} <= {*options}
        assert all(options.values())


@pytest.mark.parametrize(
    ("words", "kind", "some"),
    [
        (["--v"], "words", {"--version"}),
        (["nosuch", ""], "words", set()),
        (["conformance", "nosuch", ""], "words", set()),
        (["conformance", "run", ""], "files", set()),
        (["run", ""], "files", set()),
        (["run", "-c", "--sp"], "files", set()),
        (["top", "--sort=m"], "words", {"median", "max"}),
        (["top", "--sort", "=", "m"], "words", {"median", "max"}),
        (["top", "--sort", "="], "words", {"self", "total", "calls", "median", "waiting", "p99", "max"}),
        (["top", "--format", "ux"], "words", set()),
        (["top", "--format", "uf"], "words", {"uftrace"}),
        (["diff", "a", "--", "b"], "files", set()),
        (["conformance", "list", "--kit", ""], "folders", set()),
    ],
)
def test_what_completes_a_word(words: list[str], kind: str, some: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = asked(monkeypatch, *words)
    assert (found[0], {*found[1]}) == (kind, some)


def test_shells_get_descriptions_as_they_show_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(monkeypatch, "he") == ("words", {"help": "Show the help of a command"})
    assert asked(monkeypatch, "he", shell="zsh") == ("words", {"help:Show the help of a command": ""})
    assert asked(monkeypatch, "he", shell="bash") == ("words", {"help": ""})


def test_completing_imports_little() -> None:
    """A key is pressed, and the answer comes at once."""
    lines = [["t"], ["top", "--sort", "m"], ["convert", "--to", "sp"], ["conformance", "run", "--"]]
    code = f"""if True:
        import sys
        from fxtio.cli import main
        for line in {lines}:
            main(line)
        print({{"numpy", "construct"}} & {{*sys.modules}})
    """
    environment = {**os.environ, "_FXTIO_COMPLETE": "fish"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        timeout=PATIENCE,
    )
    assert "speedscope\n" in done.stdout
    assert done.stdout.endswith("set()\n")


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


@pytest.mark.full
@pytest.mark.once
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
