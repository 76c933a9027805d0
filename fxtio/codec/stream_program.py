"""Declarations of byte streams as programs for the kernels in `fxtio._native.events`, which run them over columns.

A program is a table of steps.  Each step is an operation, two operands, a column, and a slot in which the value is kept
for a later test.  For every first byte (and subtype) there is a straight line of steps: what the byte's fields rule out
is not in it.  The kernels know operations, not events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio._native.operations import Op
from fxtio.codec.stream import (
    SUBTYPE,
    Between,
    Byte,
    Choice,
    Clock,
    Dialect,
    Double,
    Form,
    Header,
    Item,
    Many,
    Part,
    Relative,
    Running,
    Sleb,
    Summed,
    Text,
    Uleb,
    form_of,
    parts_of,
)

Array = np.ndarray[Any, Any]

SAVED = 4
"""How many values a record can keep for later tests."""


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """A column that the kernels fill.

    Attributes:
        owner: whose rows it has: a kind, or the number of kinds plus that of a list.
        field: the field that it belongs to; empty for the place of a record.
        role: `value`, `count` (of a list), `bits` (a value of several forms), `text` (where a text begins), `length`
            (of the text before it), or `offset` (of the record).
        dtype: its type.
        blank: what stands where a row has no value; None if every row has one.
    """

    owner: int
    field: str
    role: str
    dtype: type[Any]
    blank: int | None = None


@dataclass(frozen=True, slots=True)
class ListPlan:
    """A list within records: its part, and its items' form (None for plain values)."""

    part: Many
    form: Form | None


class Program:
    """The steps of a dialect.

    Args:
        dialect: the dialect.

    Attributes:
        dialect: the dialect.
        registers: the names of running values and bases, in the order in which the kernels take them.
        steps: the steps (int64, five numbers each).
        entry: for every first byte where its steps begin, or -1 (int64).
        jumps: tables of 256 entries for subtypes, likewise (int64).
        starts: for every first byte and subtype (-1 for none) where the steps begin that write it.
        columns: the columns.
        lists: the lists.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.registers = _registers(dialect)
        self.columns: list[ColumnPlan] = []
        self.lists: list[ListPlan] = []
        self._ids: dict[tuple[int, str, str], int] = {}
        self._list_ids: dict[tuple[int, str], int] = {}
        self._steps: list[tuple[int, int, int, int, int]] = []
        self._saved: dict[str, int] = {}
        self.entry = np.full(256, -1, np.int64)
        self.starts: dict[tuple[int, int], int] = {}
        self._plan()
        jumps = [np.empty(0, np.int64)]
        for head, kind in enumerate(dialect.heads):
            if kind >= 0:
                self._record(head, kind, -1)
                self.entry[head] = self.starts[head, -1] + 1  # behind the first byte, which is read already
            elif kind == SUBTYPE:
                table = np.full(256, -1, np.int64)
                for (other, subtype), member in dialect.subtypes.items():
                    if other == head:
                        self._record(head, member, subtype)
                        table[subtype] = self.starts[head, subtype] + 3  # behind the first byte, the time, the subtype
                self.entry[head] = len(self._steps)
                self._steps.append(self._steps[table[table >= 0][0] - 2])  # the time is the same for all
                self._add(Op.SUBTYPE, 256 * (len(jumps) - 1))
                jumps.append(table)
        self.jumps = np.concatenate(jumps)
        self.steps = np.array(self._steps, np.int64)

    @property
    def owners(self) -> int:
        """How many sets of rows there are: one for each kind and each list."""
        return len(self.dialect.classes) + len(self.lists)

    def column_of(self, owner: int, field: str, role: str) -> int | None:
        """The number of a column; None if the version does not have it."""
        return self._ids.get((owner, field, role))

    def room(self, number: int, rows: int) -> Array:
        """An array for a column of so many rows."""
        plan = self.columns[number]
        return np.empty(rows, plan.dtype) if plan.blank is None else np.full(rows, plan.blank, plan.dtype)

    def list_of(self, kind: int, field: str) -> int | None:
        """The number of a list; None if the version does not have it."""
        return self._list_ids.get((kind, field))

    def _plan(self) -> None:
        """Give numbers to all columns and lists."""
        kinds = len(self.dialect.classes)
        for kind, form in enumerate(self.dialect.forms):
            if form is None:
                continue
            for name, part in form.parts:
                if isinstance(part, Many):
                    inner = None if isinstance(part.of, Part) else form_of(part.of, form.version)
                    self._list_ids[kind, name] = len(self.lists)
                    self.lists.append(ListPlan(part, inner))
            self._column(kind, "", "offset", np.int64)
            self._columns_of(kind, form)
        for number, plan in enumerate(self.lists):
            owner = kinds + number
            if plan.form is None:
                assert isinstance(plan.part.of, Part)
                self._columns_for(owner, "", plan.part.of)
            else:
                self._columns_of(owner, plan.form)

    def _columns_of(self, owner: int, form: Form) -> None:
        for name, part in form.parts:
            self._columns_for(owner, name, part)
        for name in form.absent:
            if any(isinstance(part, Clock) for part in parts_of(form.cls)[name]):
                self._column(owner, name, "value", np.uint64)

    def _columns_for(self, owner: int, name: str, part: Part) -> None:
        match part:
            case Many():
                self._column(owner, name, "count", np.int64, -1 if part.flag else None)
            case Text():
                self._column(owner, name, "text", np.int64, -1 if part.when else None)
                self._column(owner, name, "length", np.int64, 0 if part.when else None)
            case Choice(cases=cases):
                self._column(owner, name, "bits", np.uint64, 0)
                if any(isinstance(one, Text) for _, one in cases):
                    self._column(owner, name, "text", np.int64, -1)
                    self._column(owner, name, "length", np.int64, 0)
            case Byte() | Header():
                self._column(owner, name, "value", np.uint8)
            case Sleb(pointer=False):
                self._column(owner, name, "value", np.int64)
            case _:
                self._column(owner, name, "value", np.uint64, 0 if part.when else None)

    def _column(self, owner: int, field: str, role: str, dtype: type[Any], blank: int | None = None) -> None:
        self._ids[owner, field, role] = len(self.columns)
        self.columns.append(ColumnPlan(owner, field, role, dtype, blank))

    def _add(self, op: Op, a: int = 0, b: int = 0, column: int = -1, save: int = -1) -> int:
        self._steps.append((int(op), a, b, column, save))
        return len(self._steps) - 1

    def _aim(self, step: int) -> None:
        """Let a step that was added before jump to here."""
        op, a, _, column, save = self._steps[step]
        self._steps[step] = op, a, len(self._steps), column, save

    def _record(self, head: int, kind: int, subtype: int) -> None:
        """The steps of one record."""
        form = self.dialect.forms[kind]
        assert form is not None and form.word is not None
        self.starts[head, subtype] = self._add(Op.CONST, head)
        parts = form.under(head)
        if isinstance(parts[0][1], Clock):
            self._put(kind, *parts.pop(0))
        if subtype >= 0:
            self._add(Op.CONST, subtype)
        begin = self._add(Op.BEGIN, kind, 0, self._ids[kind, "", "offset"])
        for name, part in form.parts:
            if isinstance(part, Header):
                self._add(Op.PUT, part.field.get(head), 0, self._ids[kind, name, "value"])
        for name in [*form.absent, *(n for n, p in form.parts if isinstance(p, Clock))]:
            clock = next((one.of for one in parts_of(form.cls)[name] if isinstance(one, Clock)), None)
            if clock is not None:
                self._add(Op.NOW, self.registers.index(clock), 0, self._ids[kind, name, "value"])
        self._aim(begin)
        self._fields(kind, parts, form, kind)
        self._add(Op.END)

    def _fields(self, owner: int, parts: list[tuple[str, Part]], form: Form, kind: int) -> None:
        tested = {part.when[0] for _, part in parts if part.when} | {p.by for _, p in parts if isinstance(p, Choice)}
        self._saved = {name: number for number, name in enumerate(sorted(tested))}
        assert len(self._saved) <= SAVED
        header = form.fields
        for name, part in parts:
            if isinstance(part, Many):
                self._many(kind, name, part)
                continue
            if part.when is None or part.when[0] in header:
                self._put(owner, name, part)
                continue
            assert len(part.when[1]) == 1
            test = self._add(Op.UNLESS, part.when[1][0], save=self._saved[part.when[0]])
            self._put(owner, name, part)
            self._aim(test)

    def _put(self, owner: int, name: str, part: Part, role: str = "value") -> None:
        """The steps of one value, which goes to the column of this role; a text has a role of its own."""
        column = self._ids.get((owner, name, role), -1)
        save = self._saved.get(name, -1)
        match part:
            case Clock(of=of):  # its column is filled when the record's kind is known
                self._add(Op.CLOCK, self.registers.index(of), 0, column)
            case Byte():
                self._add(Op.BYTE, 0, 0, column, save)
            case Uleb():
                self._add(Op.ULEB, 0, 0, column, save)
            case Sleb(pointer=pointer):
                self._add(Op.SLEB, int(pointer), 0, column)
            case Relative(base=base, shift=shift):
                self._add(Op.RELATIVE, self.registers.index(base), shift, column)
            case Running(of=of):
                self._add(Op.RUNNING, self.registers.index(of), 0, column)
            case Summed():
                self._add(Op.SUMMED, 0, 0, column)
            case Double():
                self._add(Op.DOUBLE, 0, 0, column)
            case Text(marked=marked):
                self._add(Op.TEXT, int(marked), 0, self._ids[owner, name, "text"])
            case Choice():
                self._choice(owner, name, part)
            case Between():
                pass  # stands behind the count of its list
            case _:
                raise TypeError(f"{type(part).__name__} cannot be run")

    def _choice(self, owner: int, name: str, part: Choice) -> None:
        ends = []
        for values, one in part.cases:
            for value in values:
                test = self._add(Op.UNLESS, value, save=self._saved[part.by])
                self._put(owner, name, one, "bits")
                ends.append(self._add(Op.JUMP))
                self._aim(test)
        self._add(Op.FAIL)
        for end in ends:
            self._aim(end)

    def _many(self, kind: int, name: str, part: Many) -> None:
        owner = len(self.dialect.classes) + self._list_ids[kind, name]
        count = self._ids[kind, name, "count"]
        self._add(Op.COUNT, int(part.until_zero), 0, count)
        if part.between:
            self._add(Op.ULEB, 0, 0, self._ids[kind, part.between, "value"])
        loop = self._add(Op.LOOP, owner, 0, count, int(part.until_zero))
        saved = self._saved
        plan = self.lists[self._list_ids[kind, name]]
        if plan.form is None:
            assert isinstance(part.of, Part)
            self._put(owner, "", part.of)
        else:
            self._fields(owner, list(plan.form.parts), plan.form, kind)
        self._saved = saved
        self._add(Op.NEXT, 0, loop)
        self._aim(loop)


def _registers(dialect: Dialect) -> tuple[str, ...]:
    """The names of all running values and bases."""
    found: set[str] = set()
    waiting: list[type[Item]] = list(dialect.classes)
    for cls in waiting:
        for parts in parts_of(cls).values():
            for part in parts:
                inner = part.of if isinstance(part, Many) else part
                if isinstance(inner, Clock | Running):
                    found.add(inner.of)
                elif isinstance(inner, Relative):
                    found.add(inner.base)
                elif not isinstance(inner, Part) and inner not in waiting:
                    waiting.append(inner)
    return tuple(sorted(found))
