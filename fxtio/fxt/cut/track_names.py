"""The names of the tracks of tasks, which a part of a trace needs as well.

A track of async events has the name of its first event.  A recorder names the track of a task by an instant at its
begin, in an operation of its own: in a part that begins later, they are written again at its start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.generate import encode
from fxtio.fxt import records as r
from fxtio.fxt.cut.early import EarlyRecord, Head, fitting
from fxtio.fxt.cut.fields import Classes
from fxtio.fxt.cut.marks import Marked
from fxtio.fxt.rules.view import MAX_KEPT
from fxtio.fxt.state import Clock

CATEGORY = "asyncio"
"""The category of instants that name the track of a task."""

_INSTANTS: Classes = frozenset({r.AsyncInstant})
_ASYNC: Classes = frozenset({r.AsyncBegin, r.AsyncInstant, r.AsyncEnd})
_LABEL: tuple[Any, ...] = (r.AsyncBegin, r.AsyncInstant, r.AsyncEnd)


@dataclass(frozen=True, slots=True)
class _Name:
    """The name of a track, and where it was: see `EarlyRecord`."""

    text: str
    thread: r.Thread
    provider: int
    clock: Clock
    tick: int


class TrackNames:
    """The names of tracks from before the range; of more than `MAX_KEPT` the latest."""

    def __init__(self) -> None:
        self._names: dict[int, _Name] = {}  # by the id of the track
        self._used: set[int] = set()  # ids of tracks with events in the range

    def enter(self, marked: Marked) -> None:
        """Take the names in a batch."""
        if not marked.has_start or not marked.has_before or not marked.fields.present(_INSTANTS):
            return
        batch, fields = marked.batch, marked.fields
        rows = np.flatnonzero(fields.are(_INSTANTS) & marked.before & marked.chosen)
        names, threads = fields.names(_INSTANTS), fields.threads(_INSTANTS)
        is_name = fields.categories(_INSTANTS)[rows] == batch.strings.code(CATEGORY)
        rows = rows[is_name & (names[rows] >= 0) & (threads[rows] >= 0)]
        providers = np.broadcast_to(batch.provider_of(rows), len(rows))
        columns = rows, fields.tails(_INSTANTS)[rows], names[rows], threads[rows], providers, marked.ticks[rows]
        texts, owners = batch.strings.values, batch.threads.values
        for row, track, name, thread, provider, tick in zip(*(column.tolist() for column in columns), strict=True):
            if track not in self._names:
                clock = batch.clock_at(provider, row)
                owner = r.Thread(owners[thread].process, owners[thread].thread or 0)
                self._names[track] = _Name(fitting(texts[name]), owner, provider, clock, tick)
        while len(self._names) > MAX_KEPT:
            del self._names[next(iter(self._names))]

    def note_used(self, marked: Marked) -> None:
        """Note the tracks with events that are taken over."""
        if self._names and marked.fields.present(_ASYNC):
            ids = marked.fields.tails(_ASYNC)[np.flatnonzero(marked.taken & marked.fields.are(_ASYNC))]
            self._used |= self._names.keys() & set(np.unique(ids).tolist())

    def finish(self, head: Head, still_open: Array) -> None:
        """Pass on the names that the part needs.

        Args:
            head: takes them.
            still_open: the ids of tracks on which operations are open at the end (uint64).
        """
        for track in self._used | (self._names.keys() & set(still_open.tolist())):
            name = self._names[track]
            for cls in _LABEL:
                raw = encode(cls(name.tick, name.thread, CATEGORY, name.text, (), track))
                place = 8 * len(cls.words)
                head.add(EarlyRecord(name.provider, name.clock, raw, name.tick, (place,), {}))
