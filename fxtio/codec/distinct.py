"""Distinct values of a column: a number for each, by a hash that nobody outside can foresee, and the rows of each."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np

from fxtio import _native
from fxtio.arrays import Array, ranges
from fxtio.codec.columns import StreamColumn

_SEED = secrets.randbits(63)  # a file cannot be made whose values collide


def number_distinct(values: Array) -> tuple[Array, Array]:
    """Number the distinct values in the order in which they come.

    Args:
        values: integers.

    Returns:
        The number of the value of each row (int32), and the first row of each distinct value (int64).
    """
    codes, first = np.empty(len(values), np.int32), np.empty(len(values), np.int64)
    count = _native.distinct(np.ascontiguousarray(values, np.uint64), codes, first, _SEED)
    return codes, first[:count]


def number_rows(columns: Sequence[Array]) -> tuple[Array, Array]:
    """Number the distinct rows of columns in the order in which they come.

    Args:
        columns: integers, at least one column; all are as long as the first.

    Returns:
        The number of each row (int32), and the first of each distinct row (int64).
    """
    codes, first = number_distinct(columns[0])
    for column in columns[1:]:
        of_column, _ = number_distinct(column)
        codes, first = number_distinct((codes.astype(np.int64) << 32) | of_column)
    return codes, first


def number_texts(data: bytes | Array, begin: Array, end: Array) -> tuple[Array, Array]:
    """Number the distinct texts in the order in which they come.

    Args:
        data: has the texts (bytes, or uint8).
        begin: where each begins (int32).
        end: where each ends (int32).

    Returns:
        The number of each text (int32), and the first row of each distinct text (int64).
    """
    codes, first = np.empty(len(begin), np.int32), np.empty(len(begin), np.int64)
    count = _native.distinct_texts(data, begin, end, codes, first, _SEED)
    return codes, first[:count]


def hash_texts(data: bytes, begin: Array, end: Array) -> Array:
    """Return a number for each text (uint64): the same for equal texts, and for others only by chance.

    Args:
        data: has the texts.
        begin: where each begins (int32).
        end: where each ends (int32).
    """
    size = end - begin
    is_usual = (size >= 8) & (size <= _USUAL)
    hashes = np.empty(len(begin), np.uint64)
    words = np.ndarray(max(len(data) - 7, 0), "<u8", data, strides=(1,))  # those that begin at each byte
    for length in np.unique(size[is_usual]).tolist():
        rows = np.flatnonzero(size == length)
        result = np.full(len(rows), _SEED ^ length, np.uint64)
        for at in (*range(0, length - 8, 8), length - 8):
            result = (result ^ words[begin[rows] + at]) * _MULTIPLIER
            result ^= result >> np.uint64(29)
        hashes[rows] = result
    others = np.flatnonzero(~is_usual)
    places = zip(begin[others].tolist(), end[others].tolist(), strict=True)
    hashes[others] = [hash(bytes(data[first:last])) % (1 << 64) for first, last in places]
    return hashes


def rows_of_each(values: Array) -> list[tuple[int, Array]]:
    """Return the distinct values (ascending integers), each with the rows that hold it (int64, ascending).

    The cost does not depend on how many distinct values there are.
    """
    if not len(values):
        return []
    if int(values.min()) == int(values.max()):
        return [(int(values[0]), np.arange(len(values)))]
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    distinct = [int(values[order[0]]), *ordered[starts].tolist()]
    return list(zip(distinct, np.split(order, starts), strict=True))


_USUAL = 64  # bytes of texts that are hashed together
_FEW = 32  # streams for which hashing does not pay
GOLDEN_RATIO = 0x9E37_79B9_7F4A_7C15
"""That of 64 bits: a product with it scatters numbers."""

_MULTIPLIER = np.uint64(GOLDEN_RATIO)


class DistinctStrings:
    """All distinct strings of a reading.

    Attributes:
        values: the strings by code; code 0 is the empty string.
        size: the sum of their lengths in characters.
    """

    def __init__(self) -> None:
        self.size = 0
        self.values: list[str] = [""]
        self._codes: dict[str, int] = {"": 0}
        self._objects: Array = np.empty(0, object)

    def code(self, text: str) -> int:
        """Return the code of a string, a new one if the string is new."""
        code = self._codes.setdefault(text, len(self.values))
        if code == len(self.values):
            self.values.append(text)
            self.size += len(text)
        return code

    def only(self, codes: Array) -> DistinctStrings:
        """Return a new object with only these strings, in the order of their codes, and the empty string."""
        subset = DistinctStrings()
        for code in codes.tolist():
            subset.code(self.values[code])
        return subset

    def objects(self) -> Array:
        """Return the strings as an array of objects; one more at the end, None, stands for the code -1."""
        if len(self._objects) != len(self.values) + 1:
            self._objects = np.array([*self.values, None], object)
        return self._objects

    def codes(self, stream: StreamColumn) -> Array:
        """Return the codes of many byte streams (int32).  Bytes that are not UTF-8 become surrogate escapes."""
        number: Array | slice = slice(None)
        if len(stream.at) > _FEW:
            words = (stream.length + 7) // 8
            begin = ((np.cumsum(words) - words) * 8).astype(np.int32)
            data = stream.raw.take(ranges(stream.at, words)).view(np.uint8)
            number, first = number_texts(data, begin, begin + stream.length.astype(np.int32))
            stream = stream.take(first)
        texts = [raw.decode("utf-8", "surrogateescape") for raw in stream.to_bytes()]
        return np.array([self.code(text) for text in texts], np.int32)[number]
