"""Begins and ends that belong together: spans of threads, and async operations.

Each end gets the start that it closes.  A begin before the range whose end is not before the range waits, to be
written at the start of the range; an end after the range is moved to its end.  What is open at the end of a batch
goes before the rows of the next one.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from fxtio import _native
from fxtio._native.constants import FITTING, UNWIND, SpanStep
from fxtio.arrays import Array, ArrayRows
from fxtio.codec.distinct import number_distinct
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.cut.body import MAX_BYTES, EarlyRecord, Head, early_records
from fxtio.fxt.cut.marks import FLOWS, Marked
from fxtio.fxt.records import KINDS, RECORDS
from fxtio.fxt.rules.view import MAX_KEPT
from fxtio.pairing import pair, signed

_FACTOR = np.uint64(2 * secrets.randbits(63) + 1)


class _State(IntEnum):
    """The decision about a begin: whether it is written; about another row, whether it is selected itself."""

    ALONE = -1
    """There is no begin."""
    DROPPED = 0
    """It is not written: it is not selected, or after the range."""
    WAITING = 1
    """It is before the range, and its end is not known yet."""
    TAKEN = 2
    """It is written."""


@dataclass(slots=True)
class _Rows(ArrayRows):
    """Begins, ends and what belongs to them, in the order of the file.

    Attributes:
        step: see `SpanStep` (int8).
        key: stands for the thread or operation (uint64).
        time: the time in nanoseconds (uint64).
        end: the end of a complete event in nanoseconds (uint64).
        state: see `_State` (int8).
        row: the number of the record in the batch, -1 for one of an earlier batch (int64).
        early: the record itself, if it waits and is of an earlier batch (object).
    """

    step: Array
    key: Array
    time: Array
    end: Array
    state: Array
    row: Array
    early: Array


class Pairs:
    """Begins and ends of one kind.

    Args:
        begin: the class of begins.
        end: the class of ends.
        point: the class of instants that belong to an operation; None for spans of threads.
        head: takes the begins that are written at the start of the range.
        by_name: categories or names are selected.
    """

    def __init__(
        self, begin: type[Record], end: type[Record], point: type[Record] | None, head: Head, *, by_name: bool
    ) -> None:
        self._begin, self._end, self._head = begin, end, head
        self._is_async = point is not None
        steps = {begin: SpanStep.BEGIN, end: SpanStep.END}
        if point is not None:
            steps[point] = SpanStep.FLOW
        elif by_name:  # flow events are taken over with the span that encloses them
            steps[r.DurationComplete] = SpanStep.COMPLETE
            steps |= dict.fromkeys(FLOWS, SpanStep.FLOW)
        self._classes = frozenset(steps)
        self._step_of_kind = np.zeros(len(RECORDS.classes), np.int8)
        self._step_of_kind[[KINDS[cls] for cls in steps]] = [*steps.values()]
        self._open: _Rows | None = None

    @property
    def open_keys(self) -> Array:
        """What stands for the tracks on which begins have not ended: the ids of operations (uint64)."""
        return np.empty(0, np.uint64) if self._open is None else self._open.key

    def enter(self, marked: Marked) -> None:
        """Mark the records of a batch that are written, and move ends after the range to its end."""
        if not marked.present(self._classes):
            return
        rows = self._fresh(marked)
        if self._open is not None:
            rows = _Rows.joined([self._open, rows])
        track, first = number_distinct(rows.key)
        if _native.late(track, rows.time, np.zeros(len(first), np.uint64), np.empty(0, np.int64)):
            order = np.lexsort((rows.time, track))
            rows, track = rows.take(order), track[order]
        step = np.where((rows.step == SpanStep.COMPLETE) & (rows.end < rows.time), np.int8(SpanStep.NONE), rows.step)
        level = np.where(step == SpanStep.COMPLETE, FITTING, UNWIND)
        pairs = pair(step, track, signed(rows.time), tracks=len(first), end=signed(rows.end), level=level)
        self._mark(marked, rows, pairs.parent)
        self._keep_open(marked, rows, pairs.open)

    def _fresh(self, marked: Marked) -> _Rows:
        """Return the rows of a batch."""
        row = np.flatnonzero(marked.are(self._classes))
        if not self._is_async:  # the records of a span are of the same thread
            row = row[marked.chosen_threads[row]]
        step = self._step_of_kind[marked.batch.frame.kind[row]]
        if self._is_async:
            key = marked.tails[row]
        else:
            koids = marked.koids(row)
            key = (koids[:, 0] * _FACTOR ^ koids[:, 1]) * _FACTOR
            key = (key ^ np.asarray(marked.batch.provider_of(row)).astype(np.uint64)) * _FACTOR
        is_point, is_complete = step == SpanStep.FLOW, step == SpanStep.COMPLETE
        ends, before, chosen = marked.tails[row], marked.before[row], marked.chosen[row]
        is_in = np.where(is_point, marked.points[row], marked.within[row])
        is_in |= is_complete & before & (ends > marked.first[row])
        state = np.where(is_in & (chosen | (is_point & (not self._is_async))), _State.TAKEN, _State.DROPPED)
        state[(step == SpanStep.BEGIN) & before & chosen] = _State.WAITING
        end = np.zeros(len(row), np.uint64)
        end[is_complete] = marked.nanoseconds(ends[is_complete], row[is_complete])
        time = marked.nanoseconds(marked.ticks[row], row)
        return _Rows(step, key, time, end, state.astype(np.int8), row, np.full(len(row), None))

    def _mark(self, marked: Marked, rows: _Rows, partner: Array) -> None:
        """Decide which records are written."""
        of_begin = np.append(rows.state, np.int8(_State.ALONE)).take(partner, mode="wrap")
        is_end, is_taken, alone = rows.step == SpanStep.END, rows.state == _State.TAKEN, of_begin == _State.ALONE
        reopens = is_end & (of_begin == _State.WAITING)
        reopens &= marked.ticks[rows.row] > marked.first[rows.row]
        taken = reopens | (is_end & ((of_begin == _State.TAKEN) | (alone & is_taken)))
        taken |= (rows.step == SpanStep.BEGIN) & is_taken
        is_enclosed = (of_begin > _State.DROPPED) | (alone & self._is_async)
        taken |= (rows.step == SpanStep.FLOW) & is_enclosed & is_taken
        marked.taken[rows.row[taken & (rows.row >= 0)]] = True
        late = rows.row[taken & is_end]
        late = late[marked.ticks[late] > marked.last[late]]
        marked.move(self._end, 0, late, marked.last[late] + np.uint64(1))
        begins, until = partner[reopens], rows.time[reopens]
        for early, time in zip(self._early(marked, rows, begins), until.tolist(), strict=True):
            if early is not None:
                early.until = time
                self._head.add(early)

    def _early(self, marked: Marked, rows: _Rows, which: Array) -> list[EarlyRecord | None]:
        """Return the records of some begins from before the range; None for one that is too large to be kept."""
        own = rows.row[which]
        fresh = np.sort(own[own >= 0])
        records = dict(zip(fresh.tolist(), early_records(marked.batch, self._begin, fresh), strict=True))
        return [records.get(row, early) for row, early in zip(own.tolist(), rows.early[which].tolist(), strict=True)]

    def _keep_open(self, marked: Marked, rows: _Rows, still: Array) -> None:
        """Keep what is open at the end of a batch for the next one."""
        if len(still) > MAX_KEPT:
            message = f"more than {MAX_KEPT:,} spans are open; the oldest ones are left out"
            marked.batch.reading.findings.add("event.too-many-open", marked.batch.frame.base, message)
            still = still[-MAX_KEPT:]
        self._open = rows.take(still)
        waits = np.flatnonzero(self._open.state == _State.WAITING)
        early = self._early(marked, rows, still[waits])
        if sum(each.size for each in early if each is not None) > MAX_BYTES:
            message = f"spans of more than {MAX_BYTES:,} bytes are open; they are left out"
            marked.batch.reading.findings.add("event.too-many-open", marked.batch.frame.base, message)
            early = [None] * len(early)
        self._open.early[waits] = early
        self._open.row[:] = -1

    def finish(self) -> None:
        """Pass on what is open at the end of the trace, and began before the range."""
        if self._open is not None:
            for early in self._open.early.tolist():
                if early is not None:
                    self._head.add(early)
