"""Columns of a single buffer by any of the kernels, and events made of them again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio import _native
from fxtio._native import events as twin
from fxtio.codec.stream import Choice, Dialect, Form, Many, Part, Sleb, Text, form_of
from fxtio.codec.stream_program import Program
from fxtio.mono.batch import program_of
from fxtio.mono.header import BufferHeader
from fxtio.mono.records import EVENTS

Array = np.ndarray[Any, Any]
Kernels = Any


def kernels() -> list[Kernels]:
    """The twin, and the kernels in C where they are there."""
    if _native.IMPLEMENTATION == "python":
        return [twin]
    from fxtio._native import _kernels

    return [twin, _kernels]


@dataclass
class Found:
    """What a kernel made of a buffer."""

    dialect: Dialect
    program: Program
    data: Array
    registers: Array
    counts: Array
    stop: int
    fault: int
    columns: tuple[Array, ...]

    @property
    def mask(self) -> int:
        return (1 << self.dialect.width) - 1

    def column(self, owner: int, field: str, role: str) -> Array:
        number = self.program.column_of(owner, field, role)
        assert number is not None
        return self.columns[number]

    def order(self) -> tuple[Array, Array, Array]:
        """The events' lines in the order of the file, where each line starts, and its kind."""
        lines = list(self.program.starts)
        known = {line: number for number, line in enumerate(lines)}
        places = []
        for kind, form in enumerate(self.dialect.forms):
            if form is None:
                continue
            subtype = self.dialect.classes[kind].subtype
            line = -1 if subtype is None else int(subtype)
            offsets = self.column(kind, "", "offset").tolist()
            places += [(at, known[int(self.data[at]), line]) for at in offsets]
        order = np.array([line for _, line in sorted(places)], np.uint8)
        kinds = [self.dialect.heads[h] if s < 0 else self.dialect.subtypes[h, s] for h, s in lines]
        return order, np.array([self.program.starts[line] for line in lines], np.int64), np.array(kinds, np.int64)


def columns_of(kernel: Kernels, dialect: Dialect, header: BufferHeader, raw: bytes) -> Found:
    """All columns of a buffer."""
    program, mask = program_of(dialect), (1 << dialect.width) - 1
    data = np.frombuffer(raw, np.uint8)
    begin, end = np.zeros(1, np.int64), np.array([len(data)], np.int64)
    registers = np.array([[getattr(header, name) for name in program.registers]], np.uint64)
    counts, stop, fault = np.zeros((1, program.owners), np.int64), np.zeros(1, np.int64), np.zeros(1, np.uint8)
    code = program.steps, program.entry, program.jumps, mask
    kernel.scan_stream(data, begin, end, registers, *code, counts, stop, fault)
    columns = tuple(program.room(number, counts[0, one.owner]) for number, one in enumerate(program.columns))
    kernel.fill_stream(data, begin, stop, registers, *code, 0, np.zeros_like(counts), columns)
    return Found(dialect, program, data, registers, counts, int(stop[0]), int(fault[0]), columns)


def events_from_columns(dialect: Dialect, found: Found, data: bytes) -> list[Any]:
    """The events again, in the order of the file."""
    made: list[tuple[int, Any]] = []
    for kind, form in enumerate(dialect.forms):
        if form is None:
            continue
        used: dict[str, int] = {}
        for row, at in enumerate(found.column(kind, "", "offset").tolist()):
            made.append((at, _record(found, form, kind, row, data, used, kind)))
    return [event for _, event in sorted(made, key=lambda pair: pair[0])]


def _record(found: Found, form: Form, owner: int, row: int, data: bytes, used: dict[str, int], kind: int) -> Any:
    values: dict[str, Any] = {}
    for name, part in form.parts:
        if isinstance(part, Many):
            count = int(found.column(owner, name, "count")[row])
            values[name] = None if count < 0 else _items(found, form, name, part, count, used, kind, data)
        elif isinstance(part, Choice):
            values[name] = _chosen(found, part, owner, name, row, values[part.by], data)
        elif isinstance(part, Text):
            values[name] = _text(found, owner, name, row, data)
        elif part.when is not None and not _asked(part, form, values, found, owner, row):
            values[name] = None
        else:
            values[name] = int(found.column(owner, name, "value")[row])
    for name in form.absent:
        number = found.program.column_of(owner, name, "value")  # a time all the same
        values[name] = None if number is None else int(found.columns[number][row])
    return form.cls(**values)


def _asked(part: Part, form: Form, values: dict[str, Any], found: Found, owner: int, row: int) -> bool:
    assert part.when is not None
    name, wanted = part.when
    if name in values:
        return values[name] in wanted
    flagged = next(one for one, many in form.parts if isinstance(many, Many) and many.flag == name)
    return int(found.column(owner, flagged, "count")[row]) >= 0


def _items(
    found: Found, form: Form, name: str, part: Many, count: int, used: dict[str, int], kind: int, data: bytes
) -> tuple[Any, ...]:
    first = used.get(name, 0)
    used[name] = first + count
    members = found.program.list_of(kind, name)
    assert members is not None
    owner = len(EVENTS) + members
    if isinstance(part.of, Part):
        return tuple(found.column(owner, "", "value")[first : first + count].tolist())
    inner = form_of(part.of, form.version)
    assert inner is not None
    return tuple(_record(found, inner, owner, row, data, {}, kind) for row in range(first, first + count))


def _text(found: Found, owner: int, name: str, row: int, data: bytes) -> str | None:
    begin = int(found.column(owner, name, "text")[row])
    size = int(found.column(owner, name, "length")[row])
    return None if begin < 0 else data[begin : begin + size].decode("utf-8", "surrogateescape")


def _chosen(found: Found, part: Choice, owner: int, name: str, row: int, by: int, data: bytes) -> Any:
    one = next(one for values, one in part.cases if by in values)
    if isinstance(one, Text):
        return _text(found, owner, name, row, data)
    bits = found.column(owner, name, "bits")[row : row + 1]
    if isinstance(one, Sleb):
        return int(bits.view(np.int64)[0])
    return float(bits.view(np.float64)[0]) if type(one).__name__ == "Double" else int(bits[0])
