"""`fxtio stats`: what fills a trace, what it refers to in vain, and what it says it has lost."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from fxtio.cli.common import add_examples, add_input, count, format_of, open_trace, print_report

NAME = "stats"
HELP = "Tell what fills a trace: records and bytes by type, provider, category, name"


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the verb's arguments."""
    add_input(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    told = "list only the N largest providers, categories and names (default: 10)"
    parser.add_argument("--top", type=count, default=10, metavar="N", help=told)
    add_examples(parser, "fxtio stats app.fxt", "fxtio stats --json --top 1000 app.fxt | jq .names")


def run(options: Namespace) -> int:
    """Count, then print."""
    with open_trace(options) as trace:
        report = format_of(trace).report.stats(trace, options.top)
    return print_report(report, trace, as_json=options.json)
