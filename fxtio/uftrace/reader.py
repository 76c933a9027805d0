"""The reader of a data directory: a cheap summary, typed records, tables; all of them read block by block."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fxtio.codec.record import Opaque
from fxtio.errors import DecodeError, FormatError
from fxtio.finding import Findings
from fxtio.io.reading import Progress, TraceInfo, TraceReader
from fxtio.table import MAX_TIME, Table
from fxtio.uftrace import kernel, payloads, perf
from fxtio.uftrace.directory import MAX_WHOLE_FILE, Directory, StoredFile
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.events import EXTERN_FILE, NAMES_FILE, EventsFile, ExternFile, data_of, values_of
from fxtio.uftrace.frames import Chunk, TaskReader, empty_chunk
from fxtio.uftrace.info import INFO_FILE, InfoFile
from fxtio.uftrace.layout import RecordWord
from fxtio.uftrace.records import CLASSES, Event, FunctionEntry, FunctionExit, Lost, decode
from fxtio.uftrace.small_files import FILE_TABLES
from fxtio.uftrace.state import Function, Sessions
from fxtio.uftrace.symbols import DebugFile, MapFile, SymbolFile
from fxtio.uftrace.tables import RECORD_TABLES, Columns, RowCollector, TableBuilder
from fxtio.uftrace.tasks import BINARY, TEXT, BinaryTaskFile, TaskEvent, TaskFile
from fxtio.uftrace.values import addressed, meanings

T = TypeVar("T")

_FIELDS = RecordWord.fields
_DECODED_AT_ONCE = 4096
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAT = ".dat"


@dataclass(slots=True)
class Info(TraceInfo):
    """A summary of a trace; `size` counts the bytes of the `<tid>.dat` files.

    Attributes:
        byte_order: `little` or `big`.
        version: the version of the format.
        recorded_by: the version of uftrace that recorded the trace, or None if it is unknown.
        command: the command line that was traced, or None if it is unknown.
        recorded_at: the date of the recording as the trace has it (local time), or empty.
        tasks: the programs by task.
    """

    byte_order: str = "little"
    version: int = 4
    recorded_by: str | None = None
    command: str | None = None
    recorded_at: str = ""
    tasks: dict[int, str] = field(default_factory=dict)


class Entry(NamedTuple):
    """A record with its place, its time and its meaning.

    Attributes:
        offset: the byte offset in the file of the task.
        time: nanoseconds, at most 2**63 - 1, or None for lost records and for bytes that are not a record.
        record: the record.
        tid: the task.
        name: the name of the function or event, or None.
        function: the function, or None if it is unknown.
        values: the values in the payload by name, such as `arg1`, or None if they are unknown.
        meanings: the names of those values that are of an enumeration or addresses of functions and variables.
    """

    offset: int
    time: int | None
    record: Any
    tid: int
    name: str | None = None
    function: Function | None = None
    values: dict[str, Any] | None = None
    meanings: Mapping[str, str] = MappingProxyType({})


class UftraceTrace(TraceReader[Info]):
    """A data directory of uftrace.

    Args:
        target: the directory.
        strict: raise `DecodeError` at the first fault, instead of collecting findings.
        max_bytes: the largest number of bytes of `<tid>.dat` files to read.
        progress: called while reading with the bytes read so far and the bytes in all.

    Attributes:
        name: the path of the directory.
        directory: the files of the directory.
        info_file: the info file.

    Raises:
        FormatError: the directory is not one of uftrace.
        OSError: the directory cannot be read.
    """

    format = "uftrace"

    def __init__(
        self,
        target: str | os.PathLike[str],
        *,
        strict: bool = False,
        max_bytes: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(os.fspath(target), strict=strict, max_bytes=max_bytes, progress=progress)
        self.directory = Directory(target)
        self._position = 0
        self.info_file = self._read_info_file(Findings("uftrace"))  # every reading reports the findings

    def _read_info_file(self, findings: Findings) -> InfoFile:
        """Parse the info file; if it is damaged, or was not written before a crash, use defaults."""
        raw = self.directory.read(INFO_FILE, findings)
        try:
            InfoFile.parse(raw, Findings("uftrace"))
        except DecodeError as error:
            if not self._task_files() or not any(name in self.directory for name in (TEXT, BINARY)):
                raise FormatError(f"{self.name}: {error.message}") from None
            message = f"{error.message}; the trace is read without it"
            findings.add("info.header", 0, message, file=INFO_FILE)
            return InfoFile()
        return InfoFile.parse(raw, findings)  # in strict mode, a finding raises; the header does not

    @property
    def tids(self) -> list[int]:
        """Return the tasks with a file: first those that the info file lists, then the others."""
        tids = self._task_files()
        listed = [tid for tid in dict.fromkeys(self.info_file.tids) if tid in tids]
        return [*listed, *sorted(tids.difference(listed))]

    def _task_files(self) -> set[int]:
        """Return the tasks with a file."""
        stems = [name.removesuffix(_DAT) for name in self.directory.names if name.endswith(_DAT)]
        return {int(stem) for stem in stems if stem.isascii() and stem.isdigit() and str(int(stem[:18])) == stem}

    def records(self, *, resolve: bool = True, tid: int | None = None) -> Iterator[Any]:
        """Yield the records as typed objects, task by task.

        Bytes that are not a record are `Opaque`, so putting all records of a task with `UftraceWriter.put` copies its
        file.

        Args:
            resolve: without effect, since records refer to functions by address; `entries` gives names and values.
            tid: yield only the records of this task.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        for chunk in self.chunks(None if tid is None else [tid]):
            yield from _decoded(chunk)

    def entries(self, *, resolve: bool = True) -> Iterator[Entry]:
        """Yield the records with their places and meanings, task by task.

        Args:
            resolve: look up names and decode values.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        reading = self._begin()
        for chunk in self._chunks(reading):
            offsets = [chunk.base] if chunk.gap is not None else chunk.offsets().tolist()
            for offset, record in zip(offsets, _decoded(chunk), strict=True):
                time = None if isinstance(record, Opaque | Lost) else min(record.time, MAX_TIME)
                entry = Entry(offset, time, record, chunk.tid)
                yield self._resolved(entry, chunk, reading.events) if resolve else entry

    def _resolved(self, entry: Entry, chunk: Chunk, events: EventsFile) -> Entry:
        record = entry.record
        if isinstance(record, Event):
            values = self._event_values(record)
            names = addressed(values or {}, chunk.functions)
            return entry._replace(name=events.name(record.event), values=values, meanings=names)
        if not isinstance(record, FunctionEntry | FunctionExit):
            return entry
        function = chunk.functions.function_at(record.address)
        name = function.name if function is not None else f"<{record.address:x}>"
        entry = entry._replace(name=name, function=function)
        if record.payload is None or not chunk.has_specs:
            return entry
        specs = chunk.functions.specs_at(record.address, is_exit=isinstance(record, FunctionExit))
        if not specs:
            return entry
        decoded = payloads.decode(specs, record.payload, chunk.order)
        values = {spec.label: value for spec, value in zip(specs, decoded, strict=True)}
        return entry._replace(values=values, meanings=meanings(chunk.functions, specs, decoded, record.address))

    def _event_values(self, event: Event) -> dict[str, Any] | None:
        data = data_of(event.payload, self.info_file.order)
        values = values_of(event.event, data, self.info_file.order, self.info_file.pointer_size)
        return values or ({"data": data} if data else None)

    @property
    def table_names(self) -> tuple[str, ...]:
        """The names of the tables; every trace has all of them, some may be empty."""
        return (*RECORD_TABLES, *FILE_TABLES)

    def _read_tables(self, names: tuple[str, ...]) -> dict[str, Table]:
        reading = self._begin()
        of_records = [name for name in names if name in RECORD_TABLES]
        reading.quiet = bool(of_records)
        tables = self._record_tables(of_records, reading) if of_records else {}
        tables |= {name: Table(FILE_TABLES[name](reading)) for name in names if name in FILE_TABLES}
        return {name: tables[name] for name in names}

    def _record_tables(self, names: list[str], reading: _Reading) -> dict[str, Table]:
        builder, collector = self._builder(names, reading), RowCollector(names)
        total = self._total() or 1
        collector.add(builder.of_chunk(empty_chunk(reading.sessions.empty)))
        tid = None
        for chunk in self._chunks(reading):
            if tid is not None and chunk.tid != tid:
                collector.add(builder.finish(tid))
            tid = chunk.tid
            collector.add(builder.of_chunk(chunk), min(self._position / total, 1.0))
        if tid is not None:
            collector.add(builder.finish(tid))
        return collector.tables()

    def _read_batches(self, names: tuple[str, ...]) -> Iterator[dict[str, Table]]:
        """Yield batches; the tables of small files are whole in the first one, and empty in the others."""
        reading = self._begin()
        reading.quiet = any(name in RECORD_TABLES for name in names)
        of_files = {name: Table(FILE_TABLES[name](reading)) for name in names if name in FILE_TABLES}

        def batch(columns: dict[str, Columns]) -> dict[str, Table]:
            tables = of_files | {name: Table(part) for name, part in columns.items()}
            of_files.update({name: table.take(np.empty(0, np.int64)) for name, table in of_files.items()})
            return {name: tables[name] for name in names}

        is_first = True
        if len(of_files) < len(names):
            for columns in self._batch_columns(names, reading):
                is_first = False
                yield batch(columns)
        if is_first:
            empty = empty_chunk(reading.sessions.empty)
            yield batch(self._builder(list(names), reading).of_chunk(empty))

    def _batch_columns(self, names: tuple[str, ...], reading: _Reading) -> Iterator[dict[str, Columns]]:
        builder, tid = self._builder(list(names), reading), None
        empty = empty_chunk(reading.sessions.empty)
        for chunk in self._chunks(reading):
            if tid is not None and chunk.tid != tid:
                yield builder.of_chunk(empty) | builder.finish(tid)
            tid = chunk.tid
            builder.drop_unused_names()
            if columns := builder.of_chunk(chunk):
                yield columns
        if tid is not None:
            yield builder.of_chunk(empty) | builder.finish(tid)

    def _builder(self, names: list[str], reading: _Reading) -> TableBuilder:
        return TableBuilder(names, reading.events, self.info_file.pointer_size, reading.findings)

    def perf_events(self) -> Iterator[tuple[int, perf.PerfEvent]]:
        """Yield the scheduler events with the number of their CPU, file by file."""
        for cpu, block in self._begin().perf_blocks():
            for event in block.events():
                yield cpu, event

    def kernel_events(self) -> Iterator[tuple[int, kernel.KernelEvent]]:
        """Yield the kernel events with the number of their CPU, file by file."""
        return self._begin().kernel_events()

    def sessions(self) -> Sessions:
        """Return the sessions and tasks; `findings` are then their faults."""
        return self._begin().sessions

    def file(self, name: str) -> Any:
        """Return a file of the trace other than `<tid>.dat`, parsed, or `StoredFile` if it is unknown or damaged.

        `UftraceWriter.file` takes the result, and writes the same bytes.
        """
        stored = StoredFile(self.directory, name)
        if self.directory.size(name) > MAX_WHOLE_FILE:
            return stored
        ignored = Findings("uftrace")  # faults are in the bytes, which are returned as they are
        raw = self.directory.read(name, ignored)
        try:
            parsed = self._parsed(name, raw, ignored)
        except DecodeError:
            return stored
        return stored if parsed is None or parsed.to_bytes() != raw else parsed

    def _parsed(self, name: str, raw: bytes, findings: Findings) -> Any:
        """Parse a small file; return None if its format is unknown."""
        if name == BINARY:
            return BinaryTaskFile.parse(raw, self.info_file.order, findings)
        if name in _PARSERS:
            return _PARSERS[name](raw, findings)
        for suffix, parse in _SUFFIXES.items():
            if name.endswith(suffix):
                return parse(raw, name, findings)
        return None

    def _total(self) -> int:
        """Return the size of all `<tid>.dat` files in bytes."""
        return sum(self.directory.size(f"{tid}{_DAT}") for tid in self.tids)

    def chunks(self, tids: list[int] | None = None) -> Iterator[Chunk]:
        """Yield chunks of records, task by task; each is valid until the next one is requested.

        Args:
            tids: the tasks to read; None for all tasks.
        """
        return self._chunks(self._begin(), tids)

    def _begin(self) -> _Reading:
        """Begin a reading with no findings but those of the directory and the info file."""
        self._findings = findings = Findings("uftrace", strict=self._strict)
        self._position = 0
        self._read_info_file(findings)
        for other in self.directory.others:
            message = "this is not a regular file; it is not opened"
            findings.add("directory.not-a-file", 0, message, file=other)
        for tid in self.info_file.tids:
            if f"{tid}{_DAT}" not in self.directory:
                message = f"the info file lists the task {tid}, but there is no file {tid}{_DAT}"
                findings.add("directory.no-task-file", 0, message, file=INFO_FILE)
        return _Reading(self, findings)

    def _chunks(self, reading: _Reading, tids: list[int] | None = None) -> Iterator[Chunk]:
        findings, listed = reading.findings, frozenset(self.info_file.tids)
        _ = reading.events  # parsed for its findings, even if no name of an event is needed
        left, total = self._max_bytes, self._total()
        for tid in self.tids if tids is None else tids:
            name = f"{tid}{_DAT}"
            if tid not in listed:
                message = "the info file does not list this task"
                findings.add("info.unlisted-task", 0, message, file=name)
            size = self.directory.size(name)
            allowed = size if left is None else min(size, left)
            if allowed < size:
                findings.add("source.cut", allowed, f"more than the allowed {self._max_bytes:,} bytes", file=name)
            descriptor = self.directory.open(name)

            def progress(count: int) -> None:
                self._position += count
                if self._progress is not None:
                    self._progress(self._position, total)

            order = self.info_file.order
            yield from TaskReader(tid, name, descriptor, reading.sessions, order, findings, progress, allowed)
            left = None if left is None else left - allowed

    def _summarize(self) -> Info:
        file, reading = self.info_file, self._begin()
        info = Info(
            self.name, self.format, byte_order=file.order, version=file.version, recorded_by=file.recorded_by,
            command=file.get("cmdline"), recorded_at=file.get("record_date") or "",
        )  # fmt: skip
        counts: Counter[str] = Counter()
        for chunk in self._chunks(reading):
            if chunk.gap is not None:
                counts["Opaque"] += 1
                continue
            kinds = _FIELDS["type"].get(chunk.words).view(np.int64)
            numbers = np.bincount(kinds, minlength=len(RecordType)).tolist()
            counts.update({CLASSES[kind].__name__: number for kind, number in zip(RecordType, numbers, strict=True)})
            times = chunk.nanoseconds[kinds != RecordType.LOST]
            if len(times):
                first, last = int(times.min()), int(times.max())
                info.start = first if info.start is None else min(info.start, first)
                info.end = last if info.end is None else max(info.end, last)
        info.records = +counts
        info.size = self._position
        info.tasks = {tid: program for tid, _, program in reading.tasks()}
        if file.clock_origin is not None and info.start is not None:
            info.started_at = _wall_clock(file.clock_origin, info.start)
        return info


def _wall_clock(origin: int, start: int) -> datetime | None:
    """Return the date of a time in nanoseconds, given the Unix time in seconds of the time 0; None if out of range."""
    try:
        return _EPOCH + timedelta(seconds=origin, microseconds=start // 1000)
    except OverflowError:
        return None


class _Reading:
    """One reading of a trace: the small files, parsed when they are needed, and their findings.

    Args:
        trace: the trace.
        findings: receives faults.

    Attributes:
        quiet: whether the lists of symbols and modules report no faults, since those are reported where names are used.
    """

    def __init__(self, trace: UftraceTrace, findings: Findings) -> None:
        self.findings = findings
        self.quiet = False
        self._trace = trace
        self._directory = trace.directory

    @cached_property
    def sessions(self) -> Sessions:
        return Sessions(self._directory, self._trace.info_file, self.findings)

    @cached_property
    def events(self) -> EventsFile:
        return EventsFile.parse(self._directory.read(NAMES_FILE, self.findings), self.findings)

    def info(self) -> InfoFile:
        return self._trace.info_file

    def task_events(self) -> list[TaskEvent]:
        return self.sessions.file.events

    def maps(self) -> list[tuple[str, MapFile]]:
        files = self._listed(lambda name: name.startswith("sid-") and name.endswith(".map"), MapFile.parse)
        return [(name.removeprefix("sid-").removesuffix(".map"), file) for name, file in files]

    def symbol_files(self) -> list[tuple[str, SymbolFile]]:
        return self._listed(lambda name: name.endswith(".sym") or name == kernel.SYMBOLS_FILE, SymbolFile.parse)

    def debug_files(self) -> list[tuple[str, DebugFile]]:
        return self._listed(lambda name: name.endswith(".dbg"), DebugFile.parse)

    def _listed(
        self, is_meant: Callable[[str], bool], parse: Callable[[bytes, str, Findings], T]
    ) -> list[tuple[str, T]]:
        """Return the parsed files whose names are meant, with their names."""
        findings = Findings("uftrace") if self.quiet else self.findings
        names = filter(is_meant, self._directory.names)
        return [(name, parse(self._directory.read(name, findings), name, findings)) for name in names]

    def tasks(self) -> list[tuple[int, int, str]]:
        sessions = self.sessions
        return [(tid, sessions.process_of(tid), sessions.program_of(tid)) for tid in self._trace.tids]

    def perf_blocks(self) -> Iterator[tuple[int, perf.PerfBlock]]:
        for name in filter(perf.is_name, self._directory.names):
            blocks = self._directory.blocks(name)
            for block in perf.parse(blocks, name, self._trace.info_file.order, self.findings):
                yield perf.cpu_of(name), block

    def kernel_events(self) -> Iterator[tuple[int, kernel.KernelEvent]]:
        header = kernel.KernelHeader.parse(self._directory.read(kernel.HEADER_FILE, self.findings), self.findings)
        size = kernel.checked_page_size(header, self.findings)
        for name in filter(kernel.is_name, self._directory.names):
            for event in kernel.parse_pages(self._directory.blocks(name, size), header, name, self.findings):
                yield kernel.cpu_of(name), event

    @cached_property
    def kernel_events_by_time(self) -> list[tuple[int, kernel.KernelEvent]]:
        return sorted(self.kernel_events(), key=lambda item: item[1].time)

    @cached_property
    def _kernel_symbols(self) -> SymbolFile:
        raw = self._directory.read(kernel.SYMBOLS_FILE, self.findings)
        return SymbolFile.parse(raw, kernel.SYMBOLS_FILE, self.findings)

    def kernel_symbols(self) -> SymbolFile:
        return self._kernel_symbols

    def messages(self) -> list[tuple[int, str]]:
        return ExternFile.parse(self._directory.read(EXTERN_FILE, self.findings), self.findings).messages


ParsedFile = (
    InfoFile
    | TaskFile
    | BinaryTaskFile
    | kernel.KernelHeader
    | EventsFile
    | ExternFile
    | MapFile
    | SymbolFile
    | DebugFile
)
"""The classes of parsed files."""

_PARSERS: dict[str, Callable[[bytes, Findings], Any]] = {
    INFO_FILE: InfoFile.parse,
    TEXT: TaskFile.parse,
    kernel.HEADER_FILE: kernel.KernelHeader.parse,
    NAMES_FILE: EventsFile.parse,
    EXTERN_FILE: ExternFile.parse,
}
_SUFFIXES: dict[str, Callable[[bytes, str, Findings], Any]] = {
    ".map": MapFile.parse,
    ".sym": SymbolFile.parse,
    ".dbg": DebugFile.parse,
    kernel.SYMBOLS_FILE: SymbolFile.parse,
}


def _decoded(chunk: Chunk) -> Iterator[Any]:
    """Yield the records of a chunk as objects."""
    if chunk.gap is not None:
        yield Opaque(chunk.gap)
        return
    words, data = chunk.block.words, chunk.block.data
    for begin in range(0, len(chunk), _DECODED_AT_ONCE):
        places, sizes = chunk.at[begin : begin + _DECODED_AT_ONCE], chunk.size[begin : begin + _DECODED_AT_ONCE]
        first, last = int(places[0]), int(places[-1] + sizes[-1])
        integers, view = words[first:last].tolist(), data[first * 8 : last * 8]
        for at, size in zip((places - first).tolist(), sizes.tolist(), strict=True):
            yield decode(integers, view, at, at + size)
