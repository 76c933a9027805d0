"""The table of the slowest tests, with their fixtures, and of the fixtures that tests share, from pytest's reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from heapq import nlargest
from typing import Any, TypeVar

from fxtio.bridges.pytest.fixtures import FixtureTime
from fxtio.bridges.pytest.tests import FIXTURE_TIMES, is_subtest
from fxtio.display import as_text
from fxtio.report import Report, ReportTable, counted, short_duration

_ROWS = 10
_FIXTURES = 3
_PHASES = ("setup", "call", "teardown")

_Row = TypeVar("_Row")


class _Test:
    """The times of a test in seconds.

    Attributes:
        phases: by phase, without fixtures that other tests share.
        fixtures: by the name of the fixture.
    """

    __slots__ = ("fixtures", "phases")

    def __init__(self) -> None:
        self.phases: dict[str, float] = dict.fromkeys(_PHASES, 0.0)
        self.fixtures: defaultdict[str, float] = defaultdict(float)

    @property
    def total(self) -> float:
        """The time of all phases."""
        return sum(self.phases.values())


def slowest(reports: Iterable[Any]) -> str:
    """Return the tables as text.

    Args:
        reports: all reports of tests; others, such as those of collection, do not count.
    """
    tests: dict[str, _Test] = {}
    shared: dict[tuple[str, str], defaultdict[str, float]] = {}
    for report in reports:
        if getattr(report, "when", None) not in _PHASES or is_subtest(report):
            continue
        test = tests.get(report.nodeid) or tests.setdefault(report.nodeid, _Test())
        test.phases[report.when] += report.duration
        for values in getattr(report, FIXTURE_TIMES, ()):
            each = FixtureTime(*values)
            if each.scope == "function":
                test.fixtures[each.name] += each.seconds
            else:
                shared.setdefault((each.name, each.scope), defaultdict(float))[each.phase] += each.seconds
                test.phases[report.when] = max(test.phases[report.when] - each.seconds, 0)
    tables = [_tests_table(tests), _shared_table(shared)]
    title = f"{counted(len(tests), 'test')}; the time of fixtures that tests share is in none of them"
    return as_text(Report(title, tables=[table for table in tables if table.rows]))


def _tests_table(tests: dict[str, _Test]) -> ReportTable:
    kept, more = _first(tests.items(), lambda item: item[1].total)
    rows = [(*map(_time, (test.total, *test.phases.values())), name, _names(test.fixtures)) for name, test in kept]
    return ReportTable([">total", *(f">{name}" for name in _PHASES), "test", "its fixtures"], rows, more)


def _names(fixtures: dict[str, float]) -> str:
    """Return the fixtures that took the most time, with it."""
    longest, _ = _first(fixtures.items(), lambda item: item[1], _FIXTURES)
    return ", ".join(f"{name} {_time(seconds)}" for name, seconds in longest)


def _shared_table(shared: dict[tuple[str, str], defaultdict[str, float]]) -> ReportTable:
    kept, more = _first(shared.items(), lambda item: sum(item[1].values()))
    rows = [
        (*map(_time, (sum(times.values()), times["setup"], times["teardown"])), name, scope)
        for (name, scope), times in kept
    ]
    return ReportTable([">total", ">setup", ">teardown", "shared fixture", "scope"], rows, more)


def _first(rows: Collection[_Row], key: Callable[[_Row], float], limit: int = _ROWS) -> tuple[list[_Row], int]:
    """Return the first rows in the order of their times, and the number of the others."""
    return nlargest(limit, rows, key), max(len(rows) - limit, 0)


def _time(seconds: float) -> str:
    return short_duration(round(seconds * 1e9))
