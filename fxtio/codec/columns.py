"""Decode many records of a class to columns, with numpy and without a Python loop over the records.

The parts are the same as those of the generated scalar functions, and are decoded one after the other for all records
of a class.  Each record has a cursor; as long as all cursors are equal they are one int.  The inverse is
`encode_columns`.

What is unusual about records that can be decoded is noted on request, see `Oddity`.  It costs next to nothing where
nothing is: most checks are one of all records together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, singledispatch
from typing import Any, NamedTuple

import numpy as np

from fxtio import _native
from fxtio.arrays import Array, ranges
from fxtio.codec.parts import Header, Many, Number, Part, Sized, Stream, Words
from fxtio.codec.record import SIZE, Layout, Record, TaggedUnion, layout_of, load_extensions, once
from fxtio.codec.word import Field

_NOT_ASCII = 0x8080_8080_8080_8080  # the bits that no byte of ASCII text has


def is_utf8(data: bytes) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive words of a trace.

    Attributes:
        words: the words as native integers (uint64).
        raw: the words with their bytes in the order of the file; the same array unless the byte order is foreign.
    """

    words: Array
    raw: Array

    @property
    def data(self) -> memoryview:
        """The bytes as they are in the file."""
        return self.raw.data.cast("B")


@dataclass(frozen=True, slots=True)
class StreamColumn:
    """A column of byte streams.

    Attributes:
        raw: the words of the block that holds them, with their bytes in the order of the file (uint64).
        at: the index of the word where each begins (int64).
        length: their lengths in bytes (int64).
    """

    raw: Array
    at: Array
    length: Array

    def take(self, rows: Array) -> StreamColumn:
        """Return the streams of some rows (indices or a mask)."""
        return StreamColumn(self.raw, self.at[rows], self.length[rows])

    def to_bytes(self) -> list[bytes]:
        """Return all streams as bytes objects."""
        data = self.raw.data.cast("B")
        return [bytes(data[a : a + n]) for a, n in zip((self.at * 8).tolist(), self.length.tolist(), strict=True)]

    def last_bytes(self) -> Array:
        """Return the last byte of each stream (uint8); none of them may be empty."""
        data = self.raw.view(np.uint8)
        last: Array = data[self.at * 8 + self.length - 1]
        return last

    def not_utf8(self) -> Array:
        """Return the streams that are not UTF-8 (indices)."""
        count = (self.length + 7) // 8
        words = self.raw.take(ranges(self.at, count))
        if not int(np.bitwise_or.reduce(words)) & _NOT_ASCII:
            return np.empty(0, np.int64)
        unusual = np.flatnonzero(words & np.uint64(_NOT_ASCII))
        rows = np.unique(np.searchsorted(np.cumsum(count), unusual, side="right"))
        texts = self.take(rows).to_bytes()
        return rows[[not is_utf8(text) for text in texts]]


@dataclass(frozen=True, slots=True)
class OptionalColumn:
    """A column of words that not every record has.

    Attributes:
        values: the words (uint64), 0 where there is none.
        present: the records that have one (bool).
    """

    values: Array
    present: Array


@dataclass(frozen=True, slots=True)
class WordsColumn:
    """A column of runs of words.

    Attributes:
        words: the words that hold all runs (uint64).
        at: the index of the first word of each run (int64).
        count: the lengths of the runs (int64).
    """

    words: Array
    at: Array
    count: Array


@dataclass(frozen=True, slots=True)
class ManyColumn:
    """A column of small records, such as arguments: those of all rows in one list, row by row.

    Attributes:
        count: the number of small records of each row (int64).
        at: the index of the word where each begins (int64).
        size: their sizes in words (int64).
        kind: their kinds in the tagged union (int8, -1 unknown).
        broken: the rows in which one has no usable size, so that those after it are lost (indices).
    """

    count: Array
    at: Array
    size: Array
    kind: Array
    broken: Array


class Oddity(NamedTuple):
    """A rule that some records break although they can be decoded.  Encoding such a record gives other bytes.

    Attributes:
        rule: the id of the rule.
        rows: the records (indices).
        message: a description.
        kind: the kind of the small records of these records that are unusual; -1 if the records themselves are.
    """

    rule: str
    rows: Array
    message: str
    kind: int = -1


class Rows:
    """A cursor in each of many records of one class.

    Attributes:
        block: the words of the trace that hold the records.
        at: the index of the word where each record begins (int64).
        size: the sizes of the records in words (int64).
        smallest: the smallest size.
        delta: the distance of the cursor from `at` in words: an int for all records, or int64 per record.
        bad: the records that are too short for their content (bool per record), or None.
        oddities: takes what is unusual, or None.
    """

    def __init__(self, block: Block, at: Array, size: Array, oddities: list[Oddity] | None = None) -> None:
        self.block = block
        self.at = at
        self.size = size
        self.smallest = int(size.min()) if len(size) else 0
        self.delta: int | Array = 0
        self.bad: Array | None = None
        self.oddities = oddities

    def claim(self, count: int | Array, where: Array | None = None) -> None:
        """Move the cursors (of the rows `where`) by `count` words, and mark the records that are too short as bad."""
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
        """Return the cursors as word indices (int64)."""
        return self.at + self.delta

    def peek(self, where: Array | None = None, ahead: int = 0) -> Array:
        """Return the words at the cursors (of the rows `where`); indices are clipped to the block."""
        at, delta = self.at, self.delta
        if where is not None:
            at = at[where]
            delta = delta if isinstance(delta, int) else delta[where]
        out = np.empty(len(at), np.uint64)
        if len(at):
            _native.gather(self.block.words, at, delta + ahead, out)
        return out

    def take(self) -> Array:
        """Return the words at the cursors, and move the cursors after them."""
        words = self.peek()
        self.claim(1)
        return words

    def note(self, rule: str, rows: Array, message: str) -> None:
        """Note that some records (indices) are unusual."""
        if self.oddities is not None and len(rows):
            self.oddities.append(Oddity(rule, rows, message))

    def note_stream(
        self, stream: StreamColumn, limit: int | None, where: Array | None = None, *, text: bool = False
    ) -> None:
        """Note unusual streams of the records `where`.

        Args:
            stream: the streams; padding that is not zero is noted.
            limit: longer ones, in bytes, are noted.
            where: the records that have one (indices), None for all.
            text: they are text, and such as are not UTF-8 are noted.
        """
        if self.oddities is None or not len(stream.length):
            return
        numbers = np.arange(len(self.at)) if where is None else where
        tail = stream.length & 7
        padded = np.flatnonzero(tail)
        last = stream.raw.take(stream.at[padded] + (stream.length[padded] >> 3), mode="clip")
        beyond = last >> (tail[padded] << 3).astype(np.uint64)
        if beyond.any():
            self.note("bits.padding", numbers[padded[beyond != 0]], "the bytes that fill up the last word are not zero")
        if limit is not None and int(stream.length.max()) > limit:
            long = numbers[stream.length > limit]
            self.note("text.too-long", long, f"a text has more than {limit:,} bytes")
        if text and self.bad is None:  # otherwise some streams are beyond the end, and what is noted means nothing
            self.note("text.not-utf8", numbers[stream.not_utf8()], "a text is not UTF-8")

    def note_size(self, union: int) -> None:
        """Note records that have more words than their content.

        Args:
            union: the sizes in the headers of all records, or-ed together: the largest size or more.
        """
        if self.oddities is None or (isinstance(self.delta, int) and union == self.delta):
            return
        more = np.flatnonzero(self.size > self.delta)
        self.note("framing.record-long", more, "a record has more words than its content")


Columns = dict[str, Any]
"""For every field of a record its column: an array for plain values, else the column class of its part."""


def columns_of(
    cls: type[Record], block: Block, at: Array, size: Array, oddities: list[Oddity] | None = None
) -> tuple[Columns, Array | None]:
    """Decode many records of one class.

    Args:
        cls: the class.
        block: the words of the trace that hold all of them.
        at: the index of the word where each begins (int64).
        size: their sizes in words (int64).
        oddities: what is unusual about the records is appended to this list; it means nothing if some are too short.

    Returns:
        The columns by field; and the records that are too short for their content (bool, None if there are none),
        whose values mean nothing.
    """
    load_extensions(cls)
    layout = layout_of(cls)
    rows = Rows(block, at, size, oddities)
    header, unions = _header(cls, rows)
    columns = {name: take_part(part, rows, header, layout, n) for n, (name, part) in enumerate(layout.parts)}
    if len(at):
        rows.note_size(layout.words[0].fields[SIZE].get(unions[0]))
    return columns, rows.bad


def tick_places(cls: type[Record], block: Block, at: Array, size: Array) -> dict[str, Array]:
    """Return where the ticks of many records are, by field: indices of words in the block (int64, one per record).

    An optional field has an index whether the record has the field or not.  The arguments are those of `columns_of`;
    none of the records may be too short.
    """
    load_extensions(cls)
    layout = layout_of(cls)
    ticks = [isinstance(part, Number) and part.tick for _, part in layout.parts]
    places: dict[str, Array] = {}
    if any(ticks):
        rows = Rows(block, at, size)
        header, _ = _header(cls, rows)
        for index, (name, _) in enumerate(layout.parts):
            if ticks[index]:
                places[name] = rows.here()
            if not any(ticks[index + 1 :]):
                break
            take_part(layout.parts[index][1], rows, header, layout, index)
    return places


def _header(cls: type[Record], rows: Rows) -> tuple[Columns, list[int]]:
    """Return the fields of the header words, and each word or-ed over all records; move the cursors after them."""
    header: Columns = {}
    unions = []
    for word, checked in zip(cls.words, _checks_of(cls), strict=True):
        value = rows.take()
        unions.append(int(np.bitwise_or.reduce(value)))
        if unions[-1] & checked.reserved:
            set_bits = np.flatnonzero(value & np.uint64(checked.reserved))
            rows.note("bits.reserved", set_bits, "bits that must be zero are set in a header")
        for field in word.fields.values():
            if field.role == "bits" and field.name != SIZE:
                header[field.name] = lane(value, field)
        mask, constant = word.pattern("const")
        if mask and len(value) and not int(np.bitwise_and.reduce(value)) & mask == unions[-1] & mask == constant:
            unlike = value & mask != constant
            rows.bad = unlike if rows.bad is None else rows.bad | unlike
        for name, known in checked.values:
            if not known[header[name]].all():
                message = f"a value of {name.replace('_', ' ')} that the specification does not define"
                rows.note("bits.unknown-value", np.flatnonzero(~known[header[name]]), message)
    return header, unions


class _Checked(NamedTuple):
    """The checks of a header word.

    Attributes:
        reserved: the mask of the bits that must be zero.
        values: for each field whose values have names, its name, and for every value whether it has one (bool).
    """

    reserved: int
    values: list[tuple[str, Array]]


@once
def _checks_of(cls: type[Record]) -> list[_Checked]:
    checks = []
    for word in layout_of(cls).words:
        values = []
        for field in word.fields.values():
            names = [] if field.role != "bits" else [one.value for one in field.meaning or () if one >= field.least]
            if names:
                known = np.zeros(field.mask + 1, bool)
                known[names] = True
                values.append((field.name, known))
        checks.append(_Checked(word.pattern("reserved")[0], values))
    return checks


def lane(words: Array, field: Field) -> Array:
    """Return a field of many words, in the narrowest integer type that holds it.

    A field that fills an aligned part of the word is a view of that part, without arithmetic.
    """
    width = next(size for size in (8, 16, 32, 64) if field.width <= size)
    dtype = np.dtype(f"<{'i' if field.signed else 'u'}{width // 8}")
    if field.width == width and field.lo % width == 0:
        return words.view(dtype)[field.lo // width :: 64 // width]
    values: Array = field.get(words).astype(dtype)
    return values


@singledispatch
def take_part(part: Part, rows: Rows, header: Columns, layout: Layout, index: int) -> Any:
    """Return the column of one part, and move the cursors after it.

    Args:
        part: the part.
        rows: the cursors.
        header: the fields of the header words.
        layout: the declaration of the records.
        index: the index of the part in `layout.parts`.
    """
    raise TypeError(f"{type(part).__name__} has no numpy decoder")


@take_part.register
def _(part: Header, rows: Rows, header: Columns, layout: Layout, index: int) -> Array:
    values: Array = header[part.field.name]
    return values != 0 if part.boolean else values


@take_part.register
def _(part: Number, rows: Rows, header: Columns, layout: Layout, index: int) -> Any:
    if part.optional:
        present = np.asarray(np.broadcast_to(rows.delta < rows.size, rows.size.shape))
        values = np.where(present, rows.peek(), np.uint64(0))
        if present.any():
            rows.claim(1, present)
        return OptionalColumn(values, present)
    return rows.take().view({"u": np.uint64, "i": np.int64, "f": np.float64}[part.kind])


@take_part.register
def _(part: Stream, rows: Rows, header: Columns, layout: Layout, index: int) -> StreamColumn:
    length = header[part.size].astype(np.int64)
    stream = StreamColumn(rows.block.raw, rows.here(), length)
    rows.claim(length + 7 >> 3)
    rows.note_stream(stream, part.max_bytes, text=part.text)
    return stream


@take_part.register
def _(part: Sized, rows: Rows, header: Columns, layout: Layout, index: int) -> StreamColumn:
    # A length beyond any memory is cut to one that is still too long, so that the sums below cannot wrap around.
    length = np.minimum(rows.take(), np.uint64(1 << 62)).astype(np.int64)
    stream = StreamColumn(rows.block.raw, rows.here(), length)
    rows.claim(length + 7 >> 3)
    rows.note_stream(stream, None)
    return stream


@take_part.register
def _(part: Words, rows: Rows, header: Columns, layout: Layout, index: int) -> WordsColumn:
    count = header[part.count].astype(np.int64)
    column = WordsColumn(rows.block.words, rows.here(), count)
    rows.claim(count)
    return column


@take_part.register
def _(part: Many, rows: Rows, header: Columns, layout: Layout, index: int) -> ManyColumn:
    later = [part for _, part in layout.parts[index + 1 :]]
    counts = header[part.count].astype(np.int64)
    if rows.bad is not None:
        counts[rows.bad] = 0
    total = int(counts.sum())
    if not total:
        empty = np.empty(0, np.int64)
        return ManyColumn(counts, empty, empty, empty.astype(np.int8), empty)
    first, stop = rows.here(), rows.at + rows.size
    at, size, kind = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int8)
    count, after = np.empty(len(counts), np.int64), np.empty(len(counts), np.int64)
    rules, table = tables_of(part.union)
    total = _native.walk_many(rows.block.words, first, stop, counts, rules, table, at, size, kind, count, after)
    # `after` is where the small records of a row end, -1 where one has no usable size.  The parts after such a row are
    # placed by counting from the end of the record; where that cannot be, the record is bad.
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
    return ManyColumn(count, at[:total], size[:total], kind[:total], broken)


@dataclass(frozen=True, slots=True)
class Members:
    """The small records of many rows, decoded.

    Attributes:
        many: where they are; those that are too short for their type are left out.
        groups: for every kind that occurs, the kind, its small records (indices, or a slice for all), their columns.
        short: the rows of those that were left out (indices, one for each).
        short_at: the indices of the words where these begin.
    """

    many: ManyColumn
    groups: list[tuple[int, Array | slice, Columns]]
    short: Array
    short_at: Array


def members_of(union: TaggedUnion, block: Block, many: ManyColumn, oddities: list[Oddity] | None = None) -> Members:
    """Decode the small records of many rows, kind by kind.

    Args:
        union: their classes.
        block: the words that hold them.
        many: where they are.
        oddities: what is unusual about those that are returned is appended to this list, with the numbers of the rows.
    """
    groups: list[tuple[int, Array | slice, Columns]] = []
    short = np.zeros(len(many.at), bool)
    notes: list[tuple[Array | slice, Oddity]] = []
    kinds = many.kind.tobytes()  # searching bytes for a number is much faster than comparing an array with it
    for kind in range(-1, len(union.classes)):
        if kind & 0xFF not in kinds:
            continue
        is_kind = many.kind == kind
        mine: Array | slice = slice(None) if is_kind.all() else np.flatnonzero(is_kind)
        if kind < 0:
            groups.append((kind, mine, {}))
            continue
        odd: list[Oddity] = []
        columns, bad = columns_of(union.classes[kind], block, many.at[mine], many.size[mine], odd)
        if bad is not None:
            short[np.arange(len(short))[mine][bad]] = True
        groups.append((kind, mine, columns))
        notes += [(mine, one._replace(kind=kind)) for one in odd]
    if not short.any():
        if oddities is not None and notes:
            owners = np.repeat(np.arange(len(many.count)), many.count)
            oddities += [one._replace(rows=owners[mine][one.rows]) for mine, one in notes]
        return Members(many, groups, many.broken[:0], many.at[:0])
    rows = np.repeat(np.arange(len(many.count)), many.count)[short]
    count = many.count - np.bincount(rows, minlength=len(many.count))
    good = ManyColumn(count, many.at[~short], many.size[~short], many.kind[~short], many.broken)
    return Members(good, members_of(union, block, good, oddities).groups, rows, many.at[short])


@cache
def tables_of(union: TaggedUnion) -> tuple[Array, Array]:
    """Return the rules of a tagged union in the form that the kernels take (see `fxtio._native.python.walk`)."""
    rules: list[tuple[int, int, int, int, int]] = []
    table: list[int] = []
    for size, selector in zip(union.sizes, union.selectors, strict=True):
        rules.append((size.lo, size.mask, selector.lo, selector.mask, len(table)))
        table.extend(selector.table)
    return np.array(rules, np.uint64), np.array(table, np.int8)
