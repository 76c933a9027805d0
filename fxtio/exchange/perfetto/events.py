"""The events of tracks of a Perfetto trace, one at a time: what each field means is said here.

https://perfetto.dev/docs/instrumentation/track-events
"""

from __future__ import annotations

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.codec.integers import MAX_INT64
from fxtio.codec.protobuf import Message, Wire, signed
from fxtio.exchange.perfetto.annotations import Annotations
from fxtio.exchange.perfetto.messages import BEGIN, COUNTER, END, INSTANT, Event, Interned, Legacy
from fxtio.exchange.perfetto.rows import Rows
from fxtio.exchange.perfetto.state import NOT_DEFINED, Sequence
from fxtio.exchange.perfetto.tracks import Track, Tracks
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import FLOW_TYPES, SCOPES, TrackKind

MAX_FLOWS = 1_000_000
"""The most flows that go on at one time, and the most operations of the older kind."""

MAX_POINTS = 256
"""The most flows of an event."""

NOT_A_COUNTER = "values of tracks that are no counters, and other events of counters"
NO_VALUE = "events of counters without a value"
_NO_TYPE = "events without a type"
_MANY = f"flows beyond {MAX_POINTS} of an event, or {MAX_FLOWS:,} at one time"
_NO_DURATION = "durations that are negative, which are 0 now"
_BIND = "arrows that slices have by `bind_id`"
_NEXT = "arrows to the next slice, which end in the slice around them now"

_STEPS = {
    "B": SpanStep.BEGIN, "E": SpanStep.END, "X": SpanStep.COMPLETE,
    "i": SpanStep.INSTANT, "I": SpanStep.INSTANT, "R": SpanStep.INSTANT,
}  # fmt: skip
_ASYNC_STEPS = {
    "b": SpanStep.BEGIN, "e": SpanStep.END, "n": SpanStep.INSTANT,
    "S": SpanStep.BEGIN, "F": SpanStep.END, "T": SpanStep.INSTANT, "p": SpanStep.INSTANT,
}  # fmt: skip
_FLOWS = {"s": FLOW_TYPES.index("begin"), "t": FLOW_TYPES.index("step"), "f": FLOW_TYPES.index("end")}
FLOW_BEGIN, FLOW_STEP, FLOW_END = _FLOWS.values()
_TYPES = {BEGIN: "B", END: "E", INSTANT: "i"}
_SCOPES = {1: SCOPES.index("global"), 2: SCOPES.index("process"), 3: SCOPES.index("thread")}

_READ = {
    Event.CATEGORY, Event.ANNOTATION, Event.LEGACY, Event.TYPE, Event.NAME, Event.TRACK, Event.EXTRA_VALUES,
    Event.CATEGORY_TEXT, Event.NAME_TEXT, Event.VALUE, Event.EXTRA_TRACKS, Event.OLD_FLOWS, Event.OLD_LAST_FLOWS,
    Event.DOUBLE, Event.EXTRA_DOUBLE_TRACKS, Event.EXTRA_DOUBLES, Event.FLOWS, Event.LAST_FLOWS,
}  # fmt: skip
_IDS = (Legacy.ID, Legacy.LOCAL_ID, Legacy.GLOBAL_ID)


class Events:
    """Takes events of tracks.

    Args:
        registry: has the names.
        rows: gets the rows.
        tracks: the tracks.
    """

    def __init__(self, registry: Registry, rows: Rows, tracks: Tracks) -> None:
        self._registry = registry
        self._losses = registry.losses
        self._rows = rows
        self._tracks = tracks
        self._annotations = Annotations(registry, rows)
        self._flows: set[int] = set()  # those that have begun
        self._operations: dict[tuple[object, ...], int] = {}
        self._nothing = registry.names.code("")

    def enter(self, event: Message, sequence: Sequence, time: int, number: int) -> None:
        """Take an event of a sequence at a time, whose number is given."""
        for field in event.found:
            if field not in _READ:
                self._losses[_unread(field)] += 1
        legacy = event.message(Event.LEGACY)
        phase = chr(legacy.number(Legacy.PHASE) % 128) if legacy is not None and Legacy.PHASE in legacy else ""
        kind = event.number(Event.TYPE)
        if Event.EXTRA_VALUES in event or Event.EXTRA_DOUBLES in event:
            self._count_more(event, sequence, time)
        if kind == COUNTER and not phase:
            self._count(event, sequence, time, number)
            return
        phase = phase or _TYPES.get(kind, "")
        if phase not in _STEPS and phase not in _ASYNC_STEPS and phase not in _FLOWS:
            self._losses[f"events of the older type {phase!r}" if phase else _NO_TYPE] += 1
            return
        name = self._name(event, legacy, sequence)
        category = self._category(event, sequence)
        if legacy is not None and phase in _ASYNC_STEPS:
            track = self._operation(event, legacy, sequence, name, category)
        else:
            track = self._track(event, legacy, sequence)
        if track.is_counter:
            self._losses[NOT_A_COUNTER] += 1
            return
        if phase in _FLOWS:
            assert legacy is not None
            self._losses[_NEXT] += phase == "f" and not legacy.number(Legacy.TO_ENCLOSING)
            flow = next((legacy.number(each) for each in _IDS if each in legacy), 0)
            label = (number, max(name, self._nothing), category)
            self._rows.step(SpanStep.FLOW, track.row, time, *label, id=flow, detail=_FLOWS[phase])
        else:
            self._step(event, legacy, phase, track, time, (number, name, category))
        self._annotations.enter(event, sequence, number)

    def _step(
        self, event: Message, legacy: Message | None, phase: str, track: Track, time: int, label: tuple[int, int, int]
    ) -> None:
        """Add a step on a track, with the points of its flows; the label is its number, name and category."""
        number, name, category = label
        step = _ASYNC_STEPS.get(phase) or _STEPS[phase]
        end, detail, key = time, 0, name + 2 if name >= 0 else 0
        if legacy is not None and Legacy.BIND_ID in legacy:
            self._losses[_BIND] += 1
        if step == SpanStep.COMPLETE:
            duration = legacy.signed(Legacy.DURATION) * 1000 if legacy is not None else 0
            self._losses[_NO_DURATION] += duration < 0
            end, key = min(time + max(duration, 0), MAX_INT64), 0
        elif step == SpanStep.INSTANT:
            scope = 0 if legacy is None else legacy.number(Legacy.INSTANT_SCOPE)
            detail, key = _SCOPES.get(scope, track.scope), 0
        points = self._points(event)
        shown = max(name, self._nothing)
        if step == SpanStep.END:
            self._add_points(points, track, time, number, (shown, category))
        self._rows.step(step, track.row, time, number, shown, category, end=end, detail=detail, key=key)
        if step != SpanStep.END:
            self._add_points(points, track, time, number, (shown, category))

    def _points(self, event: Message) -> list[tuple[int, int]]:
        """Return the flows that an event is a point of, and the type of the point, an index into `FLOW_TYPES`."""
        ids = event.numbers(Event.OLD_FLOWS) + event.numbers(Event.FLOWS, Wire.FIXED64)
        last = event.numbers(Event.OLD_LAST_FLOWS) + event.numbers(Event.LAST_FLOWS, Wire.FIXED64)
        self._losses[_MANY] += max(len(ids) - MAX_POINTS, 0) + max(len(last) - MAX_POINTS, 0)
        points = []
        for flow in ids[:MAX_POINTS]:
            points.append((flow, FLOW_STEP if flow in self._flows else FLOW_BEGIN))
            if len(self._flows) < MAX_FLOWS:
                self._flows.add(flow)
            else:
                self._losses[_MANY] += flow not in self._flows
        for flow in last[:MAX_POINTS]:
            self._flows.discard(flow)
            points.append((flow, FLOW_END))
        return points

    def _add_points(
        self, points: list[tuple[int, int]], track: Track, time: int, number: int, label: tuple[int, int]
    ) -> None:
        """Add the points of flows of an event, whose label is its name and category."""
        for place, (flow, kind) in enumerate(points, 1):
            self._rows.step(SpanStep.FLOW, track.row, time, number + place, *label, id=flow, detail=kind)

    def _name(self, event: Message, legacy: Message | None, sequence: Sequence) -> int:
        """Return the code of the name of an event, -1 if it has none."""
        number = event.number(Event.NAME) or (0 if legacy is None else legacy.number(Legacy.NAME))
        if not number:
            return self._registry.names.code(event.text(Event.NAME_TEXT))
        return self._defined(Interned.EVENT, number, sequence)

    def _category(self, event: Message, sequence: Sequence) -> int:
        """Return the code of the categories of an event, -1 if it has none."""
        names = self._registry.names
        codes = [self._defined(Interned.CATEGORY, each, sequence) for each in event.numbers(Event.CATEGORY)]
        texts = [each.decode("utf-8", "surrogateescape") for each in event.texts(Event.CATEGORY_TEXT)]
        if len(codes) == 1 and not texts:
            return codes[0]
        known = [names.values[code] for code in codes if code >= 0]
        return names.code(",".join([*known, *texts])) if known or texts else -1

    def _defined(self, kind: Interned, number: int, sequence: Sequence) -> int:
        """Return the code of a name that a sequence has defined, -1 if it has not."""
        code = sequence.codes(kind).code(number)
        self._losses[NOT_DEFINED] += code < 0
        return code

    def _track(self, event: Message, legacy: Message | None, sequence: Sequence) -> Track:
        """Return the track of an event."""
        if legacy is not None and (Legacy.PID in legacy or Legacy.TID in legacy):
            pid, tid = (sequence.pid or 0, sequence.tid)
            return self._tracks.thread_track(legacy.signed(Legacy.PID, pid), legacy.signed(Legacy.TID, tid))
        return self._tracks.track(event.number(Event.TRACK, sequence.track), sequence)

    def _operation(self, event: Message, legacy: Message, sequence: Sequence, name: int, category: int) -> Track:
        """Return the track of an operation of the older kind: one of its name, number, scope, and perhaps process."""
        process = int(self._registry.track_processes(np.array([self._track(event, legacy, sequence).row]))[0])
        kind = next((each for each in _IDS if each in legacy), Legacy.ID)
        number, scope = legacy.number(kind), legacy.text(Legacy.SCOPE)
        key = (number, category if scope is None else scope, process if kind == Legacy.LOCAL_ID else -1, name)
        shown = self._operations.get(key)
        if shown is None:
            shown = number if (number,) not in self._operations else 2**63 + len(self._operations)
            if len(self._operations) < MAX_FLOWS:
                self._operations[number,] = self._operations[key] = shown
        label = max(name, self._nothing)
        return Track(self._registry.track(TrackKind.ASYNC, key, name=label, process=process, id=shown))

    def _count(self, event: Message, sequence: Sequence, time: int, number: int) -> None:
        """Take the value of a counter."""
        uuid = event.number(Event.TRACK, sequence.track)
        values = event.doubles(Event.DOUBLE)
        if not values and Event.VALUE in event:
            values = [float(event.signed(Event.VALUE))]
        if not values:
            self._losses[NO_VALUE] += 1
            return
        self._add_value(uuid, values[-1], sequence, time, number)
        self._annotations.enter(event, sequence, number)

    def _count_more(self, event: Message, sequence: Sequence, time: int) -> None:
        """Take the values of the counters that an event has besides."""
        integers = [float(signed(each)) for each in event.numbers(Event.EXTRA_VALUES)]
        tracks = event.numbers(Event.EXTRA_TRACKS), event.numbers(Event.EXTRA_DOUBLE_TRACKS)
        for own, default, values in zip(
            tracks, sequence.extra_tracks, (integers, event.doubles(Event.EXTRA_DOUBLES)), strict=True
        ):
            uuids = own or default
            self._losses[NOT_A_COUNTER] += max(len(values) - len(uuids), 0)
            for uuid, value in zip(uuids, values, strict=False):
                self._add_value(uuid, value, sequence, time, -1)

    def _add_value(self, uuid: int, value: float, sequence: Sequence, time: int, number: int) -> None:
        track = self._tracks.track(uuid, sequence)
        if not track.is_counter:
            self._losses[NOT_A_COUNTER] += 1
            return
        if track.is_incremental:
            value = sequence.counters[uuid] = sequence.counters.get(uuid, 0.0) + value
        self._rows.row("counters", time, track.row, value * track.multiplier, number)


def _unread(field: int) -> str:
    """Return a phrase for a field of events that is not read."""
    name = Event(field).name.lower() if field in {*Event} else f"the field {field}"
    return f"parts of events that are not read: {name}"
