"""Trace event JSON, as Chrome's tracing had it: written by VizTracer, torch.profiler, browsers; read by Perfetto.

`fxtio.exchange.chrome_reader` reads it.  The exporter writes one event to a line.  Times are microseconds with three
decimals, so they are exact.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.codec.byte_columns import ByteColumn, ByteTable, decimals, hexadecimals, joined, thousandths
from fxtio.exchange.formatting import Converter, by_kind, portions, row_ranges
from fxtio.table import Table
from fxtio.timeline.arguments import ArgumentRows
from fxtio.timeline.event_export import TrackEventExporter
from fxtio.timeline.losses import plain
from fxtio.timeline.parts import Registry, TimelinePart
from fxtio.timeline.replay import Events
from fxtio.timeline.schema import FLOW_TYPES, ArgumentKind, TrackKind

if TYPE_CHECKING:
    from fxtio.io.sink import Sink
    from fxtio.io.source import Source


NOT_CARRIED = (
    "scheduling and wakeups, allocations; weights and processors of samples, which become spans between samples",
    "the types of arguments that are koids, pointers, or numbers that are not finite",
    "names of points of flows that differ from that of the first point",
)
"""The content of a timeline that a file does not have."""


def sniff(head: bytes) -> bool:
    """Return whether a file begins with an object or an array of events."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] == b"[":
        return start[1:].lstrip()[:1] in (b"{", b"]", b"") and (b'"ph"' in head or len(start) < len(b"[{}]"))
    return start[:1] == b"{" and b'"traceEvents"' in head


_ASYNC = 8  # added to a `SpanStep` on a track that is not that of a thread
_FLOW = 16  # added to an index into `FLOW_TYPES`
_PHASES = {
    SpanStep.BEGIN: "B",
    SpanStep.END: "E",
    SpanStep.COMPLETE: "X",
    SpanStep.INSTANT: "i",
    _ASYNC + SpanStep.BEGIN: "b",
    _ASYNC + SpanStep.END: "e",
    _ASYNC + SpanStep.INSTANT: "n",
    **{_FLOW + FLOW_TYPES.index(name): letter for name, letter in (("begin", "s"), ("step", "t"), ("end", "f"))},
}
_HEADS = ByteColumn.of([b'{"ph":"%b","ts":' % _PHASES.get(number, "").encode() for number in range(max(_PHASES) + 1)])
"""The begins of events, by their phases."""

_DURATION, _ID, _SCOPE = 1, 2, 3
_EXTRAS = ByteColumn.of([b"", b',"dur":', b',"id":"0x', *(b',"s":"%b"' % scope for scope in (b"t", b"p", b"g"))])
"""The starts of the fields of events after their times, see `_phases`; the scopes are in the order of `SCOPES`."""
_KINDS = "types of arguments that are pointers, koids, or not finite"


def parts(source: Source, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    """Read a file, see `fxtio.formats.TimelineRoom.parts`."""
    from fxtio.exchange.chrome_reader import parts as read

    return read(source, registry, tables)


class Exporter(TrackEventExporter):
    """Writes trace event JSON, see `fxtio.formats.Exporter`."""

    LOST: ClassVar = (*TrackEventExporter.LOST, "scheduling", "wakeups")

    def __init__(self, sink: Sink, registry: Registry) -> None:
        super().__init__(sink, registry)
        values = registry.names.values
        self._names = ByteTable(lambda code: self._json(values[code]), b'""')
        self._track_of_id: dict[int, int] = {}  # readers take all operations with one id for one
        self._tracks = ByteTable(self._track_fields)
        self._threads = ByteTable(self._thread_fields, self._thread_fields(-1))
        self._counter_tracks = ByteTable(self._counter_fields)
        self._converters = self._make_converters()
        self._separator = b'{"displayTimeUnit":"ns","traceEvents":[\n'

    def finish(self) -> None:
        """Write the names of processes and threads, and the end of the file."""
        super().finish()
        lines = self._metadata()
        if lines:
            self._write(ByteColumn.of(lines))
        wall_clock = self._registry.wall_clock
        base = b"" if wall_clock is None else b',"baseTimeNanoseconds":%d' % wall_clock
        labels = [self._json(name) + b":" + self._json(text) for name, text in self._registry.labels.items()]
        other = b',"otherData":{%b}' % b",".join(labels) if labels else b""
        self._sink.write((b"" if self._separator == _SEPARATOR else self._separator) + b"]" + base + other + b"}\n")

    def _json(self, text: str) -> bytes:
        return json.dumps(plain(text, self.losses), ensure_ascii=False).encode()

    def _write(self, *lines: ByteColumn | bytes) -> None:
        """Write events, of which the texts are given in columns."""
        count = max(len(each) for each in lines if isinstance(each, ByteColumn))
        data = joined(count, _SEPARATOR, *lines).data
        self._sink.write(self._separator)
        self._sink.write(data[len(_SEPARATOR) :].data)
        self._separator = _SEPARATOR

    def _write_events(self, events: Events, arguments: ArgumentRows) -> None:
        for rows, portion in portions(events.name, arguments, self._sizes):
            self._write_portion(events.take(np.arange(rows.start, rows.stop)), portion)

    def _sizes(self, names: Array) -> Array:
        return self._names.rows(names).size

    def _write_portion(self, events: Events, rows: ArgumentRows) -> None:
        count = len(events)
        step, name, category = events.step, events.name.astype(np.int64), events.category.astype(np.int64)
        flows, complete = np.flatnonzero(step == SpanStep.FLOW), np.flatnonzero(step == SpanStep.COMPLETE)
        if len(flows):
            name[flows], category[flows] = np.array(self._flow_labels(events.take(flows))).T
        named = np.flatnonzero(category >= 0)
        head, extra = self._phases(events)
        ids = joined(len(flows), hexadecimals(events.id[flows]), b'","bp":"e"')
        self._write(
            head,
            thousandths(events.time),
            extra,
            thousandths((events.end - events.time)[complete]).spread(complete, count),
            ids.spread(flows, count),
            self._tracks.rows(events.track),
            b',"name":',
            self._names.rows(name),
            joined(len(named), b',"cat":', self._names.rows(category[named])).spread(named, count),
            self._arguments_of(rows, count),
            b"}",
        )

    def _phases(self, events: Events) -> tuple[ByteColumn, ByteColumn]:
        """Return the starts of events up to their times, and the starts of what follows the times."""
        step, detail = events.step.astype(np.int64), events.detail
        is_thread = self._registry.track_kinds(events.track) == TrackKind.THREAD
        phase = step + _ASYNC * ~is_thread
        extra = np.zeros(len(events), np.int64)
        extra[step == SpanStep.COMPLETE] = _DURATION
        for kind, column, first in ((SpanStep.FLOW, phase, _FLOW), (SpanStep.INSTANT, extra, _SCOPE)):
            rows = np.flatnonzero((step == kind) & (is_thread | (kind == SpanStep.FLOW)))
            column[rows] = first + detail[rows]
        extra[step == SpanStep.FLOW] = _ID
        return _HEADS.take(phase), _EXTRAS.take(extra)

    def _track_fields(self, track: int) -> bytes:
        """Return the fields that the events of a track have."""
        info = self._registry.track_info(track)
        fields = b',"pid":%d,"tid":%d' % (info.pid, info.tid)
        if info.kind == TrackKind.ASYNC and self._track_of_id.setdefault(info.id, track) == track:
            return fields + b',"id":"0x%x"' % info.id
        return fields if info.kind == TrackKind.THREAD else fields + b',"id":"track %d"' % track

    def _arguments_of(self, rows: ArgumentRows, count: int) -> ByteColumn:
        """Return the field `args` of this many events."""
        is_first, is_last = np.ones((2, len(rows)), bool)
        is_first[1:] = is_last[:-1] = rows.row[1:] != rows.row[:-1]
        items = joined(
            len(rows),
            _ARGUMENT_HEADS.take(is_first.astype(np.int8)),
            self._names.rows(rows.name),
            b":",
            *by_kind(rows, self._converters),
            _ARGUMENT_ENDS.take(is_last.astype(np.int8)),
        )
        return items.grouped(rows.row, count)

    def _make_converters(self) -> dict[ArgumentKind, Converter]:
        """Return for each type of arguments a function that returns their values as JSON."""
        return {
            ArgumentKind.NULL: lambda rows: joined(len(rows), b"null"),
            ArgumentKind.INTEGER: lambda rows: decimals(rows.bits.view(np.int64)),
            ArgumentKind.UNSIGNED: lambda rows: decimals(rows.bits),
            ArgumentKind.NUMBER: self._numbers,
            ArgumentKind.TEXT: lambda rows: self._names.rows(rows.text),
            ArgumentKind.POINTER: lambda rows: self._losing(joined(len(rows), b'"0x', hexadecimals(rows.bits), b'"')),
            ArgumentKind.KOID: lambda rows: self._losing(decimals(rows.bits)),
            ArgumentKind.BOOLEAN: lambda rows: _BOOLEANS.take((rows.bits != 0).astype(np.int8)),
        }

    def _losing(self, values: ByteColumn) -> ByteColumn:
        """Return values, and count that their types are lost."""
        self.losses[_KINDS] += len(values)
        return values

    def _numbers(self, rows: ArgumentRows) -> ByteColumn:
        values = rows.bits.view(np.float64)
        self.losses[_KINDS] += int((~np.isfinite(values)).sum())
        return ByteColumn.of(
            [repr(each).encode() if math.isfinite(each) else b'"%b"' % repr(each).encode() for each in values.tolist()]
        )

    def _write_counters(self, counters: Table) -> None:
        is_finite = np.isfinite(counters["value"])
        self.losses["values of counters that are not finite"] += int((~is_finite).sum())
        finite = np.flatnonzero(is_finite)
        for rows in row_ranges(len(finite)):
            time, track, value = (counters[name][finite[rows]] for name in ("time", "track", "value"))
            self._write(
                b'{"ph":"C","ts":',
                thousandths(time),
                self._counter_tracks.rows(track),
                b',"args":{"value":',
                ByteColumn.of([repr(each).encode() for each in value.tolist()]),
                b"}}",
            )

    def _counter_fields(self, track: int) -> bytes:
        """Return the fields that the values of a counter have."""
        info = self._registry.track_info(track)
        number = b',"id":"0x%x"' % info.id if info.id else b""
        return b',"pid":%d,"name":%b%b' % (info.pid, self._json(info.name or ""), number)

    def _write_logs(self, logs: Table) -> None:
        columns = (logs["time"], logs["thread"], logs["level"].codes, logs["message"].codes)
        for rows in row_ranges(logs.num_rows, self._sizes(logs["message"].codes)):
            time, thread, level, message = (each[rows] for each in columns)
            levels = self._names.rows(level)
            named = np.flatnonzero(levels.size > len('""'))
            self._write(
                b'{"ph":"i","ts":',
                thousandths(time),
                b',"s":"t"',
                self._threads.rows(thread),
                b',"name":',
                self._names.rows(message),
                b',"cat":"log"',
                joined(len(named), b',"args":{"level":', levels.take(named), b"}").spread(named, len(time)),
                b"}",
            )

    def _thread_fields(self, thread: int) -> bytes:
        """Return the fields that the messages of a thread have."""
        info = self._registry.thread_info(thread)
        return b',"pid":%d,"tid":%d' % (info.pid, info.tid)

    def _metadata(self) -> list[bytes]:
        """Return the names of processes and threads."""
        tables = self._registry.tables()
        processes, threads = tables["processes"], tables["threads"]
        pids = processes["pid"]
        rows = [("process_name", pids, np.zeros(len(pids), np.int64), processes["name"].codes)]
        rows += [("thread_name", pids[threads["process"]], threads["tid"], threads["name"].codes)]
        lines = []
        for kind, pid, tid, code in rows:
            named = np.flatnonzero(code >= 0)
            names = self._names.rows(code[named]).strings()
            for each, number, name in zip(pid[named].tolist(), tid[named].tolist(), names, strict=True):
                lines.append(
                    b'{"ph":"M","name":"%b","pid":%d,"tid":%d,"args":{"name":%b}}' % (kind.encode(), each, number, name)
                )
        return lines


_SEPARATOR = b",\n"
_BOOLEANS = ByteColumn.of([b"false", b"true"])
_ARGUMENT_HEADS = ByteColumn.of([b",", b',"args":{'])
_ARGUMENT_ENDS = ByteColumn.of([b"", b"}"])
