"""The command `fxtio explain`: show the bytes of records, with every field's bits, value and meaning.

Each word is one line: its offset, its bytes in the order of the file, its name and value.  The fields of a header word
follow below it.  A fault is marked with an exclamation mark and makes the exit code 1.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from fxtio.cli.common import FINE, FOUND, UsageError, add_examples, add_input, count, format_of, open_trace
from fxtio.report import printable

if TYPE_CHECKING:
    from fxtio.codec.annotation import AnnotatedRecord, ByteRange

NAME = "explain"
HELP = "Show the bytes of records with every field named, bit by bit"

_DEFAULT_COUNT = 10
_LONGEST_VALUE = 80
_MAX_WORDS = 8
"""The greatest number of words of a text or blob that are shown; of a longer one, the middle is left out."""

_BOLD, _RED, _PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[0m"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_input(parser)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--offset", type=_position, metavar="BYTE", help="begin at the record with this byte (as 0x78)")
    place.add_argument("--record", type=_position, metavar="N", help="begin with record N, counted from 0")
    parser.add_argument(
        "--type", metavar="NAME", help="show only this type, such as String in FXT; a wrong name lists the types"
    )
    parser.add_argument(
        "--count",
        type=count,
        metavar="N",
        help=f"show N records (default: {_DEFAULT_COUNT}; 1 with --offset or --record but without --type)",
    )
    add_examples(
        parser,
        "fxtio explain trace.fxt",
        "fxtio explain trace.fxt --offset 1,234",
        "fxtio explain trace.fxt --type KernelObject --count 3",
    )


def run(options: Namespace) -> int:
    """Print the selected records.

    Returns:
        The exit code.

    Raises:
        FxtioError: the type is unknown, or no record is selected.
    """
    has_place = options.type is None and not (options.offset is None and options.record is None)
    limit = options.count or (1 if has_place else _DEFAULT_COUNT)
    code, shown, color = FINE, 0, _has_color()
    with open_trace(options, prints=True) as trace:
        room = format_of(trace).explain
        kinds = None if options.type is None else room.kinds_of(options.type)
        records = room.explain(trace, record=options.record, offset=options.offset or 0, kinds=kinds)
        for record in islice(records, limit):
            if shown:
                print()
            for line in _lines(record, color=color):
                print(line)
            shown += 1
            if record.faults:
                code = FOUND
        if not shown:
            raise UsageError(f"{trace.name}: {_nothing_to_show(options)}")
    return code


def _position(text: str) -> int:
    """Parse a byte offset or a record number: hexadecimal, or decimal, which may have commas as in findings."""
    try:
        value = int(text.replace(",", ""), 0)
    except ValueError:
        value = -1
    if value < 0:
        raise ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return value


def _nothing_to_show(options: Namespace) -> str:
    """Return the reason why nothing was shown."""
    subject = "there is no record" if options.type is None else f"there is no record of type {options.type}"
    if options.record is not None:
        return f"{subject} from number {options.record:,} on"
    return f"{subject} from byte {options.offset:,} on" if options.offset else subject


def _has_color() -> bool:
    return (
        sys.stdout is not None
        and sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )


def _lines(record: AnnotatedRecord, *, color: bool) -> Iterator[str]:
    """Yield the lines of text that show an annotated record."""
    bold, red, plain = (_BOLD, _RED, _PLAIN) if color else ("", "", "")
    subject = f"record {record.number:,}: " if record.number is not None else ""
    spec = f" (spec: {record.spec})" if record.spec else ""
    yield f"{bold}{subject}{printable(record.name)}, {record.size:,} bytes at {record.offset:,}{plain}{spec}"
    for finding in record.findings:
        yield f"  {red}! {printable(str(finding))}{plain}"
    labels = [byte_range.label for byte_range in record.ranges]
    labels += [f"  {bits.field.name}" for byte_range in record.ranges for bits in byte_range.bits]
    width = max(map(len, labels), default=0)
    widest = max((len(bits.shown) for byte_range in record.ranges for bits in byte_range.bits), default=0)
    for byte_range in record.ranges:
        rows = [*_words(byte_range, record.offset), *_fields(byte_range, widest)]
        for place, raw, label, value, fault in rows:
            mark = f"  {red}! {printable(fault)}{plain}" if fault else ""
            yield f"{place:8}  {raw:23}  {printable(label):{width}}  {printable(value)}".rstrip() + mark


Row = tuple[str, str, str, str, str]
"""The offset, bytes, label, value and fault of a line."""


def _words(byte_range: ByteRange, base: int) -> Iterator[Row]:
    """Yield the words of a range as one row each; the middle of a long range is left out."""
    value = byte_range.value if len(byte_range.value) <= _LONGEST_VALUE else f"{byte_range.value[:_LONGEST_VALUE]}..."
    places = range(0, len(byte_range.raw), 8)
    if not places:
        yield "", "", byte_range.label, value, byte_range.fault
    left_out = places[_MAX_WORDS - 2 : -1] if len(places) > _MAX_WORDS else places[:0]
    for place in places:
        if place in left_out:
            if place == left_out[0]:
                yield "", f"... {len(left_out):,} more words", "", "", ""
            continue
        first = (byte_range.label, value, byte_range.fault) if place == 0 else ("", "", "")
        yield f"{base + byte_range.offset + place:08x}", byte_range.raw[place : place + 8].hex(" "), *first


def _fields(byte_range: ByteRange, widest: int) -> Iterator[Row]:
    """Yield the fields of a header word as one row each; `widest` is the width of the longest value."""
    for bits in byte_range.bits:
        field = bits.field
        place = f"{field.lo:2} .. {field.hi:2}" if field.width > 1 else f"{field.lo}"
        yield "", f"{place:>23}", f"  {field.name}", f"{bits.shown:{widest}}  {bits.meaning}".rstrip(), bits.fault
