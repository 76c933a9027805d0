"""The reader of a data directory: a cheap summary, typed records, columns; all of it block by block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fxtio.codec.record import Opaque
from fxtio.errors import DecodeError, FormatError
from fxtio.finding import Findings, Level
from fxtio.io.reading import Progress
from fxtio.table import Table
from fxtio.uftrace import arguments, kernel, perf
from fxtio.uftrace.columns import CHUNKS, Builder, Collector
from fxtio.uftrace.debug import DebugFile
from fxtio.uftrace.directory import MOST_TEXT, Directory, Stored
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.events import EXTERN_FILE, NAMES_FILE, EventsFile, ExternFile, data_of, values_of
from fxtio.uftrace.info import InfoFile
from fxtio.uftrace.items import Info, Item
from fxtio.uftrace.layout import RecordWord
from fxtio.uftrace.maps import MapFile
from fxtio.uftrace.records import CLASSES, Entry, Event, Exit, decode
from fxtio.uftrace.sessions import Sessions
from fxtio.uftrace.static import STATIC
from fxtio.uftrace.stream import Chunk, TaskReader
from fxtio.uftrace.symbols import SymbolFile
from fxtio.uftrace.tasks import BINARY, TEXT, BinaryTaskFile, TaskFile

INFO = "info"
_FIELDS = RecordWord.fields
_AT_ONCE = 4096


class UftraceTrace:
    """A data directory of uftrace.

    Args:
        target: the directory.
        strict: raise `DecodeError` at the first fault, instead of collecting findings.
        max_bytes: read no more than so many bytes of `.dat` files.
        progress: called now and then while reading.

    Attributes:
        name: where it was read from.
        directory: its files.
        header: the info file.

    Raises:
        FormatError: it is no data directory.
        OSError: it cannot be read.
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
        self.name = os.fspath(target)
        self.directory = Directory(target)
        self._strict = strict
        self._max_bytes = max_bytes
        self._progress = progress
        self._kept: Findings | None = None
        self._info: Info | None = None
        self._read = 0
        self.header = self._header(Findings())

    def __enter__(self) -> UftraceTrace:
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing stays open between two readings."""

    def close(self) -> None:
        """Nothing stays open between two readings."""

    def _header(self, findings: Findings) -> InfoFile:
        """The info file; where a recorder that was killed left none, or it is damaged, what is usual."""
        raw = self.directory.read(INFO, findings)
        try:
            InfoFile.parse(raw, Findings())
        except DecodeError as error:
            if not self._files() or not any(name in self.directory for name in (TEXT, BINARY)):
                raise FormatError(f"{self.name}: {error.message}") from None
            told = f"{error.message}; the rest is read without it"
            findings.add("info-header", 0, told, file=INFO)
            return InfoFile()
        return InfoFile.parse(raw, findings)  # which raises something else in strict mode

    @property
    def findings(self) -> Findings:
        """What was wrong, as far as the last reading came; reads the trace if nothing was read yet."""
        if self._kept is None:
            _ = self.info
        assert self._kept is not None
        return self._kept

    @property
    def tids(self) -> list[int]:
        """The tasks with a file: as the info file lists them, then those that it does not."""
        there = self._files()
        listed = [tid for tid in dict.fromkeys(self.header.tids) if tid in there]
        return [*listed, *sorted(there.difference(listed))]

    def _files(self) -> set[int]:
        """The tasks with a file."""
        files = [name[:-4] for name in self.directory.names if name.endswith(".dat")]
        return {int(name) for name in files if name.isascii() and name.isdigit() and str(int(name[:18])) == name}

    @property
    def info(self) -> Info:
        """A summary; reads the trace once, without making records.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        if self._info is None:
            self._info = self._summarize()
        return self._info

    def __iter__(self) -> Iterator[Any]:
        """The records, task by task, see `records`."""
        return self.records()

    def records(self, tid: int | None = None) -> Iterator[Any]:
        """The records as typed objects, as they are in the files, task by task.

        What is no record comes as `Opaque`: writing all of a task with `UftraceWriter.put` gives a copy of its file.

        Args:
            tid: only those of this task.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        for chunk in self.chunks(None if tid is None else [tid]):
            yield from _records(chunk)

    def entries(self, *, resolve: bool = True) -> Iterator[Item]:
        """The records, task by task, with where they are and what they mean.

        Args:
            resolve: find out names and values.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        events = self.events_file
        for chunk in self.chunks():
            offsets = [chunk.base] if chunk.gap is not None else chunk.offsets().tolist()
            for offset, record in zip(offsets, _records(chunk), strict=True):
                time = None if isinstance(record, Opaque) else record.time
                item = Item(chunk.tid, offset, time, record, None, None, None)
                yield self._resolved(item, chunk, events) if resolve else item

    def _resolved(self, item: Item, chunk: Chunk, events: EventsFile) -> Item:
        record = item.record
        if isinstance(record, Event):
            return item._replace(name=events.name(record.event), values=self._event_values(record))
        if not isinstance(record, Entry | Exit):
            return item
        function = chunk.space.at(record.address)
        name = function.name if function is not None else f"<{record.address:x}>"
        values = None
        if record.payload is not None and chunk.told:
            wanted = chunk.space.values_at(record.address, leave=isinstance(record, Exit))
            found = arguments.decode(wanted, record.payload, chunk.order)
            values = {value.label: one for value, one in zip(wanted, found, strict=True)}
        return item._replace(name=name, function=function, values=values)

    def _event_values(self, event: Event) -> dict[str, Any] | None:
        data = data_of(event.payload, self.header.order)
        found = values_of(event.event, data, self.header.order, self.header.pointer_size)
        return found or ({"data": data} if data else None)

    def batches(self, *names: str) -> Iterator[dict[str, Table]]:
        """Tables piece by piece, in bounded memory.

        Args:
            names: which tables (see `table_names`).

        Raises:
            KeyError: there is no such table.
        """
        self._check(names)
        builder = self._builder(names)
        tid = None
        for chunk in self.chunks():
            if tid is not None and chunk.tid != tid:
                yield {name: Table(made) for name, made in builder.finish(tid).items()}
            tid = chunk.tid
            builder.forget()
            yield {name: Table(made) for name, made in builder.chunk(chunk).items()}
        if tid is not None:
            yield {name: Table(made) for name, made in builder.finish(tid).items()}
        yield {name: STATIC[name](self) for name in names if name in STATIC}

    def tables(self, *names: str) -> dict[str, Table]:
        """Several whole tables in one reading.

        Raises:
            KeyError: there is no such table.
            DecodeError: in strict mode, at the first fault.
        """
        self._check(names)
        wanted = tuple(name for name in names if name in CHUNKS)
        found = self._collected(wanted) if wanted else {}
        if not wanted:
            self._kept = Findings(strict=self._strict)
        found |= {name: STATIC[name](self) for name in names if name in STATIC}
        return {name: found[name] for name in names}

    def _collected(self, names: tuple[str, ...]) -> dict[str, Table]:
        builder, collector = self._builder(names), Collector(names)
        total = self._total() or 1
        empty = TaskReader.nothing(Sessions(self.directory, self.header, Findings()))
        collector.add(builder.chunk(empty))
        tid = None
        for chunk in self.chunks():
            if tid is not None and chunk.tid != tid:
                collector.add(builder.finish(tid))
            tid = chunk.tid
            collector.add(builder.chunk(chunk), min(self._read / total, 1.0))
        if tid is not None:
            collector.add(builder.finish(tid))
        return collector.tables()

    def _builder(self, names: tuple[str, ...]) -> Builder:
        return Builder(names, self.events_file, self.header.pointer_size)

    def _check(self, names: tuple[str, ...]) -> None:
        for name in names:
            if name not in self.table_names:
                raise KeyError(f"no table {name!r}; there are {', '.join(self.table_names)}")

    def table(self, name: str) -> Table:
        """One whole table, see `tables` and `table_names`."""
        return self.tables(name)[name]

    @property
    def table_names(self) -> tuple[str, ...]:
        """The tables that a trace has, empty ones included."""
        return (*CHUNKS, *STATIC)

    @property
    def events_file(self) -> EventsFile:
        """The names of events."""
        return EventsFile.parse(self.directory.read(NAMES_FILE), Findings())

    def perf_events(self, findings: Findings | None = None) -> Iterator[tuple[int, perf.PerfEvent]]:
        """What the scheduler did: number of the CPU and event, file by file."""
        found = Findings() if findings is None else findings
        for name in filter(perf.is_name, self.directory.names):
            pieces = self.directory.pieces(name)
            for event in perf.parse(pieces, name, self.header.order, found):
                yield perf.cpu_of(name), event

    def kernel_events(self, findings: Findings | None = None) -> Iterator[tuple[int, kernel.KernelEvent]]:
        """What the kernel traced: number of the CPU and event, file by file."""
        found = Findings() if findings is None else findings
        header = kernel.KernelHeader.parse(self.directory.read(kernel.HEADER_FILE, found), found)
        size = kernel.sound_page_size(header, found)
        for name in filter(kernel.is_name, self.directory.names):
            for event in kernel.parse_pages(self.directory.pieces(name, size), header, name, found):
                yield kernel.cpu_of(name), event

    def part(self, name: str) -> Any:
        """A file of the trace that is no `<tid>.dat`, taken apart where its format is known, else `Stored`.

        `UftraceWriter.file` takes what this gives, and writes the same bytes.
        """
        stored = Stored(self.directory, name)
        if self.directory.size(name) > MOST_TEXT:
            return stored
        raw = self.directory.read(name)
        try:
            part = self._parsed(name, raw)
        except DecodeError:
            return stored
        return stored if part is None or part.to_bytes() != raw else part  # so a copy is certain to be one

    def _parsed(self, name: str, raw: bytes) -> Any:
        """A small file taken apart, or None where its format is not known."""
        findings = Findings()
        if name == BINARY:
            return BinaryTaskFile.parse(raw, self.header.order, findings)
        if name in _PARSERS:
            return _PARSERS[name](raw, findings)
        for suffix, parse in _SUFFIXES.items():
            if name.endswith(suffix):
                return parse(raw, name, findings)
        return None

    def _total(self) -> int:
        return sum(self.directory.size(f"{tid}.dat") for tid in self.tids)

    def sessions(self, findings: Findings) -> Sessions:
        """The sessions and tasks; what is wrong with them goes to `findings`."""
        return Sessions(self.directory, self.header, findings)

    def chunks(self, tids: list[int] | None = None) -> Iterator[Chunk]:
        """Runs of records, task by task; each is valid until the next one is asked for.

        Args:
            tids: of these tasks, or of all.
        """
        self._kept = findings = Findings(strict=self._strict)
        self._read = 0
        self._header(findings)
        for other in self.directory.others:
            told = "a link, a directory or the like is not opened"
            findings.add("not-a-file", 0, told, level=Level.WARNING, file=other)
        listed = self.header.tids
        for tid in listed:
            if f"{tid}.dat" not in self.directory:
                told = f"the info file lists the task {tid}, which has no file"
                findings.add("no-task-file", 0, told, level=Level.WARNING, file=INFO)
        sessions = self.sessions(findings)
        left, total = self._max_bytes, self._total()
        for tid in self.tids if tids is None else tids:
            name = f"{tid}.dat"
            if tid not in listed:
                told = "the info file does not list this task"
                findings.add("unlisted-task", 0, told, level=Level.WARNING, file=name)
            size = self.directory.size(name)
            most = size if left is None else min(size, left)
            if most < size:
                findings.add("source", most, f"more than the allowed {self._max_bytes:,} bytes", file=name)
            descriptor = self.directory.open(name)

            def progress(count: int) -> None:
                self._read += count
                if self._progress is not None:
                    self._progress(self._read, total)

            yield from TaskReader(tid, name, descriptor, sessions, self.header.order, findings, progress, most)
            left = None if left is None else left - most

    def _summarize(self) -> Info:
        header = self.header
        info = Info(
            self.name, self.format, header.order, header.version, header.recorded_by, header.get("cmdline"),
            recorded_at=header.get("record_date") or "",
        )  # fmt: skip
        counts = np.zeros(len(RecordType), np.int64)
        for chunk in self.chunks():
            if chunk.gap is not None:
                info.records["Opaque"] += 1
                continue
            kinds = _FIELDS["type"].get(chunk.words).view(np.int64)
            counts += np.bincount(kinds, minlength=len(counts))
            times = chunk.times[kinds != RecordType.LOST]
            if len(times):
                first, last = int(times.min()), int(times.max())
                info.start = first if info.start is None else min(info.start, first)
                info.end = last if info.end is None else max(info.end, last)
        names = [CLASSES[kind].__name__ for kind in RecordType]
        info.records.update({name: int(n) for name, n in zip(names, counts, strict=True) if n})
        info.size = self._read
        sessions = self.sessions(Findings())
        info.tasks = {tid: sessions.names.get(sessions.process_of(tid), "") for tid in self.tids}
        return info


_PARSERS: dict[str, Callable[[bytes, Findings], Any]] = {
    INFO: InfoFile.parse,
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


def _records(chunk: Chunk) -> Iterator[Any]:
    if chunk.gap is not None:
        yield Opaque(chunk.gap)
        return
    at, size = chunk.at, chunk.size
    words, data = chunk.block.words, chunk.block.data
    for begin in range(0, len(at), _AT_ONCE):
        some, sizes = at[begin : begin + _AT_ONCE], size[begin : begin + _AT_ONCE]
        first, last = int(some[0]), int(some[-1] + sizes[-1])
        piece, view = words[first:last].tolist(), data[first * 8 : last * 8]
        for here, length in zip((some - first).tolist(), sizes.tolist(), strict=True):
            yield decode(piece, view, here, here + length)
