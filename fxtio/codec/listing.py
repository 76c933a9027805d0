"""Annotated records as lines of text, for terminals, reports and messages of failed tests.

Text from a trace is untrusted: whatever is not printable is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator

from fxtio.codec.annotation import AnnotatedRecord, ByteRange
from fxtio.report import counted, printable

_LONGEST_VALUE = 80
_MAX_WORDS = 8
"""The greatest number of words of a text or blob that are shown; of a longer one, the middle is left out."""

BOLD, RED, PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[0m"
"""Escape sequences of terminals."""


def lines_of(record: AnnotatedRecord, *, color: bool = False) -> Iterator[str]:
    """Yield the lines of text that show an annotated record, with escape sequences of terminals if `color` is true."""
    bold, red, plain = (BOLD, RED, PLAIN) if color else ("", "", "")
    subject = f"record {record.number:,}: " if record.number is not None else ""
    spec = f" (spec: {record.spec})" if record.spec else ""
    yield f"{bold}{subject}{printable(record.name)}, {counted(record.size, 'byte')} at {record.offset:,}{plain}{spec}"
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
                yield "", f"... {counted(len(left_out), 'more word')}", "", "", ""
            continue
        first = (byte_range.label, value, byte_range.fault) if place == 0 else ("", "", "")
        yield f"{base + byte_range.offset + place:08x}", byte_range.raw[place : place + 8].hex(" "), *first


def _fields(byte_range: ByteRange, widest: int) -> Iterator[Row]:
    """Yield the fields of a header word as one row each; `widest` is the width of the longest value."""
    for bits in byte_range.bits:
        field = bits.field
        place = f"{field.lo:2} .. {field.hi:2}" if field.width > 1 else f"{field.lo}"
        yield "", f"{place:>23}", f"  {field.name}", f"{bits.shown:{widest}}  {bits.meaning}".rstrip(), bits.fault
