"""The synthetic shape `everything`: all events of all data versions, with every option and both sizes of pointers.

A round is one recording for each data version, behind each other.  Each has all events of its version, with every value
of their enumerations, with and without lists, and with values that are rare: empty texts, null objects, times that go
back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np

from fxtio.codec.stream.declare import Byte, Clock, Dialect, Item, layout_of, parts_of
from fxtio.mono import enums
from fxtio.mono import records as r
from fxtio.mono.headers import StreamHeader
from fxtio.mono.writer import header_for

VERSIONS = ((17, 8), (17, 4), *((version, 4 if version % 2 else 8) for version in reversed(r.VERSIONS[:-1])))
"""The data versions and pointer sizes of the recordings of a round."""

_STARTUP = 1_500_000_000_000
_NEXT = 0x40
_STATIC_ROOT = 0x2000
_OLD_GC_EVENTS = frozenset(
    {
        enums.GcEventType.MARK_START,
        enums.GcEventType.MARK_END,
        enums.GcEventType.RECLAIM_START,
        enums.GcEventType.RECLAIM_END,
    }
)
_NEW_GC_EVENTS = frozenset({enums.GcEventType.PRE_STOP_WORLD_LOCKED, enums.GcEventType.POST_START_WORLD_UNLOCKED})
_GC_ORDER = (6, 10, 7, 0, 1, 2, 3, 4, 5, 8, 9, 11)
"""The steps of a collection in the order in which they occur."""

Draw = np.random.Generator
Values = tuple[type[r.Event], dict[str, Any]]


def header_of(version: int, pointer_size: int, tick: int, draw: Draw) -> StreamHeader:
    """Return the header of a recording that begins at a time in nanoseconds."""
    header = header_for(version, pointer_size)
    changes = {"startup_tick": tick} if header.startup_tick is not None else {}
    pid, port = int(draw.integers(1, 1 << 22)), int(draw.integers(1 << 16))
    return msgspec.structs.replace(
        header, startup_time=_STARTUP + tick // 1_000_000, timer_overhead=20, pid=pid, port=port, **changes
    )


class Everything:
    """Makes the events of one recording.

    Args:
        dialect: its events.
        tick: its beginning in nanoseconds.
        threads: the threads that write events.
        draw: makes the random numbers.

    Attributes:
        now: the time of the last event.
    """

    def __init__(self, dialect: Dialect, tick: int, threads: list[int], draw: Draw) -> None:
        self.dialect, self.now, self.threads, self.draw = dialect, tick, threads, draw
        high = 0x7F00_0000_0000 if dialect.width == 64 else 0x6000_0000
        base = high + 0x1_0000 * int(draw.integers(1 << 10))
        self.image, self.assembly, self.cls, self.vtable = (base + _NEXT * place for place in range(4))
        self.methods = tuple(base + 0x1000 + _NEXT * place for place in range(3))
        self.objects = tuple(base + 0x2000 + _NEXT * place for place in range(4))
        self.code = base + 0x4000
        self._untimed = dict.fromkeys(threads, tick)

    def definitions(self) -> Iterator[tuple[int, r.Event]]:
        """Yield threads and the events that they write before all others."""
        yield from self._group(self._metadata, self.threads[0])

    def events(self) -> Iterator[tuple[int, r.Event]]:
        """Yield threads and all other events that they write."""
        groups = (
            self._calls, self._memory, self._collection, self._handles, self._exceptions, self._heap_shot,
            self._samples, self._counters, self._native, self._coverage, self._ends,
        )  # fmt: skip
        for number, group in enumerate(groups):
            yield from self._group(group, self.threads[number % len(self.threads)])

    def _group(self, group: Callable[[int], Iterator[Values]], thread: int) -> Iterator[tuple[int, r.Event]]:
        for cls, values in group(thread):
            if layout_of(cls, self.dialect.version) is not None:
                yield thread, self._event(cls, thread, values)

    def _event(self, cls: type[r.Event], thread: int, values: dict[str, Any]) -> r.Event:
        """Return an event without the fields that the version does not have."""
        layout = layout_of(cls, self.dialect.version)
        assert layout is not None
        untimed = any(isinstance(part, Clock) for name in layout.absent for part in parts_of(cls)[name])
        if not untimed:
            self.now += int(self.draw.integers(20, 5000))
            self._untimed[thread] = values.pop("time", self.now)
        time = self._untimed[thread]
        return cls(time=time, **{name: value for name, value in values.items() if name not in layout.absent})

    def _has(self, cls: type[Item], field: str) -> bool:
        return self.dialect.part(cls, field) is not None

    def _item(self, cls: type[Item], **values: Any) -> Any:
        """Return the item of a list without the fields that the version does not have."""
        return cls(**{name: value for name, value in values.items() if self._has(cls, name)})

    def _typed(self) -> dict[str, Any]:
        return {"class_pointer": self.cls, "vtable": self.vtable}

    def _backtraces(self, cls: type[r.Event]) -> Iterator[dict[str, Any]]:
        """Yield the fields of an event without a backtrace, with one, and with an empty one."""
        yield {}
        if self._has(cls, "backtrace"):
            flags = {"backtrace_flags": 0} if self._has(cls, "backtrace_flags") else {}
            yield {"backtrace": self.methods, **flags}
            yield {"backtrace": (), **flags}

    def _metadata(self, thread: int) -> Iterator[Values]:
        load, unload = enums.LoadAction.LOAD, enums.LoadAction.UNLOAD
        old = {"flags": 0}
        image = {"pointer": self.image, "name": "/tmp/everything.exe"} | old
        assembly = {"pointer": self.assembly, "image": self.image, "name": "everything, Version=1.0.0.0"} | old
        for number in self.threads:
            yield r.Thread, {"action": enums.NameAction.LOAD, "id": number} | old
        yield r.Thread, {"action": enums.NameAction.NAME, "id": thread, "name": "Main"} | old
        yield r.Domain, {"action": enums.NameAction.LOAD, "id": 1} | old
        yield r.Domain, {"action": enums.NameAction.NAME, "id": 1, "name": "everything.exe"} | old
        yield r.Context, {"action": load, "id": 1, "domain": 1} | old
        mvid = "" if self.draw.integers(2) else "11111111-2222-3333-4444-555555555555"
        yield r.Image, {"action": load, **image, "mvid": mvid}
        yield r.Assembly, {"action": load, **assembly}
        yield r.ClassLoad, {"pointer": self.cls, "image": self.image, "name": "Every.Thíng<int>"} | old
        yield r.VtableLoad, {"pointer": self.vtable, "domain": 1, "class_pointer": self.cls}
        for place, (method, name) in enumerate(zip(self.methods, ("Main (string[])", "Work (int)", ""), strict=True)):
            code = {"code": self.code + 0x100 * place, "size": 64} if place else {"code": 0, "size": 0}
            back = {"time": self.now - 10} if place == 1 else {}
            yield r.JitMethod, {"method": method, "name": name and f"Every.Thing:{name}", **code, **back}
        yield r.AotId, {"id": "66666666-7777-8888-9999-000000000000"}
        yield r.Context, {"action": unload, "id": 1, "domain": 1} | old
        yield r.Assembly, {"action": unload, **assembly}
        yield r.Image, {"action": unload, **image}

    def _calls(self, thread: int) -> Iterator[Values]:
        enter, leave, thrown = (enums.MethodAction[name] for name in ("ENTER", "LEAVE", "EXCEPTIONAL_LEAVE"))
        for action, place in ((enter, 0), (enter, 1), (leave, 1), (enter, 1), (enter, 2), (thrown, 2), (thrown, 1)):
            yield r.Call, {"action": action, "method": self.methods[place]}
        yield r.Call, {"action": leave, "method": self.methods[0]}

    def _memory(self, thread: int) -> Iterator[Values]:
        for place, backtrace in enumerate(self._backtraces(r.Allocation)):
            size = 8 * 2 ** int(self.draw.integers(1, 8))
            yield r.Allocation, {"object": self.objects[place], "size": size, **self._typed(), **backtrace}
        attempt, *outcomes = enums.MonitorEvent
        for backtrace in self._backtraces(r.Monitor):
            for outcome in outcomes:
                for event in (attempt, outcome):
                    yield r.Monitor, {"event": event, "object": self.objects[0], **backtrace}

    def _collection(self, thread: int) -> Iterator[Values]:
        left_out = _NEW_GC_EVENTS if self.dialect.version < 13 else _OLD_GC_EVENTS if self.dialect.version > 13 else ()
        generation = int(self.draw.integers(2))
        for step in map(enums.GcEventType, _GC_ORDER):
            if step in left_out:
                continue
            yield r.GcEvent, {"event": step, "generation": generation}
            if step == enums.GcEventType.START:
                yield r.GcMove, {"objects": (self.objects[2], self.objects[3])}
                yield r.GcMove, {"objects": ()}
            elif step == enums.GcEventType.POST_STOP_WORLD:
                yield r.SyncPoint, {"sync_type": enums.SyncPointType.WORLD_STOP}
            elif step == enums.GcEventType.PRE_START_WORLD:
                yield r.SyncPoint, {"sync_type": enums.SyncPointType.WORLD_START}
        yield r.GcResize, {"size": int(self.draw.integers(1 << 20, 1 << 33))}
        yield r.FinalizeStart, {}
        yield r.FinalizeObjectStart, {"object": self.objects[0]}
        yield r.FinalizeObjectEnd, {"object": self.objects[0]}
        yield r.FinalizeEnd, {}
        yield r.SyncPoint, {"sync_type": enums.SyncPointType.PERIODIC}

    def _handles(self, thread: int) -> Iterator[Values]:
        for kind in enums.HandleType:
            for place, backtrace in enumerate(self._backtraces(r.HandleCreated)):
                handle = {"handle_type": kind, "handle": 8 * kind + place, **backtrace}
                yield r.HandleCreated, {"object": self.objects[place], **handle}
                yield r.HandleDestroyed, handle

    def _exceptions(self, thread: int) -> Iterator[Values]:
        for backtrace in self._backtraces(r.Throw):
            yield r.Throw, {"object": self.objects[0], **backtrace}
        for index, kind in enumerate(enums.ClauseKind):
            exception = 0 if kind == enums.ClauseKind.FINALLY else self.objects[0]
            yield r.Clause, {"kind": kind, "index": index, "method": self.methods[1], "object": exception}

    def _heap_shot(self, thread: int) -> Iterator[Values]:
        for place, source in enumerate(enums.RootSource):
            address = _STATIC_ROOT + 16 * place
            name = "" if place else "Static Fields"
            yield r.RootRegister, {"address": address, "size": 8, "source": source, "key": place, "name": name}
        yield r.HeapStart, {}
        kinds = range(5) if self.dialect.version < 14 else (1, 2, 4, 8, 16)
        roots = [{"root_type": kind, "extra_info": 9} for kind in kinds]
        places = [_STATIC_ROOT + 16 * place for place in range(len(roots))]
        items = [
            self._item(r.Root, address=address, object=self.objects[0], **root)
            for address, root in zip(places, roots, strict=True)
        ]
        yield r.HeapRoots, {"collections": 7, "roots": tuple(items)}
        refers = tuple(
            self._item(r.Reference, field_offset=16 + 8 * place, object=target)
            for place, target in enumerate(self.objects[1:])
        )
        first = {"object": self.objects[0], "generation": 1, **self._typed()}
        yield r.HeapObject, {**first, "size": 48, "references": refers}
        yield r.HeapObject, {**first, "size": 0, "references": refers[:1]}  # further references of the same object
        for place in self.objects[1:]:
            leaf = {"object": place, "size": 24, "generation": 0, "references": (), **self._typed()}
            yield r.HeapObject, leaf
        yield r.HeapEnd, {}
        yield r.RootUnregister, {"address": _STATIC_ROOT}

    def _samples(self, thread: int) -> Iterator[Values]:
        located = tuple(
            r.SampledFrame(method=method, il_offset=3 * place, native_offset=-place)
            for place, method in enumerate(self.methods)
        )
        has_types = self._has(r.SampleHit, "sample_type")
        for kind in enums.SampleType if has_types else (enums.SampleType.CYCLES,):
            yield r.SampleHit, {
                "sample_type": kind, "sample_time": self.now, "interrupted": thread,
                "addresses": (self.code + 3, self.code + 0x103)[: kind], "located_frames": located,
                "frames": self.methods[::-1],
            }  # fmt: skip

    def _counters(self, thread: int) -> Iterator[Values]:
        small = isinstance(self.dialect.part(r.CounterDescription, "unit"), Byte)  # no unit fits in a byte
        sections, units, variances = (
            list(each) for each in (enums.CounterSection, enums.CounterUnit, enums.CounterVariance)
        )
        described = []
        for index, section in enumerate(sections, 1):
            of_user = section == enums.CounterSection.PERFCOUNTERS
            described.append(
                r.CounterDescription(
                    section=section, category="Every" if of_user else None, name=f"Counter {index}",
                    type=enums.CounterType(index % len(enums.CounterType)), index=index,
                    unit=0 if small else units[index % len(units)],
                    variance=0 if small else variances[index % len(variances)],
                )
            )  # fmt: skip
        yield r.CounterDescriptions, {"counters": tuple(described)}
        for sign in (1, -1):
            values = tuple(r.CounterValue(index=c.index, type=c.type, value=_counted(c.type, sign)) for c in described)
            yield r.CounterValues, {"milliseconds": self.now // 1_000_000, "values": values}

    def _native(self, thread: int) -> Iterator[Values]:
        yield r.NativeSymbol, {"address": self.code, "size": 0, "name": "native_work"}
        yield r.NativeBinary, {"address": self.code, "file_offset": 4096, "size": 8192, "name": "/usr/bin/mono"}
        shift = self.dialect.version < 14
        for kind in enums.CodeBuffer:
            name = {"name": "jit_trampoline"} if kind == enums.CodeBuffer.SPECIFIC_TRAMPOLINE else {}
            yield r.JitHelper, {"buffer_type": kind + shift, "address": self.code + 0x10 * kind, "size": 16, **name}

    def _coverage(self, thread: int) -> Iterator[Values]:
        counts = {"methods": 2, "fully_covered": 1, "partially_covered": 0}
        yield r.CoverageAssembly, {"name": "everything", "guid": "guid", "filename": "/tmp/everything.exe", **counts}
        yield r.CoverageClass, {"assembly": "everything", "name": "Every.Thing", **counts}
        yield r.CoverageMethod, {
            "assembly": "everything", "class_name": "Every.Thing", "name": "Work", "signature": "(int)",
            "filename": "everything.cs", "token": 0x600_0001, "method_id": 1, "statements": 2,
        }  # fmt: skip
        for offset in (0, 7):
            yield r.CoverageStatement, {"method_id": 1, "il_offset": offset, "counter": 3, "line": 10, "column": 5}

    def _ends(self, thread: int) -> Iterator[Values]:
        old = {"flags": 0}
        yield r.Domain, {"action": enums.NameAction.UNLOAD, "id": 1} | old
        yield r.Thread, {"action": enums.NameAction.UNLOAD, "id": thread} | old


def _counted(kind: int, sign: int) -> int | float | str | None:
    """Return a value of a counter: the change of a whole number, or something else as it is."""
    if kind == enums.CounterType.DOUBLE:
        return 2.5 * sign
    if kind == enums.CounterType.STRING:
        return "text" if sign > 0 else None
    return 300 if sign > 0 or kind in enums.UNSIGNED_COUNTERS else -100
