"""Columns of JSON as arrays: lists of numbers, of which any may be something else; and numbers by themselves."""

from __future__ import annotations

import re
from decimal import Context, Decimal
from typing import Any

import msgspec
import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import as_double
from fxtio.table import MAX_TIME

NOTHING, EMPTY = msgspec.Raw(b""), msgspec.Raw(b"[]")
"""A value that is missing, and an empty array."""

ROWS = 50_000
"""The rows that are decoded at once."""

EXACT = Context(prec=60, traps=[])
"""How decimals are computed with, whatever the program has chosen for its own."""

_NUMBER = re.compile(rb'"?([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"?')
_TOO_LARGE = 2.0**64
"""Larger numbers are read as this one, which is too large for everything."""


def integers(values: list[Any]) -> Array:
    """Return values of JSON as integers (int64), -1 for what is none."""
    return np.array([each if type(each) is int and -1 <= each <= MAX_TIME else -1 for each in values], np.int64)


def numbers(values: list[Any]) -> Array:
    """Return values of JSON as numbers (float64), NaN for what is none; those that are too large are limited."""
    nothing = float("nan")
    return np.clip(
        [each if type(each) is float else as_double(each) if type(each) is int else nothing for each in values],
        -_TOO_LARGE,
        _TOO_LARGE,
    )


def as_decimal(text: bytes) -> Decimal | None:
    """Return a number, or a string of one; None for what is no finite number."""
    found = _NUMBER.fullmatch(text)
    try:
        number = None if found is None else Decimal(found[1].decode())
    except ArithmeticError:  # its exponent is beyond all limits
        return None
    return number if number is not None and number.is_finite() else None


def at_each(values: Array, places: Array) -> Array:
    """Return the values at places, -1 for a place that does not exist."""
    exists = (places >= 0) & (places < len(values))
    if not exists.any():
        return np.full(len(places), -1, values.dtype)
    return np.where(exists, values[np.where(exists, places, 0)], -1)
