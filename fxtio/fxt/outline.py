"""The outline of a trace: the records of each part of it that a reader of any other part needs.

These are definitions, and all records without a time; begins and ends of spans and operations, and points of flows,
whose other ends are in another part; the last values of counters, and the first and last switches of CPUs; modules;
the names of tracks of tasks; and what a trace says about itself.  All other records matter only at their own times.  So
a reader that takes whole parts where they overlap a range of times, and outlines instead of the others, all in the
order of the file, finds the same in the range as one that takes everything.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

import numpy as np

from fxtio import _native
from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.codec.columns import members_of
from fxtio.codec.distinct import number_distinct
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.cut.body import references
from fxtio.fxt.cut.carried import CATEGORY
from fxtio.fxt.cut.marks import FLOWS, Choice, Classes, Limits, Marked
from fxtio.fxt.frames import GAP, UNKNOWN
from fxtio.fxt.layout import MAX_STRING_SLOT
from fxtio.fxt.records import ARGUMENTS, KINDS
from fxtio.fxt.slots import SlotLookup
from fxtio.fxt.state import Batch
from fxtio.pairing import pair
from fxtio.selection import EVERYTHING
from fxtio.table import MAX_TIME
from fxtio.timeline.schema import FACTS, LOSSES

MAX_TRACKS = 1 << 20
"""The most threads, and the most operations, whose latest times are remembered."""

_SLOTS: Classes = frozenset({r.String, r.ThreadRecord})
_ALWAYS: Classes = (frozenset(r.RECORDS.classes) - r.TIMED - _SLOTS) | {r.ProfilerModule, r.ProfilerMmap}
_SWITCHES = (r.ContextSwitch, r.LegacyContextSwitch)
_COUNTERS: Classes = frozenset({r.Counter})
_INSTANTS: Classes = frozenset({r.AsyncInstant})
_FACTOR = np.uint64(2 * secrets.randbits(63) + 1)
_ABOUT_THE_TRACE = sorted({name for name, _ in (*FACTS, *LOSSES)})
_NO_ARGUMENT = -2  # instead of the code of the name of an argument


class Part(NamedTuple):
    """Describes a part of a trace by the records of its outline.

    Attributes:
        rows: the records of the outline (bool).
        first: the earliest time in nanoseconds; later than `last` if no record has a time.
        last: the latest time, where complete events end.
    """

    rows: Array
    first: int
    last: int


class Outliner:
    """Finds the outlines of the parts of a trace, in the order of the file.

    Attributes:
        is_sound: the outlines say all that is needed.  They do not if spans of a thread go back in time from one part
            to another, as only all of them together tell which belong together; nor if there are bytes between records.
    """

    def __init__(self) -> None:
        self.is_sound = True
        self._limits, self._choice = Limits(None, None), Choice(EVERYTHING, {}, {})
        self._threads, self._operations = _Latest(), _Latest()

    def enter(self, batch: Batch) -> Part:
        """Return what is known of the next part."""
        marked = Marked(batch, self._limits, self._choice)
        kept = marked.are(_ALWAYS) | (batch.frame.kind == UNKNOWN)
        kept |= np.isin(marked.names, [*map(batch.strings.code, _ABOUT_THE_TRACE)])
        self.is_sound &= not (batch.frame.kind == GAP).any()
        self._keep_spans(marked, kept)
        self._keep_operations(marked, kept)
        _keep_flows(marked, kept)
        _keep_counters(marked, kept)
        _keep_switches(marked, kept)
        _keep_slots(marked, kept)
        return Part(kept, *_times(marked))

    def _keep_spans(self, marked: Marked, kept: Array) -> None:
        """Mark the begins and ends of threads' spans whose other ends are not in the part."""
        pairs = _Pairs.of(marked, r.DurationBegin, r.DurationEnd)
        if pairs is None:
            return
        self.is_sound &= not pairs.go_back(self._threads).any()
        provider = np.broadcast_to(marked.batch.provider_of(pairs.rows), len(pairs.rows))
        is_mixed = provider != provider[pairs.first][pairs.track]  # some pair them by provider, others do not
        pairs.mark(kept, pairs.has(pairs.track[is_mixed]))

    def _keep_operations(self, marked: Marked, kept: Array) -> None:
        """Mark the begins and ends of operations whose other ends are elsewhere, and what names tracks of tasks."""
        label = marked.batch.strings.code(CATEGORY)
        if marked.present(_INSTANTS):
            rows = np.flatnonzero(marked.are(_INSTANTS))
            rows = rows[marked.categories[rows] == label]
            kept[rows[np.unique(marked.tails[rows], return_index=True)[1]]] = True
        pairs = _Pairs.of(marked, r.AsyncBegin, r.AsyncEnd)
        if pairs is None:
            return
        names, categories = marked.names[pairs.rows], marked.categories[pairs.rows]
        is_other = (names[pairs.begins] != names[pairs.ends]) | (categories[pairs.begins] != categories[pairs.ends])
        pairs.mark(kept, pairs.go_back(self._operations) | pairs.has(pairs.track[pairs.ends[is_other]]))
        kept[pairs.rows[categories == label]] = True


class _Latest:
    """The latest time of each of some tracks."""

    def __init__(self) -> None:
        self._keys, self._times = np.empty(0, np.uint64), np.empty(0, np.uint64)

    def go_back(self, keys: Array, first: Array, last: Array) -> Array:
        """Take the first and last times of distinct tracks (uint64); return which go back in time (bool)."""
        order = np.argsort(keys)
        keys, first, last = keys[order], first[order], last[order]
        at = np.searchsorted(self._keys, keys)
        known = np.append(self._keys, np.uint64(0))[at] == keys
        known &= at < len(self._keys)
        back = np.zeros(len(keys), bool)
        back[order] = known & (first < np.append(self._times, np.uint64(0))[at])
        self._times[at[known]] = np.maximum(self._times[at[known]], last[known])
        self._keys = np.insert(self._keys, at[~known], keys[~known])
        self._times = np.insert(self._times, at[~known], last[~known])
        if len(self._keys) > MAX_TRACKS:
            latest = np.sort(np.argsort(self._times)[-MAX_TRACKS // 2 :])
            self._keys, self._times = self._keys[latest], self._times[latest]
        return back


class _Pairs(NamedTuple):
    """Begins and ends of a part, on each track in the order of time.

    Attributes:
        rows: the numbers of the records.
        track: the track of each.
        times: their times in nanoseconds (uint64).
        keys: what stands for each track (uint64).
        first: an index of `rows` for each track.
        begins: the indices of those whose ends are in the part.
        ends: the indices of these ends.
    """

    rows: Array
    track: Array
    times: Array
    keys: Array
    first: Array
    begins: Array
    ends: Array

    @classmethod
    def of(cls, marked: Marked, begin: type[Record], end: type[Record]) -> _Pairs | None:
        """Pair the records of two classes in a part, by their ids or threads; None if there are none."""
        classes = frozenset({begin, end})
        if not marked.present(classes):
            return None
        rows = np.flatnonzero(marked.are(classes))
        if begin is r.AsyncBegin:
            keys = marked.tails[rows]
        else:
            koids = marked.koids(rows)
            keys = (koids[:, 0] * _FACTOR ^ koids[:, 1]) * _FACTOR
        track, first = number_distinct(keys)
        keys = keys[first]
        times = marked.nanoseconds(marked.ticks[rows], rows)
        if _native.late(track, times, np.zeros(len(first), np.uint64), np.empty(0, np.int64)):
            order = np.lexsort((times, track))
            rows, track, times = rows[order], track[order], times[order]
            first = np.searchsorted(track, np.arange(len(first)))
        is_end = marked.batch.frame.kind[rows] == KINDS[end]
        pairs = pair(np.where(is_end, np.int8(SpanStep.END), np.int8(SpanStep.BEGIN)), track, tracks=len(first))
        ends = np.flatnonzero(is_end & (pairs.parent >= 0))
        return cls(rows, track, times, keys, first, pairs.parent[ends], ends)

    def go_back(self, latest: _Latest) -> Array:
        """Return which tracks go back to times before the end of earlier parts (bool)."""
        last = np.empty(len(self.first), np.uint64)
        last[self.track] = self.times  # the last one of each track stays
        return latest.go_back(self.keys, self.times[self.first], last)

    def has(self, tracks: Array) -> Array:
        """Return for each track whether it is one of these (bool)."""
        result = np.zeros(len(self.first), bool)
        result[tracks] = True
        return result

    def mark(self, kept: Array, whole: Array) -> None:
        """Mark the records that have no partner, and all of some tracks (bool)."""
        alone = np.ones(len(self.rows), bool)
        alone[self.begins] = alone[self.ends] = False
        kept[self.rows[alone | whole[self.track]]] = True


def _keep_flows(marked: Marked, kept: Array) -> None:
    """Mark the points of flows that do not begin and end in the part."""
    if not marked.present(FLOWS):
        return
    rows = np.flatnonzero(marked.are(FLOWS))
    rows = rows[np.lexsort((marked.nanoseconds(marked.ticks[rows], rows), marked.tails[rows]))]
    kind, ids = marked.batch.frame.kind[rows], marked.tails[rows]
    is_first = np.append(True, ids[1:] != ids[:-1])
    flow, is_last = np.cumsum(is_first) - 1, np.append(is_first[1:], True)
    is_whole = (kind[is_first] == KINDS[r.FlowBegin]) & (kind[is_last] == KINDS[r.FlowEnd])
    kept[rows[~is_whole[flow]]] = True


def _keep_counters(marked: Marked, kept: Array) -> None:
    """Mark the last record of each counter on each thread, which may be selected, and of each series of it."""
    if not marked.present(_COUNTERS):
        return
    batch = marked.batch
    rows, columns = batch.columns(r.Counter)
    owners, names = [rows], [np.full(len(rows), _NO_ARGUMENT)]
    members = members_of(ARGUMENTS, batch.frame.block, columns["args"])
    owner = np.repeat(rows, members.many.count)
    for kind, indices, fields in members.groups:
        if kind >= 0:
            owners.append(owner[indices])
            names.append(batch.string_codes(fields["name"], owners[-1]))
    row, name = np.concatenate(owners), np.concatenate(names)
    keys = (*marked.koids(row).T, marked.tails[row], marked.names[row], marked.categories[row], name)
    kept[_ends(marked, row, *keys)[1]] = True


def _keep_switches(marked: Marked, kept: Array) -> None:
    """Mark the first and the last switch of each CPU."""
    for cls in marked.present(frozenset(_SWITCHES)):
        rows, columns = marked.batch.columns(cls)
        for ends in _ends(marked, rows, columns["cpu"]):
            kept[ends] = True


def _ends(marked: Marked, rows: Array, *keys: Array) -> tuple[Array, Array]:
    """Return the first and the last by time of the records of each provider that have the same keys."""
    digest = np.broadcast_to(marked.batch.provider_of(rows), len(rows)).astype(np.uint64)
    for key in keys:
        digest = (digest * _FACTOR) ^ key.astype(np.uint64)
    group, _ = number_distinct(digest * _FACTOR)
    order = np.lexsort((rows, marked.ticks[rows], group))
    changes = np.flatnonzero(np.diff(group[order]))
    last = np.append(changes, len(order) - 1)[: len(order)]
    return rows[order[np.append(0, changes + 1)[: len(order)]]], rows[order[last]]


def _keep_slots(marked: Marked, kept: Array) -> None:
    """Mark the definitions that are in force at the end of the part, and those of slots that marked records use."""
    batch = marked.batch
    lookups: dict[type[Record], SlotLookup] = {r.String: batch.string_slots, r.ThreadRecord: batch.thread_slots}
    used: dict[type[Record], list[Array]] = {cls: [np.empty(0, np.int64)] for cls in lookups}
    for definer, slots, owners in references(batch, kept):
        used[definer].append(np.unique(_slots_of(batch.provider_of(owners), slots)))
    for definer, lookup in lookups.items():
        made = lookup.definitions
        slots = _slots_of(made.provider, made.slot)
        order = np.lexsort((made.row, slots))
        is_needed = np.isin(slots, np.concatenate(used[definer]))
        is_needed[order[np.append(np.diff(slots[order]) != 0, True)[: len(order)]]] = True
        kept[made.row[is_needed]] = True


def _slots_of(provider: int | Array, slots: Array) -> Array:
    """Return numbers for slots of providers (int64)."""
    return np.asarray(provider, np.int64) * (MAX_STRING_SLOT + 1) + slots.astype(np.int64)


def _times(marked: Marked) -> tuple[int, int]:
    """Return the first and the last time of a part in nanoseconds."""
    first, last = MAX_TIME, -1
    rows = np.flatnonzero(marked.timed)
    complete = np.flatnonzero(marked.are(frozenset({r.DurationComplete})))
    for which, ticks in ((rows, marked.ticks[rows]), (complete, marked.tails[complete])):
        if len(which):
            times = marked.batch.times(ticks, which)
            first, last = min(first, int(times.min())), max(last, int(times.max()))
    return first, last
