"""What is repeated at the start of the range: the last values of counters and CPUs, and the names of tracks of tasks.

A track of async events has the name of its first event.  A recorder names the track of a task by an instant at its
begin, in an operation of its own: in a part that begins later, they are written again at its start.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import number_distinct
from fxtio.codec.generate import encode
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.cut.body import fitting
from fxtio.fxt.cut.early import MAX_BYTES, EarlyRecord, Head, early_records
from fxtio.fxt.cut.marks import Classes, Marked
from fxtio.fxt.rules.view import MAX_KEPT

CATEGORY = "asyncio"
"""The category of instants that name the track of a task."""

_FACTOR = np.uint64(2 * secrets.randbits(63) + 1)
_INSTANTS: Classes = frozenset({r.AsyncInstant})
_LABEL: tuple[Any, ...] = (r.AsyncBegin, r.AsyncInstant, r.AsyncEnd)
_ASYNC: Classes = frozenset(_LABEL)


class Latest:
    """The last record before the range of each counter and each CPU; at most `MAX_KEPT` in all."""

    def __init__(self) -> None:
        self._size = 0  # bytes of these records
        self._last: dict[tuple[Any, ...], EarlyRecord] = {}

    def enter(self, marked: Marked) -> None:
        """Take the records of a batch."""
        for cls in (r.Counter, r.ContextSwitch, r.LegacyContextSwitch):
            chosen = marked.chosen if cls is r.Counter else marked.choice.nameless
            rows = np.flatnonzero(marked.before & marked.are(frozenset({cls})) & chosen)
            if len(rows):
                self._enter(marked, cls, rows)

    def _enter(self, marked: Marked, cls: type[Record], rows: Array) -> None:
        batch = marked.batch
        numbers: list[Array] = [np.broadcast_to(batch.provider_of(rows), len(rows))]
        names: list[Array] = []
        if cls is r.Counter:
            numbers += [marked.koids(rows)[:, 0], marked.tails[rows]]
            names = [marked.names[rows], marked.categories[rows]]
        else:
            all_rows, columns = batch.columns(cls)
            numbers.append(columns["cpu"][np.searchsorted(all_rows, rows)])
        digest = np.zeros(len(rows), np.uint64)
        for column in numbers + names:
            digest = (digest ^ column.astype(np.uint64)) * _FACTOR
        group, _ = number_distinct(digest)
        order = np.lexsort((marked.ticks[rows], group))
        last = np.sort(order[np.append(np.diff(group[order]) != 0, True)])
        early, texts = early_records(batch, cls, rows[last]), batch.strings.values
        for each, row in zip(last.tolist(), rows[last].tolist(), strict=True):
            codes = [int(column[each]) for column in names]
            key = [cls is r.Counter, *(int(column[each]) for column in numbers)]
            if row in early:
                self._keep((*key, *(texts[code] if code >= 0 else None for code in codes)), early[row])

    def _keep(self, key: tuple[Any, ...], early: EarlyRecord) -> None:
        before = self._last.get(key)
        if before is None and (len(self._last) >= MAX_KEPT or self._size >= MAX_BYTES):
            return
        if before is None or before.clock.ns(before.tick) <= early.clock.ns(early.tick):
            self._size += len(early.raw) - (0 if before is None else len(before.raw))
            self._last[key] = early

    def finish(self, head: Head) -> None:
        """Pass on the records."""
        for early in self._last.values():
            head.add(early)


class TrackNames:
    """The names of tracks from before the range; of more than `MAX_KEPT` the latest."""

    def __init__(self) -> None:
        self._names: dict[int, list[EarlyRecord]] = {}  # by the id of the track, what names it
        self._used: set[int] = set()  # ids of tracks with events in the range

    def enter(self, marked: Marked) -> None:
        """Take the names in a batch, before it is known what is taken over."""
        if not marked.present(_INSTANTS) or not marked.before.any():
            return
        batch = marked.batch
        rows = np.flatnonzero(marked.are(_INSTANTS) & marked.before & marked.chosen)
        named = (marked.categories[rows] == batch.strings.code(CATEGORY)) & (marked.names[rows] >= 0)
        rows = rows[named & (marked.threads[rows] >= 0)]
        providers = np.broadcast_to(batch.provider_of(rows), len(rows))
        columns = rows, providers, marked.tails[rows], marked.koids(rows), marked.names[rows], marked.ticks[rows]
        for row, provider, track, koids, name, tick in zip(*(column.tolist() for column in columns), strict=True):
            if track not in self._names:
                clock, text = batch.clock_at(provider, row), fitting(batch.strings.values[name])
                records = [cls(tick, r.Thread(*koids), CATEGORY, text, (), track) for cls in _LABEL]
                self._names[track] = [
                    EarlyRecord(provider, clock, encode(record), tick, (8 * len(record.words),), {})
                    for record in records
                ]
        while len(self._names) > MAX_KEPT:
            del self._names[next(iter(self._names))]

    def note_used(self, marked: Marked) -> None:
        """Note the tracks with events that are taken over."""
        if self._names and marked.present(_ASYNC):
            ids = marked.tails[np.flatnonzero(marked.taken & marked.are(_ASYNC))]
            self._used |= self._names.keys() & set(np.unique(ids).tolist())

    def finish(self, head: Head, still_open: Array) -> None:
        """Pass on the names that the part needs.

        Args:
            head: takes them.
            still_open: the ids of tracks on which operations are open at the end (uint64).
        """
        for track in self._used | (self._names.keys() & set(still_open.tolist())):
            for early in self._names.get(track, ()):
                head.add(early)
