"""Write a small trace for each rule that breaks this rule and no other: `fxtio synth --break RULE`.

Most are records of a sound trace; what the writer refuses is changed in their bytes.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from fxtio.codec.generate import Order, encode
from fxtio.codec.record import Record
from fxtio.codec.word import Word
from fxtio.fxt import layout as w
from fxtio.fxt import records as r
from fxtio.fxt.enums import ArgumentType, BlobType, ObjectType, ThreadState
from fxtio.fxt.records import Thread
from fxtio.fxt.rules.slots import MIN_REDEFINED, MIN_UNUSED
from fxtio.fxt.rules.spans import DEEPEST
from fxtio.fxt.rules.view import MAX_KEPT
from fxtio.fxt.state import MAX_CLOCKS, MAX_OBJECTS, MAX_PROVIDERS, NS_PER_SECOND

Part = Record | bytes
Break = Callable[[Path], None]

PROCESS, THREAD, SLOT = 1, 2, 1
"""The process and the thread of every trace, and the slot of the thread table that stands for them."""

_UNDEFINED = 9  # a number that no enumeration of the format has
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
"""Enough good records to go on with behind a bad header."""


def _trace(*parts: Part, rate: int = NS_PER_SECOND) -> Break:
    return partial(_write, parts=[*preamble(rate), *parts, *FOLLOWING])


def _many(parts: Callable[[], Iterable[Part]]) -> Break:
    """Return what writes a trace with many records, which exist only while it is written."""

    def write(path: Path) -> None:
        _trace(*parts())(path)

    return write


def _ending(*parts: Part) -> Break:
    """Return what writes a trace that ends with some records."""
    return partial(_write, parts=[*preamble(), *FOLLOWING, *parts])


def _whole(*parts: Part) -> Break:
    return partial(_write, parts=parts)


def _without(cls: type[Record]) -> Break:
    """Return what writes a trace without the records of a class."""
    return _whole(*(part for part in preamble() if not isinstance(part, cls)), *FOLLOWING)


def _cut(path: Path) -> None:
    _write(path, [*preamble(), *FOLLOWING])
    path.write_bytes(gzip.compress(path.read_bytes(), mtime=0)[:-9])


def _argument(*values: int) -> bytes:
    """Return an instant with the words of an argument."""
    record = r.Instant(50, SLOT, 0, "event", ())
    raw = changed(record, w.EventWord, arg_count=1, size=len(encode(record)) // _WORD + len(values))
    return raw + words(*values)


def _with_argument() -> Record:
    """Return a complete event with an argument."""
    return r.DurationComplete(50, SLOT, "test", "span", (r.Int32Argument("value", 4),), 60)


def _large_blob(payload: bytes) -> r.LargeBlobNoMetadata:
    return r.LargeBlobNoMetadata("test", "blob", payload)


def _replaced(record: Record, place: int, value: int) -> bytes:
    """Return the bytes of a record with another word at a place, counted from its end if negative."""
    raw = encode(record)
    at = place * _WORD % len(raw)
    return raw[:at] + words(value) + raw[at + _WORD :]


def _counter(*args: r.Argument) -> Record:
    return r.Counter(50, SLOT, "test", "counter", args, 7)


def _switch(cpu: int, time: int, outgoing: int, incoming: int, *args: r.Argument, state: int = 3) -> Record:
    return r.ContextSwitch(cpu, state, time, outgoing, incoming, args)


def _legacy(state: int) -> Record:
    return r.LegacyContextSwitch(0, state, 0, 0, 50, SLOT, SLOT)


def _flow(cls: type[r.Event], time: int, number: int = 5) -> Record:
    return _event(cls, time, number, name="flow")


def _swapped_counter() -> bytes:
    """Return a counter whose id stands before its argument."""
    raw = encode(_counter(r.Int32Argument("value", 4)))
    return raw[: -3 * _WORD] + raw[-_WORD:] + raw[-3 * _WORD : -_WORD]


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
    "fxt.source.empty": _whole(),
    "fxt.source.cut": _cut,
    "fxt.framing.no-magic": _without(r.Magic),
    "fxt.framing.magic-value": _trace(words(header(w.MagicWord, size=1, magic=0x12345678))),
    "fxt.framing.magic-size": _trace(changed(r.Magic(), w.MagicWord, size=2) + words(0)),
    "fxt.framing.zero-size": _trace(words(header(w.EventWord, event_type=1))),
    "fxt.framing.zero-words": _trace(words(0, 0)),
    "fxt.framing.truncated": _ending(encode(_SPAN)[:-_WORD]),
    "fxt.framing.odd-length": _ending(b"\x14\0\0"),
    "fxt.framing.size-beyond-end": _trace(words(header(w.EventWord, size=4_000))),
    "fxt.framing.too-large": _trace(words(header(w.LargeBlobWord, size=2**26))),
    "fxt.framing.unknown-record": _trace(words(header(w.RecordWord, type=11, size=1))),
    "fxt.framing.unknown-metadata": _trace(words(header(w.MetadataWord, size=1, metadata_type=_UNDEFINED))),
    "fxt.framing.unknown-trace-info": _trace(r.TraceInfo(3, 0)),
    "fxt.framing.unknown-large": _trace(words(header(w.LargeBlobWord, size=2, blob_format=_UNDEFINED), 0)),
    "fxt.framing.record-short": _trace(words(header(w.EventWord, size=2), 50)),
    "fxt.framing.record-long": _trace(words(header(w.ThreadWord, size=4, index=3), PROCESS, THREAD, 0)),
    "fxt.framing.stream-over-record": _trace(words(header(w.StringWord, size=1, index=_TEXT_SLOT, text_size=8))),
    "fxt.bits.reserved": _trace(words(header(w.ThreadWord, size=3, index=3, unused=1), PROCESS, THREAD)),
    "fxt.bits.padding": _trace(words(header(w.StringWord, size=2, index=_TEXT_SLOT, text_size=1), 0x4241)),
    "fxt.text.not-utf8": _trace(r.String(_TEXT_SLOT, "caf\udce9")),
    "fxt.text.nul": _trace(r.String(_TEXT_SLOT, "a\0b"), instant(name=_TEXT_SLOT)),
    "fxt.text.too-long": _trace(
        words(header(w.StringWord, size=4_002, index=_TEXT_SLOT, text_size=32_001), *[0x2020202020202020] * 4000, 0x20)
    ),
    "fxt.provider.none": _without(r.ProviderInfo),
    "fxt.provider.unknown": _ending(r.ProviderSection(9)),
    "fxt.provider.again": _trace(r.ProviderInfo(1, "another"), r.Initialization(NS_PER_SECOND), *_definitions()),
    "fxt.provider.name-empty": _ending(r.ProviderInfo(2, "")),
    "fxt.provider.name-words": _ending(changed(r.ProviderInfo(2, "ocaml-trace"), w.ProviderInfoWord, name_size=2)),
    "fxt.provider.event": _trace(r.ProviderEvent(1, _UNDEFINED)),
    "fxt.provider.lost": _trace(r.ProviderEvent(1, 0)),
    "fxt.provider.too-many": _ending(*(r.ProviderInfo(number, "p") for number in range(2, MAX_PROVIDERS + 2))),
    "fxt.clock.none": _without(r.Initialization),
    "fxt.clock.zero-rate": _trace(words(header(w.InitializationWord, size=2), 0)),
    "fxt.clock.short": _trace(words(header(w.InitializationWord, size=1))),
    "fxt.clock.changed": _trace(r.Initialization(1_000_000)),
    "fxt.clock.too-many": _many(lambda: (r.Initialization(NS_PER_SECOND, 0, wall) for wall in range(MAX_CLOCKS + 1))),
    "fxt.clock.inexact": _trace(instant(2**62), rate=24_000_000_000),
    "fxt.time.overflow": _trace(instant(2**62), rate=1_000_000),
    "fxt.time.negative": _trace(instant(2**64 - 5)),
    "fxt.time.zero": _whole(*preamble(), instant(0), *(instant(10**13 + time) for time in range(5))),
    "fxt.string.zero": _trace(words(header(w.StringWord, size=2, text_size=1), 0x61)),
    "fxt.string.empty": _trace(r.String(_TEXT_SLOT, "")),
    "fxt.string.undefined": _trace(instant(name=_TEXT_SLOT)),
    "fxt.string.later": _trace(instant(name=_TEXT_SLOT), r.String(_TEXT_SLOT, "name")),
    "fxt.string.again": _trace(r.String(_TEXT_SLOT, "name"), r.String(_TEXT_SLOT, "name")),
    "fxt.string.unused": _trace(*(r.String(slot, f"name {slot}") for slot in range(1, MIN_UNUSED + 1))),
    "fxt.string.thrash": _trace(
        *(
            part
            for number in range(MIN_REDEFINED)
            for part in (r.String(_TEXT_SLOT, f"name {number}"), instant(name=_TEXT_SLOT))
        )
    ),
    "fxt.thread.zero": _trace(words(header(w.ThreadWord, size=3), PROCESS, THREAD)),
    "fxt.thread.undefined": _trace(instant(thread=7)),
    "fxt.thread.wide": _trace(named(2**32 + THREAD), instant(thread=Thread(PROCESS, 2**32 + THREAD))),
    "fxt.thread.nameless": _trace(instant(thread=Thread(PROCESS, 3))),
    "fxt.event.unknown": _trace(changed(instant(), w.EventWord, event_type=11)),
    "fxt.event.name-empty": _trace(instant(name=0)),
    "fxt.event.scope": _trace(r.Instant(50, SLOT, "test", "event", (), _UNDEFINED)),
    "fxt.event.end-before-start": _trace(complete(200, 100)),
    "fxt.event.unmatched-end": _trace(_end(50)),
    "fxt.event.open": _trace(_begin(50)),
    "fxt.event.end-name": _trace(_begin(50), _end(60, "another")),
    "fxt.event.overlap": _trace(_SPAN, complete(150, 250)),
    "fxt.event.child-first": _trace(complete(100, 150), _SPAN),
    "fxt.event.too-deep": _trace(
        *(_begin(time) for time in range(DEEPEST + 1)), *(_end(900) for _ in range(DEEPEST + 1))
    ),
    "fxt.event.too-many-open": _many(_many_open),
    "fxt.event.backwards": _trace(_begin(50), _end(60), _begin(20), _end(30)),
    "fxt.arg.size-zero": _trace(_argument(header(w.Int32ArgumentWord, name=_INLINE), 0x61)),
    "fxt.arg.beyond-record": _trace(_argument(header(w.Int32ArgumentWord, size=5, name=_INLINE), 0x61)),
    "fxt.arg.short": _trace(_argument(header(w.ArgumentWord, type=ArgumentType.INT64, size=2, name=_INLINE), 0x61)),
    "fxt.arg.long": _trace(_argument(header(w.ArgumentWord, type=ArgumentType.NULL, size=3, name=_INLINE), 0x61, 0)),
    "fxt.arg.count-low": _trace(changed(_with_argument(), w.EventWord, arg_count=0)),
    "fxt.arg.count-high": _trace(changed(_with_argument(), w.EventWord, arg_count=2)),
    "fxt.arg.unknown": _trace(_argument(header(w.ArgumentWord, type=11, size=2, name=_INLINE), 0x61)),
    "fxt.arg.counter-id-first": _trace(_swapped_counter()),
    "fxt.arg.bool-bit": _trace(_argument(header(w.BoolArgumentWord, size=2, name=_INLINE, unused=1), 0x61)),
    "fxt.arg.bool-in-name": _trace(_argument(header(w.BoolArgumentWord, size=2, name=_INLINE_3), 0x6B6F)),
    "fxt.arg.name-empty": _trace(instant(50, r.Int32Argument(0, 1))),
    "fxt.arg.name-again": _trace(instant(50, r.Int32Argument("a", 1), r.Int32Argument("a", 2))),
    "fxt.arg.narrow": _trace(instant(50, r.Int64Argument("a", 1))),
    "fxt.arg.unsigned-large": _trace(instant(50, r.Uint64Argument("a", 2**63))),
    "fxt.arg.nan": _trace(instant(50, r.DoubleArgument("a", float("nan")))),
    "fxt.arg.koid-unnamed": _trace(instant(50, r.KoidArgument("a", 77))),
    "fxt.counter.no-value": _trace(_counter()),
    "fxt.counter.not-numeric": _trace(_counter(r.StringArgument("a", "text"))),
    "fxt.counter.inexact": _trace(_counter(r.Int64Argument("a", 2**53 + 1))),
    "fxt.async.unmatched-end": _trace(_event(r.AsyncEnd, 50, 5)),
    "fxt.async.open": _trace(_event(r.AsyncBegin, 50, 5)),
    "fxt.async.name": _trace(_event(r.AsyncBegin, 50, 5), _event(r.AsyncEnd, 60, 5, name="another")),
    "fxt.async.shared-id": _trace(
        _event(r.AsyncBegin, 50, 5),
        _event(r.AsyncBegin, 60, 5, name="another"),
        _event(r.AsyncEnd, 70, 5),
        _event(r.AsyncEnd, 80, 5, name="another"),
    ),
    "fxt.flow.no-begin": _trace(_SPAN, _flow(r.FlowEnd, 150)),
    "fxt.flow.open": _trace(_SPAN, _flow(r.FlowBegin, 150)),
    "fxt.flow.again": _trace(_SPAN, _flow(r.FlowBegin, 120), _flow(r.FlowBegin, 130), _flow(r.FlowEnd, 150)),
    "fxt.flow.no-slice": _trace(_SPAN, _flow(r.FlowBegin, 120), _flow(r.FlowEnd, 250)),
    "fxt.flow.before-slice": _trace(_flow(r.FlowBegin, 100), _SPAN, _flow(r.FlowEnd, 150)),
    "fxt.flow.on-instant": _trace(
        _SPAN, instant(120), _flow(r.FlowBegin, 130), complete(300, 400), _flow(r.FlowEnd, 350)
    ),
    "fxt.blob.type": _trace(r.Blob("blob", _UNDEFINED, b"")),
    "fxt.blob.perfetto-garbage": _trace(r.Blob("blob", BlobType.PERFETTO, b"no packets")),
    "fxt.blob.too-long": _trace(r.Blob("blob", BlobType.DATA, bytes(w.MAX_BLOB_BYTES + 1))),
    "fxt.large.interop": _trace(_large_blob(bytes(w.MAX_RECORD_WORDS * _WORD))),
    "fxt.large.small": _trace(_large_blob(b"small")),
    "fxt.large.payload": _trace(_replaced(r.LargeBlob("test", "blob", 50, SLOT, (), bytes(16)), -3, 3)),
    "fxt.object.type": _trace(r.KernelObject(77, 5, "object", ())),
    "fxt.object.no-process": _trace(r.KernelObject(ObjectType.THREAD, 3, "thread", ())),
    "fxt.object.process-type": _trace(
        r.KernelObject(ObjectType.THREAD, 3, "thread", (r.Uint32Argument("process", PROCESS),))
    ),
    "fxt.object.too-many": _many(
        lambda: (r.KernelObject(ObjectType.VMO, koid, "vmo", ()) for koid in range(MAX_OBJECTS + 1))
    ),
    "fxt.sched.type": _trace(words(header(w.SchedulingWord, size=1, scheduling_type=_UNDEFINED))),
    "fxt.sched.state": _trace(_switch(0, 50, THREAD, 3, state=_UNDEFINED), named(3)),
    "fxt.sched.running": _trace(_legacy(ThreadState.RUNNING)),
    "fxt.sched.cpu": _trace(_switch(4_096, 50, THREAD, 3), named(3)),
    "fxt.sched.weight": _trace(_switch(0, 50, THREAD, 3, r.Uint32Argument("incoming_weight", 1)), named(3)),
    "fxt.sched.order": _trace(_switch(0, 50, THREAD, 3), _switch(0, 60, 4, THREAD), named(3), named(4)),
    "fxt.sched.no-object": _trace(_switch(0, 50, THREAD, 99)),
    "fxt.log.reserved": _trace(changed(r.Log(50, SLOT, "text"), w.LogWord, unused=0x30_0000)),
    "fxt.log.not-shown": _trace(r.Log(50, SLOT, "text")),
    "fxt.profiler.type": _trace(words(header(w.ProfilerWord, size=1, profiler_type=_UNDEFINED))),
    "fxt.profiler.inline-thread": _trace(r.ProfilerBacktrace(0, 50, Thread(PROCESS, None), (1,))),
    "fxt.profiler.flags": _trace(r.ProfilerBacktrace(1, 50, SLOT, (1,))),
    "fxt.profiler.build-id": _trace(r.ProfilerModule(1, 50, SLOT, "module", b"0123456789abcdef")),
    "fxt.profiler.module": _trace(r.ProfilerMmap(1, 5, 50, SLOT, 4096, 4096, 0)),
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

:meta hide-value:
"""
