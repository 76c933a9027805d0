"""Payloads to columns: the values of many entries or exits at once, with numpy.

A row for each value, in the order of the records.  Records whose payloads hold the same things are taken together, one
value after the other; a cursor for each record passes over strings, which differ in length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio import _native
from fxtio.codec.columns import StreamColumn
from fxtio.codec.names import Names
from fxtio.uftrace import arguments
from fxtio.uftrace.argspec import Value, Values
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.layout import RecordWord
from fxtio.uftrace.stream import Chunk

Array = np.ndarray[Any, Any]

_FIELDS = RecordWord.fields
FORMATS = "diuxocpefsSt"
"""The letters of the formats, by code."""

_HEADER = 16
_NULL = arguments.NULL.decode("utf-8", "surrogateescape")


@dataclass(slots=True)
class ValueColumns:
    """The values of a chunk's payloads.

    Attributes:
        row: the record in the chunk (int64).
        label: code in `names` of such as `arg1` (int32).
        format: code in `FORMATS` (int8).
        bits: an integer, sign-extended, or a double, as 64 bits (uint64); 0 for texts and structures.
        text: code in `names` of a text, else -1 (int32).
    """

    row: Array
    label: Array
    format: Array
    bits: Array
    text: Array


class _Bytes:
    """The bytes of a block in the widths that values have; every value begins at a multiple of 4."""

    def __init__(self, chunk: Chunk) -> None:
        self.name = chunk.order
        self.order = "<" if chunk.order == "little" else ">"
        self.bytes = np.concatenate([chunk.block.raw.view(np.uint8), np.zeros(32, np.uint8)])
        self.last = len(self.bytes) - _HEADER

    def integers(self, at: Array, size: int, *, signed: bool) -> Array:
        """Integers of 1, 2, 4 or 8 bytes, as 64 bits."""
        kind = "i" if signed else "u"
        if size == 8:
            return self._wide(at, f"{self.order}u8")
        values: Array = self.bytes.view(f"{self.order}{kind}{size}")[at // size]
        return values.astype(np.int64 if signed else np.uint64).view(np.uint64)

    def _wide(self, at: Array, dtype: str) -> Array:
        halves = self.bytes.view(np.uint32)
        pairs = np.stack([halves[at // 4], halves[at // 4 + 1]], axis=1)
        values: Array = pairs.view(dtype)[:, 0].astype(np.uint64)
        return values

    def floats(self, at: Array, size: int) -> Array:
        """Numbers of 4, 8 or 10 bytes, as the 64 bits of doubles."""
        if size == 8:
            return self._wide(at, f"{self.order}u8")
        if size == 4:
            singles: Array = self.bytes.view(f"{self.order}f4")[at // 4]
            return singles.astype(np.float64).view(np.uint64)
        rows = [self.bytes[one : one + size].tobytes() for one in at.tolist()]
        value = Value("fparg", 1, "f", size)
        return np.array([arguments.decode((value,), raw, self.name)[0] for raw in rows], np.float64).view(np.uint64)

    def texts(self, at: Array, length: Array, names: Names) -> Array:
        """Codes of texts (int32), -1 for null."""
        codes = np.empty(len(at), np.int32)
        for shift in np.unique(at % 8).tolist():
            rows = np.flatnonzero(at % 8 == shift)
            words = self.bytes[shift : shift + (len(self.bytes) - 8) // 8 * 8].view(np.uint64)
            codes[rows] = names.codes(StreamColumn(words, at[rows] // 8, length[rows]))
        return np.where(codes == names.code(_NULL), np.int32(-1), codes)


def values_of(chunk: Chunk, names: Names) -> ValueColumns | None:
    """The values of a chunk's payloads, or None where there are none."""
    words = chunk.words
    kinds = _FIELDS["type"].get(words)
    calls = (kinds == RecordType.ENTRY) | (kinds == RecordType.EXIT)
    rows = np.flatnonzero((_FIELDS["more"].get(words) != 0) & calls)
    if not len(rows) or not chunk.told:
        return None
    leaves = (kinds[rows] == RecordType.EXIT).astype(np.uint64)
    key = _FIELDS["address"].get(words[rows]) * np.uint64(2) + leaves
    codes, first = np.empty(len(rows), np.int32), np.empty(len(rows), np.int64)
    count = _native.distinct(key, codes, first, arguments.SEED)
    groups: dict[Values, list[int]] = {}
    for code, both in enumerate(key[first[:count]].tolist()):
        address, leave = divmod(both, 2)
        groups.setdefault(chunk.space.values_at(address, leave=bool(leave)), []).append(code)
    data = _Bytes(chunk)
    made = []
    for values, mine in groups.items():
        if values:
            chosen = rows if len(groups) == 1 else rows[np.isin(codes, np.array(mine, np.int32))]
            made.append(_group(data, chunk, values, chosen, names))
    return _in_order(made) if made else None


def _group(data: _Bytes, chunk: Chunk, values: Values, rows: Array, names: Names) -> ValueColumns:
    """The values of records whose payloads hold the same."""
    at = chunk.at[rows] * 8 + _HEADER
    shape = (len(rows), len(values))
    bits, text = np.zeros(shape, np.uint64), np.full(shape, -1, np.int32)
    for number, value in enumerate(values):
        here = np.minimum(at, data.last)  # the kernel has seen that all of it is there
        size: int | Array = value.size
        if value.is_text:
            length = data.integers(here, 2, signed=False).astype(np.int64)
            text[:, number] = data.texts(here + 2, length, names)
            size = length + 2
        elif value.format == "f":
            bits[:, number] = data.floats(here, value.size)
        elif value.format != "t":
            bits[:, number] = data.integers(here, value.size, signed=value.format in "di")
        at = at + (size + 3) // 4 * 4
    label = np.array([names.code(value.label) for value in values], np.int32)
    form = np.array([FORMATS.index(value.format) for value in values], np.int8)
    return ValueColumns(
        np.repeat(rows, shape[1]), np.tile(label, shape[0]), np.tile(form, shape[0]), bits.reshape(-1), text.reshape(-1)
    )


def _in_order(pieces: list[ValueColumns]) -> ValueColumns:
    if len(pieces) == 1:
        return pieces[0]
    row = np.concatenate([piece.row for piece in pieces])
    order = np.argsort(row, kind="stable")
    return ValueColumns(
        row[order],
        np.concatenate([piece.label for piece in pieces])[order],
        np.concatenate([piece.format for piece in pieces])[order],
        np.concatenate([piece.bits for piece in pieces])[order],
        np.concatenate([piece.text for piece in pieces])[order],
    )
