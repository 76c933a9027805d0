"""The command line `fxtio`: it parses the arguments, runs a command, and turns errors into one line and an exit code.

`fxtio run` takes the time of the program that it records, so nothing is imported for it that it does not need.  The
other commands are in `fxtio.cli.parser`.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

from fxtio.cli import run
from fxtio.errors import FxtioError, add_file_name, described

INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 plus the number of SIGINT, as in shells."""

FAULT = 70
"""The exit code after an exception that nobody foresaw, EX_SOFTWARE of BSD: that of Python is 1, as after findings."""

PIPE_CLOSED = 141
"""The exit code when the reader of the output has closed the pipe: 128 plus the number of SIGPIPE."""


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
    if shell := os.environ.get("_FXTIO_COMPLETE"):
        from fxtio.cli.completion import complete

        return complete(shell, arguments)
    if arguments[:1] == ["run"]:
        return _run_program(arguments)
    if sys.stdout is None:
        return _refuse("standard output is closed")
    if sys.stderr is None:  # `print` would write to standard output, into the data
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may have characters that the encoding lacks
    try:
        from fxtio.cli.parser import parse_command

        options = parse_command(arguments)
        code: int = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("fxtio: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return PIPE_CLOSED
    except MemoryError:
        return _refuse("out of memory")
    except FxtioError as error:
        return _refuse(str(error))
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:  # it is standard output that failed, for example on a full disk
            _discard_output()
            from fxtio.io.sink import STDOUT

            add_file_name(error, STDOUT)
        return _refuse(described(error))
    except Exception:  # noqa: BLE001  # whatever it is, it is no finding
        import traceback

        traceback.print_exc()
        return FAULT
    return code


def _run_program(arguments: list[str]) -> int:
    """Run `fxtio run`.  Once the user's program has started, its exceptions are not caught here."""
    options: Any = run.parse_usual(arguments[1:])
    if options is None:
        from fxtio.cli.parser import parse

        options = parse(arguments)
    try:
        if options.open:
            from fxtio.cli.open import run_and_open

            return run_and_open(arguments, options)
        start = run.run(options)
    except FxtioError as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(described(error))
    start()
    return 0


def _refuse(message: str) -> int:
    """Print an error, which may quote a trace, and return the exit code for it."""
    from fxtio.cli.console import REFUSED
    from fxtio.report import printable

    if sys.stderr is not None:
        print("\n".join(map(printable, f"fxtio: {message}".split("\n"))), file=sys.stderr)
    return REFUSED


def _discard_output() -> None:
    """Discard buffered output; otherwise the interpreter reports an error again when it flushes at exit."""
    with contextlib.suppress(OSError):
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, sys.stdout.fileno())
        os.close(null_device)
