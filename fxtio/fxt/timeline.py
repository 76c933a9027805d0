"""The room `timeline`: an FXT trace as steps on tracks and rows of tables, see `fxtio.timeline.parts`.

A thread is a pair of koids, whichever provider writes it.  Async events with the same id are on one track.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import partial
from typing import Any, Protocol

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.codec.distinct import number_distinct
from fxtio.codec.record import Record
from fxtio.fxt import backtraces
from fxtio.fxt import records as r
from fxtio.fxt.batch_tables import BatchTables
from fxtio.fxt.enums import ArgumentType, ObjectType
from fxtio.fxt.plain import STEPS, ArgumentColumns, EventColumns, PlainReader
from fxtio.fxt.slots import first_wall_clock
from fxtio.fxt.state import Batch
from fxtio.fxt.tables import BatchCollector
from fxtio.labels import OBJECT_KOID, OBJECT_NAME
from fxtio.table import Categories, Column, numbers_of
from fxtio.timeline.parts import BOOTTIME, MONOTONIC, STEP_COLUMNS, Registry, Steps, TimelinePart, pair_keys
from fxtio.timeline.scheduling import Processors
from fxtio.timeline.schema import FLOW_TYPES, SCOPES, ArgumentKind, TrackKind
from fxtio.timeline.sums import number_groups

NOT_CARRIED = (
    "blobs and the bytes of blob arguments",
    "userspace objects, which name the values of pointers",
    "the build ids of modules, and the flags of memory maps and backtraces",
    "which provider wrote a record, and in which slot a string or thread was",
)
"""The content of a trace that its timeline does not have."""

_ZEROS = {"monotonic_zero_ns": MONOTONIC, "boottime_zero_ns": BOOTTIME}
"""The clocks of which a recording says, in arguments of its processes, when they showed 0."""

_ASYNC = (r.AsyncBegin, r.AsyncInstant, r.AsyncEnd)
_FLOW_TYPES = {
    r.FlowBegin: FLOW_TYPES.index("begin"),
    r.FlowStep: FLOW_TYPES.index("step"),
    r.FlowEnd: FLOW_TYPES.index("end"),
}
_OWNERS: tuple[type[Record], ...] = (*STEPS, r.Counter)
_ARGUMENT_KINDS = {
    ArgumentType.NULL: ArgumentKind.NULL,
    ArgumentType.INT32: ArgumentKind.INTEGER,
    ArgumentType.UINT32: ArgumentKind.UNSIGNED,
    ArgumentType.INT64: ArgumentKind.INTEGER,
    ArgumentType.UINT64: ArgumentKind.UNSIGNED,
    ArgumentType.DOUBLE: ArgumentKind.NUMBER,
    ArgumentType.STRING: ArgumentKind.TEXT,
    ArgumentType.POINTER: ArgumentKind.POINTER,
    ArgumentType.KOID: ArgumentKind.KOID,
    ArgumentType.BOOL: ArgumentKind.BOOLEAN,
}
_KINDS = np.full(max(ArgumentType) + 2, ArgumentKind.NULL, np.int32)  # others, and -1 for an unknown type
for _type, _kind in _ARGUMENT_KINDS.items():
    _KINDS[_type] = _kind


class BatchSource(Protocol):
    """A trace that gives its records in batches, as `FxtTrace` does.

    Attributes:
        share: the part of it that was read so far (0 to 1), 0 where it is not known.
    """

    share: float

    def record_batches(self, *, forget: bool) -> Iterator[Batch]:
        """Read it from its beginning, see `FxtTrace.record_batches`."""


def parts(trace: BatchSource, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    """Read a trace, and yield what each batch adds to its timeline.

    Args:
        trace: the trace.
        registry: numbers names, threads and tracks.
        tables: the tables of the timeline that are needed.
    """
    mapping = _Mapping(registry, tables)
    for batch in trace.record_batches(forget=True):
        yield mapping.part(batch, trace.share)
        del batch
    yield mapping.finish()


class _Mapping:
    """The state of a reading, from batch to batch."""

    def __init__(self, registry: Registry, tables: Set[str]) -> None:
        self._registry = registry
        self._tables = tables
        self._names = registry.names
        self._processors = Processors(registry)
        self._backtraces = backtraces.Backtraces(registry)
        self._plain = PlainReader({cls: STEPS.get(cls, SpanStep.NONE) for cls in _OWNERS}, _ARGUMENT_KINDS)
        self._process_of: dict[int, int] = {}  # the process koid of each thread koid, as objects and events have it
        self._threads: Any = None  # the threads of the reading to which `_track_of` belongs
        self._track_of = np.empty(0, np.int32)
        self._first_event = 0
        self._end = 0

    def part(self, batch: Batch, share: float) -> TimelinePart:
        """Convert a batch, which ends at a share of the trace."""
        part = TimelinePart(share=share)
        tables = BatchTables(batch)
        if self._registry.wall_clock is None:
            self._registry.note_wall_clock(first_wall_clock(batch.reading.clocks))
        present = set(batch.classes())
        if r.KernelObject in present:
            self._name_objects(batch)
        if not present.isdisjoint(_OWNERS):
            self._enter_events(tables, part)
        if "counters" in self._tables and r.Counter in present:
            part.tables["counters"] = self._counters(tables)
        if "logs" in self._tables and r.Log in present:
            part.tables["logs"] = self._logs(tables)
        if self._tables & {"scheduling", "wakeups"} and not present.isdisjoint(_SCHEDULING):
            self._schedule(batch, part)
        if self._tables & {"samples", "stacks", "frames"} and not present.isdisjoint(backtraces.CLASSES):
            part.tables |= self._backtraces.tables(batch)
        self._first_event += len(batch)
        return part

    def _enter_events(self, tables: BatchTables, part: TimelinePart) -> None:
        """Add the events of a batch, and their arguments."""
        batch = tables.batch
        classes = [cls for cls in _OWNERS if cls in batch.classes()]
        needs_steps = not self._tables.isdisjoint(_PAIRED) and classes != [r.Counter]
        needs_args = "args" in self._tables
        if not needs_steps and not needs_args:
            return
        plain = self._plain.read(
            batch, partial(self._texts_of, batch), partial(self._tracks_of, batch), self._first_event,
            with_arguments=needs_args,
        )  # fmt: skip
        if needs_steps:
            stepping = [cls for cls in classes if cls is not r.Counter]
            part.steps = self._steps(batch, stepping, plain[0] if plain else self._events(batch, stepping))
        if needs_args:
            args = plain[1] if plain else self._args(tables, classes)
            columns = dict(zip(_ARGS, args, strict=True))
            part.tables["args"] = self._registry.columns("args", columns)

    def finish(self) -> TimelinePart:
        """Return the rows that only the end of the trace completes."""
        return TimelinePart(tables={"scheduling": self._processors.finish(self._end)})

    def _texts_of(self, batch: Batch, codes: Array) -> Array:
        """Return the codes of strings of a batch as those of names."""
        return self._names.codes(Categories(codes, batch.strings.values))

    def _tracks_of(self, batch: Batch, codes: Array) -> Array:
        """Return the track of each thread of a batch; -1 for a thread that is not defined."""
        threads = batch.threads
        if self._threads is not threads:
            self._threads, self._track_of = threads, np.array([-1], np.int32)
        count = len(self._track_of) - 1
        if count < len(threads.values):
            new = [self._registry.thread_track(each.process, each.thread or 0) for each in threads.values[count:]]
            self._track_of = np.concatenate([self._track_of[:-1], np.array([*new, -1], np.int32)])
            self._process_of |= {each.thread: each.process for each in threads.values[count:] if each.thread}
        return self._track_of[codes]

    def _codes(self, batch: Batch, column: Any, rows: Array) -> Array:
        """Return the codes of a column of strings."""
        return self._texts_of(batch, batch.string_codes(column, rows))

    def _tracks(self, batch: Batch, column: Any, rows: Array) -> Array:
        """Return the track of each thread of a column; -1 for a thread that is not defined."""
        return self._tracks_of(batch, batch.thread_codes(column, rows))

    def _events(self, batch: Batch, classes: list[type[Record]]) -> EventColumns:
        """Return the events of a batch, however they are."""
        events = EventColumns.blank(len(batch))
        for cls in classes:
            rows, columns = batch.columns(cls)
            at: Any = slice(None) if len(rows) == len(batch) else rows
            track = self._tracks(batch, columns["thread"], rows)
            events.step[at] = np.where(track >= 0, np.int8(STEPS[cls]), np.int8(SpanStep.NONE))
            events.track[at], events.ticks[at] = track, columns["timestamp"]
            events.name[at] = self._codes(batch, columns["name"], rows)
            events.category[at] = self._codes(batch, columns["category"], rows)
            tail = columns["scope"].values if cls is r.Instant else columns.get("end", columns.get("id"))
            if tail is not None:
                events.tail[at] = tail
        return events

    def _steps(self, batch: Batch, classes: list[type[Record]], events: EventColumns) -> Steps:
        """Return the events of a batch as steps."""
        step, time = events.step, batch.times(events.ticks, np.arange(len(batch)))
        details: dict[str, Array] = {}
        asynchronous = []
        for cls in classes:
            if cls in (r.DurationBegin, r.DurationEnd):
                continue
            rows = batch.rows(cls)
            rows = rows[step[rows] != SpanStep.NONE]
            tail = events.tail[rows]
            if cls is r.DurationComplete:
                _column(details, "end", step)[rows] = self._ends(batch, tail, rows, time[rows])
            elif cls is r.Instant:
                _column(details, "detail", step)[rows] = np.minimum(tail, len(SCOPES) - 1)
            else:
                _column(details, "id", step)[rows] = tail
            if cls in _FLOW_TYPES:
                _column(details, "detail", step)[rows] = _FLOW_TYPES[cls]
            elif cls in _ASYNC:
                _column(details, "key", step)[rows] = pair_keys(events.category[rows], events.name[rows])
                asynchronous.append(rows)
        columns = events._asdict()
        del columns["tail"]
        steps = Steps.of(self._first_event, time=time, **columns, **details)
        self._to_async_tracks(steps, asynchronous)
        self._end = max(self._end, int(time.max()), int(steps.end.max()))
        return steps

    def _ends(self, batch: Batch, ticks: Array, rows: Array, time: Array) -> Array:
        end = batch.times(ticks, rows)
        backwards = int((end < time).sum())
        if backwards:
            self._registry.losses["complete events that end before they begin, which last 0 ns now"] += backwards
        return np.maximum(end, time)

    def _to_async_tracks(self, steps: Steps, rows_of_classes: list[Array]) -> None:
        """Move async events from the tracks of threads to those of their ids, named after the first event of each."""
        if not rows_of_classes:
            return
        rows = np.sort(np.concatenate(rows_of_classes))
        ids, first, place = np.unique(steps.id[rows], return_index=True, return_inverse=True)
        first = rows[first]
        processes = self._registry.track_processes(steps.track[first])
        steps.track[rows] = self._registry.async_tracks(ids, steps.name[first], processes)[place]

    def _name_objects(self, batch: Batch) -> None:
        """Name processes and threads; a thread without the argument `process` belongs to process 0, as in Perfetto."""
        rows, columns = batch.columns(r.KernelObject)
        codes = self._codes(batch, columns["name"], rows)
        names = self._names.column(codes).tolist()
        argument = partial(BatchTables(batch).argument, r.KernelObject, dtype=np.uint64)
        owners, costs = argument("process", ArgumentType.KOID), argument("call_ns", ArgumentType.UINT32).tolist()
        zeros = {clock: argument(name, ArgumentType.UINT64).tolist() for name, clock in _ZEROS.items()}
        for row, (kind, koid, name, owner) in enumerate(
            zip(columns["object_type"].tolist(), columns["koid"].tolist(), names, owners.tolist(), strict=True)
        ):
            if kind == ObjectType.PROCESS:
                self._registry.process(koid, name)
                self._registry.call_cost = self._registry.call_cost or costs[row]
                self._note_clocks({clock: column[row] for clock, column in zeros.items()})
            elif kind == ObjectType.THREAD:
                owner = self._process_of.get(koid, 0) if owner is None else owner
                self._process_of[koid] = owner
                self._registry.thread(owner, koid, name)
        is_labels = (columns["object_type"] == ObjectType.JOB) & (columns["koid"] == np.uint64(OBJECT_KOID))
        if is_labels.any():
            self._note_labels(BatchTables(batch), rows[is_labels & np.array([name == OBJECT_NAME for name in names])])

    def _note_labels(self, tables: BatchTables, objects: Array) -> None:
        """Note the labels, which are the texts that these objects have as arguments."""
        owners, args = tables.arguments_of(r.KernelObject)
        texts = tables.batch.strings.values
        is_label = np.isin(owners, objects) & (args["type"].codes == ArgumentType.STRING)
        for name, text in zip(args["name"].codes[is_label].tolist(), args["bits"][is_label].tolist(), strict=True):
            if name >= 0 and text < len(texts):
                self._registry.note_label(texts[name], texts[text])

    def _note_clocks(self, zeros: dict[str, int | None]) -> None:
        """Note what clocks show at the time 0, of which is known when they showed 0 themselves."""
        for clock, zero in zeros.items():
            if zero is not None and self._registry.wall_clock is not None:
                self._registry.note_clock(clock, self._registry.wall_clock - zero)

    def _counters(self, tables: BatchTables) -> dict[str, Column]:
        """Return a row for each number that a counter event has as an argument."""
        batch = tables.batch
        rows, columns = batch.columns(r.Counter)
        owners, args = tables.arguments_of(r.Counter)
        kinds, bits = _KINDS[args["type"].codes], args["bits"]
        is_number = np.isin(kinds, (ArgumentKind.INTEGER, ArgumentKind.UNSIGNED, ArgumentKind.NUMBER))
        if not is_number.all():
            self._registry.losses["arguments of counters that are not numbers"] += int((~is_number).sum())
        owners, kinds, bits = owners[is_number], kinds[is_number], bits[is_number]
        series = self._names.codes(args["name"])[is_number]
        place = np.searchsorted(rows, owners)
        value = bits.astype(np.float64)
        signed, real = kinds == ArgumentKind.INTEGER, kinds == ArgumentKind.NUMBER
        value[signed], value[real] = bits[signed].view(np.int64), bits[real].view(np.float64)
        thread = self._tracks(batch, columns["thread"], rows)[place]
        name = self._codes(batch, columns["name"], rows)[place]
        return self._registry.columns(
            "counters",
            {
                "time": batch.times(columns["timestamp"], rows)[place],
                "track": self._counter_tracks(thread, name, series, columns["id"][place]),
                "value": value,
                "event": owners + self._first_event,
            },
        )

    def _counter_tracks(self, threads: Array, names: Array, series: Array, ids: Array) -> Array:
        """Return the track of each value: one for each process, counter, series and id."""
        place, first = number_groups([threads, names, series, number_distinct(ids)[0]])
        columns = (self._registry.track_processes(threads[first]), names[first], series[first], ids[first])
        texts = self._names.values
        tracks = []
        for key in zip(*(column.tolist() for column in columns), strict=True):
            process, *codes, number = key
            title = ":".join(dict.fromkeys(texts[code] for code in codes if code >= 0 and texts[code]))
            name = self._names.code(title)
            tracks.append(self._registry.track(TrackKind.COUNTER, key, name=name, process=process, id=number))
        return np.array(tracks, np.int32)[place]

    def _args(self, tables: BatchTables, classes: list[type[Record]]) -> ArgumentColumns:
        """Return the arguments of events, however they are, in the order of the file."""
        parts = [tables.arguments_of(cls) for cls in classes]
        parts = [(owners, args) for owners, args in parts if len(owners)]
        if not parts:
            return ArgumentColumns.blank()
        owners, types, bits = (
            _joined([(owners, numbers_of(args["type"]), args["bits"])[place] for owners, args in parts])
            for place in range(3)
        )
        names = _joined([self._names.codes(args["name"]) for _, args in parts])
        is_text = types == ArgumentType.STRING
        texts = self._texts_of(tables.batch, np.where(is_text, bits.view(np.int64), -1))
        kinds = _KINDS[types]
        lost = int(np.count_nonzero((kinds == ArgumentKind.NULL) & (types != ArgumentType.NULL)))
        if lost:
            self._registry.losses["arguments that are bytes, or whose type is not defined"] += lost
        bits = np.where(is_text, np.uint64(0), bits)
        columns = ArgumentColumns(owners + self._first_event, names, kinds, bits, texts)
        if len(parts) > 1:
            order = np.argsort(owners, kind="stable")
            columns = ArgumentColumns(*(column[order] for column in columns))
        return columns

    def _logs(self, tables: BatchTables) -> dict[str, Column]:
        batch = tables.batch
        rows, columns = batch.columns(r.Log)
        tracks = self._tracks(batch, columns["thread"], rows)
        return self._registry.columns(
            "logs",
            {
                "time": batch.times(columns["timestamp"], rows),
                "thread": self._registry.track_threads(tracks),
                "level": -1,
                "message": self._names.codes(tables.texts(columns["message"])),
            },
        )

    def _schedule(self, batch: Batch, part: TimelinePart) -> None:
        """Convert switches and wakeups."""
        collector = BatchCollector(("scheduling",))
        collector.add(BatchTables(batch))
        table = collector.tables(batch)["scheduling"]
        wakes = table["type"].is_in("thread_wakeup")
        switches = table.take(np.flatnonzero(~wakes))
        is_legacy = switches["type"].is_in("legacy_context_switch")
        priority = switches["incoming_priority"]
        # The idle thread has process 0 and priority 0 in legacy records, and the lowest of all priorities in others.
        is_idle = np.where(
            is_legacy,
            (switches["incoming_process"].values == 0) & (priority.values == 0),
            priority.present & (priority.values == np.iinfo(np.int32).min),
        )
        thread = self._scheduled(switches["incoming_thread"])
        part.tables["scheduling"] = self._processors.enter(
            time=switches["time"],
            cpu=switches["cpu"].astype(np.int32),
            thread=np.where(is_idle, np.int32(-1), thread),
            priority=np.where(priority.present, priority.values, 0).astype(np.int64),
            state=self._names.codes(switches["outgoing_state"]),
        )
        self._end = max(self._end, int(table["time"].max(initial=0)))
        wakeups = table.take(np.flatnonzero(wakes))
        waker = np.full(wakeups.num_rows, -1, np.int32)
        waker[wakeups["waker"].present] = self._scheduled(wakeups["waker"].values[wakeups["waker"].present])
        part.tables["wakeups"] = self._registry.columns(
            "wakeups",
            {
                "time": wakeups["time"],
                "cpu": wakeups["cpu"].astype(np.int32),
                "thread": self._scheduled(wakeups["incoming_thread"]),
                "waker": waker,
            },
        )

    def _scheduled(self, koids: Array) -> Array:
        """Return the rows of threads that scheduling records name by their koid alone."""
        distinct, place = np.unique(koids, return_inverse=True)
        rows = [self._registry.thread(self._process_of.get(koid, 0), koid) for koid in distinct.tolist()]
        return np.array(rows, np.int32)[place]


_SCHEDULING = (r.LegacyContextSwitch, r.ContextSwitch, r.ThreadWakeup)
_ARGS = ("event", "name", "type", "bits", "text")  # in the order of `ArgumentColumns`
_PAIRED = {"slices", "instants", "flow_points"}


def _column(columns: dict[str, Array], name: str, like: Array) -> Array:
    """Return a column of steps, a new one for as many rows as another array has."""
    if name not in columns:
        dtype, default = STEP_COLUMNS[name]
        columns[name] = np.full(len(like), default, dtype)
    return columns[name]


def _joined(arrays: list[Array]) -> Array:
    """Concatenate arrays; a single one is not copied."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
