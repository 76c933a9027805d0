"""The numpy codec compared with the generated scalar codec: same records, same refusals, same bytes.

`support.fxt_twins` takes columns apart one value at a time.  Records are drawn from their declarations, in both byte
orders, right ones and damaged ones; for each of the damaged ones both codecs must come to the same decision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio.arrays import ranges
from fxtio.codec.columns import (
    Block,
    OptionalColumn,
    StreamColumn,
    WordsColumn,
    columns_of,
)
from fxtio.codec.encode_columns import ManyWords, Ragged, interleave, streams, words_of
from fxtio.codec.generate import Order, encode
from fxtio.codec.record import Record, layout_of
from fxtio.errors import EncodeError
from fxtio.fxt import records as rec
from fxtio.fxt.records import Int32Argument, Int64Argument, Uint64Argument
from fxtio.fxt.reference_columns import StringColumn, ThreadColumn
from fxtio.testing import strategies
from support.fxt_hostile import damaged
from support.fxt_samples import for_classes, for_orders, minimal, share, union_of
from support.fxt_twins import Vector, plain, scalar


def decoded_singly(cls: type[Record], data: list[bytes], order: Order) -> tuple[list[Any], list[list[str]]]:
    """Decode with the scalar codec: the records (None for a refused one), and the faults of those delivered."""
    records, faults = [], []
    for raw in data:
        seen: list[tuple[str, str]] = []
        record = scalar(raw, order, seen, union_of(cls))
        records.append(record)
        if record is not None:
            faults.append(sorted(rule for rule, _ in seen))
    return records, faults


@pytest.mark.full
@for_orders
@for_classes()
@share(4)
@given(data=st.data())
def test_columns_equal_the_scalar_codec(cls: type[Record], order: Order, data: st.DataObject) -> None:
    encoded = [
        encode(record, order) for record in data.draw(st.lists(strategies.records(cls, order=order), max_size=6))
    ]
    vector = Vector(cls, encoded, order)
    records, faults = decoded_singly(cls, encoded, order)
    assert plain(vector.records()) == plain(records)
    assert vector.good.all()
    assert vector.faults() == faults == [[]] * len(encoded)


@for_classes()
@share(4)
@given(data=st.data())
def test_columns_go_back_to_the_same_bytes(cls: type[Record], data: st.DataObject) -> None:
    encoded = [encode(record) for record in data.draw(st.lists(strategies.records(cls), max_size=6))]
    assert Vector(cls, encoded, "little").rewritten() == b"".join(encoded)


@for_classes()
@share(6)
@given(data=st.data())
def test_columns_of_big_endian_bytes_are_encoded_as_little_endian(cls: type[Record], data: st.DataObject) -> None:
    records = data.draw(st.lists(strategies.records(cls), max_size=4))
    records = [record.replace(args=()) if "args" in record.__struct_fields__ else record for record in records]
    vector = Vector(cls, [encode(record, "big") for record in records], "big")
    assert vector.rewritten() == b"".join([encode(record, "little") for record in records])


@pytest.mark.full
@for_orders
@for_classes()
@share(3)
@given(data=st.data())
def test_columns_and_scalar_codec_agree_on_damaged_records(
    cls: type[Record], order: Order, data: st.DataObject
) -> None:
    hostile = data.draw(st.lists(damaged(cls, order), min_size=1, max_size=4))
    vector = Vector(cls, hostile, order)
    records, faults = decoded_singly(cls, hostile, order)
    assert [record is not None for record in records] == vector.good.tolist()
    assert plain(vector.records()) == plain(records)
    assert vector.faults() == faults


@for_classes()
@share(6)
@given(data=st.data())
def test_columns_of_damaged_records_are_encoded_correctly(cls: type[Record], data: st.DataObject) -> None:
    """Columns of damaged records written back are the records that the scalar codec writes, or a refusal by both."""
    hostile = data.draw(st.lists(damaged(cls, "little"), min_size=1, max_size=3))
    records = [record for record in decoded_singly(cls, hostile, "little")[0] if record is not None]
    vector = Vector(cls, hostile, "little")
    try:
        written = b"".join([encode(record) for record in records])
    except EncodeError:
        with pytest.raises(EncodeError):
            vector.rewritten()
    else:
        assert vector.rewritten() == written


# --- Edges ----------------------------------------------------------------------------------------------------------


@for_classes()
def test_no_records_make_empty_columns(cls: type[Record]) -> None:
    block = Block(np.zeros(1, np.uint64), np.zeros(1, np.uint64))
    none = np.empty(0, np.int64)
    columns, bad = columns_of(cls, block, none, none)
    assert list(columns) == [name for name, _ in layout_of(cls).parts]
    assert bad is None or not len(bad)


@for_classes()
def test_columns_have_the_types_that_they_should(cls: type[Record]) -> None:
    columns = Vector(cls, [encode(minimal(cls))] * 3, "little").columns
    for name, part in layout_of(cls).parts:
        column = columns[name]
        if isinstance(column, np.ndarray):
            assert column.shape == (3,)
            if (field := getattr(part, "field", None)) is not None and not part.boolean:  # type: ignore[attr-defined]
                assert column.dtype.itemsize * 8 >= field.width
                assert column.dtype.kind == ("i" if field.signed else "u")
        else:
            assert isinstance(column, StringColumn | ThreadColumn | OptionalColumn | StreamColumn | WordsColumn) or (
                name == "args"
            )


def test_a_length_beyond_any_memory_does_not_wrap_around() -> None:
    for length in (2**64 - 1, 2**63, 2**63 - 1, 2**62, 2**61, 2**64 - 8, 17):
        data = bytearray(encode(rec.LargeBlobNoMetadata(1, 2, bytes(16))))
        data[16:24] = length.to_bytes(8, "little")
        vector = Vector(rec.LargeBlobNoMetadata, [bytes(data)], "little")
        assert not vector.good.any()
        assert scalar(bytes(data), "little") is None


def test_the_last_record_does_not_read_behind_the_block() -> None:
    """A record whose content is missing is at the very end: the words that it would have are not there."""
    for cls in rec.RECORDS.classes:
        header = encode(minimal(cls))[:8]
        words = np.frombuffer(header, np.uint64)
        _, bad = columns_of(cls, Block(words, words), np.array([0]), np.array([1]))
        assert (bad is None) == (len(encode(minimal(cls))) == 8)


# --- What scatter takes and refuses ---------------------------------------------------------------------------------


def test_a_scalar_is_the_value_of_all_rows() -> None:
    ticks = np.arange(3, dtype=np.uint64)
    none = ManyWords(0, Ragged(np.empty(0, np.uint64), 0))
    columns = {"timestamp": ticks, "thread": 7, "category": 1, "name": 2, "args": none, "scope": None}
    built = words_of(rec.Instant, 3, columns)
    assert built.words.tobytes() == b"".join([encode(rec.Instant(t, 7, 1, 2, ())) for t in range(3)])


@pytest.mark.parametrize(
    ("cls", "columns", "sentence"),
    [
        (Int64Argument, {"name": 1, "value": np.array([2**63], np.uint64)}, "Int64Argument.value: 9223372036854775808"),
        (Uint64Argument, {"name": 1, "value": np.array([-1])}, "Uint64Argument.value: -1 is negative"),
        (Uint64Argument, {"name": 1, "value": np.array([1.5])}, "Uint64Argument.value: a column of float64"),
        (Int32Argument, {"name": 1, "value": np.array([2**31])}, "value: 2147483648 does not fit in bits 32..63"),
        (Int32Argument, {"name": 0x8000, "value": np.array([1])}, "index: 32768 does not fit in bits 0..14"),
        (rec.String, {"index": 1, "text": streams([b"x" * 32_001])}, "String.text: 32,001 bytes of text are over"),
        (rec.String, {"index": 32768, "text": streams([b"x"])}, "index: 32768 does not fit in bits 16..30"),
        (rec.ThreadRecord, {"index": 256, "process": 1, "thread": np.array([1])}, "index: 256 does not fit"),
        (rec.Blob, {"name": 1, "blob_type": 1, "payload": streams([bytes(32_760)])}, "size: 4096 does not fit"),
    ],
)
def test_encoding_columns_refuses_values_beyond_the_format(
    cls: type[Record], columns: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(EncodeError) as caught:
        words_of(cls, 1, columns)
    assert sentence in str(caught.value)


def test_ranges_and_interleave() -> None:
    assert ranges(np.array([5, 1, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    fixed, ragged = (
        Ragged(np.arange(3, dtype=np.uint64), 1),
        Ragged(np.array([7, 8, 9], np.uint64), np.array([2, 0, 1])),
    )
    assert interleave([fixed, fixed], 3).words.tolist() == [0, 0, 1, 1, 2, 2]
    mixed = interleave([fixed, ragged], 3)
    assert mixed.words.tolist() == [0, 7, 8, 1, 2, 9]
    assert np.asarray(mixed.count).tolist() == [3, 1, 2]
