"""The kernels for spans on tracks in Python and numpy, as `python` has the others: see `spans.c`.

Levels, as `match` takes them: where the source knows how deep things are, a span or a RESET first ends all spans of its
own level and deeper ones.  An END closes the span of its level if that has its key, or else the innermost of at most
`MAX_SEARCH` deeper ones that has it; the spans within end with it, or without such a span all of its level and deeper
ones.  A level of -1 stands for none; see also `UNWIND` and `FITTING`.
"""

from __future__ import annotations

import numpy as np

from fxtio._native.constants import FITTING, MAX_SEARCH, UNWIND, SliceState, SpanStep
from fxtio.arrays import Array


def late(track: Array, time: Array, latest: Array, rows: Array) -> int:
    """List the rows that are earlier than one before them on their track.

    Args:
        track: the track of each row (int32); rows of a track that `latest` does not have are left out.
        time: the times (uint64).
        latest: the latest time of each track so far (uint64); changed.
        rows: filled with the rows that are listed (int64), as far as there is room.

    Returns:
        How many rows are earlier, also those for which there is no room.
    """
    times, count = latest.tolist(), 0
    for row, (number, when) in enumerate(zip(track.tolist(), time.tolist(), strict=True)):
        if not 0 <= number < len(times):
            continue
        if when >= times[number]:
            times[number] = when
        else:
            if count < len(rows):
                rows[count] = row
            count += 1
    latest[:] = times
    return count


def match(
    step: Array, track: Array, time: Array, end: Array, key: Array, level: Array, top: Array, parent: Array,
    depth: Array, closer: Array, inner: Array, state: Array, on_stack: Array, carried: int,
) -> tuple[int, int]:  # fmt: skip
    """Pair the begins and ends of spans, and find the span around each row.  The rows of a track are in order of time.

    A span is open from its begin on.  It is closed if its end is known: that of a complete span is from the start, that
    of another one from the END row on.  The stack of a track has the spans that are open, and closed ones until a row
    comes that is not before their end.

    The columns `key`, `depth`, `inner` and `state` may be empty: no key matters then, or the column is not made.
    `inner` and `state` are asked for together.

    Args:
        step: what each row does, see `SpanStep` (int8).
        track: the track of each row (int32); rows of a track that `top` does not have are left out.
        time: the time of each row (int64).
        end: the end of each complete span (int64); filled with that of the spans that get one.
        key: an END without a level closes the innermost open span with its key, or any if its key is 0 (uint64).
        level: the level of a row, see above (int32); for spans that have none, filled with one more than that of the
            span around them, or 0.
        top: -1 for each track (int64); filled with the row of its innermost span on the stack, -1 without any.
        parent: filled with the span around each span, instant and flow, and for each END with the span that it closes;
            -1 without any (int64).
        depth: filled with the number of spans around each span (int32).
        closer: filled with the END row of each span that has one, or -1 (int64).
        inner: the time within other spans of the first `carried` rows, 0 for all others (int64 ns); filled.
        state: the state of each span if it is closed, or the one that an END gives to its span, 0 for none (int8);
            changed for other spans, see `SliceState`.
        on_stack: 0 for each row (int8); set to 1 for the spans that are on a stack in the end.
        carried: this many rows at the beginning are spans on the stacks of an earlier part, the outermost first.

    Returns:
        The number of ENDs without a span, and the number of complete spans that begin together with a shorter one that
        comes before them: such rows should be exchanged.

    Raises:
        ValueError: lengths differ, or a stack is not empty.
    """
    needed, optional = (track, time, end, level, parent, closer, on_stack), (key, depth, inner, state)
    lengths = any(len(column) != len(step) for column in needed) or len(inner) != len(state)
    lengths |= any(len(column) not in {0, len(step)} for column in optional)
    if lengths or (top != -1).any() or not 0 <= carried <= len(step):
        raise ValueError("lengths differ, or a stack is not empty")
    key, times_within, states = (
        column if len(column) else np.zeros(len(step), np.int64) for column in (key, inner, state)
    )
    taken = (step, time, end, key, level, times_within, states)
    matching = _Matching([column.tolist() for column in taken], len(top))
    for row, number in enumerate(track.tolist()):
        if 0 <= number < len(top):
            matching.enter(row, number, is_carried=row < carried)
    within = [(each + 2**63) % 2**64 - 2**63 for each in matching.inner]  # hostile spans may sum up to any number
    filled = [(end, matching.end), (parent, matching.parent), (depth, matching.depth), (closer, matching.closer)]
    for column, numbers in (*filled, (level, matching.level), (inner, within), (state, matching.state)):
        column[:] = numbers[: len(column)]
    top[:], on_stack[matching.rows_on_stacks()] = matching.top, 1
    return matching.unmatched, matching.child_first


def list_slices(
    rows: tuple[Array, ...],
    ids: Array,
    closing: Array,
    slices: tuple[Array, ...],
    carried: int,
    next_id: int,
    latest: int,
) -> tuple[int, int]:
    """List the spans that are not on a stack any more, in their order.

    Args:
        rows: the columns of the rows: `step`, `track`, `time`, `end`, `parent`, `depth`, `closer`, `inner`, `state` and
            `on_stack` as `match` leaves them (the end of a span without one is the largest number); the codes of
            `category` and `name` (int32), the number of the `event` (int64), and the time in `ticks` (uint64).
        ids: the ids of the first `carried` rows (int64); filled with those of the other spans, -1 for other rows.
        closing: the number of the event that ends each of the first `carried` rows, or -1 (int64); filled for all rows.
        slices: the columns of the table `slices`, with as many rows as spans are listed (codes: int32); filled.
        carried: this many rows at the beginning are spans that have ids.
        next_id: the id of the first other span.
        latest: the latest time of earlier parts; spans without an end last until the latest time.

    Returns:
        The next id, and the latest time.

    Raises:
        ValueError: lengths differ, or the spans are not as many as there is room for.
    """
    step, track, time, end, parent, depth, closer, inner, state, on_stack, category, name, event, ticks = rows
    is_span = (step == SpanStep.BEGIN) | (step == SpanStep.COMPLETE)
    listed = np.flatnonzero(is_span & (on_stack == 0))
    lengths = any(len(column) != len(step) for column in (*rows, ids, closing)) or not 0 <= carried <= len(step)
    if lengths or any(len(column) != len(listed) for column in slices):
        raise ValueError("lengths differ, or the spans are not as many as there is room for")
    fresh = np.flatnonzero(is_span[carried:]) + carried
    ids[carried:], closing[carried:] = -1, -1
    ids[fresh] = np.arange(next_id, next_id + len(fresh))
    closing[:] = np.maximum(closing, np.where(closer >= 0, event[closer], -1))
    latest = max(latest, int(time.max(where=track >= 0, initial=0)))
    latest = max(latest, int(end.max(where=step == SpanStep.COMPLETE, initial=0)))
    ends, states = end[listed], state[listed].astype(np.int32)
    endless = (step[listed] == SpanStep.BEGIN) & (closing[listed] < 0) & (ends == _MAX_TIME)
    ends[endless], states[endless] = latest, SliceState.OPEN
    duration, around = ends - time[listed], parent[listed]
    around = np.where(around >= 0, ids[around], -1)
    values = [column[listed] for column in (ids, time, depth, track, category, name, event, closing, ticks)]
    values[2:2] = [duration, np.maximum(duration - inner[listed], 0)]
    values[5:5] = [around]
    values[9:9] = [states]
    for column, numbers in zip(slices, values, strict=True):
        column[:] = numbers
    return next_id + len(fresh), latest


_MAX_TIME = 2**63 - 1


def tally(
    track: Array, group: Array, start: Array, duration: Array, own: Array, calls: Array, total: Array, self: Array,
    shortest: Array, longest: Array,
) -> None:  # fmt: skip
    """Sum up the calls and times of groups of spans that nest.  The rows of a track are in the order of begins.

    Args:
        track: the track of each row (int32).
        group: the group of each row (int64); rows of groups that `calls` does not have are left out.
        start: the start of each row (int64).
        duration: the length of each row (int64); a row whose length is negative lasts until the largest number, and is
            not summed up.  A row that would last longer ends there, too.
        own: the time of each row without that of the spans within it (int64).
        calls: the number of rows of each group (int64); increased.
        total: the time of each group (int64), without that of rows within another row of the group on the track;
            increased.  All sums end at the largest number.
        self: the sum of `own` of each group (int64); increased.
        shortest: the least duration of each group (int64); lowered.
        longest: the greatest duration of each group (int64); raised.

    Raises:
        ValueError: lengths differ.
    """
    rows = any(len(column) != len(track) for column in (group, start, duration, own))
    if rows or any(len(column) != len(calls) for column in (total, self, shortest, longest)):
        raise ValueError("lengths differ")
    sums = [column.tolist() for column in (calls, total, self, shortest, longest)]
    covers: dict[tuple[int, int], int] = {}
    largest = 2**63 - 1
    for place, number, begin, time, rest in zip(
        *(column.tolist() for column in (track, group, start, duration, own)), strict=True
    ):
        if not 0 <= number < len(calls):
            continue
        if time < 0:
            covers[place, number] = largest
            continue
        cover = covers.get((place, number), -largest - 1)
        if begin >= cover:
            sums[1][number] = min(sums[1][number] + time, largest)
        covers[place, number] = max(cover, min(begin + time, largest))
        sums[0][number] += 1
        sums[2][number] = min(sums[2][number] + max(rest, 0), largest)
        sums[3][number] = min(sums[3][number], time)
        sums[4][number] = max(sums[4][number], time)
    for column, values in zip((calls, total, self, shortest, longest), sums, strict=True):
        column[:] = values


class _Matching:
    """The columns of `match` as lists, and the stack of each track."""

    def __init__(self, columns: list[list[int]], tracks: int) -> None:
        self.step, self.time, self.end, self.key, self.level, self.inner, self.state = columns
        self.parent, self.closer = [-1] * len(self.step), [-1] * len(self.step)
        self.depth, self.top = [0] * len(self.step), [-1] * tracks
        self.unmatched = self.child_first = 0

    def enter(self, row: int, track: int, *, is_carried: bool) -> None:
        """Let a row change the stack of its track."""
        step, time, level = self.step[row], self.time[row], self.level[row]
        if step in (SpanStep.BEGIN, SpanStep.COMPLETE):
            if not is_carried:
                self.top[track] = self._before(self.top[track], time, level)
            self._push(row, track, is_carried=is_carried)
        elif step == SpanStep.END:
            if level < 0:
                self.top[track] = self._settled(self.top[track], time)
            self._close(row, track)
        elif step == SpanStep.RESET:
            self.top[track] = self._before(self.top[track], time, level)
        elif step in (SpanStep.INSTANT, SpanStep.FLOW):
            self.top[track] = self._settled(self.top[track], time - 1)  # a flow may end with its span
            self.parent[row] = self._around(self.top[track], time, step == SpanStep.FLOW)

    def rows_on_stacks(self) -> list[int]:
        """Return the spans that are still on a stack."""
        rows = []
        for row in self.top:
            while row >= 0:
                rows.append(row)
                row = self.parent[row]
        return rows

    def _is_closed(self, row: int) -> bool:
        return self.step[row] == SpanStep.COMPLETE or self.closer[row] >= 0

    def _before(self, stack: int, time: int, level: int) -> int:
        """Return the stack without the spans that end before a row of this time or level."""
        if level < 0:
            return self._settled(stack, time)
        while stack >= 0 and self.level[stack] >= level:
            self._cut(stack, time)
            stack = self.parent[stack]
        return stack

    def _cut(self, span: int, time: int) -> None:
        """End a span without an end of its own."""
        if not self._is_closed(span):
            self.end[span], self.state[span] = time, SliceState.OPEN
            self._add_to_parent(span)

    def _settled(self, stack: int, time: int) -> int:
        """Return the stack without the closed spans on top of it that do not last longer than this."""
        while stack >= 0 and self._is_closed(stack) and self.end[stack] <= time:
            stack = self.parent[stack]
        return stack

    def _push(self, row: int, track: int, *, is_carried: bool) -> None:
        top, level = self.top[track], self.level[row]
        self.parent[row], self.depth[row] = top, 0 if top < 0 else self.depth[top] + 1
        is_in_complete = top >= 0 and self.step[top] == SpanStep.COMPLETE
        if level == FITTING and is_in_complete and self.end[top] < self.end[row]:
            return
        if level < 0:
            self.level[row] = 0 if top < 0 else self.level[top] + (level != UNWIND)
        self.top[track] = row
        if self.step[row] != SpanStep.COMPLETE or is_carried:
            return
        if is_in_complete and level < 0:
            self.child_first += self.time[top] == self.time[row] and self.end[top] < self.end[row]
        self._add_to_parent(row)

    def _add_to_parent(self, row: int) -> None:
        """Count the time of a span whose end is known now for the span around it."""
        outer, end = self.parent[row], self.end[row]
        if outer < 0:
            return
        if self._is_closed(outer) and self.end[outer] < end:
            self.state[row] = SliceState.OVERLAPPING
            end = max(self.end[outer], self.time[row])
        self.inner[outer] += end - self.time[row]

    def _close(self, row: int, track: int) -> None:
        top, time, level = self.top[track], self.time[row], self.level[row]
        span, inside = (self._span_of_level(top, row), -1) if level >= 0 else self._open_span(top, row)
        if span < 0:
            self.unmatched += 1
            if level >= 0:
                self.top[track] = self._before(top, time, level)
            return
        self.parent[row], self.closer[span], self.end[span] = span, row, time
        self.state[span] = self.state[row] or self.state[span]
        while level != -1 and top != span:
            self._cut(top, time)
            self.top[track] = top = self.parent[top]
        if inside >= 0 and self._is_closed(inside) and self.end[inside] > time:
            self.state[inside] = SliceState.OVERLAPPING
            self.inner[span] -= self.end[inside] - max(time, self.time[inside])
        self._add_to_parent(span)
        if span == top:
            self.top[track] = self.parent[span]

    def _is_closed_by(self, span: int, row: int) -> bool:
        """Return whether an END may close a span."""
        return not self._is_closed(span) and self.key[row] in (0, self.key[span])

    def _open_span(self, top: int, row: int) -> tuple[int, int]:
        """Return the innermost span that an END may close, and the one next to it on the stack, each -1 for none."""
        span, inside = top, -1
        for _ in range(MAX_SEARCH):
            if span < 0 or self._is_closed_by(span, row):
                return span, inside
            span, inside = self.parent[span], span
        return -1, -1

    def _span_of_level(self, top: int, row: int) -> int:
        """Return the span of an END with a level: that of the level, or else the innermost deeper one; -1 for none."""
        span, deeper, searched, level = top, -1, 0, self.level[row]
        while span >= 0 and self.level[span] > level:
            if deeper < 0 and self._is_closed_by(span, row):
                deeper = span
            span, searched = self.parent[span], searched + 1
        if span >= 0 and self.level[span] == level and self._is_closed_by(span, row):
            return span
        return deeper if searched <= MAX_SEARCH else -1

    def _around(self, stack: int, time: int, is_flow: bool) -> int:
        """Return the innermost span that has not ended at this time; for a flow, one that ends now counts."""
        for _ in range(MAX_SEARCH):
            if stack < 0 or is_flow or not self._is_closed(stack) or self.end[stack] > time:
                return stack
            stack = self.parent[stack]
        return -1
