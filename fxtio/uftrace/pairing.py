"""Entries and exits of calls, in pairs: their true depths, and which exit belongs to which entry.

A call that was open already when a task began, as after `fork`, or whose entry was lost, is known by its exit only.  It
began, as far as one can know, directly after the last record that is not deeper than it, or with the first record of
the task.  So that it can be shown around the calls within it, the records of a task are read ahead once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.codec.integers import MAX_INT32
from fxtio.pairing import ended, pair
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.frames import Chunk
from fxtio.uftrace.layout import DEPTHS, RecordWord

WHOLE, NO_EXIT, NO_ENTRY, OPEN = range(4)
STATES = ("whole", "no_exit", "no_entry", "open")
"""The states of a call: with entry and exit; ended by a later record; begun before the file; not ended."""

_FIELDS = RecordWord.fields
_STEPS = np.array([{RecordType.ENTRY: 1, RecordType.EXIT: -1}.get(kind, 0) for kind in RecordType], np.int8)
_SPAN_STEPS = np.array([SpanStep.END, SpanStep.NONE, SpanStep.BEGIN], np.int8)  # of exits, others, and entries
_LAST_DEPTH = DEPTHS - 1
_NO_CALLS = np.empty(0, np.int64), np.empty(0, np.uint64)  # the depths and the addresses of calls


class CallSteps:
    """The entries and exits of one task, with their true depths.

    Some tracers (the QEMU plugin) number the depths of exits from 0 and those of entries from 1.  This is assumed of a
    task that begins with an entry of depth 1, from its first exit that is one lower than the entry of the same function
    directly before it, if no record before has contradicted, until one does: an entry of depth 0, or an exit that has
    the depth of the entry of the same function directly before it.  The depths of these exits are corrected.

    Attributes:
        depth: the depths of the records of the last chunk, not wrapped and corrected (int64).
        address: addresses inside the functions of its records (uint64).
        step: 1 for its entries, -1 for its exits, 0 for other records (int8).
        first: the time from which on calls without an entry ran, in nanoseconds; None before the first entry or exit.
        last: the time of the last record in nanoseconds.
        wraps: whether calls are deeper than a record can hold.
    """

    def __init__(self) -> None:
        self.depth = np.empty(0, np.int64)
        self.address = np.empty(0, np.uint64)
        self.step = np.empty(0, np.int8)
        self.first: int | None = None
        self.last = 0
        self.wraps = False
        self._laps = 0  # the number of times that the depth has wrapped around
        self._previous: tuple[int, int] = (0, 0)  # the step and depth of the last entry or exit
        self._before: tuple[int, int, int] = (0, 0, 0)  # the step, depth and address of the record before the chunk
        self._exits_lower: bool | None = None  # whether exits have lower depths than entries, None if not known yet
        self._has_calls = False  # whether there was an entry or exit
        self._program = 0

    def leave_program(self, chunk: Chunk) -> bool:
        """Return whether an exec before a chunk ended all calls; only an outermost entry begins a program."""
        if chunk.program == self._program:
            return False
        step = _STEPS[_FIELDS["type"].get(chunk.words).view(np.int64)]
        rows = np.flatnonzero(step)[:1]
        if not len(rows) or step[rows[0]] < 0 or _FIELDS["depth"].get(chunk.words[rows])[0]:
            return False  # an exit is that of a call before
        self._program, self._laps, self._previous, self._before = chunk.program, 0, (0, 0), (0, 0, 0)
        return True

    def enter(self, chunk: Chunk) -> None:
        """Take the next records."""
        words = chunk.words
        kinds = _FIELDS["type"].get(words).view(np.int64)
        step = _STEPS[kinds]
        depth = _FIELDS["depth"].get(words).view(np.int64)
        address = _FIELDS["address"].get(words)
        times = chunk.nanoseconds
        previous = self._previous
        rows = np.flatnonzero(step) if not step.all() else None
        timed = np.flatnonzero(kinds != RecordType.LOST)[-1:] if rows is not None else np.array([-1])
        if len(step) and len(timed):
            self.last = int(times[timed[0]])
        if len(step) and (rows is None or len(rows)):
            last = -1 if rows is None else int(rows[-1])
            self._previous = int(step[last]), int(depth[last])
            if self.first is None:
                self.first = int(times[0 if rows is None else int(rows[0])])
                if chunk.forked is not None:
                    self.first = min(self.first, chunk.forked)
        if self._laps or _LAST_DEPTH in (previous[1], int(depth.max(initial=0))):
            depth, address = self._unwrapped(previous, step, depth, address)
        if self._exits_lower is not False and len(step):
            depth = self._corrected(step, depth, address)
        self.depth, self.address, self.step = depth, address, step

    @property
    def has_lower_exits(self) -> bool:
        """Return whether the depths of exits are one lower than those of entries."""
        return self._exits_lower is True

    def skip(self) -> None:
        """Go on after bytes that are not a record."""
        self._before = (0, 0, 0)

    def _corrected(self, step: Array, depth: Array, address: Array) -> Array:
        """Return the depths of the records of a chunk; those of exits that are one too low are raised by one."""
        steps, depths = np.append(self._before[0], step), np.append(self._before[1], depth)
        addresses = np.append(np.uint64(self._before[2]), address)
        leaf = (steps[:-1] > 0) & (step < 0) & (addresses[:-1] == address)
        lower, usual = leaf & (depths[:-1] == depth + 1), leaf & (depths[:-1] == depth)
        usual |= (step > 0) & (depth == 0)
        if not self._has_calls and step.any():
            self._has_calls = True
            first = int(step.astype(np.bool_).argmax())
            usual[first] |= step[first] < 0 or depth[first] != 1
        count = len(step)
        begin = 0 if self._exits_lower else int(lower.argmax()) if lower.any() else count
        end = int(usual.argmax()) if usual.any() else count
        if end < count:
            self._exits_lower = False
        elif begin < count:
            self._exits_lower = True
        self._before = int(step[-1]), int(depth[-1]), int(address[-1])
        rows = np.arange(count)
        corrected: Array = depth + ((step < 0) & (begin <= rows) & (rows < end))
        return corrected

    def _unwrapped(self, previous: tuple[int, int], step: Array, depth: Array, address: Array) -> tuple[Array, Array]:
        """Return depths and addresses without wrapping: a depth of 1024 is stored as 0 and a carry into the address."""
        rows = np.flatnonzero(step)
        steps = np.concatenate([[previous[0]], step[rows]])
        depths = np.concatenate([[previous[1]], depth[rows]])
        up = (steps[:-1] > 0) & (steps[1:] > 0) & (depths[:-1] == _LAST_DEPTH) & (depths[1:] == 0)
        down = (steps[:-1] < 0) & (steps[1:] < 0) & (depths[:-1] == 0) & (depths[1:] == _LAST_DEPTH)
        laps = self._laps + np.cumsum(up.astype(np.int64) - down)
        laps -= np.minimum.accumulate(np.minimum(laps, 0))  # the depth cannot fall below that of the first record
        self._laps = int(laps[-1]) if len(laps) else self._laps
        self.wraps = self.wraps or bool(laps.any())
        depth, address = depth.copy(), address.copy()
        depth[rows] += laps * DEPTHS
        address[rows] -= laps.view(np.uint64)
        return depth, address


class CallPairing(CallSteps):
    """Pairs the entries and exits of one task.

    The depth of a record decides: it ends every open call that is deeper.  So a call whose exit is missing (after
    `longjmp` or lost records) ends at the first record that shows that it has ended, and an exit without an entry (in a
    child after `fork`) is a call that began before the file: at the fork, or with the first record.  After `exec`, the
    next program of the task begins without calls.  If the call at the depth of an exit is that of another function, the
    exit ends the innermost call of its function.
    """

    def __init__(self) -> None:
        super().__init__()
        self._open = _NO_CALLS

    def pair(self, chunk: Chunk) -> tuple[Array, Array]:
        """Return the calls that end in a chunk, in the order of their ends.

        Returns:
            Their states, codes in `STATES`, and the rows of the records that ended them, exits or not (int64 each).
        """
        if self.leave_program(chunk):
            self._open = _NO_CALLS
        self.enter(chunk)
        depth, address = np.append(self._open[0], self.depth), np.append(self._open[1], self.address)
        carried = len(depth) - len(self.depth)
        step = np.append(np.ones(carried, np.int8), self.step)
        _, by, state, still = pair_calls(step, depth, address, carried)
        self._open = depth[still], address[still]
        return state, by - carried


def pair_calls(step: Array, depth: Array, address: Array, carried: int = 0) -> tuple[Array, Array, Array, Array]:
    """Pair the entries and exits of one task.

    Args:
        step: 1 for entries, -1 for exits, 0 for other records (int8).
        depth: the depths (int64).
        address: addresses inside the functions (uint64).
        carried: this many calls at the beginning are open from before, the outer ones first.

    Returns:
        The rows of the entries, -1 for none, and of the records that end the calls, in the order of the ends; their
        states, codes in `STATES`; the rows of the entries that are still open, the outer ones first (int64).
    """
    steps = _SPAN_STEPS[step + 1]
    pairs = pair(steps, key=address + np.uint64(1), level=np.clip(depth, 0, MAX_INT32), carried=carried)
    begin, by = ended(pairs, steps)
    state = np.where(begin < 0, NO_ENTRY, np.where(pairs.closer[begin] < 0, NO_EXIT, WHOLE))
    return begin, by, state, pairs.open


# ---- calls without an entry


MAX_MISSING = 1 << 16
"""The largest number of calls of a task that are shown without an entry."""


class MissingEntry(NamedTuple):
    """A call without an entry.

    Attributes:
        record: the number of the record in the task before which it begins.
        exit: the number of its exit record in the task.
        time: the time at which it begins in nanoseconds.
        address: an address inside its function.
        name: the code of the name of its function.
        module: the code of the name of its module, or -1.
    """

    record: int
    exit: int
    time: int
    address: int
    name: int
    module: int


def missing_entries(
    chunks: Iterable[Chunk], codes_of: Callable[[Chunk, Array], tuple[Array, Array]]
) -> list[MissingEntry]:
    """Return the first `MAX_MISSING` calls of a task without an entry, in the order of their begins, the outer first.

    Args:
        chunks: the records of the task.
        codes_of: returns the codes of the names of the functions at addresses of a chunk, and those of their modules.
    """
    pairing, records, first = CallPairing(), _OuterRecords(), 0
    result: list[MissingEntry] = []
    for chunk in chunks:
        if chunk.gap is not None:
            pairing.skip()
            continue
        state, row = pairing.pair(chunk)
        rows = slice(None) if pairing.step.all() else np.flatnonzero(pairing.step)
        numbers, depth, times = np.arange(first, first + len(chunk))[rows], pairing.depth[rows], chunk.nanoseconds[rows]
        exits = row[state == NO_ENTRY][: MAX_MISSING - len(result)]
        if len(exits):
            begin = pairing.first or 0
            places = records.before(numbers, depth, times, np.searchsorted(numbers, exits + first))
            address = pairing.address[exits]
            columns = (exits + first, address, *codes_of(chunk, address))
            for (record, time), number, *function in zip(places, *(each.tolist() for each in columns), strict=True):
                result.append(MissingEntry(record + 1, number, begin if record < 0 else time, *function))
            if len(result) >= MAX_MISSING:
                break
        else:
            records.enter(numbers, depth, times)
        first += len(chunk)
    return sorted(result, key=lambda call: (call.record, -call.exit))


class _OuterRecords:
    """The entries and exits so far that no later one is as deep as or less deep than: number, depth and time of each.

    Their depths rise from one to the next, so the last record up to a depth is among them.
    """

    def __init__(self) -> None:
        self._records: list[tuple[int, int, int]] = []

    def enter(self, record: Array, depth: Array, time: Array) -> None:
        """Take entries and exits, given by their numbers, depths and times."""
        if not len(depth):
            return
        least = np.minimum.accumulate(depth[::-1])[::-1]  # of each record and all after it
        outer = np.flatnonzero(np.append(depth[:-1] < least[1:], True))
        self._drop(int(least[0]))
        self._records += zip(record[outer].tolist(), depth[outer].tolist(), time[outer].tolist(), strict=True)

    def before(self, record: Array, depth: Array, time: Array, exits: Array) -> list[tuple[int, int]]:
        """Take entries and exits, likewise; return the last record up to the depth of each of some exits before it.

        Args:
            record: their numbers.
            depth: their depths.
            time: their times.
            exits: the rows of the exits, rising.

        Returns:
            The number and the time of the record for each exit; -1 and 0 if there is none.
        """
        result, asked = [], set(exits.tolist())
        rows = zip(record.tolist(), depth.tolist(), time.tolist(), strict=True)
        for row, (number, level, moment) in enumerate(rows):
            if row in asked:
                self._drop(level + 1)
                result.append((self._records[-1][0], self._records[-1][2]) if self._records else (-1, 0))
            self._drop(level)
            self._records.append((number, level, moment))
        return result

    def _drop(self, depth: int) -> None:
        """Drop the records of this depth and deeper ones."""
        while self._records and self._records[-1][1] >= depth:
            self._records.pop()
