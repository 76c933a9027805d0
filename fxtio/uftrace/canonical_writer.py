"""The writing of uftrace directories that scenarios ask for.

A scenario that leaves the addresses to the producer is written with the writer of fxtio.  One that lists everything,
from the header of `info` to the symbols, is written file by file as it says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fxtio.codec.canonical import Json, parsed_record, parsed_text, type_of
from fxtio.errors import EncodeError
from fxtio.finding import Findings
from fxtio.uftrace import payloads, perf, records
from fxtio.uftrace.argspec import checked_values
from fxtio.uftrace.declarations import NewFunction
from fxtio.uftrace.events import EXTERN_FILE, NAMES_FILE, EventsFile, ExternFile, Message, payload_of
from fxtio.uftrace.info import INFO_FILE, InfoFile
from fxtio.uftrace.kernel import EventFormat, KernelEvent, parse_format
from fxtio.uftrace.layout import PERF_HEADER, PERF_SAMPLE, Feature, InfoBit
from fxtio.uftrace.state import map_name
from fxtio.uftrace.symbols import MapFile, Mapping, Symbol
from fxtio.uftrace.task_writer import TaskWriter
from fxtio.uftrace.tasks import TEXT, Dlopen, Fork, Session, Task, TaskFile
from fxtio.uftrace.writer import UftraceWriter

Order = Literal["little", "big"]


class ArgumentType(StrEnum):
    """The types of arguments in canonical JSON."""

    SIGNED = "signed"
    UNSIGNED = "unsigned"
    CHARACTER = "character"
    POINTER = "pointer"
    ENUMERATION = "enumeration"
    FLOAT = "float"
    STRING = "string"
    STRUCTURE = "structure"


_FORMATS = {
    ArgumentType.SIGNED: "i", ArgumentType.UNSIGNED: "u", ArgumentType.CHARACTER: "c", ArgumentType.POINTER: "p",
    ArgumentType.ENUMERATION: "e:any", ArgumentType.FLOAT: "", ArgumentType.STRING: "s", ArgumentType.STRUCTURE: "t",
}  # fmt: skip
_WITHOUT_SIZE = (ArgumentType.STRING, ArgumentType.POINTER, ArgumentType.CHARACTER, ArgumentType.ENUMERATION)
_MADE_UP = ("info", "info-line", "mapping", "symbol")
_TASK_EVENTS: dict[str, type[Any]] = {type_of(cls): cls for cls in (Session, Task, Fork, Dlopen)}


def write(records: Sequence[Json], path: Path) -> None:
    """Write a directory that contains these canonical records.

    Raises:
        EncodeError: the format cannot express a record.
        OSError: the directory cannot be written.
    """
    if any(record["type"] in _MADE_UP for record in records):
        _ExactScenario(records).write(path)
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
        if item["type"] != ArgumentType.ENUMERATION:
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
                self._writer.sched(int(record["cpu"]), _perf_event(record))
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


def _perf_event(record: Json) -> perf.PerfEvent:
    """Return a scheduler event of a little-endian trace."""
    (event,) = next(iter(perf.parse([_perf_bytes(record, "little")], "", "little", Findings("uftrace")))).events()
    return event


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
    kind = ArgumentType(item["type"])
    size = "" if kind in _WITHOUT_SIZE else int(item["size"])
    bits = size if kind is ArgumentType.STRUCTURE or size == "" else 8 * int(size)
    return f"{item['name']}/{_FORMATS[kind]}{bits}"


def _parsed_value(item: Json) -> Any:
    """Return the value of an argument."""
    kind, value = ArgumentType(item["type"]), item["value"]
    if kind is ArgumentType.STRING:
        return None if value is None else parsed_text(value)
    if kind is ArgumentType.STRUCTURE:
        return bytes.fromhex(value)
    if kind is ArgumentType.FLOAT:
        return payloads.decode_float(bytes.fromhex(value.partition(":")[2]), "big")
    return int(value) % 256 if kind is ArgumentType.CHARACTER else int(value)


# ---------------------------------------------------------------------------------------------------- everything listed


class _ExactScenario:
    """The files of a scenario that lists everything that the directory contains."""

    def __init__(self, records: Sequence[Json]) -> None:
        self._by_type: defaultdict[str, list[Json]] = defaultdict(list)
        for record in records:
            self._by_type[record["type"]].append(record)
        self._records = records
        header = self._by_type["info"][0]
        self._order: Order = "little" if header["endian"] == "1" else "big"

    def write(self, path: Path) -> None:
        """Write all files.

        Raises:
            EncodeError: a record cannot be asked for exactly.
        """
        files = {INFO_FILE: self._info(), TEXT: self._tasks(), **self._modules(), **self._texts()}
        data: defaultdict[str, bytes] = defaultdict(bytes)
        for record in self._records:
            if record["type"] in ("entry", "exit", "lost", "event"):
                data[f"{record['tid']}.dat"] += records.encode(self._record(record), self._order)
            elif record["type"] == "perf-event":
                data[f"perf-cpu{record['cpu']}.dat"] += _perf_bytes(record, self._order)
            elif record["type"].startswith("kernel-"):
                raise EncodeError("events of the kernel cannot be asked for exactly", "type")
        path.mkdir(parents=True, exist_ok=True)
        for name, content in (files | data).items():
            (path / name).write_bytes(content)

    def _info(self) -> bytes:
        header = self._by_type["info"][0]
        info = InfoFile(int(header["version"]), order=self._order, word_class=int(header["class"]))
        info.features, info.blocks = Feature(int(header["feat_mask"])), InfoBit(int(header["info_mask"]))
        info.max_stack = int(header["max_stack"])
        info.lines = [f"{line['key']}:{parsed_text(line['value'])}" for line in self._by_type["info-line"]] + [""]
        return info.to_bytes()

    def _tasks(self) -> bytes:
        events = [
            parsed_record(_TASK_EVENTS[each["type"]], each) for each in self._records if each["type"] in _TASK_EVENTS
        ]
        return TaskFile.of(events).to_bytes()

    def _modules(self) -> dict[str, bytes]:
        """Return the maps and the symbol files."""
        maps: defaultdict[str, list[Mapping]] = defaultdict(list)
        for item in self._by_type["mapping"]:
            maps[map_name(item["sid"])].append(parsed_record(Mapping, item))
        symbols: defaultdict[str, bytes] = defaultdict(bytes)
        for item in self._by_type["symbol"]:
            symbols[item["file"]] += f"{parsed_record(Symbol, item)}\n".encode("utf-8", "surrogateescape")
        return symbols | {name: MapFile.of(mappings).to_bytes() for name, mappings in maps.items()}

    def _texts(self) -> dict[str, bytes]:
        """Return the files of names and messages that are needed."""
        files = {}
        if names := self._by_type["event-name"]:
            files[NAMES_FILE] = EventsFile.of({int(item["id"]): parsed_text(item["name"]) for item in names}).to_bytes()
        if messages := self._by_type["message"]:
            shown = [Message(int(item["timestamp"]), parsed_text(item["message"])) for item in messages]
            files[EXTERN_FILE] = ExternFile.of(shown).to_bytes()
        return files

    def _record(self, item: Json) -> Any:
        """Return a record of a task."""
        time = int(item["timestamp"])
        if item["type"] == "lost":
            return records.Lost(time, 0, int(item["count"]))
        if item["type"] == "event":
            return records.Event(time, 0, int(item["id"]), payload_of(_data_of(item), self._order))
        kind = records.FunctionEntry if item["type"] == "entry" else records.FunctionExit
        payload = self._payload(item["arguments"]) if "arguments" in item else None
        return kind(time, int(item["depth"]), int(item["address"]), payload)

    def _payload(self, arguments: Sequence[Json]) -> bytes:
        pointer_size = 4 if self._by_type["info"][0]["class"] == "1" else 8
        specs = checked_values(",".join(map(_spec, arguments)), pointer_size)
        return payloads.encode(specs, [_parsed_value(item) for item in arguments], self._order)
