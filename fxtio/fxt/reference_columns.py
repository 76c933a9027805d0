"""References to strings and threads in columns: decode, encode, describe and resolve many of them at once.

The code for the first three is registered with the shared codec when a record with such a part is first decoded to
columns, encoded from columns, or described, see `fxtio.codec.parts.Part.extension`.

A value of a slot has a code.  Since any record may define a slot anew, a reference is resolved as of its position in
the file: `SlotTables` has the codes at the end of a batch, and a `SlotLookup` those at every record of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.columns import Columns, Rows, StreamColumn, take_part
from fxtio.codec.describe import Walk, emit_part, part_meaning, slot_meaning, word_value
from fxtio.codec.distinct import rows_of_each
from fxtio.codec.encode_columns import Ragged, check_text, padded, put_part
from fxtio.codec.pages import part_text
from fxtio.codec.parts import Part
from fxtio.codec.record import Layout
from fxtio.codec.word import Field
from fxtio.fxt.layout import MAX_TEXT_BYTES, StringRefWord
from fxtio.fxt.records import StringReference, ThreadReference
from fxtio.report import counted

_INDEX, _INLINE = StringRefWord.fields["index"], StringRefWord.fields["inline"]
LEAST_INLINE = StringRefWord(index=0, inline=1).value
"""The references to strings from this number on have their text in the record."""

_NO_WORDS = Ragged(np.empty(0, np.uint64), 0)


@dataclass(frozen=True, slots=True)
class StringColumn:
    """A column of string references.

    Attributes:
        slot: the slot of each row (uint16), 0 where the text is inline.
        rows: the rows whose text is inline (indices).
        stream: the inline texts.
    """

    slot: Array
    rows: Array
    stream: StreamColumn


@dataclass(frozen=True, slots=True)
class ThreadColumn:
    """A column of thread references.

    Attributes:
        slot: the slot of each row (uint8), 0 where the koids are inline.
        rows: the rows whose koids are inline (indices).
        process: the inline process koids (uint64).
        thread: the inline thread koids (uint64), 0 where there is none.
        has_thread: for every inline row, whether it has a thread koid (bool).
    """

    slot: Array
    rows: Array
    process: Array
    thread: Array
    has_thread: Array


@take_part.register
def _(part: StringReference, rows: Rows, header: Columns, layout: Layout, index: int) -> StringColumn:
    ref: Array = header[part.ref]
    if int(ref.max(initial=0)) < LEAST_INLINE:
        inline = np.empty(0, np.int64)
        return StringColumn(ref, inline, StreamColumn(rows.block.raw, inline, inline))
    inline = np.flatnonzero(_INLINE.get(ref))
    slot = _INDEX.get(ref)
    length = slot[inline].astype(np.int64)
    stream = StreamColumn(rows.block.raw, rows.here()[inline], length)
    rows.claim((length + 7) // 8, inline)
    rows.note_stream(stream, MAX_TEXT_BYTES, inline, text=True)
    slot = slot.copy()
    slot[inline] = 0
    return StringColumn(slot, inline, stream)


@take_part.register
def _(part: ThreadReference, rows: Rows, header: Columns, layout: Layout, index: int) -> ThreadColumn:
    slot = header[part.ref]
    inline = np.flatnonzero(slot == 0) if not slot.all() else np.empty(0, np.int64)
    has_thread = np.full(len(inline), not part.process_only)
    if not len(inline):
        none = np.empty(0, np.uint64)
        return ThreadColumn(slot, inline, none, none, has_thread)
    if part.short_form:
        fields = {f"{name}_": values[inline].astype(np.int64) for name, values in header.items()}
        has_thread = rows.size[inline] != eval(part.short_size(layout), {}, fields)
    process = rows.peek(inline)
    thread = np.where(has_thread, rows.peek(inline, 1), np.uint64(0))
    rows.claim(1 + has_thread.astype(np.int64), inline)
    return ThreadColumn(slot, inline, process, thread, has_thread)


@put_part.register
def _(part: StringReference, column: Any, rows: int, header: Columns, where: str) -> list[Ragged]:
    if not isinstance(column, StringColumn):
        header[part.ref] = StringRefWord(index=column, inline=0).value
        return [_NO_WORDS]
    check_text(column.stream.length, MAX_TEXT_BYTES, where)
    index: Any = column.slot.astype(np.uint64)
    inline: Any = np.zeros(rows, np.uint64)
    index[column.rows], inline[column.rows] = column.stream.length, 1
    header[part.ref] = StringRefWord(index=index, inline=inline).value
    if not len(column.rows):
        return [_NO_WORDS]
    texts = padded(column.stream)
    count = np.zeros(rows, np.int64)
    count[column.rows] = texts.count
    return [Ragged(texts.words, count)]


@put_part.register
def _(part: ThreadReference, column: Any, rows: int, header: Columns, where: str) -> list[Ragged]:
    if not isinstance(column, ThreadColumn):
        header[part.ref] = column
        return [_NO_WORDS]
    header[part.ref] = column.slot
    if not len(column.rows):
        return [_NO_WORDS]
    count = np.zeros(rows, np.int64)
    count[column.rows] = 1 + column.has_thread
    pairs = np.stack([column.process, column.thread], axis=1)
    kept = np.stack([np.ones(len(pairs), bool), column.has_thread], axis=1)
    return [Ragged(pairs[kept], count)]


@part_meaning.register
def _(part: StringReference, field: Field, value: int, walk: Walk) -> tuple[str, str]:
    index = _INDEX.get(value)
    if _INLINE.get(value):
        return f"inline, {counted(index, 'byte')}", ""
    return slot_meaning(part, index, walk) if index else ("the empty string", "")


@part_meaning.register
def _(part: ThreadReference, field: Field, value: int, walk: Walk) -> tuple[str, str]:
    return slot_meaning(part, value, walk) if value else ("inline", "")


@emit_part.register
def _(part: StringReference, name: str, walk: Walk, later: list[Part]) -> None:
    ref = walk.header[part.ref]
    if _INLINE.get(ref):
        walk.stream(name, _INDEX.get(ref), text=True)


@emit_part.register
def _(part: ThreadReference, name: str, walk: Walk, later: list[Part]) -> None:
    if walk.header[part.ref]:
        return
    alone = part.process_only
    if part.short_form:
        assert walk.layout is not None
        fields = {f"{field}_": value for field, value in walk.header.items()}
        alone = walk.stop - walk.at == eval(part.short_size(walk.layout), {}, fields)
    koids = ("process",) if alone else ("process", "thread")
    walk.claim(len(koids), name)
    for koid in koids:
        walk.emit(1, f"{name}.{koid}", f"koid {word_value(walk.words[walk.c])}")


@part_text.register
def _(part: StringReference, name: str) -> str:
    text = "UTF-8 text, padded with zeros to whole words"
    return f"`{name}`: {text}; omitted unless the header field `{part.ref}` says inline"


@part_text.register
def _(part: ThreadReference, name: str) -> str:
    koids = "a word, the process koid" if part.process_only else "two words, the process koid and the thread koid"
    short = " (some producers leave out the thread koid; the record's size tells)" if part.short_form else ""
    return f"`{name}`: {koids}{short}; omitted unless the header field `{part.ref}` is 0"


# ---- the values of slots

UNDEFINED = -1
"""The code of a slot that is not defined."""

_MAX_ROWS = 1 << 40  # more records than a batch can have

_SMALL = 256  # a table with so many slots has an array entry for each of them
_MOST_EMPTY = 8  # a larger one has, if the slots with a value are at least one in so many


@dataclass(frozen=True, slots=True)
class Definitions:
    """The slots that a batch defines, in the order of the file.

    Attributes:
        provider: the index of the provider that each belongs to (int32).
        slot: the slot (int64).
        row: the number of the record in the batch (int64).
        code: the code of the slot's value from there on (int32).
    """

    provider: Array
    slot: Array
    row: Array
    code: Array


_NONE = np.empty(0, np.int64)

NO_DEFINITIONS = Definitions(_NONE.astype(np.int32), _NONE, _NONE, _NONE.astype(np.int32))
"""The definitions of a batch that has none."""


@dataclass(frozen=True, slots=True)
class SlotValues:
    """A value for each slot, -1 for most of them; the memory is proportional to the number of the others.

    Attributes:
        slots: the slots that have a value (ascending), or None if `values` has an entry for every slot.
        values: the values of `slots`, or of the slots from 0 on; behind the last is one -1, for all further slots.
    """

    slots: Array | None
    values: Array

    @classmethod
    def of(cls, slots: Array, values: Array) -> SlotValues:
        """Return an object with the given values.

        Args:
            slots: the slots (int64); of several entries for a slot, the last is its value.
            values: their values.
        """
        length = int(slots.max()) + 1
        if length <= max(_SMALL, _MOST_EMPTY * len(slots)):
            dense = np.full(length + 1, -1, values.dtype)
            dense[slots] = values
            return cls(None, dense)
        distinct, last = np.unique(slots[::-1], return_index=True)
        return cls(distinct, np.append(values[::-1][last], values.dtype.type(-1)))

    def take(self, slot: Array) -> Array:
        """Return the values of many slots."""
        if self.slots is None:
            return self.values.take(slot, mode="clip")
        index = np.searchsorted(self.slots, slot)
        return np.where(self.slots.take(index, mode="clip") == slot, self.values.take(index), self.values[-1])

    def items(self) -> tuple[Array, Array]:
        """Return the slots whose value is not -1 (int64, ascending), and their values."""
        slots = np.flatnonzero(self.values >= 0)
        values = self.values[slots]
        return (slots if self.slots is None else self.slots[slots]), values

    def changed(self, slots: Array, values: Array) -> SlotValues:
        """Return a new object in which some slots have other values; the arguments are those of `of`."""
        old_slots, old_values = self.items()
        return SlotValues.of(np.concatenate([old_slots, slots]), np.concatenate([old_values, values]))


class SlotTables:
    """The codes of the slots of every provider at the end of the last batch.

    The tables are never changed, only replaced: a `SlotLookup` that refers to one stays right.
    """

    def __init__(self, *initial: int) -> None:
        self._initial = SlotValues(None, np.array([*initial, UNDEFINED], np.int32))
        self._tables: dict[int, SlotValues] = {}

    def used(self) -> Array:
        """Return all codes that some slot has (ascending)."""
        tables = [self._initial, *self._tables.values()]
        codes = np.unique(np.concatenate([table.values for table in tables]))
        return codes[codes >= 0]

    def renumber(self, old: Array) -> None:
        """Replace the codes `old` (ascending, as from `used`) by the numbers 0, 1, 2, ..."""
        for provider, table in self._tables.items():
            codes = np.where(table.values < 0, UNDEFINED, np.searchsorted(old, table.values)).astype(np.int32)
            self._tables[provider] = SlotValues(table.slots, codes)

    def enter(self, definitions: Definitions, resets: Mapping[int, int] = MappingProxyType({})) -> SlotLookup:
        """Apply the definitions of a batch, and return what resolves the batch's references.

        Args:
            definitions: the definitions.
            resets: the rows at which all slots of a provider become as they were at first, with the provider's index.
        """
        before = dict(self._tables)
        if resets:
            definitions = self._with_resets(definitions, resets)
        last_row: dict[int, SlotValues] = {}
        for provider, rows in rows_of_each(definitions.provider):
            slot = definitions.slot[rows]
            self._tables[provider] = before.get(provider, self._initial).changed(slot, definitions.code[rows])
            last_row[provider] = SlotValues.of(slot, definitions.row[rows])
        return SlotLookup(self._initial, before, dict(self._tables), last_row, definitions)

    def _with_resets(self, definitions: Definitions, resets: Mapping[int, int]) -> Definitions:
        """Return the definitions of a batch and, for every slot that a reset changes, one more at the reset."""
        rows_of = dict(rows_of_each(definitions.provider))
        none, at_rows = np.empty(0, np.int64), np.fromiter(resets, np.int64)
        parts = [definitions]
        for provider, numbers in rows_of_each(np.fromiter(resets.values(), np.int64)):
            at = np.sort(at_rows[numbers])
            table = self._tables.get(provider, self._initial)
            old, code = table.items()
            old = old[code != self._initial.take(old)]
            own = rows_of.get(provider, none)
            slot = np.append(old, definitions.slot[own])
            after = np.searchsorted(at, np.append(np.full(len(old), -1), definitions.row[own]))
            slot, after = slot[after < len(at)], after[after < len(at)]
            code = self._initial.take(slot)
            parts.append(Definitions(np.full(len(slot), provider, np.int32), slot, at[after], code))
        order = np.argsort(np.concatenate([part.row for part in parts]), kind="stable")
        return Definitions(
            np.concatenate([part.provider for part in parts])[order],
            np.concatenate([part.slot for part in parts])[order],
            np.concatenate([part.row for part in parts])[order],
            np.concatenate([part.code for part in parts])[order],
        )


@dataclass(frozen=True, slots=True)
class SlotLookup:
    """Resolves the references of one batch.

    Attributes:
        initial: the codes of the slots of a provider that has defined none.
        before: the tables of the providers before the batch.
        after: the tables of the providers behind the batch.
        last_row: for every provider and slot, the row of the last definition in the batch, -1 for none.
        definitions: all definitions of the batch.
    """

    initial: SlotValues
    before: dict[int, SlotValues]
    after: dict[int, SlotValues]
    last_row: dict[int, SlotValues]
    definitions: Definitions

    def only(self, provider: int | Array) -> int | None:
        """Return the code of slot 0 if it is the same for all records of the batch, else None."""
        if not isinstance(provider, int) or provider in self.last_row:
            return None
        return int(self.after.get(provider, self.initial).take(np.zeros(1, np.int64))[0])

    def defined(self, provider: int | Array) -> int:
        """Return a number below which all slots are defined, in a batch that has no definitions itself."""
        if not isinstance(provider, int):
            return 0
        table = self.after.get(provider, self.initial)
        if table.slots is not None:
            return 0
        return int(np.argmax(table.values < 0))

    def table(self, provider: int) -> tuple[Array, Array]:
        """Return the last code of each slot of a provider in the batch, and the row from which it is valid.

        Returns:
            Arrays by slot: the codes (int32), `UNDEFINED` for a slot that is not defined; and the rows (int64).
        """
        after, last = self.after.get(provider, self.initial), self.last_row.get(provider)
        slots = np.arange(len(after.values) - 1 if after.slots is None else int(after.slots[-1]) + 1)
        return after.take(slots), np.full(len(slots), -1) if last is None else last.take(slots)

    def codes(self, provider: int | Array, slot: Array, row: Array) -> Array:
        """Return the code of each reference (int32), `UNDEFINED` if its slot is not defined before it.

        Args:
            provider: the index of the provider of each reference, or of all.
            slot: the slots.
            row: the numbers of the records in the batch, ascending (int64).
        """
        if isinstance(provider, int):
            return self._codes(provider, slot, row)
        codes = np.empty(len(slot), np.int32)
        for index, rows in rows_of_each(provider):
            codes[rows] = self._codes(index, slot[rows], row[rows])
        return codes

    def _codes(self, provider: int, slot: Array, row: Array) -> Array:
        codes = self.after.get(provider, self.initial).take(slot)
        last = self.last_row.get(provider)
        if last is None or not len(row) or int(last.values.max()) < int(row[0]):
            return codes
        redefined = np.flatnonzero(last.take(slot) > row)
        if len(redefined):
            codes[redefined] = self._codes_at(provider, slot[redefined].astype(np.int64), row[redefined])
        return codes

    def _codes_at(self, provider: int, slot: Array, row: Array) -> Array:
        """Return the codes of slots that are defined again behind the reference: by the last definition before it."""
        own = self.definitions.provider == provider
        order = np.lexsort((self.definitions.row[own], self.definitions.slot[own]))
        slots = self.definitions.slot[own][order]
        keys = slots * _MAX_ROWS + self.definitions.row[own][order]
        index = np.searchsorted(keys, slot * _MAX_ROWS + row) - 1
        in_batch = (index >= 0) & (slots[index] == slot)
        old = self.before.get(provider, self.initial).take(slot)
        return np.where(in_batch, self.definitions.code[own][order][index], old)
