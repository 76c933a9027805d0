"""The writer of one task of a data directory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import checked_integer
from fxtio.errors import EncodeError
from fxtio.uftrace import payloads
from fxtio.uftrace.argspec import ValueSpecs
from fxtio.uftrace.declarations import NewFunction, NewVariable
from fxtio.uftrace.events import encode_values, payload_of
from fxtio.uftrace.layout import DEPTHS, EventWord
from fxtio.uftrace.new_trace import NewSession, NewTrace
from fxtio.uftrace.records import Event, FunctionEntry, FunctionExit, Lost, integers, record_bytes
from fxtio.uftrace.tasks import Fork

_MAX_EVENT = EventWord.fields["event"].mask


class TaskWriter:
    """Writes the calls of one task, see `UftraceWriter.task`.

    Its methods raise `ValueError` if the writer is closed, and `EncodeError`, before anything is written, for what
    cannot be written.

    Args:
        trace: the new trace.
        tid: the task.
        pid: its process.

    Attributes:
        tid: the task.
        pid: its process.
        first: the time of its first record in nanoseconds, or None.
        last: the time of its last record in nanoseconds.
        forked: the fork with which it began, or None.
        sessions: the sessions that it was in; the first one is entered with the first record.
        open: the functions of the calls that have not ended, outermost first.
    """

    def __init__(self, trace: NewTrace, tid: int, pid: int) -> None:
        self.tid, self.pid = tid, pid
        self.first: int | None = None
        self.last = 0
        self.forked: Fork | None = None
        self.sessions: list[NewSession] = []
        self.open: list[NewFunction] = []
        self._trace = trace
        self._checked: tuple[NewSession, list[NewFunction], Array] | None = None  # what `write_records` was given last

    def enter(self, function: NewFunction | str, time: int, *values: Any) -> None:
        """Begin a call.

        Args:
            function: the result of `UftraceWriter.function`, or the name of a function of the task's program, which is
                declared without arguments if it is new.
            time: nanoseconds.
            values: all declared arguments, or none of them; a value of an enumeration may be its name.

        Raises:
            EncodeError: a value does not fit, time goes back, or the function is not in memory.
        """
        self._trace.check_open()
        calls, processes, declarations = self.open, self._trace.processes, self._trace.declarations
        time, session = processes.checked_time(self, time), processes.session_of(self)
        is_name = isinstance(function, str)
        target: Any = declarations.functions.get((session.program, str(function))) if is_name else function
        if len(calls) >= DEPTHS:
            raise EncodeError(f"calls are nested deeper than {DEPTHS}", f"task {self.tid}")
        is_new = is_name and target is None
        if is_new:
            self._trace.check_declarable()
        else:
            self._check_loaded(target, time, session)
        payload = self._payload(() if is_new else target.arguments, values) if values else None
        if is_new:
            target = declarations.function(str(function), module=session.program)
        self._trace.put_at(self, time, FunctionEntry(time, len(calls), target.address, payload))
        calls.append(target)

    def leave(self, time: int, value: Any = ...) -> None:
        """End the innermost call.

        Args:
            time: nanoseconds.
            value: the return value, if one is declared.

        Raises:
            EncodeError: no call is open, the value does not fit, or time goes back.
        """
        self._trace.check_open()
        calls = self.open
        if not calls:
            raise EncodeError("no call is open", f"task {self.tid}")
        time, target = self._trace.processes.checked_time(self, time), calls[-1]
        payload = None if value is ... else self._payload(target.returns, [value])
        self._trace.put_at(self, time, FunctionExit(time, len(calls) - 1, target.address, payload))
        calls.pop()

    def fork(self, tid: int, time: int) -> TaskWriter:
        """Begin a process as a copy of this one; the open calls are open there, too.

        Args:
            tid: the new process.
            time: nanoseconds.

        Raises:
            EncodeError: the task exists already, or time goes back.
        """
        self._trace.check_declarable()
        time = self._trace.processes.checked_time(self, time)
        child = self._trace.processes.fork(tid, self, time)
        child.open = list(self.open)
        return child

    def exec(self, program: str, time: int) -> None:
        """Begin a session with another program; the open calls never end.

        Functions that are named by `enter` are then those of the new program.

        Args:
            program: the path of the program.
            time: nanoseconds.

        Raises:
            EncodeError: the path cannot be written, time goes back, or the task is a thread of a process.
        """
        self._trace.check_declarable()
        time = self._trace.processes.checked_time(self, time)
        if self.tid != self.pid:
            raise EncodeError(f"only the first task of a process calls exec, {self.pid}", f"task {self.tid}")
        self._trace.processes.exec(self, program, time)

    def dlopen(self, library: str, time: int) -> None:
        """Load a library, so that its functions can be called.

        Args:
            library: the path of the library, which no program has in memory from its beginning; functions of it are
                declared after it was loaded for the first time.
            time: nanoseconds.

        Raises:
            EncodeError: the path cannot be written, the library is in memory from the beginning, or time goes back.
        """
        self._trace.check_declarable()
        self._trace.check_version("libraries that are loaded")
        time = self._trace.processes.checked_time(self, time)
        self._trace.processes.load(self, library, time)

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
            EncodeError: the name cannot be written, a value does not fit, or time goes back.
        """
        self._trace.check_open()
        time = self._trace.processes.checked_time(self, time)
        number = self._trace.event_number(event) if isinstance(event, str) else event
        number = checked_integer(number, "event", 0, _MAX_EVENT)
        if data is not None and (values or not isinstance(data, bytes | bytearray | memoryview)):
            raise EncodeError("the data is given as bytes or by the names of its values", "event")
        raw = None if data is None else bytes(data)
        if values:
            raw = encode_values(number, _addressed(values), self._trace.order, self._trace.declarations.pointer_size)
        payload = payload_of(raw, self._trace.order)
        if payload is not None:
            self._trace.check_version("data of events")
        if isinstance(event, str):
            self._trace.event_id(event)
        self._trace.put_at(self, time, Event(time, 0, number, payload))

    def lost(self, count: int) -> None:
        """Write that a number of records is missing here.

        Raises:
            EncodeError: the number does not fit.
        """
        self._trace.check_open()
        self._trace.put(self.tid, Lost(0, 0, count))

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
            EncodeError: a value does not fit, or time goes back.
        """
        self._trace.check_open()
        times = integers("time", time)
        if not len(times):
            return
        self._trace.processes.check_times(self, times)
        try:
            functions, codes = function
            addresses = self._addresses([*functions], int(times[0]))
        except (TypeError, ValueError) as error:
            if isinstance(error, EncodeError):
                raise
            raise EncodeError("this is not a pair of functions and of indices", "function") from None
        rows = integers("function", codes)
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(addresses):
            raise EncodeError(f"an index is not from 0 to {len(addresses) - 1}", "function")
        address = addresses[rows]
        kinds, depths = integers("type", type), integers("depth", depth)
        raw = record_bytes(kinds, times, depths, address, payload, self._trace.order)
        if payload is not None and any(payload):
            self._trace.check_version("payloads")
        self._trace.append(self, times, raw, len(times))

    # ---- checks; nothing is written before all of them

    def _check_loaded(self, target: NewFunction, time: int, session: NewSession) -> None:
        """Raise an error if a function is not in memory."""
        if not isinstance(target, NewFunction):
            raise EncodeError(f"{target!r} is neither a function nor the name of one", "function")
        if not self._trace.declarations.owns(target):
            raise EncodeError("the function was not declared by this writer", str(target.name))
        module = self._trace.declarations.modules.get(target.module)
        if module is None or module.path == session.program:
            return
        loaded = session.libraries.get(target.module)
        if module.role == "program" or (module.role == "loaded" and (loaded is None or time < loaded)):
            raise EncodeError(f"{target.module!r} is not in memory at the time {time}", target.name)

    def _addresses(self, targets: list[NewFunction], time: int) -> Array:
        """Return the addresses of functions; those of the previous call need not be checked again."""
        session = self._trace.processes.session_of(self)
        if self._checked is None or self._checked[0] is not session or self._checked[1] != targets:
            for target in targets:
                self._check_loaded(target, time, session)
            addresses = np.array([target.address for target in targets], np.uint64)
            self._checked = session, targets, addresses
        return self._checked[2]

    def _payload(self, specs: ValueSpecs, values: Sequence[Any]) -> bytes:
        return payloads.encode(specs, self._trace.declarations.numbers(specs, values), self._trace.order)


def _addressed(values: dict[str, Any]) -> dict[str, Any]:
    """Replace functions and variables by their addresses; a variable also gives the size of its value."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, NewVariable):
            result |= {"size": value.size} if "size" not in values else {}
        result[name] = value.address if isinstance(value, NewFunction | NewVariable) else value
    return result
