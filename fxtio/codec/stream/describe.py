"""Annotate the bytes of a record of a byte stream.

A record is annotated by its own decoder: the generated function runs with helpers that note which bytes they read and
for what.  So the two cannot disagree, and a record that cannot be decoded is annotated as far as the decoder came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from fxtio.codec.annotation import ByteRange
from fxtio.codec.describe import field_values, word_value
from fxtio.codec.stream.codec import with_helpers
from fxtio.codec.stream.declare import Item, RecordLayout, Repeated, StreamPart, StreamState, layout_of
from fxtio.codec.stream.values import HELPERS
from fxtio.errors import DecodeError

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
        The ranges of the record, and the offset after it; `end` if it is not whole.
    """
    decode, notes = _noting(layout.cls, layout.version)
    notes.clear()
    record, fault = None, ""
    try:
        record, after = decode(data, offset, end, state)
    except DecodeError as error:
        after, fault = end, error.message
    ranges = []
    if layout.word is not None:
        first = data[offset]
        ranges.append(ByteRange(0, bytes([first]), "header", f"{first:#04x}", field_values(layout.word, first)))
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
    """Return the range of the byte after the first field that tells records apart."""
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
        if not isinstance(part.of, StreamPart) and part.of.__name__ == owner:
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
        return word_value(value)
    return f'"{value}"' if isinstance(value, str) else str(value)
