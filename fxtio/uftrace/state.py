"""The functions that addresses belong to, for every task and time.

A task has sessions: one from its beginning, and another from each exec on.  A session has modules: those in its map,
and the libraries that are loaded later.  An `Epoch` of a task is a period in which neither changes, and has one
`AddressSpace`, made of the symbols of all modules that are loaded in it.  The argument specifications of a function
are looked up when its first payload is read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from fxtio.arrays import Array
from fxtio.finding import Findings
from fxtio.table import MAX_TIME
from fxtio.uftrace import payloads
from fxtio.uftrace.argspec import ArgumentSpecs, ValueSpecs
from fxtio.uftrace.demangle import simple_name
from fxtio.uftrace.directory import Directory
from fxtio.uftrace.info import InfoFile
from fxtio.uftrace.symbols import DebugFile, MapFile, Module, Symbol, SymbolFile
from fxtio.uftrace.tasks import BINARY, TEXT, BinaryTaskFile, Dlopen, Fork, Session, Task, TaskFile

T = TypeVar("T")

PYTHON = "python.fake"
"""The module of Python functions, which is in no map."""

LAST_ADDRESS = (1 << 64) - 1
"""The last address of a memory."""

MAX_LIBRARIES = 512
"""The largest number of loaded libraries of a session that are used."""

MAX_SYMBOLS = 1 << 22
"""The largest number of symbols of a session."""

MAX_MODULES = 4096
"""The largest number of modules of a session that are used."""

MAX_ARRANGED = 1 << 26
"""The largest number of symbols in all address spaces that are made for a reading, for a start."""

ARRANGED_PER_BYTE = 64
"""The number of symbols that each byte of records adds to `MAX_ARRANGED`."""

_CACHED_SPACES = 8
_CACHED_SYMBOLS = 2 * MAX_SYMBOLS
_COST_OF_SPACE, _COST_OF_MODULE = 1024, 256  # each takes as long as arranging this many symbols
_MAX_FORKS = 100
_EVENT_PROGRAM = (payloads.STRING, 0)  # at index 0: the data of an event is laid out like a string
_NO_PROGRAM = -1


# ---- address spaces


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a traced program.

    Attributes:
        name: the name without parameters, demangled where possible.
        symbol: its symbol.
        module: the path of its module.
        address: its first address in memory.
        source: its source file, or empty if debug information does not give it.
        line: its line in the source file, or None.
    """

    name: str
    symbol: Symbol
    module: str
    address: int
    source: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class ModuleSymbols:
    """The symbols of a module in memory.

    Attributes:
        module: the module.
        begin: the first address of each symbol (uint64, ascending).
        end: the address after each symbol (uint64).
        symbols: the symbols.
        debug: the debug information of the module, if there is any.
    """

    module: Module
    begin: Array
    end: Array
    symbols: Sequence[Symbol]
    debug: DebugFile | None


def _arranged(modules: Sequence[ModuleSymbols]) -> tuple[Array, Array, Array]:
    """Arrange the symbols of modules by address, without those that an earlier module covers.

    Returns:
        The first addresses and the ends (uint64), and the numbers of module and symbol (int64, two columns).
    """
    begins, ends, owners = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)], [np.empty((0, 2), np.int64)]
    firsts: list[int] = []
    lasts: list[int] = []  # the ends of the ranges that earlier modules cover
    for number, part in enumerate(modules):
        if not len(part.begin):
            continue
        rows: Array | slice = slice(None)
        first, last = _cover(firsts, lasts, int(part.begin[0]), int(part.end.max()))
        if len(first):
            row = np.searchsorted(first, part.begin, "right") - 1
            rows = np.flatnonzero((row < 0) | (part.begin >= last[row]))
        begins.append(part.begin[rows])
        ends.append(part.end[rows])
        owners.append(np.stack([np.full(len(begins[-1]), number), np.arange(len(part.begin))[rows]], axis=1))
    begin, end, owner = np.concatenate(begins), np.concatenate(ends), np.concatenate(owners)
    if (begin[1:] < begin[:-1]).any():
        order = np.argsort(begin, kind="stable")
        begin, end, owner = begin[order], end[order], owner[order]
    end[:-1] = np.minimum(end[:-1], begin[1:])
    has_size = end > begin
    return (begin, end, owner) if has_size.all() else (begin[has_size], end[has_size], owner[has_size])


def _cover(firsts: list[int], lasts: list[int], first: int, last: int) -> tuple[Array, Array]:
    """Add a range to sorted ranges that do not touch; return those that touched it, which are now one with it."""
    low, high = bisect_left(lasts, first), bisect_right(firsts, last)
    touched = np.array(firsts[low:high], np.uint64), np.array(lasts[low:high], np.uint64)
    if low < high:
        first, last = min(first, firsts[low]), max(last, lasts[high - 1])
    firsts[low:high], lasts[low:high] = [first], [last]
    return touched


class AddressSpace:
    """All functions of an epoch, by address.

    Args:
        modules: the modules; an earlier module hides the symbols of a later one at the same addresses.
        specs: the argument specifications.

    Attributes:
        begin: the first addresses of the functions (uint64, ascending, not overlapping).
        end: the addresses after the functions (uint64).
        programs: for `fxtio._native.walk_payloads`: for each function, the indices in `code` of the payload
            programs of its entries and of its exits, or -1 (int32).
        code: the payload programs (int32).
    """

    def __init__(self, modules: Sequence[ModuleSymbols], specs: ArgumentSpecs) -> None:
        self._modules = modules
        self._specs = specs
        self.begin, self.end, self._owner = _arranged(modules)
        self._functions: dict[int, Function] = {}
        self._values: dict[int, tuple[ValueSpecs, ValueSpecs]] = {}
        self._offsets: dict[tuple[int, ...], int] = {_EVENT_PROGRAM: 0}
        self._code = np.array(_EVENT_PROGRAM, np.int32)  # with room for further programs
        self.code = self._code
        self.programs = np.full(2 * len(self.begin), _NO_PROGRAM, np.int32)

    def __len__(self) -> int:
        return len(self.begin)

    def index(self, address: int) -> int:
        """Return the number of the function at an address, or -1."""
        row = int(np.searchsorted(self.begin, np.uint64(address), "right")) - 1
        return row if row >= 0 and address < int(self.end[row]) else -1

    def function(self, index: int) -> Function:
        """Return the function with a number."""
        function = self._functions.get(index)
        if function is None:
            part, symbol = self._symbol(index)
            debug = part.debug.functions.get(symbol.address) if part.debug is not None else None
            source, line = (debug.source, debug.line) if debug is not None else ("", None)
            name = simple_name(symbol.name)
            self._specs.look_at(name)
            function = Function(name, symbol, part.module.path, int(self.begin[index]), source, line)
            self._functions[index] = function
        return function

    def function_at(self, address: int) -> Function | None:
        """Return the function at an address, or None."""
        index = self.index(address)
        return None if index < 0 else self.function(index)

    def name_at(self, address: int) -> str:
        """Return the name of the function at an address, or the address in angle brackets."""
        function = self.function_at(address)
        return f"<{address:x}>" if function is None else function.name

    def specs(self, index: int) -> tuple[ValueSpecs, ValueSpecs]:
        """Return the specifications of the arguments and of the return value of a function."""
        specs = self._values.get(index)
        if specs is None:
            part, symbol = self._symbol(index)
            specs = self._values[index] = self._specs.of(symbol, part.module.path, part.debug)
            for is_exit, values in enumerate(specs):
                if values:
                    self.programs[2 * index + is_exit] = self._offset_of(payloads.program(values))
        return specs

    def specs_at(self, address: int, *, is_exit: bool) -> ValueSpecs:
        """Return the specifications of the payloads of entries (or exits) at an address; none if they are unknown."""
        index = self.index(address)
        return () if index < 0 else self.specs(index)[is_exit]

    def add_program(self, address: int, *, is_exit: bool) -> bool:
        """Add the payload program of entries (or exits) at an address, so that records can be walked over.

        Returns:
            True if a program was added, False if the payload is unknown or was looked up before.
        """
        index = self.index(address)
        if index < 0 or index in self._values:
            return False
        return bool(self.specs(index)[is_exit])

    def enum(self, index: int, name: str) -> dict[int, str]:
        """Return the names of the values of an enumeration in the module of a function."""
        part, _ = self._symbol(index)
        return self._specs.enum(name, part.debug)

    def _symbol(self, index: int) -> tuple[ModuleSymbols, Symbol]:
        number, row = self._owner[index].tolist()
        part = self._modules[number]
        return part, part.symbols[row]

    def _offset_of(self, program: tuple[int, ...]) -> int:
        """Return the index of a program in `code`, where it is appended if it is new."""
        if program not in self._offsets:
            begin = self._offsets[program] = len(self.code)
            end = begin + len(program)
            if end > len(self._code):
                self._code = np.resize(self._code, 2 * end)
            self._code[begin:end] = program
            self.code = self._code[:end]
        return self._offsets[program]


# ---- sessions


@dataclass(frozen=True, slots=True)
class Epoch:
    """A period of a task with one session and one set of libraries.

    Attributes:
        begin: its first nanosecond.
        session: the session, or None if the trace has none.
        libraries: the number of libraries that the session has loaded.
    """

    begin: int
    session: Session | None
    libraries: int = 0


def map_name(sid: str) -> str:
    """Return the name of the map file of a session."""
    return f"sid-{sid}.map"


def _ranges(raw: bytes, name: str, findings: Findings) -> tuple[Array, Array, list[Symbol]]:
    return SymbolFile.parse(raw, name, findings).ranges()


_time = attrgetter("time")


class Sessions:
    """The sessions and tasks of a trace, and their address spaces.

    Args:
        directory: the trace.
        info: its info file.
        findings: receives faults, also those in files that are read later.

    Attributes:
        file: the task file.
        sessions: the sessions, ordered by time.
        tasks: the process of each task.
        programs: the last program of each process.
        empty: an address space without functions.
        bytes_read: the bytes of records that were read so far; their readers add to it.
        specs: the argument specifications.
        parsed: the maps and the files of symbols and debug information that were parsed so far, by name.
    """

    def __init__(self, directory: Directory, info: InfoFile, findings: Findings) -> None:
        self._directory = directory
        self._findings = findings
        self.specs = ArgumentSpecs(info, findings)
        self.parsed: dict[str, Any] = {}
        self.file: TaskFile | BinaryTaskFile
        self._file_name = TEXT if TEXT in directory or BINARY not in directory else BINARY
        if self._file_name == TEXT:
            self.file = TaskFile.parse(directory.read(TEXT, findings), findings)
        else:
            self.file = BinaryTaskFile.parse(directory.read(BINARY, findings), info.order, findings)
        events = self.file.events
        self._places = {id(event): place for event, place in zip(events, self.file.places, strict=True)}
        if not events:
            findings.add("task.none", 0, file=self._file_name)
        self.sessions = sorted((event for event in events if isinstance(event, Session)), key=_time)
        self._of_process: dict[int, list[Session]] = {}
        for session in self.sessions:
            self._of_process.setdefault(session.pid, []).append(session)
        self._tasks: dict[int, list[Task]] = {}
        for task in sorted((event for event in events if isinstance(event, Task)), key=_time):
            self._tasks.setdefault(task.tid, []).append(task)
        self._forks = {event.pid: event for event in events if isinstance(event, Fork)}
        self._session_places = {session.sid: self._places[id(session)] for session in reversed(self.sessions)}
        self._libraries = self._loaded([event for event in events if isinstance(event, Dlopen)])
        self.tasks = {tid: lines[-1].pid for tid, lines in self._tasks.items()}
        self.programs = {session.pid: session.exename for session in self.sessions}
        for child in self._forks.values():
            self.programs.setdefault(child.pid, self.programs.get(child.ppid, ""))
        self._without_map: set[str] = set()
        self._file_names: dict[tuple[Module, str], str | None] = {}
        self._build_ids: dict[str, dict[str, str]] = {}
        self._address_spaces: OrderedDict[tuple[str, int], AddressSpace] = OrderedDict()
        self._epochs: dict[int, list[Epoch]] = {}
        self._arranged = 0
        self.bytes_read = 0
        self.empty = AddressSpace([], self.specs)

    def _loaded(self, loads: list[Dlopen]) -> dict[str, list[Dlopen]]:
        """Return the loaded libraries by session, ordered by time."""
        by_session: dict[str, list[Dlopen]] = {}
        for load in sorted(loads, key=_time):
            by_session.setdefault(load.sid, []).append(load)
        for sid, libraries in by_session.items():
            if len(libraries) > MAX_LIBRARIES:
                message = f"session {sid} loads {len(libraries):,} libraries; only the first {MAX_LIBRARIES:,} are used"
                self._findings.add(
                    "session.too-many-libraries",
                    self._places[id(libraries[MAX_LIBRARIES])],
                    message,
                    file=self._file_name,
                )
                del libraries[MAX_LIBRARIES:]
        return by_session

    def epochs(self, tid: int) -> list[Epoch]:
        """Return the epochs of a task, each of which begins after the one before.

        The first one begins at time 0, so that every record is in an epoch.
        """
        if tid not in self._epochs:
            self._epochs[tid] = self._epochs_of(tid)
        return self._epochs[tid]

    def _epochs_of(self, tid: int) -> list[Epoch]:
        lines = self._tasks.get(tid, [])
        begins = [(task.time, self._session_of(task.pid, task.time)) for task in lines]
        if not begins:
            begins = [(0, self._session_of(tid, None))]
        if not lines and tid not in self._forks and self.file.events:
            message = f"task {tid} is not in the task file; its records are read with the symbols of another session"
            self._findings.add("task.unknown", 0, message, file=f"{tid}.dat")
        fork = self._forks.get(tid)
        if fork is not None and fork.time < begins[0][0]:  # before it called exec, it was a copy of its parent
            begins.insert(0, (0, self._session_of(fork.ppid, fork.time)))
        begins[0] = (0, begins[0][1])
        epochs: list[Epoch] = []
        for number, (begin, session) in enumerate(begins):
            loads = [] if session is None else self._libraries.get(session.sid, [])
            first, last = bisect_right(loads, begin, key=_time), len(loads)
            if number + 1 < len(begins):
                last = bisect_left(loads, begins[number + 1][0], key=_time)
            if not epochs or (epochs[-1].session, epochs[-1].libraries) != (session, first):
                epochs.append(Epoch(begin, session, first))
            epochs += [Epoch(loads[count].time, session, count + 1) for count in range(first, last)]
        return [epoch for epoch, after in zip_longest(epochs, epochs[1:]) if after is None or epoch.begin < after.begin]

    def begin_of(self, tid: int) -> int | None:
        """Return the time in nanoseconds at which a task begins by the task file, or None if it is not there."""
        fork = self._forks.get(tid)
        times = [*(task.time for task in self._tasks.get(tid, [])[:1]), *([] if fork is None else [fork.time])]
        return min(times, default=None)

    def session_changes(self, tid: int) -> list[int]:
        """Return the times in nanoseconds at which a task moved to another session, as after exec."""
        epochs = self.epochs(tid)
        changes = (after.begin for before, after in pairwise(epochs) if before.session is not after.session)
        return [min(time, MAX_TIME) for time in changes]

    def forked(self, tid: int) -> int | None:
        """Return the time in nanoseconds at which a task began as a copy of another process, or None."""
        fork = self._forks.get(tid)
        return None if fork is None else min(fork.time, MAX_TIME)

    def process_of(self, tid: int) -> int:
        """Return the process of a task; a task that is not in the task file is taken for a process."""
        return self.tasks.get(tid, tid)

    def _session_of(self, pid: int, time: int | None) -> Session | None:
        """Return the session of a process, or of the process that it was forked from, or else the first one.

        Args:
            pid: the process.
            time: the time in nanoseconds; None for the last session of the process.
        """
        for _ in range(_MAX_FORKS):
            sessions = self._of_process.get(pid)
            if sessions:
                number = len(sessions) if time is None else bisect_right(sessions, time, key=_time)
                return sessions[max(number - 1, 0)]
            fork = self._forks.get(pid)
            if fork is None:
                break
            pid, time = fork.ppid, fork.time if time is None else min(time, fork.time)
        return self.sessions[0] if self.sessions else None

    def address_space(self, epoch: Epoch) -> AddressSpace:
        """Return the address space of an epoch; the last ones are cached.

        If the address spaces so far have taken too much work for the size of the trace, it is the last one instead.
        """
        if epoch.session is None:
            return self.empty
        key = (epoch.session.sid, epoch.libraries)
        functions = self._address_spaces.get(key)
        if functions is None:
            if self._arranged > MAX_ARRANGED + ARRANGED_PER_BYTE * self.bytes_read:
                self._findings.add("session.too-many", 0, file=self._file_name)
                return next(reversed(self._address_spaces.values()))
            functions = self._address_spaces[key] = AddressSpace(self._modules(*key), self.specs)
            self._arranged += len(functions) + _COST_OF_SPACE
            self._forget_spaces()
        self._address_spaces.move_to_end(key)
        return functions

    def _forget_spaces(self) -> None:
        """Drop the address spaces that were not used for the longest time, so that those in the cache are not large."""
        spaces = self._address_spaces
        while len(spaces) > _CACHED_SPACES or (len(spaces) > 1 and sum(map(len, spaces.values())) > _CACHED_SYMBOLS):
            spaces.popitem(last=False)

    def map_of(self, sid: str) -> MapFile | None:
        """Return the map of a session, or None."""
        name = map_name(sid)
        if name in self._directory:
            return self._parsed(name, MapFile.parse)
        if sid not in self._without_map:
            self._without_map.add(sid)
            message = f"session {sid} has no map; its functions have no names"
            self._findings.add("session.no-map", self._session_places.get(sid, 0), message, file=self._file_name)
        return None

    def _parsed(self, name: str, parse: Callable[[bytes, str, Findings], T]) -> T:
        """Return a file that is parsed once."""
        if name not in self.parsed:
            self.parsed[name] = parse(self._directory.read(name, self._findings), name, self._findings)
        parsed: T = self.parsed[name]
        return parsed

    def _modules(self, sid: str, libraries: int) -> list[ModuleSymbols]:
        """Return the modules with symbols, the last loaded library first."""
        loads = self._libraries.get(sid, [])[:libraries]
        modules = [Module(load.base, load.libname) for load in reversed(loads)]
        session_map = self.map_of(sid)
        modules += session_map.modules if session_map is not None else []
        if f"{PYTHON}.sym" in self._directory and not any(module.path == PYTHON for module in modules):
            modules.append(Module(0, PYTHON))
        self._arranged += _COST_OF_MODULE * len(modules)
        if len(modules) > MAX_MODULES:
            message = f"session {sid} has {len(modules):,} modules; only the first {MAX_MODULES:,} are used"
            self._findings.add("session.too-many-modules", 0, message, file=map_name(sid))
            del modules[MAX_MODULES:]
        parts: list[ModuleSymbols] = []
        left = MAX_SYMBOLS
        for module in modules:
            part = self._symbols_of(module)
            if part is None:
                continue
            left -= len(part.begin)
            if left < 0:
                message = f"session {sid} has more than {MAX_SYMBOLS:,} symbols; those of {module.path} are not used"
                self._findings.add("symbol.too-many", 0, message, file=map_name(sid))
                break
            parts.append(part)
        return parts

    def _symbols_of(self, module: Module) -> ModuleSymbols | None:
        name = self.file_of(module, ".sym")
        if name is None:
            return None
        begin, end, symbols = self._parsed(name, _ranges)
        base = np.uint64(module.base)
        fits = int(np.searchsorted(begin, np.uint64(LAST_ADDRESS - module.base)))
        begin, end = begin[:fits] + base, np.minimum(end[:fits], np.uint64(LAST_ADDRESS - module.base)) + base
        debug = self.file_of(module, ".dbg")
        return ModuleSymbols(
            module, begin, end, symbols, None if debug is None else self._parsed(debug, DebugFile.parse)
        )

    def file_of(self, module: Module, suffix: str) -> str | None:
        """Return the name of a file of a module, or None; never a file of another module with the same base name."""
        if (module, suffix) not in self._file_names:
            self._file_names[module, suffix] = self._choose(module, suffix)
        return self._file_names[module, suffix]

    def _choose(self, module: Module, suffix: str) -> str | None:
        base = module.path.rpartition("/")[2]
        mark = module.build_id[:4] if module.build_id else f"{sum(module.path.encode(errors='replace')) % 65536:04x}"
        for name in (f"{base}{suffix}", f"{base}-{mark}{suffix}"):
            if name in self._directory and self._is_of(name, module):
                return name
        if module.build_id.strip("0") and (other := self._files_by_build_id(suffix).get(module.build_id)):
            return other
        if f"{base}{suffix}" in self._directory:
            message = f"the heading is not that of {module.path}; the file is not used for it"
            self._findings.add("symbol.other-module", 0, message, file=f"{base}{suffix}")
        return None

    def _is_of(self, name: str, module: Module) -> bool:
        """Return whether the heading of a file is that of a module.

        A build id identifies a module under any path.  A file without a heading matches any module.
        """
        path, build_id = self._heading(name)
        if build_id.strip("0") and module.build_id.strip("0"):
            return build_id == module.build_id
        return not path or path == module.path or path.startswith(f"{module.path} ")

    def _heading(self, name: str) -> tuple[str, str]:
        """Return the path and the build id in the heading of a file, or empty texts."""
        path = build_id = ""
        for line in self._directory.head(name).decode("utf-8", "surrogateescape").split("\n"):
            if not line.startswith("#"):
                break
            key, _, value = line.rstrip("\r").removeprefix("# ").partition(": ")
            path = value if key == "path name" else path
            build_id = value.strip() if key == "build-id" else build_id
        return path, build_id

    def _files_by_build_id(self, suffix: str) -> dict[str, str]:
        """Return the names of the files with a suffix, by the build ids in their headings."""
        if suffix not in self._build_ids:
            names = [name for name in self._directory.names if name.endswith(suffix)]
            self._build_ids[suffix] = {self._heading(name)[1]: name for name in reversed(names)}
        return self._build_ids[suffix]
