"""The bytes of a recording annotated, and the reference of the layout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from fxtio.codec.annotation import AnnotatedRecord, ByteRange
from fxtio.codec.canonical import classes_named
from fxtio.codec.describe import doc_of, enumerations_markdown
from fxtio.codec.integers import MAX_UINT64
from fxtio.codec.stream.codec import kind_at
from fxtio.codec.stream.declare import SUBTYPE, UNKNOWN, Dialect, Item, StreamState, layout_of
from fxtio.codec.stream.describe import field_rows, ranges_of, stream_markdown
from fxtio.errors import DecodeError
from fxtio.mono import enums
from fxtio.mono import records as r
from fxtio.mono.buffers import state_of
from fxtio.mono.columns import Batch
from fxtio.mono.frames import Gap, Recording
from fxtio.mono.headers import BUFFER_HEADER_SIZE, StreamHeader, buffer_dtype
from fxtio.mono.layout import HEADER_MARK, ID_SIZE
from fxtio.mono.reader import MonoTrace
from fxtio.mono.tables import ENUMERATIONS

_SHOWN_BYTES = 64
"""The most bytes that are shown of what cannot be read."""


kinds_of = partial(classes_named, classes=r.EVENTS)
"""Returns the classes of events that a name stands for, see `classes_named`."""


def explain(
    trace: MonoTrace, *, record: int | None = None, offset: int = 0, kinds: frozenset[type[Any]] | None = None
) -> Iterator[AnnotatedRecord]:
    """Yield the annotated events and headers of a recording, see `fxtio.formats.ExplainRoom.explain`."""
    names = None if kinds is None else {cls.__name__ for cls in kinds}
    reached = record is None
    for annotated in _annotated(trace):
        if record is not None and annotated.number is not None:
            reached = annotated.number >= record
        if not reached or annotated.offset + max(annotated.size, 1) <= offset:
            continue
        if names is None or annotated.name in names:
            yield annotated


def _annotated(trace: MonoTrace) -> Iterator[AnnotatedRecord]:
    """Yield the whole trace; a gap comes when its findings are complete, which is when reading goes on behind it."""
    number = 0
    gap: _Bytes | None = None
    for part in trace._counted_parts():
        if isinstance(part, Gap):
            gap = gap or _Bytes(part.offset)
            gap.append(part)
            continue
        if gap is not None:
            yield gap.annotated(trace)
            gap = None
        for item in part.frame.in_order():
            if isinstance(item, Recording):
                yield _header(trace, item)
                continue
            for annotated in _buffer(trace, part, item, number):
                number += annotated.number is not None
                yield annotated
    if gap is not None:
        yield gap.annotated(trace)
    end = trace.position
    if findings := trace.findings.between(end, MAX_UINT64):
        yield AnnotatedRecord(None, end, 0, "the end", "", [], findings)


@dataclass(slots=True)
class _Bytes:
    """Bytes that belong to no buffer and to no header of a recording: one gap, or several without anything between.

    Attributes:
        offset: where they begin in the trace.
        size: how many there are.
        shown: the first of them.
    """

    offset: int
    size: int = 0
    shown: bytes = b""

    def append(self, gap: Gap) -> None:
        """Append the bytes of a gap, which begins where these end."""
        self.shown += bytes(gap.data[: _SHOWN_BYTES - len(self.shown)])
        self.size += len(gap.data)

    def annotated(self, trace: MonoTrace) -> AnnotatedRecord:
        """Return the bytes with their findings."""
        findings = trace.findings.between(self.offset, self.offset + self.size)
        ranges = [ByteRange(0, self.shown, "unexplained")]
        return AnnotatedRecord(None, self.offset, self.size, "no buffer", "", ranges, findings)


def _header(trace: MonoTrace, recording: Recording) -> AnnotatedRecord:
    layout = layout_of(StreamHeader, recording.header.major)
    assert layout is not None
    mark = ByteRange(0, recording.raw[:ID_SIZE], "id", f"{int.from_bytes(HEADER_MARK, 'little'):#x}")
    ranges, _ = ranges_of(layout, recording.raw, ID_SIZE, len(recording.raw), StreamState(0, {}), _meaning)
    ranges = [
        mark,
        *(
            ByteRange(ID_SIZE + byte_range.offset, byte_range.raw, byte_range.label, byte_range.value)
            for byte_range in ranges
        ),
    ]
    place = recording.offset
    findings = trace.findings.between(place, place + len(recording.raw))
    return AnnotatedRecord(None, place, len(recording.raw), "StreamHeader", doc_of(StreamHeader).spec, ranges, findings)


def _buffer(trace: MonoTrace, batch: Batch, buffer: int, number: int) -> Iterator[AnnotatedRecord]:
    """Yield the header of a buffer, its events, and what cannot be read."""
    frame = batch.frame
    begin, stop, end = int(frame.begin[buffer]), int(batch.stop[buffer]), int(frame.end[buffer])
    row = frame.headers[buffer]
    fields = buffer_dtype().fields
    assert fields is not None
    raw = row.tobytes()
    ranges = [
        ByteRange(place, raw[place : place + dtype.itemsize], name, f"{int(row[name])} ({int(row[name]):#x})")
        for name, (dtype, place, *_) in fields.items()
    ]
    place, spec = frame.base + begin - BUFFER_HEADER_SIZE, "buffer header format"
    findings = trace.findings.between(place, place + BUFFER_HEADER_SIZE)
    yield AnnotatedRecord(None, place, BUFFER_HEADER_SIZE, "BufferHeader", spec, ranges, findings)
    dialect = frame.dialect
    state, data, cursor = state_of(frame.header(buffer), dialect), frame.data[begin:end].tobytes(), 0
    while cursor < stop - begin:
        cls = dialect.classes[kind_at(dialect, data, cursor, len(data))]
        layout = layout_of(cls, dialect.version)
        assert layout is not None
        ranges, after = ranges_of(layout, data, cursor, len(data), state, _meaning)
        offset, size = frame.base + begin + cursor, after - cursor
        findings = trace.findings.between(offset, offset + size)
        yield AnnotatedRecord(number, offset, size, cls.__name__, doc_of(cls).spec, ranges, findings)
        number += 1
        cursor = after
    if cursor < len(data):
        yield _rest(trace, dialect, data, cursor, frame.base + begin + cursor, state)


def _rest(
    trace: MonoTrace, dialect: Dialect, data: bytes, cursor: int, offset: int, state: StreamState
) -> AnnotatedRecord:
    """Annotate the bytes behind a fault; of an event of a known kind, as much as can be decoded."""
    ranges = [ByteRange(0, data[cursor : cursor + _SHOWN_BYTES], "unexplained")]
    kind = dialect.kinds[data[cursor]]
    layout = None if kind in (UNKNOWN, SUBTYPE) else layout_of(dialect.classes[kind], dialect.version)
    if layout is not None:
        try:
            ranges, _ = ranges_of(layout, data, cursor, len(data), state, _meaning)
        except DecodeError as error:
            ranges = [ByteRange(0, data[cursor : cursor + _SHOWN_BYTES], "unexplained", fault=error.message)]
    size = len(data) - cursor
    findings = trace.findings.between(offset, offset + size)
    return AnnotatedRecord(None, offset, size, "the rest of the buffer", "", ranges, findings)


def _meaning(cls: type[Item], name: str, value: Any) -> str:
    """Return the name of a number."""
    names = ENUMERATIONS.get((cls, name))
    return next((member.name for member in names or () if member.value == value), "")


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
