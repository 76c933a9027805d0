"""The reader of a recording: a cheap summary, typed records in two orders or exactly as they are, tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np

from fxtio.io.reading import TraceInfo, pairs_of
from fxtio.mono import records as r
from fxtio.mono.buffers import decode_events, decode_events_exactly
from fxtio.mono.columns import Batch, Workers
from fxtio.mono.frames import Frame, Framer, Gap, Recording
from fxtio.mono.headers import BUFFER_HEADER_SIZE, OpaqueGap, StreamHeader, header_record
from fxtio.mono.state import NAME_TABLES, AddressNames
from fxtio.mono.tables import TABLE_NAMES, EventCollector, TextCodes, buffer_columns, columns_of, owners_of
from fxtio.readers import FileReader
from fxtio.report import ReportTable, counted, human_duration, quoted
from fxtio.table import Table, joined


@dataclass(slots=True)
class Info(TraceInfo):
    """A summary of a recording.  Times are nanoseconds of the event clock.

    Attributes:
        recordings: the number of recordings in the file; more than one where files were joined.  All but the first
            are among the `records`, too.
        header: the header of the first recording; None if none can be read.
        buffers: the number of buffers.
        threads: names of threads by id, of all threads that wrote events; empty for a thread without a name.
    """

    recordings: int = 0
    header: StreamHeader | None = None
    buffers: int = 0
    threads: dict[int, str] = field(default_factory=dict, metadata=pairs_of("id", "name"))

    def as_json(self) -> dict[str, Any]:
        """Return these attributes for `fxtio.report.json_document`."""
        header = None if self.header is None else msgspec.structs.asdict(self.header)
        return TraceInfo.as_json(self) | {"header": header}

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "format", self._form()
        yield "size", self._size_text()
        if self.recordings > 1:
            yield "recordings", f"{self.recordings:,}; the header is that of the first"
        header = self.header
        if header is not None:
            yield "version", f"profiler {header.major}.{header.minor}, data version {header.data_version}"
            yield "pointers", f"{header.pointer_size} bytes"
            yield "program", f"process {header.pid}, {quoted(header.args or '')}, {quoted(header.arch or '')}"
        if self.started_at is not None:
            yield "started", f"{self.started_at:%Y-%m-%d %H:%M:%S} UTC"
        if self.start is not None and self.end is not None:
            yield "lasts", human_duration(self.end - self.start)
        yield "events", f"{self.events:,} in {counted(self.buffers, 'buffer')}"

    def _report_tables(self) -> Iterator[ReportTable]:
        kinds = ReportTable(["event", ">count"], self.records.most_common())
        names = [(f"{thread:#x}", quoted(name)) for thread, name in self.threads.items()]
        return (table for table in (kinds, ReportTable(["thread", "name"], names)) if table.rows)

    @property
    def events(self) -> int:
        """The number of records that are events, not headers of further recordings."""
        return self.records.total() - max(self.recordings - 1, 0)

    @property
    def started_at_time(self) -> int | None:
        """The time of the event clock at which the header was written; None if it is not known."""
        return None if self.header is None else self.header.startup_tick


class Entry(NamedTuple):
    """A record with its place, its time and the thread that wrote it.

    Attributes:
        offset: the byte offset in the (decompressed) trace.
        time: nanoseconds of the event clock; None for headers and `Opaque`.
        record: the record.
        thread: the id of the thread that wrote the record's buffer; None for the header of a recording.
    """

    offset: int
    time: int | None
    record: Any
    thread: int | None


class MonoTrace(FileReader[Info]):
    """A recording of the Mono log profiler; further arguments are those of `fxtio.readers.FileReader`.

    Args:
        target: what to read, see `fxtio.open`.
        data_version: read the events as those of this data version, whatever the header says; for files of Mono 5.10.0,
            whose headers say 15, it is `fxtio.mono.layout.HYBRID`.  Without it, such a file is recognized by events
            that version 15 does not have, except where it is read as it is (`resolve=False`).
        options: `strict`, `max_bytes`, `progress`, `source`.
    """

    format: ClassVar[str] = "mono"
    reads_again = True  # names may come after their use

    def __init__(self, target: Any, *, data_version: float | None = None, **options: Any) -> None:
        super().__init__(target, **options)
        self._data_version = data_version
        self._names: AddressNames | None = None
        self._recording: Recording | None = None
        self._last_recording: Recording | None = None  # that of the last reading

    @property
    def recording(self) -> Recording | None:
        """The first recording in the file, or None if none can be read.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        if self._recording is None:
            _ = self.info
        return self._recording

    @property
    def names(self) -> AddressNames:
        """The names of addresses; the first use reads the trace once.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        if self._names is None:
            _ = self.tables()
            assert self._names is not None
        return self._names

    def entries(self, *, resolve: bool = True, order: str = "file", thread: int | None = None) -> Iterator[Entry]:
        """Yield the records with their places, times and threads.

        Args:
            resolve: yield the events that can be read, and a `StreamHeader` where another recording begins.  Their
                addresses are absolute but stay addresses, since names may come after their use; `names` resolves them
                as of a time.  Without it, yield the file as it is: a `StreamHeader` for each recording, a
                `BufferHeader` for each buffer, its events, and kinds of `Opaque` for what would not be encoded to the
                same bytes: `OpaqueHeader`, `OpaqueBufferHeader`, `OpaqueGap` for bytes that belong to none, and else
                `Opaque`.  `MonoWriter.put` of all of them writes the same file.
            order: `file`, or `time`: sorted by time between synchronization points, which separate earlier events from
                later ones.
            thread: only what this thread wrote; the buffers of other threads are not decoded.

        Raises:
            ValueError: the order is unknown, or is `time` without `resolve`.
            DecodeError: in strict mode, at the first fault.
        """
        if order not in ("file", "time"):
            raise ValueError(f"the order {order!r} is neither file nor time")
        if not resolve:
            if order == "time":
                raise ValueError("a file as it is has no order by time")
            return self._exact_entries(thread)
        entries = self._event_entries(thread)
        return entries if order == "file" else _by_time(entries)

    def _event_entries(self, thread: int | None) -> Iterator[Entry]:
        recordings = 0
        for batch in self._batches(thread):
            frame = batch.frame
            for item in frame.in_order():
                if isinstance(item, Recording):
                    recordings += 1
                    if recordings > 1:
                        yield Entry(item.offset, None, header_record(item.header, item.raw), None)
                    continue
                begin, writer = int(frame.begin[item]), int(frame.headers["thread"][item])
                data, base = frame.data[begin : int(batch.stop[item])].tobytes(), frame.base + begin
                for offset, event in decode_events(frame.dialect, frame.header(item), data):
                    yield Entry(base + offset, event.time, event, writer)

    def _exact_entries(self, thread: int | None) -> Iterator[Entry]:
        for part in self._parts(exact=True):
            if isinstance(part, Gap):
                if thread is None:
                    yield Entry(part.offset, None, OpaqueGap(bytes(part.data)), None)
                continue
            for item in part.in_order():
                if isinstance(item, Recording):
                    yield Entry(item.offset, None, header_record(item.header, item.raw), None)
                elif thread is None or int(part.headers["thread"][item]) == thread:
                    yield from _exact_buffer(part, item)

    def raw_blocks(self) -> Iterator[bytes]:
        """Yield all bytes in the order of the file: headers of recordings, whole buffers, and what is between them.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        for part in self._parts(exact=True):
            if isinstance(part, Gap):
                yield bytes(part.data)
                continue
            for item in part.in_order():
                if isinstance(item, Recording):
                    yield item.raw
                else:
                    yield part.data[int(part.begin[item]) - BUFFER_HEADER_SIZE : int(part.end[item])].tobytes()

    def index(self) -> Table:
        """Return where the buffers are, from their headers alone; no event is decoded.

        Columns: `offset` of the header, `size` of the events in bytes, `time` base, `thread`.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        parts = [buffer_columns(frame) for frame in self._frames()]
        names = ("offset", "size", "time", "thread")
        return Table({name: joined([part[name] for part in parts] or [np.empty(0, np.int64)]) for name in names})

    @property
    def table_names(self) -> tuple[str, ...]:
        """The names of the tables; every recording has all of them, some may be empty."""
        return TABLE_NAMES

    def _read_batches(self, names: tuple[str, ...]) -> Iterator[dict[str, Table]]:
        """Yield tables frame by frame; what spans frames, such as a call that ends in a later one, is cut."""
        for batch in self._batches():
            collector = EventCollector(names)
            collector.add(batch)
            yield collector.tables(names, lambda: self.names, self.findings)

    def _read_tables(self, names: tuple[str, ...]) -> dict[str, Table]:
        collector = EventCollector((*names, *(NAME_TABLES if self._names is None else ())))
        for batch in self._batches():
            collector.add(batch, self.share)
        if self._names is None:
            self._names = AddressNames(collector.tables(NAME_TABLES, lambda: self.names, self.findings))
        return collector.tables(names, lambda: self.names, self.findings)

    def _frames(self) -> Iterator[Frame]:
        return (part for part in self._parts() if isinstance(part, Frame))

    def _parts(self, *, exact: bool = False) -> Iterator[Frame | Gap]:
        """Yield the whole trace; with `exact`, the header of a recording decides alone what its events are."""
        with self._reading() as (source, findings):
            framer = Framer(source, findings, self._data_version, recognizes_hybrid=not exact)
            for part in framer.parts():
                self._recording, self._last_recording = framer.first, framer.last
                self.share = source.position / source.size if source.size else 0.0
                yield part
                self._report_progress(source)
            self._recording, self._last_recording = framer.first, framer.last

    def _batches(self, thread: int | None = None) -> Iterator[Batch]:
        """Yield the frames with their rows counted; only the buffers of one thread, if it is given."""
        return (part for part in self._counted_parts(thread) if isinstance(part, Batch))

    def _counted_parts(self, thread: int | None = None) -> Iterator[Batch | Gap]:
        """Yield the whole trace as `_batches` does, and the gaps between the frames."""
        workers = Workers()
        try:
            for part in self._parts():
                if isinstance(part, Gap):
                    yield part
                    continue
                selected = part if thread is None else part.select(part.headers["thread"] == thread)
                if thread is None or len(selected):
                    assert self._findings is not None
                    yield Batch(selected, self._findings, workers)
        finally:
            workers.close()

    def _summarize(self) -> Info:
        info = Info(self.name, self.format, self.compression)
        texts = TextCodes()
        for batch in self._batches():
            frame = batch.frame
            for _, recording in frame.recordings:
                info.recordings += 1
                if info.recordings > 1:
                    info.records[type(header_record(recording.header, recording.raw)).__name__] += 1
            info.buffers += len(frame)
            for cls, count in zip(r.EVENTS, batch.totals, strict=False):
                if count:
                    info.records[cls.__name__] += count
            for thread in frame.headers["thread"].tolist():
                info.threads.setdefault(thread, "")
            batch.fill(owners_of(batch, ["threads"]))
            columns: Any = columns_of(batch, "threads", texts)
            names = zip(columns["id"].tolist(), columns["name"], strict=True)
            info.threads.update((thread, name) for thread, name in names if name)
            times = batch.time_range()
            if times is not None:
                info.start = times[0] if info.start is None else min(info.start, times[0])
                info.end = times[1] if info.end is None else max(info.end, times[1])
        info.size = self.position
        info.header = None if self._recording is None else self._recording.header
        info.started_at = None if info.header is None else info.header.started_at
        return info


def _exact_buffer(frame: Frame, number: int) -> Iterator[Entry]:
    """Yield the header of a buffer and its events, such that encoding them gives the same bytes."""
    header, begin = frame.header(number), int(frame.begin[number])
    base = frame.base + begin
    yield Entry(base - BUFFER_HEADER_SIZE, None, frame.header_record(number), header.thread)
    data = frame.data[begin : int(frame.end[number])].tobytes()
    for offset, record in decode_events_exactly(frame.dialect, header, data):
        time = record.time if isinstance(record, r.Event) else None
        yield Entry(base + offset, time, record, header.thread)


def _by_time(entries: Iterator[Entry]) -> Iterator[Entry]:
    """Yield entries sorted by time from one synchronization point, or header, to the next."""
    waiting: list[Entry] = []
    for entry in entries:
        if isinstance(entry.record, r.Event):
            waiting.append(entry)
        if type(entry.record) is r.SyncPoint or not isinstance(entry.record, r.Event):
            yield from sorted(waiting, key=attrgetter("time"))
            waiting.clear()
        if not isinstance(entry.record, r.Event):
            yield entry
    yield from sorted(waiting, key=attrgetter("time"))
