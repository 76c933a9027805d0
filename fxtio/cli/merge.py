"""`fxtio merge`: make one trace of several, see `fxtio.fxt.merge`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack

from fxtio.cli.common import UsageError, add_examples, open_trace, print_findings
from fxtio.present import human_size, printable

NAME = "merge"
HELP = "Make one trace of several"


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the verb's arguments."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="the traces, compressed or not; - for standard input")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="the new trace; .gz, .zst, .xz compress; - for standard output",
    )
    add_examples(
        parser,
        "fxtio merge -o all.fxt client.fxt server.fxt",
        "fxtio merge -o app.fxt app.fxt app.fxt.*.part",
        "ssh server cat app.fxt.zst | fxtio merge -o both.fxt.zst app.fxt -",
    )


def run(options: Namespace) -> int:
    """Write the trace."""
    from fxtio.fxt import FxtTrace
    from fxtio.fxt.merge import merge
    from fxtio.io.sink import whole_file

    if options.output == "-" and sys.stdout.isatty():
        raise UsageError("a trace is no text for a terminal; send standard output to a file or a program")
    with ExitStack() as stack:
        traces = list[FxtTrace]()
        for file in options.files:
            trace = stack.enter_context(open_trace(Namespace(file=file)))
            if not isinstance(trace, FxtTrace):
                raise UsageError(f"{trace.name} is in the format {trace.format}; only fxt can be merged")
            traces.append(trace)
        with whole_file(options.output) as sink:
            merged = merge(traces, sink)
    codes = [print_findings(trace, trace.name) for trace in traces]
    where = "standard output" if options.output == "-" else printable(options.output)
    told = f"{merged.records:,} records of {merged.providers:,} providers, {human_size(sink.position)}"
    print(f"fxtio: {told}: {where}", file=sys.stderr)
    return max(codes)
