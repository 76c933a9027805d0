"""Lanes: a range of times divided into cells, and for each track the slice that fills each cell.

Samples have lanes of their own: for each thread the function in which most samples of each cell were taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import number_distinct
from fxtio.selection import Selection
from fxtio.table import MAX_TIME, Table
from fxtio.timeline.answers.answer import Labels
from fxtio.timeline.answers.rows import Chosen, Rows, Texts, chosen, cut_to
from fxtio.timeline.answers.stack_tree import StackCollector
from fxtio.timeline.parts import PAIR, Registry
from fxtio.timeline.sums import add_by_group, sums_of_runs
from fxtio.timeline.typecheck import check_types

if TYPE_CHECKING:
    from fxtio.timeline.timeline import Timeline

_MAX_WAITING = 1_000_000
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
        bounds: the begin of each cell, and the end of the last one, in nanoseconds.
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
        """The begin of the first cell, in nanoseconds."""
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
        start: the begin of the range, in nanoseconds.
        end: the end of the range, later than the begin.
        cells: into how many equal cells the range is divided.
        depth: so many levels of slices are shown, from the outermost one on.
        limit: the most tracks of slices, and the most threads with samples; None for all.
        selection: the threads, processes, categories and names; its range of times is not used.  A sample has the name
            of its innermost function, and its module as category.

    Raises:
        TypeError: an argument is of a wrong type.
    """
    check_types(timeline=timeline, start=start, end=end, cells=cells, levels=depth, limit=limit, selection=selection)
    start, end = min(start, MAX_TIME - 1), min(end, MAX_TIME)
    selection = selection or Selection()
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


class _Cells:
    """Sums of what fills each cell, by lane and name.

    Args:
        bounds: the begin of each cell, and the end of the last one (int64).
    """

    def __init__(self, bounds: Array) -> None:
        self.bounds = bounds
        self._waiting: list[Array] = []
        self._count = 0

    def add_intervals(self, lane: Array, name: Array, start: Array, end: Array) -> None:
        """Add the part of intervals, which are within the range, that each cell has."""
        last = len(self.bounds) - 2
        first = np.minimum(np.searchsorted(self.bounds, start, side="right") - 1, last)
        final = np.clip(np.searchsorted(self.bounds, end, side="left") - 1, first, last)
        counts = final - first + 1
        row = np.repeat(np.arange(len(lane)), counts)
        cell = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        part = np.minimum(end[row], self.bounds[cell + 1]) - np.maximum(start[row], self.bounds[cell])
        self._add(lane[row], cell, name[row], part)

    def add_points(self, lane: Array, name: Array, time: Array, weight: Array) -> None:
        """Add the weights of points, which are within the range, to their cells."""
        self._add(lane, np.searchsorted(self.bounds, time, side="right") - 1, name, weight)

    def _add(self, lane: Array, cell: Array, name: Array, part: Array) -> None:
        self._waiting.append(np.stack([lane, cell, name, part]))
        self._count += len(lane)
        if self._count > _MAX_WAITING:
            self.sums()

    def sums(self) -> Array:
        """Return the sums: the lane, cell, name and sum of each combination, in their order, as rows of an array."""
        rows = np.concatenate(self._waiting, axis=1) if self._waiting else np.empty((4, 0), np.int64)
        rows = _summed(rows)
        self._waiting, self._count = [rows], 0  # what is left is bounded by lanes, cells and names
        return rows


class _Counts:
    """Numbers of rows by lane."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Array, Array]] = []
        self._count = 0

    def add(self, lane: Array) -> None:
        """Count a row for each of some lanes (int64)."""
        codes, first = number_distinct(lane)
        self._waiting.append((lane[first], np.bincount(codes)))
        self._count += len(first)
        if self._count > _MAX_WAITING:
            self.sums()

    def sums(self) -> tuple[Array, Array]:
        """Return the lanes in their order, and the number of rows of each (int64)."""
        waiting = [np.concatenate([np.empty(0, np.int64), *column]) for column in zip(*self._waiting, strict=True)]
        lanes, numbers = waiting or (np.empty(0, np.int64), np.empty(0, np.int64))
        lanes, place = np.unique(lanes, return_inverse=True)
        counts = np.zeros(len(lanes), np.int64)
        np.add.at(counts, place, numbers)
        self._waiting, self._count = [(lanes, counts)], 0  # what is left is bounded by lanes
        return lanes, counts


def _summed(rows: Array) -> Array:
    """Sum up the last row of an array for equal columns of the others."""
    rows = rows[:, np.lexsort((rows[2], rows[1], rows[0]))]
    is_new = np.ones(rows.shape[1], bool)
    is_new[1:] = (np.diff(rows[:3], axis=1) != 0).any(axis=0)
    first = np.flatnonzero(is_new)
    if not len(first):
        return rows
    return np.concatenate([rows[:3, first], sums_of_runs(rows[3], first)[None]])


def _lane(registry: Registry, label: str, depth: int, calls: int, columns: Array, full: Array) -> Lane:
    """Return a lane.

    Args:
        registry: the names.
        label: the text for the track or thread.
        depth: the depth of the slices.
        calls: the number of slices or samples.
        columns: cell, name and sum, see `_Cells.sums`.
        full: for each cell the sum of a cell that is full.
    """
    cell, name, part = columns
    filled = np.zeros(len(full), np.int64)
    add_by_group(filled, cell, part)
    names: list[str | None] = [None] * len(full)
    values = registry.names.values
    order = np.lexsort((part, cell))  # the largest part of a cell comes last, and stays
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
        self._cells = _Cells(bounds)
        self._calls = _Counts()  # a lane is the numbers of the track and of the depth

    def enter(self, slices: Table) -> None:
        """Take the slices of a batch."""
        bounds = self._cells.bounds
        shallow = slices.take(slices["depth"] < self._depth)
        slices = cut_to(self._rows.slices(shallow), int(bounds[0]), int(bounds[-1]))
        if not slices.num_rows:
            return
        lane = slices["track"].astype(np.int64) * PAIR + slices["depth"]
        self._calls.add(lane)
        name, start = slices["name"].codes.astype(np.int64), slices["start"]
        self._cells.add_intervals(lane, name, start, start + slices["duration"])

    def lanes(self, labels: Labels, limit: int | None) -> tuple[list[Lane], int]:
        """Return the lanes of the busiest tracks, and how many tracks are left out."""
        sums, width = self._cells.sums(), np.diff(self._cells.bounds)
        numbers, calls = self._calls.sums()
        tracks, place = np.unique(numbers // PAIR, return_inverse=True)
        busy = np.zeros(len(tracks), np.int64)
        outermost = sums[:, sums[0] % PAIR == 0]
        add_by_group(busy, np.searchsorted(tracks, outermost[0] // PAIR), outermost[3])
        is_shown = np.zeros(len(tracks), bool)
        is_shown[np.argsort(-busy, kind="stable")[:limit]] = True
        rows = []
        shown = np.flatnonzero(is_shown[place])
        for number, count in zip(numbers[shown].tolist(), calls[shown].tolist(), strict=True):
            own = slice(*np.searchsorted(sums[0], [number, number + 1]))
            track, depth = divmod(number, PAIR)
            rows.append(_lane(self._registry, labels.track(track), depth, count, sums[1:, own], width))
        return rows, len(tracks) - int(is_shown.sum())


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
        self._rows = Rows(registry, Selection(int(bounds[0]), int(bounds[-1])), subset)
        self._cells = _Cells(bounds)
        self._stacks = StackCollector()
        self._calls = _Counts()  # a lane is the numbers of the unit and of the thread

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the samples and stacks of a batch."""
        self._stacks.enter(tables)
        if "samples" not in tables:
            return
        samples = tables["samples"]
        units = samples["unit"]
        for code in np.unique(units.codes).tolist():
            own = samples.take(units.codes == code)
            if code >= 0 and units.values[code] == _TIME_UNIT:
                self._add_times(code, own)
            else:
                own = self._rows.events(own)
                stack = own["stack"].astype(np.int64)
                self._cells.add_points(self._lanes_of(code, own), stack, own["time"], own["count"])

    def _add_times(self, unit: int, samples: Table) -> None:
        """Add samples whose weight is the time for which they stand."""
        bounds = self._cells.bounds
        columns = {**dict(samples.items()), "start": samples["time"], "duration": samples["count"]}
        own = cut_to(self._rows.intervals(Table(columns)), int(bounds[0]), int(bounds[-1]))
        lane, stack = self._lanes_of(unit, own), own["stack"].astype(np.int64)
        self._cells.add_intervals(lane, stack, own["start"], own["start"] + own["duration"])

    def _lanes_of(self, unit: int, samples: Table) -> Array:
        """Count samples by lane, and return their lanes: the numbers of the unit and of the thread."""
        lane: Array = (unit + 1) * PAIR + samples["thread"].astype(np.int64) + 1
        self._calls.add(lane)
        return lane

    def lanes(self, labels: Labels, limit: int | None) -> tuple[list[Lane], int]:
        """Return the lanes of the threads with the most samples, and how many threads are left out."""
        numbers, calls = self._calls.sums()
        if not len(numbers):
            return [], 0
        units, place = np.unique(numbers // PAIR, return_inverse=True)
        counts = np.zeros(len(units), np.int64)
        np.add.at(counts, place, calls)
        if self._registry.shown_unit is not None:
            counts[units == self._registry.names.code(self._registry.shown_unit) + 1] += counts.sum()
        unit = int(units[np.argmax(counts)])
        count_of = dict(zip(numbers.tolist(), calls.tolist(), strict=True))
        self.unit = self._registry.names.values[unit - 1] if unit else "samples"
        sums = self._named(self._cells.sums())
        sums = sums[:, sums[0] // PAIR == unit]
        cells = _summed(np.stack([sums[0], sums[1], np.zeros(sums.shape[1], np.int64), sums[3]]))
        self.most = int(cells[3].max(initial=0))
        width = np.diff(self._cells.bounds)
        full = width if self.unit == _TIME_UNIT else np.full(len(width), self.most)
        numbers, place = np.unique(sums[0], return_inverse=True)
        weight = np.zeros(len(numbers), np.int64)
        add_by_group(weight, place, sums[3])
        shown = np.sort(np.argsort(-weight, kind="stable")[:limit])
        rows = []
        for number in numbers[shown].tolist():
            label = labels.thread(number % PAIR - 1)
            rows.append(_lane(self._registry, label, 0, count_of[number], sums[1:, sums[0] == number], full))
        return rows, len(numbers) - len(shown)

    def _named(self, sums: Array) -> Array:
        """Return sums by the names of innermost functions in place of stacks; only those that are selected."""
        tree, names = self._stacks.finish(), self._registry.names
        lane, cell, stack, weight = sums
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
        return _summed(np.stack([lane, cell, by["function"], weight])[:, keep])
