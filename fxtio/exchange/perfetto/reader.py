"""Reads Perfetto traces: those of the Perfetto SDK, of Android and Linux, of Chrome, and of the exporter here.

A trace is a row of packets.  They are read in blocks, so memory is bounded by the longest packet.  What a packet means
depends on what its sequence has defined before, see `state`.

https://perfetto.dev/docs/reference/trace-packet-proto
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Set

import numpy as np

from fxtio import _native
from fxtio._native.constants import FieldMark
from fxtio.arrays import Array
from fxtio.codec.integers import MAX_INT64
from fxtio.codec.protobuf import DAMAGED, Message, Wire, WireError, fields, size_of_field
from fxtio.codec.protobuf_columns import Bytes, Layout, places
from fxtio.exchange.perfetto.columns import Block, Columns
from fxtio.exchange.perfetto.events import Events
from fxtio.exchange.perfetto.ftrace import Kernel
from fxtio.exchange.perfetto.messages import ATTRIBUTES, NEEDS_STATE, NUMBERS, PACKET, Attribute, Packet
from fxtio.exchange.perfetto.rows import PER_PACKET, Rows
from fxtio.exchange.perfetto.samples import Samples
from fxtio.exchange.perfetto.state import NO_STATE, Sequence, Sequences
from fxtio.exchange.perfetto.tracks import Tracks
from fxtio.io.source import Source
from fxtio.timeline.parts import Registry, Steps, TimelinePart

BLOCK = 1 << 20
"""The number of bytes that are read at once."""

MAX_PACKET = 1 << 26
"""The most bytes of a packet, and of what is compressed in one."""

MAX_ROWS = 32_768
"""The most packets that make a part of a timeline."""

MAX_ARGUMENTS = 131_072
"""The most arguments of these, as far as they have to be read together."""

MAX_HELD = 8 * MAX_ROWS
"""The most steps that wait for earlier ones."""

LEAST = 16
"""The least packets in a row that are taken together."""

_NO_TIME = "packets without a usable time"
_TOO_LONG = f"packets over {MAX_PACKET:,} bytes"
_REST = "what follows bytes that are no packet"
_TWICE = "compressed packets within compressed ones"
_NO_PACKETS = "fields of the trace that are no packets"

_COMPRESSIONS = {Packet.COMPRESSED_PACKETS: "zlib", Packet.ZSTD_COMPRESSED_PACKETS: "zstd"}
_TYPES = frozenset(Packet)
_TRACE = Layout({}, listed=PACKET)
_PACKET = PACKET, Wire.BYTES

_FRAMING = NUMBERS | {
    Packet.INTERNED_DATA, Packet.SYNCHRONIZATION_MARKER, Packet.DEFAULTS, Packet.CLOCK_SNAPSHOT,
    Packet.TRACE_UUID, Packet.COMPRESSED_PACKETS, Packet.ZSTD_COMPRESSED_PACKETS,
}  # fmt: skip
"""The fields of packets that say something of packets, not of the traced program."""


class _Reading:
    """The state from one block to the next."""

    def __init__(self, registry: Registry, tables: Set[str]) -> None:
        self._least = LEAST
        self._registry = registry
        self._losses = registry.losses
        self._rows = Rows(registry, tables)
        self._sequences = Sequences(registry)
        self._tracks = Tracks(registry)
        self._events = Events(registry, self._rows, self._tracks)
        self._kernel = Kernel(registry, self._rows, self._tracks, LEAST)
        self._samples = Samples(registry, self._rows, self._tracks)
        self._columns = Columns(registry, self._rows, self._sequences, self._tracks)
        self._packet = 0
        self._latest = 0
        self._is_within = False

    def enter(self, data: Bytes, begin: Array, end: Array) -> Iterator[TimelinePart]:
        """Take the packets of a block, given by where they begin and end, and yield the parts of the timeline."""
        for first in range(0, len(begin), MAX_ROWS):
            rows = slice(first, first + MAX_ROWS)
            yield from self._take(data, begin[rows], end[rows])
            yield self._part()

    def finish(self) -> TimelinePart:
        """Return what is known at the end of the trace."""
        return TimelinePart(tables=self._kernel.finish(max(self._latest, self._columns.latest)))

    def _part(self) -> TimelinePart:
        part = self._rows.part()
        part.tables |= self._kernel.tables()
        return part

    def _take(self, data: Bytes, begin: Array, end: Array) -> Iterator[TimelinePart]:
        """Take packets, and yield the parts of the timeline that are full."""
        block, defining, done = None, np.arange(len(begin)), 0
        if len(begin) >= self._least:
            block = Block.read(data, begin, end, with_args=self._rows.wants("args"))
            if len(block.events.listed) > MAX_ARGUMENTS and len(begin) > 2 * self._least:
                for half in (slice(0, len(begin) // 2), slice(len(begin) // 2, None)):
                    yield from self._take(data, begin[half], end[half])
                    yield self._part()
                return
            defining = block.defining()
        for place in [*defining.tolist(), len(begin)]:
            if block is not None and place - done >= self._least:
                self._enter_run(block, begin, end, slice(done, place))
                done = place
            for row in range(done, min(place + 1, len(begin))):
                packet = Message(data, int(begin[row]), int(end[row]), self._losses)
                for field in _COMPRESSIONS:
                    if field in packet:
                        yield from self._decompressed(packet, field)
                self._enter(packet)
            done = place + 1

    def _enter_run(self, block: Block, begin: Array, end: Array, run: slice) -> None:
        """Take packets of a block that define nothing."""
        first = self._packet - run.start  # the number of the first packet of the block
        unusual = self._columns.enter(block, run, first)
        writers = unusual.writers
        for row, time, place in zip(unusual.row.tolist(), unusual.time.tolist(), writers.of.tolist(), strict=True):
            packet = Message(block.data, int(begin[row]), int(end[row]), self._losses)
            self._enter_content(packet, writers.members[place], time if time >= 0 else None, first + row)
        self._packet += run.stop - run.start

    def _decompressed(self, packet: Message, field: Packet) -> Iterator[TimelinePart]:
        """Take packets that are compressed together in a packet."""
        if self._is_within:
            self._losses[_TWICE] += 1
            return
        self._is_within = True
        for data in packet.texts(field):
            source = Source(io.BytesIO(data), "packets", limit=MAX_PACKET, compression=_COMPRESSIONS[field])
            for block in blocks(source, self._losses, min(BLOCK, 64 * len(data) + 1)):
                yield from self.enter(*block)
        self._is_within = False

    def _enter(self, packet: Message) -> None:
        """Take a packet."""
        number, self._packet = self._packet, self._packet + 1
        sequence = self._sequences.enter(packet)
        if packet.number(Packet.SEQUENCE_FLAGS) & NEEDS_STATE and not sequence.is_sound:
            self._losses[NO_STATE] += 1
            return
        time: int | None = packet.number(Packet.TIMESTAMP, -1)
        if time is not None and time >= 0:
            time = self._sequences.clocks.time(sequence, packet.number(Packet.CLOCK, sequence.clock), time)
        self._enter_content(packet, sequence, time, number)

    def _enter_content(self, packet: Message, sequence: Sequence, time: int | None, place: int) -> None:
        """Take the content of a packet, whose number is given; its time is None where it has none of use."""
        if time is not None and not 0 <= time <= MAX_INT64:
            time = None
        self._latest = max(self._latest, time or 0)
        for field in packet.found:
            if field in _FRAMING:
                continue
            for message in packet.messages(field):
                self._enter_message(field, message, sequence, time, place * PER_PACKET)

    def _enter_message(self, field: int, message: Message, sequence: Sequence, time: int | None, number: int) -> None:
        """Take the content of one type."""
        if field in (Packet.TRACK_EVENT, Packet.PERF_SAMPLE) and time is None:
            self._losses[_NO_TIME] += 1
        elif field == Packet.TRACK_EVENT and time is not None:
            self._events.enter(message, sequence, time, number)
        elif field == Packet.PERF_SAMPLE and time is not None:
            self._samples.enter(message, sequence, time)
        elif field == Packet.STREAMING_PROFILE_PACKET:
            self._samples.enter_stream(message, sequence, time)
        elif field == Packet.FTRACE_EVENTS:
            self._kernel.enter(message, number)
        elif field == Packet.TRACK_DESCRIPTOR:
            self._tracks.describe(message)
        elif field == Packet.PROCESS_DESCRIPTOR:
            self._tracks.describe_process(message)
        elif field == Packet.THREAD_DESCRIPTOR:
            self._tracks.describe_thread(message)
        elif field == Packet.PROCESS_TREE:
            self._tracks.enter_tree(message)
        elif field == Packet.TRACE_ATTRIBUTES:
            self._note_labels(message)
        else:
            name = Packet(field).name.lower() if field in _TYPES else str(field)
            self._losses[f"packets of the type {name}"] += 1

    def _note_labels(self, message: Message) -> None:
        """Take attributes of the trace."""
        for attribute in message.messages(ATTRIBUTES):
            text = attribute.text(Attribute.TEXT)
            if text is None:
                text = str(attribute.signed(Attribute.NUMBER)) if Attribute.NUMBER in attribute else ""
            self._registry.note_label(attribute.text(Attribute.KEY) or "", text)


def parts(source: Source, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    """Read a file, see `fxtio.formats.TimelineRoom.parts`."""
    return joined_if_late(_parts(source, registry, tables), registry)


def _parts(source: Source, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    reading = _Reading(registry, tables)
    for data, begin, end in blocks(source, registry.losses, BLOCK):
        yield from reading.enter(data, begin, end)
    yield reading.finish()


def joined_if_late(parts: Iterable[TimelinePart], registry: Registry) -> Iterator[TimelinePart]:
    """Yield parts again, of which the steps are together with those of the next part if that has some that are earlier.

    Programs write a trace in pieces, and an event that ends a piece may be later than some of the next one.  Within a
    part, the order does not matter.
    """
    held: Steps | None = None
    latest = np.empty(0, np.uint64)  # of each track
    for part in parts:
        steps = part.steps
        if steps is None:
            yield part
            continue
        latest = np.concatenate([latest, np.zeros(registry.track_count - len(latest), np.uint64)])
        time = steps.time.view(np.uint64)
        is_late = held is not None and bool((time < latest[steps.track]).any())
        _native.late(steps.track, time, latest, np.empty(0, np.int64))
        if held is not None and is_late and len(held) < MAX_HELD:
            held = Steps.joined([held, steps])
            yield TimelinePart(None, part.tables)
        else:
            yield TimelinePart(held, part.tables)
            held = steps
    yield TimelinePart(held)


def blocks(source: Source, losses: Counter[str], size: int) -> Iterator[tuple[Bytes, Array, Array]]:
    """Yield blocks of a file: the bytes (so many, or a packet), and where the packets begin and end (int64)."""
    data, wanted = bytearray(), size
    while True:
        chunk = bytearray(wanted)
        count = source.readinto(memoryview(chunk))
        data += memoryview(chunk)[:count]
        begin, end, position = framed(data, losses)
        if len(begin):
            yield data, begin, end
        data = data[position:]
        try:
            missing = size_of_field(data) - len(data)
        except WireError:
            losses[_REST] += 1
            return
        if missing + len(data) > MAX_PACKET:
            losses[_TOO_LONG] += 1
            missing = _passed_over(source, missing)
            data = bytearray()
        if count < wanted:
            break
        wanted = max(size, missing)
    losses[DAMAGED] += bool(data)
    if source.fault is not None:
        losses[source.fault] += 1


def _passed_over(source: Source, count: int) -> int:
    """Pass over so many bytes of a file, and return how many it does not have."""
    chunk = memoryview(bytearray(BLOCK))
    while count > 0 and (read := source.readinto(chunk[: min(count, BLOCK)])):
        count -= read
    return count


def framed(data: Bytes, losses: Counter[str]) -> tuple[Array, Array, int]:
    """Return where packets begin and end (int64), and the position after the last whole one."""
    found = _TRACE.read(data, np.zeros(1, np.int64), np.array([len(data)]))
    if found.has(FieldMark.OTHER).any():
        losses[_NO_PACKETS] += sum(each[:2] != _PACKET for each in fields(data, 0, found.position))
    return (*places(found.listed), found.position)
