"""The common part of the exporters to Chrome JSON and Perfetto, which connect flows by their names."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from fxtio.timeline.event_export import EventExporter
from fxtio.timeline.parts import Registry
from fxtio.timeline.replay import Events
from fxtio.timeline.schema import FLOW_TYPES

if TYPE_CHECKING:
    from fxtio.io.sink import Sink

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
