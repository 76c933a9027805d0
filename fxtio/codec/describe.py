"""Describe declarations for people: tables of layouts, and the words of a record with every bit named.

Both follow the parts that the generated decoder is made of.  `annotate` walks them as the decoder does, but makes a
`ByteRange` for each part where the decoder returns a value; where the decoder raises an error, the range has its
message.
Three functions are dispatched on the class of a part: `part_meaning`, `emit_part` and `part_text`.
"""

from __future__ import annotations

import inspect
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import singledispatch
from importlib import import_module
from types import ModuleType
from typing import Any

from fxtio.codec.annotation import AnnotatedRecord, ByteRange, FieldValue
from fxtio.codec.generate import broken, short, take_bytes, take_many, unlike
from fxtio.codec.parts import Header, Many, Number, Part, Rest, Sized, Stream, Words
from fxtio.codec.record import SIZE, Layout, Record, TaggedUnion, layout_of, once
from fxtio.codec.word import Field, Word
from fxtio.errors import DecodeError
from fxtio.report import counted, quoted

__all__ = [
    "AnnotatedRecord",
    "ByteRange",
    "Doc",
    "FieldValue",
    "Resolve",
    "Walk",
    "annotate",
    "doc_of",
    "emit_part",
    "enumeration_markdown",
    "enumerations_markdown",
    "field_values",
    "layout_markdown",
    "part_meaning",
    "part_text",
    "slot_meaning",
    "title_of",
    "word_markdown",
    "word_value",
]

Resolve = Callable[[Part, int], "str | None"]
"""A function of a reference part and a slot that returns the slot's value for people, or None if it is not defined."""


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


# ---- one record, word by word


def annotate(
    union: TaggedUnion, words: Sequence[int], data: Any, at: int, stop: int, resolve: Resolve | None = None
) -> list[ByteRange]:
    """Describe one record.  Never fails: a fault for which the decoder would raise an error stands in a range.

    Args:
        union: the records that may stand here.
        words: the words as native ints.
        data: the bytes that they came from.
        at: the record's first word.
        stop: the word behind the record, or the end of the words where there are fewer than the header claims.
        resolve: returns the values of slots; without it, slots are shown as numbers.

    Returns:
        Spans that cover the words from `at` to `stop` in order, without a gap.
    """
    walk = Walk(words, data, at, stop, resolve)
    if at < stop:
        walk.record(union)
    return walk.ranges


class Walk:
    """A cursor `c` in one record, or in one of the small records in it."""

    def __init__(
        self, words: Sequence[int], data: Any, at: int, stop: int, resolve: Resolve | None, outer: Walk | None = None
    ) -> None:
        self.words, self.data, self.resolve = words, data, resolve
        self.at = self.c = at
        self.stop = stop
        self.base: int = outer.base if outer else at
        self.ranges: list[ByteRange] = outer.ranges if outer else []
        self.prefix = ""
        self.layout: Layout | None = None
        self.header: dict[str, int] = {}

    def record(self, union: TaggedUnion) -> None:
        """Describe a whole record."""
        kind = union.kind_of(self.words[self.at])
        if kind < 0:
            self.emit(1, "header", "unknown", _undeclared(union, self.words[self.at], self))
            self.emit(self.stop - self.c, "content", "of a type that is not declared")
            return
        self.layout = layout = layout_of(union.classes[kind])
        _load_extensions(union.classes[kind])
        try:
            self._headers(layout)
            for index, (name, part) in enumerate(layout.body):
                emit_part(part, name, self, [later for _, later in layout.body[index + 1 :]])
        except DecodeError as error:
            self.emit(self.stop - self.c, "unexplained" if self.c < self.stop else "missing", fault=error.message)
        if self.c < self.stop:
            self.emit(self.stop - self.c, "unexplained", fault=f"behind the end of {layout.name}")

    def _headers(self, layout: Layout) -> None:
        parts = {owned: part for _, part in layout.parts for owned in part.owns}
        parts |= {part.field.name: part for _, part in layout.parts if isinstance(part, Header)}
        for number, word in enumerate(layout.words):
            self.claim(1, "header")
            value = self.words[self.c]
            self.header |= {name: field.get(value) for name, field in word.fields.items()}
            bits = tuple(_bits(field, value, parts.get(name), self) for name, field in word.fields.items())
            name = doc_of(word).text if number else layout.name
            self.emit(1, f"header {number + 1}" if number else "header", name, bits)
        mask, constant = layout.words[0].pattern("const")
        if self.words[self.at] & mask != constant:
            raise unlike(layout.name)

    def emit(self, count: int, label: str, value: str = "", bits: tuple[FieldValue, ...] = (), fault: str = "") -> None:
        """Add a range of `count` words, and move behind them."""
        if count or fault:
            raw = bytes(self.data[self.c * 8 : (self.c + count) * 8])
            self.ranges.append(ByteRange((self.c - self.base) * 8, raw, self.prefix + label, value, bits, fault))
            self.c += count

    def claim(self, count: int, name: str) -> None:
        """Raise the decoder's DecodeError if the record does not have `count` more words."""
        if self.c + count > self.stop:
            raise short(self.where(name))

    def where(self, name: str) -> str:
        """Return a place as the decoder's messages name it."""
        return f"{self.layout.name}.{name}" if self.layout else name

    def stream(self, name: str, length: int, *, text: bool) -> None:
        """Add a range of padded bytes."""
        raw, after = take_bytes(self.data, self.c, length, self.stop, self.where(name))
        padding = bytes(self.data[self.c * 8 + length : after * 8])
        value = quoted(raw.decode("utf-8", "surrogateescape")) if text else counted(length, "byte")
        fault = "the padding is not zero" if any(padding) else ""
        if text and raw.decode("utf-8", "ignore").encode() != raw:
            fault = "the text is not UTF-8"
        self.emit(after - self.c, name, f"{value}, padded by {len(padding)}" if padding else value, fault=fault)


@once
def _load_extensions(cls: type[Record]) -> None:
    """Import the modules that register the descriptions of the parts of a record class, see `Part.extension`."""
    for _, part in layout_of(cls).parts:
        if part.extension:
            import_module(part.extension)


def word_value(value: int) -> str:
    """Return a word for people: decimal, and hexadecimal where that differs."""
    return f"{value} ({value:#x})" if value > 9 else str(value)


def field_values(word: type[Word], value: int) -> tuple[FieldValue, ...]:
    """Describe the fields of a word that nothing else is known about."""
    return tuple([_field_value(field, value) for field in word.fields.values()])


def _field_value(field: Field, word: int) -> FieldValue:
    """Describe a field by its declaration."""
    value: int = field.get(word)
    shown, meaning, fault = f"{value:#x}" if field.width > 32 else str(value), _named(field, value), ""
    if field.role == "reserved":
        shown, meaning, fault = f"{value:#x}", "reserved", "must be zero" if value else ""
    elif field.role == "const":
        shown, fault = f"{value:#x}", "" if value == field.value else f"must be {field.value:#x}"
    elif field.role == "bits" and value < field.limits[0]:
        fault = f"must be at least {field.limits[0]}"
    return FieldValue(field, value, shown, meaning, fault)


def _bits(field: Field, word: int, part: Part | None, walk: Walk) -> FieldValue:
    """Describe a field of a header word."""
    described = _field_value(field, word)
    if field.name == SIZE:
        available = walk.stop - walk.at
        fault = described.fault or ("" if described.value == available else f"{available:,} at hand")
        return replace(described, meaning=f"words, {described.value * 8:,} bytes", fault=fault)
    if part is None:
        return described
    meaning, fault = part_meaning(part, field, described.value, walk)
    return replace(described, meaning=meaning, fault=described.fault or fault)


def _named(field: Field, value: int) -> str:
    """Return the value's name in its enumeration, or the field's documentation if it has none."""
    if field.meaning is None:
        return field.doc
    labels = {member.value: member.name for member in field.meaning}
    return labels.get(value, f"unknown {field.meaning.__name__}")


def _undeclared(union: TaggedUnion, word: int, walk: Walk) -> tuple[FieldValue, ...]:
    """Describe the header of a record of unknown type: the fields common to all records, the tags, and the rest."""
    number = union.type_of(word)
    size, selector = union.sizes[number], union.selectors[number]
    known = [union.base.fields["type"], size]
    if selector.mask:
        hi = selector.lo + selector.mask.bit_length() - 1
        known.append(Field("subtype", selector.lo, hi, doc="unknown subtype"))
    known.sort(key=lambda field: field.lo)
    before, behind = [-1, *(field.hi for field in known)], [*(field.lo for field in known), union.base.width]
    gaps = [Field("undeclared", a + 1, b - 1) for a, b in zip(before, behind, strict=True) if a + 1 < b]
    return tuple(_bits(one, word, None, walk) for one in sorted([*known, *gaps], key=lambda field: field.lo))


@singledispatch
def part_meaning(part: Part, field: Field, value: int, walk: Walk) -> tuple[str, str]:
    """Return the meaning that a header field has for the part that owns it, and its fault or an empty string."""
    return _named(field, value), ""


@part_meaning.register
def _(part: Header, field: Field, value: int, walk: Walk) -> tuple[str, str]:
    return ("true" if value else "false") if part.boolean else _named(field, value), ""


@part_meaning.register
def _(part: Stream, field: Field, value: int, walk: Walk) -> tuple[str, str]:
    return "bytes", ""


@part_meaning.register
def _(part: Words, field: Field, value: int, walk: Walk) -> tuple[str, str]:
    return "words", ""


def slot_meaning(part: Part, slot: int, walk: Walk) -> tuple[str, str]:
    """Return the meaning of a slot that a part refers to, and its fault or an empty string."""
    meaning = walk.resolve(part, slot) if walk.resolve else ""
    fault = "not defined before this record" if meaning is None else ""
    return f"slot {slot}: {meaning}" if meaning else f"slot {slot}", fault


# ---- the parts, word by word


@singledispatch
def emit_part(part: Part, name: str, walk: Walk, later: list[Part]) -> None:
    """Add ranges for the part's words; `later` are the parts behind it.  Raises DecodeError as the decoder does."""
    raise TypeError(f"{type(part).__name__} cannot be described")


@emit_part.register
def _(part: Number, name: str, walk: Walk, later: list[Part]) -> None:
    if part.optional and walk.c >= walk.stop:
        return
    walk.claim(1, name)
    raw = walk.words[walk.c].to_bytes(8, "little")
    value = struct.unpack({"u": "<Q", "i": "<q", "f": "<d"}[part.kind], raw)[0]
    walk.emit(1, name, word_value(value) if part.kind == "u" else str(value))


@emit_part.register
def _(part: Stream, name: str, walk: Walk, later: list[Part]) -> None:
    walk.stream(name, walk.header[part.size], text=part.text)


@emit_part.register
def _(part: Sized, name: str, walk: Walk, later: list[Part]) -> None:
    walk.claim(1, name)
    length = walk.words[walk.c]
    walk.emit(1, f"{name} size", f"{word_value(length)} bytes")
    walk.stream(name, length, text=False)


@emit_part.register
def _(part: Words, name: str, walk: Walk, later: list[Part]) -> None:
    count = walk.header[part.count]
    walk.claim(count, name)
    for number in range(count):
        walk.emit(1, f"{name}[{number}]", f"{walk.words[walk.c]:#x}")


@emit_part.register
def _(part: Many, name: str, walk: Walk, later: list[Part]) -> None:
    first, end, faults = walk.c, walk.stop, list[tuple[str, str]]()
    count, where = walk.header[part.count], walk.where(name)
    members, after = take_many(part.union, walk.words, walk.data, first, end, count, faults, where)
    number, error = len(members) + sum(rule == "arg.short" for rule, _ in faults), None
    if after < 0:  # as in the decoder: the parts behind are placed by counting from the record's end
        behind = [size for one in later if (size := one.tail_words()) is not None]
        end -= sum(behind)
        error = broken(where) if len(behind) < len(later) else short(where) if end < first else None
        end = walk.stop if error else end
    for index in range(number):
        stop = walk.c + part.union.size_of(walk.words[walk.c])
        if stop > end:
            break
        member = Walk(walk.words, walk.data, walk.c, stop, walk.resolve, walk)
        member.prefix = f"{walk.prefix}{name}[{index}]."
        member.record(part.union)
        walk.c = stop
    if after < 0:
        walk.emit(0 if error else end - walk.c, "unexplained", fault=faults[-1][1])
    if error:
        raise error


# ---- the documents


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
    lines = [f"{'#' * level} {title_of(cls)}", "", " ".join(filter(None, [f"`{cls.__name__}`.", doc.text]))]
    for number, word in enumerate(layout.words):
        title = f"**Header word {number + 1}** {doc_of(word).text}" if number else "**Header word**"
        lines += ["", title, "", *_word_table(word)]
    if layout.body:
        lines += ["", "**Body**", ""]
    _load_extensions(cls)
    for name, part in layout.body:
        text = doc.attributes.get(name)
        lines.append(f"1. {part_text(part, name)}{f': {text}' if text else '.'}")
    return "\n".join([*lines, ""])


def word_markdown(word: type[Word], *, level: int = 3) -> str:
    """Return a section of Markdown about a word."""
    return "\n".join([f"{'#' * level} {title_of(word)}", "", doc_of(word).text, "", *_word_table(word), ""])


def _word_table(word: type[Word]) -> Iterator[str]:
    """Yield the lines of a Markdown table with the declared fields of a word."""
    yield "| Bits | Field | Value | Meaning |"
    yield "|---|---|---|---|"
    for field in word.fields.values():
        texts = [
            field.doc,
            f"see [{field.meaning.__name__}](#{field.meaning.__name__.lower()})" if field.meaning else "",
        ]
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


def enumeration_markdown(enumeration: type[IntEnum], *, level: int = 3) -> str:
    """Return a section of Markdown about an enumeration, with the anchor that the tables of words link to."""
    doc = doc_of(enumeration)
    text = doc.text or f"Specification: {doc.spec}."
    lines = [f"{'#' * level} {enumeration.__name__}", "", text, "", "| Value | Name |", "|---|---|"]
    return "\n".join([*lines, *(f"| {member.value} | `{member.name}` |" for member in enumeration), ""])


def enumerations_markdown(module: ModuleType) -> str:
    """Return a chapter of Markdown about all enumerations of a module, in its order."""
    classes = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, IntEnum)]
    own = [cls for cls in classes if cls.__module__ == module.__name__]
    return "\n".join(["## Enumerations", "", *(enumeration_markdown(cls) for cls in own)])
