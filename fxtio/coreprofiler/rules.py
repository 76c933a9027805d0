"""The check of all rules of CoreProfiler traces; `consistency` has those that readers report.

The records of a block that there are many of are checked as columns, all of a class together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.text.lines import ListColumn
from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.consistency import MAX_IDS, can_store, numbers_of
from fxtio.coreprofiler.frames import Block
from fxtio.coreprofiler.layout import ABSENT, BYTE_ORDER_MARK, MIN_63, PARAMETERS
from fxtio.coreprofiler.reader import CoreProfilerTrace
from fxtio.finding import Findings
from fxtio.references import Kind, LastOfEach, References

_FALSE = frozenset({"F", "f", "false", "0"})

_REASONS = frozenset({"induced", "?"})

_NO_PARENT = (0, 0xFFFFFFFD)  # the second one is the runtime's PROFILER_PARENT_UNKNOWN

_GENERATIONS = 4  # large objects, generation 2, 1 and 0

_THREAD_EVENTS = tuple(cls for cls in r.RECORDS if issubclass(cls, r.ThreadEvent))

_FUNCTIONS = (r.FunctionInfo, r.FunctionCompiled, r.FunctionFound)

_SWITCHES: dict[type[Any], str] = {
    r.ProcessCpu: "CpuTraceProcessEnabled",
    r.ThreadCpu: "CpuTraceThreadEnabled",
    r.MemorySample: "MemoryTraceEnabled",
}
"""The parameters without which there are no records of a class."""

_DIALECTS: tuple[tuple[tuple[type[Any], ...], tuple[type[Any], ...]], ...] = (
    ((r.FunctionInfo,), (r.FunctionCompiled, r.FunctionFound)),
    ((r.FunctionName,), (r.FunctionNameOld,)),
    ((r.ClassLoaded,), (r.ClassLoadedOld,)),
)
"""Classes of records of which one replaced the others."""

_LOADS = (
    Kind(
        "module",
        ((r.ModuleLoaded, "module_id"),),
        tuple(
            (cls, "module_id")
            for cls in (r.ModuleAttached, r.AssemblyLoaded, r.ClassLoaded, r.ClassLoadedOld, *_FUNCTIONS)
        ),
        "load.module-missing",
        ignored=_NO_PARENT,
    ),
    Kind(
        "assembly",
        ((r.AssemblyLoaded, "assembly_id"),),
        ((r.ModuleLoaded, "assembly_id"), (r.ModuleAttached, "assembly_id")),
        "load.assembly-missing",
        ignored=_NO_PARENT,
    ),
    Kind("file", ((r.SourceFile, "file_iid"),), ((r.SourceLine, "file_iid"),), "load.file-missing"),
)
"""What is loaded, and refers to what is loaded."""


def check(trace: CoreProfilerTrace) -> None:
    """Read a trace once, in bounded memory, and add a finding for each fault to `trace.findings`.

    Raises:
        DecodeError: in strict mode, at the first fault.
    """
    trace.watch(_AllRules)


class _AllRules:
    """All rules that readers do not check; see `reader.BlockRules`."""

    def __init__(self, findings: Findings) -> None:
        report = _Report(findings)
        config = _Parameters()
        self._rules = (
            _Profiling(report, config),
            _Lines(report),
            _Threads(report),
            _Ids(report),
            _Loads(report),
            _Code(report),
            _Collections(report),
            _Samples(report, config),
            _CpuTimes(report),
        )

    def add(self, block: Block) -> None:
        """Take in the next block."""
        for rule in self._rules:
            rule.add(block)

    def finish(self, end: int) -> None:
        """Check what is known only at the end."""
        for rule in self._rules:
            rule.finish(end)


class _Report:
    """Adds findings about lines of a block."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings

    def rows(self, name: str, block: Block, rows: Array, message: str = "") -> None:
        """Add findings about some lines (rows of the block)."""
        if len(rows):
            self.findings.add_each(name, block.offsets()[np.unique(rows)].tolist(), message)


class _Parameters:
    """The parameters of the profiler, and the byte offsets after which they hold."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[str, int]] = {}

    def add(self, offset: int, record: r.ProfilerConfig) -> bool:
        """Take in a parameter; return whether it has no other value already."""
        if record.name not in self._values and can_store(self._values, record):
            self._values[record.name] = record.value, offset
        return record.name not in self._values or self._values[record.name][0] == record.value

    def rows_with(self, block: Block, rows: Array, name: str, *values: str) -> Array:
        """Return those of some rows of a block that come after the parameter, if it has one of these values."""
        value, since = self._values.get(name, ("", 0))
        if name not in self._values or value not in values:
            return rows[:0]
        return rows[block.offsets()[rows] > since]


class _Rules(ABC):
    """The base of a group of rules."""

    def __init__(self, report: _Report) -> None:
        self.report = report

    @abstractmethod
    def add(self, block: Block) -> None:
        """Take in the next block."""

    def finish(self, end: int) -> None:  # noqa: B027  # most groups have nothing to check at the end
        """Check what is known only at the end."""


class _Profiling(_Rules):
    """The start, the parameters, and the records that parameters turn off."""

    def __init__(self, report: _Report, config: _Parameters) -> None:
        super().__init__(report)
        self._config = config
        self._has_start = False

    def add(self, block: Block) -> None:
        starts, _ = block.columns(r.ProfilerStart)
        if len(starts) and not self._has_start and block.offsets()[starts[0]] > len(BYTE_ORDER_MARK):
            self.report.rows("profiling.start-place", block, starts[:1])
        self._has_start = self._has_start or len(starts) > 0
        for offset, record in block.placed(r.ProfilerConfig):
            self._add_parameter(offset, record)
        for cls, name in _SWITCHES.items():
            rows = self._config.rows_with(block, block.columns(cls)[0], name, *_FALSE)
            self.report.rows("profiling.disabled", block, rows, f"`{name}` is off, but there is such a record")

    def _add_parameter(self, offset: int, record: r.ProfilerConfig) -> None:
        name, value = record.name, record.value
        if name in PARAMETERS and not PARAMETERS[name].fullmatch(value):
            message = f"`{name}` is {value[:40]!r}, which does not match {PARAMETERS[name].pattern}"
            self.report.findings.add("profiling.config-value", offset, message)
        if not self._config.add(offset, record):
            message = f"`{name[:40]}` has another value than before"
            self.report.findings.add("profiling.config-again", offset, message)

    def finish(self, end: int) -> None:
        if not self._has_start:
            self.report.findings.add("profiling.no-start", end)


class _Lines(_Rules):
    """The text of lines, and the dialects of records."""

    def __init__(self, report: _Report) -> None:
        super().__init__(report)
        self._first: dict[type[Any], int] = {}  # the offset of the first record of each class
        self._mixed: set[int] = set()

    def add(self, block: Block) -> None:
        try:
            block.data.decode("utf-8")
        except UnicodeDecodeError:
            rows = [row for row in range(len(block)) if not _is_utf8(block.lines.raw(row))]
            self.report.rows("line.not-utf8", block, np.array(rows, np.int64))
        for cls in block.classes() - self._first.keys():
            self._first[cls] = int(block.offsets()[block.columns(cls)[0][0]])
        for number, groups in enumerate(_DIALECTS):
            first = [min((self._first[cls] for cls in group if cls in self._first), default=-1) for group in groups]
            if number not in self._mixed and min(first) >= 0:
                self._mixed.add(number)
                self.report.findings.add("line.dialects", max(first))


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class _Threads(_Rules):
    """Threads that are destroyed, and threads by the number of the operating system."""

    def __init__(self, report: _Report) -> None:
        super().__init__(report)
        self._alive: set[int] = set()
        self._are_all_followed = True

    def add(self, block: Block) -> None:
        for cls in _THREAD_EVENTS:
            rows, columns = block.columns(cls)
            self.report.rows("thread.os-number", block, rows[columns["thread"].marks])
        for offset, record in block.placed(r.ThreadCreated, r.ThreadAssigned, r.ThreadDestroyed):
            iid = record.thread
            if iid is None:
                continue
            if type(record) is not r.ThreadDestroyed:
                self._alive.add(iid)
                if len(self._alive) >= MAX_IDS:
                    self._alive.clear()
                    self._are_all_followed = False
            elif iid in self._alive:
                self._alive.remove(iid)
            elif self._are_all_followed:
                message = f"thread {iid:#x} was never created, or is destroyed already"
                self.report.findings.add("thread.not-alive", offset, message)


class _Ids(_Rules):
    """Internal IDs that stand for several classes or functions, or have several names."""

    def __init__(self, report: _Report) -> None:
        super().__init__(report)
        self._objects: dict[tuple[str, int], Any] = {}
        self._names: dict[tuple[str, int], int] = {}  # hashes

    def add(self, block: Block) -> None:
        for offset, loaded in block.placed(r.ClassLoaded):
            self._define(offset, "class", loaded.class_iid, (loaded.class_id, loaded.token))
        for offset, function in block.placed(*_FUNCTIONS):
            self._define(offset, "function", function.function_iid, (function.function_id, function.token))
        for offset, named in block.placed(r.ClassName):
            self._name(offset, "class", named.class_iid, named.name)
        for offset, named in block.placed(r.FunctionName, r.FunctionNameOld):
            self._name(offset, "function", named.function_iid, named.name)

    def _define(self, offset: int, kind: str, iid: int | None, identity: tuple[int, int]) -> None:
        if iid is not None and not _is_same(self._objects, (kind, iid), identity):
            message = f"{kind} {iid:#x} stands for another {kind} already"
            self.report.findings.add("id.again", offset, message)

    def _name(self, offset: int, kind: str, iid: int | None, name: str) -> None:
        if iid is not None and not _is_same(self._names, (kind, iid), hash(name)):
            self.report.findings.add("id.name-again", offset, f"{kind} {iid:#x} has another name already")


def _is_same(values: dict[Any, Any], key: Any, value: Any) -> bool:
    """Return whether a key has no other value so far, and keep its first one, as long as there are not too many."""
    if len(values) < MAX_IDS:
        return bool(values.setdefault(key, value) == value)
    return bool(values.get(key, value) == value)


class _Loads(_Rules):
    """Modules, assemblies and source files that are used, but never reported; places in source files."""

    def __init__(self, report: _Report) -> None:
        super().__init__(report)
        self._references = References(_LOADS, report.findings, MAX_IDS, MAX_IDS)

    def add(self, block: Block) -> None:
        self._references.add(partial(numbers_of, block))
        rows, columns = block.columns(r.SourceLine)
        lines, ends = columns["start_line"], columns["end_line"]
        falls = (ends < lines) | (ends == lines) & (columns["end_column"] < columns["start_column"])
        self.report.rows("load.line-range", block, rows[falls])

    def finish(self, end: int) -> None:
        self._references.finish()


class _Code(_Rules):
    """The native code of functions."""

    def add(self, block: Block) -> None:
        for cls in _FUNCTIONS:
            rows, columns = block.columns(cls)
            code, lines = columns["code"], columns["il_map"]
            size: Array = np.zeros(len(rows), np.float64)
            if len(code.columns["size"]):
                owner = _owners(code)
                size = np.bincount(owner, code.columns["size"].astype(np.float64), len(rows))
                self._check_overlaps(block, rows, owner, code.columns["address"], code.columns["size"])
            if len(lines.columns["native_end"]):
                owner, end = _owners(lines), lines.columns["native_end"]
                falls = end < lines.columns["native_start"]
                self.report.rows("function.il-range", block, rows[owner[falls]])
                beyond = (end > size[owner]) & (code.counts[owner] > 0)
                self.report.rows("function.il-beyond-code", block, rows[owner[beyond]])

    def _check_overlaps(self, block: Block, rows: Array, owner: Array, address: Array, size: Array) -> None:
        order = np.lexsort((address, owner))
        owner, address, size = owner[order], address[order], size[order]
        overlaps = (owner[1:] == owner[:-1]) & (address[1:] - address[:-1] < size[:-1])
        self.report.rows("function.code-overlap", block, rows[owner[1:][overlaps]])


def _owners(lists: ListColumn) -> Array:
    """Return for each item of all lists the number of its list."""
    return np.repeat(np.arange(len(lists.counts)), lists.counts)


class _Collections(_Rules):
    """Reasons of garbage collections, and tables of the heap."""

    def add(self, block: Block) -> None:
        rows, columns = block.columns(r.GcStarted)
        if len(rows) and not {*columns["reason"].tolist()} <= _REASONS:
            odd = np.array([reason not in _REASONS for reason in columns["reason"].tolist()])
            self.report.rows("gc.reason", block, rows[odd])
        rows, columns = block.columns(r.AllocationTable)
        items = columns["items"]
        if len(items.columns["class_iid"]):
            owner, iid = _owners(items), items.columns["class_iid"]
            order = np.lexsort((iid, owner))
            owner, iid = owner[order], iid[order]
            is_repeated = (owner[1:] == owner[:-1]) & (iid[1:] == iid[:-1]) & (iid[1:] >= 0)
            self.report.rows("gc.class-again", block, rows[owner[1:][is_repeated]])
        rows, columns = block.columns(r.HeapGenerations)
        odd = columns["items"].counts != _GENERATIONS
        self.report.rows("gc.heap-generations", block, rows[odd])


class _Samples(_Rules):
    """Stack and memory samples against the parameters, and samples that say nothing."""

    def __init__(self, report: _Report, config: _Parameters) -> None:
        super().__init__(report)
        self._config = config

    def add(self, block: Block) -> None:
        rows, columns = block.columns(r.StackSample)
        count, match, size = columns["count"], columns["match"], columns["size"]
        frames, has_ip = columns["frames"], columns["ip"].marks != ABSENT
        nothing = (count == 0) & (match == size) & (size > 0) & (frames.counts == 0) & ~has_ip
        self.report.rows("stack.nothing", block, rows[nothing])
        odd = self._config.rows_with(block, rows[count > 0], "CollectionMethod", "Instrumentation")
        self.report.rows("stack.count-in-instrumentation", block, odd)
        allocations, columns = block.columns(r.MemorySample)
        odd = np.concatenate(
            [rows[has_ip], rows[_with_pointers(frames)], allocations[_with_pointers(columns["items"])]]
        )
        odd = self._config.rows_with(block, odd, "LineTraceEnabled", *_FALSE)
        self.report.rows("stack.ip-without-lines", block, odd)


def _with_pointers(items: ListColumn) -> Array:
    """Return which lists have an item with an instruction pointer, as numbers of the lists."""
    return np.unique(_owners(items)[items.columns["ip"].marks != ABSENT])


class _CpuTimes(_Rules):
    """The order of the records of CPU time, of the process and of each thread."""

    def __init__(self, report: _Report) -> None:
        super().__init__(report)
        self._last = {cls: LastOfEach(MAX_IDS) for cls in (r.ProcessCpu, r.ThreadCpu)}

    def add(self, block: Block) -> None:
        for cls, last in self._last.items():
            rows, columns = block.columns(cls)
            time = columns["timestamp"]
            owner = columns["thread"] if cls is r.ThreadCpu else np.zeros(len(rows), np.int64)
            self.report.rows("time.cpu-backwards", block, rows[time < last.before(owner, time, MIN_63)])
