"""Groups of rows: by name, category, thread, process, track, or the value of an argument."""

from __future__ import annotations

import numpy as np

from fxtio.arrays import Array
from fxtio.table import Table
from fxtio.timeline.answers.answer import QuestionError
from fxtio.timeline.answers.labels import Labels, argument_text, text_of
from fxtio.timeline.answers.rows import Tracks
from fxtio.timeline.arguments import Arguments
from fxtio.timeline.parts import OTHER, Registry

ARGUMENT = "arg:"
"""The prefix of the name of an argument by which rows are grouped."""

GROUPINGS = ("name", "category", "thread", "process", "track")
"""The properties by which slices may be grouped, besides the value of an argument."""

MAX_VALUES = 1_000_000
"""The most different values of an argument; all further ones are one group."""


class Groups:
    """Gives each slice the number of its group.

    Args:
        registry: the registry of the reading.
        by: one of `GROUPINGS`, or `arg:` and the name of an argument.

    Raises:
        QuestionError: there is no such grouping.
    """

    def __init__(self, registry: Registry, by: str) -> None:
        self.by = by
        self._registry = registry
        self._tracks = Tracks(registry)
        self.arguments: Arguments | None = None
        self._number_of: dict[tuple[int, int, int], int] = {}
        self._values: list[tuple[int, int, int]] = []  # type, bits and code of the text
        if by.startswith(ARGUMENT):
            self._argument = by.removeprefix(ARGUMENT)
            if not self._argument:
                raise QuestionError(f"{by!r} names no argument; write {ARGUMENT}NAME")
            self.arguments = Arguments(registry, accepts=self._is_asked_for)
        elif by not in GROUPINGS:
            raise QuestionError(f"{by!r} is not something to group by; there are {', '.join(GROUPINGS)}, arg:NAME")

    def of(self, slices: Table) -> Array:
        """Return the group of each slice (int64), -1 for those that have none: slices without the argument."""
        if self.arguments is not None:
            return self._values_of(slices)
        track: Array = slices["track"]
        if self.by == "track":
            return track.astype(np.int64)
        rows: Array
        if self.by in ("name", "category"):
            rows = slices[self.by].codes
        else:
            rows = self._tracks.threads(track) if self.by == "thread" else self._tracks.processes(track)
        return rows.astype(np.int64) + 1

    def label(self, group: int, labels: Labels) -> str:
        """Return the text for a group."""
        if self.arguments is not None:
            if group >= MAX_VALUES:
                return OTHER
            kind, bits, code = self._values[group]
            return argument_text(kind, bits, text_of(self._registry.names.values, code))
        if self.by in ("name", "category"):
            return text_of(self._registry.names.values, group - 1)
        if self.by == "track":
            return labels.track(group)
        return labels.thread(group - 1) if self.by == "thread" else labels.process(group - 1)

    def _is_asked_for(self, args: Table) -> Array:
        code = self._registry.names.code(self._argument)
        asked: Array = args["name"].codes == code
        return asked

    def _values_of(self, slices: Table) -> Array:
        """Return the number of the value of the argument of each slice; the argument of its end comes first."""
        arguments = self.arguments
        assert arguments is not None
        values = arguments.of(slices["event"], slices["end_event"])
        result: Array = np.full(slices.num_rows, -1, np.int64)
        if len(values):
            columns = [values.kind.astype(np.int64), values.bits.view(np.int64), values.text.astype(np.int64)]
            distinct, place = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
            bits = distinct[:, 1].astype(np.uint64)
            each = zip(distinct[:, 0].tolist(), bits.tolist(), distinct[:, 2].tolist(), strict=True)
            numbers = np.array([self._number(value) for value in each], np.int64)
            result[values.row] = numbers[place.reshape(-1)]
        return result

    def _number(self, value: tuple[int, int, int]) -> int:
        """Return the number of a value, a new one if it is new."""
        number = self._number_of.get(value)
        if number is None:
            if len(self._values) >= MAX_VALUES:
                return MAX_VALUES
            number = self._number_of[value] = len(self._values)
            self._values.append(value)
        return number
