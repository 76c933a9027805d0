"""Trace event JSON, as Chrome's tracing had it: written by VizTracer, torch.profiler, browsers; read by Perfetto.

`fxtio.exchange.chrome_reader` reads it.  The exporter writes one event to a line.  Times are microseconds with three
decimals, so they are exact.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.exchange import Exchange
from fxtio.table import Table
from fxtio.timeline import replay, spans
from fxtio.timeline.arguments import ArgumentRows, Arguments
from fxtio.timeline.losses import Texts, count_lost, plain
from fxtio.timeline.parts import MAX_NAMES, Part, Registry
from fxtio.timeline.replay import Events, Replay
from fxtio.timeline.schema import FLOW_TYPES, ArgumentKind, TrackKind
from fxtio.timeline.spans import Spans, merged

if TYPE_CHECKING:
    from fxtio.io.sink import Sink
    from fxtio.io.source import Source

Array = np.ndarray[Any, Any]


NOT_CARRIED = (
    "scheduling and wakeups, allocations; weights and processors of samples, which become spans between samples",
    "the types of arguments that are koids, pointers, or numbers that are not finite",
    "names of points of flows that differ from that of the first point",
)
"""The content of a timeline that a file does not have."""


def _sniff(head: bytes) -> bool:
    """Return whether a file begins with an object or an array of events."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] == b"[":
        return start[1:].lstrip()[:1] in (b"{", b"]", b"") and (b'"ph"' in head or len(start) < len(b"[{}]"))
    return start[:1] == b"{" and b'"traceEvents"' in head


EXCHANGE = Exchange("chrome", "Chrome trace event JSON", __name__, (".json",), _sniff)

_PHASES = {SpanStep.BEGIN: "B", SpanStep.END: "E", SpanStep.COMPLETE: "X", SpanStep.INSTANT: "i"}
_ASYNC_PHASES = {SpanStep.BEGIN: "b", SpanStep.END: "e", SpanStep.INSTANT: "n"}
_FLOW_PHASES = {"begin": "s", "step": "t", "end": "f"}
_SCOPES = ("t", "p", "g")
_LOST = {
    "allocations": "allocations",
    "scheduling": "intervals in which a thread ran on a processor",
    "wakeups": "wakeups of threads",
}
_KINDS = "types of arguments that are pointers, koids, or not finite"
_FLOW_NAMES = "names of points of flows, which have that of the first point now"


def parts(source: Source, registry: Registry, tables: Set[str]) -> Iterator[Part]:
    """Read a file, see `fxtio.formats.TimelineRoom.parts`."""
    from fxtio.exchange.chrome_reader import parts as read

    return read(source, registry, tables)


class Exporter:
    """Writes trace event JSON, see `fxtio.formats.Exporter`."""

    TABLES: ClassVar[tuple[str, ...]] = (*replay.TABLES, *spans.TABLES, "args", "counters", "logs", *_LOST)

    def __init__(self, sink: Sink, registry: Registry) -> None:
        self.losses: Counter[str] = Counter()
        self._sink = sink
        self._registry = registry
        self._replay = Replay(registry)
        self._spans = Spans(registry)
        self._arguments = Arguments()
        self._texts = Texts(registry.names, self._json)
        self._owners: list[tuple[TrackKind, str]] = []  # of each track: its kind, and the fields of all its events
        self._flows: dict[tuple[int, int], str] = {}  # name and category of the first point of each flow
        self._separator = '{"displayTimeUnit":"ns","traceEvents":[\n'

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Write the rows of a batch."""
        self._arguments.enter(tables)
        events = merged(self._replay.enter(tables), self._spans.enter(tables))
        if events is not None:
            self._write(self._events(events))
        self._arguments.leave(tables)
        if "counters" in tables:
            self._write(self._counters(tables["counters"]))
        if "logs" in tables:
            self._write(self._logs(tables["logs"]))
        count_lost(self.losses, tables, _LOST)

    def finish(self) -> None:
        """Write the names of processes and threads, and the end of the file."""
        events = self._spans.finish()
        if events is not None:
            self._write(self._events(events))
        self._write(self._metadata())
        self._sink.write(b"]}\n" if self._separator == ",\n" else f"{self._separator}]}}\n".encode())
        self._replay.note_losses(self.losses)
        self._spans.note_losses(self.losses)

    def _json(self, text: str) -> str:
        return json.dumps(plain(text, self.losses), ensure_ascii=False)

    def _write(self, lines: Sequence[str]) -> None:
        if lines:
            self._sink.write((self._separator + ",\n".join(lines)).encode())
            self._separator = ",\n"

    def _events(self, events: Events) -> list[str]:
        """Return events as JSON."""
        args = self._arguments_of(events)
        owner = self._owner
        labels = self._labels(events)
        lines = []
        columns = (events.step, events.track, events.time, events.end, events.detail, events.id)
        for row, (step, track, time, end, detail, number) in enumerate(
            zip(*(c.tolist() for c in columns), strict=True)
        ):
            kind, fields = owner(track)
            extra = ""
            if step == SpanStep.FLOW:
                flow = FLOW_TYPES[detail]
                phase = _FLOW_PHASES[flow]
                label = self._flow_label(track, number, flow, labels[row])
                extra = f',"id":"{number:#x}","bp":"e"'
            else:
                phase, label = (_PHASES if kind == TrackKind.THREAD else _ASYNC_PHASES)[step], labels[row]
                if step == SpanStep.COMPLETE:
                    extra = f',"dur":{_micros(end - time)}'
                elif phase == "i":
                    extra = f',"s":"{_SCOPES[detail]}"'
            lines.append(f'{{"ph":"{phase}","ts":{_micros(time)}{extra},{fields},{label}{args.get(row, "")}}}')
        return lines

    def _owner(self, track: int) -> tuple[TrackKind, str]:
        """Return the kind of a track, and the fields that its events have."""
        while len(self._owners) <= track:
            info = self._registry.track_info(len(self._owners))
            fields = f'"pid":{info.pid},"tid":{info.tid}'
            if info.kind == TrackKind.ASYNC:
                fields += f',"id":"{info.id:#x}"'
            elif info.kind != TrackKind.THREAD:
                fields += f',"id":"track {len(self._owners)}"'
            self._owners.append((info.kind, fields))
        return self._owners[track]

    def _labels(self, events: Events) -> list[str]:
        """Return the fields `name` and `cat` of each event."""
        pairs = events.category.astype(np.int64) * MAX_NAMES + events.name
        _, first, place = np.unique(pairs, return_index=True, return_inverse=True)
        text = self._texts.text
        names, categories = events.name[first].tolist(), events.category[first].tolist()
        labels = [
            f'"name":{text(name)}' + (f',"cat":{text(category)}' if category >= 0 else "")
            for name, category in zip(names, categories, strict=True)
        ]
        return [labels[each] for each in place.tolist()]

    def _flow_label(self, track: int, number: int, flow: str, label: str) -> str:
        """Return the name of a point of a flow: readers connect only points with the same name."""
        key = (self._registry.track_info(track).process, number)
        if flow == "begin":
            self._flows[key] = label
        first = self._flows.get(key, label)
        if flow == "end":
            self._flows.pop(key, None)
        if first != label:
            self.losses[_FLOW_NAMES] += 1
        return first

    def _arguments_of(self, events: Events) -> dict[int, str]:
        """Return the field `args` of the events that have arguments."""
        rows = self._arguments.of(events.event, events.end_event)
        text = self._texts.text
        items: dict[int, list[str]] = {}
        for row, name, value in zip(rows.row.tolist(), rows.name.tolist(), self._values(rows), strict=True):
            items.setdefault(row, []).append(f"{text(name)}:{value}")
        return {row: f',"args":{{{",".join(each)}}}' for row, each in items.items()}

    def _values(self, rows: ArgumentRows) -> list[str]:
        """Return arguments as JSON."""
        result = []
        text = self._texts.text
        for kind, code, value in zip(
            rows.kind.tolist(), rows.text.tolist(), rows.values(self._registry.names.values), strict=True
        ):
            if kind == ArgumentKind.TEXT:
                result.append(text(code))
            elif kind == ArgumentKind.POINTER or (kind == ArgumentKind.NUMBER and not math.isfinite(value)):
                result.append(f'"{value:#x}"' if kind == ArgumentKind.POINTER else f'"{value}"')
                self.losses[_KINDS] += 1
            else:
                result.append(json.dumps(value))
                self.losses[_KINDS] += kind == ArgumentKind.KOID
        return result

    def _counters(self, counters: Table) -> list[str]:
        lines = []
        for time, track, value in zip(*(counters[key].tolist() for key in ("time", "track", "value")), strict=True):
            info = self._registry.track_info(track)
            number = f',"id":"{info.id:#x}"' if info.id else ""
            name = self._json(info.name or "")
            if not math.isfinite(value):
                self.losses["values of counters that are not finite"] += 1
                continue
            lines.append(
                f'{{"ph":"C","ts":{_micros(time)},"pid":{info.pid},"name":{name}{number},"args":{{"value":{value!r}}}}}'
            )
        return lines

    def _logs(self, logs: Table) -> list[str]:
        lines = []
        columns = (logs["time"].tolist(), logs["thread"].tolist(), logs["level"].to_list(), logs["message"].to_list())
        for time, thread, level, message in zip(*columns, strict=True):
            info = self._registry.thread_info(thread)
            args = f',"args":{{"level":{self._json(level)}}}' if level else ""
            name = self._json(message or "")
            where = f'"pid":{info.pid},"tid":{info.tid}'
            lines.append(f'{{"ph":"i","ts":{_micros(time)},"s":"t",{where},"name":{name},"cat":"log"{args}}}')
        return lines

    def _metadata(self) -> list[str]:
        """Return the names of processes and threads."""
        tables = self._registry.tables()
        pids, lines = tables["processes"]["pid"].tolist(), []
        for pid, name in zip(pids, tables["processes"]["name"].codes.tolist(), strict=True):
            if name >= 0:
                lines.append(_name_event("process_name", pid, 0, self._texts.text(name)))
        threads = tables["threads"]
        columns = (threads["tid"].tolist(), threads["process"].tolist(), threads["name"].codes.tolist())
        for tid, process, name in zip(*columns, strict=True):
            if name >= 0:
                lines.append(_name_event("thread_name", pids[process], tid, self._texts.text(name)))
        return lines


def _name_event(kind: str, pid: int, tid: int, name: str) -> str:
    return f'{{"ph":"M","name":"{kind}","pid":{pid},"tid":{tid},"args":{{"name":{name}}}}}'


def _micros(time: int) -> str:
    """Return nanoseconds as microseconds."""
    whole, rest = divmod(time, 1000)
    return f"{whole}.{rest:03d}"
