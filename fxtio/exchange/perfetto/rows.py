"""The rows that packets of a Perfetto trace add to a timeline, collected until they make a part of it.

The number of an event begins with the number of its packet, so rows can be added in any order.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.table import Column
from fxtio.timeline.parts import STEP_COLUMNS, Registry, Steps, TimelinePart
from fxtio.timeline.schema import number_types
from fxtio.timeline.stacks import Stacks

PER_PACKET = 1 << 20
"""The numbers of events that a packet has."""

MANY = 1 << 16
"""The most rows of a table that are not turned into columns yet."""

_STEP = ("step", "track", "time", "end", "name", "category", "event", "id", "detail", "key")


class Rows:
    """Steps and rows of tables.

    Args:
        registry: has the names.
        tables: the tables that are asked for.

    Attributes:
        stacks: the stacks of samples.
    """

    def __init__(self, registry: Registry, tables: Set[str]) -> None:
        self.stacks = Stacks(registry)
        self._registry = registry
        self._tables = tables
        self._steps: list[tuple[int, ...]] = []
        self._columns: list[Steps] = []
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self._blocks: dict[str, list[dict[str, Array]]] = {}

    def wants(self, table: str) -> bool:
        """Return whether a table is asked for."""
        return table in self._tables

    def step(
        self,
        step: SpanStep,
        track: int,
        time: int,
        event: int,
        name: int,
        category: int = -1,
        *,
        end: int | None = None,
        id: int = 0,
        detail: int = 0,
        key: int = 0,
    ) -> None:
        """Add a step, see `fxtio.timeline.parts.Steps`."""
        self._steps.append((step, track, time, time if end is None else end, name, category, event, id, detail, key))

    def steps(self, steps: Steps) -> None:
        """Add steps as columns."""
        self._columns.append(steps)

    def row(self, table: str, *values: Any) -> None:
        """Add a row of a table, if it is asked for."""
        if table in self._tables:
            rows = self._rows.setdefault(table, [])
            rows.append(values)
            if len(rows) >= MANY:  # an array takes a fraction of the memory
                self._pack(table)

    def block(self, table: str, **columns: Array) -> None:
        """Add rows of a table as columns, if it is asked for."""
        if table in self._tables:
            self._blocks.setdefault(table, []).append(columns)

    def part(self, share: float = 0.0) -> TimelinePart:
        """Return what was added since the last call."""
        steps = self._joined_steps()
        tables: dict[str, dict[str, Column]] = self.stacks.new_tables()
        for name in {**self._rows, **self._blocks}:
            self._pack(name)
            blocks = self._blocks[name]
            columns = {column: np.concatenate([block[column] for block in blocks]) for column in blocks[0]}
            if len(blocks) > 1 and "event" in columns:
                order = np.argsort(columns["event"], kind="stable")
                columns = {column: each[order] for column, each in columns.items()}
            tables[name] = self._registry.columns(name, columns)
        self._steps, self._columns, self._rows, self._blocks = [], [], {}, {}
        return TimelinePart(steps, tables, share)

    def _pack(self, table: str) -> None:
        """Turn the rows of a table into columns."""
        if rows := self._rows.pop(table, None):
            values = zip(number_types(table).items(), zip(*rows, strict=True), strict=True)
            self.block(table, **{column: np.array(each, dtype) for (column, dtype), each in values})

    def _joined_steps(self) -> Steps | None:
        """Return all steps, in the order of their packets."""
        parts = self._columns
        if self._steps:
            columns = zip(_STEP, zip(*self._steps, strict=True), strict=True)
            arrays = {name: np.array(values, STEP_COLUMNS[name][0]) for name, values in columns}
            steps = Steps.of(0, ticks=arrays["time"].view(np.uint64), **arrays)
            parts = [*parts, steps]
        if not parts:
            return None
        steps = Steps.joined(parts)
        packet = steps.event // PER_PACKET
        return steps.take(np.argsort(packet, kind="stable")) if (np.diff(packet) < 0).any() else steps
