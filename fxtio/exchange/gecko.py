"""Profiles of the Firefox Profiler: those of Firefox, samply, CPython's `profiling.sampling`, and many others.

The raw form is what Firefox itself writes, with the profiles of other processes in that of the first one.  The
processed form is what the Firefox Profiler saves and most other programs write; it is read up to its version 75.
Samples become samples.  Markers that last become slices on a track for each thread and name, as the Firefox Profiler
shows them, and all others instants.  Reading needs memory for the whole file, which is decoded piece by piece.

https://github.com/firefox-devtools/profiler/tree/main/docs-developer
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Set
from itertools import islice
from typing import Any, TypeVar

import msgspec
import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.codec.integers import MAX_UINT64
from fxtio.errors import FormatError
from fxtio.exchange.chrome_reader import nanoseconds
from fxtio.exchange.gecko_stacks import GeckoStacks, SharedTables, text_or_none
from fxtio.exchange.gecko_tables import GeckoTable
from fxtio.exchange.json_arguments import JsonArguments, Numbers
from fxtio.exchange.json_columns import NOTHING, at_each, integers, numbers
from fxtio.exchange.json_events import UNREADABLE, VALUE, objects_in
from fxtio.io.source import Source, read_whole
from fxtio.table import MAX_TIME
from fxtio.timeline.parts import Registry, Steps, TimelinePart
from fxtio.timeline.schema import TrackKind

MAX_OBJECTS = 10_000
"""The most threads, counters, libraries, and processes beside the first one that are read of a profile."""

_NS = 1_000_000
"""Times are milliseconds."""

_EPOCH = 10**17
"""A lesser time (ns), of before 1973, is not since the epoch: CPython writes that since the machine was started."""

_WEIGHTS = {"samples": ("samples", 1), "tracing-ms": ("ns", _NS), "bytes": ("bytes", 1)}
_CPU_DELTAS = {"ns": ("cpu-ns", 1), "µs": ("cpu-ns", 1000), "us": ("cpu-ns", 1000)}
_CYCLES = ("cycles", 1)

_INSTANT, _INTERVAL, _BEGIN, _END = range(4)
_STEPS = np.array([SpanStep.INSTANT, SpanStep.COMPLETE, SpanStep.BEGIN, SpanStep.END], np.int8)
"""The steps of the phases of markers."""

_STRINGS = ("unique-string", "flow-id", "terminating-flow-id")
"""The types of fields of markers whose values are numbers of strings."""

_CAUSES = ("cause", "stack")
"""The fields of markers that have a stack."""

_UNREADABLE = "threads, processes, counters and libraries that cannot be read"
_NO_TIME = "samples, markers and values of counters without a usable time"
_EARLY = "times before the start of the profile, which are 0 now"


def sniff(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is a profile."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return start[:1] == b"{" and b'"meta"' in head and b'"traceEvents"' not in head and bool(_SIGN.search(head))


_SIGN = re.compile(
    rb'"(?:preprocessedProfileVersion|processType|stackwalk|markerSchema|interval|categories|stackTable)"'
)
"""Members of `meta` and of threads, of which each profile has some."""

StructT = TypeVar("StructT", bound=msgspec.Struct)


class _Meta(msgspec.Struct):
    startTime: Any = None  # noqa: N815
    product: Any = None
    categories: Any = None
    markerSchema: Any = None  # noqa: N815
    sampleUnits: Any = None  # noqa: N815


class _Profile(msgspec.Struct):
    meta: _Meta
    threads: msgspec.Raw = NOTHING
    shared: msgspec.Raw = NOTHING
    libs: msgspec.Raw = NOTHING
    counters: msgspec.Raw = NOTHING
    processes: msgspec.Raw = NOTHING


class _Thread(SharedTables):
    name: Any = None
    processName: Any = None  # noqa: N815
    processType: Any = None  # noqa: N815
    pid: Any = None
    tid: Any = None
    samples: msgspec.Raw = NOTHING
    markers: msgspec.Raw = NOTHING
    nativeAllocations: msgspec.Raw = NOTHING  # noqa: N815
    jsAllocations: msgspec.Raw = NOTHING  # noqa: N815


class _Lib(msgspec.Struct, gc=False):
    name: Any = None
    debugName: Any = None  # noqa: N815
    start: Any = None
    end: Any = None


class _Group(msgspec.Struct):
    samples: msgspec.Raw = NOTHING


class _Counter(_Group):
    name: Any = None
    category: Any = None
    pid: Any = None
    display: Any = None
    sampleGroups: msgspec.Raw = NOTHING  # noqa: N815 - of the processed form before version 48
    sample_groups: msgspec.Raw = NOTHING  # of the raw form before version 29


def parts(source: Source, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    """Read a file, and yield the parts of each of its threads, see `fxtio.formats.TimelineRoom.parts`.

    Raises:
        FormatError: the file is not a profile of the Firefox Profiler.
    """
    try:
        profile = msgspec.json.decode(read_whole(source), type=_Profile)
    except UNREADABLE as error:
        raise FormatError(f"{source.name} is not a whole profile of the Firefox Profiler: {error}") from None
    wall_clock = (nanoseconds(profile.meta.startTime) or 0) * 1000
    registry.note_wall_clock(wall_clock if wall_clock > _EPOCH else None)
    importer, begin = _Importer(registry, tables), _milliseconds(profile.meta.startTime)
    yield from importer.profile(profile, 0.0)
    for process in _each(profile.processes, _Profile, registry.losses):
        inner = objects_in(process.processes, (), registry.losses)
        registry.losses["processes of others than the first process"] += sum(map(len, inner))
        yield from importer.profile(process, _milliseconds(process.meta.startTime) - begin)


def _each(array: msgspec.Raw, type: type[StructT], losses: Counter[str]) -> Iterator[StructT]:
    """Yield the objects of an array that can be read, as many as there may be."""
    each = (text for values in objects_in(array, (), losses) for text in values.texts(VALUE))
    for text in islice(each, MAX_OBJECTS):
        try:
            yield msgspec.json.decode(text, type=type)
        except UNREADABLE:
            losses[_UNREADABLE] += 1
    losses[f"threads, processes, counters and libraries beyond {MAX_OBJECTS:,}"] += sum(1 for _ in each)


def _milliseconds(value: Any) -> float:
    number = float(numbers([value])[0])
    return number if abs(number) < MAX_TIME else 0.0


class _Context:
    """What the threads of a profile have in common.

    Attributes:
        shift: what is added to times, in milliseconds.
        product: the name of the program, None if there is none.
        categories: the codes of the names of categories (int32).
        strings: the fields of markers whose values are numbers of strings, by the types of markers.
        cpu: the unit of the time that a thread ran, and what a number is multiplied by to have it.
        libraries: the names of libraries.
        ranges: their addresses: starts, ends and numbers, in order.
    """

    def __init__(self, profile: _Profile, registry: Registry, shift: float) -> None:
        meta = profile.meta
        self.shift = shift
        self.product = text_or_none(meta.product)
        names = [text_or_none(each.get("name")) for each in _dicts(meta.categories)]
        self.categories = np.array([*map(registry.names.code, names)], np.int32)
        self.strings: dict[Any, list[str]] = {}
        for schema in _dicts(meta.markerSchema):
            fields = _dicts(schema.get("fields") or schema.get("data"))
            keys = [str(each.get("key")) for each in fields if each.get("format") in _STRINGS]
            self.strings[str(schema.get("name"))] = keys
        units = meta.sampleUnits if isinstance(meta.sampleUnits, dict) else {}
        self.cpu = _CPU_DELTAS.get(str(units.get("threadCPUDelta")), _CYCLES)
        self.libraries: list[str | None] = []
        self.ranges: list[tuple[int, int, int]] = []
        for lib in _each(profile.libs, _Lib, registry.losses):
            if type(lib.start) is int and type(lib.end) is int:
                self.ranges.append((lib.start, lib.end, len(self.libraries)))
            self.libraries.append(text_or_none(lib.name) or text_or_none(lib.debugName))
        self.ranges.sort()

    def library_at(self, address: int) -> str | None:
        """Return the library that has an address of the process, None if none does."""
        place = bisect_right(self.ranges, (address, MAX_UINT64, 0)) - 1
        if place < 0 or address >= self.ranges[place][1]:
            return None
        return self.libraries[self.ranges[place][2]]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


class _Importer:
    def __init__(self, registry: Registry, tables: Set[str]) -> None:
        self._registry = registry
        self._losses = registry.losses
        self._tables = tables
        self._args = JsonArguments(registry, tables)
        self._number = Numbers().number
        self._stacks = GeckoStacks(registry)
        self._events = 0
        self._tracks = 0

    def profile(self, profile: _Profile, shift: float) -> Iterator[TimelinePart]:
        """Convert the profile of a process; one of the processed form has those of all processes."""
        context = _Context(profile, self._registry, shift)
        try:
            shared = msgspec.json.decode(profile.shared or b"{}", type=SharedTables)
        except UNREADABLE:
            shared = SharedTables()
            self._losses[_UNREADABLE] += 1
        strings = self._stacks.strings(shared) if shared.stringArray else None
        stacks = self._stacks.numbers(shared, strings or [], context) if shared.stackTable else None
        first = None
        for number, thread in enumerate(_each(profile.threads, _Thread, self._losses)):
            first = thread.pid if first is None else first
            thread.sources = shared.sources  # in versions 58 and 59, they alone are shared
            own = self._stacks.strings(thread) if strings is None else strings
            yield from self._thread(thread, number, own, stacks, context)
        for number, counter in enumerate(_each(profile.counters, _Counter, self._losses)):
            pid = self._number("process", first if counter.pid is None else counter.pid)
            yield from self._counter(counter, number, pid, context)

    def _thread(
        self, thread: _Thread, number: int, strings: list[str], stacks: Array | None, context: _Context
    ) -> Iterator[TimelinePart]:
        """Convert a thread, whose stacks are given if it has none of its own."""
        pid = self._number("process", thread.pid)
        tid = number if thread.tid is None else self._number("thread", thread.tid)
        kind = text_or_none(thread.processType) or "default"
        name = text_or_none(thread.processName) or (context.product if kind == "default" else kind)
        self._registry.process(pid, name)
        row = self._registry.thread(pid, tid, text_or_none(thread.name))
        if not self._tables.isdisjoint(_STACK_TABLES):
            own = self._stacks.numbers(thread, strings, context) if stacks is None else stacks
            yield from self._samples(self._table(thread.samples), row, own, context)
            for allocations in (thread.jsAllocations, thread.nativeAllocations):
                yield from self._allocations(self._table(allocations), row, own, context)
        yield from self._markers(self._table(thread.markers), (pid, tid), strings, context)

    def _table(self, raw: msgspec.Raw) -> GeckoTable:
        return GeckoTable(raw, self._losses)

    def _times(self, ms: Array) -> tuple[Array, Array]:
        """Return times (float64 ms) in ns (int64), and which of them can be used."""
        ns = np.rint(ms * _NS)
        is_right, is_early = ns < MAX_TIME, ns < 0
        self._losses[_NO_TIME] += int((~is_right).sum())
        self._losses[_EARLY] += int(is_early.sum())
        return np.where(is_right & ~is_early, ns, 0).astype(np.int64), is_right

    def _timed(self, table: GeckoTable, shift: float, *names: str) -> Iterator[tuple[Array, Array, list[list[Any]]]]:
        """Yield the times of the rows of a table, see `_times`, and other columns."""
        has_time, elapsed = table.has("time"), 0.0
        for time, *columns in table.pieces("time" if has_time else "timeDeltas", *names):
            ms = numbers(time)
            if not has_time:  # since version 50
                ms = np.cumsum(np.where(np.isfinite(ms), ms, 0)) + elapsed
                elapsed = float(ms[-1])
            yield *self._times(ms + shift), columns

    def _samples(self, table: GeckoTable, thread: int, stacks: Array, context: _Context) -> Iterator[TimelinePart]:
        given = table.weight_type if isinstance(table.weight_type, str) else "samples"
        name, factor = _WEIGHTS.get(given, (given[:64], 1))
        unit, (cpu_name, cpu_factor) = self._registry.names.code(name), context.cpu
        is_first = True
        for time, is_right, columns in self._timed(
            table, context.shift, "stack", "weight", "threadCPUDelta", "eventDelay"
        ):
            self._registry.shown_unit = self._registry.shown_unit or name
            time = np.maximum(time, 1)  # 0 is the time of a sample that has none
            rows = {"time": time, "thread": thread, "cpu": -1, "stack": at_each(stacks, integers(columns[0]))}
            count = _whole(numbers(columns[1]) * factor, 1)
            ran = _whole(numbers(columns[2]) * cpu_factor)
            if is_first:  # there is no sample before it, since which the thread could have run
                ran[:1], is_first = 0, False
            self._losses["delays of events"] += sum(each is not None for each in columns[3])
            yield self._part("samples", {**rows, "count": count, "unit": unit}, is_right)
            if ran.any():
                cpu_unit = self._registry.names.code(cpu_name)
                yield self._part("samples", {**rows, "count": ran, "unit": cpu_unit}, is_right & (ran > 0))

    def _allocations(self, table: GeckoTable, thread: int, stacks: Array, context: _Context) -> Iterator[TimelinePart]:
        for time, is_right, columns in self._timed(table, context.shift, "stack", "weight", "className"):
            size = _whole(numbers(columns[1]))
            self._losses["memory that is given back"] += int((is_right & (size < 0)).sum())
            code = [self._registry.names.code(text_or_none(each)) for each in columns[2]]
            rows = {"time": time, "thread": thread, "stack": at_each(stacks, integers(columns[0])), "count": 1}
            rows = {**rows, "type": np.array(code, np.int32), "size": size}
            yield self._part("allocations", rows, is_right & (size >= 0))

    def _part(self, table: str, rows: dict[str, Any], taken: Array) -> TimelinePart:
        """Return some rows of a table, with the stacks that are new."""
        columns = {name: value[taken] if isinstance(value, np.ndarray) else value for name, value in rows.items()}
        return TimelinePart(None, {**self._stacks.new_tables(), table: self._registry.columns(table, columns)})

    def _markers(
        self, table: GeckoTable, owner: tuple[int, int], strings: list[str], context: _Context
    ) -> Iterator[TimelinePart]:
        # Before version 19 of the raw form, a marker has one time.
        start_name = "startTime" if table.has("startTime") else "time"
        names = ["name", start_name, "endTime", "phase", "category", *(["data"] if "args" in self._tables else [])]
        for columns in table.pieces(*names):
            name, phase, category = (integers(columns[at]) for at in (0, 3, 4))
            start, end = (numbers(columns[at]) + context.shift for at in (1, 2))
            phase = np.where((phase < 0) | (phase > _END), np.where(np.isnan(end), _INSTANT, _INTERVAL), phase)
            steps = Steps.blank(len(name), self._events)
            self._events += len(name)
            time, is_right = self._times(np.where(phase == _END, end, start))
            steps.step[:] = np.where(is_right, _STEPS[phase], np.int8(SpanStep.NONE))
            lasts = phase == _INTERVAL
            steps.time, steps.ticks, steps.end = time, time.view(np.uint64), time.copy()
            steps.end[lasts] = np.maximum(time[lasts], self._times(end[lasts])[0])
            steps.category = at_each(context.categories, category)
            self._name(steps, name, phase != _INSTANT, owner, strings)
            for data in columns[5:]:
                self._add_data(data, int(steps.event[0]), strings, context)
            yield TimelinePart(steps, self._args.table())

    def _name(self, steps: Steps, name: Array, lasts: Array, owner: tuple[int, int], strings: list[str]) -> None:
        """Set the names and tracks of markers, of which those that last are on a track for each name."""
        pid, tid = owner
        thread, process = self._registry.thread(pid, tid), self._registry.process(pid)
        steps.track[:] = self._registry.thread_track(pid, tid)
        distinct, place = np.unique(np.where(lasts, name, -2 - name), return_inverse=True)
        for number, each in enumerate(distinct.tolist()):
            string = each if each >= -1 else -2 - each
            code = self._registry.names.code(strings[string] if 0 <= string < len(strings) else "")
            rows = place == number
            steps.name[rows] = code
            if each >= -1:
                key = ("gecko", thread, code)
                self._tracks += 1
                steps.track[rows] = self._registry.track(
                    TrackKind.ASYNC, key, name=code, process=process, thread=thread, id=self._tracks
                )

    def _add_data(self, data: list[Any], first: int, strings: list[str], context: _Context) -> None:
        """Add the arguments of markers, whose events are numbered from the first one on."""
        for event, raw in enumerate(data, first):
            text = bytes(raw) if isinstance(raw, msgspec.Raw) else b""
            if not self._args.may_be_in(text):
                continue
            value = self._args.decoded(text)
            if isinstance(value, dict):
                for name in context.strings.get(value.get("type") if isinstance(value.get("type"), str) else None, ()):
                    number = value.get(name)
                    if type(number) is int and 0 <= number < len(strings):
                        value[name] = strings[number]
                self._losses["stacks of markers"] += sum(value.pop(name, None) is not None for name in _CAUSES)
            self._args.add(value, event)

    def _counter(self, counter: _Counter, number: int, pid: int, context: _Context) -> Iterator[TimelinePart]:
        if "counters" not in self._tables:
            return
        display = counter.display if isinstance(counter.display, dict) else {}
        sums = (
            display.get("graphType", "line-accumulated" if counter.category == "Memory" else "") == "line-accumulated"
        )
        process = self._registry.process(pid)
        track = self._registry.track(
            TrackKind.COUNTER,
            ("gecko", process, number),
            name=self._registry.names.code(text_or_none(counter.name) or ""),
            process=process,
        )
        groups = [_Group(counter.samples)]
        groups += [
            each
            for array in (counter.sampleGroups, counter.sample_groups)
            for each in _each(array, _Group, self._losses)
        ]
        for group in groups:
            total = 0.0
            for time, is_right, (count, changes) in self._timed(
                self._table(group.samples), context.shift, "count", "number"
            ):
                value = numbers(count)
                if sums:  # what was added since the value before
                    value = np.cumsum(np.where(np.isfinite(value), value, 0)) + total
                    total = float(value[-1])
                self._losses["numbers of changes between two values of a counter"] += sum(
                    each is not None for each in changes
                )
                taken = is_right & ~np.isnan(value)
                columns = {"time": time[taken], "track": track, "value": value[taken], "event": -1}
                yield TimelinePart(None, {"counters": self._registry.columns("counters", columns)})


_STACK_TABLES = ("samples", "allocations", "stacks", "frames")


def _whole(values: Array, missing: int = 0) -> Array:
    """Return numbers as int64, rounded, with another number where there is none."""
    return np.clip(np.rint(np.where(np.isnan(values), missing, values)), -_MOST, _MOST).astype(np.int64)


_MOST = float(1 << 62)
