"""The body parts that records are made of.

A record's annotations carry these.  A part knows which header fields it owns (a reference, a size, a count), and writes
the Python source that takes it out of a record and puts it back; `generate` joins the pieces.  `columns` holds the same
parts' numpy side, `describe` their words for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fxtio.codec.record import Family
    from fxtio.codec.word import Field, Word

MAX_TEXT = 32_000
"""The longest string, in bytes, that may be written.  spec: String references"""


class Thread(msgspec.Struct, frozen=True, gc=False, order=True):
    """A process and a thread by their koids.

    Attributes:
        process: the process koid.
        thread: the thread koid; None where a profiler record carries only the process.
    """

    process: int
    thread: int | None


class Part:
    """One piece of a record's body."""

    owns: tuple[str, ...] = ()
    "The header fields that this part derives when it is written."

    def decode(self, name: str, where: str) -> Iterator[str]:
        """Source lines that set the local variable `name` and move the cursor `c`."""
        raise TypeError(f"{type(self).__name__} cannot be decoded")

    def encode(self, name: str, where: str) -> Iterator[str]:
        """Source lines that set `<name>_body` to bytes and every header field that the part owns."""
        raise TypeError(f"{type(self).__name__} cannot be encoded")

    def header_words(self) -> str | None:
        """Source of the part's size in words, where the header alone tells it."""
        return None

    def tail_words(self) -> int | None:
        """The part's size in words, where it is always the same."""
        return None


def _need(count: str, where: str) -> str:
    return f"if c + {count} > stop: raise short({where!r})"


@dataclass(frozen=True, slots=True)
class Header(Part):
    """A value that lies in a header word."""

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
        optional: there when the record has room.
        tick: a moment of the provider's clock.
    """

    kind: Literal["u", "i", "f"] = "u"
    optional: bool = False
    tick: bool = False

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
class Koids(Part):
    """A thread reference: a slot of the thread table, or 0 and the koids inline.

    Attributes:
        ref: the header field that holds the slot.
        process_only: the inline form has only a process koid (userspace objects).
        short_form: real producers also leave out the thread koid; the record's size tells.
    """

    ref: str
    process_only: bool = False
    short_form: bool = False

    @property
    def owns(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.ref,)

    def decode(self, name: str, where: str) -> Iterator[str]:
        yield f"{name} = {self.ref}_"
        yield f"if {name} == 0:"
        if self.process_only:
            yield f"    {_need('1', where)}"
            yield f"    {name} = Thread(words[c], None)"
            yield "    c += 1"
            return
        if self.short_form:
            yield "    if stop - at == short_size:"
            yield f"        {_need('1', where)}"
            yield f"        {name} = Thread(words[c], None)"
            yield "        c += 1"
            yield "    else:"
            yield f"        {_need('2', where)}"
            yield f"        {name} = Thread(words[c], words[c + 1])"
            yield "        c += 2"
            return
        yield f"    {_need('2', where)}"
        yield f"    {name} = Thread(words[c], words[c + 1])"
        yield "    c += 2"

    def encode(self, name: str, where: str) -> Iterator[str]:
        may_lack = self.process_only or self.short_form
        yield f"{self.ref}_, {name}_body = put_koids({name}, order, {where!r}, {self.process_only}, {may_lack})"


@dataclass(frozen=True, slots=True)
class Text(Part):
    """A string reference: a slot of the string table (0 is the empty string), or a length and the bytes inline.

    Attributes:
        ref: the header field that holds the reference.
        form: the word that tells the two apart; its fields are `index` (or length) and `inline`.
    """

    ref: str
    form: type[Word]

    @property
    def owns(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.ref,)

    def decode(self, name: str, where: str) -> Iterator[str]:
        flag, length = self.form.fields["inline"], self.form.fields["index"]
        yield f"{name} = {self.ref}_"
        yield f"if {flag.expression(name)}:"
        yield f"    {name} = {length.expression(name)}"
        yield f"    {name}, c = take_text(data, c, {name}, stop, {where!r})"

    def encode(self, name: str, where: str) -> Iterator[str]:
        flag, length = self.form.fields["inline"], self.form.fields["index"]
        yield f"if type({name}) is str:"
        yield f"    {name}_body, {self.ref}_ = put_text({name}, {where!r})"
        yield f"    {self.ref}_ |= {1 << flag.lo:#x}"
        yield "else:"
        yield f"    {self.ref}_, {name}_body = put_index({name}, {length.mask:#x}, {where!r}), b''"


@dataclass(frozen=True, slots=True)
class Stream(Part):
    """Bytes whose length the header tells, padded with zeros to a whole word: text (`str`) or data (`bytes`)."""

    size: str
    text: bool = False

    @property
    def owns(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.size,)

    def decode(self, name: str, where: str) -> Iterator[str]:
        yield f"{name}, c = take_{'text' if self.text else 'bytes'}(data, c, {self.size}_, stop, {where!r})"

    def encode(self, name: str, where: str) -> Iterator[str]:
        yield f"{name}_body, {self.size}_ = put_{'text' if self.text else 'bytes'}({name}, {where!r})"

    def header_words(self) -> str:
        return f"({self.size}_ + 7 >> 3)"


@dataclass(frozen=True, slots=True)
class Sized(Part):
    """A word with a length in bytes, then that many bytes, padded with zeros to a whole word."""

    def decode(self, name: str, where: str) -> Iterator[str]:
        yield _need("1", where)
        yield f"{name}, c = take_bytes(data, c + 1, words[c], stop, {where!r})"

    def encode(self, name: str, where: str) -> Iterator[str]:
        yield f"{name}_body, {name}_size = put_bytes({name}, {where!r})"
        yield f"{name}_body = put_u64({name}_size, order, {where!r}) + {name}_body"


@dataclass(frozen=True, slots=True)
class Words(Part):
    """Some whole words, counted in the header."""

    count: str

    @property
    def owns(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.count,)

    def decode(self, name: str, where: str) -> Iterator[str]:
        yield _need(f"{self.count}_", where)
        yield f"{name} = tuple(words[c:c + {self.count}_])"
        yield f"c += {self.count}_"

    def encode(self, name: str, where: str) -> Iterator[str]:
        yield f"{self.count}_ = len({name})"
        yield f"{name}_body = b''.join([put_u64(one, order, {where!r}) for one in {name}])"

    def header_words(self) -> str:
        return f"{self.count}_"


@dataclass(frozen=True, slots=True)
class Many(Part):
    """Some records of another family (arguments), counted in the header."""

    family: Family
    count: str

    @property
    def owns(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.count,)

    def decode(self, name: str, where: str) -> Iterator[str]:
        yield "first = c"
        yield f"{name}, c = take_many({name}_family, words, data, c, stop, {self.count}_, faults, {where!r})"

    def encode(self, name: str, where: str) -> Iterator[str]:
        yield f"{self.count}_, {name}_body = put_many({name}, {name}_family, order, {where!r})"


@dataclass(frozen=True, slots=True)
class Rest(Part):
    """Whatever is left of the record, as whole words of bytes; None where the header's flag is not set.

    Attributes:
        flag: the header field that says whether there is anything.
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
"""A 64-bit unsigned word that is there when the record has room for it."""
