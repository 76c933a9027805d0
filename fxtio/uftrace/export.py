"""The room `export`: writes the slices of threads as calls, in a uftrace data directory; messages of logs, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import ClassVar

import numpy as np

from fxtio.codec.integers import MAX_INT32
from fxtio.table import Table
from fxtio.timeline import calls
from fxtio.timeline.arguments import Arguments
from fxtio.timeline.calls import Calls, ThreadCalls
from fxtio.timeline.losses import count_lost
from fxtio.timeline.parts import Registry
from fxtio.uftrace.declarations import NewFunction
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.export_values import ARGUMENTS, CallValues
from fxtio.uftrace.info import MAX_UTC_OFFSET
from fxtio.uftrace.layout import RecordWord
from fxtio.uftrace.task_writer import TaskWriter
from fxtio.uftrace.writer import UftraceWriter

NOT_CARRIED = (
    "categories and states of slices; all tracks but those of threads",
    "names of arguments; those of calls that have others than the first call of their function; all but one of an end",
    "names of processes and threads; numbers of threads that are not unique",
    "instants, flows, counters, samples, allocations, scheduling",
    "calls that are more than 1,023 deep; fractions of a second of the wall-clock time",
)
"""The content of a timeline that a directory does not have."""

_DEEPEST = RecordWord.fields["depth"].limits[1]
_MAX_MESSAGE = 1000
_LOST = {"args": ARGUMENTS, "samples": "samples", "allocations": "allocations"}
_NUMBERS = "numbers of threads that another thread has, or that are not positive or over 31 bits"
_TEXTS = "names and messages with tabs or line ends, or that are empty or too long, which are changed"
_NAMES = "names of processes and threads"
_LEVELS = "levels and threads of log messages"
_FRACTIONS = "fractions of a second of the wall-clock time"
_NS_PER_SECOND = 10**9
_NO_NAME = "[unknown]"


class Exporter:
    """Writes a data directory, see `fxtio.formats.Exporter`."""

    TABLES: ClassVar[tuple[str, ...]] = (*calls.TABLES, "logs", *_LOST)

    def __init__(self, path: Path, registry: Registry) -> None:
        self.losses: Counter[str] = Counter()
        self._registry = registry
        self._path = path
        self._calls = Calls(registry, self.losses, _DEEPEST)
        self._arguments = Arguments()
        self._values = CallValues(registry, self.losses)
        self._functions: dict[int, NewFunction] = {}
        self._tasks: dict[int, TaskWriter] = {}
        self._tids: set[int] = set()
        self._next_tid = count(1)
        self._messages: list[tuple[int, str]] = []

    @cached_property
    def _writer(self) -> UftraceWriter:
        """The writer; the registry knows the wall clock when it is first used."""
        seconds, rest = divmod(self._registry.wall_clock or 0, _NS_PER_SECOND)
        if self._registry.wall_clock is None or not 0 <= seconds < MAX_UTC_OFFSET:
            return UftraceWriter(self._path)
        self.losses[_FRACTIONS] += rest > 0
        return UftraceWriter(self._path, utc_offset=seconds)

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Write the rows of a batch."""
        count_lost(self.losses, tables, _LOST)
        self._arguments.enter(tables)
        for each in self._calls.enter(tables):
            self._write_calls(each)
        self._arguments.leave(tables)
        if "logs" in tables:
            table = tables["logs"]
            self.losses[_LEVELS] += table.num_rows
            self._messages += zip(table["time"].tolist(), map(str, table["message"].tolist()), strict=True)

    def finish(self) -> None:
        """Write the messages and the small files."""
        for time, text in sorted(self._messages, key=lambda message: message[0]):
            self._writer.message(time, self._line(text, _MAX_MESSAGE))
        self._writer.close()
        self._calls.finish()
        tables = self._registry.tables()
        self.losses[_NAMES] += sum(int((tables[name]["name"].codes >= 0).sum()) for name in ("processes", "threads"))

    def _write_calls(self, rows: ThreadCalls) -> None:
        used, place = np.unique(rows.name, return_inverse=True)
        for code in used.tolist():
            self._declare(code)
        payloads = self._values.payloads(rows, self._arguments.of(rows.event), self._writer, self._functions)
        functions = [self._functions[code] for code in used.tolist()]
        self._task(rows.track).write_records(
            type=np.where(rows.is_exit, RecordType.EXIT, RecordType.ENTRY),
            time=rows.time,
            depth=rows.depth,
            function=(functions, place),
            payload=payloads,
        )

    def _declare(self, code: int) -> None:
        """Declare the function with a name, if it is new."""
        if code not in self._functions:
            name = self._line(self._registry.names.values[code] if code >= 0 else "", MAX_INT32)
            self._functions[code] = self._writer.function(name)

    def _line(self, text: str, limit: int) -> str:
        """Return a text that can stand in a line of a file."""
        line = "".join(" " if character in "\r\n\t\0" else character for character in text).strip() or _NO_NAME
        data = line.encode("utf-8", "surrogateescape")[:limit]
        line = data.decode("utf-8", "surrogateescape")
        if line != text:
            self.losses[_TEXTS] += 1
        return line

    def _task(self, track: int) -> TaskWriter:
        """Return the task of a thread; a number that another one has is replaced by one that is free."""
        task = self._tasks.get(track)
        if task is None:
            info = self._registry.track_info(track)
            tid, pid = info.tid, info.pid
            if not 0 < tid <= MAX_INT32 or tid in self._tids:
                self.losses[_NUMBERS] += 1
                tid = next(number for number in self._next_tid if number not in self._tids)
            if not 0 < pid <= MAX_INT32:
                pid = tid
            self._tids |= {tid, pid}
            task = self._tasks[track] = self._writer.task(tid, pid)
        return task
