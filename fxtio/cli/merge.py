"""The command `fxtio merge`: combine several FXT traces into one, see `fxtio.fxt.merge`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack

from fxtio.cli.common import UsageError, add_examples, open_trace, print_findings
from fxtio.report import human_size, printable

NAME = "merge"
HELP = "Combine several FXT traces into one"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="the traces, may be compressed; - for standard input")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="the new trace; .gz, .zst and .xz compress it; - for standard output",
    )
    add_examples(
        parser,
        "fxtio merge -o all.fxt client.fxt server.fxt",
        "fxtio merge -o app.fxt app.fxt app.fxt.*.part",
        "ssh server cat app.fxt.zst | fxtio merge -o both.fxt.zst app.fxt -",
    )


def run(options: Namespace) -> int:
    """Write the new trace and return the exit code."""
    from fxtio.fxt import FxtTrace
    from fxtio.fxt.merge import merge
    from fxtio.io.sink import whole_file

    if options.output == "-" and sys.stdout.isatty():
        raise UsageError("a trace is binary and is not written to a terminal; redirect standard output")
    with ExitStack() as stack:
        traces = list[FxtTrace]()
        for file in options.files:
            trace = stack.enter_context(open_trace(Namespace(file=file)))
            if not isinstance(trace, FxtTrace):
                raise UsageError(f"{trace.name} is in the format {trace.format}; only fxt traces can be merged")
            traces.append(trace)
        with whole_file(options.output) as sink:
            merged = merge(traces, sink)
    codes = [print_findings(trace, trace.name) for trace in traces]
    target = "standard output" if options.output == "-" else printable(options.output)
    summary = f"{merged.records:,} records of {merged.providers:,} providers ({human_size(sink.position)})"
    print(f"fxtio: wrote {summary} to {target}", file=sys.stderr)
    return max(codes)
