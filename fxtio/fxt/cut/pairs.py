"""Begins and ends that belong together: spans of threads, and async operations.

Each end gets the begin that it closes.  A begin before the range whose end is not before the range waits, to be
written at the start of the range; an end behind the range is moved to its end.  What is open at the end of a batch
goes before the rows of the next one.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from fxtio import _native
from fxtio._native.constants import SpanFault, SpanStep
from fxtio.codec.distinct import number_distinct
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.cut.early import MAX_BYTES, EarlyRecord, Head, early_records
from fxtio.fxt.cut.marks import Marked
from fxtio.fxt.rules.view import MAX_KEPT

Array = np.ndarray[Any, Any]

_FACTOR = np.uint64(2 * secrets.randbits(63) + 1)
_FEW = 4_096  # so many records cannot have too many bytes
_FLOWS = (r.FlowBegin, r.FlowStep, r.FlowEnd)


class _State(IntEnum):
    """Whether a begin is written."""

    DROPPED = 0
    """No: it is not selected, or behind the range."""
    WAITING = 1
    """It is before the range, and its end is not known yet."""
    TAKEN = 2
    """Yes."""


@dataclass(slots=True)
class _Rows:
    """Begins, ends and what belongs to them, in the order of the file.

    Attributes:
        step: see `SpanStep` (int8).
        track: the number of the thread or operation in this batch (int32).
        time: the time in nanoseconds (uint64).
        end: the end of a complete event in nanoseconds (uint64).
        state: see `_State` (int8); of an end or a point, whether it is selected itself.
        row: the number of the record in the batch, or -1 - the number of the open begin (int64).
    """

    step: Array
    track: Array
    time: Array
    end: Array
    state: Array
    row: Array

    def columns(self) -> tuple[Array, ...]:
        """Return all columns."""
        return self.step, self.track, self.time, self.end, self.state, self.row

    def take(self, rows: Array) -> _Rows:
        """Return some of the rows."""
        return _Rows(*(column[rows] for column in self.columns()))


class Pairs:
    """Begins and ends of one kind.

    Args:
        begin: the class of begins.
        end: the class of ends.
        point: the class of instants that belong to an operation, or None.
        head: takes the begins that are written at the start of the range.
    """

    def __init__(self, begin: type[Record], end: type[Record], point: type[Record] | None, head: Head) -> None:
        self._begin, self._end, self._point = begin, end, point
        self._head = head
        self._open: _Rows | None = None
        self._open_keys = np.empty(0, np.uint64)  # what stands for the tracks of these rows
        self._waiting: list[EarlyRecord | None] = []  # of the open rows

    @property
    def is_live(self) -> bool:
        """Whether a begin that is written, or may be, has not ended."""
        return self._open is not None and bool(
            ((self._open.state != _State.DROPPED) & (self._open.step == SpanStep.BEGIN)).any()
        )

    def enter(self, marked: Marked) -> None:
        """Mark the records of a batch that are written, and move ends behind the range to its end."""
        steps: dict[type[Record], SpanStep] = {self._begin: SpanStep.BEGIN, self._end: SpanStep.END}
        if self._point is not None:
            steps[self._point] = SpanStep.FLOW
        elif marked.choice.by_name:  # flow events are taken over with the span that encloses them
            steps[r.DurationComplete] = SpanStep.COMPLETE
            steps |= dict.fromkeys(_FLOWS, SpanStep.FLOW)
        present = [cls for cls in steps if cls in marked.batch.classes()]
        if not present:
            return
        rows, keys = self._rows(marked, steps, present)
        if _native.late(rows.track, rows.time, np.zeros(len(keys), np.uint64), np.empty(0, np.int64)):
            rows = rows.take(np.lexsort((rows.time, rows.track)))
        partner, top = _nest(rows, len(keys))
        self._mark(marked, rows, partner)
        self._pass_on_open(marked, rows, partner, top)
        assert self._open is not None
        self._open_keys = keys[self._open.track]

    def _rows(
        self, marked: Marked, steps: dict[type[Record], SpanStep], present: list[type[Record]]
    ) -> tuple[_Rows, Array]:
        """Return the rows of a batch behind those that are open, and for each track the key that stands for it."""
        row, places = marked.in_order(present)
        count = 0 if self._open is None else len(self._open.row)
        total = count + len(row)
        rows = _Rows(
            np.empty(total, np.int8), np.empty(total, np.int32), np.empty(total, np.uint64),
            np.zeros(total, np.uint64), np.empty(total, np.int8), np.empty(total, np.int64),
        )  # fmt: skip
        if self._open is not None:
            for column, values in zip(rows.columns(), self._open.columns(), strict=True):
                column[:count] = values
        rows.row[count:] = row
        for cls, place in zip(present, places, strict=True):
            times, place = marked.times(cls), place + count
            rows.step[place] = steps[cls]
            rows.time[place] = marked.nanoseconds(cls, times.ticks)
            rows.state[place] = self._states(marked, cls, steps[cls])
            if cls is r.DurationComplete:
                rows.end[place] = marked.nanoseconds(cls, marked.batch.columns(cls)[1]["end"])
        rows.track[:], keys = self._tracks(marked, present, places, len(row))
        return rows, keys

    def _states(self, marked: Marked, cls: type[Record], step: SpanStep) -> Array:
        """Return the state of each record of a class, see `_State` (int8)."""
        times = marked.times(cls)
        chosen = marked.chosen(cls, by_name=cls not in _FLOWS)
        within = marked.points(cls) if step is SpanStep.FLOW else times.within
        state: Array = (chosen & within).astype(np.int8) * np.int8(_State.TAKEN)
        if times.has_before:
            if cls is r.DurationComplete:
                ticks = marked.batch.columns(cls)[1]["end"]
                state[chosen & times.before & (ticks > times.first)] = _State.TAKEN
            elif cls is self._begin and marked.has_start:
                state[chosen & times.before] = _State.WAITING
        return state

    def _tracks(
        self, marked: Marked, present: list[type[Record]], places: list[Array], count: int
    ) -> tuple[Array, Array]:
        """Return the tracks of the open rows and of those of a batch, threads or operations.

        Args:
            marked: the batch.
            present: the classes of the records.
            places: the indices of the records of each class among those of the batch.
            count: the number of records.

        Returns:
            The number of the track of each row (int32), and a key that stands for each track (uint64).
        """
        batch, provider = marked.batch, marked.batch.provider
        if self._point is not None or not isinstance(provider, int):
            tracks = np.empty(count, np.uint64)
            for cls, place in zip(present, places, strict=True):
                tracks[place] = self._keys(marked, cls)
            return _numbered(np.concatenate([self._open_keys, tracks]))
        codes_of = [marked.view.threads(cls, "thread") for cls in present]  # some threads are new
        numbers, keys = _numbered(_of_provider(_thread_keys(batch.threads.koids()), provider))
        fresh = np.empty(count, np.int32)
        for place, codes in zip(places, codes_of, strict=True):
            fresh[place] = numbers.take(codes)
        opened, keys = _numbers(self._open_keys, keys)
        return np.concatenate([opened, fresh]), keys

    def _keys(self, marked: Marked, cls: type[Record]) -> Array:
        """Return for each record of a class a key that stands for its track (uint64)."""
        rows, columns = marked.batch.columns(cls)
        if self._point is not None:
            ids: Array = columns["id"]
            return ids
        codes = marked.view.threads(cls, "thread")  # some threads are new
        return _of_provider(_thread_keys(marked.batch.threads.koids())[codes], marked.batch.provider_of(rows))

    def _mark(self, marked: Marked, rows: _Rows, partner: Array) -> None:
        """Decide which records are written."""
        of_begin = np.append(rows.state, np.int8(-1)).take(partner, mode="wrap")  # of the partner -1, the last one
        is_end, is_point = rows.step == SpanStep.END, rows.step == SpanStep.FLOW
        is_taken, alone = rows.state == _State.TAKEN, of_begin < 0
        reopens = is_end & (of_begin == _State.WAITING)
        if reopens.any():
            reopens[reopens] = self._is_behind(marked, rows.row[reopens])
        taken = (rows.step == SpanStep.BEGIN) & is_taken
        taken |= reopens | (is_end & ((of_begin == _State.TAKEN) | (alone & is_taken)))
        is_enclosed = of_begin > _State.DROPPED
        if self._point is not None:
            is_enclosed |= alone
        taken |= is_point & is_enclosed & is_taken
        is_fresh = rows.row >= 0
        marked.taken[rows.row[is_fresh]] = taken[is_fresh]
        if self._end in marked.batch.classes() and marked.times(self._end).has_behind:
            self._move_late(marked, rows.row[taken & is_end])
        if reopens.any():
            self._reopen(marked, rows, partner[reopens], rows.time[reopens])

    def _is_behind(self, marked: Marked, ends: Array) -> Array:
        """Return which ends (numbers of records) are behind the first tick of the range (bool)."""
        times = marked.times(self._end)
        behind: Array = (times.ticks > times.first)[np.searchsorted(times.rows, ends)]
        return behind

    def _move_late(self, marked: Marked, ends: Array) -> None:
        """Move the ends (numbers of records) that are behind the range to its end."""
        times = marked.times(self._end)
        is_late = np.zeros(len(marked.batch), bool)
        is_late[ends] = True
        is_late = is_late[times.rows] & (times.ticks > times.last)
        last = np.broadcast_to(times.last, len(times.rows))[is_late]
        marked.move(self._end, 0, times.rows[is_late], last + np.uint64(1))

    def _reopen(self, marked: Marked, rows: _Rows, begins: Array, ends: Array) -> None:
        """Pass on begins before the range whose ends are not."""
        order = np.argsort(rows.row[begins], kind="stable")
        numbers, times = rows.row[begins][order], ends[order].tolist()
        opened = numbers < 0
        for number, time in zip((-1 - numbers[opened]).tolist(), times, strict=False):
            early = self._waiting[number]
            if early is not None:
                early.until = time
                self._head.add(early)
        fresh = early_records(marked.batch, self._begin, numbers[~opened])
        for early, time in zip(fresh, times[int(opened.sum()) :], strict=True):
            if early is not None:
                early.until = time
                self._head.add(early)

    def _pass_on_open(self, marked: Marked, rows: _Rows, partner: Array, top: Array) -> None:
        """Pass on what is open at the end of a batch to the next one."""
        rows_of_open: list[int] = []
        for row in top[top >= 0].tolist():
            while row >= 0 and len(rows_of_open) < 2 * MAX_KEPT:
                rows_of_open.append(row)
                row = int(partner[row])
        open_rows = np.sort(np.array(rows_of_open, np.int64))
        if len(open_rows) > MAX_KEPT:
            message = f"more than {MAX_KEPT:,} spans are open; the oldest ones are left out"
            marked.batch.reading.findings.add("event.too-many-open", marked.batch.frame.base, message)
            open_rows = open_rows[-MAX_KEPT:]
        still = rows.take(open_rows)
        waiting: list[EarlyRecord | None] = [None] * len(open_rows)
        for place in np.flatnonzero(still.row < 0).tolist():
            waiting[place] = self._waiting[-1 - int(still.row[place])]
        fresh = np.flatnonzero((still.row >= 0) & (still.state == _State.WAITING))
        order = fresh[np.argsort(still.row[fresh])]
        for place, early in zip(
            order.tolist(), early_records(marked.batch, self._begin, still.row[order]), strict=True
        ):
            waiting[place] = early
        if len(waiting) > _FEW and sum(len(early.raw) for early in waiting if early is not None) > MAX_BYTES:
            message = f"spans of more than {MAX_BYTES:,} bytes are open; they are left out"
            marked.batch.reading.findings.add("event.too-many-open", marked.batch.frame.base, message)
            waiting = [None] * len(waiting)
        still.row = -1 - np.arange(len(open_rows))
        self._open, self._waiting = still, waiting

    def finish(self) -> None:
        """Pass on what is open at the end of the trace, and began before the range."""
        for early in self._waiting:
            if early is not None:
                self._head.add(early)


def _thread_keys(koids: Array) -> Array:
    """Return a key for each pair of koids (uint64)."""
    keys: Array = (koids[:, 0] * _FACTOR ^ koids[:, 1]) * _FACTOR
    return keys


def _of_provider(keys: Array, provider: int | Array) -> Array:
    """Return keys of threads that are others for each provider (uint64)."""
    tracks: Array = (keys ^ np.asarray(provider).astype(np.uint64)) * _FACTOR
    return tracks


def _numbered(keys: Array) -> tuple[Array, Array]:
    """Return the number of each key among the distinct keys (int32), and these (uint64)."""
    numbers, first = number_distinct(keys)
    return numbers, keys[first]


def _numbers(sought: Array, keys: Array) -> tuple[Array, Array]:
    """Return the index of each key in a list of distinct keys (int32), and the list with new ones at the end."""
    order = np.argsort(keys)
    index = order[np.minimum(np.searchsorted(keys, sought, sorter=order), len(keys) - 1)]
    is_new = keys[index] != sought
    if is_new.any():
        fresh, inverse = np.unique(sought[is_new], return_inverse=True)
        index[is_new] = len(keys) + inverse
        keys = np.concatenate([keys, fresh])
    return index.astype(np.int32), keys


def _nest(rows: _Rows, tracks: int) -> tuple[Array, Array]:
    """Return the partner of each row, and the innermost open row of each track, -1 for none (int64).

    The partner of an end is its begin, that of a point is what encloses it, that of an open row the next outer one.
    """
    count = len(rows.row)
    top, marked = np.full(tracks, -1, np.int64), np.zeros(tracks, np.int8)
    partner, depth = np.full(count, -1, np.int64), np.empty(count, np.int64)
    faults = np.empty(0, np.int8), np.empty(0, np.int64), np.empty(0, np.int64)
    counts, key = np.zeros(len(SpanFault), np.int64), np.zeros(count, np.uint64)
    columns = rows.step, rows.track, rows.time, rows.end, key
    _native.nest(*columns, top, marked, partner, depth, *faults, counts, count)
    return partner, top
