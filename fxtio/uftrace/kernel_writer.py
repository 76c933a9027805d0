"""The kernel's part of a new trace: descriptions of events, functions, and the events and switches of every CPU.

`DESCRIPTIONS` has those of common events as tracefs of Linux 6 on 64-bit machines has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.generate import Order
from fxtio.codec.integers import MAX_INT32, checked_integer
from fxtio.errors import EncodeError
from fxtio.table import MAX_TIME
from fxtio.uftrace import perf
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

MAX_CPU = 4095
"""The largest number of a CPU of a new trace."""

_FIRST_FUNCTION = {8: 0xFFFF_FFFF_8100_0000, 4: 0xC100_0000}
_FUNCTION_SIZE = 0x100
_MAX_FUNCTIONS = 1 << 16
_MAX_DATA = 2000
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
FUNCTION_GRAPH = "ftrace"
"""The subsystem of the events that report calls of kernel functions."""

_COMMON = "unsigned short common_type; unsigned char common_flags; unsigned char common_preempt_count; int common_pid"
_EVENTS: tuple[tuple[str, int, str, str, str], ...] = (
    ("ftrace:funcgraph_entry", 11, "unsigned long func", "int depth",
     '"--> %ps (%d)", (void *)REC->func, REC->depth'),
    ("ftrace:funcgraph_exit", 10, "unsigned long func; unsigned long long calltime; unsigned long long rettime",
     "unsigned long overrun; int depth",
     '"<-- %ps (%d) (start: %llx  end: %llx)", (void *)REC->func, REC->depth, REC->calltime, REC->rettime'),
    ("sched:sched_switch", 316, "char prev_comm[16]; pid_t prev_pid; int prev_prio; long prev_state",
     "char next_comm[16]; pid_t next_pid; int next_prio",
     '"prev_comm=%s prev_pid=%d ==> next_comm=%s", REC->prev_comm, REC->prev_pid, REC->next_comm'),
    ("sched:sched_wakeup", 318, "char comm[16]; pid_t pid", "int prio; int target_cpu",
     '"comm=%s pid=%d prio=%d target_cpu=%03d", REC->comm, REC->pid, REC->prio, REC->target_cpu'),
    ("sched:sched_process_exec", 309, "__data_loc char[] filename", "pid_t pid; pid_t old_pid",
     '"filename=%s pid=%d old_pid=%d", __get_str(filename), REC->pid, REC->old_pid'),
)  # fmt: skip
"""The name and the id of each event, its fields in C, and how it is printed."""

_TYPES = {
    "char": (1, 0), "unsigned char": (1, 0), "unsigned short": (2, 0), "int": (4, 1), "pid_t": (4, 1), "long": (8, 1),
    "unsigned long": (8, 0), "unsigned long long": (8, 0), "__data_loc char[]": (4, 0),
}  # fmt: skip
"""The size of a value of each type in bytes, and whether it is signed."""

HEADER_PATH = "events/header_page"
"""The path of the description of a page of the ring buffer."""

HEADER_PAGE = """\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;
"""
"""The description of a page of the ring buffer."""


def path_of(system: str, name: str) -> str:
    """Return the path of the description of an event."""
    return f"events/{system}/{name}/format"


def _description(name: str, number: int, first: str, last: str, shown: str) -> str:
    """Return the description of an event, each of whose fields is aligned to its size."""
    lines, offset = [], 0
    for field in f"{_COMMON}; {first}; {last}".split("; "):
        kind, _, label = field.rpartition(" ")
        size, signed = _TYPES[kind]
        offset += -offset % size
        count = re.search(r"\[(\d+)\]", label)
        size *= int(count[1]) if count else 1
        lines.append(f"\tfield:{field};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
        offset += size
    common, rest = "".join(lines[:4]), "".join(lines[4:])
    return f"name: {name.partition(':')[2]}\nID: {number}\nformat:\n{common}\n{rest}\nprint fmt: {shown}\n"


DESCRIPTIONS: dict[str, str] = {event[0]: _description(*event) for event in _EVENTS}
"""The descriptions by names such as sched:sched_switch."""

_ENTRY, _EXIT = (f"{FUNCTION_GRAPH}:{name}" for name in (FUNCTION_ENTRY, FUNCTION_EXIT))


@cache
def _common_layout(name: str) -> EventFormat:
    layout = parse_format(DESCRIPTIONS[name], path_of(name.partition(":")[0], "event"))
    assert layout is not None
    return layout


class KernelFiles:
    """Collects what the files of the kernel will contain.

    Methods raise `EncodeError`, and add nothing, if a value does not fit, time goes back on a CPU, or an event is not
    described or in another way.

    Args:
        order: the byte order.
        pointer_size: the size in bytes of an address of the traced program.
    """

    def __init__(self, order: Order, pointer_size: int) -> None:
        self._order: Order = order
        self._first_function = _FIRST_FUNCTION[pointer_size]
        self._formats: dict[str, tuple[EventFormat, str]] = {}  # the layout and the description of each event
        self._functions: dict[str, int] = {}
        self._events: dict[int, list[tuple[int, bytes]]] = {}
        self._missed: dict[int, set[int]] = {}  # the numbers of the events of each CPU before which others are missing
        self._open: dict[int, list[tuple[str, int]]] = {}  # the functions of open calls, and when they began, by task

    def __bool__(self) -> bool:
        return bool(self._formats or self._functions or self._events)

    def describe(self, system: str, description: str) -> str:
        """Add the description of an event, and return the name of the event with its subsystem."""
        if not _NAME.fullmatch(check_text(system, "system")):
            raise EncodeError(f"{system!r} is not the name of a subsystem", "system")
        if not text_bytes(description, "description").isascii() or "\r" in description:
            raise EncodeError("a description has only ASCII characters", "description")
        layout = parse_format(description, path_of(system, "event"))
        if layout is None or not _NAME.fullmatch(layout.name) or layout.id > 0xFFFF:
            raise EncodeError("this is not the description of an event in tracefs", "description")
        if layout.fields.keys() & {"common_type", "common_pid"} != {"common_type", "common_pid"}:
            raise EncodeError("the fields common_type and common_pid are missing", "description")
        described = self._formats.get(f"{system}:{layout.name}")
        if described is None:
            self._check_id(layout)
            self._formats[f"{system}:{layout.name}"] = layout, description
        elif described[0] != layout:
            raise EncodeError(f"the event {layout.name} was described in another way before", "description")
        return f"{system}:{layout.name}"

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """Take back everything that was added within if there is an error."""
        counts = {cpu: len(events) for cpu, events in self._events.items()}
        before = self._formats.copy(), self._functions.copy(), {cpu: set(rows) for cpu, rows in self._missed.items()}
        try:
            yield
        except EncodeError:
            self._events = {cpu: self._events[cpu][:count] for cpu, count in counts.items()}
            self._formats, self._functions, self._missed = before
            raise

    def event(self, cpu: int, time: int, tid: int, name: str, values: Mapping[str, Any]) -> None:
        """Append an event; common events are described when they are used first."""
        cpu, time = self._checked_place(cpu, time, tid)
        self._append(cpu, time, name, build_data(self._layout(name), tid, dict(values), self._order))

    def put(self, event: KernelEvent) -> None:
        """Append an event with its data as they are, after those of its CPU."""
        cpu, time = self._checked_place(event.cpu, event.time, event.tid)
        layout, data = self._layout(event.label), event.data
        for field, value in (("common_type", layout.id), ("common_pid", event.tid)):
            part = layout.fields[field]
            if int.from_bytes(data[part.offset : part.offset + part.size], self._order) != value:
                raise EncodeError(f"the data are not those of {event.label} of task {event.tid}", "data")
        number = len(self._events.get(cpu, ()))
        self._append(cpu, time, event.label, data)
        if event.missed:
            self._missed.setdefault(cpu, set()).add(number)

    def enter(self, cpu: int, time: int, tid: int, function: str) -> None:
        """Begin a call of a kernel function."""
        cpu, time = self._checked_place(cpu, time, tid)
        stack = self._open.setdefault(tid, [])
        self.add_call(cpu, time, tid, function, len(stack))
        stack.append((function, time))

    def leave(self, cpu: int, time: int, tid: int) -> None:
        """End the innermost call of a kernel function of a task."""
        cpu, time = self._checked_place(cpu, time, tid)
        if not (stack := self._open.get(tid)):
            raise EncodeError("no call of a kernel function is open", f"task {tid}")
        function, begin = stack[-1]
        if time < begin:
            raise EncodeError(f"time goes back, from {begin} to {time}", f"task {tid}")
        self.add_call(cpu, time, tid, function, len(stack) - 1, (begin, time))
        stack.pop()

    def add_call(
        self, cpu: int, time: int, tid: int, function: str, depth: int, call: tuple[int, int] | None = None
    ) -> None:
        """Append the entry of a call, or its exit, given its start and end in nanoseconds."""
        name = _ENTRY if call is None else _EXIT
        self._layout(name)  # nothing is added if another event has its id
        if not check_text(function, "name") or any(character.isspace() for character in function):
            raise EncodeError(f"{function!r} is not the name of a kernel function", "name")
        count = len(self._functions)
        if function not in self._functions and count >= _MAX_FUNCTIONS:
            raise EncodeError(f"there are {_MAX_FUNCTIONS:,} functions already", "name")
        address = self._functions.setdefault(function, self._first_function + count * _FUNCTION_SIZE)
        values = {"func": address, "depth": depth}
        if call is not None:
            values |= {"calltime": call[0], "rettime": call[1]}
        self.event(cpu, time, tid, name, values)

    def check_no_open_call(self, tid: int) -> None:
        """Raise `EncodeError` if a call of a task is open."""
        if self._open.get(tid):
            raise EncodeError("calls that `kernel_enter` began are open", f"task {tid}")

    def _checked_place(self, cpu: Any, time: Any, tid: Any) -> tuple[int, int]:
        """Return the CPU and the time of an event that can follow the last one of the CPU."""
        cpu, time = checked_integer(cpu, "cpu", 0, MAX_CPU), checked_integer(time, "time", 0, MAX_TIME)
        checked_integer(tid, "tid", 0, MAX_INT32)
        events = self._events.get(cpu)
        if events and time < events[-1][0]:
            raise EncodeError(f"time goes back, from {events[-1][0]} to {time}", f"CPU {cpu}")
        return cpu, time

    def _layout(self, name: Any) -> EventFormat:
        """Return the description of an event, whether it was given or is that of a common event."""
        if check_text(name, "event") not in self._formats and name not in DESCRIPTIONS:
            raise EncodeError("the event is not described", repr(name))
        if name in self._formats:
            return self._formats[name][0]
        layout = _common_layout(name)
        self._check_id(layout)
        return layout

    def _check_id(self, layout: EventFormat) -> None:
        """Raise `EncodeError` if an event that is described has the id of a new one."""
        if any(other.id == layout.id for other, _ in self._formats.values()):
            raise EncodeError(f"the id {layout.id} belongs to another event", "description")

    def _append(self, cpu: int, time: int, name: str, data: bytes) -> None:
        if len(data) > _MAX_DATA:
            raise EncodeError(f"{len(data):,} bytes of data are over the limit of {_MAX_DATA:,}", name)
        if name not in self._formats:
            self.describe(name.partition(":")[0], DESCRIPTIONS[name])
        self._events.setdefault(cpu, []).append((time, data))

    def files(self) -> dict[str, bytes]:
        """Return the files by name."""
        blocks = [(path_of(each.system, each.name), text.encode()) for each, text in self._formats.values()]
        header = KernelHeader.of([(HEADER_PATH, HEADER_PAGE.encode()), *blocks])
        header.order = self._order
        end = self._first_function + len(self._functions) * _FUNCTION_SIZE
        symbols = [Symbol(address, name, KERNEL) for name, address in self._functions.items()]
        files = {HEADER_FILE: header.to_bytes()}
        files[SYMBOLS_FILE] = SymbolFile([*symbols, Symbol(end, "_end", KERNEL)]).to_bytes()
        pages = {cpu: build_pages(events, header, self._missed.get(cpu, ())) for cpu, events in self._events.items()}
        return files | {f"kernel-cpu{cpu}.dat": raw for cpu, raw in pages.items()}


class SchedFiles:
    """Collects what the files of scheduler events will contain.

    Methods raise `EncodeError`, and add nothing, if a value does not fit or time goes back on a CPU.

    Args:
        order: the byte order.
    """

    def __init__(self, order: Order) -> None:
        self._order: Order = order
        self._files: dict[int, bytearray] = {}
        self._last: dict[int, int] = {}  # the time of the last event of each CPU

    def __bool__(self) -> bool:
        return bool(self._files)

    def add(self, cpu: int, event: perf.PerfEvent) -> None:
        """Append an event of a CPU."""
        if not isinstance(event, perf.PerfEvent):
            raise EncodeError(f"{event!r} is not a scheduler event", "event")
        raw = perf.build(event, self._order)
        time = event.time if event.raw else checked_integer(event.time, "time", 0, MAX_TIME)
        if event.kind == perf.KINDS[perf.OTHER]:  # it need not have a time
            time = self._last.get(cpu, 0)
        self.check_times(cpu, np.array([time], np.uint64))
        self.append(cpu, time, raw)

    def check_times(self, cpu: int, times: Array) -> None:
        """Raise `EncodeError` if the next events of a CPU cannot have these times."""
        number = checked_integer(cpu, "cpu", 0, MAX_CPU)
        if int(times[0]) < self._last.get(number, 0) or bool((times[1:] < times[:-1]).any()):
            raise EncodeError("time goes back", f"CPU {cpu}")

    def append(self, cpu: int, last: int, raw: bytes) -> None:
        """Append the bytes of events of a CPU, given the time of the last one."""
        self._files.setdefault(cpu, bytearray()).extend(raw)
        self._last[cpu] = last

    def files(self) -> dict[str, bytes]:
        """Return the files by name."""
        return {f"perf-cpu{cpu}.dat": bytes(raw) for cpu, raw in self._files.items()}
