"""Descriptions of the format for people: the lines of a trace taken apart, and the reference of its records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from fxtio.codec.annotation import AnnotatedRecord, ByteRange, Piece, explained, the_end
from fxtio.codec.canonical import classes_named
from fxtio.codec.docstrings import doc_of
from fxtio.codec.record import Opaque
from fxtio.codec.text.items import Layout, layout_of
from fxtio.coreprofiler.layout import TAG_SIZE
from fxtio.coreprofiler.reader import CoreProfilerTrace
from fxtio.coreprofiler.records import RECORDS, TAGS, Compound, decode, tag_of
from fxtio.errors import DecodeError

Kinds = frozenset[type[Any]]


kinds_of = partial(classes_named, classes=(*RECORDS, Opaque))
"""Returns the classes of records that a name stands for, see `classes_named`."""


def explain(
    trace: CoreProfilerTrace, *, record: int | None = None, offset: int = 0, kinds: Kinds | None = None
) -> Iterator[AnnotatedRecord]:
    """Take the lines of a trace apart, see `fxtio.formats.ExplainRoom.explain`."""
    return explained(trace, _pieces(trace), record=record, offset=offset, kinds=kinds)


def _pieces(trace: CoreProfilerTrace) -> Iterator[Piece]:
    """Yield the lines of a trace."""
    number = 0
    for block in trace._blocks():
        if isinstance(block, tuple):
            begin, raw = block
            yield _piece(number, begin, raw, Opaque(raw))
            number += 1
            continue
        for row, (begin, value) in enumerate(zip(block.offsets().tolist(), block.records(), strict=True)):
            yield _piece(number, begin, block.lines.raw(row), value)
            number += 1
    yield the_end(trace.position)


def _piece(number: int, begin: int, raw: bytes, record: Any) -> Piece:
    cls, name = type(record), "unknown line" if type(record) is Opaque else ""
    return Piece(number, begin, len(raw), cls, partial(ranges_of, raw, record), name)


def ranges_of(raw: bytes, record: Any) -> list[ByteRange]:
    """Return a line as ranges: tag, items, line end.  An `Opaque` is compared with the record that its tag names."""
    line = raw.rstrip(b"\r\n") if len(raw) - len(raw.rstrip(b"\r\n")) <= 2 else raw[:-1]
    end = [ByteRange(len(line), raw[len(line) :], "line end")] if len(line) < len(raw) else []
    is_opaque = type(record) is Opaque
    cls = type(record)
    if is_opaque:
        classes = TAGS.get(line[:TAG_SIZE])
        if classes is None:
            return [ByteRange(0, line, "line"), *end]
        cls = classes[0]
    layout = layout_of(cls)
    ranges = [ByteRange(0, line[:TAG_SIZE], "type and subtype", tag_of(cls))]
    at = _add_ranges(layout, line, TAG_SIZE, "", ranges, record)
    rest = line[at:]
    if layout.members and not is_opaque:
        for name, member in layout.members.items():
            for index, value in enumerate(getattr(record, name)):
                at = _add_ranges(layout_of(member), line, at, f"{name}[{index}].", ranges, value)
    elif rest:
        value = ", ".join(str(getattr(record, name)) for name in layout.tail_fields if hasattr(record, name))
        fault = ""
        if is_opaque:
            try:
                decode(line)
            except DecodeError as error:
                fault = error.message
        ranges.append(ByteRange(at, rest, ", ".join(layout.tail_fields) or "rest", value, fault=fault))
    return [*ranges, *end]


def _add_ranges(layout: Layout, line: bytes, at: int, prefix: str, ranges: list[ByteRange], record: Any) -> int:
    """Add the ranges of items of fixed number, and return where they end."""
    for field in layout.fields:
        match = re.compile(field.item.pattern.encode("ascii")).match(line, at)
        if match is None:
            break
        if match.end() > at:
            value = getattr(record, field.name, None)
            text = "" if type(record) is Opaque else field.item.describe(value)
            ranges.append(ByteRange(at, line[at : match.end()], f"{prefix}{field.name}", text))
        at = match.end()
    return at


_PREFACE = """\
A trace is text with one record per line: type, subtype, items. [CoreProfiler in
practice](../../../explanation/coreprofiler-in-practice.md) lists what is known of the format and what is inferred. An
item in square brackets may be missing; `...` stands for any number of items.
"""


def describe_markdown() -> str:
    """Return the reference of all records in Markdown, in the specification's order."""
    lines = ["# CoreProfiler trace", "", _PREFACE]
    for cls in RECORDS:
        lines += [
            f"## {cls.__name__}",
            "",
            doc_of(cls).text,
            "",
            "```text",
            usage(cls),
            "```",
            "",
        ]
        lines.append(f"Specification: {doc_of(cls).spec}." if doc_of(cls).spec else "Not in the specification.")
        lines.append("")
    lines += ["## Compound items", "", "| Item | Parts |", "|---|---|"]
    for member in Compound.__subclasses__():
        lines.append(f"| `<{member.item}>` | `{_items(layout_of(member)).strip()}` |")
    return "\n".join([*lines, ""])


def usage(cls: type[Any]) -> str:
    """Return a record's line as the specification shows it."""
    layout = layout_of(cls)
    text = f"{tag_of(cls)}{_items(layout)}"
    if layout.members:
        return text + "".join(f" <{member.item}>..." for member in layout.members.values())
    if layout.tail is not None:
        text += "".join(f" <{name}:{layout.tail.name}>" for name in layout.tail_fields)
    return text


def _items(layout: Layout) -> str:
    shown = [(field.item, f"{field.item.separator}<{field.name}:{field.item.name}>") for field in layout.fields]
    return "".join(f"[{text}]" if item.optional else text for item, text in shown)
