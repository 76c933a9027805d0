"""Tests that run the documents: every ```python and ```console block of README.md and docs/, in order, page by page.

The blocks of a page share a namespace and a working directory, which has `tests/corpus`, `docs` and
`examples` as a checkout has them.  In a console
block, a line that begins with `$ ` is a command.  A line that begins with a command of fxtio runs it in this process,
unless it records.  If output follows, the command must print it; `...` matches anything, and runs of blanks are equal.
A block is not run if the line before it is `<!-- not run -->`, and is saved as a file instead, in any language, if that
line is `<!-- file: name.py -->`.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fxtio import tracer
from fxtio.cli.parser import COMMANDS, parse
from fxtio.tracer.functions import FunctionNames
from support.checkout import CHECKOUT, CORPUS
from support.fake_torch import write_torch
from support.in_process import run_fxtio

FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = "<!-- not run -->"
SAVED = re.compile(r"<!-- file: (\S+) -->")
BUILT = {"_build", "_generated"}
RECORDS = re.compile(r"fxtio run|fxtio\.(start|tracing|dump)")
IN_PROCESS = re.compile(r"""(fxtio (?!run |.* -o - )(?:[\w./=:,+% -]|'[^']*'|"[^"$`\\]*")+?)(\s*(?:2?>|[|;&]).*)?""")
"""A command of fxtio that needs no process of its own, and what a shell does with its output and its exit status.

A command that writes a trace to its standard output is not among them: only text is passed on.
"""

SKILL = CHECKOUT / "fxtio" / "cli" / "SKILL.md"
SKILL_PROGRAMS = {
    "app.py": "import time\ndef work(n):\n    time.sleep(0.002)\n    return n\nfor n in range(9):\n    work(n)\n",
    "test_app.py": "import time\ndef test_fast():\n    pass\ndef test_slow():\n    time.sleep(0.03)\n",
    "service.py": "import asyncio, time\nasync def handle():\n    time.sleep(0.05)\nasyncio.run(handle())\n",
    "train.py": "import torch\ndef step():\n    torch.mm()\nfor _ in range(3):\n    step()\n",
}
"""What an agent that follows the skill would have already."""

COMMAND_PAGES = CHECKOUT / "docs" / "reference" / "commands"


@dataclass(frozen=True)
class Block:
    language: str
    line: int  # of the first line of the body
    body: str
    file: str = ""  # the name of the file to save it as, instead of running it


def blocks(text: str) -> Iterator[Block]:
    for match in FENCE.finditer(text):
        before = text[: match.start()].rstrip().rpartition("\n")[2]
        file = SAVED.fullmatch(before)
        if file or (match["language"] in {"python", "console"} and before != NOT_RUN):
            line = text.count("\n", 0, match.start("body")) + 1
            yield Block(match["language"], line, match["body"], file[1] if file else "")


def pages() -> list[Path]:
    docs = [path for path in sorted((CHECKOUT / "docs").rglob("*.md")) if not BUILT.intersection(path.parts)]
    return [path for path in (CHECKOUT / "README.md", SKILL, *docs) if any(blocks(path.read_text(encoding="utf-8")))]


def run_in_process(command: str, rest: str | None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command of fxtio in this process, and let a shell do the rest of the line with what it gave."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", options["env"]["PATH"])
        done = run_fxtio(*shlex.split(command)[1:])
    if rest is None:
        return done
    replay = f"(cat; printf %s {shlex.quote(done.stderr)} >&2; exit {done.returncode})"
    return subprocess.run(replay + rest, input=done.stdout, check=False, **options)


def run_console(body: str, where: str) -> None:
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYTEST_ADDOPTS": ""}  # the options of this run are not those of a user
    shell: dict[str, Any] = {
        "shell": True, "capture_output": True, "text": True, "env": environment, "timeout": 120,
    }  # fmt: skip
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        if begin := IN_PROCESS.fullmatch(command):
            child = run_in_process(*begin.groups(), **shell)
        else:
            child = subprocess.run(command, check=False, **shell)
        assert child.returncode == 0, f"{where}: {command}: exit status {child.returncode}\n{child.stderr}"
        if expected.strip():
            is_equal = doctest.OutputChecker().check_output(expected, child.stdout, options)
            assert is_equal, f"{where}: {command} printed\n{child.stdout}"


def marked(page: Path) -> Any:
    """Return the page as a parameter; one that records a program needs the recorder and depends on the version."""
    text = page.read_text(encoding="utf-8")
    records = any(RECORDS.search(block.body) for block in blocks(text))
    return pytest.param(
        page, id=str(page.relative_to(CHECKOUT)), marks=pytest.mark.recorder if records else pytest.mark.once
    )


@pytest.mark.full
@pytest.mark.parametrize("page", list(map(marked, pages())))
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page == SKILL:
        found = f"import sys\n{write_torch(tmp_path / 'modules')}\n"
        for name, source in SKILL_PROGRAMS.items():
            (tmp_path / name).write_text(found + source, encoding="utf-8")
    else:
        (tmp_path / "tests").mkdir()
        (tmp_path / "tests" / "corpus").symlink_to(CORPUS)
        for name in ("docs", "examples"):
            (tmp_path / name).symlink_to(CHECKOUT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)  # the options of this run are none of a run in a page
    monkeypatch.setattr("fxtio.tracer.decorate._names", FunctionNames())  # other tests have functions of these names
    namespace: dict[str, object] = {"__name__": "page"}
    page_blocks = list(blocks(page.read_text(encoding="utf-8")))
    for block in page_blocks:
        if block.file:
            Path(block.file).write_text(block.body, encoding="utf-8")
    for block in page_blocks:
        if block.file:
            continue
        if block.language == "console":
            run_console(block.body, f"{page}:{block.line}")
        else:
            # Begin with empty lines, so that a traceback has the line numbers of the page.
            exec(compile("\n" * (block.line - 1) + block.body, str(page), "exec"), namespace)


@pytest.mark.once
def test_every_command_has_a_page_with_its_options() -> None:
    """The directive takes them from the parser, see `docs/command_options.py`."""
    pages = {path.stem: path.read_text("utf-8") for path in COMMAND_PAGES.glob("*.md") if path.stem != "index"}
    assert {*pages} == {*COMMANDS}
    assert [name for name, text in pages.items() if f"\n:::{{options}} {name}" not in text] == []


@pytest.mark.once
def test_the_readme_has_every_command() -> None:
    rows = re.findall(r"^\| (`fxtio .*?) \|", (CHECKOUT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"`fxtio (\w+)`", " ".join(rows))) == {*COMMANDS}


@pytest.mark.once
def test_commands_of_the_readme_can_be_typed_in_a_checkout() -> None:
    """A file that a command reads is one of the checkout, or an earlier block has written it."""
    text = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    written: set[str] = set()
    for block in blocks(text):
        if block.file:
            written.add(block.file)
        elif block.language == "python":
            written |= set(re.findall(r"create\(\"([\w.]+)\"", block.body))
        for command in re.findall(r"^\$ (.*)$", block.body, re.MULTILINE):
            words = shlex.split(command.partition("|")[0])
            outputs = [words[place + 1] for place, word in enumerate(words) if word == "-o"]
            files = {word for word in words[1:] if re.fullmatch(r"[\w./-]+\.(fxt|py|json)", word)}
            read = files - {*outputs}
            if words[:2] == ["fxtio", "convert"]:
                read.discard(words[-1])
            assert [name for name in read if name not in written and not (CHECKOUT / name).exists()] == [], command
            written |= {*outputs, *(["load.fxt"] if words == ["python", "load.py"] else [])}


@pytest.mark.once
def test_commands_within_the_sentences_of_the_skill_can_be_typed() -> None:
    text = FENCE.sub("", SKILL.read_text(encoding="utf-8"))
    commands = re.findall(r"`fxtio ([^`]*)`", text)
    assert len(commands) > 4
    for command in commands:
        parse(shlex.split(command))


@pytest.mark.once
def test_functions_of_the_tracer_are_on_its_page() -> None:
    text = (CHECKOUT / "docs" / "reference" / "tracing.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\.\. [\w:]+:: fxtio\.(\w+)\b", text, re.MULTILINE))
    assert {name for name in tracer.__all__ if name.islower()} - described == set()


@pytest.mark.once
def test_code_blocks_are_extracted() -> None:
    text = f"a\n\n```python\nx = 1\n```\n\n{NOT_RUN}\n\n```python\nno\n```\n\n```sh\nls\n```\n\n```console\n$ ls\n```\n"
    assert list(blocks(text)) == [Block("python", 4, "x = 1\n"), Block("console", 18, "$ ls\n")]


@pytest.mark.once
def test_console_output_is_compared() -> None:
    run_console("$ printf 'a 1\\nb 2\\n'\na   1\n...\n$ true\n", "here")
    with pytest.raises(AssertionError, match="printed"):
        run_console("$ echo a\nb\n", "here")
    with pytest.raises(AssertionError, match="exit status 1"):
        run_console("$ false\n", "here")
    run_console("$ fxtio info no.fxt 2>&1 || echo $?\n...no.fxt...\n2\n$ fxtio --help | grep -c '^usage'\n1\n", "here")
