"""The records of a `<tid>.dat` file, declared once; and from columns to the bytes of many records.

The payload that follows a record is kept as bytes, with its padding, which uftrace does not fill with zeros.  Other
files specify its values: `fxtio.uftrace.payloads` and `fxtio.uftrace.events` decode them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from msgspec import field

from fxtio.arrays import Array
from fxtio.codec.encode_columns import Ragged, interleave
from fxtio.codec.generate import Order, codec_of
from fxtio.codec.integers import MAX_INT64
from fxtio.codec.parts import Rest
from fxtio.codec.record import Opaque, Record
from fxtio.errors import EncodeError
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.layout import EntryWord, EventWord, ExitWord, LostWord, RecordWord, TimeWord

TYPES = tuple(kind.name.lower() for kind in RecordType)
"""The texts of the column `type` of the table `records`, by code."""

Payload = Annotated[bytes | None, Rest(flag="more")]
"""A multiple of 8 bytes, or None."""


class FunctionEntry(Record, frozen=True, gc=False, tag="entry"):
    """The entry of a function.  spec: ENTRY record

    Attributes:
        time: nanoseconds.
        depth: the number of calls around it, modulo 1024.
        address: the lower 48 bits of an address inside the function.
        payload: the arguments.
    """

    words = (TimeWord, EntryWord)
    time: int = field(name="timestamp")
    depth: int
    address: int
    payload: Payload = field(default=None, name="_payload")


class FunctionExit(Record, frozen=True, gc=False, tag="exit"):
    """The exit of a function.  spec: EXIT record

    Attributes:
        time: nanoseconds.
        depth: the depth of the entry.
        address: the address of the entry.
        payload: the return value.
    """

    words = (TimeWord, ExitWord)
    time: int = field(name="timestamp")
    depth: int
    address: int
    payload: Payload = field(default=None, name="_payload")


class Lost(Record, frozen=True, gc=False, tag="lost"):
    """A number of records that could not be written.  spec: LOST record

    Attributes:
        time: 0.
        depth: without meaning.
        count: the number of lost records.
        payload: None.
    """

    words = (TimeWord, LostWord)
    time: int = field(name="timestamp")
    depth: int = field(name="_depth")
    count: int
    payload: Payload = field(default=None, name="_payload")


class Event(Record, frozen=True, gc=False, tag="event"):
    """An event other than a call.  spec: EVENT record

    Attributes:
        time: nanoseconds.
        depth: 0.
        event: the id of the event, see `fxtio.uftrace.enums.EventId`.
        payload: two bytes of length, the data, padding.
    """

    words = (TimeWord, EventWord)
    time: int = field(name="timestamp")
    depth: int = field(name="_depth")
    event: int = field(name="id")
    payload: Payload = field(default=None, name="_payload")


CLASSES: dict[RecordType, type[Record]] = {
    RecordType.ENTRY: FunctionEntry,
    RecordType.EXIT: FunctionExit,
    RecordType.LOST: Lost,
    RecordType.EVENT: Event,
}


def decode(words: list[int], data: Any, at: int, stop: int) -> Record:
    """Decode the record at the words `at` to `stop`.

    Args:
        words: words as native integers.
        data: the same words as bytes in the order of the file.
        at: the index of the first word of the record.
        stop: the index after its last word.

    Raises:
        DecodeError: the words are not a record.
    """
    record: Record = codec_of(CLASSES[RecordWord.fields["type"].get(words[at + 1])]).decode(words, data, at, stop, [])
    return record


def encode(record: Record | Opaque, order: Any = "little") -> bytes:
    """Return the bytes of one record.

    Raises:
        EncodeError: the object is not a record of uftrace, or a value does not fit its field.
    """
    if isinstance(record, Opaque):
        return record.raw
    if type(record) not in CLASSES.values():
        raise EncodeError(f"{type(record).__name__} is not a record of uftrace")
    return codec_of(type(record)).encode(record, order)


# ---- columns


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


def integers(name: str, column: Any) -> Array:
    """Return an array or a list of integers as int64, or as uint64 where int64 does not hold them.

    Raises:
        EncodeError: it has other values, or more than one dimension.
    """
    try:
        values = np.asarray(column) if len(column) else np.empty(0, np.int64)
    except (TypeError, ValueError, OverflowError):
        raise EncodeError("the values are not integers", name) from None
    if values.ndim != 1:
        raise EncodeError(f"the array has {values.ndim} dimensions, not one", name)
    if values.dtype.kind not in "iu":
        raise EncodeError("the values are not integers", name)
    is_large = values.dtype == np.uint64 and len(values) > 0 and int(values.max()) > MAX_INT64
    return values if is_large else values.astype(np.int64, copy=False)
