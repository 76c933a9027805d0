"""What a trace says in words: messages of logs, errors first; instants by name; notices about the recording itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np

from fxtio.arrays import Array
from fxtio.html import contents
from fxtio.html.contents import Cell, Groups, Section
from fxtio.table import Table
from fxtio.timeline.answers.answer import Labels, text_of
from fxtio.timeline.arguments import Arguments
from fxtio.timeline.parts import PAIR, Registry
from fxtio.timeline.schema import FACTS, LOSSES

MAX_MESSAGES = 500
"""The most messages of each kind, errors and others, that are kept."""

MAX_INSTANTS = 300
"""The most names of instants that are shown."""

_LEVEL = re.compile(r"(critical|fatal|error|warning|warn)\b", re.IGNORECASE)
_SIZE = 150_000


class Messages:
    """Collects messages of logs: the first errors and warnings, and the first of all others."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._count = 0
        self._errors: list[tuple[int, int, int, int]] = []  # time, thread, level, message
        self._others: list[tuple[int, int, int, int]] = []
        self._is_error = lru_cache(1 << 12)(self._looks_like_error)

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the messages of a batch."""
        if "logs" not in tables:
            return
        logs = tables["logs"]
        self._count += logs.num_rows
        level, message = logs["level"].codes, logs["message"].codes
        columns = (logs["time"], logs["thread"], level, message)
        if len(self._errors) < MAX_MESSAGES or len(self._others) < MAX_MESSAGES:
            pairs, place = np.unique(level.astype(np.int64) * PAIR + message + 1, return_inverse=True)
            is_error = np.array([self._is_error(*divmod(pair, PAIR)) for pair in pairs.tolist()], bool)[place]
            for kept, rows in ((self._errors, np.flatnonzero(is_error)), (self._others, np.flatnonzero(~is_error))):
                rows = rows[: MAX_MESSAGES - len(kept)]
                kept += zip(*(column[rows].tolist() for column in columns), strict=True)

    def _looks_like_error(self, level: int, message: int) -> bool:
        """Return whether a message is an error or a warning, by its level or, without one, by its begin."""
        values = self._registry.names.values
        text = values[level] if level >= 0 else values[message - 1] if message > 0 else ""
        return _LEVEL.match(text) is not None

    def section(self, labels: Labels, origin: int) -> Section | None:
        """Return the section with the messages, None if there are none."""
        if not self._count:
            return None
        shown = [*self._errors, *self._others][:MAX_MESSAGES]
        values = self._registry.names.values
        has_levels = any(level >= 0 for _, _, level, _ in shown)
        rows: list[list[str | Cell]] = [
            [
                contents.moment(time, origin),
                *([values[level] if level >= 0 else ""] if has_levels else []),
                values[message] if message >= 0 else "",
                labels.thread(thread),
            ]
            for time, thread, level, message in shown
        ]
        headers = ["At", *(["Level"] if has_levels else []), "Message", "Thread"]
        notes = ["Errors and warnings come first."] if self._errors and self._others else []
        return Section("Log", [contents.grid(headers, rows, more=self._count - len(shown), size=_SIZE)], notes)


class Instants:
    """Counts instants by category and name."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._groups = Groups()

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the instants of a batch."""
        if "instants" in tables:
            instants = tables["instants"]
            keys = [instants[name].codes for name in ("category", "name")]
            self._groups.add(keys, dict.fromkeys(("min", "max"), instants["time"]))

    def section(self, origin: int) -> Section | None:
        """Return the section with the instants, None if there are none."""
        groups, totals, values = self._groups.largest("calls"), self._groups.totals, self._registry.names.values
        if not groups:
            return None
        rows: list[list[str | Cell]] = [
            [
                text_of(values, name),
                values[category] if category >= 0 else "",
                contents.count(int(totals["calls"][number])),
                *(contents.moment(int(totals[column][number]), origin) for column in ("min", "max")),
            ]
            for (category, name), number in groups[:MAX_INSTANTS]
        ]
        headers = ["Name", "Category", "Count", "First", "Last"]
        more, missed = len(groups) - len(rows), self._groups.missed
        notes = [f"{missed:,} instants with further names are not counted."] if missed else []
        return Section("Instants", [contents.grid(headers, rows, more=more, size=_SIZE)], notes)


_MAX_VALUES = 100


class Notices:
    """Collects what a trace says about itself; `enter` gets all rows of a batch, whatever is selected."""

    def __init__(self, registry: Registry) -> None:
        self._names = registry.names
        self._arguments = Arguments(registry, accepts=self._is_asked_for)
        self._lost: Counter[str] = Counter()
        self._facts: dict[str, dict[str, None]] = {}

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the rows of a batch."""
        self._arguments.enter(tables)
        for name, events in (("slices", ("event", "end_event")), ("instants", ("event",))):
            if name in tables:
                self._note(tables[name], events)
        self._arguments.leave(tables)

    def _is_asked_for(self, args: Table) -> Array:
        codes = [self._names.code(argument) for _, argument in (*LOSSES, *FACTS)]
        return np.isin(args["name"].codes, codes)

    def _note(self, rows: Table, events: tuple[str, ...]) -> None:
        codes = [self._names.code(name) for name, _ in (*LOSSES, *FACTS)]
        at = np.flatnonzero(np.isin(rows["name"].codes, codes))
        if not len(at):
            return
        texts = self._names.values
        found = self._arguments.of(*(rows[event][at] for event in events))
        owners = rows["name"].codes[at][found.row].tolist()
        for owner, argument, value in zip(owners, found.name.tolist(), found.values(texts), strict=True):
            key = (texts[owner], texts[argument])
            if key in LOSSES and isinstance(value, int):
                self._lost[LOSSES[key]] += value
            elif key in FACTS and isinstance(value, str):
                values = self._facts.setdefault(FACTS[key], {})
                if len(values) < _MAX_VALUES:
                    values[value] = None

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield the facts: pairs of a label and a text."""
        for label, values in self._facts.items():
            for value in values:
                yield label, value

    def losses(self) -> str:
        """Return how much was lost, as text; empty if the trace says nothing about it."""
        return ", ".join(f"{number:,} {noun}" for noun, number in self._lost.items() if number > 0)
