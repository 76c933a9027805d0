"""The constants of the file, the first bytes of all events, and the items of lists within them.

This is the only place in the format that knows bits.

The first byte of an event has the type in its low half and extended information in its high half; the meaning of the
latter depends on the type.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from fxtio.codec.stream.declare import (
    Byte,
    Choice,
    Double,
    Item,
    Relative,
    Repeated,
    Running,
    Sleb,
    StreamPart,
    Summed,
    Text,
    Uleb,
)
from fxtio.codec.word import Word, bits, reserved, tag
from fxtio.mono.enums import (
    CounterSection,
    CounterType,
    CoverageInfo,
    EventType,
    GcInfo,
    HeapInfo,
    LoadAction,
    MethodAction,
    MonitorEvent,
    NameAction,
    SampleInfo,
)

ID_SIZE = 4
HEADER_MARK = 0x4D505A01.to_bytes(ID_SIZE, "little")
"""The first bytes of a recording.  spec: header format"""

BUFFER_MARK = 0x4D504C01.to_bytes(ID_SIZE, "little")
"""The first bytes of a buffer.  spec: buffer header format"""

MAX_BUFFER_SIZE = 1 << 16
"""The most bytes of a buffer that the writer makes, header included, unless a single event is larger; as Mono does."""

POINTER_SIZES = (4, 8)
"""The sizes that pointers can have, in bytes."""

HYBRID = 14.5
"""The data version of files of Mono 5.10.0, which claim 15 but are as 14 except for the counters."""

OBJECT_SHIFT = 3
"""Objects are at multiples of 8 bytes; the low bits of their addresses are not in the file."""


class AllocByte(Word, width=8):
    """spec: type alloc format"""

    type: EventType = tag(0, 3, EventType.ALLOC)
    has_backtrace: int = bits(4, 4)
    unused: int = reserved(5, 7)


class GcByte(Word, width=8):
    """spec: type GC format"""

    type: EventType = tag(0, 3, EventType.GC)
    exinfo: GcInfo = tag(4, 7)


class HandleByte(Word, width=8):
    """A GC handle: 4 created, 5 destroyed, with a backtrace 6 and 7.  spec: type GC format"""

    type: EventType = tag(0, 3, EventType.GC)
    destroyed: int = tag(4, 4)
    has_backtrace: int = bits(5, 5)
    handle: int = tag(6, 7, 1)


class OldHandleByte(Word, width=8):
    """A GC handle before data version 11."""

    type: EventType = tag(0, 3, EventType.GC)
    destroyed: int = tag(4, 4)
    handle: int = tag(5, 7, 2)


class LoadByte(Word, width=8):
    """The loading or unloading of metadata.  spec: type metadata format"""

    type: EventType = tag(0, 3, EventType.METADATA)
    action: LoadAction = bits(4, 7)


class NameByte(Word, width=8):
    """The loading, unloading or naming of metadata.  spec: type metadata format"""

    type: EventType = tag(0, 3, EventType.METADATA)
    action: NameAction = bits(4, 7)


class MethodByte(Word, width=8):
    """The start or end of a method.  spec: type method format"""

    type: EventType = tag(0, 3, EventType.METHOD)
    action: MethodAction = bits(4, 7)


class JitByte(Word, width=8):
    """spec: type method format, TYPE_JIT"""

    type: EventType = tag(0, 3, EventType.METHOD)
    exinfo: int = tag(4, 7, 4)


class ThrowByte(Word, width=8):
    """spec: type exception format"""

    type: EventType = tag(0, 3, EventType.EXCEPTION)
    exinfo: int = tag(4, 6, 0)
    has_backtrace: int = bits(7, 7)


class ClauseByte(Word, width=8):
    """spec: type exception format, TYPE_CLAUSE"""

    type: EventType = tag(0, 3, EventType.EXCEPTION)
    exinfo: int = tag(4, 7, 1)


class MonitorByte(Word, width=8):
    """spec: type monitor format"""

    type: EventType = tag(0, 3, EventType.MONITOR)
    exinfo: int = tag(4, 6, 0)
    has_backtrace: int = bits(7, 7)


class OldMonitorByte(Word, width=8):
    """A monitor up to data version 13, with the kind of event in the first byte."""

    type: EventType = tag(0, 3, EventType.MONITOR)
    event: MonitorEvent = bits(4, 5)
    unused: int = reserved(6, 6)
    has_backtrace: int = bits(7, 7)


class HeapByte(Word, width=8):
    """spec: type heap format"""

    type: EventType = tag(0, 3, EventType.HEAP)
    exinfo: HeapInfo = tag(4, 7)


class SampleByte(Word, width=8):
    """spec: type sample format"""

    type: EventType = tag(0, 3, EventType.SAMPLE)
    exinfo: SampleInfo = tag(4, 7)


class RuntimeByte(Word, width=8):
    """spec: type runtime format"""

    type: EventType = tag(0, 3, EventType.RUNTIME)
    exinfo: int = tag(4, 7, 1)


class CoverageByte(Word, width=8):
    """spec: type coverage format"""

    type: EventType = tag(0, 3, EventType.COVERAGE)
    exinfo: CoverageInfo = tag(4, 7)


class MetaByte(Word, width=8):
    """A synchronization point (0) or an AOT id (1).  spec: type meta format"""

    type: EventType = tag(0, 3, EventType.META)
    exinfo: int = tag(4, 7)


# ---- fields of several events, and the items of lists within events

METHOD = Running(of="method")
POINTER = Relative(base="pointer")
OBJECT = Relative(base="object", shift=OBJECT_SHIFT)

Small = Annotated[int, Uleb(before=13), Byte(since=13)]
Hybrid = Annotated[int, Uleb(before=13), Byte(since=13, before=HYBRID), Uleb(since=HYBRID)]
Pointer = Annotated[int, POINTER]
Object = Annotated[int, OBJECT]
Method = Annotated[int, METHOD]
Size = Annotated[int, Uleb()]
Name = Annotated[str, Text()]

_IF_BACKTRACE = ("has_backtrace", (1,))

BacktraceFlags = Annotated[int | None, Uleb(before=13, when=_IF_BACKTRACE)]
Backtrace = Annotated[
    tuple[int, ...] | None,
    Repeated(of=METHOD, flag="has_backtrace", since=13),
    Repeated(of=POINTER, flag="has_backtrace", before=13),
]
HandleBacktraceFlags = Annotated[int | None, Uleb(since=11, before=13, when=_IF_BACKTRACE)]
HandleBacktrace = Annotated[
    tuple[int, ...] | None,
    Repeated(of=METHOD, flag="has_backtrace", since=13),
    Repeated(of=POINTER, flag="has_backtrace", since=11, before=13),
]
OldFlags = Annotated[int | None, Uleb(before=13)]


class Reference(Item, frozen=True, kw_only=True):
    """A reference from a heap object to another.

    Attributes:
        field_offset: the place of the reference in the object, in bytes; None in data version 1.
        object: the address of the other object.
    """

    field_offset: Annotated[int | None, Summed(since=2)] = field(default=None, name="offset")
    object: Object


class Root(Item, frozen=True, kw_only=True):
    """A garbage collection root: a reference that keeps an object alive.

    Attributes:
        address: the address of the reference; None before data version 15.
        object: the object.
        root_type: the kind of root; None from data version 15 on.
        extra_info: further information; likewise.
    """

    address: Annotated[int | None, Relative(base="pointer", since=15)] = None
    object: Object
    root_type: Annotated[int | None, Uleb(before=13), Byte(since=13, before=14), Uleb(since=14, before=15)] = None
    extra_info: Annotated[int | None, Uleb(before=15)] = None


class SampledFrame(Item, frozen=True, kw_only=True):
    """A managed frame of a sample, up to data version 12."""

    method: Method
    il_offset: Annotated[int, Sleb()]
    native_offset: Annotated[int, Sleb()]


class CounterDescription(Item, frozen=True, kw_only=True):
    """The description of a counter.

    Attributes:
        section: the part of the runtime that it belongs to, see `CounterSection`.
        category: the category of a performance counter; None for all others.
        name: its name.
        type: the type of its values, see `CounterType`.
        unit: see `CounterUnit`; data versions 13 and 14 have only its lowest byte, which is 0.
        variance: see `CounterVariance`; likewise.
        index: the number that refers to it in `CounterValue`.
    """

    section: Annotated[int, Uleb()]
    category: Annotated[str | None, Text(when=("section", (CounterSection.PERFCOUNTERS,)))] = field(
        default=None, name="section_name"
    )
    name: Name
    type: Annotated[Hybrid, CounterType] = field(name="counter_type")
    unit: Hybrid
    variance: Hybrid
    index: Annotated[int, Uleb()]


_COUNTER_ENCODINGS: tuple[tuple[tuple[int, ...], StreamPart], ...] = (
    ((CounterType.INT, CounterType.WORD, CounterType.LONG, CounterType.TIME_INTERVAL), Sleb()),
    ((CounterType.UINT, CounterType.ULONG), Uleb()),
    ((CounterType.DOUBLE,), Double()),
    ((CounterType.STRING,), Text(marked=True)),
)


class CounterValue(Item, frozen=True, kw_only=True):
    """A value of a counter, as it is in the file.

    Attributes:
        index: the counter's number, never 0.
        type: the type of the value, see `CounterType`.
        value: the change since the last value; doubles, texts and performance counters are absolute.
    """

    index: Annotated[int, Uleb()]
    type: Annotated[Hybrid, CounterType] = field(name="counter_type")
    value: Annotated[int | float | str | None, Choice(by="type", cases=_COUNTER_ENCODINGS)]
