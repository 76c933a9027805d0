"""Calls whose entry is missing: those that were open already when a task began, as after `fork`, or after losses.

Only the exit of such a call tells that there was one.  It began, as far as one can know, directly behind the last
record that is not deeper than it, or with the first record of the task.  So that it can be shown around the calls
within it, the records of a task are read ahead once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from fxtio.arrays import Array
from fxtio.uftrace.frames import Chunk
from fxtio.uftrace.pairing import NO_ENTRY, CallPairing

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
        ended = pairing.pair(chunk)
        rows = slice(None) if pairing.step.all() else np.flatnonzero(pairing.step)
        numbers, depth, times = np.arange(first, first + len(chunk))[rows], pairing.depth[rows], chunk.nanoseconds[rows]
        exits = ended.row[ended.state == NO_ENTRY][: MAX_MISSING - len(result)]
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
        least = np.minimum.accumulate(depth[::-1])[::-1]  # of each record and all behind it
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
