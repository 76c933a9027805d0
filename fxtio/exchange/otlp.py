"""OTLP JSON lines: spans of OpenTelemetry as the file exporter of its collector writes them, a request in each line.

Processes are resources, categories are scopes, and the outermost slices are the roots of traces.  Times are wall-clock
times, or those of the trace's clock where it has no wall clock.  Where a function is defined, which a recording says
once, each of its spans says with the attributes `code.*` of the semantic conventions.

https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import starmap
from typing import Any, ClassVar

import msgspec
import numpy as np

from fxtio import otel
from fxtio._native.constants import SliceState
from fxtio.arrays import Array
from fxtio.codec.byte_columns import ByteColumn, ByteTable, decimals, joined
from fxtio.codec.integers import MAX_INT64
from fxtio.exchange.formatting import Converter, by_kind, portions
from fxtio.exchange.otlp_ids import Ids, SpanIds
from fxtio.exchange.otlp_reader import ERROR, STATE, parts
from fxtio.exchange.otlp_spans import ATTRIBUTES, EVENTS, LINKS, MEMBERS, Facts
from fxtio.io.sink import Sink
from fxtio.table import Table
from fxtio.timeline.answers.places import (
    AWAITED,
    CODE_FILE,
    CODE_FUNCTION,
    CODE_LINE,
    RECORDED_NAMES,
    Place,
    Places,
    place_of,
)
from fxtio.timeline.arguments import ArgumentRows, Arguments
from fxtio.timeline.losses import count_lost, plain
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import LABELS, ArgumentKind
from fxtio.timeline.stacks import SliceNodes

__all__ = ["NOT_CARRIED", "Exporter", "parts"]

NOT_CARRIED = (
    "samples, allocations, counters, flows, logs, scheduling",
    "instants that are in no slice",
    "whether an integer is unsigned, a pointer, or a koid",
)
"""The content of a timeline that a file does not have."""

MAX_WAITING = 1_000_000
"""The most instants that wait for the end of the slice that they are in; further ones are left out."""

_LOST = ("flow_points", "counters", "logs", "scheduling", "wakeups", "samples", "allocations")
_STATES = LABELS["slices", "state"]
_SPANS = 1000
"""The most spans in a line."""


def sniff(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is of this format."""
    return head.lstrip().startswith(b"{") and b'"resourceSpans"' in head


class Exporter:
    """Writes slices as spans, and the instants in them as events, see `fxtio.formats.Exporter`.

    Spans are written when they have ended.  The ids of traces differ between timelines.
    """

    TABLES: ClassVar[tuple[str, ...]] = ("slices", "instants", "args", *_LOST)
    WRITES_LABELS: ClassVar = True

    def __init__(self, sink: Sink, registry: Registry) -> None:
        self.losses: Counter[str] = Counter()
        self._sink = sink
        self._registry = registry
        self._arguments = Arguments(registry)
        self._places = Places(registry, RECORDED_NAMES)
        self._roots = SliceNodes(lambda ids, root, _: np.where(root < 0, ids, root))
        self._owners = _Owners(registry)
        values = registry.names.values
        self._names = ByteTable(lambda code: msgspec.json.encode(plain(values[code], self.losses)), b'""')
        self._facts = Facts(registry.names)
        # For each member the parts of it with their numbers, by the number of their slice or by the id of its span.
        self._waiting: dict[str, defaultdict[int | bytes, list[tuple[int, bytes]]]] = {
            name: defaultdict(list) for name in MEMBERS
        }
        self._waiting_count = self._part = 0
        self._has_owners = False
        self._ids: Ids | None = None
        self._wall_clock: int | None = None
        self._converters = self._make_converters()

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Write the slices that have ended."""
        if self._wall_clock is None:  # the first batch decides
            self._wall_clock = self._registry.wall_clock or 0
        self._arguments.enter(tables)
        self._places.enter(tables)
        if "instants" in tables:
            self._wait(tables["instants"], tables.get("slices"))
        if "slices" in tables:
            slices = tables["slices"]
            for each in (slices, self._registry.open_slices()):  # one around those that have ended may say it
                self._places.note(each)
            if self._ids is None:
                self._ids = Ids(slices, self._registry)
            self._write(slices, self._ids)
        self._arguments.leave(tables)
        self._places.leave(tables)
        count_lost(self.losses, tables, _LOST)

    def finish(self) -> None:
        """Count what belongs to no slice."""
        self.losses[_ALONE] += self._waiting_count
        if self._registry.wall_clock not in (None, self._wall_clock):
            self.losses[_LATE_CLOCK] += 1

    def _sizes(self, names: Array) -> Array:
        return self._names.rows(names).size

    def _wait(self, instants: Table, slices: Table | None) -> None:
        """Keep instants until the slices end that they are in, which may be slices that come with them."""
        # `fitting` are the rows that are kept, as many as there is room for; later arrays have one item for each.
        inside = np.flatnonzero(instants["slice"] >= 0)
        fitting = inside[: MAX_WAITING - self._waiting_count]
        self.losses[_ALONE] += instants.num_rows - len(inside)
        self.losses[f"instants beyond {MAX_WAITING:,} within slices that have not ended"] += len(inside) - len(fitting)
        self._waiting_count += len(fitting)
        around, names = instants["slice"][fitting], instants["name"].codes[fitting]
        arguments = self._arguments.of(instants["event"][fitting])
        spans: set[bytes] = set()
        if self._facts.have_owners(arguments):
            for each in (self._registry.open_slices(), *([] if slices is None else [slices])):
                spans |= self._facts.span_ids(self._arguments.of(each["event"], each["end_event"]))
        for rows, portion in portions(names, arguments, self._sizes):
            count = rows.stop - rows.start
            facts = self._facts.of_instants(names[rows], portion, spans)
            self._has_owners |= any(facts.owner)
            attributes = self._attributes(facts.arguments, count, np.zeros(count, bool))
            present = np.flatnonzero(attributes.size)
            listed = joined(len(present), b',"attributes":[', attributes.take(present), b"]").spread(present, count)
            events, links = facts.rows[EVENTS], facts.rows[LINKS]
            parts_of = {
                EVENTS: joined(
                    len(events),
                    b'{"timeUnixNano":"',
                    self._times(instants["time"][fitting[rows]][events]),
                    b'","name":',
                    self._names.rows(names[rows][events]),
                    listed.take(events),
                    b"}",
                ),
                LINKS: joined(
                    len(links),
                    b'{"traceId":"',
                    facts.trace,
                    b'","spanId":"',
                    facts.span,
                    b'"',
                    listed.take(links),
                    b"}",
                ),
                ATTRIBUTES: attributes.take(facts.rows[ATTRIBUTES]),
            }
            slices = around[rows].tolist()
            for member, column in parts_of.items():
                waiting = self._waiting[member]
                for row, text in zip(facts.rows[member].tolist(), column.strings(), strict=True):
                    waiting[facts.owner[row] or slices[row]].append((self._part, text))
                    self._part += 1

    def _write(self, slices: Table, ids: Ids) -> None:
        """Write lines with the spans of slices."""
        self._owners.update()
        waiting = self._registry.open_slices()
        roots = self._roots.of(slices, waiting, np.append(slices["id"], waiting["id"]))
        arguments = self._arguments.of(slices["event"], slices["end_event"])
        places = self._places_of(slices["name"].codes)
        if places is not None:  # which have the parts of places instead of these arguments
            arguments = arguments.take(~(self._places.are_parts(arguments) & (places.size[arguments.row] > 0)))
        for rows, portion in portions(slices["name"].codes, arguments, self._sizes):
            span_ids = ids.of(slices["id"][rows], slices["parent"][rows], roots[rows], portion)
            owner = self._owners.attributes.rows(slices["track"][rows])
            if places is not None:
                owner = _joined_attributes(owner, places.take(np.arange(rows.start, rows.stop)))
            spans = self._spans(slices, rows, span_ids, owner)
            process = self._registry.track_processes(slices["track"][rows])
            self._write_lines(process, slices["category"].codes[rows], spans)

    def _spans(
        self,
        slices: Table,
        rows: slice,
        span_ids: SpanIds,
        owner: ByteColumn,
    ) -> ByteColumn:
        """Return slices as JSON.

        Args:
            slices: the slices.
            rows: those to return.
            span_ids: their ids and arguments.
            owner: their attributes besides the arguments.
        """
        ids, start, duration = (slices[name][rows] for name in ("id", "start", "duration"))
        name, state = (slices[name].codes[rows] for name in ("name", "state"))
        count = len(ids)
        facts = self._facts.of_slices(name, span_ids.arguments)
        members = {each: self._member(each, ids, span_ids.own) for each in MEMBERS}
        # A list of attributes is `owner`, `attributes`, those of a member, and that of the state; each begins with a
        # comma if there is one before it.
        attributes = self._attributes(facts.arguments, count, owner.size > 0)
        not_closed = np.flatnonzero(state != SliceState.CLOSED)
        states = _STATE_ATTRIBUTES.take(state[not_closed]).spread(not_closed, count)
        late = _joined_attributes(members[ATTRIBUTES], states)
        commas = np.flatnonzero((late.size > 0) & (owner.size + attributes.size > 0))
        status = np.where(state == SliceState.THROWN, ERROR, facts.status)
        inner = np.flatnonzero(span_ids.parent.size)
        return joined(
            count,
            b'{"traceId":"',
            span_ids.trace,
            b'","spanId":"',
            span_ids.own,
            joined(len(inner), b'","parentSpanId":"', span_ids.parent.take(inner)).spread(inner, count),
            b'","name":',
            self._names.rows(facts.name),
            b',"kind":',
            _NUMBERS.take(facts.kind),
            b',"startTimeUnixNano":"',
            self._times(start),
            b'","endTimeUnixNano":"',
            self._times(start + duration),
            b'","attributes":[',
            owner,
            attributes,
            joined(len(commas), b",").spread(commas, count),
            late,
            b"]",
            self._status(status, facts.message),
            *(_list_of(each, members[each]) for each in (EVENTS, LINKS)),
            b"}",
        )

    def _status(self, status: Array, message: Array) -> ByteColumn:
        """Return the field `status`, by its numbers and the codes of reasons."""
        count = len(status)
        rows, told = np.flatnonzero((status > 0) | (message >= 0)), np.flatnonzero(message >= 0)
        messages = joined(len(told), b',"message":', self._names.rows(message[told])).spread(told, count)
        return joined(len(rows), b',"status":{"code":', _NUMBERS.take(status[rows]), messages.take(rows), b"}").spread(
            rows, count
        )

    def _places_of(self, names: Array) -> ByteColumn | None:
        """Return where the functions of slices are defined, as attributes; None if that is not known of any.

        Args:
            names: the codes of the names of the slices.
        """
        places = self._places.found()
        if not places:
            return None
        codes, row = np.unique(names, return_inverse=True)
        values = self._registry.names.values
        texts = [values[code] if code >= 0 else None for code in codes.tolist()]
        return ByteColumn.of(self._place_json(text, place_of(text, places)) for text in texts).take(row)

    def _place_json(self, name: str | None, place: Place | None) -> bytes:
        if name is None or place is None:
            return b""
        attributes = {
            CODE_FUNCTION: {"stringValue": plain(name.removeprefix(AWAITED), self.losses)},
            CODE_FILE: {"stringValue": plain(place.file, self.losses)},
            CODE_LINE: {"intValue": str(place.line)},
        }
        return msgspec.json.encode([{"key": key, "value": value} for key, value in attributes.items()])[1:-1]

    def _times(self, times: Array) -> ByteColumn:
        """Return times as text, as nanoseconds since 1970 if the trace has a wall clock."""
        wall_clock = self._wall_clock or 0
        if wall_clock >= 0:
            return decimals(times.view(np.uint64) + np.uint64(wall_clock))
        self.losses[_BEFORE] += int((times < -wall_clock).sum())
        return decimals(np.maximum(times, -wall_clock) + wall_clock)

    def _member(self, member: str, ids: Array, own: ByteColumn) -> ByteColumn:
        """Return what has waited for slices, by their numbers and by the ids of their spans, with commas between."""
        waiting = self._waiting[member]
        found: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)
        if waiting:
            for keys in (ids.tolist(), own.strings() if self._has_owners else ()):
                for row in [row for row, key in enumerate(keys) if key in waiting]:
                    found[row] += waiting.pop(keys[row])
        rows = sorted(found)
        parts = [sorted(found[row]) if self._has_owners else found[row] for row in rows]
        self._waiting_count -= sum(map(len, parts))
        texts = (b",".join([text for _, text in each]) for each in parts)
        return ByteColumn.of(texts).spread(np.array(rows, np.int64), len(ids))

    def _write_lines(self, process: Array, category: Array, spans: ByteColumn) -> None:
        """Write spans, grouped by processes and categories, up to `_SPANS` in a line."""
        count = len(spans)
        line = np.arange(count) // _SPANS
        resource = _first_of_each(line, process)
        scope = _first_of_each(resource, category)
        order = np.lexsort((scope, resource))
        line, resource, scope = line[order], resource[order], scope[order]
        begins = [np.concatenate([[True], each[1:] != each[:-1]]) for each in (line, resource, scope)]
        # Where a line begins, a resource and a scope begin; so the number of these says which brackets come between.
        level = np.sum(begins, axis=0)
        level[0] = len(_BETWEEN) - 1
        opened, entered = np.flatnonzero(begins[1]), np.flatnonzero(begins[2])
        names = joined(len(entered), b'{"scope":{"name":', self._names.rows(category[order[entered]]), b'},"spans":[')
        self._sink.write(joined(
            count,
            _BETWEEN.take(level),
            self._owners.resources.rows(process[order[opened]]).spread(opened, count),
            names.spread(entered, count),
            spans.take(order),
        ).data.data)  # fmt: skip
        self._sink.write(_LINE_END)

    def _attributes(self, rows: ArgumentRows, count: int, is_after: Array) -> ByteColumn:
        """Return arguments as attributes of this many rows, some of which have others before them (bool)."""
        is_first = np.ones(len(rows), bool)
        is_first[1:] = rows.row[1:] != rows.row[:-1]
        is_first &= ~is_after[rows.row]
        items = joined(
            len(rows),
            _COMMAS.take(is_first.astype(np.int8)),
            b'{"key":',
            self._names.rows(rows.name),
            b',"value":',
            *by_kind(rows, self._converters),
            b"}",
        )
        return items.grouped(rows.row, count)

    def _make_converters(self) -> dict[ArgumentKind, Converter]:
        """Return for each type of arguments a function that returns their values as JSON."""
        others = dict.fromkeys((ArgumentKind.UNSIGNED, ArgumentKind.POINTER, ArgumentKind.KOID), self._unsigned)
        return {
            ArgumentKind.NULL: lambda rows: joined(len(rows), b"{}"),
            ArgumentKind.INTEGER: lambda rows: joined(
                len(rows), b'{"intValue":"', decimals(rows.bits.view(np.int64)), b'"}'
            ),
            ArgumentKind.NUMBER: lambda rows: joined(
                len(rows), b'{"doubleValue":', _numbers(rows.bits.view(np.float64)), b"}"
            ),
            ArgumentKind.TEXT: lambda rows: joined(len(rows), b'{"stringValue":', self._names.rows(rows.text), b"}"),
            ArgumentKind.BOOLEAN: lambda rows: _BOOLEANS.take((rows.bits != 0).astype(np.int8)),
            **others,
        }

    def _unsigned(self, rows: ArgumentRows) -> ByteColumn:
        self.losses[_KINDS] += len(rows)
        heads = _UNSIGNED_HEADS.take((rows.bits > MAX_INT64).astype(np.int8))
        return joined(len(rows), heads, decimals(rows.bits), b'"}')


_BEFORE = "times before 1970, which are 1970 now"
_LATE_CLOCK = "the wall clock, which the source has after its first events"
_ALONE = "instants that are in no slice"
_KINDS = "types of arguments that are unsigned, pointers, or koids"
_COMMAS = ByteColumn.of([b",", b""])
_NUMBERS = ByteColumn.of(b"%d" % number for number in range(len(otel.KINDS) + 1))
_BOOLEANS = ByteColumn.of([b'{"boolValue":false}', b'{"boolValue":true}'])
_UNSIGNED_HEADS = ByteColumn.of([b'{"intValue":"', b'{"stringValue":"'])
_STATE_ATTRIBUTES = ByteColumn.of(
    b'{"key":"%b","value":{"stringValue":"%b"}}' % (STATE.encode(), state.encode()) for state in _STATES
)
_LINE_BEGIN, _LINE_END = b'{"resourceSpans":[', b"]}]}]}\n"
_BETWEEN = ByteColumn.of([b",", b"]},", b"]}]},", _LINE_END + _LINE_BEGIN, _LINE_BEGIN])
"""The text before a span, by how many of its scope, its process and its line begin with it; and before the first."""


def _numbers(values: Array) -> ByteColumn:
    """Return doubles (float64) as JSON."""
    texts = msgspec.json.encode(values.tolist())[1:-1].split(b",") if len(values) else []
    for row in np.flatnonzero(~np.isfinite(values)).tolist():
        texts[row] = b'"%b"' % _NOT_FINITE[str(values[row])]
    return ByteColumn.of(texts)


_NOT_FINITE = {"inf": b"Infinity", "-inf": b"-Infinity", "nan": b"NaN"}


def _joined_attributes(first: ByteColumn, second: ByteColumn) -> ByteColumn:
    """Return the attributes of two columns, one after the other, with a comma between where both have some."""
    count = len(first)
    both = np.flatnonzero((first.size > 0) & (second.size > 0))
    return joined(count, first, joined(len(both), b",").spread(both, count), second)


def _list_of(name: str, items: ByteColumn) -> ByteColumn:
    """Return a field of some spans with these items, of those that have some."""
    rows = np.flatnonzero(items.size)
    return joined(len(rows), b',"%b":[' % name.encode(), items.take(rows), b"]").spread(rows, len(items))


def _first_of_each(group: Array, column: Array) -> Array:
    """Return for each row the first row with the same numbers in both columns (int64)."""
    key = group.astype(np.int64) * (int(column.max(initial=0)) + 2) + column
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    result: Array = first[place]
    return result


class _Owners:
    """The processes and threads of tracks, as JSON.

    Attributes:
        attributes: the attributes of the spans of each track.
        resources: the start of the object of each process.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._labels = 0  # the number of labels, and the names of threads and processes, by which all JSON was made
        self._names: list[list[int]] = [[], []]
        self.attributes = ByteTable(self._attributes)
        self.resources = ByteTable(self._resource, self._resource(-1))

    def update(self) -> None:
        """Note the names that came since."""
        names = [[*self._registry.thread_names()], [*self._registry.process_names()]]
        has_changed = len(self._registry.labels) != self._labels
        has_changed |= any(new[: len(old)] != old for new, old in zip(names, self._names, strict=True))
        self._names, self._labels = names, len(self._registry.labels)
        if has_changed:
            self.attributes = ByteTable(self._attributes)
            self.resources = ByteTable(self._resource, self._resource(-1))

    def _attributes(self, track: int) -> bytes:
        info = self._registry.track_info(track)
        if info.thread < 0:
            return b""
        name = self._registry.thread_info(info.thread).name
        return msgspec.json.encode(_of_owner("thread.id", info.tid, "thread.name", name))[1:-1]

    def _resource(self, process: int) -> bytes:
        attributes = [*starmap(_text_attribute, self._registry.labels.items())]
        if process >= 0:
            name = self._registry.process_names()[process]
            text = self._registry.names.values[name] if name >= 0 else None
            attributes += _of_owner("process.pid", self._registry.process_id(process), "service.name", text)
        return b'{"resource":{"attributes":%b},"scopeSpans":[' % msgspec.json.encode(attributes)


def _of_owner(id_key: str, number: int, name_key: str, name: str | None) -> list[dict[str, Any]]:
    """Return the attributes of a process or thread."""
    number = (number + (1 << 63)) % (1 << 64) - (1 << 63)  # koids from 2**63 on are negative in the type of OTLP
    attributes: list[dict[str, Any]] = [{"key": id_key, "value": {"intValue": str(number)}}]
    return [*attributes, _text_attribute(name_key, name)] if name else attributes


def _text_attribute(name: str, text: str) -> dict[str, Any]:
    name, text = (each.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for each in (name, text))
    return {"key": name, "value": {"stringValue": text}}
