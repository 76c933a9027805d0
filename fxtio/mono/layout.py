"""The first bytes of all events, and the two headers: the only place in the format that knows bits and offsets.

An event's first byte has its type in the low half and extended information in the high half; what the latter means
depends on the type.  The headers are plain little-endian structures, declared with construct.
"""

from __future__ import annotations

from construct import Bytes, Const, If, Int8ul, Int16ul, Int32ul, Int64ul, Struct, this

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
from fxtio.mono.magic import BUFFER_ID, HEADER_ID

HYBRID = 14.5
"""Files of Mono 5.10.0 call themselves data version 15, but are 14 but for the counters."""

OBJECT_SHIFT = 3
"""Objects lie at multiples of 8 bytes; the low bits are not in the file."""

_TEXT = Struct("size" / Int32ul, "raw" / Bytes(this.size))

STREAM_HEADER = Struct(
    "id" / Const(HEADER_ID, Int32ul),
    "major" / Int8ul,
    "minor" / Int8ul,
    "data_version" / Int8ul,
    "pointer_size" / Int8ul,
    "startup_time" / Int64ul,
    "startup_tick" / If(this.major >= 3, Int64ul),
    "timer_overhead" / Int32ul,
    "flags" / Int32ul,
    "pid" / Int32ul,
    "port" / Int16ul,
    "sysid" / If(this.major == 0, Int16ul),
    "args" / If(this.major >= 1, _TEXT),
    "arch" / If(this.major >= 1, _TEXT),
    "os" / If(this.major >= 1, _TEXT),
)
"""What a file begins with.  spec: header format (there of version 2.0)"""

BUFFER_HEADER = Struct(
    "id" / Const(BUFFER_ID, Int32ul),
    "size" / Int32ul,
    "time" / Int64ul,
    "pointer" / Int64ul,
    "object" / Int64ul,
    "thread" / Int64ul,
    "method" / Int64ul,
)
"""What each buffer begins with.  spec: buffer header format"""


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
    """A GC handle, 4 created, 5 destroyed; with a backtrace 6 and 7.  spec: type GC format"""

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
    """Metadata that is loaded and unloaded.  spec: type metadata format"""

    type: EventType = tag(0, 3, EventType.METADATA)
    action: LoadAction = bits(4, 7)


class NameByte(Word, width=8):
    """Metadata that can be named later.  spec: type metadata format"""

    type: EventType = tag(0, 3, EventType.METADATA)
    action: NameAction = bits(4, 7)


class MethodByte(Word, width=8):
    """A method begins or ends.  spec: type method format"""

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
    """A monitor up to data version 13, when what happened stood in the first byte."""

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
    """A synchronization point is 0, an AOT id 1.  spec: type meta format"""

    type: EventType = tag(0, 3, EventType.META)
    exinfo: int = tag(4, 7)
