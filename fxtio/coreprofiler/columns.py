"""Many lines at once: the same declarations, applied to arrays of places instead of to one line.

All separators of a block (spaces, colons, line ends) are found in one pass.  A cursor for each line of a class goes
from one to the next, item by item, and the numbers between them are read together.  A line is taken this way only if it
fits for sure; the few others are left to `lines`, so that both ways give the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fxtio.codec.digits import PADDING, Characters, decimals, hexadecimals, key_of
from fxtio.coreprofiler.layout import (
    MAX_64,
    Count,
    Decimal,
    Hexadecimal,
    Item,
    Pointer,
    Several,
    ThreadNumber,
)
from fxtio.coreprofiler.lines import TAG_SIZE, Form, form_of
from fxtio.coreprofiler.records import TAGS
from fxtio.coreprofiler.values import ABSENT, TOLD, TOLD_UNDEFINED, IpColumn, ListColumn, ThreadColumn, object_array

Array = np.ndarray[Any, Any]

SPACE, COLON, LINE_END, RETURN, UNKNOWN, MINUS, ZERO, X = b" :\n\r?-0x"

_SPARE = 16  # separators behind the last line, for cursors of lines that end too early
_TAIL = b"\n" * (_SPARE + 8)


class Lines:
    """The lines of a block.

    Args:
        data: whole lines; the last may lack its end.

    Attributes:
        data: the bytes with some before and behind.
        start: where each line begins in `data`.
        end: where it ends, the line end not counted.
        next: where the line behind it begins.
        kind: an index into `FAMILIES`, or -1.
        pointer_sizes: the shortest and the longest pointers of each column that was made.
    """

    def __init__(self, data: bytes) -> None:
        ended = data[-1:] == b"\n"
        self.data = b"".join([b" " * PADDING, data, b"" if ended else b"\n", _TAIL])
        self.text = Characters(self.data)
        octets = self.text.bytes
        found = (octets == SPACE) | (octets == COLON) | (octets == LINE_END)
        found[:PADDING] = False
        at = np.flatnonzero(found)
        self.separator = octets[at]
        line_ends = np.flatnonzero(self.separator == LINE_END)[: -len(_TAIL)]
        self.at = self.stop = at
        returns = line_ends[octets[at[line_ends] - 1] == RETURN]
        if len(returns):
            self.stop = at.copy()
            self.stop[returns] -= 1
        self.next = at[line_ends] + 1
        self.start = np.concatenate([[PADDING], self.next[:-1]])
        self.end = np.maximum(self.stop[line_ends], self.start)
        if not ended:
            self.next[-1] -= 1
        self.first = np.concatenate([[0], line_ends[:-1] + 1])  # separators of each line
        self.last = line_ends
        self.kind = self._kinds()
        self.pointer_sizes: set[int] = set()

    def __len__(self) -> int:
        return len(self.start)

    def _kinds(self) -> Array:
        key = self.text.key(self.start, TAG_SIZE)
        place = np.searchsorted(_KEYS, key).clip(max=len(_KEYS) - 1)
        second = self.first + 1
        fits = (_KEYS[place] == key) & (second <= self.last) & (self.stop[second] == self.start + TAG_SIZE)
        return np.where(fits, _ORDER[place], -1)

    def line(self, row: int) -> bytes:
        """A line without its end."""
        return self.data[self.start[row] : self.end[row]]

    def raw(self, row: int) -> bytes:
        """A line with its end, as it stands."""
        return self.data[self.start[row] : self.next[row]]

    def offsets(self) -> Array:
        """Where the lines begin, from the beginning of the block."""
        return self.start - PADDING

    def offset(self, row: int) -> int:
        """Where a line begins, from the beginning of the block."""
        return int(self.start[row]) - PADDING


FAMILIES: list[bytes] = list(TAGS)
_SORTED = sorted(range(len(FAMILIES)), key=lambda place: key_of(FAMILIES[place]))
_KEYS = np.array([key_of(FAMILIES[place]) for place in _SORTED], np.uint64)
_ORDER = np.array(_SORTED, np.int64)


class _Cursor:
    """A place in the row of separators for each of some lines."""

    def __init__(self, lines: Lines, at: Array) -> None:
        self.lines = lines
        self.at = at
        self.good = np.ones(len(at), bool)
        self.pointer_sizes: list[Array] = []

    def separator(self) -> Array:
        return self.lines.separator[self.at]

    def take(self, item: Item) -> tuple[Array, Array, Array | None]:
        """Where an item begins and ends, and which lines have it (None all); goes behind it."""
        glue = self.separator() == ord(item.glue)
        begin, end = self.lines.at[self.at] + 1, self.lines.stop[self.at + 1]
        if item.optional:
            self.at = self.at + glue
            return begin, end, glue
        self.good &= glue
        self.at = np.minimum(self.at + 1, len(self.lines.at) - _SPARE // 2)
        return begin, end, None


def columns_of(lines: Lines, cls: type[Any], rows: Array) -> tuple[dict[str, Any], Array]:
    """The columns of a class.

    Args:
        lines: the lines.
        cls: the class.
        rows: which lines, all with the tag of the class.

    Returns:
        The columns of all these lines, and which of the lines fit; the columns of others hold anything.
    """
    form = form_of(cls)
    cursor = _Cursor(lines, lines.first[rows] + 1)
    columns = _parts(cursor, form)
    if form.tail is None:
        cursor.good &= cursor.at == lines.last[rows]
    elif isinstance(form.tail, Several):
        columns |= _several(cursor, form, lines.last[rows])
    else:
        columns |= _tail(cursor, form, lines.end[rows])
    if cursor.good.any():
        for size in cursor.pointer_sizes:
            lines.pointer_sizes |= {int(size[cursor.good].min()), int(size[cursor.good].max())}
    return columns, cursor.good


def _parts(cursor: _Cursor, form: Form) -> dict[str, Any]:
    columns = {}
    for part in form.parts:
        begin, end, present = cursor.take(part.item)
        column, good = _READERS.get(type(part.item), _objects)(cursor.lines, part.item, begin, end, present)
        cursor.good &= good if present is None else good | ~present
        if getattr(part.item, "form", "") == "pointer" and present is None:
            cursor.pointer_sizes.append(end - begin)
        columns[part.name] = column
    return columns


def _several(cursor: _Cursor, form: Form, last: Array) -> dict[str, Any]:
    """Compound items up to the line end; those of different classes are told apart by how many parts they have."""
    assert isinstance(form.tail, Several)
    lines = cursor.lines
    count = np.where(cursor.good, last - cursor.at, 0).clip(min=0)
    owner = np.repeat(np.arange(len(count)), count)
    begins = np.cumsum(count) - count
    flat = np.arange(len(owner)) - begins[owner] + cursor.at[owner]
    spaces = lines.separator[flat] == SPACE
    cursor.good &= (cursor.at == last) | (cursor.separator() == SPACE)
    at, owner = flat[spaces], owner[spaces]
    size = np.diff(np.append(np.flatnonzero(spaces), len(spaces)))  # parts of each, right where the line is
    several = len(form.tail.members) > 1
    made: dict[str, Any] = {}
    rank = np.full(len(at), -1)
    for number, (name, member) in enumerate(zip(form.filled, form.tail.members, strict=True)):
        inner_form = form_of(member)
        mine = size == len(inner_form.parts) if several else np.ones(len(at), bool)
        rank[mine] = number
        inner = _Cursor(lines, at[mine])
        columns = _parts(inner, inner_form)
        inner.good &= inner.separator() != COLON
        cursor.good[owner[mine][~inner.good]] = False
        made[name] = ListColumn(member, np.bincount(owner[mine], minlength=len(count)), columns)
    cursor.good[owner[rank < 0]] = False
    wrong_order = (rank[1:] < rank[:-1]) & (owner[1:] == owner[:-1])
    cursor.good[owner[1:][wrong_order]] = False
    return made


def _tail(cursor: _Cursor, form: Form, end: Array) -> dict[str, Any]:
    """What takes the rest of the line, line by line."""
    assert form.tail is not None
    data, parse = cursor.lines.data, form.tail.parse
    found: list[list[Any]] = [[None] * len(end) for _ in form.filled]
    begins = cursor.lines.stop[cursor.at].tolist()
    stops = end.tolist()
    for row in np.flatnonzero(cursor.good).tolist():
        try:
            value = parse(data[begins[row] : stops[row]])
        except ValueError:
            cursor.good[row] = False
            continue
        for column, one in zip(found, value if len(found) > 1 else (value,), strict=True):
            column[row] = one
    return {name: object_array(column) for name, column in zip(form.filled, found, strict=True)}


Read = tuple[Any, Array]


def _objects(lines: Lines, item: Item, begin: Array, end: Array, present: Array | None) -> Read:
    """Items of a kind that is rare, one by one."""
    import re

    pattern = re.compile(item.body.encode("ascii"))
    found: list[Any] = []
    good = np.ones(len(begin), bool)
    for row, (a, b) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        raw = lines.data[a:b]
        try:
            if not pattern.fullmatch(raw):
                raise ValueError
            found.append(item.parse(raw))
        except ValueError:
            found.append(None)
            good[row] = False
    return object_array(found), good


def _is(lines: Lines, at: Array, character: int) -> Array:
    result: Array = lines.text.bytes[at] == character
    return result


def _unknown(lines: Lines, begin: Array, end: Array) -> Array:
    result: Array = (end - begin == 1) & _is(lines, begin, UNKNOWN)
    return result


def _decimal(lines: Lines, item: Any, begin: Array, end: Array, present: Array | None) -> Read:
    negative = _is(lines, begin, MINUS)
    any_negative = bool(negative.any())
    value, good = decimals(lines.text, begin + negative if any_negative else begin, end)
    if any_negative:
        value = np.where(negative, -value, value)
        good &= value >= item.low
    if isinstance(item, Count):
        unknown = _unknown(lines, begin, end)
        good &= ~negative
        value[unknown] = -1
        return value, good | unknown
    if item.high == MAX_64:
        return value.astype(np.uint64), good
    return value, good


def _prefixed(lines: Lines, begin: Array) -> Array:
    result: Array = _is(lines, begin, ZERO) & _is(lines, begin + 1, X)
    return result


def _hexadecimal(lines: Lines, item: Any, begin: Array, end: Array, present: Array | None) -> Read:
    value, good = hexadecimals(lines.text, begin + 2, end)
    good &= _prefixed(lines, begin)
    if item.optional and present is not None:  # as of pointers, it matters whether there is one
        return IpColumn(value, np.where(present, TOLD, ABSENT).astype(np.int8)), good
    if item.high == MAX_64:
        return value, good
    good &= value <= np.uint64(item.high)
    value = value.astype(np.int64)
    if item.unknown:
        unknown = _unknown(lines, begin, end)
        if unknown.any():
            value[unknown] = -1
            good |= unknown
    return value, good


def _pointer(lines: Lines, item: Any, begin: Array, end: Array, present: Array | None) -> Read:
    assert present is not None  # all of them may be missing
    state = np.full(len(begin), ABSENT, np.int8)
    rows = np.flatnonzero(present)
    value, good = np.zeros(len(begin), np.uint64), np.ones(len(begin), bool)
    if len(rows):
        begin, end = begin[rows], end[rows]
        found, fits = hexadecimals(lines.text, begin + 2 * _prefixed(lines, begin), end)
        unknown = _unknown(lines, begin, end)
        found[unknown] = 0
        value[rows], good[rows] = found, fits | unknown
        state[rows] = np.where(unknown, TOLD_UNDEFINED, TOLD)
    return IpColumn(value, state), good


def _thread(lines: Lines, item: Any, begin: Array, end: Array, present: Array | None) -> Read:
    prefixed, unknown = _prefixed(lines, begin), _unknown(lines, begin, end)
    value, good = hexadecimals(lines.text, begin + 2, end)
    number, is_number = decimals(lines.text, begin, end)
    good &= value <= np.uint64(2**32 - 1)
    os = ~prefixed & ~unknown
    values = np.where(os, number, np.where(unknown, -1, value.astype(np.int64)))
    return ThreadColumn(values, os), np.where(os, is_number, unknown | good)


_READERS: dict[type[Item], Any] = {
    Decimal: _decimal,
    Count: _decimal,
    Hexadecimal: _hexadecimal,
    Pointer: _pointer,
    ThreadNumber: _thread,
}
