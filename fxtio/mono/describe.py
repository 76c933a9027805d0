"""What people read about the format: the reference of its layout, and the events of a recording taken apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fxtio.codec.describe import doc_of, enumerations_markdown
from fxtio.codec.piece import Piece, Span
from fxtio.codec.stream import SUBTYPE, UNKNOWN, Item, form_of
from fxtio.codec.stream_describe import spans_of, stream_markdown
from fxtio.codec.varint import take_uleb
from fxtio.errors import DecodeError
from fxtio.finding import Finding
from fxtio.mono import enums
from fxtio.mono import records as r
from fxtio.mono.batch import Batch
from fxtio.mono.catalog import NAMED
from fxtio.mono.events import State
from fxtio.mono.framing import Recording
from fxtio.mono.header import BUFFER_SIZE, buffer_dtype
from fxtio.mono.layout import STREAM_HEADER
from fxtio.mono.reader import MonoTrace

_HELD = 64
"""So many bytes are shown of what cannot be read."""


def explain(
    trace: MonoTrace, *, record: int | None = None, offset: int = 0, kinds: frozenset[type[Any]] | None = None
) -> Iterator[Piece]:
    """Take a recording apart, from some place on.

    Args:
        trace: the recording.
        record: begin with this event, by its number from 0.
        offset: begin with whatever has this byte.
        kinds: only events of these classes, and nothing that is no event.

    Yields:
        The events in the order of the file, and the headers between them.
    """
    number, everything = 0, kinds is None and record is None
    last: Recording | None = None
    for batch in trace._batches():
        found = batch.frame.recording
        if found is not last and everything and offset < found.offset + len(found.raw):
            yield _header(trace, found)
        last = found
        for buffer in range(len(batch.frame)):
            for piece in _buffer(trace, batch, buffer, number):
                number += piece.number is not None
                wanted = piece.offset + max(piece.size, 1) > offset
                if record is not None:
                    wanted = wanted and piece.number is not None and piece.number >= record
                if kinds is not None:
                    wanted = wanted and piece.name in {cls.__name__ for cls in kinds}
                if wanted:
                    yield piece
    left = [one for one in trace.findings if one.offset >= trace.position]
    if kinds is None and (left or (last is None and record is None)):
        yield Piece(None, trace.position, 0, "the end", "", [], left or list(trace.findings))


def _header(trace: MonoTrace, recording: Recording) -> Piece:
    values = recording.header
    at, spans = 0, []
    parsed = STREAM_HEADER.parse(recording.raw)
    for part in STREAM_HEADER.subcons:
        size = len(part.build(parsed[part.name], **parsed))
        if size:
            value = getattr(values, part.name, parsed[part.name])
            spans.append(Span(at, recording.raw[at : at + size], part.name, str(value)))
        at += size
    place = recording.offset
    wrong = _findings(trace, place, place + 1)
    return Piece(None, place, len(recording.raw), "StreamHeader", "header format", spans, wrong)


def _buffer(trace: MonoTrace, batch: Batch, buffer: int, number: int) -> Iterator[Piece]:
    """The header of a buffer, its events, and what cannot be read."""
    frame = batch.frame
    begin, stop, end = int(frame.begin[buffer]), int(batch.stop[buffer]), int(frame.end[buffer])
    row = frame.headers[buffer]
    fields = buffer_dtype().fields
    assert fields is not None
    raw = row.tobytes()
    spans = [
        Span(at, raw[at : at + kind.itemsize], name, f"{int(row[name])} ({int(row[name]):#x})")
        for name, (kind, at, *_) in fields.items()
    ]
    place = frame.base + begin - BUFFER_SIZE
    yield Piece(
        None, place, BUFFER_SIZE, "BufferHeader", "buffer header format", spans, _findings(trace, place, place + 1)
    )
    dialect = frame.recording.dialect
    state, data, at = State(frame.header(buffer), dialect), frame.data[begin:end].tobytes(), 0
    while at < stop - begin:
        kind = dialect.heads[data[at]]
        if kind == SUBTYPE:
            kind = dialect.subtypes[data[at], data[take_uleb(data, at + 1, len(data), "time")[1]]]
        form = form_of(dialect.classes[kind], dialect.version)
        assert form is not None
        spans, after = spans_of(form, data, at, len(data), state, _told)
        offset = frame.base + begin + at
        yield Piece(number, offset, after - at, form.name, doc_of(form.cls).spec, spans, [])
        number += 1
        at = after
    if at < len(data):
        yield _rest(trace, dialect, data, at, frame.base + begin + at, state)


def _rest(trace: MonoTrace, dialect: Any, data: bytes, at: int, offset: int, state: State) -> Piece:
    """What comes behind a fault; of an event that is known, as much as can be told."""
    spans = [Span(0, data[at : at + _HELD], "unexplained")]
    kind = dialect.heads[data[at]]
    form = None if kind in (UNKNOWN, SUBTYPE) else form_of(dialect.classes[kind], dialect.version)
    if form is not None:
        try:
            spans, _ = spans_of(form, data, at, len(data), state, _told)
        except DecodeError as error:
            spans = [Span(0, data[at : at + _HELD], "unexplained", fault=error.message)]
    name = "the rest of the buffer"
    return Piece(None, offset, len(data) - at, name, "", spans, _findings(trace, offset, offset + len(data) - at))


def _findings(trace: MonoTrace, begin: int, end: int) -> list[Finding]:
    return [one for one in trace.findings if begin <= one.offset < end]


def _told(cls: type[Item], name: str, value: Any) -> str:
    """The name of a number."""
    names = NAMED.get((cls, name))
    return next((member.name for member in names or () if member.value == value), "")


_PREFACE = """\
A recording is a header, then buffers: a header each, then events. Everything is little-endian. What the versions and
the specification disagree in stands in [Mono in practice](../../../explanation/mono-in-practice.md).

An event is a byte, whose low half is its type, then its fields. Before data version 13, heap objects, heap roots,
native symbols, counters, samples and coverage have no time. Addresses are differences; they wrap at the size of a
pointer.
"""


def describe_markdown() -> str:
    """The reference of the layout: both headers, all events, enumerations."""
    lines = ["# Mono log profiler", "", _PREFACE, "## Headers", ""]
    lines += ["### Header", "", "| Field | Bytes |", "|---|---|"]
    for part in STREAM_HEADER.subcons:
        lines.append(f"| `{part.name}` | {_size(part)} |")
    lines += ["", "### Buffer header", "", "| Bytes | Field |", "|---|---|"]
    fields = buffer_dtype().fields
    assert fields is not None
    for name, (kind, at, *_) in fields.items():
        lines.append(f"| {at} .. {at + kind.itemsize - 1} | `{name}` |")
    lines += ["", "## Events", ""]
    lines += [stream_markdown(cls) for cls in r.EVENTS]
    lines.append(enumerations_markdown(enums))
    return "\n".join(lines)


def _size(part: Any) -> str:
    """How many bytes a field of the header has."""
    if part.name in ("args", "arch", "os"):
        return "4, the size of the text with the zero byte at its end, then the text; not in version 0"
    if part.name == "startup_tick":
        return "8, from version 3.0 on"
    return "2, version 0 only" if part.name == "sysid" else str(part.sizeof())
