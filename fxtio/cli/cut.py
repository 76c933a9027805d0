"""The command `fxtio cut`: write a part of a trace as a trace of its own.

A format that cuts its own traces keeps their records, see `fxtio.formats.CutRoom`; a part of any other is converted.
"""

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

NAME = "cut"
HELP = "Write a part of a trace as a trace of its own"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_input(parser)
    add_output(parser)
    add_selection(parser)
    add_examples(
        parser,
        "fxtio cut big.fxt -o part.fxt --from 1.2s --to 1.4s",
        "fxtio cut big.fxt.zst -o end.fxt.zst --from -500ms",
        "fxtio cut app.fxt -o main.fxt --thread main --name '!gc*'",
        "fxtio cut uftrace.data -o part.data --from 10% --to +50ms",
        "fxtio cut app.json -o part.json.gz --from 1.2s --to 1.4s",
    )


def run(options: Namespace) -> int:
    """Write the new trace and return the exit code."""
    from fxtio.exchange.convert import exporters
    from fxtio.timeline import Timeline
    from fxtio.timeline.answers import summary

    if not selects(options):
        raise UsageError("nothing is selected: give --from, --to, --thread, --process, --category or --name")
    with open_any(options) as (opened, progress):
        check_output(options.output, opened)
        cutting = None if isinstance(opened, Timeline) else format_of(opened).cut
        if isinstance(opened, Timeline) or cutting is None:
            timeline = opened if isinstance(opened, Timeline) else opened.timeline()
            if summary(timeline).start is None:
                raise UsageError(f"{timeline.name} has no times, so no part of it can be cut out")
            if timeline.format not in exporters():
                raise UsageError(
                    f"no part of {timeline.name} can be written as {timeline.format}; "
                    "`fxtio convert` takes the same options, and writes it in another format"
                )
            return convert_selected(timeline, progress, options, timeline.format)
        selection = selection_of(options, opened)
        result = cutting.cut(opened, selection, options.output)
        code = print_findings(opened)
        target = "standard output" if options.output == "-" else printable(options.output)
        print(f"fxtio: wrote {result.text} to {target}", file=sys.stderr)
        if result.is_empty:
            times = opened.info if selection.has_range else None
            sentence = nothing_selected(f"none of the events of {opened.name}", selection, times)
            print(printable(f"fxtio: {sentence}"), file=sys.stderr)
    return code
