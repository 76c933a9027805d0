"""The command `fxtio slice`: write a part of a trace as a trace of its own, see `fxtio.formats.CutRoom`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from fxtio.cli.common import (
    UsageError,
    add_examples,
    add_input,
    add_output,
    add_selection,
    check_output,
    format_of,
    nothing_selected,
    open_any,
    print_findings,
    selection_of,
    selects,
)
from fxtio.cli.convert import convert_selected
from fxtio.report import printable

NAME = "slice"
HELP = "Write a part of a trace as a trace of its own"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_input(parser)
    add_output(parser)
    add_selection(parser)
    add_examples(
        parser,
        "fxtio slice big.fxt -o part.fxt --from 1.2s --to 1.4s",
        "fxtio slice big.fxt.zst -o end.fxt.zst --from -500ms",
        "fxtio slice app.fxt -o main.fxt --thread main --name '!gc*'",
        "fxtio slice uftrace.data -o part.data --from 10% --to +50ms",
        "fxtio slice app.json -o part.json.gz --from 1.2s --to 1.4s",
    )


def run(options: Namespace) -> int:
    """Write the new trace and return the exit code."""
    from fxtio.timeline import Timeline
    from fxtio.timeline.answers import summary

    if not selects(options):
        raise UsageError("nothing is selected: give --from, --to, --thread, --process, --category or --name")
    with open_any(options) as (trace, progress):
        check_output(options.output, trace)
        if isinstance(trace, Timeline):
            if summary(trace).start is None:
                raise UsageError(f"{trace.name} has no times, so no part of it can be cut out")
            return convert_selected(trace, progress, options, trace.format)
        selection = selection_of(options, trace)
        result = format_of(trace).cut.cut(trace, selection, options.output)
        code = print_findings(trace)
        target = "standard output" if options.output == "-" else printable(options.output)
        print(f"fxtio: wrote {result.text} to {target}", file=sys.stderr)
        if result.is_empty:
            times = trace.info if selection.has_range else None
            sentence = nothing_selected(f"nothing of {trace.name}", selection, times)
            print(printable(f"fxtio: {sentence}"), file=sys.stderr)
    return code
