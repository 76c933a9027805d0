"""The room `export`: writes the slices of threads as calls, in a uftrace data directory; messages of logs, too.

uftrace specifies the values of a function once, by their places: the first call of a function that has arguments
decides what they are.  The values of calls that have others are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fxtio.codec.integers import MAX_INT32
from fxtio.errors import EncodeError
from fxtio.table import Table
from fxtio.timeline import calls
from fxtio.timeline.arguments import ArgumentRows, Arguments
from fxtio.timeline.calls import Calls, ThreadCalls
from fxtio.timeline.losses import count_lost
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import ArgumentKind
from fxtio.uftrace import payloads
from fxtio.uftrace.argspec import MAX_PAYLOAD, ValueSpecs
from fxtio.uftrace.declarations import NewFunction
from fxtio.uftrace.enums import RecordType
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

ARGUMENTS = "arguments"
"""The phrase for the arguments that are lost."""

_DEEPEST = RecordWord.fields["depth"].limits[1]
_MAX_MESSAGE = 1000
_LOST = ("args", "samples", "allocations")
_NUMBERS = "numbers of threads that another thread has, or that are not positive or over 31 bits"
_TEXTS = "names and messages with tabs or line ends, or that are empty or too long, which are changed"
_NAMES = "names of processes and threads"
_LEVELS = "levels and threads of log messages"
_FRACTIONS = "fractions of a second of the wall-clock time"
_ARGUMENT_NAMES = "names of arguments, which are arg1, arg2 and so on now"
_ARGUMENT_TYPES = "types of arguments that are koids or booleans, which are numbers now"
_ARGUMENT_TEXTS = "texts of arguments that are too long, which are cut"
_SUFFIXES = {
    ArgumentKind.NULL: "/s",
    ArgumentKind.INTEGER: "/i64",
    ArgumentKind.UNSIGNED: "/u64",
    ArgumentKind.NUMBER: "/64",
    ArgumentKind.TEXT: "/s",
    ArgumentKind.POINTER: "/p",
    ArgumentKind.KOID: "/u64",
    ArgumentKind.BOOLEAN: "/u64",
}
_SLOT = 16  # the most bytes of a value, except the bytes of a text
_NS_PER_SECOND = 10**9
_NO_NAME = "[unknown]"


class Exporter:
    """Writes a data directory, see `fxtio.formats.Exporter`."""

    TABLES: ClassVar[tuple[str, ...]] = (*calls.TABLES, "logs", *_LOST)
    WRITES_LABELS: ClassVar = False

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
            if code not in self._functions:
                name = self._line(self._registry.names.values[code] if code >= 0 else "", MAX_INT32)
                self._functions[code] = self._writer.function(name)
        payloads = self._values.payloads(rows, self._arguments.of(rows.event), self._writer, self._functions)
        functions = [self._functions[code] for code in used.tolist()]
        self._task(rows.track).write_records(
            type=np.where(rows.is_exit, RecordType.EXIT, RecordType.ENTRY),
            time=rows.time,
            depth=rows.depth,
            function=(functions, place),
            payload=payloads,
        )

    def _line(self, text: str, limit: int) -> str:
        """Return a text that can be in a line of a file."""
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


class _Signature(NamedTuple):
    """The values of the calls or of the returns of a function.

    Attributes:
        names: their names in the timeline.
        order: the place of each among them, in the order of the specifications.
        specs: the specifications.
    """

    names: tuple[int, ...]
    order: tuple[int, ...]
    specs: ValueSpecs


class CallValues:
    """Makes payloads of the arguments of slices.

    Args:
        registry: has the names.
        losses: counts what the payloads do not have; those of `ARGUMENTS` become fewer by what they have.
    """

    def __init__(self, registry: Registry, losses: Counter[str]) -> None:
        self._registry = registry
        self._losses = losses
        self._signatures: dict[tuple[int, bool], _Signature | None] = {}

    def payloads(
        self, rows: ThreadCalls, args: ArgumentRows, writer: UftraceWriter, functions: dict[int, NewFunction]
    ) -> list[bytes | None] | None:
        """Return the payload of each row, None without any.

        Args:
            rows: calls.
            args: their arguments.
            writer: specifies the values of functions.
            functions: the functions by the codes of their names, which are replaced by those with specifications.
        """
        if not len(args):
            return None
        result: list[bytes | None] = [None] * len(rows.time)
        values, names, kinds = args.values(self._registry.names.values), args.name.tolist(), args.kind.tolist()
        bounds = [0, *(np.flatnonzero(np.diff(args.row)) + 1).tolist(), len(args)]
        for low, high, row in zip(bounds, bounds[1:], args.row[bounds[:-1]].tolist(), strict=False):
            key = int(rows.name[row]), bool(rows.is_exit[row])
            if key not in self._signatures:
                self._signatures[key] = self._specify(key, names[low:high], kinds[low:high], writer, functions)
            signature = self._signatures[key]
            if signature is not None and signature.names == tuple(names[low:high]):
                result[row] = self._encoded(signature, values[low:high], writer)
        return result if any(result) else None

    def _specify(
        self,
        key: tuple[int, bool],
        names: list[int],
        kinds: list[int],
        writer: UftraceWriter,
        functions: dict[int, NewFunction],
    ) -> _Signature | None:
        """Specify the values of a function by those of a call; return None if that is not possible."""
        code, is_exit = key
        order = sorted(range(len(names)), key=lambda place: kinds[place] == ArgumentKind.NUMBER)
        labels, count = [], Counter[str]()
        for place in order:
            kind = "fparg" if kinds[place] == ArgumentKind.NUMBER else "arg"
            count[kind] += 1
            labels.append("retval" if is_exit else f"{kind}{count[kind]}")
        suffixes = [_SUFFIXES[ArgumentKind(kinds[place])] for place in order]
        if is_exit:
            suffixes = [suffix if suffix != "/64" else "/f64" for suffix in suffixes]
        text = ",".join(label + suffix for label, suffix in zip(labels, suffixes, strict=True))
        try:
            function = writer.specify(functions[code], **{"returns" if is_exit else "arguments": text})
        except EncodeError:
            return None
        functions[code] = function
        texts = self._registry.names.values
        self._losses[_ARGUMENT_NAMES] += sum(
            texts[names[place]] != label for place, label in zip(order, labels, strict=True)
        )
        self._losses[_ARGUMENT_TYPES] += sum(kind in (ArgumentKind.KOID, ArgumentKind.BOOLEAN) for kind in kinds)
        return _Signature(tuple(names), tuple(order), function.returns if is_exit else function.arguments)

    def _encoded(self, signature: _Signature, values: Sequence[Any], writer: UftraceWriter) -> bytes | None:
        """Return values as a payload, None if they do not fit."""
        ordered = [values[place] for place in signature.order]
        ordered = [int(value) if isinstance(value, bool) else value for value in ordered]
        texts = sum(spec.is_text for spec in signature.specs)
        if texts:
            limit = (MAX_PAYLOAD - _SLOT * len(ordered)) // texts
            ordered = [self._cut(value, limit) if isinstance(value, str) else value for value in ordered]
        try:
            payload = payloads.encode(signature.specs, ordered, writer.order)
        except EncodeError:
            return None
        self._losses[ARGUMENTS] -= len(ordered)
        return payload

    def _cut(self, text: str, limit: int) -> str:
        data = text.encode("utf-8", "surrogateescape")
        if len(data) <= limit:
            return text
        self._losses[_ARGUMENT_TEXTS] += 1
        return data[: max(limit, 0)].decode("utf-8", "ignore")
