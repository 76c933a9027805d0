"""Distinct values are numbered in the order in which they come, and each has its rows, whatever integers they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio.codec.columns import StreamColumn
from fxtio.codec.distinct import DistinctStrings, hash_texts, number_distinct, number_rows, rows_of_each


@pytest.mark.parametrize("dtype", ["<u8", ">u8", "<i8", "<i4", "u1"])
@given(rows=st.lists(st.integers(0, 5)), stride=st.sampled_from([1, 2, -1]))
def test_numbers_follow_the_order_of_first_use(dtype: str, rows: list[int], stride: int) -> None:
    values: Any = np.array(rows, dtype)[::stride]
    codes, first = number_distinct(values)
    assert values[first].tolist() == list(dict.fromkeys(values.tolist()))
    assert values[first][codes].tolist() == values.tolist()


def test_negative_values_are_distinct_from_positive_ones() -> None:
    codes, first = number_distinct(np.array([-1, 1, -1], np.int32))
    assert (codes.tolist(), first.tolist()) == ([0, 1, 0], [0, 1])


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 2), st.sampled_from([0, 1, 2**64 - 1]))))
def test_rows_of_several_columns_are_numbered_like_values(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array([row[n] for row in rows], dtype) for n, dtype in enumerate(("<i8", "<i4", "<u8"))]
    codes, first = number_rows(columns)
    assert [rows[at] for at in first.tolist()] == list(dict.fromkeys(rows))
    assert [rows[at] for at in first[codes].tolist()] == rows


@pytest.mark.parametrize("dtype", ["<u8", ">u8", "<i8", "<i4", "u1", "u2"])
@given(values=st.lists(st.integers(0, 5)))
def test_each_value_has_its_rows(dtype: str, values: list[int]) -> None:
    groups = rows_of_each(np.array(values, dtype))
    expected = {value: [row for row, each in enumerate(values) if each == value] for value in sorted({*values})}
    assert {value: rows.tolist() for value, rows in groups} == expected
    assert [value for value, _ in groups] == sorted(expected)


def test_grouping_does_not_compare_all_rows_for_each_value() -> None:
    """The cost of 300,000 tasks with an event each is that of one sort."""
    count = 300_000
    assert sum(len(group) for _, group in rows_of_each(np.arange(count))) == count


@given(st.lists(st.sampled_from([b"", b"a", b"1234567", b"12345678", b"12345679", b"123456789", b"x" * 63, b"x" * 99])))
def test_hashes_of_texts(texts: list[bytes]) -> None:
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    hashes = hash_texts(b"".join(texts), ends[:-1], ends[1:]).tolist()
    assert len({*hashes}) == len({*texts}) == len({*zip(texts, hashes, strict=True)})


@pytest.mark.parametrize("repeats", [1, 20], ids=["few", "many"])
@given(
    texts=st.lists(st.sampled_from([b"", b"a", b"a\0", b"12345678", b"12345678\0", b"\xff", "é".encode(), b"x" * 99]))
)
def test_streams_are_numbered_in_the_order_of_first_use(texts: list[bytes], repeats: int) -> None:
    """What is between two streams does not count, and bytes that are not UTF-8 are kept."""
    texts *= repeats
    size = np.array([len(text) for text in texts], np.int64)
    at = np.arange(len(texts)) * 13
    data = b"".join(text.ljust(13 * 8, bytes([number % 256])) for number, text in enumerate(texts))
    strings = DistinctStrings()
    codes = strings.codes(StreamColumn(np.frombuffer(data, np.uint64), at, size))
    decoded = [text.decode("utf-8", "surrogateescape") for text in texts]
    assert [strings.values[code] for code in codes.tolist()] == decoded
    assert strings.values == list(dict.fromkeys(["", *decoded]))
