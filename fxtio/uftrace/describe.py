"""Records taken apart for people, and the format's layouts as Markdown; both from the declarations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fxtio.codec.describe import enumerations_markdown, layout_markdown, quoted, title_of, word_markdown
from fxtio.codec.piece import Bits, Piece, Span
from fxtio.codec.record import Opaque
from fxtio.codec.word import Field, Word
from fxtio.errors import DecodeError
from fxtio.finding import Finding, Findings
from fxtio.uftrace import arguments, enums, layout
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.events import data_of
from fxtio.uftrace.records import CLASSES, Entry, Event, Exit
from fxtio.uftrace.stream import Chunk

if TYPE_CHECKING:
    from fxtio.uftrace.reader import UftraceTrace

Kinds = frozenset[type[Any]]
_WORD = 8
_OTHER_WORDS = (layout.RingWord, layout.CommitWord, layout.PerfMiscWord)


def explain(trace: UftraceTrace, *, record: int | None, offset: int, kinds: Kinds | None) -> Iterator[Piece]:
    """Take records apart.

    Args:
        trace: the trace.
        record: begin with this one, counted from 0 over all tasks; or
        offset: with the one that has this byte, counted over the files of all tasks one behind the other.
        kinds: only these classes, all where it is None.
    """
    number = begin = 0
    tid = None
    files = {one: trace.directory.size(f"{one}.dat") for one in trace.tids}
    for chunk in trace.chunks():
        if tid is not None and chunk.tid != tid:
            begin += files[tid]
        tid = chunk.tid
        for piece, cls in _pieces(chunk, begin, number, trace.findings):
            number += piece.number is not None
            wanted = piece.number == record if record is not None else piece.offset + piece.size > offset
            if record is not None and wanted:
                record = None
                offset = piece.offset
            if wanted and (kinds is None or cls in kinds):
                yield piece


def _pieces(chunk: Chunk, begin: int, number: int, findings: Findings) -> Iterator[tuple[Piece, type[Any]]]:
    if chunk.gap is not None:
        spans = [Span(0, chunk.gap, "bytes", f"{len(chunk.gap):,} bytes that are no record")]
        place = begin + chunk.base
        yield Piece(None, place, len(chunk.gap), "Opaque", "", spans, _found(findings, chunk, chunk.base, 1)), Opaque
        return
    for row, (at, size) in enumerate(zip(chunk.at.tolist(), chunk.size.tolist(), strict=True)):
        raw = bytes(chunk.block.data[at * _WORD : (at + size) * _WORD])
        time, word = int(chunk.block.words[at]), int(chunk.block.words[at + 1])
        cls = CLASSES[RecordType(layout.RecordWord.fields["type"].get(word))]
        spans = [
            Span(0, raw[:_WORD], "header", bits=_bits(cls.words[0], time)),
            Span(_WORD, raw[_WORD : 2 * _WORD], "header", _meaning(cls, word, chunk), _bits(cls.words[1], word)),
            *_payload(cls, word, raw[2 * _WORD :], chunk),
        ]
        offset = chunk.base + at * _WORD
        found = _found(findings, chunk, offset, size * _WORD)
        yield (
            Piece(
                number + row,
                begin + offset,
                len(raw),
                f"{cls.__name__} of task {chunk.tid}",
                title_of(cls),
                spans,
                found,
            ),
            cls,
        )


def _found(findings: Findings, chunk: Chunk, offset: int, size: int) -> list[Finding]:
    return [one for one in findings if one.file == chunk.file and offset <= one.offset < offset + size]


def _bits(word: type[Word], value: int) -> tuple[Bits, ...]:
    return tuple(_field(field, field.get(value)) for field in word.fields.values())


def _field(field: Field, value: int) -> Bits:
    shown = f"{value:#x}" if field.width > 32 else str(value)
    known = {member.value: member.name for member in field.meaning or ()}
    fault = f"must be {field.value:#x}" if field.role == "const" and value != field.value else ""
    return Bits(field, value, shown, known.get(value, field.doc), fault)


def _meaning(cls: type[Any], word: int, chunk: Chunk) -> str:
    if cls in (Entry, Exit):
        return chunk.space.name(layout.RecordWord.fields["address"].get(word))
    return ""


def _payload(cls: type[Any], word: int, raw: bytes, chunk: Chunk) -> Iterator[Span]:
    if not layout.RecordWord.fields["more"].get(word):
        return
    begin = 2 * _WORD
    if cls is Event:
        data = data_of(raw, chunk.order)
        yield Span(begin, raw, "payload", f"{len(data):,} bytes of data: {data.hex(' ')}")
        return
    address = layout.RecordWord.fields["address"].get(word)
    values = chunk.space.values_at(address, leave=cls is Exit)
    if not chunk.told or not values:
        yield Span(begin, raw, "payload", "nothing tells what it holds")
        return
    try:
        found = arguments.decode(values, raw, chunk.order)
    except DecodeError as error:
        yield Span(begin, raw, "payload", fault=error.message)
        return
    told = (quoted(one) if isinstance(one, str) else one.hex() if isinstance(one, bytes) else str(one) for one in found)
    shown = ", ".join(f"{value}={one}" for value, one in zip(values, told, strict=True))
    yield Span(begin, raw, "payload", shown)


def describe_markdown() -> str:
    """The layouts as a page of Markdown."""
    lines = ["# uftrace", "", "Made from the declarations in `fxtio.uftrace.layout` and `fxtio.uftrace.records`.", ""]
    lines += ["## Records", "", *(layout_markdown(cls) for cls in CLASSES.values())]
    lines += ["## Other words", "", *(word_markdown(word) for word in _OTHER_WORDS)]
    lines.append(enumerations_markdown(enums))
    return "\n".join(lines)
