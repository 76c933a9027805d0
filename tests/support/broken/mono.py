"""Recordings that break one rule each: one about a limit, and those that lead mprof-report astray.

Each begins with the definitions of a small sound recording.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from fxtio.codec.stream.declare import Dialect, layout_of
from fxtio.mono import enums
from fxtio.mono import records as r
from fxtio.mono.headers import BufferHeader, StreamHeader
from fxtio.mono.layout import HYBRID, OBJECT_SHIFT, CounterDescription, CounterValue
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
_LOAD, _UNLOAD, _NAME = enums.LoadAction.LOAD, enums.LoadAction.UNLOAD, enums.NameAction.NAME
_ENTER, _LEAVE = enums.MethodAction.ENTER, enums.MethodAction.LEAVE
_GC, _MONITOR = enums.GcEventType, enums.MonitorEvent

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
    """Yield events one after the other in time, without the fields that the version does not have."""
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
        buffers: the events of each buffer after the definitions.
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
    """Return a function that writes a recording with these events after the definitions."""
    return lambda path: _write(_recording(values, **options), path)


def _bytes(make: Callable[[], bytes]) -> Break:
    return lambda path: _write(make(), path)


def _counter(**changes: Any) -> Values:
    """Return the event that describes a counter."""
    fields: dict[str, Any] = {
        "section": enums.CounterSection.RUNTIME, "name": "Counter", "type": enums.CounterType.LONG,
        "unit": enums.CounterUnit.RAW, "variance": enums.CounterVariance.VARIABLE, "index": 1,
    }  # fmt: skip
    return r.CounterDescriptions, {"counters": (CounterDescription(**fields | changes),)}


def _counted(type: int, index: int = 1, value: int | str = 5) -> Values:
    return r.CounterValues, {"values": (CounterValue(index=index, type=type, value=value),)}


def _image(action: int) -> Values:
    return r.Image, {"action": action, "pointer": _IMAGE, "name": "broken.exe", "mvid": "" if action == _LOAD else None}


def _long_stacks() -> bytes:
    """Return a recording with a stack that has 2,000 times a method with a long name."""
    name = (r.JitMethod, {"method": _NEW_METHOD, "code": 0, "size": 0, "name": "x" * 60_000})
    sample = (r.SampleHit, {"interrupted": _THREAD, "addresses": (0x10,), "frames": (_NEW_METHOD,) * 2_000})
    return _recording((name, sample))


_TABLE: dict[str, Break] = {
    "stack.text": _bytes(_long_stacks),
    "buffer.thread-zero": _with((r.GcResize, {"size": 1}), heads=({"thread": 0},)),
    "sync.unknown-type": _with((r.SyncPoint, {"sync_type": 3})),
    "method.code-size": _with(
        (r.JitMethod, {"method": _NEW_METHOD, "code": 0x10, "size": 1_852_394_597, "name": "Broken:Freed ()"})
    ),
    "image.unload": _with(_image(_UNLOAD), (r.GcResize, {"size": 1})),
    "handle.unknown-type": _with(
        (r.HandleCreated, {"handle_type": 4, "handle": 1, "object": _OBJECT}), (r.GcResize, {"size": 1})
    ),
    "counter.performance": _with(
        _counter(section=enums.CounterSection.PERFCOUNTERS, category="Broken"), *(_counted(enums.CounterType.LONG),) * 2
    ),
}

BREAKS: dict[str, Break] = {f"mono.{name}": write for name, write in _TABLE.items()}
"""The functions that write a recording that breaks a rule, by the id of the rule."""
