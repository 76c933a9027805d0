"""The arguments of slices, instants and others, joined in a stream: arguments come not later than their owners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fxtio.table import Table, joined
from fxtio.timeline.answers.labels import ArgumentValue, argument_value
from fxtio.timeline.parts import Registry

Array = np.ndarray[Any, Any]


class Arguments:
    """Arguments that wait for the rows to which they belong.

    Args:
        registry: the registry of the reading.
        accepts: returns which rows of a table of arguments are of interest (bool), None for all.
    """

    def __init__(self, registry: Registry, accepts: Callable[[Table], Array] | None = None) -> None:
        self._registry = registry
        self._accepts = accepts
        self._rows: Table | None = None  # in the order of their events
        self._latest = -1  # the latest event that was seen

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the arguments of a batch, which may have none."""
        if "args" not in tables:
            return
        rows = tables["args"]
        if self._accepts is not None:
            rows = rows.take(self._accepts(rows))
        if self._rows is not None and self._rows.num_rows:
            rows = Table({name: joined([column, rows[name]]) for name, column in self._rows.items()})
        if (np.diff(rows["event"]) < 0).any():
            rows = rows.take(np.argsort(rows["event"], kind="stable"))
        self._rows = rows

    def last_of(self, events: Array) -> Array:
        """Return the row of the last argument of each event (int64), -1 without any."""
        if self._rows is None or not self._rows.num_rows:
            return np.full(len(events), -1, np.int64)
        own = self._rows["event"]
        place = np.searchsorted(own, events, side="right") - 1
        return np.where((place >= 0) & (own[place] == events), place, -1)

    def column(self, name: str) -> Any:
        """Return a column of the arguments that wait, in the order of the rows of `last_of`; None without any."""
        return None if self._rows is None else self._rows[name]

    def of(self, *events: int) -> dict[str, ArgumentValue]:
        """Return the arguments of events by name; of several with the same name the last one."""
        result: dict[str, ArgumentValue] = {}
        if self._rows is None:
            return result
        own, names, texts = (self._rows[name] for name in ("event", "name", "text"))
        kinds, bits = self._rows["type"].codes, self._rows["bits"]
        for event in events:
            for row in range(*np.searchsorted(own, [event, event + 1]).tolist()):
                result[names[row] or ""] = argument_value(int(kinds[row]), int(bits[row]), texts[row])
        return result

    def forget(self, tables: Mapping[str, Table]) -> None:
        """Forget what belongs to the rows of a batch, or to none.

        What is kept belongs to slices that have not ended, and to rows that come later.
        """
        waiting = self._registry.open_slices()
        still_open = np.concatenate([waiting["event"], waiting["end_event"]])
        seen = [still_open, *(tables[name]["event"] for name in ("slices", "instants") if name in tables)]
        self._latest = max(self._latest, *(int(events.max(initial=-1)) for events in seen))
        if self._rows is not None and self._rows.num_rows:
            own = self._rows["event"]
            waits = (own > self._latest) | np.isin(own, still_open)
            if not waits.all():
                self._rows = self._rows.take(waits)
