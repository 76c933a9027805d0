"""Writes Perfetto traces: track events, with names stored once.

A packet describes a track, defines names, or is an event.  All slices are pairs of a begin and an end.  Points of flows
are events of the older kind (`legacy_event`), because these belong to the slice in which they stand.

https://perfetto.dev/docs/reference/trace-packet-proto
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.codec.byte_columns import ByteColumn, ByteTable, joined, sum_of_sizes
from fxtio.codec.protobuf import (
    bytes_field,
    doubles,
    lengths,
    messages,
    number_field,
    varints,
)
from fxtio.exchange.formatting import portions, row_ranges
from fxtio.exchange.perfetto.messages import (
    ATTRIBUTES,
    BEGIN,
    BOOTTIME,
    CLEARED,
    COUNTER,
    END,
    INSTANT,
    NEEDS_STATE,
    PACKET,
    REALTIME,
    Annotation,
    Attribute,
    Clock,
    Descriptor,
    Event,
    Interned,
    Legacy,
    Owner,
    Packet,
    Snapshot,
)
from fxtio.exchange.perfetto.scheduling import Scheduler
from fxtio.table import Table
from fxtio.timeline.arguments import ArgumentRows
from fxtio.timeline.event_export import TrackEventExporter
from fxtio.timeline.losses import Texts, plain
from fxtio.timeline.parts import Registry
from fxtio.timeline.replay import Events
from fxtio.timeline.schema import FLOW_TYPES, ArgumentKind, TrackKind

if TYPE_CHECKING:
    from fxtio.io.sink import Sink

NOT_CARRIED = (
    "allocations, weights and processors of samples",
    "states of threads that stop, and Linux does not have",
    "the difference between koids and other numbers; the levels of log messages, except as arguments",
    "scopes of instants; numbers of operations and counters, and the threads of counters",
    "arguments without a value, which are the text `null`",
)
"""The content of a timeline that a file does not have."""


_SEQUENCE = 1
_TYPES = np.zeros(len(SpanStep) + 1, np.int64)
"""The type of an event by `SpanStep`; that of a point of a flow is in its legacy event."""
_TYPES[[SpanStep.BEGIN, SpanStep.END, SpanStep.INSTANT]] = BEGIN, END, INSTANT
_PHASES = np.array([ord({"begin": "s", "step": "t", "end": "f"}[each]) for each in FLOW_TYPES])
_PROCESS_UUIDS = 1 << 32
"""The number of a track is one more than its row; that of the track of a process is one more than its row and this."""

_KOIDS = "types of arguments that are koids, which are numbers now"
_NUMBERS = "numbers of processes and threads over 31 bits, which are cut"


class Exporter(TrackEventExporter):
    """Writes a Perfetto trace, see `fxtio.formats.Exporter`."""

    def __init__(self, sink: Sink, registry: Registry) -> None:
        super().__init__(sink, registry, pairs=True)
        self._texts = Texts(registry.names, self._utf8)
        self._defined: dict[Interned, set[int]] = {kind: set() for kind in Interned}
        self._track_names = ByteTable(self._track_name)
        self._tracks = 0  # the number of those that are described
        self._processes: dict[int, int] = {}  # the name with which each was described
        self._threads: dict[int, tuple[int, int]] = {}  # the track and the described name of each
        self._scheduler = Scheduler(registry, self._number, self._texts.text, self.losses)
        self._flags = CLEARED | NEEDS_STATE
        self._has_clock = False
        self._labels = 0  # the number of those that are written

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Write the rows of a batch."""
        super().enter(tables)
        if not tables.keys().isdisjoint(("scheduling", "wakeups")):
            self._write_scheduling(tables)

    def finish(self) -> None:
        """Write the spans that are still open, the last switches, and the names that came late."""
        super().finish()
        self._describe()
        self._write_packets(self._scheduler.finish())

    def _utf8(self, text: str) -> bytes:
        return plain(text, self.losses).encode()

    # Tracks.

    def _describe(self) -> None:
        """Describe the tracks that are new, and those with new names."""
        packets = []
        registry = self._registry
        if registry.wall_clock is not None and not self._has_clock:
            self._has_clock = True
            self._sink.write(self._packet(bytes_field(Packet.CLOCK_SNAPSHOT, _clocks(registry.wall_clock))))
        for process, name in enumerate(registry.process_names()):
            if self._processes.get(process) != name:
                self._processes[process] = name
                fields = self._number_field(Owner.PID, registry.process_id(process))
                fields += bytes_field(Owner.PROCESS_NAME, self._texts.text(name)) if name >= 0 else b""
                uuid = _PROCESS_UUIDS + process + 1
                packets.append(number_field(Descriptor.UUID, uuid) + bytes_field(Descriptor.PROCESS, fields))
        names = registry.thread_names()
        for thread, (track, name) in [*self._threads.items()]:
            if names[thread] != name:
                packets.append(number_field(Descriptor.UUID, track + 1) + self._thread_field(track, thread))
        if self._flags != NEEDS_STATE:
            self._sink.write(self._packet(b""))
        self._label()
        self._sink.write(b"".join(self._packet(bytes_field(Packet.TRACK_DESCRIPTOR, each)) for each in packets))
        if registry.track_count > self._tracks:
            self._write_packets(self._new_tracks(self._tracks))
            self._tracks = registry.track_count

    def _new_tracks(self, first: int) -> ByteColumn:
        """Return the descriptions of the tracks from this one on."""
        columns = self._registry.tracks_from(first)
        kind, process = columns["kind"], columns["process"].astype(np.int64)
        count = len(kind)
        # Each column of fields has a row for every track, empty where the track does not have the field.
        threads, others = np.flatnonzero(kind == TrackKind.THREAD), np.flatnonzero(kind != TrackKind.THREAD)
        named = self._track_names.rows(columns["name"][others])
        unnamed = np.flatnonzero(named.size == 0)
        counters = np.flatnonzero(kind == TrackKind.COUNTER)
        owners = zip((first + threads).tolist(), columns["thread"][threads].tolist(), strict=True)
        return messages(
            Packet.TRACK_DESCRIPTOR,
            varints(Descriptor.UUID, np.arange(first + 1, first + count + 1)),
            ByteColumn.of(self._thread_field(track, thread) for track, thread in owners).spread(threads, count),
            varints(
                Descriptor.PARENT,
                np.where((process >= 0) & (kind != TrackKind.THREAD), _PROCESS_UUIDS + process + 1, 0),
            ),
            named.spread(others, count),
            _KIND_NAMES.take(kind[others[unnamed]]).spread(others[unnamed], count),
            joined(len(counters), bytes_field(Descriptor.COUNTER, b"")).spread(counters, count),
        )

    def _track_name(self, code: int) -> bytes:
        """Return the field with a name, given by its code; nothing if it is empty."""
        text = self._texts.text(code)
        return bytes_field(Descriptor.NAME, text) if text else b""

    def _thread_field(self, track: int, thread: int) -> bytes:
        """Return the field that describes the thread of a track."""
        name = self._registry.thread_names()[thread]
        self._threads[thread] = (track, name)
        info = self._registry.thread_info(thread)
        owner = self._number_field(Owner.PID, info.pid) + self._number_field(Owner.TID, info.tid)
        owner += bytes_field(Owner.THREAD_NAME, self._texts.text(name)) if name >= 0 else b""
        return bytes_field(Descriptor.THREAD, owner)

    def _number_field(self, field: Owner, number: int) -> bytes:
        """Return the field with the number of a process or thread.

        The number 0 is in the file as well: Perfetto refuses a process or a thread without a number.
        """
        return number_field(field, self._number(number)) or number_field(field, 1)[:-1] + b"\0"

    def _number(self, number: int) -> int:
        """Return the number of a process or thread, which is a signed one of 32 bits."""
        if not 0 <= number <= _MAX_NUMBER:
            self.losses[_NUMBERS] += 1
            return number % (_MAX_NUMBER + 1)
        return number

    def _packet(self, fields: bytes) -> bytes:
        flags, self._flags = self._flags, NEEDS_STATE
        fields += number_field(Packet.SEQUENCE, _SEQUENCE) + number_field(Packet.SEQUENCE_FLAGS, flags)
        return bytes_field(PACKET, fields)

    def _define(self, **codes: Array) -> None:
        """Define the names that are new, by kinds; the number of a name is one more than its code."""
        fields = []
        for kind_name, column in codes.items():
            kind = Interned[kind_name]
            for code in np.unique(column).tolist():
                if code >= 0 and code not in self._defined[kind]:
                    self._defined[kind].add(code)
                    fields.append(bytes_field(kind, number_field(1, code + 1) + bytes_field(2, self._texts.text(code))))
        if fields:
            self._sink.write(self._packet(bytes_field(Packet.INTERNED_DATA, b"".join(fields))))

    # Events.

    def _write_events(self, events: Events, arguments: ArgumentRows) -> None:
        self._describe()
        self._define(CATEGORY=events.category, EVENT=events.name, ANNOTATION=arguments.name, TEXT=arguments.text)
        self.losses[_KOIDS] += int((arguments.kind == ArgumentKind.KOID).sum())
        for rows, portion in portions(events.name, arguments):
            self._write_portion(events.take(np.arange(rows.start, rows.stop)), portion)

    def _write_portion(self, events: Events, rows: ArgumentRows) -> None:
        is_flow, is_end = events.step == SpanStep.FLOW, events.step == SpanStep.END
        name = np.where(is_flow | is_end, -1, events.name)
        category = np.where(is_flow | is_end, -1, events.category)
        flows = np.flatnonzero(is_flow)
        legacy, category[flows] = self._flows_of(events.take(flows))
        self._write_track_events(
            events.time,
            _track_field(events.track),
            varints(Event.TYPE, _TYPES[events.step]),
            varints(Event.NAME, name + 1),
            legacy.spread(flows, len(events)),
            varints(Event.CATEGORY, category + 1),
            _annotations(rows).grouped(rows.row, len(events)),
        )

    def _write_track_events(self, time: Array, *event: ByteColumn) -> None:
        """Write events at some times (int64 ns), of which the fields are given in columns.

        Names were defined before, so none of them is the first packet.
        """
        count = len(time)
        head = (
            varints(Packet.TIMESTAMP, time, with_zero=True),
            lengths(Packet.TRACK_EVENT, sum_of_sizes(count, *event)),
        )
        size = sum_of_sizes(count, *head, *event) + len(_TAIL)
        self._sink.write(joined(count, lengths(PACKET, size), *head, *event, _TAIL).data.data)

    def _flows_of(self, flows: Events) -> tuple[ByteColumn, list[int]]:
        """Return the legacy events of points of flows, and the codes of their categories."""
        labels = self._flow_labels(flows)
        fields = (
            varints(Legacy.NAME, np.array([name for name, _ in labels], np.int64) + 1),
            varints(Legacy.PHASE, _PHASES[flows.detail]),
            varints(Legacy.ID, flows.id, with_zero=True),
            varints(Legacy.TO_ENCLOSING, np.ones(len(flows), np.int64)),
        )
        return messages(Event.LEGACY, *fields), [category for _, category in labels]

    def _write_counters(self, counters: Table) -> None:
        self._describe()
        for rows in row_ranges(counters.num_rows):
            time, track, value = (counters[name][rows] for name in ("time", "track", "value"))
            kind = varints(Event.TYPE, np.full(len(time), COUNTER))
            self._write_track_events(time, _track_field(track), kind, doubles(Event.DOUBLE, value))

    def _write_scheduling(self, tables: Mapping[str, Table]) -> None:
        """Write when threads run and are woken."""
        registry = self._registry
        for name, bundles in (("scheduling", self._scheduler.switches), ("wakeups", self._scheduler.wakeups)):
            if name not in tables:
                continue
            table = tables[name]
            threads = np.concatenate([table[each] for each in ("thread", "waker") if each in table])
            for thread in np.unique(threads[threads >= 0]).tolist():
                info = registry.thread_info(thread)
                registry.thread_track(info.pid, info.tid)  # its description has the name
            self._describe()
            for rows in row_ranges(table.num_rows):
                self._write_packets(bundles(table.take(np.arange(rows.start, min(rows.stop, table.num_rows)))))

    def _write_packets(self, fields: ByteColumn) -> None:
        """Write packets with fields, none of which is the first packet."""
        if len(fields):
            size = lengths(PACKET, fields.size + len(_TAIL))
            self._sink.write(joined(len(fields), size, fields, _TAIL).data.data)

    def _write_logs(self, logs: Table) -> None:
        """Write messages as instants of their threads."""
        registry = self._registry
        category, level = registry.names.code("log"), registry.names.code("level")
        # All names and tracks are defined before the first event that has them.
        threads, place = np.unique(logs["thread"], return_inverse=True)
        infos = map(registry.thread_info, threads.tolist())
        tracks = np.array([registry.thread_track(info.pid, info.tid) for info in infos], np.int64)[place]
        texts, levels = logs["message"].codes, logs["level"].codes
        self._describe()
        self._define(EVENT=texts, CATEGORY=np.array([category]), ANNOTATION=np.array([level]), TEXT=levels)
        columns = (logs["time"], tracks, texts, levels)
        for batch in row_ranges(logs.num_rows):
            time, track, message, text = (each[batch] for each in columns)
            rows = np.flatnonzero(text >= 0)
            fields = (np.full(len(rows), level + 1), text[rows] + 1)
            annotation = messages(Event.ANNOTATION, *map(varints, (Annotation.NAME, Annotation.TEXT), fields))
            self._write_track_events(
                time,
                _track_field(track),
                varints(Event.TYPE, np.full(len(time), INSTANT)),
                varints(Event.CATEGORY, np.full(len(time), category + 1)),
                varints(Event.NAME, message + 1),
                annotation.spread(rows, len(time)),
            )

    def _label(self) -> None:
        """Write the labels that are new."""
        new = [*self._registry.labels.items()][self._labels :]
        self._labels += len(new)
        for name, text in new:
            fields = bytes_field(Attribute.KEY, self._utf8(name)) + bytes_field(Attribute.TEXT, self._utf8(text))
            attributes = bytes_field(ATTRIBUTES, fields)
            self._sink.write(self._packet(bytes_field(Packet.TRACE_ATTRIBUTES, attributes)))


def _clocks(wall_clock: int) -> bytes:
    """Return the clock of the trace and the wall clock at one moment: at time 0, or when the wall clock was 0."""
    times = {BOOTTIME: max(-wall_clock, 0), REALTIME: max(wall_clock, 0)}
    return b"".join(
        bytes_field(Snapshot.CLOCKS, number_field(Clock.ID, clock) + number_field(Clock.TIMESTAMP, time))
        for clock, time in times.items()
    )


def _track_field(tracks: Array) -> ByteColumn:
    return varints(Event.TRACK, tracks + 1)


def _annotations(rows: ArgumentRows) -> ByteColumn:
    """Return arguments; the value of a text is its number, which is defined before."""
    count, kind = len(rows), rows.kind
    values = np.where(kind == ArgumentKind.BOOLEAN, (rows.bits != 0).astype(np.uint64), rows.bits)
    parts = []
    for field, kinds in _VALUES.items():
        chosen = np.flatnonzero(np.isin(kind, kinds))
        parts.append(varints(field, values[chosen], with_zero=True).spread(chosen, count))
    texts, numbers, nulls = (
        np.flatnonzero(kind == each) for each in (ArgumentKind.TEXT, ArgumentKind.NUMBER, ArgumentKind.NULL)
    )
    return messages(
        Event.ANNOTATION,
        varints(Annotation.NAME, rows.name + 1),
        *parts,
        varints(Annotation.TEXT, rows.text[texts] + 1).spread(texts, count),
        doubles(Annotation.DOUBLE, rows.bits[numbers].view(np.float64)).spread(numbers, count),
        joined(len(nulls), bytes_field(Annotation.STRING, b"null")).spread(nulls, count),
    )


_KIND_NAMES = ByteColumn.of(bytes_field(Descriptor.NAME, kind.name.lower().encode()) for kind in TrackKind)
_MAX_NUMBER = (1 << 31) - 1
_TAIL = number_field(Packet.SEQUENCE, _SEQUENCE) + number_field(Packet.SEQUENCE_FLAGS, NEEDS_STATE)
_VALUES = {
    Annotation.INT: (ArgumentKind.INTEGER,),
    Annotation.UINT: (ArgumentKind.UNSIGNED, ArgumentKind.KOID),
    Annotation.POINTER: (ArgumentKind.POINTER,),
    Annotation.BOOL: (ArgumentKind.BOOLEAN,),
}
"""The fields of annotations with a number, and the types of arguments that they are for."""
