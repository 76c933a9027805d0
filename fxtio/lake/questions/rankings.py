"""Lists and rankings: the traces of a lake, its slices in groups, and the traces that are the worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fxtio.errors import shown
from fxtio.lake.layout import TRACES
from fxtio.lake.questions.parts import Ask, Part, column_of
from fxtio.timeline.answers.answer import QuestionError
from fxtio.timeline.sql import sql_text

SORTS = ("self", "total", "calls", "median", "p99", "max")
"""The columns by which a ranking can be sorted, the greatest first."""

_QUANTILES = "quantile_disc(duration, [0.5, 0.99])"  # which are computed once
_SUMS = {
    "calls": "count(*)",
    "self": "sum(self_time)",
    "total": "sum(duration)",
    "median": f"{_QUANTILES}[1]",
    "p99": f"{_QUANTILES}[2]",
    "max": "max(duration)",
}

OF_TRACES = {"duration": f"max((select duration from {TRACES} where id = trace))"}
"""A further column by which traces can be ranked: from their first event to their last one."""


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


def ranking(
    ask: Ask, *, by: str, part: Part, sort: str, limit: int | None, more_sums: Mapping[str, str] | None = None
) -> Ranking:
    """Rank slices by a sum or quantile of their times.

    Args:
        ask: runs a query.
        by: by what to group, one of `KEYS`.
        part: the part of the lake.
        sort: one of `SORTS`.
        limit: the most groups, None for all.
        more_sums: further columns of the groups, as SQL, by which they can be sorted, too.

    Raises:
        QuestionError: there is no such key or column.
        QueryError: DuckDB is not installed.
    """
    sums = _SUMS | dict(more_sums or {})
    if sort not in (sorts := (*SORTS, *(more_sums or ()))):
        raise QuestionError(f"{shown(sort)} is not a column; one of {', '.join(sorts)}")
    chosen = ", ".join(f"{sql} as {_as_name(name)}" for name, sql in sums.items())
    groups = f"select {column_of(by)} as key, {chosen} from {part.slices(ask)} group by key"
    first = "" if limit is None else f" limit {max(limit, 1)}"  # a row says how many groups there are
    order = f"order by {_as_name(sort)} desc, key"
    found = ask(f"select *, count(*) over () as groups from ({groups}) {order}{first}")
    rows = [{name: row[name] for name in ("key", *sums)} for row in found[:limit]]
    return Ranking(by, sort, rows, found[0]["groups"] - len(rows) if found else 0)


def worst(ask: Ask, *, pattern: str | None, part: Part, sort: str, limit: int | None) -> Ranking:
    """Rank traces by the times of their slices, the worst first.

    Args:
        ask: runs a query.
        pattern: the names of the slices that count, None for all.
        part: the part of the lake.
        sort: one of `SORTS`, or `duration` for that of the trace.
        limit: the most traces, None for all.

    Returns:
        A ranking by `trace`, with further columns: the duration of the trace, name and time of its longest slice (that
        time as in the table `slices`), and `start`, `program`, `host`, `labels` and `url` of the trace.

    Raises:
        QuestionError: there is no such column.
        QueryError: DuckDB is not installed.
    """
    part = part.named(pattern)
    answer = ranking(ask, by="trace", part=part, sort=sort, limit=limit, more_sums=OF_TRACES)
    if not answer.rows:
        return answer
    ids = ", ".join(sql_text(row["key"] or "") for row in answer.rows)
    facts = ask(f"select id, start, program, host, labels, url from {TRACES} where id in ({ids})")
    # A struct is compared field by field: of the longest slices, the earliest one is meant.
    greatest = "max({'duration': duration, 'before': -start, 'id': -id, 'name': name})"
    source = f"from {part.slices(ask, f'id in ({ids})')} group by trace"
    longest = ask(
        f"select trace, slice.name as name, -slice.before as time from (select trace, {greatest} as slice {source})"
    )
    more = {row.pop("id"): row for row in facts}
    of_slices = {row.pop("trace"): row for row in longest}
    known = [row for row in answer.rows if row["key"] in more.keys() & of_slices.keys()]  # a damaged file names others
    return replace(answer, rows=[row | of_slices[row["key"]] | more[row["key"]] for row in known])


def listing(ask: Ask, *, part: Part, limit: int | None) -> tuple[list[dict[str, Any]], int]:
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
    rows = ask(f"select * {source} order by start desc nulls last, id{first}")
    (total,) = ask(f"select count(*) as traces {source}")
    return rows, total["traces"] - len(rows)


def _as_name(name: str) -> str:
    """Return the name of a column, which may be a word of SQL."""
    return f'"{name}"'
