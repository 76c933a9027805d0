"""Slices from steps: pairs begins and ends, finds the slice around each row, batch by batch, in bounded memory.

Kernels examine each batch, see `match` and `list_slices` in `fxtio._native.python_spans`.  Slices that are still on a
stack at the end of a batch go before the rows of the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import numpy as np

from fxtio import _native
from fxtio._native.constants import SliceState, SpanStep
from fxtio.arrays import Array
from fxtio.pairing import Matched, pair
from fxtio.table import MAX_TIME, Column, Table
from fxtio.timeline.parts import OPEN_COLUMNS, STEP_COLUMNS, Registry, Steps
from fxtio.timeline.schema import number_types
from fxtio.timeline.sums import add_by_group

MAX_OPEN = 262_144
"""The most slices on stacks that wait for the next batch; of more, the outermost are finished as open slices."""

_AT_ONCE = 1 << 16
"""The slices that are passed on together in the end: a bound for the memory of what takes them."""


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
        registry.open_slices, registry.open_self_times = self.open_slices, self.open_self_times
        self._latest = np.empty(0, np.uint64)
        self._carried = Steps.blank(0)  # the slices on the stacks, the outer ones first
        self._progress: dict[str, Array] = {name: np.empty(0, dtype) for name, dtype in _PROGRESS}  # of the same
        self._next_id = 0
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
        carried = len(self._carried)
        self._progress = {name: self._progress[name] for name in _MATCHED}
        rows = Steps.joined([self._carried, steps]) if carried else steps.take(slice(None))
        self._carried = steps.take(slice(0))  # `rows` has it: not twice in memory
        matched = self._match(rows, carried)
        if matched.child_first:
            rows = Steps.joined([rows.take(slice(carried)), steps.take(longest_first(steps))])
            matched = self._match(rows, carried)
            if matched.child_first and carried and not self._is_sorted:
                raise DisorderedError
        self._progress = {}
        self._registry.losses["ends of spans that have not begun"] += matched.unmatched
        waiting = self._on_stacks(matched)
        slices = self._list(rows, matched, carried, len(waiting))
        opened = waiting[waiting >= carried]
        tables = {"slices": slices, "opened": self._opened(rows, opened, matched), **self._points(rows, matched)}
        self._carry(rows, waiting, matched)
        return tables

    def finish(self) -> Iterator[dict[str, dict[str, Column]]]:
        """Yield the rows of `slices` that are still on stacks, and of `unended` those of them without an end.

        These last until the end of the trace.  The inner ones come first, as they do elsewhere: those around them are
        among the open slices until they come.
        """
        rows, progress = self._carried, self._progress
        is_open = rows.step == SpanStep.BEGIN
        state = np.where(is_open, np.int8(SliceState.OPEN), progress["state"])
        duration, own = self._times_until(self.end)
        slices = {
            **_begins(rows, progress["id"], progress["depth"], progress["parent"]),
            "duration": duration,
            "self_time": own,
            "state": state,
            "end_event": progress["closing"],
        }
        # All have ended now: who asks for the open ones between two parts gets these times, whatever has left already.
        rows.step, rows.end = np.full(len(rows), SpanStep.COMPLETE, np.int8), rows.time + duration
        progress["inner"] = duration - own
        for first in reversed(range(0, len(rows), _AT_ONCE)):
            part = slice(first, first + _AT_ONCE)
            self._carried = rows.take(slice(first))
            self._progress = {name: column[:first] for name, column in progress.items()}
            values = {name: column[part] for name, column in slices.items()}
            unended = {"id": values["id"][is_open[part]]}
            columns = self._registry.columns
            yield {"slices": columns("slices", values), "unended": columns("unended", unended)}

    def open_slices(self) -> Table:
        """Return the slices that later batches may finish, in the order of their ids, see `Registry.open_slices`."""
        order = np.argsort(self._progress["id"], kind="stable")
        rows, progress, names = self._carried, self._progress, self._registry.names
        columns: dict[str, Column] = {
            **{name: progress[name] for name in ("id", "depth", "parent")},
            **{name: getattr(rows, name) for name in ("track", "event")},
            **{name: names.column(getattr(rows, name)) for name in ("category", "name")},
            "start": rows.time,
            "duration": np.where(rows.step == SpanStep.BEGIN, -1, rows.end - rows.time),
            "end_event": progress["closing"],
        }
        return Table({name: columns[name] for name in OPEN_COLUMNS}).take(order)

    def open_self_times(self, until: int) -> tuple[int, Array]:
        """Return the self times of the open slices so far, see `Registry.open_self_times`."""
        until = max(until, self.end)
        return until, self._times_until(until)[1][np.argsort(self._progress["id"], kind="stable")]

    def _times_until(self, until: int) -> tuple[Array, Array]:
        """Return durations and self times of the slices on stacks, as if those that are open ended at a time."""
        rows, outer, inner = self._carried, self._progress["parent_row"], self._progress["inner"].copy()
        is_open = rows.step == SpanStep.BEGIN
        end = np.where(is_open, until, rows.end)
        within = np.flatnonzero(is_open & (outer >= 0))
        times = np.minimum(end[within], end[outer[within]]) - rows.time[within]
        add_by_group(inner, outer[within], np.maximum(times, 0))
        duration = end - rows.time
        return duration, np.maximum(duration - inner, 0)

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

    def _match(self, rows: Steps, carried: int) -> _Matched:
        """Pair the spans of a batch, after those that are carried over."""
        count = len(rows)
        end = np.where(rows.step == SpanStep.COMPLETE, rows.end, MAX_TIME)
        ids, closing, inner = np.empty(count, np.int64), np.empty(count, np.int64), np.zeros(count, np.int64)
        state = rows.detail.copy()
        for column, name in zip((inner, state, ids, closing), _MATCHED, strict=True):
            column[:carried] = self._progress[name]
        pairs = pair(
            rows.step, rows.track, rows.time, tracks=self._registry.track_count, end=end, key=rows.key,
            level=rows.level, inner=inner, state=state, carried=carried, with_depth=True,
        )  # fmt: skip
        return _Matched(pairs, ids, closing)

    def _on_stacks(self, matched: _Matched) -> Array:
        """Return the rows that are on stacks, in order; at most `MAX_OPEN`."""
        rows = matched.open
        if len(rows) > MAX_OPEN:
            self._registry.losses[f"open spans beyond {MAX_OPEN:,}, which end too early"] += len(rows) - MAX_OPEN
            matched.on_stack[rows[:-MAX_OPEN]] = 0
            rows = rows[-MAX_OPEN:]
        return rows

    def _list(self, rows: Steps, matched: _Matched, carried: int, waiting: int) -> dict[str, Column]:
        """Return the finished slices of a batch, all but those that wait on stacks; number all of them."""
        spans = np.count_nonzero((rows.step == SpanStep.BEGIN) | (rows.step == SpanStep.COMPLETE))
        columns = {name: np.empty(spans - waiting, dtype) for name, dtype in number_types("slices").items()}
        inputs = (
            rows.step, rows.track, rows.time, matched.end, matched.parent, matched.depth, matched.closer, matched.inner,
            matched.state, matched.on_stack, rows.category, rows.name, rows.event, rows.ticks,
        )  # fmt: skip
        outputs = tuple(columns.values())
        self._next_id, self.end = _native.list_slices(
            inputs, matched.ids, matched.closing, outputs, carried, self._next_id, self.end
        )
        return self._registry.columns("slices", columns)

    def _opened(self, rows: Steps, places: Array, matched: _Matched) -> dict[str, Column]:
        """Return the table `opened` of some rows of a batch."""
        begins = rows.take(places)
        closing, ids, depth = matched.closing[places], matched.ids[places], matched.depth[places]
        is_closed = (begins.step == SpanStep.COMPLETE) | (closing >= 0)
        values = {
            **_begins(begins, ids, depth, matched.ids_around(places)),
            "duration": np.where(is_closed, matched.end[places] - begins.time, -1),
            "state": matched.state[places],
            "end_event": closing,
        }
        return self._registry.columns("opened", values)

    def _carry(self, rows: Steps, waiting: Array, matched: _Matched) -> None:
        """Carry the rows on stacks over to the next batch; the others are dropped column by column, to save memory."""
        for name in STEP_COLUMNS:
            setattr(rows, name, getattr(rows, name)[waiting])
        self._carried = rows
        self._carried.step[matched.closing[waiting] >= 0] = SpanStep.COMPLETE
        self._carried.end[:], self._carried.level[:] = matched.end[waiting], matched.level[waiting]
        parent = matched.parent[waiting]
        place = np.minimum(np.searchsorted(waiting, parent), len(waiting) - 1)
        is_waiting = (parent >= 0) & (waiting[place] == parent) if len(waiting) else parent >= 0
        self._progress = {
            "id": matched.ids[waiting],
            "parent": matched.ids_around(waiting),
            "parent_row": np.where(is_waiting, place, -1),
            "depth": matched.depth[waiting],
            "closing": matched.closing[waiting],
            "inner": matched.inner[waiting],
            "state": matched.state[waiting],
        }

    def _points(self, rows: Steps, matched: _Matched) -> dict[str, dict[str, Column]]:
        """Return the tables of instants and of points of flows."""
        tables = {}
        for table, step, detail in (("instants", SpanStep.INSTANT, "scope"), ("flow_points", SpanStep.FLOW, "type")):
            points = np.flatnonzero(rows.step == step)
            points = points[rows.track[points] >= 0]
            if not len(points):
                continue
            values = {
                "time": rows.time[points],
                "track": rows.track[points],
                "slice": matched.ids_around(points),
                "category": rows.category[points],
                "name": rows.name[points],
                "event": rows.event[points],
                "ticks": rows.ticks[points],
                "id": rows.id[points],
                detail: rows.detail[points],
            }
            tables[table] = self._registry.columns(table, values)
        return tables


class _Matched(Matched):
    """The spans of a batch, with their ids and the events that end them, see `list_slices`."""

    __slots__ = ("closing", "ids")

    def __init__(self, pairs: Matched, ids: Array, closing: Array) -> None:
        super().__init__(*(getattr(pairs, each.name) for each in fields(Matched)))
        self.ids, self.closing = ids, closing

    def ids_around(self, places: Array) -> Array:
        """Return the ids of the slices around some rows, -1 for none."""
        parent = self.parent[places]
        return np.where(parent >= 0, self.ids[parent], -1)


def _begins(rows: Steps, ids: Array, depth: Array, parent: Array) -> dict[str, Array]:
    """Return the columns of slices that are known when they begin."""
    return {
        "id": ids,
        "start": rows.time,
        "depth": depth,
        "parent": parent,
        "track": rows.track,
        "category": rows.category,
        "name": rows.name,
        "event": rows.event,
        "ticks": rows.ticks,
    }


_PROGRESS = (
    ("id", "int64"), ("parent", "int64"), ("parent_row", "int64"), ("depth", "int32"), ("closing", "int64"),
    ("inner", "int64"), ("state", "int8"),
)  # fmt: skip
"""The columns of the slices on stacks: `parent_row` is an index into them, `closing` an event or -1."""

_MATCHED = ("inner", "state", "id", "closing")
"""Those that the next batch goes on with; the others are only asked for between batches."""


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
