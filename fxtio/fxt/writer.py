"""The writer of a trace: records as they are, events by method calls, columns and tables.

Method calls and columns use the string and thread tables of a provider, which the writer fills by itself: when a table
is full its slots are defined anew, but never one that the record being written refers to.  The preamble (magic number,
provider, clock) is written before the first of these, so that a trace made with `put` alone has only what was put.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fxtio.codec.generate import encode
from fxtio.codec.record import Opaque, Record
from fxtio.errors import EncodeError
from fxtio.fxt.arguments import Argument, Koid, KoidArgument, Pointer
from fxtio.fxt.encode import (
    DEFAULT_MMAP_FLAGS,
    WRITABLE_TABLES,
    EventColumns,
    event_columns,
    event_table,
    providers_of,
    table_records,
    words_of_events,
)
from fxtio.fxt.enums import ObjectType, ProviderEventId, Scope
from fxtio.fxt.events import BUFFER_BYTES, Args, ProviderEncoder
from fxtio.fxt.layout import MAX_BLOB_BYTES
from fxtio.fxt.records import (
    RECORDS,
    Blob,
    ContextSwitch,
    Initialization,
    KernelObject,
    LargeBlob,
    LargeBlobNoMetadata,
    LegacyContextSwitch,
    Log,
    Magic,
    ProfilerBacktrace,
    ProfilerMmap,
    ProfilerModule,
    ProviderEvent,
    ProviderInfo,
    ProviderSection,
    String,
    ThreadRecord,
    ThreadWakeup,
    UserspaceObject,
)
from fxtio.fxt.references import Thread
from fxtio.fxt.state import NS_PER_SECOND, Clock
from fxtio.io.writing import FileWriter
from fxtio.table import Table, checked_columns

if TYPE_CHECKING:
    from fxtio.fxt.reader import FxtTrace

_RECORDS = frozenset({*RECORDS.classes, Opaque})

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

    Raises:
        EncodeError: the format cannot represent the clock or the provider.
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
    ) -> None:
        if wall_clock is not None and base_ticks is None:
            base_ticks = 0
        if wall_clock is None and base_ticks is not None:
            raise EncodeError("has no meaning without wall_clock", "base_ticks")
        self._out = bytearray()
        main = Provider(self, provider_id, provider, Initialization(ticks_per_second, base_ticks, wall_clock))
        self._providers = {provider_id: main}
        self._main = main
        self._is_empty = True  # nothing was written
        self._uses_tables = False  # the tables of at least one provider are in use
        self._is_big_endian = False  # the trace is a copy of a big-endian one
        super().__init__(target, self._out)

    def _finish(self) -> None:
        if self._is_empty:
            self._main._activate()
        self._deactivate()  # so that later events call `_activate`, which refuses them

    def _deactivate(self) -> None:
        """Make every provider write its section record before its next record."""
        for provider in self._providers.values():
            provider._encoder.is_current = False

    def _check_byte_order(self) -> None:
        if self._is_big_endian:
            raise EncodeError("nothing can be appended to the copy of a big-endian trace", "record")

    # Records.

    def put(self, record: Record | Opaque) -> None:
        """Append a record as it is: references stay as they are, and no preamble is written.

        Raises:
            EncodeError: the format cannot represent it; nothing was written.
            ValueError: the writer is closed.
        """
        self._check_open()
        self._check_byte_order()
        if type(record) not in _RECORDS:
            raise EncodeError(f"{type(record).__name__} is not a record", "record")
        data = encode(record)
        if type(record) is Opaque and RECORDS.size_of(int.from_bytes(data[:8], "little")) * 8 != len(data):
            raise EncodeError("raw bytes do not have the size that their header states", "record")
        if self._uses_tables and isinstance(record, _CHANGES_STATE):
            # Slots may have other values now: every provider begins with empty tables when it writes again.
            self._uses_tables = False
            self._deactivate()
            for provider in self._providers.values():
                provider._is_introduced = False
        self._is_empty = False
        self._out += data
        if len(self._out) > BUFFER_BYTES:
            self.flush()

    def _copy(self, trace: FxtTrace) -> None:
        if not self._is_empty:
            raise EncodeError("a trace is copied to a writer to which nothing was written", "trace")
        self._is_empty = False
        self._is_big_endian = trace.copy_bytes(self._sink.write)

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
        number = max(self._providers) + 1 if id is None else id
        if number in self._providers:
            raise EncodeError(f"{number} is the id of {self._providers[number].name!r}", "provider id")
        provider = Provider(self, number, name, Initialization(ticks_per_second))
        self._providers[number] = provider
        return provider

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

        Times are given as `ticks`, or as `time` in nanoseconds.  Rows of a provider that the writer does not have are
        written as those of a provider without a name, with the tick rate of the main provider.

        Args:
            name: one of `writable_tables`.
            columns: a table, or columns by name: arrays, `Categories`, `Optional`, lists, or one value for all rows.
                The table `events` may have the column `args`: a mapping from names of arguments to columns of
                integers, floats, booleans or text; an event for which it is null does not have the argument.

        Returns:
            The number of rows.

        Raises:
            EncodeError: a column is missing or unknown, or a value does not fit; nothing was written.
            ValueError: the writer is closed.
        """
        untyped: Any = columns  # checked by the base class
        if name != "events" or not isinstance(untyped, Table | Mapping) or "args" not in untyped:
            return super().write_table(name, columns)
        self._check_open()
        args = {} if columns["args"] is None else columns["args"]
        if not isinstance(args, Mapping):
            raise EncodeError(f"a {type(args).__name__} is not a mapping from names to columns", "args")
        table = self.writable_tables[name]
        keys = {key: f"args[{key!r}]" for key in args}
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
        self._check_byte_order()
        encoded = list(table_records(name, columns, rows, self._clock_of))
        provider_of = self._providers_of(number for number, _ in encoded)
        for number, data in encoded:
            provider_of[number]._activate().out += data

    def _write_events(self, columns: dict[str, Any], args: dict[str, Any], rows: int) -> None:
        self._check_byte_order()
        table = event_table(columns, args, rows, self._clock_of)
        runs = list(providers_of(columns, rows))
        provider_of = self._providers_of(number for number, _ in runs)
        for number, run in runs:
            for groups in table.chunks(run):
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

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Undo what was written in a `with` block that raises EncodeError."""
        self.flush()
        is_empty, uses_tables = self._is_empty, self._uses_tables
        providers = [(one, one._is_introduced, one._encoder.snapshot()) for one in self._providers.values()]
        try:
            yield
        except EncodeError:
            self._out.clear()
            self._is_empty, self._uses_tables = is_empty, uses_tables
            for provider, is_introduced, restore in providers:
                provider._is_introduced = is_introduced
                restore()
            raise


class Provider:
    """A provider of a trace: a string table, a thread table and a clock.  `FxtWriter.provider` makes them."""

    def __init__(self, writer: FxtWriter, id: int, name: str, clock: Initialization) -> None:
        if clock.ticks_per_second == 0:
            raise EncodeError("must not be 0", "ticks_per_second")
        self.id = id
        self.name = name
        self._writer = writer
        self._clock = clock
        self._preamble = encode(ProviderInfo(id, name)) + encode(ProviderSection(id)) + encode(clock)
        self._section = encode(ProviderSection(id))
        self._is_introduced = False
        self._encoder = ProviderEncoder(writer._out, self._activate)

    def _activate(self) -> ProviderEncoder:
        """Make this the provider that the next record belongs to, and return its encoder."""
        writer = self._writer
        writer._check_open()
        writer._check_byte_order()
        if len(writer._out) > BUFFER_BYTES:
            writer.flush()
        if not self._encoder.is_current:
            if writer._is_empty:
                writer._out += encode(Magic())
                writer._is_empty = False
            if not self._is_introduced:
                self._encoder.clear()
            writer._out += self._section if self._is_introduced else self._preamble
            self._is_introduced = writer._uses_tables = True
            writer._deactivate()
            self._encoder.is_current = True
        self._encoder.reserve_strings()
        return self._encoder

    def _put(self, cls: type[Record], *values: Any) -> None:
        """Append a record."""
        self._activate().out += encode(cls(*values))

    def _name(self, text: str) -> int | str:
        return self._encoder.string_slot(text)

    def _arguments(self, args: Args) -> tuple[Argument, ...]:
        return self._encoder.arguments(args)

    def thread(self, process: int, thread: int, name: str | None = None, process_name: str | None = None) -> Track:
        """Return the track of a thread, which has the methods to write its events.

        Args:
            process: the process koid; below 2**31 for Perfetto, which cuts off the other bits.
            thread: the thread koid; the same is true of it.
            name: the name of the thread, written as a kernel object record.
            process_name: the name of its process, written as a kernel object record.
        """
        if process_name is not None:
            self.kernel_object(ObjectType.PROCESS, process, process_name)
        if name is not None:
            self.kernel_object(ObjectType.THREAD, thread, name, {"process": Koid(process)})
        return Track(self, process, thread)

    def kernel_object(self, object_type: int, koid: int, name: str, args: Args = None) -> None:
        """Give a name to a kernel object.  A thread should have the argument `process`, a `Koid`."""
        self._activate()
        self._put(KernelObject, object_type, koid, self._name(name), self._arguments(args))

    def userspace_object(self, pointer: int, process: int, name: str, args: Args = None) -> None:
        """Give a name to the object that `pointer` points at in a process."""
        self._activate()
        self._put(UserspaceObject, pointer, Thread(process, None), self._name(name), self._arguments(args))

    def blob(self, name: str, data: bytes, blob_type: int = 1) -> None:
        """Append to a named byte stream; more than 32,000 bytes are written as a large blob, which has no type."""
        self._writer._check_open()
        view = _bytes_view(data)
        self._activate()
        if len(view) <= MAX_BLOB_BYTES:
            self._put(Blob, self._name(name), blob_type, view)
        else:
            self._put(LargeBlobNoMetadata, 0, self._name(name), view)

    def context_switch(
        self, timestamp: int, cpu: int, outgoing: int, incoming: int, outgoing_state: int, args: Args = None
    ) -> None:
        """Write that a cpu switches from one thread to another (koids); `args` may have the threads' weights."""
        self._activate()
        self._put(ContextSwitch, cpu, outgoing_state, timestamp, outgoing, incoming, self._arguments(args))

    def thread_wakeup(self, timestamp: int, cpu: int, waking: int, args: Args = None) -> None:
        """Write that a thread (koid) is woken up on a cpu."""
        self._activate()
        self._put(ThreadWakeup, cpu, timestamp, waking, self._arguments(args))

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
        """Write that a cpu switches from one thread to another, in the older form of the record."""
        self._put(
            LegacyContextSwitch, cpu, outgoing_state, outgoing_priority, incoming_priority, timestamp,
            Thread(outgoing.process, outgoing.thread), Thread(incoming.process, incoming.thread),
        )  # fmt: skip

    def module(self, timestamp: int, process: int, module: int, name: str, build_id: bytes) -> None:
        """Describe a module that addresses of a profile belong to."""
        self._put(ProfilerModule, module, timestamp, Thread(process, 0), name, build_id)

    def mmap(
        self, timestamp: int, process: int, module: int, start: int, range: int, vaddr: int,
        flags: int = DEFAULT_MMAP_FLAGS,
    ) -> None:  # fmt: skip
        """Write where a module is mapped into memory; flags are 1 read, 2 write, 4 execute."""
        self._put(ProfilerMmap, module, flags, timestamp, Thread(process, 0), start, range, vaddr)

    def backtrace(self, timestamp: int, process: int, thread: int, frames: Iterable[int]) -> None:
        """Write a call stack as addresses, innermost first."""
        self._put(ProfilerBacktrace, 0, timestamp, Thread(process, thread), tuple(frames))

    def buffer_filled_up(self) -> None:
        """Write that the provider's buffer filled up, so that records were likely lost here."""
        self._put(ProviderEvent, self.id, ProviderEventId.BUFFER_FILLED_UP)

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
        checked = [event_columns(**group) for group in groups]
        with self._writer._all_or_nothing():
            self._write_groups(checked)
        return sum(len(group.timestamp) for group in checked)

    def _write_groups(self, groups: list[EventColumns]) -> None:
        words = words_of_events(self._activate(), groups)
        self._writer.flush()
        self._writer._sink.write(words.data)


def _bytes_view(data: Any) -> memoryview:
    """Return a view of the bytes of any object that has the buffer protocol.

    Raises:
        EncodeError: it has not, or its memory is not contiguous.
    """
    try:
        return memoryview(data).cast("B")
    except TypeError:
        raise EncodeError(f"{type(data).__name__} does not hold contiguous bytes", "data") from None


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
        self.process = process
        self.thread = thread
        self._provider = provider
        self._key = Thread(process, thread)
        self._number = provider._encoder.thread_number(self._key)
        self._event = provider._encoder.put_event

    def instant(self, name: str, timestamp: int, *, category: str = "", args: Args = None) -> None:
        """Write a point in time."""
        self._event("instant", self._number, category, name, timestamp, args, None)

    def complete(self, name: str, start: int, end: int, *, category: str = "", args: Args = None) -> None:
        """Write an operation from `start` to `end`."""
        self._event("duration_complete", self._number, category, name, start, args, end)

    def begin(self, name: str, timestamp: int, *, category: str = "", args: Args = None) -> None:
        """Write the begin of an operation; the operations of a thread nest."""
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
        """Write the begin of an operation that may move between threads; `id` should be unique in the trace."""
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
        provider = self._provider
        thread = provider._activate().thread_slot(self._key)
        provider._put(Log, timestamp, thread, message)

    def large_blob(self, name: str, data: bytes, timestamp: int, *, category: str = "", args: Args = None) -> None:
        """Write bytes with a time, a thread and arguments.  Perfetto misreads records over 32 KiB."""
        provider = self._provider
        provider._writer._check_open()
        view = _bytes_view(data)
        thread = provider._activate().thread_slot(self._key)
        provider._put(
            LargeBlob, provider._name(category), provider._name(name), timestamp, thread,
            provider._arguments(args), view,
        )  # fmt: skip


__all__ = ["FxtWriter", "Koid", "KoidArgument", "Pointer", "Provider", "Scope", "Track"]
