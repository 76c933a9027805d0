"""The fields of records that a cut looks at, with a row for each record of a batch.

A kernel reads those of all events at once if the batch has none but plain ones, see `fxtio.fxt.plain`.  Other fields
are read class by class, when they are needed.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from fxtio import _native
from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.codec.record import Record, layout_of
from fxtio.fxt import records as r
from fxtio.fxt.plain import EVENT_COLUMNS, STEPS, PlainReader
from fxtio.fxt.records import KINDS, RECORDS, ThreadReference
from fxtio.fxt.rewrite import broken
from fxtio.fxt.state import Batch

Classes = frozenset[type[Record]]

_STEPS: dict[type[Record], SpanStep] = {**STEPS, r.Counter: SpanStep.INSTANT}  # any but NONE: it is read, too

EVENTS = frozenset(_STEPS)
"""The classes of events."""

FLOWS: Classes = frozenset({r.FlowBegin, r.FlowStep, r.FlowEnd})
"""The classes of the points of flows."""

NAMED = frozenset(cls for cls in RECORDS.classes if {"timestamp", "category", "name"} <= {*cls.__struct_fields__})
"""The classes of records with a time that have a category and a name: events, and blobs with metadata."""

THREADED = frozenset(
    cls for cls in RECORDS.classes if isinstance(dict(layout_of(cls).parts).get("thread"), ThreadReference)
)
"""The classes of records that have a thread."""

TIMED = frozenset(cls for cls in RECORDS.classes if "timestamp" in cls.__struct_fields__)
"""The classes of records that have a time."""

_COLUMNS = {"timestamp": "ticks", "thread": "track", "category": "category", "name": "name", "tail": "tail"}
"""The arrays, and the column of `EventColumns` that each is."""

_TAILS = ("end", "id")
"""The names of what an event has behind its arguments."""


def event_reader() -> PlainReader:
    """Return what reads the events of a batch if all are plain; their arguments may be whatever they are."""
    return PlainReader(_STEPS, None)


class Fields:
    """The fields of the records of a batch.  An array has a row for each record.

    Args:
        batch: the batch.
        reader: reads plain events.

    Attributes:
        plain: the classes of which all records are plain events: all of `EVENTS` or none.
    """

    def __init__(self, batch: Batch, reader: PlainReader) -> None:
        self._batch = batch
        read = None
        if self.present(EVENTS):
            read = reader.read(batch, _unchanged, _unchanged, 0, with_arguments=False)
        self.plain: Classes = frozenset() if read is None else EVENTS
        self._arrays = {} if read is None else {name: getattr(read[0], of) for name, of in _COLUMNS.items()}
        self._filled = {name: set(self.plain) for name in _COLUMNS}
        self._are: dict[Classes, Array] = {}
        self._broken: Array | None = None
        self._has_broken = False

    def present(self, classes: Classes) -> list[type[Record]]:
        """Return those of some classes that occur."""
        return [cls for cls in self._batch.classes() if cls in classes]

    def broken(self) -> Array:
        """Return which records are too short for their content (bool)."""
        if self._broken is None:
            self._broken = broken(self._batch, self.plain)
            self._has_broken = bool(self._broken.any())
        return self._broken

    def are(self, classes: Classes) -> Array:
        """Return which records are of some classes, and are not broken (bool); the array must not be changed."""
        result = self._are.get(classes)
        if result is None:
            kind, present = self._batch.frame.kind, self.present(classes)
            if len(present) == len(self._batch.classes()):
                result = kind >= 0
            else:
                result = np.zeros(len(kind), bool)
                for cls in present:
                    result |= kind == KINDS[cls]
            without = self.broken()
            if self._has_broken:
                result &= ~without
            self._are[classes] = result
        return result

    def rows(self, classes: Classes) -> Array:
        """Return the numbers of the records of some classes that are not broken (int64, ascending)."""
        self.broken()
        if self._has_broken:
            return np.flatnonzero(self.are(classes))
        kind = self._batch.frame.kind
        rows = np.empty(len(kind), np.int64)
        return rows[: _native.choose_rows(kind, _table(classes), rows)]

    def ticks(self) -> Array:
        """Return the times of all records that have one (uint64); 0 for others."""
        return self._filled_array("timestamp", TIMED)

    def threads(self, classes: Classes) -> Array:
        """Return the codes of the threads of the records of some classes (int32), -1 for one that is not defined.

        The other rows mean nothing; this is the same for all functions below.
        """
        return self._filled_array("thread", classes)

    def categories(self, classes: Classes) -> Array:
        """Return the codes of the categories of the records of some classes (int32), -1 for one that is not defined."""
        return self._filled_array("category", classes)

    def names(self, classes: Classes) -> Array:
        """Return the codes of the names of the records of some classes (int32), -1 for one that is not defined."""
        return self._filled_array("name", classes)

    def tails(self, classes: Classes) -> Array:
        """Return what the events of some classes have behind their arguments, an end or an id (uint64)."""
        return self._filled_array("tail", classes)

    def _filled_array(self, name: str, classes: Classes) -> Array:
        """Return the array of a field, after filling in the rows of some classes."""
        filled = self._filled[name]
        array = self._arrays.get(name)
        if array is None:
            dtype, default = EVENT_COLUMNS[_COLUMNS[name]]
            array = self._arrays[name] = np.full(len(self._batch), default, dtype)
        for cls in self.present(classes):
            if cls not in filled:
                filled.add(cls)
                rows, columns = self._batch.columns(cls)
                if name == "thread":
                    array[rows] = self._batch.thread_codes(columns[name], rows)
                elif name in ("category", "name"):
                    array[rows] = self._batch.string_codes(columns[name], rows)
                elif name == "tail":
                    array[rows] = next(columns[tail] for tail in _TAILS if tail in columns)
                else:
                    array[rows] = columns[name]
        return array


@cache
def _table(classes: Classes) -> Array:
    """Return for each kind whether its class is one of some classes (bool)."""
    table = np.zeros(len(RECORDS.classes), bool)
    table[[KINDS[cls] for cls in classes]] = True
    return table


def _unchanged(codes: Array) -> Array:
    return codes
