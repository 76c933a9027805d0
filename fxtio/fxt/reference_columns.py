"""References to strings and threads in columns: decode, encode and describe many of them at once.

The code for this is registered with the shared codec when a record with such a part is first decoded to
columns, encoded from columns, or described, see `fxtio.codec.parts.Part.extension`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.columns import Columns, Rows, StreamColumn, take_part
from fxtio.codec.describe import Walk, emit_part, part_meaning, slot_meaning, word_value
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
