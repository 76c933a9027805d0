"""Perfetto's own format: a protobuf trace of track events, with names stored once.

A packet describes a track, defines names, or is an event.  All slices are pairs of a begin and an end.  Points of flows
are events of the older kind (`legacy_event`), because these belong to the slice in which they stand.

https://perfetto.dev/docs/reference/trace-packet-proto
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.codec.protobuf import bytes_field, double_field, number_field, varint
from fxtio.exchange import Exchange
from fxtio.table import Table
from fxtio.timeline import replay, spans
from fxtio.timeline.arguments import ArgumentRows, Arguments
from fxtio.timeline.losses import Texts, count_lost, plain
from fxtio.timeline.parts import Registry, TrackInfo
from fxtio.timeline.replay import Events, Replay
from fxtio.timeline.schema import FLOW_TYPES, ArgumentKind, TrackKind
from fxtio.timeline.spans import Spans, merged

if TYPE_CHECKING:
    from fxtio.io.sink import Sink

Array = np.ndarray[Any, Any]

EXCHANGE = Exchange(
    "perfetto", "Perfetto protobuf trace", __name__, (".pftrace", ".perfetto-trace", ".perfetto"),
)  # fmt: skip

NOT_CARRIED = (
    "scheduling and wakeups, allocations, weights and processors of samples",
    "the difference between koids and other numbers; the levels of log messages, except as arguments",
)
"""The content of a timeline that a file does not have."""


class _Packet(IntEnum):
    """The fields of TracePacket."""

    TIMESTAMP = 8
    SEQUENCE = 10
    TRACK_EVENT = 11
    INTERNED_DATA = 12
    SEQUENCE_FLAGS = 13
    TRACK_DESCRIPTOR = 60


class _Descriptor(IntEnum):
    """The fields of TrackDescriptor."""

    UUID = 1
    NAME = 2
    PROCESS = 3
    THREAD = 4
    PARENT = 5
    COUNTER = 8


class _Owner(IntEnum):
    """The fields of ProcessDescriptor and ThreadDescriptor."""

    PID = 1
    TID = 2
    THREAD_NAME = 5
    PROCESS_NAME = 6


class _Event(IntEnum):
    """The fields of TrackEvent."""

    CATEGORY = 3
    ANNOTATION = 4
    LEGACY = 6
    TYPE = 9
    NAME = 10
    TRACK = 11
    DOUBLE = 44


class _Legacy(IntEnum):
    """The fields of TrackEvent.LegacyEvent."""

    NAME = 1
    PHASE = 2
    ID = 6
    TO_ENCLOSING = 12


class _Annotation(IntEnum):
    """The fields of DebugAnnotation."""

    NAME = 1
    BOOL = 2
    UINT = 3
    INT = 4
    DOUBLE = 5
    POINTER = 7
    TEXT = 17


class _Names(IntEnum):
    """The fields of InternedData: kinds of names, each with numbers of its own."""

    CATEGORY = 1
    EVENT = 2
    ANNOTATION = 3
    TEXT = 29


_PACKET = 1  # the field of Trace
_SEQUENCE = 1
_FRESH, _NEEDS_NAMES = 1, 2
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_TYPES = {SpanStep.BEGIN: _BEGIN, SpanStep.END: _END, SpanStep.INSTANT: _INSTANT}
_PHASES = {"begin": ord("s"), "step": ord("t"), "end": ord("f")}
_PROCESS_UUIDS = 1 << 32
"""The number of a track is one more than its row; that of the track of a process is one more than its row and this."""

_LOST = {
    "allocations": "allocations",
    "scheduling": "intervals in which a thread ran on a processor",
    "wakeups": "wakeups of threads",
}
_KOIDS = "types of arguments that are koids, which are numbers now"
_FLOW_NAMES = "names of points of flows, which have that of the first point now"
_NUMBERS = "numbers of processes and threads over 31 bits, which are cut"


class Exporter:
    """Writes a Perfetto trace, see `fxtio.formats.Exporter`."""

    TABLES: ClassVar[tuple[str, ...]] = (*replay.TABLES, *spans.TABLES, "args", "counters", "logs", *_LOST)

    def __init__(self, sink: Sink, registry: Registry) -> None:
        self.losses: Counter[str] = Counter()
        self._sink = sink
        self._registry = registry
        self._replay = Replay(registry, pairs=True)
        self._spans = Spans(registry)
        self._arguments = Arguments()
        self._texts = Texts(registry.names, self._utf8)
        self._defined: dict[_Names, set[int]] = {kind: set() for kind in _Names}
        self._tracks = 0  # so many are described
        self._processes: dict[int, int] = {}  # the name with which each was described
        self._threads: dict[int, tuple[int, int]] = {}  # the track and the described name of each
        self._flows: dict[tuple[int, int], tuple[int, int]] = {}  # name and category of the first point of each
        self._flags = _FRESH | _NEEDS_NAMES

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Write the rows of a batch."""
        self._arguments.enter(tables)
        events = merged(self._replay.enter(tables), self._spans.enter(tables))
        if events is not None:
            self._write_events(events)
        self._arguments.leave(tables)
        if "counters" in tables:
            self._write_counters(tables["counters"])
        if "logs" in tables:
            self._write_logs(tables["logs"])
        count_lost(self.losses, tables, _LOST)

    def finish(self) -> None:
        """Write the names that came late."""
        events = self._spans.finish()
        if events is not None:
            self._write_events(events)
        self._describe()
        self._replay.note_losses(self.losses)
        self._spans.note_losses(self.losses)

    def _utf8(self, text: str) -> bytes:
        return plain(text, self.losses).encode()

    # Tracks.

    def _describe(self) -> None:
        """Describe the tracks that are new, and those with new names."""
        packets = []
        registry = self._registry
        for process, name in enumerate(registry.process_names()):
            if self._processes.get(process) != name:
                self._processes[process] = name
                fields = number_field(_Owner.PID, self._number(registry.process_id(process)))
                fields += bytes_field(_Owner.PROCESS_NAME, self._texts.text(name)) if name >= 0 else b""
                uuid = _PROCESS_UUIDS + process + 1
                packets.append(number_field(_Descriptor.UUID, uuid) + bytes_field(_Descriptor.PROCESS, fields))
        names = registry.thread_names()
        packets += [
            self._descriptor(track, registry.track_info(track))
            for thread, (track, name) in self._threads.items()
            if names[thread] != name
        ]
        packets += [
            self._descriptor(track, registry.track_info(track)) for track in range(self._tracks, registry.track_count)
        ]
        self._tracks = registry.track_count
        if self._flags != _NEEDS_NAMES:
            self._sink.write(self._packet(b""))
        self._sink.write(b"".join(self._packet(bytes_field(_Packet.TRACK_DESCRIPTOR, each)) for each in packets))

    def _descriptor(self, track: int, info: TrackInfo) -> bytes:
        fields = number_field(_Descriptor.UUID, track + 1)
        if info.kind == TrackKind.THREAD:
            name = self._registry.thread_names()[info.thread]
            self._threads[info.thread] = (track, name)
            owner = number_field(_Owner.PID, self._number(info.pid)) + number_field(_Owner.TID, self._number(info.tid))
            owner += bytes_field(_Owner.THREAD_NAME, self._texts.text(name)) if name >= 0 else b""
            return fields + bytes_field(_Descriptor.THREAD, owner)
        if info.process >= 0:
            fields += number_field(_Descriptor.PARENT, _PROCESS_UUIDS + info.process + 1)
        fields += bytes_field(_Descriptor.NAME, self._utf8(info.name or info.kind.name.lower()))
        return fields + bytes_field(_Descriptor.COUNTER, b"") if info.kind == TrackKind.COUNTER else fields

    def _number(self, number: int) -> int:
        """Return the number of a process or thread, which is a signed one of 32 bits."""
        if not 0 <= number <= _MAX_NUMBER:
            self.losses[_NUMBERS] += 1
            return number % (_MAX_NUMBER + 1)
        return number

    def _packet(self, fields: bytes) -> bytes:
        flags, self._flags = self._flags, _NEEDS_NAMES
        fields += number_field(_Packet.SEQUENCE, _SEQUENCE) + number_field(_Packet.SEQUENCE_FLAGS, flags)
        return bytes_field(_PACKET, fields)

    def _define(self, **codes: Array) -> None:
        """Define the names that are new, by kinds; the number of a name is one more than its code."""
        fields = []
        for kind_name, column in codes.items():
            kind = _Names[kind_name]
            for code in np.unique(column).tolist():
                if code >= 0 and code not in self._defined[kind]:
                    self._defined[kind].add(code)
                    fields.append(bytes_field(kind, number_field(1, code + 1) + bytes_field(2, self._texts.text(code))))
        if fields:
            self._sink.write(self._packet(bytes_field(_Packet.INTERNED_DATA, b"".join(fields))))

    # Events.

    def _write_events(self, events: Events) -> None:
        rows = self._arguments.of(events.event, events.end_event)
        self._describe()
        self._define(CATEGORY=events.category, EVENT=events.name, ANNOTATION=rows.name, TEXT=rows.text)
        args = self._annotations(rows)
        columns = (events.step, events.track, events.time, events.name, events.category, events.detail, events.id)
        lists = [column.tolist() for column in columns]
        packets = []
        known: dict[tuple[int, ...], bytes] = {}  # the fields that many events share
        for row, (step, track, time, name, category, detail, number) in enumerate(zip(*lists, strict=True)):
            if step == SpanStep.FLOW:
                event = self._flow(track, number, FLOW_TYPES[detail], name, category)
            else:
                key = (step, track) if step == SpanStep.END else (step, track, name, category)
                if key not in known:
                    known[key] = _event_fields(*key)
                event = known[key]
            packets.append(self._event(time, event + args[row] if row in args else event))
        self._sink.write(b"".join(packets))

    def _event(self, time: int, fields: bytes) -> bytes:
        """Return the packet of an event; names were defined before, so it is not the first one."""
        size = len(fields)
        head = _TIMESTAMP + varint(time) + _TRACK_EVENT + (_SHORT[size] if size < len(_SHORT) else varint(size))
        size += len(head) + len(_TAIL)
        return _PACKET_TAG + (_SHORT[size] if size < len(_SHORT) else varint(size)) + head + fields + _TAIL

    def _flow_names(self, track: int, number: int, flow: str, name: int, category: int) -> tuple[int, int]:
        """Return the name and the category of the flow: Perfetto connects only points that agree in them."""
        key = (self._registry.track_info(track).process, number)
        if flow == "begin":
            self._flows[key] = (name, category)
        first = self._flows.get(key, (name, category))
        if flow == "end":
            self._flows.pop(key, None)
        if first != (name, category):
            self.losses[_FLOW_NAMES] += 1
        return first

    def _flow(self, track: int, number: int, flow: str, name: int, category: int) -> bytes:
        name, category = self._flow_names(track, number, flow, name, category)
        fields = number_field(_Legacy.NAME, name + 1) + number_field(_Legacy.PHASE, _PHASES[flow])
        fields += varint(_ID_TAG) + varint(number) + number_field(_Legacy.TO_ENCLOSING, 1)
        event = number_field(_Event.TRACK, track + 1) + bytes_field(_Event.LEGACY, fields)
        return event + number_field(_Event.CATEGORY, category + 1)

    def _annotations(self, rows: ArgumentRows) -> dict[int, bytes]:
        """Return the arguments of the events that have some."""
        result: dict[int, bytes] = {}
        self.losses[_KOIDS] += int((rows.kind == ArgumentKind.KOID).sum())
        values = rows.values(self._registry.names.values)
        known: dict[tuple[int, int], bytes] = {}  # annotations with texts
        columns = (rows.row.tolist(), rows.name.tolist(), rows.kind.tolist(), rows.text.tolist(), values)
        for row, name, kind, text, value in zip(*columns, strict=True):
            if kind != ArgumentKind.TEXT:
                annotation = _annotation(name, kind, value)
            else:
                if (name, text) not in known:
                    known[name, text] = _annotation(name, kind, text + 1)
                annotation = known[name, text]
            result[row] = result[row] + annotation if row in result else annotation
        return result

    def _write_counters(self, counters: Table) -> None:
        self._describe()
        kind = number_field(_Event.TYPE, _COUNTER)
        columns = [counters[name].tolist() for name in ("time", "track", "value")]
        self._sink.write(b"".join(
            self._event(time, number_field(_Event.TRACK, track + 1) + kind + double_field(_Event.DOUBLE, value))
            for time, track, value in zip(*columns, strict=True)
        ))  # fmt: skip

    def _write_logs(self, logs: Table) -> None:
        """Write messages as instants of their threads."""
        registry = self._registry
        category, level = registry.names.code("log"), registry.names.code("level")
        tracks = {}
        for thread in np.unique(logs["thread"]).tolist():
            info = registry.thread_info(thread)
            tracks[thread] = registry.thread_track(info.pid, info.tid)
        messages, levels = logs["message"].codes, logs["level"].codes
        self._describe()
        self._define(EVENT=messages, CATEGORY=np.array([category]), ANNOTATION=np.array([level]), TEXT=levels)
        common = number_field(_Event.TYPE, _INSTANT) + number_field(_Event.CATEGORY, category + 1)
        packets = []
        columns = (logs["time"].tolist(), logs["thread"].tolist(), messages.tolist(), levels.tolist())
        for time, thread, message, text in zip(*columns, strict=True):
            event = number_field(_Event.TRACK, tracks[thread] + 1) + common + number_field(_Event.NAME, message + 1)
            if text >= 0:
                fields = number_field(_Annotation.NAME, level + 1) + number_field(_Annotation.TEXT, text + 1)
                event += bytes_field(_Event.ANNOTATION, fields)
            packets.append(self._event(time, event))
        self._sink.write(b"".join(packets))


def _event_fields(step: int, track: int, name: int = -1, category: int = -1) -> bytes:
    """Return the fields of an event but for its arguments; -1 is no name and no category."""
    fields = number_field(_Event.TRACK, track + 1) + number_field(_Event.TYPE, _TYPES[SpanStep(step)])
    return fields + number_field(_Event.NAME, name + 1) + number_field(_Event.CATEGORY, category + 1)


def _annotation(name: int, kind: int, value: Any) -> bytes:
    """Return an argument; the value of a text is its number."""
    fields = number_field(_Annotation.NAME, name + 1)
    if kind == ArgumentKind.TEXT:
        fields += number_field(_Annotation.TEXT, value)
    elif kind == ArgumentKind.NULL:
        fields += bytes_field(_NULL, b"null")
    elif kind == ArgumentKind.NUMBER:
        fields += double_field(_Annotation.DOUBLE, value)
    else:
        fields += _TAG_OF_KIND[kind] + varint(int(value))
    return bytes_field(_Event.ANNOTATION, fields)


_MAX_NUMBER = (1 << 31) - 1
_NULL = 6  # the field of a DebugAnnotation with a text of its own
_TIMESTAMP = number_field(_Packet.TIMESTAMP, 1)[:-1]
_TRACK_EVENT = bytes_field(_Packet.TRACK_EVENT, b"")[:-1]
_PACKET_TAG = bytes_field(_PACKET, b"")[:-1]
_TAIL = number_field(_Packet.SEQUENCE, _SEQUENCE) + number_field(_Packet.SEQUENCE_FLAGS, _NEEDS_NAMES)
_SHORT = [varint(size) for size in range(1 << 12)]
_ID_TAG = number_field(_Legacy.ID, 1)[0]
_TAG_OF_KIND = {
    int(kind): number_field(field, 1)[:-1]
    for kind, field in {
        ArgumentKind.INTEGER: _Annotation.INT,
        ArgumentKind.UNSIGNED: _Annotation.UINT,
        ArgumentKind.KOID: _Annotation.UINT,
        ArgumentKind.POINTER: _Annotation.POINTER,
        ArgumentKind.BOOLEAN: _Annotation.BOOL,
    }.items()
}
