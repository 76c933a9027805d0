"""What people read about the format: the reference of its layout, and the records of a profile taken apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from fxtio.codec.piece import Piece, Span
from fxtio.codec.record import Opaque
from fxtio.dcpi.layout import CHUNK_HEAD, FOOTER, KEYWORDS, STEP, TERMINATOR, WORD_TYPE
from fxtio.dcpi.reader import DcpiTrace, Entry
from fxtio.dcpi.records import Chunk, Footer, Line, More, Record, Terminator, encode
from fxtio.finding import Finding

SPECS: dict[type[Any], str] = {Line: "line", Terminator: "terminator", Chunk: "chunk", More: "chunk", Footer: "footer"}
"""What the specification calls the records."""


def explain(
    trace: DcpiTrace, *, record: int | None = None, offset: int = 0, kinds: frozenset[type[Any]] | None = None
) -> Iterator[Piece]:
    """Take a profile apart, from some place on.

    Args:
        trace: the profile.
        record: begin with this record, by its number from 0.
        offset: begin with whatever has this byte.
        kinds: only records of these classes.

    Yields:
        The records in the order of the file.
    """
    held: list[tuple[int, Entry, int]] = []
    findings = 0
    for number, entry, end in _numbered(trace):
        if number < (record or 0) or end <= offset or (kinds is not None and type(entry.record) not in kinds):
            continue
        held.append((number, entry, end))
        if isinstance(entry.record, Line):  # what is wrong with it is known when the header ends
            continue
        for one in held:
            yield _piece(trace, *one)
        held.clear()
        findings = len(trace.findings)
    for one in held:
        yield _piece(trace, *one)
    left = [one for one in trace.findings if one.offset >= trace.position] if len(trace.findings) > findings else []
    if left and kinds is None and record is None:
        yield Piece(None, trace.position, 0, "the end", "", [], left)


def _numbered(trace: DcpiTrace) -> Iterator[tuple[int, Entry, int]]:
    """Records with their numbers, and with where they end."""
    for number, entry in enumerate(trace.entries()):
        yield number, entry, entry.offset + sum(len(span.raw) for span in _spans(entry.record))


def _piece(trace: DcpiTrace, number: int, entry: Entry, end: int) -> Piece:
    inside: list[Finding] = [one for one in trace.findings if entry.offset <= one.offset < end]
    name = type(entry.record).__name__
    spec = SPECS.get(type(entry.record), "")
    return Piece(number, entry.offset, end - entry.offset, name, spec, _spans(entry.record), inside)


def _spans(record: Record) -> list[Span]:
    if isinstance(record, Line):
        return _line(record)
    if isinstance(record, Terminator):
        word = TERMINATOR.encode()
        rest = encode(record)[len(word) :]
        return [Span(0, word, "word", "the end of the header"), Span(len(word), rest, "padding and line end")]
    if isinstance(record, Opaque):
        return [Span(0, record.raw, "bytes")]
    size = WORD_TYPE.itemsize
    raw = encode(record)
    if isinstance(record, Footer):
        values = msgspec.structs.astuple(record)
        names = [field.name for field in FOOTER.subcons]
        return [
            Span(at * size, raw[at * size : (at + 1) * size], name, f"{values[at]:,}") for at, name in enumerate(names)
        ]
    told = ", ".join(map(str, record.counts[:16])) + (", ..." if len(record.counts) > 16 else "")
    if isinstance(record, More):
        return [Span(0, raw, "count", told)]
    head = CHUNK_HEAD.sizeof()
    number = len(record.counts) + record.behind
    return [
        Span(0, raw[:size], "offset", f"{record.offset:#x}, to {record.offset + number * STEP:#x}"),
        Span(size, raw[size:head], "number", f"{number:,}"),
        Span(head, raw[head:], "count", told),
    ]


def _line(line: Line) -> list[Span]:
    parts = [("word", line.word), ("space", line.blanks), ("value", line.value), ("line end", "\n")]
    keyword = KEYWORDS.get(line.word)
    told = {"word": keyword.told if keyword else "no known word", "value": line.value}
    spans, at = [], 0
    for label, text in parts:
        raw = text.encode("ascii", "surrogateescape")
        spans.append(Span(at, raw, label, told.get(label, "")))
        at += len(raw)
    wrong = keyword is not None and not keyword.form.pattern.fullmatch(line.value)
    if wrong and keyword is not None:
        value = spans[2]
        spans[2] = Span(value.offset, value.raw, value.label, value.value, fault=f"not {keyword.form.told}")
    return spans


_PREFACE = f"""\
A profile is a header of text lines, then a body of little-endian 32-bit numbers: chunks, and a footer. What is known of
it, and what is inferred, stands in [DCPI in practice](../../../explanation/dcpi-in-practice.md).

Consecutive counts belong to addresses {STEP} bytes apart.
"""


def describe_markdown() -> str:
    """The reference of the layout: the header's words, chunks, the footer."""
    lines = ["# DCPI profile", "", _PREFACE, "## Header", "", "| Word | Value | Required | Repeats | What it says |"]
    lines.append("|---|---|---|---|---|")
    for one in KEYWORDS.values():
        marks = f"{'yes' if one.required else ''} | {'yes' if one.repeats else ''}"
        lines.append(f"| `{one.name}` | {one.form.told} | {marks} | {one.told} |")
    lines += [
        "",
        "Lines of other words are kept. The line `samples`, with blanks behind it or none, ends the header.",
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
