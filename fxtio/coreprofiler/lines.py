"""The codec of one line, derived from the declaration of its record.

A line is a tag, then items of fixed number, then perhaps one item that takes the rest of the line.  One pattern takes
all items of fixed number apart; `layout` says how the rest is read.  A line that does not fit gets a `Fault`, which
names the wrong item.

The lines of a file tell its style, see `layout.Style`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, get_type_hints

from fxtio.codec.record import Opaque
from fxtio.coreprofiler.layout import (
    BYTE_ORDER_MARK,
    NUMBER_KINDS,
    TAG_SIZE,
    Continued,
    FixedItem,
    Item,
    Pointer,
    QuoteError,
    Repeated,
    RestItem,
    Style,
)
from fxtio.coreprofiler.records import RECORDS, TAGS, Compound, Record, StackSample, ThreadDestroyed, tag_of
from fxtio.errors import EncodeError, LayoutError

_MISPRINT = b"thr crt"
"""Also means that a thread was destroyed; with two numbers, it was created."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The reason why a line is not a record.

    Attributes:
        rule: the id of the broken rule.
        field: the field whose item is wrong, or empty.
        message: the fault as a sentence.
    """

    rule: str
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class ItemField:
    """A field of a record or compound, with its item."""

    name: str
    item: FixedItem


@dataclass(frozen=True, slots=True)
class Layout:
    """The items of a record or compound class.

    Attributes:
        cls: the class.
        fields: the fields with an item each, in order, without those of the tail.
        tail: the item that takes the rest of the line, or None.
        tail_fields: the fields that the tail fills.
        members: the fields that hold lists of compound items, with the classes of the items.
        pattern: the pattern of all items of `fields`; a group for each.
    """

    cls: type[Any]
    fields: tuple[ItemField, ...]
    tail: RestItem | Repeated | None
    tail_fields: tuple[str, ...]
    members: dict[str, type[Compound]]
    pattern: re.Pattern[bytes]


def layout_of(cls: type[Any]) -> Layout:
    """Return the items of a record or compound class.

    Raises:
        LayoutError: an item comes after one that takes the rest of the line.
    """
    layout: Layout = _layout_of(cls)
    return layout


def _read_declaration(cls: Any) -> Layout:
    hints = get_type_hints(cls, include_extras=True)
    fields: list[ItemField] = []
    tail: RestItem | Repeated | None = None
    tail_fields: list[str] = []
    for name in cls.__struct_fields__:
        item = next(mark for mark in hints[name].__metadata__ if isinstance(mark, Item))
        if isinstance(item, FixedItem):
            if tail is not None:
                raise LayoutError(f"{cls.__name__}.{name} comes after the rest of the line")
            fields.append(ItemField(name, item))
            continue
        if isinstance(item, Continued) == (tail is None):
            raise LayoutError(f"{cls.__name__}.{name} must be the first or a continued item of the line's rest")
        if isinstance(item, RestItem | Repeated):
            tail = item
        tail_fields.append(name)
    pattern = re.compile("".join(field.item.pattern for field in fields).encode("ascii"))
    members = dict(zip(tail_fields, tail.members, strict=True)) if isinstance(tail, Repeated) else {}
    return Layout(cls, tuple(fields), tail, tuple(tail_fields), members, pattern)


_layout_of: Any = cache(_read_declaration)


def _compile_compound(cls: Any) -> re.Pattern[bytes]:
    """Compile the pattern of one compound item with its separator."""
    return re.compile(layout_of(cls).pattern.pattern + rb"(?![^ ])")


_compound_pattern: Any = cache(_compile_compound)


def decode(line: bytes) -> Record | Fault:
    """Decode a line, given without its end, to a record."""
    classes = TAGS.get(line[:TAG_SIZE])
    if classes is None:
        return Fault("line.unknown", "", f"no record begins with {_excerpt(line[:TAG_SIZE])}")
    first: Fault | None = None
    for cls in classes:
        result = decode_as(cls, line)
        if isinstance(result, Fault):
            first = first or result
        elif not (line.startswith(_MISPRINT) and getattr(result, "extra", None) is not None):
            return result
    assert first is not None
    return first


def decode_as(cls: type[Record], line: bytes) -> Record | Fault:
    """Decode a line of a known class to a record."""
    layout = layout_of(cls)
    match = layout.pattern.match(line, TAG_SIZE)
    if match is None:
        return _first_fault(layout, line)
    values: list[Any] = []
    for field, raw in zip(layout.fields, match.groups(), strict=True):
        try:
            values.append(None if raw is None else field.item.parse(raw))
        except ValueError as error:
            return Fault("line.field-form", field.name, str(error))
    if layout.tail is None:
        if match.end() != len(line):
            last = match.lastindex
            if last and not line.startswith(b" ", match.end()):
                return _malformed(layout.fields[last - 1], line[match.start(last) :])
            return Fault("line.extra-fields", "", f"{_excerpt(line[match.end() :])} follows the last item")
        return cls(*values)
    try:
        values += _parse_tail(layout, line[match.end() :])
    except QuoteError as error:
        return Fault("line.open-quote", layout.tail_fields[0], str(error))
    except ValueError as error:
        return Fault("line.field-form", layout.tail_fields[0], str(error))
    return cls(*values)


def _parse_tail(layout: Layout, raw: bytes) -> list[Any]:
    """Return the values of the fields that the rest of the line fills."""
    assert layout.tail is not None
    if not isinstance(layout.tail, Repeated):
        value = layout.tail.parse(raw)
        return list(value) if len(layout.tail_fields) > 1 else [value]
    lists = []
    offset = 0
    for member in layout.tail.members:
        items = []
        pattern, fields = _compound_pattern(member), layout_of(member).fields
        while (match := pattern.match(raw, offset)) is not None:
            offset = match.end()
            groups = zip(fields, match.groups(), strict=True)
            items.append(member(*(None if part is None else field.item.parse(part) for field, part in groups)))
        lists.append(tuple(items))
    if offset != len(raw):
        raise ValueError(f"{_excerpt(raw[offset:])} is not a valid {layout.tail.name}")
    return lists


def _first_fault(layout: Layout, line: bytes) -> Fault:
    """Return the fault of the first item that does not fit."""
    offset = TAG_SIZE
    for field in layout.fields:
        match = re.compile(field.item.pattern.encode("ascii")).match(line, offset)
        if match is None or line[match.end() : match.end() + 1] not in (b"", b" ", b":"):
            rest = line[offset:]
            if not rest:
                return Fault("line.field-missing", field.name, f"the line ends before `{field.name}`")
            return _malformed(field, rest)
        offset = match.end()
    raise AssertionError("the items fit one by one, but not together")


def _malformed(field: ItemField, raw: bytes) -> Fault:
    """Return the fault of an item that is not of its kind."""
    return Fault("line.field-form", field.name, f"{_excerpt(raw)} is not a valid {field.item.name}")


def _excerpt(raw: bytes) -> str:
    text = raw[:40].decode("utf-8", "backslashreplace")
    return f"{text!r}{'...' if len(raw) > 40 else ''}"


def _tag_of(record: Record, style: Style) -> str:
    if isinstance(record, StackSample):
        return style.stack
    if isinstance(record, ThreadDestroyed) and record.extra is None:
        return style.destroyed
    return tag_of(type(record))  # with another number, the misprint would be a created thread


def encode(record: Record | Opaque, style: Style) -> bytes:
    """Encode a record as its line with the line end; of an `Opaque`, return the bytes.

    Raises:
        EncodeError: it is not a record, or the format cannot express it.
    """
    if isinstance(record, Opaque):
        if not isinstance(record.raw, bytes):
            raise EncodeError(f"{record.raw!r} is not bytes", "Opaque.raw")
        return record.raw
    cls = type(record)
    if cls not in _CLASSES:
        raise EncodeError(f"{cls.__name__} is not a record of the format", "record")
    layout = layout_of(cls)
    texts = [_tag_of(record, style), _format_fields(record, layout, style)]
    if layout.members:
        texts += [_format_compounds(record, name, member, style) for name, member in layout.members.items()]
    elif isinstance(layout.tail, RestItem):
        values = tuple(getattr(record, name) for name in layout.tail_fields)
        where = f"{cls.__name__}.{layout.tail_fields[0]}"
        texts.append(layout.tail.format(values if len(values) > 1 else values[0], style, where))
    line = "".join(texts).encode("utf-8", "surrogateescape")
    if len(TAGS[line[:TAG_SIZE]]) > 1 and decode(line) != record:
        raise EncodeError("the line would be read as another record", cls.__name__)
    return line + style.newline.encode("ascii")


def _format_fields(record: Any, layout: Layout, style: Style) -> str:
    where = layout.cls.__name__
    texts = []
    for field in layout.fields:
        value = getattr(record, field.name)
        if value is None and field.item.optional:
            continue
        texts.append(field.item.separator + field.item.format(value, style, f"{where}.{field.name}"))
    return "".join(texts)


def _format_compounds(record: Record, name: str, member: type[Compound], style: Style) -> str:
    layout = layout_of(member)
    texts = []
    items = getattr(record, name)
    if not isinstance(items, tuple | list):
        raise EncodeError(f"{items!r} is not a tuple", f"{type(record).__name__}.{name}")
    for item in items:
        if type(item) is not member:
            raise EncodeError(f"{item!r} is not a {member.__name__}", f"{type(record).__name__}.{name}")
        texts.append(_format_fields(item, layout, style))
    return "".join(texts)


_CLASSES = frozenset(RECORDS)


def number_patterns() -> dict[str, tuple[re.Pattern[bytes], re.Pattern[bytes]]]:
    """Return patterns that find hexadecimal numbers of each kind in lines; the number is the only group that matches.

    Returns:
        For each of `NUMBER_KINDS`, a pattern for any such number, and one for those that have letters.
    """
    places: dict[str, list[str]] = {kind: [] for kind in NUMBER_KINDS}
    for tag, classes in TAGS.items():
        for cls in classes:
            layout = layout_of(cls)
            prefix = re.escape(tag.decode("ascii"))
            _add_places(places, prefix, layout.fields, "")
            if isinstance(layout.tail, Repeated):
                items = layout_of(layout.tail.members[0]).fields
                prefix += "".join(map(_plain_pattern, layout.fields)) + r"(?: [^ \r\n]*+)*?"
                _add_places(places, prefix, items, r"(?=[ \r\n])")
    digits, with_letters = "[0-9A-Fa-f]++", "[0-9]*+[A-Fa-f][0-9A-Fa-f]*+"
    return {kind: (_any_of(texts, digits), _any_of(texts, with_letters)) for kind, texts in places.items()}


def _add_places(places: dict[str, list[str]], prefix: str, fields: tuple[ItemField, ...], end: str) -> None:
    """Add the patterns of the places of some items' numbers, with DIGITS in place of each number's digits."""
    for index, field in enumerate(fields):
        kind = getattr(field.item, "kind", "")
        if kind:
            before = "".join(map(_plain_pattern, fields[:index]))
            after = "".join(map(_plain_pattern, fields[index + 1 :])) if end else ""
            number = "(?:0x)?+" if isinstance(field.item, Pointer) else "0x"
            places[kind].append(f"{prefix}{before}{re.escape(field.item.separator)}({number}DIGITS){after}{end}")


def _plain_pattern(field: ItemField) -> str:
    """Return an item's pattern without a group."""
    whole = f"{re.escape(field.item.separator)}(?:{field.item.body})"
    return f"(?:{whole})?+" if field.item.optional else whole


def _any_of(texts: list[str], digits: str) -> re.Pattern[bytes]:
    text = "|".join(texts).replace("DIGITS", digits)
    return re.compile(f"^(?:{text})".encode("ascii"), re.MULTILINE)


def looks_like_record(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is a trace: its first line is a record, or begins one."""
    line, end, _ = head.removeprefix(BYTE_ORDER_MARK).partition(b"\n")
    if end:
        return not isinstance(decode(line.removesuffix(b"\r")), Fault)
    return line[:TAG_SIZE] in TAGS and line[TAG_SIZE : TAG_SIZE + 1] == b" "


_WIDTHS = (8, 16)
"""Numbers of so many digits are taken as padded with zeros; numbers of other lengths as not padded."""

_TRAITS = {
    "destroyed": re.compile(rb"^(thr dst(?= )|thr crt(?= [^ \r\n]+\r?$))", re.MULTILINE),
    "stack": re.compile(rb"^(sam str|str sam)(?= )", re.MULTILINE),
    "glued_flags": re.compile(rb"^gch gcs [^ \n]+ [^ \n]+ [^ \n]+ ([tf]{2,}|[tf](?= [tf]))", re.MULTILINE),
}


class Detector:
    """Takes a file's style from its lines.  The byte-order mark is not part of them.

    Args:
        style: is changed while the file shows its traits.
    """

    def __init__(self, style: Style) -> None:
        self.style = style
        self._patterns = number_patterns()

    def look(self, data: bytes, *, first: bool) -> None:
        """Take the traits that some whole lines show.

        Args:
            data: the lines.
            first: whether they begin the file.
        """
        style = self.style
        if first and "file" not in style.detected:
            style.detected.add("file")
            end = data.find(b"\n")
            style.newline = "\r\n" if end > 0 and data[end - 1 : end] == b"\r" else "\n"
        for kind in NUMBER_KINDS:
            if f"{kind} size" not in style.detected or f"{kind} case" not in style.detected:
                self._detect_format(kind, data)
        for trait, pattern in _TRAITS.items():
            if trait not in style.detected and (match := pattern.search(data)):
                style.detected.add(trait)
                if trait == "glued_flags":
                    style.glued_flags = len(match[1]) > 1
                else:
                    setattr(style, trait, match[1].decode("ascii"))

    def _detect_format(self, kind: str, data: bytes) -> None:
        """Take the width of a kind of numbers from the first one, and the case from the first one with letters."""
        style = self.style
        for trait, pattern in zip((f"{kind} size", f"{kind} case"), self._patterns[kind], strict=True):
            match = None if trait in style.detected else pattern.search(data)
            if match is None:
                continue
            style.detected.add(trait)
            text = match[match.lastindex or 0].decode("ascii")
            digits = text.removeprefix("0x")
            prefix, _, rest = style.formats[kind].partition("%")
            size, letter = rest[:-1], rest[-1]
            if trait.endswith("size"):
                prefix = "0x" if text.startswith("0x") else ""
                size = f"0{len(digits)}" if len(digits) in _WIDTHS else ""
            else:
                letter = "X" if digits == digits.upper() else "x"
            style.formats[kind] = f"{prefix}%{size}{letter}"
