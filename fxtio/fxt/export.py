"""The room `export`: writes a timeline as an FXT trace, in the order of time, in bulk.

Threads are written as they are.  Everything on other tracks is an async operation, since FXT has no other tracks: its
id is that of the track, and its thread the first one of the process.  Perfetto shows it on a track of its own.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.codec.columns import OptionalColumn
from fxtio.fxt import records as r
from fxtio.fxt.enums import ObjectType, ThreadState
from fxtio.fxt.event_columns import EVENT_TYPES, EventTable, Indexed, ListedArguments
from fxtio.fxt.layout import MAX_ARGUMENTS, MAX_TEXT_BYTES
from fxtio.fxt.records import Koid, Thread
from fxtio.fxt.writer import FxtWriter
from fxtio.labels import OBJECT_KOID, OBJECT_NAME
from fxtio.table import Categories, Optional, Table
from fxtio.timeline.arguments import ArgumentRows
from fxtio.timeline.event_export import EventExporter
from fxtio.timeline.losses import Texts
from fxtio.timeline.parts import Registry
from fxtio.timeline.replay import Events
from fxtio.timeline.schema import FLOW_TYPES, ArgumentKind, TrackKind

if TYPE_CHECKING:
    from fxtio.io.sink import Sink

NOT_CARRIED = (
    "allocations; weights, units and processors of samples, which become spans from one sample to the next",
    "levels of log messages",
    "names of the threads of async operations; names and texts over 32,000 bytes",
    "the types of arguments beyond 14 of an event with more than 15, which are in one text, as JSON",
    "states of threads that FXT does not have",
)
"""The content of a timeline that a trace does not have."""

_THREAD_CLASSES: dict[int, type[r.Event]] = {
    SpanStep.BEGIN: r.DurationBegin,
    SpanStep.END: r.DurationEnd,
    SpanStep.COMPLETE: r.DurationComplete,
    SpanStep.INSTANT: r.Instant,
}
_ASYNC_CLASSES: dict[int, type[r.Event]] = {
    SpanStep.BEGIN: r.AsyncBegin,
    SpanStep.END: r.AsyncEnd,
    SpanStep.INSTANT: r.AsyncInstant,
}
_FLOW_CLASSES = {"begin": r.FlowBegin, "step": r.FlowStep, "end": r.FlowEnd}
_FIRST_ID = 1 << 62
"""The first id of tracks whose own id another track has, or that have none."""

_IDLE = np.iinfo(np.int32).min
"""The weight by which readers recognize the idle thread."""

_STATES = {state.name.lower(): state for state in ThreadState}
_CUT = f"names and texts over {MAX_TEXT_BYTES:,} bytes, which are cut"
OTHER_ARGUMENTS = "other arguments"
"""The name of the text that has, as a JSON object, the arguments for which an event has no room."""

_MANY = f"arguments beyond {MAX_ARGUMENTS - 1} of events that have more, which are JSON in one argument now"
_TOO_LONG = f"arguments of such events that make this JSON longer than {MAX_TEXT_BYTES:,} bytes"
_LEVELS = "levels of log messages"
_NEGATIVE = "negative numbers of processes and threads, which FXT takes for large ones"


def _as_json(value: Any) -> str:
    """Return a value as JSON, as short as it can be: only bytes that are no text are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def _argument_classes() -> Array:
    """Return the index in `ARGUMENTS.classes` for each kind of argument; the longer form of integers."""
    classes: dict[ArgumentKind, type[r.Argument]] = {
        ArgumentKind.NULL: r.NullArgument,
        ArgumentKind.INTEGER: r.Int64Argument,
        ArgumentKind.UNSIGNED: r.Uint64Argument,
        ArgumentKind.NUMBER: r.DoubleArgument,
        ArgumentKind.TEXT: r.StringArgument,
        ArgumentKind.POINTER: r.PointerArgument,
        ArgumentKind.KOID: r.KoidArgument,
        ArgumentKind.BOOLEAN: r.BoolArgument,
    }
    return np.array([r.ARGUMENTS.classes.index(classes[kind]) for kind in ArgumentKind])


_CLASS_OF_KIND = _argument_classes()
_SHORT = [
    tuple(r.ARGUMENTS.classes.index(cls) for cls in pair) + r.INTEGER_LIMITS[pair[1]]
    for pair in ((r.Int64Argument, r.Int32Argument), (r.Uint64Argument, r.Uint32Argument))
]
"""The index of a class of integers, that of a shorter one, and the smallest and largest value of the shorter one."""


class Exporter(EventExporter):
    """Writes an FXT trace, see `fxtio.formats.Exporter`."""

    def __init__(self, sink: Sink, registry: Registry) -> None:
        super().__init__(sink, registry)
        self._texts = Texts(registry.names, self._text)
        self._threads: list[Thread] = []  # of each track
        self._thread_of_process: dict[int, int] = {}
        self._ids: list[int] = []  # of each track
        self._used: set[int] = set()
        self._process_names: dict[int, int] = {}  # the names that are written
        self._thread_names: dict[int, int] = {}
        self._labels = 0  # those that are written
        self._running: dict[int, tuple[int, int, int, ThreadState]] = {}  # what each processor ran last

    @cached_property
    def _writer(self) -> FxtWriter:
        """The writer; the registry knows the wall clock when it is first used."""
        wall_clock = self._registry.wall_clock
        if wall_clock is None:
            return FxtWriter(self._sink)
        return FxtWriter(self._sink, base_ticks=max(-wall_clock, 0), wall_clock=max(wall_clock, 0))

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Write the rows of a batch."""
        super().enter(tables)
        self._write_switches(tables)

    def finish(self) -> None:
        """Write the rest of the trace."""
        super().finish()
        self._define(every=False)
        self._writer.close()

    def _prepare(self, tables: Mapping[str, Table]) -> None:
        self._define(every="scheduling" in tables or "wakeups" in tables)

    # Names, threads and ids.

    def _text(self, text: str) -> str:
        """Return a text that a string record can hold."""
        if text.isascii() and len(text) <= MAX_TEXT_BYTES:
            return text
        data = text.encode("utf-8", "surrogateescape")
        if len(data) > MAX_TEXT_BYTES:
            self.losses[_CUT] += 1
            return data[:MAX_TEXT_BYTES].decode("utf-8", "ignore")
        return data.decode("utf-8", "surrogateescape")

    def _koid(self, number: int) -> int:
        if number < 0:
            self.losses[_NEGATIVE] += 1
        return int(number % 2**64)

    def _grow(self) -> None:
        """Choose the thread and the id of each new track."""
        registry = self._registry
        for track in range(len(self._threads), registry.track_count):
            info = registry.track_info(track)
            tid = info.tid
            if info.kind == TrackKind.THREAD:
                self._thread_of_process.setdefault(info.process, info.tid)
            else:
                tid = self._thread_of_process.get(info.process, info.pid)
            self._threads.append(Thread(self._koid(info.pid), self._koid(tid)))
            number = info.id
            if info.kind != TrackKind.COUNTER:
                number = _FIRST_ID + track if number in self._used or not number else number
                self._used.add(number)
            self._ids.append(number)

    def _define(self, *, every: bool) -> None:
        """Write kernel objects for processes and threads with new names; with `every`, for all threads."""
        registry, main = self._registry, self._writer.main
        for process, name in enumerate(registry.process_names()):
            if name >= 0 and self._process_names.get(process) != name:
                self._process_names[process] = name
                main.kernel_object(ObjectType.PROCESS, self._koid(registry.process_id(process)), self._texts.text(name))
        self._label()
        for thread, name in enumerate(registry.thread_names()):
            if self._thread_names.get(thread, -1 if not every else None) != name:
                self._thread_names[thread] = name
                info = registry.thread_info(thread)
                args = {"process": Koid(self._koid(info.pid))}
                main.kernel_object(ObjectType.THREAD, self._koid(info.tid), self._texts.text(name), args)

    def _label(self) -> None:
        """Write the labels that are new."""
        new = [*self._registry.labels.items()][self._labels :]
        self._labels += len(new)
        for name, text in new:  # an object for each, as a record has no room for many long ones
            self._writer.main.kernel_object(ObjectType.JOB, OBJECT_KOID, OBJECT_NAME, {name: text})

    def _indexed(self, codes: Array) -> Indexed:
        """Return a column of names; null is an empty name."""
        used, place = _distinct(codes, len(self._registry.names.values))
        return Indexed([self._texts.text(code) for code in used.tolist()], place)

    def _thread_column(self, track: Array) -> Indexed:
        """Return a column of the threads of tracks; several tracks may have the same one."""
        used, place = _distinct(track, len(self._threads))
        threads = [self._threads[each] for each in used.tolist()]
        number_of = {thread: number for number, thread in enumerate(dict.fromkeys(threads))}
        return Indexed([*number_of], np.array([number_of[thread] for thread in threads], np.int64)[place])

    # Events.

    def _write_events(self, events: Events, args: ArgumentRows) -> None:
        self._grow()
        ids = np.array(self._ids, np.uint64)
        cls = self._classes(events)
        is_async = np.isin(cls, [EVENT_TYPES.index(each) for each in _ASYNC_CLASSES.values()])
        tail = np.where(is_async, ids[events.track], events.id)
        tail = np.where(cls == EVENT_TYPES.index(r.DurationComplete), events.end.view(np.uint64), tail)
        scope = events.detail.astype(np.uint64)
        self._write(
            EventTable(
                cls,
                events.time.view(np.uint64),
                self._thread_column(events.track),
                self._indexed(events.name),
                self._indexed(events.category),
                tail,
                OptionalColumn(scope, scope > 0),
                listed=self._listed(args),
            )
        )

    def _write(self, table: EventTable) -> None:
        for groups in table.parts(slice(0, len(table.kind))):
            self._writer.main._write_groups(groups)

    def _classes(self, events: Events) -> Array:
        """Return the index in `EVENT_TYPES` of the class of each event."""
        width = max(SpanStep) + 1
        table = np.zeros((3, width + len(FLOW_TYPES)), np.int64)
        for row, classes in ((0, _ASYNC_CLASSES), (1, _THREAD_CLASSES)):
            for step, cls in classes.items():
                table[row, step] = EVENT_TYPES.index(cls)
            for place, flow in enumerate(FLOW_TYPES):
                table[row, width + place] = EVENT_TYPES.index(_FLOW_CLASSES[flow])
        is_thread = (self._registry.track_kinds(events.track) == TrackKind.THREAD).astype(np.int64)
        column = np.where(events.step == SpanStep.FLOW, width + events.detail.astype(np.int64), events.step)
        result: Array = table[is_thread, column]
        return result

    def _listed(self, args: ArgumentRows) -> ListedArguments:
        """Return the arguments of events; of one with too many, the last is a text that has the rest."""
        first = np.searchsorted(args.row, args.row)
        is_crowded = np.searchsorted(args.row, args.row, "right") - first > MAX_ARGUMENTS
        fits = ~is_crowded | (np.arange(len(args)) - first < MAX_ARGUMENTS - 1)
        rest = self._rest(args.take(~fits)) if not fits.all() else {}
        args = args.take(fits) if rest else args
        is_text = args.kind == ArgumentKind.TEXT
        used, place = _distinct(np.concatenate([args.name, args.text[is_text]]), len(self._registry.names.values))
        texts = [self._texts.text(code) for code in used.tolist()]
        bits = args.bits.copy()
        bits[is_text] = place[len(args) :].astype(np.uint64)
        cls = _CLASS_OF_KIND[args.kind]
        for long, short, least, most in _SHORT:
            values = bits.view(np.int64) if least < 0 else bits
            cls[(cls == long) & (values >= least) & (values <= most)] = short
        row, name = args.row, place[: len(args)]
        if rest:  # each goes after the other arguments of its event
            at, added = np.searchsorted(row, [*rest], "right"), len(texts) + 1 + np.arange(len(rest))
            row, cls = np.insert(row, at, [*rest]), np.insert(cls, at, _CLASS_OF_KIND[ArgumentKind.TEXT])
            name, bits = np.insert(name, at, len(texts)), np.insert(bits, at, added.astype(np.uint64))
            texts += [OTHER_ARGUMENTS, *rest.values()]
        return ListedArguments(row, cls, name, bits, texts)

    def _rest(self, args: ArgumentRows) -> dict[int, str]:
        """Return arguments as a JSON object for each event, by its row; those that make it too long are left out."""
        names, members, sizes = self._registry.names.values, dict[int, list[str]](), Counter[int]()
        for row, name, value in zip(args.row.tolist(), args.name.tolist(), args.values(names), strict=True):
            is_json = not isinstance(value, float) or math.isfinite(value)
            member = f"{_as_json(names[name])}: {_as_json(value if is_json else str(value))}"
            size = len(member.encode()) + len(", ")
            if sizes[row] + size > MAX_TEXT_BYTES:
                self.losses[_TOO_LONG] += 1
            else:
                self.losses[_MANY] += 1
                sizes[row] += size
                members.setdefault(row, []).append(member)
        return {row: f"{{{', '.join(each)}}}" for row, each in members.items()}

    # What is not on tracks.

    def _write_counters(self, counters: Table) -> None:
        """Write each value as an event with one argument; `a:b` is the value `b` of the counter `a`."""
        self._grow()
        rows = counters.num_rows
        codes = []
        used, place = _distinct(counters["track"], len(self._threads))
        for track in used.tolist():
            name, _, series = (self._registry.track_info(track).name or "").rpartition(":")
            name = name or series
            codes.append((self._registry.names.code(name), self._registry.names.code(series or name)))
        pairs = np.array(codes, np.int32)[place]
        value = counters["value"]
        # A value that is a whole number, as most are, is written as one; up to 2^53 a double has each.
        whole = (np.abs(value) < 2**53) & (value == np.floor(value))
        bits = np.where(whole, np.where(whole, value, 0).astype(np.int64).view(np.uint64), value.view(np.uint64))
        kind = np.where(whole, ArgumentKind.INTEGER, ArgumentKind.NUMBER)
        ids = np.array(self._ids, np.uint64)[counters["track"]]
        order = np.argsort(counters["time"], kind="stable")
        args = ArgumentRows(np.arange(rows), pairs[order, 1], kind[order], bits[order], np.full(rows, -1))
        self._write(
            EventTable(
                np.full(rows, EVENT_TYPES.index(r.Counter)),
                counters["time"][order].view(np.uint64),
                self._thread_column(counters["track"][order]),
                self._indexed(pairs[order, 0]),
                Indexed([""], None),
                ids[order],
                OptionalColumn(ids, np.zeros(rows, bool)),
                listed=self._listed(args),
            )
        )

    def _write_logs(self, logs: Table) -> None:
        levels = int((logs["level"].codes >= 0).sum())
        if levels:
            self.losses[_LEVELS] += levels
        threads = [self._registry.thread_info(thread) for thread in logs["thread"].tolist()]
        columns = {
            "time": logs["time"],
            "process": np.array([self._koid(each.pid) for each in threads], np.uint64),
            "thread": np.array([self._koid(each.tid) for each in threads], np.uint64),
            "message": Categories.of(map(self._texts.text, logs["message"].codes.tolist())),
        }
        self._writer.write_table("logs", columns)

    def _write_switches(self, tables: Mapping[str, Table]) -> None:
        """Write context switches and wakeups."""
        rows: list[tuple[Any, ...]] = []
        if "scheduling" in tables:
            table = tables["scheduling"]
            names = ("cpu", "start", "duration", "thread", "priority")
            columns = [table[name].tolist() for name in names]
            for cpu, start, duration, thread, priority, state in zip(*columns, table["state"].tolist(), strict=True):
                rows += self._switches(cpu, start, start + duration, thread, priority, state)
        if "wakeups" in tables:
            table = tables["wakeups"]
            columns = [table[name].tolist() for name in ("time", "cpu", "thread", "waker")]
            for time, cpu, thread, waker in zip(*columns, strict=True):
                tid, waking = self._registry.thread_info(thread).tid, self._registry.thread_info(waker).tid
                rows.append(("thread_wakeup", time, cpu, tid, None, None, None, None, waking if waker >= 0 else None))
        if not rows:
            return
        rows.sort(key=lambda row: row[1])
        keys = (
            "type", "time", "cpu", "incoming_thread", "outgoing_thread", "outgoing_state", "outgoing_priority",
            "incoming_priority", "waker",
        )  # fmt: skip
        values = dict(zip(keys, map(list, zip(*rows, strict=True)), strict=True))
        self._writer.write_table("scheduling", {name: _nullable(column) for name, column in values.items()})

    def _switches(
        self, cpu: int, start: int, end: int, thread: int, priority: int, state: str | None
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the switch to a thread, and the one to the idle thread before it if there is a gap."""
        tid = self._koid(self._registry.thread_info(thread).tid)
        last_end, last_tid, last_priority, last_state = self._running.get(cpu, (0, 0, _IDLE, ThreadState.RUNNING))
        if last_priority != _IDLE and last_end < start:
            last = _STATE_NAMES[last_state]
            yield "context_switch", last_end, cpu, 0, last_tid, last, _weight(last_priority), _IDLE, None
            last_tid, last_priority, last_state = 0, _IDLE, ThreadState.RUNNING
        last = _STATE_NAMES[last_state]
        weights = (_weight(last_priority), _weight(priority))
        yield "context_switch", start, cpu, tid, last_tid, last, *weights, None
        if state is not None and state not in _STATES:
            self.losses["states of threads that FXT does not have, which are `blocked` or `running` now"] += 1
        number = _STATES.get(state or "running", ThreadState.BLOCKED)
        if state == "runnable":
            number = ThreadState.RUNNING
        self._running[cpu] = (end, tid, priority, number)


_STATE_NAMES = {state: state.name.lower() for state in ThreadState}


def _weight(priority: int) -> int | None:
    """Return a priority as an argument; 0 is none."""
    return priority or None


def _nullable(column: list[Any]) -> Any:
    if any(isinstance(value, str) for value in column):
        return Categories.of(column)
    present = np.array([value is not None for value in column])
    values = [value or 0 for value in column]
    return Optional(np.array(values, np.uint64 if max(values) >= 2**63 else np.int64), present)


def _distinct(codes: Array, size: int) -> tuple[Array, Array]:
    """Return the distinct codes of a column, from -1 to `size` - 1, and for each row the index of its own."""
    if size > 4 * len(codes) + 1024:
        used, place = np.unique(codes, return_inverse=True)
        return used, place
    present = np.bincount(codes.astype(np.int64) + 1, minlength=size + 1) > 0
    used = np.flatnonzero(present) - 1
    return used, (np.cumsum(present) - 1)[codes.astype(np.int64) + 1]
