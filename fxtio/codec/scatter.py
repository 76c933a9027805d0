"""Columns to the bytes of many records: the way back from `columns`, with numpy and no Python loop per record.

Every part becomes a `Ragged`: some words for each row.  `interleave` lays the parts of each row side by side, as one
matrix where all rows have the same size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.codec.columns import Columns, KoidsColumn, OptionalColumn, RestColumn, StreamColumn, TextColumn, WordsColumn
from fxtio.codec.parts import MAX_TEXT, Header, Koids, Many, Number, Part, Rest, Sized, Stream, Text, Words
from fxtio.codec.record import SIZE, Layout, Record, layout_of
from fxtio.errors import EncodeError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Ragged:
    """Words of many rows, one row behind the other.

    Attributes:
        words: all words (uint64).
        count: how many each row has: one int for all rows, or int64 per row.
    """

    words: Array
    count: int | Array


@dataclass(frozen=True, slots=True)
class ManyWords:
    """Encoded small records, for a `Many` part: how many each row has (int or int64 per row), and their words."""

    found: int | Array
    body: Ragged


def words_of(cls: type[Record], rows: int, columns: Columns) -> Ragged:
    """Encode many records of one class.

    Args:
        cls: the class.
        rows: how many.
        columns: for every field what `columns_of` gives: an array (or one int for all rows), or the column class of
            its part.  A reference that is an array of ints is a slot.  Arguments are `ManyWords`.

    Returns:
        The records' words, native integers; streams lie in them as in a little-endian trace.

    Raises:
        EncodeError: a value does not fit.
    """
    layout = layout_of(cls)
    if not rows:
        return Ragged(np.empty(0, np.uint64), 0)
    header: Columns = {}
    pieces: list[Ragged] = []
    for name, part in layout.parts:
        pieces += _pieces(part, columns[name], rows, header, f"{cls.__name__}.{name}")
    width: int | Array = len(layout.words)
    for piece in pieces:
        width = width + piece.count
    return interleave([*_header(layout, header, width, rows), *pieces], rows)


def _header(layout: Layout, values: Columns, size: int | Array, rows: int) -> list[Ragged]:
    made = []
    for word in layout.words:
        names = [field.name for field in word.fields.values() if field.role == "bits"]
        chosen = {name: size if name == SIZE else values[name] for name in names}
        packed = word(**chosen).value
        made.append(Ragged(np.full(rows, packed, np.uint64) if isinstance(packed, int) else packed, 1))
    return made


def interleave(pieces: Sequence[Ragged], rows: int) -> Ragged:
    """The pieces of each row side by side."""
    counts = [piece.count for piece in pieces]
    if all(isinstance(count, int) for count in counts):
        total = sum(count for count in counts if isinstance(count, int))
        out = np.empty((rows, total), np.uint64)
        begin = 0
        for piece in pieces:
            assert isinstance(piece.count, int)
            out[:, begin : begin + piece.count] = piece.words.reshape(rows, piece.count)
            begin += piece.count
        return Ragged(out.reshape(-1), total)
    width = np.zeros(rows, np.int64)
    for count in counts:
        width += count
    flat = np.empty(int(width.sum()), np.uint64)
    here = np.cumsum(width) - width
    for piece in pieces:
        flat[ranges(here, np.broadcast_to(piece.count, rows))] = piece.words
        here = here + piece.count
    return Ragged(flat, width)


def ranges(begin: Array, count: Array) -> Array:
    """The numbers `begin[i]`, `begin[i] + 1`, ... (`count[i]` of them) for all i, in one line (int64)."""
    total = int(count.sum())
    ends = np.cumsum(count)
    numbers: Array = np.arange(total) + np.repeat(begin - (ends - count), count)
    return numbers


def _pieces(part: Part, column: Any, rows: int, header: Columns, where: str) -> list[Ragged]:
    """A part's words, and in `header` the fields that it owns."""
    if isinstance(part, Header):
        header[part.field.name] = column
        return []
    if isinstance(part, Number):
        return [_number(part, column, rows, where)]
    if isinstance(part, Koids):
        return [_koids(part, column, rows, header)]
    if isinstance(part, Text):
        return [_text(part, column, rows, header, where)]
    if isinstance(part, Stream):
        header[part.size] = column.length
        if part.text:
            _check_text(column.length, where)
        return [_copy(column)]
    if isinstance(part, Sized):
        return [Ragged(column.length.astype(np.uint64), 1), _copy(column)]
    if isinstance(part, Rest):
        return _rest(part, column, header)
    if isinstance(part, Words):
        assert isinstance(column, WordsColumn)
        header[part.count] = column.count
        return [Ragged(column.words[ranges(column.at, column.count)], column.count)]
    assert isinstance(part, Many)
    assert isinstance(column, ManyWords)
    header[part.count] = column.found
    return [column.body]


def _number(part: Number, column: Any, rows: int, where: str) -> Ragged:
    if isinstance(column, OptionalColumn):
        return Ragged(column.values[column.present], column.present.astype(np.int64))
    if part.optional and column is None:
        return Ragged(np.empty(0, np.uint64), 0)
    values = np.broadcast_to(np.asarray(column), rows)
    if part.kind == "f":
        return Ragged(values.astype(np.float64).view(np.uint64), 1)
    if values.dtype.kind not in "iu":
        raise EncodeError(f"a column of {values.dtype} is no column of integers", where)
    if part.kind == "u" and values.dtype.kind == "i" and rows and int(values.min()) < 0:
        raise EncodeError(f"{int(values.min())} is negative", where)
    if part.kind == "i" and values.dtype == np.uint64 and rows and int(values.max()) >> 63:
        raise EncodeError(f"{int(values.max())} is no signed 64-bit integer", where)
    return Ragged(values.astype(np.uint64) if values.dtype.kind == "u" else values.astype(np.int64).view(np.uint64), 1)


def _koids(part: Koids, column: Any, rows: int, header: Columns) -> Ragged:
    if not isinstance(column, KoidsColumn):
        header[part.ref] = column
        return Ragged(np.empty(0, np.uint64), 0)
    header[part.ref] = column.slot
    if not len(column.rows):
        return Ragged(np.empty(0, np.uint64), 0)
    count = np.zeros(rows, np.int64)
    count[column.rows] = 1 + column.has_thread
    pairs = np.stack([column.process, column.thread], axis=1)
    kept = np.stack([np.ones(len(pairs), bool), column.has_thread], axis=1)
    return Ragged(pairs[kept], count)


def _text(part: Text, column: Any, rows: int, header: Columns, where: str) -> Ragged:
    if not isinstance(column, TextColumn):
        header[part.ref] = part.form(index=column, inline=0).value
        return Ragged(np.empty(0, np.uint64), 0)
    _check_text(column.stream.length, where)
    index, inline = column.slot.astype(np.uint64), np.zeros(rows, np.uint64)
    index[column.rows], inline[column.rows] = column.stream.length, 1
    header[part.ref] = part.form(index=index, inline=inline).value
    if not len(column.rows):
        return Ragged(np.empty(0, np.uint64), 0)
    copied = _copy(column.stream)
    count = np.zeros(rows, np.int64)
    count[column.rows] = copied.count
    return Ragged(copied.words, count)


def _rest(part: Rest, column: RestColumn | None, header: Columns) -> list[Ragged]:
    if column is None:
        header[part.flag] = 0
        return []
    header[part.flag] = column.present.astype(np.uint64)
    return [_copy(column.stream)]


def _check_text(length: Array, where: str) -> None:
    if len(length) and int(length.max()) > MAX_TEXT:
        raise EncodeError(f"{int(length.max()):,} bytes of text are over the limit of {MAX_TEXT:,}", where)


def _copy(stream: StreamColumn) -> Ragged:
    """The streams' words, with zeros behind the last byte."""
    count = stream.length + 7 >> 3
    words: Array = stream.raw[ranges(stream.at, count)]
    last = np.cumsum(count)[count > 0] - 1
    spare = ((count * 8 - stream.length)[count > 0] * 8).astype(np.uint64)
    words[last] &= np.uint64(0xFFFF_FFFF_FFFF_FFFF) >> spare
    return Ragged(words, count)


def streams(values: Sequence[bytes]) -> StreamColumn:
    """Byte strings as a column."""
    length = np.array([len(value) for value in values], np.int64)
    count = length + 7 >> 3
    joined = b"".join([value + bytes(-len(value) % 8) for value in values])
    return StreamColumn(np.frombuffer(joined, np.uint64), np.cumsum(count) - count, length)
