"""The stand-in of the kernel that reads fields of many messages of protobuf, see `python`."""

from __future__ import annotations

from typing import Any

from fxtio._native.constants import FieldMark, FieldUse
from fxtio.arrays import Array

_VARINT, _FIXED64, _BYTES, _FIXED32, _MAX_VARINT = 0, 1, 2, 5, 10
_MASK = (1 << 64) - 1


def read_fields(
    data: Any, begin: Array, end: Array, table: Array, values: Array, marks: Array, listed_row: Array, listed: Array
) -> tuple[int, int]:
    """Read fields of messages to columns.

    The value of a field is a number, unsigned; of bytes it is where they begin, and their size times 2**32.

    Args:
        data: the bytes, fewer than 2**32.
        begin: where each message begins (int64).
        end: where it ends (int64).
        table: what becomes of each field by its tag (int8): the number of a column, which keeps the last value, or see
            `FieldUse`; tags beyond the table are `OTHER`.
        values: filled with the values of the fields of each column, then of the next one (uint64); not changed where
            there is none.
        marks: filled for each message with the bits of the columns that it has, and see `FieldMark` (uint64).
        listed_row: filled with the number of the message of each field that is listed (int64).
        listed: filled with its value (uint64).

    Returns:
        How many are listed, and the position after the last message, or of its first field that is damaged.

    Raises:
        ValueError: lengths differ, something is out of range, or there are more listed fields than room.
    """
    rows, room = len(begin), len(listed)
    columns = values.size // rows if rows else FieldMark.REPEATED
    if len(end) != rows or len(marks) != rows or len(listed_row) != room:
        raise ValueError("lengths differ")
    if len(data) >= 1 << 32 or columns > FieldMark.REPEATED:
        raise ValueError("too many bytes or columns")
    if int(table.max(initial=-1)) >= columns:
        raise ValueError("a field has no column")
    if rows and (int(begin.min()) < 0 or (begin > end).any() or int(end.max()) > len(data)):
        raise ValueError("a message is not within the bytes")
    content, uses, flat = bytes(data), table.tolist(), values.reshape(-1)
    found: list[tuple[int, int]] = []
    at = 0
    for row, (at, stop) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        mark = 0
        while at < stop:
            field = _field(content, at, stop)
            if field is None:
                mark |= 1 << FieldMark.DAMAGED
                break
            tag, value, at = field
            use = uses[tag] if tag < len(uses) else FieldUse.OTHER
            if use >= 0:
                mark |= 1 << (FieldMark.REPEATED if mark >> use & 1 else use)
                flat[use * rows + row] = value
            elif use == FieldUse.LISTED:
                if len(found) == room:
                    raise ValueError("there is no room")
                found.append((row, value))
            elif use == FieldUse.OTHER:
                mark |= 1 << FieldMark.OTHER
        marks[row] = mark
    for place, (row, value) in enumerate(found):
        listed_row[place], listed[place] = row, value
    return len(found), at


def _field(data: bytes, at: int, end: int) -> tuple[int, int, int] | None:
    """Return the tag of a field, its value and the position after it; None if it is no field or cut."""
    tag, at = _varint(data, at, end)
    kind = tag & 7
    if at < 0 or not tag >> 3:
        return None
    if kind == _VARINT:
        value, at = _varint(data, at, end)
        return None if at < 0 else (tag, value, at)
    if kind == _BYTES:
        size, at = _varint(data, at, end)
        return None if at < 0 or size > end - at else (tag, at | size << 32, at + size)
    width = {_FIXED64: 8, _FIXED32: 4}.get(kind)
    if width is None or width > end - at:
        return None
    return tag, int.from_bytes(data[at : at + width], "little"), at + width


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a number and the position after it, -1 if it is cut or too long."""
    value = 0
    for place in range(at, min(at + _MAX_VARINT, end)):
        byte = data[place]
        value |= (byte & 0x7F) << 7 * (place - at)
        if byte < 0x80:
            return value & _MASK, place + 1
    return 0, -1
