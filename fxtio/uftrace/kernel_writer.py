"""The kernel's part of a new trace: descriptions of events, functions, and the events of every CPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from fxtio.codec.integers import MAX_INT32, checked_integer
from fxtio.errors import EncodeError
from fxtio.table import MAX_TIME
from fxtio.uftrace import tracefs
from fxtio.uftrace.directory import text_bytes
from fxtio.uftrace.kernel import (
    FUNCTION_ENTRY,
    FUNCTION_EXIT,
    HEADER_FILE,
    SYMBOLS_FILE,
    EventFormat,
    KernelEvent,
    KernelHeader,
    build_data,
    build_pages,
    parse_format,
)
from fxtio.uftrace.symbols import KERNEL, Symbol, SymbolFile
from fxtio.uftrace.tasks import check_text

Order = Literal["little", "big"]

MAX_CPU = 4095
"""The largest number of a CPU of a new trace."""

_FIRST_FUNCTION = {8: 0xFFFF_FFFF_8100_0000, 4: 0xC100_0000}
_FUNCTION_SIZE = 0x100
_MAX_FUNCTIONS = 1 << 16
_MAX_DATA = 2000
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_ENTRY, _EXIT = (f"{tracefs.FUNCTION_GRAPH}:{name}" for name in (FUNCTION_ENTRY, FUNCTION_EXIT))


@dataclass(slots=True)
class _OpenCall:
    """A call of a kernel function that has not ended: its function, and the time of its entry in nanoseconds."""

    address: int
    time: int


@cache
def _common_layout(name: str) -> EventFormat:
    layout = parse_format(tracefs.DESCRIPTIONS[name])
    assert layout is not None
    return layout


class KernelFiles:
    """Collects what the files of the kernel will contain.

    Args:
        order: the byte order.
        pointer_size: the size in bytes of an address of the traced program.
    """

    def __init__(self, order: Order, pointer_size: int) -> None:
        self._order: Order = order
        self._first_function = _FIRST_FUNCTION[pointer_size]
        self._blocks: list[tuple[str, bytes]] = []
        self._formats: dict[str, EventFormat] = {}
        self._functions: dict[str, int] = {}
        self._events: dict[int, list[tuple[int, bytes]]] = {}
        self._missed: dict[int, set[int]] = {}  # the numbers of the events of each CPU before which others are missing
        self._open: dict[int, list[_OpenCall]] = {}

    def __bool__(self) -> bool:
        return bool(self._formats or self._functions or self._events)

    def describe(self, system: str, description: str) -> str:
        """Add the description of an event, and return the name of the event with its subsystem.

        Raises:
            EncodeError: it is not a description, or the name or the id belongs to another event.
        """
        if not _NAME.fullmatch(check_text(system, "system")):
            raise EncodeError(f"{system!r} is not the name of a subsystem", "system")
        if not text_bytes(description, "description").isascii() or "\r" in description:
            raise EncodeError("a description has only ASCII characters", "description")
        layout = parse_format(description, tracefs.path_of(system, "event"))
        if layout is None or not _NAME.fullmatch(layout.name) or layout.id > 0xFFFF:
            raise EncodeError("this is not the description of an event in tracefs", "description")
        if layout.fields.keys() & {"common_type", "common_pid"} != {"common_type", "common_pid"}:
            raise EncodeError("the fields common_type and common_pid are missing", "description")
        described = self._formats.get(f"{system}:{layout.name}")
        if described is None:
            self._check_id(layout)
            self._formats[f"{system}:{layout.name}"] = layout
            self._blocks.append((tracefs.path_of(system, layout.name), description.encode()))
        elif described != layout:
            raise EncodeError(f"the event {layout.name} was described in another way before", "description")
        return f"{system}:{layout.name}"

    def function(self, name: str) -> int:
        """Return the address of a function, which is added if it is new.

        Raises:
            EncodeError: the name cannot be written, or there are too many functions.
        """
        self.check_function(name)
        return self._functions.setdefault(name, self._first_function + len(self._functions) * _FUNCTION_SIZE)

    def check_function(self, name: str) -> None:
        """Raise an error if a function cannot be called.

        Raises:
            EncodeError: the name cannot be written, or there are too many functions.
        """
        if not check_text(name, "name") or any(character.isspace() for character in name):
            raise EncodeError(f"{name!r} is not the name of a kernel function", "name")
        if name not in self._functions and len(self._functions) >= _MAX_FUNCTIONS:
            raise EncodeError(f"there are {_MAX_FUNCTIONS:,} functions already", "name")

    def event(self, cpu: int, time: int, tid: int, name: str, values: Mapping[str, Any]) -> None:
        """Append an event; the events of a CPU are ordered by time.

        Raises:
            EncodeError: the event is unknown, a value does not fit, or time goes back; nothing was added.
        """
        cpu, time = self.check_place(cpu, time, tid)
        self._append(cpu, time, self._data(tid, name, values))

    def put(self, event: KernelEvent) -> None:
        """Append an event with its data as they are, after those of its CPU.

        Raises:
            EncodeError: the event is not described, the data are those of another event, or time goes back; nothing was
                added.
        """
        cpu, time = self.check_place(event.cpu, event.time, event.tid)
        self.check_data(event.tid, event.label, event.data)
        self.add_data(cpu, time, event.label, event.data, missed=event.missed)

    def enter(self, cpu: int, time: int, tid: int, function: str) -> None:
        """Begin a call of a kernel function.

        Raises:
            EncodeError: a value does not fit, or time goes back; nothing was added.
        """
        cpu, time = self.check_place(cpu, time, tid)
        self.check_function(function)
        stack = self._open.setdefault(tid, [])
        address = self.function(function)
        self._append(cpu, time, self._data(tid, _ENTRY, {"func": address, "depth": len(stack)}))
        stack.append(_OpenCall(address, time))

    def leave(self, cpu: int, time: int, tid: int) -> None:
        """End the innermost call of a kernel function of a task.

        Raises:
            EncodeError: no call is open, a value does not fit, or time goes back; nothing was added.
        """
        cpu, time = self.check_place(cpu, time, tid)
        stack = self._open.get(tid)
        if not stack:
            raise EncodeError("no call of a kernel function is open", f"task {tid}")
        call = stack[-1]
        if time < call.time:
            raise EncodeError(f"time goes back, from {call.time} to {time}", f"task {tid}")
        times = {"calltime": call.time, "rettime": time}
        self._append(cpu, time, self._data(tid, _EXIT, {"func": call.address, "depth": len(stack) - 1, **times}))
        stack.pop()

    def check_place(self, cpu: Any, time: Any, tid: Any, last: int | None = None) -> tuple[int, int]:
        """Return the CPU and the time of an event that can follow one at the time `last`, or the last one of the CPU.

        Raises:
            EncodeError: a value does not fit, or time goes back.
        """
        cpu, time = checked_integer(cpu, "cpu", 0, MAX_CPU), checked_integer(time, "time", 0, MAX_TIME)
        checked_integer(tid, "tid", 0, MAX_INT32)
        events = self._events.get(cpu)
        last = events[-1][0] if last is None and events else last
        if last is not None and time < last:
            raise EncodeError(f"time goes back, from {last} to {time}", f"CPU {cpu}")
        return cpu, time

    def check_no_open_call(self, tid: int) -> None:
        """Raise an error if a call of a task is open.

        Raises:
            EncodeError: it is.
        """
        if self._open.get(tid):
            raise EncodeError("calls that `kernel_enter` began are open", f"task {tid}")

    def check_calls(self) -> None:
        """Raise an error if calls of functions cannot be described.

        Raises:
            EncodeError: another event has the id of the entries or exits.
        """
        for name in (_ENTRY, _EXIT):
            self._layout(name)

    def add_call(self, cpu: int, time: int, tid: int, function: str, depth: int, call: tuple[int, int] | None) -> None:
        """Append the entry of a call, or its exit, given its start and end in nanoseconds."""
        values = {"func": self.function(function), "depth": depth}
        if call is not None:
            values |= {"calltime": call[0], "rettime": call[1]}
        self._append(cpu, time, self._data(tid, _ENTRY if call is None else _EXIT, values))

    def check_data(self, tid: int, name: Any, data: bytes) -> None:
        """Raise an error if some bytes are not the data of an event of a task.

        Raises:
            EncodeError: the event is not described, or the data are those of another event or task, or too many.
        """
        layout = self._layout(name)
        places = {field: layout.fields[field] for field in ("common_type", "common_pid")}
        values = {
            field: int.from_bytes(data[part.offset : part.offset + part.size], self._order)
            for field, part in places.items()
        }
        if values != {"common_type": layout.id, "common_pid": tid}:
            raise EncodeError(f"the data are not those of {name} of task {tid}", "data")
        self._check_size(name, data)

    def add_data(self, cpu: int, time: int, name: Any, data: bytes, *, missed: bool) -> None:
        """Append an event whose data `check_data` has checked; `missed` tells that events before it are missing."""
        if missed:
            self._missed.setdefault(cpu, set()).add(len(self._events.get(cpu, ())))
        self._describe_common(name)
        self._append(cpu, time, data)

    def _data(self, tid: int, name: str, values: Mapping[str, Any]) -> bytes:
        """Return the data of an event; common events are described when they are used first."""
        data = build_data(self._layout(name), tid, dict(values), self._order)
        self._check_size(name, data)
        self._describe_common(name)
        return data

    def _layout(self, name: Any) -> EventFormat:
        """Return the description of an event, whether it was given or is that of a common event."""
        if check_text(name, "event") not in self._formats and name not in tracefs.DESCRIPTIONS:
            raise EncodeError("the event is not described", repr(name))
        layout = self._formats.get(name)
        if layout is None:
            layout = _common_layout(name)
            self._check_id(layout)
        return layout

    def _check_id(self, layout: EventFormat) -> None:
        """Raise an error if an event that is described has the id of a new one."""
        if any(other.id == layout.id for other in self._formats.values()):
            raise EncodeError(f"the id {layout.id} belongs to another event", "description")

    def _check_size(self, name: str, data: bytes) -> None:
        if len(data) > _MAX_DATA:
            raise EncodeError(f"{len(data):,} bytes of data are over the limit of {_MAX_DATA:,}", name)

    def _describe_common(self, name: str) -> None:
        if name not in self._formats:
            self.describe(name.partition(":")[0], tracefs.DESCRIPTIONS[name])

    def _append(self, cpu: int, time: int, data: bytes) -> None:
        self._events.setdefault(cpu, []).append((time, data))

    def files(self) -> dict[str, Any]:
        """Return the files by name."""
        header = KernelHeader.of([(tracefs.HEADER_PATH, tracefs.HEADER_PAGE.encode()), *self._blocks])
        header.order = self._order
        end = self._first_function + len(self._functions) * _FUNCTION_SIZE
        symbols = [Symbol(address, name, KERNEL) for name, address in self._functions.items()]
        files: dict[str, Any] = {HEADER_FILE: header}
        files[SYMBOLS_FILE] = SymbolFile.of([*symbols, Symbol(end, "_end", KERNEL)])
        pages = {cpu: build_pages(events, header, self._missed.get(cpu, ())) for cpu, events in self._events.items()}
        return files | {f"kernel-cpu{cpu}.dat": raw for cpu, raw in pages.items()}
