"""Columns of byte strings, compared with Python's own formatting row by row, by the kernel in C and by its stand-in."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio import _native
from fxtio._native import python as stand_in
from fxtio.codec.byte_columns import ByteColumn, ByteTable, decimals, hexadecimals, joined, thousandths
from fxtio.codec.protobuf import bytes_field, doubles, lengths, number_field, varint, varints

SIGNED = st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-1100, 1100))
UNSIGNED = st.lists(st.integers(0, (1 << 64) - 1) | st.integers(0, 20_000))


@given(SIGNED, UNSIGNED)
def test_numbers_as_text(signed: list[int], unsigned: list[int]) -> None:
    assert decimals(np.array(signed, np.int64)).strings() == [b"%d" % each for each in signed]
    assert decimals(np.array(unsigned, np.uint64)).strings() == [b"%d" % each for each in unsigned]
    times = [each for each in signed if each >= 0]
    assert thousandths(np.array(times, np.int64)).strings() == [b"%d.%03d" % divmod(each, 1000) for each in times]
    assert hexadecimals(np.array(unsigned, np.uint64)).strings() == [b"%x" % each for each in unsigned]
    assert hexadecimals(np.array(unsigned, np.uint64), width=16).strings() == [b"%016x" % each for each in unsigned]


def test_the_borders_of_numbers() -> None:
    powers = [10**exponent + step for exponent in range(19) for step in (-1, 0, 1)]
    assert decimals(np.array(powers, np.int64)).strings() == [b"%d" % each for each in powers]
    twos = sorted({(1 << exponent) - step for exponent in range(65) for step in (0, 1)} - {1 << 64})
    column = np.array(twos, np.uint64)
    assert varints(1, column, with_zero=True).strings() == [b"\x08" + varint(each) for each in twos]
    assert hexadecimals(column).strings() == [b"%x" % each for each in twos]
    assert decimals(np.empty(0, np.int64)).strings() == varints(1, np.empty(0, np.int64)).strings() == []


@given(SIGNED, UNSIGNED, st.lists(st.floats()), st.integers(1, (1 << 29) - 1))
def test_fields_of_protobuf(signed: list[int], unsigned: list[int], numbers: list[float], field: int) -> None:
    assert varints(field, np.array(signed, np.int64)).strings() == [number_field(field, each) for each in signed]
    assert varints(field, np.array(unsigned, np.uint64)).strings() == [number_field(field, each) for each in unsigned]
    assert doubles(field, np.array(numbers, np.float64)).strings() == [
        varint(field << 3 | 1) + struct.pack("<d", each) for each in numbers
    ]
    sizes = [each % 300 for each in unsigned]
    assert lengths(field, np.array(sizes, np.int64)).strings() == [
        bytes_field(field, bytes(size))[: -size or None] for size in sizes
    ]


@pytest.mark.parametrize("kernel", [_native.interleave, stand_in.interleave])
def test_rows_are_put_together(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "interleave", kernel)
    words = ByteColumn.of([b"one", b"", b"three"])
    rows = joined(3, b"<", words, words.take(np.array([2, 0, 1])), b">")
    assert rows.strings() == [b"<onethree>", b"<one>", b"<three>"]
    assert rows.data.tobytes() == b"<onethree><one><three>"
    assert rows.grouped(np.array([0, 0, 3]), 4).strings() == [b"<onethree><one>", b"", b"", b"<three>"]
    assert words.spread(np.array([4, 0, 1]), 5).strings() == [b"", b"three", b"", b"", b"one"]
    assert joined(0, b"<", words.take(np.empty(0, np.int64))).strings() == []
    assert joined(2).strings() == [b"", b""]
    assert joined(1, b"a", ByteColumn.of([b"b"])).strings() == [b"ab"]


@given(st.lists(st.lists(st.integers(-1, 40))))
def test_a_table_makes_each_string_once(columns: list[list[int]]) -> None:
    calls: list[int] = []

    def make(number: int) -> bytes:
        calls.append(number)
        return b"x" * (number % 5)

    table = ByteTable(make, b"none")
    earlier = []
    for numbers in columns:
        rows = table.rows(np.array(numbers, np.int32))
        earlier.append((rows, [b"none" if each < 0 else b"x" * (each % 5) for each in numbers]))
    assert all(rows.strings() == expected for rows, expected in earlier)  # also when the table has grown since
    assert calls == [*range(1 + max((max(each, default=-1) for each in columns), default=-1))]
