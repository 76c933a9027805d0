"""Cut a part out of a trace: a range of times, and some threads, processes, categories and names.

The result is a whole trace.  It has the definitions that its records need; spans and async operations that begin before
the range begin at its start, and those that end after it end there; complete events are clipped.  Counters, and what
runs on each CPU, have their last values from before the range at its start, and tracks of tasks their names.  Of a flow
with points outside of the range, the points within it become a flow of their own, or are left out if only one is.

The trace is read once, batch by batch.  Records that are taken over go to a temporary file, and what comes before them
in the result is known at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from fxtio.formats import CutResult
from fxtio.fxt import records as r
from fxtio.fxt.cut.body import Body, Head, early_records
from fxtio.fxt.cut.carried import Flows, Latest, TrackNames
from fxtio.fxt.cut.marks import FLOWS, Choice, Classes, Limits, Marked
from fxtio.fxt.cut.pairs import Pairs
from fxtio.fxt.frames import UNKNOWN
from fxtio.fxt.layout import MAGIC
from fxtio.fxt.state import Batch, Reading
from fxtio.io.sink import Sink, temporary_file, whole_file
from fxtio.report import counted, human_size
from fxtio.selection import Selection, is_number

if TYPE_CHECKING:
    from fxtio.fxt.reader import FxtTrace

_SCHEDULING: Classes = frozenset({r.LegacyContextSwitch, r.ContextSwitch, r.ThreadWakeup})
"""The records of CPUs, which are taken over whatever threads are selected: each tells what ran before."""

_MODULES: Classes = frozenset({r.ProfilerModule, r.ProfilerMmap})
"""The records that explain the addresses of later ones: those before the range are moved to its start."""

_COMPLETE: Classes = frozenset({r.DurationComplete})

_SPANS: Classes = _COMPLETE | {r.DurationBegin, r.DurationEnd, r.AsyncBegin, r.AsyncInstant, r.AsyncEnd}
"""The records of spans and operations, which are taken over together."""

_DEFINITIONS: Classes = frozenset({
    r.Magic, r.ProviderInfo, r.ProviderSection, r.Initialization, r.String, r.ThreadRecord,
})  # fmt: skip
"""The records that say what others mean, which are written as far as they are used."""

_ALWAYS: Classes = frozenset(r.RECORDS.classes) - r.TIMED - _DEFINITIONS
"""The records without a time, which are taken over."""

_POINTS: Classes = r.TIMED - _SPANS - FLOWS - _SCHEDULING - _MODULES
"""The records that are taken over if their time is in the range."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The result of a cut.

    Attributes:
        records: the number of records that were taken over, definitions not counted.
        events: the number of those with a time, without the values that are repeated at the start.
        reopened: the number of those from before the range, which were written again at its start.
    """

    records: int
    events: int
    reopened: int


def cut(trace: FxtTrace, selection: Selection, target: str | PathLike[str]) -> CutResult:
    """Write a part of a trace as a new file, see `fxtio.formats.CutRoom`."""
    with whole_file(target) as sink:
        done = cut_to(trace, selection, sink)
    records = f"{counted(done.records, 'record')}, {done.reopened:,} of them from before the range"
    text = f"{records} ({human_size(sink.position)})"
    return CutResult(text, is_empty=not done.events)


def cut_to(trace: FxtTrace, selection: Selection, sink: Sink) -> Cut:
    """Write a part of a trace as a trace of its own.

    The faults of the trace are in its `findings` afterwards.  Records that are too short for their content are left
    out.  A trace that can be read only once must be one that `reads_again` if threads or processes are selected.

    Args:
        trace: the trace.
        selection: what to take over.
        sink: takes the bytes.

    Raises:
        OSError: something cannot be read or written.
    """
    names: tuple[dict[int, str], dict[int, str]] = ({}, {})
    if not all(map(is_number, (*selection.threads, *selection.processes))):
        names = trace.names_of_objects()
    with temporary_file() as file:
        cutter = _Cutter(Limits(selection.start, selection.end), Choice(selection, *names), file)
        for batch in trace.record_batches(forget=True):
            cutter.enter(batch)
        return cutter.finish(sink)


class _Cutter:
    """The work on one trace."""

    def __init__(self, limits: Limits, choice: Choice, file: BinaryIO) -> None:
        self._limits, self._choice = limits, choice
        self._head, self._body = Head(), Body(file)
        self._pairs = (
            Pairs(r.DurationBegin, r.DurationEnd, None, self._head, by_name=choice.by_name),
            Pairs(r.AsyncBegin, r.AsyncEnd, r.AsyncInstant, self._head, by_name=choice.by_name),
        )
        self._names, self._latest, self._flows = TrackNames(), Latest(), Flows(self._body)
        self._reading: Reading | None = None
        self._events = 0

    def enter(self, batch: Batch) -> None:
        """Take the next batch."""
        self._reading = batch.reading
        marked = Marked(batch, self._limits, self._choice)
        for pairs in self._pairs:
            pairs.enter(marked)
        self._names.enter(marked)
        self._latest.enter(marked)
        self._mark(marked)
        self._names.note_used(marked)
        self._events += int(np.count_nonzero(marked.taken & marked.timed & ~marked.are(_MODULES)))
        self._flows.enter(marked, self._body.write(batch, marked.taken))

    def _mark(self, marked: Marked) -> None:
        """Mark what does not depend on other records."""
        taken = marked.taken
        taken |= marked.batch.frame.kind == UNKNOWN
        taken |= marked.are(_ALWAYS)
        taken |= marked.are(_POINTS) & marked.within & marked.chosen
        if not marked.choice.by_name:  # those in spans that are selected by name are marked with these
            taken |= marked.are(FLOWS) & marked.points & marked.chosen
        if marked.choice.nameless:
            taken |= marked.are(_SCHEDULING) & marked.within
        for cls in marked.present(_MODULES):
            is_module = marked.are(frozenset({cls}))
            taken |= is_module & (marked.before | marked.within)
            early = np.flatnonzero(is_module & marked.before)
            marked.move(cls, 0, early, marked.first[early])
        if marked.present(_COMPLETE):
            self._clip(marked)

    def _clip(self, marked: Marked) -> None:
        """Take over complete events in the range, clip those that end after it, pass on those that begin before it."""
        is_chosen, ends = marked.are(_COMPLETE) & marked.chosen, marked.tails
        taken = is_chosen & marked.within
        marked.taken |= taken
        begun = np.flatnonzero(is_chosen & marked.before & (ends > marked.first))
        for early in early_records(marked.batch, r.DurationComplete, begun):
            early.until = early.clock.ns(early.record.end)
            self._head.add(early)
        late = np.flatnonzero(taken & (ends > marked.last))
        marked.move(r.DurationComplete, 1, late, marked.last[late] + np.uint64(1))

    def finish(self, sink: Sink) -> Cut:
        """Write the new trace."""
        head = self._head
        self._names.finish(head, self._pairs[1].open_keys)  # before operations that begin at the same time
        for pairs in self._pairs:
            pairs.finish()
        self._flows.finish()
        events = self._events + head.count - self._flows.left_out
        self._latest.finish(head)
        sink.write(MAGIC)
        if self._reading is not None:
            self._body.write_to(sink, self._reading, head, self._limits)
            if head.left_out:
                message = f"{head.left_out:,} spans that are open at the start of the range are left out"
                self._reading.findings.add("event.too-many-open", 0, message)
        return Cut(self._body.records - self._flows.left_out + head.count, events, head.count)
