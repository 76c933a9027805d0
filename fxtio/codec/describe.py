"""What people read about a declaration: tables of its layout, and any record's words with every bit named.

Both follow the parts that the generated decoder is made of.  `annotate` walks them as the decoder does, but gives a
`Span` for each piece where the decoder gives a value, and where the decoder refuses, it says why and keeps the rest of
the words.  The wording of each part, three functions dispatched on its class, stands side by side below.
"""

from __future__ import annotations

import inspect
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import singledispatch
from types import ModuleType
from typing import Any

from fxtio.codec.generate import broken, short, take_bytes, take_many, unlike
from fxtio.codec.parts import Header, Koids, Many, Number, Part, Rest, Sized, Stream, Text, Words
from fxtio.codec.piece import Bits, Piece, Span
from fxtio.codec.record import SIZE, Family, Layout, Record, layout_of
from fxtio.codec.word import Field, Word
from fxtio.errors import DecodeError

__all__ = [
    "Bits",
    "Doc",
    "Piece",
    "Resolve",
    "Span",
    "annotate",
    "doc_of",
    "enumeration_markdown",
    "enumerations_markdown",
    "layout_markdown",
    "quoted",
    "title_of",
    "word_markdown",
]

Resolve = Callable[[Part, int], "str | None"]
"""What a slot of a reference (a `Text` or a `Koids` part) means, in words; None if nobody has defined it."""


@dataclass(frozen=True, slots=True)
class Doc:
    """A docstring taken apart.

    Attributes:
        text: the sentences in front of the sections.
        spec: the title in the specification, or empty.
        attributes: the sentence for every attribute.
    """

    text: str
    spec: str
    attributes: dict[str, str]


def doc_of(cls: type[Any]) -> Doc:
    """What a class's own docstring says."""
    whole, _, listed = inspect.cleandoc(cls.__doc__ or "").partition("Attributes:\n")
    spec = re.search(r"spec: ([^.\n]+)\.?", whole)
    text = whole.replace(spec[0], "") if spec else whole
    attributes = re.findall(r"^    (\w+): (.*(?:\n {8,}.*)*)", listed, re.MULTILINE)
    return Doc(" ".join(text.split()), spec[1] if spec else "", {n: " ".join(told.split()) for n, told in attributes})


def title_of(cls: type[Any]) -> str:
    """What the specification calls a word or a record, else the name of its class."""
    return doc_of(cls).spec or cls.__name__


def quoted(text: str) -> str:
    """Text in double quotes on one line, with nothing in it that a terminal would obey."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    plain = (c if c.isprintable() else repr(c.encode("utf-8", "surrogateescape"))[2:-1] for c in escaped)
    return f'"{"".join(plain)}"'


# ---- one record, word by word


def annotate(
    family: Family, words: Sequence[int], data: Any, at: int, stop: int, resolve: Resolve | None = None
) -> list[Span]:
    """Take one record apart.  Never fails: what the decoder would refuse is told in the spans' `fault`.

    Args:
        family: what may stand here.
        words: the words as native ints.
        data: the bytes that they came from.
        at: the record's first word.
        stop: the word behind the record; where fewer words are there than the header claims, the end of those.
        resolve: tells what slots mean; without it, they are shown as numbers.

    Returns:
        Spans that cover the words from `at` to `stop` in order, without a gap.
    """
    walk = _Walk(words, data, at, stop, resolve)
    if at < stop:
        walk.record(family)
    return walk.spans


class _Walk:
    """A cursor `c` in one record, or in one of the small records in it."""

    def __init__(
        self, words: Sequence[int], data: Any, at: int, stop: int, resolve: Resolve | None, outer: _Walk | None = None
    ) -> None:
        self.words, self.data, self.resolve = words, data, resolve
        self.at = self.c = at
        self.stop = stop
        self.base: int = outer.base if outer else at
        self.spans: list[Span] = outer.spans if outer else []
        self.prefix = ""
        self.layout: Layout | None = None
        self.header: dict[str, int] = {}

    def record(self, family: Family) -> None:
        """The whole record."""
        kind = family.kind_of(self.words[self.at])
        if kind < 0:
            self.emit(1, "header", "unknown", _undeclared(family, self.words[self.at], self))
            self.emit(self.stop - self.c, "content", "of a type that nobody declared")
            return
        self.layout = layout = layout_of(family.classes[kind])
        try:
            self._headers(layout)
            for index, (name, part) in enumerate(layout.body):
                _words(part, name, self, [later for _, later in layout.body[index + 1 :]])
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

    def emit(self, count: int, label: str, value: str = "", bits: tuple[Bits, ...] = (), fault: str = "") -> None:
        """Note `count` words and move behind them."""
        if count or fault:
            raw = bytes(self.data[self.c * 8 : (self.c + count) * 8])
            self.spans.append(Span((self.c - self.base) * 8, raw, self.prefix + label, value, bits, fault))
            self.c += count

    def claim(self, count: int, name: str) -> None:
        """Refuse as the decoder does when the record does not have `count` more words."""
        if self.c + count > self.stop:
            raise short(self.where(name))

    def where(self, name: str) -> str:
        """A place as the decoder's messages name it."""
        return f"{self.layout.name}.{name}" if self.layout else name

    def stream(self, name: str, length: int, *, text: bool) -> None:
        """Padded bytes."""
        raw, after = take_bytes(self.data, self.c, length, self.stop, self.where(name))
        padding = bytes(self.data[self.c * 8 + length : after * 8])
        value = quoted(raw.decode("utf-8", "surrogateescape")) if text else f"{length:,} bytes"
        fault = "the padding is not zero" if any(padding) else ""
        if text and raw.decode("utf-8", "ignore").encode() != raw:
            fault = "the text is not UTF-8"
        self.emit(after - self.c, name, f"{value}, padded by {len(padding)}" if padding else value, fault=fault)


def _integer(value: int) -> str:
    return f"{value} ({value:#x})" if value > 9 else str(value)


def _bits(field: Field, word: int, part: Part | None, walk: _Walk) -> Bits:
    """A declared field."""
    value: int = field.get(word)
    shown, meaning, fault = f"{value:#x}" if field.width > 32 else str(value), _named(field, value), ""
    if field.role == "reserved":
        shown, meaning, fault = f"{value:#x}", "reserved", "must be zero" if value else ""
    elif field.role == "const":
        shown, fault = f"{value:#x}", "" if value == field.value else f"must be {field.value:#x}"
    elif field.name == SIZE:
        there = walk.stop - walk.at
        meaning, fault = f"words, {value * 8:,} bytes", "" if value == there else f"{there:,} at hand"
    elif part is not None:
        meaning, fault = _meaning(part, field, value, walk)
    if field.role == "bits" and value < field.limits[0]:
        fault = f"must be at least {field.limits[0]}"
    return Bits(field, value, shown, meaning, fault)


def _named(field: Field, value: int) -> str:
    """The value's name in its enumeration, else what the field is."""
    if field.meaning is None:
        return field.doc
    known = {member.value: member.name for member in field.meaning}
    return known.get(value, f"no {field.meaning.__name__} that is known")


def _undeclared(family: Family, word: int, walk: _Walk) -> tuple[Bits, ...]:
    """The header of a record that nobody declared: what all have in common, the tags that say so, and the rest."""
    number = family.type_of(word)
    size, selector = family.sizes[number], family.selectors[number]
    known = [family.base.fields["type"], size]
    if selector.mask:
        hi = selector.lo + selector.mask.bit_length() - 1
        known.append(Field("subtype", selector.lo, hi, doc="no subtype that is known"))
    known.sort(key=lambda field: field.lo)
    before, behind = [-1, *(field.hi for field in known)], [*(field.lo for field in known), family.base.width]
    gaps = [Field("undeclared", a + 1, b - 1) for a, b in zip(before, behind, strict=True) if a + 1 < b]
    return tuple(_bits(one, word, None, walk) for one in sorted([*known, *gaps], key=lambda field: field.lo))


def _meaning(part: Part | None, field: Field, value: int, walk: _Walk) -> tuple[str, str]:
    """What the header field says to the part that owns it, and what is wrong with that."""
    match part:
        case Header(boolean=True):
            return ("true" if value else "false"), ""
        case Koids():
            return _slot(part, value, walk) if value else ("inline", "")
        case Text(form=form):
            index = form.fields["index"].get(value)
            if form.fields["inline"].get(value):
                return f"inline, {index:,} bytes", ""
            return _slot(part, index, walk) if index else ("the empty string", "")
        case Stream() | Words():
            return ("bytes" if isinstance(part, Stream) else "words"), ""
        case _:
            return _named(field, value), ""


def _slot(part: Part, slot: int, walk: _Walk) -> tuple[str, str]:
    known = walk.resolve(part, slot) if walk.resolve else ""
    fault = "not defined before this record" if known is None else ""
    return f"slot {slot}: {known}" if known else f"slot {slot}", fault


# ---- the parts, word by word


@singledispatch
def _words(part: Part, name: str, walk: _Walk, later: list[Part]) -> None:
    """Note the part's words; `later` are the parts behind it.  Raises DecodeError as the decoder does."""
    raise TypeError(f"{type(part).__name__} cannot be described")


@_words.register
def _(part: Number, name: str, walk: _Walk, later: list[Part]) -> None:
    if part.optional and walk.c >= walk.stop:
        return
    walk.claim(1, name)
    raw = walk.words[walk.c].to_bytes(8, "little")
    value = struct.unpack({"u": "<Q", "i": "<q", "f": "<d"}[part.kind], raw)[0]
    walk.emit(1, name, _integer(value) if part.kind == "u" else str(value))


@_words.register
def _(part: Koids, name: str, walk: _Walk, later: list[Part]) -> None:
    if walk.header[part.ref]:
        return
    alone = part.process_only or (part.short_form and walk.stop - walk.at == _short_size(walk))
    koids = ("process",) if alone else ("process", "thread")
    walk.claim(len(koids), name)
    for koid in koids:
        walk.emit(1, f"{name}.{koid}", f"koid {_integer(walk.words[walk.c])}")


def _short_size(walk: _Walk) -> int:
    """The size of a record whose inline thread lacks the thread koid, by its header."""
    assert walk.layout is not None
    others = [part.header_words() for _, part in walk.layout.parts if not isinstance(part, Koids)]
    source = " + ".join([str(len(walk.layout.words) + 1), *filter(None, others)])
    size: int = eval(source, {}, {f"{name}_": value for name, value in walk.header.items()})
    return size


@_words.register
def _(part: Text, name: str, walk: _Walk, later: list[Part]) -> None:
    ref = walk.header[part.ref]
    if part.form.fields["inline"].get(ref):
        walk.stream(name, part.form.fields["index"].get(ref), text=True)


@_words.register
def _(part: Stream, name: str, walk: _Walk, later: list[Part]) -> None:
    walk.stream(name, walk.header[part.size], text=part.text)


@_words.register
def _(part: Sized, name: str, walk: _Walk, later: list[Part]) -> None:
    walk.claim(1, name)
    length = walk.words[walk.c]
    walk.emit(1, f"{name} size", f"{_integer(length)} bytes")
    walk.stream(name, length, text=False)


@_words.register
def _(part: Words, name: str, walk: _Walk, later: list[Part]) -> None:
    count = walk.header[part.count]
    walk.claim(count, name)
    for number in range(count):
        walk.emit(1, f"{name}[{number}]", f"{walk.words[walk.c]:#x}")


@_words.register
def _(part: Many, name: str, walk: _Walk, later: list[Part]) -> None:
    first, end, faults = walk.c, walk.stop, list[tuple[str, str]]()
    count, where = walk.header[part.count], walk.where(name)
    found, after = take_many(part.family, walk.words, walk.data, first, end, count, faults, where)
    number, error = len(found) + sum(rule == "argument-content" for rule, _ in faults), None
    if after < 0:  # as in the decoder: what is fixed in size is found from the record's end
        behind = [size for one in later if (size := one.tail_words()) is not None]
        end -= sum(behind)
        error = broken(where) if len(behind) < len(later) else short(where) if end < first else None
        end = walk.stop if error else end
    for index in range(number):
        stop = walk.c + part.family.size_of(walk.words[walk.c])
        if stop > end:
            break
        member = _Walk(walk.words, walk.data, walk.c, stop, walk.resolve, walk)
        member.prefix = f"{walk.prefix}{name}[{index}]."
        member.record(part.family)
        walk.c = stop
    if after < 0:
        walk.emit(0 if error else end - walk.c, "unexplained", fault=faults[-1][1])
    if error:
        raise error


# ---- the documents


def _told(part: Part, name: str) -> str:
    """What the part is, in the words of the documents."""
    padded = "padded with zeros to whole words"
    match part:
        case Number(kind, optional):
            form = {"u": "unsigned", "i": "signed, two's complement", "f": "a double-precision number"}[kind]
            return f"`{name}`: a word, {form}{'; there if the record has room for it' if optional else ''}"
        case Koids(ref, process_only, short_form):
            koids = "a word, the process koid" if process_only else "two words, the process koid and the thread koid"
            lacking = " (some producers leave out the thread koid; the record's size tells)" if short_form else ""
            return f"`{name}`: {koids}{lacking}; omitted unless the header field `{ref}` is 0"
        case Text(ref):
            return f"`{name}`: UTF-8 text, {padded}; omitted unless the header field `{ref}` says inline"
        case Stream(size, text):
            return f"`{name}`: `{size}` bytes of {'UTF-8 text' if text else 'data'}, {padded}"
        case Sized():
            return f"`{name}`: a word with the length in bytes, then that many bytes of data, {padded}"
        case Words(count):
            return f"`{name}`: `{count}` words"
        case Rest(flag):
            return f"`{name}`: whole words up to the next record; there if `{flag}` is 1"
        case Many(family, count):
            return f"`{name}`: `{count}` times a small record, see {title_of(family.base)}"
        case _:
            raise TypeError(f"{type(part).__name__} cannot be described")


def layout_markdown(cls: type[Record], *, level: int = 3) -> str:
    """A section of Markdown about a record: what it is for, its header words bit by bit, its body part by part.

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
    for name, part in layout.body:
        told = doc.attributes.get(name)
        lines.append(f"1. {_told(part, name)}{f': {told}' if told else '.'}")
    return "\n".join([*lines, ""])


def word_markdown(word: type[Word], *, level: int = 3) -> str:
    """A section of Markdown about a word."""
    return "\n".join([f"{'#' * level} {title_of(word)}", "", doc_of(word).text, "", *_word_table(word), ""])


def _word_table(word: type[Word]) -> Iterator[str]:
    """The lines of a Markdown table with the fields of a word; of a partial word, those that are declared."""
    yield "| Bits | Field | Value | Meaning |"
    yield "|---|---|---|---|"
    for field in word.fields.values():
        told = [
            field.doc,
            f"see [{field.meaning.__name__}](#{field.meaning.__name__.lower()})" if field.meaning else "",
        ]
        meaning = "reserved, must be zero" if field.role == "reserved" else "; ".join(filter(None, told))
        name = f"`{field.name}`" if field.role != "reserved" else ""
        bits = f"{field.lo} .. {field.hi}" if field.width > 1 else str(field.lo)
        yield f"| {bits} | {name} | {_legal(field)} | {meaning} |"


def _legal(field: Field) -> str:
    """The values that a field may have, where that is not everything that fits."""
    if field.role == "bits":
        return f"{field.limits[0]} to {field.limits[1]}" if field.least else "signed" if field.signed else ""
    if field.role == "const":
        return f"{field.value:#x}"
    known = {member.value: member.name for member in field.meaning} if field.meaning else {}
    return f"{field.value} = {known[field.value]}" if field.value in known else str(field.value)


def enumeration_markdown(enumeration: type[IntEnum], *, level: int = 3) -> str:
    """A section of Markdown about an enumeration, with the anchor that the tables of words link to."""
    doc = doc_of(enumeration)
    told = doc.text or f"Specification: {doc.spec}."
    lines = [f"{'#' * level} {enumeration.__name__}", "", told, "", "| Value | Name |", "|---|---|"]
    return "\n".join([*lines, *(f"| {member.value} | `{member.name}` |" for member in enumeration), ""])


def enumerations_markdown(module: ModuleType) -> str:
    """A chapter of Markdown about all enumerations of a module, in its order."""
    found = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, IntEnum)]
    own = [one for one in found if one.__module__ == module.__name__]
    return "\n".join(["## Enumerations", "", *(enumeration_markdown(one) for one in own)])
