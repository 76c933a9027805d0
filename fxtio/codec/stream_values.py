"""What the generated functions of byte streams call: values taken from bytes and put into them, and what is refused."""

from __future__ import annotations

import struct
from typing import Any

from fxtio.codec.varint import put_sleb, put_uleb, take_sleb, take_uleb
from fxtio.errors import DecodeError, EncodeError

_BYTES = [bytes([value]) for value in range(256)]


def cut(where: str) -> DecodeError:
    """The data end before a value."""
    return DecodeError("event-cut", f"{where}: the data end before it")


def beyond(where: str, count: int, left: int) -> DecodeError:
    """A count that cannot be."""
    return DecodeError("count-beyond-end", f"{where}: {count:,} items do not fit in {left:,} bytes")


def unknown(where: str, value: int) -> DecodeError:
    """A value whose form nobody knows."""
    return DecodeError("unknown-form", f"{where}: nobody knows the form of a value of type {value}")


def take_byte(data: bytes, c: int, end: int, where: str) -> tuple[int, int]:
    """A byte and the cursor behind it."""
    if c >= end:
        raise cut(where)
    return data[c], c + 1


def take_double(data: bytes, c: int, end: int, where: str) -> tuple[float, int]:
    """A double and the cursor behind it."""
    if c + 8 > end:
        raise cut(where)
    return struct.unpack_from("<d", data, c)[0], c + 8


def take_text(data: bytes, c: int, end: int, where: str) -> tuple[str, int]:
    """A text and the cursor behind its zero byte; what is not UTF-8 becomes surrogate escapes."""
    stop = data.find(0, c, end)
    if stop < 0:
        raise DecodeError("text-without-end", f"{where}: no zero byte ends the text")
    return data[c:stop].decode("utf-8", "surrogateescape"), stop + 1


def take_marked_text(data: bytes, c: int, end: int, where: str) -> tuple[str | None, int]:
    """Likewise with a byte before it; None if that is 0."""
    if c >= end:
        raise cut(where)
    if data[c] > 1:
        raise DecodeError("unknown-form", f"{where}: the byte before a text is {data[c]}, not 0 or 1")
    return take_text(data, c + 1, end, where) if data[c] else (None, c + 1)


def whole(value: Any, most: int, where: str) -> int:
    """A number from 0 on, checked."""
    if not isinstance(value, int) or not 0 <= value <= most:
        raise EncodeError(f"{value!r} is not an integer from 0 to {most:#x}", where)
    return value


def aligned(value: int, shift: int, where: str) -> int:
    """An address in units of 2 to the power of `shift`."""
    if value % (1 << shift):
        raise EncodeError(f"{value:#x} is not a multiple of {1 << shift}", where)
    return value >> shift


def signed(difference: int, mask: int) -> int:
    """A difference of addresses, wrapped to the size of an address."""
    half = (mask >> 1) + 1
    return (difference + half & mask) - half


def put_byte(value: Any, where: str) -> bytes:
    """A byte."""
    return _BYTES[whole(value, 0xFF, where)]


def put_double(value: Any, where: str) -> bytes:
    """A double."""
    try:
        return struct.pack("<d", value)
    except (struct.error, OverflowError):
        raise EncodeError(f"{value!r} is not a number", where) from None


def put_text(value: Any, where: str) -> bytes:
    """A text and its zero byte."""
    if type(value) is not str:
        raise EncodeError(f"{value!r} is no text", where)
    if "\0" in value:
        raise EncodeError("text with a zero byte, which would end it", where)
    try:
        return value.encode("utf-8", "surrogateescape") + b"\0"
    except UnicodeEncodeError:
        raise EncodeError("holds a lone surrogate, which no text has", where) from None


def put_marked_text(value: Any, where: str) -> bytes:
    """Likewise with a byte before it that says whether there is any."""
    return b"\0" if value is None else b"\1" + put_text(value, where)


def misfit(where: str, value: object) -> EncodeError:
    """A value that has no meaning there."""
    return EncodeError(f"{value!r} cannot be said", where)


def absent(where: str, version: float) -> EncodeError:
    """A field that the version does not have."""
    return EncodeError(f"version {version} does not have it; give None", where)


def untimed(where: str, version: float) -> EncodeError:
    """A time where the version has none."""
    return EncodeError(f"version {version} has no time here; give that of the record before", where)


def unasked(where: str) -> EncodeError:
    """A field that only stands with other values of another field."""
    return EncodeError("does not stand in a record like this; give None", where)


def listless(where: str, value: object) -> EncodeError:
    """Something else than a tuple of items."""
    return EncodeError(f"{value!r} cannot stand here", where)


HELPERS: dict[str, Any] = {
    one.__name__: one
    for one in (
        take_byte, take_uleb, take_sleb, take_double, take_text, take_marked_text, beyond, unknown, put_byte,
        put_uleb, put_sleb, put_double, put_text, put_marked_text, whole, aligned, signed, misfit, absent, untimed,
        unasked, listless,
    )
}  # fmt: skip
