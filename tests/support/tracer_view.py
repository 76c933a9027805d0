"""A trace as read by fxtio and by Perfetto."""

from __future__ import annotations

from pathlib import Path

import judges
from judges import perfetto
from judges.perfetto import Slice
from support.tracer_check import PLACE, check_trace


class View:
    """A trace as read by fxtio and by Perfetto, without events of the tracer itself and without places of functions."""

    def __init__(self, path: Path, **how: bool) -> None:
        self.seen = check_trace(path, **how)
        judges.require(perfetto.available())
        with perfetto.load(path) as p:
            assert p.errors() == {}
            self.slices = [item for item in p.slices() if item.category != "fxtio"]
            for item in self.slices:
                for name in PLACE:
                    item.args.pop(name, None)
            self.counters, self.flows = p.counters(), p.flows()
            self.threads, self.processes = p.threads(), p.processes()

    def named(self, name: str) -> list[Slice]:
        """Return the slices of this name, the last part of a qualified one."""
        return [item for item in self.slices if (item.name or "").rpartition(".")[2] == name]

    def parent(self, item: Slice) -> Slice | None:
        return next((other for other in self.slices if other.id == item.parent_id), None)
