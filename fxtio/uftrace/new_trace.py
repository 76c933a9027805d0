"""The state of a new trace that its writer and the writers of its tasks share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fxtio.arrays import Array
from fxtio.codec.generate import Order
from fxtio.codec.integers import checked_integer
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
from fxtio.uftrace.processes import NewTask, Processes
from fxtio.uftrace.records import encode
from fxtio.uftrace.tasks import check_text

_BUFFERED = 1 << 18
_MAX_MESSAGE = 1000


class NewTrace:
    """A new trace: its declarations, its tasks, and their records, which go to their files in blocks.

    Args:
        path: the directory.
        declarations: the modules and functions.
        order: the byte order of the records.
        version: the version of the format.
        check_open: raises ValueError if the trace is closed.

    Attributes:
        declarations: the modules and functions.
        processes: the tasks and sessions.
        kernel: the kernel events.
        sched: the scheduler events.
        messages: the messages.
        order: the byte order of the records.
        version: the version of the format.
        check_open: raises ValueError if the trace is closed.
        events: the numbers of user events by name.
        buffers: the bytes of records that are not in the file of their task yet, by task.
        records: the number of records that were written.
        position: the number of bytes of records that were written.
        is_copy: whether the trace is a copy, so that nothing can be declared.
    """

    def __init__(
        self, path: Path, declarations: Declarations, order: Order, version: int, check_open: Callable[[], None]
    ) -> None:
        self.declarations = declarations
        self.processes = Processes(declarations)
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
        """Raise an error if nothing can be declared: the small files of a copy belong to the copied trace.

        Raises:
            EncodeError: the trace is a copy.
            ValueError: the trace is closed.
        """
        self.check_open()
        if self.is_copy:
            raise EncodeError("a copy takes no further tasks, functions and events; records can be put", "copy")

    @property
    def is_old(self) -> bool:
        """Return whether the task file is binary, and records have no payloads."""
        return self.version < TEXT_VERSION

    def check_version(self, feature: str) -> None:
        """Raise an error if the version of the format is too old for something.

        Args:
            feature: a description of it, in the plural.

        Raises:
            EncodeError: the version is older than 4.
        """
        if self.is_old:
            raise EncodeError(f"version {self.version} of the format has no {feature}", "version")

    def put(self, tid: int, record: Any) -> None:
        """Append a record to the file of a task.

        Raises:
            EncodeError: the record cannot be encoded; nothing was written.
        """
        self.append_bytes(tid, encode(record, self.order), 1)

    def put_at(self, task: NewTask, time: int, record: Any) -> None:
        """Append a record with a time to the file of a task.

        Raises:
            EncodeError: the record cannot be encoded; nothing was written.
        """
        self.put(task.tid, record)
        self.processes.note_records(task, time, time)

    def append(self, task: NewTask, times: Array, raw: bytes | memoryview, records: int) -> None:
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
        """Return the number of an event, or that which it will have when it is declared.

        Raises:
            EncodeError: the name cannot be written.
        """
        self.check_declarable()
        if not check_text(name, "event"):
            raise EncodeError("the name of an event is empty", "event")
        return EVENT_IDS.get(name) or self.events.get(name) or EventId.FIRST_USER + len(self.events)

    def is_new_event(self, name: str) -> bool:
        """Return whether an event is a user event that is not declared."""
        return name not in EVENT_IDS and name not in self.events

    def event_id(self, name: str) -> int:
        """Return the number of an event, which is declared if it is new.

        Raises:
            EncodeError: the name cannot be written.
        """
        number = self.event_number(name)
        if number >= EventId.FIRST_USER:
            self.events[name] = number
        return number

    def check_message(self, time: Any, text: Any, last: int | None = None) -> Message:
        """Return a message that can follow one at the time `last`, or the last one.

        Raises:
            EncodeError: the time or the text cannot be written, or time goes back.
        """
        if last is None:
            last = self.messages[-1][0] if self.messages else 0
        time = checked_integer(time, "time", 0, MAX_TIME)
        if len(text_bytes(text, "text")) > _MAX_MESSAGE or check_text(text, "text")[:1].isspace():
            raise EncodeError(f"the text begins with white space or has more than {_MAX_MESSAGE:,} bytes", "text")
        if time < last:
            raise EncodeError(f"time goes back, from {last} to {time}", "message")
        return Message(time, text)

    def check_enum(self, name: str, values: Mapping[str, int]) -> None:
        """Raise an error if an enumeration cannot be declared.

        Raises:
            EncodeError: see `Declarations.check_enum`; or the version has no enumerations.
        """
        self.check_version("enumerations")
        self.declarations.check_enum(name, values)
