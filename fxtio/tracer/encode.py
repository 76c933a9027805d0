"""The records that a recording writes from Python: its front, names of processes and threads, and losses.

Header words are sums of the constants in `fxtio.fxt.constants`, as in the C code.  Tests compare the bytes with those
of the typed records, which would take longer to import than many programs run.
"""

from __future__ import annotations

import struct

from fxtio.fxt import constants as c
from fxtio.labels import OBJECT_KOID

MAGIC = (c.MAGIC_HEADER + c.SIZE_UNIT).to_bytes(8, "little")
"""The record with which every trace begins."""


def provider(koid: int, name: str) -> bytes:
    """Return the record that names the provider, which is the process."""
    text = _encoded(name)
    padded = text.ljust(_padded_size(len(text)), b"\0")
    fields = koid * c.PROVIDER_ID_UNIT + len(text) * c.PROVIDER_NAME_SIZE_UNIT
    return _record(c.PROVIDER_HEADER + fields, extra=padded)


def clock(rate: int, wall_ns: int) -> bytes:
    """Return the record of the clock: ticks per second, and nanoseconds since the Unix epoch at tick 0."""
    return _record(c.CLOCK_HEADER, rate, 0, wall_ns)


def process(koid: int, name: int, facts: dict[int, int]) -> bytes:
    """Return the record that names a process, with numbers as its arguments.

    Its name, and those of the arguments, are slots.
    """
    return _object(c.PROCESS_HEADER, koid, name, [_number(*fact) for fact in facts.items()])


def labels(name: int, texts: list[tuple[int, int]]) -> bytes:
    """Return the records that have labels as arguments; the name of the object, those of labels and texts are slots."""
    arguments = [_text(*each) for each in texts]
    portions = [arguments[start : start + c.MAX_ARGUMENTS] for start in range(0, len(arguments), c.MAX_ARGUMENTS)]
    return b"".join(_object(c.JOB_HEADER, OBJECT_KOID, name, portion) for portion in portions)


def thread_name(thread: int, name: int, process: int, key: int) -> bytes:
    """Return the record that gives a thread of a process its name; this and the text `process`, the key, are slots."""
    return _object(c.THREAD_HEADER, thread, name, [_argument(c.KOID_HEADER, key, process)])


def loss(tick: int, process: int, texts: tuple[int, int, int], count: int) -> bytes:
    """Return the records that say how many events of a process were lost, and since which tick.

    The texts are slots: the category, the name and the name of the argument.
    """
    category, name, key = texts
    references = category * c.EVENT_CATEGORY_UNIT + name * c.EVENT_NAME_UNIT
    argument = _argument(c.UINT64_HEADER, key, count)
    event = _record(c.INSTANT_HEADER + c.EVENT_ARGUMENTS_UNIT + references, tick, process, process, extra=argument)
    return event + _record(c.LOSS_HEADER + process * c.PROVIDER_ID_UNIT)


def front_of(data: bytes) -> tuple[int, str, int, int] | None:
    """Return the provider's id and name, the rate of the clock, and the time of tick 0; None if they are not in data.

    The records are taken for what they should be: the caller encodes the values and compares.
    """
    begin = len(MAGIC)
    words = memoryview(data)[: len(data) // 8 * 8].cast("Q")
    if len(data) < begin + 8:
        return None
    header = words[begin // 8]
    size = header // c.PROVIDER_NAME_SIZE_UNIT % c.PROVIDER_NAME_SIZE_VALUES
    values = begin // 8 + 1 + _padded_size(size) // 8 + 1
    if values + 3 > len(words):
        return None
    name = data[begin + 8 : begin + 8 + size].decode("utf-8", "surrogateescape")
    return header // c.PROVIDER_ID_UNIT % c.PROVIDER_ID_VALUES, name, words[values], words[values + 2]


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _object(header: int, koid: int, name: int, arguments: list[bytes]) -> bytes:
    """Return the record of a kernel object, whose name is a slot."""
    header += name * c.OBJECT_NAME_UNIT + len(arguments) * c.OBJECT_ARGUMENTS_UNIT
    return _record(header, koid, extra=b"".join(arguments))


def _padded_size(size: int) -> int:
    return -(-size // 8) * 8


def _argument(header: int, name: int, value: int) -> bytes:
    """Return an argument with a value of one word; its name is a slot of the string table."""
    return _record(header + name * c.ARGUMENT_NAME_UNIT, value)


def _number(name: int, value: int) -> bytes:
    """Return an argument with a number that is not negative, as short as it can be."""
    if value < c.UINT32_VALUES:
        return _record(c.UINT32_HEADER + name * c.ARGUMENT_NAME_UNIT + value * c.UINT32_VALUE_UNIT)
    return _argument(c.UINT64_HEADER, name, value)


def _text(name: int, value: int) -> bytes:
    """Return an argument with a text; this and the name are slots."""
    return _record(c.TEXT_HEADER + name * c.ARGUMENT_NAME_UNIT + value * c.TEXT_VALUE_UNIT)


def _record(header: int, *words: int, extra: bytes = b"") -> bytes:
    """Return the bytes of a record, or of an argument: the header with the size, words, and bytes after them."""
    size = 1 + len(words) + len(extra) // 8
    return struct.pack(f"<{1 + len(words)}Q", header + size * c.SIZE_UNIT, *words) + extra
