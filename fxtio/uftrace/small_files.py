"""The small files of a data directory in one reading, and the tables that come from them.

These are the files of tasks, modules, symbols, scheduler and kernel events, and messages.  A kernel event has a number,
the row in the table `kernel`; `kernel_values` and `kernel_slices` refer to it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import DistinctStrings, rows_of_each
from fxtio.finding import Findings
from fxtio.schema import BYTES, TEXT, ColumnSpec
from fxtio.table import MAX_TIME, Bytes, Categories, Column, Optional, Table, saturated
from fxtio.uftrace import kernel, perf
from fxtio.uftrace.argspec import parse_enums
from fxtio.uftrace.directory import Directory
from fxtio.uftrace.events import EXTERN_FILE, NAMES_FILE, EventsFile, ExternFile
from fxtio.uftrace.info import INFO_FILE, InfoFile
from fxtio.uftrace.pairing import NO_ENTRY, OPEN, STATES, WHOLE, pair_calls
from fxtio.uftrace.state import Sessions
from fxtio.uftrace.symbols import DebugFile, FunctionNames, MapFile, SymbolFile
from fxtio.uftrace.tables import SPECS
from fxtio.uftrace.tasks import Dlopen, Fork, Session

T = TypeVar("T")
Columns = dict[str, Column]
Rows = Iterable[Sequence[Any]]


class SmallFiles:
    """The small files of a trace in one reading: they are parsed when they are needed, and report their findings once.

    Args:
        directory: the files.
        info: the info file.
        tids: the tasks with a file.
        findings: receives faults.

    Attributes:
        quiet: whether the lists of symbols and modules report no faults, since those are reported where names are used.
    """

    def __init__(self, directory: Directory, info: InfoFile, tids: list[int], findings: Findings) -> None:
        self.directory = directory
        self.findings = findings
        self.quiet = False
        self.info = info
        self._tids = tids

    @cached_property
    def sessions(self) -> Sessions:
        """Return the sessions and tasks."""
        return Sessions(self.directory, self.info, self.findings)

    @cached_property
    def events(self) -> EventsFile:
        """Return the names of events."""
        return EventsFile.parse(self.directory.read(NAMES_FILE, self.findings), self.findings)

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
        pids = {tid: sessions.process_of(tid) for tid in self._tids}
        return [(tid, pid, sessions.programs.get(pid, "")) for tid, pid in pids.items()]

    def perf_blocks(self) -> Iterator[tuple[str, perf.PerfBlock]]:
        """Yield the scheduler events with the names of their files, file by file."""
        for name in filter(perf.is_name, self.directory.names):
            blocks = self.directory.blocks(name)
            for block in perf.parse(blocks, name, self.info.order, self.findings):
                yield name, block

    def kernel_events(self, file: str = "", *, decode: bool = True) -> Iterator[tuple[str, kernel.KernelEvent]]:
        """Yield the kernel events with the names of their files, file by file, or those of one file.

        Args:
            file: the name of a file; all if it is empty.
            decode: decode values; else events have no names and values.
        """
        size = kernel.checked_page_size(self.kernel_header, self.findings)
        for name in filter(kernel.is_name, self.directory.names):
            if file in ("", name):
                pages = self.directory.blocks(name, size)
                for event in kernel.parse_pages(pages, self.kernel_header, name, self.findings, decode=decode):
                    yield name, event

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
        quiet = SmallFiles(self.directory, self.info, self._tids, Findings("uftrace"))  # others report the faults
        for _, block in quiet.perf_blocks():
            times = np.minimum(block.time, np.uint64(MAX_TIME)).astype(np.int64)
            for tid, rows in rows_of_each(np.where(block.kind == perf.OTHER, -1, block.tid)):
                last[tid] = max(last[tid], int(times[rows].max()))
                execs[tid] += times[rows][block.kind[rows] == perf.EXEC].tolist()
        for _, event in quiet.kernel_events():
            last[event.tid] = max(last[event.tid], min(event.time, MAX_TIME))
        if len(self._tids) == 1:
            last[self._tids[0]] = max(
                [last[self._tids[0]], *(min(each.time, MAX_TIME) for each in quiet.extern.messages)]
            )
        return {tid: sorted(times) for tid, times in execs.items()}, last

    @cached_property
    def extern(self) -> ExternFile:
        """Return the file of messages."""
        return ExternFile.parse(self.directory.read(EXTERN_FILE, self.findings), self.findings)

    def table(self, name: str) -> Table:
        """Return one of `FILE_TABLES`."""
        return Table(FILE_TABLES[name](self))


# ---- tables; the values of a row are in the order of the declaration


def _columns(name: str, rows: Callable[[SmallFiles], Rows], files: SmallFiles) -> Columns:
    """Return the columns of a table by a function that gives its rows."""
    specs = SPECS[name].read
    values = [*zip(*rows(files), strict=True)] or [()] * len(specs)
    return {column: _column(spec, each) for (column, spec), each in zip(specs.items(), values, strict=True)}


def _column(spec: ColumnSpec, values: Sequence[Any]) -> Column:
    """Return values as a column; integers that do not fit become the nearest one that does."""
    if spec.dtype == TEXT:
        return Categories.of(values)
    if spec.dtype == BYTES:
        return Bytes(values)
    if spec.dtype == "bool":
        return np.array(values, np.bool_)
    limits = np.iinfo(spec.numbers)
    least, most = int(limits.min), int(limits.max)
    numbers = np.array([min(max(value or 0, least), most) for value in values], spec.numbers)
    if not spec.dtype.endswith("?"):
        return numbers
    return Optional(numbers, np.array([value is not None for value in values], np.bool_))


def _info(files: SmallFiles) -> Rows:
    info = files.info
    yield from (
        ("version", str(info.version)),
        ("header_size", str(info.header_size)),
        ("byte_order", info.order),
        ("word_class", str(int(info.word_class))),
        ("features", f"{int(info.features):#x}"),
        ("blocks", f"{int(info.blocks):#x}"),
        ("max_stack", str(info.max_stack)),
        ("reserved", info.reserved.hex()),
    )
    for line in filter(None, info.lines):
        key, colon, value = line.partition(":")
        yield (key, value) if colon else ("", key)


def _task_events(files: SmallFiles) -> Rows:
    for event in files.sessions.file.events:
        if isinstance(event, Session):
            yield event.time, "session", event.pid, event.pid, None, event.sid, event.exename, None
        elif isinstance(event, Fork):
            yield event.time, "fork", event.pid, event.pid, event.ppid, None, None, None
        elif isinstance(event, Dlopen):
            yield event.time, "library", event.tid, None, None, event.sid, event.libname, event.base
        else:
            yield event.time, "task", event.tid, event.pid, None, None, None, None


def _modules(files: SmallFiles) -> Rows:
    for sid, file in files.maps():
        for each in file.mappings:
            place = each.begin, each.end, each.perms, each.offset, each.device, each.inode
            yield sid, each.path, *place, each.build_id


def _symbols(files: SmallFiles) -> Rows:
    for name, file in files.symbol_files():
        for each in file.symbols:
            yield name, file.path, file.build_id, each.address, each.size, each.type, each.name


def _debug_functions(files: SmallFiles) -> Rows:
    for name, file in files.debug_files():
        for each in file.functions.values():
            specs = each.arguments, each.returns
            yield name, file.path, file.build_id, each.address, each.name, *specs, each.source, each.line


def _enums(files: SmallFiles) -> Rows:
    """Yield the values of the enumerations of the info file and of the debug information."""
    texts = [(INFO_FILE, files.info.specs("enumauto")), *((name, file.enums) for name, file in files.debug_files())]
    for file, lines in texts:
        for name, labels in parse_enums(lines).items():
            yield from ((file, name, label, value) for value, label in labels.items())


def _sched(files: SmallFiles) -> Columns:
    """Return the scheduler events, ordered by time."""
    blocks = [block for _, block in files.perf_blocks()]

    def joined(columns: list[Array], dtype: Any) -> Array:
        return np.concatenate([np.empty(0, dtype), *columns])

    time = joined([block.time for block in blocks], np.uint64)
    order = np.argsort(time, kind="stable")
    # The rows of all CPUs follow each other until the end, where each column is put in the order of time.
    names = DistinctStrings()
    kind = joined([block.kind for block in blocks], np.int8).astype(np.int32)
    has_parent = np.isin(kind, (perf.TASK_NEW, perf.TASK_EXIT))[order]
    codes = np.where(np.isin(kind, (perf.TASK_NAME, perf.EXEC)), 0, -1).astype(np.int32)
    first = 0
    for block in blocks:
        for row, text in block.comms.items():
            codes[first + row] = names.code(text)
        first += len(block)
    fields = {
        name: joined([getattr(block, name) for block in blocks], np.int64)[order]
        for name in ("pid", "tid", "parent", "parent_pid")
    }
    return {
        "time": saturated(time)[order],
        "cpu": joined([np.full(len(block), block.cpu) for block in blocks], np.int64)[order],
        "pid": fields["pid"],
        "tid": fields["tid"],
        "kind": Categories(kind[order], perf.KINDS),
        "name": Categories(codes[order], names.values),
        "parent": Optional(fields["parent"], has_parent),
        "parent_pid": Optional(fields["parent_pid"], has_parent),
    }


def _kernel(files: SmallFiles) -> Rows:
    events = files.kernel_events_by_time
    addresses = [event.function if event.is_call else 0 for event in events]
    names = files.kernel_functions.of(np.array(addresses, np.uint64))
    for number, (event, address, name) in enumerate(zip(events, addresses, names, strict=True)):
        place = number, event.time, event.cpu, event.tid, event.id, event.label
        yield *place, address, name, event.depth, event.missed, event.data


def _kernel_values(files: SmallFiles) -> Rows:
    """Yield the values of kernel events, without the fields common to all events."""
    for number, event in enumerate(files.kernel_events_by_time):
        for name, value in event.values.items():
            yield number, name, *((0, value) if isinstance(value, str) else (value % 2**64, None))


def _kernel_slices(files: SmallFiles) -> Rows:
    """Yield the calls of functions of the kernel, task by task, in the order of their ends.

    A call that is still open ends with the last entry or exit of its task.
    """
    calls = [(number, event) for number, event in enumerate(files.kernel_events_by_time) if event.is_call]
    names = files.kernel_functions.of(np.array([event.function for _, event in calls], np.uint64))
    for tid, of_task in rows_of_each(np.array([event.tid for _, event in calls], np.int64)):
        events = [calls[row][1] for row in of_task.tolist()]
        step = np.array([1 if event.name == kernel.FUNCTION_ENTRY else -1 for event in events], np.int8)
        depth = np.array([min(event.depth, MAX_TIME) for event in events], np.int64)
        begin, end, state, still = pair_calls(step, depth, np.array([event.function for event in events], np.uint64))
        first = np.append(np.where(begin < 0, end, begin), still[::-1])
        last = np.append(end, np.full(len(still), len(events) - 1))
        state = np.append(state, np.full(len(still), OPEN))
        for begun, by, code in zip(of_task[first].tolist(), of_task[last].tolist(), state.tolist(), strict=True):
            (number, event), (number_of_exit, ended) = calls[begun], calls[by]
            time, began = event.time, event.values.get("calltime")
            if code == NO_ENTRY and isinstance(began, int) and 0 < began <= time:
                time = began  # the event of the end tells it
            start = min(time, MAX_TIME)
            numbers = -1 if code == NO_ENTRY else number, number_of_exit if code in (WHOLE, NO_ENTRY) else -1
            length = min(ended.time, MAX_TIME) - start
            yield tid, event.cpu, names[begun], start, length, event.depth, event.function, STATES[code], *numbers


_ROWS: dict[str, Callable[[SmallFiles], Rows]] = {
    "info": _info,
    "tasks": SmallFiles.tasks,
    "task_events": _task_events,
    "modules": _modules,
    "symbols": _symbols,
    "debug_functions": _debug_functions,
    "enums": _enums,
    "kernel": _kernel,
    "kernel_values": _kernel_values,
    "kernel_slices": _kernel_slices,
    "messages": lambda files: files.extern.messages,
}
FILE_TABLES: dict[str, Callable[[SmallFiles], Columns]] = {
    "sched": _sched,
    **{name: partial(_columns, name, rows) for name, rows in _ROWS.items()},
}
"""The tables that come from the small files, by name."""
