"""Annotated records: a record as ranges of bytes, and a range as fields, each with its meaning.

`fxtio.codec.describe` makes them from declarations.  A format whose records are not made of words makes its own ranges,
of any number of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from fxtio.codec.docstrings import doc_of
from fxtio.codec.integers import MAX_UINT64
from fxtio.codec.word import Field
from fxtio.finding import Finding
from fxtio.report import counted, printable


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A field of a header word, with its value.

    Attributes:
        field: the declaration.
        value: the value.
        shown: the value as text, decimal or hexadecimal.
        meaning: the meaning of the value; may be empty.
        fault: the fault of the value; empty if there is none.
    """

    field: Field
    value: int
    shown: str
    meaning: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A range of bytes of a record, of whole words in a format that has words.

    Attributes:
        offset: the distance in bytes from the beginning of the record.
        raw: the bytes in the order of the file; empty for a fault about missing words.
        label: the place in the record: `header`, or the path of an attribute such as `thread.process`, `args[0].value`.
        value: the value that the bytes hold; may be empty.
        bits: the fields of a header word.
        fault: the fault of these bytes; empty if there is none.
    """

    offset: int
    raw: bytes
    label: str
    value: str = ""
    bits: tuple[FieldValue, ...] = ()
    fault: str = ""

    @property
    def faults(self) -> list[str]:
        """The faults of the range and of its fields."""
        return [*filter(None, [self.fault]), *(value.fault for value in self.bits if value.fault)]


@dataclass(frozen=True, slots=True)
class AnnotatedRecord:
    """A record of a trace, or bytes between records, with an explanation of every byte.

    Attributes:
        number: the number of the record in the trace, from 0; None for bytes that are not a record.
        offset: the byte offset of its beginning in the (decompressed) trace.
        size: the number of bytes.
        name: the class of the record, or a description of the bytes.
        spec: the name of the record in the specification; empty if the specification does not have it.
        ranges: the bytes.  For bytes that are not a record, the words that the header claims, if they are available.
        findings: the findings of the reader at this place, except those that the ranges show as faults.
    """

    number: int | None
    offset: int
    size: int
    name: str
    spec: str
    ranges: list[ByteRange]
    findings: list[Finding]

    @property
    def faults(self) -> list[str]:
        """All faults of the record."""
        return [
            *(finding.message for finding in self.findings),
            *(fault for byte_range in self.ranges for fault in byte_range.faults),
        ]


# ---- as lines of text

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


# ---- explanations of whole traces


class Piece(NamedTuple):
    """A record of a trace, or bytes between records, before it is annotated.

    Attributes:
        number: the number of the record in the trace, from 0; None for bytes that are not a record.
        offset: the byte offset of its beginning in the (decompressed) trace.
        size: the number of bytes.
        cls: the class of the record; None for bytes that are not a record.
        ranges: returns its annotated bytes; called before the next piece is asked for.
        name: what it is called, by default the name of the class.
        spec: its name in the specification, by default that of the class.
        file: in a directory, the name of its file.
        base: in a directory, the offset at which the file begins.
    """

    number: int | None
    offset: int
    size: int
    cls: type[Any] | None
    ranges: Callable[[], list[ByteRange]]
    name: str = ""
    spec: str = ""
    file: str = ""
    base: int = 0


def explained(
    trace: Any,
    pieces: Iterator[Piece],
    *,
    record: int | None,
    offset: int,
    kinds: Set[type[Any]] | None,
    hidden: Set[str] = frozenset(),
) -> Iterator[AnnotatedRecord]:
    """Yield annotated records of a trace, and bytes between them.

    Args:
        trace: the trace, whose findings about a piece are known when the piece comes.
        pieces: all of it in order; those before `record` and `offset` may be missing.
        record: begin with this record.
        offset: begin with whatever has this byte.
        kinds: only records of these classes, and nothing between them; None for all.
        hidden: rules whose findings the ranges tell in their own words.
    """
    reached = record is None
    for piece in pieces:
        reached = reached or (piece.number is not None and piece.number >= (record or 0))
        is_behind = piece.offset + max(piece.size, 1) > offset
        if reached and is_behind and (kinds is None or piece.cls in kinds):
            begin = piece.offset - piece.base
            inside = trace.findings.between(begin, begin + piece.size if piece.size else MAX_UINT64)
            findings = [finding for finding in inside if finding.file == piece.file]
            if piece.size or findings:
                yield _annotated(piece, [each for each in findings if each.rule not in hidden])


def the_end(position: int) -> Piece:
    """Return the end of a trace, which is shown if there are findings after all bytes."""
    return Piece(None, position, 0, None, list, "the end")


def _annotated(piece: Piece, findings: list[Finding]) -> AnnotatedRecord:
    ranges = piece.ranges()
    faults = {fault for byte_range in ranges for fault in byte_range.faults}
    others = [finding for finding in findings if finding.message not in faults]
    cls: Any = piece.cls
    spec = piece.spec or ("" if cls is None else cls.spec if hasattr(cls, "spec") else doc_of(cls).spec)
    return AnnotatedRecord(piece.number, piece.offset, piece.size, piece.name or cls.__name__, spec, ranges, others)
