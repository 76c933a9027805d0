"""Cut a part out of a data directory: a range of times, and some tasks.

The files of tasks are cut record by record.  Calls that are open at the start of the range are entered there, with
their depths and arguments; those that return behind it return at its end, with their return values.  Scheduler events,
kernel events and messages are cut by their times.  All other files stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import numpy as np

from fxtio.arrays import Array
from fxtio.finding import Findings
from fxtio.formats import CutResult
from fxtio.io.sink import whole_directory
from fxtio.report import counted
from fxtio.selection import Selection, SelectionError
from fxtio.table import MAX_TIME
from fxtio.uftrace import kernel, perf
from fxtio.uftrace.directory import StoredFile
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.events import EXTERN_FILE, ExternFile
from fxtio.uftrace.frames import Chunk
from fxtio.uftrace.info import INFO_FILE, InfoFile
from fxtio.uftrace.layout import RecordWord
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.reading import Reading
from fxtio.uftrace.tables import CallPairing

_KIND = RecordWord.fields["type"]
_WORD = 8
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Range:
    """A range in nanoseconds; the end is not part of it."""

    start: int
    end: int

    def has(self, time: int) -> bool:
        """Return whether a time is in the range."""
        return self.start <= time < self.end


def cut(trace: UftraceTrace, selection: Selection, target: str | PathLike[str]) -> CutResult:
    """Write a part of a trace as a new directory, see `fxtio.formats.CutRoom`."""
    if selection.names or selection.categories:
        what = "names" if selection.names else "categories"
        raise SelectionError(
            f"uftrace cannot read calls without those around them, so {what} cannot be selected; "
            "use the options -F and -N of uftrace, or convert the trace"
        )
    start, end = 0 if selection.start is None else selection.start, selection.end
    bounds = _Range(*(min(max(time, 0), MAX_TIME + 1) for time in (start, MAX_TIME + 1 if end is None else end)))
    with whole_directory(target) as path:
        reading = trace.begin()
        tids = {
            tid
            for tid, pid, program in reading.tasks()
            if selection.has_thread(Path(program).name, tid) and selection.has_process(Path(program).name, pid)
        }
        records = sum(_cut_task(trace, reading, tid, bounds, path) for tid in sorted(tids))
        _cut_others(trace, reading, bounds, path)
        info = _with_tasks(trace.info_file, tids)
        (path / INFO_FILE).write_bytes(info.to_bytes())
        others = any((path / name).stat().st_size for name in _files_of_events(path))
    return CutResult(f"{counted(records, 'record')} of {counted(len(tids), 'task')}", is_empty=not (records or others))


def _files_of_events(path: Path) -> list[str]:
    """Return the names of the files in a directory that have events, but those of tasks."""
    names = (file.name for file in path.iterdir())
    return [name for name in names if name == EXTERN_FILE or perf.is_name(name) or kernel.is_name(name)]


def _cut_task(trace: UftraceTrace, reading: Reading, tid: int, bounds: _Range, path: Path) -> int:
    """Write the records of a task, and return their number."""
    with open(path / f"{tid}.dat", "wb") as file:
        task = _Task(bounds, file.write)
        for chunk in trace.chunks_of(reading, [tid]):
            task.enter(chunk)
            if task.is_done:
                break
        task.finish(trace.info_file.order)
    return task.written


class _Task:
    """The work on the records of one task.  They are cut by their place: times that go back do not divide them.

    Args:
        bounds: the range.
        write: takes the bytes.

    Attributes:
        written: the number of records that were written.
        is_done: the records that are still to come are not part of the range.
    """

    def __init__(self, bounds: _Range, write: Callable[[bytes], object]) -> None:
        self._bounds, self._write = bounds, write
        self._pairing = CallPairing()
        self._record = 0  # the number of the next record
        self._open: dict[int, bytes] = {}  # by number, the entries of the calls that are open before the range
        self._has_begun = False
        self._latest = 0
        self._live: set[int] | None = None  # the numbers of the entries of the calls that are open at the end
        self.written = 0
        self.is_done = False

    def enter(self, chunk: Chunk) -> None:
        """Take the next chunk."""
        if chunk.gap is not None:
            self._pairing.skip()
            return
        is_lost = _KIND.get(chunk.words) == RecordType.LOST
        times = np.where(is_lost, 0, chunk.nanoseconds)
        times[:1] = np.maximum(times[:1], self._latest)
        times = np.maximum.accumulate(times)
        self._latest = int(times[-1])
        first, last = np.searchsorted(times, (self._bounds.start, self._bounds.end)).tolist()
        if first:
            self._before(_rows(chunk, 0, first))
        if first == len(times):
            return
        dropped: set[int] = set()
        if not self._has_begun:
            at_start = int(np.searchsorted(times, self._bounds.start, "right"))
            dropped = self._begin(_rows(chunk, first, at_start), chunk.order)
        if first < last:
            self._within(_rows(chunk, first, last), dropped)
        if last < len(times):
            self._behind(_rows(chunk, last, len(times)))

    def _before(self, chunk: Chunk) -> None:
        """Follow the calls in records before the range."""
        first = self._record
        self._pair(chunk)
        entries = self._pairing.open.entry
        fresh = entries[entries >= first]
        raws = _raw(chunk, fresh - first)
        kept = {number: self._open[number] for number in entries[entries < first].tolist()}
        self._open = kept | dict(zip(fresh.tolist(), raws, strict=True))

    def _begin(self, chunk: Chunk, order: str) -> set[int]:
        """Enter the calls that are open at the start, but not those that return at it.

        Returns:
            The rows of the exits that are left out.
        """
        self._has_begun = True
        ended = deepcopy(self._pairing).ended_in(chunk, self._record)
        is_old = (ended.entry < self._record) & (ended.exit >= 0) & (ended.entry >= 0)
        for number in ended.entry[is_old].tolist():
            self._open.pop(number, None)
        for number in self._pairing.open.entry.tolist():
            if number in self._open:
                self._put(self._open[number], self._bounds.start, order)
        return set((ended.exit[is_old] - self._record).tolist())

    def _within(self, chunk: Chunk, dropped: set[int]) -> None:
        """Write records in the range."""
        begin = 0
        for row in [*sorted(dropped), len(chunk)]:
            if begin < row:
                stop = int(chunk.at[row - 1] + chunk.size[row - 1])
                self._write(bytes(chunk.block.data[int(chunk.at[begin]) * _WORD : stop * _WORD]))
                self.written += row - begin
            begin = row + 1
        self._pair(chunk)

    def _behind(self, chunk: Chunk) -> None:
        """Write the exits of calls that are open at the end, at this time."""
        if self._live is None:
            self._live = set(self._pairing.open.entry.tolist())
        first = self._record
        ended = self._pair(chunk)
        exits = dict(zip(ended[0], ended[1], strict=True))
        rows = [exits[number] - first for number in ended[0] if number in self._live and exits[number] >= 0]
        for raw in _raw(chunk, np.array(rows, np.int64)):
            self._put(raw, self._bounds.end, chunk.order)
        self._live.difference_update(ended[0])
        self.is_done = not self._live

    def _pair(self, chunk: Chunk) -> tuple[list[int], list[int]]:
        """Pair the records of a chunk; return the numbers of the entries and exits of the calls that end."""
        ended = self._pairing.ended_in(chunk, self._record)
        self._record += len(chunk)
        return ended.entry.tolist(), ended.exit.tolist()

    def _put(self, raw: bytes, time: int, order: str) -> None:
        """Write a record with another time."""
        self._write(time.to_bytes(_WORD, "big" if order == "big" else "little") + raw[_WORD:])
        self.written += 1

    def finish(self, order: str) -> None:
        """Enter the calls that are open from before the range to the end of the file."""
        if not self._has_begun:
            for number in self._pairing.open.entry.tolist():
                self._put(self._open[number], self._bounds.start, order)


def _rows(chunk: Chunk, begin: int, end: int) -> Chunk:
    """Return some records of a chunk."""
    return replace(chunk, at=chunk.at[begin:end], size=chunk.size[begin:end])


def _raw(chunk: Chunk, rows: Array) -> list[bytes]:
    """Return the bytes of records."""
    begins, ends = chunk.at[rows] * _WORD, (chunk.at[rows] + chunk.size[rows]) * _WORD
    data = chunk.block.data
    return [bytes(data[begin:end]) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]


# ---- the other files


def _cut_others(trace: UftraceTrace, reading: Reading, bounds: _Range, path: Path) -> None:
    """Write all files but the info file and those of tasks."""
    has_range = bounds.start > 0 or bounds.end <= MAX_TIME
    halves = _halves(trace, bounds) if has_range else {}
    left_out = {INFO_FILE, *(f"{tid}.dat" for tid in trace.tids)}
    if has_range:
        left_out.update(filter(kernel.is_name, trace.directory.names))
        for name, raw in _kernel_files(reading, bounds):
            (path / name).write_bytes(raw)
    for name in trace.directory.names:
        if name in left_out:
            continue
        with open(path / name, "wb") as file:
            if name == EXTERN_FILE:
                file.write(_cut_messages(reading, bounds))
            elif perf.is_name(name):
                file.writelines(_sched_events(trace, reading, name, bounds, halves.get(name, _NONE)))
            else:
                file.writelines(StoredFile(trace.directory, name).blocks())


def _sched_blocks(
    trace: UftraceTrace, reading: Reading, name: str, bounds: _Range
) -> Iterator[tuple[perf.PerfBlock, Array]]:
    """Yield the blocks of a file of scheduler events, and which of its events are in the range (bool)."""
    for block in perf.parse(trace.directory.blocks(name), name, trace.info_file.order, reading.findings):
        yield block, (block.time >= np.uint64(bounds.start)) & (block.time < np.uint64(bounds.end))


def _halves(trace: UftraceTrace, bounds: _Range) -> dict[str, Array]:
    """Return by file the offsets of scheduler events whose other half is not in the range.

    A task that leaves a CPU comes back: uftrace shows the time between as a call.
    """
    quiet = Reading(trace.directory, trace.info_file, trace.tids, Findings("uftrace"))
    names = list(filter(perf.is_name, trace.directory.names))
    parts = []
    for number, name in enumerate(names):
        for block, within in _sched_blocks(trace, quiet, name, bounds):
            rows = np.flatnonzero(within & np.isin(block.kind, (perf.SCHED_OUT, perf.PREEMPTED, perf.SCHED_IN)))
            places = block.base + block.at[rows]
            parts.append((block.tid[rows], block.time[rows], block.kind[rows], np.full(len(rows), number), places))
    if not parts:
        return {}
    tid, time, kind, file, place = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((time, tid))
    is_in, owner = kind[order] == perf.SCHED_IN, tid[order]
    is_pair = np.zeros(len(owner), bool)
    is_pair[:-1] = (owner[1:] == owner[:-1]) & ~is_in[:-1] & is_in[1:]
    is_pair[1:] |= is_pair[:-1].copy()
    alone = order[~is_pair]
    return {name: place[alone[file[alone] == number]] for number, name in enumerate(names)}


def _sched_events(trace: UftraceTrace, reading: Reading, name: str, bounds: _Range, left_out: Array) -> Iterator[bytes]:
    """Yield the scheduler events of a file in the range, without those at some offsets."""
    for block, within in _sched_blocks(trace, reading, name, bounds):
        kept = within & ~np.isin(block.base + block.at, left_out)
        for begin, size in zip(block.at[kept].tolist(), block.size[kept].tolist(), strict=True):
            yield block.raw[begin : begin + size]


def _cut_messages(reading: Reading, bounds: _Range) -> bytes:
    """Return the file of messages with those in the range."""
    return ExternFile.of([message for message in reading.messages() if bounds.has(message.time)]).to_bytes()


def _kernel_files(reading: Reading, bounds: _Range) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the files of kernel events.

    A call of a kernel function that is not wholly in the range is left out: it has no depth of its own in a task.
    """
    chosen: dict[int, list[tuple[int, kernel.KernelEvent]]] = {}
    open_calls: dict[int, list[int]] = {}
    kept: set[int] = set()
    events = reading.kernel_events_by_time
    for number, event in enumerate(events):
        is_in = bounds.has(event.time)
        calls = open_calls.setdefault(event.tid, [])
        if event.name == kernel.FUNCTION_ENTRY:
            calls.append(number if is_in else -1)
        elif event.name == kernel.FUNCTION_EXIT:
            entry = calls.pop() if calls else -1
            if is_in and entry >= 0:
                kept.update((entry, number))
        elif is_in:
            kept.add(number)
    for number in sorted(kept):
        chosen.setdefault(events[number].cpu, []).append((number, events[number]))
    for cpu, rows in chosen.items():
        missed = {place for place, (_, event) in enumerate(rows) if event.missed}
        pages = kernel.build_pages([(event.time, event.data) for _, event in rows], reading.kernel_header, missed)
        yield f"kernel-cpu{cpu}.dat", pages


def _with_tasks(info: InfoFile, tids: set[int]) -> InfoFile:
    """Return the info file with only these of its tasks."""
    kept = [tid for tid in info.tids if tid in tids]
    changed = {
        "taskinfo:nr_tid=": f"taskinfo:nr_tid={len(kept)}",
        "taskinfo:tids=": f"taskinfo:tids={','.join(map(str, kept))}",
    }
    if len(kept) == len(info.tids):
        return info
    lines = [next((new for key, new in changed.items() if line.startswith(key)), line) for line in info.lines]
    return replace(info, lines=lines)
