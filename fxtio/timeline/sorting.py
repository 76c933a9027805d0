"""Sorts steps by time in bounded memory: sorted runs go to a temporary file, and come back merged, window by window."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

import numpy as np

from fxtio.timeline.parts import STEP_COLUMNS, Steps

MAX_ROWS = 4_000_000
"""The most rows that are kept in memory; one has 68 bytes."""


class _Run(NamedTuple):
    """A sorted run in the file: where it begins, and its rows."""

    offset: int
    rows: int


class Sorter:
    """Takes steps in any order, and gives all of them back in the order of time.

    Steps with the same time keep their order.  Use it in a `with` block, which removes the temporary file.

    Raises:
        OSError: the temporary file cannot be written.
    """

    def __init__(self) -> None:
        self._waiting: list[Steps] = []
        self._rows = 0
        self._runs: list[_Run] = []
        self._file: BinaryIO | None = None

    def __enter__(self) -> Sorter:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, steps: Steps) -> None:
        """Take some steps; those without an effect are left out."""
        steps = steps.take(steps.step != 0)
        self._waiting.append(steps)
        self._rows += len(steps)
        if self._rows > MAX_ROWS:
            self._write_run()

    def windows(self) -> Iterator[Steps]:
        """Yield all steps in the order of time, in parts of bounded size."""
        if not self._runs:
            yield self._sorted()
            return
        self._write_run()
        runs = [self._mapped(run) for run in self._runs]
        places = [0] * len(runs)
        share = max(MAX_ROWS // len(runs), 1)
        while True:
            ends = [min(place + share, len(run)) for place, run in zip(places, runs, strict=True)]
            limits = [int(run.time[end - 1]) for place, end, run in zip(places, ends, runs, strict=True) if end > place]
            if not limits:
                return
            limit = min(limits)
            ends = [int(run.time.searchsorted(limit, "right")) for run in runs]
            parts = [run.take(slice(*bounds)) for run, *bounds in zip(runs, places, ends, strict=True)]
            places = ends
            yield _in_order(Steps.joined(parts))

    def _sorted(self) -> Steps:
        steps = _in_order(Steps.joined([Steps.blank(0), *self._waiting]))
        self._waiting, self._rows = [], 0
        return steps

    def _write_run(self) -> None:
        """Write the steps that wait to the file."""
        if not self._rows:
            return
        if self._file is None:
            self._file = cast("BinaryIO", tempfile.TemporaryFile(prefix="fxtio-"))  # noqa: SIM115  # closed by `__exit__`
        run = _Run(self._file.tell(), self._rows)
        steps = self._sorted()
        for name in STEP_COLUMNS:
            self._file.write(getattr(steps, name).data)
        self._runs.append(run)

    def _mapped(self, run: _Run) -> Steps:
        """Return a run as arrays that are read from the file when they are used."""
        assert self._file is not None
        self._file.flush()
        columns, offset = {}, run.offset
        for name, (dtype, _) in STEP_COLUMNS.items():
            columns[name] = np.memmap(self._file, dtype, "r", offset, (run.rows,))
            offset += columns[name].nbytes
        return Steps(**columns)


def _in_order(steps: Steps) -> Steps:
    return steps.take(np.argsort(steps.time, kind="stable"))
