"""The tasks of a new trace, their processes and sessions, and the task file that follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fxtio.arrays import Array
from fxtio.codec.integers import MAX_INT32, checked_integer
from fxtio.errors import EncodeError
from fxtio.table import MAX_TIME
from fxtio.uftrace.declarations import Declarations, NewFunction
from fxtio.uftrace.tasks import Dlopen, Fork, Session, Task, TaskEvent

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


@dataclass(slots=True)
class NewTask:
    """A task of a new trace.

    Attributes:
        tid: the task.
        pid: its process.
        first: the time of its first record in nanoseconds, or None.
        last: the time of its last record in nanoseconds.
        forked: the fork with which the task began, or None.
        sessions: the sessions that the task was in; the first one is entered with the first record.
        open: the functions of the calls that have not ended, outermost first.
    """

    tid: int
    pid: int
    first: int | None = None
    last: int = 0
    forked: Fork | None = None
    sessions: list[NewSession] = field(default_factory=list)
    open: list[NewFunction] = field(default_factory=list)


class Processes:
    """The tasks of a new trace and the sessions of their processes.

    Args:
        declarations: the modules and functions of the trace.

    Attributes:
        tasks: the tasks by number.
        sessions: the sessions in the order of their declaration.
    """

    def __init__(self, declarations: Declarations) -> None:
        self.tasks: dict[int, NewTask] = {}
        self.sessions: list[NewSession] = []
        self._declarations = declarations
        self._newest: dict[int, NewSession] = {}  # the last session of each process

    # ---- declaring

    def checked_pid(self, tid: int, pid: int | None) -> int:
        """Return the process of a task that is declared or can be.

        Raises:
            EncodeError: the task was declared with another process, or a number is not positive.
        """
        tid = checked_task(tid)
        task = self.tasks.get(tid)
        if pid is None:
            return tid if task is None else task.pid
        pid = checked_task(pid)
        if task is not None and pid != task.pid:
            raise EncodeError(f"task {tid} belongs to process {task.pid}", "task")
        return pid

    def task(self, tid: int, pid: int | None = None) -> NewTask:
        """Return a task, which is declared if it is new.

        Raises:
            EncodeError: see `checked_pid`.
        """
        tid, pid = checked_task(tid), self.checked_pid(tid, pid)
        task = self.tasks.get(tid)
        if task is None:
            task = self.tasks[tid] = NewTask(tid, pid)
            if pid not in self._newest:
                self._add_session(pid, self._declarations.path, None)
        return task

    def _add_session(self, pid: int, program: str, time: int | None) -> NewSession:
        session = NewSession(pid, f"{len(self.sessions) + 1:0{_SID_DIGITS}x}", program, time)
        self.sessions.append(session)
        self._newest[pid] = session
        return session

    def fork(self, tid: int, parent: NewTask, time: int) -> NewTask:
        """Declare a process that begins as a copy of the process of a task.

        Raises:
            EncodeError: the task exists already.
        """
        tid = checked_task(tid)
        if tid in self.tasks or tid in self._newest:
            raise EncodeError(f"task {tid} exists already", "fork")
        session = self.session_of(parent)
        self._newest[tid] = session
        self.tasks[tid] = NewTask(tid, tid, time, time, Fork(time, tid, parent.pid), [session])
        return self.tasks[tid]

    def exec(self, task: NewTask, program: str, time: int) -> None:
        """Begin a session of the process of a task with another program.

        Raises:
            EncodeError: the program cannot be written; nothing was added.
        """
        before = self.session_of(task)
        self._declarations.add_module(program, "program")
        session = self._add_session(task.pid, program, time)
        task.sessions = [*(task.sessions or [before]), session]
        self._note(task, time, time)
        task.open = []

    def load(self, task: NewTask, library: str, time: int) -> None:
        """Load a library in the session of a task.

        Raises:
            EncodeError: the path cannot be written, or the library is in memory from the beginning.
        """
        base = self._declarations.add_module(library, "loaded").base
        session = self.session_of(task)
        session.libraries[library] = min(time, session.libraries.get(library, time))
        session.loads.append(Dlopen(time, task.tid, session.sid, base, library))
        self.note_records(task, time, time)

    def session_of(self, task: NewTask) -> NewSession:
        """Return the session of the next record of a task."""
        return task.sessions[-1] if task.sessions else self._newest[task.pid]

    # ---- times

    def checked_time(self, task: NewTask, time: Any) -> int:
        """Return the time of the next record of a task in nanoseconds.

        Raises:
            EncodeError: it is not a time, time goes back, or the process does not run its program yet.
        """
        moment = checked_integer(time, "time", 0, MAX_TIME)
        if moment < task.last:
            raise EncodeError(f"time goes back, from {task.last} to {moment}", f"task {task.tid}")
        if task.first is None:
            begin = self._newest[task.pid].time if task.pid in self._newest else None
            if begin is not None and moment < begin:
                raise EncodeError(f"the process began its program at {begin}, after {moment}", f"task {task.tid}")
        return moment

    def check_times(self, task: NewTask, times: Array) -> None:
        """Raise an error if the next records of a task cannot have these times.

        Raises:
            EncodeError: see `checked_time`.
        """
        self.checked_time(task, times[0])
        if bool((times[1:] < times[:-1]).any()):
            raise EncodeError("time goes back", f"task {task.tid}")
        checked_integer(times[-1], "time", 0, MAX_TIME)

    def check_new_times(self, tid: int, times: Array) -> None:
        """Raise an error if the next records of a task, which may be new, cannot have these times.

        Raises:
            EncodeError: see `checked_time`; or the number is not that of a task.
        """
        self.check_times(self.tasks.get(tid) or NewTask(tid, self.checked_pid(tid, None)), times)

    def note_records(self, task: NewTask, first: int, last: int) -> None:
        """Note the times of the first and the last of some new records of a task."""
        self.enter_session(task)
        self._note(task, first, last)

    def enter_session(self, task: NewTask) -> None:
        """Enter the first session of a task, with its first record."""
        if not task.sessions:
            task.sessions = [self._newest[task.pid]]

    def _note(self, task: NewTask, first: int, last: int) -> None:
        task.first, task.last = first if task.first is None else task.first, last

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
        events: list[TaskEvent] = []
        threads = self._threads_by_session()
        forked = {task.tid for task in self.tasks.values() if task.forked is not None}
        for session in self.sessions:
            if session.time is None:
                events += self._process_events(session, threads.get(session.sid, []))
        for task in self.tasks.values():
            if task.forked is not None:
                events.append(task.forked)
            elif task.pid in forked and self._first_session(task).pid != task.pid:
                events.append(Task(task.first or 0, task.tid, task.pid))
        for session in self.sessions:
            if session.time is not None:
                events.append(Session(session.time, session.pid, session.sid, session.program))
                events.append(Task(session.time, session.pid, session.pid))
                events += [Task(task.first or 0, task.tid, task.pid) for task in threads.get(session.sid, [])]
            events += session.loads
        return events

    def _process_events(self, session: NewSession, threads: list[NewTask]) -> list[TaskEvent]:
        """Return the beginnings of a session, of its process and of the threads that began in it."""
        leader = self.tasks.get(session.pid)
        tasks = [*([leader] if leader is not None else []), *threads]
        begin = min((task.first or 0 for task in tasks), default=0)
        lines = [Task(begin if leader is None else leader.first or 0, session.pid, session.pid)]
        lines += [Task(task.first or 0, task.tid, task.pid) for task in threads]
        return [Session(begin, session.pid, session.sid, session.program), *lines]

    def _threads_by_session(self) -> dict[str, list[NewTask]]:
        """Return by session id the threads of its process that began in it, by the times of their first records."""
        threads: dict[str, list[NewTask]] = {}
        for task in sorted(self.tasks.values(), key=lambda task: task.first or 0):
            session = self._first_session(task)
            if task.pid == session.pid != task.tid:
                threads.setdefault(session.sid, []).append(task)
        return threads

    def _first_session(self, task: NewTask) -> NewSession:
        """Return the session in which a task began; that of its process if it has no records."""
        return task.sessions[0] if task.sessions else self._newest[task.pid]


def checked_task(tid: Any) -> int:
    """Return the number of a task, from which the name of a file is made.

    Raises:
        EncodeError: it is not such a number.
    """
    return checked_integer(tid, "tid", 1, MAX_INT32)
