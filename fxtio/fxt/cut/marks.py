"""Marks on a batch: where its records lie relative to the range, which are selected, and which are written."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

import numpy as np

from fxtio.codec.parts import Number
from fxtio.codec.record import Record, layout_of
from fxtio.codec.strings import DistinctStrings
from fxtio.fxt.records import Thread
from fxtio.fxt.rewrite import set_ticks
from fxtio.fxt.rules.view import Keys, View
from fxtio.fxt.state import NS_PER_SECOND, Batch, Clock, Threads
from fxtio.selection import Selection, is_selected

Array = np.ndarray[Any, Any]

MAX_TICK = (1 << 64) - 1


class Limits:
    """The range in the ticks of every clock.

    Args:
        start: the begin in nanoseconds, or None.
        end: the end, which is not part of the range, or None.

    Attributes:
        has_start: the range has a begin.
    """

    def __init__(self, start: int | None, end: int | None) -> None:
        self.has_start = start is not None
        self._start = 0 if start is None else max(start, 0)
        self._end = end
        self._first: list[int] = []
        self._last: list[int] = []

    def enter(self, clocks: list[Clock]) -> None:
        """Take the clocks of a reading; new ones are at the end."""
        for clock in clocks[len(self._first) :]:
            first, last = self.of_clock(clock)
            self._first.append(first)
            self._last.append(last)

    def of_clock(self, clock: Clock) -> tuple[int, int]:
        """Return the first and the last tick of the range; the last is the smaller one if the range has no tick."""
        first = -(-self._start * clock.ticks_per_second // NS_PER_SECOND)
        behind = MAX_TICK + 1 if self._end is None else -(-max(self._end, 0) * clock.ticks_per_second // NS_PER_SECOND)
        if first > MAX_TICK or behind <= 0:
            return 1, 0
        return first, min(behind - 1, MAX_TICK)

    def of_rows(self, batch: Batch, ticks: Array, rows: Array) -> tuple[Any, Any]:
        """Return the first and the last tick of the range by the clock of each record (uint64, one or per record)."""
        codes = batch.clock_codes(ticks, rows)
        only = batch.only_clock
        if only is not None:
            return np.uint64(self._first[only]), np.uint64(self._last[only])
        return np.array(self._first, np.uint64)[codes], np.array(self._last, np.uint64)[codes]


@cache
def _begins_with_time(cls: type[Record]) -> bool:
    """Return whether the first field behind the header of a class is its time."""
    parts = layout_of(cls).parts
    return bool(parts) and isinstance(parts[0][1], Number) and parts[0][1].tick


def is_behind(batch: Batch, limits: Limits, classes: Collection[type[Record]]) -> bool:
    """Return whether a batch has no records but some behind the range, and some of these classes.

    Only the times are read, so it costs little.
    """
    if (batch.frame.kind < 0).any():
        return False
    limits.enter(batch.reading.clocks)
    words = batch.frame.block.words
    for cls in batch.classes():
        if cls in classes:
            continue
        if not _begins_with_time(cls):
            return False
        rows = batch.rows(cls)
        ticks = words[np.minimum(batch.frame.at[rows] + len(cls.words), len(words) - 1)]
        if not (ticks > limits.of_rows(batch, ticks, rows)[1]).all():
            return False
    return True


class Choice:
    """The threads, categories and names that are selected.

    Args:
        selection: the selection.
        processes: names of processes by koid.
        threads: names of threads by koid.

    Attributes:
        is_all: nothing is restricted.
        by_name: categories or names are restricted.
        nameless: records without a category and a name are selected.
    """

    def __init__(self, selection: Selection, processes: dict[int, str], threads: dict[int, str]) -> None:
        self._selection = selection
        self._processes, self._threads = processes, threads
        self.by_name = bool(selection.categories or selection.names)
        self.is_all = not (self.by_name or selection.threads or selection.processes)
        self.nameless = is_selected(selection.categories, None) and is_selected(selection.names, None)
        self._list: Threads | None = None
        self._strings: DistinctStrings | None = None
        self._chosen_threads: Array = np.ones(1, bool)
        self._chosen: dict[str, Array] = {}

    def threads(self, view: View, cls: type[Record]) -> Array:
        """Return whether the thread of each record of a class is selected (bool)."""
        codes = view.threads(cls, "thread")
        threads = view.batch.threads
        have = len(self._chosen_threads) - 1 if threads is self._list else 0
        if have < len(threads.values) or threads is not self._list:
            fresh = [self._has(thread) for thread in threads.values[have:]]
            undefined = is_selected(self._selection.processes, None) and is_selected(self._selection.threads, None)
            self._chosen_threads = np.array([*self._chosen_threads[:have].tolist(), *fresh, undefined], bool)
            self._list = threads
        return self._chosen_threads[codes]

    def _has(self, thread: Thread) -> bool:
        process, number = thread.process, thread.thread
        if not self._selection.has_process(self._processes.get(process), process):
            return False
        return number is None or self._selection.has_thread(self._threads.get(number), number)

    def names(self, view: View, cls: type[Record]) -> Array:
        """Return whether the category and the name of each record of a class are selected (bool)."""
        strings = view.batch.strings
        categories, names = view.codes(cls, "category"), view.codes(cls, "name")
        if strings is not self._strings:
            self._strings, self._chosen = strings, {}
        chosen = np.ones(len(names), bool)
        for what, patterns, codes in (
            ("category", self._selection.categories, categories),
            ("name", self._selection.names, names),
        ):
            if patterns:
                table = self._chosen.get(what, np.ones(1, bool))
                have = len(table) - 1
                if have < len(strings.values):
                    fresh = [is_selected(patterns, text) for text in strings.values[have:]]
                    table = np.array([*table[:have].tolist(), *fresh, is_selected(patterns, None)], bool)
                    self._chosen[what] = table
                chosen &= table[codes]
        return chosen


class Times:
    """The times of the records of a class.

    Args:
        rows: the numbers of the records in the batch (int64).
        ticks: their times (uint64).
        first: the first tick of the range, one or per record (uint64).
        last: its last tick.

    Attributes:
        rows, ticks, first, last: the arguments.
        before: whether each record is before the range (bool).
        within: whether each record is in the range (bool).
        has_before: some are before the range.
        has_behind: some are behind it.
    """

    def __init__(self, rows: Array, ticks: Array, first: Any, last: Any) -> None:
        self.rows, self.ticks, self.first, self.last = rows, ticks, first, last
        if np.ndim(first):
            self.before, behind = ticks < first, ticks > last
            self.has_before, self.has_behind = bool(self.before.any()), bool(behind.any())
        else:  # mostly all records of a batch are on the same side
            self.has_before = bool(ticks.min(initial=MAX_TICK) < first)
            self.has_behind = bool(ticks.max(initial=0) > last)
            self.before = ticks < first if self.has_before else np.zeros(len(ticks), bool)
            behind = ticks > last if self.has_behind else np.zeros(len(ticks), bool)
        self.within = ~(self.before | behind)


class Marked:
    """A batch, and which of its records are written.

    Args:
        batch: the batch.
        keys: stands for texts in all batches.
        limits: the range.
        choice: what is selected.

    Attributes:
        batch: the batch.
        view: the batch as rules see it.
        choice: what is selected.
        has_start: the range has a begin.
        taken: the records that are taken over (bool); at first none.
    """

    def __init__(self, batch: Batch, keys: Keys, limits: Limits, choice: Choice) -> None:
        self.batch = batch
        self.view = View(batch, keys)
        self.choice = choice
        self.limits = limits
        self.has_start = limits.has_start
        self.taken = np.zeros(len(batch), bool)
        self._times: dict[type[Record], Times] = {}
        limits.enter(batch.reading.clocks)

    def times(self, cls: type[Record]) -> Times:
        """Return the times of the records of a class."""
        if cls not in self._times:
            rows, columns = self.batch.columns(cls)
            ticks = columns["timestamp"]
            self._times[cls] = Times(rows, ticks, *self.limits.of_rows(self.batch, ticks, rows))
        return self._times[cls]

    def nanoseconds(self, cls: type[Record], ticks: Array) -> Array:
        """Return ticks of all records of a class in nanoseconds (uint64)."""
        only = self.batch.only_clock
        if only is None:
            return self.batch.times(ticks, self.times(cls).rows).view(np.uint64)
        return self.batch.reading.clocks[only].to_ns(ticks).view(np.uint64)

    def points(self, cls: type[Record]) -> Array:
        """Return which records of a class that belong to another one are in the range (bool).

        Those at its first tick are not, since what they belong to may end there.
        """
        times = self.times(cls)
        points: Array = times.within & (times.ticks > times.first) if self.has_start else times.within
        return points

    def chosen(self, cls: type[Record], *, by_name: bool = True) -> Any:
        """Return which records of a class are selected by thread, and on request by category and name (bool).

        If nothing is restricted, it is one value for all.
        """
        if self.choice.is_all:
            return np.True_
        rows, columns = self.batch.columns(cls)
        chosen = self.choice.threads(self.view, cls) if "thread" in columns else np.ones(len(rows), bool)
        if by_name and self.choice.by_name:
            if "category" in columns:
                chosen = chosen & self.choice.names(self.view, cls)
            elif not self.choice.nameless:
                chosen = np.zeros(len(rows), bool)
        return chosen

    def processes(self, cls: type[Record]) -> Array:
        """Return the process koid of each record of a class (uint64)."""
        codes = self.view.threads(cls, "thread")  # some threads are new
        processes: Array = self.batch.threads.koids()[:, 0].take(codes)
        return processes

    def in_order(self, classes: Collection[type[Record]]) -> tuple[Array, list[Array]]:
        """Return the numbers of the records of several classes in order, and the places of each class in this list.

        Returns:
            The numbers (int64, ascending), and for each class the indices (int64, ascending).
        """
        has = np.zeros(len(self.batch), bool)
        for cls in classes:
            has[self.batch.columns(cls)[0]] = True
        rows = np.flatnonzero(has)
        index = np.empty(len(has), np.int64)
        index[rows] = np.arange(len(rows))
        return rows, [index.take(self.batch.columns(cls)[0]) for cls in classes]

    def take(self, rows: Array) -> None:
        """Let records be taken over."""
        self.taken[rows] = True

    def move(self, cls: type[Record], field: int, rows: Array, ticks: Array) -> None:
        """Replace the ticks of some records of a class.

        Args:
            cls: the class.
            field: which of its fields with ticks: 0 or 1.
            rows: the numbers of the records in the batch (ascending).
            ticks: the new ticks (uint64).
        """
        if len(rows):
            all_rows, at = self.batch.ticks(cls)[field]
            set_ticks(self.batch, at[np.searchsorted(all_rows, rows)], ticks)
