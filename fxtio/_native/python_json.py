"""The kernels for JSON and for texts in Python, see `fxtio._native.python`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NoReturn

import numpy as np

from fxtio.arrays import Array

_SPACES = re.compile(r"[ \t\r\n]*")
_BETWEEN = re.compile(r"[ \t\r\n,]*")
_DECIMAL = re.compile(rb'("?)([0-9]+)(?:\.([0-9]+))?\1')
_LIMIT, _MOST_DIGITS = (1 << 63) - 8, 20


def walk_objects(data: bytes | bytearray | memoryview, names: Array, ends: Array, places: Array) -> tuple[int, int]:
    """Walk JSON objects, and note where they and the values of some members are.

    Args:
        data: objects with commas and spaces between them; without names, any values that a comma or a bracket follows.
        names: the names of the members, one after the other (uint8).
        ends: where each name ends (int64).
        places: filled with where each object begins and ends, then with the same of the value of each member, zeros if
            it is missing; of several with one name, the last one counts (int32, of shape (1 + members, 2, rows)).

    Returns:
        The number of objects, and where the last one ends.  The walk stops before an object that is not JSON, that
        the data cut off, or whose keys have escapes; it may stop before one that is nested hundreds of levels deep.

    Raises:
        ValueError: lengths differ, or there are more than 2^31 - 1 bytes.
    """
    encoded, begins = names.tobytes(), [0, *ends.tolist()]
    numbers = {encoded[a:b].decode("latin-1"): at for at, (a, b) in enumerate(pairwise(begins), 1)}
    text = bytes(data).decode("latin-1")  # a character for each byte
    count = used = 0
    while count < places.shape[2]:
        begin = _end(_BETWEEN, text, used)
        try:
            row, end = (_members if numbers else _listed)(text, begin, numbers)
        except (ValueError, IndexError, RecursionError, StopIteration):
            break
        places[:, :, count] = 0
        for number, place in row.items():
            places[number, :, count] = place
        used, count = end, count + 1
    return count, used


def walk_arrays(
    data: bytes | bytearray | memoryview,
    begin: Array,
    end: Array,
    names: Array,
    ends: Array,
    places: Array,
    arrays: Array,
) -> tuple[int, int]:
    """Note where each object in JSON arrays starts and ends, and the same for the values of some of its members.

    Args:
        data: has the arrays.
        begin: where each array begins, with its bracket (int32).
        end: where each array ends, after its bracket (int32).
        names: the names of the members, at least one, see `walk_objects`.
        ends: likewise.
        places: filled likewise, for all objects.
        arrays: filled with the array of each object (int64).

    Returns:
        The number of arrays, and of the objects in them.  The walk stops before an array with something that
        `walk_objects` stops before, or for whose objects there are not enough rows.

    Raises:
        ValueError: lengths differ, there are more than 2^31 - 1 bytes, or an array is not within the data.
    """
    count = 0
    for array, (first, last) in enumerate(zip((begin + 1).tolist(), (end - 1).tolist(), strict=True)):
        inner = bytes(data[first:last])
        found = places[:, :, count:].copy()
        rows, used = walk_objects(inner, names, ends, found)
        if inner[used:].strip(b" \t\r\n,"):
            return array, count
        places[:, :, count : count + rows] = np.where(found[:, 1:] > 0, found + first, 0)[:, :, :rows]
        arrays[count : count + rows] = array
        count += rows
    return len(begin), count


def _members(text: str, at: int, numbers: dict[str, int]) -> tuple[dict[int, tuple[int, int]], int]:
    """Return the places of an object and of its members, and where it ends.

    Raises:
        ValueError, IndexError, RecursionError, StopIteration: it is none, or has keys with escapes.
    """
    result: dict[int, tuple[int, int]] = {}
    start, at = at, _end(_SPACES, text, _expect(text, at, "{"))
    while text[at] != "}" or result:
        begin = _expect(text, at, '"')
        key, at = json.decoder.scanstring(text, begin)  # type: ignore[attr-defined]
        if at - begin != len(key) + 1:
            raise ValueError("an escape")
        begin = _end(_SPACES, text, _expect(text, _end(_SPACES, text, at), ":"))
        _, at = _JSON.scan_once(text, begin)  # type: ignore[attr-defined]
        result[numbers.get(key, 0)] = begin, at
        at = _end(_SPACES, text, at)
        if text[at] == "}":
            break
        at = _end(_SPACES, text, _expect(text, at, ","))
    return {**result, 0: (start, at + 1)}, at + 1


def _listed(text: str, at: int, _: dict[str, int]) -> tuple[dict[int, tuple[int, int]], int]:
    """Return the place of a value, and where it ends.

    Raises:
        ValueError, IndexError, RecursionError, StopIteration: it is none, or neither a comma nor a bracket follows it.
    """
    _, end = _JSON.scan_once(text, at)  # type: ignore[attr-defined]
    if text[_end(_SPACES, text, end)] not in ",]":
        raise ValueError("a value in no array")
    return {0: (at, end)}, end


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


_JSON = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _expect(text: str, at: int, mark: str) -> int:
    """Return the place after a character."""
    if text[at] != mark:
        raise ValueError(mark)
    return at + 1


def distinct_texts(data: bytes | Array, begin: Array, end: Array, codes: Array, first: Array, seed: int) -> int:
    """Number the distinct texts in the order in which they come.

    Args:
        data: has the texts (bytes, or uint8).
        begin: where each begins (int32).
        end: where each ends (int32).
        codes: filled with each text's number (int32).
        first: filled with the first row of each distinct text (int64, room for as many as there are).
        seed: a number that nobody can guess, for hashing.

    Returns:
        The number of distinct texts.

    Raises:
        ValueError: a text is not within the data, or lengths differ.
    """
    del seed  # a dictionary has its own
    rows: dict[bytes, int] = {}
    for row, text in enumerate(_texts(data, begin, end)):
        codes[row] = rows.setdefault(text, row)
    numbers = {row: number for number, row in enumerate(rows.values())}
    codes[:] = [numbers[row] for row in codes.tolist()]
    first[: len(rows)] = [*rows.values()]
    return len(rows)


def read_decimals(data: bytes, begin: Array, end: Array, digits: int, out: Array) -> int:
    """Read numbers with or without a decimal point, or JSON strings of them, as integers.

    Args:
        data: has the texts.
        begin: where each begins (int32).
        end: where each ends (int32).
        digits: the number of digits after the point that are kept, at most 18; rounded half to even.
        out: filled with each number times 10 to the power of `digits` (int64), -1 for what has a sign, an exponent or
            anything else, or is too large.

    Returns:
        How many numbers were read.

    Raises:
        ValueError: a text is not within the data, or lengths differ.
    """
    for row, text in enumerate(_texts(data, begin, end)):
        match = _DECIMAL.fullmatch(text)
        whole, rest = (match[2], match[3] or b"") if match else (b"", b"")
        kept = (whole + rest[:digits].ljust(digits, b"0")).lstrip(b"0")
        value, more = int(kept or b"0") if len(kept) < _MOST_DIGITS else _LIMIT, rest[digits:].rstrip(b"0")
        is_up = more > b"5" or (more == b"5" and value % 2)  # texts compare as fractions do
        out[row] = value + is_up if match and value < _LIMIT else -1
    return int((out >= 0).sum())


def _texts(data: bytes | Array, begin: Array, end: Array) -> Iterator[bytes]:
    if ((begin < 0) | (begin > end) | (end > len(data))).any():
        raise ValueError("a text is not within the data")
    view = bytes(data)
    return (view[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True))
