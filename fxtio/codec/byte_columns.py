"""Columns of byte strings: numbers as text or varints for all rows at once, and rows put together from columns.

An exporter of a text format makes a column for each part of its lines, and one call joins them.  No work is done in
Python for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from fxtio import _native
from fxtio.arrays import Array


@dataclass(slots=True)
class ByteColumn:
    """A byte string for each row: a range of one buffer.  Of a column with one row, this stands for all rows of others.

    Attributes:
        data: the buffer (uint8).
        start: where each string begins (int64).
        size: its bytes (int64).
    """

    data: Array
    start: Array
    size: Array

    @classmethod
    def of(cls, strings: Iterable[bytes]) -> ByteColumn:
        """Return strings as a column."""
        listed = list(strings)
        size = np.fromiter(map(len, listed), np.int64, len(listed))
        return cls(np.frombuffer(b"".join(listed), np.uint8), np.cumsum(size) - size, size)

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Array) -> ByteColumn:
        """Return the strings with these indices, or those where a mask is true."""
        return ByteColumn(self.data, self.start[rows], self.size[rows])

    def spread(self, rows: Array, count: int) -> ByteColumn:
        """Return a column of that many rows, of which these (int64) have the strings; the others have empty ones."""
        start, size = np.zeros((2, count), np.int64)
        start[rows], size[rows] = self.start, self.size
        return ByteColumn(self.data, start, size)

    def grouped(self, rows: Array, count: int) -> ByteColumn:
        """Return a column of that many rows, in which each has several strings of this one, which follow each other.

        Args:
            rows: the row of each string (int64), ascending.
            count: how many rows there are.
        """
        bounds = np.searchsorted(rows, np.arange(count + 1))
        ends = np.concatenate([[0], self.start + self.size])[bounds]
        return ByteColumn(self.data, ends[:-1], np.diff(ends))

    def strings(self) -> list[bytes]:
        """Return the strings."""
        data = self.data.tobytes()
        ends = (self.start + self.size).tolist()
        return [data[start:end] for start, end in zip(self.start.tolist(), ends, strict=True)]


def joined(count: int, *columns: ByteColumn | bytes) -> ByteColumn:
    """Put the rows of columns together: each gets the strings of all columns, in their order.

    Args:
        count: the number of rows.
        columns: columns of that many rows, or strings for all rows.

    Returns:
        A column whose strings follow each other: its `data` are all rows.
    """
    parts = [ByteColumn.of([each]) if isinstance(each, bytes) else each for each in columns]
    size = sum_of_sizes(count, *parts)
    out, ends = np.empty(int(size.sum()), np.uint8), np.empty(count, np.int64)
    _native.interleave(out, ends, *(array for each in parts for array in (each.data, each.start, each.size)))
    return ByteColumn(out, ends - size, size)


def sum_of_sizes(count: int, *columns: ByteColumn) -> Array:
    """Return the sizes of rows that are put together from columns (int64)."""
    size = np.zeros(count, np.int64)
    for each in columns:
        size += each.size
    return size


class ByteTable:
    """Byte strings by number, each computed once.

    Args:
        make: returns the string of a number.
        missing: the string of -1.
    """

    def __init__(self, make: Callable[[int], bytes], missing: bytes = b"") -> None:
        self._make = make
        self._missing = missing
        self._data = np.frombuffer(missing, np.uint8).copy()
        self._ends = np.array([len(missing)])
        self._count = 0
        self._filled = len(missing)

    def rows(self, numbers: Array) -> ByteColumn:
        """Return the strings of numbers (from -1 on)."""
        highest = int(numbers.max(initial=-1))
        if highest >= self._count:
            self._extend(highest + 1)
        places = numbers.astype(np.int64)  # the string of -1 is the first one
        ends = self._ends
        start = np.where(places < 0, 0, ends[places])
        return ByteColumn(self._data, start, ends[places + 1] - start)

    def _extend(self, count: int) -> None:
        new = ByteColumn.of(map(self._make, range(self._count, count)))
        self._data = _room(self._data, self._filled, len(new.data))
        self._data[self._filled : self._filled + len(new.data)] = new.data
        ends = _room(self._ends, self._count + 1, len(new))
        ends[self._count + 1 : count + 1] = self._filled + np.cumsum(new.size)
        self._ends, self._count = ends, count
        self._filled += len(new.data)


def _room(array: Array, filled: int, more: int) -> Array:
    """Return an array with the same first items, and with room for that many more."""
    if filled + more <= len(array):
        return array
    longer = np.empty(max(filled + more, 2 * len(array)), array.dtype)
    longer[:filled] = array[:filled]
    return longer


# Numbers.

_POWERS = 10 ** np.arange(1, 20, dtype=np.uint64)
_GROUP = 4  # this many characters are looked up at once


def _groups(base: int) -> Array:
    """Return the four digits, with leading zeros, of each number below base^4, as one uint32 each."""
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    places = base ** np.arange(_GROUP - 1, -1, -1)
    return digits[np.arange(base**_GROUP)[:, None] // places % base].view(np.uint32)[:, 0]


_DIGITS = _groups(10)
_HEX = _groups(16)
_THOUSANDTHS = _DIGITS[:1000].copy()
_THOUSANDTHS.view(np.uint8)[::_GROUP] = ord(".")


def decimals(values: Array) -> ByteColumn:
    """Return integers (int64 or uint64) in decimal."""
    return _decimals(values, None)


def thousandths(values: Array) -> ByteColumn:
    """Return integers (int64, not negative) divided by 1000, with three decimals."""
    whole = values // 1000
    return _decimals(whole, _THOUSANDTHS[values - whole * 1000])


def _decimals(values: Array, after: Array | None) -> ByteColumn:
    """Return integers in decimal, each with four more characters after it."""
    rest = np.abs(values).astype(np.uint64)
    is_negative = values < 0
    digits = len(str(rest.max(initial=0)))
    size = np.ones(len(values), np.int64)
    for power in _POWERS[: digits - 1]:
        size += rest >= power
    groups = -(-digits // _GROUP)
    width = groups + 1 + (after is not None)  # the first group has the sign
    table = np.empty((len(values), width), np.uint32)
    for group in range(groups, 0, -1):
        higher = rest // np.uint64(10_000)
        table[:, group] = _DIGITS[rest - higher * np.uint64(10_000)]
        rest = higher
    if after is not None:
        table[:, -1] = after
        size += _GROUP
    end = np.arange(1, len(values) + 1) * (width * _GROUP)
    data = table.reshape(-1).view(np.uint8)
    if is_negative.any():
        size += is_negative
        data[(end - size)[is_negative]] = ord("-")
    return ByteColumn(data, end - size, size)


def hexadecimals(values: Array, *, width: int = 0) -> ByteColumn:
    """Return integers (uint64) in hexadecimal, with this many digits (up to 16) or as many as needed."""
    shifts = np.array([48, 32, 16, 0], np.uint64)
    data = _HEX[values[:, None] >> shifts & np.uint64(0xFFFF)].reshape(-1).view(np.uint8)
    steps = np.uint64(1) << np.arange(4, 64, 4, dtype=np.uint64)
    size = np.maximum(np.searchsorted(steps, values, "right") + 1, width)
    return ByteColumn(data, np.arange(1, len(values) + 1) * 16 - size, size)
