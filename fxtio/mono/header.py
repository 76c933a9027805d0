"""The two headers as values: of a whole recording, and of each buffer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec
import numpy as np
from construct import ConstructError, Container

from fxtio.errors import DecodeError, EncodeError
from fxtio.mono.layout import BUFFER_HEADER, STREAM_HEADER

_TEXTS = ("args", "arch", "os")

BUFFER_SIZE = BUFFER_HEADER.sizeof()
"""Bytes of a buffer header."""


class StreamHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What a recording begins with.

    Attributes:
        major: version of the profiler.
        minor: likewise.
        data_version: version of the data format, 1 to 17.
        pointer_size: bytes of a pointer in the profiled program, 4 or 8.
        startup_time: milliseconds since 1970.
        startup_tick: the same moment on the event clock in nanoseconds; None before version 3.0.
        timer_overhead: of a reading of the clock, in nanoseconds.
        flags: 0.
        pid: of the profiled process.
        port: TCP port for commands, or 0.
        sysid: version 0 only, without a meaning.
        args: the profiler's options; None before version 1.0, and where the text has no size.
        arch: the architecture; likewise.
        os: the operating system; likewise.
    """

    major: int = 3
    minor: int = 0
    data_version: int = 17
    pointer_size: int = 8
    startup_time: int = 0
    startup_tick: int | None = 0
    timer_overhead: int = 0
    flags: int = 0
    pid: int = 0
    port: int = 0
    sysid: int | None = None
    args: str | None = ""
    arch: str | None = ""
    os: str | None = ""

    @property
    def started_at(self) -> datetime | None:
        """The wall-clock time of the start; None for one that is beyond all dates."""
        try:
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.startup_time)
        except OverflowError:
            return None


class BufferHeader(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a buffer begins with, but for its size.

    Attributes:
        time: what the first time is relative to, nanoseconds.
        pointer: what pointers are relative to.
        object: what objects are relative to, in units of 8 bytes.
        thread: the native id of the thread that wrote the events.
        method: what the first method is relative to.
    """

    time: int = 0
    pointer: int = 0
    object: int = 0
    thread: int = 0
    method: int = 0


def decode_header(data: bytes) -> tuple[StreamHeader, int]:
    """The header of a recording and its size in bytes.

    Raises:
        DecodeError: it is cut, or says what no header says.
    """
    try:
        found = STREAM_HEADER.parse(data)
    except ConstructError as error:
        raise DecodeError("bad-header", f"the header cannot be read: {str(error).splitlines()[-1]}") from None
    values = {name: found[name] for name in StreamHeader.__struct_fields__}
    size = len(STREAM_HEADER.build(found))
    for name in _TEXTS:
        values[name] = _text(found[name])
    return StreamHeader(**values), size


def _text(found: Container | None) -> str | None:
    """A text of the header without the zero byte that ends it."""
    if found is None or not found.size:
        return None
    raw: bytes = found.raw
    return raw.removesuffix(b"\0").decode("utf-8", "surrogateescape")


def encode_header(header: StreamHeader) -> bytes:
    """The bytes of a recording's header.

    Raises:
        EncodeError: a value does not fit, or the version does not have it.
    """
    values: dict[str, Any] = msgspec.structs.asdict(header)
    for name, there in (("startup_tick", header.major >= 3), ("sysid", header.major == 0)):
        if (values[name] is not None) != there:
            raise EncodeError(
                f"version {header.major} {'needs' if there else 'does not have'} it", f"StreamHeader.{name}"
            )
    for name in _TEXTS:
        text = values[name]
        if header.major == 0 and text is not None:
            raise EncodeError("version 0 does not have it", f"StreamHeader.{name}")
        raw = b"" if text is None else text.encode("utf-8", "surrogateescape") + b"\0"
        values[name] = Container(size=len(raw), raw=raw)
    try:
        built: bytes = STREAM_HEADER.build(values)
    except ConstructError as error:
        raise EncodeError(str(error).splitlines()[-1], "StreamHeader") from None
    return built


def encode_buffer_header(header: BufferHeader, size: int) -> bytes:
    """The bytes of a buffer's header.

    Args:
        header: the bases and the thread.
        size: bytes of the events that follow.

    Raises:
        EncodeError: a value does not fit.
    """
    try:
        built: bytes = BUFFER_HEADER.build({"size": size, **msgspec.structs.asdict(header)})
    except ConstructError as error:
        raise EncodeError(str(error).splitlines()[-1], "BufferHeader") from None
    return built


@cache
def buffer_dtype() -> np.dtype[Any]:
    """The header of a buffer as a numpy structure, from the same declaration."""
    return np.dtype([(part.name, f"<u{part.sizeof()}") for part in BUFFER_HEADER.subcons])
