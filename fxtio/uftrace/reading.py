"""One reading of the small files of a data directory, which are parsed when they are needed."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

import numpy as np

from fxtio.codec.distinct import rows_of_each
from fxtio.finding import Findings
from fxtio.table import MAX_TIME
from fxtio.uftrace import kernel, perf
from fxtio.uftrace.directory import Directory
from fxtio.uftrace.events import EXTERN_FILE, NAMES_FILE, EventsFile, ExternFile, Message
from fxtio.uftrace.info import InfoFile
from fxtio.uftrace.state import Sessions
from fxtio.uftrace.symbols import DebugFile, FunctionNames, MapFile, SymbolFile
from fxtio.uftrace.tasks import TaskEvent

T = TypeVar("T")


class Reading:
    """One reading of a trace: the small files, parsed when they are needed, and their findings.

    Args:
        directory: the files.
        info: the info file.
        tids: the tasks with a file.
        findings: receives faults.

    Attributes:
        directory: the files.
        findings: receives faults.
        quiet: whether the lists of symbols and modules report no faults, since those are reported where names are used.
    """

    def __init__(self, directory: Directory, info: InfoFile, tids: list[int], findings: Findings) -> None:
        self.directory = directory
        self.findings = findings
        self.quiet = False
        self._info = info
        self._tids = tids

    @cached_property
    def sessions(self) -> Sessions:
        """Return the sessions and tasks."""
        return Sessions(self.directory, self._info, self.findings)

    @cached_property
    def events(self) -> EventsFile:
        """Return the names of events."""
        return EventsFile.parse(self.directory.read(NAMES_FILE, self.findings), self.findings)

    def info(self) -> InfoFile:
        """Return the info file."""
        return self._info

    def task_events(self) -> list[TaskEvent]:
        """Return the events of the task file in its order."""
        return self.sessions.file.events

    def maps(self) -> list[tuple[str, MapFile]]:
        """Return the maps with the ids of their sessions."""
        files = self._listed(lambda name: name.startswith("sid-") and name.endswith(".map"), MapFile.parse)
        return [(name.removeprefix("sid-").removesuffix(".map"), file) for name, file in files]

    def symbol_files(self) -> list[tuple[str, SymbolFile]]:
        """Return the files of symbols with their names."""
        return self._listed(lambda name: name.endswith(".sym") or name == kernel.SYMBOLS_FILE, SymbolFile.parse)

    def debug_files(self) -> list[tuple[str, DebugFile]]:
        """Return the files of debug information with their names."""
        return self._listed(lambda name: name.endswith(".dbg"), DebugFile.parse)

    def _listed(
        self, is_meant: Callable[[str], bool], parse: Callable[[bytes, str, Findings], T]
    ) -> list[tuple[str, T]]:
        """Return the parsed files whose names are meant, with their names."""
        findings = Findings("uftrace") if self.quiet else self.findings
        names = filter(is_meant, self.directory.names)
        return [(name, parse(self.directory.read(name, findings), name, findings)) for name in names]

    def tasks(self) -> list[tuple[int, int, str]]:
        """Return the task, the process and the program of each `.dat` file."""
        sessions = self.sessions
        return [(tid, sessions.process_of(tid), sessions.program_of(tid)) for tid in self._tids]

    def perf_blocks(self) -> Iterator[tuple[str, perf.PerfBlock]]:
        """Yield the scheduler events with the names of their files, file by file."""
        for name in filter(perf.is_name, self.directory.names):
            blocks = self.directory.blocks(name)
            for block in perf.parse(blocks, name, self._info.order, self.findings):
                yield name, block

    def kernel_events(self) -> Iterator[tuple[str, kernel.KernelEvent]]:
        """Yield the kernel events with the names of their files, file by file."""
        for name, pages in self._kernel_pages():
            for event in kernel.parse_pages(pages, self.kernel_header, name, self.findings):
                yield name, event

    def ring_entries(self, file: str | None = None) -> Iterator[kernel.RingEntry]:
        """Yield the kernel events without their values, file by file, or those of one file."""
        for name, pages in self._kernel_pages():
            if file is None or name == file:
                yield from kernel.parse_entries(pages, self.kernel_header, name, self.findings)

    def _kernel_pages(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield the names and the pages of the files of kernel events."""
        size = kernel.checked_page_size(self.kernel_header, self.findings)
        for name in filter(kernel.is_name, self.directory.names):
            yield name, self.directory.blocks(name, size)

    @cached_property
    def kernel_header(self) -> kernel.KernelHeader:
        """Return the descriptions of kernel events."""
        return kernel.KernelHeader.parse(self.directory.read(kernel.HEADER_FILE, self.findings), self.findings)

    @cached_property
    def kernel_events_by_time(self) -> list[kernel.KernelEvent]:
        """Return the kernel events, ordered by time."""
        return sorted((event for _, event in self.kernel_events()), key=lambda event: event.time)

    @cached_property
    def kernel_functions(self) -> FunctionNames:
        """Return the names of the functions of the kernel."""
        raw = self.directory.read(kernel.SYMBOLS_FILE, self.findings)
        return FunctionNames(SymbolFile.parse(raw, kernel.SYMBOLS_FILE, self.findings))

    def kernel_meanings(self, event: kernel.KernelEvent) -> Mapping[str, str]:
        """Return the names of the functions of the kernel at addresses among the values of an event, by value."""
        if not event.is_call:
            return {}
        [name] = self.kernel_functions.of(np.array([event.function], np.uint64))
        return {kernel.FUNCTION: name} if name else {}

    def end_after(self, tid: int, time: int) -> int:
        """Return when the calls of a task end that are open after its records up to a time; both are nanoseconds.

        They end at the first exec after it, or else with the last event of the task, of whatever kind.
        """
        execs, last = self._other_times
        after = bisect_right(execs[tid], time)
        return execs[tid][after] if after < len(execs[tid]) else max(time, last[tid])

    @cached_property
    def _other_times(self) -> tuple[Mapping[int, list[int]], Mapping[int, int]]:
        """Return for each task the times of exec, rising, and that of its last event which is not in its own file.

        A message belongs to no task, except where there is one task only.
        """
        execs: defaultdict[int, list[int]] = defaultdict(list)
        execs |= {tid: self.sessions.session_changes(tid) for tid in self._tids}
        last: defaultdict[int, int] = defaultdict(int)
        quiet = Reading(self.directory, self._info, self._tids, Findings("uftrace"))  # others report the faults
        for _, block in quiet.perf_blocks():
            times = np.minimum(block.time, np.uint64(MAX_TIME)).astype(np.int64)
            for tid, rows in rows_of_each(np.where(block.kind == perf.OTHER, -1, block.tid)):
                last[tid] = max(last[tid], int(times[rows].max()))
                execs[tid] += times[rows][block.kind[rows] == perf.EXEC].tolist()
        for _, event in quiet.kernel_events():
            last[event.tid] = max(last[event.tid], min(event.time, MAX_TIME))
        if len(self._tids) == 1:
            last[self._tids[0]] = max([last[self._tids[0]], *(min(each.time, MAX_TIME) for each in quiet.messages())])
        return {tid: sorted(times) for tid, times in execs.items()}, last

    @cached_property
    def extern(self) -> ExternFile:
        """Return the file of messages."""
        return ExternFile.parse(self.directory.read(EXTERN_FILE, self.findings), self.findings)

    def messages(self) -> list[Message]:
        """Return the messages of `extern.dat`."""
        return self.extern.messages
