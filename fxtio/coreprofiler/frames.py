"""Blocks of whole lines, and their records as columns.

A file is read in blocks.  All separators of a block (spaces, colons, line ends) are found in one pass.  For all lines
of a class together, a cursor per line moves from separator to separator, item by item, and the numbers between them
are converted together.  A line is read this way only if it certainly fits its declaration; the few others are decoded
one by one by `lines`, so both ways give the same records.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import MAX_UINT64
from fxtio.codec.record import Opaque
from fxtio.coreprofiler.columns import (
    ABSENT,
    PRESENT,
    UNDEFINED_IP,
    ListColumn,
    PointerColumn,
    ThreadColumn,
    columns_from,
    joined,
    lists_of,
    object_array,
)
from fxtio.coreprofiler.digits import MAX_DECIMAL, PADDING, Characters, decimals, hexadecimals, key_of
from fxtio.coreprofiler.layout import (
    BYTE_ORDER_MARK,
    MAX_32,
    MAX_MS,
    MIN_MS,
    TAG_SIZE,
    Count,
    Decimal,
    FixedItem,
    Hexadecimal,
    Pointer,
    RestItem,
    Style,
    ThreadNumber,
    has_overflow,
)
from fxtio.coreprofiler.lines import Fault, Layout, decode, encode, layout_of
from fxtio.coreprofiler.records import TAGS, TIME_FIELD
from fxtio.errors import EncodeError
from fxtio.finding import ADDED_SINGLY, Findings
from fxtio.io.source import Source

BLOCK = 1 << 21
"""Bytes that are read together.  A longer line is not a record."""

MAX_LINES = 1 << 16
"""The most lines of a block, since memory is needed for each, however short it is."""

SPACE, COLON, LINE_END, RETURN, UNKNOWN, MINUS, ZERO, X = b" :\n\r?-0x"

_SPARE = 16  # separators after the last line, for cursors of lines that end too early
_TAIL = b"\n" * (_SPARE + 8)


class Lines:
    """The lines of a block, with the positions of all separators.

    Args:
        data: whole lines; the last may lack its end.

    Attributes:
        data: the bytes with padding before and after them.
        start: index in `data` of each line's first byte.
        end: index of its end, without the line end.
        next: index of the line after it.
        kind: index into `KINDS`, or -1 for an unknown tag.
        pointer_sizes: the shortest and the longest pointers of each column that was read.
    """

    def __init__(self, data: bytes) -> None:
        ended = data[-1:] == b"\n"
        self.data = b"".join([b" " * PADDING, data, b"" if ended else b"\n", _TAIL])
        self.text = Characters(self.data)
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
        """Return a line without its end."""
        return self.data[self.start[row] : self.end[row]]

    def raw(self, row: int) -> bytes:
        """Return a line with its end, as in the file."""
        return self.data[self.start[row] : self.next[row]]

    def offsets(self) -> Array:
        """Return the offsets of the lines from the beginning of the block."""
        return self.start - PADDING

    def offset(self, row: int) -> int:
        """Return the offset of a line from the beginning of the block."""
        return int(self.start[row]) - PADDING


KINDS: list[bytes] = list(TAGS)
"""The tags that lines may begin with."""
_SORTED = sorted(range(len(KINDS)), key=lambda place: key_of(KINDS[place]))
_KEYS = np.array([key_of(KINDS[place]) for place in _SORTED], np.uint64)
_ORDER = np.array(_SORTED, np.int64)


class _Cursor:
    """A position among the separators for each of some lines.

    Attributes:
        at: index of the separator before the next item.
        valid: whether each line fits its declaration so far.
        pointer_sizes: lengths of the pointers that were read, an array per column.
    """

    def __init__(self, lines: Lines, at: Array) -> None:
        self.lines = lines
        self.at = at
        self.valid = np.ones(len(at), bool)
        self.pointer_sizes: list[Array] = []

    def separator(self) -> Array:
        return self.lines.separator[self.at]

    def take(self, item: FixedItem) -> tuple[Array, Array, Array | None]:
        """Return where an item begins and ends and which lines have it (None for all), and move behind it."""
        matches = self.separator() == ord(item.separator)
        begin, end = self.lines.at[self.at] + 1, self.lines.stop[self.at + 1]
        if item.optional:
            self.at = self.at + matches
            return begin, end, matches
        self.valid &= matches
        self.at = np.minimum(self.at + 1, len(self.lines.at) - _SPARE // 2)
        return begin, end, None


def columns_of(lines: Lines, cls: type[Any], rows: Array) -> tuple[dict[str, Any], Array]:
    """Read the records of some lines as columns.

    Args:
        lines: the lines of a block.
        cls: the class of the records.
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
        for size in cursor.pointer_sizes:
            lines.pointer_sizes |= {int(size[cursor.valid].min()), int(size[cursor.valid].max())}
    return columns, cursor.valid


def _read_fields(cursor: _Cursor, layout: Layout) -> dict[str, Any]:
    columns = {}
    for field in layout.fields:
        begin, end, present = cursor.take(field.item)
        column, valid = _READERS.get(type(field.item), _read_objects)(cursor.lines, field.item, begin, end, present)
        cursor.valid &= valid if present is None else valid | ~present
        if getattr(field.item, "kind", "") == "pointer" and present is None:
            cursor.pointer_sizes.append(end - begin)
        columns[field.name] = column
    return columns


def _read_compounds(cursor: _Cursor, layout: Layout, last: Array) -> dict[str, Any]:
    """Read compound items up to the line end; those of different classes have different numbers of parts."""
    lines = cursor.lines
    count = np.where(cursor.valid, last - cursor.at, 0).clip(min=0)
    owner = np.repeat(np.arange(len(count)), count)
    begins = np.cumsum(count) - count
    flat = np.arange(len(owner)) - begins[owner] + cursor.at[owner]
    spaces = lines.separator[flat] == SPACE
    cursor.valid &= (cursor.at == last) | (cursor.separator() == SPACE)
    at, owner = flat[spaces], owner[spaces]
    size = np.diff(np.append(np.flatnonzero(spaces), len(spaces)))  # number of parts, if the line is valid
    columns: dict[str, Any] = {}
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


def _read_tail(cursor: _Cursor, layout: Layout, end: Array) -> dict[str, Any]:
    """Read the rest of each line, one by one."""
    assert isinstance(layout.tail, RestItem)
    data, parse = cursor.lines.data, layout.tail.parse
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


ColumnAndValid = tuple[Any, Array]


def _read_objects(lines: Lines, item: FixedItem, begin: Array, end: Array, present: Array | None) -> ColumnAndValid:
    """Read items of a rare kind one by one."""
    pattern = re.compile(item.body.encode("ascii"))
    values: list[Any] = []
    valid = np.ones(len(begin), bool)
    for row, (a, b) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        raw = lines.data[a:b]
        try:
            if not pattern.fullmatch(raw):
                raise ValueError
            values.append(item.parse(raw))
        except ValueError:
            values.append(None)
            valid[row] = False
    return object_array(values), valid


def _is(lines: Lines, at: Array, character: int) -> Array:
    result: Array = lines.text.bytes[at] == character
    return result


def _is_unknown(lines: Lines, begin: Array, end: Array) -> Array:
    result: Array = (end - begin == 1) & _is(lines, begin, UNKNOWN)
    return result


def _read_decimals(lines: Lines, item: Any, begin: Array, end: Array, present: Array | None) -> ColumnAndValid:
    negative = _is(lines, begin, MINUS)
    any_negative = bool(negative.any())
    value, valid = decimals(lines.text, begin + negative if any_negative else begin, end)
    if any_negative:
        value = np.where(negative, -value, value)
        valid &= value >= item.low
    if item.high < 10**MAX_DECIMAL:
        valid &= value <= item.high
    if isinstance(item, Count):
        unknown = _is_unknown(lines, begin, end)
        valid &= ~negative
        value[unknown] = -1
        return value, valid | unknown
    if item.high == MAX_UINT64:
        return value.astype(np.uint64), valid
    return value, valid


def _has_prefix(lines: Lines, begin: Array) -> Array:
    result: Array = _is(lines, begin, ZERO) & _is(lines, begin + 1, X)
    return result


def _read_hexadecimals(lines: Lines, item: Any, begin: Array, end: Array, present: Array | None) -> ColumnAndValid:
    value, valid = hexadecimals(lines.text, begin + 2, end)
    valid &= _has_prefix(lines, begin)
    if item.optional and present is not None:
        return PointerColumn(value, np.where(present, PRESENT, ABSENT).astype(np.int8)), valid
    if item.high == MAX_UINT64:
        return value, valid
    valid &= value <= np.uint64(item.high)
    value = value.astype(np.int64)
    if item.unknown:
        unknown = _is_unknown(lines, begin, end)
        if unknown.any():
            value[unknown] = -1
            valid |= unknown
    return value, valid


def _read_pointers(lines: Lines, item: Any, begin: Array, end: Array, present: Array | None) -> ColumnAndValid:
    assert present is not None  # every pointer is optional
    state = np.full(len(begin), ABSENT, np.int8)
    rows = np.flatnonzero(present)
    value, valid = np.zeros(len(begin), np.uint64), np.ones(len(begin), bool)
    if len(rows):
        begin, end = begin[rows], end[rows]
        number, fits = hexadecimals(lines.text, begin + 2 * _has_prefix(lines, begin), end)
        unknown = _is_unknown(lines, begin, end)
        number[unknown] = 0
        value[rows], valid[rows] = number, fits | unknown
        state[rows] = np.where(unknown, UNDEFINED_IP, PRESENT)
    return PointerColumn(value, state), valid


def _read_threads(lines: Lines, item: Any, begin: Array, end: Array, present: Array | None) -> ColumnAndValid:
    has_prefix, unknown = _has_prefix(lines, begin), _is_unknown(lines, begin, end)
    value, valid = hexadecimals(lines.text, begin + 2, end)
    number, is_number = decimals(lines.text, begin, end)
    valid &= value <= np.uint64(MAX_32)
    os = ~has_prefix & ~unknown
    values = np.where(os, number, np.where(unknown, -1, value.astype(np.int64)))
    return ThreadColumn(values, os), np.where(os, is_number, unknown | valid)


_READERS: dict[type[FixedItem], Any] = {
    Decimal: _read_decimals,
    Count: _read_decimals,
    Hexadecimal: _read_hexadecimals,
    Pointer: _read_pointers,
    ThreadNumber: _read_threads,
}


class Block:
    """Some whole lines of a file, with their records.

    Args:
        data: the lines; the last line of a file may lack its end.
        base: the byte offset of the first line in the file.
        findings: receives the faults of lines.

    Attributes:
        base: the byte offset of the first line in the file.
        data: the bytes of the lines.
        lines: the lines.
    """

    def __init__(self, data: bytes, base: int, findings: Findings) -> None:
        self.base = base
        self.data = data
        self._findings = findings
        self.lines = Lines(data)
        self._single: dict[int, Any] = {}  # records that were decoded one by one, by their rows
        self._groups: dict[type[Any], tuple[Array, dict[str, Any]]] = {}
        self._read()

    def __len__(self) -> int:
        return len(self.lines)

    def offsets(self) -> Array:
        """Return the byte offsets of the lines in the file."""
        return self.lines.offsets() + self.base

    def classes(self) -> set[type[Any]]:
        """Return the classes of the records."""
        return self._groups.keys() | {type(record) for record in self._single.values()}

    def counts(self) -> Counter[str]:
        """Return the number of records of each class by its name; lines that are not records are `Opaque`."""
        counts = Counter({cls.__name__: len(rows) for cls, (rows, _) in self._groups.items()})
        counts.update(type(record).__name__ for record in self._single.values())
        if opaque := len(self) - counts.total():
            counts[Opaque.__name__] += opaque
        return counts

    def columns(self, cls: type[Any]) -> tuple[Array, dict[str, Any]]:
        """Return the rows and the columns of all records of a class."""
        single = {row: record for row, record in self._single.items() if type(record) is cls}
        if not single:
            if cls in self._groups:
                return self._groups[cls]
            return np.empty(0, np.int64), columns_from(cls, [])
        rows, columns = np.array(list(single), np.int64), columns_from(cls, list(single.values()))
        if cls in self._groups:
            return _merged(self._groups[cls], (rows, columns))
        order = np.argsort(rows, kind="stable")
        return rows[order], {name: column[order] for name, column in columns.items()}

    def placed(self, *classes: type[Any], among: Array | None = None) -> list[tuple[int, Any]]:
        """Return the records of some classes in the order of the lines, each with its byte offset in the file.

        Args:
            classes: the classes.
            among: only those of these rows, if it is given.
        """
        offsets = self.offsets()
        pairs: list[tuple[int, Any]] = []
        for cls in classes:
            rows, columns = self.columns(cls)
            if among is not None:
                chosen = np.flatnonzero(np.isin(rows, among))
                rows, columns = rows[chosen], {name: column[chosen] for name, column in columns.items()}
            pairs += zip(offsets[rows].tolist(), map(cls, *lists_of(cls, columns)), strict=True)
        return sorted(pairs, key=itemgetter(0))

    def records(self) -> list[Any]:
        """Return the records in the order of the lines, with an `Opaque` for each line that is not a record."""
        out = np.full(len(self.lines), None, object)
        for cls, (rows, columns) in self._groups.items():
            records = list(map(cls, *lists_of(cls, columns)))
            if len(rows) == len(out):
                return records
            out[rows] = records
        for row, record in self._single.items():
            out[row] = record
        result: list[Any] = out.tolist()
        for row, record in enumerate(result):
            if record is None:
                result[row] = Opaque(self.lines.raw(row))
        return result

    def exact(self, style: Style) -> Iterator[Any]:
        """Yield the records as `records` does, with an `Opaque` for each that would be written as other bytes."""
        for row, record in enumerate(self.records()):
            raw = self.lines.raw(row)
            try:
                same = encode(record, style) == raw
            except EncodeError:
                same = False
            yield record if same else Opaque(raw)

    def _read(self) -> None:
        lines = self.lines
        for number in np.unique(lines.kind).tolist():
            rows = np.flatnonzero(lines.kind == number)
            if number < 0:
                self._report_unknown(rows)
                continue
            cls = TAGS[KINDS[number]][0]
            columns, valid = columns_of(lines, cls, rows)
            if not valid.all():
                self._decode_single(rows[~valid])
                rest = np.flatnonzero(valid)
                rows, columns = rows[rest], {name: column[rest] for name, column in columns.items()}
            if cls in self._groups and len(rows):  # the class has another tag, too
                rows, columns = _merged(self._groups[cls], (rows, columns))
            if len(rows):
                self._groups[cls] = rows, columns
        self._report_bytes()
        for rows, columns in self._groups.values():
            if TIME_FIELD in columns and has_overflow(columns[TIME_FIELD]):
                self._report_times(rows, columns[TIME_FIELD])
        if self.data[-1:] != b"\n":
            end = self.base + len(self.data)
            self._findings.add("line.no-end", end)

    def _decode_single(self, rows: Array) -> None:
        for row in rows.tolist():
            result = decode(self.lines.line(row))
            if isinstance(result, Fault):
                self._findings.add(result.rule, self.base + self.lines.offset(row), result.message)
            else:
                self._single[row] = result
                time = getattr(result, TIME_FIELD, None)
                if time is not None:
                    self._report_times(np.array([row]), np.array([time]))

    def _report_bytes(self) -> None:
        """Report lines with NUL, or with a carriage return before their ends."""
        data = self.data
        if b"\0" not in data and (b"\r" not in data or data.count(b"\r") == data.count(b"\r\n")):
            return
        octets = self.lines.text.bytes[PADDING : PADDING + len(data) + 1]  # a line end follows the data
        odd = (octets[:-1] == 0) | (octets[:-1] == RETURN) & (octets[1:] != LINE_END)
        rows = np.searchsorted(self.lines.start, np.flatnonzero(odd) + PADDING, side="right") - 1
        self._warn("line.bytes", np.unique(rows), "the line has NUL, or a carriage return before its end")

    def _report_times(self, rows: Array, times: Array) -> None:
        """Report which times (int64, milliseconds) do not fit 64-bit nanoseconds."""
        fits = (times >= MIN_MS) & (times <= MAX_MS)
        self._warn("time.overflow", rows[~fits], "the time does not fit in 64-bit nanoseconds")

    def _report_unknown(self, rows: Array) -> None:
        for row in rows[:ADDED_SINGLY].tolist():
            line = self.lines.line(row)[:40].decode("utf-8", "backslashreplace")
            self._warn("line.unknown", np.array([row]), f"no known record begins with {line!r}")
        if len(rest := rows[ADDED_SINGLY:]):
            offset = self.base + self.lines.offset(int(rest[0]))
            self._findings.add("line.unknown", offset, times=len(rest))

    def _warn(self, rule: str, rows: Array, message: str) -> None:
        """Add a warning about each of some lines."""
        if len(rows):
            self._findings.add_each(rule, self.offsets()[rows].tolist(), message)


RowsAndColumns = tuple[Array, dict[str, Any]]


def _merged(first: RowsAndColumns, second: RowsAndColumns) -> RowsAndColumns:
    """Merge two groups of records of one class in the order of their rows."""
    rows = np.concatenate([first[0], second[0]])
    order = np.argsort(rows, kind="stable")
    return rows[order], {name: joined(column, second[1][name])[order] for name, column in first[1].items()}


def _split(data: bytes) -> list[bytes]:
    """Split lines into parts of at most `MAX_LINES` lines."""
    if data.count(b"\n") <= MAX_LINES:
        return [data] if data else []
    half = len(data) // 2
    middle = (data.rfind(b"\n", 0, half) + 1) or (data.find(b"\n", half) + 1)
    return _split(data[:middle]) + _split(data[middle:])


class Framer:
    """Cuts a file into blocks of whole lines.

    Args:
        source: the file.
        findings: receives the faults.
    """

    def __init__(self, source: Source, findings: Findings) -> None:
        self._source = source
        self._findings = findings

    def __iter__(self) -> Iterator[Block | tuple[int, bytes]]:
        """Yield blocks; and parts of lines that are too long, each with its byte offset."""
        rest = b""  # the beginning of a line that continues in the next block
        offset = self._skip_mark()
        in_long_line = False
        while True:
            buffer = bytearray(BLOCK)
            count = self._source.readinto(memoryview(buffer))
            ended = count < BLOCK
            data = rest + buffer[:count]
            if in_long_line:
                cut = data.find(b"\n") + 1
                in_long_line = cut == 0 and not ended
                if cut or data:
                    yield offset, data[: cut or len(data)]
                offset += cut or len(data)
                data = data[cut or len(data) :]
            cut = len(data) if ended else data.rfind(b"\n") + 1
            for lines in _split(data[:cut]):
                yield Block(lines, offset, self._findings)
                offset += len(lines)
            rest = data[cut:]
            if ended:
                return
            if len(rest) > BLOCK:
                self._findings.add("line.too-long", offset, f"a line of more than {BLOCK:,} bytes")
                yield offset, rest
                offset += len(rest)
                rest, in_long_line = b"", True

    def _skip_mark(self) -> int:
        """Skip a byte-order mark and return its length."""
        has_mark = self._source.head.startswith(BYTE_ORDER_MARK)
        return self._source.readinto(memoryview(bytearray(BYTE_ORDER_MARK))) if has_mark else 0
