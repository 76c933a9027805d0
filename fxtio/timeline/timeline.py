"""The timeline of a trace: its tables, made when they are first asked for, and one pass over them in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import numpy as np

from fxtio.display import as_html, as_text
from fxtio.finding import Findings
from fxtio.report import Report, ReportTable
from fxtio.table import Column, Derived, GrowingTable, Table, numbers_of
from fxtio.timeline.nesting import DisorderedError, Nesting
from fxtio.timeline.parts import REALTIME, Registry, TimelinePart
from fxtio.timeline.schema import TABLES, empty_columns
from fxtio.timeline.sorting import Sorter

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

    from fxtio.timeline.sql import Database

Parts = Callable[[Registry, Set[str]], Iterator[TimelinePart]]
"""Reads a trace from its beginning, and yields what each batch adds to its timeline."""

_NAMED = frozenset({"processes", "threads", "tracks"})


class Consumer(Protocol):
    """Takes a timeline batch by batch, see `Timeline.fold`."""

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the rows of a batch, for each table that was asked for and has rows in it."""


ConsumerT = TypeVar("ConsumerT", bound=Consumer)


class Timeline:
    """A trace as format-neutral tables, see `fxtio.timeline.schema.TABLES`.  `fxtio.open_timeline` makes one.

    Args:
        name: where it is read from.
        format: the name of the format.
        parts: reads it, see `fxtio.formats.TimelineRoom.parts`.
        trace: the trace, None for an exchange format.

    Attributes:
        name: where it is read from.
        format: the name of the format.
        trace: the trace, None for an exchange format.
        parts: reads it, as the argument.
    """

    def __init__(self, name: str, format: str, parts: Parts, *, trace: Any = None) -> None:
        self.name = name
        self.format = format
        self.trace = trace
        self.parts = parts
        self._cache: dict[str, Table] = {}
        self._losses: Counter[str] = Counter()
        self._database: Database | None = None
        self._latest: Registry | None = None
        self._is_whole = False  # whether that reading came to the end

    def __repr__(self) -> str:
        return f"Timeline({self.name!r}, {self.format!r})"

    def __str__(self) -> str:
        """Return the names of the tables as text, with the rows of those that were asked for; nothing is read."""
        return as_text(self._report())

    def _repr_html_(self) -> str:
        """Return the same as HTML for notebooks."""
        return as_html(self._report())

    def _report(self) -> Report:
        rows = [
            (name, f"{self._cache[name].num_rows:,}" if name in self._cache else "-", ", ".join(columns))
            for name, columns in TABLES.items()
        ]
        notes = [] if self._cache else ["A table is read when it is asked for: timeline.table('slices')"]
        return Report(self.name, [("format", self.format)], [ReportTable(["table", ">rows", "columns"], rows)], notes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the trace."""
        if self.trace is not None:
            self.trace.close()

    @property
    def table_names(self) -> tuple[str, ...]:
        """The names of the tables; every timeline has all of them, some may be empty."""
        return tuple(TABLES)

    def table(self, name: str) -> Table:
        """Return one whole table, see `tables`."""
        return self.tables(name)[name]

    def tables(self, *names: str) -> dict[str, Table]:
        """Return several whole tables; those that were not asked for before are made in one reading.

        Rows refer to rows of other tables by their numbers, which two readings may give to different rows.  So tables
        that are used together have to be asked for in one call.

        Raises:
            KeyError: there is no such table.
            DecodeError: the trace was opened with `strict`, and has a fault.
        """
        for name in names:
            if name not in TABLES:
                raise KeyError(f"there is no table {name!r}, only {', '.join(TABLES)}")
        missing = [name for name in names if name not in self._cache]
        if missing:
            # Codes and numbers of two readings need not agree, so all tables come from one.
            all_names = dict.fromkeys([*self._cache, *names])
            collector, registry = self.fold(_Collector, *all_names)
            whole = collector.tables(registry)
            self._cache = {name: whole[name] for name in {**all_names, **dict.fromkeys(_NAMED)}}
        return {name: self._cache[name] for name in names}

    def sql(self, query: str, *, confined: bool = False) -> DuckDBPyRelation:
        """Run a query in SQL over the tables, and over views like those of Perfetto, see `fxtio.timeline.sql`.

        Args:
            query: the query.
            confined: whether this query, and all later ones, reach nothing but the trace: no files, network, variables
                or settings.  DuckDB's own limit of memory is 2 GB then, which some of its functions exceed.

        Returns:
            The result, which DuckDB computes when it is fetched: `fetchall()`, `df()`, `pl()`, `arrow()`, `show()`.

        Raises:
            QueryError: DuckDB refuses the query, or is not installed (the extra `sql`).
            TypeError: the query is no string.
            DecodeError: the trace was opened with `strict`, and has a fault.
        """
        if self._database is None:
            from fxtio.timeline.sql import Database

            self._database = Database(self)
        if confined:
            self._database.confine()
        return self._database.query(query)

    @property
    def losses(self) -> Counter[str]:
        """Phrases for the content of the trace that the latest reading cannot show, and how often each occurs."""
        return +self._losses

    @property
    def findings(self) -> Findings:
        """The faults that the last reading of the trace found; none in a file of an exchange format.

        If nothing was read yet, the trace is read.

        Raises:
            DecodeError: the trace was opened with `strict`, and has a fault.
        """
        found: Findings = Findings(self.format) if self.trace is None else self.trace.findings
        return found

    @property
    def wall_clock(self) -> int | None:
        """The nanoseconds since the Unix epoch at the time 0 of the timeline, None where the trace does not have them.

        It is read if need be, see `clocks`.
        """
        return self.clocks.get(REALTIME)

    @property
    def clocks(self) -> Mapping[str, int]:
        """What clocks of the system show at the time 0 of the timeline, see `fxtio.timeline.parts.Registry`.

        If nothing was read before, the trace is read up to the place that has them, or to its end.
        """
        return self._beginning("clocks").clocks

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the trace, texts by name, which tell it from others, such as its `build`.

        If nothing was read before, the trace is read up to the first place that has some, or to its end; those that
        come later, such as those of what was merged to it, are missing then.
        """
        return self._beginning("labels").labels

    def _beginning(self, name: str) -> Registry:
        """Return the registry of the latest reading, or of one up to where this attribute of it is not empty."""
        if self._latest is None or not (getattr(self._latest, name) or self._is_whole):
            registry, self._is_whole = Registry(), False
            for _ in self.parts(registry, frozenset()):
                if getattr(registry, name):
                    break
            else:
                self._is_whole = True
            self._latest = registry
        return self._latest

    def fold(self, make: Callable[[Registry], ConsumerT], *names: str) -> tuple[ConsumerT, Registry]:
        """Read the trace once, in bounded memory, and pass the rows of tables to a consumer.

        If the events of a track turn out not to be in the order of time, the trace is read again and sorted, for a new
        consumer.

        Args:
            make: makes the consumer, which gets the registry of the reading.
            names: the tables that it needs, except `processes`, `threads` and `tracks`, which the registry has.  Those
                of `fxtio.timeline.schema.PASSING` are among them.

        Returns:
            The consumer, and the registry with the processes, threads and tracks.

        Raises:
            DecodeError: the trace was opened with `strict`, and has a fault.
        """
        try:
            consumer, registry = self._fold(make, frozenset(names), is_sorted=False)
        except DisorderedError:
            consumer, registry = self._fold(make, frozenset(names), is_sorted=True)
        self._losses, self._latest, self._is_whole = registry.losses, registry, True
        return consumer, registry

    def _fold(
        self, make: Callable[[Registry], ConsumerT], names: frozenset[str], *, is_sorted: bool
    ) -> tuple[ConsumerT, Registry]:
        registry = Registry()
        registry.in_order = not is_sorted
        nesting = Nesting(registry, is_sorted=is_sorted)
        consumer = make(registry)
        parts = self.parts(registry, names)
        for part in _sorted(parts, registry) if is_sorted else parts:
            registry.share = part.share
            _pass_on(consumer, part.tables | (nesting.enter(part.steps) if part.steps is not None else {}), names)
        for tables in nesting.finish():
            _pass_on(consumer, tables, names)
        return consumer, registry


def _pass_on(consumer: Consumer, columns: Mapping[str, Mapping[str, Column]], names: frozenset[str]) -> None:
    tables = {name: Table(table) for name, table in columns.items() if name in names}
    tables = {name: table for name, table in tables.items() if table.num_rows}
    if tables:
        consumer.enter(tables)


def _sorted(parts: Iterator[TimelinePart], registry: Registry) -> Iterator[TimelinePart]:
    """Yield the tables of all parts, then all steps in the order of time with their arguments."""
    with Sorter() as sorter:
        for part in parts:
            tables = part.tables
            if part.steps is not None:
                args = Table(tables.get("args") or empty_columns("args"))
                is_sorted = sorter.add(part.steps, {name: numbers_of(column) for name, column in args.items()})
                tables = {**tables, "args": dict(args.take(~is_sorted).items())}
            yield TimelinePart(None, tables, part.share)
        for window in sorter.windows():
            yield TimelinePart(window.steps, {"args": registry.columns("args", window.args)}, share=1.0)


class _Collector:
    """Joins the batches to whole tables."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._growing: dict[str, GrowingTable] = {}

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Append the rows; slices go to the rows of their ids."""
        for name, table in tables.items():
            columns: dict[str, Any] = dict(table.items())
            rows = columns.pop("id") if name == "slices" else None
            self._growing.setdefault(name, GrowingTable()).append(columns, self._registry.share, rows)

    def tables(self, registry: Registry) -> dict[str, Table]:
        """Return the whole tables."""
        result = {name: Table(empty_columns(name)) for name in TABLES if name not in _NAMED}
        result |= {name: Table(growing.columns()) for name, growing in self._growing.items()}
        if "slices" in self._growing:
            columns = self._growing["slices"].columns()
            ids = Derived(lambda: np.arange(len(columns["start"])), lambda rows: rows)
            result["slices"] = Table({"id": ids, **columns})
        return result | registry.tables()
