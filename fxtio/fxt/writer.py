"""The writer of a trace: records as they are, events by method calls, columns and tables.

Method calls and columns use the string and thread tables of a provider, which the writer fills by itself: when a table
is full its slots are defined anew, but never one that the record being written refers to.  The preamble (magic number,
provider, clock) is written before the first of these, so that a trace made with `put` alone has only what was put.

A call writes all of its records or, if a value is refused, nothing: see `Call`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, get_args

from fxtio.codec.generate import Order, encode, encode_buffers, view_of
from fxtio.codec.record import Opaque, Record
from fxtio.errors import EncodeError, shown
from fxtio.fxt.encode import (
    check_defined,
    event_table,
    providers_of,
    table_records,
)
from fxtio.fxt.enums import BlobType, ObjectType, ProviderEventId, Scope, ThreadState
from fxtio.fxt.event_columns import EventColumns, event_columns, words_of_events
from fxtio.fxt.events import BUFFER_BYTES, Args, ProviderEncoder
from fxtio.fxt.frames import OpaqueGap
from fxtio.fxt.layout import MAX_BLOB_BYTES, MAX_PROVIDER_ID
from fxtio.fxt.records import (
    RECORDS,
    Blob,
    ContextSwitch,
    Initialization,
    KernelObject,
    Koid,
    KoidArgument,
    LargeBlob,
    LargeBlobNoMetadata,
    LegacyContextSwitch,
    Log,
    Magic,
    Pointer,
    ProfilerBacktrace,
    ProfilerMmap,
    ProfilerModule,
    ProviderEvent,
    ProviderInfo,
    ProviderSection,
    String,
    Thread,
    ThreadRecord,
    ThreadWakeup,
    UserspaceObject,
)
from fxtio.fxt.slots import NS_PER_SECOND, Clock
from fxtio.fxt.tables import DEFAULT_MMAP_FLAGS, WRITABLE_TABLES
from fxtio.io.writing import FileWriter
from fxtio.table import Table, checked_columns

if TYPE_CHECKING:
    from fxtio.fxt.reader import FxtTrace

_RECORDS = frozenset({*RECORDS.classes, Opaque, OpaqueGap})

_UNUSUAL = frozenset({OpaqueGap, Opaque, String, ThreadRecord, LargeBlob, LargeBlobNoMetadata})
"""The classes of records that are not just encoded: large payloads, raw bytes, definitions of slot 0."""

_CHANGES_STATE = (Opaque, ProviderInfo, ProviderSection, Initialization, String, ThreadRecord)


class FxtWriter(FileWriter):
    """Writes a trace in the Fuchsia trace format.  A trace without records has a preamble too, written by `close`.

    Args:
        target: where to write, see `fxtio.create`.
        provider: the name of the main provider, whose records all methods but `put` write.
        provider_id: its id.
        ticks_per_second: the tick rate of its clock; by default a tick is a nanosecond.
        base_ticks: the tick at which `wall_clock` was read; 0 unless given.
        wall_clock: nanoseconds since the Unix epoch at `base_ticks`.
        order: the byte order, `little` or `big`; a copy has that of the copied trace.

    Raises:
        EncodeError: the format cannot represent the clock or the provider, or there is no such byte order.
        OSError: the target cannot be created.
    """

    format = "fxt"
    writable_tables = WRITABLE_TABLES

    def __init__(
        self,
        target: Any,
        *,
        provider: str = "fxtio",
        provider_id: int = 1,
        ticks_per_second: int = NS_PER_SECOND,
        base_ticks: int | None = None,
        wall_clock: int | None = None,
        order: Order = "little",
    ) -> None:
        if order not in get_args(Order):
            raise EncodeError(f"{shown(order)} is not one of {', '.join(get_args(Order))}", "order")
        if wall_clock is not None and base_ticks is None:
            base_ticks = 0
        if wall_clock is None and base_ticks is not None:
            raise EncodeError("has no meaning without wall_clock", "base_ticks")
        self._out = bytearray()
        self._order: Order = order
        main = Provider(self, provider_id, provider, Initialization(ticks_per_second, base_ticks, wall_clock))
        self._providers = {main.id: main}
        self._main = main
        self._current: Provider | None = None  # the provider that the next record belongs to
        self._is_empty = True  # nothing was written
        self._is_cut = False  # a copied trace ends within a record or a word
        self._uses_tables = False  # the tables of at least one provider are in use
        self._depth = 0  # of calls within calls
        super().__init__(target, self._out)

    def _finish(self) -> None:
        if self._is_empty:
            with Call(self._main):
                pass
        self._make_current(None)  # so that later events begin a `Call`, which is refused

    def _make_current(self, provider: Provider | None) -> None:
        """Let the next record belong to a provider; None lets every provider write its section record first."""
        if self._current is not None:
            self._current._encoder.is_current = False
        self._current = provider
        if provider is not None:
            provider._encoder.is_current = True

    def _append(self, buffers: Iterable[bytes | memoryview]) -> None:
        """Append the bytes of records; long buffers are not copied."""
        for buffer in buffers:
            if len(buffer) > BUFFER_BYTES:
                self.flush()
                self._sink.write(buffer)
                continue
            self._out += buffer
            if len(self._out) > BUFFER_BYTES:
                self.flush()

    def _check_end(self) -> None:
        """Refuse a record after a trace that ends within another one, as whose rest it would be read."""
        if self._is_cut:
            raise EncodeError("the copied trace ends within a record, so nothing can be written after it", "record")

    # Records.

    def put(self, record: Record | Opaque) -> None:
        """Append a record as it is: references stay as they are, and no preamble is written.

        Raises:
            EncodeError: the format cannot represent it; nothing was written.
            ValueError: the writer is closed.
        """
        self._check_open()
        self._check_end()
        if type(record) not in _RECORDS:
            raise EncodeError(f"{type(record).__name__} is not a record", "record")
        buffers = self._buffers(record) if type(record) in _UNUSUAL else (encode(record, self._order),)
        if self._uses_tables and isinstance(record, _CHANGES_STATE):
            # Slots may have other values now: every provider begins with empty tables when it writes again.
            self._uses_tables = False
            self._make_current(None)
            for provider in self._providers.values():
                provider._is_introduced = False
        self._is_empty = False
        self._append(buffers)

    def _buffers(self, record: Any) -> Sequence[bytes | memoryview]:
        """Return the bytes of a record of a class in `_UNUSUAL`."""
        if type(record) is OpaqueGap:
            return (_gap(record),)
        if type(record) in (String, ThreadRecord) and type(record.index) is int and record.index == 0:
            return (_slot_zero(record, self._order),)
        buffers = encode_buffers(record, self._order)
        header = int.from_bytes(buffers[0][:8], self._order)
        if type(record) is Opaque and RECORDS.size_of(header) * 8 != len(record.raw):
            raise EncodeError("raw bytes do not have the size that their header states", "record")
        return buffers

    def _copy(self, trace: FxtTrace) -> None:
        if not self._is_empty:
            raise EncodeError("a trace is copied to a writer to which nothing was written", "trace")
        self._is_empty = False
        self._order, self._is_cut = trace.copy_bytes(self._sink.write)
        for provider in self._providers.values():
            provider._use_order()

    # Events.

    def provider(self, name: str, id: int | None = None, *, ticks_per_second: int = NS_PER_SECOND) -> Provider:
        """Add a provider with tables and a clock of its own; its records may be mixed with those of others.

        Args:
            name: its name, at most 255 bytes.
            id: its id; by default the next one that is free.
            ticks_per_second: the tick rate of its clock.

        Raises:
            EncodeError: the id is in use, the name is too long, or the tick rate is not positive.
            ValueError: the writer is closed.
        """
        self._check_open()
        number = self._free_id() if id is None else id
        provider = Provider(self, number, name, Initialization(ticks_per_second))
        number = provider.id
        if number in self._providers:
            raise EncodeError(f"{number} is the id of {self._providers[number].name!r}", "provider id")
        self._providers[number] = provider
        return provider

    def _free_id(self) -> int:
        """Return the id after the largest one that is in use or, if there is none, the smallest that is not."""
        largest = max(self._providers)
        return largest + 1 if largest < MAX_PROVIDER_ID else next(n for n in count(1) if n not in self._providers)

    def thread(self, process: int, thread: int, name: str | None = None, process_name: str | None = None) -> Track:
        """Return the track of a thread of the main provider, see `Provider.thread`."""
        return self._main.thread(process, thread, name, process_name)

    @property
    def main(self) -> Provider:
        """The main provider."""
        return self._main

    # Tables.

    def write_table(self, name: str, columns: Table | Mapping[str, Any]) -> int:
        """Append the rows of a table, the inverse of `FxtTrace.table`.

        Times are given as `ticks`, or as `time` in nanoseconds.  Types, states and scopes are given by their names or
        numbers; a table of a trace with numbers that have no name is not written, see `copy` and `put`.  Rows of a
        provider that the writer does not have are written as those of a provider without a name, with the tick rate of
        the main provider.

        Args:
            name: one of `writable_tables`.
            columns: a table, or columns by name: arrays, `Categories`, `Optional`, lists, or one value for all rows.
                The table `events` may have the column `args`: a mapping from names of arguments to columns of
                integers, floats, booleans or text; an event for which it is null does not have the argument.  Values
                that an event does not have, such as the `id` of an instant, must be null.

        Returns:
            The number of rows.

        Raises:
            EncodeError: a column is missing or unknown, or a value does not fit; nothing was written.
            ValueError: the writer is closed.
        """
        table_name: Any = name  # both are checked by the base class
        given_columns: Any = columns
        is_events = isinstance(table_name, str) and table_name == "events"
        if not is_events or not isinstance(given_columns, Table | Mapping) or "args" not in given_columns:
            return super().write_table(name, columns)
        self._check_open()
        args = {} if columns["args"] is None else columns["args"]
        if not isinstance(args, Mapping):
            raise EncodeError(f"a {type(args).__name__} is not a mapping from names to columns", "args")
        table = self.writable_tables[name]
        keys = {key: f"args[{key!r}]" for key in args}
        if clashes := [column for column in keys.values() if column in columns]:
            raise EncodeError("is not a column of this table; the column args has the arguments", clashes[0])
        given = {column: columns[column] for column in columns if column != "args"}
        given |= {keys[key]: value for key, value in args.items()}
        optional = (*(column for column in table.optional if column != "args"), *keys.values())
        checked, rows = checked_columns(given, table._replace(optional=optional))
        if rows:
            self._write_events(checked, {key: checked.pop(keys[key]) for key in keys if keys[key] in checked}, rows)
        return rows

    def _write_rows(self, name: str, columns: dict[str, Any], rows: int) -> None:
        if name == "events":
            self._write_events(columns, {}, rows)
            return
        encoded = table_records(name, columns, rows, self._clock_of, self._order)
        provider_of = self._providers_of(number for number, _ in encoded)
        for number, buffers in encoded:
            with Call(provider_of[number]):
                pass
            self._append(buffers)

    def _write_events(self, columns: dict[str, Any], args: dict[str, Any], rows: int) -> None:
        table = event_table(columns, args, rows, self._clock_of)
        runs = list(providers_of(columns, rows))
        provider_of = self._providers_of(number for number, _ in runs)
        for number, run in runs:
            for groups in table.parts(run):
                provider_of[number]._write_groups(groups)

    def _clock_of(self, number: int | None) -> Clock:
        """Return the clock of a provider, by its id; None stands for the main provider."""
        provider = self._main if number is None else self._providers.get(number, self._main)
        return Clock(provider._clock.ticks_per_second)

    def _providers_of(self, numbers: Iterable[int | None]) -> dict[int | None, Provider]:
        """Return providers by their ids, all of them or, if one cannot be made, EncodeError and no new one."""
        before = dict(self._providers)
        try:
            return {number: self._provider_of(number) for number in dict.fromkeys(numbers)}
        except EncodeError:
            self._providers = before
            raise

    def _provider_of(self, number: int | None) -> Provider:
        """Return a provider by its id, a new one if there is none; None stands for the main provider."""
        if number is None:
            return self._main
        if number not in self._providers:
            return self.provider("", number, ticks_per_second=self._main._clock.ticks_per_second)
        return self._providers[number]


class Call:
    """The context of a call that writes records of a provider; if it raises an error, nothing of the call is written.

    A call appends to the buffer of the provider's encoder, which is what `with` returns, and does not flush it.  A call
    within another one is part of it.

    Raises:
        ValueError: the writer is closed.
    """

    __slots__ = ("_before", "_provider", "_savepoint")

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    def __enter__(self) -> ProviderEncoder:
        provider = self._provider
        writer, encoder = provider._writer, provider._encoder
        if writer._closed:
            writer._check_open()
        writer._check_end()
        if not writer._depth and len(writer._out) > BUFFER_BYTES:
            writer.flush()
        self._before = writer._current, writer._is_empty, writer._uses_tables, provider._is_introduced
        self._savepoint = encoder.savepoint()
        provider._enter()  # appends constant bytes: it cannot fail
        writer._depth += 1
        return encoder

    def __exit__(self, error: type[BaseException] | None, *details: object) -> None:
        provider = self._provider
        writer = provider._writer
        writer._depth -= 1
        if error is not None:
            provider._encoder.restore(self._savepoint)
            current, writer._is_empty, writer._uses_tables, provider._is_introduced = self._before
            writer._make_current(current)


class Provider:
    """A provider of a trace: a string table, a thread table and a clock.  `FxtWriter.provider` makes them."""

    def __init__(self, writer: FxtWriter, id: int, name: str, clock: Initialization) -> None:
        self.id = id
        self.name = name
        self._writer = writer
        self._clock = clock
        self._is_introduced = False
        self._encoder = ProviderEncoder(writer._out, writer._order, self._call)
        self._use_order()
        self.id = operator.index(id)
        if clock.ticks_per_second == 0:
            raise EncodeError("must not be 0", "ticks_per_second")

    def _use_order(self) -> None:
        """Encode the records that introduce the provider, in the byte order of the trace."""
        order = self._encoder.order = self._writer._order
        self._section = encode(ProviderSection(self.id), order)
        self._preamble = encode(ProviderInfo(self.id, self.name), order) + self._section + encode(self._clock, order)

    def _call(self) -> Call:
        """Return the context of a call that writes records of this provider."""
        return Call(self)

    def _enter(self) -> None:
        """Make this the provider that the next record belongs to."""
        writer = self._writer
        if not self._encoder.is_current:
            if writer._is_empty:
                writer._out += encode(Magic(), writer._order)
                writer._is_empty = False
            if not self._is_introduced:
                self._encoder.clear()
            writer._out += self._section if self._is_introduced else self._preamble
            self._is_introduced = writer._uses_tables = True
            writer._make_current(self)
        self._encoder.reserve_strings()

    def _put(self, make: Callable[[ProviderEncoder], Record]) -> None:
        """Append the record that a function makes, with the help of the encoder."""
        with Call(self) as encoder:
            encoder.out += encode(make(encoder), encoder.order)

    def _put_large(self, make: Callable[[ProviderEncoder], Record]) -> None:
        """Append the large record that a function makes; its payload is not copied."""
        with Call(self) as encoder:
            buffers = encode_buffers(make(encoder), encoder.order)
        self._writer._append(buffers)

    def thread(self, process: int, thread: int, name: str | None = None, process_name: str | None = None) -> Track:
        """Return the track of a thread, which has the methods to write its events.

        Args:
            process: the process koid; below 2**31 for Perfetto, which cuts off the other bits.
            thread: the thread koid; the same is true of it.
            name: the name of the thread, written as a kernel object record.
            process_name: the name of its process, written as a kernel object record.

        Raises:
            EncodeError: the format cannot represent a koid or a name.
            ValueError: the writer is closed, and there is a name to write.
        """
        if name is None and process_name is None:
            return Track(self, process, thread)
        with Call(self):
            track = Track(self, process, thread)
            if process_name is not None:
                self.kernel_object(ObjectType.PROCESS, process, process_name)
            if name is not None:
                self.kernel_object(ObjectType.THREAD, thread, name, {"process": Koid(process)})
        return track

    def kernel_object(self, object_type: int, koid: int, name: str, args: Args = None) -> None:
        """Give a name to a kernel object.  A thread should have the argument `process`, a `Koid`.

        Raises:
            EncodeError: the format cannot represent it, or the type is not an `ObjectType`; nothing was written.
            ValueError: the writer is closed.
        """
        self._writer._check_open()
        check_defined(object_type, ObjectType, "object_type")
        self._put(lambda e: KernelObject(object_type, koid, e.string_slot(name), e.arguments(args)))

    def userspace_object(self, pointer: int, process: int, name: str, args: Args = None) -> None:
        """Give a name to the object that `pointer` points at in a process."""
        self._put(
            lambda e: UserspaceObject(pointer, Thread(process, None), e.string_slot(name), e.arguments(args))
        )  # fmt: skip

    def blob(self, name: str, data: bytes, blob_type: int = BlobType.DATA) -> None:
        """Append to a named byte stream.

        More than 32,000 bytes of the type `DATA` are written as a large blob, which has no type.  Those of another type
        are written as several blob records, which continue each other.

        Raises:
            EncodeError: the format cannot represent it, or the type is not a `BlobType`; nothing was written.
            ValueError: the writer is closed.
        """
        self._writer._check_open()
        check_defined(blob_type, BlobType, "blob_type")
        view: Any = view_of(data, "data")
        if len(view) > MAX_BLOB_BYTES and type(blob_type) in (int, BlobType) and blob_type == BlobType.DATA:
            self._put_large(lambda e: LargeBlobNoMetadata(0, e.string_slot(name), view))
            return
        with Call(self) as encoder:
            slot, order = encoder.string_slot(name), encoder.order
            encoder.out += encode(Blob(slot, blob_type, view[:MAX_BLOB_BYTES]), order)
        # What is true of the first part is true of all: none of them can be refused.
        later = range(MAX_BLOB_BYTES, len(view), MAX_BLOB_BYTES)
        self._writer._append(encode(Blob(slot, blob_type, view[at : at + MAX_BLOB_BYTES]), order) for at in later)

    def context_switch(
        self, timestamp: int, cpu: int, outgoing: int, incoming: int, outgoing_state: int, args: Args = None
    ) -> None:
        """Write that a cpu switches from one thread to another (koids).

        Args:
            timestamp: the time in ticks.
            cpu: the number of the cpu.
            outgoing: the koid of the thread that stops running.
            incoming: the koid of the thread that runs from now on.
            outgoing_state: the state of the former from now on, a `ThreadState`.
            args: may have the weights of the threads.

        Raises:
            EncodeError: the format cannot represent it, or the state is not a `ThreadState`; nothing was written.
            ValueError: the writer is closed.
        """
        self._writer._check_open()
        check_defined(outgoing_state, ThreadState, "outgoing_state")
        self._put(lambda e: ContextSwitch(cpu, outgoing_state, timestamp, outgoing, incoming, e.arguments(args)))

    def thread_wakeup(self, timestamp: int, cpu: int, waking: int, args: Args = None) -> None:
        """Write that a thread (koid) is woken up on a cpu."""
        self._put(lambda e: ThreadWakeup(cpu, timestamp, waking, e.arguments(args)))

    def legacy_context_switch(
        self,
        timestamp: int,
        cpu: int,
        outgoing: Track,
        incoming: Track,
        outgoing_state: int,
        outgoing_priority: int = 0,
        incoming_priority: int = 0,
    ) -> None:
        """Write that a cpu switches from one thread to another, in the older form of the record.

        Raises:
            EncodeError: the format cannot represent it, or the state is not a `ThreadState`; nothing was written.
            ValueError: the writer is closed.
        """
        self._writer._check_open()
        check_defined(outgoing_state, ThreadState, "outgoing_state")
        self._put(
            lambda e: LegacyContextSwitch(
                cpu, outgoing_state, outgoing_priority, incoming_priority, timestamp,
                _thread_of(outgoing, "outgoing"), _thread_of(incoming, "incoming"),
            )
        )  # fmt: skip

    def module(self, timestamp: int, process: int, module: int, name: str, build_id: bytes) -> None:
        """Describe a module that addresses of a profile belong to."""
        self._put(lambda e: ProfilerModule(module, timestamp, Thread(process, 0), name, build_id))

    def mmap(
        self, timestamp: int, process: int, module: int, start: int, range: int, vaddr: int,
        flags: int = DEFAULT_MMAP_FLAGS,
    ) -> None:  # fmt: skip
        """Write where a module is mapped into memory; flags are 1 read, 2 write, 4 execute."""
        self._put(lambda e: ProfilerMmap(module, flags, timestamp, Thread(process, 0), start, range, vaddr))

    def backtrace(self, timestamp: int, process: int, thread: int, frames: Iterable[int]) -> None:
        """Write a call stack as addresses, innermost first."""
        self._writer._check_open()
        try:
            addresses = tuple(frames)
        except TypeError:
            raise EncodeError(f"{shown(frames)} is not a sequence of addresses", "frames") from None
        self._put(lambda e: ProfilerBacktrace(0, timestamp, Thread(process, thread), addresses))

    def buffer_filled_up(self) -> None:
        """Write that the provider's buffer filled up, so that records were likely lost here."""
        self._put(lambda e: ProviderEvent(self.id, ProviderEventId.BUFFER_FILLED_UP))

    def write_events(self, kind: str, *, timestamp: Any, thread: Any, name: Any, **columns: Any) -> int:
        """Write many events of one kind from columns, without a Python loop per event.

        Args:
            kind: `instant`, `counter`, `duration_begin`, `duration_end`, `duration_complete`, `async_begin`,
                `async_instant`, `async_end`, `flow_begin`, `flow_step` or `flow_end`.
            timestamp: ticks (integers).
            thread: a `Track`, or a pair of a list of tracks (at most 255) and an array of indices into it.
            name: a string, or a `fxtio.table.Categories`, or a pair of a list of strings and an array of indices.
            columns: `category` (as `name`), `args` (a mapping from names to an array of integers, floats or booleans,
                or to text as `name`), `end` (`duration_complete`), `id` (counters, async events, flows).

        Returns:
            The number of events.

        Raises:
            EncodeError: the format cannot represent something; nothing was written.
            ValueError: the writer is closed.
        """
        return self.write_mixed({"kind": kind, "timestamp": timestamp, "thread": thread, "name": name, **columns})

    def write_mixed(self, *groups: Mapping[str, Any]) -> int:
        """Write many events of several kinds from columns, in the order of their times.

        Args:
            groups: the arguments of `write_events`, a mapping for each kind.

        Returns:
            The number of events.

        Raises:
            EncodeError: the format cannot represent something; nothing was written.
            ValueError: the writer is closed.
        """
        self._writer._check_open()
        checked = [event_columns(group) for group in groups]
        self._write_groups(checked)
        return sum(len(group.timestamp) for group in checked)

    def _write_groups(self, groups: list[EventColumns]) -> None:
        with Call(self) as encoder:
            words = words_of_events(encoder, groups)
        if encoder.order == "big":
            words = words.byteswap()
        if len(words):
            self._writer._append([words.data.cast("B")])


def _thread_of(track: Any, where: str) -> Thread:
    if not isinstance(track, Track):
        raise EncodeError(f"{shown(track)} is not a Track", where)
    return track._key


def _slot_zero(record: String | ThreadRecord, order: Order) -> bytes:
    """Return the bytes of a definition of slot 0, which readers ignore.  spec: String record, Thread record"""
    data = encode(record.replace(index=1), order)
    header: int = int.from_bytes(data[:8], order) - type(record).words[0].fields["index"].put(1)
    return header.to_bytes(8, order) + data[8:]


def _gap(gap: OpaqueGap) -> bytes:
    raw: Any = gap.raw
    if type(raw) is not bytes or not raw:
        raise EncodeError(f"{shown(raw)} is not bytes, at least one", "gap")
    return raw


class Track:
    """A thread of a provider, with the methods to write its events.

    All times are ticks of the provider's clock, nanoseconds by default.  Most methods take a `category` and `args`: a
    mapping of at most 15 names to None, bool, int, float, str, bytes, `Koid` or `Pointer`.  What the format cannot
    represent raises `EncodeError`, and no part of the event is written.

    Attributes:
        process: the process koid.
        thread: the thread koid.
    """

    __slots__ = ("_event", "_key", "_number", "_provider", "process", "thread")

    def __init__(self, provider: Provider, process: int, thread: int) -> None:
        encode(ThreadRecord(1, process, thread))  # refuses what is not a koid
        self.process = operator.index(process)
        self.thread = operator.index(thread)
        self._provider = provider
        self._key = Thread(self.process, self.thread)
        self._number = provider._encoder.thread_number(self._key)
        self._event = provider._encoder.put_event

    def instant(self, name: str, timestamp: int, *, category: str = "", args: Args = None) -> None:
        """Write a point in time."""
        self._event("instant", self._number, category, name, timestamp, args, None)

    def complete(self, name: str, start: int, end: int, *, category: str = "", args: Args = None) -> None:
        """Write an operation from `start` to `end`, which is not before it; `put` takes records that are."""
        self._event("duration_complete", self._number, category, name, start, args, end)

    def begin(self, name: str, timestamp: int, *, category: str = "", args: Args = None) -> None:
        """Write the start of an operation; the operations of a thread nest."""
        self._event("duration_begin", self._number, category, name, timestamp, args, None)

    def end(self, name: str, timestamp: int, *, category: str = "", args: Args = None) -> None:
        """Write the end of the innermost open operation."""
        self._event("duration_end", self._number, category, name, timestamp, args, None)

    def counter(
        self, name: str, timestamp: int, values: Mapping[str, float], *, id: int = 0, category: str = ""
    ) -> None:
        """Write samples of counters; every value is a series of its own, with its key as name."""
        self._event("counter", self._number, category, name, timestamp, values, id)

    def async_begin(self, name: str, timestamp: int, id: int, *, category: str = "", args: Args = None) -> None:
        """Write the start of an operation that may move between threads; `id` should be unique in the trace."""
        self._event("async_begin", self._number, category, name, timestamp, args, id)

    def async_instant(self, name: str, timestamp: int, id: int, *, category: str = "", args: Args = None) -> None:
        """Write a point in time in an async operation."""
        self._event("async_instant", self._number, category, name, timestamp, args, id)

    def async_end(self, name: str, timestamp: int, id: int, *, category: str = "", args: Args = None) -> None:
        """Write the end of an async operation; name and category must be those of its begin."""
        self._event("async_end", self._number, category, name, timestamp, args, id)

    def flow_begin(self, name: str, timestamp: int, id: int, *, category: str = "", args: Args = None) -> None:
        """Write the start of an arrow, in the operation that is open on this thread."""
        self._event("flow_begin", self._number, category, name, timestamp, args, id)

    def flow_step(self, name: str, timestamp: int, id: int, *, category: str = "", args: Args = None) -> None:
        """Write that an arrow passes through the operation that is open on this thread."""
        self._event("flow_step", self._number, category, name, timestamp, args, id)

    def flow_end(self, name: str, timestamp: int, id: int, *, category: str = "", args: Args = None) -> None:
        """Write the end of an arrow, in the operation that is open on this thread."""
        self._event("flow_end", self._number, category, name, timestamp, args, id)

    def log(self, message: str, timestamp: int) -> None:
        """Write a log message."""
        self._provider._put(lambda e: Log(timestamp, e.thread_slot(self._key), message))

    def large_blob(self, name: str, data: bytes, timestamp: int, *, category: str = "", args: Args = None) -> None:
        """Write bytes with a time, a thread and arguments.  Perfetto misreads records over 32 KiB."""
        self._provider._writer._check_open()
        view: Any = view_of(data, "data")
        self._provider._put_large(
            lambda e: LargeBlob(
                e.string_slot(category, "category"), e.string_slot(name), timestamp, e.thread_slot(self._key),
                e.arguments(args), view,
            )
        )  # fmt: skip


__all__ = ["FxtWriter", "Koid", "KoidArgument", "Pointer", "Provider", "Scope", "Track"]
