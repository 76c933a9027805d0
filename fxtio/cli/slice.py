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
    open_trace,
    print_findings,
    selection_of,
)
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
    )


def run(options: Namespace) -> int:
    """Write the new trace and return the exit code."""
    with open_trace(options) as trace:
        check_output(options.output, trace)
        selection = selection_of(options, trace)
        if selection.is_everything:
            raise UsageError("nothing is selected: give --from, --to, --thread, --process, --category or --name")
        result = format_of(trace).cut.cut(trace, selection, options.output)
        code = print_findings(trace)
        target = "standard output" if options.output == "-" else printable(options.output)
        print(f"fxtio: wrote {result.text} to {target}", file=sys.stderr)
        if result.is_empty:
            summary = trace.info if selection.has_range else None
            sentence = nothing_selected(f"nothing of {trace.name}", selection, summary)
            print(printable(f"fxtio: {sentence}"), file=sys.stderr)
    return code
