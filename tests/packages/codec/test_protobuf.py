"""Tests of the wire format of protobuf, against values of its documentation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio.codec.protobuf import (
    Wire,
    WireError,
    bytes_field,
    fields,
    number_field,
    numbers,
    packed_field,
    signed,
    varint,
)


def test_examples_of_the_documentation() -> None:
    assert number_field(1, 150) == bytes.fromhex("089601")
    assert bytes_field(2, b"testing") == bytes.fromhex("120774657374696e67")
    assert packed_field(6, [3, 270, 86942]) == bytes.fromhex("3206038e029ea705")
    assert varint(-2) == bytes.fromhex("feffffffffffffffff01")
    assert number_field(1, 0) == b""


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers_come_back(value: int) -> None:
    data = varint(value)
    assert [signed(each) for each in numbers(data, 0, len(data))] == [value]


@given(st.lists(st.integers(0, (1 << 64) - 1)), st.binary(max_size=300), st.integers(1, (1 << 29) - 1))
def test_fields_come_back(values: list[int], text: bytes, field: int) -> None:
    data = packed_field(field, values) + bytes_field(7, text) + number_field(field, 5)
    (first, kind, begin, end), (second, _, at, to), third = fields(data)
    assert (first, kind, numbers(data, begin, end)) == (field, Wire.BYTES, values)
    assert (second, data[at:to]) == (7, text)
    assert third[:3] == (field, Wire.VARINT, 5)


def test_fixed_fields() -> None:
    assert list(fields(bytes.fromhex("0901020304050607080d01020304"))) == [
        (1, Wire.FIXED64, 1, 9),
        (1, Wire.FIXED32, 10, 14),
    ]


@pytest.mark.parametrize(
    "text", ["08", "0880", "12", "1205aa", "0b", "0c", "0e", "0f", "0200", "00", "0001", "08" + "ff" * 10 + "01"]
)
def test_what_is_no_message(text: str) -> None:
    with pytest.raises(WireError) as caught:
        list(fields(bytes.fromhex("0801" + text)))
    assert caught.value.offset == 2


@given(st.binary(max_size=50))
def test_any_bytes_are_fields_or_an_error(data: bytes) -> None:
    found = fields(data)
    stopped = None
    while True:
        try:
            number, kind, begin, end = next(found)
        except StopIteration:
            break
        except WireError as error:
            stopped = error.offset
            break
        assert number and (kind == Wire.VARINT or begin <= end <= len(data))
    assert stopped is None or 0 <= stopped < len(data)
