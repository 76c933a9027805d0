"""The lines of a block, and the records of many lines as columns.

All separators of a block (spaces, colons, line ends) are found in one pass.  For all lines of a class together, a
cursor per line moves from separator to separator, item by item, and the numbers between them are converted together.
A line is valid here only if it certainly fits its declaration; the few others are for `codec`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.arrays import Array, ranges
from fxtio.codec.text.items import (
    PADDING,
    Characters,
    FixedItem,
    Layout,
    MarkedColumn,
    RestItem,
    key_of,
    layout_of,
    object_array,
)

Columns = dict[str, Any]
"""For every field of a record its column."""


@dataclass(slots=True)
class ListColumn:
    """Lists of compound items.

    Attributes:
        cls: the class of the items.
        counts: number of items of each record (int64).
        columns: the fields of all items.
    """

    cls: type[Any]
    counts: Array
    columns: Columns

    def __getitem__(self, rows: Array) -> ListColumn:
        counts = self.counts[rows]
        items = ranges((np.cumsum(self.counts) - self.counts)[rows], counts)
        return ListColumn(self.cls, counts, {name: column[items] for name, column in self.columns.items()})

    def tolist(self) -> list[tuple[Any, ...]]:
        """Return the lists as records have them."""
        items = list(map(self.cls, *lists_of(self.cls, self.columns)))
        ends = np.cumsum(self.counts)
        return [tuple(items[a:b]) for a, b in zip((ends - self.counts).tolist(), ends.tolist(), strict=True)]


def lists_of(cls: type[Any], columns: Columns) -> list[list[Any]]:
    """Convert the columns of a class to lists of values, in the order of its fields."""
    layout = layout_of(cls)
    lists = [field.item.values(columns[field.name]) for field in layout.fields]
    return lists + [columns[name].tolist() for name in layout.tail_fields]


def columns_from(cls: type[Any], records: list[Any]) -> Columns:
    """Convert records (or compounds) of a class to columns."""
    layout = layout_of(cls)
    columns = {
        field.name: field.item.column([getattr(record, field.name) for record in records]) for field in layout.fields
    }
    for name in layout.tail_fields:
        values = [getattr(record, name) for record in records]
        if (member := layout.members.get(name)) is not None:
            counts = np.array([len(value) for value in values], np.int64)
            items = columns_from(member, [item for value in values for item in value])
            columns[name] = ListColumn(member, counts, items)
        else:
            columns[name] = object_array(values)
    return columns


def joined(first: Any, second: Any) -> Any:
    """Concatenate two columns of the same type."""
    if isinstance(first, MarkedColumn):
        return MarkedColumn(joined(first.values, second.values), joined(first.marks, second.marks))
    if isinstance(first, ListColumn):
        columns = {name: joined(column, second.columns[name]) for name, column in first.columns.items()}
        return ListColumn(first.cls, joined(first.counts, second.counts), columns)
    return np.concatenate([first, second])


# ---- columns

SPACE, COLON, LINE_END, RETURN = b" :\n\r"

_SPARE = 16  # separators after the last line, for cursors of lines that end too early
_TAIL = b"\n" * (_SPARE + 8)


class Tags:
    """The beginnings by which the classes of lines are told apart, of one size and with a space in their middle.

    Args:
        tags: the tags; the kind of a line is the index of its tag here.
    """

    def __init__(self, tags: Iterable[bytes]) -> None:
        self.all = list(tags)
        self.size = len(self.all[0])
        keys = np.array([key_of(tag) for tag in self.all], np.uint64)
        self._kinds = np.argsort(keys)
        self._keys = keys[self._kinds]

    def kinds(self, key: Array) -> Array:
        """Return the kinds of lines whose first characters have these keys, -1 for an unknown tag."""
        place = np.searchsorted(self._keys, key).clip(max=len(self._keys) - 1)
        return np.where(self._keys[place] == key, self._kinds[place], -1)


class Lines:
    """The lines of a block, with the positions of all separators.

    Args:
        data: whole lines; the last may lack its end.
        tags: the tags that lines may begin with.

    Attributes:
        text: the characters, with padding before and after them.
        start: index in them of each line's first byte.
        end: index of its end, without the line end.
        next: index of the line after it.
        kind: index of its tag, or -1 for an unknown one.
        widths: the shortest and the longest numbers of each column of those that should have one width.
    """

    def __init__(self, data: bytes, tags: Tags) -> None:
        ended = data[-1:] == b"\n"
        self.text = Characters(b"".join([b" " * PADDING, data, b"" if ended else b"\n", _TAIL]))
        octets = self.text.bytes
        is_separator = (octets == SPACE) | (octets == COLON) | (octets == LINE_END)
        is_separator[:PADDING] = False
        at = np.flatnonzero(is_separator)
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
        self.first = np.concatenate([[0], line_ends[:-1] + 1])  # index of each line's first separator
        self.last = line_ends
        second = self.first + 1
        fits = (second <= self.last) & (self.stop[second] == self.start + tags.size)
        self.kind = np.where(fits, tags.kinds(self.text.key(self.start, tags.size)), -1)
        self.widths: set[int] = set()

    def __len__(self) -> int:
        return len(self.start)

    def line(self, row: int) -> bytes:
        """Return a line without its end."""
        return self.text.data[self.start[row] : self.end[row]]

    def raw(self, row: int) -> bytes:
        """Return a line with its end, as in the file."""
        return self.text.data[self.start[row] : self.next[row]]

    def offsets(self) -> Array:
        """Return the offsets of the lines from the beginning of the block."""
        return self.start - PADDING

    def offset(self, row: int) -> int:
        """Return the offset of a line from the beginning of the block."""
        return int(self.start[row]) - PADDING

    def row_at(self, offsets: Array) -> Array:
        """Return the rows of the lines in which these offsets from the beginning of the block are."""
        return np.searchsorted(self.start, offsets + PADDING, side="right") - 1


class _Cursor:
    """A position among the separators for each of some lines.

    Attributes:
        at: index of the separator before the next item.
        valid: whether each line fits its declaration so far.
        widths: the widths of the numbers that should have one width, an array per column.
    """

    def __init__(self, lines: Lines, at: Array) -> None:
        self.lines = lines
        self.at = at
        self.valid = np.ones(len(at), bool)
        self.widths: list[Array] = []

    def separator(self) -> Array:
        return self.lines.separator[self.at]

    def take(self, item: FixedItem) -> tuple[Array, Array, Array | None]:
        """Return where an item begins and ends and which lines have it (None for all), and move after it."""
        matches = self.separator() == ord(item.separator)
        begin, end = self.lines.at[self.at] + 1, self.lines.stop[self.at + 1]
        if item.optional:
            self.at = self.at + matches
            return begin, end, matches
        self.valid &= matches
        self.at = np.minimum(self.at + 1, len(self.lines.at) - _SPARE // 2)
        return begin, end, None


def columns_of(cls: type[Any], lines: Lines, rows: Array) -> tuple[Columns, Array]:
    """Read the records of some lines as columns.

    Args:
        cls: the class of the records.
        lines: the lines of a block.
        rows: which lines; all begin with the tag of the class.

    Returns:
        The columns of all these lines, and which of them are valid; the values of the others mean nothing.
    """
    layout = layout_of(cls)
    cursor = _Cursor(lines, lines.first[rows] + 1)
    columns = _read_fields(cursor, layout)
    if layout.tail is None:
        cursor.valid &= cursor.at == lines.last[rows]
    elif layout.members:
        columns |= _read_compounds(cursor, layout, lines.last[rows])
    else:
        columns |= _read_tail(cursor, layout, lines.end[rows])
    if cursor.valid.any():
        for width in cursor.widths:
            lines.widths |= {int(width[cursor.valid].min()), int(width[cursor.valid].max())}
    return columns, cursor.valid


def _read_fields(cursor: _Cursor, layout: Layout) -> Columns:
    columns = {}
    for field in layout.fields:
        begin, end, present = cursor.take(field.item)
        column, valid = field.item.read(cursor.lines.text, begin, end, present)
        cursor.valid &= valid if present is None else valid | ~present
        if getattr(field.item, "one_width", False) and present is None:
            cursor.widths.append(end - begin)
        columns[field.name] = column
    return columns


def _read_compounds(cursor: _Cursor, layout: Layout, last: Array) -> Columns:
    """Read compound items up to the line end; those of different classes have different numbers of parts."""
    lines = cursor.lines
    count = np.where(cursor.valid, last - cursor.at, 0).clip(min=0)
    owner = np.repeat(np.arange(len(count)), count)
    flat = ranges(cursor.at, count)
    spaces = lines.separator[flat] == SPACE
    cursor.valid &= (cursor.at == last) | (cursor.separator() == SPACE)
    at, owner = flat[spaces], owner[spaces]
    size = np.diff(np.append(np.flatnonzero(spaces), len(spaces)))  # number of parts, if the line is valid
    columns: Columns = {}
    rank = np.full(len(at), -1)
    for number, (name, member) in enumerate(layout.members.items()):
        inner_layout = layout_of(member)
        mine = size == len(inner_layout.fields) if len(layout.members) > 1 else np.ones(len(at), bool)
        rank[mine] = number
        inner = _Cursor(lines, at[mine])
        parts = _read_fields(inner, inner_layout)
        inner.valid &= inner.separator() != COLON
        cursor.valid[owner[mine][~inner.valid]] = False
        columns[name] = ListColumn(member, np.bincount(owner[mine], minlength=len(count)), parts)
    cursor.valid[owner[rank < 0]] = False
    wrong_order = (rank[1:] < rank[:-1]) & (owner[1:] == owner[:-1])
    cursor.valid[owner[1:][wrong_order]] = False
    return columns


def _read_tail(cursor: _Cursor, layout: Layout, end: Array) -> Columns:
    """Read the rest of each line, one by one."""
    assert isinstance(layout.tail, RestItem)
    data, parse = cursor.lines.text.data, layout.tail.parse
    columns: list[list[Any]] = [[None] * len(end) for _ in layout.tail_fields]
    begins = cursor.lines.stop[cursor.at].tolist()
    stops = end.tolist()
    for row in np.flatnonzero(cursor.valid).tolist():
        try:
            value = parse(data[begins[row] : stops[row]])
        except ValueError:
            cursor.valid[row] = False
            continue
        for column, text in zip(columns, value if len(columns) > 1 else (value,), strict=True):
            column[row] = text
    return {name: object_array(column) for name, column in zip(layout.tail_fields, columns, strict=True)}
