"""Every event that a data version has, with values such as a program gives them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fxtio.codec.stream.codec import encode_record
from fxtio.codec.stream.declare import Dialect, layout_of
from fxtio.mono import records as r
from fxtio.mono.buffers import state_of
from fxtio.mono.enums import CounterSection, CounterType, GcEventType, RootSource
from fxtio.mono.headers import BufferHeader
from fxtio.mono.layout import CounterDescription, CounterValue, Reference, Root, SampledFrame

IMAGE, ASSEMBLY, CLASS, VTABLE = 0x6200, 0x6300, 0x6100, 0x6400
MAIN, WORK = 0x9000, 0x9100
OBJECTS = (0x7000_0000, 0x7000_0018, 0x7000_0030)


def every_event(version: int) -> list[r.Event]:
    """Return the events, with times that rise by 10 where the version has one."""
    time, events = 1000, []
    for cls, values in _values(version):
        layout = layout_of(cls, version)
        if layout is None:
            continue
        time += 0 if "time" in layout.absent else 10
        event = cls(time=time, **{name: value for name, value in values.items() if name not in layout.absent})
        events.append(event)
    return events


def _values(v: int) -> Iterator[tuple[type[r.Event], dict[str, Any]]]:
    old = {"flags": 0}
    yield (
        r.Image,
        {"action": 2, "pointer": IMAGE, "name": "/tmp/a.exe", "mvid": "11111111-2222-3333-4444-555555555555"} | old,
    )
    yield r.Assembly, {"action": 2, "pointer": ASSEMBLY, "image": IMAGE, "name": "a, Version=1.0"} | old
    yield r.ClassLoad, {"pointer": CLASS, "image": IMAGE, "name": "My.Cläss"} | old
    yield r.VtableLoad, {"pointer": VTABLE, "domain": 1, "class_pointer": CLASS}
    yield r.Domain, {"action": 2, "id": 1} | old
    yield r.Thread, {"action": 2, "id": 0x1111} | old
    yield r.Thread, {"action": 0, "id": 0x1111, "name": "main"} | old
    if v >= 11:
        yield r.Domain, {"action": 0, "id": 1, "name": "dom"} | old
        yield r.Context, {"action": 2, "id": 3, "domain": 1} | old
        yield r.Context, {"action": 4, "id": 3, "domain": 1} | old
    for method, name in ((MAIN, "My:Main ()"), (WORK, "My:Work (int)")):
        yield r.JitMethod, {"method": method, "code": method * 16, "size": 64, "name": name}
    for action, method in ((2, MAIN), (2, WORK), (3, WORK), (1, MAIN)):
        yield r.Call, {"action": action, "method": method}
    yield from _memory(v)
    yield from _heap_shot(v)
    yield from _measured(v)
    yield r.Thread, {"action": 4, "id": 0x1111} | old


def _memory(v: int) -> Iterator[tuple[type[r.Event], dict[str, Any]]]:
    bt = {"backtrace": (MAIN, WORK), "backtrace_flags": 0 if v < 13 else None}
    typed = {"class_pointer": CLASS, "vtable": VTABLE}
    yield r.Allocation, {"object": OBJECTS[0], "size": 24} | typed
    yield r.Allocation, {"object": OBJECTS[1], "size": 32} | typed | bt
    for step in (GcEventType.PRE_STOP_WORLD, GcEventType.POST_STOP_WORLD, GcEventType.START, GcEventType.END):
        yield r.GcEvent, {"event": step, "generation": 1}
    yield r.GcResize, {"size": 1 << 20}
    yield r.GcMove, {"objects": (OBJECTS[0], OBJECTS[0] + 0x320)}
    yield r.HandleCreated, {"handle_type": 2, "handle": 5, "object": OBJECTS[0]}
    yield r.HandleDestroyed, {"handle_type": 2, "handle": 5}
    if v >= 11:
        yield r.HandleCreated, {"handle_type": 3, "handle": 6, "object": OBJECTS[0]} | bt
        yield r.HandleDestroyed, {"handle_type": 3, "handle": 6} | bt
    yield r.FinalizeStart, {}
    yield r.FinalizeObjectStart, {"object": OBJECTS[0]}
    yield r.FinalizeObjectEnd, {"object": OBJECTS[0]}
    yield r.FinalizeEnd, {}
    yield r.Throw, {"object": OBJECTS[0]}
    yield r.Throw, {"object": OBJECTS[0]} | bt
    yield r.Clause, {"kind": 2, "index": 0, "method": WORK, "object": OBJECTS[0]}
    yield r.Monitor, {"event": 1, "object": OBJECTS[0]} | bt
    yield r.Monitor, {"event": 2, "object": OBJECTS[0]}


def _heap_shot(v: int) -> Iterator[tuple[type[r.Event], dict[str, Any]]]:
    typed = {"class_pointer": CLASS, "vtable": VTABLE}
    yield (
        r.RootRegister,
        {"address": 0x4000, "size": 8, "source": RootSource.STATIC, "key": VTABLE, "name": "Static Fields"},
    )
    yield r.HeapStart, {}
    yield r.HeapRoots, {"collections": 7, "roots": (_root(v),)}
    offset = 8 if v >= 2 else None
    refers = (Reference(field_offset=offset, object=OBJECTS[1]),)
    yield r.HeapObject, {"object": OBJECTS[0], "size": 24, "generation": 1, "references": refers} | typed
    yield r.HeapObject, {"object": OBJECTS[1], "size": 32, "generation": 1, "references": ()} | typed
    yield r.HeapEnd, {}
    yield r.RootUnregister, {"address": 0x4000}


def _measured(v: int) -> Iterator[tuple[type[r.Event], dict[str, Any]]]:
    located = (SampledFrame(method=WORK, il_offset=3, native_offset=-1),)
    sampled = {"sample_type": 1, "sample_time": 1234, "interrupted": 0x1111, "addresses": (0x90003,)}
    yield r.SampleHit, {**sampled, "located_frames": located, "frames": (WORK, MAIN)}
    yield r.NativeSymbol, {"address": 0x8000, "size": 0, "name": "sym_a"}
    yield r.NativeBinary, {"address": 0x400000, "file_offset": 0, "size": 4096, "name": "/bin/x"}
    yield r.CounterDescriptions, {"counters": (_counter(1, "User Time"), _counter(2, "Pc", "Category"))}
    values = tuple(CounterValue(index=number, type=CounterType.LONG, value=-7) for number in (1, 2))
    yield r.CounterValues, {"milliseconds": 5, "values": values}
    shift = v < 14
    yield r.JitHelper, {"buffer_type": 6 + shift, "address": 0xA000, "size": 40}
    yield r.JitHelper, {"buffer_type": 5 + shift, "address": 0xB000, "size": 50, "name": "jit_tramp"}
    yield r.CoverageAssembly, {
        "name": "a", "guid": "g", "filename": "/a.exe", "methods": 2, "fully_covered": 1, "partially_covered": 0,
    }  # fmt: skip
    yield r.CoverageMethod, {
        "assembly": "a", "class_name": "My", "name": "Work", "signature": "(int)", "filename": "a.cs", "token": 7,
        "method_id": 1, "statements": 1,
    }  # fmt: skip
    yield r.CoverageStatement, {"method_id": 1, "il_offset": 0, "counter": 2, "line": 10, "column": 5}
    yield r.CoverageClass, {"assembly": "a", "name": "My", "methods": 2, "fully_covered": 1, "partially_covered": 0}
    yield r.SyncPoint, {"sync_type": 0}
    yield r.AotId, {"id": "11111111-2222-3333-4444-555555555555"}


def _root(v: int) -> Root:
    if v >= 15:
        return Root(address=0x4000, object=OBJECTS[0])
    return Root(object=OBJECTS[0], root_type=4, extra_info=9)


def _counter(index: int, name: str, category: str | None = None) -> CounterDescription:
    section = CounterSection.PERFCOUNTERS if category else CounterSection.SYSTEM
    return CounterDescription(
        section=section, category=category, name=name, type=CounterType.LONG, unit=0, variance=0, index=index
    )


def encode_events(dialect: Dialect, header: BufferHeader, events: list[Any]) -> bytes:
    """Return the bytes of the events of a buffer.

    Raises:
        EncodeError: the data version does not have one of them, or a value does not fit.
    """
    state = state_of(header, dialect)
    return b"".join(encode_record(dialect, event, state) for event in events)
