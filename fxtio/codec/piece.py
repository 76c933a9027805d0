"""A record of a trace taken apart, as people look at it: pieces made of spans, and spans of fields.

`fxtio.codec.describe` makes them from declarations.  A format whose records are not made of words makes its own spans,
of any number of bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from fxtio.codec.word import Field
from fxtio.finding import Finding


@dataclass(frozen=True, slots=True)
class Bits:
    """One field of a header word.

    Attributes:
        field: its declaration.
        value: its value.
        shown: the value as people write it, decimal or hexadecimal.
        meaning: what the value means; may be empty.
        fault: what is wrong with it; empty if nothing is.
    """

    field: Field
    value: int
    shown: str
    meaning: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """Some bytes of a record, whole words where the format has words, and what they are.

    Attributes:
        offset: bytes from the record's beginning.
        raw: the bytes in the file's order; empty where a fault is that words are missing.
        label: the place in the record, `header` or the path of an attribute: `thread.process`, `args[0].value`.
        value: what the words hold; may be empty.
        bits: the fields of a header word.
        fault: what is wrong here; empty if nothing is.
    """

    offset: int
    raw: bytes
    label: str
    value: str = ""
    bits: tuple[Bits, ...] = ()
    fault: str = ""

    @property
    def faults(self) -> list[str]:
        """What is wrong with it and with its fields."""
        return [*filter(None, [self.fault]), *(one.fault for one in self.bits if one.fault)]


@dataclass(frozen=True, slots=True)
class Piece:
    """A record of a trace, or some bytes that are none.

    Attributes:
        number: the record's number in the trace, from 0; None for what is no record.
        offset: where it begins, in bytes of the (decompressed) trace.
        size: how many bytes it has.
        name: the record's class, or what there is instead.
        spec: what the specification calls the record; empty for what it does not know.
        spans: its words.  For bytes that are not a record, the words that the header claims, if they are available.
        findings: what the reader found here, except what the spans tell.
    """

    number: int | None
    offset: int
    size: int
    name: str
    spec: str
    spans: list[Span]
    findings: list[Finding]

    @property
    def faults(self) -> list[str]:
        """Everything that is wrong here."""
        return [
            *(finding.message for finding in self.findings),
            *(fault for span in self.spans for fault in span.faults),
        ]
