"""The records of a Mono recording: all events of the data versions 1 to 17, each declared once.

`since` and `before` are data versions; a field that a version does not have is None there.  Addresses are absolute.
Events are in the specification's order.  Tags and names of fields are those of `fxtio.codec.canonical`.
"""

from __future__ import annotations

from functools import cache
from math import inf
from typing import Annotated, ClassVar

from msgspec import field

from fxtio.codec.stream.declare import (
    AfterCount,
    Byte,
    Clock,
    Dialect,
    FirstByte,
    Relative,
    Repeated,
    Sleb,
    StreamRecord,
    Text,
    Uleb,
)
from fxtio.codec.word import Word
from fxtio.mono import enums
from fxtio.mono import layout as b
from fxtio.mono.layout import Method, Name, Object, Pointer, Size, Small

_IF_NAMED, _IF_LOADED = ("action", (enums.NameAction.NAME,)), ("action", (enums.LoadAction.LOAD,))


class Event(StreamRecord, frozen=True, kw_only=True):
    """Base class of all events.

    Attributes:
        time: nanoseconds of the event clock.
    """

    time: Annotated[int, Clock(of="time")]


class LateEvent(Event, frozen=True, kw_only=True):
    """Base class of events that have a time from data version 13 on; before, they have the last time of the buffer."""

    time: Annotated[int, Clock(of="time", since=13)]


def _first_bytes(word: type[Word], *, since: float = 0, before: float = inf, **tags: int) -> tuple[FirstByte, ...]:
    """Return the first byte of an event, with its tags fixed to these values."""
    return (FirstByte(word.of(word.__name__, **tags) if tags else word, since, before),)


# ---- memory: allocations, garbage collection, heap shots


class Allocation(Event, frozen=True, kw_only=True, tag="alloc"):
    """The allocation of an object.  spec: type alloc format

    Attributes:
        class_pointer: its class; None from data version 15 on.
        vtable: its vtable; None before data version 15.
        object: its address.
        size: its size in bytes.
        backtrace_flags: without a meaning; None from data version 13 on.
        backtrace: methods, the outermost first; None where none was taken.
    """

    first_bytes: ClassVar = _first_bytes(b.AllocByte)
    class_pointer: Annotated[int | None, Relative(base="pointer", before=15)] = field(default=None, name="class")
    vtable: Annotated[int | None, Relative(base="pointer", since=15)] = None
    object: Object
    size: Size
    backtrace_flags: b.BacktraceFlags = field(default=None, name="_backtrace_flags")
    backtrace: b.Backtrace = None


class GcEvent(Event, frozen=True, kw_only=True, tag="gc-event"):
    """A step of a garbage collection.  spec: type GC format, TYPE_GC_EVENT

    Attributes:
        event: the step, see `GcEventType`.
        generation: 0 or 1.
    """

    first_bytes: ClassVar = _first_bytes(b.GcByte, exinfo=enums.GcInfo.EVENT)
    event: Annotated[Small, enums.GcEventType] = field(name="event_type")
    generation: Small


class GcResize(Event, frozen=True, kw_only=True, tag="gc-resize"):
    """The new size of the heap in bytes.  spec: type GC format, TYPE_GC_RESIZE"""

    first_bytes: ClassVar = _first_bytes(b.GcByte, exinfo=enums.GcInfo.RESIZE)
    size: Size = field(name="heap_size")


class GcMove(Event, frozen=True, kw_only=True, tag="gc-move"):
    """Moves of objects by the garbage collector.  spec: type GC format, TYPE_GC_MOVE

    Attributes:
        objects: the old and the new address of each object, alternating.
    """

    first_bytes: ClassVar = _first_bytes(b.GcByte, exinfo=enums.GcInfo.MOVE)
    objects: Annotated[tuple[int, ...], Repeated(of=b.OBJECT)]


def _handle(destroyed: int) -> tuple[FirstByte, ...]:
    return (
        *_first_bytes(b.OldHandleByte, before=11, destroyed=destroyed),
        *_first_bytes(b.HandleByte, since=11, destroyed=destroyed),
    )


class HandleCreated(Event, frozen=True, kw_only=True, tag="gc-handle-created"):
    """The creation of a GC handle.  spec: type GC format, TYPE_GC_HANDLE_CREATED

    Attributes:
        handle_type: its kind, see `HandleType`.
        handle: its number.
        object: the object that it holds.
        backtrace_flags: without a meaning; None from data version 13 on.
        backtrace: methods, the outermost first; None where none was taken.
    """

    first_bytes: ClassVar = _handle(0)
    handle_type: Annotated[int, Uleb(), enums.HandleType]
    handle: Annotated[int, Uleb()]
    object: Object
    backtrace_flags: b.HandleBacktraceFlags = field(default=None, name="_backtrace_flags")
    backtrace: b.HandleBacktrace = None


class HandleDestroyed(Event, frozen=True, kw_only=True, tag="gc-handle-destroyed"):
    """The destruction of a GC handle.  spec: type GC format, TYPE_GC_HANDLE_DESTROYED

    Attributes:
        handle_type: its kind, see `HandleType`.
        handle: its number.
        backtrace_flags: without a meaning; None from data version 13 on.
        backtrace: methods, the outermost first; None where none was taken.
    """

    first_bytes: ClassVar = _handle(1)
    handle_type: Annotated[int, Uleb(), enums.HandleType]
    handle: Annotated[int, Uleb()]
    backtrace_flags: b.HandleBacktraceFlags = field(default=None, name="_backtrace_flags")
    backtrace: b.HandleBacktrace = None


class FinalizeStart(Event, frozen=True, kw_only=True, tag="gc-finalize-start"):
    """The start of a run of the finalizer queue.  spec: type GC format, TYPE_GC_FINALIZE_START"""

    first_bytes: ClassVar = _first_bytes(b.GcByte, since=13, exinfo=enums.GcInfo.FINALIZE_START)


class FinalizeEnd(Event, frozen=True, kw_only=True, tag="gc-finalize-end"):
    """The end of a run of the finalizer queue.  spec: type GC format, TYPE_GC_FINALIZE_END"""

    first_bytes: ClassVar = _first_bytes(b.GcByte, since=13, exinfo=enums.GcInfo.FINALIZE_END)


class FinalizeObjectStart(Event, frozen=True, kw_only=True, tag="gc-finalize-object-start"):
    """The start of the finalizer of an object.  spec: type GC format, TYPE_GC_FINALIZE_OBJECT_START"""

    first_bytes: ClassVar = _first_bytes(b.GcByte, since=13, exinfo=enums.GcInfo.FINALIZE_OBJECT_START)
    object: Object


class FinalizeObjectEnd(Event, frozen=True, kw_only=True, tag="gc-finalize-object-end"):
    """The end of the finalizer of an object.  spec: type GC format, TYPE_GC_FINALIZE_OBJECT_END"""

    first_bytes: ClassVar = _first_bytes(b.GcByte, since=13, exinfo=enums.GcInfo.FINALIZE_OBJECT_END)
    object: Object


class HeapStart(Event, frozen=True, kw_only=True, tag="heap-start"):
    """The start of a heap shot.  spec: type heap format, TYPE_HEAP_START"""

    first_bytes: ClassVar = _first_bytes(b.HeapByte, exinfo=enums.HeapInfo.START)


class HeapEnd(Event, frozen=True, kw_only=True, tag="heap-end"):
    """The end of a heap shot.  spec: type heap format, TYPE_HEAP_END"""

    first_bytes: ClassVar = _first_bytes(b.HeapByte, exinfo=enums.HeapInfo.END)


class HeapObject(LateEvent, frozen=True, kw_only=True, tag="heap-object"):
    """An object of a heap shot.  spec: type heap format, TYPE_HEAP_OBJECT

    Attributes:
        object: its address.
        class_pointer: its class; None from data version 15 on.
        vtable: its vtable; None before data version 15.
        size: its size in bytes; 0 where the event adds references to the object of an earlier event.
        generation: its GC generation; None before data version 16.
        references: its references to other objects.
    """

    first_bytes: ClassVar = _first_bytes(b.HeapByte, exinfo=enums.HeapInfo.OBJECT)
    object: Object
    class_pointer: Annotated[int | None, Relative(base="pointer", before=15)] = field(default=None, name="class")
    vtable: Annotated[int | None, Relative(base="pointer", since=15)] = None
    size: Size
    generation: Annotated[int | None, Byte(since=16)] = None
    references: Annotated[tuple[b.Reference, ...], Repeated(of=b.Reference)]


class HeapRoots(LateEvent, frozen=True, kw_only=True, tag="heap-roots"):
    """Garbage collection roots.  spec: type heap format, TYPE_HEAP_ROOT

    Attributes:
        collections: number of major collections so far; None from data version 15 on.
        roots: the roots; in the file their count is in front of `collections`.
    """

    first_bytes: ClassVar = _first_bytes(b.HeapByte, since=3, exinfo=enums.HeapInfo.ROOTS)
    collections: Annotated[int | None, AfterCount(before=15)] = field(default=None, name="num_gc")
    roots: Annotated[
        tuple[b.Root, ...], Repeated(of=b.Root, after_count="collections", before=15), Repeated(of=b.Root, since=15)
    ]


class RootRegister(Event, frozen=True, kw_only=True, tag="root-register"):
    """The registration of a memory region that holds GC roots.  Mono 5.12 and later.

    Attributes:
        address: its first address.
        size: its size in bytes.
        source: its owner, see `RootSource`.
        key: the thread, vtable or other object of the owner, or 0.
        name: a description.
    """

    first_bytes: ClassVar = _first_bytes(b.HeapByte, since=15, exinfo=enums.HeapInfo.ROOT_REGISTER)
    address: Pointer = field(name="start")
    size: Size
    source: Annotated[int, Byte(), enums.RootSource]
    key: Pointer
    name: Name = field(name="description")


class RootUnregister(Event, frozen=True, kw_only=True, tag="root-unregister"):
    """The removal of a memory region that holds GC roots.  Mono 5.12 and later."""

    first_bytes: ClassVar = _first_bytes(b.HeapByte, since=15, exinfo=enums.HeapInfo.ROOT_UNREGISTER)
    address: Pointer = field(name="start")


# ---- execution: metadata, methods, exceptions, monitors, native code


class ClassLoad(Event, frozen=True, kw_only=True, tag="class-load"):
    """The loading of a class.  spec: type metadata format, TYPE_CLASS

    Attributes:
        pointer: the class.
        image: its image.
        flags: None from data version 13 on.
        name: its full name.
    """

    first_bytes: ClassVar = _first_bytes(b.LoadByte, action=enums.LoadAction.LOAD)
    subtype: ClassVar = enums.MetadataType.CLASS
    pointer: Pointer
    image: Pointer
    flags: b.OldFlags = field(default=None, name="_flags")
    name: Name


class Image(Event, frozen=True, kw_only=True, tag="image"):
    """The loading or unloading of an image.  spec: type metadata format, TYPE_IMAGE

    Attributes:
        action: see `LoadAction`.
        pointer: the image.
        flags: None from data version 13 on.
        name: its file.
        mvid: the id of its module, may be empty; only when loaded, from data version 16 on.
    """

    first_bytes: ClassVar = _first_bytes(b.LoadByte)
    subtype: ClassVar = enums.MetadataType.IMAGE
    action: int = field(name="_action")
    pointer: Pointer
    flags: b.OldFlags = field(default=None, name="_flags")
    name: Name
    mvid: Annotated[str | None, Text(since=16, when=_IF_LOADED)] = None


class Assembly(Event, frozen=True, kw_only=True, tag="assembly"):
    """The loading or unloading of an assembly.  spec: type metadata format, TYPE_ASSEMBLY

    Attributes:
        action: see `LoadAction`.
        pointer: the assembly.
        image: its image; None before data version 14.
        flags: None from data version 13 on.
        name: its full name.
    """

    first_bytes: ClassVar = _first_bytes(b.LoadByte)
    subtype: ClassVar = enums.MetadataType.ASSEMBLY
    action: int = field(name="_action")
    pointer: Pointer
    image: Annotated[int | None, Relative(base="pointer", since=14)] = None
    flags: b.OldFlags = field(default=None, name="_flags")
    name: Name


class Domain(Event, frozen=True, kw_only=True, tag="domain"):
    """The loading, unloading or naming of an application domain.  spec: type metadata format, TYPE_DOMAIN

    Attributes:
        action: see `NameAction`.
        id: the domain's number.
        flags: None from data version 13 on.
        name: its friendly name; None unless the action is `NAME`.
    """

    first_bytes: ClassVar = _first_bytes(b.NameByte)
    subtype: ClassVar = enums.MetadataType.DOMAIN
    action: int = field(name="_action")
    id: Pointer = field(name="pointer")
    flags: b.OldFlags = field(default=None, name="_flags")
    name: Annotated[str | None, Text(when=_IF_NAMED)] = None


class Thread(Event, frozen=True, kw_only=True, tag="thread"):
    """The start, end or naming of a thread.  spec: type metadata format, TYPE_THREAD

    Attributes:
        action: see `NameAction`.
        id: the thread's native id.
        flags: None from data version 13 on.
        name: its name; None unless the action is `NAME`.
    """

    first_bytes: ClassVar = _first_bytes(b.NameByte)
    subtype: ClassVar = enums.MetadataType.THREAD
    action: int = field(name="_action")
    id: Pointer = field(name="pointer")
    flags: b.OldFlags = field(default=None, name="_flags")
    name: Annotated[str | None, Text(when=_IF_NAMED)] = None


class Context(Event, frozen=True, kw_only=True, tag="context"):
    """The loading or unloading of a context.  spec: type metadata format, TYPE_CONTEXT

    Attributes:
        action: see `LoadAction`.
        id: the context's number.
        flags: None from data version 13 on.
        domain: the number of its domain.
    """

    first_bytes: ClassVar = _first_bytes(b.LoadByte)
    subtype: ClassVar = enums.MetadataType.CONTEXT
    action: int = field(name="_action")
    id: Pointer = field(name="pointer")
    flags: b.OldFlags = field(default=None, name="_flags")
    domain: Pointer


class VtableLoad(Event, frozen=True, kw_only=True, tag="vtable-load"):
    """The loading of a vtable.  Mono 5.12 and later.

    Attributes:
        pointer: the vtable.
        domain: the number of its domain, 0 for a proxy.
        class_pointer: its class.
    """

    first_bytes: ClassVar = _first_bytes(b.LoadByte, since=15, action=enums.LoadAction.LOAD)
    subtype: ClassVar = enums.MetadataType.VTABLE
    pointer: Pointer
    domain: Pointer
    class_pointer: Pointer = field(name="class")


class Call(Event, frozen=True, kw_only=True, tag="method"):
    """The entry into a method or the exit from it.  spec: type method format

    Attributes:
        action: see `MethodAction`.
        method: the method.
    """

    first_bytes: ClassVar = _first_bytes(b.MethodByte)
    action: int = field(name="_action")
    method: Method


class JitMethod(Event, frozen=True, kw_only=True, tag="method-jit"):
    """The compilation of a method.  spec: type method format, TYPE_JIT

    Attributes:
        method: the method.
        code: the address of its native code, may be 0.
        size: the size of its native code, may be 0; meaningless after the unloading of a domain.
        name: its full name with signature.
    """

    first_bytes: ClassVar = _first_bytes(b.JitByte)
    method: Method
    code: Pointer = field(name="code_address")
    size: Size = field(name="code_size")
    name: Name


class Throw(Event, frozen=True, kw_only=True, tag="exception-throw"):
    """The throwing of an exception.  spec: type exception format

    Attributes:
        object: the exception.
        backtrace_flags: without a meaning; None from data version 13 on.
        backtrace: methods, the outermost first; None where none was taken.
    """

    first_bytes: ClassVar = _first_bytes(b.ThrowByte)
    object: Object
    backtrace_flags: b.BacktraceFlags = field(default=None, name="_backtrace_flags")
    backtrace: b.Backtrace = None


class Clause(Event, frozen=True, kw_only=True, tag="exception-clause"):
    """The start of an exception clause.  spec: type exception format, TYPE_CLAUSE

    Attributes:
        kind: see `ClauseKind`.
        index: its number in the method.
        method: the method.
        object: the exception, 0 for a finally clause that runs without one; None before data version 14.
    """

    first_bytes: ClassVar = _first_bytes(b.ClauseByte)
    kind: Annotated[Small, enums.ClauseKind] = field(name="clause_type")
    index: Annotated[int, Uleb()] = field(name="clause_index")
    method: Method
    object: Annotated[int | None, Relative(base="object", shift=b.OBJECT_SHIFT, since=14)] = None


class Monitor(Event, frozen=True, kw_only=True, tag="monitor"):
    """An attempt to enter a monitor, or its outcome.  spec: type monitor format

    Attributes:
        event: see `MonitorEvent`.
        object: the lock.
        backtrace_flags: without a meaning; None from data version 13 on.
        backtrace: methods, the outermost first; None where none was taken.
    """

    first_bytes: ClassVar = (FirstByte(b.OldMonitorByte, before=14), FirstByte(b.MonitorByte, since=14))
    event: Annotated[int, Byte(since=14), enums.MonitorEvent]
    object: Object
    backtrace_flags: b.BacktraceFlags = field(default=None, name="_backtrace_flags")
    backtrace: b.Backtrace = None


class JitHelper(Event, frozen=True, kw_only=True, tag="jit-helper"):
    """The creation of native code that is no method.  spec: type runtime format, TYPE_JITHELPER

    Attributes:
        buffer_type: its purpose, see `CodeBuffer`.
        address: its first address.
        size: its size in bytes.
        name: the name of a specific trampoline; None for all others.
    """

    first_bytes: ClassVar = _first_bytes(b.RuntimeByte, since=8)
    buffer_type: Small
    address: Pointer = field(name="buffer_address")
    size: Size = field(name="buffer_size")
    name: Annotated[
        str | None,
        Text(before=14, when=("buffer_type", (enums.CodeBuffer.SPECIFIC_TRAMPOLINE + 1,))),
        Text(since=14, when=("buffer_type", (enums.CodeBuffer.SPECIFIC_TRAMPOLINE,))),
    ] = None


class SyncPoint(Event, frozen=True, kw_only=True, tag="sync-point"):
    """A point in time: all events after it are later than those before it.  spec: type meta format, TYPE_SYNC_POINT

    Attributes:
        sync_type: its reason, see `SyncPointType`.
    """

    first_bytes: ClassVar = _first_bytes(b.MetaByte, since=13, exinfo=0)
    sync_type: Annotated[int, Byte(), enums.SyncPointType] = field(name="sync_point_type")


class AotId(Event, frozen=True, kw_only=True, tag="aot-id"):
    """The id of ahead-of-time compiled code.  Mono 5.14 and later."""

    first_bytes: ClassVar = _first_bytes(b.MetaByte, since=16, exinfo=1)
    id: Name


# ---- measurements: samples, counters, coverage


class SampleHit(LateEvent, frozen=True, kw_only=True, tag="sample-hit"):
    """A sample of what a thread executes.  spec: type sample format, TYPE_SAMPLE_HIT

    Attributes:
        sample_type: the event that is sampled, see `SampleType`; None from data version 14 on.
        sample_time: its own time; up to data version 12.
        interrupted: the sampled thread; None before data version 11.
        addresses: instruction pointers, the innermost first; today always one.
        located_frames: managed frames with offsets; data versions 6 to 12.
        frames: methods, the innermost first; None before data version 13.
    """

    first_bytes: ClassVar = _first_bytes(b.SampleByte, since=4, exinfo=enums.SampleInfo.HIT)
    sample_type: Annotated[int | None, Uleb(before=13), Byte(since=13, before=14)] = field(
        default=None, name="_sample_type"
    )
    sample_time: Annotated[int | None, Uleb(before=13)] = field(default=None, name="_sample_time")
    interrupted: Annotated[int | None, Relative(base="pointer", since=11)] = field(default=None, name="thread")
    addresses: Annotated[tuple[int, ...], Repeated(of=b.POINTER)]
    located_frames: Annotated[tuple[b.SampledFrame, ...] | None, Repeated(of=b.SampledFrame, since=6, before=13)] = (
        field(default=None, name="_located_frames")
    )
    frames: Annotated[tuple[int, ...] | None, Repeated(of=b.METHOD, since=13)] = field(default=None, name="methods")


class NativeSymbol(LateEvent, frozen=True, kw_only=True, tag="sample-symbol"):
    """A symbol of native code.  spec: type sample format, TYPE_SAMPLE_USYM

    Attributes:
        address: its first address.
        size: its size in bytes, 0 if unknown.
        name: its name.
    """

    first_bytes: ClassVar = _first_bytes(b.SampleByte, since=4, exinfo=enums.SampleInfo.NATIVE_SYMBOL)
    address: Pointer
    size: Size
    name: Name


class NativeBinary(Event, frozen=True, kw_only=True, tag="sample-binary"):
    """The mapping of a native binary into memory.  spec: type sample format, TYPE_SAMPLE_UBIN

    Attributes:
        address: the first address of the mapping.
        file_offset: the offset of the mapped bytes in the file.
        size: the number of mapped bytes.
        name: the file.
    """

    first_bytes: ClassVar = _first_bytes(b.SampleByte, since=4, before=16, exinfo=enums.SampleInfo.NATIVE_BINARY)
    address: Annotated[int, Sleb(pointer=True, before=14), Relative(base="pointer", since=14)]
    file_offset: Annotated[int, Uleb()] = field(name="offset")
    size: Size
    name: Name


class CounterDescriptions(LateEvent, frozen=True, kw_only=True, tag="counters-description"):
    """Descriptions of counters.  spec: type sample format, TYPE_SAMPLE_COUNTERS_DESC"""

    first_bytes: ClassVar = _first_bytes(b.SampleByte, since=5, exinfo=enums.SampleInfo.COUNTER_DESCRIPTIONS)
    counters: Annotated[tuple[b.CounterDescription, ...], Repeated(of=b.CounterDescription)]


class CounterValues(LateEvent, frozen=True, kw_only=True, tag="counters-values"):
    """Values of counters.  spec: type sample format, TYPE_SAMPLE_COUNTERS

    Attributes:
        milliseconds: time since the start; None from data version 13 on.
        values: the values.
    """

    first_bytes: ClassVar = _first_bytes(b.SampleByte, since=5, exinfo=enums.SampleInfo.COUNTERS)
    milliseconds: Annotated[int | None, Uleb(before=13)] = field(default=None, name="_milliseconds")
    values: Annotated[tuple[b.CounterValue, ...], Repeated(of=b.CounterValue, until_zero=True)]


def _coverage(kind: enums.CoverageInfo) -> tuple[FirstByte, ...]:
    return _first_bytes(b.CoverageByte, since=10, before=16, exinfo=kind)


class CoverageAssembly(LateEvent, frozen=True, kw_only=True, tag="coverage-assembly"):
    """Coverage of an assembly.  spec: type coverage format, TYPE_COVERAGE_ASSEMBLY

    Attributes:
        name: the assembly.
        guid: its id.
        filename: its file.
        methods: number of its methods.
        fully_covered: the number of those that were run.
        partially_covered: always 0.
    """

    first_bytes: ClassVar = _coverage(enums.CoverageInfo.ASSEMBLY)
    name: Name
    guid: Name
    filename: Name
    methods: Size = field(name="number_of_methods")
    fully_covered: Size
    partially_covered: Size


class CoverageMethod(LateEvent, frozen=True, kw_only=True, tag="coverage-method"):
    """Coverage of a method.  spec: type coverage format, TYPE_COVERAGE_METHOD

    Attributes:
        assembly: its assembly.
        class_name: its class.
        name: its name.
        signature: its signature.
        filename: the source file.
        token: its token.
        method_id: the number that refers to it in `CoverageStatement`.
        statements: the number of its statements.
    """

    first_bytes: ClassVar = _coverage(enums.CoverageInfo.METHOD)
    assembly: Name
    class_name: Name = field(name="class")
    name: Name
    signature: Name
    filename: Name
    token: Size
    method_id: Size
    statements: Size = field(name="len")


class CoverageStatement(LateEvent, frozen=True, kw_only=True, tag="coverage-statement"):
    """Coverage of a statement.  spec: type coverage format, TYPE_COVERAGE_STATEMENT

    Attributes:
        method_id: its method.
        il_offset: its IL offset, relative to that of the statement before it.
        counter: how often it was run.
        line: its line in the source file.
        column: its column there.
    """

    first_bytes: ClassVar = _coverage(enums.CoverageInfo.STATEMENT)
    method_id: Size
    il_offset: Size = field(name="offset")
    counter: Size
    line: Size
    column: Size


class CoverageClass(LateEvent, frozen=True, kw_only=True, tag="coverage-class"):
    """Coverage of a class.  spec: type coverage format, TYPE_COVERAGE_CLASS

    Attributes:
        assembly: its assembly.
        name: its name.
        methods: number of its methods.
        fully_covered: the number of those that were run.
        partially_covered: always 0.
    """

    first_bytes: ClassVar = _coverage(enums.CoverageInfo.CLASS)
    assembly: Name = field(name="name")
    name: Name = field(name="class")
    methods: Size = field(name="number_of_methods")
    fully_covered: Size
    partially_covered: Size


EVENTS: tuple[type[Event], ...] = (
    Allocation, GcEvent, GcResize, GcMove, HandleCreated, HandleDestroyed, FinalizeStart, FinalizeEnd,
    FinalizeObjectStart, FinalizeObjectEnd, ClassLoad, Image, Assembly, Domain, Thread, Context, VtableLoad, Call,
    JitMethod, Throw, Clause, Monitor, HeapStart, HeapEnd, HeapObject, HeapRoots, RootRegister, RootUnregister,
    SampleHit, NativeSymbol, NativeBinary, CounterDescriptions, CounterValues, JitHelper, CoverageAssembly,
    CoverageMethod, CoverageStatement, CoverageClass, SyncPoint, AotId,
)  # fmt: skip
"""All events; the kind of an event is its index."""

VERSIONS = tuple(range(1, 18))
"""All data versions."""


@cache
def dialect_of(version: float, pointer_size: int) -> Dialect:
    """Return the dialect of a data version for pointers of 4 or 8 bytes."""
    return Dialect(EVENTS, version, pointer_size * 8)
