"""Reads trace event JSON: VizTracer, torch.profiler, Chromium and many others write it, each in its own manner.

Times and ids are numbers or texts; processes and threads, too.  What cannot be used, whatever its type, is counted.

The events of a batch are converted together.  What is told by the values of some members, such as the track by the
numbers of process and thread, is asked once for each combination of values that occurs, see `_Events`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.codec.integers import MAX_INT64, as_double
from fxtio.exchange.json_arguments import FIRST_NUMBER, JsonArguments, Numbers
from fxtio.exchange.json_columns import as_decimal
from fxtio.exchange.json_events import JsonEvents, Objects
from fxtio.timeline.parts import Registry, Steps, TimelinePart
from fxtio.timeline.schema import TrackKind
from fxtio.timeline.stacks import Stacks
from fxtio.timeline.sums import number_groups

if TYPE_CHECKING:
    from fxtio.io.source import Source

_NO_TIME = "events without a usable time"
_NO_DURATION = "durations that are missing or negative, which are 0 now"
_NOT_A_NUMBER = "values of counters that are not numbers"
_ORDER = "orders and labels of processes and threads"
_NEXT = "arrows to the next slice, which end in the slice around them now"
_BIND = "arrows that slices have by `bind_id`"
_STACKS = "stacks of events"

_STEPS = {
    "X": SpanStep.COMPLETE, "B": SpanStep.BEGIN, "E": SpanStep.END,
    "i": SpanStep.INSTANT, "I": SpanStep.INSTANT, "R": SpanStep.INSTANT,
    "b": SpanStep.BEGIN, "e": SpanStep.END, "n": SpanStep.INSTANT,
    "S": SpanStep.BEGIN, "F": SpanStep.END, "T": SpanStep.INSTANT, "p": SpanStep.INSTANT,
    "s": SpanStep.FLOW, "t": SpanStep.FLOW, "f": SpanStep.FLOW,
    "C": SpanStep.NONE, "M": SpanStep.NONE,
}  # fmt: skip
_UNKNOWN = 0
"""The phase of what is no event that is known; any other is a letter."""

_SCOPES = {"t": 0, "p": 1, "g": 2}
_NAMES = ("process_name", "thread_name")


def _table(values: Mapping[str, int], default: int, dtype: Any) -> Array:
    """Return values by phase; the phases are letters."""
    table = np.full(256, default, dtype)
    for letter, value in values.items():
        table[ord(letter)] = value
    return table


_STEP = _table(_STEPS, SpanStep.NONE, np.int8)
_FLOW = _table({"s": 0, "t": 1, "f": 2}, -1, np.int8)
_IS_ASYNC = _table(dict.fromkeys("benSFTp", 1), 0, bool)
_IS_MATCHED = _table(dict.fromkeys("BEbenSFTp", 1), 0, bool)
"""The phases whose names tell which end belongs to which begin."""

_NO_COLUMNS = frozenset({"ts", "dur", "args"})
"""The members that are different in each event."""

ARRAYS: dict[str, tuple[str, ...]] = {
    "traceEvents": (
        "ph", "ts", "dur", "name", "cat", "pid", "tid", "args", "id", "id2", "scope", "s", "bp", "bind_id", "sf",
        "stack",
    ),
    "samples": ("ts", "name", "pid", "tid", "cpu", "sf", "weight"),
}  # fmt: skip
"""The arrays of a file, and the members of their items that are read."""

_BASE, _VIZTRACER, _FRAMES, _OTHER = "baseTimeNanoseconds", "viztracer_metadata", "stackFrames", "otherData"


def parts(source: Source, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    """Read a file, see `fxtio.formats.TimelineRoom.parts`."""
    events = JsonEvents(source, ARRAYS, (_BASE, _VIZTRACER, _FRAMES, _OTHER), registry.losses)
    reading = _Reading(registry, tables)
    for name, items in events:
        _note_facts(registry, events.members)
        if name == "samples":
            reading.take_samples(items)
        else:
            yield reading.part(items)
    _note_facts(registry, events.members)
    yield from reading.samples(events.members.get(_FRAMES))


def _note_facts(registry: Registry, members: Mapping[str, Any]) -> None:
    """Note the time at which all other times count from 0, as torch.profiler and VizTracer write it, and labels."""
    other = members.get(_OTHER)
    for name, value in other.items() if isinstance(other, dict) else ():
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            registry.note_label(name, str(value))
    metadata = members.get(_VIZTRACER)
    for owner in (members, metadata if isinstance(metadata, dict) else {}):
        if type(owner.get(_BASE)) is int:
            registry.note_wall_clock(owner[_BASE])


class _Events:
    """The items of a batch: a column of codes for each member, and the values that the codes stand for.

    Args:
        objects: the items.
        losses: counts what cannot be decoded.

    Attributes:
        objects: the items.
        time: the times of those that have one (int64 ns), else -1.
    """

    def __init__(self, objects: Objects, losses: Counter[str]) -> None:
        self.objects = objects
        members = [each for each in objects.members if each not in _NO_COLUMNS and objects.given(each)]
        self._values, codes = objects.distinct(members, losses) if members else ([], [])
        self._codes = dict(zip(members, codes, strict=True))
        self.time = np.full(len(objects), -1, np.int64)

    def value(self, row: int, member: str) -> Any:
        """Return a member of an item, None if it is missing."""
        return self._values[self._codes[member][row]] if member in self._codes else None

    def each(self, member: str, make: Callable[[Any], Any], dtype: Any, rows: Array) -> Array:
        """Return what a function makes of a member of some items; it is called once for each value that they have."""
        if member not in self._codes:
            return np.full(len(rows), make(None), dtype)
        codes = self._codes[member][rows]
        used = np.flatnonzero(np.bincount(codes, minlength=len(self._values)))
        made = np.empty(len(self._values), dtype)
        made[used] = [make(self._values[code]) for code in used.tolist()]
        result: Array = made[codes]
        return result

    def has(self, member: str, rows: Array) -> Array:
        """Return which of some items have a member that is not null (bool)."""
        return self.each(member, lambda value: value is not None, bool, rows)

    def groups(self, rows: Array, members: tuple[str, ...]) -> tuple[Array, Array]:
        """Number the distinct combinations of members of some items; without members, each item has its number.

        Returns:
            The number of each, and the first item of each number.
        """
        if not len(rows) or not members:
            return np.arange(len(rows)), rows
        columns = [self._codes[member][rows] for member in members if member in self._codes]
        groups, first = number_groups(columns or [np.zeros(len(rows), np.int32)])
        return groups, rows[first]

    def times(self, member: str, rows: Array, too_long: int = -1) -> Array:
        """Return a time of some items in nanoseconds (int64); -1 for what is none, or is negative.

        Args:
            member: the member that has it.
            rows: the items.
            too_long: what stands for a time that does not fit.
        """
        times = self.objects.decimals(member, 3)[rows]
        unusual = np.flatnonzero(times < 0)
        for row, text in zip(unusual.tolist(), self.objects.texts(member, rows[unusual]), strict=True):
            time = nanoseconds(text)
            times[row] = -1 if time is None or time < 0 else time if time <= MAX_INT64 else too_long
        return times


class _Numbering(NamedTuple):
    """Says how events get a number, such as that of their track.

    Attributes:
        rows: the events.
        members: events whose values of these members are equal get the same number; without any, each gets its own.
        number: returns the number of an event; it is called for the first of those with equal values.
        dtype: the type of the numbers.
    """

    rows: Array
    members: tuple[str, ...]
    number: Callable[[_Events, int], int]
    dtype: Any = np.int32


def _numbered(events: _Events, *numberings: _Numbering) -> list[Array]:
    """Return the numbers of events, which are given in their order: they do not depend on where batches end."""
    groups = [events.groups(each.rows, each.members) for each in numberings]
    numbers = [np.empty(len(first), each.dtype) for each, (_, first) in zip(numberings, groups, strict=True)]
    calls = [(row, kind, place) for kind, (_, first) in enumerate(groups) for place, row in enumerate(first.tolist())]
    for row, kind, place in sorted(calls):
        numbers[kind][place] = numberings[kind].number(events, row)
    return [each[group] for each, (group, _) in zip(numbers, groups, strict=True)]


class _Reading:
    """The state from one batch to the next, and the rows of the batch."""

    def __init__(self, registry: Registry, tables: Set[str]) -> None:
        self._registry = registry
        self._tables = tables
        self._args = JsonArguments(registry, tables)
        self._code = registry.names.code
        self._losses = registry.losses
        self._number = Numbers().number
        self._used: dict[Any, int] = {}  # of ids
        self._tracks: dict[Any, int] = {}
        self._first_event = 0
        self._counters: list[tuple[int, int, float, int]] = []
        self._samples: list[Array] = []  # a row for each sample
        self._stacks: dict[str, int] = {}  # the stacks of samples by the numbers of their innermost frames

    def part(self, objects: Objects) -> TimelinePart:
        """Convert a batch."""
        self._counters = []
        events = _Events(objects, self._losses)
        every = np.arange(len(objects))
        phase = events.each("ph", self._phase, np.uint8, every)
        self._count_unknown(events, every[phase == _UNKNOWN])
        rows = every[(phase != _UNKNOWN) & (phase != ord("M"))]
        time = events.times("ts", rows)
        self._losses[_NO_TIME] += int((time < 0).sum())
        rows, time = rows[time >= 0], time[time >= 0]
        self._losses[_STACKS] += int((events.has("sf", rows) | events.has("stack", rows)).sum())
        events.time[rows] = time
        is_step = phase[rows] != ord("C")
        numbered = (
            _Numbering(every[phase == ord("M")], (), self._name),
            _Numbering(rows[~is_step], (), self._count),
        )
        steps = self._steps(events, rows[is_step], phase[rows[is_step]], numbered)
        if objects.given("args") and self._args.may_be_in(objects.data):
            for row, text in zip(rows[is_step].tolist(), objects.texts("args", rows[is_step]), strict=True):
                self._args.add_from(text, self._first_event + row)
        self._first_event += len(objects)
        part = TimelinePart(steps, self._args.table())
        if "counters" in self._tables and self._counters:
            part.tables["counters"] = self._registry.columns_of_rows("counters", self._counters)
        return part

    @staticmethod
    def _phase(value: Any) -> int:
        return ord(value) if isinstance(value, str) and value in _STEPS else _UNKNOWN

    def _count_unknown(self, events: _Events, rows: Array) -> None:
        """Count the events of types that are not known."""
        groups, first = events.groups(rows, ("ph",))
        for row, count in zip(first.tolist(), np.bincount(groups).tolist(), strict=True):
            self._losses[f"events of the type {str(events.value(row, 'ph'))[:8]!r}"] += count

    def _steps(self, events: _Events, rows: Array, phase: Array, others: tuple[_Numbering, ...]) -> Steps | None:
        """Return the steps of events with a time.

        Args:
            events: the events.
            rows: those that are steps.
            phase: their phases.
            others: what else is to be numbered.
        """
        is_async, is_flow, is_complete = _IS_ASYNC[phase], _FLOW[phase] >= 0, phase == ord("X")
        threads, operations, flows, *_ = _numbered(
            events,
            _Numbering(rows[~is_async], ("pid", "tid"), self._thread),
            _Numbering(rows[is_async], ("id", "id2", "cat", "scope", "pid"), self._async_track),
            _Numbering(rows[is_flow], ("id", "id2", "cat", "scope", "name"), self._flow, np.uint64),
            *others,
        )
        if not len(rows):
            return None
        track, time = np.empty(len(rows), np.int32), events.time[rows]
        track[~is_async], track[is_async] = threads, operations
        name = events.each("name", self._text, np.int32, rows)
        key = np.where(_IS_MATCHED[phase] & events.has("name", rows), name + 2, 0).astype(np.uint64)
        number, detail, end = np.zeros(len(rows), np.uint64), np.zeros(len(rows), np.int8), time.copy()
        number[is_flow], detail[is_flow] = flows, _FLOW[phase[is_flow]]
        is_instant = (phase == ord("i")) | (phase == ord("I"))
        detail[is_instant] = events.each("s", _scope, np.int8, rows[is_instant])
        end[is_complete] += self._durations(events, rows[is_complete])
        self._losses[_BIND] += int(events.has("bind_id", rows[is_complete]).sum())
        at_ends = rows[phase == ord("f")]
        self._losses[_NEXT] += int(events.each("bp", lambda value: value != "e", bool, at_ends).sum())
        return Steps.of(
            step=_STEP[phase], track=track, time=time, end=end, name=name, ticks=time.view(np.uint64), id=number,
            category=events.each("cat", self._category, np.int32, rows), detail=detail, key=key,
            event=rows + self._first_event,
        )  # fmt: skip

    def _durations(self, events: _Events, rows: Array) -> Array:
        """Return the durations of slices (int64 ns), which end at the latest time that there is."""
        duration = events.times("dur", rows, MAX_INT64)
        self._losses[_NO_DURATION] += int((duration < 0).sum())
        return np.minimum(np.maximum(duration, 0), MAX_INT64 - events.time[rows])

    def _category(self, value: Any) -> int:
        return -1 if value is None else self._text(value)

    def _text(self, value: Any) -> int:
        """Return the code of a text, whatever the file has in its place."""
        return self._code(value if isinstance(value, str) else "" if value is None else str(value)[:1024])

    def _thread(self, events: _Events, row: int) -> int:
        """Return the track of the thread of an event."""
        key = process, thread = events.value(row, "pid"), events.value(row, "tid")
        try:
            track = self._tracks.get(key)
        except TypeError:  # lists and objects
            return self._registry.thread_track(0, 0)
        if track is None:
            pid, tid = self._number("process", process), self._number("thread", thread)
            if isinstance(process, str) and not process.isdigit():
                self._registry.process(pid, process[:1024])
            track = self._registry.thread_track(pid, tid)
            if isinstance(thread, str) and not thread.isdigit():
                self._registry.thread(pid, tid, thread[:1024])
            if len(self._tracks) < _MAX_KNOWN:
                self._tracks[key] = track
        return track

    def _async_track(self, events: _Events, row: int) -> int:
        pid = self._registry.process(self._number("process", events.value(row, "pid")))
        identity, name = self._identity(events, row), self._text(events.value(row, "name"))
        number, local = self._unique_id(identity), events.value(row, "id2")
        key = (identity, pid) if isinstance(local, dict) and "local" in local else identity
        return self._registry.track(TrackKind.ASYNC, key, name=name, process=pid, id=number)

    def _flow(self, events: _Events, row: int) -> int:
        return self._unique_id(("flow", *self._identity(events, row), str(events.value(row, "name"))))

    def _identity(self, events: _Events, row: int) -> tuple[str, ...]:
        """Return what tells an operation from others."""
        number, detailed = events.value(row, "id"), events.value(row, "id2")
        if isinstance(detailed, dict):
            number = detailed.get("local", detailed.get("global", number))
        return tuple(str(each)[:1024] for each in (number, events.value(row, "cat"), events.value(row, "scope")))

    def _unique_id(self, identity: tuple[str, ...]) -> int:
        """Return a number for an operation: that of the file, if no other operation has it."""
        number = self._used.get(identity)
        if number is None:
            text = identity[identity[0] == "flow"]
            try:
                number = int(text, 16 if text.lower().startswith("0x") else 10) % 2**64
            except ValueError:
                number = FIRST_NUMBER + len(self._used)
            taken = (identity[0] == "flow", number)
            if taken in self._used:
                number = 2**63 + len(self._used)
            if len(self._used) < _MAX_KNOWN:
                self._used[taken] = 1
                self._used[identity] = number
        return number

    def _name(self, events: _Events, row: int) -> int:
        """Take the name of a process or thread, and return its row, -1 for none."""
        args, name = self._args.decoded(events.objects.text("args", row)), events.value(row, "name")
        text = args.get("name") if isinstance(args, dict) else None
        if name not in _NAMES or not isinstance(text, str):
            self._losses[_ORDER] += 1
            return -1
        pid = self._number("process", events.value(row, "pid"))
        if name == "process_name":
            return self._registry.process(pid, text)
        return self._registry.thread(pid, self._number("thread", events.value(row, "tid")), text)

    def _count(self, events: _Events, row: int) -> int:
        """Take the values of a counter, one for each argument, and return how many there are so far."""
        args, time = self._args.decoded(events.objects.text("args", row)), int(events.time[row])
        if not isinstance(args, dict):
            self._losses[_NOT_A_NUMBER] += 1
            return len(self._counters)
        pid = self._registry.process(self._number("process", events.value(row, "pid")))
        name, number = events.value(row, "name"), events.value(row, "id")
        title = name if isinstance(name, str) else ""
        identity = str(number)[:1024] if number is not None else ""
        for series, value in args.items():
            if isinstance(value, str):
                value = _float(value)
            if not isinstance(value, int | float) or isinstance(value, bool):
                self._losses[_NOT_A_NUMBER] += 1
                continue
            key = (pid, title, series, identity)
            track = self._tracks.get(key)
            if track is None:
                name = self._code(title if series == "value" else f"{title}:{series}" if title else series)
                counter_id = self._unique_id((identity, "counter", title, series)) if identity else 0
                track = self._registry.track(TrackKind.COUNTER, key, name=name, process=pid, id=counter_id)
                if len(self._tracks) < _MAX_KNOWN:
                    self._tracks[key] = track
            self._counters.append((time, track, as_double(value), self._first_event + row))
        return len(self._counters)

    def take_samples(self, objects: Objects) -> None:
        """Take samples that are beside the events; what their stacks are is known at the end of the file."""
        if self._tables.isdisjoint(_SAMPLE_TABLES):
            return
        samples = _Events(objects, self._losses)
        times = samples.times("ts", np.arange(len(objects)))
        self._losses[_NO_TIME] += int((times < 0).sum())
        rows = []
        for row in np.flatnonzero(times >= 0).tolist():
            pid, tid, cpu, frame, weight, name = (samples.value(row, member) for member in _SAMPLE_MEMBERS)
            thread = self._registry.thread(self._number("process", pid), self._number("thread", tid))
            stack, count = str(frame)[:1024], len(self._stacks)
            rows.append((
                int(times[row]), thread, cpu if type(cpu) is int and 0 <= cpu < 1 << 31 else -1,
                self._stacks.setdefault(stack, count) if count < _MAX_KNOWN else self._stacks.get(stack, -1),
                weight if type(weight) is int and 0 < weight <= MAX_INT64 else 1,
                self._code("samples" if name is None else str(name)[:1024]),
            ))  # fmt: skip
        if rows:
            self._samples.append(np.array(rows, np.int64))

    def samples(self, frames: Any) -> Iterator[TimelinePart]:
        """Yield the samples with their stacks."""
        if not self._samples or not isinstance(frames, dict):
            return
        stacks = _Stacks(frames, Stacks(self._registry))
        rows = np.array([*map(stacks.row, self._stacks), -1], np.int64)
        tables = stacks.stacks.new_tables()
        for batch in self._samples:
            time, thread, cpu, stack, count, unit = batch.T
            columns = {"time": time, "thread": thread, "cpu": cpu, "stack": rows[stack], "count": count, "unit": unit}
            yield TimelinePart(None, {**tables, "samples": self._registry.columns("samples", columns)})
            tables = {}


_SAMPLE_MEMBERS = ("pid", "tid", "cpu", "sf", "weight", "name")
_SAMPLE_TABLES = ("samples", "stacks", "frames")
_MAX_KNOWN = 1_000_000


class _Stacks:
    """The stacks of a file, made from its frames, each of which names its parent."""

    def __init__(self, frames: Mapping[str, Any], stacks: Stacks) -> None:
        self.stacks = stacks
        self._frames = frames
        self._rows: dict[str, int] = {}

    def row(self, key: str) -> int:
        """Return the row of the stack whose innermost frame has this number, -1 if there is none."""
        missing: dict[str, None] = {}  # in the order in which they are found, the innermost first
        while key not in self._rows and key in self._frames and key not in missing and len(missing) < _MAX_DEPTH:
            missing[key] = None
            frame = self._frames[key]
            key = str(frame.get("parent")) if isinstance(frame, dict) else ""
        parent = self._rows.get(key, -1)
        for each in reversed(missing):
            frame = self._frames[each]
            values = [frame.get(name) if isinstance(frame, dict) else None for name in ("name", "category")]
            name, module = (None if value is None else str(value)[:1024] for value in values)
            parent = self._rows[each] = self.stacks.on(parent, self.stacks.frame(name, module))
        return parent


_MAX_DEPTH = 4096


def nanoseconds(value: Any) -> int | None:
    """Return microseconds, as JSON or as a value of Python, as nanoseconds; None for what is not a number."""
    if isinstance(value, bool) or not isinstance(value, bytes | str | int | float):
        return None
    number = as_decimal(value if isinstance(value, bytes) else str(value).encode())
    return None if number is None or abs(number) >= 1 << 70 else round(number * 1000)


def _scope(value: Any) -> int:
    return _SCOPES.get(value, 0) if isinstance(value, str) else 0


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
