"""The command `fxtio cut`: write a part of a trace as a trace of its own.

A format that cuts its own traces keeps their records, see `fxtio.formats.CutRoom`; a part of any other is converted.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from fxtio.cli import console, inputs
from fxtio.cli.convert import convert_selected

HELP = "Write a part of a trace as a trace of its own"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    inputs.add_input(parser)
    inputs.add_output(parser)
    inputs.add_selection(parser)
    inputs.add_examples(
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

    if not inputs.selects(options):
        raise inputs.UsageError("nothing is selected: give --from, --to, --thread, --process, --category or --name")
    with inputs.open_any(options) as opened:
        inputs.check_output(options.output, opened)
        cutting = None if isinstance(opened, Timeline) else inputs.format_of(opened).cut
        if isinstance(opened, Timeline) or cutting is None:
            timeline = opened if isinstance(opened, Timeline) else opened.timeline()
            if summary(timeline).start is None:
                raise inputs.UsageError(f"{timeline.name} has no times, so no part of it can be cut out")
            if timeline.format not in exporters():
                raise inputs.UsageError(
                    f"no part of {timeline.name} can be written as {timeline.format}; "
                    "`fxtio convert` takes the same options, and writes it in another format"
                )
            return convert_selected(timeline, options, timeline.format)
        selection = inputs.selection_of(options, opened)
        result = cutting.cut(opened, selection, options.output)
        code = console.print_findings(opened)
        console.say_written(result.text, options.output)
        if result.is_empty:
            console.say(inputs.nothing_of(opened, "events", selection))
    return code
