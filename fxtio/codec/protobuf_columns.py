"""Fields of many messages of protobuf at once, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio import _native
from fxtio._native.constants import FieldMark, FieldUse
from fxtio.arrays import Array
from fxtio.codec.protobuf import Wire, tag_of

Bytes = bytes | bytearray
UNUSUAL = np.uint64(1 << FieldMark.REPEATED | 1 << FieldMark.OTHER | 1 << FieldMark.DAMAGED)
"""The bits of `Fields.marks` of messages that have more than the columns say."""

_LOW = np.uint64(0xFFFF_FFFF)
_HIGH = np.uint64(32)


@dataclass(slots=True)
class Fields:
    """Fields of messages, as `_native.read_fields` reads them.

    Attributes:
        values: a row for each column, with the value of each message (uint64); 0 for those that do not have the field.
        marks: see `_native.read_fields`.
        listed_row: the message of each field that is listed (int64).
        listed: its value (uint64).
        position: the position after the last message, or of its first field that is damaged.
    """

    values: Array
    marks: Array
    listed_row: Array
    listed: Array
    position: int

    def has(self, column: int) -> Array:
        """Return which messages have the field of a column (bool)."""
        present: Array = (self.marks & np.uint64(1 << column)) != 0
        return present


class Layout:
    """The fields of a message that become columns.

    Args:
        columns: for each field, by its number, the number of its column, and how it is encoded; fields that share a
            column can only be told to be there.
        ignored: the fields that are passed over, in any encoding.
        listed: the field, of bytes, that is listed; None for none.
    """

    def __init__(
        self, columns: Mapping[Any, tuple[int, Wire]], ignored: Iterable[int] = (), listed: int | None = None
    ) -> None:
        self._count = max((column for column, _ in columns.values()), default=-1) + 1
        self._listed = listed
        most = max([*columns, *ignored, listed or 0])
        self._table = np.full((most + 1) * 8, FieldUse.OTHER, np.int8)
        for field in ignored:
            self._table[field * 8 : field * 8 + 8] = FieldUse.IGNORED
        for field, (column, wire) in columns.items():
            self._table[tag_of(field, wire)] = column
        if listed is not None:
            self._table[tag_of(listed, Wire.BYTES)] = FieldUse.LISTED

    def read(self, data: Bytes, begin: Array, end: Array) -> Fields:
        """Read messages, given by where they begin and end (int64)."""
        rows = len(begin)
        room = int((end - begin).sum()) // 2 if self._listed is not None else 0  # a field has at least two bytes
        values, marks = np.zeros((self._count, rows), np.uint64), np.empty(rows, np.uint64)
        listed_row, listed = np.empty(room, np.int64), np.empty(room, np.uint64)
        count, position = _native.read_fields(data, begin, end, self._table, values, marks, listed_row, listed)
        return Fields(values, marks, listed_row[:count], listed[:count], position)


def places(values: Array) -> tuple[Array, Array]:
    """Return where the bytes of fields begin and end (int64), given by their values."""
    begin = (values & _LOW).astype(np.int64)
    return begin, begin + (values >> _HIGH).astype(np.int64)
