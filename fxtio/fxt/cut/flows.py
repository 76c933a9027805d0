"""Flows that the cut divides: their points within the range become a flow of their own, or are left out if only one is.

The points of a flow are known when it ends, and may be written by then.  So what must change is noted as splices of the
body.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import number_distinct
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.cut.body import Places
from fxtio.fxt.cut.fields import FLOWS
from fxtio.fxt.cut.marks import Marked
from fxtio.fxt.cut.splices import Splices
from fxtio.fxt.enums import EventType
from fxtio.fxt.layout import EventWord
from fxtio.fxt.records import KINDS, RECORDS
from fxtio.fxt.rules.view import MAX_KEPT

_STEPS: dict[type[Record], EventType] = {  # of consecutive numbers
    r.FlowBegin: EventType.FLOW_BEGIN,
    r.FlowStep: EventType.FLOW_STEP,
    r.FlowEnd: EventType.FLOW_END,
}
_STEP_OF_KIND = np.zeros(len(RECORDS.classes), np.int8)
for _cls, _step in _STEPS.items():
    _STEP_OF_KIND[KINDS[_cls]] = _step

_Point = tuple[int, int, int]
"""A point of a flow that was written: its byte offset in the body, its size in bytes, its header word."""


class _Fate(IntEnum):
    """The treatment of a point of a flow at the end of a batch."""

    DONE = 0
    """Nothing: its flow has ended, and stays as it is."""
    DIVIDED = 1
    """Its flow has ended, and has points that are not in the new trace."""
    ALONE = 2
    """Its flow has ended, and no other point of it is in the new trace."""
    WAITS = 3
    """Its flow has not ended."""
    FOLLOWED = 4
    """Its flow is odd, and is followed point by point."""


@dataclass(slots=True)
class _Flow:
    """A flow that is followed point by point.

    Attributes:
        points: the points that were written.
        is_divided: some were not.
    """

    points: list[_Point] = field(default_factory=list)
    is_divided: bool = False


@dataclass(frozen=True, slots=True)
class _Points:
    """Points of flows, in the order of the file.

    Attributes:
        id: the id of the flow (uint64).
        process: the process koid (uint64).
        step: the event type (int8).
        is_written: whether it was written (bool).
        at: its byte offset in the body (int64).
        size: its size in bytes (int64).
        header: its header word (uint64).
    """

    id: Array
    process: Array
    step: Array
    is_written: Array
    at: Array
    size: Array
    header: Array

    def columns(self) -> tuple[Array, ...]:
        """Return all columns."""
        return self.id, self.process, self.step, self.is_written, self.at, self.size, self.header

    def take(self, rows: Array) -> _Points:
        """Return some of the points."""
        return _Points(*(column[rows] for column in self.columns()))


@dataclass(frozen=True, slots=True)
class _Settled:
    """The points of a batch before it is written.

    Attributes:
        row: the numbers of their records.
        columns: the ids of their flows, their event types, and whether they are taken over.
        fates: what happens to each, see `_Fate`, behind those of the points that wait (int8).
    """

    row: Array
    columns: tuple[Array, Array, Array]
    fates: Array


class Flows:
    """The flows of a trace.

    A flow with one begin, first, and one end, last, is done with the batch of its end.  Others, as those of several
    processes with the same id, are followed point by point.

    Args:
        splices: takes the changes of the body.
    """

    def __init__(self, splices: Splices) -> None:
        self._splices = splices
        self._waiting: _Points | None = None  # of flows that have not ended
        self._open: dict[int, dict[int, _Flow]] = {}  # by id and process
        self._count = 0  # points of open flows
        self._batch: _Settled | None = None  # until it is written

    @property
    def is_live(self) -> bool:
        """Whether a flow with points that were written has not ended."""
        return bool(self._open) or (self._waiting is not None and bool(self._waiting.is_written.any()))

    def mark(self, marked: Marked) -> None:
        """Mark the points of a batch that are written, unless this is done with the spans that enclose them."""
        if not marked.choice.by_name:
            marked.taken |= marked.fields.are(FLOWS) & marked.points & marked.chosen

    def settle(self, marked: Marked) -> None:
        """Look at the flows of a batch before it is written; a point that is alone in the range is not taken over."""
        if not marked.fields.present(FLOWS):
            return
        row = marked.fields.rows(FLOWS)
        number, step = marked.fields.tails(FLOWS)[row], _STEP_OF_KIND[marked.batch.frame.kind[row]]
        is_written = marked.taken[row]
        columns = number, step, is_written
        waiting = self._waiting
        before = 0 if waiting is None else len(waiting.id)
        if waiting is not None and before:
            number = np.concatenate([waiting.id, number])
            step = np.concatenate([waiting.step, step])
            is_written = np.concatenate([waiting.is_written, is_written])
        fates = self._fates(number, step, is_written, is_last=False)
        alone = np.flatnonzero(fates[before:] == _Fate.ALONE)
        if len(alone):
            marked.taken[row[alone]] = False
            fates[before + alone] = _Fate.DONE
        self._batch = _Settled(row, columns, fates)

    def enter(self, marked: Marked, places: Places) -> None:
        """Follow the flows of a batch that is written.

        Args:
            marked: the batch.
            places: where its records are in the body.
        """
        settled, self._batch = self._batch, None
        if settled is None:
            return
        fates, old = settled.fates, self._waiting
        before = len(fates) - len(settled.row)
        points = _points(marked, places, settled, np.flatnonzero(fates[before:]))
        if old is not None and before:
            parts = old.take(np.flatnonzero(fates[:before])), points
            points = _Points(*(np.concatenate(pair) for pair in zip(*(part.columns() for part in parts), strict=True)))
        self._follow(points, fates[fates > 0])

    def _fates(self, number: Array, step: Array, is_written: Array, *, is_last: bool) -> Array:
        """Return what happens to points, see `_Fate` (int8).

        Args:
            number: the ids of their flows, in the order of the file.
            step: their event types.
            is_written: whether they were written.
            is_last: there are no more points.
        """
        codes, first = number_distinct(number)
        index, count = codes.astype(np.intp), len(first)
        last = np.empty(count, np.int64)
        last[index] = np.arange(len(number))
        kinds: Array = index * 4 + (step - np.int8(EventType.FLOW_BEGIN))
        counts = np.bincount(kinds, minlength=count * 4)
        begins, steps, ends = counts[0::4], counts[1::4], counts[2::4]
        total = begins + steps + ends
        written = total if is_written.all() else np.bincount(index[is_written], minlength=count)
        is_plain = (begins == 1) & (step[first] == EventType.FLOW_BEGIN)
        is_plain &= (ends == 0) | ((ends == 1) & (step[last] == EventType.FLOW_END))
        if self._open:
            is_plain &= ~np.isin(number[first], np.fromiter(self._open, np.uint64))
        of_flow = np.full(count, _Fate.FOLLOWED, np.int8)
        has_ended = is_plain & (ends == 1)
        of_flow[has_ended] = _Fate.DONE
        if written is not total:
            is_divided = has_ended & (written < total)
            of_flow[is_divided & (written > 1)] = _Fate.DIVIDED
            of_flow[is_divided & (written == 1)] = _Fate.ALONE
        if not is_last:
            of_flow[is_plain & (ends == 0)] = _Fate.WAITS
        fates: Array = of_flow.take(index)
        if written is not total:
            fates[((fates == _Fate.DIVIDED) | (fates == _Fate.ALONE)) & ~is_written] = _Fate.DONE
        return fates

    def _follow(self, points: _Points, fates: Array) -> None:
        """Let flows end, and the others wait; those with something odd are followed point by point.

        Args:
            points: the points with which something happens.
            fates: what happens to each, see `_Fate` (int8).
        """
        alone = np.flatnonzero(fates == _Fate.ALONE)
        self._splices.drop(points.at[alone], points.size[alone])
        if (fates == _Fate.DIVIDED).any():
            self._divide(points.take(np.flatnonzero(fates == _Fate.DIVIDED)))
        if (fates == _Fate.FOLLOWED).any():
            followed = points.take(np.flatnonzero(fates == _Fate.FOLLOWED))
            for id_, owner, what, was_written, *point in zip(
                *(column.tolist() for column in followed.columns()), strict=True
            ):
                self._add(id_, owner, EventType(what), _point(*point) if was_written else None)
        self._waiting = points.take(np.flatnonzero(fates == _Fate.WAITS)[-MAX_KEPT:])

    def _divide(self, points: _Points) -> None:
        """Note what must change of flows with points that were not written; `points` are those that were, several."""
        order = np.argsort(points.id, kind="stable")
        changes = np.diff(points.id[order]) != 0
        is_first, is_last = np.append(True, changes), np.append(changes, True)
        for which, step in ((is_first, EventType.FLOW_BEGIN), (is_last, EventType.FLOW_END)):
            ends = order[which]
            self._splices.replace(points.at[ends], _as_type(points.header[ends], step))

    def _add(self, number: int, process: int, step: EventType, point: _Point | None) -> None:
        flows = self._open.get(number, {})
        if step is EventType.FLOW_BEGIN:
            if process in flows or self._count >= MAX_KEPT:
                return
            flow = self._open.setdefault(number, flows)[process] = _Flow()
        else:
            process = process if process in flows or len(flows) != 1 else next(iter(flows))
            if process not in flows:
                return
            flow = flows[process]
        if point is None:
            flow.is_divided = True
        else:
            flow.points.append(point)
            self._count += 1
        if step is EventType.FLOW_END:
            del flows[process]
            if not flows:
                del self._open[number]
            self._count -= len(flow.points)
            self._end(flow, EventType.FLOW_END)

    def _end(self, flow: _Flow, last: EventType | None) -> None:
        """Note what must change of a flow; `last` is the type of its last point, None if the flow has no end."""
        if not flow.is_divided or not flow.points:
            return
        at, size, header = np.array(flow.points, np.uint64).T
        at, size = at.astype(np.int64), size.astype(np.int64)
        if len(flow.points) == 1:
            self._splices.drop(at, size)
            return
        self._splices.replace(at[:1], _as_type(header[:1], EventType.FLOW_BEGIN))
        if last is not None:
            self._splices.replace(at[-1:], _as_type(header[-1:], last))

    def finish(self) -> None:
        """Note what must change of flows that have no end."""
        if self._waiting is not None:
            waiting = self._waiting
            fates = self._fates(waiting.id, waiting.step, waiting.is_written, is_last=True)
            self._follow(waiting.take(np.flatnonzero(fates)), fates[fates > 0])
        for flows in self._open.values():
            for flow in flows.values():
                self._end(flow, None)
        self._open = {}


def _points(marked: Marked, places: Places, settled: _Settled, which: Array) -> _Points:
    """Return some points of a batch with all columns.

    Args:
        marked: the batch.
        places: where its records are in the body.
        settled: the points.
        which: the indices of those to return.
    """
    frame, row = marked.batch.frame, settled.row[which]
    number, step, is_written = (column[which] for column in settled.columns)
    process = marked.processes(FLOWS, row)
    size, header = frame.size[row] * 8, frame.block.words[frame.at[row]]
    return _Points(number, process, step, is_written, places.of(row), size, header)


def _point(at: int, size: int, header: int) -> _Point:
    return at, size, header


def _as_type(header: Array, event_type: EventType) -> Array:
    """Return the header words of events as those of another type (uint64)."""
    if not len(header):
        return header
    word = EventWord.of(event_type=event_type)
    fields = {name: field.get(header) for name, field in word.fields.items() if field.role == "bits"}
    words: Array = word(**fields).value
    return words
