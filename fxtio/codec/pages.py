"""Pages about layouts, as Markdown: what the declarations of records, words and enumerations say, for the reference."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import singledispatch
from math import inf
from types import ModuleType
from typing import Any

from fxtio.codec.parts import Many, Number, Part, Rest, Sized, Stream, Words
from fxtio.codec.record import Record, layout_of, load_extensions, once
from fxtio.codec.stream import declare
from fxtio.codec.stream.declare import Choice, Item, Repeated, StreamPart, StreamRecord, parts_of, single
from fxtio.codec.word import Field, Word


@dataclass(frozen=True, slots=True)
class Doc:
    """The parts of a docstring.

    Attributes:
        text: the sentences before the sections.
        spec: the title in the specification, or empty.
        attributes: the description of every attribute.
    """

    text: str
    spec: str
    attributes: dict[str, str]


@once
def doc_of(cls: type[Any]) -> Doc:
    """Return the parts of a class's own docstring."""
    whole, _, listed = inspect.cleandoc(cls.__doc__ or "").partition("Attributes:\n")
    spec = re.search(r"spec: ([^.\n]+)\.?", whole)
    text = whole.replace(spec[0], "") if spec else whole
    attributes = re.findall(r"^    (\w+): (.*(?:\n {8,}.*)*)", listed, re.MULTILINE)
    return Doc(
        " ".join(text.split()), spec[1] if spec else "", {name: " ".join(lines.split()) for name, lines in attributes}
    )


def title_of(cls: type[Any]) -> str:
    """Return the title that the specification has for a word or a record, else the name of its class."""
    return doc_of(cls).spec or cls.__name__


def _head(level: int, title: str, *texts: str) -> list[str]:
    """Return the lines that begin a section: its heading, and sentences."""
    return [f"{'#' * level} {title}", "", " ".join(filter(None, texts)), ""]


# ---- records of words


@singledispatch
def part_text(part: Part, name: str) -> str:
    """Describe the part in a line of the reference, as Markdown."""
    padded = "padded with zeros to whole words"
    match part:
        case Number(kind, optional):
            form = {"u": "unsigned", "i": "signed, two's complement", "f": "a double-precision number"}[kind]
            return f"`{name}`: a word, {form}{'; there if the record has room for it' if optional else ''}"
        case Stream(size, text):
            return f"`{name}`: `{size}` bytes of {'UTF-8 text' if text else 'data'}, {padded}"
        case Sized():
            return f"`{name}`: a word with the length in bytes, then that many bytes of data, {padded}"
        case Words(count):
            return f"`{name}`: `{count}` words"
        case Rest(flag):
            return f"`{name}`: whole words up to the next record; there if `{flag}` is 1"
        case Many(union, count):
            return f"`{name}`: `{count}` times a small record, see {title_of(union.base)}"
        case _:
            raise TypeError(f"{type(part).__name__} cannot be described")


def layout_markdown(cls: type[Record], *, level: int = 3) -> str:
    """Return a section of Markdown about a record: its purpose, its header words bit by bit, its body part by part.

    Args:
        cls: the record.
        level: of the heading.  Enumerations are linked to; `enumeration_markdown` makes their sections.
    """
    doc, layout = doc_of(cls), layout_of(cls)
    lines = _head(level, title_of(cls), f"`{cls.__name__}`.", doc.text)[:-1]
    for number, word in enumerate(layout.words):
        title = f"**Header word {number + 1}** {doc_of(word).text}" if number else "**Header word**"
        lines += ["", title, "", *_word_table(word)]
    if layout.body:
        lines += ["", "**Body**", ""]
    load_extensions(cls)
    for name, part in layout.body:
        text = doc.attributes.get(name)
        lines.append(f"1. {part_text(part, name)}{f': {text}' if text else '.'}")
    return "\n".join([*lines, ""])


def word_markdown(word: type[Word], *, level: int = 3) -> str:
    """Return a section of Markdown about a word."""
    return "\n".join([*_head(level, title_of(word), doc_of(word).text), *_word_table(word), ""])


def _word_table(word: type[Word]) -> Iterator[str]:
    """Yield the lines of a Markdown table with the declared fields of a word."""
    yield "| Bits | Field | Value | Meaning |"
    yield "|---|---|---|---|"
    for field in word.fields.values():
        name = field.meaning.__name__ if field.meaning else ""
        texts = [field.doc, f"see [{name}](#{name.lower()})" if name else ""]
        meaning = "reserved, must be zero" if field.role == "reserved" else "; ".join(filter(None, texts))
        name = f"`{field.name}`" if field.role != "reserved" else ""
        bits = f"{field.lo} .. {field.hi}" if field.width > 1 else str(field.lo)
        yield f"| {bits} | {name} | {_legal(field)} | {meaning} |"


def _legal(field: Field) -> str:
    """Return the values that a field may have, or an empty string where that is every value that fits."""
    if field.role == "bits":
        return f"{field.limits[0]} to {field.limits[1]}" if field.least else "signed" if field.signed else ""
    if field.role == "const":
        return f"{field.value:#x}"
    labels = {member.value: member.name for member in field.meaning} if field.meaning else {}
    return f"{field.value} = {labels[field.value]}" if field.value in labels else str(field.value)


def enumeration_markdown(enumeration: type[IntEnum]) -> str:
    """Return a section of Markdown about an enumeration, with the anchor that the tables of words link to."""
    doc = doc_of(enumeration)
    head = _head(3, enumeration.__name__, doc.text or f"Specification: {doc.spec}.")
    return "\n".join(
        [
            *head,
            "| Value | Name |",
            "|---|---|",
            *(f"| {member.value} | `{member.name}` |" for member in enumeration),
            "",
        ]
    )


def enumerations_markdown(module: ModuleType) -> str:
    """Return a chapter of Markdown about all enumerations of a module, in its order."""
    classes = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, IntEnum)]
    own = [cls for cls in classes if cls.__module__ == module.__name__]
    return "\n".join(["## Enumerations", "", *(enumeration_markdown(cls) for cls in own)])


# ---- records of bytes


def stream_markdown(cls: type[StreamRecord]) -> str:
    """Return a section of Markdown about a record: its first byte, and its parts with the versions that have them."""
    doc = doc_of(cls)
    lines = _head(3, cls.__name__, f"{title_of(cls)}.", doc.text)
    for head in cls.first_bytes:
        layout = declare.layout_of(cls, head.since or 1)
        assert layout is not None
        values = " or ".join(f"`{value:#04x}`" for value in layout.bytes())
        lines.append(f"First byte {values}{_range(head.since, head.before)}.")
    if cls.subtype is not None:
        lines.append(f"After the time a byte {int(cls.subtype)}.")
    lines += ["", "| Field | In the file | Data versions |", "|---|---|---|"]
    lines += list(field_rows(cls))
    return "\n".join([*lines, ""])


def field_rows(cls: type[Item], prefix: str = "", *, first_version: int = 1) -> Iterator[str]:
    """Yield a row of a Markdown table for each part: the field, its encoding, and the versions that have it.

    Args:
        cls: the class.
        prefix: comes before the names of the fields.
        first_version: the first version that there is.
    """
    for name, parts in parts_of(cls).items():
        for part in parts:
            versions = _versions(part.since, part.before, first_version)
            when = f"; only where `{part.when[0]}` is {_numbers(part.when[1])}" if part.when else ""
            yield f"| `{prefix}{name}` | {_encoding(part)}{when} | {versions} |"
        if not parts:
            yield f"| `{prefix}{name}` | in the first byte | |"
        items = next(
            (part.of for part in parts if isinstance(part, Repeated) and not isinstance(part.of, StreamPart)),
            None,
        )
        if items is not None:
            yield from field_rows(items, f"{prefix}{name}[].", first_version=first_version)


def _range(since: float, before: float) -> str:
    versions = _versions(since, before)
    return f" (data versions {versions})" if versions else ""


def _versions(since: float, before: float, first: int = 1) -> str:
    if since <= first:
        return "" if before == inf else f"before {before:g}"
    return f"{since:g} on" if before == inf else f"{since:g} to before {before:g}"


def _numbers(values: tuple[int, ...]) -> str:
    return ", ".join(str(int(value)) for value in values)


def _encoding(part: StreamPart) -> str:
    """Return how a part is encoded, in the words of the documents."""
    match part:
        case Choice(by=by, cases=cases):
            encodings = [f"{_numbers(values)}: {_encoding(case)}" for values, case in cases]
            return f"by `{by}`: {'; '.join(encodings)}"
        case Repeated(of=of, until_zero=until_zero):
            what = f": {_encoding(of)}" if isinstance(of, StreamPart) else ""
            return (
                f"{'items until a 0 in the place of the first number' if until_zero else 'uleb128 count, items'}{what}"
            )
    return single(part).encoding
