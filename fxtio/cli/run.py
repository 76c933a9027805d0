"""`fxtio run`: run a Python program and record what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from fxtio.errors import FxtioError
from fxtio.record_arguments import SWITCH, WHAT_TO_RECORD, declare, options_of

if TYPE_CHECKING:
    from argparse import ArgumentParser

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


_REST = "..."
"""All arguments that follow: `argparse.REMAINDER`, without its import."""

ARGUMENTS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    declare("-o", "--output", default="trace.fxt", metavar="FILE", help="the trace (trace.fxt); .zst and .gz compress"),
    *WHAT_TO_RECORD,
    declare("--ring", metavar="SIZE", help="keep only the last events, about this many bytes, such as 64MiB"),
    declare(
        "--dump-on",
        action="append",
        default=[],
        metavar="WHEN",
        help="dump on exception, SIGUSR2, slow:100ms or blocking:100ms",
    ),
    declare("--no-children", action=SWITCH, help="do not record the processes that the program starts"),
    declare("--open", action=SWITCH, help="show the trace in a browser when the program has ended, see `fxtio open`"),
    declare("-q", "--quiet", action=SWITCH, help="do not print at the end what was recorded"),
    declare("-m", dest="module", nargs=_REST, metavar="MODULE ...", help="run a module, with arguments"),
    declare("-c", dest="code", nargs=_REST, metavar="CODE ...", help="run this code, with arguments"),
    declare("program", nargs=_REST, metavar="script ...", help="the script, with arguments"),
)
"""The arguments, as the method `add_argument` of a parser takes them."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = _DESCRIPTION
    for names, settings in ARGUMENTS:
        parser.add_argument(*names, **settings)


def parse_usual(arguments: Sequence[str]) -> SimpleNamespace | None:
    """Parse what follows `fxtio run` in its usual form without `argparse`, whose import the program would pay for.

    Returns:
        The options, as `argparse` would return them, or None if `argparse` has to parse or to refuse them.
    """
    values: dict[str, Any] = {}
    declared = {}
    for names, settings in ARGUMENTS:
        target = settings.get("dest") or names[-1].lstrip("-").replace("-", "_")
        values[target] = settings.get("default", False if settings.get("action") == SWITCH else None)
        declared.update(dict.fromkeys(names, (target, settings)))
    rest = [] if "--" in arguments else list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "-" or not word.startswith("-"):
            return SimpleNamespace(**values | {"program": [word, *rest]})
        if name not in declared or (equals and not name.startswith("--")):
            return None
        target, settings = declared[name]
        if settings.get("nargs") == _REST:
            return None if equals or not rest else SimpleNamespace(**values | {target: rest, "program": []})
        if settings.get("action") == SWITCH:
            if equals:
                return None
            values[target] = True
            continue
        if not equals:
            value = rest.pop(0) if rest else ""
            if value.startswith("-"):
                return None
        try:
            values[target] = _with(values[target], settings, value)
        except ValueError:
            return None
    return None


def _with(present: Any, settings: dict[str, Any], value: str) -> Any:
    """Return the value of an option after it was given once more.

    Raises:
        ValueError: it cannot have this value.
    """
    if not value:
        raise ValueError("empty")
    converted = settings.get("type", str)(value)
    return [*present, converted] if settings.get("action") == "append" else converted


def run(options: Any) -> Callable[[], None]:
    """Begin to record, and return a function that runs the program.

    Raises:
        FxtioError: the recorder is missing, there is no such program, or an option makes no sense.
        OSError: the trace cannot be written.
    """
    from fxtio.tracer import program, session
    from fxtio.tracer.backend import require_recorder
    from fxtio.tracer.options import refuse_other_outputs

    require_recorder()
    if options.output == "-":
        raise FxtioError("a recording is a file, not a stream: give it a name, or /dev/shm/... to keep it in memory")
    try:
        refuse_other_outputs(options.output)
        target = _program(options)
        chosen = recording_options(options)
        target.enter()
        session.begin(chosen)
    except (program.ProgramError, ValueError) as error:
        raise FxtioError(str(error)) from None
    session.report_at_exit(quiet=options.quiet)
    start: Callable[[], None] = target.run
    return start


def _program(options: Any) -> Any:
    from fxtio.tracer import program

    for words, make in (
        (options.module, program.of_module),
        (options.code, program.of_code),
        (options.program, program.of_script),
    ):
        if words:
            return make(words[0], words[1:])
    raise program.ProgramError("there is nothing to run: give a script, -m MODULE or -c CODE")


def recording_options(options: Any) -> Any:
    """Return the `Options` of the recording that the arguments describe."""
    from fxtio.tracer.options import Options

    return Options(
        options.output,
        ring=options.ring,
        dump_on=options.dump_on,
        children=not options.no_children,
        **options_of(options),
    )
