"""One reading of a trace for a page: all that a page shows is collected at the same time, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from fxtio.html.charts import CounterPoints
from fxtio.html.flames import LongestSlices, MergedCalls, MergedStacks
from fxtio.html.messages import Instants, Messages, Notices
from fxtio.html.moments import Moments
from fxtio.html.tracks import Arrows, Processors, Tracks
from fxtio.selection import Selection
from fxtio.table import Table
from fxtio.timeline.answers.answer import Answer, Labels
from fxtio.timeline.answers.rows import Chosen, Rows, chosen
from fxtio.timeline.answers.top import Slices, Weighted
from fxtio.timeline.comparison import Run
from fxtio.timeline.parts import Registry
from fxtio.timeline.timeline import Consumer

if TYPE_CHECKING:
    from fxtio.timeline import Timeline

TABLES = (
    "slices",
    "instants",
    "flow_points",
    "counters",
    "samples",
    "stacks",
    "frames",
    "allocations",
    "logs",
    "scheduling",
    "wakeups",
    "collections",
    "args",
)
"""The tables that a page is made of."""

_INTERVALS = ("scheduling", "collections")
_EVENTS = ("instants", "flow_points", "counters", "samples", "allocations", "logs", "wakeups")


class PageReading:
    """Collects all that a page shows; a consumer of `Timeline.fold`.

    Args:
        registry: the registry of the reading.
        selection: the part of the trace that the page is about.
        subset: the tracks and threads that are selected, None for all.
        to_compare: collect the durations that a comparison needs.

    Attributes:
        registry: the registry of the reading.
        counts: the number of selected rows of each table.
        start: the start of the first selected row with a time, None without any.
        end: the end of the last one.
        rankings: the rankings of samples and allocations, by what and the grouping.
        longest: the longest slices, for a flame graph in the order of time.
        calls: the flame graph of calls by their callers.
        stacks: the flame graphs of samples and allocations, by what.
        counters: the values of counters.
        notices: what the trace says about itself.
        moments: pauses, and times in which nothing runs.
        tracks: the threads and tasks.
        arrows: the arrows between slices.
        processors: the times for which threads ran and waited, and who woke them.
        messages: the messages of logs.
        instants: the instants by name.
        run: the durations for a comparison, None if they were not asked for.
    """

    def __init__(
        self, registry: Registry, selection: Selection, subset: Chosen | None, *, to_compare: bool = False
    ) -> None:
        self.registry = registry
        self.counts: Counter[str] = Counter()
        self.start: int | None = None
        self.end: int | None = None
        self._rows = Rows(registry, selection, subset)
        self._slices = Slices(registry, by="name", unit=None, selection=selection, subset=subset)
        self.rankings = {
            (what, by): Weighted(what, registry, by=by, unit=None, selection=selection, subset=subset)
            for what, by in (("samples", "name"), ("allocations", "name"), ("allocations", "type"))
        }
        self.longest = LongestSlices(registry)
        self.calls = MergedCalls(registry, selection, subset)
        self.stacks = {what: MergedStacks(what, registry) for what in ("samples", "allocations")}
        self.counters = CounterPoints(registry)
        self.notices = Notices(registry)
        self.moments = Moments(registry)
        self.tracks = Tracks(registry)
        self.arrows = Arrows(registry)
        self.processors = Processors(registry)
        self.messages = Messages(registry)
        self.instants = Instants(registry)
        self._collectors: list[Consumer] = [self.longest, *self.stacks.values(), self.counters]
        self._collectors += [self.moments, self.tracks, self.arrows, self.processors, self.messages, self.instants]
        self.run = Run(registry) if to_compare else None

    @cached_property
    def labels(self) -> Labels:
        """The texts for processes, threads and tracks; to be used after the reading."""
        return Labels(self.tables)

    @cached_property
    def tables(self) -> dict[str, Table]:
        """The tables `processes`, `threads` and `tracks`; to be used after the reading."""
        return self.registry.tables()

    @cached_property
    def ranking(self) -> Answer:
        """The ranking of slices by name, in no order; to be used after the reading."""
        return self._slices.answer(self.registry)

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the rows of a batch."""
        self._slices.enter(tables)
        self.notices.enter(tables)
        self.calls.enter(tables)
        for ranking in self.rankings.values():
            ranking.enter(tables)
        selected = {name: self._selected(name, table) for name, table in tables.items()}
        selected = {name: table for name, table in selected.items() if table.num_rows}
        for name, table in selected.items():
            self.counts[name] += table.num_rows
            if name in _EVENTS or name in _INTERVALS or name == "slices":
                self._note_times(name, table)
        for collector in self._collectors:
            collector.enter(selected)
        if self.run is not None and "slices" in selected:
            self.run.enter(selected)

    def _selected(self, name: str, table: Table) -> Table:
        if name == "slices":
            return self._rows.slices(table)
        if name in _INTERVALS:
            return self._rows.intervals(table)
        return self._rows.events(table) if name in _EVENTS else table

    def _note_times(self, name: str, table: Table) -> None:
        begin = table["start" if "start" in table else "time"]
        end = begin + table["duration"] if "duration" in table else begin
        first, last = int(begin.min()), int(end.max())
        if name in ("samples", "allocations") and first == last == 0:  # samples without times
            return
        self.start = first if self.start is None else min(self.start, first)
        self.end = last if self.end is None else max(self.end, last)


def read(timeline: Timeline, selection: Selection, *, to_compare: bool = False) -> PageReading:
    """Read a timeline once, or twice if threads or processes are selected.

    Args:
        timeline: the timeline.
        selection: the part that is collected.
        to_compare: see `PageReading`.

    Raises:
        DecodeError: the trace was opened with `strict`, and has a fault.
    """
    subset = chosen(timeline, selection, *TABLES)
    reading, _ = timeline.fold(
        lambda registry: PageReading(registry, selection, subset, to_compare=to_compare), *TABLES
    )
    return reading
