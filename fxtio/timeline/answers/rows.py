"""Rows of a timeline that a selection has, batch by batch: by time, track, category and name; and their groups.

A slice that is only partly within the range of times is cut to it, and its self time is that of the part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import number_rows
from fxtio.selection import Selection
from fxtio.table import MAX_TIME, Table
from fxtio.timeline.answers.answer import Labels, QuestionError, argument_text, text_of
from fxtio.timeline.arguments import Arguments
from fxtio.timeline.parts import OTHER, Registry

if TYPE_CHECKING:
    from fxtio.timeline.timeline import Timeline

_EARLIEST = -MAX_TIME - 1


class Chosen:
    """The rows of a registry's processes, threads and tracks that a selection has.

    Args:
        tables: `processes`, `threads` and `tracks` of a whole reading.
        selection: the selection.
    """

    def __init__(self, tables: Mapping[str, Table], selection: Selection) -> None:
        processes, threads, tracks = (tables[name] for name in ("processes", "threads", "tracks"))
        names, pids = processes["name"].tolist(), processes["pid"].tolist()
        process = np.array([selection.has_process(*each) for each in zip(names, pids, strict=True)], bool)
        names, tids = threads["name"].tolist(), threads["tid"].tolist()
        thread = np.array([selection.has_thread(*each) for each in zip(names, tids, strict=True)], bool)
        thread &= process[threads["process"]] if len(thread) else True
        # The last item stands for -1: rows that belong to no thread or process.
        self.threads = np.append(thread, not selection.threads and not selection.processes)
        process = np.append(process, not selection.processes)
        is_named = np.array([selection.has_thread(name) for name in tracks["name"].tolist()], bool)
        has_thread = tracks["thread"] >= 0
        self.tracks = np.where(has_thread, self.threads[tracks["thread"]], process[tracks["process"]] & is_named)


def chosen(timeline: Timeline, selection: Selection, *names: str) -> Chosen | None:
    """Return what a selection has of a timeline, or None if it restricts neither threads nor processes.

    Names of threads may come after their events, so that this takes a reading.

    Args:
        timeline: the timeline.
        selection: the selection.
        names: the tables that the next reading needs: with the same tables, the rows have the same numbers.
    """
    if not selection.threads and not selection.processes:
        return None
    _, registry = timeline.fold(_Nothing, *names)
    return Chosen(registry.tables(), selection)


class _Nothing:
    def __init__(self, registry: Registry) -> None:
        pass

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take nothing."""


class Texts:
    """The names of a timeline that are accepted; every name is examined once.

    Args:
        values: the names, a list that grows.
        accepts: returns whether a name is accepted.
        null: whether rows without a name are accepted.
    """

    def __init__(self, values: Sequence[str], accepts: Callable[[str], bool], *, null: bool) -> None:
        self._values = values
        self._accepts = accepts
        self._accepted = np.array([null])  # the last item stands for the code -1

    def has(self, codes: Array) -> Array:
        """Return for each code whether its name is accepted (bool)."""
        count = len(self._accepted) - 1
        if count < len(self._values):
            new = np.array([self._accepts(text) for text in self._values[count:]], bool)
            self._accepted = np.concatenate([self._accepted[:-1], new, self._accepted[-1:]])
        return self._accepted[codes]


class Rows:
    """Takes the rows of batches that a selection has.

    Args:
        registry: the registry of the reading.
        selection: the selection.
        chosen: the tracks and threads that it has, None for all.
    """

    def __init__(self, registry: Registry, selection: Selection, chosen: Chosen | None) -> None:
        names = registry.names.values
        self.start = _EARLIEST if selection.start is None else selection.start
        self.end = MAX_TIME if selection.end is None else selection.end
        self._texts = {}
        if selection.names:
            self._texts["name"] = Texts(names, selection.has_name, null=selection.has_name(""))
        if selection.categories:
            self._texts["category"] = Texts(names, selection.has_category, null=selection.has_category(""))
        self._chosen = chosen
        self._inner = Inner(registry) if selection.has_range else None

    def cut(self, slices: Table) -> Table:
        """Return the slices of a batch that overlap the range, cut to it; must see every batch, and only once.

        The self time of a slice that is cut is its rest without the rests of the slices within it.
        """
        if self._inner is None:
            return slices
        rows = cut_to(slices, self.start, self.end)
        rest = np.minimum(rows["self_time"], self._inner.rests(rows))
        return Table({**dict(rows.items()), "self_time": rest})

    def slices(self, slices: Table) -> Table:
        """Return the slices of a batch that are selected, cut to the range; must see every batch, and only once."""
        return self.matching(self.cut(slices))

    def events(self, table: Table) -> Table:
        """Return the selected rows of a table with `time`: instants, logs, samples, allocations."""
        if self._inner is not None:
            table = table.take((table["time"] >= self.start) & (table["time"] < self.end))
        return self.matching(table)

    def intervals(self, table: Table) -> Table:
        """Return the selected rows of a table with `start` and `duration` that do not nest, cut to the range."""
        if self._inner is not None:
            table = cut_to(table, self.start, self.end)
        return self.matching(table)

    def matches(self, table: Table) -> Array | None:
        """Return for each row whether its track or thread, category and name are selected (bool), None if all are."""
        masks = [texts.has(table[column].codes) for column, texts in self._texts.items() if column in table]
        if self._chosen is not None:
            masks.append(self.places(table))
        return np.logical_and.reduce(masks) if masks else None

    def places(self, table: Table) -> Array:
        """Return for each row whether its track or thread is selected (bool)."""
        if self._chosen is None:
            return np.ones(table.num_rows, bool)
        chosen = self._chosen
        result: Array = chosen.tracks[table["track"]] if "track" in table else chosen.threads[table["thread"]]
        return result

    def matching(self, table: Table) -> Table:
        """Return the rows whose track or thread, category and name are selected."""
        mask = self.matches(table)
        return table if mask is None else table.take(mask)


def cut_to(table: Table, start: int, end: int) -> Table:
    """Return the rows of a table that overlap a range of times, with `start` and `duration` cut to it."""
    begins, ends = table["start"], table["start"] + table["duration"]
    within = np.flatnonzero((begins < end) & ((ends > start) | ((begins == ends) & (begins >= start))))
    begins = np.maximum(begins[within], start)
    columns = dict(table.take(within).items())
    return Table({**columns, "start": begins, "duration": np.minimum(ends[within], end) - begins})


class Inner:
    """Sums of values of the slices directly within each slice.

    These come before it, so their sum is kept for each slice that has not come yet.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._ids = np.empty(0, np.int64)
        self._inner = np.empty(0, np.int64)

    def sums(self, rows: Table, values: Array) -> Array:
        """Return the sum of the values of the slices directly within each slice (int64); must see every batch once.

        Args:
            rows: columns `id` and `parent` of slices, in the order of their ids.
            values: the value of each of them (int64).
        """
        # Slices come when they end, so the sum of a slice is complete when it comes itself; until then it waits.
        is_child = rows["parent"] >= 0
        parents = np.concatenate([self._ids, rows["parent"][is_child]])
        ids, place = np.unique(parents, return_inverse=True)
        inner = np.zeros(len(ids), np.int64)
        np.add.at(inner, place, np.concatenate([self._inner, values[is_child]]))
        if len(ids):
            at = np.minimum(np.searchsorted(ids, rows["id"]), len(ids) - 1)
            within = np.where(ids[at] == rows["id"], inner[at], 0)
        else:
            within = np.zeros(rows.num_rows, np.int64)
        wait = np.isin(ids, self._registry.open_slices()["id"])
        self._ids, self._inner = ids[wait], inner[wait]
        return within

    def rests(self, slices: Table) -> Array:
        """Return the time of each slice in which none directly within it runs (int64 ns); must see every batch once.

        Args:
            slices: the slices, in the order of their ids.  One may last longer than the slice around it, of which it
                is known then when it ends: it is in the batch, or among the open slices.
        """
        begin, duration = slices["start"], slices["duration"]
        known = self._registry.open_slices()
        known = known.take(known["duration"] >= 0)
        ids = np.concatenate([slices["id"], known["id"]])
        ends = np.concatenate([begin + duration, known["start"] + known["duration"]])
        # The row after the last id stands for parents that are not known, which limit nothing.
        order = np.argsort(ids)
        ids, ends = np.append(ids[order], -1), np.append(ends[order], MAX_TIME)
        at = np.searchsorted(ids[:-1], slices["parent"])
        limit = np.where(ids[at] == slices["parent"], ends[at], MAX_TIME)
        within = np.maximum(np.minimum(begin + duration, limit) - begin, 0)
        rest: Array = np.maximum(duration - self.sums(slices, within), 0)
        return rest


class SlicesById:
    """The slices of a batch and those that have not ended, by their ids, for rows that refer to slices."""

    def __init__(self, registry: Registry, tables: Mapping[str, Table]) -> None:
        parts = [registry.open_slices(), *([tables["slices"]] if "slices" in tables else [])]
        self._names = registry.names.values
        columns = {name: np.concatenate([part[name] for part in parts]) for name in ("id", "parent")}
        code = np.concatenate([part["name"].codes for part in parts])
        order = np.argsort(columns["id"], kind="stable")
        self._ids, self._parents, self._codes = columns["id"][order], columns["parent"][order], code[order]

    def name_codes(self, ids: Array) -> Array:
        """Return the codes of the names of slices (int64), -1 for an id that is none of these."""
        place = np.searchsorted(self._ids, ids)
        known, codes = np.append(self._ids, -1), np.append(self._codes, -1)
        return np.where((known[place] == ids) & (ids >= 0), codes[place], -1).astype(np.int64)

    def names_around(self, slice_id: int, most: int) -> list[str]:
        """Return the names of a slice and of those around it, the outermost first; this many of the innermost ones."""
        result: list[str] = []
        while slice_id >= 0 and len(result) < most:
            at = int(np.searchsorted(self._ids, slice_id))
            if at >= len(self._ids) or self._ids[at] != slice_id:
                break
            code = int(self._codes[at])
            result.append(self._names[code] if code >= 0 else "")
            slice_id = int(self._parents[at])
        return result[::-1]


ARGUMENT = "arg:"
"""The prefix of the name of an argument by which rows are grouped."""

GROUPINGS = ("name", "category", "thread", "process", "track")
"""The properties by which slices may be grouped, besides the value of an argument."""

MAX_VALUES = 1_000_000
"""The most different values of an argument; all further ones are one group."""


class Groups:
    """Gives each slice the number of its group.

    Args:
        registry: the registry of the reading.
        by: one of `GROUPINGS`, or `arg:` and the name of an argument.

    Raises:
        QuestionError: there is no such grouping.
    """

    def __init__(self, registry: Registry, by: str) -> None:
        self.by = by
        self._registry = registry
        self.arguments: Arguments | None = None
        self._number_of: dict[tuple[int, int, int], int] = {}
        self._values: list[tuple[int, int, int]] = []  # type, bits and code of the text
        if by.startswith(ARGUMENT):
            self._argument = by.removeprefix(ARGUMENT)
            if not self._argument:
                raise QuestionError(f"{by!r} names no argument; write {ARGUMENT}NAME")
            self.arguments = Arguments(registry, accepts=self._is_asked_for)
        elif by not in GROUPINGS:
            raise QuestionError(f"{by!r} is not something to group by; there are {', '.join(GROUPINGS)}, arg:NAME")

    def of(self, slices: Table) -> Array:
        """Return the group of each slice (int64), -1 for those that have none: slices without the argument."""
        if self.arguments is not None:
            return self._values_of(slices)
        track: Array = slices["track"]
        if self.by == "track":
            return track.astype(np.int64)
        rows: Array
        if self.by in ("name", "category"):
            rows = slices[self.by].codes
        else:
            rows = self._registry.track_threads(track) if self.by == "thread" else self._registry.track_processes(track)
        return rows.astype(np.int64) + 1

    def label(self, group: int, labels: Labels) -> str:
        """Return the text for a group."""
        if self.arguments is not None:
            if group >= MAX_VALUES:
                return OTHER
            kind, bits, code = self._values[group]
            return argument_text(kind, bits, text_of(self._registry.names.values, code))
        if self.by in ("name", "category"):
            return text_of(self._registry.names.values, group - 1)
        if self.by == "track":
            return labels.track(group)
        return labels.thread(group - 1) if self.by == "thread" else labels.process(group - 1)

    def _is_asked_for(self, args: Table) -> Array:
        code = self._registry.names.code(self._argument)
        asked: Array = args["name"].codes == code
        return asked

    def _values_of(self, slices: Table) -> Array:
        """Return the number of the value of the argument of each slice; the argument of its end comes first."""
        arguments = self.arguments
        assert arguments is not None
        values = arguments.of(slices["event"], slices["end_event"])
        result: Array = np.full(slices.num_rows, -1, np.int64)
        if len(values):
            columns = [values.kind, values.bits, values.text]
            codes, first = number_rows(columns)
            each = zip(*(column[first].tolist() for column in columns), strict=True)
            result[values.row] = np.array([self._number(value) for value in each], np.int64)[codes]
        return result

    def _number(self, value: tuple[int, int, int]) -> int:
        """Return the number of a value, a new one if it is new."""
        number = self._number_of.get(value)
        if number is None:
            if len(self._values) >= MAX_VALUES:
                return MAX_VALUES
            number = self._number_of[value] = len(self._values)
            self._values.append(value)
        return number
