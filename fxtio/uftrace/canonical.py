"""Records as JSON: for people, and in the canonical form.  `canonical_writer` writes directories from that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fxtio.codec.canonical import Json, described, plain, shown_record, shown_text, type_of
from fxtio.codec.record import Opaque, Record
from fxtio.finding import Findings
from fxtio.uftrace.argspec import ValueSpecs
from fxtio.uftrace.canonical_writer import ArgumentType, write
from fxtio.uftrace.events import EXTERN_FILE, NAMES_FILE, EventsFile, ExternFile, Message, data_of
from fxtio.uftrace.frames import Chunk
from fxtio.uftrace.info import HEADER_SIZE, INFO_FILE
from fxtio.uftrace.kernel import KernelEvent
from fxtio.uftrace.layout import PERF_HEADER, PERF_SAMPLE
from fxtio.uftrace.perf import PerfEvent
from fxtio.uftrace.reader import Entry, UftraceTrace, decoded
from fxtio.uftrace.records import Event, FunctionEntry, FunctionExit, Lost
from fxtio.uftrace.symbols import MapFile, SymbolFile
from fxtio.uftrace.tasks import BINARY, TEXT, BinaryTaskFile, TaskFile

_MAP_NAME = ("sid-", ".map")
_SYMBOLS = ".sym"
_NULL = b"\xff\xff\xff\xff"
_TYPES = {
    "d": ArgumentType.SIGNED, "i": ArgumentType.SIGNED, "u": ArgumentType.UNSIGNED, "x": ArgumentType.UNSIGNED,
    "o": ArgumentType.UNSIGNED, "c": ArgumentType.CHARACTER, "p": ArgumentType.POINTER, "e": ArgumentType.ENUMERATION,
    "f": ArgumentType.FLOAT, "s": ArgumentType.STRING, "S": ArgumentType.STRING, "t": ArgumentType.STRUCTURE,
}  # fmt: skip
_OTHER_TYPES: dict[type, str] = {KernelEvent: "kernel-event", PerfEvent: "perf-event", Message: "message"}

__all__ = ["bytes_of", "json_objects", "records", "write"]


# ---- the form for people


def json_objects(entries: Sequence[Entry]) -> list[Json]:
    """Return records as JSON objects for people.

    Each has `offset` (in its file), `type`, `time` and `tid`, then its function and values, then its fields.
    """
    return [*map(_described, entries)]


def _described(entry: Entry) -> Json:
    record = entry.record
    kind = _OTHER_TYPES.get(type(record)) or type_of(type(record))
    result: Json = {"offset": entry.offset, "type": kind, "time": entry.time, "tid": entry.tid}
    is_call = isinstance(record, FunctionEntry | FunctionExit)
    if entry.name is not None:
        result["function" if is_call else "name"] = entry.name
    if entry.function is not None:
        result["module"] = entry.function.module
    if entry.values is not None:
        result["values"] = {name: plain(value) for name, value in entry.values.items()}
    if entry.meanings:
        result["meanings"] = dict(entry.meanings)
    if isinstance(record, Record | Opaque):
        result = described(record, result)
        if entry.values is not None:
            result.pop("payload", None)
        return result
    if isinstance(record, Message):
        return result | {"message": record.text}
    if isinstance(record, PerfEvent):
        result |= {"cpu": entry.cpu, "pid": record.pid, "kind": record.kind}
    else:
        result |= {"cpu": entry.cpu, "id": record.id, "missed": record.missed}
    name, raw = bytes_of(record)
    return result if entry.values is not None or raw is None else result | {name: raw.hex()}


def bytes_of(record: Any) -> tuple[str, bytes | None]:
    """Return the name and the bytes of what is shown of a record if its values are unknown."""
    if isinstance(record, PerfEvent):
        return "raw", record.raw if record.kind == "other" else None
    return ("data", record.data) if isinstance(record, KernelEvent) else ("payload", record.payload)


# ---- the canonical form


def records(trace: UftraceTrace) -> list[Json]:
    """Return the canonical records of a directory.

    Raises:
        OSError: a file cannot be read.
    """
    return [*_info(trace), *_tasks(trace), *_small_files(trace), *_calls(trace), *_kernel(trace), *_perf(trace)]


def _info(trace: UftraceTrace) -> Iterator[Json]:
    info = trace.info_file
    if trace.directory.size(INFO_FILE) >= HEADER_SIZE:
        numbers = {"version": info.version, "endian": 1 if info.order == "little" else 2, "class": info.word_class}
        numbers |= {"feat_mask": info.features, "info_mask": info.blocks, "max_stack": info.max_stack}
        yield {"type": "info", **{key: str(int(value)) for key, value in numbers.items()}}
        for line in filter(None, info.lines):
            key, _, value = line.partition(":")
            yield {"type": "info-line", "key": key, "value": shown_text(value)}


def _tasks(trace: UftraceTrace) -> Iterator[Json]:
    ignored = Findings("uftrace")
    events: Any
    if TEXT in trace.directory:
        events = TaskFile.parse(trace.directory.read(TEXT, ignored), ignored).events
    else:
        raw = trace.directory.read(BINARY, ignored)
        events = BinaryTaskFile.parse(raw, trace.info_file.order, ignored).events if raw else ()
    yield from map(shown_record, events)


def _small_files(trace: UftraceTrace) -> Iterator[Json]:
    ignored = Findings("uftrace")

    def read(name: str) -> bytes:
        return trace.directory.read(name, ignored)

    names = sorted(trace.directory.names)
    for name in names:
        if name.startswith(_MAP_NAME[0]) and name.endswith(_MAP_NAME[1]):
            sid = name.removeprefix(_MAP_NAME[0]).removesuffix(_MAP_NAME[1])
            for item in MapFile.parse(read(name), name, ignored).mappings:
                form = shown_record(item) | {"sid": sid}
                if not item.build_id:
                    del form["build_id"]
                if item.path:
                    yield form
    for name in names:
        if name.endswith(_SYMBOLS):
            for symbol in SymbolFile.parse(read(name), name, ignored).symbols:
                yield shown_record(symbol) | {"file": name}
    for _, number, label in EventsFile.parse(read(NAMES_FILE), ignored).places:
        yield {"type": "event-name", "id": str(number), "name": shown_text(label)}
    for message in ExternFile.parse(read(EXTERN_FILE), ignored).messages:
        yield {"type": "message", "timestamp": str(message.time), "message": shown_text(message.text)}


def _calls(trace: UftraceTrace) -> Iterator[Json]:
    for chunk in trace.chunks():
        for record in decoded(chunk):
            place = {"tid": str(chunk.tid)}
            if isinstance(record, Lost):
                yield {"type": "lost", **place, "timestamp": str(record.time), "count": str(record.count)}
            elif isinstance(record, Event):
                data = {"data": data_of(record.payload, chunk.order).hex()} if record.payload is not None else {}
                yield {"type": "event", **place, "timestamp": str(record.time), "id": str(record.event), **data}
            elif isinstance(record, FunctionEntry | FunctionExit):
                yield _call(chunk, record, place)


def _call(chunk: Chunk, record: FunctionEntry | FunctionExit, place: Json) -> Json:
    function = chunk.functions.function_at(record.address)
    is_exit = isinstance(record, FunctionExit)
    place |= {"timestamp": str(record.time), "depth": str(record.depth), "address": str(record.address)}
    name = None if function is None else shown_text(function.name)
    shown = {"type": "exit" if is_exit else "entry", **place, "function": name}
    if record.payload is not None and chunk.has_specs:
        specs = chunk.functions.specs_at(record.address, is_exit=is_exit)
        shown |= {"arguments": _arguments(specs, record.payload, chunk.order)} if specs else {}
    return shown


def _arguments(specs: ValueSpecs, payload: bytes, order: Any) -> list[Json]:
    """Return the canonical arguments in a payload."""
    result: list[Json] = []
    at = 0
    for spec in specs:
        kind, start, size = _TYPES[spec.format], at, spec.size
        if spec.is_text:
            size = int.from_bytes(payload[at : at + 2], order)
            start += 2
        raw = payload[start : start + size]
        at = start + size + -(start + size) % 4
        counted = {} if kind is ArgumentType.STRING else {"size": str(size)}
        result.append({"type": str(kind), "name": spec.label, **counted, "value": _value(kind, raw, order)})
    return result


def _value(kind: ArgumentType, raw: bytes, order: Any) -> Any:
    if kind is ArgumentType.STRING:
        return None if raw == _NULL else shown_text(raw.decode("utf-8", "surrogateescape"))
    if kind is ArgumentType.STRUCTURE:
        return raw.hex()
    if kind is ArgumentType.FLOAT:
        return f"f{8 * len(raw)}:{(raw[::-1] if order == 'little' else raw).hex()}"
    return str(int.from_bytes(raw, order, signed=kind in (ArgumentType.SIGNED, ArgumentType.CHARACTER)))


def _kernel(trace: UftraceTrace) -> Iterator[Json]:
    for cpu, event in trace.kernel_events():
        place = {"cpu": str(cpu), "timestamp": str(event.time), "id": str(event.id)}
        yield {"type": "kernel-event", **place, "data": event.data.hex()}


def _perf(trace: UftraceTrace) -> Iterator[Json]:
    order = trace.info_file.order
    for cpu, event in trace.perf_events():
        end = len(event.raw) - PERF_SAMPLE.itemsize
        (header,) = np.frombuffer(event.raw, PERF_HEADER.newbyteorder(order), 1).tolist()
        (sample,) = np.frombuffer(event.raw, PERF_SAMPLE.newbyteorder(order), 1, end).tolist()
        numbers = {"cpu": cpu, "timestamp": sample[2], "perf_type": header[0], "misc": header[1]}
        numbers |= {"pid": sample[0] % 2**32, "tid": sample[1] % 2**32}
        body = event.raw[PERF_HEADER.itemsize : end]
        yield {"type": "perf-event", **{key: str(value) for key, value in numbers.items()}, "data": body.hex()}
