"""`fxtio explain`: records as annotated hex, every field of every header word with its bits, its value, its meaning.

One line for each word: offset, bytes as in the file, what it is.  The fields of a header word follow below it.  What is
wrong has an exclamation mark, and makes the exit code 1.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from fxtio.cli.common import FINE, FOUND, UsageError, add_examples, add_input, count, format_of, open_trace
from fxtio.present import printable

if TYPE_CHECKING:
    from fxtio.codec.piece import Piece, Span

NAME = "explain"
HELP = "Show the bytes of records with every field named, bit by bit"

_DEFAULT_COUNT = 10
_LONGEST_VALUE = 80
_WHOLE = 8
"""Up to so many words of a text or a blob are shown; of a longer one, the first and the last."""

_BOLD, _RED, _PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[0m"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_input(parser)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--offset", type=_position, metavar="BYTE", help="begin with whatever has this byte (120, 0x78)")
    place.add_argument("--record", type=_position, metavar="N", help="begin with this record, counted from 0")
    parser.add_argument("--type", metavar="NAME", help="only records of this type, such as String, Event or Unknown")
    parser.add_argument(
        "--count",
        type=count,
        metavar="N",
        help=f"how many records ({_DEFAULT_COUNT}; 1 with --offset or --record unless --type is given)",
    )
    add_examples(
        parser,
        "fxtio explain trace.fxt",
        "fxtio explain trace.fxt --offset 1,234",
        "fxtio explain trace.fxt --type KernelObject --count 3",
    )


def run(options: Namespace) -> int:
    """Print the wanted records.

    Returns:
        The exit code.

    Raises:
        FxtioError: there is no such type, or nothing to show.
    """
    placed = options.type is None and not (options.offset is None and options.record is None)
    wanted = options.count or (1 if placed else _DEFAULT_COUNT)
    code, shown, color = FINE, 0, _has_color()
    with open_trace(options, prints=True) as trace:
        room = format_of(trace).explain
        kinds = None if options.type is None else room.kinds_of(options.type)
        pieces = room.explain(trace, record=options.record, offset=options.offset or 0, kinds=kinds)
        for piece in islice(pieces, wanted):
            if shown:
                print()
            for line in _lines(piece, color=color):
                print(line)
            shown += 1
            if piece.faults:
                code = FOUND
        if not shown:
            raise UsageError(f"{trace.name}: {_nothing(options)}")
    return code


def _position(text: str) -> int:
    """A byte offset or a number: decimal, with or without commas as in findings, or hexadecimal."""
    try:
        value = int(text.replace(",", ""), 0)
    except ValueError:
        value = -1
    if value < 0:
        raise ArgumentTypeError(f"{text!r} is no number from 0 on")
    return value


def _nothing(options: Namespace) -> str:
    """Why nothing was shown."""
    what = "no record" if options.type is None else f"no record of type {options.type}"
    if options.record is not None:
        return f"{what} from number {options.record:,} on"
    return f"{what} from byte {options.offset:,} on" if options.offset else what


def _has_color() -> bool:
    return (
        sys.stdout is not None
        and sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )


def _lines(piece: Piece, *, color: bool) -> Iterator[str]:
    """A piece as lines of text."""
    bold, red, plain = (_BOLD, _RED, _PLAIN) if color else ("", "", "")
    subject = f"record {piece.number:,}: " if piece.number is not None else ""
    spec = f" (spec: {piece.spec})" if piece.spec else ""
    yield f"{bold}{subject}{printable(piece.name)}, {piece.size:,} bytes at {piece.offset:,}{plain}{spec}"
    for finding in piece.findings:
        yield f"  {red}! {printable(str(finding))}{plain}"
    names = [span.label for span in piece.spans] + [f"  {one.field.name}" for span in piece.spans for one in span.bits]
    width = max(map(len, names), default=0)
    widest = max((len(one.shown) for span in piece.spans for one in span.bits), default=0)
    for span in piece.spans:
        rows = [*_words(span, piece.offset), *_fields(span, widest)]
        for place, raw, label, value, fault in rows:
            mark = f"  {red}! {printable(fault)}{plain}" if fault else ""
            yield f"{place:8}  {raw:23}  {printable(label):{width}}  {printable(value)}".rstrip() + mark


Row = tuple[str, str, str, str, str]
"""Offset, bytes, label, value and fault of a line."""


def _words(span: Span, base: int) -> Iterator[Row]:
    """The words of a span, a line for each; those in the midst of a long one are left out."""
    value = span.value if len(span.value) <= _LONGEST_VALUE else f"{span.value[:_LONGEST_VALUE]}..."
    places = range(0, len(span.raw), 8)
    if not places:
        yield "", "", span.label, value, span.fault
    left_out = places[_WHOLE - 2 : -1] if len(places) > _WHOLE else places[:0]
    for place in places:
        if place in left_out:
            if place == left_out[0]:
                yield "", f"... {len(left_out):,} more words", "", "", ""
            continue
        first = (span.label, value, span.fault) if place == 0 else ("", "", "")
        yield f"{base + span.offset + place:08x}", span.raw[place : place + 8].hex(" "), *first


def _fields(span: Span, widest: int) -> Iterator[Row]:
    """The fields of a header word."""
    for one in span.bits:
        bits = f"{one.field.lo:2} .. {one.field.hi:2}" if one.field.width > 1 else f"{one.field.lo}"
        yield "", f"{bits:>23}", f"  {one.field.name}", f"{one.shown:{widest}}  {one.meaning}".rstrip(), one.fault
