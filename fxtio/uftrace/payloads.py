"""Payloads: the values that follow an entry or exit record, laid out by its argument specifications.

Each value is padded to 4 bytes, the whole payload to 8.  uftrace does not fill the padding with zeros.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from fxtio.codec.generate import Order
from fxtio.codec.integers import checked_integer, limits_of
from fxtio.errors import DecodeError, EncodeError
from fxtio.report import counted
from fxtio.uftrace.argspec import MAX_PAYLOAD, ValueSpec, ValueSpecs
from fxtio.uftrace.directory import text_bytes

NULL = b"\xff\xff\xff\xff"
"""The bytes that old versions of uftrace wrote for a null pointer to a string; readers still accept them."""

STRING = -1
"""The step of a payload program for a string, see `fxtio._native.python.walk_payloads`."""

SIGNED = "die"
"""The letters of the formats of signed integers."""

_EXPONENT_BIAS, _MANTISSA = 16383, 63


@cache
def program(values: ValueSpecs) -> tuple[int, ...]:
    """Return the sizes of the values as a program for `fxtio._native.walk_payloads`."""
    steps = (STRING if value.is_text else value.size for value in values)
    return (*(step for step in steps if step), 0)


def parts(specs: ValueSpecs, payload: bytes, order: Order) -> Iterator[tuple[ValueSpec, bytes]]:
    """Yield the specification and the bytes of each value of a payload; those of a string are without its length.

    Raises:
        DecodeError: the payload is too short.
    """
    at = 0
    for spec in specs:
        size = spec.size
        if spec.is_text:
            size = int.from_bytes(payload[at : at + 2], order)
            at += 2
        raw = payload[at : at + size]
        if len(raw) < size or (spec.is_text and at > len(payload)):
            raise DecodeError(
                "record.payload-unknown", f"{spec.label} goes beyond the payload of {counted(len(payload), 'byte')}"
            )
        yield spec, raw
        at += size
        at += -at % 4


def decode(specs: ValueSpecs, payload: bytes, order: Order = "little") -> list[Any]:
    """Decode the values of a payload.

    Args:
        specs: the specifications of the values.
        payload: the bytes.
        order: the byte order.

    Returns:
        `int`, `float`, `str` (strings and characters), `bytes` (structures), None for a null string.

    Raises:
        DecodeError: the payload is too short.
    """
    return [_decode_value(spec, raw, order) for spec, raw in parts(specs, payload, order)]


def _decode_value(spec: ValueSpec, raw: bytes, order: Order) -> Any:
    if spec.is_text:
        return None if raw == NULL else raw.decode("utf-8", "surrogateescape")
    if spec.format == "t":
        return raw
    if spec.format == "c":
        return raw.decode("latin-1")
    if spec.format == "f":
        return decode_float(raw, order)
    return int.from_bytes(raw, order, signed=spec.format in SIGNED)


def decode_float(raw: bytes, order: Order) -> float:
    """Decode a floating-point number of 4, 8 or 10 bytes."""
    prefix = "<" if order == "little" else ">"
    if len(raw) == 10:
        raw = raw if order == "little" else raw[::-1]
        mantissa, upper = struct.unpack("<QH", raw)
        return extended(mantissa, upper)
    number: float = struct.unpack(prefix + {4: "f", 8: "d"}[len(raw)], raw)[0]
    return number


def extended(mantissa: int, upper: int) -> float:
    """Return an 80-bit number of the x87 as a double, infinite if it is too large for one."""
    negative, exponent = divmod(upper, 1 << 15)
    if exponent == (1 << 15) - 1:
        number = float("inf") if mantissa in (0, 1 << _MANTISSA) else float("nan")
    else:
        try:
            number = float(mantissa) * 2.0**-_MANTISSA * 2.0 ** (exponent - _EXPONENT_BIAS)
        except OverflowError:
            number = float("inf")
    return -number if negative else number


def encode(specs: ValueSpecs, values: Sequence[Any], order: Order = "little") -> bytes:
    """Encode values as a payload, padded with zeros.

    Raises:
        EncodeError: a value does not fit its specification.
    """
    if len(specs) != len(values):
        raise EncodeError(f"{counted(len(values), 'value')} given, {len(specs)} specified")
    raw = b""
    for spec, value in zip(specs, values, strict=True):
        raw += _encode_value(spec, value, order)
        raw += bytes(-len(raw) % 4)
    if len(raw) > MAX_PAYLOAD:
        raise EncodeError(f"a payload of {len(raw)} bytes is over the limit of {MAX_PAYLOAD}")
    return raw + bytes(-len(raw) % 8)


def _encode_value(spec: ValueSpec, value: Any, order: Order) -> bytes:
    try:
        if spec.is_text:
            raw = NULL if value is None else text_bytes(value, spec.label)
            if raw == NULL and value is not None:
                raise ValueError
            return len(raw).to_bytes(2, order) + raw
        if spec.format == "t":
            raw = bytes(memoryview(value))
        elif spec.format == "c":
            raw = value.encode("latin-1") if isinstance(value, str) else _encode_integer(value, spec, order)
        elif spec.format == "f":
            raw = _encode_float(value, spec.size, order)
        else:
            raw = _encode_integer(value, spec, order)
    except EncodeError:
        raise
    except (AttributeError, TypeError, ValueError, OverflowError, struct.error):
        raise EncodeError(f"{value!r} does not fit {spec}", spec.label) from None
    if len(raw) != spec.size:
        raise EncodeError(f"{value!r} takes {counted(len(raw), 'byte')}, not {spec.size}", spec.label)
    return raw


def _encode_integer(value: Any, spec: ValueSpec, order: Order) -> bytes:
    signed = spec.format in SIGNED
    return checked_integer(value, spec.label, *limits_of(spec.size, signed=signed)).to_bytes(
        spec.size, order, signed=signed
    )


def _encode_float(value: Any, size: int, order: Order) -> bytes:
    if isinstance(value, str | bytes):  # a text such as "1.5" is no number
        raise TypeError
    value = float(value)
    prefix = "<" if order == "little" else ">"
    if size != 10:
        return struct.pack(prefix + {4: "f", 8: "d"}[size], value)
    raw = struct.pack("<QH", *_split_extended(value))
    return raw if order == "little" else raw[::-1]


def _split_extended(value: float) -> tuple[int, int]:
    """Return the mantissa, and the exponent with the sign, of the 80-bit number equal to a double."""
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    upper, fraction = divmod(bits, 1 << 52)
    sign = upper // (1 << 11) * (1 << 15)
    if not math.isfinite(value):
        return (1 << _MANTISSA) + fraction * (1 << 11), sign + (1 << 15) - 1
    if value == 0:
        return 0, sign
    significand, exponent = math.frexp(abs(value))  # the significand is from 0.5 to below 1
    return int(math.ldexp(significand, _MANTISSA + 1)), sign + exponent - 1 + _EXPONENT_BIAS
