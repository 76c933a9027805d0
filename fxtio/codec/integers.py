"""The limits of integers of the usual widths, and the checks of integers and texts that users give to writers."""

from __future__ import annotations

import math
import operator
from typing import Any

from fxtio.errors import EncodeError, shown

MAX_INT32 = (1 << 31) - 1
MAX_INT64 = (1 << 63) - 1
MIN_INT64 = -1 << 63
MAX_UINT64 = (1 << 64) - 1
"""The greatest number that any format has."""


def limits_of(size: int, *, signed: bool) -> tuple[int, int]:
    """Return the least and the greatest integer of that many bytes."""
    half = 1 << 8 * size - 1
    return (-half, half - 1) if signed else (0, 2 * half - 1)


def as_double(value: float) -> float:
    """Return a number as a double; an integer that is too large for one as infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def checked_integer(value: Any, field: str, least: int = 0, most: int | None = MAX_UINT64) -> int:
    """Return a value as an `int`: an `int` or whatever else stands for one, such as an integer of numpy.

    Args:
        value: the value.
        field: what it is for, such as `Record.field` or the name of an argument.
        least: the least that fits.
        most: the most that fits; None for no limit.

    Raises:
        EncodeError: it is not an integer (True and False are not), or does not fit; names the field and the value.
    """
    number: int = value
    if type(value) is not int:
        try:
            number = operator.index(value)
        except TypeError:
            raise EncodeError(f"{shown(value)} is not an integer", field) from None
        if isinstance(value, bool):
            raise EncodeError(f"{shown(value)} is not an integer", field)
    if number < least or (most is not None and number > most):
        limits = f"at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise EncodeError(f"{shown(number)} is not {limits}", field)
    return number


def text_bytes(text: Any, where: str) -> bytes:
    """Return text as UTF-8; surrogate escapes become the bytes that they stand for.

    Raises:
        EncodeError: it is not text, or it has another lone surrogate.
    """
    if not isinstance(text, str):
        raise EncodeError(f"{shown(text)} is not text", where)
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise EncodeError("holds a lone surrogate, which no text has", where) from None
