"""Python functions generated from record declarations: decode one record, encode one record.

`codec_of(cls)` generates them once per class.  The text is kept in `.source`, so that people and debuggers can read the
code that runs.  The helpers that it calls are below it in this file; they are the only hand-written scalar codec.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from fxtio.codec.integers import checked_integer, text_bytes
from fxtio.codec.parts import Many, Part
from fxtio.codec.record import SIZE, Layout, Opaque, Record, TaggedUnion, layout_of, once
from fxtio.errors import DecodeError, EncodeError, shown
from fxtio.report import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

Order = Literal["little", "big"]
Faults = list[tuple[str, str]]
"""Faults in a record that could still be decoded: rule and message of each."""

ARGUMENT_SIZE = "arg.size"
"""The rule that a small record in another one has a size that fits."""


@dataclass(frozen=True, slots=True)
class Codec:
    """Holds the two functions that are generated for a record class.

    Attributes:
        decode: of a record of words, `decode(words, data, at, stop, faults)`.  `words` are the trace's words as native
            ints, `data` the bytes they came from, `at` and `stop` the record's place in words.  Raises `DecodeError` if
            the record cannot be decoded; appends to `faults` what was wrong in one that can.
        encode: likewise, `encode(record, order="little", join=b"".join)` returns the record's bytes: what `join` makes
            of a tuple of buffers.  Raises `EncodeError`.
        source: the generated Python.
        scope: what it refers to, by name.
    """

    decode: Callable[..., Any]
    encode: Callable[..., bytes]
    source: str
    scope: dict[str, Any]


def compiled(source: str, filename: str, scope: dict[str, Any]) -> Codec:
    """Return the functions `decode` and `encode` of generated source, which debuggers find by its name.

    Args:
        source: the source.
        filename: the name in tracebacks.
        scope: what it refers to, by name; the functions are added.
    """
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), scope)
    return Codec(scope["decode"], scope["encode"], source, scope)


@once
def codec_of(cls: type[Record]) -> Codec:
    """Return the codec of a record class, generated on first use."""
    layout = layout_of(cls)
    source = f"{_decoder(layout)}\n\n\n{_encoder(layout)}\n"
    scope: dict[str, Any] = {"record": cls, **_HELPERS}
    for name, part in layout.parts:
        scope |= part.helpers
        if isinstance(part, Many):
            scope[f"{name}_union"] = part.union
    return compiled(source, f"<fxtio codec of {cls.__module__}.{cls.__name__}>", scope)


def _decoder(layout: Layout) -> str:
    lines = [f"w{n} = words[at{f' + {n}' if n else ''}]" for n in range(len(layout.words))]
    if len(layout.words) > 1:
        lines.insert(0, f"if at + {len(layout.words)} > stop: raise short({layout.name + '.header'!r})")
    lines += [f"{f.name}_ = {f.expression(f'w{n}')}" for n, f in layout.header_fields() if f.name != SIZE]
    for n, word in enumerate(layout.words):
        mask, value = word.pattern("const")
        if mask:
            lines.append(f"if w{n} & {mask:#x} != {value:#x}: raise unlike({layout.name!r})")
    for _, part in layout.parts:
        lines += part.prologue(layout)
    lines.append(f"c = at + {len(layout.words)}")
    for index, (name, part) in enumerate(layout.parts):
        lines += part.decode(name, f"{layout.name}.{name}")
        if isinstance(part, Many):
            lines += _relocate([later for _, later in layout.parts[index + 1 :]], f"{layout.name}.{name}")
    lines.append(f"return record({', '.join(name for name, _ in layout.parts)})")
    return "\n".join(["def decode(words, data, at, stop, faults):", *(f"    {line}" for line in lines)])


def _relocate(later: list[Part], where: str) -> Iterable[str]:
    """Yield source that, after small records with a fault, places the cursor by counting from the record's end."""
    sizes = [part.tail_words() for part in later]
    if None in sizes:
        yield f"if c < 0: raise broken({where!r})"
        return
    yield "if c < 0:"
    yield f"    c = {' - '.join(['stop', *(str(size) for size in sizes if size)])}"
    yield f"    if c < first: raise short({where!r})"


def _encoder(layout: Layout) -> str:
    lines: list[str] = []
    for name, part in layout.parts:
        lines.append(f"{name} = this.{name}")
        lines += part.encode(name, f"{layout.name}.{name}")
    bodies = [body for name, part in layout.body for body in part.bodies(name)]
    for (name, part), (later, following) in zip(layout.body, layout.body[1:], strict=False):
        if getattr(part, "optional", False) and getattr(following, "optional", False):
            lines.append(f"if {name} is None and {later} is not None: raise gap({f'{layout.name}.{name}'!r})")
    length = " + ".join(f"len({body})" for body in bodies)
    lines.append(f"{SIZE}_ = {len(layout.words)}" + (f" + ({length} >> 3)" if bodies else ""))
    for n, field in layout.header_fields():
        least, most = field.limits
        name = f"{field.name}_"
        check = f"isinstance({name}, int) and {least} <= {name} <= {most}"
        lines.append(f"if not ({check}): {name} = fitting(record, {n}, {field.name!r}, {name})")
    packed = []
    for n, word in enumerate(layout.words):
        terms = [f"{word.pattern('tag', 'const')[1]:#x}"]
        for field in word.fields.values():
            if field.role == "bits":
                inner = f"({field.name}_ & {field.mask:#x})" if field.signed else f"{field.name}_"
                terms.append(f"{inner} << {field.lo}" if field.lo else inner)
        lines.append(f"w{n} = {' | '.join(terms)}")
        packed.append(f"w{n}.to_bytes(8, order)")
    lines.append(f"return join(({', '.join([*packed, *bodies])},))")
    return "\n".join(["def encode(this, order='little', join=b''.join):", *(f"    {line}" for line in lines)])


# The helpers that the generated functions call.


def short(where: str) -> DecodeError:
    """Return the error for a record that ends before this part."""
    return DecodeError("framing.record-short", f"{where}: the record ends before it")


def broken(where: str) -> DecodeError:
    """Return the error for broken arguments with a part after them that cannot be found from the end."""
    return DecodeError(ARGUMENT_SIZE, f"{where}: what follows the broken arguments cannot be found")


def unlike(where: str) -> DecodeError:
    """Return the error for a constant field with another value."""
    return DecodeError("framing.magic-value", f"{where}: a constant field has another value")


def gap(where: str) -> EncodeError:
    """Return the error for an optional field after one that is absent."""
    return EncodeError("absent, but a later optional field is given", where)


def take_bytes(data: Any, c: int, length: int, end: int, where: str) -> tuple[bytes, int]:
    """Return a padded byte stream, and the cursor after its padding."""
    words = length + 7 >> 3
    if c + words > end:
        raise DecodeError("framing.stream-over-record", f"{where}: no room in the record for {counted(length, 'byte')}")
    return bytes(data[c * 8 : c * 8 + length]), c + words


def take_text(data: Any, c: int, length: int, end: int, where: str) -> tuple[str, int]:
    """Return a byte stream as text, and the cursor after it; bytes that are not UTF-8 become surrogate escapes."""
    raw, after = take_bytes(data, c, length, end, where)
    return raw.decode("utf-8", "surrogateescape"), after


def take_many(
    union: TaggedUnion, words: Sequence[int], data: Any, c: int, end: int, count: int, faults: Faults, where: str
) -> tuple[tuple[Any, ...], int]:
    """Decode `count` small records; return them, and the cursor after them or -1 if one of them has no usable size."""
    members: list[Any] = []
    for number in range(count):
        size = union.size_of(words[c]) if c < end else 0
        if size == 0 or c + size > end:
            fault = f"argument {number} of {count} has no room" if c >= end else f"argument {number} has size {size}"
            faults.append((ARGUMENT_SIZE, f"{where}: {fault}, {end - c} words are left"))
            return tuple(members), -1
        try:
            members.append(decode(union, words, data, c, c + size, faults))
        except DecodeError as error:
            faults.append(("arg.short", error.message))
        c += size
    return tuple(members), c


def decode(union: TaggedUnion, words: Sequence[int], data: Any, at: int, end: int, faults: Faults) -> Any:
    """Decode the record of `union` at the words `at` to `end`; one of an unknown type becomes `Opaque`.

    Raises:
        DecodeError: the record cannot be decoded.
    """
    kind = union.kind_of(words[at])
    if kind < 0:
        return Opaque(bytes(data[at * 8 : end * 8]))
    return codec_of(union.classes[kind]).decode(words, data, at, end, faults)


def encode(record: Record | Opaque, order: Order = "little") -> bytes:
    """Return the bytes of one record.

    Raises:
        EncodeError: the format cannot represent it.
    """
    if isinstance(record, Opaque):
        return _opaque(record, "record")
    return _encoder_of(type(record))(record, order)


def encode_buffers(record: Record | Opaque, order: Order = "little") -> Sequence[bytes | memoryview]:
    """Return the bytes of one record as buffers that follow each other; the payload of a large blob is not copied.

    Raises:
        EncodeError: the format cannot represent it.
    """
    if isinstance(record, Opaque):
        return (_opaque(record, "record"),)
    encoder: Callable[..., Any] = _encoder_of(type(record))
    buffers: Sequence[bytes | memoryview] = encoder(record, order, tuple)
    return buffers


@cache
def _encoder_of(cls: Any) -> Callable[..., bytes]:
    if not issubclass(cls, Record) or not cls.words:
        raise EncodeError(f"{cls.__name__} is not a record", "record")
    return codec_of(cls).encode


def _opaque(record: Opaque, where: str) -> bytes:
    raw: Any = record.raw
    if type(raw) is not bytes:
        raise EncodeError(f"{shown(raw)} is not bytes", where)
    if not raw or len(raw) % 8:
        raise EncodeError(f"raw bytes must be whole words, not {counted(len(raw), 'byte')}", where)
    return raw


def _put(form: str, words: str) -> Callable[[Any, Order, str], bytes]:
    little, big = struct.Struct("<" + form).pack, struct.Struct(">" + form).pack

    def put(value: Any, order: Order, where: str) -> bytes:
        try:
            return little(value) if order == "little" else big(value)
        except (struct.error, OverflowError, TypeError):
            raise EncodeError(f"{shown(value)} is not {words}", where) from None

    return put


put_u64 = _put("Q", "an unsigned 64-bit integer")
put_i64 = _put("q", "a signed 64-bit integer")
put_f64 = _put("d", "a number")


def view_of(value: Any, where: str) -> memoryview:
    """Return the bytes of any object that has the buffer protocol, without a copy.

    Raises:
        EncodeError: it has not, or its memory is not contiguous.
    """
    try:
        return memoryview(value).cast("B")
    except (TypeError, ValueError):
        raise EncodeError(f"{type(value).__name__} does not hold contiguous bytes", where) from None


def put_bytes(value: Any, where: str) -> tuple[bytes, int]:
    """Return a padded byte stream, and its length in bytes."""
    if type(value) is not bytes:
        value = bytes(view_of(value, where))
    return value + bytes(-len(value) % 8), len(value)


def put_view(value: Any, where: str) -> tuple[memoryview, bytes]:
    """Return a byte stream without a copy, and its padding."""
    view = view_of(value, where)
    return view, bytes(-len(view) % 8)


def put_rest(value: Any, where: str) -> tuple[bytes, int]:
    """Return whole words as bytes, and 1 if the record has any, else 0."""
    if value is None:
        return b"", 0
    raw = bytes(view_of(value, where))
    if len(raw) % 8:
        raise EncodeError(f"not whole words, but {counted(len(raw), 'byte')}", where)
    return raw, 1


def put_words(values: Any, order: Order, where: str) -> tuple[bytes, int]:
    """Return unsigned words as bytes, and their number."""
    if not isinstance(values, tuple | list):
        raise EncodeError(f"{shown(values)} is not a tuple of integers", where)
    return b"".join([put_u64(value, order, where) for value in values]), len(values)


def put_text(value: Any, where: str, limit: int | None) -> tuple[bytes, int]:
    """Return text as a padded byte stream, and its length in bytes; `limit` is the longest length allowed."""
    raw = text_bytes(value, where)
    if limit is not None and len(raw) > limit:
        raise EncodeError(f"{len(raw):,} bytes of text are over the limit of {limit:,}", where)
    return put_bytes(raw, where)


def put_many(values: Any, union: TaggedUnion, order: Order, where: str) -> tuple[int, bytes]:
    """Return the number of small records, and their bytes."""
    if not isinstance(values, tuple | list):
        raise EncodeError(f"{shown(values)} is not a tuple", where)
    bodies = []
    for number, value in enumerate(values):
        if type(value) in union.members:
            bodies.append(codec_of(type(value)).encode(value, order))
            continue
        here = f"{where}[{number}]"
        if type(value) is not Opaque:
            raise EncodeError(f"{type(value).__name__} cannot be here", here)
        raw = _opaque(value, here)
        if union.size_of(int.from_bytes(raw[:8], order)) * 8 != len(raw):
            raise EncodeError("raw bytes do not have the size that their header states", here)
        bodies.append(raw)
    return len(bodies), b"".join(bodies)


def fitting(record: type[Record], word: int, field: str, value: object) -> int:
    """Return a value that is not an `int` that fits a header field, such as an integer of numpy, as one that does.

    Raises:
        EncodeError: the header field does not take it.
    """
    declared, where = record.words[word].fields[field], f"{record.__name__}.{field}"
    if field == SIZE and isinstance(value, int) and value > declared.mask:
        message = f"{value:,} words are over the limit of {declared.mask:,}"
        raise EncodeError(f"{message}; an inline text takes words, a slot takes none", where)
    if isinstance(value, int):
        raise EncodeError(declared.refusal(value), where)
    return checked_integer(value, where, *declared.limits)


def _as_signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _as_double(word: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<Q", word))[0]
    return value


_HELPERS: dict[str, Any] = {
    function.__name__.removeprefix("_"): function
    for function in (
        short, broken, unlike, gap, fitting, _as_signed, _as_double, take_bytes, take_text, take_many, put_bytes,
        put_view, put_words, put_rest, put_text, put_many,
    )
}  # fmt: skip
_HELPERS |= {"put_u64": put_u64, "put_i64": put_i64, "put_f64": put_f64}
