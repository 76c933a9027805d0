"""The events of one recording within a batch, as columns; the base of all checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import GOLDEN_RATIO
from fxtio.codec.stream.declare import Repeated, parts_of
from fxtio.finding import KEPT_PER_RULE, Findings
from fxtio.mono import records as r
from fxtio.mono.columns import Batch
from fxtio.mono.frames import Recording

EventClass = type[r.Event]


KINDS: dict[EventClass, int] = {cls: kind for kind, cls in enumerate(r.EVENTS)}
"""The number of each class of events."""

Message = str | Callable[[int], str]


class View:
    """The events in some buffers in a row, which belong to one recording.

    Args:
        batch: the batch, with all columns filled.
        bounds: for each buffer, and after the last one, the rows before it by owner (int64).
        first: the first buffer.
        last: the buffer after the last one.

    Attributes:
        present: the classes of which there are events.
        version: the data version of the events.
        headers: the headers of the buffers.
        header_offsets: the byte offset of each of them in the trace.
        goes_back: in which buffers there may be times before that of the header or of the event before (bool).
        data: the bytes of the batch (uint8).
        place: where the events are in `data`.
    """

    def __init__(self, batch: Batch, bounds: Array, first: int, last: int) -> None:
        self._batch = batch
        self._begin, self._end = bounds[first], bounds[last]
        self._counts = batch.counts[first:last]
        kinds = np.flatnonzero(self._end[: len(KINDS)] > self._begin[: len(KINDS)])
        self.present = frozenset(r.EVENTS[kind] for kind in kinds.tolist())
        frame = batch.frame
        self.version = frame.dialect.version
        self.pointer_bits = frame.dialect.width
        self.headers = frame.headers[first:last]
        self.header_offsets = frame.base + frame.begin[first:last] - self.headers.dtype.itemsize
        self.goes_back = batch.goes_back[first:last]
        self.data = frame.data
        self.place = slice(int(frame.begin[first]), int(frame.end[last - 1])) if first < last else slice(0)

    def has(self, cls: EventClass) -> bool:
        """Return whether there are events of a class."""
        return cls in self.present

    def _rows(self, owner: int) -> slice:
        return slice(int(self._begin[owner]), int(self._end[owner]))

    def column(self, cls: EventClass, field: str, role: str = "value") -> Array | None:
        """Return a column of the events of a class, or None if the version does not have it."""
        column = self._batch.column(KINDS[cls], field, role)
        return None if column is None else column[self._rows(KINDS[cls])]

    def values(self, cls: EventClass, field: str) -> Array:
        """Return the numbers of a field that all versions have."""
        column = self.column(cls, field)
        assert column is not None
        return column

    def offsets(self, cls: EventClass) -> Array:
        """Return where the events of a class begin, in bytes from the beginning of the trace (int64)."""
        column = self.column(cls, "", "offset")
        assert column is not None
        return column

    def times(self, cls: EventClass) -> Array:
        """Return the times of the events of a class in nanoseconds (int64)."""
        times: Array = self._batch.times(KINDS[cls])[self._rows(KINDS[cls])]
        return times

    def counts(self, cls: EventClass) -> Array:
        """Return the number of events of a class in each buffer (int64)."""
        counts: Array = self._counts[:, KINDS[cls]]
        return counts

    def buffers(self, cls: EventClass) -> Array:
        """Return the number of the buffer of each event of a class (int64)."""
        return np.repeat(np.arange(len(self.headers)), self.counts(cls))

    def threads(self, cls: EventClass) -> Array:
        """Return the thread that wrote each event of a class (uint64)."""
        return np.repeat(self.headers["thread"].astype(np.uint64), self.counts(cls))

    def read(self, cls: EventClass, field: str, role: str = "value") -> tuple[Array, Array] | None:
        """Return the numbers of a field, and the byte offset of the event of each.

        Args:
            cls: the class of events.
            field: the field; `list[]` for the items of a list of numbers, `list[].field` for a field of other items,
                `list[#]` for the numbers of items.
            role: `text` or `length` for where texts begin in `data` (-1 for none), or their sizes.

        Returns:
            The two columns, or None if there are no such events, or the version does not have the field.
        """
        if not self.has(cls):
            return None
        name, _, item = field.partition("[")
        values = self.column(cls, name, "count" if item else role)
        if values is None:
            return None
        offsets = self.offsets(cls)
        if not item:
            return values, offsets
        counts = np.maximum(values, 0)
        if item == "#]":
            return counts, offsets
        owner = self._batch.steps.list_owner(KINDS[cls], name)
        column = None if owner is None else self._batch.column(owner, item.removeprefix("]").removeprefix("."), role)
        return None if owner is None or column is None else (column[self._rows(owner)], np.repeat(offsets, counts))

    def texts(self) -> Iterator[tuple[EventClass, str, Array, Array, Array]]:
        """Yield all columns of texts: the class, the field, where texts begin in `data`, their sizes, the offsets."""
        for cls in filter(self.has, KINDS):
            for field, parts in parts_of(cls).items():
                items = next((part.of for part in parts if isinstance(part, Repeated)), None)
                inner = [f"{field}[].{name}" for name in parts_of(items)] if isinstance(items, type) else []
                for path in (field, *inner):
                    begin, size = (self.read(cls, path, role) for role in ("text", "length"))
                    if begin is not None and size is not None:
                        yield cls, path, begin[0], size[0], begin[1]


class Check(ABC):
    """The base of checks of one recording, which see its events view by view, in the order of the file.

    Args:
        recording: the recording.
        findings: takes the findings.
    """

    classes: ClassVar[tuple[EventClass, ...]]
    """The classes of events that it looks at; it skips views that have none of them."""

    def __init__(self, recording: Recording, findings: Findings) -> None:
        self.recording = recording
        self.findings = findings

    def add(self, view: View) -> None:
        """Check the next events."""
        if not view.present.isdisjoint(self.classes):
            self._add(view)

    @abstractmethod
    def _add(self, view: View) -> None:
        """Check the next events, of which there is at least one of `classes`."""

    def finish(self) -> None:  # noqa: B027  # most checks have nothing to do at the end
        """Check what follows from all events."""

    def report(self, rule: str, rows: Array, offsets: Array, message: Message = "") -> None:
        """Add a finding for each of some rows.

        Args:
            rule: the id of the rule without the format.
            rows: the numbers of the rows, or a mask of them.
            offsets: the byte offsets of all rows.
            message: what is wrong, or what returns it for the number of a row; by default what the rule says.
        """
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        if not len(rows):
            return
        room = max(KEPT_PER_RULE - self.findings.counts[f"{self.findings.format}.{rule}"], 0)
        for place, row in enumerate(rows[: room + 1].tolist()):
            text = message if isinstance(message, str) else message(row)
            self.findings.add(rule, int(offsets[row]), text, times=len(rows) - room if place == room else 1)


_FACTOR = np.uint64(GOLDEN_RATIO)


def mixed(*columns: Array) -> Array:
    """Return a number (uint64) for each row, the same for equal rows and hardly ever for others."""
    numbers: Array = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        numbers = (numbers + column.astype(np.uint64)) * _FACTOR  # wraps
        numbers ^= numbers >> np.uint64(29)
    return numbers
