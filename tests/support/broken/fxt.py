"""Traces that break one rule each: those about limits and merging, and those that lead Perfetto astray.

Most are records of a sound trace; what the writer refuses is changed in their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from fxtio.codec.generate import Order, encode
from fxtio.codec.record import Record
from fxtio.codec.word import Word
from fxtio.fxt import layout as w
from fxtio.fxt import records as r
from fxtio.fxt.enums import ObjectType
from fxtio.fxt.records import Thread
from fxtio.fxt.rules.spans import DEEPEST
from fxtio.fxt.rules.view import MAX_KEPT
from fxtio.fxt.slots import NS_PER_SECOND
from fxtio.fxt.state import MAX_CLOCKS, MAX_OBJECTS

Part = Record | bytes
Break = Callable[[Path], None]

PROCESS, THREAD, SLOT = 1, 2, 1
"""The process and the thread of every trace, and the slot of the thread table that stands for them."""

_WORD = 8


def words(*values: int) -> bytes:
    """Return words as bytes."""
    return b"".join(value.to_bytes(_WORD, "little") for value in values)


def header(word: type[Word], **fields: int) -> int:
    """Return a header word of a kind with values in some fields; the others are 0."""
    value = word.pattern("tag", "const")[1]
    for name, number in fields.items():
        field = word.fields[name]
        value = value & ~field.put(field.mask) | field.put(number)
    return value


def changed(record: Record, word: type[Word], **fields: int) -> bytes:
    """Return the bytes of a record with other values in fields of its header."""
    raw = encode(record)
    old = int.from_bytes(raw[:_WORD], "little")
    values = {name: int(field.get(old)) for name, field in word.fields.items()} | fields
    return words(header(word, **values)) + raw[_WORD:]


def named(thread: int, process: int = PROCESS) -> Record:
    """Return the object record that names a thread."""
    return r.KernelObject(ObjectType.THREAD, thread, f"thread {thread}", (r.KoidArgument("process", process),))


def preamble(rate: int = NS_PER_SECOND) -> list[Part]:
    """Return the records that begin a sound trace."""
    return [
        r.Magic(),
        r.ProviderInfo(1, "fxtio breaks"),
        r.Initialization(rate),
        *_definitions(),
    ]


def _definitions() -> list[Part]:
    process = r.KernelObject(ObjectType.PROCESS, PROCESS, "process", ())
    return [r.ThreadRecord(SLOT, PROCESS, THREAD), process, named(THREAD)]


def instant(time: int = 50, *args: r.Argument, name: int | str = "event", thread: int | Thread = SLOT) -> Record:
    """Return an instant."""
    return r.Instant(time, thread, "test", name, args)


def complete(begin: int, end: int) -> Record:
    """Return a complete event."""
    return r.DurationComplete(begin, SLOT, "test", "span", (), end)


def _event(cls: type[r.Event], time: int, *rest: int, name: str = "span", slot: int = SLOT) -> Record:
    record: Record = cls(time, slot, "test", name, (), *rest)
    return record


def _begin(time: int, name: str = "span", slot: int = SLOT) -> Record:
    return _event(r.DurationBegin, time, name=name, slot=slot)


def _end(time: int, name: str = "span") -> Record:
    return _event(r.DurationEnd, time, name=name)


def _write(path: Path, parts: Iterable[Part], order: Order = "little") -> None:
    path.write_bytes(b"".join(part if isinstance(part, bytes) else encode(part, order) for part in parts))


FOLLOWING: tuple[Part, ...] = tuple(instant(time) for time in range(1_000, 1_005))
"""Enough good records to go on with after a bad header."""


def _trace(*parts: Part, rate: int = NS_PER_SECOND) -> Break:
    return partial(_write, parts=[*preamble(rate), *parts, *FOLLOWING])


def _many(parts: Callable[[], Iterable[Part]]) -> Break:
    """Return what writes a trace with many records, which exist only while it is written."""

    def write(path: Path) -> None:
        _trace(*parts())(path)

    return write


def _whole(*parts: Part) -> Break:
    return partial(_write, parts=parts)


def _without(cls: type[Record]) -> Break:
    """Return what writes a trace without the records of a class."""
    return _whole(*(part for part in preamble() if not isinstance(part, cls)), *FOLLOWING)


def _large_blob(payload: bytes) -> r.LargeBlobNoMetadata:
    return r.LargeBlobNoMetadata("test", "blob", payload)


def _flow(cls: type[r.Event], time: int, number: int = 5) -> Record:
    return _event(cls, time, number, name="flow")


def _many_open() -> list[Part]:
    threads = -(-(MAX_KEPT + 1) // DEEPEST)
    koids = range(100, 100 + threads)
    parts: list[Part] = [r.String(1, "span")]
    for slot, koid in enumerate(koids, 2):
        parts += [named(koid), r.ThreadRecord(slot, PROCESS, koid)]
        parts += [r.DurationBegin(time, slot, 0, 1, ()) for time in range(DEEPEST)]
    return parts


def _since(wall_clock: int) -> list[Part]:
    """Return the records that begin a trace whose tick 0 was at a time in nanoseconds since the Unix epoch."""
    begin = preamble()
    return [r.Initialization(NS_PER_SECOND, 0, wall_clock) if isinstance(p, r.Initialization) else p for p in begin]


_IN_2023 = 1_700_000_000 * NS_PER_SECOND
_LATE = 200_000  # records, of several batches

_SPAN = complete(100, 200)
_TEXT_SLOT = 3
_INLINE, _INLINE_3 = (w.StringRefWord(index=length, inline=1).value for length in (1, 3))  # texts of 1 and 3 bytes

BREAKS: dict[str, Break] = {
    "fxt.framing.no-magic": _without(r.Magic),
    "fxt.text.nul": _trace(r.String(_TEXT_SLOT, "a\0b"), instant(name=_TEXT_SLOT)),
    "fxt.provider.again": _trace(r.ProviderInfo(1, "another"), r.Initialization(NS_PER_SECOND), *_definitions()),
    "fxt.clock.changed": _trace(r.Initialization(1_000_000)),
    "fxt.clock.too-many": _many(lambda: (r.Initialization(NS_PER_SECOND, 0, wall) for wall in range(MAX_CLOCKS + 1))),
    "fxt.time.negative": _trace(instant(2**64 - 5)),
    "fxt.thread.wide": _trace(named(2**32 + THREAD), instant(thread=Thread(PROCESS, 2**32 + THREAD))),
    "fxt.event.child-first": _trace(complete(100, 150), _SPAN),
    "fxt.event.too-deep": _trace(
        *(_begin(time) for time in range(DEEPEST + 1)), *(_end(900) for _ in range(DEEPEST + 1))
    ),
    "fxt.event.too-many-open": _many(_many_open),
    "fxt.arg.name-again": _trace(instant(50, r.Int32Argument("a", 1), r.Int32Argument("a", 2))),
    "fxt.arg.unsigned-large": _trace(instant(50, r.Uint64Argument("a", 2**63))),
    "fxt.arg.nan": _trace(instant(50, r.DoubleArgument("a", float("nan")))),
    "fxt.async.name": _trace(_event(r.AsyncBegin, 50, 5), _event(r.AsyncEnd, 60, 5, name="another")),
    "fxt.async.shared-id": _trace(
        _event(r.AsyncBegin, 50, 5),
        _event(r.AsyncBegin, 60, 5, name="another"),
        _event(r.AsyncEnd, 70, 5),
        _event(r.AsyncEnd, 80, 5, name="another"),
    ),
    "fxt.flow.on-instant": _trace(
        _SPAN, instant(120), _flow(r.FlowBegin, 130), complete(300, 400), _flow(r.FlowEnd, 350)
    ),
    "fxt.large.interop": _trace(_large_blob(bytes(w.MAX_RECORD_WORDS * _WORD))),
    "fxt.object.too-many": _many(
        lambda: (r.KernelObject(ObjectType.VMO, koid, "vmo", ()) for koid in range(MAX_OBJECTS + 1))
    ),
    "fxt.merge.no-wall-clock": _trace(),
    "fxt.merge.clock-apart": _whole(
        *_since(_IN_2023),
        *FOLLOWING,
        r.ProviderInfo(2, "later"),
        r.Initialization(NS_PER_SECOND, 0, 2**64 - 1),
        *_definitions(),
        *FOLLOWING,
    ),
    "fxt.merge.late-provider": _whole(
        r.Magic(),
        r.Initialization(NS_PER_SECOND, 0, _IN_2023),
        *[encode(r.String(_TEXT_SLOT, "name"))] * _LATE,
        r.ProviderInfo(3, "late"),
        *FOLLOWING,
    ),
    "fxt.merge.byte-order": partial(
        _write,
        parts=[*_since(_IN_2023), header(w.RecordWord, type=11, size=1).to_bytes(_WORD, "big"), *FOLLOWING],
        order="big",
    ),
}
"""Traces that break a rule, by its id; the rules of merging are broken when the trace is merged with itself.
"""
