"""Notices of a trace about itself, by its events: the command that was recorded, and how many events were lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from fxtio.arrays import Array
from fxtio.table import Table
from fxtio.timeline.arguments import Arguments
from fxtio.timeline.parts import Registry

_LOSSES = {
    ("drop_stats", "records"): "events",
    ("drop_stats", "num_records"): "records",
    ("lost records", "count"): "records",
}
"""The names of slices and instants that say how many events were lost, the argument with the number, and a noun."""

_FACTS = {
    ("recording", "command"): "Command",
    ("recording", "python"): "Python",
    ("recording", "engine"): "Functions recorded by",
}
"""The name of an instant, its argument, and the label of the fact that it is."""

_MAX_VALUES = 100


class Notices:
    """Collects what a trace says about itself; `enter` gets all rows of a batch, whatever is selected.

    Args:
        registry: the registry of the reading.
    """

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
        codes = [self._names.code(argument) for _, argument in (*_LOSSES, *_FACTS)]
        return np.isin(args["name"].codes, codes)

    def _note(self, rows: Table, events: tuple[str, ...]) -> None:
        codes = [self._names.code(name) for name, _ in (*_LOSSES, *_FACTS)]
        at = np.flatnonzero(np.isin(rows["name"].codes, codes))
        if not len(at):
            return
        texts = self._names.values
        found = self._arguments.of(*(rows[event][at] for event in events))
        owners = rows["name"].codes[at][found.row].tolist()
        for owner, argument, value in zip(owners, found.name.tolist(), found.values(texts), strict=True):
            key = (texts[owner], texts[argument])
            if key in _LOSSES and isinstance(value, int):
                self._lost[_LOSSES[key]] += value
            elif key in _FACTS and isinstance(value, str):
                values = self._facts.setdefault(_FACTS[key], {})
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
