"""Reads OTLP JSON lines: spans become slices on the tracks of their threads, or on tracks of their traces.

Spans come in any order, so their times are kept until the end of the file; attributes are passed on line by line.
Spans of a thread or trace that overlap without one being within the other are put on several tracks.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Set
from typing import Any, TypeGuard

import msgspec
import numpy as np

from fxtio._native.constants import SliceState, SpanStep
from fxtio.arrays import Array
from fxtio.codec.integers import as_double
from fxtio.errors import FormatError
from fxtio.exchange.json_events import UNREADABLE
from fxtio.exchange.otlp_lines import USUAL, KnownAttributes, LineSpan, line_of, times_of
from fxtio.io.source import MAX_BYTES, Source
from fxtio.pairing import pair
from fxtio.table import MAX_TIME
from fxtio.timeline.arguments import argument_of
from fxtio.timeline.parts import Registry, Steps, TimelinePart
from fxtio.timeline.schema import TrackKind

MAX_LANES = 64
"""The most tracks for the spans of one thread or trace; what overlaps on more of them is shown as overlapping."""

ERROR = 2
"""The code of the status of a span that failed."""

STATE = "fxtio.state"
"""The attribute that has the state of a slice that is not closed."""

MAX_SPANS = 4_000_000
"""The most spans, and the most events of them, that are read."""

MAX_VALUES = 4_000_000
"""The most values of a line, counted as commas and opening brackets; some 130,000 spans have this many."""

MAX_NESTING = 16
"""The most levels of an attribute that are read."""

_CHUNK = 1 << 20
_ROWS = 100_000
_SPAN, _POINT = 9, 4
_TIMES = ("startTimeUnixNano", "endTimeUnixNano")
_SPECIAL = ("thread.id", "thread.name", STATE)
"""The attributes that say more than an argument."""

_OF_PROCESS = ("process.pid", "service.name")
"""The attributes of resources that say which process it is."""

_BACKWARDS = "spans that end before they begin, which last 0 ns now"
_LINKS = "links between spans"


def parts(source: Source, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    """Read a file, see `fxtio.formats.TimelineRoom.parts`.

    Raises:
        FormatError: no line is JSON, and the file is not JSON as a whole either.
    """
    registry.note_wall_clock(0)
    reader = _Reader(registry, tables)
    is_first = True
    for line in _lines(source):
        if not line.strip():
            continue
        try:
            if not reader.line(line):
                reader.request(_decoded(line))
        except UNREADABLE as error:
            if is_first:
                raise FormatError(f"{source.name} is not OTLP in JSON: {error}") from None
            registry.losses["lines that cannot be read"] += 1
            continue
        is_first = False
        yield TimelinePart(tables=reader.arguments())
    yield from reader.spans()
    if source.fault:
        registry.losses[source.fault] += 1


def _decoded(line: bytes) -> Any:
    """Return the value of a line.

    Raises:
        msgspec.MsgspecError: it is not JSON, or has too many values.
        RecursionError, UnicodeError: it is not JSON.
    """
    if _is_large(line):
        raise msgspec.ValidationError(f"a line has more than {MAX_VALUES:,} values")
    return msgspec.json.decode(line)


def _is_large(line: bytes) -> bool:
    return len(line) > MAX_VALUES and sum(map(line.count, (b",", b"[", b"{"))) > MAX_VALUES


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

    def __init__(self, registry: Registry, tables: Set[str]) -> None:
        self._registry = registry
        asked = registry.asked_arguments if "args" in tables else ()
        self._attributes = KnownAttributes(None if asked is None else {*asked, *_SPECIAL}, _scalar)
        self._groups: dict[tuple[Any, ...], int] = {}
        self._owners: dict[tuple[int, int], tuple[str | None, int]] = {}  # name and group of each thread
        self._group_rows: list[tuple[int, int, int | None]] = []  # process row, pid, tid of each group
        self._pids: dict[str | None, int] = {}  # of processes that have none
        self._spans = array("q")  # `_SPAN` numbers for each
        self._points = array("q")  # `_POINT` numbers for each
        self._arguments: list[tuple[int, int, int, int, int]] = []
        self._event = 0

    def line(self, text: bytes) -> bool:
        """Take the spans of a line if it is of the usual form; return whether it is."""
        line = None if _is_large(text) else line_of(text)
        if line is None:
            return False
        spans = [scope.spans for resource in line.resourceSpans for scope in resource.scopeSpans]
        points = sum(len(span.events) for each in spans for span in each)
        if max(len(self._spans) // _SPAN + sum(map(len, spans)), len(self._points) // _POINT + points) > MAX_SPANS:
            return False
        for resource in line.resourceSpans:
            pid, process = self._process(_flat(resource.resource))
            for scope in resource.scopeSpans:
                category = _text(scope.scope.get("name"))
                self._usual_spans(scope.spans, pid, process, self._registry.names.code(category or None))
        return True

    def _usual_spans(self, spans: list[LineSpan], pid: int, process: int, category: int) -> None:
        """Take the spans of a scope."""
        start, end = (times_of([getattr(span, name) for span in spans]) for name in _TIMES)
        self._registry.losses[_BACKWARDS] += int((end < start).sum())
        groups, events, states = [], [], []
        for number, span in enumerate(spans, len(self._spans) // _SPAN):
            attributes = self._attributes.of(span)
            if attributes is None:
                attributes = _flat({"attributes": [each.decoded() for each in span.attributes]})
            groups.append(self._owner(attributes, span.traceId, pid, process))
            states.append(_state(span.status.code, attributes) if attributes or span.status is not USUAL else 0)
            events.append(self._next_event(attributes))
            for point in span.events:
                self._point(point, number)
            if span.links:
                self._registry.losses[_LINKS] += len(span.links)
        columns = np.empty((len(spans), _SPAN), np.int64)
        columns[:, 1], columns[:, 2], columns[:, 4] = start, np.maximum(start, end), category
        columns[:, 0], columns[:, 5], columns[:, 6] = groups, events, states
        columns[:, 3] = [*map(self._registry.names.code, [span.name for span in spans])]
        # As `_identity` has it.
        columns[:, 7] = [0 if span.spanId is None else hash((span.traceId, span.spanId)) for span in spans]
        columns[:, 8] = [0 if span.parentSpanId is None else hash((span.traceId, span.parentSpanId)) for span in spans]
        self._spans.frombytes(columns.tobytes())

    def _owner(self, attributes: dict[str, Any], trace: str | None, pid: int, process: int) -> int:
        """Return the group of a span by its attributes, of which it takes those of the thread."""
        thread, name = attributes.pop("thread.id", None), _text(attributes.pop("thread.name", None))
        if not _is_int64(thread):
            return self._group((pid, None, trace), process, pid, None)
        known = self._owners.get((pid, thread))
        if known is None or (name is not None and name != known[0]):
            self._registry.thread(pid, thread, name)
            known = self._owners[pid, thread] = (name, self._group((pid, thread), process, pid, thread))
        return known[1]

    def request(self, request: Any) -> None:
        """Take the spans of a line."""
        spans = _items(request, "resourceSpans")
        if not isinstance(request, dict) or "resourceSpans" not in request:
            self._registry.losses["lines without spans, such as those of metrics and logs"] += 1
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
        """Return pid and row of the process of a resource, whose other attributes are labels of the trace."""
        for label, value in attributes.items():
            if label not in _OF_PROCESS and isinstance(value, str | int | float):
                self._registry.note_label(label, str(value))
        pid, name = attributes.get("process.pid"), _text(attributes.get("service.name"))
        number = int(pid) if _is_int64(pid) else self._pids.setdefault(name, len(self._pids) + 1)
        return number, self._registry.process(number, name)

    def _span(self, span: dict[str, Any], pid: int, process: int, category: int) -> None:
        number = len(self._spans) // _SPAN
        if number >= MAX_SPANS:
            self._registry.losses[f"spans beyond {MAX_SPANS:,}"] += 1
            return
        start, end = _time(span.get("startTimeUnixNano")), _time(span.get("endTimeUnixNano"))
        if start is None or end is None:
            self._registry.losses["spans without a time"] += 1
            return
        if end < start:
            self._registry.losses[_BACKWARDS] += 1
        attributes, trace = _flat(span), _text(span.get("traceId"))
        group = self._owner(attributes, trace, pid, process)
        event = self._next_event(attributes)
        identity, parent = (_identity(trace, span.get(name)) for name in ("spanId", "parentSpanId"))
        code = self._registry.names.code(_text(span.get("name")) or "")
        status = span.get("status")
        state = _state(status.get("code") if isinstance(status, dict) else None, attributes)
        self._spans.extend((group, start, max(start, end), code, category, event, state, identity, parent))
        for point in _items(span, "events"):
            self._point(point, number)
        links = len(_items(span, "links"))
        if links:
            self._registry.losses[_LINKS] += links

    def _point(self, point: dict[str, Any], span: int) -> None:
        time = _time(point.get("timeUnixNano"))
        if time is None:
            self._registry.losses["events without a time"] += 1
            return
        if len(self._points) // _POINT >= MAX_SPANS:
            self._registry.losses[f"events beyond {MAX_SPANS:,}"] += 1
            return
        event = self._next_event(_flat(point))
        self._points.extend((span, time, self._registry.names.code(_text(point.get("name")) or ""), event))

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
            kind, bits, text = argument_of(value)
            self._arguments.append((event, code(name), kind, bits, code(text)))
        return event

    def arguments(self) -> dict[str, Any]:
        """Return the arguments since the last call, as a table."""
        if not self._arguments:
            return {}
        rows, self._arguments = self._arguments, []
        return {"args": self._registry.columns_of_rows("args", rows)}

    def spans(self) -> Iterator[TimelinePart]:
        """Yield all spans and their events in the order of time."""
        if not self._spans:
            return
        spans = np.array(self._spans, np.int64).reshape(-1, _SPAN)
        points = np.array(self._points, np.int64).reshape(-1, _POINT)
        self._spans, self._points = array("q"), array("q")
        group, start, end, name, *_, identity, parent = spans.T
        parent = _rows_of(identity, parent)
        depth = self._depth(parent)
        lanes = self._lanes(group, start, end, depth, parent)
        track = self._tracks(group, lanes, name, np.lexsort((depth, -end, start)))
        # Rows are the spans, then the points; at one time the longest and outermost span is first, and points are last.
        is_point = np.repeat([False, True], [len(spans), len(points)])
        until = np.concatenate([-end, np.zeros(len(points), np.int64)])
        depth = np.concatenate([depth, np.zeros(len(points), np.int64)])
        order = np.lexsort((depth, until, is_point, np.concatenate([start, points[:, 1]])))
        for first in range(0, len(order), _ROWS):
            rows = order[first : first + _ROWS]
            yield TimelinePart(_steps(rows, is_point[rows], spans, points, track))

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
        order = order[self._is_crossed(group[order], start[order], end[order], order, parent, np.array(is_thread))]
        stacks: list[list[tuple[int, int]]] = []  # for each track the ends and rows of its open spans
        latest = -1
        columns = (np.arange(len(group)), group, start, end, parent)
        for row, number, begin, until, outer in _in_pieces(order, columns):
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

    def _is_crossed(
        self, group: Array, start: Array, end: Array, order: Array, parent: Array, is_thread: Array
    ) -> Array:
        """Return whether a span is of a group of which one track does not do (bool); the spans are in order."""
        step = np.full(len(group), SpanStep.COMPLETE, np.int8)
        around = pair(step, group.astype(np.int32), start, tracks=len(is_thread), end=end.copy()).parent
        fits = (end[around] >= end) & (is_thread[group] | (order[around] == parent[order]))
        crossed = np.zeros(len(is_thread), bool)
        crossed[group[(around >= 0) & ~fits]] = True
        result: Array = crossed[group]
        return result

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


def _in_pieces(order: Array, columns: tuple[Array, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the rows of columns in an order, as integers of Python, of which there are few at a time."""
    for first in range(0, len(order), _ROWS):
        rows = order[first : first + _ROWS]
        yield from zip(*(column[rows].tolist() for column in columns), strict=True)


def _rows_of(identities: Array, wanted: Array) -> Array:
    """Return for each identity the first row that has it, -1 if there is none; 0 is no identity."""
    known, first = np.unique(identities, return_index=True)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where((known[place] == wanted) & (wanted != 0), first[place], -1)


def _steps(rows: Array, is_point: Array, spans: Array, points: Array, track: Array) -> Steps:
    """Return the steps of some rows: those of spans, and after them those of points; the tracks are those of spans."""
    steps = Steps.blank(len(rows))
    own, at = spans[rows[~is_point]], points[rows[is_point] - len(spans)]
    steps.step[:] = np.where(is_point, np.int8(SpanStep.INSTANT), np.int8(SpanStep.COMPLETE))
    for column, of_span, of_point in (
        (steps.track, track[rows[~is_point]], track[at[:, 0]]), (steps.time, own[:, 1], at[:, 1]),
        (steps.name, own[:, 3], at[:, 2]), (steps.event, own[:, 5], at[:, 3]),
    ):  # fmt: skip
        column[~is_point], column[is_point] = of_span, of_point
    steps.end[~is_point], steps.category[~is_point], steps.detail[~is_point] = own[:, 2], own[:, 4], own[:, 6]
    steps.ticks = steps.time.view(np.uint64)
    return steps


def _identity(trace: str | None, number: Any) -> int:
    """Return what tells a span from others, in 64 bits; 0 for none."""
    return hash((trace, number)) if isinstance(number, str) else 0


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


def _state(code: Any, attributes: dict[str, Any]) -> int:
    """Return the state of a slice by the code of the status of its span."""
    if code in (ERROR, "STATUS_CODE_ERROR"):
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
                return as_double(number)
            except (TypeError, ValueError):
                return None
        if kind in ("stringValue", "bytesValue") and isinstance(number, str):
            return number
        if kind == "boolValue" and isinstance(number, bool):
            return number
    return None
