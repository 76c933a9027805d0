"""Annotated records: a record as ranges of bytes, and a range as fields, each with its meaning.

`fxtio.codec.describe` makes them from declarations.  A format whose records are not made of words makes its own ranges,
of any number of bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from fxtio.codec.word import Field
from fxtio.finding import Finding


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
