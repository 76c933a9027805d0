"""The room `export`: writes the slices of threads as calls of methods, in a recording of the Mono log profiler.

Threads have their names, garbage collections their begin and end.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from msgspec.structs import replace

from fxtio._native.constants import SliceState
from fxtio.mono.enums import GcEventType, MethodAction
from fxtio.mono.records import VERSIONS
from fxtio.mono.writer import MonoWriter, header_for
from fxtio.table import Categories, Table
from fxtio.timeline import calls
from fxtio.timeline.calls import Calls, ThreadCalls
from fxtio.timeline.losses import count_lost, plain
from fxtio.timeline.parts import Registry

if TYPE_CHECKING:
    from fxtio.io.sink import Sink

NOT_CARRIED = (
    "arguments and categories of slices; all tracks but those of threads",
    "processes; numbers of threads that are not unique",
    "instants, flows, counters, samples, allocations, scheduling, logs",
)
"""The content of a timeline that a recording does not have."""

_LOST = {"logs": "log messages"}
_NUMBERS = "numbers of threads that are 0, or that another thread has"
_PROCESSES = "processes, whose threads are in one now"
_ZEROS = "names with a NUL, which is a space now"
_ACTIONS = [action.name.lower() for action in MethodAction]
_COLLECTOR = "garbage collections"
_NO_NAME = "(no name)"
_NS_PER_MS = 10**6
_NO_LIMIT = 1 << 62
_MAX_GENERATION = 255


class Exporter:
    """Writes a recording, see `fxtio.formats.Exporter`."""

    TABLES: ClassVar[tuple[str, ...]] = (*calls.TABLES, "collections", *_LOST)

    def __init__(self, sink: Sink, registry: Registry) -> None:
        self.losses: Counter[str] = Counter()
        self._registry = registry
        self._sink = sink
        self._calls = Calls(registry, self.losses, _NO_LIMIT)
        self._methods: dict[int, int] = {}
        self._threads: dict[int, int] = {}  # the id of each track
        self._ids: set[int] = set()
        self._collector: int | None = None  # the id of the thread that has the collections

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
        for each in self._calls.enter(tables):
            self._write_calls(each)
        if "collections" in tables:
            self._write_collections(tables["collections"])
        count_lost(self.losses, tables, _LOST)

    def finish(self) -> None:
        """Write the rest of the recording."""
        self._writer.close()
        self._calls.finish()
        processes = self._registry.tables()["processes"]
        self.losses[_PROCESSES] += processes.num_rows if processes.num_rows > 1 else 0

    def _write_calls(self, rows: ThreadCalls) -> None:
        first = int(rows.time[0]) if len(rows.time) else 0
        thread = self._thread(rows.track, first)
        used, place = np.unique(rows.name, return_inverse=True)
        methods = np.array([self._method(code, first, thread) for code in used.tolist()], np.uint64)
        left = np.where(rows.state == SliceState.THROWN, MethodAction.EXCEPTION_LEAVE, MethodAction.LEAVE)
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

    def _thread(self, track: int, time: int) -> int:
        """Return the id of a thread, which begins now if it is new."""
        number = self._threads.get(track)
        if number is None:
            info = self._registry.track_info(track)
            number = info.tid % 2**64
            if number in self._ids or not number:
                self.losses[_NUMBERS] += 1
                number = self._free_id()
            self._ids.add(number)
            name = self._registry.thread_info(info.thread).name or ""
            self._threads[track] = self._writer.thread(number, self._name(name) if name else "", time=time)
        return number

    def _free_id(self) -> int:
        return next(number for number in itertools.count(1) if number not in self._ids)

    def _method(self, code: int, time: int, thread: int) -> int:
        address = self._methods.get(code)
        if address is None:
            name = self._registry.names.values[code] if code >= 0 else ""
            address = self._methods[code] = self._writer.method(self._name(name), time=time, thread=thread)
        return address

    def _name(self, text: str) -> str:
        if "\0" in text:
            self.losses[_ZEROS] += 1
            text = text.replace("\0", " ")
        return plain(text, self.losses) or _NO_NAME

    def _write_collections(self, collections: Table) -> None:
        ordered = collections.take(np.argsort(collections["start"], kind="stable"))
        columns = (ordered[name].tolist() for name in ("start", "duration", "generation"))
        for start, duration, generation in zip(*columns, strict=True):
            if self._collector is None:
                self._collector = self._writer.thread(self._free_id(), _COLLECTOR, time=start)
                self._ids.add(self._collector)
            number = min(max(generation, 0), _MAX_GENERATION)
            self._writer.gc_event(GcEventType.START, number, time=start, thread=self._collector)
            self._writer.gc_event(GcEventType.END, number, time=start + duration, thread=self._collector)
