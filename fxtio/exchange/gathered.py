"""What formats of whole profiles store, gathered from a timeline: samples, allocations and slices with their frames."""

from __future__ import annotations

from collections.abc import Mapping

from fxtio.table import Column, GrowingTable, Table
from fxtio.timeline.schema import empty_columns


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
