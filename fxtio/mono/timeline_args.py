"""The arguments of the events of a batch, collected column by column."""

from __future__ import annotations

import numpy as np

from fxtio.arrays import Array
from fxtio.table import Column
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import ArgumentKind


class Arguments:
    """The arguments of the events of a batch.

    Args:
        registry: has the names.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._blocks: list[tuple[Array, int, ArgumentKind, Array, Array]] = []

    def add(self, events: Array, name: str, kind: ArgumentKind, bits: Array) -> None:
        """Add a number for each event (uint64)."""
        self._add(events, name, kind, bits, np.full(len(events), -1, np.int32))

    def add_texts(self, events: Array, name: str, codes: Array) -> None:
        """Add a text for each event, given by the codes of names."""
        self._add(events, name, ArgumentKind.TEXT, np.zeros(len(events), np.uint64), codes)

    def _add(self, events: Array, name: str, kind: ArgumentKind, bits: Array, text: Array) -> None:
        if len(events):
            self._blocks.append((events, self._registry.names.code(name), kind, bits, text))

    def table(self) -> dict[str, Column]:
        """Return the rows of the table `args`, in the order of the events."""
        events = np.concatenate([np.empty(0, np.int64), *(block[0] for block in self._blocks)])
        order = np.argsort(events, kind="stable")
        sizes = [len(block[0]) for block in self._blocks]
        names = np.repeat(np.array([block[1] for block in self._blocks], np.int32), sizes)
        kinds = np.repeat(np.array([block[2] for block in self._blocks], np.int8), sizes)
        bits = np.concatenate([np.empty(0, np.uint64), *(block[3] for block in self._blocks)])
        text = np.concatenate([np.empty(0, np.int32), *(block[4] for block in self._blocks)])
        values = {"event": events, "name": names, "type": kinds, "bits": bits, "text": text}
        return self._registry.columns("args", {name: column[order] for name, column in values.items()})
