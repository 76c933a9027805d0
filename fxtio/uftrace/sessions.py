"""Which address space a task's records belong to, as time goes by.

A task has sessions: one from its beginning, another one from each exec on.  A session has modules: those of its map,
and those that were loaded later.  An *epoch* of a task is a time in which neither changes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.finding import Findings, Level
from fxtio.uftrace.argspec import Specs
from fxtio.uftrace.debug import DebugFile
from fxtio.uftrace.directory import Directory
from fxtio.uftrace.info import InfoFile
from fxtio.uftrace.maps import MapFile, Module
from fxtio.uftrace.space import Part, Space
from fxtio.uftrace.symbols import Symbol, SymbolFile
from fxtio.uftrace.tasks import BINARY, TEXT, BinaryTaskFile, Dlopen, Fact, Fork, Session, Task, TaskFile

Array = np.ndarray[Any, Any]

PYTHON = "python.fake"
"""The module of Python functions; it needs no map."""

FOREVER = (1 << 64) - 1
MOST_LIBRARIES = 512
"""The most loaded libraries of a session that are looked at."""

MOST_SYMBOLS = 1 << 22
"""The most symbols of a session."""

_KEPT_SPACES = 8
_MOST_FORKS = 100


@dataclass(frozen=True, slots=True)
class Epoch:
    """A time of a task.

    Attributes:
        begin: its first nanosecond.
        session: the session, or None.
        libraries: how many libraries the session has loaded by then.
    """

    begin: int
    session: Session | None
    libraries: int = 0


def map_name(sid: str) -> str:
    """The name of a session's map file."""
    return f"sid-{sid}.map"


def _time(fact: Fact) -> int:
    return fact.time


class Sessions:
    """The sessions and tasks of a trace, and their address spaces.

    Args:
        directory: the trace.
        info: its info file.
        findings: where faults go.

    Attributes:
        file: the task file.
        tasks: the process of each task.
        names: the program of each process.
        empty: an address space without functions.
    """

    def __init__(self, directory: Directory, info: InfoFile, findings: Findings) -> None:
        self._directory = directory
        self._findings = findings
        self._specs = Specs(info, findings)
        self.file: TaskFile | BinaryTaskFile
        if TEXT in directory or BINARY not in directory:
            self.file = TaskFile.parse(directory.read(TEXT, findings), findings)
        else:
            self.file = BinaryTaskFile.parse(directory.read(BINARY, findings), info.order, findings)
        facts = self.file.facts
        if not facts:
            findings.add("no-tasks", 0, "nothing tells of tasks and sessions; functions stay without names", file=TEXT)
        self.sessions = sorted((f for f in facts if isinstance(f, Session)), key=_time)
        self._of_process: dict[int, list[Session]] = {}
        for session in self.sessions:
            self._of_process.setdefault(session.pid, []).append(session)
        self._tasks: dict[int, list[Task]] = {}
        for task in sorted((f for f in facts if isinstance(f, Task)), key=_time):
            self._tasks.setdefault(task.tid, []).append(task)
        self._forks = {fact.pid: fact for fact in facts if isinstance(fact, Fork)}
        self._libraries: dict[str, list[Dlopen]] = {}
        for fact in facts:
            if isinstance(fact, Dlopen):
                self._libraries.setdefault(fact.sid, []).append(fact)
        for sid, libraries in self._libraries.items():
            libraries.sort(key=_time)
            if len(libraries) > MOST_LIBRARIES:
                told = f"session {sid} loads {len(libraries):,} libraries; the first {MOST_LIBRARIES:,} are looked at"
                findings.add("too-many-libraries", 0, told, file=TEXT)
                del libraries[MOST_LIBRARIES:]
        self._load_times = {sid: [one.time for one in libraries] for sid, libraries in self._libraries.items()}
        self.tasks = {tid: mine[-1].pid for tid, mine in self._tasks.items()}
        self.names = {session.pid: session.exename for session in self.sessions}
        for child in self._forks.values():
            self.names.setdefault(child.pid, self.names.get(child.ppid, ""))
        self._maps: dict[str, MapFile | None] = {}
        self._symbol_files: dict[str, tuple[Array, Array, Sequence[Symbol]]] = {}
        self._debug_files: dict[str, DebugFile] = {}
        self._chosen: dict[tuple[Module, str], str | None] = {}
        self._spaces: OrderedDict[tuple[str, int], Space] = OrderedDict()
        self.empty = Space([], self._specs)

    def epochs(self, tid: int) -> list[Epoch]:
        """The epochs of a task; the first one has no beginning, for nothing is to be without a space."""
        mine = self._tasks.get(tid, [])
        begins = [(task.time, self._session_of(task.pid, task.time)) for task in mine]
        if not begins:
            begins = [(0, self._session_of(tid, FOREVER))]
        if not mine and tid not in self._forks:
            self._findings.add(
                "unknown-task", 0, f"nothing tells of the task {tid}; its records are given to a session all the same",
                level=Level.WARNING, file=f"{tid}.dat",
            )  # fmt: skip
        fork = self._forks.get(tid)
        if fork is not None and fork.time < begins[0][0]:  # what it was before it called exec
            begins.insert(0, (0, self._session_of(fork.ppid, fork.time)))
        begins[0] = (0, begins[0][1])
        made: list[Epoch] = []
        for number, (begin, session) in enumerate(begins):
            end = begins[number + 1][0] if number + 1 < len(begins) else FOREVER
            times = [] if session is None else self._load_times.get(session.sid, [])
            first, last = bisect_right(times, begin), bisect_left(times, end)
            if not made or (made[-1].session, made[-1].libraries) != (session, first):
                made.append(Epoch(begin, session, first))
            made += [Epoch(times[count], session, count + 1) for count in range(first, last)]
        return made

    def process_of(self, tid: int) -> int:
        """The process of a task; one that nothing tells of is a process of its own."""
        return self.tasks.get(tid, tid)

    def _session_of(self, pid: int, time: int) -> Session | None:
        """The newest session of a process, or of the one that it was forked from; else any at all."""
        for _ in range(_MOST_FORKS):
            mine = self._of_process.get(pid)
            if mine:
                return mine[max(bisect_right(mine, time, key=_time) - 1, 0)]
            fork = self._forks.get(pid)
            if fork is None:
                break
            pid, time = fork.ppid, min(time, fork.time)
        return self.sessions[0] if self.sessions else None

    def space(self, epoch: Epoch) -> Space:
        """The address space of an epoch."""
        if epoch.session is None:
            return self.empty
        key = (epoch.session.sid, epoch.libraries)
        known = self._spaces.get(key)
        if known is None:
            known = self._spaces[key] = Space(self._modules(*key), self._specs)
            if len(self._spaces) > _KEPT_SPACES:
                self._spaces.popitem(last=False)
        self._spaces.move_to_end(key)
        return known

    def map_of(self, sid: str) -> MapFile | None:
        """The map of a session, or None."""
        if sid not in self._maps:
            name = map_name(sid)
            self._maps[sid] = None
            if name in self._directory:
                self._maps[sid] = MapFile.parse(self._directory.read(name, self._findings), name, self._findings)
            else:
                told = f"session {sid} has no map; its functions stay without names"
                self._findings.add("no-map", 0, told, file=TEXT)
        return self._maps[sid]

    def _modules(self, sid: str, libraries: int) -> list[Part]:
        """The modules with symbols; those that were loaded last come first."""
        loaded = self._libraries.get(sid, [])[:libraries]
        modules = [Module(one.base, FOREVER, one.libname) for one in reversed(loaded)]
        mapped = self.map_of(sid)
        modules += mapped.modules if mapped is not None else []
        if f"{PYTHON}.sym" in self._directory and not any(module.path == PYTHON for module in modules):
            modules.append(Module(0, FOREVER, PYTHON))
        parts: list[Part] = []
        left = MOST_SYMBOLS
        for module in modules:
            part = self._part(module)
            if part is None:
                continue
            left -= len(part.begin)
            if left < 0:
                told = f"session {sid} has more than {MOST_SYMBOLS:,} symbols; those of {module.path} are left out"
                self._findings.add("too-many-symbols", 0, told, file=map_name(sid))
                break
            parts.append(part)
        return parts

    def _part(self, module: Module) -> Part | None:
        name = self._file_of(module, ".sym")
        if name is None:
            return None
        begin, end, symbols = self._symbols(name)
        base = np.uint64(module.base)
        fits = int(np.searchsorted(begin, np.uint64(FOREVER - module.base)))
        begin, end = begin[:fits] + base, np.minimum(end[:fits], np.uint64(FOREVER - module.base)) + base
        debug = self._file_of(module, ".dbg")
        return Part(module, begin, end, symbols, None if debug is None else self._debug(debug))

    def _symbols(self, name: str) -> tuple[Array, Array, Sequence[Symbol]]:
        if name not in self._symbol_files:
            raw = self._directory.read(name, self._findings)
            self._symbol_files[name] = SymbolFile.parse(raw, name, self._findings).ranges()
        return self._symbol_files[name]

    def _debug(self, name: str) -> DebugFile:
        if name not in self._debug_files:
            raw = self._directory.read(name, self._findings)
            self._debug_files[name] = DebugFile.parse(raw, name, self._findings)
        return self._debug_files[name]

    def _file_of(self, module: Module, suffix: str) -> str | None:
        """The name of a module's file, or None.  Files of another module with the same name are left alone."""
        if (module, suffix) not in self._chosen:
            self._chosen[module, suffix] = self._choose(module, suffix)
        return self._chosen[module, suffix]

    def _choose(self, module: Module, suffix: str) -> str | None:
        base = module.path.rpartition("/")[2]
        mark = module.build_id[:4] if module.build_id else f"{sum(module.path.encode(errors='replace')) % 65536:04x}"
        for name in (f"{base}{suffix}", f"{base}-{mark}{suffix}"):
            if name in self._directory and self._is_of(name, module):
                return name
        if f"{base}{suffix}" in self._directory:
            told = f"it is not that of {module.path}, as its heading says"
            self._findings.add("other-module", 0, told, level=Level.WARNING, file=f"{base}{suffix}")
        return None

    def _is_of(self, name: str, module: Module) -> bool:
        """Whether the heading of a file is that of the module; a file without a heading always is."""
        path = build_id = ""
        for line in self._directory.head(name).decode("utf-8", "surrogateescape").split("\n"):
            if not line.startswith("#"):
                break
            key, _, value = line.removeprefix("# ").partition(": ")
            path = value if key == "path name" else path
            build_id = value.strip() if key == "build-id" else build_id
        if build_id and module.build_id and build_id != module.build_id:
            return False
        return not path or path == module.path or path.startswith(f"{module.path} ")
