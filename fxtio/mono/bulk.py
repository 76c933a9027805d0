"""Many events at once: columns in, buffers out, without Python for each event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fxtio import _native
from fxtio.codec.stream import Header, Many, Part, Relative, Running, Text, form_of
from fxtio.codec.stream_program import ColumnPlan, Program
from fxtio.errors import EncodeError
from fxtio.mono.header import BufferHeader, encode_buffer_header
from fxtio.mono.pack import LIMIT
from fxtio.mono.records import EVENTS, Event

Array = np.ndarray[Any, Any]
Columns = Mapping[str, Any]


def packed(program: Program, thread: int, tables: Mapping[type[Event], Columns]) -> Iterator[bytes]:
    """The buffers of many events of a thread, by time.

    Args:
        program: of the data version.
        thread: who writes them.
        tables: for each kind of event its fields: an array, a plain value for all events, None for nothing, and for a
            list of plain values a pair of counts and values.  `time` has as many rows as there are events.

    Raises:
        EncodeError: a column is missing or has another length, a value does not fit, or an event has texts or items.
    """
    work = _Work(program)
    for cls, columns in tables.items():
        work.take(cls, columns)
    yield from work.buffers(thread)


class _Work:
    """The columns of all events, and which event comes when."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.columns: list[Array | None] = [None] * len(program.columns)
        self.lines = list(program.starts)
        self._line_of = {line: number for number, line in enumerate(self.lines)}
        self._times: list[Array] = []
        self._order: list[Array] = []
        self._firsts: dict[str, int] = {"pointer": 0, "object": 0, "method": 0}

    def take(self, cls: type[Event], columns: Columns) -> None:
        """Take in the events of a kind."""
        dialect = self.program.dialect
        form = form_of(cls, dialect.version) if cls in EVENTS else None
        if form is None or form.word is None:
            raise EncodeError(f"data version {dialect.version} does not have it", cls.__name__)
        kind = EVENTS.index(cls)
        rest = dict(columns)
        time = _array(rest.get("time"), np.dtype(np.uint64), None, f"{cls.__name__}.time")
        rows = len(time)
        word = np.full(rows, form.word.pattern("tag", "const")[1], np.uint64)
        for name, part in form.parts:
            where = f"{cls.__name__}.{name}"
            value = rest.pop(name, None)
            if isinstance(part, Many):
                if part.flag:
                    word |= form.fields[part.flag].put(int(value is not None), cls.__name__)
                if value is not None or not part.flag:
                    self._list(kind, name, part, value, rows, where)
                continue
            if isinstance(part, Text):
                raise EncodeError("texts are not written in bulk", where)
            if isinstance(part, Header):
                word |= part.field.put(_array(value, np.dtype(np.uint64), rows, where), cls.__name__)
                continue
            number = self.program.column_of(kind, name, "value")
            assert number is not None
            self._put(number, part, value, rows, where)
        if unknown := [name for name, value in rest.items() if value is not None]:
            raise EncodeError(f"data version {dialect.version} has no such field", f"{cls.__name__}.{unknown[0]}")
        subtype = -1 if cls.subtype is None else int(cls.subtype)
        known = np.full(256, len(self.lines), np.int64)
        for head, other in self.lines:
            if other == subtype and (dialect.heads[head] == kind or dialect.subtypes.get((head, other)) == kind):
                known[head] = self._line_of[head, other]
        order = known[word.astype(np.intp)]
        if len(order) and int(order.max()) == len(self.lines):
            raise EncodeError("a field of the first byte has a value without a meaning", cls.__name__)
        self._times.append(time)
        self._order.append(order.astype(np.uint8))

    def _list(self, kind: int, name: str, part: Many, value: Any, rows: int, where: str) -> None:
        if not isinstance(part.of, Part):
            raise EncodeError("lists of items are not written in bulk", where)
        counts, values = ([0] * rows, []) if value is None else value
        number = self.program.column_of(kind, name, "count")
        members = self.program.list_of(kind, name)
        assert number is not None and members is not None
        self.columns[number] = counted = _array(counts, np.dtype(np.int64), rows, where)
        inner = self.program.column_of(len(EVENTS) + members, "", "value")
        assert inner is not None
        self._put(inner, part.of, values, int(counted.sum()), where)

    def _put(self, number: int, part: Part, value: Any, rows: int, where: str) -> None:
        plan: ColumnPlan = self.program.columns[number]
        column = self.columns[number] = _array(value, np.dtype(plan.dtype), rows, where)
        if isinstance(part, Relative | Running):
            base, shift = (part.base, part.shift) if isinstance(part, Relative) else (part.of, 0)
            some = column[: 1 << 10]
            some = some[some > 0]
            if len(some) and not self._firsts[base]:
                self._firsts[base] = int(some[0]) >> shift

    def buffers(self, thread: int) -> Iterator[bytes]:
        """The buffers."""
        program = self.program
        times = np.concatenate([np.empty(0, np.uint64), *self._times])
        order = np.concatenate([np.empty(0, np.uint8), *self._order])
        if len(self._times) > 1:
            place = np.argsort(times, kind="stable")
            times, order = times[place], order[place]
        starts = np.array([program.starts[line] for line in self.lines], np.int64)
        dialect = program.dialect
        kinds = np.array([dialect.heads[h] if s < 0 else dialect.subtypes[h, s] for h, s in self.lines], np.int64)
        rows = np.zeros(program.owners, np.int64)
        mask, texts, number = (1 << dialect.width) - 1, np.empty(0, np.uint8), 0
        room = LIMIT
        while number < len(order):
            header = BufferHeader(time=int(times[number]), thread=thread, **self._firsts)
            registers = np.array([getattr(header, name) for name in program.registers], np.uint64)
            out = np.empty(room, np.uint8)
            try:
                after, used = _native.pack_stream(
                    order, number, starts, kinds, registers, program.steps, mask, tuple(self.columns), texts, rows, out
                )
            except ValueError as error:
                raise EncodeError(str(error), "column") from None
            if after == number:  # an event larger than a buffer
                room *= 2
                continue
            yield encode_buffer_header(header, used) + out[:used].tobytes()
            number, room = after, LIMIT


def _array(value: Any, dtype: np.dtype[Any], rows: int | None, where: str) -> Array:
    """A column of so many rows and this type; nothing is cut off to make it fit."""
    if value is None:
        raise EncodeError("no value given", where)
    given = np.asarray(value)
    if given.ndim == 0 and rows is not None:
        given = np.broadcast_to(given, rows)
    if given.ndim != 1 or (rows is not None and len(given) != rows):
        raise EncodeError(f"{given.shape} values for {rows} rows", where)
    if len(given) == 0:
        return np.empty(0, dtype)
    if given.dtype.kind not in "iu":
        raise EncodeError(f"integers are wanted, not {given.dtype}", where)
    limits = np.iinfo(dtype)
    if int(given.min()) < limits.min or int(given.max()) > limits.max:
        raise EncodeError(f"values are not all from {limits.min} to {limits.max}", where)
    return np.ascontiguousarray(given, dtype)
