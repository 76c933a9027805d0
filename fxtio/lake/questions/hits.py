"""Single slices of a lake, by name, argument, duration and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fxtio.errors import shown
from fxtio.lake.layout import TRACES
from fxtio.lake.questions.parts import Ask, Part, column_of
from fxtio.timeline.answers.answer import QuestionError
from fxtio.timeline.sql import sql_text

ORDERS = {
    "longest": "duration desc, moment nulls last, time, trace, id",
    "time": "moment nulls last, time, duration desc, trace, id",
}
"""The orders of what is found: the longest first, or the earliest by the wall clock, then those without one."""

_MOMENT = f"(select traces.start from {TRACES} where traces.id = trace)::hugeint + start"  # beyond 64 bits if damaged
_PLACE = ("trace", "name", "category", "process", "pid", "thread", "tid", "track")


@dataclass(frozen=True, slots=True)
class Hits:
    """Slices that were found.

    Attributes:
        order: one of `ORDERS`.
        rows: for each slice `time` and `duration` in nanoseconds, the time as the table `slices` has it in `start`; its
            trace, name, category, process, pid, thread, tid and track; `start`, `program`, `labels` and `url` of the
            trace.
        more: the number of further slices.
    """

    order: str
    rows: Sequence[dict[str, Any]] = field(default_factory=list)
    more: int = 0


def find(
    ask: Ask,
    *,
    pattern: str | None,
    part: Part,
    longer: int | None,
    shorter: int | None,
    order: str,
    limit: int | None,
) -> Hits:
    """Find slices.

    Args:
        ask: runs a query.
        pattern: the name, may be a pattern; None for any.
        part: the part of the lake.
        longer: the least duration, in nanoseconds.
        shorter: the greatest duration.
        order: one of `ORDERS`.
        limit: the most rows, None for all.

    Raises:
        QuestionError: there is no such order.
        QueryError: DuckDB is not installed.
    """
    if order not in ORDERS:
        raise QuestionError(f"{shown(order)} is not an order; one of {', '.join(ORDERS)}")
    part = part.named(pattern)
    source = f"from {part.slices(ask)}"
    source += "" if longer is None else f" and duration >= {longer:d}"
    source += "" if shorter is None else f" and duration <= {shorter:d}"
    first = "" if limit is None else f" limit {limit:d}"
    chosen = f"select {', '.join(_PLACE)}, id, start as time, duration, {_MOMENT} as moment {source}"
    best = f"{chosen} order by {ORDERS[order]}{first}"  # before the traces are joined: only rows that are returned
    facts = f"(select id as of, start, program, labels, url from {TRACES}) t"
    columns = ", ".join(("time", "duration", *_PLACE, "t.start", "program", "labels", "url"))
    rows = ask(f"select {columns} from ({best}) join {facts} on of = trace order by {ORDERS[order]}")
    if limit is None or len(rows) < limit:
        return Hits(order, rows)  # all of them: reading the files again to count them would take as long
    (total,) = ask(f"select count(*) as slices {source}")
    return Hits(order, rows, total["slices"] - len(rows))


def longest(ask: Ask, *, by: str, key: str | None, part: Part) -> dict[str, Any] | None:
    """Return the longest slice of a group, with its `trace`, `name`, `time` and the `url` of its trace.

    Args:
        ask: runs a query.
        by: by what slices are grouped, one of `KEYS`.
        key: the key of the group, which is no pattern; None for slices that have none.
        part: the part of the lake.
    """
    column = column_of(by)
    is_of_group = f"{column} is null" if key is None else f"{column} = {sql_text(key)}"
    source = f"from {part.slices(ask)} and {is_of_group}"
    best = f"select trace, name, start as time {source} order by duration desc, start, trace, id limit 1"
    rows = ask(f"select slice.*, url from ({best}) slice join {TRACES} on traces.id = slice.trace")
    return rows[0] if rows else None
