"""Flows that the cut divides: their points within the range become a flow of their own, or are left out if only one is.

The points of a flow are known when it ends, and may be written by then.  So what must change is noted as splices of the
body.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fxtio import _native
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.cut.marks import Marked
from fxtio.fxt.cut.splices import Splices
from fxtio.fxt.enums import EventType
from fxtio.fxt.layout import EventWord
from fxtio.fxt.rules.view import MAX_KEPT

Array = np.ndarray[Any, Any]

_STEPS: dict[type[Record], EventType] = {
    r.FlowBegin: EventType.FLOW_BEGIN,
    r.FlowStep: EventType.FLOW_STEP,
    r.FlowEnd: EventType.FLOW_END,
}
_SEED = secrets.randbits(64)


_Point = tuple[int, int, int]
"""A point of a flow that was written: its byte offset in the body, its size in bytes, its header word."""


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

    def enter(self, marked: Marked, places: Array) -> None:
        """Follow the flows of a batch.

        Args:
            marked: the batch.
            places: the byte offset of each record in the body, empty if none was written.
        """
        present = [cls for cls in _STEPS if cls in marked.batch.classes()]
        if present:
            self._follow(self._points(marked, present, places), is_last=False)

    def _points(self, marked: Marked, present: list[type[Record]], places: Array) -> _Points:
        """Return the points that wait, and behind them those of a batch."""
        batch = marked.batch
        parts = []
        for cls in present:
            rows, columns = batch.columns(cls)
            steps = np.full(len(rows), _STEPS[cls], np.int8)
            parts.append((rows, columns["id"], steps, marked.koids(cls)[:, 0]))
        row, number, step, process = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(row, kind="stable")
        row, number, step, process = row[order], number[order], step[order], process[order]
        at = places[row] if len(places) else np.zeros(len(row), np.int64)
        headers, sizes = batch.frame.block.words[batch.frame.at[row]], batch.frame.size[row] * 8
        points = _Points(number, process, step, marked.taken[row], at, sizes, headers)
        if self._waiting is None:
            return points
        return _Points(*(np.concatenate(pair) for pair in zip(self._waiting.columns(), points.columns(), strict=True)))

    def _follow(self, points: _Points, *, is_last: bool) -> None:
        """Let flows end, and the others wait; those with something odd are followed point by point."""
        number, step = points.id, points.step
        codes, first = np.empty(len(number), np.int32), np.empty(len(number), np.int64)
        first = first[: _native.distinct(number, codes, first, _SEED)]
        count = len(first)
        last = np.empty(count, np.int64)
        last[codes] = np.arange(len(number))
        begins = np.bincount(codes[step == EventType.FLOW_BEGIN], minlength=count)
        ends = np.bincount(codes[step == EventType.FLOW_END], minlength=count)
        total, written = np.bincount(codes, minlength=count), np.bincount(codes[points.is_written], minlength=count)
        is_plain = (begins == 1) & (step[first] == EventType.FLOW_BEGIN)
        is_plain &= (ends == 0) | ((ends == 1) & (step[last] == EventType.FLOW_END))
        if self._open:
            is_plain &= ~np.isin(number[first], np.fromiter(self._open, np.uint64))
        waits = is_plain & (ends == 0) & (not is_last)
        is_done = is_plain & (ends == 1)
        is_divided = is_done & (written > 0) & (written < total)
        if is_divided.any():
            mine = np.flatnonzero(is_divided[codes] & points.is_written)
            self._divide(points.take(mine), codes[mine])
        followed = ~(waits | is_done)[codes]
        for id_, owner, what, was_written, *point in zip(
            *(column[followed].tolist() for column in points.columns()), strict=True
        ):
            self._add(id_, owner, EventType(what), _point(*point) if was_written else None)
        self._waiting = points.take(np.flatnonzero(waits[codes])[-MAX_KEPT:])

    def _divide(self, points: _Points, codes: Array) -> None:
        """Note what must change of flows with points that were not written.

        Args:
            points: the points that were written.
            codes: a number for the flow of each.
        """
        order = np.argsort(codes, kind="stable")
        changes = np.diff(codes[order]) != 0
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
            self._follow(self._waiting, is_last=True)
        for flows in self._open.values():
            for flow in flows.values():
                self._end(flow, None)
        self._open = {}


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
