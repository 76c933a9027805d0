"""The kernels that run steps over blocks of records: in C, and in Python where the C extension is missing.

Both have three functions: `scan` counts the rows of each block up to its first fault, `fill` reads values to columns,
`encode` writes records from columns.  The Python ones call the generated functions of `codec` record by record; tests
compare the two.  They need memory for one block at a time.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from fxtio import _native
from fxtio._native.constants import RULES, Fault, TimeFault
from fxtio.arrays import Array
from fxtio.codec.integers import MAX_INT64, MAX_UINT64
from fxtio.codec.stream.codec import column_decoder, encode_record, kind_at
from fxtio.codec.stream.declare import (
    Choice,
    Double,
    FirstByteField,
    Item,
    RecordLayout,
    Repeated,
    Sleb,
    StreamPart,
    StreamState,
    Text,
)
from fxtio.codec.stream.steps import Line, Steps
from fxtio.errors import DecodeError, EncodeError

Columns = tuple[Array | None, ...]


class Kernels:
    """The three kernels in C, which release the interpreter lock while they run."""

    def scan(
        self, steps: Steps, data: Array, begin: Array, end: Array, registers: Array, counts: Array, stop: Array,
        fault: Array, times: Array,
    ) -> None:  # fmt: skip
        """Count the rows that each block gives, up to its first fault, see `fxtio._native.python.scan_stream`."""
        mask = steps.dialect.mask
        _native.scan_stream(data, begin, end, registers, steps.table, steps.places, mask, counts, stop, fault, times)

    def fill(
        self, steps: Steps, data: Array, begin: Array, stop: Array, registers: Array, base: int, first: Array,
        columns: Columns,
    ) -> None:  # fmt: skip
        """Read the values of all records to columns, see `fxtio._native.python.fill_stream`.

        Raises:
            ValueError: a block does not give the rows that `scan` counted.
        """
        mask = steps.dialect.mask
        _native.fill_stream(data, begin, stop, registers, steps.table, steps.places, mask, base, first, columns)

    def encode(
        self, steps: Steps, order: Array, start: int, registers: Array, columns: Columns, texts: Array, rows: Array,
        out: Array,
    ) -> tuple[int, int]:  # fmt: skip
        """Write the records of one block until the output is full.  `fxtio._native.python.encode_stream` says how.

        Returns:
            The number of the first record for which there was no room, and how many bytes were written.

        Raises:
            ValueError: a value does not fit, or a column or a row of one is missing.
            EncodeError: likewise.
        """
        starts = np.array([line.start for line in steps.lines], np.int64)
        kinds = np.array([line.kind for line in steps.lines], np.int64)
        mask = steps.dialect.mask
        number, used = _native.encode_stream(
            order, start, starts, kinds, registers, steps.table, mask, columns, texts, rows, out
        )
        return number, used


class PythonKernels(Kernels):
    """The kernels in Python: record by record, with the generated functions."""

    def scan(
        self, steps: Steps, data: Array, begin: Array, end: Array, registers: Array, counts: Array, stop: Array,
        fault: Array, times: Array,
    ) -> None:  # fmt: skip
        """See `Kernels`."""
        dialect = steps.dialect
        for block, (first, last) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
            raw, state = data[first:last].tobytes(), steps.state(registers[block])
            rows, offset, reason, odd = [0] * steps.owners, 0, Fault.NONE, 0
            while offset < len(raw):
                try:
                    kind = kind_at(dialect, raw, offset, len(raw))
                    decode = column_decoder(dialect.classes[kind], dialect.version)
                    before = state.copy()
                    record, offset = decode(raw, offset, len(raw), state)
                except DecodeError as error:
                    reason = Fault(RULES.index(error.rule))
                    break
                rows[kind] += 1
                for name, clock in steps.clocks[kind]:
                    time = getattr(record, name)
                    odd |= (time > MAX_INT64 and TimeFault.LATE) | (time < before[clock] and TimeFault.BACK)
                for name, owner in _lists_of(steps, kind):
                    rows[owner] += len(getattr(record, name) or ())
            counts[block], stop[block], fault[block], times[block] = rows, first + offset, reason, odd

    def fill(
        self, steps: Steps, data: Array, begin: Array, stop: Array, registers: Array, base: int, first: Array,
        columns: Columns,
    ) -> None:  # fmt: skip
        """See `Kernels`."""
        dialect = steps.dialect
        for block, (start, end) in enumerate(zip(begin.tolist(), stop.tolist(), strict=True)):
            raw, state = data[start:end].tobytes(), steps.state(registers[block])
            filler = _Filler(steps, columns, first[block].tolist(), start)
            offset = 0
            while offset < len(raw):
                try:
                    kind = kind_at(dialect, raw, offset, len(raw))
                    decode = column_decoder(dialect.classes[kind], dialect.version)
                    record, after = decode(raw, offset, len(raw), state)
                    filler.record(kind, record, base + start + offset)
                except DecodeError:
                    raise ValueError("the block has a fault") from None
                except IndexError:
                    raise ValueError("more rows than the columns have room for") from None
                offset = after

    def encode(
        self, steps: Steps, order: Array, start: int, registers: Array, columns: Columns, texts: Array, rows: Array,
        out: Array,
    ) -> tuple[int, int]:  # fmt: skip
        """See `Kernels`."""
        builder = _Builder(steps, columns, bytes(texts), rows.tolist())
        state = steps.state(registers)
        number, used = start, 0
        while number < len(order):
            before, rows_before = state.copy(), list(builder.rows)
            record = builder.record(steps.lines[int(order[number])], state)
            raw = encode_record(steps.dialect, record, state)
            if used + len(raw) > len(out):
                state.restore(before)
                builder.rows = rows_before
                break
            out[used : used + len(raw)] = np.frombuffer(raw, np.uint8)
            used += len(raw)
            number += 1
        registers[:] = [getattr(state, name) for name in steps.registers]
        rows[:] = builder.rows
        return number, used


def kernels() -> Kernels:
    """Return the kernels in C, or those in Python where the extension is missing."""
    return Kernels() if _native.IMPLEMENTATION == "c" else PythonKernels()


def _lists_of(steps: Steps, kind: int) -> list[tuple[str, int]]:
    """Return the lists of a kind of record: their fields and the owners of their rows."""
    layout = steps.dialect.layouts[kind]
    assert layout is not None
    owners = ((name, steps.list_owner(kind, name)) for name, _ in layout.parts)
    return [(name, owner) for name, owner in owners if owner is not None]


class _Filler:
    """Stores the fields of records in columns.

    Args:
        steps: the steps, which plan the columns.
        columns: the columns, None for those that are not needed.
        rows: the next row of each owner, updated.
        begin: where the block begins, added to the offsets of texts.
    """

    def __init__(self, steps: Steps, columns: Columns, rows: list[int], begin: int) -> None:
        self.steps, self.columns, self.rows, self.begin = steps, columns, rows, begin

    def record(self, kind: int, record: Any, offset: int) -> None:
        """Store a record, which texts by place and doubles by bits (see `column_decoder`)."""
        layout = self.steps.dialect.layouts[kind]
        assert layout is not None
        row = self._next_row(kind)
        self._store(kind, "", "offset", row, offset)
        self._fields(kind, kind, layout, record, row)

    def _next_row(self, owner: int) -> int:
        self.rows[owner] += 1
        return self.rows[owner] - 1

    def _store(self, owner: int, field: str, role: str, row: int, value: int) -> None:
        number = self.steps.column_of(owner, field, role)
        column = None if number is None else self.columns[number]
        if column is not None:
            column[row] = value

    def _fields(self, kind: int, owner: int, layout: RecordLayout, record: Any, row: int) -> None:
        for name, part in layout.parts:
            value = getattr(record, name)
            if value is None:
                continue
            if isinstance(part, Repeated):
                self._store(owner, name, "count", row, len(value))
                self._items(kind, name, part, value)
            elif isinstance(value, tuple):
                self._store(owner, name, "text", row, self.begin + value[0])
                self._store(owner, name, "length", row, value[1])
            elif isinstance(part, Choice):
                self._store(owner, name, "bits", row, value & MAX_UINT64)
            else:
                self._store(owner, name, "value", row, value)
        for name in layout.absent:  # a clock goes on where the version has no time
            value = getattr(record, name)
            if value is not None:
                self._store(owner, name, "value", row, value)

    def _items(self, kind: int, name: str, part: Repeated, items: tuple[Any, ...]) -> None:
        owner = self.steps.list_owner(kind, name)
        assert owner is not None
        layout = self.steps.lists[owner - len(self.steps.dialect.classes)].layout
        for item in items:
            row = self._next_row(owner)
            if layout is None:
                self._store(owner, "", "value", row, item)
            else:
                self._fields(kind, owner, layout, item, row)


class _Builder:
    """Makes records of the rows of columns.

    Args:
        steps: the steps, which plan the columns.
        columns: the columns.
        texts: the bytes that offsets of texts refer to.
        rows: the next row of each owner, updated.
    """

    def __init__(self, steps: Steps, columns: Columns, texts: bytes, rows: list[int]) -> None:
        self.steps, self.columns, self.texts, self.rows = steps, columns, texts, rows

    def record(self, line: Line, state: StreamState) -> Any:
        """Return the next record of a line."""
        layout = self.steps.dialect.layouts[line.kind]
        assert layout is not None
        row = self.rows[line.kind]
        self.rows[line.kind] += 1
        values: dict[str, Any] = dict.fromkeys(name for name, _ in layout.parts)
        for name, part in layout.parts:
            if isinstance(part, FirstByteField):
                values[name] = part.field.get(line.first_byte)
        parts = layout.parts_behind(line.first_byte)
        self._fields(line.kind, line.kind, parts, layout, row, values)
        for name in layout.absent:
            clock = self.steps.column_of(line.kind, name, "value") is not None
            values[name] = getattr(state, name) if clock else None
        return layout.cls(**values)

    def _value(self, owner: int, field: str, role: str, row: int) -> int:
        number = self.steps.column_of(owner, field, role)
        assert number is not None
        column = self.columns[number]
        if column is None or not 0 <= row < len(column):
            raise ValueError(f"the column {role} of {field!r} has no row {row}")
        return int(column[row])

    def _fields(
        self, kind: int, owner: int, parts: list[tuple[str, StreamPart]], layout: RecordLayout, row: int,
        values: dict[str, Any],
    ) -> None:  # fmt: skip
        for name, part in parts:
            if part.when is not None and part.when[0] not in layout.fields and values[part.when[0]] not in part.when[1]:
                continue
            if isinstance(part, Repeated):
                values[name] = self._items(kind, name, self._value(owner, name, "count", row))
            elif isinstance(part, Choice):
                case = next((case for numbers, case in part.cases if values[part.by] in numbers), None)
                if case is None:
                    raise EncodeError(f"{values[part.by]} is the number of no encoding", f"{layout.name}.{part.by}")
                values[name] = self._case(owner, name, case, row)
            elif isinstance(part, Text):
                values[name] = self._text(owner, name, row)
            else:
                values[name] = self._value(owner, name, "value", row)

    def _case(self, owner: int, name: str, case: StreamPart, row: int) -> Any:
        if isinstance(case, Text):
            return self._text(owner, name, row)
        bits = self._value(owner, name, "bits", row)
        raw = bits.to_bytes(8, "little")
        if isinstance(case, Double):
            return struct.unpack("<d", raw)[0]
        return int.from_bytes(raw, "little", signed=isinstance(case, Sleb))

    def _text(self, owner: int, name: str, row: int) -> str | None:
        begin, size = self._value(owner, name, "text", row), self._value(owner, name, "length", row)
        if begin < 0:
            return None
        if not 0 <= size <= len(self.texts) - begin:
            raise ValueError("a text is outside of the bytes of all texts")
        return self.texts[begin : begin + size].decode("utf-8", "surrogateescape")

    def _items(self, kind: int, name: str, count: int) -> tuple[Any, ...]:
        if count < 0:
            raise ValueError("a list of less than no items")
        owner = self.steps.list_owner(kind, name)
        assert owner is not None
        layout = self.steps.lists[owner - len(self.steps.dialect.classes)].layout
        items: list[Item | int] = []
        for _ in range(count):
            row = self.rows[owner]
            self.rows[owner] += 1
            if layout is None:
                items.append(self._value(owner, "", "value", row))
                continue
            values: dict[str, Any] = dict.fromkeys(layout.cls.__struct_fields__)
            self._fields(kind, owner, list(layout.parts), layout, row, values)
            items.append(layout.cls(**values))
        return tuple(items)
