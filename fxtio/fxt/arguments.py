"""The arguments of the Fuchsia trace format, each declared once.  spec: Arguments"""

from __future__ import annotations

from typing import Annotated, ClassVar

from fxtio.codec.parts import Double, Number, Signed, Stream, Unsigned
from fxtio.codec.record import Record, TaggedUnion, layout_of
from fxtio.codec.word import Word
from fxtio.fxt import layout as w
from fxtio.fxt.enums import ArgumentType
from fxtio.fxt.references import StringReference

NameRef = Annotated[int | str, StringReference("name")]
ValueRef = Annotated[int | str, StringReference("value")]


class Argument(Record, frozen=True):
    """A typed key and value.  spec: Arguments"""

    name: NameRef


class NullArgument(Argument, frozen=True):
    """A key without a value.  spec: Null argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.NULL),)


class Int32Argument(Argument, frozen=True):
    """spec: 32-bit signed integer argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.Int32ArgumentWord,)
    value: int


class Uint32Argument(Argument, frozen=True):
    """spec: 32-bit unsigned integer argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.Uint32ArgumentWord,)
    value: int


class Int64Argument(Argument, frozen=True):
    """spec: 64-bit signed integer argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.INT64),)
    value: Signed


class Uint64Argument(Argument, frozen=True):
    """spec: 64-bit unsigned integer argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.UINT64),)
    value: Unsigned


class DoubleArgument(Argument, frozen=True):
    """spec: Double-precision floating point argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.DOUBLE),)
    value: Double


class StringArgument(Argument, frozen=True):
    """spec: String argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.StringArgumentWord,)
    value: ValueRef


class PointerArgument(Argument, frozen=True):
    """spec: Pointer argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.POINTER),)
    value: Annotated[int, Number("u", display="hexadecimal")]


class KoidArgument(Argument, frozen=True):
    """spec: Kernel object id argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.KOID),)
    value: Annotated[int, Number("u", display="koid")]


class BoolArgument(Argument, frozen=True):
    """spec: Boolean argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.BoolArgumentWord,)
    value: bool


class BlobArgument(Argument, frozen=True):
    """spec: Blob argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.BlobArgumentWord,)
    value: Annotated[bytes, Stream("value_size")]


ARGUMENTS = TaggedUnion(
    w.ArgumentWord,
    [
        NullArgument,
        Int32Argument,
        Uint32Argument,
        Int64Argument,
        Uint64Argument,
        DoubleArgument,
        StringArgument,
        PointerArgument,
        KoidArgument,
        BoolArgument,
        BlobArgument,
    ],
)
"""All arguments that the specification defines; an argument's kind is its index in `ARGUMENTS.classes`."""


def _limits(cls: type[Argument]) -> tuple[int, int]:
    """Return the smallest and the largest value of an argument class whose value is an integer."""
    part = dict(layout_of(cls).parts)["value"]
    if isinstance(part, Number):
        return (-(1 << 63), (1 << 63) - 1) if part.kind == "i" else (0, (1 << 64) - 1)
    return cls.words[0].fields["value"].limits


INTEGER_LIMITS: dict[type[Argument], tuple[int, int]] = {
    cls: _limits(cls) for cls in (Int32Argument, Uint32Argument, Int64Argument, Uint64Argument)
}
"""The classes of integer arguments with the smallest and the largest value of each, in the order of preference."""


def integer_class(low: int, high: int) -> type[Argument] | None:
    """Return the first class in `INTEGER_LIMITS` that holds all integers from `low` to `high`; None if none does."""
    for cls, (least, most) in INTEGER_LIMITS.items():
        if least <= low and high <= most:
            return cls
    return None


class Koid(int):
    """A kernel object id, given to the writer as the value of an argument."""

    __slots__ = ()


class Pointer(int):
    """A pointer, given to the writer as the value of an argument."""

    __slots__ = ()
