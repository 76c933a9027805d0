"""Records as lines of text for people.  How a field is shown follows from its declaration, in every format.

`show_of` is dispatched on what annotates a field: a part of a record of words, or of one of bytes, an item of a line,
an enumeration, or a `Display`.  A format registers what only it has, such as a reference to a slot.  The functions for
the fields of a class are looked up once; a line then costs a few microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import EnumType, IntEnum
from functools import cache, singledispatch
from typing import Any, get_type_hints

import msgspec

from fxtio.codec.parts import Display, Header, Number, Words
from fxtio.codec.record import Opaque, Record, layout_of, once
from fxtio.codec.stream.declare import Item, Relative, Repeated, Running, Sleb, StreamPart, enumeration_of
from fxtio.report import counted, quoted, seconds

Show = Callable[[Any], str]
"""Returns a value as text."""

SHOWN_BYTES = 32
"""How many of the first bytes are shown of what has no other form."""

_SHOWN_ITEMS = 32
_TIMES, _NOTHING = frozenset({"time", "timestamp", "end"}), frozenset[str]()


def text_lines(
    entries: Iterable[Any], content: Callable[[Any], str] | None = None, *, owner: Show | None = None
) -> Iterator[str]:
    """Yield a line of text for each entry of a trace: byte offset, time in seconds, class, content.

    Args:
        entries: the entries, see `fxtio.formats.Entry`.
        content: returns what an entry says; by default that of `content_of`.
        owner: returns what an entry belongs to, such as a thread; it is shown before the class.
    """
    content = content or content_of
    for entry in entries:
        time = "" if entry.time is None else seconds(entry.time)
        before = f"{owner(entry)}  " if owner else ""
        yield f"{entry.offset:>10}  {time:>16}  {before}{type(entry.record).__name__:<16}  {content(entry)}".rstrip()


def content_of(entry: Any) -> str:
    """Return the fields of an entry's record, without the times that the entry has."""
    return show_fields(entry.record, _NOTHING if entry.time is None else _TIMES)


def show_fields(record: Any, left_out: frozenset[str] = _NOTHING) -> str:
    """Return the fields of a record as text; of an `Opaque`, its bytes.

    What the record does not have is left out, and what the canonical form does not have either where it is as usual.

    Args:
        record: the record.
        left_out: attributes that are not shown.
    """
    if isinstance(record, Opaque):
        return show_bytes(record.raw)
    cls: Any = type(record)
    texts = []
    for name, show, usual in _fields_of(cls, left_out):
        value = getattr(record, name)
        if value is not None and value not in (usual, ()):
            texts.append(f"{name}={show(value)}")
    return " ".join(texts)


@cache
def _fields_of(cls: type[Any], left_out: frozenset[str]) -> list[tuple[str, Show, Any]]:
    """Return the fields that are shown: the attribute, the function that shows it, the value that is not shown."""
    usual = {each.name: each.default for each in msgspec.structs.fields(cls) if each.encode_name.startswith("_")}
    return [(name, show, usual.get(name)) for name, show in shows_of(cls).items() if name not in left_out]


@once
def shows_of(cls: type[Any]) -> dict[str, Show]:
    """Return the functions that show the fields of a class of records."""
    hints = get_type_hints(cls, include_extras=True)
    marks = {name: getattr(hints[name], "__metadata__", ()) for name in cls.__struct_fields__}
    if issubclass(cls, Record):
        marks |= {name: (part,) for name, part in layout_of(cls).parts}
    elif issubclass(cls, Item):
        marks |= {name: (meaning,) for name in marks if (meaning := enumeration_of(cls, name))}
    # Of several parts, such as one for each version of the format, the first that says how it is shown counts.
    shows = {name: [show for mark in each if (show := show_of(mark)) is not show_value] for name, each in marks.items()}
    return {name: [*each, show_value][0] for name, each in shows.items()}


def show_value(value: Any) -> str:
    """Return a value as text by its type."""
    if type(value) is str:
        return quoted(value)
    if type(value) is bool:
        return "true" if value else "false"
    if isinstance(value, bytes | memoryview):
        return show_bytes(value)
    if isinstance(value, tuple):
        return _show_items(value, show_value)
    if isinstance(value, msgspec.Struct):
        return f"({show_fields(value)})"
    return str(value)


def show_bytes(data: bytes | memoryview) -> str:
    """Return the first bytes in hexadecimal, and how many there are."""
    more = "..." if len(data) > SHOWN_BYTES else ""
    return f"({counted(len(data), 'byte')}) {data[:SHOWN_BYTES].hex(' ', 8)}{more}".rstrip()


def _show_items(values: tuple[Any, ...], show: Show) -> str:
    more = ", ..." if len(values) > _SHOWN_ITEMS else ""
    return f"({len(values):,}) [{', '.join(map(show, values[:_SHOWN_ITEMS]))}{more}]"


@singledispatch
def show_of(mark: Any) -> Show:
    """Return the function that shows the values of a field with this annotation."""
    return show_value


@show_of.register
def _(mark: EnumType) -> Show:
    members: type[IntEnum] = mark  # type: ignore[assignment]
    labels = {member.value: member.name.lower() for member in members}
    return lambda value: labels.get(value, str(value))


@show_of.register
def _(mark: Header) -> Show:
    return show_of(mark.field.meaning) if mark.field.meaning and not mark.boolean else show_value


_NUMBERS: dict[Display | str, Show] = {"decimal": str, "hexadecimal": hex, "koid": "koid({})".format}


@show_of.register
def _(mark: str) -> Show:
    return _NUMBERS[mark]


@show_of.register
def _(mark: Number) -> Show:
    return _NUMBERS[mark.display]


@show_of.register
def _(mark: Words) -> Show:
    return lambda values: _show_items(values, _NUMBERS[mark.display])


@show_of.register(Relative)
@show_of.register(Running)
def _(mark: StreamPart) -> Show:
    return hex


@show_of.register
def _(mark: Sleb) -> Show:
    return hex if mark.pointer else show_value


@show_of.register
def _(mark: Repeated) -> Show:
    show = show_of(mark.of)
    return lambda values: _show_items(values, show)
