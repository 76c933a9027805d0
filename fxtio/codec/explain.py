"""Explanations of whole traces: the records that are asked for, annotated, with what the reader found there.

A format yields `Piece`s, which have no annotation yet; so a record that nobody asked for costs little.
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
        file: in a directory, the name of its file.
        base: in a directory, the offset at which the file begins.
    """

    number: int | None
    offset: int
    size: int
    cls: type[Any] | None
    ranges: Callable[[], list[ByteRange]]
    name: str = ""
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
    """Yield annotated records of a trace, and in the end the findings that no piece has.

    Args:
        trace: the trace, whose findings about a piece are known when the piece comes.
        pieces: all of it in order; those before `record` and `offset` may be missing.
        record: begin with this record.
        offset: begin with whatever has this byte.
        kinds: only records of these classes, and nothing between them; None for all.
        hidden: rules whose findings the ranges tell in their own words.
    """
    reached, last = record is None, Piece(None, 0, 0, None, list)
    for piece in pieces:
        last = piece
        reached = reached or (piece.number is not None and piece.number >= (record or 0))
        is_behind = piece.offset + max(piece.size, 1) > offset
        if reached and is_behind and (kinds is None or piece.cls in kinds):
            yield _annotated(trace, piece, hidden)
    end = last.offset + last.size
    if reached and kinds is None and (findings := _findings_in(trace, last, end, MAX_UINT64)):
        yield AnnotatedRecord(None, end, 0, "the end", "", [], findings)


def _annotated(trace: Any, piece: Piece, hidden: Set[str]) -> AnnotatedRecord:
    ranges = piece.ranges()
    faults = {fault for byte_range in ranges for fault in byte_range.faults}
    findings = [
        finding
        for finding in _findings_in(trace, piece, piece.offset, piece.offset + piece.size)
        if finding.rule not in hidden and finding.message not in faults
    ]
    cls: Any = piece.cls
    spec = "" if cls is None else cls.spec if hasattr(cls, "spec") else doc_of(cls).spec
    name = piece.name or cls.__name__
    return AnnotatedRecord(piece.number, piece.offset, piece.size, name, spec, ranges, findings)


def _findings_in(trace: Any, piece: Piece, begin: int, end: int) -> list[Finding]:
    """Return the findings from an offset to before another one, in the file of a piece."""
    inside: list[Finding] = trace.findings.between(begin - piece.base, end - piece.base)
    return [finding for finding in inside if finding.file == piece.file]
