"""Marks on a batch: where its records lie relative to the range, which are selected, and which are written."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, cached_property
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.columns import tick_places
from fxtio.codec.parts import Number
from fxtio.codec.record import Record, layout_of
from fxtio.codec.strings import DistinctStrings
from fxtio.fxt.cut.fields import NAMED, THREADED, TIMED, Classes, Fields
from fxtio.fxt.plain import PlainReader
from fxtio.fxt.records import Thread
from fxtio.fxt.rewrite import set_ticks
from fxtio.fxt.state import NS_PER_SECOND, Batch, Clock, Threads
from fxtio.selection import Selection, is_selected

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
        by_thread: threads or processes are restricted.
        nameless: records without a category and a name are selected.
    """

    def __init__(self, selection: Selection, processes: dict[int, str], threads: dict[int, str]) -> None:
        self._selection = selection
        self._processes, self._threads = processes, threads
        self.by_name = bool(selection.categories or selection.names)
        self.by_thread = bool(selection.threads or selection.processes)
        self.is_all = not (self.by_name or self.by_thread)
        self.nameless = is_selected(selection.categories, None) and is_selected(selection.names, None)
        self._list: Threads | None = None
        self._strings: DistinctStrings | None = None
        self._chosen_threads: Array = np.ones(1, bool)
        self._chosen: dict[str, Array] = {}

    def threads(self, threads: Threads, codes: Array) -> Array:
        """Return whether threads are selected (bool).

        Args:
            threads: the threads that the codes mean.
            codes: the codes, -1 for one that is not known (int32).
        """
        have = len(self._chosen_threads) - 1 if threads is self._list else 0
        if have < len(threads.values) or threads is not self._list:
            fresh = [self._has(thread) for thread in threads.values[have:]]
            undefined = is_selected(self._selection.processes, None) and is_selected(self._selection.threads, None)
            self._chosen_threads = np.array([*self._chosen_threads[:have].tolist(), *fresh, undefined], bool)
            self._list = threads
        chosen: Array = self._chosen_threads.take(codes)
        return chosen

    def _has(self, thread: Thread) -> bool:
        process, number = thread.process, thread.thread
        if not self._selection.has_process(self._processes.get(process), process):
            return False
        return number is None or self._selection.has_thread(self._threads.get(number), number)

    def names(self, strings: DistinctStrings, categories: Array, names: Array) -> Array:
        """Return whether events with these categories and names are selected (bool).

        Args:
            strings: the strings that the codes mean.
            categories: the codes of the categories, -1 for one that is not known (int32).
            names: the codes of the names.
        """
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
                chosen &= table.take(codes)
        return chosen


class Marked:
    """A batch, and which of its records are written.  Arrays have a row for each record of the batch.

    Args:
        batch: the batch.
        reader: reads plain events.
        limits: the range.
        choice: what is selected.

    Attributes:
        batch: the batch.
        fields: the fields of its records.
        choice: what is selected.
        has_start: the range has a begin.
        taken: the records that are taken over (bool); at first none.
        ticks: the times of the records, 0 for those without one (uint64).
        first: the first tick of the range, one for all or for each record (uint64).
        last: its last tick.
        within: whether each record is in the range (bool).
        before: whether it is before the range (bool).
        has_before: some are before the range.
        has_behind: some are behind it.
    """

    def __init__(self, batch: Batch, reader: PlainReader, limits: Limits, choice: Choice) -> None:
        self.batch, self.choice = batch, choice
        self.fields = Fields(batch, reader)
        self.has_start = limits.has_start
        self.taken = np.zeros(len(batch), bool)
        limits.enter(batch.reading.clocks)
        is_timed = self.fields.are(TIMED)
        self.ticks = self.fields.ticks()
        self.first: Any
        self.last: Any
        self.first, self.last = self._range(limits, is_timed)
        self.before = is_timed & (self.ticks < self.first)
        behind = self.ticks > self.last
        self.within = is_timed & ~(self.before | behind)
        self.has_before, self.has_behind = bool(self.before.any()), bool(behind.any())

    def _range(self, limits: Limits, is_timed: Array) -> tuple[Any, Any]:
        """Return the first and the last tick of the range, one for all records or for each (uint64)."""
        if self.batch.only_clock is not None:
            return limits.of_rows(self.batch, self.ticks, np.arange(len(self.batch)))
        rows = np.flatnonzero(is_timed)
        first, last = np.zeros((2, len(is_timed)), np.uint64)
        first[rows], last[rows] = limits.of_rows(self.batch, self.ticks[rows], rows)
        return first, last

    def nanoseconds(self, ticks: Array, rows: Array) -> Array:
        """Return ticks of some records in nanoseconds (uint64)."""
        only = self.batch.only_clock
        if only is None:
            return self.batch.times(ticks, rows).view(np.uint64)
        return self.batch.reading.clocks[only].to_ns(ticks).view(np.uint64)

    @cached_property
    def points(self) -> Array:
        """Return whether each record is in the range, if it belongs to another record (bool).

        Those at its first tick are not, since what they belong to may end there.
        """
        points: Array = self.within & (self.ticks > self.first) if self.has_start else self.within
        return points

    @cached_property
    def chosen_threads(self) -> Any:
        """Return whether the thread of each record is selected, or it has none (bool); one value if all threads are."""
        if self.choice.is_all:
            return np.True_
        codes = self.fields.threads(THREADED)  # some threads are new
        if not self.choice.by_thread:
            return np.True_
        return self.choice.threads(self.batch.threads, codes) | ~self.fields.are(THREADED)

    @cached_property
    def chosen(self) -> Any:
        """Return whether each record is selected (bool); one value if nothing is restricted."""
        fields, choice = self.fields, self.choice
        if not choice.by_name:
            return self.chosen_threads
        by_thread, is_named = self.chosen_threads, fields.are(NAMED)
        named = choice.names(self.batch.strings, fields.categories(NAMED), fields.names(NAMED))
        return by_thread & (is_named & named | ~is_named & choice.nameless)

    def processes(self, classes: Classes, rows: Array) -> Array:
        """Return the process koids of records of some classes (uint64).

        Args:
            classes: the classes.
            rows: the numbers of the records.
        """
        codes = self.fields.threads(classes)  # some threads are new
        processes: Array = self.batch.threads.koids()[:, 0].take(codes[rows])
        return processes

    def move(self, cls: type[Record], field: int, rows: Array, ticks: Any) -> None:
        """Replace the ticks of some records of a class.

        Args:
            cls: the class.
            field: which of its fields with ticks: 0 or 1.
            rows: the numbers of the records in the batch.
            ticks: the new tick of each record or of all (uint64).
        """
        if len(rows):
            frame = self.batch.frame
            places = tick_places(cls, frame.block, frame.at[rows], frame.size[rows])
            set_ticks(self.batch, [*places.values()][field], np.broadcast_to(ticks, len(rows)))


def values_at(values: Any, rows: Array) -> Any:
    """Return the values of some rows, of an array or of one value for all."""
    return values[rows] if np.ndim(values) else values
