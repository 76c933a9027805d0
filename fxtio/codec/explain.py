"""Explanations of whole traces: the records that are asked for, annotated, with what the reader found there.

A format yields objects of `Piece`, which have no annotation yet; so a record that nobody asked for costs little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import Any, NamedTuple

from fxtio.codec.annotation import AnnotatedRecord, ByteRange
from fxtio.codec.describe import doc_of
from fxtio.codec.integers import MAX_UINT64
from fxtio.finding import Finding


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
            findings = _findings_in(trace, piece)
            if piece.size or findings:
                yield _annotated(piece, [each for each in findings if each.rule not in hidden])


def the_end(position: int) -> Piece:
    """Return the end of a trace, which is shown if there are findings behind all bytes."""
    return Piece(None, position, 0, None, list, "the end")


def _annotated(piece: Piece, findings: list[Finding]) -> AnnotatedRecord:
    ranges = piece.ranges()
    faults = {fault for byte_range in ranges for fault in byte_range.faults}
    others = [finding for finding in findings if finding.message not in faults]
    cls: Any = piece.cls
    spec = piece.spec or ("" if cls is None else cls.spec if hasattr(cls, "spec") else doc_of(cls).spec)
    return AnnotatedRecord(piece.number, piece.offset, piece.size, piece.name or cls.__name__, spec, ranges, others)


def _findings_in(trace: Any, piece: Piece) -> list[Finding]:
    begin = piece.offset - piece.base
    inside: list[Finding] = trace.findings.between(begin, begin + piece.size if piece.size else MAX_UINT64)
    return [finding for finding in inside if finding.file == piece.file]
