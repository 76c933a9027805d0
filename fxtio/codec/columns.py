"""A million records to columns, with numpy and no Python loop per record.

The interpretation follows the same parts as the generated scalar functions, one part at a time over all records of a
class: a cursor per record, a plain int as long as all records agree.  `scatter` is the way back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from fxtio import _native
from fxtio.codec.parts import Header, Koids, Many, Number, Part, Rest, Sized, Stream, Text, Words
from fxtio.codec.record import SIZE, Family, Layout, Record, layout_of
from fxtio.codec.word import Field

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a trace.

    Attributes:
        words: its words as native integers (uint64).
        raw: the same words in the order of the file's bytes; another array only for a foreign byte order.
    """

    words: Array
    raw: Array

    @property
    def data(self) -> memoryview:
        """The bytes as in the file."""
        return self.raw.data.cast("B")


@dataclass(frozen=True, slots=True)
class StreamColumn:
    """Byte streams: the block that holds them, the word where each begins (int64), their lengths in bytes (int64)."""

    raw: Array
    at: Array
    length: Array

    def take(self, rows: Array) -> StreamColumn:
        """The streams of some rows (indices or a mask)."""
        return StreamColumn(self.raw, self.at[rows], self.length[rows])

    def to_bytes(self) -> list[bytes]:
        """All streams as bytes objects."""
        data = self.raw.data.cast("B")
        return [bytes(data[a : a + n]) for a, n in zip((self.at * 8).tolist(), self.length.tolist(), strict=True)]


@dataclass(frozen=True, slots=True)
class RestColumn:
    """What is left of each record: whole words of bytes, and whether the record says that there are any (bool)."""

    stream: StreamColumn
    present: Array


@dataclass(frozen=True, slots=True)
class TextColumn:
    """String references: the slot (uint16, 0 where inline), the rows that are inline (indices), and their text."""

    slot: Array
    rows: Array
    stream: StreamColumn


@dataclass(frozen=True, slots=True)
class KoidsColumn:
    """Thread references: the slot (uint8, 0 where inline), the inline rows (indices), and their koids (uint64).

    Attributes:
        has_thread: for every inline row, whether the thread koid was there (bool); False where only the process was.
    """

    slot: Array
    rows: Array
    process: Array
    thread: Array
    has_thread: Array


@dataclass(frozen=True, slots=True)
class OptionalColumn:
    """Words that not every record has: values (uint64) and whether they are there (bool)."""

    values: Array
    present: Array


@dataclass(frozen=True, slots=True)
class WordsColumn:
    """Runs of words: where each begins (int64) and how many (int64)."""

    words: Array
    at: Array
    count: Array


@dataclass(frozen=True, slots=True)
class ManyColumn:
    """The small records of each row, all in one line, row by row.

    Attributes:
        found: how many each row has (int64).
        at: the word where each begins (int64).
        size: its size in words (int64).
        kind: its kind in the family (int8, -1 unknown).
        broken: rows in which reading had to stop (indices).
    """

    found: Array
    at: Array
    size: Array
    kind: Array
    broken: Array


class Rows:
    """The cursor: one place in each of many records of one class.

    Attributes:
        at: the word where each record begins (int64).
        size: its size in words (int64).
        delta: how far the cursor is from `at`: an int, or int64 per record.
        bad: the records that turned out too short (bool per record), or None.
    """

    def __init__(self, block: Block, at: Array, size: Array) -> None:
        self.block = block
        self.at = at
        self.size = size
        self.smallest = int(size.min()) if len(size) else 0
        self.delta: int | Array = 0
        self.bad: Array | None = None

    def claim(self, count: int | Array, where: Array | None = None) -> None:
        """Move the cursor by `count` words (of the rows `where`), noting records that do not have them."""
        if where is not None:
            step = np.zeros(len(self.at), np.int64)
            step[where] = count
            count = step
        after = self.delta + count
        if isinstance(after, int) and after <= self.smallest:
            self.delta = after
            return
        over = after > self.size
        if over.any():
            self.bad = over if self.bad is None else self.bad | over
            after = np.where(over, 0, after)
        self.delta = after

    def here(self) -> Array:
        """The cursor as word indices (int64)."""
        return self.at + self.delta

    def peek(self, where: Array | None = None, ahead: int = 0) -> Array:
        """The words at the cursor (of the rows `where`); clipped to the block, so that hostile rows stay harmless."""
        at, delta = self.at, self.delta
        if where is not None:
            at = at[where]
            delta = delta if isinstance(delta, int) else delta[where]
        out = np.empty(len(at), np.uint64)
        if len(at):
            _native.gather(self.block.words, at, delta + ahead, out)
        return out

    def take(self) -> Array:
        """The word at the cursor, which moves behind it."""
        words = self.peek()
        self.claim(1)
        return words


Columns = dict[str, Any]
Take = Callable[[Any, Rows, Columns], Any]


def columns_of(cls: type[Record], block: Block, at: Array, size: Array) -> tuple[Columns, Array | None]:
    """Decode many records of one class.

    Args:
        cls: the class.
        block: the piece of the trace that they lie in, whole.
        at: the word where each begins (int64).
        size: their sizes in words (int64).

    Returns:
        A column for each field: an array for plain values, else the column class of its part; and the records that
        are too short for what they claim to hold (bool, None if there are none), whose values mean nothing.
    """
    layout = layout_of(cls)
    rows = Rows(block, at, size)
    header = _header(layout, rows)
    columns = {name: _take(layout, index, rows, header) for index, (name, _) in enumerate(layout.parts)}
    return columns, rows.bad


def tick_places(cls: type[Record], block: Block, at: Array, size: Array) -> dict[str, Array]:
    """Where the ticks of many records lie, by field: the word in the block (int64, one for each record).

    An optional field has its place whether it is there or not.  The arguments are those of `columns_of`; the records
    must be such as are not too short.
    """
    layout = layout_of(cls)
    ticks = [isinstance(part, Number) and part.tick for _, part in layout.parts]
    places: dict[str, Array] = {}
    if any(ticks):
        rows = Rows(block, at, size)
        header = _header(layout, rows)
        for index, (name, _) in enumerate(layout.parts):
            if ticks[index]:
                places[name] = rows.here()
            if not any(ticks[index + 1 :]):
                break
            _take(layout, index, rows, header)
    return places


def _header(layout: Layout, rows: Rows) -> Columns:
    """The fields of the header words, which the cursor passes."""
    header: Columns = {}
    for word in layout.words:
        value = rows.take()
        for field in word.fields.values():
            if field.role == "bits" and field.name != SIZE:
                header[field.name] = _lane(value, field)
        mask, constant = word.pattern("const")
        if mask:
            unlike = value & mask != constant
            if unlike.any():
                rows.bad = unlike if rows.bad is None else rows.bad | unlike
    return header


def _take(layout: Layout, index: int, rows: Rows, header: Columns) -> Any:
    """The column of one part, which the cursor passes."""
    part = layout.parts[index][1]
    if isinstance(part, Many):
        return _take_many(part, rows, header, [later for _, later in layout.parts[index + 1 :]])
    if isinstance(part, Koids):
        return _take_koids(part, rows, header, [other for _, other in layout.parts])
    return _TAKE[type(part)](part, rows, header)


def _lane(words: Array, field: Field) -> Array:
    """A field of many words, in the narrowest type that holds it.

    A field that fills an aligned part of the word is a view of that part, with no arithmetic.
    """
    width = next(size for size in (8, 16, 32, 64) if field.width <= size)
    dtype = np.dtype(f"<{'i' if field.signed else 'u'}{width // 8}")
    if field.width == width and field.lo % width == 0:
        return words.view(dtype)[field.lo // width :: 64 // width]
    values: Array = field.get(words).astype(dtype)
    return values


def _take_header(part: Header, rows: Rows, header: Columns) -> Array:
    values: Array = header[part.field.name]
    return values != 0 if part.boolean else values


def _take_number(part: Number, rows: Rows, header: Columns) -> Any:
    if part.optional:
        present = np.asarray(np.broadcast_to(rows.delta < rows.size, rows.size.shape))
        values = np.where(present, rows.peek(), np.uint64(0))
        if present.any():
            rows.claim(1, present)
        return OptionalColumn(values, present)
    return rows.take().view({"u": np.uint64, "i": np.int64, "f": np.float64}[part.kind])


def _take_koids(part: Koids, rows: Rows, header: Columns, parts: list[Part]) -> KoidsColumn:
    slot = header[part.ref]
    inline = np.flatnonzero(slot == 0)
    has_thread = np.full(len(inline), not part.process_only)
    if not len(inline):
        none = np.empty(0, np.uint64)
        return KoidsColumn(slot, inline, none, none, has_thread)
    if part.short_form:
        named = {f"{name}_": values[inline].astype(np.int64) for name, values in header.items()}
        rest = [words for one in parts if one is not part and (words := one.header_words()) is not None]
        short = eval("2 + " + " + ".join(rest), {}, named)
        has_thread = rows.size[inline] != short
    process = rows.peek(inline)
    thread = np.where(has_thread, rows.peek(inline, 1), np.uint64(0))
    rows.claim(1 + has_thread.astype(np.int64), inline)
    return KoidsColumn(slot, inline, process, thread, has_thread)


def _take_text(part: Text, rows: Rows, header: Columns) -> TextColumn:
    ref: Array = header[part.ref]
    inline = np.flatnonzero(part.form.fields["inline"].get(ref))
    if not len(inline):
        return TextColumn(ref, inline, StreamColumn(rows.block.raw, inline, inline))
    index = part.form.fields["index"].get(ref)
    length = index[inline].astype(np.int64)
    stream = StreamColumn(rows.block.raw, rows.here()[inline], length)
    rows.claim(length + 7 >> 3, inline)
    slot = index.copy()
    slot[inline] = 0
    return TextColumn(slot, inline, stream)


def _take_stream(part: Stream, rows: Rows, header: Columns) -> StreamColumn:
    length = header[part.size].astype(np.int64)
    stream = StreamColumn(rows.block.raw, rows.here(), length)
    rows.claim(length + 7 >> 3)
    return stream


def _take_sized(part: Sized, rows: Rows, header: Columns) -> StreamColumn:
    # A length beyond any memory is made just too long, lest the sums below wrap around.
    length = np.minimum(rows.take(), np.uint64(1 << 62)).astype(np.int64)
    stream = StreamColumn(rows.block.raw, rows.here(), length)
    rows.claim(length + 7 >> 3)
    return stream


def _take_words(part: Words, rows: Rows, header: Columns) -> WordsColumn:
    count = header[part.count].astype(np.int64)
    column = WordsColumn(rows.block.words, rows.here(), count)
    rows.claim(count)
    return column


def _take_rest(part: Rest, rows: Rows, header: Columns) -> RestColumn:
    present = header[part.flag] != 0
    count = np.where(present, rows.size - rows.delta, 0)
    column = RestColumn(StreamColumn(rows.block.raw, rows.here(), count * 8), present)
    rows.claim(count)
    return column


def _take_many(part: Many, rows: Rows, header: Columns, later: list[Part]) -> ManyColumn:
    counts = header[part.count].astype(np.int64)
    if rows.bad is not None:
        counts[rows.bad] = 0
    total = int(counts.sum())
    first, stop = rows.here(), rows.at + rows.size
    at, size, kind = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int8)
    found, after = np.empty(len(counts), np.int64), np.empty(len(counts), np.int64)
    rules, table = tables_of(part.family)
    total = _native.walk_many(rows.block.words, first, stop, counts, rules, table, at, size, kind, found, after)
    broken = np.flatnonzero(after < 0)
    if len(broken):
        tail = [words for one in later if (words := one.tail_words()) is not None]
        moved = stop - sum(tail)
        lost = (moved < first) if len(tail) == len(later) else np.ones(len(moved), bool)
        lost &= after < 0
        if lost.any():
            rows.bad = lost if rows.bad is None else rows.bad | lost
        after[broken] = moved[broken]
    delta = after - rows.at
    rows.delta = int(delta[0]) if len(delta) and int(delta.min()) == int(delta.max()) else delta
    return ManyColumn(found, at[:total], size[:total], kind[:total], broken)


@dataclass(frozen=True, slots=True)
class Members:
    """The small records of many rows, decoded.

    Attributes:
        many: where they are; those that are too short for their type are left out.
        groups: for every kind that occurs, which of them (indices, or a slice for all) and their columns.
        short: the rows that lost a member (indices, one for each that was left out).
    """

    many: ManyColumn
    groups: list[tuple[int, Array | slice, Columns]]
    short: Array


def members_of(family: Family, block: Block, many: ManyColumn) -> Members:
    """Decode the small records of many rows, kind by kind."""
    groups: list[tuple[int, Array | slice, Columns]] = []
    short = np.zeros(len(many.at), bool)
    for kind in range(-1, len(family.classes)):
        is_kind = many.kind == kind
        if not is_kind.any():
            continue
        mine: Array | slice = slice(None) if is_kind.all() else np.flatnonzero(is_kind)
        if kind < 0:
            groups.append((kind, mine, {}))
            continue
        columns, bad = columns_of(family.classes[kind], block, many.at[mine], many.size[mine])
        if bad is not None:
            short[np.arange(len(short))[mine][bad]] = True
        groups.append((kind, mine, columns))
    if not short.any():
        return Members(many, groups, many.broken[:0])
    rows = np.repeat(np.arange(len(many.found)), many.found)[short]
    found = many.found - np.bincount(rows, minlength=len(many.found))
    good = ManyColumn(found, many.at[~short], many.size[~short], many.kind[~short], many.broken)
    return Members(good, members_of(family, block, good).groups, rows)


_TAKE: dict[type[Part], Take] = {
    Header: _take_header,
    Number: _take_number,
    Text: _take_text,
    Stream: _take_stream,
    Rest: _take_rest,
    Sized: _take_sized,
    Words: _take_words,
}


@cache
def tables_of(family: Family) -> tuple[Array, Array]:
    """A family's rules in the form that the kernels take (see `fxtio._native.python.walk`)."""
    rules: list[tuple[int, int, int, int, int]] = []
    table: list[int] = []
    for size, selector in zip(family.sizes, family.selectors, strict=True):
        rules.append((size.lo, size.mask, selector.lo, selector.mask, len(table)))
        table.extend(selector.table)
    return np.array(rules, np.uint64), np.array(table, np.int8)
