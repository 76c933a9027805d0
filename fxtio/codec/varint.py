"""LEB128: numbers of seven bits a byte, the lowest first, of at most 64 bits; unsigned, or signed in two's complement.

What these functions write is the shortest form.  They read longer ones too, but never more than ten bytes.
"""

from __future__ import annotations

from typing import Any

from fxtio.errors import DecodeError, EncodeError

MAX_BYTES = 10
"""So many bytes hold any 64-bit number."""

U64 = (1 << 64) - 1


def take_uleb(data: Any, c: int, end: int, where: str) -> tuple[int, int]:
    """An unsigned number and the cursor behind it.

    Args:
        data: the bytes.
        c: where the number begins.
        end: where the data end.
        where: what is read, for messages.

    Raises:
        DecodeError: the data end within the number (`event-cut`), or it has more than 64 bits (`varint-too-long`).
    """
    value = shift = 0
    while c < end:
        byte = data[c]
        c += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > U64:
                break
            return value, c
        shift += 7
        if shift == 7 * MAX_BYTES:
            break
    else:
        raise DecodeError("event-cut", f"{where}: the data end within a number")
    raise DecodeError("varint-too-long", f"{where}: a number of more than 64 bits")


def take_sleb(data: Any, c: int, end: int, where: str) -> tuple[int, int]:
    """A signed number and the cursor behind it, see `take_uleb`."""
    value = shift = 0
    while c < end:
        byte = data[c]
        c += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if shift > 64 and byte not in (0x00, 0x7F):
                break
            value &= U64
            sign = 1 << min(shift, 64) - 1
            return (value ^ sign) - sign, c
        if shift == 7 * MAX_BYTES:
            break
    else:
        raise DecodeError("event-cut", f"{where}: the data end within a number")
    raise DecodeError("varint-too-long", f"{where}: a number of more than 64 bits")


def put_uleb(value: Any, where: str) -> bytes:
    """The shortest form of an unsigned number.

    Raises:
        EncodeError: it is not one of 64 bits.
    """
    if not isinstance(value, int) or not 0 <= value <= U64:
        raise EncodeError(f"{value!r} is not an unsigned 64-bit integer", where)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def put_sleb(value: Any, where: str) -> bytes:
    """The shortest form of a signed number.

    Raises:
        EncodeError: it is not one of 64 bits.
    """
    if not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
        raise EncodeError(f"{value!r} is not a signed 64-bit integer", where)
    out = bytearray()
    while not -64 <= value < 64:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value & 0x7F)
    return bytes(out)
