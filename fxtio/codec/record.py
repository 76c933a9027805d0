"""Records, each declared once, and tagged unions: the records that may be in the same place.

A record class is a frozen msgspec struct.  `words` names its header, annotations carry the body parts in the
specification's order, and a field without a part is the header field of the same name.  Sizes, counts and references
belong to the parts and are not fields.  `layout_of` reads such a declaration; everything else is derived from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, ParamSpec, TypeVar, cast, get_type_hints

import msgspec

from fxtio.codec.parts import Header, Part
from fxtio.codec.word import Field, Word
from fxtio.errors import LayoutError

P = ParamSpec("P")
T = TypeVar("T")

SIZE = "size"
"""The header field with the record's length in words; it is derived when a record is encoded."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """The base class of all records.

    Attributes:
        words: the header words, one or two.
    """

    words: ClassVar[tuple[type[Word], ...]] = ()

    def replace(self, **changes: Any) -> Any:
        """Return a copy of the record with some fields changed."""
        return msgspec.structs.replace(self, **changes)


class Opaque(msgspec.Struct, frozen=True, gc=False, tag="opaque"):
    """Bytes kept as they are: a record of unknown type, or one that would not be encoded to the same bytes again.

    Attributes:
        raw: the whole record or argument, header included, in the trace's own byte order.
    """

    raw: bytes


@dataclass(frozen=True, slots=True)
class Layout:
    """The declaration of a record.

    Attributes:
        name: the name of the class.
        cls: the class.
        words: the header words.
        parts: the record's fields with their parts, in order.
    """

    name: str
    cls: type[Record]
    words: tuple[type[Word], ...]
    parts: tuple[tuple[str, Part], ...]

    @property
    def body(self) -> list[tuple[str, Part]]:
        """The parts after the header, with the names of their fields."""
        return [(name, part) for name, part in self.parts if not isinstance(part, Header)]

    def header_fields(self) -> list[tuple[int, Field]]:
        """Return every header field that carries a value, with the number of its word."""
        return [(n, f) for n, word in enumerate(self.words) for f in word.fields.values() if f.role == "bits"]


def once(make: Callable[P, T]) -> Callable[P, T]:
    """Cache the results of a function of a class, as `functools.cache` does, and keep its types."""
    return cast("Callable[P, T]", cache(make))


@once
def layout_of(cls: type[Record]) -> Layout:
    """Read a record's declaration.

    Raises:
        LayoutError: a field has no place, or no field fills a header field.
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


@once
def load_extensions(cls: type[Record]) -> None:
    """Import the modules that say the rest about the parts of a record class, see `Part.extension`."""
    for _, part in layout_of(cls).parts:
        if part.extension:
            import_module(part.extension)


@dataclass(frozen=True, slots=True)
class Selector:
    """Selects the class of a record by the tags after the record type.

    Attributes:
        lo: the first bit of the span of these tags.
        mask: the bits of the span, moved down to bit 0.
        table: for every value of the span, the index of the class, or -1.
    """

    lo: int
    mask: int
    table: tuple[int, ...]


class TaggedUnion:
    """The records that may be in the same place, told apart by the tags of their header words.

    There are two levels: the field `type` of the base word, then (per type) the span of the other tags.  The scalar
    decoder, the numpy decoder and the C kernel use the same tables.

    Attributes:
        base: the partial word with the fields `type` and `size` that all members share.
        classes: the record classes; a record's kind is an index into these, or -1.
        members: the same as a set.
        sizes: for every type, the field that holds the size in words.
        selectors: for every type, how to find the class.
    """

    def __init__(self, base: type[Word], classes: list[type[Record]], large: type[Word] | None = None) -> None:
        self.base = base
        self.classes = tuple(classes)
        self.members = frozenset(classes)
        kind = base.fields["type"]
        count = kind.mask + 1
        self.sizes: list[Field] = [base.fields[SIZE]] * count
        members: dict[int, list[int]] = {value: [] for value in range(count)}
        for index, cls in enumerate(self.classes):
            members[cls.words[0].fields["type"].value].append(index)
        if large is not None:
            self.sizes[large.fields["type"].value] = large.fields[SIZE]
        self.selectors = [self._select(members[value]) for value in range(count)]
        self._type = kind.lo, kind.mask
        self._sizes = [(field.lo, field.mask) for field in self.sizes]
        self._kinds = [(selector.lo, selector.mask, selector.table) for selector in self.selectors]

    def _select(self, members: list[int]) -> Selector:
        tags = [[f for f in self.classes[m].words[0].fields.values() if f.role == "tag" and f.name != "type"]
                for m in members]  # fmt: skip
        every = [field for fields in tags for field in fields]
        if not every:
            return Selector(0, 0, (members[0] if members else -1,))
        lo, hi = min(f.lo for f in every), max(f.hi for f in every)
        table = [-1] * (1 << hi - lo + 1)
        claims = [0] * len(table)  # the number of tags of the class that a value selects: the most specific class wins
        for member, fields in zip(members, tags, strict=True):
            for value in range(len(table)):
                if len(fields) >= claims[value] and all(value >> f.lo - lo & f.mask == f.value for f in fields):
                    if len(fields) == claims[value]:
                        raise LayoutError(f"{self.classes[member].__name__} and another record share their tags")
                    table[value], claims[value] = member, len(fields)
        return Selector(lo, len(table) - 1, tuple(table))

    def type_of(self, word: int) -> int:
        """Return the type field of a header word."""
        lo, mask = self._type
        return word >> lo & mask

    def size_of(self, word: int) -> int:
        """Return a record's size in words, by its header word."""
        lo, mask = self._sizes[self.type_of(word)]
        return word >> lo & mask

    def kind_of(self, word: int) -> int:
        """Return the index of a record's class by its header word, or -1 for a type that is not declared."""
        lo, mask, table = self._kinds[self.type_of(word)]
        return table[word >> lo & mask]
