"""Lines, both ways: what takes a record out of a line and puts one back, derived from the record's declaration.

A line is its tag, items of fixed number, then perhaps one item that takes all that is left.  The first ones are taken
by one pattern; the rest by what `layout` says of it.  A line that does not fit gets a reason: which item is wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, get_type_hints

from fxtio.codec.record import Opaque
from fxtio.coreprofiler.layout import Item, QuoteError, Same, Several
from fxtio.coreprofiler.parts import Compound, Record
from fxtio.coreprofiler.records import RECORDS, TAGS, StackSample, ThreadDestroyed
from fxtio.coreprofiler.style import FORMS, Style
from fxtio.errors import EncodeError, LayoutError

TAG_SIZE = 7
"""Characters of type and subtype, with the space between them."""

_MISPRINT = b"thr crt"
"""Also says that a thread was destroyed; with two numbers, it was created."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a line is no record.

    Attributes:
        rule: the rule that it breaks.
        field: the item that is wrong, or empty.
        message: what is wrong with it.
    """

    rule: str
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class Part:
    """A field of a record with its item."""

    name: str
    item: Item


@dataclass(frozen=True, slots=True)
class Form:
    """What a declaration says.

    Attributes:
        cls: the class.
        parts: the fields with an item each, in order, without those of the tail.
        tail: the item that takes the rest of the line, or None.
        filled: the fields that the tail fills.
        head: the pattern of all parts; a group each.
    """

    cls: type[Any]
    parts: tuple[Part, ...]
    tail: Item | None
    filled: tuple[str, ...]
    head: re.Pattern[bytes]


def form_of(cls: type[Any]) -> Form:
    """Read a declaration.

    Raises:
        LayoutError: an item behind one that takes the rest of the line.
    """
    form: Form = _form_of(cls)
    return form


def _read_form(cls: Any) -> Form:
    hints = get_type_hints(cls, include_extras=True)
    parts: list[Part] = []
    tail: Item | None = None
    filled: list[str] = []
    for name in cls.__struct_fields__:
        item = next(mark for mark in hints[name].__metadata__ if isinstance(mark, Item))
        if item.tail or isinstance(item, Same):
            if isinstance(item, Same) == (tail is None):
                raise LayoutError(f"{cls.__name__}.{name} cannot stand there")
            tail = item if tail is None else tail
            filled.append(name)
        elif tail is not None:
            raise LayoutError(f"{cls.__name__}.{name} comes after the rest of the line")
        else:
            parts.append(Part(name, item))
    head = re.compile("".join(part.item.pattern for part in parts).encode("ascii"))
    return Form(cls, tuple(parts), tail, tuple(filled), head)


_form_of: Any = cache(_read_form)


def _one_whole(cls: Any) -> re.Pattern[bytes]:
    """The pattern of one compound item, glue included."""
    return re.compile(form_of(cls).head.pattern + rb"(?![^ ])")


_whole: Any = cache(_one_whole)


def decode(line: bytes) -> Record | Fault:
    """The record of a line.

    Args:
        line: the line without its end.
    """
    classes = TAGS.get(line[:TAG_SIZE])
    if classes is None:
        return Fault("unknown-line", "", f"no record begins with {_shown(line[:TAG_SIZE])}")
    first: Fault | None = None
    for cls in classes:
        found = decode_as(cls, line)
        if isinstance(found, Fault):
            first = first or found
        elif not (line.startswith(_MISPRINT) and getattr(found, "extra", None) is not None):
            return found
    assert first is not None
    return first


def decode_as(cls: type[Record], line: bytes) -> Record | Fault:
    """The record of a line whose class is known."""
    form = form_of(cls)
    match = form.head.match(line, TAG_SIZE)
    if match is None:
        return _fault(form, line)
    values: list[Any] = []
    for part, raw in zip(form.parts, match.groups(), strict=True):
        try:
            values.append(None if raw is None else part.item.parse(raw))
        except ValueError as error:
            return Fault("field-form", part.name, str(error))
    if form.tail is None:
        if match.end() != len(line):
            return Fault("extra-fields", "", f"{_shown(line[match.end() :])} stands behind the last item")
        return cls(*values)
    try:
        values += _tail(form, line[match.end() :])
    except QuoteError as error:
        return Fault("open-quote", form.filled[0], str(error))
    except ValueError as error:
        return Fault("field-form", form.filled[0], str(error))
    return cls(*values)


def _tail(form: Form, raw: bytes) -> list[Any]:
    """The values of the fields that the rest of the line fills."""
    assert form.tail is not None
    if not isinstance(form.tail, Several):
        value = form.tail.parse(raw)
        return list(value) if len(form.filled) > 1 else [value]
    lists = []
    at = 0
    for member in form.tail.members:
        made = []
        pattern, parts = _whole(member), form_of(member).parts
        while (match := pattern.match(raw, at)) is not None:
            at = match.end()
            groups = zip(parts, match.groups(), strict=True)
            made.append(member(*(None if part is None else one.item.parse(part) for one, part in groups)))
        lists.append(tuple(made))
    if at != len(raw):
        raise ValueError(f"{_shown(raw[at:])} is no {form.tail.name}")
    return lists


def _fault(form: Form, line: bytes) -> Fault:
    """Which item of a line is the first that does not fit."""
    at = TAG_SIZE
    for part in form.parts:
        match = re.compile(part.item.pattern.encode("ascii")).match(line, at)
        if match is None:
            rest = line[at:]
            if not rest:
                return Fault("field-missing", part.name, f"the line ends before `{part.name}`")
            return Fault("field-form", part.name, f"{_shown(rest)} is no {part.item.name}")
        at = match.end()
    raise AssertionError("the items fit one by one, but not together")


def _shown(raw: bytes) -> str:
    text = raw[:40].decode("utf-8", "backslashreplace")
    return f"{text!r}{'...' if len(raw) > 40 else ''}"


def tag_of(record: Record, style: Style) -> str:
    """Type and subtype of a record in a style."""
    if isinstance(record, StackSample):
        return style.stack
    return style.destroyed if isinstance(record, ThreadDestroyed) else record.tag


def encode(record: Record | Opaque, style: Style) -> bytes:
    """A record's line with its end, or the bytes of an `Opaque`.

    Raises:
        EncodeError: the format cannot say it.
    """
    if isinstance(record, Opaque):
        return record.raw
    cls = type(record)
    if cls not in _CLASSES:
        raise EncodeError(f"{cls.__name__} is no record", "record")
    form = form_of(cls)
    pieces = [tag_of(record, style), _parts(record, form, style)]
    if isinstance(form.tail, Several):
        pieces += [
            _compounds(record, name, member, style) for name, member in zip(form.filled, form.tail.members, strict=True)
        ]
    elif form.tail is not None:
        values = tuple(getattr(record, name) for name in form.filled)
        where = f"{cls.__name__}.{form.filled[0]}"
        pieces.append(form.tail.show(values if len(values) > 1 else values[0], style, where))
    line = "".join(pieces).encode("utf-8", "surrogateescape")
    if len(TAGS[line[:TAG_SIZE]]) > 1 and decode(line) != record:
        raise EncodeError("the line would be read as another record", cls.__name__)
    return line + style.newline.encode("ascii")


def _parts(record: Any, form: Form, style: Style) -> str:
    where = form.cls.__name__
    made = []
    for part in form.parts:
        value = getattr(record, part.name)
        if value is None and part.item.optional:
            continue
        made.append(part.item.glue + part.item.show(value, style, f"{where}.{part.name}"))
    return "".join(made)


def _compounds(record: Record, name: str, member: type[Compound], style: Style) -> str:
    form = form_of(member)
    made = []
    for one in getattr(record, name):
        if type(one) is not member:
            raise EncodeError(f"{one!r} is no {member.__name__}", f"{type(record).__name__}.{name}")
        made.append(_parts(one, form, style))
    return "".join(made)


_CLASSES = frozenset(RECORDS)


def places_of_forms() -> dict[str, tuple[re.Pattern[bytes], re.Pattern[bytes]]]:
    """For each form of hexadecimal numbers, where they stand in lines; the number is the only group that is matched.

    Returns:
        A pattern for any such number, and one for those whose case shows.
    """
    found: dict[str, list[str]] = {form: [] for form in FORMS}
    for tag, classes in TAGS.items():
        for cls in classes:
            form = form_of(cls)
            begin = re.escape(tag.decode("ascii"))
            _note_places(found, begin, form.parts, "")
            if isinstance(form.tail, Several):
                items = form_of(form.tail.members[0]).parts
                begin += "".join(map(_plain, form.parts)) + r"(?: [^ \r\n]*+)*?"
                _note_places(found, begin, items, r"(?=[ \r\n])")
    digits, cased = "[0-9A-Fa-f]++", "[0-9]*+[A-Fa-f][0-9A-Fa-f]*+"
    return {form: (_alternatives(ways, digits), _alternatives(ways, cased)) for form, ways in found.items()}


def _note_places(found: dict[str, list[str]], begin: str, parts: tuple[Part, ...], end: str) -> None:
    """Note where the numbers of some items stand, each with DIGITS in its place."""
    for place, part in enumerate(parts):
        name = "ip" if part.item.name == "ip" else getattr(part.item, "form", "")
        if name:
            before, after = ("".join(map(_plain, some)) for some in (parts[:place], parts[place + 1 :] if end else ()))
            prefix = "(?:0x)?+" if name == "ip" else "0x"
            found[name].append(f"{begin}{before}{re.escape(part.item.glue)}({prefix}DIGITS){after}{end}")


def _plain(part: Part) -> str:
    """An item's pattern without a group."""
    whole = f"{re.escape(part.item.glue)}(?:{part.item.body})"
    return f"(?:{whole})?+" if part.item.optional else whole


def _alternatives(ways: list[str], digits: str) -> re.Pattern[bytes]:
    text = "|".join(ways).replace("DIGITS", digits)
    return re.compile(f"^(?:{text})".encode("ascii"), re.MULTILINE)


def looks_like_record(head: bytes) -> bool:
    """Whether a file that begins like this is a trace: its first line is a record, or begins one as far as it goes."""
    line, end, _ = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
    if end:
        return not isinstance(decode(line.removesuffix(b"\r")), Fault)
    return line[:TAG_SIZE] in TAGS and line[TAG_SIZE : TAG_SIZE + 1] == b" "
