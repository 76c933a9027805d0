"""The command `fxtio info`: summarize a trace."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from fxtio.cli.common import add_examples, add_input, format_of, open_trace, print_report

NAME = "info"
HELP = "Summarize a trace: format, size, time range, records by type"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_input(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_examples(parser, "fxtio info app.fxt", "curl -s https://example.org/app.fxt.zst | fxtio info -")


def run(options: Namespace) -> int:
    """Print the summary and return the exit code."""
    with open_trace(options) as trace:
        report = format_of(trace).report.info(trace)
    return print_report(report, trace, as_json=options.json)
