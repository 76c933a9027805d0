"""`Mono.Profiler.Log`, the library that comes with Mono, as a second opinion on every value of every event.

`mono_log_dump.cs` prints the events as rows of tab-separated texts; the same rows are made here from fxtio's events.
The library knows data versions 13 to 17. What differs by its ways (Mono 6.8):

- offsets of references stay distances from each other; frames of samples are turned to the outermost first;
- what a version does not have is 0 or an empty list, and ids of modules are parsed;
- SIGNED: addresses and sizes are signed numbers, and methods of 32-bit programs are not cut to 32 bits. So negative
  numbers are compared as unsigned ones of the program's pointers.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fxtio.mono.enums import LoadAction, MethodAction, NameAction
from fxtio.mono.reader import Entry, MonoTrace
from support.limits import PATIENCE

NO_ID = "00000000-0000-0000-0000-000000000000"
_SOURCE = Path(__file__).with_name("mono_log_dump.cs")


@functools.cache
def compiled(folder: Path) -> Path:
    """Compile the program that prints events and return its path."""
    program = folder / "dump.exe"
    library = next(Path("/usr/lib/mono").rglob("Mono.Profiler.Log.dll"))
    shutil.copy(library, folder)
    subprocess.run(
        ["mcs", f"-r:{library}", f"-out:{program}", str(_SOURCE)], check=True, capture_output=True, timeout=PATIENCE
    )
    return program


def library_rows(path: Path, folder: Path, *, order: str = "file") -> list[str]:
    """Return the rows that the library gives for a program of 64 bits, in the order of the file or by time."""
    done = subprocess.run(
        ["mono", str(compiled(folder)), str(path), *(["sorted"] if order == "time" else [])],
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    return rows_of(done.stdout.decode("utf-8", "surrogateescape"), 8)


def rows_of(text: str, pointer_size: int) -> list[str]:
    """Return the rows of the events, without the totals at the end."""
    rows = [line for line in text.splitlines() if not line.startswith(("HEADER\t", "COUNT\t"))]
    return _unsigned(rows, pointer_size)


def our_rows(trace: MonoTrace) -> list[str]:
    """Return the rows as fxtio reads them."""
    header = trace.info.header
    assert header is not None
    rows = ["\t".join(_row(entry, header.data_version)) for entry in trace.entries()]
    return _unsigned(rows, header.pointer_size)


def _unsigned(rows: list[str], pointer_size: int) -> list[str]:
    """SIGNED"""
    return [re.sub(r"(?<=[=\[,])-\d+", lambda match: str(int(match[0]) % (1 << 8 * pointer_size)), row) for row in rows]


def _row(entry: Entry, version: int) -> Iterator[str]:
    event: Any = entry.record
    name, fields = _ROWS[type(event).__name__](event, version)
    yield name
    yield str(entry.time)
    yield str(entry.thread)
    yield "\t".join(f"{key}={_shown(value)}" for key, value in fields.items())


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, Id):
        return value.text.lower() if value.text else NO_ID
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}={_shown(item)}" for key, item in value.items()) + "}"
    if isinstance(value, float):
        return repr(value) if value % 1 else f"{value:.0f}"
    return str(value)


class Id:
    """The id of a module, printed without quotes."""

    def __init__(self, text: str | None) -> None:
        self.text = text


Row = tuple[str, dict[str, Any]]


def _typed(e: Any) -> dict[str, Any]:
    return {"ClassPointer": e.class_pointer or 0, "VTablePointer": e.vtable or 0}


def _allocation(e: Any, version: int) -> Row:
    fields = {**_typed(e), "ObjectPointer": e.object, "ObjectSize": e.size, "Backtrace": e.backtrace or ()}
    return "AllocationEvent", fields


def _moves(e: Any, version: int) -> Row:
    return "GCMoveEvent", {"OldObjectPointers": e.objects[::2], "NewObjectPointers": e.objects[1::2]}


def _created(e: Any, version: int) -> Row:
    fields = {"Type": e.handle_type, "Handle": e.handle, "ObjectPointer": e.object, "Backtrace": e.backtrace or ()}
    return "GCHandleCreationEvent", fields


def _destroyed(e: Any, version: int) -> Row:
    return "GCHandleDeletionEvent", {"Type": e.handle_type, "Handle": e.handle, "Backtrace": e.backtrace or ()}


def _image(e: Any, version: int) -> Row:
    if e.action == LoadAction.UNLOAD:
        return "ImageUnloadEvent", {"ImagePointer": e.pointer, "Name": e.name}
    return "ImageLoadEvent", {"ImagePointer": e.pointer, "Name": e.name, "ModuleVersionId": Id(e.mvid)}


def _assembly(e: Any, version: int) -> Row:
    name = f"Assembly{_happened(e.action)}Event"
    return name, {"AssemblyPointer": e.pointer, "ImagePointer": e.image or 0, "Name": e.name}


def _happened(action: int) -> str:
    return {NameAction.NAME: "Name", NameAction.LOAD: "Load", NameAction.UNLOAD: "Unload"}[NameAction(action)]


def _domain(e: Any, version: int) -> Row:
    named = {"Name": e.name} if e.action == NameAction.NAME else {}
    return f"AppDomain{_happened(e.action)}Event", {"AppDomainId": e.id, **named}


def _thread(e: Any, version: int) -> Row:
    name = {NameAction.NAME: "Name", NameAction.LOAD: "Start", NameAction.UNLOAD: "End"}[NameAction(e.action)]
    named = {"Name": e.name} if e.action == NameAction.NAME else {}
    return f"Thread{name}Event", {"ThreadId": e.id, **named}


def _call(e: Any, version: int) -> Row:
    names = {
        MethodAction.ENTER: "Enter",
        MethodAction.LEAVE: "Leave",
        MethodAction.EXCEPTIONAL_LEAVE: "ExceptionalLeave",
    }
    return f"{names[MethodAction(e.action)]}Event", {"MethodPointer": e.method}


def _clause(e: Any, version: int) -> Row:
    fields = {"Type": e.kind, "Index": e.index, "MethodPointer": e.method, "ObjectPointer": e.object or 0}
    return "ExceptionClauseEvent", fields


def _heap_object(e: Any, version: int) -> Row:
    references, last = [], 0
    for reference in e.references:
        references.append({"Offset": reference.field_offset - last, "ObjectPointer": reference.object})
        last = reference.field_offset
    fields = {"ObjectPointer": e.object, **_typed(e), "ObjectSize": e.size, "Generation": e.generation or 0}
    return "HeapObjectEvent", {**fields, "References": references}


def _heap_roots(e: Any, version: int) -> Row:
    roots = [
        {
            "SlotPointer": root.address or 0,
            "ObjectPointer": root.object,
            "Attributes": root.root_type or 0,
            "ExtraInfo": root.extra_info or 0,
        }
        for root in e.roots
    ]
    return "HeapRootsEvent", {"MaxGenerationCollectionCount": e.collections or 0, "Roots": roots}


def _register(e: Any, version: int) -> Row:
    fields = {"RootPointer": e.address, "RootSize": e.size, "Source": e.source, "Key": e.key, "Name": e.name}
    return "HeapRootRegisterEvent", fields


def _sample(e: Any, version: int) -> Row:
    fields = {"ThreadId": e.interrupted, "UnmanagedBacktrace": e.addresses, "ManagedBacktrace": e.frames[::-1]}
    return "SampleHitEvent", fields


def _binary(e: Any, version: int) -> Row:
    fields = {"SegmentPointer": e.address, "SegmentOffset": e.file_offset, "SegmentSize": e.size, "FileName": e.name}
    return "UnmanagedBinaryEvent", fields


def _descriptions(e: Any, version: int) -> Row:
    fields = [
        {
            "Section": counter.section, "SectionName": counter.category, "CounterName": counter.name,
            "Type": counter.type, "Unit": counter.unit, "Variance": counter.variance, "Index": counter.index,
        }
        for counter in e.counters
    ]  # fmt: skip
    return "CounterDescriptionsEvent", {"Descriptions": fields}


def _values(e: Any, version: int) -> Row:
    return "CounterSamplesEvent", {
        "Samples": [{"Index": value.index, "Type": value.type, "Value": value.value} for value in e.values]
    }


def _helper(e: Any, version: int) -> Row:
    kind = e.buffer_type - (version < 14)
    fields = {"Type": kind, "BufferPointer": e.address, "BufferSize": e.size, "Name": e.name}
    return "JitHelperEvent", fields


def _plain(name: str, **fields: str) -> Any:
    def row(e: Any, version: int) -> Row:
        return name, {key: getattr(e, field) for key, field in fields.items()}

    return row


_ROWS: dict[str, Any] = {
    "Allocation": _allocation,
    "GcEvent": _plain("GCEvent", Type="event", Generation="generation"),
    "GcResize": _plain("GCResizeEvent", NewSize="size"),
    "GcMove": _moves,
    "HandleCreated": _created,
    "HandleDestroyed": _destroyed,
    "FinalizeStart": _plain("GCFinalizeBeginEvent"),
    "FinalizeEnd": _plain("GCFinalizeEndEvent"),
    "FinalizeObjectStart": _plain("GCFinalizeObjectBeginEvent", ObjectPointer="object"),
    "FinalizeObjectEnd": _plain("GCFinalizeObjectEndEvent", ObjectPointer="object"),
    "ClassLoad": _plain("ClassLoadEvent", ClassPointer="pointer", ImagePointer="image", Name="name"),
    "Image": _image,
    "Assembly": _assembly,
    "Domain": _domain,
    "Thread": _thread,
    "Context": lambda e, v: (f"Context{_happened(e.action)}Event", {"ContextId": e.id, "AppDomainId": e.domain}),
    "VtableLoad": _plain(
        "VTableLoadEvent", VTablePointer="pointer", AppDomainId="domain", ClassPointer="class_pointer"
    ),
    "Call": _call,
    "JitMethod": _plain("JitEvent", MethodPointer="method", CodePointer="code", CodeSize="size", Name="name"),
    "Throw": lambda e, v: ("ThrowEvent", {"ObjectPointer": e.object, "Backtrace": e.backtrace or ()}),
    "Clause": _clause,
    "Monitor": lambda e, v: (
        "MonitorEvent",
        {"Event": e.event, "ObjectPointer": e.object, "Backtrace": e.backtrace or ()},
    ),
    "HeapStart": _plain("HeapBeginEvent"),
    "HeapEnd": _plain("HeapEndEvent"),
    "HeapObject": _heap_object,
    "HeapRoots": _heap_roots,
    "RootRegister": _register,
    "RootUnregister": _plain("HeapRootUnregisterEvent", RootPointer="address"),
    "SampleHit": _sample,
    "NativeSymbol": _plain("UnmanagedSymbolEvent", CodePointer="address", CodeSize="size", Name="name"),
    "NativeBinary": _binary,
    "CounterDescriptions": _descriptions,
    "CounterValues": _values,
    "JitHelper": _helper,
    "SyncPoint": _plain("SynchronizationPointEvent", Type="sync_type"),
    "AotId": lambda e, v: ("AotIdEvent", {"AotId": Id(e.id)}),
}
