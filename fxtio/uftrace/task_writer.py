"""The writer of one task of a data directory, and the sessions that tasks are in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fxtio.errors import EncodeError
from fxtio.table import MAX_TIME
from fxtio.uftrace import payloads
from fxtio.uftrace.argspec import ValueSpecs
from fxtio.uftrace.encode import checked_integer, integers, record_bytes
from fxtio.uftrace.events import encode_values, payload_of
from fxtio.uftrace.layout import DEPTHS, EventWord
from fxtio.uftrace.program import NewFunction, NewVariable
from fxtio.uftrace.records import Event, FunctionEntry, FunctionExit, Lost
from fxtio.uftrace.tasks import Dlopen, Fork

if TYPE_CHECKING:
    from fxtio.uftrace.writer import UftraceWriter

Array = np.ndarray[Any, Any]

_MAX_EVENT = EventWord.fields["event"].mask


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


class TaskWriter:
    """Writes the calls of one task, see `UftraceWriter.task`.

    Attributes:
        tid: the task.
        pid: its process.
        first: the time of its first record in nanoseconds, or None.
        last: the time of its last record in nanoseconds.
        forked: the fork with which the task began, or None.
        sessions: the sessions that the task was in; the first one is entered with the first record.
    """

    def __init__(self, writer: UftraceWriter, tid: int, pid: int) -> None:
        self.tid = tid
        self.pid = pid
        self.first: int | None = None
        self.last = 0
        self.forked: Fork | None = None
        self.sessions: list[NewSession] = []
        self._writer = writer
        self._open: list[NewFunction] = []
        self._checked: tuple[NewSession, list[NewFunction], Array] | None = None  # what `write_records` was given last

    def enter(self, function: NewFunction | str, time: int, *values: Any) -> None:
        """Begin a call.

        Args:
            function: the result of `UftraceWriter.function`, or the name of a function of the task's program, which is
                declared without arguments if it is new.
            time: nanoseconds.
            values: all declared arguments, or none of them; a value of an enumeration may be its name.

        Raises:
            EncodeError: a value does not fit, time goes back, or the function is not in memory; nothing was written.
            ValueError: the writer is closed.
        """
        self._writer._check_open()
        time, session = self._checked_time(time), self._session()
        target = self._target(function, session)
        if len(self._open) >= DEPTHS:
            raise EncodeError(f"calls are nested deeper than {DEPTHS}", f"task {self.tid}")
        if target is not None:
            self._check_loaded(target, time, session)
        arguments = target.arguments if target is not None else ()
        payload = self._payload(arguments, values) if values else None
        if target is None:
            target = self._writer.function(str(function), module=session.program)
        self._put(time, FunctionEntry(time, len(self._open), target.address, payload))
        self._open.append(target)

    def leave(self, time: int, value: Any = ...) -> None:
        """End the innermost call.

        Args:
            time: nanoseconds.
            value: the return value, if one is declared.

        Raises:
            EncodeError: no call is open, the value does not fit, or time goes back; nothing was written.
            ValueError: the writer is closed.
        """
        self._writer._check_open()
        if not self._open:
            raise EncodeError("no call is open", f"task {self.tid}")
        time, target = self._checked_time(time), self._open[-1]
        payload = None if value is ... else self._payload(target.returns, [value])
        self._put(time, FunctionExit(time, len(self._open) - 1, target.address, payload))
        self._open.pop()

    def fork(self, tid: int, time: int) -> TaskWriter:
        """Begin a process as a copy of this one; the open calls are open there, too.

        Args:
            tid: the new process.
            time: nanoseconds.

        Raises:
            EncodeError: the task exists already, or time goes back; nothing was written.
            ValueError: the writer is closed.
        """
        self._writer._check_open()
        time, session = self._checked_time(time), self._session()
        child = self._writer._forked(tid, session)
        child._begin_as_copy(self.pid, session, time)
        child._open = list(self._open)
        return child

    def exec(self, program: str, time: int) -> None:
        """Begin a session with another program; the open calls never end.

        Functions that are named by `enter` are then those of the new program.

        Args:
            program: the path of the program.
            time: nanoseconds.

        Raises:
            EncodeError: the path cannot be written, time goes back, or the task is a thread of a process; nothing was
                written.
            ValueError: the writer is closed.
        """
        self._writer._check_declarable()
        time = self._checked_time(time)
        if self.tid != self.pid:
            raise EncodeError(f"only the first task of a process calls exec, {self.pid}", f"task {self.tid}")
        before = self._session()
        session = self._writer._new_session(self.pid, program, time)
        self.sessions = [*(self.sessions or [before]), session]
        self.first, self.last = time if self.first is None else self.first, time
        self._open = []

    def dlopen(self, library: str, time: int) -> None:
        """Load a library, so that its functions can be called.

        Args:
            library: the path of the library, which no program has in memory from its beginning; functions of it are
                declared after it was loaded for the first time.
            time: nanoseconds.

        Raises:
            EncodeError: the path cannot be written, the library is in memory from the beginning, or time goes back;
                nothing was written.
            ValueError: the writer is closed.
        """
        self._writer._check_declarable()
        time, session = self._checked_time(time), self._session()
        base = self._writer._loaded(library)
        session.libraries[library] = min(time, session.libraries.get(library, time))
        session.loads.append(Dlopen(time, self.tid, session.sid, base, library))
        self._begin(session)
        self.first, self.last = time if self.first is None else self.first, time

    def event(self, event: str | int, time: int, data: bytes | None = None, **values: Any) -> None:
        """Write an event.

        Args:
            event: the name of an event of uftrace, such as `read:proc/statm`, or of a user event, such as
                `provider:name`; or a number (`EventId`).
            time: nanoseconds.
            data: the data as bytes; uftrace refuses data of events that it does not know.
            values: the data as values by name, if it is an event of uftrace, see `fxtio.uftrace.events.values_of`.  An
                address may be the result of `UftraceWriter.function` or `variable`.

        Raises:
            EncodeError: the name cannot be written, a value does not fit, or time goes back; nothing was written.
            ValueError: the writer is closed.
        """
        self._writer._check_open()
        time = self._checked_time(time)
        number = self._writer._event_number(event) if isinstance(event, str) else event
        number = checked_integer(number, "event", 0, _MAX_EVENT)
        if data is not None and (values or not isinstance(data, bytes | bytearray | memoryview)):
            raise EncodeError("the data is given as bytes or by the names of its values", "event")
        raw = None if data is None else bytes(data)
        if values:
            raw = encode_values(number, _addressed(values), self._writer.order, self._writer.pointer_size)
        payload = payload_of(raw, self._writer.order)
        if isinstance(event, str):
            self._writer.event_id(event)
        self._put(time, Event(time, 0, number, payload))

    def lost(self, count: int) -> None:
        """Write that a number of records is missing here.

        Raises:
            EncodeError: the number does not fit; nothing was written.
            ValueError: the writer is closed.
        """
        self._writer.put(Lost(0, 0, count), tid=self.tid)

    def write_records(
        self,
        *,
        type: Any,
        time: Any,
        depth: Any,
        function: tuple[Sequence[NewFunction], Any],
        payload: Sequence[bytes | None] | None = None,
    ) -> None:
        """Append many entry and exit records.

        Args:
            type: the type of each record, an array or a list: 0 for an entry, 1 for an exit (`RecordType`).
            time: nanoseconds, ascending.
            depth: the number of calls around each.
            function: functions, and the index of the function of each record.
            payload: the payload of each record, see `fxtio.uftrace.payloads.encode`, or None.

        Raises:
            EncodeError: a value does not fit, or time goes back; nothing was written.
            ValueError: the writer is closed.
        """
        self._writer._check_open()
        times = _checked_column("time", time)
        if not len(times):
            return
        self._check_times(times)
        try:
            functions, codes = function
            addresses = self._addresses([*functions], int(times[0]))
        except (TypeError, ValueError) as error:
            raise error if isinstance(error, EncodeError) else _not_functions() from None
        rows = _checked_column("function", codes)
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(addresses):
            raise EncodeError(f"an index is not from 0 to {len(addresses) - 1}", "function")
        address = addresses[rows]
        kinds, depths = _checked_column("type", type), _checked_column("depth", depth)
        self._append(times, record_bytes(kinds, times, depths, address, payload, self._writer.order), len(times))

    # ---- checks; nothing is written before all of them

    def _session(self) -> NewSession:
        """Return the session of the next record."""
        return self.sessions[-1] if self.sessions else self._writer._session_of(self.pid)

    def _begin(self, session: NewSession) -> None:
        """Enter the first session, with the first record."""
        if not self.sessions:
            self.sessions = [session]

    def _begin_as_copy(self, parent: int, session: NewSession, time: int) -> None:
        """Begin as a copy of a process in a session."""
        self.forked = Fork(time, self.tid, parent)
        self.first = self.last = time
        self.sessions = [session]

    def _target(self, function: NewFunction | str, session: NewSession) -> NewFunction | None:
        """Return the function of a call, or None if it is not declared but can be."""
        program = self._writer._program
        if isinstance(function, str):
            known = program.known_function(function, session.program)
            if known is None:
                self._writer._check_declarable()
                program.check_function(function, module=session.program)
            return known
        return function

    def _check_loaded(self, target: NewFunction, time: int, session: NewSession) -> None:
        """Raise an error if a function is not in memory."""
        if not isinstance(target, NewFunction):
            raise EncodeError(f"{target!r} is neither a function nor the name of one", "function")
        if not self._writer._program.owns(target):
            raise EncodeError("the function was not declared by this writer", str(target.name))
        module = self._writer._program.module(target.module)
        if module is None or module.path == session.program:
            return
        loaded = session.libraries.get(target.module)
        if module.role == "program" or (module.role == "loaded" and (loaded is None or time < loaded)):
            raise EncodeError(f"{target.module!r} is not in memory at the time {time}", target.name)

    def _addresses(self, targets: list[NewFunction], time: int) -> Array:
        """Return the addresses of functions; those of the previous call need not be checked again."""
        session = self._session()
        if self._checked is None or self._checked[0] is not session or self._checked[1] != targets:
            for target in targets:
                self._check_loaded(target, time, session)
            addresses = np.array([target.address for target in targets], np.uint64)
            self._checked = session, targets, addresses
        return self._checked[2]

    def _payload(self, specs: ValueSpecs, values: Sequence[Any]) -> bytes:
        return payloads.encode(specs, self._writer._program.numbers(specs, values), self._writer.order)

    def _checked_time(self, time: Any) -> int:
        moment = checked_integer(time, "time", 0, MAX_TIME)
        if moment < self.last:
            raise EncodeError(f"time goes back, from {self.last} to {moment}", f"task {self.tid}")
        if self.first is None:
            begin = self._writer._session_of(self.pid).time
            if begin is not None and moment < begin:
                raise EncodeError(f"the process began its program at {begin}, after {moment}", f"task {self.tid}")
        return moment

    def _check_times(self, times: Array) -> None:
        self._checked_time(times[0])
        if bool((times[1:] < times[:-1]).any()):
            raise EncodeError("time goes back", f"task {self.tid}")
        checked_integer(times[-1], "time", 0, MAX_TIME)

    # ---- writing

    def _append(self, times: Array, raw: memoryview, records: int) -> None:
        """Append the bytes of some records, given the times of those that have one."""
        self._begin(self._session())
        self._writer._append(self.tid, raw, records)
        if len(times):
            self.first = int(times[0]) if self.first is None else self.first
            self.last = int(times[-1])

    def _put(self, time: int, record: Any) -> None:
        self._begin(self._session())
        self._writer.put(record, tid=self.tid)
        self.first = time if self.first is None else self.first
        self.last = time


def _checked_column(name: str, values: Any) -> Array:
    """Return integers as an array of one dimension.

    Raises:
        EncodeError: the values are not integers.
    """
    try:
        column = np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        raise EncodeError("the values are not integers", name) from None
    if column.ndim != 1:
        raise EncodeError(f"the array has {column.ndim} dimensions, not one", name)
    return integers(name, column if len(column) else column.astype(np.int64))


def _not_functions() -> EncodeError:
    return EncodeError("this is not a pair of functions and of indices", "function")


def _addressed(values: dict[str, Any]) -> dict[str, Any]:
    """Replace functions and variables by their addresses; a variable also gives the size of its value."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, NewVariable):
            result |= {"size": value.size} if "size" not in values else {}
        result[name] = value.address if isinstance(value, NewFunction | NewVariable) else value
    return result
