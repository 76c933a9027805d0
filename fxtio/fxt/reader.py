"""The reader: a summary of a trace, its records as typed objects, and its tables; all of it batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.columns import (
    Block,
    Columns,
    ManyColumn,
    Members,
    OptionalColumn,
    StreamColumn,
    WordsColumn,
    columns_of,
    members_of,
)
from fxtio.codec.generate import Order
from fxtio.codec.parts import Part, Stream
from fxtio.codec.record import Opaque, Record, layout_of
from fxtio.display import MAX_ROWS
from fxtio.fxt.batch_tables import BatchTables
from fxtio.fxt.enums import ObjectType
from fxtio.fxt.frames import GAP, Frame, FrameReader, OpaqueGap, exact_records
from fxtio.fxt.live_source import arranged
from fxtio.fxt.packed import PackedSource, index_of
from fxtio.fxt.records import ARGUMENTS, RECORDS, TIMED, KernelObject, Thread, ThreadReference
from fxtio.fxt.reference_columns import StringColumn, ThreadColumn
from fxtio.fxt.slots import Clock
from fxtio.fxt.state import Batch, Reading
from fxtio.fxt.tables import TABLES, WITH_ARGUMENTS, BatchCollector
from fxtio.io.reading import TraceInfo, pairs_of
from fxtio.io.source import Source
from fxtio.readers import FileReader
from fxtio.report import ReportTable
from fxtio.table import Table

MAX_GAP_BYTES = 1 << 20
"""The most bytes of a gap; a longer one is divided."""


@dataclass(slots=True)
class ProviderSummary:
    """A provider of a trace.

    Attributes:
        id: its id.
        name: its name.
        records: the number of its records.
        clock: its clock.
    """

    id: int
    name: str
    records: int
    clock: Clock

    def as_json(self) -> dict[str, Any]:
        """Return these attributes and those of the clock."""
        clock = {name: getattr(self.clock, name) for name in ("ticks_per_second", "base_ticks", "wall_clock")}
        return {"id": self.id, "name": self.name, "records": self.records, **clock}


@dataclass(slots=True)
class Info(TraceInfo):
    """A summary of a trace.

    Attributes:
        byte_order: `little` or `big`.
        providers: the providers, in the order of their first record.
        processes: names of processes by koid.
        threads: names of threads by koid.

    The end is that of the last complete event if it is later than all other times.
    """

    byte_order: str = "little"
    providers: list[ProviderSummary] = field(default_factory=list)
    processes: dict[int, str] = field(default_factory=dict, metadata=pairs_of("koid", "name"))
    threads: dict[int, str] = field(default_factory=dict, metadata=pairs_of("koid", "name"))

    def as_json(self) -> dict[str, Any]:
        """Return these attributes for `fxtio.report.json_document`."""
        return TraceInfo.as_json(self) | {"providers": [provider.as_json() for provider in self.providers]}

    def _form(self) -> str:
        return f"{self.format}, {self.byte_order}-endian{f', {self.compression}' if self.compression else ''}"

    def _report_tables(self) -> Iterator[ReportTable]:
        yield from TraceInfo._report_tables(self)  # a dataclass with slots is another class than `super` would know
        providers = [(str(one.id), one.records, one.clock.ticks_per_second, one.name) for one in self.providers]
        yield ReportTable([">provider", ">records", ">ticks/s", "name"], providers)
        for title, names in (("process", self.processes), ("thread", self.threads)):
            if names:
                rows = [(str(koid), name) for koid, name in islice(names.items(), MAX_ROWS)]
                yield ReportTable([f">{title}", "name"], rows, len(names) - len(rows))


class Entry(NamedTuple):
    """A record with its place and time.

    Attributes:
        offset: the record's byte offset in the (decompressed) trace.
        time: its time in nanoseconds, or None.
        record: the record.
        end_time: the end of a complete event in nanoseconds, or None.
        provider: the id of the provider that wrote it.
    """

    offset: int
    time: int | None
    record: Any
    end_time: int | None
    provider: int


class FxtTrace(FileReader[Info]):
    """A trace in the Fuchsia trace format.

    Args:
        target: what to read, see `fxtio.open`.
        max_record_bytes: the largest record in bytes that is read into memory; a larger one is a fault.  By default, a
            large blob is read if all of its bytes are there, and if a compressed trace has no record over 1 GiB.
        options: see `fxtio.readers.FileReader`.

    Attributes:
        tail: the bytes at the end of the last reading that are not a whole word.

    Raises:
        ValueError: `max_record_bytes` is negative.
    """

    format = "fxt"
    table_names: ClassVar[tuple[str, ...]] = tuple(TABLES)

    def __init__(self, target: Any, *, max_record_bytes: int | None = None, **options: Any) -> None:
        if max_record_bytes is not None and max_record_bytes < 0:
            raise ValueError(f"max_record_bytes is {max_record_bytes}; it cannot be negative")
        super().__init__(target, **options)
        self._max_record_bytes = max_record_bytes
        self.tail = b""
        self._last_provider = 0  # the id of the provider that they come from
        self._range: tuple[int | None, int | None] | None = None
        self._times: Info | None = None

    def narrow(self, start: int | None, end: int | None) -> None:
        """From now on, read only what a range of times needs, if the trace is packed, see `fxtio.fxt.packed`."""
        self._range = start, end

    def portion(self, size: int) -> tuple[int, int] | None:
        """Return a range of times for which at most this many bytes are read, if the trace is packed and larger."""
        with closing(super()._open()) as source:
            index = index_of(source)
        return None if index is None else index.portion(size)

    @property
    def times(self) -> Info:
        """A summary of which only times matter; that of a packed trace is there without reading the records."""
        if self._info is None and self._times is None and self._can_reopen:
            with closing(super()._open()) as source:
                index = index_of(source)
            if index is not None:
                self._times = Info(self.name, self.format)
                self._times.start, self._times.end = index.extent or (None, None)
                self._times.set_started_at(index.wall_clock)
        return self._times or self.info

    def _open(self) -> Source:
        source = super()._open()
        if not self._can_reopen:
            return source
        if self._range is not None and (index := index_of(source)) is not None:
            return PackedSource(source, index, *self._range)
        return arranged(source)

    def records(self, *, resolve: bool = True) -> Iterator[Any]:
        """Yield the records as typed objects, in the order of the file; chunks of an unfinished recording by time.

        Args:
            resolve: replace slots of the tables by the strings and threads that they refer to; a slot that is not
                defined stays an int.  If false, references stay as they are, what would not be encoded to the same
                bytes is `Opaque`, and bytes that are not a record are `OpaqueGap`, at most `MAX_GAP_BYTES` each.
                Passing all of them to `FxtWriter.put` copies the trace, if the writer has the trace's byte order.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        if resolve:
            for batch in self.record_batches(forget=True):
                yield from _resolved(batch)
        else:
            for run in self._exact_runs(with_times=False):
                yield from _exact(run) if isinstance(run, Batch) else (entry.record for entry in run)

    def entries(self, *, resolve: bool = True) -> Iterator[Entry]:
        """Yield the records as from `records`, with their places and times.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        if not resolve:
            for run in self._exact_runs(with_times=True):
                yield from _entries(run, _exact(run), with_times=True) if isinstance(run, Batch) else run
            return
        for batch in self.record_batches(forget=True):
            yield from _entries(batch, _resolved(batch), with_times=True)

    def _exact_runs(self, *, with_times: bool) -> Iterator[Batch | list[Entry]]:
        """Yield the batches without gaps; of the others, all records and gaps with references as they are.

        Gaps that follow each other are joined, so that they do not depend on how the trace is divided into frames.

        Args:
            with_times: entries have times, which costs to find.
        """
        gap = None
        for batch in self.record_batches(forget=True, gaps=True):
            has_gaps = (batch.frame.kind == GAP).any()
            if gap is not None and (not has_gaps or batch.frame.kind[0] != GAP):
                yield [gap]
                gap = None
            if not has_gaps:
                yield batch
                continue
            entries: list[Entry] = []
            for entry in _entries(batch, _exact(batch), with_times=with_times):
                if type(entry.record) is OpaqueGap:
                    *full, gap = _divided(gap, entry)
                    entries += full
                    continue
                if gap is not None:
                    entries.append(gap)
                    gap = None
                entries.append(entry)
            yield entries
        if self.tail:
            provider = self._last_provider
            tail = Entry(self.position - len(self.tail), None, OpaqueGap(self.tail), None, provider)
            yield _divided(gap, tail)
        elif gap is not None:
            yield [gap]

    def _read_batches(self, names: tuple[str, ...]) -> Iterator[dict[str, Table]]:
        for batch in self.record_batches(forget=True, name_objects=not WITH_ARGUMENTS.isdisjoint(names)):
            collector = BatchCollector(names)
            collector.add(BatchTables(batch))
            yield collector.tables(batch)

    def _read_tables(self, names: tuple[str, ...]) -> dict[str, Table]:
        collector = BatchCollector(names, lambda: self.share)
        last: Batch | None = None
        for last in self.record_batches(forget=False, name_objects=not WITH_ARGUMENTS.isdisjoint(names)):
            collector.add(BatchTables(last))
        if last is None:
            last = _empty_batch(Reading(self.findings))
            collector.add(BatchTables(last))
        return collector.tables(last)

    def record_batches(
        self, *, forget: bool, gaps: bool = False, name_objects: bool = False, words: int | None = None
    ) -> Iterator[Batch]:
        """Read the trace from its beginning; yield batches, each valid until the next one is requested.

        Args:
            forget: bound the memory for strings and threads, see `fxtio.fxt.state.Reading`.
            gaps: the batches have rows for the gaps between records, see `fxtio.fxt.frames.FrameReader`.
            name_objects: keep the names of objects, see `fxtio.fxt.state.Reading`.
            words: how large batches are, see `fxtio.fxt.frames.FrameReader`.
        """
        with self._reading() as (source, findings):
            reading = Reading(findings, forget=forget, name_objects=name_objects)
            limit = self._max_record_bytes
            frames = FrameReader(source, findings, max_record_bytes=limit, gaps=gaps, words=words)
            for frame in frames:
                self.share = source.position / source.size if source.size else 0.0
                self.position = source.position
                yield reading.enter(frame)
                self._report_progress(source)
            self.tail, self._last_provider = frames.tail, reading.providers[reading.current].id

    def names_of_objects(self) -> tuple[dict[int, str], dict[int, str]]:
        """Return the names of processes and those of threads by koid, as in `info`; reads the trace unless `info` did.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        info = self._info
        if info is None:
            info = Info(self.name, self.format)
            for batch in self.record_batches(forget=True):
                _note_names(info, batch)
        return info.processes, info.threads

    def copy_bytes(self, write: Callable[[memoryview], object]) -> tuple[Order, bool]:
        """Read the trace from its beginning, and pass on all of its bytes, decompressed, whatever they are.

        Args:
            write: takes the bytes, part by part.

        Returns:
            The byte order, and whether the last record or word is not complete.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        with self._reading() as (source, findings):
            reading = Reading(findings, forget=True)
            frames = FrameReader(source, findings, on_read=write, max_record_bytes=self._max_record_bytes)
            for frame in frames:
                reading.enter(frame)
                self._report_progress(source)
            return "big" if frames.big_endian else "little", frames.is_cut

    def _summarize(self) -> Info:
        info = Info(self.name, self.format)
        counts = np.zeros(len(RECORDS.classes) + 1, np.int64)
        by_provider: Counter[int] = Counter()
        reading = None
        narrowed, self._range = self._range, None
        try:
            for batch in self.record_batches(forget=True):
                reading = batch.reading
                info.byte_order = batch.frame.order
                counts += np.bincount(batch.frame.kind + 1, minlength=len(counts))
                indices = np.broadcast_to(batch.provider, len(batch))
                for index, count in zip(*np.unique(indices, return_counts=True), strict=True):
                    by_provider[int(index)] += int(count)
                _note_times(info, batch)
                _note_names(info, batch)
        finally:
            self._range = narrowed
        class_names = ["Opaque", *(cls.__name__ for cls in RECORDS.classes)]
        info.records = Counter({name: int(count) for name, count in zip(class_names, counts, strict=True) if count})
        info.size, info.compression = self.position, self.compression
        if reading is not None:
            info.providers = [
                ProviderSummary(provider.id, provider.name, by_provider[index], reading.clock_of.get(index, Clock()))
                for index, provider in enumerate(reading.providers)
                if by_provider[index]
            ]
            info.set_started_at(reading.first_wall_clock)
        return info


def _note_times(info: Info, batch: Batch) -> None:
    """Extend `start` and `end` of a summary by the times of a batch."""
    for cls in batch.classes():
        if cls not in TIMED:
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
    """Add the names of processes and threads in a batch to a summary."""
    rows, columns = batch.columns(KernelObject)
    if not len(rows):
        return
    names = batch.string_codes(columns["name"], rows).tolist()
    values = batch.strings.values
    for kind, koid, name in zip(columns["object_type"].tolist(), columns["koid"].tolist(), names, strict=True):
        if kind in (ObjectType.PROCESS, ObjectType.THREAD) and name >= 0:
            by_koid = info.processes if kind == ObjectType.PROCESS else info.threads
            by_koid[koid] = values[name]


def _empty_batch(reading: Reading) -> Batch:
    """Return a batch without records."""
    words = np.zeros(1, np.uint64)
    empty = np.empty(0, np.int64)
    return reading.enter(Frame(Block(words, words), 0, empty, empty, empty.astype(np.int8), False))


# ---- records from columns: `map(Record, *columns)`, without Python code per record


def _resolved(batch: Batch) -> list[Any]:
    """Return all records of a batch in the order of the file, with strings and threads instead of slots.

    A reference to a slot that is not defined stays an int.  A record that cannot be decoded is `Opaque`.
    """
    frame = batch.frame
    out = np.empty(len(batch), object)
    count = 0
    for cls in batch.classes():
        rows, columns = batch.columns(cls)
        members = batch.arguments(cls)[1] if "args" in columns else None
        records = _records(cls, columns, members, rows, batch)
        if len(rows) == len(batch):
            return records
        out[rows] = records
        count += len(rows)
    if count < len(batch):
        for row in np.flatnonzero(out == None).tolist():  # noqa: E711  # elementwise
            out[row] = Opaque(frame.raw(row))
    result: list[Any] = out.tolist()
    return result


def _exact(batch: Batch) -> Iterator[Any]:
    """Yield all records of a batch with references as they are; `Opaque` for what would be encoded to other bytes."""
    batch.check()
    yield from exact_records(batch.frame)


def _entries(batch: Batch, records: Iterable[Any], *, with_times: bool) -> Iterator[Entry]:
    """Return the records of a batch with their places and, on request, times."""
    time, end = np.full((2, len(batch)), None, object)
    for cls in batch.classes():
        if with_times and cls in TIMED:
            rows, columns = batch.columns(cls)
            time[rows] = batch.times(columns["timestamp"], rows)
            if "end" in columns:
                end[rows] = batch.times(columns["end"], rows)
    providers = batch.provider_ids(np.arange(len(batch)))
    return map(Entry, batch.frame.offsets.tolist(), time.tolist(), records, end.tolist(), providers.tolist())


def _divided(before: Entry | None, gap: Entry) -> list[Entry]:
    """Return a gap, joined to the one before it if there is one, in parts of `MAX_GAP_BYTES`; only the last is open."""
    first = gap if before is None else before
    raw = gap.record.raw if before is None else before.record.raw + gap.record.raw
    return [
        first._replace(offset=first.offset + begin, record=OpaqueGap(raw[begin : begin + MAX_GAP_BYTES]))
        for begin in range(0, len(raw), MAX_GAP_BYTES)
    ]


def records_at(batch: Batch, cls: type[Record], rows: Array) -> list[Any]:
    """Return some records of a class as `FxtTrace.records` yields them; none of them is too short for its content.

    Args:
        batch: the batch.
        cls: the class.
        rows: the numbers of the records, ascending.
    """
    frame = batch.frame
    columns, _ = columns_of(cls, frame.block, frame.at[rows], frame.size[rows], [])
    members = members_of(ARGUMENTS, frame.block, columns["args"]) if "args" in columns else None
    return _records(cls, columns, members, rows, batch)


def _records(cls: type[Record], columns: Columns, members: Members | None, rows: Array, batch: Batch) -> list[Any]:
    """Return records of a class from their columns; `members` are their arguments, if the class has some."""
    if not columns:
        return [cls() for _ in range(len(rows))]
    lists = _lists(cls, columns, rows, batch)
    if members is not None:
        lists["args"] = _arguments(members, rows, batch)
    return list(map(cls, *(lists[name] for name in columns)))


def _lists(cls: type[Record], columns: Columns, rows: Array, batch: Batch) -> dict[str, Iterable[Any]]:
    """Return the columns of records as iterables of Python values, but not their arguments."""
    parts = dict(layout_of(cls).parts)
    return {
        name: _values(parts[name], column, rows, batch)
        for name, column in columns.items()
        if not isinstance(column, ManyColumn)
    }


def _values(part: Part, column: Any, rows: Array, batch: Batch) -> Iterable[Any]:
    """Return the column of a part as an iterable of Python values."""
    if isinstance(column, np.ndarray):
        values: list[Any] = column.tolist()
        return values
    if isinstance(column, StringColumn):
        codes = batch.string_codes(column, rows)
        return _referred(batch.strings.objects(), codes, column.slot)
    if isinstance(column, ThreadColumn):
        codes = batch.thread_codes(column, rows)
        threads = _referred(batch.threads.objects(), codes, column.slot)
        if isinstance(part, ThreadReference) and part.process_only:  # a slot of the table has a thread, too
            return [Thread(value.process, None) if isinstance(value, Thread) else value for value in threads]
        return threads
    if isinstance(column, StreamColumn):
        streams = column.to_bytes()
        is_text = isinstance(part, Stream) and part.text
        return [stream.decode("utf-8", "surrogateescape") for stream in streams] if is_text else streams
    if isinstance(column, OptionalColumn):
        pairs = zip(column.values.tolist(), column.present.tolist(), strict=True)
        return [value if present else None for value, present in pairs]
    assert isinstance(column, WordsColumn)
    ends = column.at + column.count
    return [tuple(column.words[a:b].tolist()) for a, b in zip(column.at.tolist(), ends.tolist(), strict=True)]


def _referred(objects: Array, codes: Array, slot: Array) -> list[Any]:
    """Return the objects with the given codes, and the slots where there is no code."""
    values = objects.take(codes)
    undefined = np.flatnonzero(codes < 0)
    values[undefined] = slot[undefined]
    result: list[Any] = values.tolist()
    return result


def _arguments(members: Members, rows: Array, batch: Batch) -> Iterable[tuple[Any, ...]]:
    """Return the arguments of each of some records as a tuple."""
    many = members.many
    if not len(many.at):
        return [()] * len(rows)
    owners = np.repeat(rows, many.count)
    flat = np.empty(len(many.at), object)
    for kind, indices, columns in members.groups:
        if kind < 0:
            data, at = batch.frame.block.data, many.at[indices]
            ends = at + many.size[indices]
            raw = [bytes(data[a * 8 : b * 8]) for a, b in zip(at.tolist(), ends.tolist(), strict=True)]
            flat[indices] = list(map(Opaque, raw))
        else:
            cls = ARGUMENTS.classes[kind]
            flat[indices] = list(map(cls, *_lists(cls, columns, owners[indices], batch).values()))
    return _tuples(flat, many.count)


def _tuples(flat: Array, counts: Array) -> Iterable[tuple[Any, ...]]:
    """Divide an array of objects into tuples of the given lengths."""
    count = int(counts[0])
    if count and (counts == count).all():
        columns = [flat[number::count].tolist() for number in range(count)]
        return zip(*columns, strict=True)
    items = flat.tolist()
    ends = np.cumsum(counts)
    return [tuple(items[a:b]) for a, b in zip((ends - counts).tolist(), ends.tolist(), strict=True)]
