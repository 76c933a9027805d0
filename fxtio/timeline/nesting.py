"""Slices from steps: pairs begins and ends, finds the slice around each row, batch by batch, in bounded memory.

A kernel examines each batch, see `fxtio._native.python.match`.  Slices that are still on a stack at the end of a batch
go before the rows of the next one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fxtio import _native
from fxtio._native.constants import SliceState, SpanStep
from fxtio.table import MAX_TIME, Column, Table
from fxtio.timeline.parts import OPEN_COLUMNS, Registry, Steps

Array = np.ndarray[Any, Any]

MAX_OPEN = 262_144
"""The most slices on stacks that wait for the next batch; of more, the outermost are finished as open slices."""


class DisorderedError(Exception):
    """The rows of a track are not in the order of time, and earlier batches have been examined already."""


class Nesting:
    """Turns steps into slices, instants and points of flows.

    Args:
        registry: the tracks; unmatched ends are counted in its losses.
        is_sorted: all steps are in the order of time, and a batch never ends between steps with the same time.
    """

    def __init__(self, registry: Registry, *, is_sorted: bool = False) -> None:
        self._registry = registry
        self._is_sorted = is_sorted
        registry.open_slices = self.open_slices
        self._latest = np.empty(0, np.uint64)
        self._rows = Steps.blank(0)  # of the slices on the stacks, the outer ones first
        self._kept: dict[str, Array] = {name: np.empty(0, dtype) for name, dtype in _KEPT}
        self._next = 0
        self.end = 0
        """The latest time so far."""

    def enter(self, steps: Steps) -> dict[str, dict[str, Column]]:
        """Examine a batch.

        Returns:
            The rows of the tables `slices` (those that are finished), `opened`, `instants` and `flow_points`.

        Raises:
            DisorderedError: a row is earlier than one of an earlier batch on its track, or a complete span begins
                together with a shorter one of an earlier batch.
        """
        steps = self._ordered(steps)
        carried = len(self._rows)
        rows = Steps.joined([self._rows, steps]) if carried else steps
        result = self._match(rows, carried)
        if result["child_first"]:
            rows = Steps.joined([self._rows, steps.take(longest_first(steps))])
            result = self._match(rows, carried)
            if result["child_first"] and carried and not self._is_sorted:
                raise DisorderedError
        self._registry.losses["ends of spans that have not begun"] += result["unmatched"]
        begins = np.flatnonzero((rows.step == SpanStep.BEGIN) | (rows.step == SpanStep.COMPLETE))
        ids = np.full(len(rows), -1, np.int64)
        fresh = begins[carried:]
        ids[:carried] = self._kept["id"]
        ids[fresh] = np.arange(self._next, self._next + len(fresh))
        self._next += len(fresh)
        around = np.where(result["parent"] >= 0, ids[result["parent"]], -1)
        self._note_end(rows, begins)
        kept = self._on_stacks(result)
        opened = kept[kept >= carried]
        finished = np.ones(len(rows), bool)
        finished[kept] = False
        finished = begins[finished[begins]]
        closers = self._closing_events(rows, result, carried)
        tables = {
            "slices": self._slices(rows, finished, ids, around, result, closers),
            "opened": self._opened(rows, opened, ids, around, result, closers),
            **self._points(rows, around),
        }
        self._keep(rows, kept, ids, result, closers)
        return tables

    def _opened(
        self, rows: Steps, opened: Array, ids: Array, around: Array, result: dict[str, Any], closers: Array
    ) -> dict[str, Column]:
        """Return the table `opened`."""
        begun = rows.take(opened)
        is_closed = (begun.step == SpanStep.COMPLETE) | (closers[opened] >= 0)
        values = {
            **_begins(begun, opened, ids, around, result),
            "duration": np.where(is_closed, result["end"][opened] - begun.time, -1),
            "state": result["state"][opened],
            "end_event": closers[opened],
        }
        return self._registry.columns("opened", values)

    def finish(self) -> dict[str, dict[str, Column]]:
        """Return the rows of `slices` that are still on stacks, and of `unended` those of them without an end.

        These last until the end of the trace.
        """
        rows, kept = self._rows, self._kept
        count = len(rows)
        is_open = rows.step == SpanStep.BEGIN
        end, inner, state = np.where(is_open, self.end, rows.end), kept["inner"].copy(), kept["state"].copy()
        state[is_open] = SliceState.OPEN
        for row in range(count - 1, -1, -1):
            outer = int(kept["parent_row"][row])
            if is_open[row] and outer >= 0:
                inner[outer] += max(min(int(end[row]), int(end[outer])) - int(rows.time[row]), 0)
        every = np.arange(count)
        result = {"depth": kept["depth"], "inner": inner, "state": state, "end": end}
        around = kept["parent"]
        self._rows, self._kept = rows.take(every[:0]), {name: kept[name][:0] for name, _ in _KEPT}
        slices = self._slices(rows, every, kept["id"], around, result, kept["closer"])
        return {"slices": slices, "unended": self._registry.columns("unended", {"id": kept["id"][is_open]})}

    def open_slices(self) -> Table:
        """Return the slices that later batches may finish, in the order of their ids, see `Registry.open_slices`."""
        order = np.argsort(self._kept["id"], kind="stable")
        rows, kept, names = self._rows, self._kept, self._registry.names
        columns: dict[str, Column] = {
            **{name: kept[name] for name in ("id", "depth", "parent")},
            **{name: getattr(rows, name) for name in ("track", "event")},
            **{name: names.column(getattr(rows, name)) for name in ("category", "name")},
            "start": rows.time,
            "end_event": kept["closer"],
        }
        return Table({name: columns[name] for name in OPEN_COLUMNS}).take(order)

    def _ordered(self, steps: Steps) -> Steps:
        """Return the steps in the order of time on each track."""
        count = self._registry.track_count
        if len(self._latest) < count:
            self._latest = np.concatenate([self._latest, np.zeros(count - len(self._latest), np.uint64)])
        nothing = np.empty(0, np.int64)
        latest = self._latest.copy()
        if not _native.late(steps.track, steps.time.view(np.uint64), latest, nothing):
            self._latest = latest
            return steps
        steps = steps.take(np.argsort(steps.time, kind="stable"))
        if _native.late(steps.track, steps.time.view(np.uint64), self._latest, nothing):
            raise DisorderedError
        return steps

    def _match(self, rows: Steps, carried: int) -> dict[str, Any]:
        count = len(rows)
        end = np.where(rows.step == SpanStep.COMPLETE, rows.end, MAX_TIME)
        top = np.full(self._registry.track_count, -1, np.int64)
        parent, closer = np.empty(count, np.int64), np.empty(count, np.int64)
        depth, inner, state = np.empty(count, np.int32), np.zeros(count, np.int64), rows.detail.copy()
        inner[:carried], state[:carried] = self._kept["inner"], self._kept["state"]
        kept = np.zeros(count, np.int8)
        columns = (rows.step, rows.track, rows.time, end, rows.key, rows.level)
        unmatched, child_first = _native.match(*columns, top, parent, depth, closer, inner, state, kept, carried)
        return {
            "end": end, "top": top, "parent": parent, "depth": depth, "closer": closer, "inner": inner,
            "state": state, "kept": kept, "unmatched": unmatched, "child_first": child_first,
        }  # fmt: skip

    def _note_end(self, rows: Steps, begins: Array) -> None:
        used = rows.track >= 0
        last = int(rows.time.max(where=used, initial=0))
        ends = rows.end[begins[rows.step[begins] == SpanStep.COMPLETE]]
        self.end = max(self.end, last, int(ends.max(initial=0)))

    def _on_stacks(self, result: dict[str, Any]) -> Array:
        """Return the rows that are on stacks, in order; at most `MAX_OPEN`."""
        rows = np.flatnonzero(result["kept"])
        if len(rows) > MAX_OPEN:
            self._registry.losses[f"open spans beyond {MAX_OPEN:,}, which end too early"] += len(rows) - MAX_OPEN
            rows = rows[-MAX_OPEN:]
        return rows

    def _closing_events(self, rows: Steps, result: dict[str, Any], carried: int) -> Array:
        """Return the number of the event that ends each row, -1 for those without one."""
        closers = np.where(result["closer"] >= 0, rows.event[result["closer"]], -1)
        closers[:carried] = np.maximum(closers[:carried], self._kept["closer"])
        return closers

    def _keep(self, rows: Steps, kept: Array, ids: Array, result: dict[str, Any], closers: Array) -> None:
        """Keep the rows that are on stacks for the next batch."""
        self._rows = rows.take(kept)
        self._rows.step[closers[kept] >= 0] = SpanStep.COMPLETE
        self._rows.end[:] = result["end"][kept]
        parent = result["parent"][kept]
        place = np.minimum(np.searchsorted(kept, parent), len(kept) - 1)
        self._kept = {
            "id": ids[kept],
            "parent": np.where(parent >= 0, ids[parent], -1),
            "parent_row": np.where((parent >= 0) & (kept[place] == parent), place, -1) if len(kept) else parent,
            "depth": result["depth"][kept],
            "closer": closers[kept],
            "inner": result["inner"][kept],
            "state": result["state"][kept],
        }

    def _slices(
        self, rows: Steps, finished: Array, ids: Array, around: Array, result: dict[str, Any], closers: Array
    ) -> dict[str, Column]:
        end, state = result["end"][finished], result["state"][finished]
        endless = (rows.step[finished] == SpanStep.BEGIN) & (closers[finished] < 0) & (end == MAX_TIME)
        if endless.any():
            end[endless], state[endless] = self.end, SliceState.OPEN
        duration = end - rows.time[finished]
        return self._registry.columns(
            "slices",
            {
                **_begins(rows.take(finished), finished, ids, around, result),
                "duration": duration,
                "self_time": np.maximum(duration - result["inner"][finished], 0),
                "state": state,
                "end_event": closers[finished],
            },
        )

    def _points(self, rows: Steps, around: Array) -> dict[str, dict[str, Column]]:
        """Return the tables of instants and of points of flows."""
        tables = {}
        for table, step, detail in (("instants", SpanStep.INSTANT, "scope"), ("flow_points", SpanStep.FLOW, "type")):
            points = np.flatnonzero((rows.step == step) & (rows.track >= 0))
            values = {
                "time": rows.time[points],
                "track": rows.track[points],
                "slice": around[points],
                "category": rows.category[points],
                "name": rows.name[points],
                "event": rows.event[points],
                "ticks": rows.ticks[points],
                "id": rows.id[points],
                detail: rows.detail[points],
            }
            tables[table] = self._registry.columns(table, values)
        return tables


def _begins(rows: Steps, places: Array, ids: Array, around: Array, result: dict[str, Any]) -> dict[str, Array]:
    """Return the columns of slices that are known when they begin: `rows`, which are at these places of a batch."""
    return {
        "id": ids[places],
        "start": rows.time,
        "depth": result["depth"][places],
        "parent": around[places],
        "track": rows.track,
        "category": rows.category,
        "name": rows.name,
        "event": rows.event,
        "ticks": rows.ticks,
    }


_KEPT = (
    ("id", "int64"), ("parent", "int64"), ("parent_row", "int64"), ("depth", "int32"), ("closer", "int64"),
    ("inner", "int64"), ("state", "int8"),
)  # fmt: skip
"""The columns of slices on stacks beside their rows; `parent_row` is an index into these rows."""


def longest_first(steps: Steps) -> Array:
    """Return an order of steps in which the longest of several complete spans that begin together comes first.

    Other rows of a track keep their order.
    """
    order = np.lexsort((steps.time, steps.track))
    rows = steps.take(order)
    together = (rows.track[1:] == rows.track[:-1]) & (rows.time[1:] == rows.time[:-1])
    together &= (rows.step[1:] == SpanStep.COMPLETE) & (rows.step[:-1] == SpanStep.COMPLETE)
    group = np.concatenate([[0], np.cumsum(~together)])[: len(rows)]
    return order[np.lexsort((-rows.end, group))]
