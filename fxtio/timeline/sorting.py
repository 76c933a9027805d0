"""Sorts steps and their arguments by time in bounded memory.

Sorted runs go to a temporary file, and come back merged, window by window.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from fxtio.arrays import Array
from fxtio.io.sink import names_if_full
from fxtio.timeline.parts import STEP_COLUMNS, Steps
from fxtio.timeline.schema import number_types

Columns = dict[str, Array]

MAX_ROWS = 2_000_000
"""The most rows that are held in memory; a step has 68 bytes, an argument 36."""

_WINDOWS = 16  # windows have a part of the rows that runs have, since pairing needs memory, too

_TYPES: dict[str, dict[str, str]] = {
    "steps": {name: dtype for name, (dtype, _) in STEP_COLUMNS.items()},
    "args": {"time": "int64", **number_types("args")},
}
"""The columns of both kinds of rows; `time` is that by which they are sorted."""


class Window(NamedTuple):
    """The next rows in the order of time.

    Attributes:
        steps: the steps.
        args: the numbers of the columns of their arguments.
    """

    steps: Steps
    args: Columns


class _Run(NamedTuple):
    """A sorted run in the file: the kind of its rows, where it begins, and how many there are."""

    kind: str
    offset: int
    rows: int


class Sorter:
    """Takes steps and arguments in any order, and gives all of them back in the order of time.

    Steps with the same time keep their order, and so do arguments.  Use it in a `with` block, which removes the
    temporary file.

    Raises:
        OSError: the temporary file cannot be written.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, list[Columns]] = {kind: [] for kind in _TYPES}
        self._rows = 0
        self._runs: list[_Run] = []
        self._file: Any = None  # binary, for reading and writing

    def __enter__(self) -> Sorter:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, steps: Steps, args: Mapping[str, Array]) -> Array:
        """Take some steps, without those that have no effect, and their arguments.

        Args:
            steps: the steps.
            args: the numbers of the columns of arguments, by name.

        Returns:
            For each argument whether it was taken (bool): it belongs to one of the steps.
        """
        steps = steps.take(steps.step != 0)
        self._wait("steps", {name: getattr(steps, name) for name in STEP_COLUMNS})
        order = np.argsort(steps.event, kind="stable")
        events = steps.event[order]
        place = np.searchsorted(events, args["event"])
        belongs = place < len(events)
        belongs[belongs] = events[place[belongs]] == args["event"][belongs]
        taken = {name: column[belongs] for name, column in args.items()}
        self._wait("args", {"time": steps.time[order[place[belongs]]], **taken})
        if self._rows > MAX_ROWS:
            self._write_runs()
        return belongs

    def _wait(self, kind: str, columns: Columns) -> None:
        self._waiting[kind].append(columns)
        self._rows += len(columns["time"])

    def windows(self) -> Iterator[Window]:
        """Yield everything in the order of time, in parts of bounded size."""
        if not self._runs:
            yield _window({kind: [self._sorted(kind)] for kind in _TYPES})
            return
        self._write_runs()
        times = [self._times(run) for run in self._runs]
        places = [0] * len(times)
        while any(place < len(time) for place, time in zip(places, times, strict=True)):
            ends = _ends(times, places)
            parts: dict[str, list[Columns]] = {kind: [] for kind in _TYPES}
            for run, begin, end in zip(self._runs, places, ends, strict=True):
                if begin < end:
                    parts[run.kind].append(self._read(run, begin, end))
            places = ends
            yield _window(parts)

    def _sorted(self, kind: str) -> Columns:
        """Return the rows of a kind that wait, in order."""
        columns = _in_order(kind, self._waiting[kind])
        self._waiting[kind] = []
        return columns

    def _write_runs(self) -> None:
        """Write the rows that wait to the file."""
        with names_if_full():
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="fxtio-")  # noqa: SIM115  # closed by `__exit__`
            for kind, types in _TYPES.items():
                columns = self._sorted(kind)
                if len(columns["time"]):
                    self._runs.append(_Run(kind, self._file.tell(), len(columns["time"])))
                    for name in types:
                        self._file.write(columns[name].data)
            self._file.flush()
        self._rows = 0

    def _times(self, run: _Run) -> Array:
        """Return the times of a run, which are read from the file when they are used."""
        return np.memmap(self._file, "int64", "r", _offset(run, "time"), (run.rows,))

    def _read(self, run: _Run, begin: int, end: int) -> Columns:
        """Return some rows of a run; they are not mapped, so that memory has only what is in use."""
        columns: Columns = {}
        for name, dtype in _TYPES[run.kind].items():
            columns[name] = np.empty(end - begin, dtype)
            self._file.seek(_offset(run, name) + begin * columns[name].itemsize)
            self._file.readinto(columns[name])
        return columns


def _offset(run: _Run, column: str) -> int:
    """Return where a column of a run begins in the file."""
    types = _TYPES[run.kind]
    return run.offset + sum(run.rows * np.dtype(types[name]).itemsize for name in [*types][: [*types].index(column)])


def _ends(times: list[Array], places: list[int]) -> list[int]:
    """Return where the next window ends in each run: after all rows up to the latest time at which it is small enough.

    Args:
        times: the times of each run.
        places: where the window begins in each run.
    """
    most = max(MAX_ROWS // _WINDOWS, 1)
    share = max(most // len(times), 1)
    limits = set()
    for time, place in zip(times, places, strict=True):
        count = share
        while place < len(time) and count <= most:
            limits.add(int(time[min(place + count, len(time)) - 1]))
            count *= 2
    candidates = sorted(limits)
    ends = _behind(times, candidates[0])  # from every run, it has its share at most, or rows of one time
    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high + 1) // 2
        wider = _behind(times, candidates[middle])
        if sum(wider) - sum(places) <= most:
            low, ends = middle, wider
        else:
            high = middle - 1
    return ends


def _behind(times: list[Array], limit: int) -> list[int]:
    """Return how many rows of each run are not later than a time."""
    return [int(time.searchsorted(limit, "right")) for time in times]


def _window(parts: Mapping[str, list[Columns]]) -> Window:
    return Window(Steps(**_in_order("steps", parts["steps"])), _in_order("args", parts["args"]))


def _in_order(kind: str, parts: list[Columns]) -> Columns:
    """Join rows of a kind, and sort them by time; the parts lose their columns, which would take memory twice."""
    none = {name: np.empty(0, dtype) for name, dtype in _TYPES[kind].items()}
    order = np.argsort(np.concatenate([none["time"], *(part["time"] for part in parts)]), kind="stable")
    return {name: np.concatenate([column, *(part.pop(name) for part in parts)])[order] for name, column in none.items()}
