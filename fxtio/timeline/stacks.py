"""Stacks of frames, each numbered once, and the stacks of slices with the time that was spent in them.

A stack is a frame on top of another stack, so stacks that have the outer frames in common share them.  Trees of calls,
flame graphs and profiles of samples are made from the tables here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.table import Column, Table, numbers_of
from fxtio.timeline.parts import OTHER, PAIR, Registry
from fxtio.timeline.sums import add_by_group

MAX_STACK_DEPTH = 100_000
"""The most frames of a stack; of deeper ones, the innermost frames are cut off."""

MAX_STACKS = 4_000_000
"""The most distinct stacks of a timeline; of further ones, the frames that no other stack has are cut off."""

MAX_FRAMES = 2_000_000
"""The most distinct frames of a timeline; further ones are replaced by `OTHER`."""


class Numbering:
    """Numbers whole numbers in the order in which they are first seen."""

    def __init__(self) -> None:
        self._number_of: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._number_of)

    def numbers(self, keys: Array) -> Array:
        """Return the number of each key (int64 to int64)."""
        distinct, place = np.unique(keys, return_inverse=True)
        number_of = self._number_of
        return np.array([number_of.setdefault(key, len(number_of)) for key in distinct.tolist()], np.int64)[place]

    def keys(self) -> Array:
        """Return all keys in the order of their numbers (int64)."""
        return np.fromiter(self._number_of, np.int64, len(self._number_of))


class Sums:
    """Sums of values by groups of rows that have the same keys; a group is made when its keys are first seen.

    Args:
        keys: the names of the columns of keys: numbers from -1 to 2^32 - 2.
        values: the names of the columns of values.
    """

    def __init__(self, keys: Sequence[str], values: Sequence[str]) -> None:
        self._keys = keys
        self._values = values
        self._numberings = [Numbering() for _ in keys]
        self._sums = np.zeros((len(values), 0), np.int64)

    def add(self, columns: Mapping[str, Any], count: int) -> None:
        """Add rows.

        Args:
            columns: the keys and values; one number stands for all rows.
            count: the number of rows.
        """
        group = np.zeros(count, np.int64)
        for name, numbering in zip(self._keys, self._numberings, strict=True):
            group = numbering.numbers(group * PAIR + np.asarray(columns[name], np.int64) + 1)
        missing = len(self._numberings[-1]) - self._sums.shape[1]
        self._sums = np.concatenate([self._sums, np.zeros((len(self._sums), missing), np.int64)], axis=1)
        for sums, name in zip(self._sums, self._values, strict=True):
            add_by_group(sums, group, np.broadcast_to(np.asarray(columns[name], np.int64), group.shape))

    def table(self) -> Table:
        """Return the keys and sums of all groups, all as int64."""
        columns: dict[str, Column] = {}
        group = np.arange(len(self._numberings[-1]))
        for name, numbering in zip(reversed(self._keys), reversed(self._numberings), strict=True):
            group, key = np.divmod(numbering.keys()[group], PAIR)
            columns[name] = key - 1
        columns = {name: columns[name] for name in self._keys}
        return Table(columns | dict(zip(self._values, self._sums, strict=True)))


class Stacks:
    """The frames and stacks of a timeline, each with a number: its row in the tables `frames` and `stacks`.

    Args:
        registry: numbers the names.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._frame_of: dict[tuple[int, int, int, int, int], int] = {}
        self._frames: list[tuple[int, int, int, int, int]] = []
        self._of_slice: dict[int, int] = {}
        self._stack_of: dict[int, int] = {}
        self._stacks: list[tuple[int, int, int]] = []
        self._passed_on = (0, 0)

    def frame(
        self,
        name: str | None,
        module: str | None = None,
        file: str | None = None,
        line: int = -1,
        address: int = 0,
    ) -> int:
        """Return the number of a frame; the arguments are the columns of the table `frames`."""
        code = self._registry.names.code
        return self._frame((code(name), code(module), code(file), line, address))

    def _frame(self, key: tuple[int, int, int, int, int]) -> int:
        number = self._frame_of.get(key)
        if number is None:
            if len(self._frames) >= MAX_FRAMES:
                self._registry.losses[f"more than {MAX_FRAMES:,} frames; all further ones are shown as one"] += 1
                key = (self._registry.names.code(OTHER), -1, -1, -1, 0)
            number = self._frame_of.setdefault(key, len(self._frames))
            if number == len(self._frames):
                self._frames.append(key)
        return number

    def frames_of_slices(self, names: Array, categories: Array) -> Array:
        """Return the number of a frame for each slice (int64): its function is the name, its module the category.

        Args:
            names: the codes of the names.
            categories: the codes of the categories, -1 for none.
        """
        keys = names.astype(np.int64) * PAIR + categories + 1
        distinct, place = np.unique(keys, return_inverse=True)
        numbers = []
        for key in distinct.tolist():
            number = self._of_slice.get(key)
            if number is None:
                number = self._of_slice[key] = self._frame((key // PAIR, key % PAIR - 1, -1, -1, 0))
            numbers.append(number)
        return np.array(numbers, np.int64)[place]

    def on(self, outer: int, frame: int) -> int:
        """Return the number of the stack that has a frame on top of an outer stack, -1 for none."""
        key = outer * PAIR + frame
        number = self._stack_of.get(key)
        if number is None:
            stacks = self._stacks
            depth = stacks[outer][2] + 1 if outer >= 0 else 0
            if depth >= MAX_STACK_DEPTH or len(stacks) >= MAX_STACKS:
                self._registry.losses["frames of stacks beyond the limits, which are cut off"] += 1
                return outer
            number = self._stack_of[key] = len(stacks)
            stacks.append((outer, frame, depth))
        return number

    def stack(self, frames: Iterable[int]) -> int:
        """Return the number of the stack of these frames, the outermost first; -1 without frames."""
        number = -1
        for frame in frames:
            number = self.on(number, frame)
        return number

    def each_on(self, outer: Array, frames: Array) -> Array:
        """Return the numbers of stacks (int64), see `on`, for arrays of outer stacks and frames."""
        if len(outer) < 16:
            return np.array([self.on(*each) for each in zip(outer.tolist(), frames.tolist(), strict=True)], np.int64)
        distinct, place = np.unique(outer.astype(np.int64) * PAIR + frames, return_inverse=True)
        return np.array([self.on(*divmod(key, PAIR)) for key in distinct.tolist()], np.int64)[place]

    def new_tables(self) -> dict[str, dict[str, Column]]:
        """Return the rows of the tables `frames` and `stacks` that were added since the last call."""
        frames, stacks = self._frames[self._passed_on[0] :], self._stacks[self._passed_on[1] :]
        self._passed_on = (len(self._frames), len(self._stacks))
        tables = {}
        for table, names, rows in (("frames", _FRAME, frames), ("stacks", _STACK, stacks)):
            if rows:
                columns = zip(*rows, strict=True)
                tables[table] = self._registry.columns(table, dict(zip(names, columns, strict=True)))
        return tables


_FRAME = ("name", "module", "file", "line", "address")
_STACK = ("parent", "frame", "depth")


class SliceStacks:
    """The stacks of slices and the time in them; a consumer of `Timeline.fold`.

    The stack of a slice consists of the names of the slices around it and of its own.  A slice whose `parent` is not
    there is the outermost one.

    Args:
        registry: the registry of the reading.
        stacks: numbers frames and stacks.
    """

    TABLES = ("slices",)

    def __init__(self, registry: Registry, stacks: Stacks | None = None) -> None:
        self._registry = registry
        self.stacks = stacks or Stacks(registry)
        self._open = np.empty(0, np.int64), np.empty(0, np.int64)  # ids, in order, and stacks of slices without an end
        self._sums = Sums(("track", "stack"), ("self_time", "duration", "count"))

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the slices of a batch that have ended."""
        if "slices" not in tables:
            return
        ended, count = tables["slices"], tables["slices"].num_rows
        both = (ended, self._registry.open_slices())  # the slices around those that have ended are among both
        rows = {name: np.concatenate([numbers_of(table[name]) for table in both]) for name in _NEEDED}
        stacks = self._stacks_of(rows)
        self._open = rows["id"][count:], stacks[count:]
        values = {name: ended[name] for name in ("track", "self_time", "duration")}
        self._sums.add({**values, "stack": stacks[:count], "count": 1}, count)

    def _stacks_of(self, rows: Mapping[str, Array]) -> Array:
        """Return the stack of each row (int64)."""
        ids, parents, depth = rows["id"], rows["parent"], rows["depth"]
        stacks = _found(ids, self._open[0], self._open[1], -1)
        order = np.argsort(ids)
        place = _found(parents, ids[order], order, -1)  # the row of the parent
        outer = _found(parents, self._open[0], self._open[1], -1)  # or its stack, if it has ended in this batch
        frames = self.stacks.frames_of_slices(rows["name"], rows["category"])
        new = np.flatnonzero(stacks < 0)
        new = new[np.argsort(depth[new], kind="stable")]
        for level in np.split(new, np.flatnonzero(np.diff(depth[new])) + 1):
            if len(level):
                within = place[level]
                around = np.where(within >= 0, stacks[within], outer[level])
                stacks[level] = self.stacks.each_on(around, frames[level])
        return stacks

    def table(self) -> Table:
        """Return a row for each stack on each track.

        Returns:
            The columns `track`, `stack`, `self_time`, `duration` (the sums of those of its slices, in ns) and `count`
            (the number of its slices), all int64.
        """
        return self._sums.table()


_NEEDED = ("id", "parent", "depth", "name", "category", "track")


def _found(keys: Array, known: Array, values: Array, default: int) -> Array:
    """Return for each key the value of the same key among known ones, which are in order."""
    if not len(known):
        return np.full(len(keys), default, np.int64)
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[place] == keys, values[place], default)
