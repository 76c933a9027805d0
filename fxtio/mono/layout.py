"""The constants of the file and the first bytes of all events: the only place in the format that knows bits.

The first byte of an event has the type in its low half and extended information in its high half; the meaning of the
latter depends on the type.
"""

from __future__ import annotations

from fxtio.codec.word import Word, bits, reserved, tag
from fxtio.mono.enums import (
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
    """The begin or end of a method.  spec: type method format"""

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
