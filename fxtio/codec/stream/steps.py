"""Declarations of byte streams as steps, which the kernels run over blocks of records, to columns and back.

The steps of a dialect are a table, see `fxtio._native.constants.Op`.  For every first byte (and subtype) there is a
straight line of steps; what the fields of the byte rule out is not in it.  The kernels know operations, not records.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from fxtio._native.constants import MAX_SLOTS, Op
from fxtio.arrays import Array
from fxtio.codec.stream.declare import (
    SUBTYPE,
    AfterCount,
    Byte,
    Choice,
    Clock,
    Dialect,
    FirstByteField,
    Item,
    RecordLayout,
    Relative,
    Repeated,
    Running,
    Sleb,
    StreamPart,
    StreamState,
    Text,
    layout_of,
    parts_of,
    single,
)


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """A column that the kernels fill.

    Attributes:
        owner: whose rows it has: a kind of record, or the number of kinds plus that of a list.
        field: its field; empty for the offset of a record, and for plain values of a list.
        role: `value`, `count` (of a list), `bits` (a value of several encodings), `text` (the offset of a text),
            `length` (its size in bytes), or `offset` (of the record).
        dtype: its type.
        blank: what is there where a row has no value; None if every row has one.
    """

    owner: int
    field: str
    role: str
    dtype: type[Any]
    blank: int | None = None


@dataclass(frozen=True, slots=True)
class ListPlan:
    """A list within records: its part, and the layout of its items (None for plain values)."""

    part: Repeated
    layout: RecordLayout | None


@dataclass(frozen=True, slots=True)
class Line:
    """The straight line of steps for records with one first byte and subtype.

    Attributes:
        first_byte: the first byte.
        subtype: the subtype, -1 for none.
        kind: the kind of record.
        start: the step at which writing such a record begins.
    """

    first_byte: int
    subtype: int
    kind: int
    start: int


class Steps:
    """Holds the steps by which the kernels read and write the records of a dialect.

    Args:
        dialect: the dialect.

    Attributes:
        dialect: the dialect.
        registers: the names of running values and bases, in the order in which the kernels take them.
        table: the steps (int64, `STEP_FIELDS` numbers each).
        places: for every first byte the step at which reading goes on after it, or -1; then likewise for all subtypes
            of each first byte that has them (int64).
        lines: the lines of steps, one for each first byte and subtype.
        columns: the columns.
        lists: the lists.
        clocks: for every kind the fields with a time of their own, each with its register.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.registers = _registers(dialect)
        self.clocks = [
            tuple((name, part.of) for name, part in layout.parts if isinstance(part, Clock))
            if layout is not None
            else ()
            for layout in dialect.layouts
        ]
        self.columns: list[ColumnPlan] = []
        self.lists: list[ListPlan] = []
        self._ids: dict[tuple[int, str, str], int] = {}
        self._list_ids: dict[tuple[int, str], int] = {}
        self._steps: list[tuple[int, int, int, int, int]] = []
        self._slots: dict[str, int] = {}
        places = [np.full(256, -1, np.int64)]
        self.lines: list[Line] = []
        self._plan()
        for first_byte, kind in enumerate(dialect.kinds):
            if kind >= 0:
                places[0][first_byte] = self._record(first_byte, kind, -1) + 1  # the first byte is read already
            elif kind == SUBTYPE:
                table = np.full(256, -1, np.int64)
                for (other, subtype), member in dialect.subtypes.items():
                    if other == first_byte:  # after the first byte, the time and the subtype
                        table[subtype] = self._record(first_byte, member, subtype) + 3
                places[0][first_byte] = len(self._steps)
                self._steps.append(self._steps[table[table >= 0][0] - 2])  # reads the time, the same for all subtypes
                self._add(Op.SUBTYPE, 256 * len(places))
                places.append(table)
        self.places = np.concatenate(places)
        self.table = np.array(self._steps, np.int64)

    @property
    def owners(self) -> int:
        """The number of sets of rows: one for each kind and each list."""
        return len(self.dialect.classes) + len(self.lists)

    def column_of(self, owner: int, field: str, role: str) -> int | None:
        """Return the number of a column, or None if the version does not have it."""
        return self._ids.get((owner, field, role))

    def empty_column(self, number: int, rows: int) -> Array:
        """Return an array for the rows of a column, with blanks where a row may have no value."""
        plan = self.columns[number]
        return np.empty(rows, plan.dtype) if plan.blank is None else np.full(rows, plan.blank, plan.dtype)

    def list_owner(self, kind: int, field: str) -> int | None:
        """Return the owner of the rows of a list, or None if the version does not have the list."""
        number = self._list_ids.get((kind, field))
        return None if number is None else len(self.dialect.classes) + number

    def state(self, registers: Array) -> StreamState:
        """Return the registers of a block as the generated functions take them."""
        return StreamState(self.dialect.mask, dict(zip(self.registers, registers.tolist(), strict=True)))

    def _plan(self) -> None:
        """Number all columns and lists."""
        kinds = len(self.dialect.classes)
        for kind, layout in enumerate(self.dialect.layouts):
            if layout is None:
                continue
            for name, part in layout.parts:
                if isinstance(part, Repeated):
                    inner = None if isinstance(part.of, StreamPart) else layout_of(part.of, layout.version)
                    self._list_ids[kind, name] = len(self.lists)
                    self.lists.append(ListPlan(part, inner))
            self._column(kind, "", "offset", np.int64)
            self._columns_of(kind, layout)
        for number, plan in enumerate(self.lists):
            owner = kinds + number
            if plan.layout is None:
                assert isinstance(plan.part.of, StreamPart)
                self._columns_for(owner, "", plan.part.of)
            else:
                self._columns_of(owner, plan.layout)

    def _columns_of(self, owner: int, layout: RecordLayout) -> None:
        for name, part in layout.parts:
            self._columns_for(owner, name, part)
        for name in layout.absent:
            if any(isinstance(part, Clock) for part in parts_of(layout.cls)[name]):
                self._column(owner, name, "value", np.uint64)

    def _columns_for(self, owner: int, name: str, part: StreamPart) -> None:
        match part:
            case Repeated():
                self._column(owner, name, "count", np.int64, -1 if part.flag else None)
            case Text():
                self._column(owner, name, "text", np.int64, -1 if part.when else None)
                self._column(owner, name, "length", np.int64, 0 if part.when else None)
            case Choice(cases=cases):
                self._column(owner, name, "bits", np.uint64, 0)
                if any(isinstance(case, Text) for _, case in cases):
                    self._column(owner, name, "text", np.int64, -1)
                    self._column(owner, name, "length", np.int64, 0)
            case Byte() | FirstByteField():
                self._column(owner, name, "value", np.uint8)
            case Sleb(pointer=False):
                self._column(owner, name, "value", np.int64)
            case _:
                self._column(owner, name, "value", np.uint64, 0 if part.when else None)

    def _column(self, owner: int, field: str, role: str, dtype: type[Any], blank: int | None = None) -> None:
        self._ids[owner, field, role] = len(self.columns)
        self.columns.append(ColumnPlan(owner, field, role, dtype, blank))

    def _add(self, op: int, a: int = 0, b: int = 0, column: int = -1, slot: int = -1) -> int:
        self._steps.append((int(op), a, b, column, slot))
        return len(self._steps) - 1

    def _set_target(self, step: int) -> None:
        """Set the target of an earlier step to the next step."""
        op, a, _, column, slot = self._steps[step]
        self._steps[step] = op, a, len(self._steps), column, slot

    def _record(self, first_byte: int, kind: int, subtype: int) -> int:
        """Add the line of a record and return its first step."""
        layout = self.dialect.layouts[kind]
        assert layout is not None and layout.word is not None
        start = self._add(Op.CONST, first_byte)
        self.lines.append(Line(first_byte, subtype, kind, start))
        parts = layout.parts_behind(first_byte)
        begin = Op.BEGIN, kind, 0, self._ids[kind, "", "offset"]
        if subtype < 0:
            self._add(*begin)
        if isinstance(parts[0][1], Clock):
            self._put(kind, *parts.pop(0))
        if subtype >= 0:
            self._add(Op.CONST, subtype)
            self._add(*begin)
        for name in [*layout.absent, *(n for n, p in layout.parts if isinstance(p, Clock))]:
            clock = next((mark.of for mark in parts_of(layout.cls)[name] if isinstance(mark, Clock)), None)
            if clock is not None:
                self._add(Op.NOW, self.registers.index(clock), 0, self._ids[kind, name, "value"])
        for name, part in layout.parts:
            if isinstance(part, FirstByteField):
                self._add(Op.PUT, part.field.get(first_byte), 0, self._ids[kind, name, "value"])
        self._fields(kind, parts, layout, kind)
        self._add(Op.END)
        return start

    def _fields(self, owner: int, parts: list[tuple[str, StreamPart]], layout: RecordLayout, kind: int) -> None:
        tested = {part.when[0] for _, part in parts if part.when} | {p.by for _, p in parts if isinstance(p, Choice)}
        self._slots = {name: number for number, name in enumerate(sorted(tested))}
        assert len(self._slots) <= MAX_SLOTS
        header = layout.fields
        for name, part in parts:
            if isinstance(part, Repeated):
                self._list(kind, name, part)
                continue
            if part.when is None or part.when[0] in header:
                self._put(owner, name, part)
                continue
            assert len(part.when[1]) == 1
            test = self._add(Op.UNLESS, part.when[1][0], slot=self._slots[part.when[0]])
            self._put(owner, name, part)
            self._set_target(test)

    def _put(self, owner: int, name: str, part: StreamPart, role: str = "value") -> None:
        """Add the steps of one value, which goes to the column of this role; a text has a role of its own."""
        column = self._ids.get((owner, name, role), -1)
        slot = self._slots.get(name, -1)
        if isinstance(part, Choice):
            self._choice(owner, name, part)
        elif not isinstance(part, AfterCount):  # which is read after the count of its list
            form = single(part)
            if form.op == Op.END:
                raise TypeError(f"{type(part).__name__} is not for kernels")
            a, b = form.operands
            if form.op == Op.TEXT:
                column = self._ids[owner, name, "text"]
            self._add(form.op, self.registers.index(form.register) if form.register else a, b, column, slot)

    def _choice(self, owner: int, name: str, part: Choice) -> None:
        ends = []
        for values, case in part.cases:
            for value in values:
                test = self._add(Op.UNLESS, value, slot=self._slots[part.by])
                self._put(owner, name, case, "bits")
                ends.append(self._add(Op.JUMP))
                self._set_target(test)
        self._add(Op.FAIL)
        for end in ends:
            self._set_target(end)

    def _list(self, kind: int, name: str, part: Repeated) -> None:
        owner = len(self.dialect.classes) + self._list_ids[kind, name]
        count = self._ids[kind, name, "count"]
        self._add(Op.COUNT, int(part.until_zero), 0, count)
        if part.after_count:
            self._add(Op.ULEB, 0, 0, self._ids[kind, part.after_count, "value"])
        loop = self._add(Op.LOOP, owner, 0, count, int(part.until_zero))
        slots = self._slots
        plan = self.lists[self._list_ids[kind, name]]
        if plan.layout is None:
            assert isinstance(part.of, StreamPart)
            self._put(owner, "", part.of)
        else:
            self._fields(owner, list(plan.layout.parts), plan.layout, kind)
        self._slots = slots
        self._add(Op.NEXT, 0, loop)
        self._set_target(loop)


def _registers(dialect: Dialect) -> tuple[str, ...]:
    """Return the names of all running values and bases."""
    names: set[str] = set()
    classes: list[type[Item]] = list(dialect.classes)
    for cls in classes:
        for parts in parts_of(cls).values():
            for part in parts:
                inner = part.of if isinstance(part, Repeated) else part
                if isinstance(inner, Clock | Running | Relative):
                    names.add(single(inner).register)
                elif not isinstance(inner, StreamPart) and inner not in classes:
                    classes.append(inner)
    return tuple(sorted(names))


@cache
def steps_of(dialect: Dialect) -> Steps:
    """Return the steps of a dialect, made on first use."""
    return Steps(dialect)
