"""Sizes and times as people write them."""

from __future__ import annotations

import re

from fxtio.errors import shown

_SIZES = {"": 1, "b": 1, "k": 1000, "kb": 1000, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9}
_SIZES |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_TIMES = {"ns": 1, "us": 1000, "µs": 1000, "ms": 10**6, "s": 10**9}
_TOO_LARGE = 1 << 60
"""What is not a size or a time any more: an exbibyte, 36 years.  The recorder counts in 64 bits, times in ticks."""

_NUMBER_AND_UNIT = r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]*)\s*"


def size_in_bytes(size: str | int) -> int:
    """Return the bytes in `64MiB`, `1.5 GB` or a number of bytes.

    Raises:
        ValueError: it is not a size, or too large.
        TypeError: it is neither a text nor an integer.
    """
    return _parse(size, _SIZES, "a size such as 64MiB")


def time_in_ns(time: str | int) -> int:
    """Return the nanoseconds in a text such as `10us` or `1.5 ms`, or in an integer, a number of nanoseconds.

    A text without a unit is refused: some commands took it for seconds, others for nanoseconds.

    Raises:
        ValueError: it is not a time, or too large.
        TypeError: it is neither a text nor an integer.
    """
    return _parse(time, _TIMES, "a time such as 10us")


def time_as_text(ns: int) -> str:
    """Return a time in nanoseconds as people read it: `2.35 s`, `350 ms`."""
    return f"{ns / 1e9:,.2f} s" if ns >= 10**9 else f"{ns / 1e6:.3g} ms"


def _parse(text: str | int, units: dict[str, int], expected: str) -> int:
    if isinstance(text, int):
        if not 0 <= text < _TOO_LARGE:
            raise ValueError(f"{shown(text)} is {'not' if text < 0 else 'too large for'} {expected}")
        return text
    if not isinstance(text, str):
        raise TypeError(f"{shown(text)} is not {expected}")
    match = re.fullmatch(_NUMBER_AND_UNIT, text, re.IGNORECASE)
    if match is not None and not match[2] and not float(match[1]):
        return 0
    unit = units.get(match[2].lower()) if match else None
    if match is None or unit is None:
        reason = f": its unit is missing, one of {', '.join(units)}" if match and not match[2] else ""
        raise ValueError(f"{shown(text)} is not {expected}{reason}")
    number = float(match[1]) * unit
    if number >= _TOO_LARGE:
        raise ValueError(f"{shown(text)} is too large for {expected}")
    return round(number)
