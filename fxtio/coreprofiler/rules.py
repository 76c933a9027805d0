"""The check of all rules of CoreProfiler traces; `consistency` has those that readers report.

The records of a block that there are many of are checked as columns, all of a class together.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.columns import is_utf8
from fxtio.codec.text.lines import Columns, ListColumn
from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.consistency import MAX_IDS, BlockRules, can_store, numbers_of
from fxtio.coreprofiler.frames import Block
from fxtio.coreprofiler.layout import ABSENT, BYTE_ORDER_MARK, MIN_63, PARAMETERS
from fxtio.coreprofiler.reader import CoreProfilerTrace
from fxtio.finding import Findings
from fxtio.references import Kind, LastOfEach, References

_FALSE = frozenset({"F", "f", "false", "0"})

_REASONS = ("induced", "?")

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


_IDENTITIES: tuple[tuple[str, str, tuple[type[Any], ...], tuple[str, ...], str], ...] = (
    ("id.again", "class", (r.ClassLoaded,), ("class_iid", "class_id", "token"), "stands for another class"),
    ("id.again", "function", _FUNCTIONS, ("function_iid", "function_id", "token"), "stands for another function"),
    ("id.name-again", "class", (r.ClassName,), ("class_iid", "name"), "has another name"),
    ("id.name-again", "function", (r.FunctionName, r.FunctionNameOld), ("function_iid", "name"), "has another name"),
)
"""What an Internal ID has once: the rule, what has the ID, the classes of records, their fields, the ID first, and
what a message says."""


def check(trace: CoreProfilerTrace) -> None:
    """Read a trace once, in bounded memory, and add a finding for each fault to `trace.findings`.

    Raises:
        DecodeError: in strict mode, at the first fault.
    """
    trace.watch(_all_rules)


def _all_rules(findings: Findings) -> list[BlockRules]:
    """Return all rules that readers do not check."""
    config = _Parameters()
    groups = (_Lines, _Threads, _Ids, _Loads, _CpuTimes)
    return [_Profiling(findings, config), _Rows(findings, config), *(group(findings) for group in groups)]


class _Parameters:
    """The parameters of the profiler, and the byte offsets after which they hold."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[str, int]] = {}

    def add(self, offset: int, record: r.ProfilerConfig) -> bool:
        """Take in a parameter; return whether it has no other value already."""
        if record.name not in self._values and can_store(self._values, record):
            self._values[record.name] = record.value, offset
        return record.name not in self._values or self._values[record.name][0] == record.value

    def rows_with(self, block: Block, rows: Array, name: str, values: Set[str]) -> Array:
        """Return those of some rows of a block that come after the parameter, if it has one of these values."""
        value, since = self._values.get(name, ("", 0))
        if name not in self._values or value not in values:
            return rows[:0]
        return rows[block.offsets()[rows] > since]


class _Profiling(BlockRules):
    """The start, the parameters, and the records that parameters turn off."""

    def __init__(self, findings: Findings, config: _Parameters) -> None:
        super().__init__(findings)
        self._config = config
        self._has_start = False

    def add(self, block: Block) -> None:
        starts, _ = block.columns(r.ProfilerStart)
        if len(starts) and not self._has_start and block.offsets()[starts[0]] > len(BYTE_ORDER_MARK):
            self.report("profiling.start-place", block, starts[:1])
        self._has_start = self._has_start or len(starts) > 0
        for offset, record in block.placed(r.ProfilerConfig):
            self._add_parameter(offset, record)

    def _add_parameter(self, offset: int, record: r.ProfilerConfig) -> None:
        name, value = record.name, record.value
        if name in PARAMETERS and not PARAMETERS[name].fullmatch(value):
            message = f"`{name}` is {value[:40]!r}, which does not match {PARAMETERS[name].pattern}"
            self.findings.add("profiling.config-value", offset, message)
        if not self._config.add(offset, record):
            message = f"`{name[:40]}` has another value than before"
            self.findings.add("profiling.config-again", offset, message)

    def finish(self, end: int) -> None:
        if not self._has_start:
            self.findings.add("profiling.no-start", end)


class _Lines(BlockRules):
    """The text of lines, and the dialects of records."""

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._first: dict[type[Any], int] = {}  # the offset of the first record of each class
        self._mixed: set[int] = set()

    def add(self, block: Block) -> None:
        if not is_utf8(block.data):
            rows = [row for row in range(len(block)) if not is_utf8(block.lines.raw(row))]
            self.report("line.not-utf8", block, np.array(rows, np.int64))
        for cls in block.classes() - self._first.keys():
            self._first[cls] = int(block.offsets()[block.columns(cls)[0][0]])
        for number, groups in enumerate(_DIALECTS):
            first = [min((self._first[cls] for cls in group if cls in self._first), default=-1) for group in groups]
            if number not in self._mixed and min(first) >= 0:
                self._mixed.add(number)
                self.findings.add("line.dialects", max(first))


class _Threads(BlockRules):
    """Threads that are destroyed."""

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._alive: set[int] = set()
        self._are_all_followed = True

    def add(self, block: Block) -> None:
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
                self.findings.add("thread.not-alive", offset, message)


class _Ids(BlockRules):
    """Internal IDs that stand for several classes or functions, or have several names."""

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        # Names can be long, so there are only their hashes.
        self._meanings: list[dict[int | None, tuple[int, ...]]] = [{} for _ in _IDENTITIES]

    def add(self, block: Block) -> None:
        for (rule, kind, classes, fields, text), meanings in zip(_IDENTITIES, self._meanings, strict=True):
            for offset, record in block.placed(*classes):
                iid, *values = (getattr(record, field) for field in fields)
                meaning = tuple(hash(value) if isinstance(value, str) else value for value in values)
                first = meanings.setdefault(iid, meaning) if len(meanings) < MAX_IDS else meanings.get(iid, meaning)
                if iid is not None and first != meaning:
                    self.findings.add(rule, offset, f"{kind} {iid:#x} {text} already")


class _Loads(BlockRules):
    """Modules, assemblies and source files that are used, but never reported."""

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._references = References(_LOADS, findings, MAX_IDS, MAX_IDS)

    def add(self, block: Block) -> None:
        self._references.add(partial(numbers_of, block))

    def finish(self, end: int) -> None:
        self._references.finish()


def _owners(lists: ListColumn) -> Array:
    """Return for each item of all lists the number of its list."""
    return np.repeat(np.arange(len(lists.counts)), lists.counts)


def _with_pointers(items: ListColumn) -> Any:
    """Return which lists have an item with an instruction pointer, as numbers of the lists."""
    return _owners(items)[items.columns["ip"].marks != ABSENT]


def _stacks_with_pointers(columns: Columns) -> Any:
    """Return the stack samples with an instruction pointer of their own or of a frame, each once."""
    return np.union1d(np.flatnonzero(columns["ip"].marks != ABSENT), _with_pointers(columns["frames"]))


def _unknown_reasons(columns: Columns) -> Any:
    # Text by text: an array of texts of a fixed size would take as much for each as for the longest one.
    return np.array([reason not in _REASONS for reason in columns["reason"].tolist()], bool)


def _falling_lines(columns: Columns) -> Any:
    lines, ends = columns["start_line"], columns["end_line"]
    return (ends < lines) | (ends == lines) & (columns["end_column"] < columns["start_column"])


def _falling_code(columns: Columns) -> Any:
    lines = columns["il_map"]
    return _owners(lines)[lines.columns["native_end"] < lines.columns["native_start"]]


def _lines_beyond_code(columns: Columns) -> Any:
    code, lines = columns["code"], columns["il_map"]
    size, owner = np.bincount(_owners(code), code.columns["size"].astype(float), len(code.counts)), _owners(lines)
    return owner[(lines.columns["native_end"] > size[owner]) & (code.counts[owner] > 0)]


def _overlapping_code(columns: Columns) -> Any:
    owner, blocks = _owners(columns["code"]), columns["code"].columns
    order = np.lexsort((blocks["address"], owner))
    owner, address, size = owner[order], blocks["address"][order], blocks["size"][order]
    return owner[1:][(owner[1:] == owner[:-1]) & (address[1:] - address[:-1] < size[:-1])]


def _repeated_classes(columns: Columns) -> Any:
    owner, iid = _owners(columns["items"]), columns["items"].columns["class_iid"]
    order = np.lexsort((iid, owner))
    owner, iid = owner[order], iid[order]
    return owner[1:][(owner[1:] == owner[:-1]) & (iid[1:] == iid[:-1]) & (iid[1:] >= 0)]


def _saying_nothing(columns: Columns) -> Any:
    match, size = columns["match"], columns["size"]
    changes_nothing = (match == size) & (size > 0) & (columns["frames"].counts == 0) & (columns["ip"].marks == ABSENT)
    return (columns["count"] == 0) & changes_nothing


class RowRule(NamedTuple):
    """A rule about the records of a class, each by itself.

    Attributes:
        rule: the id.
        cls: the class.
        broken: returns which rows break the rule, from their columns: a mask, numbers in any order, or a slice.
        parameter: a parameter on which the rule depends; empty for none.
        values: with which values of the parameter it holds.
        message: what is wrong; empty for what the rule says.
    """

    rule: str
    cls: type[Any]
    broken: Callable[[Columns], Any]
    parameter: str = ""
    values: Set[str] = frozenset()
    message: str = ""


_NO_LINES = "LineTraceEnabled", _FALSE

ROW_RULES = (
    *(RowRule("thread.os-number", cls, lambda columns: columns["thread"].marks) for cls in _THREAD_EVENTS),
    *(
        RowRule(rule, cls, broken)
        for rule, broken in (
            ("function.il-range", _falling_code), ("function.il-beyond-code", _lines_beyond_code),
            ("function.code-overlap", _overlapping_code),
        )
        for cls in _FUNCTIONS
    ),
    *(
        RowRule(
            "profiling.disabled", cls, lambda columns: slice(None), parameter, _FALSE,
            f"`{parameter}` is off, but there is such a record",
        )
        for cls, parameter in _SWITCHES.items()
    ),
    RowRule("load.line-range", r.SourceLine, _falling_lines),
    RowRule("gc.reason", r.GcStarted, _unknown_reasons),
    RowRule("gc.class-again", r.AllocationTable, _repeated_classes),
    RowRule("gc.heap-generations", r.HeapGenerations, lambda columns: columns["items"].counts != _GENERATIONS),
    RowRule("stack.nothing", r.StackSample, _saying_nothing),
    RowRule(
        "stack.count-in-instrumentation", r.StackSample, lambda columns: columns["count"] > 0, "CollectionMethod",
        {"Instrumentation"},
    ),
    RowRule("stack.ip-without-lines", r.StackSample, _stacks_with_pointers, *_NO_LINES),
    RowRule("stack.ip-without-lines", r.MemorySample, lambda columns: _with_pointers(columns["items"]), *_NO_LINES),
)  # fmt: skip
"""The rules about single records."""


class _Rows(BlockRules):
    """Single records, also against the parameters."""

    def __init__(self, findings: Findings, config: _Parameters) -> None:
        super().__init__(findings)
        self._config = config

    def add(self, block: Block) -> None:
        for rule in ROW_RULES:
            rows, columns = block.columns(rule.cls)
            if len(rows):
                broken = rows[rule.broken(columns)]
                if rule.parameter:
                    broken = self._config.rows_with(block, broken, rule.parameter, rule.values)
                self.report(rule.rule, block, broken, rule.message)


class _CpuTimes(BlockRules):
    """The order of the records of CPU time, of the process and of each thread."""

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._last = {cls: LastOfEach(MAX_IDS) for cls in (r.ProcessCpu, r.ThreadCpu)}

    def add(self, block: Block) -> None:
        for cls, last in self._last.items():
            rows, columns = block.columns(cls)
            time = columns["timestamp"]
            owner = columns["thread"] if cls is r.ThreadCpu else np.zeros(len(rows), np.int64)
            self.report("time.cpu-backwards", block, rows[time < last.before(owner, time, MIN_63)])
