"""Merge traces into one: the records of each after those of the one before, with providers of its own, on one clock.

All records stay as they are, word for word, with three exceptions.  Ticks are moved by the same number in all records
of a clock, such that tick 0 is the same moment in all traces: nothing is scaled, each provider keeps its tick rate, so
all distances stay exact and only that number is rounded.  Provider ids are replaced where an earlier trace uses them.
Records without a meaning (fillers, further magic numbers) are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from operator import itemgetter
from os import PathLike
from typing import Any

import numpy as np

from fxtio.codec.generate import encode
from fxtio.codec.record import Record
from fxtio.fxt.layout import MAGIC, MAX_PROVIDER_ID
from fxtio.fxt.reader import FxtTrace, records_at
from fxtio.fxt.records import KINDS, WITH_PROVIDER_ID, Magic, ProviderInfo, ProviderSection, String
from fxtio.fxt.rewrite import broken, output, set_ticks
from fxtio.fxt.slots import NS_PER_SECOND, Clock
from fxtio.fxt.state import Batch
from fxtio.io.sink import Sink, whole_file
from fxtio.report import counted, human_size

_WITHOUT_MEANING: tuple[type[Record], ...] = (Magic, String)  # of the strings only those for slot 0
_PROVIDER_SWITCHES: tuple[type[Record], ...] = (ProviderInfo, ProviderSection)
_MAX_TICK = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


@dataclass(slots=True)
class Merged:
    """The result of a merge.

    Attributes:
        records: the number of records that were taken over.
        providers: the number of providers that they come from.
    """

    records: int = 0
    providers: int = 0


def merge(traces: Sequence[FxtTrace], target: str | PathLike[str]) -> str:
    """Write several traces as one, see `fxtio.formats.MergeRoom`."""
    with whole_file(target) as sink:
        merged = merge_to(traces, sink)
    providers = counted(merged.providers, "provider")
    return f"{counted(merged.records, 'record')} of {providers} ({human_size(sink.position)})"


def merge_to(traces: Sequence[FxtTrace], sink: Sink) -> Merged:
    """Write several traces as one, batch by batch.

    The faults of a trace are in its `findings` afterwards; everything else in it is written.

    Args:
        traces: the traces; one that cannot be read twice, such as standard input, is read once.
        sink: takes the bytes.

    Raises:
        OSError: something cannot be read or written.
    """
    inputs = [_Input(trace) for trace in traces]
    zero = min((source.begin for source in inputs if source.begin is not None), default=Fraction(0))
    merged, ids = Merged(), _Ids()
    sink.write(MAGIC)
    for source in inputs:
        _Copy(source, zero, ids, merged, alone=len(inputs) == 1).write(sink)
    return merged


def _begin(clock: Clock) -> Fraction | None:
    """Return the exact wall-clock time of tick 0 in nanoseconds since the Unix epoch; None if it is not known."""
    if clock.wall_clock is None or clock.base_ticks is None:
        return None
    return clock.wall_clock - Fraction(clock.base_ticks * NS_PER_SECOND, clock.ticks_per_second)


class _Input:
    """A trace whose first batch has been read.

    Attributes:
        trace: the trace.
        begin: the earliest wall-clock time of tick 0 by one of the clocks in the first batch, or None.
    """

    def __init__(self, trace: FxtTrace) -> None:
        self.trace = trace
        batches = trace.record_batches(forget=True)
        first = next(batches, None)
        clocks = [] if first is None else first.reading.clocks
        self.begin = min((begin for clock in clocks if (begin := _begin(clock)) is not None), default=None)
        # A trace that can be opened again is not kept open: there may be more traces than a process may open files.
        self._open = None if trace._can_reopen or first is None else chain([first], batches)

    def batches(self) -> Iterator[Batch]:
        """Return an iterator over all batches of the trace."""
        if self.trace._can_reopen:
            return self.trace.record_batches(forget=True)
        return self._open or iter(())


class _Ids:
    """The provider ids that are in use."""

    def __init__(self) -> None:
        self.used: set[int] = set()

    def take(self, preferred: int) -> int:
        """Return this id, or the next one that is free."""
        number = preferred
        while number in self.used:
            number = (number + 1) % (MAX_PROVIDER_ID + 1)
        self.used.add(number)
        return number


class _Copy:
    """The copy of one trace.

    Args:
        source: the trace.
        zero: the wall-clock time that becomes tick 0.
        ids: the provider ids that are in use.
        merged: counts what is written.
        alone: there is no other trace, so that a missing wall clock does not matter.
    """

    def __init__(self, source: _Input, zero: Fraction, ids: _Ids, merged: Merged, *, alone: bool) -> None:
        self._source = source
        self._zero = zero
        self._ids = ids
        self._merged = merged
        self._alone = alone
        self._has_provider = False  # a provider was introduced in the output
        self._shifts: list[int] = []  # by code of the clock
        self._written: dict[int, tuple[int, str]] = {}  # by index of the provider: the id and name that were written
        self._new_ids: dict[int, int] = {}  # by the id that the trace currently has for a provider

    def write(self, sink: Sink) -> None:
        """Write the whole trace."""
        for number, batch in enumerate(self._source.batches()):
            if number == 0 and self._source.begin is None and not self._alone:
                message = "no wall clock tells when the trace began; its ticks stay as they are"
                batch.reading.findings.add("merge.no-wall-clock", 0, message)
            left_out = broken(batch)
            first = b"" if self._has_provider else self._introduction(batch)
            replaced = self._replacements(batch)
            left_out[list(replaced)] = True
            self._shift(batch)
            self._merged.records += len(batch) - int(left_out.sum()) + sum(map(bool, replaced.values()))
            sink.write(b"".join([first, *output(batch, ~left_out, replaced)]))

    # ---- providers

    def _introduction(self, batch: Batch) -> bytes:
        """Return the record that introduces the provider of records before the first provider info record."""
        rows = np.flatnonzero(batch.frame.kind != KINDS[Magic])
        if not len(rows):
            return b""
        self._has_provider = True
        if any(int(rows[0]) in batch.columns(cls)[0] for cls in _PROVIDER_SWITCHES):
            return b""
        return self._enter(batch, int(rows[0]))

    def _replacements(self, batch: Batch) -> dict[int, bytes]:
        """Return the rows of records that are not written as they are, with the bytes that replace each (or none)."""
        replaced: dict[int, bytes] = {}
        present = set(batch.classes())
        for cls in present.intersection(_WITHOUT_MEANING):
            rows, columns = batch.columns(cls)
            ignored = rows if cls is Magic else rows[columns["index"] == 0]  # spec: such string records are ignored
            replaced |= dict.fromkeys(ignored.tolist(), b"")
        with_id: list[tuple[int, Any]] = []
        for cls in present & WITH_PROVIDER_ID:
            rows, _ = batch.columns(cls)
            with_id += zip(rows.tolist(), records_at(batch, cls, rows), strict=True)
        for row, record in sorted(with_id, key=itemgetter(0)):
            replaced[row] = self._enter(batch, row) if type(record) in _PROVIDER_SWITCHES else self._renumbered(record)
        return replaced

    def _renumbered(self, record: Any) -> bytes:
        """Return a record that refers to a provider, with the id that this one has now."""
        if record.provider_id not in self._new_ids:
            self._new_ids[record.provider_id] = self._ids.take(record.provider_id)
        return encode(record.replace(provider_id=self._new_ids[record.provider_id]))

    def _enter(self, batch: Batch, row: int) -> bytes:
        """Return the record that makes the following records those of the provider at this row."""
        index = batch.provider if isinstance(batch.provider, int) else int(batch.provider[row])
        provider = batch.reading.providers[index]
        if index not in self._written:
            self._merged.providers += 1
            self._written[index] = self._ids.take(provider.id), provider.name
            self._new_ids[provider.id] = self._written[index][0]
            return encode(ProviderInfo(*self._written[index]))
        number, name = self._written[index]
        self._new_ids[provider.id] = number
        if row in batch.resets:
            return encode(ProviderInfo(number, name))
        if provider.name != name:
            self._written[index] = number, provider.name
            message = "a provider info record is far after records of its provider, which stays without a name"
            batch.report("merge.late-provider", np.array([row]), message)
        return encode(ProviderSection(number))

    # ---- clocks

    def _shift(self, batch: Batch) -> None:
        """Move all ticks of a batch, in the memory of its frame."""
        block = batch.frame.block
        for clock in batch.reading.clocks[len(self._shifts) :]:
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
                    batch.report("time.overflow", rows[over], "a moved tick does not fit in 64 bits")
                    moved[over] = _MAX_TICK
                set_ticks(batch, at, moved)

    def _shift_of(self, clock: Clock, batch: Batch) -> int:
        """Return how far to move the ticks of a clock; one without a wall clock is moved by the start of the trace."""
        own = _begin(clock)
        begin = self._source.begin if own is None else own
        if begin is None:
            return 0
        shift = round((begin - self._zero) * clock.ticks_per_second / NS_PER_SECOND)
        if 0 <= shift <= clock.latest:
            return shift
        if own is not None:
            message = "a wall clock is too far from those at the start of the traces; the ticks stay as they are"
            batch.report("merge.clock-apart", np.zeros(1, np.int64), message)
        return 0
