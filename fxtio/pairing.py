"""Begins and ends in pairs: one engine for the spans of a timeline, the calls of a format, and the rules about both.

`pair` is the kernel `match` with what most callers need not give; `fxtio._native.python_spans.match` has the contract.
Spans that are still open go before the rows of the next batch, so a trace of any size is paired in bounded
memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fxtio import _native
from fxtio._native.constants import SpanStep
from fxtio.arrays import Array


@dataclass(slots=True)
class Matched:
    """What `match` finds out about rows.

    Attributes:
        end: the end of each span that has one, also one without an end of its own that another row ended (int64).
        parent: the span around each span, instant and flow; for an END the span that it closes; -1 for none (int64).
        depth: the number of spans around each span (int32); empty if it was not asked for.
        closer: the END of each span that has one, or -1 (int64).
        level: the levels; those of spans are their own, or one more than that of the span around them (int32).
        inner: the time within other spans (int64); empty if it was not given.
        state: see `SliceState` (int8); empty if it was not given.
        on_stack: whether a span is on the stack of its track in the end (int8).
        unmatched: the number of ENDs without a span.
        child_first: the number of complete spans that begin together with a shorter one that comes before them.
    """

    end: Array
    parent: Array
    depth: Array
    closer: Array
    level: Array
    inner: Array
    state: Array
    on_stack: Array
    unmatched: int
    child_first: int

    @property
    def open(self) -> Array:
        """The spans that are still on a stack, in their order, the outer ones first (rows)."""
        return np.flatnonzero(self.on_stack)


def pair(
    step: Array,
    track: Array | None = None,
    time: Array | None = None,
    *,
    tracks: int = 1,
    end: Array | None = None,
    key: Array | None = None,
    level: Array | int = -1,
    inner: Array | None = None,
    state: Array | None = None,
    carried: int = 0,
    with_depth: bool = False,
) -> Matched:
    """Pair the begins and ends of spans.

    Args:
        step: what each row does, see `SpanStep` (int8).
        track: the track of each row (int32); without it, all are on one track.
        time: the times (int64), which do not go back on a track; without it, the numbers of the rows.
        tracks: the number of tracks.
        end: the ends of complete spans (int64); filled with those of others.
        key: what an END must have in common with its span (uint64); 0 fits all.
        level: the levels of rows, or one for all.
        inner: the time within other spans of the first `carried` rows (int64).
        state: the states of spans that have an end, and those that ENDs give (int8); given together with `inner`.
        carried: the number of rows at the beginning that are spans on stacks of an earlier part, the outer ones first.
        with_depth: ask for the number of spans around each span.
    """
    count = len(step)
    track = np.zeros(count, np.int32) if track is None else track
    time = np.arange(count) if time is None else time
    end = np.zeros(count, np.int64) if end is None else end
    key = np.empty(0, np.uint64) if key is None else key
    levels = np.empty(count, np.int32)
    levels[:] = level
    inner = np.empty(0, np.int64) if inner is None else inner
    state = np.empty(0, np.int8) if state is None else state
    parent, closer = np.empty(count, np.int64), np.empty(count, np.int64)
    depth = np.empty(count if with_depth else 0, np.int32)
    on_stack, top = np.zeros(count, np.int8), np.full(tracks, -1, np.int64)
    numbers = _native.match(
        step, track, time, end, key, levels, top, parent, depth, closer, inner, state, on_stack, carried
    )
    return Matched(end, parent, depth, closer, levels, inner, state, on_stack, *numbers)


def signed(times: Array) -> Array:
    """Return numbers (int64) in the order of these (uint64), which may have any value."""
    return (times ^ np.uint64(1 << 63)).view(np.int64)


def ended(pairs: Matched, step: Array) -> tuple[Array, Array]:
    """Return what has ended, in the order of the ends, where the times are the numbers of the rows.

    Args:
        pairs: the pairs of some rows.
        step: what the rows do.

    Returns:
        The start of each span, -1 for an END without one, and the row that ended it (int64 each); of spans that end
        together, the inner one first.
    """
    by = np.flatnonzero(step == SpanStep.END)
    begin = pairs.parent[by]
    unwound = np.flatnonzero((step == SpanStep.BEGIN) & (pairs.closer < 0) & (pairs.on_stack == 0))
    if len(unwound):
        begin, by = np.append(begin, unwound), np.append(by, pairs.end[unwound])
        order = np.lexsort((-begin, by))
        begin, by = begin[order], by[order]
    return begin, by
