"""The body parts that records of words are made of.

A record's annotations carry these.  A part knows which header fields it owns (a size, a count), and writes the Python
source that decodes it from a record and encodes it; `generate` joins the lines.  The numpy code for the same parts is
in `columns` (decoding) and `encode_columns` (encoding), their descriptions are in `describe`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

if TYPE_CHECKING:
    from fxtio.codec.record import Layout, TaggedUnion
    from fxtio.codec.word import Field

Display = Literal["decimal", "hexadecimal", "koid"]
"""The way in which a number is shown to people."""


class Part:
    """A part of the body of a record: writes the source that decodes and encodes it.

    A format may define parts of its own.  Their numpy code, and how they are described, is registered by the module
    `extension` with `take_part`, `put_part`, `emit_part`, `part_meaning` and `part_text` of this package.

    Attributes:
        owns: the header fields that the part derives when it is written.
        helpers: the functions and classes that its source lines use, beside those of `fxtio.codec.generate`.
        extension: the name of the module that registers its numpy code; it is imported only when that is needed.
    """

    owns: tuple[str, ...] = ()
    helpers: ClassVar[Mapping[str, object]] = MappingProxyType({})
    extension: ClassVar[str] = ""

    def prologue(self, layout: Layout) -> Iterator[str]:
        """Yield source lines that are before all parts are decoded."""
        yield from ()

    def decode(self, name: str, where: str) -> Iterator[str]:
        """Yield source lines that set the local variable `name` and move the cursor `c`."""
        raise TypeError(f"{type(self).__name__} cannot be decoded")

    def encode(self, name: str, where: str) -> Iterator[str]:
        """Yield source lines that set the variables of `bodies` and every header field that the part owns."""
        raise TypeError(f"{type(self).__name__} cannot be encoded")

    def bodies(self, name: str) -> tuple[str, ...]:
        """Return the local variables that hold the encoded bytes, in order."""
        return (f"{name}_body",)

    def header_words(self) -> str | None:
        """Return the source of the part's size in words, or None where the header alone does not tell it.

        That of numbers, streams and words is C as well.
        """
        return None

    def tail_words(self) -> int | None:
        """Return the part's size in words, or None where it is not always the same."""
        return None


def _need(count: str, where: str) -> str:
    return f"if c + {count} > stop: raise short({where!r})"


@dataclass(frozen=True, slots=True)
class Header(Part):
    """A value in a header word.

    Attributes:
        field: the field of the header word.
        boolean: the value is a `bool`.
    """

    field: Field
    boolean: bool = False

    def decode(self, name: str, where: str) -> Iterator[str]:
        yield f"{name} = {self.field.name}_ != 0" if self.boolean else f"{name} = {self.field.name}_"

    def encode(self, name: str, where: str) -> Iterator[str]:
        yield f"{self.field.name}_ = {name}"

    def header_words(self) -> str:
        return "0"

    def tail_words(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Number(Part):
    """One 64-bit word.

    Attributes:
        kind: unsigned (`u`), signed (`i`) or a double (`f`).
        optional: present only if the record is long enough.
        tick: a time in ticks of the trace's clock.
        display: how people are shown the number.
    """

    kind: Literal["u", "i", "f"] = "u"
    optional: bool = False
    tick: bool = False
    display: Display = "decimal"

    def decode(self, name: str, where: str) -> Iterator[str]:
        value = {"u": "words[c]", "i": "as_signed(words[c])", "f": "as_double(words[c])"}[self.kind]
        if self.optional:
            yield f"{name} = {value} if c < stop else None"
            yield f"if {name} is not None: c += 1"
            return
        yield _need("1", where)
        yield f"{name} = {value}"
        yield "c += 1"

    def encode(self, name: str, where: str) -> Iterator[str]:
        put = f"put_{self.kind}64({name}, order, {where!r})"
        yield f"{name}_body = b'' if {name} is None else {put}" if self.optional else f"{name}_body = {put}"

    def header_words(self) -> str | None:
        return None if self.optional else "1"

    def tail_words(self) -> int:
        return 0 if self.optional else 1


@dataclass(frozen=True, slots=True)
class Stream(Part):
    """Bytes padded with zeros to a whole word, whose length a header field tells: text (`str`) or data (`bytes`).

    Attributes:
        size: the header field that holds the length in bytes.
        text: the bytes are UTF-8 text.
        max_bytes: the longest text that may be written; None for no limit but that of the header field.
    """

    size: str
    text: bool = False
    max_bytes: int | None = None

    @property
    def owns(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.size,)

    def decode(self, name: str, where: str) -> Iterator[str]:
        yield f"{name}, c = take_{'text' if self.text else 'bytes'}(data, c, {self.size}_, stop, {where!r})"

    def encode(self, name: str, where: str) -> Iterator[str]:
        limit = f", {self.max_bytes}" if self.text else ""
        yield f"{name}_body, {self.size}_ = put_{'text' if self.text else 'bytes'}({name}, {where!r}{limit})"

    def header_words(self) -> str:
        return f"(({self.size}_ + 7) >> 3)"


@dataclass(frozen=True, slots=True)
class Sized(Part):
    """A word with a length in bytes, then that many bytes, padded with zeros to a whole word."""

    def decode(self, name: str, where: str) -> Iterator[str]:
        yield _need("1", where)
        yield f"{name}, c = take_bytes(data, c + 1, words[c], stop, {where!r})"

    def encode(self, name: str, where: str) -> Iterator[str]:
        yield f"{name}_body, {name}_padding = put_view({name}, {where!r})"
        yield f"{name}_length = put_u64(len({name}_body), order, {where!r})"

    def bodies(self, name: str) -> tuple[str, ...]:
        return (f"{name}_length", f"{name}_body", f"{name}_padding")


@dataclass(frozen=True, slots=True)
class Words(Part):
    """Whole words, whose number a header field tells.

    Attributes:
        count: the header field that holds the number of words.
        display: how people are shown the words.
    """

    count: str
    display: Display = "decimal"

    @property
    def owns(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.count,)

    def decode(self, name: str, where: str) -> Iterator[str]:
        yield _need(f"{self.count}_", where)
        yield f"{name} = tuple(words[c:c + {self.count}_])"
        yield f"c += {self.count}_"

    def encode(self, name: str, where: str) -> Iterator[str]:
        yield f"{name}_body, {self.count}_ = put_words({name}, order, {where!r})"

    def header_words(self) -> str:
        return f"{self.count}_"


@dataclass(frozen=True, slots=True)
class Many(Part):
    """Small records in a row, such as arguments, whose number a header field tells.

    Attributes:
        union: the records that may be here.
        count: the header field that holds their number.
    """

    union: TaggedUnion
    count: str

    @property
    def owns(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.count,)

    def decode(self, name: str, where: str) -> Iterator[str]:
        yield "first = c"
        yield f"{name}, c = take_many({name}_union, words, data, c, stop, {self.count}_, faults, {where!r})"

    def encode(self, name: str, where: str) -> Iterator[str]:
        yield f"{self.count}_, {name}_body = put_many({name}, {name}_union, order, {where!r})"


@dataclass(frozen=True, slots=True)
class Rest(Part):
    """The words up to the end of the record, as bytes; None where the header's flag is not set.

    It has no numpy code: the formats that have it read such records in another way.

    Attributes:
        flag: the header field that tells whether there are any.
    """

    flag: str

    @property
    def owns(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.flag,)

    def decode(self, name: str, where: str) -> Iterator[str]:
        yield f"{name} = bytes(data[c * 8 : stop * 8]) if {self.flag}_ else None"
        yield "c = stop"

    def encode(self, name: str, where: str) -> Iterator[str]:
        yield f"{name}_body, {self.flag}_ = put_rest({name}, {where!r})"


Unsigned = Annotated[int, Number("u")]
"""A 64-bit unsigned word."""

Signed = Annotated[int, Number("i")]
"""A 64-bit two's complement word."""

Double = Annotated[float, Number("f")]
"""A double-precision word."""

Optional = Annotated[int | None, Number("u", optional=True)]
"""A 64-bit unsigned word that is present only if the record is long enough."""
