"""The writer of a data directory: exact (records and files as they are), by columns, and by calls and events.

Records go to the files of their tasks in blocks.  The small files are written at the end, from the declared functions
and tasks, except those that were given as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from fxtio.errors import EncodeError
from fxtio.io.writing import TraceWriter
from fxtio.table import Bytes, Categories, Optional, WritableTable
from fxtio.uftrace import payloads, perf
from fxtio.uftrace.directory import StoredFile, is_file_name
from fxtio.uftrace.encode import CallOrder, call_states, checked_depth, integers, record_bytes, type_codes, wrapped
from fxtio.uftrace.enums import EventId, RecordType, WordClass
from fxtio.uftrace.events import EXTERN_FILE, NAMES_FILE, EventsFile, ExternFile, payload_of
from fxtio.uftrace.info import INFO_FILE, InfoFile
from fxtio.uftrace.layout import DEPTHS, Feature, InfoBit
from fxtio.uftrace.program import FUNCTION_SIZE, NewFunction, Program
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import Event, FunctionEntry, FunctionExit, Lost, encode
from fxtio.uftrace.state import map_name
from fxtio.uftrace.tasks import NS, TEXT, Fork, Session, Task, TaskEvent, TaskFile, check_text

Array = np.ndarray[Any, Any]
Order = Literal["little", "big"]

_BUFFERED = 1 << 18
_SID_DIGITS = 16

MAX_TASK = 2**31 - 1
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

    Raises:
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
        self.path = Path(target)
        self.order: Order = order
        self._position = 0
        self._word_class = WordClass.BITS32 if word_class == 32 else WordClass.BITS64
        self._program = Program(program, word_class // 8)
        self._command = check_text(program if command is None else command, "command")
        self._sized_symbols = sized_symbols
        self._recorded_at = check_text(recorded_at, "recorded_at")
        self._tasks: dict[int, TaskWriter] = {}
        self._buffers: dict[int, bytearray] = {}
        self._files: dict[str, Any] = {}
        self._events: dict[str, int] = {}
        self._messages: list[tuple[int, str]] = []
        self._perf: dict[int, bytearray] = {}
        self._is_copy = False
        self._without_info = False  # this is the copy of a directory without an info file
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
        self._append(tid, encode(record, self.order))

    def file(self, name: str, content: Any) -> None:
        """Write a file of the directory as a whole, in place of the file that the writer would make.

        Args:
            name: the name of the file.
            content: bytes, or the result of `UftraceTrace.file`.

        Raises:
            EncodeError: the name is not the name of a file in a directory.
            ValueError: the writer is closed.
        """
        self._check_open()
        if not is_file_name(name):
            raise EncodeError(f"{name!r} is not the name of a file in a directory")
        self._files[name] = content

    def _copy(self, trace: UftraceTrace) -> None:
        if self._position or self._tasks or self._files or self._events or self._messages or self._perf:
            raise EncodeError("a trace can be copied only if nothing was written before", "copy")
        self.order = trace.info_file.order
        self._without_info = INFO_FILE not in trace.directory
        tids = {f"{tid}.dat": tid for tid in trace.tids}
        for name in trace.directory.names:
            if name not in tids:
                self.file(name, trace.file(name))
                continue
            self._buffers.setdefault(tids[name], bytearray())
            for record in trace.records(resolve=False, tid=tids[name]):
                self._append(tids[name], encode(record, self.order))
        self._is_copy = True

    def _check_declarable(self) -> None:
        """Raise an error if nothing can be declared: the small files of a copy belong to the copied trace."""
        self._check_open()
        if self._is_copy:
            raise EncodeError("a copy takes no further tasks, functions and events; records can be put", "copy")

    def _append(self, tid: int, raw: bytes | memoryview) -> None:
        buffer = self._buffers.setdefault(tid, bytearray())
        buffer += raw
        self._position += len(raw)
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
            encoded.append((self.task(tid), integer["time"][kind[chosen] != RecordType.LOST], raw))
        for task, times, raw in encoded:
            task._append(times, raw)

    def _write_slices(self, columns: dict[str, Any], rows: int) -> None:
        """Write all calls of some tasks; functions that are new are declared."""
        names = columns["name"]
        if not isinstance(names, Categories) or bool((names.codes < 0).any()):
            raise EncodeError("a call has no name", "name")
        start, duration = (integers(name, columns[name]) for name in ("start", "duration"))
        depth = checked_depth(columns["depth"], FUNCTION_SIZE)
        if int(duration.min()) < 0:
            raise EncodeError("a duration is negative", "duration")
        if max(int(start.max()), int(duration.max()), int(start.max()) + int(duration.max())) >= 2**63:
            raise EncodeError("the end of a call does not fit in 63 bits", "duration")
        state = call_states(columns.get("state"), rows)
        used = np.unique(names.codes)
        address = np.zeros(len(names.values), np.uint64)
        address[used] = [self.function(names.values[code]).address for code in used.tolist()]
        encoded = []
        for tid, chosen in _rows_of("tid", columns["tid"]):
            order = CallOrder(start[chosen], (start + duration)[chosen], depth[chosen], state[chosen])
            calls = chosen[order.row]
            wrapped_depth, wrapped_address = wrapped(depth[calls], address[names.codes[calls]])
            raw = record_bytes(order.kind, order.time, wrapped_depth, wrapped_address, None, self.order)
            task = self.task(tid)
            if task._open:
                raise EncodeError("calls that were begun by `enter` are open", f"task {tid}")
            task._check_times(order.time)
            encoded.append((task, order.time, raw))
        for task, times, raw in encoded:
            task._append(times, raw)

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
            encoded.append((cpu, raw))
        for cpu, raw in encoded:
            self._perf.setdefault(cpu, bytearray()).extend(raw)

    def _write_messages(self, columns: dict[str, Any], rows: int) -> None:
        self._check_declarable()
        times = integers("time", columns["time"])
        if int(times.min()) < 0:
            raise EncodeError("a time is negative", "time")
        texts = [check_text(text or "", "text") for text in _texts("text", columns["text"])]
        self._messages += zip(times.tolist(), texts, strict=True)

    # ---- calls and events

    def function(
        self, name: str, *, arguments: str = "", returns: str = "", library: bool = False, module: str = ""
    ) -> NewFunction:
        """Declare a function, or return the one that was declared before.

        Args:
            name: the name, mangled or not.
            arguments: the specification of the arguments, such as `arg1/i32,arg2/s,fparg1/64`.
            returns: the specification of the return value, such as `retval/x64`.
            library: whether it is a library function, which `uftrace --no-libcall` omits.
            module: the path of its module; the program if empty.

        Raises:
            EncodeError: the name or a specification cannot be written, or the function has other specifications.
            ValueError: the writer is closed.
        """
        self._check_declarable()
        return self._program.function(name, arguments, returns, "P" if library else "T", module)

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
        task = self._tasks.get(tid)
        if task is None:
            _check_task(tid)
            _check_task(tid if pid is None else pid)
            task = self._tasks[tid] = TaskWriter(self, tid, tid if pid is None else pid)
        elif pid is not None and pid != task.pid:
            raise EncodeError(f"task {tid} belongs to process {task.pid}", "task")
        return task

    def event_id(self, name: str) -> int:
        """Return the number of a user event such as `provider:name`, which is declared if it is new.

        Raises:
            EncodeError: the name cannot be written.
            ValueError: the writer is closed.
        """
        self._check_declarable()
        if name not in self._events:
            self._events[check_text(name, "event")] = EventId.FIRST_USER + len(self._events)
        return self._events[name]

    def message(self, time: int, text: str) -> None:
        """Append a message to `extern.dat`; messages must be ordered by time.

        Args:
            time: nanoseconds.
            text: the message, a single line.

        Raises:
            EncodeError: the text cannot be written.
            ValueError: the writer is closed.
        """
        self._check_declarable()
        self._messages.append((time, check_text(text, "message")))

    def sched(self, cpu: int, event: perf.PerfEvent) -> None:
        """Append a scheduler event of a CPU; the events of a CPU must be ordered by time.

        Raises:
            EncodeError: a value does not fit.
            ValueError: the writer is closed.
        """
        self._check_declarable()
        raw = perf.build(event, self.order)
        self._perf.setdefault(cpu, bytearray()).extend(raw)

    # ---- the small files

    def _close(self) -> None:
        for tid in self._buffers:
            self._flush(tid)
        for name, content in (self._small_files() | self._files).items():
            with open(self.path / name, "wb") as file:
                if isinstance(content, StoredFile):
                    file.writelines(content.blocks())
                else:
                    file.write(content if isinstance(content, bytes | bytearray) else content.to_bytes())

    def _small_files(self) -> dict[str, Any]:
        """Return the small files that were not given as a whole."""
        files: dict[str, Any] = {}
        if INFO_FILE not in self._files and not self._without_info:
            files[INFO_FILE] = self._info_file()
        if self._tasks:
            sids = {pid: f"{number:0{_SID_DIGITS}x}" for number, pid in enumerate(self._pids(), 1)}
            files[TEXT] = self._task_file(sids)
            files |= {map_name(sid): self._program.map_file() for sid in sids.values()}
            files |= self._program.symbol_files(sized=self._sized_symbols)
        if self._events:
            files[NAMES_FILE] = EventsFile.of({number: name for name, number in self._events.items()})
        if self._messages:
            files[EXTERN_FILE] = ExternFile.of(self._messages)
        return files | {f"perf-cpu{cpu}.dat": raw for cpu, raw in self._perf.items()}

    def _pids(self) -> list[int]:
        """Return the processes that are not forked from another one."""
        forked = {task.pid for task in self._tasks.values() if task.forked is not None}
        return list(dict.fromkeys(task.pid for task in self._tasks.values() if task.pid not in forked))

    def _task_file(self, sids: dict[int, str]) -> TaskFile:
        """Return the task file; sessions and tasks begin with the first record, since earlier records have no names."""
        firsts = {tid: task.first or 0 for tid, task in self._tasks.items()}
        events: list[TaskEvent] = []
        for pid, sid in sids.items():
            tids = [tid for tid, task in self._tasks.items() if task.pid == pid]
            begin = min(firsts[tid] for tid in tids)
            events.append(Session(begin, pid, sid, self._program.path))
            if pid not in tids:
                events.append(Task(begin, pid, pid))
            events += [Task(firsts[tid], tid, pid) for tid in sorted(tids, key=lambda tid: (tid != pid, firsts[tid]))]
        for task in self._tasks.values():
            if task.forked is not None:
                events.append(task.forked)
            elif task.pid not in sids:
                events.append(Task(firsts[task.tid], task.tid, task.pid))
        return TaskFile([*events, ""], events)

    def _info_file(self) -> InfoFile:
        info = InfoFile(order=self.order, word_class=self._word_class)
        info.features = Feature.TASK_SESSION | Feature.SYM_REL_ADDR | Feature.MAX_STACK
        program, tids = self._program, sorted({*self._tasks, *self._buffers})
        if program.specs:
            info.features |= Feature.ARGUMENT | Feature.RETVAL
        if self._events:
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
        if program.specs:
            info.set_block(InfoBit.ARG_SPEC, *program.spec_lines())
        elapsed = max((task.last for task in self._tasks.values()), default=0) - min(
            (task.first or 0 for task in self._tasks.values()), default=0
        )
        elapsed_line = f"elapsed_time:{elapsed // NS}.{elapsed % NS:09d} sec"
        info.set_block(InfoBit.RECORD_DATE, f"record_date:{self._recorded_at}", elapsed_line)
        info.set_block(InfoBit.PATTERN_TYPE, "pattern_type:simple")
        return info


def _check_task(tid: Any) -> None:
    """Raise EncodeError unless it is the number of a task, from which the name of a file is made."""
    if type(tid) is not int or not 0 < tid <= MAX_TASK:
        raise EncodeError(f"{tid!r} is not a number from 1 to {MAX_TASK}", "tid")


def _rows_of(name: str, column: Any) -> list[tuple[int, Array]]:
    """Return the distinct values of a column of non-negative integers, and the rows of each."""
    values = integers(name, column)
    distinct = np.unique(values).tolist()
    if distinct[0] < 0:
        raise EncodeError("a number is negative", name)
    return [(value, np.flatnonzero(values == value)) for value in distinct]


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


class TaskWriter:
    """Writes the calls of one task, see `UftraceWriter.task`.

    Attributes:
        tid: the task.
        pid: its process.
        first: the time of its first record in nanoseconds, or None.
        last: the time of its last record in nanoseconds.
        forked: the fork with which the task began, or None.
    """

    def __init__(self, writer: UftraceWriter, tid: int, pid: int) -> None:
        self.tid = tid
        self.pid = pid
        self.first: int | None = None
        self.last = 0
        self.forked: Fork | None = None
        self._writer = writer
        self._open: list[NewFunction] = []

    def enter(self, function: NewFunction | str, time: int, *values: Any) -> None:
        """Begin a call.

        Args:
            function: the result of `UftraceWriter.function`, or the name of a function without arguments.
            time: nanoseconds.
            values: all declared arguments, or none of them.

        Raises:
            EncodeError: a value does not fit, or time goes back.
            ValueError: the writer is closed.
        """
        self._writer._check_open()
        target = self._writer.function(function) if isinstance(function, str) else function
        if len(self._open) >= DEPTHS:
            raise EncodeError(f"calls are nested deeper than {DEPTHS}", target.name)
        payload = payloads.encode(target.arguments, values, self._writer.order) if values else None
        self._put(time, FunctionEntry(time, len(self._open), target.address, payload))
        self._open.append(target)

    def leave(self, time: int, value: Any = ...) -> None:
        """End the innermost call.

        Args:
            time: nanoseconds.
            value: the return value, if one is declared.

        Raises:
            EncodeError: no call is open, the value does not fit, or time goes back.
            ValueError: the writer is closed.
        """
        self._writer._check_open()
        if not self._open:
            raise EncodeError("no call is open", f"task {self.tid}")
        target = self._open[-1]
        payload = None if value is ... else payloads.encode(target.returns, [value], self._writer.order)
        self._put(time, FunctionExit(time, len(self._open) - 1, target.address, payload))
        self._open.pop()

    def fork(self, tid: int, time: int) -> TaskWriter:
        """Begin a process as a copy of this one; the open calls are open there, too.

        Args:
            tid: the new process.
            time: nanoseconds.

        Raises:
            EncodeError: the task exists already, or time goes back.
            ValueError: the writer is closed.
        """
        self._writer._check_open()
        if tid in self._writer._tasks:
            raise EncodeError(f"task {tid} exists already", "fork")
        self._check_time(time)
        child = self._writer.task(tid)
        child.forked = Fork(time, tid, self.pid)
        child.first = child.last = time
        child._open = list(self._open)
        return child

    def event(self, event: str | int, time: int, data: bytes | None = None) -> None:
        """Write an event.

        Args:
            event: the name of a user event, such as `provider:name`, or a number (`EventId`).
            time: nanoseconds.
            data: the data, if the event has any; uftrace refuses data of events that it does not know.

        Raises:
            EncodeError: the name cannot be written, or time goes back.
            ValueError: the writer is closed.
        """
        self._writer._check_open()
        number = self._writer.event_id(event) if isinstance(event, str) else event
        self._put(time, Event(time, 0, number, payload_of(data, self._writer.order)))

    def lost(self, count: int) -> None:
        """Write that a number of records is missing here.

        Raises:
            EncodeError: the number does not fit.
            ValueError: the writer is closed.
        """
        self._writer.put(Lost(0, 0, count), tid=self.tid)

    def write_records(
        self,
        *,
        type: Any,
        time: Array,
        depth: Array,
        function: tuple[Sequence[NewFunction], Array],
        payload: Sequence[bytes | None] | None = None,
    ) -> None:
        """Append many entry and exit records.

        Args:
            type: the type of each record: 0 for an entry, 1 for an exit (`RecordType`).
            time: nanoseconds, ascending.
            depth: the number of calls around each.
            function: functions, and the index of the function of each record.
            payload: the payload of each record, see `fxtio.uftrace.payloads.encode`, or None.

        Raises:
            EncodeError: a value does not fit, or time goes back; nothing was written.
            ValueError: the writer is closed.
        """
        self._writer._check_open()
        if not len(time):
            return
        times = np.asarray(time)
        self._check_times(times)
        functions, codes = function
        address = np.array([target.address for target in functions], np.uint64)[codes]
        self._append(times, record_bytes(type, times, depth, address, payload, self._writer.order))

    def _check_times(self, times: Array) -> None:
        if int(times[0]) < self.last or bool((times[1:] < times[:-1]).any()):
            raise EncodeError("time goes back", f"task {self.tid}")

    def _append(self, times: Array, raw: memoryview) -> None:
        self._writer._append(self.tid, raw)
        if len(times):
            self.first = int(times[0]) if self.first is None else self.first
            self.last = int(times[-1])

    def _check_time(self, time: int) -> None:
        if time < self.last:
            raise EncodeError(f"time goes back, from {self.last} to {time}", f"task {self.tid}")

    def _put(self, time: int, record: Any) -> None:
        self._check_time(time)
        self._writer.put(record, tid=self.tid)
        self.first = time if self.first is None else self.first
        self.last = time
