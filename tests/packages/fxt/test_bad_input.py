"""Bad input of many kinds: the rule that it breaks, the offset of the finding, and what is still delivered.

Whatever is well-formed before a fault and after it comes out.  `test_bounds` has what is bad by its amount.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.codec.generate import Order, encode
from fxtio.codec.record import Opaque, Record
from fxtio.errors import DecodeError, FormatError
from fxtio.fxt import FxtTrace, frames
from fxtio.fxt import records as rec
from fxtio.fxt.records import BlobArgument, NullArgument, PointerArgument, Thread, Uint32Argument
from fxtio.testing import strategies
from fxtio.testing.strategies import encoded
from support.fxt_bad import CONTAINERS, HEAD, delivered, instants, packed, words
from support.fxt_readings import Trickle, in_batches, kept_findings, rules
from support.fxt_samples import for_classes, for_orders, minimal, share
from support.fxt_twins import plain


def check(bad: bytes, findings: list[tuple[str, int]], *, order: Order = "little", inside: int = 0) -> None:
    """Check the findings of a fault between good records, and that all other records are delivered.

    Args:
        bad: the bad bytes.
        findings: rules and offsets.
        order: the byte order.
        inside: how many of the bad bytes' own records are delivered.
    """
    before, behind = [*HEAD, *instants(0, 5)], instants(100, 6)
    start = encoded(before, order)
    data = start + bad + encoded(behind, order)
    for target in (data, Trickle(data, 13)):
        trace = FxtTrace(target)
        read = delivered(trace)
        assert plain(read[:8]) == plain(before)
        assert plain(read[-6:]) == plain(behind)
        assert len(read) == 14 + inside
        assert [(rule, offset - len(start)) for rule, _, offset in kept_findings(trace.findings)] == findings
    with pytest.raises(DecodeError) as caught:
        list(FxtTrace(data, strict=True))
    assert (caught.value.rule, caught.value.offset) == (findings[0][0], len(start) + findings[0][1])


# --- Framing --------------------------------------------------------------------------------------------------------


@for_orders
@pytest.mark.parametrize("body", [(), (7 << 32,), (0, 0, 0), (4, 4, 4), (0xFFFF_0004,) * 2000])
def test_a_record_of_size_zero(order: Order, body: tuple[int, ...]) -> None:
    """The body of a record with a bad header is left out as well."""
    check(words(0x0001_0004, *body, order=order), [("fxt.framing.zero-size", 0)], order=order)


@for_orders
def test_a_size_beyond_the_end(order: Order) -> None:
    check(words(0xFFF4, 1, order=order), [("fxt.framing.size-beyond-end", 0)], order=order)
    check(words(0x100_0000 << 4 | 15, 1, order=order), [("fxt.framing.size-beyond-end", 0)], order=order)


@for_orders
def test_a_size_beyond_all_bounds(order: Order) -> None:
    check(words(0xFFFF_FFFF_F | 15, 1, order=order), [("fxt.framing.too-large", 0)], order=order)


@for_orders
@pytest.mark.parametrize("count", [1, 2, 5000])
def test_zero_words_between_records(order: Order, count: int) -> None:
    check(bytes(8 * count), [("fxt.framing.zero-words", 0)], order=order)


@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("count", [39, 40, 41, 1000])
def test_a_run_of_zero_words_is_one_finding(count: int, is_last: bool) -> None:
    """However many buffers it fills."""
    good = encoded(instants(1, 4))
    with in_batches(20):
        trace = FxtTrace(encode(rec.Magic()) + bytes(8 * count) + (b"" if is_last else good))
        assert len(delivered(trace)) == (1 if is_last else 5)
    assert [str(finding) for finding in trace.findings] == [
        f"warning at byte 8: {count:,} zero words between records [fxt.framing.zero-words]"
    ]
    assert len(trace.findings) == 1


def test_zero_words_do_not_make_a_frame_each() -> None:
    data = encode(rec.Magic()) + (bytes(8) + encode(rec.ProviderSection(0))) * 3000
    with patch.object(frames.FrameReader, "_fill", autospec=True, side_effect=frames.FrameReader._fill) as fill:
        trace = FxtTrace(data)
        assert sum(1 for _ in trace) == 3001
    assert fill.call_count < 5
    assert rules(trace.findings) == {"fxt.framing.zero-words": 3000}


def test_many_bad_headers_do_not_rescan_the_buffer() -> None:
    """The time for a fault depends on the distance to the next good record, not on the size of the buffer."""
    data = encode(rec.Magic()) + (words(0x0001_0004) + encoded(instants(1, 4))) * 3000
    with patch.object(frames, "_chains", side_effect=frames._chains) as chains:
        trace = FxtTrace(data)
        assert len(delivered(trace)) == 12_001
    assert sum(len(call.args[0]) for call in chains.call_args_list) < 3000 * 2000
    assert rules(trace.findings)["fxt.framing.zero-size"] == 3000


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes_in_the_middle(seed: int) -> None:
    """Random bytes may look like a header and hide as many words as its size field says, at most 4,095."""
    draw = random.Random(seed)
    before, behind = [*HEAD, *instants(0, 5)], instants(100, 3000)
    data = encoded(before) + draw.randbytes(8 * draw.randint(1, 40)) + encoded(behind)
    read = delivered(FxtTrace(data))
    assert plain(read[:8]) == plain(before)
    count = 3000 - 4096 // (len(encode(behind[0])) // 8)
    assert plain(read[-count:]) == plain(behind[-count:])


@given(junk=st.binary(min_size=1, max_size=200))
def test_random_bytes_at_the_end(junk: bytes) -> None:
    before = [*HEAD, *instants(0, 5)]
    trace = FxtTrace(encoded(before) + junk)
    assert plain(list(trace)[:8]) == plain(before)
    if len(junk) % 8:
        assert trace.findings


def test_the_reader_finds_its_way_across_batches() -> None:
    """Test every distance between the bad header, the good records after it, and the end of a batch."""
    bad = words(0x0001_0004, *[4] * 3)
    for count in range(20):
        data = encoded([*HEAD, *instants(0, count)]) + bad + encoded(instants(100, 9))
        for batch in (16, 24, 31):
            with in_batches(batch):
                trace = FxtTrace(data)
                assert len(delivered(trace)) == 3 + count + 9
                assert rules(trace.findings) == {"fxt.framing.zero-size": 1}


# --- The end is missing ---------------------------------------------------------------------------------------------


def end_of(size: int) -> str:
    """Return the rule that a trace breaks that ends with this many bytes of a record."""
    return "fxt.framing.truncated" if size >= 8 else "fxt.framing.odd-length"


def check_truncation(data: bytes, last: int, count: int, source: Callable[[bytes], Any]) -> None:
    """Check that a trace cut in its last record gives all other records and one finding."""
    trace = FxtTrace(source(data))
    assert sum(1 for _ in trace) == count
    assert [(rule, offset) for rule, _, offset in kept_findings(trace.findings)] == [(end_of(len(data) - last), last)]
    assert len(trace.findings) == 1


@pytest.mark.full
@pytest.mark.no_cover  # the same again and again, slow to measure
@for_classes(rec.RECORDS.classes)
def test_the_end_is_missing_at_every_byte(cls: type[Record]) -> None:
    """The arguments of the last record look like records of their own."""
    args = (Uint32Argument(1, 0), PointerArgument(0x110, 5), NullArgument(0x12), BlobArgument(1, bytes(9)))
    fields = cls.__struct_fields__
    record = minimal(
        cls,
        **({"args": args} if "args" in fields else {}),
        **({"thread": Thread(1, 2)} if "args" in fields and "thread" in fields else {}),
    )
    before = [*HEAD, *instants(0, 3)]
    start = encoded(before)
    data = start + encode(record)
    for end in range(len(start) + 1, len(data)):
        check_truncation(data[:end], len(start), len(before), bytes)
        check_truncation(data[:end], len(start), len(before), lambda raw: Trickle(raw, 50))


@for_orders
@share(1)
@given(data=st.data())
def test_the_end_is_missing_anywhere(order: Order, data: st.DataObject) -> None:
    records = data.draw(strategies.traces(order=order, odd=False))
    pieces = [encode(record, order) for record in records]
    number = data.draw(st.integers(1, len(pieces)))
    size = data.draw(st.integers(1, len(pieces[number]) - 1)) if number < len(pieces) else 0
    start = b"".join(pieces[:number])
    trace = FxtTrace(start + (pieces[number][:size] if size else b""))
    read = list(trace)
    if looks_like_records(pieces[number][:size] if size else b"", order):
        return
    assert plain(read) == plain(list(FxtTrace(start)))
    assert [(rule, offset) for rule, _, offset in kept_findings(trace.findings)] == (
        [(end_of(size), len(start))] if size else []
    )


def looks_like_records(cut: bytes, order: Order) -> bool:
    """Return whether this many arguments of the last record look like records that a reader resynchronizes in it."""
    for at in range(8, len(cut), 8):
        trace = FxtTrace(encode(rec.Magic(), order) + cut[at:])
        if sum(isinstance(record, Record) for record in trace.records(resolve=False)) > 4:
            return True
    return False


@pytest.mark.full
def test_the_end_is_missing_where_a_batch_ends() -> None:
    before = [*HEAD, *instants(0, 4)]
    start = encoded(before)
    cut = encode(rec.Counter(1, 1, 1, 1, (NullArgument(0),) * 15, 2))
    for size in range(1, len(cut)):
        for batch in (len(start) // 8 + 1, (len(start) + size) // 8, 7):
            with in_batches(max(batch, 1)):
                trace = FxtTrace(start + cut[:size])
                assert sum(1 for _ in trace) == len(before)
                assert kept_findings(trace.findings) == [(end_of(size), "error", len(start))]


@pytest.mark.parametrize("kind", ["zstd", "gzip", "xz"])
def test_a_truncated_compressed_trace_gives_all_records_before_the_cut(kind: str) -> None:
    """The reader delivers the records before the cut, and reports a finding of the container, as after a crash."""
    records = [*HEAD, *[rec.Log(number, 1, random.Random(number).randbytes(40).hex()) for number in range(5000)]]
    whole = packed(kind, encoded(records))
    trace = FxtTrace(whole[: len(whole) * 3 // 4])
    read = list(trace)
    assert rules(trace.findings)["fxt.source.cut"] == 1
    assert set(rules(trace.findings)) <= {"fxt.source.cut", "fxt.framing.truncated", "fxt.framing.odd-length"}
    assert 2000 < len(read) < 4500
    assert plain(read) == plain(list(FxtTrace(encoded(records)))[: len(read)])


@pytest.mark.parametrize("kind", CONTAINERS)
def test_a_truncated_compressed_trace_is_reported(kind: str) -> None:
    whole = packed(kind, encoded([*HEAD, *instants(0, 50)]))
    for size in range(len(whole) - 20, len(whole)):
        trace = FxtTrace(whole[:size])
        list(trace)
        assert rules(trace.findings)["fxt.source.cut"] == 1


# --- Inside of a record ---------------------------------------------------------------------------------------------


def changed(record: Any, at: int, value: int, order: Order = "little") -> bytes:
    """Return the bytes of a record with one word changed."""
    data = bytearray(encode(record, order))
    data[at * 8 : at * 8 + 8] = words(value, order=order)
    return bytes(data)


EVENT = rec.Counter(9, 1, 1, 1, (NullArgument(1), Uint32Argument(1, 7), NullArgument(1)), 77)


@for_orders
@pytest.mark.parametrize("header", [0x0001_0002, 0x0001_FFF2, 0x0001_0052, 0])
def test_an_argument_of_a_wrong_size(order: Order, header: int) -> None:
    """The arguments before it are delivered, and what follows them is found from the end."""
    bad = changed(EVENT, 3, header, order)
    check(bad, [("fxt.arg.beyond-record" if header & 0xFFF0 else "fxt.arg.size-zero", 0)], order=order, inside=1)
    trace = FxtTrace(encoded(HEAD, order) + bad)
    assert list(trace)[-1] == rec.Counter(9, Thread(2, 3), "name", "name", (NullArgument("name"),), 77)


def test_an_argument_too_short_for_its_type() -> None:
    """The bad record is left out; its neighbors are delivered."""
    bad = changed(EVENT, 3, 0x0001_0013)
    check(bad, [("fxt.arg.short", 0)], inside=1)
    assert list(FxtTrace(encoded(HEAD) + bad))[-1].args == (NullArgument("name"), NullArgument("name"))


def test_an_argument_count_beyond_the_record() -> None:
    check(
        encode(rec.Instant(9, 1, 1, 1, ())).replace(b"\x24\0\0\1", b"\x24\0\x30\1"),
        [("fxt.arg.count-high", 0)],
        inside=1,
    )


def test_broken_arguments_before_a_payload_of_any_size() -> None:
    record = rec.LargeBlob(1, 1, 9, 1, (NullArgument(1),), b"payload")
    check(changed(record, 3, 0), [("fxt.arg.beyond-record", 0)])


@for_orders
def test_a_string_over_its_record(order: Order) -> None:
    check(
        changed(rec.String(2, "text"), 0, 9 << 32 | 2 << 16 | 0x22, order),
        [("fxt.framing.stream-over-record", 0)],
        order=order,
    )
    inline = changed(rec.Instant(9, 1, "", "", ()), 0, 0x8000_8009_0100_0024, order)
    check(inline, [("fxt.framing.stream-over-record", 0)], order=order)


def test_a_record_shorter_than_its_content() -> None:
    check(words(0x0101_0014), [("fxt.framing.record-short", 0)])
    check(words(0x0000_0014, 5), [("fxt.framing.record-short", 0), ("fxt.framing.zero-size", 8)])
    check(words(0x0000_0023, 5), [("fxt.framing.record-short", 0)])
    check(words(0x0000_001F), [("fxt.framing.record-short", 0)])


def test_another_magic_number() -> None:
    check(words(0x0016_5478_4704_0010), [("fxt.framing.magic-value", 0)])


def test_text_that_is_not_utf_8() -> None:
    raw = b"\xff\xfe\x80ok"
    text = raw.decode("utf-8", "surrogateescape")
    data = encoded([*HEAD, rec.String(2, text), rec.Instant(1, 1, 2, text, ()), rec.Log(1, 1, text)])
    trace = FxtTrace(data)
    *_, string, instant, log = trace
    assert (string.text, instant.category, instant.name, log.message) == (text,) * 4
    assert encode(string) == encode(rec.String(2, text))
    assert b"".join([encode(record) for record in trace.records(resolve=False)]) == data
    tables = trace.tables("events", "logs", "strings")
    assert tables["events"]["name"][0] == text == tables["logs"]["message"][0]
    assert trace.findings.counts == {"fxt.text.not-utf8": 3}
    pytest.importorskip("pyarrow")
    assert tables["events"].to_arrow()["name"].to_pylist() == ["\ufffd\ufffd\ufffdok"]


def test_references_that_nobody_defined() -> None:
    record = rec.Instant(1, 9, 8, 7, (NullArgument(6),))
    trace = FxtTrace(encoded([*HEAD, record, rec.String(8, "too late")]))
    assert list(trace)[3] == record
    offset = len(encoded(HEAD))
    assert sorted(kept_findings(trace.findings)) == [
        ("fxt.string.undefined", "warning", offset), ("fxt.string.undefined", "warning", offset),
        ("fxt.string.undefined", "warning", offset), ("fxt.thread.undefined", "warning", offset),
    ]  # fmt: skip


def test_slot_zero_cannot_be_defined() -> None:
    """spec: records for slot 0 are ignored; it stays the empty string, and the sign of an inline thread."""
    string = encode(rec.String(1, "x")).replace(b"\x22\0\1\0", b"\x22\0\0\0")
    thread = encode(rec.ThreadRecord(1, 8, 9)).replace(b"\x33\0\1", b"\x33\0\0")
    trace = FxtTrace(encoded(HEAD) + string + thread + encoded([rec.Instant(1, 1, 0, 1, ())]))
    assert list(trace)[-1] == rec.Instant(1, Thread(2, 3), "", "name", ())
    assert rules(trace.findings) == {"fxt.string.zero": 1, "fxt.thread.zero": 1}


def test_a_clock_with_rate_zero() -> None:
    check(encode(rec.Initialization(0)), [("fxt.clock.zero-rate", 0)], inside=1)
    trace = FxtTrace(encoded([*HEAD, rec.Initialization(1000), rec.Initialization(0), rec.Instant(5, 1, 0, 0, ())]))
    assert trace.table("events")["time"].tolist() == [5_000_000]


# --- What is no trace -------------------------------------------------------------------------------------------------


def test_empty_files(tmp_path: Path) -> None:
    named, other = tmp_path / "empty.fxt", tmp_path / "empty"
    for path in (named, other):
        path.touch()
    with fxtio.open(named) as trace:
        assert list(trace) == []
        assert kept_findings(trace.findings) == [("fxt.source.empty", "error", 0)]
    with pytest.raises(FormatError, match="is empty"):
        fxtio.open(other)
    with pytest.raises(FormatError, match="<bytes> is empty"):
        fxtio.open(b"")


def test_an_empty_file_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "empty.fxt"
    path.touch()
    with fxtio.open(path) as trace:
        assert all(table.num_rows == 0 for table in trace.tables(*trace.table_names).values())
        assert trace.info.records == {}


def test_other_files(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("Call me Ishmael.")
    with pytest.raises(FormatError, match=r"not a trace of a known format .*begins with 'Call me Ishmael\.'"):
        fxtio.open(text)
    with pytest.raises(FormatError, match="is a directory"):
        fxtio.open(tmp_path)
    with pytest.raises(FormatError, match="open it in binary mode"):
        fxtio.open(io.StringIO("text"))
    with pytest.raises(FormatError, match="cannot read a trace from int"):
        fxtio.open(5)
    with pytest.raises(FileNotFoundError):
        fxtio.open(tmp_path / "missing.fxt")
    renamed = tmp_path / "text.fxt"
    renamed.write_text("Call me Ishmael. Some years ago")
    with fxtio.open(renamed) as trace:
        assert not delivered(trace)
        assert trace.findings


def test_an_unknown_record_is_only_odd() -> None:
    trace = FxtTrace(encoded([*HEAD, Opaque(words(0x2E, 5)), *instants(0, 2)]))
    assert list(trace)[3] == Opaque(words(0x2E, 5))
    assert rules(trace.findings) == {"fxt.framing.unknown-record": 1}
