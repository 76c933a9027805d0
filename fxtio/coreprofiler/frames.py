"""Blocks of whole lines, and their records as columns.

A file is read in blocks.  The lines of a class are read together (`fxtio.codec.text.lines`); those few that do not
certainly fit their declaration are decoded one by one, so both ways give the same records.  `detect` takes the
style of a file from its lines, see `layout.Style`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from operator import itemgetter
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.record import Opaque
from fxtio.codec.text.items import ItemField, layout_of
from fxtio.codec.text.lines import Columns, Lines, Tags, columns_from, columns_of, joined, lists_of
from fxtio.coreprofiler.layout import BYTE_ORDER_MARK, MAX_MS, MIN_MS, NUMBER_KINDS, Pointer, Style, has_overflow
from fxtio.coreprofiler.records import TAGS, TIME_FIELD, decode, encode
from fxtio.errors import DecodeError, EncodeError
from fxtio.finding import ADDED_SINGLY, Findings
from fxtio.io.source import Source

BLOCK = 1 << 21
"""Bytes that are read together.  A longer line is not a record."""

MAX_LINES = 1 << 16
"""The most lines of a block, since memory is needed for each, however short it is."""

_TAGS = Tags(TAGS)


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
        self.lines = Lines(data, _TAGS)
        self._groups: dict[type[Any], tuple[Array, Columns]] = {}
        self._read()

    def __len__(self) -> int:
        return len(self.lines)

    def offsets(self) -> Array:
        """Return the byte offsets of the lines in the file."""
        return self.lines.offsets() + self.base

    def classes(self) -> set[type[Any]]:
        """Return the classes of the records."""
        return {*self._groups}

    def counts(self) -> Counter[str]:
        """Return the number of records of each class by its name; lines that are not records are `Opaque`."""
        counts = Counter({cls.__name__: len(rows) for cls, (rows, _) in self._groups.items()})
        if opaque := len(self) - counts.total():
            counts[Opaque.__name__] += opaque
        return counts

    def columns(self, cls: type[Any]) -> tuple[Array, Columns]:
        """Return the rows and the columns of all records of a class."""
        return self._groups.get(cls) or (np.empty(0, np.int64), columns_from(cls, []))

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
            cls = TAGS[_TAGS.all[number]][0]
            columns, valid = columns_of(cls, lines, rows)
            if not valid.all():
                self._decode_single(rows[~valid])
                rest = np.flatnonzero(valid)
                rows, columns = rows[rest], {name: column[rest] for name, column in columns.items()}
            self._add(cls, rows, columns)
        self._report_bytes()
        for rows, columns in self._groups.values():
            if TIME_FIELD in columns and has_overflow(columns[TIME_FIELD]):
                self._report_times(rows, columns[TIME_FIELD])
        if self.data[-1:] != b"\n":
            end = self.base + len(self.data)
            self._findings.add("line.no-end", end)

    def _add(self, cls: type[Any], rows: Array, columns: Columns) -> None:
        """Add records of a class, which may have another tag, too."""
        if len(rows):
            group = rows, columns
            self._groups[cls] = _merged(self._groups[cls], group) if cls in self._groups else group

    def _decode_single(self, rows: Array) -> None:
        """Decode the lines of some rows one by one."""
        decoded: dict[type[Any], dict[int, Any]] = {}
        for row in rows.tolist():
            try:
                record = decode(self.lines.line(row))
            except DecodeError as error:
                self._findings.add(error.rule, self.base + self.lines.offset(row), error.message)
            else:
                decoded.setdefault(type(record), {})[row] = record
        for cls, records in decoded.items():
            self._add(cls, np.array([*records]), columns_from(cls, [*records.values()]))

    def _report_bytes(self) -> None:
        """Report lines with NUL, or with a carriage return before their ends."""
        data = self.data
        if b"\0" not in data and (b"\r" not in data or data.count(b"\r") == data.count(b"\r\n")):
            return
        octets = np.frombuffer(data + b"\n", np.uint8)
        odd = (octets[:-1] == ord("\0")) | (octets[:-1] == ord("\r")) & (octets[1:] != ord("\n"))
        rows = np.unique(self.lines.row_at(np.flatnonzero(odd)))
        self._warn("line.bytes", rows)

    def _report_times(self, rows: Array, times: Array) -> None:
        """Report which times (int64, milliseconds) do not fit 64-bit nanoseconds."""
        fits = (times >= MIN_MS) & (times <= MAX_MS)
        self._warn("time.overflow", rows[~fits])

    def _report_unknown(self, rows: Array) -> None:
        for row in rows[:ADDED_SINGLY].tolist():
            line = self.lines.line(row)[:40].decode("utf-8", "backslashreplace")
            self._warn("line.unknown", np.array([row]), f"no known record begins with {line!r}")
        if len(rest := rows[ADDED_SINGLY:]):
            offset = self.base + self.lines.offset(int(rest[0]))
            self._findings.add("line.unknown", offset, times=len(rest))

    def _warn(self, rule: str, rows: Array, message: str = "") -> None:
        """Add a warning about each of some lines."""
        if len(rows):
            self._findings.add_each(rule, self.offsets()[rows].tolist(), message)


RowsAndColumns = tuple[Array, Columns]


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


def blocks_of(source: Source, findings: Findings) -> Iterator[Block | tuple[int, bytes]]:
    """Cut a file into blocks of whole lines.

    Args:
        source: the file.
        findings: receives the faults.

    Yields:
        Blocks; and parts of lines that are too long, each with its byte offset.
    """
    rest = b""  # the beginning of a line that continues in the next block
    has_mark = source.head.startswith(BYTE_ORDER_MARK)
    offset = source.readinto(memoryview(bytearray(BYTE_ORDER_MARK))) if has_mark else 0
    in_long_line = ended = False
    while not ended:
        buffer = bytearray(BLOCK)
        count = source.readinto(memoryview(buffer))
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
            yield Block(lines, offset, findings)
            offset += len(lines)
        rest = data[cut:]
        if len(rest) > BLOCK:
            findings.add("line.too-long", offset, f"a line of more than {BLOCK:,} bytes")
            yield offset, rest
            offset += len(rest)
            rest, in_long_line = b"", True


_WIDTHS = (8, 16)
"""Numbers of this many digits are taken as padded with zeros; numbers of other lengths as not padded."""

_TRAITS = {
    "destroyed": re.compile(rb"^(thr dst(?= )|thr crt(?= [^ \r\n]+\r?$))", re.MULTILINE),
    "stack": re.compile(rb"^(sam str|str sam)(?= )", re.MULTILINE),
    "glued_flags": re.compile(rb"^gch gcs [^ \n]+ [^ \n]+ [^ \n]+ ([tf]{2,}|[tf](?= [tf]))", re.MULTILINE),
}


def detect(style: Style, data: bytes, *, first: bool) -> None:
    """Take the traits of a style that some whole lines show and that were not detected before.

    Args:
        style: the style, which is changed; the byte-order mark is not part of the lines.
        data: the lines.
        first: whether they begin the file.
    """
    if first and "file" not in style.detected:
        style.detected.add("file")
        end = data.find(b"\n")
        style.newline = "\r\n" if end > 0 and data[end - 1 : end] == b"\r" else "\n"
    for kind in NUMBER_KINDS:
        _detect_format(style, kind, data)
    for trait, pattern in _TRAITS.items():
        if trait not in style.detected and (match := pattern.search(data)):
            style.detected.add(trait)
            if trait == "glued_flags":
                style.glued_flags = len(match[1]) > 1
            else:
                setattr(style, trait, match[1].decode("ascii"))


def _detect_format(style: Style, kind: str, data: bytes) -> None:
    """Take the width of a kind of numbers from the first one, and the case from the first one with letters."""
    for trait, pattern in zip((f"{kind} size", f"{kind} case"), _number_patterns()[kind], strict=True):
        match = None if trait in style.detected else pattern.search(data)
        if match is None:
            continue
        style.detected.add(trait)
        text = match[match.lastindex or 0].decode("ascii")
        digits = text.removeprefix("0x")
        prefix, _, rest = style.formats[kind].partition("%")
        size, letter = rest[:-1], rest[-1]
        if trait.endswith("size"):
            prefix = "0x" if text.startswith("0x") else ""
            size = f"0{len(digits)}" if len(digits) in _WIDTHS else ""
        else:
            letter = "X" if digits == digits.upper() else "x"
        style.formats[kind] = f"{prefix}%{size}{letter}"


@cache
def _number_patterns() -> dict[str, tuple[re.Pattern[bytes], re.Pattern[bytes]]]:
    """Return patterns that find hexadecimal numbers of each kind in lines; the number is the only group that matches.

    Returns:
        For each of `NUMBER_KINDS`, a pattern for any such number, and one for those that have letters.
    """
    places: dict[str, list[str]] = {kind: [] for kind in NUMBER_KINDS}
    for tag, classes in TAGS.items():
        for cls in classes:
            layout = layout_of(cls)
            prefix = re.escape(tag.decode("ascii"))
            _add_places(places, prefix, layout.fields, "")
            for member in [*layout.members.values()][:1]:
                items = layout_of(member).fields
                prefix += "".join(map(_plain_pattern, layout.fields)) + r"(?: [^ \r\n]*+)*?"
                _add_places(places, prefix, items, r"(?=[ \r\n])")
    digits, with_letters = "[0-9A-Fa-f]++", "[0-9]*+[A-Fa-f][0-9A-Fa-f]*+"
    return {kind: (_any_of(texts, digits), _any_of(texts, with_letters)) for kind, texts in places.items()}


def _add_places(places: dict[str, list[str]], prefix: str, fields: tuple[ItemField, ...], end: str) -> None:
    """Add the patterns of the places of some items' numbers, with DIGITS in place of each number's digits."""
    for index, field in enumerate(fields):
        kind = getattr(field.item, "kind", "")
        if kind:
            before = "".join(map(_plain_pattern, fields[:index]))
            after = "".join(map(_plain_pattern, fields[index + 1 :])) if end else ""
            number = "(?:0x)?+" if isinstance(field.item, Pointer) else "0x"
            places[kind].append(f"{prefix}{before}{re.escape(field.item.separator)}({number}DIGITS){after}{end}")


def _plain_pattern(field: ItemField) -> str:
    """Return an item's pattern without a group."""
    whole = f"{re.escape(field.item.separator)}(?:{field.item.body})"
    return f"(?:{whole})?+" if field.item.optional else whole


def _any_of(texts: list[str], digits: str) -> re.Pattern[bytes]:
    text = "|".join(texts).replace("DIGITS", digits)
    return re.compile(f"^(?:{text})".encode("ascii"), re.MULTILINE)
