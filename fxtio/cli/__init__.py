"""The command line: one module for each verb, one exit code for each outcome, one line for each error.

A verb's module has `NAME`, `HELP`, `add_arguments(parser)` and `run(options)`, which returns the exit code.
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

from fxtio.cli.common import REFUSED
from fxtio.errors import FxtioError

VERBS = ("info", "dump", "explain", "stats", "synth", "merge", "recover", "run")

RUN = "run"
"""The verb that runs a program of somebody else."""

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it: 128 and the number of the signal."""

PIPE_CLOSED = 141
"""The exit code when nobody reads the output any more, likewise."""

_EPILOG = """\
exit status:
  0  fine
  1  there are findings: something is wrong with the trace
  2  wrong usage, or nothing that can be read
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: the arguments, those of the process unless given.

    Returns:
        The exit code.

    Raises:
        SystemExit: the arguments make no sense (2), or help or the version was asked for (0).
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments[:1] == [RUN]:
        return _run_program(arguments)
    if sys.stdout is None:
        return _refuse("standard output is closed")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name may hold what the terminal's encoding does not
    try:
        options = _parser().parse_args(arguments)
        code: int = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return PIPE_CLOSED
    except FxtioError as error:
        return _refuse(str(error))
    except OSError as error:
        told = error.strerror or str(error)
        return _refuse(f"{error.filename}: {told}" if error.filename is not None else told)
    return code


def _run_program(arguments: list[str]) -> int:
    """`fxtio run`: from where the program begins, everything that is raised is its own."""
    options = _parser(RUN).parse_args(arguments)
    try:
        start = options.run(options)
    except FxtioError as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    start()
    return 0


def _refuse(message: str) -> int:
    print(f"fxtio: {message}", file=sys.stderr)
    return REFUSED


def _discard_output() -> None:
    """Let what is still buffered go nowhere, lest the interpreter complains about it at its end."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _parser(*only: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fxtio",
        description="Read, inspect and write traces.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, help="show the version, and which C extensions are there")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name in only or VERBS:
        module = import_module(f"fxtio.cli.{name}")
        verb = verbs.add_parser(module.NAME, help=module.HELP, description=f"{module.HELP}.", allow_abbrev=False)
        module.add_arguments(verb)
        verb.set_defaults(run=module.run)
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
