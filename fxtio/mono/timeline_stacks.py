"""The stacks of samples and allocations as numbers of a timeline, level by level for all rows of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from fxtio.mono.state import numbered
from fxtio.table import Categories, Column, Optional, Table
from fxtio.timeline.parts import Registry
from fxtio.timeline.stacks import Stacks

Array = np.ndarray[Any, Any]


class StackColumns:
    """The frames and stacks of a recording.

    Args:
        registry: has the names.
    """

    def __init__(self, registry: Registry) -> None:
        self._names = registry.names
        self._stacks = Stacks(registry)
        self._class_of: dict[int, int] = {-1: -1}

    def new_tables(self) -> dict[str, dict[str, Column]]:
        """Return the rows of the tables `frames` and `stacks` that were added since the last call."""
        return self._stacks.new_tables()

    def classes(self, methods: Array) -> Array:
        """Return the codes of the classes of methods, given by the codes of their names; -1 where there is none."""
        distinct, place = np.unique(methods, return_inverse=True)
        class_of = self._class_of
        for code in distinct.tolist():
            if code not in class_of:
                name, colon, _ = self._names.values[code].partition(":")
                class_of[code] = self._names.code(name) if colon else -1
        return np.array([class_of[code] for code in distinct.tolist()], np.int32)[place]

    def address_codes(self, addresses: Array) -> Array:
        """Return the codes of the names of methods whose address is all that is known."""
        codes, first = numbered(np.ascontiguousarray(addresses))
        return np.array([self._names.code(f"<{address:x}>") for address in addresses[first].tolist()], np.int32)[codes]

    def of_samples(self, tables: dict[str, Table]) -> Array:
        """Return the stack of each sample (int64), -1 for none.

        The frames are methods; where a sample has none, they are addresses of native code.
        """
        samples = tables["samples"]
        addresses = self._of_frames(tables["sample_addresses"], samples["addresses"], "address", innermost_first=True)
        located = self._of_frames(
            tables["sample_located_frames"], samples["located_frames"], "method", innermost_first=True
        )
        methods = self._of_frames(tables["sample_frames"], samples["frames"], "method", innermost_first=True)
        return np.where(methods >= 0, methods, np.where(located >= 0, located, addresses))

    def of_allocations(self, tables: dict[str, Table]) -> Array:
        """Return the stack of each allocation (int64), -1 for none."""
        counts = tables["allocations"]["backtrace"]
        return self._of_frames(tables["allocation_frames"], counts, "method", innermost_first=False)

    def _of_frames(self, table: Table, counts: Array | Optional, column: str, *, innermost_first: bool) -> Array:
        """Return the stack of each row (int64), from the frames of all rows one after the other."""
        count = counts.values if isinstance(counts, Optional) else counts
        stacks = np.full(len(count), -1, np.int64)
        frames = self._frames(table, column)
        end = np.cumsum(count)
        rows = np.flatnonzero(count)
        level = 0
        while len(rows):
            place = end[rows] - 1 - level if innermost_first else end[rows] - count[rows] + level
            stacks[rows] = self._stacks.each_on(stacks[rows], frames[place])
            level += 1
            rows = rows[count[rows] > level]
        return stacks

    def _frames(self, table: Table, column: str) -> Array:
        """Return the number of the frame of each row of a table of frames (int64)."""
        addresses = table[column]
        names = np.full(len(addresses), -1, np.int32)
        if "method_name" in table:
            column_of_names: Categories = table["method_name"]
            names = self._names.codes(column_of_names)
        unknown = np.flatnonzero(names < 0)
        if len(unknown):
            names = names.copy()
            names[unknown] = self.address_codes(addresses[unknown])
        return self._stacks.frames_of_slices(names, self.classes(names))
