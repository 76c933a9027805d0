"""Rules of a trace as a whole: how it begins, its providers, their clocks, and times that mislead."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import rows_of_each
from fxtio.codec.record import Record
from fxtio.errors import shown
from fxtio.finding import Findings
from fxtio.fxt import records as r
from fxtio.fxt.enums import ProviderEventId
from fxtio.fxt.rules.view import View, by_provider
from fxtio.fxt.slots import NS_PER_SECOND, Clock

MAX_ERROR = 100
"""The greatest error in nanoseconds of a time in Perfetto that is not reported."""

_BEFORE_PROVIDERS: tuple[type[Record], ...] = (r.Magic, r.TraceInfo, r.Initialization, *r.WITH_PROVIDER_ID)
_NEGATIVE = 2**63
_FAR = 10  # time 0 is reported if it is this many times as far from the other times as they are from each other


@dataclass(slots=True)
class _Times:
    """The times of a provider's events, in ticks.

    Attributes:
        zeros: how many are 0.
        first_zero: the offset of the first of them.
        least: the least of the others.
        most: the greatest.
    """

    zeros: int = 0
    first_zero: int = 0
    least: int = _NEGATIVE
    most: int = 0


class Archive:
    """The rules of the groups framing, provider, clock and time."""

    def __init__(self) -> None:
        self._is_first = True
        self._names: dict[int, str] = {}
        self._rates: dict[int, int] = {}  # by the index of the provider
        self._clockless: set[int] = set()
        self._times: dict[int, _Times] = {}
        self._has_provider = False  # or records before the first provider are reported
        self._wrong_from: list[int] = []  # by the code of the clock, see `_first_inexact`

    def enter(self, view: View) -> None:
        """Check a batch."""
        if self._is_first and len(view.batch):
            self._is_first = False
            self._check_magic(view)
        self._check_providers(view)
        if r.Initialization in view.present:
            self._check_rates(view)
        self._check_clocks(view)
        for cls in view.batch.classes():
            if cls in r.TIMED:
                self._check_times(view, cls)

    def finish(self, findings: Findings) -> None:
        """Check what only the end of the trace decides."""
        for index, times in self._times.items():
            apart = times.least
            rate = self._rates.get(index, NS_PER_SECOND)
            if times.zeros and times.most and apart > max(_FAR * (times.most - times.least), rate):
                message = f"the time is 0; other events come {apart:,} ticks later and after that"
                findings.add("time.zero", times.first_zero, message, times=times.zeros)

    def _check_magic(self, view: View) -> None:
        frame = view.batch.frame
        if frame.offset(0) != 0 or r.RECORDS.classes[frame.kind[0]] is not r.Magic or frame.kind[0] < 0:
            view.findings.add("framing.no-magic", 0)

    # ---- providers

    def _check_providers(self, view: View) -> None:
        batch = view.batch
        if not self._has_provider:
            self._check_before_providers(view)
        known = np.fromiter(self._names, np.int64)
        since: dict[int, int] = {}  # the first record of the batch that introduces a provider, by its id
        if r.ProviderInfo in view.present:
            rows, columns = batch.columns(r.ProviderInfo)
            names = [raw.decode("utf-8", "replace") for raw in columns["name"].to_bytes()]
            for row, number, name in zip(rows.tolist(), columns["provider_id"].tolist(), names, strict=True):
                since.setdefault(number, row)
                self._introduce(view, row, number, name)
        if r.ProviderEvent in view.present:
            rows, columns = batch.columns(r.ProviderEvent)
            numbers = columns["provider_id"]
            first = np.array([since.get(number, len(batch)) for number in numbers.tolist()], np.int64)
            strange = ~np.isin(numbers, known) & (rows < first)
            view.report(
                "provider.unknown",
                rows[strange],
                lambda index: f"an event of provider {numbers[strange][index]}, which was not introduced",
            )
            lost = rows[columns["event"] == ProviderEventId.BUFFER_FILLED_UP]
            view.report("provider.lost", lost)

    def _check_before_providers(self, view: View) -> None:
        """Report the first record of a provider that is before all provider info records."""
        kinds = np.array([r.KINDS[cls] for cls in _BEFORE_PROVIDERS], np.int8)
        rows = np.flatnonzero(~np.isin(view.batch.frame.kind, kinds))
        infos = view.batch.rows(r.ProviderInfo)
        self._has_provider = bool(len(rows) or len(infos))
        if len(rows) and (not len(infos) or rows[0] < infos[0]):
            view.report("provider.none", rows[:1])

    def _introduce(self, view: View, row: int, number: int, name: str) -> None:
        if number in self._names:
            message = f"provider {number}, {shown(self._names[number])}, is introduced once more, as {shown(name)}"
            view.report("provider.again", np.array([row]), message)
        elif not name:
            view.report("provider.name-empty", np.array([row]), f"provider {number} has no name")
        if len(self._names) < 2**16:
            self._names[number] = name

    # ---- clocks

    def _check_rates(self, view: View) -> None:
        rows, columns = view.batch.columns(r.Initialization)
        indices = np.broadcast_to(view.batch.provider_of(rows), len(rows))
        rates = dict(self._rates)
        for row, index, rate in zip(rows, indices.tolist(), columns["ticks_per_second"].tolist(), strict=True):
            before = rates.get(index, rate)
            if rate:
                rates[index] = rate
            if rate and before != rate:
                message = f"the rate changes from {before:,} to {rate:,} ticks per second"
                view.report("clock.changed", np.array([row]), message)

    def _check_clocks(self, view: View) -> None:
        """Report the first timed record of each provider that has no initialization record before it."""
        batch = view.batch
        provider = batch.provider
        indices = [provider] if isinstance(provider, int) else np.flatnonzero(np.bincount(provider)).tolist()
        pending = [index for index in indices if index not in self._rates and index not in self._clockless]
        if pending:
            timed = np.isin(batch.frame.kind, np.array([r.KINDS[cls] for cls in r.TIMED], np.int8))
            starts = batch.rows(r.Initialization)
            for index in pending:
                mine: Any = timed if isinstance(provider, int) else timed & (provider == index)
                row = np.flatnonzero(mine)[:1]
                own = starts if isinstance(provider, int) else starts[provider[starts] == index]
                if len(row) and not (len(own) and own[0] < row[0]):
                    self._clockless.add(index)
                    message = "a record with a time is before the initialization record of its provider"
                    view.report("clock.none", row, message)
        if r.Initialization in view.present:
            rows, columns = batch.columns(r.Initialization)
            owners = np.broadcast_to(batch.provider_of(rows), len(rows)).tolist()
            rates = columns["ticks_per_second"].tolist()
            self._rates |= {owner: rate for owner, rate in zip(owners, rates, strict=True) if rate}

    # ---- times

    def _check_times(self, view: View, cls: type[Any]) -> None:
        rows, columns = view.batch.columns(cls)
        if not len(rows):
            return
        for name in ("timestamp", "end"):
            if name in columns:
                ticks = columns[name]
                clocks = view.batch.clock_codes(ticks, rows)
                if int(ticks.max()) >= _NEGATIVE:
                    message = "a time of 2**63 ticks or more looks like a negative number"
                    view.report("time.negative", rows[ticks >= np.uint64(_NEGATIVE)], message)
                self._check_exact(view, rows, ticks, clocks)
        if issubclass(cls, r.Event):
            self._note_times(view, rows, columns["timestamp"])

    def _check_exact(self, view: View, rows: Array, ticks: Array, clocks: Array) -> None:
        """Report times that Perfetto converts with an error of more than `MAX_ERROR`."""
        known = view.batch.reading.clocks
        self._wrong_from += map(_first_inexact, known[len(self._wrong_from) :])
        latest = int(ticks.max())
        if latest < min(self._wrong_from):
            return
        for code, mine in rows_of_each(clocks):
            if latest >= self._wrong_from[code]:
                wrong = rows[mine[ticks[mine] >= np.uint64(self._wrong_from[code])]]
                rate = known[code].ticks_per_second
                message = f"Perfetto converts this time at {rate:,} ticks per second with an error of over 100 ns"
                if len(wrong):
                    view.batch.report("clock.inexact", wrong, message)

    def _note_times(self, view: View, rows: Array, ticks: Array) -> None:
        for index, mine in by_provider(view.batch.provider_of(rows)):
            times, own = self._times.setdefault(index, _Times()), ticks[mine]
            if int(own.min()) == 0:
                zeros = np.flatnonzero(own == 0)
                if not times.zeros:
                    times.first_zero = int(view.offsets(rows[mine][zeros[:1]])[0])
                times.zeros += len(zeros)
                own = own[own > 0]
            times.least = min(times.least, int(own.min(initial=_NEGATIVE)))
            times.most = max(times.most, int(own.max(initial=0)))


def _first_inexact(clock: Clock) -> int:
    """Return the first tick whose time in Perfetto is wrong by more than `MAX_ERROR`; 2**64 or more if there is none.

    Perfetto multiplies the upper 32 bits of a tick with the nanoseconds of 2**32 ticks, rounded down.
    """
    factor = Fraction(NS_PER_SECOND * 2**32, clock.ticks_per_second)
    error = factor - factor.numerator // factor.denominator
    return (int(MAX_ERROR / error) + 1) * 2**32 if error else 2**64
