"""Stacks of frames, each numbered once, and the stacks of slices with the time that was spent in them.

A stack is a frame on top of another stack, so stacks that have the outer frames in common share them.  Trees of calls,
flame graphs and profiles of samples are made from the tables here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from fxtio.arrays import Array
from fxtio.table import Column, GrowingTable, Table
from fxtio.timeline.parts import OTHER, PAIR, Registry
from fxtio.timeline.schema import empty_columns
from fxtio.timeline.sums import Sums

MAX_STACK_DEPTH = 100_000
"""The most frames of a stack; of deeper ones, the innermost frames are cut off."""

MAX_STACKS = 4_000_000
"""The most distinct stacks of a timeline; of further ones, the frames that no other stack has are cut off."""

MAX_FRAMES = 2_000_000
"""The most distinct frames of a timeline; further ones are replaced by `OTHER`."""


class Stacks:
    """The frames and stacks of a timeline, each with a number: its row in the tables `frames` and `stacks`."""

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
        for table, rows in (("frames", frames), ("stacks", stacks)):
            if rows:
                tables[table] = self._registry.columns_of_rows(table, rows)
        return tables


Below = Callable[[Array, Array, int], Array]
"""Returns the nodes of slices of one depth, from their keys, the nodes around them, and the depth."""


class SliceNodes:
    """Gives each slice of a reading a node of a tree, below that of the slice around it, which may be of another batch.

    Args:
        below: returns the nodes of new slices; the node around the outermost ones is -1.
    """

    def __init__(self, below: Below) -> None:
        self._below = below
        self._open = np.empty(0, np.int64), np.empty(0, np.int64)  # ids, in order, and nodes of slices without an end

    def of(self, ended: Table, opened: Table, keys: Array) -> Array:
        """Return the node of each slice that ended in a batch, and then of each open one (int64).

        Args:
            ended: the slices that ended.
            opened: the open ones, in the order of their ids.
            keys: what tells the nodes within one node from each other, for all of these slices.
        """
        ids, parents, depth = (np.concatenate([ended[name], opened[name]]) for name in ("id", "parent", "depth"))
        nodes = _found(ids, *self._open, _NEW)
        order = np.argsort(ids)
        place = _found(parents, ids[order], order, -1)  # the row of the slice around each slice
        outer = _found(parents, *self._open, -1)  # or the node of that slice, if it is not in this batch
        new = np.flatnonzero(nodes == _NEW)
        new = new[np.argsort(depth[new], kind="stable")]
        for level in np.split(new, np.flatnonzero(np.diff(depth[new])) + 1):
            if len(level):
                within = place[level]
                around = np.where(within >= 0, nodes[within], outer[level])
                nodes[level] = self._below(keys[level], around, int(depth[level[0]]))
        self._open = ids[ended.num_rows :], nodes[ended.num_rows :]
        return nodes


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
        self._nodes = SliceNodes(lambda frames, around, _: self.stacks.each_on(around, frames))
        self._sums = Sums(("track", "stack"), ("self_time", "duration", "count"))

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the slices of a batch that have ended."""
        if "slices" not in tables:
            return
        ended, opened, count = tables["slices"], self._registry.open_slices(), tables["slices"].num_rows
        texts = (np.concatenate([ended[name].codes, opened[name].codes]) for name in ("name", "category"))
        stacks = self._nodes.of(ended, opened, self.stacks.frames_of_slices(*texts))[:count]
        values = {name: ended[name] for name in ("track", "self_time", "duration")}
        self._sums.add({**values, "stack": stacks, "count": 1}, count)

    def table(self) -> Table:
        """Return a row for each stack on each track.

        Returns:
            The columns `track`, `stack`, `self_time`, `duration` (the sums of those of its slices, in ns) and `count`
            (the number of its slices), all int64.
        """
        return self._sums.table()


_NEW = -3
"""In place of the node of a slice that has none yet."""


def _found(keys: Array, known: Array, values: Array, default: int) -> Array:
    """Return for each key the value of the same key among known ones, which are in order."""
    if not len(known):
        return np.full(len(keys), default, np.int64)
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[place] == keys, values[place], default)


class WholeTables:
    """Whole tables, of which only some columns are kept; a consumer of `Timeline.fold`.

    Args:
        keep: the columns to keep of each table, None for all.
    """

    def __init__(self, keep: Mapping[str, tuple[str, ...] | None]) -> None:
        self._keep = keep
        self._growing: dict[str, GrowingTable] = {}

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the rows of a batch."""
        for name, table in tables.items():
            if name in self._keep:
                columns = self._keep[name] or table.column_names
                growing = self._growing.setdefault(name, GrowingTable())
                growing.append({column: table[column] for column in columns})

    def table(self, name: str) -> Table:
        """Return all rows of a table."""
        if name in self._growing:
            return Table(self._growing[name].columns())
        columns: dict[str, Column] = empty_columns(name)
        return Table({column: columns[column] for column in self._keep[name] or columns})
