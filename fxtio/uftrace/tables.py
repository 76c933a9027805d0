"""The tables of a trace as declarations, and how those of records are made from chunks; `small_files` makes others.

- Times are nanoseconds (int64), names are dictionary-encoded, and `record` is the number of a record in the whole
  trace, by which tables can be joined.  Tables of records come first, in the order of the files of the tasks.
- A function makes the columns of each record table from a chunk, in the order of the declaration.
- `args` and `structs` decode payloads, see `fxtio.uftrace.values`: one row for each value, in the order of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import DistinctStrings, number_distinct
from fxtio.finding import Findings
from fxtio.schema import ADDED, BYTES, OPTIONAL, REQUIRED, TEXT, ColumnSpec, TableSpec, writable_tables
from fxtio.table import Bytes, Categories, Column
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.events import ADDRESSES, EventsFile, data_of, values_of
from fxtio.uftrace.frames import Chunk
from fxtio.uftrace.layout import RecordWord
from fxtio.uftrace.pairing import STATES
from fxtio.uftrace.records import TYPES
from fxtio.uftrace.state import AddressSpace
from fxtio.uftrace.values import FORMATS, CombinedNames, payload_columns, structures, symbol_codes

Columns = dict[str, Column]
Values = tuple[Column, ...]

MAX_NAMES = 1 << 16
"""The number of names above which reading by batches drops the names that are not in use."""

MAX_ADDRESSES = 1 << 18
"""The largest number of addresses whose names are cached."""

_FIELDS = RecordWord.fields

_RECORD = ColumnSpec("int64", "the number of the record in the trace, counted over all tasks")
_TID = ColumnSpec("int64", "the task", REQUIRED)
_TIME = ColumnSpec("int64", "the time", REQUIRED)
_CPU = ColumnSpec("int64", "the processor", REQUIRED)
_OFFSET = ColumnSpec("int64", "the place in the file of the task, in bytes")
_NAME = ColumnSpec(TEXT, "the name", REQUIRED)
_PATH = ColumnSpec(TEXT, "the path of the module")
_BUILD_ID = ColumnSpec(TEXT, "the build id of the module")
_FILE = ColumnSpec(TEXT, "the name of the file")
_FUNCTION = ColumnSpec(TEXT, "the name of the function", REQUIRED)
_START = ColumnSpec("int64", "the time of the entry", REQUIRED)
_DURATION = ColumnSpec("int64", "the length", REQUIRED)
_DEPTH = ColumnSpec("int64", "the number of calls around it", REQUIRED)
_STATE = ColumnSpec(TEXT, "whether its entry and its exit were recorded", OPTIONAL, STATES)

SPECS: dict[str, TableSpec] = {
    "records": TableSpec(
        "Records of the tasks",
        {
            "record": _RECORD,
            "tid": _TID,
            "offset": _OFFSET,
            "type": ColumnSpec(TEXT, "the type of the record", REQUIRED, TYPES),
            "time": ColumnSpec("int64", "the time, 0 for `lost`", REQUIRED),
            "depth": ColumnSpec("int16", "the number of calls around it, modulo 1024", REQUIRED),
            "address": ColumnSpec("uint64", "the address; the id of an event, the count of lost records", REQUIRED),
            "name": ColumnSpec(TEXT, "the name of the function or event"),
            "payload": ColumnSpec(BYTES, "the bytes that follow the record", ADDED),
        },
    ),
    "slices": TableSpec(
        "Calls of functions, in any order",
        {
            "tid": _TID,
            "name": _FUNCTION,
            "start": _START,
            "duration": _DURATION,
            "depth": _DEPTH,
            "state": _STATE,
        },
        only_written=True,
    ),
    "args": TableSpec(
        "Values of arguments and results",
        {
            "record": _RECORD,
            "name": ColumnSpec(TEXT, "`arg1`, `fparg1`, `retval` and so on"),
            "format": ColumnSpec(TEXT, "the letter of the specification"),
            "size": ColumnSpec("int16", "the number of bytes, 0 for a string"),
            "bits": ColumnSpec("uint64", "a sign-extended integer, or the bits of a double"),
            "text": ColumnSpec(TEXT, "the value of a string"),
            "type": ColumnSpec(TEXT, "the name of the enumeration or structure"),
            "meaning": ColumnSpec(
                TEXT, "the name of the value of an enumeration; what a pointer of the format `p` points to"
            ),
        },
    ),
    "structs": TableSpec(
        "Values of structures",
        {
            "record": _RECORD,
            "name": ColumnSpec(TEXT, "the name of the argument"),
            "type": ColumnSpec(TEXT, "the name of the structure"),
            "bytes": ColumnSpec(BYTES, "the value"),
        },
    ),
    "payloads": TableSpec(
        "The bytes that follow records; only of records that have some",
        {"record": _RECORD, "payload": ColumnSpec(BYTES, "the bytes as they are")},
    ),
    "events": TableSpec(
        "Events of tasks",
        {
            "record": _RECORD,
            "tid": _TID,
            "time": _TIME,
            "id": ColumnSpec("uint64", "the id"),
            "name": _NAME,
            "data": ColumnSpec(BYTES, "the data", ADDED),
        },
    ),
    "event_values": TableSpec(
        "Values in the data of events",
        {
            "record": _RECORD,
            "name": ColumnSpec(TEXT, "the name"),
            "bits": ColumnSpec("uint64", 'the value; of a difference, `bits.view("int64")`'),
            "meaning": ColumnSpec(TEXT, "the function or variable at `address` and `caller`"),
        },
    ),
    "lost": TableSpec(
        "Places at which records were lost",
        {
            "record": _RECORD,
            "tid": _TID,
            "offset": _OFFSET,
            "count": ColumnSpec("uint64", "the number of lost records", REQUIRED),
        },
    ),
    "info": TableSpec(
        "The fields of the header of the file `info`, then its lines",
        {"key": ColumnSpec(TEXT, "the field"), "value": ColumnSpec(TEXT, "the value")},
    ),
    "tasks": TableSpec(
        "Tasks that have records",
        {
            "tid": ColumnSpec("int64", "the task"),
            "pid": ColumnSpec("int64", "its process"),
            "program": ColumnSpec(TEXT, "the path of its program"),
        },
    ),
    "task_events": TableSpec(
        "Lines of the file `task.txt`",
        {
            "time": ColumnSpec("int64", "the time"),
            "kind": ColumnSpec(TEXT, "`session`, `task`, `fork` or `library`"),
            "tid": ColumnSpec("int64", "the task"),
            "pid": ColumnSpec("int64?", "the process"),
            "parent": ColumnSpec("int64?", "the parent of a fork"),
            "sid": ColumnSpec(TEXT, "the session"),
            "path": ColumnSpec(TEXT, "the path of a program or library"),
            "address": ColumnSpec("uint64?", "the address of a library"),
        },
    ),
    "modules": TableSpec(
        "Lines of the memory maps of sessions",
        {
            "sid": ColumnSpec(TEXT, "the session"),
            "path": _PATH,
            "address": ColumnSpec("uint64", "the first address"),
            "end_address": ColumnSpec("uint64", "the address after the last one"),
            "perms": ColumnSpec(TEXT, "what may be done there, such as `r-xp`"),
            "file_offset": ColumnSpec("uint64", "the place in the file, in bytes"),
            "device": ColumnSpec(TEXT, "the device of the file"),
            "inode": ColumnSpec("uint64", "the inode of the file"),
            "build_id": _BUILD_ID,
        },
    ),
    "symbols": TableSpec(
        "Symbols",
        {
            "file": _FILE,
            "path": _PATH,
            "build_id": _BUILD_ID,
            "address": ColumnSpec("uint64", "the address from the base of the module"),
            "size": ColumnSpec("int64?", "the number of bytes, null if the file has no sizes"),
            "type": ColumnSpec(TEXT, "the letter of the type"),
            "name": ColumnSpec(TEXT, "the name"),
        },
    ),
    "debug_functions": TableSpec(
        "Functions of which debug files tell more",
        {
            "file": _FILE,
            "path": _PATH,
            "build_id": _BUILD_ID,
            "address": ColumnSpec("uint64", "the address from the base of the module"),
            "name": ColumnSpec(TEXT, "the name"),
            "arguments": ColumnSpec(TEXT, "the specification of the arguments"),
            "returns": ColumnSpec(TEXT, "the specification of the result"),
            "source": ColumnSpec(TEXT, "the source file"),
            "line": ColumnSpec("int64?", "the line in it"),
        },
    ),
    "enums": TableSpec(
        "Values of enumerations",
        {
            "file": _FILE,
            "name": ColumnSpec(TEXT, "the name of the enumeration", REQUIRED),
            "label": ColumnSpec(TEXT, "the name of the value", REQUIRED),
            "value": ColumnSpec("int64", "the value", REQUIRED),
        },
    ),
    "sched": TableSpec(
        "Scheduler events, by time",
        {
            "time": _TIME,
            "cpu": _CPU,
            "pid": ColumnSpec("int64", "the process", REQUIRED),
            "tid": _TID,
            "kind": ColumnSpec(TEXT, "`sched-in`, `sched-out`, `task-new` and so on", REQUIRED),
            "name": ColumnSpec(TEXT, "the new name of the task", OPTIONAL),
            "parent": ColumnSpec("int64?", "the parent of a new task, or of one that ends", OPTIONAL),
            "parent_pid": ColumnSpec("int64?", "the process of the parent", OPTIONAL),
        },
    ),
    "kernel": TableSpec(
        "Kernel events, by time",
        {
            "event": ColumnSpec("int64", "the row, counted over all batches"),
            "time": _TIME,
            "cpu": _CPU,
            "tid": _TID,
            "id": ColumnSpec("int64", "the id of the kind of event"),
            "name": ColumnSpec(TEXT, "the name with the subsystem, such as `sched:sched_switch`", REQUIRED),
            "address": ColumnSpec("uint64", "the address of a function that is entered or left"),
            "function": ColumnSpec(TEXT, "the name of this function"),
            "depth": ColumnSpec("int64", "the number of calls around it"),
            "missed": ColumnSpec("bool", "whether events before this one are missing", OPTIONAL),
            "data": ColumnSpec(BYTES, "the bytes of the event", REQUIRED),
        },
    ),
    "kernel_values": TableSpec(
        "Values of kernel events, without the fields that all events have",
        {
            "event": ColumnSpec("int64", "the row in `kernel`"),
            "name": ColumnSpec(TEXT, "the name of the field"),
            "bits": ColumnSpec("uint64", "the value of a number"),
            "text": ColumnSpec(TEXT, "the value of a text, null for a number"),
        },
    ),
    "kernel_slices": TableSpec(
        "Calls of functions of the kernel",
        {
            "tid": _TID,
            "cpu": _CPU,
            "name": _FUNCTION,
            "start": _START,
            "duration": _DURATION,
            "depth": _DEPTH,
            "address": ColumnSpec("uint64", "an address in the function"),
            "state": _STATE,
            "entry": ColumnSpec("int64", "the row of the entry in `kernel`, or -1"),
            "exit": ColumnSpec("int64", "the row of the exit in `kernel`, or -1"),
        },
    ),
    "messages": TableSpec(
        "Lines of the file `extern.dat`", {"time": _TIME, "text": ColumnSpec(TEXT, "the text", REQUIRED)}
    ),
}
"""The columns of all tables."""

WRITABLE = writable_tables(SPECS)
"""The tables that can be written."""


class FunctionCodes:
    """The codes of the names of functions and their modules, which are kept for the last addresses.

    Args:
        code: returns the code of the name of a function.
        module_code: returns that of the file name of a module; without it, modules have none.
    """

    def __init__(self, code: Callable[[str], int], module_code: Callable[[str], int] = lambda _: -1) -> None:
        self._code, self._module_code = code, module_code
        self._functions: AddressSpace | None = None
        self._code_of: dict[int, tuple[int, int]] = {}

    def codes(self, chunk: Chunk, addresses: Array) -> tuple[Array, Array]:
        """Return the codes of the names at addresses, and of the file names of their modules, -1 for none (int32)."""
        if chunk.functions is not self._functions or len(self._code_of) > MAX_ADDRESSES:
            self._functions, self._code_of = chunk.functions, {}
        number, first = number_distinct(addresses)
        pairs = [self._pair(chunk.functions, address) for address in addresses[first].tolist()]
        names, modules = np.array(pairs, np.int32).reshape(-1, 2).T
        return names[number], modules[number]

    def _pair(self, functions: AddressSpace, address: int) -> tuple[int, int]:
        pair = self._code_of.get(address)
        if pair is None:
            function = functions.function_at(address)
            module = "" if function is None else function.module.rpartition("/")[2]
            pair = self._code(functions.name_at(address)), self._module_code(module) if module else -1
            self._code_of[address] = pair
        return pair


class TableBuilder:
    """Makes record tables of the chunks of a reading.

    Args:
        names: the names of the tables.
        events: the names of events.
        pointer_size: the size in bytes of an address of the traced program.
        findings: receives faults.

    Attributes:
        names: the distinct texts.
        record: the number of the next record.
    """

    def __init__(self, names: Sequence[str], events: EventsFile, pointer_size: int, findings: Findings) -> None:
        self.names = DistinctStrings()
        self.record = 0
        self._tables = tuple(name for name in names if name in RECORD_TABLES)
        self._events = events
        self._pointer_size = pointer_size
        self._combined = CombinedNames(findings)
        self._functions = FunctionCodes(self.names.code)

    def drop_unused_names(self) -> None:
        """Forget all names if there are very many; codes of different batches then differ."""
        if len(self.names.values) <= MAX_NAMES and self.names.size <= MAX_NAMES * 64:
            return
        self.names = DistinctStrings()
        self._functions = FunctionCodes(self.names.code)

    def of_chunk(self, chunk: Chunk) -> dict[str, Columns]:
        """Return the tables of a chunk of records."""
        tables = {name: self.table(name, chunk) for name in self._tables}
        self.record += len(chunk)
        return tables

    def table(self, name: str, chunk: Chunk) -> Columns:
        """Return a table of a chunk."""
        return dict(zip(SPECS[name].read, RECORD_TABLES[name](self, chunk), strict=True))

    def records(self, chunk: Chunk) -> Values:
        """Return the columns of all records."""
        words = chunk.words
        kinds, address = _FIELDS["type"].get(words), _FIELDS["address"].get(words)
        name = np.full(len(chunk), -1, np.int32)
        calls = np.flatnonzero((kinds == RecordType.ENTRY) | (kinds == RecordType.EXIT))
        if len(calls):
            name[calls], _ = self._functions.codes(chunk, address[calls])
        events = np.flatnonzero(kinds == RecordType.EVENT)
        name[events] = [self.names.code(self._events.name(event)) for event in address[events].tolist()]
        return (
            np.arange(self.record, self.record + len(chunk)),
            np.full(len(chunk), chunk.tid),
            chunk.offsets(),
            Categories(kinds.astype(np.int8), TYPES),
            chunk.nanoseconds.copy(),
            _FIELDS["depth"].get(words).astype(np.int16),
            address,
            Categories(name, self.names.values),
        )

    def args(self, chunk: Chunk) -> Values:
        """Return the values of payloads."""
        values, code = payload_columns(chunk, self.names, self._combined), self.names.code
        labels = values.of_specs(lambda spec: code(spec.label), np.int32)
        types = values.of_specs(lambda spec: code(spec.type) if spec.type else -1, np.int32)
        names = self.names.values
        return (
            values.row + self.record,
            Categories(labels, names),
            Categories(values.of_specs(lambda spec: FORMATS.index(spec.format), np.int8), FORMATS),
            values.of_specs(lambda spec: spec.size, np.int16),
            values.bits,
            Categories(values.text, names),
            Categories(types, names),
            Categories(values.meaning, names),
        )

    def structs(self, chunk: Chunk) -> Values:
        """Return the structures in payloads."""
        rows, specs, data = [*zip(*structures(chunk), strict=True)] or ((), (), ())
        labels, types = self._texts([spec.label for spec in specs]), self._texts([spec.type for spec in specs])
        return np.array(rows, np.int64) + self.record, labels, types, Bytes(data)

    def payloads(self, chunk: Chunk) -> Values:
        """Return the payloads as they are."""
        rows = np.flatnonzero(_FIELDS["more"].get(chunk.words))
        return rows + self.record, Bytes(chunk.payloads(rows))

    def _texts(self, texts: Sequence[str | None]) -> Categories:
        codes = [-1 if text is None else self.names.code(text) for text in texts]
        return Categories(np.array(codes, np.int32), self.names.values)

    def events(self, chunk: Chunk) -> Values:
        """Return the events."""
        rows = _event_rows(chunk)
        ids = _FIELDS["address"].get(chunk.words[rows])
        names = np.array([self.names.code(self._events.name(event)) for event in ids.tolist()], np.int32)
        return (
            rows + self.record,
            np.full(len(rows), chunk.tid),
            chunk.nanoseconds[rows],
            ids,
            Categories(names, self.names.values),
        )

    def event_values(self, chunk: Chunk) -> Values:
        """Return the values in the data of events; there are few, so they are decoded one by one."""
        rows = _event_rows(chunk)
        values: list[tuple[int, str, int]] = []
        ids = _FIELDS["address"].get(chunk.words[rows]).tolist()
        for row, event, payload in zip(rows.tolist(), ids, chunk.payloads(rows), strict=True):
            data = data_of(payload or None, chunk.order)
            named = values_of(event, data, chunk.order, self._pointer_size)
            values += [(row, name, value) for name, value in named.items()]
        bits = np.array([value % 2**64 for _, _, value in values], np.uint64)
        meaning = np.full(len(values), -1, np.int32)
        of_address = [number for number, (_, name, _) in enumerate(values) if name in ADDRESSES]
        meaning[of_address] = symbol_codes(bits[of_address], chunk.functions, self.names)
        return (
            np.array([row for row, _, _ in values], np.int64) + self.record,
            self._texts([name for _, name, _ in values]),
            bits,
            Categories(meaning, self.names.values),
        )

    def lost(self, chunk: Chunk) -> Values:
        """Return the places at which records were lost."""
        rows = np.flatnonzero(_FIELDS["type"].get(chunk.words) == RecordType.LOST)
        return (
            rows + self.record,
            np.full(len(rows), chunk.tid),
            chunk.offsets()[rows],
            _FIELDS["address"].get(chunk.words[rows]),
        )


def _event_rows(chunk: Chunk) -> Array:
    return np.flatnonzero(_FIELDS["type"].get(chunk.words) == RecordType.EVENT)


RECORD_TABLES: dict[str, Callable[[TableBuilder, Chunk], Values]] = {
    "records": TableBuilder.records,
    "args": TableBuilder.args,
    "structs": TableBuilder.structs,
    "payloads": TableBuilder.payloads,
    "events": TableBuilder.events,
    "event_values": TableBuilder.event_values,
    "lost": TableBuilder.lost,
}
"""The tables of records, by name."""


def specs() -> dict[str, TableSpec]:
    """Return the columns of all tables."""
    return SPECS
