"""The command `fxtio explain`: show the bytes of records, with every field's bits, value and meaning.

Each word is one line: its offset, its bytes in the order of the file, its name and value.  The fields of a header word
follow below it.  A fault is marked with an exclamation mark and makes the exit code 1.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from itertools import islice

from fxtio.cli import console, inputs

HELP = "Show the bytes of records with every field named, bit by bit"

_DEFAULT_COUNT = 10


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    inputs.add_input(parser)
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--offset", type=inputs.natural, metavar="BYTE", help="begin at the record with this byte (as 0x78)"
    )
    place.add_argument("--record", type=inputs.natural, metavar="N", help="begin with record N, counted from 0")
    parser.add_argument(
        "--type", metavar="NAME", help="show only this type, such as String in FXT; a wrong name lists the types"
    )
    parser.add_argument(
        "--count",
        type=inputs.count,
        metavar="N",
        help=f"show N records (default: {_DEFAULT_COUNT}; 1 with --offset or --record but without --type)",
    )
    inputs.add_examples(
        parser,
        "fxtio explain trace.fxt",
        "fxtio explain trace.fxt --offset 1,234",
        "fxtio explain trace.fxt --type KernelObject --count 3",
    )


def run(options: Namespace) -> int:
    """Print the selected records and return the exit code.

    Raises:
        FxtioError: the type is unknown, or no record is selected.
    """
    from fxtio.codec.annotation import lines_of

    has_place = options.type is None and not (options.offset is None and options.record is None)
    limit = options.count or (1 if has_place else _DEFAULT_COUNT)
    code, shown, color = console.FINE, 0, console.has_color()
    with inputs.open_trace(options, prints=True) as trace:
        room = inputs.format_of(trace).explain
        kinds = None if options.type is None else room.kinds_of(options.type)
        records = room.explain(trace, record=options.record, offset=options.offset or 0, kinds=kinds)
        for record in islice(records, limit):
            if shown:
                print()
            for line in lines_of(record, color=color):
                print(line)
            shown += 1
            if record.faults:
                code = console.FOUND
        if not shown:
            raise inputs.UsageError(f"{trace.name}: {_nothing_to_show(options)}")
    return code


def _nothing_to_show(options: Namespace) -> str:
    """Return the reason why nothing was shown."""
    subject = "there is no record" if options.type is None else f"there is no record of type {options.type}"
    if options.record is not None:
        return f"{subject} from number {options.record:,} on"
    return f"{subject} from byte {options.offset:,} on" if options.offset else subject
