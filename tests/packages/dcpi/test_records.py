"""DCPI records and profiles: encoding and decoding, exact copies, and agreement with the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fxtio.codec.record import Opaque
from fxtio.dcpi import DcpiTrace, describe_markdown, frames
from fxtio.dcpi import records as r
from fxtio.dcpi.layout import CHUNK_HEAD, FOOTER, FOOTER_TYPE, HEAD_TYPE, KEYWORDS
from fxtio.dcpi.state import format_time, parse_time
from fxtio.errors import DecodeError, EncodeError
from oracle import dcpi as oracle
from oracle.fxt_words import OracleError
from support import dcpi as support
from support.fxt_readings import Trickle

DECODE: dict[str, Any] = {
    "Line": r.decode_line,
    "Terminator": r.decode_line,
    "Footer": r.decode_footer,
}


@pytest.mark.parametrize("name", DECODE)
@given(data=st.data())
def test_an_encoded_record_decodes_to_itself(name: str, data: st.DataObject) -> None:
    record = data.draw(support.RECORDS[name])
    raw = r.encode(record)
    assert DECODE[name](raw) == record
    assert r.encode(DECODE[name](raw)) == raw


@given(raw=st.binary(max_size=40) | st.sampled_from([b"samples\n", b"samples x\n", b"a\tb\n", b"a b"]))
def test_any_line_is_decoded_to_itself(raw: bytes) -> None:
    record = r.decode_line(raw)
    is_keyword = isinstance(record, r.Line) and record.word in KEYWORDS
    if not is_keyword:  # the values of known words must have their syntax
        assert r.encode(record) == raw


def test_a_carriage_return_within_a_value_ends_no_line() -> None:
    assert frames.looks_like_header(b"platform a\rb\nimage 12\nevent cycles\nperiod")


@given(number=st.integers(0, 2**32 - 1), other=st.integers(0, 2**32 - 1))
def test_construct_and_numpy_declare_the_same(number: int, other: int) -> None:
    for struct, dtype in ((CHUNK_HEAD, HEAD_TYPE), (FOOTER, FOOTER_TYPE)):
        names = [field.name for field in struct.subcons]
        raw = struct.build(dict(zip(names, (number, other), strict=True)))
        assert tuple(np.frombuffer(raw, dtype)[0].tolist()) == (number, other)
        assert dtype.names == tuple(names)


@given(data=support.profiles())
def test_the_oracle_accepts_written_profiles(data: bytes) -> None:
    expected = oracle.parse(data)
    trace = DcpiTrace(data, strict=True)
    chunks = [(record.text_offset, list(record.counts)) for record in trace if isinstance(record, r.Chunk)]
    assert chunks == expected["chunks"]
    samples = [(at + 4 * i, count) for at, counts in expected["chunks"] for i, count in enumerate(counts) if count]
    table = trace.table("samples")
    assert list(zip(table["text_offset"].tolist(), table["count"].tolist(), strict=True)) == samples
    assert table["address"].tolist() == [0x1000 + at for at, _ in samples]
    assert (trace.info.addresses, trace.info.samples) == (len(samples), sum(count for _, count in samples))


@given(data=support.damaged())
def test_damage_is_reported_where_the_oracle_finds_it(data: bytes) -> None:
    trace = DcpiTrace(data)
    wrong = [finding for finding in trace.findings if finding.severity == "error"]
    try:
        oracle.parse(data)
    except OracleError:
        assert wrong or "dcpi.body.opaque" in trace.findings.counts
    else:
        # The oracle does not check dates, and accepts numbers of any size.
        assert all(finding.rule == "dcpi.header.value" for finding in wrong)


@given(data=support.damaged() | st.binary(max_size=300), block=st.sampled_from([12, 16, 40]))
def test_blocks_of_any_size_give_the_same(data: bytes, block: int) -> None:
    trace = DcpiTrace(data)
    assume(trace.compression is None)
    assert support.written(trace.records(resolve=False)) == data
    assert support.copied(DcpiTrace(data)) == data
    samples = list(trace.table("samples").rows())
    findings = {(finding.rule, finding.offset) for finding in trace.findings}
    sums = support.sums(trace.info)
    patch = pytest.MonkeyPatch()
    with patch.context() as small:
        small.setattr(frames, "BLOCK", block)
        for target in (data, Trickle(data, 7)):
            trickled = DcpiTrace(target)
            assert list(trickled.table("samples").rows()) == samples
            assert {(finding.rule, finding.offset) for finding in trickled.findings} == findings
        assert support.sums(DcpiTrace(data).info) == sums
        assert support.copied(DcpiTrace(data)) == data
    strict = DcpiTrace(data, strict=True)
    if findings:
        with pytest.raises(DecodeError) as caught:
            list(strict)
        assert (caught.value.rule, caught.value.offset) in findings
    else:
        list(strict)


def test_a_long_chunk_is_several_records(monkeypatch: pytest.MonkeyPatch) -> None:
    data = oracle.build([("image", b"1")], [(0, list(range(50))), (400, [1])])
    for module, name, value in (("reader", "MAX_COUNTS", 7), ("frames", "BLOCK", 64)):
        monkeypatch.setattr(f"fxtio.dcpi.{module}.{name}", value)
    records = [record for record in DcpiTrace(data) if isinstance(record, r.Chunk | r.MoreCounts)]
    first = records[0]
    assert isinstance(first, r.Chunk)
    assert (first.text_offset, len(first.counts) + first.remaining) == (0, 50)
    assert sum((record.counts for record in records[:-1]), ()) == tuple(range(50))
    assert records[-1] == r.Chunk(400, (1,))
    assert support.copied(DcpiTrace(data)) == data


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (r.Line("image", "12g"), "hexadecimal"),
        (r.Line("image", ""), "rest of the line"),
        (r.Line("two words", "1"), "not a word"),
        (r.Line("label", " x"), "does not begin with a blank"),
        (r.Line("label", "a\nb"), "rest of the line"),
        (r.Line("label", "x", ""), "other characters than spaces"),
        (r.Line("label", "\u20ac"), "not ASCII"),
        (r.Line("epoch", "96010112"), "YYMMDDHHMM"),
        (r.Line("version", "0.07"), "pdb-"),
        (r.Terminator("x"), "other characters than spaces"),
        (r.Chunk(0, ()), "at least one"),
        (r.Chunk(-1, (1,)), "is not from 0"),
        (r.Chunk(0, (2**32,)), "is not from 0"),
        (r.Chunk(0, (1,), 2**32), "is not from 0"),
        (r.Chunk("0", (1,)), "not an integer"),  # type: ignore[arg-type]
        (r.Chunk(True, (1,)), "not an integer"),
        (r.Chunk(0, (1.0,)), "tuple of integers"),  # type: ignore[arg-type]
        (r.Chunk(0, ("1",)), "tuple of integers"),  # type: ignore[arg-type]
        (r.Chunk(0, None), "tuple of integers"),  # type: ignore[arg-type]
        (r.Chunk(0, (1,), -1), "is not from 0"),
        (r.Chunk(0, (1,), None), "not an integer"),  # type: ignore[arg-type]
        (r.MoreCounts((None,)), "tuple of integers"),  # type: ignore[arg-type]
        (r.Line(5, "x"), "not a text"),  # type: ignore[arg-type]
        (r.Line("label", None), "not a text"),  # type: ignore[arg-type]
        (r.Line("label", "x", None), "not a text"),  # type: ignore[arg-type]
        (r.Terminator(None), "not a text"),  # type: ignore[arg-type]
        (r.Footer(0.5, 0), "not an integer"),  # type: ignore[arg-type]
        (Opaque("text"), "not bytes"),  # type: ignore[arg-type]
        (r.MoreCounts(()), "no count"),
        (r.Footer(0, 2**32), "is not from 0"),
        ("no record", "not a record"),
    ],
)
def test_records_that_are_refused(record: Any, message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        r.encode(record)


@pytest.mark.parametrize(
    ("digits", "expected"),
    [
        ("9601011200", "1996-01-01 12:00:00"),
        ("6901010000", "1969-01-01 00:00:00"),
        ("6801010000", "2068-01-01 00:00:00"),
        ("200212042334", "2002-12-04 23:34:00"),
        ("20021204233459", "2002-12-04 23:34:59"),
    ],
)
def test_times(digits: str, expected: str) -> None:
    when = parse_time(digits)
    assert when is not None
    assert f"{when:%Y-%m-%d %H:%M:%S}" == expected
    assert parse_time(format_time(when)) == when
    assert format_time(when.replace(tzinfo=None)) == format_time(when)
    with pytest.raises(EncodeError, match="finer than a second"):
        format_time(when.replace(microsecond=1))


@pytest.mark.parametrize("digits", ["9613010000", "9602300000", "000000000000"])
def test_invalid_dates(digits: str) -> None:
    assert parse_time(digits) is None


def test_the_layout_is_described() -> None:
    text = describe_markdown()
    assert all(f"`{word}`" in text for word in (*KEYWORDS, "offset", "number", "total_offsets", "total_samples"))
    assert isinstance(r.decode_line(b"no line end"), Opaque)
