"""Records as JSON: for people, and in the canonical form, from which directories can be written.

A scenario that leaves the addresses to the producer is written with the writer of fxtio.  One that lists everything,
from the header of `info` to the symbols, is written file by file as it says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fxtio.codec.canonical import Json, described, parsed_record, parsed_text, plain, shown_record, shown_text, type_of
from fxtio.codec.generate import Order
from fxtio.codec.record import Opaque, Record
from fxtio.errors import EncodeError
from fxtio.finding import Findings
from fxtio.uftrace import payloads, perf
from fxtio.uftrace.argspec import ValueSpecs, checked_values
from fxtio.uftrace.declarations import NewFunction
from fxtio.uftrace.directory import text_file
from fxtio.uftrace.events import EXTERN_FILE, NAMES_FILE, Message, data_of, payload_of
from fxtio.uftrace.frames import Chunk
from fxtio.uftrace.info import HEADER_SIZE, INFO_FILE, InfoFile
from fxtio.uftrace.kernel import SYMBOLS_FILE, EventFormat, KernelEvent, parse_format
from fxtio.uftrace.layout import PERF_HEADER, PERF_SAMPLE, Feature, InfoBit
from fxtio.uftrace.perf import PerfEvent
from fxtio.uftrace.reader import Entry, UftraceTrace, decoded
from fxtio.uftrace.records import CLASSES, Event, FunctionEntry, FunctionExit, Lost, encode
from fxtio.uftrace.small_files import SmallFiles
from fxtio.uftrace.state import map_name
from fxtio.uftrace.symbols import Mapping, Symbol
from fxtio.uftrace.task_writer import TaskWriter
from fxtio.uftrace.tasks import TEXT, Dlopen, Fork, Session, Task, stamp
from fxtio.uftrace.writer import UftraceWriter

_TYPES = {
    "d": "signed", "i": "signed", "u": "unsigned", "x": "unsigned", "o": "unsigned", "c": "character", "p": "pointer",
    "e": "enumeration", "f": "float", "s": "string", "S": "string", "t": "structure",
}  # fmt: skip
"""The types of arguments in canonical JSON, by the letters of their formats."""

_FORMATS = {
    "signed": "i", "unsigned": "u", "character": "c", "pointer": "p", "enumeration": "e:any", "float": "",
    "string": "s", "structure": "t",
}  # fmt: skip
_WITHOUT_SIZE = ("string", "pointer", "character", "enumeration")
_MADE_UP = ("info", "info-line", "mapping", "symbol")
_TASK_EVENTS: dict[str, type[Any]] = {type_of(cls): cls for cls in (Session, Task, Fork, Dlopen)}
_RECORDS: dict[str, type[Any]] = {type_of(cls): cls for cls in CLASSES.values()}
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
        result.pop("timestamp", None)  # it is the time
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
    files = SmallFiles(trace.directory, trace.info_file, trace.tids, Findings("uftrace"))
    return [*_small_files(files), *_calls(trace), *_kernel(files), *_perf(files)]


def _small_files(files: SmallFiles) -> Iterator[Json]:
    info = files.info
    if files.directory.size(INFO_FILE) >= HEADER_SIZE:
        numbers = {"version": info.version, "endian": 1 if info.order == "little" else 2, "class": info.word_class}
        numbers |= {"feat_mask": info.features, "info_mask": info.blocks, "max_stack": info.max_stack}
        yield {"type": "info", **{key: str(int(value)) for key, value in numbers.items()}}
        for line in filter(None, info.lines):
            key, _, value = line.partition(":")
            yield {"type": "info-line", "key": key, "value": shown_text(value)}
    yield from map(shown_record, files.sessions.file.events)
    for sid, file in files.maps():
        for item in file.mappings:
            form = shown_record(item) | {"sid": sid}
            if not item.build_id:
                del form["build_id"]
            if item.path:
                yield form
    for name, symbols in files.symbol_files():
        if name != SYMBOLS_FILE:
            yield from (shown_record(symbol) | {"file": name} for symbol in symbols.symbols)
    for _, number, label in files.events.places:
        yield {"type": "event-name", "id": str(number), "name": shown_text(label)}
    for message in files.extern.messages:
        yield {"type": "message", "timestamp": str(message.time), "message": shown_text(message.text)}


def _calls(trace: UftraceTrace) -> Iterator[Json]:
    for chunk in trace.chunks():
        for record in decoded(chunk):
            if not isinstance(record, Opaque):
                yield shown_record(record) | {"tid": str(chunk.tid)} | _meaning(chunk, record)


def _meaning(chunk: Chunk, record: Any) -> Json:
    """Return what the form of a record has besides its fields: the data of an event, the function and values of a call.

    A payload without specification is left out.
    """
    payload = record.payload
    if isinstance(record, Event):
        return {} if payload is None else {"data": data_of(payload, chunk.order).hex()}
    if isinstance(record, Lost):
        return {}
    function = chunk.functions.function_at(record.address)
    result: Json = {"function": None if function is None else shown_text(function.name)}
    specs = chunk.functions.specs_at(record.address, is_exit=isinstance(record, FunctionExit))
    if payload is not None and chunk.has_specs and specs:
        result["arguments"] = _arguments(specs, payload, chunk.order)
    return result


def _arguments(specs: ValueSpecs, payload: bytes, order: Any) -> list[Json]:
    """Return the canonical arguments in a payload."""
    result: list[Json] = []
    for spec, raw in payloads.parts(specs, payload, order):
        kind = _TYPES[spec.format]
        counted = {} if kind == "string" else {"size": str(spec.size)}
        result.append({"type": kind, "name": spec.label, **counted, "value": _value(kind, raw, order)})
    return result


def _value(kind: str, raw: bytes, order: Any) -> Any:
    if kind == "string":
        return None if raw == payloads.NULL else shown_text(raw.decode("utf-8", "surrogateescape"))
    if kind == "structure":
        return raw.hex()
    if kind == "float":
        return f"f{8 * len(raw)}:{(raw[::-1] if order == 'little' else raw).hex()}"
    return str(int.from_bytes(raw, order, signed=kind in ("signed", "character")))


def _kernel(files: SmallFiles) -> Iterator[Json]:
    for _, event in files.kernel_events():
        place = {"cpu": str(event.cpu), "timestamp": str(event.time), "id": str(event.id)}
        yield {"type": "kernel-event", **place, "data": event.data.hex()}


def _perf(files: SmallFiles) -> Iterator[Json]:
    order = files.info.order
    for event in (event for _, block in files.perf_blocks() for event in block.events()):
        end = len(event.raw) - PERF_SAMPLE.itemsize
        (header,) = np.frombuffer(event.raw, PERF_HEADER.newbyteorder(order), 1).tolist()
        (sample,) = np.frombuffer(event.raw, PERF_SAMPLE.newbyteorder(order), 1, end).tolist()
        numbers = {"cpu": event.cpu, "timestamp": sample[2], "perf_type": header[0], "misc": header[1]}
        numbers |= {"pid": sample[0] % 2**32, "tid": sample[1] % 2**32}
        body = event.raw[PERF_HEADER.itemsize : end]
        yield {"type": "perf-event", **{key: str(value) for key, value in numbers.items()}, "data": body.hex()}


# ---- directories from the canonical form


def write(records: Sequence[Json], path: Path) -> None:
    """Write a directory that contains these canonical records.

    Raises:
        EncodeError: the format cannot express a record.
        OSError: the directory cannot be written.
    """
    if any(record["type"] in _MADE_UP for record in records):
        header = next(record for record in records if record["type"] == "info")
        _ExactScenario(header).write(records, path)
        return
    sessions = [record for record in records if record["type"] == "session"]
    program = parsed_text(sessions[0]["exename"]) if sessions else "/program"
    with UftraceWriter(path, program=program) as writer:
        _Scenario(writer, records, program).write()


class _Scenario:
    """The writing of one scenario in the order of time: its declarations, and the tasks and programs so far."""

    def __init__(self, writer: UftraceWriter, records: Sequence[Json], program: str) -> None:
        self._writer, self._records, self._program = writer, records, program
        self._processes = {record["tid"]: int(record["pid"]) for record in records if record["type"] == "task"}
        self._tasks: dict[str, TaskWriter] = {}
        self._programs: dict[int, str] = {}  # the program that each process runs
        self._events = {item["id"]: parsed_text(item["name"]) for item in records if item["type"] == "event-name"}
        self._layouts: dict[str, tuple[str, EventFormat]] = {}
        self._specs: dict[tuple[str, str], str] = {}
        self._functions: dict[tuple[str, str], NewFunction] = {}
        for record in records:
            if record["type"] in ("entry", "exit") and record.get("arguments"):
                specs = (self._spec(record, item) for item in record["arguments"])
                self._specs[record["type"], parsed_text(record["function"])] = ",".join(specs)

    def _spec(self, record: Json, item: Json) -> str:
        """Return the specification of an argument; the names of an enumeration and of its values are made up."""
        if item["type"] != "enumeration":
            return _spec(item)
        same = (
            other["value"]
            for call in self._records
            if call["type"] == record["type"] and call["function"] == record["function"]
            for other in call.get("arguments", [])
            if other["name"] == item["name"]
        )
        name = f"{parsed_text(record['function'])}_{item['name']}"
        self._writer.enum(name, {f"VALUE_{value}": int(value) for value in sorted(set(same))})
        return f"{item['name']}/e:{name}"

    def write(self) -> None:
        """Write all records."""
        for record in _in_order_of_time(self._records):
            kind = record["type"]
            if kind == "message":
                self._writer.message(int(record["timestamp"]), parsed_text(record["message"]))
            elif kind == "kernel-format":
                self._describe(record)
            elif kind == "kernel-event":
                self._writer.put(self._kernel_event(record))
            elif kind == "perf-event":
                (block,) = perf.parse([_perf_bytes(record, "little")], "", "little", Findings("uftrace"))
                for event in block.events():
                    self._writer.sched(int(record["cpu"]), event)
            elif kind in ("session", "fork", "dlopen"):
                self._write_process(kind, record)
            elif kind in ("entry", "exit", "event", "lost"):
                self._write(kind, self._task(record["tid"]), record)
            elif kind not in ("task", "event-name"):
                raise EncodeError(f"records {kind!r} cannot be asked for", "type")

    def _task(self, tid: str) -> TaskWriter:
        if tid not in self._tasks:
            self._tasks[tid] = self._writer.task(int(tid), self._processes.get(tid))
        return self._tasks[tid]

    def _write_process(self, kind: str, record: Json) -> None:
        """Write what happens to a process; a session of a process that runs already is an exec."""
        time = int(record["timestamp"])
        if kind == "fork":
            child, parent = int(record["pid"]), int(record["ppid"])
            self._tasks[record["pid"]] = self._task(record["ppid"]).fork(child, time)
            self._programs[child] = self._programs.get(parent, self._program)
        elif kind == "dlopen":
            self._task(record["tid"]).dlopen(parsed_text(record["libname"]), time)
        else:
            pid, program = int(record["pid"]), parsed_text(record["exename"])
            if pid in self._programs:
                self._task(record["pid"]).exec(program, time)
            self._programs[pid] = program

    def _function(self, record: Json, task: TaskWriter) -> NewFunction:
        """Return the function of a call, which is declared with its first call: its library must be loaded then."""
        name, program = parsed_text(record["function"]), self._programs.get(task.pid, self._program)
        module = parsed_text(record["module"]) if "module" in record else program
        if (module, name) not in self._functions:
            self._functions[module, name] = self._writer.function(
                name,
                arguments=self._specs.get(("entry", name), ""),
                returns=self._specs.get(("exit", name), ""),
                module="" if module == self._program else module,
            )
        return self._functions[module, name]

    def _write(self, kind: str, task: TaskWriter, record: Json) -> None:
        time = int(record["timestamp"])
        values = [_parsed_value(item) for item in record.get("arguments", [])]
        if kind == "entry":
            task.enter(self._function(record, task), time, *values)
        elif kind == "exit":
            task.leave(time, *values)
        elif kind == "lost":
            task.lost(int(record["count"]))
        else:
            task.event(self._events.get(record["id"], int(record["id"])), time, _data_of(record))

    def _describe(self, record: Json) -> None:
        """Describe an event of the kernel."""
        description = parsed_text(record["description"])
        self._writer.kernel_format(record["system"], description)
        layout = parse_format(description)
        assert layout is not None
        self._layouts[str(layout.id)] = record["system"], layout

    def _kernel_event(self, record: Json) -> KernelEvent:
        if record["id"] not in self._layouts:
            raise EncodeError(f"no record 'kernel-format' describes the event {record['id']}", "id")
        (system, layout), data = self._layouts[record["id"]], bytes.fromhex(record["data"])
        part = layout.fields["common_pid"]
        tid = int.from_bytes(data[part.offset : part.offset + part.size], "little")
        time, cpu = int(record["timestamp"]), int(record["cpu"])
        return KernelEvent(time, tid, layout.id, layout.name, {}, data, system=system, cpu=cpu)


def _in_order_of_time(records: Sequence[Json]) -> list[Json]:
    """Return records by time, those without a time first; lost records stay where they are in their task.

    A fork whose process begins at depth 0 comes first, so that this process inherits no open calls.
    """
    calls = [record for record in records if record["type"] in ("entry", "exit")]
    first = {record["tid"]: (record["type"], record["depth"]) for record in reversed(calls)}
    latest: defaultdict[str, int] = defaultdict(int)
    timed = []
    for record in records:
        kind, time = record["type"], int(record.get("timestamp", -1))
        if kind == "lost":
            time = latest[record["tid"]]
        elif kind == "fork" and first.get(record["pid"], ("entry", "0")) == ("entry", "0"):
            time = -1
        elif "tid" in record:
            latest[record["tid"]] = time
        timed.append((time, record))
    return [record for _, record in sorted(timed, key=lambda item: item[0])]


def _data_of(record: Json) -> bytes | None:
    return bytes.fromhex(record["data"]) if "data" in record else None


def _perf_bytes(record: Json, order: Order) -> bytes:
    """Return the bytes of a scheduler event."""
    data = bytes.fromhex(record["data"])
    size = PERF_HEADER.itemsize + len(data) + PERF_SAMPLE.itemsize
    header = np.array((int(record["perf_type"]), int(record["misc"]), size), PERF_HEADER)
    sample = np.array(tuple(int(record[key]) for key in ("pid", "tid", "timestamp")), PERF_SAMPLE)
    before, behind = (part.astype(part.dtype.newbyteorder(order)).tobytes() for part in (header, sample))
    return before + data + behind


def _spec(item: Json) -> str:
    """Return the specification of an argument that is no enumeration."""
    kind = item["type"]
    size = "" if kind in _WITHOUT_SIZE else int(item["size"])
    bits = size if kind == "structure" or size == "" else 8 * int(size)
    return f"{item['name']}/{_FORMATS[kind]}{bits}"


def _parsed_value(item: Json) -> Any:
    """Return the value of an argument."""
    kind, value = item["type"], item["value"]
    if kind == "string":
        return None if value is None else parsed_text(value)
    if kind == "structure":
        return bytes.fromhex(value)
    if kind == "float":
        return payloads.decode_float(bytes.fromhex(value.partition(":")[2]), "big")
    return int(value) % 256 if kind == "character" else int(value)


class _ExactScenario:
    """The files of a scenario that lists everything that the directory contains.

    Args:
        header: its record `info`.
    """

    def __init__(self, header: Json) -> None:
        self._header = header
        self._order: Order = "little" if header["endian"] == "1" else "big"

    def write(self, records: Sequence[Json], path: Path) -> None:
        """Write all files.

        Raises:
            EncodeError: a record cannot be asked for exactly.
        """
        files: defaultdict[str, bytearray] = defaultdict(bytearray, {TEXT: bytearray()})
        for record in records:
            name, raw = self._placed(record)
            files[name] += raw
        path.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (path / name).write_bytes(content)

    def _placed(self, record: Json) -> tuple[str, bytes]:
        """Return the name of the file that has a record, and its bytes there."""
        kind = record["type"]
        if kind in _LINES:
            name, line = _LINES[kind](record)
            return name, text_file([line])
        if kind in _TASK_EVENTS:
            return TEXT, text_file([parsed_record(_TASK_EVENTS[kind], record)])
        if kind in _RECORDS:
            payload = payload_of(_data_of(record), self._order)
            if "arguments" in record:
                payload = self._payload(record["arguments"])
            event = parsed_record(_RECORDS[kind], record, depth=0, payload=payload)
            return f"{record['tid']}.dat", encode(event, self._order)
        if kind == "perf-event":
            return f"perf-cpu{record['cpu']}.dat", _perf_bytes(record, self._order)
        if kind != "info":
            raise EncodeError(f"records {kind!r} cannot be asked for exactly", "type")
        numbers = {name: int(record[name]) for name in ("version", "class", "feat_mask", "info_mask", "max_stack")}
        info = InfoFile(numbers["version"], order=self._order, word_class=numbers["class"])
        info.features, info.blocks = Feature(numbers["feat_mask"]), InfoBit(numbers["info_mask"])
        info.max_stack = numbers["max_stack"]
        return INFO_FILE, info.to_bytes()

    def _payload(self, arguments: Sequence[Json]) -> bytes:
        specs = checked_values(",".join(map(_spec, arguments)), 4 if self._header["class"] == "1" else 8)
        return payloads.encode(specs, [_parsed_value(item) for item in arguments], self._order)


_LINES: dict[str, Callable[[Json], tuple[str, object]]] = {
    "info-line": lambda form: (INFO_FILE, f"{form['key']}:{parsed_text(form['value'])}"),
    "mapping": lambda form: (map_name(form["sid"]), parsed_record(Mapping, form)),
    "symbol": lambda form: (form["file"], parsed_record(Symbol, form)),
    "event-name": lambda form: (NAMES_FILE, f"EVENT: {form['id']} {parsed_text(form['name'])}"),
    "message": lambda form: (EXTERN_FILE, f"{stamp(int(form['timestamp']))} {parsed_text(form['message'])}"),
}
"""By the type of a record that is a line of text: what returns its file and the line."""
