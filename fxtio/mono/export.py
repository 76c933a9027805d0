"""The room `export`: writes the slices of threads as calls of methods, in a recording of the Mono log profiler.

Garbage collections that are slices of threads, as in recordings of Mono, become the steps of which they were made;
those on other tracks become steps of a thread of their own.  Samples are written by a thread of their own, as the
runtime does; allocations by the thread that allocates.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from itertools import groupby, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from msgspec.structs import replace

from fxtio._native.constants import SliceState, SpanStep
from fxtio.mono.enums import GcEventType, MethodAction
from fxtio.mono.records import VERSIONS
from fxtio.mono.timeline import GC_CATEGORY, GC_STEPS, GENERATION
from fxtio.mono.writer import MonoWriter, header_for
from fxtio.table import MAX_TIME, Categories, Table
from fxtio.timeline import calls
from fxtio.timeline.arguments import Arguments
from fxtio.timeline.calls import Calls, ThreadCalls
from fxtio.timeline.losses import LOST_ROWS, count_lost, plain
from fxtio.timeline.parts import Registry
from fxtio.timeline.spans import Chains

if TYPE_CHECKING:
    from fxtio.io.sink import Sink

NOT_CARRIED = (
    "arguments and categories of slices, except of garbage collections; all tracks but those of threads",
    "processes; numbers of threads that are not unique",
    "weights, units and processors of samples; files, lines, modules and addresses of frames",
    "the sizes of the single objects of an allocation, and objects beyond 1,000 of it",
    "instants, flows, counters, scheduling, logs",
)
"""The content of a timeline that a recording does not have."""

_LOST = ("logs", "args")
_WEIGHTS = "weights, units and processors of samples, each of which counts once now"
_OBJECTS = "objects beyond 1,000 of an allocation"
_PLACES = "files, lines and modules of frames"
_NUMBERS = "numbers of threads that are 0, or that another thread has"
_PROCESSES = "processes, whose threads are in one now"
_ZEROS = "names with a NUL, which is a space now"
_ACTIONS = [action.name.lower() for action in MethodAction]
_COLLECTOR = "garbage collections"
_SAMPLER = "samples"
_DOMAIN = "fxtio"
_FIRST_METHOD = 1 << 40
_OBJECT_SIZE = 8
_MAX_OBJECTS = 1000
_MAX_FRAMES = 200
_FEW = 16
_NO_NAME = "(no name)"
_NS_PER_MS = 10**6
_NO_LIMIT = 1 << 62
_MAX_GENERATION = 255


class _Allocation(NamedTuple):
    """A row of the table `allocations`.

    Attributes:
        objects: their number.
        class_name: the code of the name.
    """

    time: int
    thread: int
    stack: int
    objects: int
    size: int
    class_name: int


def _by_thread(allocations: Table) -> dict[int, list[_Allocation]]:
    """Return the allocations of each row of `threads`, in the order of time."""
    ordered = allocations.take(np.lexsort((allocations["time"], allocations["thread"])))
    columns = (ordered[name].tolist() for name in ("time", "thread", "stack", "count", "size"))
    rows = map(_Allocation._make, zip(*columns, ordered["type"].codes.tolist(), strict=True))
    return {thread: list(group) for thread, group in groupby(rows, attrgetter("thread"))}


class Exporter:
    """Writes a recording, see `fxtio.formats.Exporter`."""

    TABLES: ClassVar[tuple[str, ...]] = (
        *calls.TABLES, "collections", "samples", "allocations", "stacks", "frames", *_LOST,
    )  # fmt: skip
    WRITES_LABELS: ClassVar = False

    def __init__(self, sink: Sink, registry: Registry) -> None:
        self.losses: Counter[str] = Counter()
        self._registry = registry
        self._sink = sink
        self._calls = Calls(registry, self.losses, _NO_LIMIT, shown=(GC_CATEGORY,))
        self._arguments = Arguments()
        self._chains = Chains(registry)
        self._methods: dict[int, int] = {}
        self._classes: dict[int, int] = {}
        self._threads: dict[int, int] = {}  # the id of each row of `threads`
        self._ids: set[int] = set()
        self._next_id = itertools.count(1)
        self._own_threads: dict[str, int] = {}  # the ids of threads that the timeline does not have
        self._generations: dict[tuple[int, int], list[int]] = {}  # of open collections, by thread and name
        self._gc_events: set[int] = set()  # of slices of threads that are garbage collections
        self._object = _OBJECT_SIZE  # the address of the next object
        self._gc_steps: dict[tuple[int, bool], GcEventType] = {
            (registry.names.code(label), step == SpanStep.END): event for event, (step, label) in GC_STEPS.items()
        }

    @cached_property
    def _writer(self) -> MonoWriter:
        """The writer; the registry knows the wall clock when it is first used."""
        header, wall_clock = header_for(max(VERSIONS)), self._registry.wall_clock
        if wall_clock is None:
            return MonoWriter(self._sink, header=replace(header, startup_time=0))
        milliseconds = max(-(-wall_clock // _NS_PER_MS), 0)
        tick = milliseconds * _NS_PER_MS - wall_clock
        return MonoWriter(self._sink, header=replace(header, startup_time=milliseconds, startup_tick=tick))

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Write the rows of a batch."""
        count_lost(self.losses, tables, _LOST)
        self._arguments.enter(tables)
        self._define_frames(tables)
        allocations = _by_thread(tables["allocations"]) if "allocations" in tables else {}
        for each in self._calls.enter(tables):
            self._write_thread(each, allocations.pop(self._registry.track_info(each.track).thread, []))
        for rest in allocations.values():
            self._write_allocations(rest)
        self._arguments.leave(tables)
        if "collections" in tables:
            self._write_collections(tables["collections"])
        if "samples" in tables:
            self._write_samples(tables["samples"])

    def finish(self) -> None:
        """Write the rest of the recording."""
        self._writer.close()
        self._calls.finish()
        processes = self._registry.tables()["processes"]
        self.losses[_PROCESSES] += processes.num_rows if processes.num_rows > 1 else 0

    def _write_thread(self, rows: ThreadCalls, allocations: list[_Allocation]) -> None:
        """Write calls of a thread, and between them the steps of garbage collections and the allocations."""
        if not len(rows.time):
            self._write_allocations(allocations)
            return
        first = min(int(rows.time[0]), *(each.time for each in allocations[:1]), MAX_TIME)
        thread = self._thread(self._registry.track_info(rows.track).thread, first)
        is_step = rows.category == self._registry.names.code(GC_CATEGORY)
        is_step &= np.isin(rows.name, [name for name, _ in self._gc_steps])
        times = np.array([each.time for each in allocations], np.int64)
        places = np.searchsorted(rows.time, times, "right")
        ends = np.flatnonzero(np.diff(is_step)) + 1
        written = 0
        for low, high in pairwise(np.unique([0, *ends.tolist(), *places.tolist(), len(is_step)]).tolist()):
            behind = int(np.searchsorted(places, low, "right"))
            self._write_allocations(allocations[written:behind])
            written = behind
            part = rows.part(slice(low, high))
            if is_step[low]:
                self._write_steps(part, thread)
            else:
                self._write_calls(part, thread)
        self._write_allocations(allocations[written:])

    def _write_steps(self, rows: ThreadCalls, thread: int) -> None:
        """Write the begins and ends of garbage collections of a thread."""
        args = self._arguments.of(rows.event)
        is_generation = args.name == self._registry.names.code(GENERATION)
        generations = dict(zip(args.row[is_generation].tolist(), args.bits[is_generation].tolist(), strict=True))
        columns = (rows.time, rows.is_exit, rows.name, rows.event)
        for row, (time, is_exit, name, event) in enumerate(zip(*(each.tolist() for each in columns), strict=True)):
            step, open_ones = self._gc_steps[name, is_exit], self._generations.setdefault((thread, name), [])
            if not is_exit:
                open_ones.append(min(generations.get(row, 0), _MAX_GENERATION))
                self.losses[LOST_ROWS["args"]] -= row in generations
            if step == GcEventType.START:
                self._gc_events.add(event)
            self._writer.gc_event(step, open_ones.pop() if is_exit else open_ones[-1], time=time, thread=thread)

    def _write_calls(self, rows: ThreadCalls, thread: int) -> None:
        first = int(rows.time[0])
        if len(rows.time) < _FEW:
            self._write_few_calls(rows, thread)
            return
        used, place = np.unique(rows.name, return_inverse=True)
        methods = np.array([self._method(code, first, thread) for code in used.tolist()], np.uint64)
        left = np.where(rows.state == SliceState.THROWN, MethodAction.EXCEPTIONAL_LEAVE, MethodAction.LEAVE)
        actions = np.where(rows.is_exit, left, MethodAction.ENTER)
        number = {int(action): place for place, action in enumerate(MethodAction)}
        codes = np.array([number[action] for action in actions.tolist()], np.int32)
        columns = {
            "time": rows.time,
            "action": Categories(codes, _ACTIONS),
            "method": methods[place],
            "thread": np.full(len(rows.time), thread, np.uint64),
        }
        self._writer.write_table("calls", columns)

    def _write_few_calls(self, rows: ThreadCalls, thread: int) -> None:
        """Write calls one by one, which takes less time for a few than a table."""
        columns = (rows.time.tolist(), rows.is_exit.tolist(), rows.name.tolist(), rows.state.tolist())
        for time, is_exit, code, state in zip(*columns, strict=True):
            method = self._method(code, time, thread)
            if is_exit:
                self._writer.leave(method, time=time, thread=thread, thrown=state == SliceState.THROWN)
            else:
                self._writer.enter(method, time=time, thread=thread)

    def _thread(self, thread: int, time: int) -> int:
        """Return the id of a row of `threads`, which begins now if it is new; 0 for -1."""
        if thread < 0:
            return 0
        number = self._threads.get(thread)
        if number is None:
            info = self._registry.thread_info(thread)
            number = info.tid % 2**64
            if number in self._ids or not number:
                self.losses[_NUMBERS] += 1
                number = self._free_id()
            self._ids.add(number)
            name = info.name or ""
            self._threads[thread] = self._writer.thread(number, self._name(name) if name else "", time=time)
        return number

    def _own_thread(self, name: str, time: int) -> int:
        """Return the id of a thread that the timeline does not have, which begins now if it is new."""
        number = self._own_threads.get(name)
        if number is None:
            number = self._own_threads[name] = self._writer.thread(self._free_id(), name, time=time)
            self._ids.add(number)
        return number

    def _free_id(self) -> int:
        return next(number for number in self._next_id if number not in self._ids)

    def _method(self, code: int, time: int, thread: int) -> int:
        address = self._methods.get(code)
        if address is None:
            name = self._name(self._registry.names.values[code] if code >= 0 else "")
            address = self._methods[code] = _FIRST_METHOD + len(self._methods)
            # Samples have the address of the method, which has to be one of its code.
            self._writer.method(name, time=time, address=address, code=address, size=1, thread=thread)
        return address

    def _name(self, text: str) -> str:
        if "\0" in text:
            self.losses[_ZEROS] += 1
            text = text.replace("\0", " ")
        return plain(text, self.losses) or _NO_NAME

    def _write_collections(self, collections: Table) -> None:
        ordered = collections.take(np.argsort(collections["start"], kind="stable"))
        columns = (ordered[name].tolist() for name in ("start", "duration", "generation", "event"))
        for start, duration, generation, event in zip(*columns, strict=True):
            if event in self._gc_events:
                self._gc_events.remove(event)
                continue
            thread = self._own_thread(_COLLECTOR, start)
            number = min(max(generation, 0), _MAX_GENERATION)
            self._writer.gc_event(GcEventType.START, number, time=start, thread=thread)
            self._writer.gc_event(GcEventType.END, number, time=start + duration, thread=thread)

    # Samples and allocations.

    def _define_frames(self, tables: Mapping[str, Table]) -> None:
        self._chains.enter(tables)
        if "frames" in tables:
            frames = tables["frames"]
            has_place = (frames["file"].codes >= 0) | (frames["line"] >= 0) | (frames["module"].codes >= 0)
            self.losses[_PLACES] += int(has_place.sum())

    def _frames(self, stack: int, time: int, thread: int) -> list[int]:
        """Return the methods of a stack, the outermost first."""
        return [self._method(code, time, thread) for code in self._chains.names(stack)]

    def _write_samples(self, samples: Table) -> None:
        ordered = samples.take(np.argsort(samples["time"], kind="stable"))
        plain_unit = self._registry.names.code("samples")
        is_plain = (ordered["count"] == 1) & (ordered["unit"].codes == plain_unit) & (ordered["cpu"] < 0)
        self.losses[_WEIGHTS] += int((~is_plain).sum())
        for time, row, stack in zip(*(ordered[name].tolist() for name in ("time", "thread", "stack")), strict=True):
            interrupted, thread = self._thread(row, time), self._own_thread(_SAMPLER, time)
            frames = self._frames(stack, time, thread)[::-1]
            self._writer.sample(
                frames[0] if frames else 0, frames[:_MAX_FRAMES], interrupted=interrupted, time=time, thread=thread
            )

    def _write_allocations(self, allocations: list[_Allocation]) -> None:
        for time, row, stack, count, size, class_name in allocations:
            thread = self._thread(row, time)
            frames = self._frames(stack, time, thread)[-_MAX_FRAMES:]
            self.losses[_OBJECTS] += max(count - _MAX_OBJECTS, 0)
            sizes, rest = divmod(max(size, 0), max(count, 1))
            for place in range(min(count, _MAX_OBJECTS)):
                number, each = self._class(class_name, time, thread), sizes + (place < rest)
                self._writer.allocation(number, self._object, each, time=time, thread=thread, backtrace=frames)
                self._object += _OBJECT_SIZE

    def _class(self, code: int, time: int, thread: int) -> int:
        number = self._classes.get(code)
        if number is None:
            if not self._classes:
                self._writer.domain(_DOMAIN, time=time, thread=thread)
            name = self._name(self._registry.names.values[code] if code >= 0 else "")
            number = self._classes[code] = self._writer.class_(name, time=time, thread=thread)
        return number
