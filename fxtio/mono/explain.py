"""The bytes of a recording annotated, and the reference of the layout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from fxtio.codec.annotation import AnnotatedRecord, ByteRange, Piece, explained, the_end
from fxtio.codec.canonical import classes_named
from fxtio.codec.describe import word_value
from fxtio.codec.pages import enumerations_markdown
from fxtio.codec.stream.codec import kind_at
from fxtio.codec.stream.declare import SUBTYPE, UNKNOWN, Dialect, Item, StreamState, enumeration_of, layout_of
from fxtio.codec.stream.describe import ranges_of
from fxtio.codec.stream.pages import field_rows, stream_markdown
from fxtio.errors import DecodeError
from fxtio.mono import enums
from fxtio.mono import records as r
from fxtio.mono.buffers import state_of
from fxtio.mono.columns import Batch
from fxtio.mono.frames import Gap, Recording
from fxtio.mono.headers import BUFFER_HEADER_SIZE, BufferHeader, StreamHeader, buffer_dtype
from fxtio.mono.layout import HEADER_MARK, ID_SIZE
from fxtio.mono.reader import MonoTrace

_SHOWN_BYTES = 64
"""The most bytes that are shown of what cannot be read."""


kinds_of = partial(classes_named, classes=r.EVENTS)
"""Returns the classes of events that a name stands for, see `classes_named`."""


def explain(
    trace: MonoTrace, *, record: int | None = None, offset: int = 0, kinds: frozenset[type[Any]] | None = None
) -> Iterator[AnnotatedRecord]:
    """Yield the annotated events and headers of a recording, see `fxtio.formats.ExplainRoom.explain`."""
    return explained(trace, _pieces(trace), record=record, offset=offset, kinds=kinds)


def _pieces(trace: MonoTrace) -> Iterator[Piece]:
    """Yield the whole trace; a gap comes when its findings are complete, which is when reading goes on after it."""
    number = 0
    gap = bytearray()
    begin = 0
    size = 0
    for part in trace._counted_parts():
        if isinstance(part, Gap):
            begin = begin if size else part.offset
            gap += part.data[: _SHOWN_BYTES - len(gap)]
            size += len(part.data)
            continue
        if size:
            yield _no_buffer(begin, size, bytes(gap))
            gap, size = bytearray(), 0
        for item in part.frame.in_order():
            if isinstance(item, Recording):
                yield _header(item)
                continue
            for piece in _buffer(part, item, number):
                number += piece.number is not None
                yield piece
    if size:
        yield _no_buffer(begin, size, bytes(gap))
    yield the_end(trace.position)


def _no_buffer(begin: int, size: int, shown: bytes) -> Piece:
    """Return bytes that belong to no buffer and to no header of a recording, of which the first are shown."""
    return Piece(None, begin, size, None, lambda: [ByteRange(0, shown, "unexplained")], "no buffer")


def _header(recording: Recording) -> Piece:
    layout = layout_of(StreamHeader, recording.header.major)
    assert layout is not None
    raw = recording.raw
    mark = ByteRange(0, raw[:ID_SIZE], "id", f"{int.from_bytes(HEADER_MARK, 'little'):#x}")
    ranges, _ = ranges_of(layout, raw, ID_SIZE, len(raw), StreamState(0, {}), _meaning)
    moved = [replace(each, offset=each.offset + ID_SIZE) for each in ranges]
    return Piece(None, recording.offset, len(raw), StreamHeader, lambda: [mark, *moved])


def _buffer(batch: Batch, buffer: int, number: int) -> Iterator[Piece]:
    """Yield the header of a buffer, its events, and what cannot be read."""
    frame = batch.frame
    begin, stop, end = int(frame.begin[buffer]), int(batch.stop[buffer]), int(frame.end[buffer])
    base = frame.base + begin
    yield Piece(
        None,
        base - BUFFER_HEADER_SIZE,
        BUFFER_HEADER_SIZE,
        BufferHeader,
        partial(_buffer_header, frame.headers[buffer]),
    )
    dialect = frame.dialect
    state, data, cursor = state_of(frame.header(buffer), dialect), frame.data[begin:end].tobytes(), 0
    while cursor < stop - begin:
        cls = dialect.classes[kind_at(dialect, data, cursor, len(data))]
        layout = layout_of(cls, dialect.version)
        assert layout is not None
        ranges, after = ranges_of(layout, data, cursor, len(data), state, _meaning)
        yield Piece(number, base + cursor, after - cursor, cls, partial(list, ranges))
        number += 1
        cursor = after
    if cursor < len(data):
        rest = partial(_rest, dialect, data, cursor, state)
        yield Piece(None, base + cursor, len(data) - cursor, None, rest, "the rest of the buffer")


def _buffer_header(row: Any) -> list[ByteRange]:
    fields = buffer_dtype().fields
    assert fields is not None
    raw = row.tobytes()
    return [
        ByteRange(place, raw[place : place + dtype.itemsize], name, word_value(int(row[name])))
        for name, (dtype, place, *_) in fields.items()
    ]


def _rest(dialect: Dialect, data: bytes, cursor: int, state: StreamState) -> list[ByteRange]:
    """Annotate the bytes after a fault; of an event of a known kind, as much as can be decoded."""
    kind, fault = dialect.kinds[data[cursor]], ""
    layout = None if kind in (UNKNOWN, SUBTYPE) else layout_of(dialect.classes[kind], dialect.version)
    if layout is not None:
        try:
            return ranges_of(layout, data, cursor, len(data), state, _meaning)[0]
        except DecodeError as error:
            fault = error.message
    return [ByteRange(0, data[cursor : cursor + _SHOWN_BYTES], "unexplained", fault=fault)]


def _meaning(cls: type[Item], name: str, value: Any) -> str:
    """Return the name of a number."""
    return next((member.name for member in enumeration_of(cls, name) or () if member.value == value), "")


_PREFACE = """\
A recording is a header, then buffers: a header each, then events. Everything is little-endian. The differences between
the versions and from the specification are described in [Mono in practice](../../../explanation/mono-in-practice.md).

An event is a byte, whose low half is its type, then its fields. Before data version 13, heap objects, heap roots,
native symbols, counters, samples and coverage have no time. Addresses are differences; they wrap at the size of a
pointer.
"""


def describe_markdown() -> str:
    """Return the reference of the layout: both headers, all events, enumerations."""
    lines = ["# Mono log profiler", "", _PREFACE, "## Headers", ""]
    lines += ["### Header", "", "| Field | In the file | Versions of the profiler |", "|---|---|---|"]
    lines += [f"| `id` | {ID_SIZE} bytes | |", *field_rows(StreamHeader, first_version=0)]
    lines += ["", "### Buffer header", "", "| Bytes | Field |", "|---|---|"]
    fields = buffer_dtype().fields
    assert fields is not None
    for name, (dtype, place, *_) in fields.items():
        lines.append(f"| {place} .. {place + dtype.itemsize - 1} | `{name}` |")
    lines += ["", "## Events", ""]
    lines += [stream_markdown(cls) for cls in r.EVENTS]
    lines.append(enumerations_markdown(enums))
    return "\n".join(lines)
