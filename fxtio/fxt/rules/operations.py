"""Rules of async events and flows, which belong together by their ids.

The events of an id that are complete and in order are done with their batch.  All others wait for the events of later
batches, and are examined one by one in the order of time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fxtio.arrays import Array, ArrayRows
from fxtio.codec.distinct import number_distinct
from fxtio.codec.record import Record
from fxtio.finding import Findings
from fxtio.fxt import records as r
from fxtio.fxt.rules.view import MAX_KEPT, View, report_at

_BEGIN, _MIDDLE, _END = range(3)
_ASYNC: dict[type[Record], int] = {r.AsyncBegin: _BEGIN, r.AsyncInstant: _MIDDLE, r.AsyncEnd: _END}
_FLOWS: dict[type[Record], int] = {r.FlowBegin: _BEGIN, r.FlowStep: _MIDDLE, r.FlowEnd: _END}


@dataclass(slots=True)
class _Events(ArrayRows):
    """Events with ids, in the order of the file.

    Attributes:
        id: the ids (uint64).
        step: begin, middle or end (int8).
        time: nanoseconds (int64).
        key: stands for the name and category of a begin or end, 0 where they do not matter (uint64).
        process: the process koid (uint64).
        offset: the byte offset (int64).
    """

    id: Array
    step: Array
    time: Array
    key: Array
    process: Array
    offset: Array


class _Event(NamedTuple):
    """An event with an id."""

    step: int
    key: int
    process: int
    offset: int


Fault = tuple[str, int, str]
"""A fault of an event: the rule, the offset, the message."""


class Operations:
    """The rules of the groups async and flow."""

    def __init__(self) -> None:
        self._waiting: dict[bool, _Events | None] = {True: None, False: None}

    def enter(self, view: View) -> None:
        """Check a batch."""
        for is_flow, classes in ((False, _ASYNC), (True, _FLOWS)):
            present = [cls for cls in classes if cls in view.present]
            if present:
                self._enter(view, present, is_flow)

    def _enter(self, view: View, present: list[type[Record]], is_flow: bool) -> None:
        events = _events(view, present, is_flow, self._waiting[is_flow])
        codes, first = number_distinct(events.id)
        steps = np.bincount(codes * 3 + events.step, minlength=3 * len(first)).reshape(-1, 3)
        begins, ends = steps[:, _BEGIN], steps[:, _END]
        last = np.empty(len(first), np.int64)
        last[codes] = np.arange(len(codes))
        is_plain = (events.step[first] == _BEGIN) & (begins == 1) & (ends <= 1)
        is_plain &= (ends == 0) | (events.step[last] == _END)
        if (events.time[1:] < events.time[:-1]).any():
            latest = np.where(ends == 1, events.time[last], np.iinfo(np.int64).max)
            early, late = events.time < events.time[first][codes], events.time > latest[codes]
            is_plain[codes[early | late]] = False
        if not is_flow:
            other = (events.step == _END) & (events.key != events.key[first][codes])
            is_plain[codes[other]] = False
        is_open = is_plain & (ends == 0)  # the end may come in a later batch
        others = ~is_plain
        waiting = np.flatnonzero(is_open[codes]) if is_open.any() else first[:0]
        if others.any():
            odd = np.flatnonzero(others[codes])
            waiting = np.append(waiting, odd[_examined(view.findings, events.take(odd), is_flow, is_last=False)])
        if len(waiting) > MAX_KEPT:
            _examined(view.findings, events.take(waiting[:-MAX_KEPT]), is_flow, is_last=True)
            waiting = waiting[-MAX_KEPT:]
        self._waiting[is_flow] = events.take(np.sort(waiting)) if len(waiting) else None

    def finish(self, findings: Findings) -> None:
        """Check what only the end of the trace decides."""
        for is_flow, events in self._waiting.items():
            if events is not None:
                _examined(findings, events, is_flow, is_last=True)


def _events(view: View, present: list[type[Record]], is_flow: bool, waiting: _Events | None) -> _Events:
    """Return the events that wait, and then those of a batch."""
    batch = view.batch
    parts: list[tuple[Array, ...]] = []
    for cls in present:
        rows, columns = batch.columns(cls)
        step = np.full(len(rows), _FLOWS[cls] if is_flow else _ASYNC[cls], np.int8)
        has_key = not is_flow and cls is not r.AsyncInstant
        keys = view.name_keys(cls) if has_key else np.zeros(len(rows), np.uint64)
        times = batch.times(columns["timestamp"], rows)
        parts.append((rows, columns["id"], step, times, keys, view.threads(cls, "thread")))
    rows, *values = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(rows, kind="stable")
    values = [*(column[order] for column in values), view.offsets(rows[order])]
    values[-2] = batch.threads.koids()[:, 0].take(values[-2])  # some threads are new
    events = _Events(*values)
    return events if waiting is None else _Events.joined([waiting, events])


def _examined(findings: Findings, events: _Events, is_flow: bool, *, is_last: bool) -> Array:
    """Report the faults of events whose ids are not open any more; return the numbers of the others.

    Args:
        findings: takes the faults.
        events: the events.
        is_flow: whether they are flow events.
        is_last: nothing comes after them.
    """
    order = np.lexsort((np.arange(len(events.id)), events.time, events.id))
    starts = np.flatnonzero(np.diff(events.id[order], prepend=events.id[order[:1]] - np.uint64(1)))
    faults: list[Fault] = []
    kept: list[Array] = []
    examine = _flow_faults if is_flow else _async_faults
    groups = np.split(order, starts[1:])
    room = MAX_KEPT
    for rows in reversed(groups) if not is_last else groups:
        columns = (events.step, events.key, events.process, events.offset)
        own, is_open = examine(map(_Event, *(column[rows].tolist() for column in columns)))
        if is_open and not is_last and len(rows) <= room:
            kept.append(rows)
            room -= len(rows)
        else:
            faults += own
    for rule, offset, message in sorted(faults, key=lambda fault: fault[1]):
        report_at(findings, rule, np.array([offset]), message)
    return np.concatenate([order[:0], *kept])


def _async_faults(events: Iterable[_Event]) -> tuple[list[Fault], bool]:
    """Return the faults of the async events of an id in the order of time, and whether later events may settle some."""
    faults: list[Fault] = []
    is_open = False
    opened: OrderedDict[int, _Event] = OrderedDict()  # by offset, each within those that began before it
    by_key: dict[int, list[_Event]] = {}
    for event in events:
        innermost = next(reversed(opened.values()), None)
        if event.step == _BEGIN:
            if innermost and innermost.process != event.process:
                message = f"the id is in use, by another process, since byte {innermost.offset:,}"
                faults.append(("async.shared-id", event.offset, message))
            opened[event.offset] = event
            by_key.setdefault(event.key, []).append(event)
        elif not innermost:
            is_open = True
            faults.append(("async.unmatched-end", event.offset, "no operation with this id is open"))
        elif event.step == _END:
            ended = (by_key.get(event.key) or by_key[innermost.key]).pop()
            del opened[ended.offset]
            if ended.key != event.key:
                message = f"the start at byte {ended.offset:,} has another name or category"
                faults.append(("async.name", event.offset, message))
            elif ended is not innermost:
                message = (
                    f"the operation that began later, at byte {innermost.offset:,}, with the same id has not ended"
                )
                faults.append(("async.shared-id", event.offset, message))
    faults += [("async.open", event.offset, "the operation has no end") for event in opened.values()]
    return faults, is_open or bool(opened)


def _flow_faults(events: Iterable[_Event]) -> tuple[list[Fault], bool]:
    """Return the faults of the flow events of an id in the order of time, and whether later events may settle some."""
    faults: list[Fault] = []
    is_open = False
    flows: dict[int, _Event] = {}  # by process
    for event in events:
        if event.step == _BEGIN:
            if event.process in flows:
                message = f"the flow has been open since byte {flows[event.process].offset:,}"
                faults.append(("flow.again", event.offset, message))
            else:
                flows[event.process] = event
            continue
        process = event.process if event.process in flows or len(flows) != 1 else next(iter(flows))
        if process not in flows:
            is_open = True
            faults.append(("flow.no-begin", event.offset, "no flow with this id is open"))
        elif event.step == _END:
            del flows[process]
    faults += [("flow.open", event.offset, "the flow has no end") for event in flows.values()]
    return faults, is_open or bool(flows)
