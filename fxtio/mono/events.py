"""The events of a buffer as typed objects, one by one, with the functions generated from the declarations.

A fault ends its buffer, since what follows cannot be told without what came before; the next buffer goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fxtio.codec.record import Opaque
from fxtio.codec.stream import SUBTYPE, UNKNOWN, Dialect
from fxtio.codec.stream_generate import stream_codec_of
from fxtio.codec.varint import take_uleb
from fxtio.errors import DecodeError
from fxtio.mono.header import BufferHeader


class State:
    """What the values of a buffer are relative to; the declarations name its attributes.

    Attributes:
        time: the last time.
        method: the last method.
        pointer: the base of pointers.
        object: the base of objects.
        mask: the largest address.
    """

    __slots__ = ("mask", "method", "object", "pointer", "time")

    def __init__(self, header: BufferHeader, dialect: Dialect) -> None:
        self.time, self.method = header.time, header.method
        self.pointer, self.object = header.pointer, header.object
        self.mask = (1 << dialect.width) - 1


def decode_event(dialect: Dialect, data: bytes, at: int, end: int, state: State) -> tuple[Any, int]:
    """The event that begins at `at`, and the place behind it.

    Raises:
        DecodeError: nobody knows the event, or it does not end within the buffer.
    """
    head = data[at]
    kind = dialect.heads[head]
    if kind == SUBTYPE:
        _, place = take_uleb(data, at + 1, end, "time")
        if place >= end:
            raise DecodeError("event-cut", "the data end before the metadata's type")
        kind = dialect.subtypes.get((head, data[place]), UNKNOWN)
        if kind == UNKNOWN:
            raise DecodeError("unknown-event", f"metadata of the unknown type {data[place]} ({head:#04x})")
    if kind == UNKNOWN:
        raise DecodeError("unknown-event", f"data version {dialect.version} has no event {head:#04x}")
    return stream_codec_of(dialect.classes[kind], dialect.version).decode(data, at, end, state)


def events_of(dialect: Dialect, header: BufferHeader, data: bytes) -> Iterator[tuple[int, Any]]:
    """The events of a buffer and where they are in `data`, up to the first fault.

    Raises:
        DecodeError: at the first fault, with its offset in `data`.
    """
    state, at, end = State(header, dialect), 0, len(data)
    while at < end:
        try:
            event, after = decode_event(dialect, data, at, end, state)
        except DecodeError as error:
            raise DecodeError(error.rule, error.message, at) from None
        yield at, event
        at = after


def exact_events_of(dialect: Dialect, header: BufferHeader, data: bytes) -> list[Any]:
    """The events of a buffer such that writing them gives the same bytes: what would not is `Opaque`.

    So is, in one piece, everything from the first fault on.
    """
    reading, writing = State(header, dialect), State(header, dialect)
    found: list[Any] = []
    at, end = 0, len(data)
    while at < end:
        try:
            event, after = decode_event(dialect, data, at, end, reading)
        except DecodeError:
            found.append(Opaque(data[at:]))
            break
        if stream_codec_of(type(event), dialect.version).encode(event, writing) != data[at:after]:
            event = Opaque(data[at:after])
        found.append(event)
        writing.time, writing.method = reading.time, reading.method
        at = after
    return found


def encode_events(dialect: Dialect, header: BufferHeader, events: list[Any]) -> bytes:
    """The bytes of a buffer's events.

    Raises:
        EncodeError: the data version cannot say one of them.
    """
    state = State(header, dialect)
    out = []
    for event in events:
        if type(event) is Opaque:
            out.append(event.raw)
            _follow(dialect, event.raw, state)
        else:
            out.append(stream_codec_of(type(event), dialect.version).encode(event, state))
    return b"".join(out)


def _follow(dialect: Dialect, raw: bytes, state: State) -> None:
    """Move the running values on as a reader of these bytes does."""
    at = 0
    while at < len(raw):
        try:
            _, at = decode_event(dialect, raw, at, len(raw), state)
        except DecodeError:
            return
