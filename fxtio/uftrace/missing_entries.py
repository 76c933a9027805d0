"""Calls whose entry is missing: those that were open already when a task began, as after `fork`, or after losses.

Only the exit of such a call tells that there was one.  It began, as far as one can know, directly behind the last
record that is not deeper than it, or with the first record of the task.  So that it can be shown around the calls
within it, the records of a task are read ahead once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.frames import Chunk
from fxtio.uftrace.layout import RecordWord
from fxtio.uftrace.tables import NO_ENTRY, CallPairing

Array = np.ndarray[Any, Any]

MAX_MISSING = 1 << 16
"""The largest number of calls of a task that are shown without an entry."""

_TYPE = RecordWord.fields["type"]
_DEEPEST = 1 << 12  # calls deeper than this are taken for calls of this depth


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


def no_codes(addresses: Array) -> Array:
    """Return a code for each address, for a pairing whose names are not used."""
    return np.zeros(len(addresses), np.int32)


def missing_entries(
    chunks: Iterable[Chunk], codes_of: Callable[[Chunk, Array], tuple[Array, Array]]
) -> list[MissingEntry]:
    """Return the first `MAX_MISSING` calls of a task without an entry, in the order of their begins, the outer first.

    Args:
        chunks: the records of the task.
        codes_of: returns the codes of the names of the functions at addresses of a chunk, and those of their modules.
    """
    pairing, latest, first = CallPairing(), _LatestRecords(), 0
    result: list[MissingEntry] = []
    for chunk in chunks:
        if chunk.gap is not None:
            pairing.skip()
            continue
        calls = pairing.ended_in(chunk, first, no_codes)
        missing = np.flatnonzero(calls.state == NO_ENTRY)[: MAX_MISSING - len(result)]
        rows = calls.exit[missing] - first
        if len(rows):
            result += _of_chunk(chunk, first, pairing, latest, rows, calls.start[missing], codes_of)
            if len(result) >= MAX_MISSING:
                break
        latest.enter(*_calls_of(chunk, first, pairing, 0, len(chunk)))
        first += len(chunk)
    return sorted(result, key=lambda call: (call.record, -call.exit))


def _of_chunk(
    chunk: Chunk, first: int, pairing: CallPairing, latest: _LatestRecords, rows: Array, start: Array,
    codes_of: Callable[[Chunk, Array], tuple[Array, Array]],
) -> list[MissingEntry]:  # fmt: skip
    names, modules = codes_of(chunk, pairing.address[rows])
    result, begin = [], 0
    for place, row in enumerate(rows.tolist()):
        latest.enter(*_calls_of(chunk, first, pairing, begin, row))
        begin = row
        record, time = latest.up_to(int(pairing.depth[row]))
        time = int(start[place]) if record < 0 else time
        address = int(pairing.address[row])
        result.append(MissingEntry(record + 1, first + row, time, address, int(names[place]), int(modules[place])))
    return result


def _calls_of(chunk: Chunk, first: int, pairing: CallPairing, begin: int, end: int) -> tuple[Array, Array, Array]:
    """Return the numbers, depths and times of the entries and exits among the rows from `begin` to `end`."""
    kinds = _TYPE.get(chunk.words[begin:end])
    rows = np.flatnonzero((kinds == RecordType.ENTRY) | (kinds == RecordType.EXIT)) + begin
    return rows + first, pairing.depth[rows], chunk.nanoseconds[rows]


class _LatestRecords:
    """The last record of each depth, and its time."""

    def __init__(self) -> None:
        self._record = np.full(1, -1, np.int64)
        self._time = np.zeros(1, np.int64)

    def enter(self, record: Array, depth: Array, time: Array) -> None:
        """Take entries and exits, given by their numbers, depths and times."""
        if not len(depth):
            return
        depth = np.clip(depth, 0, _DEEPEST)
        room = int(depth.max()) + 1 - len(self._record)
        if room > 0:
            self._record = np.append(self._record, np.full(room, -1, np.int64))
            self._time = np.append(self._time, np.zeros(room, np.int64))
        last = np.full(len(self._record), -1, np.int64)
        last[depth] = np.arange(len(depth))  # of several records of a depth, the last one stays
        touched = np.flatnonzero(last >= 0)
        self._record[touched], self._time[touched] = record[last[touched]], time[last[touched]]

    def up_to(self, depth: int) -> tuple[int, int]:
        """Return the number and the time of the last record that is not deeper than this, -1 and 0 if there is none."""
        records = self._record[: min(depth, _DEEPEST) + 1]
        place = int(records.argmax())
        return int(records[place]), int(self._time[place])
