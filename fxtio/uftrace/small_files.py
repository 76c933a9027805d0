"""The tables that come from the small files of a trace: tasks, modules, symbols, scheduler and kernel events, messages.

A kernel event has a number, the row in the table `kernel`; `kernel_values` and `kernel_slices` refer to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import DistinctStrings, rows_of_each
from fxtio.codec.integers import MAX_INT64, MAX_UINT64, MIN_INT64
from fxtio.table import Bytes, Categories, Column, Optional, saturated
from fxtio.uftrace.argspec import parse_enums
from fxtio.uftrace.info import INFO_FILE
from fxtio.uftrace.kernel import FUNCTION_ENTRY, KernelEvent
from fxtio.uftrace.pairing import NO_ENTRY, OPEN, STATES, WHOLE, pair_calls
from fxtio.uftrace.perf import EXEC, KINDS, TASK_EXIT, TASK_NAME, TASK_NEW
from fxtio.uftrace.reading import Reading
from fxtio.uftrace.tasks import Dlopen, Fork, Session, TaskEvent

Columns = dict[str, Column]

TASK_EVENTS = {"Session": "session", "Task": "task", "Fork": "fork", "Dlopen": "library"}
"""The texts of the column `kind` of the table `task_events`, by the names of the classes in `fxtio.uftrace.tasks`."""


def _integers(values: Iterable[int]) -> Array:
    """Return integers as int64; those that do not fit become the nearest one that does."""
    return np.array([min(max(value, MIN_INT64), MAX_INT64) for value in values], np.int64)


def _addresses(values: Iterable[int]) -> Array:
    return np.array([min(max(value, 0), MAX_UINT64) for value in values], np.uint64)


def _optional(values: Sequence[int | None]) -> Optional:
    present = np.array([value is not None for value in values], np.bool_)
    return Optional(_integers(value or 0 for value in values), present)


# ---- programs and tasks


def _info(files: Reading) -> Columns:
    """Return the header and the lines of the info file as texts."""
    info = files.info()
    rows = [
        ("version", str(info.version)),
        ("header_size", str(info.header_size)),
        ("byte_order", info.order),
        ("word_class", str(int(info.word_class))),
        ("features", f"{int(info.features):#x}"),
        ("blocks", f"{int(info.blocks):#x}"),
        ("max_stack", str(info.max_stack)),
        ("reserved", info.reserved.hex()),
    ]
    parts = [line.partition(":") for line in info.lines if line]
    rows += [(key, value) if colon else ("", key) for key, colon, value in parts]
    return {"key": Categories.of([key for key, _ in rows]), "value": Categories.of([value for _, value in rows])}


def _tasks(files: Reading) -> Columns:
    rows = files.tasks()
    return {
        "tid": _integers([tid for tid, _, _ in rows]),
        "pid": _integers([pid for _, pid, _ in rows]),
        "program": Categories.of([program for _, _, program in rows]),
    }


def _task_events(files: Reading) -> Columns:
    """Return the lines of the task file."""
    events = files.task_events()
    processes = [None if isinstance(event, Dlopen) else event.pid for event in events]
    bases = [event.base if isinstance(event, Dlopen) else None for event in events]
    return {
        "time": _integers(event.time for event in events),
        "kind": Categories.of([TASK_EVENTS[type(event).__name__] for event in events]),
        "tid": _integers(event.pid if isinstance(event, Session | Fork) else event.tid for event in events),
        "pid": _optional(processes),
        "parent": _optional([event.ppid if isinstance(event, Fork) else None for event in events]),
        "sid": Categories.of([event.sid if isinstance(event, Session | Dlopen) else None for event in events]),
        "path": Categories.of([_path_of(event) for event in events]),
        "address": Optional(_addresses(base or 0 for base in bases), np.array([b is not None for b in bases], bool)),
    }


def _path_of(event: TaskEvent) -> str | None:
    return event.exename if isinstance(event, Session) else event.libname if isinstance(event, Dlopen) else None


def _modules(files: Reading) -> Columns:
    """Return the lines of the maps."""
    rows = [(sid, mapping) for sid, file in files.maps() for mapping in file.mappings]
    return {
        "sid": Categories.of([sid for sid, _ in rows]),
        "path": Categories.of([mapping.path for _, mapping in rows]),
        "address": _addresses(mapping.begin for _, mapping in rows),
        "end_address": _addresses(mapping.end for _, mapping in rows),
        "perms": Categories.of([mapping.perms for _, mapping in rows]),
        "file_offset": _addresses(mapping.offset for _, mapping in rows),
        "device": Categories.of([mapping.device for _, mapping in rows]),
        "inode": _addresses(mapping.inode for _, mapping in rows),
        "build_id": Categories.of([mapping.build_id for _, mapping in rows]),
    }


def _symbols(files: Reading) -> Columns:
    """Return the symbols of all modules and of the kernel; addresses count from the base of the module."""
    rows = [(name, file, symbol) for name, file in files.symbol_files() for symbol in file.symbols]
    return {
        "file": Categories.of([name for name, _, _ in rows]),
        "path": Categories.of([file.path for _, file, _ in rows]),
        "build_id": Categories.of([file.build_id for _, file, _ in rows]),
        "address": _addresses(symbol.address for _, _, symbol in rows),
        "size": _optional([symbol.size for _, _, symbol in rows]),
        "type": Categories.of([symbol.type for _, _, symbol in rows]),
        "name": Categories.of([symbol.name for _, _, symbol in rows]),
    }


def _debug_functions(files: Reading) -> Columns:
    """Return the functions of the debug information."""
    rows = [(name, file, item) for name, file in files.debug_files() for item in file.functions.values()]
    return {
        "file": Categories.of([name for name, _, _ in rows]),
        "path": Categories.of([file.path for _, file, _ in rows]),
        "build_id": Categories.of([file.build_id for _, file, _ in rows]),
        "address": _addresses(item.address for _, _, item in rows),
        "name": Categories.of([item.name for _, _, item in rows]),
        "arguments": Categories.of([item.arguments for _, _, item in rows]),
        "returns": Categories.of([item.returns for _, _, item in rows]),
        "source": Categories.of([item.source for _, _, item in rows]),
        "line": _optional([item.line for _, _, item in rows]),
    }


def _enums(files: Reading) -> Columns:
    """Return the values of the enumerations of the info file and of the debug information."""
    texts = [(INFO_FILE, files.info().specs("enumauto")), *((name, file.enums) for name, file in files.debug_files())]
    rows = [
        (file, enum, label, value)
        for file, lines in texts
        for enum, names in parse_enums(lines).items()
        for value, label in names.items()
    ]
    return {
        "file": Categories.of([file for file, _, _, _ in rows]),
        "name": Categories.of([name for _, name, _, _ in rows]),
        "label": Categories.of([label for _, _, label, _ in rows]),
        "value": _integers(value for _, _, _, value in rows),
    }


# ---- the scheduler


def _sched(files: Reading) -> Columns:
    """Return the scheduler events, ordered by time."""
    blocks = [block for _, block in files.perf_blocks()]

    def joined(columns: list[Array], dtype: Any) -> Array:
        return np.concatenate([np.empty(0, dtype), *columns])

    time = joined([block.time for block in blocks], np.uint64)
    order = np.argsort(time, kind="stable")
    names = DistinctStrings()
    kind = joined([block.kind for block in blocks], np.int8).astype(np.int32)
    has_parent = np.isin(kind, (TASK_NEW, TASK_EXIT))[order]
    codes = np.where(np.isin(kind, (TASK_NAME, EXEC)), 0, -1).astype(np.int32)
    first = 0
    for block in blocks:
        for row, text in block.comms.items():
            codes[first + row] = names.code(text)
        first += len(block)
    return {
        "time": saturated(time)[order],
        "cpu": joined([np.full(len(block), block.cpu) for block in blocks], np.int64)[order],
        "pid": joined([block.pid for block in blocks], np.int64)[order],
        "tid": joined([block.tid for block in blocks], np.int64)[order],
        "kind": Categories(kind[order], KINDS),
        "name": Categories(codes[order], names.values),
        "parent": Optional(joined([block.parent for block in blocks], np.int64)[order], has_parent),
        "parent_pid": Optional(joined([block.parent_pid for block in blocks], np.int64)[order], has_parent),
    }


# ---- the kernel


def _kernel(files: Reading) -> Columns:
    """Return the kernel events, ordered by time."""
    rows = files.kernel_events_by_time
    address = np.array([event.function if event.is_call else 0 for event in rows], np.uint64)
    return {
        "event": np.arange(len(rows)),
        "time": _integers(event.time for event in rows),
        "cpu": _integers(event.cpu for event in rows),
        "tid": _integers(event.tid for event in rows),
        "id": _integers(event.id for event in rows),
        "name": Categories.of([event.label for event in rows]),
        "address": address,
        "function": Categories.of(files.kernel_functions.of(address)),
        "depth": _integers(event.depth for event in rows),
        "missed": np.array([event.missed for event in rows], np.bool_),
        "data": Bytes(event.data for event in rows),
    }


def _kernel_values(files: Reading) -> Columns:
    """Return the values of kernel events, without the fields common to all events."""
    rows = [
        (number, name, value)
        for number, event in enumerate(files.kernel_events_by_time)
        for name, value in event.values.items()
    ]
    return {
        "event": _integers(number for number, _, _ in rows),
        "name": Categories.of([name for _, name, _ in rows]),
        "bits": np.array([0 if isinstance(value, str) else value % 2**64 for _, _, value in rows], np.uint64),
        "text": Categories.of([value if isinstance(value, str) else None for _, _, value in rows]),
    }


def _kernel_slices(files: Reading) -> Columns:
    """Return the calls of functions of the kernel, task by task."""
    rows = [(number, event) for number, event in enumerate(files.kernel_events_by_time) if event.is_call]
    columns: dict[str, list[Array]] = {name: [] for name in ("event", "end", "state")}
    tids = np.array([event.tid for _, event in rows], np.int64)
    for _, of_task in rows_of_each(tids):
        begin, end, state = _paired([rows[row][1] for row in of_task.tolist()])
        columns["event"].append(of_task[begin])
        columns["end"].append(of_task[end])
        columns["state"].append(state)
    first, last, state = (np.concatenate([np.empty(0, np.int64), *parts]) for parts in columns.values())
    entries, exits = ([rows[row] for row in column.tolist()] for column in (first, last))
    starts = zip(entries, state.tolist(), strict=True)
    start = _integers(_start(event) if code == NO_ENTRY else event.time for (_, event), code in starts)
    numbers = np.array([number for number, _ in rows], np.int64)
    address = np.array([event.function for _, event in entries], np.uint64)
    return {
        "tid": tids[first],
        "cpu": _integers(event.cpu for _, event in entries),
        "name": Categories.of(files.kernel_functions.of(address)),
        "start": start,
        "duration": _integers(event.time for _, event in exits) - start,
        "depth": _integers(event.depth for _, event in entries),
        "address": address,
        "state": Categories(state.astype(np.int8), STATES),
        "entry": np.where(state == NO_ENTRY, -1, numbers[first]),
        "exit": np.where((state == WHOLE) | (state == NO_ENTRY), numbers[last], -1),
    }


def _start(event: KernelEvent) -> int:
    """Return the start of a call by the event of its end."""
    value = event.values.get("calltime")
    return value if isinstance(value, int) and 0 < value <= event.time else event.time


def _paired(events: list[KernelEvent]) -> tuple[Array, Array, Array]:
    """Pair the entries and exits of one task.

    Returns:
        The rows of the first and the last event of each call (int64), and its state (int64), in the order of the ends.
        A call that is still open ends with the last event.
    """
    count = len(events)
    step = np.array([1 if event.name == FUNCTION_ENTRY else -1 for event in events], np.int8)
    depth = _integers(event.depth for event in events)
    address = np.array([event.function for event in events], np.uint64)
    begin, end, state, still = pair_calls(step, depth, address)
    return (
        np.concatenate([np.where(begin < 0, end, begin), still[::-1]]),
        np.concatenate([end, np.full(len(still), count - 1)]),
        np.concatenate([state, np.full(len(still), OPEN)]),
    )


def _messages(files: Reading) -> Columns:
    rows = files.messages()
    return {"time": _integers(time for time, _ in rows), "text": Categories.of([text for _, text in rows])}


FILE_TABLES: dict[str, Callable[[Reading], Columns]] = {
    "info": _info,
    "tasks": _tasks,
    "task_events": _task_events,
    "modules": _modules,
    "symbols": _symbols,
    "debug_functions": _debug_functions,
    "enums": _enums,
    "sched": _sched,
    "kernel": _kernel,
    "kernel_values": _kernel_values,
    "kernel_slices": _kernel_slices,
    "messages": _messages,
}
"""The tables that come from the small files, by name."""
