"""`fxtio run`: run a Python program and record what it does."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from fxtio.errors import FxtioError

NAME = "run"
HELP = "Run a Python program and record it"

_DESCRIPTION = """\
Run a Python program and record it, as a trace that opens in Perfetto (https://ui.perfetto.dev).  The program is run as
`python` itself would run it: arguments, output, exit status and signals are its own.

  fxtio run app.py --its-own-option
  fxtio run -o app.fxt.zst -m package.module arguments
  fxtio run --include myapp --min-duration 10us app.py

Without --spans-only the calls of all Python functions are recorded; what the program marks itself (fxtio.span,
fxtio.trace, ...) is recorded in any case.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = _DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("-o", "--output", default="trace.fxt", metavar="FILE", help="the trace (trace.fxt); .zst and .gz compress")
    add("--spans-only", action="store_true", help="record only what the program marks itself")
    add("--c-functions", action="store_true", help="record the calls of C functions as well")
    add("--include", action="append", default=[], metavar="WHERE", help="only functions of this module, file or folder")
    add("--exclude", action="append", default=[], metavar="WHERE", help="no functions of this module, file or folder")
    add("--category", action="append", default=[], metavar="NAME", help="only this category, or with -NAME all others")
    add("--source", action="append", default=[], metavar="NAME", help="record another source, such as gc, or all")
    add("--min-duration", default=0, metavar="TIME", help="leave out shorter calls, such as 10us")
    add("--max-depth", type=int, default=0, metavar="N", help="leave out calls that are nested deeper")
    add("--max-size", default=0, metavar="SIZE", help="stop recording when the file has this size, such as 1GiB")
    add("--ring", metavar="SIZE", help="keep only the last events, about this many bytes, such as 64MiB")
    add("--dump-on", action="append", default=[], metavar="WHEN", help="dump on exception, SIGUSR2 or slow:100ms")
    add("--no-children", action="store_true", help="do not record the processes that the program starts")
    add("-q", "--quiet", action="store_true", help="do not print at the end what was recorded")
    add("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE ...", help="run a module, with arguments")
    add("-c", dest="code", nargs=argparse.REMAINDER, metavar="CODE ...", help="run this code, with arguments")
    add("program", nargs=argparse.REMAINDER, metavar="script ...", help="the script, with arguments")


def run(options: argparse.Namespace) -> Callable[[], None]:
    """Begin to record.

    Returns:
        A function that runs the program.

    Raises:
        FxtioError: the recorder is missing, there is no such program, or an option makes no sense.
        OSError: the trace cannot be written.
    """
    from fxtio.tracer import program, session
    from fxtio.tracer.backend import require_recorder

    require_recorder()
    if options.output == "-":
        raise FxtioError("a recording is a file, not a stream: give it a name, or /dev/shm/... to keep it in memory")
    try:
        target = _program(options)
        recording_options = _options(options)
        target.enter()
        session.begin(recording_options)
    except (program.ProgramError, ValueError) as error:
        raise FxtioError(str(error)) from None
    if not options.quiet:
        session.report_at_exit()
    start: Callable[[], None] = target.run
    return start


def _program(options: argparse.Namespace) -> Any:
    from fxtio.tracer import program

    for words, make in (
        (options.module, program.of_module),
        (options.code, program.of_code),
        (options.program, program.of_script),
    ):
        if words:
            return make(words[0], words[1:])
    raise program.ProgramError("there is nothing to run: give a script, -m MODULE or -c CODE")


def _options(options: argparse.Namespace) -> Any:
    from fxtio.tracer.options import Options

    return Options(
        options.output,
        categories=options.category,
        functions=not options.spans_only,
        c_functions=options.c_functions,
        include=options.include,
        exclude=options.exclude,
        max_depth=options.max_depth,
        min_duration=options.min_duration,
        max_size=options.max_size,
        ring=options.ring,
        dump_on=options.dump_on,
        children=not options.no_children,
        sources=options.source,
    )
