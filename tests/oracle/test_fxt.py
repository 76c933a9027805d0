"""The FXT oracle against words that other projects publish, and against itself.

Strategy: each golden vector must hold in both directions. What the vectors leave out is generated: every kind of record
must survive build and parse in both byte orders, and damaged bytes must either be refused or come back exactly as they
were. What the specification forbids is listed one by one.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.fxt import OracleError, build_record, parse_record, split
from oracle.fxt_golden import BUILD_ID, GOLDEN, at, event, inline, module, words
from oracle.fxt_records import RECORD
from oracle.fxt_strategies import records, records_by_kind
from oracle.fxt_words import ByteOrder, Record, Word, field, reserved

BYTE_ORDERS: list[ByteOrder] = ["little", "big"]
KINDS = sorted(records_by_kind())

# Construct is slow, and the kinds are many: a share of the profile's examples for each.
a_share = settings(max_examples=max(10, settings().max_examples // 4))
byte_orders = pytest.mark.parametrize("byteorder", BYTE_ORDERS)


def instant(**changed: Any) -> Record:
    return event("instant", 1, at(1), at(2), at(3)) | changed


# --- Golden vectors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", GOLDEN)
def test_parse_gives_the_published_meaning(source: str) -> None:
    data, meaning = GOLDEN[source]
    assert parse_record(data) == meaning


@pytest.mark.parametrize("source", GOLDEN)
def test_build_gives_the_published_bytes(source: str) -> None:
    data, meaning = GOLDEN[source]
    assert build_record(meaning) == data


def test_golden_vectors_split_where_they_were_joined() -> None:
    vectors = [data for data, _ in GOLDEN.values()]
    assert split(b"".join(vectors)) == vectors


def test_big_endian_magic_of_the_specification() -> None:
    assert build_record({"kind": "magic"}, "big") == bytes.fromhex("00 16 54 78 46 04 00 10")
    assert parse_record(bytes.fromhex("00 16 54 78 46 04 00 10"), "big") == {"kind": "magic"}


def test_big_endian_swaps_words_but_not_streams() -> None:
    data = bytes.fromhex("0000000500010022") + b"hello\0\0\0"
    assert parse_record(data, "big") == {"kind": "string", "string_index": 1, "string_value": b"hello"}


# --- Properties -----------------------------------------------------------------------------------------------------


def test_there_is_a_strategy_for_every_layout() -> None:
    assert sorted([layout.name for layout in RECORD.layouts] + ["unknown"]) == KINDS


@pytest.mark.full
@byte_orders
@pytest.mark.parametrize("kind", KINDS)
@a_share
@given(data=st.data())
def test_every_kind_survives_build_and_parse(kind: str, byteorder: ByteOrder, data: st.DataObject) -> None:
    record = data.draw(records_by_kind(byteorder)[kind])
    built = build_record(record, byteorder)
    assert parse_record(built, byteorder) == record
    assert split(built, byteorder) == [built]


@given(record=records(), data=st.data())
def test_a_flipped_bit_is_refused_or_comes_back(record: Record, data: st.DataObject) -> None:
    built = bytearray(build_record(record))
    bit = data.draw(st.integers(0, 8 * len(built) - 1))
    built[bit // 8] ^= 1 << bit % 8
    try:
        parsed = parse_record(bytes(built))
    except OracleError:
        return
    assert build_record(parsed) == bytes(built)


@given(st.lists(st.binary(min_size=8, max_size=8), min_size=1, max_size=12))
def test_arbitrary_words_are_refused_or_come_back(values: list[bytes]) -> None:
    first = int.from_bytes(values[0], "little") & ~0xFFF0 | len(values) << 4
    data = b"".join([words(first), *values[1:]])
    try:
        parsed = parse_record(data)
    except OracleError:
        return
    assert build_record(parsed) == data


# --- What is refused ------------------------------------------------------------------------------------------------

FORBIDDEN = {
    "no bytes": b"",
    "half a header": b"\x10\0\4\x46",
    "a zero word": words(0),
    "less than the size says": words(0x1234777701020024),
    "two records": words(0x0016547846040010, 0x0016547846040010),
    "half a word left over": words(0x0016547846040010) + b"1234",
    "wrong magic number": words(0x0016547847040010),
    "magic with a second word": words(0x0016547846040020, 0),
    "a word too many after a duration begin": words(0x1234777701020034, 1, 0),
    "two words too many after an instant": words(0x1234777701000044, 1, 0, 0),
    "three words of initialization": words(0x31, 1000, 5),
    "five words of initialization": words(0x51, 1000, 5, 6, 7),
    "counter without its id": words(0x1234777701010024, 1),
    "reserved bits of a thread record": words(0x01AA0033, 1, 2),
    "bit 31 of a string record": words(0x0000000180010022, 0x61),
    "bit 47 of a string record": words(0x0000800100010022, 0x61),
    "reserved bits of a string record": words(0x0001000100010022, 0x61),
    "padding of a string record": words(0x0000000100010022, 0x0161),
    "padding of a provider name, by ocaml-trace t2": words(0x0020000000110030, 0x72742D6C6D61636F, 0x656361),
    "flags in a backtrace, by Rust fxt": words(0x000000202002006A, 7000, 789, 987, 0x402A964B1499, 0x4AE0293B),
    "mmap two words short": words(0x000070001001005A, 0, 1, 2, 3),
    "argument of size zero": words(0x1234777701100034, 1, 0),
    "argument beyond the record": words(0x1234777701100034, 1, 0x20),
    "argument shorter than its content": words(0x1234777701100044, 1, 0x13, 5),
    "argument longer than its content": words(0x1234777701100044, 1, 0x20, 0),
    "reserved bits of a null argument": words(0x1234777701100034, 1, 0x100000010),
    "second bit of a bool argument": words(0x1234777701100034, 1, 0x300000019),
    "padding of a blob argument": words(0x1234777701100044, 1, 0x10000002A, 0x0101),
    "blob size of a large blob too small": words(0x000001000000005F, 0, 1, 1, 0),
    "blob size of a large blob too large": words(0x000001000000004F, 0, 9, 1),
}


@pytest.mark.parametrize("case", FORBIDDEN)
def test_parse_refuses(case: str) -> None:
    with pytest.raises(OracleError):
        parse_record(FORBIDDEN[case])


UNSAYABLE: dict[str, Record] = {
    "no kind": {},
    "a kind of nobody's": {"kind": "nothing"},
    "a missing value": {"kind": "provider_section"},
    "a value too many": {"kind": "magic", "provider_id": 1},
    "a provider id of 33 bits": {"kind": "provider_section", "provider_id": 2**32},
    "a negative provider id": {"kind": "provider_section", "provider_id": -1},
    "a text": {"kind": "string", "string_index": 1, "string_value": "text"},
    "a provider name of 256 bytes": {"kind": "provider_info", "provider_id": 1, "provider_name": bytes(256)},
    "the magic number as other trace info": {"kind": "trace_info", "trace_info_type": 0, "varies": 0, "payload": b""},
    "half an anchor": {"kind": "initialization", "ticks_per_second": 1, "base_ticks": 1},
    "negative ticks": instant(timestamp=-1),
    "ticks of 65 bits": instant(timestamp=2**64),
    "string index of 16 bits": instant(name=at(0x8000)),
    "negative string index": instant(name=at(-1)),
    "an inline string of 32768 bytes": instant(name=inline(bytes(0x8000))),
    "a string ref of both forms": instant(name=at(1) | inline(b"a")),
    "thread index 0": instant(thread=at(0)),
    "thread index of 9 bits": instant(thread=at(256)),
    "an inline thread without thread id": instant(thread={"process": 1}),
    "16 arguments": instant(args=[{"type": "null", "name": at(1)}] * 16),
    "a value for a null argument": instant(args=[{"type": "null", "name": at(1), "value": 0}]),
    "an int32 of 33 bits": instant(args=[{"type": "int32", "name": at(1), "value": 2**31}]),
    "a bool of 2": instant(args=[{"type": "bool", "name": at(1), "value": 2}]),
    "a known argument as unknown": instant(args=[{"type": "unknown", "raw": words(0x10)}]),
    "an unknown argument with a wrong size": instant(args=[{"type": "unknown", "raw": words(0x2F)}]),
    "a known record as unknown": {"kind": "unknown", "raw": words(0x0016547846040010)},
    "an unknown record with a wrong size": {"kind": "unknown", "raw": words(0x2E)},
    "pid_only with an index": module(1, at(1), 1, b"", pid_only=True),
    "half a backtrace record": {"kind": "profiler_backtrace", "timestamp": 1, "thread": at(1), "backtrace_data": b"1"},
    "a record of 4096 words": {"kind": "log", "timestamp": 1, "thread": at(1), "log_message": bytes(4094 * 8 - 7)},
}


@pytest.mark.parametrize("case", UNSAYABLE)
def test_build_refuses(case: str) -> None:
    with pytest.raises(OracleError):
        build_record(UNSAYABLE[case])


@pytest.mark.parametrize("last", [30, 32])
def test_words_must_cover_all_bits_once(last: int) -> None:
    with pytest.raises(AssertionError, match="once each"):
        Word("header", field(0, last, "left"), reserved(32, 63))


# --- Limits ---------------------------------------------------------------------------------------------------------


@byte_orders
def test_largest_record(byteorder: ByteOrder) -> None:
    record = {"kind": "log", "timestamp": 1, "thread": at(1), "log_message": bytes(4093 * 8)}
    built = build_record(record, byteorder)
    assert len(built) == 4095 * 8
    assert parse_record(built, byteorder) == record


def test_most_arguments() -> None:
    record = instant(args=[{"type": "null", "name": at(1)}] * 15)
    assert parse_record(build_record(record)) == record


@byte_orders
def test_large_record_beyond_12_bits_of_size(byteorder: ByteOrder) -> None:
    record = {"kind": "large_blob_no_metadata", "category": at(1), "name": at(2), "payload": bytes(100_001)}
    built = build_record(record, byteorder)
    assert split(built + built, byteorder) == [built, built]
    assert parse_record(built, byteorder) == record


@pytest.mark.parametrize("one_short", [True, False])
def test_pid_only_follows_from_the_record_size(one_short: bool) -> None:
    thread = {"process": 7} if one_short else {"process": 7, "thread": 8}
    for record in [
        module(1, thread, 2, b"name", build_id=BUILD_ID),
        {"kind": "profiler_backtrace", "timestamp": 1, "thread": thread, "backtrace_data": words(5, 6)},
    ]:
        expected = record | ({"pid_only": True} if one_short else {})
        assert parse_record(build_record(expected)) == expected
