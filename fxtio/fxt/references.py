"""The body parts that only this format has: references to strings and to threads.

A reference is a slot of a table of the provider, or the string or thread itself, inline in the record's body.
`reference_columns` has the numpy code for the same parts; this module must not import numpy, since the tracer uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from fxtio.codec.generate import Order, put_u64
from fxtio.codec.parts import Part
from fxtio.errors import EncodeError, shown
from fxtio.fxt.layout import MAX_TEXT_BYTES, StringRefWord

if TYPE_CHECKING:
    from fxtio.codec.record import Layout

_EXTENSION = "fxtio.fxt.reference_columns"
_INDEX, _INLINE = StringRefWord.fields["index"], StringRefWord.fields["inline"]
_LAST = _INDEX.mask


class Thread(msgspec.Struct, frozen=True, gc=False, order=True):
    """A process and a thread by their koids.

    Attributes:
        process: the process koid.
        thread: the thread koid; None where a profiler record or an object record has only the process.
    """

    process: int
    thread: int | None


def put_string_slot(value: Any, where: str) -> int:
    """Return a slot of the string table, checked.

    Raises:
        EncodeError: it is not a slot.
    """
    if type(value) is not int or not 0 <= value <= _LAST:
        raise EncodeError(f"{shown(value)} is neither text nor an index from 0 to {_LAST}", where)
    return value


def put_thread(value: Any, order: Order, where: str, process_only: bool, thread_is_optional: bool) -> tuple[int, bytes]:
    """Return a slot of the thread table (0 for an inline thread), and the bytes of the inline koids.

    Raises:
        EncodeError: the value is neither a slot nor a `Thread`, or its thread koid must or must not be there.
    """
    if type(value) is int:
        if value == 0:
            raise EncodeError("slot 0 means inline; give a Thread", where)
        return value, b""
    if not isinstance(value, Thread):
        raise EncodeError(f"{shown(value)} is neither a slot nor a Thread", where)
    process = put_u64(value.process, order, where)
    if value.thread is None:
        if not thread_is_optional:
            raise EncodeError("the thread koid is missing", where)
        return 0, process
    if process_only:
        raise EncodeError("only a process koid fits here", where)
    return 0, process + put_u64(value.thread, order, where)


@dataclass(frozen=True, slots=True)
class StringReference(Part):
    """A slot of the string table (0 is the empty string), or a length and the text inline.  spec: String references

    Attributes:
        ref: the header field that holds the reference, a `StringRefWord`.
    """

    ref: str
    helpers: ClassVar[Mapping[str, object]] = MappingProxyType({"put_string_slot": put_string_slot})
    extension: ClassVar[str] = _EXTENSION

    @property
    def owns(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.ref,)

    def header_words(self) -> str:
        return f"({_INDEX.expression(f'{self.ref}_')} + 7 >> 3 if {_INLINE.expression(f'{self.ref}_')} else 0)"

    def decode(self, name: str, where: str) -> Iterator[str]:
        yield f"{name} = {self.ref}_"
        yield f"if {_INLINE.expression(name)}:"
        yield f"    {name} = {_INDEX.expression(name)}"
        yield f"    {name}, c = take_text(data, c, {name}, stop, {where!r})"

    def encode(self, name: str, where: str) -> Iterator[str]:
        yield f"if type({name}) is str:"
        yield f"    {name}_body, {self.ref}_ = put_text({name}, {where!r}, {MAX_TEXT_BYTES})"
        yield f"    {self.ref}_ |= {_INLINE.put(1):#x}"
        yield "else:"
        yield f"    {self.ref}_, {name}_body = put_string_slot({name}, {where!r}), b''"


@dataclass(frozen=True, slots=True)
class ThreadReference(Part):
    """A slot of the thread table, or 0 and the koids inline.  spec: Thread references

    Attributes:
        ref: the header field that holds the slot.
        process_only: the inline form has only a process koid (userspace objects).
        short_form: the inline form may have only a process koid, as real producers write it; the record's size tells.
    """

    ref: str
    process_only: bool = False
    short_form: bool = False
    helpers: ClassVar[Mapping[str, object]] = MappingProxyType({"Thread": Thread, "put_thread": put_thread})
    extension: ClassVar[str] = _EXTENSION

    @property
    def owns(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.ref,)

    def header_words(self) -> str | None:
        return None if self.short_form else f"({1 if self.process_only else 2} if {self.ref}_ == 0 else 0)"

    def short_size(self, layout: Layout) -> str:
        """Return source for the size in words of a record whose inline thread is only a process koid."""
        others = [part.header_words() for _, part in layout.parts if part is not self]
        return " + ".join([str(len(layout.words)), "1", *(size for size in others if size and size != "0")])

    def prologue(self, layout: Layout) -> Iterator[str]:
        if self.short_form:
            yield f"short_size = {self.short_size(layout)}"

    def decode(self, name: str, where: str) -> Iterator[str]:
        yield f"{name} = {self.ref}_"
        yield f"if {name} == 0:"
        both = [f"if c + 2 > stop: raise short({where!r})", f"{name} = Thread(words[c], words[c + 1])", "c += 2"]
        alone = [f"if c + 1 > stop: raise short({where!r})", f"{name} = Thread(words[c], None)", "c += 1"]
        if self.short_form:
            yield "    if stop - at == short_size:"
            yield from (f"        {line}" for line in alone)
            yield "    else:"
            yield from (f"        {line}" for line in both)
        else:
            yield from (f"    {line}" for line in (alone if self.process_only else both))

    def encode(self, name: str, where: str) -> Iterator[str]:
        optional = self.process_only or self.short_form
        yield f"{self.ref}_, {name}_body = put_thread({name}, order, {where!r}, {self.process_only}, {optional})"
