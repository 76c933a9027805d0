"""`mprof-report`, the reference reader of Mono's recordings, as a second opinion.

Two of its outputs can be compared event for event: `--debug` prints a line for most events, with absolute addresses,
times and names, and the statistics say how many events of each kind there are and how many bytes they have. Both are
sizes_by_name here again from what fxtio reads.

What it does wrong, by observation (Mono 6.8; 6.12 and 6.14.1 are the same):

- IMAGE_UNLOAD: from data version 16 on it reads a second string after the unloading of an image, and loses its way.
- EARLY_VTABLE: an object whose vtable is loaded later in the file stays unresolved, even for objects after the load.
- WIDE_ADDRESS: addresses of 32-bit programs are not cut to 32 bits.
- OLD_MONITOR: of data version 13 the monitor events' kinds are whatever memory holds.
- DOMAIN_THREAD: the loading and unloading of a domain are printed as those of a thread.
- UNLISTED: the statistics leave out names (0x02), roots registered and unregistered (0x46, 0x56), and monitor events up
  to data version 13.
- ENDLESS: some bytes make it run for ever; it always runs with a time limit.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fxtio.mono import records as r
from fxtio.mono.enums import ClauseKind, GcEventType, HandleType, LoadAction, MethodAction, MonitorEvent, NameAction
from fxtio.mono.layout import BUFFER_MARK
from fxtio.mono.reader import Entry, MonoTrace
from support.limits import PATIENCE

PROGRAM = shutil.which("mprof-report")
REQUIRED = bool(os.environ.get("FXTIO_REQUIRE_MONO"))

_GC = {
    GcEventType.START: "start", GcEventType.MARK_START: "mark start", GcEventType.MARK_END: "mark end",
    GcEventType.RECLAIM_START: "reclaim start", GcEventType.RECLAIM_END: "reclaim end", GcEventType.END: "end",
    GcEventType.PRE_STOP_WORLD: "pre stop", GcEventType.POST_STOP_WORLD: "post stop",
    GcEventType.PRE_START_WORLD: "pre start", GcEventType.POST_START_WORLD: "post start",
    GcEventType.PRE_STOP_WORLD_LOCKED: "pre stop lock", GcEventType.POST_START_WORLD_UNLOCKED: "post start unlock",
}  # fmt: skip
_HANDLES = {
    HandleType.WEAK: "weak", HandleType.WEAK_TRACK_RESURRECTION: "weaktrack", HandleType.NORMAL: "normal",
    HandleType.PINNED: "pinned",
}  # fmt: skip
_CLAUSES = {
    ClauseKind.CATCH: "catch",
    ClauseKind.FILTER: "filter",
    ClauseKind.FINALLY: "finally",
    ClauseKind.FAULT: "fault",
}
_MONITORS = {MonitorEvent.CONTENTION: "contended", MonitorEvent.ACQUIRED: "acquired", MonitorEvent.FAILED: "not taken"}
_CALLS = {MethodAction.ENTER: "enter", MethodAction.LEAVE: "leave", MethodAction.EXCEPTIONAL_LEAVE: "exleave"}
_CODE = (
    "method", "method trampoline", "unbox trampoline", "imt trampoline", "generics trampoline", "specific",
    "misc helper", "monitor/lock", "delegate invoke", "exception handling",
)  # fmt: skip
_ROOTS = {1: "stack", 2: "finalizer", 4: "handle", 8: "other", 16: "misc"}
_SYNC = ("periodic", "world stop", "world start")

_BYTES = {
    0x00: "TYPE_ALLOC_NO_BT", 0x10: "TYPE_ALLOC_BT", 0x11: "TYPE_GC_EVENT", 0x21: "TYPE_GC_RESIZE",
    0x31: "TYPE_GC_MOVE", 0x41: "TYPE_GC_HANDLE_CREATED", 0x51: "TYPE_GC_HANDLE_DESTROYED",
    0x61: "TYPE_GC_HANDLE_CREATED_BT", 0x71: "TYPE_GC_HANDLE_DESTROYED_BT", 0x81: "TYPE_GC_FINALIZE_START",
    0x91: "TYPE_GC_FINALIZE_END", 0xA1: "TYPE_GC_FINALIZE_OBJECT_START", 0xB1: "TYPE_GC_FINALIZE_OBJECT_END",
    0x22: "TYPE_END_LOAD", 0x42: "TYPE_END_UNLOAD", 0x13: "TYPE_LEAVE", 0x23: "TYPE_ENTER", 0x33: "TYPE_EXC_LEAVE",
    0x43: "TYPE_JIT", 0x04: "TYPE_THROW_NO_BT", 0x84: "TYPE_THROW_BT", 0x14: "TYPE_CLAUSE",
    0x05: "TYPE_MONITOR_NO_BT", 0x85: "TYPE_MONITOR_BT", 0x06: "TYPE_HEAP_START", 0x16: "TYPE_HEAP_END",
    0x26: "TYPE_HEAP_OBJECT", 0x36: "TYPE_HEAP_ROOT", 0x07: "TYPE_SAMPLE_HIT", 0x17: "TYPE_SAMPLE_USYM",
    0x27: "TYPE_SAMPLE_UBIN", 0x37: "TYPE_SAMPLE_COUNTERS_DESC", 0x47: "TYPE_SAMPLE_COUNTERS", 0x18: "TYPE_JITHELPER",
    0x09: "TYPE_COVERAGE_ASSEMBLY", 0x19: "TYPE_COVERAGE_METHOD", 0x29: "TYPE_COVERAGE_STATEMENT",
    0x39: "TYPE_COVERAGE_CLASS", 0x0A: "TYPE_SYNC_POINT", 0x1A: "TYPE_AOT_ID",
}  # fmt: skip

_ROW = re.compile(r"^\s*TYPE_\w+\s+(TYPE_\w+)\s+count\s+(\d+)\s+min\s+(\d+)\s+max\s+(\d+)\s+bytes (\d+)$", re.MULTILINE)

Stats = dict[str, tuple[int, int, int, int]]


def report(path: Path, *options: str) -> str:
    """Return what mprof-report prints about a recording; fail where it fails."""
    assert PROGRAM is not None
    done = subprocess.run(
        [PROGRAM, *options, str(path)],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        env=os.environ | {"TZ": "UTC"},
    )
    text = done.stdout.decode("utf-8", "surrogateescape")
    assert done.returncode == 0, f"exit status {done.returncode}: {text[-300:]}"
    return text


def stats_of(text: str) -> Stats:
    """Count, smallest, largest and total size of the events of each kind, as mprof-report prints them."""
    return {row[0]: (int(row[1]), int(row[2]), int(row[3]), int(row[4])) for row in _ROW.findall(text)}


def debug_of(text: str, *, wide: bool = True) -> list[str]:
    """Return the lines of the events; without `wide`, addresses are cut to 32 bits (WIDE_ADDRESS)."""
    text = text.partition("\nMlpd statistics")[0].partition("\nMono log profiler data")[0]
    lines = [line for line in text.splitlines() if not line.startswith("unmatched leave")]  # its own remark
    return lines if wide else [re.sub(r"0x[0-9a-f]{9,}", _cut, line) for line in lines]


def _cut(match: re.Match[str]) -> str:
    return pointer(int(match[0], 16) % (1 << 32))


def our_stats(trace: MonoTrace) -> Stats:
    """Return the same statistics as fxtio reads them (UNLISTED)."""
    sizes_by_name: dict[str, list[int]] = {}
    old = trace.info.header is not None and trace.info.header.data_version < 14
    for head, size in _sizes(trace):
        name = _BYTES.get(head)
        if name is not None and not (old and name.startswith("TYPE_MONITOR")):
            sizes_by_name.setdefault(name, []).append(size)
    return {name: (len(sizes), min(sizes), max(sizes), sum(sizes)) for name, sizes in sizes_by_name.items()}


def _sizes(trace: MonoTrace) -> Iterator[tuple[int, int]]:
    """Yield the first byte and the size of every event."""
    index = trace.index()
    blocks = (block for block in trace.raw_blocks() if block.startswith(BUFFER_MARK))
    for offset, block in zip(index["offset"].tolist(), blocks, strict=True):
        begins = [entry.offset - offset for entry in trace_entries(trace)[offset]]
        for begin, end in zip(begins, [*begins[1:], len(block)], strict=True):
            yield block[begin], end - begin


def trace_entries(trace: MonoTrace) -> dict[int, list[Entry]]:
    """Return the events of every buffer, by the offset of its header."""
    by_buffer: dict[int, list[Entry]] | None = getattr(trace, "entries_by_buffer", None)
    if by_buffer is None:
        index = trace.index()
        begins = index["offset"].tolist()
        ends = (index["offset"] + 48 + index["size"]).tolist()
        by_buffer = {begin: [] for begin in begins}
        place = 0
        for entry in trace.entries():
            while entry.offset >= ends[place]:
                place += 1
            by_buffer[begins[place]].append(entry)
        trace.entries_by_buffer = by_buffer  # type: ignore[attr-defined]
    return by_buffer


class Lines:
    """Writer of the lines that `mprof-report --debug` prints, from fxtio's events."""

    def __init__(self, trace: MonoTrace) -> None:
        self.trace = trace
        self.classes: dict[int, str] = {}
        self.vtables: dict[int, int] = {}
        self.pinned: set[int] = set()  # EARLY_VTABLE
        self.methods: dict[int, str] = {}
        assert trace.info.header is not None
        self.version = trace.info.header.data_version

    def all(self) -> Iterator[str]:
        """Return every line."""
        index = self.trace.index()
        entries = trace_entries(self.trace)
        columns = (index[name].tolist() for name in ("offset", "size", "time", "thread"))
        for offset, size, time, thread in zip(*columns, strict=True):
            yield f"buf: thread:{thread:x}, len: {size}, time: {time}, file offset: {offset + 48 - 48}"
            for entry in entries[offset]:
                yield from self.lines(entry)

    def lines(self, entry: Entry) -> Iterator[str]:
        event: Any = entry.record
        for line in getattr(self, type(event).__name__)(event, entry):
            yield from line.split("\n")  # a name may have several lines

    def type_name(self, event: Any) -> str:
        if self.version < 15:
            return self.classes.get(event.class_pointer, f"unresolved class {pointer(event.class_pointer)}")
        if event.vtable in self.pinned or event.vtable not in self.vtables:
            self.pinned.add(event.vtable)
            return "unresolved class (nil)"
        where = self.vtables[event.vtable]
        return self.classes.get(where, f"unresolved class {pointer(where)}")

    def method(self, address: int) -> str:
        return self.methods.get(address, f"unknown method {pointer(address)}")

    def Allocation(self, e: r.Allocation, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield f"alloced object {pointer(e.object)}, size {e.size} ({self.type_name(e)}) at {e.time}"

    def GcEvent(self, e: r.GcEvent, entry: Entry) -> Iterator[str]:  # noqa: N802
        where = f"{e.time} (thread: {entry.thread:#x})"
        yield f"gc event for gen{e.generation}: {_GC[GcEventType(e.event)]} at {where}"

    def GcResize(self, e: r.GcResize, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield f"gc heap resized to {e.size}"

    def GcMove(self, e: r.GcMove, entry: Entry) -> Iterator[str]:  # noqa: N802
        for old, new in zip(e.objects[::2], e.objects[1::2], strict=True):
            yield f"moved obj {pointer(old)} to {pointer(new)}"

    def HandleCreated(self, e: r.HandleCreated, entry: Entry) -> Iterator[str]:  # noqa: N802
        kind = _HANDLES[HandleType(e.handle_type)]
        yield f"handle ({kind}) {e.handle} created for object {pointer(e.object)}"

    def HandleDestroyed(self, e: r.HandleDestroyed, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield f"handle ({_HANDLES[HandleType(e.handle_type)]}) {e.handle} destroyed"

    def FinalizeStart(self, e: r.FinalizeStart, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield f"gc finalizer queue being processed at {e.time}"

    def FinalizeEnd(self, e: r.FinalizeEnd, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield f"gc finalizer queue finished processing at {e.time}"

    def FinalizeObjectStart(self, e: r.FinalizeObjectStart, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield f"gc finalizing object {pointer(e.object)} at {e.time}"

    def FinalizeObjectEnd(self, e: r.FinalizeObjectEnd, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield f"gc finalized object {pointer(e.object)} at {e.time}"

    def ClassLoad(self, e: r.ClassLoad, entry: Entry) -> Iterator[str]:  # noqa: N802
        self.classes[e.pointer] = e.name
        yield f"loaded class {pointer(e.pointer)} ({e.name} in {pointer(e.image)}) at {e.time}"

    def Image(self, e: r.Image, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield f"{_loaded(e.action)} image {pointer(e.pointer)} ({e.name}) at {e.time}"

    def Assembly(self, e: r.Assembly, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield f"{_loaded(e.action)} assembly {pointer(e.pointer)} ({e.name}) at {e.time}"

    def Domain(self, e: r.Domain, entry: Entry) -> Iterator[str]:  # noqa: N802
        # DOMAIN_THREAD
        yield _named("domain" if e.action == NameAction.NAME else "thread", e)

    def Thread(self, e: r.Thread, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield _named("thread", e)

    def Context(self, e: r.Context, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield f"{_loaded(e.action)} context {pointer(e.id)} ({pointer(e.domain)}) at {e.time}"

    def VtableLoad(self, e: r.VtableLoad, entry: Entry) -> Iterator[str]:  # noqa: N802
        self.vtables[e.pointer] = e.class_pointer
        where = f"{pointer(e.class_pointer)} in domain {pointer(e.domain)}"
        yield f"vtable {pointer(e.pointer)} for class {where} at {e.time}"

    def Call(self, e: r.Call, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield f"{_CALLS[MethodAction(e.action)]} method {self.method(e.method)}"

    def JitMethod(self, e: r.JitMethod, entry: Entry) -> Iterator[str]:  # noqa: N802
        self.methods[e.method] = e.name
        size = (e.size + (1 << 31)) % (1 << 32) - (1 << 31)  # it prints an int
        yield f"jitted method {pointer(e.method)} ({e.name}), size: {size}, code: {pointer(e.code)}"

    def Throw(self, e: r.Throw, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield f"throw {pointer(e.object)}"

    def Clause(self, e: r.Clause, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield f"clause {_CLAUSES[ClauseKind(e.kind)]} ({e.index}) in method {self.method(e.method)}"

    def Monitor(self, e: r.Monitor, entry: Entry) -> Iterator[str]:  # noqa: N802
        kind = "invalid" if self.version == 13 else _MONITORS[MonitorEvent(e.event)]  # OLD_MONITOR
        yield f"monitor {kind} for object {pointer(e.object)}"

    def HeapStart(self, e: r.HeapStart, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield "heap shot start"

    def HeapEnd(self, e: r.HeapEnd, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield "heap shot end"

    def HeapObject(self, e: r.HeapObject, entry: Entry) -> Iterator[str]:  # noqa: N802
        if e.size == 0:  # only adds references to an object before it
            return
        text = f"{pointer(e.object)}, size {e.size} ({self.type_name(e)}), refs: {len(e.references)}"
        yield f"traced object {text}"

    def HeapRoots(self, e: r.HeapRoots, entry: Entry) -> Iterator[str]:  # noqa: N802
        for root in e.roots:
            if root.address is not None:
                yield f"root object {pointer(root.object)} at address {pointer(root.address)}"
            else:
                yield f"object {pointer(root.object)} is a {_ROOTS.get((root.root_type or 0) & 0xFF, 'unknown')} root"

    def RootRegister(self, e: r.RootRegister, entry: Entry) -> Iterator[str]:  # noqa: N802
        text = f"{pointer(e.address)} size {e.size} type {e.source} key {pointer(e.key)} name {e.name}"
        yield f"root register address {text}"

    def RootUnregister(self, e: r.RootUnregister, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield f"root unregister address {pointer(e.address)}"

    def SampleHit(self, e: r.SampleHit, entry: Entry) -> Iterator[str]:  # noqa: N802
        thread = entry.thread if e.interrupted is None else e.interrupted
        for address in e.addresses:
            yield f"sample hit, type: {e.sample_type or 1} at {pointer(address)} for thread {pointer(thread)}"
        for number, frame in enumerate(e.frames or [located.method for located in e.located_frames or ()]):
            yield f"sample hit bt {number}: {self.method(frame)}"

    def NativeSymbol(self, e: r.NativeSymbol, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield f"unmanaged symbol {e.name} at {pointer(e.address)}"

    def NativeBinary(self, e: r.NativeBinary, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield f"unmanaged binary {e.name} at {pointer(e.address)}"

    def CounterDescriptions(self, e: r.CounterDescriptions, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield from ()

    CounterValues = CoverageAssembly = CoverageMethod = CoverageStatement = CoverageClass = CounterDescriptions

    def JitHelper(self, e: r.JitHelper, entry: Entry) -> Iterator[str]:  # noqa: N802
        kind = e.buffer_type if self.version >= 14 else e.buffer_type - 1
        name = e.name if e.name is not None else _CODE[kind]
        yield f"jit helper {name}, size: {e.size}, code: {pointer(e.address)}"

    def SyncPoint(self, e: r.SyncPoint, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield f"sync point {e.sync_type} ({_SYNC[e.sync_type]})"

    def AotId(self, e: r.AotId, entry: Entry) -> Iterator[str]:  # noqa: N802
        yield f"aot id {e.id}"


def pointer(address: int | None) -> str:
    """Format a pointer as C does."""
    return f"{address:#x}" if address else "(nil)"


def _loaded(action: int) -> str:
    return "loaded" if action == LoadAction.LOAD else "unloaded"


def _named(what: str, e: Any) -> str:
    if e.action == NameAction.NAME:
        return f"{what} {pointer(e.id)} named at {e.time}: {e.name}"
    return f"{_loaded(e.action)} {what} {pointer(e.id)} at {e.time}"
