"""The codec compared with the oracle, which restates the format in construct from the specification.

Three ways round: our records, the oracle's dicts, and damaged bytes.  For the last, the oracle accepts what the
specification allows to the bit; our exact mode keeps a record as such only if it can write it back, which is the same
but for the differences that are named here.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fxtio.codec.generate import Order, encode
from fxtio.codec.record import Opaque, Record
from fxtio.errors import EncodeError
from fxtio.fxt import FxtTrace, FxtWriter
from fxtio.fxt import records as rec
from fxtio.testing import strategies
from oracle.fxt import OracleError, build_record, parse_record
from oracle.fxt_strategies import records as oracle_records
from oracle.fxt_strategies import records_by_kind
from support.fxt_hostile import damaged
from support.fxt_oracle import KINDS, to_oracle
from support.fxt_samples import for_classes, for_orders, share
from support.fxt_twins import Vector, plain, scalar

ORACLE_KINDS = sorted(records_by_kind())


def without_extensions(record: Any) -> Any:
    """Return the record without extensions of real producers that the specification lacks."""
    if isinstance(record, rec.ProfilerBacktrace):
        return record.replace(flags=0)
    if isinstance(record, rec.Initialization) and record.wall_clock is None:
        return record.replace(base_ticks=None)
    return record


def decode_exactly(raw: bytes, order: Order) -> Any:
    """Decode a record; return `Opaque` unless it encodes to the same bytes."""
    record = scalar(raw, order)
    try:
        return record if record is not None and encode(record, order) == raw else Opaque(raw)
    except EncodeError:
        return Opaque(raw)


def unlike_the_specification(record: Any) -> bool:
    """Return whether fxtio delivers the record although the oracle refuses it: see `without_extensions`."""
    return (
        not isinstance(record, Opaque)
        and without_extensions(record) is not record
        and plain(without_extensions(record)) != plain(record)
    )


def kept_as_bytes(meaning: dict[str, Any]) -> bool:
    """Return whether fxtio keeps as `Opaque` what the oracle accepts: extra words of trace info, ignored slots."""
    if meaning["kind"] == "trace_info":
        return bool(meaning["payload"])
    for cls in (rec.String, rec.ThreadRecord):
        if meaning["kind"] == KINDS[cls][0]:
            return bool(meaning[KINDS[cls][1]["index"]] < cls.words[0].fields["index"].limits[0])
    return False


def test_every_kind_has_a_class() -> None:
    assert set(KINDS) == set(rec.RECORDS.classes)
    assert sorted([kind for kind, _ in KINDS.values()] + ["unknown"]) == ORACLE_KINDS


@for_orders
@for_classes(rec.RECORDS.classes)
@share(6)
@given(data=st.data())
def test_encoded_records_equal_the_bytes_of_the_oracle(cls: type[Record], order: Order, data: st.DataObject) -> None:
    record = without_extensions(data.draw(strategies.records(cls, order=order)))
    meaning, encoded = to_oracle(record, order), encode(record, order)
    assert build_record(meaning, order) == encoded
    assert parse_record(encoded, order) == meaning


@for_orders
@pytest.mark.parametrize("kind", ORACLE_KINDS)
@share(6)
@given(data=st.data())
def test_decoded_records_equal_those_of_the_oracle(kind: str, order: Order, data: st.DataObject) -> None:
    meaning = data.draw(records_by_kind(order)[kind])
    raw = build_record(meaning, order)
    record = scalar(raw, order)
    if kind == "trace_info":
        assert to_oracle(record, order) | {"payload": meaning["payload"]} == meaning
    else:
        assert to_oracle(record, order) == meaning
    assert isinstance(decode_exactly(raw, order), Opaque) == (kind == "unknown" or kept_as_bytes(meaning))


@pytest.mark.full
@for_orders
@pytest.mark.parametrize("kind", ORACLE_KINDS)
@share(4)
@given(data=st.data())
def test_the_writer_takes_what_the_oracle_builds(kind: str, order: Order, data: st.DataObject) -> None:
    """Raw records give the same bytes; resolved ones have the same meaning when they are read again."""
    drawn = data.draw(st.lists(records_by_kind(order)[kind] | oracle_records(order), min_size=1, max_size=4))
    trace = encode(rec.Magic(), order) + b"".join([build_record(meaning, order) for meaning in drawn])
    raw, resolved = list(FxtTrace(trace).records(resolve=False)), list(FxtTrace(trace))
    assert put(raw, order) == trace
    assert plain(list(FxtTrace(put(resolved, order)))) == plain(resolved)


def put(records: list[Any], order: Order) -> bytes:
    out = io.BytesIO()
    with FxtWriter(out, order=order) as writer:
        for record in records:
            writer.put(record)
    return out.getvalue()


@for_orders
@for_classes(rec.RECORDS.classes)
@share(4)
@given(data=st.data())
def test_both_agree_on_damaged_bytes(cls: type[Record], order: Order, data: st.DataObject) -> None:
    raw = data.draw(damaged(cls, order))
    assume(len(raw) < 4096 * 8)
    record = decode_exactly(raw, order)
    try:
        meaning = parse_record(raw, order)
    except OracleError:
        assert isinstance(record, Opaque) or unlike_the_specification(record)
        return
    if isinstance(record, Opaque):
        assert meaning["kind"] == "unknown" or kept_as_bytes(meaning)
    else:
        assert to_oracle(record, order) == meaning


@pytest.mark.full
@for_classes(rec.RECORDS.classes)
@share(6)
@given(data=st.data())
def test_columns_give_the_bytes_of_the_oracle(cls: type[Record], data: st.DataObject) -> None:
    """The oracle's bytes become columns, columns become bytes, and the oracle reads its own meaning from them."""
    records = [
        without_extensions(record) for record in data.draw(st.lists(strategies.records(cls), min_size=1, max_size=4))
    ]
    meanings = [to_oracle(record) for record in records]
    vector = Vector(cls, [build_record(meaning) for meaning in meanings], "little")
    written = vector.rewritten()
    assert [to_oracle(record) for record in vector.records()] == meanings
    sizes = np.array([len(encode(record)) for record in records])
    ends = np.cumsum(sizes).tolist()
    pieces = [written[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]
    assert [parse_record(raw_record) for raw_record in pieces] == meanings
