"""The writer of a data directory: exact (records and files as they are), and friendly (functions, calls, events).

Records go to the files of their tasks as they come, in blocks.  The small files are made in the end of what was said
until then, except those that were given whole.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fxtio.errors import EncodeError
from fxtio.uftrace import arguments, perf
from fxtio.uftrace.bulk import packed
from fxtio.uftrace.directory import Stored, is_plain
from fxtio.uftrace.enums import EventId, WordClass
from fxtio.uftrace.events import EXTERN_FILE, NAMES_FILE, EventsFile, ExternFile, payload_of
from fxtio.uftrace.image import Image, Target
from fxtio.uftrace.info import InfoFile
from fxtio.uftrace.layout import DEPTHS, Feature, InfoBit
from fxtio.uftrace.records import Entry, Event, Exit, Lost, encode
from fxtio.uftrace.sessions import map_name
from fxtio.uftrace.tasks import NS, TEXT, Fact, Fork, Session, Task, TaskFile, check_name

if TYPE_CHECKING:
    from fxtio.uftrace.reader import UftraceTrace

Array = np.ndarray[Any, Any]
Order = Literal["little", "big"]

INFO = "info"
_HELD = 1 << 18
_SID = 16


class UftraceWriter:
    """Writes a data directory; a context manager.

    Args:
        target: the directory; made, and not there yet, or empty.
        program: the path of the program that the trace is of.
        command: the command line; that of the program unless given.
        order: the byte order of the records.
        word_class: 64, or 32 for a program with pointers of 4 bytes.
        sized_symbols: write symbols with sizes; uftrace before 0.14 cannot read them.
        recorded_at: when it was recorded, in the words of `date`.

    Raises:
        FileExistsError: there is something already.
        OSError: it cannot be made.
    """

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
        self.position = 0
        self._word_class = WordClass.BITS32 if word_class == 32 else WordClass.BITS64
        self._image = Image(program, word_class // 8)
        self._command = check_name(program if command is None else command, "command")
        self._sized = sized_symbols
        self._recorded_at = check_name(recorded_at, "recorded_at")
        self._tasks: dict[int, TaskWriter] = {}
        self._raw: dict[int, bytearray] = {}
        self._files: dict[str, Any] = {}
        self._events: dict[str, int] = {}
        self._messages: list[tuple[int, str]] = []
        self._perf: dict[int, list[perf.PerfEvent]] = {}
        self._without_info = False  # it is the copy of a directory that has none
        self._closed = False
        self.path.mkdir(parents=True, exist_ok=True)
        if next(self.path.iterdir(), None) is not None:
            raise FileExistsError(f"{self.path} is not empty")

    def __enter__(self) -> UftraceWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.close()

    # ---- exact

    def put(self, tid: int, record: Any) -> None:
        """Append a record to a task's file, as it is.

        Raises:
            EncodeError: the format cannot say it.
        """
        self._append(tid, encode(record, self.order))

    def file(self, name: str, content: Any) -> None:
        """A file of the directory as a whole: bytes, or what `UftraceTrace.part` gives.

        It takes the place of the one that the writer would have made.

        Raises:
            EncodeError: this is no name of a file.
        """
        if not is_plain(name):
            raise EncodeError(f"{name!r} is no name of a file in a directory")
        self._files[name] = content

    def copy(self, trace: UftraceTrace) -> None:
        """Copy every file and every record of a trace, byte for byte."""
        self.order = trace.header.order
        self._without_info = INFO not in trace.directory
        records = {f"{tid}.dat": tid for tid in trace.tids}
        for name in trace.directory.names:
            if name not in records:
                self.file(name, trace.part(name))
                continue
            self._raw.setdefault(records[name], bytearray())
            for record in trace.records(records[name]):
                self.put(records[name], record)

    def _append(self, tid: int, raw: bytes | memoryview) -> None:
        held = self._raw.setdefault(tid, bytearray())
        held += raw
        self.position += len(raw)
        if len(held) > _HELD:
            self._flush(tid)

    def _flush(self, tid: int) -> None:
        """Files are opened for each block: there may be more tasks than a process may open files."""
        with open(self.path / f"{tid}.dat", "ab") as file:
            file.write(self._raw[tid])
        self._raw[tid].clear()

    # ---- friendly

    def function(
        self, name: str, *, arguments: str = "", returns: str = "", library: bool = False, module: str = ""
    ) -> Target:
        """Declare a function, or find it again.

        Args:
            name: its name, mangled or not.
            arguments: what each call of it passes, such as `arg1/i32,arg2/s,fparg1/64`.
            returns: what it returns, such as `retval/x64`.
            library: whether it is one that `uftrace --no-libcall` leaves out.
            module: the path of its module, if that is not the program.

        Raises:
            EncodeError: the name or a specification cannot be written, or it was declared otherwise before.
        """
        return self._image.function(name, arguments, returns, "P" if library else "T", module)

    def task(self, tid: int, pid: int | None = None) -> TaskWriter:
        """A task to write calls to.

        Args:
            tid: its number.
            pid: its process, where it is a thread of it; else it is a process.

        Raises:
            EncodeError: it is known with another process.
        """
        known = self._tasks.get(tid)
        if known is None:
            if tid <= 0 or (pid is not None and pid <= 0):
                raise EncodeError("tasks and processes are numbered from 1 on", "task")
            known = self._tasks[tid] = TaskWriter(self, tid, tid if pid is None else pid)
        elif pid is not None and pid != known.pid:
            raise EncodeError(f"task {tid} belongs to process {known.pid}", "task")
        return known

    def event_id(self, name: str) -> int:
        """The number of a user's event, such as `provider:name`; new or known.

        Raises:
            EncodeError: the name cannot be written.
        """
        if name not in self._events:
            self._events[check_name(name, "event")] = EventId.FIRST_USER + len(self._events)
        return self._events[name]

    def message(self, time: int, text: str) -> None:
        """A message for the file of external data; in the order of time."""
        self._messages.append((time, check_name(text, "message")))

    def sched(self, cpu: int, event: perf.PerfEvent) -> None:
        """Something that the scheduler did on a CPU; in the order of time."""
        self._perf.setdefault(cpu, []).append(event)

    # ---- the end

    def close(self) -> None:
        """Write what is held, and the small files."""
        if self._closed:
            return
        self._closed = True
        for tid in self._raw:
            self._flush(tid)
        for name, content in (self._made() | self._files).items():
            with open(self.path / name, "wb") as file:
                if isinstance(content, Stored):
                    file.writelines(content.pieces())
                else:
                    file.write(content if isinstance(content, bytes) else content.to_bytes())

    def _made(self) -> dict[str, Any]:
        """The small files that nobody gave."""
        made: dict[str, Any] = {}
        if INFO not in self._files and not self._without_info:
            made[INFO] = self._info()
        if self._tasks:
            sids = {pid: f"{number:0{_SID}x}" for number, pid in enumerate(self._pids(), 1)}
            made[TEXT] = self._task_file(sids)
            made |= {map_name(sid): self._image.map_file() for sid in sids.values()}
            made |= self._image.symbol_files(sized=self._sized)
        if self._events:
            made[NAMES_FILE] = EventsFile.of({number: name for name, number in self._events.items()})
        if self._messages:
            made[EXTERN_FILE] = ExternFile.of(self._messages)
        for cpu, events in self._perf.items():
            made[f"perf-cpu{cpu}.dat"] = b"".join([perf.build(event, self.order) for event in events])
        return made

    def _pids(self) -> list[int]:
        forked = {task.pid for task in self._tasks.values() if task.forked is not None}
        return list(dict.fromkeys(task.pid for task in self._tasks.values() if task.pid not in forked))

    def _task_file(self, sids: dict[int, str]) -> TaskFile:
        """Sessions and tasks begin no later than the first record: older ones would be without names."""
        firsts = {tid: task.first or 0 for tid, task in self._tasks.items()}
        facts: list[Fact] = []
        for pid, sid in sids.items():
            mine = [tid for tid, task in self._tasks.items() if task.pid == pid]
            begin = min(firsts[tid] for tid in mine)
            facts.append(Session(begin, pid, sid, self._image.program))
            if pid not in mine:
                facts.append(Task(begin, pid, pid))
            facts += [Task(firsts[tid], tid, pid) for tid in sorted(mine, key=lambda tid: (tid != pid, firsts[tid]))]
        for task in self._tasks.values():
            if task.forked is not None:
                facts.append(task.forked)
            elif task.pid not in sids:
                facts.append(Task(firsts[task.tid], task.tid, task.pid))
        return TaskFile([*facts, ""], facts)

    def _info(self) -> InfoFile:
        info = InfoFile(order=self.order, word_class=self._word_class)
        info.features = Feature.TASK_SESSION | Feature.SYM_REL_ADDR | Feature.MAX_STACK
        image, tids = self._image, sorted({*self._tasks, *self._raw})
        if image.specs:
            info.features |= Feature.ARGUMENT | Feature.RETVAL
        if self._events:
            info.features |= Feature.EVENT
        if self._perf:
            info.features |= Feature.PERF_EVENT
        if self._sized:
            info.features |= Feature.SYM_SIZE
        info.set_block(InfoBit.EXE_NAME, f"exename:{image.program}")
        info.set_block(InfoBit.CMDLINE, f"cmdline:{self._command}")
        if image.needs_registers:
            info.set_block(
                InfoBit.CPUINFO, "cpuinfo:lines=2", "cpuinfo:nr_cpus=1 / 1 (online/possible)", "cpuinfo:desc="
            )
        listed = ",".join(map(str, tids))
        info.set_block(InfoBit.TASKINFO, "taskinfo:lines=2", f"taskinfo:nr_tid={len(tids)}", f"taskinfo:tids={listed}")
        if image.specs:
            info.set_block(InfoBit.ARG_SPEC, *image.spec_lines())
        elapsed = max((task.last for task in self._tasks.values()), default=0) - min(
            (task.first or 0 for task in self._tasks.values()), default=0
        )
        told = f"elapsed_time:{elapsed // NS}.{elapsed % NS:09d} sec"
        info.set_block(InfoBit.RECORD_DATE, f"record_date:{self._recorded_at}", told)
        info.set_block(InfoBit.PATTERN_TYPE, "pattern_type:simple")
        return info


class TaskWriter:
    """Writes the calls of one task; see `UftraceWriter.task`.

    Attributes:
        tid: the task.
        pid: its process.
        first: the time of its first record, or None.
        last: the time of its last record.
        forked: how it began, where it is the copy of another process.
    """

    def __init__(self, writer: UftraceWriter, tid: int, pid: int) -> None:
        self.tid = tid
        self.pid = pid
        self.first: int | None = None
        self.last = 0
        self.forked: Fork | None = None
        self._writer = writer
        self._open: list[Target] = []

    def enter(self, function: Target | str, time: int, *values: Any) -> None:
        """A call begins.

        Args:
            function: what `UftraceWriter.function` gives, or the name of a function without arguments.
            time: nanoseconds.
            values: the arguments, as many as are declared, or none of them.

        Raises:
            EncodeError: a value does not fit, or time goes back.
        """
        target = self._writer.function(function) if isinstance(function, str) else function
        if len(self._open) >= DEPTHS:
            raise EncodeError(f"calls are nested deeper than {DEPTHS}", target.name)
        payload = arguments.encode(target.arguments, values, self._writer.order) if values else None
        self._put(time, Entry(time, len(self._open), target.address, payload))
        self._open.append(target)

    def leave(self, time: int, value: Any = ...) -> None:
        """The innermost call ends.

        Args:
            time: nanoseconds.
            value: what it returns, where that was declared.

        Raises:
            EncodeError: nothing is open, the value does not fit, or time goes back.
        """
        if not self._open:
            raise EncodeError("no call is open", f"task {self.tid}")
        target = self._open[-1]
        payload = None if value is ... else arguments.encode(target.returns, [value], self._writer.order)
        self._put(time, Exit(time, len(self._open) - 1, target.address, payload))
        self._open.pop()

    def fork(self, tid: int, time: int) -> TaskWriter:
        """A process begins as a copy of this one; the calls that are open here are open there, too.

        Args:
            tid: the new process.
            time: nanoseconds.

        Raises:
            EncodeError: there is such a task already, or time goes back.
        """
        if tid in self._writer._tasks:
            raise EncodeError(f"task {tid} is there already", "fork")
        if time < self.last:
            raise EncodeError(f"time goes back, from {self.last} to {time}", f"task {self.tid}")
        child = self._writer.task(tid)
        child.forked = Fork(time, tid, self.pid)
        child.first = child.last = time
        child._open = list(self._open)
        return child

    def event(self, event: str | int, time: int, data: bytes | None = None) -> None:
        """Something happens.

        Args:
            event: the name of a user's event, such as `provider:name`, or a number of uftrace's own (`EventId`).
            time: nanoseconds.
            data: of an event that has any; readers refuse data of events that they do not know.

        Raises:
            EncodeError: the name cannot be written, or time goes back.
        """
        number = self._writer.event_id(event) if isinstance(event, str) else event
        self._put(time, Event(time, 0, number, payload_of(data, self._writer.order)))

    def lost(self, count: int) -> None:
        """Some records are missing here."""
        self._writer.put(self.tid, Lost(0, 0, count))

    def write_records(
        self,
        *,
        type: Any,
        time: Array,
        depth: Array,
        function: tuple[Sequence[Target], Array],
        payload: Sequence[bytes | None] | None = None,
    ) -> None:
        """Append many records at once.

        Args:
            type: 0 for an entry, 1 for an exit, for each record (`RecordType`).
            time: nanoseconds, ascending.
            depth: how many calls are around each.
            function: functions, and for each record which of them.
            payload: whole words for each record, or None; see `fxtio.uftrace.arguments.encode`.

        Raises:
            EncodeError: a value does not fit, or time goes back; nothing is written.
        """
        if not len(time):
            return
        times = np.asarray(time)
        if int(times[0]) < self.last or bool((times[1:] < times[:-1]).any()):
            raise EncodeError("time goes back", f"task {self.tid}")
        targets, codes = function
        address = np.array([target.address for target in targets], np.uint64)[codes]
        raw = packed(type, times, depth, address, payload, self._writer.order)
        self._writer._append(self.tid, raw)
        self.first = int(times[0]) if self.first is None else self.first
        self.last = int(times[-1])

    def _put(self, time: int, record: Any) -> None:
        if time < self.last:
            raise EncodeError(f"time goes back, from {self.last} to {time}", f"task {self.tid}")
        self._writer.put(self.tid, record)
        self.first = time if self.first is None else self.first
        self.last = time
