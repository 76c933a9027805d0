"""The writer of a data directory: exact (records and files as they are), by columns, and by calls and events.

Records go to the files of their tasks in blocks.  The small files are written at the end, from the declared functions
and tasks, except those that were given as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from fxtio.codec.integers import MAX_INT32, MAX_INT64
from fxtio.errors import EncodeError
from fxtio.io.writing import TraceWriter
from fxtio.table import MAX_TIME, Bytes, Categories, Optional, WritableTable
from fxtio.uftrace import perf
from fxtio.uftrace.directory import StoredFile, is_file_name, text_bytes
from fxtio.uftrace.encode import (
    CallOrder,
    call_states,
    checked_depth,
    checked_integer,
    integers,
    record_bytes,
    type_codes,
    wrapped,
)
from fxtio.uftrace.enums import EventId, RecordType, WordClass
from fxtio.uftrace.events import EVENT_IDS, EXTERN_FILE, NAMES_FILE, EventsFile, ExternFile
from fxtio.uftrace.groups import rows_by_value
from fxtio.uftrace.info import INFO_FILE, InfoFile
from fxtio.uftrace.kernel_writer import MAX_CPU, KernelFiles
from fxtio.uftrace.layout import Feature, InfoBit
from fxtio.uftrace.program import FUNCTION_SIZE, NewFunction, NewVariable, Program
from fxtio.uftrace.reader import ParsedFile, UftraceTrace
from fxtio.uftrace.records import encode
from fxtio.uftrace.state import map_name
from fxtio.uftrace.tables import NO_ENTRY
from fxtio.uftrace.task_writer import NewSession, TaskWriter
from fxtio.uftrace.tasks import NS, TEXT, Session, Task, TaskEvent, TaskFile, check_text

Array = np.ndarray[Any, Any]
Order = Literal["little", "big"]

_BUFFERED = 1 << 18
_SID_DIGITS = 16
_MAX_MESSAGE = 1000

MAX_TASK = MAX_INT32
"""The largest number of a task or process, as in Linux."""


class UftraceWriter(TraceWriter):
    """Writes a data directory; a context manager.

    Args:
        target: the directory, which must be empty or is created.
        program: the path of the traced program.
        command: the command line; the path of the program if None.
        order: the byte order of the records.
        word_class: the size of a pointer of the program in bits.
        sized_symbols: write symbols with sizes, which uftrace before 0.14 cannot read.
        recorded_at: the date of the recording as `date` prints it.

    Attributes:
        path: the directory.
        order: the byte order of the records.
        pointer_size: the size of a pointer of the program in bytes.
        records: the number of records that were written.

    Raises:
        EncodeError: an argument cannot be written.
        FileExistsError: the directory is not empty.
        OSError: the directory cannot be created.
    """

    format = "uftrace"
    writable_tables: ClassVar[Mapping[str, WritableTable]] = {
        "records": WritableTable(
            ("tid", "type", "time", "depth", "address"), ("payload",), ("record", "offset", "name")
        ),
        "slices": WritableTable(
            ("tid", "name", "start", "duration", "depth"), ("state",), ("address", "entry", "exit")
        ),
        "sched": WritableTable(("time", "cpu", "pid", "tid", "kind"), ("name", "parent")),
        "messages": WritableTable(("time", "text")),
    }

    def __init__(
        self,
        target: str | os.PathLike[str],
        *,
        program: str = "/program",
        command: str | None = None,
        order: Order = "little",
        word_class: Literal[32, 64] = 64,
        sized_symbols: bool = False,
        recorded_at: str = "Thu Jan  1 00:00:00 1970",
    ) -> None:
        if order not in ("little", "big"):
            raise EncodeError(f"{order!r} is neither 'little' nor 'big'", "order")
        if word_class not in (32, 64):
            raise EncodeError(f"{word_class!r} is neither 32 nor 64", "word_class")
        self.path = Path(target)
        self.order: Order = order
        self.pointer_size = word_class // 8
        self.records = 0
        self._position = 0
        self._word_class = WordClass.BITS32 if word_class == 32 else WordClass.BITS64
        self._program = Program(program, self.pointer_size)
        self._kernel = KernelFiles(order, self.pointer_size)
        self._command = check_text(program if command is None else command, "command")
        self._sized_symbols = sized_symbols
        self._recorded_at = check_text(recorded_at, "recorded_at")
        self._tasks: dict[int, TaskWriter] = {}
        self._processes: dict[int, NewSession] = {}  # the session of each process
        self._sessions: list[NewSession] = []
        self._buffers: dict[int, bytearray] = {}
        self._files: dict[str, Any] = {}
        self._events: dict[str, int] = {}
        self._messages: list[tuple[int, str]] = []
        self._perf: dict[int, bytearray] = {}
        self._perf_times: dict[int, int] = {}  # the time of the last scheduler event of each CPU
        self._is_copy = False
        self.path.mkdir(parents=True, exist_ok=True)
        if next(self.path.iterdir(), None) is not None:
            raise FileExistsError(f"{self.path} is not empty")

    @property
    def position(self) -> int:
        """The number of bytes of records that were written."""
        return self._position

    # ---- exact

    def put(self, record: Any, *, tid: int = 1) -> None:
        """Append a record to the file of a task as it is.

        Args:
            record: a record, or `Opaque`.
            tid: the task.

        Raises:
            EncodeError: the record cannot be encoded; nothing was written.
            ValueError: the writer is closed.
        """
        self._check_open()
        _check_task(tid)
        self._append(tid, encode(record, self.order), 1)

    def file(self, name: str, content: Any) -> None:
        """Write a file of the directory as a whole, in place of the file that the writer would make.

        Args:
            name: the name of the file.
            content: bytes, or the result of `UftraceTrace.file`.

        Raises:
            EncodeError: the name is not the name of a file in a directory, or that of the records of a task; or the
                content is neither bytes nor a parsed file.
            ValueError: the writer is closed.
        """
        self._check_open()
        text_bytes(name, "name")
        if not is_file_name(name):
            raise EncodeError(f"{name!r} is not the name of a file in a directory", "name")
        if _is_task_file(name):
            raise EncodeError("the records of a task are written by `put` and by the writer of the task", name)
        self._files[name] = content if isinstance(content, StoredFile) else _bytes_of(content)

    def _copy(self, trace: UftraceTrace) -> None:
        given = (self._tasks, self._buffers, self._files, self._events, self._messages, self._perf, self._kernel)
        if self._position or any(given):
            raise EncodeError("a trace can be copied only if nothing was written before", "copy")
        self.order = trace.info_file.order
        tids = {f"{tid}.dat": tid for tid in trace.tids}
        for name in trace.directory.names:
            if name not in tids:
                with open(self.path / name, "wb") as file:
                    file.writelines(trace.directory.blocks(name))
                continue
            self._buffers.setdefault(tids[name], bytearray())
            for record in trace.records(resolve=False, tid=tids[name]):
                self._append(tids[name], encode(record, self.order), 1)
        self._is_copy = True

    def _check_declarable(self) -> None:
        """Raise an error if nothing can be declared: the small files of a copy belong to the copied trace."""
        self._check_open()
        if self._is_copy:
            raise EncodeError("a copy takes no further tasks, functions and events; records can be put", "copy")

    def _append(self, tid: int, raw: bytes | memoryview, records: int) -> None:
        """Append the bytes of some records to the file of a task."""
        buffer = self._buffers.setdefault(tid, bytearray())
        buffer += raw
        self._position += len(raw)
        self.records += records
        if len(buffer) > _BUFFERED:
            self._flush(tid)

    def _flush(self, tid: int) -> None:
        """Append a block to the file of a task; there may be more tasks than files that a process may keep open."""
        with open(self.path / f"{tid}.dat", "ab") as file:
            file.write(self._buffers[tid])
        self._buffers[tid].clear()

    # ---- columns

    def _write_rows(self, name: str, columns: dict[str, Any], rows: int) -> None:
        write = {
            "records": self._write_records,
            "slices": self._write_slices,
            "sched": self._write_sched,
            "messages": self._write_messages,
        }
        write[name](columns, rows)

    def _write_records(self, columns: dict[str, Any], rows: int) -> None:
        """Append records as they are, and declare their tasks.

        Payloads are in the optional column `payload`: they are not in the table of the reader, and can be read only if
        the info file has their specifications.
        """
        kind = type_codes(columns["type"])
        payload: Bytes | None = columns.get("payload")
        if payload is not None and not isinstance(payload, Bytes):
            raise EncodeError("the values are not bytes", "payload")
        encoded = []
        for tid, chosen in _rows_of("tid", columns["tid"]):
            raws = None if payload is None else [payload[row] or None for row in chosen.tolist()]
            integer = {name: integers(name, columns[name])[chosen] for name in ("time", "depth", "address")}
            raw = record_bytes(kind[chosen], **integer, payload=raws, order=self.order)
            times = integer["time"][kind[chosen] != RecordType.LOST]
            self._checked_pid(tid, None)
            encoded.append((tid, times, raw, len(chosen)))
        for tid, times, raw, count in encoded:
            self.task(tid)._append(times, raw, count)

    def _write_slices(self, columns: dict[str, Any], rows: int) -> None:
        """Write all calls of some tasks; functions that are new are declared.

        A task whose calls without an entry begin before its first record becomes a copy of another process.
        """
        names = columns["name"]
        if not isinstance(names, Categories) or bool((names.codes < 0).any()):
            raise EncodeError("a call has no name", "name")
        start, duration = (integers(name, columns[name]) for name in ("start", "duration"))
        depth = checked_depth(columns["depth"], FUNCTION_SIZE)
        if int(duration.min()) < 0:
            raise EncodeError("a duration is negative", "duration")
        if max(int(start.max()), int(duration.max()), int(start.max()) + int(duration.max())) > MAX_INT64:
            raise EncodeError("the end of a call does not fit in 63 bits", "duration")
        state = call_states(columns.get("state"), rows)
        used = np.unique(names.codes)
        for code in used.tolist():
            self._program.check_function(names.values[code])
        orders, forks = [], {}
        for tid, chosen in _rows_of("tid", columns["tid"]):
            order = CallOrder(start[chosen], (start + duration)[chosen], depth[chosen], state[chosen])
            self._check_whole_calls(tid, order.time)
            orders.append((tid, order, chosen[order.row]))
            without_entry = start[chosen][state[chosen] == NO_ENTRY]
            if len(without_entry) and self._is_copied(tid, without_entry, int(order.time[0])):
                forks[tid] = int(without_entry[0])
        parents = [tid for tid in [*self._processes, *(tid for tid, _, _ in orders)] if tid not in forks]
        if forks and not parents:
            raise EncodeError("there is no other process, of which the task could be a copy", f"task {min(forks)}")
        for tid, time in forks.items():
            session = self.task(parents[0])._session()
            self._forked(tid, session)._begin_as_copy(parents[0], session, time)
        address = np.zeros(len(names.values), np.uint64)
        address[used] = [self.function(names.values[code]).address for code in used.tolist()]
        for tid, order, calls in orders:
            wrapped_depth, wrapped_address = wrapped(depth[calls], address[names.codes[calls]])
            raw = record_bytes(order.kind, order.time, wrapped_depth, wrapped_address, None, self.order)
            self.task(tid)._append(order.time, raw, len(order.time))

    def _is_copied(self, tid: int, starts: Array, first: int) -> bool:
        """Return whether a task must be a copy of a process so that its calls without an entry begin at some times.

        Raises:
            EncodeError: they would not begin at these times.
        """
        task = self._tasks.get(tid)
        begin = first if task is None or task.first is None else task.first
        if int(starts.min()) < int(starts.max()) or int(starts[0]) > begin:
            raise EncodeError("calls without an entry begin at one time, at or before the first record", f"task {tid}")
        if int(starts[0]) < begin and task is not None:
            raise EncodeError("a call without an entry begins before the task", f"task {tid}")
        return int(starts[0]) < begin

    def _check_whole_calls(self, tid: int, times: Array) -> None:
        """Raise an error if a task takes no calls of functions of the first program at some times."""
        self._checked_pid(tid, None)
        task = self._tasks.get(tid)
        if int(times[0]) < 0:
            raise EncodeError("a time is negative", "start")
        if task is None:
            return
        if task._open:
            raise EncodeError("calls that were begun by `enter` are open", f"task {tid}")
        if task._session().program != self._program.path:
            raise EncodeError(f"the task runs another program, {task._session().program}", f"task {tid}")
        task._check_times(times)

    def _write_sched(self, columns: dict[str, Any], rows: int) -> None:
        """Append scheduler events to the files of CPUs."""
        self._check_declarable()
        kinds = _texts("kind", columns["kind"])
        names = _texts("name", columns["name"]) if "name" in columns else [None] * rows
        parents = _parents(columns.get("parent"), rows)
        encoded = []
        for cpu, chosen in _rows_of("cpu", columns["cpu"]):
            fields = {name: integers(name, columns[name])[chosen] for name in ("time", "pid", "tid")}
            indices = chosen.tolist()
            raw = perf.encode(
                **fields, kind=[kinds[row] for row in indices], parent=parents[chosen],
                comm=[names[row] for row in indices], order=self.order,
            )  # fmt: skip
            self._check_perf_times(cpu, fields["time"])
            encoded.append((cpu, int(fields["time"][-1]), raw))
        for cpu, last, raw in encoded:
            self._perf.setdefault(cpu, bytearray()).extend(raw)
            self._perf_times[cpu] = last

    def _write_messages(self, columns: dict[str, Any], rows: int) -> None:
        self._check_declarable()
        times = integers("time", columns["time"])
        rows_of = zip(times.tolist(), _texts("text", columns["text"]), strict=True)
        last = self._messages[-1][0] if self._messages else 0
        checked = []
        for time, text in rows_of:
            checked.append(_checked_message(time, text, last))
            last = time
        self._messages += checked

    # ---- calls and events

    def function(
        self,
        name: str,
        *,
        arguments: str = "",
        returns: str = "",
        library: bool = False,
        module: str = "",
        source: str = "",
        line: int | None = None,
    ) -> NewFunction:
        """Declare a function, or return the one that was declared before.

        Args:
            name: the name, mangled or not.
            arguments: the specification of the arguments, such as `arg1/i32,arg2/s,fparg1/64`.
            returns: the specification of the return value, such as `retval/x64`.
            library: whether it is a library function, which `uftrace --no-libcall` omits.
            module: the path of its module; the program if empty.  A module that is neither a program nor loaded by
                `TaskWriter.dlopen` is in memory from the beginning, with every program.
            source: the path of its source file, if a line is given.
            line: its line in the source file, or None.

        Raises:
            EncodeError: the name, the place or a specification cannot be written, or differs from that of the function.
            ValueError: the writer is closed.
        """
        self._check_declarable()
        if not isinstance(library, bool):
            raise EncodeError(f"{library!r} is neither True nor False", "library")
        if line is not None or source:
            check_text(name, "name")
            self._program.check_place(name, check_text(module, "module"), source, line or 0)
        function = self._program.function(name, arguments, returns, library=library, module=module)
        if line is not None:
            self._program.add_place(function, source, line)
        return function

    def variable(self, name: str, size: int = 8, *, module: str = "") -> NewVariable:
        """Declare a variable, whose changes the event `watch:var` reports, or return the one that was declared before.

        Args:
            name: the name.
            size: the size in bytes, 1 to 8.
            module: the path of its module; the program if empty.

        Raises:
            EncodeError: the name cannot be written, or the variable has another size.
            ValueError: the writer is closed.
        """
        self._check_declarable()
        return self._program.variable(name, size, module)

    def enum(self, name: str, values: Mapping[str, int]) -> None:
        """Declare an enumeration, for values with a specification such as `arg1/e:color`.

        Args:
            name: the name, an identifier of C.
            values: the values by their names.

        Raises:
            EncodeError: a name or a value cannot be written, or the enumeration has other values.
            ValueError: the writer is closed.
        """
        self._check_declarable()
        self._program.enum(name, values)

    def task(self, tid: int, pid: int | None = None) -> TaskWriter:
        """Return the writer of the calls of a task.

        Args:
            tid: the number of the task.
            pid: the process, if the task is a thread of it; the task is a process if None.

        Raises:
            EncodeError: the task was declared with another process, or a number is not positive.
            ValueError: the writer is closed.
        """
        self._check_declarable()
        pid = self._checked_pid(tid, pid)
        task = self._tasks.get(tid)
        if task is None:
            task = self._tasks[tid] = TaskWriter(self, tid, pid)
            if pid not in self._processes:
                self._processes[pid] = self._added_session(pid, self._program.path, None)
        return task

    def _checked_pid(self, tid: int, pid: int | None) -> int:
        """Return the process of a task that is declared or can be."""
        _check_task(tid)
        task = self._tasks.get(tid)
        if pid is None:
            return tid if task is None else task.pid
        _check_task(pid)
        if task is not None and pid != task.pid:
            raise EncodeError(f"task {tid} belongs to process {task.pid}", "task")
        return pid

    def event_id(self, name: str) -> int:
        """Return the number of an event, which is declared if it is new.

        Args:
            name: the name of an event of uftrace, such as `read:proc/statm`, or of a user event, such as
                `provider:name`.

        Raises:
            EncodeError: the name cannot be written.
            ValueError: the writer is closed.
        """
        number = self._event_number(name)
        if number >= EventId.FIRST_USER:
            self._events[name] = number
        return number

    def _event_number(self, name: str) -> int:
        """Return the number of an event, or that which it will have when it is declared."""
        self._check_declarable()
        if not check_text(name, "event"):
            raise EncodeError("the name of an event is empty", "event")
        return EVENT_IDS.get(name) or self._events.get(name) or EventId.FIRST_USER + len(self._events)

    def message(self, time: int, text: str) -> None:
        """Append a message to `extern.dat`; messages must be ordered by time.

        Args:
            time: nanoseconds.
            text: the message, a single line of at most 1,000 bytes that does not begin with white space.

        Raises:
            EncodeError: the time or the text cannot be written, or time goes back.
            ValueError: the writer is closed.
        """
        self._check_declarable()
        self._messages.append(_checked_message(time, text, self._messages[-1][0] if self._messages else 0))

    # ---- the scheduler and the kernel

    def sched(self, cpu: int, event: perf.PerfEvent) -> None:
        """Append a scheduler event of a CPU; the events of a CPU must be ordered by time.

        Raises:
            EncodeError: a value does not fit, or time goes back.
            ValueError: the writer is closed.
        """
        self._check_declarable()
        cpu = checked_integer(cpu, "cpu", 0, MAX_CPU)
        if not isinstance(event, perf.PerfEvent):
            raise EncodeError(f"{event!r} is not a scheduler event", "event")
        raw = perf.build(event, self.order)
        time = event.time if event.raw else checked_integer(event.time, "time", 0, MAX_TIME)
        self._check_perf_times(cpu, np.array([time], np.uint64))
        self._perf.setdefault(cpu, bytearray()).extend(raw)
        self._perf_times[cpu] = time

    def _check_perf_times(self, cpu: int, times: Array) -> None:
        """Raise an error if the times of scheduler events of a CPU are not ordered."""
        checked_integer(cpu, "cpu", 0, MAX_CPU)
        if int(times[0]) < self._perf_times.get(cpu, 0) or bool((times[1:] < times[:-1]).any()):
            raise EncodeError("time goes back", f"CPU {cpu}")

    def kernel_format(self, system: str, description: str) -> str:
        """Describe a kernel event that `kernel_event` does not know, and return its name with the subsystem.

        Args:
            system: the subsystem, such as `sched`.
            description: the content of the event's file `format` in tracefs.

        Raises:
            EncodeError: it is not a description, or the name or the id belongs to another event.
            ValueError: the writer is closed.
        """
        self._check_declarable()
        return self._kernel.describe(system, description)

    def kernel_event(self, cpu: int, time: int, tid: int, event: str, **values: Any) -> None:
        """Append a kernel event of a CPU; the kernel events of a CPU must be ordered by time.

        Args:
            cpu: the CPU.
            time: nanoseconds.
            tid: the task that was running.
            event: the name, such as `sched:sched_switch`; one of `fxtio.uftrace.tracefs.DESCRIPTIONS`, or described by
                `kernel_format`.
            values: the values by field; the others are 0.

        Raises:
            EncodeError: the event or a field is unknown, a value does not fit, or time goes back.
            ValueError: the writer is closed.
        """
        self._check_declarable()
        self._kernel.event(cpu, time, tid, event, values)

    def kernel_enter(self, cpu: int, time: int, tid: int, function: str) -> None:
        """Begin a call of a function of the kernel.

        Args:
            cpu: the CPU.
            time: nanoseconds.
            tid: the task.
            function: the name of the function.

        Raises:
            EncodeError: a value does not fit, or time goes back.
            ValueError: the writer is closed.
        """
        self._check_declarable()
        self._kernel.enter(cpu, time, tid, function)

    def kernel_leave(self, cpu: int, time: int, tid: int) -> None:
        """End the innermost call of a function of the kernel.

        Args:
            cpu: the CPU, which may be another one than at the entry.
            time: nanoseconds.
            tid: the task.

        Raises:
            EncodeError: no call is open, a value does not fit, or time goes back.
            ValueError: the writer is closed.
        """
        self._check_declarable()
        self._kernel.leave(cpu, time, tid)

    # ---- sessions

    def _session_of(self, pid: int) -> NewSession:
        """Return the session of a process that is declared."""
        return self._processes[pid]

    def _added_session(self, pid: int, program: str, time: int | None) -> NewSession:
        session = NewSession(pid, f"{len(self._sessions) + 1:0{_SID_DIGITS}x}", program, time)
        self._sessions.append(session)
        return session

    def _new_session(self, pid: int, program: str, time: int) -> NewSession:
        """Add the session of a process that called exec.

        Raises:
            EncodeError: the program cannot be written; nothing was added.
        """
        self._program.add_module(program, "program")
        session = self._processes[pid] = self._added_session(pid, program, time)
        return session

    def _forked(self, tid: int, session: NewSession) -> TaskWriter:
        """Declare a process that is a copy of one in a session.

        Raises:
            EncodeError: the task exists already.
        """
        self._check_declarable()
        _check_task(tid)
        if tid in self._tasks or tid in self._processes:
            raise EncodeError(f"task {tid} exists already", "fork")
        self._processes[tid] = session
        task = self._tasks[tid] = TaskWriter(self, tid, tid)
        return task

    def _loaded(self, library: str) -> int:
        """Return the address of a library that is loaded.

        Raises:
            EncodeError: the path cannot be written, or the library is in memory from the beginning.
        """
        return self._program.add_module(library, "loaded").base

    # ---- the small files

    def _close(self) -> None:
        for tid in self._buffers:
            self._flush(tid)
        for name, content in (self._small_files() | self._files).items():
            with open(self.path / name, "wb") as file:
                if isinstance(content, StoredFile):
                    file.writelines(content.blocks())
                else:
                    file.write(_bytes_of(content))

    def _small_files(self) -> dict[str, Any]:
        """Return the small files that were not given as a whole."""
        files: dict[str, Any] = {}
        if not self._is_copy:
            for tid in self._buffers:
                if 0 < tid <= MAX_TASK:
                    self.task(tid)  # records that were put need a session, too
        if INFO_FILE not in self._files and not self._is_copy:
            files[INFO_FILE] = self._info_file()
        if self._tasks:
            files[TEXT] = self._task_file()
            files |= {map_name(session.sid): self._program.map_file(session.program) for session in self._sessions}
            files |= self._program.symbol_files(sized=self._sized_symbols)
        if self._events:
            files[NAMES_FILE] = EventsFile.of({number: name for name, number in self._events.items()})
        if self._messages:
            files[EXTERN_FILE] = ExternFile.of(self._messages)
        if self._kernel:
            files |= self._kernel.files()
        return files | {f"perf-cpu{cpu}.dat": raw for cpu, raw in self._perf.items()}

    def _task_file(self) -> TaskFile:
        """Return the task file; sessions and tasks begin with the first record, since earlier records have no names."""
        events: list[TaskEvent] = []
        forked = {task.tid for task in self._tasks.values() if task.forked is not None}
        for session in self._sessions:
            if session.time is None:
                events += self._process_events(session)
        for task in self._tasks.values():
            if task.forked is not None:
                events.append(task.forked)
            elif task.pid in forked and self._first_session(task).pid != task.pid:
                events.append(Task(task.first or 0, task.tid, task.pid))
        for session in self._sessions:
            if session.time is not None:
                events.append(Session(session.time, session.pid, session.sid, session.program))
                events.append(Task(session.time, session.pid, session.pid))
                events += [Task(task.first or 0, task.tid, task.pid) for task in self._threads_of(session)]
            events += session.loads
        return TaskFile([*events, ""], events)

    def _process_events(self, session: NewSession) -> list[TaskEvent]:
        """Return the beginnings of a session and of its tasks."""
        leader, threads = self._tasks.get(session.pid), self._threads_of(session)
        tasks = [*([leader] if leader is not None else []), *threads]
        begin = min((task.first or 0 for task in tasks), default=0)
        lines = [Task(begin if leader is None else leader.first or 0, session.pid, session.pid)]
        lines += [Task(task.first or 0, task.tid, task.pid) for task in threads]
        return [Session(begin, session.pid, session.sid, session.program), *lines]

    def _threads_of(self, session: NewSession) -> list[TaskWriter]:
        """Return the threads of a process that began in a session, by the times of their first records."""
        threads = [task for task in self._tasks.values() if task.pid == session.pid != task.tid]
        began = [task for task in threads if self._first_session(task) is session]
        return sorted(began, key=lambda task: task.first or 0)

    def _first_session(self, task: TaskWriter) -> NewSession:
        """Return the session in which a task began; that of its process if it has no records."""
        return task.sessions[0] if task.sessions else self._processes[task.pid]

    def _info_file(self) -> InfoFile:
        info = InfoFile(order=self.order, word_class=self._word_class)
        info.features = Feature.TASK_SESSION | Feature.SYM_REL_ADDR | Feature.MAX_STACK
        program, tids = self._program, sorted(self._buffers)
        if program.specs:
            info.features |= Feature.ARGUMENT | Feature.RETVAL
        if program.enums:
            info.features |= Feature.AUTO_ARGS
        if program.has_places:
            info.features |= Feature.DEBUG_INFO
        if self._kernel:
            info.features |= Feature.KERNEL
        if self._events or self._kernel:
            info.features |= Feature.EVENT
        if self._perf:
            info.features |= Feature.PERF_EVENT
        if self._sized_symbols:
            info.features |= Feature.SYM_SIZE
        info.set_block(InfoBit.EXE_NAME, f"exename:{program.path}")
        info.set_block(InfoBit.CMDLINE, f"cmdline:{self._command}")
        if program.needs_registers:
            info.set_block(
                InfoBit.CPUINFO, "cpuinfo:lines=2", "cpuinfo:nr_cpus=1 / 1 (online/possible)", "cpuinfo:desc="
            )
        listed = ",".join(map(str, tids))
        info.set_block(InfoBit.TASKINFO, "taskinfo:lines=2", f"taskinfo:nr_tid={len(tids)}", f"taskinfo:tids={listed}")
        if program.specs or program.enums:
            info.set_block(InfoBit.ARG_SPEC, *program.spec_lines())
        elapsed = max((task.last for task in self._tasks.values()), default=0) - min(
            (task.first or 0 for task in self._tasks.values()), default=0
        )
        elapsed_line = f"elapsed_time:{elapsed // NS}.{elapsed % NS:09d} sec"
        info.set_block(InfoBit.RECORD_DATE, f"record_date:{self._recorded_at}", elapsed_line)
        info.set_block(InfoBit.PATTERN_TYPE, "pattern_type:simple")
        return info


def _is_task_file(name: str) -> bool:
    """Return whether a file has the name of the records of a task."""
    stem = name.removesuffix(".dat")
    return stem != name and stem.isascii() and stem.isdigit() and len(stem) <= 10 and str(int(stem)) == stem


def _bytes_of(content: Any) -> bytes:
    """Return the bytes of a parsed file."""
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    if not isinstance(content, ParsedFile):
        raise EncodeError(f"{type(content).__name__} is neither bytes nor a file of a trace", "content")
    try:
        raw: bytes = content.to_bytes()
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise EncodeError(f"the file cannot be written: {error}", type(content).__name__) from None
    return raw


def _checked_message(time: Any, text: Any, last: int) -> tuple[int, str]:
    """Return a message that can follow one at the time `last`."""
    time = checked_integer(time, "time", 0, MAX_TIME)
    if len(text_bytes(text, "text")) > _MAX_MESSAGE or check_text(text, "text")[:1].isspace():
        raise EncodeError(f"the text begins with white space or has more than {_MAX_MESSAGE:,} bytes", "text")
    if time < last:
        raise EncodeError(f"time goes back, from {last} to {time}", "message")
    return time, text


def _check_task(tid: Any) -> None:
    """Raise EncodeError unless it is the number of a task, from which the name of a file is made."""
    if type(tid) is not int or not 0 < tid <= MAX_TASK:
        raise EncodeError(f"{tid!r} is not a number from 1 to {MAX_TASK}", "tid")


def _rows_of(name: str, column: Any) -> list[tuple[int, Array]]:
    """Return the distinct values of a column of non-negative integers, and the rows of each."""
    groups = list(rows_by_value(integers(name, column)))
    if groups and groups[0][0] < 0:
        raise EncodeError("a number is negative", name)
    return groups


def _parents(column: Any | None, rows: int) -> Array:
    """Return the tasks that created others, 0 where there is none."""
    if column is None:
        return np.zeros(rows, np.int64)
    if isinstance(column, Optional):
        return np.where(column.present, integers("parent", column.values), 0)
    return integers("parent", column)


def _texts(name: str, column: Any) -> list[str | None]:
    if isinstance(column, Optional) and not column.present.any():
        return [None] * len(column)
    if not isinstance(column, Categories):
        raise EncodeError("the values are not texts", name)
    return column.to_list()
