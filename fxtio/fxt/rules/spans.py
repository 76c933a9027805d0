"""Rules of spans on threads: begins and ends in pairs, nesting, the order of times, arrows within spans.

Each batch is paired, see `fxtio.pairing`.  Spans that are open at the end of a batch, and
arrows without a span, go before the rows of the next batch.  So do the last complete events that have ended, if
complete events of the next batch begin before them: many producers write these when they end, children before their
parents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from fxtio import _native
from fxtio._native.constants import FITTING, UNWIND, SpanStep
from fxtio.arrays import Array, ArrayRows
from fxtio.codec.record import Record
from fxtio.finding import Findings
from fxtio.fxt import records as r
from fxtio.fxt.records import Thread
from fxtio.fxt.rules.view import MAX_KEPT, View, report_at
from fxtio.fxt.slots import Threads
from fxtio.pairing import Matched, pair, signed

DEEPEST = 512
"""The most open spans of a thread that Perfetto shows."""

MAX_ENDED = 4_096
"""The most complete events that have ended and are compared with those of later batches."""


class SpanFault(IntEnum):
    """A fault of a row in the order of spans."""

    UNMATCHED = 0
    "An end without a begin."
    NAME = 1
    "An end with another key than its begin."
    OVERLAP = 2
    "A span that ends after the one in which it began."
    CHILD_FIRST = 3
    "A complete span that begins together with a shorter one before it."
    DEEP = 4
    "A span within too many others."
    NO_SPAN = 5
    "An arrow outside of every span."
    ON_INSTANT = 6
    "An arrow after an instant."


_STEPS: dict[type[Record], SpanStep] = {
    r.DurationBegin: SpanStep.BEGIN,
    r.DurationEnd: SpanStep.END,
    r.DurationComplete: SpanStep.COMPLETE,
    r.Instant: SpanStep.INSTANT,
    r.FlowBegin: SpanStep.FLOW,
    r.FlowStep: SpanStep.FLOW,
    r.FlowEnd: SpanStep.FLOW,
}
_SPANS = (SpanStep.BEGIN, SpanStep.END, SpanStep.COMPLETE)
_LEFT_OUT = (SpanFault.OVERLAP, SpanFault.CHILD_FIRST)
_OF_PAIRS = (*_LEFT_OUT, SpanFault.DEEP)
_MESSAGES = {
    SpanFault.UNMATCHED: ("event.unmatched-end", "no span is open on this thread"),
    SpanFault.NAME: ("event.end-name", "the end has another name or category than the start at byte {other:,}"),
    SpanFault.OVERLAP: ("event.overlap", "overlaps the complete event at byte {other:,} without nesting"),
    SpanFault.CHILD_FIRST: (
        "event.child-first",
        "the complete event at byte {other:,} begins at the same tick, is shorter, and comes first",
    ),
    SpanFault.DEEP: ("event.too-deep", f"more than {DEEPEST} spans are open on this thread"),
    SpanFault.NO_SPAN: ("flow.no-slice", "no span of this thread encloses the flow event"),
    SpanFault.ON_INSTANT: ("flow.on-instant", "the flow event follows an instant, to which Perfetto binds it"),
}


@dataclass(slots=True)
class _Rows(ArrayRows):
    """Rows for the kernel, in the order of the file, and where they come from.

    Attributes:
        step: see `SpanStep` (int8).
        provider: the index of the provider (int32).
        thread: the code of the thread, valid in the batch; -1 without a step (int32).
        begin: the time in ticks (uint64).
        end: the end of a complete event (uint64).
        key: stands for name and category of a begin or end (uint64).
        offset: the byte offset (int64).
    """

    step: Array
    provider: Array
    thread: Array
    begin: Array
    end: Array
    key: Array
    offset: Array

    @classmethod
    def blank(cls, count: int) -> _Rows:
        """Return this many rows without a step, to be filled."""
        step, thread = np.zeros(count, np.int8), np.full(count, -1, np.int32)
        begin, end, key = np.empty((3, count), np.uint64)
        return cls(step, np.empty(count, np.int32), thread, begin, end, key, np.empty(count, np.int64))


class _Ended:
    """The last complete events that have ended, without those that are within another one of these.

    Attributes:
        rows: the events, in the order of the file.
    """

    def __init__(self) -> None:
        self.rows = _Rows.blank(0)
        self._threads = Threads()  # what the codes of threads mean
        self._latest = 0  # the greatest begin of a complete event so far

    def enter(self, view: View) -> bool:
        """Return whether a complete event of a batch begins before one of an earlier batch."""
        if view.batch.threads is not self._threads:
            codes, inverse = np.unique(self.rows.thread, return_inverse=True)
            fresh = [view.batch.threads.code(self._threads.values[code]) for code in codes.tolist()]
            self.rows.thread = np.array(fresh, np.int32)[inverse]
            self._threads = view.batch.threads
        begin = view.batch.columns(r.DurationComplete)[1]["timestamp"]
        is_late = len(begin) > 0 and int(begin.min()) < self._latest
        self._latest = max(self._latest, int(begin.max(initial=0)))
        return is_late

    def keep(self, view: View, rows: _Rows, track: Array, left_out: Array, *, is_sorted: bool, is_whole: bool) -> None:
        """Keep the last complete events of a batch.

        Args:
            view: the batch.
            rows: its rows; those of a thread are in the order of time.
            track: stands for provider and thread of each row.
            left_out: rows with faults, which are not kept (indices).
            is_sorted: whether all rows are in the order of the file.
            is_whole: whether they shall replace the events that were kept, which are among them.
        """
        frame = view.batch.frame
        since = frame.offset(max(0, len(frame.at) - MAX_ENDED))
        if is_whole:
            recent = np.flatnonzero((rows.offset >= since) | (rows.offset < frame.offset(0)))
        elif is_sorted:
            recent = np.arange(int(rows.offset.searchsorted(since)), len(rows))
        else:
            recent = np.flatnonzero(rows.offset >= since)
        recent = np.setdiff1d(recent, left_out, assume_unique=True) if len(left_out) else recent
        kept = recent[(rows.step[recent] == SpanStep.COMPLETE) & (rows.end[recent] >= rows.begin[recent])]
        # An event that ends before an earlier one of its thread is within that one: nothing later overlaps it.
        number = track[kept]
        inner = np.empty(len(kept), np.int64)
        latest = np.zeros(int(number.max(initial=-1)) + 1, np.uint64)
        kept = np.delete(kept, inner[: _native.late(number, rows.end[kept], latest, inner)])
        if not is_sorted:
            kept = kept[np.argsort(rows.offset[kept])]
        fresh = rows.take(kept[-MAX_ENDED:])
        room = MAX_ENDED - len(fresh)
        if not is_whole and room:
            fresh = _Rows.joined([self.rows.take(slice(-room, None)), fresh])
        self.rows = fresh


class Spans:
    """The rules of spans."""

    def __init__(self) -> None:
        self._open: _Rows | None = None
        self._threads: list[Thread] = []  # of the open rows
        self._ended = _Ended()
        self._latest: dict[tuple[int, Thread], int] = {}
        self._disordered: set[tuple[int, Thread]] = set()

    def enter(self, view: View) -> None:
        """Check a batch."""
        present = [cls for cls in _STEPS if cls in view.present]
        if not present:
            return
        is_late = r.DurationComplete in view.present and self._ended.enter(view)
        before = self._before(view, with_ended=is_late)
        rows = self._rows(view, present, before)
        track, tracks = _tracks(rows)
        self._check_order(view, rows, track, tracks, len(before))
        is_sorted = not _native.late(track, rows.begin, np.zeros(tracks, np.uint64), np.empty(0, np.int64))
        if not is_sorted:
            order = np.lexsort((rows.begin, track))
            rows, track = rows.take(order), track[order]
        faulty = self._nest(view, rows, track, tracks)
        if r.DurationComplete in view.present:
            is_whole = is_late and not is_sorted
            self._ended.keep(view, rows, track, faulty, is_sorted=is_sorted, is_whole=is_whole)

    def _before(self, view: View, *, with_ended: bool) -> _Rows:
        """Return the rows to put before those of a batch, in the order of the file."""
        rows = _Rows.blank(0)
        if self._open is not None:
            codes = [view.batch.threads.code(each) for each in self._threads]
            rows = replace(self._open, thread=np.array(codes, np.int32))
        ended = self._ended.rows
        if with_ended and len(ended):
            rows = _Rows.joined([rows, ended.take(~np.isin(ended.offset, rows.offset))])
            rows = rows.take(np.argsort(rows.offset, kind="stable"))
        return rows

    def _rows(self, view: View, present: list[type[Record]], kept: _Rows) -> _Rows:
        """Return the rows of a batch after others."""
        batch, before = view.batch, len(kept)
        result = _Rows.blank(before + len(batch))
        for name in _Rows.__slots__:
            getattr(result, name)[:before] = getattr(kept, name)
        result.key[before:] = 0
        result.provider[before:] = batch.provider
        for cls in present:
            rows, columns = batch.columns(cls)
            places = rows + before if before else rows
            codes = view.threads(cls, "thread")
            result.thread[places], result.begin[places] = codes, columns["timestamp"]
            result.step[places] = _STEPS[cls]
            if int(codes.min(initial=0)) < 0:
                result.step[places[codes < 0]] = SpanStep.NONE
            if cls is r.DurationComplete:
                result.end[places] = columns["end"]
            elif cls in (r.DurationBegin, r.DurationEnd):
                result.key[places] = view.name_keys(cls)
        np.multiply(batch.frame.at, 8, out=result.offset[before:])
        result.offset[before:] += batch.frame.base
        return result

    def _check_order(self, view: View, rows: _Rows, track: Array, tracks: int, before: int) -> None:
        """Report begins and ends that are earlier than one before them on their thread; `before` rows are older."""
        pairs = np.flatnonzero((rows.step == SpanStep.BEGIN) | (rows.step == SpanStep.END))
        if not len(pairs):
            return
        number = track[pairs]
        first = np.full(tracks, -1, np.int64)
        first[number[::-1]] = pairs[::-1]
        numbers = np.flatnonzero(first >= 0)
        owners = [self._owner(view, rows, row) for row in first[numbers].tolist()]
        latest = np.zeros(tracks, np.uint64)
        latest[numbers] = [self._latest.get(owner, 0) for owner in owners]
        begin = rows.begin[pairs]
        is_open = slice(int(pairs.searchsorted(before)))
        begin[is_open] = latest[number[is_open]]  # these were compared in their own batch
        late = np.empty(len(pairs), np.int64)
        count = _native.late(number, begin, latest, late)
        for owner, last in zip(owners, latest[numbers].tolist(), strict=True):
            if owner in self._latest or len(self._latest) < MAX_KEPT:
                self._latest[owner] = last
        if count:
            late = late[:count]
            for each in np.unique(number[late]).tolist():
                self._disordered.add(owners[int(np.searchsorted(numbers, each))])
            message = "the event is earlier than a begin or end before it on the same thread"
            report_at(view.findings, "event.backwards", rows.offset[pairs[late]], message)

    def _owner(self, view: View, rows: _Rows, row: int) -> tuple[int, Thread]:
        return int(rows.provider[row]), view.batch.threads.values[int(rows.thread[row])]

    def _nest(self, view: View, rows: _Rows, track: Array, tracks: int) -> Array:
        """Report how spans do not nest; return the complete events that are left out because of that."""
        is_complete = rows.step == SpanStep.COMPLETE
        step = np.where(is_complete & (rows.end < rows.begin), np.int8(SpanStep.NONE), rows.step)
        level = np.where(is_complete, np.int32(FITTING), np.int32(UNWIND))
        times, ends = signed(rows.begin), signed(rows.end)
        pairs = pair(step, track, times, tracks=tracks, end=ends, level=level, with_depth=True)
        orphans, left_out = rows.step[:0].astype(np.int64), rows.step[:0].astype(np.int64)
        for fault, at, other in _faults(rows, step, pairs):
            self._report(view, rows, fault, at, other)
            left_out = np.append(left_out, at) if fault in _LEFT_OUT else left_out
        if (step == SpanStep.FLOW).any() or (step == SpanStep.INSTANT).any():
            on_instant, last = _on_instants(rows.step, track, tracks)
            self._report(view, rows, SpanFault.ON_INSTANT, on_instant, on_instant)
            orphans = np.flatnonzero((step == SpanStep.FLOW) & (track >= 0) & (pairs.parent < 0))
            orphans = np.append(np.setdiff1d(orphans, on_instant), last)
        self._keep(view, rows, pairs.open, orphans)
        return left_out

    def _report(self, view: View, rows: _Rows, fault: SpanFault, at: Array, other: Array) -> None:
        rule, text = _MESSAGES[fault]
        if fault in _OF_PAIRS:  # both may be of earlier batches
            fresh = np.maximum(rows.offset[at], rows.offset[other]) >= view.batch.frame.offset(0)
            at, other = at[fresh], other[fresh]
        if fault in (SpanFault.UNMATCHED, SpanFault.NAME) and self._disordered:
            good = [self._owner(view, rows, row) not in self._disordered for row in at.tolist()]
            at, other = at[good], other[good]
        if len(at):
            report_at(
                view.findings, rule, rows.offset[at], lambda index: text.format(other=int(rows.offset[other[index]]))
            )

    def _keep(self, view: View, rows: _Rows, still: Array, others: Array) -> None:
        """Keep the spans that are open, and other rows: arrows whose span may still come, and the last instants."""
        orphans = others[rows.step[others] == SpanStep.FLOW]
        is_before = _before_spans(rows, orphans)
        if is_before.any():
            message = "the flow event has the start tick of its span, and is before it"
            report_at(view.findings, "flow.before-slice", rows.offset[orphans[is_before]], message)
            others = np.setdiff1d(others, orphans[is_before])
        kept = np.sort(np.append(still, others))
        if len(kept) > MAX_KEPT:
            message = f"more than {MAX_KEPT:,} spans are open; the oldest ones are left out of further checks"
            view.findings.add("event.too-many-open", int(rows.offset[kept[0]]), message)
            kept = kept[-MAX_KEPT:]
        self._open = rows.take(kept)
        self._threads = [view.batch.threads.values[code] for code in self._open.thread.tolist()]

    def finish(self, findings: Findings) -> None:
        """Check what only the end of the trace decides."""
        if self._open is None:
            return
        owners = zip(self._open.provider.tolist(), self._threads, strict=True)
        ordered = np.array([owner not in self._disordered for owner in owners], bool)
        begins = np.sort(self._open.offset[(self._open.step == SpanStep.BEGIN) & ordered])
        if len(begins):
            report_at(findings, "event.open", begins, "the span has no end")
        flows = np.sort(self._open.offset[self._open.step == SpanStep.FLOW])
        if len(flows):
            report_at(findings, *_no_slice(flows))


def _faults(rows: _Rows, step: Array, pairs: Matched) -> Iterator[tuple[SpanFault, Array, Array]]:
    """Yield the rows that have a fault, and the other row of each, -1 for none."""
    parent = pairs.parent
    ends = np.flatnonzero((step == SpanStep.END) & (rows.thread >= 0))
    opened = parent[ends]
    if pairs.unmatched:
        yield SpanFault.UNMATCHED, ends[opened < 0], opened[opened < 0]
        ends, opened = ends[opened >= 0], opened[opened >= 0]
    key = rows.key[ends]
    other_key = np.flatnonzero((key != rows.key[opened]) & (key != 0))
    yield SpanFault.NAME, ends[other_key], opened[other_key]
    if len(step) and int(pairs.depth.max()) >= DEEPEST:
        deep = np.flatnonzero((pairs.depth >= DEEPEST) & ((step == SpanStep.BEGIN) | (step == SpanStep.COMPLETE)))
        yield SpanFault.DEEP, deep, parent[deep]
    inner = np.flatnonzero(step == SpanStep.COMPLETE)
    if len(inner):
        yield from _overlaps(rows, step, pairs, ends, inner[parent[inner] >= 0])


def _overlaps(
    rows: _Rows, step: Array, pairs: Matched, ends: Array, inner: Array
) -> Iterator[tuple[SpanFault, Array, Array]]:
    """Yield the faults of ends, and of complete spans within others, where a complete span is the other one."""
    parent, begin, end = pairs.parent, rows.begin, rows.end
    outer = parent[parent[ends]]
    beyond = (outer >= 0) & (step[outer] == SpanStep.COMPLETE) & (end[outer] < begin[ends])
    yield SpanFault.OVERLAP, ends[beyond], outer[beyond]
    around = parent[inner]
    is_beyond = (step[around] == SpanStep.COMPLETE) & (end[around] < end[inner])
    for fault, is_together in ((SpanFault.OVERLAP, False), (SpanFault.CHILD_FIRST, True)):
        chosen = is_beyond & ((begin[around] == begin[inner]) == is_together)
        yield fault, inner[chosen], around[chosen]
    closer = pairs.closer[around]
    late = (closer >= 0) & (end[inner] > begin[closer])
    yield SpanFault.OVERLAP, closer[late], inner[late]


def _on_instants(step: Array, track: Array, tracks: int) -> tuple[Array, Array]:
    """Return the flow events that follow an instant of their track, and the instants that are the last of theirs."""
    others = np.flatnonzero((step != SpanStep.NONE) & (step != SpanStep.FLOW))
    last = np.full(tracks + 1, -1, np.int64)
    last[track[others]] = others
    last = last[:-1][last[:-1] >= 0]
    last = last[step[last] == SpanStep.INSTANT]
    is_flow = step == SpanStep.FLOW
    if not is_flow.any() or not (step == SpanStep.INSTANT).any():
        return step[:0].astype(np.int64), last
    narrow = track.astype(np.min_scalar_type(-tracks))  # few tracks are sorted in linear time
    order = np.argsort(narrow, kind="stable")
    order = order[(track[order] >= 0) & (step[order] != SpanStep.NONE)]
    is_flow = is_flow[order]
    begins = np.diff(track[order], prepend=-1) != 0
    before = np.maximum.accumulate(np.where(is_flow & ~begins, 0, np.arange(len(order))))  # the last that is no flow
    return np.sort(order[is_flow & (step[order[before]] == SpanStep.INSTANT)]), last


def _no_slice(offsets: Array) -> tuple[str, Array, str]:
    rule, text = _MESSAGES[SpanFault.NO_SPAN]
    return rule, offsets, text


def _tracks(rows: _Rows) -> tuple[Array, int]:
    """Return a track for each row, a number that stands for its provider and thread (int32), and how many there are.

    Rows without a thread have the track -1.
    """
    thread, provider = rows.thread, rows.provider
    count = int(thread.max(initial=-1)) + 1
    if not len(provider) or int(provider.min()) == int(provider.max()):
        return thread, count
    used = thread >= 0
    pairs = np.where(used, provider.astype(np.int64) * count + thread, -1)
    _, track = np.unique(pairs, return_inverse=True)
    track = track.astype(np.int32)
    if not used.all():
        track -= 1
    return track, int(track.max()) + 1


def _before_spans(rows: _Rows, flows: Array) -> Array:
    """Return for each of some arrows whether a span of its thread begins at its tick after it."""
    if not len(flows):
        return np.zeros(0, bool)
    spans = np.flatnonzero((rows.step == SpanStep.BEGIN) | (rows.step == SpanStep.COMPLETE))
    last: dict[tuple[int, int], int] = dict(
        zip(zip(rows.thread[spans].tolist(), rows.begin[spans].tolist(), strict=True), spans.tolist(), strict=True)
    )
    places = zip(rows.thread[flows].tolist(), rows.begin[flows].tolist(), flows.tolist(), strict=True)
    return np.array([last.get((thread, begin), -1) > row for thread, begin, row in places], bool)
