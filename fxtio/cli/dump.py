"""`fxtio dump`: one line for each record, in the order of the file, while it is read."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from itertools import islice

from fxtio.cli.common import add_examples, add_input, count, open_trace, print_findings

NAME = "dump"
HELP = "Print the records of a trace, one line each"

_AT_ONCE = 4096


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the verb's arguments."""
    add_input(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line")
    parser.add_argument("--raw", action="store_true", help="show table slots as they stand in the file, not names")
    parser.add_argument("--limit", type=count, metavar="N", help="stop after N records")
    add_examples(parser, "fxtio dump app.fxt | less", "zcat app.fxt.gz | fxtio dump --json - | jq .name")


def run(options: Namespace) -> int:
    """Print the records."""
    from fxtio.cli.render import json_lines, text_line

    with open_trace(options, prints=True) as trace:
        entries = islice(trace.entries(resolve=not options.raw), options.limit)
        while some := list(islice(entries, _AT_ONCE)):
            if options.json:
                sys.stdout.buffer.write(json_lines(some))
            else:
                print("\n".join(map(text_line, some)))
    return print_findings(trace)
