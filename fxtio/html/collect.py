"""One reading of a trace for a page: all that a page shows is collected at the same time, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

from fxtio.exchange.filter import Filter, Plan
from fxtio.html.charts import CounterPoints
from fxtio.html.flames import LongestSlices, MergedCalls, MergedStacks
from fxtio.html.messages import Instants, Messages, Notices
from fxtio.html.moments import Moments
from fxtio.html.tracks import Arrows, Processors, Tracks
from fxtio.table import Table
from fxtio.timeline.answers.answer import Answer, Labels, Times
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


class PageReading:
    """Collects all that a page shows; a consumer of the rows that are selected.

    Args:
        registry: the registry of the reading.
        to_compare: collect the durations that a comparison needs.

    Attributes:
        registry: the registry of the reading.
        rankings: the rankings of samples and allocations, by what and the grouping.
        longest: the longest slices, for a flame graph in the order of time.
        calls: the flame graph of calls by their callers.
        stacks: the flame graphs of samples and allocations, by what.
        counters: the values of counters.
        moments: pauses, and times in which nothing runs.
        tracks: the threads and tasks.
        arrows: the arrows between slices.
        processors: the times for which threads ran and waited, and who woke them.
        messages: the messages of logs.
        instants: the instants by name.
        run: the durations for a comparison.
    """

    def __init__(self, registry: Registry, *, to_compare: bool = False) -> None:
        self.registry = registry
        self._times = Times(registry)
        self._slices = Slices(registry, by="name")
        self.rankings = {
            (what, by): Weighted(what, registry, by=by)
            for what, by in (("samples", "name"), ("allocations", "name"), ("allocations", "type"))
        }
        self.longest = LongestSlices(registry)
        self.calls = MergedCalls(registry)
        self.stacks = {what: MergedStacks(what, registry) for what in ("samples", "allocations")}
        self.counters = CounterPoints(registry)
        self.moments = Moments(registry)
        self.tracks = Tracks(registry)
        self.arrows = Arrows(registry)
        self.processors = Processors(registry)
        self.messages = Messages(registry)
        self.instants = Instants(registry)
        self.run = Run(registry)
        self._collectors: list[Consumer] = [self._times, self._slices, *self.rankings.values(), self.longest]
        self._collectors += [self.calls, *self.stacks.values(), self.counters, self.moments, self.tracks, self.arrows]
        self._collectors += [self.processors, self.messages, self.instants, *([self.run] if to_compare else [])]

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

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of rows of each table, 0 for one without any."""
        return self._times.rows

    @property
    def extent(self) -> tuple[int, int] | None:
        """The first and the last time, None if nothing has a time."""
        return self._times.extent

    @property
    def origin(self) -> int:
        """The time that is shown as 0, in nanoseconds."""
        return self.extent[0] if self.extent is not None else 0

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the rows of a batch."""
        for collector in self._collectors:
            collector.enter(tables)


def read(timeline: Timeline, plan: Plan, *, to_compare: bool = False) -> Filter[PageReading, Notices]:
    """Read the part of a timeline that a page is about; its target has what is shown, its watcher all notices.

    Args:
        timeline: the timeline.
        plan: the part.
        to_compare: see `PageReading`.

    Raises:
        DecodeError: the trace was opened with `strict`, and has a fault.
    """
    passed, _ = plan.fold(timeline, TABLES, partial(PageReading, to_compare=to_compare), Notices)
    passed.finish()
    return passed
