"""The room `timeline`: a recording as steps on tracks and rows of tables, see `fxtio.timeline.parts`.

The events of a thread are in order in the file, so steps are sorted by their offset, which is also the number of each
event.  Names and counters come from a reading before, as names may comes after their use.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

import numpy as np

from fxtio._native.constants import UNWIND, SliceState, SpanStep
from fxtio.arrays import Array
from fxtio.codec.distinct import number_distinct, number_rows
from fxtio.codec.integers import MAX_INT32, MAX_INT64
from fxtio.mono.columns import Batch
from fxtio.mono.enums import CounterSection, GcEventType
from fxtio.mono.frames import Recording
from fxtio.mono.state import AddressNames
from fxtio.mono.tables import EventCollector
from fxtio.table import Categories, Column, Optional, Table
from fxtio.timeline.arguments import NewArguments
from fxtio.timeline.parts import Registry, Steps, TimelinePart
from fxtio.timeline.schema import SCOPES, ArgumentKind, TrackKind
from fxtio.timeline.stacks import Stacks

if TYPE_CHECKING:
    from fxtio.mono.reader import MonoTrace

NOT_CARRIED = (
    "heap shots: objects, references and roots; objects that the garbage collector moved, and handles",
    "code coverage",
    "loads of classes, images, assemblies, contexts and vtables",
    "the stacks of exceptions, monitor events and handles",
    "values of counters that are texts",
    "synchronization points, and code that belongs to no method",
    "the offsets within methods of sampled frames, and native binaries",
)
"""The content of a recording that its timeline does not have."""

_CALL_STEPS = {"enter": SpanStep.BEGIN, "leave": SpanStep.END, "exceptional_leave": SpanStep.END}
GC_STEPS = {
    GcEventType.PRE_STOP_WORLD: (SpanStep.BEGIN, "GC pause"),
    GcEventType.POST_START_WORLD: (SpanStep.END, "GC pause"),
    GcEventType.START: (SpanStep.BEGIN, "garbage collection"),
    GcEventType.END: (SpanStep.END, "garbage collection"),
}
"""The steps of a garbage collection that begin and end a slice, and the name of the slice."""

GC_CATEGORY = "gc"
"""The category of these slices."""

GENERATION = "generation"
"""The argument of these slices."""

_FINALIZER_STEPS = {
    "finalize_starts": (SpanStep.BEGIN, "finalizers"),
    "finalize_ends": (SpanStep.END, "finalizers"),
    "finalize_object_starts": (SpanStep.BEGIN, "finalizer"),
    "finalize_object_ends": (SpanStep.END, "finalizer"),
}
_WAIT = "monitor wait"
_KEYS = {
    name: 2**64 - 1 - place
    for place, name in enumerate(["GC pause", "garbage collection", "finalizers", "finalizer", _WAIT])
}
"""Keys of spans that are no calls; those of calls are addresses."""

_PLACES = ("methods", "native_symbols")
_STEP_TABLES = ("calls", "gc_events", *_FINALIZER_STEPS, "monitors", "throws", "clauses", "methods", "domains")


def parts(trace: MonoTrace, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    """Read a recording, and yield what each batch adds to its timeline.

    Args:
        trace: the recording.
        registry: numbers names, threads and tracks.
        tables: the tables of the timeline that are needed.
    """
    mapping = _Mapping(trace, registry, tables)
    if "counters" in tables:
        yield TimelinePart(tables={"counters": mapping.counters()})
    for batch in trace._batches():
        yield mapping.part(batch)
    yield mapping.finish()


REACH = 4096
"""How many bytes a native symbol without a size has at most, as `mprof-report` takes it."""


class CodePlaces:
    """Finds the name of the compiled method or native function that has code at an address.

    The profiler writes native symbols without a size; each reaches up to the next one, but not further than `REACH`.

    Args:
        registry: has the names.
        methods: the table `methods` of the whole recording.
        symbols: the table `native_symbols`, likewise.
    """

    def __init__(self, registry: Registry, methods: Table, symbols: Table) -> None:
        self._method = _Ranges(methods["code"], methods["size"], registry.names.codes(methods["name"]))
        size = np.where(symbols["size"] == 0, np.uint64(REACH), symbols["size"])
        self._symbol = _Ranges(symbols["address"], size, registry.names.codes(symbols["name"]))

    def codes(self, addresses: Array) -> tuple[Array, Array]:
        """Return the codes of names (int32), -1 for none, and whether the code is that of a method (bool)."""
        methods = self._method.codes(addresses)
        is_method = methods >= 0
        return np.where(is_method, methods, self._symbol.codes(addresses)), is_method


class _Ranges:
    """Codes of names by ranges of addresses, each of which only reaches up to the start of the next one."""

    def __init__(self, begin: Array, size: Array, code: Array) -> None:
        order = np.argsort(begin, kind="stable")
        self._begin, self._size, self._code = begin[order], size[order], code[order]

    def codes(self, addresses: Array) -> Array:
        if not len(self._begin):
            return np.full(len(addresses), -1, np.int32)
        row = np.searchsorted(self._begin, addresses, "right") - 1
        place = np.maximum(row, 0)
        is_within = (row >= 0) & (addresses - self._begin[place] < self._size[place])
        return np.where(is_within, self._code[place], np.int32(-1))


class StackColumns:
    """The frames and stacks of a recording.

    Args:
        registry: has the names.
        address_names: the names of methods by address and time.
        places: the names of code by its address; None if there are no samples to convert.
    """

    def __init__(self, registry: Registry, address_names: AddressNames, places: CodePlaces | None) -> None:
        self._address_names = address_names
        self._names = registry.names
        self._places = places
        self._stacks = Stacks(registry)
        self._class_of: dict[int, int] = {-1: -1}

    def new_tables(self) -> dict[str, dict[str, Column]]:
        """Return the rows of the tables `frames` and `stacks` that were added since the last call."""
        return self._stacks.new_tables()

    def classes(self, methods: Array) -> Array:
        """Return the codes of the classes of methods, given by the codes of their names; -1 where there is none."""
        distinct, place = np.unique(methods, return_inverse=True)
        class_of = self._class_of
        for code in distinct.tolist():
            if code not in class_of:
                name, colon, _ = self._names.values[code].partition(":")
                class_of[code] = self._names.code(name) if colon else -1
        return np.array([class_of[code] for code in distinct.tolist()], np.int32)[place]

    def _address_codes(self, addresses: Array) -> Array:
        """Return the codes of the names of methods whose address is all that is known."""
        codes, first = number_distinct(addresses)
        return np.array([self._names.code(f"<{address:x}>") for address in addresses[first].tolist()], np.int32)[codes]

    def of_samples(self, tables: dict[str, Table]) -> Array:
        """Return the stack of each sample (int64), -1 for none.

        The frames are methods, and on top of them the native function that was interrupted, if it was one.  A sample
        without methods has the functions at its addresses.
        """
        samples = tables["samples"]
        frames = tables["sample_frames"]
        methods = self._frames(frames["method_name"], frames["method"])
        stacks = self._of_frames(methods, samples["frames"], innermost_first=True)
        frames = tables["sample_located_frames"]
        names = self._address_names.column(
            self._address_names.methods, frames["method"], samples["time"][frames["sample"]]
        )
        methods = self._frames(names, frames["method"])
        located = self._of_frames(methods, samples["located_frames"], innermost_first=True)
        stacks = np.where(stacks >= 0, stacks, located)
        places, is_method = self._of_addresses(tables["sample_addresses"]["address"])
        counts = samples["addresses"]
        first = np.cumsum(counts) - counts
        native = np.flatnonzero((stacks >= 0) & (counts > 0))
        native = native[~is_method[first[native]]]
        whole = self._of_frames(places, np.where(stacks >= 0, 0, counts), counts, innermost_first=True)
        stacks[native] = self._stacks.each_on(stacks[native], places[first[native]])
        return np.where(stacks >= 0, stacks, whole)

    def _of_addresses(self, addresses: Array) -> tuple[Array, Array]:
        """Return the number of a frame for each address of code (int64), and whether it is in a method (bool)."""
        assert self._places is not None
        names, is_method = self._places.codes(addresses)
        names = self.with_addresses(names, addresses)
        return self._stacks.frames_of_slices(names, np.where(is_method, self.classes(names), np.int32(-1))), is_method

    def of_allocations(self, tables: dict[str, Table]) -> Array:
        """Return the stack of each allocation (int64), -1 for none."""
        frames = tables["allocation_frames"]
        methods = self._frames(frames["method_name"], frames["method"])
        return self._of_frames(methods, tables["allocations"]["backtrace"], innermost_first=False)

    def _of_frames(
        self, frames: Array, counts: Array | Optional, stored: Array | None = None, *, innermost_first: bool
    ) -> Array:
        """Return the stack of each row (int64).

        Args:
            frames: the frames of all rows, one after the other.
            counts: the number of frames of each row that are taken.
            stored: the number of frames of each row, if it is not the same.
            innermost_first: whether the first frame of a row is the innermost one.
        """
        count = counts.values if isinstance(counts, Optional) else counts
        stacks = np.full(len(count), -1, np.int64)
        end = np.cumsum(count if stored is None else stored)
        rows = np.flatnonzero(count)
        level = 0
        while len(rows):
            place = end[rows] - 1 - level if innermost_first else end[rows] - count[rows] + level
            stacks[rows] = self._stacks.each_on(stacks[rows], frames[place])
            level += 1
            rows = rows[count[rows] > level]
        return stacks

    def _frames(self, names_of_methods: Categories, addresses: Array) -> Array:
        """Return the number of the frame of each method (int64)."""
        names = self.with_addresses(self._names.codes(names_of_methods), addresses)
        return self._stacks.frames_of_slices(names, self.classes(names))

    def with_addresses(self, names: Array, addresses: Array) -> Array:
        """Return codes of names, with addresses in place of names that are not known."""
        unknown = np.flatnonzero(names < 0)
        if len(unknown):
            names = names.copy()
            names[unknown] = self._address_codes(addresses[unknown])
        return names


class _Mapping:
    """The state of a reading, from batch to batch."""

    def __init__(self, trace: MonoTrace, registry: Registry, tables: Set[str]) -> None:
        self._trace = trace
        self._registry = registry
        self._names = registry.names
        self._tables = tables
        has_samples = bool(tables & {"samples", "stacks", "frames"})
        sources = [*(["counter_series"] if "counters" in tables else []), *(_PLACES if has_samples else [])]
        before = trace.tables(*sources)
        self._series = before.get("counter_series")
        self._address_names = trace.names
        places = CodePlaces(registry, *(before[name] for name in _PLACES)) if has_samples else None
        self._stacks = StackColumns(registry, self._address_names, places)
        self._has_steps = bool(tables & {"slices", "instants", "flow_points"})
        self._sources = self._needed()
        self._pid = 0
        self._begins: list[tuple[int, int]] = []  # the offset and the process of each recording in the batch
        self._latest = np.empty(0, np.int64)  # the time of the last event of each track
        self._waits: set[tuple[int, int]] = set()
        self._collections: dict[int, tuple[int, int, int]] = {}

    def _needed(self) -> tuple[str, ...]:
        """Return the tables of the recording that are needed."""
        sources = ["threads"]
        if self._has_steps or "args" in self._tables:
            sources += _STEP_TABLES
        if "collections" in self._tables:
            sources += ["gc_events"]
        if self._tables & {"samples", "stacks", "frames"}:
            sources += ["samples", "sample_frames", "sample_located_frames", "sample_addresses"]
        if self._tables & {"allocations", "stacks", "frames"}:
            sources += ["allocations", "allocation_frames"]
        if "counters" in self._tables:
            sources += ["gc_resizes"]
        return tuple(dict.fromkeys(sources))

    def part(self, batch: Batch) -> TimelinePart:
        """Convert a batch."""
        collector = EventCollector(self._sources)
        collector.add(batch)
        tables = collector.tables(self._sources, lambda: self._address_names, self._trace.findings)
        self._enter_recordings([recording for _, recording in batch.frame.recordings])
        self._name_threads(tables["threads"])
        part, args = TimelinePart(share=self._trace.share), NewArguments(self._registry)
        if self._has_steps or "args" in self._tables:
            steps = self._steps(tables, args)
            part.steps = steps if self._has_steps and len(steps) else None
        if "args" in self._tables:
            part.tables["args"] = args.table()
        if "collections" in self._tables:
            part.tables["collections"] = self._collections_of(tables["gc_events"])
        if "samples" in tables:
            part.tables["samples"] = self._samples(tables)
        if "allocations" in tables:
            part.tables["allocations"] = self._allocations(tables)
        if "gc_resizes" in tables:
            part.tables["counters"] = self._heap_sizes(tables["gc_resizes"])
        part.tables |= self._stacks.new_tables()
        return part

    def finish(self) -> TimelinePart:
        """Return what ends the calls of each thread that are open after its last event."""
        tracks = np.flatnonzero(self._latest >= 0)
        steps = Steps.blank(len(tracks))
        steps.step[:], steps.track[:], steps.time[:] = SpanStep.RESET, tracks, self._latest[tracks]
        steps.level[:], steps.event[:] = 0, -1
        return TimelinePart(steps if self._has_steps and len(steps) else None)

    # ---- processes and threads

    def _enter_recordings(self, recordings: list[Recording]) -> None:
        """Take the recordings that begin in a batch."""
        if self._begins:
            self._pid = self._begins[-1][1]
        for recording in recordings:
            self._registry.note_wall_clock(recording.header.wall_clock)
        self._begins = [(recording.offset, recording.header.pid) for recording in recordings]

    def _owners(self, table: Table, ids: Array) -> tuple[list[tuple[int, int]], Array]:
        """Return the distinct processes and threads of events, and for each event the place among them."""
        if not len(ids):
            return [], np.empty(0, np.int64)
        codes, first = number_distinct(ids)
        recording = np.searchsorted([offset for offset, _ in self._begins], table["offset"], "right")
        distinct, place = np.unique(recording * len(first) + codes, return_inverse=True)
        of_recording, code = np.divmod(distinct, len(first))
        pids = [self._pid, *(pid for _, pid in self._begins)]
        pairs = zip(of_recording.tolist(), ids[first[code]].tolist(), strict=True)
        return [(pids[number], thread) for number, thread in pairs], place

    def _threads(self, table: Table, ids: Array) -> Array:
        """Return the row of the thread of each event (int32)."""
        owners, place = self._owners(table, ids)
        return np.array([self._registry.thread(*owner) for owner in owners], np.int32)[place]

    def _tracks(self, table: Table) -> Array:
        """Return the track of the thread of each event (int32)."""
        owners, place = self._owners(table, table["thread"])
        return np.array([self._registry.thread_track(*owner) for owner in owners], np.int32)[place]

    def _name_threads(self, table: Table) -> None:
        named = table.take(np.flatnonzero(table["name"].codes >= 0))
        owners, place = self._owners(named, named["id"])
        for row, name in zip(place.tolist(), named["name"], strict=True):
            pid, thread = owners[row]
            self._registry.thread(pid, thread, name)

    # ---- steps

    def _steps(self, tables: dict[str, Table], args: NewArguments) -> Steps:
        """Return the steps of a batch, in the order of the file."""
        steps_by_kind = [self._calls(tables["calls"]), self._collections_steps(tables["gc_events"], args)]
        for name, (step, label) in _FINALIZER_STEPS.items():
            steps_by_kind.append(self._spans(tables[name], step, label, GC_CATEGORY))
            if name == "finalize_object_starts":
                args.add(tables[name]["offset"], "object", ArgumentKind.POINTER, tables[name]["object"])
        steps_by_kind += [self._monitors(tables["monitors"], args), *self._instants(tables, args)]
        rows = Steps.joined(steps_by_kind)
        rows = rows.take(np.argsort(rows.event, kind="stable"))
        rows.ticks[:] = rows.time
        count = self._registry.track_count
        self._latest = np.append(self._latest, np.full(count - len(self._latest), -1, np.int64))
        np.maximum.at(self._latest, rows.track, rows.time)
        return rows

    def _blank(self, table: Table) -> Steps:
        """Return steps with the times and tracks of events."""
        steps = Steps.blank(table.num_rows)
        steps.time[:], steps.event[:], steps.track[:] = table["time"], table["offset"], self._tracks(table)
        return steps

    def _calls(self, table: Table) -> Steps:
        steps = self._blank(table)
        labels = table["action"].values
        kinds = np.zeros(len(labels), np.int8)
        for label, step in _CALL_STEPS.items():
            kinds[labels.index(label)] = step
        codes = table["action"].codes
        steps.step[:] = kinds[codes]
        steps.detail[codes == labels.index("exceptional_leave")] = SliceState.THROWN
        steps.level[steps.step == SpanStep.END] = UNWIND
        steps.key[:] = np.maximum(table["method"], 1)
        steps.name[:] = self._method_codes(table)
        steps.category[:] = self._stacks.classes(steps.name)
        return steps

    def _method_codes(self, table: Table) -> Array:
        """Return the codes of the names of methods, which are addresses where no name is known."""
        return self._stacks.with_addresses(self._names.codes(table["method_name"]), table["method"])

    def _spans(self, table: Table, step: SpanStep, label: str, category: str) -> Steps:
        """Return the begins or ends of spans of one name."""
        steps = self._blank(table)
        steps.step[:], steps.name[:], steps.key[:] = step, self._names.code(label), np.uint64(_KEYS[label])
        steps.category[:], steps.level[:] = self._names.code(category), UNWIND if step == SpanStep.END else -1
        return steps

    def _collections_steps(self, table: Table, args: NewArguments) -> Steps:
        """Return the spans of pauses and garbage collections."""
        steps_by_kind = []
        for event, (step, label) in GC_STEPS.items():
            rows = table.take(np.flatnonzero(table["event"].is_in(event.name.lower())))
            steps_by_kind.append(self._spans(rows, step, label, GC_CATEGORY))
            if step == SpanStep.BEGIN:
                args.add(rows["offset"], GENERATION, ArgumentKind.UNSIGNED, rows["generation"].astype(np.uint64))
        return Steps.joined(steps_by_kind)

    def _monitors(self, table: Table, args: NewArguments) -> Steps:
        """Return the spans in which threads wait for monitors; ends without a begin are left out."""
        steps = self._spans(table, SpanStep.BEGIN, _WAIT, "monitor")
        begins = table["event"].is_in("contention")
        waits = zip(steps.track.tolist(), table["object"].tolist(), begins.tolist(), strict=True)
        for row, (track, monitor, begin) in enumerate(waits):
            wait = track, monitor
            if begin and wait not in self._waits:
                self._waits.add(wait)
            elif not begin and wait in self._waits:
                self._waits.remove(wait)
                steps.step[row], steps.level[row] = SpanStep.END, UNWIND
            else:
                steps.step[row] = SpanStep.NONE
        steps.key[:] ^= table["object"]
        used = steps.step != SpanStep.NONE
        args.add(table["offset"][begins & used], "object", ArgumentKind.POINTER, table["object"][begins & used])
        ends = np.flatnonzero(~begins & used)
        args.add(table["offset"][ends], "result", ArgumentKind.TEXT, self._names.codes(table["event"].take(ends)))
        return steps

    def _instants(self, tables: dict[str, Table], args: NewArguments) -> Iterator[Steps]:
        """Yield what happens at a point in time: exceptions and their handlers, methods that are compiled, domains."""
        throws, clauses, methods, domains = (tables[name] for name in ("throws", "clauses", "methods", "domains"))
        for table, label in ((throws, "exception"), (methods, "JIT")):
            steps = self._blank(table)
            steps.step[:], steps.name[:] = SpanStep.INSTANT, self._names.code(label)
            steps.category[:] = self._names.code(label.lower())
            yield steps
        args.add(throws["offset"], "object", ArgumentKind.POINTER, throws["object"])
        args.add(methods["offset"], "method", ArgumentKind.TEXT, self._names.codes(methods["name"]))
        args.add(methods["offset"], "code", ArgumentKind.POINTER, methods["code"])
        args.add(methods["offset"], "size", ArgumentKind.UNSIGNED, methods["size"])
        steps = self._blank(clauses)
        steps.step[:], steps.name[:] = SpanStep.INSTANT, self._names.codes(clauses["kind"])
        steps.category[:] = self._names.code("exception")
        yield steps
        args.add(clauses["offset"], "method", ArgumentKind.TEXT, self._method_codes(clauses))
        steps = self._blank(domains)
        steps.step[:], steps.detail[:] = SpanStep.INSTANT, SCOPES.index("process")
        steps.name[:], steps.category[:] = self._names.codes(domains["action"]), self._names.code("domain")
        yield steps
        args.add(domains["offset"], "domain", ArgumentKind.POINTER, domains["id"])
        named = np.flatnonzero(domains["name"].codes >= 0)
        args.add(domains["offset"][named], "name", ArgumentKind.TEXT, self._names.codes(domains["name"].take(named)))

    # ---- tables

    def _collections_of(self, table: Table) -> dict[str, Column]:
        """Return the garbage collections that end in a batch."""
        events = table.take(np.flatnonzero(table["event"].is_in("start", "end")))
        threads = self._threads(events, events["thread"]).tolist()
        begins = events["event"].is_in("start").tolist()
        rows = []
        columns = (events[name].tolist() for name in ("time", "generation", "offset"))
        for thread, begin, time, generation, offset in zip(threads, begins, *columns, strict=True):
            if begin:
                self._collections[thread] = (time, min(generation, MAX_INT32), offset)
            elif thread in self._collections:
                start, oldest, event = self._collections.pop(thread)
                rows.append((start, max(time - start, 0), thread, oldest, event))
        names = ("start", "duration", "thread", "generation", "event")
        values = zip(*rows, strict=True) if rows else ((),) * len(names)
        return self._registry.columns("collections", dict(zip(names, map(list, values), strict=True)))

    def _samples(self, tables: dict[str, Table]) -> dict[str, Column]:
        """Return samples; the thread is the one that was interrupted, before data version 11 the one that wrote."""
        samples = tables["samples"]
        interrupted = samples["interrupted"]
        thread = np.where(interrupted.present, interrupted.values, samples["thread"])
        return self._registry.columns(
            "samples",
            {
                "time": samples["time"],
                "thread": self._threads(samples, thread),
                "cpu": -1,
                "stack": self._stacks.of_samples(tables),
                "count": 1,
                "unit": self._names.code("samples"),
            },
        )

    def _allocations(self, tables: dict[str, Table]) -> dict[str, Column]:
        table = tables["allocations"]
        return self._registry.columns(
            "allocations",
            {
                "time": table["time"],
                "thread": self._threads(table, table["thread"]),
                "stack": self._stacks.of_allocations(tables),
                "type": self._names.codes(table["class_name"]),
                "count": 1,
                "size": np.minimum(table["size"], np.uint64(MAX_INT64)).astype(np.int64),
            },
        )

    def _heap_sizes(self, table: Table) -> dict[str, Column]:
        """Return the sizes of the heap."""
        owners, place = self._owners(table, table["thread"])
        name = self._names.code("GC heap size")
        processes = [self._registry.process(pid) for pid, _ in owners]
        tracks = [self._registry.track(TrackKind.COUNTER, each, name=name, process=each) for each in processes]
        values = {"time": table["time"], "value": table["size"].astype(np.float64), "event": table["offset"]}
        return self._registry.columns("counters", {**values, "track": np.array(tracks, np.int32)[place]})

    def counters(self) -> dict[str, Column]:
        """Return the values of the runtime's counters, each on a track named after section and counter."""
        assert self._series is not None
        series, recording = self._series, self._trace.recording
        process = self._registry.process(recording.header.pid) if recording is not None else -1
        is_number = series["number"].present
        self._registry.losses["values of counters that are texts"] += int((~is_number).sum())
        rows = series.take(np.flatnonzero(is_number))
        columns = [rows["index"].view(np.int64), rows["section"].view(np.int64), rows["name"].codes]
        codes, first = number_rows(columns)
        tracks = []
        for index, section, code in zip(*(column[first].tolist() for column in columns), strict=True):
            key, name = (index, section, code), rows["name"].values[code] if code >= 0 else f"counter {index}"
            title = self._names.code(f"{_SECTIONS.get(section, section)}/{name}")
            number = index % 2**64
            tracks.append(self._registry.track(TrackKind.COUNTER, key, name=title, process=process, id=number))
        track = np.array(tracks, np.int32)[codes]
        values = {"time": rows["time"], "track": track, "value": rows["number"].values, "event": -1}
        return self._registry.columns("counters", values)


_SECTIONS = {section.value: section.name.lower() for section in CounterSection}
