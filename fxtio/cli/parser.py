"""The parser of the command line, made of the arguments that the commands declare.

Each command is a module with `NAME`, `HELP`, `add_arguments(parser)` and `run(options)`, which returns the exit code.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from fxtio.cli import run
from fxtio.cli.common import SEPARATOR, with_joined_times
from fxtio.cli.unfinished import use_unfinished

COMMANDS = (
    "info",
    "top",
    "tree",
    "find",
    "timeline",
    "open",
    "report",
    "dump",
    "explain",
    "stats",
    "validate",
    "query",
    "diff",
    "check",
    "synth",
    "slice",
    "merge",
    "convert",
    "recover",
    "conformance",
    "attach",
    "run",
)

_IN_ORDER = frozenset({run.NAME, "conformance"})
"""Commands whose arguments are those of a program or of a further command, so that their order matters."""

_EPILOG = """\
exit status:
  0  success
  1  the trace was read, but it has faults (findings)
  2  wrong usage, or the input cannot be read
"""


def parse_command(arguments: list[str]) -> argparse.Namespace:
    """Parse the arguments of a command that reads or writes traces; unfinished recordings stand for their traces.

    Raises:
        SystemExit: the arguments are invalid (code 2), or `--help` or `--version` was given (code 0).
    """
    if arguments[:1] == ["diff"]:  # argparse leaves out what divides the two sides
        arguments = [SEPARATOR if argument == "--" else argument for argument in arguments]
    options = parse(with_joined_times(arguments))
    use_unfinished(options)
    return options


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse arguments; an unknown one is an error with the usage of its command, or of `fxtio` if it comes before.

    Options may stand between the other arguments, as in `fxtio query app.fxt --csv 'select 1'`.
    """
    name = arguments[0] if arguments else ""
    if name in COMMANDS and name not in _IN_ORDER:
        module = import_module(f"fxtio.cli.{name}")
        command = argparse.ArgumentParser(
            prog=f"fxtio {module.NAME}", description=f"{module.HELP}.", allow_abbrev=False
        )
        _describe(command, module)
        options, unknown = command.parse_known_intermixed_args(arguments[1:])
        if unknown:
            command.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options
    parser = _parser(*{run.NAME} & {name})
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        owner = parser if arguments[0] == unknown[0] else options.parser
        owner.error(f"unrecognized arguments: {' '.join(unknown)}")
    return options


def _describe(command: argparse.ArgumentParser, module: Any) -> None:
    """Declare the arguments of a command, and what runs it."""
    module.add_arguments(command)
    command.set_defaults(run=module.run, parser=command)


def _parser(*only: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fxtio",
        description="Record Python programs, and read, inspect and write traces.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, help="show the version, and which C extensions are there")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in only or COMMANDS:
        module = import_module(f"fxtio.cli.{name}")
        command = commands.add_parser(module.NAME, help=module.HELP, description=f"{module.HELP}.", allow_abbrev=False)
        _describe(command, module)
    return parser


class _Version(argparse.Action):
    """Print the version, and whether the C extensions are there."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *ignored: Any) -> None:
        from fxtio import __version__
        from fxtio._native.extensions import status

        print(f"fxtio {__version__}", *status(), sep="\n")
        parser.exit()
