"""Records of single bytes and LEB128 numbers, declared once, for any number of versions of a format.

A record begins with one byte, a `Word` of width 8.  Its annotations carry the parts in the specification's order.  A
part may be limited to some versions, and may depend on a field before it; a field can have several parts of which each
version has one at most.  What stands relative to something is declared by name: a *base* stays as it is within a block
of records, a *running* value is the sum so far.  `Form` is what such a declaration says for one version.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from math import inf
from typing import Any, ClassVar, get_type_hints

import msgspec

from fxtio.codec.word import Field, Word
from fxtio.errors import LayoutError

UNKNOWN, SUBTYPE = -1, -2
"""What a first byte tells instead of a kind: that no record begins with it, or that the subtype decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a record.

    Attributes:
        since: the first version that has it.
        before: the first version that has it no more.
        when: a field before it and the values with which it is there; it is always there where this is None.
    """

    since: float = 0
    before: float = inf
    when: tuple[str, tuple[int, ...]] | None = None

    def applies(self, version: float) -> bool:
        """Whether the version has the part."""
        return self.since <= version < self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class Byte(Part):
    """One byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uleb(Part):
    """An unsigned number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleb(Part):
    """A signed number; where `pointer` is set, the bits of it that an address has."""

    pointer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative(Part):
    """An address: a signed number plus a base, in units of 2 to the power of `shift` bytes."""

    base: str
    shift: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Running(Part):
    """A signed number plus the last value of the same kind in the block; an address."""

    of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock(Part):
    """An unsigned number plus the last one, modulo 2 to the power of 64.  Without it, the last value goes on."""

    of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summed(Part):
    """An unsigned number plus the one before it within the same record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Double(Part):
    """A double-precision number, eight bytes, little-endian."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Part):
    """Text up to a zero byte.  With `marked`, a byte before it says whether there is any (1) or none (0)."""

    marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Part):
    """A value whose form another field tells.

    Attributes:
        by: that field.
        cases: its values, and the part for each.
    """

    by: str
    cases: tuple[tuple[tuple[int, ...], Part], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Many(Part):
    """Several of the same.

    Attributes:
        of: a part (then the items are plain values), or a class of items.
        flag: the field of the first byte that says whether the list is there at all; without it, it is None.
        until_zero: the list has no count; an item whose first number is 0 ends it, and is not an item.
        between: a field whose number stands between the count and the items.
    """

    of: Part | type[Item]
    flag: str = ""
    until_zero: bool = False
    between: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Between(Part):
    """An unsigned number that stands between the count and the items of a later list, see `Many.between`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header(Part):
    """A field of the first byte."""

    field: Field


class Item(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Base of what lists are made of, and of records."""


@dataclass(frozen=True, slots=True)
class Head:
    """The first byte of a record, in some versions."""

    word: type[Word]
    since: float = 0
    before: float = inf


class StreamRecord(Item, frozen=True, gc=False, kw_only=True):
    """Base of all records that begin with a byte.

    Attributes:
        heads: the first byte; of each version there is one at most.
        subtype: a byte behind the first field that tells records with the same first byte apart, or None.
    """

    heads: ClassVar[tuple[Head, ...]] = ()
    subtype: ClassVar[IntEnum | None] = None

    def replace(self, **changes: Any) -> Any:
        """The same record with some fields changed."""
        return msgspec.structs.replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Form:
    """What the declaration of a record or an item says for one version.

    Attributes:
        cls: the class.
        version: the version.
        word: the first byte; None for an item.
        parts: fields and their parts, in order.
        absent: fields that the version does not have.
    """

    cls: type[Item]
    version: float
    word: type[Word] | None
    parts: tuple[tuple[str, Part], ...]
    absent: tuple[str, ...]

    @property
    def name(self) -> str:
        """The class's name."""
        return self.cls.__name__

    @property
    def body(self) -> list[tuple[str, Part]]:
        """The parts behind the first byte."""
        return [(name, part) for name, part in self.parts if not isinstance(part, Header)]

    @property
    def fields(self) -> dict[str, Field]:
        """The fields of the first byte that carry a value."""
        return {f.name: f for f in self.word.fields.values() if f.role == "bits"} if self.word else {}

    def bytes(self) -> Iterator[int]:
        """The values that the first byte may have."""
        assert self.word is not None
        mask, pinned = self.word.pattern("tag", "const", "reserved")
        named = [field for field in self.fields.values() if field.meaning]
        for value in range(1 << self.word.width):
            if value & mask == pinned and all(_means(field, value) for field in named):
                yield value

    def under(self, head: int) -> list[tuple[str, Part]]:
        """The parts behind a certain first byte: what its fields rule out is left out, what they demand is certain."""
        fields = {name: field.get(head) for name, field in self.fields.items()}
        found = []
        for name, part in self.body:
            if isinstance(part, Many) and part.flag and not fields[part.flag]:
                continue
            if part.when is not None and part.when[0] in fields and fields[part.when[0]] not in part.when[1]:
                continue
            found.append((name, part))
        return found


def _means(field: Field, head: int) -> bool:
    assert field.meaning is not None
    return field.get(head) in [member.value for member in field.meaning]


@cache
def parts_of(cls: type[Item]) -> dict[str, tuple[Part, ...]]:
    """All parts of every field, whatever the version, in order."""
    hints = get_type_hints(cls, include_extras=True)
    return {
        name: tuple(mark for mark in getattr(hints[name], "__metadata__", ()) if isinstance(mark, Part))
        for name in cls.__struct_fields__
    }


def form_of(cls: type[Item], version: float) -> Form | None:
    """The form that a class has in a version, or None if the version does not have it.

    Raises:
        LayoutError: the declaration contradicts itself.
    """
    return _form_of(cls, version)


@cache
def _form_of(cls: type[Item], version: float) -> Form | None:
    word = None
    if issubclass(cls, StreamRecord):
        words = [head.word for head in cls.heads if head.since <= version < head.before]
        if not words:
            return None
        if len(words) > 1:
            raise LayoutError(f"{cls.__name__}: version {version} has two first bytes")
        word = words[0]
    header = {f.name: f for f in word.fields.values() if f.role == "bits"} if word else {}
    parts: list[tuple[str, Part]] = []
    absent, filled = [], set()
    for name, marks in parts_of(cls).items():
        fitting = [mark for mark in marks if mark.applies(version)]
        if len(fitting) > 1:
            raise LayoutError(f"{cls.__name__}.{name}: version {version} has two parts for it")
        if fitting:
            parts.append((name, fitting[0]))
            filled.add(getattr(fitting[0], "flag", ""))
        elif name in header:
            parts.append((name, Header(field=header[name])))
            filled.add(name)
        elif marks or _ever(cls, name):
            absent.append(name)
        else:
            raise LayoutError(f"{cls.__name__}.{name} has no part, and the first byte has no field of its name")
    if unknown := filled - header.keys() - {""}:
        raise LayoutError(f"{cls.__name__}: the first byte has no field {', '.join(sorted(unknown))}")
    if idle := header.keys() - filled:
        raise LayoutError(f"{cls.__name__}: nothing fills the field {', '.join(sorted(idle))} of the first byte")
    return Form(cls, version, word, tuple(parts), tuple(absent))


def _ever(cls: type[Item], name: str) -> bool:
    """Whether any version's first byte has the field."""
    return issubclass(cls, StreamRecord) and any(name in head.word.fields for head in cls.heads)


class Dialect:
    """One version of a format: which forms there are, and which record a first byte begins.

    Args:
        classes: the records of all versions; a record's kind is its index here.
        version: the version.
        width: bits of an address.

    Attributes:
        forms: the form of each class, or None.
        heads: for every first byte, the kind, or `UNKNOWN`, or `SUBTYPE`.
        subtypes: the kinds by first byte and subtype.
    """

    def __init__(self, classes: tuple[type[StreamRecord], ...], version: float, width: int) -> None:
        self.classes, self.version, self.width = classes, version, width
        self.forms = tuple(form_of(cls, version) for cls in classes)
        self.heads = [UNKNOWN] * 256
        self.subtypes: dict[tuple[int, int], int] = {}
        for kind, form in enumerate(self.forms):
            if form is None:
                continue
            subtype = classes[kind].subtype
            for head in form.bytes():
                free = (UNKNOWN,) if subtype is None else (UNKNOWN, SUBTYPE)
                if self.heads[head] not in free or (head, subtype) in self.subtypes:
                    raise LayoutError(f"{form.name} and another record begin with the byte {head:#04x}")
                if subtype is None:
                    self.heads[head] = kind
                else:
                    self.subtypes[head, int(subtype)] = kind
                    self.heads[head] = SUBTYPE
