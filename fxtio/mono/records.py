"""All events of the Mono log profiler's format, for the data versions 1 to 17.

Each is declared once, in `memory`, `execution` and `measurement`, from the parts in `parts`.
"""

from __future__ import annotations

from functools import cache

from fxtio.codec.stream import Dialect
from fxtio.mono.execution import (
    AotId,
    Assembly,
    Call,
    ClassLoad,
    Clause,
    Context,
    Domain,
    Image,
    JitHelper,
    JitMethod,
    Monitor,
    SyncPoint,
    Thread,
    Throw,
    VtableLoad,
)
from fxtio.mono.measurement import (
    CounterDescriptions,
    CounterValues,
    CoverageAssembly,
    CoverageClass,
    CoverageMethod,
    CoverageStatement,
    NativeBinary,
    NativeSymbol,
    SampleHit,
)
from fxtio.mono.memory import (
    Allocation,
    FinalizeEnd,
    FinalizeObjectEnd,
    FinalizeObjectStart,
    FinalizeStart,
    GcEvent,
    GcMove,
    GcResize,
    HandleCreated,
    HandleDestroyed,
    HeapEnd,
    HeapObject,
    HeapRoots,
    HeapStart,
    RootRegister,
    RootUnregister,
)
from fxtio.mono.parts import CounterDescription, CounterValue, Event, Reference, Root, SampledFrame

EVENTS: tuple[type[Event], ...] = (
    Allocation, GcEvent, GcResize, GcMove, HandleCreated, HandleDestroyed, FinalizeStart, FinalizeEnd,
    FinalizeObjectStart, FinalizeObjectEnd, ClassLoad, Image, Assembly, Domain, Thread, Context, VtableLoad, Call,
    JitMethod, Throw, Clause, Monitor, HeapStart, HeapEnd, HeapObject, HeapRoots, RootRegister, RootUnregister,
    SampleHit, NativeSymbol, NativeBinary, CounterDescriptions, CounterValues, JitHelper, CoverageAssembly,
    CoverageMethod, CoverageStatement, CoverageClass, SyncPoint, AotId,
)  # fmt: skip
"""All events, in the specification's order; an event's kind is its index."""

VERSIONS = tuple(range(1, 18))
"""The data versions that there are."""


@cache
def dialect_of(version: float, pointer_size: int) -> Dialect:
    """The events of a data version for pointers of 4 or 8 bytes."""
    return Dialect(EVENTS, version, pointer_size * 8)


__all__ = [
    "EVENTS",
    "VERSIONS",
    "Allocation",
    "AotId",
    "Assembly",
    "Call",
    "ClassLoad",
    "Clause",
    "Context",
    "CounterDescription",
    "CounterDescriptions",
    "CounterValue",
    "CounterValues",
    "CoverageAssembly",
    "CoverageClass",
    "CoverageMethod",
    "CoverageStatement",
    "Domain",
    "Event",
    "FinalizeEnd",
    "FinalizeObjectEnd",
    "FinalizeObjectStart",
    "FinalizeStart",
    "GcEvent",
    "GcMove",
    "GcResize",
    "HandleCreated",
    "HandleDestroyed",
    "HeapEnd",
    "HeapObject",
    "HeapRoots",
    "HeapStart",
    "Image",
    "JitHelper",
    "JitMethod",
    "Monitor",
    "NativeBinary",
    "NativeSymbol",
    "Reference",
    "Root",
    "RootRegister",
    "RootUnregister",
    "SampleHit",
    "SampledFrame",
    "SyncPoint",
    "Thread",
    "Throw",
    "VtableLoad",
    "dialect_of",
]
