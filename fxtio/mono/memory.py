"""Events about memory: allocations, garbage collection, heap shots; in the specification's order."""

from __future__ import annotations

from typing import Annotated, ClassVar

from fxtio.codec.stream import Between, Byte, Head, Many, Relative, Uleb
from fxtio.mono import layout as b
from fxtio.mono.enums import GcInfo, HeapInfo
from fxtio.mono.parts import (
    OBJECT,
    Backtrace,
    BacktraceFlags,
    Event,
    HandleBacktrace,
    HandleBacktraceFlags,
    LateTick,
    Name,
    Object,
    Pointer,
    Reference,
    Root,
    Size,
    heads_of,
)


class Allocation(Event, frozen=True, kw_only=True):
    """An object was allocated.  spec: type alloc format

    Attributes:
        class_pointer: its class; None from data version 15 on.
        vtable: its vtable; None before data version 15.
        object: its address.
        size: its size in bytes.
        backtrace_flags: without a meaning; None from data version 13 on.
        backtrace: methods, the outermost first; None where none was taken.
    """

    heads: ClassVar = heads_of(b.AllocByte)
    class_pointer: Annotated[int | None, Relative(base="pointer", before=15)] = None
    vtable: Annotated[int | None, Relative(base="pointer", since=15)] = None
    object: Object
    size: Size
    backtrace_flags: BacktraceFlags = None
    backtrace: Backtrace = None


class GcEvent(Event, frozen=True, kw_only=True):
    """A step of a garbage collection.  spec: type GC format, TYPE_GC_EVENT

    Attributes:
        event: the step, see `GcEventType`.
        generation: 0 or 1.
    """

    heads: ClassVar = heads_of(b.GcByte, exinfo=GcInfo.EVENT)
    event: Annotated[int, Uleb(before=13), Byte(since=13)]
    generation: Annotated[int, Uleb(before=13), Byte(since=13)]


class GcResize(Event, frozen=True, kw_only=True):
    """The heap has a new size, in bytes.  spec: type GC format, TYPE_GC_RESIZE"""

    heads: ClassVar = heads_of(b.GcByte, exinfo=GcInfo.RESIZE)
    size: Size


class GcMove(Event, frozen=True, kw_only=True):
    """Objects moved.  spec: type GC format, TYPE_GC_MOVE

    Attributes:
        objects: old and new address by turns.
    """

    heads: ClassVar = heads_of(b.GcByte, exinfo=GcInfo.MOVE)
    objects: Annotated[tuple[int, ...], Many(of=OBJECT)]


def _handle(destroyed: int) -> tuple[Head, ...]:
    return (
        *heads_of(b.OldHandleByte, before=11, destroyed=destroyed),
        *heads_of(b.HandleByte, since=11, destroyed=destroyed),
    )


class HandleCreated(Event, frozen=True, kw_only=True):
    """A GC handle was created.  spec: type GC format, TYPE_GC_HANDLE_CREATED

    Attributes:
        handle_type: its kind, see `HandleType`.
        handle: its number.
        object: the object that it holds.
        backtrace_flags: without a meaning; None from data version 13 on.
        backtrace: methods, the outermost first; None where none was taken.
    """

    heads: ClassVar = _handle(0)
    handle_type: Annotated[int, Uleb()]
    handle: Annotated[int, Uleb()]
    object: Object
    backtrace_flags: HandleBacktraceFlags = None
    backtrace: HandleBacktrace = None


class HandleDestroyed(Event, frozen=True, kw_only=True):
    """A GC handle was destroyed.  spec: type GC format, TYPE_GC_HANDLE_DESTROYED

    Attributes:
        handle_type: its kind, see `HandleType`.
        handle: its number.
        backtrace_flags: without a meaning; None from data version 13 on.
        backtrace: methods, the outermost first; None where none was taken.
    """

    heads: ClassVar = _handle(1)
    handle_type: Annotated[int, Uleb()]
    handle: Annotated[int, Uleb()]
    backtrace_flags: HandleBacktraceFlags = None
    backtrace: HandleBacktrace = None


class FinalizeStart(Event, frozen=True, kw_only=True):
    """The queue of finalizers begins to be worked off.  spec: type GC format, TYPE_GC_FINALIZE_START"""

    heads: ClassVar = heads_of(b.GcByte, since=13, exinfo=GcInfo.FINALIZE_START)


class FinalizeEnd(Event, frozen=True, kw_only=True):
    """The queue of finalizers is worked off.  spec: type GC format, TYPE_GC_FINALIZE_END"""

    heads: ClassVar = heads_of(b.GcByte, since=13, exinfo=GcInfo.FINALIZE_END)


class FinalizeObjectStart(Event, frozen=True, kw_only=True):
    """The finalizer of an object begins.  spec: type GC format, TYPE_GC_FINALIZE_OBJECT_START"""

    heads: ClassVar = heads_of(b.GcByte, since=13, exinfo=GcInfo.FINALIZE_OBJECT_START)
    object: Object


class FinalizeObjectEnd(Event, frozen=True, kw_only=True):
    """The finalizer of an object ends.  spec: type GC format, TYPE_GC_FINALIZE_OBJECT_END"""

    heads: ClassVar = heads_of(b.GcByte, since=13, exinfo=GcInfo.FINALIZE_OBJECT_END)
    object: Object


class HeapStart(Event, frozen=True, kw_only=True):
    """A heap shot begins.  spec: type heap format, TYPE_HEAP_START"""

    heads: ClassVar = heads_of(b.HeapByte, exinfo=HeapInfo.START)


class HeapEnd(Event, frozen=True, kw_only=True):
    """A heap shot ends.  spec: type heap format, TYPE_HEAP_END"""

    heads: ClassVar = heads_of(b.HeapByte, exinfo=HeapInfo.END)


class HeapObject(Event, frozen=True, kw_only=True):
    """An object of a heap shot.  spec: type heap format, TYPE_HEAP_OBJECT

    Attributes:
        object: its address.
        class_pointer: its class; None from data version 15 on.
        vtable: its vtable; None before data version 15.
        size: its size in bytes; 0 where this adds references to an object told before.
        generation: its GC generation; None before data version 16.
        references: what it refers to.
    """

    heads: ClassVar = heads_of(b.HeapByte, exinfo=HeapInfo.OBJECT)
    time: LateTick
    object: Object
    class_pointer: Annotated[int | None, Relative(base="pointer", before=15)] = None
    vtable: Annotated[int | None, Relative(base="pointer", since=15)] = None
    size: Size
    generation: Annotated[int | None, Byte(since=16)] = None
    references: Annotated[tuple[Reference, ...], Many(of=Reference)]


class HeapRoots(Event, frozen=True, kw_only=True):
    """What keeps objects alive.  spec: type heap format, TYPE_HEAP_ROOT

    Attributes:
        collections: number of major collections so far; None from data version 15 on.
        roots: the roots.  In the file their number stands before `collections`.
    """

    heads: ClassVar = heads_of(b.HeapByte, since=3, exinfo=HeapInfo.ROOTS)
    time: LateTick
    collections: Annotated[int | None, Between(before=15)] = None
    roots: Annotated[tuple[Root, ...], Many(of=Root, between="collections", before=15), Many(of=Root, since=15)]


class RootRegister(Event, frozen=True, kw_only=True):
    """A region that holds GC roots was registered.  Mono 5.12 and later.

    Attributes:
        start: where it begins.
        size: its size in bytes.
        source: what it belongs to, see `RootSource`.
        key: the thread, vtable or the like that it belongs to, or 0.
        name: a description.
    """

    heads: ClassVar = heads_of(b.HeapByte, since=15, exinfo=HeapInfo.ROOT_REGISTER)
    start: Pointer
    size: Size
    source: Annotated[int, Byte()]
    key: Pointer
    name: Name


class RootUnregister(Event, frozen=True, kw_only=True):
    """A region that holds GC roots is no more.  Mono 5.12 and later."""

    heads: ClassVar = heads_of(b.HeapByte, since=15, exinfo=HeapInfo.ROOT_UNREGISTER)
    start: Pointer
