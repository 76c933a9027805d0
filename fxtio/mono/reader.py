"""The reader of a recording: a cheap summary, typed events in three orders, exact buffers, tables; frame by frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from fxtio.io.reading import FileReader
from fxtio.mono import records as r
from fxtio.mono.batch import Batch, Workers
from fxtio.mono.catalog import Texts, columns_of, owners_of
from fxtio.mono.events import events_of, exact_events_of
from fxtio.mono.framing import Frame, Framer, Recording
from fxtio.mono.header import BUFFER_SIZE, BufferHeader, StreamHeader
from fxtio.mono.names import SOURCES, Names
from fxtio.mono.tables import TABLE_NAMES, Collector
from fxtio.table import Table

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Info:
    """A summary of a recording.

    Attributes:
        name: where it was read from.
        format: always `mono`.
        compression: `gzip`, `zstd`, `xz` or None.
        size: bytes, decompressed.
        recordings: how many stand one behind the other; there is more than one where files were put together.
        header: the header of the first; None where there is none that can be read.
        buffers: how many there are.
        events: how many events of each kind.
        threads: names of threads by id; every thread that wrote events is there, with an empty name if it has none.
        start: the earliest time in nanoseconds of the event clock, or None without events.
        end: the latest one.
        started_at: the wall-clock time of the profiler's start.
    """

    name: str
    format: str
    compression: str | None = None
    size: int = 0
    recordings: int = 0
    header: StreamHeader | None = None
    buffers: int = 0
    events: Counter[str] = field(default_factory=Counter)
    threads: dict[int, str] = field(default_factory=dict)
    start: int | None = None
    end: int | None = None
    started_at: datetime | None = None


class Entry(NamedTuple):
    """An event with where it is and who wrote it.

    Attributes:
        offset: its byte offset in the (decompressed) trace.
        time: its time in nanoseconds of the event clock.
        thread: the id of the thread that wrote it.
        record: the event.
    """

    offset: int
    time: int
    thread: int
    record: Any


class Buffer(NamedTuple):
    """A buffer as it is in the file.

    Attributes:
        offset: the byte offset of its header.
        recording: the recording that it belongs to.
        header: its header.
        events: its events; what would not be written back to the same bytes is `Opaque`.
    """

    offset: int
    recording: Recording
    header: BufferHeader
    events: list[Any]


class MonoTrace(FileReader):
    """A recording of the Mono log profiler; the arguments are those of `fxtio.io.reading.FileReader`.

    Args:
        target: what to read, see `fxtio.open`.
        data_version: read the events as those of this data version, whatever the header says; for files of Mono 5.10.0,
            which tell 15, it is `fxtio.mono.layout.HYBRID`.
        options: `strict`, `max_bytes`, `progress`, `source`.
    """

    format = "mono"

    def __init__(self, target: Any, *, data_version: float | None = None, **options: Any) -> None:
        super().__init__(target, **options)
        self._data_version = data_version

    _info: Info | None = None
    _names: Names | None = None
    _recording: Recording | None = None
    _share = 0.0  # how much of the trace was read (0 to 1), 0 where that is not known

    @property
    def recording(self) -> Recording | None:
        """The first recording, its header and that header's bytes; None where there is none that can be read.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        if self._recording is None:
            _ = self.info
        return self._recording

    @property
    def info(self) -> Info:
        """A summary; reads the trace once, without making events.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        if self._info is None:
            self._info = self._summarize()
        return self._info

    @property
    def names(self) -> Names:
        """What addresses mean; reads the trace once.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        if self._names is None:
            _ = self.tables()
            assert self._names is not None
        return self._names

    def __iter__(self) -> Iterator[r.Event]:
        """The events in the order of the file, see `records`."""
        return self.records()

    def records(self, *, resolve: bool = True) -> Iterator[r.Event]:
        """The events as typed objects, in the order of the file; `resolve` makes no difference.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        return (entry.record for entry in self.entries())

    def entries(self, *, resolve: bool = True, order: str = "file", thread: int | None = None) -> Iterator[Entry]:
        """The events as from `records`, with where they are and who wrote them.

        Args:
            resolve: makes no difference here: an event tells addresses, and `names` tells what they mean.
            order: `file`, or `time`: sorted by time between synchronization points, which the profiler writes so that
                everything behind one is later than everything before it.
            thread: only the events that this thread wrote; the buffers of others are not decoded.

        Raises:
            ValueError: there is no such order.
            DecodeError: in strict mode, at the first fault.
        """
        if order not in ("file", "time"):
            raise ValueError(f"no order {order!r}; there are file and time")
        found = self._entries(thread)
        return found if order == "file" else _by_time(found)

    def _entries(self, thread: int | None) -> Iterator[Entry]:
        for batch in self._batches(thread):
            frame = batch.frame
            writers = frame.headers["thread"].tolist()
            for number, (begin, stop) in enumerate(zip(frame.begin.tolist(), batch.stop.tolist(), strict=True)):
                data, base = frame.data[begin:stop].tobytes(), frame.base + begin
                for at, event in events_of(frame.recording.dialect, frame.header(number), data):
                    yield Entry(base + at, event.time, writers[number], event)

    def parts(self) -> Iterator[Recording | Buffer]:
        """What the file is made of, in its order: a recording, for its header, then its buffers; then further ones.

        `MonoWriter.put_recording` and `put_buffer` write them to the same bytes; `MonoWriter` itself takes the first.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        last: Recording | None = None
        for batch in self._batches():
            frame = batch.frame
            if frame.recording is not last:
                last = frame.recording
                yield last
            for number, (begin, end) in enumerate(zip(frame.begin.tolist(), frame.end.tolist(), strict=True)):
                header, data = frame.header(number), frame.data[begin:end].tobytes()
                events = exact_events_of(frame.recording.dialect, header, data)
                yield Buffer(frame.base + begin - BUFFER_SIZE, frame.recording, header, events)

    def buffers(self) -> Iterator[Buffer]:
        """The buffers as they are, without the recordings that `parts` tells too.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        return (part for part in self.parts() if isinstance(part, Buffer))

    def index(self) -> Table:
        """Where the buffers are, by their headers alone: nothing is decoded.

        The columns: `offset` of the header, `size` of the events, `time`, `thread`.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        pieces: dict[str, list[Array]] = {"offset": [], "size": [], "time": [], "thread": []}
        for frame in self._frames():
            pieces["offset"].append(frame.base + frame.begin - BUFFER_SIZE)
            pieces["size"].append(frame.end - frame.begin)
            pieces["time"].append(frame.headers["time"].astype(np.uint64).view(np.int64))
            pieces["thread"].append(frame.headers["thread"].astype(np.uint64))
        return Table({name: np.concatenate(some) if some else np.empty(0, np.int64) for name, some in pieces.items()})

    def batches(self, *names: str) -> Iterator[dict[str, Table]]:
        """Tables piece by piece, in bounded memory.

        Args:
            names: which tables (see `table_names`).  Numbers of rows in one (`event`) count within the piece, and what
                spans pieces, such as a call that ends in a later one, is cut.
        """
        for batch in self._batches():
            collector = Collector(names)
            collector.add(batch)
            yield collector.tables(names, lambda: self.names)

    def tables(self, *names: str) -> dict[str, Table]:
        """Several whole tables in one reading.

        Raises:
            KeyError: there is no such table.
            DecodeError: in strict mode, at the first fault.
        """
        collector = Collector((*names, *(SOURCES if self._names is None else ())))
        for batch in self._batches():
            collector.add(batch, self._share)
        if self._names is None:
            self._names = Names(collector.tables(SOURCES, lambda: self.names))
        return collector.tables(names, lambda: self.names)

    def table(self, name: str) -> Table:
        """One whole table, see `tables` and `table_names`."""
        return self.tables(name)[name]

    @property
    def table_names(self) -> tuple[str, ...]:
        """The tables that a recording has, empty ones included."""
        return TABLE_NAMES

    def _frames(self) -> Iterator[Frame]:
        with self._reading() as (source, findings):
            framer = Framer(source, findings, self._data_version)
            for frame in framer:
                self._recording = framer.first
                self._share = source.position / source.size if source.size else 0.0
                yield frame
                self._tell(source)
            self._recording = framer.first

    def _batches(self, thread: int | None = None) -> Iterator[Batch]:
        """The frames with their columns counted; only the buffers of one thread, if told."""
        workers = Workers()
        try:
            for frame in self._frames():
                wanted = frame if thread is None else frame.select(frame.headers["thread"] == thread)
                if thread is None or len(wanted):
                    assert self._findings is not None
                    yield Batch(wanted, self._findings, workers)
        finally:
            workers.close()

    def _summarize(self) -> Info:
        info = Info(self.name, self.format, self.compression)
        texts = Texts()
        last: Recording | None = None
        for batch in self._batches():
            frame = batch.frame
            info.recordings += frame.recording is not last
            last = frame.recording
            info.buffers += len(frame)
            for cls, count in zip(r.EVENTS, batch.totals, strict=False):
                if count:
                    info.events[cls.__name__] += count
            for thread in frame.headers["thread"].tolist():
                info.threads.setdefault(thread, "")
            batch.fill(owners_of(batch, ["threads"]))
            named = columns_of(batch, "threads", texts)
            known: Any = named["id"], named["name"]
            info.threads.update((one, name) for one, name in zip(known[0].tolist(), known[1], strict=True) if name)
            span = batch.span()
            if span is not None:
                info.start = span[0] if info.start is None else min(info.start, span[0])
                info.end = span[1] if info.end is None else max(info.end, span[1])
        info.size = self.position
        info.header = None if self._recording is None else self._recording.header
        info.started_at = None if info.header is None else info.header.started_at
        return info


def _by_time(entries: Iterator[Entry]) -> Iterator[Entry]:
    """Entries sorted by time from one synchronization point to the next."""
    waiting: list[Entry] = []
    for entry in entries:
        waiting.append(entry)
        if type(entry.record) is r.SyncPoint:
            yield from sorted(waiting, key=attrgetter("time"))
            waiting.clear()
    yield from sorted(waiting, key=attrgetter("time"))
