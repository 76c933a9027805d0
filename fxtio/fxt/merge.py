"""Several traces to one: the records of one behind those of the other, each with a provider of its own, on one clock.

What a record says stays as it is, word for word, but for three things.  Ticks (the declarations know where they lie)
are moved by the same number in all records of a clock, such that tick 0 is the same moment in all traces: nothing is
scaled, each provider keeps its rate, so all distances stay exact and only that number is rounded.  Provider ids are
exchanged where a trace before has taken them.  Records without a meaning (fillers, more magic numbers) are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np

from fxtio.codec.generate import encode
from fxtio.codec.record import Record
from fxtio.finding import Level
from fxtio.fxt import layout as w
from fxtio.fxt.batch import KINDS, Batch
from fxtio.fxt.clock import NS_PER_SECOND, Clock
from fxtio.fxt.framing import MAGIC, exact
from fxtio.fxt.reader import FxtTrace
from fxtio.fxt.records import Magic, ProviderEvent, ProviderInfo, ProviderSection, String
from fxtio.io.sink import Sink

Array = np.ndarray[Any, Any]

_VOID: tuple[type[Record], ...] = (Magic, String)
_SWITCHES: tuple[type[Record], ...] = (ProviderInfo, ProviderSection)
_LAST = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


@dataclass(slots=True)
class Merged:
    """What was written.

    Attributes:
        records: how many records were taken over.
        providers: how many providers they come from.
    """

    records: int = 0
    providers: int = 0


def merge(traces: Sequence[FxtTrace], sink: Sink) -> Merged:
    """Write several traces as one, batch by batch.

    What is wrong with a trace is among its `findings` afterwards; everything else of it is written.

    Args:
        traces: the traces; what cannot be read twice, such as standard input, is read once.
        sink: takes the bytes.

    Raises:
        OSError: something cannot be read or written.
    """
    inputs = [_Input(trace) for trace in traces]
    zero = min((one.begin for one in inputs if one.begin is not None), default=Fraction(0))
    merged, ids = Merged(), _Ids()
    sink.write(MAGIC)
    for one in inputs:
        _Copy(one, zero, ids, merged, alone=len(inputs) == 1).write(sink)
    return merged


def _begin(clock: Clock) -> Fraction | None:
    """The wall-clock time of tick 0 in nanoseconds since the Unix epoch, exactly; None if it is not known."""
    if clock.wall_clock is None or clock.base_ticks is None:
        return None
    return clock.wall_clock - Fraction(clock.base_ticks * NS_PER_SECOND, clock.ticks_per_second)


class _Input:
    """A trace of which the begin has been looked at.

    Attributes:
        trace: the trace.
        begin: the earliest wall-clock time of tick 0 that one of the clocks at its begin has, or None.
    """

    def __init__(self, trace: FxtTrace) -> None:
        self.trace = trace
        batches = trace._batches(forget=True)
        first = next(batches, None)
        clocks = [] if first is None else first.session.clocks
        self.begin = min((begin for clock in clocks if (begin := _begin(clock)) is not None), default=None)
        # What can be opened again is not kept open: there may be more traces than a process may have files.
        self._open = None if trace._again or first is None else chain([first], batches)

    def batches(self) -> Iterator[Batch]:
        """All of its batches."""
        if self.trace._again:
            return self.trace._batches(forget=True)
        return self._open or iter(())


class _Ids:
    """Provider ids that are all different."""

    def __init__(self) -> None:
        self.used: set[int] = set()

    def take(self, wanted: int) -> int:
        """This id, or the next one that is free."""
        while wanted in self.used:
            wanted = (wanted + 1) % (w.ProviderInfoWord.fields["provider"].mask + 1)
        self.used.add(wanted)
        return wanted


class _Copy:
    """The copy of one trace.

    Args:
        source: the trace.
        zero: the wall-clock time that becomes tick 0.
        ids: the provider ids that are taken.
        merged: counts what is written.
        alone: there is no other trace whose clock would matter.
    """

    def __init__(self, source: _Input, zero: Fraction, ids: _Ids, merged: Merged, *, alone: bool) -> None:
        self._source = source
        self._zero = zero
        self._ids = ids
        self._merged = merged
        self._alone = alone
        self._introduced = False
        self._shifts: list[int] = []  # by code of the clock
        self._of_state: dict[int, tuple[int, str]] = {}  # the new id and the name that were written for a provider
        self._of_id: dict[int, int] = {}  # the new id, by the one that the trace has for a provider by now

    def write(self, sink: Sink) -> None:
        """Write all of it."""
        for number, batch in enumerate(self._source.batches()):
            if number == 0 and self._source.begin is None and not self._alone:
                told = "no wall clock tells when the trace began; its ticks stay as they are"
                batch.session.findings.add("no-wall-clock", 0, told, level=Level.WARNING)
            left_out = _broken(batch)
            first = b"" if self._introduced else self._introduction(batch)
            instead = self._exchanged(batch)
            left_out[list(instead)] = True
            self._shift(batch)
            self._merged.records += len(batch) - int(left_out.sum()) + sum(map(bool, instead.values()))
            sink.write(b"".join([first, *_pieces(batch, ~left_out, instead)]))

    # ---- providers

    def _introduction(self, batch: Batch) -> bytes:
        """Introduce the provider of records that stand before any provider info record, or without one."""
        rows = np.flatnonzero(batch.frame.kind != KINDS[Magic])
        if not len(rows):
            return b""
        self._introduced = True
        if any(int(rows[0]) in batch.columns(cls)[0] for cls in _SWITCHES):
            return b""
        return self._enter(batch, int(rows[0]))

    def _exchanged(self, batch: Batch) -> dict[int, bytes]:
        """What is written instead of some records: their rows, and bytes, which may be none."""
        instead: dict[int, bytes] = {}
        present = set(batch.classes())
        for cls in present.intersection(_VOID):
            rows, columns = batch.columns(cls)
            void = rows if cls is Magic else rows[columns["index"] == 0]  # spec: such string records are ignored
            instead |= dict.fromkeys(void.tolist(), b"")
        named: list[tuple[int, type[Record], int, int]] = []
        for cls in present.intersection([*_SWITCHES, ProviderEvent]):
            rows, columns = batch.columns(cls)
            providers = columns["provider"].tolist()
            events = columns["event"].tolist() if cls is ProviderEvent else providers
            named += zip(rows.tolist(), [cls] * len(rows), providers, events, strict=True)
        for row, cls, provider, event in sorted(named, key=lambda one: one[0]):
            instead[row] = self._event(provider, event) if cls is ProviderEvent else self._enter(batch, row)
        return instead

    def _event(self, provider: int, event: int) -> bytes:
        if provider not in self._of_id:
            self._of_id[provider] = self._ids.take(provider)
        return encode(ProviderEvent(self._of_id[provider], event))

    def _enter(self, batch: Batch, row: int) -> bytes:
        """The record that makes the following ones those of the provider that the trace has at this row."""
        state = batch.state if isinstance(batch.state, int) else int(batch.state[row])
        provider = batch.session.providers[state]
        if state not in self._of_state:
            self._merged.providers += 1
            self._of_state[state] = self._ids.take(provider.id), provider.name
            self._of_id[provider.id] = self._of_state[state][0]
            return encode(ProviderInfo(*self._of_state[state]))
        new, name = self._of_state[state]
        self._of_id[provider.id] = new
        if provider.name != name:
            self._of_state[state] = new, provider.name
            told = "a provider info record stands far behind records of its provider, which stays without a name"
            batch.tell("late-provider", np.array([row]), told, Level.WARNING)
        return encode(ProviderSection(new))

    # ---- clocks

    def _shift(self, batch: Batch) -> None:
        """Move all ticks of a batch, in the frame itself."""
        block = batch.frame.block
        for clock in batch.session.clocks[len(self._shifts) :]:
            self._shifts.append(self._shift_of(clock, batch))
        if not any(self._shifts):
            return
        shifts = np.array(self._shifts, np.uint64)
        for cls in batch.classes():
            for rows, at in batch.ticks(cls):
                ticks = block.words[at]
                shift = shifts[batch.clock_codes(ticks, rows)]
                moved = ticks + shift
                over = moved < shift
                if over.any():
                    batch.tell("time-overflow", rows[over], "a moved tick is beyond 64 bits", Level.WARNING)
                    moved[over] = _LAST
                block.words[at] = moved
                if batch.frame.big_endian:
                    block.raw[at] = moved.byteswap()

    def _shift_of(self, clock: Clock, batch: Batch) -> int:
        """How far to move the ticks of a clock, in whole ticks.  One without a wall clock goes by the trace."""
        own = _begin(clock)
        begin = self._source.begin if own is None else own
        if begin is None:
            return 0
        shift = round((begin - self._zero) * clock.ticks_per_second / NS_PER_SECOND)
        if 0 <= shift <= clock.latest:
            return shift
        if own is not None:
            told = "a wall clock lies too far from those at the begin of the traces; the ticks stay as they are"
            batch.tell("clock-apart", np.zeros(1, np.int64), told, Level.WARNING)
        return 0


def _broken(batch: Batch) -> Array:
    """Which records hold less than they claim (bool): whoever reads the trace could not read them either."""
    broken = np.zeros(len(batch), bool)
    for cls in batch.classes():
        rows, _ = batch.columns(cls)
        of_class = batch.rows(cls)
        if len(rows) < len(of_class):
            broken[of_class] = True
            broken[rows] = False
    return broken


def _pieces(batch: Batch, kept: Array, instead: dict[int, bytes]) -> Iterator[bytes | memoryview]:
    """The bytes of the records that are kept, as they lie there, and those instead of others; in order."""
    frame = batch.frame
    after = frame.at + frame.size
    follows = np.zeros(len(frame.at) + 1, bool)  # whether a record goes on where the one before ends
    follows[1:-1] = kept[1:] & kept[:-1] & (frame.at[1:] == after[:-1])
    begins, lasts = np.flatnonzero(kept & ~follows[:-1]).tolist(), np.flatnonzero(kept & ~follows[1:]).tolist()
    last_of = dict(zip(begins, lasts, strict=True))
    for row in sorted([*last_of, *(row for row, piece in instead.items() if piece)]):
        if row in last_of:
            yield _taken(batch, row, last_of[row])
        else:
            yield instead[row]


def _taken(batch: Batch, first: int, last: int) -> bytes | memoryview:
    """The bytes of a run of records, little-endian."""
    frame = batch.frame
    if not frame.big_endian:
        return frame.block.data[int(frame.at[first]) * 8 : int(frame.at[last] + frame.size[last]) * 8]
    made = []
    for row in range(first, last + 1):
        at, size = int(frame.at[row]), int(frame.size[row])
        record = exact(frame.block, at, at + size, True)
        if isinstance(record, Record):
            made.append(encode(record))
        else:
            told = "a record that is not all known cannot be turned from big-endian to little-endian"
            batch.tell("byte-order", np.array([row]), told)
    return b"".join(made)
