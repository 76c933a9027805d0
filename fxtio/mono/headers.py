"""The two headers of a recording: one at its beginning, one in front of each buffer.

A header may be misleading: recordings of Mono 5.10.0 say data version 15 although the events are those of `HYBRID`, and
a transfer in text mode, as by FTP, adds or removes carriage returns, so that buffers have other lengths than they say.

`StreamHeader` is declared like an event; its versions are those of the profiler (`major`), not data versions.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Annotated, Any

import numpy as np
from msgspec import field

from fxtio.arrays import Array
from fxtio.codec.record import Opaque
from fxtio.codec.stream.codec import codec_of, column_decoder
from fxtio.codec.stream.declare import Byte, Fixed, Item, SizedText, StreamState, layout_of, parts_of
from fxtio.codec.stream.kernels import kernels
from fxtio.codec.stream.steps import steps_of
from fxtio.codec.stream.values import put_byte
from fxtio.errors import DecodeError, EncodeError
from fxtio.mono.layout import BUFFER_MARK, HEADER_MARK, HYBRID, ID_SIZE, POINTER_SIZES
from fxtio.mono.records import dialect_of

_NS_PER_MS = 10**6
_PROFILERS = ((16, (3, 0)), (14, (2, 0)), (13, (1, 1)), (12, (1, 0)), (0, (0, 4)))
"""The first data version that each version of the profiler wrote."""

_SIZE_BYTES = 4
"""Bytes of the size in a buffer header."""


class StreamHeader(Item, frozen=True, kw_only=True, tag="header"):
    """The header of a recording.  spec: header format (there of version 2.0)

    Attributes:
        major: version of the profiler.
        minor: likewise.
        data_version: version of the data format, 1 to 17.
        pointer_size: bytes of a pointer in the profiled program, 4 or 8.
        startup_time: start of the profiler in milliseconds since 1970.
        startup_tick: the same moment on the event clock in nanoseconds; None before version 3.
        timer_overhead: duration of a reading of the clock, in nanoseconds.
        flags: 0.
        pid: process id of the profiled program.
        port: TCP port for commands, or 0.
        sysid: without a meaning; version 0 only.
        args: the options of the profiler; None before version 1, and where the text has no size.
        arch: the architecture; likewise.
        os: the operating system; likewise.
    """

    major: Annotated[int, Byte()] = 3
    minor: Annotated[int, Byte()] = 0
    data_version: Annotated[int, Byte()] = field(default=17, name="format")
    pointer_size: Annotated[int, Byte()] = field(default=8, name="ptrsize")
    startup_time: Annotated[int, Fixed(size=8)] = 0
    startup_tick: Annotated[int | None, Fixed(size=8, since=3)] = field(default=0, name="startup_clock")
    timer_overhead: Annotated[int, Fixed(size=4)] = 0
    flags: Annotated[int, Fixed(size=4)] = 0
    pid: Annotated[int, Fixed(size=4)] = 0
    port: Annotated[int, Fixed(size=2)] = 0
    sysid: Annotated[int | None, Fixed(size=2, before=1)] = field(default=None, name="_sysid")
    args: Annotated[str | None, SizedText(since=1)] = ""
    arch: Annotated[str | None, SizedText(since=1)] = ""
    os: Annotated[str | None, SizedText(since=1)] = ""

    @property
    def started_at(self) -> datetime | None:
        """The wall-clock time of the start; None if it is later than the last date of `datetime`."""
        try:
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.startup_time)
        except OverflowError:
            return None

    @property
    def wall_clock(self) -> int | None:
        """Nanoseconds since the Unix epoch at the time 0 of the event clock, None if they are not known."""
        if self.startup_tick is None or not self.startup_time:
            return None
        return self.startup_time * _NS_PER_MS - self.startup_tick


class OpaqueHeader(Opaque, frozen=True, tag="opaque-header"):
    """The bytes of a recording's header which a `StreamHeader` would not encode to the same bytes."""


class OpaqueGap(Opaque, frozen=True, tag="opaque-gap"):
    """Bytes that belong neither to a header nor to a buffer."""


class BufferHeader(Item, frozen=True, kw_only=True, tag="buffer"):
    """The header of a buffer, without the size of its events.  spec: buffer header format

    Attributes:
        time: the base of the first time, in nanoseconds.
        pointer: the base of pointers.
        object: the base of objects, in units of 8 bytes.
        thread: the native id of the thread that wrote the events.
        method: the base of the first method.
    """

    time: Annotated[int, Fixed(size=8)] = field(default=0, name="time_base")
    pointer: Annotated[int, Fixed(size=8), "hexadecimal"] = field(default=0, name="ptr_base")
    object: Annotated[int, Fixed(size=8), "hexadecimal"] = field(default=0, name="obj_base")
    thread: Annotated[int, Fixed(size=8), "hexadecimal"] = field(default=0, name="thread_id")
    method: Annotated[int, Fixed(size=8), "hexadecimal"] = field(default=0, name="method_base")


class OpaqueBufferHeader(Opaque, frozen=True, tag="opaque-buffer-header"):
    """The bytes of a buffer's header whose magic number is damaged, or which has another size than its events."""


_NO_STATE = StreamState(0, {})


def decode_header(data: Any, *, any_mark: bool = False) -> tuple[StreamHeader, int]:
    """Decode the header of a recording; return it and its size in bytes.

    Args:
        data: the bytes (bytes or a memoryview).
        any_mark: accept any bytes in place of `HEADER_MARK`.

    Raises:
        DecodeError: the bytes end within the header, or do not begin with `HEADER_MARK` (`header.bad`).
    """
    outline_header(data, any_mark=any_mark)
    header, size = codec_of(StreamHeader, data[ID_SIZE]).decode(data, ID_SIZE, len(data), _NO_STATE)
    return header, size


def outline_header(data: Any, *, any_mark: bool = False) -> tuple[StreamHeader, int]:
    """Decode a header as `decode_header` does, but its texts to their places, in a time that does not depend on them.

    Raises:
        DecodeError: as `decode_header`.
    """
    if not any_mark and data[:ID_SIZE] != HEADER_MARK:
        raise DecodeError("header.bad", "the header cannot be read: it does not begin with its magic number")
    if len(data) <= ID_SIZE:
        raise DecodeError("header.bad", "the header cannot be read: nothing follows its magic number")
    try:
        return column_decoder(StreamHeader, data[ID_SIZE])(data, ID_SIZE, len(data), _NO_STATE)
    except DecodeError as error:
        raise DecodeError("header.bad", f"the header cannot be read: {error.message}") from None


def begins_damaged(data: Any) -> bool:
    """Return whether a header of which only the magic number is damaged, and then a buffer, begin the data."""
    try:
        header, size = outline_header(data, any_mark=True)
    except DecodeError:
        return False
    return not header.flags and header.pointer_size in POINTER_SIZES and data[size:][:ID_SIZE] == BUFFER_MARK


def encode_header(header: StreamHeader) -> bytes:
    """Return the bytes of a recording's header.

    Raises:
        EncodeError: a value does not fit, or the version does not have it.
    """
    major = put_byte(header.major, "StreamHeader.major")[0]
    return HEADER_MARK + codec_of(StreamHeader, major).encode(header, _NO_STATE)


def header_record(header: StreamHeader, raw: bytes) -> StreamHeader | OpaqueHeader:
    """Return the header if it encodes to these bytes, or else the bytes."""
    try:
        return header if encode_header(header) == raw else OpaqueHeader(raw)
    except EncodeError:
        return OpaqueHeader(raw)


def profiler_of(data_version: float) -> tuple[int, int]:
    """Return the version of the profiler, major and minor, that wrote a data version."""
    return next(profiler for first, profiler in _PROFILERS if data_version >= first)


def header_has(major: int, field: str) -> bool:
    """Return whether the header of a profiler version has a field."""
    layout = layout_of(StreamHeader, major)
    return layout is not None and field not in layout.absent


@cache
def buffer_dtype() -> np.dtype[Any]:
    """Return the header of a buffer as a numpy structure: `id`, `size`, and the fields of `BufferHeader`."""
    sizes = {"id": ID_SIZE, "size": _SIZE_BYTES}
    for name, (part,) in parts_of(BufferHeader).items():
        assert isinstance(part, Fixed)
        sizes[name] = part.size
    return np.dtype([(name, f"<u{size}") for name, size in sizes.items()])


BUFFER_HEADER_SIZE = buffer_dtype().itemsize
"""Bytes of a buffer header."""

SIZE_PLACE = slice(ID_SIZE, ID_SIZE + _SIZE_BYTES)
"""The place of the size in a buffer header."""


def buffer_size(header: Any) -> int:
    """Return the size of the events in bytes, from the bytes of a buffer's header (bytes or a memoryview)."""
    return int.from_bytes(header[SIZE_PLACE], "little")


def decode_buffer_header(raw: bytes) -> BufferHeader:
    """Return the header of a buffer from its bytes, without the magic number and the size.

    Raises:
        DecodeError: there are not `BUFFER_HEADER_SIZE` bytes (`header.bad`).
    """
    if len(raw) != BUFFER_HEADER_SIZE:
        raise DecodeError("header.bad", f"the header of a buffer has {BUFFER_HEADER_SIZE} bytes, not {len(raw)}")
    codec = codec_of(BufferHeader, 0)
    header: BufferHeader = codec.decode(raw, SIZE_PLACE.stop, len(raw), _NO_STATE)[0]
    return header


def buffer_record(header: BufferHeader, raw: bytes, size: int) -> BufferHeader | OpaqueBufferHeader:
    """Return the header of a buffer with this many bytes of events if it encodes to these bytes, or else the bytes."""
    return header if encode_buffer_header(header, size) == raw else OpaqueBufferHeader(raw)


def encode_buffer_header(header: BufferHeader, size: int) -> bytes:
    """Return the bytes of a buffer's header.

    Args:
        header: the bases and the thread.
        size: bytes of the events that follow.

    Raises:
        EncodeError: a value does not fit.
    """
    if size.bit_length() > 8 * _SIZE_BYTES:
        raise EncodeError(f"{size:,} bytes of events do not fit in a buffer", "BufferHeader")
    return BUFFER_MARK + size.to_bytes(_SIZE_BYTES, "little") + codec_of(BufferHeader, 0).encode(header, _NO_STATE)


CLAIMED = 15
"""The data version in the headers of these recordings."""


def is_hybrid(data: bytes, pointer_size: int) -> bool:
    """Return whether buffers have events that `HYBRID` has and version 15 does not have.

    Only then their version is sure: most events are the same in both.

    Args:
        data: bytes from the first buffer of a recording on.
        pointer_size: of its header.
    """
    raw, begin, end = np.frombuffer(data, np.uint8), [], []
    place = BUFFER_HEADER_SIZE
    while data.startswith(BUFFER_MARK, place - BUFFER_HEADER_SIZE) and place <= len(data):
        size = int(np.frombuffer(data, buffer_dtype(), 1, place - BUFFER_HEADER_SIZE)["size"][0])
        if place + size > len(data):
            break
        begin.append(place)
        end.append(place + size)
        place += size + BUFFER_HEADER_SIZE
    if not begin:
        return False
    first, last = np.array(begin, np.int64), np.array(end, np.int64)
    faults = [_faults(raw, first, last, version, pointer_size) for version in (CLAIMED, HYBRID)]
    return bool(faults[0].any()) and not faults[1].any()


def _faults(data: Array, begin: Array, end: Array, version: float, pointer_size: int) -> Array:
    """Return the faults of buffers, read as those of a data version."""
    steps = steps_of(dialect_of(version, pointer_size))
    raw = data[(begin - BUFFER_HEADER_SIZE)[:, None] + np.arange(BUFFER_HEADER_SIZE)]
    headers = np.ascontiguousarray(raw).view(buffer_dtype())[:, 0]
    registers = np.stack([headers[name].astype(np.uint64) for name in steps.registers], axis=1)
    counts, stop = np.empty((len(begin), steps.owners), np.int64), np.empty(len(begin), np.int64)
    fault, times = np.empty(len(begin), np.uint8), np.empty(len(begin), np.uint8)
    kernels().scan(steps, data, begin, end, registers, counts, stop, fault, times)
    return fault


WINDOW = 1 << 20
"""The number of bytes after a fault that are examined."""

_FEWEST_SHORT_BUFFERS = 2
"""Fewer buffers that lack some bytes do not show that a transfer removed them."""


def text_mode_fault(data: bytes) -> str:
    """Return how a transfer in text mode has changed a recording, or an empty text if it has not.

    Args:
        data: up to `WINDOW` bytes from a header on after which the next one is not where it should be.
    """
    if data.count(b"\n") == data.count(b"\r\n") > 0 and _holds(data.replace(b"\r\n", b"\n")):
        return (
            "every line feed has a carriage return before it, as a transfer in text mode adds them; "
            "removing these carriage returns repairs the file. Changed buffers are left out"
        )
    if b"\r\n" not in data and _short_buffers(data) >= _FEWEST_SHORT_BUFFERS:
        return (
            "buffers are too short, and no line feed has a carriage return before it, as after a transfer in text mode "
            "that removes them; this cannot be repaired. Changed buffers are left out"
        )
    return ""


def _holds(data: bytes) -> bool:
    """Return whether the next header, or the end, follows where the header at the beginning says."""
    if data.startswith(HEADER_MARK):
        try:
            size = decode_header(data)[1]
        except DecodeError:
            return False
    elif data.startswith(BUFFER_MARK) and len(data) >= BUFFER_HEADER_SIZE:
        size = BUFFER_HEADER_SIZE + buffer_size(data)
    else:
        return False
    return size == len(data) or data.startswith((BUFFER_MARK, HEADER_MARK), size)


def _short_buffers(data: bytes) -> int:
    """Return how many buffers are shorter than they say by no more bytes than they have line feeds; 0 if others are."""
    short = begin = 0
    while data.startswith(BUFFER_MARK, begin) and len(data) >= begin + BUFFER_HEADER_SIZE:
        events = begin + BUFFER_HEADER_SIZE
        end = events + buffer_size(data[begin:events])
        if end >= len(data):
            break
        if not data.startswith(BUFFER_MARK, end):
            after = data.find(BUFFER_MARK, events, end + len(BUFFER_MARK) - 1)
            if after < 0 or data.count(b"\n", begin, after) < end - after:
                return 0
            short, end = short + 1, after
        begin = end
    return short
