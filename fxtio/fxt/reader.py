"""The reader of a trace: a cheap summary, typed records, columns; all of it batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from fxtio.codec.columns import Block
from fxtio.fxt import objects
from fxtio.fxt.batch import Batch, Session
from fxtio.fxt.catalog import TABLES, Collector
from fxtio.fxt.clock import Clock
from fxtio.fxt.columns import Builder
from fxtio.fxt.enums import ObjectType
from fxtio.fxt.framing import Frame, Framer
from fxtio.fxt.records import RECORDS, KernelObject
from fxtio.io.reading import FileReader
from fxtio.table import Table

_TIMED = [cls for cls in RECORDS.classes if "timestamp" in cls.__struct_fields__]


@dataclass(slots=True)
class ProviderSummary:
    """What is known of a provider.

    Attributes:
        id: its id.
        name: its name.
        records: how many records it wrote.
        clock: its clock.
    """

    id: int
    name: str
    records: int
    clock: Clock


@dataclass(slots=True)
class Info:
    """A summary of a trace.

    Attributes:
        name: where it was read from.
        format: always `fxt`.
        byte_order: `little` or `big`.
        compression: `gzip`, `zstd`, `xz` or None.
        size: bytes, decompressed.
        records: how many records of each class; `Opaque` are those of unknown type.
        providers: the providers, in the order of their first record.
        processes: names of processes by koid.
        threads: names of threads by koid.
        start: the earliest time in nanoseconds, or None without timed records.
        end: the latest time in nanoseconds (a complete event counts by its end), or None.
        started_at: the wall-clock time of `start`, where the trace tells it.
    """

    name: str
    format: str
    byte_order: str
    compression: str | None
    size: int = 0
    records: Counter[str] = field(default_factory=Counter)
    providers: list[ProviderSummary] = field(default_factory=list)
    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[int, str] = field(default_factory=dict)
    start: int | None = None
    end: int | None = None
    started_at: datetime | None = None


class Entry(NamedTuple):
    """A record with where and when it is.

    Attributes:
        offset: its byte offset in the (decompressed) trace.
        time: its time in nanoseconds, or None.
        end: the end of a complete event in nanoseconds, or None.
        provider: the id of the provider that wrote it.
        record: the record.
    """

    offset: int
    time: int | None
    end: int | None
    provider: int
    record: Any


class FxtTrace(FileReader):
    """A trace in the Fuchsia trace format; the arguments are those of `fxtio.io.reading.FileReader`."""

    format = "fxt"

    def __init__(self, target: Any, **how: Any) -> None:
        super().__init__(target, **how)
        self._info: Info | None = None
        self._share = 0.0  # how much of the trace was read (0 to 1), 0 where that is not known

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
        """The records in the order of the file, see `records`."""
        return self.records()

    def records(self, *, resolve: bool = True) -> Iterator[Any]:
        """The records as typed objects, in the order of the file.

        Args:
            resolve: give names and threads for the slots of the tables; a slot that nobody defined stays an int.
                Without it, references stay as they are, and whatever would not be written back to the same bytes is
                `Opaque`: writing all of it with `FxtWriter.put` gives a copy.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        for batch in self._batches(forget=True):
            yield from objects.resolved(batch) if resolve else objects.raw(batch)

    def entries(self, *, resolve: bool = True) -> Iterator[Entry]:
        """The records as from `records`, with where and when they are.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        for batch in self._batches(forget=True):
            time, end = np.full((2, len(batch)), None, object)
            for cls in batch.classes():
                if cls in _TIMED:
                    rows, columns = batch.columns(cls)
                    time[rows] = batch.times(columns["timestamp"], rows)
                    if "end" in columns:
                        end[rows] = batch.times(columns["end"], rows)
            ids = np.array([provider.id for provider in batch.session.providers])
            providers = np.broadcast_to(ids[batch.state], len(batch))
            offsets = batch.frame.at * 8 + batch.frame.base
            records = objects.resolved(batch) if resolve else objects.raw(batch)
            yield from map(Entry, offsets.tolist(), time.tolist(), end.tolist(), providers.tolist(), records)

    def batches(self, *names: str) -> Iterator[dict[str, Table]]:
        """Tables piece by piece, in bounded memory.

        Args:
            names: which tables (see `table_names`).  Numbers of rows in one (`args.event`) count within the batch.
        """
        for batch in self._batches(forget=True):
            collector = Collector(names)
            collector.add(Builder(batch))
            yield collector.tables(batch)

    def tables(self, *names: str) -> dict[str, Table]:
        """Several whole tables in one reading.

        Raises:
            KeyError: there is no such table.
            DecodeError: in strict mode, at the first fault.
        """
        collector = Collector(names, lambda: self._share)
        last: Batch | None = None
        for last in self._batches(forget=False):
            collector.add(Builder(last))
        if last is None:
            last = _nothing(Session(self.findings))
            collector.add(Builder(last))
        return collector.tables(last)

    def table(self, name: str) -> Table:
        """One whole table, see `tables` and `table_names`."""
        return self.tables(name)[name]

    @property
    def table_names(self) -> tuple[str, ...]:
        """The tables that a trace has, empty ones included."""
        return tuple(TABLES)

    def _batches(self, *, forget: bool) -> Iterator[Batch]:
        with self._reading() as (source, findings):
            session = Session(findings, forget=forget)
            for frame in Framer(source, findings):
                self._share = source.position / source.size if source.size else 0.0
                self.position = source.position
                yield session.enter(frame)
                self._tell(source)

    def _summarize(self) -> Info:
        info = Info(self.name, self.format, "little", None)
        counts = np.zeros(len(RECORDS.classes) + 1, np.int64)
        by_state: Counter[int] = Counter()
        session = None
        for batch in self._batches(forget=True):
            session = batch.session
            info.byte_order = batch.frame.order
            counts += np.bincount(batch.frame.kind + 1, minlength=len(counts))
            states = np.full(len(batch), batch.state) if isinstance(batch.state, int) else batch.state
            by_state.update({int(s): int(n) for s, n in zip(*np.unique(states, return_counts=True), strict=True)})
            _note_times(info, batch)
            _note_names(info, batch)
        labels = ["Opaque", *(cls.__name__ for cls in RECORDS.classes)]
        info.records = Counter({label: int(n) for label, n in zip(labels, counts, strict=True) if n})
        info.size, info.compression = self.position, self.compression
        if session is not None:
            info.providers = [
                ProviderSummary(one.id, one.name, by_state[state], session.clock_of.get(state, Clock()))
                for state, one in enumerate(session.providers)
                if by_state[state]
            ]
        anchored = [one.clock for one in info.providers if one.clock.wall_clock is not None]
        if anchored and info.start is not None:
            info.started_at = _wall(info.start, anchored[0])
        return info


def _note_times(info: Info, batch: Batch) -> None:
    for cls in batch.classes():
        if cls not in _TIMED:
            continue
        rows, columns = batch.columns(cls)
        if not len(rows):
            continue
        first = batch.times(columns["timestamp"], rows)
        last = batch.times(columns["end"], rows) if "end" in columns else first
        start, end = int(first.min()), int(last.max())
        info.start = start if info.start is None else min(info.start, start)
        info.end = end if info.end is None else max(info.end, end)


def _note_names(info: Info, batch: Batch) -> None:
    rows, columns = batch.columns(KernelObject)
    if not len(rows):
        return
    names = batch.text_codes(columns["name"], rows).tolist()
    values = batch.names.values
    for kind, koid, name in zip(columns["object_type"].tolist(), columns["koid"].tolist(), names, strict=True):
        if kind in (ObjectType.PROCESS, ObjectType.THREAD) and name >= 0:
            known = info.processes if kind == ObjectType.PROCESS else info.threads
            known[koid] = values[name]


def _wall(ns: int, clock: Clock) -> datetime | None:
    """The wall-clock time; None for one that is beyond all dates."""
    assert clock.base_ticks is not None and clock.wall_clock is not None  # they come together
    since = clock.wall_clock + ns - clock.ns(clock.base_ticks)
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=since // 1000)
    except OverflowError:
        return None


def _nothing(session: Session) -> Batch:
    """A batch without records."""
    words = np.zeros(1, np.uint64)
    empty = np.empty(0, np.int64)
    return session.enter(Frame(Block(words, words), 0, empty, empty, empty.astype(np.int8), False))
