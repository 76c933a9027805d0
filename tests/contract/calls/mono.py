"""Calls of the Mono writer."""

from __future__ import annotations

from typing import Any

from contract.calls.case import Call, Opened
from fxtio.mono import records as r
from fxtio.mono.enums import CounterType, MethodAction, NameAction
from fxtio.mono.headers import BufferHeader
from fxtio.mono.layout import Root
from fxtio.mono.writer import MonoWriter, header_for

OPTIONS: list[dict[str, Any]] = [{"data_version": 17, "pointer_size": 8}]
WRITERS: list[dict[str, Any]] = [{"header": header_for(17)}, {"header": header_for(15)}]
FINDINGS = frozenset({"mono.time.overflow"})
WRITES_NOTHING = frozenset({"MonoWriter.flush"})
UNCHECKED = frozenset({"MonoWriter.put", "MonoWriter.write_tables"})
IGNORED = frozenset({"MonoWriter.write_tables(tables.throws.backtrace)"})  # the column may be missing

METHOD = 0x5000
TYPE = 0x6000
THREAD = 0x77
BACKTRACE = (METHOD, METHOD + 16)


def begin(writer: MonoWriter) -> Opened:
    """Write definitions, a call and a counter."""
    writer.thread(THREAD, "worker", time=1000)
    writer.method("First:Method ()", time=1010, address=METHOD)
    writer.enter(METHOD, time=1020, thread=THREAD)
    writer.counter("integers", 1, time=1030)
    writer.counter("numbers", 2, time=1030, type=CounterType.DOUBLE)
    writer.counter("texts", 3, time=1030, type=CounterType.STRING)
    writer.counters({1: 5, 2: 0.5, 3: "text"}, time=1040)
    return Opened(writer)


def end(opened: Opened) -> None:
    """Write a definition, the end of the call, values of counters, and an event with an address of the writer."""
    writer = opened.writer
    writer.leave(METHOD, time=5000, thread=THREAD)
    writer.counters({1: 7, 2: 1.5, 3: "another"}, time=5010)
    writer.enter(writer.method("Last:Method ()", time=5020), time=5030, thread=THREAD)


def use(opened: Opened, call: Call, result: Any) -> None:
    """Do nothing: methods return numbers."""


def calls(opened: Opened) -> list[Call]:
    """Return at least one valid call of each public method."""
    writer = opened.writer
    at = {"time": 2000, "thread": THREAD}
    if writer.header.data_version < 16:
        return _coverage(writer, at)
    return [
        Call(writer, "flush"),
        Call(writer, "put", r.Call(time=2000, action=MethodAction.ENTER, method=METHOD), thread=THREAD),
        Call(writer, "put", r.GcResize(time=2000, size=5), thread=THREAD),
        Call(writer, "put", BufferHeader(time=2000, pointer=0x100, object=0x200, thread=5, method=0x300)),
        Call(writer, "write_table", "gc_resizes", {"time": [2000, 2010], "thread": [5, 6], "size": [7, 8]}),
        Call(
            writer, "write_table", "domains",
            {"time": [2000], "thread": [5], "action": [NameAction.NAME], "id": [8], "name": ["new"]},
        ),
        Call(
            writer, "write_tables",
            {
                "throws": {"time": [2000], "thread": [5], "object": [8], "backtrace": [2]},
                "throw_frames": {"throw": [0, 0], "method": [METHOD, METHOD + 16]},
            },
        ),
        Call(writer, "method", "New:Method ()", address=0x9000, code=0xA000, size=32, **at),
        Call(writer, "image", "new.dll", address=0x9000, mvid="mvid", **at),
        Call(writer, "assembly", "new", image=0x8000, address=0x9000, **at),
        Call(writer, "class_", "New", image=0x8000, domain=2, address=0x9000, **at),
        Call(writer, "domain", "new.exe", id=2, **at),
        Call(writer, "thread", 0x88, "another", time=2000),
        Call(writer, "thread_end", 0x88, time=2000),
        Call(writer, "enter", METHOD, **at),
        Call(writer, "leave", METHOD, thrown=True, **at),
        Call(writer, "allocation", TYPE, 0x8000, 24, backtrace=BACKTRACE, **at),
        Call(writer, "gc_event", 2, 1, **at),
        Call(writer, "event", r.Throw, object=0x8000, backtrace=BACKTRACE, **at),
        Call(writer, "event", r.GcMove, objects=[0x8000, 0x9000, 0x8010, 0x9010], **at),
        Call(writer, "event", r.HeapRoots, roots=[Root(address=0x7000, object=0x8000)], **at),
        Call(writer, "event", r.SyncPoint, sync_type=1, **at),
        Call(writer, "heap_object", 0x8000, TYPE, 24, [(8, 0x9000), (16, 0x9010)], generation=1, **at),
        Call(writer, "heap_object", 0x8000, TYPE, 24, [(8 * n, 0x9000) for n in range(129)], **at),
        Call(writer, "sample", 0xB000, BACKTRACE, interrupted=5, **at),
        Call(writer, "counter", "new", 4, type=CounterType.LONG, unit=1, variance=1, section=256, **at),
        Call(writer, "counter", "new", 4, section=1 << 15, category="category", **at),
        Call(writer, "counters", {1: 6, 2: 2.5, 3: "new"}, **at),
    ]  # fmt: skip


def _coverage(writer: MonoWriter, at: dict[str, int]) -> list[Call]:
    """Return the calls that data versions before 16 have in addition."""
    return [
        Call(
            writer, "event", r.CoverageClass, assembly="a", name="Class", methods=3, fully_covered=2,
            partially_covered=0, **at,
        ),
    ]  # fmt: skip
