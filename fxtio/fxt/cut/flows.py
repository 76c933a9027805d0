"""Flows that the cut divides: their points within the range become a flow of their own, or are left out if only one is.

The points of a flow are known when it ends, and may be written by then.  So what must change is noted as splices of the
body.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from fxtio import _native
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.cut.body import Places
from fxtio.fxt.cut.marks import Marked
from fxtio.fxt.cut.splices import Splices
from fxtio.fxt.enums import EventType
from fxtio.fxt.layout import EventWord
from fxtio.fxt.rules.view import MAX_KEPT

Array = np.ndarray[Any, Any]

_STEPS: dict[type[Record], EventType] = {  # of consecutive numbers
    r.FlowBegin: EventType.FLOW_BEGIN,
    r.FlowStep: EventType.FLOW_STEP,
    r.FlowEnd: EventType.FLOW_END,
}
_SEED = secrets.randbits(64)

_Point = tuple[int, int, int]
"""A point of a flow that was written: its byte offset in the body, its size in bytes, its header word."""


class _Fate(IntEnum):
    """What happens to a point of a flow at the end of a batch."""

    DONE = 0
    """Nothing: its flow has ended, and stays as it is."""
    DIVIDED = 1
    """Its flow has ended, and changes."""
    WAITS = 2
    """Its flow has not ended."""
    FOLLOWED = 3
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

    @property
    def is_live(self) -> bool:
        """Whether a flow with points that were written has not ended."""
        return bool(self._open) or (self._waiting is not None and bool(self._waiting.is_written.any()))

    def mark(self, marked: Marked) -> None:
        """Mark the points of a batch that are written, unless this is done with the spans that enclose them."""
        if not marked.choice.by_name:
            for cls in _STEPS:
                if cls in marked.batch.classes():
                    marked.take(marked.times(cls).rows[marked.points(cls) & marked.chosen(cls)])

    def enter(self, marked: Marked, places: Places) -> None:
        """Follow the flows of a batch.

        Args:
            marked: the batch.
            places: where its records are in the body.
        """
        present = [cls for cls in _STEPS if cls in marked.batch.classes()]
        if not present:
            return
        row, indices = marked.in_order(present)
        number, step = np.empty(len(row), np.uint64), np.empty(len(row), np.int8)
        for cls, index in zip(present, indices, strict=True):
            number[index], step[index] = marked.batch.columns(cls)[1]["id"], _STEPS[cls]
        columns = number, step, marked.taken[row]
        if self._waiting is None:
            fates = self._fates(*columns, is_last=False)
            self._follow(_points(marked, places, row, columns, np.flatnonzero(fates)), fates[fates > 0])
            return
        old = self._waiting
        before = old.id, old.step, old.is_written
        fates = self._fates(*(np.concatenate(pair) for pair in zip(before, columns, strict=True)), is_last=False)
        count = len(old.id)
        fresh = _points(marked, places, row, columns, np.flatnonzero(fates[count:]))
        parts = old.take(np.flatnonzero(fates[:count])), fresh
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
        codes, first = np.empty(len(number), np.int32), np.empty(len(number), np.int64)
        first = first[: _native.distinct(number, codes, first, _SEED)]
        index, count = codes.astype(np.intp), len(first)
        last = np.empty(count, np.int64)
        last[index] = np.arange(len(number))
        groups = (index * 2 + is_written) * len(_STEPS) + (step - np.int8(EventType.FLOW_BEGIN))
        counts = np.bincount(groups, minlength=count * 2 * len(_STEPS)).reshape(count, 2, len(_STEPS))
        totals, written = counts.sum(axis=1), counts[:, 1].sum(axis=1)
        begins, ends, total = totals[:, 0], totals[:, -1], totals.sum(axis=1)
        is_plain = (begins == 1) & (step[first] == EventType.FLOW_BEGIN)
        is_plain &= (ends == 0) | ((ends == 1) & (step[last] == EventType.FLOW_END))
        if self._open:
            is_plain &= ~np.isin(number[first], np.fromiter(self._open, np.uint64))
        of_flow = np.full(count, _Fate.FOLLOWED, np.int8)
        of_flow[is_plain & (ends == 1)] = _Fate.DONE
        of_flow[is_plain & (ends == 1) & (written > 0) & (written < total)] = _Fate.DIVIDED
        if not is_last:
            of_flow[is_plain & (ends == 0)] = _Fate.WAITS
        fates: Array = of_flow.take(index)
        fates[(fates == _Fate.DIVIDED) & ~is_written] = _Fate.DONE
        return fates

    def _follow(self, points: _Points, fates: Array) -> None:
        """Let flows end, and the others wait; those with something odd are followed point by point.

        Args:
            points: the points with which something happens.
            fates: what happens to each, see `_Fate` (int8).
        """
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
        """Note what must change of flows with points that were not written; `points` are those that were."""
        order = np.argsort(points.id, kind="stable")
        changes = np.diff(points.id[order]) != 0
        is_first, is_last = np.append(True, changes), np.append(changes, True)
        alone = order[is_first & is_last]
        self._splices.drop(points.at[alone], points.size[alone])
        for which, step in ((is_first, EventType.FLOW_BEGIN), (is_last, EventType.FLOW_END)):
            ends = order[which & ~(is_first & is_last)]
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


def _points(marked: Marked, places: Places, row: Array, columns: tuple[Array, Array, Array], which: Array) -> _Points:
    """Return some points of a batch with all columns.

    Args:
        marked: the batch.
        places: where its records are in the body.
        row: the numbers of the records of all points.
        columns: ids, steps, and which were written.
        which: the indices of the points to return.
    """
    frame, row = marked.batch.frame, row[which]
    number, step, is_written = (column[which] for column in columns)
    process = np.zeros(len(row), np.uint64)
    for cls, event_type in _STEPS.items():
        mine = np.flatnonzero(step == event_type)
        if len(mine):
            process[mine] = marked.processes(cls)[np.searchsorted(marked.batch.columns(cls)[0], row[mine])]
    return _Points(
        number, process, step, is_written, places.of(row), frame.size[row] * 8, frame.block.words[frame.at[row]]
    )


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
