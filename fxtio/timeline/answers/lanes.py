"""Lanes: a range of times divided into cells, and for each track the slice that fills each cell.

Samples have lanes of their own: for each thread the function in which most samples of each cell were taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fxtio.arrays import Array, ranges
from fxtio.selection import EVERYTHING, Selection
from fxtio.table import MAX_TIME, Table, numbers_of
from fxtio.timeline.answers.answer import Labels
from fxtio.timeline.answers.rows import Chosen, Rows, Texts, chosen, cut_to
from fxtio.timeline.answers.stack_tree import StackCollector
from fxtio.timeline.parts import PAIR, Registry
from fxtio.timeline.sums import Sums, add_by_group
from fxtio.timeline.typecheck import check_types

if TYPE_CHECKING:
    from fxtio.timeline.timeline import Timeline

_TABLES = ("slices", "samples", "stacks", "frames")
_TIME_UNIT = "ns"


@dataclass(slots=True)
class Lane:
    """The slices of one depth of a track, or the samples of a thread.

    Attributes:
        label: the text for the track or thread.
        depth: the depth of the slices; 0 for samples.
        names: for each cell the name of the slices that fill most of it, or the function in which most of its samples
            were taken; None if nothing ran.
        fill: for each cell the share of it in which a slice of this depth ran (0 to 1).  For samples that have no
            duration, their weight in relation to the cell of the lanes that has the greatest one.
        calls: the number of slices or samples.
        busy: the time in which a slice ran, in nanoseconds; the weight of the samples in their unit.
    """

    label: str
    depth: int
    names: list[str | None]
    fill: list[float]
    calls: int
    busy: int


@dataclass(slots=True)
class Lanes:
    """A range of times divided into cells, and the slices and samples that fill them.

    Attributes:
        bounds: the start of each cell, and the end of the last one, in nanoseconds.
        rows: the lanes of slices of each track, the outermost depth first.
        samples: the lanes of samples of each thread.
        unit: the unit of the samples, empty without samples; of several units, that of most samples is shown.
        most: the greatest weight of samples in a cell, in this unit.
        more: the number of tracks, and of threads with samples, that were left out; those that are shown are the
            busiest.
    """

    bounds: list[int]
    rows: list[Lane]
    samples: list[Lane]
    unit: str = ""
    most: int = 0
    more: int = 0

    @property
    def start(self) -> int:
        """The start of the first cell, in nanoseconds."""
        return self.bounds[0]

    @property
    def end(self) -> int:
        """The end of the last cell, in nanoseconds."""
        return self.bounds[-1]


def lanes(
    timeline: Timeline,
    start: int,
    end: int,
    cells: int,
    *,
    depth: int = 1,
    limit: int | None = None,
    selection: Selection | None = None,
) -> Lanes:
    """Return what ran in a range of times, in one reading of bounded memory.

    Args:
        timeline: the timeline.
        start: the start of the range, in nanoseconds.
        end: the end of the range, later than the start.
        cells: into how many equal cells the range is divided.
        depth: the number of levels of slices that are shown, from the outermost one on.
        limit: the most tracks of slices, and the most threads with samples; None for all.
        selection: the threads, processes, categories and names; its range of times is not used.  A sample has the name
            of its innermost function, and its module as category.

    Raises:
        TypeError: an argument is of a wrong type.
    """
    check_types(timeline=timeline, start=start, end=end, cells=cells, levels=depth, limit=limit, selection=selection)
    start, end = min(start, MAX_TIME - 1), min(end, MAX_TIME)
    selection = selection or EVERYTHING
    selection = Selection(
        threads=selection.threads, processes=selection.processes, categories=selection.categories, names=selection.names
    )
    bounds = [start + (end - start) * cell // cells for cell in range(cells + 1)]  # exact, and without overflow
    subset = chosen(timeline, selection, *_TABLES)
    make = partial(_Content, bounds=np.array(bounds, np.int64), depth=depth, selection=selection, subset=subset)
    content, registry = timeline.fold(make, *_TABLES)
    labels = Labels(registry.tables())
    rows, more = content.slices.lanes(labels, limit)
    samples, more_samples = content.samples.lanes(labels, limit)
    unit, most = content.samples.unit, content.samples.most
    return Lanes(bounds, rows, samples, unit, most, more + more_samples)


class _Content:
    """Slices and samples."""

    def __init__(
        self, registry: Registry, *, bounds: Array, depth: int, selection: Selection, subset: Chosen | None
    ) -> None:
        self.slices = _Slices(registry, bounds, Rows(registry, selection, subset), depth)
        self.samples = _Samples(registry, bounds, selection, subset)

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the slices, samples and stacks of a batch."""
        if "slices" in tables:
            self.slices.enter(tables["slices"])
        self.samples.enter(tables)


def _in_cells(bounds: Array, start: Array, end: Array) -> tuple[Array, Array, Array]:
    """Divide intervals, which are within the range, at the bounds of cells.

    Returns:
        The interval, the cell, and the length of each part (int64).
    """
    last = len(bounds) - 2
    first = np.minimum(np.searchsorted(bounds, start, side="right") - 1, last)
    final = np.clip(np.searchsorted(bounds, end, side="left") - 1, first, last)
    counts = final - first + 1
    row = np.repeat(np.arange(len(start)), counts)
    cell = ranges(first, counts)
    return row, cell, np.minimum(end[row], bounds[cell + 1]) - np.maximum(start[row], bounds[cell])


def _lane(registry: Registry, label: str, depth: int, calls: int, cells: Table, full: Array) -> Lane:
    """Return a lane.

    Args:
        registry: the names.
        label: the text for the track or thread.
        depth: the depth of the slices.
        calls: the number of slices or samples.
        cells: the columns `cell`, `name` and `part`, what each name fills of each cell.
        full: for each cell the sum of a cell that is full.
    """
    cell, name, part = (cells[column] for column in ("cell", "name", "part"))
    filled = np.zeros(len(full), np.int64)
    add_by_group(filled, cell, part)
    names: list[str | None] = [None] * len(full)
    values = registry.names.values
    order = np.lexsort((name, part, cell))  # the largest part of a cell comes last, and stays
    for at, code in zip(cell[order].tolist(), name[order].tolist(), strict=True):
        names[at] = values[code] if code >= 0 else ""
    fill = np.minimum(filled / np.maximum(full, 1), 1.0).tolist()
    return Lane(label, depth, names, fill, calls, sum(filled.tolist()))


class _Slices:
    """The time that slices of each name fill of each cell."""

    def __init__(self, registry: Registry, bounds: Array, rows: Rows, depth: int) -> None:
        self._registry = registry
        self._depth = depth
        self._rows = rows
        self._bounds = bounds
        self._filled = Sums(("track", "depth", "cell", "name"), ("part",))
        self._calls = Sums(("track", "depth"), ("calls",))

    def enter(self, slices: Table) -> None:
        """Take the slices of a batch."""
        shallow = slices.take(slices["depth"] < self._depth)
        slices = cut_to(self._rows.slices(shallow), int(self._bounds[0]), int(self._bounds[-1]))
        self._calls.add({"track": slices["track"], "depth": slices["depth"], "calls": 1}, slices.num_rows)
        row, cell, part = _in_cells(self._bounds, slices["start"], slices["start"] + slices["duration"])
        lane = {name: numbers_of(slices[name])[row] for name in ("track", "depth", "name")}
        self._filled.add({**lane, "cell": cell, "part": part}, len(row))

    def lanes(self, labels: Labels, limit: int | None) -> tuple[list[Lane], int]:
        """Return the lanes of the busiest tracks, and how many tracks are left out."""
        filled, calls = self._filled.table(), self._calls.table()
        filled = filled.take(np.argsort(_number_of_lane(filled), kind="stable"))
        calls = calls.take(np.argsort(_number_of_lane(calls), kind="stable"))
        # Both are in the order of lanes from here on, so the cells of a lane are together.
        tracks = np.unique(calls["track"])
        busy = np.zeros(len(tracks), np.int64)
        outermost = filled.take(filled["depth"] == 0)
        add_by_group(busy, np.searchsorted(tracks, outermost["track"]), outermost["part"])
        shown = tracks[np.argsort(-busy, kind="stable")[:limit]]
        calls = calls.take(np.isin(calls["track"], shown))
        numbers, width, rows = _number_of_lane(filled), np.diff(self._bounds), []
        for number, lane in zip(_number_of_lane(calls).tolist(), calls.rows(), strict=True):
            own = filled.take(np.arange(*np.searchsorted(numbers, [number, number + 1])))
            rows.append(_lane(self._registry, labels.track(lane["track"]), lane["depth"], lane["calls"], own, width))
        return rows, len(tracks) - len(shown)


def _number_of_lane(rows: Table) -> Array:
    """Return a number for each row that stands for its track and depth, in their order (int64)."""
    number: Array = rows["track"] * PAIR + rows["depth"]
    return number


class _Samples:
    """The weight of the samples of each stack in each cell, by thread and unit.

    Attributes:
        unit: the unit of most samples; empty without samples.
        most: the greatest weight in a cell, in this unit.
    """

    def __init__(self, registry: Registry, bounds: Array, selection: Selection, subset: Chosen | None) -> None:
        self.unit = ""
        self.most = 0
        self._registry = registry
        self._selection = selection
        self._bounds = bounds
        self._rows = Rows(registry, Selection(int(bounds[0]), int(bounds[-1])), subset)
        self._stacks = StackCollector()
        self._filled = Sums(("unit", "thread", "cell", "stack"), ("part",))
        self._calls = Sums(("unit", "thread"), ("calls",))

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the samples and stacks of a batch."""
        self._stacks.enter(tables)
        if "samples" not in tables:
            return
        samples = tables["samples"]
        units = samples["unit"]
        for code in np.unique(units.codes).tolist():
            own = samples.take(units.codes == code)
            if code >= 0 and units.values[code] == _TIME_UNIT:  # a sample stands for this time
                columns = {**dict(own.items()), "start": own["time"], "duration": own["count"]}
                own = cut_to(self._rows.intervals(Table(columns)), int(self._bounds[0]), int(self._bounds[-1]))
                row, cell, part = _in_cells(self._bounds, own["start"], own["start"] + own["duration"])
            else:
                own = self._rows.events(own)
                row, part = np.arange(own.num_rows), own["count"]
                cell = np.searchsorted(self._bounds, own["time"], side="right") - 1
            thread, stack = own["thread"], own["stack"]
            self._calls.add({"unit": code, "thread": thread, "calls": 1}, own.num_rows)
            columns = {"unit": code, "thread": thread[row], "cell": cell, "stack": stack[row], "part": part}
            self._filled.add(columns, len(row))

    def lanes(self, labels: Labels, limit: int | None) -> tuple[list[Lane], int]:
        """Return the lanes of the threads with the most samples, and how many threads are left out."""
        calls = self._calls.table()
        if not calls.num_rows:
            return [], 0
        units, place = np.unique(calls["unit"], return_inverse=True)
        # Only one unit is drawn: the one that the trace says, else that of most samples.
        counts = np.zeros(len(units), np.int64)
        np.add.at(counts, place, calls["calls"])
        if self._registry.shown_unit is not None:
            counts[units == self._registry.names.code(self._registry.shown_unit)] += counts.sum()
        unit = int(units[np.argmax(counts)])
        calls = calls.take(calls["unit"] == unit)
        count_of = dict(zip(calls["thread"].tolist(), calls["calls"].tolist(), strict=True))
        self.unit = self._registry.names.values[unit] if unit >= 0 else "samples"
        filled = self._filled.table()
        filled = self._named(filled.take(filled["unit"] == unit))
        cells = Sums(("thread", "cell"), ("part",))
        cells.add(dict(filled.items()), filled.num_rows)
        self.most = int(cells.table()["part"].max(initial=0))
        width = np.diff(self._bounds)
        full = width if self.unit == _TIME_UNIT else np.full(len(width), self.most)
        # `threads` and `weight` are in the order of threads; so are the lanes that are shown, the heaviest ones.
        threads, place = np.unique(filled["thread"], return_inverse=True)
        weight = np.zeros(len(threads), np.int64)
        add_by_group(weight, place, filled["part"])
        shown = np.sort(np.argsort(-weight, kind="stable")[:limit])
        rows = []
        for thread in threads[shown].tolist():
            own = filled.take(filled["thread"] == thread)
            rows.append(_lane(self._registry, labels.thread(thread), 0, count_of[thread], own, full))
        return rows, len(threads) - len(shown)

    def _named(self, filled: Table) -> Table:
        """Return sums by the names of innermost functions in place of stacks; only those that are selected."""
        tree, names, stack = self._stacks.finish(), self._registry.names, filled["stack"]
        has_stack = (stack >= 0) & (stack < len(tree.frame))
        by = {}
        for column in ("name", "function", "module"):
            code = np.append(tree.groups(column, names), -1)  # the last item is that of samples without a stack
            by[column] = code[np.where(has_stack, stack, -1)]
        keep = np.ones(len(stack), bool)
        for column, patterns, accepts in (
            ("name", self._selection.names, self._selection.has_name),
            ("module", self._selection.categories, self._selection.has_category),
        ):
            if patterns:
                keep &= Texts(names.values, accepts, null=accepts("")).has(by[column])
        named = Sums(("thread", "cell", "name"), ("part",))
        columns = {**{name: filled[name][keep] for name in ("thread", "cell", "part")}, "name": by["function"][keep]}
        named.add(columns, int(keep.sum()))
        return named.table()
