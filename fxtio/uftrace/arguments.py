"""Payloads: the values behind an entry or an exit, packed as an argument specification says.

Each value is padded to 4 bytes, the whole to 8.  uftrace does not write the padding as zeros.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

from fxtio.errors import DecodeError, EncodeError
from fxtio.uftrace.argspec import LONGEST, Value, Values

Order = Literal["little", "big"]

NULL = b"\xff\xff\xff\xff"
"""What old versions of uftrace wrote for a null pointer to a string; readers still know it."""

LONGEST_TEXT = LONGEST - 2
SEED = int.from_bytes(os.urandom(8), "little")
"""Makes the kernel's hashes such as no trace can foresee."""

STRING = -1
"""The step of a program that stands for a string, see `fxtio._native.python.walk_payloads`."""

_SIGNED = "di"
_EXPONENT_BIAS, _MANTISSA = 16383, 63


@cache
def program(values: Values) -> tuple[int, ...]:
    """The sizes of the values, as the kernel takes them."""
    steps = (STRING if value.is_text else value.size for value in values)
    return (*(step for step in steps if step), 0)


def decode(values: Values, payload: bytes, order: Order = "little") -> list[Any]:
    """The values of a payload.

    Args:
        values: what it holds.
        payload: the bytes.
        order: the byte order.

    Returns:
        `int`, `float`, `str` (text, and characters), `bytes` (structures), None for a null string.

    Raises:
        DecodeError: it is too short for them.
    """
    found: list[Any] = []
    at = 0
    for value in values:
        size = value.size
        if value.is_text:
            size = int.from_bytes(payload[at : at + 2], order)
            at += 2
        raw = payload[at : at + size]
        if len(raw) < size or (value.is_text and at > len(payload)):
            raise DecodeError("payload-short", f"{value.label} does not fit in {len(payload)} bytes of payload")
        found.append(_decoded(value, raw, order))
        at += size
        at += -at % 4
    return found


def _decoded(value: Value, raw: bytes, order: Order) -> Any:
    if value.is_text:
        return None if raw == NULL else raw.decode("utf-8", "surrogateescape")
    if value.format == "t":
        return raw
    if value.format == "c":
        return raw.decode("latin-1")
    if value.format == "f":
        return _float(raw, order)
    return int.from_bytes(raw, order, signed=value.format in _SIGNED)


def _float(raw: bytes, order: Order) -> float:
    sign = "<" if order == "little" else ">"
    if len(raw) == 10:
        raw = raw if order == "little" else raw[::-1]
        mantissa, upper = struct.unpack("<QH", raw)
        return extended(mantissa, upper)
    number: float = struct.unpack(sign + {4: "f", 8: "d"}[len(raw)], raw)[0]
    return number


def extended(mantissa: int, upper: int) -> float:
    """An 80-bit number of x87 as a double; infinite where a double is too small for it."""
    negative, exponent = divmod(upper, 1 << 15)
    if exponent == (1 << 15) - 1:
        number = float("inf") if mantissa in (0, 1 << _MANTISSA) else float("nan")
    else:
        try:
            number = float(mantissa) * 2.0**-_MANTISSA * 2.0 ** (exponent - _EXPONENT_BIAS)
        except OverflowError:
            number = float("inf")
    return -number if negative else number


def encode(values: Values, given: Sequence[Any], order: Order = "little") -> bytes:
    """The payload of some values, padded with zeros.

    Raises:
        EncodeError: a value does not fit its specification.
    """
    if len(values) != len(given):
        raise EncodeError(f"{len(given)} values are given, {len(values)} are specified")
    made = b""
    for value, one in zip(values, given, strict=True):
        made += _encoded(value, one, order)
        made += bytes(-len(made) % 4)
    if len(made) > LONGEST:
        raise EncodeError(f"a payload of {len(made)} bytes is over the limit of {LONGEST}")
    return made + bytes(-len(made) % 8)


def _encoded(value: Value, given: Any, order: Order) -> bytes:
    """One value's bytes."""
    try:
        if value.is_text:
            raw = NULL if given is None else given.encode("utf-8", "surrogateescape")
            return len(raw).to_bytes(2, order) + raw
        if value.format == "t":
            raw = bytes(given)
        elif value.format == "c":
            raw = given.encode("latin-1") if isinstance(given, str) else given.to_bytes(1, order)
        elif value.format == "f":
            raw = _float_bytes(float(given), value.size, order)
        else:
            raw = _integer_bytes(given, value, order)
    except (AttributeError, TypeError, ValueError, OverflowError, struct.error):
        raise EncodeError(f"{given!r} is not what {value} says", value.label) from None
    if len(raw) != value.size:
        raise EncodeError(f"{given!r} takes {len(raw)} bytes, not {value.size}", value.label)
    return raw


def _integer_bytes(given: Any, value: Value, order: Order) -> bytes:
    if not isinstance(given, int):
        raise TypeError
    signed = given < 0 or value.format == "i"
    if value.format == "d" and given > 0 and given.bit_length() == value.size * 8:
        signed = False
    raw: bytes = given.to_bytes(value.size, order, signed=signed)
    return raw


def _float_bytes(given: float, size: int, order: Order) -> bytes:
    sign = "<" if order == "little" else ">"
    if size != 10:
        return struct.pack(sign + {4: "f", 8: "d"}[size], given)
    raw = struct.pack("<QH", *_split_extended(given))
    return raw if order == "little" else raw[::-1]


def _split_extended(given: float) -> tuple[int, int]:
    """The mantissa, and the exponent with the sign, of an 80-bit number."""
    bits: int = struct.unpack("<Q", struct.pack("<d", given))[0]
    upper, fraction = divmod(bits, 1 << 52)
    negative, exponent = divmod(upper, 1 << 11)
    sign = negative * (1 << 15)
    if exponent == 2047:
        return (1 << 63) + fraction * (1 << 11), sign + (1 << 15) - 1
    if given == 0:
        return 0, sign
    numerator, denominator = abs(given).as_integer_ratio()
    exponent = numerator.bit_length() - denominator.bit_length()
    if numerator * 1 < denominator * 2**exponent if exponent >= 0 else numerator * 2**-exponent < denominator:
        exponent -= 1
    shift = _MANTISSA - exponent
    mantissa = numerator * 2**shift // denominator if shift >= 0 else numerator // (denominator * 2**-shift)
    return mantissa, sign + exponent + _EXPONENT_BIAS
