"""Write what fxtio reads in the form of `uftrace dump`, so that the two can be compared line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fxtio.codec.record import Opaque
from fxtio.uftrace import payloads
from fxtio.uftrace.argspec import ValueSpec, ValueSpecs, enum_label
from fxtio.uftrace.events import Message, data_of
from fxtio.uftrace.kernel import KernelEvent
from fxtio.uftrace.perf import PerfEvent
from fxtio.uftrace.reader import Entry, UftraceTrace
from fxtio.uftrace.records import Event, FunctionEntry, FunctionExit, Lost
from fxtio.uftrace.state import AddressSpace

NS = 1_000_000_000
_STAMP = re.compile(rb"^(\d+\.\d{9}) +(\d+): ", re.MULTILINE)


def reference(text: bytes) -> bytes:
    """Return the part of the output of uftrace that is compared, without the header and the banners."""
    body = text.partition(b"\nreading ")[2].replace(b" p: (nil)", b" p: 0")
    body = body.replace(b"\n*************************************\n* inverted time - data seems broken *\n", b"")
    body = body.replace(b"*************************************\n\n", b"")
    lines = [line for line in body.split(b"\n")[1:] if not line.startswith(b"reading ") and b": [lost ] " not in line]
    return _STAMP.sub(rb"\1 \2: ", b"\n".join(line for line in lines if line).rstrip(b"\n"))


def of_trace(trace: UftraceTrace) -> bytes:
    """Return what fxtio reads of a trace in the form of `reference`."""
    spaces = _Spaces(trace)
    parts = [part for entry in trace.entries() for part in _lines_of(trace, entry, spaces)]
    parts += list(_perf(trace))
    lines = b"\n".join(parts).split(b"\n")
    return b"\n".join(line for line in lines if line)


class _Spaces:
    """Looks up the functions of the epoch of a record, which entries do not have."""

    def __init__(self, trace: UftraceTrace) -> None:
        self._sessions = trace.begin().sessions
        self._epochs: dict[int, Any] = {}

    def at(self, tid: int, time: int) -> AddressSpace:
        epochs = self._epochs.setdefault(tid, self._sessions.epochs(tid))
        return self._sessions.address_space([epoch for epoch in epochs if epoch.begin <= time][-1])


def _line(tid: int, time: int, kind: str, name: str, number: int, depth: int) -> bytes:
    stamp = f"{time // NS}.{time % NS:09d} {tid}: [{kind}] "
    return f"{stamp}{name}({number:x}) depth: {depth}".encode("utf-8", "surrogateescape")


def _lines_of(trace: UftraceTrace, entry: Entry, spaces: _Spaces) -> Iterator[bytes]:
    record, order = entry.record, trace.info_file.order
    if isinstance(record, Opaque | PerfEvent | KernelEvent | Message):
        return
    assert entry.tid is not None
    time = record.time
    stamp = f"{time // NS}.{time % NS:09d} {entry.tid}: ".encode()
    if isinstance(record, Lost):
        return
    if isinstance(record, Event):
        assert entry.name is not None
        yield _line(entry.tid, time, "event", entry.name, record.event, record.depth)
        if record.payload is not None:
            data = data_of(record.payload, order)
            yield stamp + f"[data ] length = {len(data)}".encode()
            event_values = entry.values or {}
            yield f"  {entry.name}: {_event_text(entry.name, event_values)}".encode()
        return
    assert isinstance(record, FunctionEntry | FunctionExit) and entry.name is not None
    kind = "entry" if isinstance(record, FunctionEntry) else "exit "
    functions = spaces.at(entry.tid, time)
    yield _line(entry.tid, time, kind, entry.name, record.address, record.depth)
    if record.payload is None:
        return
    values = functions.specs_at(record.address, is_exit=isinstance(record, FunctionExit))
    size = _length(values, record.payload)
    yield stamp + f"[{'args ' if kind == 'entry' else 'retval'}] length = {size}".encode()
    for index, (value, raw) in enumerate(_raw_values(values, record.payload)):
        label = "  retval " if value.kind == "retval" else f"  args[{index}] "
        yield label.encode() + _value_text(value, raw, functions, record.address)


def _event_text(name: str, values: dict[str, Any]) -> str:
    unit = "KB" if name.endswith("statm") else ""
    if name == "callsite":
        return f"callsite={values['caller']:#x}"
    return " ".join(f"{key}={value % 2**64}{unit}" for key, value in values.items())


def _raw_values(values: ValueSpecs, payload: bytes) -> Iterator[tuple[ValueSpec, bytes]]:
    at = 0
    for value in values:
        size = value.size
        if value.is_text:
            size = int.from_bytes(payload[at : at + 2], "little")
            at += 2
        yield value, payload[at : at + size]
        at += size
        at += -at % 4


def _length(values: ValueSpecs, payload: bytes) -> int:
    """Return the size of a payload as uftrace counts it, without the padding at the end."""
    return sum((len(raw) + (2 if value.is_text else 0) + 3) // 4 * 4 for value, raw in _raw_values(values, payload))


def _value_text(value: ValueSpec, raw: bytes, functions: AddressSpace, address: int) -> bytes:
    if value.is_text:
        label = b"std::string: " if value.format == "S" else b"str: "
        return label + (b"NULL" if raw == payloads.NULL else raw)
    if value.format == "t":
        signs = [f"{byte:02x} {' ' * (at % 8 == 7)}" for at, byte in enumerate(raw)]
        shown = "".join("\n\t" + "".join(signs[at : at + 16]) for at in range(0, len(signs), 16))
        return f"struct {value.type}:{shown}".encode()
    if value.format == "e" and value.kind != "retval":
        number = int.from_bytes(raw, "little", signed=True)
        label_of = enum_label(functions.enum(functions.index(address), value.type), number)
        return f"enum {value.type}: {label_of} ({number})".encode()
    number = int.from_bytes(raw, "little")
    if value.format == "p":
        function = functions.function_at(number)
        if function is not None:
            return f"p: {number:x} (&{function.name})".encode()
        return f"p: {number:#x}".encode() if number else b"p: 0"
    return f"{value.format}{value.size * 8}: 0x{number:0{value.size * 2}x}".encode()


def _perf(trace: UftraceTrace) -> Iterator[bytes]:
    ids = {name: number for number, name in _SCHED.items()}
    for event in trace.records():
        if not isinstance(event, PerfEvent) or event.kind == "other" or event.tid not in trace.tids:
            continue
        kind = "task-name" if event.kind == "exec" else event.kind
        time = event.time
        stamp = f"{time // NS}.{time % NS:09d} {event.tid}: [event] "
        yield f"{stamp}linux:{kind}({ids[kind]})".encode()


_SCHED = {
    200001: "sched-in",
    200002: "sched-out",
    200004: "task-new",
    200005: "task-exit",
    200006: "task-name",
    200007: "sched-out (pre-empted)",
}
