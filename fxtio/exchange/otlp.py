"""OTLP JSON lines: spans of OpenTelemetry as the file exporter of its collector writes them, a request in each line.

Processes are resources, categories are scopes, and the outermost slices are the roots of traces.

https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import partial
from hashlib import blake2b
from typing import Any, ClassVar

import msgspec
import numpy as np

from fxtio._native.constants import SliceState
from fxtio.exchange import Exchange
from fxtio.exchange.gathered import OTHER_TABLES
from fxtio.exchange.otlp_reader import ERROR, STATE, parts
from fxtio.io.sink import Sink
from fxtio.table import Table
from fxtio.timeline.arguments import ArgumentRows, Arguments
from fxtio.timeline.losses import Texts, count_lost, plain
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import LABELS, ArgumentKind

__all__ = ["EXCHANGE", "NOT_CARRIED", "Exporter", "parts"]

Array = np.ndarray[Any, Any]

NOT_CARRIED = (
    "samples, allocations, counters, flows, logs, scheduling",
    "instants that are in no slice",
    "whether an integer is unsigned, a pointer, or a koid",
)
"""The content of a timeline that a file does not have."""

MAX_WAITING = 1_000_000
"""The most instants that wait for the end of the slice that they are in; further ones are left out."""

_LOST = {name: phrase for name, phrase in OTHER_TABLES.items() if name not in ("args", "instants")} | {
    "samples": "samples",
    "allocations": "allocations",
}
_STATES = LABELS["slices", "state"]
_SPANS = 1000
"""The most spans in a line."""

_INTERNAL = 1
"""The kind of a span within a program."""


def _sniff(head: bytes) -> bool:
    return head.lstrip().startswith(b"{") and b'"resourceSpans"' in head


EXCHANGE = Exchange("otlp", "OTLP JSON lines", __name__, (".otlp.jsonl", ".otlp.json", ".otlp"), _sniff)


class Exporter:
    """Writes slices as spans, and the instants in them as events, see `fxtio.formats.Exporter`.

    Spans are written when they have ended.  The ids of traces differ between timelines.
    """

    TABLES: ClassVar[tuple[str, ...]] = ("slices", "instants", "args", *_LOST)

    def __init__(self, sink: Sink, registry: Registry) -> None:
        self.losses: Counter[str] = Counter()
        self._sink = sink
        self._registry = registry
        self._arguments = Arguments(registry)
        self._roots = _Roots(registry)
        self._texts: Texts[str] = Texts(registry.names, partial(plain, losses=self.losses))
        self._waiting: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)  # events by the id of their slice
        self._waiting_count = 0
        self._seed = b""

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Write the slices that have ended."""
        self._arguments.enter(tables)
        if "instants" in tables:
            self._wait(tables["instants"])
        if "slices" in tables:
            slices = tables["slices"]
            if not self._seed:
                first = b"".join(slices[name].tobytes() for name in ("start", "duration", "ticks"))
                self._seed = blake2b(first + str(self._registry.names.values).encode("utf-8", "replace")).digest()
            self._write(slices)
        self._arguments.leave(tables)
        count_lost(self.losses, tables, _LOST)

    def finish(self) -> None:
        """Count what belongs to no slice."""
        if self._waiting_count:
            self.losses["instants that are in no slice"] += self._waiting_count

    def _wait(self, instants: Table) -> None:
        """Keep instants until the slices end that they are in."""
        attributes = self._attributes(self._arguments.of(instants["event"]), instants.num_rows)
        rows = zip(instants["slice"].tolist(), instants["time"].tolist(), instants["name"].codes.tolist(), strict=True)
        for row, (around, time, name) in enumerate(rows):
            if around < 0:
                self.losses["instants that are in no slice"] += 1
            elif self._waiting_count >= MAX_WAITING:
                self.losses[f"instants beyond {MAX_WAITING:,} within slices that have not ended"] += 1
            else:
                event: dict[str, Any] = {"timeUnixNano": str(time), "name": self._texts.text(name)}
                if attributes[row]:
                    event["attributes"] = attributes[row]
                self._waiting[around].append(event)
                self._waiting_count += 1

    def _write(self, slices: Table) -> None:
        """Write lines with the spans of slices."""
        roots = self._roots.enter(slices).tolist()
        trace_ids = {root: self._trace_id(root) for root in set(roots)}
        attributes = self._attributes(self._arguments.of(slices["event"], slices["end_event"]), slices.num_rows)
        owners = _Owners(self._registry)
        numbers = [slices[name].tolist() for name in ("id", "parent", "start", "duration", "track")]
        codes = [slices[name].codes.tolist() for name in ("name", "state", "category")]
        resources: dict[int, dict[int, list[Any]]] = {}
        for row, (number, parent, start, duration, track, name, state, category) in enumerate(
            zip(*numbers, *codes, strict=True)
        ):
            span: dict[str, Any] = {"traceId": trace_ids[roots[row]], "spanId": f"{number + 1:016x}"}
            if roots[row] != number:
                span["parentSpanId"] = f"{parent + 1:016x}"
            span["name"] = self._texts.text(name)
            span["kind"] = _INTERNAL
            span["startTimeUnixNano"], span["endTimeUnixNano"] = str(start), str(start + duration)
            span["attributes"] = owners.attributes(track) + attributes[row]
            if state != SliceState.CLOSED:
                span["attributes"].append(_attribute(STATE, {"stringValue": _STATES[state]}))
            if state == SliceState.THROWN:
                span["status"] = {"code": ERROR}
            if number in self._waiting:
                span["events"] = self._waiting.pop(number)
                self._waiting_count -= len(span["events"])
            resources.setdefault(owners.process(track), {}).setdefault(category, []).append(span)
            if row % _SPANS == _SPANS - 1:
                self._write_line(resources, owners)
                resources = {}
        if resources:
            self._write_line(resources, owners)

    def _write_line(self, resources: dict[int, dict[int, list[Any]]], owners: _Owners) -> None:
        """Write the spans of processes and categories."""
        requests = []
        for process, scopes in resources.items():
            named = [({"name": self._texts.text(category)}, spans) for category, spans in scopes.items()]
            scope_spans = [{"scope": scope, "spans": spans} for scope, spans in named]
            requests.append({"resource": {"attributes": owners.resource(process)}, "scopeSpans": scope_spans})
        self._sink.write(msgspec.json.encode({"resourceSpans": requests}) + b"\n")

    def _trace_id(self, root: int) -> str:
        return blake2b(self._seed + str(root).encode(), digest_size=16).hexdigest()

    def _attributes(self, arguments: ArgumentRows, count: int) -> list[list[Any]]:
        """Return the attributes of so many rows."""
        result: list[list[Any]] = [[] for _ in range(count)]
        if not len(arguments):
            return result
        rows, names, kinds = (column.tolist() for column in (arguments.row, arguments.name, arguments.kind))
        values = arguments.values(self._registry.names.values)
        for row, name, kind, value in zip(rows, names, kinds, values, strict=True):
            result[row].append(_attribute(self._texts.text(name), self._value(kind, value)))
        return result

    def _value(self, kind: int, value: Any) -> dict[str, Any]:
        if value is None:
            return {}
        if isinstance(value, str):
            return {"stringValue": self._texts.encode(value)}
        if isinstance(value, bool):
            return {"boolValue": value}
        if isinstance(value, float):
            return {"doubleValue": value if math.isfinite(value) else _NOT_FINITE[str(value)]}
        if kind != ArgumentKind.INTEGER:
            self.losses["types of arguments that are unsigned, pointers, or koids"] += 1
        return {"intValue": str(value)} if value < 1 << 63 else {"stringValue": str(value)}


_NOT_FINITE = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def _attribute(key: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"key": key, "value": value}


class _Roots:
    """The outermost slice around each slice, batch by batch."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._ids = self._known = np.empty(0, np.int64)  # of the slices that had not ended, in order, and their roots

    def enter(self, slices: Table) -> Array:
        """Return the id of the root of each slice that has ended (int64)."""
        waiting = self._registry.open_slices()
        ids, parents, depths = (np.concatenate([slices[name], waiting[name]]) for name in ("id", "parent", "depth"))
        order = np.argsort(ids)
        place = np.minimum(np.searchsorted(ids[order], parents), len(ids) - 1)
        row = np.where(ids[order][place] == parents, order[place], -1)
        roots = ids.copy()
        if len(self._ids):
            place = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
            roots = np.where(self._ids[place] == ids, self._known[place], ids)
        new = np.flatnonzero((roots == ids) & (row >= 0))
        new = new[np.argsort(depths[new], kind="stable")]
        for level in np.split(new, np.flatnonzero(np.diff(depths[new])) + 1):
            roots[level] = roots[row[level]]
        count = slices.num_rows
        self._ids, self._known = ids[count:], roots[count:]
        return roots[:count]


class _Owners:
    """The processes and threads of tracks, as attributes."""

    def __init__(self, registry: Registry) -> None:
        tables = registry.tables()
        self._processes = [*tables["processes"].rows()]
        self._threads = [*tables["threads"].rows()]
        self._tracks = [*tables["tracks"].rows()]
        self._known: dict[int, list[Any]] = {}

    def process(self, track: int) -> int:
        """Return the row of the process of a track, -1 for none."""
        process: int = self._tracks[track]["process"]
        return process

    def attributes(self, track: int) -> list[Any]:
        """Return the attributes of the spans of a track, a new list."""
        known = self._known.get(track)
        if known is None:
            known = self._known[track] = []
            thread = self._tracks[track]["thread"]
            if thread >= 0:
                row = self._threads[thread]
                known.append(_attribute("thread.id", {"intValue": str(row["tid"])}))
                if row["name"]:
                    known.append(_attribute("thread.name", {"stringValue": _plain(row["name"])}))
        return [*known]

    def resource(self, process: int) -> list[Any]:
        """Return the attributes of a process."""
        if process < 0:
            return []
        row = self._processes[process]
        result = [_attribute("process.pid", {"intValue": str(row["pid"])})]
        if row["name"]:
            result.append(_attribute("service.name", {"stringValue": _plain(row["name"])}))
        return result


def _plain(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
