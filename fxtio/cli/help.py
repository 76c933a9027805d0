"""The command `fxtio help`: the help of a command, as `--help` prints it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from fxtio.cli import console, inputs

HELP = "Show the help of a command"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    command_help = "the command; without one, all commands are listed"
    parser.add_argument("words", nargs="*", metavar="COMMAND", help=command_help)
    inputs.add_examples(parser, "fxtio help", "fxtio help top", "fxtio help conformance run")


def run(options: Namespace) -> int:
    """Print the help and return the exit code.

    Raises:
        SystemExit: always, as from `--help`; with code 2 if there is no such command.
    """
    from fxtio.cli.parser import parse

    parse([*options.words, "--help"])
    return console.FINE
