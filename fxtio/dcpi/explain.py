"""Descriptions of the format for people: the records of a profile taken apart, and the reference of its layout."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from fxtio.codec.annotation import AnnotatedRecord, ByteRange, Piece, explained, the_end
from fxtio.codec.canonical import classes_named
from fxtio.codec.record import Opaque
from fxtio.dcpi.layout import CHUNK_HEAD, FOOTER, KEYWORDS, STEP, TERMINATOR, WORD_TYPE
from fxtio.dcpi.reader import DcpiTrace
from fxtio.dcpi.records import RECORDS, Footer, Line, MoreCounts, Record, Terminator, encode

Kinds = frozenset[type[Any]]

_SHOWN_COUNTS = 16


kinds_of = partial(classes_named, classes=(*RECORDS, Opaque))
"""Returns the classes of records that a name stands for, see `classes_named`."""


def explain(
    trace: DcpiTrace, *, record: int | None = None, offset: int = 0, kinds: Kinds | None = None
) -> Iterator[AnnotatedRecord]:
    """Take the records of a profile apart, see `fxtio.formats.ExplainRoom.explain`."""
    return explained(trace, _pieces(trace), record=record, offset=offset, kinds=kinds)


def _pieces(trace: DcpiTrace) -> Iterator[Piece]:
    """Yield the records of a profile; lines of the header come when it ends, as their faults are known only then."""
    lines: list[Piece] = []
    for number, entry in enumerate(trace.entries()):
        ranges = _ranges(entry.record)
        size = sum(len(byte_range.raw) for byte_range in ranges)
        piece = Piece(number, entry.offset, size, type(entry.record), partial(list, ranges))
        if isinstance(entry.record, Line):
            lines.append(piece)
            continue
        yield from (*lines, piece)
        lines.clear()
    yield from (*lines, the_end(trace.position))


def _ranges(record: Record) -> list[ByteRange]:
    if isinstance(record, Line):
        return _line(record)
    if isinstance(record, Terminator):
        word = TERMINATOR.encode()
        rest = encode(record)[len(word) :]
        return [ByteRange(0, word, "word", "the end of the header"), ByteRange(len(word), rest, "padding and line end")]
    if isinstance(record, Opaque):
        return [ByteRange(0, record.raw, "bytes")]
    size = WORD_TYPE.itemsize
    raw = encode(record)
    if isinstance(record, Footer):
        values = msgspec.structs.astuple(record)
        names = [field.name for field in FOOTER.subcons]
        return [
            ByteRange(at * size, raw[at * size : (at + 1) * size], name, f"{values[at]:,}")
            for at, name in enumerate(names)
        ]
    shown = record.counts[:_SHOWN_COUNTS]
    text = ", ".join(map(str, shown)) + (", ..." if len(record.counts) > len(shown) else "")
    if isinstance(record, MoreCounts):
        return [ByteRange(0, raw, "count", text)]
    head = CHUNK_HEAD.sizeof()
    number = len(record.counts) + record.remaining
    return [
        ByteRange(0, raw[:size], "offset", f"{record.text_offset:#x}, to {record.text_offset + number * STEP:#x}"),
        ByteRange(size, raw[size:head], "number", f"{number:,}"),
        ByteRange(head, raw[head:], "count", text),
    ]


def _line(line: Line) -> list[ByteRange]:
    keyword = KEYWORDS.get(line.word)
    is_wrong = keyword is not None and not keyword.syntax.pattern.fullmatch(line.value)
    fault = f"not {keyword.syntax.description}" if keyword is not None and is_wrong else ""
    parts = [
        ("word", line.word, keyword.description if keyword else "not a known word", ""),
        ("space", line.blanks, "", ""),
        ("value", line.value, line.value, fault),
        ("line end", "\n", "", ""),
    ]
    ranges, at = [], 0
    for label, text, meaning, part_fault in parts:
        raw = text.encode("ascii", "surrogateescape")
        ranges.append(ByteRange(at, raw, label, meaning, fault=part_fault))
        at += len(raw)
    return ranges


_PREFACE = f"""\
A profile is a header of text lines, then a body of little-endian 32-bit numbers: chunks, and a footer. [DCPI in
practice](../../../explanation/dcpi-in-practice.md) lists what is known of the format and what is inferred.

Consecutive counts belong to addresses {STEP} bytes apart.
"""


def describe_markdown() -> str:
    """Return the reference of the layout in Markdown: the header's words, chunks, the footer."""
    lines = ["# DCPI profile", "", _PREFACE, "## Header", "", "| Word | Value | Required | Repeats | Meaning |"]
    lines.append("|---|---|---|---|---|")
    for keyword in KEYWORDS.values():
        marks = f"{'yes' if keyword.required else ''} | {'yes' if keyword.repeats else ''}"
        lines.append(f"| `{keyword.name}` | {keyword.syntax.description} | {marks} | {keyword.description} |")
    lines += [
        "",
        "Lines with other words are allowed. The line `samples`, which may have blanks at its end, ends the header.",
        "",
    ]
    for title, fields in (("Chunk", [*CHUNK_HEAD.subcons]), ("Footer", [*FOOTER.subcons])):
        lines += [f"## {title}", "", "| Bytes | Field |", "|---|---|"]
        at = 0
        for field in fields:
            size = field.sizeof()
            lines.append(f"| {at} .. {at + size - 1} | `{field.name}` |")
            at += size
        lines += [f"| {at} .. | `count`, {WORD_TYPE.itemsize} bytes each, `number` of them |"] * (title == "Chunk")
        lines.append("")
    return "\n".join(lines)
