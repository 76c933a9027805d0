"""Buffers in the making: events in, whole buffers out.

A buffer's bases are chosen when its first event comes: the first value that is not null, since a null would be a
distance as long as an address for everything behind it.
"""

from __future__ import annotations

from typing import Any

from fxtio.codec.record import Opaque
from fxtio.codec.stream import Dialect, Item, Many, Part, Relative, Running, form_of
from fxtio.codec.stream_generate import stream_codec_of
from fxtio.errors import EncodeError
from fxtio.mono.events import State
from fxtio.mono.header import BUFFER_SIZE, BufferHeader, encode_buffer_header
from fxtio.mono.records import EVENTS

LIMIT = (1 << 16) - BUFFER_SIZE
"""The most bytes of events that a buffer gets, unless a single event is larger."""

_KINDS = frozenset(EVENTS)


class OpenBuffer:
    """A buffer that takes events.

    Args:
        header: its header.
        dialect: the events that it can hold.
    """

    def __init__(self, header: BufferHeader, dialect: Dialect) -> None:
        self.header = header
        self._dialect = dialect
        self._state = State(header, dialect)
        self._data = bytearray()

    def add(self, event: Any) -> bool:
        """Take in an event; False if there is no room for it.

        Raises:
            EncodeError: the data version cannot say it.
        """
        before = self._state.time, self._state.method
        piece = stream_codec_of(type(event), self._dialect.version).encode(event, self._state)
        if self._data and len(self._data) + len(piece) > LIMIT:
            self._state.time, self._state.method = before
            return False
        self._data += piece
        return True

    def whole(self) -> bytes:
        """The buffer's bytes."""
        return encode_buffer_header(self.header, len(self._data)) + bytes(self._data)


class Bases:
    """Chooses what the values of a buffer are relative to."""

    def __init__(self) -> None:
        self._last = {"pointer": 0, "object": 0, "method": 0}

    def header(self, thread: int, event: Any, dialect: Dialect) -> BufferHeader:
        """The header of a buffer that begins with this event.

        Raises:
            EncodeError: it is no event, or one that the data version does not have.
        """
        if type(event) not in _KINDS:
            what = "bytes need a buffer of their own" if type(event) is Opaque else "it is no event"
            raise EncodeError(what, type(event).__name__)
        form = form_of(type(event), dialect.version)
        if form is None:
            raise EncodeError(f"data version {dialect.version} does not have it", type(event).__name__)
        found: dict[str, int] = {}
        _look(event, dialect.version, found)
        self._last.update(found)
        time = event.time if isinstance(event.time, int) else 0
        return BufferHeader(time=time, thread=thread, **self._last)


def _look(record: Any, version: float, found: dict[str, int]) -> None:
    """Note the first value of each sort that is not null."""
    form = form_of(type(record), version)
    for name, part in form.parts if form else ():
        _note(part, getattr(record, name), version, found)


def _note(part: Part, value: Any, version: float, found: dict[str, int]) -> None:
    if isinstance(part, Many) and isinstance(value, tuple):
        for one in value:
            if isinstance(part.of, Part):
                _note(part.of, one, version, found)
            elif isinstance(one, Item):
                _look(one, version, found)
    elif isinstance(part, Relative | Running) and isinstance(value, int) and value > 0:
        base = part.base if isinstance(part, Relative) else part.of
        found.setdefault(base, value >> part.shift if isinstance(part, Relative) else value)
