"""The tables of whole stacks: `sample_stacks` has a row for each sample, `stacks` one for each distinct stack.

A file gives only what changes on a stack, and whole stacks would be far longer than the file: a recursion that is
sampled at every call would need the square of its depth.  So a row of `stacks` has its top frame, and the row of the
stack below it.  A stack that several samples have is one row.
"""

from __future__ import annotations

from typing import Any, get_type_hints

import msgspec
import numpy as np

from fxtio.codec.text.items import MarkedColumn
from fxtio.coreprofiler.frames import Block
from fxtio.coreprofiler.layout import PRESENT, UNDEFINED_IP, Pointer, nanoseconds, undefined_column
from fxtio.coreprofiler.records import MemorySample, StackSample
from fxtio.coreprofiler.state import STACK_RECORDS, Stacks, ThreadStack
from fxtio.table import Column, GrowingTable, Optional, Table

NO_ROW = -1


class _SampleRow(msgspec.Struct, frozen=True, gc=False):
    """The whole stacks of samples.

    Attributes:
        offset: the place of the line in the file, in bytes.
        time: nanoseconds from the start of profiling.
        thread: the Internal ID of the thread, -1 for `?`.
        count: sampling ticks; 0 in memory samples and for `?`.
        stack: the row in `stacks`, or -1 for an empty stack.
        matched: frames that were not left since the last sample.
        paused: whether profiling was paused.
        complete: false if lines were lost.
        sample: the row in `samples`, or -1.
        memory_sample: the row in `memory_samples`, or -1.
    """

    offset: int
    time: int
    thread: int
    count: int
    stack: int
    matched: int
    paused: bool
    complete: bool
    sample: int
    memory_sample: int


class _StackRow(msgspec.Struct, frozen=True, gc=False):
    """Stacks: a top frame, and the stack below it.

    Attributes:
        parent: the row of the stack below the top frame, or -1.
        depth: the number of frames below the top frame.
        function_iid: the Internal ID of the function of the top frame.
        ip: the instruction pointer of the top frame, null where there is none.
    """

    parent: int
    depth: int
    function_iid: int
    ip: int | None


STACK_TABLES: dict[str, type[Any]] = {"sample_stacks": _SampleRow, "stacks": _StackRow}
"""The tables, with the classes of their rows."""

_DTYPES = {int: np.int64, bool: np.bool_}


class StackTables:
    """Builds the tables of whole stacks, block by block.

    Args:
        stacks: the stacks as they are before the first block.
    """

    def __init__(self, stacks: Stacks) -> None:
        self._stacks = stacks
        self._row_of: dict[tuple[int, int | None, int | None], int] = {}  # by the row below, function and pointer
        self._rows: dict[int | None, list[int]] = {}  # for each thread, the rows of its stack from the bottom up
        self._counts = [0, 0]  # samples and memory samples
        self._tables = {name: GrowingTable() for name in STACK_TABLES}
        self._append([], [], 0.0)

    def add(self, block: Block, share: float) -> None:
        """Take in the next block; `share` is as for `tables.RecordCollector.add`."""
        samples: list[_SampleRow] = []
        frames: list[_StackRow] = []
        for offset, record in block.placed(*STACK_RECORDS):
            is_memory = type(record) is MemorySample
            if is_memory:
                thread = self._stacks.current(offset, record)
                matched = unchanged = len(thread.frames)
            elif type(record) is StackSample:
                thread = self._stacks.change(offset, record)
                matched, unchanged = max(len(thread.frames) - len(record.frames), 0), thread.unchanged
            else:
                self._stacks.observe(record)
                continue
            row = self._row(record.thread, thread, unchanged, frames)
            number = self._counts[is_memory]
            self._counts[is_memory] += 1
            samples.append(
                _SampleRow(
                    offset,
                    nanoseconds(record.timestamp),
                    NO_ROW if record.thread is None else record.thread,
                    0 if is_memory else record.count or 0,
                    row,
                    matched,
                    self._stacks.paused,
                    thread.complete,
                    NO_ROW if is_memory else number,
                    number if is_memory else NO_ROW,
                )
            )
        self._append(samples, frames, share)

    def _row(self, iid: int | None, thread: ThreadStack, unchanged: int, frames: list[_StackRow]) -> int:
        """Return the row of a thread's stack, and add the rows that are new.

        Args:
            iid: the thread's Internal ID.
            thread: its stack.
            unchanged: number of frames whose functions are as they were; the pointer of the last of them may be new.
            frames: receives the new rows.
        """
        rows = self._rows.setdefault(iid, []) if thread.followed else []
        begin = max(min(unchanged - 1, len(rows)), 0)
        del rows[begin:]
        below = rows[-1] if rows else NO_ROW
        for depth, frame in enumerate(thread.frames[begin:], begin):
            key = below, frame.function_iid, frame.ip
            row = self._row_of.get(key)
            if row is None:
                row = self._row_of[key] = len(self._row_of)
                function = NO_ROW if frame.function_iid is None else frame.function_iid
                frames.append(_StackRow(below, depth, function, frame.ip))
            rows.append(row)
            below = row
        return below

    def _append(self, samples: list[_SampleRow], frames: list[_StackRow], share: float) -> None:
        new = _columns(_SampleRow, samples), _columns(_StackRow, frames)
        for table, columns in zip(STACK_TABLES, new, strict=True):
            self._tables[table].append(columns, share)

    def tables(self) -> dict[str, Table]:
        """Return both tables."""
        return {name: Table(table.columns()) for name, table in self._tables.items()}


def _columns(cls: Any, rows: list[Any]) -> dict[str, Column]:
    """Convert rows of a class to columns."""
    result: dict[str, Column] = {}
    for name, kind in get_type_hints(cls).items():
        values = [getattr(row, name) for row in rows]
        if kind in _DTYPES:
            result[name] = np.array(values, _DTYPES[kind])
        else:
            result |= pointer_columns(name, Pointer("ip").column(values))
    return result


def pointer_columns(name: str, column: MarkedColumn) -> dict[str, Column]:
    """Return the columns of a table for instruction pointers: the numbers, and which of them are `?`."""
    return {
        name: Optional(column.values, column.marks == PRESENT),
        undefined_column(name): column.marks == UNDEFINED_IP,
    }
