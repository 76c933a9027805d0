"""Decoders of records whose results can be compared: the generated codec and the numpy columns.

`scalar` is the generated codec; `vector` takes the columns apart again, one plain Python step at a time; `rewritten`
sends the columns back to bytes.  `plain` makes values comparable: floats by their bits.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import numpy as np

from fxtio.arrays import Array, ranges
from fxtio.codec.columns import (
    Block,
    Columns,
    ManyColumn,
    Members,
    OptionalColumn,
    StreamColumn,
    WordsColumn,
    columns_of,
    members_of,
)
from fxtio.codec.encode_columns import ManyWords, Ragged, words_of
from fxtio.codec.generate import Faults, Order, decode
from fxtio.codec.parts import Stream
from fxtio.codec.record import Opaque, Record, TaggedUnion, layout_of
from fxtio.errors import DecodeError
from fxtio.fxt.records import ARGUMENTS, RECORDS, Thread
from fxtio.fxt.reference_columns import StringColumn, ThreadColumn


def plain(value: Any) -> Any:
    """Return a record as nested tuples, floats as their bits: a NaN equals itself, and 0.0 differs from -0.0."""
    if isinstance(value, float):
        return ("float", struct.pack("<d", value))
    if isinstance(value, tuple | list):
        return tuple([plain(item) for item in value])
    if isinstance(value, msgspec.Struct):
        return (type(value).__name__, *[plain(field) for field in msgspec.structs.astuple(value)])
    return value


def native(data: bytes, order: Order) -> list[int]:
    """Return the words of a trace as ints."""
    return [int.from_bytes(data[at : at + 8], order) for at in range(0, len(data), 8)]


def scalar(data: bytes, order: Order, faults: Faults | None = None, union: TaggedUnion = RECORDS) -> Any:
    """Decode bytes with the generated codec; return None for a record that cannot be delivered."""
    try:
        return decode(union, native(data, order), data, 0, len(data) // 8, [] if faults is None else faults)
    except DecodeError:
        return None


def block_of(data: bytes, order: Order) -> Block:
    """Return bytes as a block, which is what readers decode."""
    raw = np.frombuffer(data, np.uint64)
    return Block(raw.byteswap() if order == "big" else raw, raw)


class Vector:
    """Many records of one class, decoded with numpy.

    Attributes:
        good: for each record, whether it can be delivered.
        columns: the columns of the records that can be delivered.
        members: their arguments, by field.
    """

    def __init__(self, cls: type[Record], data: list[bytes], order: Order) -> None:
        self.cls = cls
        self.block = block_of(b"".join(data), order)
        size = np.array([len(raw) // 8 for raw in data], np.int64)
        at = np.cumsum(size) - size
        columns, bad = columns_of(cls, self.block, at, size)
        self.good = np.ones(len(data), bool) if bad is None else ~bad
        if bad is not None:
            columns, still_bad = columns_of(cls, self.block, at[~bad], size[~bad])
            assert still_bad is None, "good records alone cannot be bad"
        self.columns: Columns = columns
        self.members: dict[str, Members] = {
            name: members_of(ARGUMENTS, self.block, column)
            for name, column in columns.items()
            if isinstance(column, ManyColumn)
        }

    def records(self) -> list[Any]:
        """Return the records as objects, None for those that cannot be delivered."""
        count = int(self.good.sum())
        lists = [self._values(name, column, count) for name, column in self.columns.items()]
        records = iter([self.cls(*values) for values in zip(*lists, strict=True)] if lists else [self.cls()] * count)
        return [next(records) if good else None for good in self.good.tolist()]

    def faults(self) -> list[list[str]]:
        """Return, for every record that is delivered, the rules that its arguments broke, sorted."""
        rules_by_record: list[list[str]] = [[] for _ in range(int(self.good.sum()))]
        for members in self.members.values():
            for row in members.short.tolist():
                rules_by_record[row].append("arg.short")
            for row in members.many.broken.tolist():
                rules_by_record[row].append("arg.size")
        return [sorted(rules) for rules in rules_by_record]

    def rewritten(self) -> bytes:
        """Encode the columns of the good records, little-endian."""
        columns = {**self.columns, **{name: self._bodies(members) for name, members in self.members.items()}}
        return words_of(self.cls, int(self.good.sum()), columns).words.tobytes()

    def _values(self, name: str, column: Any, count: int) -> list[Any]:
        if isinstance(column, ManyColumn):
            return self._arguments(self.members[name])
        part = dict(layout_of(self.cls).parts)[name]
        return values_of(column, count, text=isinstance(part, Stream) and part.text)

    def _arguments(self, members: Members) -> list[Any]:
        many = members.many
        flat: list[Any] = [None] * len(many.at)
        for kind, rows, columns in members.groups:
            numbers = np.arange(len(flat))[rows].tolist()
            group = self._group(many, kind, rows, columns, len(numbers))
            for number, argument in zip(numbers, group, strict=True):
                flat[number] = argument
        ends = np.cumsum(many.count).tolist()
        return [tuple(flat[end - count : end]) for end, count in zip(ends, many.count.tolist(), strict=True)]

    def _group(self, many: ManyColumn, kind: int, rows: Array | slice, columns: Columns, count: int) -> list[Any]:
        if kind < 0:
            data = self.block.data
            spans = zip(many.at[rows].tolist(), many.size[rows].tolist(), strict=True)
            return [Opaque(bytes(data[a * 8 : (a + n) * 8])) for a, n in spans]
        cls = ARGUMENTS.classes[kind]
        parts = dict(layout_of(cls).parts)
        lists = [values_of(column, count, text=getattr(parts[name], "text", False)) for name, column in columns.items()]
        return [cls(*values) for values in zip(*lists, strict=True)]

    def _bodies(self, members: Members) -> ManyWords:
        """Encode arguments from their columns, row by row."""
        many = members.many
        count = np.zeros(len(many.at), np.int64)
        bodies = []
        for kind, selection, columns in members.groups:
            rows = np.arange(len(many.at))[selection]
            if kind < 0:
                count[rows] = many.size[selection]
                words = self.block.words[ranges(many.at[selection], many.size[selection])]
            else:
                body = words_of(ARGUMENTS.classes[kind], len(rows), columns)
                count[rows], words = body.count, body.words
            bodies.append((rows, words))
        begin = np.cumsum(count) - count
        flat = np.empty(int(count.sum()), np.uint64)
        for rows, words in bodies:
            flat[ranges(begin[rows], count[rows])] = words
        owner = np.repeat(np.arange(len(many.count)), many.count)
        widths = np.bincount(owner, weights=count, minlength=len(many.count)).astype(np.int64)
        return ManyWords(many.count, Ragged(flat, widths))


def values_of(column: Any, count: int, *, text: bool) -> list[Any]:
    """Return a column as the list of values that the scalar codec would give, references unresolved."""
    if isinstance(column, np.ndarray):
        listed: list[Any] = column.tolist()
        return listed
    if isinstance(column, StreamColumn):
        raw = column.to_bytes()
        return [text_bytes.decode("utf-8", "surrogateescape") for text_bytes in raw] if text else raw
    if isinstance(column, OptionalColumn):
        pairs = zip(column.values.tolist(), column.present.tolist(), strict=True)
        return [value if present else None for value, present in pairs]
    if isinstance(column, WordsColumn):
        spans = zip(column.at.tolist(), column.count.tolist(), strict=True)
        return [tuple(column.words[a : a + n].tolist()) for a, n in spans]
    values: list[Any] = column.slot.tolist()
    assert len(values) == count
    if isinstance(column, StringColumn):
        for row, text_bytes in zip(column.rows.tolist(), column.stream.to_bytes(), strict=True):
            values[row] = text_bytes.decode("utf-8", "surrogateescape")
        return values
    assert isinstance(column, ThreadColumn)
    koids = zip(column.process.tolist(), column.thread.tolist(), column.has_thread.tolist(), strict=True)
    for row, (process, thread, has_thread) in zip(column.rows.tolist(), koids, strict=True):
        values[row] = Thread(process, thread if has_thread else None)
    return values
