"""The writers of a recording: friendly (named calls), exact (buffers as they are), bulk (columns).

Every thread fills a buffer of its own.  What defines names goes to a buffer that is always written before all others,
so that a reader knows a method before it is called, as Mono's own profiler does it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from fxtio.codec.stream import Dialect
from fxtio.errors import EncodeError
from fxtio.io.sink import Sink, open_sink
from fxtio.mono import records as r
from fxtio.mono.batch import program_of
from fxtio.mono.bulk import packed
from fxtio.mono.enums import LoadAction, MethodAction, NameAction
from fxtio.mono.events import encode_events
from fxtio.mono.header import BufferHeader, StreamHeader, decode_header, encode_buffer_header, encode_header
from fxtio.mono.measuring import Measuring
from fxtio.mono.pack import Bases, OpenBuffer
from fxtio.mono.records import dialect_of

_ALIGNED = 0x100
"""Addresses that the writer gives itself are multiples of this."""

_FIRST_ADDRESS = 0x10_0000

NS_PER_SECOND = 1_000_000_000


class MonoWriter(Measuring):
    """Writes a recording of the Mono log profiler.

    Times are nanoseconds of any clock.  Methods, classes and the like go by an address; the writer gives one where none
    is given.

    Args:
        target: a path (`.gz`, `.zst` and `.xz` compress), `-` for standard output, or a binary file object.
        header: the header, or its bytes; one of today's Mono unless given.
        data_version: version of the data format, for the header that is made here.
        pointer_size: 4 or 8, likewise.

    Raises:
        EncodeError: there is no such version.
        FormatError: `target` is nothing to write to.
        OSError: it cannot be created.
    """

    def __init__(
        self, target: Any, *, header: StreamHeader | bytes | None = None, data_version: int = 17, pointer_size: int = 8
    ) -> None:
        if isinstance(header, bytes):
            head, header = header, decode_header(header)[0]
        else:
            header = header or header_for(data_version, pointer_size)
            head = encode_header(header)
        self.header, self._dialect = header, _dialect_for(header)
        self._bases = Bases()
        self._definitions: list[bytes] = []
        self._defining: OpenBuffer | None = None
        self._open: dict[int, OpenBuffer] = {}
        self._counters = {}
        self._next = _FIRST_ADDRESS
        self._sink: Sink | None = open_sink(target)
        self._sent = 0
        self._send(head)

    def __enter__(self) -> MonoWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def position(self) -> int:
        """How many bytes (before compression) were written so far."""
        return self._sent

    def close(self) -> None:
        """Write what is left, and close what was opened here."""
        if self._sink is None:
            return
        try:
            self.flush()
        finally:
            sink, self._sink = self._sink, None
            sink.close()

    def flush(self) -> None:
        """Write all buffers that have something in them."""
        for thread in list(self._open):
            self._write(self._open.pop(thread))
        self._define()

    def _send(self, data: bytes) -> None:
        if self._sink is None:
            raise EncodeError("the writer is closed", "MonoWriter")
        self._sink.write(data)
        self._sent += len(data)

    # ---- events as they are

    def put(self, event: r.Event, *, thread: int = 0) -> None:
        """Append an event to the buffer of a thread.

        Raises:
            EncodeError: the data version cannot say it; nothing is written.
        """
        buffer = self._open.get(thread)
        if buffer is not None:
            if buffer.add(self._sound(event)):
                return
            self._write(self._open.pop(thread))
        self._open[thread] = self._begun(thread, event)

    def put_buffer(self, header: BufferHeader, events: Iterable[Any]) -> None:
        """Write a buffer as `MonoTrace.buffers` gives it, with its own bases, behind all that came before.

        Raises:
            EncodeError: the data version cannot say one of the events.
        """
        data = encode_events(self._dialect, header, list(events))
        whole = encode_buffer_header(header, len(data)) + data
        self.flush()
        self._send(whole)

    def put_recording(self, header: StreamHeader | bytes) -> None:
        """Begin another recording in the same file.

        Raises:
            EncodeError: a value of the header does not fit, or there is no such version.
        """
        found = decode_header(header)[0] if isinstance(header, bytes) else header
        raw = header if isinstance(header, bytes) else encode_header(header)
        dialect = _dialect_for(found)
        self.flush()
        self.header, self._dialect = found, dialect
        self._send(raw)

    def bulk(self, tables: Mapping[type[r.Event], Mapping[str, Any]], *, thread: int = 0) -> None:
        """Write many events of a thread at once, by time.

        Args:
            tables: for each kind of event its fields: an array, a plain value for all, None for nothing, and for a
                list of addresses a pair of counts and values.
            thread: who writes them.

        Raises:
            EncodeError: a column is missing, a value does not fit, or the events have texts.
        """
        self.flush()
        for whole in packed(program_of(self._dialect), thread, tables):
            self._send(whole)

    def _sound(self, event: Any) -> Any:
        if not isinstance(event, r.Event):
            raise EncodeError("it is no event", type(event).__name__)
        return event

    def _begun(self, thread: int, event: r.Event) -> OpenBuffer:
        buffer = OpenBuffer(self._bases.header(thread, event, self._dialect), self._dialect)
        buffer.add(event)
        return buffer

    def _write(self, buffer: OpenBuffer) -> None:
        self._define()
        self._send(buffer.whole())

    def _define(self) -> None:
        """Write the definitions, before whatever may use them."""
        if self._defining is not None:
            self._send(self._defining.whole())
            self._defining = None

    def _note(self, event: r.Event, thread: int) -> None:
        """Append a definition."""
        if self._defining is not None:
            if self._defining.header.thread == thread and self._defining.add(event):
                return
            self._define()
        self._defining = self._begun(thread, event)

    def _address(self, given: int | None) -> int:
        if given is not None:
            return given
        self._next += _ALIGNED
        return self._next

    # ---- what has a name

    def method(
        self, name: str, *, time: int, address: int | None = None, code: int = 0, size: int = 0, thread: int = 0
    ) -> int:
        """Define a method, for example `My.Class:Work (int)`; gives its address."""
        address = self._address(address)
        self._note(r.JitMethod(time=time, method=address, code=code, size=size, name=name), thread)
        return address

    def image(self, name: str, *, time: int, address: int | None = None, mvid: str = "", thread: int = 0) -> int:
        """Define an image by its file; gives its address."""
        address = self._address(address)
        kept = mvid if self._dialect.version >= 16 else None
        flags = self._flags()
        self._note(
            r.Image(time=time, action=LoadAction.LOAD, pointer=address, flags=flags, name=name, mvid=kept), thread
        )
        return address

    def assembly(self, name: str, *, time: int, image: int, address: int | None = None, thread: int = 0) -> int:
        """Define an assembly by its full name; gives its address."""
        address = self._address(address)
        kept = image if self._dialect.version >= 14 else None
        event = r.Assembly(
            time=time, action=LoadAction.LOAD, pointer=address, image=kept, flags=self._flags(), name=name
        )
        self._note(event, thread)
        return address

    def class_(
        self, name: str, *, time: int, image: int = 0, domain: int = 1, address: int | None = None, thread: int = 0
    ) -> int:
        """Define a class; gives what objects tell as their type: its vtable, or itself before data version 15."""
        address = self._address(address)
        self._note(r.ClassLoad(time=time, pointer=address, image=image, flags=self._flags(), name=name), thread)
        if self._dialect.version < 15:
            return address
        vtable = self._address(None)
        self._note(r.VtableLoad(time=time, pointer=vtable, domain=domain, class_pointer=address), thread)
        return vtable

    def domain(self, name: str, *, time: int, id: int = 1, thread: int = 0) -> int:
        """Define an application domain; gives its number."""
        flags = self._flags()
        self._note(r.Domain(time=time, action=NameAction.LOAD, id=id, flags=flags), thread)
        self._note(r.Domain(time=time, action=NameAction.NAME, id=id, flags=flags, name=name), thread)
        return id

    def thread(self, id: int, name: str = "", *, time: int) -> int:
        """A thread begins; gives its id."""
        self.put(r.Thread(time=time, action=NameAction.LOAD, id=id, flags=self._flags()), thread=id)
        if name:
            self.put(r.Thread(time=time, action=NameAction.NAME, id=id, flags=self._flags(), name=name), thread=id)
        return id

    def thread_end(self, id: int, *, time: int) -> None:
        """A thread ends."""
        self.put(r.Thread(time=time, action=NameAction.UNLOAD, id=id, flags=self._flags()), thread=id)

    def _flags(self) -> int | None:
        return 0 if self._dialect.version < 13 else None

    # ---- what runs

    def enter(self, method: int, *, time: int, thread: int = 0) -> None:
        """A method is entered."""
        self.put(r.Call(time=time, action=MethodAction.ENTER, method=method), thread=thread)

    def leave(self, method: int, *, time: int, thread: int = 0, thrown: bool = False) -> None:
        """A method is left, by an exception if `thrown`."""
        action = MethodAction.EXCEPTION_LEAVE if thrown else MethodAction.LEAVE
        self.put(r.Call(time=time, action=action, method=method), thread=thread)


def _dialect_for(header: StreamHeader) -> Dialect:
    if header.data_version not in r.VERSIONS or header.pointer_size not in (4, 8):
        raise EncodeError(f"{header.data_version} and {header.pointer_size}", "data version and pointer size")
    return dialect_of(header.data_version, header.pointer_size)


def header_for(data_version: int, pointer_size: int = 8) -> StreamHeader:
    """A header such as Mono wrote it with a data version.

    Args:
        data_version: 1 to 17.
        pointer_size: 4 or 8.
    """
    major, minor = next(number for first, number in _PROFILERS if data_version >= first)
    arch = "x86-64" if pointer_size == 8 else "x86"
    args, arch_, os = ("log", arch, "linux") if major >= 1 else (None, None, None)
    return StreamHeader(
        major=major, minor=minor, data_version=data_version, pointer_size=pointer_size,
        startup_time=time.time_ns() // NS_PER_SECOND * 1000, startup_tick=0 if major >= 3 else None,
        sysid=0 if major == 0 else None, args=args, arch=arch_, os=os,
    )  # fmt: skip


_PROFILERS = ((16, (3, 0)), (14, (2, 0)), (13, (1, 1)), (12, (1, 0)), (1, (0, 4)))
"""The first data version that each version of the profiler wrote."""
