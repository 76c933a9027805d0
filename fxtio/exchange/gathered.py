"""The content of whole profiles, gathered from a timeline: samples, allocations and slices with their frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from fxtio.table import Column, GrowingTable, Table, numbers_of
from fxtio.timeline.answers.places import Place, Places, place_of
from fxtio.timeline.losses import count_lost
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import empty_columns

OTHER_TABLES = {
    "args": "arguments",
    "instants": "instants",
    "flow_points": "points of flows",
    "counters": "values of counters",
    "logs": "messages",
    "scheduling": "intervals in which a thread ran on a processor",
    "wakeups": "wakeups of threads",
}
"""The tables beside those of stacks, and phrases for their rows."""

STACKED = ("slices", "samples", "allocations", "stacks", "frames", *OTHER_TABLES)
"""The tables that an exporter of stacks needs; most of them only to count what is lost."""


class Gathered:
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


class FramePlaces:
    """The files and lines at which the functions of slices are defined, for formats whose frames have them.

    Args:
        registry: the registry of the reading.
        losses: the losses of the exporter, in which the arguments that become places do not count.
    """

    def __init__(self, registry: Registry, losses: Counter[str]) -> None:
        self._places = Places(registry)
        self._losses = losses
        self._found: dict[str, Place] | None = None

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the rows of a batch."""
        self._places.enter(tables)
        if "slices" in tables:
            self._losses[OTHER_TABLES["args"]] -= self._places.note(tables["slices"])
        self._places.leave(tables)

    def with_place(self, frame: Mapping[str, Any]) -> dict[str, Any]:
        """Return the frame of a slice, a row of the table `frames`, with the file and the line of its function."""
        if self._found is None:
            self._found = self._places.found()
            self._losses[OTHER_TABLES["args"]] += self._places.loose_parts
        place = place_of(frame["name"], self._found)
        return {**frame} if place is None else {**frame, "file": place.file, "line": place.line}


def count_lost_beside_stacks(losses: Counter[str], tables: Mapping[str, Table], *columns: str) -> None:
    """Count what formats of stacks do not have.

    Args:
        losses: counts it.
        tables: the rows of a batch.
        columns: columns that the format does not have, as `table.column`; rows with a value in them are counted.
    """
    count_lost(losses, tables, OTHER_TABLES)
    for column in columns:
        table, _, name = column.partition(".")
        if table in tables:
            values = tables[table][name]
            phrase, nothing = _COLUMNS[column]
            count = int(np.count_nonzero(numbers_of(values) != nothing))
            if count:
                losses[phrase] += count


_COLUMNS = {
    "slices.id": ("slices, of which only sums by stack are left", -1),
    "slices.category": ("categories of slices", -1),
    "samples.time": ("times of samples", 0),
    "samples.thread": ("threads of samples", -1),
    "samples.cpu": ("processors of samples", -1),
    "allocations.time": ("times of allocations", 0),
    "allocations.thread": ("threads of allocations", -1),
    "allocations.type": ("classes of allocated objects", -1),
    "frames.module": ("modules of frames", -1),
    "frames.address": ("addresses of frames", 0),
}
"""For columns a phrase, and the value of rows without one."""
