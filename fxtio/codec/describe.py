"""Annotate the bytes of one record: every word with each of its bits, every byte with its field.

`annotate` walks the parts of a record of words as the generated decoder does, but makes a `ByteRange` for each part
where the decoder returns a value; where the decoder raises an error, the range has its message.  Two functions are
dispatched on the class of a part: `part_meaning` and `emit_part`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

from fxtio.codec.annotation import ByteRange, FieldValue
from fxtio.codec.docstrings import doc_of
from fxtio.codec.generate import broken, short, take_bytes, take_many, unlike
from fxtio.codec.parts import Header, Many, Number, Part, Sized, Stream, Words
from fxtio.codec.record import SIZE, Layout, TaggedUnion, layout_of, load_extensions
from fxtio.codec.word import Field, Word
from fxtio.errors import DecodeError
from fxtio.report import counted, quoted

Resolve = Callable[[Part, int], "str | None"]
"""A function of a reference part and a slot that returns the slot's value for people, or None if it is not defined."""


# ---- one record, word by word


def annotate(
    union: TaggedUnion, words: Sequence[int], data: Any, at: int, stop: int, resolve: Resolve | None = None
) -> list[ByteRange]:
    """Describe one record.  Never fails: a fault for which the decoder would raise an error is in a range.

    Args:
        union: the records that may be here.
        words: the words as native ints.
        data: the bytes that they came from.
        at: the record's first word.
        stop: the word after the record, or the end of the words where there are fewer than the header claims.
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
        load_extensions(union.classes[kind])
        try:
            self._headers(layout)
            for index, (name, part) in enumerate(layout.body):
                emit_part(part, name, self, [later for _, later in layout.body[index + 1 :]])
        except DecodeError as error:
            self.emit(self.stop - self.c, "unexplained" if self.c < self.stop else "missing", fault=error.message)
        if self.c < self.stop:
            self.emit(self.stop - self.c, "unexplained", fault=f"after the end of {layout.name}")

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
        """Add a range of `count` words, and move after them."""
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
    """Add ranges for the part's words; `later` are the parts after it.  Raises DecodeError as the decoder does."""
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
    if after < 0:  # as in the decoder: the parts after it are placed by counting from the record's end
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
