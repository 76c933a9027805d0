"""The kernel that reads fields of messages compared with its stand-in, and with the reading of one message."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio._native import python as stand_in
from fxtio._native.constants import FieldMark, FieldUse
from fxtio.arrays import Array
from fxtio.codec.protobuf import Wire, WireError, bytes_field, fields, varint

pytestmark = pytest.mark.native

kernels = pytest.importorskip("fxtio._native._kernels", reason="the C kernels are not built")

COLUMNS = 3
TABLE = np.full(48, FieldUse.OTHER, np.int8)
TABLE[[1 << 3, 2 << 3 | Wire.BYTES, 3 << 3 | Wire.FIXED64]] = 0, 1, 2
TABLE[4 << 3 : 5 << 3] = FieldUse.IGNORED
TABLE[5 << 3 | Wire.BYTES] = FieldUse.LISTED

numbers = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 127, 128, 2**63])
valid = st.one_of(
    st.builds(lambda field, value: varint(field << 3) + varint(value), st.integers(1, 300), numbers),
    st.builds(bytes_field, st.integers(1, 6), st.binary(max_size=5)),
    st.builds(lambda field, data: varint(field << 3 | 1) + data, st.integers(1, 6), st.binary(min_size=8, max_size=8)),
    st.builds(lambda field, data: varint(field << 3 | 5) + data, st.integers(1, 6), st.binary(min_size=4, max_size=4)),
)
message = st.lists(valid | st.binary(max_size=3), max_size=8).map(b"".join)


def read(module: Any, data: bytes, begin: Array, end: Array, room: int) -> tuple[Any, ...]:
    """Return all that a kernel returns and fills."""
    values, marks = np.zeros((COLUMNS, len(begin)), np.uint64), np.full(len(begin), 7, np.uint64)
    row, listed = np.full(room, -7, np.int64), np.full(room, 7, np.uint64)
    result = module.read_fields(data, begin, end, TABLE, values, marks, row, listed)
    return result, values.tolist(), marks.tolist(), row.tolist(), listed.tolist()


@given(st.lists(message, max_size=5), st.binary(max_size=3))
def test_agreement(messages: list[bytes], before: bytes) -> None:
    data = before + b"".join(messages)
    sizes = np.array([len(before), *map(len, messages)])
    end = np.cumsum(sizes)[1:]
    begin = end - sizes[1:]
    actual = read(kernels, data, begin, end, len(data))
    assert actual == read(stand_in, data, begin, end, len(data))
    check_marks(data, begin.tolist(), end.tolist(), actual)


def check_marks(data: bytes, begin: list[int], end: list[int], actual: tuple[Any, ...]) -> None:
    """Check columns and lists by the fields of each message."""
    (count, _), values, marks, rows, listed = actual
    expected = []
    for row, (first, last) in enumerate(zip(begin, end, strict=True)):
        last_value: dict[int, int] = {}
        mark = 0
        try:
            for field, wire, value, to in fields(data, first, last):
                tag, packed = field << 3 | wire, value | (to - value) << 32
                number = int.from_bytes(data[value:to], "little") if wire in (1, 5) else packed if wire == 2 else value
                use = int(TABLE[tag]) if tag < len(TABLE) else FieldUse.OTHER
                if use >= 0:
                    mark |= 1 << (FieldMark.REPEATED if use in last_value else use)
                    last_value[use] = number
                elif use == FieldUse.LISTED:
                    expected.append((row, number))
                else:
                    mark |= (use == FieldUse.OTHER) << FieldMark.OTHER
        except WireError:
            mark |= 1 << FieldMark.DAMAGED
        assert marks[row] == mark
        assert [values[column][row] for column in range(COLUMNS)] == [
            last_value.get(each, 0) for each in range(COLUMNS)
        ]
    assert [*zip(rows[:count], listed[:count], strict=True)] == expected


@pytest.mark.parametrize("module", [kernels, stand_in])
def test_the_position_is_that_of_the_first_field_that_is_no_field(module: Any) -> None:
    data = varint(1 << 3) + varint(300) + b"\x12\x05abc"
    (count, position), *_ = read(module, data, np.zeros(1, np.int64), np.array([len(data)]), 1)
    assert (count, position) == (0, 3)


@pytest.mark.parametrize("module", [kernels, stand_in])
def test_wrong_arguments_are_refused(module: Any) -> None:
    one = np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="lengths differ"):
        module.read_fields(b"", one, one[:0], TABLE, np.zeros(3, np.uint64), np.zeros(1, np.uint64), one, one)
    with pytest.raises(ValueError, match="no column"):
        module.read_fields(b"", one, one, TABLE, np.zeros(2, np.uint64), np.zeros(1, np.uint64), one, one)
    with pytest.raises(ValueError, match="too many"):
        module.read_fields(b"", one, one, TABLE, np.zeros(99, np.uint64), np.zeros(1, np.uint64), one, one)
    for begin, end in ((-1, 0), (1, 0), (0, 9)):
        with pytest.raises(ValueError, match="not within"):
            read(module, b"abc", np.array([begin]), np.array([end]), 0)
    with pytest.raises(ValueError, match="no room"):
        read(module, bytes_field(5, b"") * 2, np.zeros(1, np.int64), np.array([4]), 1)
