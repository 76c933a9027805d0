"""The columns of a frame: counted first, then filled, each by the kernels; buffers in parallel.

Counting tells how many rows every kind of event and every list has, and where a buffer has a fault.  Only the columns
that somebody wants are made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from fxtio import _native
from fxtio._native.operations import RULES, Fault
from fxtio.codec.stream import Dialect
from fxtio.codec.stream_program import Program
from fxtio.finding import Findings
from fxtio.mono.framing import Frame, Recording
from fxtio.mono.header import StreamHeader, buffer_dtype
from fxtio.mono.records import VERSIONS, dialect_of

Array = np.ndarray[Any, Any]

_OF_A_CUT = (Fault.CUT, Fault.NO_END, Fault.BEYOND)
"""What a whole event becomes when its buffer is cut."""

_MAX_THREADS = 8
_WORTH_A_THREAD = 1 << 18
"""Bytes below which a thread costs more than it gives."""


@cache
def program_of(dialect: Dialect) -> Program:
    """The program of a dialect, made on first use."""
    return Program(dialect)


class Workers:
    """Threads that run kernels; C kernels let others run meanwhile, their twins would only wait for each other."""

    def __init__(self) -> None:
        count = min(os.cpu_count() or 1, _MAX_THREADS) if _native.IMPLEMENTATION == "c" else 1
        self._count = count
        self._pool = ThreadPoolExecutor(count) if count > 1 else None

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def each(self, frame: Frame, work: Callable[[slice], None]) -> None:
        """Call `work` with slices that together are all buffers."""
        slices = list(self._split(frame))
        if self._pool is None or len(slices) < 2:
            work(slice(0, len(frame)))
            return
        for done in [self._pool.submit(work, one) for one in slices]:
            done.result()

    def _split(self, frame: Frame) -> Iterator[slice]:
        ends = np.cumsum(frame.end - frame.begin)
        total = int(ends[-1])
        parts = max(1, min(self._count, total // _WORTH_A_THREAD))
        first = 0
        for part in range(1, parts + 1):
            last = int(np.searchsorted(ends, total * part // parts)) + 1 if part < parts else len(frame)
            if last > first:
                yield slice(first, last)
                first = last


class Batch:
    """A frame with its columns.

    Args:
        frame: the frame.
        findings: where faults of buffers are noted.
        workers: the threads.

    Attributes:
        program: the program of the frame's dialect.
        counts: rows by buffer and owner (int64).
        stop: where the whole events of each buffer end, in the frame's data (int64).
    """

    def __init__(self, frame: Frame, findings: Findings, workers: Workers) -> None:
        self.frame = frame
        self.program = program_of(frame.recording.dialect)
        self._workers = workers
        self._mask = (1 << frame.recording.dialect.width) - 1
        count = len(frame)
        self.counts = np.empty((count, self.program.owners), np.int64)
        self.stop = np.empty(count, np.int64)
        fault = np.empty(count, np.uint8)
        names = self.program.registers
        self._registers = np.stack([frame.headers[name].astype(np.uint64) for name in names], axis=1)
        p = self.program

        def count_rows(some: slice) -> None:
            _native.scan_stream(
                frame.data, frame.begin[some], frame.end[some], self._registers[some], p.steps, p.entry, p.jumps,
                self._mask, self.counts[some], self.stop[some], fault[some],
            )  # fmt: skip

        if count:
            workers.each(frame, count_rows)
        self.totals: list[int] = self.counts.sum(axis=0).tolist()
        self._note(fault, findings)
        self._columns: dict[int, Array] = {}

    def _note(self, fault: Array, findings: Findings) -> None:
        for number in np.flatnonzero(fault).tolist():
            if self.frame.cut and number == len(self.frame) - 1 and fault[number] in _OF_A_CUT:
                continue  # that the buffer is cut is known
            stop, end = int(self.stop[number]), int(self.frame.end[number])
            first = int(self.frame.data[stop])
            told = f"an event {first:#04x} cannot be read; {end - stop:,} bytes, the rest of its buffer, are left out"
            findings.add(RULES[fault[number]], self.frame.base + stop, told)

    def fill(self, owners: Iterable[int]) -> None:
        """Make the columns of some kinds and lists."""
        wanted = set(owners)
        self._fill({number for number, plan in enumerate(self.program.columns) if plan.owner in wanted})

    def _fill(self, numbers: set[int]) -> None:
        made: dict[int, Array] = {}
        for number in numbers - self._columns.keys():
            plan = self.program.columns[number]
            if self.totals[plan.owner]:
                made[number] = self.program.room(number, self.totals[plan.owner])
        if not made:
            return
        self._columns.update(made)
        columns = tuple(made.get(number) for number in range(len(self.program.columns)))
        first = np.cumsum(self.counts, axis=0) - self.counts
        p, frame = self.program, self.frame

        def take(some: slice) -> None:
            _native.fill_stream(
                frame.data, frame.begin[some], self.stop[some], self._registers[some], p.steps, p.entry, p.jumps,
                self._mask, frame.base, first[some], columns,
            )  # fmt: skip

        self._workers.each(frame, take)

    def column(self, owner: int, field: str, role: str = "value") -> Array | None:
        """A column that was filled; None if the version does not have it."""
        number = self.program.column_of(owner, field, role)
        if number is None:
            return None
        if number not in self._columns:
            return self.program.room(number, 0)
        return self._columns[number]

    def texts(self, owner: int, field: str) -> tuple[Array, Array] | None:
        """Where texts begin in the frame's data (-1 for none) and their lengths; None if the version has no such."""
        begin = self.column(owner, field, "text")
        length = self.column(owner, field, "length")
        return None if begin is None or length is None else (begin, length)

    def span(self) -> tuple[int, int] | None:
        """The earliest and the latest time in nanoseconds; None without events."""
        kinds = range(len(self.program.dialect.classes))
        clock = {
            number for number, one in enumerate(self.program.columns) if (one.field, one.role) == ("time", "value")
        }
        self._fill(clock)
        found = [time.view(np.int64) for kind in kinds if (time := self.column(kind, "time")) is not None and len(time)]
        if not found:
            return None
        return min(int(time.min()) for time in found), max(int(time.max()) for time in found)


def nothing() -> Batch:
    """A batch without events."""
    recording = Recording(StreamHeader(), b"", dialect_of(VERSIONS[-1], 8), 0)
    none = np.empty(0, np.int64)
    frame = Frame(recording, np.empty(0, np.uint8), 0, none, none, np.empty(0, buffer_dtype()), cut=False)
    return Batch(frame, Findings(), Workers())
