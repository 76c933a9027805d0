"""The command `fxtio dump`: print one line for each record, in the order of the file, while it is read."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from itertools import islice

from fxtio.cli import console, inputs
from fxtio.report import json_lines, printable

HELP = "Print the records of a trace, one line each"

_ENTRIES_AT_ONCE = 4096


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    inputs.add_input(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, one object per line")
    parser.add_argument("--raw", action="store_true", help="print references as the numbers in the file, not as names")
    parser.add_argument("--limit", type=inputs.count, metavar="N", help="stop after N records")
    inputs.add_examples(parser, "fxtio dump app.fxt | less", "zcat app.fxt.gz | fxtio dump --json - | jq .name")


def run(options: Namespace) -> int:
    """Print the records and return the exit code."""
    with inputs.open_trace(options, prints=True) as trace:
        rooms = inputs.format_of(trace)
        entries = islice(trace.entries(resolve=not options.raw), options.limit)
        while chunk := list(islice(entries, _ENTRIES_AT_ONCE)):
            if options.json:
                sys.stdout.write(json_lines(rooms.canonical.json_objects(chunk)))
            else:
                print("\n".join(map(printable, rooms.report.text_lines(chunk))))
    return console.print_findings(trace)
