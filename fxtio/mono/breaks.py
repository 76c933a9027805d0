"""Recordings that are wrong on purpose: for every rule one that breaks this rule, and no other if that is possible.

Each begins with the definitions of a small sound recording.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from fxtio.mono import enums
from fxtio.mono import records as r
from fxtio.mono.headers import BufferHeader, StreamHeader, encode_buffer_header, encode_header
from fxtio.mono.layout import BUFFER_MARK, HYBRID, OBJECT_SHIFT
from fxtio.mono.stream.declare import Dialect, layout_of
from fxtio.mono.writer import MonoWriter, header_for

Values = tuple[type[r.Event], dict[str, Any]]
Break = Callable[[Path], None]

_VERSION = 17
_START, _STEP = 1_000_000, 1_000
_LATER = 2_000_000
_THREAD, _OTHER_THREAD = 0x1000, 0x1100
_IMAGE, _ASSEMBLY, _CLASS, _VTABLE = 0x4000, 0x4100, 0x4200, 0x4300
_METHOD, _OTHER_METHOD, _NEW_METHOD = 0x5000, 0x5100, 0x5200
_OBJECT, _OTHER_OBJECT = 0x7000, 0x7100
_NOWHERE = 0x9990
_RESIZE = bytes.fromhex("21 05 4d")  # a sound event: the new size of the heap
_LOAD, _UNLOAD, _NAME = enums.LoadAction.LOAD, enums.LoadAction.UNLOAD, enums.NameAction.NAME
_ENTER, _LEAVE = enums.MethodAction.ENTER, enums.MethodAction.LEAVE
_GC, _MONITOR = enums.GcEventType, enums.MonitorEvent
_TYPED = {"vtable": _VTABLE, "class_pointer": _CLASS}
_HEAP_OBJECT = {"object": _OBJECT, "size": 24, "generation": 0, "references": (), **_TYPED}

_DEFINITIONS: tuple[Values, ...] = (
    *((r.Thread, {"action": _LOAD, "id": thread}) for thread in (_THREAD, _OTHER_THREAD)),
    (r.Domain, {"action": _LOAD, "id": 1}),
    (r.Image, {"action": _LOAD, "pointer": _IMAGE, "name": "broken.exe", "mvid": ""}),
    (r.Assembly, {"action": _LOAD, "pointer": _ASSEMBLY, "image": _IMAGE, "name": "broken"}),
    (r.ClassLoad, {"pointer": _CLASS, "image": _IMAGE, "name": "Broken"}),
    (r.VtableLoad, {"pointer": _VTABLE, "domain": 1, "class_pointer": _CLASS}),
    (r.JitMethod, {"method": _METHOD, "code": 0, "size": 0, "name": "Broken:Main ()"}),
    (r.JitMethod, {"method": _OTHER_METHOD, "code": 0, "size": 0, "name": "Broken:Work ()"}),
)


def _header(version: float, pointers: int = 8, **changes: Any) -> StreamHeader:
    """Return a header that is always the same."""
    header = header_for(15 if version == HYBRID else version, pointers)
    return msgspec.structs.replace(header, startup_time=1_500_000_000_000, **changes)


def _events(dialect: Dialect, values: tuple[Values, ...], time: int) -> Iterator[r.Event]:
    """Yield events one behind the other in time, without the fields that the version does not have."""
    for cls, fields in values:
        layout = layout_of(cls, dialect.version)
        if layout is None:
            continue
        time += _STEP
        flags = {"flags": 0} if "flags" in cls.__struct_fields__ else {}
        given = {"time": time, **flags, **fields}
        yield cls(**{name: value for name, value in given.items() if name not in layout.absent or name == "time"})


def _recording(
    *buffers: tuple[Values, ...], version: float = _VERSION, header: StreamHeader | None = None,
    heads: tuple[dict[str, int], ...] = ({},), defined: bool = True,
) -> bytes:  # fmt: skip
    """Return a recording.

    Args:
        buffers: the events of each buffer behind the definitions.
        version: the data version.
        header: the header, by default that of the version.
        heads: fields of the headers of the buffers that are not as usual; the last ones are for all further buffers.
        defined: whether it begins with the definitions.
    """
    out = io.BytesIO()
    header = header or _header(version)
    dialect = r.dialect_of(version, header.pointer_size)
    bases = {"pointer": _IMAGE, "object": _OBJECT >> OBJECT_SHIFT, "thread": _THREAD, "method": _METHOD}
    with MonoWriter(out, header=header, data_version=version) as writer:
        if defined:
            writer.put(BufferHeader(**bases | {"time": _START}))
            for event in _events(dialect, _DEFINITIONS, _START):
                writer.put(event)
        for number, values in enumerate(buffers):
            head = bases | {"time": _LATER + number * _START} | heads[min(number, len(heads) - 1)]
            writer.put(BufferHeader(**head))
            for event in _events(dialect, values, head["time"]):
                writer.put(event)
    return out.getvalue()


def _write(data: bytes, path: Path) -> None:
    path.write_bytes(data)


def _with(*values: Values, **options: Any) -> Break:
    """Return a function that writes a recording with these events behind the definitions."""
    return lambda path: _write(_recording(values, **options), path)


def _bytes(make: Callable[[], bytes]) -> Break:
    return lambda path: _write(make(), path)


def _buffer(events: bytes = _RESIZE, *, size: int | None = None, number: int = 0) -> bytes:
    """Return a buffer with any bytes as its events, and maybe another size in its header."""
    header = BufferHeader(time=_LATER + number * _START, thread=_THREAD)
    return encode_buffer_header(header, len(events) if size is None else size) + events


def _raw(events: bytes, *, version: float = _VERSION) -> Break:
    """Return a function that writes a recording with any bytes as events behind the definitions."""
    return lambda path: _write(_recording(version=version) + _buffer(events) + _buffer(number=1), path)


def _behind(rest: Callable[[], bytes]) -> Break:
    """Return a function that writes a recording with any bytes behind the definitions."""
    return lambda path: _write(_recording() + rest(), path)


def _shot(*objects: dict[str, Any]) -> tuple[Values, ...]:
    """Return the events of a heap shot."""
    return (r.HeapStart, {}), *((r.HeapObject, _HEAP_OBJECT | fields) for fields in objects), (r.HeapEnd, {})


def _counter(**changes: Any) -> Values:
    """Return the event that describes a counter."""
    fields: dict[str, Any] = {
        "section": enums.CounterSection.RUNTIME, "name": "Counter", "type": enums.CounterType.LONG,
        "unit": enums.CounterUnit.RAW, "variance": enums.CounterVariance.VARIABLE, "index": 1,
    }  # fmt: skip
    return r.CounterDescriptions, {"counters": (r.CounterDescription(**fields | changes),)}


def _counted(type: int, index: int = 1, value: int | str = 5) -> Values:
    return r.CounterValues, {"values": (r.CounterValue(index=index, type=type, value=value),)}


def _image(action: int) -> Values:
    return r.Image, {"action": action, "pointer": _IMAGE, "name": "broken.exe", "mvid": "" if action == _LOAD else None}


def _covered(**changes: Any) -> Values:
    texts = dict.fromkeys(("assembly", "class_name", "name", "signature", "filename"), "broken")
    return r.CoverageMethod, {**texts, "token": 1, "method_id": 1, "statements": 1, **changes}


def _statement(method: int) -> Values:
    return r.CoverageStatement, {"method_id": method, "il_offset": 0, "counter": 1, "line": 1, "column": 1}


def _long_stacks() -> bytes:
    """Return a recording with a stack that has 2,000 times a method with a long name."""
    name = (r.JitMethod, {"method": _NEW_METHOD, "code": 0, "size": 0, "name": "x" * 60_000})
    sample = (r.SampleHit, {"interrupted": _THREAD, "addresses": (0x10,), "frames": (_NEW_METHOD,) * 2_000})
    return _recording((name, sample))


_TEXT_MODE = bytes.fromhex("21 05 0a")
_HYBRID_ROOTS = bytes.fromhex("36 00 01 01 08 10 80 01")
_DAMAGED = bytes([*BUFFER_MARK[:3], ord("?")])


def _texts() -> bytes:
    return (_recording() + _buffer(_TEXT_MODE) + _buffer(number=1)).replace(b"\n", b"\r\n")


_READERS: dict[str, Break] = {
    "source.empty": partial(_write, b""),
    "source.cut": _bytes(lambda: gzip.compress(_recording() + _buffer(_RESIZE * 300), mtime=0)[:-4]),
    "source.text-mode": _bytes(_texts),
    "header.bad": _bytes(lambda: encode_header(_header(_VERSION))[:30]),
    "header.damaged-id": _behind(lambda: _DAMAGED + _buffer()[len(_DAMAGED) :]),
    "header.unknown-version": _bytes(lambda: encode_header(_header(_VERSION, data_version=18)) + _buffer()),
    "header.pointer-size": _bytes(lambda: encode_header(_header(_VERSION, pointer_size=16)) + _buffer()),
    "header.hybrid-version": _bytes(lambda: _recording(version=HYBRID) + _buffer(_HYBRID_ROOTS)),
    "header.flags": _with(header=_header(_VERSION, flags=1)),
    "buffer.truncated": _behind(lambda: _buffer()[:-1]),
    "buffer.id": _behind(lambda: b"garbage" + _buffer()),
    "buffer.too-large": _behind(lambda: _buffer(size=1 << 28) + _buffer(number=1)),
    "buffer.overlap": _behind(lambda: _buffer(size=40) + _buffer(number=1) + _buffer(number=2)),
    "event.unknown": _raw(b"\x0b"),
    "event.cut": _raw(b"\x21\x00\x80"),
    "event.varint": _raw(b"\x21\x00" + b"\xff" * 10 + b"\x01"),
    "event.text-end": _raw(b"\x1a\x00abcdef"),
    "event.count": _raw(b"\x31\x00\xff\xff\xff\xff\x7f"),
    "event.unknown-form": _raw(b"\x47\x00\x01\x09\x00\x00"),
    "time.overflow": _behind(lambda: _buffer(b"\x21" + b"\x80" * 9 + b"\x01\x4d")),
    "stack.text": _bytes(_long_stacks),
}
"""The rules that readers notice."""

_FILE: dict[str, Break] = {
    "header.version-pair": _with(header=_header(_VERSION, major=2, startup_tick=None)),
    "buffer.order": _bytes(
        lambda: _recording(
            ((r.GcResize, {"size": 1}),), ((r.GcResize, {"size": 2}),), heads=({}, {"time": _LATER - _START // 2})
        )
    ),
    "buffer.thread-zero": _with((r.GcResize, {"size": 1}), heads=({"thread": 0},)),
    "buffer.wide-base": _with((r.GcResize, {"size": 1}), header=_header(_VERSION, 4), heads=({"pointer": 1 << 32},)),
    "text.not-utf8": _with((r.AotId, {"id": "caf\udce9"})),
    "text.empty-name": _with((r.JitMethod, {"method": _NEW_METHOD, "code": 0, "size": 0, "name": ""})),
    "value.sign-extended": _with((r.Allocation, {"object": _OBJECT, "size": (1 << 64) - (1 << 31), **_TYPED})),
    "time.backwards": _with((r.GcResize, {"size": 1}), (r.GcResize, {"size": 2, "time": _LATER})),
    "sync.earlier-event": _bytes(
        lambda: _recording(
            ((r.SyncPoint, {"sync_type": 0}),),
            ((r.GcResize, {"size": 1}),),
            heads=({}, {"thread": _OTHER_THREAD, "time": _LATER - _START // 2}),
        )
    ),
    "sync.unknown-type": _with((r.SyncPoint, {"sync_type": 3})),
}
"""The rules about headers, texts and times."""

_METADATA: dict[str, Break] = {
    "method.undefined": _with(*((r.Call, {"action": action, "method": _NOWHERE}) for action in (_ENTER, _LEAVE))),
    "method.late": _with(
        *((r.Call, {"action": action, "method": _NEW_METHOD}) for action in (_ENTER, _LEAVE)),
        (r.JitMethod, {"method": _NEW_METHOD, "code": 0, "size": 0, "name": "Broken:Late ()"}),
    ),
    "method.code-size": _with(
        (r.JitMethod, {"method": _NEW_METHOD, "code": 0x10, "size": 1_852_394_597, "name": "Broken:Freed ()"})
    ),
    "class.undefined": _with((r.VtableLoad, {"pointer": _NOWHERE, "domain": 1, "class_pointer": _NOWHERE})),
    "vtable.undefined": _with((r.Allocation, {"object": _OBJECT, "size": 24, "vtable": _NOWHERE})),
    "vtable.late": _with(
        (r.Allocation, {"object": _OBJECT, "size": 24, "vtable": _NOWHERE}),
        (r.VtableLoad, {"pointer": _NOWHERE, "domain": 1, "class_pointer": _CLASS}),
    ),
    "image.undefined": _with((r.ClassLoad, {"pointer": _NOWHERE, "image": _NOWHERE, "name": "Lost"})),
    "image.unload": _with(_image(_UNLOAD), (r.GcResize, {"size": 1})),
    "domain.undefined": _with((r.Context, {"action": _LOAD, "id": 1, "domain": 9})),
    "thread.undefined": _with((r.GcResize, {"size": 1}), heads=({"thread": _NOWHERE},)),
    "load.missing": _with((r.Assembly, {"action": _UNLOAD, "pointer": _NOWHERE, "image": _IMAGE, "name": "lost"})),
    "load.twice": _with(_image(_LOAD)),
}
"""The rules about definitions."""

_MEMORY: dict[str, Break] = {
    "allocation.null": _with((r.Allocation, {"object": 0, "size": 24, **_TYPED})),
    "allocation.size-zero": _with((r.Allocation, {"object": _OBJECT, "size": 0, **_TYPED})),
    "gc.unknown-step": _with((r.GcEvent, {"event": _GC.MARK_START, "generation": 0})),
    "gc.generation": _with(*((r.GcEvent, {"event": event, "generation": 3}) for event in (_GC.START, _GC.END))),
    "gc.odd-moves": _with((r.GcMove, {"objects": (_OBJECT,)})),
    "gc.start-twice": _with(
        *((r.GcEvent, {"event": event, "generation": 0}) for event in (_GC.START, _GC.START, _GC.END))
    ),
    "gc.end-without-start": _with((r.GcEvent, {"event": _GC.END, "generation": 0})),
    "gc.world-not-stopped": _with((r.GcEvent, {"event": _GC.POST_START_WORLD, "generation": 0})),
    "gc.step-order": _with(
        *(
            (r.GcEvent, {"event": event, "generation": 0})
            for event in (_GC.PRE_STOP_WORLD, _GC.PRE_START_WORLD, _GC.POST_STOP_WORLD, _GC.POST_START_WORLD)
        )
    ),
    "handle.unknown-type": _with(
        (r.HandleCreated, {"handle_type": 4, "handle": 1, "object": _OBJECT}), (r.GcResize, {"size": 1})
    ),
    "handle.not-created": _with((r.HandleDestroyed, {"handle_type": enums.HandleType.NORMAL, "handle": 1})),
    "finalizer.end-without-start": _with((r.FinalizeEnd, {})),
    "finalizer.object-end-without-start": _with((r.FinalizeObjectEnd, {"object": _OBJECT})),
    "heap.end-without-start": _with((r.HeapEnd, {})),
    "heap.nested": _with((r.HeapStart, {}), *_shot({})),
    "heap.outside": _with((r.HeapObject, _HEAP_OBJECT)),
    "heap.other-thread": _bytes(
        lambda: _recording(
            ((r.HeapStart, {}),),
            ((r.HeapObject, _HEAP_OBJECT),),
            ((r.HeapEnd, {}),),
            heads=({}, {"thread": _OTHER_THREAD}, {}),
        )
    ),
    "heap.missing-object": _with(*_shot({"references": (r.Reference(field_offset=16, object=_OTHER_OBJECT),)})),
    "heap.no-size": _with(*_shot({"size": 0})),
    "heap.second-size": _with(*_shot({}, {})),
    "root.unknown-source": _with(
        (r.RootRegister, {"address": _NOWHERE, "size": 8, "source": 17, "key": 0, "name": "root"})
    ),
    "root.unregistered": _with((r.RootUnregister, {"address": _NOWHERE})),
}
"""The rules about objects, collections and heap shots."""

_EXECUTION: dict[str, Break] = {
    "call.leave-without-enter": _with((r.Call, {"action": _LEAVE, "method": _METHOD})),
    "call.not-left": _with(
        *(
            (r.Call, {"action": action, "method": method})
            for action, method in ((_ENTER, _METHOD), (_ENTER, _OTHER_METHOD), (_LEAVE, _METHOD))
        )
    ),
    "exception.null": _with((r.Throw, {"object": 0})),
    "exception.clause-null": _with(
        (r.Clause, {"kind": enums.ClauseKind.CATCH, "index": 0, "method": _METHOD, "object": 0})
    ),
    "exception.unknown-clause": _with((r.Clause, {"kind": 3, "index": 0, "method": _METHOD, "object": _OBJECT})),
    "monitor.unknown-event": _with((r.Monitor, {"event": 4, "object": _OBJECT})),
    "monitor.no-contention": _with((r.Monitor, {"event": _MONITOR.ACQUIRED, "object": _OBJECT})),
    "code.unknown-type": _with((r.JitHelper, {"buffer_type": 10, "address": 0x10, "size": 8})),
}
"""The rules about calls, exceptions, monitors and native code."""

_MEASUREMENTS: dict[str, Break] = {
    "sample.no-address": _with((r.SampleHit, {"interrupted": _THREAD, "addresses": (), "frames": ()})),
    "sample.thread": _with((r.SampleHit, {"interrupted": _NOWHERE, "addresses": (0x10,), "frames": ()})),
    "sample.unknown-type": _with(
        (r.SampleHit, {"sample_type": 9, "interrupted": _THREAD, "addresses": (0x10,), "frames": ()}), version=13
    ),
    "counter.index-zero": _with(_counter(index=0)),
    "counter.index-twice": _with(_counter(), _counter()),
    "counter.undescribed": _with(_counted(enums.CounterType.LONG, 5)),
    "counter.other-type": _with(_counter(), _counted(enums.CounterType.INT)),
    "counter.unknown-type": _with(_counter(type=9)),
    "counter.unknown-attribute": _with(_counter(unit=1)),
    "counter.text": _with(_counter(type=enums.CounterType.STRING), _counted(enums.CounterType.STRING, value="text")),
    "counter.performance": _with(
        _counter(section=enums.CounterSection.PERFCOUNTERS, category="Broken"), *(_counted(enums.CounterType.LONG),) * 2
    ),
    "coverage.undefined": _with(_statement(7), version=15),
    "coverage.statement-count": _with(_covered(statements=2), _statement(1), version=15),
    "coverage.too-many": _with(
        (r.CoverageClass, {"assembly": "a", "name": "A", "methods": 1, "fully_covered": 2, "partially_covered": 0}),
        version=15,
    ),
}
"""The rules about samples, counters and coverage."""

BREAKS: dict[str, Break] = {
    f"mono.{name}": write
    for group in (_READERS, _FILE, _METADATA, _MEMORY, _EXECUTION, _MEASUREMENTS)
    for name, write in group.items()
}
"""For each rule a function that writes a recording which breaks it.

:meta hide-value:
"""
