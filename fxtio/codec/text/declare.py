"""Declarations of records of text: the items of a class, read from its annotations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, get_type_hints

from fxtio.codec.record import once
from fxtio.codec.text.items import Continued, FixedItem, Item, Repeated, RestItem
from fxtio.errors import LayoutError


@dataclass(frozen=True, slots=True)
class ItemField:
    """A field of a record or compound, with its item."""

    name: str
    item: FixedItem


@dataclass(frozen=True, slots=True)
class Layout:
    """The items of a record or compound class: some of fixed number, then perhaps one that takes the rest of the line.

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
    members: dict[str, type[Any]]
    pattern: re.Pattern[bytes]


@once
def layout_of(cls: type[Any]) -> Layout:
    """Return the items of a record or compound class.

    Raises:
        LayoutError: an item comes after one that takes the rest of the line.
    """
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
