"""Marks on a batch: where its records are relative to the range, which are selected, and which are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.columns import tick_places
from fxtio.codec.distinct import number_distinct
from fxtio.codec.record import Record, layout_of
from fxtio.fxt import records as r
from fxtio.fxt.records import RECORDS, TIMED, Thread, ThreadReference
from fxtio.fxt.rewrite import set_ticks
from fxtio.fxt.slots import NS_PER_SECOND, Clock, times_of
from fxtio.fxt.state import Batch
from fxtio.selection import Selection, is_selected

Classes = frozenset[type[Record]]

FLOWS: Classes = frozenset({r.FlowBegin, r.FlowStep, r.FlowEnd})
"""The classes of the points of flows."""

_NAMED: Classes = frozenset(cls for cls in TIMED if {"category", "name"} <= {*cls.__struct_fields__})
_THREADED: Classes = frozenset(
    cls for cls in RECORDS.classes if isinstance(dict(layout_of(cls).parts).get("thread"), ThreadReference)
)
_MAX_TICK = (1 << 64) - 1
_MAX_CACHED = 1 << 16  # threads and texts of which is known whether they are selected


class Limits:
    """The range in the ticks of every clock.

    Args:
        start: the start in nanoseconds, or None.
        end: the end, which is not part of the range, or None.

    Attributes:
        has_start: the range has a begin.
    """

    def __init__(self, start: int | None, end: int | None) -> None:
        self.has_start = start is not None
        self._start = 0 if start is None else max(start, 0)
        self._end = end
        self._ticks: list[tuple[int, int]] = []  # by code of the clock

    def of_clock(self, clock: Clock) -> tuple[int, int]:
        """Return the first and the last tick of the range; the last is the smaller one if the range has no tick."""
        first = -(-self._start * clock.ticks_per_second // NS_PER_SECOND)
        behind = _MAX_TICK + 1 if self._end is None else -(-max(self._end, 0) * clock.ticks_per_second // NS_PER_SECOND)
        if first > _MAX_TICK or behind <= 0:
            return 1, 0
        return first, min(behind - 1, _MAX_TICK)

    def of_codes(self, clocks: list[Clock], codes: Array) -> Array:
        """Return the first and the last tick of the range by each clock (uint64, shape (2, codes))."""
        self._ticks += map(self.of_clock, clocks[len(self._ticks) :])
        ticks: Array = np.array(self._ticks, np.uint64).T.take(codes, axis=1)
        return ticks


class Choice:
    """The threads, categories and names that are selected.

    Args:
        selection: the selection.
        processes: names of processes by koid.
        threads: names of threads by koid.

    Attributes:
        by_name: categories or names are restricted.
        by_thread: threads or processes are restricted.
        nameless: records without a category and a name are selected.
        category: tells whether a category is selected; None is one that is not known.
        name: tells the same of a name.
        thread: tells the same of a thread.
    """

    def __init__(self, selection: Selection, processes: dict[int, str], threads: dict[int, str]) -> None:
        def has_thread(thread: Thread | None) -> bool:
            if thread is None:
                return is_selected(selection.processes, None) and is_selected(selection.threads, None)
            number = thread.thread
            if not selection.has_process(processes.get(thread.process), thread.process):
                return False
            return number is None or selection.has_thread(threads.get(number), number)

        self.by_name = bool(selection.categories or selection.names)
        self.by_thread = bool(selection.threads or selection.processes)
        self.category = lru_cache(_MAX_CACHED)(lambda text: is_selected(selection.categories, text))
        self.name = lru_cache(_MAX_CACHED)(lambda text: is_selected(selection.names, text))
        self.thread = lru_cache(_MAX_CACHED)(has_thread)
        self.nameless = self.category(None) and self.name(None)


class Marked:
    """A batch, and which of its records are written.  Arrays have a row for each record of the batch.

    Args:
        batch: the batch.
        limits: the range.
        choice: what is selected.

    Attributes:
        batch: the batch.
        choice: what is selected.
        taken: the records that are taken over (bool); at first none.
        timed: the records that have a time (bool).
        ticks: their times (uint64).
        first: the first tick of the range by the clock of each (uint64).
        last: the last tick of the range.
        within: whether each record is in the range (bool).
        before: whether it is before the range (bool).
        points: whether it is in the range, if it belongs to another record (bool): those at the first tick are not,
            since what they belong to may end there.
    """

    def __init__(self, batch: Batch, limits: Limits, choice: Choice) -> None:
        self.batch, self.choice = batch, choice
        self.taken = np.zeros(len(batch), bool)
        self._are: dict[Classes, Array] = {}
        self.timed, self.ticks = self.are(TIMED), self._field(TIMED, "timestamp")
        rows = np.flatnonzero(self.timed)
        self._clocks = np.zeros(len(batch), np.uint16)
        self._clocks[rows] = batch.clock_codes(self.ticks[rows], rows)
        self.first, self.last = limits.of_codes(batch.reading.clocks, self._clocks)
        is_early = self.ticks < self.first
        self.before = self.timed & is_early & limits.has_start
        self.within = self.timed & ~is_early & (self.ticks <= self.last)
        self.points = self.within & (self.ticks > self.first) if limits.has_start else self.within

    def present(self, classes: Classes) -> list[type[Record]]:
        """Return those of some classes that occur."""
        return [cls for cls in self.batch.classes() if cls in classes]

    def are(self, classes: Classes) -> Array:
        """Return which records are of some classes, and not too short for their content (bool); not to be changed."""
        if classes not in self._are:
            result = self._are[classes] = np.zeros(len(self.batch), bool)
            for cls in self.present(classes):
                result[self.batch.columns(cls)[0]] = True
        return self._are[classes]

    def _field(self, classes: Classes, *names: str) -> Array:
        """Return a field of the records of some classes that have it, by the first of these names (uint64)."""
        array = np.zeros(len(self.batch), np.uint64)
        for cls in self.present(classes):
            rows, columns = self.batch.columns(cls)
            for name in names:
                if name in columns:
                    array[rows] = columns[name]
        return array

    @cached_property
    def tails(self) -> Array:
        """What events have after their arguments, an end or an id (uint64)."""
        return self._field(_NAMED, "end", "id")

    @cached_property
    def threads(self) -> Array:
        """The codes of the threads of records (int32), -1 for one that is not defined, and without one."""
        return self._codes(_THREADED, "thread", self.batch.thread_codes)

    @cached_property
    def categories(self) -> Array:
        """The codes of the categories of records that have a name (int32), likewise."""
        return self._codes(_NAMED, "category", self.batch.string_codes)

    @cached_property
    def names(self) -> Array:
        """The codes of the names of records that have a category (int32), likewise."""
        return self._codes(_NAMED, "name", self.batch.string_codes)

    def _codes(self, classes: Classes, name: str, resolve: Callable[[Any, Array], Array]) -> Array:
        codes = np.full(len(self.batch), -1, np.int32)
        for cls in self.present(classes):
            rows, columns = self.batch.columns(cls)
            codes[rows] = resolve(columns[name], rows)
        return codes

    @cached_property
    def chosen_threads(self) -> Array:
        """Whether the thread of each record is selected, or it has none (bool)."""
        if not self.choice.by_thread:
            return np.ones(len(self.batch), bool)
        return ~self.are(_THREADED) | _chosen(self.choice.thread, self.threads, self.batch.threads.values)

    @cached_property
    def chosen(self) -> Array:
        """Whether each record is selected (bool)."""
        choice, texts = self.choice, self.batch.strings.values
        if not choice.by_name:
            return self.chosen_threads
        named = _chosen(choice.category, self.categories, texts) & _chosen(choice.name, self.names, texts)
        chosen: Array = self.chosen_threads & np.where(self.are(_NAMED), named, choice.nameless)
        return chosen

    def koids(self, rows: Array) -> Array:
        """Return the process and the thread koids of some records (uint64, shape (records, 2))."""
        codes = self.threads[rows]  # some threads are new
        return self.batch.threads.koids().take(codes, axis=0, mode="wrap")

    def nanoseconds(self, ticks: Array, rows: Array) -> Array:
        """Return ticks of some records in nanoseconds (uint64)."""
        return times_of(self.batch.reading.clocks, self._clocks[rows], ticks).view(np.uint64)

    def move(self, cls: type[Record], field: int, rows: Array, ticks: Array) -> None:
        """Replace the ticks of some records of a class.

        Args:
            cls: the class.
            field: which of its fields with ticks: 0 or 1.
            rows: the numbers of the records in the batch.
            ticks: the new tick of each record (uint64).
        """
        if len(rows):
            frame = self.batch.frame
            places = tick_places(cls, frame.block, frame.at[rows], frame.size[rows])
            set_ticks(self.batch, [*places.values()][field], ticks)


def _chosen(is_chosen: Callable[[Any], bool], codes: Array, values: Sequence[Any]) -> Array:
    """Return for each code whether what it means is selected (bool)."""
    number, first = number_distinct(codes)
    chosen = [is_chosen(values[code] if code >= 0 else None) for code in codes[first].tolist()]
    return np.array(chosen, bool)[number]
