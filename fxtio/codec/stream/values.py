"""Single values of byte streams, both ways: the helpers that the generated functions call.

`take_NAME(data, offset, end, where)` returns a value and the offset after it, and raises `DecodeError`.
`put_NAME(value, where)` returns the bytes of a value and raises `EncodeError`.  `where` is the field, for messages.
LEB128 numbers have seven bits a byte, the lowest first, and at most 64 bits; they are written in the shortest form, and
read in any form of up to ten bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from fxtio.codec.integers import MAX_INT64, MAX_UINT64, MIN_INT64, text_bytes
from fxtio.codec.protobuf import varint
from fxtio.errors import DecodeError, EncodeError
from fxtio.report import counted

MAX_LEB128_BYTES = 10
"""The most bytes of a 64-bit number."""


_BYTES = [bytes([value]) for value in range(256)]


def _cut(where: str) -> DecodeError:
    return DecodeError("event.cut", f"{where}: the data end before it")


def take_uleb(data: Any, offset: int, end: int, where: str) -> tuple[int, int]:
    """Read an unsigned LEB128 number.

    Args:
        data: the bytes.
        offset: where the number begins.
        end: where the data end.
        where: what is read, for messages.

    Returns:
        The number, and the offset after it.

    Raises:
        DecodeError: the data end within the number (`event.cut`), or it has more than 64 bits (`event.varint`).
    """
    value = shift = 0
    while offset < end:
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > MAX_UINT64:
                break
            return value, offset
        shift += 7
        if shift == 7 * MAX_LEB128_BYTES:
            break
    else:
        raise DecodeError("event.cut", f"{where}: the data end within a number")
    raise DecodeError("event.varint", f"{where}: a number of more than 64 bits")


def take_sleb(data: Any, offset: int, end: int, where: str) -> tuple[int, int]:
    """Read a signed LEB128 number, see `take_uleb`."""
    value = shift = 0
    while offset < end:
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if shift > 64 and byte not in (0x00, 0x7F):
                break
            value &= MAX_UINT64
            sign = 1 << min(shift, 64) - 1
            return (value ^ sign) - sign, offset
        if shift == 7 * MAX_LEB128_BYTES:
            break
    else:
        raise DecodeError("event.cut", f"{where}: the data end within a number")
    raise DecodeError("event.varint", f"{where}: a number of more than 64 bits")


def take_byte(data: bytes, offset: int, end: int, where: str) -> tuple[int, int]:
    """Read a byte."""
    if offset >= end:
        raise _cut(where)
    return data[offset], offset + 1


def _fixed(size: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the functions that read and write an unsigned little-endian number of `size` bytes."""

    def take(data: bytes, offset: int, end: int, where: str) -> tuple[int, int]:
        after = offset + size
        if after > end:
            raise _cut(where)
        return int.from_bytes(data[offset:after], "little"), after

    def put(value: Any, where: str) -> bytes:
        return whole(value, (1 << 8 * size) - 1, where).to_bytes(size, "little")

    return take, put


def take_double(data: bytes, offset: int, end: int, where: str) -> tuple[float, int]:
    """Read a double."""
    if offset + 8 > end:
        raise _cut(where)
    return struct.unpack_from("<d", data, offset)[0], offset + 8


def take_text(data: bytes, offset: int, end: int, where: str) -> tuple[str, int]:
    """Read a text up to its zero byte; bytes that are not UTF-8 become surrogate escapes."""
    (begin, size), after = take_text_place(data, offset, end, where)
    return data[begin : begin + size].decode("utf-8", "surrogateescape"), after


def take_text_place(data: bytes, offset: int, end: int, where: str) -> tuple[tuple[int, int], int]:
    """Read a text as `take_text` does, but give its offset and its size in bytes."""
    stop = data.find(0, offset, end)
    if stop < 0:
        raise DecodeError("event.text-end", f"{where}: no zero byte ends the text")
    return (offset, stop - offset), stop + 1


def take_marked_text(data: bytes, offset: int, end: int, where: str) -> tuple[str | None, int]:
    """Read a text with a byte before it; None if that byte is 0."""
    place, after = take_marked_text_place(data, offset, end, where)
    if place is None:
        return None, after
    return data[place[0] : sum(place)].decode("utf-8", "surrogateescape"), after


def take_marked_text_place(data: bytes, offset: int, end: int, where: str) -> tuple[tuple[int, int] | None, int]:
    """Read a text as `take_marked_text` does, but give its offset and its size in bytes."""
    if offset >= end:
        raise _cut(where)
    if data[offset] > 1:
        raise DecodeError("event.unknown-form", f"{where}: the byte before a text is {data[offset]}, not 0 or 1")
    return take_text_place(data, offset + 1, end, where) if data[offset] else (None, offset + 1)


def take_sized_text(data: bytes, offset: int, end: int, where: str) -> tuple[str | None, int]:
    """Read a text with its size before it, without the zero byte at its end; None for size 0."""
    (begin, size), after = take_sized_text_place(data, offset, end, where)
    raw = bytes(data[begin:after])
    return (raw.removesuffix(b"\0").decode("utf-8", "surrogateescape") if size else None), after


def take_sized_text_place(data: bytes, offset: int, end: int, where: str) -> tuple[tuple[int, int], int]:
    """Read a text as `take_sized_text` does, but give its offset and its size in bytes, with the zero byte."""
    size, offset = TAKE_FIXED[4](data, offset, end, where)
    if size > end - offset:
        raise DecodeError("event.cut", f"{where}: a text of {counted(size, 'byte')}, but {end - offset:,} left")
    return (offset, size), offset + size


def whole(value: Any, most: int, where: str) -> int:
    """Return the value if it is an integer from 0 to `most`.

    Raises:
        EncodeError: it is not.
    """
    if not isinstance(value, int) or not 0 <= value <= most:
        raise EncodeError(f"{value!r} is not an integer from 0 to {most:#x}", where)
    return value


def aligned(value: int, shift: int, where: str) -> int:
    """Return an address in units of 2 to the power of `shift`.

    Raises:
        EncodeError: it is no multiple of the unit.
    """
    if value % (1 << shift):
        raise EncodeError(f"{value:#x} is not a multiple of {1 << shift}", where)
    return value >> shift


def signed(difference: int, mask: int) -> int:
    """Return a difference of addresses, wrapped to the size of an address."""
    half = (mask >> 1) + 1
    return (difference + half & mask) - half


def put_uleb(value: Any, where: str) -> bytes:
    """Return the shortest LEB128 form of an unsigned number of up to 64 bits."""
    if not isinstance(value, int) or not 0 <= value <= MAX_UINT64:
        raise EncodeError(f"{value!r} is not an unsigned 64-bit integer", where)
    return varint(value)


def put_sleb(value: Any, where: str) -> bytes:
    """Return the shortest LEB128 form of a signed number of up to 64 bits."""
    if not isinstance(value, int) or not MIN_INT64 <= value <= MAX_INT64:
        raise EncodeError(f"{value!r} is not a signed 64-bit integer", where)
    out = bytearray()
    while not -64 <= value < 64:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value & 0x7F)
    return bytes(out)


def put_byte(value: Any, where: str) -> bytes:
    """Return a byte."""
    return _BYTES[whole(value, 0xFF, where)]


def put_double(value: Any, where: str) -> bytes:
    """Return the bytes of a double."""
    try:
        return struct.pack("<d", value)
    except (struct.error, OverflowError):
        raise EncodeError(f"{value!r} is not a number", where) from None


def put_text(value: Any, where: str) -> bytes:
    """Return the bytes of a text and its zero byte."""
    raw = text_bytes(value, where)
    if 0 in raw:
        raise EncodeError("text with a zero byte, which would end it", where)
    return raw + b"\0"


def put_marked_text(value: Any, where: str) -> bytes:
    """Return a byte that says whether there is a text, and the text."""
    return b"\0" if value is None else b"\1" + put_text(value, where)


def put_sized_text(value: Any, where: str) -> bytes:
    """Return the size of a text in four bytes, and the text with its zero byte; of None only a size of 0."""
    raw = b"" if value is None else text_bytes(value, where) + b"\0"
    size: bytes = PUT_FIXED[4](len(raw), where)
    return size + raw


def count_beyond_end(where: str, count: int, left: int) -> DecodeError:
    """Return the error about a count of more items than there are bytes."""
    return DecodeError("event.count", f"{where}: {counted(count, 'item')} in {counted(left, 'byte')}")


def unknown_form(where: str, value: int) -> DecodeError:
    """Return the error about a value whose encoding is not known."""
    return DecodeError("event.unknown-form", f"{where}: the encoding of values of type {value} is not known")


def misfit(where: str, value: object) -> EncodeError:
    """Return the error about a value that has no meaning in its field."""
    return EncodeError(f"{value!r} has no meaning here", where)


def not_a_list(where: str, value: object) -> EncodeError:
    """Return the error about something other than a tuple of items."""
    return EncodeError(f"{value!r} is not a tuple of items of this list", where)


_SIZES = (2, 4, 8)
TAKE_FIXED: dict[int, Callable[..., Any]] = {size: _fixed(size)[0] for size in _SIZES}
PUT_FIXED: dict[int, Callable[..., Any]] = {size: _fixed(size)[1] for size in _SIZES}

HELPERS: dict[str, Any] = {
    function.__name__: function
    for function in (
        take_byte, take_uleb, take_sleb, take_double, take_text, take_marked_text, take_sized_text, count_beyond_end,
        unknown_form, put_byte, put_uleb, put_sleb, put_double, put_text, put_marked_text, put_sized_text, whole,
        aligned, signed, misfit, not_a_list, EncodeError,
    )
}  # fmt: skip
HELPERS |= {f"take_fixed{size}": take for size, take in TAKE_FIXED.items()}
HELPERS |= {f"put_fixed{size}": put for size, put in PUT_FIXED.items()}
"""The functions that generated functions call, by name."""

COLUMN_HELPERS = HELPERS | {
    "take_text": take_text_place,
    "take_marked_text": take_marked_text_place,
    "take_sized_text": take_sized_text_place,
    "take_double": TAKE_FIXED[8],
}
"""Helpers that give texts by place and doubles by their bits, as columns hold them."""
