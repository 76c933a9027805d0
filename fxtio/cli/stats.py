"""The command `fxtio stats`: count what fills a trace, its undefined references and the losses that it reports."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from fxtio.cli.common import add_examples, add_input, count, open_any, print_report, report_of

NAME = "stats"
HELP = "Count what fills a trace: records and bytes by type, provider, category and name"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_input(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    top_help = "list only the N largest providers, categories and names (default: 10)"
    parser.add_argument("--top", type=count, default=10, metavar="N", help=top_help)
    add_examples(parser, "fxtio stats app.fxt", "fxtio stats --json --top 1000 app.fxt | jq .names")


def run(options: Namespace) -> int:
    """Print the counts and return the exit code."""
    with open_any(options) as (trace, _):
        report = report_of(trace).stats(trace, options.top)
    return print_report(report, trace, as_json=options.json)
