"""Columns to the words of many events: the inside of `write_events`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.codec.parts import Thread
from fxtio.codec.scatter import ManyWords, Ragged, interleave, ranges, words_of
from fxtio.errors import EncodeError
from fxtio.fxt import arguments as a
from fxtio.fxt import records as r
from fxtio.fxt.pack import EVENT_CLASS, MAX_ARGS, THREAD_SLOTS, Packer, text_bytes
from fxtio.table import Categories

Array = np.ndarray[Any, Any]

MAX_COLUMN_TEXT = 1024
"""The longest argument text in bytes that a column may hold: all of it goes through the string table."""


@dataclass(frozen=True, slots=True)
class Text:
    """Distinct values and, for every row, which of them (None: the first, for all rows)."""

    values: Sequence[Any]
    codes: Array | None


@dataclass(frozen=True, slots=True)
class Events:
    """Events of one kind as columns, looked through and found sayable; nothing is written yet."""

    cls: type[r.Event]
    timestamp: Array
    thread: Text
    name: Text
    category: Text
    args: dict[str, Text | Array]
    tail: dict[str, Array]

    @property
    def strings(self) -> int:
        """How many strings they need, at the most."""
        values = sum(len(value.values) for value in self.args.values() if isinstance(value, Text))
        return len(self.name.values) + len(self.category.values) + len(self.args) + values


def prepared(kind: str, *, timestamp: Any, thread: Any, name: Any, **columns: Any) -> Events:
    """The arguments of `write_events`, checked.

    Raises:
        EncodeError: something cannot be said.
    """
    if kind not in EVENT_CLASS:
        raise EncodeError(f"{kind!r} is no event type; there are {', '.join(EVENT_CLASS)}", "kind")
    tails = [field for field in ("end", "id") if field in EVENT_CLASS[kind].__struct_fields__]
    if unknown := set(columns) - {"category", "args", *tails}:
        raise EncodeError(f"{kind} events have no column {min(unknown)!r}", "columns")
    if missing := set(tails) - set(columns):
        raise EncodeError(f"{kind} events need the column {min(missing)!r}", "columns")
    timestamp = np.asarray(timestamp)
    if timestamp.ndim != 1:
        raise EncodeError("must be a column", "timestamp")
    rows = len(timestamp)
    args = columns.get("args") or {}
    if len(args) > MAX_ARGS:
        raise EncodeError(f"{len(args)} arguments, {MAX_ARGS} are the most", "args")
    return Events(
        EVENT_CLASS[kind],
        timestamp,
        threads_of(thread, rows),
        text_of(name, rows, "name"),
        text_of(columns.get("category", ""), rows, "category"),
        {key: _value(value, rows, f"args[{key!r}]") for key, value in args.items()},
        {field: _column(columns[field], rows, field) for field in tails},
    )


def words_of_events(packer: Packer, pieces: Sequence[Events]) -> Array:
    """The words of all events (uint64) in the order of their times; those of one piece keep their order.

    The packer defines all strings and threads that they need before the first of them.

    Raises:
        EncodeError: something cannot be said.
    """
    threads = [thread for piece in pieces for thread in piece.thread.values]
    if len(set(threads)) > THREAD_SLOTS:
        raise EncodeError(f"{len(set(threads)):,} threads, {THREAD_SLOTS} are the most at once", "thread")
    packer.make_room(sum(piece.strings for piece in pieces))
    packer.make_thread_room(threads)
    encoded = [_encoded(packer, piece) for piece in pieces]
    if len(encoded) == 1:
        return encoded[0].words
    times = np.concatenate([piece.timestamp for piece in pieces])
    size = np.repeat([one.count for one in encoded], [len(piece.timestamp) for piece in pieces])
    order = np.argsort(times, kind="stable")
    place = np.empty_like(size)
    place[order] = np.cumsum(size[order]) - size[order]
    joined = np.empty(int(size.sum()), np.uint64)
    joined[ranges(place, size)] = np.concatenate([one.words for one in encoded])
    return joined


def _encoded(packer: Packer, piece: Events) -> Ragged:
    rows = len(piece.timestamp)
    made: dict[str, Any] = {
        "timestamp": piece.timestamp,
        "thread": _slots([packer.thread_reference(one) for one in piece.thread.values], piece.thread.codes),
        "category": _slots([packer.reference(one, "category") for one in piece.category.values], piece.category.codes),
        "name": _slots([packer.reference(one) for one in piece.name.values], piece.name.codes),
        "args": _args(packer, piece.args, rows),
        "scope": None,
    }
    return words_of(piece.cls, rows, made | piece.tail)


def text_of(value: Any, rows: int, field: str) -> Text:
    """A string, a `Categories`, or a pair of strings and indices, as `Text`.

    Raises:
        EncodeError: it is none of these, or an index is outside.
    """
    if isinstance(value, str):
        return Text([value], None)
    if isinstance(value, Categories):
        value = value.values, value.codes
    if not isinstance(value, tuple) or len(value) != 2:
        raise EncodeError("is neither a string, nor a Categories, nor a pair of values and indices", field)
    values, codes = value[0], np.asarray(value[1])
    if codes.shape != (rows,):
        raise EncodeError(f"{codes.size:,} rows, but there are {rows:,} events", field)
    if rows and codes.dtype.kind not in "iu":
        raise EncodeError(f"a column of {codes.dtype} is no column of indices", field)
    codes = codes.astype(np.int64)
    if rows and not 0 <= int(codes.min()) <= int(codes.max()) < len(values):
        raise EncodeError(f"an index is outside of the {len(values):,} values", field)
    used = np.flatnonzero(np.bincount(codes, minlength=len(values)))
    if len(used) < len(values):
        codes, values = np.searchsorted(used, codes), [values[code] for code in used.tolist()]
    return Text(list(values), codes)


def threads_of(thread: Any, rows: int) -> Text:
    """A track, or a pair of tracks and indices, as `Text` whose values are threads."""
    if hasattr(thread, "process"):
        return Text([Thread(thread.process, thread.thread)], None)
    tracks, indices = thread
    return text_of(([Thread(one.process, one.thread) for one in tracks], indices), rows, "thread")


def _value(value: Any, rows: int, where: str) -> Text | Array:
    if isinstance(value, str | Categories | tuple):
        text = text_of(value, rows, where)
        for one in text.values:
            if len(text_bytes(one, where)) > MAX_COLUMN_TEXT:
                raise EncodeError(f"text over {MAX_COLUMN_TEXT:,} bytes does not go in columns", where)
        return text
    array = _column(value, rows, where)
    if array.dtype.kind not in "biuf":
        raise EncodeError(f"no argument type holds a column of {array.dtype}", where)
    return array


def _column(value: Any, rows: int, field: str) -> Array:
    """A column of numbers; one number stands for all rows."""
    array = np.asarray(value)
    if array.shape not in ((), (rows,)):
        raise EncodeError(f"{array.size:,} values, but there are {rows:,} events", field)
    return np.broadcast_to(array, rows)


def _slots(slots: list[int], codes: Array | None) -> Any:
    return slots[0] if codes is None else np.array(slots, np.uint16)[codes]


def _args(packer: Packer, args: Mapping[str, Text | Array], rows: int) -> ManyWords:
    bodies = []
    for key, value in args.items():
        name = packer.reference(key, "args")
        if isinstance(value, Text):
            slots = _slots([packer.reference(one, f"args[{key!r}]") for one in value.values], value.codes)
            bodies.append(words_of(a.StringArgument, rows, {"name": name, "value": slots}))
        else:
            bodies.append(words_of(_argument_class(value), rows, {"name": name, "value": value}))
    if not bodies:
        return ManyWords(0, Ragged(np.empty(0, np.uint64), 0))
    return ManyWords(len(bodies), interleave(bodies, rows))


def _argument_class(values: Array) -> type[a.Argument]:
    """The argument type for a column: of the column's own type, narrowed to 32 bits where all values fit."""
    if values.dtype.kind == "b":
        return a.BoolArgument
    if values.dtype.kind == "f":
        return a.DoubleArgument
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if values.dtype == np.int32 or (low >= -(1 << 31) and high < 1 << 31):
        return a.Int32Argument
    if low >= 0 and high < 1 << 32:
        return a.Uint32Argument
    return a.Int64Argument if high < 1 << 63 else a.Uint64Argument
