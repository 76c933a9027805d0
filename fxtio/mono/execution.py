"""Events about what runs: metadata, methods, exceptions, monitors, native code; in the specification's order."""

from __future__ import annotations

from typing import Annotated, ClassVar

from fxtio.codec.stream import Byte, Head, Relative, Text, Uleb
from fxtio.mono import layout as b
from fxtio.mono.enums import CodeBuffer, LoadAction, MetadataType
from fxtio.mono.parts import (
    LOADED,
    NAMED,
    Backtrace,
    BacktraceFlags,
    Event,
    Method,
    Name,
    Object,
    OldFlags,
    Pointer,
    Size,
    heads_of,
)


class ClassLoad(Event, frozen=True, kw_only=True):
    """A class was loaded.  spec: type metadata format, TYPE_CLASS

    Attributes:
        pointer: the class.
        image: its image.
        flags: None from data version 13 on.
        name: its full name.
    """

    heads: ClassVar = heads_of(b.LoadByte, action=LoadAction.LOAD)
    subtype: ClassVar = MetadataType.CLASS
    pointer: Pointer
    image: Pointer
    flags: OldFlags = None
    name: Name


class Image(Event, frozen=True, kw_only=True):
    """An image was loaded or unloaded.  spec: type metadata format, TYPE_IMAGE

    Attributes:
        action: see `LoadAction`.
        pointer: the image.
        flags: None from data version 13 on.
        name: its file.
        mvid: the id of its module, may be empty; only when loaded, from data version 16 on.
    """

    heads: ClassVar = heads_of(b.LoadByte)
    subtype: ClassVar = MetadataType.IMAGE
    action: int
    pointer: Pointer
    flags: OldFlags = None
    name: Name
    mvid: Annotated[str | None, Text(since=16, when=LOADED)] = None


class Assembly(Event, frozen=True, kw_only=True):
    """An assembly was loaded or unloaded.  spec: type metadata format, TYPE_ASSEMBLY

    Attributes:
        action: see `LoadAction`.
        pointer: the assembly.
        image: its image; None before data version 14.
        flags: None from data version 13 on.
        name: its full name.
    """

    heads: ClassVar = heads_of(b.LoadByte)
    subtype: ClassVar = MetadataType.ASSEMBLY
    action: int
    pointer: Pointer
    image: Annotated[int | None, Relative(base="pointer", since=14)] = None
    flags: OldFlags = None
    name: Name


class Domain(Event, frozen=True, kw_only=True):
    """An application domain was loaded, unloaded or named.  spec: type metadata format, TYPE_DOMAIN

    Attributes:
        action: see `NameAction`.
        id: the domain's number.
        flags: None from data version 13 on.
        name: its friendly name; None unless it was named.
    """

    heads: ClassVar = heads_of(b.NameByte)
    subtype: ClassVar = MetadataType.DOMAIN
    action: int
    id: Pointer
    flags: OldFlags = None
    name: Annotated[str | None, Text(when=NAMED)] = None


class Thread(Event, frozen=True, kw_only=True):
    """A thread began, ended or was named.  spec: type metadata format, TYPE_THREAD

    Attributes:
        action: see `NameAction`.
        id: the thread's native id.
        flags: None from data version 13 on.
        name: its name; None unless it was named.
    """

    heads: ClassVar = heads_of(b.NameByte)
    subtype: ClassVar = MetadataType.THREAD
    action: int
    id: Pointer
    flags: OldFlags = None
    name: Annotated[str | None, Text(when=NAMED)] = None


class Context(Event, frozen=True, kw_only=True):
    """A context was loaded or unloaded.  spec: type metadata format, TYPE_CONTEXT

    Attributes:
        action: see `LoadAction`.
        id: the context's number.
        flags: None from data version 13 on.
        domain: the number of its domain.
    """

    heads: ClassVar = heads_of(b.LoadByte)
    subtype: ClassVar = MetadataType.CONTEXT
    action: int
    id: Pointer
    flags: OldFlags = None
    domain: Pointer


class VtableLoad(Event, frozen=True, kw_only=True):
    """A vtable was loaded.  Mono 5.12 and later.

    Attributes:
        pointer: the vtable.
        domain: the number of its domain, 0 for a proxy.
        class_pointer: its class.
    """

    heads: ClassVar = heads_of(b.LoadByte, since=15, action=LoadAction.LOAD)
    subtype: ClassVar = MetadataType.VTABLE
    pointer: Pointer
    domain: Pointer
    class_pointer: Pointer


class Call(Event, frozen=True, kw_only=True):
    """A method was entered or left.  spec: type method format

    Attributes:
        action: see `MethodAction`.
        method: the method.
    """

    heads: ClassVar = heads_of(b.MethodByte)
    action: int
    method: Method


class JitMethod(Event, frozen=True, kw_only=True):
    """A method was compiled.  spec: type method format, TYPE_JIT

    Attributes:
        method: the method.
        code: where its native code begins, may be 0.
        size: the size of its native code, may be 0; nonsense after the unloading of a domain.
        name: its full name with signature.
    """

    heads: ClassVar = heads_of(b.JitByte)
    method: Method
    code: Pointer
    size: Size
    name: Name


class Throw(Event, frozen=True, kw_only=True):
    """An exception was thrown.  spec: type exception format

    Attributes:
        object: the exception.
        backtrace_flags: without a meaning; None from data version 13 on.
        backtrace: methods, the outermost first; None where none was taken.
    """

    heads: ClassVar = heads_of(b.ThrowByte)
    object: Object
    backtrace_flags: BacktraceFlags = None
    backtrace: Backtrace = None


class Clause(Event, frozen=True, kw_only=True):
    """An exception clause begins.  spec: type exception format, TYPE_CLAUSE

    Attributes:
        kind: see `ClauseKind`.
        index: its number in the method.
        method: the method.
        object: the exception, 0 for a finally clause that runs without one; None before data version 14.
    """

    heads: ClassVar = heads_of(b.ClauseByte)
    kind: Annotated[int, Uleb(before=13), Byte(since=13)]
    index: Annotated[int, Uleb()]
    method: Method
    object: Annotated[int | None, Relative(base="object", shift=b.OBJECT_SHIFT, since=14)] = None


class Monitor(Event, frozen=True, kw_only=True):
    """Something happened at a monitor.  spec: type monitor format

    Attributes:
        event: see `MonitorEvent`.
        object: the lock.
        backtrace_flags: without a meaning; None from data version 13 on.
        backtrace: methods, the outermost first; None where none was taken.
    """

    heads: ClassVar = (Head(b.OldMonitorByte, before=14), Head(b.MonitorByte, since=14))
    event: Annotated[int, Byte(since=14)]
    object: Object
    backtrace_flags: BacktraceFlags = None
    backtrace: Backtrace = None


class JitHelper(Event, frozen=True, kw_only=True):
    """Native code that is no method was made.  spec: type runtime format, TYPE_JITHELPER

    Attributes:
        type: what for, see `CodeBuffer`.
        address: where it begins.
        size: its size in bytes.
        name: of a specific trampoline; None for all others.
    """

    heads: ClassVar = heads_of(b.RuntimeByte, since=8)
    type: Annotated[int, Uleb(before=13), Byte(since=13)]
    address: Pointer
    size: Size
    name: Annotated[
        str | None,
        Text(before=14, when=("type", (CodeBuffer.SPECIFIC_TRAMPOLINE + 1,))),
        Text(since=14, when=("type", (CodeBuffer.SPECIFIC_TRAMPOLINE,))),
    ] = None


class SyncPoint(Event, frozen=True, kw_only=True):
    """Whatever comes behind it is later than what came before it.  spec: type meta format, TYPE_SYNC_POINT

    Attributes:
        type: why there is one, see `SyncPointType`.
    """

    heads: ClassVar = heads_of(b.MetaByte, since=13, exinfo=0)
    type: Annotated[int, Byte()]


class AotId(Event, frozen=True, kw_only=True):
    """The id of ahead-of-time compiled code.  Mono 5.14 and later."""

    heads: ClassVar = heads_of(b.MetaByte, since=16, exinfo=1)
    id: Name
