"""Declarations of records that consist of single bytes and LEB128 numbers, for any number of versions of a format.

A record begins with one byte, a `Word` of width 8.  The annotations of the class carry the parts after it in the
specification's order, and the enumeration whose numbers a field has.  A part may be limited to some versions and may
depend on a field before it.  A field can have several parts, of which each version has at most one.  A part that is
relative to something names it: a *base* is constant within a block of records, a *running* value is the last value of
its kind.  `RecordLayout` is what the declaration of a class says for one version.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from math import inf
from typing import Any, ClassVar, NamedTuple, get_type_hints

import msgspec

from fxtio._native.constants import Op
from fxtio.codec.integers import MAX_UINT64
from fxtio.codec.record import once
from fxtio.codec.word import Field, Word
from fxtio.errors import LayoutError
from fxtio.report import counted

UNKNOWN, SUBTYPE = -1, -2
"""Entries of `Dialect.kinds` for bytes with which no record begins, and for bytes whose record the subtype decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPart:
    """One element of a record's body.

    Attributes:
        since: the first version that has it.
        before: the first version that no longer has it.
        when: an earlier field and the values of it with which the part is present; None if it is always present.
    """

    since: float = 0
    before: float = inf
    when: tuple[str, tuple[int, ...]] | None = None

    def applies(self, version: float) -> bool:
        """Return whether the version has the part."""
        return self.since <= version < self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class Byte(StreamPart):
    """One byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed(StreamPart):
    """An unsigned little-endian number of 2, 4 or 8 bytes.  Only the generated functions read it, no kernel does."""

    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Uleb(StreamPart):
    """An unsigned LEB128 number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleb(StreamPart):
    """A signed LEB128 number; with `pointer`, an address: as many of its bits as an address has."""

    pointer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative(StreamPart):
    """An address: a signed number plus a base, in units of 2 to the power of `shift` bytes."""

    base: str
    shift: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Running(StreamPart):
    """An address: a signed number plus the last value of the same kind in the block."""

    of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock(StreamPart):
    """An unsigned number plus the last time, modulo 2 to the power of 64; versions without it repeat the last."""

    of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summed(StreamPart):
    """An unsigned number plus the one of the previous item in the same list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Double(StreamPart):
    """A double-precision number, eight bytes, little-endian."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(StreamPart):
    """Text up to a zero byte.  With `marked`, a byte before it says whether there is a text (1) or none (0)."""

    marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedText(StreamPart):
    """Text with its size in four bytes before it and a zero byte, which the size counts, at its end.

    Size 0 stands for None.  Only the generated functions read it, no kernel does.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(StreamPart):
    """A value whose encoding depends on another field.

    Attributes:
        by: that field.
        cases: its values, and the part for each.
    """

    by: str
    cases: tuple[tuple[tuple[int, ...], StreamPart], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated(StreamPart):
    """A list of values or items.  Its count comes before it, unless `until_zero` is set.

    Attributes:
        of: a part (then the items are plain values), or a class of items.
        flag: the field of the first byte that says whether the list is present; without it, the value is None.
        until_zero: the list has no count; it ends with a 0 in place of the first number of another item.
        after_count: a field whose number is between the count and the items.
    """

    of: StreamPart | type[Item]
    flag: str = ""
    until_zero: bool = False
    after_count: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterCount(StreamPart):
    """An unsigned number that is between the count and the items of a later list, see `Repeated.after_count`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstByteField(StreamPart):
    """A field of the first byte."""

    field: Field


class Single(NamedTuple):
    """How a part with one value is read and written by generated code and by the kernels, and named in documents.

    Attributes:
        stored: the name of the helpers `take_...` and `put_...` of generated functions, see `values`.
        encoding: its encoding in the words of the documents.
        op: the operation of the kernels; END if none reads it.
        taken: the value as an expression, in which `{}` stands for the number that was read.
        given: the number that is written as an expression of `{value}`; `{word}` and `{address}` are the value after
            the check that it is one, `{where}` is the field for messages.
        register: the base or the running value that is the first operand; empty for none.
        updates: the variable of generated functions that is set to the value; empty for none.
        operands: the operands without a register.
    """

    stored: str
    encoding: str
    op: int = Op.END
    taken: str = "{}"
    given: str = "{value}"
    register: str = ""
    updates: str = ""
    operands: tuple[int, int] = (0, 0)

    def put(self, value: str, where: str) -> str:
        """Return the number that is written, as an expression."""
        word, address = (f"whole({value}, {most}, {where!r})" for most in (_MOST, "mask"))
        return self.given.format(value=value, word=word, address=address, where=repr(where))


_MOST = f"{MAX_UINT64:#x}"


@cache
def single(part: StreamPart) -> Single:
    """Return what there is to say about a part that is one value.

    Raises:
        TypeError: it is not.
    """
    match part:
        case Byte():
            return Single("byte", "a byte", Op.BYTE)
        case Fixed(size=size):
            return Single(f"fixed{size}", counted(size, "byte"))
        case SizedText():
            encoding = "4 bytes, the size of the text with the zero byte at its end, then the text"
            return Single("sized_text", encoding)
        case Uleb():
            return Single("uleb", "uleb128", Op.ULEB)
        case AfterCount():
            return Single("uleb", "uleb128, between the count and the items of the list")
        case Clock(of=of):
            encoding = f"uleb128, added to the last {of} of the buffer, modulo 2 to the power of 64"
            taken, given = f"(last_{of} + {{}}) & {_MOST}", f"{{word}} - last_{of} & {_MOST}"
            return Single("uleb", encoding, Op.CLOCK, taken, given, of, f"last_{of}")
        case Summed():
            encoding = "uleb128, added to the one before it in the list"
            taken, given = f"(total + {{}}) & {_MOST}", f"{{word}} - total & {_MOST}"
            return Single("uleb", encoding, Op.SUMMED, taken, given, updates="total")
        case Sleb(pointer=True):
            return Single("sleb", "sleb128", Op.SLEB, "{} & mask", "signed({address}, mask)", operands=(1, 0))
        case Sleb():
            return Single("sleb", "sleb128", Op.SLEB)
        case Relative(base=base, shift=shift):
            encoding = f"sleb128, added to the buffer's {base} base{f', times {1 << shift}' if shift else ''}"
            taken = f"(state.{base} + {{}} << {shift}) & mask"
            given = f"signed(aligned({{address}}, {shift}, {{where}}) - state.{base}, mask)"
            return Single("sleb", encoding, Op.RELATIVE, taken, given, base, operands=(0, shift))
        case Running(of=of):
            taken, given = f"(last_{of} + {{}}) & mask", f"signed({{address}} - last_{of}, mask)"
            encoding = f"sleb128, added to the last {of} of the buffer"
            return Single("sleb", encoding, Op.RUNNING, taken, given, of, f"last_{of}")
        case Double():
            return Single("double", "8 bytes, a double", Op.DOUBLE)
        case Text(marked=True):
            return Single("marked_text", "a byte 0, or a byte 1 and text up to a zero byte", Op.TEXT, operands=(1, 0))
        case Text():
            return Single("text", "text up to a zero byte", Op.TEXT)
    raise TypeError(f"{type(part).__name__} is no single value")


class Item(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Base class of the items of lists, and of records."""


@dataclass(frozen=True, slots=True)
class FirstByte:
    """The first byte of a record in some versions."""

    word: type[Word]
    since: float = 0
    before: float = inf


class StreamRecord(Item, frozen=True, gc=False, kw_only=True):
    """Base class of all records that begin with a byte.

    Attributes:
        first_bytes: the first byte; each version has at most one.
        subtype: the value of a byte after the first field, which tells apart records with the same first byte; None
            for records without that byte.
    """

    first_bytes: ClassVar[tuple[FirstByte, ...]] = ()
    subtype: ClassVar[IntEnum | None] = None

    def replace(self, **changes: Any) -> Any:
        """Return a copy of the record with some fields changed."""
        return msgspec.structs.replace(self, **changes)


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The declaration of a record or an item, narrowed to one version.

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
    parts: tuple[tuple[str, StreamPart], ...]
    absent: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.cls.__name__

    @property
    def body(self) -> list[tuple[str, StreamPart]]:
        """The fields and parts after the first byte."""
        return [(name, part) for name, part in self.parts if not isinstance(part, FirstByteField)]

    @property
    def fields(self) -> dict[str, Field]:
        """The fields of the first byte that carry a value."""
        return {f.name: f for f in self.word.fields.values() if f.role == "bits"} if self.word else {}

    def bytes(self) -> Iterator[int]:
        """Yield the values that the first byte may have."""
        assert self.word is not None
        mask, pinned = self.word.pattern("tag", "const", "reserved")
        enumerated = [field for field in self.fields.values() if field.meaning]
        for value in range(1 << self.word.width):
            if value & mask == pinned and all(field.get(value) in set(field.meaning or ()) for field in enumerated):
                yield value

    def parts_behind(self, first_byte: int) -> list[tuple[str, StreamPart]]:
        """Return the parts after a given first byte, without those that its fields rule out."""
        fields = {name: field.get(first_byte) for name, field in self.fields.items()}
        present = []
        for name, part in self.body:
            if isinstance(part, Repeated) and part.flag and not fields[part.flag]:
                continue
            if part.when is not None and part.when[0] in fields and fields[part.when[0]] not in part.when[1]:
                continue
            present.append((name, part))
        return present


@once
def parts_of(cls: type[Item]) -> dict[str, tuple[StreamPart, ...]]:
    """Return the parts of every field in order, those of all versions."""
    hints = get_type_hints(cls, include_extras=True)
    return {
        name: tuple(mark for mark in getattr(hints[name], "__metadata__", ()) if isinstance(mark, StreamPart))
        for name in cls.__struct_fields__
    }


def enumeration_of(cls: type[Item], field: str) -> type[IntEnum] | None:
    """Return the enumeration with which a field is annotated, or which it has in the first byte; None without one."""
    return _enumerations_of(cls).get(field)


@once
def _enumerations_of(cls: type[Item]) -> dict[str, type[IntEnum]]:
    heads = cls.first_bytes if issubclass(cls, StreamRecord) else ()
    result = {each.name: each.meaning for head in heads for each in head.word.fields.values() if each.meaning}
    for name, hint in get_type_hints(cls, include_extras=True).items():
        for mark in getattr(hint, "__metadata__", ()):
            if isinstance(mark, type) and issubclass(mark, IntEnum):
                result[name] = mark
    return result


@once
def layout_of(cls: type[Item], version: float) -> RecordLayout | None:
    """Return the layout of a class in a version, or None if the version does not have it.

    Raises:
        LayoutError: the declaration contradicts itself.
    """
    word, any_head = None, set[str]()  # the fields of the first byte of any version
    if issubclass(cls, StreamRecord):
        any_head.update(*(head.word.fields for head in cls.first_bytes))
        words = [head.word for head in cls.first_bytes if head.since <= version < head.before]
        if not words:
            return None
        if len(words) > 1:
            raise LayoutError(f"{cls.__name__}: version {version} has two first bytes")
        word = words[0]
    header = {f.name: f for f in word.fields.values() if f.role == "bits"} if word else {}
    parts: list[tuple[str, StreamPart]] = []
    absent, filled = [], set()
    for name, marks in parts_of(cls).items():
        fitting = [mark for mark in marks if mark.applies(version)]
        if len(fitting) > 1:
            raise LayoutError(f"{cls.__name__}.{name}: version {version} has two parts for it")
        if fitting:
            parts.append((name, fitting[0]))
            filled.add(getattr(fitting[0], "flag", ""))
        elif name in header:
            parts.append((name, FirstByteField(field=header[name])))
            filled.add(name)
        elif marks or name in any_head:
            absent.append(name)
        else:
            raise LayoutError(f"{cls.__name__}.{name} has no part, and the first byte has no field of its name")
    if unknown := filled - header.keys() - {""}:
        raise LayoutError(f"{cls.__name__}: the first byte has no field {', '.join(sorted(unknown))}")
    if idle := header.keys() - filled:
        raise LayoutError(f"{cls.__name__}: nothing fills the field {', '.join(sorted(idle))} of the first byte")
    return RecordLayout(cls, version, word, tuple(parts), tuple(absent))


class Dialect:
    """One version of a format: its record layouts, and the record that each first byte begins.

    Args:
        classes: the records of all versions; the kind of a record is its index here.
        version: the version.
        width: the number of bits of an address.

    Attributes:
        layouts: the layout of each class, or None.
        kinds: for every first byte the kind, `UNKNOWN`, or `SUBTYPE`.
        kind_of: the kind of each class that the version has.
        subtypes: the kinds by first byte and subtype.
        mask: the largest address.
        codecs: the codecs of kinds, as far as they were needed; see `fxtio.codec.stream.codec`.
    """

    def __init__(self, classes: tuple[type[StreamRecord], ...], version: float, width: int) -> None:
        self.classes, self.version, self.width = classes, version, width
        self.mask = (1 << width) - 1
        self.layouts = tuple(layout_of(cls, version) for cls in classes)
        self.kind_of = {cls: kind for kind, cls in enumerate(classes) if self.layouts[kind] is not None}
        self.codecs: dict[int, Any] = {}
        self.kinds = [UNKNOWN] * 256
        self.subtypes: dict[tuple[int, int], int] = {}
        for kind, layout in enumerate(self.layouts):
            if layout is None:
                continue
            subtype = classes[kind].subtype
            for head in layout.bytes():
                free = (UNKNOWN,) if subtype is None else (UNKNOWN, SUBTYPE)
                if self.kinds[head] not in free or (head, subtype) in self.subtypes:
                    raise LayoutError(f"{layout.name} and another record begin with the byte {head:#04x}")
                if subtype is None:
                    self.kinds[head] = kind
                else:
                    self.subtypes[head, int(subtype)] = kind
                    self.kinds[head] = SUBTYPE

    def part(self, cls: type[Item], field: str) -> StreamPart | None:
        """Return the part that the version has for a field of a record or item, or None if it has none."""
        layout = layout_of(cls, self.version)
        return None if layout is None else dict(layout.parts).get(field)


class StreamState:
    """The bases and running values of a block, an attribute for each of those in the declarations.

    Args:
        mask: the largest address.
        values: the values at the beginning of the block, by name.
    """

    __slots__ = ("__dict__", "mask")

    def __init__(self, mask: int, values: dict[str, int]) -> None:
        self.mask = mask
        self.__dict__.update(values)

    def copy(self) -> dict[str, int]:
        """Return the values by name."""
        return dict(self.__dict__)

    def restore(self, values: dict[str, int]) -> None:
        """Set the values to those that `copy` returned."""
        self.__dict__.update(values)
