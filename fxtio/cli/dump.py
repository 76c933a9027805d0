"""`fxtio dump`: one line for each record, in the order of the file, while it is read."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from itertools import islice
from typing import Any

from fxtio.cli.common import add_examples, add_input, count, format_of, open_trace, print_findings
from fxtio.present import json_text, printable

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
    with open_trace(options, prints=True) as trace:
        report = format_of(trace).report
        entries = islice(trace.entries(resolve=not options.raw), options.limit)
        while some := list(islice(entries, _AT_ONCE)):
            if options.json:
                sys.stdout.buffer.write(_json_lines(report.json_objects(some)))
            else:
                print("\n".join(map(printable, report.text_lines(some))))
    return print_findings(trace)


def _json_lines(objects: list[dict[str, Any]]) -> bytes:
    """Objects as lines of JSON."""
    from msgspec.json import Encoder

    try:
        return Encoder().encode_lines(objects)
    except UnicodeEncodeError:
        return Encoder().encode_lines([_clean(one) for one in objects])


def _clean(value: Any) -> Any:
    """The same with text that is not UTF-8 replaced."""
    if isinstance(value, dict):
        return {key: _clean(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(one) for one in value]
    return json_text(value) if isinstance(value, str) else value
