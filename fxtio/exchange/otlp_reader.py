"""Reads OTLP JSON lines: spans become slices on the tracks of their threads, or on tracks of their traces.

Spans come in any order, so their times are kept until the end of the file; attributes are passed on line by line.
Spans of a thread or trace that overlap without one being within the other are put on several tracks.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Set
from typing import Any, TypeGuard

import numpy as np

from fxtio import otel
from fxtio._native.constants import SliceState, SpanStep
from fxtio.arrays import Array
from fxtio.codec.distinct import GOLDEN_RATIO, number_distinct
from fxtio.errors import FormatError
from fxtio.exchange.json_columns import as_decimal
from fxtio.exchange.json_events import UNREADABLE, Objects, is_array, objects_in_each
from fxtio.exchange.lines import blocks
from fxtio.exchange.otlp_lines import (
    Attributes,
    Scope,
    attributes_by_name,
    attributes_of,
    scopes_of,
    scopes_of_lines,
)
from fxtio.io.source import MAX_BYTES, Source, read_whole
from fxtio.pairing import pair
from fxtio.table import MAX_TIME
from fxtio.timeline.arguments import argument_of, last_of_each
from fxtio.timeline.parts import Registry, Steps, TimelinePart
from fxtio.timeline.schema import ArgumentKind, TrackKind
from fxtio.timeline.sums import number_groups

MAX_LANES = 64
"""The most tracks for the spans of one thread or trace; what overlaps on more of them is shown as overlapping."""

OK, ERROR = 1, 2
"""The codes of the status of a span that has succeeded, and of one that failed."""

STATE = "fxtio.state"
"""The attribute that has the state of a slice that is not closed."""

MAX_SPANS = 4_000_000
"""The most spans, and the most events of them, that are read."""

_BATCH = 1 << 20  # bytes of scopes that are converted together
_SCOPE_SIZE = 256  # bytes that a scope counts for in a batch beside its own: it may have none
_ROWS = 100_000
_SPAN, _POINT = 9, 4
_SCOPE = ("resource", "scope")
_TIMES = ("startTimeUnixNano", "endTimeUnixNano")
_IDS = (otel.TRACE_ID, otel.SPAN_ID, otel.PARENT_ID)
_SPAN_MEMBERS = (*_TIMES, *_IDS, "name", "kind", "status", "attributes", "events", "links")
_POINT_MEMBERS = ("timeUnixNano", "name", "attributes")
_LINK_MEMBERS = (otel.TRACE_ID, otel.SPAN_ID, "attributes")
_KINDS: dict[Any, str] = dict(enumerate(otel.KINDS, 1)) | {f"SPAN_KIND_{each.upper()}": each for each in otel.KINDS}
_STATUS_NAMES = (None, *otel.STATUSES)
_STATUSES: dict[Any, int] = {f"STATUS_CODE_{each}": number for number, each in enumerate(otel.STATUSES, 1)}
_SPECIAL = ("thread.id", "thread.name", STATE)
"""The attributes of spans that are no arguments."""

_OF_PROCESS = ("process.pid", "service.name")
"""The attributes of resources that say which process it is."""

_BACKWARDS = "spans that end before they begin, which last 0 ns now"


def parts(source: Source, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    """Read a file, see `fxtio.formats.TimelineRoom.parts`.

    Raises:
        FormatError: no line is JSON, and the file is not JSON as a whole either.
    """
    registry.note_wall_clock(0)
    reader = _Reader(registry, tables)
    for scope in _scopes(source, registry.losses):
        yield from reader.scope(scope)
    yield from reader.batch()
    yield from reader.spans()


def _scopes(source: Source, losses: Counter[str]) -> Iterator[Scope]:
    """Yield the scopes of all lines; a file whose first line is not closed, such as indented JSON, is one line.

    Raises:
        FormatError: see `parts`.
    """
    first, newline, _ = source.head.strip().partition(b"\n")
    is_whole, is_first = newline and first.count(b"{") == 1, True
    for block in [bytes(read_whole(source))] if is_whole else blocks(source, losses, MAX_BYTES):
        if usual := scopes_of_lines(block):
            yield from usual
            is_first = False
            continue
        for line in [block] if is_whole else block.split(b"\n"):
            if not line.strip():
                continue
            try:
                yield from scopes_of(line, losses)
            except UNREADABLE as error:
                if is_first:
                    raise FormatError(f"{source.name} is not OTLP in JSON: {error}") from None
                losses["lines that cannot be read"] += 1
            is_first = False


class _Reader:
    """The spans of all scopes so far."""

    def __init__(self, registry: Registry, tables: Set[str]) -> None:
        self._registry = registry
        self._losses = registry.losses
        asked = registry.asked_arguments if "args" in tables else ()
        self._needed = None if asked is None else {*asked, *_SPECIAL}
        self._has_arguments = "args" in tables
        self._groups: dict[tuple[Any, ...], int] = {}
        self._group_rows: list[tuple[int, int, int | None]] = []  # process row, pid, tid of each group
        self._pids: dict[str | None, int] = {}  # of processes that have none
        self._scopes: list[Scope] = []  # that wait
        self._size = 0
        self._spans = array("q")  # `_SPAN` numbers for each
        self._points = array("q")  # `_POINT` numbers for each
        self._arguments: list[dict[str, Array]] = []
        self._event = 0

    def scope(self, scope: Scope) -> Iterator[TimelinePart]:
        """Take the spans of a scope, and yield the arguments of a batch when there are enough."""
        self._scopes.append(scope)
        self._size += _SCOPE_SIZE + sum(map(len, scope))
        if self._size > _BATCH:
            yield from self.batch()

    def batch(self) -> Iterator[TimelinePart]:
        """Convert the spans that wait, and yield their arguments."""
        scopes = Objects.of(_SCOPE, [dict(zip(_SCOPE, scope[:2], strict=True)) for scope in self._scopes])
        arrays = [memoryview(spans)[1:-1] if is_array(spans) else b"" for *_, spans in self._scopes]
        self._scopes, self._size = [], 0
        process = self._each(scopes, "resource", lambda value: self._process(attributes_by_name(value)))
        category = self._each(scopes, "scope", self._category)
        for spans, scope in objects_in_each(arrays, _SPAN_MEMBERS, self._losses):
            self._take_spans(spans, process[scope], category[scope])
            blocks, self._arguments = self._arguments, []
            if blocks:
                columns = {name: np.concatenate([each[name] for each in blocks]) for name in blocks[0]}
                order = np.argsort(columns["event"], kind="stable")  # one event may be in several blocks
                columns = {name: column[order] for name, column in columns.items()}
                last = last_of_each(columns["event"], columns["name"])
                columns = {name: column[last] for name, column in columns.items()}
                yield TimelinePart(tables={"args": self._registry.columns("args", columns)})

    def _category(self, scope: Any) -> int:
        name = scope.get("name") if isinstance(scope, dict) else None
        return self._registry.names.code(_text(name) or None)

    def _process(self, attributes: dict[str, Any]) -> tuple[int, int]:
        """Return pid and row of the process of a resource, whose other attributes are labels of the trace."""
        for label, value in attributes.items():
            if label not in _OF_PROCESS and isinstance(value, str | int | float):
                self._registry.note_label(label, str(value))
        pid, name = attributes.get("process.pid"), _text(attributes.get("service.name"))
        number = int(pid) if _is_int64(pid) else self._pids.setdefault(name, len(self._pids) + 1)
        return number, self._registry.process(number, name)

    def _take_spans(self, spans: Objects, owners: Array, category: Array) -> None:
        """Take spans; the owner of each is the pid and the row of its process."""
        losses, before = self._losses, len(self._spans) // _SPAN
        start, end = (_times(spans, name) for name in _TIMES)
        kept = self._kept((start >= 0) & (end >= 0), before, "spans")
        spans, start, end = spans.take(kept), start[kept], end[kept]
        losses[_BACKWARDS] += int((end < start).sum())
        first = self._event
        self._event += len(spans)
        group, state = self._take_attributes(spans, owners[kept], first)
        status = self._each(spans, "status", _status)
        code = self._registry.names.code
        texts = {
            otel.KIND: self._each(spans, "kind", lambda value: code(_kind(value))),
            otel.STATUS: self._each(spans, "status", lambda value: code(_STATUS_NAMES[_status(value)])),
            otel.MESSAGE: self._each(spans, "status", lambda value: code(_message(value))),
        }
        for name, column in texts.items():
            self._add_texts(name, column, first)
        trace, own, parent = spans.ids(_IDS)
        columns = (
            group, start, np.maximum(start, end), self._names(spans), category[kept], np.arange(first, self._event),
            np.where(status == ERROR, SliceState.THROWN, state), _identities(trace, own), _identities(trace, parent),
        )  # fmt: skip
        self._spans.frombytes(np.stack(columns, axis=1, dtype=np.int64).tobytes())
        for points, owner in spans.within("events", _POINT_MEMBERS, losses):
            self._take_points(points, before + owner, _times(points, "timeUnixNano"), self._names(points), "events")
        for links, owner in spans.within("links", _LINK_MEMBERS, losses):
            self._take_links(links, before + owner, start[owner])

    def _take_links(self, links: Objects, spans: Array, time: Array) -> None:
        """Take links of spans, which have these numbers, as instants at these times."""
        code, first = self._registry.names.code, self._event
        ids = {name: self._each(links, name, lambda value: code(_text(value))) for name in _LINK_MEMBERS[:2]}
        told = np.flatnonzero(np.min([*ids.values()], axis=0) >= 0)
        self._losses["links without ids"] += len(links) - len(told)
        names = np.full(len(told), code(otel.LINK))
        kept = self._take_points(links.take(told), spans[told], time[told], names, "links")
        for name, texts in ids.items():
            self._add_texts(name, texts[told][kept], first)

    def _take_points(self, points: Objects, spans: Array, time: Array, names: Array, what: str) -> Array:
        """Take what is in spans, which have these numbers, at these times, and return the rows that are taken."""
        kept = self._kept(time >= 0, len(self._points) // _POINT, what)
        points, first = points.take(kept), self._event
        self._event += len(points)
        for attributes in attributes_of(points, self._needed, self._losses):
            self._add_arguments(attributes, first, (STATE,))
        columns = (spans[kept], time[kept], names[kept], np.arange(first, self._event))
        self._points.frombytes(np.stack(columns, axis=1, dtype=np.int64).tobytes())
        return kept

    def _kept(self, has_time: Array, before: int, what: str) -> Array:
        """Return which rows are kept of those that have a time, as many as there may be after those before."""
        rows = np.flatnonzero(has_time)
        self._losses[f"{what} without a time"] += len(has_time) - len(rows)
        self._losses[f"{what} beyond {MAX_SPANS:,}"] += max(before + len(rows) - MAX_SPANS, 0)
        return rows[: MAX_SPANS - before]

    def _each(self, objects: Objects, member: str, make: Callable[[Any], Any]) -> Array:
        """Return what a function makes of a member of each object (int64); it is called once for each value."""
        values: list[Any] = []
        codes = np.zeros(len(objects), np.int32)
        if objects.given(member):
            values, (codes,) = objects.distinct([member], self._losses, make)
        elif len(objects):
            values = [make(None)]
        return np.array(values, np.int64)[codes]

    def _names(self, objects: Objects) -> Array:
        return self._each(objects, "name", lambda value: self._registry.names.code(_text(value) or ""))

    def _take_attributes(self, spans: Objects, owners: Array, first: int) -> tuple[Array, Array]:
        """Take the attributes of spans, whose events are numbered from the first one on.

        Returns:
            The group and the state of each span.
        """
        thread, name, state = np.full((3, len(spans)), -1)
        state[:] = SliceState.CLOSED
        threads: dict[int, int] = {}  # a number for each id
        for attributes in attributes_of(spans, self._needed, self._losses):
            attributes.put(
                "thread.id", thread, lambda value: threads.setdefault(value, len(threads)) if _is_int64(value) else -1
            )
            attributes.put("thread.name", name, lambda value: self._registry.names.code(_text(value)))
            attributes.put(STATE, state, lambda value: SliceState.OPEN if value == "open" else SliceState.CLOSED)
            self._add_arguments(attributes, first, _SPECIAL)
        # The group of a span follows from its process, and from its thread or else its trace.
        outside = np.flatnonzero(thread < 0)
        traces, (codes,) = spans.take(outside).distinct(["traceId"], self._losses, _text)
        trace, name[outside] = np.full(len(spans), -1), -1
        trace[outside] = codes
        group, rows = number_groups([number_distinct(owners[:, 0])[0], trace, thread, name])
        ids, values, numbers = [*threads], self._registry.names.values, []
        columns = (owners[rows, 0], owners[rows, 1], trace[rows], thread[rows], name[rows])
        for pid, process, number, at, code in zip(*(column.tolist() for column in columns), strict=True):
            if at < 0:
                numbers.append(self._group((pid, None, traces[number]), process, pid, None))
                continue
            self._registry.thread(pid, ids[at], values[code] if code >= 0 else None)
            numbers.append(self._group((pid, ids[at]), process, pid, ids[at]))
        return np.array(numbers, np.int64)[group], state

    def _add_arguments(self, attributes: Attributes, first: int, hidden: Collection[str]) -> None:
        """Take attributes, but for hidden ones, as arguments of events that are numbered from the first one on."""
        rows = np.flatnonzero(np.array([name not in hidden for name in attributes.names], bool)[attributes.name])
        if not len(rows) or not self._has_arguments:
            return
        code = self._registry.names.code
        names = np.array([code(name) if name not in hidden else -1 for name in attributes.names], np.int32)
        used, place = np.unique(attributes.value[rows], return_inverse=True)
        kinds, bits, texts = zip(*(argument_of(attributes.values[value]) for value in used.tolist()), strict=True)
        self._arguments.append(
            {
                "event": first + attributes.row[rows],
                "name": names[attributes.name[rows]],
                "type": np.array(kinds, np.int32)[place],
                "bits": np.array(bits, np.uint64)[place],
                "text": np.array([*map(code, texts)], np.int32)[place],
            }
        )

    def _add_texts(self, name: str, texts: Array, first: int) -> None:
        """Add texts, given by codes, as arguments of events that are numbered from the first one on; -1 is none."""
        rows = np.flatnonzero(texts >= 0)
        if not len(rows) or not self._has_arguments or (self._needed is not None and name not in self._needed):
            return
        same = np.ones(len(rows), np.int32)
        self._arguments.append(
            {
                "event": first + rows,
                "name": same * np.int32(self._registry.names.code(name)),
                "type": same * np.int32(ArgumentKind.TEXT),
                "bits": np.zeros(len(rows), np.uint64),
                "text": texts[rows].astype(np.int32),
            }
        )

    def _group(self, key: tuple[Any, ...], process: int, pid: int, tid: int | None) -> int:
        number = self._groups.setdefault(key, len(self._group_rows))
        if number == len(self._group_rows):
            self._group_rows.append((process, pid, tid))
        return number

    def spans(self) -> Iterator[TimelinePart]:
        """Yield all spans and their events in the order of time."""
        if not self._spans:
            return
        spans = np.array(self._spans, np.int64).reshape(-1, _SPAN)
        points = np.array(self._points, np.int64).reshape(-1, _POINT)
        self._spans, self._points = array("q"), array("q")
        group, start, end, name, *_, identity, parent = spans.T
        parent = _rows_of(identity, parent)
        # At one time the longest and outermost span is first.
        order = np.lexsort((self._depth(parent), -end, start))
        track = self._tracks(group, self._lanes(order, group, start, end, parent), name, order)
        # Rows are the spans, then the points, which are last at one time, but right after their span when it starts.
        rank = np.empty(len(spans), np.int64)
        rank[order] = np.arange(len(spans))
        place = np.where(points[:, 1] == start[points[:, 0]], rank[points[:, 0]], len(spans))
        place, time = np.append(np.arange(len(spans)), place), np.append(start[order], points[:, 1])
        order = np.append(order, np.arange(len(spans), len(spans) + len(points)))[np.lexsort((place, time))]
        for first in range(0, len(order), _ROWS):
            yield TimelinePart(_steps(order[first : first + _ROWS], spans, points, track))

    def _depth(self, parent: Array) -> Array:
        """Return the number of spans around each span, up to a limit, for the order of those with equal times."""
        depth = np.zeros(len(parent), np.int64)
        for _ in range(MAX_LANES):
            deeper = np.where(parent >= 0, depth[parent] + 1, 0)
            if np.array_equal(deeper, depth):
                break
            depth = deeper
        return depth

    def _lanes(self, order: Array, group: Array, start: Array, end: Array, parent: Array) -> Array:
        """Return for each span the number of the track among those of its group; `order` is that of time.

        On a thread, a span is within another one if its times are; in a trace only if that one is its parent.
        """
        order = order[np.argsort(group[order], kind="stable")]
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


def _steps(rows: Array, spans: Array, points: Array, track: Array) -> Steps:
    """Return the steps of some rows: those of spans, and after them those of points; the tracks are those of spans."""
    steps, is_point = Steps.blank(len(rows)), rows >= len(spans)
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


def _identities(trace: Array, numbers: Array) -> Array:
    """Return what tells spans from others (int64), by the numbers of their traces and their own; 0 for none."""
    return np.where(numbers != 0, (trace * np.uint64(GOLDEN_RATIO) ^ numbers) | np.uint64(1), 0).view(np.int64)


def _status(value: Any) -> int:
    """Return the code of a status, 0 if it is not set."""
    code = value.get("code") if isinstance(value, dict) else None
    number = _STATUSES.get(code) if isinstance(code, str) else code
    return int(number) if number in (OK, ERROR) else 0


def _message(value: Any) -> str | None:
    """Return the reason in a status, None if there is none."""
    return _text(value.get("message")) or None if isinstance(value, dict) else None


def _kind(value: Any) -> str | None:
    """Return the kind of a span, None if it is internal, or none."""
    kind = _KINDS.get(value) if isinstance(value, int | str) else None
    return kind if kind != otel.KINDS[0] else None


def _is_int64(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and -(1 << 63) <= value < 1 << 63


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _times(objects: Objects, member: str) -> Array:
    """Return times in ns (int64), which JSON has as strings or as numbers, at most `MAX_TIME`; -1 for what is none."""
    times = objects.decimals(member, 0)
    unusual = np.flatnonzero(times < 0)
    times[unusual] = [_time(text) for text in objects.texts(member, unusual)]
    return times


def _time(text: bytes) -> int:
    number = as_decimal(text)
    if number is None or number < 0:
        return -1
    return MAX_TIME if number > MAX_TIME else round(number)
