"""Intervals in which threads run, made from the switches of processors, batch by batch."""

from __future__ import annotations

import numpy as np

from fxtio.arrays import Array
from fxtio.table import Column
from fxtio.timeline.parts import Registry

IDLE = -1
"""The thread of a processor that runs none."""


class Processors:
    """The thread that each processor runs."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._running = {name: np.empty(0, dtype) for name, dtype in _SWITCH}

    def enter(self, **switches: Array) -> dict[str, Column]:
        """Take switches in the order of the trace.

        Args:
            switches: `time` (int64 ns), `cpu` (int32), `thread` that runs from now on (row or `IDLE`, int32),
                `priority` of it (int64), `state` in which the thread before it stopped (code of a name, int32).

        Returns:
            The rows of `scheduling` that are finished.
        """
        rows = {name: np.concatenate([self._running[name], switches[name]]) for name, _ in _SWITCH}
        order = np.lexsort((rows["time"], rows["cpu"]))
        rows = {name: column[order] for name, column in rows.items()}
        has_next = np.zeros(len(order), bool)
        has_next[:-1] = rows["cpu"][1:] == rows["cpu"][:-1]
        self._running = {name: column[~has_next] for name, column in rows.items()}
        ended = np.flatnonzero(has_next & (rows["thread"] != IDLE))
        return self._intervals(rows, ended, rows["time"][ended + 1], rows["state"][ended + 1])

    def finish(self, end: int) -> dict[str, Column]:
        """Return the rows of the threads that still run at the end of the trace (ns)."""
        rows = self._running
        ended = np.flatnonzero(rows["thread"] != IDLE)
        last = np.maximum(end, rows["time"][ended])
        return self._intervals(rows, ended, last, np.full(len(ended), -1, np.int32))

    def _intervals(self, rows: dict[str, Array], ended: Array, end: Array, state: Array) -> dict[str, Column]:
        values = {name: rows[name][ended] for name in ("cpu", "thread", "priority")}
        start = rows["time"][ended]
        return self._registry.columns("scheduling", {**values, "start": start, "duration": end - start, "state": state})


_SWITCH = (("time", "int64"), ("cpu", "int32"), ("thread", "int32"), ("priority", "int64"), ("state", "int32"))
"""The columns of switches."""
