"""The writers of a trace: friendly (names and threads are interned), exact (records as they are), bulk (columns).

All three append to one file.  The friendly writer fills the string and thread tables by itself: when a table is full
its slots are used again, but never one that the record in the making refers to.  The preamble (magic, provider,
clock) is written with the first friendly record, so that a copy made with `put` is only what was put.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fxtio.codec.generate import encode
from fxtio.codec.parts import Thread
from fxtio.codec.record import Opaque, Record
from fxtio.errors import EncodeError
from fxtio.fxt.arguments import Argument, KoidArgument
from fxtio.fxt.bulk import prepared, words_of_events
from fxtio.fxt.enums import ObjectType, ProviderEventId, Scope
from fxtio.fxt.pack import BUFFER, Koid, Packer, Pointer
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
from fxtio.io.writing import FileWriter

NS_PER_SECOND = 1_000_000_000

MAX_BLOB = 32_000
"""The most bytes that go into an ordinary blob record; more becomes a large one."""

_RECORDS = frozenset({*RECORDS.classes, Opaque})

_CHANGES_STATE = (Opaque, ProviderInfo, ProviderSection, Initialization, String, ThreadRecord)

Args = Mapping[str, Any] | None


class FxtWriter(FileWriter):
    """Writes a trace in the Fuchsia trace format.  Even one without a record gets its preamble, when it is closed.

    Args:
        target: where to, see `fxtio.create`.
        provider: the name of the provider that the friendly methods write as.
        provider_id: its id.
        ticks_per_second: the rate of all times that are given; nanoseconds unless told.
        base_ticks: with `wall_clock`: the tick at which it was read.
        wall_clock: nanoseconds since the Unix epoch at `base_ticks`.

    Raises:
        EncodeError: the clock or the provider cannot be said.
        OSError: the target cannot be created.
    """

    format = "fxt"

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
            raise EncodeError("says nothing without wall_clock", "base_ticks")
        self._out = bytearray()
        first = Provider(self, provider_id, provider, Initialization(ticks_per_second, base_ticks, wall_clock))
        self._providers = {provider_id: first}
        self._main = first
        self._begun = False
        self._friendly = False  # whether a provider's tables are in force
        super().__init__(target, self._out)

    def _finish(self) -> None:
        if not self._begun:
            self._main._enter()
        self._leave()  # so that nothing is appended the short way any more

    def _leave(self) -> None:
        """The next record will belong to another provider than now."""
        for provider in self._providers.values():
            provider._packer.current = False

    # Exact.

    def put(self, record: Record | Opaque) -> None:
        """Append a record as it is: references stay what they are, nothing is interned.

        Raises:
            EncodeError: the format cannot say it.
        """
        if type(record) not in _RECORDS:
            raise EncodeError(f"{type(record).__name__} is no record", "record")
        data = encode(record)
        if type(record) is Opaque and RECORDS.size_of(int.from_bytes(data[:8], "little")) * 8 != len(data):
            raise EncodeError("raw bytes do not have the size that their header tells", "record")
        if self._closed:
            raise ValueError("the writer is closed")
        if self._friendly and isinstance(record, _CHANGES_STATE):
            # Slots may mean something else now: every provider starts afresh when it writes again.
            self._friendly = False
            self._leave()
            for provider in self._providers.values():
                provider._introduced = False
        self._begun = True
        self._out += data
        if len(self._out) > BUFFER:
            self.flush()

    def put_all(self, records: Iterable[Record | Opaque]) -> None:
        """Append records as they are, see `put`."""
        for record in records:
            self.put(record)

    # Friendly.

    def provider(self, name: str, id: int | None = None, *, ticks_per_second: int = NS_PER_SECOND) -> Provider:
        """Another provider, with tables and a clock of its own; its records can be mixed with the others' at will.

        Raises:
            EncodeError: the id is taken, the name is over 255 bytes, or the tick rate is not positive.
        """
        number = max(self._providers) + 1 if id is None else id
        if number in self._providers:
            raise EncodeError(f"{number} is taken by {self._providers[number].name!r}", "provider id")
        made = Provider(self, number, name, Initialization(ticks_per_second))
        self._providers[number] = made
        return made

    def thread(self, process: int, thread: int, name: str | None = None, process_name: str | None = None) -> Track:
        """The track of a thread of the main provider, see `Provider.thread`."""
        return self._main.thread(process, thread, name, process_name)

    @property
    def main(self) -> Provider:
        """The provider that the writer was made with."""
        return self._main


class Provider:
    """One provider of a trace: a string table, a thread table, a clock.  Made by `FxtWriter.provider`."""

    def __init__(self, writer: FxtWriter, id: int, name: str, clock: Initialization) -> None:
        if clock.ticks_per_second == 0:
            raise EncodeError("a clock without ticks tells no time", "ticks_per_second")
        self.id = id
        self.name = name
        self._writer = writer
        self._preamble = encode(ProviderInfo(id, name)) + encode(ProviderSection(id)) + encode(clock)
        self._section = encode(ProviderSection(id))
        self._introduced = False
        self._packer = Packer(writer._out, self._enter)

    def _enter(self) -> Packer:
        """Make this the provider that the next record belongs to."""
        writer = self._writer
        if writer._closed:
            raise ValueError("the writer is closed")
        if len(writer._out) > BUFFER:
            writer.flush()
        if not self._packer.current:
            if not writer._begun:
                writer._out += encode(Magic())
                writer._begun = True
            if not self._introduced:
                self._packer.clear()
            writer._out += self._section if self._introduced else self._preamble
            self._introduced = writer._friendly = True
            writer._leave()
            self._packer.current = True
        self._packer.make_room()
        return self._packer

    def _put(self, make: Any, *values: Any) -> None:
        """Append a record."""
        self._enter().out += encode(make(*values))

    def _name(self, text: str) -> int | str:
        return self._packer.reference(text)

    def _arguments(self, args: Args) -> tuple[Argument, ...]:
        return self._packer.arguments(args)

    def thread(self, process: int, thread: int, name: str | None = None, process_name: str | None = None) -> Track:
        """The track of a thread: what its events are written with.

        Args:
            process: the process koid (below 2**31 for Perfetto, which cuts it).
            thread: the thread koid, likewise.
            name: its name, told by a kernel object record.
            process_name: the name of its process.
        """
        if process_name is not None:
            self.kernel_object(ObjectType.PROCESS, process, process_name)
        if name is not None:
            self.kernel_object(ObjectType.THREAD, thread, name, {"process": Koid(process)})
        return Track(self, process, thread)

    def kernel_object(self, object_type: int, koid: int, name: str, args: Args = None) -> None:
        """Label a kernel object.  A thread should have the argument `process`, a `Koid`."""
        self._enter()
        self._put(KernelObject, object_type, koid, self._name(name), self._arguments(args))

    def userspace_object(self, pointer: int, process: int, name: str, args: Args = None) -> None:
        """Label whatever `pointer` points at in a process."""
        self._enter()
        self._put(UserspaceObject, pointer, Thread(process, None), self._name(name), self._arguments(args))

    def blob(self, name: str, data: bytes, blob_type: int = 1) -> None:
        """Append to the named byte stream; more than 32,000 bytes go into a large record, which has no type."""
        octets = _octets(data)
        self._enter()
        if len(octets) <= MAX_BLOB:
            self._put(Blob, self._name(name), blob_type, octets)
        else:
            self._put(LargeBlobNoMetadata, 0, self._name(name), octets)

    def context_switch(
        self, timestamp: int, cpu: int, outgoing: int, incoming: int, outgoing_state: int, args: Args = None
    ) -> None:
        """A cpu goes from one thread to another (koids); weights are arguments, see the specification."""
        self._enter()
        self._put(ContextSwitch, cpu, outgoing_state, timestamp, outgoing, incoming, self._arguments(args))

    def thread_wakeup(self, timestamp: int, cpu: int, waking: int, args: Args = None) -> None:
        """A thread (koid) is woken up on a cpu."""
        self._enter()
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
        """A cpu goes from one thread to another, in the older form."""
        self._put(
            LegacyContextSwitch, cpu, outgoing_state, outgoing_priority, incoming_priority, timestamp,
            Thread(outgoing.process, outgoing.thread), Thread(incoming.process, incoming.thread),
        )  # fmt: skip

    def module(self, timestamp: int, process: int, module: int, name: str, build_id: bytes) -> None:
        """A module that a profile's addresses lie in."""
        self._put(ProfilerModule, module, timestamp, Thread(process, 0), name, build_id)

    def mmap(
        self, timestamp: int, process: int, module: int, start: int, range: int, vaddr: int, flags: int = 5
    ) -> None:
        """Where a module is mapped; flags are 1 read, 2 write, 4 execute."""
        self._put(ProfilerMmap, module, flags, timestamp, Thread(process, 0), start, range, vaddr)

    def backtrace(self, timestamp: int, process: int, thread: int, frames: Iterable[int]) -> None:
        """A call stack as addresses, innermost first."""
        self._put(ProfilerBacktrace, 0, timestamp, Thread(process, thread), tuple(frames))

    def buffer_filled_up(self) -> None:
        """Say that records were likely lost here."""
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
            EncodeError: something cannot be said; nothing was written.
        """
        return self.write_mixed({"kind": kind, "timestamp": timestamp, "thread": thread, "name": name, **columns})

    def write_mixed(self, *pieces: Mapping[str, Any]) -> int:
        """Write many events of several kinds from columns, in the order of their times.

        Args:
            pieces: the arguments of `write_events`, a mapping for each kind.

        Returns:
            The number of events.

        Raises:
            EncodeError: something cannot be said; nothing was written.
        """
        checked = [prepared(**piece) for piece in pieces]
        words = words_of_events(self._enter(), checked)
        self._writer.flush()
        self._writer._sink.write(words.data)
        return sum(len(piece.timestamp) for piece in checked)


def _octets(data: Any) -> memoryview:
    """Anything that holds bytes, byte by byte."""
    try:
        return memoryview(data).cast("B")
    except TypeError:
        raise EncodeError(f"{type(data).__name__} holds no bytes in a row", "data") from None


class Track:
    """A thread of a provider.  All times are ticks of the provider's clock (nanoseconds, unless it was told otherwise).

    Attributes:
        process: the process koid.
        thread: the thread koid.

    Every method takes a `name`, a `category` and `args`: a mapping of at most 15 names to None, bool, int, float, str,
    bytes, `Koid` or `Pointer`.  What the format cannot say raises `EncodeError`, and no part of the event is written.
    """

    __slots__ = ("_event", "_key", "_number", "_provider", "process", "thread")

    def __init__(self, provider: Provider, process: int, thread: int) -> None:
        self.process = process
        self.thread = thread
        self._provider = provider
        self._key = Thread(process, thread)
        self._number = provider._packer.number_of(self._key)
        self._event = provider._packer.event

    def instant(self, name: str, timestamp: int, *, category: str = "", args: Args = None) -> None:
        """A moment."""
        self._event("instant", self._number, category, name, timestamp, args, None)

    def complete(self, name: str, start: int, end: int, *, category: str = "", args: Args = None) -> None:
        """An operation from `start` to `end`."""
        self._event("duration_complete", self._number, category, name, start, args, end)

    def begin(self, name: str, timestamp: int, *, category: str = "", args: Args = None) -> None:
        """An operation begins; operations of a thread nest."""
        self._event("duration_begin", self._number, category, name, timestamp, args, None)

    def end(self, name: str, timestamp: int, *, category: str = "", args: Args = None) -> None:
        """The innermost open operation ends."""
        self._event("duration_end", self._number, category, name, timestamp, args, None)

    def counter(
        self, name: str, timestamp: int, values: Mapping[str, float], *, id: int = 0, category: str = ""
    ) -> None:
        """Samples of series; every value is a series of its own, called by its key."""
        self._event("counter", self._number, category, name, timestamp, values, id)

    def async_begin(self, name: str, timestamp: int, id: int, *, category: str = "", args: Args = None) -> None:
        """An operation that may move between threads begins; `id` should be unique in the trace."""
        self._event("async_begin", self._number, category, name, timestamp, args, id)

    def async_instant(self, name: str, timestamp: int, id: int, *, category: str = "", args: Args = None) -> None:
        """A moment in such an operation."""
        self._event("async_instant", self._number, category, name, timestamp, args, id)

    def async_end(self, name: str, timestamp: int, id: int, *, category: str = "", args: Args = None) -> None:
        """Such an operation ends; name and category must be those of its begin."""
        self._event("async_end", self._number, category, name, timestamp, args, id)

    def flow_begin(self, name: str, timestamp: int, id: int, *, category: str = "", args: Args = None) -> None:
        """An arrow starts in the operation that is open on this thread."""
        self._event("flow_begin", self._number, category, name, timestamp, args, id)

    def flow_step(self, name: str, timestamp: int, id: int, *, category: str = "", args: Args = None) -> None:
        """An arrow passes through the operation that is open on this thread."""
        self._event("flow_step", self._number, category, name, timestamp, args, id)

    def flow_end(self, name: str, timestamp: int, id: int, *, category: str = "", args: Args = None) -> None:
        """An arrow ends in the operation that is open on this thread."""
        self._event("flow_end", self._number, category, name, timestamp, args, id)

    def log(self, message: str, timestamp: int) -> None:
        """A message."""
        provider = self._provider
        thread = provider._enter().thread_reference(self._key)
        provider._put(Log, timestamp, thread, message)

    def large_blob(self, name: str, data: bytes, timestamp: int, *, category: str = "", args: Args = None) -> None:
        """Bytes with a moment, a thread and arguments.  Perfetto misreads records over 32 KiB."""
        provider = self._provider
        octets = _octets(data)
        thread = provider._enter().thread_reference(self._key)
        provider._put(
            LargeBlob, provider._name(category), provider._name(name), timestamp, thread,
            provider._arguments(args), octets,
        )  # fmt: skip


__all__ = ["FxtWriter", "Koid", "KoidArgument", "Pointer", "Provider", "Scope", "Track"]
