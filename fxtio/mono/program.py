"""The synthetic shape `program`: a web shop on Mono, with requests on pool threads, a database, logs and collections.

Some requests are drawn once, as trees of calls with their allocations, locks and exceptions.  Threads then repeat them
with other durations, in rounds of a few milliseconds.  Between rounds there are collections, counters and pauses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.mono import enums
from fxtio.mono.writer import MonoWriter

Draw = np.random.Generator

METHODS: dict[str, tuple[float, tuple[tuple[str, float], ...]]] = {
    "Shop.Http.Connection:Handle (System.Net.Sockets.Socket)": (4e3, (
        ("Shop.Http.Request:Parse (System.IO.Stream)", 1.0),
        ("Shop.Http.Router:Dispatch (Shop.Http.Request)", 1.0),
        ("Shop.Http.Response:Send (System.IO.Stream)", 1.0),
        ("Shop.Log:Info (string)", 0.9),
    )),
    "Shop.Http.Request:Parse (System.IO.Stream)": (9e3, (
        ("System.Net.Sockets.Socket:Receive (byte[],int,int)", 1.0),
        ("System.String:Split (char[])", 0.8),
    )),
    "Shop.Http.Router:Dispatch (Shop.Http.Request)": (2e3, (
        ("Shop.Catalog.Controller:Search (string)", 0.5),
        ("Shop.Orders.Controller:Get (int)", 0.4),
        ("Shop.Orders.Controller:Post (Shop.Orders.Order)", 0.2),
    )),
    "Shop.Catalog.Controller:Search (string)": (5e3, (
        ("Shop.Cache`2<string, Shop.Catalog.Product[]>:TryGet (string,Shop.Catalog.Product[]&)", 1.0),
        ("Shop.Data.Database:Query (string)", 0.4),
        ("Shop.Json.Writer:Write (object)", 1.0),
    )),
    "Shop.Orders.Controller:Get (int)": (4e3, (
        ("Shop.Data.Database:Query (string)", 1.0),
        ("Shop.Json.Writer:Write (object)", 1.0),
    )),
    "Shop.Orders.Controller:Post (Shop.Orders.Order)": (8e3, (
        ("Shop.Orders.Order:Validate ()", 1.0),
        ("Shop.Data.Database:Execute (string)", 1.0),
        ("Shop.Log:Info (string)", 1.0),
    )),
    "Shop.Orders.Order:Validate ()": (3e3, ()),
    "Shop.Cache`2<string, Shop.Catalog.Product[]>:TryGet (string,Shop.Catalog.Product[]&)": (1e3, ()),
    "Shop.Data.Database:Query (string)": (6e3, (
        ("System.Net.Sockets.Socket:Send (byte[],int,int)", 1.0),
        ("System.Net.Sockets.Socket:Receive (byte[],int,int)", 1.0),
        ("Shop.Data.Row:Read (System.IO.Stream)", 1.0),
        ("Shop.Data.Row:Read (System.IO.Stream)", 0.7),
    )),
    "Shop.Data.Database:Execute (string)": (6e3, (
        ("System.Net.Sockets.Socket:Send (byte[],int,int)", 1.0),
        ("System.Net.Sockets.Socket:Receive (byte[],int,int)", 1.0),
    )),
    "Shop.Data.Row:Read (System.IO.Stream)": (2e3, (("System.String:Split (char[])", 0.3),)),
    "Shop.Json.Writer:Write (object)": (7e3, (
        ("Shop.Json.Writer:WriteArray (System.Collections.IEnumerable)", 0.8),
    )),
    "Shop.Json.Writer:WriteArray (System.Collections.IEnumerable)": (5e3, (
        ("System.Text.StringBuilder:Append (string)", 1.0),
        ("System.Text.StringBuilder:Append (string)", 0.8),
        ("System.Text.StringBuilder:Append (string)", 0.6),
    )),
    "Shop.Http.Response:Send (System.IO.Stream)": (5e3, (
        ("System.Net.Sockets.Socket:Send (byte[],int,int)", 1.0),
    )),
    "Shop.Log:Info (string)": (2e3, (
        ("System.Text.StringBuilder:Append (string)", 1.0),
        ("System.IO.FileStream:Write (byte[],int,int)", 0.5),
    )),
    "System.Net.Sockets.Socket:Receive (byte[],int,int)": (3e5, ()),
    "System.Net.Sockets.Socket:Send (byte[],int,int)": (2e4, ()),
    "System.IO.FileStream:Write (byte[],int,int)": (4e4, ()),
    "System.String:Split (char[])": (1500.0, ()),
    "System.Text.StringBuilder:Append (string)": (300.0, ()),
}  # fmt: skip
"""The methods: the median of their own time in nanoseconds, and what they call with which probability."""

CLASSES = {
    "System.String": (24, 200),
    "System.Byte[]": (64, 4096),
    "Shop.Http.Request": (96, 96),
    "Shop.Catalog.Product": (72, 72),
    "Shop.Orders.Order": (120, 120),
    "System.Text.StringBuilder": (48, 48),
    "System.InvalidOperationException": (144, 144),
}
"""The classes of objects: their sizes in bytes, from and to."""

_ENTRY = "Shop.Http.Connection:Handle (System.Net.Sockets.Socket)"
_FAILING = "Shop.Orders.Order:Validate ()"
_CATCHING = "Shop.Http.Router:Dispatch (Shop.Http.Request)"
_LOCKED = "Shop.Cache`2<string, Shop.Catalog.Product[]>:TryGet (string,Shop.Catalog.Product[]&)"
_ERROR = "System.InvalidOperationException"

_REQUESTS = 64  # those that are repeated
_SPREAD = 0.5  # of durations, as the standard deviation of their logarithm
_NURSERY = 4 * 1024 * 1024  # bytes that are allocated between collections
_MAJOR = 8  # every so many collections is a major one
_SAMPLED = 10_000_000  # nanoseconds between samples of a thread
_COUNTED = 100  # rounds between readings of counters
_HEAP, _LOCK, _CODE = 0x7F10_0000_0000, 0x7F00_0000_0100, 0x4000_0000


@dataclass
class Request:
    """The events of a request; times are nanoseconds from its beginning, methods and classes are numbers."""

    calls: list[tuple[int, int, int]] = field(default_factory=list)
    """Time, action and method."""
    allocations: list[tuple[int, int, int, tuple[int, ...]]] = field(default_factory=list)
    """Time, class, size and stack."""
    throws: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    clauses: list[tuple[int, int, int]] = field(default_factory=list)
    """Time, kind and method."""
    monitors: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list)
    """Time, event and stack."""
    duration: int = 0


class _Drawer:
    """Draws one request."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.numbers = {name: number for number, name in enumerate(METHODS)}
        self.request = Request()
        self.now = 0

    def spend(self, median: float) -> int:
        """Let some time pass and return the time."""
        self.now += max(int(self.draw.lognormal(np.log(median), _SPREAD)), 20)
        return self.now

    def call(self, name: str, stack: tuple[int, ...] = ()) -> bool:
        """Add a call and everything in it; return whether it ended with an exception."""
        median, children = METHODS[name]
        number = self.numbers[name]
        stack = (*stack, number)
        request = self.request
        request.calls.append((self.spend(30), enums.MethodAction.ENTER, number))
        self.allocate(stack, median)
        if name == _LOCKED:
            self.lock(stack)
        fails = name == _FAILING and self.draw.random() < 0.1
        if fails:
            request.throws.append((self.spend(500), stack))
        for child, probability in children:
            self.spend(median / (len(children) + 1))
            if not fails and self.draw.random() < probability:
                fails = self.call(child, stack)
                if fails and name == _CATCHING:
                    request.clauses.append((self.spend(2000), enums.ClauseKind.CATCH, number))
                    fails = False
        self.spend(median / (len(children) + 1))
        action = enums.MethodAction.EXCEPTIONAL_LEAVE if fails else enums.MethodAction.LEAVE
        request.calls.append((self.spend(30), action, number))
        request.duration = self.now
        return fails

    def allocate(self, stack: tuple[int, ...], median: float) -> None:
        for _ in range(int(self.draw.poisson(0.6))):
            kind = int(self.draw.integers(len(CLASSES) - 1))
            least, most = list(CLASSES.values())[kind]
            size = int(self.draw.integers(least // 8, most // 8 + 1)) * 8
            self.request.allocations.append((self.spend(median / 20 + 20), kind, size, stack))

    def lock(self, stack: tuple[int, ...]) -> None:
        if self.draw.random() < 0.3:
            self.request.monitors.append((self.spend(200), enums.MonitorEvent.CONTENTION, stack))
            self.request.monitors.append((self.spend(60_000), enums.MonitorEvent.ACQUIRED, stack))


class Program:
    """Writes the recording of the program in rounds.

    Args:
        writer: where to; nothing was written yet but the header.
        threads: the ids of the pool threads.
        start: the time of the first event.
        draw: makes the random numbers.

    Attributes:
        now: the time of the last event.
        events: the number of events so far.
    """

    def __init__(self, writer: MonoWriter, threads: list[int], start: int, draw: Draw) -> None:
        self.writer, self.threads, self.now, self.draw = writer, threads, start, draw
        self.events = self.rounds = self.collections = self.allocated = 0
        self.objects = _HEAP
        self.free = np.full(len(threads), start, np.int64)  # when each thread has ended its last request
        self.requests = []
        for _ in range(_REQUESTS):
            drawer = _Drawer(draw)
            drawer.call(_ENTRY)
            self.requests.append(drawer.request)
        self._define()

    def _tick(self, median: float) -> int:
        self.now += max(int(self.draw.lognormal(np.log(median), _SPREAD)), 1)
        return self.now

    def _define(self) -> None:
        writer, main = self.writer, self.threads[0]
        image = writer.image(
            "/srv/shop/shop.exe", time=self.now, mvid="5d1a52f0-1b5c-4f4e-9f7e-0a6a0a4b7d11", thread=main
        )
        writer.assembly("shop, Version=2.3.0.0, Culture=neutral", time=self._tick(1e5), image=image, thread=main)
        writer.domain("shop.exe", time=self._tick(1e5), thread=main)
        self.types = [writer.class_(name, time=self._tick(5e4), image=image, thread=main) for name in CLASSES]
        methods = [
            writer.method(name, time=self._tick(3e5), code=_CODE + 0x400 * number, size=0x200, thread=main)
            for number, name in enumerate(METHODS)
        ]
        self.methods = np.array(methods, np.uint64)
        kinds, sections = enums.CounterType, enums.CounterSection
        for index, (name, kind, section) in enumerate(
            (
                ("User Time", kinds.LONG, sections.SYSTEM),
                ("Gen0 collections", kinds.UINT, sections.GC),
                ("Load", kinds.DOUBLE, sections.RUNTIME),
            ),
            1,
        ):
            writer.counter(name, index, time=self._tick(1e3), type=kind, section=section, thread=main)
        for number, thread in enumerate(self.threads):
            writer.thread(thread, f"Thread Pool Worker {number}" if number else "Main", time=self._tick(1e5))
        source = enums.RootSource.STATIC
        writer.root_register(0x2000, 8, source=source, time=self._tick(1e4), name="Static Fields", thread=main)
        self.events += 4 + 2 * len(self.types) + len(METHODS) + 2 * len(self.threads) + 3 + 1
        self.free[:] = self.now

    def round(self, most: int) -> None:
        """Write one or more requests on each thread, about so many events at most, and what happens between rounds."""
        self.rounds += 1
        round_start = self.now
        rows = _Rows()
        for number, thread in enumerate(self.threads):
            at = max(int(self.free[number]), round_start)
            for _ in range(int(self.draw.integers(1, 4))):
                if rows.calls and rows.count >= most:
                    break
                at += int(self.draw.exponential(2e5))
                request = self.requests[int(self.draw.integers(_REQUESTS))]
                at = self._add(rows, request, thread, at)
            self.free[number] = at
        self.events += self.writer.write_tables(rows.tables(self.methods, np.array(self.types, np.uint64)))
        self.now = max(self.now, int(self.free.max()))
        if self.allocated >= _NURSERY * (self.collections + 1):
            self._collect()
        if self.rounds % _COUNTED == 1:
            self._count()

    def _add(self, rows: _Rows, request: Request, thread: int, at: int) -> int:
        """Add a request that begins at a time; return when it ends."""
        scale = float(self.draw.lognormal(0, 0.3))
        samples = int(self.draw.poisson(request.duration * scale / _SAMPLED))

        def when(time: int) -> int:
            return at + int(time * scale)

        rows.calls += [(thread, when(time), action, method) for time, action, method in request.calls]
        for time, kind, size, stack in request.allocations:
            rows.allocations.append((thread, when(time), kind, self.objects, size))
            rows.allocation_stacks.append(stack)
            self.objects += size
            self.allocated += size
            if samples:
                samples -= 1
                rows.samples.append((thread, when(time), _CODE + 0x400 * stack[-1] + 0x10))
                rows.sample_stacks.append(stack[::-1])
        for time, stack in request.throws:
            rows.throws.append((thread, when(time), self.objects))
            rows.throw_stacks.append(stack)
        rows.clauses += [(thread, when(time), kind, method, self.objects) for time, kind, method in request.clauses]
        for time, event, stack in request.monitors:
            rows.monitors.append((thread, when(time), event))
            rows.monitor_stacks.append(stack)
        return when(request.duration)

    def _collect(self) -> None:
        """Write a collection on the main thread, while all others stand still."""
        writer, step, main = self.writer, enums.GcEventType, self.threads[0]
        self.collections += 1
        major = self.collections % _MAJOR == 0
        generation = int(major)
        moved = [(self.objects - 256 + 64 * place, _HEAP - (place + 1) * 64) for place in range(4)]
        for event in (step.PRE_STOP_WORLD, step.PRE_STOP_WORLD_LOCKED, step.POST_STOP_WORLD):
            writer.gc_event(event, generation, time=self._tick(2e4), thread=main)
        writer.sync_point(enums.SyncPointType.WORLD_STOP, time=self._tick(1e3), thread=main)
        writer.gc_event(step.START, generation, time=self._tick(1e3), thread=main)
        writer.gc_moves(moved, time=self._tick(2e7 if major else 8e5), thread=main)
        writer.gc_event(step.END, generation, time=self._tick(1e5), thread=main)
        if major:
            writer.gc_resize((self.collections + 4) * _NURSERY, time=self._tick(1e3), thread=main)
            self.events += 1
        writer.sync_point(enums.SyncPointType.WORLD_START, time=self._tick(1e3), thread=main)
        for event in (step.PRE_START_WORLD, step.POST_START_WORLD, step.POST_START_WORLD_UNLOCKED):
            writer.gc_event(event, generation, time=self._tick(5e3), thread=main)
        self.events += 11
        self.free[:] = self.now

    def _count(self) -> None:
        values = {1: self.now // 1000, 2: self.collections, 3: int(64 * self.draw.beta(4, 2)) / 64}
        self.writer.counters(values, time=self._tick(1e4), thread=self.threads[0])
        self.writer.sync_point(enums.SyncPointType.PERIODIC, time=self._tick(1e3), thread=self.threads[0])
        self.events += 2
        self.free[0] = self.now

    def end(self) -> None:
        """Write a shot of the heap and the ends of the threads."""
        writer, main = self.writer, self.threads[0]
        objects = [_HEAP - (place + 1) * 64 for place in range(16)]
        writer.heap_start(time=self._tick(1e5), thread=main)
        writer.heap_roots([(0x2000, objects[0])], time=self._tick(1e3), thread=main)
        for place, address in enumerate(objects):
            refers = [(16 + 8 * n, objects[n]) for n in (2 * place + 1, 2 * place + 2) if n < len(objects)]
            kind = self.types[place % (len(self.types) - 1)]
            writer.heap_object(address, kind, 64, refers, time=self._tick(1e3), generation=1, thread=main)
        writer.heap_end(time=self._tick(1e3), thread=main)
        for thread in self.threads:
            writer.thread_end(thread, time=self._tick(1e4))
        self.events += 3 + len(objects) + len(self.threads)


class _Rows:
    """Gathers the rows of a round."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []
        self.allocations: list[tuple[int, ...]] = []
        self.allocation_stacks: list[tuple[int, ...]] = []
        self.throws: list[tuple[int, ...]] = []
        self.throw_stacks: list[tuple[int, ...]] = []
        self.clauses: list[tuple[int, ...]] = []
        self.monitors: list[tuple[int, ...]] = []
        self.monitor_stacks: list[tuple[int, ...]] = []
        self.samples: list[tuple[int, ...]] = []
        self.sample_stacks: list[tuple[int, ...]] = []

    @property
    def count(self) -> int:
        """The number of calls and allocations so far."""
        return len(self.calls) + len(self.allocations)

    def tables(self, methods: Array, types: Array) -> dict[str, dict[str, Any]]:
        """Return the rows as tables for `write_tables`."""
        calls = _columns(self.calls, "thread", "time", "action", "method")
        calls["method"] = methods[calls["method"]]
        allocations = _columns(self.allocations, "thread", "time", "vtable", "object", "size")
        allocations["vtable"] = types[allocations["vtable"]]
        allocations["object"] = allocations["object"] // 8 * 8
        throws = _columns(self.throws, "thread", "time", "object")
        clauses = _columns(self.clauses, "thread", "time", "kind", "method", "object") | {"index": 0}
        clauses["method"] = methods[clauses["method"]]
        samples = _columns(self.samples, "thread", "time", "address")
        addresses = samples.pop("address")
        return {
            "calls": calls,
            "allocations": allocations,
            "allocation_frames": _frames("allocation", self.allocation_stacks, methods),
            "throws": throws,
            "throw_frames": _frames("throw", self.throw_stacks, methods),
            "clauses": clauses,
            "monitors": _columns(self.monitors, "thread", "time", "event") | {"object": _LOCK},
            "monitor_frames": _frames("monitor", self.monitor_stacks, methods),
            "samples": samples | {"interrupted": samples["thread"]},
            "sample_addresses": {"sample": np.arange(len(addresses)), "address": addresses},
            "sample_frames": _frames("sample", self.sample_stacks, methods),
        }


def _columns(rows: list[tuple[int, ...]], *names: str) -> dict[str, Any]:
    values = np.array(rows, np.int64).reshape(-1, len(names))
    return {name: values[:, place].copy() for place, name in enumerate(names)}


def _frames(row: str, stacks: list[tuple[int, ...]], methods: Array) -> dict[str, Array]:
    counts = [len(stack) for stack in stacks]
    flat = np.array([number for stack in stacks for number in stack], np.int64)
    return {row: np.repeat(np.arange(len(stacks)), counts), "method": methods[flat]}
