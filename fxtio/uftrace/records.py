"""The records of a `<tid>.dat` file, declared once.

The payload that follows a record is kept as bytes, with its padding, which uftrace does not fill with zeros.  Other
files specify its values: `fxtio.uftrace.payloads` and `fxtio.uftrace.events` decode them.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import field

from fxtio.codec.generate import codec_of
from fxtio.codec.parts import Rest
from fxtio.codec.record import Opaque, Record
from fxtio.errors import EncodeError
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.layout import EntryWord, EventWord, ExitWord, LostWord, RecordWord, TimeWord

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
    time: int
    depth: int
    address: int
    payload: Payload = None


class FunctionExit(Record, frozen=True, gc=False, tag="exit"):
    """The exit of a function.  spec: EXIT record

    Attributes:
        time: nanoseconds.
        depth: the depth of the entry.
        address: the address of the entry.
        payload: the return value.
    """

    words = (TimeWord, ExitWord)
    time: int
    depth: int
    address: int
    payload: Payload = None


class Lost(Record, frozen=True, gc=False, tag="lost"):
    """A number of records that could not be written.  spec: LOST record

    Attributes:
        time: 0.
        depth: without meaning.
        count: the number of lost records.
        payload: None.
    """

    words = (TimeWord, LostWord)
    time: int
    depth: int
    count: int
    payload: Payload = None


class Event(Record, frozen=True, gc=False, tag="event"):
    """An event other than a call.  spec: EVENT record

    Attributes:
        time: nanoseconds.
        depth: 0.
        event: the id of the event, see `fxtio.uftrace.enums.EventId`.
        payload: two bytes of length, the data, padding.
    """

    words = (TimeWord, EventWord)
    time: int
    depth: int
    event: int = field(name="id")
    payload: Payload = None


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
