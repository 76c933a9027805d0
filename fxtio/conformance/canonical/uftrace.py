"""Canonical JSON of uftrace directories."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fxtio.conformance.canonical.values import parsed_text, shown_text
from fxtio.errors import EncodeError
from fxtio.finding import Findings
from fxtio.uftrace.argspec import ValueSpecs
from fxtio.uftrace.events import EXTERN_FILE, NAMES_FILE, EventsFile, ExternFile, data_of
from fxtio.uftrace.frames import Chunk
from fxtio.uftrace.info import HEADER_SIZE, INFO_FILE
from fxtio.uftrace.reader import UftraceTrace, decoded
from fxtio.uftrace.records import Event, FunctionEntry, FunctionExit, Lost
from fxtio.uftrace.symbols import MapFile, SymbolFile
from fxtio.uftrace.task_writer import TaskWriter
from fxtio.uftrace.tasks import BINARY, TEXT, BinaryTaskFile, Dlopen, Fork, Session, Task, TaskFile
from fxtio.uftrace.writer import UftraceWriter

Json = dict[str, Any]

_MAP_NAME = ("sid-", ".map")
_SYMBOLS = ".sym"
_NULL = b"\xff\xff\xff\xff"
_SIGNED, _CHARACTER, _STRING, _FLOAT, _STRUCTURE = "signed", "character", "string", "float", "structure"
_TYPES = {
    "d": _SIGNED, "i": _SIGNED, "u": "unsigned", "x": "unsigned", "o": "unsigned", "c": _CHARACTER, "p": "pointer",
    "e": "enumeration", "f": _FLOAT, "s": _STRING, "S": _STRING, "t": _STRUCTURE,
}  # fmt: skip
_FORMATS = {_SIGNED: "i", "unsigned": "u", _CHARACTER: "c", "pointer": "p", _FLOAT: "", _STRING: "s", _STRUCTURE: "t"}
_TASK_TYPES: dict[type, str] = {Session: "session", Task: "task", Fork: "fork", Dlopen: "dlopen"}
_PERF_HEADER, _PERF_SAMPLE = 8, 16


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
    for event in events:
        shown: Json = {"type": _TASK_TYPES[type(event)]}
        fields = {"timestamp": event.time}
        fields |= {key: getattr(event, key) for key in ("tid", "pid", "ppid", "base") if hasattr(event, key)}
        shown |= {key: str(value) for key, value in fields.items()}
        shown |= {"sid": event.sid} if hasattr(event, "sid") else {}
        shown |= {key: shown_text(getattr(event, key)) for key in ("exename", "libname") if hasattr(event, key)}
        yield shown


def _small_files(trace: UftraceTrace) -> Iterator[Json]:
    ignored = Findings("uftrace")

    def read(name: str) -> bytes:
        return trace.directory.read(name, ignored)

    names = sorted(trace.directory.names)
    for name in names:
        if name.startswith(_MAP_NAME[0]) and name.endswith(_MAP_NAME[1]):
            sid = name.removeprefix(_MAP_NAME[0]).removesuffix(_MAP_NAME[1])
            for item in MapFile.parse(read(name), name, ignored).mappings:
                if item.path:
                    shown = {"type": "mapping", "sid": sid, "start": str(item.begin), "end": str(item.end)}
                    build_id = {"build_id": item.build_id} if item.build_id else {}
                    yield {**shown, "permissions": item.perms, "path": shown_text(item.path), **build_id}
    for name in names:
        if name.endswith(_SYMBOLS):
            for symbol in SymbolFile.parse(read(name), name, ignored).symbols:
                size = {} if symbol.size is None else {"size": str(symbol.size)}
                place = {"file": name, "address": str(symbol.address), **size}
                yield {"type": "symbol", **place, "symbol_type": symbol.type, "name": shown_text(symbol.name)}
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
        counted = {} if kind == _STRING else {"size": str(size)}
        result.append({"type": kind, "name": spec.label, **counted, "value": _value(kind, raw, order)})
    return result


def _value(kind: str, raw: bytes, order: Any) -> Any:
    if kind == _STRING:
        return None if raw == _NULL else shown_text(raw.decode("utf-8", "surrogateescape"))
    if kind == _STRUCTURE:
        return raw.hex()
    if kind == _FLOAT:
        return f"f{8 * len(raw)}:{(raw[::-1] if order == 'little' else raw).hex()}"
    return str(int.from_bytes(raw, order, signed=kind in (_SIGNED, _CHARACTER)))


def _kernel(trace: UftraceTrace) -> Iterator[Json]:
    for cpu, event in trace.kernel_events():
        place = {"cpu": str(cpu), "timestamp": str(event.time), "id": str(event.id)}
        yield {"type": "kernel-event", **place, "data": event.data.hex()}


def _perf(trace: UftraceTrace) -> Iterator[Json]:
    prefix = "<" if trace.info_file.order == "little" else ">"
    for cpu, event in trace.perf_events():
        kind, misc, size = struct.unpack_from(prefix + "IHH", event.raw)
        body = event.raw[_PERF_HEADER : size - _PERF_SAMPLE]
        pid, tid, time = struct.unpack_from(prefix + "IIQ", event.raw, size - _PERF_SAMPLE)
        numbers = {"cpu": cpu, "timestamp": time, "perf_type": kind, "misc": misc, "pid": pid, "tid": tid}
        yield {"type": "perf-event", **{key: str(value) for key, value in numbers.items()}, "data": body.hex()}


# ---------------------------------------------------------------------------------------------------------- writing


def write(records: Sequence[Json], path: Path) -> None:
    """Write a directory that contains these canonical records.

    Raises:
        EncodeError: the format cannot express a record.
        OSError: the directory cannot be written.
    """
    sessions = [record for record in records if record["type"] == "session"]
    program = parsed_text(sessions[0]["exename"]) if sessions else "/program"
    with UftraceWriter(path, program=program) as writer:
        _Scenario(writer, records).write()


class _Scenario:
    """The writing of one scenario: its declarations, and the tasks so far."""

    def __init__(self, writer: UftraceWriter, records: Sequence[Json]) -> None:
        self._writer, self._records = writer, records
        self._processes = {record["tid"]: int(record["pid"]) for record in records if record["type"] == "task"}
        self._tasks: dict[str, TaskWriter] = {}
        self._events = {item["id"]: parsed_text(item["name"]) for item in records if item["type"] == "event-name"}
        calls = [record for record in records if record["type"] in ("entry", "exit")]
        specs = {
            (record["type"], parsed_text(record["function"])): ",".join(map(_spec, record["arguments"]))
            for record in calls
            if record.get("arguments")
        }
        self._functions = {
            name: writer.function(name, arguments=specs.get(("entry", name), ""), returns=specs.get(("exit", name), ""))
            for name in dict.fromkeys(parsed_text(record["function"]) for record in calls)
        }

    def write(self) -> None:
        """Write all records."""
        for record in sorted(self._records, key=lambda record: record["type"] != "fork"):
            kind = record["type"]
            if kind == "message":
                self._writer.message(int(record["timestamp"]), parsed_text(record["message"]))
            elif kind == "fork":
                child = self._task(record["ppid"]).fork(int(record["pid"]), int(record["timestamp"]))
                self._tasks[record["pid"]] = child
            elif kind in ("entry", "exit", "event", "lost"):
                self._write(kind, self._task(record["tid"]), record)
            elif kind not in ("session", "task", "event-name"):
                raise EncodeError(f"records {kind!r} cannot be asked for", "type")

    def _task(self, tid: str) -> TaskWriter:
        if tid not in self._tasks:
            self._tasks[tid] = self._writer.task(int(tid), self._processes.get(tid))
        return self._tasks[tid]

    def _write(self, kind: str, task: TaskWriter, record: Json) -> None:
        time = int(record["timestamp"])
        values = [_parsed_value(item) for item in record.get("arguments", [])]
        if kind == "entry":
            task.enter(self._functions[parsed_text(record["function"])], time, *values)
        elif kind == "exit":
            task.leave(time, *values)
        elif kind == "lost":
            task.lost(int(record["count"]))
        else:
            data = bytes.fromhex(record["data"]) if "data" in record else None
            task.event(self._events.get(record["id"], int(record["id"])), time, data)


def _spec(item: Json) -> str:
    """Return the specification of an argument."""
    letter = _FORMATS[item["type"]]
    size = "" if item["type"] in (_STRING, "pointer", _CHARACTER) else int(item["size"])
    bits = size if item["type"] == _STRUCTURE or size == "" else 8 * int(size)
    return f"{item['name']}/{letter}{bits}"


def _parsed_value(item: Json) -> Any:
    """Return the value of an argument."""
    value = item["value"]
    if item["type"] == _STRING:
        return None if value is None else parsed_text(value)
    if item["type"] == _STRUCTURE:
        return bytes.fromhex(value)
    if item["type"] == _FLOAT:
        kind, _, bits = value.partition(":")
        number: float = struct.unpack(">f" if kind == "f32" else ">d", bytes.fromhex(bits))[0]
        return number
    return int(value)
