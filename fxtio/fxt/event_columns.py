"""Columns of events: checked, and then encoded with numpy, without Python code per event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fxtio.arrays import Array, ranges
from fxtio.codec.columns import OptionalColumn
from fxtio.codec.encode_columns import ManyWords, Ragged, interleave, words_of
from fxtio.codec.integers import text_bytes
from fxtio.errors import EncodeError, shown
from fxtio.fxt import records as r
from fxtio.fxt.events import ENDS_EARLY, ProviderEncoder, check_count
from fxtio.fxt.layout import MAX_ARGUMENTS, MAX_STRING_SLOT, MAX_THREAD_SLOT
from fxtio.fxt.records import Thread
from fxtio.report import counted
from fxtio.table import Categories

MAX_ROWS = 1 << 18
"""The most rows of a table that are encoded at once."""

EVENT_TYPES = [*r.EVENT_CLASSES.values()]
"""The class of each event type, by its number."""

MAX_COLUMN_TEXT = 1024
"""The longest argument text in bytes that a column may have: all of it goes into the string table."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """A column of values of which many rows have the same one.

    Attributes:
        values: the distinct values.
        codes: for every row the index of its value (int64); None if all rows have the first one.
    """

    values: Sequence[Any]
    codes: Array | None

    def take(self, rows: Array) -> Indexed:
        """Return some rows (indices), with the values that they use."""
        return self if self.codes is None else _used_only(self.values, self.codes[rows])


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Checked columns of events of one type.

    Attributes:
        cls: the class of the events.
        order: the position of every event among those that are written together (any numbers that can be sorted).
        timestamp: ticks.
        thread: the threads, `Thread` values.
        name: the names.
        category: the categories.
        args: the arguments by name.
        tail: the columns `end`, `id` or `scope` of the events that have them.
        present: for arguments that not all events have, by name, the events that have it (bool).
        listed: all arguments, in place of `args`.
    """

    cls: type[r.Event]
    order: Array
    timestamp: Array
    thread: Indexed
    name: Indexed
    category: Indexed
    args: dict[str, Indexed | Array]
    tail: dict[str, Array | OptionalColumn]
    present: dict[str, Array] = field(default_factory=dict)
    listed: ListedArguments | None = None

    @property
    def strings(self) -> int:
        """The number of strings that they need at most."""
        values = sum(len(value.values) for value in self.args.values() if isinstance(value, Indexed))
        values += 0 if self.listed is None else len(self.listed.texts)
        return len(self.name.values) + len(self.category.values) + len(self.args) + values


@dataclass(frozen=True, slots=True)
class EventTable:
    """Checked columns of events of all types.

    Attributes:
        kind: the event types, see `EventType` (int64).
        ticks: the times in ticks (uint64).
        thread: the threads, `Thread` values.
        name: the names.
        category: the categories.
        tail: the `end` or the `id` of the events that have one (uint64).
        scope: the scope of the instants that have one.
        args: the arguments by name.
        present: for arguments that not all rows have, by name, the rows that have it (bool).
        listed: all arguments, in place of `args`.
    """

    kind: Array
    ticks: Array
    thread: Indexed
    name: Indexed
    category: Indexed
    tail: Array
    scope: OptionalColumn
    args: dict[str, Indexed | Array] = field(default_factory=dict)
    present: dict[str, Array] = field(default_factory=dict)
    listed: ListedArguments | None = None

    def parts(self, rows: slice) -> Iterator[list[EventColumns]]:
        """Yield rows in parts whose strings and threads fit in the tables of a provider, each part by event type."""
        begins = range(rows.start, rows.stop, MAX_ROWS)
        pending = [np.arange(begin, min(begin + MAX_ROWS, rows.stop)) for begin in reversed(begins)]
        while pending:
            part = pending.pop()
            kind = self.kind[part]
            groups = [self._group(each, part[kind == each]) for each in np.unique(kind).tolist()]
            threads = {thread for group in groups for thread in group.thread.values}
            strings = sum(group.strings for group in groups)
            if len(part) > 1 and (strings > MAX_STRING_SLOT or len(threads) > MAX_THREAD_SLOT):
                half = len(part) // 2
                pending += [part[half:], part[:half]]
            else:
                yield groups

    def _group(self, kind: int, rows: Array) -> EventColumns:
        """Return some rows, which are of an event type."""
        cls = EVENT_TYPES[kind]
        present = {key: mask[rows] for key, mask in self.present.items()}
        keys = [key for key in self.args if key not in present or present[key].any()]
        tail: dict[str, Array | OptionalColumn]
        tail = {name: self.tail[rows] for name in ("end", "id") if name in cls.__struct_fields__}
        if cls is r.Instant:
            tail = {"scope": OptionalColumn(self.scope.values[rows], self.scope.present[rows])}
        return EventColumns(
            cls,
            rows,
            self.ticks[rows],
            self.thread.take(rows),
            self.name.take(rows),
            self.category.take(rows),
            {key: value.take(rows) if isinstance(value := self.args[key], Indexed) else value[rows] for key in keys},
            tail,
            {key: mask for key, mask in present.items() if key in keys},
            None if self.listed is None else self.listed.of(rows),
        )


def event_columns(group: Any) -> EventColumns:
    """Return the arguments of `Provider.write_events`, given as a mapping, as checked columns.

    Raises:
        EncodeError: the format cannot represent something.
    """
    if not isinstance(group, Mapping):
        raise EncodeError(f"{shown(group)} is not a mapping of columns", "columns")
    kind = group.get("kind")
    if not isinstance(kind, str) or kind not in r.EVENT_CLASSES:
        raise EncodeError(f"{shown(kind)} is not an event type; the types are {', '.join(r.EVENT_CLASSES)}", "kind")
    tails = [name for name in ("end", "id") if name in r.EVENT_CLASSES[kind].__struct_fields__]
    required = {"timestamp", "thread", "name", *tails}
    if unknown := set(group) - {"kind", "category", "args", *required}:
        raise EncodeError(f"{kind} events have no column {min(map(shown, unknown))}", "columns")
    if missing := required - set(group):
        raise EncodeError(f"{kind} events need the column {min(missing)!r}", "columns")
    timestamp = _array(group["timestamp"], "timestamp")
    if timestamp.ndim != 1:
        raise EncodeError("must be a column", "timestamp")
    rows = len(timestamp)
    args = {} if group.get("args") is None else group["args"]
    if not isinstance(args, Mapping):
        raise EncodeError(f"a {type(args).__name__} is not a mapping from names to columns", "args")
    check_count(args)
    return EventColumns(
        r.EVENT_CLASSES[kind],
        timestamp,
        timestamp,
        _threads(group["thread"], rows),
        texts(group["name"], rows, "name"),
        texts(group.get("category", ""), rows, "category"),
        {key: argument_column(value, rows, f"args[{key!r}]") for key, value in args.items()},
        {field: _numbers(group[field], rows, field) for field in tails},
    )


def words_of_events(encoder: ProviderEncoder, groups: Sequence[EventColumns]) -> Array:
    """Encode events; the encoder defines all strings and threads that they need before the first of them.

    Returns:
        The words of all events (uint64), sorted by their `order`; events with the same keep theirs.

    Raises:
        EncodeError: the format cannot represent something.
    """
    threads = [thread for group in groups for thread in group.thread.values]
    if len(set(threads)) > MAX_THREAD_SLOT:
        raise EncodeError(f"{len(set(threads)):,} threads at once; the limit is {MAX_THREAD_SLOT}", "thread")
    encoder.reserve_strings(sum(group.strings for group in groups))
    encoder.reserve_threads(threads)
    encoded = [_encode(encoder, group) for group in groups]
    if len(encoded) == 1:
        return encoded[0].words
    sizes = [np.broadcast_to(part.count, len(group.order)) for part, group in zip(encoded, groups, strict=True)]
    size = np.concatenate(sizes)
    order = np.argsort(np.concatenate([group.order for group in groups]), kind="stable")
    begin = np.empty_like(size)
    begin[order] = np.cumsum(size[order]) - size[order]
    words = np.empty(int(size.sum()), np.uint64)
    words[ranges(begin, size)] = np.concatenate([part.words for part in encoded])
    return words


def _encode(encoder: ProviderEncoder, group: EventColumns) -> Ragged:
    """Encode events of one type, in their own order."""
    rows = len(group.timestamp)
    columns: dict[str, Any] = {
        "timestamp": group.timestamp,
        "thread": _spread([encoder.thread_slot(thread) for thread in group.thread.values], group.thread.codes),
        "category": _string_slots(encoder, group.category, "category"),
        "name": _string_slots(encoder, group.name, "name"),
        "args": _arguments(encoder, group, rows),
        "scope": None,
    }
    words = words_of(group.cls, rows, columns | group.tail)
    if "end" in group.tail:
        ends: Any = group.tail["end"]
        if (ends.astype(np.uint64) < group.timestamp.astype(np.uint64)).any():  # neither is negative, see `words_of`
            raise EncodeError(ENDS_EARLY, "end")
    return words


def _string_slots(encoder: ProviderEncoder, column: Indexed, where: str) -> Any:
    return _spread([encoder.string_slot(text, where) for text in column.values], column.codes)


def _spread(slots: list[int], codes: Array | None) -> Any:
    """Return the slot of each row, or one int for all rows."""
    return slots[0] if codes is None else np.array(slots, np.uint16)[codes]


def _arguments(encoder: ProviderEncoder, group: EventColumns, rows: int) -> ManyWords:
    if group.listed is not None:
        slots = [encoder.string_slot(text, "args") for text in group.listed.texts]
        return group.listed.words(np.array(slots, np.uint16), rows)
    bodies: list[Ragged] = []
    count: int | Array = 0
    for key, column in group.args.items():
        name = encoder.string_slot(key, "args")
        is_text = isinstance(column, Indexed)
        value = _string_slots(encoder, column, f"args[{key!r}]") if isinstance(column, Indexed) else column
        present = group.present.get(key)
        if present is not None and not isinstance(value, int):
            value = value[present]
        cls = r.StringArgument if is_text else _argument_class(value)
        body = words_of(cls, rows if present is None else int(present.sum()), {"name": name, "value": value})
        if present is not None:
            body = Ragged(body.words, present.astype(np.int64) * body.count)
        bodies.append(body)
        count = count + (1 if present is None else present.astype(np.int64))
    if not bodies:
        return ManyWords(0, Ragged(np.empty(0, np.uint64), 0))
    return ManyWords(count, interleave(bodies, rows))


def _argument_class(values: Array) -> type[r.Argument]:
    """Return the argument class for a column of booleans, floats or integers: the first one that holds all integers."""
    if values.dtype.kind == "b":
        return r.BoolArgument
    if values.dtype.kind == "f":
        return r.DoubleArgument
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    cls = r.integer_class(low, high)
    if cls is None:
        raise EncodeError(f"no argument type holds all integers from {low} to {high}", "args")
    return cls


def texts(value: Any, rows: int, where: str, *, noun: str = "events") -> Indexed:
    """Return a string for all rows, a `Categories`, or a pair of strings and indices as a column.

    Raises:
        EncodeError: it is none of these, it has another number of rows, a null or an index that is out of range.
    """
    if isinstance(value, str):
        return Indexed([value], None)
    if isinstance(value, Categories):
        value = value.values, value.codes
    if not isinstance(value, tuple) or len(value) != 2:
        raise EncodeError("is neither a string, nor a Categories, nor a pair of values and indices", where)
    values, codes = _items(value[0], where), _array(value[1], where)
    if codes.shape != (rows,):
        raise EncodeError(f"{counted(codes.size, 'row')}, but there are {rows:,} {noun}", where)
    if rows and codes.dtype.kind not in "iu":
        raise EncodeError(f"a column of {codes.dtype} is not a column of indices", where)
    codes = codes.astype(np.int64)
    if rows and not 0 <= int(codes.min()) <= int(codes.max()) < len(values):
        raise EncodeError(f"an index is outside of {counted(len(values), 'value')}", where)
    return _used_only(values, codes)


def _used_only(values: Sequence[Any], codes: Array) -> Indexed:
    """Return a column without the values that no row has."""
    used = np.flatnonzero(np.bincount(codes, minlength=len(values)))
    if len(used) < len(values):
        codes, values = np.searchsorted(used, codes), [values[code] for code in used.tolist()]
    return Indexed(list(values), codes)


def _threads(thread: Any, rows: int) -> Indexed:
    """Return a track, or a pair of tracks and indices, as a column of threads."""
    if not isinstance(thread, tuple):
        return Indexed([_thread_of(thread)], None)
    if len(thread) != 2:
        raise EncodeError("is neither a track nor a pair of a list of tracks and indices", "thread")
    return texts(([_thread_of(track) for track in _items(thread[0], "thread")], thread[1]), rows, "thread")


def _items(values: Any, where: str) -> list[Any]:
    """Return the items of a sequence or of an array of one dimension."""
    if not isinstance(values, Sequence) and not (isinstance(values, np.ndarray) and values.ndim == 1):
        raise EncodeError(f"{shown(values)} is not a sequence of values", where)
    return list(values)


def _thread_of(track: Any) -> Thread:
    """Return the thread of a `Track`."""
    process, thread = getattr(track, "process", None), getattr(track, "thread", None)
    if not isinstance(process, int) or not isinstance(thread, int):
        raise EncodeError(f"{shown(track)} is not a track", "thread")
    return Thread(process, thread)


def argument_column(value: Any, rows: int, where: str) -> Indexed | Array:
    """Return the values of an argument as a column.

    Raises:
        EncodeError: no argument type holds them, there is another number of rows, or a text is too long.
    """
    if isinstance(value, str | Categories | tuple):
        column = texts(value, rows, where)
        for text in column.values:
            if len(text_bytes(text, where)) > MAX_COLUMN_TEXT:
                raise EncodeError(f"a column cannot have text over {MAX_COLUMN_TEXT:,} bytes", where)
        return column
    array = _numbers(value, rows, where)
    if array.dtype.kind not in "biuf":
        raise EncodeError(f"no argument type holds a column of {array.dtype}", where)
    return array


def _numbers(value: Any, rows: int, where: str) -> Array:
    """Return numbers, or one number for all rows, as an array."""
    array = _array(value, where)
    if array.shape not in ((), (rows,)):
        raise EncodeError(f"{counted(array.size, 'value')} for {counted(rows, 'event')}", where)
    return np.broadcast_to(array, rows)


def _array(value: Any, where: str) -> Array:
    """Return a column as an array of any type.

    Raises:
        EncodeError: its values have different shapes.
    """
    try:
        return np.asarray(value)
    except (TypeError, ValueError):
        raise EncodeError(f"a {type(value).__name__} is not a column of numbers", where) from None


# ---- arguments of any names and types, without a column for each name


@dataclass(frozen=True, slots=True)
class ListedArguments:
    """Arguments of events, those of each event together.

    Attributes:
        row: the event that has it (int64), ascending.
        cls: the index of its class in `ARGUMENTS.classes` (int64).
        name: the index of its name in `texts` (int64).
        bits: its value: signed numbers and doubles by their bits, of a string the index in `texts` (uint64).
        texts: the names, and the values of strings.
    """

    row: Array
    cls: Array
    name: Array
    bits: Array
    texts: Sequence[str]

    def of(self, events: Array) -> ListedArguments | None:
        """Return the arguments of some events (ascending), which are numbered anew; None if they have none."""
        first, last = int(events[0]), int(events[-1])
        begin, end = np.searchsorted(self.row, (first, last + 1)).tolist()
        number = np.full(last + 1 - first, -1)
        number[events - first] = np.arange(len(events))
        row = number[self.row[begin:end] - first]
        is_own = row >= 0
        own = slice(begin, end) if is_own.all() else np.flatnonzero(is_own) + begin
        row = row[is_own]
        if not len(row):
            return None
        cls, name, bits = self.cls[own], self.name[own], self.bits[own].copy()
        is_text = cls == r.ARGUMENTS.classes.index(r.StringArgument)
        used = _used_only(self.texts, np.append(name, bits[is_text].view(np.int64)))
        assert used.codes is not None
        bits[is_text] = used.codes[len(name) :].view(np.uint64)
        return ListedArguments(row, cls, used.codes[: len(name)], bits, used.values)

    def words(self, slots: Array, rows: int) -> ManyWords:
        """Encode the arguments.

        Args:
            slots: the slot of each text.
            rows: the number of events.

        Raises:
            EncodeError: an event has too many arguments, or a value does not fit.
        """
        per_row = np.bincount(self.row, minlength=rows)
        if len(self.row) and int(per_row.max()) > MAX_ARGUMENTS:
            raise EncodeError(f"{int(per_row.max())} arguments; the limit is {MAX_ARGUMENTS}", "args")
        size = np.zeros(len(self.row), np.int64)
        encoded = []
        for number in np.flatnonzero(np.bincount(self.cls)).tolist():
            chosen = np.flatnonzero(self.cls == number)
            cls = r.ARGUMENTS.classes[number]
            columns: dict[str, Any] = {"name": slots[self.name[chosen]]}
            if cls is not r.NullArgument:
                columns["value"] = _listed_values(cls, self.bits[chosen], slots)
            part = words_of(cls, len(chosen), columns)
            size[chosen] = part.count
            encoded.append((chosen, part))
        begin = np.cumsum(size) - size
        words = np.empty(int(size.sum()), np.uint64)
        for chosen, part in encoded:
            words[ranges(begin[chosen], size[chosen])] = part.words
        width = np.bincount(self.row, weights=size, minlength=rows).astype(np.int64)
        return ManyWords(per_row, Ragged(words, width))


def _listed_values(cls: type, bits: Array, slots: Array) -> Array:
    if cls is r.StringArgument:
        return np.take(slots, bits.astype(np.int64))
    if cls is r.DoubleArgument:
        return bits.view(np.float64)
    if cls is r.BoolArgument:
        return np.asarray(bits != 0)
    return bits.view(np.int64) if cls in (r.Int32Argument, r.Int64Argument) else bits
