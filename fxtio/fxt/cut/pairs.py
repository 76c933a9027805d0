"""Begins and ends that belong together: spans of threads, and async operations.

Each end gets the begin that it closes.  A begin before the range whose end is not before the range waits, to be
written at the start of the range; an end behind the range is moved to its end.  What is open at the end of a batch
goes before the rows of the next one.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from fxtio import _native
from fxtio._native.constants import SpanFault, SpanStep
from fxtio.arrays import Array
from fxtio.codec.distinct import number_distinct
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.cut.early import MAX_BYTES, EarlyRecord, Head, early_records
from fxtio.fxt.cut.fields import FLOWS, Classes
from fxtio.fxt.cut.marks import Marked, values_at
from fxtio.fxt.records import KINDS, RECORDS
from fxtio.fxt.rules.view import MAX_KEPT

_FACTOR = np.uint64(2 * secrets.randbits(63) + 1)
_FEW = 4_096  # so many records cannot have too many bytes
_COMPLETE: Classes = frozenset({r.DurationComplete})


class _State(IntEnum):
    """The decision about a begin: whether it is written."""

    DROPPED = 0
    """It is not written: it is not selected, or behind the range."""
    WAITING = 1
    """It is before the range, and its end is not known yet."""
    TAKEN = 2
    """It is written."""


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
        self._step_of_kind = np.zeros(len(RECORDS.classes), np.int8)
        for cls, step in self._steps(by_name=True).items():
            self._step_of_kind[KINDS[cls]] = step
        self._classes = [frozenset(self._steps(by_name=by_name)) for by_name in (False, True)]
        self._open: _Rows | None = None
        self._open_keys = np.empty(0, np.uint64)  # what stands for the tracks of these rows
        self._waiting: list[EarlyRecord | None] = []  # of the open rows

    @property
    def is_live(self) -> bool:
        """Whether a begin that is written, or may be, has not ended."""
        return self._open is not None and bool(
            ((self._open.state != _State.DROPPED) & (self._open.step == SpanStep.BEGIN)).any()
        )

    @property
    def open_keys(self) -> Array:
        """What stands for the tracks on which begins have not ended: the ids of operations (uint64)."""
        return self._open_keys

    def _steps(self, *, by_name: bool) -> dict[type[Record], SpanStep]:
        """Return the classes of the records that are looked at, and what each is.

        Args:
            by_name: categories or names are selected.
        """
        steps = {self._begin: SpanStep.BEGIN, self._end: SpanStep.END}
        if self._point is not None:
            steps[self._point] = SpanStep.FLOW
        elif by_name:  # flow events are taken over with the span that encloses them
            steps[r.DurationComplete] = SpanStep.COMPLETE
            steps |= dict.fromkeys(FLOWS, SpanStep.FLOW)
        return steps

    def enter(self, marked: Marked) -> None:
        """Mark the records of a batch that are written, and move ends behind the range to its end."""
        classes = self._classes[marked.choice.by_name]
        if not marked.fields.present(classes):
            return
        rows, keys = self._rows(marked, classes)
        fresh: Array | slice = slice(0 if self._open is None else len(self._open.row), None)
        if _native.late(rows.track, rows.time, np.zeros(len(keys), np.uint64), np.empty(0, np.int64)):
            rows = rows.take(np.lexsort((rows.time, rows.track)))
            fresh = np.flatnonzero(rows.row >= 0)
        partner, top = _nest(rows, len(keys))
        self._mark(marked, rows, partner, fresh)
        self._pass_on_open(marked, rows, partner, top)
        assert self._open is not None
        self._open_keys = keys[self._open.track]

    def _rows(self, marked: Marked, classes: Classes) -> tuple[_Rows, Array]:
        """Return the rows of a batch behind those that are open, and for each track the key that stands for it."""
        row = marked.fields.rows(classes)
        if self._point is None and marked.choice.by_thread:  # the records of a span are of the same thread
            row = row[marked.chosen_threads[row]]
        track, keys = self._tracks(marked, classes, row)
        count = len(track) - len(row)
        rows = _Rows(
            np.empty(len(track), np.int8), track, np.empty(len(track), np.uint64), np.zeros(len(track), np.uint64),
            np.empty(len(track), np.int8), np.empty(len(track), np.int64),
        )  # fmt: skip
        if self._open is not None:
            opened = self._open
            rows.step[:count], rows.time[:count], rows.end[:count] = opened.step, opened.time, opened.end
            rows.state[:count], rows.row[:count] = opened.state, opened.row
        rows.row[count:] = row
        step = rows.step[count:]
        step[:] = self._step_of_kind[marked.batch.frame.kind[row]]
        rows.time[count:] = marked.nanoseconds(marked.ticks[row], row)
        rows.state[count:] = self._states(marked, classes)[row]
        complete = np.flatnonzero(step == SpanStep.COMPLETE) if r.DurationComplete in classes else ()
        if len(complete):
            ends = marked.fields.tails(_COMPLETE)[row[complete]]
            rows.end[count:][complete] = marked.nanoseconds(ends, row[complete])
        return rows, keys

    def _states(self, marked: Marked, classes: Classes) -> Array:
        """Return the state of each record of some classes, see `_State`; other rows mean nothing (int8)."""
        fields, chosen = marked.fields, marked.chosen
        taken = marked.within & chosen
        points = FLOWS if self._point is None else frozenset({self._point})
        if points <= classes and fields.present(points):
            is_point, with_span = fields.are(points), chosen if self._point is not None else marked.chosen_threads
            taken = (taken & ~is_point) | (marked.points & with_span & is_point)
        if marked.has_before and r.DurationComplete in classes:
            ends_later = fields.tails(_COMPLETE) > marked.first
            taken |= fields.are(_COMPLETE) & marked.before & chosen & ends_later
        state: Array = taken.view(np.int8) * np.int8(_State.TAKEN)
        if marked.has_before and marked.has_start:
            waits = fields.are(frozenset({self._begin})) & marked.before & chosen  # these are not taken
            state |= waits.view(np.int8) * np.int8(_State.WAITING)
        return state

    def _tracks(self, marked: Marked, classes: Classes, row: Array) -> tuple[Array, Array]:
        """Return the tracks of the open rows and of those of a batch, threads or operations.

        Args:
            marked: the batch.
            classes: the classes of the records.
            row: the numbers of the records.

        Returns:
            The number of the track of each row (int32), and a key that stands for each track (uint64).
        """
        batch, provider = marked.batch, marked.batch.provider
        if self._point is not None:
            return _numbered(np.concatenate([self._open_keys, marked.fields.tails(classes)[row]]))
        codes = marked.fields.threads(classes)[row]  # some threads are new
        keys = _thread_keys(batch.threads.koids())
        if not isinstance(provider, int):
            return _numbered(np.concatenate([self._open_keys, _of_provider(keys[codes], provider[row])]))
        numbers, keys = _numbered(_of_provider(keys, provider))
        opened, keys = _numbers(self._open_keys, keys)
        return np.concatenate([opened, numbers.take(codes)]), keys

    def _mark(self, marked: Marked, rows: _Rows, partner: Array, fresh: Array | slice) -> None:
        """Decide which records are written; the rows `fresh` are those of the batch."""
        of_begin = np.append(rows.state, np.int8(-1)).take(partner, mode="wrap")  # of the partner -1, the last one
        is_end, is_point = rows.step == SpanStep.END, rows.step == SpanStep.FLOW
        is_taken, alone = rows.state == _State.TAKEN, of_begin < 0
        reopens = is_end & (of_begin == _State.WAITING)
        if reopens.any():
            ends = rows.row[reopens]
            reopens[reopens] = marked.ticks[ends] > values_at(marked.first, ends)
        taken = (rows.step == SpanStep.BEGIN) & is_taken
        taken |= reopens | (is_end & ((of_begin == _State.TAKEN) | (alone & is_taken)))
        is_enclosed = of_begin > _State.DROPPED
        if self._point is not None:
            is_enclosed |= alone
        taken |= is_point & is_enclosed & is_taken
        marked.taken[rows.row[fresh]] = taken[fresh]
        if marked.has_behind:
            self._move_late(marked, rows.row[taken & is_end])
        if reopens.any():
            self._reopen(marked, rows, partner[reopens], rows.time[reopens])

    def _move_late(self, marked: Marked, ends: Array) -> None:
        """Move the ends (numbers of records) that are behind the range to its end."""
        late = ends[marked.ticks[ends] > values_at(marked.last, ends)]
        marked.move(self._end, 0, late, values_at(marked.last, late) + np.uint64(1))

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
