"""Reads OTLP JSON lines: spans become slices on the tracks of their threads, or on tracks of their traces.

Spans come in any order, so their times are kept until the end of the file; attributes are passed on line by line.
Spans of a thread or trace that overlap without one being within the other are put on several tracks.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any, TypeGuard

import msgspec
import numpy as np

from fxtio._native.constants import SliceState, SpanStep
from fxtio.errors import FormatError
from fxtio.exchange.whole import MAX_BYTES
from fxtio.io.source import Source
from fxtio.table import MAX_TIME
from fxtio.timeline.parts import Part, Registry, Steps
from fxtio.timeline.schema import ArgumentKind, TrackKind

Array = np.ndarray[Any, Any]

MAX_LANES = 64
"""The most tracks for the spans of one thread or trace; what overlaps on more of them is shown as overlapping."""

ERROR = 2
"""The code of the status of a span that failed."""

STATE = "fxtio.state"
"""The attribute that has the state of a slice that is not closed."""

MAX_SPANS = 10_000_000
"""The most spans, and the most events of them, that are read."""

MAX_NESTING = 16
"""The most levels of an attribute that are read."""

_CHUNK = 1 << 20
_ROWS = 100_000
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def parts(source: Source, registry: Registry, tables: Set[str]) -> Iterator[Part]:
    """Read a file, see `fxtio.formats.TimelineRoom.parts`.

    Raises:
        FormatError: no line is JSON, and the file is not JSON as a whole either.
    """
    registry.note_wall_clock(0)
    reader = _Reader(registry)
    is_first = True
    for line in _lines(source):
        if not line.strip():
            continue
        try:
            request = msgspec.json.decode(line)
        except _UNREADABLE as error:
            if is_first:
                raise FormatError(f"{source.name} is not OTLP in JSON: {error}") from None
            registry.losses["lines that cannot be read"] += 1
            continue
        is_first = False
        reader.request(request)
        yield Part(tables=reader.arguments())
    yield from reader.spans()
    if source.fault:
        registry.losses[source.fault] += 1


def _lines(source: Source) -> Iterator[bytes]:
    """Yield the lines of a source; a file whose first line is not closed, such as indented JSON, is one line."""
    chunk = memoryview(bytearray(_CHUNK))
    pending = bytearray()
    is_whole = source.head.lstrip().partition(b"\n")[0].count(b"{") == 1 and b"\n" in source.head.strip()
    while count := source.readinto(chunk):
        searched = len(pending)
        pending += chunk[:count]
        if len(pending) > MAX_BYTES:
            raise FormatError(f"{source.name} has a line of more than {MAX_BYTES:,} bytes")
        end = -1 if is_whole else pending.rfind(b"\n", searched)
        if end >= 0:
            yield from bytes(pending[:end]).split(b"\n")
            del pending[: end + 1]
    yield bytes(pending)


class _Reader:
    """The spans of all requests so far."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._groups: dict[tuple[Any, ...], int] = {}
        self._group_rows: list[tuple[int, int, int | None]] = []  # process row, pid, tid of each group
        self._pids: dict[str | None, int] = {}  # of processes that have none
        self._spans: list[tuple[int, int, int, int, int, int, int]] = []
        self._points: list[tuple[int, int, int, int]] = []
        self._row_of: dict[tuple[Any, Any], int] = {}
        self._parents: list[tuple[Any, Any]] = []
        self._arguments: list[tuple[int, int, int, int, int]] = []
        self._event = 0

    def request(self, request: Any) -> None:
        """Take the spans of a line."""
        spans = _items(request, "resourceSpans")
        if not isinstance(request, dict) or "resourceSpans" not in request:
            self._lose("lines without spans, such as those of metrics and logs")
        for resource in spans:
            described = resource.get("resource")
            attributes = _flat(described if isinstance(described, dict) else {})
            pid, process = self._process(attributes)
            for scope in _items(resource, "scopeSpans"):
                named = scope.get("scope")
                category = _text(named.get("name")) if isinstance(named, dict) else None
                for span in _items(scope, "spans"):
                    self._span(span, pid, process, self._registry.names.code(category or None))

    def _process(self, attributes: dict[str, Any]) -> tuple[int, int]:
        """Return pid and row of the process of a resource."""
        pid, name = attributes.get("process.pid"), _text(attributes.get("service.name"))
        number = int(pid) if _is_int64(pid) else self._pids.setdefault(name, len(self._pids) + 1)
        return number, self._registry.process(number, name)

    def _span(self, span: dict[str, Any], pid: int, process: int, category: int) -> None:
        if len(self._spans) >= MAX_SPANS:
            self._lose(f"spans beyond {MAX_SPANS:,}")
            return
        start, end = _time(span.get("startTimeUnixNano")), _time(span.get("endTimeUnixNano"))
        if start is None or end is None:
            self._lose("spans without a time")
            return
        if end < start:
            self._lose("spans that end before they begin, which last 0 ns now")
        attributes = _flat(span)
        trace, thread = _text(span.get("traceId")), attributes.pop("thread.id", None)
        name = _text(attributes.pop("thread.name", None))
        if _is_int64(thread):
            self._registry.thread(pid, thread, name)
            group = self._group((pid, thread), process, pid, thread)
        else:
            group = self._group((pid, None, trace), process, pid, None)
        event = self._next_event(attributes)
        identity = _text(span.get("spanId"))
        if identity is not None:
            self._row_of.setdefault((trace, identity), len(self._spans))
        self._parents.append((trace, _text(span.get("parentSpanId"))))
        code = self._registry.names.code(_text(span.get("name")) or "")
        self._spans.append((group, start, max(start, end), code, category, event, _state(span, attributes)))
        for point in _items(span, "events"):
            self._point(point, len(self._spans) - 1)
        links = len(_items(span, "links"))
        if links:
            self._lose("links between spans", links)

    def _point(self, point: dict[str, Any], span: int) -> None:
        time = _time(point.get("timeUnixNano"))
        if time is None:
            self._lose("events without a time")
            return
        if len(self._points) >= MAX_SPANS:
            self._lose(f"events beyond {MAX_SPANS:,}")
            return
        event = self._next_event(_flat(point))
        self._points.append((span, time, self._registry.names.code(_text(point.get("name")) or ""), event))

    def _group(self, key: tuple[Any, ...], process: int, pid: int, tid: int | None) -> int:
        number = self._groups.setdefault(key, len(self._group_rows))
        if number == len(self._group_rows):
            self._group_rows.append((process, pid, tid))
        return number

    def _next_event(self, attributes: dict[str, Any]) -> int:
        """Return the number of a new event with these arguments."""
        event = self._event
        self._event += 1
        code = self._registry.names.code
        for name, value in attributes.items():
            if name == STATE:
                continue
            kind, bits, text = _argument(value)
            self._arguments.append((event, code(name), kind, bits, code(text)))
        return event

    def arguments(self) -> dict[str, Any]:
        """Return the arguments since the last call, as a table."""
        if not self._arguments:
            return {}
        event, name, kind, bits, text = zip(*self._arguments, strict=True)
        self._arguments.clear()
        columns = {"event": event, "name": name, "type": kind, "bits": np.array(bits, np.uint64), "text": text}
        return {"args": self._registry.columns("args", columns)}

    def spans(self) -> Iterator[Part]:
        """Yield all spans and their events in the order of time."""
        if not self._spans:
            return
        group, start, end, name, category, event, state = np.array(self._spans, np.int64).T
        parent = np.array([self._row_of.get(key, -1) for key in self._parents], np.int64)
        depth = self._depth(parent)
        lanes = self._lanes(group, start, end, depth, parent)
        track = self._tracks(group, lanes, name, np.lexsort((depth, -end, start)))
        points = np.array(self._points, np.int64).reshape(-1, 4)
        steps = Steps.blank(len(start) + len(points))
        spans, rest = slice(0, len(start)), slice(len(start), None)
        steps.step[spans], steps.step[rest] = SpanStep.COMPLETE, SpanStep.INSTANT
        steps.time[spans], steps.end[spans], steps.category[spans] = start, end, category
        steps.name[spans], steps.event[spans], steps.detail[spans], steps.track[spans] = name, event, state, track
        steps.track[rest], steps.time[rest] = track[points[:, 0]], points[:, 1]
        steps.name[rest], steps.event[rest] = points[:, 2], points[:, 3]
        steps.ticks = steps.time.view(np.uint64)
        depth = np.concatenate([depth, np.zeros(len(points), np.int64)])
        order = np.lexsort((depth, -steps.end, steps.step, steps.time))
        for first in range(0, len(order), _ROWS):
            yield Part(steps.take(order[first : first + _ROWS]))

    def _depth(self, parent: Array) -> Array:
        """Return the number of spans around each span, up to a limit, for the order of those with equal times."""
        depth = np.zeros(len(parent), np.int64)
        for _ in range(MAX_LANES):
            deeper = np.where(parent >= 0, depth[parent] + 1, 0)
            if np.array_equal(deeper, depth):
                break
            depth = deeper
        return depth

    def _lanes(self, group: Array, start: Array, end: Array, depth: Array, parent: Array) -> Array:
        """Return for each span the number of the track among those of its group.

        On a thread, a span is within another one if its times are; in a trace only if that one is its parent.
        """
        order = np.lexsort((depth, -end, start, group))
        lanes = np.zeros(len(group), np.int64)
        is_thread = [tid is not None for *_, tid in self._group_rows]
        stacks: list[list[tuple[int, int]]] = []  # for each track the ends and rows of its open spans
        latest = -1
        columns = (order, group[order], start[order], end[order], parent[order])
        for row, number, begin, until, outer in zip(*(column.tolist() for column in columns), strict=True):
            if number != latest:
                stacks, latest = [], number
            for lane, stack in enumerate(stacks):
                while stack and stack[-1][0] <= begin:
                    stack.pop()
                fits = not stack or (stack[-1][0] >= until and (is_thread[number] or stack[-1][1] == outer))
                if fits or lane == MAX_LANES - 1:
                    stack.append((until, row))
                    lanes[row] = lane
                    break
            else:
                lanes[row] = len(stacks)
                stacks.append([(until, row)])
        return lanes

    def _tracks(self, group: Array, lanes: Array, name: Array, order: Array) -> Array:
        """Return the track of each span (int32); a track without a thread is named after its first span."""
        numbers = group * MAX_LANES + lanes
        keys, first = np.unique(numbers[order], return_index=True)
        tracks = []
        for key, row in zip(keys.tolist(), first.tolist(), strict=True):
            process, pid, tid = self._group_rows[key // MAX_LANES]
            lane = key % MAX_LANES
            if tid is not None and lane == 0:
                tracks.append(self._registry.thread_track(pid, tid))
            else:
                tracks.append(
                    self._registry.track(
                        TrackKind.ASYNC, ("otlp", key), name=int(name[order[row]]), process=process, id=key
                    )
                )
        return np.array(tracks, np.int32)[np.searchsorted(keys, numbers)]

    def _lose(self, what: str, count: int = 1) -> None:
        self._registry.losses[what] += count


def _is_int64(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and -(1 << 63) <= value < 1 << 63


def _items(parent: Any, name: str) -> list[dict[str, Any]]:
    """Return the objects of a list in an object; nothing if there is none."""
    values = parent.get(name) if isinstance(parent, dict) else None
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _time(value: Any) -> int | None:
    """Return a time in ns, which JSON has as a string or as a number; None if it is none."""
    if isinstance(value, str):
        if not value.isascii() or not value.isdigit() or len(value) > 20:
            return None
        return min(int(value), MAX_TIME)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    return int(min(value, MAX_TIME))


def _state(span: dict[str, Any], attributes: dict[str, Any]) -> int:
    status = span.get("status")
    if isinstance(status, dict) and status.get("code") in (ERROR, "STATUS_CODE_ERROR"):
        return SliceState.THROWN
    return SliceState.OPEN if attributes.get(STATE) == "open" else SliceState.CLOSED


def _flat(parent: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of an object: None, int, float, bool or str by name; those of lists by `name.number`."""
    result: dict[str, Any] = {}
    for each in _items(parent, "attributes"):
        key, value = each.get("key"), each.get("value")
        _add(result, key if isinstance(key, str) else str(key), value)
    return result


def _add(result: dict[str, Any], key: str, attribute: Any) -> None:
    """Add an attribute, or those in it."""
    waiting: list[tuple[str, int, Any]] = [(key, 0, attribute)]
    while waiting:
        name, depth, value = waiting.pop()
        if not isinstance(value, dict) or depth > MAX_NESTING:
            result[name] = None
        elif isinstance(value.get("kvlistValue"), dict):
            items = _items(value["kvlistValue"], "values")
            waiting += [(f"{name}.{each.get('key', '')}", depth + 1, each.get("value")) for each in reversed(items)]
        elif isinstance(value.get("arrayValue"), dict):
            items = _items(value["arrayValue"], "values")
            waiting += [(f"{name}.{at}", depth + 1, each) for at, each in reversed([*enumerate(items)])]
        else:
            result[name] = _scalar(value)


def _scalar(value: dict[str, Any]) -> Any:
    """Return an attribute that is not a list."""
    for kind, number in value.items():
        if kind == "intValue":
            try:
                return number if type(number) is int else int(number) if len(str(number)) < 30 else None
            except (TypeError, ValueError, OverflowError):
                return None
        if kind == "doubleValue":
            try:
                return float(number)
            except (TypeError, ValueError):
                return None
        if kind in ("stringValue", "bytesValue") and isinstance(number, str):
            return number
        if kind == "boolValue" and isinstance(number, bool):
            return number
    return None


def _argument(value: Any) -> tuple[int, int, str | None]:
    """Return the type, the bits and the text of an argument."""
    if isinstance(value, bool):
        return ArgumentKind.BOOLEAN, int(value), None
    if isinstance(value, int):
        if _is_int64(value):
            return ArgumentKind.INTEGER, value % (1 << 64), None
        return (ArgumentKind.UNSIGNED, value, None) if 0 <= value < 1 << 64 else (ArgumentKind.TEXT, 0, str(value))
    if isinstance(value, float):
        return ArgumentKind.NUMBER, int(np.float64(value).view(np.uint64)), None
    return (ArgumentKind.NULL, 0, None) if value is None else (ArgumentKind.TEXT, 0, value)
