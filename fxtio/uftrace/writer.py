"""The writer of a data directory: exact (records and files as they are), by columns, and by calls and events.

Records go to the files of their tasks in blocks.  The small files are written at the end, from the declared functions
and tasks, except those that were given as a whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from fxtio.codec.generate import Order
from fxtio.errors import EncodeError
from fxtio.io.sink import names_if_full, refuse_url
from fxtio.io.writing import TraceWriter
from fxtio.shared_folders import opener
from fxtio.table import WritableTable
from fxtio.uftrace import perf, table_writer
from fxtio.uftrace.declarations import Declarations, NewFunction, NewVariable
from fxtio.uftrace.directory import StoredFile, is_file_name, text_bytes
from fxtio.uftrace.enums import WordClass
from fxtio.uftrace.events import EXTERN_FILE, NAMES_FILE, EventsFile, ExternFile, Message
from fxtio.uftrace.info import INFO_FILE, MAX_UTC_OFFSET, VERSIONS, InfoFile
from fxtio.uftrace.kernel import KernelEvent
from fxtio.uftrace.layout import Feature, InfoBit
from fxtio.uftrace.new_trace import NewTrace, checked_task
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.state import map_name
from fxtio.uftrace.tables import WRITABLE
from fxtio.uftrace.task_writer import TaskWriter
from fxtio.uftrace.tasks import BINARY, NS, TEXT, BinaryTaskFile, TaskFile, check_text


class UftraceWriter(TraceWriter):
    """Writes a data directory; a context manager.

    Its methods raise `ValueError` if the writer is closed, and `EncodeError`, before anything is written, for what
    cannot be written.

    Args:
        target: the directory, which must be empty or is created.
        program: the path of the traced program.
        command: the command line; the path of the program if None.
        order: the byte order of the records.
        word_class: the size of a pointer of the program in bits.
        version: the version of the format: 4, or 3 as before uftrace 0.6.  Version 3 has no values of arguments, no
            data of events, and no libraries that are loaded; uftrace 0.8 and later do not find its tasks.
        sized_symbols: write symbols with sizes, which uftrace before 0.14 cannot read.
        recorded_at: the date of the recording as `date` prints it.
        utc_offset: the Unix time in seconds at which the clock of the records was 0; None if it is not known.

    Attributes:
        path: the directory.

    Raises:
        EncodeError: an argument cannot be written.
        FileExistsError: the directory is not empty.
        OSError: the directory cannot be created.
    """

    format = "uftrace"
    writable_tables: ClassVar[Mapping[str, WritableTable]] = WRITABLE

    def __init__(
        self,
        target: str | os.PathLike[str],
        *,
        program: str = "/program",
        command: str | None = None,
        order: Order = "little",
        word_class: Literal[32, 64] = 64,
        version: int = 4,
        sized_symbols: bool = False,
        recorded_at: str = "Thu Jan  1 00:00:00 1970",
        utc_offset: int | None = None,
    ) -> None:
        if order not in ("little", "big"):
            raise EncodeError(f"{order!r} is neither 'little' nor 'big'", "order")
        if word_class not in (32, 64):
            raise EncodeError(f"{word_class!r} is neither 32 nor 64", "word_class")
        if version not in VERSIONS or isinstance(version, bool):
            raise EncodeError(f"{version!r} is neither 3 nor 4", "version")
        refuse_url(target)
        self.path = Path(target)
        self._word_class = WordClass.BITS32 if word_class == 32 else WordClass.BITS64
        declarations = Declarations(program, word_class // 8)
        self._trace = NewTrace(self.path, declarations, order, version, self._check_open, TaskWriter)
        self._command = check_text(program if command is None else command, "command")
        self._sized_symbols = sized_symbols
        if utc_offset is not None and not 0 <= utc_offset < MAX_UTC_OFFSET:
            raise EncodeError(f"{utc_offset!r} is not from 0 to {MAX_UTC_OFFSET - 1}", "utc_offset")
        self._utc_offset = utc_offset
        self._recorded_at = check_text(recorded_at, "recorded_at")
        self._files: dict[str, Any] = {}
        self.path.mkdir(parents=True, exist_ok=True)
        if next(self.path.iterdir(), None) is not None:
            raise FileExistsError(f"{self.path} is not empty")

    @property
    def order(self) -> Order:
        """The byte order of the records."""
        return self._trace.order

    @property
    def pointer_size(self) -> int:
        """The size of a pointer of the program in bytes."""
        return self._trace.declarations.pointer_size

    @property
    def records(self) -> int:
        """The number of records that were written."""
        return self._trace.records

    @property
    def position(self) -> int:
        """The number of bytes of records that were written."""
        return self._trace.position

    @property
    def _declaring(self) -> NewTrace:
        """The new trace, if something can be declared: the writer is open, and the trace is not a copy."""
        self._trace.check_declarable()
        return self._trace

    # ---- exact

    def put(self, record: Any, *, tid: int = 1) -> None:
        """Append a record as it is.

        Args:
            record: a record of a task, or `Opaque`, which go to the file of the task; or a `PerfEvent`, a `KernelEvent`
                or a `Message`, which go to the files of these.
            tid: the task.

        Raises:
            EncodeError: the record cannot be encoded.
        """
        self._check_open()
        if isinstance(record, perf.PerfEvent):
            self.sched(record.cpu, record)
        elif isinstance(record, KernelEvent):
            self._declaring.kernel.put(record)
        elif isinstance(record, Message):
            self.message(*record)
        else:
            self._trace.put(checked_task(tid), record)

    def file(self, name: str, content: Any) -> None:
        """Write a file of the directory as a whole, in place of the file that the writer would make.

        Args:
            name: the name of the file.
            content: bytes, or the result of `UftraceTrace.file`.

        Raises:
            EncodeError: the name is not the name of a file in a directory, or that of the records of a task; or the
                content is neither bytes nor a file of a trace.
        """
        self._check_open()
        text_bytes(name, "name")
        if not is_file_name(name):
            raise EncodeError(f"{name!r} is not the name of a file in a directory", "name")
        if re.fullmatch(r"(0|[1-9][0-9]{0,9})\.dat", name):
            raise EncodeError("the records of a task are written by `put` and by the writer of the task", name)
        if not isinstance(content, bytes | bytearray | memoryview | StoredFile):
            raise EncodeError(f"{type(content).__name__} is neither bytes nor a file of a trace", "content")
        self._files[name] = content if isinstance(content, StoredFile) else bytes(content)

    def _copy(self, trace: UftraceTrace) -> None:
        new = self._trace
        given = (new.buffers, self._files, new.processes.tasks, new.events, new.messages, new.sched)
        if new.position or any(given) or new.kernel:
            raise EncodeError("a trace can be copied only if nothing was written before", "copy")
        new.order = trace.info_file.order
        tids = {f"{tid}.dat": tid for tid in trace.tids}
        for name in trace.directory.names:
            if name not in tids:
                with names_if_full(self.path / name), open(self.path / name, "wb", opener=opener) as file:
                    file.writelines(trace.directory.blocks(name))
        new.buffers.update({tid: bytearray() for tid in tids.values()})
        for chunk in trace.chunks():
            new.append_bytes(chunk.tid, chunk.raw, 1 if chunk.gap is not None else len(chunk))
        new.is_copy = True

    # ---- columns

    def _write_rows(self, name: str, columns: dict[str, Any], rows: int) -> None:
        table_writer.write(self._trace, name, columns, rows)

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
        """
        declarations = self._declaring.declarations
        if not isinstance(library, bool):
            raise EncodeError(f"{library!r} is neither True nor False", "library")
        if arguments or returns:
            self._trace.check_version("values of arguments")
        return declarations.function(name, arguments, returns, library=library, module=module, source=source, line=line)

    def specify(self, function: NewFunction, *, arguments: str = "", returns: str = "") -> NewFunction:
        """Specify the arguments or the return value of a function that was declared without them.

        Calls that were written before stay without values.

        Args:
            function: the function.
            arguments: the specification of the arguments, see `function`.
            returns: the specification of the return value.

        Returns:
            The function with all its specifications, which is used from now on.

        Raises:
            EncodeError: a specification cannot be written, or the function has other ones.
        """
        self._declaring.check_version("values of arguments")
        if not self._trace.declarations.owns(function):
            raise EncodeError("the function was not declared by this writer", "function")
        return self._trace.declarations.specify(function, arguments, returns)

    def variable(self, name: str, size: int = 8, *, module: str = "") -> NewVariable:
        """Declare a variable, whose changes the event `watch:var` reports, or return the one that was declared before.

        Args:
            name: the name.
            size: the size in bytes, 1 to 8.
            module: the path of its module; the program if empty.

        Raises:
            EncodeError: the name cannot be written, or the variable has another size.
        """
        return self._declaring.declarations.variable(name, size, module)

    def enum(self, name: str, values: Mapping[str, int]) -> None:
        """Declare an enumeration, for values with a specification such as `arg1/e:color`.

        Args:
            name: the name, an identifier of C.
            values: the values by their names.

        Raises:
            EncodeError: a name or a value cannot be written, or the enumeration has other values.
        """
        self._declaring.check_enum(name, values)
        self._trace.declarations.enum(name, values)

    def task(self, tid: int, pid: int | None = None) -> TaskWriter:
        """Return the writer of the calls of a task.

        Args:
            tid: the number of the task.
            pid: the process, if the task is a thread of it; the task is a process if None.

        Raises:
            EncodeError: the task was declared with another process, or a number is not positive.
        """
        return self._declaring.processes.task(tid, pid)

    def event_id(self, name: str) -> int:
        """Return the number of an event, which is declared if it is new.

        Args:
            name: the name of an event of uftrace, such as `read:proc/statm`, or of a user event, such as
                `provider:name`.

        Raises:
            EncodeError: the name cannot be written.
        """
        return self._trace.event_id(name)

    def message(self, time: int, text: str) -> None:
        """Append a message to `extern.dat`; messages must be ordered by time.

        Args:
            time: nanoseconds.
            text: the message, a single line of at most 1,000 bytes that does not begin with white space.

        Raises:
            EncodeError: the time or the text cannot be written, or time goes back.
        """
        self._declaring.messages.append(self._trace.check_message(time, text))

    # ---- the scheduler and the kernel

    def sched(self, cpu: int, event: perf.PerfEvent) -> None:
        """Append a scheduler event of a CPU; the events of a CPU must be ordered by time.

        Raises:
            EncodeError: a value does not fit, or time goes back.
        """
        self._declaring.sched.add(cpu, event)

    def kernel_format(self, system: str, description: str) -> str:
        """Describe a kernel event that `kernel_event` does not know, and return its name with the subsystem.

        Args:
            system: the subsystem, such as `sched`.
            description: the content of the event's file `format` in tracefs.

        Raises:
            EncodeError: it is not a description, or the name or the id belongs to another event.
        """
        return self._declaring.kernel.describe(system, description)

    def kernel_event(self, cpu: int, time: int, tid: int, event: str, **values: Any) -> None:
        """Append a kernel event of a CPU; the kernel events of a CPU must be ordered by time.

        Args:
            cpu: the CPU.
            time: nanoseconds.
            tid: the task that was running.
            event: the name, such as `sched:sched_switch`; one of `fxtio.uftrace.kernel_writer.DESCRIPTIONS`, or one
                that `kernel_format` has described.
            values: the values by field; the others are 0.

        Raises:
            EncodeError: the event or a field is unknown, a value does not fit, or time goes back.
        """
        self._declaring.kernel.event(cpu, time, tid, event, values)

    def kernel_enter(self, cpu: int, time: int, tid: int, function: str) -> None:
        """Begin a call of a function of the kernel.

        Args:
            cpu: the CPU.
            time: nanoseconds.
            tid: the task.
            function: the name of the function.

        Raises:
            EncodeError: a value does not fit, or time goes back.
        """
        self._declaring.kernel.enter(cpu, time, tid, function)

    def kernel_leave(self, cpu: int, time: int, tid: int) -> None:
        """End the innermost call of a function of the kernel.

        Args:
            cpu: the CPU, which may be another one than at the entry.
            time: nanoseconds.
            tid: the task.

        Raises:
            EncodeError: no call is open, a value does not fit, or time goes back.
        """
        self._declaring.kernel.leave(cpu, time, tid)

    # ---- the small files

    def _close(self) -> None:
        self._trace.flush()
        for name, content in (self._small_files() | self._files).items():
            with names_if_full(self.path / name), open(self.path / name, "wb", opener=opener) as file:
                if isinstance(content, StoredFile):
                    file.writelines(content.blocks())
                else:
                    file.write(content)

    def _small_files(self) -> dict[str, Any]:
        """Return the content of the small files by name; the info file only if it was not given as a whole."""
        trace, files = self._trace, dict[str, Any]()
        if not trace.is_copy:
            for tid in trace.buffers:
                trace.processes.task(tid)  # records that were put need a session, too
            if INFO_FILE not in self._files:
                files[INFO_FILE] = self._info_file().to_bytes()
        if trace.processes.tasks:
            events = trace.processes.events()
            if trace.is_old:
                files[BINARY] = BinaryTaskFile(self.order, events).to_bytes()
            else:
                files[TEXT] = TaskFile(events).to_bytes()
            sessions, declarations = trace.processes.sessions, trace.declarations
            files |= {map_name(session.sid): declarations.map_file(session.program).to_bytes() for session in sessions}
            symbols = declarations.symbol_files(sized=self._sized_symbols)
            files |= {name: file.to_bytes() for name, file in symbols.items()}
        if trace.events:
            files[NAMES_FILE] = EventsFile({number: name for name, number in trace.events.items()}).to_bytes()
        if trace.messages:
            files[EXTERN_FILE] = ExternFile(trace.messages).to_bytes()
        if trace.kernel:
            files |= trace.kernel.files()
        return files | trace.sched.files()

    def _info_file(self) -> InfoFile:
        trace, program = self._trace, self._trace.declarations
        info = InfoFile(trace.version, order=trace.order, word_class=self._word_class)
        info.features = Feature.TASK_SESSION | Feature.SYM_REL_ADDR | Feature.MAX_STACK
        for feature, is_used in (
            (Feature.ARGUMENT | Feature.RETVAL, program.specs),
            (Feature.AUTO_ARGS, program.enums),
            (Feature.DEBUG_INFO, any(module.debug for module in program.modules.values())),
            (Feature.KERNEL, trace.kernel),
            (Feature.EVENT, trace.events or trace.kernel),
            (Feature.PERF_EVENT, trace.sched),
            (Feature.SYM_SIZE, self._sized_symbols),
        ):
            info.features |= feature if is_used else Feature(0)
        tids = sorted(trace.buffers)
        info.set_block(InfoBit.EXE_NAME, f"exename:{program.path}")
        info.set_block(InfoBit.CMDLINE, f"cmdline:{self._command}")
        values = [value for pair in program.specs.values() for specs in pair for value in specs]
        if any(value.in_register for value in values):
            info.set_block(
                InfoBit.CPUINFO, "cpuinfo:lines=2", "cpuinfo:nr_cpus=1 / 1 (online/possible)", "cpuinfo:desc="
            )
        listed = ",".join(map(str, tids))
        info.set_block(InfoBit.TASKINFO, "taskinfo:lines=2", f"taskinfo:nr_tid={len(tids)}", f"taskinfo:tids={listed}")
        if program.specs or program.enums:
            info.set_block(InfoBit.ARG_SPEC, *program.spec_lines())
        if trace.is_old:
            return info  # the other blocks are newer
        elapsed = trace.processes.duration
        elapsed_line = f"elapsed_time:{elapsed // NS}.{elapsed % NS:09d} sec"
        info.set_block(InfoBit.RECORD_DATE, f"record_date:{self._recorded_at}", elapsed_line)
        info.set_block(InfoBit.PATTERN_TYPE, "pattern_type:simple")
        if self._utc_offset is not None:
            info.set_block(InfoBit.UTC_OFFSET, f"utc_offset:{self._utc_offset}")
        return info
