"""Cut a part out of a trace: a range of times, and some threads, processes, categories and names.

The result is a whole trace.  It has the definitions that its records need; spans and async operations that begin before
the range begin at its start, and those that end behind it end there; complete events are clipped.  Counters, and what
runs on each CPU, have their last values from before the range at its start, and tracks of tasks their names.  Of a flow
with points outside of the range, the points within it become a flow of their own, or are left out if only one is.

The trace is read once, batch by batch.  Records that are taken over go to a temporary file, and what comes before them
in the result is known at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from fxtio.codec.generate import encode
from fxtio.formats import CutResult
from fxtio.fxt import records as r
from fxtio.fxt.cut.body import Body
from fxtio.fxt.cut.early import Head, Tables, early_records
from fxtio.fxt.cut.fields import Classes, event_reader
from fxtio.fxt.cut.flows import Flows
from fxtio.fxt.cut.latest import Latest
from fxtio.fxt.cut.marks import Choice, Limits, Marked, is_behind, values_at
from fxtio.fxt.cut.pairs import Pairs
from fxtio.fxt.cut.splices import Splices
from fxtio.fxt.cut.track_names import TrackNames
from fxtio.fxt.frames import UNKNOWN
from fxtio.fxt.layout import MAGIC
from fxtio.fxt.state import Batch, Reading
from fxtio.io.sink import Sink, temporary_file, whole_file
from fxtio.report import counted, human_size
from fxtio.selection import Selection, is_number

if TYPE_CHECKING:
    from fxtio.fxt.reader import FxtTrace

_ALWAYS: Classes = frozenset({
    r.ProviderEvent, r.TraceInfo, r.Blob, r.UserspaceObject, r.KernelObject, r.LargeBlobNoMetadata,
})  # fmt: skip
"""The records without a time, which are taken over; definitions are as far as they are used."""

_DEFINITIONS: Classes = frozenset({
    r.Magic, r.ProviderInfo, r.ProviderSection, r.Initialization, r.String, r.ThreadRecord,
})  # fmt: skip
"""The records that are written as far as others need them."""

_POINTS: Classes = frozenset({r.Instant, r.Counter, r.Log, r.ProfilerBacktrace, r.LargeBlob})
"""The records that are taken over if their time is in the range."""

_SCHEDULING: Classes = frozenset({r.LegacyContextSwitch, r.ContextSwitch, r.ThreadWakeup})
"""The records of CPUs, which are taken over whatever threads are selected: each tells what ran before."""

_MODULES: Classes = frozenset({r.ProfilerModule, r.ProfilerMmap})
"""The records that explain the addresses of later ones: those before the range are moved to its start."""


_COMPLETE: Classes = frozenset({r.DurationComplete})


def _events(marked: Marked) -> int:
    """Return how many of the records that are taken over are events in the range."""
    batch, taken = marked.batch, marked.taken
    others = [batch.rows(cls) for cls in batch.classes() if cls in _ALWAYS or cls in _MODULES]
    others.append(np.flatnonzero(batch.frame.kind == UNKNOWN))
    return int(np.count_nonzero(taken)) - sum(int(np.count_nonzero(taken[rows])) for rows in others)


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
        self._limits, self._choice, self._file = limits, choice, file
        self._reader = event_reader()
        self._head = Head()
        self._pairs = (
            Pairs(r.DurationBegin, r.DurationEnd, None, self._head),
            Pairs(r.AsyncBegin, r.AsyncEnd, r.AsyncInstant, self._head),
        )
        self._names = TrackNames()
        self._splices = Splices()
        self._latest, self._flows = Latest(), Flows(self._splices)
        self._body = Body(file)
        self._reading: Reading | None = None
        self._events = 0

    def enter(self, batch: Batch) -> None:
        """Take the next batch."""
        self._reading = batch.reading
        is_live = self._flows.is_live or any(pairs.is_live for pairs in self._pairs)
        if not is_live and is_behind(batch, self._limits, _DEFINITIONS):
            self._body.write(batch, np.zeros(len(batch), bool))
            return
        marked = Marked(batch, self._reader, self._limits, self._choice)
        for pairs in self._pairs:
            pairs.enter(marked)
        self._names.enter(marked)
        self._latest.enter(marked)
        self._mark(marked)
        self._flows.mark(marked)
        marked.taken &= ~marked.fields.broken()
        self._flows.settle(marked)
        self._names.note_used(marked)
        self._events += _events(marked)
        places = self._body.write(batch, marked.taken)
        self._flows.enter(marked, places)

    def _mark(self, marked: Marked) -> None:
        """Mark what does not depend on other records."""
        batch, fields, taken = marked.batch, marked.fields, marked.taken
        taken |= batch.frame.kind == UNKNOWN
        taken |= fields.are(_ALWAYS)
        taken |= fields.are(_POINTS) & marked.within & marked.chosen
        if marked.choice.nameless:
            taken |= fields.are(_SCHEDULING) & marked.within
        for cls in fields.present(_MODULES):
            is_module = fields.are(frozenset({cls}))
            taken |= is_module & (marked.before | marked.within)
            early = np.flatnonzero(is_module & marked.before)
            marked.move(cls, 0, early, values_at(marked.first, early))
        if fields.present(_COMPLETE):
            self._clip(marked)

    def _clip(self, marked: Marked) -> None:
        """Take over complete events in the range, clip those that end behind it, pass on those that begin before it."""
        is_chosen = marked.fields.are(_COMPLETE) & marked.chosen
        ends = marked.fields.tails(_COMPLETE)
        taken = is_chosen & marked.within
        marked.taken |= taken
        late = np.flatnonzero(taken & (ends > marked.last))
        if len(late):
            marked.move(r.DurationComplete, 1, late, values_at(marked.last, late) + np.uint64(1))
        if not marked.has_before:
            return
        begun = np.flatnonzero(is_chosen & marked.before & (ends > marked.first))
        for early, tick in zip(
            early_records(marked.batch, r.DurationComplete, begun), ends[begun].tolist(), strict=True
        ):
            if early is not None:
                early.end, early.until = tick, early.clock.ns(tick)
                self._head.add(early)

    def finish(self, sink: Sink) -> Cut:
        """Write the new trace."""
        self._names.finish(self._head, self._pairs[1].open_keys)  # before operations that begin at the same time
        for pairs in self._pairs:
            pairs.finish()
        events = self._events + self._head.count
        self._latest.finish(self._head)
        self._flows.finish()
        sink.write(MAGIC)
        if self._reading is not None and self._head.left_out:
            message = f"{self._head.left_out:,} spans that are open at the start of the range are left out"
            self._reading.findings.add("event.too-many-open", 0, message)
        if self._reading is not None:
            for data in self._introductions(self._reading):
                sink.write(data)
        for part in self._splices.copy(self._file, self._body.size):
            sink.write(part)
        early = self._head.count
        return Cut(self._body.records + early, events, early)

    def _introductions(self, reading: Reading) -> Iterator[bytes]:
        """Yield all providers with what belongs to them before the body; the body loses what it repeats of this."""
        body = self._body
        used = {*body.initial, *self._head.records}
        claimed = set(body.ids.values())
        numbers = sorted(range(len(reading.providers)), key=lambda number: (number in claimed, number == body.first))
        for number in numbers:
            is_anonymous = number == 0 and reading.is_anonymous
            if is_anonymous and number not in used:
                continue
            provider = reading.providers[number]
            if not is_anonymous or len(numbers) > 1:
                yield encode(r.ProviderInfo(provider.id, provider.name))
            tables = Tables(is_timed=number in reading.clock_of)
            yield from self._head.write(self._limits, number, tables)
            initial = body.initial.get(number)
            if initial is not None:
                assert initial.clock is not None
                yield from tables.set_clock(initial.clock)
                for definition, value in initial.values.items():
                    yield from tables.define(definition, value)
            body.drop_repeated(number, tables, self._splices)
