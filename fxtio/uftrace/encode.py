"""From columns to the bytes of records, with numpy: the inverse of `fxtio.uftrace.tables`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.codec.encode_columns import Ragged, interleave
from fxtio.codec.generate import Order
from fxtio.codec.integers import MAX_INT64
from fxtio.errors import EncodeError
from fxtio.pairing import pair
from fxtio.table import Categories
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.layout import DEPTHS, RecordWord, TimeWord
from fxtio.uftrace.pairing import NO_ENTRY, STATES, WHOLE
from fxtio.uftrace.tables import TYPES


def record_bytes(
    kind: Any,
    time: Array,
    depth: Array,
    address: Array,
    payload: Sequence[bytes | None] | None = None,
    order: Order = "little",
) -> memoryview:
    """Return the bytes of many records.

    Args:
        kind: the type of each record (`RecordType`).
        time: nanoseconds.
        depth: the depth of each record.
        address: the address of each record.
        payload: the payload of each record, a multiple of 8 bytes, or None.
        order: the byte order.

    Raises:
        EncodeError: a value does not fit its field.
    """
    rows = len(time)
    if any(len(column) != rows for column in (np.atleast_1d(kind), depth, address) if len(column) != 1):
        raise EncodeError("the columns differ in length")
    more: Any = 0
    body: Ragged | None = None
    if payload is not None:
        body = _payload_words(payload, rows, order)
        more = np.array([raw is not None for raw in payload], np.uint64)
    fields: dict[str, Any] = {"type": kind, "more": more, "depth": depth, "address": address}
    first: dict[str, Any] = {"time": time}
    second = RecordWord(**fields).value
    parts = [Ragged(TimeWord(**first).value, 1), Ragged(np.broadcast_to(second, rows), 1)]
    words = interleave([*parts, *([body] if body is not None else [])], rows).words
    return (words if order == "little" else words.byteswap()).data.cast("B")


def _payload_words(payload: Any, rows: int, order: Order) -> Ragged:
    if isinstance(payload, str | bytes) or not isinstance(payload, Sequence):
        raise EncodeError("the payloads are not a list", "payload")
    if not all(raw is None or isinstance(raw, bytes) for raw in payload):
        raise EncodeError("a payload is neither bytes nor None", "payload")
    if len(payload) != rows:
        raise EncodeError("the columns differ in length")
    sizes = np.array([len(raw or b"") for raw in payload], np.int64)
    if (sizes % 8).any():
        raise EncodeError("the size of a payload is not a multiple of 8 bytes", "payload")
    words = np.frombuffer(b"".join([raw or b"" for raw in payload]), np.uint64)
    return Ragged(words if order == "little" else words.byteswap(), sizes // 8)


def type_codes(column: Any) -> Array:
    """Return the types of records (uint8) of a column of texts or of numbers of `RecordType`.

    Raises:
        EncodeError: a value is not a type.
    """
    return _codes("type", column, TYPES).astype(np.uint8)


def _codes(name: str, column: Any, values: Sequence[str]) -> Array:
    if isinstance(column, Categories):
        code_of = {text: values.index(text) if text in values else -1 for text in column.values}
        table = np.array([*(code_of[text] for text in column.values), -1], np.int64)
        codes: Array = table[column.codes]
    else:
        codes = integers(name, column)
    if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < len(values):
        raise EncodeError(f"a value is not one of {', '.join(values)}", name)
    return codes


def integers(name: str, column: Any) -> Array:
    """Return a column of integers as int64, or as uint64 where int64 does not hold them, so that sums are exact.

    Raises:
        EncodeError: the column has other values.
    """
    if not isinstance(column, np.ndarray) or column.dtype.kind not in "iu":
        raise EncodeError("the values are not integers", name)
    is_large = column.dtype == np.uint64 and len(column) > 0 and int(column.max()) > MAX_INT64
    return column if is_large else column.astype(np.int64, copy=False)


class CallOrder:
    """The order of the entry and exit records of the calls of one task.

    Calls come in the order in which they end; else they are sorted.  With the depths, this
    order determines the order of all entries, also of those with the same time.

    Args:
        start: nanoseconds (int64).
        end: nanoseconds (int64).
        depth: the number of calls around each call (int64).
        state: codes in `STATES`.

    Attributes:
        row: the row of the call of each record.
        kind: the type of each record (uint8).
        time: the time of each record (int64).

    Raises:
        EncodeError: calls overlap without being nested.
    """

    def __init__(self, start: Array, end: Array, depth: Array, state: Array) -> None:
        order = np.arange(len(start))
        if (end[1:] < end[:-1]).any():
            order = np.lexsort((start, -depth, end))
        first = _first_inside(start[order], end[order], depth[order], state[order])
        ranks = np.arange(len(order))
        has_entry, has_exit = state[order] != NO_ENTRY, np.isin(state[order], (WHOLE, NO_ENTRY))
        # An entry precedes all records of the first call inside of it, entries of outer calls come first.
        keys = np.concatenate([first[has_entry], ranks[has_exit]])
        inner = np.concatenate([depth[order][has_entry], np.full(int(has_exit.sum()), np.iinfo(np.int64).max)])
        rows = np.concatenate([order[has_entry], order[has_exit]])
        kinds = np.repeat(np.array([RecordType.ENTRY, RecordType.EXIT], np.uint8), [has_entry.sum(), has_exit.sum()])
        sequence = np.lexsort((inner, keys))
        self.row, self.kind = rows[sequence], kinds[sequence]
        self.time = np.where(self.kind == RecordType.ENTRY, start[self.row], end[self.row])
        if (self.time[1:] < self.time[:-1]).any():
            raise EncodeError("calls of a task overlap without being nested", "start")


def _first_inside(start: Array, end: Array, depth: Array, state: Array) -> Array:
    """Return, for calls in the order of their ends, the row of the first call inside of each call, or its own row."""
    rows = np.arange(len(start))
    first = np.maximum(_first_deeper(depth), np.searchsorted(end, start, "left"))
    # Deeper calls that ended before are not inside; at equal times, those are that took no time.
    begin = np.where(state == NO_ENTRY, end, start)
    while (outside := (first < rows) & (end[first] == start) & (begin[first] < start)).any():
        first = first + outside
    return np.minimum(first, rows)


def _first_deeper(depth: Array) -> Array:
    """Return, for each call, the first row of the uninterrupted rows before it that are deeper, or its own row."""
    count = len(depth)
    # Backwards, each call is like an entry: it ends at the next entry that is not deeper.
    pairs = pair(np.full(count, SpanStep.BEGIN, np.int8), level=depth[::-1])
    return np.where(pairs.on_stack, 0, count - pairs.end)[::-1]


def call_states(column: Any | None, rows: int) -> Array:
    """Return the states of calls (codes in `STATES`) of a column of texts or codes; `whole` without a column.

    Raises:
        EncodeError: a value is not a state.
    """
    return np.full(rows, WHOLE, np.int64) if column is None else _codes("state", column, STATES)


def checked_depth(column: Any, function_size: int) -> Array:
    """Return the depths of calls (int64).

    Args:
        column: the depths.
        function_size: the size of a function in bytes, which limits the carry into the address, see `wrapped`.

    Raises:
        EncodeError: a depth is negative or too large.
    """
    depth, limit = integers("depth", column), function_size * DEPTHS
    if not 0 <= int(depth.min()) <= int(depth.max()) < limit:
        raise EncodeError(f"a depth is not from 0 to {limit - 1:,}", "depth")
    return depth.astype(np.int64)


def wrapped(depth: Array, address: Array) -> tuple[Array, Array]:
    """Return depths and addresses as records hold them: a depth beyond 1023 wraps around and carries into the address.

    Args:
        depth: the depths (int64).
        address: the first addresses of the functions (uint64).
    """
    return depth % DEPTHS, address + (depth // DEPTHS).astype(np.uint64)
