"""Texts about the declarations: tables of their layout, and the bytes of any record annotated.

A record is annotated by its own decoder: the generated function runs with helpers that note which bytes they read and
for what.  So the two cannot disagree, and a record that cannot be decoded is annotated as far as the decoder came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from math import inf
from typing import Any

from fxtio.codec.annotation import ByteRange
from fxtio.codec.describe import doc_of, field_values, title_of
from fxtio.codec.stream.codec import with_helpers
from fxtio.codec.stream.declare import (
    AfterCount,
    Byte,
    Choice,
    Clock,
    Double,
    Fixed,
    Item,
    Part,
    RecordLayout,
    Relative,
    Repeated,
    Running,
    SizedText,
    Sleb,
    StreamRecord,
    StreamState,
    Summed,
    Text,
    Uleb,
    layout_of,
    parts_of,
)
from fxtio.codec.stream.values import HELPERS
from fxtio.errors import DecodeError
from fxtio.report import counted

Meaning = Callable[[type[Item], str, Any], str]
"""Returns the meaning of the value of a class's field; may be empty."""

_Note = tuple[str, int, int]  # field, begin, end


@cache
def _noting(cls: type[Item], version: float) -> tuple[Callable[..., tuple[Any, int]], list[_Note]]:
    """Return the decoder of a class with helpers that note what they read, and the list of their notes."""
    notes: list[_Note] = []

    def noting(take: Callable[..., tuple[Any, int]]) -> Callable[..., tuple[Any, int]]:
        def noted(data: bytes, cursor: int, end: int, where: str) -> tuple[Any, int]:
            value, after = take(data, cursor, end, where)
            notes.append((where, cursor, after))
            return value, after

        return noted

    helpers = {name: noting(helper) if name.startswith("take_") else helper for name, helper in HELPERS.items()}
    return with_helpers(cls, version, helpers), notes


def ranges_of(
    layout: RecordLayout, data: bytes, offset: int, end: int, state: StreamState, meaning: Meaning
) -> tuple[list[ByteRange], int]:
    """Annotate a record.

    Args:
        layout: the record that begins there.
        data: the bytes.
        offset: where it begins.
        end: where its block ends.
        state: the running values; updated if the record is whole.
        meaning: gives the meaning of values.

    Returns:
        The ranges of the record, and the offset behind it; `end` if it is not whole.
    """
    decode, notes = _noting(layout.cls, layout.version)
    notes.clear()
    record, fault = None, ""
    try:
        record, after = decode(data, offset, end, state)
    except DecodeError as error:
        after, fault = end, error.message
    ranges = (
        []
        if layout.word is None
        else [
            ByteRange(
                0, data[offset : offset + 1], "header", f"{data[offset]:#04x}", field_values(layout.word, data[offset])
            )
        ]
    )
    cursor = offset + len(ranges)
    for label, begin, stop, value in _labeled(layout, record, notes, meaning):
        if begin > cursor:
            ranges.append(_subtype(layout, data[cursor:begin], cursor - offset))
        ranges.append(ByteRange(begin - offset, data[begin:stop], label, value))
        cursor = stop
    if after > cursor:
        ranges.append(ByteRange(cursor - offset, data[cursor:after], "unexplained", fault=fault))
    elif fault:
        ranges.append(ByteRange(cursor - offset, b"", "missing", fault=fault))
    return ranges, after


def _subtype(layout: RecordLayout, raw: bytes, offset: int) -> ByteRange:
    """Return the range of the byte behind the first field that tells records apart."""
    subtype = getattr(layout.cls, "subtype", None)
    return ByteRange(offset, raw, "subtype", "" if subtype is None else f"{raw[0]} {subtype.name}")


def _labeled(
    layout: RecordLayout, record: Any, notes: list[_Note], meaning: Meaning
) -> Iterator[tuple[str, int, int, str]]:
    """Yield what was read: the path of its attribute, where it begins and ends, and its value."""
    lists = {name: part for name, part in layout.body if isinstance(part, Repeated)}
    current, index, counted = "", -1, False
    for number, (where, begin, stop) in enumerate(notes):
        if number + 1 < len(notes) and notes[number + 1][1] == begin:
            continue  # read again as the next value
        owner, _, name = where.partition(".")
        if owner == layout.name and name not in lists:
            yield name, begin, stop, _value(layout.cls, name, record, meaning)
        elif owner == layout.name and (name != current or lists[name].until_zero):
            current, index, counted = name, -1, bool(lists[name].after_count)
            ending = lists[name].until_zero
            yield f"{name} {'end' if ending else 'count'}", begin, stop, _count(record, name) if not ending else ""
        elif owner == layout.name and counted:
            counted = False
            after_count = lists[name].after_count
            yield after_count, begin, stop, _value(layout.cls, after_count, record, meaning)
        elif owner == layout.name:
            index += 1
            items = getattr(record, name, None)
            yield f"{name}[{index}]", begin, stop, "" if items is None else _shown(items[index])
        else:
            current, index = _item(layout, lists, owner, name, current, index)
            items = getattr(record, current, None)
            item = None if items is None else items[index]
            cls: Any = lists[current].of
            yield f"{current}[{index}].{name}", begin, stop, _value(cls, name, item, meaning)


def _item(
    layout: RecordLayout, lists: dict[str, Repeated], owner: str, name: str, current: str, index: int
) -> tuple[str, int]:
    """Return the list and the index of the item that a field belongs to: a first field begins another item."""
    for field, part in lists.items():
        if not isinstance(part.of, Part) and part.of.__name__ == owner:
            inner = layout_of(part.of, layout.version)
            assert inner is not None
            index = -1 if field != current else index
            return field, index + 1 if name == inner.body[0][0] else index
    raise AssertionError(f"{layout.name} has no list of {owner}")


def _value(cls: type[Item], name: str, record: Any, meaning: Meaning) -> str:
    if record is None:
        return ""
    value = getattr(record, name)
    return " ".join(filter(None, [_shown(value), meaning(cls, name, value)]))


def _count(record: Any, name: str) -> str:
    items = getattr(record, name, None)
    return "" if items is None else f"{len(items):,}"


def _shown(value: Any) -> str:
    if isinstance(value, int):
        return f"{value} ({value:#x})" if value > 9 else str(value)
    return f'"{value}"' if isinstance(value, str) else str(value)


# ---- the documents


def stream_markdown(cls: type[StreamRecord], *, level: int = 3) -> str:
    """Return a section of Markdown about a record: its first byte, and its parts with the versions that have them."""
    doc = doc_of(cls)
    lines = [f"{'#' * level} {cls.__name__}", "", " ".join(filter(None, [f"{title_of(cls)}.", doc.text])), ""]
    for head in cls.first_bytes:
        layout = layout_of(cls, head.since or 1)
        assert layout is not None
        values = " or ".join(f"`{value:#04x}`" for value in layout.bytes())
        lines.append(f"First byte {values}{_range(head.since, head.before)}.")
    if cls.subtype is not None:
        lines.append(f"Behind the time a byte {int(cls.subtype)}.")
    lines += ["", "| Field | In the file | Data versions |", "|---|---|---|"]
    lines += list(field_rows(cls))
    return "\n".join([*lines, ""])


def field_rows(cls: type[Item], prefix: str = "", *, first_version: int = 1) -> Iterator[str]:
    """Yield a row of a Markdown table for each part: the field, its encoding, and the versions that have it.

    Args:
        cls: the class.
        prefix: stands before the names of the fields.
        first_version: the first version that there is.
    """
    for name, parts in parts_of(cls).items():
        for part in parts:
            versions = _versions(part.since, part.before, first_version)
            yield f"| `{prefix}{name}` | {_encoding(part)}{_when(part)} | {versions} |"
        if not parts:
            yield f"| `{prefix}{name}` | in the first byte | |"
        items = next((part.of for part in parts if isinstance(part, Repeated) and not isinstance(part.of, Part)), None)
        if items is not None:
            yield from field_rows(items, f"{prefix}{name}[].", first_version=first_version)


def _range(since: float, before: float) -> str:
    versions = _versions(since, before)
    return f" (data versions {versions})" if versions else ""


def _versions(since: float, before: float, first: int = 1) -> str:
    if since <= first:
        return "" if before == inf else f"before {before:g}"
    return f"{since:g} on" if before == inf else f"{since:g} to before {before:g}"


def _when(part: Part) -> str:
    return (
        "" if part.when is None else f"; only where `{part.when[0]}` is {', '.join(str(int(v)) for v in part.when[1])}"
    )


def _encoding(part: Part) -> str:
    """Return how a part is encoded, in the words of the documents."""
    match part:
        case Byte():
            return "a byte"
        case Fixed(size=size):
            return counted(size, "byte")
        case SizedText():
            return "4 bytes, the size of the text with the zero byte at its end, then the text"
        case Uleb():
            return "uleb128"
        case Sleb():
            return "sleb128"
        case Relative(base=base, shift=shift):
            return f"sleb128, added to the buffer's {base} base{f', times {1 << shift}' if shift else ''}"
        case Running(of=of):
            return f"sleb128, added to the last {of} of the buffer"
        case Clock(of=of):
            return f"uleb128, added to the last {of} of the buffer, modulo 2 to the power of 64"
        case Summed():
            return "uleb128, added to the one before it in the list"
        case Double():
            return "8 bytes, a double"
        case Text(marked=marked):
            return "a byte 0, or a byte 1 and text up to a zero byte" if marked else "text up to a zero byte"
        case Choice(by=by, cases=cases):
            encodings = [f"{', '.join(str(int(v)) for v in values)}: {_encoding(case)}" for values, case in cases]
            return f"by `{by}`: {'; '.join(encodings)}"
        case AfterCount():
            return "uleb128, between the count and the items of the list"
        case Repeated(of=of, until_zero=until_zero):
            what = f": {_encoding(of)}" if isinstance(of, Part) else ""
            return (
                f"items until a 0 in the place of the first number{what}"
                if until_zero
                else f"uleb128 count, items{what}"
            )
        case _:
            raise TypeError(f"{type(part).__name__} cannot be described")
