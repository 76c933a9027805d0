"""Parts of a lake: by which keys slices and traces can be chosen and grouped, as SQL."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from fxtio.errors import shown
from fxtio.lake.layout import NO_DAY, TRACES
from fxtio.timeline.answers.answer import QuestionError, argument_value
from fxtio.timeline.answers.find import Condition, require_conditions
from fxtio.timeline.schema import LABELS, ArgumentKind
from fxtio.timeline.sql import sql_text

_OF_SLICES = ("name", "category", "process", "thread", "track", "day", "trace")
_OF_TRACES = ("program", "host", "url", "format", "id")  # names of files of slices cut long programs off
_DAY = 86_400 * 10**9
_SINCE_DAY = f"((start % {_DAY}) + {_DAY}) % {_DAY}"  # as DuckDB divides towards 0
_DAYS = f"((start::hugeint - {_SINCE_DAY}) // {_DAY})"  # a damaged start may be the least number of 64 bits
_ON_BOTH = {
    "trace": "id",
    "day": f"coalesce(date '1970-01-01' + {_DAYS}::integer, date '{NO_DAY}')::varchar",
}
"""What traces have as well as their slices, as SQL."""

_LABEL = "label:"
KEYS = (*dict.fromkeys((*_OF_SLICES, *_OF_TRACES)), f"{_LABEL}NAME")
"""By what slices can be grouped and chosen."""

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


@dataclass(frozen=True, slots=True)
class Ask:
    """Asks a lake.

    Attributes:
        run: returns the rows of a query over its tables.
        rows: returns the name of a table: one of the lake's, of the traces that meet a condition on rows of `traces`,
            as SQL.  Files of other traces are not opened.
    """

    run: Callable[[str], list[dict[str, Any]]]
    rows: Callable[[str, str], str]

    def __call__(self, query: str) -> list[dict[str, Any]]:
        """Return the rows of a query.

        Raises:
            QueryError: DuckDB cannot compute them, or is not installed.
        """
        return self.run(query)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a lake.

    Attributes:
        where: conditions that all hold, such as `program=app`, `label:build=1a2b` or `name=GET *`; see `KEYS`.
        since: only traces that began later than this before now, such as `7d`, `12h` or `30m`; empty for all.
        conditions: conditions on arguments of slices, which all hold.

    Raises:
        QuestionError: a condition or the time makes no sense.
        TypeError: the conditions are one string, or those on arguments are no list of `Condition`.
    """

    where: Sequence[str] = ()
    since: str = ""
    conditions: Sequence[Condition] = ()

    def __post_init__(self) -> None:
        if isinstance(self.where, str):
            raise TypeError(f"conditions are several strings, such as [{self.where!r}]")
        for each in self.where:
            _condition(each)
        if self.since:
            _seconds(self.since)
        require_conditions(self.conditions)

    def named(self, pattern: str | None) -> Part:
        """Return the part of which slices have a name like a pattern, with `*` and `?`; None for any name."""
        return self if pattern is None else replace(self, where=[*self.where, f"name={pattern}"])

    def slices(self, ask: Ask, of_traces: str = "true") -> str:
        """Return the slices of this part as SQL, a table and a condition: `TABLE where CONDITION`.

        Args:
            ask: runs a query.
            of_traces: a further condition, on rows of `traces`.
        """
        files = f"{self._of_files()} and {of_traces}"
        conditions = [_condition(each) for each in self.where if not is_of_traces(_key(each))]
        args = ask.rows("args", files) if self.conditions else ""
        tables = []  # of the events with such an argument, which are found once for both ends of slices
        for number, each in enumerate(self.conditions):
            given = f"{sql_text(each.operator)}, {sql_text(each.value)}, type, integer, number, text"
            events = f"select trace, event from {args} where name = {sql_text(each.name)} and {FULFILLS}({given})"
            tables.append(f"events_{number} as materialized ({events})")
            is_one = f"in (from events_{number})"
            conditions.append(f"((trace, event) {is_one} or end_event >= 0 and (trace, end_event) {is_one})")
        slices = f"{ask.rows('slices', files)} where {' and '.join(conditions) or 'true'}"
        return f"(with {', '.join(tables)} from {slices}) where true" if tables else slices

    def _of_files(self) -> str:
        """Return the condition on rows of `traces` without which a trace has no slice of this part, as SQL."""
        names = [_condition(each) for each in self.where if _key(each) == "name"]
        each_name = (
            f"(select id, unnest(names) as name from {TRACES})"  # joined to no row, which would repeat all names
        )
        some = [f"(names is null or id in (select distinct id from {each_name} where {each}))" for each in names]
        some += ["args > 0"] if self.conditions else []
        return " and ".join([self.of_runs(), *some])

    def of_traces(self) -> str:
        """Return the condition on rows of `traces`, as SQL.

        Raises:
            QuestionError: a condition is about slices.
        """
        if self.conditions:
            raise QuestionError("arguments are of slices, not of traces")
        return self._of_traces(self.where)

    def of_runs(self) -> str:
        """Return the condition on rows of `traces`, as SQL, without what is about slices."""
        return self._of_traces([each for each in self.where if is_of_traces(_key(each))])

    def _of_traces(self, where: Sequence[str]) -> str:
        conditions = [_condition(each, of_trace) for each in where]
        if self.since:
            conditions.append(f"start >= {self._start()}")
        return " and ".join(conditions) or "true"

    def _start(self) -> int:
        """Return the earliest time 0 of a trace, in nanoseconds since the Unix epoch."""
        return max(time.time_ns() - _seconds(self.since) * 1_000_000_000, 0)


FULFILLS = "fulfills"
"""The name of `fulfills` in SQL."""


@lru_cache(4096)  # most arguments have few values
def fulfills(operator: str, value: str, kind: str, integer: int, number: float, text: str | None) -> bool:
    """Return whether an argument fulfills a condition.

    Args:
        operator: the operator of the condition.
        value: what it compares with.
        kind: the type of the argument, as rows of `args` have it, like the others.
        integer: its value as a whole number, by its 64 bits.
        number: its value as a number.
        text: its value as a text.
    """
    of = _KINDS.get(kind, ArgumentKind.NULL)
    given = number if of == ArgumentKind.NUMBER else argument_value(of, integer % 2**64, text)
    return _parsed(operator, value).accepts(given)


_KINDS = {text: ArgumentKind(number) for number, text in enumerate(LABELS["args", "type"])}
_parsed = lru_cache(partial(Condition, ""))


def older(ask: Ask, *, age: str, part: Part) -> list[str]:
    """Return the ids of traces of a part that began longer ago than a time such as `30d`.

    Those whose wall clock is not known are not among them.

    Raises:
        QuestionError: the time makes no sense, or a condition is about slices.
        QueryError: DuckDB is not installed.
    """
    latest = time.time_ns() - _seconds(age) * 1_000_000_000
    return [row["id"] for row in ask(f"select id from {TRACES} where start < {latest} and {part.of_traces()}")]


def column_of(key: str) -> str:
    """Return the value of a key of a row of `slices`, as SQL."""
    if key in _OF_SLICES:
        return key if key != "day" else "day::varchar"
    value = of_trace(key)
    return f"(select {value} from {TRACES} where id = trace)"


def is_of_traces(key: str) -> bool:
    """Return whether all slices of a trace have the same value of a key."""
    return key in _ON_BOTH or key in _OF_TRACES or key.startswith(_LABEL)


def of_trace(key: str) -> str:
    """Return the value of a key of a row of `traces`, as SQL."""
    if key in _ON_BOTH:
        return _ON_BOTH[key]
    if key in _OF_TRACES:
        return key
    if key.startswith(_LABEL) and len(key) > len(_LABEL):
        return f"labels[{sql_text(key.removeprefix(_LABEL))}]"
    if key in _OF_SLICES:
        raise QuestionError(f"{key!r} is a key of slices, not of traces")
    raise QuestionError(f"{shown(key)} is not a key; one of {', '.join(KEYS)}")


def _key(text: str) -> str:
    """Return the key of a condition."""
    return text.partition("=")[0]


def _condition(text: str, value_of: Callable[[str], str] = column_of) -> str:
    """Return a condition such as `program=app` as SQL; a value may be a pattern with `*` and `?`."""
    key, equals, value = text.partition("=")
    if not equals:
        raise QuestionError(f"{shown(text)} is not a condition such as program=app")
    pattern = re.sub(r"[\[\\]", lambda found: {"[": "[[]"}.get(found[0], r"\\"), value)
    matches = f"glob {sql_text(pattern)}" if {*"*?"} & {*value} else f"= {sql_text(value)}"
    return f"{value_of(key)} {matches}"


def _seconds(text: str) -> int:
    """Return the seconds in a time such as `7d`."""
    match = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    if match is None:
        raise QuestionError(f"{shown(text)} is not a time such as 7d, 12h or 30m")
    return int(match[1]) * _SECONDS[match[2]]
