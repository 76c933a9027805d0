"""What the packets of a Perfetto trace refer to: clocks, and what each sequence of packets has defined.

https://perfetto.dev/docs/concepts/clock-sync
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import MAX_INT64
from fxtio.codec.protobuf import Message
from fxtio.exchange.perfetto.messages import (
    BOOTTIME,
    CLEARED,
    FIRST_OWN_CLOCK,
    FIRST_SHARED_CLOCK,
    MONOTONIC,
    REALTIME,
    Callstack,
    Clock,
    Defaults,
    Entry,
    Event,
    Frame,
    Interned,
    Mapping,
    Owner,
    Packet,
    Snapshot,
)
from fxtio.timeline import parts
from fxtio.timeline.parts import Registry

ClockKey = tuple[int, int]
"""A clock: the number of its sequence, -1 for a clock of all sequences, and its number."""

MAX_READINGS = 1_000_000
"""The most pairs of readings of clocks that are kept."""

MAX_CLOCKS = 32
"""The most clocks of a snapshot that are used."""

MAX_SEQUENCES = 10_000
"""The most sequences; the packets of all further ones belong to the last one."""

MAX_DEFINED = 4_000_000
"""The most definitions of all sequences that are kept."""

NO_STATE = "packets whose sequence has not defined what they need, or has lost it"
NOT_DEFINED = "names and texts that are not defined"
UNRELATED = "times of clocks that no snapshot relates to the clock of the trace, which are kept"
_SAFE = MAX_INT64

NAMES = (Interned.CATEGORY, Interned.EVENT, Interned.ANNOTATION, Interned.TEXT)
"""The kinds of definitions that become names of the timeline."""


def _text(item: Message) -> str:
    return item.text(Entry.NAME) or ""


def _frame(item: Message) -> tuple[int, ...]:
    return tuple(item.number(each) for each in Frame)


OTHERS: dict[Interned, Callable[[Message], Any]] = {
    Interned.FUNCTION: _text,
    Interned.PATH: _text,
    Interned.SOURCE_PATH: _text,
    Interned.MAPPING: lambda item: item.numbers(Mapping.PATHS),
    Interned.FRAME: _frame,
    Interned.CALLSTACK: lambda item: item.numbers(Callstack.FRAMES),
}
"""The other kinds of definitions that are read, and what is kept of each."""


class Codes:
    """The names of a kind that a sequence has defined: the code of each by its number."""

    def __init__(self) -> None:
        self._dense = np.full(64, -1, np.int32)  # by number
        self._sparse: dict[int, int] = {}

    def define(self, number: int, code: int) -> None:
        """Define a name; the first definition of a number counts."""
        if self.code(number) >= 0:
            return
        if number >= 2 * len(self._dense):
            self._sparse[number] = code
            return
        if number >= len(self._dense):
            self._dense = np.concatenate([self._dense, np.full(len(self._dense), -1, np.int32)])
        self._dense[number] = code

    def code(self, number: int) -> int:
        """Return the code of a name, -1 if it is not defined."""
        code = int(self._dense[number]) if number < len(self._dense) else -1
        return code if code >= 0 else self._sparse.get(number, -1)

    def codes(self, numbers: Array) -> Array:
        """Return the codes of names (int32), given by their numbers (uint64)."""
        is_dense = numbers < np.uint64(len(self._dense))
        codes: Array = self._dense[np.where(is_dense, numbers, np.uint64(0)).astype(np.int64)]
        codes[~is_dense] = -1
        if self._sparse:
            rest = np.flatnonzero(codes < 0)
            distinct, place = np.unique(numbers[rest], return_inverse=True)
            codes[rest] = np.array([self._sparse.get(each, -1) for each in distinct.tolist()], np.int32)[place]
        return codes


_NO_CODES = Codes()


@dataclass(slots=True)
class Sequence:
    """The state of a sequence of packets, which one thread writes.

    Attributes:
        number: its number.
        is_sound: its state was cleared, and nothing has been lost since.
        clock: the clock of packets that name none, 0 for that of the trace.
        track: the track of events that name none.
        extra_tracks: the tracks of the counters that events have besides; those with integers, those with doubles.
        pid: the process of its thread, None if it is not known.
        tid: its thread.
        reference: the time from which its samples count, in nanoseconds.
        names: the names that it has defined, by kinds.
        others: the functions, frames and so on that it has defined, by kinds and numbers.
        counters: the values of counters whose values are differences, by tracks.
        stacks: the rows of its callstacks that were used, by their numbers.
    """

    number: int
    is_sound: bool = False
    clock: int = 0
    track: int = 0
    extra_tracks: tuple[list[int], list[int]] = ([], [])
    pid: int | None = None
    tid: int = 0
    reference: int = 0
    names: dict[int, Codes] = field(default_factory=dict)
    others: dict[tuple[int, int], Any] = field(default_factory=dict)
    counters: dict[int, float] = field(default_factory=dict)
    stacks: dict[int, int] = field(default_factory=dict)

    def codes(self, kind: Interned) -> Codes:
        """Return the names of a kind."""
        return self.names.get(kind, _NO_CODES)


class Sequences:
    """The sequences of a trace.

    Args:
        registry: numbers names.
    """

    def __init__(self, registry: Registry) -> None:
        self.clocks = Clocks(registry)
        self._registry = registry
        self._sequences: dict[int, Sequence] = {}
        self._last = 0
        self._left = MAX_DEFINED

    def of(self, number: int) -> Sequence:
        """Return a sequence."""
        sequence = self._sequences.get(number)
        if sequence is None:
            if len(self._sequences) >= MAX_SEQUENCES:
                self._registry.losses[f"packets of more than {MAX_SEQUENCES:,} sequences; all further are as one"] += 1
                return self._sequences[self._last]
            self._last = number
            sequence = self._sequences[number] = Sequence(number)
        return sequence

    def enter(self, packet: Message) -> Sequence:
        """Take what a packet says about its sequence and the clocks, and return its sequence."""
        sequence = self.of(packet.number(Packet.SEQUENCE))
        if packet.number(Packet.SEQUENCE_FLAGS) & CLEARED or packet.number(Packet.STATE_CLEARED):
            old, number = sequence, sequence.number
            sequence = Sequence(number, is_sound=True, pid=old.pid, tid=old.tid, reference=old.reference)
            self._sequences[number] = sequence
        elif packet.number(Packet.PREVIOUS_DROPPED):
            sequence.is_sound = False
        for defaults in packet.messages(Packet.DEFAULTS):
            sequence.clock = defaults.number(Defaults.CLOCK)
            for event in defaults.messages(Defaults.TRACK_EVENT):
                sequence.track = event.number(Event.TRACK)
                sequence.extra_tracks = event.numbers(Event.EXTRA_TRACKS), event.numbers(Event.EXTRA_DOUBLE_TRACKS)
        for interned in packet.messages(Packet.INTERNED_DATA):
            self._define(interned, sequence)
        for snapshot in packet.messages(Packet.CLOCK_SNAPSHOT):
            self.clocks.enter(snapshot, sequence)
        for thread in packet.messages(Packet.THREAD_DESCRIPTOR):
            sequence.pid, sequence.tid = thread.signed(Owner.PID), thread.signed(Owner.TID)
            sequence.reference = thread.signed(Owner.REFERENCE_TIME) * 1000
        return sequence

    def _define(self, interned: Message, sequence: Sequence) -> None:
        """Take definitions."""
        code, losses = self._registry.names.code, self._registry.losses
        for kind in interned.found:
            if kind not in NAMES and kind not in OTHERS:
                losses[f"definitions of the kind {kind}"] += len(interned.found[kind])
                continue
            kind = Interned(kind)
            for item in interned.messages(kind):
                number = item.number(Entry.IID)
                if not self._left:
                    losses[f"more than {MAX_DEFINED:,} definitions"] += 1
                elif kind in NAMES:
                    self._left -= 1
                    sequence.names.setdefault(kind, Codes()).define(number, code(_text(item)))
                elif (kind, number) not in sequence.others:
                    value = OTHERS[kind](item)
                    self._left -= min(self._left, 1 + (len(value) if isinstance(value, list) else 0))
                    sequence.others[kind, number] = value


@dataclass(slots=True)
class _Readings:
    """How one clock is converted to another: the readings of the first at snapshots, and what to add from each on."""

    at: list[int] = field(default_factory=list)
    add: list[int] = field(default_factory=list)
    most: int = 0  # without its sign


_SYSTEM_CLOCKS = {REALTIME: parts.REALTIME, MONOTONIC: parts.MONOTONIC, BOOTTIME: parts.BOOTTIME}


class Clocks:
    """The clocks of a trace, and how their times are converted to that of the trace.

    A time is converted by the latest snapshot before it, or by the first one; through other clocks if no snapshot has
    both.

    Args:
        registry: gets the wall clock, and counts losses.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._trace: ClockKey = (-1, BOOTTIME)
        self._multipliers: dict[ClockKey, int] = {}
        self._latest: dict[ClockKey, int] = {}  # the latest time of clocks whose times are differences
        self._readings: dict[ClockKey, dict[ClockKey, _Readings]] = {}
        self._paths: dict[ClockKey, list[_Readings] | None] = {}
        self._left = MAX_READINGS

    def enter(self, snapshot: Message, sequence: Sequence) -> None:
        """Take the readings of all clocks at one moment."""
        primary = snapshot.number(Snapshot.PRIMARY)
        if primary and not self._readings:
            self._trace = (-1, primary)
        times: dict[ClockKey, int] = {}
        for clock in snapshot.messages(Snapshot.CLOCKS):
            key = _key(clock.number(Clock.ID), sequence)
            multiplier = clock.number(Clock.MULTIPLIER) or 1
            time = clock.number(Clock.TIMESTAMP) * multiplier
            if len(times) >= MAX_CLOCKS or time > MAX_INT64 or multiplier > MAX_INT64:
                self._registry.losses["readings of clocks that cannot be used"] += 1
                continue
            times[key] = time
            if multiplier != 1:
                self._multipliers[key] = multiplier
            if clock.number(Clock.IS_INCREMENTAL):
                self._latest[key] = time
        for first, before in times.items():
            for second, after in times.items():
                if first != second:
                    self._add(first, second, before, after - before)
        trace = times.get(self._trace)
        if trace is not None and (-1, REALTIME) in times:  # by this, others tell whether the system was started between
            for number, name in _SYSTEM_CLOCKS.items():
                if (-1, number) in times:
                    self._registry.note_clock(name, times[-1, number] - trace)

    def _add(self, first: ClockKey, second: ClockKey, at: int, add: int) -> None:
        """Note how a clock is converted to another from a reading on."""
        known = self._readings.setdefault(first, {})
        if second not in known:
            known[second] = _Readings()
            self._paths.clear()
        readings = known[second]
        if readings.at and (at < readings.at[-1] or add == readings.add[-1]):
            return  # a clock that was set back, or the same difference
        if not self._left:
            self._registry.losses[f"more than {MAX_READINGS:,} readings of clocks"] += 1
            return
        self._left -= 1
        readings.at.append(at)
        readings.add.append(add)
        readings.most = max(readings.most, abs(add))

    def time(self, sequence: Sequence, clock: int, value: int) -> int | None:
        """Return a time of a packet in nanoseconds on the clock of the trace, None if there is no way to tell it."""
        if not clock:
            return value
        key = _key(clock, sequence)
        value *= self._multipliers.get(key, 1)
        if key in self._latest:
            value = self._latest[key] = min(self._latest[key] + value, _SAFE)
        path = self._path(key)
        if path is None:
            return None if key[0] >= 0 else self._kept(value)
        for readings in path:
            value += readings.add[max(bisect_right(readings.at, value) - 1, 0)]
        return value

    def _kept(self, value: int) -> int:
        self._registry.losses[UNRELATED] += 1
        return value

    @property
    def plain(self) -> int:
        """The number of the clock of the trace, 0 if its times have to be converted nevertheless."""
        is_plain = self._trace not in self._multipliers and self._trace not in self._latest
        return self._trace[1] if is_plain else 0

    def times(self, sequence: Sequence, clock: int, values: Array) -> Array:
        """Return what `time` returns for packets of a sequence in their order (int64), -1 where it is not a time.

        Args:
            sequence: the sequence.
            clock: the clock, 0 for that of the trace.
            values: the times (uint64).
        """
        key = _key(clock, sequence)
        path = self._path(key) if clock else []
        multiplier = self._multipliers.get(key, 1) if clock else 1
        most = int(values.max(initial=0)) * multiplier
        bound = (
            most * (len(values) if key in self._latest else 1)
            + self._latest.get(key, 0)
            + sum(each.most for each in path or ())
        )
        if path is None or (clock and bound >= _SAFE):  # numbers of 64 bits may not be enough
            times = [self.time(sequence, clock, value) for value in values.tolist()]
            return np.array([-1 if each is None or not 0 <= each <= MAX_INT64 else each for each in times], np.int64)
        if most > MAX_INT64:
            return np.where(values > np.uint64(MAX_INT64), -1, values.astype(np.int64))
        result = values.astype(np.int64) * multiplier
        if clock and key in self._latest:
            result = self._latest[key] + np.cumsum(result)
            self._latest[key] = int(result[-1])
        for readings in path:
            place = np.maximum(np.searchsorted(np.array(readings.at), result, "right") - 1, 0)
            result = result + np.array(readings.add)[place]
        return np.maximum(result, -1)

    def _path(self, key: ClockKey) -> list[_Readings] | None:
        """Return the conversions that lead from a clock to that of the trace, None if none do."""
        if key not in self._paths:
            if len(self._paths) >= MAX_SEQUENCES:
                self._paths.clear()
            self._paths[key] = self._found(key)
        return self._paths[key]

    def _found(self, key: ClockKey) -> list[_Readings] | None:
        waiting, seen = deque[tuple[ClockKey, list[_Readings]]]([(key, [])]), {key}
        while waiting:
            here, path = waiting.popleft()
            if here == self._trace:
                return path
            for there, readings in self._readings.get(here, {}).items():
                if there not in seen:
                    seen.add(there)
                    waiting.append((there, [*path, readings]))
        return None


def _key(clock: int, sequence: Sequence) -> ClockKey:
    return (sequence.number if FIRST_OWN_CLOCK <= clock < FIRST_SHARED_CLOCK else -1, clock)
