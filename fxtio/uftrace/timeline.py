"""The room `timeline`: a data directory as steps on tracks and rows of tables, see `fxtio.timeline.parts`.

Each task is a thread.  A step has the depth of its record as its level, so that calls without an exit end where this
shows.  `fxtio.uftrace.timeline_system` has what comes from
the other files: the scheduler, the kernel, the beginnings of tasks, messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

import numpy as np

from fxtio._native.constants import UNWIND, SpanStep
from fxtio.arrays import Array
from fxtio.table import Column, Table
from fxtio.timeline.parts import BOOTTIME, MONOTONIC, REALTIME, Registry, Steps, TimelinePart
from fxtio.timeline.schema import ArgumentKind, TrackKind
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.events import ADDRESSES, NAMES, OF_PROCESS, READS
from fxtio.uftrace.frames import Chunk
from fxtio.uftrace.layout import RecordWord
from fxtio.uftrace.pairing import CallSteps, MissingEntry, missing_entries
from fxtio.uftrace.tables import FunctionCodes, TableBuilder
from fxtio.uftrace.timeline_system import SystemFiles
from fxtio.uftrace.values import FORMATS

if TYPE_CHECKING:
    from fxtio.uftrace.reader import UftraceTrace

NOT_CARRIED = (
    "structures among arguments, and the data of events whose layout is not known",
    "the addresses and the source lines of functions",
    "the symbols, modules and debug information that no call refers to",
    "the machine and the options of the recording, as the info file has them",
)
"""The content of a trace that its timeline does not have."""

_FIELDS = RecordWord.fields
_STEP_OF = np.array([SpanStep.END, SpanStep.INSTANT, SpanStep.BEGIN], np.int8)  # of exits, others, and entries
_KIND_OF_FORMAT = np.array(
    [
        {
            "d": ArgumentKind.INTEGER,
            "i": ArgumentKind.INTEGER,
            "e": ArgumentKind.INTEGER,
            "f": ArgumentKind.NUMBER,
            "p": ArgumentKind.POINTER,
            "s": ArgumentKind.TEXT,
            "S": ArgumentKind.TEXT,
            "c": ArgumentKind.TEXT,
        }.get(letter, ArgumentKind.UNSIGNED)
        for letter in FORMATS
    ],
    np.int8,
)
_CLOCKS = {"mono": MONOTONIC, "boot": BOOTTIME, "realtime": REALTIME}
_CHARACTER, _STRUCTURE = FORMATS.index("c"), FORMATS.index("t")
_BEFORE, _SYSTEM, _RECORD, _AFTER = range(4)  # the order of steps at a record
_PLACES = 4

Placed = tuple[Array, Steps]
"""Steps, and for each its place: the row of a record times `_PLACES`, and when at this record."""


def parts(trace: UftraceTrace, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    """Read a trace, and yield what each batch adds to its timeline.

    Args:
        trace: the trace.
        registry: numbers names, threads and tracks.
        tables: the tables of the timeline that are needed.
    """
    registry.note_wall_clock(trace.info_file.wall_clock)
    registry.note_clock(_CLOCKS.get(trace.info_file.clock, trace.info_file.clock), 0)
    yield from _Mapping(trace, registry, tables).parts()


class _Task:
    """The state of the task whose records are being read.

    Args:
        tid: the task.
        track: its track.
        missing: its calls without an entry.
        begin: its begin in nanoseconds.

    Attributes:
        calls: its entries and exits.
        record: the number of its next record, from 0.
        time: the time of its last record in nanoseconds.
        alone: the numbers of the exits to come of open calls without an entry.
    """

    def __init__(self, tid: int, track: int, missing: list[MissingEntry], begin: int) -> None:
        self.tid = tid
        self.track = track
        self.calls = CallSteps()
        self.record = 0
        self.time = begin
        self.alone: set[int] = set()
        self._missing = missing[::-1]  # the next one at the end

    def take_openings(self, count: int) -> list[MissingEntry]:
        """Remove and return the calls without an entry that begin with one of the next `count` records."""
        result = []
        while self._missing and self._missing[-1].record < self.record + count:
            result.append(self._missing.pop())
            self.alone.add(result[-1].exit)
        return result


class _Mapping:
    """The state of a reading, from batch to batch."""

    def __init__(self, trace: UftraceTrace, registry: Registry, tables: Set[str]) -> None:
        self._trace = trace
        self._registry = registry
        self._names = registry.names
        self._tables = tables
        self._has_steps = bool(tables & {"slices", "instants", "flow_points"})
        self._reading = trace.begin()
        self._reading.quiet = True
        pointer_size = trace.info_file.pointer_size
        self._builder = TableBuilder((), self._reading.events, pointer_size, self._reading.findings)
        self._functions = FunctionCodes(registry.names.code, registry.names.code)
        self._lost = self._names.code("lost records")
        self._system = SystemFiles(self._reading, registry, tables)

    def parts(self) -> Iterator[TimelinePart]:
        """Yield the parts: first the other files, then task by task."""
        system, trace, reading = self._system, self._trace, self._reading
        yield system.part()
        self._builder.record = system.event_count  # events are numbered on
        allowed = dict(trace.allowed_sizes(trace.tids))
        task: _Task | None = None
        for chunk in trace.chunks_of(reading):
            if task is None or task.tid != chunk.tid:
                if task is not None:
                    yield self._end_of(task)
                task = self._begin(chunk.tid, allowed[chunk.tid])
            if chunk.gap is not None:
                task.calls.skip()
            elif len(chunk):
                if task.calls.leave_program(chunk):
                    yield TimelinePart(self._end_of_program(task))
                yield self._part(task, chunk)
        if task is not None:
            yield self._end_of(task)
        yield TimelinePart(system.rest())

    def _begin(self, tid: int, allowed: int) -> _Task:
        sessions = self._reading.sessions
        missing: list[MissingEntry] = []
        if self._has_steps:
            missing = missing_entries(self._trace.chunks_ahead(self._reading, tid, allowed), self._functions.codes)
        return _Task(tid, self._system.track(tid), missing, sessions.begin_of(tid) or 0)

    def _part(self, task: _Task, chunk: Chunk) -> TimelinePart:
        part = TimelinePart(share=self._trace.share)
        if self._has_steps:
            part.steps = self._steps(task, chunk)
        if "args" in self._tables:
            part.tables["args"] = self._args(chunk)
        if "counters" in self._tables:
            part.tables["counters"] = self._counters(task, chunk)
        task.record += len(chunk)
        self._builder.record += len(chunk)
        self._builder.drop_unused_names()
        return part

    def _end_of(self, task: _Task) -> TimelinePart:
        """Return what follows the last record of a task: its open calls end."""
        end = self._end_of_program(task)
        _, rest = self._system.rows_until(task.tid, None)
        return TimelinePart(Steps.joined([end, rest]))

    def _end_of_program(self, task: _Task) -> Steps:
        """Return what follows the last record of a program: its open calls end."""
        time = np.array([self._reading.end_after(task.tid, task.calls.last)])
        _, before = self._system.rows_until(task.tid, time)
        end = Steps.blank(1)
        end.step[:], end.track[:], end.time[:], end.level[:] = SpanStep.RESET, task.track, time, 0
        return Steps.joined([before, end])

    # ---- calls and events

    def _steps(self, task: _Task, chunk: Chunk) -> Steps:
        """Return a step for each record, and those for calls without an entry and of the kernel."""
        count = len(chunk)
        task.calls.enter(chunk)
        step, address = task.calls.step, task.calls.address
        is_entry = step > 0
        entries = np.flatnonzero(is_entry)
        rows = Steps.blank(count, self._builder.record)
        rows.step[:], rows.track[:], rows.ticks[:] = _STEP_OF[step + 1], task.track, chunk.times
        times = chunk.nanoseconds if step.all() else self._instants(task, chunk, rows)
        rows.time[:], rows.key[:], rows.level[:] = times, address + np.uint64(1), task.calls.depth
        rows.name[entries], rows.category[entries] = self._functions.codes(chunk, address[entries])
        extra = [_missing_begins(task, task.take_openings(count)), _resets(task, rows)]
        before, others = self._system.rows_until(task.tid, times)
        extra.append((before * _PLACES + _SYSTEM, others))
        task.time = int(times[-1])
        extra = [part for part in extra if len(part[1])]
        if not extra:
            return rows
        places = np.concatenate([np.arange(count) * _PLACES + _RECORD, *(places for places, _ in extra)])
        return Steps.joined([rows, *(steps for _, steps in extra)]).take(np.argsort(places, kind="stable"))

    def _instants(self, task: _Task, chunk: Chunk, rows: Steps) -> Array:
        """Name the instants of events and of lost records, and return the times of all records (int64 ns).

        Lost records have the time of the record before them.
        """
        kinds = _FIELDS["type"].get(chunk.words)
        events, is_lost = np.flatnonzero(kinds == RecordType.EVENT), kinds == RecordType.LOST
        ids = _FIELDS["address"].get(chunk.words[events]).tolist()
        rows.name[events] = [self._names.code(self._reading.events.name(event)) for event in ids]
        rows.name[is_lost] = self._lost
        before = np.maximum.accumulate(np.where(is_lost, 0, np.arange(1, len(rows) + 1)))
        times: Array = np.append(task.time, chunk.nanoseconds)[before]
        return times

    # ---- counters

    def _counters(self, task: _Task, chunk: Chunk) -> dict[str, Column]:
        """Return the values that events read, such as the size of the process."""
        is_read = _FIELDS["type"].get(chunk.words) == RecordType.EVENT
        is_read &= np.isin(_FIELDS["address"].get(chunk.words), list(READS))
        rows: list[tuple[int, int, float, int]] = []
        if is_read.any():
            values, first = Table(self._builder.table("event_values", chunk)), self._builder.record
            events, times = _FIELDS["address"].get(chunk.words).tolist(), chunk.nanoseconds.tolist()
            columns = (values["record"].tolist(), values["name"], values["bits"].tolist())
            for record, name, value in zip(*columns, strict=True):
                row = record - first
                if is_read[row]:
                    rows.append((times[row], self._counter_track(task, events[row], str(name)), float(value), record))
        result = zip(*rows, strict=True) if rows else ((),) * len(_COUNTERS)
        return self._registry.columns("counters", dict(zip(_COUNTERS, map(list, result), strict=True)))

    def _counter_track(self, task: _Task, event: int, value: str) -> int:
        """Return the track of a value of an event, named after both."""
        info = self._registry.track_info(task.track)
        thread = -1 if event in OF_PROCESS else info.thread
        name = self._names.code(f"{NAMES[event]}:{value}")
        key = (info.process, thread, event, value)
        return self._registry.track(TrackKind.COUNTER, key, name=name, process=info.process, thread=thread)

    # ---- arguments

    def _args(self, chunk: Chunk) -> dict[str, Column]:
        """Return the values in the payloads of records, in their order."""
        more = _FIELDS["more"].get(chunk.words)
        parts = []
        if more.any():
            parts = [self._call_values(chunk), self._event_values(chunk, more)]
        parts.append(self._lost_counts(chunk))
        columns = {name: np.concatenate([part[name] for part in parts]) for name in _ARGS}
        order = np.argsort(columns["event"], kind="stable")
        return self._registry.columns("args", {name: column[order] for name, column in columns.items()})

    def _call_values(self, chunk: Chunk) -> dict[str, Array]:
        """Return arguments and return values."""
        values = Table(self._builder.table("args", chunk))
        letters, bits = values["format"].codes, values["bits"].copy()
        text, meaning = self._names.codes(values["text"]), self._names.codes(values["meaning"])
        kinds = _KIND_OF_FORMAT[letters]
        kinds[(kinds == ArgumentKind.TEXT) & (text < 0)] = ArgumentKind.NULL
        characters = np.flatnonzero(letters == _CHARACTER)
        if len(characters):
            text[characters] = [self._names.code(chr(value)) for value in (bits[characters] & np.uint64(255)).tolist()]
            kinds[characters] = ArgumentKind.TEXT
        has_meaning = meaning >= 0
        kinds[has_meaning], text[has_meaning] = ArgumentKind.TEXT, meaning[has_meaning]
        bits[kinds == ArgumentKind.TEXT] = 0
        columns = {"event": values["record"], "name": self._names.codes(values["name"]), "type": kinds}
        columns |= {"bits": bits, "text": text}
        is_structure = letters == _STRUCTURE
        if not is_structure.any():
            return columns
        self._registry.losses["structures among arguments"] += int(is_structure.sum())
        return {name: column[~is_structure] for name, column in columns.items()}

    def _event_values(self, chunk: Chunk, more: Array) -> dict[str, Array]:
        """Return the values in the data of events."""
        values = Table(self._builder.table("event_values", chunk))
        kinds = np.full(len(values["record"]), ArgumentKind.INTEGER, np.int8)
        kinds[values["name"].is_in(*ADDRESSES)] = ArgumentKind.POINTER
        text, bits = self._names.codes(values["meaning"]), values["bits"].copy()
        kinds[text >= 0], bits[text >= 0] = ArgumentKind.TEXT, 0
        events = np.flatnonzero(more & (_FIELDS["type"].get(chunk.words) == RecordType.EVENT)) + self._builder.record
        unknown = int((~np.isin(events, values["record"])).sum())
        self._registry.losses["events with data whose layout is not known"] += unknown
        name = self._names.codes(values["name"])
        return {"event": values["record"], "name": name, "type": kinds, "bits": bits, "text": text}

    def _lost_counts(self, chunk: Chunk) -> dict[str, Array]:
        """Return how many records were lost."""
        rows = np.flatnonzero(_FIELDS["type"].get(chunk.words) == RecordType.LOST)
        return {
            "event": rows + self._builder.record,
            "name": np.full(len(rows), self._names.code("count")),
            "type": np.full(len(rows), ArgumentKind.UNSIGNED, np.int8),
            "bits": _FIELDS["address"].get(chunk.words[rows]),
            "text": np.full(len(rows), -1, np.int32),
        }


_ARGS = ("event", "name", "type", "bits", "text")
_COUNTERS = ("time", "track", "value", "event")


def _missing_begins(task: _Task, openings: list[MissingEntry]) -> Placed:
    """Return the starts of calls without an entry."""
    steps = Steps.blank(len(openings))
    steps.step[:], steps.track[:], steps.event[:] = SpanStep.BEGIN, task.track, -1
    for place, call in enumerate(openings):
        steps.time[place], steps.ticks[place], steps.level[place] = call.time, call.time, UNWIND
        steps.name[place], steps.category[place], steps.key[place] = call.name, call.module, call.address + 1
    return np.array([call.record - task.record for call in openings], np.int64) * _PLACES + _BEFORE, steps


def _resets(task: _Task, rows: Steps) -> Placed:
    """Let the exits of calls without an entry end just these; return what ends calls around them of the same depth."""
    exits = np.array(sorted(number for number in task.alone if number < task.record + len(rows)), np.int64)
    task.alone.difference_update(exits.tolist())
    exits -= task.record
    steps = Steps.blank(len(exits))
    steps.step[:], steps.track[:], steps.event[:] = SpanStep.RESET, task.track, -1
    steps.time[:], steps.level[:] = rows.time[exits], rows.level[exits]
    rows.level[exits] = UNWIND
    return exits * _PLACES + _AFTER, steps
