"""The state at a place of a recording: open calls, other pairs of events, and the values of counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from fxtio.mono import records as r
from fxtio.mono.derived import counter_sum
from fxtio.mono.enums import CounterSection, MethodAction
from fxtio.mono.rules.sequences import PAIR_RULES, PairRule, Step

MOST_OPEN = 1 << 20
"""The most open calls and other events that are remembered; further ones are not."""

_MOST_COUNTERS = 1 << 16

_SPLIT = (r.HeapStart, r.HeapEnd)
"""The events of a pair that is not cut: a heap shot is wholly in the part or not at all."""

_RULES = tuple(rule for rule in PAIR_RULES if rule.opens.cls not in _SPLIT)

STATEFUL = frozenset({step.cls for rule in _RULES for step in (rule.opens, rule.closes)} | {r.Call})
"""The classes of events that begin or end something."""


@dataclass(slots=True)
class OpenEvent:
    """An event that has begun something.

    Attributes:
        event: the event; None if it is not written later, either.
        thread: the thread that wrote it.
        is_written: it is in the part.
    """

    event: Any
    thread: int
    is_written: bool

    @property
    def is_waiting(self) -> bool:
        """Whether it may be written at the start of the range."""
        return self.event is not None and not self.is_written


class OpenEvents:
    """The events that have begun something which has not ended, at most `MOST_OPEN`."""

    def __init__(self) -> None:
        self._waiting: dict[int, dict[int, OpenEvent]] = {}  # by thread and identity, in the order of the file
        self._calls: dict[int, list[tuple[int, OpenEvent]]] = {}  # by thread, with methods, the outermost first
        self._methods: Counter[tuple[int, int]] = Counter()  # how many calls are open, by thread and method
        self._pairs: dict[tuple[Any, ...], OpenEvent] = {}
        self._count = 0

    def put(self, event: Any, thread: int, *, waits: bool, is_written: bool) -> None:
        """Remember an event that begins something.

        Args:
            event: the event.
            thread: the thread that wrote it.
            waits: it is written at the start of the range if what it begins does not end before.
            is_written: it is in the part.
        """
        if self._count >= MOST_OPEN:
            return
        self._count += 1
        opened = OpenEvent(event if waits else None, thread, is_written)
        if type(event) is r.Call:
            self._calls.setdefault(thread, []).append((event.method, opened))
            self._methods[thread, event.method] += 1
        else:
            rule = _rule_of(event, is_end=False)
            assert rule is not None
            key = _key(rule, event, thread)
            if key in self._pairs:
                self._forget(self._pairs[key])
            self._pairs[key] = opened
        if waits:
            self._waiting.setdefault(thread, {})[id(opened)] = opened

    def opened_by(self, event: Any, thread: int) -> OpenEvent | None:
        """Return what an event ends, or None if nothing like it has begun; calls from within are forgotten."""
        if type(event) is not r.Call:
            rule = _rule_of(event, is_end=True)
            return None if rule is None else self._pairs.get(_key(rule, event, thread))
        if (thread, event.method) not in self._methods:
            return None
        while self._calls[thread][-1][0] != event.method:
            self._pop_call(thread)
        return self._calls[thread][-1][1]

    def end(self, event: Any, thread: int) -> None:
        """Forget what an event ends, if anything."""
        if type(event) is r.Call:
            if self.opened_by(event, thread) is not None:
                self._pop_call(thread)
            return
        rule = _rule_of(event, is_end=True)
        opened = None if rule is None else self._pairs.pop(_key(rule, event, thread), None)
        if opened is not None:
            self._forget(opened)

    def _pop_call(self, thread: int) -> None:
        method, opened = self._calls[thread].pop()
        self._methods[thread, method] -= 1
        if not self._methods[thread, method]:
            del self._methods[thread, method]
        self._forget(opened)

    def _forget(self, opened: OpenEvent) -> None:
        self._count -= 1
        self._waiting.get(opened.thread, {}).pop(id(opened), None)

    def threads(self) -> list[int]:
        """Return the threads with events that are waiting."""
        return [thread for thread, waiting in self._waiting.items() if waiting]

    def write(self, thread: int) -> list[Any]:
        """Return the events of a thread that are waiting, in order; they are in the part from now on."""
        waiting = self._waiting.pop(thread, {}).values()
        for opened in waiting:
            opened.is_written = True
        return [opened.event for opened in waiting]


def begins(event: Any) -> bool:
    """Return whether an event begins something."""
    if type(event) is r.Call:
        return bool(event.action == MethodAction.ENTER)
    return _rule_of(event, is_end=False) is not None


def ends(event: Any) -> bool:
    """Return whether an event ends something."""
    if type(event) is r.Call:
        return bool(event.action != MethodAction.ENTER)
    return _rule_of(event, is_end=True) is not None


def _rule_of(event: Any, *, is_end: bool) -> PairRule | None:
    """Return the rule of the pair that an event begins or ends."""
    for rule in _RULES:
        if _is_step(rule.closes if is_end else rule.opens, event):
            return rule
    return None


def _is_step(step: Step, event: Any) -> bool:
    return type(event) is step.cls and (not step.values or getattr(event, step.field) in step.values)


def _key(rule: PairRule, event: Any, thread: int) -> tuple[Any, ...]:
    return rule.not_open, *(thread if name == "thread" else getattr(event, name) for name in rule.key)


class CounterSums:
    """The values of counters, most of which a recording has as changes."""

    def __init__(self) -> None:
        self._absolute: set[int] = set()  # the indices of counters whose values are no changes
        self._values: dict[int, dict[int, r.CounterValue]] = {}  # by thread and index
        self._last: dict[int, r.CounterValues] = {}

    def describe(self, event: r.CounterDescriptions) -> None:
        """Take descriptions of counters."""
        self._absolute.update(
            each.index for each in event.counters
            if each.section == CounterSection.PERFCOUNTERS and len(self._absolute) < _MOST_COUNTERS
        )  # fmt: skip

    def add(self, event: r.CounterValues, thread: int) -> None:
        """Take values of counters that are not written."""
        values = self._values.setdefault(thread, {})
        self._last[thread] = event
        for each in event.values:
            before = values.get(each.index)
            if before is None and len(values) >= _MOST_COUNTERS:
                continue
            is_same = before is not None and before.type == each.type and each.index not in self._absolute
            if before is not None and is_same and isinstance(before.value, int) and isinstance(each.value, int):
                values[each.index] = replace(each, value=counter_sum(each.type, before.value, each.value))
            else:
                values[each.index] = each

    def threads(self) -> list[int]:
        """Return the threads whose values are not written yet."""
        return list(self._last)

    def write(self, thread: int) -> Iterator[r.CounterValues]:
        """Yield the values that a thread has written so far as an event; they are written from now on."""
        event, values = self._last.pop(thread, None), self._values.pop(thread, {})
        if event is not None:
            yield replace(event, values=tuple(values[index] for index in sorted(values)))
