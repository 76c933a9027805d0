"""Mono: all events of all data versions, with every option and both sizes of pointers, as the shape `everything`.

A round is one recording for each data version, one after the other.  Each has all events of its version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import cycle
from typing import Any

import msgspec
import numpy as np

from fxtio.codec.stream.declare import (
    Byte,
    Clock,
    Dialect,
    FirstByteField,
    Item,
    Repeated,
    StreamPart,
    Text,
    enumeration_of,
    layout_of,
    parts_of,
)
from fxtio.mono import enums
from fxtio.mono import records as r
from fxtio.mono.headers import StreamHeader
from fxtio.mono.layout import CounterDescription, CounterValue, Reference, Root
from fxtio.mono.writer import MonoWriter, header_for
from fxtio.synth.columns import Amount, Draw, Known, Maker, variants

VERSIONS = ((17, 8), (17, 4), *((version, 4 if version % 2 else 8) for version in reversed(r.VERSIONS[:-1])))
"""The data versions and pointer sizes of the recordings of a round."""

_FIRST_TICK, _PAUSE, _STARTUP = 1_000_000, 1_000_000_000, 1_500_000_000_000
_FIRST_THREAD = 0x1000

_Step = tuple[type[r.Event], dict[str, list[Any]]]
"""A class of events, and values of fields in place of those that its parts can have."""

_GUID = "0f3c2a51-8d47-4e6b-9b1a-5c7d2e8f4a60"
"""The value of ids of modules and the like, of which Mono's own library refuses all that have another form."""

_LOAD, _UNLOAD = enums.LoadAction.LOAD, enums.LoadAction.UNLOAD
_NAMED, _BEGUN, _ENDED = enums.NameAction.NAME, enums.NameAction.LOAD, enums.NameAction.UNLOAD
_ENTER, _LEAVE, _THROWN = (enums.MethodAction[name] for name in ("ENTER", "LEAVE", "EXCEPTIONAL_LEAVE"))

_DEFINITIONS: tuple[_Step, ...] = (
    (r.Domain, {"action": [_BEGUN, _NAMED]}),
    (r.Context, {"action": [_LOAD]}),
    (r.Image, {"action": [_LOAD]}),
    (r.Assembly, {"action": [_LOAD]}),
    (r.ClassLoad, {}),
    (r.VtableLoad, {}),
    (r.JitMethod, {}),
)
"""What other events refer to."""

_ENDS: tuple[_Step, ...] = (
    (r.Context, {"action": [_UNLOAD]}),
    (r.Assembly, {"action": [_UNLOAD]}),
    (r.Image, {"action": [_UNLOAD]}),
    (r.Domain, {"action": [_ENDED]}),
)

_TOGETHER = (
    (r.FinalizeStart, r.FinalizeObjectStart, r.FinalizeObjectEnd, r.FinalizeEnd),
    (r.HandleCreated, r.HandleDestroyed),
    (r.RootRegister, r.HeapStart, r.HeapRoots, r.HeapObject, r.HeapEnd, r.RootUnregister),
    (r.CounterDescriptions, r.CounterValues),
)
"""Classes whose events belong together, in their order."""

_APART = {r.Thread, *(cls for cls, _ in _DEFINITIONS), *(cls for group in _TOGETHER for cls in group)}
_GROUPS = (*_TOGETHER, *((cls,) for cls in r.EVENTS if cls not in _APART))

_OLD_STEPS = {"MARK_START", "MARK_END", "RECLAIM_START", "RECLAIM_END"}
_NEW_STEPS = {"PRE_STOP_WORLD_LOCKED", "POST_START_WORLD_UNLOCKED"}
_GC_ORDER = [*map(enums.GcEventType, (6, 10, 7, 0, 1, 2, 3, 4, 5, 8, 9, 11))]
"""The steps of a collection in the order in which they occur; some occur in older or newer versions only."""


def everything(target: Any, amount: Amount, options: dict[str, Any]) -> tuple[int, int]:
    """Write whole rounds until there are enough events; the last one may have some of its recordings only."""
    draw, tick, written = Draw(np.random.PCG64(amount.seed)), _FIRST_TICK, 0
    with MonoWriter(target, **options) as writer:
        for number, (version, pointer_size) in enumerate(cycle(VERSIONS)):
            if number >= len(VERSIONS) and amount.left(written, writer.position) <= 0:
                break
            writer.put(_header(version, pointer_size, tick, draw))
            written += number > 0  # the headers of all but the first recording are among the records
            recording = _Recording(r.dialect_of(version, pointer_size), tick, amount.threads, draw)
            for events in (recording.definitions(), recording.events()):
                for thread, event in events:
                    writer.put(event, thread=thread)
                    written += 1
                writer.flush()
            tick = recording.now + _PAUSE
    return written, writer.position


def _header(version: int, pointer_size: int, tick: int, draw: Draw) -> StreamHeader:
    """Return the header of a recording that begins at a time in nanoseconds."""
    header = header_for(version, pointer_size)
    changes = {"startup_tick": tick} if header.startup_tick is not None else {}
    pid, port = (int(draw.below(1 << 16, 1)[0]) for _ in range(2))
    return msgspec.structs.replace(
        header, startup_time=_STARTUP + tick // 1_000_000, timer_overhead=20, pid=1 + pid, port=port, **changes
    )


class _Recording(Maker):
    """Makes the events of one recording.

    Args:
        dialect: its events.
        tick: its start in nanoseconds.
        threads: the number of threads.
        draw: the random numbers.
    """

    STEPS = range(20, 5_020)

    def __init__(self, dialect: Dialect, tick: int, threads: int, draw: Draw) -> None:
        super().__init__(tick, draw)
        self.dialect = dialect
        self.threads = [_FIRST_THREAD + number for number in range(threads)]
        self._untimed = dict.fromkeys(self.threads, tick)
        self.known = self._known_values()

    def definitions(self) -> Iterator[tuple[int, r.Event]]:
        """Yield threads and the events that they write before all others."""
        first = self.threads[0]
        for thread in self.threads:
            yield from self._events(thread, r.Thread, {"action": [_BEGUN, _NAMED], "id": [thread]})
        for cls, values in _DEFINITIONS:
            yield from self._events(first, cls, values)

    def events(self) -> Iterator[tuple[int, r.Event]]:
        """Yield threads and all other events that they write."""
        for thread, group in zip(cycle(self.threads), _GROUPS, strict=False):
            for cls in group:
                yield from self._events(thread, cls, {})
        for cls, values in _ENDS:
            yield from self._events(self.threads[0], cls, values)
        for thread in self.threads:
            yield from self._events(thread, r.Thread, {"action": [_ENDED], "id": [thread]})

    def _known_values(self) -> Known:
        base = (0x7F00_0000_0000 if self.dialect.width == 64 else 0x6000_0000) + 0x1_0000 * self.below(1024)
        image, assembly, cls, vtable = (base + 0x40 * place for place in range(4))
        methods = tuple(base + 0x1000 + 0x40 * place for place in range(3))
        objects = tuple(base + 0x2000 + 0x40 * place for place in range(4))
        code, version = base + 0x4000, self.dialect.version
        steps = _NEW_STEPS if version < 13 else _OLD_STEPS if version > 13 else set[str]()
        attempt, *outcomes = enums.MonitorEvent
        known: Known = {
            (None, "time"): [self.tick],
            (None, "flags"): [0],
            (None, "backtrace_flags"): [0],
            (None, "domain"): [1],
            (None, "image"): [image],
            (None, "class_pointer"): [cls],
            (None, "vtable"): [vtable],
            (None, "object"): [objects[0]],
            (None, "method"): [methods[1]],
            (None, "generation"): [0],
            (None, "interrupted"): [self.threads[0]],
            (r.Domain, "id"): [1],
            (r.Context, "id"): [1],
            (r.Image, "pointer"): [image],
            (r.Assembly, "pointer"): [assembly],
            (r.ClassLoad, "pointer"): [cls],
            (r.VtableLoad, "pointer"): [vtable],
            (r.JitMethod, "method"): [*methods],
            (r.JitMethod, "code"): [0, code, code + 0x100],
            (r.JitMethod, "size"): [0, 64, 64],
            (r.JitMethod, "name"): ["Every.Thing:Main (string[])", "Every.Thing:Work (int)", ""],
            (r.Call, "action"): [_ENTER, _ENTER, _LEAVE, _ENTER, _THROWN, _LEAVE],
            (r.Call, "method"): [methods[place] for place in (0, 1, 1, 2, 2, 0)],
            (r.Allocation, "object"): [*objects[:3]],
            (r.GcEvent, "event"): [step for step in _GC_ORDER if step.name not in steps],
            (r.GcMove, "objects"): [(objects[2], objects[3]), ()],
            (r.HandleCreated, "handle"): [8 * (1 + kind) for kind in enums.HandleType],
            (r.HandleDestroyed, "handle"): [8 * (1 + kind) for kind in enums.HandleType],
            (r.Monitor, "event"): [event for outcome in outcomes for event in (attempt, outcome)],
            (r.Clause, "object"): [0 if kind == enums.ClauseKind.FINALLY else objects[0] for kind in enums.ClauseKind],
            (r.SampleHit, "sample_type"): [*enums.SampleType],
            (r.SampleHit, "addresses"): [(code + 3,), (code + 3, code + 0x103)],
            (r.SampleHit, "frames"): [methods[::-1], ()],
            (r.NativeSymbol, "address"): [code],
            (r.NativeBinary, "address"): [code],
            (r.JitHelper, "address"): [code + 0x10 * kind for kind in enums.CodeBuffer],
            (r.JitHelper, "buffer_type"): [kind + (version < 14) for kind in enums.CodeBuffer],
            (None, "method_id"): [1],
            (None, "methods"): [2],
            (None, "fully_covered"): [1],
            (None, "partially_covered"): [0],
            (r.CoverageMethod, "statements"): [1],
        }
        return known | self._heap(objects) | self._counters()

    def _heap(self, objects: tuple[int, ...]) -> Known:
        """Return the values of a heap shot: an object that refers to others, and roots that are registered."""
        refers = tuple(self.records_of(Reference, {"object": [*objects[1:]], "field_offset": [16, 24, 32]}))
        sources, kinds = len(enums.RootSource), range(5) if self.dialect.version < 14 else (1, 2, 4, 8, 16)
        roots = [0x2000 + 16 * place for place in range(max(sources, len(kinds)))]
        return {
            (r.HeapObject, "object"): [objects[0], *objects],
            (r.HeapObject, "size"): [48, 0, 24, 24, 24],  # 0: further references of the same object
            (r.HeapObject, "references"): [refers, refers[:1], (), (), ()],
            (Root, "address"): roots,
            (Root, "root_type"): [*kinds],
            (r.RootRegister, "address"): roots[:sources],
            (r.RootUnregister, "address"): roots[:sources],
        }

    def _counters(self) -> Known:
        """Return the descriptions of counters, and two values of each."""
        small = isinstance(self.dialect.part(CounterDescription, "unit"), Byte)  # no unit fits in a byte
        sections = [*enums.CounterSection]
        each: dict[str, list[Any]] = {
            "section": sections * 2,
            "category": ["Every" if section == enums.CounterSection.PERFCOUNTERS else None for section in sections],
            "type": [*enums.CounterType],
            "index": [*range(1, 2 * len(sections) + 1)],
            "unit": [0] if small else [*enums.CounterUnit],
            "variance": [0] if small else [*enums.CounterVariance],
        }
        described = tuple(CounterDescription(**values, name=f"Counter {values['index']}") for values in variants(each))
        counted = [
            tuple(CounterValue(index=one.index, type=one.type, value=_counted(one.type, sign)) for one in described)
            for sign in (1, -1)
        ]
        return {(r.CounterDescriptions, "counters"): [described], (r.CounterValues, "values"): counted}

    def _events(self, thread: int, cls: type[r.Event], values: dict[str, list[Any]]) -> Iterator[tuple[int, r.Event]]:
        """Yield a thread, and events of a class with each value of each field, if the version has the class."""
        layout = layout_of(cls, self.dialect.version)
        if layout is None:
            return
        untimed = any(isinstance(part, Clock) for name in layout.absent for part in parts_of(cls)[name])
        for event in self.records_of(cls, values):
            if untimed:
                yield thread, msgspec.structs.replace(event, time=self._untimed[thread])
            else:
                self._untimed[thread] = event.time
                yield thread, event

    def declared(self, cls: type[Item]) -> Iterable[tuple[str, StreamPart]]:
        """Yield the parts of an event or an item that the version has."""
        layout = layout_of(cls, self.dialect.version)
        assert layout is not None
        return layout.parts

    def make(self, cls: type[Item], values: dict[str, Any]) -> Any:
        """Return an event or an item, without what its other values rule out, and with no time of its own."""
        parts = dict(self.declared(cls))
        flags = {part.flag: int(values[name] is not None) for name, part in parts.items() if isinstance(part, Repeated)}
        for name, part in parts.items():
            if part.when is not None and (values | flags)[part.when[0]] not in part.when[1]:
                values[name] = None
        return cls(**({"time": 0} if "time" in cls.__struct_fields__ else {}) | values)

    def values(self, cls: type[Item], name: str, part: StreamPart) -> list[Any]:
        """Return the values that a part can have."""
        if enumeration := enumeration_of(cls, name):
            return [*enumeration]
        match part:
            case FirstByteField(field=field):
                return [*range(field.mask + 1)]
            case Text(marked=marked):
                text = _GUID if name in ("mvid", "guid", "id") else "everything"
                return [text, *([None] if marked else [])]
            case Repeated(of=of):
                method = self.known[None, "method"][0]
                items = (method, method) if isinstance(of, StreamPart) else tuple(self.records_of(of))
                return [items, (), *([None] if part.flag else [])]
        return [1 + self.below(100)]


def _counted(kind: int, sign: int) -> int | float | str | None:
    """Return a value of a counter: the change of a whole number, or something else as it is."""
    if kind == enums.CounterType.DOUBLE:
        return 2.5 * sign
    if kind == enums.CounterType.STRING:
        return "text" if sign > 0 else None
    return 300 if sign > 0 or kind in enums.UNSIGNED_COUNTERS else -100
