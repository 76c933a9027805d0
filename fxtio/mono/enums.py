"""The numbers of the Mono log profiler's format and their names, as of data version 14 and later."""

from __future__ import annotations

from enum import IntEnum


class EventType(IntEnum):
    """The low half of an event's first byte."""

    ALLOC = 0
    GC = 1
    METADATA = 2
    METHOD = 3
    EXCEPTION = 4
    MONITOR = 5
    HEAP = 6
    SAMPLE = 7
    RUNTIME = 8
    COVERAGE = 9
    META = 10


class GcInfo(IntEnum):
    """The kind of a GC event, except those about handles."""

    EVENT = 1
    RESIZE = 2
    MOVE = 3
    FINALIZE_START = 8
    FINALIZE_END = 9
    FINALIZE_OBJECT_START = 10
    FINALIZE_OBJECT_END = 11


class LoadAction(IntEnum):
    """The action on metadata that is loaded and unloaded."""

    LOAD = 2
    UNLOAD = 4


class NameAction(IntEnum):
    """The action on metadata that can also get a name later."""

    NAME = 0
    LOAD = 2
    UNLOAD = 4


class MetadataType(IntEnum):
    """The subject of a metadata event."""

    CLASS = 1
    IMAGE = 2
    ASSEMBLY = 3
    DOMAIN = 4
    THREAD = 5
    CONTEXT = 6
    VTABLE = 7


class MethodAction(IntEnum):
    """The way in which a method begins or ends."""

    LEAVE = 1
    ENTER = 2
    EXCEPTIONAL_LEAVE = 3


class HeapInfo(IntEnum):
    """The kind of a heap event."""

    START = 0
    END = 1
    OBJECT = 2
    ROOTS = 3
    ROOT_REGISTER = 4
    ROOT_UNREGISTER = 5


class SampleInfo(IntEnum):
    """The kind of a sample event."""

    HIT = 0
    NATIVE_SYMBOL = 1
    NATIVE_BINARY = 2
    COUNTER_DESCRIPTIONS = 3
    COUNTERS = 4


class CoverageInfo(IntEnum):
    """The kind of a coverage event."""

    ASSEMBLY = 0
    METHOD = 1
    STATEMENT = 2
    CLASS = 3


class GcEventType(IntEnum):
    """A step of a garbage collection.  Steps 1 to 4 are written up to data version 13, 10 and 11 from there on."""

    START = 0
    MARK_START = 1
    MARK_END = 2
    RECLAIM_START = 3
    RECLAIM_END = 4
    END = 5
    PRE_STOP_WORLD = 6
    POST_STOP_WORLD = 7
    PRE_START_WORLD = 8
    POST_START_WORLD = 9
    PRE_STOP_WORLD_LOCKED = 10
    POST_START_WORLD_UNLOCKED = 11


class HandleType(IntEnum):
    """The kind of a GC handle."""

    WEAK = 0
    WEAK_TRACK_RESURRECTION = 1
    NORMAL = 2
    PINNED = 3


class MonitorEvent(IntEnum):
    """The kind of a monitor event."""

    CONTENTION = 1
    ACQUIRED = 2
    FAILED = 3


class ClauseKind(IntEnum):
    """The kind of an exception clause."""

    CATCH = 0
    FILTER = 1
    FINALLY = 2
    FAULT = 4


class CodeBuffer(IntEnum):
    """The purpose of native code, from data version 14 on; before, the numbers are larger by one."""

    METHOD = 0
    METHOD_TRAMPOLINE = 1
    UNBOX_TRAMPOLINE = 2
    IMT_TRAMPOLINE = 3
    GENERICS_TRAMPOLINE = 4
    SPECIFIC_TRAMPOLINE = 5
    HELPER = 6
    MONITOR = 7
    DELEGATE_INVOKE = 8
    EXCEPTION_HANDLING = 9


class SyncPointType(IntEnum):
    """The reason of a synchronization point."""

    PERIODIC = 0
    WORLD_STOP = 1
    WORLD_START = 2


class RootSource(IntEnum):
    """The owner of a GC root."""

    EXTERNAL = 0
    STACK = 1
    FINALIZER_QUEUE = 2
    STATIC = 3
    THREAD_STATIC = 4
    CONTEXT_STATIC = 5
    GC_HANDLE = 6
    JIT = 7
    THREADING = 8
    DOMAIN = 9
    REFLECTION = 10
    MARSHAL = 11
    THREAD_POOL = 12
    DEBUGGER = 13
    HANDLE_STACK = 14
    EPHEMERON = 15
    TOGGLEREF = 16


class SampleType(IntEnum):
    """The event that is sampled, up to data version 13."""

    CYCLES = 1
    INSTRUCTIONS = 2
    CACHE_MISSES = 3
    CACHE_REFERENCES = 4
    BRANCHES = 5
    BRANCH_MISSES = 6


class CounterType(IntEnum):
    """The type of a counter's values."""

    INT = 0
    UINT = 1
    WORD = 2
    LONG = 3
    ULONG = 4
    DOUBLE = 5
    STRING = 6
    TIME_INTERVAL = 7


NARROW_COUNTERS = frozenset({CounterType.INT, CounterType.UINT})
"""Counters of 32 bits; whole numbers of all other types have 64."""

UNSIGNED_COUNTERS = frozenset({CounterType.UINT, CounterType.ULONG})
"""Counters that cannot be negative; all other whole numbers can."""


class CounterSection(IntEnum):
    """The part of the runtime that a counter belongs to."""

    JIT = 0x100
    GC = 0x200
    METADATA = 0x400
    GENERICS = 0x800
    SECURITY = 0x1000
    RUNTIME = 0x2000
    SYSTEM = 0x4000
    PERFCOUNTERS = 0x8000
    PROFILER = 0x10000
    INTERPRETER = 0x20000


class CounterUnit(IntEnum):
    """The unit of a counter, as it is in the file."""

    RAW = 0
    BYTES = 0x1000000
    TIME = 0x2000000
    COUNT = 0x3000000
    PERCENTAGE = 0x4000000


class CounterVariance(IntEnum):
    """The way in which a counter changes, as it is in the file."""

    MONOTONIC = 0x10000000
    CONSTANT = 0x20000000
    VARIABLE = 0x40000000
