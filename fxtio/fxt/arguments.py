"""Every argument of the Fuchsia trace format, declared once.  spec: Arguments"""

from __future__ import annotations

from typing import Annotated, ClassVar

from fxtio.codec.parts import Double, Signed, Stream, Text, Unsigned
from fxtio.codec.record import Family, Record
from fxtio.codec.word import Word
from fxtio.fxt import layout as w
from fxtio.fxt.enums import ArgumentType

NameRef = Annotated[int | str, Text("name", w.StringRefWord)]
ValueRef = Annotated[int | str, Text("value", w.StringRefWord)]


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
    value: Unsigned


class KoidArgument(Argument, frozen=True):
    """spec: Kernel object id argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.KOID),)
    value: Unsigned


class BoolArgument(Argument, frozen=True):
    """spec: Boolean argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.BoolArgumentWord,)
    value: bool


class BlobArgument(Argument, frozen=True):
    """spec: Blob argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.BlobArgumentWord,)
    value: Annotated[bytes, Stream("value_size")]


ARGUMENTS = Family(
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
