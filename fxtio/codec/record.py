"""Records, declared once, and the families that tell them apart.

A record class is a frozen msgspec struct.  `words` names its header, annotations carry the body parts in the
specification's order, and a field without a part is the header field of the same name.  Sizes, counts and references
are owned by the parts and are no fields.  `layout_of` reads such a declaration; everything else is derived from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, TypeVar, get_type_hints

import msgspec

from fxtio.codec.parts import Header, Part
from fxtio.codec.word import Field, Word
from fxtio.errors import LayoutError

T = TypeVar("T")

SIZE = "size"
"""The header field with the record's length in words; `Record` derives it."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """Base of all records.

    Attributes:
        words: the header words, one or two.
    """

    words: ClassVar[tuple[type[Word], ...]] = ()

    def replace(self, **changes: Any) -> Any:
        """The same record with some fields changed."""
        return msgspec.structs.replace(self, **changes)


class Opaque(msgspec.Struct, frozen=True, gc=False):
    """Bytes kept as they are: an unknown type, or (in exact mode) what would not be written back the same.

    Attributes:
        raw: the whole record or argument, header included, in the trace's own byte order.
    """

    raw: bytes


@dataclass(frozen=True, slots=True)
class Layout:
    """What a record's declaration says.

    Attributes:
        name: the class's name.
        words: the header words.
        parts: the record's fields with their parts, in order.
    """

    name: str
    cls: type[Record]
    words: tuple[type[Word], ...]
    parts: tuple[tuple[str, Part], ...]

    @property
    def body(self) -> list[tuple[str, Part]]:
        """The parts that lie behind the header."""
        return [(name, part) for name, part in self.parts if not isinstance(part, Header)]

    def header_fields(self) -> list[tuple[int, Field]]:
        """Every header field that carries a value, with the number of its word."""
        return [(n, f) for n, word in enumerate(self.words) for f in word.fields.values() if f.role == "bits"]


def once(make: Callable[[type[Record]], T]) -> Callable[[type[Record]], T]:
    """`functools.cache` for a function of a record class, with its types kept."""
    return cache(make)


@once
def layout_of(cls: type[Record]) -> Layout:
    """Read a record's declaration.

    Raises:
        LayoutError: a field without a place, or a header field that nobody fills.
    """
    if not cls.words:
        raise LayoutError(f"{cls.__name__} has no header word")
    header = {f.name: f for word in cls.words for f in word.fields.values() if f.role == "bits"}
    hints = get_type_hints(cls, include_extras=True)
    parts: list[tuple[str, Part]] = []
    filled = {SIZE}
    for name in cls.__struct_fields__:
        marks = [mark for mark in getattr(hints[name], "__metadata__", ()) if isinstance(mark, Part)]
        if not marks and name not in header:
            raise LayoutError(f"{cls.__name__}.{name} has no part, and no header field has its name")
        part = marks[0] if marks else Header(header[name], boolean=hints[name] is bool)
        parts.append((name, part))
        filled.update(part.owns if marks else (name,))
    if unknown := filled - header.keys() - {SIZE}:
        raise LayoutError(f"{cls.__name__}: no header field is called {', '.join(sorted(unknown))}")
    if idle := header.keys() - filled:
        raise LayoutError(f"{cls.__name__}: nothing fills the header field {', '.join(sorted(idle))}")
    return Layout(cls.__name__, cls, cls.words, tuple(parts))


@dataclass(frozen=True, slots=True)
class Selector:
    """Where the rest of a type's tags lie, and which class (an index, or -1) each value selects."""

    lo: int
    mask: int
    table: tuple[int, ...]


class Family:
    """The records that may stand in the same place, told apart by the tags of their header words.

    Two levels: the field `type` of the base word, then (per type) the span of the other tags.  The tables serve the
    scalar reader, the numpy reader and the C kernel alike.

    Attributes:
        base: the partial word with the fields `type` and `size` that all members share.
        classes: the members; a record's kind is an index into these, or -1.
        sizes: for every type, the field that holds the size in words.
        selectors: for every type, how to find the class.
    """

    def __init__(self, base: type[Word], classes: list[type[Record]], large: type[Word] | None = None) -> None:
        self.base = base
        self.classes = tuple(classes)
        kind = base.fields["type"]
        count = kind.mask + 1
        self.sizes: list[Field] = [base.fields[SIZE]] * count
        members: dict[int, list[int]] = {value: [] for value in range(count)}
        for index, cls in enumerate(self.classes):
            members[cls.words[0].fields["type"].value].append(index)
        if large is not None:
            self.sizes[large.fields["type"].value] = large.fields[SIZE]
        self.selectors = [self._select(members[value]) for value in range(count)]
        self._kind = kind

    def _select(self, members: list[int]) -> Selector:
        tags = [[f for f in self.classes[m].words[0].fields.values() if f.role == "tag" and f.name != "type"]
                for m in members]  # fmt: skip
        every = [field for fields in tags for field in fields]
        if not every:
            return Selector(0, 0, (members[0] if members else -1,))
        lo, hi = min(f.lo for f in every), max(f.hi for f in every)
        table = [-1] * (1 << hi - lo + 1)
        claims = [0] * len(table)  # how many tags the present owner of a value has: the more specific one wins
        for member, fields in zip(members, tags, strict=True):
            for value in range(len(table)):
                if len(fields) >= claims[value] and all(value >> f.lo - lo & f.mask == f.value for f in fields):
                    if len(fields) == claims[value]:
                        raise LayoutError(f"{self.classes[member].__name__} and another record share their tags")
                    table[value], claims[value] = member, len(fields)
        return Selector(lo, len(table) - 1, tuple(table))

    def type_of(self, word: int) -> int:
        """The type field of a header word."""
        value: int = self._kind.get(word)
        return value

    def size_of(self, word: int) -> int:
        """The record's size in words, by its header word."""
        size: int = self.sizes[self.type_of(word)].get(word)
        return size

    def kind_of(self, word: int) -> int:
        """The index of the record's class, or -1 for one that nobody declared."""
        selector = self.selectors[self.type_of(word)]
        return selector.table[word >> selector.lo & selector.mask]
