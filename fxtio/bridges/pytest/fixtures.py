"""Fixtures: spans of their set-up and tear-down, and a track of its own for each that several tests share.

A fixture of a function is a span within the set-up or the tear-down of its test.  One of a wider scope is that as well,
with its scope in the name (`db (session)`), since the test waits for it; but what it costs belongs to no single test.
So its set-up and its tear-down are operations on a track of its own as well.

The next report of the test gets their times as an attribute, which pytest-xdist brings to the process that shows them.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from functools import partial
from typing import Any, NamedTuple

import pytest

from fxtio.bridges.pytest import CATEGORY, around
from fxtio.tracer import Operation
from fxtio.tracer.backend import recorder

_CATEGORY = f"{CATEGORY}.fixture"
_now = partial(time.perf_counter_ns)  # what stops the clocks of a test replaces functions of modules, such as this one
_PARAMETER = "get_direct_param_fixture_func"
"""The function of what pytest has as a fixture, but is a parameter."""


class FixtureTime(NamedTuple):
    """How long a fixture took.

    Attributes:
        name: its name.
        scope: its scope, such as `session`.
        phase: `setup` or `teardown`.
        seconds: the time, without that of other fixtures that it has asked for meanwhile.
    """

    name: str
    scope: str
    phase: str
    seconds: float


class _Phase:
    """A set-up or tear-down that runs.

    Args:
        fixture: the fixture.
        phase: `setup` or `teardown`.
        operation: what has a track of its own, None for the fixture of a function.

    Attributes:
        others_ns: the time of other fixtures in it.
    """

    __slots__ = ("_begin_ns", "_fixture", "_operation", "_phase", "_span", "others_ns")

    def __init__(self, fixture: pytest.FixtureDef[Any], phase: str, operation: Operation | None) -> None:
        self._fixture, self._phase, self._operation = fixture, phase, operation
        self.others_ns = 0
        name = f"{fixture.argname} ({fixture.scope})" if operation else fixture.argname
        self._span = recorder.span(name, _CATEGORY)
        self._span.__enter__()
        if operation:
            operation.begin(phase=phase, scope=fixture.scope)
        self._begin_ns = _now()

    def end(self) -> tuple[int, list[Any]]:
        """End it; return its nanoseconds, and the values of its `FixtureTime`."""
        passed = _now() - self._begin_ns
        if self._operation:
            self._operation.end()
        self._span.__exit__(None, None, None)
        own = (passed - self.others_ns) / 1e9
        return passed, [self._fixture.argname, self._fixture.scope, self._phase, own]


class Fixtures:
    """The plug-in that records fixtures.

    Attributes:
        times: the values of a `FixtureTime` for each set-up and tear-down that has ended.
    """

    def __init__(self) -> None:
        self.times: list[list[Any]] = []
        self._running: list[_Phase] = []
        self._operations: dict[pytest.FixtureDef[Any], Operation] = {}
        self._ending: dict[pytest.FixtureDef[Any], _Phase] = {}

    @around
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[Any, Any, Any]:
        """Record a set-up, and make sure that the tear-down is recorded, if there is one."""
        if getattr(fixturedef.func, "__name__", "") == _PARAMETER:
            return (yield)
        # Finalizers are called in reverse, and by the same function, so that spans of functions stay nested.  Those of
        # fixtures that use this one are added later.
        fixturedef.addfinalizer(partial(self._end_tear_down, fixturedef))
        finalizers = len(fixturedef._finalizers)
        phase = self._begin(fixturedef, "setup")
        try:
            return (yield)
        finally:
            self._end(phase)
            if len(fixturedef._finalizers) > finalizers:
                fixturedef.addfinalizer(partial(self._begin_tear_down, fixturedef))

    def _begin_tear_down(self, fixture: pytest.FixtureDef[Any]) -> None:
        self._ending[fixture] = self._begin(fixture, "teardown")

    def _end_tear_down(self, fixture: pytest.FixtureDef[Any]) -> None:
        phase = self._ending.pop(fixture, None)
        if phase is not None:
            self._end(phase)

    def _begin(self, fixture: pytest.FixtureDef[Any], name: str) -> _Phase:
        if fixture.scope != "function" and fixture not in self._operations:
            self._operations[fixture] = Operation(fixture.argname, _CATEGORY)
        phase = _Phase(fixture, name, self._operations.get(fixture))
        self._running.append(phase)
        return phase

    def _end(self, phase: _Phase) -> None:
        passed, own = phase.end()
        del self._running[self._running.index(phase) :]
        if self._running:
            self._running[-1].others_ns += passed
        self.times.append(own)
