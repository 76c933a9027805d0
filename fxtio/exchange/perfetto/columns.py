"""The usual packets of a Perfetto trace, many at once: events of tracks whose fields are those that most events have.

What is not usual is left to the reader, which takes it one by one.  So the meaning of all packets is said there, and in
`events`; here the same is done in columns.  Between packets that define something, nothing changes for those
that follow, so they are taken together: a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio._native.constants import FieldMark, SpanStep
from fxtio.arrays import Array
from fxtio.codec.distinct import number_distinct, rows_of_each
from fxtio.codec.integers import MAX_INT64
from fxtio.codec.protobuf import Wire
from fxtio.codec.protobuf_columns import UNUSUAL, Bytes, Fields, Layout, places
from fxtio.exchange.perfetto.annotations import NUMBERS as ARGUMENTS
from fxtio.exchange.perfetto.messages import (
    BEGIN,
    CLEARED,
    COUNTER,
    END,
    INSTANT,
    NEEDS_STATE,
    Annotation,
    Event,
    Interned,
    Packet,
)
from fxtio.exchange.perfetto.rows import PER_PACKET, Rows
from fxtio.exchange.perfetto.state import NO_STATE, Clocks, Sequence, Sequences
from fxtio.exchange.perfetto.tracks import Tracks
from fxtio.timeline.arguments import MAX_ARGS
from fxtio.timeline.parts import PAIR, Registry, Steps
from fxtio.timeline.schema import ArgumentKind

TIMESTAMP, SEQUENCE, FLAGS, CLOCK, EVENT, STATE = range(6)
TYPE, NAME, CATEGORY, TRACK, VALUE, DOUBLE, NAME_TEXT, CATEGORY_TEXT = range(8)

_STATE_NUMBERS = (Packet.STATE_CLEARED, Packet.PREVIOUS_DROPPED)
_STATES = (
    Packet.INTERNED_DATA, Packet.DEFAULTS, Packet.CLOCK_SNAPSHOT, Packet.TRACK_DESCRIPTOR, Packet.THREAD_DESCRIPTOR,
    Packet.PROCESS_DESCRIPTOR, Packet.PROCESS_TREE, Packet.COMPRESSED_PACKETS, Packet.ZSTD_COMPRESSED_PACKETS,
)  # fmt: skip
"""The fields of packets that change what later packets mean."""

_PACKETS = Layout(
    {
        Packet.TIMESTAMP: (TIMESTAMP, Wire.VARINT),
        Packet.SEQUENCE: (SEQUENCE, Wire.VARINT),
        Packet.SEQUENCE_FLAGS: (FLAGS, Wire.VARINT),
        Packet.CLOCK: (CLOCK, Wire.VARINT),
        Packet.TRACK_EVENT: (EVENT, Wire.BYTES),
        **dict.fromkeys(_STATE_NUMBERS, (STATE, Wire.VARINT)),
        **dict.fromkeys(_STATES, (STATE, Wire.BYTES)),
    },
    ignored={Packet.TRUSTED_UID, Packet.TRUSTED_PID, Packet.FIRST_ON_SEQUENCE, Packet.MACHINE_ID},
)
_EVENT_COLUMNS = {
    Event.TYPE: (TYPE, Wire.VARINT),
    Event.NAME: (NAME, Wire.VARINT),
    Event.CATEGORY: (CATEGORY, Wire.VARINT),
    Event.TRACK: (TRACK, Wire.VARINT),
    Event.VALUE: (VALUE, Wire.VARINT),
    Event.DOUBLE: (DOUBLE, Wire.FIXED64),
    Event.NAME_TEXT: (NAME_TEXT, Wire.BYTES),
    Event.CATEGORY_TEXT: (CATEGORY_TEXT, Wire.BYTES),
}
_EVENTS = Layout(_EVENT_COLUMNS, listed=Event.ANNOTATION)
_EVENTS_WITHOUT = Layout(_EVENT_COLUMNS, ignored={Event.ANNOTATION})

_KINDS = {**ARGUMENTS, Annotation.DOUBLE: ArgumentKind.NUMBER, Annotation.TEXT: ArgumentKind.TEXT}
_KINDS |= {Annotation.STRING: ArgumentKind.TEXT}
_VALUES = {field: column for column, field in enumerate(_KINDS)}
_ARG_NAME, _ARG_NAME_TEXT = len(_VALUES), len(_VALUES) + 1
_WIRES = {Annotation.DOUBLE: Wire.FIXED64, Annotation.STRING: Wire.BYTES}
_ANNOTATIONS = Layout(
    {
        **{field: (column, _WIRES.get(field, Wire.VARINT)) for field, column in _VALUES.items()},
        Annotation.NAME: (_ARG_NAME, Wire.VARINT),
        Annotation.NAME_TEXT: (_ARG_NAME_TEXT, Wire.BYTES),
    }
)
_STEPS = np.zeros(COUNTER + 1, np.int8)
_STEPS[[BEGIN, END, INSTANT]] = SpanStep.BEGIN, SpanStep.END, SpanStep.INSTANT

_DEFINING = np.uint64(1 << STATE | 1 << FieldMark.REPEATED | 1 << FieldMark.DAMAGED)
_OTHER = np.uint64(1 << FieldMark.OTHER)


@dataclass(slots=True)
class Block:
    """Packets with their events.

    Attributes:
        data: the bytes.
        packets: the fields of each packet.
        events: those of its event; a packet without one has an empty one.
    """

    data: Bytes
    packets: Fields
    events: Fields

    @classmethod
    def read(cls, data: Bytes, begin: Array, end: Array, *, with_args: bool) -> Block:
        """Read packets, given by where they begin and end."""
        packets = _PACKETS.read(data, begin, end)
        events = (_EVENTS if with_args else _EVENTS_WITHOUT).read(data, *places(packets.values[EVENT]))
        return cls(data, packets, events)

    def defining(self) -> Array:
        """Return the packets that define something, or are damaged (int64, ascending)."""
        is_cleared = (self.packets.values[FLAGS] & np.uint64(CLEARED)) != 0
        return np.flatnonzero(is_cleared | ((self.packets.marks & _DEFINING) != 0))


@dataclass(slots=True)
class Writers:
    """The sequences of some packets.

    Attributes:
        members: the sequences.
        of: the place in `members` of that of each packet (int32).
    """

    members: list[Sequence]
    of: Array

    def take(self, rows: Array) -> Writers:
        """Return those of some of the packets."""
        return Writers(self.members, self.of[rows])

    def each(self, values: list[Any], dtype: type) -> Array:
        """Return the value of each packet, of which those of the members are given."""
        result: Array = np.array(values, dtype)[self.of]
        return result

    def codes(self, kind: Interned, numbers: Array) -> Array:
        """Return the codes of names of a kind (int32), given by their numbers (uint64), -1 if they are not defined."""
        if len(self.members) == 1:
            return self.members[0].codes(kind).codes(numbers)
        keys = self.of.astype(np.uint64) * np.uint64(PAIR) + np.minimum(numbers, _MOST)
        place, first = number_distinct(keys)
        pairs = (divmod(key, PAIR) for key in keys[first].tolist())
        known = [self.members[member].codes(kind).code(number) for member, number in pairs]
        codes: Array = np.array(known, np.int32)[place]
        codes[numbers >= _MOST] = -1
        return codes


@dataclass(slots=True)
class Unusual:
    """Packets that have to be taken one by one.

    Attributes:
        row: their rows (int64).
        time: their times in nanoseconds, -1 for none (int64).
        writers: their sequences.
    """

    row: Array
    time: Array
    writers: Writers


class Columns:
    """Takes runs of packets.

    Args:
        registry: has the names.
        rows: gets the rows.
        sequences: the sequences.
        tracks: the tracks.
    """

    def __init__(self, registry: Registry, rows: Rows, sequences: Sequences, tracks: Tracks) -> None:
        self._code = registry.names.code
        self._losses = registry.losses
        self._nothing = registry.names.code("")
        self._rows = rows
        self._sequences = sequences
        self._tracks = tracks
        self._first = 0
        self.latest = 0

    def enter(self, block: Block, run: slice, first: int) -> Unusual:
        """Take a run of packets, and return what is not usual in it.

        Args:
            block: has the packets.
            run: their rows.
            first: the number of the first packet of the block.
        """
        self._first = first
        packets, events = block.packets, block.events
        numbers = packets.values[SEQUENCE][run]
        place, firsts = number_distinct(numbers)
        writers = Writers([self._sequences.of(number) for number in numbers[firsts].tolist()], place)
        rows = np.arange(run.start, run.stop)
        if not all(member.is_sound for member in writers.members):
            is_sound = writers.each([member.is_sound for member in writers.members], bool)
            is_lost = ~is_sound & ((packets.values[FLAGS][run] & np.uint64(NEEDS_STATE)) != 0)
            self._losses[NO_STATE] += int(is_lost.sum())
            rows, writers = rows[~is_lost], writers.take(~is_lost)
        time = _times(packets, rows, writers, self._sequences.clocks)
        marks, own = packets.marks[rows], events.marks[rows]
        has_event = (marks & _bit(EVENT)) != 0
        is_usual = has_event & (time >= 0) & ((marks & _OTHER) == 0) & ((own & UNUSUAL) == 0)
        is_rest = ~is_usual & (has_event | ((marks & _OTHER) != 0))
        usual = np.flatnonzero(is_usual)
        if len(usual):
            taken = self._enter_events(block, writers.take(usual), rows[usual], time[usual])
            is_rest[usual[~taken]] = True
        self.latest = max(self.latest, int(time.max(initial=0)))
        return Unusual(rows[is_rest], time[is_rest], writers.take(is_rest))

    def _enter_events(self, block: Block, writers: Writers, rows: Array, time: Array) -> Array:
        """Take events with usual fields, and return which of them were taken (bool)."""
        events = block.events
        kind, marks = events.values[TYPE][rows], events.marks[rows]
        default = writers.each([member.track for member in writers.members], np.uint64)
        uuid = np.where((marks & _bit(TRACK)) != 0, events.values[TRACK][rows], default)
        track, scope, multiplier, is_counter = self._known_tracks(uuid, writers)
        is_value = kind == COUNTER
        has_value, has_double = (marks & _bit(VALUE)) != 0, (marks & _bit(DOUBLE)) != 0
        # A track that is not described, or whose values are differences, is -1; so is a name that is not defined.
        name = self._named(block.data, events, writers, Interned.EVENT, (NAME, NAME_TEXT), rows)
        category = self._named(block.data, events, writers, Interned.CATEGORY, (CATEGORY, CATEGORY_TEXT), rows)
        taken: Array = (kind >= BEGIN) & (kind <= COUNTER)
        taken &= (track >= 0) & (is_value == is_counter) & (~is_value | (has_value ^ has_double))
        taken &= (name != _UNDEFINED) & (category != _UNDEFINED)
        has_category = (marks & _bit(CATEGORY)) != 0  # one that is not 0, and no other one
        taken &= ~has_category | ((events.values[CATEGORY][rows] != 0) & ((marks & _bit(CATEGORY_TEXT)) == 0))
        self._enter_arguments(block, writers, rows, taken)
        number = (self._first + rows) * PER_PACKET
        chosen = np.flatnonzero(taken & ~is_value)
        step, own = _STEPS[kind[chosen]], name[chosen]
        self._rows.steps(
            Steps.of(
                0,
                step=step,
                track=track[chosen],
                time=time[chosen],
                end=time[chosen],
                name=np.where(own < 0, np.int32(self._nothing), own),
                category=category[chosen],
                event=number[chosen],
                ticks=time[chosen].view(np.uint64),
                detail=np.where(step == SpanStep.INSTANT, scope[chosen], np.int8(0)),
                key=np.where((step == SpanStep.INSTANT) | (own < 0), 0, own.astype(np.int64) + 2).astype(np.uint64),
            )
        )
        chosen = np.flatnonzero(taken & is_value)
        if len(chosen):
            integers = events.values[VALUE][rows[chosen]].view(np.int64).astype(np.float64)
            doubles = events.values[DOUBLE][rows[chosen]].view(np.float64)
            value = np.where(has_double[chosen], doubles, integers) * multiplier[chosen]
            columns = {"time": time, "track": track, "event": number}
            self._rows.block("counters", value=value, **{key: each[chosen] for key, each in columns.items()})
        return taken

    def _known_tracks(self, uuid: Array, writers: Writers) -> tuple[Array, Array, Array, Array]:
        """Return the track of each number, the scope of instants, what to multiply values with, if it is a counter.

        The track is -1 where it is not described, or its values are differences.
        """
        place, first = number_distinct(uuid)
        members = writers.members
        other = next((member for member in members if member.pid is None), members[0])
        known = [self._tracks.known(number, other) for number in uuid[first].tolist()]
        tracks = [-1 if each is None or each.is_incremental else each.row for each in known]
        others = [(0, 1.0, False) if each is None else (each.scope, each.multiplier, each.is_counter) for each in known]
        scopes, multipliers, counters = zip(*others, strict=True)
        track = np.array(tracks, np.int32)[place]
        if len(members) > 1:  # the track 0 may be one of each sequence
            track[(uuid == 0) & writers.each([member.pid is not None for member in members], bool)] = -1
        return (
            track,
            np.array(scopes, np.int8)[place],
            np.array(multipliers, np.float64)[place],
            np.array(counters, bool)[place],
        )

    def _named(
        self, data: Bytes, fields: Fields, writers: Writers, kind: Interned, columns: tuple[int, int], rows: Array
    ) -> Array:
        """Return the codes of names (int32), -1 for none, `_UNDEFINED` for those that are not defined.

        Args:
            data: has the texts of those that are not defined before.
            fields: the fields of messages.
            writers: the sequences of the messages, which have defined the names.
            kind: their kind.
            columns: the columns of their numbers, and of their texts.
            rows: the messages.
        """
        number, text = fields.values[columns[0]][rows], fields.values[columns[1]][rows]
        codes = writers.codes(kind, number)
        is_defined = number != 0
        codes = np.where(is_defined & (codes < 0), np.int32(_UNDEFINED), codes)
        inline = np.flatnonzero(~is_defined & ((fields.marks[rows] & _bit(columns[1])) != 0))
        codes[~is_defined] = -1
        codes[inline] = self._texts(data, text[inline])
        return codes

    def _texts(self, data: Bytes, values: Array) -> list[int]:
        """Return the codes of texts, given by the values of their fields."""
        begin, end = places(values)
        code = self._code
        spans = zip(begin.tolist(), end.tolist(), strict=True)
        return [code(data[first:last].decode("utf-8", "surrogateescape")) for first, last in spans]

    def _enter_arguments(self, block: Block, writers: Writers, rows: Array, taken: Array) -> None:
        """Take the arguments of events that are taken; those with unusual arguments are taken no longer."""
        listed = block.events.listed_row  # ascending, as the rows are
        first, last = np.searchsorted(listed, [rows[0], rows[-1] + 1]).tolist()
        place = np.searchsorted(rows, listed[first:last])
        is_own = rows[place] == listed[first:last]
        is_own &= taken[place]
        own = first + np.flatnonzero(is_own)
        if not len(own):
            return
        fields = _ANNOTATIONS.read(block.data, *places(block.events.listed[own]))
        event = place[is_own]
        marks, every, those = fields.marks, np.arange(len(own)), writers.take(event)
        name = self._named(block.data, fields, those, Interned.ANNOTATION, (_ARG_NAME, _ARG_NAME_TEXT), every)
        kinds, bits, text = np.zeros(len(own), np.int8), np.zeros(len(own), np.uint64), np.full(len(own), -1, np.int32)
        found = np.zeros(len(own), np.int64)
        for field, column in _VALUES.items():
            chosen = np.flatnonzero(marks & _bit(column))
            found[chosen] += 1
            kinds[chosen] = _KINDS[field]
            values = fields.values[column][chosen]
            if field == Annotation.STRING:
                text[chosen] = self._texts(block.data, values)
            elif field == Annotation.TEXT:
                codes = those.take(chosen).codes(Interned.TEXT, values)
                text[chosen] = np.where(codes < 0, np.int32(_UNDEFINED), codes)
            else:
                bits[chosen] = values != 0 if field == Annotation.BOOL else values
        is_odd = (found != 1) | ((marks & UNUSUAL) != 0) | (name == _UNDEFINED) | (text == _UNDEFINED)
        taken[event[is_odd]] = False
        taken[np.bincount(event, minlength=len(taken)) > MAX_ARGS] = False
        keep = np.flatnonzero(taken[event])
        number = (self._first + rows[event[keep]]) * PER_PACKET
        columns = {"name": np.where(name < 0, np.int32(self._nothing), name), "type": kinds, "bits": bits, "text": text}
        self._rows.block("args", event=number, **{key: each[keep] for key, each in columns.items()})


_UNDEFINED = -2
_MOST = np.uint64(PAIR - 1)


def _bit(*columns: int) -> np.uint64:
    return np.uint64(sum(1 << column for column in columns))


def _times(packets: Fields, rows: Array, writers: Writers, clocks: Clocks) -> Array:
    """Return the times of packets in nanoseconds, -1 for none (int64)."""
    marks, values = packets.marks[rows], packets.values[TIMESTAMP][rows]
    default = writers.each([member.clock for member in writers.members], np.uint64)
    clock = np.where((marks & _bit(CLOCK)) != 0, packets.values[CLOCK][rows], default)
    is_timed = (marks & _bit(TIMESTAMP)) != 0
    is_plain = is_timed & ((clock == 0) | (clock == np.uint64(clocks.plain)))
    time = np.where(is_plain & (values <= np.uint64(MAX_INT64)), values.astype(np.int64), -1)
    others = np.flatnonzero(is_timed & ~is_plain)
    for place, those in rows_of_each(writers.of[others]):
        own = others[those]
        for number, chosen in rows_of_each(clock[own]):
            time[own[chosen]] = clocks.times(writers.members[place], number, values[own[chosen]])
    return time
