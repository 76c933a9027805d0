"""The state of a new trace that its writer and the writers of its tasks share: tasks, sessions, records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fxtio.arrays import Array
from fxtio.codec.generate import Order
from fxtio.codec.integers import MAX_INT32, checked_integer
from fxtio.errors import EncodeError
from fxtio.io.sink import names_if_full
from fxtio.shared_folders import opener
from fxtio.table import MAX_TIME
from fxtio.uftrace.declarations import Declarations
from fxtio.uftrace.directory import text_bytes
from fxtio.uftrace.enums import EventId
from fxtio.uftrace.events import EVENT_IDS, Message
from fxtio.uftrace.info import TEXT_VERSION
from fxtio.uftrace.kernel_writer import KernelFiles, SchedFiles
from fxtio.uftrace.records import encode
from fxtio.uftrace.tasks import Dlopen, Fork, Session, Task, TaskEvent, check_text

if TYPE_CHECKING:
    from fxtio.uftrace.task_writer import TaskWriter

_SID_DIGITS = 16


@dataclass(slots=True)
class NewSession:
    """A session of a new trace: a process from its beginning, or from an exec on.

    Attributes:
        pid: the process.
        sid: the session id.
        program: the path of the program.
        time: the time of the exec in nanoseconds, or None for the beginning.
        libraries: the times at which libraries were loaded first, by path.
        loads: all events of loading.
    """

    pid: int
    sid: str
    program: str
    time: int | None = None
    libraries: dict[str, int] = field(default_factory=dict)
    loads: list[Dlopen] = field(default_factory=list)


class Processes:
    """The tasks of a new trace and the sessions of their processes.

    Methods raise `EncodeError`, and change nothing, if a value cannot be written or contradicts what is there.

    Args:
        declarations: the modules and functions of the trace.
        make: returns the writer of a new task of a process.

    Attributes:
        tasks: the tasks by number.
        sessions: the sessions in the order of their declaration.
    """

    def __init__(self, declarations: Declarations, make: Callable[[int, int], TaskWriter]) -> None:
        self.tasks: dict[int, TaskWriter] = {}
        self.sessions: list[NewSession] = []
        self._declarations = declarations
        self._make = make
        self._newest: dict[int, NewSession] = {}  # the last session of each process

    # ---- declaring

    def checked_pid(self, tid: int, pid: int | None) -> int:
        """Return the process of a task that is declared or can be."""
        tid = checked_task(tid)
        task = self.tasks.get(tid)
        if pid is None:
            return tid if task is None else task.pid
        pid = checked_task(pid)
        if task is not None and pid != task.pid:
            raise EncodeError(f"task {tid} belongs to process {task.pid}", "task")
        return pid

    def task(self, tid: int, pid: int | None = None) -> TaskWriter:
        """Return a task, which is declared if it is new."""
        tid, pid = checked_task(tid), self.checked_pid(tid, pid)
        task = self.tasks.get(tid)
        if task is None:
            task = self.tasks[tid] = self._make(tid, pid)
            if pid not in self._newest:
                self._add_session(pid, self._declarations.path, None)
        return task

    def _add_session(self, pid: int, program: str, time: int | None) -> NewSession:
        session = NewSession(pid, f"{len(self.sessions) + 1:0{_SID_DIGITS}x}", program, time)
        self.sessions.append(session)
        self._newest[pid] = session
        return session

    def fork(self, tid: int, parent: TaskWriter, time: int) -> TaskWriter:
        """Declare a process that begins as a copy of the process of a task."""
        tid = checked_task(tid)
        if tid in self.tasks or tid in self._newest:
            raise EncodeError(f"task {tid} exists already", "fork")
        session = self.session_of(parent)
        self._newest[tid] = session
        child = self.tasks[tid] = self._make(tid, tid)
        child.first, child.last, child.forked = time, time, Fork(time, tid, parent.pid)
        child.sessions = [session]
        return child

    def exec(self, task: TaskWriter, program: str, time: int) -> None:
        """Begin a session of the process of a task with another program."""
        before = self.session_of(task)
        self._declarations.add_module(program, "program")
        session = self._add_session(task.pid, program, time)
        task.sessions = [*(task.sessions or [before]), session]
        self.note_records(task, time, time)
        task.open = []

    def load(self, task: TaskWriter, library: str, time: int) -> None:
        """Load a library in the session of a task."""
        base = self._declarations.add_module(library, "loaded").base
        session = self.session_of(task)
        session.libraries[library] = min(time, session.libraries.get(library, time))
        session.loads.append(Dlopen(time, task.tid, session.sid, base, library))
        self.note_records(task, time, time)

    def session_of(self, task: TaskWriter) -> NewSession:
        """Return the session of the next record of a task."""
        return task.sessions[-1] if task.sessions else self._newest[task.pid]

    # ---- times

    def checked_time(self, task: TaskWriter, time: Any) -> int:
        """Return the time of the next record of a task in nanoseconds."""
        moment = checked_integer(time, "time", 0, MAX_TIME)
        if moment < task.last:
            raise EncodeError(f"time goes back, from {task.last} to {moment}", f"task {task.tid}")
        if task.first is None:
            begin = self._newest[task.pid].time if task.pid in self._newest else None
            if begin is not None and moment < begin:
                raise EncodeError(f"the process began its program at {begin}, after {moment}", f"task {task.tid}")
        return moment

    def check_times(self, task: TaskWriter, times: Array) -> None:
        """Raise `EncodeError` if the next records of a task cannot have these times."""
        self.checked_time(task, times[0])
        if bool((times[1:] < times[:-1]).any()):
            raise EncodeError("time goes back", f"task {task.tid}")
        checked_integer(times[-1], "time", 0, MAX_TIME)

    def check_new_times(self, tid: int, times: Array) -> None:
        """Raise `EncodeError` if the next records of a task, which may be new, cannot have these times."""
        self.check_times(self.tasks.get(tid) or self._make(tid, self.checked_pid(tid, None)), times)

    def note_records(self, task: TaskWriter, first: int, last: int) -> None:
        """Note the times of the first and the last of some new records of a task."""
        self.enter_session(task)
        task.first, task.last = first if task.first is None else task.first, last

    def enter_session(self, task: TaskWriter) -> None:
        """Enter the first session of a task, with its first record."""
        if not task.sessions:
            task.sessions = [self._newest[task.pid]]

    @property
    def duration(self) -> int:
        """Return the nanoseconds from the first to the last record of all tasks."""
        last = max((task.last for task in self.tasks.values()), default=0)
        return last - min((task.first or 0 for task in self.tasks.values()), default=0)

    # ---- the task file

    def events(self) -> list[TaskEvent]:
        """Return the events of the task file.

        Sessions and tasks begin with the first record, since earlier records have no names.
        """
        begun_in = {
            task.tid: task.sessions[0] if task.sessions else self._newest[task.pid] for task in self.tasks.values()
        }
        threads: defaultdict[str, list[TaskEvent]] = defaultdict(list)  # by session, those of its process
        for task in sorted(self.tasks.values(), key=lambda task: task.first or 0):
            session = begun_in[task.tid]
            if task.pid == session.pid != task.tid:
                threads[session.sid].append(Task(task.first or 0, task.tid, task.pid))
        events: list[TaskEvent] = []
        for session in self.sessions:
            if session.time is None:
                leader, own = self.tasks.get(session.pid), threads[session.sid]
                times = [*([] if leader is None else [leader.first or 0]), *(event.time for event in own)]
                begin = min(times, default=0)
                events.append(Session(begin, session.pid, session.sid, session.program))
                events += [Task(begin if leader is None else leader.first or 0, session.pid, session.pid), *own]
        forked = {task.tid for task in self.tasks.values() if task.forked is not None}
        for task in self.tasks.values():
            if task.forked is not None:
                events.append(task.forked)
            elif task.pid in forked and begun_in[task.tid].pid != task.pid:
                events.append(Task(task.first or 0, task.tid, task.pid))
        for session in self.sessions:
            if session.time is not None:
                events.append(Session(session.time, session.pid, session.sid, session.program))
                events += [Task(session.time, session.pid, session.pid), *threads[session.sid]]
            events += session.loads
        return events


def checked_task(tid: Any) -> int:
    """Return the number of a task, from which the name of a file is made."""
    return checked_integer(tid, "tid", 1, MAX_INT32)


_BUFFERED = 1 << 18
_MAX_MESSAGE = 1000


class NewTrace:
    """A new trace: its declarations, its tasks, and their records, which go to their files in blocks.

    Methods raise `EncodeError`, and write nothing, if a value cannot be written; `ValueError` if the trace is closed.

    Args:
        path: the directory.
        declarations: the modules and functions.
        order: the byte order of the records.
        version: the version of the format.
        check_open: raises ValueError if the trace is closed.
        make_task: makes the writer of a task of the trace, given its number and its process.

    Attributes:
        processes: the tasks and sessions.
        kernel: the kernel events.
        sched: the scheduler events.
        messages: the messages.
        events: the numbers of user events by name.
        buffers: the bytes of records that are not in the file of their task yet, by task.
        records: the number of records that were written.
        position: the number of bytes of records that were written.
        is_copy: whether the trace is a copy, so that nothing can be declared.
    """

    def __init__(
        self,
        path: Path,
        declarations: Declarations,
        order: Order,
        version: int,
        check_open: Callable[[], None],
        make_task: Callable[[NewTrace, int, int], TaskWriter],
    ) -> None:
        self.declarations = declarations
        self.processes = Processes(declarations, partial(make_task, self))
        self.order: Order = order
        self.version = version
        self.check_open = check_open
        self.kernel = KernelFiles(order, declarations.pointer_size)
        self.sched = SchedFiles(order)
        self.messages: list[Message] = []
        self.events: dict[str, int] = {}
        self.buffers: dict[int, bytearray] = {}
        self.records = 0
        self.position = 0
        self.is_copy = False
        self._path = path

    def check_declarable(self) -> None:
        """Raise `EncodeError` if nothing can be declared: the small files of a copy belong to the copied trace."""
        self.check_open()
        if self.is_copy:
            raise EncodeError("a copy takes no further tasks, functions and events; records can be put", "copy")

    @property
    def is_old(self) -> bool:
        """Return whether the task file is binary, and records have no payloads."""
        return self.version < TEXT_VERSION

    def check_version(self, feature: str) -> None:
        """Raise `EncodeError` if the version of the format is too old for something.

        Args:
            feature: a description of it, in the plural.
        """
        if self.is_old:
            raise EncodeError(f"version {self.version} of the format has no {feature}", "version")

    def put(self, tid: int, record: Any) -> None:
        """Append a record to the file of a task."""
        self.append_bytes(tid, encode(record, self.order), 1)

    def put_at(self, task: TaskWriter, time: int, record: Any) -> None:
        """Append a record with a time to the file of a task."""
        self.put(task.tid, record)
        self.processes.note_records(task, time, time)

    def append(self, task: TaskWriter, times: Array, raw: bytes | memoryview, records: int) -> None:
        """Append the bytes of some records, given the times of those that have one."""
        self.append_bytes(task.tid, raw, records)
        if len(times):
            self.processes.note_records(task, int(times[0]), int(times[-1]))
        else:
            self.processes.enter_session(task)

    def append_bytes(self, tid: int, raw: bytes | memoryview, records: int) -> None:
        """Append the bytes of some records to the file of a task, which need not be declared."""
        buffer = self.buffers.setdefault(tid, bytearray())
        buffer += raw
        self.position += len(raw)
        self.records += records
        if len(buffer) > _BUFFERED:
            self._flush(tid)

    def _flush(self, tid: int) -> None:
        """Append a block to the file of a task; there may be more tasks than files that a process may keep open."""
        path = self._path / f"{tid}.dat"
        with names_if_full(path), open(path, "ab", opener=opener) as file:
            file.write(self.buffers[tid])
        self.buffers[tid].clear()

    def flush(self) -> None:
        """Write what is left of all tasks."""
        for tid in self.buffers:
            self._flush(tid)

    def event_number(self, name: str) -> int:
        """Return the number of an event, or that which it will have when it is declared."""
        self.check_declarable()
        if not check_text(name, "event"):
            raise EncodeError("the name of an event is empty", "event")
        return EVENT_IDS.get(name) or self.events.get(name) or EventId.FIRST_USER + len(self.events)

    def event_id(self, name: str) -> int:
        """Return the number of an event, which is declared if it is new."""
        number = self.event_number(name)
        if number >= EventId.FIRST_USER:
            self.events[name] = number
        return number

    def check_message(self, time: Any, text: Any, last: int | None = None) -> Message:
        """Return a message that can follow one at the time `last`, or the last one."""
        if last is None:
            last = self.messages[-1][0] if self.messages else 0
        time = checked_integer(time, "time", 0, MAX_TIME)
        if len(text_bytes(text, "text")) > _MAX_MESSAGE or check_text(text, "text")[:1].isspace():
            raise EncodeError(f"the text begins with white space or has more than {_MAX_MESSAGE:,} bytes", "text")
        if time < last:
            raise EncodeError(f"time goes back, from {last} to {time}", "message")
        return Message(time, text)

    def check_enum(self, name: str, values: Mapping[str, int]) -> None:
        """Raise `EncodeError` if an enumeration cannot be declared."""
        self.check_version("enumerations")
        self.declarations.check_enum(name, values)
