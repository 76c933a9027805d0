"""The last values before the range, to be repeated at its start: of counters, and of what runs on each CPU."""

from __future__ import annotations

import secrets

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import number_distinct
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.cut.early import MAX_BYTES, EarlyRecord, Head, early_records
from fxtio.fxt.cut.fields import Classes
from fxtio.fxt.cut.marks import Marked
from fxtio.fxt.rules.view import MAX_KEPT, Keys

_FACTOR = np.uint64(2 * secrets.randbits(63) + 1)
_CLASSES = (r.Counter, r.ContextSwitch, r.LegacyContextSwitch)


class Latest:
    """The last record before the range of each counter and each CPU; at most `MAX_KEPT` in all."""

    def __init__(self) -> None:
        self._keys = Keys()
        self._size = 0  # bytes of these records
        self._last: dict[tuple[bool, int], EarlyRecord] = {}  # by whether it is a counter, and the number of `_keys`

    def enter(self, marked: Marked) -> None:
        """Take the records of a batch."""
        for cls in _CLASSES:
            if marked.has_before and marked.has_start and cls in marked.batch.classes():
                self._enter(marked, cls)

    def _enter(self, marked: Marked, cls: type[Record]) -> None:
        chosen = marked.chosen if cls is r.Counter else marked.choice.nameless
        rows = np.flatnonzero(marked.fields.are(frozenset({cls})) & marked.before & chosen)
        if not len(rows):
            return
        ticks, keys = marked.ticks[rows], self._keys_of(marked, cls, rows)
        last = _last_of_each(keys, ticks)
        for number, early in zip(keys[last].tolist(), early_records(marked.batch, cls, rows[last]), strict=True):
            key = cls is r.Counter, number
            before = self._last.get(key)
            is_later = before is None or before.clock.ns(before.tick) <= (early.clock.ns(early.tick) if early else -1)
            has_room = before is not None or (len(self._last) < MAX_KEPT and self._size < MAX_BYTES)
            if early is not None and is_later and has_room:
                self._size += len(early.raw) - (0 if before is None else len(before.raw))
                self._last[key] = early

    def _keys_of(self, marked: Marked, cls: type[Record], rows: Array) -> Array:
        """Return a number for each of some records of a class that stands for its counter or CPU (uint64)."""
        batch, fields = marked.batch, marked.fields
        keys: Array = np.broadcast_to(np.asarray(batch.provider_of(rows)).astype(np.uint64), len(rows))
        if cls is r.Counter:
            counters: Classes = frozenset({cls})
            names, categories = fields.names(counters)[rows], fields.categories(counters)[rows]  # some strings are new
            self._keys.enter(batch.strings)
            named = self._keys.of(names, categories)
            parts = [marked.processes(counters, rows), named, fields.tails(counters)[rows]]
        else:
            all_rows, columns = batch.columns(cls)
            parts = [columns["cpu"][np.searchsorted(all_rows, rows)].astype(np.uint64)]
        for part in parts:
            keys = (keys ^ part) * _FACTOR
        return keys

    def finish(self, head: Head) -> None:
        """Pass on the records."""
        for early in self._last.values():
            head.add(early)


def _last_of_each(keys: Array, ticks: Array) -> Array:
    """Return the indices of the latest row of each key (ascending); of equal ticks, the last one is the latest."""
    if (ticks[1:] >= ticks[:-1]).all():
        _, first = number_distinct(keys[::-1])
        return np.sort(len(keys) - 1 - first)
    order = np.lexsort((ticks, keys))
    return np.sort(order[np.append(np.diff(keys[order]) != 0, True)])
