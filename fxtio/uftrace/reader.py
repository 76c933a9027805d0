"""The reader of a data directory: a cheap summary, typed records, tables; all of them read block by block."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fxtio.codec.record import Opaque
from fxtio.display import MAX_ROWS
from fxtio.errors import DecodeError, FormatError
from fxtio.finding import Findings
from fxtio.io.reading import Progress, TraceInfo, pairs_of
from fxtio.readers import TraceReader
from fxtio.report import ReportTable
from fxtio.schema import readable_tables
from fxtio.table import MAX_TIME, GrowingTable, Table, saturated
from fxtio.uftrace import kernel, payloads, perf
from fxtio.uftrace.directory import Directory, StoredFile
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.events import EXTERN_FILE, EventsFile, Message, data_of, values_of
from fxtio.uftrace.frames import Chunk, TaskReader, empty_chunk
from fxtio.uftrace.info import INFO_FILE, InfoFile
from fxtio.uftrace.layout import RecordWord
from fxtio.uftrace.records import CLASSES, Event, FunctionEntry, FunctionExit, Lost, decode
from fxtio.uftrace.small_files import FILE_TABLES, SmallFiles
from fxtio.uftrace.state import Function
from fxtio.uftrace.tables import RECORD_TABLES, SPECS, TableBuilder
from fxtio.uftrace.tasks import BINARY, TEXT
from fxtio.uftrace.values import addressed, meanings

_FIELDS = RecordWord.fields
_DECODED_AT_ONCE = 4096
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
    tasks: dict[int, str] = field(default_factory=dict, metadata=pairs_of("tid", "program"))

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "format", f"{self.format} {self.version}, {self.byte_order}-endian"
        if self.recorded_by:
            yield "recorded by", f"uftrace {self.recorded_by}"
        if self.command:
            yield "command", self.command
        if self.recorded_at:
            yield "recorded at", self.recorded_at
        if self.started_at is not None:
            yield "started at", self.started_at.isoformat(" ", "milliseconds")
        yield "size", self._size_text()
        yield "records", f"{self.records.total():,}"
        yield from self._duration()

    def _report_tables(self) -> Iterator[ReportTable]:
        yield from TraceInfo._report_tables(self)  # a dataclass with slots is another class than `super` would know
        shown = [(str(tid), name) for tid, name in islice(self.tasks.items(), MAX_ROWS)]
        yield ReportTable([">task", "program"], shown, len(self.tasks) - len(shown))


class Entry(NamedTuple):
    """A record with its place, its time and its meaning.

    Attributes:
        offset: the byte offset in the file.
        time: nanoseconds, at most 2**63 - 1, or None for lost records and for bytes that are not a record.
        record: the record.
        tid: the task, or None for a message.
        name: the name of the function or event, or None.
        function: the function, or None if it is unknown.
        values: the values in the payload by name, such as `arg1`, or None if they are unknown.
        meanings: the names of those values that are of an enumeration or addresses of functions and variables.
        file: the name of the file.
        cpu: the CPU of a scheduler or kernel event, or None.
    """

    offset: int
    time: int | None
    record: Any
    tid: int | None
    name: str | None = None
    function: Function | None = None
    values: dict[str, Any] | None = None
    meanings: Mapping[str, str] = MappingProxyType({})
    file: str = ""
    cpu: int | None = None


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
        """Yield the records as typed objects: those of the tasks, task by task, then those of the other files.

        Bytes of a task that are not a record are `Opaque`, so putting all records of a task with `UftraceWriter.put`
        copies its file.  Scheduler events (`PerfEvent`) and kernel events (`KernelEvent`) follow, CPU by CPU, then the
        messages of `extern.dat` (`Message`).

        Args:
            resolve: without effect, since records refer to functions by address; `entries` gives names and values.
            tid: yield only the records of this task.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        reading = self.begin()
        for chunk in self.chunks_of(reading, None if tid is None else [tid]):
            yield from decoded(chunk)
        if tid is None:
            for entry in _other_entries(reading):
                yield entry.record

    def entries(self, *, resolve: bool = True) -> Iterator[Entry]:
        """Yield the records with their places and meanings, in the order of `records`.

        They are not merged by time, which would take memory for each task; the tables can be sorted.

        Args:
            resolve: look up names and decode values.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        reading = self.begin()
        for chunk in self.chunks_of(reading):
            offsets = [chunk.base] if chunk.gap is not None else chunk.offsets().tolist()
            for offset, record in zip(offsets, decoded(chunk), strict=True):
                time = None if isinstance(record, Opaque | Lost) else min(record.time, MAX_TIME)
                entry = Entry(offset, time, record, chunk.tid, file=chunk.file)
                yield self._resolved(entry, chunk, reading.events) if resolve else entry
        for entry in _other_entries(reading):
            yield entry if resolve else Entry(*entry[:4], file=entry.file, cpu=entry.cpu)

    def _resolved(self, entry: Entry, chunk: Chunk, events: EventsFile) -> Entry:
        record = entry.record
        if isinstance(record, Event):
            data = data_of(record.payload, chunk.order)
            values: dict[str, Any] = values_of(record.event, data, chunk.order, self.info_file.pointer_size)
            names = addressed(values, chunk.functions)
            values = values or ({"data": data} if data else {})
            return entry._replace(name=events.name(record.event), values=values or None, meanings=names)
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

    @property
    def table_names(self) -> tuple[str, ...]:
        """The names of the tables; every trace has all of them, some may be empty."""
        return readable_tables(SPECS)

    def _read_tables(self, names: tuple[str, ...]) -> dict[str, Table]:
        tables = {name: GrowingTable() for name in names}
        for batch in self._parts(names, keeps_names=True):
            for name, part in batch.items():
                tables[name].append(dict(part.items()), self.share if name in RECORD_TABLES else 1.0)
        return {name: Table(table.columns()) for name, table in tables.items()}

    def _read_batches(self, names: tuple[str, ...]) -> Iterator[dict[str, Table]]:
        return self._parts(names, keeps_names=False)

    def _parts(self, names: tuple[str, ...], *, keeps_names: bool) -> Iterator[dict[str, Table]]:
        """Yield tables in batches, at least one; the tables of small files are whole in it, and empty in the others.

        Args:
            names: the names of the tables.
            keeps_names: whether the codes of names are the same in all batches, however many there are.
        """
        reading, of_records = self.begin(), [name for name in names if name in RECORD_TABLES]
        reading.quiet = bool(of_records)
        of_files = {name: reading.table(name) for name in names if name in FILE_TABLES}
        if not of_records:
            yield of_files
            return
        builder = TableBuilder(of_records, reading.events, self.info_file.pointer_size, reading.findings)

        def batch(chunk: Chunk) -> dict[str, Table]:
            tables = of_files | {name: Table(part) for name, part in builder.of_chunk(chunk).items()}
            of_files.update({name: table.take(np.empty(0, np.int64)) for name, table in of_files.items()})
            return {name: tables[name] for name in names}

        is_first = True
        for chunk in self.chunks_of(reading):
            if chunk.gap is None:
                is_first = False
                if not keeps_names:
                    builder.drop_unused_names()
                yield batch(chunk)
        if is_first:
            yield batch(empty_chunk(reading.sessions.empty))

    def file(self, name: str) -> StoredFile:
        """Return a file of the trace as it is, which `UftraceWriter.file` copies; `name` is that of the file."""
        return StoredFile(self.directory, name)

    def chunks(self, tids: list[int] | None = None) -> Iterator[Chunk]:
        """Yield chunks of records, task by task; each is valid until the next one is requested.

        Args:
            tids: the tasks to read; None for all tasks.
        """
        return self.chunks_of(self.begin(), tids)

    def begin(self) -> SmallFiles:
        """Begin a reading; `findings` are then its findings, first those of the directory and the info file."""
        self._findings = findings = Findings("uftrace", strict=self._strict)
        self._position, self.share = 0, 0.0
        self._read_info_file(findings)
        for other in self.directory.others:
            findings.add("directory.not-a-file", 0, file=other)
        for tid in self.info_file.tids:
            if f"{tid}{_DAT}" not in self.directory:
                message = f"the info file lists the task {tid}, but there is no file {tid}{_DAT}"
                findings.add("directory.no-task-file", 0, message, file=INFO_FILE)
        return SmallFiles(self.directory, self.info_file, self.tids, findings)

    def chunks_of(self, reading: SmallFiles, tids: list[int] | None = None) -> Iterator[Chunk]:
        """Yield chunks of records in a reading, see `chunks`."""
        findings, listed = reading.findings, frozenset(self.info_file.tids)
        has_list = self.info_file.get("taskinfo", "tids") is not None
        _ = reading.events  # parsed for its findings, even if no name of an event is needed
        total = sum(self.directory.size(f"{tid}{_DAT}") for tid in self.tids)
        for tid, allowed in self.allowed_sizes(self.tids if tids is None else tids):
            name = f"{tid}{_DAT}"
            if has_list and tid not in listed:
                findings.add("info.unlisted-task", 0, file=name)
            if allowed < self.directory.size(name):
                findings.add("source.cut", allowed, f"more than the allowed {self._max_bytes:,} bytes", file=name)
            descriptor = self.directory.open(name)

            def progress(count: int) -> None:
                self._position += count
                self.share = min(self._position / total, 1.0) if total else 0.0
                if self._progress is not None:
                    self._progress(self._position, total)

            order = self.info_file.order
            yield from TaskReader(tid, name, descriptor, reading.sessions, order, findings, progress, allowed)

    def chunks_ahead(self, reading: SmallFiles, tid: int, allowed: int) -> Iterator[Chunk]:
        """Yield the chunks of one task in a reading of all tasks, without findings and progress.

        Args:
            reading: the reading.
            tid: the task.
            allowed: the number of bytes to read, see `allowed_sizes`.
        """
        name, ignored = f"{tid}{_DAT}", Findings("uftrace")
        descriptor, order = self.directory.open(name), self.info_file.order
        return iter(TaskReader(tid, name, descriptor, reading.sessions, order, ignored, lambda count: None, allowed))

    def allowed_sizes(self, tids: list[int]) -> Iterator[tuple[int, int]]:
        """Yield tasks, and for each the number of bytes of its file that may be read."""
        left = self._max_bytes
        for tid in tids:
            size = self.directory.size(f"{tid}{_DAT}")
            allowed = size if left is None else min(size, left)
            yield tid, allowed
            left = None if left is None else left - allowed

    def _summarize(self) -> Info:
        file, reading = self.info_file, self.begin()
        info = Info(
            self.name, self.format, byte_order=file.order, version=file.version, recorded_by=file.recorded_by,
            command=file.get("cmdline"), recorded_at=file.get("record_date") or "",
        )  # fmt: skip
        counts: Counter[str] = Counter()
        for chunk in self.chunks_of(reading):
            if chunk.gap is not None:
                counts["Opaque"] += 1
                continue
            kinds = _FIELDS["type"].get(chunk.words).view(np.int64)
            numbers = np.bincount(kinds, minlength=len(RecordType)).tolist()
            counts.update({CLASSES[kind].__name__: number for kind, number in zip(RecordType, numbers, strict=True)})
            times = chunk.nanoseconds[kinds != RecordType.LOST]
            if len(times):
                _extend(info, int(times.min()), int(times.max()))
        for _, block in reading.perf_blocks():
            counts[perf.PerfEvent.__name__] += len(block)
            if len(block):
                times = saturated(block.time)
                _extend(info, int(times.min()), int(times.max()))
        for _, event in reading.kernel_events(decode=False):
            counts[kernel.KernelEvent.__name__] += 1
            _extend(info, *[min(event.time, MAX_TIME)] * 2)
        for message in reading.extern.messages:
            counts[Message.__name__] += 1
            _extend(info, *[min(message.time, MAX_TIME)] * 2)
        info.records = +counts
        info.size = self._position
        info.tasks = {tid: program for tid, _, program in reading.tasks()}
        info.set_started_at(file.wall_clock)
        return info


def _extend(info: Info, first: int, last: int) -> None:
    """Extend the duration of a trace so that it contains two times in nanoseconds."""
    info.start = first if info.start is None else min(info.start, first)
    info.end = last if info.end is None else max(info.end, last)


def _other_entries(reading: SmallFiles) -> Iterator[Entry]:
    """Yield the entries of the files that do not belong to a task."""
    for file, block in reading.perf_blocks():
        for event in block.events():
            given = ((name, getattr(event, name)) for name in ("comm", "parent", "parent_pid"))
            values = {name: value for name, value in given if value} or None
            time, name = min(event.time, MAX_TIME), f"linux:{event.kind}"
            yield Entry(event.offset, time, event, event.tid, name, None, values, file=file, cpu=event.cpu)
    for file, kernel_event in reading.kernel_events():
        name = kernel_event.label or f"kernel_event:{kernel_event.id}"
        place = kernel_event.offset, min(kernel_event.time, MAX_TIME)
        decoded, names = kernel_event.values or None, reading.kernel_meanings(kernel_event)
        yield Entry(*place, kernel_event, kernel_event.tid, name, None, decoded, names, file, kernel_event.cpu)
    extern = reading.extern
    for offset, message in zip(extern.places, extern.messages, strict=True):
        yield Entry(offset, min(message.time, MAX_TIME), message, None, file=EXTERN_FILE)


def decoded(chunk: Chunk) -> Iterator[Any]:
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
