"""Encode columns to the words of many records, with numpy and without a Python loop over the records.

This is the inverse of `columns`.  Every part becomes a `Ragged`: some words for each row.  `interleave` puts the parts
of each row side by side, as one matrix if all rows have the same size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from fxtio.arrays import Array, ranges
from fxtio.codec.columns import Columns, OptionalColumn, StreamColumn, WordsColumn
from fxtio.codec.parts import Header, Many, Number, Part, Sized, Stream, Words
from fxtio.codec.record import SIZE, Layout, Record, layout_of, load_extensions
from fxtio.errors import EncodeError


@dataclass(frozen=True, slots=True)
class Ragged:
    """Words of many rows, one row after the other.

    Attributes:
        words: the words of all rows (uint64).
        count: the number of words of a row: an int for all rows, or int64 per row.
    """

    words: Array
    count: int | Array


@dataclass(frozen=True, slots=True)
class ManyWords:
    """Encoded small records, the column of a `Many` part.

    Attributes:
        count: the number of small records of a row: an int for all rows, or int64 per row.
        body: their words.
    """

    count: int | Array
    body: Ragged


def words_of(cls: type[Record], rows: int, columns: Columns) -> Ragged:
    """Encode many records of one class.

    Args:
        cls: the class.
        rows: the number of records.
        columns: for every field what `columns_of` returns: an array (or one int for all rows), or the column class
            of its part.  A reference given as an array of ints is a slot.  Arguments are `ManyWords`.

    Returns:
        The records' words as native integers; byte streams are in them as in a little-endian trace.

    Raises:
        EncodeError: a value does not fit.
    """
    load_extensions(cls)
    layout = layout_of(cls)
    if not rows:
        return Ragged(np.empty(0, np.uint64), 0)
    header: Columns = {}
    body: list[Ragged] = []
    for name, part in layout.parts:
        body += put_part(part, columns[name], rows, header, f"{cls.__name__}.{name}")
    width: int | Array = len(layout.words)
    for column in body:
        width = width + column.count
    return interleave([*_header(layout, header, width, rows), *body], rows)


def _header(layout: Layout, values: Columns, size: int | Array, rows: int) -> list[Ragged]:
    """Return the header words, made of the fields in `values` and of the records' sizes in words."""
    headers = []
    for word in layout.words:
        names = [field.name for field in word.fields.values() if field.role == "bits"]
        chosen = {name: size if name == SIZE else values[name] for name in names}
        packed = word(**chosen).value
        headers.append(Ragged(np.full(rows, packed, np.uint64) if isinstance(packed, int) else packed, 1))
    return headers


def interleave(columns: Sequence[Ragged], rows: int) -> Ragged:
    """Put the words that several columns have for each row side by side."""
    counts = [column.count for column in columns]
    if all(isinstance(count, int) for count in counts):
        total = sum(count for count in counts if isinstance(count, int))
        out = np.empty((rows, total), np.uint64)
        begin = 0
        for column in columns:
            assert isinstance(column.count, int)
            out[:, begin : begin + column.count] = column.words.reshape(rows, column.count)
            begin += column.count
        return Ragged(out.reshape(-1), total)
    width = np.zeros(rows, np.int64)
    for count in counts:
        width += count
    flat = np.empty(int(width.sum()), np.uint64)
    here = np.cumsum(width) - width
    for column in columns:
        flat[ranges(here, np.broadcast_to(column.count, rows))] = column.words
        here = here + column.count
    return Ragged(flat, width)


@singledispatch
def put_part(part: Part, column: Any, rows: int, header: Columns, where: str) -> list[Ragged]:
    """Return the words of one part, and set the header fields that it owns.

    Args:
        part: the part.
        column: its column, see `words_of`.
        rows: the number of records.
        header: takes the header fields.
        where: the record's class and field, for messages.

    Raises:
        EncodeError: a value does not fit.
    """
    raise TypeError(f"{type(part).__name__} has no numpy encoder")


@put_part.register
def _(part: Header, column: Any, rows: int, header: Columns, where: str) -> list[Ragged]:
    header[part.field.name] = column
    return []


@put_part.register
def _(part: Number, column: Any, rows: int, header: Columns, where: str) -> list[Ragged]:
    if isinstance(column, OptionalColumn):
        return [Ragged(column.values[column.present], column.present.astype(np.int64))]
    if part.optional and column is None:
        return [Ragged(np.empty(0, np.uint64), 0)]
    # From here on every row has exactly one word, whose bits are those of its value.
    values = np.broadcast_to(np.asarray(column), rows)
    if part.kind == "f":
        return [Ragged(values.astype(np.float64).view(np.uint64), 1)]
    if values.dtype.kind not in "iu":
        raise EncodeError(f"a column of {values.dtype} is no column of integers", where)
    if part.kind == "u" and values.dtype.kind == "i" and rows and int(values.min()) < 0:
        raise EncodeError(f"{int(values.min())} is negative", where)
    if part.kind == "i" and values.dtype == np.uint64 and rows and int(values.max()) >> 63:
        raise EncodeError(f"{int(values.max())} is no signed 64-bit integer", where)
    unsigned = values.dtype.kind == "u"
    return [Ragged(values.astype(np.uint64) if unsigned else values.astype(np.int64).view(np.uint64), 1)]


@put_part.register
def _(part: Stream, column: Any, rows: int, header: Columns, where: str) -> list[Ragged]:
    header[part.size] = column.length
    if part.max_bytes is not None:
        check_text(column.length, part.max_bytes, where)
    return [padded(column)]


@put_part.register
def _(part: Sized, column: Any, rows: int, header: Columns, where: str) -> list[Ragged]:
    return [Ragged(column.length.astype(np.uint64), 1), padded(column)]


@put_part.register
def _(part: Words, column: Any, rows: int, header: Columns, where: str) -> list[Ragged]:
    assert isinstance(column, WordsColumn)
    header[part.count] = column.count
    return [Ragged(column.words[ranges(column.at, column.count)], column.count)]


@put_part.register
def _(part: Many, column: Any, rows: int, header: Columns, where: str) -> list[Ragged]:
    assert isinstance(column, ManyWords)
    header[part.count] = column.count
    return [column.body]


def check_text(length: Array, limit: int, where: str) -> None:
    """Check the lengths of texts in bytes.

    Raises:
        EncodeError: one of them is over the limit.
    """
    if len(length) and int(length.max()) > limit:
        raise EncodeError(f"{int(length.max()):,} bytes of text are over the limit of {limit:,}", where)


def padded(stream: StreamColumn) -> Ragged:
    """Return the words of byte streams, with zeros after the last byte of each."""
    count = stream.length + 7 >> 3
    words: Array = stream.raw[ranges(stream.at, count)]
    last = np.cumsum(count)[count > 0] - 1
    spare = ((count * 8 - stream.length)[count > 0] * 8).astype(np.uint64)
    words[last] &= np.uint64(0xFFFF_FFFF_FFFF_FFFF) >> spare
    return Ragged(words, count)


def streams(values: Sequence[bytes]) -> StreamColumn:
    """Return byte strings as a column."""
    length = np.array([len(value) for value in values], np.int64)
    count = length + 7 >> 3
    joined = b"".join([value + bytes(-len(value) % 8) for value in values])
    return StreamColumn(np.frombuffer(joined, np.uint64), np.cumsum(count) - count, length)
