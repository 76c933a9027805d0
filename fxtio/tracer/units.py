"""Sizes and times as people write them."""

from __future__ import annotations

import re

_SIZES = {"": 1, "b": 1, "k": 1000, "kb": 1000, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9}
_SIZES |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_TIMES = {"": 1, "ns": 1, "us": 1000, "µs": 1000, "ms": 10**6, "s": 10**9}
_WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]*)\s*", re.IGNORECASE)


def size_in_bytes(size: str | int) -> int:
    """Bytes in `64MiB`, `1.5 GB` or a number.

    Raises:
        ValueError: it is no size.
    """
    return _parsed(size, _SIZES, "a size such as 64MiB")


def time_in_ns(time: str | int) -> int:
    """Nanoseconds in `10us`, `1.5 ms` or a number of nanoseconds.

    Raises:
        ValueError: it is no time.
    """
    return _parsed(time, _TIMES, "a time such as 10us")


def _parsed(given: str | int, units: dict[str, int], wanted: str) -> int:
    if isinstance(given, int):
        if given < 0:
            raise ValueError(f"{given} is not {wanted}")
        return given
    match = _WRITTEN.fullmatch(given)
    unit = units.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError(f"{given!r} is not {wanted}")
    return round(float(match[1]) * unit)
