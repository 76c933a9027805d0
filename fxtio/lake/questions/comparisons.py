"""Comparisons of runs: two parts of a lake, or traces and the latest runs of the same program.

A trace is a run; which differences count is told by `fxtio.timeline.comparison`, as for single traces.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from fxtio.lake.layout import TRACES
from fxtio.lake.questions.parts import Ask, Part
from fxtio.report import counted
from fxtio.timeline.answers.answer import QuestionError
from fxtio.timeline.comparison import FINISHED, Comparison, Floor, Times, compare
from fxtio.timeline.sql import sql_text

_MOST = 4_000_000
"""The most times, of a name in a run, that are compared at once."""


@dataclass(frozen=True, slots=True)
class Side:
    """The latest runs of a part of a lake.

    Attributes:
        traces: their rows of the table `traces`, the latest first.
        runs: for each of them the times of its slices by name.
        more: the number of earlier runs, which are left out.
    """

    traces: Sequence[dict[str, Any]]
    runs: Sequence[dict[str, Times]]
    more: int = 0


@dataclass(frozen=True, slots=True)
class Diff:
    """How the times of names differ between two sides.

    Attributes:
        comparison: the differences, and what the runs can tell.
        before: the runs of one side.
        after: the runs of the other side.
    """

    comparison: Comparison
    before: Side
    after: Side


def side(
    ask: Ask,
    *,
    part: Part,
    last: int | None,
    column: str,
    program: str | None = None,
    without: Collection[str] = (),
) -> Side:
    """Return the latest runs of a part of a lake.

    Args:
        ask: runs a query.
        part: the part; slices that are no part of it are left out of its runs.
        last: the most runs, None for all.
        column: `duration` or `self_time`.
        program: only runs of this program, None for all.
        without: the ids of traces that are left out.

    Raises:
        QuestionError: there are no such runs, or too many names and runs for a comparison.
        QueryError: DuckDB is not installed.
    """
    conditions = [part.of_runs()]
    conditions += [] if program is None else [f"program = {sql_text(program)}"]
    conditions += [f"id not in ({', '.join(map(sql_text, without))})"] if without else []
    source = f"from {TRACES} where {' and '.join(conditions)}"
    first = "" if last is None else f" limit {last:d}"
    traces = ask(f"select * {source} order by start desc nulls last, id{first}")
    if not traces:
        raise QuestionError(f"the lake has no trace{_named(part, program)} to compare with")
    (total,) = ask(f"select count(*) as traces {source}")
    runs = _times(ask, [row["id"] for row in traces], part, column)
    return Side(traces, [runs[row["id"]] for row in traces], total["traces"] - len(traces))


def _named(part: Part, program: str | None) -> str:
    conditions = [*([] if program is None else [f"program={program}"]), *part.where]
    return f" with {' and '.join(conditions)}" if conditions else ""


def _times(ask: Ask, ids: Sequence[str], part: Part, column: str) -> dict[str, dict[str, Times]]:
    """Return the times of runs by name, by their ids."""
    if column not in ("duration", "self_time"):
        raise QuestionError(f"{column!r} is not duration or self_time")
    slices = part.slices(ask, f"id in ({', '.join(map(sql_text, ids))})")
    finished = f"state in ({', '.join(map(sql_text, FINISHED))})"
    sums = f"count(*) as calls, sum({column})::double as total, min({column}) as fastest"
    source = f"from {slices} and {finished} group by all order by all"
    runs: dict[str, dict[str, Times]] = {each: {} for each in ids}
    names = set()
    for row in ask(f"select trace, coalesce(name, '') as of_name, {sums} {source} limit {_MOST + 1}"):
        if row["trace"] in runs:  # a damaged file may name others
            names.add(row["of_name"])
            runs[row["trace"]][row["of_name"]] = Times(row["calls"], row["total"], row["fastest"])
    if len(names) * len(ids) > _MOST:
        raise QuestionError(
            f"{counted(len(names), 'name')} in {counted(len(ids), 'run')} are too many to compare: choose some, as "
            "with name=GET*, or fewer runs"
        )
    return runs


def diff(ask: Ask, *, before: Part, after: Part, last: int | None, floor: Floor | None, column: str) -> Diff:
    """Compare two parts of a lake.

    Args:
        ask: runs a query.
        before: one part.
        after: the other part.
        last: the most runs of each side, the latest ones; None for all.
        floor: the smallest difference that matters.
        column: `duration` or `self_time`.

    Raises:
        QuestionError: a side has no runs, or a run is on both sides, or there are too many names and runs.
        QueryError: DuckDB is not installed.
    """
    sides = [side(ask, part=part, last=last, column=column) for part in (before, after)]
    both = {row["id"] for row in sides[0].traces} & {row["id"] for row in sides[1].traces}
    if both:
        raise QuestionError(f"{counted(len(both), 'trace')} would be on both sides, such as {min(both)}")
    return Diff(compare(sides[0].runs, sides[1].runs, floor), *sides)
