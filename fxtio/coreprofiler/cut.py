"""Cut a part out of a trace: a range of times, and some threads.

Records without a time describe functions, classes and threads, and stay.  The first sample of each thread in the part
has the whole stack, since samples tell what changed.  A compilation or collection that is cut by the range begins at
its start or ends at its end, and so does a pause of the profiler.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any

from msgspec.structs import replace

from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.layout import BYTE_ORDER_MARK, NS_PER_MS
from fxtio.coreprofiler.lines import encode
from fxtio.coreprofiler.reader import CoreProfilerTrace
from fxtio.coreprofiler.state import MAX_OPEN, Stacks
from fxtio.finding import Findings
from fxtio.formats import CutResult
from fxtio.io.sink import whole_file
from fxtio.report import counted, human_size
from fxtio.selection import Selection, SelectionError

_BEGINS: dict[type[Any], type[Any]] = {
    r.JitStarted: r.JitFinished,
    r.JitSearchStarted: r.JitSearchFinished,
    r.GcStarted: r.GcFinished,
    r.ProfilerPaused: r.ProfilerResumed,
}
"""The records that begin something, and those that end it."""

_ENDS = {end: begin for begin, end in _BEGINS.items()}

_PAUSE = (r.ProfilerPaused, None, None)
"""The key of a pause among what is open."""


def cut(trace: CoreProfilerTrace, selection: Selection, target: str | PathLike[str]) -> CutResult:
    """Write a part of a trace as a new file, see `fxtio.formats.CutRoom`."""
    if selection.names or selection.categories or selection.processes:
        raise SelectionError(
            "a sample of a CoreProfiler trace is a whole stack of one process, so neither functions nor processes can "
            "be selected; give a range of times or threads"
        )
    written = timed = 0
    with whole_file(target) as sink:
        cutter = _Cutter(selection)
        for entry in trace.entries(resolve=False):
            if not sink.position and trace.style.mark:
                sink.write(BYTE_ORDER_MARK)
            for record in cutter.enter(entry.offset, entry.time, entry.record):
                sink.write(encode(record, trace.style))
                written, timed = written + 1, timed + (entry.time is not None)
        for record in cutter.finish():
            sink.write(encode(record, trace.style))
            written, timed = written + 1, timed + 1
    return CutResult(f"{counted(written, 'record')} ({human_size(sink.position)})", is_empty=not timed)


class _Cutter:
    """The work on one trace."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._start = -(-max(selection.start or 0, 0) // NS_PER_MS)  # milliseconds
        self._end = None if selection.end is None else -(-selection.end // NS_PER_MS)
        self._stacks = Stacks(Findings("coreprofiler"))
        self._begun: set[Any] = set()  # threads whose whole stack was written
        self._open: dict[tuple[Any, ...], tuple[Any, bool]] = {}  # what has begun, and whether that was written
        self._count: int | None = 0

    def _has(self, time: int | None) -> bool:
        if time is None:
            return True
        selection = self._selection
        return (selection.start is None or time >= selection.start) and (selection.end is None or time < selection.end)

    def _is_before(self, time: int) -> bool:
        return self._selection.start is not None and time < self._selection.start

    def enter(self, offset: int, time: int | None, record: Any) -> Iterator[Any]:
        """Yield what is written for a record."""
        for written in self._parts(offset, time, record):
            if time is not None:
                yield from self._pause()
            yield written

    def _pause(self) -> Iterator[Any]:
        """Yield the begin of a pause in which the range begins, once: what follows in the file is in the pause."""
        opened, is_written = self._open.get(_PAUSE, (None, True))
        if not is_written and self._is_before(opened.timestamp * NS_PER_MS):
            self._open[_PAUSE] = opened, True
            yield _at(opened, self._start)

    def _parts(self, offset: int, time: int | None, record: Any) -> Iterator[Any]:
        kind = type(record)
        if kind is r.StackSample:
            yield from self._sample(offset, time, record)
            return
        if kind is r.MemorySample:
            yield from self._memory(offset, time, record)
            return
        self._stacks.observe(record)
        if time is None:
            yield record
        elif kind in _BEGINS or kind in _ENDS:
            yield from self._pair(time, record)
        elif self._has(time) and self._has_thread(record):
            yield record

    def _has_thread(self, record: Any) -> bool:
        thread = getattr(record, "thread", None)
        return thread is None or self._selection.has_thread(None, thread)

    def _sample(self, offset: int, time: int | None, record: Any) -> Iterator[Any]:
        """Yield a sample, with the whole stack if it is the first one of its thread."""
        thread = self._stacks.change(offset, record)
        self._count = record.count
        if not self._has(time) or not self._has_thread(record):
            return
        if thread.followed and record.thread not in self._begun:
            self._begun.add(record.thread)
            if self._selection.start is not None and thread.complete:
                record = r.StackSample(record.thread, record.timestamp, record.count, 0, 0, None, tuple(thread.frames))
        yield record

    def _memory(self, offset: int, time: int | None, record: Any) -> Iterator[Any]:
        """Yield allocations, behind the stack of their thread if this was not written yet."""
        thread = self._stacks.current(offset, record)
        if not self._has(time) or not self._has_thread(record):
            return
        if record.thread not in self._begun and thread.frames:
            self._begun.add(record.thread)
            count = None if self._count is None else 0
            yield r.StackSample(record.thread, record.timestamp, count, 0, 0, None, tuple(thread.frames))
        yield record

    def _pair(self, time: int, record: Any) -> Iterator[Any]:
        """Yield the begin or the end of something, moved into the range if the other one is in it or beyond."""
        if not self._has_thread(record):
            return
        begin = _ENDS.get(type(record), type(record))
        key = begin, getattr(record, "thread", None), getattr(record, "function_id", None)
        if type(record) in _BEGINS:
            if key in self._open or len(self._open) < MAX_OPEN:
                self._open[key] = record, self._has(time)
            if self._has(time):
                yield record
            return
        opened, is_written = self._open.pop(key, (None, False))
        if opened is None:
            if self._has(time):
                yield record
        elif is_written:
            yield record if self._has(time) else _at(record, self._end)
        elif not self._is_before(time) and self._is_before(opened.timestamp * NS_PER_MS):
            yield _at(opened, self._start)
            yield record if self._has(time) else _at(record, self._end)

    def finish(self) -> Iterator[Any]:
        """Yield what has begun before the range, and not ended."""
        for record, is_written in self._open.values():
            if not is_written and self._is_before(record.timestamp * NS_PER_MS):
                yield _at(record, self._start)


def _at(record: Any, time: int | None) -> Any:
    """Return a record with another time in milliseconds."""
    return record if time is None else replace(record, timestamp=time)
