"""The command line `fxtio`: it parses the arguments, runs a command, and turns errors into one line and an exit code.

Each command is a module with `NAME`, `HELP`, `add_arguments(parser)` and `run(options)`, which returns the exit code.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from fxtio.cli.common import REFUSED, SEPARATOR, with_joined_times
from fxtio.errors import FxtioError

COMMANDS = (
    "info",
    "top",
    "tree",
    "find",
    "timeline",
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
    "run",
)

RUN = "run"
"""The command that runs a user's program; exceptions of that program are not errors of fxtio."""

_IN_ORDER = frozenset({RUN, "conformance"})
"""Commands whose arguments are those of a program or of a further command, so that their order matters."""

INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 plus the number of SIGINT, as in shells."""

PIPE_CLOSED = 141
"""The exit code when the reader of the output has closed the pipe: 128 plus the number of SIGPIPE."""

_EPILOG = """\
exit status:
  0  success
  1  the trace was read, but it has faults (findings)
  2  wrong usage, or the input cannot be read
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: the arguments; those of the process by default.

    Returns:
        The exit code.

    Raises:
        SystemExit: the arguments are invalid (code 2), or `--help` or `--version` was given (code 0).
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments[:1] == [RUN]:
        return _run_program(arguments)
    if sys.stdout is None:
        return _refuse("standard output is closed")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may have characters that the encoding lacks
    try:
        if arguments[:1] == ["diff"]:  # argparse leaves out what divides the two sides
            arguments = [SEPARATOR if argument == "--" else argument for argument in arguments]
        options = _parse(with_joined_times(arguments))
        _use_unfinished(options)
        code: int = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("fxtio: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return PIPE_CLOSED
    except FxtioError as error:
        return _refuse(str(error))
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:  # it is standard output that failed, for example on a full disk
            _discard_output()
        message = error.strerror or str(error)
        return _refuse(f"{error.filename}: {message}" if error.filename is not None else message)
    return code


def _run_program(arguments: list[str]) -> int:
    """Run `fxtio run`.  Once the user's program has started, its exceptions are not caught here."""
    options = _parse(arguments)
    try:
        start = options.run(options)
    except FxtioError as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    start()
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
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
    parser = _parser(*{RUN} & {name})
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        owner = parser if arguments[0] == unknown[0] else options.parser
        owner.error(f"unrecognized arguments: {' '.join(unknown)}")
    return options


def _describe(command: argparse.ArgumentParser, module: Any) -> None:
    """Declare the arguments of a command, and what runs it."""
    module.add_arguments(command)
    command.set_defaults(run=module.run, parser=command)


def _use_unfinished(options: argparse.Namespace) -> None:
    """Let commands read recordings that have not ended; `recover` finishes them."""
    from fxtio.cli.unfinished import use_unfinished

    use_unfinished(options)


def _refuse(message: str) -> int:
    """Print an error and return the exit code for it."""
    print(f"fxtio: {message}", file=sys.stderr)
    return REFUSED


def _discard_output() -> None:
    """Discard buffered output; otherwise the interpreter reports an error again when it flushes at exit."""
    with contextlib.suppress(OSError):
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, sys.stdout.fileno())
        os.close(null_device)


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
