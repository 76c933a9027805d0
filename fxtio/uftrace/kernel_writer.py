"""The kernel's part of a new trace: descriptions of events, functions, and the events of every CPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fxtio.codec.integers import MAX_INT32
from fxtio.errors import EncodeError
from fxtio.table import MAX_TIME
from fxtio.uftrace import tracefs
from fxtio.uftrace.directory import text_bytes
from fxtio.uftrace.encode import checked_integer
from fxtio.uftrace.kernel import (
    FUNCTION_ENTRY,
    FUNCTION_EXIT,
    HEADER_FILE,
    SYMBOLS_FILE,
    EventFormat,
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
_MAX_PID = MAX_INT32
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_ENTRY, _EXIT = (f"{tracefs.FUNCTION_GRAPH}:{name}" for name in (FUNCTION_ENTRY, FUNCTION_EXIT))


@dataclass(slots=True)
class _OpenCall:
    """A call of a kernel function that has not ended: its function, and the time of its entry in nanoseconds."""

    address: int
    time: int


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
        known = self._formats.get(f"{system}:{layout.name}")
        if known is None:
            if any(other.id == layout.id for other in self._formats.values()):
                raise EncodeError(f"the id {layout.id} belongs to another event", "description")
            self._formats[f"{system}:{layout.name}"] = layout
            self._blocks.append((tracefs.path_of(system, layout.name), description.encode()))
        elif known != layout:
            raise EncodeError(f"the event {layout.name} was described in another way before", "description")
        return f"{system}:{layout.name}"

    def function(self, name: str) -> int:
        """Return the address of a function, which is added if it is new.

        Raises:
            EncodeError: the name cannot be written, or there are too many functions.
        """
        self._check_function(name)
        return self._functions.setdefault(name, self._first_function + len(self._functions) * _FUNCTION_SIZE)

    def _check_function(self, name: str) -> None:
        if not check_text(name, "name") or any(character.isspace() for character in name):
            raise EncodeError(f"{name!r} is not the name of a kernel function", "name")
        if name not in self._functions and len(self._functions) >= _MAX_FUNCTIONS:
            raise EncodeError(f"there are {_MAX_FUNCTIONS:,} functions already", "name")

    def event(self, cpu: int, time: int, tid: int, name: str, values: Mapping[str, Any]) -> None:
        """Append an event; the events of a CPU are ordered by time.

        Raises:
            EncodeError: the event is unknown, a value does not fit, or time goes back; nothing was added.
        """
        cpu, time = self._checked_place(cpu, time, tid)
        self._append(cpu, time, self._data(tid, name, values))

    def enter(self, cpu: int, time: int, tid: int, function: str) -> None:
        """Begin a call of a kernel function.

        Raises:
            EncodeError: a value does not fit, or time goes back; nothing was added.
        """
        cpu, time = self._checked_place(cpu, time, tid)
        self._check_function(function)
        stack = self._open.setdefault(tid, [])
        address = self.function(function)
        self._append(cpu, time, self._data(tid, _ENTRY, {"func": address, "depth": len(stack)}))
        stack.append(_OpenCall(address, time))

    def leave(self, cpu: int, time: int, tid: int) -> None:
        """End the innermost call of a kernel function of a task.

        Raises:
            EncodeError: no call is open, a value does not fit, or time goes back; nothing was added.
        """
        cpu, time = self._checked_place(cpu, time, tid)
        stack = self._open.get(tid)
        if not stack:
            raise EncodeError("no call of a kernel function is open", f"task {tid}")
        call = stack[-1]
        if time < call.time:
            raise EncodeError(f"time goes back, from {call.time} to {time}", f"task {tid}")
        times = {"calltime": call.time, "rettime": time}
        self._append(cpu, time, self._data(tid, _EXIT, {"func": call.address, "depth": len(stack) - 1, **times}))
        stack.pop()

    def _checked_place(self, cpu: int, time: int, tid: int) -> tuple[int, int]:
        cpu, time = checked_integer(cpu, "cpu", 0, MAX_CPU), checked_integer(time, "time", 0, MAX_TIME)
        checked_integer(tid, "tid", 0, _MAX_PID)
        events = self._events.get(cpu)
        if events and time < events[-1][0]:
            raise EncodeError(f"time goes back, from {events[-1][0]} to {time}", f"CPU {cpu}")
        return cpu, time

    def _data(self, tid: int, name: str, values: Mapping[str, Any]) -> bytes:
        """Return the data of an event; common events are described when they are used first."""
        if check_text(name, "event") not in self._formats and name not in tracefs.DESCRIPTIONS:
            raise EncodeError("the event is not described", repr(name))
        layout = self._formats.get(name) or parse_format(tracefs.DESCRIPTIONS[name])
        assert layout is not None
        data = build_data(layout, tid, dict(values), self._order)
        if len(data) > _MAX_DATA:
            raise EncodeError(f"{len(data):,} bytes of data are over the limit of {_MAX_DATA:,}", name)
        if name not in self._formats:
            self.describe(name.partition(":")[0], tracefs.DESCRIPTIONS[name])
        return data

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
        return files | {f"kernel-cpu{cpu}.dat": build_pages(events, header) for cpu, events in self._events.items()}
