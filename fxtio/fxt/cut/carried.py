"""What goes over the bounds of the range beside spans: flows, last values, and the names of tracks of tasks.

The points of a flow within the range become a flow of their own, or are left out if only one is.  They are known when
the flow ends, and are written by then: so what must change is noted for the body.

Counters, and what runs on each CPU, have their last values from before the range at its start.  A track of async events
has the name of its first event; a recorder names the track of a task by an instant at its start, in an operation of its
own: in a part that begins later, they are written again at its start.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.arrays import Array, ArrayRows
from fxtio.codec.distinct import number_distinct
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.cut.body import MAX_BYTES, Body, EarlyRecord, Head, early_records
from fxtio.fxt.cut.marks import FLOWS, Classes, Marked
from fxtio.fxt.enums import EventType
from fxtio.fxt.layout import EventWord
from fxtio.fxt.records import KINDS, RECORDS
from fxtio.fxt.rules.view import MAX_KEPT

CATEGORY = "asyncio"
"""The category of instants that name the track of a task."""

_STEP_OF_KIND = np.zeros(len(RECORDS.classes), np.int8)
_STEP_OF_KIND[[KINDS[cls] for cls in (r.FlowBegin, r.FlowStep, r.FlowEnd)]] = [
    EventType.FLOW_BEGIN, EventType.FLOW_STEP, EventType.FLOW_END
]  # fmt: skip

_FACTOR = np.uint64(2 * secrets.randbits(63) + 1)
_LABEL: tuple[Any, ...] = (r.AsyncBegin, r.AsyncInstant, r.AsyncEnd)
_ASYNC: Classes = frozenset(_LABEL)
_INSTANTS: Classes = frozenset({r.AsyncInstant})


# ---- flows


@dataclass(slots=True)
class _Points(ArrayRows):
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
            points = _Points.joined([self._waiting, points])
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


# ---- what is repeated at the start of the range


class Latest:
    """The last record before the range of each counter and each CPU; at most `MAX_KEPT` in all."""

    def __init__(self) -> None:
        self._size = 0  # bytes of these records
        self._last: dict[tuple[Any, ...], EarlyRecord] = {}

    def enter(self, marked: Marked) -> None:
        """Take the records of a batch."""
        for cls in (r.Counter, r.ContextSwitch, r.LegacyContextSwitch):
            chosen = marked.chosen if cls is r.Counter else marked.choice.nameless
            rows = np.flatnonzero(marked.before & marked.are(frozenset({cls})) & chosen)
            if len(rows):
                for early in early_records(marked.batch, cls, _last_rows(marked, cls, rows)):
                    self._keep(early)

    def _keep(self, early: EarlyRecord) -> None:
        record = early.record
        key: tuple[Any, ...] = early.provider, True, getattr(record, "cpu", None)
        if isinstance(record, r.Counter):
            process = getattr(record.thread, "process", 0)
            key = early.provider, False, process, record.category, record.name, record.id
        before = self._last.get(key)
        if before is None and (len(self._last) >= MAX_KEPT or self._size >= MAX_BYTES):
            return
        if before is None or before.time <= early.time:
            self._size += early.size - (0 if before is None else before.size)
            self._last[key] = early

    def finish(self, head: Head) -> None:
        """Pass on the records."""
        for early in self._last.values():
            head.add(early)


def _last_rows(marked: Marked, cls: type[Record], rows: Array) -> Array:
    """Return those of some records of a class that are the last of their counter or CPU in the batch (ascending)."""
    if cls is r.Counter:
        columns = [marked.koids(rows)[:, 0], marked.tails[rows], marked.names[rows], marked.categories[rows]]
    else:
        all_rows, fields = marked.batch.columns(cls)
        columns = [fields["cpu"][np.searchsorted(all_rows, rows)]]
    digest = np.broadcast_to(marked.batch.provider_of(rows), len(rows)).astype(np.uint64)
    for column in columns:
        digest = digest * _FACTOR ^ column.astype(np.uint64)
    group, _ = number_distinct(digest * _FACTOR)
    order = np.lexsort((marked.ticks[rows], group))
    last: Array = rows[np.sort(order[np.append(np.diff(group[order]) != 0, True)])]
    return last


class TrackNames:
    """The names of tracks from before the range; of more than `MAX_KEPT` the latest."""

    def __init__(self) -> None:
        self._names: dict[int, EarlyRecord] = {}  # by the id of the track, the instant that names it
        self._used: set[int] = set()  # ids of tracks with events in the range

    def enter(self, marked: Marked) -> None:
        """Take the names in a batch, before it is known what is taken over."""
        if not marked.present(_INSTANTS) or not marked.before.any():
            return
        rows = np.flatnonzero(marked.are(_INSTANTS) & marked.before & marked.chosen)
        named = (marked.categories[rows] == marked.batch.strings.code(CATEGORY)) & (marked.names[rows] >= 0)
        rows = rows[named & (marked.threads[rows] >= 0)]
        _, first = np.unique(marked.tails[rows], return_index=True)
        for early in early_records(marked.batch, r.AsyncInstant, rows[np.sort(first)]):
            self._names.setdefault(early.record.id, early)
        while len(self._names) > MAX_KEPT:
            del self._names[next(iter(self._names))]

    def note_used(self, marked: Marked) -> None:
        """Note the tracks with events that are taken over."""
        if self._names and marked.present(_ASYNC):
            ids = marked.tails[np.flatnonzero(marked.taken & marked.are(_ASYNC))]
            self._used |= self._names.keys() & set(np.unique(ids).tolist())

    def finish(self, head: Head, still_open: Array) -> None:
        """Pass on the names that the part needs.

        Args:
            head: takes them.
            still_open: the ids of tracks on which operations are open at the end (uint64).
        """
        for track in self._names.keys() & (self._used | set(still_open.tolist())):
            early, record = self._names[track], self._names[track].record
            for cls in _LABEL:
                label = cls(record.timestamp, record.thread, CATEGORY, record.name, (), track)
                head.add(EarlyRecord(early.provider, early.clock, label, early.size))
