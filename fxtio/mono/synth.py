"""Synthetic recordings of any size.  The same seed gives the same bytes on every machine."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.io.reading import Progress
from fxtio.mono import records as r
from fxtio.mono.enums import (
    CodeBuffer,
    GcEventType,
    HandleType,
    LoadAction,
    MethodAction,
    MonitorEvent,
    RootSource,
    SyncPointType,
)
from fxtio.mono.everything import VERSIONS, Everything, header_of
from fxtio.mono.headers import StreamHeader
from fxtio.mono.program import Program
from fxtio.mono.writer import MonoWriter

DEFAULT_EVENTS = 100_000

SHAPES = {
    "calls": "methods that call each other, and an allocation now and then",
    "allocations": "allocations with backtraces of several classes",
    "mixed": "events of all kinds: calls, allocations, collections, monitors, exceptions, samples, counters",
    "program": "a web shop: requests on several threads, database, logs, locks, exceptions, collections",
    "everything": "recordings of all data versions with all of their events and options",
}
"""The shapes of recordings."""

_BYTES = {"calls": 4.9, "allocations": 24.0, "mixed": 5.0, "program": 7.9, "everything": 16.8}  # for each event
_METHODS, _CLASSES = 200, 20
_BLOCK = 1 << 20
_DEPTH = 12
_FIRST_THREAD, _FIRST_OBJECT, _OBJECT = 0x1000, 0x7000_0000, 64
_START = 1_000_000
_PAUSE = 1_000_000_000  # between two recordings of one file
_COUNTER = 1
_ROUND = 31  # the events of a mixed round beside calls and allocations

_HEADER = StreamHeader(startup_tick=_START, timer_overhead=20, pid=1, args="log", arch="x86-64", os="linux")


def synth(
    target: Any,
    shape: str,
    *,
    events: int | None = None,
    size: int | None = None,
    threads: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[int, int]:
    """Write a synthetic recording, see `fxtio.formats.SynthRoom.synth`."""
    count = events or (max(int(size / _BYTES[shape]), 1) if size else DEFAULT_EVENTS)
    ids = [_FIRST_THREAD + number for number in range(threads or 2)]
    if shape == "everything":
        return _everything(target, count, ids, seed, progress)
    if shape == "program":
        return _program(target, count, ids, seed, progress)
    with MonoWriter(target, header=_HEADER) as writer:
        generator = _Generator(writer, shape, seed, ids[0])
        for number, thread in enumerate(ids):
            writer.thread(thread, f"Thread {number}", time=_START)
        done, blocks = generator.definitions + 2 * len(ids), 0
        while done < count:
            done += generator.block(ids[blocks % len(ids)], min(count - done, _BLOCK))
            blocks += 1
            if progress is not None:
                progress(done, count)
        for thread in ids:
            writer.thread_end(thread, time=generator.now)
        writer.flush()
        return done + len(ids), writer.position


def _everything(target: Any, count: int, threads: list[int], seed: int, progress: Progress | None) -> tuple[int, int]:
    """Write whole rounds of recordings until there are so many records; the last round may have some of them only."""
    draw = np.random.Generator(np.random.PCG64(seed))
    now, done = _START, 0
    with MonoWriter(target) as writer:
        for number, (version, pointer_size) in enumerate(cycle(VERSIONS)):
            if number >= len(VERSIONS) and done >= count:
                break
            writer.put(header_of(version, pointer_size, now, draw))
            recording = Everything(r.dialect_of(version, pointer_size), now, threads, draw)
            done += number > 0  # the headers of all but the first recording are among the records
            for events in (recording.definitions(), recording.events()):
                for thread, event in events:
                    writer.put(event, thread=thread)
                    done += 1
                writer.flush()
            now = recording.now + _PAUSE
            if progress is not None:
                progress(done, max(count, done))
        return done, writer.position


def _program(target: Any, count: int, threads: list[int], seed: int, progress: Progress | None) -> tuple[int, int]:
    with MonoWriter(target, header=_HEADER) as writer:
        program = Program(writer, threads, _START, np.random.Generator(np.random.PCG64(seed)))
        while program.events < count:
            program.round(count - program.events)
            if progress is not None:
                progress(program.events, max(count, program.events))
        program.end()
        writer.flush()
        return program.events, writer.position


class _Generator:
    """Generates events in blocks."""

    def __init__(self, writer: MonoWriter, shape: str, seed: int, thread: int) -> None:
        self.writer, self.shape = writer, shape
        self.random = np.random.Generator(np.random.PCG64(seed))
        self.now = _START
        self.objects = 0
        by: Any = {"time": _START, "thread": thread}
        writer.domain("synthetic.exe", **by)
        image = writer.image("synthetic.exe", **by)
        names = [f"Synthetic.Class{number}" for number in range(_CLASSES)]
        self.types = np.array([writer.class_(name, image=image, **by) for name in names], np.uint64)
        self.methods = np.array(
            [writer.method(f"{names[n % _CLASSES]}:Method{n} ()", **by) for n in range(_METHODS)], np.uint64
        )
        self.definitions = 3 + 2 * _CLASSES + _METHODS
        if shape == "mixed":
            self.definitions += self._define(image, thread)

    def _define(self, image: int, thread: int) -> int:
        """Write definitions that calls and allocations do not need; return their number."""
        writer = self.writer
        writer.assembly("Synthetic, Version=1.0", time=_START, image=image, thread=thread)
        writer.put(r.Context(time=_START, action=LoadAction.LOAD, id=1, domain=1), thread=thread)
        writer.put(r.AotId(time=_START, id="00000000-0000-0000-0000-000000000001"), thread=thread)
        writer.counter("Methods", _COUNTER, time=_START, thread=thread)
        return 4

    def block(self, thread: int, count: int) -> int:
        """Write about so many events of a thread; return how many."""
        if self.shape == "mixed":
            return self._mixed(thread, count)
        if self.shape == "allocations":
            tables = self._allocations(count)
        else:
            tables = self._calls(count)
        return self._write(tables, thread)

    def _write(self, tables: dict[str, dict[str, Any]], thread: int) -> int:
        threads = {name: {"thread": thread} for name in ("calls", "allocations")}
        return self.writer.write_tables({name: columns | threads.get(name, {}) for name, columns in tables.items()})

    def _times(self, count: int) -> Array:
        times = self.now + np.cumsum(self.random.integers(20, 400, count))
        self.now = int(times[-1]) if count else self.now
        return times.astype(np.uint64)

    def _calls(self, count: int) -> dict[str, dict[str, Any]]:
        """Return nested calls, and an allocation for every twenty events."""
        nests = max(count // (2 * _DEPTH), 1)
        depth = self.random.integers(1, _DEPTH + 1, nests) if count >= 2 * _DEPTH else np.ones(1, np.int64)
        begin = np.repeat(np.cumsum(2 * depth) - 2 * depth, 2 * depth)
        place = np.arange(2 * int(depth.sum())) - begin
        deep = np.repeat(depth, 2 * depth)
        entering = place < deep
        level = np.where(entering, place, 2 * deep - 1 - place)
        first = np.repeat(self.random.integers(0, _METHODS, nests), 2 * depth)
        times = self._times(len(place))
        action = np.where(entering, MethodAction.ENTER, MethodAction.LEAVE)
        calls = {"time": times, "action": action, "method": self.methods[(first + 7 * level) % _METHODS]}
        return {"calls": calls, "allocations": self._objects(times[entering][::10] + np.uint64(5))}

    def _objects(self, times: Array) -> dict[str, Any]:
        count = len(times)
        place = self.objects + np.arange(count)
        self.objects += count
        return {
            "time": times,
            "vtable": self.types[self.random.integers(0, _CLASSES, count)],
            "object": _FIRST_OBJECT + place * _OBJECT,
            "size": self.random.integers(2, 9, count) * 8,
        }

    def _allocations(self, count: int) -> dict[str, dict[str, Any]]:
        depth = self.random.integers(1, _DEPTH + 1, count)
        first = np.repeat(self.random.integers(0, _METHODS, count), depth)
        step = np.arange(int(depth.sum())) - np.repeat(np.cumsum(depth) - depth, depth)
        frames = {
            "allocation": np.repeat(np.arange(count), depth),
            "method": self.methods[(first + 7 * step) % _METHODS],
        }
        return {"allocations": self._objects(self._times(count)), "allocation_frames": frames}

    def _mixed(self, thread: int, count: int) -> int:
        """Write one or some events of most kinds, and calls."""
        writer, methods = self.writer, self.methods.tolist()
        frames, type_ = methods[:3], int(self.types[0])
        here = _FIRST_OBJECT + self.objects * _OBJECT
        self.objects += 2

        def tick() -> int:
            self.now += 100
            return self.now

        before = [GcEventType.PRE_STOP_WORLD, GcEventType.PRE_STOP_WORLD_LOCKED, GcEventType.POST_STOP_WORLD]
        after = [GcEventType.PRE_START_WORLD, GcEventType.POST_START_WORLD, GcEventType.POST_START_WORLD_UNLOCKED]
        for event in (*before, GcEventType.START, GcEventType.END, *after):
            writer.gc_event(event, 1, time=tick(), thread=thread)
            if event == GcEventType.POST_STOP_WORLD:
                writer.sync_point(SyncPointType.WORLD_STOP, time=tick(), thread=thread)
        writer.gc_resize(1 << 20, time=tick(), thread=thread)
        writer.gc_moves([(here, here + _OBJECT)], time=tick(), thread=thread)
        writer.heap_start(time=tick(), thread=thread)
        writer.heap_object(here, type_, 24, [(16, here + _OBJECT)], time=tick(), thread=thread)
        writer.heap_object(here + _OBJECT, type_, 24, time=tick(), thread=thread)
        writer.heap_end(time=tick(), thread=thread)
        writer.throw(here, time=tick(), thread=thread, backtrace=frames)
        writer.clause(methods[0], time=tick(), object=here, thread=thread)
        for outcome in (MonitorEvent.CONTENTION, MonitorEvent.ACQUIRED):
            writer.monitor(outcome, here, time=tick(), thread=thread, backtrace=frames)
        writer.sample(0x4000, frames, interrupted=thread, time=tick(), thread=thread)
        writer.handle_created(1, here, type=HandleType.PINNED, time=tick(), thread=thread)
        writer.handle_destroyed(1, type=HandleType.PINNED, time=tick(), thread=thread)
        writer.root_register(here, 8, source=RootSource.STATIC, name="static", time=tick(), thread=thread)
        writer.counters({_COUNTER: len(methods) + self.objects}, time=tick(), thread=thread)
        for record in (
            r.RootUnregister(time=tick(), address=here),
            r.FinalizeStart(time=tick()),
            r.FinalizeObjectStart(time=tick(), object=here),
            r.FinalizeObjectEnd(time=tick(), object=here),
            r.FinalizeEnd(time=tick()),
            r.NativeSymbol(time=tick(), address=0x4000, size=64, name="native_work"),
            r.JitHelper(time=tick(), buffer_type=CodeBuffer.HELPER, address=0x5000, size=32),
        ):
            writer.put(record, thread=thread)
        return _ROUND + self._write(self._calls(min(max(count - _ROUND, 2), 2000)), thread)
