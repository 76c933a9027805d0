"""The command `fxtio merge`: combine several traces of one format into one, see `fxtio.formats.MergeRoom`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import ExitStack

from fxtio.cli import console, inputs

HELP = "Combine several traces into one"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    help_ = "the traces, all of one format; may be compressed; - for standard input"
    parser.add_argument("files", nargs="+", metavar="FILE", help=help_)
    inputs.add_format(parser, "all FILEs")
    inputs.add_output(parser)
    inputs.add_examples(
        parser,
        "fxtio merge -o all.fxt client.fxt server.fxt",
        "fxtio merge -o app.fxt app.fxt app.fxt.*.part",
        "ssh server cat app.fxt.zst | fxtio merge -o both.fxt.zst app.fxt -",
        "fxtio merge -o both.data client.data server.data",
    )


def run(options: Namespace) -> int:
    """Write the new trace and return the exit code."""
    with ExitStack() as stack:
        traces = [
            stack.enter_context(inputs.open_trace(Namespace(file=file, format=options.format)))
            for file in options.files
        ]
        first = traces[0]
        for trace in traces:
            if trace.format != first.format:
                raise inputs.UsageError(
                    f"{trace.name} is in the format {trace.format}, {first.name} in the format {first.format}; "
                    "only traces of one format can be merged"
                )
        inputs.check_output(options.output, first)
        written = inputs.format_of(first).merge.merge(traces, options.output)
        codes = [console.print_findings(trace, trace.name) for trace in traces]
    console.say_written(written, options.output)
    return max(codes)
