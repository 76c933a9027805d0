"""The bases of the exporters that write a timeline as events in the order of time, with counters and logs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from fxtio.table import Table
from fxtio.timeline import replay, spans
from fxtio.timeline.arguments import ArgumentRows, Arguments
from fxtio.timeline.losses import count_lost
from fxtio.timeline.parts import Registry
from fxtio.timeline.replay import Events, Replay
from fxtio.timeline.schema import FLOW_TYPES
from fxtio.timeline.spans import Spans, merged

if TYPE_CHECKING:
    from fxtio.io.sink import Sink


class EventExporter(ABC):
    """The base of exporters that write the rows of a timeline as events in the order of time.

    See `fxtio.formats.Exporter`.

    Args:
        sink: where the exporter writes.
        registry: the names and tracks.
        pairs: all slices are pairs of a begin and an end, see `fxtio.timeline.replay.Replay`.
    """

    LOST: ClassVar[tuple[str, ...]] = ("allocations",)
    """The tables that the format does not have."""

    TABLES: ClassVar[tuple[str, ...]] = (
        *replay.TABLES,
        *spans.TABLES,
        "args",
        "counters",
        "logs",
        "scheduling",
        "wakeups",
        "allocations",
    )
    WRITES_LABELS: ClassVar = True

    def __init__(self, sink: Sink, registry: Registry, *, pairs: bool = False) -> None:
        self.losses: Counter[str] = Counter()
        self._sink = sink
        self._registry = registry
        self._replay = Replay(registry, pairs=pairs)
        self._spans = Spans(registry)
        self._arguments = Arguments()

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Write the rows of a batch."""
        self._arguments.enter(tables)
        events = merged(self._replay.enter(tables), self._spans.enter(tables))
        self._prepare(tables)
        if events is not None:
            self._write_events(events, self._arguments.of(events.event, events.end_event))
        self._arguments.leave(tables)
        if "counters" in tables:
            self._write_counters(tables["counters"])
        if "logs" in tables:
            self._write_logs(tables["logs"])
        count_lost(self.losses, tables, self.LOST)

    def finish(self) -> None:
        """Write the ends of spans that are still open, and count what the events do not show."""
        events = self._spans.finish()
        if events is not None:
            self._write_events(events, self._arguments.of(events.event))
        self._replay.note_losses(self.losses)
        self._spans.note_losses(self.losses)

    def _prepare(self, tables: Mapping[str, Table]) -> None:  # noqa: B027  # most formats need nothing
        """Write what the events of a batch refer to, such as threads."""

    @abstractmethod
    def _write_events(self, events: Events, arguments: ArgumentRows) -> None:
        """Write events and their arguments."""

    @abstractmethod
    def _write_counters(self, counters: Table) -> None:
        """Write values of counters."""

    @abstractmethod
    def _write_logs(self, logs: Table) -> None:
        """Write messages."""


MAX_FLOWS = 262_144
"""The most flows whose ends are waited for; of more, those that began first are forgotten, and keep their own names."""

_FLOW_NAMES = "names of points of flows, which have that of the first point now"


class TrackEventExporter(EventExporter):
    """The base of exporters whose flows have one name each, see `EventExporter`."""

    def __init__(self, sink: Sink, registry: Registry, *, pairs: bool = False) -> None:
        super().__init__(sink, registry, pairs=pairs)
        # The name and the category of the first point of each flow that has not ended, by process and id.
        self._flows: OrderedDict[tuple[int, int], tuple[int, int]] = OrderedDict()

    def _flow_labels(self, flows: Events) -> list[tuple[int, int]]:
        """Return the codes of name and category for each point of a flow.

        They are those of the first point of the flow, since readers connect only points that agree in them.
        """
        labels = []
        processes = self._registry.track_processes(flows.track)
        columns = (processes, flows.id, flows.detail, flows.name, flows.category)
        for process, number, detail, *own in zip(*(each.tolist() for each in columns), strict=True):
            label = (own[0], own[1])
            if detail == _FLOW_BEGIN:
                self._flows[process, number] = label
                if len(self._flows) > MAX_FLOWS:
                    self._flows.popitem(last=False)
            first = self._flows.get((process, number), label)
            if detail == _FLOW_END:
                self._flows.pop((process, number), None)
            self.losses[_FLOW_NAMES] += first != label
            labels.append(first)
        return labels


_FLOW_BEGIN, _FLOW_END = FLOW_TYPES.index("begin"), FLOW_TYPES.index("end")
