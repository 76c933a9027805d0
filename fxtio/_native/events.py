"""The kernels for byte streams in Python: what `events.c` does, for machines without a compiler and as its oracle.

All three run programs of `fxtio.codec.stream_program`; see `Op` for what a step means.  `scan_stream` counts,
`fill_stream` takes values to columns, `pack_stream` writes them.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from fxtio._native.operations import Fault, Op

Array = np.ndarray[Any, Any]
Columns = tuple[Array | None, ...]

_U64 = (1 << 64) - 1


class _Left(Exception):  # noqa: N818  # it is no error, but a way out
    """A fault ends the block."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault


def scan_stream(
    data: Array, begin: Array, end: Array, registers: Array, steps: Array, entry: Array, jumps: Array, mask: int,
    counts: Array, stop: Array, fault: Array,
) -> None:  # fmt: skip
    """Count the rows that each block gives, up to its first fault.

    Args:
        data: the bytes (uint8).
        begin: where each block begins (int64).
        end: where it ends.
        registers: its registers at the beginning (uint64, one row for each block).
        steps: the program.
        entry: its entries by first byte.
        jumps: its tables of subtypes.
        mask: the largest address.
        counts: filled with the number of rows by owner (int64, one row for each block).
        stop: filled with the place behind the last whole record (int64).
        fault: filled with what is wrong there, see `Fault` (uint8).
    """
    for block in range(len(begin)):
        run = _Reader(data, registers[block], steps, entry, jumps, mask, None, [0] * counts.shape[1])
        stop[block], fault[block] = run.block(int(begin[block]), int(end[block]))
        if fault[block]:  # again, without what the broken record had counted
            run = _Reader(data, registers[block], steps, entry, jumps, mask, None, [0] * counts.shape[1])
            run.block(int(begin[block]), int(stop[block]))
        counts[block] = run.rows


def fill_stream(
    data: Array, begin: Array, stop: Array, registers: Array, steps: Array, entry: Array, jumps: Array, mask: int,
    base: int, first: Array, columns: Columns,
) -> None:  # fmt: skip
    """Take the values of all records to columns.

    Args:
        data: as for `scan_stream`; likewise the next six.
        begin: where each block begins.
        stop: where it ends, as `scan_stream` found it.
        registers: its registers.
        steps: the program.
        entry: its entries.
        jumps: its tables.
        mask: the largest address.
        base: is added to the places of records.
        first: the first row of each block by owner (int64).
        columns: an array for each column, or None for one that nobody wants.

    Raises:
        ValueError: a block does not give what `scan_stream` counted.
    """
    for block in range(len(begin)):
        run = _Reader(data, registers[block], steps, entry, jumps, mask, columns, first[block].tolist(), base)
        try:
            _, fault = run.block(int(begin[block]), int(stop[block]))
        except IndexError:
            raise ValueError("more rows than the columns have room for") from None
        if fault:
            raise ValueError("the block has a fault")


class _Reader:
    """Runs a program over a block."""

    def __init__(
        self, data: Array, registers: Array, steps: Array, entry: Array, jumps: Array, mask: int,
        columns: Columns | None, rows: list[int], base: int = 0,
    ) -> None:  # fmt: skip
        self.data = bytes(data)
        self.registers: list[int] = registers.tolist()
        self.steps: list[list[int]] = steps.tolist()
        self.entry: list[int] = entry.tolist()
        self.jumps: list[int] = jumps.tolist()
        self.mask, self.columns, self.rows, self.base = mask, columns, rows, base
        self.at = self.end = 0

    def block(self, begin: int, end: int) -> tuple[int, int]:
        """Read all records; gives where it stopped, and why."""
        self.at, self.end = begin, end
        while self.at < end:
            here = self.at
            try:
                self.record(here)
            except _Left as left:
                return here, left.fault
        return self.at, Fault.NONE

    def record(self, here: int) -> None:
        step = self.entry[self.data[here]]
        self.at += 1
        kind = row = left = total = number = 0
        fresh = False
        slots = [0] * 4
        while True:
            if step < 0:
                raise _Left(Fault.UNKNOWN)
            op, a, b, column, slot = self.steps[step]
            step += 1
            if op == Op.END:
                self.rows[kind] += 1
                return
            elif op == Op.BEGIN:
                kind, row = a, self.rows[a]
                self.put(column, row, here + self.base)
            elif op == Op.SUBTYPE:
                step = self.jumps[a + self.byte()]
            elif op == Op.CLOCK:
                self.registers[a] = self.registers[a] + self.uleb() & _U64
            elif op == Op.NOW:
                self.put(column, row, self.registers[a])
            elif op == Op.PUT:
                self.put(column, row, a)
            elif op == Op.UNLESS:
                step = step if slots[slot] == a else b
            elif op in (Op.JUMP, Op.NEXT):
                step = b
            elif op == Op.FAIL:
                raise _Left(Fault.FORM)
            elif op == Op.COUNT:
                number, total, fresh = 0, 0, True
                left = 0 if a else self.uleb()
                if not a:
                    self.put(column, row, left)
            elif op == Op.LOOP:
                if slot:
                    done = self.ended()
                else:
                    if fresh and left > self.end - self.at:
                        raise _Left(Fault.BEYOND)
                    fresh, done = False, left == number
                if done:
                    row, step = self.rows[kind], b
                    if slot:
                        self.put(column, row, number)
                    continue
                number += 1
                row = self.rows[a]
                self.rows[a] += 1
            elif op == Op.TEXT:
                self.text(column, row, a)
            else:
                value = self.value(op, a, b)
                if op == Op.SUMMED:
                    total = value = total + value & _U64
                if slot >= 0:
                    slots[slot] = value
                self.put(column, row, value)

    def ended(self) -> bool:
        """Whether the next number is 0; then it is read."""
        here = self.at
        if self.uleb():
            self.at = here
            return False
        return True

    def value(self, op: int, a: int, b: int) -> int:
        """Read a value."""
        if op == Op.BYTE:
            return self.byte()
        if op in (Op.ULEB, Op.SUMMED):
            return self.uleb()
        if op == Op.SLEB:
            value = self.sleb()
            return value & self.mask if a else value
        if op == Op.RELATIVE:
            return (self.registers[a] + self.sleb() << b) & self.mask
        if op == Op.RUNNING:
            self.registers[a] = self.registers[a] + self.sleb() & self.mask
            return self.registers[a]
        assert op == Op.DOUBLE
        if self.at + 8 > self.end:
            raise _Left(Fault.CUT)
        self.at += 8
        return int.from_bytes(self.data[self.at - 8 : self.at], "little")

    def text(self, column: int, row: int, marked: int) -> None:
        if marked:
            mark = self.byte()
            if mark > 1:
                raise _Left(Fault.FORM)
            if mark == 0:
                return
        stop = self.data.find(0, self.at, self.end)
        if stop < 0:
            raise _Left(Fault.NO_END)
        self.put(column, row, self.at)
        self.put(column + 1, row, stop - self.at)
        self.at = stop + 1

    def put(self, column: int, row: int, value: int) -> None:
        if self.columns is None or column < 0:
            return
        array = self.columns[column]
        if array is not None:
            array[row] = value if array.dtype != np.uint64 or value >= 0 else value & _U64

    def byte(self) -> int:
        if self.at >= self.end:
            raise _Left(Fault.CUT)
        self.at += 1
        return self.data[self.at - 1]

    def uleb(self) -> int:
        value = shift = 0
        while self.at < self.end:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                if value > _U64:
                    raise _Left(Fault.TOO_LONG)
                return value
            if shift == 70:
                raise _Left(Fault.TOO_LONG)
        raise _Left(Fault.CUT)

    def sleb(self) -> int:
        value = shift = 0
        while self.at < self.end:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                if shift > 64 and byte not in (0x00, 0x7F):
                    raise _Left(Fault.TOO_LONG)
                value &= _U64
                sign = 1 << min(shift, 64) - 1
                return (value ^ sign) - sign
            if shift == 70:
                raise _Left(Fault.TOO_LONG)
        raise _Left(Fault.CUT)


def pack_stream(
    order: Array, start: int, starts: Array, kinds: Array, registers: Array, steps: Array, mask: int, columns: Columns,
    texts: Array, rows: Array, out: Array,
) -> tuple[int, int]:  # fmt: skip
    """Write records.

    Args:
        order: for every record which line of `starts` writes it (uint8).
        start: the first record to be written.
        starts: where the steps begin (int64).
        kinds: the kind that each line writes (int64).
        registers: the registers, moved on (uint64).
        steps: the program.
        mask: the largest address.
        columns: an array for each column that the lines use.
        texts: the bytes that texts are in (uint8).
        rows: the next row of each owner, moved on (int64).
        out: filled (uint8).

    Returns:
        The number of the first record that found no room, and how many bytes were written.

    Raises:
        ValueError: a value does not fit; or a column, or a row of one, is missing.
    """
    writer = _Writer(registers.tolist(), steps.tolist(), mask, columns, bytes(texts), rows.tolist())
    number, used = start, 0
    while number < len(order):
        line = int(order[number])
        kept = writer.registers.copy(), writer.rows.copy()
        piece = writer.record(int(starts[line]), int(kinds[line]))
        if used + len(piece) > len(out):
            writer.registers, writer.rows = kept
            break
        out[used : used + len(piece)] = np.frombuffer(piece, np.uint8)
        used += len(piece)
        number += 1
    registers[:] = writer.registers
    rows[:] = writer.rows
    return number, used


class _Writer:
    """Runs a program the other way."""

    def __init__(
        self, registers: list[int], steps: list[list[int]], mask: int, columns: Columns, texts: bytes, rows: list[int]
    ) -> None:
        self.registers, self.steps, self.mask = registers, steps, mask
        self.columns, self.texts, self.rows = columns, texts, rows

    def record(self, step: int, kind: int) -> bytes:
        out = bytearray()
        row, left, total = self.rows[kind], 0, 0
        slots = [0] * 4
        while True:
            op, a, b, column, slot = self.steps[step]
            step += 1
            if op == Op.END:
                self.rows[kind] += 1
                return bytes(out)
            elif op == Op.CONST:
                out.append(a)
            elif op == Op.CLOCK:
                value = self.get(column, row)
                out += _uleb(value - self.registers[a] & _U64)
                self.registers[a] = value
            elif op == Op.UNLESS:
                step = step if slots[slot] == a else b
            elif op in (Op.JUMP, Op.NEXT):
                step = b
            elif op == Op.FAIL:
                raise ValueError("nobody knows the form of a value")
            elif op == Op.COUNT:
                left, total = self.get(column, row), 0
                if left < 0:
                    raise ValueError("a list of less than no items")
                if not a:
                    out += _uleb(left)
            elif op == Op.LOOP:
                if left == 0:
                    row, step = self.rows[kind], b
                    if slot:
                        out.append(0)
                    continue
                left -= 1
                row = self.rows[a]
                self.rows[a] += 1
            elif op == Op.TEXT:
                out += self.text(column, row, a)
            elif op not in (Op.BEGIN, Op.NOW, Op.PUT):
                value = self.get(column, row)
                if slot >= 0:
                    slots[slot] = value
                out += self.value(op, a, b, value, total)
                total = value if op == Op.SUMMED else total

    def get(self, column: int, row: int) -> int:
        array = self.columns[column]
        if array is None or row >= len(array):
            raise ValueError(f"column {column} has no row {row}")
        return int(array[row])

    def text(self, column: int, row: int, marked: int) -> bytes:
        place, length = self.get(column, row), self.get(column + 1, row)
        if marked and place < 0:
            return b"\0"
        if not 0 <= place <= place + length <= len(self.texts):
            raise ValueError("a text lies outside of all texts")
        return b"\1" * marked + self.texts[place : place + length] + b"\0"

    def value(self, op: int, a: int, b: int, value: int, total: int) -> bytes:
        if op == Op.BYTE:
            return bytes([value])
        if op == Op.ULEB:
            return _uleb(value)
        if op == Op.SUMMED:
            return _uleb(value - total & _U64)
        if op == Op.DOUBLE:
            return struct.pack("<Q", value & _U64)
        if op == Op.SLEB and not a:
            return _sleb((value & _U64 ^ 1 << 63) - (1 << 63))
        if value > self.mask or value % (1 << b):
            raise ValueError("an address that does not fit")
        base = 0 if op == Op.SLEB else self.registers[a]
        half = (self.mask >> 1) + 1
        if op == Op.RUNNING:
            self.registers[a] = value
        return _sleb((((value >> b) - base + half) & self.mask) - half)


def _uleb(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _sleb(value: int) -> bytes:
    out = bytearray()
    while not -64 <= value < 64:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value & 0x7F)
    return bytes(out)
