"""Where lines begin and end, and how a block of them becomes records: most by columns, the odd ones one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fxtio.codec.record import Opaque
from fxtio.coreprofiler.columns import FAMILIES, Lines, columns_of
from fxtio.coreprofiler.lines import Fault, decode, encode
from fxtio.coreprofiler.records import TAGS
from fxtio.coreprofiler.style import Style
from fxtio.coreprofiler.values import columns_from, joined, lists_of
from fxtio.errors import EncodeError
from fxtio.finding import Findings, Level
from fxtio.io.source import Source

Array = np.ndarray[Any, Any]

BLOCK = 1 << 21
"""Bytes that are looked at together.  A longer line is no record."""

MOST_LINES = 1 << 16
"""So many lines are looked at together."""

MARK = b"\xef\xbb\xbf"
"""The byte-order mark."""

_EACH = 20  # lines that are told of one by one; the rest of a block is counted


class Block:
    """Some lines.

    Args:
        data: the lines; the last of a file may lack its end.
        base: the byte offset of the first.
        findings: takes what is wrong with them.

    Attributes:
        base: the byte offset of the first line.
        data: the lines.
        lines: the same, indexed.
    """

    def __init__(self, data: bytes, base: int, findings: Findings) -> None:
        self.base = base
        self.data = data
        self._findings = findings
        self.lines = Lines(data)
        self.single: dict[int, Any] = {}
        "Records that were read one by one, by their rows."
        self._groups: dict[type[Any], tuple[Array, dict[str, Any]]] = {}
        self._read()

    def __len__(self) -> int:
        return len(self.lines)

    def offsets(self) -> Array:
        """The byte offsets of the lines."""
        return self.lines.offsets() + self.base

    def classes(self) -> set[type[Any]]:
        """The classes of the records."""
        return self._groups.keys() | {type(one) for one in self.single.values()}

    def columns(self, cls: type[Any]) -> tuple[Array, dict[str, Any]]:
        """All records of a class: their rows and columns."""
        singles = {row: one for row, one in self.single.items() if type(one) is cls}
        if not singles:
            if cls in self._groups:
                return self._groups[cls]
            return np.empty(0, np.int64), columns_from(cls, [])
        rows, columns = np.array(list(singles), np.int64), columns_from(cls, list(singles.values()))
        if cls in self._groups:
            others, more = self._groups[cls]
            rows = np.concatenate([others, rows])
            columns = {name: joined(more[name], column) for name, column in columns.items()}
        order = np.argsort(rows, kind="stable")
        return rows[order], {name: column[order] for name, column in columns.items()}

    def records(self) -> list[Any]:
        """The records in the order of the lines; `Opaque` where a line is none."""
        out = np.full(len(self.lines), None, object)
        for cls, (rows, columns) in self._groups.items():
            made = list(map(cls, *lists_of(cls, columns)))
            if len(rows) == len(out):
                return made
            out[rows] = made
        for row, one in self.single.items():
            out[row] = one
        result: list[Any] = out.tolist()
        for row, one in enumerate(result):
            if one is None:
                result[row] = Opaque(self.lines.raw(row))
        return result

    def exact(self, style: Style) -> Iterator[Any]:
        """The records as from `records`; `Opaque` where the style would give other bytes."""
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
                self._unknown(rows)
                continue
            cls = TAGS[FAMILIES[number]][0]
            columns, good = columns_of(lines, cls, rows)
            if not good.all():
                self._one_by_one(rows[~good])
                kept = np.flatnonzero(good)
                rows, columns = rows[kept], {name: column[kept] for name, column in columns.items()}
            if cls in self._groups and len(rows):  # of another spelling
                others, more = self._groups[cls]
                rows = np.concatenate([others, rows])
                order = np.argsort(rows, kind="stable")
                rows, columns = rows[order], {name: joined(more[name], columns[name])[order] for name in columns}
            if len(rows):
                self._groups[cls] = rows, columns
        if self.data[-1:] != b"\n":
            end = self.base + len(self.data)
            self._findings.add("no-line-end", end, "the last line has no end; it may be cut", level=Level.WARNING)

    def _one_by_one(self, rows: Array) -> None:
        for row in rows.tolist():
            found = decode(self.lines.line(row))
            if isinstance(found, Fault):
                self._findings.add(found.rule, self.base + self.lines.offset(row), found.message)
            else:
                self.single[row] = found

    def _unknown(self, rows: Array) -> None:
        offsets = self.offsets()[rows]
        for row, offset in zip(rows[:_EACH].tolist(), offsets.tolist(), strict=False):
            line = self.lines.line(row)[:40].decode("utf-8", "backslashreplace")
            self._findings.add("unknown-line", offset, f"no known record begins with {line!r}", level=Level.WARNING)
        if len(rows) > _EACH:
            told, rest = "no known record", len(rows) - _EACH
            self._findings.add("unknown-line", int(offsets[_EACH]), told, level=Level.WARNING, times=rest)


def _parts(data: bytes) -> list[bytes]:
    """The same lines in parts of at most `MOST_LINES`: what is kept of a line does not depend on its length."""
    middle = data.rfind(b"\n", 0, len(data) // 2) + 1
    if data.count(b"\n") <= MOST_LINES or middle == 0:
        return [data] if data else []
    return _parts(data[:middle]) + _parts(data[middle:])


class Framer:
    """Cuts a file into blocks of whole lines.

    Args:
        source: where it comes from.
        findings: takes what is wrong.
    """

    def __init__(self, source: Source, findings: Findings) -> None:
        self._source = source
        self._findings = findings

    def __iter__(self) -> Iterator[Block | tuple[int, bytes]]:
        """Blocks; and pieces of lines that are too long, each with its byte offset."""
        held = b""  # the beginning of a line
        at = self._behind_mark()
        long = False  # within a line that is too long
        while True:
            piece = bytearray(BLOCK)
            count = self._source.readinto(memoryview(piece))
            ended = count < BLOCK
            data = held + piece[:count]
            if long:
                cut = data.find(b"\n") + 1
                long = cut == 0 and not ended
                if cut or data:
                    yield at, data[: cut or len(data)]
                at += cut or len(data)
                data = data[cut or len(data) :]
            cut = len(data) if ended else data.rfind(b"\n") + 1
            for lines in _parts(data[:cut]):
                yield Block(lines, at, self._findings)
                at += len(lines)
            held = data[cut:]
            if ended:
                return
            if len(held) > BLOCK:
                self._findings.add("line-too-long", at, f"a line of more than {BLOCK:,} bytes")
                yield at, held
                at += len(held)
                held, long = b"", True

    def _behind_mark(self) -> int:
        """Go behind a byte-order mark; how many bytes it has."""
        marked = self._source.head.startswith(MARK)
        return self._source.readinto(memoryview(bytearray(MARK))) if marked else 0
