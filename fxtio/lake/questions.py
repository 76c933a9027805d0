"""Questions to a lake, as SQL: which part of it, ranked by what."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fxtio.errors import FxtioError, shown
from fxtio.lake.layout import TRACES, day_of
from fxtio.timeline.sql import query_errors, sql_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

_OF_SLICES = ("name", "category", "process", "thread", "track", "program", "day", "trace")
_OF_TRACES = ("host", "url", "format", "program", "id")
_ON_BOTH = {"trace": "id"}
_LABEL = "label:"
KEYS = (*dict.fromkeys((*_OF_SLICES, *_OF_TRACES)), f"{_LABEL}NAME")
"""By what slices can be grouped and chosen."""

SORTS = ("self", "total", "calls", "median", "p99", "max")
"""The columns by which a ranking can be sorted, the greatest first."""

_SUMS = {
    "calls": "count(*)",
    "self": "sum(self_time)::bigint",
    "total": "sum(duration)::bigint",
    "max": "max(duration)",
}
_QUANTILES = {"median": "quantile_disc(duration, 0.5)", "p99": "quantile_disc(duration, 0.99)"}
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


class QuestionError(FxtioError):
    """An error: a question makes no sense."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a lake.

    Attributes:
        where: conditions that all hold, such as `program=app`, `label:build=1a2b` or `name=GET *`; see `KEYS`.
        since: only traces that began later than this before now, such as `7d`, `12h` or `30m`; empty for all.

    Raises:
        QuestionError: a condition or the time makes no sense.
    """

    where: Sequence[str] = ()
    since: str = ""

    def __post_init__(self) -> None:
        for each in self.where:
            _condition(each)
        if self.since:
            _seconds(self.since)

    def of_slices(self) -> str:
        """Return the condition on rows of `slices`, as SQL."""
        conditions = [*map(_condition, self.where)]
        if self.since:
            start = self._start()
            conditions += [f"day >= '{day_of(start)}'", f"trace in (select id from {TRACES} where start >= {start})"]
        return " and ".join(conditions) or "true"

    def of_traces(self) -> str:
        """Return the condition on rows of `traces`, as SQL.

        Raises:
            QuestionError: a condition is about slices.
        """
        conditions = [_condition(each, of_traces=True) for each in self.where]
        if self.since:
            conditions.append(f"start >= {self._start()}")
        return " and ".join(conditions) or "true"

    def _start(self) -> int:
        """Return the earliest time 0 of a trace, in nanoseconds since the Unix epoch."""
        return max(time.time_ns() - _seconds(self.since) * 1_000_000_000, 0)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Groups of slices, ranked.

    Attributes:
        by: by what they are grouped, one of `KEYS`.
        sort: the column by which they are sorted.
        rows: for each group its key (None where slices have none), the number of calls, and times in nanoseconds: self
            time, total time, median, 99th percentile and maximum of the durations.  The total counts a function that
            calls itself as often as it is called.
        more: the number of further groups.
    """

    by: str
    sort: str
    rows: Sequence[dict[str, Any]] = field(default_factory=list)
    more: int = 0


def ranking(ask: Callable[[str], DuckDBPyRelation], *, by: str, part: Part, sort: str, limit: int | None) -> Ranking:
    """Rank slices by a sum or quantile of their times.

    Args:
        ask: runs a query.
        by: by what to group, one of `KEYS`.
        part: the part of the lake.
        sort: one of `SORTS`.
        limit: the most groups, None for all.

    Raises:
        QuestionError: there is no such key or column.
        QueryError: DuckDB is not installed.
    """
    if sort not in SORTS:
        raise QuestionError(f"{shown(sort)} is not a column; one of {', '.join(SORTS)}")
    key = _column(by)
    columns = _SUMS | _QUANTILES if sort in _QUANTILES else _SUMS
    chosen = ", ".join(f"{sql} as {_as_name(name)}" for name, sql in columns.items())
    source = f"from slices where {part.of_slices()}"
    groups = f"select {key} as key, {chosen} {source} group by key"
    first = "" if limit is None else f" limit {limit}"
    order = f"order by {_as_name(sort)} desc, key"
    rows = _rows(ask(f"select *, count(*) over () as groups from ({groups}) {order}{first}"))
    more = rows[0]["groups"] - len(rows) if rows else 0
    if rows and sort not in _QUANTILES:  # of the groups that are shown alone, as quantiles need all durations at once
        quantiles = _quantiles(ask, key, source, [row["key"] for row in rows])
        for row in rows:
            row.update(quantiles[row["key"]])
    order_of = ("key", "calls", "self", "total", "median", "p99", "max")
    return Ranking(by, sort, [{name: row[name] for name in order_of} for row in rows], more)


def _quantiles(
    ask: Callable[[str], DuckDBPyRelation], key: str, source: str, keys: Sequence[Any]
) -> dict[Any, dict[str, Any]]:
    """Return the quantiles of groups by their keys."""
    known = [each for each in keys if each is not None]
    among = [f"{key} in ({', '.join(sql_text(str(each)) for each in known)})"] if known else []
    among += [f"{key} is null"] if len(known) < len(keys) else []
    columns = ", ".join(f"{sql} as {name}" for name, sql in _QUANTILES.items())
    found = _rows(ask(f"select {key} as key, {columns} {source} and ({' or '.join(among)}) group by key"))
    return {row["key"]: {name: row[name] for name in _QUANTILES} for row in found}


def _rows(found: DuckDBPyRelation) -> list[dict[str, Any]]:
    """Return the rows of a result.

    Raises:
        QueryError: DuckDB cannot compute them.
    """
    with query_errors():
        return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


def _column(key: str) -> str:
    """Return the value of a key of a row of `slices`, as SQL."""
    if key in _OF_SLICES:
        return key if key != "day" else "day::varchar"
    value = _of_trace(key)
    return f"(select {value} from {TRACES} where id = trace)"


def _of_trace(key: str) -> str:
    """Return the value of a key of a row of `traces`, as SQL."""
    if key in _OF_TRACES:
        return key
    if key.startswith(_LABEL) and len(key) > len(_LABEL):
        return f"labels[{sql_text(key.removeprefix(_LABEL))}]"
    raise QuestionError(f"{shown(key)} is not a key; one of {', '.join(KEYS)}")


def listing(
    ask: Callable[[str], DuckDBPyRelation], *, part: Part, limit: int | None
) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of traces, the latest first, and the number of further ones.

    Args:
        ask: runs a query.
        part: the part of the lake.
        limit: the most rows, None for all.

    Raises:
        QuestionError: a condition is about slices.
        QueryError: DuckDB is not installed.
    """
    source = f"from {TRACES} where {part.of_traces()}"
    first = "" if limit is None else f" limit {limit}"
    rows = _rows(ask(f"select * {source} order by start desc nulls last, id{first}"))
    (total,) = _rows(ask(f"select count(*) as traces {source}"))
    return rows, total["traces"] - len(rows)


def older(ask: Callable[[str], DuckDBPyRelation], *, age: str, part: Part) -> list[str]:
    """Return the ids of traces of a part that began longer ago than a time such as `30d`.

    Those whose wall clock is not known are not among them.
    """
    latest = time.time_ns() - _seconds(age) * 1_000_000_000
    return [row["id"] for row in _rows(ask(f"select id from {TRACES} where start < {latest} and {part.of_traces()}"))]


def _condition(text: str, *, of_traces: bool = False) -> str:
    """Return a condition such as `program=app` as SQL; a value may be a pattern with `*` and `?`."""
    key, equals, value = text.partition("=")
    if not equals:
        raise QuestionError(f"{shown(text)} is not a condition such as program=app")
    pattern = re.sub(r"[\[\\]", lambda found: {"[": "[[]"}.get(found[0], r"\\"), value)
    matches = f"glob {sql_text(pattern)}" if {*"*?"} & {*value} else f"= {sql_text(value)}"
    if of_traces:
        return f"{_of_trace(_ON_BOTH.get(key, key))} {matches}"
    if key in _OF_SLICES:
        return f"{_column(key)} {matches}"
    return f"trace in (select id from {TRACES} where {_of_trace(key)} {matches})"


def _seconds(text: str) -> int:
    """Return the seconds in a time such as `7d`."""
    match = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    if match is None:
        raise QuestionError(f"{shown(text)} is not a time such as 7d, 12h or 30m")
    return int(match[1]) * _SECONDS[match[2]]


def _as_name(name: str) -> str:
    """Return the name of a column, which may be a word of SQL."""
    return f'"{name}"'
