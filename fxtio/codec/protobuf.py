"""The wire format of protobuf: the few functions that take messages apart and put them together.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import IntEnum

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.byte_columns import ByteColumn, joined, sum_of_sizes
from fxtio.codec.integers import MAX_INT64

MAX_VARINT = 10
"""The most bytes of a number."""

_MODULUS = 1 << 64
_DOUBLE = struct.Struct("<d")


class Wire(IntEnum):
    """The encoding of the value of a field."""

    VARINT = 0
    "A number of 1 to 10 bytes."
    FIXED64 = 1
    "8 bytes."
    BYTES = 2
    "A length and this many bytes: text, a message, or packed numbers."
    FIXED32 = 5
    "4 bytes."


class WireError(ValueError):
    """An error: bytes are not a message.

    Attributes:
        offset: where the field begins that cannot be read.
    """

    def __init__(self, offset: int) -> None:
        super().__init__(f"no field of a message at byte {offset:,}")
        self.offset = offset


_WIRES = {int(wire): wire for wire in Wire}  # far faster than to call the class
_SHORT = [bytes([value]) for value in range(1 << 7)]


def tag_of(field: int, wire: int) -> int:
    """Return the number before the value of a field, which says what it is and how it is stored."""
    return field << 3 | wire


def varint(value: int) -> bytes:
    """Return a number of up to 64 bits; a negative one as the type int64 has it."""
    if 0 <= value < 1 << 7:
        return _SHORT[value]
    value %= _MODULUS
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def number_field(field: int, value: int) -> bytes:
    """Return a field with a number; nothing for 0, which is the default."""
    return varint(tag_of(field, Wire.VARINT)) + varint(value) if value else b""


def bytes_field(field: int, data: bytes) -> bytes:
    """Return a field with text or a message."""
    return varint(tag_of(field, Wire.BYTES)) + varint(len(data)) + data


def packed_field(field: int, values: Iterable[int]) -> bytes:
    """Return a field with several numbers."""
    return bytes_field(field, b"".join(map(varint, values)))


def fields(data: bytes | bytearray, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, Wire, int, int]]:
    """Yield the fields of a message.

    Yields:
        The number of the field, how it is stored, and the value of a number, as an unsigned one; or where the bytes
        begin and end.

    Raises:
        WireError: the bytes are not a message, or a cut one; what is before was yielded.
    """
    end = len(data) if end is None else end
    while begin < end:
        first = begin
        tag, begin = _varint(data, begin, end, first)
        kind = tag & 7
        if not tag >> 3:
            raise WireError(first)
        if kind == Wire.VARINT:
            value, begin = _varint(data, begin, end, first)
            yield tag >> 3, Wire.VARINT, value, begin
            continue
        if kind == Wire.BYTES:
            size, begin = _varint(data, begin, end, first)
        elif kind in (Wire.FIXED64, Wire.FIXED32):
            size = 8 if kind == Wire.FIXED64 else 4
        else:
            raise WireError(first)
        if size > end - begin:
            raise WireError(first)
        yield tag >> 3, _WIRES[kind], begin, begin + size
        begin += size


def size_of_field(data: bytes | bytearray) -> int:
    """Return the size of the field of bytes that begins here, which may be cut; 0 if it is not known yet.

    Raises:
        WireError: there is no such field.
    """
    if len(data) < 2 * MAX_VARINT:
        return 0
    tag, begin = _varint(data, 0, len(data), 0)
    size, begin = _varint(data, begin, len(data), 0)
    if tag & 7 != Wire.BYTES or not tag >> 3:
        raise WireError(0)
    return begin + size


MAX_FIELDS = 100_000
"""The most fields of a message that `Message` keeps."""

DAMAGED = "messages that are cut or damaged"
MANY = f"fields or numbers beyond {MAX_FIELDS:,} of a message"


class Message:
    """The fields of a message by their numbers; a field that comes several times has all of its values.

    Fields with another encoding than the one that is asked for count as missing.

    Args:
        data: bytes that contain the message.
        begin: where it begins.
        end: where it ends.
        losses: counts messages (this one and those in it) that are not sound, or have more than `MAX_FIELDS` fields or
            numbers in a field; what is before that place is kept.

    Attributes:
        data: the bytes.
        found: for each field the encodings, values and ends of its values, as `fields` yields them.
    """

    __slots__ = ("_losses", "data", "found")

    def __init__(self, data: bytes | bytearray, begin: int, end: int, losses: Counter[str]) -> None:
        self.data = data
        self._losses = losses
        self.found: dict[int, list[tuple[Wire, int, int]]] = {}
        left = MAX_FIELDS
        try:
            for field, wire, value, to in fields(data, begin, end):
                if not left:
                    losses[MANY] += 1
                    break
                left -= 1
                self.found.setdefault(field, []).append((wire, value, to))
        except WireError:
            losses[DAMAGED] += 1

    def __contains__(self, field: int) -> bool:
        return field in self.found

    def number(self, field: int, default: int = 0) -> int:
        """Return the last number of a field, unsigned."""
        for wire, value, _ in reversed(self.found.get(field, ())):
            if wire == Wire.VARINT:
                return value
        return default

    def signed(self, field: int, default: int = 0) -> int:
        """Return the last number of a field, of the type int64."""
        return signed(self.number(field, default % _MODULUS))

    def doubles(self, field: int) -> list[float]:
        """Return all doubles of a field."""
        return [_DOUBLE.unpack(each.to_bytes(8, "little"))[0] for each in self.numbers(field, Wire.FIXED64)]

    def numbers(self, field: int, kind: Wire = Wire.VARINT) -> list[int]:
        """Return all numbers of a field, unsigned: of varints or of 8 bytes each, packed or not."""
        values: list[int] = []
        for wire, value, end in self.found.get(field, ()):
            if len(values) >= MAX_FIELDS:
                self._losses[MANY] += 1
                break
            if wire == kind:
                values.append(value if kind == Wire.VARINT else int.from_bytes(self.data[value:end], "little"))
            elif wire != Wire.BYTES:
                continue
            elif kind == Wire.VARINT:
                last = min(end, value + MAX_FIELDS)
                self._losses[MANY] += last < end
                try:
                    values += numbers(self.data, value, last)
                except WireError:
                    self._losses[DAMAGED] += 1
            else:
                count, rest = divmod(end - value, 8)
                self._losses[MANY] += count > MAX_FIELDS
                values += struct.unpack_from(f"<{min(count, MAX_FIELDS)}Q", self.data, value)
                self._losses[DAMAGED] += rest > 0
        return values

    def texts(self, field: int) -> list[bytes]:
        """Return the bytes of all values of a field."""
        return [bytes(self.data[value:end]) for wire, value, end in self.found.get(field, ()) if wire == Wire.BYTES]

    def text(self, field: int) -> str | None:
        """Return the last text of a field, None if there is none; bytes that are not UTF-8 become surrogates."""
        for wire, value, end in reversed(self.found.get(field, ())):
            if wire == Wire.BYTES:
                return self.data[value:end].decode("utf-8", "surrogateescape")
        return None

    def messages(self, field: int) -> Iterator[Message]:
        """Yield the messages of a field."""
        for wire, value, end in self.found.get(field, ()):
            if wire == Wire.BYTES:
                yield Message(self.data, value, end, self._losses)

    def message(self, field: int) -> Message | None:
        """Return the last message of a field, None if there is none."""
        for wire, value, end in reversed(self.found.get(field, ())):
            if wire == Wire.BYTES:
                return Message(self.data, value, end, self._losses)
        return None


def numbers(data: bytes | bytearray, begin: int, end: int) -> list[int]:
    """Return packed numbers, unsigned.

    Raises:
        WireError: the last number is cut, or a number is too long.
    """
    values = []
    while begin < end:
        value, begin = _varint(data, begin, end, begin)
        values.append(value)
    return values


def signed(value: int) -> int:
    """Return the number of the type int64 that is stored as an unsigned one."""
    return value - _MODULUS if value > MAX_INT64 else value


def _varint(data: bytes | bytearray, begin: int, end: int, first: int) -> tuple[int, int]:
    """Return a number and the position after it; `first` is where its field begins."""
    if begin >= end:
        raise WireError(first)
    byte = data[begin]
    if byte < 0x80:
        return byte, begin + 1
    value = byte & 0x7F
    for position in range(begin + 1, min(begin + MAX_VARINT, end)):
        byte = data[position]
        value |= (byte & 0x7F) << 7 * (position - begin)
        if byte < 0x80:
            return value % _MODULUS, position + 1
    raise WireError(first)


# Columns: a field of each row.

_LAST = np.uint8(0x7F)
"""The highest byte of a number that is its last one."""


def varints(field: int, values: Array, *, with_zero: bool = False) -> ByteColumn:
    """Return a field with a number for each row (integers; a negative one as the type int64 has it).

    Args:
        field: the number of the field.
        values: the numbers.
        with_zero: 0 is written, too; otherwise the row has no field then, since 0 is the default.
    """
    column = _varints(varint(tag_of(field, Wire.VARINT)), values)
    if not with_zero:
        column.size[values == 0] = 0
    return column


def lengths(field: int, sizes: Array) -> ByteColumn:
    """Return the start of a field with text or a message for each row: all but its bytes, whose number is given."""
    return _varints(varint(tag_of(field, Wire.BYTES)), sizes)


def messages(field: int, *columns: ByteColumn) -> ByteColumn:
    """Return a field with a message for each row, of which the fields are given in columns."""
    count = len(columns[0])
    return joined(count, lengths(field, sum_of_sizes(count, *columns)), *columns)


def doubles(field: int, values: Array) -> ByteColumn:
    """Return a field with a double for each row (float64)."""
    tag = varint(tag_of(field, Wire.FIXED64))
    table = _tagged(tag, len(values), 8)
    table[:, len(tag) :] = values.astype("<f8").view(np.uint8).reshape(-1, 8)
    return _rows(table, np.full(len(values), table.shape[1], np.int64))


def _varints(tag: bytes, values: Array) -> ByteColumn:
    """Return the same bytes and a number for each row."""
    rest = values.astype(np.int64, copy=False).view(np.uint64) if values.dtype != np.uint64 else values
    width = -(-max(int(rest.max(initial=0)).bit_length(), 1) // 7)
    table = _tagged(tag, len(rest), width)
    size = np.full(len(rest), len(tag) + 1)
    for place in range(len(tag), len(tag) + width):
        goes_on = rest > _LAST
        table[:, place] = rest.astype(np.uint8) & _LAST | goes_on.view(np.uint8) << 7
        size += goes_on
        rest = rest >> np.uint64(7)
    return _rows(table, size)


def _tagged(tag: bytes, count: int, width: int) -> Array:
    table = np.empty((count, len(tag) + width), np.uint8)
    table[:, : len(tag)] = np.frombuffer(tag, np.uint8)
    return table


def _rows(table: Array, size: Array) -> ByteColumn:
    return ByteColumn(table.reshape(-1), np.arange(len(table)) * table.shape[1], size)
