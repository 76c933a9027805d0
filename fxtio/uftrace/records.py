"""The records of a `<tid>.dat` file, declared once.

The payload behind a record is kept as it is, with its padding, which uftrace does not write as zeros.  What it says
only a specification tells that stands in other files: see `fxtio.uftrace.arguments` and `fxtio.uftrace.events`.
"""

from __future__ import annotations

from typing import Annotated, Any

from fxtio.codec.generate import codec_of
from fxtio.codec.parts import Rest
from fxtio.codec.record import Opaque, Record
from fxtio.errors import EncodeError
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.layout import EntryWord, EventWord, ExitWord, LostWord, RecordWord, TimeWord

Payload = Annotated[bytes | None, Rest(flag="more")]
"""Whole words of bytes, or None."""


class Entry(Record, frozen=True, gc=False):
    """A function was entered.  spec: ENTRY record

    Attributes:
        time: nanoseconds.
        depth: how many calls are around it, modulo 1024.
        address: inside of the function.
        payload: the arguments.
    """

    words = (TimeWord, EntryWord)
    time: int
    depth: int
    address: int
    payload: Payload = None


class Exit(Record, frozen=True, gc=False):
    """A function was left.  spec: EXIT record

    Attributes:
        time: nanoseconds.
        depth: as that of the entry.
        address: as that of the entry.
        payload: the return value.
    """

    words = (TimeWord, ExitWord)
    time: int
    depth: int
    address: int
    payload: Payload = None


class Lost(Record, frozen=True, gc=False):
    """Some records could not be written.  spec: LOST record

    Attributes:
        time: 0.
        depth: means nothing.
        count: how many.
        payload: None.
    """

    words = (TimeWord, LostWord)
    time: int
    depth: int
    count: int
    payload: Payload = None


class Event(Record, frozen=True, gc=False):
    """Something happened that is no call.  spec: EVENT record

    Attributes:
        time: nanoseconds.
        depth: 0.
        event: the id, see `fxtio.uftrace.enums.EventId`.
        payload: two bytes of length, the data, padding.
    """

    words = (TimeWord, EventWord)
    time: int
    depth: int
    event: int
    payload: Payload = None


CLASSES: dict[RecordType, type[Record]] = {
    RecordType.ENTRY: Entry,
    RecordType.EXIT: Exit,
    RecordType.LOST: Lost,
    RecordType.EVENT: Event,
}


def decode(words: list[int], data: Any, at: int, stop: int) -> Record:
    """Decode the record at the words `at` to `stop`.

    Args:
        words: native integers.
        data: the same words as bytes, as in the file.
        at: its first word.
        stop: the word behind it.

    Raises:
        DecodeError: it is none.
    """
    record: Record = codec_of(CLASSES[RecordWord.fields["type"].get(words[at + 1])]).decode(words, data, at, stop, [])
    return record


def encode(record: Record | Opaque, order: Any = "little") -> bytes:
    """The bytes of one record.

    Raises:
        EncodeError: the format cannot say it.
    """
    if isinstance(record, Opaque):
        return record.raw
    if type(record) not in CLASSES.values():
        raise EncodeError(f"{type(record).__name__} is no record of uftrace")
    return codec_of(type(record)).encode(record, order)
