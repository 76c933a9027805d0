"""What people read about the format: the reference of its records, and the lines of a trace taken apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fxtio.codec.piece import Piece, Span
from fxtio.codec.record import Opaque
from fxtio.coreprofiler import parts as compounds
from fxtio.coreprofiler.layout import Item, Several
from fxtio.coreprofiler.lines import TAG_SIZE, Fault, Form, decode, form_of
from fxtio.coreprofiler.reader import CoreProfilerTrace
from fxtio.coreprofiler.records import RECORDS, TAGS


def explain(
    trace: CoreProfilerTrace, *, record: int | None = None, offset: int = 0, kinds: frozenset[type[Any]] | None = None
) -> Iterator[Piece]:
    """Take a trace apart, from some place on.

    Args:
        trace: the trace.
        record: begin with this line, by its number from 0.
        offset: begin with the line that has this byte.
        kinds: only records of these classes.

    Yields:
        The lines in the order of the file.
    """
    number = -1
    for block in trace._blocks():
        if isinstance(block, tuple):
            number += 1
            begin, raw = block
            if begin + len(raw) > offset and number >= (record or 0) and (kinds is None or Opaque in kinds):
                yield _piece(trace, number, begin, raw, Opaque(raw))
            continue
        starts = block.offsets().tolist()
        for row, (begin, one) in enumerate(zip(starts, block.records(), strict=True)):
            number += 1
            raw = block.lines.raw(row)
            if begin + len(raw) > offset and number >= (record or 0) and (kinds is None or type(one) in kinds):
                yield _piece(trace, number, begin, raw, one)


def _piece(trace: CoreProfilerTrace, number: int, begin: int, raw: bytes, one: Any) -> Piece:
    findings = [found for found in trace.findings if begin <= found.offset < begin + len(raw)]
    cls = type(one)
    name, spec = ("unknown line", "") if cls is Opaque else (cls.__name__, cls.spec)
    return Piece(number, begin, len(raw), name, spec, spans_of(raw, one), findings)


def spans_of(raw: bytes, one: Any) -> list[Span]:
    """A line as spans: tag, items, line end; of a line that is no record, as far as it fits the one it begins like."""
    line = raw.rstrip(b"\r\n") if len(raw) - len(raw.rstrip(b"\r\n")) <= 2 else raw[:-1]
    end = [Span(len(line), raw[len(line) :], "line end")] if len(line) < len(raw) else []
    cls = type(one)
    if cls is Opaque:
        classes = TAGS.get(line[:TAG_SIZE])
        if classes is None:
            return [Span(0, line, "line"), *end]
        cls = classes[0]
    form = form_of(cls)
    spans = [Span(0, line[:TAG_SIZE], "type and subtype", cls.tag)]
    at = _parts(form, line, TAG_SIZE, "", spans, one)
    rest = line[at:]
    if isinstance(form.tail, Several) and type(one) is not Opaque:
        for name, member in zip(form.filled, form.tail.members, strict=True):
            for place, value in enumerate(getattr(one, name)):
                at = _parts(form_of(member), line, at, f"{name}[{place}].", spans, value)
    elif rest:
        told = ", ".join(str(getattr(one, name)) for name in form.filled if hasattr(one, name))
        fault = ""
        if type(one) is Opaque:
            found = decode(line)
            fault = found.message if isinstance(found, Fault) else ""
        spans.append(Span(at, rest, ", ".join(form.filled) or "the rest", told, fault=fault))
    return [*spans, *end]


def _parts(form: Form, line: bytes, at: int, prefix: str, spans: list[Span], one: Any) -> int:
    """Add the spans of items of fixed number; gives where they end."""
    for part in form.parts:
        match = _pattern(part.item).match(line, at)
        if match is None:
            break
        if match.end() > at:
            value = getattr(one, part.name, None)
            told = "" if type(one) is Opaque else part.item.told(value)
            spans.append(Span(at, line[at : match.end()], f"{prefix}{part.name}", told))
        at = match.end()
    return at


def _pattern(item: Item) -> re.Pattern[bytes]:
    return re.compile(item.pattern.encode("ascii"))


_PREFACE = """\
A trace is text, a record to a line: type, subtype, items. What is known of the format, and what is inferred, stands in
[CoreProfiler in practice](../../../explanation/coreprofiler-in-practice.md). An item in square brackets may be missing,
`...` stands for any number of them.
"""


def describe_markdown() -> str:
    """The reference of all records, in the specification's order."""
    lines = ["# CoreProfiler trace", "", _PREFACE]
    for cls in RECORDS:
        lines += [
            f"## {cls.__name__}",
            "",
            (cls.__doc__ or "").partition("\n")[0],
            "",
            "```text",
            usage(cls),
            "```",
            "",
        ]
        lines.append(f"Specification: {cls.spec}." if cls.spec else "Not in the specification.")
        lines.append("")
    lines += ["## Compound items", "", "| Item | Parts |", "|---|---|"]
    for one in compounds.Compound.__subclasses__():
        lines.append(f"| `<{one.item}>` | `{_items(form_of(one)).strip()}` |")
    return "\n".join([*lines, ""])


def usage(cls: type[Any]) -> str:
    """A record's line as the specification shows it."""
    form = form_of(cls)
    text = f"{cls.tag}{_items(form)}"
    if isinstance(form.tail, Several):
        return text + "".join(f" <{member.item}>..." for member in form.tail.members)
    if form.tail is not None:
        text += "".join(f" <{name}:{form.tail.name}>" for name in form.filled)
    return text


def _items(form: Form) -> str:
    shown = [(part.item, f"{part.item.glue}<{part.name}:{part.item.name}>") for part in form.parts]
    return "".join(f"[{text}]" if item.optional else text for item, text in shown)
