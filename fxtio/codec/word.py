"""A word of bit fields, declared once.

A `Word` subclass lists its fields in the specification's order with the specification's inclusive bit ranges.  The
declaration is checked when the class is made: fields may not overlap, every bit must be declared (a gap is
`reserved`), constants must fit.  The same class then reads and builds one Python int or a numpy array of words; the
arithmetic is the same expression.  It never masks a value to make it fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self, dataclass_transform, get_type_hints, overload

from fxtio.errors import EncodeError, LayoutError, shown

Role = Literal["bits", "tag", "const", "reserved"]


@dataclass(frozen=True, slots=True)
class Field:
    """A range of bits of a word, `lo` to `hi` inclusive, least significant bit 0.

    Attributes:
        name: the field's name.
        role: `bits` carries a value, `tag` selects the record type, `const` must be equal to `value`.
        value: what a `tag` or `const` holds (0 for `reserved`).
        least: the smallest legal value of an unsigned field.
        signed: two's complement.
        meaning: the enumeration that names the values, if there is one.
        doc: a few words for people.
    """

    name: str
    lo: int
    hi: int
    role: Role = "bits"
    value: int = 0
    least: int = 0
    signed: bool = False
    meaning: type[IntEnum] | None = None
    doc: str = ""

    @property
    def width(self) -> int:
        """Number of bits."""
        return self.hi - self.lo + 1

    @property
    def mask(self) -> int:
        """The field's bits, all set, moved down to bit 0."""
        return (1 << self.width) - 1

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest value that the field takes."""
        if self.signed:
            return -(1 << self.width - 1), (1 << self.width - 1) - 1
        return self.least, self.mask

    def get(self, word: Any) -> Any:
        """Return the field's value in an int, or in an array of unsigned words (int64 for a signed field)."""
        raw = word >> self.lo & self.mask
        if not self.signed:
            return raw
        half = 1 << self.width - 1
        if isinstance(raw, int):
            return (raw ^ half) - half
        shift = 64 - self.width
        return (raw << shift).astype("int64") >> shift

    def put(self, value: Any, owner: str = "") -> Any:
        """Return the value shifted to the field's place, to be or-ed into a word.

        Raises:
            EncodeError: the value does not fit; names the field, the value and the bits.
        """
        least, most = self.limits
        low, high = (value, value) if isinstance(value, int) else _extent(value)
        if low < least or high > most:
            raise EncodeError(
                self.refusal(low if low < least else high), f"{owner}.{self.name}" if owner else self.name
            )
        if isinstance(value, int):
            return (value & self.mask) << self.lo
        return (value.astype("uint64") & self.mask) << self.lo

    def refusal(self, value: object) -> str:
        """Return the message for a value that does not fit."""
        least, most = self.limits
        if not isinstance(value, int):
            return f"{shown(value)} is not an integer"
        return f"{shown(value)} does not fit in bits {self.lo}..{self.hi} ({least} to {most})"

    def expression(self, word: str) -> str:
        """Return source for the field's value in the int named `word`: Python, and C."""
        shifted = f"{word} >> {self.lo}" if self.lo else word
        raw = shifted if self.role == "bits" and self.hi == 63 else f"{shifted} & {self.mask:#x}"
        if self.signed:
            half = 1 << self.width - 1
            return f"((({raw}) ^ {half:#x}) - {half:#x})"
        return f"({raw})"


def _extent(values: Any) -> tuple[int, int]:
    return (int(values.min()), int(values.max())) if len(values) else (0, 0)


def bits(lo: int, hi: int, *, least: int = 0, signed: bool = False, doc: str = "") -> Any:
    """Declare a field of the bits `lo` to `hi`, both inclusive; the class gives it its name."""
    return Field("", lo, hi, "bits", least=least, signed=signed, doc=doc)


@overload
def tag(lo: int, hi: int, *, doc: str = "") -> Any: ...
@overload
def tag(lo: int, hi: int, value: int, *, doc: str = "", init: Literal[False] = False) -> Any: ...
def tag(lo: int, hi: int, value: int | None = None, *, doc: str = "", init: bool = False) -> Any:
    """Declare the field that tells record types apart; without a value, `Word.of` pins it later."""
    return Field("", lo, hi, "bits" if value is None else "tag", int(value or 0), doc=doc)


def const(lo: int, hi: int, value: int, *, doc: str = "", init: Literal[False] = False) -> Any:
    """Declare a field that always has this value; `init` tells type checkers that it is not an argument of the word."""
    return Field("", lo, hi, "const", int(value), doc=doc)


def reserved(lo: int, hi: int, doc: str = "must be zero", *, init: Literal[False] = False) -> Any:
    """Declare bits that are written as zero."""
    return Field("", lo, hi, "reserved", doc=doc)


@dataclass_transform(kw_only_default=True, field_specifiers=(bits, tag, const, reserved))
class Word:
    """The base class of all declared words.

    `EventWord(arg_count=2, ...)` makes a word of the values of its fields, ints or numpy arrays; `.value` and `int()`
    return it.  The attributes of `EventWord.read(0x...)` are the values of the fields.

    Class keywords:
        width: the number of bits, by default 64.
        partial: subclasses declare the other bits; such a word can be read, but not made.
    """

    width: ClassVar[int] = 64
    fields: ClassVar[Mapping[str, Field]] = MappingProxyType({})
    partial: ClassVar[bool] = True

    __slots__ = ("value",)
    value: Any

    def __init_subclass__(cls, *, width: int | None = None, partial: bool = False) -> None:
        if width is not None:
            cls.width = width
        cls.partial = partial
        fields = dict(cls.fields)
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
        hints = get_type_hints(cls) if own else {}
        for name, declared in own.items():
            hint = hints.get(name)
            meaning = hint if isinstance(hint, type) and issubclass(hint, IntEnum) else None
            fields[name] = replace(declared, name=name, meaning=meaning)
            setattr(cls, name, _Access(fields[name]))
        cls.fields = MappingProxyType(dict(sorted(fields.items(), key=lambda item: item[1].lo)))
        cls._check()

    @classmethod
    def _check(cls) -> None:
        """Raise LayoutError for a declaration that contradicts itself."""
        next_bit = 0
        for field in cls.fields.values():
            where = f"{cls.__name__}.{field.name} [{field.lo}..{field.hi}]"
            if field.lo > field.hi or field.hi >= cls.width:
                raise LayoutError(f"{where}: not a range of the bits 0..{cls.width - 1}")
            if field.lo < next_bit:
                raise LayoutError(f"{where}: overlaps the field before it")
            if field.lo > next_bit and not cls.partial:
                raise LayoutError(f"{where}: bits {next_bit}..{field.lo - 1} are not declared; say reserved(...)")
            if not 0 <= field.value <= field.mask:
                raise LayoutError(f"{where}: the constant {field.value} does not fit")
            next_bit = field.hi + 1
        if next_bit != cls.width and not cls.partial:
            raise LayoutError(f"{cls.__name__}: bits {next_bit}..{cls.width - 1} are not declared; say reserved(...)")

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        if cls.partial:
            raise LayoutError(f"{cls.__name__} is partial; build one of its subclasses")
        word: Any = 0
        for field in cls.fields.values():
            if field.role == "bits":
                if field.name not in values:
                    raise EncodeError("no value given", f"{cls.__name__}.{field.name}")
                word = word | field.put(values.pop(field.name), cls.__name__)
            else:
                word = word | field.value << field.lo
        if values:
            raise EncodeError("no such field", f"{cls.__name__}.{next(iter(values))}")
        self.value = word

    @classmethod
    def read(cls, value: Any) -> Self:
        """Return a word of its value (an int, or an array of uint64), without checks."""
        self = cls.__new__(cls)
        self.value = value
        return self

    @classmethod
    def of(cls, name: str = "", **tags: int) -> type[Self]:
        """Return a subclass with fixed values for tags: `EventWord.of(event_type=EventType.INSTANT)`."""
        pinned = dict(cls.fields)
        for tag_name, value in tags.items():
            if tag_name not in pinned:
                raise LayoutError(f"{cls.__name__} has no field {tag_name}")
            pinned[tag_name] = replace(pinned[tag_name], role="tag", value=int(value))
        label = name or cls.__name__
        subclass: type[Self] = type(label, (cls,), {"__slots__": (), "__doc__": cls.__doc__, "fields": pinned})
        return subclass

    @classmethod
    def pattern(cls, *roles: Role) -> tuple[int, int]:
        """Return the mask of all bits whose role is one of `roles`, and the value that they have in a correct word."""
        mask = value = 0
        for field in cls.fields.values():
            if field.role in roles:
                mask |= field.mask << field.lo
                value |= field.value << field.lo
        return mask, value

    def __int__(self) -> int:
        return int(self.value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash((type(self), self.value))

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={f.get(self.value)!r}" for f in self.fields.values() if f.role == "bits")
        return f"{type(self).__name__}({shown})"


class _Access:
    """The attribute for a field: its value in a word, its declaration on the class."""

    __slots__ = ("field",)

    def __init__(self, field: Field) -> None:
        self.field = field

    def __get__(self, word: Word | None, owner: type[Word]) -> Any:
        return self.field if word is None else self.field.get(word.value)
