"""Columns of a single buffer by any of the kernels, and events made of them again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio import _native
from fxtio.arrays import Array
from fxtio.codec.stream.declare import (
    Choice,
    Dialect,
    Double,
    RecordLayout,
    Repeated,
    Sleb,
    StreamPart,
    Text,
    layout_of,
)
from fxtio.codec.stream.kernels import Kernels, PythonKernels
from fxtio.codec.stream.steps import Steps, steps_of
from fxtio.mono.headers import BufferHeader


def all_kernels() -> list[Kernels]:
    """Return the kernels in Python, and those in C where they are built."""
    return [PythonKernels(), Kernels()] if _native.IMPLEMENTATION == "c" else [PythonKernels()]


@dataclass
class Filled:
    """The columns that a kernel filled from a buffer."""

    dialect: Dialect
    steps: Steps
    data: Array
    registers: Array
    counts: Array
    stop: int
    fault: int
    times: int
    columns: tuple[Array, ...]

    def column(self, owner: int, field: str, role: str) -> Array:
        number = self.steps.column_of(owner, field, role)
        assert number is not None
        return self.columns[number]

    def order(self) -> Array:
        """Return the number of each event's line in the steps, in the order of the file."""
        number_of = {(line.first_byte, line.subtype): number for number, line in enumerate(self.steps.lines)}
        places = []
        for kind, layout in enumerate(self.dialect.layouts):
            if layout is None:
                continue
            subtype = self.dialect.classes[kind].subtype
            key = -1 if subtype is None else int(subtype)
            offsets = self.column(kind, "", "offset").tolist()
            places += [(offset, number_of[int(self.data[offset]), key]) for offset in offsets]
        return np.array([number for _, number in sorted(places)], np.uint8)


def columns_of(kernel: Kernels, dialect: Dialect, header: BufferHeader, raw: bytes) -> Filled:
    """Return all columns of a buffer."""
    steps = steps_of(dialect)
    data = np.frombuffer(raw, np.uint8)
    begin, end = np.zeros(1, np.int64), np.array([len(data)], np.int64)
    registers = np.array([[getattr(header, name) for name in steps.registers]], np.uint64)
    counts, stop, fault = np.zeros((1, steps.owners), np.int64), np.zeros(1, np.int64), np.zeros(1, np.uint8)
    times = np.zeros(1, np.uint8)
    kernel.scan(steps, data, begin, end, registers, counts, stop, fault, times)
    columns = tuple(steps.empty_column(number, counts[0, plan.owner]) for number, plan in enumerate(steps.columns))
    kernel.fill(steps, data, begin, stop, registers, 0, np.zeros_like(counts), columns)
    return Filled(dialect, steps, data, registers, counts, int(stop[0]), int(fault[0]), int(times[0]), columns)


def events_from_columns(dialect: Dialect, filled: Filled, data: bytes) -> list[Any]:
    """Rebuild the events from columns, in the order of the file."""
    events: list[tuple[int, Any]] = []
    for kind, layout in enumerate(dialect.layouts):
        if layout is None:
            continue
        used: dict[str, int] = {}
        for row, at in enumerate(filled.column(kind, "", "offset").tolist()):
            events.append((at, _record(filled, layout, kind, row, data, used, kind)))
    return [event for _, event in sorted(events, key=lambda pair: pair[0])]


def _record(
    filled: Filled, layout: RecordLayout, owner: int, row: int, data: bytes, used: dict[str, int], kind: int
) -> Any:
    values: dict[str, Any] = {}
    for name, part in layout.parts:
        if isinstance(part, Repeated):
            count = int(filled.column(owner, name, "count")[row])
            values[name] = None if count < 0 else _items(filled, layout, name, part, count, used, kind, data)
        elif isinstance(part, Choice):
            values[name] = _choice(filled, part, owner, name, row, values[part.by], data)
        elif isinstance(part, Text):
            values[name] = _text(filled, owner, name, row, data)
        elif part.when is not None and not _is_present(part, layout, values, filled, owner, row):
            values[name] = None
        else:
            values[name] = int(filled.column(owner, name, "value")[row])
    for name in layout.absent:
        number = filled.steps.column_of(owner, name, "value")  # a time all the same
        values[name] = None if number is None else int(filled.columns[number][row])
    return layout.cls(**values)


def _is_present(
    part: StreamPart, layout: RecordLayout, values: dict[str, Any], filled: Filled, owner: int, row: int
) -> bool:
    assert part.when is not None
    name, values_wanted = part.when
    if name in values:
        return values[name] in values_wanted
    flagged = next(field for field, many in layout.parts if isinstance(many, Repeated) and many.flag == name)
    return int(filled.column(owner, flagged, "count")[row]) >= 0


def _items(
    filled: Filled,
    layout: RecordLayout,
    name: str,
    part: Repeated,
    count: int,
    used: dict[str, int],
    kind: int,
    data: bytes,
) -> tuple[Any, ...]:
    first = used.get(name, 0)
    used[name] = first + count
    owner = filled.steps.list_owner(kind, name)
    assert owner is not None
    if isinstance(part.of, StreamPart):
        return tuple(filled.column(owner, "", "value")[first : first + count].tolist())
    inner = layout_of(part.of, layout.version)
    assert inner is not None
    return tuple(_record(filled, inner, owner, row, data, {}, kind) for row in range(first, first + count))


def _text(filled: Filled, owner: int, name: str, row: int, data: bytes) -> str | None:
    begin = int(filled.column(owner, name, "text")[row])
    size = int(filled.column(owner, name, "length")[row])
    return None if begin < 0 else data[begin : begin + size].decode("utf-8", "surrogateescape")


def _choice(filled: Filled, part: Choice, owner: int, name: str, row: int, by: int, data: bytes) -> Any:
    case = next(case for values, case in part.cases if by in values)
    if isinstance(case, Text):
        return _text(filled, owner, name, row, data)
    bits = filled.column(owner, name, "bits")[row : row + 1]
    if isinstance(case, Sleb):
        return int(bits.view(np.int64)[0])
    return float(bits.view(np.float64)[0]) if isinstance(case, Double) else int(bits[0])
