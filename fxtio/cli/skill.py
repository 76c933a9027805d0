"""The command `fxtio skill`: a skill for agents, a text that says which commands answer which question."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib.resources import files
from pathlib import Path

from fxtio.cli import console, inputs

HELP = "Print or install a skill, by which agents know how to find out why a program is slow"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    install_help = "write it as DIR/fxtio/SKILL.md instead, where DIR is the folder with the skills of an agent"
    parser.add_argument("--install", metavar="DIR", help=install_help)
    inputs.add_examples(parser, "fxtio skill", "fxtio skill --install ~/.claude/skills")


def run(options: Namespace) -> int:
    """Print or write the skill, and return the exit code."""
    from fxtio.io.sink import whole_file

    text = files("fxtio.cli").joinpath("SKILL.md").read_text("utf-8")
    if options.install is None:
        print(text, end="")
        return console.FINE
    path = Path(options.install, "fxtio", "SKILL.md")
    path.parent.mkdir(parents=True, exist_ok=True)
    name, _ = text.split("description:", 1)
    if path.exists() and not path.read_text("utf-8", "replace").startswith(name):
        raise inputs.UsageError(f"{path} is not the skill of fxtio; it is left as it is")
    with whole_file(str(path)) as sink:
        sink.write(text.encode())
    console.say_written("the skill", str(path))
    return console.FINE
