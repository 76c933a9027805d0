"""Counts what is in a lake: traces by program, host and label, and files that are no part of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fxtio.lake.catalog import NAME as CATALOG
from fxtio.lake.layout import MARKER, TABLES, TRACES, identity_in
from fxtio.lake.questions.parts import Ask, Part, of_trace
from fxtio.timeline.sql import sql_text

_VALUES = ("program", "host", "format")


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a key.

    Attributes:
        count: how many there are.
        traces: the number of traces of each, the most frequent first; at most as many values as were asked for.
    """

    count: int
    traces: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Contents:
    """Says what is in a lake.

    Attributes:
        traces: the number of traces.
        bytes: their size as they were stored before they were added.
        rows: the number of rows of each table of events.
        first: the earliest time 0 of a trace, in nanoseconds since the Unix epoch; None if none is known.
        last: the latest one.
        days: the number of days (UTC) on which traces began.
        values: programs, hosts and formats, by the names of the columns.
        labels: the values of each label; at most as many labels as were asked for, the most frequent first.
        label_count: the number of all labels.
        losses: what the timelines of traces cannot show, and how often; at most as many as were asked for.
        findings: the number of faults that reading the traces found.
        with_findings: the number of traces that have some.
        versions: the number of traces of each version of the layout.
        orphans: the number of files of traces without a row: they are being added, or their writer was killed.
        unfinished: the number of files that are being written, or whose writer was killed.
        others: the number of files that are no part of any lake.
    """

    traces: int
    bytes: int
    rows: Mapping[str, int]
    first: int | None
    last: int | None
    days: int
    values: Mapping[str, Values]
    labels: Mapping[str, Values]
    label_count: int
    losses: Mapping[str, int]
    findings: int
    with_findings: int
    versions: Mapping[int, int]
    orphans: int
    unfinished: int
    others: int


def contents(
    ask: Ask, *, part: Part, ids: Collection[str], names: Iterable[str], unfinished: Iterable[str], limit: int | None
) -> Contents:
    """Return what is in a lake.

    Args:
        ask: runs a query.
        part: the part whose traces are counted; files that are no part of the lake are those of all of it.
        ids: the ids of all traces.
        names: the names of all files.
        unfinished: the names of files that are being written.
        limit: the most values of a key, labels and losses, None for all.

    Raises:
        QuestionError: a condition is about slices.
        QueryError: DuckDB is not installed.
    """
    source = f"from {TRACES} where {part.of_traces()}"
    sums = ", ".join(f"coalesce(sum({name}), 0) as {name}" for name in ("bytes", "findings", *TABLES))
    times = (
        f"min(start) as first, max(start) as last, count(distinct {of_trace('day')}) filter (start is not null) as days"
    )
    (row,) = ask(f"select count(*) as traces, {sums}, {times}, count(*) filter (findings > 0) as bad {source}")
    losses = f"(select unnest(map_entries(losses)) as entry {source})"
    sums_lost = f"select entry.key as phrase, sum(entry.value) as n from {losses} group by all"
    lost = ask(f"{sums_lost} order by n desc, phrase{_first(limit)}")
    versions = ask(f"select schema as version, count(*) as n {source} group by all order by version")
    labels, label_count = _labels(ask, source, limit)
    places = Counter(_place(name, ids) for name in names)
    return Contents(
        row["traces"], row["bytes"], {table: row[table] for table in TABLES}, row["first"], row["last"], row["days"],
        {name: _values(ask, name, source, limit) for name in _VALUES}, labels, label_count,
        {each["phrase"]: each["n"] for each in lost}, row["findings"], row["bad"],
        {each["version"]: each["n"] for each in versions},
        places["orphan"], sum(1 for _ in unfinished), places["other"],
    )  # fmt: skip


def _labels(ask: Ask, source: str, limit: int | None) -> tuple[dict[str, Values], int]:
    """Return the values of the most frequent labels, and the number of all labels."""
    entries = f"(select unnest(map_entries(labels)) as entry {source})"
    (count,) = ask(f"select count(distinct entry.key) as labels from {entries}")
    order = f"group by all order by count(*) desc, name{_first(limit)}"
    names = [row["name"] for row in ask(f"select entry.key as name from {entries} {order}")]
    return {name: _values(ask, f"labels[{sql_text(name)}]", source, limit) for name in names}, count["labels"]


def _values(ask: Ask, column: str, source: str, limit: int | None) -> Values:
    """Return the values of a column of `traces`, as SQL, without null."""
    groups = f"select {column} as value, count(*) as n {source} and {column} is not null group by value"
    rows = ask(f"select *, count(*) over () as all_values from ({groups}) order by n desc, value{_first(limit)}")
    return Values(rows[0]["all_values"] if rows else 0, {row["value"]: row["n"] for row in rows})


def _first(limit: int | None) -> str:
    return "" if limit is None else f" limit {limit:d}"


def _place(name: str, ids: Collection[str]) -> str:
    """Return whether a file is part of the lake, an orphan, or another one."""
    if name in (MARKER, CATALOG):
        return "part"
    identity = identity_in(name)
    return "other" if identity is None else "part" if identity in ids else "orphan"
