"""The writer of a recording: named calls, events by their fields, records exactly as they are, rows of tables.

Every thread fills a buffer of its own.  Definitions of names go to a buffer that is written before those of all other
threads, so that a reader knows a method before it is called, as in recordings of Mono itself.  The declaration of an
event decides which fields it has in a data version.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from fxtio.codec.integers import MAX_UINT64
from fxtio.codec.record import Opaque
from fxtio.codec.stream.declare import Byte, Dialect, Item, Repeated, layout_of
from fxtio.codec.stream.values import signed
from fxtio.errors import DecodeError, EncodeError
from fxtio.io.writing import FileWriter, checked_integer
from fxtio.mono import records as r
from fxtio.mono.buffers import Bases, OpenBuffer, with_plain_integers
from fxtio.mono.encode import FLAGS, Columns, encode_columns, encode_tables
from fxtio.mono.enums import (
    NARROW_COUNTERS,
    UNSIGNED_COUNTERS,
    CounterSection,
    CounterType,
    CounterUnit,
    CounterVariance,
    LoadAction,
    MethodAction,
    NameAction,
    SampleType,
)
from fxtio.mono.headers import (
    CLAIMED,
    BufferHeader,
    OpaqueBufferHeader,
    OpaqueGap,
    OpaqueHeader,
    StreamHeader,
    decode_buffer_header,
    decode_header,
    encode_header,
    header_has,
    profiler_of,
)
from fxtio.mono.layout import HYBRID, POINTER_SIZES, CounterDescription, CounterValue, Reference
from fxtio.mono.tables import WRITABLE_TABLES
from fxtio.report import counted
from fxtio.table import MAX_TIME, Column, WritableTable

ItemT = TypeVar("ItemT", bound=Item)

_ADDRESS_STEP = 0x100
"""The distance of the addresses that the writer chooses itself."""

_FIRST_ADDRESS = 0x10_0000

NS_PER_SECOND = 1_000_000_000
NS_PER_MILLISECOND = 1_000_000

MAX_REFERENCES = 128
"""The most references of a heap object in one event; Mono splits larger objects, too."""

_ABSOLUTE_COUNTERS = (CounterType.DOUBLE, CounterType.STRING)

_FLUSH_SIZE = 1 << 18
"""The number of gathered bytes from which on they go to the file."""


class MonoWriter(FileWriter):
    """Writes a recording of the Mono log profiler.

    Times are nanoseconds of any clock.  Methods, classes and other metadata are referred to by address; the writer
    chooses an address where none is given.

    Args:
        target: a path (`.gz`, `.zst` and `.xz` compress), `-` for standard output, or a binary file object.
        header: the header, or its bytes.  Without it, the header is that of today's Mono, unless the first thing that
            is written is a header (see `put`) or a whole recording (see `copy`).
        data_version: the version of the data format, where no header is given.  With `fxtio.mono.layout.HYBRID`, the
            events of all recordings whose headers say 15 are those of Mono 5.10.0.
        pointer_size: 4 or 8, likewise.

    Attributes:
        header: the header of the recording that is being written.

    Raises:
        EncodeError: there is no such version, or the header does not fit it.
        FormatError: `target` cannot be written to.
        OSError: it cannot be created.
    """

    format: ClassVar[str] = "mono"
    writable_tables: ClassVar[Mapping[str, WritableTable]] = WRITABLE_TABLES

    def __init__(
        self, target: Any, *, header: StreamHeader | bytes | None = None, data_version: float = 17,
        pointer_size: int = 8,
    ) -> None:  # fmt: skip
        self._hybrid = data_version == HYBRID
        if isinstance(header, bytes):
            try:
                self.header, raw = decode_header(header)[0], header
            except DecodeError as error:
                raise EncodeError(error.message, "header") from None
        elif not isinstance(header, StreamHeader | None):
            raise EncodeError(f"{header!r} is no header", "header")
        else:
            self.header = header or header_for(CLAIMED if self._hybrid else data_version, pointer_size)
            raw = encode_header(self.header)
        self._dialect = self._dialect_for(self.header)
        self._default_header = b"" if header is not None else raw  # not yet written
        self._bases = Bases()
        self._definitions: OpenBuffer | None = None
        self._buffers: dict[int, OpenBuffer] = {}
        self._exact: OpenBuffer | None = None  # the buffer that a BufferHeader has begun
        self._counters: dict[int, tuple[CounterType, bool, int]] = {}  # type, whether absolute, last value
        self._next_address = self._used_address = _FIRST_ADDRESS
        super().__init__(target, bytearray(b"" if header is None else raw))

    # ---- records and tables

    def put(self, record: Any, *, thread: int | None = None) -> None:
        """Append a record.

        An event goes to the open buffer of its thread.  A `BufferHeader` begins a buffer with its own bases after all
        that came before; events without `thread`, and `Opaque` bytes, go to this buffer until another one begins.  A
        `StreamHeader` begins another recording, or the first one of a writer without a header.  `OpaqueHeader` and
        `OpaqueBufferHeader` do the same with bytes that are written as they are.  An `OpaqueGap` ends all buffers and
        is written as it is.

        Args:
            record: an event, a header, or `Opaque`.
            thread: the thread that writes an event; by default that of the last `BufferHeader`, or else 0.

        Raises:
            EncodeError: the data version does not have the record, or a value does not fit; nothing was written.
            ValueError: the writer is closed.
        """
        self._check_open()
        if thread is not None and not isinstance(record, r.Event):
            raise EncodeError(f"{thread!r} is given, but only events have a thread", "thread")
        if isinstance(record, r.Event):
            if thread is None and self._exact is not None:
                self._exact.append(record)
            else:
                self._put_event(record, 0 if thread is None else thread)
        elif isinstance(record, StreamHeader | OpaqueHeader):
            self._begin_recording(record)
        elif isinstance(record, BufferHeader | OpaqueBufferHeader):
            buffer = _exact_buffer(record, self._dialect)
            self._end_buffers()
            self._exact = buffer
        elif isinstance(record, OpaqueGap):
            self._end_buffers()
            self._default_header = b""
            self._append(record.raw)
        elif self._exact is not None and type(record) is Opaque:
            self._exact.append(record)
        else:
            what = "bytes need a BufferHeader before them" if type(record) is Opaque else "it is no record"
            raise EncodeError(what, type(record).__name__)

    def write_tables(self, tables: Mapping[str, Columns]) -> int:
        """Append the rows of several tables of events and of their lists, sorted by thread and time.

        This is the inverse of `MonoTrace.tables`, for example of `allocations` together with `allocation_frames`.  The
        tables of all events that the data version has can be written, except those whose lists have items of several
        fields.  The column of a list (`backtrace`) may be missing; then the rows without values have no list.

        Args:
            tables: columns as for `write_table`, by the name of the table.

        Returns:
            The number of events.

        Raises:
            EncodeError: a table or column is unknown or missing, or a value does not fit; nothing was written.
            ValueError: the writer is closed.
        """
        self._check_open()
        if not isinstance(tables, Mapping):
            raise EncodeError(f"{type(tables).__name__} is no mapping from names to columns", "tables")
        buffers, events = encode_tables(self._dialect, tables)
        self._append_buffers(buffers)
        return events

    def flush(self) -> None:
        """Write all open buffers to the file.

        Raises:
            ValueError: the writer is closed.
        """
        self._check_open()
        self._end_buffers()
        super().flush()

    def _write_rows(self, name: str, columns: dict[str, Column], rows: int) -> None:
        self._append_buffers(encode_columns(self._dialect, name, columns, rows))

    def _append_buffers(self, buffers: list[bytes]) -> None:
        self._end_buffers()
        for buffer in buffers:
            self._append(buffer)

    def _copy(self, trace: Any) -> None:
        if self.position or self._buffers or self._definitions or self._exact:
            raise EncodeError("a trace is copied only by a writer that has written nothing", "MonoWriter")
        self._default_header = b""
        for raw in trace.raw_blocks():
            self._append(raw)
        if (last := trace._last_recording) is not None:  # what is written now belongs to it
            self.header, self._dialect = last.header, last.dialect

    def _finish(self) -> None:
        self._end_buffers()
        self._append(b"")

    def _append(self, data: bytes) -> None:
        """Append bytes to the file, after the header."""
        self._out += self._default_header
        self._default_header = b""
        self._out += data
        if len(self._out) >= _FLUSH_SIZE:
            super().flush()

    def _begin_recording(self, header: StreamHeader | OpaqueHeader) -> None:
        if isinstance(header, OpaqueHeader):
            raw = header.raw
            try:
                header, size = decode_header(raw, any_mark=True)
            except DecodeError as error:
                raise EncodeError(error.message, "OpaqueHeader") from None
            if size != len(raw):
                raise EncodeError(
                    f"followed by {counted(len(raw) - size, 'byte')} more than the header has", "OpaqueHeader"
                )
        else:
            raw = encode_header(header)
        dialect = self._dialect_for(header)
        self._end_buffers()
        self._default_header = b""
        self.header, self._dialect, self._bases = header, dialect, Bases()
        self._counters.clear()
        self._append(raw)

    def _write(self, event: r.Event, thread: int) -> None:
        """Append the event of a call.

        Raises:
            EncodeError: the data version does not have it, or a value does not fit; nothing was written.
            ValueError: the writer is closed.
        """
        self._check_open()
        if type(event.time) is not int or event.time > MAX_TIME:  # a negative one is refused below
            checked_integer(event.time, "time", most=MAX_TIME)
        try:
            self._put_event(event, thread)
        except EncodeError as error:
            self._put_event(with_plain_integers([event], error)[0], thread)

    def _write_all(self, events: Sequence[r.Event], thread: int, *, defines: bool = False) -> None:
        """Append the events of a call: all, or none if one is refused.

        Args:
            events: the events.
            thread: the thread that writes them.
            defines: whether they define names, and so are before all other events.

        Raises:
            EncodeError: the data version does not have one of them, or a value does not fit; nothing was written.
            ValueError: the writer is closed.
        """
        self._check_open()
        append = self._define if defines else self._put_event
        try:
            thread = checked_integer(thread, "thread")
            for event in events:
                checked_integer(event.time, "time", most=MAX_TIME)
            try:
                self._append_all(events, thread, append)
            except EncodeError as error:
                self._append_all(with_plain_integers(events, error), thread, append)
        except EncodeError:
            self._next_address = self._used_address  # the address of a refused definition is free
            raise
        self._used_address = self._next_address

    def _append_all(self, events: Sequence[r.Event], thread: int, append: Callable[[r.Event, int], None]) -> None:
        """Append events with a function, all or none."""
        if len(events) > 1:
            for event in events:
                Bases().buffer(thread, event, self._dialect)
        for event in events:
            append(event, thread)

    def _put_event(self, event: r.Event, thread: int) -> None:
        """Append an event to the buffer of its thread."""
        if type(thread) is not int:  # True and 1.0 would find the buffer of 1
            thread = checked_integer(thread, "thread")
        is_sync_point = type(event) is r.SyncPoint  # comes after all earlier events, also of other threads
        buffer = self._buffers.get(thread)
        if buffer is not None and not is_sync_point and buffer.append(event):
            return
        new = self._bases.buffer(thread, event, self._dialect)  # raises before anything is written
        if is_sync_point or self._exact is not None:
            self._end_buffers()
        elif buffer is not None:
            self._end_buffer(buffer)
        self._buffers[thread] = new

    def _define(self, event: r.Event, thread: int) -> None:
        """Append an event that defines a name to the buffer that is written before all others."""
        buffer = self._definitions
        if buffer is not None and buffer.header.thread == thread and buffer.append(event):
            return
        new = self._bases.buffer(thread, event, self._dialect)  # raises before anything is written
        if self._exact is not None:
            self._end_buffers()
        self._end_definitions()
        if thread in self._buffers:  # its earlier events stay in front
            self._end_buffer(self._buffers.pop(thread))
        self._definitions = new

    def _end_buffers(self) -> None:
        """Append all open buffers to the file."""
        for thread in list(self._buffers):
            self._end_buffer(self._buffers.pop(thread))
        self._end_definitions()
        if self._exact is not None:
            buffer, self._exact = self._exact, None
            self._append(buffer.to_bytes())

    def _end_buffer(self, buffer: OpenBuffer) -> None:
        self._end_definitions()
        self._append(buffer.to_bytes())

    def _end_definitions(self) -> None:
        """Append the definitions to the file, before all events that may use them."""
        if self._definitions is not None:
            buffer, self._definitions = self._definitions, None
            self._append(buffer.to_bytes())

    def _dialect_for(self, header: StreamHeader) -> Dialect:
        check_header(header)
        version = HYBRID if self._hybrid and header.data_version == CLAIMED else header.data_version
        return r.dialect_of(version, header.pointer_size)

    def _has(self, cls: type[Item], field: str) -> bool:
        """Return whether the data version has a field."""
        return self._dialect.part(cls, field) is not None

    def _of(self, cls: type[ItemT], **fields: Any) -> ItemT:
        """Return an event or an item with these fields, as far as the data version has them."""
        layout = layout_of(cls, self._dialect.version)
        absent = () if layout is None else layout.absent
        return cls(**{name: value for name, value in fields.items() if name == "time" or name not in absent})

    def _new_address(self, address: int | None) -> int:
        """Return the given address, or one that the writer chooses."""
        if address is not None:
            return address
        self._next_address += _ADDRESS_STEP
        return self._next_address

    # ---- events

    def event(self, cls: type[r.Event], *, time: int, thread: int = 0, **fields: Any) -> None:
        """Write an event of any class, given by its fields.

        Flags without a meaning, which old data versions have, need not be given; lists may be of any type.

        Args:
            cls: its class, one of `fxtio.mono.records.EVENTS`.
            time: nanoseconds.
            thread: the thread that writes it.
            fields: the other fields, see the class.

        Raises:
            EncodeError: the data version does not have the event or a field, or a value does not fit.
            TypeError: the class does not have a field, or a field is missing.
        """
        if cls not in r.EVENTS:
            raise EncodeError(f"{cls!r} is no class of events", "event")
        lists = [name for name in fields if isinstance(self._dialect.part(cls, name), Repeated)]
        fields |= {name: _listed(fields[name], name) for name in lists if fields[name] is not None}
        for name in FLAGS.intersection(cls.__struct_fields__):
            if self._has(cls, name) and (name == "flags" or fields.get("backtrace") is not None):
                fields.setdefault(name, 0)
        self._write(cls(time=time, **fields), thread)

    # ---- definitions of names

    def method(
        self, name: str, *, time: int, address: int | None = None, code: int = 0, size: int = 0, thread: int = 0
    ) -> int:
        """Define a method, for example `My.Class:Work (int)`; return its address."""
        address = self._new_address(address)
        event = r.JitMethod(time=time, method=address, code=code, size=size, name=name)
        self._write_all([event], thread, defines=True)
        return address

    def image(self, name: str, *, time: int, address: int | None = None, mvid: str = "", thread: int = 0) -> int:
        """Define an image by its file; return its address.  Data versions before 16 have no `mvid`."""
        address = self._new_address(address)
        event = self._of(r.Image, time=time, action=LoadAction.LOAD, pointer=address, flags=0, name=name, mvid=mvid)
        self._write_all([event], thread, defines=True)
        return address

    def assembly(self, name: str, *, time: int, image: int, address: int | None = None, thread: int = 0) -> int:
        """Define an assembly by its full name; return its address.  Data versions before 14 have no `image`."""
        address = self._new_address(address)
        fields = {"action": LoadAction.LOAD, "pointer": address, "image": image, "flags": 0, "name": name}
        event = self._of(r.Assembly, time=time, **fields)
        self._write_all([event], thread, defines=True)
        return address

    def class_(
        self, name: str, *, time: int, image: int = 0, domain: int = 1, address: int | None = None, thread: int = 0
    ) -> int:
        """Define a class; return the type that objects refer to.

        The type is the vtable of the class, which the writer defines, too; in data versions without vtables it is the
        address of the class.
        """
        address = self._new_address(address)
        loaded = self._of(r.ClassLoad, time=time, pointer=address, image=image, flags=0, name=name)
        if not self._has(r.VtableLoad, "pointer"):
            self._write_all([loaded], thread, defines=True)
            return address
        vtable = self._new_address(None)
        of_class = r.VtableLoad(time=time, pointer=vtable, domain=domain, class_pointer=address)
        self._write_all([loaded, of_class], thread, defines=True)
        return vtable

    def domain(self, name: str, *, time: int, id: int = 1, thread: int = 0) -> int:
        """Define an application domain; return its number."""
        loaded = self._of(r.Domain, time=time, action=NameAction.LOAD, id=id, flags=0)
        named = self._of(r.Domain, time=time, action=NameAction.NAME, id=id, flags=0, name=name)
        self._write_all([loaded, named], thread, defines=True)
        return id

    def thread(self, id: int, name: str = "", *, time: int) -> int:
        """Write that a thread begins; return its id."""
        loaded = self._of(r.Thread, time=time, action=NameAction.LOAD, id=id, flags=0)
        named = self._of(r.Thread, time=time, action=NameAction.NAME, id=id, flags=0, name=name)
        self._write_all([loaded] if name == "" else [loaded, named], id)
        return id

    def thread_end(self, id: int, *, time: int) -> None:
        """Write that a thread ends."""
        self._write(self._of(r.Thread, time=time, action=NameAction.UNLOAD, id=id, flags=0), id)

    # ---- calls

    def enter(self, method: int, *, time: int, thread: int = 0) -> None:
        """Write that a method is entered."""
        self._write(r.Call(time=time, action=MethodAction.ENTER, method=method), thread)

    def leave(self, method: int, *, time: int, thread: int = 0, thrown: bool = False) -> None:
        """Write that a method is left, by an exception if `thrown`."""
        if not isinstance(thrown, bool):
            raise EncodeError(f"{thrown!r} is neither True nor False", "thrown")
        action = MethodAction.EXCEPTIONAL_LEAVE if thrown else MethodAction.LEAVE
        self._write(r.Call(time=time, action=action, method=method), thread)

    # ---- memory

    def allocation(
        self, type: int, object: int, size: int, *, time: int, thread: int = 0, backtrace: Sequence[int] | None = None
    ) -> None:
        """Write the allocation of an object.

        Args:
            type: the result of `class_`.
            object: its address, a multiple of 8.
            size: in bytes.
            time: nanoseconds.
            thread: the thread that allocates.
            backtrace: methods, the outermost first.

        Raises:
            EncodeError: a value does not fit.
        """
        type_field = "vtable" if self._has(r.Allocation, "vtable") else "class_pointer"
        fields = {"object": object, "size": size, "backtrace": backtrace, type_field: type}
        self.event(r.Allocation, time=time, thread=thread, **fields)

    def gc_event(self, event: int, generation: int, *, time: int, thread: int = 0) -> None:
        """Write a step of a garbage collection, see `GcEventType`."""
        self._write(r.GcEvent(time=time, event=event, generation=generation), thread)

    def heap_object(
        self, object: int, type: int, size: int, references: Sequence[tuple[int, int]] = (), *, time: int,
        generation: int = 0, thread: int = 0,
    ) -> None:  # fmt: skip
        """Write an object of a heap shot.

        Args:
            object: its address.
            type: the result of `class_`.
            size: in bytes.
            references: pairs of the offset of a reference in the object and the address of its target.
            time: nanoseconds; before data version 13 that of the event before.
            generation: its GC generation; data versions before 16 do not have it.
            thread: the thread that writes the shot.

        Raises:
            EncodeError: a value does not fit.
        """
        rows = _rows(references, 2, "references")
        items = [self._of(Reference, field_offset=offset, object=target) for offset, target in rows]
        fields = {"time": time, "object": object, "generation": generation, "vtable": type, "class_pointer": type}
        parts = [tuple(items[first : first + MAX_REFERENCES]) for first in range(0, max(len(items), 1), MAX_REFERENCES)]
        events = [
            self._of(r.HeapObject, size=0 if number else size, references=part, **fields)
            for number, part in enumerate(parts)
        ]
        self._write_all(events, thread)

    # ---- samples and counters

    def sample(self, address: int, frames: Sequence[int] = (), *, interrupted: int, time: int, thread: int = 0) -> None:
        """Write a sample: the instruction pointer, and the methods, the innermost first.

        Raises:
            EncodeError: a value does not fit, or the data version has other fields for samples (use `put`).
        """
        sample_type = SampleType.CYCLES if self._has(r.SampleHit, "sample_type") else None
        event = r.SampleHit(
            time=time, sample_type=sample_type, interrupted=interrupted, addresses=(address,),
            frames=_listed(frames, "frames"),
        )  # fmt: skip
        self._write(event, thread)

    def counter(
        self, name: str, index: int, *, time: int, type: CounterType = CounterType.LONG, unit: int = CounterUnit.RAW,
        variance: int = CounterVariance.VARIABLE, section: int = CounterSection.RUNTIME, category: str | None = None,
        thread: int = 0,
    ) -> int:  # fmt: skip
        """Introduce a counter; return its index.

        Args:
            name: its name.
            index: the number that refers to it, from 1 on.
            time: nanoseconds.
            type: the type of its values.
            unit: see `CounterUnit`; data versions 13 and 14 have no room for it.
            variance: see `CounterVariance`; likewise.
            section: see `CounterSection`.
            category: the category of a performance counter.
            thread: the thread that writes it.

        Raises:
            EncodeError: a value does not fit.
        """
        if type not in tuple(CounterType) or index == 0:
            raise EncodeError(f"there is no type {type!r}" if index else "0 is no index", f"counter {index}")
        if isinstance(self._dialect.part(CounterDescription, "unit"), Byte):  # too small for any unit
            unit = variance = 0
        described = CounterDescription(
            section=section, category=category, name=name, type=type, unit=unit, variance=variance, index=index
        )
        self._write_all([r.CounterDescriptions(time=time, counters=(described,))], thread, defines=True)
        self._counters[index] = CounterType(type), section == CounterSection.PERFCOUNTERS, 0
        return index

    def counters(self, values: Mapping[int, int | float | str | None], *, time: int, thread: int = 0) -> None:
        """Write values of counters by index; the file gets their changes.

        Raises:
            EncodeError: a counter was not introduced, or a value does not fit.
        """
        self._check_open()
        if not isinstance(values, Mapping):
            raise EncodeError(f"{values!r} is no mapping from indices to values", "counters")
        items = tuple(self._counter_value(index, value) for index, value in values.items())
        milliseconds = checked_integer(time, "time", most=MAX_TIME) // NS_PER_MILLISECOND
        self._write(self._of(r.CounterValues, time=time, milliseconds=milliseconds, values=items), thread)
        for index, value in values.items():
            kind, absolute, _ = self._counters[index]
            last = 0 if kind in _ABSOLUTE_COUNTERS else checked_integer(value, f"counter {index}", -MAX_UINT64)
            self._counters[index] = kind, absolute, last

    def _counter_value(self, index: int, value: Any) -> CounterValue:
        """Return a value of a counter as the file has it: the change, or the value itself where that is absolute."""
        if index not in self._counters:
            raise EncodeError(f"{index!r} was not introduced by `counter`", "counters")
        kind, absolute, last = self._counters[index]
        if kind not in _ABSOLUTE_COUNTERS:
            bits = 32 if kind in NARROW_COUNTERS else 64
            least, most = (0, 1 << bits) if kind in UNSIGNED_COUNTERS else (-(1 << bits - 1), 1 << bits - 1)
            value = checked_integer(value, f"counter {index}", least, most - 1)
            value -= 0 if absolute else last  # readers wrap the sum, so a change that does not fit may wrap, too
            value = value % (1 << bits) if kind in UNSIGNED_COUNTERS else signed(value, MAX_UINT64)
        return CounterValue(index=index, type=kind, value=value)


def _listed(values: Any, where: str) -> tuple[Any, ...]:
    """Return values as a tuple.

    Raises:
        EncodeError: they are no list.
    """
    try:
        return tuple(values)
    except TypeError:
        raise EncodeError(f"{values!r} is no list", where) from None


def _rows(values: Any, size: int, where: str) -> list[tuple[Any, ...]]:
    """Return a list of tuples of this many values each.

    Raises:
        EncodeError: it is something else.
    """
    rows = [_listed(row, where) for row in _listed(values, where)]
    if any(len(row) != size for row in rows):
        raise EncodeError(f"{values!r} is no list of tuples of {size} values", where)
    return rows


def _exact_buffer(record: BufferHeader | OpaqueBufferHeader, dialect: Dialect) -> OpenBuffer:
    """Return the buffer that a header begins, whatever its size is.

    Raises:
        EncodeError: a value does not fit, or the bytes are not as many as those of a header.
    """
    if isinstance(record, BufferHeader):
        return OpenBuffer(record, dialect, limit=None)
    try:
        return OpenBuffer(decode_buffer_header(record.raw), dialect, limit=None, raw=record.raw)
    except DecodeError as error:
        raise EncodeError(error.message, "OpaqueBufferHeader") from None


def check_header(header: StreamHeader) -> None:
    """Raise EncodeError if there is no such data version or pointer size."""
    if header.data_version not in r.VERSIONS:
        raise EncodeError(f"there is no data version {header.data_version}", "StreamHeader.data_version")
    if header.pointer_size not in POINTER_SIZES:
        raise EncodeError(f"pointers of {header.pointer_size!r} bytes", "StreamHeader.pointer_size")


def header_for(data_version: float, pointer_size: int = 8) -> StreamHeader:
    """Return a header such as Mono wrote it with a data version.

    Args:
        data_version: 1 to 17.
        pointer_size: 4 or 8.

    Raises:
        EncodeError: there is no such version.
    """
    if data_version not in r.VERSIONS:
        raise EncodeError(f"there is no data version {data_version!r}", "StreamHeader.data_version")
    major, minor = profiler_of(data_version)
    arch = "x86-64" if pointer_size == 8 else "x86"
    values = {"startup_tick": 0, "sysid": 0, "args": "log", "arch": arch, "os": "linux"}
    optional: dict[str, Any] = {name: value if header_has(major, name) else None for name, value in values.items()}
    header = StreamHeader(
        major=major, minor=minor, data_version=int(data_version), pointer_size=pointer_size,
        startup_time=time.time_ns() // NS_PER_SECOND * 1000,
        **optional,
    )  # fmt: skip
    check_header(header)
    return header
