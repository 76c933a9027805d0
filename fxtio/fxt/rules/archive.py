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
from fxtio.fxt.rules.view import View
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
        self._wrong_from: list[int | None] = []  # by the code of the clock, see `_first_inexact`

    def enter(self, view: View) -> None:
        """Check a batch."""
        if self._is_first and len(view.batch):
            self._is_first = False
            self._check_magic(view)
        self._check_providers(view)
        if r.Initialization in view.present:
            self._check_rates(view)
        self._check_clocks(view)
        timed = [cls for cls in view.batch.classes() if cls in r.TIMED]
        if not self._is_plain(view, timed):
            for cls in timed:
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

    def _is_plain(self, view: View, timed: list[type[Any]]) -> bool:
        """Return whether no time of a batch is odd; the least and the greatest time of its provider are noted."""
        batch = view.batch
        self._note_clocks(view)
        clock, provider = batch.only_clock, batch.provider
        if clock is None or not isinstance(provider, int):
            return False
        columns = [(cls, batch.columns(cls)[1]) for cls in timed]
        ticks = [each["timestamp"] for cls, each in columns if issubclass(cls, r.Event)]
        events = np.concatenate([np.empty(0, np.uint64), *ticks])
        others = [each["timestamp"] for cls, each in columns if not issubclass(cls, r.Event)]
        others += [each["end"] for _, each in columns if "end" in each]
        greatest = max((int(values.max(initial=0)) for values in (events, *others)), default=0)
        least, limit = int(events.min(initial=_NEGATIVE)), self._wrong_from[clock]
        if greatest >= min(_NEGATIVE, batch.reading.clocks[clock].latest + 1, limit or _NEGATIVE) or least == 0:
            return False
        if len(events):
            self._note_extremes(provider, least, int(events.max()))
        return True

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
        self._note_clocks(view)
        if not any(self._wrong_from):
            return
        for code, mine in rows_of_each(clocks):
            limit = self._wrong_from[code]
            if limit is not None:
                wrong = rows[mine[ticks[mine] >= np.uint64(limit)]]
                rate = view.batch.reading.clocks[code].ticks_per_second
                message = f"Perfetto converts this time at {rate:,} ticks per second with an error of over 100 ns"
                if len(wrong):
                    view.batch.report("clock.inexact", wrong, message)

    def _note_clocks(self, view: View) -> None:
        for clock in view.batch.reading.clocks[len(self._wrong_from) :]:
            self._wrong_from.append(_first_inexact(clock))

    def _note_times(self, view: View, rows: Array, ticks: Array) -> None:
        provider = view.batch.provider_of(rows)
        if isinstance(provider, int):
            self._note_times_of(view, provider, rows, ticks)
            return
        for index, mine in rows_of_each(provider):
            self._note_times_of(view, index, rows[mine], ticks[mine])

    def _note_times_of(self, view: View, index: int, rows: Array, ticks: Array) -> None:
        times = self._times.setdefault(index, _Times())
        if int(ticks.min()) == 0:
            zeros = np.flatnonzero(ticks == 0)
            if not times.zeros:
                times.first_zero = int(view.offsets(rows[zeros[:1]])[0])
            times.zeros += len(zeros)
            ticks = ticks[ticks > 0]
        if len(ticks):
            self._note_extremes(index, int(ticks.min()), int(ticks.max()))

    def _note_extremes(self, index: int, least: int, greatest: int) -> None:
        times = self._times.setdefault(index, _Times())
        times.least, times.most = min(times.least, least), max(times.most, greatest)


def _first_inexact(clock: Clock) -> int | None:
    """Return the first tick whose time in Perfetto is wrong by more than `MAX_ERROR`; None if there is none.

    Perfetto multiplies the upper 32 bits of a tick with the nanoseconds of 2**32 ticks, rounded down.
    """
    factor = Fraction(NS_PER_SECOND * 2**32, clock.ticks_per_second)
    error = factor - factor.numerator // factor.denominator
    if not error:
        return None
    first = (int(MAX_ERROR / error) + 1) * 2**32
    return first if first < 2**64 else None
