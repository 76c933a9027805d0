"""Reads trace event JSON: VizTracer, torch.profiler, Chromium and many others write it, each in its own manner.

Times and ids are numbers or texts; processes and threads, too.  What cannot be used, whatever its type, is counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.codec.integers import MAX_INT64, as_double
from fxtio.exchange.json_events import JsonEvents, value_of
from fxtio.timeline.arguments import argument_of, flattened
from fxtio.timeline.parts import STEP_COLUMNS, Registry, Steps, TimelinePart
from fxtio.timeline.schema import ArgumentKind, TrackKind
from fxtio.timeline.stacks import Stacks

if TYPE_CHECKING:
    from fxtio.io.source import Source

_NO_TIME = "events without a usable time"
_NO_DURATION = "durations that are missing or negative, which are 0 now"
_NOT_A_NUMBER = "values of counters that are not numbers"
_LONG_NUMBERS = "numbers in arguments that do not fit 64 bits, which are text now"
_UNREADABLE_ARGS = "arguments that cannot be decoded"
_ORDER = "orders and labels of processes and threads"
_NEXT = "arrows to the next slice, which end in the slice around them now"
_BIND = "arrows that slices have by `bind_id`"
_STACKS = "stacks of events"

_ASYNC_STEPS = {
    "b": SpanStep.BEGIN, "e": SpanStep.END, "n": SpanStep.INSTANT,
    "S": SpanStep.BEGIN, "F": SpanStep.END, "T": SpanStep.INSTANT, "p": SpanStep.INSTANT,
}  # fmt: skip
_STEPS = {
    "X": SpanStep.COMPLETE, "B": SpanStep.BEGIN, "E": SpanStep.END,
    "i": SpanStep.INSTANT, "I": SpanStep.INSTANT, "R": SpanStep.INSTANT,
}  # fmt: skip
_PHASES = frozenset({*_STEPS, *_ASYNC_STEPS, *"stfC"})
_FLOWS = {"s": 0, "t": 1, "f": 2}
_SCOPES = {"t": 0, "p": 1, "g": 2}
_NAMES = ("process_name", "thread_name")
_FIRST_NUMBER = 1 << 30
"""The first number of processes and threads whose numbers are texts."""


class Event(msgspec.Struct, gc=False):
    """An event as it is in the file."""

    ph: Any = None
    ts: msgspec.Raw = msgspec.Raw(b"")  # or a value of Python, if another decoder had to be used
    dur: msgspec.Raw = msgspec.Raw(b"")
    name: Any = None
    cat: Any = None
    pid: Any = None
    tid: Any = None
    id: Any = None
    id2: Any = None
    scope: Any = None
    s: Any = None
    bp: Any = None
    args: msgspec.Raw = msgspec.Raw(b"")  # as `ts`; decoding them takes longer than all else
    bind_id: Any = None
    sf: Any = None
    stack: Any = None


class Sample(msgspec.Struct, gc=False):
    """A sample as it is in the file."""

    ts: msgspec.Raw = msgspec.Raw(b"")  # or a value of Python, as that of an event
    name: Any = "samples"
    pid: Any = None
    tid: Any = None
    cpu: Any = None
    sf: Any = None
    weight: Any = None


ARRAYS: dict[str, type[msgspec.Struct]] = {"traceEvents": Event, "samples": Sample}
"""The arrays of a file, and the types of their items."""

_BASE, _VIZTRACER, _FRAMES = "baseTimeNanoseconds", "viztracer_metadata", "stackFrames"


def parts(source: Source, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    """Read a file, see `fxtio.formats.TimelineRoom.parts`."""
    events = JsonEvents(source, ARRAYS, (_BASE, _VIZTRACER, _FRAMES), registry.losses)
    reading = _Reading(registry, tables)
    for name, items in events:
        _note_wall_clock(registry, events.members)
        if name == "samples":
            reading.take_samples(items)
        else:
            yield reading.part(items)
    _note_wall_clock(registry, events.members)
    yield from reading.samples(events.members.get(_FRAMES))


def _note_wall_clock(registry: Registry, members: Mapping[str, Any]) -> None:
    """Note the time at which all other times count from 0, as torch.profiler and VizTracer write it."""
    metadata = members.get(_VIZTRACER)
    for owner in (members, metadata if isinstance(metadata, dict) else {}):
        if type(owner.get(_BASE)) is int:
            registry.note_wall_clock(owner[_BASE])


class _Reading:
    """The state from one batch to the next, and the rows of the batch."""

    def __init__(self, registry: Registry, tables: Set[str]) -> None:
        self._registry = registry
        self._tables = tables
        self._asked = [] if registry.asked_arguments is None else _signs_of(registry.asked_arguments)
        self._needs_args = False
        self._code = registry.names.code
        self._losses = registry.losses
        self._numbers: dict[tuple[str, str], int] = {}  # of processes and threads that are not numbers
        self._used: dict[Any, int] = {}  # of ids
        self._tracks: dict[Any, int] = {}
        self._first_event = 0
        self._events: list[tuple[int, ...]] = []
        self._args: list[tuple[int, int, int, int, int]] = []
        self._counters: list[tuple[int, int, float, int]] = []
        self._samples: list[Array] = []  # a row for each sample
        self._stacks: dict[str, int] = {}  # the stacks of samples by the numbers of their innermost frames

    def part(self, items: list[Event]) -> TimelinePart:
        """Convert a batch."""
        self._events, self._args, self._counters = [], [], []
        self._needs_args = "args" in self._tables
        if self._needs_args and self._asked:  # to look for names takes far less time than to decode
            args: list[Any] = [event.args for event in items]
            texts = b"".join(each if isinstance(each, msgspec.Raw) else _ESCAPE for each in args)
            self._needs_args = any(sign in texts for sign in self._asked)
        for number, event in enumerate(items, self._first_event):
            self._enter(event, number)
        self._first_event += len(items)
        part = TimelinePart(_steps(self._events) if self._events else None)
        for table, rows in (("args", self._args), ("counters", self._counters)):
            if table in self._tables and rows:
                part.tables[table] = self._registry.columns_of_rows(table, rows)
        return part

    def _enter(self, event: Event, number: int) -> None:
        phase = event.ph
        if phase == "M":
            self._name(event)
            return
        if not isinstance(phase, str) or phase not in _PHASES:
            self._losses[f"events of the type {str(phase)[:8]!r}"] += 1
            return
        time = nanoseconds(event.ts)
        if time is None or not 0 <= time <= MAX_INT64:
            self._losses[_NO_TIME] += 1
            return
        if event.sf is not None or event.stack is not None:
            self._losses[_STACKS] += 1
        if phase == "C":
            self._count(event, time, number)
            return
        step, end, name = _STEPS.get(phase, SpanStep.FLOW), time, self._text(event.name)
        key = flow = detail = 0
        if phase in _ASYNC_STEPS:
            step, track = _ASYNC_STEPS[phase], self._async_track(event, name)
            key = name + 2 if event.name is not None else 0
        else:
            track = self._thread(event)
        if phase == "X":
            end = self._end(event, time)
            if event.bind_id is not None:
                self._losses[_BIND] += 1
        elif phase in ("B", "E"):
            key = name + 2 if event.name is not None else 0
        elif phase in _FLOWS:
            detail, flow = _FLOWS[phase], self._flow(event)
            if phase == "f" and event.bp != "e":
                self._losses[_NEXT] += 1
        elif phase in ("i", "I"):
            detail = _SCOPES.get(event.s, 0) if isinstance(event.s, str) else 0
        category = -1 if event.cat is None else self._text(event.cat)
        self._events.append((step, track, time, end, name, category, number, time, flow, detail, key))
        if self._needs_args and event.args:
            self._add_args(self._args_of(event), number)

    def _args_of(self, event: Event) -> Any:
        """Return the arguments of an event, None if they are missing or cannot be decoded."""
        try:
            return value_of(event.args)
        except (RecursionError, ValueError):
            self._losses[_UNREADABLE_ARGS] += 1
            return None

    def _end(self, event: Event, time: int) -> int:
        duration = nanoseconds(event.dur)
        if duration is None or duration < 0:
            self._losses[_NO_DURATION] += 1
            return time
        return min(time + duration, MAX_INT64)

    def _text(self, value: Any) -> int:
        """Return the code of a text, whatever the file has in its place."""
        return self._code(value if isinstance(value, str) else "" if value is None else str(value)[:1024])

    def _number(self, kind: str, value: Any) -> int:
        """Return the number of a process or thread; one that is not a number gets one, and its text as name."""
        if type(value) is int and -(1 << 63) <= value <= MAX_INT64:
            return value
        if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
            return int(value)
        if value is None or isinstance(value, bool | dict | list | float):
            return 0
        text = str(value)[:1024]
        if text.isascii() and text.isdigit() and len(text) < 19:
            return int(text)
        return self._numbers.setdefault((kind, text), _FIRST_NUMBER + len(self._numbers))

    def _thread(self, event: Event) -> int:
        """Return the track of a thread."""
        key = (event.pid, event.tid)
        try:
            track = self._tracks.get(key)
        except TypeError:  # lists and objects
            return self._registry.thread_track(0, 0)
        if track is None:
            pid, tid = self._number("process", event.pid), self._number("thread", event.tid)
            if isinstance(event.pid, str) and not event.pid.isdigit():
                self._registry.process(pid, event.pid[:1024])
            track = self._registry.thread_track(pid, tid)
            if isinstance(event.tid, str) and not event.tid.isdigit():
                self._registry.thread(pid, tid, event.tid[:1024])
            if len(self._tracks) < _MAX_KNOWN:
                self._tracks[key] = track
        return track

    def _async_track(self, event: Event, name: int) -> int:
        pid = self._registry.process(self._number("process", event.pid))
        identity = self._identity(event)
        number = self._unique_id(identity)
        is_local = isinstance(event.id2, dict) and "local" in event.id2
        key = (identity, pid) if is_local else identity
        return self._registry.track(TrackKind.ASYNC, key, name=name, process=pid, id=number)

    def _flow(self, event: Event) -> int:
        return self._unique_id(("flow", *self._identity(event), str(event.name)))

    def _identity(self, event: Event) -> tuple[str, ...]:
        """Return what tells an operation from others."""
        number = event.id
        if isinstance(event.id2, dict):
            number = event.id2.get("local", event.id2.get("global", number))
        return tuple(str(each)[:1024] for each in (number, event.cat, event.scope))

    def _unique_id(self, identity: tuple[str, ...]) -> int:
        """Return a number for an operation: that of the file, if no other operation has it."""
        number = self._used.get(identity)
        if number is None:
            text = identity[identity[0] == "flow"]
            try:
                number = int(text, 16 if text.lower().startswith("0x") else 10) % 2**64
            except ValueError:
                number = _FIRST_NUMBER + len(self._used)
            taken = (identity[0] == "flow", number)
            if taken in self._used:
                number = 2**63 + len(self._used)
            if len(self._used) < _MAX_KNOWN:
                self._used[taken] = 1
                self._used[identity] = number
        return number

    def _name(self, event: Event) -> None:
        """Take the name of a process or thread."""
        args = self._args_of(event)
        text = args.get("name") if isinstance(args, dict) else None
        if event.name not in _NAMES or not isinstance(text, str):
            self._losses[_ORDER] += 1
            return
        pid = self._number("process", event.pid)
        if event.name == "process_name":
            self._registry.process(pid, text)
        else:
            self._registry.thread(pid, self._number("thread", event.tid), text)

    def _count(self, event: Event, time: int, number: int) -> None:
        """Take the values of a counter: one for each argument."""
        args = self._args_of(event)
        if not isinstance(args, dict):
            self._losses[_NOT_A_NUMBER] += 1
            return
        pid = self._registry.process(self._number("process", event.pid))
        title = event.name if isinstance(event.name, str) else ""
        identity = str(event.id)[:1024] if event.id is not None else ""
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
            self._counters.append((time, track, as_double(value), number))

    def _add_args(self, args: Any, number: int) -> None:
        """Add the arguments of an event; those of nested objects have names with dots."""
        if not args:
            return
        for name, value in flattened([("" if isinstance(args, dict) else "args", args)], self._losses):
            kind, bits, text = argument_of(value)
            if kind == ArgumentKind.TEXT and isinstance(value, int):
                self._losses[_LONG_NUMBERS] += 1
            self._args.append((number, self._code(name), kind, bits, self._code(text)))

    def take_samples(self, items: list[Sample]) -> None:
        """Take samples that are beside the events; what their stacks are is known at the end of the file."""
        if self._tables.isdisjoint(_SAMPLE_TABLES):
            return
        rows = []
        for sample in items:
            time = nanoseconds(sample.ts)
            if time is None or not 0 <= time <= MAX_INT64:
                self._losses[_NO_TIME] += 1
                continue
            thread = self._registry.thread(self._number("process", sample.pid), self._number("thread", sample.tid))
            cpu, weight = sample.cpu, sample.weight
            stack, count = str(sample.sf)[:1024], len(self._stacks)
            rows.append((
                time, thread, cpu if type(cpu) is int and 0 <= cpu < 1 << 31 else -1,
                self._stacks.setdefault(stack, count) if count < _MAX_KNOWN else self._stacks.get(stack, -1),
                weight if type(weight) is int and 0 < weight <= MAX_INT64 else 1,
                self._code(str(sample.name)[:1024]),
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


_ESCAPE = b"\\u"


def _signs_of(names: Collection[str]) -> list[bytes]:
    """Return what to look for in arguments as JSON: those that contain none of it have none of these names.

    An argument of a nested object is written with the last parts of its name, and any name may have escapes.
    """
    parts = [name.split(".") for name in names]
    return [_ESCAPE, *sorted({f'"{".".join(part[at:])}"'.encode() for part in parts for at in range(len(part))})]


def nanoseconds(value: Any) -> int | None:
    """Return microseconds, as JSON or as a value of Python, as nanoseconds; None for what is not a number."""
    text = bytes(value).decode("ascii", "replace") if isinstance(value, msgspec.Raw) else value
    if isinstance(text, str):
        text = text.strip('"')
        whole, _, rest = text.partition(".")
        if whole.isdigit() and text.isascii() and len(whole) < 19 and len(rest) < 4 and (rest.isdigit() or not rest):
            return int(whole) * 1000 + int((rest + "000")[:3])
    elif isinstance(text, bool) or not isinstance(text, int | float):
        return None
    try:
        number = Decimal(str(text)) * 1000
        return round(number) if number.is_finite() and abs(number) < 1 << 80 else None
    except (ArithmeticError, ValueError):  # `decimal` has errors of its own for each kind of number
        return None


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _steps(events: list[tuple[int, ...]]) -> Steps:
    columns = zip(*events, strict=True)
    names = ("step", "track", "time", "end", "name", "category", "event", "ticks", "id", "detail", "key")
    arrays = {name: np.array(column, STEP_COLUMNS[name][0]) for name, column in zip(names, columns, strict=True)}
    return Steps(**arrays, level=np.full(len(events), -1, np.int32))
