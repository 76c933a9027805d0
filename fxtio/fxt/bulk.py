"""Columns to the words of many events: the inside of `write_events`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.codec.record import layout_of
from fxtio.codec.scatter import ManyWords, Ragged, interleave, words_of
from fxtio.errors import EncodeError
from fxtio.fxt import arguments as a
from fxtio.fxt.pack import EVENT_CLASS, MAX_ARGS, SHORT_TEXT, THREAD_SLOTS, Packer
from fxtio.table import Categories

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Text:
    """Distinct values and, for every row, which of them (None: the first, for all rows)."""

    values: Sequence[Any]
    codes: Array | None


def event_words(
    packer: Packer, kind: str, timestamp: Any, thread: Text, name: Any, columns: Mapping[str, Any]
) -> Array:
    """The words of many events (uint64); the packer defines strings and threads that they need.

    Raises:
        EncodeError: something cannot be said.
    """
    if kind not in EVENT_CLASS:
        raise EncodeError(f"{kind!r} is no event type; there are {', '.join(EVENT_CLASS)}", "kind")
    cls = EVENT_CLASS[kind]
    tails = [field for field in ("end", "id") if field in dict(layout_of(cls).parts)]
    if unknown := set(columns) - {"category", "args", *tails}:
        raise EncodeError(f"{kind} events have no column {min(unknown)!r}", "columns")
    rows = len(timestamp)
    names, categories = text_of(name, rows, "name"), text_of(columns.get("category", ""), rows, "category")
    args = {key: _value(key, value, rows) for key, value in columns.get("args", {}).items()}
    _check_room(names, categories, args, thread)
    packer.make_room(_strings(names, categories, args))
    made: dict[str, Any] = {
        "timestamp": np.asarray(timestamp),
        "thread": _slots([packer.thread_reference(one) for one in thread.values], thread.codes),
        "category": _slots([packer.reference(one, "category") for one in categories.values], categories.codes),
        "name": _slots([packer.reference(one) for one in names.values], names.codes),
        "args": _args(packer, args, rows),
        "scope": None,
    }
    for field in tails:
        if field not in columns:
            raise EncodeError(f"{kind} events need the column {field!r}", "columns")
        made[field] = np.asarray(columns[field])
    return words_of(cls, rows, made).words


def text_of(value: Any, rows: int, field: str) -> Text:
    """A string, a `Categories`, or a pair of strings and indices, as `Text`.

    Raises:
        EncodeError: it is none of these, or an index is outside.
    """
    if isinstance(value, str):
        return Text([value], None)
    values, codes = (value.values, value.codes) if isinstance(value, Categories) else value
    codes = np.asarray(codes)
    if len(codes) != rows:
        raise EncodeError(f"{len(codes):,} rows, but there are {rows:,} events", field)
    if rows and not 0 <= int(codes.min()) <= int(codes.max()) < len(values):
        raise EncodeError(f"an index is outside of the {len(values):,} values", field)
    used = np.flatnonzero(np.bincount(codes, minlength=len(values)))
    if len(used) < len(values):
        codes, values = np.searchsorted(used, codes), [values[code] for code in used.tolist()]
    return Text(list(values), codes)


def _value(key: str, value: Any, rows: int) -> Text | Array:
    if isinstance(value, str | Categories | tuple):
        return text_of(value, rows, f"args[{key!r}]")
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise EncodeError(f"no argument type holds a column of {array.dtype}", f"args[{key!r}]")
    return np.broadcast_to(array, rows)


def _strings(names: Text, categories: Text, args: Mapping[str, Text | Array]) -> int:
    values = sum(len(value.values) for value in args.values() if isinstance(value, Text))
    return len(names.values) + len(categories.values) + len(args) + values


def _check_room(names: Text, categories: Text, args: Mapping[str, Text | Array], thread: Text) -> None:
    if len(args) > MAX_ARGS:
        raise EncodeError(f"{len(args)} arguments, {MAX_ARGS} are the most", "args")
    if len(thread.values) > THREAD_SLOTS:
        raise EncodeError(f"{len(thread.values):,} threads, {THREAD_SLOTS} are the most at once", "thread")
    for key, value in args.items():
        if isinstance(value, Text) and any(
            len(one.encode("utf-8", "surrogateescape")) > SHORT_TEXT * 4 for one in value.values
        ):
            raise EncodeError(f"text over {SHORT_TEXT * 4} bytes does not go in columns", f"args[{key!r}]")


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
