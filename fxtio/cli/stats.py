"""The command `fxtio stats`: count what fills a trace, its undefined references and the losses that it reports."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from fxtio.cli import console, inputs

HELP = "Count what fills a trace: records and bytes by type, provider, category and name"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    inputs.add_input(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    top_help = "list only the N largest providers, categories and names (default: 10)"
    parser.add_argument("--top", type=inputs.count, default=10, metavar="N", help=top_help)
    inputs.add_examples(parser, "fxtio stats app.fxt", "fxtio stats --json --top 1000 app.fxt | jq .names")


def run(options: Namespace) -> int:
    """Print the counts and return the exit code."""
    with inputs.open_any(options) as trace:
        report = inputs.report_of(trace).stats(trace, options.top)
    return console.print_report(report, trace, as_json=options.json)
