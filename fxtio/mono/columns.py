"""The columns of a frame: counted first, then filled, both by kernels and for several buffers in parallel.

Counting gives the number of rows of every kind of event and of every list, and the fault of each buffer.  Only columns
that are requested are filled.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fxtio import _native
from fxtio._native.constants import RULES, Fault, TimeFault
from fxtio.arrays import Array
from fxtio.codec.stream.kernels import kernels
from fxtio.codec.stream.steps import steps_of
from fxtio.finding import Findings
from fxtio.mono.buffers import decode_events
from fxtio.mono.frames import Frame
from fxtio.mono.headers import buffer_dtype
from fxtio.mono.records import VERSIONS, dialect_of
from fxtio.report import counted
from fxtio.table import MAX_TIME

_FAULTS_OF_A_CUT = (Fault.CUT, Fault.NO_END, Fault.BEYOND)
"""The faults of the last event in a buffer that is cut off."""

_MAX_THREADS = 8
_MIN_BYTES_PER_THREAD = 1 << 18
"""A thread costs more than it saves for fewer bytes than this."""


class Workers:
    """Threads that run kernels; only one for kernels in Python, which hold the interpreter lock."""

    def __init__(self) -> None:
        count = min(os.cpu_count() or 1, _MAX_THREADS) if _native.IMPLEMENTATION == "c" else 1
        self._count = count
        self._pool = ThreadPoolExecutor(count) if count > 1 else None

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def each(self, frame: Frame, work: Callable[[slice], None]) -> None:
        """Call `work` with slices of the frame's buffers, which together are all buffers."""
        slices = list(self._split(frame))
        if self._pool is None or len(slices) < 2:
            work(slice(0, len(frame)))
            return
        for future in [self._pool.submit(work, part) for part in slices]:
            future.result()

    def _split(self, frame: Frame) -> Iterator[slice]:
        ends = np.cumsum(frame.end - frame.begin)
        total = int(ends[-1])
        parts = max(1, min(self._count, total // _MIN_BYTES_PER_THREAD))
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
        findings: takes the faults of buffers.
        workers: the threads.

    Attributes:
        steps: the steps of the frame's dialect.
        counts: the rows by buffer and owner (int64).
        totals: the rows by owner.
        stop: where the whole events of each buffer end, in the frame's data (int64).
        has_late_times: whether there may be times later than `MAX_TIME`.
        goes_back: in which buffers there may be times before that of the header or of the event before (bool).
    """

    def __init__(self, frame: Frame, findings: Findings, workers: Workers) -> None:
        self.frame = frame
        self.steps = steps_of(frame.dialect)
        self._workers = workers
        self._kernels = kernels()
        count = len(frame)
        self.counts = np.empty((count, self.steps.owners), np.int64)
        self.stop = np.empty(count, np.int64)
        fault, times = np.empty(count, np.uint8), np.empty(count, np.uint8)
        names = self.steps.registers
        self._registers = np.stack([frame.headers[name].astype(np.uint64) for name in names], axis=1)

        def scan(part: slice) -> None:
            self._kernels.scan(
                self.steps, frame.data, frame.begin[part], frame.end[part], self._registers[part], self.counts[part],
                self.stop[part], fault[part], times[part],
            )  # fmt: skip

        if count:
            workers.each(frame, scan)
        self.totals: list[int] = self.counts.sum(axis=0).tolist()
        self.goes_back = (times & TimeFault.BACK) > 0
        late = (times & TimeFault.LATE) > 0
        late |= frame.headers["time"] > MAX_TIME  # events may have the time of the header
        self.has_late_times = bool(late.any())
        self._report(fault, late, findings)
        self._columns: dict[int, Array] = {}

    def _report(self, fault: Array, late: Array, findings: Findings) -> None:
        """Add findings for each buffer with late times or a fault."""
        for number in np.flatnonzero((fault > 0) | late).tolist():
            if late[number]:
                self._report_late(number, findings)
            if not fault[number]:
                continue
            if self.frame.cut and number == len(self.frame) - 1 and fault[number] in _FAULTS_OF_A_CUT:
                continue  # the frame has reported the cut
            stop, end = int(self.stop[number]), int(self.frame.end[number])
            first = int(self.frame.data[stop])
            message = (
                f"an event {first:#04x} cannot be read; left out of its buffer: the last {counted(end - stop, 'byte')}"
            )
            findings.add(RULES[fault[number]], self.frame.base + stop, message)

    def _report_late(self, number: int, findings: Findings) -> None:
        """Add a finding for the events of a buffer whose times do not fit in 64 bits with a sign."""
        begin, frame = int(self.frame.begin[number]), self.frame
        data = frame.data[begin : int(self.stop[number])].tobytes()
        events = decode_events(frame.dialect, frame.header(number), data)
        late = ((offset, event.time) for offset, event in events if event.time > MAX_TIME)
        if (first := next(late, None)) is not None:
            offset, time = first
            message = f"a time of {time:,} ns is later than 2**63 - 1 ns; tables have 2**63 - 1 in its place"
            findings.add("time.overflow", frame.base + begin + offset, message, times=1 + sum(1 for _ in late))

    def fill(self, owners: Iterable[int]) -> None:
        """Fill the columns of some kinds of events and lists."""
        requested = set(owners)
        self._fill({number for number, plan in enumerate(self.steps.columns) if plan.owner in requested})

    def _fill(self, numbers: set[int]) -> None:
        missing: dict[int, Array] = {}
        for number in numbers - self._columns.keys():
            plan = self.steps.columns[number]
            if self.totals[plan.owner]:
                missing[number] = self.steps.empty_column(number, self.totals[plan.owner])
        if not missing:
            return
        self._columns.update(missing)
        columns = tuple(missing.get(number) for number in range(len(self.steps.columns)))
        first = np.cumsum(self.counts, axis=0) - self.counts
        frame = self.frame

        def fill(part: slice) -> None:
            self._kernels.fill(
                self.steps, frame.data, frame.begin[part], self.stop[part], self._registers[part], frame.base,
                first[part], columns,
            )  # fmt: skip

        self._workers.each(frame, fill)

    def column(self, owner: int, field: str, role: str = "value") -> Array | None:
        """Return a filled column, or None if the version does not have it."""
        number = self.steps.column_of(owner, field, role)
        if number is None:
            return None
        if number not in self._columns:
            return self.steps.empty_column(number, 0)
        return self._columns[number]

    def times(self, kind: int) -> Array:
        """Return the times of a kind of event in nanoseconds (int64), later ones than `MAX_TIME` replaced by it."""
        times = self.column(kind, "time")
        if times is None:
            return np.empty(0, np.int64)
        return (np.minimum(times, np.uint64(MAX_TIME)) if self.has_late_times else times).view(np.int64)

    def texts(self, owner: int, field: str) -> tuple[Array, Array] | None:
        """Return where texts begin in the frame's data (-1 for none) and their sizes, or None without such a field."""
        begin = self.column(owner, field, "text")
        length = self.column(owner, field, "length")
        return None if begin is None or length is None else (begin, length)

    def time_range(self) -> tuple[int, int] | None:
        """Return the earliest and the latest time in nanoseconds, or None without events."""
        kinds = range(len(self.steps.dialect.classes))
        clocks = {
            number for number, plan in enumerate(self.steps.columns) if (plan.field, plan.role) == ("time", "value")
        }
        self._fill(clocks)
        times = [time for kind in kinds if len(time := self.times(kind))]
        if not times:
            return None
        return min(int(time.min()) for time in times), max(int(time.max()) for time in times)


def empty_batch() -> Batch:
    """Return a batch without events."""
    none, dialect = np.empty(0, np.int64), dialect_of(VERSIONS[-1], 8)
    frame = Frame(dialect, (), np.empty(0, np.uint8), 0, none, none, np.empty(0, buffer_dtype()), cut=False)
    return Batch(frame, Findings("mono"), Workers())
