"""Flows that the cut divides: their points within the range become a flow of their own, or are left out if only one is.

The points of a flow are known when it ends, and are written by then.  So what must change is noted for the body.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.cut.body import Body
from fxtio.fxt.cut.marks import Classes, Marked
from fxtio.fxt.enums import EventType
from fxtio.fxt.layout import EventWord
from fxtio.fxt.records import KINDS, RECORDS
from fxtio.fxt.rules.view import MAX_KEPT

_STEPS: dict[type[Record], EventType] = {
    r.FlowBegin: EventType.FLOW_BEGIN,
    r.FlowStep: EventType.FLOW_STEP,
    r.FlowEnd: EventType.FLOW_END,
}
_STEP_OF_KIND = np.zeros(len(RECORDS.classes), np.int8)
_STEP_OF_KIND[[KINDS[cls] for cls in _STEPS]] = [*_STEPS.values()]

FLOWS: Classes = frozenset(_STEPS)
"""The classes of the points of flows."""


@dataclass(frozen=True, slots=True)
class _Points:
    """Points of flows.

    Attributes:
        id: the id of the flow (uint64).
        time: the time in nanoseconds (uint64).
        step: the event type (int8).
        is_written: whether it was written (bool).
        at: its byte offset in the body (int64).
        size: its size in bytes (int64).
        header: its header word (uint64).
    """

    id: Array
    time: Array
    step: Array
    is_written: Array
    at: Array
    size: Array
    header: Array

    def columns(self) -> tuple[Array, ...]:
        """Return all columns."""
        return self.id, self.time, self.step, self.is_written, self.at, self.size, self.header

    def take(self, rows: Array) -> _Points:
        """Return some of the points."""
        return _Points(*(column[rows] for column in self.columns()))


class Flows:
    """The flows of a trace.

    Args:
        body: takes the changes.

    Attributes:
        left_out: the number of points that were written, and are left out.
    """

    def __init__(self, body: Body) -> None:
        self._body = body
        self._waiting: _Points | None = None  # of flows that have not ended
        self.left_out = 0

    def enter(self, marked: Marked, places: Array) -> None:
        """Follow the flows of a batch that is written; `places` are those of its records in the body."""
        rows = np.flatnonzero(marked.are(FLOWS))
        if not len(rows):
            return
        frame = marked.batch.frame
        points = _Points(
            marked.tails[rows], marked.nanoseconds(marked.ticks[rows], rows), _STEP_OF_KIND[frame.kind[rows]],
            marked.taken[rows], places[rows], frame.size[rows] * 8, frame.block.words[frame.at[rows]],
        )  # fmt: skip
        if self._waiting is not None:
            pairs = zip(self._waiting.columns(), points.columns(), strict=True)
            points = _Points(*map(np.concatenate, pairs))
        self._settle(points, is_last=False)

    def finish(self) -> None:
        """Note what must change of flows that have no end."""
        if self._waiting is not None and len(self._waiting.id):
            self._settle(self._waiting, is_last=True)

    def _settle(self, points: _Points, *, is_last: bool) -> None:
        """Note what must change of flows that have ended; the others wait, unless there are no more points."""
        points = points.take(np.lexsort((points.time, points.id)))
        step, is_other = points.step, points.id[1:] != points.id[:-1]
        begins = is_other | (step[1:] == EventType.FLOW_BEGIN) | (step[:-1] == EventType.FLOW_END)
        is_first = np.append(True, begins)
        flow = np.cumsum(is_first) - 1
        first, last = _ends(flow)
        waits = np.append(is_other[last[:-1]], True) & (step[last] != EventType.FLOW_END) & (not is_last)
        written = np.flatnonzero(points.is_written)
        count = np.bincount(flow[written], minlength=len(first))
        is_divided = ~waits & (step[first] == EventType.FLOW_BEGIN) & (count < np.bincount(flow))
        first_written, last_written = (written[ends] for ends in _ends(flow[written]))
        of_flow = flow[first_written]
        alone = first_written[(is_divided & (count == 1))[of_flow]]
        self._body.drop(points.at[alone], points.size[alone])
        self.left_out += len(alone)
        is_several = (is_divided & (count > 1))[of_flow]
        is_ended = is_several & (step[last] == EventType.FLOW_END)[of_flow]
        for ends, kind in (
            (first_written[is_several], EventType.FLOW_BEGIN),
            (last_written[is_ended], EventType.FLOW_END),
        ):
            self._body.replace(points.at[ends], _as_type(points.header[ends], kind))
        kept = np.zeros(len(step), bool)  # of a flow that waits, no more than is looked at above
        unwritten = np.flatnonzero(~points.is_written)
        for which in (first, first_written, last_written, unwritten[_ends(flow[unwritten])[0]]):
            kept[which] = True
        still = np.flatnonzero(kept & waits[flow])
        if len(still) > MAX_KEPT:
            still = still[np.argsort(points.time[still], kind="stable")[-MAX_KEPT:]]
        self._waiting = points.take(still)


def _ends(groups: Array) -> tuple[Array, Array]:
    """Return the first and the last row of each run of equal values (int64)."""
    changes = np.flatnonzero(groups[1:] != groups[:-1])
    return np.append(0, changes + 1)[: len(groups)], np.append(changes, len(groups) - 1)[: len(groups)]


def _as_type(header: Array, event_type: EventType) -> Array:
    """Return the header words of events as those of another type (uint64)."""
    if not len(header):
        return header
    word = EventWord.of(event_type=event_type)
    fields = {name: field.get(header) for name, field in word.fields.items() if field.role == "bits"}
    words: Array = word(**fields).value
    return words
