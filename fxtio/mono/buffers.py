"""The events of one buffer, from bytes to typed records and back.

A fault ends its buffer, since the values after it are relative to those before it; the next buffer goes on.  The bases
of a buffer that the writer makes are the first values of its first event that are not null: a null base would make all
differences as long as addresses.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import msgspec

from fxtio.codec.integers import MAX_UINT64, checked_integer
from fxtio.codec.record import Opaque
from fxtio.codec.stream.codec import decode_record, encode_record
from fxtio.codec.stream.declare import Dialect, Item, Relative, Repeated, Running, StreamPart, StreamState, layout_of
from fxtio.errors import DecodeError, EncodeError
from fxtio.mono.headers import BUFFER_HEADER_SIZE, BufferHeader, encode_buffer_header
from fxtio.mono.layout import MAX_BUFFER_SIZE

MAX_EVENT_BYTES = MAX_BUFFER_SIZE - BUFFER_HEADER_SIZE
"""The most bytes of events that a buffer gets, unless a single event is larger."""


def state_of(header: BufferHeader, dialect: Dialect) -> StreamState:
    """Return the bases and running values at the beginning of a buffer."""
    names = ("time", "method", "pointer", "object")
    return StreamState(dialect.mask, {name: getattr(header, name) for name in names})


def decode_events(dialect: Dialect, header: BufferHeader, data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the events of a buffer with their offsets in `data`, up to the first fault.

    Raises:
        DecodeError: at the first fault, with its offset in `data`.
    """
    state, offset, end = state_of(header, dialect), 0, len(data)
    while offset < end:
        try:
            event, after = decode_record(dialect, data, offset, end, state)
        except DecodeError as error:
            raise DecodeError(error.rule, error.message, offset) from None
        yield offset, event
        offset = after


def decode_events_exactly(dialect: Dialect, header: BufferHeader, data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the events of a buffer with their offsets, such that encoding them gives the same bytes.

    An event that would give other bytes is `Opaque`, and so is, in one record, everything from the first fault on.
    """
    reading, writing = state_of(header, dialect), state_of(header, dialect)
    offset, end = 0, len(data)
    while offset < end:
        try:
            event, after = decode_record(dialect, data, offset, end, reading)
        except DecodeError:
            yield offset, Opaque(data[offset:])
            return
        if encode_record(dialect, event, writing) != data[offset:after]:
            event = Opaque(data[offset:after])
        yield offset, event
        writing.restore(reading.copy())
        offset = after


class OpenBuffer:
    """A buffer to which events are appended.

    Args:
        header: its header.
        dialect: the events that it can hold.
        limit: the most bytes of events, unless a single event is larger; None for no limit.
        raw: the bytes of the header, where they are not those of `header` with the size of the events.

    Raises:
        EncodeError: a value of the header does not fit.
    """

    def __init__(
        self, header: BufferHeader, dialect: Dialect, limit: int | None = MAX_EVENT_BYTES, raw: bytes = b""
    ) -> None:
        encode_buffer_header(header, 0)  # a value that does not fit is refused before there are events
        self.header = header
        self._dialect, self._limit, self._raw = dialect, limit, raw
        self._state: Any = state_of(header, dialect)
        self._untimed = untimed_events(dialect)
        self._data = bytearray()

    def append(self, event: Any) -> bool:
        """Append an event; return whether there was room for it.  A buffer without room takes no further events.

        An event that has no time of its own in the data version needs a buffer whose last time is its own, so there is
        no room for it after another time.

        Raises:
            EncodeError: the data version does not have the event, or a value does not fit; the buffer is unchanged.
        """
        if self._limit is not None and type(event) in self._untimed and event.time != self._state.time:
            return False
        raw = encode_record(self._dialect, event, self._state)
        if self._limit is not None and self._data and len(self._data) + len(raw) > self._limit:
            return False
        self._data += raw
        return True

    def to_bytes(self) -> bytes:
        """Return the header and the events.

        Raises:
            EncodeError: there are more bytes of events than a buffer can have.
        """
        return (self._raw or encode_buffer_header(self.header, len(self._data))) + bytes(self._data)


@cache
def untimed_events(dialect: Dialect) -> frozenset[type[Any]]:
    """Return the events that have no time of their own in a data version."""
    return frozenset(layout.cls for layout in dialect.layouts if layout is not None and "time" in layout.absent)


class Bases:
    """Chooses the bases of buffers: what the first event of a buffer lacks is as in the last buffer."""

    def __init__(self) -> None:
        self._last = {"pointer": 0, "object": 0, "method": 0}

    def buffer(self, thread: int, event: Any, dialect: Dialect) -> OpenBuffer:
        """Return a buffer that begins with this event.

        Raises:
            EncodeError: the data version does not have the event, or a value does not fit.
        """
        bases: dict[str, int] = {}
        _find_bases(event, dialect.version, bases)
        last = self._last | bases
        buffer = OpenBuffer(BufferHeader(time=event.time, thread=thread, **last), dialect)
        buffer.append(event)
        self._last = last  # only those of an event that was accepted
        return buffer


def with_plain_integers(events: Sequence[Any], error: EncodeError) -> list[Any]:
    """Return events that the codec refused, with `int` in place of integers of other types, such as those of numpy.

    The codec takes no others than `int`, and looking for them in every event would take long.

    Args:
        events: the events.
        error: the refusal; raised if there are no such integers.
    """
    plain = [_plain(event) for event in events]
    if all(map(operator.is_, plain, events)):
        raise error
    return plain


def _plain(value: Any) -> Any:
    """Return an event or a part of one with `int` in place of other integers; the same object if it has none."""
    if isinstance(value, tuple):
        parts = tuple(map(_plain, value))
        return value if all(map(operator.is_, parts, value)) else parts
    if isinstance(value, Item):
        fields = msgspec.structs.asdict(value)
        changes = {name: new for name, part in fields.items() if (new := _plain(part)) is not part}
        return msgspec.structs.replace(value, **changes) if changes else value
    if isinstance(value, int) or not hasattr(value, "__index__"):
        return value
    return checked_integer(value, type(value).__name__, -MAX_UINT64)


def _find_bases(record: Any, version: float, bases: dict[str, int]) -> None:
    """Add the first value relative to each base that is not null."""
    layout = layout_of(type(record), version)
    for name, part in layout.parts if layout else ():
        _find_base(part, getattr(record, name), version, bases)


def _find_base(part: StreamPart, value: Any, version: float, bases: dict[str, int]) -> None:
    if isinstance(part, Repeated) and isinstance(value, tuple):
        for item in value:
            if isinstance(part.of, StreamPart):
                _find_base(part.of, item, version, bases)
            elif isinstance(item, Item):
                _find_bases(item, version, bases)
    elif isinstance(part, Relative | Running) and isinstance(value, int) and value > 0:
        base = part.base if isinstance(part, Relative) else part.of
        bases.setdefault(base, value >> part.shift if isinstance(part, Relative) else value)
